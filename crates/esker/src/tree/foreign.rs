//! Recognises directories of other programs, so that the error can name the program.

use super::names;

/// Description of a LevelDB directory.
pub const LEVELDB: &str = "a LevelDB directory";

/// Description of a RocksDB directory.
pub const ROCKSDB: &str = "a RocksDB directory";

/// Description of a directory with unknown files.
pub const OTHER_FILES: &str = "a directory with other files";

/// Returns the description of a foreign directory with these entries, or `None` if it is not
/// foreign. The description is a phrase that fits after "this is".
pub fn identify(entries: &[&str]) -> Option<&'static str> {
    let has = |name: &str| entries.contains(&name);
    let starts = |prefix: &str| entries.iter().any(|e| e.starts_with(prefix));
    let ends = |suffix: &str| entries.iter().any(|e| e.ends_with(suffix));
    if starts("OPTIONS-") || (has("IDENTITY") && starts("MANIFEST-")) {
        return Some(ROCKSDB);
    }
    if starts("MANIFEST-") || (ends(".ldb") && has(names::CURRENT)) {
        return Some(LEVELDB);
    }
    if has("data.mdb") {
        return Some("an LMDB directory");
    }
    if has("WiredTiger") {
        return Some("a WiredTiger directory");
    }
    if has("PG_VERSION") {
        return Some("a PostgreSQL directory");
    }
    let has_other_files = entries.iter().any(|e| {
        // Dot files belong to the desktop, to version control or to the file system.
        !names::is_store_file(e)
            && !e.starts_with('.')
            && *e != "rebuilt"
            && !e.starts_with("rebuilt-moving-")
            && !e.starts_with("before-repair-")
            && *e != "lost+found"
    });
    let has_store_files =
        entries.iter().any(|e| names::is_store_file(e) && !names::is_side_file(e));
    if has_other_files && !has_store_files {
        return Some(OTHER_FILES);
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_files_are_named_and_own_files_pass() {
        let level = ["000005.ldb", "CURRENT", "LOCK", "LOG", "MANIFEST-000004"];
        assert_eq!(identify(&level), Some("a LevelDB directory"));
        let rocks = ["CURRENT", "IDENTITY", "MANIFEST-000005", "OPTIONS-000007"];
        assert_eq!(identify(&rocks), Some("a RocksDB directory"));
        assert_eq!(identify(&["OPTIONS-000007"]), Some("a RocksDB directory"));
        assert_eq!(identify(&["IDENTITY"]), Some(OTHER_FILES));
        assert_eq!(identify(&["MANIFEST-000004"]), Some(LEVELDB));
        assert_eq!(identify(&["000005.ldb", "CURRENT"]), Some(LEVELDB));
        assert_eq!(identify(&["000005.ldb"]), Some(OTHER_FILES));
        assert_eq!(identify(&["WiredTiger", "WiredTiger.lock"]), Some("a WiredTiger directory"));
        assert_eq!(identify(&["PG_VERSION", "base"]), Some("a PostgreSQL directory"));
        assert_eq!(identify(&["data.mdb", "lock.mdb"]), Some("an LMDB directory"));
        assert_eq!(identify(&["notes.txt"]), Some("a directory with other files"));
        for left in [
            ".gitkeep",
            ".DS_Store",
            ".nfs0001",
            "rebuilt",
            "rebuilt-moving-in",
            "before-repair-1",
            "lost+found",
            "LOCK",
            "LOG",
            "LOG.old",
            "STATUS",
        ] {
            assert_eq!(identify(&[left]), None, "{left}");
            assert_eq!(identify(&[left, "notes.txt"]), Some(OTHER_FILES), "{left}");
        }
        assert_eq!(identify(&[]), None);
        assert_eq!(identify(&["CURRENT", "LOCK", "manifest-000001", "000002.wal", "note"]), None);
    }
}
