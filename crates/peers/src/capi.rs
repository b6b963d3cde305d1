//! A store behind LevelDB's C interface, which RocksDB repeats under its own prefix.
//!
//! Handles are opaque pointers created and freed by the library. The functions used here may be
//! called from several threads at once; an iterator stays on its creating thread.

use std::ffi::{CStr, CString, c_char};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use esker_lab::error::{LabError, Result};
use esker_lab::target::{
    Direction, LsmCounts, SortedPairs, Target, TransactionKind, TransactionResult, TransactionWork,
    VisitMany, VisitPair, Writes, get_each, in_batches, not_offered,
};

use crate::c_functions::{Bytes, Common, Handle, Owned, Pinned, Walker, slice, text_of};
use crate::rocksdb_bulk::BulkLoader;
use crate::rocksdb_stats;
use crate::rocksdb_transactions::{InStore, TransactionApi, Transactions};

/// An open store.
pub struct CStore {
    common: Common,
    /// RocksDB's own functions, and its column family of all keys, which is destroyed before the
    /// store. A store with transactions is opened without column families.
    pinned: Option<(Pinned, Option<Owned>)>,
    transactions: Option<Transactions>,
    merge: Option<Merge>,
    bulk: Option<BulkLoader>,
    engine: String,
    stats_property: &'static CStr,
    db: Handle,
    read: Owned,
    write: Owned,
    write_sync: Owned,
    /// Options of the store, from which RocksDB makes files for a bulk load.
    options: Owned,
    /// Caches and filters, which must outlive the store and its options.
    _parts: Vec<Owned>,
}

// SAFETY: the libraries document the store and its option objects as usable from many threads
// without external locking; option objects are not changed after `open`.
unsafe impl Send for CStore {}
// SAFETY: as above.
unsafe impl Sync for CStore {}

/// RocksDB's `rocksdb_merge`.
pub type Merge = unsafe extern "C" fn(Handle, Handle, Bytes, usize, Bytes, usize, *mut *mut c_char);

/// Input of an open besides the functions.
pub struct Opening<'a> {
    /// Name of the engine, for messages.
    pub engine: &'a str,
    /// Configured options.
    pub options: Owned,
    /// Objects referenced by the options.
    pub parts: Vec<Owned>,
    /// Whether every write is synced.
    pub sync_always: bool,
    /// Whether reads verify the checksums of the blocks that they load.
    pub verify_checksums: bool,
    /// Sets further options of writes without a sync.
    pub tune_writes: &'a dyn Fn(Handle),
    /// RocksDB's pinned reads.
    pub pinned: Option<Pinned>,
    /// RocksDB's transactions.
    pub transactions: Option<TransactionApi>,
    /// RocksDB's merge, if the options have an operator.
    pub merge: Option<Merge>,
    /// RocksDB's bulk load.
    pub bulk: Option<BulkLoader>,
    /// Name of the property with statistics.
    pub stats_property: &'static CStr,
}

impl Common {
    /// Opens the store in `dir`.
    pub fn open_store(self, dir: &Path, opening: Opening<'_>) -> Result<Box<dyn Target>> {
        let path = CString::new(dir.as_os_str().as_bytes())
            .map_err(|_| LabError::engine("the path holds a zero byte"))?;
        let mut error: *mut c_char = std::ptr::null_mut();
        let options = opening.options.handle;
        let mut transactions = None;
        let (db, family) = match (opening.pinned, opening.transactions) {
            // SAFETY: options and path live through the call; `error` starts as null, as required.
            (None, _) => (unsafe { (self.open)(options, path.as_ptr(), &raw mut error) }, None),
            (Some(pinned), Some(api)) => {
                // SAFETY: as above.
                let (db, opened) = unsafe { api.open(options, &path, &raw mut error) };
                transactions = Some(opened);
                (db, Some((pinned, None)))
            }
            (Some(pinned), None) => {
                let mut family: Handle = std::ptr::null_mut();
                // SAFETY: as above; one name, one options object and space for one handle are
                // passed.
                let db = unsafe {
                    let names = [c"default".as_ptr()];
                    (pinned.open_column_families)(
                        options,
                        path.as_ptr(),
                        1,
                        names.as_ptr(),
                        &raw const options,
                        &raw mut family,
                        &raw mut error,
                    )
                };
                (db, Some((pinned, Some(family))))
            }
        };
        self.check(opening.engine, error)?;
        let pinned = family.map(|(pinned, family)| {
            let destroy = pinned.column_family_handle_destroy;
            (pinned, family.map(|handle| Owned { handle, destroy }))
        });
        let write = |sync: bool| {
            // SAFETY: a new options object, configured before any other use.
            unsafe {
                let handle = (self.writeoptions_create)();
                (self.writeoptions_set_sync)(handle, u8::from(sync));
                if !sync {
                    (opening.tune_writes)(handle);
                }
                Owned { handle, destroy: self.writeoptions_destroy }
            }
        };
        Ok(Box::new(CStore {
            common: self,
            pinned,
            transactions,
            merge: opening.merge,
            bulk: opening.bulk,
            engine: opening.engine.into(),
            stats_property: opening.stats_property,
            db,
            read: self.reads(opening.verify_checksums),
            write: write(opening.sync_always),
            write_sync: write(true),
            options: opening.options,
            _parts: opening.parts,
        }))
    }

    /// Returns options of reads that verify checksums, or do not.
    fn reads(&self, verify_checksums: bool) -> Owned {
        // SAFETY: a new options object.
        unsafe {
            let handle = (self.readoptions_create)();
            (self.readoptions_set_verify_checksums)(handle, u8::from(verify_checksums));
            Owned { handle, destroy: self.readoptions_destroy }
        }
    }

    /// Returns the error of a call, if there is one, and frees its text.
    pub(crate) fn check(&self, engine: &str, error: *mut c_char) -> Result<()> {
        if error.is_null() {
            return Ok(());
        }
        // SAFETY: a non-null error is a C string owned by the caller.
        let text = unsafe { text_of(error, self) };
        Err(LabError::engine(format!("{engine}: {text}")))
    }
}

impl Drop for CStore {
    fn drop(&mut self) {
        drop(self.pinned.take());
        if let Some(transactions) = &mut self.transactions {
            // SAFETY: the store is open and no call on it is running, since this is the only owner.
            return unsafe { transactions.close(&self.common, self.db) };
        }
        // SAFETY: `db` is open and no call on it is running, since this is the only owner.
        unsafe { (self.common.close)(self.db) }
    }
}

impl CStore {
    fn walker(&self) -> Walker<'_> {
        // SAFETY: store and read options are alive.
        let iter = unsafe { (self.common.create_iterator)(self.db, self.read.handle) };
        Walker::new(&self.common, &self.engine, iter)
    }

    fn get_copied(&self, key: &[u8], visit: &mut dyn FnMut(&[u8])) -> Result<bool> {
        let mut error: *mut c_char = std::ptr::null_mut();
        let mut len = 0usize;
        // SAFETY: the key lives through the call; a non-null result has `len` bytes and must be
        // freed by the caller.
        unsafe {
            let value = (self.common.get)(
                self.db,
                self.read.handle,
                key.as_ptr(),
                key.len(),
                &raw mut len,
                &raw mut error,
            );
            self.common.check(&self.engine, error)?;
            if value.is_null() {
                return Ok(false);
            }
            visit(slice(value, len));
            (self.common.free)(value.cast());
        }
        Ok(true)
    }

    fn get_pinned(&self, pinned: Pinned, key: &[u8], visit: &mut dyn FnMut(&[u8])) -> Result<bool> {
        let mut error: *mut c_char = std::ptr::null_mut();
        let mut len = 0usize;
        // SAFETY: as for a copied get; the bytes live until the slice object is destroyed.
        unsafe {
            let held = (pinned.get_pinned)(
                self.db,
                self.read.handle,
                key.as_ptr(),
                key.len(),
                &raw mut error,
            );
            self.common.check(&self.engine, error)?;
            if held.is_null() {
                return Ok(false);
            }
            let value = (pinned.pinnableslice_value)(held, &raw mut len);
            visit(slice(value, len));
            (pinned.pinnableslice_destroy)(held);
        }
        Ok(true)
    }

    /// Gets many keys with RocksDB's batched `MultiGet`.
    fn get_together(
        &self,
        (pinned, family): (&Pinned, &Owned),
        keys: &[&[u8]],
        visit: VisitMany<'_>,
    ) -> Result<()> {
        let starts: Vec<Bytes> = keys.iter().map(|key| key.as_ptr()).collect();
        let lens: Vec<usize> = keys.iter().map(|key| key.len()).collect();
        let mut values: Vec<Handle> = vec![std::ptr::null_mut(); keys.len()];
        let mut errors: Vec<*mut c_char> = vec![std::ptr::null_mut(); keys.len()];
        // SAFETY: the keys live through the call, the family is this store's, and each list has the
        // length passed to the call.
        unsafe {
            (pinned.batched_multi_get_cf)(
                self.db,
                self.read.handle,
                family.handle,
                keys.len(),
                starts.as_ptr(),
                lens.as_ptr(),
                values.as_mut_ptr(),
                errors.as_mut_ptr(),
                false,
            );
        }
        let mut outcome = Ok(());
        for (held, error) in values.into_iter().zip(errors) {
            // Every error text and every value must be freed here, also after the first failure.
            outcome = outcome.and(self.common.check(&self.engine, error));
            if held.is_null() {
                visit(None);
                continue;
            }
            let mut len = 0usize;
            // SAFETY: the bytes of a value live until its slice object is destroyed.
            unsafe {
                let value = (pinned.pinnableslice_value)(held, &raw mut len);
                visit(Some(slice(value, len)));
                (pinned.pinnableslice_destroy)(held);
            }
        }
        outcome
    }
}

impl Target for CStore {
    fn put(&self, key: &[u8], value: &[u8], sync: bool) -> Result<()> {
        let options = if sync { &self.write_sync } else { &self.write };
        let mut error: *mut c_char = std::ptr::null_mut();
        // SAFETY: key and value live through the call, which copies them.
        unsafe {
            (self.common.put)(
                self.db,
                options.handle,
                key.as_ptr(),
                key.len(),
                value.as_ptr(),
                value.len(),
                &raw mut error,
            );
        }
        self.common.check(&self.engine, error)
    }

    fn delete(&self, key: &[u8]) -> Result<()> {
        let mut error: *mut c_char = std::ptr::null_mut();
        // SAFETY: the key lives through the call.
        unsafe {
            (self.common.delete)(
                self.db,
                self.write.handle,
                key.as_ptr(),
                key.len(),
                &raw mut error,
            );
        }
        self.common.check(&self.engine, error)
    }

    fn merge_add(&self, key: &[u8], change: u64) -> Result<()> {
        let merge = self.merge.ok_or_else(|| not_offered(&self.engine, "merge"))?;
        let operand = change.to_le_bytes();
        let mut error: *mut c_char = std::ptr::null_mut();
        // SAFETY: key and operand live through the call, which copies them.
        unsafe {
            merge(
                self.db,
                self.write.handle,
                key.as_ptr(),
                key.len(),
                operand.as_ptr(),
                operand.len(),
                &raw mut error,
            );
        }
        self.common.check(&self.engine, error)
    }

    fn get(&self, key: &[u8], visit: &mut dyn FnMut(&[u8])) -> Result<bool> {
        match &self.pinned {
            Some((pinned, _)) => self.get_pinned(*pinned, key, visit),
            None => self.get_copied(key, visit),
        }
    }

    fn get_many(&self, keys: &[&[u8]], visit: VisitMany<'_>) -> Result<()> {
        match &self.pinned {
            Some((pinned, Some(family))) => self.get_together((pinned, family), keys, visit),
            _ => get_each(keys, visit, |key, visit| self.get(key, visit)),
        }
    }

    fn seek(&self, key: &[u8], visit: &mut dyn FnMut(&[u8], &[u8])) -> Result<bool> {
        let walker = self.walker();
        // SAFETY: the iterator is alive and the key lives through the call.
        unsafe { (self.common.iter_seek)(walker.handle(), key.as_ptr(), key.len()) };
        match walker.pair() {
            Some((key, value)) => visit(key, value),
            None => return walker.finish().map(|()| false),
        }
        Ok(true)
    }

    fn scan(&self, direction: Direction, visit: VisitPair<'_>) -> Result<()> {
        let walker = self.walker();
        let (start, step) = match direction {
            Direction::Forward => (self.common.iter_seek_to_first, self.common.iter_next),
            Direction::Reverse => (self.common.iter_seek_to_last, self.common.iter_prev),
        };
        // SAFETY: the iterator is alive; it is moved only while valid.
        unsafe { start(walker.handle()) };
        while let Some((key, value)) = walker.pair() {
            if !visit(key, value) {
                return Ok(());
            }
            // SAFETY: the iterator is valid, since it just returned a pair.
            unsafe { step(walker.handle()) };
        }
        walker.finish()
    }

    fn scan_from(&self, start: &[u8], visit: VisitPair<'_>) -> Result<()> {
        let walker = self.walker();
        // SAFETY: the iterator is alive and the key lives through the call.
        unsafe { (self.common.iter_seek)(walker.handle(), start.as_ptr(), start.len()) };
        while let Some((key, value)) = walker.pair() {
            if !visit(key, value) {
                return Ok(());
            }
            // SAFETY: the iterator is valid, since it just returned a pair.
            unsafe { (self.common.iter_next)(walker.handle()) };
        }
        walker.finish()
    }

    fn compact(&self) -> Result<()> {
        // SAFETY: null bounds mean the whole store.
        unsafe {
            (self.common.compact_range)(self.db, std::ptr::null(), 0, std::ptr::null(), 0);
        }
        Ok(())
    }

    fn transact(&self, kind: TransactionKind, work: TransactionWork<'_>) -> TransactionResult<()> {
        let (Some((pinned, _)), Some(transactions)) = (&self.pinned, &self.transactions) else {
            return Err(not_offered(&self.engine, "transactions").into());
        };
        let synced = kind == TransactionKind::ReadWrite { sync: true };
        let write = if synced { &self.write_sync } else { &self.write };
        let (common, engine, read) = (&self.common, self.engine.as_str(), &self.read);
        transactions.run(InStore { common, pinned, engine, read }, write, kind, work)
    }

    fn bulk_load(&self, pairs: SortedPairs<'_, '_>) -> Result<()> {
        let bulk = self.bulk.as_ref().ok_or_else(|| not_offered(&self.engine, "bulk load"))?;
        bulk.load((&self.common, &self.engine), (self.db, &self.options), pairs)
    }

    fn write_many(&self, writes: Writes<'_, '_>, sync: bool) -> Result<bool> {
        let common = &self.common;
        let options = if sync { &self.write_sync } else { &self.write };
        // SAFETY: a new batch, destroyed at the end of this call.
        let handle = unsafe { (common.writebatch_create)() };
        let batch = Owned { handle, destroy: common.writebatch_destroy };
        in_batches(writes, |group| {
            let mut error: *mut c_char = std::ptr::null_mut();
            // SAFETY: the batch is alive and copies keys and values; store and options are alive.
            unsafe {
                (common.writebatch_clear)(batch.handle);
                for (key, value) in group {
                    let (start, len) = (key.as_ptr(), key.len());
                    match value {
                        Some(value) => {
                            let (value, value_len) = (value.as_ptr(), value.len());
                            (common.writebatch_put)(batch.handle, start, len, value, value_len);
                        }
                        None => (common.writebatch_delete)(batch.handle, start, len),
                    }
                }
                (common.write)(self.db, options.handle, batch.handle, &raw mut error);
            }
            common.check(&self.engine, error)
        })?;
        Ok(true)
    }

    fn lsm(&self) -> Option<LsmCounts> {
        if self.stats_property != rocksdb_stats::PROPERTY {
            return None;
        }
        Some(rocksdb_stats::counts(&self.stats()?))
    }

    fn stats(&self) -> Option<String> {
        // SAFETY: a non-null result is a C string owned by the caller, who must free it.
        unsafe {
            let text = (self.common.property_value)(self.db, self.stats_property.as_ptr());
            if text.is_null() {
                return None;
            }
            let copy = CStr::from_ptr(text).to_string_lossy().into_owned();
            (self.common.free)(text.cast());
            Some(copy)
        }
    }

    fn close(self: Box<Self>) -> Result<()> {
        Ok(())
    }
}
