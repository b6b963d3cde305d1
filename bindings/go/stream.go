// Values that are not in memory as a whole.
//
// Invariants: a value whose source fails is not written; a ValueReader keeps its version of the value.

package esker

/*
#include "shim.h"
#include "callbacks.h"
*/
import "C"

import (
	"io"
	"runtime"
	"runtime/cgo"
	"sync"
	"unsafe"
)

// source is the value of a PutReader, or the stream of a ChangeApplier.
type source struct {
	reader io.Reader
	// ended is what the reader returned together with its last bytes.
	ended    error
	err      error
	panicked any
}

// outcome returns the error of a call that may have used the reader, and passes on a panic of the reader.
func (s *source) outcome(err error) error {
	if p := s.panicked; p != nil {
		s.panicked = nil
		panic(p)
	}
	if err != nil && s.err != nil {
		return s.err
	}
	return err
}

// PutReader sets key to the bytes that value gives until io.EOF, and returns their number. It holds
// less than 2 MiB of them in memory. A value of more than 512 KiB goes past the log and the memtables
// into a file of its own, and is durable when this returns; a shorter one is put as by Put. value may
// use the store, but not close it.
//
// Nothing is changed after an error: that of value, ErrInvalidArgument for a key of more than 1 MiB, a
// value of more than 1 GiB or a keyspace with a TTL, ErrIncompatible for a value of more than 512 KiB
// in a store with format version 1 (DB.UpgradeFormat).
func (s *space) PutReader(key []byte, value io.Reader) (bytes uint64, err error) {
	if value == nil {
		return 0, invalid("the reader of the value is nil")
	}
	keyspace, _, err := s.handles()
	if err != nil {
		return 0, err
	}
	from := &source{reader: value}
	state := cgo.NewHandle(from)
	defer state.Delete()
	var size C.uint64_t
	var message *C.char
	held := onHeap(key)
	code := C.esker_go_put_reader(s.c, keyspace, ptr(held), n(held), C.uintptr_t(state), &size,
		&message)
	s.leave()
	err = from.outcome(failed(code, message))
	return uint64(size), err
}

// eskerGoRead stores the next bytes of a value or a stream.
//
//export eskerGoRead
func eskerGoRead(state C.uintptr_t, buffer unsafe.Pointer, length C.size_t) (given C.int64_t) {
	from := cgo.Handle(state).Value().(*source)
	defer func() {
		if p := recover(); p != nil {
			from.panicked, given = p, -1
		}
	}()
	room := unsafe.Slice((*byte)(buffer), int(length))
	// A reader may return 0 bytes without an error, which means nothing.
	for range 100 {
		got, err := 0, from.ended
		if err == nil {
			got, err = from.reader.Read(room)
		}
		if got > 0 {
			from.ended = err
			return C.int64_t(got)
		}
		if err == io.EOF {
			return 0
		}
		if err != nil {
			from.err = err
			return -1
		}
	}
	from.err = io.ErrNoProgress
	return -1
}

// A ValueReader reads one value, in the version that was the newest when it was created, also after the
// store was closed. Several goroutines may use it; their calls wait for each other. It must be closed.
type ValueReader struct {
	mutex sync.Mutex
	guard *guard
	c     *C.esker_value_reader_t
	size  int64
	at    int64
}

var (
	_ io.ReaderAt   = (*ValueReader)(nil)
	_ io.ReadCloser = (*ValueReader)(nil)
)

// GetReader returns a reader of the present value of key; false if the key is missing. Of a value in a
// file of its own (PutReader) it holds 64 KiB in memory, and the file open; any other value is in memory
// as a whole.
func (s *space) GetReader(key []byte) (value *ValueReader, found bool, err error) {
	keyspace, _, err := s.handles()
	if err != nil {
		return nil, false, err
	}
	var c *C.esker_value_reader_t
	var message *C.char
	held := onHeap(key)
	code := C.esker_go_get_reader(s.c, keyspace, ptr(held), n(held), &c, &message)
	s.leave()
	if err := failed(code, message); err != nil || c == nil {
		return nil, false, err
	}
	r := &ValueReader{c: c, size: int64(C.esker_value_reader_len(c))}
	r.guard = newGuard("a reader of a value", func() { C.esker_value_reader_destroy(c) }, false, 1)
	runtime.AddCleanup(r, collected, r.guard)
	return r, true, nil
}

// Size returns the length of the whole value, in bytes.
func (r *ValueReader) Size() int64 { return r.size }

// ReadAt copies bytes of the value from offset on. It returns io.EOF with fewer bytes than p has, at
// the end of the value. ErrCorruption if a piece of the value is damaged; other pieces can still be read.
func (r *ValueReader) ReadAt(p []byte, offset int64) (int, error) {
	if offset < 0 {
		return 0, invalid("the offset in a value is negative")
	}
	if !r.guard.enter() {
		return 0, closed("reader of the value")
	}
	defer runtime.KeepAlive(r)
	defer r.guard.leave()
	r.mutex.Lock()
	defer r.mutex.Unlock()
	return r.readAt(p, offset)
}

func (r *ValueReader) readAt(p []byte, offset int64) (int, error) {
	var copied C.size_t
	var message *C.char
	err := failed(C.esker_value_reader_read(r.c, C.uint64_t(offset), ptr(p), n(p), &copied,
		&message), message)
	if err == nil && int(copied) < len(p) {
		err = io.EOF
	}
	return int(copied), err
}

// Read copies the next bytes of the value. It returns io.EOF at its end.
func (r *ValueReader) Read(p []byte) (int, error) {
	if !r.guard.enter() {
		return 0, closed("reader of the value")
	}
	defer runtime.KeepAlive(r)
	defer r.guard.leave()
	r.mutex.Lock()
	defer r.mutex.Unlock()
	copied, err := r.readAt(p, r.at)
	r.at += int64(copied)
	if copied > 0 && err == io.EOF {
		err = nil
	}
	return copied, err
}

// Close frees the reader. Later reads fail with ErrClosed.
func (r *ValueReader) Close() error {
	r.guard.close()
	return nil
}
