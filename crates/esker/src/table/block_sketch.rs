//! Block sketches: the approximate positions of a block's rows. With them a seek over many runs
//! need not read a block of every run.
//!
//! A seek needs the first entry at or after a key. Of the runs that cover the key's range, one run
//! has this entry. Of each other run the seek only needs to know that its first such entry is not
//! before it. The sorted views of REMIX (Zhong et al., FAST 2021) answer this for all runs
//! together, but are rebuilt when any run changes. A block sketch gives an approximate answer for
//! one block. It has two bytes per row: the distance of the row's head from the first row's head,
//! in those head bits that vary within the block. It is made when a table is written over older
//! tables, or when a seek had to read the block. It lives as long as the table.
//!
//! Invariants: a returned bound is above the requested key, and not above the table's first entry
//! at or after that key. Where this cannot be known, no bound is returned. One thread makes a
//! sketch, once. Other threads see it only when it is complete.

use std::sync::OnceLock;

use super::ReadConfig;
use super::block::{Block, Layout};
use crate::base::huge_page_box::HugePageBox;
use crate::base::key::{has_prefix, head, shared_prefix_len};
use crate::base::prefetch::prefetch_bytes;
use crate::base::rows::{KeyBuf, Rows};
use crate::base::sync::atomic::{AtomicU16, AtomicU32, AtomicUsize, Ordering};
use crate::cache::CacheReservation;

/// Number of header cells before the row cells: four for the first row's head, two for the widths,
/// one for the shift, one for the number of rows.
const HEADER_CELLS: usize = 8;
/// Prefetch length of a sketch in bytes: the header and 56 rows.
const FETCHED_BYTES: usize = 128;
/// Start value of a block that has no sketch yet.
const NONE: u32 = 0;
/// Start value of a block whose sketch is under construction or had no room.
const BUSY: u32 = 1;
/// After the cache refused memory for a table's sketches, one attempt in this many asks again.
const ASKED_EVERY: u32 = 1024;
/// Index of the first cell of the first sketch.
const FIRST: usize = 2;

/// The sketches of a table's blocks.
pub(super) struct BlockSketches {
    /// Common prefix of all keys of the table.
    prefix: Box<[u8]>,
    /// Allocated for the first sketch.
    built: OnceLock<Sketches>,
    /// Number of attempts without memory for the sketches.
    refused: AtomicU32,
}

struct Sketches {
    /// Index of the first cell of each block's sketch.
    starts: HugePageBox<AtomicU32>,
    cells: HugePageBox<AtomicU16>,
    /// Number of allocated cells.
    used: AtomicUsize,
    /// Reservation of cache capacity, because the sketches displace blocks.
    _reservation: CacheReservation<Layout>,
}

/// The sketch of one block.
struct BlockSketch<'a>(&'a [AtomicU16]);

impl BlockSketches {
    /// Creates an empty set for a table whose keys are between `smallest` and `largest`.
    pub(super) fn new(smallest: &[u8], largest: &[u8]) -> BlockSketches {
        let shared = shared_prefix_len(smallest, largest);
        let (built, refused) = (OnceLock::new(), AtomicU32::new(0));
        BlockSketches { prefix: smallest[..shared].into(), built, refused }
    }

    fn of(&self, block: usize) -> Option<BlockSketch<'_>> {
        let built = self.built.get()?;
        let start = built.starts.get(block)?.load(Ordering::Acquire);
        (start > BUSY).then(|| BlockSketch(&built.cells[start as usize..]))
    }

    /// Prefetches the start values of `count` blocks from `block` on.
    #[inline]
    pub(super) fn prefetch_starts(&self, block: usize, count: usize) {
        if let Some(built) = self.built.get() {
            let from = built.starts.as_ptr().wrapping_add(block).addr();
            prefetch_bytes(from, count * size_of::<AtomicU32>());
        }
    }

    /// Prefetches the sketch of `block`. Returns false if the block has none.
    #[inline]
    pub(super) fn prefetch(&self, block: usize) -> bool {
        let sketch = self.of(block);
        if let Some(BlockSketch(cells)) = &sketch {
            prefetch_bytes(cells.as_ptr().addr(), FETCHED_BYTES);
        }
        sketch.is_some()
    }

    /// Writes to `out` a key that is above `key` and not above the table's first entry at or after
    /// `key`. `block` is the block of that entry. Returns false if no such key is known.
    #[inline]
    pub(super) fn bound(&self, block: usize, key: &[u8], out: &mut KeyBuf) -> bool {
        let Some(sketch) = self.of(block) else { return false };
        if !has_prefix(key, &self.prefix) {
            return false;
        }
        let wanted = head(&key[self.prefix.len()..]);
        // If no row is at or above it, the next block's first row is the bound.
        let bound = match sketch.above(wanted) {
            UpperBound::Row(bound) => bound,
            UpperBound::Nothing => match self.of(block + 1) {
                Some(next) if next.first() > wanted => next.first(),
                _ => return false,
            },
            UpperBound::Unknown => return false,
        };
        let bytes = 8 - (bound.trailing_zeros() / 8) as usize;
        out.set_prefix(&self.prefix, 8);
        out.set_suffix(self.prefix.len(), bound.to_be_bytes(), bytes, &[]);
        true
    }

    /// Makes the sketch of `block`, the block with index `at`, unless it exists or there is no
    /// room. The table has `blocks` blocks with `entries` entries in all. `config` is the table's
    /// read configuration.
    #[inline]
    pub(super) fn build(
        &self,
        (at, block): (usize, &Block),
        (blocks, entries): (usize, u64),
        config: &ReadConfig,
    ) {
        if self.built.get().is_none() {
            let refused = self.refused.load(Ordering::Relaxed);
            if refused.is_multiple_of(ASKED_EVERY)
                && let Some(built) = Sketches::new(blocks, entries, config)
            {
                // Two threads may race here; one result is kept.
                let _ = self.built.set(built);
            } else {
                self.refused.store(refused.wrapping_add(1), Ordering::Relaxed);
            }
        }
        if let Some(built) = self.built.get()
            && built.starts.get(at).is_some_and(|start| start.load(Ordering::Relaxed) == NONE)
        {
            built.build(at, block, self.prefix.len());
        }
    }
}

impl Sketches {
    fn new(blocks: usize, entries: u64, config: &ReadConfig) -> Option<Sketches> {
        let count = usize::try_from(entries).ok()?.checked_add(blocks * HEADER_CELLS + FIRST)?;
        u32::try_from(count).ok()?;
        let bytes = count * size_of::<AtomicU16>() + blocks * size_of::<AtomicU32>();
        let reservation = CacheReservation::of(&config.cache, bytes as u64)?;
        let starts = (0..blocks).map(|_| AtomicU32::new(NONE)).collect();
        let cells = (0..count).map(|_| AtomicU16::new(0)).collect();
        Some(Sketches {
            starts: HugePageBox::new(starts, &config.pages),
            cells: HugePageBox::new(cells, &config.pages),
            used: AtomicUsize::new(FIRST),
            _reservation: reservation,
        })
    }

    #[cold]
    #[inline(never)]
    fn build(&self, at: usize, block: &Block, prefix_bytes: usize) {
        let start = &self.starts[at];
        if start.compare_exchange(NONE, BUSY, Ordering::Relaxed, Ordering::Relaxed).is_err() {
            return;
        }
        let rows = block.rows();
        let from = self.used.fetch_add(HEADER_CELLS + rows, Ordering::Relaxed);
        // The cells are sized by the table's stated number of entries. If that is too low, some
        // blocks have no sketch.
        let Some(cells) = self.cells.get(from..from + HEADER_CELLS + rows) else { return };
        let mut key = KeyBuf::default();
        let built = trace(cells, |row| {
            block.load(row, &mut key);
            key.key().get(prefix_bytes..).map(head)
        });
        if built.is_some() {
            start.store(from as u32, Ordering::Release);
        }
    }
}

/// Writes the rows' heads to `cells`, as many rows as fit behind the header. Returns `None` if they
/// are too many or not in order.
fn trace(cells: &[AtomicU16], mut head_of: impl FnMut(usize) -> Option<u64>) -> Option<()> {
    let rows = cells.len() - HEADER_CELLS;
    let count = u16::try_from(rows).ok()?;
    let (first, last) = (head_of(0)?, head_of(rows - 1)?);
    let mut varying = 0;
    for row in 0..rows {
        varying |= head_of(row).filter(|head| (first..=last).contains(head))? ^ first;
    }
    let packing = Packing::of(first, varying);
    let (base, span) = (packing.pack(first), packing.pack(last) - packing.pack(first));
    let shift = (u64::BITS - span.leading_zeros()).saturating_sub(u16::BITS);
    let halves = |word: u64| (0..).map(move |half| (word >> (half * 16)) as u16);
    let widths = halves(packing.widths.into()).take(2);
    let header = halves(first).take(4).chain(widths).chain([shift as u16, count]);
    cells.iter().zip(header).for_each(|(cell, word)| cell.store(word, Ordering::Relaxed));
    for (row, cell) in cells[HEADER_CELLS..].iter().enumerate() {
        cell.store(((packing.pack(head_of(row)?) - base) >> shift) as u16, Ordering::Relaxed);
    }
    Some(())
}

/// Encoding that distinguishes the heads of a block's rows in fewer bits. Of each byte it keeps the
/// low bits, up to the highest bit that differs between rows. A digit takes four bits, and a
/// constant byte takes none.
struct Packing {
    /// One of the heads.
    model: u64,
    /// Number of kept bits of each byte, four bits each; the lowest four are for the last byte.
    widths: u32,
}

/// Position of a head among packed heads.
enum Packed {
    /// It packs to this number.
    At(u64),
    /// It is after this number and before any larger one.
    After(u64),
    /// It is before this number and after any smaller one.
    Before(u64),
}

impl Packing {
    fn of(model: u64, varying: u64) -> Packing {
        let width = |byte: u32| u8::BITS - ((varying >> (byte * 8)) as u8).leading_zeros();
        Packing { model, widths: (0..8).fold(0, |all, byte| all | width(byte) << (byte * 4)) }
    }

    #[inline]
    fn width(&self, byte: u32) -> u32 {
        (self.widths >> (byte * 4)) & 15
    }

    /// Packs one of the block's heads.
    #[inline]
    fn pack(&self, head: u64) -> u64 {
        (0..8).rev().fold(0, |packed, byte| {
            let width = self.width(byte);
            packed << width | (head >> (byte * 8)) & ((1 << width) - 1)
        })
    }

    /// Positions any head.
    #[inline]
    fn place(&self, head: u64) -> Packed {
        let constant = |byte: u32| u64::from(u8::MAX) << self.width(byte) & u64::from(u8::MAX);
        let fixed = (0..8).fold(0, |mask, byte| mask | constant(byte) << (byte * 8));
        let other = (head ^ self.model) & fixed;
        if other == 0 {
            return Packed::At(self.pack(head));
        }
        // The first byte that differs from all heads decides the position among the heads with the
        // same preceding bytes.
        let byte = other.ilog2() / 8;
        let below: u32 = (0..=byte).map(|byte| self.width(byte)).sum();
        let ones = 1u64.checked_shl(below).map_or(u64::MAX, |bit| bit - 1);
        let packed = self.pack(head);
        let above = head >> (byte * 8) & constant(byte) > self.model >> (byte * 8) & constant(byte);
        if above { Packed::After(packed | ones) } else { Packed::Before(packed & !ones) }
    }

    /// Returns the head that packs to `packed`. If no head does, returns a head between the two
    /// neighbours.
    #[inline]
    fn unpack(&self, mut packed: u64) -> u64 {
        (0..8).fold(self.model, |head, byte| {
            let low = (1u64 << self.width(byte)) - 1;
            let bits = packed & low;
            packed >>= self.width(byte);
            head & !(low << (byte * 8)) | bits << (byte * 8)
        })
    }
}

/// Knowledge about the rows at or above a head.
enum UpperBound {
    /// The first such row is above the head, and its own head is not below this one.
    Row(u64),
    /// No such row exists.
    Nothing,
    /// Such a row may exist in the same step as the head.
    Unknown,
}

impl BlockSketch<'_> {
    #[inline]
    fn cell(&self, at: usize) -> u16 {
        self.0[at].load(Ordering::Relaxed)
    }

    /// Returns the head of the first row.
    #[inline]
    fn first(&self) -> u64 {
        (0..4).fold(0, |head, lane| head | u64::from(self.cell(lane)) << (lane * 16))
    }

    #[inline]
    fn above(&self, wanted: u64) -> UpperBound {
        let first = self.first();
        let widths = u32::from(self.cell(4)) | u32::from(self.cell(5)) << 16;
        let (shift, rows) = (u32::from(self.cell(6)), usize::from(self.cell(7)));
        let packing = Packing { model: first, widths };
        let base = packing.pack(first);
        let low = (1u64 << shift) - 1;
        // The first row at or above `wanted` is in the step `from` or a later one. `unknown`: rows
        // in the step `from` may be on either side of `wanted`.
        let (from, unknown) = match packing.place(wanted) {
            Packed::At(packed) => match packed.checked_sub(base) {
                None => return UpperBound::Row(first),
                Some(behind) => (behind >> shift, true),
            },
            Packed::After(packed) => match packed.checked_sub(base) {
                None => return UpperBound::Row(first),
                Some(behind) if behind & low == low => ((behind >> shift) + 1, false),
                Some(behind) => (behind >> shift, true),
            },
            Packed::Before(packed) => match packed.checked_sub(base) {
                None | Some(0) => return UpperBound::Row(first),
                Some(behind) => (behind >> shift, behind & low != 0),
            },
        };
        let Ok(from) = u16::try_from(from) else { return UpperBound::Nothing };
        let cells = &self.0[HEADER_CELLS..HEADER_CELLS + rows];
        let at = cells.partition_point(|cell| cell.load(Ordering::Relaxed) < from);
        match cells.get(at).map(|cell| cell.load(Ordering::Relaxed)) {
            None => UpperBound::Nothing,
            Some(cell) if cell == from && unknown => UpperBound::Unknown,
            Some(cell) => UpperBound::Row(packing.unpack(base + (u64::from(cell) << shift))),
        }
    }
}

#[cfg(all(test, not(esker_shuttle)))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Generates heads that differ in some bits only, and heads near them.
    fn heads() -> impl Strategy<Value = (Vec<u64>, Vec<u64>)> {
        let byte = prop_oneof![Just(0u8), Just(0x0F), Just(0xFF), Just(0x80), any::<u8>()];
        let mask = prop::array::uniform8(byte).prop_map(u64::from_be_bytes);
        let word = || prop_oneof![1 => Just(0), 1 => Just(u64::MAX), 6 => any::<u64>()];
        (
            word(),
            mask,
            prop::collection::vec(word(), 1..40),
            prop::collection::vec(any::<u64>(), 60),
        )
            .prop_map(|(model, mask, words, probes)| {
                let mut heads: Vec<u64> =
                    words.iter().map(|word| model & !mask | word & mask).collect();
                heads.sort_unstable();
                let near = |probe: &u64| {
                    let head = heads[*probe as usize % heads.len()];
                    match (probe >> 32) % 6 {
                        0 => *probe,
                        1 => head,
                        2 => head.wrapping_add(1),
                        3 => head.wrapping_sub(1),
                        4 => head ^ 1 << (probe >> 58),
                        _ => head ^ probe & mask,
                    }
                };
                let probes = probes.iter().map(near).collect();
                (heads, probes)
            })
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..Default::default() })]

        #[test]
        fn sketch_bounds_hold_for_rows_above_head((heads, probes) in heads()) {
            let cells: Vec<AtomicU16> =
                (0..HEADER_CELLS + heads.len()).map(|_| AtomicU16::new(0)).collect();
            trace(&cells, |row| Some(heads[row])).unwrap();
            let sketch = BlockSketch(&cells);
            prop_assert_eq!(sketch.first(), heads[0]);
            for wanted in probes {
                let at = heads.partition_point(|head| *head < wanted);
                match sketch.above(wanted) {
                    UpperBound::Row(bound) => {
                        prop_assert!(wanted < bound && bound <= heads[at], "{wanted:x}: {bound:x}");
                    }
                    UpperBound::Nothing => prop_assert_eq!(at, heads.len(), "{:x}", wanted),
                    UpperBound::Unknown => {}
                }
            }
        }
    }

    #[test]
    fn rows_out_of_order_have_no_sketch() {
        let cells: Vec<AtomicU16> = (0..HEADER_CELLS + 3).map(|_| AtomicU16::new(0)).collect();
        for heads in [[5, 4, 6], [5, 7, 6], [7, 6, 5]] {
            assert!(trace(&cells, |row| Some(heads[row])).is_none());
        }
        assert!(trace(&cells, |_| None).is_none());
    }
}
