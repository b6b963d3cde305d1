//! The bound `space_amplification_max`: it holds while keys are overwritten and deleted, costs nothing
//! where they are not, and ends where nothing can be reclaimed.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::common::Turning;
use esker::fs::MemFs;
use esker::{Compression, Db, Options, Policy};
use esker_testkit::rng::SplitMix64;

const KEYS: u64 = 30_000;
const VALUE_BYTES: usize = 100;
/// Work of the bound begins before it, and a measurement errs by a few percent.
const TOLERANCE: f64 = 1.1;

fn options(policy: Policy, bound: Option<f64>) -> Options {
    Options {
        policy,
        space_amplification_max: bound,
        memtable_size_bytes: Some(256 << 10),
        file_size_max_bytes: 256 << 10,
        guard_size_max_bytes: 512 << 10,
        guard_piece_min_bytes: 64 << 10,
        compression: Compression::None,
        background_threads: Some(0),
        rest_compaction: false,
        log_file: false,
        status_file: false,
        // It measures tables, also where the tests run with all values in value files.
        value_separation_min_bytes: esker::ValueSeparation::Off,
        ..Options::default()
    }
}

fn key(n: u64) -> [u8; 8] {
    // Neighbours in time are not neighbours in the order of the keys.
    n.wrapping_mul(0x9E37_79B9_7F4A_7C15).to_be_bytes()
}

/// Does all compactions that are due.
fn settle(db: &Db) {
    while db.run_one_job().unwrap() {}
}

/// Loads all keys, then overwrites them at random. Returns the largest bytes of the tables over those
/// of the same pairs in one run, and the written bytes of tables.
fn overwrite(policy: Policy, bound: Option<f64>, times: u64) -> (f64, u64) {
    let db = Db::open_on(MemFs::new(), "/db", options(policy, bound)).unwrap();
    let (mut rng, mut value) = (SplitMix64::new(7), [0; VALUE_BYTES]);
    let mut most = 0;
    for step in 0..KEYS * (1 + times) {
        rng.fill(&mut value);
        db.put(key(if step < KEYS { step } else { rng.below(KEYS) }), value).unwrap();
        if step % 1_000 == 0 {
            settle(&db);
            if step >= KEYS {
                most = db.metrics().table_bytes.max(most);
            }
        }
    }
    let metrics = db.metrics();
    let written = metrics.flush_bytes + metrics.compaction_bytes;
    db.compact_all().unwrap();
    assert!(db.verify(&mut |_, _| {}).unwrap().is_whole());
    (most as f64 / db.metrics().table_bytes as f64, written)
}

#[test]
fn tables_stay_within_the_bound_while_keys_are_overwritten() {
    for (policy, bound) in [
        (Policy::Fluid, 1.6),
        (Policy::Fluid, 1.25),
        (Policy::Leveled, 1.6),
        (Policy::Lazy, 1.6),
        (Policy::Fragmented, 1.6),
    ] {
        let (ratio, written) = overwrite(policy, Some(bound), 6);
        assert!(ratio <= bound * TOLERANCE, "{policy:?}, {bound}: {ratio}");
        eprintln!("{policy:?} {bound}: ratio {ratio:.2}, written {written}");
        if policy == Policy::Fluid && bound == 1.6 {
            let (without, unbounded) = overwrite(policy, None, 6);
            eprintln!("{policy:?} off: ratio {without:.2}, written {unbounded}");
            assert!(without > bound * TOLERANCE, "the workload exceeds it otherwise: {without}");
            assert!(written < 2 * unbounded, "{written} and {unbounded}");
        }
    }
}

#[test]
fn bound_costs_nothing_where_no_key_is_overwritten() {
    let written = |bound| {
        let db = Db::open_on(MemFs::new(), "/db", options(Policy::Fluid, bound)).unwrap();
        let (mut rng, mut value) = (SplitMix64::new(9), [0; VALUE_BYTES]);
        for step in 0..3 * KEYS {
            rng.fill(&mut value);
            db.put(key(step), value).unwrap();
            if step % 1_000 == 0 {
                settle(&db);
            }
        }
        let metrics = db.metrics();
        metrics.flush_bytes + metrics.compaction_bytes
    };
    // The parts of tables that were pushed down take space, so a few merges come earlier.
    let (bounded, unbounded) = (written(Some(1.6)), written(None));
    assert!(bounded <= unbounded * 11 / 10, "{bounded} and {unbounded}");
}

/// Puts pairs that live an hour, at a constant rate for four hours. Returns the most bytes of tables
/// over those of the pairs that live, after the first hour.
fn expiring(key_of: impl Fn(u64) -> [u8; 8]) -> f64 {
    const HOUR: Duration = Duration::from_secs(3_600);
    let clock = Arc::new(Turning(AtomicU64::new(1_000)));
    let options = Options { clock: Some(clock.clone()), ..options(Policy::Fluid, Some(1.6)) };
    let db = Db::open_on(MemFs::new(), "/db", options).unwrap();
    let (mut rng, mut value, mut most) = (SplitMix64::new(3), [0; VALUE_BYTES], 0);
    for step in 0..4 * KEYS {
        rng.fill(&mut value);
        db.put_with_ttl(key_of(step), value, HOUR).unwrap();
        if step % 1_000 == 0 {
            clock.0.fetch_add(HOUR.as_millis() as u64 * 1_000 / KEYS, Ordering::Relaxed);
            settle(&db);
            if step >= KEYS {
                most = db.metrics().table_bytes.max(most);
            }
        }
    }
    // Eight bytes of each pair are its time.
    most as f64 / (KEYS * (VALUE_BYTES as u64 + 16)) as f64
}

#[test]
fn expired_pairs_take_no_more_space_than_the_bound() {
    let in_order = expiring(|n| n.to_be_bytes());
    let at_random = expiring(key);
    eprintln!("in order {in_order:.2}, at random {at_random:.2}");
    assert!(in_order <= 1.3, "{in_order}");
    assert!(at_random <= 1.6 * TOLERANCE, "{at_random}");
}

#[test]
fn space_of_a_deleted_range_comes_back_without_a_call() {
    let dir = tempfile::tempdir().unwrap();
    let options = Options {
        background_threads: None,
        rest_compaction: true,
        ..options(Policy::Fluid, Some(1.6))
    };
    let db = Db::open(dir.path(), options).unwrap();
    for n in 0..KEYS {
        db.put(n.to_be_bytes(), [n as u8; VALUE_BYTES]).unwrap();
    }
    db.compact_all().unwrap();
    let before = db.metrics().table_bytes;
    db.delete_range((KEYS / 10).to_be_bytes(), u64::MAX.to_be_bytes()).unwrap();
    // The memtable is flushed since the store rests, and the compactions are due then.
    let end = Instant::now() + Duration::from_secs(300);
    // The live tenth, and what a tree may hold beyond any bound.
    while db.metrics().table_bytes >= before / 3 {
        assert!(Instant::now() < end, "{} of {before}", db.metrics().table_bytes);
        std::thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(db.get((KEYS / 10 - 1).to_be_bytes()).unwrap().unwrap().len(), VALUE_BYTES);
    assert_eq!(db.get((KEYS / 10).to_be_bytes()).unwrap(), None);
}

#[test]
fn kept_versions_end_no_loop_and_stop_no_writer() {
    let db = Db::open_on(MemFs::new(), "/db", options(Policy::Fluid, Some(1.2))).unwrap();
    let mut kept = Vec::new();
    for round in 0..6_u8 {
        for n in 0..KEYS / 2 {
            db.put(key(n), [round; VALUE_BYTES]).unwrap();
        }
        db.flush().unwrap();
        kept.push(db.snapshot());
        settle(&db);
    }
    let all = db.metrics().table_bytes;
    // A writer is not slowed for versions that no merge can drop.
    assert!(db.stall().is_none(), "{:?}", db.stall());
    for (round, snapshot) in kept.iter().enumerate() {
        let options = esker::ReadOptions::default().snapshot(snapshot);
        let value = db.get_with(key(7), &options).unwrap().unwrap();
        assert_eq!(value[0], round as u8);
    }
    drop(kept);
    for n in 0..KEYS / 2 {
        db.put(key(n), [9; VALUE_BYTES]).unwrap();
    }
    db.flush().unwrap();
    settle(&db);
    assert!(db.metrics().table_bytes < all / 2, "{} of {all}", db.metrics().table_bytes);
}

#[test]
fn bound_holds_after_a_reopening_and_follows_its_option() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path(), options(Policy::Tiered, None)).unwrap();
    // Returns the most bytes of tables that there were.
    let overwrite = |db: &Db, times: u8| {
        let mut most = 0;
        for round in 0..times {
            for n in 0..KEYS / 2 {
                db.put(key(n), [round; VALUE_BYTES]).unwrap();
                if n % 1_000 == 0 {
                    settle(db);
                    most = db.metrics().table_bytes.max(most);
                }
            }
        }
        db.flush().unwrap();
        settle(db);
        most
    };
    let unbounded = overwrite(&db, 5);
    db.close().unwrap();
    let db = Db::open(dir.path(), options(Policy::Tiered, Some(1.3))).unwrap();
    overwrite(&db, 1);
    let bounded = db.metrics();
    let live = (KEYS / 2) * (VALUE_BYTES as u64 + 8);
    assert!(unbounded > live * 3 / 2, "{unbounded} of {live}");
    assert!(bounded.table_bytes < live * 3 / 2, "{} of {live}", bounded.table_bytes);
    assert!(bounded.live_bytes.abs_diff(live) < live / 5, "{} of {live}", bounded.live_bytes);
    db.set_options(&[("space_amplification_max", "off")]).unwrap();
    assert_eq!(db.option("space_amplification_max").unwrap(), "off");
    let unbounded = overwrite(&db, 3);
    assert!(unbounded > live * 3 / 2, "{unbounded} of {live}");
    for wrong in ["1", "0", "-1", "auto", "101", "nan", ""] {
        assert!(db.set_options(&[("space_amplification_max", wrong)]).is_err(), "{wrong}");
    }
}
