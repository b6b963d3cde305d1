//! The change feed as bytes, for a pipe to another process or machine (bytes: `docs/format.md`).
//!
//! Invariants:
//! 1. A frame is returned only if its checksum holds, and frames only in the order in which they were
//!    written. A damaged or cut stream is an error, and never a shorter feed: only the end frame ends
//!    one.
//! 2. A reader allocates no more than what has arrived, and at most [`FRAME_BYTES_MAX`].

use std::io::{Read, Write};
use std::sync::Arc;

use super::change::{Change, ChangeBatch};
use crate::base::checksum::{checksum, location_seed};
use crate::base::coding::{Reader, put_bytes, put_u32, put_u64, put_varint};
use crate::error::{Error, ErrorKind, Result};

const MAGIC: &[u8; 8] = b"eskerCHG";
const VERSION: u32 = 1;
const HEADER_BYTES: usize = 28;
/// Maximum length of a frame, in bytes: a batch may have just under 4 GiB.
const FRAME_BYTES_MAX: u64 = 6 << 30;
/// Bytes that a reader allocates ahead of what has arrived.
const READ_BYTES: u64 = 1 << 20;

const BATCH: u8 = 1;
const ALIVE: u8 = 2;
const END: u8 = 3;
const BOOTSTRAP: u8 = 4;
const CONTENT: u8 = 5;
const BOOTSTRAPPED: u8 = 6;
const PART: u8 = 7;

/// A part of a stream of changes.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum StreamItem {
    /// A batch of the feed, or a part of one ([`ChangeBatch::continues`]).
    Batch(ChangeBatch),
    /// The sender has nothing new. It is at this position.
    Alive {
        /// Position of the feed.
        position: u64,
    },
    /// The content of the store follows, in any number of [`StreamItem::Content`].
    BootstrapBegins,
    /// A part of the content: keyspaces, and pairs as puts.
    Content(Vec<Change>),
    /// The content was sent. It is that of the store at this position.
    BootstrapEnds {
        /// Position of the content in the feed.
        position: u64,
    },
    /// The feed was sent up to this position, and the stream ends.
    End {
        /// Position of the feed.
        position: u64,
    },
}

/// Writes a stream of changes.
///
/// ```
/// # fn main() -> esker::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// use esker::feed::{Applier, ChangeReader, ChangeWriter, StreamItem};
/// use esker::{Db, Options};
/// let source = Db::open(dir.path().join("source"), Options::default())?;
/// source.put("a", "1")?;
/// let mut bytes = Vec::new();
/// let mut writer = ChangeWriter::new(&mut bytes, source.store_id())?;
/// for batch in source.changes(0)? {
///     writer.write(&StreamItem::Batch(batch?))?;
/// }
/// writer.write(&StreamItem::End { position: 1 })?;
///
/// let target = Db::open(dir.path().join("target"), Options::default())?;
/// let mut reader = ChangeReader::new(&bytes[..])?;
/// let mut applier = Applier::new(&target, reader.source())?;
/// while let Some(item) = reader.next()? {
///     applier.apply(&item)?;
/// }
/// assert_eq!(&*target.get("a")?.unwrap(), b"1");
/// assert_eq!(applier.position(), Some(1));
/// # Ok(())
/// # }
/// ```
pub struct ChangeWriter<W> {
    out: W,
    source: u64,
    offset_bytes: u64,
    frame: Vec<u8>,
}

impl<W: Write> ChangeWriter<W> {
    /// Writes the header of a stream of the store with the identity `source`
    /// ([`Db::store_id`](crate::Db::store_id)).
    ///
    /// # Errors
    /// `Io`.
    pub fn new(mut out: W, source: u64) -> Result<ChangeWriter<W>> {
        let mut header = MAGIC.to_vec();
        put_u32(&mut header, VERSION);
        put_u64(&mut header, source);
        let sum = checksum(&header, 0);
        put_u64(&mut header, sum);
        out.write_all(&header).map_err(write_error)?;
        Ok(ChangeWriter { out, source, offset_bytes: HEADER_BYTES as u64, frame: Vec::new() })
    }

    /// Writes one item. It may stay in a buffer of the writer below.
    ///
    /// # Errors
    /// `Io`; the stream is unusable then.
    pub fn write(&mut self, item: &StreamItem) -> Result<()> {
        let mut frame = std::mem::take(&mut self.frame);
        frame.clear();
        encode_item(&mut frame, item);
        let head = (frame.len() as u64).to_le_bytes();
        let seed = location_seed(self.source, self.offset_bytes);
        let sum = crate::base::checksum::checksum_parts(&[&head, &frame], seed);
        let written = self.out.write_all(&head).and_then(|()| self.out.write_all(&frame));
        let written = written.and_then(|()| self.out.write_all(&sum.to_le_bytes()));
        self.offset_bytes += 16 + frame.len() as u64;
        if frame.capacity() <= READ_BYTES as usize {
            self.frame = frame;
        }
        written.map_err(write_error)
    }

    /// Flushes the writer below.
    ///
    /// # Errors
    /// `Io`.
    pub fn flush(&mut self) -> Result<()> {
        self.out.flush().map_err(write_error)
    }
}

/// Reads a stream of changes. See [`ChangeWriter`].
pub struct ChangeReader<R> {
    input: R,
    source: u64,
    offset_bytes: u64,
    has_ended: bool,
}

impl<R: Read> ChangeReader<R> {
    /// Reads the header of a stream.
    ///
    /// # Errors
    /// `Corruption` when the input is no such stream or is cut; `Incompatible` for a newer version;
    /// `Io`.
    pub fn new(mut input: R) -> Result<ChangeReader<R>> {
        let mut header = [0; HEADER_BYTES];
        let read = read_up_to(&mut input, &mut header)?;
        if read < HEADER_BYTES {
            let message = format!(
                "expected the {HEADER_BYTES} bytes of the header of a stream of changes, found {read}"
            );
            return Err(Error::new(ErrorKind::Corruption, message));
        }
        let mut reader = Reader::new(&header);
        let fields = (reader.take(8), reader.u32(), reader.u64(), reader.u64());
        let sum = checksum(&header[..HEADER_BYTES - 8], 0);
        match fields {
            (Some(magic), Some(version), Some(source), Some(found))
                if magic == MAGIC && found == sum =>
            {
                if version != VERSION {
                    let message = format!(
                        "expected version {VERSION} of a stream of changes, found {version}"
                    );
                    return Err(Error::new(ErrorKind::Incompatible, message));
                }
                let offset_bytes = HEADER_BYTES as u64;
                Ok(ChangeReader { input, source, offset_bytes, has_ended: false })
            }
            _ => {
                let message = "the input is no stream of changes, as `esker changes` writes it";
                Err(Error::new(ErrorKind::Corruption, message))
            }
        }
    }

    /// Returns the identity of the store that the stream is of.
    pub fn source(&self) -> u64 {
        self.source
    }

    /// Returns the input, for example to ask its buffer whether the next item has arrived.
    pub fn input(&self) -> &R {
        &self.input
    }

    /// Reads the next item. Returns `None` after the end frame. Every item that was returned is
    /// whole; the caller can apply it and read the rest from a new stream.
    ///
    /// # Errors
    /// `Corruption` when the stream is damaged; `Io` when it ends without its end frame, because the
    /// sender was interrupted.
    #[allow(clippy::should_implement_trait)]
    pub fn next(&mut self) -> Result<Option<StreamItem>> {
        if self.has_ended {
            return Ok(None);
        }
        let mut head = [0; 8];
        let read = read_up_to(&mut self.input, &mut head)?;
        if read < head.len() {
            return Err(self.cut(if read == 0 { "between two frames" } else { "within a frame" }));
        }
        let len = u64::from_le_bytes(head);
        if len == 0 || len > FRAME_BYTES_MAX {
            return Err(self.damaged("the length of a frame is impossible"));
        }
        let mut frame = Vec::new();
        let taken = (&mut self.input).take(len + 8).read_to_end(&mut frame);
        taken.map_err(read_error)?;
        let Some((content, sum)) = frame.split_last_chunk::<8>() else {
            return Err(self.cut("within a frame"));
        };
        if frame.len() as u64 != len + 8 {
            return Err(self.cut("within a frame"));
        }
        let seed = location_seed(self.source, self.offset_bytes);
        if crate::base::checksum::checksum_parts(&[&head, content], seed)
            != u64::from_le_bytes(*sum)
        {
            return Err(self.damaged("the checksum of a frame does not fit"));
        }
        let Some(item) = decode_item(content) else {
            return Err(self.damaged("a frame with a valid checksum has an unknown content"));
        };
        self.offset_bytes += 16 + len;
        self.has_ended = matches!(item, StreamItem::End { .. });
        Ok(Some(item))
    }

    fn cut(&self, place: &str) -> Error {
        let message = format!(
            "the stream of changes was cut at byte {}, {place}: its sender was interrupted; all \
             items before are whole, start both ends again",
            self.offset_bytes
        );
        Error::new(ErrorKind::Io, message)
    }

    fn damaged(&self, what: &str) -> Error {
        let message = format!(
            "the stream of changes is damaged at byte {}: {what}; start both ends again",
            self.offset_bytes
        );
        Error::new(ErrorKind::Corruption, message)
    }
}

fn write_error(error: std::io::Error) -> Error {
    Error::io(std::path::Path::new("-"), "write the stream of changes", error)
}

fn read_error(error: std::io::Error) -> Error {
    Error::io(std::path::Path::new("-"), "read the stream of changes", error)
}

/// Fills `buf` as far as the input reaches. Returns the number of bytes read.
fn read_up_to(input: &mut impl Read, buf: &mut [u8]) -> Result<usize> {
    let mut at = 0;
    while at < buf.len() {
        match input.read(&mut buf[at..]) {
            Ok(0) => break,
            Ok(read) => at += read,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(read_error(error)),
        }
    }
    Ok(at)
}

fn encode_item(out: &mut Vec<u8>, item: &StreamItem) {
    match item {
        StreamItem::Batch(batch) => {
            let is_part = batch.continues || batch.part > 0;
            out.push(if is_part { PART } else { BATCH });
            if is_part {
                put_u64(out, batch.part);
                out.push(u8::from(batch.continues));
            }
            let ChangeBatch { first_sequence, sequence, checksum, previous, .. } = *batch;
            for number in [first_sequence, sequence, checksum, previous, batch.previous_checksum] {
                put_u64(out, number);
            }
            batch.changes.iter().for_each(|change| encode_change(out, change));
        }
        StreamItem::Content(changes) => {
            out.push(CONTENT);
            changes.iter().for_each(|change| encode_change(out, change));
        }
        StreamItem::BootstrapBegins => out.push(BOOTSTRAP),
        StreamItem::Alive { position } => position_item(out, ALIVE, *position),
        StreamItem::BootstrapEnds { position } => position_item(out, BOOTSTRAPPED, *position),
        StreamItem::End { position } => position_item(out, END, *position),
    }
}

fn position_item(out: &mut Vec<u8>, kind: u8, position: u64) {
    out.push(kind);
    put_u64(out, position);
}

fn decode_item(bytes: &[u8]) -> Option<StreamItem> {
    let mut reader = Reader::new(bytes);
    let kind = reader.u8()?;
    let item = match kind {
        BATCH | PART => {
            let (part, continues) = match kind {
                PART => (reader.u64()?, reader.u8()? != 0),
                _ => (0, false),
            };
            let batch = decode_batch(&mut reader, part, continues)?;
            StreamItem::Batch(batch)
        }
        CONTENT => StreamItem::Content(decode_changes(&mut reader)?),
        BOOTSTRAP => StreamItem::BootstrapBegins,
        ALIVE => StreamItem::Alive { position: reader.u64()? },
        BOOTSTRAPPED => StreamItem::BootstrapEnds { position: reader.u64()? },
        END => StreamItem::End { position: reader.u64()? },
        _ => return None,
    };
    reader.is_empty().then_some(item)
}

/// Decodes the rest of a batch.
fn decode_batch(reader: &mut Reader<'_>, part: u64, continues: bool) -> Option<ChangeBatch> {
    Some(ChangeBatch {
        first_sequence: reader.u64()?,
        sequence: reader.u64()?,
        checksum: reader.u64()?,
        previous: reader.u64()?,
        previous_checksum: reader.u64()?,
        part,
        continues,
        changes: decode_changes(reader)?,
    })
}

fn encode_change(out: &mut Vec<u8>, change: &Change) {
    let mut fields = |kind: u8, fields: &[&[u8]]| {
        out.push(kind);
        fields.iter().for_each(|field| put_bytes(out, field));
    };
    match change {
        Change::Put { keyspace, key, value, expires_ms: None } => {
            fields(1, &[keyspace.as_bytes(), key, value]);
        }
        Change::Put { keyspace, key, value, expires_ms: Some(time_ms) } => {
            fields(2, &[keyspace.as_bytes(), key, value]);
            put_u64(out, *time_ms);
        }
        Change::Merge { keyspace, key, operand } => fields(3, &[keyspace.as_bytes(), key, operand]),
        Change::Delete { keyspace, key } => fields(4, &[keyspace.as_bytes(), key]),
        Change::DeleteRange { keyspace, start, end } => {
            fields(5, &[keyspace.as_bytes(), start, end]);
        }
        Change::Clear { keyspace } => fields(6, &[keyspace.as_bytes()]),
        Change::KeyspaceCreated { keyspace, key_order, options } => {
            fields(7, &[keyspace.as_bytes(), key_order.as_bytes()]);
            put_varint(out, options.len() as u64);
            for text in options.iter().flat_map(|(name, value)| [name, value]) {
                put_bytes(out, text.as_bytes());
            }
        }
        Change::KeyspaceRenamed { keyspace, new_name } => {
            fields(8, &[keyspace.as_bytes(), new_name.as_bytes()]);
        }
        Change::KeyspaceDropped { keyspace } => fields(9, &[keyspace.as_bytes()]),
    }
}

fn decode_changes(reader: &mut Reader<'_>) -> Option<Vec<Change>> {
    let mut changes = Vec::new();
    let mut last: Option<Arc<str>> = None;
    while !reader.is_empty() {
        let kind = reader.u8()?;
        let name = std::str::from_utf8(reader.bytes()?).ok()?;
        let keyspace =
            last.take().filter(|last| **last == *name).unwrap_or_else(|| Arc::from(name));
        last = Some(keyspace.clone());
        let mut bytes = || reader.bytes().map(<[u8]>::to_vec);
        let change = match kind {
            1 => Change::Put { keyspace, key: bytes()?, value: bytes()?, expires_ms: None },
            2 => {
                let (key, value) = (bytes()?, bytes()?);
                Change::Put { keyspace, key, value, expires_ms: Some(reader.u64()?) }
            }
            3 => Change::Merge { keyspace, key: bytes()?, operand: bytes()? },
            4 => Change::Delete { keyspace, key: bytes()? },
            5 => Change::DeleteRange { keyspace, start: bytes()?, end: bytes()? },
            6 => Change::Clear { keyspace },
            7 => {
                let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).ok();
                let key_order = text(reader.bytes()?)?;
                let mut options = Vec::new();
                for _ in 0..reader.varint()? {
                    options.push((text(reader.bytes()?)?, text(reader.bytes()?)?));
                }
                Change::KeyspaceCreated { keyspace, key_order, options }
            }
            8 => {
                let new_name = Arc::from(std::str::from_utf8(reader.bytes()?).ok()?);
                Change::KeyspaceRenamed { keyspace, new_name }
            }
            9 => Change::KeyspaceDropped { keyspace },
            _ => return None,
        };
        changes.push(change);
    }
    Some(changes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn items() -> Vec<StreamItem> {
        let (keyspace, other): (Arc<str>, Arc<str>) = (Arc::from("default"), Arc::from("b"));
        let (key, value) = (b"k".to_vec(), b"v".to_vec());
        let put = |expires_ms| Change::Put {
            keyspace: keyspace.clone(),
            key: key.clone(),
            value: value.clone(),
            expires_ms,
        };
        let changes = vec![
            put(None),
            put(Some(5)),
            Change::Merge { keyspace: other.clone(), key: key.clone(), operand: value.clone() },
            Change::Delete { keyspace: other.clone(), key: key.clone() },
            Change::DeleteRange { keyspace: keyspace.clone(), start: key, end: value },
            Change::Clear { keyspace: other.clone() },
            Change::KeyspaceCreated {
                keyspace: other.clone(),
                key_order: "bytewise".into(),
                options: vec![("policy".into(), "tiered".into())],
            },
            Change::KeyspaceRenamed { keyspace: other.clone(), new_name: keyspace },
            Change::KeyspaceDropped { keyspace: other },
        ];
        vec![
            StreamItem::BootstrapBegins,
            StreamItem::Content(changes.clone()),
            StreamItem::BootstrapEnds { position: 4 },
            StreamItem::Batch(ChangeBatch {
                first_sequence: 5,
                sequence: 9,
                checksum: 7,
                previous: 4,
                previous_checksum: 3,
                part: 0,
                continues: false,
                changes,
            }),
            StreamItem::Batch(ChangeBatch {
                first_sequence: 10,
                sequence: 10,
                checksum: 5,
                previous: 9,
                previous_checksum: 7,
                part: 3,
                continues: true,
                changes: Vec::new(),
            }),
            StreamItem::Alive { position: 9 },
            StreamItem::End { position: 9 },
        ]
    }

    fn stream() -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut writer = ChangeWriter::new(&mut bytes, 3).unwrap();
        items().iter().for_each(|item| writer.write(item).unwrap());
        bytes
    }

    fn read(bytes: &[u8]) -> Result<Vec<StreamItem>> {
        let mut reader = ChangeReader::new(bytes)?;
        let mut items = Vec::new();
        while let Some(item) = reader.next()? {
            items.push(item);
        }
        Ok(items)
    }

    #[test]
    fn a_stream_round_trips_and_a_cut_or_damaged_one_is_an_error() {
        let bytes = stream();
        assert_eq!(read(&bytes).unwrap(), items());
        for len in 0..bytes.len() {
            let error = read(&bytes[..len]).unwrap_err();
            assert!(matches!(error.kind(), ErrorKind::Io | ErrorKind::Corruption), "{error}");
        }
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 0x41;
            assert!(read(&damaged).is_err(), "{at}");
        }
        // A frame that is left out is noticed, though the others are whole.
        let second = HEADER_BYTES + 17;
        let left_out = [&bytes[..HEADER_BYTES], &bytes[second..]].concat();
        assert_eq!(read(&left_out).unwrap_err().kind(), ErrorKind::Corruption);
    }
}
