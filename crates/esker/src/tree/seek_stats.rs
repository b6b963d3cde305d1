//! Seek statistics: key ranges with many seeks over several runs, where a compaction would make
//! seeks cheaper.
//!
//! A seek must search every run that may hold its key. A get skips most runs thanks to their
//! filters. Seeks are therefore counted per guard of the deepest non-empty level. A guard whose
//! seeks have searched too many runs becomes a candidate for a compaction into one run ("seek
//! compaction" in LevelDB).
//!
//! Invariants: seek statistics are only a heuristic. A change of the level discards them, and
//! correctness does not depend on them.

use std::cell::Cell;

use crate::base::sync::atomic::Ordering::Relaxed;

use super::guard::Guard;
use super::tables::Tables;
use super::version::Version;

/// Bytes of compaction that one superfluous search of a run by a seek pays for. Reading and writing
/// a byte costs about 10 ns, and such a search about 200 ns. The compaction uses an otherwise idle
/// core, while the seek uses a busy one.
const BYTES_PER_SEEK: u64 = 512;
/// The same ratio when only level 0 holds data. It is higher because a later compaction pushes
/// level 0 down anyway.
const BYTES_PER_SEEK_LEVEL_0: u64 = 8 * BYTES_PER_SEEK;
/// Minimum size assumed for a guard, in bytes. A smaller guard is not worth an earlier compaction
/// of its own.
const BYTES_MIN: u64 = 1 << 20;

/// Sampling interval of seeks, per thread. One in this many seeks updates the seek statistics.
const SEEKS_PER_SAMPLE: u64 = 16;

/// Number of steps over entries that cost about as much as a seek in one run.
const STEPS_PER_SEEK: u64 = 8;

/// Returns the level whose guards hold the seek statistics.
fn level_of(version: &Version) -> usize {
    version.deepest_nonempty().unwrap_or(0)
}

/// Returns the number of runs that a seek to `key` searches, and the bytes of their guards.
fn runs_and_bytes(version: &Version, key: &[u8]) -> (u64, u64) {
    (0..=level_of(version)).fold((0, 0), |(runs, bytes), level| {
        let guard = version.guard_of(level, key);
        (runs + guard.runs.len() as u64, bytes + guard.bytes())
    })
}

fn seeks_needed(level: usize, bytes: u64) -> u64 {
    bytes.max(BYTES_MIN) / if level == 0 { BYTES_PER_SEEK_LEVEL_0 } else { BYTES_PER_SEEK }
}

/// Adds `seeks` seeks near `key`. Returns true when the guard has just become a seek-compaction
/// candidate.
pub fn note(version: &Version, key: &[u8], seeks: u64) -> bool {
    let (runs, bytes) = runs_and_bytes(version, key);
    if runs < 2 {
        return false;
    }
    let (more, level) = (seeks * (runs - 1), level_of(version));
    let before = version.guard_of(level, key).seek_stats.0.fetch_add(more, Relaxed);
    let needed = seeks_needed(level, bytes);
    before < needed && before + more >= needed
}

/// Returns the seek-compaction candidates with their level.
pub fn is_candidate(version: &Version) -> impl Iterator<Item = (usize, &Guard)> {
    let level = level_of(version);
    version.levels[level].guards.iter().filter_map(move |guard| {
        let heat = guard.seek_stats.0.load(Relaxed);
        let (runs, bytes) = match heat {
            0 => return None,
            _ => runs_and_bytes(version, guard.lo.as_deref().unwrap_or_default()),
        };
        (runs > 1 && heat >= seeks_needed(level, bytes)).then_some((level, &**guard))
    })
}

impl Tables {
    /// Records that a reader of `version` seeks `key`. If this seek is sampled, returns the number
    /// of the thread's seeks that the sample represents.
    #[inline]
    pub fn note_seek(&self, version: &Version, key: &[u8]) -> Option<u64> {
        thread_local! {
            static SEEKS: Cell<u64> = const { Cell::new(0) };
        }
        let seeks = SEEKS.get() + 1;
        SEEKS.set(seeks);
        if !seeks.is_multiple_of(SEEKS_PER_SAMPLE) || self.on_candidate.get().is_none() {
            return None;
        }
        if note(version, key, SEEKS_PER_SAMPLE) {
            self.wake();
        }
        Some(SEEKS_PER_SAMPLE)
    }

    /// Records that a reader of `version` stepped over `steps` entries before it reached `key`.
    #[cold]
    pub fn note_steps(&self, version: &Version, key: &[u8], steps: u64) {
        if self.on_candidate.get().is_some() && note(version, key, steps / STEPS_PER_SEEK) {
            self.wake();
        }
    }
}
