// Iterators: the pairs of a keyspace in key order, both ways.
//
// Invariants:
//  1. Pairs are read in chunks, so that a pair costs a small part of a call of C. Each chunk is
//     larger than the one before it, so that short scans read little ahead.
//  2. What is read ahead is what single moves would read: a store's iterator shows one state, and
//     that of a transaction drops what it has read ahead once the transaction has written.
//  3. A serializable transaction reads nothing ahead: it would be protected as read.

package esker

/*
#include "shim.h"

#cgo noescape esker_go_iter_read
#cgo nocallback esker_go_iter_read
*/
import "C"

import (
	"encoding/binary"
	"iter"
	"runtime"
	"sync"
)

// IterOptions are the options of an iterator. Nil and the zero value select all keys.
type IterOptions struct {
	// Start is the first key (inclusive), End the end (exclusive). Nil means no bound.
	Start, End []byte
	// Prefix selects the keys that begin with it, in place of Start and End. An empty one selects all
	// keys. With a prefix, the creation of the iterator fails with ErrInvalidArgument if Start or End is
	// set too, and under a Comparator of the program, which need not keep such keys together. In a
	// transaction the prefix stands for bounds in bytewise order, so the key order must be
	// esker.bytewise.
	Prefix []byte
	// NoCache says that reads insert no blocks into the cache, for long scans.
	NoCache bool
}

// check returns whether the options are about a prefix.
func (o *IterOptions) check() (isPrefix bool, err error) {
	if len(o.Prefix) == 0 {
		return false, nil
	}
	if o.Start != nil || o.End != nil {
		return false, invalid("an iterator has a prefix or bounds, and both were given")
	}
	return true, nil
}

// A Pair is a key and its value.
type Pair struct {
	// Key is the key of the pair, Value its value.
	Key, Value []byte
}

// An Iterator moves over the pairs of a keyspace in key order. It shows the state at its creation,
// or that of its snapshot or transaction. It has no position until First, Last, Seek or
// SeekForPrev. One goroutine may use it at a time. It keeps old versions on disk until Close; it
// may be closed before or after its store.
type Iterator struct {
	mutex sync.Mutex
	guard *guard
	c     *C.esker_iter_t
	// What must not be collected as garbage before the iterator.
	owner   any
	callsGo bool
	// The transaction, if it belongs to one, and the number of its writes when the chunk was read.
	transaction *Transaction
	version     uint64
	// A chunk: its memory, where its next pair begins, and how many are left.
	chunk []byte
	at    int
	left  int
	// The direction of the chunk.
	backward bool
	// The number of pairs of the next chunk, and its maximum.
	rows, rowsMax int
	// Each chunk gets new memory, so that its pairs stay valid.
	keep bool

	key, value []byte
	valid      bool
	failure    error
}

const (
	firstRows       = 4
	mostRows        = 1024
	firstChunkBytes = 4 << 10
	chunkBytes      = 64 << 10
)

// Chunks of the two sizes that no iterator uses. A new one costs more than a short scan.
var firstChunks, largeChunks sync.Pool

// newChunk returns a chunk of firstChunkBytes or chunkBytes bytes.
func newChunk(size int) []byte {
	pool := &firstChunks
	if size == chunkBytes {
		pool = &largeChunks
	}
	if chunk, ok := pool.Get().(*[]byte); ok {
		return *chunk
	}
	return make([]byte, size)
}

// dropChunk gives a chunk, whose pairs nobody uses any more, to later iterators.
func dropChunk(chunk []byte) {
	switch len(chunk) {
	case firstChunkBytes:
		firstChunks.Put(&chunk)
	case chunkBytes:
		largeChunks.Put(&chunk)
	}
}

// Iterator returns an iterator over the keyspace, which must be closed.
func (r *reader) Iterator(options *IterOptions) (*Iterator, error) {
	var o IterOptions
	if options != nil {
		o = *options
	}
	fill := flag(!o.NoCache)
	isPrefix, err := o.check()
	if err != nil {
		return nil, err
	}
	keyspace, snapshot, err := r.handles()
	if err != nil {
		return nil, err
	}
	var made C.esker_go_made
	if isPrefix {
		made = C.esker_go_iter_create_prefix(r.c, keyspace, snapshot, ptr(o.Prefix), n(o.Prefix),
			fill)
	} else {
		made = C.esker_go_iter_create(r.c, keyspace, snapshot, ptr(o.Start), n(o.Start),
			ptr(o.End), n(o.End), fill)
	}
	r.leave()
	if err := failed(made.code, made.message); err != nil {
		return nil, err
	}
	return newIterator((*C.esker_iter_t)(made.handle), r, r.callsGo, mostRows), nil
}

func newIterator(c *C.esker_iter_t, owner any, callsGo bool, rowsMax int) *Iterator {
	it := &Iterator{c: c, owner: owner, callsGo: callsGo, rowsMax: rowsMax}
	it.guard = newGuard("an iterator", func() { C.esker_iter_destroy(c) }, false, 2)
	runtime.AddCleanup(it, collected, it.guard)
	return it
}

// First moves to the first key. Like every move, it reports whether the iterator is at a key.
func (it *Iterator) First() bool { return it.seek(C.ESKER_GO_FIRST, nil, false) }

// Last moves to the last key.
func (it *Iterator) Last() bool { return it.seek(C.ESKER_GO_LAST, nil, true) }

// Seek moves to the first key at or after key.
func (it *Iterator) Seek(key []byte) bool { return it.seek(C.ESKER_GO_SEEK, key, false) }

// SeekForPrev moves to the last key at or before key.
func (it *Iterator) SeekForPrev(key []byte) bool {
	return it.seek(C.ESKER_GO_SEEK_FOR_PREV, key, true)
}

// Next moves to the next key. It does nothing if the iterator is not at a key.
func (it *Iterator) Next() bool {
	it.mutex.Lock()
	ok := it.move(false)
	it.mutex.Unlock()
	return ok
}

// Prev moves to the previous key. It does nothing if the iterator is not at a key.
func (it *Iterator) Prev() bool {
	it.mutex.Lock()
	ok := it.move(true)
	it.mutex.Unlock()
	return ok
}

// Valid reports whether the iterator is at a key.
func (it *Iterator) Valid() bool { return it.valid }

// Key returns the current key, valid until the next move or Close; nil if the iterator is not at a key.
func (it *Iterator) Key() []byte {
	if !it.valid {
		return nil
	}
	return it.key
}

// Value returns the current value, valid until the next move or Close; nil if the iterator is not at a
// key.
func (it *Iterator) Value() []byte {
	if !it.valid {
		return nil
	}
	return it.value
}

// Err returns the failure that ended the moves, until the next seek; nil past either end.
func (it *Iterator) Err() error { return it.failure }

// Close frees the iterator, and returns its failure. Later moves fail with ErrClosed.
func (it *Iterator) Close() error {
	it.mutex.Lock()
	defer it.mutex.Unlock()
	failure := it.failure
	if it.guard.close() {
		it.valid, it.left = false, 0
		if !it.keep {
			dropChunk(it.chunk)
		}
		it.chunk = nil
	}
	return failure
}

// All moves to the first key and yields all pairs. They are valid until the next step. After the
// loop, Err says whether it ended by a failure.
func (it *Iterator) All() iter.Seq2[[]byte, []byte] {
	return func(yield func(key, value []byte) bool) {
		for ok := it.First(); ok && yield(it.key, it.value); ok = it.Next() {
		}
	}
}

// Backward does the same as All, from the last key to the first.
func (it *Iterator) Backward() iter.Seq2[[]byte, []byte] {
	return func(yield func(key, value []byte) bool) {
		for ok := it.Last(); ok && yield(it.key, it.value); ok = it.Prev() {
		}
	}
}

func (it *Iterator) seek(move C.int, key []byte, backward bool) bool {
	it.mutex.Lock()
	defer it.mutex.Unlock()
	it.failure = nil
	it.rows = 0
	return it.read(move, key, backward)
}

// move moves by one key.
func (it *Iterator) move(backward bool) bool {
	switch {
	case it.guard.isClosed():
		return it.read(C.ESKER_GO_STAY, nil, backward)
	case !it.valid:
		return false
	case it.backward != backward || it.stale():
		move := C.int(C.ESKER_GO_AFTER)
		if backward {
			move = C.ESKER_GO_BEFORE
		}
		return it.read(move, it.key, backward)
	case it.left > 0:
		it.step()
		return true
	}
	return it.read(C.ESKER_GO_STAY, nil, backward)
}

// stale reports whether the transaction has written since the chunk was read.
func (it *Iterator) stale() bool {
	return it.transaction != nil && it.transaction.version.Load() != it.version
}

// step moves to the next pair of the chunk.
func (it *Iterator) step() {
	head := it.chunk[it.at : it.at+8]
	key := it.at + 8
	value := key + int(binary.LittleEndian.Uint32(head))
	end := value + int(binary.LittleEndian.Uint32(head[4:]))
	it.key, it.value = it.chunk[key:value:value], it.chunk[value:end:end]
	it.at = end
	it.left--
	it.valid = true
}

// read moves the iterator of C, and reads a chunk from its position on.
func (it *Iterator) read(move C.int, key []byte, backward bool) bool {
	it.valid, it.left, it.at = false, 0, 0
	if !it.guard.enter() {
		it.failure = closed("iterator")
		return false
	}
	defer it.guard.leave()
	if it.transaction != nil {
		it.version = it.transaction.version.Load()
	}
	it.backward = backward
	it.rows = min(max(it.rows*2, firstRows), it.rowsMax)
	size := firstChunkBytes
	if it.rows > 8*firstRows {
		size = chunkBytes
	}
	switch {
	case it.keep:
		it.chunk = make([]byte, size)
	case len(it.chunk) < size:
		// The key of a move may be in the old chunk, which is dropped after the move.
		defer dropChunk(it.chunk)
		it.chunk = newChunk(size)
	}
	isBackward := flag(backward)
	for {
		var rows C.esker_go_rows
		if it.callsGo {
			held := onHeap(key)
			rows = C.esker_go_iter_read_calling(it.c, move, ptr(held), n(held), isBackward,
				C.size_t(it.rows), ptr(it.chunk), n(it.chunk))
		} else {
			rows = C.esker_go_iter_read(it.c, move, ptr(key), n(key), isBackward, C.size_t(it.rows),
				ptr(it.chunk), n(it.chunk))
		}
		runtime.KeepAlive(it)
		if rows.code != C.ESKER_OK {
			it.failure = failed(rows.code, rows.message)
			return false
		}
		if rows.rows > 0 {
			it.left = int(rows.rows)
			it.step()
			return true
		}
		if rows.bytes == 0 {
			return false
		}
		// The first pair needs more room.
		it.chunk = make([]byte, int(rows.bytes))
		move, key = C.ESKER_GO_STAY, nil
	}
}

// Range yields the pairs from start (inclusive) to end (exclusive), in key order, as of the start of
// the loop. Nil means no bound. A failure ends the loop: it is yielded with an empty pair. The
// slices of a pair stay valid, and keep the chunk of up to 64 KiB that they are part of.
func (r *reader) Range(start, end []byte) iter.Seq2[Pair, error] {
	return scan(r.Iterator, &IterOptions{Start: start, End: end}, false)
}

// RangeBackward yields the pairs of Range from the last to the first.
func (r *reader) RangeBackward(start, end []byte) iter.Seq2[Pair, error] {
	return scan(r.Iterator, &IterOptions{Start: start, End: end}, true)
}

// Prefix yields the pairs whose keys begin with prefix, in key order, as Range does; all pairs for an empty
// prefix. ErrInvalidArgument under a Comparator of the program, which need not keep such keys together.
func (r *reader) Prefix(prefix []byte) iter.Seq2[Pair, error] {
	return scan(r.Iterator, &IterOptions{Prefix: prefix}, false)
}

// PrefixBackward yields the pairs of Prefix from the last to the first.
func (r *reader) PrefixBackward(prefix []byte) iter.Seq2[Pair, error] {
	return scan(r.Iterator, &IterOptions{Prefix: prefix}, true)
}

// PrefixEnd returns the end (exclusive) of the keys that begin with prefix, in bytewise order; nil
// if they have no end.
func PrefixEnd(prefix []byte) []byte {
	for i := len(prefix) - 1; i >= 0; i-- {
		if prefix[i] != 0xff {
			end := append([]byte{}, prefix[:i+1]...)
			end[i]++
			return end
		}
	}
	return nil
}

// scan yields the pairs of an iterator that it creates and closes.
func scan(create func(*IterOptions) (*Iterator, error), options *IterOptions,
	backward bool) iter.Seq2[Pair, error] {
	return func(yield func(Pair, error) bool) {
		it, err := create(options)
		if err != nil {
			yield(Pair{}, err)
			return
		}
		defer it.Close()
		it.keep = true
		ok := false
		if backward {
			ok = it.Last()
		} else {
			ok = it.First()
		}
		// The iterator belongs to this loop, which needs no lock.
		for ; ok; ok = it.move(backward) {
			if !yield(Pair{it.key, it.value}, nil) {
				return
			}
		}
		if it.failure != nil {
			yield(Pair{}, it.failure)
		}
	}
}
