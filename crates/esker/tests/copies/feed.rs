//! The change feed: its order, its content, its slots, and what happens when they are gone.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::common::tiny_options;
use esker::feed::{Change, ChangeBatch, SlotOptions};
use esker::fs::{Fs, MemFs};
use esker::{
    Batch, Db, Durability, ErrorKind, Event, EventListener, KeyspaceOptions, Options,
    TransactionOptions, WalIo, WriteOptions,
};
use esker_testkit::crash::{CrashFs, CrashModel};

fn dir() -> &'static Path {
    Path::new("/db")
}

fn open(fs: &Arc<dyn Fs>) -> Db {
    Db::open_on(fs.clone(), dir(), tiny_options()).unwrap()
}

fn memory() -> Arc<dyn Fs> {
    MemFs::new()
}

fn slot_options() -> SlotOptions {
    SlotOptions::default()
}

/// Returns the changes as short texts.
fn texts(batch: &ChangeBatch) -> Vec<String> {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let of = |change: &Change| match change {
        Change::Put { keyspace, key, value, expires_ms: None } => {
            format!("{keyspace}: {}={}", text(key), text(value))
        }
        Change::Put { keyspace, key, value, expires_ms: Some(_) } => {
            format!("{keyspace}: {}={} expires", text(key), text(value))
        }
        Change::Merge { keyspace, key, operand } => {
            format!("{keyspace}: {}+{}", text(key), text(operand))
        }
        Change::Delete { keyspace, key } => format!("{keyspace}: -{}", text(key)),
        Change::DeleteRange { keyspace, start, end } => {
            format!("{keyspace}: -{}..{}", text(start), text(end))
        }
        Change::Clear { keyspace } => format!("{keyspace}: clear"),
        Change::KeyspaceCreated { keyspace, key_order, options } => {
            format!("create {keyspace} {key_order} {options:?}")
        }
        Change::KeyspaceRenamed { keyspace, new_name } => format!("rename {keyspace} {new_name}"),
        Change::KeyspaceDropped { keyspace } => format!("drop {keyspace}"),
        _ => panic!("an unknown change"),
    };
    batch.changes.iter().map(of).collect()
}

fn all_texts(changes: esker::feed::Changes) -> Vec<Vec<String>> {
    changes.map(|batch| texts(&batch.unwrap())).collect()
}

/// Calls `test` with a store of each way to write logs.
fn with_each_log(test: impl Fn(&Path, &dyn Fn() -> Options)) {
    for wal_io in [WalIo::Mmap, WalIo::Write] {
        let temporary = tempfile::tempdir().unwrap();
        let options = || Options { wal_io, ..tiny_options() };
        test(&temporary.path().join("db"), &options);
    }
}

#[test]
fn batches_come_in_order_with_their_bounds_and_keyspaces() {
    with_each_log(|path, options| {
        let merging =
            || Options { merge_operator: esker::built_in_merge_operator("add_i64"), ..options() };
        let db = Db::open(path, merging()).unwrap();
        let slot = db.subscribe("s", &slot_options()).unwrap();
        assert_eq!(slot.position().unwrap(), 0);
        db.put("a", "1").unwrap();
        let ttl = KeyspaceOptions::default().ttl(Duration::from_secs(3600));
        let logs = db.keyspace("logs", &ttl).unwrap();
        let mut batch = Batch::new();
        batch.put("b", "2").delete("a").put_in(&logs, "x", "y").merge("n", "5");
        db.write(&batch).unwrap();
        db.delete_range("a", "c").unwrap();
        logs.delete("x").unwrap();
        logs.clear().unwrap();
        db.put_with_ttl("t", "u", Duration::from_secs(60)).unwrap();
        db.rename_keyspace("logs", "records").unwrap();
        logs.put("p", "q").unwrap();
        db.drop_keyspace("records").unwrap();
        db.put_with("z", "9", &WriteOptions::SYNC).unwrap();
        let expected: Vec<Vec<&str>> = vec![
            vec!["default: a=1"],
            vec!["create logs esker.bytewise [(\"ttl_ms\", \"3600000\")]"],
            vec!["default: b=2", "default: -a", "logs: x=y expires", "default: n+5"],
            vec!["default: -a..c"],
            vec!["logs: -x"],
            vec!["logs: clear"],
            vec!["default: t=u expires"],
            vec!["rename logs records"],
            vec!["records: p=q expires"],
            vec!["drop records"],
            vec!["default: z=9"],
        ];
        assert_eq!(all_texts(slot.changes().unwrap()), expected);
        // The same after every memtable was flushed, and after the store was opened again.
        db.flush().unwrap();
        db.compact_all().unwrap();
        assert_eq!(all_texts(slot.changes().unwrap()), expected);
        let batches: Vec<ChangeBatch> = slot.changes().unwrap().map(|b| b.unwrap()).collect();
        for pair in batches.windows(2) {
            assert_eq!(pair[1].previous, pair[0].sequence);
            assert_eq!(pair[1].previous_checksum, pair[0].checksum);
            assert!(pair[1].first_sequence > pair[0].sequence);
        }
        drop(slot);
        db.close().unwrap();
        let db = Db::open(path, merging()).unwrap();
        let slot = db.slot("s").unwrap();
        assert_eq!(all_texts(slot.changes().unwrap()), expected);
        // From every position the rest, with the names of then.
        for (at, batch) in batches.iter().enumerate() {
            assert_eq!(all_texts(db.changes(batch.sequence).unwrap()), expected[at + 1..]);
            let mut rest = db.changes(batch.sequence).unwrap();
            if let Some(next) = rest.next() {
                assert_eq!(next.unwrap().previous_checksum, batch.checksum);
            }
        }
        slot.confirm(batches[4].sequence).unwrap();
        assert_eq!(all_texts(slot.changes().unwrap()), expected[5..]);
    });
}

#[test]
fn a_position_within_a_batch_or_in_the_future_is_refused() {
    let db = open(&memory());
    let slot = db.subscribe("s", &slot_options()).unwrap();
    let mut batch = Batch::new();
    batch.put("a", "1").put("b", "2");
    db.write(&batch).unwrap();
    let error = db.changes(1).unwrap().next().unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    assert!(error.message().contains("within the batch"), "{error}");
    for error in [db.changes(3).unwrap_err(), slot.confirm(3).unwrap_err()] {
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        assert!(error.message().contains("in the future"), "{error}");
    }
    slot.confirm(2).unwrap();
    slot.confirm(1).unwrap();
    assert_eq!(slot.position().unwrap(), 2);
}

#[test]
fn a_prepared_transaction_appears_when_it_is_committed() {
    let fs = memory();
    let db = open(&fs);
    let slot = db.subscribe("s", &slot_options()).unwrap();
    let users = db.keyspace("users", &KeyspaceOptions::default()).unwrap();
    for name in ["kept", "dropped"] {
        let transaction = db.transaction(TransactionOptions::default());
        transaction.put(name, "1").unwrap();
        transaction.put_in(&users, name, "2").unwrap();
        transaction.prepare(name).unwrap();
    }
    db.put("between", "3").unwrap();
    let created = vec!["create users esker.bytewise []".to_string()];
    let between = vec!["default: between=3".to_string()];
    let kept = vec!["default: kept=1".to_string(), "users: kept=2".to_string()];
    assert_eq!(all_texts(slot.changes().unwrap()), [created.clone(), between.clone()]);
    drop((users, slot));
    db.close().unwrap();
    let db = open(&fs);
    db.commit_prepared("kept").unwrap();
    db.rollback_prepared("dropped").unwrap();
    let slot = db.slot("s").unwrap();
    assert_eq!(all_texts(slot.changes().unwrap()), [created, between, kept]);
    let mut changes = slot.changes().unwrap();
    changes.by_ref().for_each(drop);
    assert_eq!(changes.position(), db.metrics().last_seqno, "internal batches are passed");
}

#[test]
fn writes_without_a_log_are_logged_while_there_is_a_slot() {
    let db = open(&memory());
    db.put_with("a", "1", &WriteOptions::NONE).unwrap();
    let slot = db.subscribe("s", &slot_options()).unwrap();
    db.put_with("b", "2", &WriteOptions::NONE).unwrap();
    let none = WriteOptions::default().durability(Durability::None);
    db.put_with("c", "3", &none).unwrap();
    assert_eq!(all_texts(slot.changes().unwrap()), [["default: b=2"], ["default: c=3"]]);
}

#[test]
fn logs_stay_until_they_are_confirmed() {
    let fs = memory();
    let db = open(&fs);
    let logs = || {
        let names = fs.list(dir()).unwrap();
        names.iter().filter(|entry| entry.name.ends_with(".wal")).count()
    };
    let (slow, fast) = (
        db.subscribe("slow", &slot_options()).unwrap(),
        db.subscribe("fast", &slot_options()).unwrap(),
    );
    for round in 0..6 {
        db.put("k", round.to_string()).unwrap();
        db.flush().unwrap();
    }
    let before = logs();
    assert!(before >= 7, "{before}");
    assert!(db.slots().unwrap().iter().all(|slot| slot.lag_bytes > 0 && slot.problem.is_none()));
    fast.confirm(6).unwrap();
    assert_eq!(logs(), before, "the other slot needs them");
    assert_eq!(db.slots().unwrap()[0].lag_bytes, 0);
    slow.confirm(3).unwrap();
    assert!(logs() <= before - 3);
    assert_eq!(slow.changes().unwrap().count(), 3);
    let error = db.changes(0).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert!(error.message().contains("bootstrap again"), "{error}");
    db.drop_slot("slow").unwrap();
    assert!(logs() <= 2, "{}", logs());
    for error in
        [slow.confirm(4).unwrap_err(), slow.changes().unwrap_err(), slow.position().unwrap_err()]
    {
        assert_eq!(error.kind(), ErrorKind::NotFound);
        assert!(error.message().contains("there is no slot \"slow\""), "{error}");
    }
    assert_eq!(db.drop_slot("slow").unwrap_err().kind(), ErrorKind::NotFound);
}

#[derive(Default)]
struct Dropped(std::sync::Mutex<Vec<String>>);

impl EventListener for Dropped {
    fn on_event(&self, event: &Event) {
        if let Event::SlotDropped { .. } = event {
            self.0.lock().unwrap().push(event.to_string());
        }
    }
}

#[test]
fn a_slot_that_lags_too_far_is_dropped_and_says_so() {
    let fs = memory();
    let seen = Arc::new(Dropped::default());
    let options = || Options { listeners: vec![seen.clone()], ..tiny_options() };
    let db = Db::open_on(fs.clone(), dir(), options()).unwrap();
    let slot = db.subscribe("s", &slot_options().lag_limit_bytes(10_000)).unwrap();
    let mut reading = slot.changes().unwrap();
    let value = vec![7; 1000];
    for number in 0..60 {
        db.put(format!("{number:03}"), &value).unwrap();
    }
    db.flush().unwrap();
    let info = db.slots().unwrap().remove(0);
    let said = info.problem.unwrap();
    assert!(info.lag_bytes > 10_000, "{}", info.lag_bytes);
    assert!(said.contains(&format!("lagged {} bytes", info.lag_bytes)), "{said}");
    let logs = fs.list(dir()).unwrap().iter().filter(|e| e.name.ends_with(".wal")).count();
    assert!(logs <= 3, "{logs}");
    // A reader that has the first log open ends with the reason, not at a seeming present.
    let end = reading.find_map(|batch| batch.err()).unwrap();
    for error in [end, slot.changes().unwrap_err(), slot.confirm(1).unwrap_err()] {
        assert_eq!((error.kind(), error.message()), (ErrorKind::NotFound, &*said));
    }
    assert_eq!(db.subscribe("s", &slot_options()).unwrap_err().message(), said);
    let events = seen.0.lock().unwrap().clone();
    assert_eq!(events.len(), 1, "{events:?}");
    assert!(events[0].contains("slot \"s\" dropped: it lagged"), "{events:?}");
    drop(slot);
    drop(reading);
    db.close().unwrap();
    let db = Db::open_on(fs.clone(), dir(), options()).unwrap();
    assert_eq!(db.slot("s").unwrap().changes().unwrap_err().message(), said);
    db.drop_slot("s").unwrap();
    let slot = db.subscribe("s", &slot_options()).unwrap();
    assert_eq!(slot.changes().unwrap().count(), 0);
}

#[test]
fn a_live_reader_sees_the_writes_of_all_threads_in_order() {
    with_each_log(|path, options| {
        const WRITERS: u64 = 3;
        const WRITES: u64 = 300;
        let db = Db::open(path, options()).unwrap();
        let slot = db.subscribe("s", &slot_options()).unwrap();
        std::thread::scope(|scope| {
            for writer in 0..WRITERS {
                let db = db.clone();
                scope.spawn(move || {
                    for number in 0..WRITES {
                        let mut batch = Batch::new();
                        let key = format!("{writer} {number:04}");
                        batch.put(&key, "x").put(format!("{key} second"), [7; 40]);
                        db.write(&batch).unwrap();
                    }
                });
            }
            let mut changes = slot.changes().unwrap();
            let mut next = [0; WRITERS as usize];
            let (mut count, mut last) = (0, 0);
            while count < WRITERS * WRITES {
                let Some(batch) = changes.wait(Duration::from_secs(1)).unwrap() else { continue };
                assert_eq!((batch.previous, batch.changes.len()), (last, 2));
                let Change::Put { key, .. } = &batch.changes[0] else { panic!() };
                let text = String::from_utf8(key.clone()).unwrap();
                let (writer, number) = text.split_once(' ').unwrap();
                let writer: usize = writer.parse().unwrap();
                assert_eq!(number.parse::<u64>().unwrap(), next[writer]);
                next[writer] += 1;
                last = batch.sequence;
                count += 1;
                if count % 100 == 0 {
                    slot.confirm(last).unwrap();
                }
            }
            assert!(changes.wait(Duration::ZERO).unwrap().is_none());
        });
    });
}

#[test]
fn a_wait_ends_when_the_store_is_closed() {
    let db = open(&memory());
    let slot = db.subscribe("s", &slot_options()).unwrap();
    let waits = Arc::new(AtomicBool::new(false));
    let waiting = std::thread::spawn({
        let (mut changes, waits) = (slot.changes().unwrap(), waits.clone());
        move || {
            waits.store(true, Ordering::SeqCst);
            changes.wait(Duration::from_secs(100_000))
        }
    });
    while !waits.load(Ordering::SeqCst) {
        std::thread::yield_now();
    }
    db.close().unwrap();
    assert_eq!(waiting.join().unwrap().unwrap_err().kind(), ErrorKind::Closed);
    assert_eq!(slot.changes().unwrap_err().kind(), ErrorKind::Closed);
}

#[test]
fn a_snapshot_and_its_position_fit_together() {
    let db = open(&memory());
    let slot = db.subscribe("s", &slot_options()).unwrap();
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            for number in 0..500 {
                let mut batch = Batch::new();
                batch.put(format!("a{number:04}"), "1").put(format!("b{number:04}"), "1");
                db.write(&batch).unwrap();
            }
        });
        loop {
            let done = writer.is_finished();
            let (snapshot, position) = db.snapshot_with_position();
            let mut copy: Vec<Vec<u8>> =
                snapshot.iter().unwrap().map(|pair| pair.unwrap().0).collect();
            assert_eq!(copy.len() as u64, position);
            for batch in db.changes(position).unwrap() {
                for change in batch.unwrap().changes {
                    let Change::Put { key, .. } = change else { panic!() };
                    assert!(!copy.contains(&key));
                    copy.push(key);
                }
            }
            assert!(copy.len() as u64 >= position);
            slot.confirm(position).unwrap();
            if done {
                assert_eq!(copy.len(), 1000);
                break;
            }
        }
    });
}

#[test]
fn slots_and_positions_survive_every_kind_of_crash() {
    for model in CrashModel::all(7) {
        let crash = CrashFs::new();
        let fs: Arc<dyn Fs> = crash.clone();
        let db = open(&fs);
        let slot = db.subscribe("s", &slot_options()).unwrap();
        let users = db.keyspace("users", &KeyspaceOptions::default()).unwrap();
        for number in 0..40 {
            users.put(format!("{number:03}"), [3; 300]).unwrap();
        }
        let confirmed = slot.changes().unwrap().nth(10).unwrap().unwrap().sequence;
        slot.confirm(confirmed).unwrap();
        db.put_with("durable", "1", &WriteOptions::SYNC).unwrap();
        db.flush().unwrap();
        users.put("lost perhaps", "2").unwrap();
        let image = crash.crash_image(model);
        let fs: Arc<dyn Fs> = image;
        let db = open(&fs);
        let slot = db.slot("s").unwrap();
        assert_eq!(slot.position().unwrap(), confirmed, "{model:?}");
        let texts: Vec<String> = all_texts(slot.changes().unwrap()).concat();
        let (at, count) = (texts.iter().position(|t| t == "default: durable=1"), texts.len());
        assert_eq!(at, Some(30), "{model:?}: {texts:?}");
        assert!(count <= 32, "{model:?}");
        let users = db.existing_keyspace("users").unwrap().unwrap();
        assert_eq!(users.get("lost perhaps").unwrap().is_some(), count == 32, "{model:?}");
        db.put("after", "3").unwrap();
        assert_eq!(all_texts(slot.changes().unwrap()).concat().len(), count + 1);
    }
}

#[test]
fn a_damaged_slot_is_reported_and_keeps_nothing() {
    let fs = memory();
    let db = open(&fs);
    let slot = db.subscribe("s", &slot_options()).unwrap();
    db.put("a", "1").unwrap();
    db.close().unwrap();
    drop(slot);
    let path = dir().join("slot-s");
    let bytes = fs.read(&path, 1000).unwrap();
    for at in [0, 20, 30, bytes.len() - 1] {
        let mut damaged = bytes.clone();
        damaged[at] ^= 1;
        fs.remove(&path).unwrap();
        fs.create_new(&path).unwrap().append(&damaged).unwrap();
        let db = open(&fs);
        let slot = db.slot("s").unwrap();
        let error = slot.changes().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corruption);
        assert_eq!(error.path(), Some(&*path));
        assert_eq!(slot.confirm(1).unwrap_err().kind(), ErrorKind::Corruption);
        assert_eq!(db.subscribe("s", &slot_options()).unwrap_err().kind(), ErrorKind::Corruption);
        assert!(db.slots().unwrap()[0].problem.as_deref().unwrap().contains("damaged"));
        db.put("b", "2").unwrap();
        db.flush().unwrap();
        assert_eq!(db.verify(&mut |_, _| {}).unwrap().problems.len(), 0);
    }
    let db = open(&fs);
    db.drop_slot("s").unwrap();
    assert_eq!(db.subscribe("s", &slot_options()).unwrap().changes().unwrap().count(), 0);
    for name in ["", "a b", "../x", "ä", &"x".repeat(65)] {
        let error = db.subscribe(name, &slot_options()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{name}");
    }
    assert_eq!(db.slot("other").unwrap_err().kind(), ErrorKind::NotFound);
}

#[test]
fn copies_of_a_store_have_no_slots() {
    let temporary = tempfile::tempdir().unwrap();
    let path = temporary.path().join("db");
    let db = Db::open(&path, tiny_options()).unwrap();
    let slot = db.subscribe("s", &slot_options()).unwrap();
    db.put("a", "1").unwrap();
    let copy = temporary.path().join("copy");
    db.checkpoint(&copy).unwrap();
    let copied = Db::open(&copy, tiny_options()).unwrap();
    assert!(copied.slots().unwrap().is_empty());
    copied.put("b", "2").unwrap();
    copied.close().unwrap();
    // The file of a slot in the directory of another store is refused.
    std::fs::copy(path.join("slot-s"), copy.join("slot-s")).unwrap();
    let copied = Db::open(&copy, tiny_options()).unwrap();
    let error = copied.slot("s").unwrap().changes().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Incompatible);
    drop(slot);
    copied.close().unwrap();
    db.close().unwrap();
    Db::repair(&path, tiny_options()).unwrap();
    let repaired = Db::open(&path, tiny_options()).unwrap();
    assert!(repaired.slots().unwrap().is_empty());
    assert_eq!(&*repaired.get("a").unwrap().unwrap(), b"1");
    repaired.close().unwrap();
    Db::destroy(&copy).unwrap();
    assert!(!copy.exists());
}

#[test]
fn a_read_only_handle_follows_the_writer() {
    with_each_log(|path, options| {
        let db = Db::open(path, options()).unwrap();
        drop(db.subscribe("s", &slot_options()).unwrap());
        db.put("first", "0").unwrap();
        let reader = Db::open_read_only(path, options()).unwrap();
        let slot = reader.slot("s").unwrap();
        let mut changes = slot.changes().unwrap();
        let (stop, wait) = (Arc::new(AtomicBool::new(false)), Duration::from_secs(1));
        let writer = std::thread::spawn({
            let (db, stop) = (db.clone(), stop.clone());
            move || {
                let mut number = 0_u32;
                while !stop.load(Ordering::SeqCst) || number < 400 {
                    db.put(format!("{:03}", number % 200), number.to_string()).unwrap();
                    number += 1;
                }
                let users = db.keyspace("users", &KeyspaceOptions::default()).unwrap();
                users.put("last", "1").unwrap();
                stop.store(true, Ordering::SeqCst);
                number
            }
        });
        let (mut count, mut last) = (0_u32, 0);
        loop {
            let Some(batch) = changes.wait(wait).unwrap() else { continue };
            assert_eq!(batch.previous, last);
            last = batch.sequence;
            if texts(&batch) == ["users: last=1"] {
                break;
            }
            let expected = format!("={}", count.saturating_sub(1));
            let text = texts(&batch).concat();
            assert!(text.ends_with(&expected) || text.starts_with("create"), "{text} {expected}");
            count += 1;
            if count == 300 {
                slot.confirm(last).unwrap();
                stop.store(true, Ordering::SeqCst);
            }
        }
        assert_eq!(count, writer.join().unwrap() + 2);
        let confirmed = db.slot("s").unwrap().position().unwrap();
        assert!(confirmed > 0);
        db.flush().unwrap();
        assert!(db.changes(0).is_err(), "the confirmation of another handle was not seen");
        assert_eq!(db.changes(confirmed).unwrap().count(), changes_after(&db, confirmed));
    });
}

fn changes_after(db: &Db, position: u64) -> usize {
    db.slot("s")
        .unwrap()
        .changes()
        .unwrap()
        .filter(|b| b.as_ref().unwrap().sequence > position)
        .count()
}
