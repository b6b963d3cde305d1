//! Checks a table: reads the whole file again and compares it with its properties.

use crate::base::key::{Kind, SeqNo};
use crate::error::{Error, Result};

use super::TableInfo;
use super::block::Block;
use super::format::decode_range_deletes;
use super::reader::{Meta, Table};
use super::summary::Summary;
use crate::base::rows::{KeyBuf, Rows};

/// Number of blocks that the cache may refuse before a warm-up stops.
const REFUSED_MAX: usize = 16;

/// Callback for one entry: key, sequence number, kind, value.
pub type Visit<'a> = dyn FnMut(&[u8], SeqNo, Kind, &[u8]) + 'a;

/// State that a check keeps across blocks.
struct CheckState {
    summary: Summary,
    first_key: Vec<u8>,
    last_key: Vec<u8>,
    last_seqno: SeqNo,
}

/// What a check keeps in memory from the blocks that it reads.
#[derive(Default)]
struct Keep {
    /// Keep the blocks while the cache has room.
    blocks: bool,
    /// Keep the block sketches.
    sketches: bool,
}

impl Table {
    /// Checks the whole file without using the cache: checksums, order of the entries, separators,
    /// filter, and the sums in the properties. Returns the recomputed summary.
    ///
    /// # Errors
    /// `Corruption` names the first difference from the stated content.
    pub fn check(&self) -> Result<TableInfo> {
        self.check_whole(Keep::default())
    }

    /// Checks a new table as [`Table::check`] does and keeps its blocks in the cache, so that the
    /// next reads need no I/O. It fills at most three quarters of the cache and evicts no block.
    /// With `with_sketches` it also makes the block sketches, so that seeks that continue into
    /// older tables need not wait for the blocks of this one (`table/block_sketch.rs`).
    pub fn check_and_keep(&self, with_sketches: bool) -> Result<TableInfo> {
        self.check_whole(Keep { blocks: true, sketches: with_sketches })
    }

    fn check_whole(&self, keep: Keep) -> Result<TableInfo> {
        let found = self.check_blocks(keep, &mut |_| true)?;
        found.ok_or_else(|| Error::invalid("a check without a stop condition was stopped"))
    }

    /// Checks as [`Table::check`] does and reports the bytes of each part to `pace`. Returns `None`
    /// without reading further when `pace` returns `false`.
    pub fn check_paced(&self, pace: &mut dyn FnMut(u64) -> bool) -> Result<Option<TableInfo>> {
        self.check_blocks(Keep::default(), pace)
    }

    fn check_blocks(
        &self,
        keep: Keep,
        pace: &mut dyn FnMut(u64) -> bool,
    ) -> Result<Option<TableInfo>> {
        let meta = Meta::read(&*self.file()?, &self.source, &self.config.with_own_pages())?;
        let mut state = CheckState {
            summary: Summary::new(self.source.table_id),
            first_key: Vec::new(),
            last_key: Vec::new(),
            last_seqno: 0,
        };
        for at in 0..meta.index.count() {
            let place = meta.index.place(at);
            let stays = keep.blocks && self.has_room(at, place.raw_bytes);
            let block = self.read_block_at(place, stays)?;
            self.check_block(&meta, at, &block, &mut state)?;
            if keep.sketches {
                self.add_sketch(at, &block);
            }
            if stays {
                let _ = self.offer(at, block);
            }
            if !pace(place.end - place.start) {
                return Ok(None);
            }
        }
        let keys = (state.summary.entries() > 0)
            .then_some((state.first_key.as_slice(), state.last_key.as_slice()));
        let mut tombstones = Vec::new();
        // `Meta::read` has already validated the encoding.
        let _ = decode_range_deletes(&meta.tombstones, |tombstone| tombstones.push(tombstone));
        // Tables of earlier versions have no sample.
        let sample = &meta.properties.sample;
        if !sample.is_empty() && state.summary.sample() != *sample {
            let message = "the sample of keys in the properties is not that of the entries";
            return Err(Error::corruption(&self.source.path, meta.properties_at, message));
        }
        let mut info = state.summary.finish(
            self.order(),
            keys,
            tombstones.into_iter(),
            self.source.size_bytes,
        );
        if let Some(ingested) = self.info().ingested {
            info.set_ingested(ingested);
        }
        let stated = &meta.properties.info;
        if info != *stated {
            let message = format!("the properties state {stated:?}, the file holds {info:?}");
            return Err(Error::corruption(&self.source.path, meta.properties_at, message));
        }
        Ok(Some(info))
    }

    /// Loads the missing blocks of a new table into the cache, while `go_on` returns true. It fills
    /// at most three quarters of the cache and evicts no block. A check ran earlier, while the
    /// replaced tables still occupied the cache. A table with partitions gets none:
    /// the search for missing blocks would read its whole index.
    ///
    /// # Errors
    /// A block cannot be read. A later read of the block reports the same error.
    pub fn warm(&self, go_on: &dyn Fn() -> bool) -> Result<()> {
        let mut refused = 0;
        let blocks = if self.partitions.is_some() { 0 } else { self.block_count() };
        for at in 0..blocks {
            let place = self.meta.index.place(at);
            if self.is_cached(at) || !self.has_room(at, place.raw_bytes) {
                continue;
            }
            if refused == REFUSED_MAX || !go_on() {
                break;
            }
            refused += usize::from(!self.offer(at, self.read_block_at(place, true)?));
        }
        Ok(())
    }

    /// Calls `visit` for every entry of a block. Reads the file and does not use the cache.
    ///
    /// # Errors
    /// `Corruption` when the block is damaged. `visit` is not called in that case.
    pub fn visit_block(&self, block: usize, visit: &mut Visit<'_>) -> Result<()> {
        let read = self.read_block(block)?;
        let mut buf = KeyBuf::default();
        for i in 0..read.rows() {
            let row = if i == 0 { read.load(i, &mut buf) } else { read.step_forward(i, &mut buf) };
            visit(buf.key(), row.seqno(), row.kind(), read.value(row));
        }
        Ok(())
    }

    fn check_block(
        &self,
        meta: &Meta,
        at: usize,
        block: &Block,
        state: &mut CheckState,
    ) -> Result<()> {
        let order = self.order();
        let wrong = |what: &str| {
            Err(Error::corruption(&self.source.path, meta.index.place(at).start, what.to_string()))
        };
        let mut buf = KeyBuf::default();
        for i in 0..block.rows() {
            let row =
                if i == 0 { block.load(i, &mut buf) } else { block.step_forward(i, &mut buf) };
            let key = buf.key();
            if state.summary.entries() == 0 {
                state.first_key.extend_from_slice(key);
            } else {
                let step = order.compare(&state.last_key, key);
                if step.is_gt() || (step.is_eq() && row.seqno() >= state.last_seqno) {
                    return wrong("entries are out of order");
                }
            }
            if i == 0 && at > 0 && order.compare(meta.index.key(at - 1), key).is_gt() {
                return wrong("a key sorts before the keys of its block");
            }
            if !meta.filter.may_contain(key, super::key_hash(key)) {
                return wrong("the filter excludes a key of the table");
            }
            // The properties of an ingested table describe its entries as they were written.
            let seqno = row.seqno() - self.ingested();
            state.summary.add(key, seqno, row.kind(), block.value(row));
            state.last_key.clear();
            state.last_key.extend_from_slice(key);
            state.last_seqno = row.seqno();
        }
        if order.compare(&state.last_key, meta.index.key(at)).is_gt() {
            return wrong("a key sorts after the keys of its block");
        }
        Ok(())
    }
}
