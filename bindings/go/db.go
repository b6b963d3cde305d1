// Stores: opening, closing and maintenance.
//
// Invariants:
//  1. The handle of the C library is freed only when no goroutine can use it: by the garbage
//     collector, after Close or instead of it. So no call needs a lock or a count.
//  2. A call that begins after Close fails with ErrClosed.

package esker

/*
#include "shim.h"
*/
import "C"

import (
	"context"
	"errors"
	"runtime"
	"unsafe"
)

// A DB is an open store: an ordered map from keys to values, both any bytes. Its methods without a
// keyspace work on the keyspace default. Many goroutines may use it at once. It is an io.Closer.
type DB struct {
	space
	guard *guard
}

// Open opens the store in the directory path, and creates it if it is missing, unless the option
// create_if_missing is off. Nil options select the defaults. Only one process and handle can have a
// store open; another gets ErrLocked.
func Open(path string, options *Options) (*DB, error) {
	return open(path, options, func(path *C.char, options *C.esker_options_t, db **C.esker_db_t,
		message **C.char) C.int32_t {
		return C.esker_open(path, options, db, message)
	})
}

// OpenReadOnly opens the current state of a store. The store may be open elsewhere. Later writes
// are not seen. Writes fail with ErrReadOnly.
func OpenReadOnly(path string, options *Options) (*DB, error) {
	return open(path, options, func(path *C.char, options *C.esker_options_t, db **C.esker_db_t,
		message **C.char) C.int32_t {
		return C.esker_open_read_only(path, options, db, message)
	})
}

func open(path string, options *Options, call func(*C.char, *C.esker_options_t, **C.esker_db_t,
	**C.char) C.int32_t) (*DB, error) {
	var c *C.esker_db_t
	err := withOptions(path, options, func(path *C.char, o *C.esker_options_t,
		message **C.char) C.int32_t {
		return call(path, o, &c, message)
	})
	if err != nil {
		return nil, err
	}
	return newDB(c, options.callsGo()), nil
}

// newDB returns the store of a handle. The program has called a function that calls a caller of this.
func newDB(c *C.esker_db_t, callsGo bool) *DB {
	db := &DB{}
	db.c, db.callsGo = c, callsGo
	db.space.db = db
	db.guard = newGuard("a store", func() { C.esker_db_destroy(c); freeUnused() }, true, 3)
	runtime.AddCleanup(db, collected, db.guard)
	return db
}

// withOptions calls a function with a path and options.
func withOptions(path string, options *Options,
	call func(*C.char, *C.esker_options_t, **C.char) C.int32_t) error {
	o, err := options.build()
	if err != nil {
		return err
	}
	defer freeUnused()
	defer C.esker_options_destroy(o)
	return named(path, func(path *C.char, message **C.char) C.int32_t {
		return call(path, o, message)
	})
}

// Close closes the store and waits for running calls. With the default durability no write is
// lost. Later calls, also on keyspaces, snapshots and transactions, fail with ErrClosed; transactions
// that have not ended are never committed. Iterators stay readable until the store is opened again,
// removed or repaired. Closing twice is allowed.
func (db *DB) Close() error {
	endLoads(db.c)
	var message *C.char
	err := failed(C.esker_close(db.c, &message), message)
	if db.guard != nil && !errors.Is(err, ErrInvalidArgument) {
		db.guard.retire()
	}
	freeUnused()
	runtime.KeepAlive(db)
	return err
}

// Remove removes a store that is not open: its files, then the directory if it is empty. Of the
// options, which may be nil, the file system, the key and the key orders count.
func Remove(path string, options *Options) error {
	return withOptions(path, options, func(path *C.char, o *C.esker_options_t,
		message **C.char) C.int32_t {
		return C.esker_destroy_store(path, o, message)
	})
}

// Repair rebuilds a store that is not open from the intact parts of its files. It returns the
// losses, one a line; an empty text if nothing was lost. RepairWith returns numbers too.
func Repair(path string, options *Options) (losses string, err error) {
	var lost *C.char
	err = withOptions(path, options, func(path *C.char, o *C.esker_options_t,
		message **C.char) C.int32_t {
		return C.esker_repair(path, o, &lost, message)
	})
	losses, _ = taken(lost)
	return losses, err
}

// Flush writes all memtables to tables and waits until that is done, or until ctx ends. When ctx
// ends first, it returns its error, and the work goes on.
func (db *DB) Flush(ctx context.Context) error {
	return db.wait(ctx, func(m **C.char) C.int32_t { return C.esker_flush(db.c, m) })
}

// Sync makes all earlier logged writes survive a power loss. Writes with NoLog need Flush.
func (db *DB) Sync() error {
	return db.wait(context.Background(), func(m **C.char) C.int32_t {
		return C.esker_sync(db.c, m)
	})
}

// WaitIdle waits until no flush or compaction is due, or until ctx ends.
func (db *DB) WaitIdle(ctx context.Context) error {
	return db.wait(ctx, func(m **C.char) C.int32_t { return C.esker_wait_idle(db.c, m) })
}

// Verify reads and checks every byte of the store. It fails with ErrCorruption, and a message with
// one line per problem. When ctx ends first, it returns its error, and the work goes on. VerifyWith returns
// numbers too.
func (db *DB) Verify(ctx context.Context) error {
	return db.wait(ctx, func(m **C.char) C.int32_t { return C.esker_verify(db.c, m) })
}

// Checkpoint creates a second store with the same content in path, by hard links. path must not
// exist. When ctx ends first, it returns its error, and the work goes on.
func (db *DB) Checkpoint(ctx context.Context, path string) error {
	return waitFor(ctx, func() error {
		defer runtime.KeepAlive(db)
		return named(path, func(path *C.char, message **C.char) C.int32_t {
			return C.esker_checkpoint(db.c, path, message)
		})
	})
}

// UpgradeFormat raises the format version of the store to to: 2 is the newest one. A store keeps the
// version with which it was created (option format_version), and earlier releases can open it, until
// this is called. Afterwards they refuse it. The version cannot be lowered.
func (db *DB) UpgradeFormat(to uint32) error {
	return db.wait(context.Background(), func(m **C.char) C.int32_t {
		return C.esker_upgrade_format(db.c, C.uint32_t(to), m)
	})
}

// SetOption changes an option of the open store. Options that are fixed at the opening are
// ErrInvalidArgument.
func (db *DB) SetOption(name, value string) error {
	defer runtime.KeepAlive(db)
	return setting(name, value, func(name, value *C.char, message **C.char) C.int32_t {
		return C.esker_set_option(db.c, name, value, message)
	})
}

// Property returns a property as text, and false for an unknown name or a closed store. The
// properties are esker.stats, esker.option.NAME, and those of LevelDB.
func (db *DB) Property(name string) (string, bool) {
	defer runtime.KeepAlive(db)
	if !isText(name) {
		return "", false
	}
	c := newCString(name)
	defer c.free()
	return taken(C.esker_property(db.c, c.text))
}

// OpenMetrics returns the metrics of the store in the OpenMetrics text format 1.0, which the
// content type application/openmetrics-text; version=1.0.0; charset=utf-8 names. docs/metrics.md
// lists them.
func (db *DB) OpenMetrics() (string, error) {
	defer runtime.KeepAlive(db)
	var text, message *C.char
	err := failed(C.esker_openmetrics(db.c, &text, &message), message)
	metrics, _ := taken(text)
	return metrics, err
}

// ApproximateSize returns the approximate size in bytes of the keys from start (inclusive) to end
// (exclusive) in the tables. Data that is only in memory is not counted.
func (db *DB) ApproximateSize(start, end []byte) (uint64, error) {
	defer runtime.KeepAlive(db)
	var size C.uint64_t
	var message *C.char
	err := failed(C.esker_go_approximate_size(db.c, nil, ptr(start), n(start), ptr(end),
		n(end), &size, &message), message)
	return uint64(size), err
}

// wait runs a call that may take long, until ctx ends.
func (db *DB) wait(ctx context.Context, call func(**C.char) C.int32_t) error {
	return waitFor(ctx, func() error {
		defer runtime.KeepAlive(db)
		var message *C.char
		return failed(call(&message), message)
	})
}

// waitFor runs a call that cannot be interrupted, and returns its error, or that of ctx if ctx ends
// first; the call then goes on.
func waitFor(ctx context.Context, call func() error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if ctx.Done() == nil {
		return call()
	}
	done := make(chan error, 1)
	go func() { done <- call() }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// ptr returns the start of b for C: NULL only for nil.
func ptr(b []byte) *C.uint8_t { return (*C.uint8_t)(unsafe.SliceData(b)) }

// n returns the length of b for C.
func n(b []byte) C.size_t { return C.size_t(len(b)) }
