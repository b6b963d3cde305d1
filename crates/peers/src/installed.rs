//! Where installed engines are, and which RocksDB is the newest of them.
//!
//! Invariant: only the standard library is used, because tests of other crates include this file.

use std::path::{Path, PathBuf};

/// Name of RocksDB's library in the directory of a release.
pub const LIBRARY: &str = "librocksdb.so";

/// Returns the directory of installed engines: `$ESKER_ENGINES`, or the user's data directory.
pub fn engines_dir() -> Option<PathBuf> {
    let from = |name: &str| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
    from("ESKER_ENGINES")
        .or_else(|| from("XDG_DATA_HOME").map(|data| data.join("esker/engines")))
        .or_else(|| from("HOME").map(|home| home.join(".local/share/esker/engines")))
}

/// Returns the newest installed RocksDB, if any.
pub fn rocksdb_installed() -> Option<PathBuf> {
    newest_in(&engines_dir()?)
}

fn newest_in(dir: &Path) -> Option<PathBuf> {
    let entries = std::fs::read_dir(dir).ok()?.flatten();
    let version = |entry: std::fs::DirEntry| {
        let name = entry.file_name().to_string_lossy().into_owned();
        let numbers =
            name.strip_prefix("rocksdb-")?.split('.').map(|part| part.parse::<u32>().ok());
        let library = entry.path().join(LIBRARY);
        library.exists().then_some((numbers.collect::<Option<Vec<u32>>>()?, library))
    };
    entries.filter_map(version).max().map(|(_, library)| library)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn newest_installed_version_is_used() {
        let dir = tempfile::tempdir().expect("a temporary folder");
        assert_eq!(newest_in(dir.path()), None);
        for name in
            ["rocksdb-9.11.2", "rocksdb-11.8.1", "rocksdb-11.10.0", "rocksdb-next", "other-12.0.0"]
        {
            std::fs::create_dir(dir.path().join(name)).expect("made");
            if name != "rocksdb-11.10.0" {
                std::fs::write(dir.path().join(name).join(LIBRARY), b"x").expect("written");
            }
        }
        assert_eq!(newest_in(dir.path()), Some(dir.path().join("rocksdb-11.8.1").join(LIBRARY)));
    }
}
