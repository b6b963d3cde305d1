// The program's own functions: key orders, merge operators, compaction filters, filter policies.

package esker_test

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"esker.dev/esker"
)

// deep uses stack, so that the stack of a goroutine moves during a call of C.
func deep(levels int) int {
	var room [512]byte
	if levels == 0 {
		return 0
	}
	room[levels%512] = 1
	return deep(levels-1) + int(room[levels%512])
}

var backwards = &esker.Comparator{Name: "test.backwards", Compare: func(a, b []byte) int {
	return bytes.Compare(b, a)
}}

func TestComparators(t *testing.T) {
	options := memory(t)
	options.Comparator = backwards
	options.Comparators = []*esker.Comparator{{Name: "test.length", Compare: func(a, b []byte) int {
		if deep(200) != 200 {
			panic("the stack was damaged")
		}
		if len(a) != len(b) {
			return (len(a) - len(b)) * 1000
		}
		return bytes.Compare(a, b)
	}}}
	db := ok[*esker.DB](t)(esker.Open("/store", options))
	lengths := ok[*esker.Keyspace](t)(db.Keyspace("lengths", &esker.KeyspaceOptions{
		KeyOrder: "test.length"}))
	for _, key := range []string{"b", "aa", "a", "", "ccc"} {
		must(t, db.Put([]byte(key), []byte("v")))
		must(t, lengths.Put([]byte(key), []byte(key)))
	}
	equal(t, pairs(t, db.Range(nil, nil)), "ccc=v b=v aa=v a=v =v ")
	equal(t, pairs(t, lengths.Range(nil, nil)), "= a=a b=b aa=aa ccc=ccc ")
	equal(t, pairs(t, lengths.RangeBackward([]byte("b"), nil)), "ccc=ccc aa=aa b=b ")
	// Calls with memory on a stack that moves.
	var running sync.WaitGroup
	for range 4 {
		running.Add(1)
		go func() {
			defer running.Done()
			for i := range 200 {
				key := [3]byte{byte('d' + i%20), 'x', 'y'}
				var room [16]byte
				_ = lengths.Put(key[:], key[:])
				value, found, err := lengths.GetInto(room[:0], key[:])
				has, hasErr := lengths.Has(key[:])
				if !found || err != nil || !has || hasErr != nil || !bytes.Equal(value, key[:]) {
					t.Error(value, found, err, hasErr)
				}
			}
		}()
	}
	running.Wait()
	must(t, db.Close())
	_, err := esker.Open("/store", &esker.Options{Memory: options.Memory})
	isKind(t, err, esker.ErrIncompatible)
	_, err = esker.Open("/x", &esker.Options{Comparator: &esker.Comparator{Name: "none"}})
	isKind(t, err, esker.ErrInvalidArgument)
}

func TestMergeOperators(t *testing.T) {
	var partial atomic.Int64
	longest := func(values ...[]byte) []byte {
		return slices.MaxFunc(values, func(a, b []byte) int { return len(a) - len(b) })
	}
	options := memory(t)
	options.MergeOperator = "test.longest"
	options.MergeOperators = []*esker.MergeOperator{
		{
			Name: "test.longest",
			FullMerge: func(key, existing []byte, operands [][]byte) ([]byte, error) {
				deep(300)
				if string(key) == "panics" {
					panic("a planted panic")
				}
				if string(key) == "fails" {
					return nil, errors.New("a planted failure")
				}
				if existing == nil && string(key) == "old" {
					return nil, errors.New("the old value is missing")
				}
				return longest(append(operands, existing)...), nil
			},
			PartialMerge: func(key []byte, operands [][]byte) ([]byte, bool) {
				partial.Add(1)
				return longest(operands...), true
			},
		},
		{Name: "test.count", FullMerge: func(_, existing []byte, operands [][]byte) ([]byte, error) {
			return append(slices.Clone(existing), bytes.Repeat([]byte{'i'}, len(operands))...), nil
		}},
	}
	db := open(t, options)
	count := ok[*esker.Keyspace](t)(db.Keyspace("count", &esker.KeyspaceOptions{
		MergeOperator: "test.count"}))
	must(t, db.Put([]byte("old"), []byte("1234")))
	for _, operand := range []string{"12", "123456", "123", ""} {
		for _, key := range []string{"k", "old", "panics", "fails"} {
			must(t, db.Merge([]byte(key), []byte(operand)))
		}
		must(t, count.Merge([]byte("k"), nil))
	}
	for range 2 {
		equal(t, get(t, db, "k"), "123456")
		equal(t, get(t, db, "old"), "123456")
		equal(t, get(t, count, "k"), "iiii")
		for key, text := range map[string]string{"fails": "a planted failure",
			"panics": "a planted panic"} {
			_, _, err := db.Get([]byte(key))
			isKind(t, err, esker.ErrInvalidArgument)
			if !strings.Contains(err.Error(), text) {
				t.Error(err)
			}
		}
		must(t, db.Flush(background))
		must(t, db.CompactRange(background, nil, nil))
	}
	// The failure is not lost in a scan.
	var failure error
	for _, err := range db.Range(nil, nil) {
		failure = err
	}
	isKind(t, failure, esker.ErrInvalidArgument)
}

func TestCompactionFilters(t *testing.T) {
	options := memory(t)
	options.CompactionFilter = "test.filter"
	var panics atomic.Bool
	options.CompactionFilters = []*esker.CompactionFilter{{
		Name: "test.filter",
		Filter: func(level int, key, value []byte) (esker.FilterDecision, []byte) {
			if panics.Load() {
				panic("a planted panic")
			}
			switch {
			case bytes.HasPrefix(key, []byte("remove")):
				return esker.FilterRemove, nil
			case bytes.HasPrefix(key, []byte("replace")):
				return esker.FilterReplace, []byte("new")
			}
			return esker.FilterKeep, nil
		},
	}}
	db := open(t, options)
	fill := func() {
		for i := range 10 {
			for _, kind := range []string{"keep", "remove", "replace"} {
				must(t, db.Put(fmt.Appendf(nil, "%s%d", kind, i), []byte("old")))
			}
		}
		must(t, db.CompactRange(background, nil, nil))
	}
	fill()
	equal(t, get(t, db, "keep3"), "old")
	equal(t, get(t, db, "remove3"), "none")
	equal(t, get(t, db, "replace3"), "new")
	panics.Store(true)
	fill()
	equal(t, get(t, db, "remove3"), "old")
}

func TestFilterPolicies(t *testing.T) {
	options := memory(t)
	var created, asked atomic.Int64
	options.FilterPolicy = &esker.FilterPolicy{
		Name: "test.policy",
		Create: func(keys [][]byte) []byte {
			created.Add(1)
			var all []byte
			for _, key := range keys {
				all = append(append(all, key...), ',')
			}
			return all
		},
		MayMatch: func(key, filter []byte) bool {
			asked.Add(1)
			return bytes.Contains(filter, key)
		},
	}
	db := open(t, options)
	for i := range 100 {
		must(t, db.Put(fmt.Appendf(nil, "key%d;", i), []byte("v")))
	}
	must(t, db.Flush(background))
	for i := range 100 {
		equal(t, get(t, db, fmt.Sprintf("key%d;", i)), "v")
		equal(t, get(t, db, fmt.Sprintf("key%d", i)), "none")
	}
	if created.Load() == 0 || asked.Load() == 0 {
		t.Error(created.Load(), asked.Load())
	}
}

func TestFunctionsMustNotUseTheirStore(t *testing.T) {
	options := memory(t)
	var db *esker.DB
	var failure atomic.Value
	options.MergeOperator = "test.calls"
	options.MergeOperators = []*esker.MergeOperator{{Name: "test.calls",
		FullMerge: func(_, _ []byte, operands [][]byte) ([]byte, error) {
			_, _, err := db.Get([]byte("other"))
			failure.Store(err)
			return operands[0], nil
		}}}
	db = open(t, options)
	must(t, db.Merge([]byte("k"), []byte("v")))
	equal(t, get(t, db, "k"), "v")
	isKind(t, failure.Load().(error), esker.ErrInvalidArgument)
}
