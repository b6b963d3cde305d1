//! The merge operands of a key, and how a read makes a value of them.
//!
//! Invariants: operands are collected from the newest to the oldest, down to the value that they
//! are merged into, a tombstone, or the end of the versions. The operator gets them oldest first.

use std::sync::Arc;

use crate::base::keyspace::PREFIX_BYTES;
use crate::base::keyspace_rules::KeyspaceRules;
use crate::base::separated::{ReadValues, ValueBytes};
use crate::error::{Error, ErrorKind, Result};

/// Number of operands of one key that make a long chain. Reads of such a key are slow.
pub const LONG_CHAIN: usize = 64;

/// Merge operands of one key, collected from the newest to the oldest.
#[derive(Default)]
pub struct Operands {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Operands {
    /// Adds the next older operand.
    pub fn push(&mut self, operand: &[u8]) {
        self.bytes.extend_from_slice(operand);
        self.ends.push(self.bytes.len());
    }

    /// Returns the number of operands.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Returns whether there are no operands.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Returns the bytes of all operands together.
    pub fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Returns the operands, newest first.
    pub fn newest_first(&self) -> impl DoubleEndedIterator<Item = &[u8]> {
        (0..self.ends.len()).map(|at| {
            let start = at.checked_sub(1).map_or(0, |before| self.ends[before]);
            &self.bytes[start..self.ends[at]]
        })
    }

    /// Returns the operands, oldest first, as operators take them.
    pub fn oldest_first(&self) -> Vec<&[u8]> {
        self.newest_first().rev().collect()
    }

    /// Removes the oldest operand.
    pub fn pop_oldest(&mut self) {
        self.ends.pop();
        self.bytes.truncate(self.ends.last().copied().unwrap_or(0));
    }

    /// Removes all operands. Frees large buffers.
    pub fn clear(&mut self) {
        super::empty(&mut self.bytes);
        self.ends.clear();
        self.ends.shrink_to(2 * LONG_CHAIN);
    }
}

/// How a read treats entries that are neither plain puts nor tombstones.
#[derive(Clone, Default)]
pub struct Resolver {
    /// `None`: the keyspace has no merge operator.
    rules: Option<Arc<KeyspaceRules>>,
    /// The time of the read, in milliseconds since 1970.
    at_ms: u64,
    /// Whether a key exists if it has an operand or a put that may have expired. Values are not
    /// made.
    keys_only: bool,
    /// The prefix of the keys that the read is about. Other keys are not resolved: the read only
    /// sees that it has reached them.
    own_prefix: Option<[u8; PREFIX_BYTES]>,
    /// Reads separated values. `None`: no table has any.
    values: Option<Arc<dyn ReadValues>>,
}

impl Resolver {
    /// Returns the resolver of a read in a keyspace with `rules` at the time `at_ms`.
    pub fn new(rules: &Arc<KeyspaceRules>, at_ms: u64) -> Resolver {
        let rules = rules.operator.is_some().then(|| rules.clone());
        Resolver { rules, at_ms, ..Resolver::default() }
    }

    /// Returns the resolver of a search for keys that some reader may see, at whatever time.
    pub fn keys_only() -> Resolver {
        Resolver { keys_only: true, ..Resolver::default() }
    }

    /// Limits the resolver to keys that begin with `prefix`.
    pub fn limit_to(&mut self, prefix: [u8; PREFIX_BYTES]) {
        self.own_prefix = Some(prefix);
    }

    /// Sets how separated values are read.
    pub fn set_values(&mut self, values: Arc<dyn ReadValues>) {
        self.values = Some(values);
    }

    /// Returns the separated value of the stored key `key` to which `pointer` points.
    ///
    /// # Errors
    /// As [`ReadValues::read_value`].
    pub fn read_value(&self, key: &[u8], pointer: &[u8]) -> Result<ValueBytes> {
        read_value(self.values.as_deref(), key, pointer)
    }

    /// Returns whether no value is made of `key`.
    #[inline]
    pub fn is_keys_only(&self, key: &[u8]) -> bool {
        self.keys_only || self.own_prefix.is_some_and(|own| !key.starts_with(&own))
    }

    /// Returns the time of the read, in milliseconds since 1970. A search at whatever time has 0.
    #[inline]
    pub fn at_ms(&self) -> u64 {
        self.at_ms
    }

    /// Returns whether a pair with this time has expired.
    #[inline]
    pub fn is_expired(&self, time_ms: u64) -> bool {
        time_ms <= self.at_ms
    }

    /// Writes to `out` the value of the stored key `key` after `operands` were merged into
    /// `existing`.
    ///
    /// # Errors
    /// As [`merge`].
    pub fn merge(
        &self,
        key: &[u8],
        existing: Option<&[u8]>,
        operands: &Operands,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        match &self.rules {
            Some(rules) => merge(rules, key, existing, operands, out),
            None => Err(no_operator()),
        }
    }
}

/// Writes to `out` the value of the stored key `key` after `operands` were merged into `existing`.
///
/// # Errors
/// `Incompatible` when the operator is missing, `InvalidArgument` when it fails or panics.
pub fn merge(
    rules: &KeyspaceRules,
    key: &[u8],
    existing: Option<&[u8]>,
    operands: &Operands,
    out: &mut Vec<u8>,
) -> Result<()> {
    let Some(operator) = &rules.operator else { return Err(no_operator()) };
    operator.full_merge(rules.user_key(key), existing, &operands.oldest_first(), out)
}

/// Reads a separated value by `values`.
pub(super) fn read_value(
    values: Option<&dyn ReadValues>,
    key: &[u8],
    pointer: &[u8],
) -> Result<ValueBytes> {
    match values {
        Some(values) => values.read_value(Some(key), pointer),
        None => Err(Error::new(
            ErrorKind::Corruption,
            "an entry points to a value file, but no table of the store names one",
        )),
    }
}

#[cold]
fn no_operator() -> Error {
    Error::new(
        ErrorKind::Incompatible,
        "the key has merge operands, and the store was opened without the merge operator of its \
         keyspace; give it in `Options::merge_operator`",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operands_come_back_in_both_orders() {
        let mut operands = Operands::default();
        assert!(operands.is_empty() && operands.oldest_first().is_empty());
        for operand in [&b"newest"[..], b"", b"middle", b"oldest"] {
            operands.push(operand);
        }
        assert_eq!((operands.len(), operands.bytes()), (4, 18));
        assert_eq!(operands.oldest_first(), [&b"oldest"[..], b"middle", b"", b"newest"]);
        operands.pop_oldest();
        assert!(operands.newest_first().eq([&b"newest"[..], b"", b"middle"]));
        operands.clear();
        operands.push(b"again");
        assert_eq!(operands.oldest_first(), [&b"again"[..]]);
    }
}
