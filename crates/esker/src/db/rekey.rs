//! Changes the master key of an encrypted store.

use std::path::Path;
use std::sync::Arc;

use super::Db;
use super::dir::list_dir;
use super::open::take_lock;
use crate::error::{Error, Result};
use crate::fs::encrypted::{self, KeyProvider, RekeyReport};
use crate::fs::{Fs, OsFs, absolute};

impl Db {
    /// Changes the master key of the encrypted store in `path`, which must not be open: from the key
    /// of `from` to that of `to`.
    ///
    /// Only the file `KEYS` is written, so the call takes milliseconds. The old master key opens
    /// nothing afterwards. The store also gets a new data key for its new files. Existing files keep
    /// their data keys until merges rewrite them; [`Db::compact_all`] rewrites all tables. Checkpoints,
    /// forks and backups have a `KEYS` of their own, under the master key of the time they were made.
    /// Therefore a backup into an existing directory needs the new master key in its newest backup,
    /// too: call `rekey` on that `backup-N`, or begin another directory.
    ///
    /// A crash leaves the store with the old or the new master key.
    ///
    /// ```
    /// # fn main() -> esker::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// use esker::encryption::{EncryptedFs, MasterKey};
    /// use esker::{Db, Options, fs::OsFs};
    /// let (old, new) = (MasterKey::from_bytes([1; 32]), MasterKey::from_bytes([2; 32]));
    /// let path = dir.path().join("db");
    /// Db::open_on(EncryptedFs::new(OsFs::shared(), old.clone()), &path, Options::default())?.close()?;
    /// let report = Db::rekey(&path, &old, &new)?;
    /// assert_eq!(report.to, new.id());
    /// Db::open_on(EncryptedFs::new(OsFs::shared(), new), &path, Options::default())?.close()
    /// # }
    /// ```
    ///
    /// # Errors
    /// `NotFound` when there is no store; `Locked` while it is open; `InvalidArgument` when it is not
    /// encrypted, or the key of `from` does not open it; `Corruption` when `KEYS` is damaged; `Io`.
    pub fn rekey(
        path: impl AsRef<Path>,
        from: &dyn KeyProvider,
        to: &dyn KeyProvider,
    ) -> Result<RekeyReport> {
        Db::rekey_on(OsFs::shared(), path, from, to)
    }

    /// Does the same as [`Db::rekey`], on the file system below the encryption.
    #[doc(hidden)]
    pub fn rekey_on(
        fs: Arc<dyn Fs>,
        path: impl AsRef<Path>,
        from: &dyn KeyProvider,
        to: &dyn KeyProvider,
    ) -> Result<RekeyReport> {
        let dir = &*absolute(&*fs, path.as_ref())?;
        if !list_dir(&*fs, dir)?.has_current() {
            return Err(Error::not_found("there is no store here").with_path(dir));
        }
        let (fs, _lock) = take_lock(&fs, dir)?;
        encrypted::rekey(&*fs, dir, from, to)
    }
}
