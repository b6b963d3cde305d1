//! Options that are kept by name: the part that all option objects have in common.
//!
//! Each object of RocksDB's options begins with [`Settings`], so that the generated setters and
//! getters (`stubs.rs`) work on every one of them.
//!
//! Invariants:
//! 1. A number is kept as 64 bits: integers as two's complement, `double` by its bits.
//! 2. A getter returns what the setter stored, or RocksDB's default.
//! 3. A refused setting is remembered. Every call with the options fails with its message.

use std::ffi::c_void;

use esker_c::failure::{Failure, Outcome};

use crate::failure::refusal;

/// The settings of an option object.
#[derive(Clone, Default)]
pub struct Settings {
    values: Vec<(&'static str, u64)>,
    refused: Option<Failure>,
}

impl Settings {
    /// Stores a value.
    pub fn set(&mut self, key: &'static str, bits: u64) {
        match self.values.iter_mut().find(|(known, _)| *known == key) {
            Some((_, value)) => *value = bits,
            None => self.values.push((key, bits)),
        }
    }

    /// Returns a value as 64 bits, or `None` if it was not set.
    pub fn get(&self, key: &str) -> Option<u64> {
        self.values.iter().find(|(known, _)| *known == key).map(|(_, bits)| *bits)
    }

    /// Returns a value as a signed number, or `None` if it was not set.
    pub fn number(&self, key: &str) -> Option<i64> {
        self.get(key).map(|bits| bits as i64)
    }

    /// Returns a flag; `false` if it was not set.
    pub fn flag(&self, key: &str) -> bool {
        self.get(key).is_some_and(|bits| bits != 0)
    }

    /// Remembers a refused setting. The first one is kept.
    pub fn refuse(&mut self, function: &str, why: &str) {
        self.refused.get_or_insert_with(|| refusal(function, why));
    }

    /// Returns the failure of a refused setting.
    #[inline]
    pub fn check(&self) -> Outcome<()> {
        match &self.refused {
            Some(failure) => Err(failure.clone()),
            None => Ok(()),
        }
    }

    /// Returns the names of the settings that were set, in order of their first setting.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        self.values.iter().map(|(name, _)| *name)
    }
}

/// Creates an object that has settings alone.
pub fn make() -> *mut c_void {
    Box::into_raw(Box::<Settings>::default()).cast()
}

/// Frees an object of [`make`].
///
/// # Safety
/// `object` is null, or was returned by [`make`] and not freed.
pub unsafe fn free(object: *mut c_void) {
    if !object.is_null() {
        // SAFETY: guaranteed by the caller.
        drop(unsafe { Box::from_raw(object.cast::<Settings>()) });
    }
}

/// Stores a value in an option object.
///
/// # Safety
/// `object` is null, or an option object that nothing else uses during the call.
pub unsafe fn set(object: *mut c_void, key: &'static str, bits: u64) {
    // SAFETY: every option object begins with its settings; otherwise guaranteed by the caller.
    if let Some(settings) = unsafe { object.cast::<Settings>().as_mut() } {
        settings.set(key, bits);
    }
}

/// Returns a value of an option object, or `default` if it was not set.
///
/// # Safety
/// `object` is null, or an option object.
pub unsafe fn get(object: *const c_void, key: &str, default: u64) -> u64 {
    // SAFETY: every option object begins with its settings; otherwise guaranteed by the caller.
    unsafe { object.cast::<Settings>().as_ref() }
        .and_then(|settings| settings.get(key))
        .unwrap_or(default)
}

/// Remembers in an option object that `function` was refused.
///
/// # Safety
/// As for [`set`].
pub unsafe fn refuse(object: *mut c_void, function: &str, why: &str) {
    // SAFETY: every option object begins with its settings; otherwise guaranteed by the caller.
    if let Some(settings) = unsafe { object.cast::<Settings>().as_mut() } {
        settings.refuse(function, why);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_replace_each_other_and_keep_their_bits() {
        let mut settings = Settings::default();
        settings.set("a", (-3i32) as i64 as u64);
        settings.set("b", 0.5f64.to_bits());
        settings.set("a", (-4i32) as i64 as u64);
        assert_eq!(settings.number("a"), Some(-4));
        assert_eq!(settings.get("b").map(f64::from_bits), Some(0.5));
        assert!(settings.flag("a") && !settings.flag("c"));
        assert_eq!(settings.names().collect::<Vec<_>>(), ["a", "b"]);
    }

    #[test]
    fn the_first_refusal_stays() {
        let mut settings = Settings::default();
        assert!(settings.check().is_ok());
        settings.refuse("rocksdb_a", "no a");
        settings.refuse("rocksdb_b", "no b");
        assert_eq!(settings.check().unwrap_err().message, "rocksdb_a: no a");
    }

    #[test]
    fn objects_of_settings_are_made_and_freed() {
        let object = make();
        // SAFETY: the object was just made, and is freed once.
        unsafe {
            set(object, "x", 7);
            assert_eq!(get(object, "x", 1), 7);
            assert_eq!(get(object, "y", 1), 1);
            refuse(object, "rocksdb_z", "no z");
            free(object);
            free(std::ptr::null_mut());
        }
    }
}
