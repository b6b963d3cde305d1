//! The records of a mixed workload: the form of their keys, and the bytes of their values.
//!
//! A value is determined by its record, field and version, so that a foreign, torn or lost value is
//! detected. If a record has one field, the bytes of the field are the value. Several fields are
//! encoded as in YCSB-cpp, each as the name's length, the name, the length, the bytes.

use super::generators::{ZIPFIAN_CONSTANT, Zipfian};
use super::hash::fnv64;
use crate::error::{LabError, Result};
use crate::workload::csv::CsvPairs;
use crate::workload::keys::KeyBuffer;
use crate::workload::rng::mix;
use crate::workload::values::{ValuePool, ValueRef};

/// Form of the keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyForm {
    /// `user` and a number, as in YCSB.
    User {
        /// Uses the record's hash as the number instead of the record.
        hashed: bool,
        /// Minimum number of digits.
        padding: usize,
    },
    /// Decimal, padded with zeros, as in db_bench.
    Decimal {
        /// Width in bytes.
        width: usize,
    },
    /// Four bytes, big-endian, so that key order is number order.
    Binary,
}

/// Length of a field in bytes.
#[derive(Clone, Debug)]
pub enum FieldLength {
    /// Constant length.
    Constant(usize),
    /// Uniform from the first to the second, inclusive.
    Uniform(usize, usize),
    /// From the first upward, short lengths most often.
    Zipfian(usize, Zipfian),
}

impl FieldLength {
    /// Creates lengths from `least` to `most`, short lengths most often.
    pub fn zipfian(least: usize, most: usize) -> FieldLength {
        let items = (most - least) as u64 + 1;
        FieldLength::Zipfian(least, Zipfian::new(items, ZIPFIAN_CONSTANT))
    }

    fn of(&self, spread: u64) -> usize {
        match self {
            FieldLength::Constant(length) => *length,
            FieldLength::Uniform(least, most) => {
                least + (spread % (most - least + 1) as u64) as usize
            }
            FieldLength::Zipfian(least, zipfian) => {
                let u = (spread >> 11) as f64 / (1u64 << 53) as f64;
                least + zipfian.rank(u) as usize
            }
        }
    }

    fn most(&self, items_most: usize) -> usize {
        match self {
            FieldLength::Constant(length) => *length,
            FieldLength::Uniform(_, most) => *most,
            FieldLength::Zipfian(..) => items_most,
        }
    }

    /// Returns the mean length over many records.
    pub fn mean(&self) -> f64 {
        match self {
            FieldLength::Constant(length) => *length as f64,
            FieldLength::Uniform(least, most) => (least + most) as f64 / 2.0,
            FieldLength::Zipfian(..) => {
                let total: usize = (0..4096u64).map(|i| self.of(mix(i))).sum();
                total as f64 / 4096.0
            }
        }
    }
}

/// For a field, calls the visitor with each allowed version until one matches.
pub type Allowed<'a> = &'a dyn Fn(usize, &mut dyn FnMut(u16) -> bool) -> bool;

/// Maximum key length generated in place, in bytes.
const KEY_BYTES_MAX: usize = 64;
/// Maximum field length in bytes.
pub const FIELD_BYTES_MAX: usize = 1 << 20;

/// Buffer for a generated key, without a heap allocation.
#[derive(Clone, Debug)]
pub struct KeyText {
    bytes: [u8; KEY_BYTES_MAX],
}

impl Default for KeyText {
    fn default() -> KeyText {
        KeyText { bytes: [0; KEY_BYTES_MAX] }
    }
}

/// The form of all records.
#[derive(Debug)]
pub struct Space {
    form: KeyForm,
    fields: usize,
    length: FieldLength,
    pool: ValuePool,
    rows: Option<Rows>,
}

/// The rows of a file. Each distinct key is a record, numbered by first occurrence.
#[derive(Debug)]
struct Rows {
    keys: KeyBuffer,
    record_of_row: Vec<u32>,
    row_of_record: Vec<u32>,
    values: Vec<ValueRef>,
}

impl Space {
    /// Creates records with `fields` fields each; values compress to about `ratio`.
    pub fn new(form: KeyForm, fields: usize, length: FieldLength, ratio: f64, seed: u64) -> Space {
        let most = length.most(FIELD_BYTES_MAX).max(1);
        let pool = ValuePool::generate(seed, ratio, most);
        Space { form, fields, length, pool, rows: None }
    }

    /// Creates records from the rows of a file. Fails if the values exceed 4 GiB.
    pub fn from_rows(pairs: &CsvPairs) -> Result<Space> {
        let too_big = || LabError::usage("the values of the CSV exceed 4 GiB");
        let mut ids = std::collections::HashMap::new();
        let mut rows = Rows {
            keys: KeyBuffer::default(),
            record_of_row: Vec::new(),
            row_of_record: Vec::new(),
            values: Vec::new(),
        };
        let mut pool = ValuePool::new();
        for (row, (key, value)) in pairs.pairs.iter().enumerate() {
            let next = ids.len() as u32;
            let id = *ids.entry(key.as_slice()).or_insert(next);
            if id == next {
                rows.keys.push(&[key]);
                rows.row_of_record.push(row as u32);
            }
            rows.record_of_row.push(id);
            rows.values.push(pool.add(value).ok_or_else(too_big)?);
        }
        let length = FieldLength::Constant(0);
        Ok(Space { form: KeyForm::Binary, fields: 1, length, pool, rows: Some(rows) })
    }

    /// Returns the number of fields of a record.
    pub fn fields(&self) -> usize {
        self.fields
    }

    /// Returns the number of operations that write all rows once, and of the records they write;
    /// `None` if the number of records is unlimited.
    pub fn rows(&self) -> Option<(u64, u64)> {
        self.rows.as_ref().map(|rows| (rows.record_of_row.len() as u64, rows.keys.len() as u64))
    }

    /// Returns the record written by row `row`.
    pub fn record_of_row(&self, row: u64) -> u32 {
        match &self.rows {
            None => row as u32,
            Some(rows) => rows.record_of_row[row as usize % rows.record_of_row.len()],
        }
    }

    /// Returns the key of `record`.
    #[inline]
    pub fn key<'a>(&'a self, record: u32, text: &'a mut KeyText) -> &'a [u8] {
        if let Some(rows) = &self.rows {
            return rows.keys.get(record as usize);
        }
        match self.form {
            KeyForm::Binary => {
                text.bytes[..4].copy_from_slice(&record.to_be_bytes());
                &text.bytes[..4]
            }
            KeyForm::Decimal { width } => text.decimal(b"", u64::from(record), width),
            KeyForm::User { hashed, padding } => {
                let number = if hashed { fnv64(u64::from(record)) } else { u64::from(record) };
                text.decimal(b"user", number, padding)
            }
        }
    }

    /// Returns the mean bytes of a key and its value.
    pub fn pair_bytes_mean(&self) -> f64 {
        if let Some(rows) = &self.rows {
            let keys = rows.keys.key_bytes() as f64 / rows.keys.len().max(1) as f64;
            return keys + self.pool.len_bytes() as f64 / rows.values.len().max(1) as f64;
        }
        self.pair_bytes_of(0..256)
    }

    /// Returns the bytes of keys and values of the first `entries` pairs, estimated from a sample
    /// over the whole range, since the text of a larger number is longer.
    pub fn data_bytes(&self, entries: u64) -> u64 {
        if self.rows.is_some() {
            return (self.pair_bytes_mean() * entries as f64).round() as u64;
        }
        let last = u32::try_from(entries).unwrap_or(u32::MAX).max(1);
        let every = (last / 1024).max(1) as usize;
        (self.pair_bytes_of((0..last).step_by(every)) * entries as f64).round() as u64
    }

    /// Returns the mean bytes of a key and a value of these records.
    fn pair_bytes_of(&self, records: impl Iterator<Item = u32>) -> f64 {
        let (mut text, mut buffer) = (KeyText::default(), Vec::new());
        let of = |record: u32| {
            let key = self.key(record, &mut text).len();
            key + self.value(record, &mut |_| 0, &mut buffer).len()
        };
        let (sum, count) =
            records.map(of).fold((0, 0usize), |(sum, count), bytes| (sum + bytes, count + 1));
        sum as f64 / count.max(1) as f64
    }

    fn field(&self, record: u32, field: usize, version: u16) -> &[u8] {
        if let Some(rows) = &self.rows {
            let row = rows.row_of_record[record as usize] as usize + usize::from(version) * 7919;
            return self.pool.get(rows.values[row % rows.values.len()]);
        }
        let name = u64::from(record) | (field as u64) << 32;
        let length = self.length.of(mix(name ^ (u64::from(version) << 48)));
        // The pool is large enough for the longest field.
        let value = self.pool.cut(name, u32::from(version), length);
        self.pool.get(value.unwrap_or(ValueRef::ABSENT))
    }

    /// Returns the value of `record` whose field `f` has version `version(f)`; `buffer` holds a
    /// value with several fields.
    #[inline]
    pub fn value<'a>(
        &'a self,
        record: u32,
        version: &mut dyn FnMut(usize) -> u16,
        buffer: &'a mut Vec<u8>,
    ) -> &'a [u8] {
        if self.fields == 1 {
            return self.field(record, 0, version(0));
        }
        buffer.clear();
        for field in 0..self.fields {
            push_field(buffer, field, self.field(record, field, version(field)));
        }
        buffer
    }

    /// Returns whether `value` is a value of `record`, with each field in one of the versions
    /// `allowed(field)`. With `only`, the other fields are not checked.
    pub fn check(
        &self,
        record: u32,
        value: &[u8],
        only: Option<usize>,
        allowed: Allowed<'_>,
    ) -> bool {
        if self.fields == 1 {
            return allowed(0, &mut |version| value == self.field(record, 0, version));
        }
        let mut rest = value;
        for field in 0..self.fields {
            let Some((found, after)) = take_field(rest, field) else { return false };
            rest = after;
            let looked_at = only.is_none_or(|only| only == field);
            if looked_at && !allowed(field, &mut |v| found == self.field(record, field, v)) {
                return false;
            }
        }
        rest.is_empty()
    }

    /// Writes a stored value to `out` with one field replaced by its version `version`; an
    /// unreadable value is copied unchanged.
    pub fn replace(
        &self,
        record: u32,
        value: &[u8],
        field: usize,
        version: u16,
        out: &mut Vec<u8>,
    ) {
        out.clear();
        let mut rest = value;
        for index in 0..self.fields {
            let Some((found, after)) = take_field(rest, index) else {
                out.clear();
                out.extend_from_slice(value);
                return;
            };
            rest = after;
            let new = if index == field { self.field(record, field, version) } else { found };
            push_field(out, index, new);
        }
    }
}

fn field_name(field: usize, text: &mut [u8; 8]) -> &[u8] {
    text[..5].copy_from_slice(b"field");
    let mut end = 5;
    if field >= 100 {
        text[end] = b'0' + (field / 100 % 10) as u8;
        end += 1;
    }
    if field >= 10 {
        text[end] = b'0' + (field / 10 % 10) as u8;
        end += 1;
    }
    text[end] = b'0' + (field % 10) as u8;
    &text[..=end]
}

fn push_field(out: &mut Vec<u8>, field: usize, value: &[u8]) {
    let mut text = [0; 8];
    let name = field_name(field, &mut text);
    out.extend_from_slice(&(name.len() as u32).to_le_bytes());
    out.extend_from_slice(name);
    out.extend_from_slice(&(value.len() as u32).to_le_bytes());
    out.extend_from_slice(value);
}

fn take_field(bytes: &[u8], field: usize) -> Option<(&[u8], &[u8])> {
    let mut text = [0; 8];
    let name = field_name(field, &mut text);
    let (found, rest) = take_bytes(bytes)?;
    if found != name {
        return None;
    }
    take_bytes(rest)
}

fn take_bytes(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = bytes.split_first_chunk::<4>()?;
    rest.split_at_checked(u32::from_le_bytes(*length) as usize)
}

impl KeyText {
    #[inline]
    fn decimal(&mut self, head: &[u8], number: u64, width: usize) -> &[u8] {
        let mut digits = itoa::Buffer::new();
        let digits = digits.format(number).as_bytes();
        let zeros = width.min(KEY_BYTES_MAX - 8).saturating_sub(digits.len());
        let (start, end) = (head.len() + zeros, head.len() + zeros + digits.len());
        self.bytes[..head.len()].copy_from_slice(head);
        self.bytes[head.len()..start].fill(b'0');
        self.bytes[start..end].copy_from_slice(digits);
        &self.bytes[..end]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_forms_match_each_tool() {
        let key = |form, record| {
            let space = Space::new(form, 1, FieldLength::Constant(10), 1.0, 1);
            space.key(record, &mut KeyText::default()).to_vec()
        };
        let user = |hashed, padding| KeyForm::User { hashed, padding };
        assert_eq!(key(user(true, 1), 0), b"user6284781860667377211");
        assert_eq!(key(user(false, 1), 17), b"user17");
        assert_eq!(key(user(false, 8), 17), b"user00000017");
        assert_eq!(key(KeyForm::Decimal { width: 16 }, 42), b"0000000000000042");
        assert_eq!(key(KeyForm::Decimal { width: 0 }, 42), b"42");
        assert_eq!(key(KeyForm::Binary, 258), [0, 0, 1, 2]);
    }

    #[test]
    fn data_bytes_match_sum_of_pairs() {
        let space =
            Space::new(KeyForm::Decimal { width: 0 }, 1, FieldLength::Constant(100), 1.0, 1);
        let mut text = KeyText::default();
        let exact: usize = (0..5000).map(|record| space.key(record, &mut text).len() + 100).sum();
        let estimated = space.data_bytes(5000);
        assert!(estimated.abs_diff(exact as u64) < 1000, "{estimated} of {exact}");
        let binary = Space::new(KeyForm::Binary, 1, FieldLength::Constant(4), 1.0, 1);
        assert_eq!(binary.data_bytes(33_554_432), 33_554_432 * 8);
    }

    #[test]
    fn field_layout_matches_ycsb_cpp_and_fields_change_separately() {
        let form = KeyForm::User { hashed: true, padding: 1 };
        let space = Space::new(form, 12, FieldLength::Constant(20), 0.5, 1);
        let mut buffer = Vec::new();
        let value = space.value(7, &mut |_| 0, &mut buffer).to_vec();
        assert_eq!(value.len(), 10 * (4 + 6 + 4 + 20) + 2 * (4 + 7 + 4 + 20));
        assert_eq!(value[..14], *b"\x06\x00\x00\x00field0\x14\x00\x00\x00");
        let mut changed = Vec::new();
        space.replace(7, &value, 11, 3, &mut changed);
        assert_ne!(changed, value);
        let in_version = |wanted: u16| {
            move |field: usize, fits: &mut dyn FnMut(u16) -> bool| {
                fits(if field == 11 { wanted } else { 0 })
            }
        };
        assert!(space.check(7, &changed, None, &in_version(3)));
        assert!(!space.check(7, &changed, None, &in_version(0)));
        assert!(space.check(7, &changed, Some(2), &in_version(0)));
        assert!(!space.check(8, &changed, None, &in_version(3)));
        assert!(!space.check(7, &changed[..40], None, &in_version(3)));
    }

    #[test]
    fn field_lengths_stay_within_bounds() {
        let uniform = FieldLength::Uniform(5, 9);
        let zipfian = FieldLength::zipfian(1, 100);
        for spread in (0..2000).map(mix) {
            assert!((5..=9).contains(&uniform.of(spread)));
            assert!((1..=101).contains(&zipfian.of(spread)));
        }
        assert!((uniform.mean() - 7.0).abs() < 1e-9);
        assert!(zipfian.mean() < 40.0 && zipfian.mean() > 5.0, "{}", zipfian.mean());
    }

    #[test]
    fn rows_of_one_key_are_one_record() {
        let pair = |key: &str, value: &str| (key.as_bytes().to_vec(), value.as_bytes().to_vec());
        let pairs = vec![pair("b", "one"), pair("a", "two"), pair("b", "three")];
        let space = Space::from_rows(&CsvPairs { pairs, bad_rows: Vec::new() }).expect("small");
        assert_eq!(space.rows(), Some((3, 2)));
        assert_eq!([0, 1, 2].map(|row| space.record_of_row(row)), [0, 1, 0]);
        assert_eq!(space.key(1, &mut KeyText::default()), b"a");
        assert_eq!(space.value(1, &mut |_| 0, &mut Vec::new()), b"two");
    }
}
