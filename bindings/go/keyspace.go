// Keyspaces: ordered maps of their own within a store.
//
// Invariant: the handle of a keyspace is freed by the garbage collector, as that of a store is.

package esker

/*
#include "shim.h"
*/
import "C"

import (
	"runtime"
	"strings"
	"time"
)

// A Keyspace is an ordered map of its own within a store, with its own key order and options. Many
// goroutines may use it at once. It need not be closed.
type Keyspace struct {
	space
	guard  *guard
	handle *C.esker_keyspace_t
}

// KeyspaceOptions are the options of a new keyspace. They are stored with it. Those that are not
// set are the store's.
type KeyspaceOptions struct {
	// Settings sets options by name, from text. docs/options.md says which ones a keyspace can have
	// of its own.
	Settings map[string]string
	// KeyOrder is esker.bytewise (the default), esker.reverse, or the name of a comparator in the
	// options of the store.
	KeyOrder string
	// MergeOperator is the name of a built-in operator or of one in the options of the store.
	MergeOperator string
	// CompactionFilter is the name of one in the options of the store.
	CompactionFilter string
	// TTL is the time to live of pairs that are put without one. 0 means that they do not expire.
	TTL time.Duration
}

func (o *KeyspaceOptions) build() (*C.esker_keyspace_options_t, error) {
	if o == nil {
		return nil, nil
	}
	c := C.esker_keyspace_options_create()
	if err := o.fill(c); err != nil {
		C.esker_keyspace_options_destroy(c)
		return nil, err
	}
	return c, nil
}

func (o *KeyspaceOptions) fill(c *C.esker_keyspace_options_t) error {
	for _, name := range sortedNames(o.Settings) {
		if err := setting(name, o.Settings[name], func(n, v *C.char, m **C.char) C.int32_t {
			return C.esker_keyspace_options_set(c, n, v, m)
		}); err != nil {
			return err
		}
	}
	if o.KeyOrder != "" {
		if err := named(o.KeyOrder, func(name *C.char, m **C.char) C.int32_t {
			return C.esker_keyspace_options_set_key_order(c, name, m)
		}); err != nil {
			return err
		}
	}
	if o.MergeOperator != "" {
		if err := named(o.MergeOperator, func(name *C.char, m **C.char) C.int32_t {
			return C.esker_keyspace_options_set_merge_operator(c, name, m)
		}); err != nil {
			return err
		}
	}
	if o.CompactionFilter != "" {
		if err := named(o.CompactionFilter, func(name *C.char, m **C.char) C.int32_t {
			return C.esker_keyspace_options_set_compaction_filter(c, name, m)
		}); err != nil {
			return err
		}
	}
	if o.TTL == 0 {
		return nil
	}
	ms, err := msOf(o.TTL)
	if err != nil {
		return err
	}
	var message *C.char
	return failed(C.esker_keyspace_options_set_ttl_ms(c, C.uint64_t(ms), &message), message)
}

// Keyspace opens the keyspace name, and creates it if it does not exist. Nil options select the
// defaults. ErrInvalidArgument if it exists with another key order or other options, and for a name
// that is empty, longer than 255 bytes, not UTF-8, or has control characters.
func (db *DB) Keyspace(name string, options *KeyspaceOptions) (*Keyspace, error) {
	defer runtime.KeepAlive(db)
	o, err := options.build()
	if err != nil {
		return nil, err
	}
	defer C.esker_keyspace_options_destroy(o)
	var handle *C.esker_keyspace_t
	err = named(name, func(name *C.char, message **C.char) C.int32_t {
		return C.esker_keyspace_open(db.c, name, o, &handle, message)
	})
	if err != nil {
		return nil, err
	}
	return db.keyspaceOf(handle), nil
}

// FindKeyspace opens the keyspace name, whatever its options are. ErrNotFound if there is no such
// keyspace.
func (db *DB) FindKeyspace(name string) (*Keyspace, error) {
	defer runtime.KeepAlive(db)
	var handle *C.esker_keyspace_t
	err := named(name, func(name *C.char, message **C.char) C.int32_t {
		return C.esker_keyspace_find(db.c, name, &handle, message)
	})
	if err != nil {
		return nil, err
	}
	if handle == nil {
		return nil, &Error{Kind: ErrNotFound, Message: "there is no keyspace " + name +
			": create it with Keyspace"}
	}
	return db.keyspaceOf(handle), nil
}

func (db *DB) keyspaceOf(handle *C.esker_keyspace_t) *Keyspace {
	k := &Keyspace{handle: handle}
	k.reader = reader{db: db, c: db.c, keyspace: k, callsGo: db.callsGo}
	k.guard = newGuard("a keyspace", func() { C.esker_keyspace_close(handle) }, false, 2)
	k.guard.quiet = true
	runtime.AddCleanup(k, collected, k.guard)
	return k
}

// Close ends the use of the handle. The keyspace stays in the store. Later calls fail with
// ErrClosed.
func (k *Keyspace) Close() error {
	if k.guard != nil {
		k.guard.retire()
	}
	return nil
}

// Name returns the name of the keyspace, which RenameKeyspace may change.
func (k *Keyspace) Name() string {
	defer runtime.KeepAlive(k)
	name, _ := taken(C.esker_keyspace_name(k.handle))
	return name
}

// ID returns the number of the keyspace in its store, which no other keyspace ever has; 0 for the
// keyspace default.
func (k *Keyspace) ID() uint32 {
	defer runtime.KeepAlive(k)
	return uint32(C.esker_keyspace_id(k.handle))
}

// Tree returns the number of the tree that holds the keys of the keyspace, as in Event. Keyspaces with
// the same key order and the same options share a tree. 0 is the tree of the keyspace default alone.
func (k *Keyspace) Tree() uint32 {
	defer runtime.KeepAlive(k)
	return uint32(C.esker_keyspace_tree(k.handle))
}

// KeyOrder returns the name of the key order of the keyspace.
func (k *Keyspace) KeyOrder() string {
	defer runtime.KeepAlive(k)
	order, _ := taken(C.esker_keyspace_key_order(k.handle))
	return order
}

// OwnOptions returns the options that the keyspace got when it was created. The others are the store's.
// It is empty for the keyspace default.
func (k *Keyspace) OwnOptions() map[string]string {
	defer runtime.KeepAlive(k)
	text, _ := taken(C.esker_keyspace_own_options(k.handle))
	own := map[string]string{}
	for _, line := range lines(text) {
		name, value, _ := strings.Cut(line, "=")
		own[name] = value
	}
	return own
}

// Clear deletes all keys of the keyspace with one range deletion. ErrInvalidArgument for the
// keyspace default, which has no greatest key.
func (k *Keyspace) Clear() error {
	if k.guard.isClosed() {
		return closed("keyspace's handle")
	}
	defer runtime.KeepAlive(k)
	var message *C.char
	return failed(C.esker_keyspace_clear(k.handle, &message), message)
}

// SizeBytes returns the approximate size of the keyspace in the tables. Data that is only in memory
// is not counted.
func (k *Keyspace) SizeBytes() (uint64, error) {
	if k.guard.isClosed() {
		return 0, closed("keyspace's handle")
	}
	defer runtime.KeepAlive(k)
	var size C.uint64_t
	var message *C.char
	err := failed(C.esker_keyspace_size_bytes(k.handle, &size, &message), message)
	return uint64(size), err
}

// ApproximateSize returns the approximate size in bytes of the keys from start (inclusive) to end
// (exclusive), in the key order of the keyspace, in the tables. Data that is only in memory is not
// counted.
func (k *Keyspace) ApproximateSize(start, end []byte) (uint64, error) {
	if k.guard.isClosed() {
		return 0, closed("keyspace's handle")
	}
	defer runtime.KeepAlive(k)
	start, end = onHeap(start), onHeap(end)
	var size C.uint64_t
	var message *C.char
	err := failed(C.esker_go_approximate_size(nil, k.handle, ptr(start), n(start), ptr(end),
		n(end), &size, &message), message)
	return uint64(size), err
}

// Keyspaces returns the names of all keyspaces: default, then the others in alphabetical order.
func (db *DB) Keyspaces() ([]string, error) {
	defer runtime.KeepAlive(db)
	var names, message *C.char
	err := failed(C.esker_keyspaces(db.c, &names, &message), message)
	text, _ := taken(names)
	if err != nil {
		return nil, err
	}
	return strings.Split(strings.TrimSuffix(text, "\n"), "\n"), nil
}

// RenameKeyspace gives the keyspace name another name. Its handles stay valid. ErrNotFound if there
// is no such keyspace.
func (db *DB) RenameKeyspace(name, newName string) error {
	defer runtime.KeepAlive(db)
	return setting(name, newName, func(name, other *C.char, message **C.char) C.int32_t {
		return C.esker_keyspace_rename(db.c, name, other, message)
	})
}

// DropKeyspace drops the keyspace name with all its keys. The space is freed in the background.
// Existing iterators go on; every other use of its handles fails with ErrNotFound.
func (db *DB) DropKeyspace(name string) error {
	defer runtime.KeepAlive(db)
	return named(name, func(name *C.char, message **C.char) C.int32_t {
		return C.esker_keyspace_drop(db.c, name, message)
	})
}
