// The change feed: committed batches in order, and slots, which are durable positions in it.
//
// Invariants:
//  1. A feed in C is freed after the last call on it. A wait for a batch ends with its context, with
//     Close of the feed, and with that of the store.
//  2. A batch is a copy: it stays valid.

package esker

/*
#include "shim.h"
#include "callbacks.h"
*/
import "C"

import (
	"context"
	"iter"
	"runtime"
	"runtime/cgo"
	"strings"
	"sync"
	"time"
	"unsafe"
)

// ChangeKind says what a Change did.
type ChangeKind int32

// Kinds of changes. Each says which fields of a Change it has, besides Keyspace.
const (
	// ChangePut: Key was set to Value, until Expires if that is not zero.
	ChangePut ChangeKind = C.ESKER_CHANGE_PUT
	// ChangeMerge: the operand Value was merged into the value of Key.
	ChangeMerge ChangeKind = C.ESKER_CHANGE_MERGE
	// ChangeDelete: Key was deleted. It may not have existed.
	ChangeDelete ChangeKind = C.ESKER_CHANGE_DELETE
	// ChangeDeleteRange: the keys from Key (inclusive) to Value (exclusive) were deleted.
	ChangeDeleteRange ChangeKind = C.ESKER_CHANGE_DELETE_RANGE
	// ChangeClear: all keys of the keyspace were deleted.
	ChangeClear ChangeKind = C.ESKER_CHANGE_CLEAR
	// ChangeKeyspaceCreated: the keyspace was created, with KeyOrder and Settings.
	ChangeKeyspaceCreated ChangeKind = C.ESKER_CHANGE_KEYSPACE_CREATED
	// ChangeKeyspaceRenamed: the keyspace got the name NewName.
	ChangeKeyspaceRenamed ChangeKind = C.ESKER_CHANGE_KEYSPACE_RENAMED
	// ChangeKeyspaceDropped: the keyspace was dropped with all its keys.
	ChangeKeyspaceDropped ChangeKind = C.ESKER_CHANGE_KEYSPACE_DROPPED
)

// A Change is one change of a ChangeBatch.
type Change struct {
	// Kind is what was done. It tells which fields are set.
	Kind ChangeKind
	// Keyspace is the name that the keyspace had then.
	Keyspace string
	// Key is the key, or the start of a range. Value is the value, the operand or the end of a range.
	Key, Value []byte
	// Expires is the time at which the pair expires; zero if it does not.
	Expires time.Time
	// NewName is the new name of a keyspace, KeyOrder the name of its key order.
	NewName, KeyOrder string
	// Settings are the own options of a keyspace.
	Settings map[string]string
}

// A ChangeBatch is a committed batch, or a part of one: changes that became visible together. The pairs
// of an ingest or a bulk load come in parts of about 1 MiB; all other batches are whole. A reader
// applies all parts of a batch or none, and confirms its position after the last part. When it begins
// again before that, the feed begins with the first part.
type ChangeBatch struct {
	// FirstSequence and Sequence are the sequence numbers of the first and of the last operation.
	// Sequence is the position after the batch.
	FirstSequence, Sequence uint64
	// Checksum tells batches with the same sequence number apart. It is not 0.
	Checksum uint64
	// Previous is the position before the batch, PreviousChecksum the checksum of the batch that ends
	// there; 0 if it is not known.
	Previous, PreviousChecksum uint64
	// Part is the number of this part of the batch, from 0 on. The parts have equal sequence numbers
	// and checksums.
	Part uint64
	// Continues says that more parts of the same batch follow.
	Continues bool
	// Changes are in order. A key may occur more than once; the last change counts.
	Changes []Change
}

// Changes is the change feed of a store from a position on. Many goroutines may use it; each batch is
// returned once. It must be closed.
type Changes struct {
	mutex sync.Mutex
	guard *guard
	c     *C.esker_changes_t
	// What must not be collected as garbage before the feed.
	owner any
}

// look is the time between two looks at a context during a wait.
const look = 50 * time.Millisecond

// Changes returns the feed of the committed batches after position from, the sequence number of the
// last batch that the caller has seen; 0 for all of them. The store keeps the logs that slots need;
// see Subscribe. Without a slot, a log is removed when its memtable was flushed. Pairs that expire
// appear as puts with their time, and vanish at that time without a change. In a store opened
// read-only the feed goes on with what another process writes.
//
// A batch that is not durable may be lost in a crash of the machine after it was returned; other
// batches then get its sequence numbers, and other checksums. ErrNotFound if the changes after from
// are in no log any more, ErrInvalidArgument if from is after the newest write.
func (db *DB) Changes(from uint64) (*Changes, error) {
	defer runtime.KeepAlive(db)
	var c *C.esker_changes_t
	var message *C.char
	code := C.esker_changes_create(db.c, C.uint64_t(from), &c, &message)
	if err := failed(code, message); err != nil {
		return nil, err
	}
	return newChanges(c, db), nil
}

func newChanges(c *C.esker_changes_t, owner any) *Changes {
	changes := &Changes{c: c, owner: owner}
	changes.guard = newGuard("a change feed", func() { C.esker_changes_destroy(c) }, false, 2)
	runtime.AddCleanup(changes, collected, changes.guard)
	return changes
}

// poll returns the next batch, and waits for it for at most longest; nil after that time.
func (c *Changes) poll(longest time.Duration) (*ChangeBatch, error) {
	if !c.guard.enter() {
		return nil, closed("change feed")
	}
	defer c.guard.leave()
	c.mutex.Lock()
	defer c.mutex.Unlock()
	var batch *C.esker_change_batch_t
	var message *C.char
	wait := C.uint64_t(longest / time.Millisecond)
	code := C.esker_changes_next(c.c, wait, &batch, &message)
	if err := failed(code, message); err != nil || batch == nil {
		return nil, err
	}
	return batchOf(batch), nil
}

// Poll returns the next batch, or nil at the present.
func (c *Changes) Poll() (*ChangeBatch, error) { return c.poll(0) }

// Next returns the next batch, and waits for it until ctx ends; then it returns the error of ctx. A
// batch is never lost by that: the next call returns it. ErrClosed if the feed or the store is closed,
// also during the wait; ErrNotFound, with the reason, if the slot of the feed was dropped.
func (c *Changes) Next(ctx context.Context) (*ChangeBatch, error) {
	for {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if batch, err := c.poll(look); batch != nil || err != nil {
			return batch, err
		}
	}
}

// All returns the batches up to the present, for a loop. The loop ends after an error. A later loop
// goes on where this one ended.
func (c *Changes) All() iter.Seq2[*ChangeBatch, error] {
	return loop(c.Poll)
}

// Follow returns the batches, and waits for further ones until ctx ends, for a loop. The loop ends
// after an error, without one at the end of ctx.
func (c *Changes) Follow(ctx context.Context) iter.Seq2[*ChangeBatch, error] {
	return loop(func() (*ChangeBatch, error) {
		batch, err := c.Next(ctx)
		if err != nil && err == ctx.Err() {
			return nil, nil
		}
		return batch, err
	})
}

// loop returns what next returns until that is nil, or an error.
func loop[T any](next func() (*T, error)) iter.Seq2[*T, error] {
	return func(yield func(*T, error) bool) {
		for {
			item, err := next()
			if err != nil {
				yield(nil, err)
				return
			}
			if item == nil || !yield(item, nil) {
				return
			}
		}
	}
}

// Position returns the sequence number of the last batch of which all parts were returned, or that had
// nothing for the reader; 0 after Close. It waits for a running Next.
func (c *Changes) Position() uint64 {
	if !c.guard.enter() {
		return 0
	}
	defer c.guard.leave()
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return uint64(C.esker_changes_position(c.c))
}

// Close frees the feed. A running Next ends with ErrClosed, as every later call does.
func (c *Changes) Close() error {
	c.guard.close()
	return nil
}

// batchOf returns a copy of a batch of C.
func batchOf(batch *C.esker_change_batch_t) *ChangeBatch {
	copied := &ChangeBatch{
		FirstSequence:    uint64(batch.first_sequence),
		Sequence:         uint64(batch.sequence),
		Checksum:         uint64(batch.checksum),
		Previous:         uint64(batch.previous),
		PreviousChecksum: uint64(batch.previous_checksum),
		Part:             uint64(batch.part),
		Continues:        batch.continues != 0,
		Changes:          make([]Change, int(batch.changes_len)),
	}
	if len(copied.Changes) == 0 {
		return copied
	}
	for i, change := range unsafe.Slice(batch.changes, len(copied.Changes)) {
		copied.Changes[i] = changeOf(change)
	}
	return copied
}

func changeOf(change *C.esker_change_t) Change {
	copied := Change{
		Kind:     ChangeKind(change.kind),
		Keyspace: C.GoString(change.keyspace),
		Key:      copyOf(change.key, change.key_len),
		Value:    copyOf(change.value, change.value_len),
		Expires:  expiryOf(change.expires_ms),
		NewName:  C.GoString(change.new_name),
		KeyOrder: C.GoString(change.key_order),
	}
	if change.options != nil {
		copied.Settings = map[string]string{}
		for _, line := range lines(C.GoString(change.options)) {
			name, value, _ := strings.Cut(line, "=")
			copied.Settings[name] = value
		}
	}
	return copied
}

// copyOf returns a copy of bytes of C; nil for NULL.
func copyOf(at *C.uint8_t, n C.size_t) []byte {
	if at == nil {
		return nil
	}
	return append([]byte{}, view(unsafe.Pointer(at), n)...)
}

// expiryOf returns the time at which a pair expires; zero if it does not.
func expiryOf(ms C.uint64_t) time.Time {
	if ms == C.ESKER_NEVER_MS {
		return time.Time{}
	}
	return timeOfMs(uint64(ms))
}

// SlotOptions are the options of a new slot. Nil and the zero value are the defaults.
type SlotOptions struct {
	// LagLimitBytes is the maximum size of logs that are kept only for slots. A slot that would need
	// more when a log is removed, is dropped, and its next use fails. 0 is the default, 16 GiB.
	LagLimitBytes uint64
	// Unlimited says that there is no limit: a reader that does not come back fills the device.
	Unlimited bool
}

func (o *SlotOptions) limit() C.uint64_t {
	switch {
	case o == nil:
		return C.ESKER_LAG_LIMIT_DEFAULT
	case o.Unlimited:
		return C.ESKER_LAG_UNLIMITED
	}
	return C.uint64_t(o.LagLimitBytes)
}

// A Slot is a durable position in the change feed of a store. The store keeps the logs with the
// changes that the reader of the slot has not confirmed, also while it is closed. Many goroutines may
// use it at once. It need not be closed.
type Slot struct {
	guard *guard
	c     *C.esker_slot_t
	name  string
	db    *DB
}

// Subscribe returns the slot name, which is created at the present if it does not exist: its first
// batch is the first one after this call. It exists until DropSlot, and is durable when this returns.
// While a store has a slot, writes with NoLog are logged. ErrInvalidArgument for a name that has not
// 1 to 64 letters, digits, "-" and "_"; ErrNotFound if the slot exists and was dropped because it
// lagged too far.
func (db *DB) Subscribe(name string, options *SlotOptions) (*Slot, error) {
	limit := options.limit()
	return db.slotOf(name, func(name *C.char, slot **C.esker_slot_t, m **C.char) C.int32_t {
		return C.esker_subscribe(db.c, name, limit, slot, m)
	})
}

// Slot returns the slot name. ErrNotFound if there is none.
func (db *DB) Slot(name string) (*Slot, error) {
	return db.slotOf(name, func(name *C.char, slot **C.esker_slot_t, m **C.char) C.int32_t {
		return C.esker_slot_open(db.c, name, slot, m)
	})
}

func (db *DB) slotOf(name string,
	call func(*C.char, **C.esker_slot_t, **C.char) C.int32_t) (*Slot, error) {
	defer runtime.KeepAlive(db)
	var c *C.esker_slot_t
	err := named(name, func(name *C.char, message **C.char) C.int32_t {
		return call(name, &c, message)
	})
	if err != nil {
		return nil, err
	}
	slot := &Slot{c: c, name: name, db: db}
	slot.guard = newGuard("a slot", func() { C.esker_slot_close(c) }, false, 2)
	slot.guard.quiet = true
	runtime.AddCleanup(slot, collected, slot.guard)
	return slot, nil
}

// on calls a function with the handle of the slot.
func (s *Slot) on(call func(*C.esker_slot_t, **C.char) C.int32_t) error {
	if s.guard.isClosed() {
		return closed("slot's handle")
	}
	defer runtime.KeepAlive(s)
	var message *C.char
	return failed(call(s.c, &message), message)
}

// Name returns the name of the slot.
func (s *Slot) Name() string { return s.name }

// Position returns the position that was confirmed last, or that the slot began with. ErrNotFound,
// with the reason, if the slot was dropped.
func (s *Slot) Position() (uint64, error) {
	var position C.uint64_t
	err := s.on(func(c *C.esker_slot_t, m **C.char) C.int32_t {
		return C.esker_slot_position(c, &position, m)
	})
	return uint64(position), err
}

// Changes returns the feed of the changes after the confirmed position, which must be closed.
func (s *Slot) Changes() (*Changes, error) {
	var changes *C.esker_changes_t
	err := s.on(func(c *C.esker_slot_t, m **C.char) C.int32_t {
		return C.esker_slot_changes(c, &changes, m)
	})
	if err != nil {
		return nil, err
	}
	return newChanges(changes, s.db), nil
}

// Confirm confirms every batch up to position, durably: the slot does not return them again, and
// their logs may be removed. Confirm a batch after its last part. A position at or before the confirmed
// one changes nothing. ErrInvalidArgument for a position after the newest write.
func (s *Slot) Confirm(position uint64) error {
	return s.on(func(c *C.esker_slot_t, m **C.char) C.int32_t {
		return C.esker_slot_confirm(c, C.uint64_t(position), m)
	})
}

// Close ends the use of the handle. The slot stays in the store. Later calls fail with ErrClosed.
func (s *Slot) Close() error {
	if s.guard != nil {
		s.guard.retire()
	}
	return nil
}

// A SlotInfo is the state of a slot.
type SlotInfo struct {
	// Name is the name of the slot, as Subscribe got it.
	Name string
	// Position is the position that the reader has confirmed; 0 if the slot is damaged.
	Position uint64
	// LagBytes is the size of logs that are kept only for this slot and for slots that lag less,
	// LagLimitBytes its maximum, which counts unless Unlimited is true.
	LagBytes, LagLimitBytes uint64
	Unlimited               bool
	// Problem is why the slot keeps no logs any more, as a sentence; empty if it does.
	Problem string
}

// Slots returns the slots in alphabetical order.
func (db *DB) Slots() ([]SlotInfo, error) {
	defer runtime.KeepAlive(db)
	var slots []SlotInfo
	state := cgo.NewHandle(&slots)
	defer state.Delete()
	var message *C.char
	err := failed(C.esker_go_visit_slots(db.c, C.uintptr_t(state), &message), message)
	return slots, err
}

//export eskerGoVisitSlot
func eskerGoVisitSlot(state C.uintptr_t, slot *C.esker_slot_info_t) {
	slots := cgo.Handle(state).Value().(*[]SlotInfo)
	info := SlotInfo{
		Name:      C.GoString(slot.name),
		Position:  uint64(slot.position),
		LagBytes:  uint64(slot.lag_bytes),
		Unlimited: slot.lag_limit_bytes == C.ESKER_LAG_UNLIMITED,
		Problem:   C.GoString(slot.problem),
	}
	if !info.Unlimited {
		info.LagLimitBytes = uint64(slot.lag_limit_bytes)
	}
	*slots = append(*slots, info)
}

// DropSlot removes the slot name, also a damaged one, and the logs that only it needed. ErrNotFound if
// there is no such slot.
func (db *DB) DropSlot(name string) error {
	defer runtime.KeepAlive(db)
	return named(name, func(name *C.char, message **C.char) C.int32_t {
		return C.esker_drop_slot(db.c, name, message)
	})
}

// SnapshotWithPosition creates a snapshot, which must be closed, and returns its position in the
// change feed: the snapshot has every batch up to it, and no later one. A reader that copies the
// snapshot and then applies the changes from the position has no gap and no batch twice. A slot must
// exist before this call.
func (db *DB) SnapshotWithPosition() (*Snapshot, uint64, error) {
	defer runtime.KeepAlive(db)
	var handle *C.esker_snapshot_t
	var position C.uint64_t
	var message *C.char
	code := C.esker_snapshot_create_with_position(db.c, &handle, &position, &message)
	if err := failed(code, message); err != nil {
		return nil, 0, err
	}
	return db.snapshotOf(handle), uint64(position), nil
}
