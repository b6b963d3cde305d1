//! Reads a log, record by record, and determines the kind of its end.
//!
//! Invariants: a record is returned only if its checksum holds at its offset, its ordinal continues
//! the previous record, and it is within the file. A bad record is a torn tail, unless a later
//! record or the sync marker proves that it had been durable. In that case it is corruption.
//!
//! Records are read in order, so the reader reads a window of the file at a time: a system call per
//! record would take longer than the rest of a replay. A record that looks bad in the window is read
//! again from the file before it counts as damaged.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::format::{
    ALIGN_BYTES, FileHeader, HEADER_BYTES, LogStart, RECORD_HEADER_BYTES, RecordHeader, RecordKind,
    VERSION, padded, record_checksum,
};
use crate::base::coding::Reader;
use crate::base::key::SeqNo;
use crate::error::{Error, ErrorKind, Result};
use crate::fs::{Fs, ReadableFile, read_or_zeros};

/// Read size of the search after a bad record, in bytes.
const SCAN_WINDOW_BYTES: usize = 64 << 10;
/// Size of the window in which records are read in order, in bytes.
const READ_WINDOW_BYTES: usize = 256 << 10;
/// Maximum record buffer that is kept, in bytes.
const RECORD_KEPT_BYTES_MAX: usize = 1 << 20;

/// Kind of a log's end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogEnd {
    /// The clean-close marker.
    Closed,
    /// The continuation marker: another log, durable at that time, continues here.
    Continued {
        /// Number of that log.
        number: u64,
    },
    /// The end of the file, zeros or the sync marker, after a complete record.
    Clean,
    /// An incomplete record: a crash interrupted its write.
    Torn {
        /// Offset of the bad record, in bytes.
        offset_bytes: u64,
        /// Number of bytes from there to the end of the file.
        dropped_bytes: u64,
    },
}

/// Content of a record, valid until the next read.
#[derive(Debug)]
pub struct LogRecord<'a> {
    /// Number of the log.
    pub log: u64,
    /// Ordinal of the record among all records of all logs.
    pub ordinal: u64,
    /// Sequence number of the first operation.
    pub first_seqno: SeqNo,
    /// Known durable length of this log when the record was written, in bytes.
    pub durable_bytes: u64,
    /// The operations ([`crate::base::ops`]).
    pub payload: &'a [u8],
    /// Offset of the record in the log, in bytes.
    pub offset_bytes: u64,
}

/// Reader of a log.
#[derive(Clone)]
pub struct LogReader {
    file: Arc<dyn ReadableFile>,
    path: PathBuf,
    len_bytes: u64,
    header: Option<FileHeader>,
    start: Option<LogStart>,
    at: u64,
    next_ordinal: u64,
    record: Vec<u8>,
    window: Window,
    end: Option<LogEnd>,
    /// Whether the log ends with the sync marker.
    at_synced: bool,
}

/// A part of the file that was read ahead.
#[derive(Clone, Default)]
struct Window {
    start: u64,
    bytes: Vec<u8>,
}

impl Window {
    /// Returns the part of the window from `offset` on with `len` bytes, if the window has all of it.
    fn part(&self, offset: u64, len: usize) -> Option<&[u8]> {
        let from = usize::try_from(offset.checked_sub(self.start)?).ok()?;
        self.bytes.get(from..from.checked_add(len)?)
    }

    fn clear(&mut self) {
        self.bytes.clear();
    }
}

/// Content at the offset of a record.
enum RecordAt {
    Record(RecordHeader),
    Nothing,
    Bad,
}

impl LogReader {
    /// Opens a log. If a crash left the header incomplete, the log has no records and a torn end. A
    /// log that never began has no records either.
    ///
    /// # Errors
    /// `Incompatible` for a newer version. `Corruption` for a log under another log's name, or for
    /// a damaged beginning that was durable. `Io`.
    pub fn open(fs: &dyn Fs, path: &Path, expected_number: u64) -> Result<LogReader> {
        let file = fs.open_read(path).map_err(|e| Error::io(path, "open the log", e))?;
        let len_bytes =
            file.len_bytes().map_err(|e| Error::io(path, "read the log's length", e))?;
        let mut bytes = vec![0; HEADER_BYTES.min(len_bytes as usize)];
        file.read_exact_at(&mut bytes, 0).map_err(|e| Error::io(path, "read the log", e))?;
        let mut reader = LogReader {
            file,
            path: path.to_path_buf(),
            len_bytes,
            header: None,
            start: None,
            at: HEADER_BYTES as u64,
            next_ordinal: 0,
            record: Vec::new(),
            window: Window::default(),
            end: None,
            at_synced: false,
        };
        match FileHeader::decode(&bytes) {
            Some((version, _)) if version > VERSION => {
                let message = format!("expected log version {VERSION}, found {version}");
                return Err(Error::new(ErrorKind::Incompatible, message).with_path(path));
            }
            Some((_, Some(header))) if header.number != expected_number => {
                let message = format!(
                    "expected log {expected_number}, found log {} in its place",
                    header.number
                );
                return Err(Error::corruption(path, 16, message));
            }
            Some((_, Some(header))) => {
                reader.header = Some(header);
                reader.read_start()?;
            }
            // The header is synced before the first record, so a crash can leave a bad header only
            // in a log without records.
            _ if reader.has_bytes_behind_header()? => {
                let message = "expected a log header, found other bytes";
                return Err(Error::corruption(path, 0, message));
            }
            _ => reader.end = Some(LogEnd::Torn { offset_bytes: 0, dropped_bytes: len_bytes }),
        }
        Ok(reader)
    }

    /// Reads the start marker, which is as durable as a record.
    fn read_start(&mut self) -> Result<()> {
        let found = self.read_record(self.at, false)?;
        if let RecordAt::Record(header) = found
            && header.kind == RecordKind::Begun
            && let Some(start) = LogStart::decode(&self.record[RECORD_HEADER_BYTES..])
        {
            self.at += padded(self.record.len()) as u64;
            self.next_ordinal = start.first_ordinal;
            self.start = Some(start);
            return Ok(());
        }
        self.check_not_durable(self.at, 0)?;
        self.end = Some(match found {
            RecordAt::Nothing => LogEnd::Clean,
            _ => LogEnd::Torn {
                offset_bytes: self.at,
                dropped_bytes: self.len_bytes.saturating_sub(self.at),
            },
        });
        Ok(())
    }

    /// Returns true if the log's header is intact. If not, a crash interrupted the log's creation.
    pub fn has_header(&self) -> bool {
        self.header.is_some()
    }

    /// Returns the log's starting point; `None` when the log never began and is therefore empty.
    pub fn start(&self) -> Option<LogStart> {
        self.start
    }

    /// Limits reads to the first `bytes` bytes. A record after them may be half written, while
    /// bytes after that record may already state that it was synced.
    pub fn until(mut self, bytes: u64) -> LogReader {
        self.len_bytes = self.len_bytes.min(bytes);
        self
    }

    /// Reports whether this log, read from its start, proves that the record `ordinal` of an older
    /// log was durable. The proof is its beginning, or a record or marker that this log was synced,
    /// because older logs are synced first.
    ///
    /// # Errors
    /// As [`LogReader::next`].
    pub fn proves_durable(&mut self, ordinal: u64) -> Result<bool> {
        if self.start.is_some_and(|s| s.durable_ordinal > ordinal) {
            return Ok(true);
        }
        while let Some(record) = self.next()? {
            if record.durable_bytes > HEADER_BYTES as u64 {
                return Ok(true);
            }
        }
        Ok(self.at_synced)
    }

    /// Frees the memory of the last record if it is large.
    pub fn forget_large_record(&mut self) {
        if self.record.capacity() > RECORD_KEPT_BYTES_MAX {
            self.record = Vec::new();
        }
    }

    /// Returns the end offset of the last read record.
    pub fn at_bytes(&self) -> u64 {
        self.at
    }

    /// Returns the ordinal of the next record.
    pub fn next_ordinal(&self) -> u64 {
        self.next_ordinal
    }

    /// Makes [`LogReader::next`] look again behind the last record of a log that began and was not
    /// ended by a marker: another thread or process may have appended.
    ///
    /// # Errors
    /// `Io`.
    pub fn resume(&mut self) -> Result<()> {
        if self.start.is_some() && matches!(self.end, Some(LogEnd::Clean | LogEnd::Torn { .. })) {
            let len = self.file.len_bytes();
            self.len_bytes = len.map_err(|e| Error::io(&self.path, "read the log's length", e))?;
            self.window.clear();
            self.end = None;
        }
        Ok(())
    }

    /// Returns the kind of the log's end, after [`LogReader::next`] returned `None`.
    pub fn end(&self) -> Option<LogEnd> {
        self.end
    }

    /// Reads the next record.
    ///
    /// # Errors
    /// `Corruption` when a record that was durable is bad; `Io`.
    #[allow(clippy::should_implement_trait)]
    pub fn next(&mut self) -> Result<Option<LogRecord<'_>>> {
        if self.end.is_some() {
            return Ok(None);
        }
        let offset = self.at;
        let found = match self.read_expected(offset)? {
            RecordAt::Record(header) => RecordAt::Record(header),
            found => match self.check_not_durable(offset, self.next_ordinal.saturating_add(1)) {
                Ok(()) => found,
                // Another process may be writing. The record may have arrived since, followed by
                // the statement that it is durable.
                Err(error) => match self.read_again(offset)? {
                    RecordAt::Record(header) => RecordAt::Record(header),
                    _ => return Err(error),
                },
            },
        };
        match found {
            RecordAt::Record(header) if header.kind == RecordKind::Operations => {
                self.at += padded(RECORD_HEADER_BYTES + header.payload_bytes as usize) as u64;
                self.next_ordinal += 1;
                Ok(Some(LogRecord {
                    log: self.header.map_or(0, |h| h.number),
                    ordinal: self.next_ordinal - 1,
                    first_seqno: self.start.map_or(0, |s| s.first_seqno) + u64::from(header.seqno),
                    durable_bytes: header.durable_bytes,
                    payload: &self.record[RECORD_HEADER_BYTES..],
                    offset_bytes: offset,
                }))
            }
            RecordAt::Record(header) => {
                self.end = Some(self.end_at_marker(header.kind));
                Ok(None)
            }
            RecordAt::Nothing => {
                self.end = Some(LogEnd::Clean);
                Ok(None)
            }
            RecordAt::Bad => {
                let dropped_bytes = self.len_bytes.saturating_sub(offset);
                self.end = Some(LogEnd::Torn { offset_bytes: offset, dropped_bytes });
                Ok(None)
            }
        }
    }

    /// Does [`LogReader::read_expected`] with the file's present content.
    fn read_again(&mut self, offset: u64) -> Result<RecordAt> {
        self.window.clear();
        self.read_expected(offset)
    }

    /// Does [`LogReader::read_record`] for the expected record. A record that does not continue the
    /// previous one is bad. The sync marker counts as nothing.
    fn read_expected(&mut self, offset: u64) -> Result<RecordAt> {
        let found = self.read_record(offset, true)?;
        self.at_synced = false;
        let RecordAt::Record(header) = found else { return Ok(found) };
        if self.ordinal(&header) != self.next_ordinal {
            return Ok(RecordAt::Bad);
        }
        self.at_synced = header.kind == RecordKind::Synced;
        Ok(if self.at_synced { RecordAt::Nothing } else { RecordAt::Record(header) })
    }

    /// Returns the kind of end for the marker that was just read.
    fn end_at_marker(&self, kind: RecordKind) -> LogEnd {
        let number = self.record.get(RECORD_HEADER_BYTES..).and_then(|b| Reader::new(b).u64());
        match number {
            Some(number) if kind == RecordKind::Continued => LogEnd::Continued { number },
            _ => LogEnd::Closed,
        }
    }

    /// Returns a record's ordinal among all records of all logs.
    fn ordinal(&self, header: &RecordHeader) -> u64 {
        self.start.map_or(0, |s| s.first_ordinal) + u64::from(header.ordinal)
    }

    /// Reads the record at `offset` into `self.record`. `in_order` states that the records behind it are
    /// read next.
    fn read_record(&mut self, offset: u64, in_order: bool) -> Result<RecordAt> {
        let left = self.len_bytes.saturating_sub(offset);
        if left == 0 {
            return Ok(RecordAt::Nothing);
        }
        let head = left.min(RECORD_HEADER_BYTES as u64) as usize;
        self.record.resize(head, 0);
        self.read(offset, 0, in_order)?;
        if self.record.iter().all(|b| *b == 0) {
            return Ok(RecordAt::Nothing);
        }
        if head < RECORD_HEADER_BYTES {
            return Ok(RecordAt::Bad);
        }
        let Some(header) = RecordHeader::decode(&self.record) else { return Ok(RecordAt::Bad) };
        let whole = RECORD_HEADER_BYTES as u64 + u64::from(header.payload_bytes);
        if whole > left {
            return Ok(RecordAt::Bad);
        }
        self.record.resize(whole as usize, 0);
        self.read(offset + RECORD_HEADER_BYTES as u64, RECORD_HEADER_BYTES, in_order)?;
        let generation = self.header.map_or(0, |h| h.generation);
        if record_checksum(&self.record[8..], generation, offset) != header.checksum {
            return Ok(RecordAt::Bad);
        }
        Ok(RecordAt::Record(header))
    }

    /// Fills `self.record[from..]` with the bytes at `offset`.
    fn read(&mut self, offset: u64, from: usize, in_order: bool) -> Result<()> {
        let len = self.record.len() - from;
        if !in_order || len > READ_WINDOW_BYTES / 2 {
            let read = read_or_zeros(&*self.file, &mut self.record[from..], offset);
            return read.map_err(|e| Error::io(&self.path, "read the log", e));
        }
        if self.window.part(offset, len).is_none() {
            // The caller has checked that the file has the wanted bytes.
            let left = self.len_bytes.saturating_sub(offset).max(len as u64);
            let mut bytes = std::mem::take(&mut self.window.bytes);
            self.read_window(&mut bytes, offset, left.min(READ_WINDOW_BYTES as u64) as usize)?;
            self.window = Window { start: offset, bytes };
        }
        if let Some(part) = self.window.part(offset, len) {
            self.record[from..].copy_from_slice(part);
        }
        Ok(())
    }

    fn read_window(&self, window: &mut Vec<u8>, start: u64, len: usize) -> Result<()> {
        window.resize(len, 0);
        let read = read_or_zeros(&*self.file, window, start);
        read.map_err(|e| Error::io(&self.path, "read the log", e))
    }

    /// Reports whether nonzero bytes follow the end of a log that is [`LogEnd::Clean`]. They are
    /// the remains of records whose beginning was lost.
    ///
    /// # Errors
    /// `Io`.
    pub fn has_bytes_behind_end(&self) -> Result<bool> {
        let marker_bytes = if self.at_synced { RECORD_HEADER_BYTES as u64 } else { 0 };
        Ok(self.end == Some(LogEnd::Clean) && self.has_bytes_from(self.at + marker_bytes)?)
    }

    /// Reports whether a nonzero byte follows the header.
    pub fn has_bytes_behind_header(&self) -> Result<bool> {
        self.has_bytes_from(HEADER_BYTES as u64)
    }

    fn has_bytes_from(&self, mut start: u64) -> Result<bool> {
        let mut window = Vec::new();
        while start < self.len_bytes {
            let len = (self.len_bytes - start).min(SCAN_WINDOW_BYTES as u64) as usize;
            self.read_window(&mut window, start, len)?;
            if window.iter().any(|b| *b != 0) {
                return Ok(true);
            }
            start += len as u64;
        }
        Ok(false)
    }

    /// Returns an error if a record after the bad one at `bad` states that the bad one was durable.
    /// Such a record has an ordinal of at least `ordinal_min`.
    fn check_not_durable(&mut self, bad: u64, ordinal_min: u64) -> Result<()> {
        let wanted = self.next_ordinal;
        let durable = |header: &RecordHeader| header.durable_bytes > bad;
        let Some((_, witness)) = self.find_record(bad, ordinal_min, durable)? else {
            return Ok(());
        };
        let message = format!(
            "expected record {wanted} to be whole, because record {} proves that all bytes before \
             byte {} were durable; the log is damaged, `repair` keeps the readable data",
            self.ordinal(&witness),
            witness.durable_bytes
        );
        Err(Error::corruption(&self.path, bad, message))
    }

    /// Continues after the bad record at which [`LogReader::next`] stopped, with the next record
    /// whose checksum holds. Returns `false` when there is none. For salvage: the bytes between are
    /// lost.
    ///
    /// # Errors
    /// `Io`.
    pub fn skip_bad(&mut self) -> Result<bool> {
        let at_marker = matches!(self.end, Some(LogEnd::Closed | LogEnd::Continued { .. }));
        if self.start.is_none() || at_marker {
            return Ok(false);
        }
        let any = |_: &RecordHeader| true;
        let Some((offset, header)) = self.find_record(self.at, self.next_ordinal, any)? else {
            return Ok(false);
        };
        (self.at, self.next_ordinal, self.end) = (offset, self.ordinal(&header), None);
        Ok(true)
    }

    /// Returns the first record after `bad` that satisfies `wanted` and has an ordinal of at least
    /// `ordinal_min`, with its offset. Reads the rest of the file once, in windows.
    fn find_record(
        &mut self,
        bad: u64,
        ordinal_min: u64,
        wanted: impl Fn(&RecordHeader) -> bool,
    ) -> Result<Option<(u64, RecordHeader)>> {
        // A crafted file could look like records that overlap everywhere. Hashing each would take
        // forever. When the limit is exceeded, the file is treated as damaged: no crash leaves such
        // a file.
        let mut hash_bytes_left = self.len_bytes.saturating_mul(4);
        let mut window = Vec::new();
        let mut start = (bad + ALIGN_BYTES as u64).max(HEADER_BYTES as u64);
        while start + RECORD_HEADER_BYTES as u64 <= self.len_bytes {
            let len = (self.len_bytes - start).min(SCAN_WINDOW_BYTES as u64) as usize;
            self.read_window(&mut window, start, len)?;
            let last = len - RECORD_HEADER_BYTES;
            // The preallocated part of a memory-mapped log.
            let nothing = window.iter().all(|b| *b == 0);
            for at in (0..if nothing { 0 } else { last + 1 }).step_by(ALIGN_BYTES) {
                let offset = start + at as u64;
                let head = RecordHeader::decode(&window[at..at + RECORD_HEADER_BYTES]);
                let Some(header) = head.filter(|h| {
                    self.ordinal(h) >= ordinal_min
                        && wanted(h)
                        && h.could_be_at(offset, self.len_bytes)
                }) else {
                    continue;
                };
                let cost = RECORD_HEADER_BYTES as u64 + u64::from(header.payload_bytes);
                let Some(left) = hash_bytes_left.checked_sub(cost) else {
                    return Ok(Some((offset, header)));
                };
                hash_bytes_left = left;
                if let RecordAt::Record(header) = self.read_record(offset, false)? {
                    return Ok(Some((offset, header)));
                }
            }
            start += (last / ALIGN_BYTES * ALIGN_BYTES + ALIGN_BYTES) as u64;
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

    use super::*;
    use crate::fs::MemFs;
    use crate::wal::LogWriter;

    /// Counts the bytes read.
    struct Counting(Arc<dyn ReadableFile>, Arc<AtomicU64>);

    impl ReadableFile for Counting {
        fn read_exact_at(&self, buf: &mut [u8], offset_bytes: u64) -> io::Result<()> {
            self.1.fetch_add(buf.len() as u64, Relaxed);
            self.0.read_exact_at(buf, offset_bytes)
        }

        fn len_bytes(&self) -> io::Result<u64> {
            self.0.len_bytes()
        }
    }

    #[test]
    fn data_after_bad_record_is_scanned_once() {
        let (fs, path) = (MemFs::new(), Path::new("/7.wal"));
        let header = FileHeader { number: 7, generation: 1 };
        let start = LogStart { first_ordinal: 0, first_seqno: 1, durable_ordinal: 0 };
        let mut log = LogWriter::create(&*fs, path, header, start, false).unwrap();
        log.append(1, b"whole").unwrap();
        for tail in [1, 30, 70_000, 300_001] {
            let whole = log.len_bytes();
            fs.open_write(path).unwrap().write_at(&vec![0x55; tail], whole).unwrap();
            let mut reader = LogReader::open(&*fs, path, 7).unwrap();
            let read = Arc::new(AtomicU64::new(0));
            reader.file = Arc::new(Counting(reader.file.clone(), read.clone()));
            assert_eq!(reader.next().unwrap().unwrap().payload, b"whole");
            assert!(reader.next().unwrap().is_none());
            assert!(matches!(reader.end(), Some(LogEnd::Torn { .. })));
            let len = whole + tail as u64;
            let windows = 1 + len / SCAN_WINDOW_BYTES as u64;
            // Windows overlap by the possible beginning of a record's header.
            // The records are read once in order, and what follows them once by the search.
            let most = 2 * len + (windows + 2) * RECORD_HEADER_BYTES as u64;
            assert!(read.load(Relaxed) <= most, "{} of {len}", read.load(Relaxed));
        }
    }

    /// A file that returns zeros in place of the bytes after `from` on their first read.
    struct Late(Arc<dyn ReadableFile>, u64, AtomicU64);

    impl ReadableFile for Late {
        fn read_exact_at(&self, buf: &mut [u8], offset_bytes: u64) -> io::Result<()> {
            self.0.read_exact_at(buf, offset_bytes)?;
            let end = offset_bytes + buf.len() as u64;
            if offset_bytes <= self.1 && self.1 < end && self.2.fetch_add(1, Relaxed) == 0 {
                buf[(self.1 - offset_bytes) as usize..].fill(0);
            }
            Ok(())
        }

        fn len_bytes(&self) -> io::Result<u64> {
            self.0.len_bytes()
        }
    }

    #[test]
    fn concurrent_append_is_not_corruption() {
        let (fs, path) = (MemFs::new(), Path::new("/7.wal"));
        let header = FileHeader { number: 7, generation: 1 };
        let start = LogStart { first_ordinal: 0, first_seqno: 1, durable_ordinal: 0 };
        let mut log = LogWriter::create(&*fs, path, header, start, false).unwrap();
        log.append(1, b"one").unwrap();
        let second = log.len_bytes();
        log.append(2, b"two").unwrap();
        log.sync().unwrap();
        let mut reader = LogReader::open(&*fs, path, 7).unwrap();
        reader.file = Arc::new(Late(reader.file.clone(), second, AtomicU64::new(0)));
        assert_eq!(reader.next().unwrap().unwrap().payload, b"one");
        assert_eq!(reader.next().unwrap().unwrap().payload, b"two");
        assert!(reader.next().unwrap().is_none());
        assert_eq!(reader.end(), Some(LogEnd::Clean));
    }
}
