//! A store's space on the device. It never exceeds the bound of `docs/durability.md` while the
//! store is overwritten repeatedly, and it is lower once no work is pending. The store has no
//! threads, so that compaction keeps up however busy the machine is.

use std::path::Path;
use std::sync::Arc;

use esker::fs::Fs;
use esker::fs::MemFs;
use esker::fs::OsFs;
use esker::{Compression, Db, Options, Policy, WalIo};
use esker_testkit::rng::SplitMix64;

const KEYS: u64 = 3_000;
const VALUE_BYTES: usize = 1_000;
const LIVE_BYTES: u64 = KEYS * (VALUE_BYTES as u64 + 8);
const MEMTABLE_BYTES: u64 = 64 << 10;
const GUARD_BYTES: u64 = 256 << 10;
const DEBT_BYTES: u64 = 512 << 10;
const FAN_OUT: u64 = 4;
const RUNS: u64 = 8;
/// Maximum preallocation of a memory-mapped log beyond its records, in bytes.
const AHEAD_BYTES: u64 = 1 << 20;
const FROZEN: u64 = 2;
const MANIFEST_BYTES: u64 = 16 << 10;

fn options(policy: Policy, wal_io: WalIo) -> Options {
    Options {
        policy,
        rest_compaction: false,
        wal_io,
        memtable_size_bytes: Some(MEMTABLE_BYTES),
        file_size_max_bytes: 64 << 10,
        guard_size_max_bytes: GUARD_BYTES,
        guard_piece_min_bytes: 16 << 10,
        debt_limit_bytes: Some(DEBT_BYTES),
        fan_out: FAN_OUT,
        runs_max: RUNS,
        last_runs_max: RUNS,
        frozen_memtables_max: FROZEN,
        manifest_size_min_bytes: MANIFEST_BYTES,
        compression: Compression::None,
        background_threads: Some(0),
        log_file: false,
        status_file: false,
        ..Options::default()
    }
}

/// Returns the bytes of the tables in `dir`, or of all other files.
fn bytes_in(fs: &dyn Fs, dir: &Path, tables: bool) -> u64 {
    let entries = fs.list(dir).unwrap().into_iter();
    entries.filter(|e| e.name.ends_with(".sst") == tables).map(|e| e.len_bytes).sum()
}

/// Returns the maximum number of copies of the live data in the tables, during overwriting and once
/// no work is pending, as documented. `base_rewrite_ratio` is 1 here.
fn copies_max(policy: Policy) -> (u64, u64) {
    match policy {
        Policy::Leveled => (3, 2),
        Policy::Lazy => (4, 2),
        Policy::Fluid => (5, 3),
        Policy::Tiered => (2 * FAN_OUT, 2 * FAN_OUT - 1),
        Policy::Fragmented => (RUNS, RUNS - 1),
        other => panic!("no bound for {other}"),
    }
}

fn overwrite(fs: Arc<dyn Fs>, path: &Path, policy: Policy, wal_io: WalIo, times: u64) {
    let db = Db::open_on(fs.clone(), path, options(policy, wal_io)).unwrap();
    let mut rng = SplitMix64::new(5);
    let mut value = vec![0; VALUE_BYTES];
    let (mut tables_most, mut others_most) = (0, 0);
    for step in 0..times * KEYS {
        rng.fill(&mut value);
        let key = if step < KEYS { step } else { rng.below(KEYS) };
        db.put(key.to_be_bytes(), &value).unwrap();
        let mut due = step % 50 == 0;
        while due {
            tables_most = tables_most.max(bytes_in(&*fs, path, true));
            others_most = others_most.max(bytes_in(&*fs, path, false));
            due = db.run_one_job().unwrap();
        }
    }
    db.flush().unwrap();
    db.wait_idle().unwrap();
    let (reported, tables_idle) = (db.metrics().table_bytes, bytes_in(&*fs, path, true));
    let (busy, idle) = copies_max(policy);
    // One compaction's output beside its input, and the data waiting to be pushed.
    let on_its_way = DEBT_BYTES + 2 * GUARD_BYTES;
    assert!(
        tables_most <= busy * LIVE_BYTES + on_its_way,
        "{policy}: {tables_most} bytes of tables"
    );
    assert!(tables_idle <= idle * LIVE_BYTES, "{policy}: {tables_idle} bytes of tables when idle");
    assert!(reported > LIVE_BYTES / 2 && reported <= tables_idle, "{policy}: {reported} reported");
    // The active log, the logs of frozen memtables, the preallocated log, the manifest and its
    // successor.
    let ahead = if wal_io == WalIo::Mmap { AHEAD_BYTES } else { 0 };
    let others = (FROZEN + 2) * (2 * MEMTABLE_BYTES + ahead) + 4 * MANIFEST_BYTES;
    assert!(others_most <= others, "{policy} {wal_io}: {others_most} bytes of logs and manifests");
    db.close().unwrap();
}

#[test]
fn overwritten_store_stays_within_space_bound() {
    for &policy in Policy::ALL {
        overwrite(MemFs::new(), Path::new("/db"), policy, WalIo::Write, 12);
    }
}

#[test]
fn store_with_mapped_log_stays_within_space_bound() {
    // A real file system, whose syncs take time.
    let dir = tempfile::tempdir().unwrap();
    overwrite(OsFs::shared(), &dir.path().join("db"), Policy::Fluid, WalIo::Mmap, 1);
}
