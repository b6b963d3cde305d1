//! The change feed as bytes, for a pipe to another process or machine (bytes: `docs/format.md`).
//!
//! Invariants:
//! 1. A reply has whole frames, in order.
//! 2. A wait for bytes keeps no store open. The content of a store keeps it open, and ends with the
//!    object that takes it.
//! 3. An item is applied as a whole before the call that reads it returns, or the call fails.

use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};

use esker::feed::{Applier, ChangeReader, ChangeWriter, StreamItem};
use napi::Env;
use napi::bindgen_prelude::{AsyncTask, Buffer, Object as JsObject};
use napi_derive::napi;

use crate::errors::{closed, invalid};
use crate::feed::position_of;
use crate::maintenance::part_of;
use crate::objects::{Object, Part, with};
use crate::streamed::Bytes;
use crate::waits::in_a_thread;
use crate::work::{Answer, Work, later};
use crate::write::time;

/// Bytes that wait to be taken.
#[derive(Clone, Default)]
struct Sink(Arc<Mutex<Vec<u8>>>);

impl Sink {
    fn take(&self) -> Vec<u8> {
        std::mem::take(&mut *lock(&self.0))
    }

    fn bytes(&self) -> usize {
        lock(&self.0).len()
    }
}

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        lock(&self.0).extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Writes the changes of a store as bytes.
pub struct Sender {
    part: Arc<Part>,
    sink: Sink,
    writer: Mutex<ChangeWriter<Sink>>,
}

impl Sender {
    /// Returns the writer, which one call at a time uses.
    fn writer(&self) -> esker::Result<MutexGuard<'_, ChangeWriter<Sink>>> {
        match self.writer.try_lock() {
            Ok(writer) => Ok(writer),
            Err(TryLockError::Poisoned(writer)) => Ok(writer.into_inner()),
            Err(TryLockError::WouldBlock) => Err(invalid("another call uses the change writer")),
        }
    }
}

/// The content of a store, which a thread gives and another one takes.
pub struct Content {
    giver: Mutex<Option<SyncSender<Vec<u8>>>>,
    taker: Mutex<Option<Receiver<Vec<u8>>>>,
    has_ended: AtomicBool,
}

/// Reads changes as bytes and applies them.
pub struct Applying {
    part: Arc<Part>,
    source: u64,
    cut: Arc<AtomicBool>,
    state: Mutex<(ChangeReader<Bytes>, Applier)>,
}

/// Begins a stream of the changes of a store. Returns the number of its writer.
#[napi]
pub fn change_writer(part: u32) -> napi::Result<u32> {
    with(|shared| {
        let part = shared.part(part)?.clone();
        let sink = Sink::default();
        let writer = Mutex::new(ChangeWriter::new(sink.clone(), part.open()?.store_id())?);
        Ok(shared.add(Object::Sender(Arc::new(Sender { part, sink, writer }))))
    })
}

/// Writes the next batches of a feed, and waits for one for so many milliseconds. Returns the position
/// behind the last whole batch, an f64 that is 0 without one, and the bytes; none after that time.
#[napi]
pub fn write_changes_later(
    env: &Env,
    sender: u32,
    feed: u32,
    timeout_ms: f64,
) -> napi::Result<JsObject<'_>> {
    let (sender, reading, timeout) = with(|shared| {
        let (sender, feed) = (shared.sender(sender)?.clone(), shared.feed(feed)?.0.clone());
        if !feed.is_of(&sender.part.store) {
            return Err(invalid("the feed is one of another database than the change writer"));
        }
        Ok((sender, feed, time(timeout_ms)?))
    })?;
    in_a_thread(env, move || {
        let mut writer = sender.writer()?;
        let mut position = 0;
        reading.next(timeout, |batch| {
            if !batch.continues {
                position = batch.sequence;
            }
            writer.write(&StreamItem::Batch(batch))?;
            Ok(sender.sink.bytes())
        })?;
        let mut reply = (position as f64).to_le_bytes().to_vec();
        reply.append(&mut sender.sink.take());
        Ok(Answer::Bytes(reply))
    })
}

/// Writes that the sender is alive (`0`) or the end (`1`), at a position. Returns the bytes.
#[napi]
pub fn write_position(sender: u32, what: u8, position: f64) -> napi::Result<Buffer> {
    with(|shared| {
        let sender = shared.sender(sender)?;
        let position = position_of(position)?;
        let item = match what {
            0 => StreamItem::Alive { position },
            1 => StreamItem::End { position },
            _ => return Err(invalid(format!("there is no item {what}"))),
        };
        sender.writer()?.write(&item)?;
        Ok(sender.sink.take().into())
    })
}

/// Makes a place for the content of a store. Returns its number.
#[napi]
pub fn make_content() -> napi::Result<u32> {
    with(|shared| {
        let (giver, taker) = sync_channel(2);
        let content = Content {
            giver: Mutex::new(Some(giver)),
            taker: Mutex::new(Some(taker)),
            has_ended: AtomicBool::new(false),
        };
        Ok(shared.add(Object::Content(Arc::new(content))))
    })
}

/// Writes the content of a store, for `next_content_later`. Returns its position in the feed.
#[napi]
pub fn write_content_later(env: &Env, sender: u32, content: u32) -> napi::Result<JsObject<'_>> {
    let (sender, giver) = with(|shared| {
        let giver = lock(&shared.content(content)?.giver).take();
        let giver = giver.ok_or_else(|| invalid("the content was written already"))?;
        Ok((shared.sender(sender)?.clone(), giver))
    })?;
    in_a_thread(env, move || {
        let db = sender.part.open()?;
        let mut writer = sender.writer()?;
        let position = db.content(|item| {
            writer.write(&item)?;
            giver.send(sender.sink.take()).map_err(|_| closed("taker of the content"))
        })?;
        Ok(Answer::Number(position as f64))
    })
}

/// Returns the next bytes of the content; none at the end.
#[napi]
pub fn next_content_later(env: &Env, content: u32) -> napi::Result<JsObject<'_>> {
    let content = with(|shared| {
        let content = shared.content(content)?;
        if lock(&content.giver).is_some() {
            return Err(invalid("nothing writes the content"));
        }
        Ok(content.clone())
    })?;
    in_a_thread(env, move || {
        let mut taker = lock(&content.taker);
        let bytes = taker.as_ref().and_then(|taker| taker.recv().ok());
        if content.has_ended.load(Ordering::Acquire) {
            *taker = None;
        }
        Ok(Answer::Bytes(bytes.unwrap_or_default()))
    })
}

/// Ends the content: the call that writes it fails.
#[napi]
pub fn end_content(content: u32) -> napi::Result<()> {
    with(|shared| {
        let content = shared.content(content)?;
        content.has_ended.store(true, Ordering::Release);
        // A call that waits for bytes ends it otherwise.
        if let Ok(mut taker) = content.taker.try_lock() {
            *taker = None;
        }
        Ok(())
    })
}

/// Begins to apply the stream that a load has. Returns the number of the applier.
#[napi]
pub fn make_applier_later(env: &Env, part: u32, load: u32) -> napi::Result<JsObject<'_>> {
    let (part, bytes) = (part_of(part)?, Bytes::of(load)?);
    let cut = bytes.cut();
    in_a_thread(env, move || {
        drop(part.open()?);
        let reader = unless_cut(&cut, || ChangeReader::new(bytes))?;
        let source = reader.source();
        let applier = Applier::new(&*part.open()?, source)?;
        let state = Mutex::new((reader, applier));
        let made = Applying { part, source, cut, state };
        Ok(Answer::Object(Object::Applier(Arc::new(made))))
    })
}

/// Runs a read. Fails with `Closed` if the load ended before its last chunk.
fn unless_cut<R>(cut: &AtomicBool, read: impl FnOnce() -> esker::Result<R>) -> esker::Result<R> {
    match read() {
        Err(_) if cut.load(Ordering::Acquire) => Err(closed("source of the stream")),
        other => other,
    }
}

/// Reads and applies the next item of a stream. Returns its kind and the position that it is about.
#[napi]
pub fn apply_next_later(env: &Env, applier: u32) -> napi::Result<JsObject<'_>> {
    let applying = with(|shared| Ok(shared.applier(applier)?.clone()))?;
    in_a_thread(env, move || {
        drop(applying.part.open()?);
        let mut state = lock(&applying.state);
        let (reader, applier) = &mut *state;
        let read = unless_cut(&applying.cut, || reader.next())?;
        let (kind, position) = match &read {
            None => ("end", applier.position().unwrap_or(0)),
            Some(StreamItem::End { position }) => ("end", *position),
            Some(StreamItem::Batch(batch)) => ("batch", batch.sequence),
            Some(StreamItem::Alive { position }) => ("alive", *position),
            Some(StreamItem::BootstrapBegins | StreamItem::Content(_)) => ("content", 0),
            Some(StreamItem::BootstrapEnds { position }) => ("contentEnd", *position),
            Some(_) => ("other", 0),
        };
        if let Some(item) = &read {
            let _open = applying.part.open()?;
            applier.apply(item)?;
        }
        Ok(Answer::Texts(vec![kind.to_string(), position.to_string()]))
    })
}

/// Returns the identity of the store whose changes a stream has.
#[napi]
pub fn applier_source(applier: u32) -> napi::Result<String> {
    with(|shared| Ok(shared.applier(applier)?.source.to_string()))
}

/// States that the store is a copy of the source at a position.
#[napi]
pub fn start_at_later(applier: u32, position: f64) -> napi::Result<AsyncTask<Work>> {
    let applying = with(|shared| Ok(shared.applier(applier)?.clone()))?;
    Ok(later(move || {
        let _open = applying.part.open()?;
        let mut state = lock(&applying.state);
        state.1.start_at(position_of(position)?).map(|()| Answer::Nothing)
    }))
}

/// Returns the identity of the store whose changes a store has applied, and the position, or nothing.
#[napi]
pub fn applied_position_later(part: u32) -> napi::Result<AsyncTask<Work>> {
    let part = part_of(part)?;
    Ok(later(move || {
        let found = part.open()?.applied_position()?;
        Ok(found.map_or(Answer::Nothing, |(source, position)| {
            Answer::Texts(vec![source.to_string(), position.to_string()])
        }))
    }))
}
