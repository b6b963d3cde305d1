// Backups: copies of a store in a directory of backups.

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
	"time"
)

// BackupOptions are the options of a backup. Nil and the zero value are the defaults.
type BackupOptions struct {
	// TakeOver assigns a directory of backups that belongs to another store to this one.
	TakeOver bool
}

// A BackupInfo describes a backup.
type BackupInfo struct {
	// Number is the number of the backup in its directory.
	Number uint64
	// Path is the directory of the backup.
	Path string
	// Tables is the number of its tables, SizeBytes their size.
	Tables, SizeBytes uint64
	// Created is the time of its creation; zero if unknown.
	Created time.Time
	// StoreID is the identity of the store that was backed up ([DB.StoreID]), StorePath its directory
	// at that time; 0 and empty if they are unknown.
	StoreID   uint64
	StorePath string
	// Problem is why the time and the store could not be read; empty if they could.
	Problem string
}

// Backup adds a backup of all writes so far to the backup directory path, which is created if it is
// missing. It copies only tables that the previous backup does not have, and reads all tables back.
// It returns the number of the backup and the size of the copied tables in bytes. ErrIncompatible
// if the directory belongs to another store, ErrInvalidArgument if it has other content or is inside
// a store, ErrLocked during another backup into it. When ctx ends first, it returns its error, and
// the backup goes on.
func (db *DB) Backup(ctx context.Context, path string, options *BackupOptions) (number,
	copiedBytes uint64, err error) {
	takeOver := flag(options != nil && options.TakeOver)
	// The call may go on after the return.
	result := new([2]C.uint64_t)
	err = waitFor(ctx, func() error {
		defer runtime.KeepAlive(db)
		return named(path, func(path *C.char, message **C.char) C.int32_t {
			return C.esker_backup(db.c, path, takeOver, &result[0], &result[1], message)
		})
	})
	if err != nil {
		return 0, 0, err
	}
	return uint64(result[0]), uint64(result[1]), nil
}

// Backups returns the backups in the backup directory path, oldest first. Of the options, which may
// be nil, only the file system and the key count. ErrNotFound if there is no such directory.
func Backups(path string, options *Options) ([]BackupInfo, error) {
	var backups []BackupInfo
	state := cgo.NewHandle(&backups)
	defer state.Delete()
	err := withOptions(path, options, func(path *C.char, o *C.esker_options_t,
		message **C.char) C.int32_t {
		return C.esker_go_visit_backups(path, o, C.uintptr_t(state), message)
	})
	return backups, err
}

// PruneBackups removes the oldest backups in the backup directory path until keep are left, and
// returns how many it removed. The others stay complete. ErrInvalidArgument if keep is 0.
func PruneBackups(path string, keep int, options *Options) (removed uint64, err error) {
	if keep < 0 {
		return 0, invalid("the number of backups to keep is negative")
	}
	var count C.uint64_t
	err = withOptions(path, options, func(path *C.char, o *C.esker_options_t,
		message **C.char) C.int32_t {
		return C.esker_prune_backups(path, o, C.size_t(keep), &count, message)
	})
	return uint64(count), err
}

// Restore creates a store in the directory into, which must not exist, from the backup number in
// the backup directory path, or from the newest one if number is 0. It reads every table back, and
// returns the number of the backup. Of the options, which may be nil, the file system, the key and the
// key orders count. ErrNotFound if there is no such backup, ErrCorruption if it is damaged. When ctx
// ends first, it returns its error, and the work goes on.
func Restore(ctx context.Context, path string, number uint64, into string,
	options *Options) (restored uint64, err error) {
	if !isText(into) {
		return 0, invalid("a name or path has a zero byte")
	}
	result := new(C.uint64_t)
	err = waitFor(ctx, func() error {
		target := newCString(into)
		defer target.free()
		return withOptions(path, options, func(path *C.char, o *C.esker_options_t,
			message **C.char) C.int32_t {
			return C.esker_restore(path, C.uint64_t(number), target.text, o, result, message)
		})
	})
	if err != nil {
		return 0, err
	}
	return uint64(*result), nil
}
