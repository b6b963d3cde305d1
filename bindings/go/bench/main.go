// Command bench measures calls of the Go package beside the same calls in C, and beside goleveldb,
// an embedded store in Go alone. It prints nanoseconds per operation, as the minimum of interleaved
// rounds, because other load on the machine only adds time.
package main

import (
	"context"
	"encoding/binary"
	"flag"
	"fmt"
	"math"
	"os"
	"time"

	"esker.dev/esker"
	"github.com/syndtr/goleveldb/leveldb"
	"github.com/syndtr/goleveldb/leveldb/util"
)

const keys = 10_000

var value = make([]byte, 100)

func keyOf(key *[8]byte, i int) []byte {
	binary.BigEndian.PutUint64(key[:], uint64(uint32(i)*7919%keys))
	return key[:]
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func found(there bool, err error) {
	if must(err); !there {
		panic("a key is missing")
	}
}

// A row is an operation, and the loops that make it, by the name of the column.
type row struct {
	name  string
	loops map[string]func(count int)
}

func goLoops(db *esker.DB) map[string]map[string]func(int) {
	var key [8]byte
	room := make([]byte, 0, 256)
	return map[string]map[string]func(int){
		"get": {
			"Go": func(count int) {
				for i := range count {
					_, there, err := db.GetInto(room, keyOf(&key, i))
					found(there, err)
				}
			},
			"Go, new slice": func(count int) {
				for i := range count {
					_, there, err := db.Get(keyOf(&key, i))
					found(there, err)
				}
			},
		},
		"put": {"Go": func(count int) {
			for i := range count {
				must(db.Put(keyOf(&key, i), value))
			}
		}},
		"put in a batch of 100": {"Go": func(count int) {
			var batch esker.Batch
			for i := 0; i < count; {
				batch.Reset()
				for range 100 {
					batch.Put(keyOf(&key, i), value)
					i++
				}
				must(db.Write(&batch))
			}
		}},
		"row of a scan": {
			"Go": func(count int) {
				it, err := db.Iterator(nil)
				must(err)
				sum := 0
				for rows := 0; rows < count; {
					for ok := it.First(); ok; ok = it.Next() {
						sum += int(it.Key()[7]) + int(it.Value()[0])
						rows++
					}
				}
				must(it.Close())
			},
			"Go, new slice": func(count int) {
				for rows := 0; rows < count; {
					for _, err := range db.Range(nil, nil) {
						must(err)
						rows++
					}
				}
			},
		},
	}
}

// A cursor is what the iterators of both stores have.
type cursor interface {
	Seek(key []byte) bool
	Next() bool
	Key() []byte
	Value() []byte
}

// scans returns a loop of scans: each makes an iterator by open, which also returns what ends it, seeks a
// key, and copies pairs.
func scans(pairs int, open func() (cursor, func() error)) func(count int) {
	var key [8]byte
	room := make([]byte, 0, 108*pairs)
	return func(count int) {
		for i := range count {
			it, end := open()
			room = room[:0]
			for ok := it.Seek(keyOf(&key, i)); ok && len(room) < 108*pairs; ok = it.Next() {
				room = append(append(room, it.Key()...), it.Value()...)
			}
			found(len(room) >= 108, end())
		}
	}
}

func levelLoops(db *leveldb.DB) map[string]func(int) {
	var key [8]byte
	return map[string]func(int){
		"get": func(count int) {
			for i := range count {
				_, err := db.Get(keyOf(&key, i), nil)
				must(err)
			}
		},
		"put": func(count int) {
			for i := range count {
				must(db.Put(keyOf(&key, i), value, nil))
			}
		},
		"put in a batch of 100": func(count int) {
			var batch leveldb.Batch
			for i := 0; i < count; {
				batch.Reset()
				for range 100 {
					batch.Put(keyOf(&key, i), value)
					i++
				}
				must(db.Write(&batch, nil))
			}
		},
		"row of a scan": func(count int) {
			sum := 0
			for rows := 0; rows < count; {
				it := db.NewIterator(nil, nil)
				for it.Next() {
					sum += int(it.Key()[7]) + int(it.Value()[0])
					rows++
				}
				it.Release()
				must(it.Error())
			}
		},
	}
}

func main() {
	rounds := flag.Int("rounds", 30, "number of rounds")
	count := flag.Int("count", 50_000, "operations of a round")
	flag.Parse()
	dir, err := os.MkdirTemp("", "esker-bench-")
	must(err)
	defer os.RemoveAll(dir)
	value[0] = 7
	c := openC(dir + "/c")
	db, err := esker.Open(dir+"/go", nil)
	must(err)
	level, err := leveldb.OpenFile(dir+"/level", nil)
	must(err)
	var rows []row
	inGo, inLevel := goLoops(db), levelLoops(level)
	for _, pairs := range []int{1, 10, 100} {
		name := fmt.Sprintf("scan of %d", pairs)
		inGo[name] = map[string]func(int){"Go": scans(pairs, func() (cursor, func() error) {
			it, err := db.Iterator(nil)
			must(err)
			return it, it.Close
		})}
		inLevel[name] = scans(pairs, func() (cursor, func() error) {
			it := level.NewIterator(nil, nil)
			return it, func() error { it.Release(); return it.Error() }
		})
	}
	for name, loop := range map[string]func(int){"get": c.get, "put": c.put,
		"put in a batch of 100": c.batch, "row of a scan": c.scan, "scan of 1": c.scanOf(1),
		"scan of 10": c.scanOf(10), "scan of 100": c.scanOf(100)} {
		loops := inGo[name]
		loops["C"], loops["goleveldb"] = loop, inLevel[name]
		rows = append(rows, row{name, loops})
	}
	c.put(keys)
	inGo["put"]["Go"](keys)
	inLevel["put"](keys)
	// Reads come first, from tables without old versions.
	c.compact()
	must(db.CompactRange(context.Background(), nil, nil))
	must(level.CompactRange(util.Range{}))
	columns := []string{"C", "Go", "Go, new slice", "goleveldb"}
	fmt.Println("| nanoseconds per | C | Go | Go over C | Go, new slice | goleveldb |")
	fmt.Println("|---|---|---|---|---|---|")
	for _, name := range []string{"get", "row of a scan", "scan of 1", "scan of 10", "scan of 100", "put",
		"put in a batch of 100"} {
		for _, row := range rows {
			if row.name != name {
				continue
			}
			least := map[string]float64{}
			for range *rounds {
				for _, column := range columns {
					loop := row.loops[column]
					if loop == nil {
						continue
					}
					began := time.Now()
					loop(*count)
					each := float64(time.Since(began).Nanoseconds()) / float64(*count)
					if before, ok := least[column]; !ok || each < before {
						least[column] = each
					}
				}
			}
			fmt.Printf("| %s", name)
			for _, column := range columns {
				if each, ok := least[column]; ok {
					fmt.Printf(" | %.0f", math.Round(each))
				} else {
					fmt.Print(" | -")
				}
				if column == "Go" {
					fmt.Printf(" | %+.0f", least["Go"]-least["C"])
				}
			}
			fmt.Println(" |")
		}
	}
	must(db.Close())
	must(level.Close())
	c.close()
}
