//! The store of a history: three keyspaces in three trees, which hold lists.
//!
//! A list is one value in the keyspace `default` and in `values`, which has the reverse key order.
//! In `rows` it is one pair for each element, so reading it is a scan, and appending to it inserts a
//! key. A list's number says where it is.
//!
//! Invariants: a stored list has its elements in the order of their appends, and then padding.

use std::path::Path;
use std::sync::Arc;

use esker::fs::Fs;
use esker::{Db, KeyOrder, Keyspace, KeyspaceOptions, Options, Result};

use crate::rng::SplitMix64;

/// Where a list is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// A value of the keyspace `default`.
    Default,
    /// A value of the keyspace `values`.
    Values,
    /// Pairs of the keyspace `rows`.
    Rows,
}

impl Place {
    /// Returns the place of a list.
    pub fn of(list: u64) -> Place {
        [Place::Default, Place::Values, Place::Rows][(list % 3) as usize]
    }
}

/// The store and its keyspaces.
#[derive(Debug)]
pub struct Store {
    /// The store.
    pub db: Db,
    keyspaces: [Keyspace; 3],
}

impl Store {
    /// Opens the store, and creates the keyspaces that do not exist yet.
    ///
    /// # Errors
    /// As [`Db::open`] and [`Db::keyspace`].
    pub fn open(fs: Arc<dyn Fs>, path: &Path, options: Options) -> Result<Store> {
        let db = Db::open_on(fs, path, options)?;
        let reverse = KeyspaceOptions::default().key_order(KeyOrder::Reverse);
        let plain = KeyspaceOptions::default().set("compression", "none")?;
        let keyspaces = [
            db.keyspace("default", &KeyspaceOptions::default())?,
            db.keyspace("values", &reverse)?,
            db.keyspace("rows", &plain)?,
        ];
        Ok(Store { db, keyspaces })
    }

    /// Returns the keyspace of a place.
    pub fn keyspace(&self, place: Place) -> &Keyspace {
        &self.keyspaces[place as usize]
    }
}

/// Returns the key of a list that is one value.
pub fn value_key(list: u64) -> String {
    format!("{list:010}")
}

/// Returns the common prefix of the keys of a list's rows.
pub fn row_prefix(list: u64) -> String {
    format!("{list:010}/")
}

/// Returns the first key that a row of the list can have, and a key after the last one.
pub fn row_bounds(list: u64) -> (String, String) {
    (row_prefix(list), format!("{list:010}0"))
}

/// Returns the key of a row.
pub fn row_key(list: u64, row: usize) -> String {
    format!("{list:010}/{row:06}")
}

/// Returns a value with these elements, and padding after them.
pub fn encode(elements: &[u64], rng: &mut SplitMix64) -> Vec<u8> {
    let words: Vec<String> = elements.iter().map(u64::to_string).collect();
    let mut value = words.join(",").into_bytes();
    let padding = if rng.chance(5) { rng.below(700) } else { rng.below(30) };
    value.push(b'|');
    value.resize(value.len() + padding as usize, b'a' + rng.below(26) as u8);
    value
}

/// Returns the elements of a value, or `None` for bytes that [`encode`] does not make.
pub fn decode(value: &[u8]) -> Option<Vec<u64>> {
    let end = value.iter().position(|byte| *byte == b'|')?;
    let text = std::str::from_utf8(&value[..end]).ok()?;
    text.split(',').map(|word| word.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_within_their_bounds() {
        let (first, end) = row_bounds(17);
        for row in [0, 9, 999_999] {
            let key = row_key(17, row);
            assert!(first <= key && key < end && key.starts_with(&row_prefix(17)));
        }
        assert!(row_key(16, 3) < first && end < row_key(18, 0));
    }

    #[test]
    fn elements_survive_encoding() {
        let mut rng = SplitMix64::new(3);
        for elements in [vec![7], vec![1, 2, 3], (0..90).collect()] {
            assert_eq!(decode(&encode(&elements, &mut rng)), Some(elements));
        }
        assert_eq!(decode(b"1,2"), None);
        assert_eq!(decode(b"1,x|"), None);
    }
}
