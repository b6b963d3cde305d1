// Iterators and loops over the keys that begin with a prefix.

package esker_test

import (
	"bytes"
	"fmt"
	"iter"
	"testing"

	"esker.dev/esker"
)

// prefixed is what a store, a keyspace, a view and a transaction have.
type prefixed interface {
	Prefix([]byte) iter.Seq2[esker.Pair, error]
	PrefixBackward([]byte) iter.Seq2[esker.Pair, error]
	Iterator(*esker.IterOptions) (*esker.Iterator, error)
}

// prefixKeys puts keys of which two begin with "user/".
func prefixKeys(t testing.TB, to interface {
	Put(key, value []byte, durability ...esker.Durability) error
}) {
	t.Helper()
	for _, key := range []string{"user", "user/1", "user/2", "user0", "\xff", "\xff\xff"} {
		must(t, to.Put([]byte(key), []byte("v")))
	}
}

func TestPrefixesInBothDirections(t *testing.T) {
	db := newStore(t)
	own := ok[*esker.Keyspace](t)(db.Keyspace("own", nil))
	prefixKeys(t, db)
	prefixKeys(t, own)
	snapshot := ok[*esker.Snapshot](t)(db.Snapshot())
	defer snapshot.Close()
	must(t, db.Delete([]byte("user/1")))
	must(t, own.Delete([]byte("user/2")))
	transaction := ok[*esker.Transaction](t)(db.Begin(nil))
	defer transaction.Close()
	must(t, transaction.Put([]byte("user/3"), []byte("v")))
	for _, c := range []struct {
		from             prefixed
		forward, reverse string
	}{
		{db, "user/2=v ", "user/2=v "},
		{own, "user/1=v ", "user/1=v "},
		{snapshot, "user/1=v user/2=v ", "user/2=v user/1=v "},
		{snapshot.In(own), "user/1=v user/2=v ", "user/2=v user/1=v "},
		{transaction, "user/2=v user/3=v ", "user/3=v user/2=v "},
		{transaction.In(own), "user/1=v ", "user/1=v "},
	} {
		equal(t, pairs(t, c.from.Prefix([]byte("user/"))), c.forward)
		equal(t, pairs(t, c.from.PrefixBackward([]byte("user/"))), c.reverse)
		equal(t, pairs(t, c.from.Prefix([]byte("\xff"))), "\xff=v \xff\xff=v ")
		equal(t, pairs(t, c.from.PrefixBackward([]byte("\xff"))), "\xff\xff=v \xff=v ")
		equal(t, pairs(t, c.from.Prefix([]byte("none"))), "")
		for _, all := range [][]byte{nil, {}} {
			first, last := "", ""
			for pair, err := range c.from.Prefix(all) {
				must(t, err)
				last = string(pair.Key)
			}
			for pair, err := range c.from.PrefixBackward(all) {
				must(t, err)
				first = string(pair.Key)
			}
			equal(t, first+" "+last, "user \xff\xff")
		}
	}
}

func TestIteratorOfAPrefixStaysWithinIt(t *testing.T) {
	db := newStore(t)
	prefixKeys(t, db)
	transaction := ok[*esker.Transaction](t)(db.Begin(nil))
	defer transaction.Close()
	for _, from := range []prefixed{db, transaction} {
		prefix := []byte("user/")
		it := ok[*esker.Iterator](t)(from.Iterator(&esker.IterOptions{Prefix: prefix, NoCache: true}))
		prefix[0] = 'x'
		equal(t, it.First() && string(it.Key()) == "user/1", true)
		equal(t, it.Next() && string(it.Key()) == "user/2", true)
		equal(t, it.Next(), false)
		equal(t, it.Last() && string(it.Key()) == "user/2", true)
		equal(t, it.Prev() && it.Prev(), false)
		equal(t, it.Seek([]byte("a")) && string(it.Key()) == "user/1", true)
		equal(t, it.Seek([]byte("user0")), false)
		equal(t, it.SeekForPrev([]byte("z")) && string(it.Key()) == "user/2", true)
		must(t, it.Close())
		for _, options := range []*esker.IterOptions{
			{Prefix: []byte("u"), Start: []byte("u")},
			{Prefix: []byte("u"), End: []byte{}},
		} {
			_, err := from.Iterator(options)
			isKind(t, err, esker.ErrInvalidArgument)
		}
	}
}

func TestPrefixesInOtherKeyOrders(t *testing.T) {
	options := memory(t)
	options.Comparators = []*esker.Comparator{{Name: "test.own", Compare: bytes.Compare}}
	db := open(t, options)
	down := ok[*esker.Keyspace](t)(db.Keyspace("down", &esker.KeyspaceOptions{
		KeyOrder: "esker.reverse"}))
	prefixKeys(t, down)
	equal(t, pairs(t, down.Prefix([]byte("user/"))), "user/2=v user/1=v ")
	equal(t, pairs(t, down.PrefixBackward([]byte("user/"))), "user/1=v user/2=v ")
	equal(t, pairs(t, down.Prefix([]byte("\xff"))), "\xff\xff=v \xff=v ")
	// An order of the program need not keep the keys of a prefix together.
	own := ok[*esker.Keyspace](t)(db.Keyspace("own", &esker.KeyspaceOptions{KeyOrder: "test.own"}))
	prefixKeys(t, own)
	for _, loop := range []iter.Seq2[esker.Pair, error]{
		own.Prefix([]byte("user/")), own.PrefixBackward([]byte("user/")),
	} {
		count := 0
		for _, err := range loop {
			isKind(t, err, esker.ErrInvalidArgument)
			count++
		}
		equal(t, count, 1)
	}
	_, err := own.Iterator(&esker.IterOptions{Prefix: []byte("user/")})
	isKind(t, err, esker.ErrInvalidArgument)
	count := 0
	for _, err := range own.Prefix(nil) {
		must(t, err)
		count++
	}
	equal(t, count, 6)
}

func TestPrefixesAfterClose(t *testing.T) {
	db := ok[*esker.DB](t)(esker.Open("/store", memory(t)))
	own := ok[*esker.Keyspace](t)(db.Keyspace("own", nil))
	snapshot := ok[*esker.Snapshot](t)(db.Snapshot())
	defer snapshot.Close()
	closed := ok[*esker.Keyspace](t)(db.FindKeyspace("own"))
	must(t, closed.Close())
	transaction := ok[*esker.Transaction](t)(db.Begin(nil))
	must(t, transaction.Close())
	must(t, db.Close())
	for _, from := range []prefixed{db, own, closed, snapshot, transaction} {
		for _, loop := range []iter.Seq2[esker.Pair, error]{
			from.Prefix([]byte("p")), from.PrefixBackward([]byte("p")),
		} {
			count := 0
			for _, err := range loop {
				isKind(t, err, esker.ErrClosed)
				count++
			}
			equal(t, count, 1)
		}
	}
}

func ExampleDB_PrefixBackward() {
	options := &esker.Options{Memory: esker.NewMemory()}
	db, err := esker.Open("/log", options)
	check(err)
	defer db.Close()
	for _, key := range []string{"log/1", "log/2", "other"} {
		check(db.Put([]byte(key), nil))
	}
	for pair, err := range db.PrefixBackward([]byte("log/")) {
		check(err)
		fmt.Printf("%s\n", pair.Key)
	}
	// Output:
	// log/2
	// log/1
}
