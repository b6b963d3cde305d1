// Transactions: several reads and writes that take effect together, at one moment, or not at all.
//
// Invariants:
//  1. A call during a call of another goroutine fails with ErrInvalidArgument; the C library checks.
//  2. The transaction in C is freed after the last call on it. Freeing rolls it back.

package esker

/*
#include "shim.h"
#include "callbacks.h"
*/
import "C"

import (
	"context"
	"errors"
	"iter"
	"math/rand/v2"
	"runtime"
	"runtime/cgo"
	"sync/atomic"
	"time"
)

// Isolation says what a transaction is protected from.
type Isolation int32

// Isolations of a transaction.
const (
	// SnapshotIsolation: the transaction reads the store as of one moment. Its commit fails if
	// another commit has written a key that it writes.
	SnapshotIsolation Isolation = C.ESKER_ISOLATION_SNAPSHOT
	// Serializable: the committed transactions give the results of some order in which they run
	// one after the other.
	Serializable Isolation = C.ESKER_ISOLATION_SERIALIZABLE
)

// Concurrency says when conflicts are found.
type Concurrency int32

// Concurrencies of a transaction.
const (
	// Optimistic: conflicts are found at the commit. No call waits for another transaction.
	Optimistic Concurrency = C.ESKER_CONCURRENCY_OPTIMISTIC
	// Pessimistic: conflicts are found at once, by locks. A call waits for the holder of a lock.
	Pessimistic Concurrency = C.ESKER_CONCURRENCY_PESSIMISTIC
)

// TransactionOptions are the options of a transaction. Nil and the zero value are snapshot
// isolation, optimistic, a lock timeout of one second, and the store's durability.
type TransactionOptions struct {
	// Isolation is which effects of other transactions are excluded, Concurrency how conflicts are found.
	Isolation   Isolation
	Concurrency Concurrency
	// LockTimeout is the maximum time of one wait for a lock, in milliseconds, rounded up. 0 is the
	// default of one second; a negative one does not wait.
	LockTimeout time.Duration
	Durability  Durability
}

// part reads and writes a keyspace in a transaction.
type part struct {
	transaction *Transaction
	keyspace    *Keyspace
}

// A Transaction reads the store as of one moment, with its own writes over it. Others see its
// writes after Commit, all at once. It works on the keyspace default, and on others by In. One
// goroutine may use it at a time. After Commit, Rollback, Prepare or Close its calls fail with
// ErrClosed.
type Transaction struct {
	part
	db    *DB
	guard *guard
	c     *C.esker_transaction_t
	// The number of calls that may have changed what its iterators show.
	version      atomic.Uint64
	serializable bool
}

// A KeyspaceTransaction is the part of a transaction that works on one keyspace.
type KeyspaceTransaction struct{ part }

// Begin begins a transaction, which must be committed, rolled back or closed.
func (db *DB) Begin(options *TransactionOptions) (*Transaction, error) {
	defer runtime.KeepAlive(db)
	var o TransactionOptions
	if options != nil {
		o = *options
	}
	c := C.esker_transaction_options_create()
	defer C.esker_transaction_options_destroy(c)
	var message *C.char
	err := errors.Join(
		failed(C.esker_transaction_options_set_isolation(c, C.int32_t(o.Isolation), &message),
			message),
		failed(C.esker_transaction_options_set_concurrency(c, C.int32_t(o.Concurrency), nil), nil),
		failed(C.esker_transaction_options_set_durability(c, C.int32_t(o.Durability), nil), nil))
	if o.LockTimeout != 0 && err == nil {
		ms, _ := msOf(max(o.LockTimeout, 0))
		err = failed(C.esker_transaction_options_set_lock_timeout_ms(c, C.uint64_t(ms), nil), nil)
	}
	if err != nil {
		return nil, err
	}
	var handle *C.esker_transaction_t
	if err := failed(C.esker_transaction_begin(db.c, c, &handle, &message), message); err != nil {
		return nil, err
	}
	t := &Transaction{db: db, c: handle, serializable: o.Isolation == Serializable}
	t.part = part{transaction: t}
	t.guard = newGuard("a transaction", func() { C.esker_transaction_destroy(handle) }, false, 1)
	runtime.AddCleanup(t, collected, t.guard)
	return t, nil
}

// Transact runs body in a transaction and commits it. After ErrConflict or ErrDeadlock it runs body
// again, after a short pause, until ctx ends. So body must have no effect outside of the
// transaction. If body returns another error or panics, the transaction is rolled back. A deadline
// of ctx also limits the waits for locks.
func (db *DB) Transact(ctx context.Context, options *TransactionOptions,
	body func(*Transaction) error) error {
	var o TransactionOptions
	if options != nil {
		o = *options
	}
	for run := 0; ; run++ {
		if err := ctx.Err(); err != nil {
			return err
		}
		limited := o
		if deadline, ok := ctx.Deadline(); ok && o.LockTimeout >= 0 {
			timeout := o.LockTimeout
			if timeout == 0 {
				timeout = time.Second
			}
			limited.LockTimeout = min(timeout, max(time.Until(deadline), time.Millisecond))
		}
		err := db.attempt(&limited, body)
		if !errors.Is(err, ErrConflict) && !errors.Is(err, ErrDeadlock) {
			return err
		}
		// Two transactions that conflict are unlikely to make the same pauses.
		full := min(50*time.Microsecond<<min(run, 16), 20*time.Millisecond)
		pause := time.NewTimer(full/2 + rand.N(full/2+1))
		select {
		case <-pause.C:
		case <-ctx.Done():
			pause.Stop()
		}
	}
}

// attempt runs body in a transaction, once.
func (db *DB) attempt(options *TransactionOptions, body func(*Transaction) error) error {
	t, err := db.Begin(options)
	if err != nil {
		return err
	}
	defer t.Close()
	if err := body(t); err != nil {
		return err
	}
	return t.Commit()
}

// run calls a function on the transaction.
func (t *Transaction) run(call func() error) error {
	if !t.guard.enter() {
		return closed("transaction")
	}
	defer t.guard.leave()
	defer runtime.KeepAlive(t)
	return call()
}

// change calls a function on the transaction that may change what its iterators show.
func (t *Transaction) change(call func(message **C.char) C.int32_t) error {
	return t.run(func() error {
		defer t.version.Add(1)
		var message *C.char
		return failed(call(&message), message)
	})
}

// end calls a function that ends the transaction, unless it is refused.
func (t *Transaction) end(call func(message **C.char) C.int32_t) error {
	err := t.change(call)
	if !errors.Is(err, ErrInvalidArgument) {
		t.guard.close()
	}
	return err
}

// In returns the part of the transaction that works on a keyspace.
func (t *Transaction) In(keyspace *Keyspace) *KeyspaceTransaction {
	return &KeyspaceTransaction{part{transaction: t, keyspace: keyspace}}
}

// ID returns the number of the transaction, which no other one of this opening has. The messages
// about locks and deadlocks name it.
func (t *Transaction) ID() uint64 {
	var id uint64
	_ = t.run(func() error {
		id = uint64(C.esker_transaction_id(t.c))
		return nil
	})
	return id
}

// Savepoint sets a savepoint, to which RollbackToSavepoint returns. Savepoints nest.
func (t *Transaction) Savepoint() error {
	return t.change(func(m **C.char) C.int32_t { return C.esker_transaction_savepoint(t.c, m) })
}

// RollbackToSavepoint takes back the writes after the newest savepoint, and removes it. What was
// read stays protected, and locks are kept. ErrNotFound if there is no savepoint.
func (t *Transaction) RollbackToSavepoint() error {
	return t.change(func(m **C.char) C.int32_t {
		return C.esker_transaction_rollback_to_savepoint(t.c, m)
	})
}

// PopSavepoint removes the newest savepoint and keeps the writes after it. ErrNotFound if there is
// no savepoint.
func (t *Transaction) PopSavepoint() error {
	return t.change(func(m **C.char) C.int32_t { return C.esker_transaction_pop_savepoint(t.c, m) })
}

// Commit makes the writes visible and durable, all together. After a failure the transaction is
// rolled back and nothing was written, except that after ErrReadOnly or ErrIO the store must be
// opened again to see whether it contains the writes. ErrConflict if something that it has written,
// or has read and is protected, was written by another commit.
func (t *Transaction) Commit() error {
	return t.end(func(m **C.char) C.int32_t { return C.esker_transaction_commit(t.c, m) })
}

// Rollback ends the transaction without its writes.
func (t *Transaction) Rollback() error {
	return t.end(func(m **C.char) C.int32_t { return C.esker_transaction_rollback(t.c, m) })
}

// Prepare checks the transaction as Commit does, and stores it under name, durable as with Sync,
// without making its writes visible. After that DB.CommitPrepared succeeds whatever other
// transactions do, also after a crash. Until then others cannot write what it has written or read.
func (t *Transaction) Prepare(name string) error {
	if !isText(name) {
		return invalid("a name has a zero byte")
	}
	c := newCString(name)
	defer c.free()
	return t.end(func(m **C.char) C.int32_t { return C.esker_transaction_prepare(t.c, c.text, m) })
}

// Close rolls the transaction back if it has not ended. Closing twice is allowed.
func (t *Transaction) Close() error {
	if t.guard.close() {
		t.version.Add(1)
	}
	return nil
}

// PreparedTransactions returns the names of the prepared transactions, in alphabetical order.
func (db *DB) PreparedTransactions() ([]string, error) {
	defer runtime.KeepAlive(db)
	var names []string
	state := cgo.NewHandle(&names)
	defer state.Delete()
	var message *C.char
	err := failed(C.esker_go_visit_names(db.c, C.uintptr_t(state), &message), message)
	return names, err
}

// CommitPrepared commits a prepared transaction, durable as with Sync. ErrNotFound if there is none
// of this name. After a failure it is still prepared.
func (db *DB) CommitPrepared(name string) error {
	defer runtime.KeepAlive(db)
	return named(name, func(name *C.char, message **C.char) C.int32_t {
		return C.esker_commit_prepared(db.c, name, message)
	})
}

// RollbackPrepared rolls a prepared transaction back. Failures are as those of CommitPrepared.
func (db *DB) RollbackPrepared(name string) error {
	defer runtime.KeepAlive(db)
	return named(name, func(name *C.char, message **C.char) C.int32_t {
		return C.esker_rollback_prepared(db.c, name, message)
	})
}

// in calls a function on the transaction, with the handle of the keyspace.
func (p *part) in(call func(*C.esker_keyspace_t) error) error {
	return p.transaction.run(func() error {
		if p.keyspace == nil {
			return call(nil)
		}
		if p.keyspace.guard.isClosed() {
			return closed("keyspace's handle")
		}
		defer runtime.KeepAlive(p.keyspace)
		return call(p.keyspace.handle)
	})
}

// Get returns the value of key: that of the transaction's own last write, otherwise that of its
// snapshot; false if the key is missing. A serializable pessimistic transaction locks the key.
func (p *part) Get(key []byte) (value []byte, found bool, err error) { return p.get(nil, key, 0) }

// GetInto does the same as Get, and stores the value in the memory of dst if it has room.
func (p *part) GetInto(dst, key []byte) (value []byte, found bool, err error) {
	return p.get(dst, key, 0)
}

// GetForUpdate does the same as Get, and protects the key as a write of it would. A pessimistic
// transaction locks the key: ErrBusy when the lock is not free in time.
func (p *part) GetForUpdate(key []byte) (value []byte, found bool, err error) {
	return p.get(nil, key, 1)
}

func (p *part) get(dst, key []byte, forUpdate C.uint8_t) (value []byte, found bool, err error) {
	err = p.in(func(keyspace *C.esker_keyspace_t) error {
		room := dst[:cap(dst)]
		got := C.esker_go_transaction_get(p.transaction.c, keyspace, forUpdate, ptr(key), n(key),
			ptr(room), n(room))
		if err := whole(&got, len(room)); err != nil || got.found == 0 {
			return err
		}
		value, found = storing(dst, got), true
		return nil
	})
	return value, found, err
}

// change calls a write, in the keyspace.
func (p *part) change(call func(*C.esker_keyspace_t) C.esker_go_done) error {
	return p.in(func(keyspace *C.esker_keyspace_t) error {
		defer p.transaction.version.Add(1)
		return ended(call(keyspace))
	})
}

// Put sets key to value at the commit. Later reads of the transaction see it at once. A failed call
// changes nothing.
func (p *part) Put(key, value []byte) error {
	return p.change(func(keyspace *C.esker_keyspace_t) C.esker_go_done {
		return C.esker_go_transaction_put(p.transaction.c, keyspace, ptr(key), n(key), ptr(value),
			n(value))
	})
}

// PutWithTTL sets key to value at the commit; the pair expires the time ttl after it, as with
// DB.PutWithTTL. The transaction itself sees the value whatever the time.
func (p *part) PutWithTTL(key, value []byte, ttl time.Duration) error {
	ms, err := msOf(ttl)
	if err != nil {
		return err
	}
	return p.change(func(keyspace *C.esker_keyspace_t) C.esker_go_done {
		return C.esker_go_transaction_put_with_ttl(p.transaction.c, keyspace, ptr(key), n(key),
			ptr(value), n(value), C.uint64_t(ms))
	})
}

// Merge merges an operand into the value of key at the commit, as DB.Merge does. Later reads of the
// transaction see the merged value. The key is protected as by Put: of two transactions that merge
// into one key at the same time, one fails.
func (p *part) Merge(key, operand []byte) error {
	return p.change(func(keyspace *C.esker_keyspace_t) C.esker_go_done {
		return C.esker_go_transaction_merge(p.transaction.c, keyspace, ptr(key), n(key),
			ptr(operand), n(operand))
	})
}

// Delete deletes key at the commit. A missing key is no error.
func (p *part) Delete(key []byte) error {
	return p.change(func(keyspace *C.esker_keyspace_t) C.esker_go_done {
		return C.esker_go_transaction_delete(p.transaction.c, keyspace, ptr(key), n(key))
	})
}

// DeleteRange deletes the keys from start (inclusive) to end (exclusive) at the commit. The whole
// range is protected.
func (p *part) DeleteRange(start, end []byte) error {
	return p.change(func(keyspace *C.esker_keyspace_t) C.esker_go_done {
		return C.esker_go_transaction_delete_range(p.transaction.c, keyspace, ptr(start), n(start),
			ptr(end), n(end))
	})
}

// Iterator returns an iterator over the pairs of the transaction's snapshot with its own writes
// over them, also those that are made ahead of its position later. It must be closed. After the end
// of the transaction its moves fail.
func (p *part) Iterator(options *IterOptions) (*Iterator, error) {
	var o IterOptions
	if options != nil {
		o = *options
	}
	isPrefix, err := o.check()
	if err != nil {
		return nil, err
	}
	if isPrefix {
		o.Start, o.End = o.Prefix, PrefixEnd(o.Prefix)
	}
	var it *Iterator
	err = p.in(func(keyspace *C.esker_keyspace_t) error {
		t := p.transaction
		made := C.esker_go_transaction_iter_create(t.c, keyspace, ptr(o.Start), n(o.Start),
			ptr(o.End), n(o.End))
		if err := failed(made.code, made.message); err != nil {
			return err
		}
		rows := mostRows
		if t.serializable {
			rows = 1
		}
		it = newIterator((*C.esker_iter_t)(made.handle), t, t.db.callsGo, rows)
		it.transaction = t
		return nil
	})
	return it, err
}

// Range yields the pairs from start (inclusive) to end (exclusive), as DB.Range does.
func (p *part) Range(start, end []byte) iter.Seq2[Pair, error] {
	return scan(p.Iterator, &IterOptions{Start: start, End: end}, false)
}

// RangeBackward yields the pairs of Range from the last to the first.
func (p *part) RangeBackward(start, end []byte) iter.Seq2[Pair, error] {
	return scan(p.Iterator, &IterOptions{Start: start, End: end}, true)
}

// Prefix yields the pairs whose keys begin with prefix, in bytewise order.
func (p *part) Prefix(prefix []byte) iter.Seq2[Pair, error] {
	return scan(p.Iterator, &IterOptions{Prefix: prefix}, false)
}

// PrefixBackward yields the pairs of Prefix from the last to the first.
func (p *part) PrefixBackward(prefix []byte) iter.Seq2[Pair, error] {
	return scan(p.Iterator, &IterOptions{Prefix: prefix}, true)
}
