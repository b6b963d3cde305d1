//! Appends to a log.
//!
//! Invariants:
//! 1. A record is one append: a copy into the memory-mapped file, or one `write`. It is complete or
//!    refused. A large record is three appends, so that it need not be copied.
//! 2. After a refused write the file is truncated to its last record, so that a full device leaves
//!    no partial record.
//! 3. The sync marker is written after the sync succeeded and before the next record. Everything
//!    before the marker is therefore durable.

use std::path::{Path, PathBuf};

use super::format::{
    ALIGN_BYTES, BEGUN_LOG_BYTES, FileHeader, HEADER_BYTES, LogStart, PAYLOAD_BYTES_MAX,
    RecordHeader, RecordKind, padded,
};
use crate::base::key::SeqNo;
use crate::error::{Error, ErrorKind, Result};
use crate::fs::{Fs, WritableFile};

/// Maximum scratch buffer that is kept after a record, in bytes.
const SCRATCH_BYTES_MAX: usize = 1 << 20;
/// Length at which a log is full, in bytes. The fields of its records can count to twice as much.
const LEN_BYTES_MAX: u64 = 1 << 34;
/// Number of records or operations at which a log is full.
const COUNT_MAX: u64 = 1 << 31;

/// Writer of a log.
pub struct LogWriter {
    file: Box<dyn WritableFile>,
    path: PathBuf,
    header: FileHeader,
    start: LogStart,
    next_ordinal: u64,
    /// First sequence number of the last record.
    last_seqno: SeqNo,
    len_bytes: u64,
    synced_bytes: u64,
    durable_ordinal: u64,
    /// Part of the memory-mapped bytes that was already reported.
    reported_mapped_bytes: u64,
    /// Whether the marker that ends the log was written.
    ended: bool,
    scratch: Vec<u8>,
}

impl LogWriter {
    /// Creates a log with its header. With `mapped`, the file is memory-mapped if the file system
    /// supports it. The header is synced, so that a reader can distinguish a crash during the
    /// creation from damage. The file's name is not synced yet. [`LogWriter::begin`] must precede
    /// any record.
    pub fn prepare(
        fs: &dyn Fs,
        path: &Path,
        header: FileHeader,
        mapped: bool,
    ) -> Result<LogWriter> {
        let file = if mapped { fs.create_mapped(path) } else { fs.create_new(path) };
        let mut writer = LogWriter {
            file: file.map_err(|e| Error::io(path, "create the log", e))?,
            path: path.to_path_buf(),
            header,
            start: LogStart { first_ordinal: 0, first_seqno: 0, durable_ordinal: 0 },
            next_ordinal: 0,
            last_seqno: 0,
            len_bytes: HEADER_BYTES as u64,
            synced_bytes: HEADER_BYTES as u64,
            durable_ordinal: 0,
            reported_mapped_bytes: 0,
            ended: false,
            scratch: Vec::new(),
        };
        let written = writer.file.append(&header.encode()).and_then(|()| writer.file.sync());
        if let Err(error) = written {
            let _ = fs.remove(path);
            return Err(Error::io(path, "write the log's header", error));
        }
        Ok(writer)
    }

    /// Writes the start marker. It is as durable as a record.
    ///
    /// # Errors
    /// As [`LogWriter::append`]. The log is unusable after an error.
    pub fn begin(&mut self, start: LogStart) -> Result<()> {
        self.start = start;
        self.next_ordinal = start.first_ordinal;
        self.last_seqno = start.first_seqno;
        self.durable_ordinal = start.durable_ordinal;
        self.scratch.clear();
        self.encode(self.next_ordinal, self.last_seqno, RecordKind::Begun, &start.encode())?;
        self.write_scratch()
    }

    /// Does [`LogWriter::prepare`] and [`LogWriter::begin`].
    pub fn create(
        fs: &dyn Fs,
        path: &Path,
        header: FileHeader,
        start: LogStart,
        mapped: bool,
    ) -> Result<LogWriter> {
        let mut log = LogWriter::prepare(fs, path, header, mapped)?;
        if let Err(error) = log.begin(start) {
            let _ = fs.remove(path);
            return Err(error);
        }
        Ok(log)
    }

    /// Appends one record. Its first operation has the sequence number `first_seqno`.
    ///
    /// # Errors
    /// `NoSpace` when the device is full and the log was truncated to its previous length. `Io`
    /// otherwise; the content of the file is then unknown.
    pub fn append(&mut self, first_seqno: SeqNo, payload: &[u8]) -> Result<()> {
        self.append_group(&[(first_seqno, payload)])
    }

    /// Appends several records at once.
    ///
    /// # Errors
    /// As [`LogWriter::append`]. Either all records are in the log or none.
    pub fn append_group(&mut self, records: &[(SeqNo, &[u8])]) -> Result<()> {
        if let [(first_seqno, payload)] = records
            && payload.len() > SCRATCH_BYTES_MAX
        {
            return self.append_large(*first_seqno, payload);
        }
        self.scratch.clear();
        let mut ordinal = self.next_ordinal;
        for (first_seqno, payload) in records {
            self.encode(ordinal, *first_seqno, RecordKind::Operations, payload)?;
            ordinal += 1;
        }
        self.write_scratch()?;
        self.last_seqno = records.last().map_or(self.last_seqno, |(seqno, _)| *seqno);
        self.next_ordinal = ordinal;
        Ok(())
    }

    /// Appends a record without a copy of its payload.
    fn append_large(&mut self, first_seqno: SeqNo, payload: &[u8]) -> Result<()> {
        let header =
            self.record_header(self.next_ordinal, first_seqno, RecordKind::Operations, payload)?;
        let head = header.encode(payload, self.header.generation, self.len_bytes);
        let whole = head.len() + payload.len();
        let padding = &[0; ALIGN_BYTES][..padded(whole) - whole];
        let parts = [&head[..], payload, padding];
        let written = parts.iter().try_for_each(|part| self.file.append(part));
        self.note_written(padded(whole) as u64, written)?;
        self.last_seqno = first_seqno;
        self.next_ordinal += 1;
        Ok(())
    }

    /// Returns the header of a record without its checksum.
    fn record_header(
        &self,
        ordinal: u64,
        seqno: SeqNo,
        kind: RecordKind,
        payload: &[u8],
    ) -> Result<RecordHeader> {
        let narrow = |number: u64| u32::try_from(number).ok();
        let (Some(ordinal), Some(seqno), Some(payload_bytes)) = (
            narrow(ordinal - self.start.first_ordinal),
            narrow(seqno.saturating_sub(self.start.first_seqno)),
            narrow(payload.len() as u64).filter(|bytes| *bytes <= PAYLOAD_BYTES_MAX),
        ) else {
            let message = "a log record must be smaller than 4 GiB, and a log must hold fewer than \
                           2^32 operations";
            return Err(Error::invalid(message).with_path(&self.path));
        };
        Ok(RecordHeader {
            checksum: 0,
            payload_bytes,
            kind,
            durable_bytes: self.synced_bytes,
            ordinal,
            seqno,
        })
    }

    /// Appends a record to the scratch buffer.
    fn encode(
        &mut self,
        ordinal: u64,
        seqno: SeqNo,
        kind: RecordKind,
        payload: &[u8],
    ) -> Result<()> {
        let header = self.record_header(ordinal, seqno, kind, payload)?;
        let offset = self.len_bytes + self.scratch.len() as u64;
        header.append_to(&mut self.scratch, payload, self.header.generation, offset);
        Ok(())
    }

    fn write_scratch(&mut self) -> Result<()> {
        let written = self.file.append(&self.scratch);
        let len = self.scratch.len() as u64;
        if self.scratch.capacity() > SCRATCH_BYTES_MAX {
            self.scratch = Vec::new();
        }
        self.note_written(len, written)
    }

    /// Counts `len` appended bytes, or truncates the log to its previous length after an error.
    fn note_written(&mut self, len: u64, written: std::io::Result<()>) -> Result<()> {
        let Err(error) = written else {
            self.len_bytes += len;
            return Ok(());
        };
        let error = Error::io(&self.path, "append to the log", error);
        if self.file.set_len(self.len_bytes).is_err() {
            let message = format!("cannot truncate the log after a failed append ({error})");
            return Err(Error::new(ErrorKind::Io, message).with_path(&self.path));
        }
        if self.synced_bytes == self.len_bytes && self.has_records() {
            self.mark_synced();
        }
        Err(error)
    }

    /// Writes the sync marker after the last record. The next record overwrites it. The marker is
    /// not synced: it may or may not survive a crash of the kernel, and it survives a crash of the
    /// process. Nothing depends on it, so a failure is ignored.
    fn mark_synced(&mut self) {
        self.scratch.clear();
        let seqno = self.start.first_seqno;
        if self.encode(self.next_ordinal, seqno, RecordKind::Synced, &[]).is_ok() {
            let _ = self.file.write_behind_end(&self.scratch);
        }
    }

    /// Makes all records durable. The caller syncs older logs first.
    ///
    /// # Errors
    /// `Io`. The log must not be used again, because the kernel may have dropped the data that it
    /// could not write (Rebello et al., "Can Applications Recover from fsync Failures?", USENIX ATC
    /// 2020).
    pub fn sync(&mut self) -> Result<()> {
        self.file.sync().map_err(|e| {
            // With any cause the unsynced records are lost, so the error must not suggest a retry.
            let message = format!("cannot sync the log: {e}");
            Error::new(ErrorKind::Io, message).with_path(&self.path)
        })?;
        self.synced_bytes = self.len_bytes;
        self.durable_ordinal = self.next_ordinal;
        if !self.ended {
            self.mark_synced();
        }
        Ok(())
    }

    /// Ends the log with the continuation marker: the log `number` continues it. The header and
    /// name of that log are durable. Without that log, this one is incomplete. No record may
    /// follow.
    ///
    /// # Errors
    /// As [`LogWriter::append`]. After `NoSpace` there is no marker.
    pub fn mark_continued(&mut self, number: u64) -> Result<()> {
        self.scratch.clear();
        let payload = number.to_le_bytes();
        let seqno = self.start.first_seqno;
        self.encode(self.next_ordinal, seqno, RecordKind::Continued, &payload)?;
        self.write_scratch()?;
        self.ended = true;
        Ok(())
    }

    /// Ends the log with the clean-close marker.
    pub fn close(mut self) -> Result<()> {
        self.scratch.clear();
        let seqno = self.start.first_seqno;
        self.encode(self.next_ordinal, seqno, RecordKind::Closed, &[])?;
        self.write_scratch()?;
        // A memory-mapped file is longer than its log.
        let io = |e| Error::io(&self.path, "truncate the log to its last record", e);
        self.file.set_len(self.len_bytes).map_err(io)
    }

    /// Returns true if the next record must go to another log.
    pub fn is_full(&self) -> bool {
        self.len_bytes > LEN_BYTES_MAX
            || self.next_ordinal - self.start.first_ordinal > COUNT_MAX
            || self.last_seqno - self.start.first_seqno > COUNT_MAX
    }

    /// Returns true if the log has records.
    pub fn has_records(&self) -> bool {
        self.len_bytes > BEGUN_LOG_BYTES
    }

    /// Returns the log's number.
    pub fn number(&self) -> u64 {
        self.header.number
    }

    /// Returns the length of the log, in bytes.
    pub fn len_bytes(&self) -> u64 {
        self.len_bytes
    }

    /// Returns the number of memory-mapped bytes ([`WritableFile::mapped_bytes`]) since the
    /// previous call.
    pub fn take_mapped_bytes(&mut self) -> u64 {
        let before = std::mem::replace(&mut self.reported_mapped_bytes, self.file.mapped_bytes());
        self.reported_mapped_bytes - before
    }

    /// Returns the length of the log that is known to be durable, in bytes.
    pub fn synced_bytes(&self) -> u64 {
        self.synced_bytes
    }

    /// Returns the durable ordinal. Every record with a smaller ordinal, in this log and older
    /// ones, is durable.
    pub fn durable_ordinal(&self) -> u64 {
        self.durable_ordinal
    }

    /// Returns the ordinal of the next record.
    pub fn next_ordinal(&self) -> u64 {
        self.next_ordinal
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fs::MemFs;

    #[test]
    fn large_record_buffer_is_freed_and_small_one_kept() {
        let (fs, path) = (MemFs::new(), Path::new("/7.wal"));
        let header = FileHeader { number: 7, generation: 1 };
        let start = LogStart { first_ordinal: 0, first_seqno: 1, durable_ordinal: 0 };
        let mut log = LogWriter::create(&*fs, path, header, start, false).unwrap();
        log.append(1, &[1; 1000]).unwrap();
        let kept = log.scratch.as_ptr();
        log.append(2, &[2; 1000]).unwrap();
        assert!(log.scratch.capacity() >= 1000 && log.scratch.as_ptr() == kept);
        log.append(3, &vec![3; SCRATCH_BYTES_MAX]).unwrap();
        assert_eq!(log.scratch.capacity(), 0);
        // A larger record is not copied, and reads back as if it had been.
        for more in 1..10 {
            let payload = vec![more as u8; SCRATCH_BYTES_MAX + more];
            log.append(3 + more as u64, &payload).unwrap();
            assert!(log.scratch.capacity() < 1000);
        }
        log.append(13, b"small").unwrap();
        let mut reader = crate::wal::LogReader::open(&*fs, path, 7).unwrap();
        let mut lengths = Vec::new();
        while let Some(record) = reader.next().unwrap() {
            let byte = record.payload[0];
            assert!(record.payload.len() == 5 || record.payload.iter().all(|b| *b == byte));
            lengths.push(record.payload.len());
        }
        let large = (0..10).map(|more| SCRATCH_BYTES_MAX + more);
        assert_eq!(lengths, [1000, 1000].into_iter().chain(large).chain([5]).collect::<Vec<_>>());
        assert_eq!(reader.at_bytes(), log.len_bytes());
        assert!(log.has_records() && log.synced_bytes() < log.len_bytes());
    }
}
