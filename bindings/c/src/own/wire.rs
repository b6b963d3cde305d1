//! `esker_change_writer_*` and `esker_applier_*`: the change feed as bytes, for a pipe to another
//! process or machine (bytes: `docs/format.md`).
//!
//! Invariants:
//! 1. The caller's function that takes bytes gets whole frames, in order. After its first failure it
//!    is not called again, and every later call on the writer fails.
//! 2. A wait for bytes does not keep the store open: a close does not wait for it.
//! 3. An item is applied as a whole before the call that reads it returns, or the call fails.

use std::ffi::{c_char, c_void};
use std::io::{self, BufReader, Read, Write};
use std::sync::Arc;

use esker::feed::{Applier, ChangeReader, ChangeWriter, StreamItem};
use esker_bindings::handle::Handle;

use super::feed::esker_changes_t;
use super::store::{esker_db_t, on};
use super::stream::esker_read_t;
use crate::failure::{Failure, Outcome, attempt, there};
use crate::ffi;

/// Item of a stream: the end. Nothing follows.
pub const ESKER_STREAM_END: i32 = 0;
/// Item of a stream: a batch, or a part of one.
pub const ESKER_STREAM_BATCH: i32 = 1;
/// Item of a stream: the sender has nothing new.
pub const ESKER_STREAM_ALIVE: i32 = 2;
/// Item of a stream: the content of the sender's store begins, or a part of it.
pub const ESKER_STREAM_CONTENT: i32 = 3;
/// Item of a stream: the content of the sender's store is complete.
pub const ESKER_STREAM_CONTENT_END: i32 = 4;
/// Item of a stream: one that this version of the interface has no number for.
pub const ESKER_STREAM_OTHER: i32 = 5;

/// Takes bytes: state, the bytes and their number. Returns 0 if it took all, and any other number if
/// it failed.
pub type esker_write_bytes_t = Option<unsafe extern "C" fn(*mut c_void, *const u8, usize) -> i32>;

/// Writes the changes of a store as bytes. It may be used by one thread at a time, and freed before or
/// after the store.
pub struct esker_change_writer_t {
    store: Arc<Handle>,
    writer: ChangeWriter<Sink>,
}

/// Reads such bytes and applies them to another store. It may be used by one thread at a time, and
/// freed before or after the store.
pub struct esker_applier_t {
    store: Arc<Handle>,
    reader: ChangeReader<BufReader<Bytes>>,
    applier: Applier,
}

/// A function in C that takes bytes, and the bytes that it has not taken.
struct Sink {
    store: Arc<Handle>,
    state: *mut c_void,
    take: unsafe extern "C" fn(*mut c_void, *const u8, usize) -> i32,
    waiting: Vec<u8>,
    has_failed: bool,
}

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.waiting.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        let (waiting, mut failed) = (std::mem::take(&mut self.waiting), self.has_failed);
        if !failed {
            // A panic or a failure ends the stream: a part of the bytes may have been sent.
            self.has_failed = true;
            // SAFETY: the function and `state` belong together by the caller's contract; the bytes
            // outlive the call.
            let code = self
                .store
                .held(|| unsafe { (self.take)(self.state, waiting.as_ptr(), waiting.len()) });
            failed = code != 0;
            self.has_failed = failed;
        }
        match failed {
            true => Err(io::Error::other("the function that takes the stream failed")),
            false => Ok(()),
        }
    }
}

/// A function in C that gives bytes.
struct Bytes {
    state: *mut c_void,
    read: unsafe extern "C" fn(*mut c_void, *mut u8, usize) -> i64,
}

impl Read for Bytes {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if buffer.is_empty() {
            return Ok(0);
        }
        // SAFETY: the function and `state` belong together by the caller's contract; the buffer has
        // that length.
        let given = unsafe { (self.read)(self.state, buffer.as_mut_ptr(), buffer.len()) };
        match usize::try_from(given) {
            Ok(len) if len <= buffer.len() => Ok(len),
            Ok(len) => Err(io::Error::other(format!(
                "the source of the stream stored {len} bytes in a buffer of {}",
                buffer.len()
            ))),
            Err(_) => Err(io::Error::other("the source of the stream failed")),
        }
    }
}

impl esker_change_writer_t {
    /// Writes an item, and passes its bytes on.
    fn send(writer: Option<&mut esker_change_writer_t>, item: &StreamItem) -> Outcome<()> {
        let own = &mut there(writer, "writer's handle")?.writer;
        own.write(item)?;
        Ok(own.flush()?)
    }
}

/// Starts a stream of the changes of `db`: passes its header to `write`. `write` is called with `state`
/// on the thread of each call on the writer, must not throw or jump out, and must not close the store.
/// If it fails, the call fails with `ESKER_IO`, and so does every later one on the writer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_change_writer_create(
    db: Option<&esker_db_t>,
    state: *mut c_void,
    write: esker_write_bytes_t,
    writer: Option<&mut *mut esker_change_writer_t>,
    message: Option<&mut *mut c_char>,
) -> i32 {
    let outcome = attempt(|| {
        let place = there(writer, "place for the writer")?;
        *place = std::ptr::null_mut();
        let take = there(write, "function that takes the stream")?;
        let db = there(db, "store's handle")?;
        let (store, id) = (db.handle.clone(), db.handle.open()?.store_id());
        let sink = Sink { store, state, take, waiting: Vec::new(), has_failed: false };
        let mut writer = ChangeWriter::new(sink, id)?;
        writer.flush()?;
        let store = db.handle.clone();
        *place = Box::into_raw(Box::new(esker_change_writer_t { store, writer }));
        Ok(())
    });
    // SAFETY: the caller meets the header's contract for messages.
    unsafe { ffi::code(outcome, message) }
}

/// Writes the batch that `esker_changes_next` has returned last for `changes`, a feed of the same store.
/// Fails with `ESKER_INVALID_ARGUMENT` if there is none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_change_writer_batch(
    writer: Option<&mut esker_change_writer_t>,
    changes: Option<&esker_changes_t>,
    message: Option<&mut *mut c_char>,
) -> i32 {
    let outcome = attempt(|| {
        let writer = there(writer, "writer's handle")?;
        let changes = there(changes, "feed's handle")?;
        if !changes.is_of(&writer.store) {
            return Err(Failure::invalid("the feed is one of another handle than the writer"));
        }
        let batch = changes.last_batch().ok_or_else(|| {
            Failure::invalid("the feed has no batch: call esker_changes_next before")
        })?;
        esker_change_writer_t::send(Some(writer), &StreamItem::Batch(batch.clone()))
    });
    // SAFETY: the caller meets the header's contract for messages.
    unsafe { ffi::code(outcome, message) }
}

/// Writes the whole content of the store, for a receiver that has nothing of it, and sets `*position`
/// to its position in the feed; `position` may be NULL. The changes from there on follow. A slot must
/// exist before this call, so that they are kept.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_change_writer_content(
    writer: Option<&mut esker_change_writer_t>,
    position: Option<&mut u64>,
    message: Option<&mut *mut c_char>,
) -> i32 {
    let outcome = attempt(|| {
        let writer = there(writer, "writer's handle")?;
        let db = writer.store.open()?;
        let own = &mut writer.writer;
        let at = db.content(|item| own.write(&item).and_then(|()| own.flush()))?;
        if let Some(position) = position {
            *position = at;
        }
        Ok(())
    });
    // SAFETY: the caller meets the header's contract for messages.
    unsafe { ffi::code(outcome, message) }
}

/// Writes that there is nothing new after `position`, so that the receiver knows that the sender is
/// alive.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_change_writer_alive(
    writer: Option<&mut esker_change_writer_t>,
    position: u64,
    message: Option<&mut *mut c_char>,
) -> i32 {
    let outcome = attempt(|| esker_change_writer_t::send(writer, &StreamItem::Alive { position }));
    // SAFETY: the caller meets the header's contract for messages.
    unsafe { ffi::code(outcome, message) }
}

/// Writes the end of the stream, at `position`. A stream without it is cut off for its receiver.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_change_writer_end(
    writer: Option<&mut esker_change_writer_t>,
    position: u64,
    message: Option<&mut *mut c_char>,
) -> i32 {
    let outcome = attempt(|| esker_change_writer_t::send(writer, &StreamItem::End { position }));
    // SAFETY: the caller meets the header's contract for messages.
    unsafe { ffi::code(outcome, message) }
}

/// Frees a writer. It writes nothing more.
#[unsafe(no_mangle)]
pub extern "C" fn esker_change_writer_destroy(writer: Option<Box<esker_change_writer_t>>) {
    let _ = attempt(|| {
        drop(writer);
        Ok(())
    });
}

/// Starts to apply a stream to `db`: reads its header from `read`, which is called with `state` on the
/// thread of each call on the applier, and must not throw or jump out. It may return fewer bytes than
/// there is room for, and 0 only at the end of the bytes.
///
/// A store has the changes of one other store only. Fails with `ESKER_INCOMPATIBLE` if it has applied
/// those of another, or is the source itself, and with `ESKER_CORRUPTION` if the bytes are no stream.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_applier_create(
    db: Option<&esker_db_t>,
    state: *mut c_void,
    read: esker_read_t,
    applier: Option<&mut *mut esker_applier_t>,
    message: Option<&mut *mut c_char>,
) -> i32 {
    let outcome = attempt(|| {
        let place = there(applier, "place for the applier")?;
        *place = std::ptr::null_mut();
        let read = there(read, "function that gives the stream")?;
        let store = there(db, "store's handle")?.handle.clone();
        drop(store.open()?);
        let reader = ChangeReader::new(BufReader::new(Bytes { state, read }))?;
        let applier = Applier::new(&*store.open()?, reader.source())?;
        *place = Box::into_raw(Box::new(esker_applier_t { store, reader, applier }));
        Ok(())
    });
    // SAFETY: the caller meets the header's contract for messages.
    unsafe { ffi::code(outcome, message) }
}

/// Returns the identity of the store whose changes the stream has (`esker_store_id`); 0 for NULL.
#[unsafe(no_mangle)]
pub extern "C" fn esker_applier_source(applier: Option<&esker_applier_t>) -> u64 {
    applier.map_or(0, |own| own.reader.source())
}

/// States that the store has the content of the source at `position`, because it is a copy of it. Fails
/// with `ESKER_INVALID_ARGUMENT` if the store has applied changes already.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_applier_start_at(
    applier: Option<&mut esker_applier_t>,
    position: u64,
    message: Option<&mut *mut c_char>,
) -> i32 {
    let outcome = attempt(|| {
        let own = there(applier, "applier's handle")?;
        let _open = own.store.open()?;
        Ok(own.applier.start_at(position)?)
    });
    // SAFETY: the caller meets the header's contract for messages.
    unsafe { ffi::code(outcome, message) }
}

/// Reads the next item of the stream and applies it. Sets `*item` to its kind (`ESKER_STREAM_BATCH`
/// and so on), and `*position` to the position that it is about, 0 for content before its end. Both may
/// be NULL. A batch that the store has is left out, so a stream may begin before the position of the
/// store. Call it until `*item` is `ESKER_STREAM_END`.
///
/// Fails with `ESKER_CORRUPTION` if the bytes are damaged, with `ESKER_IO` if they are cut off, with
/// `ESKER_INVALID_ARGUMENT` if the item does not follow what the store has, or needs a merge operator
/// that it lacks; and as `esker_write`. The item is not applied then. After such a failure, start a new stream at the position
/// of the store (`esker_applied_position`).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_applier_next(
    applier: Option<&mut esker_applier_t>,
    item: Option<&mut i32>,
    position: Option<&mut u64>,
    message: Option<&mut *mut c_char>,
) -> i32 {
    let outcome = attempt(|| {
        let own = there(applier, "applier's handle")?;
        drop(own.store.open()?);
        let read = own.reader.next()?;
        let (kind, at) = match &read {
            None => (ESKER_STREAM_END, own.applier.position().unwrap_or(0)),
            Some(StreamItem::End { position }) => (ESKER_STREAM_END, *position),
            Some(StreamItem::Batch(batch)) => (ESKER_STREAM_BATCH, batch.sequence),
            Some(StreamItem::Alive { position }) => (ESKER_STREAM_ALIVE, *position),
            Some(StreamItem::BootstrapBegins | StreamItem::Content(_)) => (ESKER_STREAM_CONTENT, 0),
            Some(StreamItem::BootstrapEnds { position }) => (ESKER_STREAM_CONTENT_END, *position),
            Some(_) => (ESKER_STREAM_OTHER, 0),
        };
        if let Some(read) = &read {
            let _open = own.store.open()?;
            own.applier.apply(read)?;
        }
        if let Some(item) = item {
            *item = kind;
        }
        if let Some(position) = position {
            *position = at;
        }
        Ok(())
    });
    // SAFETY: the caller meets the header's contract for messages.
    unsafe { ffi::code(outcome, message) }
}

/// Frees an applier. What it has applied stays.
#[unsafe(no_mangle)]
pub extern "C" fn esker_applier_destroy(applier: Option<Box<esker_applier_t>>) {
    let _ = attempt(|| {
        drop(applier);
        Ok(())
    });
}

/// Sets `*has_applied` to 1 if the store has applied the changes of another one, and `*source` and
/// `*position` to the identity of that store and the position in its feed; otherwise all three to 0, as
/// also while content is copied. A sender begins there: `esker_changes_create`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_applied_position(
    db: Option<&esker_db_t>,
    has_applied: Option<&mut u8>,
    source: Option<&mut u64>,
    position: Option<&mut u64>,
    message: Option<&mut *mut c_char>,
) -> i32 {
    // SAFETY: the caller meets the header's contract for messages.
    unsafe {
        on(db, message, |db| {
            let has_applied = there(has_applied, "place for the result")?;
            let source = there(source, "place for the source")?;
            let position = there(position, "place for the position")?;
            let found = db.applied_position()?;
            *has_applied = u8::from(found.is_some());
            (*source, *position) = found.unwrap_or_default();
            Ok(())
        })
    }
}
