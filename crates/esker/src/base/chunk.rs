//! Memory in chunks that the kernel can back with one large page each: a fault in place of 512, and
//! one entry of the processor's address cache for all of it.
#![allow(unsafe_code)]

use std::mem::MaybeUninit;

#[cfg(all(target_os = "linux", not(any(miri, feature = "shuttle"))))]
use rustix::mm::{Advice, madvise};

/// Eight-byte words in a chunk, as a power of two: 2 MiB, a huge page of the usual machines. Where
/// orders of steps are explored, chunks are small, so that threads meet at their ends.
pub const CHUNK_SHIFT: u32 = if cfg!(feature = "shuttle") { 7 } else { 18 };
/// Eight-byte words in a chunk.
pub const CHUNK_WORDS: usize = 1 << CHUNK_SHIFT;
/// Bytes in a chunk.
pub const CHUNK_BYTES: usize = CHUNK_WORDS * 8;

/// The memory of a chunk, aligned as a large page is.
#[derive(Debug)]
#[cfg_attr(not(any(miri, feature = "shuttle")), repr(C, align(2097152)))]
#[cfg_attr(any(miri, feature = "shuttle"), repr(C))]
pub struct Memory([MaybeUninit<u64>; CHUNK_WORDS]);

/// A chunk.
pub type Chunk = Box<Memory>;

/// A chunk of fresh memory; `large` asks for one page under all of it, which costs all of it at the
/// first touch.
pub fn fresh_chunk(large: bool) -> Chunk {
    let memory = Box::<Memory>::new_uninit();
    // SAFETY: `Memory` is made of values that need no initialisation.
    let memory = unsafe { memory.assume_init() };
    #[cfg(all(target_os = "linux", not(any(miri, feature = "shuttle"))))]
    if large {
        let start = std::ptr::from_ref(&*memory).cast_mut().cast();
        // SAFETY: the range is exactly this allocation; the advice changes no byte of it.
        let _ = unsafe { madvise(start, CHUNK_BYTES, Advice::LinuxHugepage) };
    }
    #[cfg(not(all(target_os = "linux", not(any(miri, feature = "shuttle")))))]
    let _ = large;
    memory
}
