//! An open table. Its range tombstones are in memory, and its index and filter if there is room for
//! them. Its blocks are read through the cache.
//!
//! Invariants: every byte behind a read has passed a checksum. An open refuses a file that is not
//! the expected table (identity, length, order).

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use crate::base::key::SeqNo;
use crate::base::keyspace::TreeId;
use crate::base::order::KeyOrder;
use crate::base::range_delete::{RangeDeletes, RangeDeletesBuilder};
use crate::base::sync::atomic::{AtomicU64, Ordering};
use crate::cache::{BlockCache, BlockKey, BlockSlots};
use crate::error::{Error, ErrorKind, Result};
use crate::fs::{Fs, ReadableFile};
use crate::options::kinds::Compression;
use crate::perf;

use super::block::Layout;
use super::block_sketch::BlockSketches;
use super::dictionary::Dictionary;
use super::dictionary_part::read_dictionary;
use super::encoded::{Encoded, len_of, read_footer};
use super::filter::Filter;
use super::format::{Handle, decode_range_deletes, unseal};
use super::index::Index;
use super::index_budget::IndexPermit;
use super::partitions::Partitions;
use super::properties::Properties;
use super::stamp;
use super::{ReadConfig, TableInfo, TableSource};

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
    /// Its index and filter, if the cache may evict them. The index in `meta` is then the index of
    /// the partitions, and `meta` has no filter of the built-in kind.
    pub(super) partitions: Option<Box<Partitions>>,
    /// Slots for its blocks in the cache; none with partitions.
    pub(super) slots: Arc<BlockSlots<Layout>>,
    /// Sketches of its blocks; none with partitions.
    pub(super) sketches: BlockSketches,
    /// Its part of the memory for whole indexes and filters; `None` with partitions.
    index_permit: Option<IndexPermit>,
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

fn open_file(fs: &dyn Fs, path: &Path, direct: bool) -> Result<Arc<dyn ReadableFile>> {
    let opened = if direct { fs.open_read_direct(path) } else { fs.open_read(path) };
    opened.map_err(|e| Error::io(path, "open", e))
}

impl Meta {
    /// Reads and checks all parts but the blocks. Keeps them whole.
    pub(super) fn read(
        file: &dyn ReadableFile,
        source: &TableSource,
        config: &ReadConfig,
    ) -> Result<Meta> {
        Meta::decode(file, &Encoded::read(file, source)?, source, config)
    }

    /// Puts the index of the partitions in the place of the whole index, and drops the filter.
    fn partition(&mut self, encoded: &Encoded, config: &ReadConfig) -> Box<Partitions> {
        let (partitions, index) = Partitions::new(&self.index, encoded, &config.pages);
        self.index = index;
        // The filter of a user's policy has a form that only the policy knows.
        if matches!(self.filter, Filter::Bloom { .. }) {
            self.filter = Filter::None;
        }
        Box::new(partitions)
    }

    fn decode(
        file: &dyn ReadableFile,
        Encoded { bytes, start, footer }: &Encoded,
        source: &TableSource,
        config: &ReadConfig,
    ) -> Result<Meta> {
        let start = *start;
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
        let encoded = Encoded::read(&*file, &source)?;
        let index_permit = config.index_budget.permit(encoded.index_bytes(), config);
        let mut meta = match &index_permit {
            Some(_) => Meta::decode(&*file, &encoded, &source, config)?,
            // What is dropped again leaves no free memory between the parts of other tables.
            None => Meta::decode(&*file, &encoded, &source, &config.with_own_pages())?,
        };
        // Only a check needs them, and it reads them from the file.
        meta.tombstones = Vec::new();
        let file = config.keep_open.then_some(file);
        let partitions = index_permit.is_none().then(|| meta.partition(&encoded, config));
        let slots = if partitions.is_some() { 0 } else { meta.index.count() };
        let slots = Arc::new(config.cache.block_slots(slots, &config.pages));
        let info = &meta.properties.info;
        let sketches = BlockSketches::new(&info.smallest, &info.largest);
        Ok(Table {
            source,
            config: config.clone(),
            file,
            meta,
            partitions,
            slots,
            sketches,
            index_permit,
            kept: None,
        })
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

    /// Returns the file number.
    pub fn number(&self) -> u64 {
        self.source.file_number
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

    /// Returns the approximate file offset of `key`, or of its place if it is absent, in bytes: that
    /// of its block, or of its partition of the index. Reads nothing.
    pub fn approximate_offset(&self, key: &[u8]) -> u64 {
        let index = &self.meta.index;
        match index.find(key, |_, _| ()) {
            block if block < index.count() => index.place(block).start,
            _ => index.data_bytes(),
        }
    }

    /// Returns a key that divides the table: the rows before it have about `offset_bytes`. `None` if
    /// no key is known at this offset or later. Reads nothing.
    pub fn key_near(&self, offset_bytes: u64) -> Option<&[u8]> {
        let index = &self.meta.index;
        let block = index.block_from(offset_bytes)?;
        match &self.partitions {
            None => Some(index.key(block)),
            // The last separator of a partition is before the rows of the next one.
            Some(_) => block.checked_sub(1).map(|before| index.key(before)),
        }
    }

    /// Returns the first known separator of two blocks that is after `key`. Reads nothing.
    pub fn separator_after(&self, key: &[u8]) -> Option<&[u8]> {
        let index = &self.meta.index;
        let found = index.find(key, |_, _| ());
        let mut later = (found..index.count()).map(|block| index.key(block));
        later.find(|separator| self.order().compare(separator, key).is_gt())
    }

    /// Returns the memory that the table holds of the [`IndexBudget`](super::IndexBudget), in bytes.
    pub fn index_permit_bytes(&self) -> u64 {
        self.index_permit.as_ref().map_or(0, IndexPermit::bytes)
    }

    /// Returns the memory of the open table outside the cache, in bytes: index, filter, range
    /// tombstones, dictionary, the sample of keys.
    pub fn memory_bytes(&self) -> usize {
        size_of::<Table>()
            + self.meta.index.memory_bytes()
            + self.meta.filter.memory_bytes()
            + self.slots.memory_bytes()
            + self.partitions.as_ref().map_or(0, |parts| parts.memory_bytes())
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
