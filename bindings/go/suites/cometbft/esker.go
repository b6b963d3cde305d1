// The adapter of Esker as a backend of cometbft-db. It lies in the package db, because its tests
// run over the backends that the package has registered.

package db

import (
	"context"
	"fmt"
	"path/filepath"

	"esker.dev/esker"
)

func init() {
	registerDBCreator("esker", func(name, dir string) (DB, error) {
		db, err := esker.Open(filepath.Join(dir, name+".db"), nil)
		if err != nil {
			return nil, err
		}
		return &eskerDB{db}, nil
	})
}

type eskerDB struct{ db *esker.DB }

func (e *eskerDB) Get(key []byte) ([]byte, error) {
	if len(key) == 0 {
		return nil, errKeyEmpty
	}
	value, _, err := e.db.Get(key)
	return value, err
}

func (e *eskerDB) Has(key []byte) (bool, error) {
	if len(key) == 0 {
		return false, errKeyEmpty
	}
	return e.db.Has(key)
}

func (e *eskerDB) put(key, value []byte, durability esker.Durability) error {
	if len(key) == 0 {
		return errKeyEmpty
	}
	if value == nil {
		return errValueNil
	}
	return e.db.Put(key, value, durability)
}

func (e *eskerDB) Set(key, value []byte) error     { return e.put(key, value, esker.StoreDurability) }
func (e *eskerDB) SetSync(key, value []byte) error { return e.put(key, value, esker.Sync) }

func (e *eskerDB) remove(key []byte, durability esker.Durability) error {
	if len(key) == 0 {
		return errKeyEmpty
	}
	return e.db.Delete(key, durability)
}

func (e *eskerDB) Delete(key []byte) error     { return e.remove(key, esker.StoreDurability) }
func (e *eskerDB) DeleteSync(key []byte) error { return e.remove(key, esker.Sync) }

func (e *eskerDB) iterator(start, end []byte, backward bool) (Iterator, error) {
	if start != nil && len(start) == 0 || end != nil && len(end) == 0 {
		return nil, errKeyEmpty
	}
	it, err := e.db.Iterator(&esker.IterOptions{Start: start, End: end})
	if err != nil {
		return nil, err
	}
	if backward {
		it.Last()
	} else {
		it.First()
	}
	return &eskerIterator{it, start, end, backward}, nil
}

func (e *eskerDB) Iterator(start, end []byte) (Iterator, error) {
	return e.iterator(start, end, false)
}

func (e *eskerDB) ReverseIterator(start, end []byte) (Iterator, error) {
	return e.iterator(start, end, true)
}

func (e *eskerDB) Close() error { return e.db.Close() }

func (e *eskerDB) NewBatch() Batch { return &eskerBatch{db: e.db} }

func (e *eskerDB) Print() error {
	for pair, err := range e.db.Range(nil, nil) {
		if err != nil {
			return err
		}
		fmt.Printf("[%X]:\t[%X]\n", pair.Key, pair.Value)
	}
	return nil
}

func (e *eskerDB) Stats() map[string]string {
	stats, _ := e.db.Property("esker.stats")
	return map[string]string{"esker.stats": stats}
}

func (e *eskerDB) Compact(start, end []byte) error {
	return e.db.CompactRange(context.Background(), start, end)
}

type eskerIterator struct {
	*esker.Iterator
	start, end []byte
	backward   bool
}

func (i *eskerIterator) Domain() (start, end []byte) { return i.start, i.end }
func (i *eskerIterator) Error() error                { return i.Err() }

func (i *eskerIterator) check() {
	if !i.Valid() {
		panic("the iterator is not at a key")
	}
}

func (i *eskerIterator) Next() {
	i.check()
	if i.backward {
		i.Iterator.Prev()
	} else {
		i.Iterator.Next()
	}
}

func (i *eskerIterator) Key() []byte {
	i.check()
	return append([]byte{}, i.Iterator.Key()...)
}

func (i *eskerIterator) Value() []byte {
	i.check()
	return append([]byte{}, i.Iterator.Value()...)
}

type eskerBatch struct {
	batch esker.Batch
	db    *esker.DB
	ended bool
}

func (b *eskerBatch) Set(key, value []byte) error {
	switch {
	case len(key) == 0:
		return errKeyEmpty
	case value == nil:
		return errValueNil
	case b.ended:
		return errBatchClosed
	}
	b.batch.Put(key, value)
	return nil
}

func (b *eskerBatch) Delete(key []byte) error {
	switch {
	case len(key) == 0:
		return errKeyEmpty
	case b.ended:
		return errBatchClosed
	}
	b.batch.Delete(key)
	return nil
}

func (b *eskerBatch) write(durability esker.Durability) error {
	if b.ended {
		return errBatchClosed
	}
	b.ended = true
	return b.db.Write(&b.batch, durability)
}

func (b *eskerBatch) Write() error     { return b.write(esker.StoreDurability) }
func (b *eskerBatch) WriteSync() error { return b.write(esker.Sync) }

func (b *eskerBatch) Close() error {
	b.ended = true
	return nil
}
