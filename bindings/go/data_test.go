// Merges, pairs that expire, transactions, backups and maintenance.

package esker_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"esker.dev/esker"
)

func TestBuiltInMerge(t *testing.T) {
	options := memory(t)
	options.MergeOperator = "add_i64"
	db := open(t, options)
	words := ok[*esker.Keyspace](t)(db.Keyspace("words", &esker.KeyspaceOptions{
		MergeOperator: "append(,)"}))
	for range 3 {
		must(t, db.Merge([]byte("visits"), []byte("2")))
		must(t, words.Merge([]byte("list"), []byte("w")))
	}
	equal(t, get(t, db, "visits"), "6")
	equal(t, get(t, words, "list"), "w,w,w")
	isKind(t, db.Merge([]byte("visits"), []byte("x")), esker.ErrInvalidArgument)
	options.MergeOperator = "nothing"
	_, err := esker.Open("/other", options)
	isKind(t, err, esker.ErrInvalidArgument)
}

func TestExpiry(t *testing.T) {
	db := newStore(t)
	must(t, db.PutWithTTL([]byte("gone"), []byte("v"), 0))
	must(t, db.PutWithTTL([]byte("hour"), []byte("v"), time.Hour))
	must(t, db.PutWithTTL([]byte("never"), []byte("v"), esker.Never))
	equal(t, get(t, db, "gone"), "none")
	value, expires, found, err := db.GetWithExpiry([]byte("hour"))
	if string(value) != "v" || !found || err != nil || time.Until(expires) > time.Hour ||
		time.Until(expires) < time.Minute {
		t.Fatal(value, expires, found, err)
	}
	_, expires, found, err = db.GetWithExpiry([]byte("never"))
	equal(t, expires.IsZero() && found && err == nil, true)
	_, _, found, err = db.GetWithExpiry([]byte("missing"))
	equal(t, !found && err == nil, true)
	equal(t, ok[bool](t)(db.Touch([]byte("hour"), 0)), true)
	equal(t, ok[bool](t)(db.Touch([]byte("hour"), time.Hour)), false)
	isKind(t, db.PutWithTTL(nil, nil, -time.Second), esker.ErrInvalidArgument)
	// A time is rounded up, so that a short one is not 0.
	must(t, db.PutWithTTL([]byte("short"), []byte("v"), time.Hour+time.Nanosecond))
	sessions := ok[*esker.Keyspace](t)(db.Keyspace("sessions", &esker.KeyspaceOptions{
		TTL: time.Hour}))
	must(t, sessions.Put([]byte("7"), []byte("ada")))
	_, expires, _, err = sessions.GetWithExpiry([]byte("7"))
	equal(t, !expires.IsZero() && err == nil, true)
}

func TestTransactions(t *testing.T) {
	db := newStore(t)
	keyspace := ok[*esker.Keyspace](t)(db.Keyspace("k", nil))
	must(t, db.Put([]byte("a"), []byte("1")))
	t1 := ok[*esker.Transaction](t)(db.Begin(nil))
	equal(t, get(t, t1, "a"), "1")
	must(t, t1.Put([]byte("b"), []byte("2")))
	must(t, t1.In(keyspace).Put([]byte("c"), []byte("3")))
	must(t, t1.Savepoint())
	must(t, t1.Delete([]byte("a")))
	must(t, t1.DeleteRange([]byte("b"), []byte("c")))
	equal(t, pairs(t, t1.Range(nil, nil)), "")
	must(t, t1.RollbackToSavepoint())
	isKind(t, t1.RollbackToSavepoint(), esker.ErrNotFound)
	must(t, t1.Savepoint())
	must(t, t1.PopSavepoint())
	equal(t, pairs(t, t1.RangeBackward(nil, nil)), "b=2 a=1 ")
	equal(t, pairs(t, t1.In(keyspace).Prefix([]byte("c"))), "c=3 ")
	equal(t, get(t, db, "b"), "none")
	must(t, t1.Commit())
	equal(t, get(t, db, "b"), "2")
	equal(t, get(t, keyspace, "c"), "3")
	isKind(t, t1.Commit(), esker.ErrClosed)

	// A conflict.
	t2 := ok[*esker.Transaction](t)(db.Begin(&esker.TransactionOptions{
		Isolation: esker.Serializable, Durability: esker.Sync}))
	_, _, err := t2.GetForUpdate([]byte("a"))
	must(t, err)
	must(t, db.Put([]byte("a"), []byte("9")))
	must(t, t2.Put([]byte("z"), nil))
	isKind(t, t2.Commit(), esker.ErrConflict)
	equal(t, get(t, db, "z"), "none")

	// A lock.
	lock := &esker.TransactionOptions{Concurrency: esker.Pessimistic, LockTimeout: -1}
	t3 := ok[*esker.Transaction](t)(db.Begin(lock))
	t4 := ok[*esker.Transaction](t)(db.Begin(lock))
	must(t, t3.Put([]byte("a"), nil))
	isKind(t, t4.Put([]byte("a"), nil), esker.ErrBusy)
	must(t, t3.Rollback())
	must(t, t4.Put([]byte("a"), []byte("4")))
	must(t, t4.Prepare("four"))
	isKind(t, t4.Put([]byte("a"), nil), esker.ErrClosed)
	equal(t, strings.Join(ok[[]string](t)(db.PreparedTransactions()), ","), "four")
	must(t, db.CommitPrepared("four"))
	equal(t, get(t, db, "a"), "4")
	isKind(t, db.CommitPrepared("four"), esker.ErrNotFound)
	isKind(t, db.RollbackPrepared("x\x00"), esker.ErrInvalidArgument)

	_, err = db.Begin(&esker.TransactionOptions{Isolation: 5})
	if !errors.Is(err, esker.ErrInvalidArgument) {
		t.Fatal(err)
	}
}

func TestIteratorOfATransactionShowsLaterWrites(t *testing.T) {
	db := newStore(t)
	for i := range 50 {
		must(t, db.Put(fmt.Appendf(nil, "%02d", 2*i), []byte("old")))
	}
	for _, isolation := range []esker.Isolation{esker.SnapshotIsolation, esker.Serializable} {
		transaction := ok[*esker.Transaction](t)(db.Begin(&esker.TransactionOptions{
			Isolation: isolation}))
		it := ok[*esker.Iterator](t)(transaction.Iterator(nil))
		equal(t, it.Seek([]byte("10")), true)
		must(t, transaction.Put([]byte("11"), []byte("new")))
		must(t, transaction.Delete([]byte("12")))
		equal(t, it.Next() && string(it.Key()) == "11" && string(it.Value()) == "new", true)
		equal(t, it.Next() && string(it.Key()) == "14", true)
		// Behind the position, and at it.
		must(t, transaction.DeleteRange([]byte("10"), []byte("15")))
		equal(t, it.Prev() && string(it.Key()) == "08", true)
		must(t, transaction.Put([]byte("08"), []byte("newer")))
		equal(t, it.Next() && string(it.Key()) == "16", true)
		equal(t, it.Prev() && string(it.Value()) == "newer", true)
		must(t, it.Close())
		must(t, transaction.Close())
	}
}

func TestTransactRunsAgain(t *testing.T) {
	db := newStore(t)
	add := func(t *esker.Transaction) error {
		value, _, err := t.Get([]byte("n"))
		if err != nil {
			return err
		}
		return t.Put([]byte("n"), append(value, 'x'))
	}
	var running sync.WaitGroup
	for range 4 {
		running.Add(1)
		go func() {
			defer running.Done()
			for range 25 {
				if err := db.Transact(background, nil, add); err != nil {
					t.Error(err)
				}
			}
		}()
	}
	running.Wait()
	equal(t, len(get(t, db, "n")), 100)

	own := errors.New("own")
	err := db.Transact(background, nil, func(t *esker.Transaction) error {
		_ = t.Put([]byte("other"), nil)
		return own
	})
	equal(t, err, own)
	equal(t, get(t, db, "other"), "none")
	func() {
		defer func() { equal(t, fmt.Sprint(recover()), "own panic") }()
		_ = db.Transact(background, nil, func(*esker.Transaction) error { panic("own panic") })
	}()
	ended, cancel := context.WithCancel(background)
	runs := 0
	err = db.Transact(ended, nil, func(transaction *esker.Transaction) error {
		if runs++; runs == 3 {
			cancel()
		}
		return &esker.Error{Kind: esker.ErrConflict}
	})
	equal(t, err, context.Canceled)
	equal(t, runs, 3)
}

func TestDeadlineLimitsTheWaitForALock(t *testing.T) {
	db := newStore(t)
	holder := ok[*esker.Transaction](t)(db.Begin(&esker.TransactionOptions{
		Concurrency: esker.Pessimistic}))
	defer holder.Close()
	must(t, holder.Put([]byte("a"), nil))
	soon, cancel := context.WithTimeout(background, 5*time.Millisecond)
	defer cancel()
	// Without the deadline, the wait would last an hour.
	options := &esker.TransactionOptions{Concurrency: esker.Pessimistic, LockTimeout: time.Hour}
	err := db.Transact(soon, options, func(transaction *esker.Transaction) error {
		return transaction.Put([]byte("a"), nil)
	})
	if !errors.Is(err, esker.ErrBusy) && !errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err)
	}
}

func TestBackups(t *testing.T) {
	dir := t.TempDir()
	store, backups := filepath.Join(dir, "store"), filepath.Join(dir, "backups")
	db := ok[*esker.DB](t)(esker.Open(store, nil))
	for i := range 3 {
		must(t, db.Put([]byte{byte(i)}, []byte("v")))
		number, copied, err := db.Backup(background, backups, nil)
		if err != nil || number != uint64(i+1) || copied == 0 {
			t.Fatal(number, copied, err)
		}
	}
	infos := ok[[]esker.BackupInfo](t)(esker.Backups(backups, nil))
	equal(t, len(infos), 3)
	if infos[2].Number != 3 || infos[2].Tables == 0 || infos[2].SizeBytes == 0 ||
		time.Since(infos[2].Created) > time.Hour || infos[2].Problem != "" {
		t.Fatalf("%+v", infos[2])
	}
	equal(t, ok[uint64](t)(esker.PruneBackups(backups, 2, nil)), 1)
	_, err := esker.PruneBackups(backups, 0, nil)
	isKind(t, err, esker.ErrInvalidArgument)
	_, err = esker.PruneBackups(backups, -1, nil)
	isKind(t, err, esker.ErrInvalidArgument)
	restored := filepath.Join(dir, "restored")
	equal(t, ok[uint64](t)(esker.Restore(background, backups, 2, restored, nil)), 2)
	_, err = esker.Restore(background, backups, 1, restored+"1", nil)
	isKind(t, err, esker.ErrNotFound)
	_, err = esker.Restore(background, backups, 0, restored, nil)
	isKind(t, err, esker.ErrInvalidArgument)
	other := ok[*esker.DB](t)(esker.Open(restored, nil))
	equal(t, pairs(t, other.Range(nil, nil)), "\x00=v \x01=v ")
	must(t, db.UpgradeFormat(2))
	must(t, db.Checkpoint(background, filepath.Join(dir, "checkpoint")))
	isKind(t, db.Checkpoint(background, restored), esker.ErrInvalidArgument)
	must(t, other.Close())
	must(t, db.Close())
	copied := ok[*esker.DB](t)(esker.OpenReadOnly(filepath.Join(dir, "checkpoint"), nil))
	equal(t, pairs(t, copied.Range(nil, nil)), "\x00=v \x01=v \x02=v ")
	isKind(t, copied.Put(nil, nil), esker.ErrReadOnly)
	must(t, copied.Close())
	must(t, esker.Remove(restored, nil))
	if _, err := os.Stat(restored); !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	_, err = esker.Backups(dir+"/none", nil)
	isKind(t, err, esker.ErrNotFound)
}

func TestMaintenance(t *testing.T) {
	options := memory(t)
	options.Settings = map[string]string{"memtable_size_bytes": "1MiB", "compression": "none"}
	db := open(t, options)
	_, err := esker.Open("/store", options)
	isKind(t, err, esker.ErrLocked)
	for i := range 2000 {
		must(t, db.Put(fmt.Appendf(nil, "%04d", i), make([]byte, 200)))
	}
	must(t, db.Flush(background))
	must(t, db.CompactRange(background, nil, nil))
	must(t, db.WaitIdle(background))
	must(t, db.Verify(background))
	if size := ok[uint64](t)(db.ApproximateSize(nil, nil)); size > 1<<20 {
		t.Errorf("%d bytes", size)
	}
	if size := ok[uint64](t)(db.ApproximateSize([]byte("0"), []byte("9"))); size < 200_000 {
		t.Errorf("%d bytes", size)
	}
	if metrics := ok[string](t)(db.OpenMetrics()); !strings.HasSuffix(metrics, "# EOF\n") {
		t.Error(metrics)
	}
	stats, found := db.Property("esker.stats")
	equal(t, found && stats != "", true)
	_, found = db.Property("esker.nothing")
	equal(t, found, false)
	value, found := db.Property("esker.option.compression")
	equal(t, value, "none")
	equal(t, found, true)
	isKind(t, db.SetOption("nothing", "1"), esker.ErrInvalidArgument)
	isKind(t, db.SetOption("compression", "\x00"), esker.ErrInvalidArgument)
	_, found = esker.SettingDefault("block_size")
	equal(t, found, true)
	_, found = esker.SettingDefault("nothing")
	equal(t, found, false)
	if len(esker.Version()) < 5 {
		t.Error(esker.Version())
	}
	ended, cancel := context.WithCancel(background)
	cancel()
	for _, err := range []error{db.Flush(ended), db.WaitIdle(ended), db.Verify(ended),
		db.CompactRange(ended, nil, nil), db.Checkpoint(ended, "/c")} {
		equal(t, err, context.Canceled)
	}
	living, cancel := context.WithCancel(background)
	must(t, db.Flush(living))
	cancel()
	_, err = esker.Open("/x", &esker.Options{Settings: map[string]string{"nothing": "1"}})
	isKind(t, err, esker.ErrInvalidArgument)
	_, err = esker.Open("", nil)
	isKind(t, err, esker.ErrInvalidArgument)
	_, err = esker.Open("a\x00b", nil)
	isKind(t, err, esker.ErrInvalidArgument)
	isKind(t, esker.Remove("/store", options), esker.ErrLocked)
}

func TestRepair(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	db := ok[*esker.DB](t)(esker.Open(dir, nil))
	must(t, db.Put([]byte("a"), []byte("1")))
	must(t, db.Flush(background))
	must(t, db.Close())
	equal(t, ok[string](t)(esker.Repair(dir, nil)), "")
	must(t, os.Remove(filepath.Join(dir, "CURRENT")))
	_, err := esker.Open(dir, nil)
	if err == nil {
		t.Fatal("a store without CURRENT was opened")
	}
	losses, err := esker.Repair(dir, nil)
	must(t, err)
	t.Log(losses)
	again := ok[*esker.DB](t)(esker.Open(dir, nil))
	equal(t, get(t, again, "a"), "1")
	must(t, again.Close())
	_, err = esker.Repair(filepath.Join(t.TempDir(), "none"), nil)
	if err == nil {
		t.Fatal("nothing was repaired")
	}
}
