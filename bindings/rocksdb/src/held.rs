//! A part of an open store that is the same as long as the store is open, or that each catch-up of a
//! secondary instance replaces.

use std::ops::Deref;
use std::sync::Arc;

use arc_swap::ArcSwap;

/// The part.
pub enum Held<T> {
    /// It never changes.
    Fixed(T),
    /// The newest one of a secondary instance.
    Newest(ArcSwap<T>),
}

/// The part as it is now. It stays so while this value lives.
pub enum Now<'a, T> {
    /// The one that never changes.
    Fixed(&'a T),
    /// The newest one when this value was made.
    Newest(Arc<T>),
}

impl<T> Held<T> {
    /// Holds `part`, which is replaced later if `follows` is set.
    pub fn new(part: T, follows: bool) -> Held<T> {
        if follows { Held::Newest(ArcSwap::from_pointee(part)) } else { Held::Fixed(part) }
    }

    /// Returns the part.
    #[inline]
    pub fn now(&self) -> Now<'_, T> {
        match self {
            Held::Fixed(part) => Now::Fixed(part),
            Held::Newest(part) => Now::Newest(part.load_full()),
        }
    }

    /// Replaces the part of a secondary instance.
    pub fn replace(&self, part: T) {
        match self {
            Held::Fixed(_) => debug_assert!(false, "this part never changes"),
            Held::Newest(held) => held.store(Arc::new(part)),
        }
    }
}

impl<T> Deref for Now<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        match self {
            Now::Fixed(part) => part,
            Now::Newest(part) => part,
        }
    }
}
