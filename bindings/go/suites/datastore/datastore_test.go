// Package datastore_test runs the tests of IPFS's go-datastore over an adapter.
package datastore_test

import (
	"context"
	"testing"

	"esker.dev/esker"
	ds "github.com/ipfs/go-datastore"
	"github.com/ipfs/go-datastore/query"
	dstest "github.com/ipfs/go-datastore/test"
)

// store is an esker.DB as a datastore.Batching.
type store struct{ db *esker.DB }

func (s store) Get(_ context.Context, key ds.Key) ([]byte, error) {
	value, found, err := s.db.Get(key.Bytes())
	if err == nil && !found {
		err = ds.ErrNotFound
	}
	return value, err
}

func (s store) Has(_ context.Context, key ds.Key) (bool, error) { return s.db.Has(key.Bytes()) }

func (s store) GetSize(ctx context.Context, key ds.Key) (int, error) {
	value, err := s.Get(ctx, key)
	if err != nil {
		return -1, err
	}
	return len(value), nil
}

func (s store) Put(_ context.Context, key ds.Key, value []byte) error {
	return s.db.Put(key.Bytes(), value)
}

func (s store) Delete(_ context.Context, key ds.Key) error { return s.db.Delete(key.Bytes()) }
func (s store) Sync(context.Context, ds.Key) error         { return s.db.Sync() }
func (s store) Close() error                               { return s.db.Close() }

// Query scans the children of the prefix. The library filters, orders and limits the rest.
func (s store) Query(_ context.Context, q query.Query) (query.Results, error) {
	var prefix []byte
	if path := ds.NewKey(q.Prefix); q.Prefix != "" && path.String() != "/" {
		prefix = append(path.Bytes(), '/')
	}
	it, err := s.db.Iterator(&esker.IterOptions{Start: prefix, End: esker.PrefixEnd(prefix)})
	if err != nil {
		return nil, err
	}
	started := false
	rows := query.ResultsFromIterator(q, query.Iterator{
		Next: func() (query.Result, bool) {
			ok := started && it.Next() || !started && it.First()
			started = true
			if !ok {
				return query.Result{Error: it.Err()}, it.Err() != nil
			}
			entry := query.Entry{Key: string(it.Key()), Size: len(it.Value())}
			if !q.KeysOnly {
				entry.Value = append([]byte{}, it.Value()...)
			}
			return query.Result{Entry: entry}, true
		},
		Close: it.Close,
	})
	q.Prefix = ""
	return query.NaiveQueryApply(q, rows), nil
}

func (s store) Batch(context.Context) (ds.Batch, error) { return &batch{db: s.db}, nil }

type batch struct {
	esker.Batch
	db *esker.DB
}

func (b *batch) Put(_ context.Context, key ds.Key, value []byte) error {
	b.Batch.Put(key.Bytes(), value)
	return nil
}

func (b *batch) Delete(_ context.Context, key ds.Key) error {
	b.Batch.Delete(key.Bytes())
	return nil
}

func (b *batch) Commit(context.Context) error {
	defer b.Reset()
	return b.db.Write(&b.Batch)
}

var _ ds.Batching = store{}

func TestSuite(t *testing.T) {
	memory := esker.NewMemory()
	defer memory.Close()
	db, err := esker.Open("/store", &esker.Options{Memory: memory})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	dstest.SubtestAll(t, store{db})
}
