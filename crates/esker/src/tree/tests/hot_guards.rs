//! Seek-compaction candidates: guards whose seeks in several runs have cost as much as a
//! compaction.

use super::{added, after, empty, removed};
use crate::tree::edit::{AddedFile, AddedSlice, VersionEdit};
use crate::tree::seek_stats::{is_candidate, note};
use crate::tree::version::Version;

const MIB: u64 = 1 << 20;

/// Returns `version` with these slices added.
fn with(version: &Version, slices: Vec<AddedSlice>) -> Version {
    after(version, &VersionEdit { added: slices, ..VersionEdit::default() }).unwrap()
}

/// Returns a slice of a new file with this size in bytes.
fn sized(level: usize, order: u64, number: u64, bytes: u64) -> AddedSlice {
    let mut slice = added(level, order, number, b"a", b"z");
    if let AddedFile::New { info, .. } = &mut slice.file {
        info.size_bytes = bytes;
    }
    slice
}

/// Returns the level and the first key of each candidate.
fn hot_guards(version: &Version) -> Vec<(usize, Option<Vec<u8>>)> {
    is_candidate(version).map(|(level, guard)| (level, guard.lo.clone())).collect()
}

#[test]
fn guard_becomes_hot_once_after_enough_seeks_beyond_first_run() {
    // (level, runs, bytes of each run, seeks that make the guard a candidate)
    for (level, runs, bytes, seeks) in [
        // In level 0 one seek pays for 4096 bytes. Less than 1 MiB counts as 1 MiB.
        (0, 2, 1000, 256),
        (0, 2, MIB, 512),
        (0, 3, MIB / 4, 128),
        (0, 5, MIB, 320),
        // In deeper levels one seek pays for 512 bytes.
        (1, 2, 1000, 2048),
        (3, 4, 3 * MIB, 8192),
    ] {
        let slices = (1..=runs).map(|number| sized(level, number, number, bytes)).collect();
        let version = with(&empty(), slices);
        assert!(!note(&version, b"k", seeks - 1), "{runs} runs in level {level}");
        assert_eq!(hot_guards(&version), []);
        assert!(note(&version, b"k", 1), "{runs} runs in level {level}");
        assert!(!note(&version, b"k", seeks), "the candidate was reported twice");
        assert_eq!(hot_guards(&version), [(level, None)]);
    }
    for version in [empty(), with(&empty(), vec![sized(1, 1, 1, 1000)])] {
        assert!(!note(&version, b"k", 1 << 30), "a guard with one run became a candidate");
        assert_eq!(hot_guards(&version), []);
    }
}

#[test]
fn only_deepest_guard_with_second_run_becomes_hot() {
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
    // The run above is removed. One run remains, and a compaction would gain nothing.
    let gone = VersionEdit { removed: vec![removed(0, 3, None, None)], ..VersionEdit::default() };
    let version = after(&version, &gone).unwrap();
    assert_eq!(hot_guards(&version), []);
    // Earlier counts remain valid when a second run appears above. They are lost with the guard.
    let version = with(&version, vec![added(0, 4, 5, b"a", b"b")]);
    assert_eq!(hot_guards(&version), second);
    assert_eq!(hot_guards(&with(&version, vec![added(1, 2, 6, b"m", b"z")])), []);
}
