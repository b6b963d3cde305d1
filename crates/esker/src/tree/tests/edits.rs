//! Encoded edits: decoding restores the edit, and no input makes the decoder panic.

use proptest::prelude::*;

use super::*;
use crate::base::separated::ValueRefs;
use crate::tree::lineage::Lineage;

fn bytes() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(any::<u8>(), 0..20)
}

/// Returns a number of puts that expire, and the time at which all have expired.
fn expiry() -> impl Strategy<Value = (u64, Option<u64>)> {
    let some = (1..=u64::MAX, prop::option::of(0..u64::MAX));
    prop_oneof![Just((0u64, None::<u64>)), some]
}

/// Returns references to two value files.
fn two_references(n: [u64; 9]) -> Vec<ValueRefs> {
    let file = n[1] >> 1;
    vec![
        ValueRefs { file, records: n[2], bytes: n[3] },
        ValueRefs { file: file + 1, records: n[4], bytes: n[5] },
    ]
}

fn slice() -> impl Strategy<Value = AddedSlice> {
    let file = prop_oneof![
        any::<u64>().prop_map(AddedFile::Existing),
        (any::<u64>(), bytes(), bytes(), prop::array::uniform9(any::<u64>()), expiry()).prop_map(
            |(number, smallest, largest, n, (expiring, expires_ms))| {
                let info = TableInfo {
                    table_id: n[0],
                    size_bytes: n[1],
                    entries: n[2],
                    deletes: n[3],
                    range_deletes: n[4],
                    smallest,
                    largest,
                    seqno_min: n[5],
                    seqno_max: n[6],
                    raw_bytes: n[7],
                    content_hash: n[8],
                    expiring,
                    expires_ms,
                    ingested: [0, 3].contains(&(n[0] % 4)).then_some(n[6] >> 8),
                    values: if n[0] % 2 == 1 { two_references(n) } else { Vec::new() },
                };
                AddedFile::New { number, info }
            }
        ),
    ];
    let bounds = (prop::option::of(bytes()), prop::option::of(bytes()));
    (0..9usize, any::<u64>(), file, bounds).prop_map(|(level, order, file, (lo, hi))| AddedSlice {
        level,
        order,
        file,
        lo,
        hi,
    })
}

fn edit() -> impl Strategy<Value = VersionEdit> {
    let removed = (0..9usize, any::<u64>(), prop::option::of(bytes()), prop::option::of(bytes()))
        .prop_map(|(level, file, lo, hi)| RemovedSlice { level, file, lo, hi });
    let number = prop::option::of(any::<u64>());
    let bounds = || prop::collection::vec((0..9usize, bytes()), 0..4);
    (
        prop::option::of(".{0,12}"),
        (number.clone(), number.clone(), number.clone(), number.clone(), number),
        prop::collection::vec(removed, 0..4),
        prop::collection::vec(slice(), 0..4),
        bounds(),
        bounds(),
    )
        .prop_map(|(comparator, n, removed, added, bounds_added, bounds_removed)| {
            VersionEdit {
                comparator,
                next_file: n.0,
                last_seqno: n.1,
                min_wal: n.2,
                min_wal_ordinal: n.3,
                newest_wal: n.3,
                ingested_seqno: n.2,
                closed_wal: n.0.zip(n.3),
                next_order: n.4,
                removed,
                added,
                bounds_added,
                bounds_removed,
                others: Vec::new(),
                catalog: Vec::new(),
                lineage: n.1.zip(n.2).map(|(id, seqno)| {
                    Lineage::default().of_fork(Some("name".into()), id, seqno, seqno / 2)
                }),
            }
        })
}

proptest! {
    #[test]
    fn edits_round_trip(edit in edit()) {
        let read = VersionEdit::decode(&edit.encode());
        prop_assert_eq!(read, Some(edit));
    }

    #[test]
    fn arbitrary_bytes_decode_or_fail(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        if let Some(edit) = VersionEdit::decode(&bytes) {
            // A version accepts or refuses any decoded edit.
            let _ = after(&empty(), &edit);
        }
    }

    #[test]
    fn corrupt_edit_never_panics_or_breaks_version(
        edits in prop::collection::vec(edit(), 1..4),
        at in any::<prop::sample::Index>(),
        with in any::<u8>(),
    ) {
        let mut version = empty();
        for edit in edits {
            let mut bytes = edit.encode();
            if !bytes.is_empty() {
                let at = at.index(bytes.len());
                let _ = VersionEdit::decode(&bytes[..at]);
                bytes[at] ^= with;
            }
            let Some(read) = VersionEdit::decode(&bytes) else { continue };
            if let Ok(next) = after(&version, &read) {
                let again = after(&empty(), &next.to_edit()).unwrap();
                prop_assert_eq!(picture(&again), picture(&next));
                version = next;
            }
        }
    }
}

#[test]
fn lengths_beyond_the_end_allocate_nothing() {
    // A tag, then a length of 2^62 for the name, a key or a bound.
    for prefix in [&[1u8][..], &[10, 1], &[7, 1, 1, 1]] {
        let mut bytes = prefix.to_vec();
        bytes.extend([0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x3F, b'x']);
        assert_eq!(VersionEdit::decode(&bytes), None);
    }
    let long = VersionEdit {
        bounds_added: vec![(1, vec![7; crate::base::key::STORED_KEY_BYTES_MAX + 1])],
        ..VersionEdit::default()
    };
    assert_eq!(VersionEdit::decode(&long.encode()), None, "a key longer than a key can be");
}

#[test]
fn fields_that_may_be_ignored_are_skipped_and_others_refused() {
    let tree = VersionEdit { bounds_added: vec![(1, b"g".to_vec())], ..VersionEdit::default() };
    let edit = VersionEdit { last_seqno: Some(7), ..VersionEdit::default() };
    for tag in 0x80..=0xff {
        for content in [&b""[..], b"later"] {
            let mut bytes = Vec::new();
            let put = |out: &mut Vec<u8>| {
                out.push(tag);
                out.push(content.len() as u8);
                out.extend_from_slice(content);
            };
            put(&mut bytes);
            bytes.extend_from_slice(&edit.encode());
            put(&mut bytes);
            assert_eq!(VersionEdit::decode(&bytes), Some(edit.clone()), "tag {tag}");
            // Among the slices of another tree.
            let mut inner = tree.encode();
            put(&mut inner);
            let outer = [&[14, 3, inner.len() as u8], &inner[..]].concat();
            let decoded = VersionEdit::decode(&outer).unwrap();
            assert_eq!(decoded.others, vec![(3, tree.clone())]);
            // A content that is cut is damage.
            bytes.truncate(bytes.len() - 1);
            assert!(VersionEdit::decode(&bytes).is_none(), "tag {tag}");
        }
    }
    let known = 1..=30;
    for tag in (0..0x80).filter(|tag| !known.contains(tag)) {
        assert!(VersionEdit::decode(&[tag, 0]).is_none(), "tag {tag}");
    }
}
