//! Rust objects that Java holds as numbers: the address of a box with a tag of its type in front.
//!
//! Invariants:
//! 1. Java frees a number only when no object that holds it is reachable, or under the lock under
//!    which it is used. Each call has its owner as an argument, so the owner is reachable.
//! 2. A number of 0, or of an object of another type, is an error.

use jni_sys::jlong;

use crate::env::{Failure, Outcome};

/// A type whose objects Java may hold.
pub trait Given {
    /// A number that no other type has.
    const TAG: u64;
    /// The name in messages.
    const NAME: &'static str;
}

#[repr(C)]
struct Tagged<T> {
    tag: u64,
    value: T,
}

/// Gives an object to Java.
pub fn give<T: Given>(value: T) -> jlong {
    Box::into_raw(Box::new(Tagged { tag: T::TAG, value })) as jlong
}

/// Returns the object with this number.
#[inline]
pub fn object<'a, T: Given>(number: jlong) -> Outcome<&'a T> {
    let tagged = number as usize as *const Tagged<T>;
    if tagged.is_null() || !tagged.is_aligned() {
        return Err(closed::<T>());
    }
    // SAFETY: numbers come from `give` and are freed according to the first invariant. The tag is
    // the first field for each type.
    unsafe {
        match tagged.cast::<u64>().read() == T::TAG {
            true => Ok(&(*tagged).value),
            false => Err(closed::<T>()),
        }
    }
}

/// Takes an object back from Java. Does nothing for 0.
pub fn take<T: Given>(number: jlong) -> Outcome<()> {
    if number == 0 {
        return Ok(());
    }
    object::<T>(number)?;
    // SAFETY: the number comes from `give` of this type, and Java uses it no more.
    drop(unsafe { Box::from_raw(number as usize as *mut Tagged<T>) });
    Ok(())
}

fn closed<T: Given>() -> Failure {
    Failure::closed(format!("the {} is closed", T::NAME))
}
