//! A wavelet tree (Grossi, Gupta and Vitter, SODA 2003) over the bounds of ranges. It finds the
//! newest range over a position that is not newer than the reader. Its nodes also record where
//! their ranges are open.
//!
//! The rank of a range is its position in the order of sequence numbers. The root holds the bounds
//! of all ranges in key order. Each node passes the bounds of the lower half of its ranks to its
//! left child and the others to its right child, and keeps their order. One bit per bound tells
//! which child. A second bit tells whether a range of the node is open after that bound. Every
//! range has two bounds, so the node of ranks `[lo, hi)` has the bounds `[2 lo, 2 hi)` of its
//! level. No pointers are necessary.
//!
//! Invariants:
//! 1. A query descends at most twice through at most log2(ranges) levels (rounded up), with two bit
//!    counts per level.
//! 2. A level takes 24 bytes per 32 ranges. One million ranges take 15 bytes each.
//! 3. For any order of the bounds, even from an invalid comparator, a query terminates and stays
//!    within the arrays.

/// The bits of 64 bounds of a level.
#[derive(Debug, Clone, Copy, Default)]
struct Word {
    /// A set bit marks a bound that goes to a right child.
    right: u64,
    /// A set bit marks a bound after which a range of its node is open.
    open: u64,
    /// Number of earlier bounds of the level that go to a right child.
    right_before: u32,
}

/// A bound as [`WaveletTree::new`] takes it: twice the rank of its range, plus one for an end.
pub(super) type Bound = u32;

/// The tree: an index of the open ranges at each position.
#[derive(Debug, Clone, Default)]
pub(super) struct WaveletTree {
    ranges: usize,
    /// Number of levels with two children per node. Each node below them is a single range.
    levels: usize,
    /// Number of words per level. The words of a level follow those of the level above.
    words_per_level: usize,
    words: Box<[Word]>,
}

/// A node during a query.
#[derive(Clone, Copy)]
struct Node {
    level: usize,
    /// The least rank of the node.
    lo: usize,
    /// Number of bounds of the node at or before the key.
    passed: usize,
}

impl WaveletTree {
    /// Builds the tree from bounds in key order.
    pub(super) fn new(mut bounds: Vec<Bound>) -> WaveletTree {
        let ranges = bounds.len() / 2;
        let levels = ranges.next_power_of_two().trailing_zeros() as usize;
        let words_per_level = bounds.len() / 64 + 1;
        let mut words = vec![Word::default(); levels * words_per_level].into_boxed_slice();
        let mut below = vec![0; bounds.len()];
        for (level, words) in words.chunks_mut(words_per_level).enumerate() {
            fill(words, &bounds, &mut below, 1 << (levels - level));
            std::mem::swap(&mut bounds, &mut below);
        }
        WaveletTree { ranges, levels, words_per_level, words }
    }

    /// Returns the memory used, in bytes.
    pub(super) fn memory_bytes(&self) -> usize {
        self.words.len() * size_of::<Word>()
    }

    /// Returns whether a range is open after the first `passed` bounds.
    #[inline]
    pub(super) fn is_open(&self, passed: usize) -> bool {
        self.ranges > 0 && self.is_open_in(Node { level: 0, lo: 0, passed })
    }

    /// Returns the greatest rank below `end` of a range that is open after the first `passed`
    /// bounds.
    pub(super) fn find(&self, passed: usize, end: usize) -> Option<usize> {
        if end == 0 || self.ranges == 0 {
            return None;
        }
        let mut found = None;
        let mut node = Node { level: 0, lo: 0, passed };
        while self.is_open_in(node) {
            let size = 1 << (self.levels - node.level);
            if node.lo + size <= end || end >= self.ranges {
                found = Some(node);
                break;
            }
            let (left, right) = self.children(node);
            if end <= right.lo {
                node = left;
            } else {
                if self.is_open_in(left) {
                    found = Some(left);
                }
                node = right;
            }
        }
        let mut node = found?;
        while node.level < self.levels {
            let (left, right) = self.children(node);
            let newer = right.lo < self.ranges && self.is_open_in(right);
            node = if newer { right } else { left };
        }
        Some(node.lo)
    }

    #[inline]
    fn is_open_in(&self, node: Node) -> bool {
        if node.passed == 0 {
            return false;
        }
        if node.level == self.levels {
            return node.passed == 1;
        }
        let at = 2 * node.lo + node.passed - 1;
        let word = self.words[node.level * self.words_per_level + at / 64];
        word.open >> (at % 64) & 1 == 1
    }

    /// Returns the children of a node above the lowest level.
    #[inline]
    fn children(&self, node: Node) -> (Node, Node) {
        let Node { level, lo, passed } = node;
        let right = self.rights(level, 2 * lo + passed) - self.rights(level, 2 * lo);
        let half = 1 << (self.levels - level - 1);
        let level = level + 1;
        (Node { level, lo, passed: passed - right }, Node { level, lo: lo + half, passed: right })
    }

    /// Returns the number of bounds among the first `bounds` of a level that go to a right child.
    #[inline]
    fn rights(&self, level: usize, bounds: usize) -> usize {
        let word = self.words[level * self.words_per_level + bounds / 64];
        let before = word.right & !(u64::MAX << (bounds % 64));
        word.right_before as usize + before.count_ones() as usize
    }
}

/// Fills the words of the level whose nodes have `size` ranks. Moves its bounds to `below`, in the
/// order of the next level.
fn fill(words: &mut [Word], bounds: &[Bound], below: &mut [Bound], size: usize) {
    let mut rights = 0;
    for (node, bounds) in bounds.chunks(2 * size).enumerate() {
        let first = node * 2 * size;
        let middle = node * size + size / 2;
        // The first positions of the two children. An incomplete left child has no right sibling.
        let (mut left, mut right) = (first, first + size);
        let mut open = 0i64;
        for (at, &bound) in bounds.iter().enumerate() {
            let at = first + at;
            if at.is_multiple_of(64) {
                words[at / 64].right_before = rights;
            }
            let (word, bit) = (&mut words[at / 64], 1 << (at % 64));
            open += if bound & 1 == 0 { 1 } else { -1 };
            if open > 0 {
                word.open |= bit;
            }
            let to = if (bound / 2) as usize >= middle {
                word.right |= bit;
                rights += 1;
                &mut right
            } else {
                &mut left
            };
            below[*to] = bound;
            *to += 1;
        }
    }
    if bounds.len().is_multiple_of(64) {
        words[bounds.len() / 64].right_before = rights;
    }
}
