// The numbers of verifications and repairs.

package esker_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"esker.dev/esker"
)

// damagedStore returns the directory of a closed store with a damaged table.
func damagedStore(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "db")
	db := ok[*esker.DB](t)(esker.Open(dir, nil))
	value := make([]byte, 100_000)
	_, _ = rand.NewChaCha8([32]byte{}).Read(value)
	must(t, db.Put([]byte("k"), value))
	must(t, db.Flush(background))
	must(t, db.Close())
	tables := ok[[]string](t)(filepath.Glob(filepath.Join(dir, "*.sst")))
	equal(t, len(tables), 1)
	content := ok[[]byte](t)(os.ReadFile(tables[0]))
	content[len(content)/2] ^= 1
	must(t, os.WriteFile(tables[0], content, 0o644))
	return dir
}

func TestVerificationReportsWhatItHasRead(t *testing.T) {
	db := newStore(t)
	must(t, db.Put([]byte("a"), []byte("1")))
	must(t, db.Put([]byte("b"), []byte("2")))
	must(t, db.Flush(background))
	living, cancel := context.WithCancel(background)
	defer cancel()
	for _, ctx := range []context.Context{background, living} {
		var heard, calls uint64
		var refused error
		report := ok[esker.VerifyReport](t)(db.VerifyWith(ctx, &esker.VerifyOptions{
			Progress: func(read, _ uint64) {
				if read < heard {
					t.Error(read, heard)
				}
				heard = read
				calls++
				refused = db.Close()
			}}))
		equal(t, report.Problems == 0 && report.Tables == 1 && report.Entries == 2, true)
		equal(t, report.Bytes > 0 && report.FormatVersion > 0 && report.RangeDeletes == 0, true)
		equal(t, calls > 0 && heard > 0, true)
		isKind(t, refused, esker.ErrInvalidArgument)
	}
	_ = ok[esker.VerifyReport](t)(db.VerifyWith(background, nil))
	_ = ok[esker.VerifyReport](t)(db.VerifyWith(background, &esker.VerifyOptions{}))
	for _, ctx := range []context.Context{background, living} {
		func() {
			defer func() { equal(t, recover(), any("planted")) }()
			_, _ = db.VerifyWith(ctx, &esker.VerifyOptions{
				Progress: func(uint64, uint64) { panic("planted") }})
		}()
	}
	cancel()
	_, err := db.VerifyWith(living, &esker.VerifyOptions{
		Progress: func(uint64, uint64) { t.Error("called after the end of the context") }})
	equal(t, err, context.Canceled)
	must(t, db.Close())
	_, err = db.VerifyWith(background, nil)
	isKind(t, err, esker.ErrClosed)
}

func TestVerificationOfDamageReportsItsNumbers(t *testing.T) {
	db := ok[*esker.DB](t)(esker.Open(damagedStore(t), nil))
	defer db.Close()
	report, err := db.VerifyWith(background, nil)
	isKind(t, err, esker.ErrCorruption)
	equal(t, report.Problems == 1 && report.Bytes > 0, true)
	isKind(t, db.Verify(background), esker.ErrCorruption)
}

func TestRepairReportsWhatItHasRead(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "db")
	db := ok[*esker.DB](t)(esker.Open(dir, nil))
	must(t, db.Put([]byte("a"), []byte("1")))
	must(t, db.Put([]byte("b"), []byte("2")))
	must(t, db.Flush(background))
	_, err := esker.RepairWith(dir, nil)
	isKind(t, err, esker.ErrLocked)
	must(t, db.Close())
	report := ok[esker.RepairReport](t)(esker.RepairWith(dir, nil))
	equal(t, report.ManifestReadable && report.Tables == 1 && report.Pairs == 2, true)
	equal(t, report.Losses == 0 && len(report.Lost) == 0, true)
	_, err = os.Stat(report.Originals)
	must(t, err)
	db = ok[*esker.DB](t)(esker.Open(dir, nil))
	equal(t, pairs(t, db.Range(nil, nil)), "a=1 b=2 ")
	must(t, db.Close())
	_, err = esker.RepairWith("a\x00b", nil)
	isKind(t, err, esker.ErrInvalidArgument)
	_, err = esker.RepairWith(filepath.Join(t.TempDir(), "none"), nil)
	equal(t, err != nil, true)
}

func TestRepairOfDamageReportsTheLosses(t *testing.T) {
	report := ok[esker.RepairReport](t)(esker.RepairWith(damagedStore(t), nil))
	equal(t, report.Losses > 0 && len(report.Lost) == int(report.Losses), true)
	equal(t, len(strings.Join(report.Lost, "")) > 10, true)
}

func ExampleDB_VerifyWith() {
	db, err := esker.Open("/db", &esker.Options{Memory: esker.NewMemory()})
	check(err)
	defer db.Close()
	check(db.Put([]byte("apple"), []byte("red")))
	check(db.Flush(context.Background()))
	report, err := db.VerifyWith(context.Background(), &esker.VerifyOptions{
		Progress: func(read, all uint64) {}, // for example, draws a bar
	})
	fmt.Println(report.Tables, report.Entries, report.Problems, err)
	// Output:
	// 1 1 0 <nil>
}

func ExampleRepairWith() {
	dir, remove := exampleDir()
	defer remove()
	path := filepath.Join(dir, "db")
	db, err := esker.Open(path, nil)
	check(err)
	check(db.Put([]byte("apple"), []byte("red")))
	check(db.Flush(context.Background()))
	check(db.Close())
	report, err := esker.RepairWith(path, nil)
	fmt.Println(report.Pairs, report.Losses, err)
	// Output:
	// 1 0 <nil>
}
