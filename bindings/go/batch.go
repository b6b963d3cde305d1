// Batches: operations that take effect together.
//
// Invariant: the operations are bytes in the memory of Go, in the form of esker_batch_add_packed. A
// batch costs one call of C, when it is written, and needs no Close.

package esker

/*
#include "shim.h"
*/
import "C"

import (
	"encoding/binary"
	"iter"
	"math"
	"runtime"
	"time"
	"unsafe"
)

// A Batch has operations that Write applies atomically: they become visible together, and a crash
// keeps all or none of them. They apply in their order. The zero value is an empty batch. One
// goroutine may use it at a time.
type Batch struct {
	packed    []byte
	count     int
	keyspaces []*Keyspace
	// The numbers of the keyspaces; nil while they are few.
	numbers map[*Keyspace]uint32
	// The first invalid argument, which Write returns.
	failure error
}

// OperationKind is the kind of an operation of a batch.
type OperationKind uint8

// Kinds of operations.
const (
	// PutOperation puts Value under Key.
	PutOperation OperationKind = C.ESKER_OPERATION_PUT
	// DeleteOperation deletes Key.
	DeleteOperation OperationKind = C.ESKER_OPERATION_DELETE
	// DeleteRangeOperation deletes the keys from Key (inclusive) to Value (exclusive).
	DeleteRangeOperation OperationKind = C.ESKER_OPERATION_DELETE_RANGE
	// PutWithTTLOperation puts Value under Key for the time TTL.
	PutWithTTLOperation OperationKind = C.ESKER_OPERATION_PUT_WITH_TTL
	// MergeOperation merges the operand Value into the value of Key.
	MergeOperation OperationKind = C.ESKER_OPERATION_MERGE
)

// An Operation is an operation of a batch. Key and Value are valid until the batch is changed.
type Operation struct {
	// Kind is what the operation does.
	Kind OperationKind
	// Keyspace is nil for the keyspace default.
	Keyspace   *Keyspace
	Key, Value []byte
	TTL        time.Duration
}

// Put adds a put. A nil value is an empty one. If a key or value is too long, Write fails.
func (b *Batch) Put(key, value []byte) { b.add(PutOperation, nil, key, value, 0) }

// Delete adds a delete.
func (b *Batch) Delete(key []byte) { b.add(DeleteOperation, nil, key, nil, 0) }

// DeleteRange adds a range deletion from start (inclusive) to end (exclusive).
func (b *Batch) DeleteRange(start, end []byte) { b.add(DeleteRangeOperation, nil, start, end, 0) }

// PutWithTTL adds a put of a pair that expires the time ttl after the write of the batch; see
// DB.PutWithTTL.
func (b *Batch) PutWithTTL(key, value []byte, ttl time.Duration) {
	b.add(PutWithTTLOperation, nil, key, value, ttl)
}

// Merge adds a merge of an operand. Write fails as DB.Merge does.
func (b *Batch) Merge(key, operand []byte) { b.add(MergeOperation, nil, key, operand, 0) }

// PutIn adds a put in a keyspace; nil is the keyspace default. The write of the batch fails if the
// keyspace is of another store or opening, or was dropped. The same for every other method whose
// name ends in In.
func (b *Batch) PutIn(keyspace *Keyspace, key, value []byte) {
	b.add(PutOperation, keyspace, key, value, 0)
}

// DeleteIn adds a delete in a keyspace.
func (b *Batch) DeleteIn(keyspace *Keyspace, key []byte) {
	b.add(DeleteOperation, keyspace, key, nil, 0)
}

// DeleteRangeIn adds a range deletion in a keyspace.
func (b *Batch) DeleteRangeIn(keyspace *Keyspace, start, end []byte) {
	b.add(DeleteRangeOperation, keyspace, start, end, 0)
}

// PutWithTTLIn adds a put of a pair that expires, in a keyspace.
func (b *Batch) PutWithTTLIn(keyspace *Keyspace, key, value []byte, ttl time.Duration) {
	b.add(PutWithTTLOperation, keyspace, key, value, ttl)
}

// MergeIn adds a merge in a keyspace.
func (b *Batch) MergeIn(keyspace *Keyspace, key, operand []byte) {
	b.add(MergeOperation, keyspace, key, operand, 0)
}

func (b *Batch) add(kind OperationKind, keyspace *Keyspace, first, second []byte,
	ttl time.Duration) {
	if uint64(len(first)) > math.MaxUint32 || uint64(len(second)) > math.MaxUint32 {
		b.fail(invalid("a key has at most 1 MiB, a value at most 1 GiB"))
		return
	}
	packed := append(b.packed, byte(kind))
	packed = binary.LittleEndian.AppendUint32(packed, b.number(keyspace))
	packed = binary.LittleEndian.AppendUint32(packed, uint32(len(first)))
	packed = binary.LittleEndian.AppendUint32(packed, uint32(len(second)))
	if kind == PutWithTTLOperation {
		ms, err := msOf(ttl)
		if err != nil {
			b.fail(err)
			return
		}
		packed = binary.LittleEndian.AppendUint64(packed, ms)
	}
	packed = append(packed, first...)
	b.packed = append(packed, second...)
	b.count++
}

func (b *Batch) fail(err error) {
	if b.failure == nil {
		b.failure = err
	}
}

// fewKeyspaces is the number of keyspaces up to which a search is cheaper than a map.
const fewKeyspaces = 8

// number returns the number of a keyspace in the batch.
func (b *Batch) number(keyspace *Keyspace) uint32 {
	if keyspace == nil {
		return 0
	}
	if number, ok := b.numbers[keyspace]; ok {
		return number
	}
	if b.numbers == nil {
		for i, known := range b.keyspaces {
			if known == keyspace {
				return uint32(i + 1)
			}
		}
	}
	b.keyspaces = append(b.keyspaces, keyspace)
	number := uint32(len(b.keyspaces))
	if number == fewKeyspaces {
		b.numbers = make(map[*Keyspace]uint32)
		for i, known := range b.keyspaces {
			b.numbers[known] = uint32(i + 1)
		}
	} else if number > fewKeyspaces {
		b.numbers[keyspace] = number
	}
	return number
}

// Len returns the number of operations.
func (b *Batch) Len() int { return b.count }

// SizeBytes returns the memory of the operations.
func (b *Batch) SizeBytes() int { return len(b.packed) }

// Reset removes all operations, and keeps the memory.
func (b *Batch) Reset() {
	clear(b.keyspaces)
	b.numbers = nil
	b.packed, b.keyspaces, b.count, b.failure = b.packed[:0], b.keyspaces[:0], 0, nil
}

// Append appends the operations of other, which may be the same batch.
func (b *Batch) Append(other *Batch) {
	count := other.count
	for op := range other.Operations() {
		if count--; count < 0 {
			break
		}
		b.add(op.Kind, op.Keyspace, op.Key, op.Value, op.TTL)
	}
	if other.failure != nil {
		b.fail(other.failure)
	}
}

// Operations returns the operations in order.
func (b *Batch) Operations() iter.Seq[Operation] {
	return func(yield func(Operation) bool) {
		for at := 0; at < len(b.packed); {
			rest := b.packed[at:]
			op := Operation{Kind: OperationKind(rest[0])}
			if number := binary.LittleEndian.Uint32(rest[1:]); number > 0 {
				op.Keyspace = b.keyspaces[number-1]
			}
			first := int(binary.LittleEndian.Uint32(rest[5:]))
			second := int(binary.LittleEndian.Uint32(rest[9:]))
			head := 13
			if op.Kind == PutWithTTLOperation {
				op.TTL = ttlOf(binary.LittleEndian.Uint64(rest[13:]))
				head += 8
			}
			end := head + first + second
			op.Key = rest[head : head+first : head+first]
			op.Value = rest[head+first : end : end]
			if !yield(op) {
				return
			}
			at += end
		}
	}
}

func ttlOf(ms uint64) time.Duration {
	if ms > uint64(Never/time.Millisecond) {
		return Never
	}
	return time.Duration(ms) * time.Millisecond
}

// Write applies a batch atomically, with one call of C. The batch is not changed.
func (db *DB) Write(batch *Batch, durability ...Durability) error {
	return db.write(batch, Never, durability)
}

// WriteWithin does the same as Write, but waits at most the time wait for memory while writes are
// stalled; see DB.Stall. After that it fails with ErrBusy, whose message has the cause, and nothing
// was written. The time is in milliseconds, rounded up; 0 and a negative one do not wait, so
// time.Until(deadline) may be passed. Never waits as Write does. The call may take longer than wait:
// a write that waits for nothing, and the sync of the log, are not interrupted.
func (db *DB) WriteWithin(wait time.Duration, batch *Batch, durability ...Durability) error {
	return db.write(batch, max(wait, 0), durability)
}

func (db *DB) write(batch *Batch, wait time.Duration, durability []Durability) error {
	if batch.failure != nil {
		return batch.failure
	}
	ms, err := msOf(wait)
	if err != nil {
		return err
	}
	handles := make([]*C.esker_keyspace_t, len(batch.keyspaces))
	for i, keyspace := range batch.keyspaces {
		if keyspace.guard.isClosed() {
			return closed("handle of a keyspace in the batch")
		}
		handles[i] = keyspace.handle
	}
	done := C.esker_go_write(db.c, unsafe.SliceData(handles), n2(handles), ptr(batch.packed),
		n(batch.packed), durabilityOf(durability), C.uint64_t(ms))
	runtime.KeepAlive(batch)
	runtime.KeepAlive(db)
	return ended(done)
}

func n2[T any](items []T) C.size_t { return C.size_t(len(items)) }
