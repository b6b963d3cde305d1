// The numbers of verifications and repairs.
//
// Invariant: a panic of a Progress function leaves VerifyWith, and no function of C.

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
	"unsafe"
)

// VerifyOptions are the options of a verification. Nil and the zero value are the defaults.
type VerifyOptions struct {
	// Progress hears how far the verification is: the bytes that were read, and those of all files, which
	// is an estimate. It may use the store, but not close it. It may be called on another goroutine than
	// that of VerifyWith, by one at a time. No call of it begins after the context has ended.
	Progress func(read, all uint64)
}

// A VerifyReport says what a verification has read.
type VerifyReport struct {
	// FormatVersion is the format version of the store.
	FormatVersion uint32
	// Problems is the number of files with problems.
	Problems uint64
	// Tables is the number of table files, ValueFiles that of value files, Logs that of logs.
	Tables, ValueFiles, Logs uint64
	// Bytes is the size of the tables, the value files, the logs and the manifest.
	Bytes uint64
	// Entries is the number of entries in tables, with old versions and deletes.
	Entries uint64
	// RangeDeletes is the number of range deletions in tables.
	RangeDeletes uint64
}

// A verification is a call of VerifyWith.
type verification struct {
	ctx      context.Context
	progress func(read, all uint64)
	panicked any
	report   VerifyReport
	err      error
}

// VerifyWith does the same as Verify, and returns the numbers of what it has read, also with ErrCorruption.
// A panic of Progress is passed on after the verification. When ctx ends first, it returns the error of ctx
// without numbers, and the work goes on.
func (db *DB) VerifyWith(ctx context.Context, options *VerifyOptions) (VerifyReport, error) {
	v := &verification{ctx: ctx}
	if options != nil {
		v.progress = options.Progress
	}
	err := waitFor(ctx, func() error {
		v.run(db)
		return nil
	})
	// The verification may go on, and change what it returns.
	if err != nil {
		return VerifyReport{}, err
	}
	if v.panicked != nil {
		panic(v.panicked)
	}
	return v.report, v.err
}

func (v *verification) run(db *DB) {
	defer runtime.KeepAlive(db)
	var state cgo.Handle
	if v.progress != nil {
		state = cgo.NewHandle(v)
		defer state.Delete()
	}
	var found *C.esker_verify_report_t
	var message *C.char
	code := C.esker_go_verify_with(db.c, C.uintptr_t(state), &found, &message)
	v.err = failed(code, message)
	if found == nil {
		return
	}
	defer C.esker_free(unsafe.Pointer(found))
	v.report = VerifyReport{
		FormatVersion: uint32(found.format_version),
		Problems:      uint64(found.problems),
		Tables:        uint64(found.files),
		ValueFiles:    uint64(found.value_files),
		Logs:          uint64(found.logs),
		Bytes:         uint64(found.bytes),
		Entries:       uint64(found.entries),
		RangeDeletes:  uint64(found.range_deletes),
	}
}

//export eskerGoProgress
func eskerGoProgress(state C.uintptr_t, read, all C.uint64_t) {
	v := cgo.Handle(state).Value().(*verification)
	if v.panicked != nil || v.ctx.Err() != nil {
		return
	}
	defer func() { v.panicked = recover() }()
	v.progress(uint64(read), uint64(all))
}

// A RepairReport says what a repair has read, kept and lost.
type RepairReport struct {
	// ManifestReadable says that the manifest was readable. Only the manifest says which tables are valid
	// and in which order.
	ManifestReadable bool
	// Tables is the number of tables that were read, Logs that of logs.
	Tables, Logs uint64
	// Pairs is the number of pairs in the repaired store.
	Pairs uint64
	// EntriesHeldMax is the maximum number of entries that were in memory at once.
	EntriesHeldMax uint64
	// Losses is the number of losses, Lost a sentence about each.
	Losses uint64
	Lost   []string
	// Originals is the directory that now has the original files.
	Originals string
}

// RepairWith does the same as Repair, and returns the numbers of the repair and the directory with the
// original files.
func RepairWith(path string, options *Options) (RepairReport, error) {
	var found *C.esker_repair_report_t
	var lost, originals *C.char
	err := withOptions(path, options, func(path *C.char, o *C.esker_options_t,
		message **C.char) C.int32_t {
		return C.esker_repair_with(path, o, &found, &lost, &originals, message)
	})
	losses, _ := taken(lost)
	place, _ := taken(originals)
	if err != nil || found == nil {
		return RepairReport{}, err
	}
	defer C.esker_free(unsafe.Pointer(found))
	return RepairReport{
		ManifestReadable: found.manifest_readable != 0,
		Tables:           uint64(found.tables),
		Logs:             uint64(found.logs),
		Pairs:            uint64(found.pairs),
		EntriesHeldMax:   uint64(found.entries_held_max),
		Losses:           uint64(found.losses),
		Lost:             lines(losses),
		Originals:        place,
	}, nil
}
