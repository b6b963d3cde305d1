// Fuzz targets. `go test` runs their seeds; `go test -fuzz FuzzCalls` searches on.

package esker_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"path/filepath"
	"testing"
	"time"

	"esker.dev/esker"
)

// A fuzzInput gives out parts of the bytes of a fuzz target.
type fuzzInput struct {
	t     *testing.T
	input []byte
	at    int
}

func (f *fuzzInput) next() byte {
	if f.at >= len(f.input) {
		return 0
	}
	f.at++
	return f.input[f.at-1]
}

// take returns a key or value: nil, empty, short, or a short one many times.
func (f *fuzzInput) take() []byte {
	size := int(f.next())
	if size == 255 {
		return nil
	}
	end := min(f.at+size%9, len(f.input))
	taken := f.input[min(f.at, end):end]
	f.at = end
	return bytes.Repeat(taken, 1+size/9*40)
}

// check fails the test unless err has a kind that a wrong call has.
func (f *fuzzInput) check(err error) {
	var own *esker.Error
	if err == nil || errors.As(err, &own) && own.Kind != esker.ErrInternal &&
		own.Kind != esker.ErrCorruption {
		return
	}
	f.t.Fatal(err)
}

// FuzzCalls reads calls from bytes: of open and closed objects, in any order, with any arguments.
// They return, and fail only with the kinds that such calls have.
func FuzzCalls(f *testing.F) {
	f.Add([]byte{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20})
	f.Add(bytes.Repeat([]byte{7, 12, 3, 16, 250, 9, 18, 1}, 20))
	f.Add([]byte{20, 19, 18, 17, 16, 15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0})
	f.Fuzz(func(t *testing.T, input []byte) {
		in := &fuzzInput{t: t, input: input}
		next, take, check := in.next, in.take, in.check
		options := memory(t)
		options.MergeOperator = "append"
		db, err := esker.Open("/store", options)
		must(t, err)
		defer db.Close()
		keyspace := ok[*esker.Keyspace](t)(db.Keyspace("k", nil))
		snapshot := ok[*esker.Snapshot](t)(db.Snapshot())
		defer func() { snapshot.Close() }()
		it := ok[*esker.Iterator](t)(db.Iterator(nil))
		defer func() { it.Close() }()
		transaction := ok[*esker.Transaction](t)(db.Begin(nil))
		defer func() { transaction.Close() }()
		var batch esker.Batch
		for in.at < len(input) {
			switch next() % 24 {
			case 0:
				check(db.Put(take(), take(), esker.Durability(next()%5)))
			case 1:
				_, _, err := db.GetInto(take(), take())
				check(err)
			case 2:
				check(keyspace.Merge(take(), take()))
			case 3:
				it.Seek(take())
				check(it.Err())
			case 4:
				it.Next()
				check(it.Err())
			case 5:
				it.Prev()
				check(it.Err())
			case 6:
				_ = it.Close()
				check(it.Close())
			case 7:
				other, err := snapshot.Iterator(&esker.IterOptions{Start: take(), End: take()})
				if check(err); err == nil {
					_ = it.Close()
					it = other
				}
			case 8:
				other, err := transaction.Iterator(&esker.IterOptions{Start: take(), End: take()})
				if check(err); err == nil {
					_ = it.Close()
					it = other
				}
			case 9:
				check(snapshot.Close())
			case 10:
				check(transaction.Put(take(), take()))
			case 11:
				check(transaction.In(keyspace).DeleteRange(take(), take()))
			case 12:
				check(transaction.Commit())
			case 13:
				other, err := db.Begin(&esker.TransactionOptions{
					Isolation: esker.Isolation(next() % 3), Concurrency: esker.Concurrency(next() % 3),
					LockTimeout: -1})
				if check(err); err == nil {
					check(transaction.Close())
					transaction = other
				}
			case 14:
				batch.PutIn(keyspace, take(), take())
				batch.PutWithTTL(take(), take(), time.Duration(next())*time.Microsecond)
			case 15:
				batch.DeleteRange(take(), take())
				batch.Append(&batch)
				if batch.Len() > 500 {
					batch.Reset()
				}
			case 16:
				check(db.Write(&batch))
			case 17:
				for range batch.Operations() {
				}
			case 18:
				_, err := db.MultiGet([][]byte{take(), take(), nil})
				check(err)
			case 19:
				check(keyspace.Close())
			case 20:
				other, err := db.Keyspace(string(take()), nil)
				if check(err); err == nil {
					keyspace = other
				}
			case 21:
				check(db.DropKeyspace(string(take())))
			case 22:
				check(db.DeleteRange(take(), take()))
			default:
				if next() == 77 {
					check(db.Close())
				}
			}
		}
	})
}

// FuzzHandles does the same for the readers of the change feed, slots, differences, files of sorted
// pairs and streamed values.
func FuzzHandles(f *testing.F) {
	f.Add([]byte{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21})
	f.Add(bytes.Repeat([]byte{1, 3, 99, 5, 4, 14, 7, 2, 15, 9, 16, 17, 0, 12, 8}, 12))
	f.Add([]byte{21, 20, 19, 18, 17, 16, 15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0})
	f.Fuzz(func(t *testing.T, input []byte) {
		in := &fuzzInput{t: t, input: input}
		next, take, check := in.next, in.take, in.check
		dir, ctx := t.TempDir(), context.Background()
		db, err := esker.Open(filepath.Join(dir, "store"), nil)
		must(t, err)
		defer db.Close()
		must(t, db.Put([]byte("key"), bytes.Repeat([]byte("value"), 300)))
		slot := ok[*esker.Slot](t)(db.Subscribe("slot", nil))
		defer func() { slot.Close() }()
		changes := ok[*esker.Changes](t)(slot.Changes())
		defer func() { changes.Close() }()
		snapshot := ok[*esker.Snapshot](t)(db.Snapshot())
		defer snapshot.Close()
		diff := ok[*esker.Diff](t)(esker.NewDiff(snapshot, db, nil))
		defer func() { diff.Close() }()
		path := filepath.Join(dir, "sorted")
		writer := ok[*esker.SortedWriter](t)(esker.NewSortedWriter(path, nil))
		defer func() { writer.Close() }()
		value, _, err := db.GetReader([]byte("key"))
		must(t, err)
		defer func() { value.Close() }()
		for in.at < len(input) {
			switch next() % 22 {
			case 0:
				check(db.Put(take(), take()))
			case 1:
				_, err := changes.Poll()
				check(err)
			case 2:
				for _, err := range changes.All() {
					check(err)
				}
			case 3:
				check(slot.Confirm(uint64(next()) << (next() % 64)))
			case 4:
				_ = changes.Position()
				_, err := slot.Position()
				check(err)
			case 5:
				other, err := db.Changes(uint64(next()) << (next() % 64))
				if check(err); err == nil {
					check(changes.Close())
					changes = other
				}
			case 6:
				other, err := slot.Changes()
				if check(err); err == nil {
					check(changes.Close())
					changes = other
				}
			case 7:
				check(changes.Close())
			case 8:
				check(slot.Close())
			case 9:
				other, err := db.Subscribe(string(take()), &esker.SlotOptions{
					LagLimitBytes: uint64(next()) << (next() % 64)})
				if check(err); err == nil {
					check(slot.Close())
					slot = other
				}
			case 10:
				check(db.DropSlot(string(take())))
			case 11:
				_, err := diff.Next()
				check(err)
			case 12:
				_, _ = diff.Relation(), diff.KeyspacesOnlyInNew()
				check(diff.Close())
			case 13:
				var sides = []esker.DiffSource{db, snapshot, nil}
				other, err := esker.NewDiff(sides[next()%3], sides[next()%3],
					&esker.DiffOptions{Keyspace: string(take())})
				if check(err); err == nil {
					check(diff.Close())
					diff = other
				}
			case 14:
				check(writer.Put(take(), take()))
			case 15:
				check(writer.Merge(take(), take()))
				check(writer.Delete(take()))
			case 16:
				_, err := writer.Finish()
				check(err)
			case 17:
				// A file that is not finished is no table.
				_, err := db.Ingest(ctx, []string{path, string(take())}, nil)
				if !errors.Is(err, esker.ErrCorruption) {
					check(err)
				}
			case 18:
				_, err := value.Read(make([]byte, int(next())))
				if err != io.EOF {
					check(err)
				}
			case 19:
				_, err := value.ReadAt(make([]byte, int(next())), int64(next())<<(next()%63))
				if err != io.EOF {
					check(err)
				}
			case 20:
				_, err := db.PutReader(take(), bytes.NewReader(take()))
				check(err)
			default:
				if next() == 77 {
					check(value.Close())
					check(db.Close())
				}
			}
		}
	})
}
