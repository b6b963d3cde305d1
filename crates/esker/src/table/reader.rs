//! An open table. Its index, filter and range tombstones are in memory. Its blocks are read through
//! the cache.
//!
//! Invariants: every byte behind a read has passed a checksum. An open refuses a file that is not
//! the expected table (identity, length, order).

use std::cell::RefCell;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

use crate::base::key::SeqNo;
use crate::base::keyspace::TreeId;
use crate::base::order::KeyOrder;
use crate::base::range_delete::{RangeDeletes, RangeDeletesBuilder};
use crate::base::rows::KeyBuf;
use crate::base::sync::atomic::{AtomicU64, Ordering};
use crate::cache::{BlockCache, BlockKey, BlockSlots, SlotRef};
use crate::error::{Error, ErrorKind, Result};
use crate::fs::{Fs, ReadableFile};
use crate::options::kinds::Compression;
use crate::perf;

use super::block::{Block, BlockBuf, Layout};
use super::block_sketch::BlockSketches;
use super::compress::unpack;
use super::dictionary::Dictionary;
use super::dictionary_part::read_dictionary;
use super::filter::Filter;
use super::format::{
    FOOTER_BYTES, FORMAT_VERSION, Footer, FooterError, Handle, TRAILER_BYTES, decode_range_deletes,
    unseal,
};
use super::index::{Index, PartialFind};
use super::properties::Properties;
use super::stamp;
use super::{ReadConfig, TableInfo, TableSource};

/// Largest per-thread buffer that is kept for the next compressed block, in bytes.
const SEALED_BYTES_MAX: usize = 64 << 10;

thread_local! {
    /// Per-thread buffer for reads of compressed blocks.
    static SEALED: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// The identity and length of a table, from its footer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TableIdentity {
    /// Random identity of the table.
    pub table_id: u64,
    /// File length in bytes.
    pub size_bytes: u64,
}

/// A table open for reading. It can be shared between threads.
pub struct Table {
    pub(super) source: TableSource,
    pub(super) config: ReadConfig,
    pub(crate) file: Option<Arc<dyn ReadableFile>>,
    pub(super) meta: Meta,
    /// Slots for its blocks in the cache.
    pub(super) slots: Arc<BlockSlots<Layout>>,
    /// Sketches of its blocks.
    sketches: BlockSketches,
    /// Its share of the limit on open files, if the file stays open.
    pub kept: Option<OpenPermit>,
}

/// One count of the limited number of files that stay open.
pub struct OpenPermit(Arc<AtomicU64>);

impl OpenPermit {
    /// Wraps one unit that `count` already includes. Drop subtracts it.
    pub fn new(count: &Arc<AtomicU64>) -> OpenPermit {
        OpenPermit(count.clone())
    }
}

impl Drop for OpenPermit {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The parts of a table outside its blocks.
pub(super) struct Meta {
    pub(super) index: Index,
    pub(super) filter: Filter,
    /// Encoded range tombstones, for a check. An open table does not keep them.
    pub(super) tombstones: Vec<u8>,
    pub(super) has_range_deletes: bool,
    pub(super) range_deletes: Arc<RangeDeletes>,
    pub(super) properties: Properties,
    pub(super) properties_at: u64,
    /// The dictionary with which the blocks are compressed, if they are.
    pub(super) dictionary: Option<Dictionary>,
}

/// Reads the footer of a file of `size_bytes`. Returns it with its offset.
fn read_footer(file: &dyn ReadableFile, path: &Path, size_bytes: u64) -> Result<(Footer, u64)> {
    let Some(at) = size_bytes.checked_sub(FOOTER_BYTES as u64) else {
        return Err(Error::corruption(path, 0, "the file is shorter than a table's footer"));
    };
    let mut bytes = [0; FOOTER_BYTES];
    file.read_exact_at(&mut bytes, at).map_err(|e| Error::io(path, "read the footer", e))?;
    match Footer::decode(&bytes, at) {
        Ok(footer) => Ok((footer, at)),
        Err(FooterError::Damaged(what)) => Err(Error::corruption(path, at, what)),
        Err(FooterError::Version(found)) => {
            let message =
                format!("expected table format version {FORMAT_VERSION}, found version {found}");
            Err(Error::new(ErrorKind::Incompatible, message).with_path(path))
        }
    }
}

fn len_of(file: &dyn ReadableFile, path: &Path) -> Result<u64> {
    file.len_bytes().map_err(|e| Error::io(path, "read the file's length", e))
}

fn open_file(fs: &dyn Fs, path: &Path, direct: bool) -> Result<Arc<dyn ReadableFile>> {
    let opened = if direct { fs.open_read_direct(path) } else { fs.open_read(path) };
    opened.map_err(|e| Error::io(path, "open", e))
}

impl Meta {
    /// Reads and checks all parts but the blocks.
    pub(super) fn read(
        file: &dyn ReadableFile,
        source: &TableSource,
        config: &ReadConfig,
    ) -> Result<Meta> {
        let path = &source.path;
        let size_bytes = len_of(file, path)?;
        if size_bytes != source.size_bytes {
            let message =
                format!("expected {} bytes, found a file of {size_bytes}", source.size_bytes);
            return Err(Error::corruption(path, size_bytes, message));
        }
        let (footer, footer_at) = read_footer(file, path, size_bytes)?;
        if footer.table_id != source.table_id {
            let (want, found) = (source.table_id, footer.table_id);
            let message = format!("expected table {want:016x}, found table {found:016x}");
            return Err(Error::corruption(path, footer_at, message));
        }
        let start = footer.filter.offset_bytes;
        let mut bytes = vec![0; (footer_at - start) as usize];
        file.read_exact_at(&mut bytes, start)
            .map_err(|e| Error::io(path, "read the index and filter", e))?;
        Meta::decode(file, &bytes, start, (&footer, source), config)
    }

    fn decode(
        file: &dyn ReadableFile,
        bytes: &[u8],
        start: u64,
        (footer, source): (&Footer, &TableSource),
        config: &ReadConfig,
    ) -> Result<Meta> {
        let damaged = |part: Handle, what: &str| {
            Error::corruption(&source.path, part.offset_bytes, what.to_string())
        };
        let payload = |part: Handle| {
            let end = part.end().unwrap_or(u64::MAX) - start;
            let sealed = bytes.get((part.offset_bytes - start) as usize..end as usize);
            match unseal(sealed.unwrap_or(&[]), footer.table_id, part.offset_bytes) {
                Ok((Compression::None, payload)) => Ok(payload),
                Ok(_) => Err(damaged(
                    part,
                    "expected an uncompressed part of the table, found a compressed part",
                )),
                Err(what) => Err(damaged(part, what)),
            }
        };
        let mut properties = Properties::decode(payload(footer.properties)?)
            .map_err(|what| damaged(footer.properties, &what))?;
        let bytes_at = |at: u64| bytes.get((at - start) as usize..).unwrap_or(&[]);
        stamp::apply(&mut properties, footer, source, bytes_at)?;
        let (want, found) = (config.order.name(), &properties.order_name);
        if want != found {
            let message = format!(
                "expected a table in the key order {want}, found a table in the key order {found}"
            );
            return Err(Error::new(ErrorKind::Incompatible, message).with_path(&source.path));
        }
        let dictionary = properties.dictionary;
        let dictionary =
            dictionary.map(|place| read_dictionary(file, source, place, start)).transpose()?;
        let (dictionary, data_end) = match dictionary {
            Some((dictionary, at)) => (Some(dictionary), at),
            None => (None, start),
        };
        let index = Index::decode(
            payload(footer.index)?,
            data_end,
            &config.order,
            config.index_search,
            config.index_fanout,
            &config.pages,
        )
        .map_err(|what| damaged(footer.index, what))?;
        let policy = config.filter_policy.as_ref();
        let filter = Filter::decode(payload(footer.filter)?, policy, &config.pages)
            .ok_or_else(|| damaged(footer.filter, "the filter is malformed"))?;
        let tombstones = payload(footer.range_deletes)?.to_vec();
        let mut range_deletes = RangeDeletesBuilder::default();
        decode_range_deletes(&tombstones, |tombstone| range_deletes.push(tombstone))
            .ok_or_else(|| damaged(footer.range_deletes, "the range tombstones are malformed"))?;
        let range_deletes = Arc::new(range_deletes.build(&config.order));
        let has_range_deletes = !range_deletes.is_empty();
        let properties_at = footer.properties.offset_bytes;
        Ok(Meta {
            index,
            filter,
            tombstones,
            has_range_deletes,
            range_deletes,
            properties,
            properties_at,
            dictionary,
        })
    }
}

impl Table {
    /// Opens a table. Checks its length, identity, order and every checksum outside the blocks.
    ///
    /// # Errors
    /// `Corruption` when a byte is not the written one, `Incompatible` for another format version
    /// or order, `Io` when the file cannot be read.
    pub fn open(source: TableSource, config: &ReadConfig) -> Result<Table> {
        let file = open_file(&*source.fs, &source.path, config.direct)?;
        let mut meta = Meta::read(&*file, &source, config)?;
        // Only a check needs them, and it reads them from the file.
        meta.tombstones = Vec::new();
        let file = config.keep_open.then_some(file);
        let slots = Arc::new(config.cache.block_slots(meta.index.count(), &config.pages));
        let info = &meta.properties.info;
        let sketches = BlockSketches::new(&info.smallest, &info.largest);
        Ok(Table { source, config: config.clone(), file, meta, slots, sketches, kept: None })
    }

    /// Reads the identity and length of the file `path` from its footer alone. For a file found
    /// without a manifest.
    pub fn identify(fs: &dyn Fs, path: &Path) -> Result<TableIdentity> {
        let file = open_file(fs, path, false)?;
        let size_bytes = len_of(&*file, path)?;
        let (footer, _) = read_footer(&*file, path, size_bytes)?;
        Ok(TableIdentity { table_id: footer.table_id, size_bytes })
    }

    /// Reads the tree of the table `path` and the name of its key order. For a file found without a
    /// manifest.
    pub fn identify_tree(fs: &dyn Fs, path: &Path) -> Result<(TreeId, String)> {
        let file = open_file(fs, path, false)?;
        let (footer, _) = read_footer(&*file, path, len_of(&*file, path)?)?;
        let (at, end) = (footer.properties.offset_bytes, footer.properties.end());
        let mut sealed = vec![0; end.unwrap_or(at).saturating_sub(at) as usize];
        file.read_exact_at(&mut sealed, at).map_err(|e| Error::io(path, "read properties", e))?;
        let properties = match unseal(&sealed, footer.table_id, at) {
            Ok((Compression::None, payload)) => Properties::decode(payload),
            _ => Err("the properties are damaged".to_string()),
        };
        let properties = properties.map_err(|what| Error::corruption(path, at, what))?;
        Ok((properties.tree, properties.order_name))
    }

    #[inline]
    pub(super) fn order(&self) -> &KeyOrder {
        &self.config.order
    }

    pub(super) fn cache(&self) -> &BlockCache<Layout> {
        &self.config.cache
    }

    #[inline]
    pub(super) fn block_key(&self, block: usize) -> BlockKey {
        BlockKey {
            file: self.source.file_number,
            block: block as u32,
            store: self.config.cache_store,
        }
    }

    /// Returns the file. Opens it for this use if it does not stay open.
    pub(super) fn file(&self) -> Result<Arc<dyn ReadableFile>> {
        match &self.file {
            Some(file) => Ok(Arc::clone(file)),
            None => open_file(&*self.source.fs, &self.source.path, self.config.direct),
        }
    }

    /// Returns the sequence number that the rows of an ingested table get, or 0.
    #[inline]
    pub(super) fn ingested(&self) -> SeqNo {
        self.info().ingested.unwrap_or(0)
    }

    /// Fills `bytes` from the file at `offset_bytes`.
    pub(super) fn read_into(&self, bytes: &mut [u8], offset_bytes: u64) -> Result<()> {
        match &self.file {
            Some(file) => file.read_exact_at(bytes, offset_bytes),
            None => self.file()?.read_exact_at(bytes, offset_bytes),
        }
        .map_err(|e| Error::io(&self.source.path, "read a block", e))
    }

    fn damaged(&self, block: usize, what: &str) -> Error {
        Error::corruption(&self.source.path, self.meta.index.place(block).0, what.to_string())
    }

    /// Reads a block from the file. `keep` means that the block is for the cache.
    pub(super) fn read_block(&self, block: usize, keep: bool) -> Result<Block> {
        let (start, end) = self.meta.index.place(block);
        let stored = (end - start) as usize;
        let raw_bytes = self.meta.index.raw_bytes(block);
        count_read(end - start);
        if stored != raw_bytes + TRAILER_BYTES {
            return SEALED.with_borrow_mut(|bytes| {
                bytes.resize(stored, 0);
                let read = self.read_into(bytes, start);
                let opened = read.and_then(|()| self.open_block(block, bytes, keep));
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
            Ok(_) => return self.open_block(block, &buf, keep),
            Err(what) => Err(what),
        }
        .map_err(|what| self.damaged(block, what))
    }

    /// Makes a block from its sealed bytes in the file.
    pub(super) fn open_block(&self, block: usize, sealed: &[u8], keep: bool) -> Result<Block> {
        let (start, _) = self.meta.index.place(block);
        let raw_bytes = self.meta.index.raw_bytes(block);
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
            _ => self.damaged(block, what),
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
        let keep = fill_cache && self.is_wanted(block);
        Ok(self.keep(block, self.read_block(block, keep)?, keep))
    }

    /// Reports whether the cache wants a block that has to be read.
    pub(super) fn is_wanted(&self, block: usize) -> bool {
        let raw_bytes = self.meta.index.raw_bytes(block);
        self.cache().should_admit(&self.block_key(block), Block::memory_bytes_of(raw_bytes))
    }

    /// Returns a block from the cache.
    #[inline]
    pub(super) fn cached(&self, block: usize) -> Option<Block> {
        let found = self.cache().get_with_slot(&self.slots, block, &self.block_key(block));
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

    /// Reports whether a block is in the cache.
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
        self.cache().remove(self.slots.filled().map(|block| self.block_key(block)));
    }

    /// Returns the file number.
    pub fn number(&self) -> u64 {
        self.source.file_number
    }

    /// Returns the block of `key`. Prefetches the slots of the blocks around it on the way.
    #[inline]
    pub(super) fn find_block(&self, key: &[u8]) -> usize {
        self.meta.index.find(key, |at, count| self.slots.prefetch_slots(at, count))
    }

    /// Begins [`Table::find_block`]. If the index is a tree, it stops before the first wait for
    /// memory.
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
        if self.order().has_heads() {
            let all = (self.meta.index.count(), self.info().entries);
            self.sketches.build((at, block), all, &self.config);
        }
    }

    /// Returns the range tombstones.
    pub fn range_deletes(&self) -> &Arc<RangeDeletes> {
        &self.meta.range_deletes
    }

    /// Returns the newest range tombstone over `key` that is visible at `seqno`.
    #[inline]
    pub fn covering(&self, key: &[u8], seqno: SeqNo) -> Option<SeqNo> {
        if !self.meta.has_range_deletes {
            return None;
        }
        self.covering_in_set(key, seqno)
    }

    /// Out of line, to keep the common path of a get short.
    #[inline(never)]
    fn covering_in_set(&self, key: &[u8], seqno: SeqNo) -> Option<SeqNo> {
        self.meta.range_deletes.covering(self.order(), key, seqno)
    }

    /// Returns the approximate file offset of `key`, or of its place if it is absent, in bytes.
    pub fn approximate_offset(&self, key: &[u8]) -> u64 {
        let index = &self.meta.index;
        match self.find_block(key) {
            block if block < index.count() => index.place(block).0,
            _ => index.data_bytes(),
        }
    }

    /// Returns a key that divides the table: the rows before it have about `offset_bytes`. `None` if
    /// the table has no block that begins at this offset or later.
    pub fn key_near(&self, offset_bytes: u64) -> Option<&[u8]> {
        let index = &self.meta.index;
        index.block_from(offset_bytes).map(|block| index.key(block))
    }

    /// Returns the first separator of two blocks that is after `key`.
    pub fn separator_after(&self, key: &[u8]) -> Option<&[u8]> {
        let index = &self.meta.index;
        let mut later = (self.find_block(key)..index.count()).map(|block| index.key(block));
        later.find(|separator| self.order().compare(separator, key).is_gt())
    }

    /// Returns the memory of the open table outside the cache, in bytes: index, filter, range
    /// tombstones, dictionary, the sample of keys.
    pub fn memory_bytes(&self) -> usize {
        size_of::<Table>()
            + self.meta.index.memory_bytes()
            + self.meta.filter.memory_bytes()
            + self.slots.memory_bytes()
            + self.meta.range_deletes.memory_bytes()
            + self.meta.dictionary.as_ref().map_or(0, Dictionary::memory_bytes)
            + self.meta.properties.sample.len()
    }

    /// Returns the summary of the table's content from its properties.
    pub fn info(&self) -> &TableInfo {
        &self.meta.properties.info
    }
}

/// Counts a block of `stored_bytes` that was read from a file, for the reader's thread.
pub(super) fn count_read(stored_bytes: u64) {
    perf::count(|counts| {
        counts.blocks_read += 1;
        counts.block_bytes_read += stored_bytes;
    });
}

impl fmt::Debug for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let properties = &self.meta.properties;
        f.debug_struct("Table")
            .field("path", &self.source.path)
            .field("layout", &properties.layout_name)
            .field("compression", &properties.compression_name)
            .field("block_size_bytes", &properties.block_size_bytes)
            .field("entries", &properties.info.entries)
            .finish()
    }
}
