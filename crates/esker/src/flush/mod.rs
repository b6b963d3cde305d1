//! Layer 4: flush. Writes an immutable memtable as the newest run of level 0.
//!
//! Invariants:
//! 1. Every entry that is visible to a snapshot or to a current reader is kept.
//! 2. The edit that adds the memtable's tables also releases the WAL files of the memtable.

use std::sync::Arc;

use crate::base::cursor::Cursor;
use crate::base::order::KeyOrder;
use crate::error::Result;
use crate::iter::rewrite::{InputEntry, Rewrite, RewriteRules};
use crate::memtable::Memtable;
use crate::tree::output::{NewFile, Output, OutputConfig};

/// Writes `memtable` as tables. `rules` has the snapshots that must stay readable and the keys to
/// keep. Creates no file if no entry is kept.
///
/// # Errors
/// Any write error; the files written so far are removed.
pub fn write_tables(
    memtable: &Arc<Memtable>,
    order: &KeyOrder,
    rules: RewriteRules<'_>,
    config: OutputConfig,
) -> Result<Vec<NewFile>> {
    let deletes = memtable.range_deletes();
    let kept = deletes.to_tombstones_seen(order, &rules.seqnos());
    let rewrite = Rewrite::new(order.clone(), rules, deletes.clone());
    let mut output = Output::new(config, Vec::new(), kept);
    match write_kept(&mut memtable.cursor(), rewrite, &mut output) {
        Ok(()) => output.finish(),
        Err(error) => {
            output.abandon();
            Err(error)
        }
    }
}

/// Scans `cursor` and adds to `output` what `rewrite` keeps.
fn write_kept(
    cursor: &mut impl Cursor,
    mut rewrite: Rewrite<'_>,
    output: &mut Output,
) -> Result<()> {
    cursor.seek_to_first()?;
    while cursor.valid() {
        let (key, seqno, kind) = (cursor.key(), cursor.seqno(), cursor.kind());
        // Older tables may hold the key.
        let entry = InputEntry { key, seqno, kind, value: cursor.value(), bottom: false };
        rewrite.add(entry, output)?;
        cursor.next()?;
    }
    rewrite.finish(output)
}
