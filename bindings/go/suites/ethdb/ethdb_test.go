// Package ethdb_test runs go-ethereum's tests of key-value stores over an adapter.
package ethdb_test

import (
	"context"
	"errors"
	"testing"

	"esker.dev/esker"
	"github.com/ethereum/go-ethereum/ethdb"
	"github.com/ethereum/go-ethereum/ethdb/dbtest"
)

var errMissing = errors.New("there is no such key")

// store is an esker.DB as an ethdb.KeyValueStore.
type store struct{ db *esker.DB }

func (s store) Has(key []byte) (bool, error) { return s.db.Has(key) }

func (s store) Get(key []byte) ([]byte, error) {
	value, found, err := s.db.Get(key)
	if err == nil && !found {
		err = errMissing
	}
	return value, err
}

func (s store) Put(key, value []byte) error { return s.db.Put(key, value) }
func (s store) Delete(key []byte) error     { return s.db.Delete(key) }

// endOf returns the end of a range; nil is the greatest key of a database.
func endOf(end []byte) []byte {
	if end == nil {
		return ethdb.MaximumKey
	}
	return end
}

func (s store) DeleteRange(start, end []byte) error { return s.db.DeleteRange(start, endOf(end)) }

func (s store) Stat() (string, error) {
	stats, found := s.db.Property("esker.stats")
	if !found {
		return "", esker.ErrClosed
	}
	return stats, nil
}

func (s store) SyncKeyValue() error { return s.db.Sync() }

func (s store) Compact(start, limit []byte) error {
	return s.db.CompactRange(context.Background(), start, limit)
}

func (s store) Close() error { return s.db.Close() }

func (s store) NewBatch() ethdb.Batch            { return &batch{db: s.db} }
func (s store) NewBatchWithSize(int) ethdb.Batch { return s.NewBatch() }

func (s store) NewIterator(prefix, start []byte) ethdb.Iterator {
	first := append(append([]byte{}, prefix...), start...)
	it, err := s.db.Iterator(&esker.IterOptions{Start: first, End: esker.PrefixEnd(prefix)})
	return &iterator{it: it, err: err}
}

type batch struct {
	esker.Batch
	db   *esker.DB
	size int
}

func (b *batch) Put(key, value []byte) error {
	b.Batch.Put(key, value)
	b.size += len(key) + len(value)
	return nil
}

func (b *batch) Delete(key []byte) error {
	b.Batch.Delete(key)
	b.size += len(key)
	return nil
}

func (b *batch) DeleteRange(start, end []byte) error {
	b.Batch.DeleteRange(start, endOf(end))
	b.size += len(start) + len(end)
	return nil
}

func (b *batch) ValueSize() int { return b.size }
func (b *batch) Write() error   { return b.db.Write(&b.Batch) }
func (b *batch) Close()         { b.Reset() }

func (b *batch) Reset() {
	b.Batch.Reset()
	b.size = 0
}

func (b *batch) Replay(w ethdb.KeyValueWriter) error {
	for op := range b.Operations() {
		var err error
		switch op.Kind {
		case esker.PutOperation:
			err = w.Put(op.Key, op.Value)
		case esker.DeleteOperation:
			err = w.Delete(op.Key)
		case esker.DeleteRangeOperation:
			ranges, ok := w.(ethdb.KeyValueRangeDeleter)
			if !ok {
				return errors.New("the target deletes no ranges")
			}
			err = ranges.DeleteRange(op.Key, op.Value)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

type iterator struct {
	it      *esker.Iterator
	started bool
	err     error
}

func (i *iterator) Next() bool {
	if i.err != nil {
		return false
	}
	if !i.started {
		i.started = true
		return i.it.First()
	}
	return i.it.Next()
}

func (i *iterator) Error() error {
	if i.err != nil {
		return i.err
	}
	return i.it.Err()
}

func (i *iterator) Key() []byte   { return i.it.Key() }
func (i *iterator) Value() []byte { return i.it.Value() }

func (i *iterator) Release() {
	if i.it != nil {
		i.it.Close()
	}
}

func open(t testing.TB) func() ethdb.KeyValueStore {
	return func() ethdb.KeyValueStore {
		memory := esker.NewMemory()
		db, err := esker.Open("/store", &esker.Options{Memory: memory})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { db.Close(); memory.Close() })
		return store{db}
	}
}

func TestSuite(t *testing.T) { dbtest.TestDatabaseSuite(t, open(t)) }

func BenchmarkSuite(b *testing.B) { dbtest.BenchDatabaseSuite(b, open(b)) }
