//! Followers: views of a store that another process or thread writes, and their promotion.
//!
//! A test with a second process runs this program again as the writer, and kills it.

mod common;

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::Duration;

use common::processes::{LONG, wait_until};
use common::tiny_options;
use esker::follow::Follower;
use esker::ingest::{IngestOptions, SortedWriter};
use esker::{
    Batch, Db, Durability, ErrorKind, KeyspaceOptions, Options, TransactionOptions, WalIo,
    WriteOptions,
};

const VICTIM: &str = "ESKER_FOLLOW_VICTIM";

fn options() -> Options {
    Options { merge_operator: esker::built_in_merge_operator("add_i64"), ..tiny_options() }
}

fn text(db: &Db, key: &str) -> Option<String> {
    db.get(key).unwrap().map(|value| String::from_utf8_lossy(&value).into_owned())
}

fn pairs(db: &Db) -> Vec<(Vec<u8>, Vec<u8>)> {
    db.iter().unwrap().map(|pair| pair.unwrap()).collect()
}

/// Writes batch `number`: its number, eight keys that all get it, and a counter.
fn write_batch(db: &Db, number: u64) {
    let mut batch = Batch::new();
    batch.put("last", number.to_string()).merge("count", "1");
    for part in 0..8 {
        batch.put(format!("part {part}"), number.to_string());
        batch.put(format!("key {:04}", (number * 8 + part) % 997), number.to_string());
    }
    let durability =
        if number.is_multiple_of(64) { Durability::Sync } else { Durability::Buffered };
    db.write_with(&batch, &WriteOptions::default().durability(durability)).unwrap();
}

/// Checks that a view shows whole batches, each once. Returns the number of the last.
fn check(view: &Db) -> u64 {
    let last: u64 = text(view, "last").map_or(0, |last| last.parse().unwrap());
    if last > 0 {
        for part in 0..8 {
            assert_eq!(text(view, &format!("part {part}")), Some(last.to_string()));
        }
        assert_eq!(text(view, "count"), Some(last.to_string()), "a batch is applied twice or lost");
        let keys = view.prefix("key ").unwrap().count() as u64;
        assert_eq!(keys, (last * 8).min(997));
    }
    last
}

/// A clean end of the writer, another one, and writes that no log has.
fn after_another_opening(db: Db, follower: &Follower, path: &Path, options: Options) {
    db.close().unwrap();
    let db = Db::open(path, options).unwrap();
    db.put("a", "4").unwrap();
    follower.catch_up().unwrap();
    assert_eq!(pairs(&follower.db()), pairs(&db));
    // What no log has is shown when it is flushed.
    db.put_with("unlogged", "1", &WriteOptions::NONE).unwrap();
    db.put("logged", "1").unwrap();
    follower.catch_up().unwrap();
    assert_eq!(text(&follower.db(), "logged").as_deref(), Some("1"));
    db.flush().unwrap();
    follower.catch_up().unwrap();
    assert_eq!(pairs(&follower.db()), pairs(&db));
}

#[test]
fn a_view_shows_what_the_writer_had_written_and_never_changes() {
    for wal_io in [WalIo::Mmap, WalIo::Write] {
        let temporary = tempfile::tempdir().unwrap();
        let path = temporary.path().join("db");
        let options = || Options { wal_io, ..options() };
        let error = Db::follow(&path, options()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFound);
        let db = Db::open(&path, options()).unwrap();
        let follower = Db::follow(&path, options()).unwrap();
        assert_eq!((follower.position(), pairs(&follower.db()).len()), (0, 0));
        assert_eq!(follower.catch_up().unwrap(), 0);
        db.put("a", "1").unwrap();
        db.merge("n", "5").unwrap();
        let lag = follower.lag().unwrap();
        assert_eq!((lag.position, lag.newest, lag.operations), (0, 2, 2));
        assert!(lag.error.is_none());
        assert!(text(&follower.db(), "a").is_none(), "the view has changed");
        assert_eq!(follower.catch_up().unwrap(), 2);
        let first = follower.db();
        let snapshot = first.snapshot();
        // Each change of the manifest, and each kind of operation.
        let users = db
            .keyspace("users", &KeyspaceOptions::default().key_order(esker::KeyOrder::Reverse))
            .unwrap();
        users.put("u", "1").unwrap();
        db.put("a", "2").unwrap();
        db.flush().unwrap();
        db.merge("n", "6").unwrap();
        db.put("b", "1").unwrap();
        db.delete("b").unwrap();
        db.put("c", "1").unwrap();
        db.delete_range("c", "d").unwrap();
        db.put_with_ttl("t", "1", Duration::from_secs(3600)).unwrap();
        let transaction = db.transaction(TransactionOptions::default());
        transaction.put("prepared", "1").unwrap();
        transaction.prepare("two phases").unwrap();
        follower.catch_up().unwrap();
        let second = follower.db();
        assert_eq!(text(&second, "a").as_deref(), Some("2"));
        assert_eq!(text(&second, "n").as_deref(), Some("11"));
        assert_eq!(pairs(&second), pairs(&db));
        assert_eq!(second.keyspaces(), ["default", "users"]);
        assert_eq!(second.prepared_transactions(), ["two phases"]);
        let viewed = second.existing_keyspace("users").unwrap().unwrap();
        assert_eq!(viewed.get("u").unwrap().as_deref(), Some(&b"1"[..]));
        assert_eq!(db.commit_prepared("two phases").map_err(|e| e.to_string()), Ok(()));
        db.rename_keyspace("users", "people").unwrap();
        db.put("a", "3").unwrap();
        db.compact_all().unwrap();
        follower.catch_up().unwrap();
        let third = follower.db();
        assert_eq!(third.keyspaces(), ["default", "people"]);
        assert_eq!(text(&third, "prepared").as_deref(), Some("1"));
        db.drop_keyspace("people").unwrap();
        follower.catch_up().unwrap();
        assert_eq!(follower.db().keyspaces(), ["default"]);
        // The older views are as they were, though their files are gone.
        assert_eq!((text(&first, "a").as_deref(), pairs(&first).len()), (Some("1"), 2));
        assert_eq!(snapshot.get("n").unwrap().as_deref(), Some(&b"5"[..]));
        assert_eq!(text(&second, "a").as_deref(), Some("2"));
        assert_eq!(viewed.get("u").unwrap().as_deref(), Some(&b"1"[..]));
        assert_eq!(third.existing_keyspace("people").unwrap().unwrap().iter().unwrap().count(), 1);
        assert_eq!(third.put("x", "y").unwrap_err().kind(), ErrorKind::ReadOnly);
        after_another_opening(db, &follower, &path, options());
        assert_eq!(follower.lag().unwrap().operations, 0);
    }
}

#[test]
fn views_beside_a_busy_writer_are_whole_prefixes() {
    const BATCHES: u64 = 600;
    for wal_io in [WalIo::Mmap, WalIo::Write] {
        let temporary = tempfile::tempdir().unwrap();
        let path = temporary.path().join("db");
        // The manifest is rewritten often.
        let options = || Options { wal_io, manifest_size_min_bytes: 1 << 10, ..options() };
        let db = Db::open(&path, options()).unwrap();
        let follower = Db::follow(&path, options()).unwrap();
        let ended = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for number in 1..=BATCHES {
                    write_batch(&db, number);
                    if number % 100 == 0 {
                        let name = format!("space {number}");
                        let space = db.keyspace(&name, &KeyspaceOptions::default()).unwrap();
                        space.put("number", number.to_string()).unwrap();
                        if number > 300 {
                            db.drop_keyspace(&format!("space {}", number - 300)).unwrap();
                        }
                    }
                    if number % 400 == 0 {
                        db.compact_all().unwrap();
                    }
                }
                ended.store(true, SeqCst);
            });
            let (mut last, mut kept) = (0, Vec::new());
            while last < BATCHES {
                let is_last = ended.load(SeqCst);
                follower.catch_up().unwrap();
                let view = follower.db();
                let shown = check(&view);
                assert!(shown >= last && (shown == BATCHES || !is_last), "{shown} after {last}");
                if kept.len() < 20 && shown > last + 5 {
                    kept.push((view, shown));
                }
                last = shown;
            }
            assert!(!kept.is_empty());
            for (view, shown) in kept {
                assert_eq!(check(&view), shown, "a view has changed");
            }
        });
        // The last keyspace follows the last batch.
        follower.catch_up().unwrap();
        assert_eq!(follower.db().keyspaces(), db.keyspaces());
        assert_eq!(pairs(&follower.db()), pairs(&db));
        let fork = temporary.path().join("fork");
        follower.db().fork(&fork).unwrap();
        assert_eq!(check(&Db::open(&fork, options()).unwrap()), BATCHES);
    }
}

#[test]
fn an_ingest_is_never_missing_before_a_later_write() {
    let temporary = tempfile::tempdir().unwrap();
    let path = temporary.path().join("db");
    let db = Db::open(&path, options()).unwrap();
    let follower = Db::follow(&path, options()).unwrap();
    let ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for number in 1..=30_u64 {
                let file = temporary.path().join("file.sst");
                let mut writer = SortedWriter::create(&file, &options()).unwrap();
                writer.put("ingested", format!("{number:03}")).unwrap();
                writer.finish().unwrap();
                db.ingest(&[&file], &IngestOptions::default()).unwrap();
                db.put("put", format!("{number:03}")).unwrap();
            }
            ended.store(true, SeqCst);
        });
        loop {
            let is_last = ended.load(SeqCst);
            follower.catch_up().unwrap();
            let view = follower.db();
            let (put, ingested) = (text(&view, "put"), text(&view, "ingested"));
            assert!(put <= ingested, "{put:?} was written after {ingested:?}");
            if is_last {
                assert_eq!(put.as_deref(), Some("030"));
                break;
            }
        }
    });
}

#[test]
fn a_thread_catches_up_and_a_caller_waits_for_a_position() {
    let temporary = tempfile::tempdir().unwrap();
    let path = temporary.path().join("db");
    let db = Db::open(&path, options()).unwrap();
    let follower = Db::follow(&path, options()).unwrap();
    let error = follower.catch_up_every(Duration::ZERO).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    write_batch(&db, 1);
    let (_, position) = db.snapshot_with_position();
    assert!(follower.wait_for(position, LONG).unwrap());
    assert_eq!(check(&follower.db()), 1);
    assert!(!follower.wait_for(position + 1, Duration::ZERO).unwrap());
    follower.catch_up_every(Duration::from_secs(3600)).unwrap();
    follower.catch_up_every(Duration::from_millis(1)).unwrap();
    for number in 2..200 {
        write_batch(&db, number);
    }
    let (_, position) = db.snapshot_with_position();
    wait_until("the catch-up of the thread", || follower.position() == position);
    assert_eq!(check(&follower.db()), 199);
    assert_eq!(follower.promote().unwrap_err().kind(), ErrorKind::Locked);
    db.close().unwrap();
    let promoted = follower.promote().unwrap();
    write_batch(&promoted, 200);
    let (_, position) = promoted.snapshot_with_position();
    wait_until("the catch-up with the promoted store", || follower.position() == position);
    assert_eq!(check(&follower.db()), 200);
}

#[test]
fn damage_and_another_store_are_errors_and_the_view_stays() {
    let temporary = tempfile::tempdir().unwrap();
    let path = temporary.path().join("db");
    let db = Db::open(&path, options()).unwrap();
    write_batch(&db, 1);
    db.flush().unwrap();
    let follower = Db::follow(&path, options()).unwrap();
    write_batch(&db, 2);
    db.close().unwrap();
    let current = std::fs::read(path.join("CURRENT")).unwrap();
    std::fs::write(path.join("CURRENT"), b"damaged").unwrap();
    assert_eq!(follower.catch_up().unwrap_err().kind(), ErrorKind::Corruption);
    assert!(follower.lag().is_err());
    assert_eq!(check(&follower.db()), 1);
    std::fs::write(path.join("CURRENT"), current).unwrap();
    follower.catch_up().unwrap();
    assert!(follower.lag().unwrap().error.is_none());
    assert_eq!(check(&follower.db()), 2);
    // The follower stays in its directory, whatever its name becomes.
    let moved = temporary.path().join("moved");
    std::fs::rename(&path, &moved).unwrap();
    let other = Db::open(&path, options()).unwrap();
    other.put("last", "x").unwrap();
    follower.catch_up().unwrap();
    assert_eq!(check(&follower.db()), 2);
    // Another store under the same directory.
    for entry in std::fs::read_dir(&moved).unwrap() {
        std::fs::remove_file(entry.unwrap().path()).unwrap();
    }
    Db::open(&moved, options()).unwrap().close().unwrap();
    assert_eq!(follower.catch_up().unwrap_err().kind(), ErrorKind::Incompatible);
    assert_eq!(check(&follower.db()), 2);
}

/// Writes batches until it is killed, and prints the number of each when it was written.
fn victim(path: &Path) -> ! {
    let db = Db::open(path, options()).unwrap();
    let mut number = check(&db);
    let mut out = std::io::stdout().lock();
    loop {
        number += 1;
        write_batch(&db, number);
        if number.is_multiple_of(150) {
            db.compact_all().unwrap();
        }
        writeln!(out, "{number}").unwrap();
        out.flush().unwrap();
    }
}

/// Kills the victim when it is dropped.
struct KilledAtTheEnd(Child);

impl Drop for KilledAtTheEnd {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn start_victim(path: &Path) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "a_follower_of_a_killed_process_loses_nothing", "--nocapture"])
        .env(VICTIM, path)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

#[test]
fn a_follower_of_a_killed_process_loses_nothing() {
    if let Some(path) = std::env::var_os(VICTIM) {
        victim(Path::new(&path));
    }
    let temporary = tempfile::tempdir().unwrap();
    let path = temporary.path().join("db");
    Db::open(&path, options()).unwrap().close().unwrap();
    let follower = Db::follow(&path, options()).unwrap();
    for round in 0..4_u64 {
        let before = check(&follower.db());
        let mut child = start_victim(&path);
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let acknowledged = AtomicU64::new(before);
        let child = KilledAtTheEnd(child);
        std::thread::scope(|scope| {
            // An assertion that fails ends the victim before the scope waits for the reader.
            let mut child = child;
            let reader = scope.spawn(|| {
                for number in lines.filter_map(|line| line.ok()?.parse().ok()) {
                    acknowledged.store(number, SeqCst);
                }
            });
            while acknowledged.load(SeqCst) < before + 100 + 97 * round {
                let had = acknowledged.load(SeqCst);
                follower.catch_up().unwrap();
                assert!(check(&follower.db()) >= had, "an acknowledged batch is not shown");
                assert!(!reader.is_finished(), "the victim ended by itself");
            }
            assert_eq!(follower.promote().unwrap_err().kind(), ErrorKind::Locked);
            child.0.kill().unwrap();
            child.0.wait().unwrap();
        });
        let had = acknowledged.load(SeqCst);
        follower.catch_up().unwrap();
        let shown = check(&follower.db());
        assert!(shown >= had, "{shown} of {had}");
        if round % 2 == 1 {
            let promoted = follower.promote().unwrap();
            assert_eq!(check(&promoted), shown);
            write_batch(&promoted, shown + 1);
            follower.catch_up().unwrap();
            assert_eq!(check(&follower.db()), shown + 1);
            promoted.close().unwrap();
        }
    }
}
