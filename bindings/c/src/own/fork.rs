//! `esker_fork`, `esker_lineage` and `esker_diff_*`: branches of a store, and what differs.
//!
//! Invariants: a failed call makes no store; a difference that was returned stays valid until the
//! next call on its comparison.

use std::ffi::{CString, c_char, c_void};

use esker::diff::{Diff, DiffOptions, DiffSource, DiffValue, Difference, Relation};
use esker::fork::ForkOptions;

use super::common::{c_text, data_of};
use super::merge_and_ttl::ESKER_NEVER_MS;
use super::read::esker_snapshot_t;
use super::store::{esker_db_t, on};
use crate::failure::{Failure, Outcome, attempt, there};
use crate::ffi;

/// The compared stores are the same store, or copies of its directory.
pub const ESKER_RELATION_SAME_STORE: i32 = 1;
/// The second store is a fork of the first, or a fork of a fork.
pub const ESKER_RELATION_DESCENDANT: i32 = 2;
/// The first store is a fork of the second, or a fork of a fork.
pub const ESKER_RELATION_ANCESTOR: i32 = 3;
/// Both stores are forks that descend from the same store.
pub const ESKER_RELATION_SIBLINGS: i32 = 4;
/// Neither store remembers the other, nor a common ancestor.
pub const ESKER_RELATION_UNRELATED: i32 = 5;

/// What a fork shares with its parent. Later versions may add fields at the end.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct esker_fork_report_t {
    /// Identity of the fork.
    pub store_id: u64,
    /// Number of tables and value files that the fork shares with the parent by hard links.
    pub linked_files: u64,
    /// Size of these files, in bytes.
    pub linked_bytes: u64,
    /// Number of tables and value files that were copied, because they could not be linked.
    pub copied_files: u64,
    /// Size of these files, in bytes.
    pub copied_bytes: u64,
}

/// Receives a store that a fork descends from: state, its identity, its name (NULL if it has none),
/// and its sequence number at the fork.
pub type esker_visit_ancestor_t =
    Option<unsafe extern "C" fn(*mut c_void, u64, *const c_char, u64)>;

/// A key whose value, or whose time of expiry, is not the same in two compared stores. Later
/// versions may add fields at the end.
#[repr(C)]
pub struct esker_difference_t {
    /// Name of the keyspace.
    pub keyspace: *const c_char,
    /// The key.
    pub key: *const u8,
    /// Length of the key.
    pub key_len: usize,
    /// The value in the first store; NULL if it does not have the key.
    pub old_value: *const u8,
    /// Length of the value in the first store.
    pub old_value_len: usize,
    /// Time at which the pair of the first store expires, in milliseconds since 1970;
    /// `ESKER_NEVER_MS` if it does not.
    pub old_expires_ms: u64,
    /// The value in the second store; NULL if it does not have the key.
    pub new_value: *const u8,
    /// Length of the value in the second store.
    pub new_value_len: usize,
    /// Time at which the pair of the second store expires; `ESKER_NEVER_MS` if it does not.
    pub new_expires_ms: u64,
}

/// A comparison of two stores. It holds the files and memtables of both as they were at its creation.
/// It may be used by one thread at a time, and freed before or after the stores.
pub struct esker_diff_t {
    diff: Diff,
    shown: Option<Box<Shown>>,
}

/// A difference as C takes it, and what it points to.
struct Shown {
    difference: esker_difference_t,
    _keyspace: CString,
    _of: Difference,
}

impl Shown {
    fn of(found: Difference) -> Box<Shown> {
        let keyspace = c_text(&found.keyspace);
        let (key, key_len) = data_of(&found.key);
        let (old_value, old_value_len, old_expires_ms) = side(found.old.as_ref());
        let (new_value, new_value_len, new_expires_ms) = side(found.new.as_ref());
        let difference = esker_difference_t {
            keyspace: keyspace.as_ptr(),
            key,
            key_len,
            old_value,
            old_value_len,
            old_expires_ms,
            new_value,
            new_value_len,
            new_expires_ms,
        };
        Box::new(Shown { difference, _keyspace: keyspace, _of: found })
    }
}

/// Returns the value of one side, its length and its time of expiry.
fn side(value: Option<&DiffValue>) -> (*const u8, usize, u64) {
    value.map_or((std::ptr::null(), 0, ESKER_NEVER_MS), |side| {
        let (value, len) = data_of(&side.value);
        (value, len, side.expires_ms.unwrap_or(ESKER_NEVER_MS))
    })
}

/// Creates a fork of the store in the directory `path`, which must not exist: a store of its own that
/// begins with the content of this one. No write into one of them is visible in the other. `name` is
/// kept in the fork, and may be NULL. Tables are hard-linked where that is possible, so a fork takes
/// time for each file and not for each byte. The fork is durable when this returns. Sets `*report`,
/// which must be freed with `esker_free`; `report` may be NULL.
///
/// The fork holds everything written before the call, and possibly some of the writes made during
/// it. A store opened read-only can be forked, also while another process writes to it. Fails with
/// `ESKER_INVALID_ARGUMENT` if `path` exists or is inside a store, and for a name that is empty,
/// longer than 255 bytes or has control characters.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_fork(
    db: Option<&esker_db_t>,
    path: *const c_char,
    name: *const c_char,
    report: Option<&mut *mut esker_fork_report_t>,
    message: Option<&mut *mut c_char>,
) -> i32 {
    // SAFETY: the caller meets the header's contract for strings and messages.
    unsafe {
        on(db, message, |db| {
            let mut report = report;
            if let Some(place) = &mut report {
                **place = std::ptr::null_mut();
            }
            let mut options = ForkOptions::default();
            if !name.is_null() {
                options = options.name(ffi::utf8(name, "name")?);
            }
            let made = db.fork_with(ffi::path(path)?, &options)?;
            if let Some(place) = report {
                *place = ffi::give(esker_fork_report_t {
                    store_id: made.store_id,
                    linked_files: made.linked_files,
                    linked_bytes: made.linked_bytes,
                    copied_files: made.copied_files,
                    copied_bytes: made.copied_bytes,
                });
            }
            Ok(())
        })
    }
}

/// Sets `*name` to the name that the store got as a fork, which must be freed with `esker_free`, or
/// to NULL if it has none; `name` may be NULL. Calls `visit`, which may be NULL, for each store that
/// this one descends from, the parent first. A store that is no fork has none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_lineage(
    db: Option<&esker_db_t>,
    name: Option<&mut *mut c_char>,
    state: *mut c_void,
    visit: esker_visit_ancestor_t,
    message: Option<&mut *mut c_char>,
) -> i32 {
    let outcome = attempt(|| {
        let lineage = esker_db_t::open(db)?.lineage();
        if let Some(place) = name {
            *place = lineage.name.as_deref().map_or(std::ptr::null_mut(), ffi::give_text);
        }
        let Some(visit) = visit else { return Ok(()) };
        for ancestor in lineage.ancestors {
            let name = ancestor.name.as_deref().map(c_text);
            let text = name.as_ref().map_or(std::ptr::null(), |name| name.as_ptr());
            // SAFETY: the function and `state` belong together by the caller's contract; the text
            // outlives the call.
            unsafe { visit(state, ancestor.store_id, text, ancestor.seqno) };
        }
        Ok(())
    });
    // SAFETY: the caller meets the header's contract for messages.
    unsafe { ffi::code(outcome, message) }
}

/// Compares two stores, keyspace by keyspace: `default` first and the others by name, and within a
/// keyspace in key order. A side is the state of a store, or a snapshot if that is not NULL; its
/// store may then be NULL. With a `keyspace`, which may be NULL, only the one of this name is
/// compared. Tables that both stores share, as a fork and its parent do, are read only near changed
/// keys. A keyspace that one store lacks counts as empty there.
///
/// Fails with `ESKER_INCOMPATIBLE` if a keyspace of the same name has different key orders, and with
/// `ESKER_NOT_FOUND` if neither store has the keyspace.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_diff_create(
    old_db: Option<&esker_db_t>,
    old_snapshot: Option<&esker_snapshot_t>,
    new_db: Option<&esker_db_t>,
    new_snapshot: Option<&esker_snapshot_t>,
    keyspace: *const c_char,
    diff: Option<&mut *mut esker_diff_t>,
    message: Option<&mut *mut c_char>,
) -> i32 {
    // SAFETY: the caller meets the header's contract for strings and messages.
    unsafe {
        let outcome = attempt(|| {
            let place = there(diff, "place for the comparison")?;
            *place = std::ptr::null_mut();
            let mut options = DiffOptions::default();
            if !keyspace.is_null() {
                options = options.keyspace(ffi::utf8(keyspace, "keyspace")?);
            }
            let old_store = old_snapshot.is_none().then(|| esker_db_t::open(old_db)).transpose()?;
            let new_store = new_snapshot.is_none().then(|| esker_db_t::open(new_db)).transpose()?;
            let old = source(old_store.as_deref(), old_snapshot)?;
            let new = source(new_store.as_deref(), new_snapshot)?;
            let diff = esker::diff::diff_with(old, new, &options)?;
            *place = Box::into_raw(Box::new(esker_diff_t { diff, shown: None }));
            Ok(())
        });
        ffi::code(outcome, message)
    }
}

/// Returns a side of a comparison.
fn source<'a>(
    db: Option<&'a esker::Db>,
    snapshot: Option<&'a esker_snapshot_t>,
) -> Outcome<DiffSource<'a>> {
    match (db, snapshot) {
        (_, Some(snapshot)) => Ok(DiffSource::from(&snapshot.snapshot)),
        (Some(db), None) => Ok(DiffSource::from(db)),
        (None, None) => Err(Failure::invalid("a store's handle is NULL")),
    }
}

/// Sets `*difference` to the next difference, or to NULL at the end. It is valid until the next call
/// on the comparison. The comparison is at its end after a failure.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_diff_next(
    diff: Option<&mut esker_diff_t>,
    difference: Option<&mut *const esker_difference_t>,
    message: Option<&mut *mut c_char>,
) -> i32 {
    let outcome = attempt(|| {
        let place = there(difference, "place for the difference")?;
        *place = std::ptr::null();
        let diff = there(diff, "comparison")?;
        diff.shown = diff.diff.next().transpose()?.map(Shown::of);
        *place = diff.shown.as_ref().map_or(std::ptr::null(), |shown| &raw const shown.difference);
        Ok(())
    });
    // SAFETY: the caller meets the header's contract for messages.
    unsafe { ffi::code(outcome, message) }
}

/// Returns how the stores descend from each other: `ESKER_RELATION_SAME_STORE` and so on; 0 for NULL.
#[unsafe(no_mangle)]
pub extern "C" fn esker_diff_relation(diff: Option<&esker_diff_t>) -> i32 {
    diff.map_or(0, |diff| match diff.diff.relation {
        Relation::SameStore => ESKER_RELATION_SAME_STORE,
        Relation::Descendant => ESKER_RELATION_DESCENDANT,
        Relation::Ancestor => ESKER_RELATION_ANCESTOR,
        Relation::Siblings => ESKER_RELATION_SIBLINGS,
        _ => ESKER_RELATION_UNRELATED,
    })
}

/// Returns the number of tables that both stores have; 0 for NULL. If it is 0, every pair is read.
#[unsafe(no_mangle)]
pub extern "C" fn esker_diff_shared_files(diff: Option<&esker_diff_t>) -> u64 {
    diff.map_or(0, |diff| diff.diff.shared_files)
}

/// Returns the size of the tables that both stores have, in bytes; 0 for NULL.
#[unsafe(no_mangle)]
pub extern "C" fn esker_diff_shared_bytes(diff: Option<&esker_diff_t>) -> u64 {
    diff.map_or(0, |diff| diff.diff.shared_bytes)
}

/// Returns the names of the keyspaces that only the second store has, or with an `old` other than 0
/// those that only the first one has: one per line. The text must be freed with `esker_free`. NULL
/// for NULL.
#[unsafe(no_mangle)]
pub extern "C" fn esker_diff_keyspaces_only_in(
    diff: Option<&esker_diff_t>,
    old: u8,
) -> *mut c_char {
    diff.map_or(std::ptr::null_mut(), |diff| {
        let names = match old {
            0 => &diff.diff.keyspaces_only_in_new,
            _ => &diff.diff.keyspaces_only_in_old,
        };
        ffi::give_text(&names.join("\n"))
    })
}

/// Frees a comparison and its last difference.
#[unsafe(no_mangle)]
pub extern "C" fn esker_diff_destroy(diff: Option<Box<esker_diff_t>>) {
    let _ = attempt(|| {
        drop(diff);
        Ok(())
    });
}
