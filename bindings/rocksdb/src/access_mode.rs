//! The three ways in which a store is opened.

/// How a store is opened.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// For writing.
    Write,
    /// For reading, as it was at the opening.
    Read,
    /// For reading, as it was at the last catch-up.
    Follow,
}
