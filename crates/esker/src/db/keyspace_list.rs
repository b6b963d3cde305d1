//! The keyspaces of an open store by name and by number.
//!
//! Invariants: the list changes after the manifest, and under the same lock as the manifest, so it
//! equals the catalog.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use super::rules::rules_of;
use crate::base::expiry::StoreClock;
use crate::base::keyspace::{KEYSPACE_ID_MAX, KeyspaceId, KeyspaceState, TreeId};
use crate::base::keyspace_rules::KeyspaceRules;
use crate::compaction::drop_range::Gap;
use crate::options::Options;
use crate::tree::catalog::{Catalog, is_internal};

/// The keyspaces of an open store, without the default one.
#[derive(Default)]
pub(crate) struct KeyspaceList {
    by_id: HashMap<KeyspaceId, Arc<KeyspaceState>>,
    by_name: HashMap<Arc<str>, KeyspaceId>,
    /// The numbers of each tree, in order.
    in_trees: BTreeSet<(TreeId, KeyspaceId)>,
}

impl KeyspaceList {
    /// Creates the list of a catalog. `opening` is the number of the opening.
    pub fn new(
        catalog: &Catalog,
        opening: u64,
        options: &Options,
        clock: &Arc<StoreClock>,
    ) -> KeyspaceList {
        let mut list = KeyspaceList::default();
        for spec in catalog.keyspaces() {
            let rules = rules_of(&spec.settings, options, clock);
            let state = KeyspaceState::new(spec.id, spec.tree, opening, &spec.name, rules);
            list.insert(Arc::new(state));
        }
        list
    }

    /// Adds a keyspace.
    pub fn insert(&mut self, keyspace: Arc<KeyspaceState>) {
        self.by_name.insert(keyspace.name(), keyspace.id);
        self.in_trees.insert((keyspace.tree, keyspace.id));
        self.by_id.insert(keyspace.id, keyspace);
    }

    /// Returns the keyspace with this name.
    pub fn find(&self, name: &str) -> Option<&Arc<KeyspaceState>> {
        self.by_id.get(self.by_name.get(name)?)
    }

    /// Returns the rules of the keyspace with this number, or `None` if it does not exist.
    pub fn rules(&self, id: KeyspaceId) -> Option<Arc<KeyspaceRules>> {
        self.by_id.get(&id).map(|keyspace| keyspace.rules.clone())
    }

    /// Returns the name of the keyspace with this number, or `None` if it does not exist.
    pub fn name_of(&self, id: KeyspaceId) -> Option<Arc<str>> {
        self.by_id.get(&id).map(|keyspace| keyspace.name())
    }

    /// Returns whether a keyspace of a tree has a compaction filter.
    pub fn has_filter(&self, tree: TreeId) -> bool {
        self.by_id.values().any(|keyspace| keyspace.tree == tree && keyspace.rules.filter.is_some())
    }

    /// Returns the gap around the keyspace `id` of `tree`, which does not exist any more.
    pub fn gap_around(&self, id: KeyspaceId, tree: TreeId) -> Gap {
        let below = self.in_trees.range((tree, 0)..(tree, id)).next_back();
        let above = self.in_trees.range((tree, id)..=(tree, KEYSPACE_ID_MAX)).next();
        Gap {
            after: below.map_or(0, |&(_, below)| below),
            last: above.map_or(id, |&(_, above)| above - 1),
        }
    }

    /// Gives a keyspace another name.
    pub fn rename(&mut self, keyspace: &KeyspaceState, name: &str) {
        self.by_name.remove(&keyspace.name());
        keyspace.rename(name);
        self.by_name.insert(keyspace.name(), keyspace.id);
    }

    /// Removes a keyspace and marks it as dropped.
    pub fn remove(&mut self, keyspace: &KeyspaceState) {
        self.by_name.remove(&keyspace.name());
        self.by_id.remove(&keyspace.id);
        self.in_trees.remove(&(keyspace.tree, keyspace.id));
        keyspace.mark_dropped();
    }

    /// Returns the names in alphabetical order, without those of internal keyspaces.
    pub fn names(&self) -> Vec<Arc<str>> {
        let names = self.by_name.keys().filter(|name| !is_internal(name));
        let mut names: Vec<Arc<str>> = names.cloned().collect();
        names.sort_unstable();
        names
    }
}
