//! Search in the index of an open table, and in the sketches of its blocks.
//!
//! Invariant: a step that only prefetches memory does not change the result.

use crate::base::rows::KeyBuf;
use crate::error::Result;

use super::block::Block;
use super::index::PartialFind;
use super::reader::Table;

impl Table {
    /// Returns the block of `key`. Prefetches the slots of the blocks around it on the way.
    ///
    /// # Errors
    /// Those of a read of the index, if the table has it in partitions.
    #[inline]
    pub(super) fn find_block(&self, key: &[u8]) -> Result<usize> {
        match &self.partitions {
            None => {
                let near = |at, count| self.slots.prefetch_slots(at, count);
                Ok(self.meta.index.find(key, near))
            }
            Some(parts) => {
                let found = self.find_in_partitions(parts, key, true)?;
                Ok(found.map_or_else(|| parts.blocks(), |(block, _)| block))
            }
        }
    }

    /// Returns whether the versions of `key` may continue after `block`, when a search ended past
    /// the end of `block`.
    ///
    /// # Errors
    /// Those of a read of the index, if the table has it in partitions.
    #[inline]
    pub(super) fn continues(&self, block: usize, key: &[u8]) -> Result<bool> {
        let Some(parts) = &self.partitions else {
            return Ok(self.meta.index.continues(block, key));
        };
        Ok(self.continues_in_partitions(parts, block, key, true)?.unwrap_or(false))
    }

    /// Begins [`Table::find_block`] in an index that is in memory. If the index is a tree, it stops
    /// before the first wait for memory.
    #[inline]
    pub(super) fn begin_find(&self, key: &[u8]) -> PartialFind {
        let partial = self.meta.index.begin(key);
        self.meta.index.prefetch(&partial, |at, count| {
            self.slots.prefetch_slots(at, count);
            self.sketches.prefetch_starts(at, count);
        });
        partial
    }

    /// Completes [`Table::begin_find`] for the same key.
    #[inline]
    pub(super) fn finish_find(&self, key: &[u8], partial: PartialFind) -> usize {
        self.meta.index.finish(key, partial)
    }

    /// Prefetches the sketch of `block`. Returns false if the block has none.
    #[inline]
    pub(super) fn prefetch_sketch(&self, block: usize) -> bool {
        self.sketches.prefetch(block)
    }

    /// Writes to `out` a bound for `key`, whose block by [`Table::find_block`] is `block`; see
    /// [`super::block_sketch`]. Returns false if there is none.
    #[inline]
    pub(super) fn bound(&self, block: usize, key: &[u8], out: &mut KeyBuf) -> bool {
        self.sketches.bound(block, key, out)
    }

    /// Makes the sketch of `block`, the block with index `at`, for later seeks.
    #[inline]
    pub(super) fn add_sketch(&self, at: usize, block: &Block) {
        if self.order().has_heads() && self.partitions.is_none() {
            let all = (self.block_count(), self.info().entries);
            self.sketches.build((at, block), all, &self.config);
        }
    }
}
