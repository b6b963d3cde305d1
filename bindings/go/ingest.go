// Much data at once: sorted writers, ingests and bulk loads.
//
// Invariants:
//  1. A file that was not finished is removed with its writer.
//  2. The pairs of a bulk load come from the goroutine of its caller, in chunks; the C library runs on
//     another one. A close of the store ends the load, so that it need not wait for the source.

package esker

/*
#include "shim.h"
#include "callbacks.h"
*/
import "C"

import (
	"context"
	"encoding/binary"
	"iter"
	"runtime"
	"runtime/cgo"
	"sync"
	"time"
	"unsafe"
)

// A SortedWriter writes a table file outside of a store, for DB.Ingest. It needs no store: several can
// run at the same time, also in other processes. Keys must be strictly ascending. Many goroutines may
// use it, one after the other. It must be closed: Close without Finish removes the file.
type SortedWriter struct {
	mutex sync.Mutex
	guard *guard
	c     *C.esker_sorted_writer_t
}

// A SortedFile is a finished file of a SortedWriter.
type SortedFile struct {
	// Entries is the number of entries, Bytes the length of the file.
	Entries, Bytes uint64
	// Smallest and Largest are the first and the last key; empty without entries.
	Smallest, Largest []byte
}

// NewSortedWriter creates the file path, which must not exist. The file has the key order,
// compression, block size and filter of the options, which may be nil; only the key order must be the
// one of the store. The file is not encrypted, also with a key: the ingest into an encrypted store
// encrypts it.
func NewSortedWriter(path string, options *Options) (*SortedWriter, error) {
	var c *C.esker_sorted_writer_t
	err := withOptions(path, options, func(path *C.char, o *C.esker_options_t,
		message **C.char) C.int32_t {
		return C.esker_sorted_writer_create(path, o, &c, message)
	})
	if err != nil {
		return nil, err
	}
	w := &SortedWriter{c: c}
	w.guard = newGuard("a sorted writer", func() { C.esker_sorted_writer_destroy(c); freeUnused() },
		false, 1)
	runtime.AddCleanup(w, collected, w.guard)
	return w, nil
}

// on calls a function with the writer.
func (w *SortedWriter) on(call func(*C.esker_sorted_writer_t, **C.char) C.int32_t) error {
	if !w.guard.enter() {
		return closed("sorted writer")
	}
	defer w.guard.leave()
	w.mutex.Lock()
	defer w.mutex.Unlock()
	var message *C.char
	return failed(call(w.c, &message), message)
}

// Put adds a pair. ErrInvalidArgument for a key that is not after all keys so far: it is not written,
// and the next one can be.
func (w *SortedWriter) Put(key, value []byte) error {
	return w.on(func(c *C.esker_sorted_writer_t, m **C.char) C.int32_t {
		return C.esker_go_writer_put(c, ptr(key), n(key), ptr(value), n(value), m)
	})
}

// PutWithTTL adds a pair that expires after ttl, from now on.
func (w *SortedWriter) PutWithTTL(key, value []byte, ttl time.Duration) error {
	ms, err := msOf(ttl)
	if err != nil {
		return err
	}
	return w.on(func(c *C.esker_sorted_writer_t, m **C.char) C.int32_t {
		return C.esker_go_writer_put_with_ttl(c, ptr(key), n(key), ptr(value), n(value),
			C.uint64_t(ms), m)
	})
}

// Merge adds an operand, which the ingest merges into the value of key. ErrInvalidArgument if the
// options of the writer have no merge operator.
func (w *SortedWriter) Merge(key, operand []byte) error {
	return w.on(func(c *C.esker_sorted_writer_t, m **C.char) C.int32_t {
		return C.esker_go_writer_merge(c, ptr(key), n(key), ptr(operand), n(operand), m)
	})
}

// Delete adds a delete: the ingest deletes key from the store.
func (w *SortedWriter) Delete(key []byte) error {
	return w.on(func(c *C.esker_sorted_writer_t, m **C.char) C.int32_t {
		return C.esker_go_writer_delete(c, ptr(key), n(key), m)
	})
}

// Entries returns the number of entries so far; 0 after Close.
func (w *SortedWriter) Entries() (entries uint64) {
	_ = w.on(func(c *C.esker_sorted_writer_t, _ **C.char) C.int32_t {
		entries = uint64(C.esker_sorted_writer_entries(c))
		return C.ESKER_OK
	})
	return entries
}

// EstimatedBytes returns the approximate length of the file so far, for a program that begins another
// file at some size; 0 after Finish and Close.
func (w *SortedWriter) EstimatedBytes() (bytes uint64) {
	_ = w.on(func(c *C.esker_sorted_writer_t, _ **C.char) C.int32_t {
		bytes = uint64(C.esker_sorted_writer_estimated_bytes(c))
		return C.ESKER_OK
	})
	return bytes
}

// Finish completes the file and makes it durable. No entry can be added after it. After an error there
// is no file.
func (w *SortedWriter) Finish() (file SortedFile, err error) {
	err = w.on(func(c *C.esker_sorted_writer_t, m **C.char) C.int32_t {
		var made *C.esker_sorted_file_t
		code := C.esker_sorted_writer_finish(c, &made, m)
		if code == C.ESKER_OK {
			file = SortedFile{uint64(made.entries), uint64(made.bytes),
				copyOf(made.smallest, made.smallest_len), copyOf(made.largest, made.largest_len)}
		}
		return code
	})
	return file, err
}

// Close frees the writer. It removes the file if that was not finished. Later calls fail with
// ErrClosed.
func (w *SortedWriter) Close() error {
	w.guard.close()
	return nil
}

// IngestOptions are the options of an ingest. Nil and the zero value are the defaults.
type IngestOptions struct {
	// Copy leaves the files where they are, and gives the store copies. Otherwise it takes them.
	Copy bool
	// NoVerify leaves out the check of each file as a whole: damage is found when a read meets it.
	NoVerify bool
}

// An IngestReport says what an ingest or a bulk load did.
type IngestReport struct {
	// Sequence is the sequence number of all entries; 0 if there was none.
	Sequence uint64
	// Files is the number of tables, Entries the number of their entries, Bytes their size.
	Files, Entries, Bytes uint64
	// Flushed says that the call waited for a flush of what was written before.
	Flushed bool
	// Levels is the number of these tables at each level.
	Levels [8]uint64
}

// reportOf returns a report of C, and frees it.
func reportOf(report *C.esker_ingest_report_t) IngestReport {
	if report == nil {
		return IngestReport{}
	}
	defer C.esker_free(unsafe.Pointer(report))
	made := IngestReport{Sequence: uint64(report.sequence), Files: uint64(report.files),
		Entries: uint64(report.entries), Bytes: uint64(report.bytes), Flushed: report.flushed != 0}
	for level, tables := range report.levels {
		made.Levels[level] = uint64(tables)
	}
	return made
}

// Ingest makes files of sorted writers part of the keyspace, all of them at once. Their entries become
// the newest versions of their keys. Readers see all of them or none, and a crash leaves all of them
// or none. They are durable in the store when this returns. Into a keyspace other than default, the
// files are read and written once. When ctx ends first, it returns its error, and the work goes on.
//
// Nothing is changed after an error: ErrInvalidArgument if two files share keys or a file was not made
// by a SortedWriter, ErrIncompatible for another key order, ErrCorruption for a file that is damaged
// or was not finished.
func (s *space) Ingest(ctx context.Context, files []string,
	options *IngestOptions) (IngestReport, error) {
	copied := flag(options != nil && options.Copy)
	verify := flag(options == nil || !options.NoVerify)
	for _, file := range files {
		if !isText(file) {
			return IngestReport{}, invalid("a name or path has a zero byte")
		}
	}
	files = append([]string{}, files...)
	made := new(IngestReport)
	err := waitFor(ctx, func() error {
		defer runtime.KeepAlive(s)
		keyspace, _, err := s.handles()
		if err != nil {
			return err
		}
		paths, free := cStrings(files)
		defer free()
		count := C.size_t(len(files))
		var report *C.esker_ingest_report_t
		var message *C.char
		var code C.int32_t
		if keyspace == nil {
			code = C.esker_ingest(s.c, paths, count, copied, verify, &report, &message)
		} else {
			code = C.esker_keyspace_ingest(keyspace, paths, count, copied, verify, &report,
				&message)
		}
		*made = reportOf(report)
		return failed(code, message)
	})
	if err != nil {
		return IngestReport{}, err
	}
	return *made, nil
}

// cStrings returns an array of strings of C, and a function that frees it.
func cStrings(texts []string) (**C.char, func()) {
	size := C.size_t(max(len(texts), 1)) * C.size_t(unsafe.Sizeof(uintptr(0)))
	array := (**C.char)(C.malloc(size))
	items := unsafe.Slice(array, len(texts))
	for i, text := range texts {
		items[i] = C.CString(text)
	}
	return array, func() {
		for _, item := range items {
			C.free(unsafe.Pointer(item))
		}
		C.free(unsafe.Pointer(array))
	}
}

// loads has the bulk loads that run, and their stores.
var loads struct {
	sync.Mutex
	running map[*load]*C.esker_db_t
}

// endLoads ends the bulk loads of a store.
func endLoads(db *C.esker_db_t) {
	loads.Lock()
	defer loads.Unlock()
	for load, of := range loads.running {
		if of == db {
			load.end(closed("store"))
		}
	}
}

// A load passes the pairs of a source to the C library, in chunks.
type load struct {
	chunks chan []byte
	// Closed when nothing more is to be loaded; then why is set.
	ended chan struct{}
	once  sync.Once
	why   error
}

func (l *load) end(why error) {
	l.once.Do(func() {
		l.why = why
		close(l.ended)
	})
}

// BulkLoad writes pairs as tables of the keyspace, without the log and the memtable. The keys must be
// strictly ascending in its key order. The pairs become visible and durable together when the source
// ends; see DB.Range for one. An error of the source, and the end of ctx, are returned, as is
// ErrInvalidArgument for a key that is not after the one before it. A Close of the store, also by the
// source, ends the load with ErrClosed. Nothing is changed after an error.
func (s *space) BulkLoad(ctx context.Context, pairs iter.Seq2[Pair, error]) (IngestReport, error) {
	if pairs == nil {
		return IngestReport{}, invalid("the source of the pairs is nil")
	}
	defer runtime.KeepAlive(s)
	keyspace, _, err := s.handles()
	if err != nil {
		return IngestReport{}, err
	}
	l := &load{chunks: make(chan []byte), ended: make(chan struct{})}
	loads.Lock()
	if loads.running == nil {
		loads.running = map[*load]*C.esker_db_t{}
	}
	loads.running[l] = s.c
	loads.Unlock()
	state := cgo.NewHandle(l)
	var report *C.esker_ingest_report_t
	done := make(chan error, 1)
	go func() {
		var message *C.char
		code := C.esker_go_bulk_load(s.c, keyspace, C.uintptr_t(state), &report, &message)
		err := failed(code, message)
		l.end(err)
		done <- err
	}()
	// Also after a panic of the source.
	isOver := false
	defer func() {
		if !isOver {
			l.end(invalid("the source of the bulk load panicked"))
			<-done
		}
		loads.Lock()
		delete(loads.running, l)
		loads.Unlock()
		state.Delete()
	}()
	l.feed(ctx, pairs)
	err = <-done
	isOver = true
	if err != nil && l.why != nil {
		err = l.why
	}
	return reportOf(report), err
}

// feed passes the pairs on.
func (l *load) feed(ctx context.Context, pairs iter.Seq2[Pair, error]) {
	const chunkBytes = 256 << 10
	var chunk []byte
	send := func() bool {
		select {
		case l.chunks <- chunk:
			chunk = nil
			return true
		case <-l.ended:
			return false
		case <-ctx.Done():
			l.end(ctx.Err())
			return false
		}
	}
	if err := ctx.Err(); err != nil {
		l.end(err)
		return
	}
	for pair, err := range pairs {
		if err != nil {
			l.end(err)
			return
		}
		chunk = binary.LittleEndian.AppendUint32(chunk, uint32(len(pair.Key)))
		chunk = binary.LittleEndian.AppendUint32(chunk, uint32(len(pair.Value)))
		chunk = append(append(chunk, pair.Key...), pair.Value...)
		if len(chunk) >= chunkBytes && !send() {
			return
		}
	}
	if len(chunk) > 0 && !send() {
		return
	}
	close(l.chunks)
}

// eskerGoFill gives the next chunk, in memory of malloc.
//
//export eskerGoFill
func eskerGoFill(state C.uintptr_t, at **C.uint8_t, length *C.size_t) C.int32_t {
	l := cgo.Handle(state).Value().(*load)
	select {
	case chunk, more := <-l.chunks:
		if !more {
			return C.ESKER_SOURCE_END
		}
		*at = (*C.uint8_t)(given(chunk, length))
		return C.ESKER_SOURCE_PAIR
	case <-l.ended:
		return C.ESKER_SOURCE_FAILED
	}
}
