//! File names of a store. A number read from a manifest is only ever used to form one of these
//! names.
//!
//! Invariants: numbering can continue from any number up to [`NUMBER_MAX`] without overflow. A file
//! name with a larger number does not belong to the store. A number far beyond the store's counter
//! does not belong to it either ([`is_reached`]).

use std::path::{Path, PathBuf};

pub(crate) use crate::fs::{KEYS, KEYS_NEW};

/// Pointer to the current manifest.
pub const CURRENT: &str = "CURRENT";
/// Temporary name of `CURRENT` before its rename.
pub const CURRENT_NEW: &str = "CURRENT.new";
/// File in a backup that identifies the source store.
pub const BACKUP: &str = "BACKUP";
/// Lock file, held while the store is open.
pub const LOCK: &str = "LOCK";
/// Info log: what the store did, in sentences.
pub const LOG: &str = "LOG";
/// The info log before the present one.
pub const LOG_OLD: &str = "LOG.old";
/// The published metrics of a store that is open.
pub const STATUS: &str = "STATUS";

/// Prefix of the name of a slot's file, before the name of the slot.
const SLOT: &str = "slot-";
/// Prefix of the second name of an ingested table that readers of the change feed need.
const INGESTED: &str = "ingested-";
/// Suffix of the name of a value file.
const VALUES: &str = ".val";
/// Suffix of the temporary name of a slot's file.
const NEW: &str = ".new";
/// Maximum length of the name of a slot, in bytes.
pub const SLOT_NAME_BYTES_MAX: usize = 64;

/// Largest file number of a store.
pub const NUMBER_MAX: u64 = 1 << 60;
/// Maximum distance between the manifest's file counter and the number of a file left by a crash.
pub const UNKNOWN_MAX: u64 = 1 << 40;

/// Returns whether a store whose manifest counter is `counted` may since have created a file with
/// this number. Files with other numbers are left alone.
pub fn is_reached(number: u64, counted: u64) -> bool {
    number <= counted.saturating_add(UNKNOWN_MAX)
}

/// Returns the path of the table with this number.
pub fn table_path(dir: &Path, number: u64) -> PathBuf {
    dir.join(format!("{number:06}.sst"))
}

/// Returns the path of the value file with this number.
pub fn value_path(dir: &Path, number: u64) -> PathBuf {
    dir.join(format!("{number:06}{VALUES}"))
}

/// Returns the path of the WAL with this number.
pub fn log_path(dir: &Path, number: u64) -> PathBuf {
    dir.join(format!("{number:06}.wal"))
}

/// Returns the path of the manifest with this number.
pub fn manifest_path(dir: &Path, number: u64) -> PathBuf {
    dir.join(format!("manifest-{number:06}"))
}

/// Returns whether `name` may be the name of a slot: 1 to 64 letters, digits, `-` and `_`, all ASCII.
pub fn is_slot_name(name: &str) -> bool {
    (1..=SLOT_NAME_BYTES_MAX).contains(&name.len())
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
}

/// Returns the path of the file of the slot with this name.
pub fn slot_path(dir: &Path, name: &str) -> PathBuf {
    dir.join(format!("{SLOT}{name}"))
}

/// Returns the path of a new file of the slot, before its rename.
pub fn new_slot_path(dir: &Path, name: &str) -> PathBuf {
    dir.join(format!("{SLOT}{name}{NEW}"))
}

/// Parses the slot in a file's name.
pub fn parse_slot(name: &str) -> Option<&str> {
    name.strip_prefix(SLOT).filter(|slot| is_slot_name(slot))
}

/// An ingested table, or a value file of one, that is kept for readers of the change feed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeptTable {
    /// Sequence number of the ingest.
    pub seqno: u64,
    /// Keyspace of its entries; 0 is the default one.
    pub keyspace: u32,
    /// Tree of the keyspace.
    pub tree: u32,
    /// Number of the table or the value file.
    pub table: u64,
    /// Whether it is a value file.
    pub is_values: bool,
}

/// Returns the path of the second name of an ingested table or of a value file of one.
pub fn kept_table_path(dir: &Path, of: &KeptTable) -> PathBuf {
    let KeptTable { seqno, keyspace, tree, table, is_values } = of;
    let suffix = if *is_values { VALUES } else { "" };
    dir.join(format!("{INGESTED}{seqno}-{keyspace}-{tree}-{table}{suffix}"))
}

/// Parses the second name of an ingested table or of a value file of one.
pub fn parse_kept_table(name: &str) -> Option<KeptTable> {
    let numbers = name.strip_prefix(INGESTED)?;
    let (numbers, is_values) = match numbers.strip_suffix(VALUES) {
        Some(numbers) => (numbers, true),
        None => (numbers, false),
    };
    let mut parts = numbers.split('-');
    let mut number = || {
        let part = parts.next()?;
        // Each number has exactly one form.
        part.parse::<u64>().ok().filter(|number| number.to_string() == part)
    };
    let (seqno, keyspace, tree, table) = (number()?, number()?, number()?, number()?);
    let (keyspace, tree) = (keyspace.try_into().ok()?, tree.try_into().ok()?);
    let is_whole = parts.next().is_none() && table <= NUMBER_MAX;
    is_whole.then_some(KeptTable { seqno, keyspace, tree, table, is_values })
}

fn number(digits: &str) -> Option<u64> {
    let plain = digits.len() >= 6 && digits.bytes().all(|b| b.is_ascii_digit());
    // Each number has exactly one name. A name with extra leading zeros is foreign.
    let plain = plain && (digits.len() == 6 || !digits.starts_with('0'));
    let number = if plain { digits.parse().ok() } else { None };
    number.filter(|number| *number <= NUMBER_MAX)
}

/// Parses the number in a table's name.
pub fn parse_table(name: &str) -> Option<u64> {
    number(name.strip_suffix(".sst")?)
}

/// Parses the number in a value file's name.
pub fn parse_value_file(name: &str) -> Option<u64> {
    number(name.strip_suffix(VALUES)?)
}

/// Parses the number in a WAL's name.
pub fn parse_log(name: &str) -> Option<u64> {
    number(name.strip_suffix(".wal")?)
}

/// Parses the number in a manifest's name.
pub fn parse_manifest(name: &str) -> Option<u64> {
    number(name.strip_prefix("manifest-")?)
}

/// Returns whether `name` is one that a store gives to its files.
pub fn is_store_file(name: &str) -> bool {
    [CURRENT, CURRENT_NEW, BACKUP, KEYS, KEYS_NEW].contains(&name)
        || is_side_file(name)
        || parse_table(name).is_some()
        || parse_value_file(name).is_some()
        || parse_log(name).is_some()
        || parse_manifest(name).is_some()
        || parse_kept_table(name).is_some()
        || parse_slot(name.strip_suffix(NEW).unwrap_or(name)).is_some()
}

/// Returns whether `name` is that of a store's file that holds nothing of its content: the lock, the
/// info log, the published metrics. Such files alone are not a store, and other programs use the
/// same names.
pub fn is_side_file(name: &str) -> bool {
    [LOCK, LOG, LOG_OLD, STATUS].contains(&name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_names_round_trip_and_foreign_names_are_refused() {
        let dir = Path::new("/d");
        assert_eq!(table_path(dir, 7), Path::new("/d/000007.sst"));
        assert_eq!(parse_table("1234567.sst"), Some(1_234_567));
        assert_eq!(parse_log("000012.wal"), Some(12));
        assert_eq!(parse_manifest("manifest-000001"), Some(1));
        assert_eq!(log_path(dir, 12), Path::new("/d/000012.wal"));
        assert_eq!(manifest_path(dir, 1), Path::new("/d/manifest-000001"));
        assert_eq!(value_path(dir, 7), Path::new("/d/000007.val"));
        assert_eq!(parse_value_file("000007.val"), Some(7));
        let plain = ["000007.sst", "000007.val", "000012.wal", "manifest-000001"];
        for name in [CURRENT, CURRENT_NEW, BACKUP, KEYS, KEYS_NEW].into_iter().chain(plain) {
            assert!(is_store_file(name) && !is_side_file(name), "{name}");
        }
        for name in ["LOCK", "LOG", "LOG.old", "STATUS"] {
            assert!(is_store_file(name) && is_side_file(name), "{name}");
        }
        for name in [
            "12.sst",
            "000001.ldb",
            "00000a.wal",
            "MANIFEST-000001",
            "LOG.old.1",
            "log",
            "../000001.sst",
            "x",
            "0000012.sst",
            "manifest-00000003",
            "1152921504606846977.sst",
            "18446744073709551615.wal",
            "manifest-18446744073709551614",
            "99999999999999999999999.sst",
        ] {
            assert!(!is_store_file(name), "{name}");
        }
        assert!(is_store_file("1152921504606846976.sst"));
        assert!(is_reached(1000, 7) && is_reached(7, 1000) && !is_reached(1 << 41, 7));
        assert!(is_reached(NUMBER_MAX, NUMBER_MAX) && !is_reached(NUMBER_MAX, 1 << 50));
    }
}
