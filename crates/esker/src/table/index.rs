//! The index block: maps a key to the block that may hold it.
//!
//! On disk: the number of blocks (varint), then for each block its separator (length varint,
//! bytes), its payload length (varint) and its length before compression (varint). Blocks follow
//! each other from the start of the file, so offsets are sums.
//!
//! Invariants: a separator is not before any key of its block and not after any key of the next
//! block. It equals the first key of the next block only if the versions of that key continue
//! there. A key's entries, if any, therefore start in the first block whose separator is not before
//! the key.
//!
//! In memory, each separator has a head in the bytewise order: the eight bytes after the prefix
//! that all separators share. A search goes through heads and compares keys only where heads tie.
//! The static tree is the bottom array of heads and, above it, the last head of every group of
//! `fanout`, level by level (Rao, Ross, "Cache Conscious Indexing", VLDB 1999).

use std::cmp::Ordering;
use std::sync::Arc;

use crate::base::cache_block_pool::CacheBlockPool;
use crate::base::coding::{Reader, put_bytes, put_varint};
use crate::base::huge_page_box::HugePageBox;
use crate::base::key::{has_prefix, head, shared_prefix_len};
use crate::base::order::KeyOrder;
use crate::base::prefetch::prefetch_bytes;
use crate::options::kinds::IndexSearch;

use super::index_entries::{BlockPlace, Entries, EntryGroup};

/// Interpolation changes to binary search below this many heads, or after this many guesses.
const INTERPOLATION_ROWS: usize = 16;
const INTERPOLATION_STEPS: usize = 6;

/// Builds the index of a new table.
#[derive(Default)]
pub(super) struct IndexBuilder {
    entries: Vec<u8>,
    count: u32,
}

impl IndexBuilder {
    /// Adds a block whose last key is `last`. The next block starts with `next`.
    pub(super) fn add(
        &mut self,
        order: &KeyOrder,
        last: &[u8],
        next: Option<&[u8]>,
        payload_bytes: u64,
        raw_bytes: u64,
    ) {
        match next {
            Some(next) if order.has_heads() => {
                let shared = shared_prefix_len(last, next);
                separator(last, next, shared, |parts| {
                    put_varint(&mut self.entries, parts.iter().map(|p| p.len() as u64).sum());
                    parts.iter().for_each(|part| self.entries.extend_from_slice(part));
                });
            }
            _ => put_bytes(&mut self.entries, last),
        }
        put_varint(&mut self.entries, payload_bytes);
        put_varint(&mut self.entries, raw_bytes);
        self.count += 1;
    }

    /// Returns the number of blocks so far.
    pub(super) fn count(&self) -> u32 {
        self.count
    }

    /// Returns the approximate length of the index in bytes.
    pub(super) fn estimated_bytes(&self) -> u64 {
        self.entries.len() as u64 + 8
    }

    /// Appends the index's payload.
    pub(super) fn finish(&self, out: &mut Vec<u8>) {
        put_varint(out, u64::from(self.count));
        out.extend_from_slice(&self.entries);
    }
}

/// Passes a short key in `[last, next)`, in bytewise order, to `emit` in parts. `shared` is the
/// length of the common prefix of `last` and `next`.
fn separator(last: &[u8], next: &[u8], shared: usize, emit: impl FnOnce([&[u8]; 2])) {
    let (Some(&low), Some(&high)) = (last.get(shared), next.get(shared)) else {
        // Equal keys, or `last` is a prefix of `next`.
        return emit([last, &[]]);
    };
    if high - low > 1 {
        return emit([&last[..shared], &[low + 1]]);
    }
    if next.len() > shared + 1 {
        return emit([&next[..=shared], &[]]);
    }
    match last[shared + 1..].iter().position(|&byte| byte < 0xff) {
        Some(at) => {
            let at = shared + 1 + at;
            emit([&last[..at], &[last[at] + 1]]);
        }
        None => emit([last, &[]]),
    }
}

/// State of a half-finished search.
#[derive(Debug, Clone, Copy)]
pub(super) enum PartialFind {
    /// The search is finished; this is the block.
    At(usize),
    /// The wanted head, and the index of the first head that is not below it.
    Head(u64, usize),
    /// The wanted head, and the group that contains the first head not below it.
    Near(u64, usize),
}

/// The index of an open table.
pub(super) struct Index {
    order: KeyOrder,
    search: IndexSearch,
    fanout: usize,
    /// Length of the prefix that all separators share; 0 when the order has no heads.
    prefix_bytes: usize,
    heads: HugePageBox<u64>,
    /// Tree levels above the heads, bottom up. Each level holds the last head of every group below.
    levels: Vec<Vec<u64>>,
    keys: Vec<u8>,
    key_ends: Vec<u32>,
    /// Start offset of each block, and the end offset of the last block.
    offsets: Vec<u64>,
    raw_bytes: Vec<u32>,
}

impl Index {
    /// Memory for a block beside its separator, about: a head with its share of the tree above it,
    /// an end, an offset and a length.
    pub(super) const BLOCK_BYTES: usize = 8 + 1 + 4 + 8 + 4;

    /// Decodes a payload of [`IndexBuilder::finish`] whose blocks end at `data_bytes`. The heads
    /// are placed in `pages`.
    pub(super) fn decode(
        payload: &[u8],
        data_bytes: u64,
        order: &KeyOrder,
        search: IndexSearch,
        fanout: usize,
        pages: &Arc<CacheBlockPool>,
    ) -> Result<Index, &'static str> {
        let mut index = Index {
            order: order.clone(),
            search,
            fanout: fanout.clamp(2, 256),
            prefix_bytes: 0,
            heads: HugePageBox::new(Vec::new(), pages),
            levels: Vec::new(),
            keys: Vec::new(),
            key_ends: Vec::new(),
            offsets: vec![0],
            raw_bytes: Vec::new(),
        };
        index.read(payload).ok_or("the index is truncated or has a length out of range")?;
        if index.data_bytes() != data_bytes {
            return Err("the blocks of the index do not end where the filter begins");
        }
        let ordered = (1..index.count())
            .all(|i| order.compare(index.key(i - 1), index.key(i)) != Ordering::Greater);
        if !ordered {
            return Err("the index is out of order");
        }
        if order.has_heads() {
            index.build_tree(pages);
        }
        Ok(index)
    }

    fn read(&mut self, payload: &[u8]) -> Option<()> {
        let mut reader = Reader::new(payload);
        let count = usize::try_from(reader.varint()?).ok()?;
        // An entry takes at least three bytes.
        if count > reader.remaining() / 3 || u32::try_from(payload.len()).is_err() {
            return None;
        }
        self.key_ends.reserve_exact(count);
        self.offsets.reserve_exact(count);
        self.raw_bytes.reserve_exact(count);
        let mut entries = Entries::from(reader, 0);
        for _ in 0..count {
            let entry = entries.next()?;
            self.keys.extend_from_slice(entry.separator);
            self.key_ends.push(self.keys.len() as u32);
            self.offsets.push(entry.place.end);
            self.raw_bytes.push(entry.place.raw_bytes as u32);
        }
        self.keys.shrink_to_fit();
        entries.is_empty().then_some(())
    }

    /// Returns the index of `groups` of blocks, with the last separator of each. Its blocks are the
    /// groups; it does not know their lengths before compression. The heads are placed in `pages`.
    pub(super) fn thinned(&self, groups: &[EntryGroup], pages: &Arc<CacheBlockPool>) -> Index {
        let ends = groups.iter().skip(1).map(|group| group.first as usize).chain([self.count()]);
        let mut thin = Index {
            order: self.order.clone(),
            search: self.search,
            fanout: self.fanout,
            prefix_bytes: 0,
            heads: HugePageBox::new(Vec::new(), pages),
            levels: Vec::new(),
            keys: Vec::new(),
            key_ends: Vec::with_capacity(groups.len()),
            offsets: Vec::with_capacity(groups.len() + 1),
            raw_bytes: vec![0; groups.len()],
        };
        thin.offsets.push(0);
        for last in ends.take(groups.len()).map(|end| end - 1) {
            thin.keys.extend_from_slice(self.key(last));
            thin.key_ends.push(thin.keys.len() as u32);
            thin.offsets.push(self.offsets[last + 1]);
        }
        thin.keys.shrink_to_fit();
        if self.order.has_heads() {
            thin.build_tree(pages);
        }
        thin
    }

    /// Computes the heads and the tree over them.
    fn build_tree(&mut self, pages: &Arc<CacheBlockPool>) {
        let count = self.count();
        if count == 0 {
            return;
        }
        let prefix_bytes = shared_prefix_len(self.key(0), self.key(count - 1));
        self.prefix_bytes = prefix_bytes;
        let heads = (0..count).map(|i| head(&self.key(i)[prefix_bytes..])).collect();
        self.heads = HugePageBox::new(heads, pages);
        if self.search != IndexSearch::Btree {
            return;
        }
        loop {
            let below = self.levels.last().map_or(&*self.heads, Vec::as_slice);
            if below.len() <= self.fanout {
                return;
            }
            let last_of = |group: &[u64]| group.last().copied().unwrap_or(u64::MAX);
            let level = below.chunks(self.fanout).map(last_of).collect();
            self.levels.push(level);
        }
    }

    /// Returns the number of blocks.
    #[inline]
    pub(super) fn count(&self) -> usize {
        self.raw_bytes.len()
    }

    /// Returns the end offset of the blocks.
    pub(super) fn data_bytes(&self) -> u64 {
        self.offsets.last().copied().unwrap_or(0)
    }

    /// Returns where a block is.
    #[inline]
    pub(super) fn place(&self, block: usize) -> BlockPlace {
        let (start, end) = (self.offsets[block], self.offsets[block + 1]);
        BlockPlace { start, end, raw_bytes: self.raw_bytes[block] as usize }
    }

    /// Returns the first block that starts at this offset or behind it.
    pub(super) fn block_from(&self, offset_bytes: u64) -> Option<usize> {
        let block = self.offsets.partition_point(|start| *start < offset_bytes);
        (block < self.count()).then_some(block)
    }

    /// Returns a block's separator.
    #[inline]
    pub(super) fn key(&self, block: usize) -> &[u8] {
        let start = if block == 0 { 0 } else { self.key_ends[block - 1] as usize };
        &self.keys[start..self.key_ends[block] as usize]
    }

    /// Returns the memory in use, in bytes.
    pub(super) fn memory_bytes(&self) -> usize {
        let words = self.offsets.capacity() + self.levels.iter().map(Vec::capacity).sum::<usize>();
        self.heads.memory_bytes()
            + self.keys.capacity()
            + (self.key_ends.capacity() + self.raw_bytes.capacity()) * 4
            + words * 8
    }

    /// Reports whether the versions of `key` may continue after `block`, when a search ended past
    /// the end of `block`.
    #[inline]
    pub(super) fn continues(&self, block: usize, key: &[u8]) -> bool {
        block + 1 < self.count() && self.order.compare(self.key(block), key).is_eq()
    }

    /// Returns the first block whose separator is not before `key`, or [`Index::count`]. As soon as
    /// the search has narrowed to a group of blocks, it calls `near` with the first block of the
    /// group and the number of blocks.
    #[inline(never)]
    pub(super) fn find(&self, key: &[u8], near: impl FnOnce(usize, usize)) -> usize {
        let partial = self.begin(key);
        if let PartialFind::Near(_, group) = partial {
            near(group * self.fanout, self.fanout);
        }
        self.finish(key, partial)
    }

    /// Does the first half of a search. In a tree it stops at the level that needs a memory access.
    /// Otherwise it does the whole search.
    #[inline(always)]
    pub(super) fn begin(&self, key: &[u8]) -> PartialFind {
        if self.heads.is_empty() {
            return PartialFind::At(self.binary(0, self.count(), key));
        }
        let prefix = &self.keys[..self.prefix_bytes];
        if !has_prefix(key, prefix) {
            return PartialFind::At(if key < prefix { 0 } else { self.count() });
        }
        let wanted = head(&key[prefix.len()..]);
        match self.search {
            IndexSearch::Btree => self.descend(wanted),
            IndexSearch::Binary => PartialFind::Head(wanted, first_not_below(&self.heads, wanted)),
            IndexSearch::Interpolation => PartialFind::Head(wanted, self.interpolate(wanted)),
        }
    }

    /// Prefetches the memory of the second half, and calls `near` as [`Index::find`] does.
    #[inline]
    pub(super) fn prefetch(&self, partial: &PartialFind, near: impl FnOnce(usize, usize)) {
        if let PartialFind::Near(_, group) = partial {
            let from = group * self.fanout;
            let heads = self.heads.as_ptr().wrapping_add(from).addr();
            prefetch_bytes(heads, self.fanout * size_of::<u64>());
            near(from, self.fanout);
        }
    }

    /// Does the second half of a search for `key`.
    #[inline(always)]
    pub(super) fn finish(&self, key: &[u8], partial: PartialFind) -> usize {
        let (wanted, low) = match partial {
            PartialFind::At(block) => return block,
            PartialFind::Head(wanted, low) => (wanted, low),
            PartialFind::Near(wanted, group) => {
                let low = self.descend_one(&self.heads, group, wanted);
                (wanted, low.unwrap_or(self.heads.len()))
            }
        };
        if self.heads.get(low) != Some(&wanted) || self.key(low) >= key {
            return low;
        }
        let ties = self.heads[low..].partition_point(|&head| head == wanted);
        self.binary(low + 1, low + ties, key)
    }

    /// Returns the first block of `[low, high)` whose separator is not before `key`, or `high`.
    fn binary(&self, mut low: usize, mut high: usize, key: &[u8]) -> usize {
        while low < high {
            let middle = low.midpoint(high);
            if self.order.compare(self.key(middle), key).is_lt() {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }

    /// Returns the group that contains the first head not below `wanted`. Descends from the top of
    /// the tree and counts within each group.
    #[inline]
    fn descend(&self, wanted: u64) -> PartialFind {
        let mut at = 0;
        for level in self.levels.iter().rev() {
            let Some(below) = self.descend_one(level, at, wanted) else {
                return PartialFind::At(self.count());
            };
            at = below;
        }
        PartialFind::Near(wanted, at)
    }

    /// Returns the first head of `level`, in the group `at`, that is not below `wanted`.
    #[inline]
    fn descend_one(&self, level: &[u64], at: usize, wanted: u64) -> Option<usize> {
        let start = at * self.fanout;
        // A search past the last head leaves every level at its right edge.
        let rest = level.get(start..)?;
        Some(start + count_below(&rest[..rest.len().min(self.fanout)], wanted))
    }

    /// Returns the first head not below `wanted`. Guesses by its distance from the two ends.
    fn interpolate(&self, wanted: u64) -> usize {
        let heads = &self.heads;
        let (mut low, mut high) = (0, heads.len());
        for _ in 0..INTERPOLATION_STEPS {
            if high - low <= INTERPOLATION_ROWS {
                break;
            }
            let (first, last) = (heads[low], heads[high - 1]);
            if wanted <= first {
                return low;
            }
            if wanted > last {
                return high;
            }
            let part = u128::from(wanted - first) * (high - 1 - low) as u128;
            let guess = low + (part / u128::from(last - first)) as usize;
            if heads[guess] < wanted {
                low = guess + 1;
            } else {
                high = guess;
            }
        }
        low + first_not_below(&heads[low..high], wanted)
    }
}

/// Counts the heads of the ascending `group` that are below `wanted`. In a group of sixteen heads,
/// the usual length, the fourth, eighth and twelfth head select the four heads to count: seven
/// comparisons with one dependency. (Sixteen comparisons in a row compile to vectors of booleans
/// and take three times as long.)
#[inline]
fn count_below(group: &[u64], wanted: u64) -> usize {
    let below = |head: &u64| usize::from(*head < wanted);
    match group.first_chunk::<16>() {
        Some(heads) if group.len() == 16 => {
            let from = 4 * (below(&heads[3]) + below(&heads[7]) + below(&heads[11]));
            from + heads[from..from + 4].iter().map(below).sum::<usize>()
        }
        _ => group.iter().map(below).sum(),
    }
}

/// Returns the first of the ascending `heads` that is not below `wanted`. Uses one conditional move
/// per step.
#[inline]
fn first_not_below(heads: &[u64], wanted: u64) -> usize {
    let mut base = 0;
    let mut left = heads.len();
    while left > 1 {
        let half = left / 2;
        base = if heads[base + half - 1] < wanted { base + half } else { base };
        left -= half;
    }
    base + usize::from(heads.get(base).is_some_and(|&head| head < wanted))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn index(keys: &[Vec<u8>], search: IndexSearch, fanout: usize, order: &KeyOrder) -> Index {
        let mut builder = IndexBuilder::default();
        for key in keys {
            builder.add(order, key, None, 100, 200);
        }
        let mut payload = Vec::new();
        builder.finish(&mut payload);
        let data_bytes = keys.len() as u64 * 109;
        Index::decode(&payload, data_bytes, order, search, fanout, &Arc::default()).unwrap()
    }

    #[test]
    fn every_index_search_matches_linear_scan() {
        let mut seed = 7u64;
        let mut random = move |below: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (seed >> 33) % below
        };
        for round in 0..60 {
            let prefix = vec![b'p'; round % 4];
            let count = random(700) as usize;
            let key = |random: &mut dyn FnMut(u64) -> u64| {
                let len = random(12) as usize;
                let alphabet = [2, 4, 256][round % 3];
                let tail = (0..len).map(|_| random(alphabet) as u8);
                prefix.iter().copied().chain(tail).collect::<Vec<u8>>()
            };
            let mut keys: Vec<Vec<u8>> = (0..count).map(|_| key(&mut random)).collect();
            keys.sort();
            let probes: Vec<Vec<u8>> = (0..300).map(|_| key(&mut random)).chain([vec![]]).collect();
            for &search in IndexSearch::ALL {
                let fanout = [2, 3, 16, 256][round % 4];
                let index = index(&keys, search, fanout, &KeyOrder::Bytewise);
                for probe in keys.iter().chain(&probes) {
                    let want = keys.partition_point(|k| k < probe);
                    assert_eq!(
                        index.find(probe, |_, _| {}),
                        want,
                        "{search} {fanout} {probe:?} {keys:?}"
                    );
                }
            }
            keys.reverse();
            let index = index(&keys, IndexSearch::Btree, 16, &KeyOrder::Reverse);
            for probe in keys.iter().chain(&probes) {
                assert_eq!(index.find(probe, |_, _| {}), keys.partition_point(|k| k > probe));
            }
        }
    }

    #[test]
    fn separators_are_short_and_between_blocks() {
        let cases: [(&[u8], &[u8], &[u8]); 8] = [
            (b"abc", b"abz", b"abd"),
            (b"abc", b"abd", b"abc"),
            (b"abcd", b"abd", b"abce"),
            (b"ab", b"abc", b"ab"),
            (b"ab\xff\xff", b"ac", b"ab\xff\xff"),
            (b"abx", b"acy", b"ac"),
            (b"k", b"k", b"k"),
            (b"", b"a", b""),
        ];
        for (last, next, want) in cases {
            let shared = shared_prefix_len(last, next);
            separator(last, next, shared, |parts| {
                let got = parts.concat();
                assert_eq!(got, want, "{last:?} {next:?}");
                assert!(got.as_slice() >= last && (got.as_slice() < next || last == next));
            });
        }
    }

    #[test]
    fn truncated_and_unordered_indexes_are_refused() {
        let order = KeyOrder::Bytewise;
        let mut builder = IndexBuilder::default();
        builder.add(&order, b"b", None, 10, 10);
        builder.add(&order, b"a", None, 10, 10);
        let mut payload = Vec::new();
        builder.finish(&mut payload);
        let pages = Arc::default();
        let decode =
            |p: &[u8], n| Index::decode(p, n, &order, IndexSearch::Btree, 16, &pages).err();
        assert_eq!(decode(&payload, 38), Some("the index is out of order"));
        assert!(decode(&payload, 39).is_some());
        for cut in 0..payload.len() {
            assert!(decode(&payload[..cut], 38).is_some());
        }
        assert!(decode(&[0xff, 0xff, 0xff, 0xff, 0x0f], 0).is_some());
    }
}
