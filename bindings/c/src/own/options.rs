//! `esker_options_*`: options for opening a store.

use std::ffi::{c_char, c_void};
use std::sync::Arc;

use esker::fs::Fs;
use esker::fs::MemFs;
use esker::{KeyOrder, Options, built_in_merge_operator};
use esker_bindings::encryption::Key;
use esker_bindings::orders::Orders;

use crate::callbacks::{
    CCompactionFilter, CComparator, CFilter, CMergeOperator, esker_compaction_filter_t,
    esker_compare_t, esker_create_filter_t, esker_destructor_t, esker_full_merge_t,
    esker_may_match_t, esker_name_t, esker_partial_merge_t,
};
use crate::failure::{Failure, attempt, there};
use crate::ffi;

/// Maximum length of the name of a merge operator, in bytes.
const OPERATOR_NAME_BYTES_MAX: usize = 255;

/// Options for opening a store: all options of `docs/options.md`, and the caller's functions.
#[derive(Default)]
pub struct esker_options_t {
    pub(crate) options: Options,
    pub(crate) fs: Option<Arc<dyn Fs>>,
    /// The key of encrypted stores.
    pub(crate) key: Option<Key>,
}

/// An in-memory file system. Its stores are lost once its last handle and last store are freed.
pub struct esker_memory_t {
    pub(crate) fs: Arc<MemFs>,
}

impl esker_memory_t {
    /// Returns the file system, for a store in it.
    pub fn shared(&self) -> Arc<dyn Fs> {
        self.fs.clone()
    }
}

/// Creates options with the defaults.
#[unsafe(no_mangle)]
pub extern "C" fn esker_options_create() -> Box<esker_options_t> {
    Box::default()
}

/// Frees options. Stores opened with them are not affected.
#[unsafe(no_mangle)]
pub extern "C" fn esker_options_destroy(options: Option<Box<esker_options_t>>) {
    drop(options);
}

/// Sets an option, by name or alias, from text: for example `"block_size"` to `"8KiB"`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_options_set(
    options: Option<&mut esker_options_t>,
    name: *const c_char,
    value: *const c_char,
    message: Option<&mut *mut c_char>,
) -> i32 {
    // SAFETY: the caller meets the header's contract for strings and messages.
    unsafe {
        let outcome = attempt(|| {
            let (name, value) = (ffi::utf8(name, "name")?, ffi::utf8(value, "value")?);
            Ok(there(options, "options handle")?.options.set(name, value)?)
        });
        ffi::code(outcome, message)
    }
}

/// Returns the value of an option as text, which must be freed with `esker_free`; NULL for an
/// unknown name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_options_get(
    options: Option<&esker_options_t>,
    name: *const c_char,
) -> *mut c_char {
    let found = attempt(|| {
        // SAFETY: the caller meets the header's contract for strings.
        let name = unsafe { ffi::utf8(name, "name") }?;
        Ok(there(options, "options handle")?.options.get(name))
    });
    found.ok().flatten().map_or(std::ptr::null_mut(), |text| ffi::give_text(&text))
}

/// Sets the key order of the keyspace `default` to `compare`, which returns a negative number, zero or
/// a positive number. The order of a given name must never change. Each call, which may come from any
/// thread, receives `state`. `destructor`, which may be NULL, receives `state` at the end, also if this
/// call fails.
///
/// `equal_is_identical` other than 0 promises that keys that compare as equal always have the same
/// bytes. Then tables get Bloom filters, which make gets of missing keys and of keys in deep levels
/// cheaper. With 0, which is always right, they get none. A wrong promise loses keys for reads.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_options_set_comparator(
    options: Option<&mut esker_options_t>,
    state: *mut c_void,
    destructor: esker_destructor_t,
    compare: esker_compare_t,
    equal_is_identical: u8,
    name: esker_name_t,
    message: Option<&mut *mut c_char>,
) -> i32 {
    let outcome = attempt(|| {
        let comparator = CComparator::new(state, destructor, compare, name)?
            .with_identical_equals(equal_is_identical != 0);
        there(options, "options handle")?.options.key_order =
            KeyOrder::Custom(Arc::new(comparator));
        Ok(())
    });
    // SAFETY: the caller meets the header's contract for messages.
    unsafe { ffi::code(outcome, message) }
}

/// Adds a key order that keyspaces of the store may have, with the arguments of
/// `esker_options_set_comparator`. A keyspace names it (`esker_keyspace_options_set_key_order`). A
/// store that ever had a keyspace of this order is opened and repaired only with the order among
/// its options. Of several orders with one name, the first is used.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_options_add_comparator(
    options: Option<&mut esker_options_t>,
    state: *mut c_void,
    destructor: esker_destructor_t,
    compare: esker_compare_t,
    equal_is_identical: u8,
    name: esker_name_t,
    message: Option<&mut *mut c_char>,
) -> i32 {
    let outcome = attempt(|| {
        let comparator = CComparator::new(state, destructor, compare, name)?
            .with_identical_equals(equal_is_identical != 0);
        let orders = &mut there(options, "options handle")?.options.key_orders;
        orders.push(KeyOrder::Custom(Arc::new(comparator)));
        Ok(())
    });
    // SAFETY: the caller meets the header's contract for messages.
    unsafe { ffi::code(outcome, message) }
}

/// Sets the key order of the keyspace `default` by its name: `esker.bytewise` (the default),
/// `esker.reverse`, or the name of a comparator that was added to these options before
/// (`esker_options_add_comparator`). A store keeps the order of its creation: an opening with another
/// one fails with `ESKER_INCOMPATIBLE`. Fails with `ESKER_INVALID_ARGUMENT` for any other name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_options_set_key_order(
    options: Option<&mut esker_options_t>,
    name: *const c_char,
    message: Option<&mut *mut c_char>,
) -> i32 {
    // SAFETY: the caller meets the header's contract for strings and messages.
    unsafe {
        let outcome = attempt(|| {
            let name = ffi::utf8(name, "name")?;
            let options = &mut there(options, "options handle")?.options;
            options.key_order = Orders::of(options).find(name)?;
            Ok(())
        });
        ffi::code(outcome, message)
    }
}

/// Replaces the Bloom filters of new tables by filters of the caller, in all keyspaces. Default: Bloom
/// filters with the option `filter_bits_per_key`, which has no effect then.
///
/// `create` makes the filter of a table that is written. It gets `state`, an array of the keys of the
/// table, an array of their lengths in bytes, the number of keys, and a place for the length of the
/// filter, which holds 0. The keys are distinct and in key order, and those that the table deletes are
/// among them; the number is 0 if the table only has range deletions. It returns the filter,
/// allocated with `malloc`, and stores its length in bytes. The library copies and frees it. A filter
/// without bytes may be NULL. A filter stays in memory while its table is open; 10 bits per key are
/// usual.
///
/// `may_match` gets `state`, a key, its length in bytes, a filter that `create` has made, and its
/// length. It returns 0 if no key of the filter is equal to the key in the key order. A get then does
/// not read the table. Any other value means that the key may be among them. If it returns 0 for a key
/// that is among them, gets do not find it, and `esker_verify` reports damage. It must allow a filter
/// without bytes, if `create` makes such ones.
///
/// The keys of a keyspace other than `default` have four bytes before them, in both functions: the
/// same for all keys of the keyspace, and others for each keyspace.
///
/// `name` returns a permanent name of the format of the filters, which each table keeps. At an opening
/// with functions of another name, or with none, a table with a filter of the caller is read as if it
/// may have every key. Bloom filters of existing tables are used in any case.
///
/// The functions are called from any thread, by several at once. They must return, must not throw or
/// jump out, and must not use the store: its functions fail with `ESKER_INVALID_ARGUMENT` then. Their
/// arguments are valid only during the call. `destructor`, which may be NULL, receives `state` once:
/// after the options and every store that was opened with them are freed, from any thread, or at once
/// if this call fails. Fails with `ESKER_INVALID_ARGUMENT` if `create`, `may_match` or `name` is NULL,
/// or `name` returns NULL. A later call replaces the functions of an earlier one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_options_set_filter(
    options: Option<&mut esker_options_t>,
    state: *mut c_void,
    destructor: esker_destructor_t,
    create: esker_create_filter_t,
    may_match: esker_may_match_t,
    name: esker_name_t,
    message: Option<&mut *mut c_char>,
) -> i32 {
    let outcome = attempt(|| {
        let filter = CFilter::new(state, destructor, create, may_match, name)?;
        there(options, "options handle")?.options.filter_policy = Some(Arc::new(filter));
        Ok(())
    });
    // SAFETY: the caller meets the header's contract for messages.
    unsafe { ffi::code(outcome, message) }
}

/// Adds a merge operator that the store and its keyspaces may have, by its name
/// (`esker_options_set_merge_operator`, `esker_keyspace_options_set_merge_operator`). The name is
/// permanent, has 1 to 255 bytes, and is not that of a built-in operator.
///
/// `full_merge` makes a value of an existing value and operands. `partial_merge`, which may be
/// NULL, makes one operand of several; without it, operands are kept until a compaction reaches the
/// value below them. Reads, flushes and compactions call both, on any thread and on several at
/// once, for operands in any grouping that keeps their order. The result must depend on the
/// arguments alone, and not on the grouping. The functions must return, must not throw or jump out,
/// and must not use the store: its functions fail with `ESKER_INVALID_ARGUMENT` then. Their
/// arguments are valid only during the call.
///
/// If `full_merge` returns NULL, the read fails with `ESKER_INVALID_ARGUMENT` and the reason; a
/// flush or compaction keeps the operands. Each call receives `state`. `destructor`, which may be
/// NULL, receives `state` once: after the options and every store that uses the operator are freed,
/// from any thread, or at once if this call fails.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_options_add_merge_operator(
    options: Option<&mut esker_options_t>,
    state: *mut c_void,
    destructor: esker_destructor_t,
    full_merge: esker_full_merge_t,
    partial_merge: esker_partial_merge_t,
    name: esker_name_t,
    message: Option<&mut *mut c_char>,
) -> i32 {
    let outcome = attempt(|| {
        let operator = CMergeOperator::new(state, destructor, full_merge, partial_merge, name)?;
        let name = esker::MergeOperator::name(&operator);
        if name.is_empty() || name.len() > OPERATOR_NAME_BYTES_MAX {
            return Err(Failure::invalid(format!(
                "the name of a merge operator has {} bytes; it takes 1 to \
                 {OPERATOR_NAME_BYTES_MAX}",
                name.len()
            )));
        }
        if built_in_merge_operator(name).is_some() {
            let message = format!("{name:?} is the name of a built-in merge operator");
            return Err(Failure::invalid(message));
        }
        there(options, "options handle")?.options.merge_operators.push(Arc::new(operator));
        Ok(())
    });
    // SAFETY: the caller meets the header's contract for messages.
    unsafe { ffi::code(outcome, message) }
}

/// Sets the merge operator of the keyspace `default` by its name: a built-in one (`add_i64`,
/// `add_u64`, `max`, `min`, `append`, `append(,)`, `set_union`, `set_union(,)`), or one that was
/// added to these options before. Default: none, so merges are refused. The store keeps the name
/// with its first opening and cannot be opened with another operator. It need not be set again if
/// it is built in. Fails with `ESKER_INVALID_ARGUMENT` for any other name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_options_set_merge_operator(
    options: Option<&mut esker_options_t>,
    name: *const c_char,
    message: Option<&mut *mut c_char>,
) -> i32 {
    // SAFETY: the caller meets the header's contract for strings and messages.
    unsafe {
        let outcome = attempt(|| {
            let name = ffi::utf8(name, "name")?;
            let options = &mut there(options, "options handle")?.options;
            let added = || options.merge_operators.iter().find(|added| added.name() == name);
            let found = built_in_merge_operator(name).or_else(|| added().cloned());
            options.merge_operator = Some(found.ok_or_else(|| {
                Failure::invalid(format!(
                    "the merge operator {name:?} is neither built in nor added to the options"
                ))
            })?);
            Ok(())
        });
        ffi::code(outcome, message)
    }
}

/// Adds a compaction filter that the store and its keyspaces may have, by its name
/// (`esker_options_set_compaction_filter`, `esker_keyspace_options_set_compaction_filter`).
///
/// Compactions call `filter` for pairs that no snapshot sees, on threads of the store. A pair may
/// be passed several times, or never; merge operands are not passed. The rules for `filter`,
/// `state` and `destructor` are those of `esker_options_add_merge_operator`. If `filter` returns an
/// unknown decision, or replaces a value by NULL, its compaction calls it no more and keeps the
/// remaining pairs.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_options_add_compaction_filter(
    options: Option<&mut esker_options_t>,
    state: *mut c_void,
    destructor: esker_destructor_t,
    filter: esker_compaction_filter_t,
    name: esker_name_t,
    message: Option<&mut *mut c_char>,
) -> i32 {
    let outcome = attempt(|| {
        let filter = CCompactionFilter::new(state, destructor, filter, name)?;
        there(options, "options handle")?.options.compaction_filters.push(Arc::new(filter));
        Ok(())
    });
    // SAFETY: the caller meets the header's contract for messages.
    unsafe { ffi::code(outcome, message) }
}

/// Sets the compaction filter of the keyspace `default` by its name: one that was added to these
/// options before. It is not stored. Default: none. Fails with `ESKER_INVALID_ARGUMENT` for any
/// other name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_options_set_compaction_filter(
    options: Option<&mut esker_options_t>,
    name: *const c_char,
    message: Option<&mut *mut c_char>,
) -> i32 {
    // SAFETY: the caller meets the header's contract for strings and messages.
    unsafe {
        let outcome = attempt(|| {
            let name = ffi::utf8(name, "name")?;
            let options = &mut there(options, "options handle")?.options;
            let found = options.compaction_filters.iter().find(|added| added.name() == name);
            options.compaction_filter = Some(found.cloned().ok_or_else(|| {
                Failure::invalid(format!(
                    "the compaction filter {name:?} was not added to the options"
                ))
            })?);
            Ok(())
        });
        ffi::code(outcome, message)
    }
}

/// Creates an empty in-memory file system.
#[unsafe(no_mangle)]
pub extern "C" fn esker_memory_create() -> Box<esker_memory_t> {
    Box::new(esker_memory_t { fs: MemFs::new() })
}

/// Frees the handle of the file system. Open stores in it stay open.
#[unsafe(no_mangle)]
pub extern "C" fn esker_memory_destroy(memory: Option<Box<esker_memory_t>>) {
    drop(memory);
}

/// Selects `memory` instead of the disk for stores; NULL selects the disk again.
#[unsafe(no_mangle)]
pub extern "C" fn esker_options_set_memory(
    options: Option<&mut esker_options_t>,
    memory: Option<&esker_memory_t>,
) {
    if let Some(options) = options {
        options.fs = memory.map(|memory| memory.fs.clone() as Arc<dyn Fs>);
    }
}
