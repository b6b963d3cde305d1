//! The bytes of a write batch in RocksDB's format, which programs store and send to each other
//! (`rocksdb_writebatch_data`, `rocksdb_writebatch_create_from`).
//!
//! Format: a sequence number (8 bytes), the number of operations (4 bytes, little endian), then the
//! records. A record is a tag (1 byte), the number of the column family (varint, only with the tags
//! of column families), then one or two byte strings, each with its length (varint) before it.
//!
//! Invariants:
//! 1. Bytes from outside are checked while they are read. Damaged bytes are an error.
//! 2. A record of log data is no operation and is not counted.

use esker_c::failure::{ESKER_CORRUPTION, Failure, Outcome};

/// Bytes before the records.
const HEADER_BYTES: usize = 12;

const DELETE: u8 = 0x0;
const PUT: u8 = 0x1;
const MERGE: u8 = 0x2;
const LOG_DATA: u8 = 0x3;
const DELETE_IN: u8 = 0x4;
const PUT_IN: u8 = 0x5;
const MERGE_IN: u8 = 0x6;
const SINGLE_DELETE: u8 = 0x7;
const SINGLE_DELETE_IN: u8 = 0x8;
const NOOP: u8 = 0xd;
const DELETE_RANGE_IN: u8 = 0xe;
const DELETE_RANGE: u8 = 0xf;

/// A record of a batch. Family 0 is the default column family.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Record<'a> {
    /// Sets a key.
    Put {
        /// Column family.
        family: u32,
        /// Key.
        key: &'a [u8],
        /// Value.
        value: &'a [u8],
    },
    /// Deletes a key.
    Delete {
        /// Column family.
        family: u32,
        /// Key.
        key: &'a [u8],
    },
    /// Deletes a key that was set once.
    SingleDelete {
        /// Column family.
        family: u32,
        /// Key.
        key: &'a [u8],
    },
    /// Deletes the keys from `start` (inclusive) to `end` (exclusive).
    DeleteRange {
        /// Column family.
        family: u32,
        /// First key.
        start: &'a [u8],
        /// First key that stays.
        end: &'a [u8],
    },
    /// Merges an operand into a key.
    Merge {
        /// Column family.
        family: u32,
        /// Key.
        key: &'a [u8],
        /// Operand.
        operand: &'a [u8],
    },
    /// Bytes for the log, which no read returns.
    LogData(&'a [u8]),
}

impl Record<'_> {
    /// Returns the number of the column family; 0 for log data.
    pub fn family(&self) -> u32 {
        match self {
            Record::Put { family, .. }
            | Record::Delete { family, .. }
            | Record::SingleDelete { family, .. }
            | Record::DeleteRange { family, .. }
            | Record::Merge { family, .. } => *family,
            Record::LogData(_) => 0,
        }
    }
}

/// A position in a batch, to which it can be cut back.
#[derive(Debug, Clone, Copy)]
pub struct Mark {
    bytes: usize,
    count: u32,
}

/// The bytes of a batch.
#[derive(Debug, Clone)]
pub struct Rep {
    bytes: Vec<u8>,
}

impl Default for Rep {
    fn default() -> Rep {
        Rep { bytes: vec![0; HEADER_BYTES] }
    }
}

impl Rep {
    /// Returns a batch with these bytes. They are checked when they are read.
    pub fn from_bytes(bytes: &[u8]) -> Rep {
        if bytes.is_empty() { Rep::default() } else { Rep { bytes: bytes.to_vec() } }
    }

    /// Returns the bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns the number of operations.
    pub fn count(&self) -> u32 {
        let count = self.bytes.get(8..HEADER_BYTES).and_then(|bytes| bytes.try_into().ok());
        count.map_or(0, u32::from_le_bytes)
    }

    /// Sets the sequence number of the first operation.
    pub fn set_sequence(&mut self, sequence: u64) {
        if let Some(place) = self.bytes.first_chunk_mut() {
            *place = sequence.to_le_bytes();
        }
    }

    /// Removes all records.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.bytes.resize(HEADER_BYTES, 0);
    }

    /// Returns the current end.
    pub fn mark(&self) -> Mark {
        Mark { bytes: self.bytes.len(), count: self.count() }
    }

    /// Removes the records after `mark`.
    pub fn truncate(&mut self, mark: Mark) {
        self.bytes.truncate(mark.bytes);
        self.set_count(mark.count);
    }

    /// Appends a record. Returns its position.
    pub fn push(&mut self, record: Record<'_>) -> usize {
        let at = self.bytes.len();
        match record {
            Record::Put { family, key, value } => {
                self.tag(PUT, PUT_IN, family);
                self.string(key);
                self.string(value);
            }
            Record::Delete { family, key } => {
                self.tag(DELETE, DELETE_IN, family);
                self.string(key);
            }
            Record::SingleDelete { family, key } => {
                self.tag(SINGLE_DELETE, SINGLE_DELETE_IN, family);
                self.string(key);
            }
            Record::DeleteRange { family, start, end } => {
                self.tag(DELETE_RANGE, DELETE_RANGE_IN, family);
                self.string(start);
                self.string(end);
            }
            Record::Merge { family, key, operand } => {
                self.tag(MERGE, MERGE_IN, family);
                self.string(key);
                self.string(operand);
            }
            Record::LogData(blob) => {
                self.bytes.push(LOG_DATA);
                self.string(blob);
                return at;
            }
        }
        self.set_count(self.count().saturating_add(1));
        at
    }

    /// Returns the records, in order. Damaged bytes are an error, which ends them.
    pub fn records(&self) -> Records<'_> {
        Records { rest: self.bytes.get(HEADER_BYTES..), is_short: self.bytes.len() < HEADER_BYTES }
    }

    /// Returns the record at a position returned by [`Rep::push`].
    pub fn record_at(&self, at: usize) -> Option<Record<'_>> {
        let rest = self.bytes.get(at..)?;
        Records { rest: Some(rest), is_short: false }.next()?.ok()
    }

    fn tag(&mut self, default: u8, of_family: u8, family: u32) {
        if family == 0 {
            self.bytes.push(default);
        } else {
            self.bytes.push(of_family);
            self.varint(family);
        }
    }

    fn string(&mut self, string: &[u8]) {
        // Longer strings are refused by the store when the batch is written.
        self.varint(u32::try_from(string.len()).unwrap_or(u32::MAX));
        self.bytes.extend_from_slice(string);
    }

    fn varint(&mut self, mut number: u32) {
        while number >= 0x80 {
            self.bytes.push(number as u8 | 0x80);
            number >>= 7;
        }
        self.bytes.push(number as u8);
    }

    fn set_count(&mut self, count: u32) {
        if let Some(place) = self.bytes.get_mut(8..HEADER_BYTES) {
            place.copy_from_slice(&count.to_le_bytes());
        }
    }
}

/// Iterator over the records of a batch.
pub struct Records<'a> {
    rest: Option<&'a [u8]>,
    is_short: bool,
}

impl<'a> Iterator for Records<'a> {
    type Item = Outcome<Record<'a>>;

    fn next(&mut self) -> Option<Self::Item> {
        if std::mem::take(&mut self.is_short) {
            return Some(Err(damaged("malformed WriteBatch (too small)")));
        }
        loop {
            let mut rest = self.rest.take().filter(|rest| !rest.is_empty())?;
            return match read(&mut rest) {
                Some(Some(record)) => {
                    self.rest = Some(rest);
                    Some(Ok(record))
                }
                // A no-op.
                Some(None) => {
                    self.rest = Some(rest);
                    continue;
                }
                None => Some(Err(damaged("malformed WriteBatch: a record cannot be read"))),
            };
        }
    }
}

fn damaged(message: &str) -> Failure {
    Failure { code: ESKER_CORRUPTION, message: message.to_string() }
}

/// Reads a record; the inner `None` is a no-op, the outer one damage.
fn read<'a>(rest: &mut &'a [u8]) -> Option<Option<Record<'a>>> {
    let (tag, after) = rest.split_first()?;
    *rest = after;
    let family = match *tag {
        DELETE_IN | PUT_IN | MERGE_IN | SINGLE_DELETE_IN | DELETE_RANGE_IN => varint(rest)?,
        _ => 0,
    };
    Some(Some(match *tag {
        PUT | PUT_IN => Record::Put { family, key: string(rest)?, value: string(rest)? },
        DELETE | DELETE_IN => Record::Delete { family, key: string(rest)? },
        SINGLE_DELETE | SINGLE_DELETE_IN => Record::SingleDelete { family, key: string(rest)? },
        MERGE | MERGE_IN => Record::Merge { family, key: string(rest)?, operand: string(rest)? },
        DELETE_RANGE | DELETE_RANGE_IN => {
            Record::DeleteRange { family, start: string(rest)?, end: string(rest)? }
        }
        LOG_DATA => Record::LogData(string(rest)?),
        NOOP => return Some(None),
        _ => return None,
    }))
}

fn varint(rest: &mut &[u8]) -> Option<u32> {
    let mut number = 0u64;
    for shift in (0..35).step_by(7) {
        let (byte, after) = rest.split_first()?;
        *rest = after;
        number |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return u32::try_from(number).ok();
        }
    }
    None
}

fn string<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let len = varint(rest)? as usize;
    let (string, after) = rest.split_at_checked(len)?;
    *rest = after;
    Some(string)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: &[Record<'_>] = &[
        Record::Put { family: 0, key: b"a", value: b"1" },
        Record::Delete { family: 0, key: b"" },
        Record::SingleDelete { family: 0, key: b"c" },
        Record::DeleteRange { family: 0, start: b"d", end: b"e" },
        Record::Merge { family: 0, key: b"f", operand: b"2" },
        Record::LogData(b"note"),
        Record::Put { family: 300, key: b"a", value: b"" },
        Record::Delete { family: 1, key: b"b" },
        Record::SingleDelete { family: 2, key: b"c" },
        Record::DeleteRange { family: 3, start: b"d", end: b"e" },
        Record::Merge { family: 4, key: b"f", operand: b"2" },
    ];

    #[test]
    fn records_are_read_back_in_order() {
        let mut rep = Rep::default();
        let places: Vec<usize> = ALL.iter().map(|record| rep.push(*record)).collect();
        assert_eq!(rep.count() as usize, ALL.len() - 1);
        let again = Rep::from_bytes(rep.as_bytes());
        let read: Vec<Record<'_>> = again.records().map(Result::unwrap).collect();
        assert_eq!(read, ALL);
        for (place, record) in places.iter().zip(ALL) {
            assert_eq!(rep.record_at(*place), Some(*record));
        }
    }

    #[test]
    fn bytes_are_those_of_rocksdb() {
        let mut rep = Rep::default();
        rep.push(Record::Put { family: 0, key: b"bar", value: b"b" });
        rep.push(Record::Delete { family: 200, key: b"box" });
        let expected = b"\0\0\0\0\0\0\0\0\x02\0\0\0\x01\x03bar\x01b\x04\xc8\x01\x03box";
        assert_eq!(rep.as_bytes(), expected);
    }

    #[test]
    fn a_batch_is_cut_back_to_a_mark() {
        let mut rep = Rep::default();
        rep.push(ALL[0]);
        let mark = rep.mark();
        let before = rep.as_bytes().to_vec();
        rep.push(ALL[3]);
        rep.truncate(mark);
        assert_eq!((rep.as_bytes(), rep.count()), (&before[..], 1));
        rep.clear();
        assert_eq!((rep.count(), rep.records().count()), (0, 0));
    }

    #[test]
    fn damaged_bytes_are_an_error() {
        let mut rep = Rep::default();
        rep.push(ALL[0]);
        for len in 1..rep.as_bytes().len() {
            let cut = Rep::from_bytes(&rep.as_bytes()[..len]);
            let read: Outcome<Vec<Record<'_>>> = cut.records().collect();
            assert_eq!(read.is_err(), len != HEADER_BYTES, "{len}");
        }
        let mut unknown = rep.as_bytes().to_vec();
        unknown[HEADER_BYTES] = 0x77;
        assert!(Rep::from_bytes(&unknown).records().any(|record| record.is_err()));
        let endless = [&[0; HEADER_BYTES][..], &[PUT], &[0xff; 9]].concat();
        assert!(Rep::from_bytes(&endless).records().any(|record| record.is_err()));
    }
}
