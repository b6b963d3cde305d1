// Use after close, close during use, and handles that are not closed.

package esker_test

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"esker.dev/esker"
)

func TestUseAfterCloseOfTheStore(t *testing.T) {
	db := ok[*esker.DB](t)(esker.Open("/store", memory(t)))
	must(t, db.Put([]byte("a"), []byte("1")))
	keyspace := ok[*esker.Keyspace](t)(db.Keyspace("k", nil))
	must(t, keyspace.Put([]byte("a"), []byte("1")))
	snapshot := ok[*esker.Snapshot](t)(db.Snapshot())
	it := ok[*esker.Iterator](t)(db.Iterator(nil))
	transaction := ok[*esker.Transaction](t)(db.Begin(nil))
	must(t, db.Close())
	must(t, db.Close())
	refusedAll(t, db, keyspace)
	_, _, err := snapshot.Get([]byte("a"))
	isKind(t, err, esker.ErrClosed)
	_, err = snapshot.In(keyspace).MultiGet([][]byte{[]byte("a")})
	isKind(t, err, esker.ErrClosed)
	isKind(t, transaction.Put([]byte("a"), nil), esker.ErrClosed)
	isKind(t, transaction.Commit(), esker.ErrClosed)
	must(t, transaction.Close())
	// An iterator goes on.
	equal(t, it.First(), true)
	equal(t, string(it.Key()), "a")
	must(t, it.Close())
	must(t, snapshot.Close())
}

// refusedAll calls everything on a closed store.
func refusedAll(t *testing.T, db *esker.DB, keyspace *esker.Keyspace) {
	t.Helper()
	key := []byte("a")
	var errs []error
	add := func(more ...error) { errs = append(errs, more...) }
	one := func(_ any, err error) { errs = append(errs, err) }
	spaces := []interface {
		Get([]byte) ([]byte, bool, error)
		GetInto(dst, key []byte) ([]byte, bool, error)
		Has([]byte) (bool, error)
		MultiGet([][]byte) ([][]byte, error)
		Put(key, value []byte, d ...esker.Durability) error
		PutWithTTL(key, value []byte, ttl time.Duration, d ...esker.Durability) error
		Merge(key, value []byte, d ...esker.Durability) error
		Delete(key []byte, d ...esker.Durability) error
		Take([]byte) (bool, error)
		DeleteRange(start, end []byte, d ...esker.Durability) error
		Touch([]byte, time.Duration) (bool, error)
		GetWithExpiry([]byte) ([]byte, time.Time, bool, error)
		Iterator(*esker.IterOptions) (*esker.Iterator, error)
		CompactRange(ctx context.Context, start, end []byte) error
	}{db, keyspace}
	for _, space := range spaces {
		_, _, err := space.Get(key)
		add(err)
		_, _, err = space.GetInto(nil, key)
		add(err)
		one(space.Has(key))
		one(space.MultiGet([][]byte{key}))
		add(space.Put(key, key), space.PutWithTTL(key, key, 1), space.Merge(key, key))
		add(space.Delete(key))
		one(space.Take(key))
		add(space.DeleteRange(key, key))
		one(space.Touch(key, 1))
		_, _, _, err = space.GetWithExpiry(key)
		add(err)
		one(space.Iterator(nil))
		add(space.CompactRange(background, nil, nil))
	}
	one(db.Snapshot())
	one(db.Begin(nil))
	one(db.Keyspace("k", nil))
	one(db.FindKeyspace("k"))
	one(db.Keyspaces())
	one(db.OpenMetrics())
	one(db.ApproximateSize(nil, nil))
	one(db.PreparedTransactions())
	one(db.StoreID())
	one(db.RecoveryNotes())
	one(db.RunOneJob())
	add(db.RenameKeyspace("k", "l"))
	add(db.DropKeyspace("k"))
	add(db.Flush(background))
	add(db.WaitIdle(background))
	add(db.Verify(background))
	add(db.Sync())
	add(db.Checkpoint(background, "/copy"))
	add(db.SetOption("max_background_jobs", "1"))
	add(db.CommitPrepared("x"))
	add(db.RollbackPrepared("x"))
	add(keyspace.Clear())
	one(keyspace.SizeBytes())
	add(db.Transact(background, nil, func(*esker.Transaction) error { return nil }))
	_, _, err := db.Backup(background, "/backup", nil)
	add(err)
	var batch esker.Batch
	batch.Put(key, key)
	add(db.Write(&batch), db.WriteWithin(time.Second, &batch))
	_, _, err = db.Stall()
	add(err)
	for i, err := range errs {
		if !errors.Is(err, esker.ErrClosed) || !errors.Is(err, fs.ErrClosed) {
			t.Errorf("call %d on a closed store: %v", i, err)
		}
	}
	for _, err := range db.Range(nil, nil) {
		isKind(t, err, esker.ErrClosed)
	}
	if _, ok := db.Property("esker.stats"); ok {
		t.Error("a closed store has properties")
	}
}

func TestUseAfterCloseOfOtherObjects(t *testing.T) {
	db := newStore(t)
	must(t, db.Put([]byte("a"), []byte("1")))
	keyspace := ok[*esker.Keyspace](t)(db.Keyspace("k", nil))
	snapshot := ok[*esker.Snapshot](t)(db.Snapshot())
	view := snapshot.In(keyspace)
	it := ok[*esker.Iterator](t)(snapshot.Iterator(nil))
	transaction := ok[*esker.Transaction](t)(db.Begin(nil))
	part := transaction.In(keyspace)
	own := ok[*esker.Iterator](t)(transaction.Iterator(nil))
	equal(t, it.First(), true)
	for range 2 {
		must(t, snapshot.Close())
		must(t, keyspace.Close())
		must(t, transaction.Close())
	}
	_, _, err := snapshot.Get([]byte("a"))
	isKind(t, err, esker.ErrClosed)
	_, err = snapshot.Has(nil)
	isKind(t, err, esker.ErrClosed)
	_, _, err = view.Get([]byte("a"))
	isKind(t, err, esker.ErrClosed)
	_, _, err = keyspace.Get([]byte("a"))
	isKind(t, err, esker.ErrClosed)
	var batch esker.Batch
	batch.PutIn(keyspace, nil, nil)
	isKind(t, db.Write(&batch), esker.ErrClosed)
	isKind(t, transaction.Put(nil, nil), esker.ErrClosed)
	isKind(t, part.Put(nil, nil), esker.ErrClosed)
	isKind(t, transaction.Rollback(), esker.ErrClosed)
	isKind(t, transaction.Savepoint(), esker.ErrClosed)
	isKind(t, transaction.Prepare("x"), esker.ErrClosed)
	equal(t, transaction.ID(), 0)
	_, err = transaction.Iterator(nil)
	isKind(t, err, esker.ErrClosed)
	equal(t, own.First(), false)
	isKind(t, own.Err(), esker.ErrInvalidArgument)
	if own.Close() == nil {
		t.Error("the failure is lost")
	}
	// The iterator of a snapshot outlives it.
	equal(t, it.Next(), false)
	equal(t, it.First(), true)
	must(t, it.Close())
	must(t, it.Close())
	equal(t, it.Valid(), false)
	equal(t, it.Key() == nil && it.Value() == nil, true)
	equal(t, it.First(), false)
	isKind(t, it.Err(), esker.ErrClosed)
	equal(t, it.Next(), false)
	// Values without Open are closed, too.
	isKind(t, new(esker.DB).Put(nil, nil), esker.ErrInvalidArgument)
	if err := new(esker.DB).Close(); err == nil {
		t.Error("a store that was never opened was closed")
	}
	_, _, err = new(esker.Keyspace).Get(nil)
	if err == nil {
		t.Error("a keyspace that was never opened was read")
	}
}

func TestCloseDuringUse(t *testing.T) {
	for round := range 8 {
		options := memory(t)
		db := ok[*esker.DB](t)(esker.Open("/store", options))
		for i := range 100 {
			must(t, db.Put([]byte{byte(i)}, make([]byte, 100)))
		}
		keyspace := ok[*esker.Keyspace](t)(db.Keyspace("k", nil))
		snapshot := ok[*esker.Snapshot](t)(db.Snapshot())
		it := ok[*esker.Iterator](t)(db.Iterator(nil))
		transaction := ok[*esker.Transaction](t)(db.Begin(nil))
		var running sync.WaitGroup
		var stop atomic.Bool
		work := func(call func() error) {
			running.Add(1)
			go func() {
				defer running.Done()
				for !stop.Load() {
					err := call()
					// The library refuses a second goroutine on a transaction.
					if err != nil && !errors.Is(err, esker.ErrClosed) &&
						!errors.Is(err, esker.ErrInvalidArgument) {
						t.Error(err)
						return
					}
				}
			}()
		}
		for range 2 {
			work(func() error { _, _, err := db.Get([]byte{7}); return err })
			work(func() error { return keyspace.Put([]byte{8}, []byte{8}) })
			work(func() error { _, _, err := snapshot.Get([]byte{7}); return err })
			work(func() error { return transaction.Put([]byte{9}, []byte{9}) })
			work(func() error { it.Next(); it.First(); return nil })
			work(func() error {
				for _, err := range db.Range(nil, nil) {
					if err != nil {
						return err
					}
				}
				return nil
			})
		}
		time.Sleep(time.Duration(round) * time.Millisecond)
		if round%2 == 0 {
			must(t, db.Close())
		}
		must(t, snapshot.Close())
		must(t, it.Close())
		must(t, keyspace.Close())
		must(t, transaction.Close())
		must(t, db.Close())
		stop.Store(true)
		running.Wait()
		// All is freed: the store can be opened again.
		again := ok[*esker.DB](t)(esker.Open("/store", options))
		must(t, again.Close())
	}
}

// leak leaves handles behind. It is not inlined, so that nothing of it stays on the stack.
//
//go:noinline
func leak(t *testing.T, options *esker.Options) {
	db := ok[*esker.DB](t)(esker.Open("/leaked", options))
	ok[*esker.Iterator](t)(db.Iterator(nil)).First()
	ok[*esker.Snapshot](t)(db.Snapshot())
	ok[*esker.Transaction](t)(db.Begin(nil))
	ok[*esker.Keyspace](t)(db.Keyspace("quiet", nil))
	ok[*esker.Changes](t)(db.Changes(0))
	ok[*esker.ChangeWriter](t)(esker.NewChangeWriter(db, io.Discard))
	file := filepath.Join(t.TempDir(), "leaked.sst")
	ok[*esker.SortedWriter](t)(esker.NewSortedWriter(file, nil))
}

func TestLeakedHandlesWarnAndAreFreed(t *testing.T) {
	takeLeaks()
	options := memory(t)
	leak(t, options)
	var warnings []string
	missing := []string{"a store was", "an iterator was", "a snapshot was", "a transaction was",
		"a change feed was", "a change writer was", "a sorted writer was"}
	for len(missing) > 0 {
		warnings = append(warnings, takeLeaks()...)
		text := strings.Join(warnings, "\n")
		rest := missing[:0:0]
		for _, what := range missing {
			if !strings.Contains(text, what) {
				rest = append(rest, what)
			}
		}
		missing = rest
	}
	equal(t, len(warnings), 7)
	for _, warning := range warnings {
		if !strings.Contains(warning, "esker_test.leak") {
			t.Errorf("the warning does not show where the handle was created: %s", warning)
		}
	}
	// The leaked store was closed, so that it can be opened.
	for {
		db, err := esker.Open("/leaked", options)
		if err == nil {
			must(t, db.Close())
			return
		}
		isKind(t, err, esker.ErrLocked)
		time.Sleep(time.Millisecond)
	}
}
