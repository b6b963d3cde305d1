//! The columnar layout: one column per property of a row. A key is split into the prefix that all
//! share, eight bytes for searches (the head), and the rest (the tail). Bytewise order only.
//!
//! ```text
//! 1 u8 | flags u8 | word width u8 (0, 4, 8) | zero u8 | rows u32
//! | prefix length u32 | suffix length u32 (of each if all are equal, else of all tails together)
//! | value length u32 (of each if all are equal, else of all) | base word u64 (width 4 only)
//! | prefix | heads u64[rows] | head lengths u8[rows] | tail offsets [rows + 1]
//! | value offsets [rows + 1] | words [rows] | tails | values
//! ```
//! A suffix is a key without the prefix. Its head is its first eight bytes as a big-endian number,
//! padded with zeros and stored little-endian. Its tail is the rest. Head lengths and tail offsets
//! are absent when all suffixes have one length, value offsets when all values have one length.
//! Offsets are u16, or u32 if flagged. A word is a sequence number and a kind. Width 0: every row
//! is a put at sequence number 0. Width 4: differences from the base word. An ingest adds its number.
//!
//! Invariants: after `parse`, every offset is in bounds and ascending, every kind is known, and the
//! value of a put that expires has a time, that of a separated value a pointer.

use std::cmp::Ordering;

use crate::base::coding::{Reader, put_u32, put_u64, u16_at, u32_at, u64_at};
use crate::base::key::{Kind, STORED_KEY_BYTES_MAX, SeqNo};
use crate::base::key::{has_prefix, head, pack, shared_prefix_len};
use crate::base::rows::{KeyBuf, Row};

use super::{Lookup, TAG_COLUMNAR, check_value};

pub(super) const EQUAL_SUFFIXES: u8 = 1;
pub(super) const EQUAL_VALUES: u8 = 2;
const WIDE_OFFSETS: u8 = 4;
const HEAD_BYTES: usize = 8;
/// The word of a put at sequence number 0.
pub(super) const WORD_ZERO: u64 = Kind::Put as u64;

/// Positions of a block's columns.
pub struct Columnar {
    rows: usize,
    prefix_at: usize,
    prefix_bytes: usize,
    suffix_bytes_max: usize,
    heads_at: usize,
    suffixes: Suffixes,
    tails_at: usize,
    values: Values,
    values_at: usize,
    words: Words,
    wide: bool,
    /// Largest sequence number, if every row is a put that does not expire and no key repeats the
    /// previous one.
    plain_up_to: Option<SeqNo>,
}

/// Lengths of the suffixes.
enum Suffixes {
    Equal { bytes: usize },
    Varied { head_lens_at: usize, offsets_at: usize },
}

/// Lengths of the values.
enum Values {
    Equal { bytes: usize },
    Varied { offsets_at: usize },
}

/// Encoding and position of the sequence numbers and kinds.
#[derive(Clone, Copy)]
enum Words {
    Equal { word: u64 },
    Narrow { base: u64, at: usize },
    Wide { at: usize },
}

/// Assigns the columns one after the other.
struct Plan {
    at: usize,
    len: usize,
}

impl Plan {
    fn column(&mut self, bytes: usize) -> Result<usize, &'static str> {
        let start = self.at;
        match start.checked_add(bytes) {
            Some(end) if end <= self.len => self.at = end,
            _ => return Err("a column exceeds the block"),
        }
        Ok(start)
    }
}

impl Columnar {
    /// Locates and checks the columns.
    pub(super) fn parse(data: &[u8], ingested: SeqNo) -> Result<Columnar, &'static str> {
        const SHORT: &str = "the block's header is truncated";
        let mut reader = Reader::new(data);
        let fixed = reader.take(4).ok_or(SHORT)?;
        let (flags, width) = (fixed[1], fixed[2]);
        if flags > 7 || fixed[3] != 0 {
            return Err("the block's flags are unknown");
        }
        let mut number = || reader.u32().map(|n| n as usize).ok_or(SHORT);
        let (rows, prefix_bytes) = (number()?, number()?);
        let (suffix_bytes, value_bytes) = (number()?, number()?);
        let base = if width == 4 { reader.u64().ok_or(SHORT)? } else { 0 };
        let base = base.saturating_add(ingested << 8);
        if rows == 0 || rows > data.len() || prefix_bytes > STORED_KEY_BYTES_MAX {
            return Err("the block's row count or prefix is out of range");
        }
        let wide = flags & WIDE_OFFSETS != 0;
        let offsets_bytes = (rows + 1) * if wide { 4 } else { 2 };
        let mut plan = Plan { at: reader.position(), len: data.len() };
        let prefix_at = plan.column(prefix_bytes)?;
        let heads_at = plan.column(rows * HEAD_BYTES)?;
        let suffixes = if flags & EQUAL_SUFFIXES != 0 {
            Suffixes::Equal { bytes: suffix_bytes }
        } else {
            let head_lens_at = plan.column(rows)?;
            Suffixes::Varied { head_lens_at, offsets_at: plan.column(offsets_bytes)? }
        };
        let values = if flags & EQUAL_VALUES != 0 {
            Values::Equal { bytes: value_bytes }
        } else {
            Values::Varied { offsets_at: plan.column(offsets_bytes)? }
        };
        let words = match width {
            0 => Words::Equal { word: pack(ingested, Kind::Put) },
            4 => Words::Narrow { base, at: plan.column(rows * 4)? },
            8 => Words::Wide { at: plan.column(rows * 8)? },
            _ => return Err("the block's word width is unknown"),
        };
        let tails_bytes = match suffixes {
            Suffixes::Equal { bytes } => bytes.saturating_sub(HEAD_BYTES).checked_mul(rows),
            Suffixes::Varied { .. } => Some(suffix_bytes),
        };
        let values_bytes = match values {
            Values::Equal { bytes } => bytes.checked_mul(rows),
            Values::Varied { .. } => Some(value_bytes),
        };
        const LONG: &str = "a column is too long";
        let tails_at = plan.column(tails_bytes.ok_or(LONG)?)?;
        let values_at = plan.column(values_bytes.ok_or(LONG)?)?;
        if plan.at != data.len() {
            return Err("the block has bytes after its last column");
        }
        let mut columnar = Columnar {
            rows,
            prefix_at,
            prefix_bytes,
            suffix_bytes_max: HEAD_BYTES,
            heads_at,
            suffixes,
            tails_at,
            values,
            values_at,
            words,
            wide,
            plain_up_to: None,
        };
        columnar.check(data, [suffix_bytes, value_bytes], ingested)?;
        Ok(columnar)
    }

    /// Checks offsets, lengths and kinds. Computes the longest suffix and `plain_up_to`.
    fn check(&mut self, data: &[u8], ends: [usize; 2], ingest: SeqNo) -> Result<(), &'static str> {
        let [tails, values] = ends;
        let longest_tail = match self.suffixes {
            Suffixes::Equal { bytes } => bytes.saturating_sub(HEAD_BYTES),
            Suffixes::Varied { head_lens_at, offsets_at } => {
                let longest = self.check_offsets(data, offsets_at, tails)?;
                for (row, &len) in data[head_lens_at..][..self.rows].iter().enumerate() {
                    let (start, end) = self.span(data, offsets_at, row);
                    if len > 8 || (len < 8 && start != end) {
                        return Err("a key's head is too short for its tail");
                    }
                }
                longest
            }
        };
        self.suffix_bytes_max = longest_tail.saturating_add(HEAD_BYTES);
        // A tail implies a full head, so the longest key is exactly this long.
        if longest_tail > 0 && self.prefix_bytes + self.suffix_bytes_max > STORED_KEY_BYTES_MAX {
            return Err("a key is too long");
        }
        if let Values::Varied { offsets_at } = self.values {
            self.check_offsets(data, offsets_at, values)?;
        }
        let mut newest_put = Some(0);
        for row in 0..self.rows {
            let word = self.word_checked(data, row).ok_or("a row's kind is unknown")?;
            if ingest > 0 && word >> 8 != ingest {
                return Err("a row of an ingested table has a sequence number of its own");
            }
            if word as u8 > Kind::Merge as u8 {
                let (start, len) = self.row(data, row).value_span();
                check_value(word as u8, data.get(start..start + len).unwrap_or_default())?;
            }
            let newer = |newest: SeqNo| newest.max(word >> 8);
            newest_put = newest_put.filter(|_| word as u8 == Kind::Put as u8).map(newer);
        }
        self.plain_up_to = newest_put.filter(|_| !self.repeats_a_key(data));
        Ok(())
    }

    /// Checks that offsets start at 0, never fall and end at `total`. Returns the longest item.
    fn check_offsets(&self, data: &[u8], at: usize, total: usize) -> Result<usize, &'static str> {
        let mut longest = 0;
        let mut ordered = self.offset(data, at, 0) == 0;
        for row in 0..self.rows {
            let (start, end) = self.span(data, at, row);
            ordered &= start <= end;
            longest = longest.max(end.wrapping_sub(start));
        }
        if ordered && self.offset(data, at, self.rows) == total {
            Ok(longest)
        } else {
            Err("a column's offsets are not ascending to its end")
        }
    }

    fn word_checked(&self, data: &[u8], row: usize) -> Option<u64> {
        let word = match self.words {
            Words::Equal { word } => word,
            Words::Narrow { base, at } => {
                base.checked_add(u64::from(u32_at(data, at + row * 4)))?
            }
            Words::Wide { at } => u64_at(data, at + row * 8),
        };
        Kind::is_of_entries(word as u8).then_some(word)
    }

    /// Reports whether a row has the same key as the previous row.
    fn repeats_a_key(&self, data: &[u8]) -> bool {
        let heads = self.heads(data);
        (1..self.rows).any(|row| {
            heads[row - 1] == heads[row] && self.suffix(data, row - 1) == self.suffix(data, row)
        })
    }

    /// Reports whether every row is a put at or below `snapshot` that does not expire, and no key
    /// repeats the previous one.
    #[inline]
    pub(super) fn is_plain(&self, snapshot: SeqNo) -> bool {
        self.plain_up_to.is_some_and(|newest| newest <= snapshot)
    }

    #[inline]
    pub(super) fn rows(&self) -> usize {
        self.rows
    }

    #[inline]
    fn offset(&self, data: &[u8], at: usize, i: usize) -> usize {
        if self.wide { u32_at(data, at + i * 4) as usize } else { u16_at(data, at + i * 2).into() }
    }

    #[inline]
    fn span(&self, data: &[u8], at: usize, row: usize) -> (usize, usize) {
        (self.offset(data, at, row), self.offset(data, at, row + 1))
    }

    #[inline]
    fn prefix<'a>(&self, data: &'a [u8]) -> &'a [u8] {
        &data[self.prefix_at..][..self.prefix_bytes]
    }

    #[inline]
    fn heads<'a>(&self, data: &'a [u8]) -> &'a [[u8; 8]] {
        data[self.heads_at..][..self.rows * HEAD_BYTES].as_chunks().0
    }

    #[inline]
    fn word(&self, data: &[u8], row: usize) -> u64 {
        match self.words {
            Words::Equal { word } => word,
            Words::Narrow { base, at } => base + u64::from(u32_at(data, at + row * 4)),
            Words::Wide { at } => u64_at(data, at + row * 8),
        }
    }

    /// Returns the number of head bytes that belong to the suffix, and the tail.
    #[inline]
    fn suffix<'a>(&self, data: &'a [u8], row: usize) -> (usize, &'a [u8]) {
        match self.suffixes {
            Suffixes::Equal { bytes } if bytes <= HEAD_BYTES => (bytes, &[]),
            Suffixes::Equal { bytes } => {
                let tail_bytes = bytes - HEAD_BYTES;
                (HEAD_BYTES, &data[self.tails_at + row * tail_bytes..][..tail_bytes])
            }
            Suffixes::Varied { head_lens_at, offsets_at } => {
                let (start, end) = self.span(data, offsets_at, row);
                let tails = &data[self.tails_at..];
                (data[head_lens_at + row].into(), &tails[start..end])
            }
        }
    }

    #[inline]
    fn row(&self, data: &[u8], row: usize) -> Row {
        let (start, bytes) = match self.values {
            Values::Equal { bytes } => (row * bytes, bytes),
            Values::Varied { offsets_at } => {
                let (start, end) = self.span(data, offsets_at, row);
                (start, end - start)
            }
        };
        Row {
            word: self.word(data, row),
            value_start: (self.values_at + start) as u32,
            value_bytes: bytes as u32,
        }
    }

    /// Returns a function that reads a row as [`Self::read`] does and returns its value's start and
    /// length. `None` unless no key has a tail and all values have one length.
    #[inline]
    pub(super) fn even<'a>(
        &self,
        data: &'a [u8],
    ) -> Option<impl Fn(usize, &mut KeyBuf) -> (usize, usize) + use<'a>> {
        match (&self.suffixes, &self.values) {
            (&Suffixes::Equal { bytes: head_bytes }, &Values::Equal { bytes: value_bytes })
                if head_bytes <= HEAD_BYTES =>
            {
                let (prefix_bytes, values_at) = (self.prefix_bytes, self.values_at);
                let heads = self.heads(data);
                Some(move |row: usize, buf: &mut KeyBuf| {
                    let mut head = heads[row];
                    head.reverse();
                    buf.set_suffix(prefix_bytes, head, head_bytes, &[]);
                    (values_at + row * value_bytes, value_bytes)
                })
            }
            _ => None,
        }
    }

    /// Prepares `buf` for this block.
    pub(super) fn enter(&self, data: &[u8], buf: &mut KeyBuf) {
        buf.set_prefix(self.prefix(data), self.suffix_bytes_max);
    }

    /// Reads a row into a `buf` prepared for this block.
    #[inline]
    pub(super) fn read(&self, data: &[u8], row: usize, buf: &mut KeyBuf) -> Row {
        let head = u64_at(data, self.heads_at + row * HEAD_BYTES);
        let (head_bytes, tail) = self.suffix(data, row);
        buf.set_suffix(self.prefix_bytes, head.to_be_bytes(), head_bytes, tail);
        self.row(data, row)
    }

    /// Returns the suffix of `key`. If the key lacks the prefix, returns `Err(0)` when all rows are
    /// after it and `Err(rows)` when all rows are before it.
    #[inline]
    fn cut<'a>(&self, data: &[u8], key: &'a [u8]) -> Result<&'a [u8], usize> {
        let prefix = self.prefix(data);
        if has_prefix(key, prefix) {
            return Ok(&key[prefix.len()..]);
        }
        Err(if key < prefix { 0 } else { self.rows })
    }

    /// Compares the suffix of `row` with `suffix`. Their heads are equal.
    ///
    /// Empty tails are not compared. A vectorised `memcmp` of length 0 may do a masked load from an
    /// empty slice's dangling address, and the suppressed fault takes 150 ns.
    #[inline]
    fn compare_tails(&self, data: &[u8], row: usize, suffix: &[u8]) -> Ordering {
        let (head_bytes, tail) = self.suffix(data, row);
        let by_len = (head_bytes + tail.len()).cmp(&suffix.len());
        if tail.is_empty() || suffix.len() <= HEAD_BYTES {
            return by_len;
        }
        tail.cmp(&suffix[HEAD_BYTES..]).then(by_len)
    }

    /// Reports whether `row` is before `(suffix, seqno)`. Their heads are equal.
    #[inline]
    fn before(&self, data: &[u8], row: usize, suffix: &[u8], seqno: SeqNo) -> bool {
        match self.compare_tails(data, row, suffix) {
            Ordering::Less => true,
            Ordering::Greater => false,
            Ordering::Equal => self.word(data, row) >> 8 > seqno,
        }
    }

    /// Returns the first row at or after `(suffix, seqno)`. Searches the heads without a branch,
    /// then the rows with an equal head by tail and sequence number.
    #[inline]
    fn search(&self, data: &[u8], suffix: &[u8], seqno: SeqNo) -> usize {
        let heads = self.heads(data);
        let wanted = head(suffix);
        let low = first_not_below(heads, wanted);
        let same = |row: usize| u64::from_le_bytes(heads[row]) == wanted;
        if low == self.rows || !same(low) || !self.before(data, low, suffix, seqno) {
            return low;
        }
        let mut low = low + 1;
        let mut high = self.rows;
        while low < high {
            let middle = low.midpoint(high);
            if same(middle) && self.before(data, middle, suffix, seqno) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }

    /// Returns the first row at or after `(key, seqno)`.
    #[inline]
    pub(super) fn lower_bound(&self, data: &[u8], key: &[u8], seqno: SeqNo) -> usize {
        match self.cut(data, key) {
            Ok(suffix) => self.search(data, suffix, seqno),
            Err(row) => row,
        }
    }

    /// Returns the newest version of `key` at `seqno`.
    #[inline]
    pub(super) fn find(&self, data: &[u8], key: &[u8], seqno: SeqNo) -> Lookup {
        let suffix = match self.cut(data, key) {
            Ok(suffix) => suffix,
            Err(row) if row == self.rows => return Lookup::PastEnd,
            Err(_) => return Lookup::Absent,
        };
        let row = self.search(data, suffix, seqno);
        if row == self.rows {
            return Lookup::PastEnd;
        }
        let same_head = u64_at(data, self.heads_at + row * HEAD_BYTES) == head(suffix);
        if same_head && self.compare_tails(data, row, suffix).is_eq() {
            Lookup::Found(self.row(data, row))
        } else {
            Lookup::Absent
        }
    }
}

/// Number of heads that are counted together.
const GROUP: usize = 8;

/// Returns the first of the ascending `heads` not below `wanted`. Counts the last head of each
/// group, then the heads of one group: independent loads, unlike those of a binary search.
#[inline]
fn first_not_below(heads: &[[u8; 8]], wanted: u64) -> usize {
    let below = |head: &[u8; 8]| usize::from(u64::from_le_bytes(*head) < wanted);
    let (groups, rest) = heads.as_chunks::<GROUP>();
    if groups.len() > GROUP {
        return heads.partition_point(|head| u64::from_le_bytes(*head) < wanted);
    }
    let full: usize = groups.iter().map(|group| below(&group[GROUP - 1])).sum();
    let within = match groups.get(full) {
        Some(group) => group.iter().map(below).sum::<usize>(),
        None => rest.iter().map(below).sum(),
    };
    full * GROUP + within
}

/// Builds a block from rows, column by column.
#[derive(Default)]
pub(in crate::table) struct ColumnarBuilder {
    keys: Vec<u8>,
    key_ends: Vec<u32>,
    values: Vec<u8>,
    value_ends: Vec<u32>,
    words: Vec<u64>,
    prefix_bytes: usize,
    equal_keys: bool,
    equal_values: bool,
}

impl ColumnarBuilder {
    pub(super) fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    #[inline]
    pub(super) fn add(&mut self, key: &[u8], word: u64, value: &[u8]) {
        if let Some(&first_end) = self.key_ends.first() {
            let shared = &self.keys[..self.prefix_bytes];
            if !key.starts_with(shared) {
                self.prefix_bytes = shared_prefix_len(shared, key);
            }
            self.equal_keys &= key.len() == first_end as usize;
            self.equal_values &= value.len() == self.value_ends[0] as usize;
        } else {
            self.prefix_bytes = key.len();
            self.equal_keys = true;
            self.equal_values = true;
        }
        self.keys.extend_from_slice(key);
        self.key_ends.push(self.keys.len() as u32);
        self.values.extend_from_slice(value);
        self.value_ends.push(self.values.len() as u32);
        self.words.push(word);
    }

    #[inline]
    pub(super) fn estimated_bytes(&self) -> usize {
        let rows = self.words.len();
        let tails = self.keys.len().saturating_sub(rows * (self.prefix_bytes + HEAD_BYTES));
        let per_row = HEAD_BYTES
            + if self.equal_keys { 0 } else { 3 }
            + if self.equal_values { 0 } else { 2 }
            + if self.words.first() == Some(&WORD_ZERO) { 0 } else { 4 };
        self.values.len() + tails + rows * per_row + self.prefix_bytes + 28
    }

    /// Returns the base and the width of the stored words.
    fn word_width(&self) -> (u64, u8) {
        let low = self.words.iter().copied().min().unwrap_or(WORD_ZERO);
        let high = self.words.iter().copied().max().unwrap_or(WORD_ZERO);
        if low == WORD_ZERO && high == WORD_ZERO {
            (0, 0)
        } else if u32::try_from(high - low).is_ok() {
            (low, 4)
        } else {
            (0, 8)
        }
    }

    /// Appends the block to `out` and starts a new one.
    pub(super) fn finish(&mut self, out: &mut Vec<u8>) {
        let rows = self.words.len();
        let prefix_bytes = self.prefix_bytes;
        let starts = std::iter::once(0).chain(self.key_ends.iter().copied());
        let suffixes = starts
            .zip(&self.key_ends)
            .map(|(start, &end)| &self.keys[start as usize + prefix_bytes..end as usize]);
        let tail = |suffix: &[u8]| suffix.len().saturating_sub(HEAD_BYTES);
        let tails_bytes: usize = suffixes.clone().map(tail).sum();
        let wide = tails_bytes.max(self.values.len()) > u16::MAX as usize;
        let (base, width) = self.word_width();
        let flag = |on: bool, flag: u8| if on { flag } else { 0 };
        let flags = flag(self.equal_keys, EQUAL_SUFFIXES)
            | flag(self.equal_values, EQUAL_VALUES)
            | flag(wide, WIDE_OFFSETS);
        let first = |ends: &[u32]| ends.first().copied().unwrap_or(0);
        let suffix_field = if self.equal_keys {
            first(&self.key_ends) - prefix_bytes as u32
        } else {
            tails_bytes as u32
        };
        let value_field =
            if self.equal_values { first(&self.value_ends) } else { self.values.len() as u32 };
        out.reserve(self.values.len() + self.keys.len() + rows * 24 + 64);
        out.extend_from_slice(&[TAG_COLUMNAR, flags, width, 0]);
        for field in [rows as u32, prefix_bytes as u32, suffix_field, value_field] {
            put_u32(out, field);
        }
        if width == 4 {
            put_u64(out, base);
        }
        out.extend_from_slice(&self.keys[..prefix_bytes]);
        suffixes.clone().for_each(|suffix| put_u64(out, head(suffix)));
        if !self.equal_keys {
            out.extend(suffixes.clone().map(|suffix| suffix.len().min(HEAD_BYTES) as u8));
            let ends = suffixes.clone().scan(0, |end, suffix| {
                *end += tail(suffix) as u32;
                Some(*end)
            });
            put_offsets(out, wide, ends);
        }
        if !self.equal_values {
            put_offsets(out, wide, self.value_ends.iter().copied());
        }
        match width {
            4 => self.words.iter().for_each(|word| put_u32(out, (word - base) as u32)),
            8 => self.words.iter().for_each(|word| put_u64(out, *word)),
            _ => {}
        }
        suffixes.for_each(|suffix| {
            out.extend_from_slice(suffix.get(HEAD_BYTES..).unwrap_or(&[]));
        });
        out.extend_from_slice(&self.values);
        self.clear();
    }

    fn clear(&mut self) {
        self.keys.clear();
        self.key_ends.clear();
        self.values.clear();
        self.values.shrink_to(1 << 20);
        self.value_ends.clear();
        self.words.clear();
        self.prefix_bytes = 0;
    }
}

/// Appends offset 0 and all end offsets.
fn put_offsets(out: &mut Vec<u8>, wide: bool, ends: impl Iterator<Item = u32>) {
    for end in std::iter::once(0).chain(ends) {
        let bytes = end.to_le_bytes();
        out.extend_from_slice(if wide { &bytes } else { &bytes[..2] });
    }
}
