//! Which key ranges are sought often, and in how many runs: what a merge would spare them.
//!
//! A seek must look into every run that may hold its key; a get is spared most of that by filters.
//! So seeks are counted, where the deepest level's guards are, and a guard whose seeks have gone
//! into too many runs for too long is worth merging into one ("seek compaction" in LevelDB).
//!
//! What stays true: heat is advice. It is lost when a level changes, and nothing depends on it.

use crate::base::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::guard::Guard;
use super::version::Version;

/// A merge of so many bytes is worth one seek into one run more than needed. Reading and writing a
/// byte costs some 10 ns and such a seek some 200 ns, but the merge takes a core that is idle from
/// one that is not.
const BYTES_PER_SEEK: u64 = 512;
/// The same where level 0 is all there is: it will be pushed down anyway.
const BYTES_PER_SEEK_LEVEL_0: u64 = 8 * BYTES_PER_SEEK;
/// Less than this many bytes are not worth a job of their own sooner.
const BYTES_MIN: u64 = 1 << 20;

/// Runs that seeks had to look into beyond the first.
#[derive(Debug, Default)]
pub struct Heat(AtomicU64);

impl Clone for Heat {
    fn clone(&self) -> Heat {
        Heat::default()
    }
}

/// The level whose guards carry the heat.
fn level_of(version: &Version) -> usize {
    version.deepest_nonempty().unwrap_or(0)
}

/// How many runs a seek to `key` looks into, and their guards' bytes.
fn runs_and_bytes(version: &Version, key: &[u8]) -> (u64, u64) {
    (0..=level_of(version)).fold((0, 0), |(runs, bytes), level| {
        let guard = version.guard_of(level, key);
        (runs + guard.runs.len() as u64, bytes + guard.bytes())
    })
}

fn seeks_needed(level: usize, bytes: u64) -> u64 {
    bytes.max(BYTES_MIN) / if level == 0 { BYTES_PER_SEEK_LEVEL_0 } else { BYTES_PER_SEEK }
}

/// Counts `seeks` seeks to about `key`. True when its guard has just become hot.
pub fn note(version: &Version, key: &[u8], seeks: u64) -> bool {
    let (runs, bytes) = runs_and_bytes(version, key);
    if runs < 2 {
        return false;
    }
    let (more, level) = (seeks * (runs - 1), level_of(version));
    let before = version.guard_of(level, key).heat.0.fetch_add(more, Relaxed);
    let needed = seeks_needed(level, bytes);
    before < needed && before + more >= needed
}

/// The hot guards, with their level.
pub fn hot(version: &Version) -> impl Iterator<Item = (usize, &Guard)> {
    let level = level_of(version);
    version.levels[level].guards.iter().filter_map(move |guard| {
        let heat = guard.heat.0.load(Relaxed);
        let (runs, bytes) = match heat {
            0 => return None,
            _ => runs_and_bytes(version, guard.lo.as_deref().unwrap_or_default()),
        };
        (runs > 1 && heat >= seeks_needed(level, bytes)).then_some((level, &**guard))
    })
}
