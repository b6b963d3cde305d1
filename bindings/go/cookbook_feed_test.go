// The recipes of COOKBOOK.md on loading, large values, other openings, forks and feeds.

package esker_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"esker.dev/esker"
)

func Example_loading() {
	dir, remove := exampleDir()
	defer remove()
	db, err := esker.Open(filepath.Join(dir, "db"), nil)
	check(err)
	defer db.Close()
	ctx := context.Background()
	loaded, err := db.BulkLoad(ctx, func(yield func(esker.Pair, error) bool) {
		for n := range 1000 {
			pair := esker.Pair{Key: fmt.Appendf(nil, "%04d", n), Value: []byte("v")}
			if !yield(pair, nil) {
				return
			}
		}
	})
	check(err)
	fmt.Println(loaded.Entries)

	// Files can be made by other goroutines, processes and machines.
	file := filepath.Join(dir, "fruit.sst")
	writer, err := esker.NewSortedWriter(file, nil)
	check(err)
	defer writer.Close()
	check(writer.Put([]byte("apple"), []byte("red")))
	check(writer.Put([]byte("lime"), []byte("green")))
	_, err = writer.Finish()
	check(err)
	_, err = db.Ingest(ctx, []string{file}, nil)
	check(err)
	color, _, err := db.Get([]byte("lime"))
	fmt.Printf("%s %v\n", color, err)
	// Output:
	// 1000
	// green <nil>
}

func Example_largeValues() {
	dir, remove := exampleDir()
	defer remove()
	db, err := esker.Open(filepath.Join(dir, "db"), &esker.Options{
		Settings: map[string]string{"value_separation_min_bytes": "4096"},
	})
	check(err)
	defer db.Close()
	check(db.Put([]byte("photo 1"), make([]byte, 300_000)))
	check(db.Put([]byte("title 1"), []byte("a lake")))
	check(db.Flush(context.Background())) // the photo is now in a value file, the title in a table

	// A value that is longer than memory should hold is streamed in and out.
	upload := io.LimitReader(rand.Reader, 10<<20) // in place of a file or a socket
	written, err := db.PutReader([]byte("film 1"), upload)
	check(err)
	film, found, err := db.GetReader([]byte("film 1"))
	check(err)
	defer film.Close()
	middle := film.Size() / 2
	copied, err := io.Copy(io.Discard, io.NewSectionReader(film, middle, film.Size()-middle))
	fmt.Println(written, found, film.Size(), copied, err)
	// Output:
	// 10485760 true 10485760 5242880 <nil>
}

func Example_encrypted() {
	dir, remove := exampleDir()
	defer remove()
	path, file := filepath.Join(dir, "db"), filepath.Join(dir, "key")
	check(os.WriteFile(file, []byte(strings.Repeat("5a", 32)), 0o600)) // openssl rand -hex 32 >key
	options := &esker.Options{Key: esker.KeyFile(file)}
	db, err := esker.Open(path, options)
	check(err)
	check(db.Put([]byte("card"), []byte("4929 0000 0000 6")))
	check(db.Close())

	// Keys of a key service have names. The name is empty for a new store.
	next := &esker.Options{Key: esker.KeyFunc(func(name string) (esker.MasterKey, error) {
		return esker.MasterKey{Name: "2027", Bytes: []byte("0123456789abcdef0123456789abcdef")}, nil
	})}
	report, err := esker.Rekey(path, options, next) // writes only the file KEYS
	fmt.Println(report.To, err)
	_, err = esker.Open(path, options)
	fmt.Println(errors.Is(err, esker.ErrInvalidArgument))
	db, err = esker.Open(path, next)
	check(err)
	defer db.Close()
	card, _, err := db.Get([]byte("card"))
	fmt.Printf("%s %v\n", card, err)
	// The tables get the new data key when they are rewritten.
	check(db.CompactRange(context.Background(), nil, nil))
	// Output:
	// 2027 <nil>
	// true
	// 4929 0000 0000 6 <nil>
}

func Example_readOnly() {
	dir, remove := exampleDir()
	defer remove()
	path := filepath.Join(dir, "db")
	writer, err := esker.Open(path, nil)
	check(err)
	defer writer.Close()
	check(writer.Put([]byte("orders"), []byte("3")))

	view, err := esker.OpenReadOnly(path, nil) // also in another process
	check(err)
	check(writer.Put([]byte("orders"), []byte("4")))
	orders, _, err := view.Get([]byte("orders"))
	fmt.Printf("%s %v\n", orders, err)
	fmt.Println(errors.Is(view.Put([]byte("orders"), []byte("5")), esker.ErrReadOnly))
	check(view.Verify(context.Background())) // every byte is read and checked
	check(view.Close())

	// A new opening shows the new state.
	view, err = esker.OpenReadOnly(path, nil)
	check(err)
	defer view.Close()
	orders, _, err = view.Get([]byte("orders"))
	fmt.Printf("%s %v\n", orders, err)
	// Output:
	// 3 <nil>
	// true
	// 4 <nil>
}

func Example_following() {
	dir, remove := exampleDir()
	defer remove()
	path := filepath.Join(dir, "db")
	writer, err := esker.Open(path, nil)
	check(err)
	check(writer.Put([]byte("orders"), []byte("1")))

	// In another process:
	follower, err := esker.Follow(path, nil)
	check(err)
	defer follower.Close()
	check(follower.CatchUpEvery(100 * time.Millisecond))

	check(writer.Put([]byte("orders"), []byte("2")))
	snapshot, position, err := writer.SnapshotWithPosition()
	check(err)
	check(snapshot.Close())
	check(follower.WaitFor(context.Background(), position))
	view, err := follower.DB() // once for each request: a view never changes
	check(err)
	defer view.Close()
	orders, _, err := view.Get([]byte("orders"))
	fmt.Printf("%s %v\n", orders, err)

	_, err = follower.Promote()
	fmt.Println(errors.Is(err, esker.ErrLocked)) // the writer lives
	check(writer.Close())
	promoted, err := follower.Promote()
	check(err)
	defer promoted.Close()
	fmt.Println(promoted.Put([]byte("orders"), []byte("3")))
	// Output:
	// 2 <nil>
	// true
	// <nil>
}

func Example_staging() {
	dir, remove := exampleDir()
	defer remove()
	live, err := esker.Open(filepath.Join(dir, "live"), nil)
	check(err)
	defer live.Close()
	check(live.Put([]byte("user/1"), []byte("Ada Lovelace")))
	check(live.Put([]byte("user/2"), []byte("Grace Hopper")))

	// A fork shares the tables by hard links: it takes a moment and almost no space.
	path := filepath.Join(dir, "staging")
	_, err = live.Fork(context.Background(), path, &esker.ForkOptions{Name: "last names first"})
	check(err)
	staging, err := esker.Open(path, nil)
	check(err)
	defer staging.Close()
	for pair, err := range staging.Prefix([]byte("user/")) {
		check(err)
		first, last, _ := strings.Cut(string(pair.Value), " ")
		check(staging.Put(pair.Key, []byte(last+", "+first)))
	}

	// The comparison reads only what the two do not share.
	diff, err := esker.NewDiff(live, staging, nil)
	check(err)
	defer diff.Close()
	for found, err := range diff.All() {
		check(err)
		fmt.Printf("%s: %s -> %s\n", found.Key, found.Old, found.New)
	}
	// Output:
	// user/1: Ada Lovelace -> Lovelace, Ada
	// user/2: Grace Hopper -> Hopper, Grace
}

// indexChanges indexes the next batches of the slot, and returns their number.
func indexChanges(db, index *esker.DB) (count int, err error) {
	slot, err := db.Subscribe("index", &esker.SlotOptions{LagLimitBytes: 1 << 30})
	if err != nil {
		return 0, err
	}
	// The index stores the position with its own data, so that it knows what it has.
	at, _, err := index.Get([]byte("position"))
	if err != nil {
		return 0, err
	}
	known, _ := strconv.ParseUint(string(at), 10, 64)
	changes, err := slot.Changes()
	if err != nil {
		return 0, err
	}
	defer changes.Close()
	// A program that runs for ever takes changes.Follow(ctx).
	for batch, err := range changes.All() {
		if err != nil {
			return count, err
		}
		if batch.Sequence <= known {
			continue // the crash came between the index and the confirmation
		}
		var entries esker.Batch
		for _, change := range batch.Changes {
			if change.Kind == esker.ChangePut {
				entries.Put(append([]byte("value/"), change.Value...), change.Key)
			}
		}
		if !batch.Continues { // the last part of an ingest, or a whole batch
			entries.Put([]byte("position"), strconv.AppendUint(nil, batch.Sequence, 10))
		}
		if err := index.Write(&entries); err != nil {
			return count, err
		}
		count++
	}
	if err := index.Sync(); err != nil {
		return count, err
	}
	return count, slot.Confirm(changes.Position())
}

func Example_feed() {
	dir, remove := exampleDir()
	defer remove()
	db, err := esker.Open(filepath.Join(dir, "db"), nil)
	check(err)
	defer db.Close()
	index, err := esker.Open(filepath.Join(dir, "index"), nil)
	check(err)
	defer index.Close()
	fmt.Println(indexChanges(db, index))
	check(db.Put([]byte("apple"), []byte("red")))
	check(db.Put([]byte("plum"), []byte("blue")))
	fmt.Println(indexChanges(db, index))
	key, _, err := index.Get([]byte("value/blue"))
	fmt.Printf("%s %v\n", key, err)

	// A wait ends with its context.
	slot, err := db.Slot("index")
	check(err)
	changes, err := slot.Changes()
	check(err)
	defer changes.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
	defer cancel()
	_, err = changes.Next(ctx)
	fmt.Println(err)
	// Output:
	// 0 <nil>
	// 2 <nil>
	// plum <nil>
	// context deadline exceeded
}

// sendChanges writes what a replica lacks, which has the changes up to position, or nothing yet.
func sendChanges(db *esker.DB, out io.Writer, position uint64, isNew bool) error {
	slot, err := db.Subscribe("replica", nil)
	if err != nil {
		return err
	}
	writer, err := esker.NewChangeWriter(db, out)
	if err != nil {
		return err
	}
	defer writer.Close()
	if isNew {
		if position, err = writer.WriteContent(); err != nil {
			return err
		}
	}
	if err := slot.Confirm(position); err != nil { // the logs before it are not needed any more
		return err
	}
	changes, err := slot.Changes()
	if err != nil {
		return err
	}
	defer changes.Close()
	// A program that runs for ever takes changes.Follow(ctx).
	for _, err := range changes.All() {
		if err != nil {
			return err
		}
		if err := writer.WriteBatch(changes); err != nil {
			return err
		}
	}
	return writer.WriteEnd(changes.Position())
}

// applyChanges applies a stream to a replica.
func applyChanges(replica *esker.DB, in io.Reader) error {
	applier, err := esker.NewChangeApplier(replica, in)
	if err != nil {
		return err
	}
	defer applier.Close()
	for _, err := range applier.All() {
		if err != nil {
			return err
		}
	}
	return nil
}

// replicate brings a replica up to date. The pipe stands for a connection.
func replicate(db, replica *esker.DB) error {
	if err := replica.Sync(); err != nil { // what it confirms is durable
		return err
	}
	_, position, found, err := replica.AppliedPosition()
	if err != nil {
		return err
	}
	in, out := io.Pipe()
	defer in.Close() // ends the sender, also after an error
	go func() { out.CloseWithError(sendChanges(db, out, position, !found)) }()
	return applyChanges(replica, in)
}

func Example_replica() {
	dir, remove := exampleDir()
	defer remove()
	db, err := esker.Open(filepath.Join(dir, "db"), nil)
	check(err)
	defer db.Close()
	replica, err := esker.Open(filepath.Join(dir, "replica"), nil)
	check(err)
	defer replica.Close()
	check(db.Put([]byte("apple"), []byte("red")))
	check(replicate(db, replica)) // the content
	check(db.Put([]byte("apple"), []byte("green")))
	check(replicate(db, replica)) // the changes since then
	color, _, err := replica.Get([]byte("apple"))
	fmt.Printf("%s %v\n", color, err)
	// Output:
	// green <nil>
}
