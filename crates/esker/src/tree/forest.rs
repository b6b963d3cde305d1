//! A forest: the versions of all trees at one point in time.
//!
//! Tree 0 holds the default keyspace. Each other tree holds the keyspaces of one combination of key
//! order and storage options ([`super::catalog`]).
//!
//! Invariants: a file belongs to one tree. An edit replaces only the versions of the trees that it
//! changes.

use std::sync::Arc;

use super::edit::VersionEdit;
use super::fragment::FileMeta;
use super::version::Version;
use crate::base::keyspace::TreeId;
use crate::base::order::KeyOrder;
use crate::base::thresholds::Thresholds;
use crate::error::{Error, ErrorKind, Result};
use crate::table::TableInfo;

/// The versions of all trees. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Forest {
    trees: Vec<Arc<Version>>,
}

impl Forest {
    /// Creates a forest of one empty tree.
    pub fn empty(order: KeyOrder) -> Forest {
        Forest { trees: vec![Arc::new(Version::empty(order))] }
    }

    /// Adds an empty tree, whose number is the number of trees before it.
    pub fn add_tree(&mut self, order: KeyOrder, thresholds: &Thresholds) {
        let mut version = Version::empty(order);
        version.set_thresholds(thresholds);
        self.trees.push(Arc::new(version));
    }

    /// Sets the thresholds of every tree.
    pub fn set_thresholds(&mut self, thresholds: &Thresholds) {
        for version in &mut self.trees {
            let mut next = Version::clone(version);
            next.set_thresholds(thresholds);
            *version = Arc::new(next);
        }
    }

    /// Returns the version of tree 0.
    pub fn main(&self) -> &Arc<Version> {
        &self.trees[0]
    }

    /// Returns the versions by the number of their tree.
    pub fn trees(&self) -> &[Arc<Version>] {
        &self.trees
    }

    /// Returns each file of every tree once, sorted by number.
    pub fn files(&self) -> Vec<Arc<FileMeta>> {
        match self.trees.as_slice() {
            [only] => only.files(),
            trees => {
                let mut files: Vec<_> = trees.iter().flat_map(|tree| tree.files()).collect();
                files.sort_by_key(|file| file.number);
                files
            }
        }
    }

    /// Applies the slices and bounds of `edit` and returns the resulting forest.
    ///
    /// # Errors
    /// `Corruption` when the edit does not fit this forest or the result breaks an invariant.
    pub fn after(
        &self,
        edit: &VersionEdit,
        make: impl Fn(u64, &TableInfo) -> FileMeta,
    ) -> Result<Forest> {
        let mut next = self.clone();
        if edit.changes_tree() {
            next.trees[0] = Arc::new(self.trees[0].after(edit, &make)?);
        }
        for (tree, edit) in &edit.others {
            let place = next.trees.get_mut(*tree as usize).filter(|_| *tree > 0);
            let place = place.ok_or_else(|| bad("the tree does not exist"))?;
            *place = Arc::new(place.after(edit, &make)?);
        }
        if !edit.others.is_empty() {
            let files = next.files();
            if files.windows(2).any(|pair| pair[0].number == pair[1].number) {
                return Err(bad("a file belongs to two trees"));
            }
        }
        Ok(next)
    }

    /// Returns an edit that turns empty trees into these.
    pub fn to_edit(&self) -> VersionEdit {
        let mut edit = self.trees[0].to_edit();
        for (tree, version) in (0..).zip(&self.trees).skip(1) {
            let content = version.to_edit();
            if content.changes_tree() {
                edit.others.push((tree as TreeId, content));
            }
        }
        edit
    }
}

fn bad(what: &str) -> Error {
    Error::new(ErrorKind::Corruption, format!("a manifest edit is invalid: {what}"))
}
