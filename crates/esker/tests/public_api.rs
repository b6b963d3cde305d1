//! Calls of the public interface outside other tests: contents of batches, bounds of every kind,
//! error kinds and messages of refused calls, and printed output.
//!
//! A refused call changes nothing. A message states the path, the expectation and the finding.

mod common;

use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::ops::{Bound, ControlFlow};
use std::path::Path;
use std::sync::Arc;

use common::{pairs, tiny_options};
use esker::fs::Fs;
use esker::fs::MemFs;
use esker::internals::{human_bytes, parse_bytes};
use esker::{
    Batch, BatchOp, Comparator, Db, ErrorKind, KeyOrder, KeyspaceOptions, Metrics, Options,
    ReadOptions, WriteOptions,
};

fn store() -> Db {
    Db::open_on(MemFs::new(), "/db", tiny_options()).unwrap()
}

/// Returns a store with the keys `a` to `h`, each its own value, some of them in tables.
fn letters() -> Db {
    let db = store();
    for letter in 'a'..='h' {
        db.put(letter.to_string(), letter.to_string()).unwrap();
        if letter == 'd' {
            db.flush().unwrap();
        }
    }
    db
}

fn keys(iter: impl Iterator<Item = esker::Result<(Vec<u8>, Vec<u8>)>>) -> String {
    iter.map(|pair| String::from_utf8(pair.unwrap().0).unwrap()).collect()
}

fn refusal<T>(result: esker::Result<T>, kind: ErrorKind, words: &str) {
    let Err(error) = result else { panic!("nothing was refused; expected {words:?}") };
    assert_eq!(error.kind(), kind, "{error}");
    assert!(error.to_string().contains(words), "{error}: {words:?} is not in it");
}

#[test]
fn batch_lists_operations_and_appends_other_batches() {
    let mut batch = Batch::new();
    assert!(batch.is_empty() && batch.size_bytes() == 0);
    batch.put("a", "1").delete("b").delete_range("c", "e");
    assert_eq!(batch.len(), 3);
    assert!(!batch.is_empty());
    let held = |batch: &Batch| {
        let op = |op: BatchOp<'_>| match op {
            BatchOp::Put { key, value, .. } => {
                format!("{}={}", key.escape_ascii(), value.escape_ascii())
            }
            BatchOp::Delete { key, .. } => format!("-{}", key.escape_ascii()),
            BatchOp::DeleteRange { start, end, .. } => {
                format!("-{}..{}", start.escape_ascii(), end.escape_ascii())
            }
            other => panic!("an unknown operation: {other:?}"),
        };
        batch.operations().map(op).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(held(&batch), "a=1 -b -c..e");
    let mut other = Batch::new();
    other.put("d", "4");
    let bytes = batch.size_bytes() + other.size_bytes();
    batch.append(&other);
    assert_eq!((batch.len(), batch.size_bytes()), (4, bytes));
    assert_eq!(held(&batch), "a=1 -b -c..e d=4");

    let db = letters();
    db.write_with(&batch, &WriteOptions::SYNC).unwrap();
    assert_eq!(keys(db.iter().unwrap()), "adefgh", "b, c went, d was set after the range");
    assert_eq!(&db.get("d").unwrap().unwrap(), "4");
    let before = db.metrics();
    db.write(&Batch::new()).unwrap();
    assert_eq!(db.metrics().last_seqno, before.last_seqno, "an empty batch is not a write");
    assert_eq!(before.user_ops, 8 + 4);
    // User bytes are keys and values: eight letters twice, and the batch's a1, b, ce, d4.
    assert_eq!(before.user_bytes, 16 + 2 + 1 + 2 + 2);
}

#[test]
fn batch_with_oversized_entry_is_refused_until_cleared() {
    let db = store();
    let long = vec![b'k'; (1 << 20) + 1];
    refusal(db.put(&long, "v"), ErrorKind::InvalidArgument, "the key has 1048577 bytes");
    refusal(db.delete(&long), ErrorKind::InvalidArgument, "the maximum is 1048576");
    refusal(db.delete_range("a", &long), ErrorKind::InvalidArgument, "the key has");
    // These bytes are never touched, so they take no memory.
    let huge = vec![0; (1 << 30) + 1];
    refusal(db.put("k", &huge), ErrorKind::InvalidArgument, "the value has 1073741825 bytes");
    db.put(&long[1..], "fits").unwrap();
    let mut batch = Batch::new();
    batch.put("a", "1").put(&long, "2").delete(&long).delete_range(&long, "z").put("b", "3");
    assert_eq!(batch.len(), 2, "the batch holds a refused operation");
    refusal(db.write_with(&batch, &WriteOptions::default()), ErrorKind::InvalidArgument, "key has");
    let mut around = Batch::new();
    around.put("c", "4").append(&batch);
    refusal(db.write(&around), ErrorKind::InvalidArgument, "the key has");
    assert!(!db.contains_key("a").unwrap() && !db.contains_key("c").unwrap());
    batch.clear();
    assert!(batch.is_empty() && batch.operations().next().is_none());
    batch.put("d", "5");
    db.write(&batch).unwrap();
    assert_eq!(pairs(db.iter().unwrap()).len(), 2);
}

#[test]
fn all_bounds_hold_in_both_directions_and_for_seeks() {
    let db = letters();
    let sides = |key: &str| {
        let key = key.as_bytes().to_vec();
        [Bound::Unbounded, Bound::Included(key.clone()), Bound::Excluded(key)]
    };
    for (lower, first) in sides("c").into_iter().zip(["a", "c", "d"]) {
        for (upper, last) in sides("f").into_iter().zip(["h", "f", "e"]) {
            let bounds = (lower.clone(), upper);
            let iter = || db.iter_with(&ReadOptions::default(), bounds.clone()).unwrap();
            let inside = &"abcdefgh"["abcdefgh".find(first).unwrap()..];
            let inside = &inside[..=inside.find(last).unwrap()];
            assert_eq!(keys(iter()), inside, "{bounds:?}");
            let back: String = inside.chars().rev().collect();
            assert_eq!(keys(iter().rev()), back, "{bounds:?}");
            let mut iter = iter();
            for key in 'a'..='h' {
                iter.seek(key.to_string()).unwrap();
                let found = inside.chars().find(|c| *c >= key);
                assert_eq!(iter.valid().then(|| iter.key()[0] as char), found, "{bounds:?} {key}");
                iter.seek_for_prev(key.to_string()).unwrap();
                let found = inside.chars().rev().find(|c| *c <= key);
                assert_eq!(iter.valid().then(|| iter.key()[0] as char), found, "{bounds:?} {key}");
            }
            iter.seek_to_last().unwrap();
            assert_eq!(iter.key(), last.as_bytes());
            iter.move_next().unwrap();
            iter.move_next().unwrap();
            iter.move_prev().unwrap();
            assert!(!iter.valid(), "a step of an iterator without a position must stay invalid");
        }
    }
}

#[test]
fn panic_in_callback_unpositions_iterator() {
    let db = letters();
    let mut iter = db.iter().unwrap();
    iter.seek_to_first().unwrap();
    let shown = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        iter.for_each_forward(|key, _| match key {
            b"d" => panic!("as a caller's code may"),
            _ => ControlFlow::Continue(()),
        })
    }));
    assert!(shown.is_err() && !iter.valid());
    iter.move_next().unwrap();
    assert!(!iter.valid());
    iter.seek("e").unwrap();
    assert_eq!(iter.key(), b"e");
    iter.move_prev().unwrap();
    assert_eq!(iter.key(), b"d");
    drop(iter);
    // The thread's next iterator reuses the dropped iterator's cursors but starts afresh.
    for (forward, all) in [(true, "abcdefgh"), (false, "hgfedcba")] {
        let (mut iter, mut shown) = (db.iter().unwrap(), String::new());
        let visit = |key: &[u8], _: &[u8]| {
            shown.push(key[0] as char);
            ControlFlow::Continue(())
        };
        if forward { iter.for_each_forward(visit) } else { iter.for_each_backward(visit) }.unwrap();
        assert_eq!(shown, all);
    }
}

#[test]
fn snapshot_reads_earlier_content() {
    let db = letters();
    let snapshot = db.snapshot();
    db.delete_range("b", "g").unwrap();
    db.put("cc", "new").unwrap();
    assert_eq!(keys(snapshot.iter().unwrap()), "abcdefgh");
    assert_eq!(keys(snapshot.range("c"..="e").unwrap()), "cde");
    assert_eq!(keys(snapshot.prefix("c").unwrap()), "c");
    assert_eq!(keys(snapshot.prefix("").unwrap()), "abcdefgh");
    assert_eq!(keys(db.prefix("c").unwrap()), "cc");
    assert!(snapshot.contains_key("e").unwrap() && !snapshot.contains_key("cc").unwrap());
    let found = snapshot.multi_get(&["e", "x", "cc", "a"]).unwrap();
    let found: Vec<_> = found.iter().map(|value| value.as_deref()).collect();
    assert_eq!(found, [Some(b"e".as_slice()), None, None, Some(b"a")]);
    let at = ReadOptions::default().snapshot(&snapshot).fill_cache(false);
    let same = db.multi_get_with(&["e", "x", "cc", "a"], &at).unwrap();
    assert_eq!(same.iter().map(|value| value.as_deref()).collect::<Vec<_>>(), found);
    assert!(snapshot.seqno() < db.snapshot().seqno());
    assert_eq!(format!("{:?}", db.get("cc").unwrap().unwrap()), "b\"new\"");
    assert_eq!(db.metrics().snapshots, 1);
    drop(snapshot);
    assert_eq!(db.metrics().snapshots, 0);
}

#[test]
fn value_callback_may_read_write_and_panic() {
    let db = Db::open_on(MemFs::new(), "/db", Options::default()).unwrap();
    let long = vec![7; 100_000];
    db.put("long", &long).unwrap();
    db.put("short", "1").unwrap();
    for _ in 0..2 {
        assert!(db.read("long", |value| value == long).unwrap().unwrap());
        assert_eq!(db.read("other", |_| panic!("there is no value")).unwrap(), None::<()>);
        // The callback may read and write, and may cause the removal of the table being read.
        let nested = db.read("short", |value| {
            let inner = db.read("long", <[u8]>::to_vec).unwrap().unwrap();
            db.put("short", "2").unwrap();
            db.compact_range(None, None).unwrap();
            let newer = db.read("short", <[u8]>::to_vec).unwrap().unwrap();
            (value.to_vec(), inner, newer)
        });
        let (value, inner, newer) = nested.unwrap().unwrap();
        assert_eq!((&value[..], &inner[..], &newer[..]), (&b"1"[..], &long[..], &b"2"[..]));
        let failed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            db.read("short", |value| assert!(value.is_empty(), "the reader's own panic"))
        }));
        assert!(failed.is_err());
        let snapshot = db.snapshot();
        db.put("short", "1").unwrap();
        let then = ReadOptions::default().snapshot(Some(&snapshot)).fill_cache(false);
        assert_eq!(db.read_with("short", &then, <[u8]>::to_vec).unwrap().unwrap(), b"2");
    }
    db.close().unwrap();
}

#[test]
fn sync_without_new_writes_does_nothing() {
    let db = Db::open_on(MemFs::new(), "/db", Options::default()).unwrap();
    db.put_with("a", "1", &WriteOptions::BUFFERED).unwrap();
    let before = db.metrics().log_syncs;
    db.sync().unwrap();
    assert_eq!(db.metrics().log_syncs, before + 1);
    db.sync().unwrap();
    assert_eq!(db.metrics().log_syncs, before + 1);
    db.put_with("b", "2", &WriteOptions::SYNC).unwrap();
    assert_eq!(db.metrics().log_syncs, before + 2);
}

struct ByLength;

impl Comparator for ByLength {
    fn name(&self) -> &str {
        "test.by_length"
    }
    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        a.len().cmp(&b.len()).then_with(|| a.cmp(b))
    }
}

#[test]
fn prefix_scan_is_refused_for_custom_order() {
    let key_order = KeyOrder::Custom(Arc::new(ByLength));
    let db = Db::open_on(MemFs::new(), "/db", Options { key_order, ..tiny_options() }).unwrap();
    db.put("a", "1").unwrap();
    refusal(db.prefix("a"), ErrorKind::InvalidArgument, "test.by_length");
    refusal(db.snapshot().prefix("a"), ErrorKind::InvalidArgument, "use a range");
    assert_eq!(keys(db.prefix("").unwrap()), "a");
    assert_eq!(format!("{:?}", KeyOrder::Custom(Arc::new(ByLength))), "KeyOrder(test.by_length)");
}

#[test]
fn option_changes_are_atomic() {
    let db = store();
    let runs = db.option("runs_max");
    for (name, value, words) in [
        ("block_size_bytes", "nonsense", "it takes 64 to"),
        ("runs_maxx", "5", "the nearest name is runs_max"),
        ("block_cache_shards", "4", "unknown option"),
    ] {
        let result = db.set_options(&[("runs_max", "7"), (name, value)]);
        refusal(result, ErrorKind::InvalidArgument, words);
        assert_eq!(db.option("runs_max"), runs, "{name}");
    }
    let at_open = esker::schema::OPTIONS
        .iter()
        .find(|spec| spec.mutability == esker::schema::Mutability::Open)
        .unwrap();
    let value = db.option(at_open.name).unwrap();
    refusal(
        db.set_options(&[(at_open.name, &value)]),
        ErrorKind::InvalidArgument,
        "when the store is",
    );
    assert_eq!(
        (at_open.mutability.to_string(), esker::schema::Mutability::Live.to_string()),
        ("at open".to_string(), "while open".to_string())
    );
    let bad = Options { fan_out: 0, ..tiny_options() };
    refusal(Db::open_on(MemFs::new(), "/db", bad), ErrorKind::InvalidArgument, "fan_out cannot be");
    let ranges: BTreeSet<String> =
        esker::schema::OPTIONS.iter().map(|k| k.range.to_string()).collect();
    assert!(ranges.contains("true, false") && ranges.iter().any(|r| r.ends_with(", auto")));
}

#[test]
fn open_reports_missing_and_existing_stores() {
    let fs = MemFs::new();
    let kind = ErrorKind::InvalidArgument;
    let not_made = Options { create_if_missing: false, ..tiny_options() };
    let words = "/db: the store does not exist, and create_if_missing is off";
    let missing = ErrorKind::NotFound;
    refusal(Db::open_on(fs.clone(), "/db", not_made), missing, words);
    refusal(Db::open_read_only_on(fs.clone(), "/db", tiny_options()), missing, "there is no store");
    refusal(Db::destroy_on(fs.clone(), "/db"), missing, "there is no store here");
    refusal(Db::repair_on(fs.clone(), "/db", tiny_options()), missing, "no store here to repair");
    refusal(
        Db::restore_on(fs.clone(), "/b", None, "/db", tiny_options()),
        missing,
        "/b: there is no backup directory here",
    );
    let db = Db::open_on(fs.clone(), "/db", tiny_options()).unwrap();
    assert_eq!((db.path(), format!("{db:?}").as_str()), (Path::new("/db"), "Db(/db)"));
    db.put("a", "1").unwrap();
    db.sync().unwrap();
    refusal(db.checkpoint("/db"), kind, "the checkpoint's directory exists");
    db.backup("/backups").unwrap();
    refusal(
        Db::restore_on(fs.clone(), "/backups", Some(2), "/new", tiny_options()),
        missing,
        "/backups: there is no backup 2 in this directory; it holds backup 1",
    );
    refusal(
        Db::restore_on(fs.clone(), "/backups", None, "/db", tiny_options()),
        kind,
        "the directory to restore into exists",
    );
    let snapshot = db.snapshot();
    let value = db.get("a").unwrap().unwrap();
    db.close().unwrap();
    refusal(snapshot.get("a"), ErrorKind::Closed, "/db: the store was closed");
    assert_eq!(&value, "1", "a returned value must stay readable");
    let must_be_new = Options { error_if_exists: true, ..tiny_options() };
    refusal(Db::open_on(fs.clone(), "/db", must_be_new), kind, "error_if_exists is set");
    let db = Db::open_read_only_on(fs.clone(), "/db", tiny_options()).unwrap();
    let job = db.run_one_job().map(|_| ());
    for refused in [db.put("b", "2"), db.sync(), db.flush(), db.compact_range(None, None), job] {
        refusal(refused, ErrorKind::ReadOnly, "/db: the store was opened read-only");
    }
    assert_eq!(keys(db.iter().unwrap()), "a");
}

#[test]
fn modified_backup_is_not_restored() {
    let fs = MemFs::new();
    let db = Db::open_on(fs.clone(), "/db", tiny_options()).unwrap();
    db.put("a", "1").unwrap();
    let report = db.backup("/backups").unwrap();
    assert_eq!((report.number, &report.path), (1, &Path::new("/backups/backup-000001").into()));
    let backup = Db::open_on(fs.clone(), &report.path, tiny_options()).unwrap();
    backup.put("b", "2").unwrap();
    std::mem::forget(backup);
    let result = Db::restore_on(fs.clone(), "/backups", None, "/new", tiny_options());
    refusal(result, ErrorKind::InvalidArgument, "was opened and written to");
    // The same for writes that are in tables now, and not in the log.
    let report = db.backup("/backups").unwrap();
    let backup = Db::open_on(fs.clone(), &report.path, tiny_options()).unwrap();
    backup.put("a", "changed").unwrap();
    backup.flush().unwrap();
    backup.close().unwrap();
    let result = Db::restore_on(fs.clone(), "/backups", None, "/new", tiny_options());
    refusal(result, ErrorKind::InvalidArgument, "was opened and written to");
    assert!(!fs.exists(Path::new("/new")).unwrap());
    assert_eq!(db.backup("/backups").unwrap().number, 3);
    Db::restore_on(fs.clone(), "/backups", None, "/new", tiny_options()).unwrap();
}

#[test]
fn approximate_sizes_add_up_and_are_zero_for_empty_ranges() {
    let db = store();
    for i in 0..2_000u32 {
        db.put(format!("{i:06}"), [7; 40]).unwrap();
    }
    db.flush().unwrap();
    db.wait_idle().unwrap();
    let size = |start: &str, end: &str| db.approximate_size(start, end).unwrap();
    let all = size("", "z");
    let tables = db.metrics().table_bytes;
    assert!(all <= tables && all > tables / 2, "{all} of {tables}");
    let (left, right) = (size("", "001000"), size("001000", "z"));
    assert!(left.abs_diff(right) < all / 4, "{left} and {right}");
    assert!((left + right).abs_diff(all) < all / 4, "{left} + {right} of {all}");
    assert_eq!((size("z", "a"), size("a", "a"), size("x", "z")), (0, 0, 0));
    let part: u64 = db.tables().iter().map(|table| table.size_bytes).sum();
    assert_eq!(part, tables);
    let mut all = db.tables();
    all.sort_by(|a, b| a.smallest.cmp(&b.smallest));
    assert_eq!(all[0].smallest, b"000000");
    assert_eq!(all.last().unwrap().largest, b"001999");
}

#[test]
fn keyspaces_measure_ranges_in_their_key_order_and_read_many_keys_at_a_snapshot() {
    let db = store();
    let reverse = KeyspaceOptions::default().key_order(KeyOrder::Reverse);
    let orders = [("up", KeyspaceOptions::default()), ("down", reverse)];
    let [up, down] = orders.map(|(name, options)| db.keyspace(name, &options).unwrap());
    for i in 0..2_000u32 {
        for keyspace in [&up, &down] {
            keyspace.put(format!("{i:06}"), [7; 40]).unwrap();
        }
    }
    db.flush().unwrap();
    db.wait_idle().unwrap();
    for (keyspace, least, greatest) in [(&up, "", "z"), (&down, "z", "")] {
        let size = |start: &str, end: &str| keyspace.approximate_size(start, end).unwrap();
        let (all, half) = (size(least, greatest), size(least, "001000"));
        assert!(all > 0 && all <= keyspace.size_bytes().unwrap());
        assert!(half.abs_diff(all / 2) < all / 4, "{half} of {all}");
        assert_eq!((size(greatest, least), size("001000", "001000")), (0, 0));
    }
    let default = db.existing_keyspace("default").unwrap().unwrap();
    assert_eq!(default.approximate_size("", "z").unwrap(), db.approximate_size("", "z").unwrap());
    let (snapshot, keys) = (db.snapshot(), ["000001", "none", "000003"]);
    down.delete("000003").unwrap();
    db.drop_keyspace("up").unwrap();
    let at = ReadOptions::default().snapshot(&snapshot).fill_cache(false);
    let exist = |options: &ReadOptions<'_>| {
        let found = down.multi_get_with(&keys, options).unwrap();
        found.iter().map(Option::is_some).collect::<Vec<bool>>()
    };
    assert_eq!(exist(&at), [true, false, true]);
    assert_eq!(exist(&ReadOptions::default()), [true, false, false]);
    assert_eq!(up.approximate_size("", "z").unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(up.multi_get_with(&keys, &at).unwrap_err().kind(), ErrorKind::NotFound);
    let other = store().snapshot();
    let foreign = ReadOptions::default().snapshot(&other);
    assert_eq!(
        down.multi_get_with(&keys, &foreign).unwrap_err().kind(),
        ErrorKind::InvalidArgument
    );
}

#[test]
fn metrics_report_is_a_table_and_three_lines() {
    let db = letters();
    db.flush().unwrap();
    db.wait_idle().unwrap();
    db.get("a").unwrap();
    let metrics = db.metrics();
    let text = metrics.to_string();
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(lines.len(), 1 + metrics.levels.len() + 3, "{text}");
    assert!(lines[0].starts_with("level guards runs files"), "{text}");
    for (level, line) in metrics.levels.iter().zip(&lines[1..]) {
        let words: Vec<_> = line.split_whitespace().collect();
        assert_eq!(words[0], level.level.to_string());
        assert_eq!(words[1..4], [level.guards, level.runs_max, level.files].map(|n| n.to_string()));
        assert_eq!(words.last().unwrap(), &level.moves.to_string());
    }
    assert!(text.contains("budget 64.0 MiB"), "{text}");
    let empty = Metrics::default();
    assert_eq!((empty.write_amplification(), empty.cache_hit_rate()), (None, None));
    assert!(empty.to_string().contains("write amplification n/a\ncache hit rate n/a\n"));
    let mut some = Metrics::default();
    some.user_bytes = 200;
    some.log_bytes = 210;
    some.flush_bytes = 190;
    some.compaction_bytes = 400;
    some.cache_hits = 3;
    some.cache_misses = 1;
    assert_eq!((some.write_amplification(), some.cache_hit_rate()), (Some(4.0), Some(0.75)));
    assert!(some.to_string().contains("write amplification 4.00\ncache hit rate 0.75\n"));
}

#[test]
fn error_documentation_lists_every_kind() {
    let kinds = ErrorKind::ALL;
    let names: BTreeSet<&str> = kinds.iter().map(|kind| kind.name()).collect();
    assert_eq!(names.len(), kinds.len());
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/errors.md");
    let page = std::fs::read_to_string(page).unwrap();
    for kind in kinds {
        let row = format!("| `{}` | `{kind:?}` |", kind.name());
        assert!(page.contains(&row), "docs/errors.md lacks {row}");
    }
    assert_eq!(ErrorKind::ReadOnly.name(), "read-only");
}

#[test]
fn size_suffixes_round_trip() {
    for (bytes, text) in [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.0 KiB"),
        (1536, "1.5 KiB"),
        (5 << 20, "5.0 MiB"),
        (3 << 29, "1.50 GiB"),
        (1 << 40, "1024.00 GiB"),
    ] {
        assert_eq!(human_bytes(bytes), text);
        assert_eq!(parse_bytes(text), Some(bytes), "{text}");
    }
    for (text, bytes) in [
        ("1_000", Some(1000)),
        (" 2k ", Some(2048)),
        ("2 KB", Some(2048)),
        ("0.5g", Some(1 << 29)),
        ("2TiB", Some(2 << 40)),
        ("7b", Some(7)),
        ("", None),
        ("-1", None),
        ("1.2.3", None),
        ("5 furlongs", None),
        ("99999999999999999999", None),
        ("20000000000 g", None),
    ] {
        assert_eq!(parse_bytes(text), bytes, "{text:?}");
    }
}

#[test]
fn close_flushes_large_memtable_and_keeps_log_of_small_one() {
    let fs = MemFs::new();
    let open = || Db::open_on(fs.clone(), "/db", Options::default()).unwrap();
    let fill = |count: u32| {
        let db = open();
        for number in 0..count {
            db.put(number.to_be_bytes(), [7; 1000]).unwrap();
        }
        db.close().unwrap();
    };
    let in_level_0 = |db: &Db| db.metrics().levels[0].files;
    fill(100);
    let db = open();
    assert_eq!(in_level_0(&db), 0, "a hundred kilobytes are read again in no time");
    drop(db);
    fill(5000);
    let db = open();
    assert_eq!(in_level_0(&db), 1, "five megabytes are in a table");
    assert_eq!(db.iter().unwrap().count(), 5000);
}
