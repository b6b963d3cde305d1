// The change feed as bytes: from a store into an io.Writer, and from an io.Reader into another store.
//
// Invariants:
//  1. A writer and an applier in C are freed after the last call on them, and the handles of the io.Writer
//     and of the io.Reader after that.
//  2. A panic of the io.Writer or the io.Reader leaves the call of the program that ran it, and no function
//     of C.
//  3. An applier reads nothing after an error: an item that was read and not applied would be left out.

package esker

/*
#include "shim.h"
#include "callbacks.h"
*/
import "C"

import (
	"errors"
	"io"
	"iter"
	"runtime"
	"runtime/cgo"
	"sync"
	"unsafe"
)

// sink is where a ChangeWriter writes.
type sink struct {
	writer   io.Writer
	err      error
	panicked any
}

// outcome returns the error of a call that may have used the writer, and passes on a panic of the writer.
func (s *sink) outcome(err error) error {
	if p := s.panicked; p != nil {
		s.panicked = nil
		panic(p)
	}
	if s.err != nil && errors.Is(err, ErrIO) {
		return s.err
	}
	return err
}

// eskerGoWrite passes bytes of a stream on. It returns 0 if all were taken.
//
//export eskerGoWrite
func eskerGoWrite(state C.uintptr_t, bytes unsafe.Pointer, length C.size_t) (code C.int32_t) {
	to := cgo.Handle(state).Value().(*sink)
	defer func() {
		if p := recover(); p != nil {
			to.panicked, code = p, -1
		}
	}()
	part := view(bytes, length)
	written, err := to.writer.Write(part)
	if err == nil && written < len(part) {
		err = io.ErrShortWrite
	}
	if err != nil {
		to.err = err
		return -1
	}
	return 0
}

// A ChangeWriter writes the changes of a store as bytes, for a ChangeApplier in another process or on
// another machine. The command esker apply reads the same bytes. Many goroutines may use it, one after the
// other. It must be closed.
//
// After an error or a panic of its io.Writer the stream is cut off: each later call that would write fails.
type ChangeWriter struct {
	mutex sync.Mutex
	guard *guard
	c     *C.esker_change_writer_t
	out   *sink
	// What must not be collected as garbage before the writer.
	owner any
}

// NewChangeWriter starts a stream of the changes of db: it writes the header of the stream into out. Each
// call of the ChangeWriter writes whole items before it returns. An error of out is returned. out may use
// the store, but not close it. It must not use the ChangeWriter, nor the feed that WriteBatch gets.
func NewChangeWriter(db *DB, out io.Writer) (*ChangeWriter, error) {
	if db == nil || out == nil {
		return nil, invalid("the store or the writer of a stream of changes is nil")
	}
	defer runtime.KeepAlive(db)
	to := &sink{writer: out}
	state := cgo.NewHandle(to)
	var c *C.esker_change_writer_t
	var message *C.char
	code := C.esker_go_change_writer_create(db.c, C.uintptr_t(state), &c, &message)
	err := failed(code, message)
	if err != nil {
		state.Delete()
		return nil, to.outcome(err)
	}
	w := &ChangeWriter{c: c, out: to, owner: db}
	w.guard = newGuard("a change writer", func() {
		C.esker_change_writer_destroy(c)
		state.Delete()
		freeUnused()
	}, false, 1)
	runtime.AddCleanup(w, collected, w.guard)
	return w, nil
}

// on calls a function with the writer.
func (w *ChangeWriter) on(call func(*C.esker_change_writer_t, **C.char) C.int32_t) error {
	if !w.guard.enter() {
		return closed("change writer")
	}
	defer runtime.KeepAlive(w)
	defer w.guard.leave()
	w.mutex.Lock()
	defer w.mutex.Unlock()
	var message *C.char
	return w.out.outcome(failed(call(w.c, &message), message))
}

// WriteContent writes the whole content of the store, for a receiver that has nothing of it, and returns
// the position of the content in the feed. The changes after the position follow. A slot must exist before
// this call, so that they are kept. The call takes as long as the io.Writer needs for the content; an error
// of the io.Writer ends it.
func (w *ChangeWriter) WriteContent() (position uint64, err error) {
	var at C.uint64_t
	err = w.on(func(c *C.esker_change_writer_t, m **C.char) C.int32_t {
		return C.esker_change_writer_content(c, &at, m)
	})
	return uint64(at), err
}

// WriteBatch writes the batch that changes, a feed of the same store, has returned last. Call it in a loop
// over changes.All or changes.Follow. Other calls on the feed wait meanwhile. ErrInvalidArgument if the feed
// has returned no batch, or has found none since then, or if it is a feed of another DB.
func (w *ChangeWriter) WriteBatch(changes *Changes) error {
	if changes == nil {
		return invalid("the feed for a stream of changes is nil")
	}
	if !changes.guard.enter() {
		return closed("change feed")
	}
	defer runtime.KeepAlive(changes)
	defer changes.guard.leave()
	changes.mutex.Lock()
	defer changes.mutex.Unlock()
	return w.on(func(c *C.esker_change_writer_t, m **C.char) C.int32_t {
		return C.esker_change_writer_batch(c, changes.c, m)
	})
}

// WriteAlive writes that there is nothing new after position. It tells the receiver that the sender is
// alive.
func (w *ChangeWriter) WriteAlive(position uint64) error {
	return w.on(func(c *C.esker_change_writer_t, m **C.char) C.int32_t {
		return C.esker_change_writer_alive(c, C.uint64_t(position), m)
	})
}

// WriteEnd writes the end of the stream, at position. Nothing may follow. A stream without an end is cut
// off for its receiver.
func (w *ChangeWriter) WriteEnd(position uint64) error {
	return w.on(func(c *C.esker_change_writer_t, m **C.char) C.int32_t {
		return C.esker_change_writer_end(c, C.uint64_t(position), m)
	})
}

// Close frees the writer after the calls that use it. It writes nothing, also no end, and does not close the
// io.Writer. Later calls fail with ErrClosed.
func (w *ChangeWriter) Close() error {
	w.guard.close()
	return nil
}

// StreamKind says what a StreamItem is.
type StreamKind int32

// Kinds of the items of a stream of changes.
const (
	// StreamEnd: the stream has ended. Nothing follows.
	StreamEnd StreamKind = C.ESKER_STREAM_END
	// StreamBatch: a batch, or a part of one.
	StreamBatch StreamKind = C.ESKER_STREAM_BATCH
	// StreamAlive: the sender has nothing new.
	StreamAlive StreamKind = C.ESKER_STREAM_ALIVE
	// StreamContent: the content of the sender's store begins, or a part of it.
	StreamContent StreamKind = C.ESKER_STREAM_CONTENT
	// StreamContentEnd: the content of the sender's store is complete.
	StreamContentEnd StreamKind = C.ESKER_STREAM_CONTENT_END
	// StreamOther: an item of a newer C library.
	StreamOther StreamKind = C.ESKER_STREAM_OTHER
)

// A StreamItem is an item of a stream of changes that a ChangeApplier has applied.
type StreamItem struct {
	// Kind is what the item is.
	Kind StreamKind
	// Position is the position in the feed of the sender that the item is about; 0 for content before its
	// end.
	Position uint64
}

// A ChangeApplier reads the bytes of a ChangeWriter, or of the command esker changes, and applies the
// changes to another store. Each batch is written with its position, so that no batch is applied twice or
// left out, also after a crash. The store has the changes of one other store only. Its own writes are
// neither prevented nor merged. Many goroutines may use the applier, one after the other. It must be closed.
type ChangeApplier struct {
	mutex sync.Mutex
	guard *guard
	c     *C.esker_applier_t
	in    *source
	// What must not be collected as garbage before the applier.
	owner any
	// Whether the end was returned, and what ended the stream before it.
	ended   bool
	failure error
}

// NewChangeApplier starts to apply a stream to db: it reads the header of the stream from in. It may read
// ahead, also beyond the end of the stream. An error of in is returned. in may use the store, and must not
// use the applier. A wait for bytes lasts until in returns: close what in reads from to end it.
//
// ErrIncompatible if db has applied the changes of another store, or is the store of the stream itself;
// ErrCorruption if the bytes are no stream.
func NewChangeApplier(db *DB, in io.Reader) (*ChangeApplier, error) {
	if db == nil || in == nil {
		return nil, invalid("the store or the reader of a stream of changes is nil")
	}
	defer runtime.KeepAlive(db)
	from := &source{reader: in}
	state := cgo.NewHandle(from)
	var c *C.esker_applier_t
	var message *C.char
	code := C.esker_go_applier_create(db.c, C.uintptr_t(state), &c, &message)
	err := failed(code, message)
	if err != nil {
		state.Delete()
		return nil, from.outcome(err)
	}
	a := &ChangeApplier{c: c, in: from, owner: db}
	a.guard = newGuard("a change applier", func() {
		C.esker_applier_destroy(c)
		state.Delete()
		freeUnused()
	}, false, 1)
	runtime.AddCleanup(a, collected, a.guard)
	return a, nil
}

// on calls a function with the applier.
func (a *ChangeApplier) on(call func(*C.esker_applier_t) error) error {
	if !a.guard.enter() {
		return closed("change applier")
	}
	defer runtime.KeepAlive(a)
	defer a.guard.leave()
	a.mutex.Lock()
	defer a.mutex.Unlock()
	return call(a.c)
}

// Source returns the number of the store whose changes the stream has (DB.StoreID); 0 after Close.
func (a *ChangeApplier) Source() (id uint64) {
	_ = a.on(func(c *C.esker_applier_t) error {
		id = uint64(C.esker_applier_source(c))
		return nil
	})
	return id
}

// StartAt states that the store has the content of the source at position, because it is a copy of it.
// ErrInvalidArgument if the store has applied changes already.
func (a *ChangeApplier) StartAt(position uint64) error {
	return a.on(func(c *C.esker_applier_t) error {
		var message *C.char
		return failed(C.esker_applier_start_at(c, C.uint64_t(position), &message), message)
	})
}

// Next waits for the next item of the stream, applies it, and returns it. The last item is StreamEnd; after
// it Next returns nil. A batch that the store has already is left out, so a stream may begin before the
// position of the store. The changes of a batch are visible together, once Next has returned its last part.
//
// ErrIO if the bytes end without the end of the stream, ErrCorruption if they are damaged,
// ErrInvalidArgument if the item does not follow what the store has, or needs a merge operator that the
// store lacks. An error of the io.Reader is returned, as is one of the write. The item is not applied then,
// and each later call returns the same error: start a new stream at the position of the store
// (DB.AppliedPosition).
func (a *ChangeApplier) Next() (item *StreamItem, err error) {
	err = a.on(func(c *C.esker_applier_t) error {
		if a.failure != nil || a.ended {
			return a.failure
		}
		var kind C.int32_t
		var position C.uint64_t
		var message *C.char
		a.failure = failed(C.esker_applier_next(c, &kind, &position, &message), message)
		a.failure = a.in.outcome(a.failure)
		if a.failure != nil {
			return a.failure
		}
		a.ended = kind == C.ESKER_STREAM_END
		item = &StreamItem{StreamKind(kind), uint64(position)}
		return nil
	})
	return item, err
}

// All applies the items of the stream up to its end, for a loop, and waits for each. The loop ends after an
// error.
func (a *ChangeApplier) All() iter.Seq2[*StreamItem, error] { return loop(a.Next) }

// Close frees the applier after the calls that use it. What it has applied stays. It does not close the
// io.Reader. Later calls fail with ErrClosed.
func (a *ChangeApplier) Close() error {
	a.guard.close()
	return nil
}

// AppliedPosition returns what the store has applied of another store by a ChangeApplier: the number of
// that store, and the position in its feed. A sender begins there: DB.Changes. found is false if the store
// has applied nothing, and while content is copied; then the sender begins with ChangeWriter.WriteContent.
func (db *DB) AppliedPosition() (source, position uint64, found bool, err error) {
	defer runtime.KeepAlive(db)
	var has C.uint8_t
	var from, at C.uint64_t
	var message *C.char
	err = failed(C.esker_applied_position(db.c, &has, &from, &at, &message), message)
	return uint64(from), uint64(at), has != 0, err
}
