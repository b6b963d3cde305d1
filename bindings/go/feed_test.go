// The change feed, forks, comparisons, ingests and bulk loads.

package esker_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"esker.dev/esker"
)

// patience is the time within which something must happen.
const patience = 2 * time.Minute

func within(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(background, patience)
	t.Cleanup(cancel)
	return ctx
}

// keysOf returns the keys of the changes up to the present.
func keysOf(t testing.TB, changes *esker.Changes) string {
	t.Helper()
	var keys []string
	for batch, err := range changes.All() {
		must(t, err)
		for _, change := range batch.Changes {
			keys = append(keys, string(change.Key))
		}
	}
	return strings.Join(keys, " ")
}

func TestReaderThatBootstrapsAndFollowsHasEveryWriteOnce(t *testing.T) {
	const count = 500
	db := newStore(t)
	slot := ok[*esker.Slot](t)(db.Subscribe("copy", nil))
	written := make(chan error, 1)
	go func() {
		for number := range count {
			if err := db.Put(fmt.Appendf(nil, "%04d", number), nil); err != nil {
				written <- err
				return
			}
		}
		written <- nil
	}()
	snapshot, last, err := db.SnapshotWithPosition()
	must(t, err)
	var seen []string
	for pair, err := range snapshot.Range(nil, nil) {
		must(t, err)
		seen = append(seen, string(pair.Key))
	}
	must(t, snapshot.Close())
	must(t, slot.Confirm(last))
	changes := ok[*esker.Changes](t)(slot.Changes())
	defer changes.Close()
	ctx, cancel := context.WithCancel(within(t))
	defer cancel()
	if len(seen) == count {
		cancel()
	}
	for batch, err := range changes.Follow(ctx) {
		must(t, err)
		equal(t, batch.Previous, last)
		equal(t, batch.FirstSequence, last+1)
		equal(t, len(batch.Changes) == 1 && batch.Checksum != 0, true)
		last = batch.Sequence
		equal(t, batch.Changes[0].Kind, esker.ChangePut)
		seen = append(seen, string(batch.Changes[0].Key))
		if len(seen) == count {
			cancel()
		}
	}
	must(t, <-written)
	equal(t, len(seen), count)
	for number, key := range seen {
		equal(t, key, fmt.Sprintf("%04d", number))
	}
	equal(t, changes.Position(), last)
	if batch, err := changes.Poll(); batch != nil || err != nil {
		t.Error(batch, err)
	}
	_, err = changes.Next(ctx)
	equal(t, err, context.Canceled)
}

func TestConfirmedSlotGoesOnAfterTheStoreWasOpenedAgain(t *testing.T) {
	options := memory(t)
	db := ok[*esker.DB](t)(esker.Open("/store", options))
	slot := ok[*esker.Slot](t)(db.Subscribe("index", &esker.SlotOptions{Unlimited: true}))
	for _, key := range []string{"a", "b", "c"} {
		must(t, db.Put([]byte(key), []byte("1")))
	}
	changes := ok[*esker.Changes](t)(slot.Changes())
	first := ok[*esker.ChangeBatch](t)(changes.Poll())
	second := ok[*esker.ChangeBatch](t)(changes.Poll())
	must(t, changes.Close())
	must(t, slot.Confirm(second.Sequence))
	must(t, slot.Confirm(first.Sequence))
	isKind(t, slot.Confirm(1000), esker.ErrInvalidArgument)
	must(t, db.Close())

	db = open(t, options)
	slot = ok[*esker.Slot](t)(db.Slot("index"))
	equal(t, slot.Name(), "index")
	equal(t, ok[uint64](t)(slot.Position()), second.Sequence)
	changes = ok[*esker.Changes](t)(slot.Changes())
	defer changes.Close()
	equal(t, keysOf(t, changes), "c")
	all := ok[*esker.Changes](t)(db.Changes(first.Sequence))
	defer all.Close()
	equal(t, keysOf(t, all), "b c")
	infos := ok[[]esker.SlotInfo](t)(db.Slots())
	equal(t, len(infos) == 1 && infos[0].Name == "index" && infos[0].Unlimited &&
		infos[0].Position == second.Sequence && infos[0].Problem == "", true)
	must(t, db.DropSlot("index"))
	_, err := slot.Position()
	isKind(t, err, esker.ErrNotFound)
	_, err = slot.Changes()
	isKind(t, err, esker.ErrNotFound)
	_, err = db.Slot("index")
	isKind(t, err, esker.ErrNotFound)
	isKind(t, db.DropSlot("index"), esker.ErrNotFound)
	equal(t, len(ok[[]esker.SlotInfo](t)(db.Slots())), 0)
}

func TestBulkLoadComesInPartsOfOneBatch(t *testing.T) {
	const count = 3000
	db := newStore(t)
	slot := ok[*esker.Slot](t)(db.Subscribe("parts", nil))
	begin := ok[uint64](t)(slot.Position())
	random, sent := rand.NewChaCha8([32]byte{}), map[string]string{}
	_ = ok[esker.IngestReport](t)(db.BulkLoad(within(t), func(yield func(esker.Pair, error) bool) {
		for number := range count {
			key, value := fmt.Appendf(nil, "%05d", number), make([]byte, 1000)
			_, _ = random.Read(value)
			sent[string(key)] = string(value)
			if !yield(esker.Pair{Key: key, Value: value}, nil) {
				return
			}
		}
	}))
	must(t, db.Put([]byte("whole"), []byte("batch")))
	changes := ok[*esker.Changes](t)(slot.Changes())
	defer changes.Close()
	var parts uint64
	pairs, sequence, checksum := 0, uint64(0), uint64(0)
	for continues := true; continues; parts++ {
		batch := ok[*esker.ChangeBatch](t)(changes.Next(within(t)))
		equal(t, batch.Part, parts)
		equal(t, batch.Previous, begin)
		if parts > 0 {
			equal(t, batch.Sequence == sequence && batch.Checksum == checksum, true)
		}
		sequence, checksum, continues = batch.Sequence, batch.Checksum, batch.Continues
		for _, change := range batch.Changes {
			equal(t, string(change.Key), fmt.Sprintf("%05d", pairs))
			equal(t, string(change.Value) == sent[string(change.Key)], true)
			pairs++
		}
		if continues {
			equal(t, changes.Position(), begin)
		} else {
			equal(t, changes.Position(), sequence)
		}
	}
	equal(t, pairs, count)
	equal(t, parts > 1, true)
	must(t, slot.Confirm(changes.Position()))
	whole := ok[*esker.ChangeBatch](t)(changes.Next(within(t)))
	equal(t, whole.Part == 0 && !whole.Continues && len(whole.Changes) == 1, true)
}

func TestEveryKindOfChangeHasItsFields(t *testing.T) {
	db := newStore(t)
	slot := ok[*esker.Slot](t)(db.Subscribe("all", nil))
	counts := ok[*esker.Keyspace](t)(db.Keyspace("counts",
		&esker.KeyspaceOptions{MergeOperator: "add_i64"}))
	must(t, db.PutWithTTL([]byte("k"), []byte("v"), time.Hour))
	must(t, counts.Merge([]byte("n"), []byte("1")))
	must(t, counts.Delete([]byte("n")))
	must(t, counts.DeleteRange([]byte("a"), []byte("c")))
	must(t, counts.Clear())
	must(t, db.RenameKeyspace("counts", "sums"))
	must(t, db.DropKeyspace("sums"))
	changes := ok[*esker.Changes](t)(slot.Changes())
	defer changes.Close()
	var text []string
	for batch, err := range changes.All() {
		must(t, err)
		for _, c := range batch.Changes {
			text = append(text, fmt.Sprintf("%d %s %s %s %s", c.Kind, c.Keyspace, c.Key, c.Value,
				c.NewName))
			if c.Kind == esker.ChangeKeyspaceCreated {
				equal(t, c.KeyOrder, "esker.bytewise")
				equal(t, strings.Contains(fmt.Sprint(c.Settings), "add_i64"), true)
			}
			equal(t, c.Expires.After(time.Now()), c.Kind == esker.ChangePut)
		}
	}
	equal(t, strings.Join(text, "\n"), strings.Join([]string{
		"6 counts   ", "1 default k v ", "2 counts n 1 ", "3 counts n  ", "4 counts a c ",
		"5 counts   ", "7 counts   sums", "8 sums   ",
	}, "\n"))
}

func TestSlotThatLagsTooFarIsDroppedAndSaysSo(t *testing.T) {
	db := newStore(t)
	slot := ok[*esker.Slot](t)(db.Subscribe("lagging", &esker.SlotOptions{LagLimitBytes: 1000}))
	for number := range 100 {
		must(t, db.Put(fmt.Appendf(nil, "%d", number), make([]byte, 100)))
	}
	must(t, db.Flush(background))
	infos := ok[[]esker.SlotInfo](t)(db.Slots())
	// A flush drops it with the logs that it removes, which may be after it has woken its caller.
	for end := time.Now().Add(2 * time.Minute); infos[0].Problem == "" && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
		infos = ok[[]esker.SlotInfo](t)(db.Slots())
	}
	equal(t, strings.Contains(infos[0].Problem, "lagged") && infos[0].LagLimitBytes == 1000, true)
	dropped := func(err error) {
		t.Helper()
		isKind(t, err, esker.ErrNotFound)
		equal(t, strings.Contains(err.Error(), "lagged"), true)
	}
	dropped(slot.Confirm(1))
	_, err := db.Subscribe("lagging", nil)
	dropped(err)
	must(t, db.DropSlot("lagging"))
	_ = ok[*esker.Slot](t)(db.Subscribe("lagging", nil))
}

func TestCloseEndsAWaitForABatch(t *testing.T) {
	db := newStore(t)
	slot := ok[*esker.Slot](t)(db.Subscribe("one", nil))
	one, two := ok[*esker.Changes](t)(slot.Changes()), ok[*esker.Changes](t)(slot.Changes())
	ended := make(chan error, 2)
	for _, changes := range []*esker.Changes{one, two} {
		go func() {
			_, err := changes.Next(within(t))
			ended <- err
		}()
	}
	must(t, one.Close())
	isKind(t, <-ended, esker.ErrClosed)
	must(t, db.Close())
	isKind(t, <-ended, esker.ErrClosed)
	must(t, two.Close())
	must(t, two.Close())
	equal(t, two.Position(), 0)
	_, err := two.Poll()
	isKind(t, err, esker.ErrClosed)
	isKind(t, slot.Confirm(1), esker.ErrClosed)
	_, err = slot.Changes()
	isKind(t, err, esker.ErrClosed)
	must(t, slot.Close())
	_, err = slot.Position()
	isKind(t, err, esker.ErrClosed)
	_, err = db.Subscribe("one", nil)
	isKind(t, err, esker.ErrClosed)
	_, err = db.Changes(0)
	isKind(t, err, esker.ErrClosed)
	_, _, err = db.SnapshotWithPosition()
	isKind(t, err, esker.ErrClosed)
	_, err = db.Slots()
	isKind(t, err, esker.ErrClosed)
	_, err = db.Lineage()
	isKind(t, err, esker.ErrClosed)
	_, err = db.Fork(background, "/late", nil)
	isKind(t, err, esker.ErrClosed)
	_, err = db.Ingest(background, nil, nil)
	isKind(t, err, esker.ErrClosed)
	_, err = db.BulkLoad(background, squares(1, nil))
	isKind(t, err, esker.ErrClosed)
}

func TestWrongArgumentsOfFeedsAndForksAreRefused(t *testing.T) {
	db := newStore(t)
	for _, name := range []string{"", "a b", "a\x00", strings.Repeat("a", 65)} {
		_, err := db.Subscribe(name, nil)
		isKind(t, err, esker.ErrInvalidArgument)
	}
	_, err := db.Changes(5)
	isKind(t, err, esker.ErrInvalidArgument)
	_, err = esker.NewDiff(nil, db, nil)
	isKind(t, err, esker.ErrInvalidArgument)
	_, err = esker.NewDiff(db, (*esker.Snapshot)(nil), nil)
	isKind(t, err, esker.ErrInvalidArgument)
	_, err = esker.NewDiff(db, db, &esker.DiffOptions{Keyspace: "none"})
	isKind(t, err, esker.ErrNotFound)
	_, err = esker.NewDiff(db, db, &esker.DiffOptions{Keyspace: "a\x00"})
	isKind(t, err, esker.ErrInvalidArgument)
	_, err = db.Fork(background, "/f", &esker.ForkOptions{Name: "a\x00"})
	isKind(t, err, esker.ErrInvalidArgument)
	_, err = db.Fork(background, "/f", &esker.ForkOptions{Name: "a\n"})
	isKind(t, err, esker.ErrInvalidArgument)
	_, err = db.Ingest(background, []string{"a\x00"}, nil)
	isKind(t, err, esker.ErrInvalidArgument)
	_, err = db.BulkLoad(background, nil)
	isKind(t, err, esker.ErrInvalidArgument)
	ctx, cancel := context.WithCancel(background)
	cancel()
	_, err = db.BulkLoad(ctx, squares(1, nil))
	equal(t, err, context.Canceled)
}

func TestForkIsIndependentAndAComparisonListsWhatChanged(t *testing.T) {
	options := memory(t)
	db := open(t, options)
	must(t, db.Put([]byte("apple"), []byte("red")))
	must(t, db.Put([]byte("lime"), []byte("green")))
	report := ok[esker.ForkReport](t)(db.Fork(background, "/fork",
		&esker.ForkOptions{Name: "try 1"}))
	equal(t, report.LinkedFiles+report.CopiedFiles > 0, true)
	_, err := db.Fork(background, "/fork", nil)
	isKind(t, err, esker.ErrInvalidArgument)
	fork := ok[*esker.DB](t)(esker.Open("/fork", options))
	defer fork.Close()
	equal(t, ok[uint64](t)(fork.StoreID()), report.StoreID)
	lineage := ok[esker.Lineage](t)(fork.Lineage())
	equal(t, lineage.Name == "try 1" && len(lineage.Ancestors) == 1 &&
		lineage.Ancestors[0].StoreID == ok[uint64](t)(db.StoreID()), true)
	before := ok[*esker.Snapshot](t)(fork.Snapshot())
	must(t, fork.Put([]byte("apple"), []byte("green")))
	must(t, fork.Delete([]byte("lime")))
	must(t, fork.PutWithTTL([]byte("plum"), nil, time.Hour))
	extra := ok[*esker.Keyspace](t)(fork.Keyspace("extra", nil))
	must(t, extra.Put([]byte("k"), []byte("v")))
	must(t, db.Put([]byte("parent"), []byte("only")))
	equal(t, get(t, db, "apple")+get(t, db, "plum"), "rednone")
	equal(t, get(t, fork, "parent")+get(t, fork, "lime"), "nonenone")
	diff := ok[*esker.Diff](t)(esker.NewDiff(db, fork, nil))
	defer diff.Close()
	equal(t, diff.Relation(), esker.Descendant)
	equal(t, diff.SharedFiles() > 0, true)
	equal(t, strings.Join(diff.KeyspacesOnlyInNew(), " "), "extra")
	equal(t, len(diff.KeyspacesOnlyInOld()), 0)
	var text []string
	for d, err := range diff.All() {
		must(t, err)
		text = append(text, fmt.Sprintf("%s/%s %t:%s %t:%s", d.Keyspace, d.Key, d.Old != nil, d.Old,
			d.New != nil, d.New))
		equal(t, d.OldExpires.IsZero(), true)
		equal(t, d.NewExpires.IsZero(), string(d.Key) != "plum")
	}
	equal(t, strings.Join(text, "\n"), strings.Join([]string{
		"default/apple true:red true:green", "default/lime true:green false:",
		"default/parent true:only false:", "default/plum false: true:", "extra/k false: true:v",
	}, "\n"))
	same := ok[*esker.Diff](t)(esker.NewDiff(before, before, &esker.DiffOptions{Keyspace: "default"}))
	if found, err := same.Next(); found != nil || err != nil {
		t.Error(found, err)
	}
	must(t, same.Close())
	_, err = same.Next()
	isKind(t, err, esker.ErrClosed)
	equal(t, same.Relation() == 0 && same.SharedFiles() == 0 &&
		same.KeyspacesOnlyInNew() == nil, true)
	must(t, before.Close())
	_, err = esker.NewDiff(before, db, nil)
	isKind(t, err, esker.ErrClosed)
}

func TestIngestTakesAllFilesOrNone(t *testing.T) {
	dir := t.TempDir()
	db := ok[*esker.DB](t)(esker.Open(filepath.Join(dir, "db"), nil))
	defer db.Close()
	must(t, db.Put([]byte("b"), []byte("old")))
	must(t, db.Put([]byte("d"), []byte("old")))
	one, two := filepath.Join(dir, "one.sst"), filepath.Join(dir, "two.sst")
	writer := ok[*esker.SortedWriter](t)(esker.NewSortedWriter(one, nil))
	_, err := esker.NewSortedWriter(one, nil)
	isKind(t, err, esker.ErrIO)
	must(t, writer.Put([]byte("b"), []byte("new")))
	isKind(t, writer.Put([]byte("b"), nil), esker.ErrInvalidArgument)
	isKind(t, writer.Put([]byte("a"), nil), esker.ErrInvalidArgument)
	isKind(t, writer.Merge([]byte("c"), nil), esker.ErrInvalidArgument)
	isKind(t, writer.PutWithTTL([]byte("c"), nil, -1), esker.ErrInvalidArgument)
	must(t, writer.PutWithTTL([]byte("c"), []byte("1"), time.Hour))
	must(t, writer.Delete([]byte("d")))
	equal(t, writer.Entries(), 3)
	file := ok[esker.SortedFile](t)(writer.Finish())
	equal(t, file.Entries == 3 && file.Bytes > 0 && string(file.Smallest) == "b" &&
		string(file.Largest) == "d", true)
	_, err = writer.Finish()
	isKind(t, err, esker.ErrInvalidArgument)
	isKind(t, writer.Put([]byte("z"), nil), esker.ErrInvalidArgument)
	must(t, writer.Close())
	isKind(t, writer.Put([]byte("z"), nil), esker.ErrClosed)
	equal(t, writer.Entries(), 0)
	writer = ok[*esker.SortedWriter](t)(esker.NewSortedWriter(two, nil))
	must(t, writer.Put([]byte("c"), []byte("2")))
	_ = ok[esker.SortedFile](t)(writer.Finish())
	must(t, writer.Close())
	// Both have the key c.
	_, err = db.Ingest(background, []string{one, two}, nil)
	isKind(t, err, esker.ErrInvalidArgument)
	equal(t, pairs(t, db.Range(nil, nil)), "b=old d=old ")
	report := ok[esker.IngestReport](t)(db.Ingest(background, []string{one},
		&esker.IngestOptions{Copy: true, NoVerify: true}))
	equal(t, report.Entries == 3 && report.Files > 0 && report.Flushed && report.Sequence > 0, true)
	equal(t, pairs(t, db.Range(nil, nil)), "b=new c=1 ")
	other := ok[*esker.Keyspace](t)(db.Keyspace("other", nil))
	_ = ok[esker.IngestReport](t)(other.Ingest(within(t), []string{one}, nil))
	equal(t, pairs(t, other.Range(nil, nil)), "b=new c=1 ")
	_, err = os.Stat(one)
	equal(t, errors.Is(err, os.ErrNotExist), true)
	_, err = db.Ingest(background, []string{one}, nil)
	equal(t, err != nil, true)
	// A writer that is not finished leaves no file.
	writer = ok[*esker.SortedWriter](t)(esker.NewSortedWriter(one, nil))
	must(t, writer.Put([]byte("a"), nil))
	must(t, writer.Close())
	_, err = os.Stat(one)
	equal(t, errors.Is(err, os.ErrNotExist), true)
}

// squares gives pairs, and calls also before the last one.
func squares(count int, also func() error) iter.Seq2[esker.Pair, error] {
	return func(yield func(esker.Pair, error) bool) {
		for number := range count {
			if number == count-1 && also != nil {
				if err := also(); err != nil {
					yield(esker.Pair{}, err)
					return
				}
			}
			key, value := fmt.Appendf(nil, "%06d", number), fmt.Appendf(nil, "%d", number*number)
			if !yield(esker.Pair{Key: key, Value: value}, nil) {
				return
			}
		}
	}
}

func TestBulkLoadLoadsAllPairsOrNone(t *testing.T) {
	const count = 50_000
	db := newStore(t)
	planted := errors.New("planted")
	_, err := db.BulkLoad(background, squares(count, func() error { return planted }))
	equal(t, err, planted)
	_, err = db.BulkLoad(background, func(yield func(esker.Pair, error) bool) {
		for pair, err := range squares(count, nil) {
			if !yield(pair, err) || !yield(pair, err) {
				return
			}
		}
	})
	isKind(t, err, esker.ErrInvalidArgument)
	ctx, cancel := context.WithCancel(background)
	_, err = db.BulkLoad(ctx, func(yield func(esker.Pair, error) bool) {
		for pair := range squares(1<<40, nil) {
			if string(pair.Key) == "001000" {
				cancel()
			}
			if !yield(pair, nil) {
				return
			}
		}
	})
	equal(t, err, context.Canceled)
	func() {
		defer func() { equal(t, recover(), any("planted")) }()
		_, _ = db.BulkLoad(background, squares(count, func() error { panic("planted") }))
	}()
	equal(t, pairs(t, db.Range(nil, nil)), "")
	// The source may use the store.
	report := ok[esker.IngestReport](t)(db.BulkLoad(within(t), squares(count, func() error {
		return db.Put([]byte("other"), []byte("1"))
	})))
	equal(t, report.Entries, count)
	equal(t, get(t, db, "000025")+get(t, db, "other"), "6251")
	copied := ok[*esker.Keyspace](t)(db.Keyspace("copied", &esker.KeyspaceOptions{TTL: time.Hour}))
	report = ok[esker.IngestReport](t)(copied.BulkLoad(background, db.Prefix([]byte("0000"))))
	equal(t, report.Entries, 100)
	_, expires, _, err := copied.GetWithExpiry([]byte("000025"))
	equal(t, err == nil && expires.After(time.Now()), true)
	equal(t, ok[esker.IngestReport](t)(db.BulkLoad(background, squares(0, nil))).Entries, 0)
	// A close ends a load, also one of its source.
	_, err = copied.BulkLoad(background, squares(count, db.Close))
	isKind(t, err, esker.ErrClosed)
	_, err = db.BulkLoad(background, squares(1, nil))
	isKind(t, err, esker.ErrClosed)
}

func TestFeedsAndComparisonsThatAreNotClosedAreNoted(t *testing.T) {
	db := newStore(t)
	_ = ok[*esker.Changes](t)(db.Changes(0))
	_ = ok[*esker.Diff](t)(esker.NewDiff(db, db, nil))
	_ = ok[*esker.SortedWriter](t)(esker.NewSortedWriter(filepath.Join(t.TempDir(), "a"), nil))
	var warnings []string
	for end := time.Now().Add(patience); len(warnings) < 3 && time.Now().Before(end); {
		warnings = append(warnings, takeLeaks()...)
	}
	equal(t, len(warnings), 3)
}
