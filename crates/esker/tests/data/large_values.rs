//! Values of megabytes: compressed or not, alone in their blocks, in every layout; and values in value
//! files.
//!
//! These tests guard against past failures: five copies of a value at once; a block of one large
//! value whose parts are written separately and read back as one.

use esker::fs::Fs;
use esker::fs::MemFs;
use esker::{BlockLayout, Compression, Db, Options};

/// Returns incompressible bytes.
fn noise(len: usize, seed: u64) -> Vec<u8> {
    let mut state = seed | 1;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 56) as u8
    };
    (0..len).map(|_| next()).collect()
}

/// Returns values around the length from which a value is written without a copy.
fn values() -> Vec<Vec<u8>> {
    let mut values = Vec::new();
    for len in [(1 << 20) - 1, 1 << 20, (1 << 20) + 1, (5 << 18) + 7, 3 << 20] {
        values.push(noise(len, len as u64));
        values.push(vec![7; len]);
        // Compresses to about seven eighths.
        let mut some = noise(len, 3);
        some[len / 8 * 7..].fill(0);
        values.push(some);
    }
    values
}

#[test]
fn large_values_round_trip_in_every_layout_and_compression() {
    let values = values();
    for layout in BlockLayout::ALL {
        for compression in Compression::ALL {
            let what = format!("{layout} {compression}");
            let options = Options {
                block_layout: *layout,
                compression: *compression,
                memory_budget_bytes: Some(64 << 20),
                background_threads: Some(0),
                // It measures tables, also where the tests run with all values in value files.
                value_separation_min_bytes: esker::ValueSeparation::Off,
                ..Options::default()
            };
            let fs = MemFs::new();
            let db = Db::open_on(fs.clone(), "/db", options.clone()).unwrap();
            for (at, value) in values.iter().enumerate() {
                db.put(format!("{at:02} a"), "small").unwrap();
                db.put(format!("{at:02} b"), value).unwrap();
                db.put("same", value).unwrap();
            }
            let snapshot = db.snapshot();
            db.put("same", &values[0]).unwrap();
            db.flush().unwrap();
            let check = |db: &Db| {
                for (at, value) in values.iter().enumerate() {
                    let found = db.get(format!("{at:02} b")).unwrap().unwrap();
                    assert!(*found == **value, "{what}: value {at}");
                    assert_eq!(&*db.get(format!("{at:02} a")).unwrap().unwrap(), b"small");
                }
                assert!(*db.get("same").unwrap().unwrap() == *values[0], "{what}");
                assert_eq!(db.iter().unwrap().count(), 2 * values.len() + 1, "{what}");
                assert!(db.verify(&mut |_, _| {}).unwrap().is_whole(), "{what}");
            };
            check(&db);
            drop(snapshot);
            db.compact_range(None, None).unwrap();
            check(&db);
            // Two fifths of the bytes are noise. Compressed, the rest takes almost no space.
            let stored = db.metrics().table_bytes;
            let all: usize = values.iter().map(Vec::len).sum();
            let packs = *compression != Compression::None;
            assert_eq!(stored < all as u64 * 4 / 5, packs, "{what}: {stored} of {all} bytes");
            db.close().unwrap();
            check(&Db::open_on(fs.clone(), "/db", options).unwrap());
            assert!(fs.list("/db".as_ref()).unwrap().len() < 40);
        }
    }
}

#[test]
fn log_of_large_values_is_replayed() {
    let (fs, values) = (MemFs::new(), values());
    let options = || Options { background_threads: Some(0), ..Options::default() };
    let db = Db::open_on(fs.clone(), "/db", options()).unwrap();
    for (at, value) in values.iter().enumerate() {
        db.put(format!("{at:02}"), value).unwrap();
        let mut batch = esker::Batch::new();
        batch.put(format!("{at:02} x"), value).put(format!("{at:02} y"), value);
        db.write(&batch).unwrap();
    }
    // The files as a killed process leaves them.
    let killed = MemFs::new();
    killed.create_dir("/db".as_ref()).unwrap();
    for entry in fs.list("/db".as_ref()).unwrap() {
        let path = std::path::Path::new("/db").join(&entry.name);
        let mut file = killed.create_new(&path).unwrap();
        file.append(&fs.read(&path, u64::MAX).unwrap()).unwrap();
    }
    let again = Db::open_on(killed, "/db", options()).unwrap();
    for (at, value) in values.iter().enumerate() {
        for name in [format!("{at:02}"), format!("{at:02} x"), format!("{at:02} y")] {
            assert!(*again.get(&name).unwrap().unwrap() == **value, "{name}");
        }
    }
    drop((db, again));
}
