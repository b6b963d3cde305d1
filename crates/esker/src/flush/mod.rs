//! Layer 4: a frozen memtable becomes the newest run of level 0.
//!
//! What stays true: nothing is dropped that a snapshot or a reader of now can see; the logs that
//! held the memtable are let go by the same edit that adds its tables.

use std::sync::Arc;

use crate::base::cursor::Cursor;
use crate::base::key::SeqNo;
use crate::base::order::KeyOrder;
use crate::error::Result;
use crate::iter::retain::{Decision, Retain};
use crate::memtable::Memtable;
use crate::tree::output::{NewFile, Output, OutputConfig};

/// Writes `memtable` as tables; `snapshots` are the sequence numbers still readable, ascending.
/// No file is made when nothing is left to keep.
pub fn write_tables(
    memtable: &Arc<Memtable>,
    order: &KeyOrder,
    snapshots: Vec<SeqNo>,
    config: OutputConfig,
) -> Result<Vec<NewFile>> {
    let deletes = memtable.range_deletes();
    let kept = deletes.to_tombstones_seen(order, &snapshots);
    let retain = Retain::new(order.clone(), snapshots, deletes.clone());
    let mut output = Output::new(config, Vec::new(), kept);
    match walk(&mut memtable.cursor(), retain, &mut output) {
        Ok(()) => output.finish(),
        Err(error) => {
            output.abandon();
            Err(error)
        }
    }
}

/// Adds to `output` what `retain` keeps of what `cursor` shows.
fn walk(cursor: &mut impl Cursor, mut retain: Retain, output: &mut Output) -> Result<()> {
    cursor.seek_to_first()?;
    while cursor.valid() {
        let (key, seqno, kind) = (cursor.key(), cursor.seqno(), cursor.kind());
        if retain.decide(key, seqno, kind, false) != Decision::Drop {
            output.add(key, seqno, kind, cursor.value())?;
        }
        cursor.next()?;
    }
    Ok(())
}
