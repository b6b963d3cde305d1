//! `esker_runtime_*`: threads, memory and background input and output that stores share.
//!
//! Invariant: a runtime lives as long as one of its handles, of the options that name it or of its
//! stores.

use std::ffi::c_char;

use esker::{Runtime, RuntimeOptions};
use esker_bindings::runtime;

use super::options::esker_options_t;
use crate::failure::{Failure, attempt, there};
use crate::ffi;

/// Options of a runtime.
#[derive(Default)]
pub struct esker_runtime_options_t {
    options: RuntimeOptions,
}

/// Threads, memory and background input and output that stores share. Many threads may use it.
pub struct esker_runtime_t {
    runtime: Runtime,
}

/// Creates options of a runtime with the defaults.
#[unsafe(no_mangle)]
pub extern "C" fn esker_runtime_options_create() -> Box<esker_runtime_options_t> {
    Box::default()
}

/// Frees options of a runtime. Runtimes made with them are not affected.
#[unsafe(no_mangle)]
pub extern "C" fn esker_runtime_options_destroy(options: Option<Box<esker_runtime_options_t>>) {
    drop(options);
}

/// Sets an option of a runtime from text. `auto` selects the default.
///
/// `memory_budget_bytes`: limit on memtables, block cache, filters and indexes of all stores, 1 MiB
/// to 1 TiB; default: a quarter of the memory available to the process, 4 MiB to 1 GiB.
/// `cache_size_bytes`: maximum of the block cache, 0 to the budget; default: half of the budget.
/// `cache_policy`: `s3fifo` (default), `sieve`, `clock`, `lru` or `none`. `threads_max`: maximum
/// number of worker threads, 3 to 256; default: the number of cores plus one, but at least three.
/// `background_bytes_per_second`: limit on what flushes and compactions write, 64 KiB or more;
/// default: 0, no limit. Sizes are numbers of bytes or texts such as `64MiB`. `esker_runtime_create`
/// checks the ranges. Fails with `ESKER_INVALID_ARGUMENT` for another name or text.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_runtime_options_set(
    options: Option<&mut esker_runtime_options_t>,
    name: *const c_char,
    value: *const c_char,
    message: Option<&mut *mut c_char>,
) -> i32 {
    // SAFETY: the caller meets the header's contract for strings and messages.
    unsafe {
        let outcome = attempt(|| {
            let (name, value) = (ffi::utf8(name, "name")?, ffi::utf8(value, "value")?);
            Ok(runtime::set(&mut there(options, "options handle")?.options, name, value)?)
        });
        ffi::code(outcome, message)
    }
}

/// Creates a runtime, which stores share that are opened with it (`esker_options_set_runtime`).
/// NULL `options` select the defaults. Its threads start when there is work, and end when the
/// handle is freed and the last of its stores is closed. It must not be used in a child of a fork.
/// Fails with `ESKER_INVALID_ARGUMENT` for a value out of its range.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_runtime_create(
    options: Option<&esker_runtime_options_t>,
    runtime: Option<&mut *mut esker_runtime_t>,
    message: Option<&mut *mut c_char>,
) -> i32 {
    let outcome = attempt(|| {
        let place = there(runtime, "place for the runtime")?;
        *place = std::ptr::null_mut();
        let options = options.map(|options| options.options.clone()).unwrap_or_default();
        let runtime = Runtime::new(options)?;
        *place = Box::into_raw(Box::new(esker_runtime_t { runtime }));
        Ok(())
    });
    // SAFETY: the caller meets the header's contract for messages.
    unsafe { ffi::code(outcome, message) }
}

/// Frees the handle of a runtime. Its open stores stay open.
#[unsafe(no_mangle)]
pub extern "C" fn esker_runtime_destroy(runtime: Option<Box<esker_runtime_t>>) {
    let _ = attempt(|| {
        drop(runtime);
        Ok(())
    });
}

/// Selects the runtime of stores opened with the options: its threads, memory budget, block cache
/// and limit on background writes. The store's own options for these have no effect. NULL, the
/// default, gives each store its own. The callbacks of a store occupy a thread of the runtime, so
/// they must not wait for another store of it.
#[unsafe(no_mangle)]
pub extern "C" fn esker_options_set_runtime(
    options: Option<&mut esker_options_t>,
    runtime: Option<&esker_runtime_t>,
) {
    if let Some(options) = options {
        options.options.runtime = runtime.map(|runtime| runtime.runtime.clone());
    }
}

/// Sets `*value` to what the stores of a runtime use now: `stores` (open ones with background work),
/// `threads` (started ones), `budget_bytes`, `memtable_bytes`, `memtable_limit_bytes` (at which
/// writers wait), `tables_bytes`, `cache_bytes`, `cache_capacity_bytes`, or `background_bytes`
/// (written since the creation of the runtime). Fails with `ESKER_INVALID_ARGUMENT` for another name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_runtime_metric(
    runtime: Option<&esker_runtime_t>,
    name: *const c_char,
    value: Option<&mut u64>,
    message: Option<&mut *mut c_char>,
) -> i32 {
    // SAFETY: the caller meets the header's contract for strings and messages.
    unsafe {
        let outcome = attempt(|| {
            let place = there(value, "place for the value")?;
            *place = 0;
            let name = ffi::utf8(name, "name")?;
            let all = runtime::metrics(&there(runtime, "runtime")?.runtime.metrics());
            let found = all.iter().find(|metric| metric.0 == name);
            *place = found.map(|metric| metric.1).ok_or_else(|| {
                let names: Vec<&str> = all.iter().map(|metric| metric.0).collect();
                let names = names.join(", ");
                Failure::invalid(format!("a runtime has no metric {name:?}; it has {names}"))
            })?;
            Ok(())
        });
        ffi::code(outcome, message)
    }
}
