//! Whether this process is still the one that opened a store, or a child forked since: a child has
//! copies of the parent's memory and shares its files, but has none of its threads.
//!
//! What stays true: a number given by [`process`] equals [`now`] in the process it was given in, and
//! in no child of it, whatever the child opens itself. Where the kernel cannot say so, both are 0.
//! No lock is taken, which a child could find taken by a thread that it has not.
#![allow(unsafe_code)]

use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering::Relaxed};

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

/// A page that is zero in every child until the child opens a store itself.
static PAGE: AtomicPtr<AtomicU64> = AtomicPtr::new(ptr::null_mut());
/// The last number given, by this process or those it descends from.
static LAST: AtomicU64 = AtomicU64::new(0);

const PAGE_BYTES: usize = 4096;

/// The number of this process.
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

/// The number of this process if it has one, else 0.
#[inline]
pub fn now() -> u64 {
    let page = PAGE.load(Relaxed);
    if page.is_null() {
        return 0;
    }
    // SAFETY: the page was mapped by `page`, is never unmapped once it stands in `PAGE`, and holds an
    // atomic number at its start, for which any bytes are valid.
    unsafe { &*page }.load(Relaxed)
}

/// Makes `number` that of this process, unless another thread has given it one.
fn set(number: u64) {
    let page = PAGE.load(Relaxed);
    if !page.is_null() {
        // SAFETY: as in `now`.
        let _ = unsafe { &*page }.compare_exchange(0, number, Relaxed, Relaxed);
    }
}

/// A page of zeros that children find zeroed again.
fn page() -> Option<*mut AtomicU64> {
    let access = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: a new private mapping at an address of the kernel's choice touches no memory in use.
    let page = unsafe { mmap_anonymous(ptr::null_mut(), PAGE_BYTES, access, MapFlags::PRIVATE) };
    let page = page.ok()?;
    // SAFETY: the range is the mapping just made, which nothing else uses.
    let wiped = unsafe { madvise(page, PAGE_BYTES, Advice::LinuxWipeOnFork) };
    if wiped.is_err() {
        unmap(page.cast());
        return None;
    }
    Some(page.cast())
}

/// Gives back a page that never stood in `PAGE`.
fn unmap(page: *mut AtomicU64) {
    // SAFETY: a mapping that `page` made and of which no other pointer is kept.
    let _ = unsafe { munmap(page.cast(), PAGE_BYTES) };
}
