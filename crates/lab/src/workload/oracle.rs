//! Expected content of a store, key by key, for checking every read.

use super::dataset::{Dataset, Write};
use super::values::ValueRef;

/// The expected value of each key. The content of an existing store is unknown; its reads are
/// counted but not checked.
#[derive(Clone, Debug)]
pub struct Oracle {
    values: Vec<ValueRef>,
    known: bool,
}

impl Oracle {
    /// Creates the content of an empty store over the keys of `data`.
    pub fn empty(data: &Dataset) -> Oracle {
        Oracle { values: vec![ValueRef::ABSENT; data.key_count()], known: true }
    }

    /// Creates an unknown content.
    pub fn unknown(data: &Dataset) -> Oracle {
        Oracle { known: false, ..Oracle::empty(data) }
    }

    /// Returns whether the content is known.
    pub fn is_known(&self) -> bool {
        self.known
    }

    /// Returns the expected value of key `id`.
    pub fn value(&self, id: u32) -> ValueRef {
        self.values.get(id as usize).copied().unwrap_or(ValueRef::ABSENT)
    }

    /// Applies writes in order; an absent value is a delete.
    pub fn apply(&mut self, writes: impl IntoIterator<Item = Write>) {
        for (id, value) in writes {
            if let Some(place) = self.values.get_mut(id as usize) {
                *place = value;
            }
        }
    }

    /// Returns the ids of the existing keys, ascending.
    pub fn live(&self) -> impl DoubleEndedIterator<Item = u32> + '_ {
        let there = |(id, value): (usize, &ValueRef)| (!value.is_absent()).then_some(id as u32);
        self.values.iter().enumerate().filter_map(there)
    }

    /// Returns the bytes of the live pairs, with keys counted at their mean size.
    pub fn live_bytes(&self, data: &Dataset) -> u64 {
        let (mut keys, mut values) = (0u64, 0u64);
        for value in self.values.iter().filter(|value| !value.is_absent()) {
            keys += 1;
            values += value.len_bytes();
        }
        values + (keys as f64 * data.key_bytes_mean()).round() as u64
    }

    /// Returns the memory used, in bytes.
    pub fn memory_bytes(&self) -> u64 {
        (self.values.capacity() * size_of::<ValueRef>()) as u64
    }

    /// Returns, for each id, the smallest live id that is not below it (`u32::MAX` if there is
    /// none).
    pub fn successors(&self) -> Vec<u32> {
        let mut next = u32::MAX;
        let mut successors = vec![u32::MAX; self.values.len()];
        for id in (0..self.values.len()).rev() {
            if !self.values[id].is_absent() {
                next = id as u32;
            }
            successors[id] = next;
        }
        successors
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn successors_skip_deleted_keys() {
        let data = Dataset::generated(5, 4, 10, 0.5, 1).expect("small");
        let mut oracle = Oracle::empty(&data);
        assert_eq!(oracle.successors(), [u32::MAX; 5]);
        oracle.apply([
            (1, ValueRef::new(0, 1)),
            (3, ValueRef::new(2, 1)),
            (4, ValueRef::new(2, 1)),
        ]);
        oracle.apply([(4, ValueRef::ABSENT)]);
        assert_eq!(oracle.successors(), [1, 1, 3, 3, u32::MAX]);
        assert_eq!(
            oracle.live_bytes(&data),
            2 * 4 + 2,
            "two keys of four bytes, two values of one"
        );
        assert_eq!(oracle.live().collect::<Vec<_>>(), [1, 3]);
    }
}
