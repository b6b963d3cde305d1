//! Dropped keyspaces: no table stays behind, also where one block has the pairs of several of them.

use std::path::Path;
use std::time::{Duration, Instant};

use crate::common::tiny_options;
use esker::fs::MemFs;
use esker::{Compression, Db, KeyspaceOptions, Options};
use esker_testkit::rng::SplitMix64;

#[test]
fn dropped_keyspaces_of_one_block_leave_no_table_in_any_order() {
    let names = ["left", "middle", "right"];
    let options = Options { auto_compaction: false, ..tiny_options() };
    for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
        let fs = MemFs::new();
        let open = || Db::open_on(fs.clone(), Path::new("/db"), options.clone()).unwrap();
        let mut db = open();
        let living = db.keyspace("living", &KeyspaceOptions::default()).unwrap();
        living.put("key", "in another table").unwrap();
        db.flush().unwrap();
        for name in names {
            let keyspace = db.keyspace(name, &KeyspaceOptions::default()).unwrap();
            keyspace.put("key", name).unwrap();
        }
        db.flush().unwrap();
        assert_eq!(db.metrics().table_files, 2);
        for dropped in order {
            // The drop of the middle one finds nothing to cut out, and its number is forgotten.
            db.drop_keyspace(names[dropped]).unwrap();
            db.wait_idle().unwrap();
            db.close().unwrap();
            db = open();
        }
        let left = db.tables();
        assert_eq!(left.len(), 1, "{order:?}: {left:?}");
        let living = db.keyspace("living", &KeyspaceOptions::default()).unwrap();
        assert_eq!(living.get("key").unwrap().as_deref(), Some(&b"in another table"[..]));
    }
}

/// Three keyspaces whose pairs were written in turn, so that flushed tables have pairs of all.
fn load_three(db: &Db, pairs: u64) {
    let keyspace = |name| db.keyspace(name, &KeyspaceOptions::default()).unwrap();
    let keyspaces = ["left", "middle", "right"].map(keyspace);
    let (mut rng, mut value) = (SplitMix64::new(11), [0; 100]);
    for n in 0..pairs {
        rng.fill(&mut value);
        let key = n.wrapping_mul(0x9E37_79B9_7F4A_7C15).to_be_bytes();
        for keyspace in &keyspaces {
            keyspace.put(key, value).unwrap();
        }
    }
    db.flush().unwrap();
}

#[test]
fn space_of_a_dropped_keyspace_comes_back_without_a_call() {
    // The second time no table was read before the drop.
    for is_reopened in [false, true] {
        let fs = MemFs::new();
        let options = Options {
            memtable_size_bytes: Some(256 << 10),
            file_size_max_bytes: 256 << 10,
            compression: Compression::None,
            value_separation_min_bytes: esker::ValueSeparation::Off,
            ..Options::default()
        };
        let open = || Db::open_on(fs.clone(), Path::new("/db"), options.clone()).unwrap();
        let mut db = open();
        load_three(&db, 20_000);
        if is_reopened {
            db.close().unwrap();
            db = open();
        }
        let before = db.metrics().table_bytes;
        db.drop_keyspace("middle").unwrap();
        let end = Instant::now() + Duration::from_secs(300);
        while db.metrics().table_bytes > before / 4 * 3 {
            assert!(
                Instant::now() < end,
                "{} of {before}: {:?}",
                db.metrics().table_bytes,
                db.tables()
            );
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}
