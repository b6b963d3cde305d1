//! Outlines: about where the rows of a block lie, kept so that a seek in many runs need not look into
//! the blocks of all of them.
//!
//! A seek wants the first entry at or after a key, and of the runs that hold the key's range one has
//! it; of each other it needs to know only that its first entry there is not before that one. The
//! sorted views of REMIX (Zhong et al., FAST 2021) answer this for all runs together and are made
//! again when any of them changes. An outline answers it for one block, roughly: two bytes a row, how
//! far the row's head lies behind the first row's, in the bits of it that vary within the block. It is
//! drawn when a table is written over older ones, or when a seek has had to look into the block, and
//! lives as long as the table.
//!
//! What stays true: a bound that is given is above the key that was asked for, and not above the
//! first entry of the table at or after that key; where that cannot be known none is given. An
//! outline is drawn once, by one thread, and seen by others when it is whole.

use std::sync::OnceLock;

use super::ReadConfig;
use super::block::{Block, Layout};
use crate::base::key::{has_prefix, head, shared_prefix_len};
use crate::base::large_slice::LargeSlice;
use crate::base::prefetch::prefetch_bytes;
use crate::base::rows::{KeyBuf, Rows};
use crate::base::sync::atomic::{AtomicU16, AtomicU32, AtomicUsize, Ordering};
use crate::cache::Loan;

/// Cells before those of the rows: the first row's head in four, the widths in two, the shift, how
/// many rows.
const HEADER_CELLS: usize = 8;
/// What is asked for of an outline: the header and 56 rows.
const FETCHED_BYTES: usize = 128;
/// Where a block has no outline yet.
const NONE: u32 = 0;
/// Where it is being drawn, or there was no room.
const BUSY: u32 = 1;
/// Where there was no room for the outlines of a table, it is asked for again at every so manieth.
const ASKED_EVERY: u32 = 1024;
/// Where the first outline begins.
const FIRST: usize = 2;

/// The outlines of a table's blocks.
pub(super) struct Outlines {
    /// What all keys of the table begin with.
    prefix: Box<[u8]>,
    /// Made at the first.
    drawn: OnceLock<Drawn>,
    /// How often there was no room for them.
    refused: AtomicU32,
}

struct Drawn {
    /// For each block where its outline begins.
    starts: LargeSlice<AtomicU32>,
    cells: LargeSlice<AtomicU16>,
    /// Cells given away.
    used: AtomicUsize,
    /// They take the place of blocks.
    _loan: Loan<Layout>,
}

/// One block's outline.
struct Outline<'a>(&'a [AtomicU16]);

impl Outlines {
    /// None yet, of a table whose keys lie between the two.
    pub(super) fn new(smallest: &[u8], largest: &[u8]) -> Outlines {
        let shared = shared_prefix_len(smallest, largest);
        let (drawn, refused) = (OnceLock::new(), AtomicU32::new(0));
        Outlines { prefix: smallest[..shared].into(), drawn, refused }
    }

    fn of(&self, block: usize) -> Option<Outline<'_>> {
        let drawn = self.drawn.get()?;
        let start = drawn.starts.get(block)?.load(Ordering::Acquire);
        (start > BUSY).then(|| Outline(&drawn.cells[start as usize..]))
    }

    /// Asks the processor for where the outlines of `count` blocks from `block` on begin.
    #[inline]
    pub(super) fn prefetch_starts(&self, block: usize, count: usize) {
        if let Some(drawn) = self.drawn.get() {
            let from = drawn.starts.as_ptr().wrapping_add(block).addr();
            prefetch_bytes(from, count * size_of::<AtomicU32>());
        }
    }

    /// Asks the processor for the outline of `block`. False if it has none.
    #[inline]
    pub(super) fn prefetch(&self, block: usize) -> bool {
        let outline = self.of(block);
        if let Some(Outline(cells)) = &outline {
            prefetch_bytes(cells.as_ptr().addr(), FETCHED_BYTES);
        }
        outline.is_some()
    }

    /// Puts into `out` a key above `key` and not above the table's first entry at or after `key`,
    /// which would be in `block`. False if no such key is known.
    #[inline]
    pub(super) fn bound(&self, block: usize, key: &[u8], out: &mut KeyBuf) -> bool {
        let Some(outline) = self.of(block) else { return false };
        if !has_prefix(key, &self.prefix) {
            return false;
        }
        let wanted = head(&key[self.prefix.len()..]);
        // Where no row is at or above it, the next block's first is.
        let bound = match outline.above(wanted) {
            Above::Row(bound) => bound,
            Above::Nothing => match self.of(block + 1) {
                Some(next) if next.first() > wanted => next.first(),
                _ => return false,
            },
            Above::Unknown => return false,
        };
        let bytes = 8 - (bound.trailing_zeros() / 8) as usize;
        out.enter(&self.prefix, 8);
        out.set_suffix(self.prefix.len(), bound.to_be_bytes(), bytes, &[]);
        true
    }

    /// Draws the outline of `block`, the one at `at`, unless it is there or there is no room. The
    /// table has `blocks` with `entries` in all, and is read by `config`.
    #[inline]
    pub(super) fn draw(
        &self,
        (at, block): (usize, &Block),
        (blocks, entries): (usize, u64),
        config: &ReadConfig,
    ) {
        if self.drawn.get().is_none() {
            let refused = self.refused.load(Ordering::Relaxed);
            if refused.is_multiple_of(ASKED_EVERY)
                && let Some(drawn) = Drawn::new(blocks, entries, config)
            {
                // Two threads may come here; what one made is kept.
                let _ = self.drawn.set(drawn);
            } else {
                self.refused.store(refused.wrapping_add(1), Ordering::Relaxed);
            }
        }
        if let Some(drawn) = self.drawn.get()
            && drawn.starts.get(at).is_some_and(|start| start.load(Ordering::Relaxed) == NONE)
        {
            drawn.draw(at, block, self.prefix.len());
        }
    }
}

impl Drawn {
    fn new(blocks: usize, entries: u64, config: &ReadConfig) -> Option<Drawn> {
        let count = usize::try_from(entries).ok()?.checked_add(blocks * HEADER_CELLS + FIRST)?;
        u32::try_from(count).ok()?;
        let bytes = count * size_of::<AtomicU16>() + blocks * size_of::<AtomicU32>();
        let loan = Loan::of(&config.cache, bytes as u64)?;
        let starts = (0..blocks).map(|_| AtomicU32::new(NONE)).collect();
        let cells = (0..count).map(|_| AtomicU16::new(0)).collect();
        Some(Drawn {
            starts: LargeSlice::new(starts, &config.pages),
            cells: LargeSlice::new(cells, &config.pages),
            used: AtomicUsize::new(FIRST),
            _loan: loan,
        })
    }

    #[cold]
    #[inline(never)]
    fn draw(&self, at: usize, block: &Block, prefix_bytes: usize) {
        let start = &self.starts[at];
        if start.compare_exchange(NONE, BUSY, Ordering::Relaxed, Ordering::Relaxed).is_err() {
            return;
        }
        let rows = block.rows();
        let from = self.used.fetch_add(HEADER_CELLS + rows, Ordering::Relaxed);
        // A table says how many entries it has; one that lies has fewer outlines.
        let Some(cells) = self.cells.get(from..from + HEADER_CELLS + rows) else { return };
        let mut key = KeyBuf::default();
        let drawn = trace(cells, |row| {
            block.load(row, &mut key);
            key.key().get(prefix_bytes..).map(head)
        });
        if drawn.is_some() {
            start.store(from as u32, Ordering::Release);
        }
    }
}

/// Draws into `cells` rows with these heads, as many as there is room for behind the header. `None` if
/// they are too many or not in order.
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

/// How the heads of a block's rows are told apart in fewer bits: of each byte the low ones, up to the
/// highest that is not the same in all rows. Digits take four bits, and what does not vary none.
struct Packing {
    /// Any of the heads.
    model: u64,
    /// Bits of each byte, in four bits, the last byte's lowest.
    widths: u32,
}

/// Where a head lies among packed ones.
enum Packed {
    /// It is this.
    At(u64),
    /// After this, and before any larger.
    After(u64),
    /// Before this, and after any smaller.
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

    /// Packs one of the heads.
    #[inline]
    fn pack(&self, head: u64) -> u64 {
        (0..8).rev().fold(0, |packed, byte| {
            let width = self.width(byte);
            packed << width | (head >> (byte * 8)) & ((1 << width) - 1)
        })
    }

    /// Packs any head.
    #[inline]
    fn place(&self, head: u64) -> Packed {
        let constant = |byte: u32| u64::from(u8::MAX) << self.width(byte) & u64::from(u8::MAX);
        let fixed = (0..8).fold(0, |mask, byte| mask | constant(byte) << (byte * 8));
        let other = (head ^ self.model) & fixed;
        if other == 0 {
            return Packed::At(self.pack(head));
        }
        // The first byte in which it differs from all heads decides where it lies among those that
        // share the bytes before.
        let byte = other.ilog2() / 8;
        let below: u32 = (0..=byte).map(|byte| self.width(byte)).sum();
        let ones = 1u64.checked_shl(below).map_or(u64::MAX, |bit| bit - 1);
        let packed = self.pack(head);
        let above = head >> (byte * 8) & constant(byte) > self.model >> (byte * 8) & constant(byte);
        if above { Packed::After(packed | ones) } else { Packed::Before(packed & !ones) }
    }

    /// The head that was packed; of a number that none was packed to, one between those around it.
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

/// What is known of the rows at or above a head.
enum Above {
    /// The first lies above it, and its head is not below this.
    Row(u64),
    /// There is none.
    Nothing,
    /// There may be one in the same step as the head.
    Unknown,
}

impl Outline<'_> {
    #[inline]
    fn cell(&self, at: usize) -> u16 {
        self.0[at].load(Ordering::Relaxed)
    }

    /// The head of the first row.
    #[inline]
    fn first(&self) -> u64 {
        (0..4).fold(0, |head, lane| head | u64::from(self.cell(lane)) << (lane * 16))
    }

    #[inline]
    fn above(&self, wanted: u64) -> Above {
        let first = self.first();
        let widths = u32::from(self.cell(4)) | u32::from(self.cell(5)) << 16;
        let (shift, rows) = (u32::from(self.cell(6)), usize::from(self.cell(7)));
        let packing = Packing { model: first, widths };
        let base = packing.pack(first);
        let low = (1u64 << shift) - 1;
        // The first row at or above `wanted` is in the step `from` or a later one; whether it is may
        // be unknown of the rows of one step.
        let (from, unknown) = match packing.place(wanted) {
            Packed::At(packed) => match packed.checked_sub(base) {
                None => return Above::Row(first),
                Some(behind) => (behind >> shift, true),
            },
            Packed::After(packed) => match packed.checked_sub(base) {
                None => return Above::Row(first),
                Some(behind) if behind & low == low => ((behind >> shift) + 1, false),
                Some(behind) => (behind >> shift, true),
            },
            Packed::Before(packed) => match packed.checked_sub(base) {
                None | Some(0) => return Above::Row(first),
                Some(behind) => (behind >> shift, behind & low != 0),
            },
        };
        let Ok(from) = u16::try_from(from) else { return Above::Nothing };
        let cells = &self.0[HEADER_CELLS..HEADER_CELLS + rows];
        let at = cells.partition_point(|cell| cell.load(Ordering::Relaxed) < from);
        match cells.get(at).map(|cell| cell.load(Ordering::Relaxed)) {
            None => Above::Nothing,
            Some(cell) if cell == from && unknown => Above::Unknown,
            Some(cell) => Above::Row(packing.unpack(base + (u64::from(cell) << shift))),
        }
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Heads that differ in some bits only, and heads near them.
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
        fn what_is_known_of_the_rows_above_a_head_is_true((heads, probes) in heads()) {
            let cells: Vec<AtomicU16> =
                (0..HEADER_CELLS + heads.len()).map(|_| AtomicU16::new(0)).collect();
            trace(&cells, |row| Some(heads[row])).unwrap();
            let outline = Outline(&cells);
            prop_assert_eq!(outline.first(), heads[0]);
            for wanted in probes {
                let at = heads.partition_point(|head| *head < wanted);
                match outline.above(wanted) {
                    Above::Row(bound) => {
                        prop_assert!(wanted < bound && bound <= heads[at], "{wanted:x}: {bound:x}");
                    }
                    Above::Nothing => prop_assert_eq!(at, heads.len(), "{:x}", wanted),
                    Above::Unknown => {}
                }
            }
        }
    }

    #[test]
    fn rows_out_of_order_are_not_drawn() {
        let cells: Vec<AtomicU16> = (0..HEADER_CELLS + 3).map(|_| AtomicU16::new(0)).collect();
        for heads in [[5, 4, 6], [5, 7, 6], [7, 6, 5]] {
            assert!(trace(&cells, |row| Some(heads[row])).is_none());
        }
        assert!(trace(&cells, |_| None).is_none());
    }
}
