// Forks: branches of a store. Comparisons: what differs between two stores.
//
// Invariant: a comparison in C is freed after the last call on it.

package esker

/*
#include "shim.h"
#include "callbacks.h"
*/
import "C"

import (
	"context"
	"iter"
	"runtime"
	"runtime/cgo"
	"sync"
	"time"
	"unsafe"
)

// ForkOptions are the options of a fork. Nil and the zero value are the defaults.
type ForkOptions struct {
	// Name is kept in the fork: 1 to 255 bytes without control characters; empty for none.
	Name string
}

// A ForkReport says what a fork shares with its parent.
type ForkReport struct {
	// StoreID is the number of the fork; see DB.StoreID.
	StoreID uint64
	// LinkedFiles is the number of tables that both share by hard links, LinkedBytes their size.
	LinkedFiles, LinkedBytes uint64
	// CopiedFiles is the number of tables that could not be linked, CopiedBytes their size.
	CopiedFiles, CopiedBytes uint64
}

// Fork creates a fork of the store in the directory path, which must not exist: a store of its own
// that begins with the content of this one. No write into one of them is visible in the other. Tables
// are hard-linked where that is possible, so a fork takes time for each file and not for each byte. It
// is durable when this returns. ErrInvalidArgument if path exists or is inside a store. When ctx ends
// first, it returns its error, and the work goes on.
func (db *DB) Fork(ctx context.Context, path string, options *ForkOptions) (ForkReport, error) {
	name := ""
	if options != nil {
		name = options.Name
	}
	if !isText(name) {
		return ForkReport{}, invalid("a name or path has a zero byte")
	}
	report := new(*C.esker_fork_report_t)
	made := new(ForkReport)
	err := waitFor(ctx, func() error {
		defer runtime.KeepAlive(db)
		var label cString
		if name != "" {
			label = newCString(name)
			defer label.free()
		}
		err := named(path, func(path *C.char, message **C.char) C.int32_t {
			return C.esker_fork(db.c, path, label.text, report, message)
		})
		if c := *report; err == nil && c != nil {
			*made = ForkReport{uint64(c.store_id), uint64(c.linked_files), uint64(c.linked_bytes),
				uint64(c.copied_files), uint64(c.copied_bytes)}
			C.esker_free(unsafe.Pointer(c))
		}
		return err
	})
	if err != nil {
		return ForkReport{}, err
	}
	return *made, nil
}

// An Ancestor is a store that a fork descends from.
type Ancestor struct {
	// StoreID is its number, Name its name if it is a fork with a name.
	StoreID uint64
	Name    string
	// Sequence is its sequence number at the fork: the fork has every write up to it, and no later.
	Sequence uint64
}

// A Lineage is the name of a store and the stores that it descends from, the parent first.
type Lineage struct {
	// Name is the name of the store, Ancestors are the stores that it descends from.
	Name      string
	Ancestors []Ancestor
}

// Lineage returns the name of the store and the stores that it descends from, if it is a fork.
func (db *DB) Lineage() (Lineage, error) {
	defer runtime.KeepAlive(db)
	var lineage Lineage
	state := cgo.NewHandle(&lineage)
	defer state.Delete()
	var name, message *C.char
	err := failed(C.esker_go_lineage(db.c, &name, C.uintptr_t(state), &message), message)
	lineage.Name, _ = taken(name)
	return lineage, err
}

//export eskerGoVisitAncestor
func eskerGoVisitAncestor(state C.uintptr_t, id C.uint64_t, name *C.char, sequence C.uint64_t) {
	lineage := cgo.Handle(state).Value().(*Lineage)
	lineage.Ancestors = append(lineage.Ancestors,
		Ancestor{uint64(id), C.GoString(name), uint64(sequence)})
}

// A Difference is a key whose value, or whose time of expiry, is not the same in two stores.
type Difference struct {
	// Keyspace is the name of the keyspace, Key the key in it.
	Keyspace string
	Key      []byte
	// Old and New are the values in the first and in the second store; nil if the store does not have
	// the key.
	Old, New []byte
	// OldExpires and NewExpires are the times at which the pairs expire; zero if they do not.
	OldExpires, NewExpires time.Time
}

// Relation says how two compared stores descend from each other.
type Relation int32

// Relations of two stores.
const (
	// SameStore: they are the same store, or copies of its directory.
	SameStore Relation = C.ESKER_RELATION_SAME_STORE
	// Descendant: the second is a fork of the first, or a fork of a fork.
	Descendant Relation = C.ESKER_RELATION_DESCENDANT
	// Ancestral: the first is a fork of the second, or a fork of a fork.
	Ancestral Relation = C.ESKER_RELATION_ANCESTOR
	// Siblings: both are forks that descend from the same store.
	Siblings Relation = C.ESKER_RELATION_SIBLINGS
	// Unrelated: neither remembers the other, nor a common ancestor.
	Unrelated Relation = C.ESKER_RELATION_UNRELATED
)

// A DiffSource is a side of a comparison: a *DB as of now, or a *Snapshot.
type DiffSource interface {
	// side calls a function with the handles of the side.
	side(func(*C.esker_db_t, *C.esker_snapshot_t) error) error
}

func (db *DB) side(call func(*C.esker_db_t, *C.esker_snapshot_t) error) error {
	if db == nil {
		return invalid("a side of the comparison is nil")
	}
	defer runtime.KeepAlive(db)
	return call(db.c, nil)
}

func (s *Snapshot) side(call func(*C.esker_db_t, *C.esker_snapshot_t) error) error {
	if s == nil {
		return invalid("a side of the comparison is nil")
	}
	if !s.guard.enter() {
		return closed("snapshot")
	}
	defer s.guard.leave()
	return call(nil, s.handle)
}

// DiffOptions are the options of a comparison. Nil and the zero value are the defaults.
type DiffOptions struct {
	// Keyspace is the name of the only keyspace to compare; empty for all of them.
	Keyspace string
}

// A Diff is a comparison of two stores. It holds the files and memtables of both as they were at its
// creation, until Close. One goroutine may use it at a time.
type Diff struct {
	mutex sync.Mutex
	guard *guard
	c     *C.esker_diff_t
	sides [2]DiffSource
}

// NewDiff compares two stores, or snapshots of stores: keyspace by keyspace, default first and the
// others by name, and within a keyspace in key order. Tables that both share, as a fork and its parent
// do, are read only near changed keys. A keyspace that one lacks counts as empty there. It must be
// closed. ErrIncompatible if a keyspace has different key orders, ErrNotFound if neither store has the
// keyspace of the options.
func NewDiff(old, new DiffSource, options *DiffOptions) (*Diff, error) {
	if old == nil || new == nil {
		return nil, invalid("a side of the comparison is nil")
	}
	var keyspace cString
	if options != nil && options.Keyspace != "" {
		if !isText(options.Keyspace) {
			return nil, invalid("a name or path has a zero byte")
		}
		keyspace = newCString(options.Keyspace)
		defer keyspace.free()
	}
	var c *C.esker_diff_t
	err := old.side(func(oldDB *C.esker_db_t, oldSnapshot *C.esker_snapshot_t) error {
		return new.side(func(newDB *C.esker_db_t, newSnapshot *C.esker_snapshot_t) error {
			var message *C.char
			return failed(C.esker_diff_create(oldDB, oldSnapshot, newDB, newSnapshot,
				keyspace.text, &c, &message), message)
		})
	})
	if err != nil {
		return nil, err
	}
	diff := &Diff{c: c, sides: [2]DiffSource{old, new}}
	diff.guard = newGuard("a comparison", func() { C.esker_diff_destroy(c) }, false, 1)
	runtime.AddCleanup(diff, collected, diff.guard)
	return diff, nil
}

// Next returns the next difference, or nil at the end. The comparison is at its end after an error.
func (d *Diff) Next() (*Difference, error) {
	if !d.guard.enter() {
		return nil, closed("comparison")
	}
	defer d.guard.leave()
	d.mutex.Lock()
	defer d.mutex.Unlock()
	var found *C.esker_difference_t
	var message *C.char
	err := failed(C.esker_diff_next(d.c, &found, &message), message)
	if err != nil || found == nil {
		return nil, err
	}
	return &Difference{
		Keyspace:   C.GoString(found.keyspace),
		Key:        copyOf(found.key, found.key_len),
		Old:        copyOf(found.old_value, found.old_value_len),
		New:        copyOf(found.new_value, found.new_value_len),
		OldExpires: expiryOf(found.old_expires_ms),
		NewExpires: expiryOf(found.new_expires_ms),
	}, nil
}

// All returns the differences, for a loop. The loop ends after an error.
func (d *Diff) All() iter.Seq2[*Difference, error] { return loop(d.Next) }

// Relation returns how the stores descend from each other; 0 after Close.
func (d *Diff) Relation() Relation {
	if !d.guard.enter() {
		return 0
	}
	defer runtime.KeepAlive(d)
	defer d.guard.leave()
	return Relation(C.esker_diff_relation(d.c))
}

// SharedFiles returns the number of tables that both stores have. If it is 0, every pair is read.
func (d *Diff) SharedFiles() uint64 {
	if !d.guard.enter() {
		return 0
	}
	defer runtime.KeepAlive(d)
	defer d.guard.leave()
	return uint64(C.esker_diff_shared_files(d.c))
}

// SharedBytes returns the size of these tables, in bytes.
func (d *Diff) SharedBytes() uint64 {
	if !d.guard.enter() {
		return 0
	}
	defer runtime.KeepAlive(d)
	defer d.guard.leave()
	return uint64(C.esker_diff_shared_bytes(d.c))
}

// KeyspacesOnlyInOld returns the names of the keyspaces that only the first store has.
func (d *Diff) KeyspacesOnlyInOld() []string { return d.onlyIn(1) }

// KeyspacesOnlyInNew returns the names of the keyspaces that only the second store has.
func (d *Diff) KeyspacesOnlyInNew() []string { return d.onlyIn(0) }

func (d *Diff) onlyIn(old C.uint8_t) []string {
	if !d.guard.enter() {
		return nil
	}
	defer runtime.KeepAlive(d)
	defer d.guard.leave()
	names, _ := taken(C.esker_diff_keyspaces_only_in(d.c, old))
	return lines(names)
}

// Close frees the comparison, after the calls that use it. Later calls fail with ErrClosed.
func (d *Diff) Close() error {
	d.guard.close()
	return nil
}
