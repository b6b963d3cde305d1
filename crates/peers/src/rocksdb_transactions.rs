//! Transactions of RocksDB through its C interface: those of an `OptimisticTransactionDB` and those
//! of a `TransactionDB`.
//!
//! A `TransactionDB` repeats the functions for single reads and writes under its own prefix. An
//! `OptimisticTransactionDB` has a base store, which the usual functions accept.
//!
//! A key that will be written is read by `GetForUpdate`. A transaction that only reads has no
//! snapshot, so its gets are as of their own moments. This is the cheaper way for RocksDB.

use std::ffi::{CStr, c_char};
use std::sync::Mutex;

use esker_lab::error::{LabError, Result};
use esker_lab::target::{
    Transaction, TransactionError, TransactionKind, TransactionResult, TransactionWork,
};

use crate::c_functions::{Bytes, Common, ErrorText, Handle, Owned, Pinned, slice, text_of};
use crate::library::{Loaded, functions};

functions! {
    /// Functions of a transaction of either kind.
    Calls {
        commit: fn(Handle, ErrorText),
        rollback: fn(Handle, ErrorText),
        destroy: fn(Handle),
        put: fn(Handle, Bytes, usize, Bytes, usize, ErrorText),
        get_pinned: fn(Handle, Handle, Bytes, usize, ErrorText) -> Handle,
        get_pinned_for_update: fn(Handle, Handle, Bytes, usize, u8, ErrorText) -> Handle,
    }
}

functions! {
    /// Functions of an `OptimisticTransactionDB`.
    Optimistic {
        optimistictransactiondb_open: fn(Handle, *const c_char, ErrorText) -> Handle,
        optimistictransactiondb_close: fn(Handle),
        optimistictransactiondb_get_base_db: fn(Handle) -> Handle,
        optimistictransactiondb_close_base_db: fn(Handle),
        optimistictransaction_options_create: fn() -> Handle,
        optimistictransaction_options_destroy: fn(Handle),
        optimistictransaction_begin: fn(Handle, Handle, Handle, Handle) -> Handle,
    }
}

functions! {
    /// Functions of a `TransactionDB`.
    Pessimistic {
        transactiondb_open: fn(Handle, Handle, *const c_char, ErrorText) -> Handle,
        transactiondb_options_create: fn() -> Handle,
        transactiondb_options_destroy: fn(Handle),
        transaction_options_create: fn() -> Handle,
        transaction_options_destroy: fn(Handle),
        transaction_options_set_deadlock_detect: fn(Handle, u8),
        transaction_begin: fn(Handle, Handle, Handle, Handle) -> Handle,
    }
}

functions! {
    /// Functions of a `TransactionDB` in place of those of a store without transactions.
    Replaced {
        close: fn(Handle),
        put: fn(Handle, Handle, Bytes, usize, Bytes, usize, ErrorText),
        delete: fn(Handle, Handle, Bytes, usize, ErrorText),
        get: fn(Handle, Handle, Bytes, usize, *mut usize, ErrorText) -> *mut u8,
        get_pinned: fn(Handle, Handle, Bytes, usize, ErrorText) -> Handle,
        create_iterator: fn(Handle, Handle) -> Handle,
        property_value: fn(Handle, *const c_char) -> *mut c_char,
    }
}

/// Functions of one kind of transactions.
#[derive(Clone, Copy)]
pub struct TransactionApi {
    calls: Calls,
    kind: Kind,
}

#[derive(Clone, Copy)]
enum Kind {
    Optimistic(Optimistic),
    Pessimistic(Pessimistic, Replaced),
}

impl TransactionApi {
    /// Resolves the functions of an `OptimisticTransactionDB`, or of a `TransactionDB`.
    pub fn load(library: &Loaded, pessimistic: bool) -> Result<TransactionApi> {
        let calls = Calls::load(library, "rocksdb_transaction_")?;
        let kind = if pessimistic {
            let own = Pessimistic::load(library, "rocksdb_")?;
            Kind::Pessimistic(own, Replaced::load(library, "rocksdb_transactiondb_")?)
        } else {
            Kind::Optimistic(Optimistic::load(library, "rocksdb_")?)
        };
        Ok(TransactionApi { calls, kind })
    }

    /// Puts the functions of a `TransactionDB` in place of those of a store without transactions.
    pub fn replace(&self, common: &mut Common, pinned: &mut Pinned) {
        if let Kind::Pessimistic(_, own) = self.kind {
            common.close = own.close;
            common.put = own.put;
            common.delete = own.delete;
            common.get = own.get;
            common.create_iterator = own.create_iterator;
            common.property_value = own.property_value;
            pinned.get_pinned = own.get_pinned;
        }
    }

    /// Opens a store with transactions. Returns the handle for reads and writes outside of them,
    /// and the transactions; both are unusable if `error` was set.
    ///
    /// # Safety
    /// `options` is a live options object, and `error` points to a null pointer.
    pub unsafe fn open(
        self,
        options: Handle,
        path: &CStr,
        error: ErrorText,
    ) -> (Handle, Transactions) {
        // SAFETY: the caller guarantees the options; the other objects are new. A store that was
        // not opened is null, and has no base.
        unsafe {
            let (db, base, handle, destroy) = match self.kind {
                Kind::Optimistic(own) => {
                    let db = (own.optimistictransactiondb_open)(options, path.as_ptr(), error);
                    let base = match db.is_null() {
                        true => db,
                        false => (own.optimistictransactiondb_get_base_db)(db),
                    };
                    let handle = (own.optimistictransaction_options_create)();
                    (db, base, handle, own.optimistictransaction_options_destroy)
                }
                Kind::Pessimistic(own, _) => {
                    let settings = (own.transactiondb_options_create)();
                    let db = (own.transactiondb_open)(options, settings, path.as_ptr(), error);
                    (own.transactiondb_options_destroy)(settings);
                    let handle = (own.transaction_options_create)();
                    (own.transaction_options_set_deadlock_detect)(handle, 1);
                    (db, db, handle, own.transaction_options_destroy)
                }
            };
            let options = Owned { handle, destroy };
            (base, Transactions { api: self, db, options, idle: Mutex::new(Vec::new()) })
        }
    }
}

/// The transactions of an open store.
pub struct Transactions {
    api: TransactionApi,
    db: Handle,
    options: Owned,
    /// Ended transactions, reused by the next ones.
    idle: Mutex<Vec<Idle>>,
}

struct Idle(Handle);

// SAFETY: a transaction may move between threads, used by one at a time.
unsafe impl Send for Idle {}

/// The parts of a store that a transaction uses.
#[derive(Clone, Copy)]
pub struct InStore<'a> {
    /// Functions for errors.
    pub common: &'a Common,
    /// Functions for pinned values.
    pub pinned: &'a Pinned,
    /// Name of the engine.
    pub engine: &'a str,
    /// Options of reads.
    pub read: &'a Owned,
}

impl InStore<'_> {
    /// Returns whether a call succeeded. A conflict is known only by the beginning of its text.
    fn check(&self, error: *mut c_char) -> TransactionResult<()> {
        if error.is_null() {
            return Ok(());
        }
        // SAFETY: a non-null error is a C string owned by the caller.
        let text = unsafe { text_of(error, self.common) };
        match CONFLICTS.iter().any(|start| text.starts_with(start)) {
            true => Err(TransactionError::Conflict),
            false => Err(LabError::engine(format!("{}: {text}", self.engine)).into()),
        }
    }
}

/// Beginnings of the texts of `Status::Busy` (a conflict or a deadlock), `Status::TimedOut` (a
/// lock) and `Status::TryAgain` (the memtables do not tell whether there is a conflict).
const CONFLICTS: &[&str] = &["Resource busy", "Operation timed out", "Operation failed. Try again"];

impl Transactions {
    /// Runs `work` in a transaction with these options of writes, and commits it.
    pub fn run(
        &self,
        store: InStore<'_>,
        write: &Owned,
        kind: TransactionKind,
        work: TransactionWork<'_>,
    ) -> TransactionResult<()> {
        let idle = || self.idle.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let old = idle().pop().map_or(std::ptr::null_mut(), |idle| idle.0);
        let begin = match self.api.kind {
            Kind::Optimistic(own) => own.optimistictransaction_begin,
            Kind::Pessimistic(own, _) => own.transaction_begin,
        };
        // SAFETY: store and options are alive; `old` is null or a transaction that has ended.
        let handle = unsafe { begin(self.db, write.handle, self.options.handle, old) };
        let calls = &self.api.calls;
        let for_update = kind != TransactionKind::ReadOnly;
        let outcome = work(&mut Open { store, calls, handle, for_update }).and_then(|()| {
            let mut error: *mut c_char = std::ptr::null_mut();
            // SAFETY: an open transaction; `error` starts null.
            unsafe { (calls.commit)(handle, &raw mut error) };
            store.check(error)
        });
        if outcome.is_err() {
            let mut error: *mut c_char = std::ptr::null_mut();
            // SAFETY: as above. It releases the locks.
            unsafe { (calls.rollback)(handle, &raw mut error) };
            // The reason for the rollback is returned, not the result of the rollback.
            let _ = store.check(error);
        }
        idle().push(Idle(handle));
        outcome
    }

    /// Destroys the transactions, and closes the store, whose handle for other calls is `base`.
    ///
    /// # Safety
    /// The store is open, no call on it is running, and none follows.
    pub unsafe fn close(&mut self, common: &Common, base: Handle) {
        let idle = self.idle.get_mut().unwrap_or_else(|poisoned| poisoned.into_inner());
        // SAFETY: the caller guarantees it; each handle is destroyed once, transactions first.
        unsafe {
            idle.drain(..).for_each(|idle| (self.api.calls.destroy)(idle.0));
            match self.api.kind {
                Kind::Optimistic(own) => {
                    (own.optimistictransactiondb_close_base_db)(base);
                    (own.optimistictransactiondb_close)(self.db);
                }
                Kind::Pessimistic(..) => (common.close)(self.db),
            }
        }
    }
}

/// An open transaction.
struct Open<'a> {
    store: InStore<'a>,
    calls: &'a Calls,
    handle: Handle,
    for_update: bool,
}

impl Transaction for Open<'_> {
    fn get(&mut self, key: &[u8], visit: &mut dyn FnMut(&[u8])) -> TransactionResult<bool> {
        let Open { store, calls, handle, for_update } = self;
        let read = store.read.handle;
        let mut error: *mut c_char = std::ptr::null_mut();
        let mut len = 0usize;
        // SAFETY: the key lives through the call; the bytes live until the slice object is
        // destroyed.
        unsafe {
            let (start, count, at) = (key.as_ptr(), key.len(), &raw mut error);
            let held = match for_update {
                true => (calls.get_pinned_for_update)(*handle, read, start, count, 1, at),
                false => (calls.get_pinned)(*handle, read, start, count, at),
            };
            store.check(error)?;
            if held.is_null() {
                return Ok(false);
            }
            let value = (store.pinned.pinnableslice_value)(held, &raw mut len);
            visit(slice(value, len));
            (store.pinned.pinnableslice_destroy)(held);
        }
        Ok(true)
    }

    fn put(&mut self, key: &[u8], value: &[u8]) -> TransactionResult<()> {
        let mut error: *mut c_char = std::ptr::null_mut();
        // SAFETY: key and value live through the call, which copies them.
        unsafe {
            (self.calls.put)(
                self.handle,
                key.as_ptr(),
                key.len(),
                value.as_ptr(),
                value.len(),
                &raw mut error,
            );
        }
        self.store.check(error)
    }
}
