// Encrypted stores: keys, refusals, copies, another key.

package esker_test

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"esker.dev/esker"
)

const secret = "a value that nobody may read"

var rightKey = esker.KeyBytes(bytes.Repeat([]byte{0x5a}, esker.KeySize))
var otherKey = esker.KeyBytes([]byte(strings.Repeat("0b", esker.KeySize) + "\n"))

func keyed(key *esker.Key) *esker.Options { return &esker.Options{Key: key} }

// plainFiles returns how many files of a folder have the secret.
func plainFiles(t *testing.T, path string) int {
	t.Helper()
	found, files := 0, 0
	must(t, filepath.WalkDir(path, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		files++
		if bytes.Contains(content, []byte(secret)) {
			found++
		}
		return err
	}))
	if files <= 3 {
		t.Fatalf("%s has %d files", path, files)
	}
	return found
}

func fill(t *testing.T, path string, options *esker.Options) {
	t.Helper()
	db := ok[*esker.DB](t)(esker.Open(path, options))
	must(t, db.Put([]byte("table"), []byte(secret)))
	must(t, db.Flush(background))
	must(t, db.Put([]byte("log"), []byte(secret)))
	must(t, db.Close())
}

// opens checks that a store opens and has what fill wrote.
func opens(t *testing.T, path string, options *esker.Options) {
	t.Helper()
	db := ok[*esker.DB](t)(esker.Open(path, options))
	equal(t, get(t, db, "table"), secret)
	equal(t, get(t, db, "log"), secret)
	must(t, db.Close())
}

// refusedKey checks that a store does not open, and why.
func refusedKey(t *testing.T, path string, options *esker.Options, why string) {
	t.Helper()
	_, err := esker.Open(path, options)
	isKind(t, err, esker.ErrInvalidArgument)
	if !strings.Contains(err.Error(), why) {
		t.Fatalf("%q is not in %v", why, err)
	}
}

func TestEncryptedStoreOpensWithItsKeyOnly(t *testing.T) {
	dir := t.TempDir()
	plain, path := filepath.Join(dir, "plain"), filepath.Join(dir, "db")
	fill(t, plain, nil)
	fill(t, path, keyed(rightKey))
	if plainFiles(t, plain) == 0 {
		t.Error("the search does not find what is there")
	}
	equal(t, plainFiles(t, path), 0)
	file := filepath.Join(dir, "key")
	refusedKey(t, path, nil, "the store is encrypted")
	refusedKey(t, path, keyed(otherKey), "does not open this store")
	refusedKey(t, path, keyed(esker.KeyFile(file)), "cannot read the key file")
	refusedKey(t, path, keyed(esker.KeyBytes([]byte("short"))), "64 hexadecimal digits")
	refusedKey(t, path, keyed(esker.KeyBytes(nil)), "64 hexadecimal digits")
	refusedKey(t, path, keyed(esker.KeyFile("a\x00b")), "zero byte")
	refusedKey(t, plain, keyed(rightKey), "the store is not encrypted")
	must(t, os.WriteFile(file, []byte(strings.Repeat("5A", esker.KeySize)+"\n"), 0o600))
	opens(t, path, keyed(rightKey))
	opens(t, path, keyed(esker.KeyFile(file)))
	reader := ok[*esker.DB](t)(esker.OpenReadOnly(path, keyed(rightKey)))
	equal(t, get(t, reader, "log"), secret)
	must(t, reader.Close())
}

func TestFunctionsGiveKeysByName(t *testing.T) {
	options := memory(t)
	var db *esker.DB
	var asked []string
	var nested error
	options.Key = esker.KeyFunc(func(name string) (esker.MasterKey, error) {
		asked = append(asked, name)
		if db != nil {
			nested = db.Flush(background)
		}
		return esker.MasterKey{Bytes: make([]byte, esker.KeySize), Name: "key 1"}, nil
	})
	made := ok[*esker.DB](t)(esker.Open("/store", options))
	equal(t, asked[0], "")
	must(t, made.Put([]byte("k"), []byte("v")))
	db = made
	_, err := made.Fork(context.Background(), "/fork", nil)
	must(t, err)
	isKind(t, nested, esker.ErrInvalidArgument)
	db, asked = nil, nil
	must(t, made.Close())
	again := ok[*esker.DB](t)(esker.Open("/store", options))
	equal(t, get(t, again, "k"), "v")
	must(t, again.Close())
	equal(t, asked[len(asked)-1], "key 1")
	for why, give := range map[string]func(string) (esker.MasterKey, error){
		"the service is down": func(string) (esker.MasterKey, error) {
			return esker.MasterKey{}, errors.New("the service is down")
		},
		"a planted panic": func(string) (esker.MasterKey, error) { panic("a planted panic") },
		"found 31": func(string) (esker.MasterKey, error) {
			return esker.MasterKey{Bytes: make([]byte, 31)}, nil
		},
		"zero byte": func(string) (esker.MasterKey, error) {
			return esker.MasterKey{Bytes: make([]byte, esker.KeySize), Name: "a\x00b"}, nil
		},
		"1 to 64 bytes": func(string) (esker.MasterKey, error) {
			name := strings.Repeat("x", 65)
			return esker.MasterKey{Bytes: make([]byte, esker.KeySize), Name: name}, nil
		},
		"does not open this store": func(string) (esker.MasterKey, error) {
			return esker.MasterKey{Bytes: bytes.Repeat([]byte{1}, esker.KeySize)}, nil
		},
	} {
		refusedKey(t, "/store", &esker.Options{Memory: options.Memory, Key: esker.KeyFunc(give)}, why)
	}
}

func TestRekey(t *testing.T) {
	path := filepath.Join(t.TempDir(), "db")
	from, to := keyed(rightKey), keyed(otherKey)
	fill(t, path, from)
	db := ok[*esker.DB](t)(esker.Open(path, from))
	_, err := esker.Rekey(path, from, to)
	isKind(t, err, esker.ErrLocked)
	must(t, db.Close())
	for _, pair := range [][2]*esker.Options{{to, from}, {from, nil}, {nil, to}, {from, {}}, {{}, to}} {
		_, err := esker.Rekey(path, pair[0], pair[1])
		isKind(t, err, esker.ErrInvalidArgument)
	}
	_, err = esker.Rekey(filepath.Join(path, "none"), from, to)
	isKind(t, err, esker.ErrNotFound)
	report := ok[esker.RekeyReport](t)(esker.Rekey(path, from, to))
	if len(report.From) != 16 || len(report.To) != 16 || report.From == report.To ||
		report.DataKeys == 0 {
		t.Error(report)
	}
	refusedKey(t, path, from, report.From)
	refusedKey(t, path, from, report.To)
	opens(t, path, to)
	db = ok[*esker.DB](t)(esker.Open(path, to))
	must(t, db.CompactRange(background, nil, nil))
	must(t, db.Close())
	opens(t, path, to)
	equal(t, plainFiles(t, path), 0)
}

func TestCopiesAreEncryptedUnderTheSameKey(t *testing.T) {
	dir := t.TempDir()
	path, backups := filepath.Join(dir, "db"), filepath.Join(dir, "backups")
	options := keyed(rightKey)
	fill(t, path, options)
	db := ok[*esker.DB](t)(esker.Open(path, options))
	for range 2 {
		_, _, err := db.Backup(background, backups, nil)
		must(t, err)
	}
	must(t, db.Checkpoint(background, filepath.Join(dir, "checkpoint")))
	file := filepath.Join(dir, "sorted")
	writer := ok[*esker.SortedWriter](t)(esker.NewSortedWriter(file, options))
	must(t, writer.Put([]byte("sorted"), []byte(secret)))
	_, err := writer.Finish()
	must(t, err)
	must(t, writer.Close())
	_, err = db.Ingest(background, []string{file}, nil)
	must(t, err)
	equal(t, get(t, db, "sorted"), secret)
	must(t, db.Close())
	equal(t, len(ok[[]esker.BackupInfo](t)(esker.Backups(backups, options))), 2)
	equal(t, ok[uint64](t)(esker.PruneBackups(backups, 1, options)), 1)
	restored := filepath.Join(dir, "restored")
	equal(t, ok[uint64](t)(esker.Restore(background, backups, 0, restored, options)), 2)
	for _, copied := range []string{path, restored, filepath.Join(dir, "checkpoint")} {
		opens(t, copied, options)
		equal(t, plainFiles(t, copied), 0)
	}
	equal(t, ok[string](t)(esker.Repair(restored, options)), "")
	must(t, esker.Remove(restored, options))
}
