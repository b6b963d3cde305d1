//! Of ranges in the order of their sequence numbers: the newest over a place that is not newer than
//! a reader. A wavelet tree (Grossi, Gupta and Vitter, SODA 2003) over the ranges' bounds, whose
//! nodes also say what their ranges cover.
//!
//! A rank is a range's place in the order of sequence numbers. The root holds the bounds of all
//! ranges in key order; each node passes those of the lower half of its ranks to its left child,
//! the others to its right one, in the order they are in. One bit a bound says which. A second bit
//! says whether some range of the node is open behind that bound. Since every range has two bounds,
//! the node of ranks `[lo, hi)` has the bounds `[2 lo, 2 hi)` of its level, and nothing points.
//!
//! What stays true:
//! 1. A question descends twice through at most log2(ranges) levels, with two counts of bits a level.
//! 2. A level takes 24 bytes for 32 ranges, so a million ranges take 15 bytes each.
//! 3. Whatever order a comparator says bounds are in, a question ends and stays within the arrays.

/// 64 bounds of a level.
#[derive(Debug, Clone, Copy, Default)]
struct Word {
    /// Which of them go to a right child.
    right: u64,
    /// Behind which of them a range of their node is open.
    open: u64,
    /// How many bounds of the level before these go to a right child.
    right_before: u32,
}

/// What bounds say of ranges, as [`WaveletTree::new`] takes them: the rank twice, plus one at an end.
pub(super) type Bound = u32;

/// Which ranges are open where.
#[derive(Debug, Clone, Default)]
pub(super) struct WaveletTree {
    ranges: usize,
    /// So many levels have two children a node; below them each node is one range.
    levels: usize,
    /// The words of a level lie behind those of the level above.
    words_per_level: usize,
    words: Box<[Word]>,
}

/// A node, and how many of its bounds are at or before the key in question.
#[derive(Clone, Copy)]
struct Node {
    level: usize,
    /// The least rank.
    lo: usize,
    passed: usize,
}

impl WaveletTree {
    /// Of bounds in key order.
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

    /// Bytes of memory.
    pub(super) fn memory_bytes(&self) -> usize {
        self.words.len() * size_of::<Word>()
    }

    /// Whether some range is open behind the first `passed` bounds.
    #[inline]
    pub(super) fn is_open(&self, passed: usize) -> bool {
        self.ranges > 0 && self.is_open_in(Node { level: 0, lo: 0, passed })
    }

    /// The greatest rank below `end` of a range that is open behind the first `passed` bounds.
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

    /// The children of a node that has some.
    #[inline]
    fn children(&self, node: Node) -> (Node, Node) {
        let Node { level, lo, passed } = node;
        let right = self.rights(level, 2 * lo + passed) - self.rights(level, 2 * lo);
        let half = 1 << (self.levels - level - 1);
        let level = level + 1;
        (Node { level, lo, passed: passed - right }, Node { level, lo: lo + half, passed: right })
    }

    /// How many of the first `bounds` bounds of a level go to a right child.
    #[inline]
    fn rights(&self, level: usize, bounds: usize) -> usize {
        let word = self.words[level * self.words_per_level + bounds / 64];
        let before = word.right & !(u64::MAX << (bounds % 64));
        word.right_before as usize + before.count_ones() as usize
    }
}

/// Fills the words of the level whose nodes hold `size` ranks, and moves its bounds into `below`,
/// in the order of the level below.
fn fill(words: &mut [Word], bounds: &[Bound], below: &mut [Bound], size: usize) {
    let mut rights = 0;
    for (node, bounds) in bounds.chunks(2 * size).enumerate() {
        let first = node * 2 * size;
        let middle = node * size + size / 2;
        // The bounds of the left child, if it is whole; else there is no right one.
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
