// Single calls on stores, keyspaces and snapshots.

package esker_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"esker.dev/esker"
)

var background = context.Background()

var (
	_ io.Closer = (*esker.DB)(nil)
	_ io.Closer = (*esker.Iterator)(nil)
	_ io.Closer = (*esker.Snapshot)(nil)
	_ io.Closer = (*esker.Transaction)(nil)
	_ io.Closer = (*esker.Keyspace)(nil)
	_ io.Closer = (*esker.Memory)(nil)
	_ io.Closer = (*esker.ChangeWriter)(nil)
	_ io.Closer = (*esker.ChangeApplier)(nil)
)

// The package uses every function of the C interface, except those that it does in Go.
func TestTheWholeInterfaceIsUsed(t *testing.T) {
	word := regexp.MustCompile(`\besker_[a-z0-9_]+\b`)
	used := map[string]bool{}
	files := ok[[]string](t)(filepath.Glob("*.[gch]*"))
	for _, file := range files {
		if file == "esker.h" || strings.HasSuffix(file, "_test.go") {
			continue
		}
		for _, name := range word.FindAllString(string(ok[[]byte](t)(os.ReadFile(file))), -1) {
			used[name] = true
		}
	}
	header := ok[[]byte](t)(os.ReadFile("esker.h"))
	declared := regexp.MustCompile(`(?m)^[a-z].*?\b(esker_[a-z0-9_]+)\(`).FindAllSubmatch(header, -1)
	if len(declared) < 130 {
		t.Errorf("only %d functions were found", len(declared))
	}
	for _, name := range declared {
		// A batch is made in Go, pairs are read in chunks, and a get visits the value.
		inGo := strings.HasPrefix(string(name[1]), "esker_batch_") ||
			slices.Contains([]string{"esker_get", "esker_get_with", "esker_keyspace_get",
				"esker_keyspace_get_with", "esker_iter_value", "esker_iter_failure",
				"esker_iter_expires_ms"}, string(name[1]))
		if !used[string(name[1])] && !inGo {
			t.Errorf("%s is not used", name[1])
		}
	}
}

func TestPutGetDelete(t *testing.T) {
	db := newStore(t)
	for _, durability := range []esker.Durability{
		esker.StoreDurability, esker.NoLog, esker.Buffered, esker.Sync,
	} {
		must(t, db.Put([]byte("k"), []byte("v"), durability))
		equal(t, get(t, db, "k"), "v")
		must(t, db.Delete([]byte("k"), durability))
		equal(t, get(t, db, "k"), "none")
	}
	isKind(t, db.Put([]byte("k"), nil, 7), esker.ErrInvalidArgument)
	must(t, db.Put([]byte("a"), []byte("1")))
	equal(t, ok[bool](t)(db.Has([]byte("a"))), true)
	equal(t, ok[bool](t)(db.Has([]byte("b"))), false)
	equal(t, ok[bool](t)(db.Take([]byte("a"))), true)
	equal(t, ok[bool](t)(db.Take([]byte("a"))), false)
	for _, key := range []string{"a", "b", "c"} {
		must(t, db.Put([]byte(key), []byte(key)))
	}
	must(t, db.DeleteRange([]byte("a"), nil))
	must(t, db.DeleteRange([]byte("b"), []byte("b")))
	must(t, db.DeleteRange([]byte("c"), []byte("a")))
	equal(t, pairs(t, db.Range(nil, nil)), "a=a b=b c=c ")
	must(t, db.DeleteRange([]byte("a"), []byte("c")))
	equal(t, pairs(t, db.Range(nil, nil)), "c=c ")
	must(t, db.Sync())
}

func TestNilAndEmptyAndHugeBytes(t *testing.T) {
	db := newStore(t)
	for _, key := range [][]byte{nil, {}, {0}, bytes.Repeat([]byte("k"), 1<<20)} {
		for _, value := range [][]byte{nil, {}, {0}, bytes.Repeat([]byte("v"), 3<<20)} {
			must(t, db.Put(key, value))
			got, found, err := db.Get(key)
			if err != nil || !found || got == nil || !bytes.Equal(got, value) {
				t.Fatal(len(key), len(value), len(got), found, err)
			}
			got, found, err = db.GetInto(nil, key)
			if err != nil || !found || got == nil || !bytes.Equal(got, value) {
				t.Fatal(len(key), len(value), len(got), found, err)
			}
			it := ok[*esker.Iterator](t)(db.Iterator(nil))
			if !it.Seek(key) || !bytes.Equal(it.Key(), key) || !bytes.Equal(it.Value(), value) {
				t.Fatal(len(key), len(value), it.Err())
			}
			must(t, it.Close())
		}
	}
	long := make([]byte, 1<<20+1)
	isKind(t, db.Put(long, nil), esker.ErrInvalidArgument)
	var batch esker.Batch
	batch.Put(long, nil)
	isKind(t, db.Write(&batch), esker.ErrInvalidArgument)
	if _, found, err := db.Get(long); found || err != nil && !errors.Is(err, esker.ErrInvalidArgument) {
		t.Fatal(found, err)
	}
}

func TestGetIntoUsesTheGivenMemory(t *testing.T) {
	db := newStore(t)
	value := bytes.Repeat([]byte("v"), 700)
	must(t, db.Put([]byte("k"), value))
	room := make([]byte, 3, 1000)
	got, found, err := db.GetInto(room, []byte("k"))
	if err != nil || !found || !bytes.Equal(got, value) || &got[0] != &room[0] {
		t.Fatal(found, err)
	}
	small := make([]byte, 10)
	if got, _, err = db.GetInto(small, []byte("k")); err != nil || !bytes.Equal(got, value) {
		t.Fatal(err)
	}
	must(t, db.Put([]byte("k"), nil))
	if got, found, _ = db.GetInto(room, []byte("k")); !found || got == nil || len(got) != 0 {
		t.Fatal(got, found)
	}
	if got, found, err = db.GetInto(room, []byte("other")); found || got != nil || err != nil {
		t.Fatal(got, found, err)
	}
	uncached, found, err := db.GetUncached([]byte("k"))
	if !found || uncached == nil || err != nil {
		t.Fatal(uncached, found, err)
	}
}

func TestCallsWithoutAllocations(t *testing.T) {
	db := newStore(t)
	value := make([]byte, 100)
	room := make([]byte, 0, 200)
	must(t, db.Put([]byte{1, 2, 3, 4}, value))
	must(t, db.Flush(background))
	it := ok[*esker.Iterator](t)(db.Iterator(nil))
	defer it.Close()
	none := func(what string, allowed float64, call func()) {
		t.Helper()
		if allocations := testing.AllocsPerRun(100, call); allocations > allowed {
			t.Errorf("%s: %v allocations", what, allocations)
		}
	}
	none("GetInto", 0, func() {
		key := [4]byte{1, 2, 3, 4}
		if _, found, err := db.GetInto(room, key[:]); !found || err != nil {
			t.Fatal(err)
		}
	})
	none("Get", 1, func() { _, _, _ = db.Get([]byte{1, 2, 3, 4}) })
	none("Put", 0, func() {
		key := [4]byte{1, 2, 3, 4}
		_ = db.Put(key[:], value)
	})
	none("First", 0, func() { it.First() })
	var batch esker.Batch
	none("Batch", 0, func() {
		batch.Reset()
		batch.Put(value, value)
		_ = db.Write(&batch)
	})
}

func TestMultiGet(t *testing.T) {
	db := newStore(t)
	must(t, db.Put([]byte("a"), []byte("1")))
	must(t, db.Put([]byte("b"), nil))
	snapshot := ok[*esker.Snapshot](t)(db.Snapshot())
	defer snapshot.Close()
	must(t, db.Put([]byte("a"), []byte("2")))
	keys := [][]byte{[]byte("a"), nil, []byte("b"), []byte("a")}
	for _, c := range []struct {
		from interface {
			MultiGet([][]byte) ([][]byte, error)
		}
		a string
	}{{db, "2"}, {snapshot, "1"}} {
		values := ok[[][]byte](t)(c.from.MultiGet(keys))
		if string(values[0]) != c.a || values[1] != nil || values[2] == nil ||
			len(values[2]) != 0 || string(values[3]) != c.a {
			t.Fatalf("%q", values)
		}
		values[0] = append(values[0], 'x')
		equal(t, string(values[3]), c.a)
	}
	if values, err := db.MultiGet(nil); values != nil || err != nil {
		t.Fatal(values, err)
	}
	if values, err := db.MultiGet([][]byte{nil}); len(values) != 1 || err != nil {
		t.Fatal(values, err)
	}
}

func TestSnapshotsAndKeyspaces(t *testing.T) {
	db := newStore(t)
	users := ok[*esker.Keyspace](t)(db.Keyspace("users", nil))
	back := ok[*esker.Keyspace](t)(db.Keyspace("back", &esker.KeyspaceOptions{
		KeyOrder: "esker.reverse", Settings: map[string]string{"compression": "none"}}))
	var batch esker.Batch
	for _, k := range []string{"a", "b"} {
		batch.PutIn(users, []byte(k), []byte("u"))
		batch.PutIn(back, []byte(k), []byte("r"))
		batch.PutIn(nil, []byte(k), []byte("d"))
	}
	must(t, db.Write(&batch))
	snapshot := ok[*esker.Snapshot](t)(db.Snapshot())
	must(t, users.Delete([]byte("a")))
	must(t, db.Delete([]byte("b")))
	equal(t, pairs(t, db.Range(nil, nil)), "a=d ")
	equal(t, pairs(t, users.Range(nil, nil)), "b=u ")
	equal(t, pairs(t, back.Range(nil, nil)), "b=r a=r ")
	equal(t, pairs(t, back.RangeBackward(nil, nil)), "a=r b=r ")
	equal(t, pairs(t, snapshot.In(users).Range(nil, nil)), "a=u b=u ")
	equal(t, pairs(t, snapshot.Range(nil, nil)), "a=d b=d ")
	equal(t, get(t, snapshot.In(users), "a"), "u")
	equal(t, ok[bool](t)(snapshot.Has([]byte("b"))), true)
	must(t, snapshot.Close())

	equal(t, users.Name(), "users")
	equal(t, users.ID() == back.ID(), false)
	must(t, db.RenameKeyspace("users", "people"))
	equal(t, users.Name(), "people")
	equal(t, strings.Join(ok[[]string](t)(db.Keyspaces()), " "), "default back people")
	must(t, back.Clear())
	equal(t, pairs(t, back.Range(nil, nil)), "")
	must(t, users.CompactRange(background, nil, nil))
	if size := ok[uint64](t)(users.SizeBytes()); size == 0 {
		t.Fatal("no size")
	}
	found := ok[*esker.Keyspace](t)(db.FindKeyspace("people"))
	equal(t, get(t, found, "b"), "u")
	_, err := db.FindKeyspace("nobody")
	isKind(t, err, esker.ErrNotFound)
	_, err = db.Keyspace("people", &esker.KeyspaceOptions{KeyOrder: "esker.reverse"})
	isKind(t, err, esker.ErrInvalidArgument)
	_, err = db.Keyspace("x\x00y", nil)
	isKind(t, err, esker.ErrInvalidArgument)
	must(t, db.DropKeyspace("people"))
	_, _, err = users.Get([]byte("b"))
	isKind(t, err, esker.ErrNotFound)
	if !errors.Is(err, esker.ErrNotFound) {
		t.Fatal(err)
	}
}

func TestBatches(t *testing.T) {
	db := newStore(t)
	var batch, other esker.Batch
	batch.Put([]byte("a"), []byte("1"))
	batch.Delete([]byte("a"))
	batch.PutWithTTL([]byte("b"), []byte("2"), time.Hour)
	batch.DeleteRange([]byte("x"), []byte("z"))
	other.Merge([]byte("c"), []byte("3"))
	batch.Append(&other)
	batch.Append(&batch)
	equal(t, batch.Len(), 10)
	var kinds []string
	for op := range batch.Operations() {
		kinds = append(kinds, fmt.Sprintf("%d%s%s%v", op.Kind, op.Key, op.Value, op.TTL))
	}
	half := "1a10s 2a0s 4b21h0m0s 3xz0s 5c30s"
	equal(t, strings.Join(kinds, " "), half+" "+half)
	// There is no merge operator, so nothing is written.
	isKind(t, db.Write(&batch), esker.ErrInvalidArgument)
	equal(t, pairs(t, db.Range(nil, nil)), "")
	batch.Reset()
	equal(t, batch.Len(), 0)
	must(t, db.Write(&batch))
	batch.PutWithTTL([]byte("b"), []byte("2"), -1)
	isKind(t, db.Write(&batch), esker.ErrInvalidArgument)
	batch.Reset()
	for i := range 100 {
		name := fmt.Sprintf("k%02d", i)
		keyspace := ok[*esker.Keyspace](t)(db.Keyspace(name, nil))
		batch.PutIn(keyspace, []byte("k"), []byte(name))
		batch.PutIn(keyspace, []byte("l"), []byte(name))
	}
	must(t, db.Write(&batch, esker.Sync))
	for i := range 100 {
		name := fmt.Sprintf("k%02d", i)
		keyspace := ok[*esker.Keyspace](t)(db.FindKeyspace(name))
		equal(t, pairs(t, keyspace.Range(nil, nil)), "k="+name+" l="+name+" ")
	}
	_ = ok[*esker.Keyspace](t)(db.FindKeyspace("k00")).Close()
}

func TestPrefixes(t *testing.T) {
	db := newStore(t)
	for _, key := range []string{"a", "a\xff", "a\xff\xff", "b", "\xff", "\xff\xff"} {
		must(t, db.Put([]byte(key), []byte{'v'}))
	}
	equal(t, pairs(t, db.Prefix([]byte("a\xff"))), "a\xff=v a\xff\xff=v ")
	equal(t, pairs(t, db.Prefix([]byte("\xff"))), "\xff=v \xff\xff=v ")
	count := 0
	for range db.Prefix(nil) {
		if count++; count == 2 {
			break
		}
	}
	equal(t, count, 2)
	equal(t, string(esker.PrefixEnd([]byte("a\xff"))), "b")
}

func TestIteratorMoves(t *testing.T) {
	db := newStore(t)
	for i := range 1000 {
		must(t, db.Put(fmt.Appendf(nil, "%03d", i), bytes.Repeat([]byte("v"), i)))
	}
	it := ok[*esker.Iterator](t)(db.Iterator(&esker.IterOptions{
		Start: []byte("100"), End: []byte("900"), NoCache: true}))
	defer it.Close()
	at := func(moved bool, key string) {
		t.Helper()
		if moved != (key != "") || it.Valid() != moved || string(it.Key()) != key {
			t.Fatalf("%v %q, expected %q: %v", moved, it.Key(), key, it.Err())
		}
	}
	at(it.Next(), "")
	at(it.First(), "100")
	at(it.Prev(), "")
	at(it.Last(), "899")
	at(it.Next(), "")
	at(it.Next(), "")
	at(it.Seek([]byte("4567")), "457")
	for range 40 {
		it.Next()
	}
	at(it.Valid(), "497")
	at(it.Prev(), "496")
	at(it.Next(), "497")
	at(it.SeekForPrev([]byte("4567")), "456")
	at(it.Prev(), "455")
	at(it.Seek(nil), "100")
	at(it.Seek([]byte("950")), "")
	count := 0
	for key, value := range it.All() {
		equal(t, string(key), fmt.Sprintf("%03d", 100+count))
		equal(t, len(value), 100+count)
		count++
	}
	equal(t, count, 800)
	for key := range it.Backward() {
		count--
		equal(t, string(key), fmt.Sprintf("%03d", 100+count))
	}
	equal(t, count, 0)
	must(t, it.Err())
}

func TestPairsOfARangeStayValid(t *testing.T) {
	db := newStore(t)
	for i := range 3000 {
		must(t, db.Put(fmt.Appendf(nil, "%04d", i), bytes.Repeat([]byte{byte(i)}, i%50)))
	}
	var all []esker.Pair
	for pair, err := range db.Range(nil, nil) {
		must(t, err)
		pair.Key = append(pair.Key, 'x') // must not write over the value
		all = append(all, pair)
	}
	equal(t, len(all), 3000)
	for i, pair := range all {
		if string(pair.Key) != fmt.Sprintf("%04dx", i) ||
			!bytes.Equal(pair.Value, bytes.Repeat([]byte{byte(i)}, i%50)) {
			t.Fatalf("%d: %q", i, pair)
		}
	}
}
