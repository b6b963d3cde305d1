//! Scans over pairs that have expired: readers skip them with hints, and every reader sees what it must.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use crate::common::{Turning, tiny_options};
use esker::fs::MemFs;
use esker::{Db, Options};
use esker_testkit::rng::SplitMix64;

fn key(n: u64) -> Vec<u8> {
    (n as u32).to_be_bytes().to_vec()
}

fn keys_of(iter: impl Iterator<Item = esker::Result<(Vec<u8>, Vec<u8>)>>) -> Vec<Vec<u8>> {
    iter.map(|pair| pair.unwrap().0).collect()
}

/// Puts that expire, deletes, and a clock that turns, beside a map. Snapshots keep their time.
#[test]
fn hints_over_expired_pairs_hide_nothing_from_any_reader() {
    for seed in 0..5 {
        let mut rng = SplitMix64::new(seed);
        let clock = Arc::new(Turning(AtomicU64::new(1_000)));
        let options = Options { clock: Some(clock.clone()), ..tiny_options() };
        let options = Options { background_threads: Some(0), ..options };
        let db = Db::open_on(MemFs::new(), "/db", options).unwrap();
        let mut oracle: BTreeMap<u64, u64> = BTreeMap::new();
        let mut snapshots = Vec::new();
        for _ in 0..60 {
            let now_ms = clock.0.load(Relaxed);
            let (from, count) = (rng.below(300), rng.below(60));
            for n in from..from + count {
                match rng.below(8) {
                    0 => {
                        db.delete(key(n)).unwrap();
                        oracle.remove(&n);
                    }
                    _ => {
                        let ttl_ms = 1 + rng.below(400);
                        db.put_with_ttl(key(n), b"v", Duration::from_millis(ttl_ms)).unwrap();
                        oracle.insert(n, now_ms + ttl_ms);
                    }
                }
            }
            if rng.chance(3) {
                let seen: Vec<u64> = live(&oracle, now_ms);
                snapshots.push((db.snapshot(), seen));
            }
            if rng.chance(5) {
                db.flush().unwrap();
            }
            clock.0.fetch_add(rng.below(300), Relaxed);
            let now = live(&oracle, clock.0.load(Relaxed));
            let wanted = |seen: &[u64]| -> Vec<Vec<u8>> { seen.iter().map(|n| key(*n)).collect() };
            assert_eq!(keys_of(db.iter().unwrap()), wanted(&now), "seed {seed}");
            let middle = rng.below(300);
            let mut iter = db.iter().unwrap();
            iter.seek(key(middle)).unwrap();
            let next = now.iter().find(|n| **n >= middle).map(|n| key(*n));
            assert_eq!(iter.valid().then(|| iter.key().to_vec()), next, "seed {seed}");
            for (snapshot, seen) in &snapshots {
                assert_eq!(keys_of(snapshot.iter().unwrap()), wanted(seen), "seed {seed}");
                let mut back = keys_of(snapshot.iter().unwrap().rev());
                back.reverse();
                assert_eq!(back, wanted(seen), "seed {seed}");
            }
            if snapshots.len() > 4 {
                snapshots.remove(0);
            }
        }
        assert!(db.metrics().hint_jumps > 0, "seed {seed}: no hint was used");
    }
}

/// Returns the keys whose pairs live at a time.
fn live(oracle: &BTreeMap<u64, u64>, now_ms: u64) -> Vec<u64> {
    oracle.iter().filter(|(_, ends_ms)| **ends_ms > now_ms).map(|(n, _)| *n).collect()
}
