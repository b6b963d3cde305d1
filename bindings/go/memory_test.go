// The memory of C: everything that a call allocates is freed.

package esker_test

import (
	"bytes"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"esker.dev/esker"
)

// residentMiB returns the memory of the process.
func residentMiB(t *testing.T) int {
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		t.Skip("/proc is not mounted")
	}
	pages, err := strconv.Atoi(strings.Fields(string(text))[1])
	must(t, err)
	return pages * os.Getpagesize() >> 20
}

// Each round would leak megabytes if one of its calls kept what it allocates in C.
func TestMemoryOfCIsFreed(t *testing.T) {
	options := memory(t)
	options.MergeOperator = "append"
	options.MergeOperators = []*esker.MergeOperator{{Name: "test.own",
		FullMerge: func(_, existing []byte, operands [][]byte) ([]byte, error) {
			return append(bytes.Clone(existing), bytes.Join(operands, nil)...), nil
		}}}
	db := ok[*esker.DB](t)(esker.Open("/store", options))
	own := ok[*esker.Keyspace](t)(db.Keyspace("own", &esker.KeyspaceOptions{
		MergeOperator: "test.own"}))
	key, big := []byte("key"), bytes.Repeat([]byte("v"), 1<<20)
	must(t, db.Put(key, big))
	must(t, own.Put(key, big))
	must(t, own.Merge(key, []byte("x")))
	round := func() {
		for _, from := range []getter{db, own} {
			if value, found, err := from.Get(key); !found || err != nil || len(value) < len(big) {
				t.Fatal(found, err)
			}
		}
		_, _, _, err := db.GetWithExpiry(key)
		must(t, err)
		_, err = db.MultiGet([][]byte{key, key})
		must(t, err)
		snapshot := ok[*esker.Snapshot](t)(db.Snapshot())
		_, err = snapshot.Has(key)
		must(t, err)
		_, err = snapshot.MultiGet([][]byte{key})
		must(t, err)
		must(t, snapshot.Close())
		transaction := ok[*esker.Transaction](t)(db.Begin(nil))
		must(t, transaction.Put([]byte("own"), big))
		equal(t, len(get(t, transaction, "key")), len(big))
		must(t, transaction.Close())
		for _, err := range db.Range(nil, nil) {
			must(t, err)
		}
		for range 40 {
			isKind(t, db.SetOption(strings.Repeat("x", 10_000), "1"), esker.ErrInvalidArgument)
			_, err := esker.Open("/x", &esker.Options{Comparator: backwards,
				Settings: map[string]string{strings.Repeat("y", 10_000): ""}})
			isKind(t, err, esker.ErrInvalidArgument)
		}
		_, err = db.OpenMetrics()
		must(t, err)
	}
	settle := func() int {
		for range 3 {
			runtime.GC()
		}
		return residentMiB(t)
	}
	for range 30 {
		round()
	}
	before := settle()
	for range 120 {
		round()
	}
	after := settle()
	must(t, db.Close())
	t.Logf("%d MiB, then %d MiB", before, after)
	if after > before+60 {
		t.Errorf("the process grew from %d MiB to %d MiB", before, after)
	}
}

// Opening and closing leaves nothing.
func TestStoresAreFreed(t *testing.T) {
	options := memory(t)
	options.Comparators = []*esker.Comparator{backwards}
	open := func(from, to int) {
		for i := from; i < to; i++ {
			path := fmt.Sprintf("/store%d", i)
			db := ok[*esker.DB](t)(esker.Open(path, options))
			must(t, db.Put([]byte("k"), bytes.Repeat([]byte("v"), 1000)))
			must(t, db.Close())
			must(t, esker.Remove(path, options))
		}
		runtime.GC()
	}
	open(0, 50)
	before := residentMiB(t)
	open(50, 250)
	if after := residentMiB(t); after > before+100 {
		t.Errorf("the process grew from %d MiB to %d MiB", before, after)
	}
}
