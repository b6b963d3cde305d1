//! The trees of an open store. Tree 0 holds the default keyspace. Each other tree holds the
//! keyspaces of one combination of key order and storage options.
//!
//! Invariants: trees are only added. Tree `n` is in every forest, in every read state and among the
//! writer's memtables before a keyspace names it.

use std::sync::Arc;

use super::state::DbInner;
use super::tree::{Tree, fresh_memtables};
use crate::base::keyspace::{KeyspaceId, LiveKeys, TreeId};
use crate::iter::rewrite::RewriteRules;
use crate::memtable::Memtables;
use crate::tree::catalog::CatalogChange;
use crate::tree::forest::Forest;
use crate::tree::fragment::FileMeta;
use crate::tree::version::Version;

impl DbInner {
    /// Returns the trees, by number.
    pub fn trees(&self) -> Arc<Vec<Arc<Tree>>> {
        self.trees.load_full()
    }

    /// Returns each file of a forest with its tree, sorted by number.
    pub fn files_of(&self, forest: &Forest) -> Vec<(Arc<Tree>, Arc<FileMeta>)> {
        let trees = self.trees();
        let in_tree = |(tree, version): (&Arc<Tree>, &Arc<Version>)| {
            version.files().into_iter().map(|file| (tree.clone(), file)).collect::<Vec<_>>()
        };
        let mut files: Vec<_> = trees.iter().zip(forest.trees()).flat_map(in_tree).collect();
        files.sort_by_key(|(_, file)| file.number);
        files
    }

    /// Returns the current forest and the changes that make the current catalog.
    pub fn content(&self) -> (Arc<Forest>, Vec<CatalogChange>) {
        let versions = self.versions.lock();
        (versions.current(), versions.catalog().to_changes())
    }

    /// Returns empty memtables for all trees, which follow memtables of `full_bytes`.
    pub fn fresh_memtables(&self, full_bytes: u64) -> Memtables {
        let bytes = self.next_memtable_bytes(full_bytes);
        fresh_memtables(&self.trees.load(), &self.options.load(), bytes, &self.pool)
    }

    /// Returns the keys of a tree that belong to keyspaces that exist.
    pub fn live_keys(&self, tree: TreeId) -> LiveKeys {
        if tree == 0 {
            return LiveKeys::all(self.rules.clone());
        }
        let keyspaces = self.keyspaces.clone();
        LiveKeys::of(Box::new(move |id: KeyspaceId| keyspaces.lock().rules(id)))
    }

    /// Returns the rules of a rewrite of a tree now. A compaction asks the filters for
    /// `filter_level`.
    pub fn rewrite_rules(&self, tree: TreeId, filter_level: Option<usize>) -> RewriteRules<'_> {
        // The time comes first: see `base::expiry`.
        let now_ms = self.rules.clock.now_ms();
        RewriteRules {
            snapshots: self.snapshots.all(),
            now_ms,
            live: self.live_keys(tree),
            filter_level: filter_level.filter(|_| self.has_filter(tree)),
            counters: &self.counters.rewrites,
            values: Some(self.tables.values().clone()),
        }
    }

    /// Returns whether a keyspace of a tree has a compaction filter.
    pub fn has_filter(&self, tree: TreeId) -> bool {
        match tree {
            0 => self.rules.filter.is_some(),
            tree => self.keyspaces.lock().has_filter(tree),
        }
    }
}
