//! The keyspaces of an open store by name and by number.
//!
//! Invariants: the list changes after the manifest, and under the same lock as the manifest, so it
//! equals the catalog.

use std::collections::HashMap;
use std::sync::Arc;

use crate::base::keyspace::{KeyspaceId, KeyspaceState};
use crate::tree::catalog::{Catalog, is_internal};

/// The keyspaces of an open store, without the default one.
#[derive(Default)]
pub(crate) struct KeyspaceList {
    by_id: HashMap<KeyspaceId, Arc<KeyspaceState>>,
    by_name: HashMap<Arc<str>, KeyspaceId>,
}

impl KeyspaceList {
    /// Creates the list of a catalog. `opening` is the number of the opening.
    pub fn new(catalog: &Catalog, opening: u64) -> KeyspaceList {
        let mut list = KeyspaceList::default();
        for spec in catalog.keyspaces() {
            list.insert(Arc::new(KeyspaceState::new(spec.id, spec.tree, opening, &spec.name)));
        }
        list
    }

    /// Adds a keyspace.
    pub fn insert(&mut self, keyspace: Arc<KeyspaceState>) {
        self.by_name.insert(keyspace.name(), keyspace.id);
        self.by_id.insert(keyspace.id, keyspace);
    }

    /// Returns the keyspace with this name.
    pub fn find(&self, name: &str) -> Option<&Arc<KeyspaceState>> {
        self.by_id.get(self.by_name.get(name)?)
    }

    /// Returns whether a keyspace with this number exists.
    pub fn is_live(&self, id: KeyspaceId) -> bool {
        self.by_id.contains_key(&id)
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
