// What a store and its options consist of: tables, metrics, options.

package esker

/*
#include "shim.h"
#include "callbacks.h"
*/
import "C"

import (
	"context"
	"runtime"
	"runtime/cgo"
)

// A Table is a table file of a store.
type Table struct {
	// Number is the number of the file, which is also its name.
	Number uint64
	// Tree is the tree of the file; tree 0 holds the keyspace default. Keys of other trees begin with
	// four bytes that stand for their keyspace.
	Tree uint64
	// Level is the level of the file.
	Level int
	// SizeBytes is the size of the file, RawBytes that of its keys and values before compression.
	SizeBytes, RawBytes uint64
	// Entries is the number of puts, merges and deletes, Deletes that of the deletes among them.
	Entries, Deletes uint64
	// RangeDeletes is the number of range deletions.
	RangeDeletes uint64
	// Smallest and Largest are the first and the last key.
	Smallest, Largest []byte
}

// Tables returns the tables that the store has now, of all keyspaces, by tree, level and number. A file
// with parts in several levels is there once for each.
func (db *DB) Tables() ([]Table, error) {
	defer runtime.KeepAlive(db)
	var tables []Table
	state := cgo.NewHandle(&tables)
	defer state.Delete()
	var message *C.char
	err := failed(C.esker_go_visit_tables(db.c, C.uintptr_t(state), &message), message)
	return tables, err
}

//export eskerGoVisitTable
func eskerGoVisitTable(state C.uintptr_t, table *C.esker_table_t) {
	tables := cgo.Handle(state).Value().(*[]Table)
	*tables = append(*tables, Table{
		Number:       uint64(table.number),
		Tree:         uint64(table.tree),
		Level:        int(table.level),
		SizeBytes:    uint64(table.size_bytes),
		RawBytes:     uint64(table.raw_bytes),
		Entries:      uint64(table.entries),
		Deletes:      uint64(table.deletes),
		RangeDeletes: uint64(table.range_deletes),
		Smallest:     copyOf(table.smallest, table.smallest_len),
		Largest:      copyOf(table.largest, table.largest_len),
	})
}

// Metric returns a metric of the store, by the name of its field in docs/metrics.md, such as user_ops
// or memory.cache_bytes. ErrInvalidArgument for a name that is no number of the whole store.
func (db *DB) Metric(name string) (uint64, error) {
	defer runtime.KeepAlive(db)
	var value C.uint64_t
	err := named(name, func(name *C.char, message **C.char) C.int32_t {
		return C.esker_metric(db.c, name, &value, message)
	})
	return uint64(value), err
}

// LevelMetric returns a metric of one level of the store, such as levels.bytes. ErrInvalidArgument for
// a name that is no number of levels, and for a level that the store does not have.
func (db *DB) LevelMetric(level int, name string) (uint64, error) {
	if level < 0 {
		return 0, invalid("the number of a level is negative")
	}
	defer runtime.KeepAlive(db)
	var value C.uint64_t
	err := named(name, func(name *C.char, message **C.char) C.int32_t {
		return C.esker_level_metric(db.c, C.size_t(level), name, &value, message)
	})
	return uint64(value), err
}

// SetOptions changes several options of the open store, all or none of them. Options that are fixed at
// the opening are ErrInvalidArgument.
func (db *DB) SetOptions(settings map[string]string) error {
	defer runtime.KeepAlive(db)
	names := sortedNames(settings)
	values := make([]string, 0, len(names))
	for _, name := range names {
		if !isText(name) || !isText(settings[name]) {
			return invalid("the name or the value of an option has a zero byte")
		}
		values = append(values, settings[name])
	}
	first, freeFirst := cStrings(names)
	defer freeFirst()
	second, freeSecond := cStrings(values)
	defer freeSecond()
	var message *C.char
	return failed(C.esker_set_options(db.c, C.size_t(len(names)), first, second, &message), message)
}

// CompactAll compacts all keys of every keyspace, as CompactRange does for those of one. When ctx ends
// first, it returns its error, and the work goes on.
func (db *DB) CompactAll(ctx context.Context) error {
	return db.wait(ctx, func(m **C.char) C.int32_t { return C.esker_compact_all(db.c, m) })
}

// Path returns the absolute path of the store's directory; in memory the path with which it was opened.
func (db *DB) Path() (string, error) {
	defer runtime.KeepAlive(db)
	var path, message *C.char
	err := failed(C.esker_path(db.c, &path, &message), message)
	text, _ := taken(path)
	return text, err
}

// An OptionInfo describes an option of a store.
type OptionInfo struct {
	// Name is the name, as Options.Settings takes it.
	Name string
	// Unit is the unit of a number; empty for a name or a switch.
	Unit string
	// Default is the default, Range the values that it can have, as text.
	Default, Range string
	// Description says what the option does, as Markdown.
	Description string
	// Changeable says that DB.SetOption changes it, OfKeyspaces that a keyspace can have a value of
	// its own.
	Changeable, OfKeyspaces bool
}

// OptionInfos returns the options of a store, in the order of docs/options.md.
func OptionInfos() ([]OptionInfo, error) {
	var infos []OptionInfo
	state := cgo.NewHandle(&infos)
	defer state.Delete()
	var message *C.char
	err := failed(C.esker_go_visit_options(C.uintptr_t(state), &message), message)
	return infos, err
}

//export eskerGoVisitOption
func eskerGoVisitOption(state C.uintptr_t, option *C.esker_option_t) {
	infos := cgo.Handle(state).Value().(*[]OptionInfo)
	*infos = append(*infos, OptionInfo{
		Name:        C.GoString(option.name),
		Unit:        C.GoString(option.unit),
		Default:     C.GoString(option.default_value),
		Range:       C.GoString(option._range),
		Description: C.GoString(option.description),
		Changeable:  option.is_changeable != 0,
		OfKeyspaces: option.is_of_keyspaces != 0,
	})
}
