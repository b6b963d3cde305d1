//! Recovery of the logs: how far they continue each other, and what their ends prove.
//!
//! What stays true: what is taken is a prefix of the logged writes; what is left out is a torn tail
//! that nothing proves, or the opening fails.

use std::path::Path;
use std::sync::Arc;

use super::open::look;
use crate::base::key::SeqNo;
use crate::base::ops;
use crate::error::{Error, Result};
use crate::fs::Fs;
use crate::memtable::{ChunkPool, Memtable};
use crate::options::Options;
use crate::options::validate::Sizes;
use crate::tree::names;
use crate::tree::set::VersionSet;
use crate::wal::{LogEnd, LogReader};
use crate::write::core::apply;

/// What the logs gave back.
pub(super) struct Replayed {
    pub memtable: Arc<Memtable>,
    pub pool: Arc<ChunkPool>,
    pub last_seqno: SeqNo,
    pub next_ordinal: u64,
    pub log_number_max: u64,
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

/// Reads every log from the manifest's on into one memtable, as far as they continue each other.
pub(super) fn replay(
    fs: &dyn Fs,
    dir: &Path,
    (options, sizes): (&Options, &Sizes),
    versions: &VersionSet,
) -> Result<Replayed> {
    let most_bytes = sizes.memtable_bytes as usize;
    let (pool, order) = (Arc::new(ChunkPool::new(most_bytes)), options.key_order.clone());
    let memtable = Memtable::with_pool(options.memtable_kind, order, pool.clone(), most_bytes);
    let mut state = Replayed {
        memtable: Arc::new(memtable),
        pool,
        last_seqno: versions.last_seqno(),
        next_ordinal: 0,
        log_number_max: 0,
        closed: false,
        continued_in: None,
        gap: None,
        unused: Vec::new(),
        logs: 0,
        notes: Vec::new(),
    };
    let mut logs: Vec<u64> =
        look(fs, dir)?.entries.iter().filter_map(|e| names::parse_log(&e.name)).collect();
    logs.sort_unstable();
    // Also of those behind a gap: their names are taken until they are removed.
    state.log_number_max = logs.last().copied().unwrap_or(0);
    for needed in [versions.min_wal(), versions.newest_wal()] {
        if needed != 0 && needed >= versions.min_wal() && !logs.contains(&needed) {
            let message =
                "the manifest names this log, but it is not there; `repair` keeps the rest";
            return Err(Error::corruption(&names::log_path(dir, needed), 0, message));
        }
    }
    let mut expected = versions.min_wal_ordinal();
    for number in logs {
        if number < versions.min_wal() {
            continue;
        }
        let path = names::log_path(dir, number);
        state.logs += 1;
        let mut reader = LogReader::open(fs, &path, number)?;
        let named = number <= versions.min_wal().max(versions.newest_wal());
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
        replay_one(&mut reader, &path, number, &mut expected, &mut state)?;
        let (closed, bytes) = versions.closed_wal();
        if closed == number && reader.at_bytes() < bytes {
            let message = format!(
                "expected {bytes} bytes of whole records when this log was closed, found {}; the \
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
    Ok(state)
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

/// Replays one log, or finds that it comes after a gap.
fn replay_one(
    reader: &mut LogReader,
    path: &Path,
    number: u64,
    expected: &mut Option<u64>,
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
        let valid = ops::Ops::new(record.payload).all(|op| op.is_some());
        if !valid {
            let message = "a log record with a valid checksum holds no valid operations";
            return Err(Error::corruption(path, record.offset_bytes, message));
        }
        let next = apply(&state.memtable, record.payload, record.first_seqno, |_| {});
        state.last_seqno = state.last_seqno.max(next.saturating_sub(1));
        *expected = Some(record.ordinal + 1);
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
