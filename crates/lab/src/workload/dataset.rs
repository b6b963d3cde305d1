//! The pairs of a benchmark: generated as by db_bench, or the rows of a CSV file.
//!
//! A *row* is one write of a full fill. Rows may share a key (a CSV file's key column may repeat),
//! so keys have their own ids in byte order: id `i` is the i-th smallest key.

use super::csv::CsvPairs;
use super::keys::{KeyBuffer, digits};
use super::rng::{Rng, mix};
use super::values::{ValuePool, ValueRef};
use crate::error::{LabError, LabErrorKind, Result};

/// Pairs to write, and the pool that provides their values.
#[derive(Debug)]
pub struct Dataset {
    pool: ValuePool,
    source: Source,
}

#[derive(Debug)]
enum Source {
    Generated { entries: u64, key_bytes: usize, value_bytes: usize },
    Rows { keys: KeyBuffer, rows: Vec<(u32, ValueRef)>, last_row_of_key: Vec<u32> },
}

/// One write: key id and value.
pub type Write = (u32, ValueRef);

/// Value size of the task fill100K, in bytes.
pub const BIG_VALUE_BYTES: usize = 100_000;

impl Dataset {
    /// Generates `entries` keys 0, 1, 2 … in decimal with `key_bytes` bytes, and values of
    /// `value_bytes` that compress to about `ratio`. Fails if the keys do not fit or ids would
    /// overflow.
    pub fn generated(
        entries: u64,
        key_bytes: usize,
        value_bytes: usize,
        ratio: f64,
        seed: u64,
    ) -> Result<Dataset> {
        if entries == 0 || entries >= u64::from(u32::MAX) {
            return Err(LabError::usage(format!("num must be 1 to {}", u32::MAX - 1)));
        }
        let digits = digits(entries - 1);
        if key_bytes < digits {
            return Err(LabError::usage(format!(
                "key_size {key_bytes} is too short for {entries} keys, which need {digits} digits"
            )));
        }
        let pool = ValuePool::generate(seed, ratio, value_bytes.max(BIG_VALUE_BYTES));
        Ok(Dataset { pool, source: Source::Generated { entries, key_bytes, value_bytes } })
    }

    /// Takes the rows of a file, in file order. Fails if the values exceed 4 GiB.
    pub fn from_rows(pairs: &CsvPairs) -> Result<Dataset> {
        let too_big = || LabError::new(LabErrorKind::Data, "the values of the CSV exceed 4 GiB");
        let mut order: Vec<&[u8]> = pairs.pairs.iter().map(|(key, _)| key.as_slice()).collect();
        order.sort_unstable();
        order.dedup();
        let mut keys = KeyBuffer::with_capacity(order.len(), 16);
        for key in &order {
            keys.push(&[key]);
        }
        let mut pool = ValuePool::new();
        let mut rows = Vec::with_capacity(pairs.pairs.len());
        let mut last_row_of_key = vec![0u32; order.len()];
        for (row, (key, value)) in pairs.pairs.iter().enumerate() {
            let id = order.binary_search(&key.as_slice()).unwrap_or(0);
            last_row_of_key[id] = u32::try_from(row).map_err(|_| too_big())?;
            rows.push((id as u32, pool.add(value).ok_or_else(too_big)?));
        }
        Ok(Dataset { pool, source: Source::Rows { keys, rows, last_row_of_key } })
    }

    /// Returns the number of writes of a full fill.
    pub fn rows(&self) -> u64 {
        match &self.source {
            Source::Generated { entries, .. } => *entries,
            Source::Rows { rows, .. } => rows.len() as u64,
        }
    }

    /// Returns the number of distinct keys.
    pub fn key_count(&self) -> usize {
        match &self.source {
            Source::Generated { entries, .. } => *entries as usize,
            Source::Rows { keys, .. } => keys.len(),
        }
    }

    /// Returns the mean bytes of a key, over the rows of a full fill.
    pub fn key_bytes_mean(&self) -> f64 {
        match &self.source {
            Source::Generated { key_bytes, .. } => *key_bytes as f64,
            Source::Rows { keys, rows, .. } => {
                let total: usize = rows.iter().map(|&(id, _)| keys.get(id as usize).len()).sum();
                total as f64 / rows.len().max(1) as f64
            }
        }
    }

    /// Returns the mean bytes of a value, over the rows of a full fill.
    pub fn value_bytes_mean(&self) -> f64 {
        match &self.source {
            Source::Generated { value_bytes, .. } => *value_bytes as f64,
            Source::Rows { rows, .. } => self.pool.len_bytes() as f64 / rows.len().max(1) as f64,
        }
    }

    /// Returns the bytes of keys and values of a full fill.
    pub fn raw_bytes(&self) -> u64 {
        ((self.key_bytes_mean() + self.value_bytes_mean()) * self.rows() as f64).round() as u64
    }

    /// Appends key `id` to `out`, followed by `suffix`.
    pub fn push_key(&self, id: u32, suffix: &[u8], out: &mut KeyBuffer) {
        match &self.source {
            Source::Generated { key_bytes, .. } if suffix.is_empty() => {
                out.push_number(u64::from(id), *key_bytes);
            }
            Source::Generated { key_bytes, .. } => {
                let mut key = Vec::with_capacity(key_bytes + suffix.len());
                super::keys::push_padded(&mut key, u64::from(id), *key_bytes);
                out.push(&[&key, suffix]);
            }
            Source::Rows { keys, .. } => out.push(&[keys.get(id as usize), suffix]),
        }
    }

    /// Returns the key id of a row, taken modulo the number of rows.
    pub fn key_of_row(&self, row: u64) -> u32 {
        match &self.source {
            Source::Generated { entries, .. } => (row % entries) as u32,
            Source::Rows { rows, .. } => rows[(row % rows.len() as u64) as usize].0,
        }
    }

    /// Returns, by key id, the value of each key in `generation`. `None` if the data is too small for
    /// a value.
    pub fn values_of(&self, generation: u32) -> Option<Vec<ValueRef>> {
        let mut values = vec![ValueRef::ABSENT; self.key_count()];
        for row in 0..self.rows() {
            let (id, value) = self.write_of_row(row, generation, None, true)?;
            values[id as usize] = value;
        }
        Some(values)
    }

    /// Returns the write of `row` in `generation`. With `one_value_per_key`, all rows of a key
    /// write the same value, so that threads may write them in any order. `None` if the data is too
    /// small for a value of `value_bytes`.
    pub fn write_of_row(
        &self,
        row: u64,
        generation: u32,
        value_bytes: Option<usize>,
        one_value_per_key: bool,
    ) -> Option<Write> {
        let id = self.key_of_row(row);
        match &self.source {
            Source::Generated { value_bytes: default, .. } => {
                let len = value_bytes.unwrap_or(*default);
                Some((id, self.pool.cut(u64::from(id), generation, len)?))
            }
            Source::Rows { rows, last_row_of_key, .. } => {
                if let Some(len) = value_bytes {
                    return Some((id, self.pool.cut(u64::from(id), generation, len)?));
                }
                let count = rows.len() as u64;
                let row = if one_value_per_key {
                    u64::from(last_row_of_key[id as usize])
                } else {
                    row % count
                };
                let moved = (row + u64::from(generation) * 7919) % count;
                Some((id, rows[moved as usize].1))
            }
        }
    }

    /// Returns the value of `bytes` bytes of key `id` in `generation`. `None` if the data is too small
    /// for such a value.
    pub fn value_of_key(&self, id: u32, generation: u32, bytes: usize) -> Option<ValueRef> {
        self.pool.cut(u64::from(id), generation, bytes)
    }

    /// Returns `count` random rows. Generated keys are drawn with replacement, as in db_bench. Rows
    /// of a file come in a shuffled order, each once per round.
    pub fn random_rows(&self, count: u64, rng: &mut Rng) -> Vec<u64> {
        match &self.source {
            Source::Generated { entries, .. } => (0..count).map(|_| rng.below(*entries)).collect(),
            Source::Rows { rows, .. } => {
                let mut order: Vec<u64> = (0..rows.len() as u64).collect();
                let mut drawn = Vec::with_capacity(count as usize);
                while (drawn.len() as u64) < count {
                    for last in (1..order.len()).rev() {
                        order.swap(last, rng.below(last as u64 + 1) as usize);
                    }
                    let room = (count - drawn.len() as u64).min(order.len() as u64);
                    drawn.extend_from_slice(&order[..room as usize]);
                }
                drawn
            }
        }
    }

    /// Returns a suffix with which no key of the data can extend another key, so that key + suffix
    /// is missing.
    pub fn missing_suffix(&self) -> &'static [u8] {
        match &self.source {
            Source::Generated { .. } => b".",
            Source::Rows { .. } => b"\x00.\x00missing",
        }
    }

    /// Returns the bytes of a value.
    #[inline]
    pub fn value(&self, value: ValueRef) -> &[u8] {
        self.pool.get(value)
    }

    /// Returns a fingerprint of the data, which shows whether two records are about the same pairs.
    pub fn fingerprint(&self) -> u64 {
        let mut sum = mix(self.rows());
        let step = (self.rows() / 1000).max(1);
        let mut keys = KeyBuffer::default();
        for row in (0..self.rows()).step_by(step as usize) {
            if let Some((id, value)) = self.write_of_row(row, 0, None, false) {
                self.push_key(id, b"", &mut keys);
                for chunk in [keys.get(keys.len() - 1), self.value(value)] {
                    sum = chunk.iter().fold(sum, |sum, &byte| mix(sum ^ u64::from(byte)));
                }
            }
        }
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows() -> Dataset {
        let pair = |key: &str, value: &str| (key.as_bytes().to_vec(), value.as_bytes().to_vec());
        let pairs = vec![pair("b", "one"), pair("a", "two"), pair("b", "three")];
        Dataset::from_rows(&CsvPairs { pairs, bad_rows: Vec::new() }).expect("small")
    }

    #[test]
    fn key_ids_follow_byte_order_and_rows_keep_ids() {
        let data = rows();
        assert_eq!((data.rows(), data.key_count()), (3, 2));
        assert_eq!([0, 1, 2].map(|row| data.key_of_row(row)), [1, 0, 1]);
        let value = |row, single| {
            let (_, value) = data.write_of_row(row, 0, None, single).expect("there");
            data.value(value).to_vec()
        };
        assert_eq!(value(0, false), b"one");
        assert_eq!(value(0, true), b"three");
    }

    #[test]
    fn shuffled_rows_are_a_permutation() {
        let data = rows();
        let mut drawn = data.random_rows(3, &mut Rng::new(3));
        drawn.sort_unstable();
        assert_eq!(drawn, [0, 1, 2]);
        assert_eq!(data.random_rows(7, &mut Rng::new(3)).len(), 7);
    }

    #[test]
    fn too_short_keys_are_refused() {
        assert!(Dataset::generated(1001, 3, 10, 0.5, 1).is_err());
        assert!(Dataset::generated(1000, 3, 10, 0.5, 1).is_ok());
        assert!(Dataset::generated(0, 16, 10, 0.5, 1).is_err());
    }
}
