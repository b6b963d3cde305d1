// Lifetimes of the objects of the C library.
//
// Invariants:
//  1. An object is freed once, and never during a call that uses it.
//  2. A call that begins after Close fails with ErrClosed.
//  3. An object that was not closed is freed by the garbage collector, with a warning.

package esker

import (
	"fmt"
	"log"
	"runtime"
	"strings"
	"sync/atomic"
)

// trackLeaks is set by SetLeakTracking.
var trackLeaks atomic.Bool

// leakWarning holds the function of SetLeakWarning.
var leakWarning atomic.Pointer[func(string)]

// SetLeakTracking says whether each new object that has a Close notes the calls that created it, for the
// warning if it is not closed. A note costs about a microsecond. Default: false, except for stores, which
// always do.
func SetLeakTracking(on bool) { trackLeaks.Store(on) }

// SetLeakWarning sets the function that receives the warning about an object that has a Close and was
// not closed before it was collected as garbage: a store, snapshot, iterator, transaction, change feed,
// follower, comparison, SortedWriter, ValueReader, ChangeWriter or Applier. It may be called from any
// goroutine. Default (and nil): log.Print.
func SetLeakWarning(warn func(message string)) {
	if warn == nil {
		leakWarning.Store(nil)
		return
	}
	leakWarning.Store(&warn)
}

func warnOfLeak(message string) {
	if warn := leakWarning.Load(); warn != nil {
		(*warn)(message)
		return
	}
	log.Print(message)
}

// A guard counts the calls that use an object, and frees it after Close and the last of them. The
// zero guard is not usable.
type guard struct {
	// The number of running calls, twice; odd once the object was closed.
	state atomic.Int64
	freed atomic.Bool
	free  func()
	what  string
	// No warning, because the object holds nothing.
	quiet bool
	place []uintptr
}

const guardClosed = 1
const guardCall = 2

// newGuard returns the guard of an object that free frees. skip is the number of calls between the
// program's call and this one.
func newGuard(what string, free func(), track bool, skip int) *guard {
	g := &guard{free: free, what: what}
	if track || trackLeaks.Load() {
		places := make([]uintptr, 16)
		g.place = places[:runtime.Callers(skip+2, places)]
	}
	return g
}

// enter begins a call. It fails once the object was closed. A true result needs leave.
func (g *guard) enter() bool {
	if g == nil {
		return false
	}
	if g.state.Add(guardCall)&guardClosed != 0 {
		g.leave()
		return false
	}
	return true
}

// leave ends a call.
func (g *guard) leave() {
	if g.state.Add(-guardCall) == guardClosed {
		g.release()
	}
}

// close ends the use of the object. It reports whether this call was the first.
func (g *guard) close() bool {
	if g == nil {
		return false
	}
	for {
		state := g.state.Load()
		if state&guardClosed != 0 {
			return false
		}
		if g.state.CompareAndSwap(state, state|guardClosed) {
			if state == 0 {
				g.release()
			}
			return true
		}
	}
}

// retire ends the use of an object that the garbage collector frees, when no goroutine can use it.
func (g *guard) retire() { g.state.Or(guardClosed) }

func (g *guard) isClosed() bool { return g == nil || g.state.Load()&guardClosed != 0 }

// release frees the object, once: the last call and a late one may both see it unused.
func (g *guard) release() {
	if g.freed.CompareAndSwap(false, true) {
		g.free()
	}
}

// collected runs when the garbage collector finds the owner of a guard: no call can be running.
func collected(g *guard) {
	if !g.isClosed() && !g.quiet {
		message := "esker: " + g.what + " was collected as garbage without a call of Close"
		if places := g.created(); places != "" {
			message += "; it was created by:\n" + places
		} else {
			message += "; SetLeakTracking(true) shows where it was created"
		}
		warnOfLeak(message)
	}
	g.retire()
	// Freeing may wait for the disk, and other objects wait for this function.
	go g.release()
}

// created returns the calls that created the object, one a line.
func (g *guard) created() string {
	if len(g.place) == 0 {
		return ""
	}
	var text strings.Builder
	frames := runtime.CallersFrames(g.place)
	for {
		frame, more := frames.Next()
		if frame.Function != "" && !strings.HasPrefix(frame.Function, "runtime.") {
			fmt.Fprintf(&text, "\t%s\n\t\t%s:%d\n", frame.Function, frame.File, frame.Line)
		}
		if !more {
			return text.String()
		}
	}
}
