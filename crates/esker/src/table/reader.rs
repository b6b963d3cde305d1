//! An open table: its index, filter and range tombstones in memory, its blocks through the cache.
//!
//! What stays true: everything a read returns was under a checksum that matched; a file that is not
//! the table it should be (identity, length, order) is refused when it is opened.

use std::cell::RefCell;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

use crate::base::key::SeqNo;
use crate::base::order::KeyOrder;
use crate::base::range_delete::{RangeDeletes, RangeDeletesBuilder};
use crate::base::rows::KeyBuf;
use crate::base::sync::atomic::{AtomicU64, Ordering};
use crate::cache::{BlockCache, BlockKey, Home, Shelf};
use crate::error::{Error, ErrorKind, Result};
use crate::fs::{Fs, ReadableFile};
use crate::options::kinds::Compression;

use super::block::{Block, BlockBuf, Layout};
use super::compress::unpack;
use super::filter::Filter;
use super::format::{
    FOOTER_BYTES, FORMAT_VERSION, Footer, FooterError, Handle, Properties, TRAILER_BYTES,
    decode_range_deletes, unseal,
};
use super::index::{Begun, Index};
use super::iter::TableCursor;
use super::outline::Outlines;
use super::{ReadConfig, TableInfo, TableSource};

/// Longer memory for a packed block is not kept for the next.
const SEALED_BYTES_MAX: usize = 64 << 10;

thread_local! {
    /// Where packed blocks are read into.
    static SEALED: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// What the footer of a table says about itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TableIdentity {
    /// The random identity.
    pub table_id: u64,
    /// The length of the file.
    pub size_bytes: u64,
}

/// A table open for reading, from many threads.
pub struct Table {
    pub(super) source: TableSource,
    pub(super) config: ReadConfig,
    pub(crate) file: Option<Arc<dyn ReadableFile>>,
    pub(super) meta: Meta,
    /// Its blocks in the cache.
    pub(super) shelf: Arc<Shelf<Layout>>,
    /// Where about their rows lie.
    outlines: Outlines,
    /// Its place among the files that are kept open.
    pub kept: Option<KeptOpen>,
}

/// One of the files that are kept open, of which there are only so many.
pub struct KeptOpen(Arc<AtomicU64>);

impl KeptOpen {
    /// One that `count` has in it; it goes out when this is dropped.
    pub fn new(count: &Arc<AtomicU64>) -> KeptOpen {
        KeptOpen(count.clone())
    }
}

impl Drop for KeptOpen {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// What a table keeps in memory.
pub(super) struct Meta {
    pub(super) index: Index,
    pub(super) filter: Filter,
    /// The range tombstones as they are stored; an open table does not keep them.
    pub(super) tombstones: Vec<u8>,
    pub(super) has_range_deletes: bool,
    pub(super) range_deletes: Arc<RangeDeletes>,
    pub(super) properties: Properties,
    pub(super) properties_at: u64,
}

/// Reads the footer of a file of `size_bytes`.
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
                format!("a table of format version {found}; this build reads {FORMAT_VERSION}");
            Err(Error::new(ErrorKind::Incompatible, message).at(path))
        }
    }
}

fn len_of(file: &dyn ReadableFile, path: &Path) -> Result<u64> {
    file.len_bytes().map_err(|e| Error::io(path, "read the length", e))
}

fn open_file(fs: &dyn Fs, path: &Path) -> Result<Arc<dyn ReadableFile>> {
    fs.open_read(path).map_err(|e| Error::io(path, "open", e))
}

impl Meta {
    /// Reads and checks everything but the blocks.
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
        Meta::decode(&bytes, start, &footer, source, config)
    }

    fn decode(
        bytes: &[u8],
        start: u64,
        footer: &Footer,
        source: &TableSource,
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
                Ok(_) => Err(damaged(part, "this part of a table is never compressed")),
                Err(what) => Err(damaged(part, what)),
            }
        };
        let properties = Properties::decode(payload(footer.properties)?)
            .ok_or_else(|| damaged(footer.properties, "the properties are malformed"))?;
        let (want, found) = (config.order.name(), &properties.order_name);
        if want != found {
            let message = format!("a table in the order {found}; the store's order is {want}");
            return Err(Error::new(ErrorKind::Incompatible, message).at(&source.path));
        }
        let index = Index::decode(
            payload(footer.index)?,
            start,
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
        })
    }
}

impl Table {
    /// Opens a table: checks its length, identity, order and every checksum outside the blocks.
    ///
    /// `Corruption` when a byte is not what was written, `Incompatible` for another format version
    /// or order, `Io` when the file cannot be read.
    pub fn open(source: TableSource, config: &ReadConfig) -> Result<Table> {
        let file = open_file(&*source.fs, &source.path)?;
        let mut meta = Meta::read(&*file, &source, config)?;
        // Only a check reads them again, from the file.
        meta.tombstones = Vec::new();
        let file = config.keep_open.then_some(file);
        let shelf = Arc::new(config.cache.shelf(meta.index.count(), &config.pages));
        let info = &meta.properties.info;
        let outlines = Outlines::new(&info.smallest, &info.largest);
        Ok(Table { source, config: config.clone(), file, meta, shelf, outlines, kept: None })
    }

    /// What the file `path` says it is, from its footer alone; for a file found without a manifest.
    pub fn identify(fs: &dyn Fs, path: &Path) -> Result<TableIdentity> {
        let file = open_file(fs, path)?;
        let size_bytes = len_of(&*file, path)?;
        let (footer, _) = read_footer(&*file, path, size_bytes)?;
        Ok(TableIdentity { table_id: footer.table_id, size_bytes })
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
        BlockKey { file: self.source.file_number, block: block as u32 }
    }

    /// The file, opened for this one use if it is not kept open.
    pub(super) fn file(&self) -> Result<Arc<dyn ReadableFile>> {
        match &self.file {
            Some(file) => Ok(Arc::clone(file)),
            None => open_file(&*self.source.fs, &self.source.path),
        }
    }

    /// Fills `bytes` from `offset_bytes` on.
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

    /// Reads a block from the file. `keep` says that it is for the cache.
    pub(super) fn read_block(&self, block: usize, keep: bool) -> Result<Block> {
        let (start, end) = self.meta.index.place(block);
        let stored = (end - start) as usize;
        let raw_bytes = self.meta.index.raw_bytes(block);
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
        // It is not packed: the block keeps the memory it is read into.
        let mut buf = self.buf(stored, keep);
        self.read_into(&mut buf, start)?;
        match unseal(&buf, self.source.table_id, start) {
            Ok((Compression::None, _)) => Block::parse(buf, raw_bytes),
            Ok(_) => return self.open_block(block, &buf, keep),
            Err(what) => Err(what),
        }
        .map_err(|what| self.damaged(block, what))
    }

    /// Makes a block of its bytes as they lie in the file.
    pub(super) fn open_block(&self, block: usize, sealed: &[u8], keep: bool) -> Result<Block> {
        let (start, _) = self.meta.index.place(block);
        let raw_bytes = self.meta.index.raw_bytes(block);
        let open = || {
            let (compression, payload) = unseal(sealed, self.source.table_id, start)?;
            let mut buf = self.buf(raw_bytes, keep);
            if compression != Compression::None {
                unpack(compression, payload, &mut buf)?;
            } else if payload.len() == raw_bytes {
                buf.copy_from_slice(payload);
            } else {
                return Err("the block's length is not what the index says");
            }
            Block::parse(buf, raw_bytes)
        };
        open().map_err(|what| self.damaged(block, what))
    }

    /// Memory for a block, from the cache's pool if it is for the cache.
    fn buf(&self, bytes: usize, keep: bool) -> BlockBuf {
        BlockBuf::zeroed(bytes, keep.then(|| self.cache().pool()))
    }

    /// A block from the cache or the file.
    pub(super) fn load(&self, block: usize, fill_cache: bool) -> Result<Block> {
        match self.cached(block) {
            Some(found) => Ok(found),
            None => self.fetch(block, fill_cache),
        }
    }

    /// A block from the file, through the cache if it is to be kept.
    #[cold]
    pub(super) fn fetch(&self, block: usize, fill_cache: bool) -> Result<Block> {
        let keep = fill_cache && self.is_wanted(block);
        Ok(self.keep(block, self.read_block(block, keep)?, keep))
    }

    /// Whether the cache wants a block that has to be read.
    pub(super) fn is_wanted(&self, block: usize) -> bool {
        let raw_bytes = self.meta.index.raw_bytes(block);
        self.cache().wants(&self.block_key(block), Block::memory_bytes_of(raw_bytes))
    }

    /// A block from the cache.
    #[inline]
    pub(super) fn cached(&self, block: usize) -> Option<Block> {
        self.cache().get_at(&self.shelf, block, &self.block_key(block)).map(Block::of)
    }

    /// A block from the cache, for one who leaves no trace there.
    pub(super) fn peek(&self, block: usize) -> Option<Block> {
        self.cache().peek(&self.block_key(block)).map(Block::of)
    }

    /// Whether a block is in the cache.
    pub(super) fn is_cached(&self, block: usize) -> bool {
        self.shelf.is_filled(block)
    }

    /// Asks the processor for the beginning of a block, if it is in the cache.
    #[inline]
    pub(super) fn prefetch(&self, block: usize) {
        self.shelf.prefetch(block);
    }

    /// Where in memory the bytes of a block are, if it is in the cache, or else 0: for prefetches.
    #[inline]
    pub(super) fn memory_address(&self, block: usize) -> usize {
        self.shelf.address(block)
    }

    /// Shares a block just read, through the cache if it is to be kept.
    pub(super) fn keep(&self, block: usize, read: Block, fill_cache: bool) -> Block {
        if !fill_cache {
            return read;
        }
        let charge_bytes = read.memory_bytes() as u64;
        let home = Home::new(&self.shelf, block);
        Block::of(self.cache().insert(self.block_key(block), read.into_frame(), charge_bytes, home))
    }

    /// Leaves a block just read in the cache if that has room for it, or says false.
    pub(super) fn offer(&self, block: usize, read: Block) -> bool {
        let charge_bytes = read.memory_bytes() as u64;
        let home = Home::new(&self.shelf, block);
        self.cache().offer(self.block_key(block), read.into_frame(), charge_bytes, home)
    }

    /// Whether the cache would keep a block of so many bytes without letting go of another.
    pub(super) fn has_room(&self, block: usize, bytes: usize) -> bool {
        self.cache().has_room(&self.block_key(block), bytes as u64)
    }

    /// Has the cache let go of all its blocks: the file was deleted.
    pub fn forget_blocks(&self) {
        self.cache().remove(self.shelf.filled().map(|block| self.block_key(block)));
    }

    /// The number of its file.
    pub fn number(&self) -> u64 {
        self.source.file_number
    }

    /// In which block `key` would be. The places of the blocks around it are asked for on the way.
    #[inline]
    pub(super) fn find_block(&self, key: &[u8]) -> usize {
        self.meta.index.find(key, |at, count| self.shelf.prefetch_places(at, count))
    }

    /// Begins [`Table::find_block`]; where the index is a tree, as far as it does not wait for memory.
    #[inline]
    pub(super) fn begin_find(&self, key: &[u8]) -> Begun {
        let begun = self.meta.index.begin(key);
        self.meta.index.prefetch(&begun, |at, count| {
            self.shelf.prefetch_places(at, count);
            self.outlines.prefetch_starts(at, count);
        });
        begun
    }

    /// Ends it, with the same key.
    #[inline]
    pub(super) fn finish_find(&self, key: &[u8], begun: Begun) -> usize {
        self.meta.index.finish(key, begun)
    }

    /// Asks the processor for the outline of `block`. False if it has none.
    #[inline]
    pub(super) fn prefetch_outline(&self, block: usize) -> bool {
        self.outlines.prefetch(block)
    }

    /// A bound, put into `out`, for what [`Table::find_block`] said is in `block`; see
    /// [`super::outline`]. False if there is none.
    #[inline]
    pub(super) fn bound(&self, block: usize, key: &[u8], out: &mut KeyBuf) -> bool {
        self.outlines.bound(block, key, out)
    }

    /// Has an outline of `block`, the one at `at`, for seeks to come.
    #[inline]
    pub(super) fn outline(&self, at: usize, block: &Block) {
        if self.order().has_heads() {
            let all = (self.meta.index.count(), self.info().entries);
            self.outlines.draw((at, block), all, &self.config);
        }
    }

    /// The range tombstones.
    pub fn range_deletes(&self) -> &Arc<RangeDeletes> {
        &self.meta.range_deletes
    }

    /// The newest range tombstone over `key` that a reader at `seqno` sees.
    #[inline]
    pub fn covering(&self, key: &[u8], seqno: SeqNo) -> Option<SeqNo> {
        if !self.meta.has_range_deletes {
            return None;
        }
        self.covering_in_set(key, seqno)
    }

    /// Apart, so that the way of most gets is short.
    #[inline(never)]
    fn covering_in_set(&self, key: &[u8], seqno: SeqNo) -> Option<SeqNo> {
        self.meta.range_deletes.covering(self.order(), key, seqno)
    }

    /// A cursor over the entries, not yet on one. `fill_cache` offers blocks it has to read to the cache.
    pub fn cursor(self: &Arc<Self>, fill_cache: bool) -> TableCursor {
        TableCursor::new(Arc::clone(self), fill_cache)
    }

    /// About where in the file `key` is or would be, in bytes from the start.
    pub fn approximate_offset(&self, key: &[u8]) -> u64 {
        let index = &self.meta.index;
        match self.find_block(key) {
            block if block < index.count() => index.place(block).0,
            _ => index.data_bytes(),
        }
    }

    /// Bytes of memory the open table holds beside the cache: index, filter, range tombstones.
    pub fn memory_bytes(&self) -> usize {
        size_of::<Table>()
            + self.meta.index.memory_bytes()
            + self.meta.filter.memory_bytes()
            + self.shelf.memory_bytes()
            + self.meta.range_deletes.memory_bytes()
    }

    /// What the table holds, as its properties state it.
    pub fn info(&self) -> &TableInfo {
        &self.meta.properties.info
    }
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
