//! Handles of the public interface: clones of a store, slices as keys of maps, iterators read from
//! both ends, the atomic removal, and the system's code in an error.

use esker::fs::MemFs;
use esker::{Batch, Db, ErrorKind, Keyspace, KeyspaceOptions, Options};

#[test]
fn double_ended_iteration_returns_each_pair_once() {
    let db = Db::open_on(MemFs::new(), "/db", Options::default()).unwrap();
    for key in 0..40u8 {
        db.put([key], [key]).unwrap();
        if key == 20 {
            db.flush().unwrap();
        }
    }
    let taken = |pair: Option<esker::Result<(Vec<u8>, Vec<u8>)>>| pair.map(|p| p.unwrap().0[0]);
    // Every order of ends that 16 bits describe, over ranges of any length up to 9.
    for (order, len) in (0..1u32 << 10).flat_map(|order| (0..10u8).map(move |len| (order, len))) {
        let mut iter = db.range([15u8]..[15 + len]).unwrap();
        let mut model: std::collections::VecDeque<u8> = (15..15 + len).collect();
        for step in 0..12 {
            let (found, wanted) = match order >> (step % 10) & 1 {
                0 => (taken(iter.next()), model.pop_front()),
                _ => (taken(iter.next_back()), model.pop_back()),
            };
            assert_eq!(found, wanted, "order {order:b}, {len} keys, step {step}");
        }
    }
    // A move of the cursor determines where the iterator goes on, and forgets the other end.
    let mut iter = db.iter().unwrap();
    assert_eq!((taken(iter.next_back()), taken(iter.next())), (Some(39), Some(0)));
    iter.seek([37]).unwrap();
    assert_eq!(iter.map(|pair| pair.unwrap().0[0]).collect::<Vec<_>>(), [37, 38, 39]);
    let mut iter = db.iter().unwrap();
    iter.seek([37]).unwrap();
    assert_eq!(iter.rev().map(|pair| pair.unwrap().0[0]).collect::<Vec<_>>(), [39, 38, 37]);
}

#[test]
fn clones_share_the_store_and_last_drop_closes_it() {
    let fs = MemFs::new();
    let db = Db::open_on(fs.clone(), "/db", Options::default()).unwrap();
    let clone = db.clone();
    clone.put("a", "1").unwrap();
    drop(db);
    assert_eq!(clone.get("a").unwrap().unwrap(), b"1");
    let refused = Db::open_on(fs.clone(), "/db", Options::default()).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Locked);
    let other = clone.clone();
    clone.close().unwrap();
    assert_eq!(other.get("a").unwrap_err().kind(), ErrorKind::Closed);
    let again = Db::open_on(fs, "/db", Options::default()).unwrap();
    drop(other);
    assert_eq!(again.get("a").unwrap().unwrap(), b"1", "the other handle closed this one");
}

#[test]
#[expect(clippy::mutable_key_type, reason = "a slice compares its bytes, which never change")]
fn slice_hashes_and_compares_like_bytes() {
    let db = Db::open_on(MemFs::new(), "/db", Options::default()).unwrap();
    db.put("a", "1").unwrap();
    db.put("b", "2").unwrap();
    let (one, two) = (db.get("a").unwrap().unwrap(), db.get("b").unwrap().unwrap());
    assert!(one < two && one == "1" && one == b"1" && one == vec![b'1'] && one == one.clone());
    let sorted: std::collections::BTreeMap<_, _> = [(two.clone(), 2), (one.clone(), 1)].into();
    assert_eq!(sorted.get(&b"1"[..]), Some(&1));
    let hashed: std::collections::HashSet<_> = [one.clone(), two].into();
    assert!(hashed.contains(&b"2"[..]) && !hashed.contains(&b"3"[..]));
    assert_eq!(Vec::from(one), b"1");
}

/// Of all threads that remove one key, exactly one call returns that it existed.
#[test]
fn concurrent_remove_reports_key_once() {
    let db = Db::open_on(MemFs::new(), "/db", Options::default()).unwrap();
    for round in 0..200u32 {
        db.put("key", round.to_le_bytes()).unwrap();
        let removed: usize = std::thread::scope(|scope| {
            let threads: Vec<_> =
                (0..3).map(|_| scope.spawn(|| db.remove("key").unwrap())).collect();
            threads.into_iter().map(|thread| usize::from(thread.join().unwrap())).sum()
        });
        assert_eq!(removed, 1, "round {round}");
    }
    assert_eq!(db.metrics().user_ops, 400, "only one of each three removals wrote");
}

#[test]
fn errors_keep_os_error_code() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("file"), "").unwrap();
    let error = Db::open(dir.path().join("file/db"), Options::default()).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(20), "ENOTDIR: {error}");
}

#[test]
fn one_batch_writes_to_more_keyspaces_than_it_searches_one_by_one() {
    let db = Db::open_on(MemFs::new(), "/db", Options::default()).unwrap();
    let make = |at: u32| db.keyspace(&format!("ks{at}"), &KeyspaceOptions::default()).unwrap();
    let all: Vec<Keyspace> = (0..100).map(make).collect();
    let mut batch = Batch::new();
    for round in 0..3_u32 {
        for at in 0..100_u32 {
            let at = at.wrapping_mul(37 + round) % 100;
            batch.put_in(&all[at as usize], at.to_be_bytes(), round.to_be_bytes());
        }
    }
    let mut both = Batch::new();
    both.put("default", "0").append(&batch);
    assert_eq!(both.len(), 301);
    db.write(&both).unwrap();
    batch.clear();
    batch.delete_in(&all[7], 7_u32.to_be_bytes());
    db.write(&batch).unwrap();
    for (at, keyspace) in (0..100_u32).zip(&all) {
        let found = keyspace.get(at.to_be_bytes()).unwrap();
        let is_written = at != 7;
        assert_eq!(found.is_some(), is_written, "keyspace {at}");
        assert_eq!(keyspace.iter().unwrap().count(), usize::from(is_written));
    }
}
