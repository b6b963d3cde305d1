//! The entries of a store's directory: whether it holds a store, an interrupted repair, or files of
//! another program.

use std::path::Path;

use crate::error::{Error, ErrorKind, Result};
use crate::fs::{DirEntry, Fs};
use crate::tree::{foreign, names};

/// Common prefix of the two marker directories.
pub(super) const INTERRUPTED: &str = "rebuilt-moving-";

/// The entries of a directory.
pub(super) struct DirListing {
    pub entries: Vec<DirEntry>,
    /// Whether the file system encrypts.
    encrypts: bool,
}

/// Lists `dir`. A missing directory counts as an empty one.
pub(super) fn list_dir(fs: &dyn Fs, dir: &Path) -> Result<DirListing> {
    let missing = |e: &std::io::Error| e.kind() == std::io::ErrorKind::NotFound;
    let listing = |entries| DirListing { entries, encrypts: fs.encrypts() };
    match fs.list(dir) {
        Ok(entries) => Ok(listing(entries)),
        Err(error) if missing(&error) => Ok(listing(Vec::new())),
        Err(error) => Err(Error::io(dir, "list the directory", error)),
    }
}

impl DirListing {
    fn has(&self, name: &str) -> bool {
        self.entries.iter().any(|e| e.name == name)
    }

    /// Returns whether `CURRENT` is here.
    #[cfg(feature = "encryption")]
    pub fn has_current(&self) -> bool {
        self.has(names::CURRENT)
    }

    /// Returns whether a repair was interrupted while it moved files. The next repair undoes or
    /// finishes the move.
    pub fn has_interrupted_repair(&self) -> bool {
        self.entries.iter().any(|e| e.name.starts_with(INTERRUPTED))
    }

    /// Refuses a directory that another program created.
    pub fn refuse_foreign(&self, dir: &Path) -> Result<()> {
        let entries: Vec<&str> = self.entries.iter().map(|e| e.name.as_str()).collect();
        match foreign::identify(&entries) {
            Some(what) => {
                let mut message =
                    format!("this is {what}, not an Esker store; it was left untouched");
                let engine = match what {
                    foreign::LEVELDB => Some("leveldb"),
                    foreign::ROCKSDB => Some("rocksdb"),
                    _ => None,
                };
                if let Some(engine) = engine {
                    let dir = dir.display();
                    message += &format!(
                        "; `esker import {engine} {dir} NEW` copies it into an Esker store"
                    );
                }
                Err(Error::new(ErrorKind::Incompatible, message).with_path(dir))
            }
            None => Ok(()),
        }
    }

    /// Returns an error for an encrypted store that is opened without a key, and for a store that is
    /// not encrypted and opened with one.
    pub fn check_encryption(&self, dir: &Path) -> Result<()> {
        let message = match (self.has(names::KEYS), self.encrypts) {
            (true, false) => {
                "the store is encrypted; open it with its key: in a program on an EncryptedFs, in \
                 the command with --key-file FILE or the environment variable ESKER_KEY"
            }
            (false, true) => {
                "the store is not encrypted, but a key was given; open it without a key"
            }
            _ => return Ok(()),
        };
        Err(Error::invalid(message).with_path(dir))
    }

    /// Returns whether a complete store exists here. An interrupted repair is an error. Store
    /// files without `CURRENT` are an error if they may hold data. Without data they are the
    /// remains of a creation that a crash interrupted, and the result is `false`.
    pub fn is_store(&self, dir: &Path) -> Result<bool> {
        self.refuse_foreign(dir)?;
        if self.has_interrupted_repair() {
            // Checked even if CURRENT exists: a crash may have kept its name and lost others.
            let message =
                "a repair of this store was interrupted; run `repair` again to complete it";
            return Err(Error::corruption(dir, 0, message));
        }
        if self.has(names::CURRENT) {
            self.check_encryption(dir)?;
            return Ok(true);
        }
        let data = |e: &&DirEntry| {
            names::parse_table(&e.name).is_some()
                || names::parse_value_file(&e.name).is_some()
                || names::parse_log(&e.name).is_some() && e.len_bytes > 0
        };
        if let Some(entry) = self.entries.iter().find(data) {
            let message =
                "CURRENT is missing but the store's files are here; `repair` can rebuild it";
            return Err(Error::corruption(&dir.join(&entry.name), 0, message));
        }
        Ok(false)
    }
}
