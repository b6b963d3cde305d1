//! `esker_subscribe`, `esker_changes_*` and `esker_slot_*`: the change feed of a store.
//!
//! Invariants:
//! 1. A batch that was returned stays valid until the next call on its feed.
//! 2. A wait does not keep the store open: a close ends it.
//! 3. A change that has no number here ends the feed with a failure, and is not left out.

use std::ffi::{CString, c_char, c_void};
use std::sync::Arc;
use std::time::Duration;

use esker::feed::{Change, ChangeBatch, Changes, Slot, SlotOptions};
use esker::internals;
use esker_bindings::handle::Handle;

use super::common::{c_text, data_of};
use super::merge_and_ttl::ESKER_NEVER_MS;
use super::read::esker_snapshot_t;
use super::store::{esker_db_t, on};
use crate::failure::{Failure, Outcome, attempt, there};
use crate::ffi;

/// Kind of a change: `key` was set to `value`, until the time `expires_ms`.
pub const ESKER_CHANGE_PUT: i32 = 1;
/// Kind of a change: the operand `value` was merged into the value of `key`.
pub const ESKER_CHANGE_MERGE: i32 = 2;
/// Kind of a change: `key` was deleted. It may not have existed.
pub const ESKER_CHANGE_DELETE: i32 = 3;
/// Kind of a change: the keys from `key` (inclusive) to `value` (exclusive) were deleted.
pub const ESKER_CHANGE_DELETE_RANGE: i32 = 4;
/// Kind of a change: all keys of the keyspace were deleted.
pub const ESKER_CHANGE_CLEAR: i32 = 5;
/// Kind of a change: the keyspace was created, with `key_order` and `options`.
pub const ESKER_CHANGE_KEYSPACE_CREATED: i32 = 6;
/// Kind of a change: the keyspace got the name `new_name`.
pub const ESKER_CHANGE_KEYSPACE_RENAMED: i32 = 7;
/// Kind of a change: the keyspace was dropped with all its keys.
pub const ESKER_CHANGE_KEYSPACE_DROPPED: i32 = 8;

/// Limit of the lag of a slot: the default, 16 GiB.
pub const ESKER_LAG_LIMIT_DEFAULT: u64 = 0;
/// Limit of the lag of a slot: none. A reader that does not come back fills the device.
pub const ESKER_LAG_UNLIMITED: u64 = u64::MAX;

/// A change of a batch. Its kind tells which fields it has; the others are 0 or NULL. Later versions
/// may add fields at the end.
#[repr(C)]
pub struct esker_change_t {
    /// `ESKER_CHANGE_PUT` and so on.
    pub kind: i32,
    /// Name that the keyspace had then; never NULL.
    pub keyspace: *const c_char,
    /// New name of the keyspace.
    pub new_name: *const c_char,
    /// Name of the key order of the keyspace.
    pub key_order: *const c_char,
    /// The keyspace's own options, `name=value` a line.
    pub options: *const c_char,
    /// The key, or the start of a range.
    pub key: *const u8,
    /// Length of the key.
    pub key_len: usize,
    /// The value, the operand or the end of a range.
    pub value: *const u8,
    /// Length of the value.
    pub value_len: usize,
    /// Time at which the pair expires, in milliseconds since 1970; `ESKER_NEVER_MS` without one.
    pub expires_ms: u64,
}

/// A committed batch, or a part of one: changes that became visible together. The pairs of an ingest
/// or a bulk load come in parts of about 1 MiB; all other batches are whole. A reader applies all
/// parts of a batch or none, and confirms its position after the last part. When it begins again
/// before that, the feed begins with the first part. Later versions may add fields at the end.
#[repr(C)]
pub struct esker_change_batch_t {
    /// Sequence number of the first operation.
    pub first_sequence: u64,
    /// Sequence number of the last operation: the position after the batch.
    pub sequence: u64,
    /// Checksum that tells batches with the same sequence number apart; not 0.
    pub checksum: u64,
    /// Position before the batch.
    pub previous: u64,
    /// Checksum of the batch that ends at `previous`; 0 if it is not known.
    pub previous_checksum: u64,
    /// The changes, in order. A key may occur more than once; the last change counts.
    pub changes: *const *const esker_change_t,
    /// Number of changes.
    pub changes_len: usize,
    /// Number of this part of the batch, from 0 on. The parts have equal sequence numbers and
    /// checksums.
    pub part: u64,
    /// 1 if more parts of the same batch follow, or 0.
    pub continues: u8,
}

/// A slot of a store, from `esker_slots`. The texts are valid during the call. Later versions may
/// add fields at the end.
#[repr(C)]
pub struct esker_slot_info_t {
    /// Name of the slot.
    pub name: *const c_char,
    /// The position that its reader has confirmed; 0 if the slot is damaged.
    pub position: u64,
    /// Bytes of logs that are kept only for this slot and for slots that lag less.
    pub lag_bytes: u64,
    /// Maximum of these bytes; `ESKER_LAG_UNLIMITED` without one.
    pub lag_limit_bytes: u64,
    /// Why the slot keeps no logs any more; NULL if it does.
    pub problem: *const c_char,
}

/// Receives a slot: state, slot.
pub type esker_visit_slot_t = Option<unsafe extern "C" fn(*mut c_void, *const esker_slot_info_t)>;

/// A slot: a durable position in the change feed of a store. Many threads may use it at once. It may
/// be freed before or after the store.
pub struct esker_slot_t {
    store: Arc<Handle>,
    slot: Slot,
}

/// The change feed of a store from a position on. It may be used by one thread at a time, and freed
/// before or after the store.
pub struct esker_changes_t {
    store: Arc<Handle>,
    changes: Changes,
    shown: Option<Box<Shown>>,
    /// A batch that C cannot get. Every later call fails.
    refused: Option<Failure>,
}

/// A batch as C takes it, and what it points to.
struct Shown {
    batch: esker_change_batch_t,
    _places: Vec<*const esker_change_t>,
    _changes: Vec<esker_change_t>,
    _texts: Vec<CString>,
    of: ChangeBatch,
}

impl esker_change_t {
    /// Returns a change without key and value.
    fn new(kind: i32, keyspace: &str, texts: &mut Vec<CString>) -> esker_change_t {
        esker_change_t {
            kind,
            keyspace: kept(keyspace, texts),
            new_name: std::ptr::null(),
            key_order: std::ptr::null(),
            options: std::ptr::null(),
            key: std::ptr::null(),
            key_len: 0,
            value: std::ptr::null(),
            value_len: 0,
            expires_ms: ESKER_NEVER_MS,
        }
    }

    fn with(self, key: &[u8], value: &[u8]) -> esker_change_t {
        let (key, key_len) = data_of(key);
        let (value, value_len) = data_of(value);
        esker_change_t { key, key_len, value, value_len, ..self }
    }

    fn of(change: &Change, texts: &mut Vec<CString>) -> Outcome<esker_change_t> {
        Ok(match change {
            Change::Put { keyspace, key, value, expires_ms } => esker_change_t {
                expires_ms: expires_ms.unwrap_or(ESKER_NEVER_MS),
                ..esker_change_t::new(ESKER_CHANGE_PUT, keyspace, texts).with(key, value)
            },
            Change::Merge { keyspace, key, operand } => {
                esker_change_t::new(ESKER_CHANGE_MERGE, keyspace, texts).with(key, operand)
            }
            Change::Delete { keyspace, key } => {
                let (key, key_len) = data_of(key);
                let change = esker_change_t::new(ESKER_CHANGE_DELETE, keyspace, texts);
                esker_change_t { key, key_len, ..change }
            }
            Change::DeleteRange { keyspace, start, end } => {
                esker_change_t::new(ESKER_CHANGE_DELETE_RANGE, keyspace, texts).with(start, end)
            }
            Change::Clear { keyspace } => esker_change_t::new(ESKER_CHANGE_CLEAR, keyspace, texts),
            Change::KeyspaceCreated { keyspace, key_order, options } => {
                let lines: Vec<String> =
                    options.iter().map(|(name, value)| format!("{name}={value}")).collect();
                esker_change_t {
                    key_order: kept(key_order, texts),
                    options: kept(&lines.join("\n"), texts),
                    ..esker_change_t::new(ESKER_CHANGE_KEYSPACE_CREATED, keyspace, texts)
                }
            }
            Change::KeyspaceRenamed { keyspace, new_name } => esker_change_t {
                new_name: kept(new_name, texts),
                ..esker_change_t::new(ESKER_CHANGE_KEYSPACE_RENAMED, keyspace, texts)
            },
            Change::KeyspaceDropped { keyspace } => {
                esker_change_t::new(ESKER_CHANGE_KEYSPACE_DROPPED, keyspace, texts)
            }
            other => return Err(unknown(other)),
        })
    }
}

/// Keeps a text in `texts`, and returns its address.
fn kept(text: &str, texts: &mut Vec<CString>) -> *const c_char {
    let text = c_text(text);
    let place = text.as_ptr();
    texts.push(text);
    place
}

/// Returns the failure for a change that has no number.
fn unknown(change: &Change) -> Failure {
    let mut kind = format!("{change:?}");
    kind.truncate(kind.find([' ', '(']).unwrap_or(kind.len()));
    Failure::invalid(format!("this version of the interface has no number for a change {kind}"))
}

impl Shown {
    fn of(batch: ChangeBatch) -> Outcome<Box<Shown>> {
        let mut texts = Vec::new();
        let changes = batch.changes.iter().map(|change| esker_change_t::of(change, &mut texts));
        let changes = changes.collect::<Outcome<Vec<esker_change_t>>>()?;
        let places: Vec<*const esker_change_t> = changes.iter().map(std::ptr::from_ref).collect();
        let shown = esker_change_batch_t {
            first_sequence: batch.first_sequence,
            sequence: batch.sequence,
            checksum: batch.checksum,
            previous: batch.previous,
            previous_checksum: batch.previous_checksum,
            changes: places.as_ptr(),
            changes_len: places.len(),
            part: batch.part,
            continues: batch.continues.into(),
        };
        // A move of the vectors and of the batch moves none of their bytes.
        Ok(Box::new(Shown {
            batch: shown,
            _places: places,
            _changes: changes,
            _texts: texts,
            of: batch,
        }))
    }
}

impl esker_changes_t {
    fn give(store: &Arc<Handle>, changes: Changes) -> *mut esker_changes_t {
        let store = store.clone();
        Box::into_raw(Box::new(esker_changes_t { store, changes, shown: None, refused: None }))
    }

    /// Returns whether this is a feed of the store of `store`.
    pub(super) fn is_of(&self, store: &Arc<Handle>) -> bool {
        Arc::ptr_eq(&self.store, store)
    }

    /// Returns the batch that was returned last, if it is still valid.
    pub(super) fn last_batch(&self) -> Option<&ChangeBatch> {
        self.shown.as_ref().map(|shown| &shown.of)
    }

    /// Reads the next batch, and waits for it for at most `timeout`.
    fn next(&mut self, timeout: Duration) -> Outcome<*const esker_change_batch_t> {
        self.shown = None;
        // The store is not kept open, or its close would wait for this wait.
        drop(self.store.open()?);
        if let Some(refused) = &self.refused {
            return Err(refused.clone());
        }
        let Some(batch) = self.changes.wait(timeout)? else { return Ok(std::ptr::null()) };
        let shown = Shown::of(batch).inspect_err(|refused| self.refused = Some(refused.clone()))?;
        Ok(&raw const self.shown.insert(shown).batch)
    }
}

impl esker_slot_t {
    fn give(db: &esker_db_t, slot: Slot) -> *mut esker_slot_t {
        Box::into_raw(Box::new(esker_slot_t { store: db.handle.clone(), slot }))
    }

    /// Runs `body` on the slot of an open store.
    fn on<T>(slot: Option<&esker_slot_t>, body: impl FnOnce(&Slot) -> Outcome<T>) -> Outcome<T> {
        let slot = there(slot, "slot's handle")?;
        let _store = slot.store.open()?;
        body(&slot.slot)
    }
}

/// Sets `*changes` to the change feed after position `from`: the committed batches after it; 0 for
/// all of them. The store keeps the logs that slots need (`esker_subscribe`). Without a slot, a log
/// is removed when its memtable was flushed.
///
/// A batch of a prepared transaction appears when it is committed. Pairs that expire appear as puts
/// with their time, and vanish at that time without a change. What a compaction filter removes does
/// not appear. Creations, drops and renames of keyspaces appear while the store has a slot. In a
/// store opened read-only the feed goes on beyond the state of the handle, with what another process
/// writes.
///
/// A batch that is not durable may be lost in a crash of the machine after it was returned; other
/// batches then get its sequence numbers, and other checksums.
///
/// Fails with `ESKER_NOT_FOUND` if the changes after `from` are in no log any more, and with
/// `ESKER_INVALID_ARGUMENT` if `from` is after the newest write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_changes_create(
    db: Option<&esker_db_t>,
    from: u64,
    changes: Option<&mut *mut esker_changes_t>,
    message: Option<&mut *mut c_char>,
) -> i32 {
    let outcome = attempt(|| {
        let place = there(changes, "place for the feed")?;
        *place = std::ptr::null_mut();
        let db = there(db, "store's handle")?;
        *place = esker_changes_t::give(&db.handle, db.handle.open()?.changes(from)?);
        Ok(())
    });
    // SAFETY: the caller meets the header's contract for messages.
    unsafe { ffi::code(outcome, message) }
}

/// Sets `*batch` to the next batch, and waits for it for at most `wait_ms_max` milliseconds; 0 does
/// not wait. Sets it to NULL after that time. The batch is valid until the next call on the feed. A
/// close of the store by another thread ends the wait with `ESKER_CLOSED`. Fails with
/// `ESKER_NOT_FOUND` if the logs with the next changes are gone; the message has the reason if the
/// slot of the feed was dropped.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_changes_next(
    changes: Option<&mut esker_changes_t>,
    wait_ms_max: u64,
    batch: Option<&mut *const esker_change_batch_t>,
    message: Option<&mut *mut c_char>,
) -> i32 {
    let outcome = attempt(|| {
        let place = there(batch, "place for the batch")?;
        *place = std::ptr::null();
        *place = there(changes, "feed")?.next(Duration::from_millis(wait_ms_max))?;
        Ok(())
    });
    // SAFETY: the caller meets the header's contract for messages.
    unsafe { ffi::code(outcome, message) }
}

/// Returns the position of a feed: the sequence number of the last batch of which all parts were
/// returned, or that had nothing for the reader; 0 for NULL.
#[unsafe(no_mangle)]
pub extern "C" fn esker_changes_position(changes: Option<&esker_changes_t>) -> u64 {
    changes.map_or(0, |feed| feed.changes.position())
}

/// Frees a feed and its last batch.
#[unsafe(no_mangle)]
pub extern "C" fn esker_changes_destroy(changes: Option<Box<esker_changes_t>>) {
    let _ = attempt(|| {
        drop(changes);
        Ok(())
    });
}

/// Sets `*slot` to the slot `name`, and creates it at the present position if it does not exist: its
/// first batch is the first one after this call. The store keeps the logs with the changes that the
/// reader of the slot has not confirmed, also while it is closed. `lag_limit_bytes` is the maximum
/// size of logs that are kept only for slots: a new slot that would need more when a log is removed,
/// is dropped, and its next use fails. The slot exists until `esker_drop_slot`, and is durable when
/// this returns. While a store has a slot, writes with `ESKER_DURABILITY_NONE` are logged.
///
/// Fails with `ESKER_INVALID_ARGUMENT` for a name that has not 1 to 64 letters, digits, `-` and `_`,
/// and with `ESKER_NOT_FOUND` if the slot exists and was dropped because it lagged too far.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_subscribe(
    db: Option<&esker_db_t>,
    name: *const c_char,
    lag_limit_bytes: u64,
    slot: Option<&mut *mut esker_slot_t>,
    message: Option<&mut *mut c_char>,
) -> i32 {
    // SAFETY: the caller meets the header's contract for strings and messages.
    unsafe {
        let outcome = attempt(|| {
            let place = there(slot, "place for the slot's handle")?;
            *place = std::ptr::null_mut();
            let name = ffi::utf8(name, "name")?;
            let db = there(db, "store's handle")?;
            let options = match lag_limit_bytes {
                ESKER_LAG_LIMIT_DEFAULT => SlotOptions::default(),
                ESKER_LAG_UNLIMITED => SlotOptions::default().lag_limit_bytes(None),
                bytes => SlotOptions::default().lag_limit_bytes(bytes),
            };
            *place = esker_slot_t::give(db, db.handle.open()?.subscribe(name, &options)?);
            Ok(())
        });
        ffi::code(outcome, message)
    }
}

/// Sets `*slot` to the slot `name`. Fails with `ESKER_NOT_FOUND` if there is none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_slot_open(
    db: Option<&esker_db_t>,
    name: *const c_char,
    slot: Option<&mut *mut esker_slot_t>,
    message: Option<&mut *mut c_char>,
) -> i32 {
    // SAFETY: the caller meets the header's contract for strings and messages.
    unsafe {
        let outcome = attempt(|| {
            let place = there(slot, "place for the slot's handle")?;
            *place = std::ptr::null_mut();
            let name = ffi::utf8(name, "name")?;
            let db = there(db, "store's handle")?;
            *place = esker_slot_t::give(db, db.handle.open()?.slot(name)?);
            Ok(())
        });
        ffi::code(outcome, message)
    }
}

/// Frees the handle of a slot. The slot stays.
#[unsafe(no_mangle)]
pub extern "C" fn esker_slot_close(slot: Option<Box<esker_slot_t>>) {
    let _ = attempt(|| {
        drop(slot);
        Ok(())
    });
}

/// Sets `*position` to the position that was confirmed last, or that the slot began with. Fails with
/// `ESKER_NOT_FOUND` if the slot was dropped, with the reason.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_slot_position(
    slot: Option<&esker_slot_t>,
    position: Option<&mut u64>,
    message: Option<&mut *mut c_char>,
) -> i32 {
    let outcome = attempt(|| {
        let place = there(position, "place for the position")?;
        *place = esker_slot_t::on(slot, |slot| Ok(slot.position()?))?;
        Ok(())
    });
    // SAFETY: the caller meets the header's contract for messages.
    unsafe { ffi::code(outcome, message) }
}

/// Sets `*changes` to the change feed after the position that was confirmed last. Fails as
/// `esker_slot_position` and `esker_changes_create`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_slot_changes(
    slot: Option<&esker_slot_t>,
    changes: Option<&mut *mut esker_changes_t>,
    message: Option<&mut *mut c_char>,
) -> i32 {
    let outcome = attempt(|| {
        let place = there(changes, "place for the feed")?;
        *place = std::ptr::null_mut();
        let slot = there(slot, "slot's handle")?;
        let feed = esker_slot_t::on(Some(slot), |slot| Ok(slot.changes()?))?;
        *place = esker_changes_t::give(&slot.store, feed);
        Ok(())
    });
    // SAFETY: the caller meets the header's contract for messages.
    unsafe { ffi::code(outcome, message) }
}

/// Confirms every batch up to `position`, durably: the slot does not return them again, and their
/// logs may be removed. Confirm a batch after its last part. A position at or before the confirmed
/// one changes nothing. The call syncs the logs first, so a crash does not lose what the reader has
/// confirmed. Fails with `ESKER_INVALID_ARGUMENT` for a position after the newest write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_slot_confirm(
    slot: Option<&esker_slot_t>,
    position: u64,
    message: Option<&mut *mut c_char>,
) -> i32 {
    let outcome = attempt(|| esker_slot_t::on(slot, |slot| Ok(slot.confirm(position)?)));
    // SAFETY: the caller meets the header's contract for messages.
    unsafe { ffi::code(outcome, message) }
}

/// Calls `visit` for each slot of the store, in alphabetical order.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_slots(
    db: Option<&esker_db_t>,
    state: *mut c_void,
    visit: esker_visit_slot_t,
    message: Option<&mut *mut c_char>,
) -> i32 {
    let outcome = attempt(|| {
        let visit = there(visit, "function that receives the slots")?;
        // The store is not kept open during the visits.
        let slots = esker_db_t::open(db)?.slots()?;
        for slot in slots {
            let (name, problem) = (c_text(&slot.name), slot.problem.as_deref().map(c_text));
            let info = esker_slot_info_t {
                name: name.as_ptr(),
                position: slot.position,
                lag_bytes: slot.lag_bytes,
                lag_limit_bytes: slot.lag_limit_bytes.unwrap_or(ESKER_LAG_UNLIMITED),
                problem: problem.as_ref().map_or(std::ptr::null(), |problem| problem.as_ptr()),
            };
            // SAFETY: the function and `state` belong together by the caller's contract; the texts
            // outlive the call.
            unsafe { visit(state, &raw const info) };
        }
        Ok(())
    });
    // SAFETY: the caller meets the header's contract for messages.
    unsafe { ffi::code(outcome, message) }
}

/// Removes the slot `name`, also a damaged one, and the logs that only it needed. Fails with
/// `ESKER_NOT_FOUND` if there is no such slot.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_drop_slot(
    db: Option<&esker_db_t>,
    name: *const c_char,
    message: Option<&mut *mut c_char>,
) -> i32 {
    // SAFETY: the caller meets the header's contract for strings and messages.
    unsafe { on(db, message, |db| Ok(db.drop_slot(ffi::utf8(name, "name")?)?)) }
}

/// Does the same as `esker_snapshot_create`, and sets `*position` to the snapshot's position in the
/// change feed: the snapshot has every batch up to it, and no later one. A reader that copies the
/// snapshot and then applies the changes from the position has no gap and no batch twice. A slot
/// must exist before this call, so that these changes are kept.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_snapshot_create_with_position(
    db: Option<&esker_db_t>,
    snapshot: Option<&mut *mut esker_snapshot_t>,
    position: Option<&mut u64>,
    message: Option<&mut *mut c_char>,
) -> i32 {
    let outcome = attempt(|| {
        let place = there(snapshot, "place for the snapshot")?;
        *place = std::ptr::null_mut();
        let position = there(position, "place for the position")?;
        let (snapshot, at) = internals::snapshot_with_position(&*esker_db_t::open(db)?)?;
        *position = at;
        *place = Box::into_raw(Box::new(esker_snapshot_t { snapshot }));
        Ok(())
    });
    // SAFETY: the caller meets the header's contract for messages.
    unsafe { ffi::code(outcome, message) }
}
