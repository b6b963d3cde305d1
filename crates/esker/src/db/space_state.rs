//! What the last measurement of the trees' space found. [`super::space_bound`] measures.
//!
//! Invariant: the debt is 0 while no compaction would reclaim space.

use arc_swap::ArcSwap;

use crate::base::keyspace::TreeId;
use crate::base::sync::Mutex;
use crate::base::sync::atomic::{AtomicU64, Ordering};
use crate::compaction::space::SpaceUse;

/// The last measurement.
#[derive(Default)]
pub(crate) struct SpaceBound {
    /// The trees that are measured, with their bound.
    pub(super) trees: Mutex<Vec<(TreeId, f64, SpaceUse)>>,
    /// The debt that the surplus stands for, in bytes.
    pub(super) debt_bytes: AtomicU64,
    /// The garbage in value files.
    pub(super) values: ValueGarbage,
}

/// What the last measurement of the value files found. [`super::value_garbage`] measures.
#[derive(Default)]
pub(crate) struct ValueGarbage {
    /// Held while the value files are measured.
    pub(super) measuring: Mutex<()>,
    /// Numbers of the files whose values must move, the worst first.
    pub(super) worst_first: ArcSwap<Vec<u64>>,
}

impl SpaceBound {
    /// Returns the debt that the surplus stands for, in bytes.
    pub fn debt_bytes(&self) -> u64 {
        self.debt_bytes.load(Ordering::Relaxed)
    }

    /// Returns the estimated live bytes of the tables.
    pub fn live_bytes(&self) -> u64 {
        self.trees.lock().iter().map(|(.., space)| space.live_bytes).sum()
    }

    /// Returns the bytes of the tables over their bounds.
    pub fn surplus_bytes(&self) -> u64 {
        let surplus = |(_, bound, space): &(TreeId, f64, SpaceUse)| {
            space.table_bytes.saturating_sub((space.live_bytes as f64 * bound) as u64)
        };
        self.trees.lock().iter().map(surplus).sum()
    }
}
