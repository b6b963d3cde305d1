//! The order of user keys: bytewise, reversed, or the user's own.

use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

/// A total order over keys supplied by the user.
///
/// The order must never change for a given name: the name is kept in the manifest and compared
/// when the store is opened again.
///
/// It is called in the middle of calls on its store, by threads that hold the store's locks: it
/// must not use that store. A write from within it is an error; another call may wait for ever.
pub trait Comparator: Send + Sync + 'static {
    /// A name that identifies the order for ever, such as `example.Utf16Order.v1`.
    fn name(&self) -> &str;
    /// Compares two keys. Must be a total order, and should not panic: a panic in a thread of the
    /// store, or within a write, makes the store refuse writes until it is opened again. One in a read
    /// is the reader's alone.
    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering;
    /// Whether keys that compare equal are always the same bytes. The built-in Bloom filter hashes
    /// bytes, so it is only used for an order that says so; a filter policy of the user's own is
    /// used in any case. Default false, which is always safe.
    fn equal_keys_are_identical(&self) -> bool {
        false
    }
}

/// The order a store keeps its keys in. Fixed when the store is created.
#[derive(Clone, Default)]
pub enum KeyOrder {
    /// Byte by byte, unsigned, shorter first. The default, and the fastest.
    #[default]
    Bytewise,
    /// Bytewise, backwards.
    Reverse,
    /// The user's own.
    Custom(Arc<dyn Comparator>),
}

impl KeyOrder {
    /// The name kept in the manifest.
    pub fn name(&self) -> &str {
        match self {
            KeyOrder::Bytewise => "esker.bytewise",
            KeyOrder::Reverse => "esker.reverse",
            KeyOrder::Custom(c) => c.name(),
        }
    }

    /// Compares two keys.
    #[inline]
    pub fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        match self {
            KeyOrder::Bytewise => a.cmp(b),
            KeyOrder::Reverse => b.cmp(a),
            KeyOrder::Custom(c) => c.compare(a, b),
        }
    }

    /// Whether keys that compare equal are always the same bytes.
    pub fn equal_keys_are_identical(&self) -> bool {
        match self {
            KeyOrder::Bytewise | KeyOrder::Reverse => true,
            KeyOrder::Custom(c) => c.equal_keys_are_identical(),
        }
    }

    /// Whether key heads ([`super::key::head`]) and shared prefixes follow this order.
    #[inline]
    pub fn has_heads(&self) -> bool {
        matches!(self, KeyOrder::Bytewise)
    }
}

impl fmt::Debug for KeyOrder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KeyOrder({})", self.name())
    }
}
