//! The values that reads have made of many merge operands in a memtable.
//!
//! A key to which operands are merged all the time, such as a counter, has a long chain of them in
//! a memtable, where nothing combines them. A read that walks a long chain keeps its result here. A
//! later read walks only the newer operands, so the cost of a read has a bound. Results of short
//! chains are not kept.
//!
//! Invariants:
//! 1. A kept value is that of the key for every reader whose newest version of it at or below the
//!    kept number is the kept version, at whatever time. Values that depend on time are not kept.
//! 2. The versions in a memtable are never combined, so a reader that finds a version at or below
//!    the kept number in the same memtable has passed exactly the newer ones.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::base::key::SeqNo;
use crate::base::sync::Mutex;
use crate::base::sync::atomic::{AtomicBool, Ordering};

/// Maximum number of values that a memtable keeps.
const VALUES_MAX: usize = 16;

/// Maximum length of the key and of the value, in bytes.
const BYTES_MAX: usize = 2 << 10;

/// The value of a key as of a version.
pub struct MergedValue {
    hash: u64,
    key: Vec<u8>,
    /// Sequence number of the version.
    pub seqno: SeqNo,
    /// The value.
    pub value: Arc<[u8]>,
}

/// The kept values of a memtable, oldest first.
#[derive(Default)]
pub struct MergedValues {
    values: Mutex<VecDeque<Arc<MergedValue>>>,
    is_off: AtomicBool,
}

impl MergedValues {
    /// Returns the kept value of `key`, if a reader at `seqno` may use it.
    pub fn get(&self, key: &[u8], hash: u64, seqno: SeqNo) -> Option<Arc<MergedValue>> {
        let values = self.values.lock();
        let is_usable =
            |kept: &&Arc<MergedValue>| kept.hash == hash && kept.seqno <= seqno && kept.key == key;
        values.iter().rev().find(is_usable).cloned()
    }

    /// Keeps no values from now on. The views of a follower share their memtables, and below them one
    /// view may see a version that another one does not.
    pub fn turn_off(&self) {
        self.is_off.store(true, Ordering::Relaxed);
    }

    /// Keeps the value of `key` as of its version `seqno`, in place of an earlier one.
    pub fn keep(&self, key: &[u8], hash: u64, seqno: SeqNo, value: &Arc<[u8]>) {
        if self.is_off.load(Ordering::Relaxed) || key.len() > BYTES_MAX || value.len() > BYTES_MAX {
            return;
        }
        let kept = MergedValue { hash, key: key.to_vec(), seqno, value: value.clone() };
        let mut values = self.values.lock();
        match values.iter().position(|kept| kept.hash == hash && kept.key == key) {
            // A reader at an old snapshot does not take the value away from the others.
            Some(at) if values[at].seqno > seqno => return,
            Some(at) => drop(values.remove(at)),
            None if values.len() == VALUES_MAX => drop(values.pop_front()),
            None => {}
        }
        values.push_back(Arc::new(kept));
    }
}

#[cfg(all(test, not(esker_shuttle)))]
mod tests {
    use super::*;

    #[test]
    fn the_newest_value_of_a_key_is_kept_for_readers_after_it() {
        let values = MergedValues::default();
        let found = |key: &[u8], seqno| {
            values.get(key, u64::from(key[0]), seqno).map(|kept| (kept.seqno, kept.value.to_vec()))
        };
        let keep = |key: &[u8], seqno, value: &[u8]| {
            values.keep(key, u64::from(key[0]), seqno, &Arc::from(value));
        };
        keep(b"a", 5, b"five");
        assert_eq!((found(b"a", 4), found(b"b", 9)), (None, None));
        assert_eq!(found(b"a", 5).unwrap().1, b"five");
        keep(b"a", 9, b"nine");
        keep(b"a", 7, b"seven");
        assert_eq!((found(b"a", 8), found(b"a", 9)), (None, Some((9, b"nine".to_vec()))));
        keep(b"b", 1, &[0; BYTES_MAX + 1]);
        assert!(found(b"b", 9).is_none());
        for key in 0..VALUES_MAX as u8 {
            keep(&[200, key], 1, b"v");
        }
        assert!(found(b"a", 9).is_none(), "the oldest value goes");
        assert!((0..VALUES_MAX as u8).all(|key| found(&[200, key], 1).is_some()));
    }
}
