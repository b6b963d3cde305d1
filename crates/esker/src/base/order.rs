//! The order of user keys: bytewise, reversed bytewise, or user-defined.

use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

/// A user-defined total order over keys.
///
/// The order of a given name must never change. The manifest records the name, and the store
/// compares it at every open.
///
/// The store calls the comparator during its own operations, on threads that hold the store's
/// locks. The comparator must not use that store. A write from within the comparator fails with an
/// error. Other calls may wait forever.
pub trait Comparator: Send + Sync + 'static {
    /// Returns a permanent name of the order, such as `example.Utf16Order.v1`.
    fn name(&self) -> &str;
    /// Compares two keys. It must be a total order, and should not panic. After a panic in a thread
    /// of the store or within a write, the store refuses writes until it is opened again. A panic
    /// within a read affects the reader alone.
    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering;
    /// Returns whether keys that compare equal always have identical bytes. The built-in Bloom
    /// filter hashes bytes, so the store uses it only if this is true. A user-defined filter policy
    /// is used in either case. Default: false, which is always safe.
    fn equal_keys_are_identical(&self) -> bool {
        false
    }
}

/// The key order of a store. It is fixed when the store is created.
#[derive(Clone, Default)]
#[non_exhaustive]
pub enum KeyOrder {
    /// Unsigned bytes, lexicographic, a prefix before its extensions. The default, and the fastest.
    #[default]
    Bytewise,
    /// The reverse of the bytewise order.
    Reverse,
    /// A user-defined order.
    Custom(Arc<dyn Comparator>),
}

impl KeyOrder {
    /// Returns the name that the manifest records: `esker.bytewise`, `esker.reverse`, or that of the
    /// comparator.
    pub fn name(&self) -> &str {
        match self {
            KeyOrder::Bytewise => "esker.bytewise",
            KeyOrder::Reverse => "esker.reverse",
            KeyOrder::Custom(c) => c.name(),
        }
    }

    /// Returns the order with this name: a built-in one or one of `known`.
    pub(crate) fn by_name(name: &str, known: &[KeyOrder]) -> Option<KeyOrder> {
        let mut orders =
            [KeyOrder::Bytewise, KeyOrder::Reverse].into_iter().chain(known.iter().cloned());
        orders.find(|order| order.name() == name)
    }

    /// Compares two keys.
    #[doc(hidden)]
    #[inline]
    pub fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        match self {
            KeyOrder::Bytewise => a.cmp(b),
            KeyOrder::Reverse => b.cmp(a),
            KeyOrder::Custom(c) => c.compare(a, b),
        }
    }

    /// Returns whether keys that compare equal always have identical bytes.
    pub(crate) fn equal_keys_are_identical(&self) -> bool {
        match self {
            KeyOrder::Bytewise | KeyOrder::Reverse => true,
            KeyOrder::Custom(c) => c.equal_keys_are_identical(),
        }
    }

    /// Returns whether key heads ([`super::key::head`]) and shared prefixes follow this order.
    #[inline]
    pub(crate) fn has_heads(&self) -> bool {
        matches!(self, KeyOrder::Bytewise)
    }
}

impl fmt::Debug for KeyOrder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KeyOrder({})", self.name())
    }
}
