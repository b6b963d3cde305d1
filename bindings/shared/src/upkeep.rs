//! Removing a store as LevelDB does.
//!
//! What stays true: a directory of another engine's is refused and left untouched.

use std::path::Path;
use std::sync::Arc;

use esker::fs::Fs;
use esker::tree::foreign;
use esker::{Db, ErrorKind, Result};

/// Removes the store at `path`; one that is not there is no failure, as with LevelDB, also when
/// files of other programs are. A directory of another engine's is refused.
pub fn destroy(fs: Arc<dyn Fs>, path: &Path) -> Result<()> {
    match Db::destroy_on(fs.clone(), path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(error) if error.kind() == ErrorKind::Incompatible => {
            let entries = fs.list(path).unwrap_or_default();
            let names: Vec<&str> = entries.iter().map(|entry| entry.name.as_str()).collect();
            if foreign::identify(&names) == Some(foreign::STRANGERS) {
                return Ok(());
            }
            Err(error)
        }
        other => other,
    }
}
