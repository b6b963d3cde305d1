//! Much data at once: ingests, bulk loads and sorted files. JavaScript sends the pairs of the last two
//! in chunks of a load, packed:
//!
//! ```text
//! key length u32 | value length u32 | key | value
//! ```
//!
//! Invariants:
//! 1. At most two chunks wait for the thread of a load.
//! 2. A load whose pairs do not end as they should changes nothing: it was ended, its store was
//!    closed, or its environment ended.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};

use esker::ingest::{IngestOptions, IngestReport, SortedWriter};
use napi::Env;
use napi::bindgen_prelude::{AsyncTask, Buffer, Object as JsObject};
use napi_derive::napi;

use crate::errors::{closed, invalid};
use crate::maintenance::part_of;
use crate::objects::{Object, with};
use crate::open::chosen_of;
use crate::waits::in_a_thread;
use crate::work::{Answer, Work, later};

/// Bytes from JavaScript for a thread, which takes them in chunks: pairs, a value or a stream.
pub struct Load {
    /// `None` after the last chunk.
    chunks: Mutex<Option<SyncSender<Vec<u8>>>>,
    /// Given to the thread that loads.
    taken: Mutex<Option<Receiver<Vec<u8>>>>,
    /// Whether all chunks were sent.
    is_whole: Arc<AtomicBool>,
}

/// The chunks of a load.
pub struct Chunks {
    taken: Receiver<Vec<u8>>,
    is_whole: Arc<AtomicBool>,
}

impl Chunks {
    /// Waits for the next chunk. Returns `None` after the last one, and `Closed` if the load did not end
    /// as it should.
    pub fn next(&mut self) -> esker::Result<Option<Vec<u8>>> {
        match self.taken.recv() {
            Ok(chunk) => Ok(Some(chunk)),
            Err(_) if self.is_whole.load(Ordering::Acquire) => Ok(None),
            Err(_) => Err(closed("source of the bytes")),
        }
    }
}

/// The pairs of a load.
struct Pairs {
    chunks: Chunks,
    chunk: Vec<u8>,
    at: usize,
    is_over: bool,
}

impl Pairs {
    fn bytes(&mut self, count: usize) -> esker::Result<&[u8]> {
        let end = self.at.saturating_add(count);
        let taken = self.chunk.get(self.at..end);
        self.at = end;
        taken.ok_or_else(|| invalid("a packed pair is cut off"))
    }

    fn length(&mut self) -> esker::Result<usize> {
        let bytes = self.bytes(4)?.first_chunk::<4>().copied().unwrap_or_default();
        Ok(u32::from_le_bytes(bytes) as usize)
    }

    fn pair(&mut self) -> esker::Result<Option<(Vec<u8>, Vec<u8>)>> {
        while self.at == self.chunk.len() {
            match self.chunks.next()? {
                Some(chunk) => (self.chunk, self.at) = (chunk, 0),
                None => return Ok(None),
            }
        }
        let (key, value) = (self.length()?, self.length()?);
        let key = self.bytes(key)?.to_vec();
        Ok(Some((key, self.bytes(value)?.to_vec())))
    }
}

impl Iterator for Pairs {
    type Item = esker::Result<(Vec<u8>, Vec<u8>)>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.is_over {
            return None;
        }
        let pair = self.pair().transpose();
        self.is_over = !matches!(pair, Some(Ok(_)));
        pair
    }
}

fn report(made: &IngestReport) -> Answer {
    let flushed = u64::from(made.flushed);
    let numbers = [made.seqno, made.files, made.entries, made.bytes, flushed];
    Answer::Texts(numbers.iter().map(u64::to_string).collect())
}

/// Makes sorted files part of a keyspace. Returns the numbers of the report.
#[napi]
pub fn ingest_later(
    part: u32,
    files: Vec<String>,
    copy: bool,
    verify: bool,
) -> napi::Result<AsyncTask<Work>> {
    let part = part_of(part)?;
    Ok(later(move || {
        let (db, options) = (part.open()?, IngestOptions::default().copy(copy).verify(verify));
        Ok(report(&match &part.keyspace {
            None => db.ingest(&files, &options)?,
            Some(keyspace) => keyspace.ingest(&files, &options)?,
        }))
    }))
}

/// Makes a load, which takes chunks at once. Returns its number.
#[napi]
pub fn make_load() -> napi::Result<u32> {
    with(|shared| {
        let (chunks, taken) = sync_channel(2);
        let load = Load {
            chunks: Mutex::new(Some(chunks)),
            taken: Mutex::new(Some(taken)),
            is_whole: Arc::default(),
        };
        Ok(shared.add(Object::Load(Arc::new(load))))
    })
}

/// Returns the chunks of a load, once.
pub fn chunks_of(load: u32) -> napi::Result<Chunks> {
    with(|shared| {
        let load = shared.load(load)?;
        let taken = load.taken.lock().unwrap_or_else(PoisonError::into_inner).take();
        let taken = taken.ok_or_else(|| invalid("the load has begun already"))?;
        Ok(Chunks { taken, is_whole: load.is_whole.clone() })
    })
}

fn pairs_of(load: u32) -> napi::Result<Pairs> {
    Ok(Pairs { chunks: chunks_of(load)?, chunk: Vec::new(), at: 0, is_over: false })
}

/// Loads the pairs of a load into a keyspace. Returns the numbers of the report.
#[napi]
pub fn bulk_load_later(env: &Env, part: u32, load: u32) -> napi::Result<JsObject<'_>> {
    let (part, pairs) = (part_of(part)?, pairs_of(load)?);
    in_a_thread(env, move || {
        let db = part.open()?;
        Ok(report(&match &part.keyspace {
            None => db.try_bulk_load(pairs)?,
            Some(keyspace) => keyspace.try_bulk_load(pairs)?,
        }))
    })
}

/// Writes the pairs of a load to a sorted file. Returns the number of entries and the length.
#[napi]
pub fn write_sorted_later(
    env: &Env,
    path: String,
    options: Vec<String>,
    load: u32,
) -> napi::Result<JsObject<'_>> {
    let pairs = pairs_of(load)?;
    in_a_thread(env, move || {
        let mut writer = SortedWriter::create(&path, &chosen_of(options)?.options)?;
        for pair in pairs {
            let (key, value) = pair?;
            writer.put(key, value)?;
        }
        let made = writer.finish()?;
        let path = made.path.display().to_string();
        Ok(Answer::Texts(vec![path, made.entries.to_string(), made.bytes.to_string()]))
    })
}

/// Sends a chunk to the thread of a load. The promise says whether the load goes on.
#[napi(strict)]
pub fn send_chunk_later(env: &Env, load: u32, chunk: Buffer) -> napi::Result<JsObject<'_>> {
    let load = with(|shared| Ok(shared.load(load)?.clone()))?;
    let chunk = chunk.to_vec();
    in_a_thread(env, move || {
        let sender = load.chunks.lock().unwrap_or_else(PoisonError::into_inner).clone();
        drop(load);
        Ok(Answer::Truth(sender.is_some_and(|sender| sender.send(chunk).is_ok())))
    })
}

/// Ends the chunks of a load: all were sent, or it shall fail.
#[napi]
pub fn end_load(load: u32, is_whole: bool) -> napi::Result<()> {
    with(|shared| {
        let load = shared.load(load)?;
        load.is_whole.store(is_whole, Ordering::Release);
        load.chunks.lock().unwrap_or_else(PoisonError::into_inner).take();
        Ok(())
    })
}
