//! Writes a table, block by block, in one pass.
//!
//! Invariants:
//! 1. Entries are added in internal order. An entry out of order is refused.
//! 2. Memory use is one block, the output buffer (256 KiB and one block), the index and the
//!    filter's hashes; with dictionaries also the samples (at most 4 MiB and one block).
//! 3. A large value is copied only for its compression: into its block and the compressed output.
//!    unavoidable.
//! 4. Nothing is durable before `finish` returns. After it, the whole file is durable. The caller
//!    must sync the file's name.

use std::cmp::Ordering;
use std::path::{Path, PathBuf};

use crate::base::checksum::{checksum_parts, location_seed};
use crate::base::expiry::TIME_BYTES;
use crate::base::key::{
    Kind, SEQNO_MAX, STORED_KEY_BYTES_MAX, STORED_VALUE_BYTES_MAX, SeqNo, pack,
};
use crate::base::range_delete::RangeDelete;
use crate::base::separated::ValuePointer;
use crate::error::{Error, Result};
use crate::fs::{Fs, WritableFile};
use crate::options::kinds::Compression;

use super::block::BlockBuilder;
use super::compress::{self, Packer};
use super::dictionary::{self, Samples, samples_bytes_max};
use super::filter::FilterBuilder;
use super::format::{
    FOOTER_BYTES, Footer, Handle, STAMP_BYTES, TRAILER_BYTES, encode_range_deletes, seal,
};
use super::index::IndexBuilder;
use super::properties::{External, Properties};
use super::summary::Summary;
use super::{BLOCK_BYTES_MAX, TableInfo, TableOptions};

/// Output goes to the file in multiples of this size, so that every write begins at a multiple of
/// it. A file system that gives one write adjoining memory then reads the data faster
/// (`docs/decisions/0017`).
const OUTPUT_BYTES: usize = 256 << 10;
/// Values larger than this and than the block size go to the file without a copy.
const LARGE_VALUE_BYTES: usize = 1 << 20;

/// A table being written. If it is dropped or abandoned, the file on disk is not a table.
pub struct TableWriter {
    file: Box<dyn WritableFile>,
    path: PathBuf,
    table_id: u64,
    options: TableOptions,
    builder: BlockBuilder,
    index: IndexBuilder,
    filter: FilterBuilder,
    tombstones: Vec<RangeDelete>,
    summary: Summary,
    packer: Packer,
    /// The first blocks, until the dictionary is trained. `None` without dictionaries and after it.
    samples: Option<Samples>,
    /// The dictionary of the packer; empty for none.
    dictionary: Vec<u8>,
    /// Buffer for a block before compression.
    raw: Vec<u8>,
    /// Output that is not yet in the file.
    out: Vec<u8>,
    /// Number of bytes already in the file.
    written_bytes: u64,
    /// Stored and uncompressed length of a block that is written but not yet in the index, because
    /// the next key is not known.
    unlisted: Option<(u64, u64)>,
    first_key: Vec<u8>,
    last_key: Vec<u8>,
    last_seqno: SeqNo,
}

impl TableWriter {
    /// Creates the file `path`, which must not exist. `table_id` is the random identity in the seed
    /// of every checksum.
    pub fn create(
        fs: &dyn Fs,
        path: &Path,
        table_id: u64,
        options: &TableOptions,
    ) -> Result<TableWriter> {
        let mut options = options.clone();
        options.block_size_bytes = options.block_size_bytes.clamp(1, BLOCK_BYTES_MAX);
        let packer = Packer::new(options.compression, options.compression_level)
            .map_err(|e| Error::io(path, "start the compressor", e))?;
        let file = fs.create_new(path).map_err(|e| Error::io(path, "create", e))?;
        let has_samples =
            options.dictionary_max_bytes > 0 && options.compression == Compression::Zstd;
        Ok(TableWriter {
            file,
            path: path.to_path_buf(),
            table_id,
            builder: BlockBuilder::new(options.layout, &options.order, options.restart_interval),
            index: IndexBuilder::default(),
            filter: FilterBuilder::new(&options.filter),
            tombstones: Vec::new(),
            summary: Summary::new(table_id),
            packer,
            samples: has_samples.then(Samples::default),
            dictionary: Vec::new(),
            raw: Vec::new(),
            out: Vec::new(),
            written_bytes: 0,
            unlisted: None,
            first_key: Vec::new(),
            last_key: Vec::new(),
            last_seqno: 0,
            options,
        })
    }

    /// Adds an entry, which must follow all others in internal order.
    ///
    /// # Errors
    /// `InvalidArgument` for an entry out of order, a range tombstone or a size beyond the limits.
    /// Such an entry is not added.
    pub fn add(&mut self, key: &[u8], seqno: SeqNo, kind: Kind, value: &[u8]) -> Result<()> {
        if key.len() > STORED_KEY_BYTES_MAX
            || value.len() > STORED_VALUE_BYTES_MAX
            || seqno > self.seqno_max()
        {
            return Err(Error::invalid("an entry's key, value or sequence number is too large")
                .with_path(&self.path));
        }
        if kind == Kind::RangeDelete {
            return Err(Error::invalid("a range tombstone is not an entry").with_path(&self.path));
        }
        if kind == Kind::PutExpiring && value.len() < TIME_BYTES {
            return Err(Error::invalid("an entry that expires has no time").with_path(&self.path));
        }
        if kind == Kind::PutSeparated && ValuePointer::decode(value).is_none() {
            let message = "an entry with a separated value has no pointer";
            return Err(Error::invalid(message).with_path(&self.path));
        }
        let first = self.summary.entries() == 0;
        let new_key = match self.options.order.compare(&self.last_key, key) {
            _ if first => true,
            Ordering::Less => true,
            Ordering::Equal if seqno < self.last_seqno => false,
            _ => return Err(self.disorder()),
        };
        let large = value.len() > LARGE_VALUE_BYTES.max(self.options.block_size_bytes);
        if !self.builder.is_empty() {
            let with_entry = self.builder.estimated_bytes() + key.len() + value.len();
            if with_entry > self.options.block_size_bytes {
                self.cut(Some(key))?;
            }
        } else if let Some(written) = self.unlisted.take() {
            self.list(Some(key), written)?;
        }
        if first {
            self.first_key.extend_from_slice(key);
        }
        if new_key {
            self.filter.add(key);
            self.last_key.clear();
            self.last_key.extend_from_slice(key);
        }
        self.last_seqno = seqno;
        self.summary.add(key, seqno, kind, value);
        if large {
            return self.write_alone(key, pack(seqno, kind), value);
        }
        self.builder.add(key, pack(seqno, kind), value);
        Ok(())
    }

    /// Returns the largest sequence number of an entry.
    fn seqno_max(&self) -> SeqNo {
        if self.options.external.is_some() { 0 } else { SEQNO_MAX }
    }

    /// Writes a block that consists of this one row.
    fn write_alone(&mut self, key: &[u8], word: u64, value: &[u8]) -> Result<()> {
        self.end_samples(true)?;
        let (before, after) = self.builder.around_alone(key, word, value.len());
        let raw_bytes = (before.len() + value.len() + after.len()) as u64;
        let seed = location_seed(self.table_id, self.offset());
        let write = |writer: &mut Self, parts: &[&[u8]], compression| {
            let code = [compress::code(compression)];
            let sealed: Vec<&[u8]> = parts.iter().copied().chain([&code[..]]).collect();
            let sum = checksum_parts(&sealed, seed);
            sealed.iter().try_for_each(|part| writer.emit(part))?;
            writer.emit(&sum.to_le_bytes())
        };
        let stored = match self.packer.pack_large([&before[..], value, &after[..]]) {
            Some(packed) => {
                write(self, &[&packed[..]], self.options.compression)?;
                packed.len() as u64
            }
            None => {
                write(self, &[&before[..], value, &after[..]], Compression::None)?;
                raw_bytes
            }
        };
        self.unlisted = Some((stored, raw_bytes));
        Ok(())
    }

    /// Appends `bytes` to the output. A long part goes to the file without a copy.
    fn emit(&mut self, bytes: &[u8]) -> Result<()> {
        let first = (OUTPUT_BYTES - self.out.len() % OUTPUT_BYTES).min(bytes.len());
        let (first, rest) = bytes.split_at(first);
        self.out.extend_from_slice(first);
        self.write_out(self.out.len() / OUTPUT_BYTES * OUTPUT_BYTES)?;
        let (whole, rest) = rest.split_at(rest.len() / OUTPUT_BYTES * OUTPUT_BYTES);
        if !whole.is_empty() {
            self.file.append(whole).map_err(|e| Error::io(&self.path, "write", e))?;
            self.written_bytes += whole.len() as u64;
        }
        self.out.extend_from_slice(rest);
        Ok(())
    }

    /// Adds a block to the index. The last key of the block is the writer's last key; `next` is the
    /// first key of the next block.
    fn list(&mut self, next: Option<&[u8]>, (stored, raw): (u64, u64)) -> Result<()> {
        self.check_index_room()?;
        self.index.add(&self.options.order, &self.last_key, next, stored, raw);
        Ok(())
    }

    fn check_index_room(&self) -> Result<()> {
        if self.index.count() == u32::MAX || self.index.estimated_bytes() > u32::MAX as u64 / 2 {
            return Err(Error::invalid("the table has too many blocks").with_path(&self.path));
        }
        Ok(())
    }

    fn disorder(&self) -> Error {
        let order = self.options.order.name();
        Error::invalid(format!(
            "entries are not ascending in the key order {order}; a custom key order must be a \
             total order that never changes"
        ))
        .with_path(&self.path)
    }

    /// Adds a range tombstone. Range tombstones may come in any order. One that covers nothing is
    /// omitted.
    pub fn add_range_delete(&mut self, tombstone: &RangeDelete) -> Result<()> {
        let longest = tombstone.start.len().max(tombstone.end.len());
        if longest > STORED_KEY_BYTES_MAX || tombstone.seqno > self.seqno_max() {
            return Err(
                Error::invalid("a range tombstone's bound is too long").with_path(&self.path)
            );
        }
        if self.options.order.compare(&tombstone.start, &tombstone.end).is_lt() {
            self.tombstones.push(tombstone.clone());
        }
        Ok(())
    }

    /// Sets what a table that is made for an ingest says of itself.
    pub fn set_external(&mut self, external: External) {
        if self.options.external.is_some() {
            self.options.external = Some(external);
        }
    }

    /// Returns the approximate file length in bytes if the table were finished now.
    pub fn estimated_bytes(&self) -> u64 {
        self.offset()
            // About what they take once they are compressed.
            + self.samples.as_ref().map_or(0, |samples| samples.raw.len() as u64 / 2)
            + self.builder.estimated_bytes() as u64
            + self.index.estimated_bytes()
            + self.filter.estimated_bytes()
            + FOOTER_BYTES as u64
    }

    /// Returns the number of entries so far.
    pub fn entries(&self) -> u64 {
        self.summary.entries()
    }

    /// Returns the offset of the next block.
    fn offset(&self) -> u64 {
        self.written_bytes + self.out.len() as u64
    }

    /// Ends the current block. `next` is the first key of the next block.
    fn cut(&mut self, next: Option<&[u8]>) -> Result<()> {
        if let Some(samples) = &mut self.samples {
            let start = samples.raw.len();
            self.builder.finish(&mut samples.raw);
            samples.push(samples.raw.len() - start, &self.last_key, next);
            if samples.raw.len() >= samples_bytes_max(self.options.dictionary_max_bytes) {
                self.end_samples(true)?;
            }
            return Ok(());
        }
        let (start, offset) = (self.out.len(), self.offset());
        let (raw_bytes, compression) = if self.options.compression == Compression::None {
            self.builder.finish(&mut self.out);
            (self.out.len() - start, Compression::None)
        } else {
            self.raw.clear();
            self.builder.finish(&mut self.raw);
            (self.raw.len(), self.packer.pack(&self.raw, &mut self.out))
        };
        self.raw.shrink_to(4 * self.options.block_size_bytes + (64 << 10));
        let payload_bytes = (self.out.len() - start) as u64;
        seal(&mut self.out, start, compression, self.table_id, offset);
        self.list(next, (payload_bytes, raw_bytes as u64))?;
        self.write_out(self.out.len() / OUTPUT_BYTES * OUTPUT_BYTES)
    }

    /// Trains the dictionary, if the samples are not yet written, and writes them. `goes_on` means
    /// that more blocks follow.
    fn end_samples(&mut self, goes_on: bool) -> Result<()> {
        let Some(samples) = self.samples.take() else { return Ok(()) };
        if let Some((packer, dictionary)) = self.dictionary_of(&samples, goes_on) {
            (self.packer, self.dictionary) = (packer, dictionary);
        }
        for (sample, raw) in samples.iter() {
            let (start, offset) = (self.out.len(), self.offset());
            let compression = self.packer.pack(raw, &mut self.out);
            let payload_bytes = (self.out.len() - start) as u64;
            seal(&mut self.out, start, compression, self.table_id, offset);
            self.check_index_room()?;
            let (order, next) = (&self.options.order, sample.next.as_deref());
            self.index.add(order, &sample.last_key, next, payload_bytes, raw.len() as u64);
            self.write_out(self.out.len() / OUTPUT_BYTES * OUTPUT_BYTES)?;
        }
        Ok(())
    }

    /// Returns a dictionary trained from the samples, with its compressor. `None` if the samples are
    /// too few, or a dictionary would save too little.
    fn dictionary_of(&mut self, samples: &Samples, goes_on: bool) -> Option<(Packer, Vec<u8>)> {
        let options = &self.options;
        if !samples.are_enough() {
            return None;
        }
        // A dictionary says little about the blocks that follow by those that it was made of.
        let blocks = samples.blocks.len();
        let trained_from = if goes_on { blocks - (blocks / 8).max(1) } else { blocks };
        let measured_from = if goes_on { trained_from } else { 0 };
        let trained = dictionary::train(samples, trained_from, options.dictionary_max_bytes)?;
        let (kind, level) = (options.compression, options.compression_level);
        let mut packer = Packer::with_dictionary(kind, level, &trained).ok()?;
        let mut packed_bytes = |packer: &mut Packer| {
            let mut bytes = 0;
            for (_, raw) in samples.iter().skip(measured_from) {
                self.raw.clear();
                packer.pack(raw, &mut self.raw);
                bytes += self.raw.len();
            }
            bytes
        };
        let bytes = (packed_bytes(&mut self.packer), packed_bytes(&mut packer));
        dictionary::is_worth_it(trained.len(), bytes, goes_on).then_some((packer, trained))
    }

    /// Writes the first `bytes` bytes of the output buffer to the file.
    fn write_out(&mut self, bytes: usize) -> Result<()> {
        if bytes == 0 {
            return Ok(());
        }
        self.file.append(&self.out[..bytes]).map_err(|e| Error::io(&self.path, "write", e))?;
        self.written_bytes += bytes as u64;
        self.out.drain(..bytes);
        self.out.shrink_to(4 * OUTPUT_BYTES);
        Ok(())
    }

    /// Seals the bytes that `fill` appends as an uncompressed block.
    fn part(&mut self, fill: impl FnOnce(&Self, &mut Vec<u8>)) -> Handle {
        let (start, offset_bytes) = (self.out.len(), self.offset());
        let mut out = std::mem::take(&mut self.out);
        fill(self, &mut out);
        let payload_bytes = (out.len() - start) as u64;
        seal(&mut out, start, Compression::None, self.table_id, offset_bytes);
        self.out = out;
        Handle { offset_bytes, payload_bytes }
    }

    /// Writes the remaining parts, syncs the file and returns the summary of its content.
    pub fn finish(mut self) -> Result<TableInfo> {
        if !self.builder.is_empty() {
            self.cut(None)?;
        } else if let Some(written) = self.unlisted.take() {
            self.list(None, written)?;
        }
        self.end_samples(false)?;
        let dictionary = (!self.dictionary.is_empty())
            .then(|| self.part(|writer, out| out.extend_from_slice(&writer.dictionary)));
        let filter = self.part(|writer, out| writer.filter.finish(out));
        let range_deletes = self.part(|writer, out| encode_range_deletes(out, &writer.tombstones));
        let mut payload = Vec::new();
        self.index.finish(&mut payload);
        let properties_at = self.offset();
        let properties = self.properties(payload.len(), dictionary);
        let properties_handle = self.part(|_, out| properties.encode(out));
        debug_assert_eq!(properties_handle.offset_bytes, properties_at);
        let index = self.part(|_, out| out.extend_from_slice(&payload));
        let stamp_at = self.options.external.is_some().then(|| self.offset());
        if stamp_at.is_some() {
            self.out.extend_from_slice(&[0; STAMP_BYTES]);
        }
        let footer = Footer {
            filter,
            range_deletes,
            properties: properties_handle,
            index,
            table_id: self.table_id,
            stamp_at,
        };
        let footer_at = self.offset();
        footer.encode(&mut self.out, footer_at);
        debug_assert_eq!(self.offset(), properties.info.size_bytes);
        self.write_out(self.out.len())?;
        self.file.sync().map_err(|e| Error::io(&self.path, "sync", e))?;
        if self.options.direct {
            self.file.forget_cached();
        }
        Ok(properties.info)
    }

    /// Returns the table's properties. They contain the length of the file that contains them, so
    /// the length is tried until it is consistent.
    fn properties(&mut self, index_bytes: usize, dictionary: Option<Handle>) -> Properties {
        let options = &self.options;
        let keys = (self.summary.entries() > 0)
            .then_some((self.first_key.as_slice(), self.last_key.as_slice()));
        let tombstones = self.tombstones.iter().map(RangeDelete::borrow);
        let summary = std::mem::replace(&mut self.summary, Summary::new(self.table_id));
        let sample = summary.sample();
        let mut properties = Properties {
            info: summary.finish(&options.order, keys, tombstones, 0),
            order_name: options.order.name().to_string(),
            layout_name: self.builder.layout().name().to_string(),
            compression_name: options.compression.name().to_string(),
            block_size_bytes: options.block_size_bytes as u64,
            tree: options.tree,
            external: options.external.clone(),
            dictionary,
            sample,
        };
        properties.info.ingested = properties.external.is_some().then_some(0);
        let stamp_bytes = if properties.external.is_some() { STAMP_BYTES } else { 0 };
        let tail_bytes = index_bytes + 2 * TRAILER_BYTES + stamp_bytes + FOOTER_BYTES;
        let others = self.offset() + tail_bytes as u64;
        let mut payload = Vec::new();
        loop {
            payload.clear();
            properties.encode(&mut payload);
            let size_bytes = others + payload.len() as u64;
            if size_bytes == properties.info.size_bytes {
                return properties;
            }
            properties.info.size_bytes = size_bytes;
        }
    }

    /// Stops writing. The unfinished file remains; the caller must remove it.
    pub fn abandon(self) {}
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fs::MemFs;
    use std::io;
    use std::sync::{Arc, Mutex};

    /// A file that records the length of each write.
    struct RecordingFile(Box<dyn WritableFile>, Arc<Mutex<Vec<usize>>>);

    impl WritableFile for RecordingFile {
        fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
            self.1.lock().unwrap().push(bytes.len());
            self.0.append(bytes)
        }
        fn write_at(&mut self, bytes: &[u8], offset_bytes: u64) -> io::Result<()> {
            self.0.write_at(bytes, offset_bytes)
        }
        fn sync(&mut self) -> io::Result<()> {
            self.0.sync()
        }
        fn set_len(&mut self, len_bytes: u64) -> io::Result<()> {
            self.0.set_len(len_bytes)
        }
    }

    #[test]
    fn writes_are_multiples_of_buffer_size() {
        let (fs, path) = (MemFs::new(), Path::new("table"));
        let options = TableOptions::default();
        let noted = Arc::default();
        let mut writer = TableWriter::create(&*fs, path, 7, &options).unwrap();
        let file = fs.open_write(path).unwrap();
        writer.file = Box::new(RecordingFile(file, Arc::clone(&noted)));
        let value_bytes = |n: usize| if n % 1_000 == 500 { 5 * OUTPUT_BYTES / 2 } else { n % 300 };
        for n in 0..9_000 {
            let value = vec![n as u8; value_bytes(n)];
            writer.add(format!("{n:06}").as_bytes(), 1, Kind::Put, &value).unwrap();
        }
        let info = writer.finish().unwrap();
        let noted = noted.lock().unwrap();
        let (last, before) = noted.split_last().unwrap();
        assert!(before.len() > 9 && before.iter().all(|bytes| bytes % OUTPUT_BYTES == 0));
        assert!(before.contains(&(2 * OUTPUT_BYTES)) && *last < 2 * OUTPUT_BYTES, "{noted:?}");
        assert_eq!(noted.iter().sum::<usize>() as u64, info.size_bytes);
        assert_eq!(fs.read(path, u64::MAX).unwrap().len() as u64, info.size_bytes);
    }
}
