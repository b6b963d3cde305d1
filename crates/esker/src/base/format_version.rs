//! The versions of the store format, and what each of them brought.
//!
//! A store has one version. `CURRENT` and the header of the manifest state it. It is chosen when the
//! store is created, and raised only on request ([`Db::upgrade_format`](crate::Db::upgrade_format)).
//! This build reads every version from [`FormatVersion::OLDEST`] to [`FormatVersion::NEWEST`].
//!
//! Invariants:
//! 1. The table here decides. Code that writes what older readers refuse calls
//!    [`FormatVersion::require`] before it writes anything.
//! 2. A released row never changes. A newer build only adds rows.
//! 3. The version of a store never falls. A check that has passed stays true.

use crate::error::{Error, ErrorKind, Result};

/// Something that stores have only from a version on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FormatFeature {
    /// Values of any length in pieces, and the tables that point to them.
    StreamedValues,
}

impl FormatFeature {
    /// Returns the name for messages, in the plural.
    fn name(self) -> &'static str {
        match self {
            FormatFeature::StreamedValues => "streamed values",
        }
    }
}

/// One row for each version: its number, and the features that it brought.
const VERSIONS: &[(u32, &[FormatFeature])] = &[
    // All that stores had before a version was declared stable.
    (1, &[]),
    // Stable. Its manifests state the version, and have fields that a reader may ignore.
    (2, &[FormatFeature::StreamedValues]),
];

/// A version of the store format that this build reads and writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct FormatVersion(u32);

impl FormatVersion {
    /// The oldest version.
    pub const OLDEST: FormatVersion = FormatVersion(VERSIONS[0].0);
    /// The newest version, which new stores get.
    pub const NEWEST: FormatVersion = FormatVersion(VERSIONS[VERSIONS.len() - 1].0);

    /// Returns the version with this number, or `None` if this build does not know it.
    pub fn from_number(number: u32) -> Option<FormatVersion> {
        let known = FormatVersion::OLDEST.0..=FormatVersion::NEWEST.0;
        known.contains(&number).then_some(FormatVersion(number))
    }

    /// Returns the number.
    pub const fn number(self) -> u32 {
        self.0
    }

    /// Returns the version that brought `feature`.
    fn of(feature: FormatFeature) -> FormatVersion {
        let row = VERSIONS.iter().find(|(_, features)| features.contains(&feature));
        row.map_or(FormatVersion::NEWEST, |(number, _)| FormatVersion(*number))
    }

    /// Returns whether a store of this version may have `feature`.
    pub fn allows(self, feature: FormatFeature) -> bool {
        self >= FormatVersion::of(feature)
    }

    /// Returns an error unless a store of this version may have `feature`.
    ///
    /// # Errors
    /// `Incompatible`, with the call that raises the version.
    pub fn require(self, feature: FormatFeature) -> Result<()> {
        if self.allows(feature) {
            return Ok(());
        }
        let needed = FormatVersion::of(feature).0;
        let message = format!(
            "{} need format version {needed}, and the store has version {}; \
             `Db::upgrade_format({needed})` or `esker upgrade` raises it, and then releases that do \
             not know version {needed} refuse the store",
            feature.name(),
            self.0
        );
        Err(Error::new(ErrorKind::Incompatible, message))
    }

    /// Returns the error of a reader that knows the versions up to this one, for a store of the newer
    /// version `found`.
    pub fn newer(self, found: u32) -> Error {
        let message = format!(
            "the store has format version {found}, and this build of Esker reads versions {} to {}; \
             open it with the release that created or upgraded it, or with a newer one",
            FormatVersion::OLDEST.0,
            self.0
        );
        Error::new(ErrorKind::Incompatible, message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All features with a row.
    fn features() -> impl Iterator<Item = FormatFeature> {
        VERSIONS.iter().flat_map(|(_, features)| features.iter().copied())
    }

    #[test]
    fn versions_have_no_gap_and_each_feature_has_one_row() {
        for (at, (number, _)) in VERSIONS.iter().enumerate() {
            assert_eq!(*number, at as u32 + 1);
            assert_eq!(FormatVersion::from_number(*number), Some(FormatVersion(*number)));
        }
        for feature in features() {
            let rows = features().filter(|other| *other == feature);
            assert_eq!(rows.count(), 1, "{}", feature.name());
        }
        for unknown in [0, FormatVersion::NEWEST.0 + 1, u32::MAX] {
            assert_eq!(FormatVersion::from_number(unknown), None);
        }
    }

    #[test]
    fn features_are_refused_by_name_before_their_version() {
        for feature in features() {
            let first = FormatVersion::of(feature);
            for (number, _) in VERSIONS {
                let version = FormatVersion(*number);
                assert_eq!(version.allows(feature), version >= first);
                let Err(error) = version.require(feature) else { continue };
                assert!(version < first && error.kind() == ErrorKind::Incompatible);
                for part in [feature.name(), &format!("Db::upgrade_format({})", first.0)] {
                    assert!(error.message().contains(part), "{error}");
                }
            }
        }
    }

    #[test]
    fn a_newer_store_is_named_with_both_versions() {
        let error = FormatVersion::OLDEST.newer(2);
        assert_eq!(error.kind(), ErrorKind::Incompatible);
        assert!(error.message().contains("version 2") && error.message().contains("1 to 1"));
    }
}
