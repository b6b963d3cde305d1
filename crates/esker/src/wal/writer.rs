//! Appending to a log.
//!
//! What stays true: a record is one `write`, whole or refused; after a refused write the file is
//! cut back to its last record, so that a full device does not leave half a record behind.

use std::path::{Path, PathBuf};

use super::format::{FileHeader, HEADER_BYTES, KIND_CLOSED, KIND_OPERATIONS, RecordHeader};
use crate::base::key::SeqNo;
use crate::error::{Error, ErrorKind, Result};
use crate::fs::{Fs, WritableFile};

/// Scratch larger than this is given back after a record.
const SCRATCH_BYTES_MAX: usize = 1 << 20;

/// The writing end of a log.
pub struct LogWriter {
    file: Box<dyn WritableFile>,
    path: PathBuf,
    header: FileHeader,
    next_ordinal: u64,
    len_bytes: u64,
    synced_bytes: u64,
    scratch: Vec<u8>,
}

impl LogWriter {
    /// Creates a log with its header. Neither contents nor name are synced yet.
    pub fn create(
        fs: &dyn Fs,
        path: &Path,
        number: u64,
        generation: u64,
        first_ordinal: u64,
    ) -> Result<LogWriter> {
        let file = fs.create_new(path).map_err(|e| Error::io(path, "create the log", e))?;
        let header = FileHeader { number, generation, first_ordinal };
        let mut writer = LogWriter {
            file,
            path: path.to_path_buf(),
            header,
            next_ordinal: first_ordinal,
            len_bytes: HEADER_BYTES as u64,
            synced_bytes: 0,
            scratch: Vec::new(),
        };
        if let Err(error) = writer.file.append(&header.encode()) {
            let _ = fs.remove(path);
            return Err(Error::io(path, "write the log's header", error));
        }
        Ok(writer)
    }

    /// Appends one record of `count` operations.
    ///
    /// # Errors
    /// `NoSpace` when the device is full and the log was cut back to where it was; `Io` else, and
    /// then what is in the file is unknown.
    pub fn append(&mut self, first_seqno: SeqNo, count: u32, payload: &[u8]) -> Result<()> {
        self.append_group(&[(first_seqno, count, payload)])
    }

    /// Appends several records with one `write`.
    ///
    /// # Errors
    /// As [`LogWriter::append`]; either all records are in the log or none.
    pub fn append_group(&mut self, records: &[(SeqNo, u32, &[u8])]) -> Result<()> {
        self.scratch.clear();
        let mut ordinal = self.next_ordinal;
        for (first_seqno, count, payload) in records {
            self.encode(KIND_OPERATIONS, ordinal, *first_seqno, *count, payload)?;
            ordinal += 1;
        }
        self.write_scratch()?;
        self.next_ordinal = ordinal;
        Ok(())
    }

    fn encode(
        &mut self,
        kind: u32,
        ordinal: u64,
        first_seqno: SeqNo,
        count: u32,
        payload: &[u8],
    ) -> Result<()> {
        let payload_bytes = u32::try_from(payload.len())
            .map_err(|_| Error::invalid("a log record takes less than 4 GiB").at(&self.path))?;
        let header = RecordHeader {
            checksum: 0,
            payload_bytes,
            count,
            ordinal,
            durable_bytes: self.synced_bytes,
            first_seqno,
            kind,
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
        Err(error)
    }

    /// Makes every record so far durable.
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
        Ok(())
    }

    /// Ends the log with the mark of a clean close.
    pub fn close(mut self) -> Result<()> {
        self.scratch.clear();
        self.encode(KIND_CLOSED, self.next_ordinal, 0, 0, &[])?;
        self.write_scratch()
    }

    /// The log's number.
    pub fn number(&self) -> u64 {
        self.header.number
    }

    /// Bytes in the log.
    pub fn len_bytes(&self) -> u64 {
        self.len_bytes
    }

    /// Bytes of it known to be durable.
    pub fn synced_bytes(&self) -> u64 {
        self.synced_bytes
    }

    /// The ordinal the next record gets.
    pub fn next_ordinal(&self) -> u64 {
        self.next_ordinal
    }
}
