//! Recovery of the logs: how far they continue each other, and what their ends prove.
//!
//! What stays true:
//! 1. What is taken is a prefix of the logged writes; what is left out is a torn tail that nothing
//!    proves, or the opening fails.
//! 2. Memory is one memtable of the size that [`replayed_bytes`] says, and one record. A full one
//!    becomes tables, and the edit that adds them says up to which sequence number they hold all.
//! 3. Every operation up to that number, [`VersionSet::last_seqno`], is in tables: a replay after a
//!    crash, also after one in the middle of this, passes over it.
//! 4. No log is removed here: until the opening is done they all are there, for a repair too.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::background::table_options;
use super::open::look;
use crate::base::checksum::checksum;
use crate::base::key::SeqNo;
use crate::base::ops;
use crate::base::sync::atomic::{AtomicU64, Ordering};
use crate::error::{Error, Result};
use crate::flush;
use crate::fs::Fs;
use crate::memtable::{ChunkPool, Memtable};
use crate::options::Options;
use crate::options::validate::Sizes;
use crate::tree::edit::{AddedFile, AddedSlice, VersionEdit};
use crate::tree::names;
use crate::tree::output::{Opened, OutputConfig};
use crate::tree::set::VersionSet;
use crate::tree::tables::Tables;
use crate::wal::{LogEnd, LogReader, LogRecord};
use crate::write::core::apply;

/// What the logs gave back.
pub(super) struct Replayed {
    pub memtable: Arc<Memtable>,
    pub pool: Arc<ChunkPool>,
    pub last_seqno: SeqNo,
    pub next_ordinal: u64,
    /// The next file's number.
    pub numbers: Arc<AtomicU64>,
    /// Whether the last log ends with the mark of a clean close.
    pub closed: bool,
    /// The log that the last one says goes on after it.
    pub continued_in: Option<u64>,
    /// The first record of a gap, when a log does not continue the one before.
    pub gap: Option<u64>,
    /// Logs that hold nothing: their creation failed or a crash cut it short.
    pub unused: Vec<u64>,
    /// Logs read.
    pub logs: usize,
    /// What a crash took, in sentences.
    pub notes: Vec<String>,
}

/// The memory a memtable may take while logs are read. Those that had not been flushed yet fit in:
/// nothing else needs their share of the budget meanwhile.
fn replayed_bytes(options: &Options, sizes: &Sizes) -> u64 {
    /// A memtable's addresses reach to 32 GiB, and one record may have 4.
    const MOST: u64 = 8 << 30;
    let unflushed = sizes.memtable_bytes.saturating_mul(1 + options.frozen_memtables_max);
    unflushed.min(sizes.memory_budget_bytes / 2).max(sizes.memtable_bytes).min(MOST)
}

/// Turns memtables into tables while logs are read.
pub(super) struct Spill<'a> {
    fs: Arc<dyn Fs>,
    dir: PathBuf,
    options: &'a Options,
    tables: &'a Arc<Tables>,
    /// Whether there were any.
    used: bool,
}

impl<'a> Spill<'a> {
    /// A spill into the store in `dir`.
    pub fn new(
        fs: Arc<dyn Fs>,
        dir: &Path,
        options: &'a Options,
        tables: &'a Arc<Tables>,
    ) -> Spill<'a> {
        Spill { fs, dir: dir.to_path_buf(), options, tables, used: false }
    }

    /// Makes `memtable` the newest run of level 0. No snapshot is older than an opening.
    fn flush(
        &mut self,
        memtable: &Arc<Memtable>,
        numbers: &Arc<AtomicU64>,
        versions: &mut VersionSet,
    ) -> Result<()> {
        if !self.used {
            // What stands in the manifest may never have been synced: see `Inner::begin_writing`.
            versions.renew();
            self.used = true;
        }
        let config = self.output_config(numbers);
        let opened = config.opened.clone();
        let order = &self.options.key_order;
        let files = flush::write_tables(memtable, order, Vec::new(), config)?;
        let order = versions.allocate_order();
        let mut edit = VersionEdit {
            next_file: Some(numbers.load(Ordering::Relaxed)),
            last_seqno: memtable.seqno_range().map(|(_, last)| last),
            ..VersionEdit::default()
        };
        edit.added.extend(files.into_iter().map(|file| {
            let new = AddedFile::New { number: file.number, info: file.info };
            AddedSlice { level: 0, order, file: new, lo: None, hi: file.hi }
        }));
        let version = versions.apply(edit)?;
        opened.iter().for_each(|opened| drop(opened.settle(&version)));
        Ok(())
    }

    fn output_config(&self, numbers: &Arc<AtomicU64>) -> OutputConfig {
        let numbers = numbers.clone();
        let (seed, mut step) = (self.fs.unique_number(), 0_u64);
        OutputConfig {
            fs: self.fs.clone(),
            dir: self.dir.clone(),
            table: table_options(self.options, 0),
            read: self.tables.config().clone(),
            file_size_max_bytes: self.options.file_size_max_bytes,
            verify: self.options.verify_tables,
            next_number: Box::new(move || numbers.fetch_add(1, Ordering::Relaxed)),
            next_table_id: Box::new(move || {
                step += 1;
                checksum(&step.to_le_bytes(), seed) | 1
            }),
            opened: Some(Opened::new(self.tables)),
            over_others: true,
        }
    }
}

/// Where what is read goes.
struct Sink<'a, 'b> {
    options: &'a Options,
    memtable_bytes: usize,
    most_bytes: u64,
    versions: &'a mut VersionSet,
    /// None in a store opened read-only, which holds all of it in memory.
    spill: Option<&'a mut Spill<'b>>,
}

impl Sink<'_, '_> {
    fn new_memtable(&self, pool: &Arc<ChunkPool>) -> Arc<Memtable> {
        let (kind, order) = (self.options.memtable_kind, self.options.key_order.clone());
        Arc::new(Memtable::with_pool(kind, order, pool.clone(), self.memtable_bytes))
    }

    /// Takes in the operations of a record, `count` of them.
    fn take(&self, state: &mut Replayed, record: &LogRecord<'_>, count: u64) {
        let last = record.first_seqno.saturating_add(count).saturating_sub(1);
        state.last_seqno = state.last_seqno.max(last);
        if last > self.versions.last_seqno() {
            apply(&state.memtable, record.payload, record.first_seqno, |_| {});
        }
    }

    /// Makes tables of the memtable if it is full.
    fn make_room(&mut self, state: &mut Replayed) -> Result<()> {
        let full = state.memtable.memory_bytes() as u64 >= self.most_bytes;
        let Some(spill) = self.spill.as_mut().filter(|_| full) else { return Ok(()) };
        spill.flush(&state.memtable, &state.numbers, self.versions)?;
        state.memtable = self.new_memtable(&state.pool);
        Ok(())
    }
}

/// Reads every log from the manifest's on, as far as they continue each other, into a memtable, and
/// with `spill` into tables whenever that is full.
pub(super) fn replay(
    fs: &dyn Fs,
    dir: &Path,
    (options, sizes): (&Options, &Sizes),
    versions: &mut VersionSet,
    spill: Option<&mut Spill<'_>>,
) -> Result<Replayed> {
    let counted = versions.next_file_number();
    let entries = look(fs, dir)?.entries;
    let numbered = |parse: fn(&str) -> Option<u64>| {
        let numbers = entries.iter().filter_map(move |e| parse(&e.name));
        numbers.filter(|number| names::is_reached(*number, counted)).collect::<Vec<u64>>()
    };
    let mut logs = numbered(names::parse_log);
    logs.sort_unstable();
    // Also of logs behind a gap, and of files that a crash left half made: their names are taken until
    // they are removed.
    let used = logs.last().copied().max(numbered(names::parse_table).into_iter().max());
    let next_number = counted.max(used.map_or(0, |number| number + 1));
    let memtable_bytes = sizes.memtable_bytes as usize;
    let pool = Arc::new(ChunkPool::new(memtable_bytes));
    let most_bytes = replayed_bytes(options, sizes);
    let mut sink = Sink { options, memtable_bytes, most_bytes, versions, spill };
    let mut state = Replayed {
        memtable: sink.new_memtable(&pool),
        pool,
        last_seqno: sink.versions.last_seqno(),
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

/// Replays the logs of these numbers.
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
            let message =
                "the manifest names this log, but it is not there; `repair` keeps the rest";
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
            let message =
                "the manifest names this log, but it has no header; `repair` keeps the rest";
            return Err(Error::corruption(&path, 0, message));
        }
        if let Some(gap) = state.gap {
            // Nothing behind a gap is taken; it may still say that there must be none.
            check_gap(&mut reader, &path, gap)?;
            continue;
        }
        replay_one((&mut reader, &path, number), &mut expected, sink, state)?;
        if closed == number && reader.at_bytes() < closed_bytes {
            let message = format!(
                "expected {closed_bytes} bytes of whole records when this log was closed, found {}; the \
                 log is damaged, `repair` keeps what is readable",
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

/// The log before says that the log `missing` goes on after it.
fn not_continued(dir: &Path, missing: u64) -> Error {
    let message = "the log before this one says that this one continues it, but it is not there or \
                   has no header; `repair` keeps the rest";
    Error::corruption(&names::log_path(dir, missing), 0, message)
}

/// An error if the log read, which comes after a gap, says that the record lost there was durable.
fn check_gap(reader: &mut LogReader, path: &Path, lost: u64) -> Result<()> {
    if !reader.proves_durable(lost)? {
        return Ok(());
    }
    let message = format!(
        "this log says that record {lost}, which an older log should end with, was durable, but it \
         is not there; the older log is damaged, `repair` keeps what is readable"
    );
    Err(Error::corruption(path, 0, message))
}

/// How many operations a record holds; `None` if not all of it are.
fn count_operations(payload: &[u8]) -> Option<u64> {
    ops::Ops::new(payload).try_fold(0, |count, op| op.map(|_| count + 1))
}

/// Replays one log, or finds that it comes after a gap.
fn replay_one(
    (reader, path, number): (&mut LogReader, &Path, u64),
    expected: &mut Option<u64>,
    sink: &mut Sink<'_, '_>,
    state: &mut Replayed,
) -> Result<()> {
    // The log's header and name were durable before the mark was written.
    if let Some(next) = state.continued_in.take_if(|next| *next <= number)
        && (next < number || !reader.has_header())
    {
        return Err(not_continued(path.parent().unwrap_or(path), next));
    }
    if !reader.has_header() {
        // It was being created when a crash came.
        state.unused.push(number);
        return Ok(());
    }
    let Some(start) = reader.start() else {
        // It was made ahead, or a crash took all that was in it. The manifest or the log before may
        // name it, so it goes with the others.
        state.closed = false;
        return Ok(());
    };
    let want = *expected.get_or_insert(start.first_ordinal);
    if start.first_ordinal > want {
        // The log before this one ended early.
        state.gap = Some(want);
        state.closed = false;
        return check_gap(reader, path, want);
    }
    if start.first_ordinal < want {
        // Made, never used, and left behind by a failure.
        if reader.next()?.is_none() {
            state.unused.push(number);
            return Ok(());
        }
        let message = format!(
            "expected a log that goes on at record {want}, found one from {}",
            start.first_ordinal
        );
        return Err(Error::corruption(path, 0, message));
    }
    while let Some(record) = reader.next()? {
        let Some(count) = count_operations(record.payload) else {
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
    if let Some(LogEnd::Torn { offset_bytes, .. }) = reader.end() {
        state.notes.push(format!(
            "{}: a crash came while the record at byte {offset_bytes} was written; it and what \
             follows were left out",
            path.display()
        ));
    }
    Ok(())
}
