//! Tests of the lock table.

use std::ops::Bound;

use super::*;
use crate::memtable::{Memtable, Memtables};
use crate::options::kinds::MemtableKind;

const ORDER: KeyOrder = KeyOrder::Bytewise;
const NOW: Duration = Duration::ZERO;

fn read(key: &[u8]) -> Item<'_> {
    Item::Key { tree: 0, key, is_write: false }
}

fn write(key: &[u8]) -> Item<'_> {
    Item::Key { tree: 0, key, is_write: true }
}

fn range<'a>(lo: &'a [u8], hi: &'a [u8], is_write: bool) -> Item<'a> {
    let (lo, hi) = (Bound::Included(lo), Bound::Excluded(hi));
    Item::Range { range: RangeRef { tree: 0, lo, hi }, is_write }
}

fn kind(outcome: Result<bool>) -> ErrorKind {
    outcome.unwrap_err().kind()
}

fn orders() -> Memtables {
    Memtables::new(Arc::new(Memtable::new(MemtableKind::Btree, ORDER)), Vec::new())
}

#[test]
fn shared_locks_admit_each_other_and_exclusive_ones_nobody() {
    let table = LockTable::default();
    let [mut a, mut b] = [LockOwner::new(1), LockOwner::new(2)];
    assert!(table.lock(&mut a, &ORDER, &read(b"k"), NOW).unwrap());
    assert!(!table.lock(&mut a, &ORDER, &read(b"k"), NOW).unwrap());
    assert!(table.lock(&mut b, &ORDER, &read(b"k"), NOW).unwrap());
    assert_eq!(kind(table.lock(&mut a, &ORDER, &write(b"k"), NOW)), ErrorKind::Busy);
    table.release(&mut b);
    assert!(!table.lock(&mut a, &ORDER, &write(b"k"), NOW).unwrap(), "an upgrade");
    assert!(!table.lock(&mut a, &ORDER, &read(b"k"), NOW).unwrap());
    assert_eq!(kind(table.lock(&mut b, &ORDER, &read(b"k"), NOW)), ErrorKind::Busy);
    assert!(table.lock(&mut b, &ORDER, &write(b"l"), NOW).unwrap());
    let other_tree = Item::Key { tree: 1, key: b"k", is_write: true };
    assert!(table.lock(&mut b, &ORDER, &other_tree, NOW).unwrap());
    assert_eq!(table.counts(), (3, 0));
    table.release(&mut a);
    table.release(&mut b);
    assert_eq!(table.counts(), (0, 0));
}

#[test]
fn ranges_exclude_keys_and_ranges_inside_them() {
    let table = LockTable::default();
    let [mut a, mut b] = [LockOwner::new(1), LockOwner::new(2)];
    assert!(table.lock(&mut a, &ORDER, &range(b"c", b"f", false), NOW).unwrap());
    assert!(!table.lock(&mut a, &ORDER, &range(b"c", b"f", false), NOW).unwrap());
    for (item, free) in [
        (write(b"b"), true),
        (write(b"c"), false),
        (read(b"d"), true),
        (write(b"f"), true),
        (range(b"e", b"g", false), true),
        (range(b"a", b"c", true), true),
        (range(b"b", b"d", true), false),
    ] {
        let mut other = LockOwner::new(3);
        assert_eq!(table.lock(&mut other, &ORDER, &item, NOW).is_ok(), free, "{item}");
        table.release(&mut other);
    }
    assert!(table.lock(&mut a, &ORDER, &write(b"d"), NOW).unwrap());
    assert_eq!(kind(table.lock(&mut b, &ORDER, &range(b"a", b"z", false), NOW)), ErrorKind::Busy);
    table.release(&mut a);
    assert!(table.lock(&mut b, &ORDER, &range(b"a", b"z", false), NOW).unwrap());
    assert_eq!(table.counts(), (0, 1));
    table.release(&mut b);
    assert_eq!(table.counts(), (0, 0));
}

#[test]
fn a_waiter_gets_the_lock_when_it_is_released() {
    let table = LockTable::default();
    let mut a = LockOwner::new(1);
    table.lock(&mut a, &ORDER, &write(b"k"), NOW).unwrap();
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| {
            let mut b = LockOwner::new(2);
            let got = table.lock(&mut b, &ORDER, &write(b"k"), WAIT_MAX);
            table.release(&mut b);
            got
        });
        while table.waiters_count.load(Ordering::SeqCst) == 0 {
            std::thread::yield_now();
        }
        table.release(&mut a);
        assert!(waiter.join().unwrap().unwrap());
    });
    assert_eq!(table.counts(), (0, 0));
}

#[test]
fn a_deadlock_is_named_and_a_close_ends_the_waits() {
    let table = LockTable::default();
    let [mut a, mut b] = [LockOwner::new(11), LockOwner::new(12)];
    table.lock(&mut a, &ORDER, &write(b"x"), NOW).unwrap();
    table.lock(&mut b, &ORDER, &write(b"y"), NOW).unwrap();
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| table.lock(&mut a, &ORDER, &write(b"y"), WAIT_MAX));
        while !table.waits.lock().is_waiting(11) {
            std::thread::yield_now();
        }
        let error = table.lock(&mut b, &ORDER, &write(b"x"), WAIT_MAX).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Deadlock, "{error}");
        for part in ["transaction 12 waits for transaction 11", "the key \"x\""] {
            assert!(error.message().contains(part), "{error}");
        }
        assert!(error.message().contains("transaction 11 waits for transaction 12"));
        table.close();
        assert_eq!(kind(waiter.join().unwrap()), ErrorKind::Closed);
    });
}

#[test]
fn prepared_transactions_stop_others_by_name() {
    let (table, orders) = (LockTable::default(), orders());
    let mut a = LockOwner::new(1);
    table.lock(&mut a, &ORDER, &write(b"w"), NOW).unwrap();
    table.lock(&mut a, &ORDER, &read(b"r"), NOW).unwrap();
    table.lock(&mut a, &ORDER, &range(b"c", b"f", false), NOW).unwrap();
    let refused = |id, item| table.refuse_prepared(id, [item].into_iter(), &orders).err();
    assert!(refused(2, write(b"w")).is_none(), "the transaction is not prepared");
    table.set_prepared(&mut a, "order 7");
    table.set_prepared(&mut a, "order 7");
    for (item, free) in [
        (read(b"w"), false),
        (write(b"w"), false),
        (read(b"r"), true),
        (write(b"r"), false),
        (write(b"d"), false),
        (read(b"d"), true),
        (write(b"f"), true),
        (range(b"q", b"s", true), false),
        (range(b"q", b"s", false), true),
    ] {
        let error = refused(2, item);
        assert_eq!(error.is_none(), free, "{item}: {error:?}");
        let named = |error: Error| error.message().contains("\"order 7\"");
        assert!(error.is_none_or(named));
        assert!(refused(1, item).is_none(), "its own locks");
    }
    let mut b = LockOwner::new(2);
    let busy = table.lock(&mut b, &ORDER, &write(b"w"), NOW).unwrap_err();
    assert!(busy.message().contains("the prepared transaction \"order 7\""), "{busy}");
    table.release(&mut a);
    assert!(refused(2, write(b"w")).is_none());
}
