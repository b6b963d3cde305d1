//! Stores whose indexes and filters do not fit in their memory budget.

use esker::fs::MemFs;
use esker::{Batch, Compression, Db, Options};

const KEYS: u64 = 1_200_000;

/// Returns the `n`-th key in an order that is not that of the keys.
fn key(n: u64) -> String {
    format!("{:016}", n * 769_231 % KEYS)
}

fn options(budget_bytes: u64) -> Options {
    Options {
        compression: Compression::None,
        memory_budget_bytes: Some(budget_bytes),
        memtable_size_bytes: Some(1 << 20),
        file_size_max_bytes: 2 << 20,
        rest_compaction: false,
        log_file: false,
        status_file: false,
        ..Options::default()
    }
}

#[test]
fn indexes_and_filters_beyond_the_budget_are_read_in_partitions() {
    let fs = MemFs::new();
    let db = Db::open_on(fs.clone(), "/db", options(1 << 30)).unwrap();
    for chunk in (0..KEYS).step_by(1000) {
        let mut batch = Batch::new();
        for n in chunk..chunk + 1000 {
            batch.put(key(n), n.to_le_bytes());
        }
        db.write(&batch).unwrap();
    }
    db.flush().unwrap();
    db.compact_all().unwrap();
    // About two bytes a key.
    let whole = db.metrics().memory.tables_bytes;
    assert!(whole > 2 * KEYS, "{whole} bytes");
    drop(db);

    // Less than one table needs.
    let mut small = options(12 << 20);
    small.thresholds.index_bytes_max = 64 << 10;
    let db = Db::open_on(fs, "/db", small).unwrap();
    assert!(db.verify(&mut |_, _| ()).unwrap().is_whole());
    let keys: Vec<String> = (0..KEYS).step_by(7).map(key).collect();
    for (n, key) in (0..KEYS).step_by(7).zip(&keys) {
        assert_eq!(db.get(key).unwrap().as_deref(), Some(&n.to_le_bytes()[..]), "{key}");
        assert_eq!(db.get(format!("{key}x")).unwrap(), None);
    }
    for (some, n) in keys.chunks(100).zip((0..KEYS).step_by(700)) {
        let found = db.multi_get(some).unwrap();
        assert_eq!(found[0].as_deref(), Some(&n.to_le_bytes()[..]));
        assert!(found.iter().all(Option::is_some));
    }
    let mut count = 0;
    for pair in db.iter().unwrap() {
        let (found, _) = pair.unwrap();
        assert_eq!(&*found, format!("{count:016}").as_bytes());
        count += 1;
    }
    assert_eq!(count, KEYS);
    let memory = db.metrics().memory;
    assert!(memory.tables_bytes < whole / 8, "{memory:?}, whole {whole}");
    assert!(memory.cache_bytes <= memory.cache_capacity_bytes, "{memory:?}");
    // Overwritten and merged under the same budget.
    for n in (0..KEYS).step_by(3) {
        db.put(key(n), "new").unwrap();
    }
    db.flush().unwrap();
    db.compact_all().unwrap();
    for n in (0..KEYS).step_by(11) {
        let want = if n % 3 == 0 { b"new".to_vec() } else { n.to_le_bytes().to_vec() };
        assert_eq!(db.get(key(n)).unwrap().as_deref(), Some(&want[..]));
    }
    let memory = db.metrics().memory;
    // Parts of flushed tables may have been whole, in memory that comes in chunks of 2 MiB.
    let chunk = 2 << 20;
    assert!(memory.tables_bytes < chunk + whole / 8, "{memory:?}, whole {whole}");
}
