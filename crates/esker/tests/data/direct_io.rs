//! A store whose tables are read past the page cache of the system.

use crate::common::tiny_options;
use esker::{BlockLayout, Compression, Db, Options, Policy};

fn key(n: u32) -> Vec<u8> {
    format!("key {n:06}").into_bytes()
}

fn value(n: u32, round: u32) -> Vec<u8> {
    // Lengths up to several pages, and some that end at one.
    vec![(n + round) as u8; (n * 37 % 9_000) as usize]
}

fn check(db: &Db, round: u32) {
    for n in 0..400 {
        assert_eq!(db.get(key(n)).unwrap().as_deref(), Some(&value(n, round)[..]), "{n}");
    }
    let forward: Vec<_> = db.iter().unwrap().map(|pair| pair.unwrap()).collect();
    let mut backward: Vec<_> = db.iter().unwrap().rev().map(|pair| pair.unwrap()).collect();
    backward.reverse();
    assert_eq!((forward.len(), &forward), (400, &backward));
    assert!(db.verify(&mut |_, _| {}).unwrap().is_whole());
}

#[test]
fn tables_are_read_past_the_page_cache_and_compacted() {
    for (layout, compression) in
        [(BlockLayout::Columnar, Compression::Lz4), (BlockLayout::Delta, Compression::None)]
    {
        let dir = tempfile::tempdir().unwrap();
        let options = || Options {
            direct_io: true,
            block_layout: layout,
            compression,
            policy: Policy::Fluid,
            // Few blocks stay in the cache, so that most reads are of the file.
            cache_size_bytes: Some(64 << 10),
            ..tiny_options()
        };
        let db = Db::open(dir.path().join("db"), options()).unwrap();
        assert_eq!(db.option("direct_io").unwrap(), "true");
        for round in 0..3 {
            (0..400).for_each(|n| db.put(key(n), value(n, round)).unwrap());
            db.flush().unwrap();
        }
        check(&db, 2);
        db.compact_range(None, None).unwrap();
        check(&db, 2);
        db.close().unwrap();
        // Files that were written with one setting are read with the other one.
        let plain = Options { direct_io: false, ..options() };
        let db = Db::open(dir.path().join("db"), plain).unwrap();
        check(&db, 2);
        (0..400).for_each(|n| db.put(key(n), value(n, 3)).unwrap());
        db.close().unwrap();
        let db = Db::open(dir.path().join("db"), options()).unwrap();
        check(&db, 3);
        db.close().unwrap();
    }
}
