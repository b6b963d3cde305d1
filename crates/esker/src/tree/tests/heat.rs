//! Which guards are hot: those whose seeks went into several runs for as long as a merge costs.

use super::{added, after, empty, removed};
use crate::tree::edit::{AddedFile, AddedSlice, VersionEdit};
use crate::tree::heat::{hot, note};
use crate::tree::version::Version;

const MIB: u64 = 1 << 20;

/// What `version` is with these slices.
fn with(version: &Version, slices: Vec<AddedSlice>) -> Version {
    after(version, &VersionEdit { added: slices, ..VersionEdit::default() }).unwrap()
}

/// A slice of a new file of so many bytes.
fn sized(level: usize, order: u64, number: u64, bytes: u64) -> AddedSlice {
    let mut slice = added(level, order, number, b"a", b"z");
    if let AddedFile::New { info, .. } = &mut slice.file {
        info.size_bytes = bytes;
    }
    slice
}

/// The hot guards: level and first key.
fn hot_guards(version: &Version) -> Vec<(usize, Option<Vec<u8>>)> {
    hot(version).map(|(level, guard)| (level, guard.lo.clone())).collect()
}

#[test]
fn a_guard_gets_hot_once_when_runs_beyond_the_first_have_been_sought_often_enough() {
    // (level, runs, bytes of each, seeks that make it hot)
    for (level, runs, bytes, seeks) in [
        // A byte is worth 4096th of a seek in level 0, and less than a MiB counts as one.
        (0, 2, 1000, 256),
        (0, 2, MIB, 512),
        (0, 3, MIB / 4, 128),
        (0, 5, MIB, 320),
        // Below, 512th.
        (1, 2, 1000, 2048),
        (3, 4, 3 * MIB, 8192),
    ] {
        let slices = (1..=runs).map(|number| sized(level, number, number, bytes)).collect();
        let version = with(&empty(), slices);
        assert!(!note(&version, b"k", seeks - 1), "{runs} runs in level {level}");
        assert_eq!(hot_guards(&version), []);
        assert!(note(&version, b"k", 1), "{runs} runs in level {level}");
        assert!(!note(&version, b"k", seeks), "it is said once");
        assert_eq!(hot_guards(&version), [(level, None)]);
    }
    for version in [empty(), with(&empty(), vec![sized(1, 1, 1, 1000)])] {
        assert!(!note(&version, b"k", 1 << 30), "one run is merged already");
        assert_eq!(hot_guards(&version), []);
    }
}

#[test]
fn heat_belongs_to_a_guard_of_the_deepest_level_and_waits_for_a_second_run() {
    let guards = VersionEdit {
        bounds_added: vec![(1, b"m".to_vec())],
        added: vec![added(1, 1, 1, b"a", b"l"), added(1, 1, 2, b"m", b"z")],
        ..VersionEdit::default()
    };
    let version = with(&after(&empty(), &guards).unwrap(), vec![added(0, 2, 3, b"a", b"b")]);
    assert!(!note(&version, b"l", 2047));
    assert!(note(&version, b"m", 2048));
    let second = [(1, Some(b"m".to_vec()))];
    assert_eq!(hot_guards(&version), second);
    // What lay above goes elsewhere: one run is left, and nothing to gain.
    let gone = VersionEdit { removed: vec![removed(0, 3, None, None)], ..VersionEdit::default() };
    let version = after(&version, &gone).unwrap();
    assert_eq!(hot_guards(&version), []);
    // What was counted before still counts when a run is above again, and goes with the guard.
    let version = with(&version, vec![added(0, 4, 5, b"a", b"b")]);
    assert_eq!(hot_guards(&version), second);
    assert_eq!(hot_guards(&with(&version, vec![added(1, 2, 6, b"m", b"z")])), []);
}
