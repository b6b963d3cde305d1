// The recipes of COOKBOOK.md. A test compares them with the page.

package esker_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"esker.dev/esker"
)

// exampleDir returns a new directory for an example, and what removes it.
func exampleDir() (string, func()) {
	dir, err := os.MkdirTemp("", "esker-example-")
	check(err)
	return dir, func() { os.RemoveAll(dir) }
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// Example is the example of the README.
func Example() {
	dir, remove := exampleDir()
	defer remove()
	path := filepath.Join(dir, "db")

	db, err := esker.Open(path, nil)
	check(err)
	defer db.Close()
	var batch esker.Batch
	batch.Put([]byte("apple"), []byte("red"))
	batch.Put([]byte("banana"), []byte("yellow"))
	check(db.Write(&batch)) // all or none
	color, found, err := db.Get([]byte("apple"))
	fmt.Printf("%s %v %v\n", color, found, err)
	for pair, err := range db.Prefix([]byte("b")) {
		check(err)
		fmt.Printf("%s=%s\n", pair.Key, pair.Value)
	}
	// Output:
	// red true <nil>
	// banana=yellow
}

func Example_counters() {
	dir, remove := exampleDir()
	defer remove()
	db, err := esker.Open(filepath.Join(dir, "db"), &esker.Options{MergeOperator: "add_i64"})
	check(err)
	defer db.Close()
	var running sync.WaitGroup
	for range 4 {
		running.Add(1)
		go func() {
			defer running.Done()
			for range 100 {
				check(db.Merge([]byte("visits"), []byte("1")))
			}
		}()
	}
	running.Wait()
	visits, _, err := db.Get([]byte("visits"))
	fmt.Printf("%s %v\n", visits, err)

	// "Take this once": of several callers, one gets true.
	check(db.Put([]byte("coupon/7F3A"), []byte("10 %")))
	first, _ := db.Take([]byte("coupon/7F3A"))
	second, _ := db.Take([]byte("coupon/7F3A"))
	fmt.Println(first, second)
	// Output:
	// 400 <nil>
	// true false
}

var errTooLittle = errors.New("the account has too little")

func transfer(ctx context.Context, db *esker.DB, from, to string, amount uint64) error {
	return db.Transact(ctx, nil, func(t *esker.Transaction) error {
		balance := func(account string) (uint64, error) {
			value, found, err := t.Get([]byte(account))
			if err != nil || !found {
				return 0, err
			}
			return strconv.ParseUint(string(value), 10, 64)
		}
		left, err := balance(from)
		if err != nil {
			return err
		}
		if left < amount {
			return errTooLittle // rolls the transaction back
		}
		there, err := balance(to)
		if err != nil {
			return err
		}
		return errors.Join(
			t.Put([]byte(from), strconv.AppendUint(nil, left-amount, 10)),
			t.Put([]byte(to), strconv.AppendUint(nil, there+amount, 10)))
	})
}

func Example_bankTransfer() {
	dir, remove := exampleDir()
	defer remove()
	db, err := esker.Open(filepath.Join(dir, "db"), nil)
	check(err)
	defer db.Close()
	check(db.Put([]byte("ada"), []byte("100")))
	var running sync.WaitGroup
	for range 4 {
		running.Add(1)
		go func() {
			defer running.Done()
			for range 25 {
				check(transfer(context.Background(), db, "ada", "ben", 1))
			}
		}()
	}
	running.Wait()
	for pair, err := range db.Range(nil, nil) {
		check(err)
		fmt.Printf("%s=%s\n", pair.Key, pair.Value)
	}
	fmt.Println(transfer(context.Background(), db, "ada", "ben", 1))
	// Output:
	// ada=0
	// ben=100
	// the account has too little
}

// Keys of the tables: (1, id) -> email, and (2, email, 0, id) -> nothing.
func userKey(id uint64) []byte { return binary.BigEndian.AppendUint64([]byte{1}, id) }

func emailKey(email string, id uint64) []byte {
	return binary.BigEndian.AppendUint64(emailPrefix(email), id)
}

func emailPrefix(email string) []byte { return append(append([]byte{2}, email...), 0) }

func setEmail(db *esker.DB, id uint64, email string) error {
	old, found, err := db.Get(userKey(id))
	if err != nil {
		return err
	}
	var batch esker.Batch
	if found {
		batch.Delete(emailKey(string(old), id))
	}
	batch.Put(userKey(id), []byte(email))
	batch.Put(emailKey(email, id), nil)
	return db.Write(&batch)
}

func idsOf(db *esker.DB, email string) (ids []uint64, err error) {
	prefix := emailPrefix(email)
	for pair, err := range db.Prefix(prefix) {
		if err != nil {
			return nil, err
		}
		ids = append(ids, binary.BigEndian.Uint64(pair.Key[len(prefix):]))
	}
	return ids, nil
}

func Example_secondaryIndex() {
	dir, remove := exampleDir()
	defer remove()
	db, err := esker.Open(filepath.Join(dir, "db"), nil)
	check(err)
	defer db.Close()
	check(setEmail(db, 7, "ada@example.org"))
	check(setEmail(db, 7, "ada@example.com"))
	check(setEmail(db, 9, "ada@example.com"))
	fmt.Println(idsOf(db, "ada@example.com"))
	fmt.Println(idsOf(db, "ada@example.org"))
	// Output:
	// [7 9] <nil>
	// [] <nil>
}

func Example_tenants() {
	dir, remove := exampleDir()
	defer remove()
	db, err := esker.Open(filepath.Join(dir, "db"), nil)
	check(err)
	defer db.Close()
	ada, err := db.Keyspace("tenant/ada", nil)
	check(err)
	bob, err := db.Keyspace("tenant/bob", nil)
	check(err)

	// A batch over several keyspaces is atomic, also through a crash.
	var batch esker.Batch
	batch.PutIn(ada, []byte("balance"), []byte("15"))
	batch.PutIn(bob, []byte("balance"), []byte("15"))
	check(db.Write(&batch))

	check(db.DropKeyspace("tenant/bob"))
	_, _, err = bob.Get([]byte("balance"))
	fmt.Println(errors.Is(err, esker.ErrNotFound))
	fmt.Println(db.Keyspaces())
	// Output:
	// true
	// [default tenant/ada] <nil>
}

var headKey = []byte{1} // number of the first job that is not done

func jobKey(number uint64) []byte { return binary.BigEndian.AppendUint64([]byte{2}, number) }

func head(db *esker.DB) (uint64, error) {
	value, found, err := db.Get(headKey)
	if err != nil || !found {
		return 0, err
	}
	return binary.BigEndian.Uint64(value), nil
}

// tail returns the number for the next job. It is called once, after the store was opened.
func tail(db *esker.DB) (uint64, error) {
	for pair, err := range db.RangeBackward(jobKey(0), jobKey(math.MaxUint64)) {
		if err != nil {
			return 0, err
		}
		return binary.BigEndian.Uint64(pair.Key[1:]) + 1, nil
	}
	return head(db)
}

// work does up to most jobs, then removes them.
func work(db *esker.DB, most int, job func([]byte)) error {
	first, err := head(db)
	if err != nil {
		return err
	}
	next := first
	for pair, err := range db.Range(jobKey(first), jobKey(math.MaxUint64)) {
		if err != nil {
			return err
		}
		if next == first+uint64(most) {
			break
		}
		job(pair.Value)
		next = binary.BigEndian.Uint64(pair.Key[1:]) + 1
	}
	var batch esker.Batch
	batch.DeleteRange(jobKey(first), jobKey(next))
	batch.Put(headKey, binary.BigEndian.AppendUint64(nil, next))
	return db.Write(&batch)
}

func Example_queue() {
	dir, remove := exampleDir()
	defer remove()
	db, err := esker.Open(filepath.Join(dir, "db"), nil)
	check(err)
	defer db.Close()
	next, err := tail(db)
	check(err)
	for _, job := range []string{"wash", "dry", "fold"} {
		check(db.Put(jobKey(next), []byte(job)))
		next++
	}
	for range 3 {
		check(work(db, 2, func(job []byte) { fmt.Printf("%s ", job) }))
		fmt.Println(head(db))
	}
	fmt.Println(tail(db))
	// Output:
	// wash dry 2 <nil>
	// fold 3 <nil>
	// 3 <nil>
	// 3 <nil>
}

// pageAfter returns the pairs after a key; nil begins at the first.
func pageAfter(db *esker.DB, after []byte, size int) (page []esker.Pair, err error) {
	start := after
	if after != nil {
		start = append(slices.Clone(after), 0) // the next possible key
	}
	for pair, err := range db.Range(start, nil) {
		if err != nil {
			return nil, err
		}
		if page = append(page, pair); len(page) == size {
			break
		}
	}
	return page, nil
}

// pageBefore returns the pairs before a key; nil ends at the last.
func pageBefore(db *esker.DB, before []byte, size int) (page []esker.Pair, err error) {
	for pair, err := range db.RangeBackward(nil, before) {
		if err != nil {
			return nil, err
		}
		if page = append(page, pair); len(page) == size {
			break
		}
	}
	slices.Reverse(page)
	return page, nil
}

func Example_pagination() {
	dir, remove := exampleDir()
	defer remove()
	db, err := esker.Open(filepath.Join(dir, "db"), nil)
	check(err)
	defer db.Close()
	for _, name := range []string{"ada", "bob", "cleo", "dan", "eve"} {
		check(db.Put([]byte(name), nil))
	}
	first, err := pageAfter(db, nil, 2)
	check(err)
	second, err := pageAfter(db, first[1].Key, 2)
	check(err)
	again, err := pageBefore(db, second[0].Key, 2)
	check(err)
	fmt.Printf("%s %s\n", second[0].Key, second[1].Key)
	fmt.Printf("%s %s\n", again[0].Key, again[1].Key)
	// Output:
	// cleo dan
	// ada bob
}

const idle = 30 * time.Minute

// userOf returns the user of a session and keeps the session alive.
func userOf(sessions *esker.Keyspace, id string) (user string, alive bool, err error) {
	value, found, err := sessions.Get([]byte(id))
	if err != nil || !found {
		return "", false, err
	}
	alive, err = sessions.Touch([]byte(id), idle)
	return string(value), alive, err
}

func Example_sessions() {
	dir, remove := exampleDir()
	defer remove()
	db, err := esker.Open(filepath.Join(dir, "db"), nil)
	check(err)
	defer db.Close()
	sessions, err := db.Keyspace("sessions", &esker.KeyspaceOptions{TTL: idle})
	check(err)
	check(sessions.Put([]byte("7F3A"), []byte("ada")))
	fmt.Println(userOf(sessions, "7F3A"))
	fmt.Println(userOf(sessions, "0000"))
	_, expires, _, err := sessions.GetWithExpiry([]byte("7F3A"))
	fmt.Println(time.Until(expires) > 0, err)
	// Output:
	// ada true <nil>
	//  false <nil>
	// true <nil>
}

// postKey has the order of its parts: the user, then the newest time first.
func postKey(user string, when uint64) []byte {
	return binary.BigEndian.AppendUint64(append([]byte(user), 0), ^when)
}

func Example_typedKeys() {
	dir, remove := exampleDir()
	defer remove()
	db, err := esker.Open(filepath.Join(dir, "db"), nil)
	check(err)
	defer db.Close()
	check(db.Put(postKey("ada", 1000), []byte("first")))
	check(db.Put(postKey("ada", 3000), []byte("third")))
	check(db.Put(postKey("adam", 2500), []byte("another user")))
	for pair, err := range db.Prefix([]byte("ada\x00")) {
		check(err)
		fmt.Printf("%d %s\n", ^binary.BigEndian.Uint64(pair.Key[4:]), pair.Value)
	}
	// Output:
	// 3000 third
	// 1000 first
}

func Example_backups() {
	dir, remove := exampleDir()
	defer remove()
	path, backups := filepath.Join(dir, "db"), filepath.Join(dir, "backups")
	ctx := context.Background()
	db, err := esker.Open(path, nil)
	check(err)
	for _, day := range []string{"mon", "tue", "wed"} {
		check(db.Put([]byte("day"), []byte(day)))
		_, _, err := db.Backup(ctx, backups, nil)
		check(err)
		_, err = esker.PruneBackups(backups, 2, nil)
		check(err)
	}
	check(db.Close())

	// The store is lost. Restore the newest backup; another number than 0 would choose one.
	restored := filepath.Join(dir, "restored")
	number, err := esker.Restore(ctx, backups, 0, restored, nil)
	fmt.Println(number, err)
	db, err = esker.Open(restored, nil)
	check(err)
	defer db.Close()
	day, _, _ := db.Get([]byte("day"))

	// The restored store replaces the original, and continues its directory of backups.
	number, _, err = db.Backup(ctx, backups, &esker.BackupOptions{TakeOver: true})
	fmt.Printf("%s %d %v\n", day, number, err)
	// Output:
	// 3 <nil>
	// wed 4 <nil>
}

func Example_severalProcesses() {
	dir, remove := exampleDir()
	defer remove()
	path := filepath.Join(dir, "db")
	owner, err := esker.Open(path, nil)
	check(err)
	defer owner.Close()
	check(owner.Put([]byte("k"), []byte("v")))

	_, err = esker.Open(path, nil)
	fmt.Println(errors.Is(err, esker.ErrLocked))

	// Another process may read the state of now, or open a copy of its own.
	reader, err := esker.OpenReadOnly(path, nil)
	check(err)
	defer reader.Close()
	fmt.Println(reader.Has([]byte("k")))
	check(owner.Checkpoint(context.Background(), filepath.Join(dir, "copy")))
	// Output:
	// true
	// true <nil>
}

func Example_manyStores() {
	dir, remove := exampleDir()
	defer remove()
	shared, err := esker.NewRuntime(map[string]string{
		"memory_budget_bytes": "256MiB", "threads_max": "4",
	})
	check(err)
	defer shared.Close()
	for _, tenant := range []string{"ada", "bob"} {
		db, err := esker.Open(filepath.Join(dir, tenant), &esker.Options{Runtime: shared})
		check(err)
		defer db.Close()
		var batch esker.Batch
		batch.Put([]byte("k"), []byte("v"))
		err = db.WriteWithin(time.Second, &batch)
		if errors.Is(err, esker.ErrBusy) {
			log.Print(err) // the message has the cause; the caller may answer "try again"
		}
		check(err)
	}
	stores, err := shared.Metric("stores")
	check(err)
	fmt.Println(stores)
	// Output:
	// 2
}

func Example_watching() {
	dir, remove := exampleDir()
	defer remove()
	db, err := esker.Open(filepath.Join(dir, "db"), nil)
	check(err)
	defer db.Close()
	check(db.Put([]byte("k"), []byte("v")))
	text, err := db.OpenMetrics() // answer of an HTTP handler that Prometheus asks
	check(err)
	fmt.Println(strings.HasSuffix(text, "# EOF\n"))
	_, known := db.Property("esker.stats")
	fmt.Println(known)
	// Output:
	// true
	// true
}

func Example_events() {
	dir, remove := exampleDir()
	defer remove()
	flushed := make(chan esker.Event, 100)
	db, err := esker.Open(filepath.Join(dir, "db"), &esker.Options{
		Listeners: []esker.Listener{func(event esker.Event) {
			if event.Kind == esker.EventFlushEnded {
				select {
				case flushed <- event:
				default: // never wait in a listener
				}
			}
		}},
	})
	check(err)
	defer db.Close()
	check(db.Put([]byte("k"), []byte("value")))
	check(db.Flush(context.Background()))
	fmt.Println((<-flushed).WrittenBytes > 0)

	_, stalled, err := db.Stall() // what writes wait for now
	fmt.Println(stalled, err)
	cost := esker.Perf(func() { _, _, err = db.Get([]byte("k")) })
	check(err)
	fmt.Println(cost.Gets, cost.MemtableHits, cost.TablesSearched)
	// Output:
	// true
	// false <nil>
	// 1 0 1
}

func Example_options() {
	dir, remove := exampleDir()
	defer remove()
	db, err := esker.Open(filepath.Join(dir, "db"), &esker.Options{
		Settings: map[string]string{"durability": "sync", "compression": "zstd"},
	})
	check(err)
	defer db.Close()
	value, _ := db.Property("esker.option.compression")
	fmt.Println(value)
	_, err = esker.Open("unused", &esker.Options{Settings: map[string]string{"compresion": "zstd"}})
	fmt.Println(err)
	// Output:
	// zstd
	// esker: unknown option "compresion"; the nearest name is compression
}

// Every block of Go in the pages is code of these files, so it is compiled, and examples run.
func TestPagesAreCompiled(t *testing.T) {
	var source []byte
	for _, file := range []string{"cookbook_test.go", "cookbook_feed_test.go"} {
		source = append(source, ok[[]byte](t)(os.ReadFile(file))...)
	}
	outdented := regexp.MustCompile(`(?m)^\t`).ReplaceAll(source, nil)
	blocks := regexp.MustCompile("(?s)```go\n(.*?)```")
	for page, least := range map[string]int{"COOKBOOK.md": 24, "README.md": 1} {
		text, err := os.ReadFile(page)
		must(t, err)
		found := blocks.FindAllSubmatch(text, -1)
		if len(found) < least {
			t.Errorf("%s has %d blocks of Go, expected %d", page, len(found), least)
		}
		for _, block := range found {
			if !bytes.Contains(source, block[1]) && !bytes.Contains(outdented, block[1]) {
				t.Errorf("%s has code that no cookbook test has:\n%s", page, block[1])
			}
		}
	}
}
