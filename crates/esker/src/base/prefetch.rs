//! Asking the processor for memory ahead of its use.
//!
//! What stays true: nothing the program can see depends on it.
#![allow(unsafe_code)]

/// Bytes the processor fetches at once.
const LINE_BYTES: usize = 64;
/// The most that is asked for at once.
const BYTES_MAX: usize = 1024;

/// Asks for `bytes` from `address`, at most a kilobyte, where something will be read, or written: a
/// store to a line that is not there is cheap until something waits for it, as every lock does.
#[inline]
pub fn prefetch_bytes(address: usize, bytes: usize) {
    prefetch_lines(address, bytes.min(BYTES_MAX).div_ceil(LINE_BYTES));
}

/// Asks for `lines` cache lines from `address`, which need not be one of this process any more.
#[inline]
pub fn prefetch_lines(address: usize, lines: usize) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    for line in 0..lines {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        let from = address.wrapping_add(line * LINE_BYTES) as *const i8;
        // SAFETY: a prefetch reads nothing the program can see and faults on no address; the
        // instruction is part of every x86-64.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(from) };
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = (address, lines);
}
