//! Where an engine's store lies, and the promise never to remove what the lab did not make.
//!
//! An engine gets `BASE/NAME/` with a mark file in it and its store in `BASE/NAME/store`. Only a
//! folder with the mark is emptied.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use crate::error::{LabError, LabErrorKind, Result};

static ENDING: AtomicBool = AtomicBool::new(false);

/// From here on no folder is made any more: this process is about to remove them and end.
pub fn make_no_more() {
    ENDING.store(true, Ordering::SeqCst);
}

/// Waits for the end of the process where [`make_no_more`] was called; else returns at once.
///
/// What a run meets while its stores are being removed is no result: whoever is about to report,
/// print or record one calls this first.
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

const MARK: &str = "made-by-esker-bench";

/// One engine's folder.
#[derive(Clone, Debug)]
pub struct Place {
    folder: PathBuf,
}

impl Place {
    /// The folder of `engine` under `base`, made and marked if absent. Fails when it exists
    /// without the mark.
    pub fn prepare(base: &Path, engine: &str) -> Result<Place> {
        refuse_when_ending()?;
        let safe = |c: char| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '_' };
        let name: String = engine.chars().map(safe).collect();
        let folder = base.join(name.trim_start_matches('.'));
        let mark = folder.join(MARK);
        if folder.exists() && !mark.exists() {
            return Err(LabError::new(
                LabErrorKind::Io,
                format!(
                    "{} exists and was not made by a benchmark; it is left alone",
                    folder.display()
                ),
            ));
        }
        let fail = |e: std::io::Error| LabError::io("make the folder", &folder, &e);
        std::fs::create_dir_all(folder.join("store")).map_err(fail)?;
        std::fs::write(mark, "stores in this folder are removed by the next run\n")
            .map_err(fail)?;
        Ok(Place { folder })
    }

    /// Where the store lies.
    pub fn store(&self) -> PathBuf {
        self.folder.join("store")
    }

    /// Removes the store and leaves an empty folder for the next.
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

    /// Removes the folder with all in it.
    pub fn remove(self) -> Result<()> {
        std::fs::remove_dir_all(&self.folder)
            .map_err(|e| LabError::io("remove the folder", &self.folder, &e))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_of_somebody_else_is_left_alone() {
        let base = tempfile::tempdir().expect("a temporary folder");
        std::fs::create_dir(base.path().join("leveldb")).expect("made");
        std::fs::write(base.path().join("leveldb/precious"), b"x").expect("written");
        assert!(Place::prepare(base.path(), "leveldb").is_err());
        assert!(base.path().join("leveldb/precious").exists());
        let place = Place::prepare(base.path(), "../fork").expect("made");
        assert!(place.store().starts_with(base.path()), "{place:?}");
        std::fs::write(place.store().join("file"), b"x").expect("written");
        place.empty().expect("emptied");
        assert_eq!(std::fs::read_dir(place.store()).expect("there").count(), 0);
        assert!(Place::prepare(base.path(), "../fork").is_ok());
        place.remove().expect("removed");
    }
}
