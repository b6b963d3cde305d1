//! Layer 4: flush. Writes an immutable memtable as the newest run of level 0.
//!
//! Invariants:
//! 1. Every entry that is visible to a snapshot or to a current reader is kept.
//! 2. The edit that adds the memtable's tables also releases the WAL files of the memtable.

use std::sync::Arc;

use crate::base::cursor::Cursor;
use crate::base::key::SeqNo;
use crate::base::keyspace::LiveKeys;
use crate::base::order::KeyOrder;
use crate::error::Result;
use crate::iter::retain::{Decision, Retain};
use crate::memtable::Memtable;
use crate::tree::output::{NewFile, Output, OutputConfig};

/// Writes `memtable` as tables. `snapshots` are the sequence numbers of the snapshots that must
/// stay readable, ascending. Keys that are not in `live` are left out. Creates no file if no entry
/// is kept.
///
/// # Errors
/// Any write error; the files written so far are removed.
pub fn write_tables(
    memtable: &Arc<Memtable>,
    order: &KeyOrder,
    snapshots: Vec<SeqNo>,
    live: LiveKeys,
    config: OutputConfig,
) -> Result<Vec<NewFile>> {
    let deletes = memtable.range_deletes();
    let kept = deletes.to_tombstones_seen(order, &snapshots);
    let retain = Retain::new(order.clone(), snapshots, deletes.clone());
    let mut output = Output::new(config, Vec::new(), kept);
    match walk(&mut memtable.cursor(), retain, live, &mut output) {
        Ok(()) => output.finish(),
        Err(error) => {
            output.abandon();
            Err(error)
        }
    }
}

/// Scans `cursor` and adds to `output` the entries of live keys that `retain` keeps.
fn walk(
    cursor: &mut impl Cursor,
    mut retain: Retain,
    mut live: LiveKeys,
    output: &mut Output,
) -> Result<()> {
    cursor.seek_to_first()?;
    while cursor.valid() {
        let (key, seqno, kind) = (cursor.key(), cursor.seqno(), cursor.kind());
        if retain.decide(key, seqno, kind, false) != Decision::Drop && live.contains(key) {
            output.add(key, seqno, kind, cursor.value())?;
        }
        cursor.next()?;
    }
    Ok(())
}
