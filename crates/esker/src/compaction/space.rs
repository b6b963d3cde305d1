//! The bound on space: how many bytes of a version are live, and which plan reclaims most.
//!
//! Live bytes are estimated from samples of keys ([`crate::table::SampledKey`]): a walk from the
//! newest table to the oldest counts a sampled key as live where it meets it first. The policies
//! decide by sizes alone, so a store whose keys are overwritten again and again holds several times
//! its live bytes. While that exceeds a bound, merges come earlier than the policy demands.
//!
//! Invariants:
//! 1. A plan of this file merges at least two runs of a guard of the last level, or rewrites one run
//!    with expired pairs that no snapshot keeps, or moves data down. So without writes the plans end.
//! 2. A table without a known sample counts as live.

use std::collections::HashSet;
use std::sync::Arc;

use super::{BusySet, Plan, TreeLimits, picker};
use crate::metrics::LEVELS;
use crate::table::{SampledKey, Table, sample_mask};
use crate::tree::fragment::Fragment;
use crate::tree::guard::Guard;
use crate::tree::version::Version;

/// Part of the allowed surplus at which merges begin: what they write exists beside their inputs.
const BEGIN_PART: f64 = 0.75;
/// Writers are slowed most at this factor of the bound.
const SLOWEST_FACTOR: f64 = 1.1;
/// Maximum number of newer range tombstones that an older table is compared with.
const RANGES_MAX: usize = 256;

/// A key range that a newer table deletes.
type DeletedRange = (Vec<u8>, Vec<u8>);

/// The moment of a measurement.
pub struct Moment {
    /// The present, in milliseconds since 1970.
    pub now_ms: u64,
    /// Whether snapshots may keep pairs that have expired.
    pub has_snapshots: bool,
}

/// A guard whose merge, or push, is worth its writes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    level: usize,
    /// Lower bound of the guard, its identity within the level.
    lo: Option<Vec<u8>>,
    /// Whether its runs are merged within the level; otherwise they are pushed down.
    is_merge: bool,
    /// Sorts the candidates, the greatest first.
    rank: u64,
}

/// The space of a tree.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SpaceUse {
    /// Bytes of all table files.
    pub table_bytes: u64,
    /// Estimated bytes of what the newest state needs.
    pub live_bytes: u64,
    /// What reclaims space, the best first. Empty while the bound is far.
    pub candidates: Vec<Candidate>,
}

impl SpaceUse {
    /// Returns table bytes over live bytes, at least 1.
    pub fn amplification(&self) -> f64 {
        (self.table_bytes as f64 / self.live_bytes.max(1) as f64).max(1.0)
    }

    /// Returns the debt that the surplus over `bound` stands for, when `limit_bytes` is the debt that
    /// slows writers most. 0 if no merge would reclaim anything, so that no writer waits for nothing.
    pub fn debt_bytes(&self, bound: f64, limit_bytes: u64) -> u64 {
        if self.candidates.is_empty() {
            return 0;
        }
        let over = self.amplification() / bound - 1.0;
        let share = (over / (SLOWEST_FACTOR - 1.0)).clamp(0.0, 1.0);
        (share * limit_bytes as f64) as u64
    }
}

/// Returns the amplification at which merges for `bound` begin.
fn begin_at(bound: f64) -> f64 {
    1.0 + (bound - 1.0) * BEGIN_PART
}

/// What is known of a slice.
struct Part {
    /// Number of bits of the hash that are zero in each key.
    bits: u32,
    keys: Vec<SampledKey>,
    deleted: Vec<DeletedRange>,
}

/// Walks slices from the newest to the oldest, and sums the sampled bytes.
#[derive(Default)]
struct Walk {
    seen: HashSet<u64>,
    deleted: Vec<DeletedRange>,
    /// Bits that are zero in the hash of every key that counts.
    mask: u64,
    /// The moment at which pairs are live.
    now_ms: u64,
    /// Bytes of the slices that have a sample.
    sampled_bytes: u64,
    /// Bytes of the slices without one.
    unknown_bytes: u64,
    stored: u64,
    live: u64,
}

impl Walk {
    /// Walks `slices` with the keys that are sampled in all of their tables.
    fn over<'a>(now_ms: u64, slices: impl Iterator<Item = &'a Arc<Fragment>> + Clone) -> Walk {
        let bits = |fragment: &Arc<Fragment>| fragment.file.peek(Table::sample_bits);
        let bits = slices.clone().filter_map(bits).max().unwrap_or(0);
        let mut walk = Walk { mask: sample_mask(bits), now_ms, ..Walk::default() };
        slices.for_each(|fragment| walk.add(fragment));
        walk
    }

    /// Adds the next older slice.
    fn add(&mut self, fragment: &Fragment) {
        let part = fragment.file.peek(|table| part_of(table, fragment, &self.deleted));
        let Some(part) = part.filter(|part| part.bits > 0 || !part.deleted.is_empty()) else {
            self.unknown_bytes += fragment.est_bytes();
            return;
        };
        self.sampled_bytes += fragment.est_bytes();
        for key in part.keys.iter().filter(|key| key.hash & self.mask == 0) {
            self.stored += key.stored_bytes;
            if key.expires_ms > self.now_ms && !self.seen.contains(&key.hash) {
                self.live += key.live_bytes;
            }
            if key.hides_older {
                self.seen.insert(key.hash);
            }
        }
        let room = RANGES_MAX.saturating_sub(self.deleted.len());
        self.deleted.extend(part.deleted.into_iter().take(room));
    }

    /// Returns the estimated live bytes of all slices.
    fn live_bytes(&self) -> u64 {
        if self.stored == 0 {
            return self.sampled_bytes + self.unknown_bytes;
        }
        let live = u128::from(self.sampled_bytes) * u128::from(self.live) / u128::from(self.stored);
        live as u64 + self.unknown_bytes
    }
}

/// Returns what `table` tells of a slice. Keys in the ranges `deleted` are not live.
fn part_of(table: &Table, fragment: &Fragment, deleted: &[DeletedRange]) -> Part {
    let place = |key: &[u8]| table.approximate_place(key);
    let from = fragment.lo.as_deref().map_or(0, place);
    let to = fragment.hi.as_deref().map_or(u64::MAX, place);
    let dead: Vec<(u64, u64)> =
        deleted.iter().map(|(start, end)| (place(start), place(end))).collect();
    let (bits, mut keys) = table.sample();
    keys.retain(|key| (from..to).contains(&key.place_bytes));
    for key in &mut keys {
        let at = key.place_bytes;
        if dead.iter().any(|(start, end)| (*start..*end).contains(&at)) {
            key.live_bytes = 0;
        }
    }
    let ranges = table.range_deletes().iter().take(RANGES_MAX);
    let deleted = ranges.map(|range| (range.start.to_vec(), range.end.to_vec())).collect();
    Part { bits, keys, deleted }
}

/// Measures the space of `version` under `bound`. `open` opens a table that is not open yet.
pub fn measure(
    version: &Version,
    limits: &TreeLimits,
    bound: f64,
    moment: &Moment,
    open: &dyn Fn(&Fragment),
) -> SpaceUse {
    let files = version.files();
    let table_bytes: u64 = files.iter().map(|file| file.info.size_bytes).sum();
    // Tables of pointers are small, and what they keep alive is not.
    let value_bytes: u64 =
        files.iter().flat_map(|file| &file.info.values).map(|refs| refs.bytes).sum();
    let settled = SpaceUse { table_bytes, live_bytes: table_bytes, candidates: Vec::new() };
    let begin = begin_at(bound);
    if table_bytes.saturating_add(value_bytes) < version.space_bytes_min()
        || cannot_exceed(version, table_bytes, begin)
    {
        return settled;
    }
    newest_first(version).for_each(|fragment| open(fragment));
    let walk = Walk::over(moment.now_ms, newest_first(version));
    let live_bytes = walk.live_bytes().max(1);
    let mut space = SpaceUse { table_bytes, live_bytes, candidates: Vec::new() };
    if space.amplification() > begin {
        space.candidates = candidates(version, limits, begin, moment);
    }
    space
}

/// Returns whether the sizes alone show that `version` is within the amplification `begin`: no
/// tombstone makes the keys of its largest level dead, and they are most of the bytes.
fn cannot_exceed(version: &Version, table_bytes: u64, begin: f64) -> bool {
    let has_deletes = |guard: &Guard| {
        let mut infos = guard.fragments().map(|(_, fragment)| &fragment.file.info);
        infos.any(|info| info.deletes + info.range_deletes + info.expiring > 0)
    };
    let largest_run = |guard: &Arc<Guard>| guard.runs.iter().map(|r| r.bytes()).max().unwrap_or(0);
    let mut distinct_bytes = 0;
    for level in &version.levels {
        if level.guards.iter().any(|guard| has_deletes(guard)) {
            return false;
        }
        distinct_bytes = level.guards.iter().map(largest_run).sum::<u64>().max(distinct_bytes);
    }
    table_bytes as f64 <= begin * distinct_bytes as f64
}

/// Returns the slices of all levels, the newest of each key first.
fn newest_first(version: &Version) -> impl Iterator<Item = &Arc<Fragment>> + Clone {
    let guards = version.levels.iter().flat_map(|level| level.guards.iter());
    guards.flat_map(|guard| guard.runs.iter()).flat_map(|run| run.fragments.iter())
}

/// Returns the guards to merge or to push. A merge in the last level comes first where it drops at
/// least what the bound asks for; then a push of what lies above, which brings the keys together;
/// then any other merge.
fn candidates(
    version: &Version,
    limits: &TreeLimits,
    begin: f64,
    moment: &Moment,
) -> Vec<Candidate> {
    let deepest = version.deepest_nonempty().unwrap_or(0).max(1);
    let least_gain = ((1.0 - 1.0 / begin) * 1000.0) as u64;
    let mut found = Vec::new();
    let runs_min = if moment.has_snapshots { 2 } else { 1 };
    let guards = version.levels[deepest].guards.iter();
    for guard in guards.filter(|guard| guard.runs.len() >= runs_min) {
        let live_at = |now_ms| {
            let slices = guard.runs.iter().flat_map(|run| run.fragments.iter());
            Walk::over(now_ms, slices).live_bytes()
        };
        let all = guard.bytes().max(1);
        // Of one run, only what has expired since it was written is reclaimed. The bytes of its
        // tables tell nothing: a range tombstone alone has bytes and no sampled key, and a rewrite
        // that keeps it would be chosen again for ever.
        let now = if guard.runs.len() > 1 { all } else { live_at(0) };
        let gain = now.saturating_sub(live_at(moment.now_ms)).saturating_mul(1000) / all;
        if gain >= if guard.runs.len() > 1 { 1 } else { least_gain } {
            let rank = if gain >= least_gain { (2 << 32) + gain } else { gain };
            found.push(Candidate { level: deepest, lo: guard.lo.clone(), is_merge: true, rank });
        }
    }
    for level in 0..deepest.min(LEVELS - 1) {
        let guards = version.levels[level].guards.iter().filter(|guard| !guard.runs.is_empty());
        found.extend(guards.map(|guard| Candidate {
            level,
            lo: guard.lo.clone(),
            is_merge: false,
            // The largest first: it brings most keys together for the bytes below it.
            rank: (1 << 32) + guard.bytes() * 1000 / limits.guard_size_max_bytes.max(1),
        }));
    }
    found.sort_by_key(|candidate| std::cmp::Reverse(candidate.rank));
    found
}

/// Returns the plan of the best candidate that is still there and not busy.
pub fn pick(
    version: &Version,
    limits: &TreeLimits,
    busy: &BusySet,
    candidates: &[Candidate],
) -> Option<Plan> {
    candidates.iter().find_map(|candidate| {
        let guards = &version.levels[candidate.level].guards;
        let guard = guards.iter().find(|guard| guard.lo == candidate.lo)?;
        picker::reclaim(version, limits, busy, candidate.level, guard, candidate.is_merge)
    })
}
