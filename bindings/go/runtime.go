// Runtimes: threads, memory and background input and output that stores share.

package esker

/*
#include "shim.h"
*/
import "C"

import "runtime"

// A Runtime has threads, a memory budget, a block cache and a limit on background writes that stores
// share; see Options.Runtime. Many goroutines may use it at once. It is an io.Closer.
type Runtime struct {
	guard *guard
	c     *C.esker_runtime_t
}

// NewRuntime creates a runtime. Its threads start when there is work. The settings, which may be
// nil, are text, such as "64MiB" for a size, or auto for the default:
//
//   - memory_budget_bytes: the limit on memtables, block cache, filters and indexes of all stores,
//     1 MiB to 1 TiB. Default: a quarter of the memory available to the process, 4 MiB to 1 GiB.
//   - cache_size_bytes: the maximum of the block cache, 0 to the budget. Default: half of the budget.
//   - cache_policy: s3fifo (the default), sieve, clock, lru or none.
//   - threads_max: the maximum number of threads, 3 to 256. Default: the number of cores plus one,
//     but at least three.
//   - background_bytes_per_second: the limit on what flushes and compactions write, 64 KiB or more.
//     Default: 0, no limit.
//
// ErrInvalidArgument for another name, text or range.
func NewRuntime(settings map[string]string) (*Runtime, error) {
	options := C.esker_runtime_options_create()
	defer C.esker_runtime_options_destroy(options)
	for _, name := range sortedNames(settings) {
		if err := setting(name, settings[name], func(n, v *C.char, m **C.char) C.int32_t {
			return C.esker_runtime_options_set(options, n, v, m)
		}); err != nil {
			return nil, err
		}
	}
	var c *C.esker_runtime_t
	var message *C.char
	if err := failed(C.esker_runtime_create(options, &c, &message), message); err != nil {
		return nil, err
	}
	r := &Runtime{c: c}
	r.guard = newGuard("a runtime", func() { C.esker_runtime_destroy(c) }, false, 1)
	r.guard.quiet = true
	runtime.AddCleanup(r, collected, r.guard)
	return r, nil
}

// Metric returns what the stores of the runtime use now: stores (open ones), threads (started ones),
// budget_bytes, memtable_bytes, memtable_limit_bytes (at which writers wait), tables_bytes,
// cache_bytes, cache_capacity_bytes, or background_bytes (written since the creation of the runtime).
// ErrInvalidArgument for another name.
func (r *Runtime) Metric(name string) (uint64, error) {
	if !r.guard.enter() {
		return 0, closed("runtime")
	}
	defer r.guard.leave()
	defer runtime.KeepAlive(r)
	var value C.uint64_t
	err := named(name, func(name *C.char, message **C.char) C.int32_t {
		return C.esker_runtime_metric(r.c, name, &value, message)
	})
	return uint64(value), err
}

// Close frees the handle of the runtime. Its open stores stay open; its threads end once the last of
// them is closed. A Runtime that is not closed is freed by the garbage collector. Closing twice is
// allowed.
func (r *Runtime) Close() error {
	r.guard.close()
	return nil
}
