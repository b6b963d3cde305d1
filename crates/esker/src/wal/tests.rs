//! The log alone: round trips, every cut, every flip.

use std::path::Path;

use super::{LogEnd, LogReader, LogWriter};
use crate::error::{ErrorKind, Result};
use crate::fs::Fs;
use crate::fs::mem::MemFs;

const PATH: &str = "/7.wal";

type Records = Vec<(u64, u64, u32, Vec<u8>)>;

fn bytes_of(write: impl FnOnce(&mut LogWriter), close: bool) -> Vec<u8> {
    let fs = MemFs::new();
    let mut log = LogWriter::create(&*fs, Path::new(PATH), 7, 99, 5).unwrap();
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
        records.push((r.ordinal, r.first_seqno, r.count, r.payload.to_vec()));
    }
    Ok((records, log.end().unwrap()))
}

fn five(log: &mut LogWriter) {
    log.append(1, 1, b"one").unwrap();
    log.append_group(&[(2, 3, b"two to four"), (5, 1, b"")]).unwrap();
    log.append(6, 1, &[9; 100]).unwrap();
    log.append(7, 1, b"last").unwrap();
}

#[test]
fn records_come_back_and_the_end_is_known() {
    let (records, end) = read(&bytes_of(five, true)).unwrap();
    assert_eq!(end, LogEnd::Closed);
    let ordinals: Vec<_> = records.iter().map(|r| r.0).collect();
    assert_eq!(ordinals, [5, 6, 7, 8, 9]);
    assert_eq!(records[1], (6, 2, 3, b"two to four".to_vec()));
    let mut open = bytes_of(five, false);
    assert_eq!(read(&open).unwrap().1, LogEnd::Clean);
    open.extend_from_slice(&[0; 4096]);
    assert_eq!(read(&open).unwrap(), (records, LogEnd::Clean));
}

#[test]
fn every_cut_leaves_whole_records_from_the_start() {
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
fn every_flip_is_noticed() {
    let bytes = bytes_of(five, true);
    let (all, _) = read(&bytes).unwrap();
    for at in 0..bytes.len() {
        for bit in 0..8 {
            let mut bad = bytes.clone();
            bad[at] ^= 1 << bit;
            if let Ok((records, end)) = read(&bad) {
                assert_eq!(records, all[..records.len()], "byte {at} bit {bit}");
                // Padding between records holds nothing.
                assert!(
                    records.len() < all.len() || end == LogEnd::Closed || at >= bytes.len() - 48
                );
            }
        }
    }
}

#[test]
fn rot_below_a_durable_mark_is_corruption_and_above_it_a_torn_tail() {
    let bytes = bytes_of(
        |log| {
            log.append(1, 1, b"durable").unwrap();
            log.append(2, 1, b"durable too").unwrap();
            log.sync().unwrap();
            log.append(3, 1, b"says so").unwrap();
            log.append(4, 1, b"tail").unwrap();
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
fn a_newer_version_and_another_log_are_refused() {
    let bytes = bytes_of(five, true);
    let mut newer = bytes.clone();
    newer[8] = 2;
    assert_eq!(read(&newer).unwrap_err().kind(), ErrorKind::Incompatible);
    let fs = MemFs::new();
    fs.create_new(Path::new(PATH)).unwrap().append(&bytes).unwrap();
    let error = LogReader::open(&*fs, Path::new(PATH), 8).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Corruption);
    assert!(error.to_string().contains("log 7"), "{error}");
}
