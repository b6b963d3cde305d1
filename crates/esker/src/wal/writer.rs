//! Appending to a log.
//!
//! What stays true: a record is one append, a copy into the mapped file or one `write`, whole or
//! refused; after a refused write the file is cut back to its last record, so that a full device does
//! not leave half a record behind. The mark of a sync is written after the sync came back well and
//! before the next record, so where it stands all before it is durable.

use std::path::{Path, PathBuf};

use super::format::{
    BEGUN_LOG_BYTES, FileHeader, HEADER_BYTES, LogStart, PAYLOAD_BYTES_MAX, RecordHeader,
    RecordKind,
};
use crate::base::key::SeqNo;
use crate::error::{Error, ErrorKind, Result};
use crate::fs::{Fs, WritableFile};

/// Scratch larger than this is given back after a record.
const SCRATCH_BYTES_MAX: usize = 1 << 20;
/// A log this long is full: its records' fields count to twice as much.
const LEN_BYTES_MAX: u64 = 1 << 34;
/// A log with this many records or operations is full.
const COUNT_MAX: u64 = 1 << 31;

/// The writing end of a log.
pub struct LogWriter {
    file: Box<dyn WritableFile>,
    path: PathBuf,
    header: FileHeader,
    start: LogStart,
    next_ordinal: u64,
    /// The first sequence number of the last record.
    last_seqno: SeqNo,
    len_bytes: u64,
    synced_bytes: u64,
    durable_ordinal: u64,
    /// Of what no write call carried, how many bytes were told of.
    mapped_told_bytes: u64,
    /// Whether the mark that ends it was written.
    ended: bool,
    scratch: Vec<u8>,
}

impl LogWriter {
    /// Creates a log with its header, in a mapped file where the file system has them and `mapped`
    /// asks for it. The header is synced, so that whoever reads the log can tell a crash during
    /// its creation from damage; the name is not yet. [`LogWriter::begin`] comes before any record.
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
            mapped_told_bytes: 0,
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

    /// Writes the mark that says where the log goes on; it is as durable as a record.
    ///
    /// # Errors
    /// As [`LogWriter::append`]; the log is of no use then.
    pub fn begin(&mut self, start: LogStart) -> Result<()> {
        self.start = start;
        self.next_ordinal = start.first_ordinal;
        self.last_seqno = start.first_seqno;
        self.durable_ordinal = start.durable_ordinal;
        self.scratch.clear();
        self.encode(self.next_ordinal, self.last_seqno, RecordKind::Begun, &start.encode())?;
        self.write_scratch()
    }

    /// [`LogWriter::prepare`] and [`LogWriter::begin`].
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

    /// Appends one record, whose first operation has `first_seqno`.
    ///
    /// # Errors
    /// `NoSpace` when the device is full and the log was cut back to where it was; `Io` else, and
    /// then what is in the file is unknown.
    pub fn append(&mut self, first_seqno: SeqNo, payload: &[u8]) -> Result<()> {
        self.append_group(&[(first_seqno, payload)])
    }

    /// Appends several records at once.
    ///
    /// # Errors
    /// As [`LogWriter::append`]; either all records are in the log or none.
    pub fn append_group(&mut self, records: &[(SeqNo, &[u8])]) -> Result<()> {
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

    /// Puts a record into the scratch.
    fn encode(
        &mut self,
        ordinal: u64,
        seqno: SeqNo,
        kind: RecordKind,
        payload: &[u8],
    ) -> Result<()> {
        let narrow = |number: u64| u32::try_from(number).ok();
        let (Some(ordinal), Some(seqno), Some(payload_bytes)) = (
            narrow(ordinal - self.start.first_ordinal),
            narrow(seqno.saturating_sub(self.start.first_seqno)),
            narrow(payload.len() as u64).filter(|bytes| *bytes <= PAYLOAD_BYTES_MAX),
        ) else {
            let message = "a log record takes less than 4 GiB and a log less than 2^32 operations";
            return Err(Error::invalid(message).at(&self.path));
        };
        let header = RecordHeader {
            checksum: 0,
            payload_bytes,
            kind,
            durable_bytes: self.synced_bytes,
            ordinal,
            seqno,
        };
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
        let Err(error) = written else {
            self.len_bytes += len;
            return Ok(());
        };
        let error = Error::io(&self.path, "append to the log", error);
        if self.file.set_len(self.len_bytes).is_err() {
            let message = format!("cannot cut the log back after a failed append ({error})");
            return Err(Error::new(ErrorKind::Io, message).at(&self.path));
        }
        if self.synced_bytes == self.len_bytes && self.has_records() {
            self.mark_synced();
        }
        Err(error)
    }

    /// Writes the mark of a sync behind the last record, where the next one goes over it. It is not
    /// synced: a crash of the kernel may leave it or not, and that of the process leaves it. Nothing
    /// depends on it, so a failure is nobody's.
    fn mark_synced(&mut self) {
        self.scratch.clear();
        let seqno = self.start.first_seqno;
        if self.encode(self.next_ordinal, seqno, RecordKind::Synced, &[]).is_ok() {
            let _ = self.file.write_behind_end(&self.scratch);
        }
    }

    /// Makes every record so far durable. Older logs are synced before.
    ///
    /// # Errors
    /// `Io`; the log must not be used again, since the kernel may have dropped what it could not
    /// write (Rebello et al., "Can Applications Recover from fsync Failures?", USENIX ATC 2020).
    pub fn sync(&mut self) -> Result<()> {
        self.file.sync().map_err(|e| {
            // Whatever the cause, unsynced records are lost: never "try again later".
            let message = format!("cannot sync the log: {e}");
            Error::new(ErrorKind::Io, message).at(&self.path)
        })?;
        self.synced_bytes = self.len_bytes;
        self.durable_ordinal = self.next_ordinal;
        if !self.ended {
            self.mark_synced();
        }
        Ok(())
    }

    /// Ends the log with the mark that the log `number`, whose header and name are durable, goes on
    /// from here: without that log, this one is not whole. It takes no record after it.
    ///
    /// # Errors
    /// As [`LogWriter::append`]; after `NoSpace` there is no mark.
    pub fn continue_in(&mut self, number: u64) -> Result<()> {
        self.scratch.clear();
        let payload = number.to_le_bytes();
        let seqno = self.start.first_seqno;
        self.encode(self.next_ordinal, seqno, RecordKind::Continued, &payload)?;
        self.write_scratch()?;
        self.ended = true;
        Ok(())
    }

    /// Ends the log with the mark of a clean close.
    pub fn close(mut self) -> Result<()> {
        self.scratch.clear();
        let seqno = self.start.first_seqno;
        self.encode(self.next_ordinal, seqno, RecordKind::Closed, &[])?;
        self.write_scratch()?;
        // A mapped file is longer than its log.
        let io = |e| Error::io(&self.path, "end the log", e);
        self.file.set_len(self.len_bytes).map_err(io)
    }

    /// Whether the next record belongs into another log.
    pub fn is_full(&self) -> bool {
        self.len_bytes > LEN_BYTES_MAX
            || self.next_ordinal - self.start.first_ordinal > COUNT_MAX
            || self.last_seqno - self.start.first_seqno > COUNT_MAX
    }

    /// Whether anything was appended.
    pub fn has_records(&self) -> bool {
        self.len_bytes > BEGUN_LOG_BYTES
    }

    /// The log's number.
    pub fn number(&self) -> u64 {
        self.header.number
    }

    /// Bytes in the log.
    pub fn len_bytes(&self) -> u64 {
        self.len_bytes
    }

    /// Bytes that no write call carried, see [`WritableFile::mapped_bytes`], since this was last
    /// asked.
    pub fn take_mapped_bytes(&mut self) -> u64 {
        let before = std::mem::replace(&mut self.mapped_told_bytes, self.file.mapped_bytes());
        self.mapped_told_bytes - before
    }

    /// Bytes of it known to be durable.
    pub fn synced_bytes(&self) -> u64 {
        self.synced_bytes
    }

    /// Every record with a smaller ordinal, in this log and older ones, is durable.
    pub fn durable_ordinal(&self) -> u64 {
        self.durable_ordinal
    }

    /// The ordinal the next record gets.
    pub fn next_ordinal(&self) -> u64 {
        self.next_ordinal
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fs::mem::MemFs;

    #[test]
    fn the_memory_of_a_large_record_is_given_back_and_that_of_small_ones_kept() {
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
        assert!(log.has_records() && log.synced_bytes() < log.len_bytes());
    }
}
