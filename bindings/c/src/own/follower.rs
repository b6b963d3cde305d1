//! `esker_follow` and `esker_follower_*`: read-only views of a store that another process writes.
//!
//! Invariants:
//! 1. A view and a promoted store are handles of their own: they stay open when the follower is freed.
//! 2. A failed call makes no handle.

use std::ffi::c_char;
use std::time::Duration;

use esker_bindings::follower::{FollowerHandle, OpenFollower};

use super::options::esker_options_t;
use super::store::{esker_db_t, fs_below};
use crate::failure::{ESKER_OK, Outcome, attempt, code_of, there};
use crate::ffi;

/// A follower of a store that another process writes. Many threads may call functions on it
/// concurrently, except `esker_follower_destroy`.
pub struct esker_follower_t {
    handle: FollowerHandle,
}

/// How far a follower is behind. Later versions may add fields at the end.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct esker_follower_lag_t {
    /// Position of the newest view: the sequence number of the last operation that it shows.
    pub position: u64,
    /// Sequence number of the last operation that the store has now.
    pub newest: u64,
    /// Number of sequence numbers between the two.
    pub operations: u64,
    /// Time since the begin of the last catch-up that did not fail, in milliseconds. The newest view
    /// shows every write that was older than this.
    pub age_ms: u64,
    /// `ESKER_OK`, or the code with which the last catch-up failed.
    pub error_code: i32,
}

impl esker_follower_t {
    /// Returns the follower, or a failure if the handle is null.
    fn open(this: Option<&esker_follower_t>) -> Outcome<OpenFollower> {
        Ok(there(this, "follower's handle")?.handle.open()?)
    }
}

/// Runs `act` on the follower.
///
/// # Safety
/// As for [`ffi::code`].
unsafe fn on(
    follower: Option<&esker_follower_t>,
    message: Option<&mut *mut c_char>,
    act: impl FnOnce(&OpenFollower) -> Outcome<()>,
) -> i32 {
    let outcome = attempt(|| act(&esker_follower_t::open(follower)?));
    // SAFETY: guaranteed by the caller.
    unsafe { ffi::code(outcome, message) }
}

/// Sets `*db` to a handle of the store that `open` returns: a view, or the promoted store.
///
/// # Safety
/// As for [`ffi::code`].
unsafe fn give(
    follower: Option<&esker_follower_t>,
    db: Option<&mut *mut esker_db_t>,
    message: Option<&mut *mut c_char>,
    open: impl FnOnce(&OpenFollower) -> esker::Result<esker::Db>,
) -> i32 {
    // SAFETY: guaranteed by the caller.
    unsafe {
        on(follower, message, |opened| {
            let place = there(db, "place for the store's handle")?;
            *place = std::ptr::null_mut();
            let handle = &there(follower, "follower's handle")?.handle;
            let db = esker_db_t::of(open(opened)?, handle.functions(), handle.orders());
            *place = Box::into_raw(db);
            Ok(())
        })
    }
}

/// Follows the store in the directory `path`, which may be open for writing in another process or in
/// this one, or in none. A follower writes nothing, takes no lock, and never makes the writer wait. The
/// `options`, which may be NULL, must have the key, the key orders and the merge operators of the store.
/// The follower is freed with `esker_follower_destroy`.
///
/// `esker_follower_db` returns a view: the store at one moment. The first view is of the time of this
/// call; `esker_follower_catch_up` and `esker_follower_catch_up_every` make newer ones. A view shows
/// every write that returned before its catch-up began, and none after that: a batch or an ingest as a
/// whole or not at all. Writes with `ESKER_DURABILITY_NONE` appear when they are flushed.
///
/// Fails with `ESKER_NOT_FOUND` if there is no store, and otherwise as `esker_open_read_only`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_follow(
    path: *const c_char,
    options: Option<&esker_options_t>,
    follower: Option<&mut *mut esker_follower_t>,
    message: Option<&mut *mut c_char>,
) -> i32 {
    let outcome = attempt(|| {
        let place = there(follower, "place for the follower")?;
        *place = std::ptr::null_mut();
        // SAFETY: the caller meets the header's contract for strings.
        let path = unsafe { ffi::path(path) }?;
        let chosen = options.map(|options| options.options.clone()).unwrap_or_default();
        let key = options.and_then(|options| options.key.as_ref());
        let handle = FollowerHandle::follow(fs_below(options), path, chosen, key)?;
        *place = Box::into_raw(Box::new(esker_follower_t { handle }));
        Ok(())
    });
    // SAFETY: the caller meets the header's contract for messages.
    unsafe { ffi::code(outcome, message) }
}

/// Frees a follower and ends its thread. Its views stay open. No other call may be running on it.
#[unsafe(no_mangle)]
pub extern "C" fn esker_follower_destroy(follower: Option<Box<esker_follower_t>>) {
    let _ = attempt(|| {
        drop(follower);
        Ok(())
    });
}

/// Sets `*db` to a handle of the newest view: a store that is open read-only and never changes, also
/// when the follower catches up. It is freed with `esker_db_destroy`, before or after the follower. It
/// keeps what it needs, also files that the writer has removed. Keyspaces, snapshots and iterators
/// belong to their view, as to any other store.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_follower_db(
    follower: Option<&esker_follower_t>,
    db: Option<&mut *mut esker_db_t>,
    message: Option<&mut *mut c_char>,
) -> i32 {
    // SAFETY: the caller meets the header's contract for messages.
    unsafe { give(follower, db, message, |follower| Ok(follower.db())) }
}

/// Returns the position of the newest view: the sequence number of the last operation that it shows, as
/// in the change feed; 0 for NULL.
#[unsafe(no_mangle)]
pub extern "C" fn esker_follower_position(follower: Option<&esker_follower_t>) -> u64 {
    attempt(|| Ok(esker_follower_t::open(follower)?.position())).unwrap_or(0)
}

/// Makes the newest view show what the store has now, and sets `*position` to its position; it may be
/// NULL. Reads only what was added since the last call. A call that finds nothing new makes no view.
///
/// Fails with `ESKER_CORRUPTION` if a file is damaged, and with `ESKER_INCOMPATIBLE` if a keyspace has a
/// key order that the options lack, or another store has taken the place of this one. The newest view is
/// then as before, and the call can be repeated.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_follower_catch_up(
    follower: Option<&esker_follower_t>,
    position: Option<&mut u64>,
    message: Option<&mut *mut c_char>,
) -> i32 {
    // SAFETY: the caller meets the header's contract for messages.
    unsafe {
        on(follower, message, |follower| {
            let caught_up = follower.catch_up()?;
            if let Some(place) = position {
                *place = caught_up;
            }
            Ok(())
        })
    }
}

/// Lets a thread catch up whenever `interval_ms` milliseconds have passed since its last catch-up. The
/// thread ends with the follower. A further call changes the interval. `esker_follower_lag` has the
/// failure of the last catch-up. Fails with `ESKER_INVALID_ARGUMENT` if the interval is 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_follower_catch_up_every(
    follower: Option<&esker_follower_t>,
    interval_ms: u64,
    message: Option<&mut *mut c_char>,
) -> i32 {
    // SAFETY: the caller meets the header's contract for messages.
    unsafe {
        on(follower, message, |follower| {
            Ok(follower.catch_up_every(Duration::from_millis(interval_ms))?)
        })
    }
}

/// Waits until the newest view shows the operation with the sequence number `position`, for at most
/// `wait_ms_max` milliseconds, and catches up meanwhile. Sets `*shown` to 1 if it does, or to 0 after
/// that time. So a program that has written to the store in another process, and knows the position from
/// `esker_snapshot_create_with_position`, reads its own writes. Fails as `esker_follower_catch_up`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_follower_wait_for(
    follower: Option<&esker_follower_t>,
    position: u64,
    wait_ms_max: u64,
    shown: Option<&mut u8>,
    message: Option<&mut *mut c_char>,
) -> i32 {
    let outcome = attempt(|| {
        let place = there(shown, "place for the result")?;
        *place = 0;
        let longest = Some(Duration::from_millis(wait_ms_max));
        let handle = &there(follower, "follower's handle")?.handle;
        *place = u8::from(handle.wait_for(position, longest, || true)?);
        Ok(())
    });
    // SAFETY: the caller meets the header's contract for messages.
    unsafe { ffi::code(outcome, message) }
}

/// Sets `*lag` to how far the newest view is behind the store; it must be freed with `esker_free`. Sets
/// `*error` to the message of the last catch-up if it failed, which must be freed with `esker_free`, or
/// to NULL; `error` may be NULL. Reads the logs from the position of the view on, and takes nothing
/// over. Fails as `esker_follower_catch_up`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_follower_lag(
    follower: Option<&esker_follower_t>,
    lag: Option<&mut *mut esker_follower_lag_t>,
    error: Option<&mut *mut c_char>,
    message: Option<&mut *mut c_char>,
) -> i32 {
    // SAFETY: the caller meets the header's contract for messages.
    unsafe {
        on(follower, message, |follower| {
            let mut error = error;
            if let Some(place) = &mut error {
                **place = std::ptr::null_mut();
            }
            let place = there(lag, "place for the lag")?;
            *place = std::ptr::null_mut();
            let found = follower.lag()?;
            *place = ffi::give(esker_follower_lag_t {
                position: found.position,
                newest: found.newest,
                operations: found.operations,
                age_ms: u64::try_from(found.age.as_millis()).unwrap_or(u64::MAX),
                error_code: found.error.as_ref().map_or(ESKER_OK, |error| code_of(error.kind())),
            });
            if let (Some(place), Some(why)) = (error, found.error) {
                *place = ffi::give_text(&why.to_string());
            }
            Ok(())
        })
    }
}

/// Opens the store for writing, when its writer has ended or was killed, and sets `*db` to its handle.
/// Every write that the writer has acknowledged is in the store, as after any other opening. The
/// follower and its views stay readable, and follow the opened store from then on.
///
/// Fails with `ESKER_LOCKED` while the writer lives, with `ESKER_INCOMPATIBLE` if the directory has
/// another store now, with `ESKER_CORRUPTION` if the opened store lacks writes that the newest view
/// shows, because a crash of the machine lost them, and otherwise as `esker_open`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_follower_promote(
    follower: Option<&esker_follower_t>,
    db: Option<&mut *mut esker_db_t>,
    message: Option<&mut *mut c_char>,
) -> i32 {
    // SAFETY: the caller meets the header's contract for messages.
    unsafe { give(follower, db, message, |follower| follower.promote()) }
}
