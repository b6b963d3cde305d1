//! The format version of an open store: what it allows, and how it is raised.
//!
//! Invariants: [`DbInner::format`] is never newer than what the manifest and `CURRENT` state. It only
//! grows.

use super::Db;
use super::state::DbInner;
use crate::base::format_version::{FormatFeature, FormatVersion};
use crate::base::sync::atomic::Ordering;
use crate::error::{Error, Result};

impl Db {
    /// Raises the format version of the store to `to`: 2 is the newest one. Nothing raises it except
    /// this call and `esker upgrade`. [`Metrics::format_version`](crate::Metrics::format_version) has
    /// the present one.
    ///
    /// A store keeps the version with which it was created. Until it is raised, earlier releases can
    /// open the store, and what later versions brought is refused by name. After it is raised, they
    /// refuse the store. It cannot be lowered. Call this when no earlier release is needed for the
    /// store any more. `docs/format.md` says what each version brought.
    ///
    /// The call writes the manifest, and no table or log, so it takes milliseconds. A crash leaves the
    /// store with the old or the new version. Existing checkpoints, forks and backups keep theirs.
    /// Those made later have the version of the store. With the present version the call does nothing.
    ///
    /// ```
    /// # fn main() -> esker::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let path = dir.path().join("db");
    /// let mut options = esker::Options::default();
    /// options.format_version = 1;
    /// let db = esker::Db::open(&path, options)?;
    /// assert_eq!(db.metrics().format_version, 1);
    /// db.upgrade_format(2)?;
    /// assert_eq!(db.metrics().format_version, 2);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// * `InvalidArgument` when `to` is older than the version of the store, or unknown to this build.
    /// * `NoSpace`: the store has its old version, and the call can be repeated.
    /// * `Io`: the store has either version, and refuses later changes until it is opened again.
    /// * `ReadOnly`, `Closed`.
    pub fn upgrade_format(&self, to: u32) -> Result<()> {
        self.inner.check_writable()?;
        self.inner.upgrade_format(to)
    }
}

impl DbInner {
    /// Returns the format version of the store.
    pub fn format(&self) -> FormatVersion {
        let number = self.format.load(Ordering::Acquire);
        FormatVersion::from_number(number).unwrap_or(FormatVersion::OLDEST)
    }

    /// Returns an error unless the format version of the store allows `feature`. To be called before
    /// anything of it is written.
    ///
    /// # Errors
    /// `Incompatible`.
    pub fn require_format(&self, feature: FormatFeature) -> Result<()> {
        self.format().require(feature).map_err(|error| error.with_path(&self.dir))
    }

    fn upgrade_format(&self, to: u32) -> Result<()> {
        let refused = |message: String| Err(Error::invalid(message).with_path(&self.dir));
        let Some(version) = FormatVersion::from_number(to) else {
            return refused(format!(
                "there is no format version {to} in this build of Esker, which has the versions {} to \
                 {}",
                FormatVersion::OLDEST.number(),
                FormatVersion::NEWEST.number()
            ));
        };
        let mut versions = self.versions.lock();
        let present = versions.format();
        if version < present {
            return refused(format!(
                "the store has format version {}, which cannot be lowered to {to}; for a store of an \
                 older version, `esker dump` this one and `esker load` it into a new store with \
                 `--set format_version={to}`",
                present.number()
            ));
        }
        if version > present {
            versions.upgrade(version)?;
            self.format.store(to, Ordering::Release);
        }
        Ok(())
    }
}
