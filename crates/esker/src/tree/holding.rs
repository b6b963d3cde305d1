//! Which slices of a version may show a key.
//!
//! A get that no memtable answers asks that at least twice, for the slice it looks into and for
//! whether there is another: levels without anything are passed over by one number, and a guard's
//! runs walked by hand.

use std::sync::Arc;

use super::fragment::Fragment;
use super::guard::{Level, Run};
use super::version::Version;

/// The levels that hold anything: bit n is level n.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Used(u32);

impl Used {
    /// Those of `levels`.
    pub fn of(levels: &[Arc<Level>]) -> Used {
        let bit = |(number, level): (usize, &Arc<Level>)| u32::from(!level.is_empty()) << number;
        Used(levels.iter().enumerate().map(bit).sum())
    }
}

/// The slices that may show a key, with their levels, newest first.
pub struct Holding<'v, 'k> {
    version: &'v Version,
    key: &'k [u8],
    /// The levels not looked into yet.
    left: Used,
    /// The level of `runs`.
    level: usize,
    /// Those of its guard not looked into yet.
    runs: std::slice::Iter<'v, Run>,
}

impl<'v, 'k> Holding<'v, 'k> {
    /// The slices of `version`, whose levels in use are `left`, that may show `key`.
    #[inline]
    pub(super) fn new(version: &'v Version, left: Used, key: &'k [u8]) -> Holding<'v, 'k> {
        Holding { version, key, left, level: 0, runs: [].iter() }
    }
}

impl<'v> Iterator for Holding<'v, '_> {
    type Item = (usize, &'v Arc<Fragment>);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        loop {
            for run in &mut self.runs {
                if let Some(fragment) = run.fragments.holding(self.version.order(), self.key) {
                    return Some((self.level, fragment));
                }
            }
            let Used(left) = self.left;
            if left == 0 {
                return None;
            }
            self.level = left.trailing_zeros() as usize;
            self.left = Used(left & (left - 1));
            self.runs = self.version.guard_of(self.level, self.key).runs.iter();
        }
    }
}
