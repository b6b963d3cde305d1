//! What a store must hold, key by key, so that every read can be checked.

use super::dataset::{Dataset, Write};
use super::values::ValueRef;

/// The value each key must have. After an existing store was opened it is unknown, and reads are
/// counted but not checked.
#[derive(Clone, Debug)]
pub struct Oracle {
    values: Vec<ValueRef>,
    known: bool,
}

impl Oracle {
    /// An empty store over the keys of `data`.
    pub fn empty(data: &Dataset) -> Oracle {
        Oracle { values: vec![ValueRef::ABSENT; data.key_count()], known: true }
    }

    /// A store of unknown content.
    pub fn unknown(data: &Dataset) -> Oracle {
        Oracle { known: false, ..Oracle::empty(data) }
    }

    /// Whether the content is known.
    pub fn is_known(&self) -> bool {
        self.known
    }

    /// The value key `id` must have.
    pub fn value(&self, id: u32) -> ValueRef {
        self.values.get(id as usize).copied().unwrap_or(ValueRef::ABSENT)
    }

    /// Notes writes in order; an absent value is a delete.
    pub fn apply(&mut self, writes: impl IntoIterator<Item = Write>) {
        for (id, value) in writes {
            if let Some(place) = self.values.get_mut(id as usize) {
                *place = value;
            }
        }
    }

    /// Ids of the keys that are there, ascending.
    pub fn live(&self) -> impl DoubleEndedIterator<Item = u32> + '_ {
        let there = |(id, value): (usize, &ValueRef)| (!value.is_absent()).then_some(id as u32);
        self.values.iter().enumerate().filter_map(there)
    }

    /// Bytes of the pairs that are there, the keys by their mean.
    pub fn live_bytes(&self, data: &Dataset) -> u64 {
        let (mut keys, mut values) = (0u64, 0u64);
        for value in self.values.iter().filter(|value| !value.is_absent()) {
            keys += 1;
            values += value.len_bytes();
        }
        values + (keys as f64 * data.key_bytes_mean()).round() as u64
    }

    /// Bytes of memory held.
    pub fn memory_bytes(&self) -> u64 {
        (self.values.capacity() * size_of::<ValueRef>()) as u64
    }

    /// For each id, the smallest live id that is not below it (`u32::MAX` where there is none).
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
