//! A filter of the user's own.

/// Answers, per file, whether a key may be in it.
///
/// A filter must never say `false` for a key it was made from: the store would lose it from sight.
pub trait FilterPolicy: Send + Sync + 'static {
    /// A name that identifies the filter's format for ever; files made under another name are
    /// read without a filter.
    fn name(&self) -> &str;
    /// A filter over `keys`, which are in the store's order and distinct.
    fn create(&self, keys: &[&[u8]]) -> Vec<u8>;
    /// Whether `key` may be among the keys `filter` was made from.
    fn may_contain(&self, key: &[u8], filter: &[u8]) -> bool;
}
