//! Blocks of an open table: read from the file, checked, and kept in the cache.
//!
//! Invariants: a block that comes out of here has passed its checksum. The numbers of blocks are
//! those of the whole index, whether the table has it in memory or in partitions.

use std::cell::RefCell;

use crate::cache::{BlockKey, SlotRef};
use crate::error::{Error, ErrorKind, Result};
use crate::options::kinds::Compression;
use crate::perf;

use super::block::{Block, BlockBuf};
use super::compress::unpack;
use super::format::{TRAILER_BYTES, unseal};
use super::index_entries::BlockPlace;
use super::reader::{Table, count_read};

/// Largest per-thread buffer that is kept for the next compressed block, in bytes.
const SEALED_BYTES_MAX: usize = 64 << 10;

thread_local! {
    /// Per-thread buffer for reads of compressed blocks.
    static SEALED: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

impl Table {
    fn damaged(&self, start: u64, what: &str) -> Error {
        Error::corruption(&self.source.path, start, what.to_string())
    }

    /// Returns the number of data blocks.
    #[inline]
    pub fn block_count(&self) -> usize {
        match &self.partitions {
            None => self.meta.index.count(),
            Some(parts) => parts.blocks(),
        }
    }

    /// Returns where `block` is.
    ///
    /// # Errors
    /// Those of a read of the index, if the table has it in partitions.
    #[inline]
    pub(super) fn place(&self, block: usize) -> Result<BlockPlace> {
        match &self.partitions {
            None => Ok(self.meta.index.place(block)),
            Some(parts) => self.place_in_partitions(parts, block),
        }
    }

    /// Reads a block from the file, for no cache.
    pub(super) fn read_block(&self, block: usize) -> Result<Block> {
        self.read_block_at(self.place(block)?, false)
    }

    /// Reads the block at `place` from the file. `keep` means that the block is for the cache.
    pub(super) fn read_block_at(&self, place: BlockPlace, keep: bool) -> Result<Block> {
        let BlockPlace { start, end, raw_bytes } = place;
        let stored = (end - start) as usize;
        count_read(end - start);
        if stored != raw_bytes + TRAILER_BYTES {
            return SEALED.with_borrow_mut(|bytes| {
                bytes.resize(stored, 0);
                let read = self.read_into(bytes, start);
                let opened = read.and_then(|()| self.open_block(place, bytes, keep));
                bytes.truncate(SEALED_BYTES_MAX);
                bytes.shrink_to(SEALED_BYTES_MAX);
                opened
            });
        }
        // An uncompressed block keeps the memory of the read.
        let mut buf = self.buf(stored, keep);
        self.read_into(&mut buf, start)?;
        match unseal(&buf, self.source.table_id, start) {
            Ok((Compression::None, _)) => Block::parse_ingested(buf, raw_bytes, self.ingested()),
            Ok(_) => return self.open_block(place, &buf, keep),
            Err(what) => Err(what),
        }
        .map_err(|what| self.damaged(start, what))
    }

    /// Makes the block at `place` from its sealed bytes in the file.
    pub(super) fn open_block(&self, place: BlockPlace, sealed: &[u8], keep: bool) -> Result<Block> {
        let BlockPlace { start, raw_bytes, .. } = place;
        let open = || {
            let (compression, payload) = unseal(sealed, self.source.table_id, start)?;
            let mut buf = self.buf(raw_bytes, keep);
            if compression != Compression::None {
                unpack(compression, payload, &mut buf, self.meta.dictionary.as_ref())?;
            } else if payload.len() == raw_bytes {
                buf.copy_from_slice(payload);
            } else {
                return Err("the block's length differs from the length in the index");
            }
            Block::parse_ingested(buf, raw_bytes, self.ingested())
        };
        open().map_err(|what| match unseal(sealed, self.source.table_id, start) {
            Ok((compression, _)) if !compression.is_built_in() => {
                Error::new(ErrorKind::Incompatible, compression.missing_feature())
                    .with_path(&self.source.path)
            }
            _ => self.damaged(start, what),
        })
    }

    /// Allocates memory for a block; from the cache's pool if the block is for the cache.
    fn buf(&self, bytes: usize, keep: bool) -> BlockBuf {
        BlockBuf::zeroed(bytes, keep.then(|| self.cache().pool()))
    }

    /// Returns a block from the cache or the file.
    pub(super) fn load(&self, block: usize, fill_cache: bool) -> Result<Block> {
        match self.cached(block) {
            Some(found) => Ok(found),
            None => self.fetch(block, fill_cache),
        }
    }

    /// Returns a block from the file, and inserts it into the cache if the cache wants it.
    #[cold]
    pub(super) fn fetch(&self, block: usize, fill_cache: bool) -> Result<Block> {
        self.fetch_at(block, self.place(block)?, fill_cache)
    }

    /// Does the same for a block whose place is known.
    pub(super) fn fetch_at(
        &self,
        block: usize,
        place: BlockPlace,
        fill_cache: bool,
    ) -> Result<Block> {
        let keep = fill_cache && self.is_wanted(block, place.raw_bytes);
        Ok(self.keep(block, self.read_block_at(place, keep)?, keep))
    }

    /// Reports whether the cache wants a block that has to be read.
    pub(super) fn is_wanted(&self, block: usize, raw_bytes: usize) -> bool {
        self.cache().should_admit(&self.block_key(block), Block::memory_bytes_of(raw_bytes))
    }

    /// Returns a block from the cache.
    #[inline]
    pub(super) fn cached(&self, block: usize) -> Option<Block> {
        let found = match &self.partitions {
            None => self.cache().get_with_slot(&self.slots, block, &self.block_key(block)),
            Some(_) => self.cache().get(&self.block_key(block)),
        };
        perf::count(|counts| match &found {
            Some(_) => counts.cache_hits += 1,
            None => counts.cache_misses += 1,
        });
        found.map(Block::of)
    }

    /// Returns a block from the cache without counting a use.
    pub(super) fn peek(&self, block: usize) -> Option<Block> {
        self.cache().peek(&self.block_key(block)).map(Block::of)
    }

    /// Reports whether a block is in the cache. False for a table with partitions.
    pub(super) fn is_cached(&self, block: usize) -> bool {
        self.slots.is_filled(block)
    }

    /// Prefetches the beginning of a block, if it is in the cache.
    #[inline]
    pub(super) fn prefetch(&self, block: usize) {
        self.slots.prefetch(block);
    }

    /// Returns the memory address of a cached block's bytes, for prefetches; 0 if it is not in the
    /// cache.
    #[inline]
    pub(super) fn memory_address(&self, block: usize) -> usize {
        self.slots.address(block)
    }

    /// Inserts a new block into the cache if `fill_cache` is set. Returns the block to use.
    pub(super) fn keep(&self, block: usize, read: Block, fill_cache: bool) -> Block {
        if !fill_cache {
            return read;
        }
        let charge_bytes = read.memory_bytes() as u64;
        let slot = SlotRef::new(&self.slots, block);
        Block::of(self.cache().insert(
            self.block_key(block),
            read.into_cache_block(),
            charge_bytes,
            slot,
        ))
    }

    /// Offers a new block to the cache. Returns false if the cache has no room for it.
    pub(super) fn offer(&self, block: usize, read: Block) -> bool {
        let charge_bytes = read.memory_bytes() as u64;
        let slot = SlotRef::new(&self.slots, block);
        self.cache().insert_speculative(
            self.block_key(block),
            read.into_cache_block(),
            charge_bytes,
            slot,
        )
    }

    /// Reports whether the cache would take a block of `bytes` bytes without an eviction.
    pub(super) fn has_room(&self, block: usize, bytes: usize) -> bool {
        self.cache().has_room(&self.block_key(block), bytes as u64)
    }

    /// Removes all blocks of this table from the cache. The file was deleted.
    pub fn forget_blocks(&self) {
        match &self.partitions {
            None => self.cache().remove(self.slots.filled().map(|block| self.block_key(block))),
            Some(parts) => {
                let key = |block| BlockKey { block, ..self.block_key(0) };
                self.cache().remove(parts.cache_keys().map(key));
            }
        }
    }
}
