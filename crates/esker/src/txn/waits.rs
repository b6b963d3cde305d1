//! The wait-for graph: which transaction waits for which.
//!
//! A transaction that starts to wait adds its edges and then looks for a cycle through itself. So
//! the last transaction of a cycle finds it. The search has a bounded depth. A longer cycle ends
//! with the timeout of one of its transactions.

use std::collections::{HashMap, HashSet};

use super::item::TransactionId;

/// Maximum number of transactions in a cycle that is found.
pub const CYCLE_MAX: usize = 64;

/// The waiting transactions.
#[derive(Debug, Default)]
pub struct Waits {
    edges: HashMap<TransactionId, Vec<TransactionId>>,
    /// Number of signals to the waiters so far. A waiter that sees no new one may sleep.
    pub changes: u64,
    /// Whether the store was closed.
    pub closed: bool,
}

impl Waits {
    /// Notes that `waiter` waits for `holders`.
    pub fn add(&mut self, waiter: TransactionId, holders: Vec<TransactionId>) {
        self.edges.insert(waiter, holders);
    }

    /// Notes that `waiter` waits no longer.
    pub fn remove(&mut self, waiter: TransactionId) {
        self.edges.remove(&waiter);
    }

    /// Returns whether a transaction waits.
    #[cfg(test)]
    pub fn is_waiting(&self, id: TransactionId) -> bool {
        self.edges.contains_key(&id)
    }

    /// Returns a cycle through `start`: each transaction waits for the next, and the last one for
    /// `start`, which is the first.
    pub fn cycle_through(&self, start: TransactionId) -> Option<Vec<TransactionId>> {
        let (mut path, mut visited) = (vec![start], HashSet::new());
        self.extend(start, &mut path, &mut visited).then_some(path)
    }

    /// Extends `path` to a cycle. Leaves it unchanged if there is none.
    fn extend(
        &self,
        start: TransactionId,
        path: &mut Vec<TransactionId>,
        visited: &mut HashSet<TransactionId>,
    ) -> bool {
        let Some(holders) = path.last().and_then(|last| self.edges.get(last)) else { return false };
        for &holder in holders {
            if holder == start {
                return true;
            }
            if path.len() < CYCLE_MAX && visited.insert(holder) {
                path.push(holder);
                if self.extend(start, path, visited) {
                    return true;
                }
                path.pop();
            }
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cycles_are_found_from_each_member_and_only_from_members() {
        let mut waits = Waits::default();
        for (waiter, holders) in [(1, vec![9, 2]), (2, vec![3]), (3, vec![8, 1]), (7, vec![1])] {
            waits.add(waiter, holders);
        }
        assert_eq!(waits.cycle_through(1), Some(vec![1, 2, 3]));
        assert_eq!(waits.cycle_through(2), Some(vec![2, 3, 1]));
        assert_eq!((waits.cycle_through(7), waits.cycle_through(9)), (None, None));
        waits.remove(2);
        assert_eq!(waits.cycle_through(1), None);
    }

    #[test]
    fn the_search_has_a_bounded_depth() {
        for (count, found) in [(CYCLE_MAX as u64, true), (CYCLE_MAX as u64 + 1, false)] {
            let mut waits = Waits::default();
            (0..count).for_each(|n| waits.add(n, vec![(n + 1) % count]));
            assert_eq!(waits.cycle_through(0).is_some(), found, "{count}");
        }
    }

    #[test]
    fn many_paths_to_one_place_are_searched_once() {
        let mut waits = Waits::default();
        // 2^40 paths without a cycle.
        for n in 0..40 {
            waits.add(2 * n, vec![2 * n + 2, 2 * n + 3]);
            waits.add(2 * n + 1, vec![2 * n + 2, 2 * n + 3]);
        }
        assert_eq!(waits.cycle_through(0), None);
    }
}
