//! Statistics of options and the perf context, from Esker's counters.
//!
//! A counter that Esker does not have is 0 and is missing in the texts; `docs/rocksdb.md` lists
//! those that it has.

use std::cell::RefCell;
use std::ffi::{c_char, c_int};
use std::fmt::Write;

use esker::Metrics;
use esker::internals::add_perf_context;
use esker::perf::{self, PerfContext};
use esker_c::failure::attempt;
use esker_c::ffi;

use crate::options::rocksdb_options_t;

/// RocksDB's level from which on counts are made.
const ENABLE_COUNT: c_int = 2;

/// A ticker: RocksDB's number and name, and Esker's counter.
type Ticker = (u32, &'static str, fn(&Metrics) -> u64);

/// The tickers that Esker has, with the numbers of RocksDB 11.8.
pub(crate) const TICKERS: &[Ticker] = &[
    (0, "rocksdb.block.cache.miss", |m| m.cache_misses),
    (1, "rocksdb.block.cache.hit", |m| m.cache_hits),
    (58, "rocksdb.number.keys.written", |m| m.user_ops),
    (61, "rocksdb.bytes.written", |m| m.user_bytes),
    (76, "rocksdb.stall.micros", |m| m.stalled_us + m.slowed_us),
    (84, "rocksdb.wal.synced", |m| m.log_syncs),
    (85, "rocksdb.wal.bytes", |m| m.log_bytes),
    (94, "rocksdb.compact.read.bytes", |m| m.compaction_read_bytes),
    (95, "rocksdb.compact.write.bytes", |m| m.compaction_bytes),
    (96, "rocksdb.flush.write.bytes", |m| m.flush_bytes),
];

/// A count of the perf context: RocksDB's number and name, and Esker's count.
type Count = (c_int, &'static str, fn(&PerfContext) -> u64);

/// The counts that Esker has, with the numbers of RocksDB 11.8.
pub(crate) const COUNTS: &[Count] = &[
    (1, "block_cache_hit_count", |c| c.cache_hits),
    (2, "block_read_count", |c| c.blocks_read),
    (3, "block_read_byte", |c| c.block_bytes_read),
    (7, "get_read_bytes", |c| c.value_bytes_read),
    (16, "get_from_memtable_count", |c| c.memtable_hits),
    (31, "write_delay_time", |c| c.stall_ns + c.throttle_ns),
    (44, "bloom_sst_hit_count", |c| c.filter_checks - c.filter_negatives.min(c.filter_checks)),
    (45, "bloom_sst_miss_count", |c| c.filter_negatives),
];

fn metrics(options: Option<&rocksdb_options_t>) -> Option<Metrics> {
    let statistics = options?.objects.statistics.as_ref()?;
    attempt(|| Ok(statistics.store().map(|store| store.db().metrics()))).ok().flatten()
}

/// Returns the counters as text, allocated with `malloc`; null without statistics.
#[unsafe(no_mangle)]
pub extern "C" fn rocksdb_options_statistics_get_string(
    options: Option<&rocksdb_options_t>,
) -> *mut c_char {
    if options.is_none_or(|options| options.objects.statistics.is_none()) {
        return std::ptr::null_mut();
    }
    let metrics = metrics(options).unwrap_or_default();
    let mut text = String::new();
    for (_, name, counter) in TICKERS {
        let _ = writeln!(text, "{name} COUNT : {}", counter(&metrics));
    }
    ffi::give_text(&text)
}

/// Returns a counter by RocksDB's number; 0 for one that Esker does not have.
#[unsafe(no_mangle)]
pub extern "C" fn rocksdb_options_statistics_get_ticker_count(
    options: Option<&rocksdb_options_t>,
    ticker_type: u32,
) -> u64 {
    let found = TICKERS.iter().find(|(number, ..)| *number == ticker_type);
    match (found, metrics(options)) {
        (Some((.., counter)), Some(metrics)) => counter(&metrics),
        _ => 0,
    }
}

thread_local! {
    /// The counts of this thread since the last reset.
    static SUM: RefCell<PerfContext> = RefCell::default();
}

/// The counts of the calling thread.
pub struct rocksdb_perfcontext_t {
    _private: (),
}

/// Adds the newest counts to those of the thread, and calls `see` with the sum.
fn counts<R>(see: impl FnOnce(&PerfContext) -> R) -> R {
    SUM.with_borrow_mut(|sum| {
        add_perf_context(sum, &PerfContext::take());
        see(sum)
    })
}

/// Switches the counting of the calling thread on (from level 2 on) or off.
#[unsafe(no_mangle)]
pub extern "C" fn rocksdb_set_perf_level(level: c_int) {
    counts(|_| ());
    perf::enable(level >= ENABLE_COUNT);
}

/// Returns an object for the counts of the calling thread.
#[unsafe(no_mangle)]
pub extern "C" fn rocksdb_perfcontext_create() -> Box<rocksdb_perfcontext_t> {
    Box::new(rocksdb_perfcontext_t { _private: () })
}

/// Sets the counts of the calling thread to zero.
#[unsafe(no_mangle)]
pub extern "C" fn rocksdb_perfcontext_reset(_context: Option<&rocksdb_perfcontext_t>) {
    PerfContext::take();
    SUM.set(PerfContext::default());
}

/// Returns the counts as text, allocated with `malloc`.
#[unsafe(no_mangle)]
pub extern "C" fn rocksdb_perfcontext_report(
    _context: Option<&rocksdb_perfcontext_t>,
    exclude_zero_counters: u8,
) -> *mut c_char {
    let text = counts(|sum| {
        let all = COUNTS.iter().map(|(_, name, count)| (name, count(sum)));
        let shown = all.filter(|(_, count)| exclude_zero_counters == 0 || *count != 0);
        shown.map(|(name, count)| format!("{name} = {count}")).collect::<Vec<_>>().join(", ")
    });
    ffi::give_text(&text)
}

/// Returns a count by RocksDB's number; 0 for one that Esker does not have.
#[unsafe(no_mangle)]
pub extern "C" fn rocksdb_perfcontext_metric(
    _context: Option<&rocksdb_perfcontext_t>,
    metric: c_int,
) -> u64 {
    let found = COUNTS.iter().find(|(number, ..)| *number == metric);
    found.map_or(0, |(.., count)| counts(count))
}

/// Frees an object for counts.
#[unsafe(no_mangle)]
pub extern "C" fn rocksdb_perfcontext_destroy(context: Option<Box<rocksdb_perfcontext_t>>) {
    drop(context);
}
