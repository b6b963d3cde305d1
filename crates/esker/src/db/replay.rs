//! Log recovery: how far the logs continue each other, and what their ends prove.
//!
//! Invariants:
//! 1. The recovered operations are a prefix of the logged writes. The omitted rest is a torn tail
//!    that nothing proves durable. Otherwise the opening fails.
//! 2. Memory use is what active and immutable memtables may have together, and one record. With
//!    threads, a full memtable is kept for the flush thread as long as that bound allows, and after it
//!    the oldest becomes tables here. Without threads there is one memtable, of the size given by
//!    [`replayed_bytes`]. The edit that adds the tables records the sequence number up to which the
//!    tables are complete.
//! 3. Every operation up to that number, [`VersionSet::last_seqno`], is in tables. A replay after a
//!    crash skips these operations, also when the crash interrupted this replay.
//! 4. No log is removed here. All of them exist until the opening is done, for a repair too.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::dir::list_dir;
use super::rules::{catalog_keys, note_kind};
use super::table_output::{level_zero_slice, table_options};
use super::tree::{Tree, fresh_memtables};
use super::value_garbage::separated_min_bytes;
use crate::base::checksum::checksum;
use crate::base::key::SeqNo;
use crate::base::keyspace_rules::KeyspaceRules;
use crate::base::ops;
use crate::base::sync::atomic::{AtomicU64, Ordering};
use crate::error::{Error, Result};
use crate::flush;
use crate::fs::Fs;
use crate::iter::rewrite::RewriteRules;
use crate::memtable::{ChunkPool, Memtables};
use crate::metrics::RewriteCounters;
use crate::options::Options;
use crate::options::validate::Sizes;
use crate::table::ReadConfig;
use crate::tree::edit::VersionEdit;
use crate::tree::names;
use crate::tree::output::{Opened, OutputConfig};
use crate::tree::set::VersionSet;
use crate::tree::value_output::ValueConfig;
use crate::wal::{LogEnd, LogReader, LogRecord};
use crate::write::writer_state::apply;

/// Result of the log recovery.
pub(super) struct Replayed {
    /// Full memtables, oldest first, which a thread is to flush.
    pub full: Vec<Memtables>,
    /// The newest operations.
    pub memtables: Memtables,
    pub pool: Arc<ChunkPool>,
    pub last_seqno: SeqNo,
    pub next_ordinal: u64,
    /// Number of the next file.
    pub numbers: Arc<AtomicU64>,
    /// Whether the last log ends with the clean-close marker.
    pub closed: bool,
    /// The log that the last log names as its continuation.
    pub continued_in: Option<u64>,
    /// Ordinal of the first record of a gap, when a log does not continue its predecessor.
    pub gap: Option<u64>,
    /// Logs that hold nothing: their creation failed, or a crash interrupted it.
    pub unused: Vec<u64>,
    /// Number of logs read.
    pub logs: usize,
    /// What a crash lost, in sentences.
    pub notes: Vec<String>,
}

/// Returns the maximum memory of a memtable while logs are read, in bytes. All memtables that were
/// not flushed before fit in, because nothing else needs their share of the budget meanwhile.
fn replayed_bytes(options: &Options, sizes: &Sizes) -> u64 {
    /// Upper limit, in bytes. A memtable's addresses reach to 32 GiB, and a record may have 4 GiB.
    const MOST: u64 = 8 << 30;
    let unflushed = sizes.memtable_bytes.saturating_mul(1 + options.frozen_memtables_max);
    unflushed.min(sizes.memory_budget_bytes / 2).max(sizes.memtable_bytes).min(MOST)
}

/// Writes memtables to tables while logs are read.
pub(super) struct Spill<'a> {
    fs: Arc<dyn Fs>,
    dir: PathBuf,
    options: &'a Options,
    trees: &'a [Arc<Tree>],
    /// The rules of the default keyspace.
    rules: &'a Arc<KeyspaceRules>,
    /// Whether a memtable was written.
    used: bool,
}

impl<'a> Spill<'a> {
    /// Creates a spill into the store in `dir`.
    pub fn new(
        fs: Arc<dyn Fs>,
        dir: &Path,
        options: &'a Options,
        trees: &'a [Arc<Tree>],
        rules: &'a Arc<KeyspaceRules>,
    ) -> Spill<'a> {
        Spill { fs, dir: dir.to_path_buf(), options, trees, rules, used: false }
    }

    /// Makes `memtables` the newest runs of level 0. No snapshot is older than an opening.
    fn flush(
        &mut self,
        memtables: &Memtables,
        numbers: &Arc<AtomicU64>,
        versions: &mut VersionSet,
    ) -> Result<()> {
        if !self.used {
            // The content of the manifest may never have been synced: see `DbInner::begin_writing`.
            versions.renew();
            self.used = true;
        }
        let mut edit = VersionEdit::default();
        let (order, mut open) = (versions.allocate_order(), Vec::new());
        for (tree, memtable) in self.trees.iter().zip(memtables.iter()) {
            let config = self.output_config(tree, numbers);
            open.extend(config.opened.clone());
            let rules = RewriteRules {
                snapshots: Vec::new(),
                now_ms: self.rules.clock.now_ms(),
                live: catalog_keys(versions.catalog(), tree.id, self.options, self.rules),
                filter_level: None,
                values: None,
                counters: &RewriteCounters::default(),
            };
            let files = flush::write_tables(memtable, &tree.order, rules, config)?;
            let slices = files.into_iter().map(|file| level_zero_slice(file, order));
            if slices.len() > 0 {
                edit.tree_mut(tree.id).added.extend(slices);
            }
        }
        edit.next_file = Some(numbers.load(Ordering::Relaxed));
        edit.last_seqno = memtables.seqno_max();
        let files = versions.apply(edit)?.files();
        open.iter().for_each(|opened| drop(opened.settle(&files)));
        Ok(())
    }

    fn output_config(&self, tree: &Tree, numbers: &Arc<AtomicU64>) -> OutputConfig {
        let numbers = numbers.clone();
        let (seed, mut step) = (self.fs.unique_number(), 0_u64);
        OutputConfig {
            fs: self.fs.clone(),
            dir: self.dir.clone(),
            table: table_options(&tree.options.load(), tree.id, 0),
            read: ReadConfig { is_flushed: true, ..tree.tables.config().clone() },
            file_size_max_bytes: self.options.file_size_max_bytes,
            verify: self.options.verify_tables,
            next_number: Box::new(move || numbers.fetch_add(1, Ordering::Relaxed)),
            next_table_id: Box::new(move || {
                step += 1;
                checksum(&step.to_le_bytes(), seed) | 1
            }),
            opened: Some(Opened::new(&tree.tables)),
            over_others: true,
            pace: None,
            values: ValueConfig::new(
                separated_min_bytes(tree.options.load().value_separation_min_bytes),
                tree.tables.values().clone(),
            ),
        }
    }
}

/// Destination of the recovered operations.
struct Sink<'a, 'b> {
    options: &'a Options,
    trees: &'a [Arc<Tree>],
    rules: &'a KeyspaceRules,
    /// Memory of a full memtable, in bytes.
    memtable_bytes: u64,
    /// Bytes for which the filter of a memtable is made.
    filter_bytes: usize,
    most_bytes: u64,
    /// Maximum number of full memtables that are kept; `None` where no thread flushes them.
    kept_max: Option<usize>,
    versions: &'a mut VersionSet,
    /// `None` in a store opened read-only, which keeps everything in memory.
    spill: Option<&'a mut Spill<'b>>,
}

impl Sink<'_, '_> {
    fn new_memtables(&self, pool: &Arc<ChunkPool>) -> Memtables {
        fresh_memtables(self.trees, self.options, self.filter_bytes, pool)
    }

    /// Applies the `count` operations of a record.
    fn take(&self, state: &mut Replayed, record: &LogRecord<'_>, count: u64) {
        let last = record.first_seqno.saturating_add(count).saturating_sub(1);
        state.last_seqno = state.last_seqno.max(last);
        if last > self.versions.last_seqno() {
            let note = |op: &ops::Op<'_>| note_kind(self.rules, op.kind);
            apply(&state.memtables, record.payload, record.first_seqno, note);
        }
    }

    /// Keeps the memtables for the flush thread if they are full, or writes the oldest to tables.
    fn make_room(&mut self, state: &mut Replayed) -> Result<()> {
        let most_bytes = self.kept_max.map_or(self.most_bytes, |_| self.memtable_bytes);
        let is_full = state.memtables.memory_bytes() as u64 >= most_bytes;
        if !is_full || self.spill.is_none() {
            return Ok(());
        }
        let fresh = self.new_memtables(&state.pool);
        state.full.push(std::mem::replace(&mut state.memtables, fresh));
        // A large value can fill a memtable to many times its size.
        let bytes = |full: &[Memtables]| full.iter().map(|m| m.memory_bytes() as u64).sum::<u64>();
        let kept_max = self.kept_max.unwrap_or(0);
        while state.full.len() > kept_max || bytes(&state.full) > self.most_bytes {
            let oldest = state.full.remove(0);
            if let Some(spill) = &mut self.spill {
                spill.flush(&oldest, &state.numbers, self.versions)?;
            }
        }
        Ok(())
    }
}

/// Reads the logs, starting with the manifest's first log, as far as they continue each other.
/// Reads into a memtable and, with `spill`, writes that to tables whenever it is full.
pub(super) fn replay(
    fs: &dyn Fs,
    dir: &Path,
    (options, sizes, pool): (&Options, &Sizes, Arc<ChunkPool>),
    (trees, rules): (&[Arc<Tree>], &KeyspaceRules),
    versions: &mut VersionSet,
    spill: Option<&mut Spill<'_>>,
) -> Result<Replayed> {
    let counted = versions.next_file_number();
    let entries = list_dir(fs, dir)?.entries;
    let numbered = |parse: fn(&str) -> Option<u64>| {
        let numbers = entries.iter().filter_map(move |e| parse(&e.name));
        numbers.filter(|number| names::is_reached(*number, counted)).collect::<Vec<u64>>()
    };
    let mut logs = numbered(names::parse_log);
    logs.sort_unstable();
    // Includes logs behind a gap, and files that a crash left incomplete: their names are taken
    // until they are removed.
    let used = logs.last().copied().max(numbered(names::parse_table).into_iter().max());
    let used = used.max(numbered(names::parse_value_file).into_iter().max());
    let next_number = counted.max(used.map_or(0, |number| number + 1));
    // With a runtime, a store that is only open has no filter.
    let is_shared = options.runtime.is_some();
    let memtable_bytes = sizes.memtable_bytes;
    let filter_bytes = if is_shared { 0 } else { memtable_bytes as usize };
    let most_bytes = replayed_bytes(options, sizes);
    // The newest memtable counts too: all of them may wait for the flush thread after the opening.
    let kept_max = (options.frozen_memtables_max as usize).saturating_sub(1);
    let kept_max = (sizes.compaction_threads > 0).then_some(kept_max);
    let mut sink = Sink {
        options,
        trees,
        rules,
        memtable_bytes,
        filter_bytes,
        most_bytes,
        kept_max,
        versions,
        spill,
    };
    let mut state = Replayed {
        full: Vec::new(),
        memtables: sink.new_memtables(&pool),
        pool,
        last_seqno: sink.versions.last_seqno().max(sink.versions.newest_in_tables()),
        next_ordinal: 0,
        numbers: Arc::new(AtomicU64::new(next_number)),
        closed: false,
        continued_in: None,
        gap: None,
        unused: Vec::new(),
        logs: 0,
        notes: Vec::new(),
    };
    replay_all(fs, dir, &logs, &mut sink, &mut state)?;
    Ok(state)
}

/// Replays the logs with these numbers.
fn replay_all(
    fs: &dyn Fs,
    dir: &Path,
    logs: &[u64],
    sink: &mut Sink<'_, '_>,
    state: &mut Replayed,
) -> Result<()> {
    let versions = &*sink.versions;
    let (min_wal, newest_wal) = (versions.min_wal(), versions.newest_wal());
    for needed in [min_wal, newest_wal] {
        if needed != 0 && needed >= min_wal && !logs.contains(&needed) {
            let message = "the manifest names this log, but the log does not exist; `repair` keeps \
                           the other data";
            return Err(Error::corruption(&names::log_path(dir, needed), 0, message));
        }
    }
    let mut expected = versions.min_wal_ordinal();
    let (closed, closed_bytes) = versions.closed_wal();
    for number in logs.iter().copied().filter(|number| *number >= min_wal) {
        let path = names::log_path(dir, number);
        state.logs += 1;
        let mut reader = LogReader::open(fs, &path, number)?;
        let named = number <= min_wal.max(newest_wal);
        if named && !reader.has_header() {
            let message = "the manifest names this log, but the log has no header; `repair` keeps \
                           the other data";
            return Err(Error::corruption(&path, 0, message));
        }
        if let Some(gap) = state.gap {
            // No record behind a gap is applied. The log may still prove that there must be no gap.
            check_gap(&mut reader, &path, gap)?;
            state.note_gap(&reader, &path, gap);
            continue;
        }
        replay_one((&mut reader, &path, number), &mut expected, sink, state)?;
        if closed == number && reader.at_bytes() < closed_bytes {
            let message = format!(
                "expected {closed_bytes} bytes of whole records when this log was closed, found \
                 {}; the log is damaged, `repair` keeps the readable data",
                reader.at_bytes()
            );
            return Err(Error::corruption(&path, reader.at_bytes(), message));
        }
    }
    if let Some(missing) = state.continued_in {
        return Err(not_continued(dir, missing));
    }
    state.next_ordinal = expected.unwrap_or(0);
    Ok(())
}

/// Returns the error for a missing log that the log before it names as its continuation.
fn not_continued(dir: &Path, missing: u64) -> Error {
    let message = "the previous log names this log as its continuation, but this log does not \
                   exist or has no header; `repair` keeps the other data";
    Error::corruption(&names::log_path(dir, missing), 0, message)
}

/// Returns an error if this log, which comes after a gap, proves that the lost record was durable.
fn check_gap(reader: &mut LogReader, path: &Path, lost: u64) -> Result<()> {
    if !reader.proves_durable(lost)? {
        return Ok(());
    }
    let message = format!(
        "this log proves that record {lost} was durable, but the older log that must end with this \
         record lacks it; the older log is damaged, `repair` keeps the readable data"
    );
    Err(Error::corruption(path, 0, message))
}

impl Replayed {
    /// Notes that the records of a log were left out, because record `lost` before them was lost.
    fn note_gap(&mut self, reader: &LogReader, path: &Path, lost: u64) {
        if reader.has_header() && reader.start().is_some() {
            self.notes.push(format!(
                "{}: a crash lost record {lost} at the end of an older log; the records of this log, \
                 which are newer, were left out",
                path.display()
            ));
        }
    }
}

/// Returns the number of operations in a record; `None` if any part is invalid, or names a tree
/// that is not one of the first `trees`.
pub(super) fn count_operations(payload: &[u8], trees: usize) -> Option<u64> {
    let valid = |op: &ops::Op<'_>| (op.tree as usize) < trees;
    ops::Ops::new(payload).try_fold(0, |count, op| op.filter(valid).map(|_| count + 1))
}

/// Returns whether a log continues the records that were replayed. A log that does not is unused,
/// or comes after a gap, or else is an error.
fn is_next_log(
    reader: &mut LogReader,
    path: &Path,
    number: u64,
    expected: &mut Option<u64>,
    state: &mut Replayed,
) -> Result<bool> {
    // The log's header and name were durable before the marker was written.
    if let Some(next) = state.continued_in.take_if(|next| *next <= number)
        && (next < number || !reader.has_header())
    {
        return Err(not_continued(path.parent().unwrap_or(path), next));
    }
    if !reader.has_header() {
        // A crash interrupted its creation.
        state.unused.push(number);
        return Ok(false);
    }
    let Some(start) = reader.start() else {
        // The log was preallocated, or a crash lost its content. The manifest or the previous log
        // may name it, so it is removed together with the other logs.
        state.closed = false;
        if reader.has_bytes_behind_header()? {
            state.notes.push(format!(
                "{}: the beginning of this log is damaged or was lost in a crash; its records were \
                 left out",
                path.display()
            ));
        }
        return Ok(false);
    };
    let want = *expected.get_or_insert(start.first_ordinal);
    if start.first_ordinal > want {
        // The previous log ended early.
        state.gap = Some(want);
        state.closed = false;
        check_gap(reader, path, want)?;
        state.note_gap(reader, path, want);
        return Ok(false);
    }
    if start.first_ordinal < want {
        // Created, never used, and left behind by a failure.
        if reader.next()?.is_none() {
            state.unused.push(number);
            return Ok(false);
        }
        let message = format!(
            "expected a log that starts with record {want}, found a log that starts with record {}",
            start.first_ordinal
        );
        return Err(Error::corruption(path, 0, message));
    }
    Ok(true)
}

/// Replays one log, or finds that it comes after a gap.
fn replay_one(
    (reader, path, number): (&mut LogReader, &Path, u64),
    expected: &mut Option<u64>,
    sink: &mut Sink<'_, '_>,
    state: &mut Replayed,
) -> Result<()> {
    if !is_next_log(reader, path, number, expected, state)? {
        return Ok(());
    }
    while let Some(record) = reader.next()? {
        let Some(count) = count_operations(record.payload, sink.trees.len()) else {
            let message = "a log record with a valid checksum holds no valid operations";
            return Err(Error::corruption(path, record.offset_bytes, message));
        };
        sink.take(state, &record, count);
        *expected = Some(record.ordinal + 1);
        reader.forget_large_record();
        sink.make_room(state)?;
    }
    state.closed = reader.end() == Some(LogEnd::Closed);
    if let Some(LogEnd::Continued { number }) = reader.end() {
        state.continued_in = Some(number);
    }
    if reader.has_bytes_behind_end()? {
        state.notes.push(format!(
            "{}: a crash lost the beginning of what follows byte {}; these bytes were left out",
            path.display(),
            reader.at_bytes()
        ));
    }
    if let Some(LogEnd::Torn { offset_bytes, .. }) = reader.end() {
        state.notes.push(format!(
            "{}: a crash interrupted the write of the record at byte {offset_bytes}; this record \
             and all later bytes were left out",
            path.display()
        ));
    }
    Ok(())
}
