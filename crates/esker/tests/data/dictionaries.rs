//! Compression dictionaries of a store: the option, its keyspaces, and what verify and repair find.

use std::path::Path;

use crate::common::pairs;
use esker::fs::{Fs, MemFs};
use esker::{Compression, Db, ErrorKind, KeyspaceOptions, Options};

/// Returns options with dictionaries, or `None` in a build without Zstandard.
fn options() -> Option<Options> {
    let options = Options {
        compression: Compression::Zstd,
        compression_dictionary_max_bytes: 4096,
        memory_budget_bytes: Some(64 << 20),
        memtable_size_bytes: Some(8 << 20),
        block_size_bytes: 1024,
        rest_compaction: false,
        log_file: false,
        status_file: false,
        ..Options::default()
    };
    options.validate().is_ok().then_some(options)
}

fn line(n: u64) -> String {
    format!(
        "{{\"identifier\":{},\"customer_name\":\"name {}\",\"delivery_country\":\"Switzerland\",\
         \"payment_method\":\"invoice\",\"order_total_cents\":{},\"is_active\":true}}",
        n.wrapping_mul(0x9E37_79B9_7F4A_7C15) % 1_000_003,
        n * 31 % 977,
        n * n % 100_000,
    )
}

fn fill(mut put: impl FnMut(String, String)) {
    (0..6000).for_each(|n| put(format!("{n:06}"), line(n)));
}

fn table_bytes(db: &Db, tree: u32) -> u64 {
    db.flush().unwrap();
    db.compact_all().unwrap();
    let tables = db.tables();
    let own = tables.iter().filter(|table| table.tree == tree);
    own.map(|table| table.size_bytes).sum()
}

#[test]
fn dictionaries_are_off_by_default_and_shrink_a_store_or_one_keyspace() {
    let Some(options) = options() else { return };
    assert_eq!(Options::default().compression_dictionary_max_bytes, 0);
    let size = |options: &Options| {
        let db = Db::open_on(MemFs::new(), "/db", options.clone()).unwrap();
        fill(|key, value| db.put(key, value).unwrap());
        table_bytes(&db, 0)
    };
    let none = Options { compression_dictionary_max_bytes: 0, ..options.clone() };
    let (with, without) = (size(&options), size(&none));
    assert!(with * 20 < without * 19, "{with} and {without} bytes");
    // A keyspace has dictionaries of its own.
    let fs = MemFs::new();
    let db = Db::open_on(fs.clone(), "/db", none.clone()).unwrap();
    let own = KeyspaceOptions::default().set("compression_dictionary_max_bytes", "4096").unwrap();
    let (with, plain) =
        (db.keyspace("with", &own).unwrap(), db.keyspace("plain", &Default::default()).unwrap());
    fill(|key, value| {
        with.put(&key, &value).unwrap();
        plain.put(&key, &value).unwrap();
    });
    let (small, large) = (table_bytes(&db, with.tree()), table_bytes(&db, plain.tree()));
    assert!(small * 20 < large * 19, "{small} and {large} bytes");
    let expected = pairs(with.iter().unwrap());
    db.close().unwrap();
    let db = Db::open_on(fs, "/db", none).unwrap();
    let with = db.existing_keyspace("with").unwrap().unwrap();
    assert_eq!(pairs(with.iter().unwrap()), expected);
    assert!(db.verify(&mut |_, _| {}).unwrap().is_whole());
    // The option can change while the store is open.
    db.set_options(&[("max_dict_bytes", "16384")]).unwrap();
    assert_eq!(db.option("compression_dictionary_max_bytes").as_deref(), Some("16384"));
    assert!(db.set_options(&[("max_dict_bytes", "1048577")]).is_err());
}

#[test]
fn verify_finds_a_damaged_dictionary_and_repair_keeps_the_other_tables() {
    let Some(options) = options() else { return };
    let fs = MemFs::new();
    let db = Db::open_on(fs.clone(), "/db", options.clone()).unwrap();
    fill(|key, value| db.put(key, value).unwrap());
    db.flush().unwrap();
    db.compact_all().unwrap();
    let content = pairs(db.iter().unwrap());
    let memory = db.metrics().memory.tables_bytes;
    assert!(memory > 2048, "{memory} bytes");
    let first = db.tables()[0].number;
    db.close().unwrap();
    // A store that is whole comes through a repair.
    Db::repair_on(fs.clone(), "/db", options.clone()).unwrap();
    let db = Db::open_on(fs.clone(), "/db", options.clone()).unwrap();
    assert_eq!(pairs(db.iter().unwrap()), content);
    let first = db.tables().first().map_or(first, |table| table.number);
    db.close().unwrap();
    let path = format!("/db/{first:06}.sst");
    let bytes = fs.read(Path::new(&path), u64::MAX).unwrap();
    // A dictionary begins with the magic number of Zstandard's dictionaries.
    let magic = 0xEC30_A437_u32.to_le_bytes();
    let at = bytes.windows(4).rposition(|found| found == magic).expect("a dictionary");
    fs.open_write(Path::new(&path))
        .unwrap()
        .write_at(&[bytes[at + 100] ^ 1], at as u64 + 100)
        .unwrap();
    let db = Db::open_on(fs.clone(), "/db", options.clone()).unwrap();
    let report = db.verify(&mut |_, _| {}).unwrap();
    assert_eq!(report.problems.len(), 1, "{:?}", report.problems);
    assert_eq!(report.problems[0].kind(), ErrorKind::Corruption);
    assert_eq!(report.problems[0].offset_bytes(), Some(at as u64));
    let read = db.iter().and_then(|iter| iter.collect::<esker::Result<Vec<_>>>());
    assert_eq!(read.unwrap_err().kind(), ErrorKind::Corruption);
    drop(db);
    let report = Db::repair_on(fs.clone(), "/db", options.clone()).unwrap();
    assert!(!report.lost.is_empty());
    let db = Db::open_on(fs, "/db", options).unwrap();
    assert!(db.verify(&mut |_, _| {}).unwrap().is_whole());
    assert!(pairs(db.iter().unwrap()).iter().all(|pair| content.binary_search(pair).is_ok()));
}
