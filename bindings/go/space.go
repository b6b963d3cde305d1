// Reads and writes of a keyspace.
//
// Invariants:
//  1. No byte of the caller is kept after a call.
//  2. A C function that may call the program's functions gets no pointer to a goroutine's stack,
//     which moves when it grows. So the arguments of the most frequent calls are copied to the heap
//     in stores with such functions, and only in these.

package esker

/*
#include "shim.h"

#cgo noescape esker_go_get
#cgo nocallback esker_go_get
#cgo noescape esker_go_has
#cgo nocallback esker_go_has
#cgo noescape esker_go_put
#cgo nocallback esker_go_put
#cgo noescape esker_go_delete
#cgo nocallback esker_go_delete
#cgo noescape esker_go_merge
#cgo nocallback esker_go_merge
*/
import "C"

import (
	"context"
	"math"
	"runtime"
	"time"
	"unsafe"
)

// Durability says what a crash may lose of a write.
type Durability int32

// Durabilities of a write.
const (
	// StoreDurability: the store's option durability decides.
	StoreDurability Durability = C.ESKER_DURABILITY_DEFAULT
	// NoLog: the write is lost if the process ends before a flush.
	NoLog Durability = C.ESKER_DURABILITY_NONE
	// Buffered: a completed write survives kill -9, but not a power loss.
	Buffered Durability = C.ESKER_DURABILITY_BUFFERED
	// Sync: a completed write survives a power loss.
	Sync Durability = C.ESKER_DURABILITY_SYNC
)

// Never is a time to live that never ends.
const Never = time.Duration(math.MaxInt64)

// reader reads a keyspace: as it is, or in a snapshot.
type reader struct {
	db *DB
	c  *C.esker_db_t
	// The keyspace; nil is the keyspace default.
	keyspace *Keyspace
	// The snapshot; nil is the current state.
	snapshot *Snapshot
	callsGo  bool
}

// space reads and writes a keyspace.
type space struct{ reader }

// handles returns the handles that a read passes to C. A nil error needs leave.
func (r *reader) handles() (*C.esker_keyspace_t, *C.esker_snapshot_t, error) {
	var keyspace *C.esker_keyspace_t
	var snapshot *C.esker_snapshot_t
	if r.keyspace != nil {
		if r.keyspace.guard.isClosed() {
			return nil, nil, closed("keyspace's handle")
		}
		keyspace = r.keyspace.handle
	}
	if r.snapshot != nil {
		if !r.snapshot.guard.enter() {
			return nil, nil, closed("snapshot")
		}
		snapshot = r.snapshot.handle
	}
	return keyspace, snapshot, nil
}

// leave ends a read.
func (r *reader) leave() {
	if r.snapshot != nil {
		r.snapshot.guard.leave()
	}
	runtime.KeepAlive(r)
}

// onHeap returns a copy of b that is not on a stack. The compiler does not look into it.
//
//go:noinline
func onHeap(b []byte) []byte {
	if b == nil {
		return nil
	}
	copied := make([]byte, len(b))
	copy(copied, b)
	return copied
}

// Get returns a copy of the value of key, and true; false if the key is missing, which is no error.
// An empty value is not nil.
func (r *reader) Get(key []byte) (value []byte, found bool, err error) {
	// A value that fits is copied once more, which is cheaper than malloc and free.
	var room [512]byte
	got, err := r.read(room[:], key, 1)
	if err != nil || got.found == 0 {
		return nil, false, err
	}
	value = make([]byte, int(got.len))
	if got.copy == nil {
		copy(value, room[:len(value)])
		return value, true, nil
	}
	copy(value, unsafe.Slice((*byte)(got.copy), len(value)))
	C.free(unsafe.Pointer(got.copy))
	return value, true, nil
}

// GetInto does the same as Get, but stores the value in the memory of dst if its capacity is
// sufficient, without an allocation. Otherwise it allocates. The content of dst is overwritten.
func (r *reader) GetInto(dst, key []byte) (value []byte, found bool, err error) {
	got, err := r.read(dst[:cap(dst)], key, 1)
	if err != nil || got.found == 0 {
		return nil, false, err
	}
	return storing(dst, got), true, nil
}

// GetUncached does the same as Get, but inserts no blocks into the cache.
func (r *reader) GetUncached(key []byte) (value []byte, found bool, err error) {
	got, err := r.read(nil, key, 0)
	if err != nil || got.found == 0 {
		return nil, false, err
	}
	return storing(nil, got), true, nil
}

// read reads a value into room, or into memory of C if it does not fit.
func (r *reader) read(room, key []byte, fillCache C.uint8_t) (C.esker_go_value, error) {
	keyspace, snapshot, err := r.handles()
	if err != nil {
		return C.esker_go_value{}, err
	}
	var got C.esker_go_value
	if r.callsGo {
		held := onHeap(key)
		got = C.esker_go_get_calling(r.c, keyspace, snapshot, fillCache, ptr(held), n(held), nil, 0)
		room = nil
	} else {
		got = C.esker_go_get(r.c, keyspace, snapshot, fillCache, ptr(key), n(key), ptr(room),
			n(room))
	}
	r.leave()
	return got, whole(&got, len(room))
}

// whole returns the failure of a read. A value that has no place is one.
func whole(got *C.esker_go_value, room int) error {
	if got.code != C.ESKER_OK {
		return failed(got.code, got.message)
	}
	if got.found != 0 && got.copy == nil && int(got.len) > room {
		return &Error{Kind: ErrInternal, Message: "no memory for the value"}
	}
	return nil
}

// storing returns a value that was found, in the memory of dst if it has room. It frees a copy.
func storing(dst []byte, got C.esker_go_value) []byte {
	length := int(got.len)
	if got.copy != nil {
		value := append(dst[:0], unsafe.Slice((*byte)(got.copy), length)...)
		C.free(unsafe.Pointer(got.copy))
		dst = value
	}
	if dst == nil {
		return []byte{}
	}
	return dst[:length]
}

// Has reports whether the key exists.
func (r *reader) Has(key []byte) (bool, error) {
	keyspace, snapshot, err := r.handles()
	if err != nil {
		return false, err
	}
	var done C.esker_go_done
	if r.callsGo {
		held := onHeap(key)
		done = C.esker_go_has_calling(r.c, keyspace, snapshot, ptr(held), n(held))
	} else {
		done = C.esker_go_has(r.c, keyspace, snapshot, ptr(key), n(key))
	}
	r.leave()
	return done.flag != 0, ended(done)
}

// GetWithExpiry returns the value of key and the time at which the pair expires; the zero time if
// it does not expire.
func (r *reader) GetWithExpiry(key []byte) (value []byte, expires time.Time, found bool, err error) {
	keyspace, snapshot, err := r.handles()
	if err != nil {
		return nil, time.Time{}, false, err
	}
	got := C.esker_go_get_with_expiry(r.c, keyspace, snapshot, ptr(key), n(key))
	r.leave()
	if got.code != C.ESKER_OK || got.found == 0 {
		return nil, time.Time{}, false, failed(got.code, got.message)
	}
	if uint64(got.expires_ms) != uint64(C.ESKER_NEVER_MS) {
		expires = timeOfMs(uint64(got.expires_ms))
	}
	return storing(nil, got), expires, true, nil
}

// MultiGet returns the values of keys, in their order; nil for a missing key, and empty for an
// empty value. It reads all keys as of one moment, and faster than single gets.
func (r *reader) MultiGet(keys [][]byte) ([][]byte, error) {
	if len(keys) == 0 {
		return nil, nil
	}
	size := 0
	for _, key := range keys {
		size += len(key)
	}
	// One byte more, so that there is an address even if all keys are empty.
	packed := make([]byte, 0, size+1)
	sizes := make([]C.size_t, 2*len(keys))
	places := make([]*C.uint8_t, len(keys))
	for i, key := range keys {
		packed = append(packed, key...)
		sizes[i] = n(key)
	}
	keyspace, snapshot, err := r.handles()
	if err != nil {
		return nil, err
	}
	lens := sizes[len(keys):]
	done := C.esker_go_multi_get(r.c, keyspace, snapshot, C.size_t(len(keys)), ptr(packed),
		unsafe.SliceData(sizes), unsafe.SliceData(places), unsafe.SliceData(lens))
	r.leave()
	values := make([][]byte, len(keys))
	total := 0
	for i := range keys {
		total += int(lens[i])
	}
	// One allocation has all values.
	all := make([]byte, 0, total)
	for i, place := range places {
		if place == nil {
			continue
		}
		start := len(all)
		all = append(all, unsafe.Slice((*byte)(place), int(lens[i]))...)
		values[i] = all[start:len(all):len(all)]
		C.esker_free(unsafe.Pointer(place))
	}
	if err := ended(done); err != nil {
		return nil, err
	}
	return values, nil
}

// durabilityOf returns the last of the durabilities.
func durabilityOf(durability []Durability) C.int32_t {
	if len(durability) == 0 {
		return C.ESKER_DURABILITY_DEFAULT
	}
	return C.int32_t(durability[len(durability)-1])
}

// Put sets key to value. A nil value is an empty one. Of several durabilities the last counts;
// without one the store's option decides.
func (s *space) Put(key, value []byte, durability ...Durability) error {
	keyspace, _, err := s.handles()
	if err != nil {
		return err
	}
	var done C.esker_go_done
	if s.callsGo {
		held, other := onHeap(key), onHeap(value)
		done = C.esker_go_put_calling(s.c, keyspace, ptr(held), n(held), ptr(other), n(other),
			durabilityOf(durability))
	} else {
		done = C.esker_go_put(s.c, keyspace, ptr(key), n(key), ptr(value), n(value),
			durabilityOf(durability))
	}
	s.leave()
	return ended(done)
}

// PutWithTTL sets key to value for the time ttl, in milliseconds, rounded up. Then the pair does
// not exist any more. With 0 it never exists, with Never it does not expire.
func (s *space) PutWithTTL(key, value []byte, ttl time.Duration, durability ...Durability) error {
	ms, err := msOf(ttl)
	if err != nil {
		return err
	}
	keyspace, _, err := s.handles()
	if err != nil {
		return err
	}
	done := C.esker_go_put_with_ttl(s.c, keyspace, ptr(key), n(key), ptr(value), n(value),
		C.uint64_t(ms), durabilityOf(durability))
	s.leave()
	return ended(done)
}

// Merge merges an operand into the value of key, by the merge operator of the keyspace. It writes
// only the operand; reads and compactions make the value. ErrInvalidArgument if there is no merge
// operator, or it refuses the operand.
func (s *space) Merge(key, operand []byte, durability ...Durability) error {
	keyspace, _, err := s.handles()
	if err != nil {
		return err
	}
	var done C.esker_go_done
	if s.callsGo {
		held, other := onHeap(key), onHeap(operand)
		done = C.esker_go_merge_calling(s.c, keyspace, ptr(held), n(held), ptr(other), n(other),
			durabilityOf(durability))
	} else {
		done = C.esker_go_merge(s.c, keyspace, ptr(key), n(key), ptr(operand), n(operand),
			durabilityOf(durability))
	}
	s.leave()
	return ended(done)
}

// Delete deletes key. A missing key is no error.
func (s *space) Delete(key []byte, durability ...Durability) error {
	keyspace, _, err := s.handles()
	if err != nil {
		return err
	}
	var done C.esker_go_done
	if s.callsGo {
		held := onHeap(key)
		done = C.esker_go_delete_calling(s.c, keyspace, ptr(held), n(held),
			durabilityOf(durability))
	} else {
		done = C.esker_go_delete(s.c, keyspace, ptr(key), n(key), durabilityOf(durability))
	}
	s.leave()
	return ended(done)
}

// Take deletes key, and reports whether it existed. No write of another goroutine comes between:
// of several callers one gets true.
func (s *space) Take(key []byte) (existed bool, err error) {
	keyspace, _, err := s.handles()
	if err != nil {
		return false, err
	}
	done := C.esker_go_remove(s.c, keyspace, ptr(key), n(key))
	s.leave()
	return done.flag != 0, ended(done)
}

// DeleteRange deletes the keys from start (inclusive) to end (exclusive) with one range deletion. An
// end that is not after start deletes nothing; a nil one is empty.
func (s *space) DeleteRange(start, end []byte, durability ...Durability) error {
	keyspace, _, err := s.handles()
	if err != nil {
		return err
	}
	done := C.esker_go_delete_range(s.c, keyspace, ptr(start), n(start), ptr(end), n(end),
		durabilityOf(durability))
	s.leave()
	return ended(done)
}

// Touch gives the pair of key a new time to live from now on. It reports whether there is such a
// pair.
func (s *space) Touch(key []byte, ttl time.Duration) (found bool, err error) {
	ms, err := msOf(ttl)
	if err != nil {
		return false, err
	}
	keyspace, _, err := s.handles()
	if err != nil {
		return false, err
	}
	done := C.esker_go_touch(s.c, keyspace, ptr(key), n(key), C.uint64_t(ms))
	s.leave()
	return done.flag != 0, ended(done)
}

// CompactRange compacts the keys between start and end into the deepest level and waits until that
// is done, or until ctx ends. Nil means no bound. When ctx ends first, it returns its error, and
// the work goes on.
func (s *space) CompactRange(ctx context.Context, start, end []byte) error {
	start, end = onHeap(start), onHeap(end)
	return waitFor(ctx, func() error {
		keyspace, _, err := s.handles()
		if err != nil {
			return err
		}
		done := C.esker_go_compact_range(s.c, keyspace, ptr(start), n(start), ptr(end), n(end))
		s.leave()
		return ended(done)
	})
}

// msOf returns a time to live in milliseconds.
func msOf(ttl time.Duration) (uint64, error) {
	switch {
	case ttl < 0:
		return 0, invalid("a time to live is negative")
	case ttl == Never:
		return uint64(C.ESKER_NEVER_MS), nil
	}
	ms := uint64(ttl / time.Millisecond)
	if ttl%time.Millisecond != 0 {
		ms++
	}
	return ms, nil
}

func timeOfMs(ms uint64) time.Time {
	return time.UnixMilli(int64(min(ms, math.MaxInt64)))
}
