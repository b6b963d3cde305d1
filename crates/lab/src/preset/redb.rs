//! The work of redb's `lmdb_benchmark`: one engine does each row of the table once.
//!
//! Invariants:
//! 1. Keys, values and their order are made before the first clock starts.
//! 2. Each read is compared with the pair that was written, and so is the content after the
//!    removals and after the compaction.
//! 3. A row that an engine cannot give is not available. Its writes are still done, because later
//!    rows need them.

use std::ops::Range;
use std::path::Path;
use std::sync::Barrier;
use std::time::Instant;

use crate::error::{LabError, Result};
use crate::measure::host;
use crate::record::schema::TaskSample;
use crate::run::config::{BenchConfig, DATA_BYTES_SPARE};
use crate::run::engine_dir::EngineDir;
use crate::run::session::{Listener, keep, note_close};
use crate::target::{Capabilities, Direction, Engine, Target};
use crate::workload::rng::Rng;
use crate::workload::values::{ValuePool, ValueRef};

/// Pairs of redb's bulk load.
const BULK: u64 = 5_000_000;
const INDIVIDUAL: u64 = 1_000;
const BATCHES: u64 = 100;
const BATCH_KEYS: u64 = 1_000;
const READS: u64 = 1_000_000;
const RANGES: u64 = 500_000;
const RANGE_KEYS: usize = 10;
/// Cache of each engine in redb's benchmark.
pub const CACHE_BYTES: u64 = 4 << 30;

/// What a row measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowKind {
    /// One large write, synced at its end.
    Bulk,
    /// Synced writes of one pair.
    Individual,
    /// Synced batches.
    Batches,
    /// The number of pairs.
    Len,
    /// Gets in the order of the writes, by this number of threads; `None` is one thread with
    /// fewer reads.
    Reads(Option<usize>),
    /// Seeks, each with the pairs that follow.
    Ranges,
    /// Removals of the first half of the pairs.
    Removals,
    /// A compaction.
    Compaction,
    /// Bytes on disk before the compaction.
    UncompactedSize,
    /// Bytes on disk after the compaction.
    CompactedSize,
}

impl RowKind {
    /// Returns whether the row is a number of bytes instead of a time.
    pub fn is_size(self) -> bool {
        matches!(self, RowKind::UncompactedSize | RowKind::CompactedSize)
    }
}

/// The rows of the table, under redb's names, in its order.
pub const ROWS: &[(&str, RowKind)] = &[
    ("bulk load", RowKind::Bulk),
    ("individual writes", RowKind::Individual),
    ("batch writes", RowKind::Batches),
    ("len()", RowKind::Len),
    ("random reads", RowKind::Reads(None)),
    ("random reads", RowKind::Reads(None)),
    ("random range reads", RowKind::Ranges),
    ("random range reads", RowKind::Ranges),
    ("random reads (4 threads)", RowKind::Reads(Some(4))),
    ("random reads (8 threads)", RowKind::Reads(Some(8))),
    ("random reads (16 threads)", RowKind::Reads(Some(16))),
    ("random reads (32 threads)", RowKind::Reads(Some(32))),
    ("removals", RowKind::Removals),
    ("compaction", RowKind::Compaction),
    ("uncompacted size", RowKind::UncompactedSize),
    ("compacted size", RowKind::CompactedSize),
];

/// Amounts of the rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Amounts {
    /// Pairs of the bulk load.
    pub bulk: u64,
    /// Writes of one pair.
    pub individual: u64,
    /// Number of batches.
    pub batches: u64,
    /// Pairs of a batch.
    pub batch_keys: u64,
    /// Reads of one thread.
    pub reads: u64,
    /// Range reads.
    pub ranges: u64,
}

impl Amounts {
    /// Returns redb's amounts, scaled by the number of pairs of the bulk load.
    pub fn of(config: &BenchConfig) -> Amounts {
        let mut amounts = Amounts {
            bulk: config.num.unwrap_or(BULK),
            individual: 0,
            batches: 0,
            batch_keys: 0,
            reads: 0,
            ranges: 0,
        };
        amounts.individual = amounts.scaled(INDIVIDUAL);
        amounts.batches = amounts.scaled(BATCHES);
        let all = amounts.scaled(BATCHES * BATCH_KEYS);
        amounts.batch_keys = (all / amounts.batches).clamp(1, BATCH_KEYS);
        amounts.reads = config.reads.unwrap_or(amounts.scaled(READS)).max(1);
        amounts.ranges = amounts.scaled(RANGES);
        amounts
    }

    /// Returns the scale; 1 is redb's own size.
    pub fn scale(&self) -> f64 {
        self.bulk as f64 / BULK as f64
    }

    /// Returns an amount of redb's benchmark at this scale, at least 1.
    pub fn scaled(&self, amount: u64) -> u64 {
        ((u128::from(amount) * u128::from(self.bulk) / u128::from(BULK)) as u64).max(1)
    }

    /// Returns the number of pairs that all rows write.
    pub fn elements(&self) -> u64 {
        self.bulk + self.individual + self.batches * self.batch_keys
    }

    /// Describes scale and amounts in one line.
    pub fn text(&self, config: &BenchConfig) -> String {
        format!(
            "redb's lmdb_benchmark at scale {}: {} pairs in bulk, {} individual writes, {} \
             batches of {}, {} reads, {} range reads of {RANGE_KEYS}; keys of {} bytes, values of \
             {} bytes",
            self.scale(),
            self.bulk,
            self.individual,
            self.batches,
            self.batch_keys,
            self.reads,
            self.ranges,
            config.key_size,
            config.value_size
        )
    }
}

/// The pairs of the benchmark, in the order in which they are written.
pub struct Pairs {
    pool: ValuePool,
    key_bytes: usize,
    keys: Vec<u8>,
    values: Vec<ValueRef>,
    /// Indices of the pairs in key order.
    order: Vec<u32>,
    /// Place of each pair in `order`.
    places: Vec<u32>,
}

impl Pairs {
    /// Makes the pairs with random keys.
    ///
    /// # Errors
    /// There are too many pairs, or keys too short to be different.
    pub fn make(config: &BenchConfig) -> Result<Pairs> {
        let too_many = || LabError::usage("num is too large for the preset redb");
        let count = u32::try_from(Amounts::of(config).elements()).map_err(|_| too_many())?;
        let (key_bytes, value_bytes) = (config.key_size, config.value_size);
        let bytes = (count as usize).checked_mul(key_bytes).ok_or_else(too_many)?;
        let pool = ValuePool::generate(config.seed, config.compression_ratio, value_bytes);
        let mut rng = Rng::for_part(config.seed, 0x4EDB);
        let mut keys = Vec::with_capacity(bytes + 8);
        while keys.len() < bytes {
            keys.extend_from_slice(&rng.next_u64().to_le_bytes());
        }
        keys.truncate(bytes);
        let value = |index: u32| pool.cut(u64::from(index), 0, value_bytes);
        let values = (0..count).map(value).collect::<Option<Vec<_>>>().ok_or_else(too_many)?;
        let key = |index: u32| &keys[index as usize * key_bytes..][..key_bytes];
        let mut order: Vec<u32> = (0..count).collect();
        order.sort_unstable_by(|&a, &b| key(a).cmp(key(b)));
        if order.windows(2).any(|pair| key(pair[0]) == key(pair[1])) {
            return Err(LabError::usage(format!(
                "key_size {key_bytes} is too short for {count} different random keys"
            )));
        }
        let mut places = vec![0u32; count as usize];
        for (place, &index) in order.iter().enumerate() {
            places[index as usize] = place as u32;
        }
        Ok(Pairs { pool, key_bytes, keys, values, order, places })
    }

    fn len(&self) -> usize {
        self.values.len()
    }

    #[inline]
    fn key(&self, index: usize) -> &[u8] {
        &self.keys[index * self.key_bytes..][..self.key_bytes]
    }

    #[inline]
    fn value(&self, index: usize) -> &[u8] {
        self.pool.get(self.values[index])
    }
}

/// Input of a round.
pub struct RedbRound<'a> {
    /// Engine to run.
    pub engine: &'a dyn Engine,
    /// Settings of the benchmark.
    pub config: &'a BenchConfig,
    /// Pairs, made with the same settings.
    pub pairs: &'a Pairs,
    /// Parent directory of the engines' directories.
    pub base_dir: &'a Path,
    /// Repetition, from 0.
    pub repetition: usize,
    /// Returns freed memory to the operating system.
    pub settle_memory: &'a dyn Fn(),
}

/// Does all rows in a directory of its own. An engine's error ends the round; the rows before it
/// are returned.
///
/// # Errors
/// The round could not start.
pub fn run(round: &RedbRound<'_>, listener: &mut dyn Listener) -> Result<Vec<TaskSample>> {
    let engine_dir = EngineDir::prepare(round.base_dir, round.engine.name())?;
    engine_dir.empty()?;
    (round.settle_memory)();
    let amounts = Amounts::of(round.config);
    let mut store = round.config.store.clone();
    let pair_bytes = (round.config.key_size + round.config.value_size) as u64;
    store.data_bytes_expected = amounts.elements() * pair_bytes + DATA_BYTES_SPARE;
    let target = round.engine.open(&engine_dir.store(), &store)?;
    let mut session = Session {
        target: target.as_ref(),
        pairs: round.pairs,
        amounts,
        can: round.engine.capabilities(),
        engine_dir: &engine_dir,
        uncompacted_bytes: None,
    };
    let mut samples = Vec::new();
    for (position, (name, kind)) in ROWS.iter().enumerate() {
        let mut sample = TaskSample::new(round.engine.name(), name, position, round.repetition);
        let result = session.row(*kind, &mut sample);
        if !keep(sample, result, listener, &mut samples) {
            break;
        }
    }
    note_close(target.close(), &mut samples);
    if round.config.db.is_none() {
        engine_dir.remove()?;
    }
    rustix::fs::sync();
    Ok(samples)
}

struct Session<'a> {
    target: &'a dyn Target,
    pairs: &'a Pairs,
    amounts: Amounts,
    can: Capabilities,
    engine_dir: &'a EngineDir,
    /// Bytes on disk before the compaction.
    uncompacted_bytes: Option<u64>,
}

/// Reasons why a row is not available.
const NO_SYNC: &str = "the engine offers no sync";
const NO_BATCHES: &str = "the engine offers no batches";
const NO_COMPACTION: &str = "the engine offers no compaction";
const NO_FILES: &str = "the engine stores nothing on disk";

impl Session<'_> {
    fn row(&mut self, kind: RowKind, sample: &mut TaskSample) -> Result<()> {
        let Amounts { bulk, individual, batches, batch_keys, reads, ranges } = self.amounts;
        let (bulk, individual) = (bulk as usize, individual as usize);
        let single = bulk..bulk + individual;
        match kind {
            RowKind::Bulk => self.write(std::iter::once(0..bulk), true, sample),
            RowKind::Individual => self.individual(single, sample),
            RowKind::Batches => {
                let (first, keys) = (single.end, batch_keys as usize);
                let batch = |n: u64| first + n as usize * keys..first + (n as usize + 1) * keys;
                self.write((0..batches).map(batch), true, sample)
            }
            RowKind::Len => {
                let start = Instant::now();
                let pairs = self.target.count()?;
                timed(start, 1, sample);
                note_wrong(u64::from(pairs != self.pairs.len() as u64), sample);
                Ok(())
            }
            RowKind::Reads(None) => self.reads(0..reads as usize, sample),
            RowKind::Reads(Some(threads)) => self.reads_of_threads(threads, sample),
            RowKind::Ranges => self.ranges(ranges as usize, sample),
            RowKind::Removals => {
                self.write(std::iter::once(0..self.pairs.len() / 2), false, sample)?;
                self.check_content(sample)
            }
            RowKind::Compaction => {
                let persistent = self.can.persistent;
                self.uncompacted_bytes = persistent.then(|| self.disk_bytes());
                if !self.can.compact {
                    return not_available(sample, NO_COMPACTION);
                }
                let start = Instant::now();
                self.target.compact()?;
                timed(start, 1, sample);
                self.check_content(sample)
            }
            RowKind::UncompactedSize => match self.uncompacted_bytes {
                None => not_available(sample, NO_FILES),
                bytes => {
                    sample.disk_bytes = bytes;
                    Ok(())
                }
            },
            RowKind::CompactedSize if !self.can.persistent => not_available(sample, NO_FILES),
            RowKind::CompactedSize if !self.can.compact => not_available(sample, NO_COMPACTION),
            RowKind::CompactedSize => {
                sample.disk_bytes = Some(self.disk_bytes());
                Ok(())
            }
        }
    }

    fn disk_bytes(&self) -> u64 {
        host::disk_use(&self.engine_dir.store()).allocated_bytes
    }

    /// Puts or removes the pairs of each range in one batch, which is synced.
    fn write(
        &self,
        ranges: impl Iterator<Item = Range<usize>>,
        puts: bool,
        sample: &mut TaskSample,
    ) -> Result<()> {
        let pairs = self.pairs;
        let (mut operations, mut batched) = (0, true);
        let start = Instant::now();
        for range in ranges {
            operations += range.len() as u64;
            let value = |index: usize| puts.then(|| pairs.value(index));
            let mut writes = range.clone().map(|index| (pairs.key(index), value(index)));
            if batched && self.target.write_many(&mut writes, self.can.sync)? {
                continue;
            }
            batched = false;
            for index in range {
                match value(index) {
                    Some(value) => self.target.put(pairs.key(index), value, false)?,
                    None => self.target.delete(pairs.key(index))?,
                }
            }
        }
        match (batched, self.can.sync) {
            (false, _) => return not_available(sample, NO_BATCHES),
            (true, false) => return not_available(sample, NO_SYNC),
            (true, true) => timed(start, operations, sample),
        }
        Ok(())
    }

    fn individual(&self, range: Range<usize>, sample: &mut TaskSample) -> Result<()> {
        let operations = range.len() as u64;
        let start = Instant::now();
        for index in range {
            self.target.put(self.pairs.key(index), self.pairs.value(index), self.can.sync)?;
        }
        if !self.can.sync {
            return not_available(sample, NO_SYNC);
        }
        timed(start, operations, sample);
        Ok(())
    }

    /// Gets the pairs of `range`, which begins again at the first pair after the last, and returns
    /// the number of wrong answers.
    fn wrong_gets(&self, range: Range<usize>) -> Result<u64> {
        let mut wrong = 0;
        for index in range {
            let index = index % self.pairs.len();
            let expected = self.pairs.value(index);
            let mut right = false;
            let found = self.target.get(self.pairs.key(index), &mut |value| {
                right = value == expected;
            })?;
            wrong += u64::from(!(found && right));
        }
        Ok(wrong)
    }

    fn reads(&self, range: Range<usize>, sample: &mut TaskSample) -> Result<()> {
        let operations = range.len() as u64;
        let start = Instant::now();
        let wrong = self.wrong_gets(range)?;
        timed(start, operations, sample);
        note_wrong(wrong, sample);
        Ok(())
    }

    /// Gets all pairs, each thread its part.
    fn reads_of_threads(&self, threads: usize, sample: &mut TaskSample) -> Result<()> {
        let count = self.pairs.len();
        let part = |thread: usize| count * thread / threads..count * (thread + 1) / threads;
        let barrier = Barrier::new(threads + 1);
        let read = |thread: usize| {
            barrier.wait();
            self.wrong_gets(part(thread))
        };
        let read = &read;
        let (start, results) = std::thread::scope(|scope| {
            let running: Vec<_> =
                (0..threads).map(|thread| scope.spawn(move || read(thread))).collect();
            let start = Instant::now();
            barrier.wait();
            let results: Vec<_> = running.into_iter().map(|thread| thread.join()).collect();
            (start, results)
        });
        timed(start, count as u64, sample);
        let mut wrong = 0;
        for result in results {
            wrong += result.map_err(|_| LabError::engine("a thread of the row panicked"))??;
        }
        note_wrong(wrong, sample);
        Ok(())
    }

    fn ranges(&self, count: usize, sample: &mut TaskSample) -> Result<()> {
        let pairs = self.pairs;
        let mut wrong = 0;
        let start = Instant::now();
        for index in 0..count {
            let index = index % pairs.len();
            let place = pairs.places[index] as usize;
            let expected = &pairs.order[place..pairs.len().min(place + RANGE_KEYS)];
            let (mut seen, mut right) = (0, true);
            self.target.scan_from(pairs.key(index), &mut |key, value| {
                let own = expected[seen] as usize;
                right &= key == pairs.key(own) && value == pairs.value(own);
                seen += 1;
                seen < expected.len()
            })?;
            wrong += u64::from(!right || seen != expected.len());
        }
        timed(start, count as u64, sample);
        note_wrong(wrong, sample);
        Ok(())
    }

    /// Compares the whole content with the pairs that were not removed, outside of the clock.
    fn check_content(&self, sample: &mut TaskSample) -> Result<()> {
        let (pairs, removed) = (self.pairs, self.pairs.len() / 2);
        let mut left = pairs.order.iter().map(|&i| i as usize).filter(|&index| index >= removed);
        let mut wrong = 0;
        self.target.scan(Direction::Forward, &mut |key, value| {
            let right = left
                .next()
                .is_some_and(|index| key == pairs.key(index) && value == pairs.value(index));
            wrong += u64::from(!right);
            right
        })?;
        wrong += left.count() as u64;
        note_wrong(wrong, sample);
        Ok(())
    }
}

fn timed(start: Instant, operations: u64, sample: &mut TaskSample) {
    let seconds = start.elapsed().as_secs_f64();
    sample.elapsed_seconds = seconds;
    sample.operations = operations;
    sample.micros_per_op = Some(seconds * 1e6 / operations.max(1) as f64);
    sample.ops_per_sec = Some(operations as f64 / seconds).filter(|speed| speed.is_finite());
}

fn note_wrong(wrong: u64, sample: &mut TaskSample) {
    if wrong > 0 {
        sample.wrong = wrong;
        sample.error = Some(format!("{wrong} answers differ from what was written"));
    }
}

fn not_available(sample: &mut TaskSample, reason: &str) -> Result<()> {
    sample.not_available = true;
    sample.error = Some(reason.into());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_scale_with_the_pairs_in_bulk() {
        let of = |num: &str| {
            let mut config = BenchConfig::default();
            config.set("num", num).expect("a flag");
            Amounts::of(&config)
        };
        let full = of("5000000");
        assert_eq!((full.individual, full.batches, full.batch_keys), (1000, 100, 1000));
        assert_eq!((full.reads, full.ranges, full.elements()), (1_000_000, 500_000, 5_101_000));
        let tenth = of("500000");
        assert_eq!((tenth.individual, tenth.batches, tenth.batch_keys), (100, 10, 1000));
        let tiny = of("500");
        assert_eq!((tiny.individual, tiny.batches, tiny.batch_keys), (1, 1, 10));
        assert_eq!((tiny.reads, tiny.ranges), (100, 50));
    }

    #[test]
    fn too_short_keys_are_refused() {
        let mut config = BenchConfig::default();
        config.set("num", "5000").expect("a flag");
        config.set("key_size", "1").expect("a flag");
        let error = Pairs::make(&config).map(|_| ()).expect_err("too short").to_string();
        assert!(error.contains("key_size 1"), "{error}");
    }
}
