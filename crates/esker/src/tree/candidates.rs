//! The candidate fragments of a version for one key.
//!
//! A get that the memtables do not answer takes at least two steps of this iterator. The first step
//! returns the slice to search, and the second one finds out whether there is another slice. A bit
//! mask skips empty levels, and a hand-written loop steps through a guard's runs.

use std::sync::Arc;

use super::fragment::Fragment;
use super::guard::{Level, Run};
use super::version::Version;

/// Bit mask of the non-empty levels: bit n is level n.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct LevelMask(u32);

impl LevelMask {
    /// Builds the mask of `levels`.
    pub fn of(levels: &[Arc<Level>]) -> LevelMask {
        let bit = |(number, level): (usize, &Arc<Level>)| u32::from(!level.is_empty()) << number;
        LevelMask(levels.iter().enumerate().map(bit).sum())
    }
}

/// Iterator over the slices that may hold a key, with their levels, newest first.
pub struct CandidateFragments<'v, 'k> {
    version: &'v Version,
    key: &'k [u8],
    /// Levels not yet searched.
    left: LevelMask,
    /// Level of `runs`.
    level: usize,
    /// Runs of the level's guard that are not yet searched.
    runs: std::slice::Iter<'v, Run>,
}

impl<'v, 'k> CandidateFragments<'v, 'k> {
    /// Creates the iterator over the slices of `version` that may hold `key`. `left` is the mask of
    /// the version's non-empty levels.
    #[inline]
    pub(super) fn new(
        version: &'v Version,
        left: LevelMask,
        key: &'k [u8],
    ) -> CandidateFragments<'v, 'k> {
        CandidateFragments { version, key, left, level: 0, runs: [].iter() }
    }
}

impl<'v> Iterator for CandidateFragments<'v, '_> {
    type Item = (usize, &'v Arc<Fragment>);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        loop {
            for run in &mut self.runs {
                if let Some(fragment) = run.fragments.candidate(self.version.order(), self.key) {
                    return Some((self.level, fragment));
                }
            }
            let LevelMask(left) = self.left;
            if left == 0 {
                return None;
            }
            self.level = left.trailing_zeros() as usize;
            self.left = LevelMask(left & (left - 1));
            self.runs = self.version.guard_of(self.level, self.key).runs.iter();
        }
    }
}
