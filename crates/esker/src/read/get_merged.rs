//! Get of a key whose newest version is a merge operand or has its value in a value file: collects the
//! versions that its value depends on, newest first, and merges them.
//!
//! Invariants: as for other gets, the sources are searched from the newest to the oldest, and a
//! range tombstone found on the way hides every older version. The result of a long chain of
//! operands stays with the memtable of its newest operand.

use std::ops::ControlFlow;
use std::sync::Arc;

use super::get::{Found, Lookup};
use super::{ReadState, Slice};
use crate::base::cursor::Cursor;
use crate::base::expiry;
use crate::base::key::{Kind, SeqNo};
use crate::base::separated::ReadValues;
use crate::error::Result;
use crate::iter::operands::{self, LONG_CHAIN, Operands};
use crate::iter::same_key;
use crate::memtable::Memtable;
use crate::table::{TableGet, key_hash};
use crate::tree::value_files::StreamedValue;

/// The versions of a key that its value depends on.
#[derive(Default)]
struct Versions<'v> {
    operands: Operands,
    /// The value below the operands.
    existing: Option<Slice>,
    /// Number of the newest range tombstone over the key so far.
    covered: SeqNo,
    /// The newest operand, if it is in a memtable: the memtable, and the sequence number.
    newest: Option<(&'v Arc<Memtable>, SeqNo)>,
    /// Whether a put that expires was met, so that the value depends on the time.
    is_timed: bool,
}

impl<'v> Lookup<'v> {
    /// Returns the result of `take` on the value of `key` in `read_state`, whose newest version is
    /// a merge operand or a separated value. May read files.
    ///
    /// # Errors
    /// `Incompatible` when the merge operator is missing, `InvalidArgument` when it fails or
    /// panics; the errors of reads.
    #[cold]
    pub fn get_merged<R>(
        &self,
        read_state: &'v ReadState,
        key: &[u8],
        take: &mut impl FnMut(Found<'v>) -> R,
    ) -> Result<Option<R>> {
        debug_assert!(self.epoch.is_none(), "a pinned reader must not read files");
        let mut versions = Versions::default();
        if self.collect_in_memtables(read_state, key, &mut versions)?.is_continue() {
            self.collect_in_tables(read_state, key, &mut versions)?;
        }
        let Versions { operands, existing, newest, is_timed, .. } = versions;
        if operands.is_empty() {
            // The newest version has its value in a value file.
            return Ok(existing.map(|value| take(Found::Made(value))));
        }
        let mut merged = Vec::new();
        operands::merge(self.rules, key, existing.as_deref(), &operands, &mut merged)?;
        let merged: Arc<[u8]> = merged.into();
        if operands.len() >= LONG_CHAIN
            && !is_timed
            && let Some((memtable, seqno)) = newest
        {
            memtable.merged.keep(key, key_hash(key), seqno, &merged);
        }
        Ok(Some(take(Found::Made(merged.into()))))
    }

    /// Opens the value of `key` in `read_state` if its newest visible version has a streamed value.
    /// Returns `None` for every other version.
    ///
    /// # Errors
    /// Those of reads.
    pub fn open_streamed(
        &self,
        read_state: &ReadState,
        key: &[u8],
    ) -> Result<Option<StreamedValue>> {
        let (mut covered, hash): (SeqNo, u64) = (0, key_hash(key));
        for memtable in read_state.memtables() {
            covered = covered.max(memtable.covering(key, self.seqno).unwrap_or(0));
            if memtable.get_hit(key, hash, self.seqno).is_some() {
                return Ok(None);
            }
        }
        for (_, fragment) in read_state.version.fragments_holding(key) {
            let table = self.tables.get(&fragment.file)?;
            covered = covered.max(table.covering(key, self.seqno).unwrap_or(0));
            if !table.may_contain(key, hash) {
                continue;
            }
            let hit = table.get_past_filter(key, self.seqno, self.fill_cache, None)?;
            let TableGet::Found(hit) = hit else { continue };
            if hit.row.kind() != Kind::PutSeparated || hit.row.seqno() < covered {
                return Ok(None);
            }
            let is_exact = self.tables.config().order.equal_keys_are_identical();
            return self.tables.values().open_streamed(is_exact.then_some(key), hit.value());
        }
        Ok(None)
    }

    fn collect_in_memtables(
        &self,
        read_state: &'v ReadState,
        key: &[u8],
        versions: &mut Versions<'v>,
    ) -> Result<ControlFlow<()>> {
        let (order, hash) = (&self.tables.config().order, key_hash(key));
        for memtable in read_state.memtables() {
            if let Some(seqno) = memtable.covering(key, self.seqno) {
                versions.covered = versions.covered.max(seqno);
            }
            if memtable.get_hit(key, hash, self.seqno).is_none() {
                continue;
            }
            let known = memtable.merged.get(key, hash, self.seqno);
            let mut cursor = memtable.cursor();
            cursor.seek(key, self.seqno)?;
            while cursor.valid() && same_key(order, cursor.key(), key) {
                let (seqno, kind) = cursor.version();
                if let Some(known) = &known
                    && seqno <= known.seqno
                {
                    // The version of the known value, and everything below it.
                    let is_hidden = versions.covered > known.seqno;
                    versions.existing = (!is_hidden).then(|| known.value.clone().into());
                    return Ok(ControlFlow::Break(()));
                }
                if kind == Kind::Merge && versions.newest.is_none() {
                    versions.newest = Some((memtable, seqno));
                }
                if self.add(versions, (seqno, kind), cursor.value()).is_break() {
                    return Ok(ControlFlow::Break(()));
                }
                cursor.next()?;
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    fn collect_in_tables(
        &self,
        read_state: &ReadState,
        key: &[u8],
        versions: &mut Versions<'v>,
    ) -> Result<()> {
        let hash = key_hash(key);
        for (_, fragment) in read_state.version.fragments_holding(key) {
            let table = self.tables.get(&fragment.file)?;
            if let Some(seqno) = table.covering(key, self.seqno) {
                versions.covered = versions.covered.max(seqno);
            }
            if !table.may_contain(key, hash) {
                continue;
            }
            let mut upto = Some(self.seqno);
            while let Some(seqno) = upto {
                let hit = table.get_past_filter(key, seqno, self.fill_cache, None)?;
                let TableGet::Found(hit) = hit else { break };
                let version = (hit.row.seqno(), hit.row.kind());
                if version.1 == Kind::PutSeparated && version.0 >= versions.covered {
                    let is_exact = self.tables.config().order.equal_keys_are_identical();
                    let values = self.tables.values();
                    let value = values.read_value(is_exact.then_some(key), hit.value())?;
                    versions.existing = Some(Slice::separated(value));
                    return Ok(());
                }
                if self.add(versions, version, hit.value()).is_break() {
                    return Ok(());
                }
                upto = version.0.checked_sub(1);
            }
        }
        Ok(())
    }

    /// Adds the next older version. Breaks if the value depends on no older one.
    fn add(
        &self,
        versions: &mut Versions<'v>,
        (seqno, kind): (SeqNo, Kind),
        stored: &[u8],
    ) -> ControlFlow<()> {
        if seqno < versions.covered || kind == Kind::Delete {
            return ControlFlow::Break(());
        }
        if kind == Kind::Merge {
            versions.operands.push(stored);
            return ControlFlow::Continue(());
        }
        versions.is_timed |= kind == Kind::PutExpiring;
        let (time_ms, value) =
            if kind == Kind::Put { (expiry::NEVER_MS, stored) } else { expiry::split(stored) };
        if !self.is_expired(time_ms) {
            versions.existing = Some(Slice::copied(value));
        }
        ControlFlow::Break(())
    }
}
