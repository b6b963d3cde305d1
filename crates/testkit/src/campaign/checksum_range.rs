//! Positions of the checksums in a store's files, for damage hidden behind valid checksums.
//!
//! Invariants: recomputing the checksums of an undamaged file changes no byte. The positions follow
//! `docs/format.md`. In a table, a block's end is found by trial: its checksum must hold.

use esker::internals::{FileHeader, HEADER_BYTES, RECORD_HEADER_BYTES, RecordHeader, padded};
use esker::internals::{checksum, location_seed};

/// Size of a table's footer, in bytes.
const FOOTER_BYTES: usize = 96;

/// A range of a file under one checksum.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChecksumRange {
    /// First covered byte.
    pub start: usize,
    /// First byte after the covered range.
    pub end: usize,
    /// Position of the checksum's eight bytes.
    pub at: usize,
    seed: u64,
}

impl ChecksumRange {
    /// Recomputes the checksum of the current bytes, if the whole range exists.
    pub fn recompute(&self, bytes: &mut [u8]) {
        if self.end <= bytes.len() && self.at + 8 <= bytes.len() {
            let sum = checksum(&bytes[self.start..self.end], self.seed);
            bytes[self.at..self.at + 8].copy_from_slice(&sum.to_le_bytes());
        }
    }

    /// Returns whether the checksum matches the current bytes.
    pub fn holds(&self, bytes: &[u8]) -> bool {
        let sum = bytes.get(self.at..self.at + 8);
        self.end <= bytes.len()
            && sum == Some(&checksum(&bytes[self.start..self.end], self.seed).to_le_bytes()[..])
    }
}

/// Returns the checksum ranges of an undamaged file, by the file's name.
pub fn checksum_ranges(name: &str, bytes: &[u8]) -> Vec<ChecksumRange> {
    if name.ends_with(".wal") {
        log_ranges(bytes)
    } else if name.ends_with(".sst") {
        table_ranges(bytes)
    } else if name.ends_with(".val") {
        value_ranges(bytes)
    } else if let Some(number) = name.strip_prefix("manifest-") {
        manifest_ranges(bytes, number.parse().unwrap_or(0))
    } else if name == "CURRENT" {
        let slot = |which: usize| {
            let start = which * 512;
            ChecksumRange { start, end: start + 504, at: start + 504, seed: which as u64 }
        };
        vec![slot(0), slot(1)]
    } else {
        Vec::new()
    }
}

fn value_ranges(bytes: &[u8]) -> Vec<ChecksumRange> {
    let (Some(id), Some(footer)) = (word(bytes, 16), bytes.len().checked_sub(40)) else {
        return Vec::new();
    };
    let range = |start, end, at, place: usize| {
        let seed = location_seed(id, place as u64);
        ChecksumRange { start, end, at, seed }
    };
    let mut ranges = vec![range(0, 24, 24, 0), range(footer, footer + 32, footer + 32, footer)];
    let mut at = 32;
    while let Some(lengths) = word(bytes, at + 8).filter(|_| at < footer) {
        let end = at + 16 + (lengths as u32 as usize) + (lengths >> 32) as usize;
        let record = range(at + 8, end, at, at);
        if !record.holds(bytes) {
            break;
        }
        ranges.push(record);
        at = end;
    }
    ranges
}

fn log_ranges(bytes: &[u8]) -> Vec<ChecksumRange> {
    let mut ranges = vec![ChecksumRange { start: 0, end: 32, at: 32, seed: 0 }];
    let Some((_, Some(header))) = FileHeader::decode(bytes) else { return ranges };
    let mut at = HEADER_BYTES;
    while let Some(record) = bytes.get(at..).and_then(RecordHeader::decode) {
        let end = at + RECORD_HEADER_BYTES + record.payload_bytes as usize;
        let seed = location_seed(header.generation, at as u64);
        let range = ChecksumRange { start: at + 8, end, at, seed };
        if !range.holds(bytes) {
            break;
        }
        ranges.push(range);
        at = padded(end - at) + at;
    }
    ranges
}

fn word(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

fn manifest_ranges(bytes: &[u8], number: u64) -> Vec<ChecksumRange> {
    let mut ranges = vec![ChecksumRange { start: 0, end: 24, at: 24, seed: 0 }];
    let Some(store_id) = word(bytes, 16) else { return ranges };
    let mut at = 32;
    while let Some(length) = word(bytes, at + 8) {
        let end = at + 16 + (length as u32) as usize;
        let seed = location_seed(store_id ^ number.rotate_left(32), at as u64);
        let range = ChecksumRange { start: at + 8, end, at, seed };
        if !range.holds(bytes) {
            break;
        }
        ranges.push(range);
        at = end;
    }
    ranges
}

fn table_ranges(bytes: &[u8]) -> Vec<ChecksumRange> {
    let mut ranges = Vec::new();
    let Some(footer) = bytes.len().checked_sub(FOOTER_BYTES) else { return ranges };
    let Some(table_id) = word(bytes, footer + 64) else { return ranges };
    let mut start = 0;
    while start < footer {
        let seed = location_seed(table_id, start as u64);
        let ends = (start + 1)..=(footer - 8);
        let found =
            ends.map(|end| ChecksumRange { start, end, at: end, seed }).find(|s| s.holds(bytes));
        let Some(range) = found else { break };
        ranges.push(range);
        start = range.at + 8;
    }
    let (end, seed) = (footer + FOOTER_BYTES - 8, location_seed(table_id, footer as u64));
    ranges.push(ChecksumRange { start: footer, end, at: end, seed });
    ranges
}
