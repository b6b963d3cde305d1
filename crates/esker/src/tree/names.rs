//! The names of a store's files. A number read from a manifest only ever becomes one of these.
//!
//! What stays true: a number up to [`NUMBER_MAX`] can be counted on from for ever; a name with a larger
//! one is a stranger's, and so is one far beyond what the store has counted to ([`is_reached`]).

use std::path::{Path, PathBuf};

/// Says which manifest counts.
pub const CURRENT: &str = "CURRENT";
/// `CURRENT` before its rename.
pub const CURRENT_NEW: &str = "CURRENT.new";
/// In a backup: of which store it is.
pub const BACKUP: &str = "BACKUP";
/// Held while the store is open.
pub const LOCK: &str = "LOCK";

/// No file of a store has a larger number.
pub const NUMBER_MAX: u64 = 1 << 60;
/// A crash leaves no files whose numbers are further beyond those that the manifest knows of.
pub const UNKNOWN_MAX: u64 = 1 << 40;

/// Whether a store that has counted to `counted`, as its manifest says, may have made a file of this
/// number since. Others are left alone.
pub fn is_reached(number: u64, counted: u64) -> bool {
    number <= counted.saturating_add(UNKNOWN_MAX)
}

/// The table with this number.
pub fn table_path(dir: &Path, number: u64) -> PathBuf {
    dir.join(format!("{number:06}.sst"))
}

/// The log with this number.
pub fn log_path(dir: &Path, number: u64) -> PathBuf {
    dir.join(format!("{number:06}.wal"))
}

/// The manifest with this number.
pub fn manifest_path(dir: &Path, number: u64) -> PathBuf {
    dir.join(format!("manifest-{number:06}"))
}

fn number(digits: &str) -> Option<u64> {
    let plain = digits.len() >= 6 && digits.bytes().all(|b| b.is_ascii_digit());
    // One name for a number: a file with more zeros is a stranger's.
    let plain = plain && (digits.len() == 6 || !digits.starts_with('0'));
    let number = if plain { digits.parse().ok() } else { None };
    number.filter(|number| *number <= NUMBER_MAX)
}

/// The number in a table's name.
pub fn parse_table(name: &str) -> Option<u64> {
    number(name.strip_suffix(".sst")?)
}

/// The number in a log's name.
pub fn parse_log(name: &str) -> Option<u64> {
    number(name.strip_suffix(".wal")?)
}

/// The number in a manifest's name.
pub fn parse_manifest(name: &str) -> Option<u64> {
    number(name.strip_prefix("manifest-")?)
}

/// Whether a store makes files of this name.
pub fn is_ours(name: &str) -> bool {
    [CURRENT, CURRENT_NEW, LOCK, BACKUP].contains(&name)
        || parse_table(name).is_some()
        || parse_log(name).is_some()
        || parse_manifest(name).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip_and_strangers_are_strangers() {
        let dir = Path::new("/d");
        assert_eq!(table_path(dir, 7), Path::new("/d/000007.sst"));
        assert_eq!(parse_table("1234567.sst"), Some(1_234_567));
        assert_eq!(parse_log("000012.wal"), Some(12));
        assert_eq!(parse_manifest("manifest-000001"), Some(1));
        assert_eq!(log_path(dir, 12), Path::new("/d/000012.wal"));
        assert_eq!(manifest_path(dir, 1), Path::new("/d/manifest-000001"));
        for name in [CURRENT, CURRENT_NEW, LOCK, "000007.sst", "000012.wal", "manifest-000001"] {
            assert!(is_ours(name), "{name}");
        }
        for name in [
            "12.sst",
            "000001.ldb",
            "00000a.wal",
            "MANIFEST-000001",
            "../000001.sst",
            "x",
            "0000012.sst",
            "manifest-00000003",
            "1152921504606846977.sst",
            "18446744073709551615.wal",
            "manifest-18446744073709551614",
            "99999999999999999999999.sst",
        ] {
            assert!(!is_ours(name), "{name}");
        }
        assert!(is_ours("1152921504606846976.sst"));
        assert!(is_reached(1000, 7) && is_reached(7, 1000) && !is_reached(1 << 41, 7));
        assert!(is_reached(NUMBER_MAX, NUMBER_MAX) && !is_reached(NUMBER_MAX, 1 << 50));
    }
}
