// Many goroutines at once. Run with -race, the race detector watches them.

package esker_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"esker.dev/esker"
)

func TestManyGoroutines(t *testing.T) {
	db := newStore(t)
	keyspace := ok[*esker.Keyspace](t)(db.Keyspace("k", nil))
	var running sync.WaitGroup
	var written atomic.Int64
	check := func(err error) {
		if err != nil {
			t.Error(err)
		}
	}
	const writers, rounds = 4, 200
	for w := range writers {
		running.Add(2)
		go func() { // writes the same number to both keyspaces, with one batch
			defer running.Done()
			var batch esker.Batch
			for i := range rounds {
				key, value := []byte{byte(w)}, binary.BigEndian.AppendUint64(nil, uint64(i))
				batch.Reset()
				batch.Put(key, value)
				batch.PutIn(keyspace, key, value)
				check(db.Write(&batch))
				check(db.Put(fmt.Appendf(nil, "own %d", w), value))
				written.Add(1)
			}
		}()
		go func() { // a snapshot has the same numbers in both
			defer running.Done()
			for range rounds {
				snapshot, err := db.Snapshot()
				check(err)
				first, _, err := snapshot.Get([]byte{byte(w)})
				check(err)
				second, _, err := snapshot.In(keyspace).Get([]byte{byte(w)})
				check(err)
				if !bytes.Equal(first, second) {
					t.Errorf("a torn batch: %x and %x", first, second)
				}
				check(snapshot.Close())
				for pair, err := range keyspace.Range(nil, nil) {
					check(err)
					if len(pair.Value) != 8 {
						t.Errorf("%x", pair.Value)
					}
				}
			}
		}()
	}
	running.Wait()
	equal(t, written.Load(), int64(writers*rounds))
	equal(t, len(pairs(t, keyspace.Range(nil, nil))) > 0, true)
}

// Goroutines that share what only one may use get errors or their turn, but no wrong memory.
func TestWrongSharing(t *testing.T) {
	db := newStore(t)
	for i := range 200 {
		must(t, db.Put(fmt.Appendf(nil, "%03d", i), make([]byte, 3000)))
	}
	it := ok[*esker.Iterator](t)(db.Iterator(nil))
	transaction := ok[*esker.Transaction](t)(db.Begin(nil))
	var running sync.WaitGroup
	for range 4 {
		running.Add(1)
		go func() {
			defer running.Done()
			for range 100 {
				if !it.Next() {
					it.First()
				}
				it.Prev()
				_ = transaction.Put([]byte("k"), []byte("v"))
				_, _, _ = transaction.Get([]byte("k"))
			}
		}()
	}
	running.Wait()
	must(t, it.Close())
	must(t, transaction.Close())
}
