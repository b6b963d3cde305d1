//! Directories of the simulated disk, and their names after a crash.
//!
//! Invariants:
//! 1. A sync of a directory makes its own names durable, and no other directory's.
//! 2. A rename to another directory is two changes: the new name in one directory, and the loss of
//!    the old name in the other. The loss reaches the device together with the new name or after
//!    it. A crash therefore leaves the file under the old name, the new name or both, but never
//!    under neither. ext4 and xfs behave likewise: their journals hold both changes in one
//!    transaction. There a crash never leaves both names; here it may.
//! 3. The same holds for a directory that is removed after files were moved out of it.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};

use super::State;
use super::model::{self, CrashModel};
use crate::rng::SplitMix64;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Node {
    File(usize),
    Dir(usize),
}

pub(super) type Names = BTreeMap<OsString, Node>;

/// A change in a directory that must reach the device before another change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Need {
    dir: usize,
    id: u64,
}

/// One change of names. A rename within a directory is one change, so it never takes effect partly.
#[derive(Clone)]
pub(super) struct Renaming {
    id: u64,
    gone: Option<OsString>,
    set: Option<(OsString, Node)>,
    needs: BTreeSet<Need>,
}

impl Renaming {
    fn touched(&self) -> impl Iterator<Item = &OsStr> {
        let set = self.set.as_ref().map(|(name, _)| name);
        self.gone.iter().chain(set).map(OsString::as_os_str)
    }

    fn touches(&self, names: &BTreeSet<OsString>) -> bool {
        self.touched().any(|name| names.contains(name))
    }

    fn apply(&self, names: &mut Names) {
        if let Some(gone) = &self.gone {
            names.remove(gone);
        }
        if let Some((name, node)) = &self.set {
            names.insert(name.clone(), *node);
        }
    }
}

#[derive(Default)]
pub(super) struct Dir {
    pub(super) now: Names,
    synced: Names,
    pub(super) changes: Vec<Renaming>,
}

impl Dir {
    pub(super) fn sync(&mut self) {
        self.changes.clear();
        self.synced = self.now.clone();
    }

    /// Returns the needs of all changes of this directory.
    fn needs(&self) -> BTreeSet<Need> {
        self.changes.iter().flat_map(|change| change.needs.iter().copied()).collect()
    }

    /// Returns the durable names with the `kept` changes applied.
    fn after(&self, kept: &[bool]) -> Names {
        let mut names = self.synced.clone();
        let of = self.changes.iter().zip(kept).filter(|(_, kept)| **kept);
        of.for_each(|(change, _)| change.apply(&mut names));
        names
    }
}

impl State {
    /// Changes names of a directory. The change needs `needs`, and the needs of earlier changes to
    /// the same names.
    pub(super) fn change_names(
        &mut self,
        dir: usize,
        gone: Option<OsString>,
        set: Option<(OsString, Node)>,
        mut needs: BTreeSet<Need>,
    ) -> Need {
        self.name_changes += 1;
        let id = self.name_changes;
        let mut change = Renaming { id, gone, set, needs: BTreeSet::new() };
        let touched: BTreeSet<OsString> = change.touched().map(OsStr::to_os_string).collect();
        let dir_now = &mut self.dirs[dir];
        for earlier in dir_now.changes.iter().filter(|earlier| earlier.touches(&touched)) {
            needs.extend(&earlier.needs);
        }
        change.needs = needs;
        change.apply(&mut dir_now.now);
        dir_now.changes.push(change);
        Need { dir, id }
    }

    /// Renames a file, possibly into another directory.
    pub(super) fn move_name(&mut self, from: (usize, OsString), to: (usize, OsString), node: Node) {
        let ((old_dir, old), (new_dir, new)) = (from, to);
        if old_dir == new_dir {
            self.change_names(new_dir, Some(old), Some((new, node)), BTreeSet::new());
            return;
        }
        let arrived = self.change_names(new_dir, None, Some((new, node)), BTreeSet::new());
        self.change_names(old_dir, Some(old), None, [arrived].into());
    }

    /// Removes an empty directory from its parent.
    pub(super) fn remove_name_of_dir(&mut self, above: usize, name: OsString, dir: usize) {
        let needs = self.dirs[dir].needs();
        self.change_names(above, Some(name), None, needs);
    }

    /// Makes the names of a directory durable, together with their needs.
    pub(super) fn sync_names(&mut self, dir: usize) {
        let needs = self.dirs[dir].needs();
        self.dirs[dir].sync();
        self.settle(needs.into_iter().collect());
    }

    /// Makes changes durable, each with the earlier changes to the same names and with its needs.
    fn settle(&mut self, mut needs: Vec<Need>) {
        while let Some(Need { dir, id }) = needs.pop() {
            let dir = &mut self.dirs[dir];
            let Some(last) = dir.changes.iter().position(|change| change.id == id) else {
                continue;
            };
            let mut names = BTreeSet::new();
            let mut due = vec![false; dir.changes.len()];
            for at in (0..=last).rev() {
                let change = &dir.changes[at];
                if at == last || change.touches(&names) {
                    names.extend(change.touched().map(OsStr::to_os_string));
                    needs.extend(&change.needs);
                    due[at] = true;
                }
            }
            dir.synced = dir.after(&due);
            let mut due = due.into_iter();
            dir.changes.retain(|_| !due.next().unwrap_or(false));
        }
    }

    /// Returns the names of every directory after a crash, including removed directories that may
    /// return.
    pub(super) fn names_after(&self, model: CrashModel, rng: &mut SplitMix64) -> Vec<Names> {
        let draw = |dir: &Dir| model::names_kept(dir.changes.len(), model, rng);
        let mut kept: Vec<Vec<bool>> = self.dirs.iter().map(draw).collect();
        // A change whose need is missing is dropped too, until no such change is left.
        while let Some((dir, at)) = self.first_unfounded(&kept) {
            let first_only = model.keeps_the_first_names();
            let gone = if first_only { at..kept[dir].len() } else { at..at + 1 };
            kept[dir][gone].fill(false);
        }
        self.dirs.iter().zip(&kept).map(|(dir, kept)| dir.after(kept)).collect()
    }

    /// Returns a kept change with a missing need.
    fn first_unfounded(&self, kept: &[Vec<bool>]) -> Option<(usize, usize)> {
        let comes = |need: &Need| {
            let at = self.dirs[need.dir].changes.iter().position(|change| change.id == need.id);
            // A change that is no longer pending is durable.
            at.is_none_or(|at| kept[need.dir][at])
        };
        self.dirs.iter().enumerate().find_map(|(number, dir)| {
            let bad = |(at, change): (usize, &Renaming)| {
                (kept[number][at] && !change.needs.iter().all(comes)).then_some((number, at))
            };
            dir.changes.iter().enumerate().find_map(bad)
        })
    }
}
