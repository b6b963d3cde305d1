//! A shared value that many threads look at and few replace: a look writes nothing others read.
//!
//! What stays true: the word is the address of an `Arc` with one user that stands for this place;
//! that user is given up through the [`Readers`] after the word is another.
#![allow(unsafe_code)]

use std::marker::PhantomData;
use std::sync::Arc;

use super::readers::{Readers, Reading};
use super::sync::atomic::{AtomicPtr, Ordering};

/// A value that can be replaced while it is looked at.
pub struct Shown<T> {
    value: AtomicPtr<T>,
    readers: Arc<Readers>,
    owns: PhantomData<Arc<T>>,
}

impl<T: Send + Sync + 'static> Shown<T> {
    /// Shows `value` to `readers`.
    pub fn new(value: Arc<T>, readers: Arc<Readers>) -> Shown<T> {
        let value = AtomicPtr::new(Arc::into_raw(value).cast_mut());
        Shown { value, readers, owns: PhantomData }
    }

    /// Those it is shown to.
    #[inline]
    pub fn readers(&self) -> &Readers {
        &self.readers
    }

    /// What is shown now, for as long as `reading`, which is one of [`Shown::readers`], goes on.
    #[inline]
    pub fn see<'s>(&'s self, reading: &'s Reading<'_>) -> &'s T {
        // SAFETY: the address is of an `Arc`'s value, which the reading keeps.
        unsafe { &*self.address(reading) }
    }

    /// What is shown now, for as long as one likes.
    #[inline]
    pub fn load(&self) -> Arc<T> {
        let reading = self.readers.enter();
        let value = self.address(&reading);
        // SAFETY: the address is of an `Arc`'s value, kept by the reading while another user is added.
        unsafe {
            Arc::increment_strong_count(value);
            Arc::from_raw(value)
        }
    }

    /// The address of an `Arc`'s value (`new`, `replace`), whose user here is given up only after the
    /// reading, which began before the address was loaded.
    #[inline]
    fn address(&self, reading: &Reading<'_>) -> *const T {
        assert!(reading.is_of(&self.readers), "a reader of something else");
        self.value.load(Ordering::Acquire)
    }

    /// Shows `value` from now on.
    pub fn replace(&self, value: Arc<T>) {
        let new = Arc::into_raw(value).cast_mut();
        let old = self.value.swap(new, Ordering::AcqRel);
        // SAFETY: the address stood for the user of this place, and is not there any more.
        self.readers.retire(unsafe { Arc::from_raw(old) });
    }
}

impl<T> Drop for Shown<T> {
    fn drop(&mut self) {
        // What was shown may keep the readers, and they it.
        self.readers.flush();
        // SAFETY: nobody sees it any more, and its user was never given up.
        drop(unsafe { Arc::from_raw(self.value.load(Ordering::Relaxed)) });
    }
}
