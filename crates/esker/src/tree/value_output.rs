//! Writes the values of an output to value files, and moves values out of value files that have too
//! much garbage.
//!
//! Invariants: a value file is durable when [`ValueOutput::finish`] has returned, which is before a
//! table that points to it is part of a version. Only plain puts are separated: operands, and puts
//! that expire, stay in their table. A value that cannot be moved because it is damaged stays where it is.

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;

use super::names;
use crate::base::key::Kind;
use crate::base::separated::{ReadValues, ValueBytes, ValuePointer};
use crate::error::Result;
use crate::fs::Fs;
use crate::values::{ValueFileReader, ValueFileWriter};

/// Which values an output separates and moves.
#[derive(Clone, Default)]
pub struct ValueConfig {
    /// Length in bytes from which a value is separated. `None`: no value is.
    pub separated_min_bytes: Option<u64>,
    /// Numbers of the value files whose values are moved.
    pub moved: Arc<HashSet<u64>>,
    /// Reads the values that are moved. `None`: none is.
    pub source: Option<Arc<dyn ReadValues>>,
}

impl ValueConfig {
    /// Returns the configuration of an output that separates values from this length on and moves
    /// none.
    pub fn new(separated_min_bytes: Option<u64>, source: Arc<dyn ReadValues>) -> ValueConfig {
        ValueConfig { separated_min_bytes, moved: Arc::default(), source: Some(source) }
    }
}

/// What a value output needs to make files.
pub struct FileMaker<'a> {
    pub fs: &'a dyn Fs,
    pub dir: &'a Path,
    /// Length in bytes at which a file is closed.
    pub file_size_max_bytes: u64,
    pub next_number: &'a mut dyn FnMut() -> u64,
    pub next_id: &'a mut dyn FnMut() -> u64,
    /// Whether each file is read back.
    pub verify: bool,
}

/// The value files of one output.
pub struct ValueOutput {
    config: ValueConfig,
    current: Option<ValueFileWriter>,
    /// Numbers of the finished files.
    done: Vec<u64>,
    /// The last pointer.
    pointer: Vec<u8>,
    /// The last value that was moved.
    moved: Option<ValueBytes>,
    /// Bytes of records since the last [`ValueOutput::take_written`].
    written_bytes: u64,
}

impl ValueOutput {
    /// Creates an output without files.
    pub fn new(config: ValueConfig) -> ValueOutput {
        let (done, pointer) = (Vec::new(), Vec::new());
        ValueOutput { config, current: None, done, pointer, moved: None, written_bytes: 0 }
    }

    /// Returns whether every entry is written to the table as it is.
    #[inline]
    pub fn is_idle(&self) -> bool {
        self.config.separated_min_bytes.is_none() && self.config.moved.is_empty()
    }

    /// Returns the entry to write to the table in place of this one: with a pointer if the value is
    /// separated here, with its value if it was and is no more.
    ///
    /// # Errors
    /// Those of the value files that are read and written.
    #[inline]
    pub fn place<'v>(
        &'v mut self,
        files: FileMaker<'_>,
        key: &[u8],
        kind: Kind,
        value: &'v [u8],
    ) -> Result<(Kind, &'v [u8])> {
        let is_separated = |bytes: usize| {
            self.config.separated_min_bytes.is_some_and(|min_bytes| bytes as u64 >= min_bytes)
        };
        match kind {
            Kind::Put if is_separated(value.len()) => {
                self.separate(files, key, value)?;
                Ok((Kind::PutSeparated, &self.pointer))
            }
            Kind::PutSeparated if !self.config.moved.is_empty() => {
                self.move_value(files, key, value)
            }
            _ => Ok((kind, value)),
        }
    }

    fn move_value<'v>(
        &'v mut self,
        files: FileMaker<'_>,
        key: &[u8],
        stored: &'v [u8],
    ) -> Result<(Kind, &'v [u8])> {
        let pointer = ValuePointer::decode(stored);
        // A streamed value is alone in its file, so the file never has garbage.
        let is_moved = pointer.is_some_and(|pointer| {
            !pointer.is_streamed && self.config.moved.contains(&pointer.file)
        });
        let source = self.config.source.clone().filter(|_| is_moved);
        let Some(source) = source else { return Ok((Kind::PutSeparated, stored)) };
        let value = match source.read_value(Some(key), stored) {
            // It stays where it is. Its readers get the error, and other values can move.
            Err(error) if error.is_corruption() => return Ok((Kind::PutSeparated, stored)),
            read => read?,
        };
        if self.config.separated_min_bytes.is_some_and(|least| value.len() as u64 >= least) {
            self.separate(files, key, &value)?;
            return Ok((Kind::PutSeparated, &self.pointer));
        }
        Ok((Kind::Put, &**self.moved.insert(value)))
    }

    /// Writes a value to the current file and sets the pointer to it.
    fn separate(&mut self, mut files: FileMaker<'_>, key: &[u8], value: &[u8]) -> Result<()> {
        let is_full = |open: &ValueFileWriter| open.len_bytes() >= files.file_size_max_bytes;
        if self.current.as_ref().is_some_and(is_full) {
            self.close(&mut files)?;
        }
        let writer = match &mut self.current {
            Some(writer) => writer,
            none => {
                let (number, id) = ((files.next_number)(), (files.next_id)());
                let path = names::value_path(files.dir, number);
                none.insert(ValueFileWriter::create(files.fs, &path, number, id)?)
            }
        };
        let pointer = writer.add(key, value)?;
        pointer.encode(&mut self.pointer);
        self.written_bytes += pointer.record_bytes();
        Ok(())
    }

    fn close(&mut self, files: &mut FileMaker<'_>) -> Result<()> {
        let Some(writer) = self.current.take() else { return Ok(()) };
        let number = writer.number();
        self.done.push(number);
        writer.finish()?;
        if files.verify {
            let path = names::value_path(files.dir, number);
            ValueFileReader::open(files.fs, &path, number)?.check(&mut |_| true)?;
        }
        Ok(())
    }

    /// Returns the bytes of the records that were written since the last call.
    pub fn take_written(&mut self) -> u64 {
        std::mem::take(&mut self.written_bytes)
    }

    /// Returns the bytes of the records that were written since the last
    /// [`ValueOutput::take_written`].
    pub fn written_bytes(&self) -> u64 {
        self.written_bytes
    }

    /// Finishes and syncs the last file.
    ///
    /// # Errors
    /// `Io`, `NoSpace`; `Corruption` when a file was not written as it should be.
    pub fn finish(&mut self, mut files: FileMaker<'_>) -> Result<()> {
        self.close(&mut files)
    }

    /// Removes all files written so far.
    pub fn discard(&mut self, fs: &dyn Fs, dir: &Path) {
        let open = self.current.take().map(|writer| writer.number());
        for number in self.done.drain(..).chain(open) {
            let _ = fs.remove(&names::value_path(dir, number));
        }
    }
}
