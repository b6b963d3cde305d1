//! Each policy at 1,000,000 keys and small sizes: the shape of the tree, and the write
//! amplification compared with the model's prediction.

use esker::fs::MemFs;
use esker::internals::TreeLimits;
use esker::internals::model;
use esker::{Compression, Db, Durability, Options, Policy};

const KEYS: u64 = 1_000_000;
const KEY_BYTES: u64 = 8;
const VALUE_BYTES: u64 = 24;
const MEMTABLE_BYTES: u64 = 512 << 10;

fn options(policy: Policy) -> Options {
    Options {
        policy,
        rest_compaction: false,
        memory_budget_bytes: Some(256 << 20),
        memtable_size_bytes: Some(MEMTABLE_BYTES),
        file_size_max_bytes: 256 << 10,
        guard_size_max_bytes: 512 << 10,
        guard_piece_min_bytes: 32 << 10,
        fan_out: 4,
        l0_runs_max: 4,
        runs_max: 4,
        last_runs_max: 4,
        compression: Compression::None,
        durability: Durability::None,
        // The model has no write throttle. The debt is paid at the end.
        debt_limit_bytes: Some(1 << 40),
        background_threads: Some(1),
        ..Options::default()
    }
}

fn key(i: u64) -> [u8; 8] {
    // A bijection on 64 bits: keys are distinct and unordered.
    i.wrapping_mul(0x9E37_79B9_7F4A_7C15)
        .rotate_left(31)
        .wrapping_mul(0xBF58_476D_1CE4_E5B9)
        .to_be_bytes()
}

fn load(policy: Policy) -> Db {
    let db = Db::open_on(MemFs::new(), "/db", options(policy)).unwrap();
    let mut value = [0u8; VALUE_BYTES as usize];
    for i in 0..KEYS {
        value[..8].copy_from_slice(&i.to_le_bytes());
        db.put(key(i), value).unwrap();
        // One flush at a time, as in the model.
        if i % 20_000 == 0 {
            db.wait_idle().unwrap();
        }
    }
    db.flush().unwrap();
    db.wait_idle().unwrap();
    db
}

fn check(policy: Policy) {
    let db = load(policy);
    let metrics = db.metrics();
    let options = options(policy);
    for level in &metrics.levels {
        println!(
            "{policy} level {}: {} guards, {} runs at most, {} fragments, {} files, {} bytes",
            level.level, level.guards, level.runs_max, level.fragments, level.files, level.bytes
        );
    }
    assert!(metrics.levels[0].runs_max <= options.l0_runs_max);
    let deepest = metrics.levels.len() - 1;
    assert!(deepest >= 1, "{policy} stayed in level 0");
    for level in &metrics.levels[1..] {
        let last = level.level == deepest;
        let most = match policy {
            Policy::Leveled => 1,
            Policy::Tiered => options.fan_out,
            Policy::Fragmented => options.runs_max,
            Policy::Lazy if last => 1,
            Policy::Lazy => options.fan_out,
            Policy::Fluid if last => options.last_runs_max + 1,
            Policy::Fluid => options.runs_max,
            other => panic!("no bound for {other}"),
        };
        assert!(level.runs_max <= most, "{policy} level {}: {} runs", level.level, level.runs_max);
        if policy == Policy::Tiered {
            assert_eq!(level.guards, 1, "tiered does not cut levels");
        }
    }
    let written = metrics.flush_bytes + metrics.compaction_bytes;
    let table_bytes_per_key = metrics.flush_bytes as f64 / KEYS as f64;
    let amplification = written as f64 / metrics.flush_bytes as f64;
    let limits = TreeLimits::new(&options, MEMTABLE_BYTES, Default::default());
    let flush_bytes = metrics.flush_bytes / metrics.flushes;
    let predicted = model::write_amplification(policy, &limits, metrics.flush_bytes, flush_bytes);
    println!(
        "{policy}: write amplification {amplification:.2}, model {predicted:.2}, \
         {table_bytes_per_key:.1} bytes a key of {}",
        KEY_BYTES + VALUE_BYTES
    );
    let ratio = amplification / predicted;
    assert!((0.75..=1.25).contains(&ratio), "{policy}: {amplification:.2} against {predicted:.2}");
    for i in (0..KEYS).step_by(997) {
        assert_eq!(&db.get(key(i)).unwrap().unwrap()[..8], i.to_le_bytes(), "key {i}");
    }
    assert_eq!(db.iter().unwrap().count() as u64, KEYS);
}

#[test]
fn leveled_has_one_run_per_guard() {
    check(Policy::Leveled);
}

#[test]
fn tiered_has_few_runs_per_level() {
    check(Policy::Tiered);
}

#[test]
fn fragmented_has_few_runs_per_guard_and_never_merges_with_base() {
    check(Policy::Fragmented);
}

#[test]
fn lazy_has_one_run_in_last_level() {
    check(Policy::Lazy);
}

#[test]
fn fluid_merges_base_only_at_base_rewrite_ratio() {
    check(Policy::Fluid);
}

#[test]
fn sequential_load_is_never_rewritten() {
    for &policy in Policy::ALL {
        let db = Db::open_on(MemFs::new(), "/db", options(policy)).unwrap();
        for i in 0..500_000u64 {
            db.put(i.to_be_bytes(), [3; 24]).unwrap();
        }
        db.flush().unwrap();
        db.wait_idle().unwrap();
        let metrics = db.metrics();
        assert_eq!(metrics.compaction_bytes, 0, "{policy} rewrote a sequential load");
        assert_eq!(db.iter().unwrap().count(), 500_000);
    }
}
