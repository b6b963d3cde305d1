//! Records the calls of a store as a trace.
//!
//! A sample of one in N keeps all operations of one in N keys, chosen by their hashes (Waldspurger
//! et al., FAST 2015), so that the trace keeps how often a key comes back.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use super::format::{TITLE, TraceKey, TraceLine, TraceOp, hash_of};
use crate::error::{LabError, Result};
use crate::target::{Capabilities, Direction, Engine, StoreOptions, Target, VisitMany, VisitPair};

/// Writes the trace of one or several stores.
#[derive(Debug)]
pub struct Recorder {
    path: PathBuf,
    start: Instant,
    one_in: u64,
    is_plain: bool,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    out: BufWriter<File>,
    lines: u64,
    failure: Option<std::io::Error>,
}

impl Recorder {
    /// Creates the file at `path`, which must not exist. One in `one_in` keys is recorded, itself
    /// with `is_plain`, otherwise as a hash.
    ///
    /// # Errors
    /// The file exists or cannot be created.
    pub fn create(path: &Path, one_in: u64, is_plain: bool) -> Result<Arc<Recorder>> {
        let fail = |e: std::io::Error| LabError::io("create the trace", path, &e);
        let mut out = BufWriter::new(File::create_new(path).map_err(fail)?);
        writeln!(out, "{TITLE}").map_err(fail)?;
        let state = Mutex::new(State { out, lines: 0, failure: None });
        let (path, start) = (path.to_path_buf(), Instant::now());
        Ok(Arc::new(Recorder { path, start, one_in: one_in.max(1), is_plain, state }))
    }

    fn add(&self, key: &[u8], op: TraceOp) {
        // The high bits choose the sample. A replayed key begins with them.
        if !(hash_of(key) >> 32).is_multiple_of(self.one_in) {
            return;
        }
        let at_micros = self.start.elapsed().as_micros() as u64;
        let key = if self.is_plain { TraceKey::Plain(key.to_vec()) } else { TraceKey::hashed(key) };
        let line = TraceLine { at_micros, op, key };
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        match writeln!(state.out, "{line}") {
            Ok(()) => state.lines += 1,
            Err(e) if state.failure.is_none() => state.failure = Some(e),
            Err(_) => {}
        }
    }

    /// Writes the last line and returns the number of operations.
    ///
    /// # Errors
    /// A line could not be written.
    pub fn finish(&self) -> Result<u64> {
        let fail = |e: std::io::Error| LabError::io("write the trace", &self.path, &e);
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(failure) = state.failure.take() {
            return Err(fail(failure));
        }
        let lines = state.lines;
        writeln!(state.out, "end {lines}").and_then(|()| state.out.flush()).map_err(fail)?;
        Ok(lines)
    }
}

/// An engine whose stores record their calls.
pub struct RecordedEngine<'a> {
    /// The engine.
    pub inner: &'a dyn Engine,
    /// The recorder.
    pub recorder: Arc<Recorder>,
}

impl Engine for RecordedEngine<'_> {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn description(&self) -> String {
        self.inner.description()
    }

    fn capabilities(&self) -> Capabilities {
        // A trace has no transactions.
        let can = self.inner.capabilities();
        Capabilities { transactions: false, merge: false, bulk_load: false, ..can }
    }

    fn given(&self, options: &StoreOptions) -> Vec<(String, String)> {
        self.inner.given(options)
    }

    fn open(&self, dir: &Path, options: &StoreOptions) -> Result<Box<dyn Target>> {
        let (inner, recorder) = (self.inner.open(dir, options)?, self.recorder.clone());
        Ok(Box::new(RecordedStore { inner, recorder }))
    }
}

struct RecordedStore {
    inner: Box<dyn Target>,
    recorder: Arc<Recorder>,
}

fn length(bytes: &[u8]) -> u32 {
    u32::try_from(bytes.len()).unwrap_or(u32::MAX)
}

impl Target for RecordedStore {
    fn put(&self, key: &[u8], value: &[u8], sync: bool) -> Result<()> {
        self.inner.put(key, value, sync)?;
        self.recorder.add(key, TraceOp::Put(length(value)));
        Ok(())
    }

    fn delete(&self, key: &[u8]) -> Result<()> {
        self.inner.delete(key)?;
        self.recorder.add(key, TraceOp::Delete);
        Ok(())
    }

    fn get(&self, key: &[u8], visit: &mut dyn FnMut(&[u8])) -> Result<bool> {
        let mut found = None;
        let any = self.inner.get(key, &mut |value| {
            found = Some(length(value));
            visit(value);
        })?;
        self.recorder.add(key, TraceOp::Get(found));
        Ok(any)
    }

    fn get_many(&self, keys: &[&[u8]], visit: VisitMany<'_>) -> Result<()> {
        let mut found = Vec::with_capacity(keys.len());
        self.inner.get_many(keys, &mut |value| {
            found.push(value.map(length));
            visit(value);
        })?;
        for (key, found) in keys.iter().zip(found) {
            self.recorder.add(key, TraceOp::Get(found));
        }
        Ok(())
    }

    fn seek(&self, key: &[u8], visit: &mut dyn FnMut(&[u8], &[u8])) -> Result<bool> {
        let any = self.inner.seek(key, visit)?;
        self.recorder.add(key, TraceOp::Scan(1));
        Ok(any)
    }

    fn scan(&self, direction: Direction, visit: VisitPair<'_>) -> Result<()> {
        let mut pairs = 0u32;
        self.inner.scan(direction, &mut |key, value| {
            pairs = pairs.saturating_add(1);
            visit(key, value)
        })?;
        self.recorder.add(b"", TraceOp::Scan(pairs));
        Ok(())
    }

    fn scan_from(&self, start: &[u8], visit: VisitPair<'_>) -> Result<()> {
        let mut pairs = 0u32;
        self.inner.scan_from(start, &mut |key, value| {
            pairs = pairs.saturating_add(1);
            visit(key, value)
        })?;
        self.recorder.add(start, TraceOp::Scan(pairs));
        Ok(())
    }

    fn compact(&self) -> Result<()> {
        self.inner.compact()
    }

    fn stats(&self) -> Option<String> {
        self.inner.stats()
    }

    fn mapped_write_bytes(&self) -> u64 {
        self.inner.mapped_write_bytes()
    }

    fn close(self: Box<Self>) -> Result<()> {
        self.inner.close()
    }
}
