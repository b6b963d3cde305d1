//! A tree of an open store: the keyspaces of one combination of key order and storage options.
//!
//! Invariants: the number, the key order and the own options of a tree never change. Its options
//! follow the store's, except for its own.

use std::sync::Arc;

use arc_swap::{ArcSwap, ArcSwapOption};

use crate::base::keyspace::{TreeId, stored_order};
use crate::base::keyspace_rules::KeyspaceRules;
use crate::base::order::KeyOrder;
use crate::compaction::TreeLimits;
use crate::iter::hints::Hints;
use crate::memtable::{ChunkPool, Memtable, Memtables};
use crate::options::Options;
use crate::tree::catalog::{Catalog, Pairs};
use crate::tree::tables::Tables;

/// A tree: a key order, storage options and the open tables.
pub(crate) struct Tree {
    /// Number of the tree.
    pub id: TreeId,
    /// The order of the users' keys.
    pub user_order: KeyOrder,
    /// The order of the stored keys.
    pub order: KeyOrder,
    /// Options that differ from the store's.
    pairs: Pairs,
    /// The store's options with those of the tree and the order of the stored keys.
    pub options: ArcSwap<Options>,
    /// The open tables.
    pub tables: Arc<Tables>,
    /// The empty-range hints of a tree above 0, as of the last commit. Those of tree 0 are the
    /// store's.
    pub hints: ArcSwapOption<Hints>,
}

/// A keyspace other than the default one, for a read.
#[derive(Clone, Copy)]
pub(crate) struct InKeyspace<'a> {
    /// The tree of the keyspace.
    pub tree: &'a Tree,
    /// The rules of the keyspace.
    pub rules: &'a Arc<KeyspaceRules>,
}

impl Tree {
    /// Creates tree 0, whose options are the store's.
    pub fn main(options: &Options, tables: Arc<Tables>) -> Tree {
        let order = options.key_order.clone();
        Tree {
            id: 0,
            user_order: order.clone(),
            order,
            pairs: Pairs::new(),
            options: ArcSwap::from_pointee(options.clone()),
            tables,
            hints: ArcSwapOption::empty(),
        }
    }

    /// Creates a tree other than tree 0. `main` has the tables of tree 0.
    pub fn other(
        id: TreeId,
        user_order: KeyOrder,
        pairs: &Pairs,
        options: &Options,
        main: &Tables,
    ) -> Tree {
        let order = stored_order(&user_order);
        let tables = Arc::new(main.sibling(order.clone()));
        let options = ArcSwap::from_pointee(options_of(options, &order, pairs));
        let hints = ArcSwapOption::empty();
        Tree { id, user_order, order, pairs: pairs.clone(), options, tables, hints }
    }

    /// Returns the options that differ from the store's.
    pub fn pairs(&self) -> &Pairs {
        &self.pairs
    }

    /// Applies changed options of the store.
    pub fn adopt(&self, options: &Options) {
        self.options.store(Arc::new(options_of(options, &self.order, &self.pairs)));
    }

    /// Returns the sizes that the picker works with.
    pub fn limits(&self, memtable_bytes: u64) -> TreeLimits {
        TreeLimits::new(&self.options.load(), memtable_bytes, self.order.clone())
    }
}

/// Returns the order of the stored keys of a tree, by the name of the order of its users' keys. The
/// name is known, because otherwise the store is not opened.
pub(super) fn stored_order_of(name: &str, options: &Options) -> KeyOrder {
    stored_order(&KeyOrder::by_name(name, &known_orders(options)).unwrap_or_default())
}

/// Returns the store's options with those of a tree.
pub(super) fn options_of(options: &Options, order: &KeyOrder, pairs: &Pairs) -> Options {
    let mut own = options.clone();
    for (name, value) in pairs {
        // Checked when the tree was made. A value that a later version refuses is left out.
        let _ = own.set(name, value);
    }
    own.key_order = order.clone();
    own
}

/// Returns the trees of a catalog, by number. Every key order is known.
pub(super) fn trees_of(
    catalog: &Catalog,
    options: &Options,
    tables: &Arc<Tables>,
) -> Vec<Arc<Tree>> {
    let known = known_orders(options);
    let mut trees = vec![Arc::new(Tree::main(options, tables.clone()))];
    for spec in catalog.trees() {
        let order = KeyOrder::by_name(&spec.order, &known).unwrap_or_default();
        trees.push(Arc::new(Tree::other(spec.id, order, &spec.options, options, tables)));
    }
    trees
}

/// Returns the key order of the store, then the orders that its keyspaces may have.
pub(super) fn known_orders(options: &Options) -> Vec<KeyOrder> {
    let mut orders = vec![options.key_order.clone()];
    orders.extend(options.key_orders.iter().cloned());
    orders
}

/// Returns empty memtables for `trees`. `memtable_bytes` is the expected maximum size of all of
/// them together.
pub(super) fn fresh_memtables(
    trees: &[Arc<Tree>],
    options: &Options,
    memtable_bytes: usize,
    pool: &Arc<ChunkPool>,
) -> Memtables {
    let one = |tree: &Tree, bytes: usize| {
        let (kind, order) = (options.memtable_kind, tree.order.clone());
        let memtable = Memtable::with_pool(kind, order, pool.clone(), bytes);
        Arc::new(memtable.with_thresholds(&options.thresholds))
    };
    // The filters of all other trees together are as large as that of tree 0.
    let share = memtable_bytes / (trees.len() - 1).max(1);
    let others = trees[1..].iter().map(|tree| one(tree, share)).collect();
    Memtables::new(one(&trees[0], memtable_bytes), others)
}
