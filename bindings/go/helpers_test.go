// Helpers of the tests. Every test of the package fails if it leaves a warning about a leak.

package esker_test

import (
	"bytes"
	"fmt"
	"os"
	"runtime"
	"sync"
	"testing"
	"time"

	"esker.dev/esker"
)

// leaks has the warnings about leaks.
var leaks struct {
	sync.Mutex
	warnings []string
}

func TestMain(m *testing.M) {
	if path := os.Getenv(writerPath); path != "" {
		writeForEver(path)
		return
	}
	esker.SetLeakTracking(true)
	esker.SetLeakWarning(func(message string) {
		leaks.Lock()
		defer leaks.Unlock()
		leaks.warnings = append(leaks.warnings, message)
	})
	code := m.Run()
	if warnings := takeLeaks(); len(warnings) > 0 {
		fmt.Println("leaked handles:", warnings)
		code = 1
	}
	os.Exit(code)
}

// takeLeaks collects garbage until no more warnings come, and returns them.
func takeLeaks() []string {
	for range 3 {
		runtime.GC()
		time.Sleep(time.Millisecond)
	}
	leaks.Lock()
	defer leaks.Unlock()
	warnings := leaks.warnings
	leaks.warnings = nil
	return warnings
}

// memory returns options of stores in a file system in memory.
func memory(t testing.TB) *esker.Options {
	m := esker.NewMemory()
	t.Cleanup(func() { m.Close() })
	return &esker.Options{Memory: m}
}

func open(t testing.TB, options *esker.Options) *esker.DB {
	t.Helper()
	db, err := esker.Open("/store", options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { must(t, db.Close()) })
	return db
}

func newStore(t testing.TB) *esker.DB {
	t.Helper()
	return open(t, memory(t))
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func ok[T any](t testing.TB) func(T, error) T {
	return func(value T, err error) T {
		t.Helper()
		must(t, err)
		return value
	}
}

type getter interface {
	Get(key []byte) ([]byte, bool, error)
}

// get returns the value of key, and "none" if it is missing.
func get(t testing.TB, from getter, key string) string {
	t.Helper()
	value, found, err := from.Get([]byte(key))
	must(t, err)
	if !found {
		return "none"
	}
	return string(value)
}

func equal[T comparable](t testing.TB, got, expected T) {
	t.Helper()
	if got != expected {
		t.Fatalf("got %v, expected %v", got, expected)
	}
}

func isKind(t testing.TB, err error, kind esker.Kind) {
	t.Helper()
	if e, ok := err.(*esker.Error); !ok || e.Kind != kind || len(err.Error()) < 10 {
		t.Fatalf("got %v, expected %v", err, kind)
	}
}

// pairs returns the pairs of a loop as text.
func pairs(t testing.TB, loop func(func(esker.Pair, error) bool)) string {
	t.Helper()
	var text bytes.Buffer
	for pair, err := range loop {
		must(t, err)
		fmt.Fprintf(&text, "%s=%s ", pair.Key, pair.Value)
	}
	return text.String()
}
