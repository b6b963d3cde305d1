//! Prepared transactions through crashes, and transactions that are older than anything that the
//! commit oracle remembers.

use std::path::Path;
use std::sync::Arc;

use crate::common::tiny_options;
use esker::fs::{Fs, MemFs};
use esker::{
    Batch, Concurrency, Db, ErrorKind, Isolation, KeyspaceOptions, Options, Transaction,
    TransactionOptions, WriteOptions,
};
use esker_testkit::crash::{CrashFs, CrashModel};
use esker_testkit::fault::{Fault, FaultFs, FaultKind, Op, OpMask};

fn dir() -> &'static Path {
    Path::new("/db")
}

fn open(fs: Arc<dyn Fs>) -> Db {
    Db::open_on(fs, dir(), tiny_options()).unwrap()
}

fn optimistic() -> TransactionOptions {
    TransactionOptions::default().lock_timeout_ms(0)
}

fn serializable() -> TransactionOptions {
    optimistic().isolation(Isolation::Serializable)
}

fn pessimistic() -> TransactionOptions {
    optimistic().concurrency(Concurrency::Pessimistic)
}

fn value(db: &Db, key: &str) -> Option<String> {
    db.get(key).unwrap().map(|value| String::from_utf8(value.to_vec()).unwrap())
}

/// Prepares a transaction that reads "r" and the keys from "m" to "p", writes "w" and a key of a
/// keyspace, and deletes the keys from "x" to "z".
fn prepare(db: &Db, name: &str) {
    let users = db.keyspace("users", &KeyspaceOptions::default()).unwrap();
    let transaction = db.transaction(serializable());
    assert!(transaction.get("r").unwrap().is_some());
    assert_eq!(transaction.range("m".."p").unwrap().count(), 0);
    transaction.put("w", "new").unwrap();
    transaction.put_in(&users, "7", "Ada").unwrap();
    transaction.delete_range("x", "z").unwrap();
    transaction.prepare(name).unwrap();
}

fn filled(fs: Arc<dyn Fs>) -> Db {
    let db = open(fs);
    for key in ["r", "w", "x", "y", "z"] {
        db.put_with(key, "old", &WriteOptions::SYNC).unwrap();
    }
    db
}

/// Checks that the prepared transaction stops whoever it must stop, and nobody else.
fn check_locked(db: &Db, name: &str) {
    assert_eq!(db.prepared_transactions(), [name]);
    assert_eq!(value(db, "w").unwrap(), "old");
    assert_eq!(value(db, "y").unwrap(), "old");
    let users = db.existing_keyspace("users").unwrap().unwrap();
    assert!(users.get("7").unwrap().is_none());
    let stops: [fn(&Transaction) -> esker::Result<()>; 6] = [
        |t| t.put("w", "x"),
        |t| t.put("r", "x"),
        |t| t.delete("n"),
        |t| t.put("xx", "x"),
        |t| t.delete_range("v", "w0"),
        |t| t.get_for_update("w").map(drop),
    ];
    for (at, stopped) in stops.iter().enumerate() {
        let transaction = db.transaction(optimistic());
        stopped(&transaction).unwrap();
        transaction.put("free", "x").unwrap();
        let error = transaction.commit().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Conflict, "{at}");
        assert!(error.message().contains(&format!("\"{name}\"")), "{error}");
        let transaction = db.transaction(pessimistic());
        let error = stopped(&transaction).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Busy, "{at}");
        assert!(error.message().contains(&format!("\"{name}\"")), "{error}");
    }
    let other = db.transaction(optimistic());
    other.put_in(&users, "7", "Eve").unwrap();
    assert_eq!(other.commit().unwrap_err().kind(), ErrorKind::Conflict);
    // Reading what it has read, and writing anything else.
    let free = db.transaction(serializable());
    assert!(free.get("r").unwrap().is_some());
    free.put("q", "x").unwrap();
    free.put_in(&users, "8", "Bob").unwrap();
    free.commit().unwrap();
    let twin = db.transaction(optimistic());
    twin.put("other", "x").unwrap();
    assert_eq!(twin.prepare(name).unwrap_err().kind(), ErrorKind::InvalidArgument);
}

fn check_committed(db: &Db) {
    assert!(db.prepared_transactions().is_empty());
    assert_eq!(value(db, "w").unwrap(), "new");
    assert!(value(db, "x").is_none() && value(db, "y").is_none() && value(db, "z").is_some());
    let users = db.existing_keyspace("users").unwrap().unwrap();
    assert_eq!(users.get("7").unwrap().as_deref(), Some(&b"Ada"[..]));
    let after = db.transaction(serializable());
    after.put("w", "newer").unwrap();
    after.put("r", "newer").unwrap();
    after.commit().unwrap();
}

#[test]
fn a_prepared_transaction_waits_for_its_resolution_through_openings() {
    for commits in [true, false] {
        let fs: Arc<dyn Fs> = MemFs::new();
        let db = filled(fs.clone());
        prepare(&db, "payment 12");
        check_locked(&db, "payment 12");
        db.flush().unwrap();
        db.compact_range(None, None).unwrap();
        db.close().unwrap();
        let db = open(fs.clone());
        check_locked(&db, "payment 12");
        assert_eq!(db.keyspaces(), ["default", "users"], "the internal keyspace is not listed");
        drop(db);
        let reader = Db::open_read_only_on(fs.clone(), dir(), tiny_options()).unwrap();
        assert_eq!(reader.prepared_transactions(), ["payment 12"]);
        let error = reader.commit_prepared("payment 12").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ReadOnly);
        drop(reader);
        let db = open(fs.clone());
        if commits {
            db.commit_prepared("payment 12").unwrap();
            check_committed(&db);
        } else {
            db.rollback_prepared("payment 12").unwrap();
            assert_eq!(
                (value(&db, "w").unwrap(), value(&db, "y").unwrap()),
                ("old".into(), "old".into())
            );
            let free = db.transaction(serializable());
            free.put("w", "free").unwrap();
            free.commit().unwrap();
        }
        for outcome in [db.commit_prepared("payment 12"), db.rollback_prepared("payment 12")] {
            assert_eq!(outcome.unwrap_err().kind(), ErrorKind::NotFound);
        }
        db.close().unwrap();
        assert!(open(fs).prepared_transactions().is_empty());
    }
}

/// Runs `work` on a store with a power cut after each of its file operations. Returns for each
/// image what `see` finds in the store.
fn images<R>(
    before: impl Fn(&Db),
    work: impl Fn(&Db) -> esker::Result<()>,
    see: impl Fn(&Db) -> R,
) -> (Vec<R>, R) {
    let (mut seen, mut nth) = (Vec::new(), 1);
    loop {
        let disk = CrashFs::new();
        let fs = FaultFs::new(disk.clone());
        let db = filled(fs.clone());
        before(&db);
        fs.arm(Fault::for_ever(OpMask::CHANGES, nth, FaultKind::Io));
        let outcome = work(&db);
        let models = [CrashModel::SyncedOnly, CrashModel::Everything, CrashModel::NamesAhead];
        for model in models {
            let reopened = open(disk.crash_image(model));
            let now = see(&reopened);
            match outcome.is_ok() && fs.hits() == 0 {
                true => return (seen, now),
                false => seen.push(now),
            }
        }
        fs.disarm();
        drop(db);
        nth += 1;
        assert!(nth < 500, "the work needs countless operations");
    }
}

#[test]
fn a_crash_leaves_a_transaction_prepared_or_not() {
    let see = |db: &Db| {
        let names = db.prepared_transactions();
        if !names.is_empty() {
            check_locked(db, "p");
            db.commit_prepared("p").unwrap();
            check_committed(db);
        } else {
            assert_eq!(value(db, "w").unwrap(), "old");
        }
        names.len()
    };
    let before = |db: &Db| drop(db.keyspace("users", &KeyspaceOptions::default()).unwrap());
    let work = |db: &Db| {
        let users = db.existing_keyspace("users")?.unwrap();
        let transaction = db.transaction(serializable());
        transaction.get("r")?;
        transaction.range("m".."p")?.for_each(drop);
        transaction.put("w", "new")?;
        transaction.put_in(&users, "7", "Ada")?;
        transaction.delete_range("x", "z")?;
        transaction.prepare("p")
    };
    let (seen, last) = images(before, work, see);
    assert_eq!(last, 1, "an acknowledged preparation survives a power cut");
    assert!(seen.contains(&0));
}

#[test]
fn a_crash_during_a_resolution_leaves_it_whole_or_undone() {
    let see = |db: &Db| {
        let undone = !db.prepared_transactions().is_empty();
        if undone {
            check_locked(db, "p");
            db.commit_prepared("p").unwrap();
        }
        check_committed(db);
        undone
    };
    let (seen, last) = images(|db| prepare(db, "p"), |db| db.commit_prepared("p"), see);
    assert!(!last && seen.contains(&true));
}

#[test]
fn a_failed_preparation_is_rolled_back() {
    let db = filled(MemFs::new());
    let holder = db.transaction(pessimistic());
    holder.put("w", "held").unwrap();
    let blocked = db.transaction(optimistic());
    blocked.put("w", "new").unwrap();
    assert_eq!(blocked.prepare("a").unwrap_err().kind(), ErrorKind::Busy);
    let late = db.transaction(optimistic());
    late.put("x", "new").unwrap();
    db.put("x", "plain").unwrap();
    assert_eq!(late.prepare("a").unwrap_err().kind(), ErrorKind::Conflict);
    for name in ["", &"n".repeat(256)] {
        let transaction = db.transaction(optimistic());
        transaction.put("y", "new").unwrap();
        let error = transaction.prepare(name).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    }
    assert!(db.prepared_transactions().is_empty());
    holder.commit().unwrap();
    // The name and the locks are free again.
    for (name, key) in [("a", "w"), ("b", "x")] {
        let transaction = db.transaction(pessimistic());
        transaction.put(key, "last").unwrap();
        transaction.prepare(name).unwrap();
    }
    assert_eq!(db.prepared_transactions(), ["a", "b"]);
    // A plain write is not stopped, and the commit writes over it.
    db.put("w", "plain").unwrap();
    db.commit_prepared("a").unwrap();
    db.rollback_prepared("b").unwrap();
    assert_eq!(
        (value(&db, "w").unwrap(), value(&db, "x").unwrap()),
        ("last".into(), "plain".into())
    );
    // A transaction that reads before the commit conflicts with it.
    let transaction = db.transaction(optimistic());
    transaction.put("w", "c").unwrap();
    transaction.prepare("c").unwrap();
    let reader = db.transaction(serializable());
    reader.get("w").unwrap();
    reader.put("elsewhere", "").unwrap();
    db.commit_prepared("c").unwrap();
    assert_eq!(reader.commit().unwrap_err().kind(), ErrorKind::Conflict);
}

#[test]
fn a_prepared_transaction_outlives_its_keyspace_and_copies_of_the_store() {
    let fs: Arc<dyn Fs> = MemFs::new();
    let db = filled(fs.clone());
    prepare(&db, "p");
    db.checkpoint("/copy").unwrap();
    db.drop_keyspace("users").unwrap();
    db.commit_prepared("p").unwrap();
    assert_eq!(value(&db, "w").unwrap(), "new");
    assert!(db.existing_keyspace("users").unwrap().is_none());
    db.flush().unwrap();
    let copy = Db::open_on(fs, "/copy", tiny_options()).unwrap();
    check_locked(&copy, "p");
    copy.commit_prepared("p").unwrap();
    check_committed(&copy);
}

/// Writes so many other keys that the oracle forgets, memtables are flushed, and tables are merged.
fn write_much(db: &Db) {
    for n in 0..30_000u32 {
        let mut batch = Batch::new();
        batch.put([b"much/".as_slice(), &n.to_be_bytes()].concat(), [7; 20]);
        if n % 20 == 0 {
            batch.delete_range(format!("none/{n}"), format!("none/{n}/"));
        }
        db.write_with(&batch, &WriteOptions::BUFFERED).unwrap();
    }
    db.compact_range(None, None).unwrap();
}

#[test]
fn an_old_transaction_fails_exactly_if_its_items_were_written() {
    let db = filled(MemFs::new());
    let begin = |options| {
        let transaction = db.transaction(options);
        transaction.put("mine", "").unwrap();
        transaction
    };
    let untouched = begin(optimistic());
    untouched.put("w", "kept").unwrap();
    let range = begin(serializable());
    assert_eq!(range.range("a".."m").unwrap().count(), 0);
    let put = begin(optimistic());
    put.put("r", "").unwrap();
    let deleted = begin(optimistic());
    deleted.get_for_update("x").unwrap();
    let cleared = begin(serializable());
    assert_eq!(cleared.range("x".."xx").unwrap().count(), 1);
    let inside = begin(serializable());
    assert_eq!(inside.range("much/".."much/0").unwrap().count(), 0);
    let range_put = begin(optimistic());
    range_put.delete_range("y0", "z").unwrap();
    db.put("r", "changed").unwrap();
    db.delete("x").unwrap();
    db.delete_range("x", "y").unwrap();
    write_much(&db);
    db.put("y1", "").unwrap();
    for (transaction, what) in [(put, "put"), (deleted, "deleted"), (cleared, "cleared")] {
        assert_eq!(transaction.commit().unwrap_err().kind(), ErrorKind::Conflict, "{what}");
    }
    for (transaction, what) in [(inside, "inside"), (range_put, "range put")] {
        assert_eq!(transaction.commit().unwrap_err().kind(), ErrorKind::Conflict, "{what}");
    }
    untouched.commit().unwrap();
    // The commit before has written "mine".
    assert_eq!(range.commit().unwrap_err().kind(), ErrorKind::Conflict);
    let range = db.transaction(serializable());
    assert_eq!(range.range("a".."m").unwrap().count(), 0);
    range.put("n", "").unwrap();
    write_much(&db);
    range.commit().unwrap();
    assert_eq!(db.metrics().snapshots, 0);
}

#[test]
fn a_transaction_of_many_operations_commits_as_one() {
    let db = open(MemFs::new());
    let transaction = db.transaction(serializable());
    for n in 0..100_000u32 {
        transaction.put(n.to_be_bytes(), [1; 30]).unwrap();
    }
    for n in (0..100_000u32).step_by(2) {
        transaction.delete(n.to_be_bytes()).unwrap();
    }
    transaction.delete_range(50_000u32.to_be_bytes(), 60_000u32.to_be_bytes()).unwrap();
    assert_eq!(transaction.iter().unwrap().count(), 45_000);
    assert_eq!(db.iter().unwrap().count(), 0);
    transaction.commit().unwrap();
    assert_eq!(db.iter().unwrap().count(), 45_000);
    let late = db.transaction(optimistic());
    for n in 0..100_000u32 {
        late.put(n.to_be_bytes(), [2; 30]).unwrap();
    }
    db.delete(99_999u32.to_be_bytes()).unwrap();
    assert_eq!(late.commit().unwrap_err().kind(), ErrorKind::Conflict);
    assert_eq!(db.iter().unwrap().count(), 44_999);
}

#[test]
fn a_commit_without_space_writes_nothing_and_later_checks_are_right() {
    let fs = FaultFs::new(MemFs::new());
    let options = Options { wal_io: esker::WalIo::Write, ..tiny_options() };
    let db = Db::open_on(fs.clone(), dir(), options).unwrap();
    db.put("k", "old").unwrap();
    let reader = db.transaction(serializable());
    assert_eq!(reader.iter().unwrap().count(), 1);
    let failing = db.transaction(optimistic());
    failing.put("k", "lost").unwrap();
    fs.arm(Fault::once(OpMask::of(&[Op::Write]), 1, FaultKind::NoSpace).on(".wal"));
    let error = failing.commit().unwrap_err();
    fs.disarm();
    assert_eq!(error.kind(), ErrorKind::NoSpace, "{error}");
    assert_eq!(value(&db, "k").unwrap(), "old");
    // The lost write is no conflict, and the next one is.
    reader.put("l", "").unwrap();
    reader.commit().unwrap();
    let late = db.transaction(serializable());
    late.get("k").unwrap();
    late.put("m", "").unwrap();
    db.put("k", "new").unwrap();
    assert_eq!(late.commit().unwrap_err().kind(), ErrorKind::Conflict);
}
