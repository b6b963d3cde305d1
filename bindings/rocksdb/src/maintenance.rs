//! Snapshots, flushes, compactions, sizes, checks and changes of options of an open store.

use std::ffi::{c_char, c_int};
use std::sync::Arc;

use esker::Snapshot;
use esker_c::failure::{Failure, Outcome, attempt, there};
use esker_c::ffi;
use esker_c::own::store::optional;

use crate::access::rocksdb_readoptions_t;
use crate::db::rocksdb_column_family_handle_t;
use crate::failure::{kept, quiet, refusal};
use crate::settings::Settings;
use crate::store::{Family, Store, rocksdb_snapshot_t, rocksdb_t};
use crate::stubs;

type Handle<'a> = Option<&'a rocksdb_column_family_handle_t>;
type Keys = *const *const c_char;
type Lengths = *const usize;

impl rocksdb_snapshot_t {
    /// Returns an object for a snapshot, allocated with `malloc`; null if memory is exhausted.
    pub(crate) fn give(snapshot: *const Snapshot) -> *mut rocksdb_snapshot_t {
        // SAFETY: `malloc` accepts any size; the block is written before it is used.
        unsafe {
            let place = libc::malloc(size_of::<rocksdb_snapshot_t>()).cast::<rocksdb_snapshot_t>();
            if !place.is_null() {
                place.write(rocksdb_snapshot_t { snapshot });
            }
            place
        }
    }
}

/// Creates a snapshot of the current state. A secondary instance has none: reads with its object are
/// reads of what it shows.
#[unsafe(no_mangle)]
pub extern "C" fn rocksdb_create_snapshot(db: Option<&rocksdb_t>) -> *mut rocksdb_snapshot_t {
    let made = quiet(|| Ok(rocksdb_t::open(db)?.moment()));
    made.map_or(std::ptr::null_mut(), |made| {
        let made = made.map_or(std::ptr::null_mut(), |made| Box::into_raw(Box::new(made)));
        rocksdb_snapshot_t::give(made)
    })
}

/// Releases a snapshot of `rocksdb_create_snapshot`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_release_snapshot(
    _db: Option<&rocksdb_t>,
    snapshot: *mut rocksdb_snapshot_t,
) {
    if snapshot.is_null() {
        return;
    }
    // SAFETY: by RocksDB's contract, the snapshot was made by `rocksdb_create_snapshot` and is
    // released once.
    unsafe {
        let held = (*snapshot).snapshot.cast_mut();
        if !held.is_null() {
            drop(Box::from_raw(held));
        }
        ffi::free(snapshot);
    }
}

/// Returns the sequence number at which a snapshot reads.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_snapshot_get_sequence_number(
    snapshot: Option<&rocksdb_snapshot_t>,
) -> u64 {
    // SAFETY: by RocksDB's contract, the snapshot was not released.
    let snapshot = snapshot.and_then(|snapshot| unsafe { snapshot.snapshot.as_ref() });
    snapshot.map_or(0, Snapshot::seqno)
}

/// Returns the newest sequence number.
#[unsafe(no_mangle)]
pub extern "C" fn rocksdb_get_latest_sequence_number(db: Option<&rocksdb_t>) -> u64 {
    let number = attempt(|| Ok(rocksdb_t::open(db)?.db().metrics().last_seqno));
    number.unwrap_or(0)
}

/// Writes all memtables to tables, and waits until that is done.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_flush(
    db: Option<&rocksdb_t>,
    _options: Option<&Settings>,
    errptr: Option<&mut *mut c_char>,
) {
    // SAFETY: the caller meets RocksDB's contract for error texts.
    unsafe { kept(errptr, || Ok(rocksdb_t::writable(db)?.db().flush()?)) };
}

/// Writes the memtables of all column families to tables, and waits until that is done.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_flush_cf(
    db: Option<&rocksdb_t>,
    options: Option<&Settings>,
    _family: Handle<'_>,
    errptr: Option<&mut *mut c_char>,
) {
    // SAFETY: the same contract.
    unsafe { rocksdb_flush(db, options, errptr) }
}

/// Writes the memtables of all column families to tables, and waits until that is done.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_flush_cfs(
    db: Option<&rocksdb_t>,
    options: Option<&Settings>,
    _families: *const *const rocksdb_column_family_handle_t,
    _num_column_families: c_int,
    errptr: Option<&mut *mut c_char>,
) {
    // SAFETY: the same contract.
    unsafe { rocksdb_flush(db, options, errptr) }
}

/// Makes all earlier logged writes survive a power loss, if `sync` is set. They survive the end of
/// the process in either case.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_flush_wal(
    db: Option<&rocksdb_t>,
    sync: u8,
    errptr: Option<&mut *mut c_char>,
) {
    // SAFETY: the caller meets RocksDB's contract for error texts.
    unsafe {
        kept(errptr, || {
            let store = rocksdb_t::writable(db)?;
            if sync != 0 {
                store.db().sync()?;
            }
            Ok(())
        });
    }
}

/// Does the same as `rocksdb_flush_wal`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_flush_wal_with_options(
    db: Option<&rocksdb_t>,
    options: Option<&Settings>,
    errptr: Option<&mut *mut c_char>,
) {
    let sync = options.is_some_and(|options| options.flag("sync"));
    // SAFETY: the same contract.
    unsafe { rocksdb_flush_wal(db, u8::from(sync), errptr) }
}

/// # Safety
/// The keys meet RocksDB's contract for buffers.
unsafe fn compact(
    family: &Family,
    start: (*const c_char, usize),
    limit: (*const c_char, usize),
) -> Outcome<()> {
    // SAFETY: guaranteed by the caller. As in RocksDB, a null key means no bound.
    unsafe {
        let (start, limit) = (optional(start.0, start.1)?, optional(limit.0, limit.1)?);
        Ok(family.keyspace().compact_range(start, limit)?)
    }
}

/// Compacts a key range. A null key means no bound. A failure is reported by a later call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_compact_range(
    db: Option<&rocksdb_t>,
    start_key: *const c_char,
    start_key_len: usize,
    limit_key: *const c_char,
    limit_key_len: usize,
) {
    let (start, limit) = ((start_key, start_key_len), (limit_key, limit_key_len));
    // SAFETY: the caller meets RocksDB's contract for buffers.
    quiet(|| unsafe { compact(&rocksdb_t::writable(db)?.default, start, limit) });
}

/// Compacts a key range of a column family. A null key means no bound.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_compact_range_cf(
    db: Option<&rocksdb_t>,
    family: Handle<'_>,
    start_key: *const c_char,
    start_key_len: usize,
    limit_key: *const c_char,
    limit_key_len: usize,
) {
    let (start, limit) = ((start_key, start_key_len), (limit_key, limit_key_len));
    // SAFETY: the caller meets RocksDB's contract for buffers.
    quiet(|| unsafe {
        rocksdb_t::writable(db)?;
        compact(rocksdb_column_family_handle_t::of(family)?, start, limit)
    });
}

/// Compacts a key range. The options have no effect.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_compact_range_opt(
    db: Option<&rocksdb_t>,
    _options: Option<&Settings>,
    start_key: *const c_char,
    start_key_len: usize,
    limit_key: *const c_char,
    limit_key_len: usize,
) {
    // SAFETY: the same contract.
    unsafe { rocksdb_compact_range(db, start_key, start_key_len, limit_key, limit_key_len) }
}

/// Compacts a key range of a column family. The options have no effect.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_compact_range_cf_opt(
    db: Option<&rocksdb_t>,
    family: Handle<'_>,
    _options: Option<&Settings>,
    start_key: *const c_char,
    start_key_len: usize,
    limit_key: *const c_char,
    limit_key_len: usize,
) {
    // SAFETY: the same contract.
    unsafe {
        rocksdb_compact_range_cf(db, family, start_key, start_key_len, limit_key, limit_key_len);
    }
}

/// Waits until no flush or compaction is due.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_wait_for_compact(
    db: Option<&rocksdb_t>,
    options: Option<&Settings>,
    errptr: Option<&mut *mut c_char>,
) {
    // SAFETY: the caller meets RocksDB's contract for error texts.
    unsafe {
        kept(errptr, || {
            let store = rocksdb_t::writable(db)?;
            if options.is_some_and(|options| options.flag("flush")) {
                store.db().flush()?;
            }
            store.db().wait_idle()?;
            if options.is_some_and(|options| options.flag("close_db")) {
                store.close()?;
            }
            Ok(())
        });
    }
}

/// The ranges of a call, as C passes them.
struct Ranges {
    count: c_int,
    starts: Keys,
    start_lengths: Lengths,
    limits: Keys,
    limit_lengths: Lengths,
    sizes: *mut u64,
}

impl Ranges {
    /// Stores the size of each range.
    ///
    /// # Safety
    /// Each array has `count` items.
    unsafe fn measure(&self, family: &Family) -> Outcome<()> {
        let count = usize::try_from(self.count).unwrap_or(0);
        // SAFETY: guaranteed by the caller.
        unsafe {
            let starts = ffi::array(self.starts, count, "start keys")?;
            let start_lengths = ffi::array(self.start_lengths, count, "start keys' lengths")?;
            let limits = ffi::array(self.limits, count, "limit keys")?;
            let limit_lengths = ffi::array(self.limit_lengths, count, "limit keys' lengths")?;
            let sizes = ffi::array_mut(self.sizes, count, "sizes")?;
            for (at, size) in sizes.iter_mut().enumerate() {
                let start = ffi::bytes(starts[at], start_lengths[at], "start key")?;
                let limit = ffi::bytes(limits[at], limit_lengths[at], "limit key")?;
                *size = family.keyspace().approximate_size(start, limit)?;
            }
            Ok(())
        }
    }
}

/// Stores the approximate bytes of the tables that hold each range.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_approximate_sizes(
    db: Option<&rocksdb_t>,
    count: c_int,
    starts: Keys,
    start_lengths: Lengths,
    limits: Keys,
    limit_lengths: Lengths,
    sizes: *mut u64,
    errptr: Option<&mut *mut c_char>,
) {
    let ranges = Ranges { count, starts, start_lengths, limits, limit_lengths, sizes };
    // SAFETY: by RocksDB's contract, each array has `count` items.
    unsafe { kept(errptr, || ranges.measure(&rocksdb_t::open(db)?.default)) };
}

/// Stores the approximate bytes of each range of a column family.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_approximate_sizes_cf(
    db: Option<&rocksdb_t>,
    family: Handle<'_>,
    count: c_int,
    starts: Keys,
    start_lengths: Lengths,
    limits: Keys,
    limit_lengths: Lengths,
    sizes: *mut u64,
    errptr: Option<&mut *mut c_char>,
) {
    let ranges = Ranges { count, starts, start_lengths, limits, limit_lengths, sizes };
    // SAFETY: by RocksDB's contract, each array has `count` items.
    unsafe {
        kept(errptr, || {
            rocksdb_t::open(db)?;
            ranges.measure(rocksdb_column_family_handle_t::of(family)?)
        });
    }
}

/// Does the same as `rocksdb_approximate_sizes_cf`. The flags have no effect.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_approximate_sizes_cf_with_flags(
    db: Option<&rocksdb_t>,
    family: Handle<'_>,
    count: c_int,
    starts: Keys,
    start_lengths: Lengths,
    limits: Keys,
    limit_lengths: Lengths,
    _include_flags: u8,
    sizes: *mut u64,
    errptr: Option<&mut *mut c_char>,
) {
    let ranges = Ranges { count, starts, start_lengths, limits, limit_lengths, sizes };
    // SAFETY: by RocksDB's contract, each array has `count` items.
    unsafe {
        kept(errptr, || {
            rocksdb_t::open(db)?;
            ranges.measure(rocksdb_column_family_handle_t::of(family)?)
        });
    }
}

/// # Safety
/// The keys meet RocksDB's contract for buffers.
unsafe fn delete_files(
    family: &Family,
    start: (*const c_char, usize),
    limit: (*const c_char, usize),
    function: &str,
) -> Outcome<()> {
    if start.0.is_null() || limit.0.is_null() {
        let why = "Esker needs both ends of the range; use rocksdb_drop_column_family for all keys";
        return Err(refusal(function, why));
    }
    // SAFETY: guaranteed by the caller.
    unsafe {
        let start = ffi::bytes(start.0, start.1, "start key")?;
        let limit = ffi::bytes(limit.0, limit.1, "limit key")?;
        crate::write::delete_range(family, start, limit, &esker::WriteOptions::BUFFERED)
    }
}

/// Deletes the keys from `start_key` (inclusive) to `limit_key` (exclusive).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_delete_file_in_range(
    db: Option<&rocksdb_t>,
    start_key: *const c_char,
    start_key_len: usize,
    limit_key: *const c_char,
    limit_key_len: usize,
    errptr: Option<&mut *mut c_char>,
) {
    let (start, limit) = ((start_key, start_key_len), (limit_key, limit_key_len));
    // SAFETY: the caller meets RocksDB's contract for buffers and error texts.
    unsafe {
        kept(errptr, || {
            let family = &rocksdb_t::writable(db)?.default;
            delete_files(family, start, limit, "rocksdb_delete_file_in_range")
        });
    }
}

/// Deletes the keys of a column family from `start_key` (inclusive) to `limit_key` (exclusive).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_delete_file_in_range_cf(
    db: Option<&rocksdb_t>,
    family: Handle<'_>,
    start_key: *const c_char,
    start_key_len: usize,
    limit_key: *const c_char,
    limit_key_len: usize,
    errptr: Option<&mut *mut c_char>,
) {
    let (start, limit) = ((start_key, start_key_len), (limit_key, limit_key_len));
    // SAFETY: the caller meets RocksDB's contract for buffers and error texts.
    unsafe {
        kept(errptr, || {
            rocksdb_t::writable(db)?;
            let family = rocksdb_column_family_handle_t::of(family)?;
            delete_files(family, start, limit, "rocksdb_delete_file_in_range_cf")
        });
    }
}

fn verify(store: &Arc<Store>) -> Outcome<()> {
    esker_c::own::store::verify(&store.db())
}

/// Reads and checks every byte of the store.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_verify_checksum(
    db: Option<&rocksdb_t>,
    errptr: Option<&mut *mut c_char>,
) {
    // SAFETY: the caller meets RocksDB's contract for error texts.
    unsafe { kept(errptr, || verify(rocksdb_t::open(db)?)) };
}

/// Reads and checks every byte of the store.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_verify_checksum_with_options(
    db: Option<&rocksdb_t>,
    _options: Option<&rocksdb_readoptions_t>,
    errptr: Option<&mut *mut c_char>,
) {
    // SAFETY: the same contract.
    unsafe { rocksdb_verify_checksum(db, errptr) }
}

/// Reads and checks every byte of the store.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_verify_file_checksums(
    db: Option<&rocksdb_t>,
    errptr: Option<&mut *mut c_char>,
) {
    // SAFETY: the same contract.
    unsafe { rocksdb_verify_checksum(db, errptr) }
}

/// Reads and checks every byte of the store.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_verify_file_checksums_with_options(
    db: Option<&rocksdb_t>,
    _options: Option<&rocksdb_readoptions_t>,
    errptr: Option<&mut *mut c_char>,
) {
    // SAFETY: the same contract.
    unsafe { rocksdb_verify_checksum(db, errptr) }
}

/// Changes options of the store. An option that Esker accepts without effect is accepted here too.
///
/// # Safety
/// Both arrays have `count` strings.
unsafe fn change(store: &Store, count: c_int, keys: Keys, values: Keys) -> Outcome<()> {
    let count = usize::try_from(count).unwrap_or(0);
    if count == 0 {
        return Err(Failure::invalid("empty input"));
    }
    let mut changes = Vec::new();
    // SAFETY: guaranteed by the caller.
    unsafe {
        let keys = ffi::array(keys, count, "names")?;
        for (name, value) in keys.iter().zip(ffi::array(values, count, "values")?) {
            let (name, value) = (ffi::utf8(*name, "name")?, ffi::utf8(*value, "value")?);
            let (_, bits) = stubs::parse(name, value)?;
            match name {
                "disable_auto_compactions" => {
                    changes.push(("auto_compaction", (bits == 0).to_string()));
                }
                "write_buffer_size" => changes.push(("memtable_size_bytes", bits.to_string())),
                "max_write_buffer_number" => {
                    changes.push(("frozen_memtables_max", bits.to_string()));
                }
                "target_file_size_base" => changes.push(("file_size_max_bytes", bits.to_string())),
                "soft_pending_compaction_bytes_limit" => {
                    changes.push(("debt_limit_bytes", bits.to_string()));
                }
                _ => {}
            }
        }
    }
    let changes: Vec<(&str, &str)> = changes.iter().map(|(n, v)| (*n, v.as_str())).collect();
    Ok(store.db().set_options(&changes)?)
}

/// Changes options of the store.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_set_options(
    db: Option<&rocksdb_t>,
    count: c_int,
    keys: Keys,
    values: Keys,
    errptr: Option<&mut *mut c_char>,
) {
    // SAFETY: by RocksDB's contract, both arrays have `count` strings.
    unsafe { kept(errptr, || change(rocksdb_t::writable(db)?, count, keys, values)) };
}

/// Changes options of the store.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_set_db_options(
    db: Option<&rocksdb_t>,
    count: c_int,
    keys: Keys,
    values: Keys,
    errptr: Option<&mut *mut c_char>,
) {
    // SAFETY: the same contract.
    unsafe { rocksdb_set_options(db, count, keys, values, errptr) }
}

/// Changes options of the whole store: options of a single column family do not change while it is
/// open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_set_options_cf(
    db: Option<&rocksdb_t>,
    family: Handle<'_>,
    count: c_int,
    keys: Keys,
    values: Keys,
    errptr: Option<&mut *mut c_char>,
) {
    // SAFETY: by RocksDB's contract, both arrays have `count` strings.
    unsafe {
        kept(errptr, || {
            there(family, "column family handle")?;
            change(rocksdb_t::writable(db)?, count, keys, values)
        });
    }
}
