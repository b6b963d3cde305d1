//! Directory of an engine's store, with the guarantee that only directories made by the lab are
//! removed.
//!
//! An engine gets `BASE/NAME/` with a marker file, and its store in `BASE/NAME/store`. Only a
//! directory with the marker is emptied.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use crate::error::{LabError, LabErrorKind, Result};

static ENDING: AtomicBool = AtomicBool::new(false);

/// Stops the creation of directories, because this process is about to remove them and exit.
pub fn refuse_new_dirs() {
    ENDING.store(true, Ordering::SeqCst);
}

/// Waits for the end of the process if [`refuse_new_dirs`] was called; otherwise returns at once.
///
/// Failures of a run during the removal of its stores are not results, so code that reports, prints
/// or records a result calls this first.
pub fn wait_when_ending() {
    while ENDING.load(Ordering::SeqCst) {
        std::thread::park_timeout(std::time::Duration::from_millis(50));
    }
}

fn refuse_when_ending() -> Result<()> {
    match ENDING.load(Ordering::SeqCst) {
        true => Err(LabError::new(LabErrorKind::Io, "the run is ending")),
        false => Ok(()),
    }
}

const MARKER: &str = "made-by-esker-bench";

/// One engine's directory.
#[derive(Clone, Debug)]
pub struct EngineDir {
    folder: PathBuf,
}

impl EngineDir {
    /// Returns the directory of `engine` under `base`, created with the marker if missing. Fails if
    /// it exists without the marker.
    pub fn prepare(base: &Path, engine: &str) -> Result<EngineDir> {
        refuse_when_ending()?;
        let safe = |c: char| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '_' };
        let name: String = engine.chars().map(safe).collect();
        let folder = base.join(name.trim_start_matches('.'));
        let marker = folder.join(MARKER);
        if folder.exists() && !marker.exists() {
            return Err(LabError::new(
                LabErrorKind::Io,
                format!(
                    "{} exists, and no benchmark created it; it was left untouched",
                    folder.display()
                ),
            ));
        }
        let fail = |e: std::io::Error| LabError::io("create the folder", &folder, &e);
        std::fs::create_dir_all(folder.join("store")).map_err(fail)?;
        std::fs::write(marker, "stores in this folder are removed by the next run\n")
            .map_err(fail)?;
        Ok(EngineDir { folder })
    }

    /// Returns the directory of the store.
    pub fn store(&self) -> PathBuf {
        self.folder.join("store")
    }

    /// Removes the store and leaves an empty directory for the next one.
    pub fn empty(&self) -> Result<()> {
        refuse_when_ending()?;
        let store = self.store();
        let fail = |e: std::io::Error| LabError::io("empty the folder", &store, &e);
        match std::fs::remove_dir_all(&store) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => return Err(fail(e)),
            _ => {}
        }
        std::fs::create_dir_all(&store).map_err(fail)
    }

    /// Removes the directory with its content.
    pub fn remove(self) -> Result<()> {
        std::fs::remove_dir_all(&self.folder)
            .map_err(|e| LabError::io("remove the folder", &self.folder, &e))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_directory_is_refused_and_unchanged() {
        let base = tempfile::tempdir().expect("a temporary folder");
        std::fs::create_dir(base.path().join("leveldb")).expect("made");
        std::fs::write(base.path().join("leveldb/precious"), b"x").expect("written");
        assert!(EngineDir::prepare(base.path(), "leveldb").is_err());
        assert!(base.path().join("leveldb/precious").exists());
        let engine_dir = EngineDir::prepare(base.path(), "../fork").expect("made");
        assert!(engine_dir.store().starts_with(base.path()), "{engine_dir:?}");
        std::fs::write(engine_dir.store().join("file"), b"x").expect("written");
        engine_dir.empty().expect("emptied");
        assert_eq!(std::fs::read_dir(engine_dir.store()).expect("there").count(), 0);
        assert!(EngineDir::prepare(base.path(), "../fork").is_ok());
        engine_dir.remove().expect("removed");
    }
}
