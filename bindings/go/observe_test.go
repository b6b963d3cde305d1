// Stalls, deadlines of writes, jobs, what a store tells about itself, runtimes, listeners and clocks.

package esker_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"esker.dev/esker"
)

// small makes the memtables of options small.
func small(options *esker.Options) *esker.Options {
	options.Settings = map[string]string{"memtable_size_bytes": "64KiB", "log_file": "false",
		"frozen_memtables_max": "1"}
	return options
}

// recorder is a listener that keeps the events.
type recorder struct {
	sync.Mutex
	events []esker.Event
}

func (r *recorder) listen(event esker.Event) {
	r.Lock()
	defer r.Unlock()
	r.events = append(r.events, event)
}

// of returns the first event of a kind.
func (r *recorder) of(t testing.TB, kind esker.EventKind) esker.Event {
	t.Helper()
	r.Lock()
	defer r.Unlock()
	for _, event := range r.events {
		if event.Kind == kind {
			return event
		}
	}
	t.Fatalf("no event of kind %d", kind)
	return esker.Event{}
}

func TestTransactionsMergeAndPutWithTTL(t *testing.T) {
	options := memory(t)
	options.MergeOperator = "add_i64"
	db := open(t, options)
	lists := ok[*esker.Keyspace](t)(db.Keyspace("lists", &esker.KeyspaceOptions{
		MergeOperator: "append(,)"}))
	must(t, db.Put([]byte("n"), []byte("40")))
	tx := ok[*esker.Transaction](t)(db.Begin(nil))
	defer tx.Close()
	must(t, tx.Merge([]byte("n"), []byte("2")))
	must(t, tx.In(lists).Merge([]byte("l"), []byte("a")))
	must(t, tx.In(lists).Merge([]byte("l"), []byte("b")))
	must(t, tx.PutWithTTL([]byte("short"), []byte("v"), 0))
	must(t, tx.In(lists).PutWithTTL([]byte("long"), []byte("v"), time.Hour))
	must(t, tx.In(lists).PutWithTTL([]byte("ever"), []byte("v"), esker.Never))
	isKind(t, tx.PutWithTTL([]byte("k"), nil, -1), esker.ErrInvalidArgument)
	isKind(t, tx.Merge([]byte("n"), []byte("no number")), esker.ErrInvalidArgument)
	equal(t, get(t, tx, "n"), "42")
	equal(t, get(t, tx, "short"), "v")
	equal(t, get(t, tx.In(lists), "l"), "a,b")
	equal(t, get(t, db, "n"), "40")
	must(t, tx.Commit())
	equal(t, get(t, db, "n"), "42")
	equal(t, get(t, db, "short"), "none")
	equal(t, get(t, lists, "l"), "a,b")
	value, expires, found, err := lists.GetWithExpiry([]byte("long"))
	must(t, err)
	if string(value) != "v" || !found || !expires.After(time.Now()) {
		t.Error(string(value), expires, found)
	}
	_, expires, found, err = lists.GetWithExpiry([]byte("ever"))
	must(t, err)
	if !found || !expires.IsZero() {
		t.Error(expires, found)
	}
	isKind(t, tx.Merge([]byte("n"), []byte("1")), esker.ErrClosed)
	// Of two transactions that merge into a key, one fails.
	one, two := ok[*esker.Transaction](t)(db.Begin(nil)), ok[*esker.Transaction](t)(db.Begin(nil))
	defer one.Close()
	defer two.Close()
	must(t, one.Merge([]byte("n"), []byte("1")))
	must(t, two.Merge([]byte("n"), []byte("1")))
	must(t, one.Commit())
	isKind(t, two.Commit(), esker.ErrConflict)
	equal(t, get(t, db, "n"), "43")
}

func TestWriteWithin(t *testing.T) {
	options := small(memory(t))
	gate := make(chan struct{})
	opened := sync.OnceFunc(func() { close(gate) })
	var stalls recorder
	options.Listeners = []esker.Listener{stalls.listen}
	// A flush waits in it. A listener that waits could stop the writer, which delivers events too.
	options.FilterPolicy = &esker.FilterPolicy{
		Name:     "test.gate",
		Create:   func([][]byte) []byte { <-gate; return nil },
		MayMatch: func(_, _ []byte) bool { return true },
	}
	db := open(t, options)
	// The store's Close waits for the flush.
	t.Cleanup(opened)
	var batch esker.Batch
	var failure error
	written := 0
	for failure == nil {
		// A write that was only slowed may be Busy too, and the next one not. Writes that wait for the
		// flush all are.
		if written == 100_000 {
			t.Fatal("no write had to wait")
		}
		batch.Reset()
		batch.Put(fmt.Appendf(nil, "%08d", written), bytes.Repeat([]byte{'v'}, 100))
		failure = db.WriteWithin(20*time.Millisecond, &batch)
		if failure != nil && db.WriteWithin(-time.Second, &batch) == nil {
			failure = nil
		}
		written++
	}
	isKind(t, failure, esker.ErrBusy)
	if !strings.Contains(failure.Error(), "written to tables") {
		t.Error(failure)
	}
	last := fmt.Sprintf("%08d", written-1)
	isKind(t, db.WriteWithin(-time.Second, &batch), esker.ErrBusy)
	stall, found, err := db.Stall()
	must(t, err)
	if found && (stall.Cause == "" || stall.Clears == "" || stall.Duration <= 0) {
		t.Errorf("%+v", stall)
	}
	equal(t, get(t, db, last), "none")
	opened()
	must(t, db.WriteWithin(esker.Never, &batch))
	equal(t, len(get(t, db, last)), 100)
	must(t, db.WaitIdle(background))
	must(t, db.WriteWithin(time.Minute, &batch, esker.Sync))
	isKind(t, db.WriteWithin(time.Minute, &batch, 9), esker.ErrInvalidArgument)
	if _, found, err = db.Stall(); found || err != nil {
		t.Error(found, err)
	}
	must(t, db.Close())
	_, _, err = db.Stall()
	isKind(t, err, esker.ErrClosed)
	isKind(t, db.WriteWithin(0, &batch), esker.ErrClosed)
	if ended := stalls.of(t, esker.EventStallEnded); ended.Cause == "" || ended.Clears == "" {
		t.Errorf("%+v", ended)
	}
}

func TestStoreWithoutThreadsRunsItsJobsWhenTold(t *testing.T) {
	options := small(memory(t))
	delete(options.Settings, "frozen_memtables_max")
	options.Settings["background_threads"] = "0"
	db := open(t, options)
	for i := range 2000 {
		must(t, db.Put(fmt.Appendf(nil, "%06d", i), bytes.Repeat([]byte{'v'}, 64)))
	}
	jobs := 0
	for ok[bool](t)(db.RunOneJob()) {
		jobs++
	}
	if jobs == 0 {
		t.Error("no job ran")
	}
	must(t, db.Close())
	_, err := db.RunOneJob()
	isKind(t, err, esker.ErrClosed)
	_, err = newStore(t).RunOneJob()
	isKind(t, err, esker.ErrInvalidArgument)
}

func TestStoreIDAndRecoveryNotes(t *testing.T) {
	dir := t.TempDir()
	path, copied := filepath.Join(dir, "db"), filepath.Join(dir, "copy")
	db := ok[*esker.DB](t)(esker.Open(path, nil))
	id := ok[uint64](t)(db.StoreID())
	must(t, db.Put([]byte("a"), []byte("1"), esker.Sync))
	must(t, db.Put([]byte("b"), bytes.Repeat([]byte("2"), 1000)))
	equal(t, len(ok[[]string](t)(db.RecoveryNotes())), 0)
	// What a crash leaves: the directory without the end of its newest log.
	torn := filepath.Join(dir, "torn")
	must(t, os.CopyFS(torn, os.DirFS(path)))
	logs := ok[[]string](t)(filepath.Glob(filepath.Join(torn, "*.wal")))
	for _, log := range logs {
		content := bytes.TrimRight(ok[[]byte](t)(os.ReadFile(log)), "\x00")
		t.Log(log, len(content))
		if len(content) > 500 {
			must(t, os.Truncate(log, int64(len(content))-100))
		}
	}
	must(t, db.Checkpoint(background, copied))
	other := ok[*esker.DB](t)(esker.Open(copied, nil))
	if ok[uint64](t)(other.StoreID()) == id || id == 0 {
		t.Error(id)
	}
	must(t, other.Close())
	must(t, db.Close())
	_, err := db.StoreID()
	isKind(t, err, esker.ErrClosed)
	_, err = db.RecoveryNotes()
	isKind(t, err, esker.ErrClosed)
	var events recorder
	after := ok[*esker.DB](t)(esker.Open(torn, &esker.Options{
		Listeners: []esker.Listener{events.listen}}))
	notes := ok[[]string](t)(after.RecoveryNotes())
	t.Log(notes)
	if len(notes) == 0 || len(notes[0]) < 10 {
		t.Error(notes)
	}
	equal(t, ok[uint64](t)(after.StoreID()), id)
	equal(t, get(t, after, "a"), "1")
	equal(t, get(t, after, "b"), "none")
	must(t, after.Close())
	equal(t, events.of(t, esker.EventRecoveryNote).Cause != "", true)
	equal(t, events.of(t, esker.EventOpened).ClosedCleanly, false)
}

func TestLiveStatus(t *testing.T) {
	path := filepath.Join(t.TempDir(), "db")
	_, _, err := esker.LiveStatus(path, nil)
	isKind(t, err, esker.ErrNotFound)
	_, _, err = esker.LiveStatus("a\x00b", nil)
	isKind(t, err, esker.ErrInvalidArgument)
	db := ok[*esker.DB](t)(esker.Open(path, nil))
	defer db.Close()
	must(t, db.Put([]byte("k"), []byte("v")))
	began := time.Now()
	for {
		metrics, process, err := esker.LiveStatus(path, nil)
		if err != nil && time.Since(began) < 2*time.Minute {
			isKind(t, err, esker.ErrNotFound)
			time.Sleep(time.Millisecond)
			continue
		}
		must(t, err)
		equal(t, process, os.Getpid())
		equal(t, strings.HasSuffix(strings.TrimSpace(metrics), "# EOF"), true)
		break
	}
}

func TestPerf(t *testing.T) {
	db := newStore(t)
	must(t, db.Put([]byte("k"), []byte("value")))
	perf := esker.Perf(func() {
		equal(t, get(t, db, "k"), "value")
		_ = ok[[][]byte](t)(db.MultiGet([][]byte{[]byte("k"), []byte("none")}))
		must(t, db.Put([]byte("l"), []byte("value"), esker.Sync))
	})
	if perf.Gets != 3 || perf.MemtableHits != 2 || perf.ValueBytesRead != 10 || perf.WALBytes == 0 ||
		perf.WALSyncs != 1 || perf.BlocksRead != 0 {
		t.Errorf("%+v", perf)
	}
	if perf.Other != nil {
		t.Errorf("counts without a field: %v", perf.Other)
	}
	must(t, db.Flush(background))
	perf = esker.Perf(func() { equal(t, get(t, db, "k"), "value") })
	if perf.Gets != 1 || perf.MemtableHits != 0 || perf.TablesSearched != 1 ||
		perf.CacheHits+perf.CacheMisses == 0 {
		t.Errorf("%+v", perf)
	}
	// Calls of others do not count, and a panic passes.
	var others sync.WaitGroup
	defer others.Wait()
	stop := make(chan struct{})
	defer close(stop)
	for range 4 {
		others.Add(1)
		go func() {
			defer others.Done()
			for {
				select {
				case <-stop:
					return
				default:
					_, _, _ = db.Get([]byte("k"))
				}
			}
		}()
	}
	for range 100 {
		perf = esker.Perf(func() { _, _, _ = db.Get([]byte("k")) })
		equal(t, perf.Gets, 1)
	}
	func() {
		defer func() { equal(t, recover(), any("planted")) }()
		esker.Perf(func() { panic("planted") })
	}()
	equal(t, esker.Perf(func() {}).Gets, 0)
}

func TestRuntimes(t *testing.T) {
	shared := ok[*esker.Runtime](t)(esker.NewRuntime(map[string]string{
		"memory_budget_bytes": "64MiB", "threads_max": "3", "cache_policy": "lru"}))
	var _ io.Closer = shared
	metric := func(name string) uint64 { return ok[uint64](t)(shared.Metric(name)) }
	options := memory(t)
	options.Runtime = shared
	var stores []*esker.DB
	for _, name := range []string{"/a", "/b"} {
		db := ok[*esker.DB](t)(esker.Open(name, options))
		defer db.Close()
		must(t, db.Put([]byte("k"), []byte(name)))
		must(t, db.Flush(background))
		stores = append(stores, db)
	}
	equal(t, metric("stores"), 2)
	equal(t, metric("budget_bytes"), 64<<20)
	equal(t, metric("background_bytes") > 0, true)
	for _, name := range []string{"threads", "memtable_bytes", "memtable_limit_bytes",
		"tables_bytes", "cache_bytes", "cache_capacity_bytes"} {
		metric(name)
	}
	_, err := shared.Metric("nothing")
	isKind(t, err, esker.ErrInvalidArgument)
	must(t, stores[0].Close())
	equal(t, metric("stores"), 1)
	must(t, shared.Close())
	must(t, shared.Close())
	equal(t, get(t, stores[1], "k"), "/b")
	must(t, stores[1].Flush(background))
	_, err = shared.Metric("stores")
	isKind(t, err, esker.ErrClosed)
	_, err = esker.Open("/c", options)
	isKind(t, err, esker.ErrClosed)
	for name, value := range map[string]string{"memory_budget_bytes": "1", "threads_max": "2",
		"cache_policy": "best", "cache_size_bytes": "much", "threads": "3", "a\x00": "1"} {
		_, err := esker.NewRuntime(map[string]string{name: value})
		isKind(t, err, esker.ErrInvalidArgument)
	}
	must(t, ok[*esker.Runtime](t)(esker.NewRuntime(nil)).Close())
}

func TestListeners(t *testing.T) {
	options := small(memory(t))
	var events, second recorder
	var db atomic.Pointer[esker.DB]
	var inside atomic.Value
	options.Listeners = []esker.Listener{events.listen, func(event esker.Event) {
		deep(300)
		if store := db.Load(); store != nil && event.Kind == esker.EventKeyspaceCreated {
			inside.Store(store.Put([]byte("k"), []byte("v")))
		}
	}, second.listen}
	store := ok[*esker.DB](t)(esker.Open("/store", options))
	db.Store(store)
	users := ok[*esker.Keyspace](t)(store.Keyspace("users", nil))
	// Puts and gets with memory on stacks that move, while events are delivered.
	var running sync.WaitGroup
	for g := range 4 {
		running.Add(1)
		go func() {
			defer running.Done()
			for i := range 1000 {
				key := [4]byte{byte(g), byte(i >> 8), byte(i), 'k'}
				var value [100]byte
				copy(value[:], key[:])
				if err := store.Put(key[:], value[:]); err != nil {
					t.Error(err)
				}
				got, found, err := store.Get(key[:])
				if !found || err != nil || !bytes.Equal(got, value[:]) {
					t.Error(got, found, err)
				}
			}
		}()
	}
	running.Wait()
	must(t, users.Put([]byte("u"), []byte("1")))
	must(t, store.Flush(background))
	must(t, store.CompactRange(background, nil, nil))
	must(t, store.RenameKeyspace("users", "people"))
	must(t, store.DropKeyspace("people"))
	must(t, store.Close())
	equal(t, len(events.events), len(second.events))
	for i, event := range events.events {
		equal(t, event.Text != "" && event == second.events[i], true)
	}
	equal(t, events.events[0].Kind, esker.EventOpened)
	equal(t, events.events[len(events.events)-1].Kind, esker.EventClosed)
	began, ended := events.of(t, esker.EventFlushBegan), events.of(t, esker.EventFlushEnded)
	if began.Job != ended.Job || ended.WrittenBytes == 0 || ended.Tables == 0 || ended.Err != nil ||
		ended.Duration <= 0 || began.MemoryBytes == 0 {
		t.Errorf("%+v %+v", began, ended)
	}
	equal(t, events.of(t, esker.EventTableCreated).Bytes > 0, true)
	equal(t, events.of(t, esker.EventKeyspaceCreated).Name, "users")
	renamed := events.of(t, esker.EventKeyspaceRenamed)
	equal(t, renamed.Name+" "+renamed.NewName, "users people")
	equal(t, events.of(t, esker.EventKeyspaceDropped).Name, "people")
	isKind(t, inside.Load().(error), esker.ErrInvalidArgument)
	_, err := esker.Open("/store", &esker.Options{Listeners: []esker.Listener{nil}})
	isKind(t, err, esker.ErrInvalidArgument)
}

func TestPanicOfAListenerIsLogged(t *testing.T) {
	var output bytes.Buffer
	var mutex sync.Mutex
	log.SetOutput(writeFunc(func(text []byte) (int, error) {
		mutex.Lock()
		defer mutex.Unlock()
		return output.Write(text)
	}))
	defer log.SetOutput(os.Stderr)
	options := memory(t)
	var events recorder
	options.Listeners = []esker.Listener{func(event esker.Event) { panic("planted") },
		events.listen}
	db := open(t, options)
	must(t, db.Put([]byte("k"), []byte("v")))
	must(t, db.Flush(background))
	equal(t, get(t, db, "k"), "v")
	must(t, db.Close())
	events.of(t, esker.EventClosed)
	mutex.Lock()
	defer mutex.Unlock()
	if !strings.Contains(output.String(), "esker: a listener panicked: planted") {
		t.Error(output.String())
	}
}

type writeFunc func([]byte) (int, error)

func (w writeFunc) Write(text []byte) (int, error) { return w(text) }

func TestListenerGetsTheErrorOfAnEvent(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "db")
	db := ok[*esker.DB](t)(esker.Open(dir, nil))
	random := rand.NewChaCha8([32]byte{})
	value := make([]byte, 100_000)
	_, _ = random.Read(value)
	must(t, db.Put([]byte("k"), value))
	must(t, db.Flush(background))
	must(t, db.Close())
	tables := ok[[]string](t)(filepath.Glob(filepath.Join(dir, "*.sst")))
	equal(t, len(tables) > 0, true)
	content := ok[[]byte](t)(os.ReadFile(tables[0]))
	content[len(content)/2] ^= 1
	must(t, os.WriteFile(tables[0], content, 0o644))
	var events recorder
	db = ok[*esker.DB](t)(esker.Open(dir, &esker.Options{
		Listeners: []esker.Listener{events.listen}}))
	must(t, db.Put([]byte("k"), []byte("new")))
	isKind(t, db.CompactRange(background, nil, nil), esker.ErrCorruption)
	_ = db.Close()
	isKind(t, events.of(t, esker.EventCompactionEnded).Err, esker.ErrCorruption)
}

func TestClocks(t *testing.T) {
	var now atomic.Int64
	now.Store(time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC).UnixNano())
	options := memory(t)
	options.Clock = func() time.Time {
		deep(200)
		return time.Unix(0, now.Load())
	}
	db := open(t, options)
	must(t, db.PutWithTTL([]byte("k"), []byte("v"), time.Hour))
	tx := ok[*esker.Transaction](t)(db.Begin(nil))
	defer tx.Close()
	must(t, tx.PutWithTTL([]byte("l"), []byte("v"), 2*time.Hour))
	must(t, tx.Commit())
	_, expires, _, err := db.GetWithExpiry([]byte("k"))
	must(t, err)
	equal(t, expires.UTC(), time.Date(2030, 1, 1, 1, 0, 0, 0, time.UTC))
	equal(t, get(t, db, "k"), "v")
	now.Add(int64(61 * time.Minute))
	equal(t, get(t, db, "k"), "none")
	equal(t, pairs(t, db.Range(nil, nil)), "l=v ")
	equal(t, ok[bool](t)(db.Has([]byte("k"))), false)
	// The time of an open store does not go back.
	now.Add(-int64(30 * time.Minute))
	equal(t, get(t, db, "k"), "none")
	now.Add(int64(3 * time.Hour))
	must(t, db.CompactRange(context.Background(), nil, nil))
	equal(t, pairs(t, db.Range(nil, nil)), "")
}

func TestMultiGetInASnapshot(t *testing.T) {
	db := newStore(t)
	users := ok[*esker.Keyspace](t)(db.Keyspace("users", nil))
	must(t, db.Put([]byte("a"), []byte("old")))
	must(t, users.Put([]byte("a"), []byte("user")))
	snapshot := ok[*esker.Snapshot](t)(db.Snapshot())
	defer snapshot.Close()
	must(t, db.Put([]byte("a"), []byte("new")))
	must(t, users.Put([]byte("a"), []byte("new")))
	keys := [][]byte{[]byte("a"), []byte("none"), nil}
	for reader, expected := range map[interface {
		MultiGet([][]byte) ([][]byte, error)
	}]string{snapshot: "old", snapshot.In(users): "user"} {
		perf := esker.Perf(func() {
			values := ok[[][]byte](t)(reader.MultiGet(keys))
			equal(t, string(values[0]), expected)
			equal(t, values[0] != nil && values[1] == nil && values[2] == nil, true)
		})
		equal(t, perf.Gets, 3)
	}
	must(t, db.Close())
	_, err := snapshot.MultiGet(keys)
	isKind(t, err, esker.ErrClosed)
}
