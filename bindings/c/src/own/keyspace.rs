//! `esker_keyspace_open` and other functions on the keyspaces of a store.
//!
//! Invariants:
//! 1. A handle of a keyspace does not keep the store open.
//! 2. A function on a keyspace runs on an open store and not within the store's own comparator or
//!    filter, because it takes the store from the store's handle.

use std::ffi::c_char;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use esker::{Keyspace, KeyspaceOptions};
use esker_bindings::handle::{Handle, Opened};
use esker_bindings::orders::Orders;

use super::store::{esker_db_t, on};
use crate::failure::{Outcome, attempt, there};
use crate::ffi;

/// A keyspace: an ordered map of its own within a store, with its own key order and options. Many
/// threads may call functions on it concurrently, except `esker_keyspace_close`. It may be closed
/// before or after the store.
pub struct esker_keyspace_t {
    pub(super) store: Arc<Handle>,
    pub(super) keyspace: Keyspace,
}

/// Options of a new keyspace. They are stored with it.
#[derive(Default)]
pub struct esker_keyspace_options_t {
    options: KeyspaceOptions,
    /// Name of the key order; bytewise if `None`.
    order: Option<String>,
}

impl esker_keyspace_options_t {
    fn resolve(&self, orders: &Orders) -> Outcome<KeyspaceOptions> {
        let options = self.options.clone();
        match &self.order {
            Some(name) => Ok(options.key_order(orders.find(name)?)),
            None => Ok(options),
        }
    }
}

/// A keyspace whose store stays open during a call.
pub(super) struct OpenKeyspace<'a> {
    keyspace: &'a Keyspace,
    _store: Opened,
}

impl Deref for OpenKeyspace<'_> {
    type Target = Keyspace;

    #[inline]
    fn deref(&self) -> &Keyspace {
        self.keyspace
    }
}

impl esker_keyspace_t {
    fn give(store: &esker_db_t, keyspace: Keyspace) -> *mut esker_keyspace_t {
        Box::into_raw(Box::new(esker_keyspace_t { store: store.handle.clone(), keyspace }))
    }

    /// Returns the keyspace, or a failure if the handle is null or the store is closed.
    #[inline]
    pub(super) fn open(handle: Option<&esker_keyspace_t>) -> Outcome<OpenKeyspace<'_>> {
        let handle = there(handle, "keyspace's handle")?;
        Ok(OpenKeyspace { keyspace: &handle.keyspace, _store: handle.store.open()? })
    }
}

/// Creates options of a keyspace. Those that are not set are the store's; the key order is
/// bytewise.
#[unsafe(no_mangle)]
pub extern "C" fn esker_keyspace_options_create() -> Box<esker_keyspace_options_t> {
    Box::default()
}

/// Frees options of a keyspace. Keyspaces opened with them are not affected.
#[unsafe(no_mangle)]
pub extern "C" fn esker_keyspace_options_destroy(options: Option<Box<esker_keyspace_options_t>>) {
    drop(options);
}

/// Sets an option of a keyspace, by name or alias, from text: one that a keyspace can have of its own
/// by `docs/options.md`, or `merge_operator`, `compaction_filter` or `ttl_ms`. Any other option is a
/// failure.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_keyspace_options_set(
    options: Option<&mut esker_keyspace_options_t>,
    name: *const c_char,
    value: *const c_char,
    message: Option<&mut *mut c_char>,
) -> i32 {
    // SAFETY: the caller meets the header's contract for strings and messages.
    unsafe {
        let outcome = attempt(|| {
            let (name, value) = (ffi::utf8(name, "name")?, ffi::utf8(value, "value")?);
            let options = there(options, "options handle")?;
            options.options = options.options.clone().set(name, value)?;
            Ok(())
        });
        ffi::code(outcome, message)
    }
}

/// Sets the key order by its name: `esker.bytewise`, `esker.reverse`, or the name of a comparator
/// in the options with which the store was opened. `esker_keyspace_open` fails for any other name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_keyspace_options_set_key_order(
    options: Option<&mut esker_keyspace_options_t>,
    name: *const c_char,
    message: Option<&mut *mut c_char>,
) -> i32 {
    // SAFETY: the caller meets the header's contract for strings and messages.
    unsafe {
        let outcome = attempt(|| {
            let name = ffi::utf8(name, "name")?;
            there(options, "options handle")?.order = Some(name.to_string());
            Ok(())
        });
        ffi::code(outcome, message)
    }
}

/// Changes options of a keyspace by a name.
///
/// # Safety
/// The caller meets the conditions of [`ffi::utf8`] for `name`, and of [`ffi::code`] for `message`.
unsafe fn set_name(
    options: Option<&mut esker_keyspace_options_t>,
    name: *const c_char,
    message: Option<&mut *mut c_char>,
    set: impl FnOnce(KeyspaceOptions, &str) -> KeyspaceOptions,
) -> i32 {
    // SAFETY: guaranteed by the caller.
    unsafe {
        let outcome = attempt(|| {
            let name = ffi::utf8(name, "name")?;
            let options = there(options, "options handle")?;
            options.options = set(options.options.clone(), name);
            Ok(())
        });
        ffi::code(outcome, message)
    }
}

/// Sets the merge operator by its name: a built-in one (see `esker_options_set_merge_operator`), or
/// one that was added to the options with which the store is opened
/// (`esker_options_add_merge_operator`). Default: none, so merges are refused.
/// `esker_keyspace_open` fails for any other name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_keyspace_options_set_merge_operator(
    options: Option<&mut esker_keyspace_options_t>,
    name: *const c_char,
    message: Option<&mut *mut c_char>,
) -> i32 {
    // SAFETY: the caller meets the header's contract for strings and messages.
    unsafe { set_name(options, name, message, |options, name| options.merge_operator(name)) }
}

/// Sets the compaction filter by its name, which was added to the options with which the store is
/// opened (`esker_options_add_compaction_filter`). Default: none. `esker_keyspace_open` fails for
/// any other name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_keyspace_options_set_compaction_filter(
    options: Option<&mut esker_keyspace_options_t>,
    name: *const c_char,
    message: Option<&mut *mut c_char>,
) -> i32 {
    // SAFETY: the caller meets the header's contract for strings and messages.
    unsafe { set_name(options, name, message, |options, name| options.compaction_filter(name)) }
}

/// Sets the time to live, in milliseconds, of pairs that are put without one. The default,
/// `ESKER_NEVER_MS`, means that they do not expire. Merge operands never expire.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_keyspace_options_set_ttl_ms(
    options: Option<&mut esker_keyspace_options_t>,
    ttl_ms: u64,
    message: Option<&mut *mut c_char>,
) -> i32 {
    let outcome = attempt(|| {
        let options = there(options, "options handle")?;
        options.options = options.options.clone().ttl(Duration::from_millis(ttl_ms));
        Ok(())
    });
    // SAFETY: the caller meets the header's contract for messages.
    unsafe { ffi::code(outcome, message) }
}

/// Opens the keyspace `name`, and creates it if it does not exist. NULL `options` select the
/// defaults. Fails with `ESKER_INVALID_ARGUMENT` if the keyspace exists with another key order or
/// other options, and for a name that is empty, longer than 255 bytes, not UTF-8, or has control
/// characters. The keyspace `default` always exists; it has the store's key order and options, and
/// holds the keys of the functions without a keyspace.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_keyspace_open(
    db: Option<&esker_db_t>,
    name: *const c_char,
    options: Option<&esker_keyspace_options_t>,
    keyspace: Option<&mut *mut esker_keyspace_t>,
    message: Option<&mut *mut c_char>,
) -> i32 {
    // SAFETY: the caller meets the header's contract for strings and messages.
    unsafe {
        let outcome = attempt(|| {
            let place = there(keyspace, "place for the keyspace's handle")?;
            *place = std::ptr::null_mut();
            let name = ffi::utf8(name, "name")?;
            let db = there(db, "store's handle")?;
            let store = db.handle.open()?;
            let options = options.map(|options| options.resolve(&db.orders)).transpose()?;
            let opened = store.keyspace(name, &options.unwrap_or_default())?;
            *place = esker_keyspace_t::give(db, opened);
            Ok(())
        });
        ffi::code(outcome, message)
    }
}

/// Opens the keyspace `name`, whatever its options are. Sets `*keyspace` to NULL if there is no
/// such keyspace, which is not a failure.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_keyspace_find(
    db: Option<&esker_db_t>,
    name: *const c_char,
    keyspace: Option<&mut *mut esker_keyspace_t>,
    message: Option<&mut *mut c_char>,
) -> i32 {
    // SAFETY: the caller meets the header's contract for strings and messages.
    unsafe {
        let outcome = attempt(|| {
            let place = there(keyspace, "place for the keyspace's handle")?;
            *place = std::ptr::null_mut();
            let name = ffi::utf8(name, "name")?;
            let db = there(db, "store's handle")?;
            if let Some(found) = db.handle.open()?.existing_keyspace(name)? {
                *place = esker_keyspace_t::give(db, found);
            }
            Ok(())
        });
        ffi::code(outcome, message)
    }
}

/// Frees the handle of a keyspace. The keyspace stays. No other call may be running on the handle.
#[unsafe(no_mangle)]
pub extern "C" fn esker_keyspace_close(keyspace: Option<Box<esker_keyspace_t>>) {
    let _ = attempt(|| {
        drop(keyspace);
        Ok(())
    });
}

/// Sets `*names` to the names of all keyspaces, one per line: `default`, then the others in
/// alphabetical order. The text must be freed with `esker_free`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_keyspaces(
    db: Option<&esker_db_t>,
    names: Option<&mut *mut c_char>,
    message: Option<&mut *mut c_char>,
) -> i32 {
    let outcome = attempt(|| {
        let place = there(names, "place for the names")?;
        *place = std::ptr::null_mut();
        // No name has control characters.
        *place = ffi::give_text(&esker_db_t::open(db)?.keyspaces().join("\n"));
        Ok(())
    });
    // SAFETY: the caller meets the header's contract for messages.
    unsafe { ffi::code(outcome, message) }
}

/// Gives the keyspace `name` another name. Its handles stay valid. Fails with `ESKER_NOT_FOUND` if
/// there is no such keyspace, and with `ESKER_INVALID_ARGUMENT` for a `new_name` that is in use or
/// not allowed, and for the keyspace `default`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_keyspace_rename(
    db: Option<&esker_db_t>,
    name: *const c_char,
    new_name: *const c_char,
    message: Option<&mut *mut c_char>,
) -> i32 {
    // SAFETY: the caller meets the header's contract for strings and messages.
    unsafe {
        on(db, message, |db| {
            let (name, new_name) = (ffi::utf8(name, "name")?, ffi::utf8(new_name, "new name")?);
            Ok(db.rename_keyspace(name, new_name)?)
        })
    }
}

/// Drops the keyspace `name` with all its keys. The space is freed in the background. Existing
/// iterators go on; every other use of its handles fails with `ESKER_NOT_FOUND`, except
/// `esker_keyspace_close` and the functions that return its name, its number, its tree, its key order
/// and its own options. The keyspace `default` cannot be dropped.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_keyspace_drop(
    db: Option<&esker_db_t>,
    name: *const c_char,
    message: Option<&mut *mut c_char>,
) -> i32 {
    // SAFETY: the caller meets the header's contract for strings and messages.
    unsafe { on(db, message, |db| Ok(db.drop_keyspace(ffi::utf8(name, "name")?)?)) }
}

/// Returns the name of a keyspace, which must be freed with `esker_free`; NULL for NULL.
#[unsafe(no_mangle)]
pub extern "C" fn esker_keyspace_name(keyspace: Option<&esker_keyspace_t>) -> *mut c_char {
    keyspace.map_or(std::ptr::null_mut(), |handle| ffi::give_text(&handle.keyspace.name()))
}

/// Returns the number of a keyspace in its store, which no other keyspace ever has; 0 for the
/// keyspace `default` and for NULL.
#[unsafe(no_mangle)]
pub extern "C" fn esker_keyspace_id(keyspace: Option<&esker_keyspace_t>) -> u32 {
    keyspace.map_or(0, |handle| handle.keyspace.id())
}

/// Returns the name of the key order of a keyspace, which must be freed with `esker_free`; NULL for
/// NULL.
#[unsafe(no_mangle)]
pub extern "C" fn esker_keyspace_key_order(keyspace: Option<&esker_keyspace_t>) -> *mut c_char {
    keyspace
        .map_or(std::ptr::null_mut(), |handle| ffi::give_text(handle.keyspace.key_order().name()))
}

/// Returns the options that a keyspace got when it was created, `name=value` a line, by name: what
/// `esker_keyspace_options_set` takes to make an equal keyspace, besides the key order. The other
/// options are the store's. The text is empty for the keyspace `default`. It must be freed with
/// `esker_free`; NULL for NULL.
#[unsafe(no_mangle)]
pub extern "C" fn esker_keyspace_own_options(keyspace: Option<&esker_keyspace_t>) -> *mut c_char {
    keyspace.map_or(std::ptr::null_mut(), |handle| {
        let options = handle.keyspace.options();
        let lines: Vec<String> =
            options.iter().map(|(name, value)| format!("{name}={value}")).collect();
        ffi::give_text(&lines.join("\n"))
    })
}

/// Returns the number of the tree that holds the keys of a keyspace, as in `esker_event_t`. Keyspaces
/// with the same key order and the same options share a tree. 0 is the tree of the keyspace `default`
/// alone; 0 for NULL.
#[unsafe(no_mangle)]
pub extern "C" fn esker_keyspace_tree(keyspace: Option<&esker_keyspace_t>) -> u32 {
    keyspace.map_or(0, |handle| handle.keyspace.tree())
}
