// Options for opening a store, and the program's own functions.
//
// Invariant: the options of the C library live only during the call that opens a store.

package esker

/*
#include "shim.h"
#include "callbacks.h"
*/
import "C"

import (
	"runtime"
	"runtime/cgo"
	"sort"
	"time"
	"unsafe"
)

// Options are the options for opening a store. The zero value and nil select the defaults.
type Options struct {
	// Settings sets options by name, from text: "block_size" to "8KiB". docs/options.md lists
	// them, with units, defaults and ranges; SettingDefault returns a default. An unknown name is
	// ErrInvalidArgument.
	Settings map[string]string
	// Memory, if not nil, is the file system of the store instead of the disk.
	Memory *Memory
	// Runtime, if not nil, is shared with other stores: its threads, memory budget, block cache and
	// limit on background writes. The store's own settings for these have no effect. The functions of
	// a store occupy a thread of the runtime, so they must not wait for another store of it.
	Runtime *Runtime
	// Key, if not nil, is where the master key of encrypted stores comes from: KeyBytes, KeyFile or
	// KeyFunc. A store that is created with a key is encrypted, and opened only with that key.
	Key *Key
	// Comparator is the key order of the keyspace default. Nil is bytewise order. It never changes.
	Comparator *Comparator
	// KeyOrder is the key order of the keyspace default by its name: esker.bytewise (the default),
	// esker.reverse, or that of one of Comparators. It never changes. Not beside a Comparator.
	KeyOrder string
	// Comparators are orders that other keyspaces may name.
	Comparators []*Comparator
	// MergeOperator is the name of the merge operator of the keyspace default: a built-in one
	// (add_i64, add_u64, max, min, append, append(,), set_union, set_union(,)) or one of
	// MergeOperators. Empty means none: merges are refused. The store keeps the name.
	MergeOperator string
	// MergeOperators are the program's operators that the store and its keyspaces may name.
	MergeOperators []*MergeOperator
	// CompactionFilter is the name of the compaction filter of the keyspace default, one of
	// CompactionFilters. Empty means none. It is not stored.
	CompactionFilter string
	// CompactionFilters are the program's filters that the store and its keyspaces may name.
	CompactionFilters []*CompactionFilter
	// FilterPolicy, if not nil, replaces the Bloom filter of tables.
	FilterPolicy *FilterPolicy
	// Listeners receive the events of the store.
	Listeners []Listener
	// Clock, if not nil, returns the present by which pairs expire, instead of time.Now. It is called
	// from any goroutine, on several at once. It must be quick, and must not use the store. If it goes
	// back, an open store stays at the latest time. A panic of it ends the program, because a wrong
	// time would remove pairs.
	Clock func() time.Time
}

// A Comparator is a key order. Every read and write calls it many times, at the cost of a call from
// C into Go each: prefer keys whose bytes are in order.
type Comparator struct {
	// Name is permanent. A store is opened only with the order of the name that it was created with.
	Name string
	// Compare returns a negative number, zero or a positive number. It is called from any
	// goroutine, on several at once. It must be the same total order forever, must not use the
	// store, and must not change or keep its arguments. A panic of it ends the program, because
	// there is no order to go on with.
	Compare func(a, b []byte) int
	// EqualIsIdentical promises that keys that compare as equal always have the same bytes. Tables
	// then get Bloom filters. A wrong promise loses keys for reads.
	EqualIsIdentical bool
}

// A MergeOperator makes values of operands. Its functions are called by reads, flushes and
// compactions, from any goroutine, on several at once. Their results must depend on the arguments
// alone. They must not use the store, and must not change or keep their arguments.
type MergeOperator struct {
	// Name is permanent, and not that of a built-in operator.
	Name string
	// FullMerge makes the value of key from the existing value and the operands, oldest first.
	// existing is nil if the key does not exist or has expired. After an error or a panic the read
	// fails with ErrInvalidArgument and its text; a flush or compaction keeps the operands.
	FullMerge func(key, existing []byte, operands [][]byte) ([]byte, error)
	// PartialMerge, which may be nil, makes one operand of several, oldest first. It returns false
	// if there is none.
	PartialMerge func(key []byte, operands [][]byte) ([]byte, bool)
}

// A FilterDecision is the answer of a CompactionFilter about a pair.
type FilterDecision int32

// Decisions of a compaction filter.
const (
	// FilterKeep keeps the pair.
	FilterKeep FilterDecision = C.ESKER_FILTER_KEEP
	// FilterRemove deletes the pair.
	FilterRemove FilterDecision = C.ESKER_FILTER_REMOVE
	// FilterReplace gives the pair the returned value.
	FilterReplace FilterDecision = C.ESKER_FILTER_REPLACE
)

// A CompactionFilter decides about pairs during compactions.
type CompactionFilter struct {
	// Name is the name that options use.
	Name string
	// Filter is called for pairs that no snapshot sees, several times or never, on threads of the
	// store. level is the level that the pair is written to. The returned value counts only for
	// FilterReplace. The rules are those of MergeOperator. After a panic its compaction calls it no
	// more and keeps the remaining pairs.
	Filter func(level int, key, value []byte) (FilterDecision, []byte)
}

// A FilterPolicy replaces the Bloom filter of tables. The rules are those of MergeOperator.
type FilterPolicy struct {
	// Name is stored with each filter. A filter of another name is ignored.
	Name string
	// Create makes a filter over keys.
	Create func(keys [][]byte) []byte
	// MayMatch returns false only if the key is not in the filter. A panic counts as true.
	MayMatch func(key, filter []byte) bool
}

// SettingDefault returns the default of the option name, as text. It returns false for an unknown
// name.
func SettingDefault(name string) (string, bool) {
	options := C.esker_options_create()
	defer C.esker_options_destroy(options)
	c := newCString(name)
	defer c.free()
	return taken(C.esker_options_get(options, c.text))
}

// Version returns the version of the C library, such as 0.1.0.
func Version() string { return C.GoString(C.esker_version()) }

// functions is the state of the program's functions in C. Each field is one kind.
type functions struct {
	name       *C.char
	comparator *Comparator
	merge      *MergeOperator
	filter     *CompactionFilter
	policy     *FilterPolicy
	listener   Listener
	clock      func() time.Time
	key        func(name string) (MasterKey, error)
}

// state returns the state that C passes to the functions, until it calls eskerGoDestroy.
func (f functions) state(name string) C.uintptr_t {
	f.name = C.CString(name)
	return C.uintptr_t(cgo.NewHandle(f))
}

// build makes the options of the C library, which the caller frees. A nil result selects the
// defaults.
func (o *Options) build() (*C.esker_options_t, error) {
	if o == nil {
		return nil, nil
	}
	c := C.esker_options_create()
	if err := o.fill(c); err != nil {
		C.esker_options_destroy(c)
		return nil, err
	}
	return c, nil
}

func (o *Options) fill(c *C.esker_options_t) error {
	for _, name := range sortedNames(o.Settings) {
		if err := setting(name, o.Settings[name], func(n, v *C.char, m **C.char) C.int32_t {
			return C.esker_options_set(c, n, v, m)
		}); err != nil {
			return err
		}
	}
	if o.Memory != nil {
		if !o.Memory.guard.enter() {
			return closed("file system in memory")
		}
		C.esker_options_set_memory(c, o.Memory.c)
		o.Memory.guard.leave()
	}
	if o.Runtime != nil {
		if !o.Runtime.guard.enter() {
			return closed("runtime")
		}
		C.esker_options_set_runtime(c, o.Runtime.c)
		o.Runtime.guard.leave()
	}
	if o.Key != nil {
		if err := o.Key.set(c); err != nil {
			return err
		}
	}
	if err := o.addFunctions(c); err != nil {
		return err
	}
	if o.KeyOrder != "" {
		if o.Comparator != nil {
			return invalid("the options have both a KeyOrder and a Comparator")
		}
		if err := named(o.KeyOrder, func(name *C.char, m **C.char) C.int32_t {
			return C.esker_options_set_key_order(c, name, m)
		}); err != nil {
			return err
		}
	}
	if o.MergeOperator != "" {
		if err := named(o.MergeOperator, func(name *C.char, m **C.char) C.int32_t {
			return C.esker_options_set_merge_operator(c, name, m)
		}); err != nil {
			return err
		}
	}
	if o.CompactionFilter != "" {
		return named(o.CompactionFilter, func(name *C.char, m **C.char) C.int32_t {
			return C.esker_options_set_compaction_filter(c, name, m)
		})
	}
	return nil
}

func (o *Options) addFunctions(c *C.esker_options_t) error {
	add := func(name string, complete bool, f functions,
		call func(state C.uintptr_t, message **C.char) C.int32_t) error {
		if !complete || !isText(name) {
			return invalid("a function of the options is nil, or its name has a zero byte")
		}
		var message *C.char
		return failed(call(f.state(name), &message), message)
	}
	if k := o.Comparator; k != nil {
		if err := add(k.Name, k.Compare != nil, functions{comparator: k},
			func(s C.uintptr_t, m **C.char) C.int32_t {
				return C.esker_go_set_comparator(c, s, flag(k.EqualIsIdentical), m)
			}); err != nil {
			return err
		}
	}
	for _, k := range o.Comparators {
		if err := add(k.Name, k.Compare != nil, functions{comparator: k},
			func(s C.uintptr_t, m **C.char) C.int32_t {
				return C.esker_go_add_comparator(c, s, flag(k.EqualIsIdentical), m)
			}); err != nil {
			return err
		}
	}
	for _, k := range o.MergeOperators {
		partial := flag(k.PartialMerge != nil)
		if err := add(k.Name, k.FullMerge != nil, functions{merge: k},
			func(s C.uintptr_t, m **C.char) C.int32_t {
				return C.esker_go_add_merge_operator(c, s, partial, m)
			}); err != nil {
			return err
		}
	}
	for _, k := range o.CompactionFilters {
		if err := add(k.Name, k.Filter != nil, functions{filter: k},
			func(s C.uintptr_t, m **C.char) C.int32_t {
				return C.esker_go_add_compaction_filter(c, s, m)
			}); err != nil {
			return err
		}
	}
	for _, k := range o.Listeners {
		if err := add("", k != nil, functions{listener: k},
			func(s C.uintptr_t, m **C.char) C.int32_t {
				return C.esker_go_add_listener(c, s, m)
			}); err != nil {
			return err
		}
	}
	if k := o.Clock; k != nil {
		if err := add("", true, functions{clock: k}, func(s C.uintptr_t, m **C.char) C.int32_t {
			return C.esker_go_set_clock(c, s, m)
		}); err != nil {
			return err
		}
	}
	if k := o.FilterPolicy; k != nil {
		return add(k.Name, k.Create != nil && k.MayMatch != nil, functions{policy: k},
			func(s C.uintptr_t, m **C.char) C.int32_t {
				return C.esker_go_set_filter(c, s, m)
			})
	}
	return nil
}

// flag returns a truth value of C.
func flag(on bool) C.uint8_t {
	if on {
		return 1
	}
	return 0
}

// callsGo reports whether calls of the store may call functions of the program.
func (o *Options) callsGo() bool {
	return o != nil && (o.Comparator != nil || len(o.Comparators) > 0 ||
		len(o.MergeOperators) > 0 || len(o.CompactionFilters) > 0 || o.FilterPolicy != nil ||
		len(o.Listeners) > 0 || o.Clock != nil || o.Key != nil && o.Key.give != nil)
}

// Memory is a file system in memory, for tests and caches. Its stores are lost once it was closed
// and the last of them is closed.
type Memory struct {
	guard *guard
	c     *C.esker_memory_t
}

// NewMemory returns an empty file system in memory.
func NewMemory() *Memory {
	c := C.esker_memory_create()
	m := &Memory{c: c}
	m.guard = newGuard("a file system in memory", func() { C.esker_memory_destroy(c) }, false, 1)
	m.guard.quiet = true
	runtime.AddCleanup(m, collected, m.guard)
	return m
}

// Close frees the handle of the file system. Open stores in it stay open. A Memory that is not
// closed is freed by the garbage collector.
func (m *Memory) Close() error {
	m.guard.close()
	return nil
}

func sortedNames(settings map[string]string) []string {
	names := make([]string, 0, len(settings))
	for name := range settings {
		names = append(names, name)
	}
	sort.Strings(names)
	return names
}

// isText reports whether a string can be passed to C, whose strings end at a zero byte.
func isText(text string) bool {
	for i := range len(text) {
		if text[i] == 0 {
			return false
		}
	}
	return true
}

// A cString is a string of C, which must be freed.
type cString struct{ text *C.char }

func newCString(text string) cString { return cString{C.CString(text)} }

func (c cString) free() { C.free(unsafe.Pointer(c.text)) }

// named calls a function with a name.
func named(name string, call func(name *C.char, message **C.char) C.int32_t) error {
	if !isText(name) {
		return invalid("a name or path has a zero byte")
	}
	c := newCString(name)
	defer c.free()
	var message *C.char
	return failed(call(c.text, &message), message)
}

// setting calls a function with a name and a value.
func setting(name, value string, call func(name, value *C.char, message **C.char) C.int32_t) error {
	if !isText(value) {
		return invalid("the value of an option has a zero byte")
	}
	c := newCString(value)
	defer c.free()
	return named(name, func(name *C.char, message **C.char) C.int32_t {
		return call(name, c.text, message)
	})
}

// taken returns a text of the library and frees it; false for NULL.
func taken(text *C.char) (string, bool) {
	if text == nil {
		return "", false
	}
	defer C.esker_free(unsafe.Pointer(text))
	return C.GoString(text), true
}
