//! Memory prefetch instructions.
//!
//! Invariant: a prefetch has no effect that the program can observe, except on time.
#![allow(unsafe_code)]

/// Size of a cache line, in bytes.
const LINE_BYTES: usize = 64;
/// Maximum size of one prefetch, in bytes.
const BYTES_MAX: usize = 1024;

/// Prefetches `bytes` bytes from `address`, at most 1,024, for a later read or write. Writes
/// benefit too: a store to an uncached line is cheap only until a later instruction waits for it,
/// as every locked instruction does.
#[inline]
pub fn prefetch_bytes(address: usize, bytes: usize) {
    prefetch_lines(address, bytes.min(BYTES_MAX).div_ceil(LINE_BYTES));
}

/// Prefetches `lines` cache lines from `address`. The address may be invalid.
#[inline]
pub fn prefetch_lines(address: usize, lines: usize) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    for line in 0..lines {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        let from = address.wrapping_add(line * LINE_BYTES) as *const i8;
        // SAFETY: a prefetch has no visible result and does not fault on any address. Every x86-64
        // processor has the instruction.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(from) };
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = (address, lines);
}
