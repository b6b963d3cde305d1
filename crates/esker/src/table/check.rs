//! Reads a whole table again, from the file, and compares it with what it says of itself.

use crate::base::key::{Kind, SeqNo};
use crate::error::{Error, Result};

use super::TableInfo;
use super::block::Block;
use super::format::decode_range_deletes;
use super::reader::{Meta, Table};
use super::summary::Summary;
use crate::base::rows::{KeyBuf, Rows};

/// After so many blocks read that the cache then had no room for, there is none.
const REFUSED_MAX: usize = 16;

/// What is called with an entry: key, sequence number, kind, value.
pub type Visit<'a> = dyn FnMut(&[u8], SeqNo, Kind, &[u8]) + 'a;

/// What a check carries from block to block.
struct Walk {
    summary: Summary,
    first_key: Vec<u8>,
    last_key: Vec<u8>,
    last_seqno: SeqNo,
}

/// What of the blocks that a check reads stays in memory.
#[derive(Default)]
struct Keep {
    /// They, while there is room.
    blocks: bool,
    /// Their outlines.
    outlines: bool,
}

impl Table {
    /// Reads every byte of the file, not through the cache: checksums, order of the entries,
    /// separators, filter, and the sums in the properties. Returns what was found; `Corruption`
    /// says where it differs from what is stated.
    pub fn check(&self) -> Result<TableInfo> {
        self.check_whole(Keep::default())
    }

    /// As [`Table::check`], of a table just written: its blocks stay in the cache while three quarters
    /// of that hold them without another's going, so that who reads next what was written last does
    /// not wait for the file. Where seeks will look beyond it into older tables, it is `outlined`, so
    /// that they need not wait for its blocks (`table/outline.rs`).
    pub fn check_and_keep(&self, outlined: bool) -> Result<TableInfo> {
        self.check_whole(Keep { blocks: true, outlines: outlined })
    }

    fn check_whole(&self, keep: Keep) -> Result<TableInfo> {
        let found = self.check_blocks(keep, &mut |_| true)?;
        found.ok_or_else(|| Error::invalid("a check that nothing ends was ended"))
    }

    /// As [`Table::check`], telling `pace` of the bytes of each part read; `None` when that says
    /// `false`, and then the rest was not read.
    pub fn check_paced(&self, pace: &mut dyn FnMut(u64) -> bool) -> Result<Option<TableInfo>> {
        self.check_blocks(Keep::default(), pace)
    }

    fn check_blocks(
        &self,
        keep: Keep,
        pace: &mut dyn FnMut(u64) -> bool,
    ) -> Result<Option<TableInfo>> {
        let meta = Meta::read(&*self.file()?, &self.source, &self.config)?;
        let mut walk = Walk {
            summary: Summary::new(self.source.table_id),
            first_key: Vec::new(),
            last_key: Vec::new(),
            last_seqno: 0,
        };
        for at in 0..meta.index.count() {
            let stays = keep.blocks && self.has_room(at, meta.index.raw_bytes(at));
            let block = self.read_block(at, stays)?;
            self.check_block(&meta, at, &block, &mut walk)?;
            if keep.outlines {
                self.outline(at, &block);
            }
            if stays {
                let _ = self.offer(at, block);
            }
            let (start, end) = meta.index.place(at);
            if !pace(end - start) {
                return Ok(None);
            }
        }
        let keys = (walk.summary.entries() > 0)
            .then_some((walk.first_key.as_slice(), walk.last_key.as_slice()));
        let mut tombstones = Vec::new();
        // Reading the parts has found them well formed.
        let _ = decode_range_deletes(&meta.tombstones, |tombstone| tombstones.push(tombstone));
        let info =
            walk.summary.finish(self.order(), keys, tombstones.into_iter(), self.source.size_bytes);
        let stated = &meta.properties.info;
        if info != *stated {
            let message = format!("the properties state {stated:?}, the file holds {info:?}");
            return Err(Error::corruption(&self.source.path, meta.properties_at, message));
        }
        Ok(Some(info))
    }

    /// Reads what is not in the cache of a table just written, as long as three quarters of that hold
    /// it without another's going and `go_on` says so: a check read it while the tables that it takes
    /// the place of were still there, too.
    ///
    /// # Errors
    /// Where a block cannot be read; whoever needs it meets that again.
    pub fn warm(&self, go_on: &dyn Fn() -> bool) -> Result<()> {
        let mut refused = 0;
        for at in 0..self.block_count() {
            if self.is_cached(at) || !self.has_room(at, self.meta.index.raw_bytes(at)) {
                continue;
            }
            if refused == REFUSED_MAX || !go_on() {
                break;
            }
            refused += usize::from(!self.offer(at, self.read_block(at, true)?));
        }
        Ok(())
    }

    /// Data blocks in the table.
    pub fn block_count(&self) -> usize {
        self.meta.index.count()
    }

    /// Calls `visit` with every entry of a block, read from the file and not through the cache.
    ///
    /// # Errors
    /// `Corruption` when the block is damaged; `visit` was not called then.
    pub fn visit_block(&self, block: usize, visit: &mut Visit<'_>) -> Result<()> {
        let read = self.read_block(block, false)?;
        let mut buf = KeyBuf::default();
        for i in 0..read.rows() {
            let row = if i == 0 { read.load(i, &mut buf) } else { read.step_forward(i, &mut buf) };
            visit(buf.key(), row.seqno(), row.kind(), read.value(row));
        }
        Ok(())
    }

    fn check_block(&self, meta: &Meta, at: usize, block: &Block, walk: &mut Walk) -> Result<()> {
        let order = self.order();
        let wrong = |what: &str| {
            Err(Error::corruption(&self.source.path, meta.index.place(at).0, what.to_string()))
        };
        let mut buf = KeyBuf::default();
        for i in 0..block.rows() {
            let row =
                if i == 0 { block.load(i, &mut buf) } else { block.step_forward(i, &mut buf) };
            let key = buf.key();
            if walk.summary.entries() == 0 {
                walk.first_key.extend_from_slice(key);
            } else {
                let step = order.compare(&walk.last_key, key);
                if step.is_gt() || (step.is_eq() && row.seqno() >= walk.last_seqno) {
                    return wrong("entries are out of order");
                }
            }
            if i == 0 && at > 0 && order.compare(meta.index.key(at - 1), key).is_gt() {
                return wrong("a key lies before its block");
            }
            if !meta.filter.may_contain(key, super::key_hash(key)) {
                return wrong("the filter denies a key that is there");
            }
            walk.summary.add(key, row.seqno(), row.kind(), block.value(row));
            walk.last_key.clear();
            walk.last_key.extend_from_slice(key);
            walk.last_seqno = row.seqno();
        }
        if order.compare(&walk.last_key, meta.index.key(at)).is_gt() {
            return wrong("a key lies after its block");
        }
        Ok(())
    }
}
