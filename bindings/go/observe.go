// What a store tells about itself: stalls of writes, losses of a crash, its number, its published
// metrics, and the counts of calls; and the jobs of a store without threads.

package esker

/*
#include "shim.h"
*/
import "C"

import (
	"runtime"
	"strconv"
	"strings"
	"time"
)

// A Stall is what writes wait for.
type Stall struct {
	// Cause is why writes wait, Clears what ends the wait: sentences without their ends.
	Cause, Clears string
	// Bytes is the number of bytes that have to be written to tables before writes go on at full
	// speed.
	Bytes uint64
	// Duration is the time since the wait began.
	Duration time.Duration
	// Stopped says that writes wait until the cause is gone. Otherwise each write is only slowed.
	Stopped bool
}

// Stall returns what writes wait for now, and true; false if writes run at full speed. Of several
// stalls, it is the oldest.
func (db *DB) Stall() (stall Stall, found bool, err error) {
	defer runtime.KeepAlive(db)
	var c *C.esker_stall_t
	var message *C.char
	err = failed(C.esker_stall(db.c, &c, &message), message)
	if err != nil || c == nil {
		return Stall{}, false, err
	}
	defer C.esker_stall_destroy(c)
	return Stall{
		Cause:    C.GoString(c.cause),
		Clears:   C.GoString(c.clears),
		Bytes:    uint64(c.bytes),
		Duration: durationOf(c.duration_ns),
		Stopped:  c.is_stopped != 0,
	}, true, nil
}

// durationOf returns a number of nanoseconds.
func durationOf(ns C.uint64_t) time.Duration { return time.Duration(min(ns, C.uint64_t(Never))) }

// RecoveryNotes returns what the opening of the store found that a crash had lost, as sentences;
// none if nothing was lost.
func (db *DB) RecoveryNotes() ([]string, error) {
	defer runtime.KeepAlive(db)
	var text, message *C.char
	if err := failed(C.esker_recovery_notes(db.c, &text, &message), message); err != nil {
		return nil, err
	}
	notes, _ := taken(text)
	return lines(notes), nil
}

// lines returns the lines of a text; none for an empty text.
func lines(text string) []string {
	if text = strings.TrimSuffix(text, "\n"); text == "" {
		return nil
	}
	return strings.Split(text, "\n")
}

// StoreID returns the random number that the store got when it was created, and keeps. A checkpoint
// and a restored store are stores with numbers of their own.
func (db *DB) StoreID() (uint64, error) {
	defer runtime.KeepAlive(db)
	var id C.uint64_t
	var message *C.char
	err := failed(C.esker_store_id(db.c, &id, &message), message)
	return uint64(id), err
}

// RunOneJob runs one flush or compaction that is due, in a store without threads (the option
// background_threads is 0), and reports whether there was one. ErrInvalidArgument in a store with
// threads.
func (db *DB) RunOneJob() (ran bool, err error) {
	defer runtime.KeepAlive(db)
	var did C.uint8_t
	var message *C.char
	err = failed(C.esker_run_one_job(db.c, &did, &message), message)
	return did != 0, err
}

// LiveStatus returns the metrics that the process publishes that has the store in the directory path
// open for writing, in the OpenMetrics text format, and the number of that process. They are about a
// second old, or ten seconds while nothing changes. Of the options, which may be nil, the file
// system counts. ErrNotFound if no process has the store open, or it publishes nothing.
func LiveStatus(path string, options *Options) (metrics string, process int, err error) {
	var text *C.char
	var number C.uint32_t
	err = withOptions(path, options, func(path *C.char, o *C.esker_options_t,
		message **C.char) C.int32_t {
		return C.esker_live_status(path, o, &text, &number, message)
	})
	metrics, _ = taken(text)
	return metrics, int(number), err
}

// A PerfContext has the counts of calls. The counts of memtables, tables and filters are those of
// gets alone. The counts of blocks, and the cache hits and misses, include iterators, except the
// hits and misses of an iterator that does not fill the cache.
type PerfContext struct {
	// Gets is the number of gets, one for each key of a MultiGet.
	Gets uint64
	// MemtableHits is the number of gets that found their version, a value or a deletion, in memory.
	MemtableHits uint64
	// TablesSearched is the number of tables that gets looked into.
	TablesSearched uint64
	// FilterChecks is the number of filters of tables that gets asked, FilterNegatives the number of
	// those that ruled the key out.
	FilterChecks, FilterNegatives uint64
	// ValueBytesRead is the size of the values that gets found.
	ValueBytesRead uint64
	// CacheHits and CacheMisses are the numbers of blocks that were found in the block cache, and
	// that were not.
	CacheHits, CacheMisses uint64
	// BlocksRead is the number of blocks that were read from files, BlockBytesRead their size there.
	BlocksRead, BlockBytesRead uint64
	// WALBytes is the number of bytes appended to the log, WALSyncs the number of its syncs. The
	// writer that commits a group of writes counts those of the group.
	WALBytes, WALSyncs uint64
	// Stalled is the time for which writes waited for memory, Throttled that for which they were
	// slowed.
	Stalled, Throttled time.Duration
	// Other has the counts of a newer C library, by name.
	Other map[string]uint64
}

// Perf runs call and returns what its calls of this package cost, over all stores. Only the calls
// that it makes on its own goroutine count, so not those of goroutines that it starts, nor those that
// take a context which can end. The goroutine stays on one thread meanwhile, because the C library
// counts for each thread. The calls of a Perf within call count for both. Counting slows gets down a
// little.
func Perf(call func()) PerfContext {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	C.esker_perf_enable(1)
	defer C.esker_perf_enable(0)
	call()
	text, _ := taken(C.esker_perf_take())
	return perfOf(text)
}

func perfOf(text string) PerfContext {
	var perf PerfContext
	for _, line := range lines(text) {
		name, digits, _ := strings.Cut(line, " ")
		number, _ := strconv.ParseUint(digits, 10, 64)
		if count := perf.count(name); count != nil {
			*count = number
			continue
		}
		switch name {
		case "stall_ns":
			perf.Stalled = durationOf(C.uint64_t(number))
		case "throttle_ns":
			perf.Throttled = durationOf(C.uint64_t(number))
		default:
			if perf.Other == nil {
				perf.Other = map[string]uint64{}
			}
			perf.Other[name] = number
		}
	}
	return perf
}

// count returns the count of a name; nil if no count has it.
func (p *PerfContext) count(name string) *uint64 {
	switch name {
	case "gets":
		return &p.Gets
	case "memtable_hits":
		return &p.MemtableHits
	case "tables_searched":
		return &p.TablesSearched
	case "filter_checks":
		return &p.FilterChecks
	case "filter_negatives":
		return &p.FilterNegatives
	case "value_bytes_read":
		return &p.ValueBytesRead
	case "cache_hits":
		return &p.CacheHits
	case "cache_misses":
		return &p.CacheMisses
	case "blocks_read":
		return &p.BlocksRead
	case "block_bytes_read":
		return &p.BlockBytesRead
	case "wal_bytes":
		return &p.WALBytes
	case "wal_syncs":
		return &p.WALSyncs
	}
	return nil
}
