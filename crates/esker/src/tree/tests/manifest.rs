//! Damaged manifests: truncation at any offset, any byte flipped, torn pointers, rewrites, another
//! format version.
//!
//! Failure history behind these tests: half a record was taken for an edit; an older state was
//! served after corruption; one torn write lost the pointer; a newer format was reported as
//! corruption.

use std::path::Path;
use std::sync::Arc;

use super::*;
use crate::base::checksum::checksum;
use crate::base::format_version::FormatVersion;
use crate::error::ErrorKind;
use crate::fs::Fs;
use crate::fs::MemFs;
use crate::tree::current::Current;
use crate::tree::set::VersionSet;
use crate::tree::{manifest, names};

const DIR: &str = "/db";
const SLOT_BYTES: usize = 512;
const STORE_ID: u64 = 0xE5;
const STORE: (u64, FormatVersion) = (STORE_ID, FormatVersion::NEWEST);

type Files = Vec<(String, Vec<u8>)>;

fn dir() -> &'static Path {
    Path::new(DIR)
}

/// Returns the contents of a file system.
fn files(fs: &MemFs) -> Files {
    let entries = fs.list(dir()).unwrap().into_iter();
    entries.map(|e| (e.name.clone(), fs.read(&dir().join(e.name), 1 << 30).unwrap())).collect()
}

/// Creates a file system with `files`.
fn image(files: &Files) -> Arc<MemFs> {
    let fs = MemFs::new();
    fs.create_dir(dir()).unwrap();
    for (name, bytes) in files {
        fs.create_new(&dir().join(name)).unwrap().append(bytes).unwrap();
    }
    fs
}

fn open(fs: &Arc<MemFs>, read_only: bool) -> Result<VersionSet> {
    VersionSet::recover(fs.clone(), dir(), vec![KeyOrder::Bytewise], read_only)
}

fn create() -> Arc<MemFs> {
    create_of(FormatVersion::NEWEST)
}

fn create_of(format: FormatVersion) -> Arc<MemFs> {
    let fs = MemFs::new();
    fs.create_dir(dir()).unwrap();
    let (content, store) = (VersionEdit::default(), (STORE_ID, format));
    VersionSet::create(fs.clone(), dir(), KeyOrder::Bytewise, store, content).unwrap();
    fs
}

/// Formats the complete state of a set.
fn state(set: &VersionSet) -> String {
    let numbers = (set.last_seqno(), set.min_wal(), set.newest_wal());
    format!("{numbers:?}\n{}", picture(set.current().main()))
}

/// Returns edits of every kind.
fn edits() -> Vec<VersionEdit> {
    let plain = VersionEdit::default;
    vec![
        VersionEdit { last_seqno: Some(7), min_wal: Some(2), newest_wal: Some(2), ..plain() },
        VersionEdit { added: vec![added(0, 1, 10, b"a", b"m")], ..plain() },
        VersionEdit { added: vec![added(0, 2, 11, b"c", b"z")], last_seqno: Some(9), ..plain() },
        VersionEdit { bounds_added: vec![(1, b"g".to_vec())], ..plain() },
        VersionEdit {
            removed: vec![removed(0, 10, None, None), removed(0, 11, None, Some(b"k"))],
            added: vec![added(1, 3, 12, b"a", b"f"), added(1, 3, 13, b"g", b"j")],
            ..plain()
        },
        VersionEdit { bounds_removed: vec![(1, b"g".to_vec())], min_wal: Some(5), ..plain() },
    ]
}

/// Returns the state and the files after creation and after each edit.
fn history() -> Vec<(String, Files)> {
    let fs = create();
    let mut set = open(&fs, false).unwrap();
    let mut out = vec![(state(&set), files(&fs))];
    for edit in edits() {
        set.apply(edit).unwrap();
        out.push((state(&set), files(&fs)));
    }
    out
}

fn bytes_of<'a>(files: &'a mut Files, name: &str) -> &'a mut Vec<u8> {
    &mut files.iter_mut().find(|f| f.0.starts_with(name)).unwrap().1
}

fn manifest_len(files: &Files) -> usize {
    files.iter().find(|f| f.0.starts_with("manifest-")).unwrap().1.len()
}

#[test]
fn every_state_is_recovered() {
    for (index, (want, files)) in history().iter().enumerate() {
        for read_only in [true, false] {
            let fs = image(files);
            let mut set = open(&fs, read_only).unwrap();
            assert_eq!(state(&set), *want, "after {index} edits");
            let next = VersionEdit { last_seqno: Some(100), ..VersionEdit::default() };
            let applied = set.apply(next);
            if read_only {
                assert_eq!(applied.unwrap_err().kind(), ErrorKind::ReadOnly);
                assert_eq!(self::files(&fs), *files, "a reader changed the files");
            } else {
                applied.unwrap();
                assert_eq!(open(&fs, true).unwrap().last_seqno(), 100);
            }
        }
    }
}

#[test]
fn truncated_manifest_recovers_prefix_or_fails() {
    let history = history();
    let ends: Vec<usize> = history.iter().map(|(_, files)| manifest_len(files)).collect();
    let whole = history.last().unwrap().1.clone();
    for (known, (_, files)) in history.iter().enumerate() {
        // The pointer covers `known` edits. The manifest grew further and was then cut to `len`
        // bytes.
        for len in 0..=*ends.last().unwrap() {
            let mut cut = whole.clone();
            bytes_of(&mut cut, "manifest-").truncate(len);
            *bytes_of(&mut cut, "CURRENT") =
                files.iter().find(|f| f.0 == "CURRENT").unwrap().1.clone();
            let fs = image(&cut);
            match open(&fs, false) {
                Ok(mut set) => {
                    let edits = ends.iter().rposition(|end| *end <= len).unwrap();
                    assert!(len >= ends[known], "cut at {len} below what was durable");
                    assert_eq!(state(&set), history[edits].0, "cut at {len}");
                    // The set accepts further edits.
                    let next = VersionEdit { last_seqno: Some(50), ..VersionEdit::default() };
                    set.apply(next).unwrap();
                    assert_eq!(state(&open(&fs, true).unwrap()), state(&set));
                }
                Err(error) => {
                    assert!(len < ends[known], "cut at {len}: {error}");
                    assert_eq!(error.kind(), ErrorKind::Corruption, "cut at {len}: {error}");
                    assert!(error.path().is_some() && error.offset_bytes().is_some());
                }
            }
        }
    }
}

#[test]
fn flipped_bit_is_detected_or_harmless() {
    let (want, whole) = history().pop().unwrap();
    for name in ["manifest-", "CURRENT"] {
        let len = bytes_of(&mut whole.clone(), name).len();
        for bit in 0..len * 8 {
            let mut bad = whole.clone();
            bytes_of(&mut bad, name)[bit / 8] ^= 1 << (bit % 8);
            match open(&image(&bad), false) {
                Ok(set) => {
                    assert_eq!(state(&set), want, "{name} bit {bit}");
                    assert_eq!(
                        name, "CURRENT",
                        "bit {bit} of the manifest is not under a checksum"
                    );
                }
                Err(error) => {
                    let kind = error.kind();
                    assert_eq!(kind, ErrorKind::Corruption, "{name} bit {bit}: {error}");
                    assert_ne!(name, "CURRENT", "bit {bit}: the other slot is whole: {error}");
                }
            }
        }
    }
}

#[test]
fn torn_pointer_leaves_other_pointer() {
    let history = history();
    for pair in history.windows(2) {
        let ((_, before), (want, after)) = (&pair[0], &pair[1]);
        let (old, new) = (&before[0].1, &after[0].1);
        assert_eq!(before[0].0, "CURRENT");
        // Only a part of the slot reaches the device, from either end.
        let changed = (0..2)
            .find(|s| old[s * SLOT_BYTES..][..SLOT_BYTES] != new[s * SLOT_BYTES..][..SLOT_BYTES]);
        let start = changed.unwrap() * SLOT_BYTES;
        for torn in 0..=SLOT_BYTES {
            for forward in [true, false] {
                let (mut files, mut bytes) = (after.clone(), old.clone());
                let part = if forward { 0..torn } else { torn..SLOT_BYTES };
                let part = start + part.start..start + part.end;
                bytes[part.clone()].copy_from_slice(&new[part]);
                *bytes_of(&mut files, "CURRENT") = bytes;
                let set = open(&image(&files), false).unwrap();
                assert_eq!(state(&set), *want, "torn at {torn}");
            }
        }
    }
}

#[test]
fn truncated_current_file_uses_complete_slot() {
    let (want, whole) = history().pop().unwrap();
    for len in 0..2 * SLOT_BYTES {
        let mut cut = whole.clone();
        bytes_of(&mut cut, "CURRENT").truncate(len);
        match open(&image(&cut), true) {
            Ok(set) => assert!(len >= SLOT_BYTES && state(&set) == want, "cut at {len}"),
            Err(error) => {
                assert_eq!((error.kind(), len < SLOT_BYTES), (ErrorKind::Corruption, true));
            }
        }
    }
}

/// Returns edits that make the manifest long but leave little content.
fn long_edit(round: u8) -> VersionEdit {
    let bound = |n: u8| (1, [vec![n], vec![b'x'; 60_000]].concat());
    VersionEdit {
        bounds_added: vec![bound(round)],
        bounds_removed: round.checked_sub(1).map(bound).into_iter().collect(),
        last_seqno: Some(u64::from(round) + 1),
        ..VersionEdit::default()
    }
}

#[test]
fn long_manifest_is_rewritten_and_old_one_removed() {
    let fs = create();
    let mut set = open(&fs, false).unwrap();
    for edit in edits() {
        set.apply(edit).unwrap();
    }
    let first = set.manifest_number();
    let mut rewrites = 0;
    for round in 0..40 {
        let (before, number) = (files(&fs), set.manifest_number());
        set.apply(long_edit(round)).unwrap();
        assert_eq!(state(&open(&fs, true).unwrap()), state(&set), "round {round}");
        if set.manifest_number() == number {
            continue;
        }
        rewrites += 1;
        let after = files(&fs);
        assert_eq!(after.iter().filter(|f| f.0.starts_with("manifest-")).count(), 1);
        assert!(manifest_len(&after) < 200_000, "the manifest still holds old state");
        // A crash between the new manifest and the switch leaves the old state and a stray file.
        let mut crash = before.clone();
        crash.push(after.iter().find(|f| f.0.starts_with("manifest-")).unwrap().clone());
        assert_eq!(open(&image(&crash), true).unwrap().last_seqno(), u64::from(round).max(9));
        // A crash between the switch and the removal of the old manifest leaves the new state.
        let mut crash = after.clone();
        crash.push(before.iter().find(|f| f.0.starts_with("manifest-")).unwrap().clone());
        assert_eq!(state(&open(&image(&crash), true).unwrap()), state(&set));
    }
    assert!(rewrites >= 1 && set.manifest_number() > first, "{rewrites} rewrites");
    // A reopened set continues from the rewritten manifest.
    let mut again = open(&fs, false).unwrap();
    again.apply(long_edit(40)).unwrap();
    assert_eq!(state(&open(&fs, true).unwrap()), state(&again));
}

#[test]
fn file_numbers_never_decrease() {
    let fs = create();
    let mut set = open(&fs, false).unwrap();
    let edit = VersionEdit { next_file: Some(30), last_seqno: Some(5), ..VersionEdit::default() };
    set.apply(edit).unwrap();
    let lower = VersionEdit { next_file: Some(3), last_seqno: Some(1), ..VersionEdit::default() };
    set.apply(lower).unwrap();
    let order = set.allocate_order();
    assert!(set.allocate_order() > order);
    let slice = added(0, order + 1, 31, b"a", b"b");
    set.apply(VersionEdit { added: vec![slice], ..VersionEdit::default() }).unwrap();
    let mut again = open(&fs, false).unwrap();
    assert_eq!((again.next_file_number(), again.last_seqno()), (30, 5));
    assert!(again.allocate_order() > order + 1, "a run is as old as an existing run");
}

#[test]
fn other_order_and_newer_version_are_refused_by_name() {
    let whole = files(&create());
    let fs = image(&whole);
    let error = VersionSet::recover(fs.clone(), dir(), vec![KeyOrder::Reverse], false);
    let error = error.err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Incompatible);
    assert!(
        error.message().contains("esker.bytewise") && error.message().contains("esker.reverse")
    );
    for version in [FormatVersion::NEWEST.number() + 1, 256, u32::MAX] {
        let mut newer = whole.clone();
        let slot = &mut bytes_of(&mut newer, "CURRENT")[..SLOT_BYTES];
        slot[8..12].copy_from_slice(&version.to_le_bytes());
        let sum = checksum(&slot[..SLOT_BYTES - 8], 0);
        slot[SLOT_BYTES - 8..].copy_from_slice(&sum.to_le_bytes());
        let error = open(&image(&newer), false).err().unwrap();
        assert_eq!(error.kind(), ErrorKind::Incompatible, "store version {version}: {error}");

        let mut newer = whole.clone();
        let header = &mut bytes_of(&mut newer, "manifest-")[..32];
        header[8..12].copy_from_slice(&version.to_le_bytes());
        let sum = checksum(&header[..24], 0);
        header[24..].copy_from_slice(&sum.to_le_bytes());
        let error = open(&image(&newer), false).err().unwrap();
        assert_eq!(error.kind(), ErrorKind::Incompatible, "manifest version {version}: {error}");
        assert_eq!(manifest::version_of(&*image(&newer), dir(), 1), Some(version));
    }
}

#[test]
fn an_upgrade_is_in_both_slots_and_in_the_manifest_and_stays() {
    let fs = create_of(FormatVersion::OLDEST);
    let mut set = open(&fs, false).unwrap();
    let old = files(&fs);
    for edit in edits() {
        set.apply(edit).unwrap();
    }
    assert_eq!(set.format(), FormatVersion::OLDEST);
    let before = files(&fs);
    set.upgrade(FormatVersion::NEWEST).unwrap();
    let number = FormatVersion::NEWEST.number();
    let check = |set: &VersionSet| {
        assert_eq!(state(set), state(&open(&image(&before), true).unwrap()));
        assert_eq!(set.format(), FormatVersion::NEWEST);
        let mut now = files(&fs);
        let current = bytes_of(&mut now, "CURRENT");
        for slot in current.chunks(SLOT_BYTES) {
            assert_eq!(slot[8..12], number.to_le_bytes());
        }
        assert_eq!(manifest::version_of(&*fs, dir(), set.manifest_number()), Some(number));
    };
    check(&set);
    check(&open(&fs, true).unwrap());
    // Switches and rewrites keep the version.
    let mut again = open(&fs, false).unwrap();
    again.rewrite_beyond(0);
    for _ in 0..40 {
        again.apply(VersionEdit { next_order: Some(50), ..VersionEdit::default() }).unwrap();
        check(&again);
    }
    // What an older release says, and what it says of a store that was not upgraded.
    let error = Current::read_up_to(&*fs, dir(), FormatVersion::OLDEST).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Incompatible);
    for part in ["format version 2", "reads versions 1 to 1", "newer one"] {
        assert!(error.message().contains(part), "{error}");
    }
    Current::read_up_to(&*image(&before), dir(), FormatVersion::OLDEST).unwrap();
    // A manifest of another version than `CURRENT` says is not the one that was written.
    let mut mixed = files(&fs);
    let at = mixed.iter().position(|f| f.0.starts_with("manifest-")).unwrap();
    let mut header = old.iter().find(|f| f.0.starts_with("manifest-")).unwrap().1[..32].to_vec();
    header.extend_from_slice(&mixed[at].1[32..]);
    mixed[at].1 = header;
    let error = open(&image(&mixed), true).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Corruption);
    assert!(error.message().contains("version 2, found version 1"), "{error}");
}

#[test]
fn a_failed_upgrade_leaves_the_old_version_or_a_set_that_refuses_changes() {
    let fs = create_of(FormatVersion::OLDEST);
    let mut set = open(&fs, false).unwrap();
    let next = names::manifest_path(dir(), set.manifest_number() + 1);
    // A file in the place of the new manifest: nothing was changed, and a retry takes another name.
    fs.create_new(&next).unwrap();
    assert!(set.upgrade(FormatVersion::NEWEST).is_err());
    assert_eq!(set.format(), FormatVersion::OLDEST);
    assert_eq!(open(&fs, true).unwrap().format(), FormatVersion::OLDEST);
    set.apply(VersionEdit { last_seqno: Some(3), ..VersionEdit::default() }).unwrap();
    // A directory in the place of the new `CURRENT`.
    fs.create_dir(&dir().join("CURRENT.new")).unwrap();
    assert!(set.upgrade(FormatVersion::NEWEST).is_err());
    assert_eq!(open(&fs, true).unwrap().format(), FormatVersion::OLDEST);
    let error = set.apply(VersionEdit::default()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ReadOnly, "{error}");
    fs.remove_dir(&dir().join("CURRENT.new")).unwrap();
    let mut set = open(&fs, false).unwrap();
    set.upgrade(FormatVersion::NEWEST).unwrap();
    assert_eq!((set.format(), set.last_seqno()), (FormatVersion::NEWEST, 3));
}

#[test]
fn manifest_of_other_store_is_refused() {
    let (_, mut whole) = history().pop().unwrap();
    let fs = MemFs::new();
    fs.create_dir(dir()).unwrap();
    let (content, store) = (VersionEdit::default(), (STORE_ID + 1, FormatVersion::NEWEST));
    VersionSet::create(fs.clone(), dir(), KeyOrder::Bytewise, store, content).unwrap();
    let mut other = files(&fs);
    let theirs = bytes_of(&mut other, "manifest-").clone();
    *bytes_of(&mut whole, "manifest-") = theirs;
    assert_eq!(open(&image(&whole), false).err().unwrap().kind(), ErrorKind::Corruption);
}

#[test]
fn file_is_removed_after_last_fragment_and_last_reader() {
    let fs = create();
    let mut set = open(&fs, false).unwrap();
    let path = names::table_path(dir(), 10);
    fs.create_new(&path).unwrap();
    let edit = VersionEdit { added: vec![added(1, 1, 10, b"a", b"z")], ..VersionEdit::default() };
    let reader = set.apply(edit).unwrap();
    let part = |lo: Option<&[u8]>, hi: Option<&[u8]>| VersionEdit {
        removed: vec![removed(1, 10, lo, hi)],
        ..VersionEdit::default()
    };
    set.apply(part(Some(b"m"), None)).unwrap();
    set.apply(part(None, Some(b"c"))).unwrap();
    assert!(fs.exists(&path).unwrap(), "a fragment remains");
    set.apply(part(None, None)).unwrap();
    assert!(fs.exists(&path).unwrap(), "a reader remains");
    drop(reader);
    assert!(!fs.exists(&path).unwrap());
}

/// A forged pointer with a valid checksum: counting up from these numbers would overflow to 0.
#[test]
fn pointer_with_overflowing_numbers_is_refused() {
    use crate::tree::current::{Current, Slot};
    for (sequence, manifest) in [(u64::MAX, 3), (7, u64::MAX), (1 << 61, 3)] {
        let fs = MemFs::new();
        fs.create_dir(dir()).unwrap();
        let format = FormatVersion::NEWEST;
        let slot = Slot { format, sequence, store_id: STORE_ID, manifest, manifest_bytes: 64 };
        Current::create(&*fs, dir(), slot).unwrap();
        let error = Current::read(&*fs, dir()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corruption, "{sequence} {manifest}");
        assert!(open(&fs, false).is_err());
    }
}

#[test]
fn new_manifest_records_next_file_number() {
    let fs = MemFs::new();
    fs.create_dir(dir()).unwrap();
    let content = VersionEdit { next_file: Some(7), ..VersionEdit::default() };
    VersionSet::create(fs.clone(), dir(), KeyOrder::Bytewise, STORE, content).unwrap();
    let slot = Current::read(&*fs, dir()).unwrap();
    let found = manifest::read(&*fs, dir(), 7, STORE_ID, slot.manifest_bytes).unwrap();
    assert_eq!((slot.manifest, found.edits[0].next_file), (7, Some(8)));
}
