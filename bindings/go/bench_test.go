// Benchmarks of calls: scripts/go.sh bench compares them with C and with goleveldb.

package esker_test

import (
	"encoding/binary"
	"testing"

	"esker.dev/esker"
)

const benchKeys = 10_000

func benchKey(i int) []byte {
	return binary.BigEndian.AppendUint64(nil, uint64(uint32(i)*7919%benchKeys))
}

func benchStore(b *testing.B) *esker.DB {
	db, err := esker.Open(b.TempDir()+"/db", nil)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { db.Close() })
	value := make([]byte, 100)
	for i := range benchKeys {
		if err := db.Put(binary.BigEndian.AppendUint64(nil, uint64(i)), value); err != nil {
			b.Fatal(err)
		}
	}
	return db
}

func BenchmarkGet(b *testing.B) {
	db := benchStore(b)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if _, found, err := db.Get(benchKey(i)); err != nil || !found {
			b.Fatal(found, err)
		}
	}
}

func BenchmarkGetInto(b *testing.B) {
	db := benchStore(b)
	room := make([]byte, 0, 256)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		var key [8]byte
		binary.BigEndian.PutUint64(key[:], uint64(uint32(i)*7919%benchKeys))
		if _, found, err := db.GetInto(room, key[:]); err != nil || !found {
			b.Fatal(found, err)
		}
	}
}

func BenchmarkPut(b *testing.B) {
	db := benchStore(b)
	value := make([]byte, 100)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if err := db.Put(benchKey(i), value); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkBatchOf100(b *testing.B) {
	db := benchStore(b)
	value := make([]byte, 100)
	var batch esker.Batch
	b.ReportAllocs()
	for i := 0; b.Loop(); {
		batch.Reset()
		for range 100 {
			batch.Put(benchKey(i), value)
			i++
		}
		if err := db.Write(&batch); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkScan(b *testing.B) {
	db := benchStore(b)
	it, err := db.Iterator(nil)
	if err != nil {
		b.Fatal(err)
	}
	defer it.Close()
	b.ReportAllocs()
	ok := it.First()
	for b.Loop() {
		if !ok {
			ok = it.First()
		}
		ok = it.Next()
	}
}

func BenchmarkRange(b *testing.B) {
	db := benchStore(b)
	b.ReportAllocs()
	for left := 0; b.Loop(); left-- {
		if left == 0 {
			for _, err := range db.Range(nil, nil) {
				if err != nil {
					b.Fatal(err)
				}
				left++
			}
		}
	}
}
