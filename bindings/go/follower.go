// Followers: read-only views of a store that another process writes.
//
// Invariants:
//  1. A follower in C is freed after the last call on it. A wait ends with its context, and with Close.
//  2. Views and promoted stores are stores of their own: they stay open when the follower is closed.

package esker

/*
#include "shim.h"
*/
import "C"

import (
	"context"
	"runtime"
	"time"
	"unsafe"
)

// A Follower follows a store that another process writes: a read replica on the same machine that needs
// no copy of the data. It writes nothing, takes no lock, and never makes the writer wait. Many goroutines
// may use it at once. It must be closed, and so must its views.
type Follower struct {
	guard   *guard
	c       *C.esker_follower_t
	callsGo bool
}

// A FollowerLag says how far a follower is behind. Positions are sequence numbers, as in the change feed.
type FollowerLag struct {
	// Position is the last operation that the newest view shows, Newest the last one that the store has
	// now, and Operations the number of sequence numbers between them.
	Position, Newest, Operations uint64
	// Age is the time since the begin of the last catch-up that did not fail. The newest view shows every
	// write that was older than this.
	Age time.Duration
	// Err is why the last catch-up failed; nil if it did not.
	Err error
}

// Follow follows the store in the directory path, which may be open for writing in another process or in
// this one, or in none. The options, which may be nil, must have the key, the key orders and the merge
// operators of the store. Nothing on disk is changed. ErrNotFound if there is no store; otherwise it fails
// as OpenReadOnly.
//
// DB returns a view: the store at one moment. The first view is that of now; CatchUp and CatchUpEvery make
// newer ones. A view shows every write that returned before its catch-up began, and none after that.
// Writes with NoLog appear when they are flushed.
func Follow(path string, options *Options) (*Follower, error) {
	var c *C.esker_follower_t
	err := withOptions(path, options, func(path *C.char, o *C.esker_options_t,
		message **C.char) C.int32_t {
		return C.esker_follow(path, o, &c, message)
	})
	if err != nil {
		return nil, err
	}
	f := &Follower{c: c, callsGo: options.callsGo()}
	f.guard = newGuard("a follower", func() { C.esker_follower_destroy(c); freeUnused() }, false, 1)
	runtime.AddCleanup(f, collected, f.guard)
	return f, nil
}

// call runs a call on the follower.
func (f *Follower) call(call func(message **C.char) C.int32_t) error {
	if !f.guard.enter() {
		return closed("follower")
	}
	defer runtime.KeepAlive(f)
	defer f.guard.leave()
	var message *C.char
	return failed(call(&message), message)
}

// store runs a call that opens a store.
func (f *Follower) store(call func(db **C.esker_db_t, message **C.char) C.int32_t) (*DB, error) {
	var c *C.esker_db_t
	err := f.call(func(message **C.char) C.int32_t { return call(&c, message) })
	if err != nil {
		return nil, err
	}
	return newDB(c, f.callsGo), nil
}

// DB returns the newest view: a store that is open read-only and never changes. Take it once for each
// request, so that the reads of a request fit together, and close it. It keeps what it needs, also files
// that the writer has removed.
func (f *Follower) DB() (*DB, error) {
	return f.store(func(db **C.esker_db_t, m **C.char) C.int32_t {
		return C.esker_follower_db(f.c, db, m)
	})
}

// Position returns the position of the newest view: the sequence number of the last operation that it
// shows; 0 after Close.
func (f *Follower) Position() uint64 {
	if !f.guard.enter() {
		return 0
	}
	defer runtime.KeepAlive(f)
	defer f.guard.leave()
	return uint64(C.esker_follower_position(f.c))
}

// CatchUp makes the newest view show what the store has now. It returns the position of the view. It reads
// only what was added since the last call. When ctx ends first, it returns its error, and the work goes on.
//
// ErrCorruption if a file is damaged, ErrIncompatible if a keyspace has a key order that the options lack
// or another store has taken the place of this one. The newest view is then as before, and the call can be
// repeated.
func (f *Follower) CatchUp(ctx context.Context) (uint64, error) {
	// The call may go on after the return.
	position := new(C.uint64_t)
	err := waitFor(ctx, func() error {
		return f.call(func(m **C.char) C.int32_t {
			return C.esker_follower_catch_up(f.c, position, m)
		})
	})
	if err != nil {
		return 0, err
	}
	return uint64(*position), nil
}

// CatchUpEvery lets a thread catch up whenever interval, at least a millisecond, has passed since its last
// catch-up. The thread ends with the follower. A further call changes the interval. Lag has the error of
// the last catch-up.
func (f *Follower) CatchUpEvery(interval time.Duration) error {
	ms := C.uint64_t(max(interval/time.Millisecond, 0))
	return f.call(func(m **C.char) C.int32_t {
		return C.esker_follower_catch_up_every(f.c, ms, m)
	})
}

// WaitFor waits until the newest view shows the operation with the sequence number position, and catches
// up meanwhile. It returns the error of ctx if that ends first. So a program that has written to the store
// in another process, and knows the position from SnapshotWithPosition, reads its own writes. ErrClosed if
// the follower is closed, also during the wait; otherwise it fails as CatchUp.
func (f *Follower) WaitFor(ctx context.Context, position uint64) error {
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		var shown C.uint8_t
		if err := f.call(func(m **C.char) C.int32_t {
			return C.esker_follower_wait_for(f.c, C.uint64_t(position),
				C.uint64_t(look/time.Millisecond), &shown, m)
		}); err != nil || shown != 0 {
			return err
		}
	}
}

// Lag returns how far the newest view is behind the store. It reads the logs from the position of the view
// on, and takes nothing over. It fails as CatchUp.
func (f *Follower) Lag() (FollowerLag, error) {
	var found *C.esker_follower_lag_t
	var why *C.char
	err := f.call(func(m **C.char) C.int32_t {
		return C.esker_follower_lag(f.c, &found, &why, m)
	})
	text, _ := taken(why)
	if err != nil || found == nil {
		return FollowerLag{}, err
	}
	defer C.esker_free(unsafe.Pointer(found))
	lag := FollowerLag{
		Position:   uint64(found.position),
		Newest:     uint64(found.newest),
		Operations: uint64(found.operations),
		Age:        time.Duration(found.age_ms) * time.Millisecond,
	}
	if found.error_code != C.ESKER_OK {
		lag.Err = &Error{Kind: Kind(found.error_code), Message: text}
	}
	return lag, nil
}

// Promote opens the store for writing, when its writer has ended or was killed. Every write that the
// writer has acknowledged is in it. The follower and its views stay readable, and follow the returned
// store from then on. ErrLocked while the writer lives, ErrIncompatible if the directory has another store
// now, ErrCorruption if the opened store lacks writes that the newest view shows, because a crash of the
// machine lost them.
func (f *Follower) Promote() (*DB, error) {
	return f.store(func(db **C.esker_db_t, m **C.char) C.int32_t {
		return C.esker_follower_promote(f.c, db, m)
	})
}

// Close ends the thread of the follower and frees it after its running calls. Later calls fail with
// ErrClosed. Its views and promoted stores stay open. Closing twice is allowed.
func (f *Follower) Close() error {
	f.guard.close()
	return nil
}
