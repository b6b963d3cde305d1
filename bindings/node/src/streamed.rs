//! Values that are not in memory as a whole.
//!
//! Invariants:
//! 1. A value whose source fails or is cut off is not written.
//! 2. A reader keeps its version of the value, and needs no open store.

use std::io::{self, Read, Seek, SeekFrom};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use esker::{ErrorKind, ValueReader, internals};
use napi::Env;
use napi::bindgen_prelude::{AsyncTask, Buffer, Object as JsObject};
use napi_derive::napi;

use crate::errors::closed;
use crate::feed::position_of;
use crate::ingest::{Chunks, chunks_of};
use crate::maintenance::part_of;
use crate::objects::{Object, with};
use crate::waits::in_a_thread;
use crate::work::{Answer, Work, later};

/// The bytes of a load.
pub struct Bytes {
    chunks: Chunks,
    chunk: Vec<u8>,
    at: usize,
    is_cut: Arc<AtomicBool>,
}

impl Bytes {
    /// Returns the bytes of the load with this number, once.
    pub fn of(load: u32) -> napi::Result<Bytes> {
        let chunks = chunks_of(load)?;
        Ok(Bytes { chunks, chunk: Vec::new(), at: 0, is_cut: Arc::default() })
    }

    /// Returns a flag that is set when the load ends before its last chunk.
    pub fn cut(&self) -> Arc<AtomicBool> {
        self.is_cut.clone()
    }
}

impl Read for Bytes {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.at == self.chunk.len() {
            match self.chunks.next() {
                Ok(Some(chunk)) => (self.chunk, self.at) = (chunk, 0),
                Ok(None) => return Ok(0),
                Err(error) => {
                    self.is_cut.store(true, Ordering::Release);
                    return Err(io::Error::other(error));
                }
            }
        }
        let bytes = buffer.len().min(self.chunk.len() - self.at);
        buffer[..bytes].copy_from_slice(&self.chunk[self.at..self.at + bytes]);
        self.at += bytes;
        Ok(bytes)
    }
}

/// Puts the bytes of a load. Returns their number.
#[napi(strict)]
pub fn put_stream_later(
    env: &Env,
    part: u32,
    key: Buffer,
    load: u32,
) -> napi::Result<JsObject<'_>> {
    let (part, bytes, key) = (part_of(part)?, Bytes::of(load)?, key.to_vec());
    let cut = bytes.cut();
    in_a_thread(env, move || {
        let db = part.open()?;
        let put = match &part.keyspace {
            None => db.put_reader(&key, bytes),
            Some(keyspace) => keyspace.put_reader(&key, bytes),
        };
        match put {
            Err(_) if cut.load(Ordering::Acquire) => Err(closed("source of the value")),
            put => Ok(Answer::Number(put? as f64)),
        }
    })
}

/// Returns the number of a reader of the present value of a key, or nothing for a missing key.
#[napi(strict)]
pub fn value_reader_later(part: u32, key: Buffer) -> napi::Result<AsyncTask<Work>> {
    let (part, key) = (part_of(part)?, key.to_vec());
    Ok(later(move || {
        let db = part.open()?;
        let found = match &part.keyspace {
            None => db.get_reader(&key)?,
            Some(keyspace) => keyspace.get_reader(&key)?,
        };
        Ok(found.map_or(Answer::Nothing, |reader| {
            Answer::Object(Object::Value(Arc::new(Mutex::new(reader))))
        }))
    }))
}

/// Returns the length of the value of a reader.
#[napi]
pub fn value_bytes(reader: u32) -> napi::Result<f64> {
    let reader = with(|shared| Ok(shared.value(reader)?.clone()))?;
    let reader = reader.lock().unwrap_or_else(PoisonError::into_inner);
    Ok(reader.len_bytes() as f64)
}

/// Returns up to `bytes` bytes of a value, from `offset` on; none behind its end.
#[napi]
pub fn read_value_later(reader: u32, offset: f64, bytes: u32) -> napi::Result<AsyncTask<Work>> {
    let reader = with(|shared| Ok(shared.value(reader)?.clone()))?;
    Ok(later(move || {
        let mut reader = reader.lock().unwrap_or_else(PoisonError::into_inner);
        read(&mut reader, position_of(offset)?, bytes.into()).map(Answer::Bytes)
    }))
}

fn read(reader: &mut ValueReader, offset: u64, bytes: u64) -> esker::Result<Vec<u8>> {
    let left = reader.len_bytes().saturating_sub(offset);
    let mut read = vec![0; bytes.min(left) as usize];
    reader.seek(SeekFrom::Start(offset)).map_err(failure_of)?;
    let mut at = 0;
    while at < read.len() {
        match reader.read(&mut read[at..]) {
            Ok(0) => break,
            Ok(count) => at += count,
            // It comes again with the next call.
            Err(_) if at > 0 => break,
            Err(error) => return Err(failure_of(error)),
        }
    }
    read.truncate(at);
    Ok(read)
}

/// Returns the error of a read: that of the engine, if it has one.
fn failure_of(error: io::Error) -> esker::Error {
    let message = error.to_string();
    match error.into_inner().map(|inner| inner.downcast::<esker::Error>()) {
        Some(Ok(error)) => *error,
        _ => internals::error(ErrorKind::Io, message, None),
    }
}
