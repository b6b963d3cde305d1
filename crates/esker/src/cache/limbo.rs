//! Frames that left their places while readers may still look at them.
//!
//! To wait for readers costs a system call, so they are waited for many frames at a time.
//!
//! What stays true: a frame here is in no place, and is dropped after every reading has ended that
//! may have begun while it was.

use std::sync::Arc;

use crate::base::frame::Frame;
use crate::base::readers::Readers;
use crate::base::sync::Mutex;
use crate::base::sync::atomic::{AtomicUsize, Ordering};

/// Never keeps more than so many bytes that it need not,
const BYTES_MAX: usize = 256 << 10;
/// nor more than this part of the cache.
const PART: u64 = 256;

/// The frames, and those who may look at them.
pub struct Limbo<H> {
    readers: Arc<Readers>,
    left: Mutex<Left<H>>,
    keep_bytes: AtomicUsize,
}

struct Left<H> {
    frames: Vec<Frame<H>>,
    bytes: usize,
}

impl<H> Default for Limbo<H> {
    fn default() -> Limbo<H> {
        let left = Mutex::new(Left { frames: Vec::new(), bytes: 0 });
        Limbo { readers: Arc::default(), left, keep_bytes: AtomicUsize::new(0) }
    }
}

impl<H: Send + Sync + 'static> Limbo<H> {
    /// Those who look at the places.
    #[inline]
    pub fn readers(&self) -> &Arc<Readers> {
        &self.readers
    }

    /// Takes in a frame that has just left its place. Nothing is dropped yet: locks may be held.
    pub fn add(&self, frame: Frame<H>) {
        let mut left = self.left.lock();
        left.bytes += frame.memory_bytes();
        left.frames.push(frame);
    }

    /// Has the frames dropped when they can be, if they are many.
    pub fn settle(&self) {
        self.empty_above(self.keep_bytes.load(Ordering::Relaxed));
    }

    /// The same however few they are.
    pub fn flush(&self) {
        self.empty_above(0);
    }

    /// How much the cache holds, which says what many is.
    pub fn set_capacity(&self, bytes: u64) {
        let part = usize::try_from(bytes / PART).unwrap_or(BYTES_MAX);
        self.keep_bytes.store(part.min(BYTES_MAX), Ordering::Relaxed);
    }

    fn empty_above(&self, bytes: usize) {
        let mut left = self.left.lock();
        if left.frames.is_empty() || left.bytes <= bytes {
            return;
        }
        let frames = std::mem::take(&mut left.frames);
        left.bytes = 0;
        drop(left);
        self.readers.retire(frames);
    }
}
