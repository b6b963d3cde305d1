//! Fork detection: tells the process that opened a store from a child forked later. A child has
//! copies of the parent's memory and shares its files, but has none of its threads.
//!
//! Invariants:
//! 1. A number returned by [`process`] equals [`now`] in the process that called it, and in no
//!    child of that process, even if the child opens stores itself. Without kernel support, both
//!    are 0.
//! 2. No lock is taken. A child could find a lock held by a thread that does not exist in the
//!    child.
#![allow(unsafe_code)]

use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering::Relaxed};

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

/// A page that starts with the process number. It is zero in a child until the child opens a store.
static PAGE: AtomicPtr<AtomicU64> = AtomicPtr::new(ptr::null_mut());
/// The last number assigned by this process or by its ancestors.
static LAST: AtomicU64 = AtomicU64::new(0);

/// Size of the mapping, in bytes.
const PAGE_BYTES: usize = 4096;

/// Returns the number of this process, and assigns one first if needed. Returns 0 without kernel
/// support.
pub fn process() -> u64 {
    if PAGE.load(Relaxed).is_null() {
        let Some(page) = page() else { return 0 };
        let first = PAGE.compare_exchange(ptr::null_mut(), page, Relaxed, Relaxed).is_ok();
        if !first {
            unmap(page);
        }
    }
    if now() == 0 {
        set(LAST.fetch_add(1, Relaxed) + 1);
    }
    now()
}

/// Returns the number of this process, or 0 if none is assigned.
#[inline]
pub fn now() -> u64 {
    let page = PAGE.load(Relaxed);
    if page.is_null() {
        return 0;
    }
    // SAFETY: the page was mapped by `page` and is never unmapped once its address is in `PAGE`. It
    // starts with an atomic number, for which any bytes are valid.
    unsafe { &*page }.load(Relaxed)
}

/// Assigns `number` to this process, unless another thread has already assigned one.
fn set(number: u64) {
    let page = PAGE.load(Relaxed);
    if !page.is_null() {
        // SAFETY: as in `now`.
        let _ = unsafe { &*page }.compare_exchange(0, number, Relaxed, Relaxed);
    }
}

/// Maps a page of zeros that the kernel zeroes again in every child. Returns `None` if the kernel
/// does not support this.
fn page() -> Option<*mut AtomicU64> {
    let access = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: a new private mapping at an address chosen by the kernel touches no memory in use.
    let page = unsafe { mmap_anonymous(ptr::null_mut(), PAGE_BYTES, access, MapFlags::PRIVATE) };
    let page = page.ok()?;
    // SAFETY: the range is the new mapping, which nothing else uses.
    let wiped = unsafe { madvise(page, PAGE_BYTES, Advice::LinuxWipeOnFork) };
    if wiped.is_err() {
        unmap(page.cast());
        return None;
    }
    Some(page.cast())
}

/// Unmaps a page whose address was never in `PAGE`.
fn unmap(page: *mut AtomicU64) {
    // SAFETY: the mapping was created by `page`, and no other pointer to it exists.
    let _ = unsafe { munmap(page.cast(), PAGE_BYTES) };
}
