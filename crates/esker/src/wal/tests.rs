//! Tests of the log alone: round trips, every cut, every flip.

use std::path::Path;

use super::format::{
    BEGUN_LOG_BYTES, FileHeader, HEADER_BYTES, LogStart, PAYLOAD_BYTES_MAX, RECORD_HEADER_BYTES,
    RecordHeader, RecordKind, VERSION, padded,
};
use super::{LogEnd, LogReader, LogWriter};
use crate::base::checksum::checksum;
use crate::base::key::SEQNO_MAX;
use crate::error::{ErrorKind, Result};
use crate::fs::Fs;
use crate::fs::MemFs;

const PATH: &str = "/7.wal";

type Records = Vec<(u64, u64, Vec<u8>)>;

const HEADER: FileHeader = FileHeader { number: 7, generation: 99 };
const START: LogStart = LogStart { first_ordinal: 5, first_seqno: 1, durable_ordinal: 4 };
/// Offset of the first record.
const FIRST: usize = BEGUN_LOG_BYTES as usize;

fn bytes_of(write: impl FnOnce(&mut LogWriter), close: bool) -> Vec<u8> {
    let fs = MemFs::new();
    let mut log = LogWriter::create(&*fs, Path::new(PATH), HEADER, START, true).unwrap();
    write(&mut log);
    if close {
        log.close().unwrap();
    }
    fs.read(Path::new(PATH), u64::MAX).unwrap()
}

fn read(bytes: &[u8]) -> Result<(Records, LogEnd)> {
    let fs = MemFs::new();
    fs.create_new(Path::new(PATH)).unwrap().append(bytes).unwrap();
    let mut log = LogReader::open(&*fs, Path::new(PATH), 7)?;
    let mut records = Vec::new();
    while let Some(r) = log.next()? {
        records.push((r.ordinal, r.first_seqno, r.payload.to_vec()));
    }
    Ok((records, log.end().unwrap()))
}

fn five(log: &mut LogWriter) {
    log.append(1, b"one").unwrap();
    log.append_group(&[(2, b"two to four"), (5, b"")]).unwrap();
    log.append(6, &[9; 100]).unwrap();
    log.append(7, b"last").unwrap();
}

#[test]
fn records_round_trip_and_end_is_known() {
    let (records, end) = read(&bytes_of(five, true)).unwrap();
    assert_eq!(end, LogEnd::Closed);
    let ordinals: Vec<_> = records.iter().map(|r| r.0).collect();
    assert_eq!(ordinals, [5, 6, 7, 8, 9]);
    assert_eq!(records[1], (6, 2, b"two to four".to_vec()));
    let mut open = bytes_of(five, false);
    assert_eq!(read(&open).unwrap().1, LogEnd::Clean);
    open.extend_from_slice(&[0; 4096]);
    assert_eq!(read(&open).unwrap(), (records, LogEnd::Clean));
}

#[test]
fn truncation_anywhere_keeps_prefix_of_records() {
    let bytes = bytes_of(five, true);
    let (all, _) = read(&bytes).unwrap();
    let mut last = 0;
    for len in 0..bytes.len() {
        let (records, _) = read(&bytes[..len]).unwrap();
        assert_eq!(records, all[..records.len()], "cut at {len}");
        assert!(records.len() >= last);
        last = records.len();
    }
    assert_eq!(last, all.len());
}

#[test]
fn bit_flip_never_yields_wrong_record() {
    let bytes = bytes_of(five, true);
    let (all, _) = read(&bytes).unwrap();
    for at in 0..bytes.len() {
        for bit in 0..8 {
            let mut bad = bytes.clone();
            bad[at] ^= 1 << bit;
            if let Ok((records, end)) = read(&bad) {
                assert_eq!(records, all[..records.len()], "byte {at} bit {bit}");
                // Padding between records has no content.
                assert!(
                    records.len() < all.len()
                        || end == LogEnd::Closed
                        || at >= bytes.len() - RECORD_HEADER_BYTES
                );
            }
        }
    }
}

#[test]
fn damage_below_sync_marker_is_corruption_and_above_it_torn_tail() {
    let bytes = bytes_of(
        |log| {
            log.append(1, b"durable").unwrap();
            log.append(2, b"durable too").unwrap();
            log.sync().unwrap();
            log.append(3, b"says so").unwrap();
            log.append(4, b"tail").unwrap();
        },
        false,
    );
    let position = |text: &[u8]| bytes.windows(text.len()).position(|w| w == text).unwrap();
    for text in [b"durable".as_slice(), b"durable too"] {
        let mut bad = bytes.clone();
        bad[position(text)] ^= 1;
        assert_eq!(read(&bad).unwrap_err().kind(), ErrorKind::Corruption);
    }
    for (text, left) in [(b"says so".as_slice(), 2), (b"tail", 3)] {
        let mut bad = bytes.clone();
        bad[position(text)] ^= 1;
        let (records, end) = read(&bad).unwrap();
        assert_eq!(records.len(), left);
        assert!(matches!(end, LogEnd::Torn { .. }));
    }
}

#[test]
fn newer_version_and_other_log_are_refused() {
    let bytes = bytes_of(five, true);
    let mut newer = bytes.clone();
    newer[8] = 2;
    assert_eq!(
        read(&newer).unwrap_err().kind(),
        ErrorKind::Corruption,
        "a flipped bit, no version"
    );
    let sum = checksum(&newer[..32], 0);
    newer[32..40].copy_from_slice(&sum.to_le_bytes());
    assert_eq!(read(&newer).unwrap_err().kind(), ErrorKind::Incompatible);
    let fs = MemFs::new();
    fs.create_new(Path::new(PATH)).unwrap().append(&bytes).unwrap();
    let error = LogReader::open(&*fs, Path::new(PATH), 8).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Corruption);
    assert!(error.to_string().contains("log 7"), "{error}");
}

/// Writes a log that was synced twice. Its last record states the synced length.
fn synced(log: &mut LogWriter) {
    log.append(1, b"durable").unwrap();
    log.append_group(&[(3, &[8; 70]), (4, b"")]).unwrap();
    log.sync().unwrap();
    log.append(5, b"durable in the end").unwrap();
    log.sync().unwrap();
    log.append(6, b"says so").unwrap();
}

#[test]
fn every_flip_below_later_sync_marker_is_corruption() {
    let bytes = bytes_of(synced, false);
    let (all, _) = read(&bytes).unwrap();
    // Marks the padding of each record, and finds the start of the last record.
    let (mut padding, mut at) = (vec![false; bytes.len()], FIRST);
    let mut last_start = at;
    for record in &all {
        last_start = at;
        let end = at + RECORD_HEADER_BYTES + record.2.len();
        at = padded(end);
        padding[end..at].fill(true);
    }
    for at in 0..bytes.len() {
        for bit in 0..8 {
            let mut bad = bytes.clone();
            bad[at] ^= 1 << bit;
            match read(&bad) {
                Ok((records, _)) if padding[at] => assert_eq!(records, all),
                Ok((records, _)) => {
                    assert!(
                        at >= last_start,
                        "a flip of bit {bit} in the durable byte {at} was not detected"
                    );
                    assert_eq!(records, all[..all.len() - 1]);
                }
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::Corruption, "byte {at} bit {bit}");
                    assert!(error.offset_bytes().is_some_and(|o| o <= at as u64));
                }
            }
        }
    }
}

#[test]
fn zeroed_records_are_corruption_only_if_synced() {
    for (write, durable) in [(five as fn(&mut LogWriter), false), (synced, true)] {
        let bytes = bytes_of(write, false);
        // The header is always durable before the first record.
        for (from, to, durable) in [
            (0, HEADER_BYTES, true),
            (0, 150, true),
            (HEADER_BYTES, 150, durable),
            (FIRST, 150, durable),
        ] {
            let mut bad = bytes.clone();
            bad[from..to].fill(0);
            match read(&bad) {
                Ok((records, _)) => assert!(!durable && records.is_empty(), "{from}..{to}"),
                Err(error) => assert!(durable && error.is_corruption(), "{from}..{to}: {error}"),
            }
        }
        let mut nothing = bytes.clone();
        nothing.fill(0);
        let (records, end) = read(&nothing).unwrap();
        assert!(records.is_empty());
        assert!(matches!(end, LogEnd::Torn { offset_bytes: 0, .. }));
    }
}

#[test]
fn later_record_is_found_across_scan_windows() {
    for filler in 65_300..65_560 {
        let mut bytes = bytes_of(
            |log| {
                log.append(1, b"first").unwrap();
                log.append(2, &vec![7; filler]).unwrap();
                log.sync().unwrap();
                log.append(3, b"witness").unwrap();
            },
            false,
        );
        bytes[FIRST + RECORD_HEADER_BYTES] ^= 1;
        assert!(read(&bytes).unwrap_err().is_corruption(), "{filler} bytes between");
    }
}

#[test]
fn overlapping_fake_records_are_bounded_work() {
    let mut bytes = bytes_of(|log| log.append(1, b"first").unwrap(), false);
    bytes[FIRST + RECORD_HEADER_BYTES] ^= 1;
    let total = 4 << 20;
    while bytes.len() < total {
        let header = RecordHeader {
            checksum: 1,
            payload_bytes: (total - bytes.len()) as u32,
            kind: RecordKind::Operations,
            durable_bytes: FIRST as u64 + 16,
            ordinal: 1 << 30,
            seqno: 1,
        };
        header.append_to(&mut bytes, b"", 1, 0);
    }
    bytes.resize(total + 4096, 0);
    assert!(read(&bytes).unwrap_err().is_corruption());
}

#[test]
fn arbitrary_bytes_never_panic() {
    let good = bytes_of(synced, true);
    let mut state = 0x2545_F491_4F6C_DD1Du64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    for _ in 0..3_000 {
        let mut bad = good.clone();
        for _ in 0..1 + next() % 6 {
            let at = next() as usize % bad.len();
            let len = (next() as usize % 24).min(bad.len() - at);
            bad[at..at + len].iter_mut().for_each(|b| *b = next() as u8);
        }
        bad.truncate(bad.len() - next() as usize % 40);
        if let Ok((records, _)) = read(&bad) {
            let (all, _) = read(&good).unwrap();
            assert_eq!(records, all[..records.len()]);
        }
    }
}

#[test]
fn continued_log_names_its_successor() {
    let bytes = bytes_of(
        |log| {
            five(log);
            log.mark_continued(31).unwrap();
        },
        false,
    );
    let (all, end) = read(&bytes).unwrap();
    assert_eq!((all.len(), end), (5, LogEnd::Continued { number: 31 }));
    let marker_at = bytes.len() - RECORD_HEADER_BYTES - 8;
    for at in marker_at..bytes.len() {
        let mut bad = bytes.clone();
        bad[at] ^= 1;
        let (records, end) = read(&bad).unwrap();
        assert_eq!(records.len(), 5);
        assert!(matches!(end, LogEnd::Torn { .. }), "byte {at}: {end:?}");
    }
}

#[test]
fn preallocated_log_is_empty() {
    let fs = MemFs::new();
    let mut log = LogWriter::prepare(&*fs, Path::new(PATH), HEADER, true).unwrap();
    let prepared = fs.read(Path::new(PATH), u64::MAX).unwrap();
    let reader = LogReader::open(&*fs, Path::new(PATH), 7).unwrap();
    assert!(reader.has_header() && reader.start().is_none());
    assert_eq!(reader.end(), Some(LogEnd::Clean));
    log.begin(START).unwrap();
    assert!(!log.has_records());
    let reader = LogReader::open(&*fs, Path::new(PATH), 7).unwrap();
    assert_eq!(reader.start(), Some(START));
    log.append(1, b"one").unwrap();
    assert!(log.has_records());
    // A crash that lost the page with the beginning, but not the next page. Nothing proves that the
    // beginning was durable, so the log is like one that never began.
    let mut whole = fs.read(Path::new(PATH), u64::MAX).unwrap();
    whole[..prepared.len()].copy_from_slice(&prepared);
    whole[prepared.len()..FIRST].fill(0);
    let (records, end) = read(&whole).unwrap();
    assert_eq!((records.len(), end), (0, LogEnd::Clean));
    // After the log was synced and states so, it is corruption.
    log.sync().unwrap();
    log.append(2, b"two").unwrap();
    let mut whole = fs.read(Path::new(PATH), u64::MAX).unwrap();
    whole[prepared.len()..FIRST].fill(0);
    assert!(read(&whole).unwrap_err().is_corruption());
}

/// While a log is written, a reader can see a later record, which says that an earlier one is
/// synced, before it sees the earlier one.
#[test]
fn reader_stops_at_its_limit() {
    let mut seen = 0;
    let mut bytes = bytes_of(
        |log| {
            log.append(1, b"one").unwrap();
            seen = log.len_bytes();
            log.append(2, b"two").unwrap();
            log.sync().unwrap();
            log.append(3, b"three").unwrap();
        },
        false,
    );
    bytes[seen as usize..seen as usize + RECORD_HEADER_BYTES].fill(0);
    assert_eq!(read(&bytes).unwrap_err().kind(), ErrorKind::Corruption);
    let fs = MemFs::new();
    fs.create_new(Path::new(PATH)).unwrap().append(&bytes).unwrap();
    let mut log = LogReader::open(&*fs, Path::new(PATH), 7).unwrap().until(seen);
    assert_eq!(log.next().unwrap().unwrap().payload, b"one");
    assert!(log.next().unwrap().is_none());
    assert_eq!((log.end(), log.at_bytes()), (Some(LogEnd::Clean), seen));
}

#[test]
fn log_start_bounds() {
    let header = FileHeader { number: u64::MAX, generation: u64::MAX };
    assert_eq!(FileHeader::decode(&header.encode()), Some((VERSION, Some(header))));
    let most = LogStart {
        first_ordinal: (1 << 62) - 1,
        first_seqno: SEQNO_MAX - (1 << 34) - 1,
        durable_ordinal: u64::MAX,
    };
    assert_eq!(LogStart::decode(&most.encode()), Some(most));
    for beyond in [
        LogStart { first_ordinal: most.first_ordinal + 1, ..most },
        LogStart { first_seqno: most.first_seqno + 1, ..most },
    ] {
        assert_eq!(LogStart::decode(&beyond.encode()), None, "{beyond:?}");
    }
}

#[test]
fn seqno_delta_over_u32_is_refused() {
    let fs = MemFs::new();
    let mut log = LogWriter::create(&*fs, Path::new(PATH), HEADER, START, true).unwrap();
    let last = START.first_seqno + u64::from(u32::MAX);
    let error = log.append(last + 1, b"too far").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    log.append(last, b"the last").unwrap();
    log.close().unwrap();
    let (records, end) = read(&fs.read(Path::new(PATH), u64::MAX).unwrap()).unwrap();
    assert_eq!((records, end), (vec![(5, last, b"the last".to_vec())], LogEnd::Closed));
}

#[test]
fn lengths_above_max_are_markers() {
    let header = |payload_bytes: u32| {
        let mut bytes = [0; RECORD_HEADER_BYTES];
        bytes[8..12].copy_from_slice(&payload_bytes.to_le_bytes());
        RecordHeader::decode(&bytes).unwrap().kind
    };
    assert_eq!(header(PAYLOAD_BYTES_MAX), RecordKind::Operations);
    for length in PAYLOAD_BYTES_MAX + 1..=u32::MAX {
        assert_ne!(header(length), RecordKind::Operations);
    }
}

#[test]
fn log_is_full_at_seqno_limit() {
    let fs = MemFs::new();
    let mut log = LogWriter::create(&*fs, Path::new(PATH), HEADER, START, true).unwrap();
    assert!(!log.is_full());
    log.append(START.first_seqno + (1 << 31), b"the last but one").unwrap();
    assert!(!log.is_full());
    log.append(START.first_seqno + (1 << 31) + 1, b"the last").unwrap();
    assert!(log.is_full());
}

#[test]
fn synced_records_are_known_durable() {
    let fs = MemFs::new();
    let mut log = LogWriter::create(&*fs, Path::new(PATH), HEADER, START, true).unwrap();
    assert_eq!((log.next_ordinal(), log.durable_ordinal()), (5, 4));
    log.append_group(&[(1, b"one"), (2, b"two")]).unwrap();
    assert_eq!((log.next_ordinal(), log.durable_ordinal()), (7, 4));
    log.sync().unwrap();
    assert_eq!((log.synced_bytes(), log.durable_ordinal()), (log.len_bytes(), 7));
}

#[test]
fn second_begin_record_ends_the_log() {
    let bytes = bytes_of(|log| log.begin(START).unwrap(), false);
    assert_eq!(read(&bytes).unwrap(), (Vec::new(), LogEnd::Closed));
}

/// Returns a log whose last record was synced, and the offset of the sync marker.
fn synced_to_the_end() -> (Vec<u8>, usize) {
    let mut end = 0;
    let bytes = bytes_of(
        |log| {
            log.append(1, b"durable").unwrap();
            log.append_group(&[(3, &[8; 70]), (4, b"")]).unwrap();
            log.append(5, b"the last one").unwrap();
            log.sync().unwrap();
            end = log.len_bytes() as usize;
        },
        false,
    );
    assert_eq!(bytes.len(), end + RECORD_HEADER_BYTES);
    (bytes, end)
}

#[test]
fn bit_flip_never_loses_synced_record() {
    let (bytes, end) = synced_to_the_end();
    let (all, at_end) = read(&bytes).unwrap();
    assert_eq!((all.len(), at_end), (4, LogEnd::Clean));
    // Like a log without the marker, which older code wrote.
    assert_eq!(read(&bytes[..end]).unwrap(), (all.clone(), LogEnd::Clean));
    for zeros_behind in [0, 4096] {
        let mut bytes = bytes.clone();
        bytes.resize(bytes.len() + zeros_behind, 0);
        for bit in 0..8 * (end + RECORD_HEADER_BYTES) {
            let mut bad = bytes.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            match read(&bad) {
                Ok((records, _)) => assert_eq!(records, all, "bit {bit} was durable"),
                Err(error) => assert_eq!(error.kind(), ErrorKind::Corruption, "bit {bit}"),
            }
        }
        for len in [8, 24, 64, end - FIRST] {
            let mut bad = bytes.clone();
            bad[end - len..end].fill(0);
            assert!(read(&bad).unwrap_err().is_corruption(), "{len} bytes of zeros at the end");
        }
    }
}

/// Markers are not synced. A power failure may keep either a marker or the data that overwrote it.
#[test]
fn sync_marker_does_not_cover_later_records() {
    let (marked, end) = synced_to_the_end();
    let later = bytes_of(
        |log| {
            log.append(1, b"durable").unwrap();
            log.append_group(&[(3, &[8; 70]), (4, b"")]).unwrap();
            log.append(5, b"the last one").unwrap();
            log.sync().unwrap();
            log.append(6, &[6; 1000]).unwrap();
            log.append(7, b"behind it").unwrap();
        },
        false,
    );
    let (all, _) = read(&later).unwrap();
    assert_eq!(all.len(), 6);
    // One of the two survives on each side of a split at any 4-byte offset.
    for cut in (end..end + 1100).step_by(4) {
        for (first, second) in [(&marked, &later), (&later, &marked)] {
            let mut bytes = later.clone();
            bytes.fill(0);
            bytes[..first.len().min(cut)].copy_from_slice(&first[..first.len().min(cut)]);
            if cut < second.len() {
                bytes[cut..second.len()].copy_from_slice(&second[cut..]);
            }
            let (records, _) = read(&bytes).unwrap();
            assert!(records.len() >= 4 && records == all[..records.len()], "cut at {cut}");
        }
    }
    // After the overwriting data was synced too, the marker in its place is corruption.
    let synced = bytes_of(
        |log| {
            log.append(1, b"durable").unwrap();
            log.append_group(&[(3, &[8; 70]), (4, b"")]).unwrap();
            log.append(5, b"the last one").unwrap();
            log.append(6, &[6; 1000]).unwrap();
            log.sync().unwrap();
        },
        false,
    );
    let mut bytes = synced.clone();
    bytes[..marked.len()].copy_from_slice(&marked);
    assert!(read(&bytes).unwrap_err().is_corruption());
}

#[test]
fn sync_marker_records_that_older_logs_were_synced() {
    let proves = |sync: bool| {
        let fs = MemFs::new();
        let mut log = LogWriter::create(&*fs, Path::new(PATH), HEADER, START, true).unwrap();
        log.append(1, b"one").unwrap();
        if sync {
            log.sync().unwrap();
        }
        LogReader::open(&*fs, Path::new(PATH), 7).unwrap().proves_durable(4).unwrap()
    };
    assert!(proves(true) && !proves(false));
}

#[test]
fn close_and_continuation_overwrite_the_sync_marker() {
    let marked = |end: fn(LogWriter)| {
        let fs = MemFs::new();
        let mut log = LogWriter::create(&*fs, Path::new(PATH), HEADER, START, true).unwrap();
        log.append(1, b"one").unwrap();
        log.sync().unwrap();
        end(log);
        let bytes = fs.read(Path::new(PATH), u64::MAX).unwrap();
        (bytes.len(), read(&bytes).unwrap().1)
    };
    let record = padded(RECORD_HEADER_BYTES + 3);
    let closed = marked(|log| log.close().unwrap());
    assert_eq!(closed, (FIRST + record + RECORD_HEADER_BYTES, LogEnd::Closed));
    let continued = marked(|mut log| {
        log.mark_continued(8).unwrap();
        log.sync().unwrap();
    });
    let whole = FIRST + record + RECORD_HEADER_BYTES + 8;
    assert_eq!(continued, (whole, LogEnd::Continued { number: 8 }));
}
