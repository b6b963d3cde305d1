//! One side of a comparison: its read state, its moment and its keyspaces.
//!
//! Invariants: the read state is loaded before the moment and the moment before the list of
//! keyspaces, so that a keyspace created in between is empty.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use crate::base::expiry::Moment;
use crate::base::keyspace::{KeyspaceId, KeyspaceState, TreeId, stored_bounds};
use crate::base::keyspace_rules::KeyspaceRules;
use crate::base::order::KeyOrder;
use crate::db::state::DbInner;
use crate::db::tree::Tree;
use crate::error::Result;
use crate::iter::operands::Resolver;
use crate::read::ReadState;
use crate::read::scan::DbIterator;
use crate::tree::catalog::DEFAULT_KEYSPACE;
use crate::tree::lineage::Lineage;
use crate::tree::version::Version;

/// One side of a comparison.
pub(super) struct Side {
    inner: Arc<DbInner>,
    read_state: Arc<ReadState>,
    /// The moment at which the side is read.
    pub moment: Moment,
    keyspaces: BTreeMap<String, KeyspaceSide>,
}

/// A keyspace of one side.
pub(super) struct KeyspaceSide {
    /// `None` for the default keyspace.
    state: Option<Arc<KeyspaceState>>,
    tree: Arc<Tree>,
}

impl KeyspaceSide {
    /// Returns the number of the keyspace.
    pub fn id(&self) -> KeyspaceId {
        self.state.as_ref().map_or(0, |state| state.id)
    }

    /// Returns the number of the tree.
    pub fn tree_id(&self) -> TreeId {
        self.tree.id
    }

    /// Returns the order of the users' keys.
    pub fn user_order(&self) -> &KeyOrder {
        &self.tree.user_order
    }

    /// Returns the tree.
    pub fn tree(&self) -> &Tree {
        &self.tree
    }
}

impl Side {
    /// Creates the side of a store at `at`, or now.
    pub fn new(inner: &Arc<DbInner>, at: Option<Moment>) -> Result<Side> {
        inner.check_open()?;
        let read_state = inner.read_state.load();
        let moment = at.unwrap_or_else(|| inner.present());
        let mut keyspaces = BTreeMap::new();
        let trees = inner.trees();
        let main = KeyspaceSide { state: None, tree: trees[0].clone() };
        keyspaces.insert(DEFAULT_KEYSPACE.to_string(), main);
        let list = inner.keyspaces.lock();
        for name in list.names() {
            let Some(state) = list.find(&name).cloned() else { continue };
            // A tree that is newer than the read state has only keyspaces that are newer.
            let Some(tree) = trees.get(state.tree as usize).cloned() else { continue };
            if read_state.other(tree.id).is_some() {
                keyspaces.insert(name.to_string(), KeyspaceSide { state: Some(state), tree });
            }
        }
        drop(list);
        Ok(Side { inner: inner.clone(), read_state, moment, keyspaces })
    }

    /// Returns the names of the keyspaces.
    pub fn names(&self) -> impl Iterator<Item = &String> {
        self.keyspaces.keys()
    }

    /// Returns the keyspace of this name.
    pub fn keyspace(&self, name: &str) -> Option<&KeyspaceSide> {
        self.keyspaces.get(name)
    }

    /// Returns the identity of the store.
    pub fn store_id(&self) -> u64 {
        self.inner.versions.lock().store_id()
    }

    /// Returns the lineage of the store.
    pub fn lineage(&self) -> Lineage {
        self.inner.versions.lock().lineage().clone()
    }

    /// Returns the read state of the tree of a keyspace.
    pub fn state_of(&self, of: &KeyspaceSide) -> Option<&Arc<ReadState>> {
        if of.tree.id == 0 { Some(&self.read_state) } else { self.read_state.other(of.tree.id) }
    }

    /// Returns the version of the tree of a keyspace.
    pub fn version_of(&self, of: &KeyspaceSide) -> Option<&Version> {
        self.state_of(of).map(|state| &*state.version)
    }

    /// Returns an iterator over the pairs of a keyspace.
    pub fn iter(&self, of: &KeyspaceSide) -> Result<Option<DbIterator>> {
        let Some(state) = self.state_of(of) else { return Ok(None) };
        let rules: &Arc<KeyspaceRules> =
            of.state.as_ref().map_or(&self.inner.rules, |state| &state.rules);
        let moment = (self.moment.seqno, Resolver::new(rules, self.moment.at_ms));
        let everything = (Bound::Unbounded, Bound::Unbounded);
        let id = of.id();
        let bounds = if id == 0 { everything } else { stored_bounds(id, everything) };
        let iter = DbIterator::new(state.clone(), &of.tree.tables, moment, bounds, false)?;
        Ok(Some(if id == 0 { iter } else { iter.in_keyspace(id) }))
    }
}
