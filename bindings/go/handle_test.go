// The count of the calls that use an object.

package esker

import (
	"sync"
	"sync/atomic"
	"testing"
)

func TestGuardFreesOnceAfterTheLastCall(t *testing.T) {
	freed := 0
	g := newGuard("a test", func() { freed++ }, false, 0)
	if !g.enter() || !g.enter() {
		t.Fatal("a new object was closed")
	}
	if !g.close() || g.close() || freed != 0 {
		t.Fatal("a close during two calls: freed ", freed)
	}
	if g.enter() {
		t.Fatal("a call began after the close")
	}
	g.leave()
	if freed != 0 {
		t.Fatal("freed during a call")
	}
	g.leave()
	if freed != 1 || g.enter() || g.close() || freed != 1 {
		t.Fatal("after the last call: freed ", freed)
	}
	if (*guard)(nil).enter() || (*guard)(nil).close() || !(*guard)(nil).isClosed() {
		t.Fatal("an object that was never opened was used")
	}
}

func TestGuardUnderManyGoroutines(t *testing.T) {
	for range 500 {
		var alive atomic.Bool
		var freed, running atomic.Int32
		alive.Store(true)
		g := newGuard("a test", func() {
			alive.Store(false)
			freed.Add(1)
		}, false, 0)
		var all sync.WaitGroup
		for i := range 4 {
			all.Add(1)
			go func() {
				defer all.Done()
				for n := range 20 {
					if i == 3 && n == 10 {
						g.close()
					}
					if g.enter() {
						if !alive.Load() {
							running.Add(1)
						}
						g.leave()
					}
				}
			}()
		}
		all.Wait()
		if freed.Load() != 1 || running.Load() != 0 {
			t.Fatalf("freed %d times, used %d times after that", freed.Load(), running.Load())
		}
	}
}
