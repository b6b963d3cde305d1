//! Removal of a store with LevelDB's semantics.
//!
//! Invariant: a directory of another engine is refused and left untouched.

use std::path::Path;
use std::sync::Arc;

use esker::fs::Fs;
use esker::internals::foreign;
use esker::{Db, ErrorKind, Result};

/// Removes the store at `path`. As in LevelDB, a missing store is not an error, even if the
/// directory holds files of other programs. Fails with `Incompatible` for a directory of another
/// engine.
pub fn destroy(fs: Arc<dyn Fs>, path: &Path) -> Result<()> {
    match Db::destroy_on(fs.clone(), path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(error) if error.kind() == ErrorKind::Incompatible => {
            let entries = fs.list(path).unwrap_or_default();
            let names: Vec<&str> = entries.iter().map(|entry| entry.name.as_str()).collect();
            if foreign::identify(&names) == Some(foreign::OTHER_FILES) {
                return Ok(());
            }
            Err(error)
        }
        other => other,
    }
}
