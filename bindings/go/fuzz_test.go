// Fuzz targets. `go test` runs their seeds; `go test -fuzz FuzzCalls` searches on.

package esker_test

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"esker.dev/esker"
)

// FuzzCalls reads calls from bytes: of open and closed objects, in any order, with any arguments.
// They return, and fail only with the kinds that such calls have.
func FuzzCalls(f *testing.F) {
	f.Add([]byte{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20})
	f.Add(bytes.Repeat([]byte{7, 12, 3, 16, 250, 9, 18, 1}, 20))
	f.Add([]byte{20, 19, 18, 17, 16, 15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0})
	f.Fuzz(func(t *testing.T, input []byte) {
		at := 0
		next := func() byte {
			if at >= len(input) {
				return 0
			}
			at++
			return input[at-1]
		}
		take := func() []byte {
			size := int(next())
			if size == 255 {
				return nil
			}
			end := min(at+size%9, len(input))
			taken := input[min(at, end):end]
			at = end
			return bytes.Repeat(taken, 1+size/9*40)
		}
		check := func(err error) {
			var own *esker.Error
			if err == nil || errors.As(err, &own) && own.Kind != esker.ErrInternal &&
				own.Kind != esker.ErrCorruption {
				return
			}
			t.Fatal(err)
		}
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
		for at < len(input) {
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
