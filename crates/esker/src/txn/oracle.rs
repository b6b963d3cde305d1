//! The commit oracle: what was committed recently, in a fixed number of bytes.
//!
//! A transaction may commit if nothing that it wrote or read was written after its snapshot. The
//! oracle answers whether that is certain. Where it is not, the store itself is asked (`db/txn`),
//! which finds the newest version of each key. So the oracle may forget, and may confuse keys, but
//! it never calls a changed item clean.
//!
//! * **Slots.** A key has two slots of a table, chosen by its hash. A commit writes its sequence
//!   number into both. The smaller of the two is at or above the number of the last commit of the
//!   key. Other keys can only raise it.
//! * **Range deletes** of recent commits are a bounded list ([`super::recent`]), against which the
//!   keys are compared.
//! * **Operations** of recent commits are a bounded list, too, against which ranges are compared.
//!   It is kept only while a transaction is open that may have ranges.
//!
//! The oracle is idle while no transaction is open ([`Watch`]): then a commit only stores its
//! number in `complete_from`. A transaction first counts itself in the watch and then takes its
//! snapshot. A commit reads the watch under the writer state's lock, with no order between the two.
//! If it misses the transaction, then `complete_from` is not below the number of that commit. So
//! either the commit is in the snapshot, or the transaction is told to ask the store.
//!
//! Invariants, under the lock of the writer state:
//! 1. Every commit with a number above `complete_from` is in the slots and among the range deletes.
//! 2. The numbers of the slots never decrease.

use std::ops::Bound;
use std::sync::Arc;

use super::item::{Item, Orders, RangeRef, key_identity};
use super::recent::{RecentOp, RecentOps};
use crate::base::key::{Kind, SeqNo};
use crate::base::keyspace::TreeId;
use crate::base::ops::Ops;
use crate::base::order::KeyOrder;
use crate::base::sync::atomic::{AtomicUsize, Ordering};

/// Number of slots, a power of two: 256 KiB.
const SLOTS: usize = 1 << 15;
/// Maximum bytes of keys and number of operations in a generation of the list of range deletes.
const RANGE_DELETES_MAX: (usize, usize) = (32 << 10, 512);
/// Maximum bytes of keys and number of operations in a generation of the list of operations.
const OPERATIONS_MAX: (usize, usize) = (128 << 10, 4096);

/// The number of open transactions. Shared by the transactions and the committer.
#[derive(Debug, Default)]
pub struct Watch {
    transactions: AtomicUsize,
    /// Those that may have ranges to check.
    with_ranges: AtomicUsize,
}

impl Watch {
    /// Counts a transaction, before it takes its snapshot.
    pub fn begin(&self) {
        self.transactions.fetch_add(1, Ordering::SeqCst);
    }

    /// Ends a transaction.
    pub fn end(&self) {
        self.transactions.fetch_sub(1, Ordering::SeqCst);
    }

    /// Counts a transaction that may have ranges.
    pub fn begin_ranges(&self) {
        self.with_ranges.fetch_add(1, Ordering::SeqCst);
    }

    /// Ends a transaction that may have ranges.
    pub fn end_ranges(&self) {
        self.with_ranges.fetch_sub(1, Ordering::SeqCst);
    }

    /// Returns the number of open transactions.
    #[cfg(test)]
    pub fn open_count(&self) -> usize {
        self.transactions.load(Ordering::Relaxed)
    }
}

/// The commit oracle. The lock of the writer state protects it.
pub struct CommitOracle {
    watch: Arc<Watch>,
    complete_from: SeqNo,
    /// Empty until a commit is recorded.
    slots: Vec<SeqNo>,
    range_deletes: RecentOps,
    operations: RecentOps,
}

impl CommitOracle {
    /// Creates an oracle. `last` is the sequence number of the last commit.
    pub fn new(watch: Arc<Watch>, last: SeqNo) -> CommitOracle {
        let list = |(bytes_max, count_max)| RecentOps::new(last, bytes_max, count_max);
        CommitOracle {
            watch,
            complete_from: last,
            slots: Vec::new(),
            range_deletes: list(RANGE_DELETES_MAX),
            operations: list(OPERATIONS_MAX),
        }
    }

    /// Returns whether commits must be recorded.
    #[inline]
    pub fn is_watched(&self) -> bool {
        self.watch.transactions.load(Ordering::Relaxed) > 0
    }

    /// Notes that the commits up to `last` were not recorded.
    #[inline]
    pub fn pass(&mut self, last: SeqNo) {
        self.complete_from = last;
    }

    /// Records the operations of a commit, numbered from `first`.
    pub fn record(&mut self, payload: &[u8], first: SeqNo, orders: &impl Orders) {
        if self.slots.is_empty() {
            self.slots = vec![0; SLOTS];
        }
        let with_ranges = self.watch.with_ranges.load(Ordering::Relaxed) > 0;
        let mut seqno = first;
        for op in Ops::new(payload).flatten() {
            // An operation of a tree that does not exist is not applied.
            if let Some(order) = orders.order_of(op.tree) {
                let end = (op.kind == Kind::RangeDelete).then_some(op.value);
                let recent = RecentOp { tree: op.tree, key: op.key, end };
                if end.is_some() {
                    self.range_deletes.push(seqno, recent);
                } else {
                    self.note_key(key_identity(order, op.tree, op.key), seqno);
                }
                if with_ranges {
                    self.operations.push(seqno, recent);
                }
            }
            seqno += 1;
        }
        if !with_ranges {
            self.operations.forget(seqno.saturating_sub(1));
        }
    }

    /// Forgets what was recorded of a commit that failed. `last` is the number of the last commit.
    /// The slots stay: greater numbers in them are not wrong.
    pub fn forget(&mut self, last: SeqNo) {
        self.range_deletes.forget(last);
        self.operations.forget(last);
    }

    /// Returns whether certainly none of `items` was written after `since`.
    pub fn is_clean<'a>(
        &self,
        mut items: impl Iterator<Item = Item<'a>>,
        since: SeqNo,
        orders: &impl Orders,
    ) -> bool {
        since >= self.complete_from
            && items.all(|item| match orders.order_of(item.tree()) {
                None => true,
                Some(order) => match item {
                    Item::Key { tree, key, .. } => self.is_key_clean(order, (tree, key), since),
                    Item::Range { range, .. } => self.is_range_clean(order, &range, since),
                },
            })
    }

    fn is_key_clean(&self, order: &KeyOrder, (tree, key): (TreeId, &[u8]), since: SeqNo) -> bool {
        self.newest(key_identity(order, tree, key)) <= since
            && self.range_deletes.is_complete_since(since)
            && !self.range_deletes.any_since(since, |op| {
                let deletes = |range: RangeRef<'_>| range.contains(order, key);
                op.tree == tree && range_of(&op).is_some_and(deletes)
            })
    }

    fn is_range_clean(&self, order: &KeyOrder, range: &RangeRef<'_>, since: SeqNo) -> bool {
        self.operations.is_complete_since(since)
            && !self.operations.any_since(since, |op| {
                op.tree == range.tree
                    && match range_of(&op) {
                        Some(deleted) => range.overlaps(order, &deleted),
                        None => range.contains(order, op.key),
                    }
            })
    }

    /// Returns a number that is not below that of the last commit of a key.
    fn newest(&self, identity: u64) -> SeqNo {
        let slot = |at: usize| self.slots.get(at).copied().unwrap_or(0);
        let [a, b] = slots_of(identity);
        slot(a).min(slot(b))
    }

    #[inline]
    fn note_key(&mut self, identity: u64, seqno: SeqNo) {
        for at in slots_of(identity) {
            if let Some(slot) = self.slots.get_mut(at) {
                *slot = seqno.max(*slot);
            }
        }
    }
}

/// Returns the two slots of a key.
#[inline]
fn slots_of(identity: u64) -> [usize; 2] {
    [identity as usize % SLOTS, (identity >> 32) as usize % SLOTS]
}

/// Returns the range of a range delete.
fn range_of<'a>(op: &RecentOp<'a>) -> Option<RangeRef<'a>> {
    let (lo, hi) = (Bound::Included(op.key), Bound::Excluded(op.end?));
    Some(RangeRef { tree: op.tree, lo, hi })
}

#[cfg(test)]
mod tests {
    use super::super::item::{KeyRange, Reads, written_items};
    use super::*;
    use crate::base::ops;

    /// One order for the trees 0 to 9.
    struct Same(KeyOrder);

    impl Orders for Same {
        fn order_of(&self, tree: TreeId) -> Option<&KeyOrder> {
            (tree < 10).then_some(&self.0)
        }
    }

    const ORDERS: Same = Same(KeyOrder::Bytewise);

    fn put(key: &[u8]) -> Vec<u8> {
        let mut payload = Vec::new();
        ops::encode_put(&mut payload, key, b"value");
        payload
    }

    fn watched(ranges: bool) -> CommitOracle {
        let oracle = CommitOracle::new(Arc::default(), 100);
        oracle.watch.begin();
        if ranges {
            oracle.watch.begin_ranges();
        }
        oracle
    }

    fn is_clean(oracle: &CommitOracle, key: &[u8], since: SeqNo) -> bool {
        oracle.is_clean(written_items(&put(key)), since, &ORDERS)
    }

    fn is_range_clean(oracle: &CommitOracle, lo: &[u8], hi: &[u8], since: SeqNo) -> bool {
        let (lo, hi) = (Bound::Included(lo.to_vec()), Bound::Excluded(hi.to_vec()));
        let mut reads = Reads::default();
        reads.add_range(KeyRange { tree: 0, lo, hi });
        oracle.is_clean(reads.items(&[]), since, &ORDERS)
    }

    #[test]
    fn a_key_is_clean_unless_it_was_written_after_the_snapshot() {
        let mut oracle = watched(false);
        assert!(is_clean(&oracle, b"a", 100) && !is_clean(&oracle, b"a", 99));
        oracle.record(&put(b"a"), 101, &ORDERS);
        oracle.record(&put(b"b"), 102, &ORDERS);
        assert!(!is_clean(&oracle, b"a", 100) && is_clean(&oracle, b"a", 101));
        assert!(!is_clean(&oracle, b"b", 101) && is_clean(&oracle, b"c", 100));
        let mut range = Vec::new();
        ops::encode_range_delete(&mut range, b"c", b"e");
        oracle.record(&range, 103, &ORDERS);
        assert!(!is_clean(&oracle, b"c", 102) && !is_clean(&oracle, b"d", 100));
        assert!(is_clean(&oracle, b"e", 102) && is_clean(&oracle, b"d", 103));
    }

    #[test]
    fn commits_that_nobody_watched_make_older_snapshots_uncertain() {
        let mut oracle = watched(true);
        oracle.watch.end();
        assert!(!oracle.is_watched());
        oracle.pass(105);
        oracle.watch.begin();
        assert!(oracle.is_watched() && oracle.watch.open_count() == 1);
        oracle.record(&put(b"a"), 106, &ORDERS);
        assert!(!is_clean(&oracle, b"z", 104) && is_clean(&oracle, b"z", 105));
        assert!(!is_clean(&oracle, b"a", 105));
        oracle.watch.end_ranges();
        oracle.record(&put(b"b"), 107, &ORDERS);
        assert!(!is_range_clean(&oracle, b"x", b"z", 106) && is_clean(&oracle, b"x", 106));
        assert!(is_range_clean(&oracle, b"x", b"z", 107));
    }

    #[test]
    fn a_range_is_clean_unless_a_key_or_a_deletion_met_it() {
        let mut oracle = watched(true);
        oracle.record(&put(b"f"), 101, &ORDERS);
        assert!(!is_range_clean(&oracle, b"a", b"z", 100));
        assert!(is_range_clean(&oracle, b"a", b"z", 101));
        assert!(is_range_clean(&oracle, b"a", b"f", 100));
        let mut range = Vec::new();
        ops::encode_range_delete(&mut range, b"m", b"p");
        oracle.record(&range, 102, &ORDERS);
        assert!(!is_range_clean(&oracle, b"a", b"n", 101));
        assert!(is_range_clean(&oracle, b"p", b"z", 101));
    }

    #[test]
    fn a_failed_commit_leaves_the_oracle_sound() {
        let mut oracle = watched(true);
        oracle.record(&put(b"a"), 101, &ORDERS);
        oracle.record(&put(b"lost"), 102, &ORDERS);
        oracle.forget(101);
        oracle.record(&put(b"b"), 102, &ORDERS);
        assert!(!is_clean(&oracle, b"b", 101) && !is_clean(&oracle, b"a", 100));
        assert!(!is_range_clean(&oracle, b"x", b"z", 100), "the oracle has forgotten the rest");
        assert!(is_range_clean(&oracle, b"x", b"z", 101));
        assert!(!is_range_clean(&oracle, b"a", b"z", 101));
    }

    #[test]
    fn a_full_oracle_keeps_its_size_and_calls_no_written_key_clean() {
        let mut oracle = watched(true);
        let count = 3 * SLOTS as u64;
        let slots_bytes = |oracle: &CommitOracle| oracle.slots.capacity() * size_of::<SeqNo>();
        for n in 0..count {
            oracle.record(&put(&n.to_be_bytes()), 101 + n, &ORDERS);
        }
        assert_eq!(slots_bytes(&oracle), 256 << 10);
        for n in (0..count).step_by(97) {
            assert!(!is_clean(&oracle, &n.to_be_bytes(), 100 + n), "{n}");
            assert!(!is_range_clean(&oracle, &n.to_be_bytes(), &[0xff; 9], 100 + n), "{n}");
        }
        // A young transaction is still told that other keys are clean.
        let since = 100 + count - 100;
        let clean = (0..1000u64).filter(|n| is_clean(&oracle, &(n << 32).to_be_bytes(), since));
        assert!(clean.count() > 990);
        // Longer keys than the lists hold.
        oracle.record(&put(&[7; 200 << 10]), 101 + count, &ORDERS);
        assert!(!is_range_clean(&oracle, &[8], &[9], 100 + count));
        assert!(is_clean(&oracle, &[8], 100 + count));
    }

    #[test]
    fn trees_are_told_apart_and_a_missing_one_holds_nothing() {
        use crate::base::keyspace::Place;
        let mut oracle = watched(true);
        let mut payload = Vec::new();
        ops::encode_put_at(&mut payload, Some(Place { tree: 3, keyspace: 1 }), b"a", b"");
        ops::encode_put_at(&mut payload, Some(Place { tree: 99, keyspace: 1 }), b"b", b"");
        ops::encode_put_at(&mut payload, Some(Place { tree: 3, keyspace: 1 }), b"c", b"");
        oracle.record(&payload, 101, &ORDERS);
        let clean = |tree: TreeId, key: &[u8], since| {
            let mut payload = Vec::new();
            ops::encode_delete_at(&mut payload, Some(Place { tree, keyspace: 1 }), key);
            oracle.is_clean(written_items(&payload), since, &ORDERS)
        };
        assert!(!clean(3, b"a", 100) && clean(4, b"a", 100));
        assert!(clean(99, b"b", 100));
        assert!(!clean(3, b"c", 102) && clean(3, b"c", 103));
    }
}
