//! Each campaign against a disk or a store that is broken on purpose: it must notice.
//!
//! Failure history these guard against: a test of crashes that never failed because a typo kept it
//! from looking.

use esker::Policy;
use esker_testkit::campaign::cuts::{self, Effort};
use esker_testkit::campaign::script::{Theme, script};
use esker_testkit::campaign::tally::{Tally, Verdict};
use esker_testkit::crash::Flaws;

/// The cuts of a script about `theme` on a disk with these flaws.
fn cuts_on(theme: Theme, flaws: Flaws) -> Tally {
    let effort = Effort { seeds: 1, nest_one_in: 0, depth: 1, flaws };
    cuts::run(&script(Policy::Leveled, theme, 3, 60), &effort)
}

#[test]
fn a_sound_disk_loses_nothing() {
    let tally = cuts_on(Theme::Levels, Flaws::default());
    assert!(tally.failures.is_empty(), "{}", tally.report());
    assert!(tally.of("images") > 500 && tally.of("flushes") > 5, "{:?}", tally.counts);
}

#[test]
fn a_disk_that_ignores_syncs_of_files_is_noticed() {
    let tally = cuts_on(Theme::Levels, Flaws { sync_ignored: true, ..Flaws::default() });
    assert!(tally.failed(Verdict::Lost) > 0, "{:?}", tally.counts);
}

#[test]
fn a_disk_that_ignores_syncs_of_directories_is_noticed() {
    let tally = cuts_on(Theme::Levels, Flaws { dir_sync_ignored: true, ..Flaws::default() });
    assert!(tally.failed(Verdict::Lost) > 0, "{:?}", tally.counts);
}
