//! How a store is opened.

/// How a store is opened.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// For writing.
    Write,
    /// For reading, as it is now.
    Read,
    /// For reading, as a secondary instance.
    Follow,
}
