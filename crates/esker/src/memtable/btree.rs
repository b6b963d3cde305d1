//! The B+tree index: leaves of 64 slots. A slot is an eight-byte key head and a reference to the
//! entry.
//!
//! Invariants:
//! 1. Slots are in internal order (key ascending, seqno descending) within and across leaves.
//! 2. Every key in the tree shares `tree.prefix`. A node's heads are the eight bytes after
//!    `slots.prefix` bytes, and every key that can ever be placed in the node shares those prefix
//!    bytes. They are the common prefix of the separators around the node, or the tree's prefix
//!    where the node has no neighbour on a side (the fence keys of Graefe, "Modern B-Tree
//!    Techniques", 2011). A search therefore compares a prefix once, at the top, and compares heads
//!    from there on.
//! 3. A separator is the first entry of its right child at the time of the split. Entries are never
//!    removed, so the separator remains a bound.
//! 4. Unused heads are `u64::MAX`. Where the order has no heads, all used heads are 0, and every
//!    search is a tie that full comparisons decide.

use std::cmp::Ordering;
use std::sync::Arc;

use super::arena::EntryRef;
use super::pool::ChunkPool;
use super::slab::Slab;
use super::{EntrySpace, LookupKey, Seek};
use crate::base::key::{has_prefix, is_minimum_of_head, shared_prefix_len};
use crate::base::prefetch::prefetch_bytes;

const SLOTS: usize = 64;
/// Maximum number of inner levels: twice what 2^32 entries need at half-full nodes.
const HEIGHT_MAX: usize = 14;
/// Number of equal adjacent heads that justifies reading every key of a node for a longer prefix.
const TIES_MAX: usize = 8;
/// Marks an absent leaf.
const NONE: u32 = u32::MAX;

/// The sorted part common to leaves and inner nodes. It starts at a cache line boundary; a cache
/// line holds eight heads.
#[derive(Clone, Copy)]
#[repr(C)]
struct Slots {
    heads: [u64; SLOTS],
    refs: [EntryRef; SLOTS],
    len: usize,
    prefix: usize,
}

impl Slots {
    fn new(prefix: usize) -> Slots {
        Slots { heads: [u64::MAX; SLOTS], refs: [EntryRef::default(); SLOTS], len: 0, prefix }
    }

    /// Returns the number of heads less than `head`. The loads depend only on the block number, so
    /// the cache lines of the node are fetched concurrently.
    #[inline]
    fn heads_below(&self, head: u64) -> usize {
        let mut block = 0;
        for i in 0..SLOTS / 8 - 1 {
            block += usize::from(self.heads[i * 8 + 7] < head);
        }
        let mut below = block * 8;
        for &slot in &self.heads[block * 8..block * 8 + 8] {
            below += usize::from(slot < head);
        }
        below
    }

    /// Returns the number of slots before `target`, or with `or_equal` before or equal to it.
    #[inline]
    fn rank(&self, space: &EntrySpace, target: LookupKey<'_>, or_equal: bool) -> usize {
        let head = space.head(target.key, self.prefix);
        self.rank_of_ties(space, target, or_equal, (head, self.heads_below(head)))
    }

    /// Returns the head of a `target` to be inserted, and the number of slots before it. Where
    /// `target` is the `newest` entry and its head decides its order, no entry with the same head
    /// precedes it. Then no entry is read: entries of overwritten keys are seldom in the
    /// processor's caches.
    #[inline]
    fn rank_to_insert(
        &self,
        space: &EntrySpace,
        target: LookupKey<'_>,
        newest: bool,
    ) -> (u64, usize) {
        let head = space.head(target.key, self.prefix);
        let low = self.heads_below(head);
        if newest && space.heads && is_minimum_of_head(&target.key[self.prefix..]) {
            return (head, low);
        }
        (head, self.rank_of_ties(space, target, false, (head, low)))
    }

    /// Like [`Slots::rank`], where `low` slots have a lesser head.
    #[inline]
    fn rank_of_ties(
        &self,
        space: &EntrySpace,
        target: LookupKey<'_>,
        or_equal: bool,
        (head, mut low): (u64, usize),
    ) -> usize {
        let mut high = low;
        while high < self.len && self.heads[high] == head {
            high += 1;
        }
        while low < high {
            let middle = (low + high) / 2;
            match space.compare(self.refs[middle], target) {
                Ordering::Less => low = middle + 1,
                Ordering::Equal if or_equal => low = middle + 1,
                _ => high = middle,
            }
        }
        low
    }

    /// Returns whether all slots precede `target`, whose head in this node is `head`.
    #[inline]
    fn ends_before(&self, space: &EntrySpace, target: LookupKey<'_>, head: u64) -> bool {
        let Some(last) = self.len.checked_sub(1) else { return true };
        match self.heads[last].cmp(&head) {
            Ordering::Equal => space.compare(self.refs[last], target).is_lt(),
            unequal => unequal.is_lt(),
        }
    }

    fn insert(&mut self, at: usize, head: u64, entry: EntryRef) {
        self.heads.copy_within(at..self.len, at + 1);
        self.refs.copy_within(at..self.len, at + 1);
        self.heads[at] = head;
        self.refs[at] = entry;
        self.len += 1;
    }

    /// Moves the slots from `at` on to a new node.
    fn split_off(&mut self, at: usize) -> Slots {
        let mut right = Slots::new(self.prefix);
        right.len = self.len - at;
        right.heads[..right.len].copy_from_slice(&self.heads[at..self.len]);
        right.refs[..right.len].copy_from_slice(&self.refs[at..self.len]);
        self.truncate(at);
        right
    }

    fn truncate(&mut self, len: usize) {
        self.heads[len..].fill(u64::MAX);
        self.len = len;
    }

    /// Changes the node's prefix length and recomputes all heads after `prefix` bytes.
    fn set_prefix(&mut self, space: &EntrySpace, prefix: usize) {
        self.prefix = prefix;
        for i in 0..self.len {
            self.heads[i] = space.head(space.arena.entry(self.refs[i]).key, prefix);
        }
    }

    /// Returns the number of heads equal to the previous head.
    fn ties(&self) -> usize {
        self.heads[..self.len].windows(2).filter(|pair| pair[0] == pair[1]).count()
    }
}

#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Leaf {
    slots: Slots,
    prev: u32,
    next: u32,
}

/// `children[i]` holds the entries before `slots[i]`, and `kids[i + 1]` the entries from `slots[i]`
/// on.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Inner {
    slots: Slots,
    children: [u32; SLOTS + 1],
}

/// The inner nodes from the root to a leaf, with the child taken in each.
struct Path {
    steps: [(u32, usize); HEIGHT_MAX],
    len: usize,
}

/// The B+tree.
pub(super) struct Btree {
    leaves: Slab<Leaf>,
    inners: Slab<Inner>,
    /// The root node; a leaf while `height` is 0.
    root: u32,
    /// Number of inner levels above the leaves.
    height: usize,
    first: u32,
    last: u32,
    prefix: Vec<u8>,
}

impl Btree {
    /// Creates an empty tree. A large tree takes its nodes from chunks of `pool`.
    pub fn new(pool: &Arc<ChunkPool>) -> Btree {
        let mut leaves = Slab::new(pool.clone());
        let root = leaves.push(Leaf { slots: Slots::new(0), prev: NONE, next: NONE });
        let inners = Slab::new(pool.clone());
        Btree { leaves, inners, root, height: 0, first: root, last: root, prefix: Vec::new() }
    }

    /// Returns the size of all nodes in bytes. The unused part of the last chunk is not counted.
    pub fn memory_bytes(&self) -> usize {
        self.leaves.len() * size_of::<Leaf>() + self.inners.len() * size_of::<Inner>()
    }

    /// Adds `entry`, whose key and rank are `target`. `newest` states that every other entry is
    /// older.
    pub fn insert(
        &mut self,
        space: &EntrySpace,
        entry: EntryRef,
        target: LookupKey<'_>,
        newest: bool,
    ) {
        if space.heads {
            self.admit_prefix(space, target.key);
        }
        let tail = &mut self.leaves.at_mut(self.last).slots;
        if tail.len < SLOTS {
            let head = space.head(target.key, tail.prefix);
            if tail.ends_before(space, target, head) {
                tail.insert(tail.len, head, entry);
                return;
            }
        }
        let mut path = Path { steps: [(0, 0); HEIGHT_MAX], len: 0 };
        let child_of = |slots: &Slots| slots.rank_to_insert(space, target, newest).1;
        let number = self.descend(child_of, |node, child| {
            path.steps[path.len] = (node, child);
            path.len += 1;
        });
        let slots = &mut self.leaves.at_mut(number).slots;
        // The insertion moves the references as soon as its slot is found.
        prefetch_bytes(slots.refs.as_ptr().addr(), size_of_val(&slots.refs));
        let (head, at) = slots.rank_to_insert(space, target, newest);
        if slots.len < SLOTS {
            slots.insert(at, head, entry);
        } else {
            self.split_leaf(space, &path, number, (at, head), entry);
        }
    }

    /// Returns the first entry at or after `target` if it may have the same key.
    pub fn find(&self, space: &EntrySpace, target: LookupKey<'_>) -> Option<EntryRef> {
        if space.heads && !has_prefix(target.key, &self.prefix) {
            return None;
        }
        let leaf = self.leaves.at(self.leaf_of(space, target));
        let at = leaf.slots.rank(space, target, false);
        if at < leaf.slots.len {
            let same = leaf.slots.heads[at] == space.head(target.key, leaf.slots.prefix);
            return same.then(|| leaf.slots.refs[at]);
        }
        (leaf.next != NONE).then(|| self.leaves.at(leaf.next).slots.refs[0])
    }

    /// Prefetches the leaf of `target`.
    pub fn prefetch(&self, space: &EntrySpace, target: LookupKey<'_>) {
        if !space.heads || has_prefix(target.key, &self.prefix) {
            let slots = &self.leaves.at(self.leaf_of(space, target)).slots;
            prefetch_bytes(std::ptr::from_ref(slots).addr(), size_of::<Slots>());
        }
    }

    /// Copies the part of a leaf that begins (or, backwards, ends) at `seek`.
    pub fn page(&self, space: &EntrySpace, seek: Seek<'_>, out: &mut Vec<EntryRef>) {
        match seek {
            Seek::First => self.copy_from(self.first, 0, out),
            Seek::Last => self.copy_before(self.last, self.leaves.at(self.last).slots.len, out),
            Seek::From(target) => {
                let (leaf, at) = self.place(space, target);
                self.copy_from(leaf, at, out);
            }
            Seek::Before(target) => {
                let (leaf, at) = self.place(space, target);
                self.copy_before(leaf, at, out);
            }
        }
    }

    fn copy_from(&self, leaf: u32, at: usize, out: &mut Vec<EntryRef>) {
        let mut leaf = self.leaves.at(leaf);
        let mut at = at;
        if at == leaf.slots.len && leaf.next != NONE {
            leaf = self.leaves.at(leaf.next);
            at = 0;
        }
        out.extend_from_slice(&leaf.slots.refs[at..leaf.slots.len]);
    }

    fn copy_before(&self, leaf: u32, at: usize, out: &mut Vec<EntryRef>) {
        let mut leaf = self.leaves.at(leaf);
        let mut at = at;
        if at == 0 && leaf.prev != NONE {
            leaf = self.leaves.at(leaf.prev);
            at = leaf.slots.len;
        }
        out.extend_from_slice(&leaf.slots.refs[..at]);
    }

    /// Returns the leaf and slot of the first entry not before `target`. The slot may be one past
    /// the end.
    fn place(&self, space: &EntrySpace, target: LookupKey<'_>) -> (u32, usize) {
        if space.heads && !has_prefix(target.key, &self.prefix) {
            return match target.key < self.prefix.as_slice() {
                true => (self.first, 0),
                false => (self.last, self.leaves.at(self.last).slots.len),
            };
        }
        let leaf = self.leaf_of(space, target);
        (leaf, self.leaves.at(leaf).slots.rank(space, target, false))
    }

    /// Returns the leaf of `target`.
    #[inline]
    fn leaf_of(&self, space: &EntrySpace, target: LookupKey<'_>) -> u32 {
        self.descend(|slots| slots.rank(space, target, true), |_, _| ())
    }

    /// Returns the leaf reached through `child_of`. Calls `step` with every inner node and the
    /// child taken.
    #[inline]
    fn descend(&self, child_of: impl Fn(&Slots) -> usize, mut step: impl FnMut(u32, usize)) -> u32 {
        let mut node = self.root;
        for _ in 0..self.height {
            let inner = self.inners.at(node);
            let child = child_of(&inner.slots);
            step(node, child);
            node = inner.children[child];
        }
        node
    }

    /// Shortens the tree's prefix to the bytes shared with `key`. Only nodes at the tree's edges
    /// rely on that prefix.
    #[inline]
    fn admit_prefix(&mut self, space: &EntrySpace, key: &[u8]) {
        if has_prefix(key, &self.prefix) {
            if self.prefix.is_empty() && self.leaves.at(self.first).slots.len == 0 {
                self.start_prefix(key);
            }
            return;
        }
        let shared = shared_prefix_len(&self.prefix, key);
        self.prefix.truncate(shared);
        for right in [false, true] {
            let mut node = self.root;
            for _ in 0..self.height {
                let inner = self.inners.at_mut(node);
                if inner.slots.prefix > shared {
                    inner.slots.set_prefix(space, shared);
                }
                node = inner.children[if right { inner.slots.len } else { 0 }];
            }
            let slots = &mut self.leaves.at_mut(node).slots;
            if slots.prefix > shared {
                slots.set_prefix(space, shared);
            }
        }
    }

    /// Makes the first key of an empty tree the tree's prefix.
    #[cold]
    fn start_prefix(&mut self, key: &[u8]) {
        self.prefix = key.to_vec();
        self.leaves.at_mut(self.first).slots.prefix = key.len();
    }

    /// Returns the separators around the node under `steps`; `None` at an edge of the tree.
    fn separators(&self, steps: &[(u32, usize)]) -> (Option<EntryRef>, Option<EntryRef>) {
        let (mut low, mut high) = (None, None);
        for &(node, child) in steps.iter().rev() {
            let slots = &self.inners.at(node).slots;
            if low.is_none() && child > 0 {
                low = Some(slots.refs[child - 1]);
            }
            if high.is_none() && child < slots.len {
                high = Some(slots.refs[child]);
            }
        }
        (low, high)
    }

    /// Lengthens the prefix of a node between these separators when too many of its heads are
    /// equal.
    fn lengthen_prefix(
        space: &EntrySpace,
        slots: &mut Slots,
        low: Option<EntryRef>,
        high: Option<EntryRef>,
    ) {
        if !space.heads || slots.ties() < TIES_MAX {
            return;
        }
        if let (Some(low), Some(high)) = (low, high) {
            let (low, high) = (space.arena.entry(low).key, space.arena.entry(high).key);
            let shared = shared_prefix_len(low, high);
            if shared > slots.prefix {
                slots.set_prefix(space, shared);
            }
        }
    }

    /// Splits a full leaf. Adds `entry`, whose head in the leaf is `head`, to one half; `at` is its
    /// slot in the whole leaf. An append to the last leaf leaves that leaf full.
    fn split_leaf(
        &mut self,
        space: &EntrySpace,
        path: &Path,
        number: u32,
        (at, head): (usize, u64),
        entry: EntryRef,
    ) {
        let append = number == self.last && at == SLOTS;
        let middle = if append { SLOTS } else { SLOTS / 2 };
        let (low, high) = self.separators(&path.steps[..path.len]);
        let fresh = self.leaves.len() as u32;
        let left = self.leaves.at_mut(number);
        let mut right = Leaf { slots: left.slots.split_off(middle), prev: number, next: left.next };
        left.next = fresh;
        let left = &mut left.slots;
        if at < middle {
            left.insert(at, head, entry);
        } else {
            right.slots.insert(at - middle, head, entry);
        }
        let separator = right.slots.refs[0];
        Self::lengthen_prefix(space, left, low, Some(separator));
        Self::lengthen_prefix(space, &mut right.slots, Some(separator), high);
        match right.next {
            NONE => self.last = fresh,
            next => self.leaves.at_mut(next).prev = fresh,
        }
        self.leaves.push(right);
        self.add_separator(space, path, separator, fresh, append);
    }

    /// Adds `separator` to the parents. `child` holds the entries from `separator` on.
    fn add_separator(
        &mut self,
        space: &EntrySpace,
        path: &Path,
        separator: EntryRef,
        child: u32,
        append: bool,
    ) {
        let (mut separator, mut child) = (separator, child);
        for depth in (0..path.len).rev() {
            let (node, at) = path.steps[depth];
            if self.inners.at(node).slots.len < SLOTS {
                self.inners.at_mut(node).insert(space, at, separator, child);
                return;
            }
            let middle = if append && at == SLOTS { SLOTS - 1 } else { SLOTS / 2 };
            let (low, high) = self.separators(&path.steps[..depth]);
            let left = self.inners.at_mut(node);
            let (up, mut right) = left.split(middle);
            if at <= middle {
                left.insert(space, at, separator, child);
            } else {
                right.insert(space, at - middle - 1, separator, child);
            }
            Self::lengthen_prefix(space, &mut left.slots, low, Some(up));
            Self::lengthen_prefix(space, &mut right.slots, Some(up), high);
            child = self.inners.push(right);
            separator = up;
        }
        let mut root = Inner { slots: Slots::new(self.prefix.len()), children: [NONE; SLOTS + 1] };
        root.children[0] = self.root;
        root.insert(space, 0, separator, child);
        self.root = self.inners.push(root);
        self.height += 1;
    }
}

impl Inner {
    fn insert(&mut self, space: &EntrySpace, at: usize, separator: EntryRef, child: u32) {
        let len = self.slots.len;
        let head = space.head(space.arena.entry(separator).key, self.slots.prefix);
        self.slots.insert(at, head, separator);
        self.children.copy_within(at + 1..len + 1, at + 2);
        self.children[at + 1] = child;
    }

    /// Moves the slots after separator `middle` to a new node. The separator itself moves to the
    /// parent.
    fn split(&mut self, middle: usize) -> (EntryRef, Inner) {
        let up = self.slots.refs[middle];
        let len = self.slots.len;
        let mut children = [NONE; SLOTS + 1];
        children[..len - middle].copy_from_slice(&self.children[middle + 1..len + 1]);
        let right = Inner { slots: self.slots.split_off(middle + 1), children };
        self.slots.truncate(middle);
        (up, right)
    }
}
