//! `esker_transaction_begin`, the options of a transaction, its savepoints and its end.
//!
//! Invariants:
//! 1. A handle refuses a call that comes during a call of another thread. No call waits for it.
//! 2. A call that can wait for a lock does not keep the store open. So `esker_close` ends the wait.
//! 3. No call from within a comparator or filter of the store reaches the engine: the call around
//!    it may have locked the state of the transaction.

use std::ffi::{c_char, c_void};
use std::sync::{Arc, Mutex, MutexGuard, TryLockError};

use esker::{Concurrency, Isolation, Transaction, TransactionOptions};
use esker_bindings::handle::Handle;

use super::common::write_options;
use super::store::{esker_db_t, on};
use crate::failure::{Failure, Outcome, attempt, there};
use crate::ffi;

/// The transaction reads the store as of one moment. Its commit fails if another commit has written
/// a key that it writes.
pub const ESKER_ISOLATION_SNAPSHOT: i32 = 0;
/// The committed transactions give the results of some order in which they run one after the other.
pub const ESKER_ISOLATION_SERIALIZABLE: i32 = 1;
/// Conflicts are found at the commit. Only `esker_transaction_prepare` may wait for another transaction.
pub const ESKER_CONCURRENCY_OPTIMISTIC: i32 = 0;
/// Conflicts are found at once, by locks: a call waits until the holder of a lock has ended.
pub const ESKER_CONCURRENCY_PESSIMISTIC: i32 = 1;

/// Options of a transaction.
#[derive(Default)]
pub struct esker_transaction_options_t {
    options: TransactionOptions,
}

/// Several reads and writes that take effect together, at one moment, or not at all. It may be used
/// by one thread at a time: a call during a call of another thread fails with
/// `ESKER_INVALID_ARGUMENT`. It may be freed before or after the store.
pub struct esker_transaction_t {
    pub(super) store: Arc<Handle>,
    id: u64,
    state: Mutex<State>,
}

/// Receives the name of a prepared transaction: state, name, length of the name. The name is valid
/// only during the call.
pub type esker_visit_name_t = Option<unsafe extern "C" fn(*mut c_void, *const u8, usize)>;

/// A transaction, or how it ended.
enum State {
    Open(Transaction),
    Ended(&'static str),
}

const COMMITTED: &str = "was committed";
const ROLLED_BACK: &str = "was rolled back";
const PREPARED: &str = "was prepared";

fn ended(how: &str) -> Failure {
    Failure::invalid(format!(
        "the transaction {how}; begin another one with `esker_transaction_begin`"
    ))
}

impl esker_transaction_t {
    /// Locks the state for one call.
    fn lock(&self) -> Outcome<MutexGuard<'_, State>> {
        match self.state.try_lock() {
            Ok(state) => Ok(state),
            Err(TryLockError::Poisoned(state)) => Ok(state.into_inner()),
            Err(TryLockError::WouldBlock) => Err(Failure::invalid(
                "another thread is in a call on the transaction; use a transaction from one \
                 thread at a time",
            )),
        }
    }

    /// Runs `act` on the transaction.
    pub(super) fn on<R>(
        handle: Option<&esker_transaction_t>,
        act: impl FnOnce(&Transaction) -> Outcome<R>,
    ) -> Outcome<R> {
        let handle = there(handle, "transaction's handle")?;
        // Checked and not kept, because the call may wait for a lock.
        drop(handle.store.open()?);
        match &*handle.lock()? {
            State::Open(transaction) => act(transaction),
            State::Ended(how) => Err(ended(how)),
        }
    }

    /// Ends the transaction by `end`. After a success it is as `how` says, otherwise rolled back.
    fn end(
        &self,
        how: &'static str,
        end: impl FnOnce(Transaction) -> esker::Result<()>,
    ) -> Outcome<()> {
        let mut state = self.lock()?;
        match std::mem::replace(&mut *state, State::Ended(ROLLED_BACK)) {
            State::Open(transaction) => end(transaction)?,
            State::Ended(before) => {
                *state = State::Ended(before);
                return Err(ended(before));
            }
        }
        *state = State::Ended(how);
        Ok(())
    }
}

/// Creates options of a transaction: snapshot isolation, optimistic, a lock timeout of 1,000
/// milliseconds, and the store's durability.
#[unsafe(no_mangle)]
pub extern "C" fn esker_transaction_options_create() -> Box<esker_transaction_options_t> {
    Box::default()
}

/// Frees options of a transaction. Transactions begun with them are not affected.
#[unsafe(no_mangle)]
pub extern "C" fn esker_transaction_options_destroy(
    options: Option<Box<esker_transaction_options_t>>,
) {
    drop(options);
}

/// Changes the options.
///
/// # Safety
/// As for [`ffi::code`].
unsafe fn change(
    options: Option<&mut esker_transaction_options_t>,
    message: Option<&mut *mut c_char>,
    change: impl FnOnce(TransactionOptions) -> Outcome<TransactionOptions>,
) -> i32 {
    let outcome = attempt(|| {
        let options = there(options, "options handle")?;
        options.options = change(options.options)?;
        Ok(())
    });
    // SAFETY: guaranteed by the caller.
    unsafe { ffi::code(outcome, message) }
}

/// Sets what the transaction is protected from: `ESKER_ISOLATION_SNAPSHOT` or
/// `ESKER_ISOLATION_SERIALIZABLE`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_transaction_options_set_isolation(
    options: Option<&mut esker_transaction_options_t>,
    isolation: i32,
    message: Option<&mut *mut c_char>,
) -> i32 {
    // SAFETY: the caller meets the header's contract for messages.
    unsafe {
        change(options, message, |options| match isolation {
            ESKER_ISOLATION_SNAPSHOT => Ok(options.isolation(Isolation::Snapshot)),
            ESKER_ISOLATION_SERIALIZABLE => Ok(options.isolation(Isolation::Serializable)),
            other => Err(Failure::invalid(format!("there is no isolation {other}; it is 0 or 1"))),
        })
    }
}

/// Sets when conflicts are found: `ESKER_CONCURRENCY_OPTIMISTIC` or
/// `ESKER_CONCURRENCY_PESSIMISTIC`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_transaction_options_set_concurrency(
    options: Option<&mut esker_transaction_options_t>,
    concurrency: i32,
    message: Option<&mut *mut c_char>,
) -> i32 {
    // SAFETY: the caller meets the header's contract for messages.
    unsafe {
        change(options, message, |options| match concurrency {
            ESKER_CONCURRENCY_OPTIMISTIC => Ok(options.concurrency(Concurrency::Optimistic)),
            ESKER_CONCURRENCY_PESSIMISTIC => Ok(options.concurrency(Concurrency::Pessimistic)),
            other => Err(Failure::invalid(format!(
                "there is no concurrency control {other}; it is 0 or 1"
            ))),
        })
    }
}

/// Sets the maximum time of one wait for a lock, in milliseconds. 0 does not wait.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_transaction_options_set_lock_timeout_ms(
    options: Option<&mut esker_transaction_options_t>,
    lock_timeout_ms: u64,
    message: Option<&mut *mut c_char>,
) -> i32 {
    // SAFETY: the caller meets the header's contract for messages.
    unsafe { change(options, message, |options| Ok(options.lock_timeout_ms(lock_timeout_ms))) }
}

/// Sets the durability of the commit (`ESKER_DURABILITY_DEFAULT` and so on).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_transaction_options_set_durability(
    options: Option<&mut esker_transaction_options_t>,
    durability: i32,
    message: Option<&mut *mut c_char>,
) -> i32 {
    // SAFETY: the caller meets the header's contract for messages.
    unsafe {
        change(options, message, |options| {
            Ok(options.durability(write_options(durability)?.durability))
        })
    }
}

/// Begins a transaction. NULL `options` select the defaults. It reads the store as of one moment,
/// with its own writes over it; an optimistic one as of its begin, a pessimistic one as of its
/// first call. Others see its writes after `esker_transaction_commit`, all at once. The functions
/// whose names end in `_in` work on a keyspace, the others on the keyspace `default`. A
/// transaction keeps the versions that it can read on disk, and its writes in memory, until it
/// ends.
///
/// Every function of a transaction fails with `ESKER_INVALID_ARGUMENT` after the end of the
/// transaction, and during a call of another thread on it, and with `ESKER_CLOSED` after
/// `esker_close`, which also ends a wait for a lock. If a failure has the code `ESKER_CONFLICT` or
/// `ESKER_DEADLOCK`, roll the transaction back and run it again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_transaction_begin(
    db: Option<&esker_db_t>,
    options: Option<&esker_transaction_options_t>,
    transaction: Option<&mut *mut esker_transaction_t>,
    message: Option<&mut *mut c_char>,
) -> i32 {
    let outcome = attempt(|| {
        let place = there(transaction, "place for the transaction")?;
        *place = std::ptr::null_mut();
        let db = there(db, "store's handle")?;
        let options = options.map_or_else(TransactionOptions::default, |given| given.options);
        let begun = db.handle.open()?.transaction(options);
        let (store, id) = (db.handle.clone(), begun.id());
        let state = Mutex::new(State::Open(begun));
        *place = Box::into_raw(Box::new(esker_transaction_t { store, id, state }));
        Ok(())
    });
    // SAFETY: the caller meets the header's contract for messages.
    unsafe { ffi::code(outcome, message) }
}

/// Returns the number of the transaction, which no other transaction of this opening has; 0 for
/// NULL. The messages about locks and deadlocks name it.
#[unsafe(no_mangle)]
pub extern "C" fn esker_transaction_id(transaction: Option<&esker_transaction_t>) -> u64 {
    transaction.map_or(0, |transaction| transaction.id)
}

/// Sets a savepoint, to which `esker_transaction_rollback_to_savepoint` returns. Savepoints nest.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_transaction_savepoint(
    transaction: Option<&esker_transaction_t>,
    message: Option<&mut *mut c_char>,
) -> i32 {
    let outcome = attempt(|| esker_transaction_t::on(transaction, |t| Ok(t.savepoint()?)));
    // SAFETY: the caller meets the header's contract for messages.
    unsafe { ffi::code(outcome, message) }
}

/// Takes back the writes after the newest savepoint, and removes the savepoint. What the
/// transaction has read stays protected, and it keeps its locks. Fails with `ESKER_NOT_FOUND` if
/// there is no savepoint.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_transaction_rollback_to_savepoint(
    transaction: Option<&esker_transaction_t>,
    message: Option<&mut *mut c_char>,
) -> i32 {
    let outcome =
        attempt(|| esker_transaction_t::on(transaction, |t| Ok(t.rollback_to_savepoint()?)));
    // SAFETY: the caller meets the header's contract for messages.
    unsafe { ffi::code(outcome, message) }
}

/// Removes the newest savepoint and keeps the writes after it. Fails with `ESKER_NOT_FOUND` if
/// there is no savepoint.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_transaction_pop_savepoint(
    transaction: Option<&esker_transaction_t>,
    message: Option<&mut *mut c_char>,
) -> i32 {
    let outcome = attempt(|| esker_transaction_t::on(transaction, |t| Ok(t.pop_savepoint()?)));
    // SAFETY: the caller meets the header's contract for messages.
    unsafe { ffi::code(outcome, message) }
}

/// Makes the writes visible and durable, all together, as `esker_write` does with a batch. A
/// transaction without writes always succeeds. After a failure the transaction is rolled back and
/// nothing was written, except that after `ESKER_READ_ONLY` or `ESKER_IO` the store must be opened
/// again to see whether it contains the writes. Fails with `ESKER_CONFLICT` if something that the
/// transaction has written, or that it has read and that is protected, was written by another
/// commit or is locked by a prepared transaction; with `ESKER_NOT_FOUND` if one of its keyspaces
/// was dropped. The handle is still freed with `esker_transaction_destroy`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_transaction_commit(
    transaction: Option<&esker_transaction_t>,
    message: Option<&mut *mut c_char>,
) -> i32 {
    let outcome = attempt(|| {
        let handle = there(transaction, "transaction's handle")?;
        // Keeps the store open until the commit is done.
        let _open = handle.store.open()?;
        handle.end(COMMITTED, Transaction::commit)
    });
    // SAFETY: the caller meets the header's contract for messages.
    unsafe { ffi::code(outcome, message) }
}

/// Ends the transaction without its writes. Its iterators fail from now on.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_transaction_rollback(
    transaction: Option<&esker_transaction_t>,
    message: Option<&mut *mut c_char>,
) -> i32 {
    let outcome = attempt(|| {
        let handle = there(transaction, "transaction's handle")?;
        let _open = handle.store.open()?;
        handle.end(ROLLED_BACK, |transaction| {
            transaction.rollback();
            Ok(())
        })
    });
    // SAFETY: the caller meets the header's contract for messages.
    unsafe { ffi::code(outcome, message) }
}

/// Frees a transaction. Rolls it back if it has not ended. No other call may be running on it.
/// Within a comparator or filter of its store, it is neither freed nor rolled back.
#[unsafe(no_mangle)]
pub extern "C" fn esker_transaction_destroy(transaction: Option<Box<esker_transaction_t>>) {
    let _ = attempt(|| {
        if let Some(transaction) = transaction {
            match transaction.store.check_reentry() {
                Ok(()) => drop(transaction),
                Err(_) => std::mem::forget(transaction),
            }
        }
        Ok(())
    });
}

/// Checks the transaction as `esker_transaction_commit` does, and stores it under `name`, durable
/// as with `ESKER_DURABILITY_SYNC`, but does not make its writes visible. After that,
/// `esker_commit_prepared` succeeds whatever other transactions do, also after a crash. Until
/// `esker_commit_prepared` or `esker_rollback_prepared`, other transactions cannot write what it
/// has written or read. A failure is as that of `esker_transaction_commit`; also
/// `ESKER_INVALID_ARGUMENT` for a name that is empty, longer than 255 bytes, not UTF-8 or in use,
/// and `ESKER_BUSY` and `ESKER_DEADLOCK` if a pessimistic transaction holds the locks. A name that
/// is NULL or not UTF-8 does not end the transaction; every other failure does.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_transaction_prepare(
    transaction: Option<&esker_transaction_t>,
    name: *const c_char,
    message: Option<&mut *mut c_char>,
) -> i32 {
    // SAFETY: the caller meets the header's contract for strings and messages.
    unsafe {
        let outcome = attempt(|| {
            let handle = there(transaction, "transaction's handle")?;
            let name = ffi::utf8(name, "name")?;
            // Not kept, because the call may wait for a lock.
            drop(handle.store.open()?);
            handle.end(PREPARED, |transaction| transaction.prepare(name))
        });
        ffi::code(outcome, message)
    }
}

/// Calls `visit` with the name of each prepared transaction, in alphabetical order.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_prepared_transactions(
    db: Option<&esker_db_t>,
    state: *mut c_void,
    visit: esker_visit_name_t,
    message: Option<&mut *mut c_char>,
) -> i32 {
    let outcome = attempt(|| {
        let visit = there(visit, "function that receives the names")?;
        let names = esker_db_t::open(db)?.prepared_transactions();
        for name in names {
            // SAFETY: the function and `state` belong together by the caller's contract; the name
            // outlives the call.
            unsafe { visit(state, name.as_ptr(), name.len()) };
        }
        Ok(())
    });
    // SAFETY: the caller meets the header's contract for messages.
    unsafe { ffi::code(outcome, message) }
}

/// Commits a prepared transaction: makes its writes visible, durable as with
/// `ESKER_DURABILITY_SYNC`. Fails with `ESKER_NOT_FOUND` if there is no prepared transaction
/// `name`, and with `ESKER_BUSY` while another call ends it. After a failure it is still prepared.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_commit_prepared(
    db: Option<&esker_db_t>,
    name: *const c_char,
    message: Option<&mut *mut c_char>,
) -> i32 {
    // SAFETY: the caller meets the header's contract for strings and messages.
    unsafe { on(db, message, |db| Ok(db.commit_prepared(ffi::utf8(name, "name")?)?)) }
}

/// Rolls a prepared transaction back. Failures are as those of `esker_commit_prepared`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_rollback_prepared(
    db: Option<&esker_db_t>,
    name: *const c_char,
    message: Option<&mut *mut c_char>,
) -> i32 {
    // SAFETY: the caller meets the header's contract for strings and messages.
    unsafe { on(db, message, |db| Ok(db.rollback_prepared(ffi::utf8(name, "name")?)?)) }
}
