//! The keyspace that a call of a transaction works on: its orders, its tree, and its stored keys.

use std::sync::Arc;

use crate::base::expiry::Moment;
use crate::base::keyspace::{KeyspaceId, KeyspaceState, StoredKey, TreeId, stored_bounds};
use crate::base::keyspace_rules::KeyspaceRules;
use crate::base::order::KeyOrder;
use crate::db::Db;
use crate::db::keyspace::Keyspace;
use crate::db::state::DbInner;
use crate::db::tree::{InKeyspace, Tree};
use crate::error::{Error, Result};
use crate::read::scan::{DbIterator, KeyBounds};
use crate::tree::catalog::DEFAULT_KEYSPACE;
use crate::txn::item::{Item, KeyRange};

/// A keyspace other than the default one, and its tree.
pub(super) type OwnKeyspace = (Arc<KeyspaceState>, Arc<Tree>);

/// A keyspace of the transaction's store.
#[derive(Clone, Copy)]
pub(super) struct Target<'a> {
    inner: &'a DbInner,
    /// `None`: the default keyspace.
    own: Option<(&'a Arc<KeyspaceState>, &'a Arc<Tree>)>,
}

impl<'a> Target<'a> {
    /// Returns the target of a call on `keyspace`, or on the default keyspace.
    ///
    /// # Errors
    /// `InvalidArgument` for a keyspace of another store or of another opening; `NotFound` when the
    /// keyspace was dropped.
    pub fn new(db: &'a Db, keyspace: Option<&'a Keyspace>) -> Result<Target<'a>> {
        let Some(keyspace) = keyspace else { return Ok(Target { inner: &db.inner, own: None }) };
        if !Arc::ptr_eq(&keyspace.db().inner, &db.inner) {
            return Err(Error::invalid(format!(
                "the keyspace \"{}\" belongs to another store or to another opening than the \
                 transaction",
                keyspace.name()
            )));
        }
        Ok(Target { inner: &db.inner, own: keyspace.parts()? })
    }

    /// Returns the number of the keyspace.
    pub fn id(&self) -> KeyspaceId {
        self.own.map_or(0, |(state, _)| state.id)
    }

    /// Returns the state of the keyspace, or `None` for the default keyspace.
    pub fn keyspace(&self) -> Option<&'a Arc<KeyspaceState>> {
        self.own.map(|(state, _)| state)
    }

    /// Returns the keyspace for a read, or `None` for the default keyspace.
    pub fn in_keyspace(&self) -> Option<InKeyspace<'a>> {
        self.own.map(|(state, tree)| InKeyspace { tree, rules: &state.rules })
    }

    /// Returns the state and the tree of the keyspace, or `None` for the default keyspace.
    pub fn to_own(self) -> Option<OwnKeyspace> {
        self.own.map(|(state, tree)| (state.clone(), tree.clone()))
    }

    /// Returns the rules of the keyspace.
    pub fn rules(&self) -> &'a Arc<KeyspaceRules> {
        self.own.map_or(&self.inner.rules, |(state, _)| &state.rules)
    }

    /// Returns the name of the keyspace.
    pub fn name(&self) -> Arc<str> {
        self.own.map_or_else(|| Arc::from(DEFAULT_KEYSPACE), |(state, _)| state.name())
    }

    /// Returns the number of the tree.
    pub fn tree_id(&self) -> TreeId {
        self.own.map_or(0, |(_, tree)| tree.id)
    }

    /// Returns the order of the users' keys.
    pub fn order(&self) -> &'a KeyOrder {
        self.own.map_or(&self.inner.order, |(_, tree)| &tree.user_order)
    }

    /// Returns the order of the stored keys.
    pub fn stored_order(&self) -> &'a KeyOrder {
        self.own.map_or(&self.inner.order, |(_, tree)| &tree.order)
    }

    /// Returns the result of `work` on the stored form of `key`.
    pub fn with_stored<R>(&self, key: &[u8], work: impl FnOnce(&[u8]) -> R) -> R {
        match self.own {
            None => work(key),
            Some((state, _)) => work(StoredKey::new(state.id, key).as_slice()),
        }
    }

    /// Returns the range of stored keys for bounds of users' keys.
    pub fn stored_range(&self, bounds: KeyBounds) -> KeyRange {
        let (lo, hi) = match self.own {
            None => bounds,
            Some((state, _)) => stored_bounds(state.id, bounds),
        };
        KeyRange { tree: self.tree_id(), lo, hi }
    }

    /// Returns the item of a stored key.
    pub fn item<'k>(&self, key: &'k [u8], is_write: bool) -> Item<'k> {
        Item::Key { tree: self.tree_id(), key, is_write }
    }

    /// Returns an iterator over the pairs within `bounds` at a moment.
    pub fn iter_at(&self, bounds: KeyBounds, at: Moment) -> Result<DbIterator> {
        let KeyRange { lo, hi, .. } = self.stored_range(bounds);
        let iter = self.inner.iter_at(self.in_keyspace(), (lo, hi), Some(at), true)?;
        Ok(match self.own {
            None => iter,
            Some((state, _)) => iter.in_keyspace(state.id),
        })
    }
}
