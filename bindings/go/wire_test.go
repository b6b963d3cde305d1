// Streams of changes: from a store into bytes, and from bytes into another store.

package esker_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"esker.dev/esker"
)

// headerBytes is the length of the header of a stream.
const headerBytes = 28

func openAt(t testing.TB, path string, options *esker.Options) *esker.DB {
	t.Helper()
	db := ok[*esker.DB](t)(esker.Open(path, options))
	t.Cleanup(func() { must(t, db.Close()) })
	return db
}

// streamOf returns the changes of a store after a position as bytes, the position of their end, and the
// number of batches. With a negative position the content comes first.
func streamOf(t testing.TB, db *esker.DB, from int) (stream []byte, position uint64, batches int) {
	t.Helper()
	var out bytes.Buffer
	writer := ok[*esker.ChangeWriter](t)(esker.NewChangeWriter(db, &out))
	defer writer.Close()
	equal(t, out.Len(), headerBytes)
	position = uint64(max(from, 0))
	if from < 0 {
		position = ok[uint64](t)(writer.WriteContent())
	}
	changes := ok[*esker.Changes](t)(db.Changes(position))
	defer changes.Close()
	isKind(t, writer.WriteBatch(changes), esker.ErrInvalidArgument)
	for batch, err := range changes.All() {
		must(t, err)
		must(t, writer.WriteBatch(changes))
		position = batch.Sequence
		batches++
	}
	// The last batch is not valid any more.
	isKind(t, writer.WriteBatch(changes), esker.ErrInvalidArgument)
	must(t, writer.WriteAlive(position))
	must(t, writer.WriteEnd(position))
	return out.Bytes(), position, batches
}

// applied applies a whole stream, and returns the number of items of each kind.
func applied(t testing.TB, db *esker.DB, in io.Reader, position uint64) map[esker.StreamKind]int {
	t.Helper()
	applier := ok[*esker.ChangeApplier](t)(esker.NewChangeApplier(db, in))
	defer applier.Close()
	kinds, last := map[esker.StreamKind]int{}, esker.StreamItem{}
	for item, err := range applier.All() {
		must(t, err)
		kinds[item.Kind]++
		last = *item
	}
	equal(t, last, esker.StreamItem{Kind: esker.StreamEnd, Position: position})
	if item, err := applier.Next(); item != nil || err != nil {
		t.Error(item, err)
	}
	return kinds
}

func TestStreamOfContentAndChangesMakesAReplica(t *testing.T) {
	options := memory(t)
	source, target := openAt(t, "/source", options), openAt(t, "/target", options)
	_ = ok[*esker.Slot](t)(source.Subscribe("copy", nil))
	other := ok[*esker.Keyspace](t)(source.Keyspace("other", nil))
	must(t, other.Put([]byte("k"), []byte("in other")))
	must(t, source.Put([]byte("before"), []byte("1")))
	id, position, found, err := target.AppliedPosition()
	must(t, err)
	equal(t, found || id != 0 || position != 0, false)

	stream, end, batches := streamOf(t, source, -1)
	equal(t, batches, 0)
	kinds := applied(t, target, iotest.OneByteReader(bytes.NewReader(stream)), end)
	equal(t, kinds[esker.StreamContent] > 0, true)
	equal(t, kinds[esker.StreamContentEnd], 1)
	equal(t, kinds[esker.StreamAlive]+kinds[esker.StreamEnd], 2)
	equal(t, pairs(t, target.Range(nil, nil)), "before=1 ")
	copied := ok[*esker.Keyspace](t)(target.FindKeyspace("other"))
	equal(t, get(t, copied, "k"), "in other")

	must(t, source.Put([]byte("after"), []byte("2")))
	must(t, source.Delete([]byte("before")))
	id, position, found, err = target.AppliedPosition()
	must(t, err)
	equal(t, found && id == ok[uint64](t)(source.StoreID()) && position == end, true)
	stream, end, batches = streamOf(t, source, int(position))
	equal(t, batches, 2)
	// What the store has already is left out.
	for range 2 {
		kinds = applied(t, target, bytes.NewReader(stream), end)
		equal(t, kinds[esker.StreamBatch], 2)
		equal(t, kinds[esker.StreamContent], 0)
		equal(t, pairs(t, target.Range(nil, nil)), "after=2 ")
	}
	_, position, _, err = target.AppliedPosition()
	must(t, err)
	equal(t, position, end)
}

func TestStreamOverAPipeBringsEachWrite(t *testing.T) {
	const count = 3000
	options := memory(t)
	source, target := openAt(t, "/source", options), openAt(t, "/target", options)
	slot := ok[*esker.Slot](t)(source.Subscribe("copy", nil))
	in, out := io.Pipe()
	defer in.Close()
	ctx, cancel := context.WithCancel(within(t))
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- sendUntil(ctx, source, slot, out) }()
	applier := ok[*esker.ChangeApplier](t)(esker.NewChangeApplier(target, in))
	defer applier.Close()
	equal(t, applier.Source(), ok[uint64](t)(source.StoreID()))
	// An ingest of 3 MB comes in parts, which are visible together.
	_ = ok[esker.IngestReport](t)(source.BulkLoad(within(t), func(
		yield func(esker.Pair, error) bool) {
		for pair, err := range squares(count, nil) {
			pair.Value = append(pair.Value, bytes.Repeat([]byte("v"), 1000)...)
			if !yield(pair, err) {
				return
			}
		}
	}))
	must(t, source.Put([]byte("last"), bytes.Repeat([]byte("v"), 1<<20)))
	items := 0
	for item, err := range applier.All() {
		must(t, err)
		items++
		if has := ok[bool](t)(target.Has([]byte("last"))); has && item.Kind == esker.StreamBatch {
			cancel()
		}
	}
	must(t, <-ended)
	equal(t, items > 4, true)
	copied := pairs(t, target.Range(nil, nil))
	equal(t, len(copied) > 4_000_000 && copied == pairs(t, source.Range(nil, nil)), true)
}

// sendUntil writes the changes of a slot until ctx ends, and then the end.
func sendUntil(ctx context.Context, db *esker.DB, slot *esker.Slot, out io.Writer) error {
	writer, err := esker.NewChangeWriter(db, out)
	if err != nil {
		return err
	}
	defer writer.Close()
	changes, err := slot.Changes()
	if err != nil {
		return err
	}
	defer changes.Close()
	if err := writer.WriteAlive(changes.Position()); err != nil {
		return err
	}
	for _, err := range changes.Follow(ctx) {
		if err := errors.Join(err, writer.WriteBatch(changes)); err != nil {
			return err
		}
	}
	return writer.WriteEnd(changes.Position())
}

func TestStreamBeginsAtThePositionOfACopy(t *testing.T) {
	options := memory(t)
	source := openAt(t, "/source", options)
	_ = ok[*esker.Slot](t)(source.Subscribe("copy", nil))
	must(t, source.Put([]byte("a"), []byte("1")))
	snapshot, position, err := source.SnapshotWithPosition()
	must(t, err)
	must(t, snapshot.Close())
	must(t, source.Checkpoint(background, "/copy"))
	must(t, source.Put([]byte("b"), []byte("2")))
	stream, end, batches := streamOf(t, source, int(position))
	equal(t, batches, 1)
	target := openAt(t, "/copy", options)
	applier := ok[*esker.ChangeApplier](t)(esker.NewChangeApplier(target, bytes.NewReader(stream)))
	must(t, applier.StartAt(position))
	isKind(t, applier.StartAt(position), esker.ErrInvalidArgument)
	must(t, applier.Close())
	_ = applied(t, target, bytes.NewReader(stream), end)
	equal(t, pairs(t, target.Range(nil, nil)), "a=1 b=2 ")

	// An empty store lacks what came before.
	empty := openAt(t, "/empty", options)
	applier = ok[*esker.ChangeApplier](t)(esker.NewChangeApplier(empty, bytes.NewReader(stream)))
	defer applier.Close()
	for range 2 {
		_, err = applier.Next()
		isKind(t, err, esker.ErrInvalidArgument)
	}
	equal(t, pairs(t, empty.Range(nil, nil)), "")
}

func TestWrongStreamsAreRefused(t *testing.T) {
	options := memory(t)
	source, target := openAt(t, "/source", options), openAt(t, "/target", options)
	must(t, source.Put([]byte("a"), []byte("1")))
	stream, end, _ := streamOf(t, source, 0)
	_, err := esker.NewChangeApplier(source, bytes.NewReader(stream))
	isKind(t, err, esker.ErrIncompatible)
	for _, text := range []string{"", "short", strings.Repeat("no stream ", 10)} {
		_, err = esker.NewChangeApplier(target, strings.NewReader(text))
		isKind(t, err, esker.ErrCorruption)
	}
	damaged := bytes.Clone(stream)
	damaged[headerBytes+8] ^= 1
	for _, c := range []struct {
		stream []byte
		kind   esker.Kind
	}{{stream[:len(stream)-9], esker.ErrIO}, {stream[:headerBytes], esker.ErrIO},
		{damaged, esker.ErrCorruption}} {
		applier := ok[*esker.ChangeApplier](t)(esker.NewChangeApplier(target,
			bytes.NewReader(c.stream)))
		var failure error
		for _, err := range applier.All() {
			failure = err
		}
		isKind(t, failure, c.kind)
		_, err = applier.Next()
		equal(t, err, failure)
		must(t, applier.Close())
	}
	_ = applied(t, target, bytes.NewReader(stream), end)
	// The store has the changes of one store only.
	other := openAt(t, "/other", options)
	stream, _, _ = streamOf(t, other, 0)
	_, err = esker.NewChangeApplier(target, bytes.NewReader(stream))
	isKind(t, err, esker.ErrIncompatible)
}

func TestErrorsOfTheWriterOfAStreamAreReturned(t *testing.T) {
	db := newStore(t)
	planted := errors.New("planted")
	var failure error
	calls := 0
	out := writeFunc(func(part []byte) (int, error) {
		calls++
		return len(part), failure
	})
	writer := ok[*esker.ChangeWriter](t)(esker.NewChangeWriter(db, out))
	failure = planted
	equal(t, writer.WriteAlive(1), planted)
	calls, failure = 0, nil
	// It is not called again.
	equal(t, writer.WriteEnd(1), planted)
	_, err := writer.WriteContent()
	equal(t, err, planted)
	equal(t, calls, 0)
	must(t, writer.Close())
	failure = planted
	_, err = esker.NewChangeWriter(db, out)
	equal(t, err, planted)
	_, err = esker.NewChangeWriter(db, writeFunc(func([]byte) (int, error) { return 1, nil }))
	equal(t, err, io.ErrShortWrite)

	// A panic passes, and ends the stream.
	panics := false
	writer = ok[*esker.ChangeWriter](t)(esker.NewChangeWriter(db,
		writeFunc(func(part []byte) (int, error) {
			if panics {
				panic("planted")
			}
			return len(part), nil
		})))
	defer writer.Close()
	panics = true
	func() {
		defer func() { equal(t, recover(), any("planted")) }()
		_ = writer.WriteAlive(1)
	}()
	panics = false
	isKind(t, writer.WriteEnd(1), esker.ErrIO)

	// It may use the store, but not close it.
	var refused error
	_ = ok[*esker.ChangeWriter](t)(esker.NewChangeWriter(db, writeFunc(
		func(part []byte) (int, error) {
			refused = db.Close()
			return len(part), db.Put([]byte("k"), []byte("v"))
		}))).Close()
	isKind(t, refused, esker.ErrInvalidArgument)
	equal(t, get(t, db, "k"), "v")
}

func TestErrorsOfTheReaderOfAStreamAreReturned(t *testing.T) {
	options := memory(t)
	source, target := openAt(t, "/source", options), openAt(t, "/target", options)
	must(t, source.Put([]byte("a"), []byte("1")))
	stream, _, _ := streamOf(t, source, 0)
	planted := errors.New("planted")
	_, err := esker.NewChangeApplier(target, failing{planted})
	equal(t, err, planted)
	func() {
		defer func() { equal(t, recover(), any("planted")) }()
		_, _ = esker.NewChangeApplier(target, failing{nil})
	}()
	header := func() io.Reader { return bytes.NewReader(stream[:headerBytes]) }
	applier := ok[*esker.ChangeApplier](t)(esker.NewChangeApplier(target,
		io.MultiReader(header(), failing{planted})))
	for range 2 {
		_, err = applier.Next()
		equal(t, err, planted)
	}
	must(t, applier.Close())
	applier = ok[*esker.ChangeApplier](t)(esker.NewChangeApplier(target,
		io.MultiReader(header(), failing{nil})))
	defer applier.Close()
	func() {
		defer func() { equal(t, recover(), any("planted")) }()
		_, _ = applier.Next()
	}()
	_, err = applier.Next()
	isKind(t, err, esker.ErrIO)
	equal(t, get(t, target, "a"), "none")
}

func TestUseOfStreamsAfterClose(t *testing.T) {
	options := memory(t)
	source, target := openAt(t, "/source", options), openAt(t, "/target", options)
	must(t, source.Put([]byte("a"), []byte("1")))
	stream, _, _ := streamOf(t, source, 0)
	writer := ok[*esker.ChangeWriter](t)(esker.NewChangeWriter(source, io.Discard))
	changes := ok[*esker.Changes](t)(source.Changes(0))
	foreign := ok[*esker.Changes](t)(target.Changes(0))
	isKind(t, writer.WriteBatch(nil), esker.ErrInvalidArgument)
	isKind(t, writer.WriteBatch(foreign), esker.ErrInvalidArgument)
	_ = ok[*esker.ChangeBatch](t)(changes.Poll())
	must(t, writer.WriteBatch(changes))
	must(t, foreign.Close())
	isKind(t, writer.WriteBatch(foreign), esker.ErrClosed)
	isKind(t, writer.WriteBatch(new(esker.Changes)), esker.ErrClosed)
	applier := ok[*esker.ChangeApplier](t)(esker.NewChangeApplier(target, bytes.NewReader(stream)))
	for range 2 {
		must(t, writer.Close())
		must(t, applier.Close())
	}
	for _, closed := range []*esker.ChangeWriter{writer, new(esker.ChangeWriter)} {
		isKind(t, closed.WriteBatch(changes), esker.ErrClosed)
		_, err := closed.WriteContent()
		isKind(t, err, esker.ErrClosed)
		isKind(t, closed.WriteAlive(1), esker.ErrClosed)
		isKind(t, closed.WriteEnd(1), esker.ErrClosed)
	}
	must(t, changes.Close())
	for _, closed := range []*esker.ChangeApplier{applier, new(esker.ChangeApplier)} {
		_, err := closed.Next()
		isKind(t, err, esker.ErrClosed)
		for _, err := range closed.All() {
			isKind(t, err, esker.ErrClosed)
		}
		isKind(t, closed.StartAt(1), esker.ErrClosed)
		equal(t, closed.Source(), 0)
	}
	_, err := esker.NewChangeWriter(nil, io.Discard)
	isKind(t, err, esker.ErrInvalidArgument)
	_, err = esker.NewChangeWriter(source, nil)
	isKind(t, err, esker.ErrInvalidArgument)
	_, err = esker.NewChangeApplier(nil, strings.NewReader(""))
	isKind(t, err, esker.ErrInvalidArgument)
	_, err = esker.NewChangeApplier(target, nil)
	isKind(t, err, esker.ErrInvalidArgument)
}

type readFunc func([]byte) (int, error)

func (r readFunc) Read(room []byte) (int, error) { return r(room) }

func TestCloseOfTheStoreEndsStreams(t *testing.T) {
	options := memory(t)
	source, target := openAt(t, "/source", options), openAt(t, "/target", options)
	in, out := io.Pipe()
	defer in.Close()
	made := make(chan *esker.ChangeWriter, 1)
	go func() {
		writer, err := esker.NewChangeWriter(source, out)
		if err != nil {
			t.Error(err)
		}
		made <- writer
	}()
	reads := make(chan struct{}, 100)
	applier := ok[*esker.ChangeApplier](t)(esker.NewChangeApplier(target,
		readFunc(func(room []byte) (int, error) {
			reads <- struct{}{}
			return in.Read(room)
		})))
	defer applier.Close()
	writer := <-made
	defer writer.Close()
	<-reads
	ended := make(chan error, 1)
	go func() {
		_, err := applier.Next()
		ended <- err
	}()
	// A close does not wait for bytes.
	<-reads
	must(t, target.Close())
	must(t, writer.WriteAlive(1))
	isKind(t, <-ended, esker.ErrClosed)
	must(t, source.Close())
	_, err := writer.WriteContent()
	isKind(t, err, esker.ErrClosed)
	_, err = esker.NewChangeWriter(source, io.Discard)
	isKind(t, err, esker.ErrClosed)
	_, err = esker.NewChangeApplier(target, strings.NewReader(""))
	isKind(t, err, esker.ErrClosed)
	_, _, _, err = target.AppliedPosition()
	isKind(t, err, esker.ErrClosed)
}

func TestStreamsThatAreNotClosedAreNoted(t *testing.T) {
	options := memory(t)
	source, target := openAt(t, "/source", options), openAt(t, "/target", options)
	stream, _, _ := streamOf(t, source, 0)
	takeLeaks()
	_ = ok[*esker.ChangeWriter](t)(esker.NewChangeWriter(source, io.Discard))
	_ = ok[*esker.ChangeApplier](t)(esker.NewChangeApplier(target, bytes.NewReader(stream)))
	var warnings []string
	for end := time.Now().Add(patience); len(warnings) < 2 && time.Now().Before(end); {
		warnings = append(warnings, takeLeaks()...)
	}
	text := fmt.Sprint(warnings)
	equal(t, strings.Contains(text, "a change writer was") &&
		strings.Contains(text, "a change applier was"), true)
}
