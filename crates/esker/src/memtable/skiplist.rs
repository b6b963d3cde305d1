//! The skip list index (Pugh, "Skip Lists: A Probabilistic Alternative to Balanced Trees", 1990).
//!
//! Invariants: every list is in internal order, and a node in one list is in all lists below. A
//! node is a run of words in one vector: the entry's number, then the next node per level. Node 0
//! is the head. As a successor, 0 means the end.

use super::arena::EntryRef;
use super::{EntrySpace, LookupKey, Seek};

const LEVELS: usize = 12;
/// The list whose nodes are about 64 entries apart. A backwards page begins at one of its nodes.
const PAGE_LEVEL: usize = 3;
/// Number of entries in a forward page.
const PAGE: usize = 64;

/// A node's position in `links`.
type Node = usize;

/// The skip list.
pub(super) struct Skiplist {
    /// The entries of the nodes, by the number in the node's first word.
    entries: Vec<EntryRef>,
    links: Vec<u32>,
    /// The last node of each list.
    tails: [Node; LEVELS],
    random: u64,
}

impl Skiplist {
    pub fn new() -> Skiplist {
        Skiplist {
            entries: vec![EntryRef::default()],
            links: vec![0; LEVELS + 1],
            tails: [0; LEVELS],
            random: 0x9e37_79b9_7f4a_7c15,
        }
    }

    /// Returns the size of the nodes in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.links.len() * size_of::<u32>() + self.entries.len() * size_of::<EntryRef>()
    }

    /// Adds `entry`, whose key and rank are `target`.
    pub fn insert(&mut self, space: &EntrySpace, entry: EntryRef, target: LookupKey<'_>) {
        let last = self.tails[0];
        let before = match last == 0 || space.compare(self.entry(last), target).is_lt() {
            true => self.tails,
            false => self.nodes_before(space, target),
        };
        let node = self.links.len();
        self.links.push(self.entries.len() as u32);
        self.entries.push(entry);
        for (level, &before) in before.iter().enumerate().take(self.random_height()) {
            let next = self.next(before, level);
            self.links.push(next as u32);
            self.links[before + 1 + level] = node as u32;
            if next == 0 {
                self.tails[level] = node;
            }
        }
    }

    /// Returns the first entry at or after `target`.
    pub fn find(&self, space: &EntrySpace, target: LookupKey<'_>) -> Option<EntryRef> {
        let node = self.next(self.nodes_before(space, target)[0], 0);
        (node != 0).then(|| self.entry(node))
    }

    /// Copies some entries that begin (or, backwards, end) at `seek`.
    pub fn page(&self, space: &EntrySpace, seek: Seek<'_>, out: &mut Vec<EntryRef>) {
        match seek {
            Seek::First => self.copy(self.next(0, 0), 0, PAGE, out),
            Seek::From(target) => {
                let node = self.next(self.nodes_before(space, target)[0], 0);
                self.copy(node, 0, PAGE, out);
            }
            Seek::Last => self.copy_after(self.tails[PAGE_LEVEL], 0, out),
            Seek::Before(target) => {
                let before = self.nodes_before(space, target);
                self.copy_after(before[PAGE_LEVEL], self.next(before[0], 0), out);
            }
        }
    }

    /// Copies `from` (unless it is the head) and its successors, up to `end` exclusive.
    fn copy_after(&self, from: Node, end: Node, out: &mut Vec<EntryRef>) {
        let from = if from == 0 { self.next(0, 0) } else { from };
        self.copy(from, end, usize::MAX, out);
    }

    fn copy(&self, from: Node, end: Node, count_max: usize, out: &mut Vec<EntryRef>) {
        let mut node = from;
        while node != 0 && node != end && out.len() < count_max {
            out.push(self.entry(node));
            node = self.next(node, 0);
        }
    }

    #[inline]
    fn next(&self, node: Node, level: usize) -> Node {
        self.links[node + 1 + level] as usize
    }

    #[inline]
    fn entry(&self, node: Node) -> EntryRef {
        self.entries[self.links[node] as usize]
    }

    /// Returns the last node before `target` in each list.
    fn nodes_before(&self, space: &EntrySpace, target: LookupKey<'_>) -> [Node; LEVELS] {
        let mut before = [0; LEVELS];
        let mut node = 0;
        let mut bound = 0;
        for level in (0..LEVELS).rev() {
            loop {
                let next = self.next(node, level);
                // The node that stopped the level above stops this one too.
                if next == bound || !space.compare(self.entry(next), target).is_lt() {
                    bound = next;
                    break;
                }
                node = next;
            }
            before[level] = node;
        }
        before
    }

    /// Returns one level, plus another with probability 1/4 each time.
    fn random_height(&mut self) -> usize {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        let more = (self.random >> 32).trailing_zeros() as usize / 2;
        (1 + more).min(LEVELS)
    }
}
