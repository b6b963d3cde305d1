//! Summary of a table's content, accumulated entry by entry. The writer stores it, and a check
//! compares it.

use std::cmp::Ordering;

use crate::base::checksum::checksum;
use crate::base::expiry::{self, NEVER_MS};
use crate::base::key::{Kind, SeqNo, pack};
use crate::base::order::KeyOrder;
use crate::base::range_delete::RangeDeleteRef;
use crate::base::separated::{ValuePointer, add_reference};

use super::TableInfo;
use super::sample::SampleBuilder;

/// Seed of the hash that chooses the sampled keys.
const SAMPLE_SEED: u64 = 0x7361_6d70_6c65;

/// The running summary.
pub(super) struct Summary {
    info: TableInfo,
    /// The latest time at which an entry expires. [`NEVER_MS`] if an entry that is no tombstone
    /// does not expire.
    latest_ms: u64,
    sample: SampleBuilder,
}

impl Summary {
    /// Creates the summary of an empty table.
    pub(super) fn new(table_id: u64) -> Summary {
        let info = TableInfo { table_id, seqno_min: SeqNo::MAX, ..TableInfo::default() };
        Summary { info, latest_ms: 0, sample: SampleBuilder::default() }
    }

    /// Returns the number of entries so far.
    pub(super) fn entries(&self) -> u64 {
        self.info.entries
    }

    /// Returns the encoded sample of the keys so far.
    pub(super) fn sample(&self) -> Vec<u8> {
        self.sample.encode()
    }

    /// Adds an entry.
    #[inline]
    pub(super) fn add(&mut self, key: &[u8], seqno: SeqNo, kind: Kind, value: &[u8]) {
        let info = &mut self.info;
        let bytes = (key.len() + value.len()) as u64;
        let expires_ms = (kind == Kind::PutExpiring).then(|| expiry::split(value).0);
        let hash = checksum(key, SAMPLE_SEED);
        self.sample.add(hash, info.raw_bytes, (kind, expires_ms), bytes);
        info.entries += 1;
        match kind {
            Kind::Delete => info.deletes += 1,
            Kind::PutExpiring => {
                info.expiring += 1;
                self.latest_ms = self.latest_ms.max(expires_ms.unwrap_or(NEVER_MS));
            }
            _ => self.latest_ms = NEVER_MS,
        }
        if kind == Kind::PutSeparated
            && let Some(pointer) = ValuePointer::decode(value)
        {
            add_reference(&mut info.values, &pointer);
        }
        info.raw_bytes += bytes;
        info.seqno_min = info.seqno_min.min(seqno);
        info.seqno_max = info.seqno_max.max(seqno);
        info.content_hash = mix(info.content_hash, checksum(key, pack(seqno, kind)));
        info.content_hash = mix(info.content_hash, checksum(value, 0));
    }

    /// Returns the complete summary. The caller passes the first and last key of the entries, if
    /// any, and the range tombstones.
    pub(super) fn finish<'a>(
        mut self,
        order: &KeyOrder,
        keys: Option<(&'a [u8], &'a [u8])>,
        tombstones: impl Iterator<Item = RangeDeleteRef<'a>>,
        size_bytes: u64,
    ) -> TableInfo {
        let mut bounds = keys;
        for tombstone in tombstones {
            let info = &mut self.info;
            info.range_deletes += 1;
            info.seqno_min = info.seqno_min.min(tombstone.seqno);
            info.seqno_max = info.seqno_max.max(tombstone.seqno);
            let start_hash = checksum(tombstone.start, pack(tombstone.seqno, Kind::RangeDelete));
            info.content_hash = mix(info.content_hash, start_hash);
            info.content_hash = mix(info.content_hash, checksum(tombstone.end, 0));
            let (start, end) = (tombstone.start, tombstone.end);
            bounds = Some(match bounds {
                None => (start, end),
                Some((lo, hi)) => (
                    if order.compare(start, lo) == Ordering::Less { start } else { lo },
                    if order.compare(end, hi) == Ordering::Greater { end } else { hi },
                ),
            });
        }
        let mut info = self.info;
        if let Some((smallest, largest)) = bounds {
            info.smallest = smallest.to_vec();
            info.largest = largest.to_vec();
        } else {
            info.seqno_min = 0;
        }
        info.size_bytes = size_bytes;
        let all_expire = info.expiring > 0 && info.range_deletes == 0;
        info.expires_ms = Some(self.latest_ms).filter(|time| all_expire && *time != NEVER_MS);
        info
    }
}

/// Adds a word to the content hash. The order of the words matters.
#[inline]
fn mix(hash: u64, word: u64) -> u64 {
    (hash ^ word).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(31) ^ word
}
