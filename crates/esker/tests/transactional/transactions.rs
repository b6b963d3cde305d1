//! Transactions: what each isolation permits and prevents, in both kinds of concurrency, and what
//! bad use gets. The scenarios are those of Martin Kleppmann's Hermitage and of Adya's phenomena,
//! in words of our own.

use std::sync::Arc;
use std::time::Duration;

use crate::common::tiny_options;
use esker::fs::{Fs, MemFs};
use esker::{
    Concurrency, Db, Durability, ErrorKind, Isolation, Keyspace, KeyspaceOptions, Options, Result,
    Transaction, TransactionOptions,
};

type Mode = (Isolation, Concurrency);

const MODES: [Mode; 4] = [
    (Isolation::Snapshot, Concurrency::Optimistic),
    (Isolation::Snapshot, Concurrency::Pessimistic),
    (Isolation::Serializable, Concurrency::Optimistic),
    (Isolation::Serializable, Concurrency::Pessimistic),
];

fn open() -> Db {
    let fs: Arc<dyn Fs> = MemFs::new();
    Db::open_on(fs, "/db", tiny_options()).unwrap()
}

/// A store in which key 1 has the value 10 and key 2 the value 20.
fn two_keys() -> Db {
    let db = open();
    db.put("1", "10").unwrap();
    db.put("2", "20").unwrap();
    db
}

/// Options without waits, so that one thread can run several transactions.
fn options((isolation, concurrency): Mode) -> TransactionOptions {
    TransactionOptions::default().isolation(isolation).concurrency(concurrency).lock_timeout_ms(0)
}

fn value(db: &Db, key: &str) -> Option<String> {
    db.get(key).unwrap().map(|value| String::from_utf8(value.to_vec()).unwrap())
}

/// A transaction that ends at its first conflict. Its calls return `None` from then on.
struct Actor(Option<Transaction>);

impl Actor {
    fn new(db: &Db, mode: Mode) -> Actor {
        Actor(Some(db.transaction(options(mode))))
    }

    fn call<R>(&mut self, call: impl FnOnce(&Transaction) -> Result<R>) -> Option<R> {
        match call(self.0.as_ref()?) {
            Ok(result) => Some(result),
            Err(error) => {
                assert!(matches!(error.kind(), ErrorKind::Conflict | ErrorKind::Busy), "{error}");
                self.0 = None;
                None
            }
        }
    }

    fn get(&mut self, key: &str) -> Option<Option<String>> {
        let text = |value: esker::Slice| String::from_utf8(value.to_vec()).unwrap();
        self.call(|t| Ok(t.get(key)?.map(text)))
    }

    fn put(&mut self, key: &str, value: &str) {
        self.call(|t| t.put(key, value));
    }

    /// Returns the values that `wanted` is true for.
    fn select(&mut self, wanted: impl Fn(u64) -> bool) -> Option<Vec<u64>> {
        self.call(|t| {
            let mut found = Vec::new();
            for pair in t.iter()? {
                let value: u64 = String::from_utf8(pair?.1).unwrap().parse().unwrap();
                if wanted(value) {
                    found.push(value);
                }
            }
            Ok(found)
        })
    }

    fn commit(&mut self) -> bool {
        match self.0.take().map(Transaction::commit) {
            Some(Ok(())) => true,
            Some(Err(error)) => {
                assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
                false
            }
            None => false,
        }
    }
}

fn for_each_mode(run: impl Fn(Mode, &Db, Actor, Actor)) {
    for mode in MODES {
        let db = two_keys();
        let (a, b) = (Actor::new(&db, mode), Actor::new(&db, mode));
        run(mode, &db, a, b);
        // Nothing stays locked.
        let mut after = Actor::new(&db, mode);
        after.put("1", "0");
        after.put("2", "0");
        assert!(after.commit(), "{mode:?}");
    }
}

fn is_serializable(mode: Mode) -> bool {
    mode.0 == Isolation::Serializable
}

#[test]
fn dirty_writes_do_not_mix() {
    for_each_mode(|mode, db, mut a, mut b| {
        a.put("1", "11");
        b.put("1", "12");
        a.put("2", "21");
        assert!(a.commit(), "{mode:?}");
        b.put("2", "22");
        assert!(!b.commit(), "{mode:?}");
        assert_eq!((value(db, "1").unwrap(), value(db, "2").unwrap()), ("11".into(), "21".into()));
    });
}

#[test]
fn aborted_and_intermediate_values_are_never_read() {
    for_each_mode(|mode, db, mut a, mut b| {
        let ten = |read: Option<Option<String>>| assert!(read.is_none_or(|v| v.unwrap() == "10"));
        a.put("1", "101");
        ten(b.get("1"));
        a.put("1", "11");
        ten(b.get("1"));
        assert_eq!(value(db, "1").unwrap(), "10", "{mode:?}");
        let mut c = Actor::new(db, mode);
        ten(c.get("1"));
        a.0.take().unwrap().rollback();
        ten(b.get("1"));
        assert_eq!(value(db, "1").unwrap(), "10");
        assert_eq!(Actor::new(db, mode).get("1"), Some(Some("10".into())));
    });
}

#[test]
fn information_flows_in_one_direction() {
    for_each_mode(|mode, _, mut a, mut b| {
        a.put("1", "11");
        b.put("2", "22");
        assert!(a.get("2").is_none_or(|v| v.unwrap() == "20"));
        assert!(b.get("1").is_none_or(|v| v.unwrap() == "10"));
        let both = (a.commit(), b.commit()) == (true, true);
        assert_eq!(both, !is_serializable(mode), "{mode:?}");
    });
}

#[test]
fn a_predicate_gives_the_same_rows_again() {
    for_each_mode(|mode, _, mut a, mut b| {
        assert_eq!(a.select(|v| v == 30), Some(vec![]));
        b.put("3", "30");
        b.call(|t| t.delete("2"));
        b.commit();
        assert_eq!(a.select(|v| v == 30 || v == 20), Some(vec![20]), "{mode:?}");
        assert!(a.commit(), "a transaction that only reads");
    });
}

#[test]
fn updates_are_not_lost() {
    for_each_mode(|mode, db, mut a, mut b| {
        assert_eq!((a.get("1"), b.get("1")), (b.get("1"), a.get("1")));
        a.put("1", "11");
        b.put("1", "12");
        let committed = (a.commit(), b.commit());
        assert!(committed != (true, true), "{mode:?}");
        let won = if is_serializable(mode) && mode.1 == Concurrency::Pessimistic {
            // The first one could not get the key, because both had read it, and gave up.
            ((false, true), "12".to_string())
        } else {
            ((true, false), "11".to_string())
        };
        assert_eq!((committed, value(db, "1").unwrap()), won, "{mode:?}");
    });
}

#[test]
fn reads_are_of_one_moment() {
    for_each_mode(|mode, _, mut a, mut b| {
        assert_eq!(a.get("1"), Some(Some("10".into())));
        b.put("1", "12");
        b.put("2", "18");
        b.commit();
        assert_eq!(a.get("2"), Some(Some("20".into())), "{mode:?}");
        assert_eq!(a.get("1"), Some(Some("10".into())));
    });
}

#[test]
fn write_skew_is_prevented_by_serializable_alone() {
    for_each_mode(|mode, _, mut a, mut b| {
        for actor in [&mut a, &mut b] {
            assert!(actor.get("1").is_some() && actor.get("2").is_some());
        }
        a.put("1", "11");
        b.put("2", "21");
        let both = (a.commit(), b.commit()) == (true, true);
        assert_eq!(both, !is_serializable(mode), "{mode:?}");
    });
}

#[test]
fn write_skew_over_missing_keys_and_over_predicates() {
    for_each_mode(|mode, _, mut a, mut b| {
        assert_eq!((a.get("7"), b.get("8")), (Some(None), Some(None)));
        a.put("8", "1");
        b.put("7", "1");
        let both = (a.commit(), b.commit()) == (true, true);
        assert_eq!(both, !is_serializable(mode), "{mode:?}");
    });
    for_each_mode(|mode, _, mut a, mut b| {
        assert_eq!(
            (a.select(|v| v % 3 == 0), b.select(|v| v % 3 == 0)),
            (Some(vec![]), Some(vec![]))
        );
        a.put("3", "30");
        b.put("4", "42");
        let both = (a.commit(), b.commit()) == (true, true);
        assert_eq!(both, !is_serializable(mode), "{mode:?}");
    });
}

#[test]
fn get_for_update_prevents_write_skew_under_snapshot_isolation() {
    for_each_mode(|mode, _, mut a, mut b| {
        for (actor, other, own) in [(&mut a, "2", "1"), (&mut b, "1", "2")] {
            actor.call(|t| t.get_for_update(other).map(drop));
            actor.put(own, "5");
        }
        assert!((a.commit(), b.commit()) != (true, true), "{mode:?}");
    });
}

#[test]
fn commit_without_writes_is_checked_after_reads_for_update() {
    for_each_mode(|mode, _, mut a, mut b| {
        a.call(|t| t.get_for_update("1").map(drop));
        b.put("1", "5");
        assert!((b.commit(), a.commit()) != (true, true), "{mode:?}");
    });
}

#[test]
fn range_deletes_conflict_with_the_keys_and_ranges_that_they_meet() {
    type Write = fn(&Transaction) -> Result<()>;
    let cases: [(&str, &str, Write, bool); 7] = [
        ("1", "3", |t| t.put("2", "5"), true),
        ("1", "3", |t| t.delete("1"), true),
        ("1", "3", |t| t.put("11", "5"), true),
        ("1", "3", |t| t.put("3", "5"), false),
        ("1", "3", |t| t.delete_range("2", "9"), true),
        ("1", "3", |t| t.delete_range("3", "9"), false),
        ("1", "3", |t| t.delete_range("9", "2"), false),
    ];
    for (start, end, write, conflicts) in cases {
        for swapped in [false, true] {
            for_each_mode(|mode, _, mut a, mut b| {
                a.call(|t| t.delete_range(start, end));
                b.call(write);
                let committed = match swapped {
                    false => (a.commit(), b.commit()),
                    true => (b.commit(), a.commit()),
                };
                assert_eq!(committed == (true, true), !conflicts, "{mode:?} {swapped}");
            });
        }
    }
}

#[test]
fn plain_writes_count_as_transactions() {
    for_each_mode(|mode, db, mut a, mut b| {
        a.put("1", "11");
        db.put("1", "1").unwrap();
        assert!(!a.commit(), "{mode:?}: a written key");
        assert!(b.get("1").is_some());
        b.put("3", "30");
        db.delete("1").unwrap();
        assert_eq!(b.commit(), !is_serializable(mode), "{mode:?}: a read key");
        let mut c = Actor::new(db, mode);
        c.call(|t| t.get_for_update("2").map(drop));
        c.put("3", "31");
        db.delete_range("2", "3").unwrap();
        assert!(!c.commit(), "{mode:?}: a locked key");
        let mut d = Actor::new(db, mode);
        d.put("5", "50");
        db.put("6", "60").unwrap();
        assert!(d.commit(), "{mode:?}: another key");
    });
}

#[test]
fn a_commit_of_reads_alone_succeeds_and_keeps_no_snapshot() {
    for_each_mode(|_, db, mut a, mut b| {
        assert!(a.get("1").is_some() && b.select(|_| true).is_some());
        db.put("1", "1").unwrap();
        db.put("3", "3").unwrap();
        assert!(a.commit() && b.commit());
        assert_eq!(db.metrics().snapshots, 0);
    });
}

/// Returns whether a serializable transaction that iterates as `read` does can commit after a plain
/// write of `written`.
fn commits_after(written: &str, read: impl FnOnce(&Transaction)) -> bool {
    let db = open();
    for key in ["b", "d", "f", "h"] {
        db.put(key, "").unwrap();
    }
    let mut actor = Actor::new(&db, (Isolation::Serializable, Concurrency::Optimistic));
    actor.call(|t| {
        read(t);
        Ok(())
    });
    db.put(written, "new").unwrap();
    actor.put("z", "");
    actor.commit()
}

#[test]
fn an_iterator_protects_what_it_has_passed_and_no_more() {
    let first_two = |t: &Transaction| {
        let mut iter = t.iter().unwrap();
        iter.seek("c").unwrap();
        iter.move_next().unwrap();
        assert_eq!(iter.key(), b"f");
    };
    for (written, commits) in
        [("b", true), ("c", false), ("d", false), ("e", false), ("f", false), ("g", true)]
    {
        assert_eq!(commits_after(written, first_two), commits, "{written}");
    }
    let backward = |t: &Transaction| {
        let mut iter = t.range("a".."h").unwrap();
        assert_eq!(iter.next_back().unwrap().unwrap().0, b"f");
        iter.seek_for_prev("e").unwrap();
        assert_eq!(iter.key(), b"d");
    };
    // The Rust iterator has moved on to "d".
    for (written, commits) in [("c", true), ("d", false), ("g", false), ("h", true), ("ha", true)] {
        assert_eq!(commits_after(written, backward), commits, "{written}");
    }
    let turned = |t: &Transaction| {
        let mut iter = t.iter().unwrap();
        iter.seek("f").unwrap();
        iter.move_prev().unwrap();
        iter.move_prev().unwrap();
        assert_eq!(iter.key(), b"b");
    };
    for (written, commits) in [("a", true), ("c", false), ("f", false), ("g", true)] {
        assert_eq!(commits_after(written, turned), commits, "{written}");
    }
    let to_the_end = |t: &Transaction| assert_eq!(t.range("c"..).unwrap().count(), 3);
    for (written, commits) in [("b", true), ("zz", false)] {
        assert_eq!(commits_after(written, to_the_end), commits, "{written}");
    }
}

#[test]
fn an_iterator_that_lives_at_the_commit_protects_its_whole_rest() {
    for lives in [true, false] {
        let db = two_keys();
        let mode = (Isolation::Serializable, Concurrency::Optimistic);
        let transaction = db.transaction(options(mode));
        let mut iter = transaction.iter().unwrap();
        iter.seek_to_first().unwrap();
        let kept = lives.then_some(iter);
        db.put("9", "90").unwrap();
        transaction.put("0", "0").unwrap();
        assert_eq!(transaction.commit().is_err(), lives);
        if let Some(mut iter) = kept {
            let error = iter.move_next().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidArgument);
            assert!(!iter.valid() && iter.key().is_empty() && iter.value().is_empty());
        }
    }
}

#[test]
fn a_pessimistic_snapshot_moves_while_everything_used_is_locked() {
    for isolation in [Isolation::Snapshot, Isolation::Serializable] {
        let mode = (isolation, Concurrency::Pessimistic);
        let db = two_keys();
        let mut a = Actor::new(&db, mode);
        a.call(|t| t.get_for_update("1").map(drop));
        db.put("2", "21").unwrap();
        let seen = a.call(|t| Ok(t.get_for_update("2")?.unwrap().to_vec()));
        assert_eq!(seen, Some(b"21".to_vec()), "{mode:?}");
        a.put("1", "11");
        assert!(a.commit());
        // Not if a used key has changed.
        let mut b = Actor::new(&db, mode);
        b.call(|t| t.get_for_update("1").map(drop));
        db.put("1", "12").unwrap();
        db.put("2", "22").unwrap();
        assert!(b.call(|t| t.get_for_update("2").map(drop)).is_none(), "{mode:?}");
        // And not if something was read without a lock.
        let mut c = Actor::new(&db, mode);
        assert!(c.get("1").is_some());
        db.put("2", "23").unwrap();
        let locked = c.call(|t| t.get_for_update("2").map(drop)).is_some();
        assert_eq!(locked, is_serializable(mode), "{mode:?}");
    }
}

#[test]
fn a_deadlock_names_its_transactions_and_the_other_one_continues() {
    let db = two_keys();
    let mode = (Isolation::Snapshot, Concurrency::Pessimistic);
    let begin = || db.transaction(options(mode).lock_timeout_ms(60_000));
    let (a, b) = (begin(), begin());
    let ids = [a.id(), b.id()];
    a.put("1", "a").unwrap();
    b.put("2", "b").unwrap();
    let finish = |transaction: Transaction, key: &'static str| match transaction.put(key, "both") {
        Ok(()) => transaction.commit().map(|()| None),
        // The error ends the other one's wait only with the locks.
        Err(error) => Ok(Some(error)),
    };
    let errors: Vec<_> = std::thread::scope(|scope| {
        let threads = [scope.spawn(|| finish(a, "2")), scope.spawn(|| finish(b, "1"))];
        threads.map(|thread| thread.join().unwrap().unwrap()).into_iter().flatten().collect()
    });
    let [error] = errors.as_slice() else { panic!("one of the two is told: {errors:?}") };
    assert_eq!(error.kind(), ErrorKind::Deadlock);
    for id in ids {
        let part = format!("transaction {id} waits for transaction");
        assert!(error.message().contains(&part), "{error}");
    }
    assert!(value(&db, "1") == Some("both".into()) || value(&db, "2") == Some("both".into()));
}

#[test]
fn a_wait_ends_with_the_lock_with_the_timeout_or_with_the_store() {
    let db = two_keys();
    let mode = (Isolation::Snapshot, Concurrency::Pessimistic);
    let holder = db.transaction(options(mode));
    holder.put("1", "11").unwrap();
    let impatient = db.transaction(options(mode).lock_timeout_ms(5));
    let error = impatient.put("1", "12").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Busy);
    for part in [
        format!("transaction {} waited 5 ms", impatient.id()),
        format!("which transaction {} holds", holder.id()),
        "the key \"1\"".into(),
    ] {
        assert!(error.message().contains(&part), "{error}");
    }
    // The transaction is as before the call.
    impatient.put("3", "30").unwrap();
    impatient.commit().unwrap();
    let patient = db.transaction(options(mode).lock_timeout_ms(u64::MAX));
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| patient.get_for_update("1").unwrap().unwrap().to_vec());
        std::thread::sleep(Duration::from_millis(2));
        holder.commit().unwrap();
        assert_eq!(waiter.join().unwrap(), b"11", "the snapshot is taken with the lock");
    });
    let last = db.transaction(options(mode).lock_timeout_ms(u64::MAX));
    let other = db.clone();
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| last.put("1", "").unwrap_err().kind());
        std::thread::sleep(Duration::from_millis(2));
        other.close().unwrap();
        assert_eq!(waiter.join().unwrap(), ErrorKind::Closed);
    });
    assert_eq!(patient.get("1").unwrap_err().kind(), ErrorKind::Closed);
    assert_eq!(patient.commit().unwrap_err().kind(), ErrorKind::Closed);
}

#[test]
fn transact_runs_until_the_commit_succeeds() {
    const THREADS: u64 = 4;
    const ROUNDS: u64 = 60;
    for mode in MODES {
        let db = open();
        let options = options(mode).lock_timeout_ms(10_000).attempts_max(u32::MAX);
        let add = |t: &Transaction| {
            let before: u64 = match t.get_for_update("n")? {
                Some(value) => String::from_utf8(value.to_vec()).unwrap().parse().unwrap(),
                None => 0,
            };
            t.put("n", (before + 1).to_string())
        };
        std::thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(|| (0..ROUNDS).for_each(|_| db.transact(options, add).unwrap()));
            }
        });
        assert_eq!(value(&db, "n").unwrap(), (THREADS * ROUNDS).to_string(), "{mode:?}");
        assert_eq!(db.metrics().snapshots, 0);
    }
}

#[test]
fn transact_stops_at_other_errors_and_after_its_attempts() {
    let db = two_keys();
    let options = TransactionOptions::default().attempts_max(3).durability(Durability::Sync);
    let mut runs = 0;
    let error = db.transact(options, |t| {
        runs += 1;
        t.put("1", "11")?;
        t.put(vec![0; 2 << 20], "")
    });
    assert_eq!((error.unwrap_err().kind(), runs), (ErrorKind::InvalidArgument, 1));
    assert_eq!(value(&db, "1").unwrap(), "10", "the transaction was rolled back");
    let mut runs = 0;
    let error = db.transact(options, |t| {
        runs += 1;
        t.put("1", "11")?;
        db.put("1", runs.to_string())
    });
    assert_eq!((error.unwrap_err().kind(), runs), (ErrorKind::Conflict, 3));
    assert_eq!(value(&db, "1").unwrap(), "3");
}

#[test]
fn a_transaction_cannot_be_used_after_its_end_or_with_a_foreign_keyspace() {
    let (db, foreign) = (two_keys(), open());
    let users = db.keyspace("users", &KeyspaceOptions::default()).unwrap();
    let alien = foreign.keyspace("users", &KeyspaceOptions::default()).unwrap();
    let transaction = db.transaction(TransactionOptions::default());
    let mut iter = transaction.iter_in(&users).unwrap();
    let mut fresh = transaction.iter().unwrap();
    for error in [
        transaction.get_in(&alien, "k").map(drop),
        transaction.get_for_update_in(&alien, "k").map(drop),
        transaction.put_in(&alien, "k", "v"),
        transaction.delete_in(&alien, "k"),
        transaction.delete_range_in(&alien, "k", "l"),
        transaction.iter_in(&alien).map(drop),
        transaction.range_in(&alien, "a".."b").map(drop),
        transaction.prefix_in(&alien, "a").map(drop),
        transaction.put(vec![0; (1 << 20) + 1], ""),
        transaction.get_for_update(vec![0; (1 << 20) + 1]).map(drop),
    ] {
        assert_eq!(error.unwrap_err().kind(), ErrorKind::InvalidArgument);
    }
    transaction.put_in(&users, "k", "v").unwrap();
    transaction.commit().unwrap();
    let error = iter.seek_to_first().unwrap_err();
    assert!(error.message().contains("was committed"), "{error}");
    assert_eq!(fresh.next().unwrap().unwrap_err().kind(), ErrorKind::InvalidArgument);
    assert_eq!(users.get("k").unwrap().as_deref(), Some(&b"v"[..]));
}

#[test]
fn a_dropped_keyspace_fails_the_transaction_as_a_whole() {
    for mode in MODES {
        let db = two_keys();
        let users: Keyspace = db.keyspace("users", &KeyspaceOptions::default()).unwrap();
        users.put("k", "v").unwrap();
        let transaction = db.transaction(options(mode));
        transaction.put_in(&users, "k", "w").unwrap();
        transaction.put("1", "11").unwrap();
        let iter = transaction.iter_in(&users).unwrap();
        db.drop_keyspace("users").unwrap();
        assert_eq!(transaction.get_in(&users, "k").unwrap_err().kind(), ErrorKind::NotFound);
        let error = transaction.put_in(&users, "k", "x").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFound);
        let pairs: Vec<_> = iter.map(|pair| pair.unwrap()).collect();
        assert_eq!(pairs, [(b"k".to_vec(), b"w".to_vec())]);
        assert_eq!(transaction.commit().unwrap_err().kind(), ErrorKind::NotFound, "{mode:?}");
        assert_eq!(value(&db, "1").unwrap(), "10");
    }
}

#[test]
fn a_transaction_of_a_read_only_store_reads_and_does_not_write() {
    let fs: Arc<dyn Fs> = MemFs::new();
    let db = Db::open_on(fs.clone(), "/db", Options::default()).unwrap();
    db.put("k", "v").unwrap();
    db.close().unwrap();
    let db = Db::open_read_only_on(fs, "/db", Options::default()).unwrap();
    let transaction = db.transaction(TransactionOptions::default());
    assert_eq!(transaction.get("k").unwrap().as_deref(), Some(&b"v"[..]));
    assert_eq!(transaction.put("k", "w").unwrap_err().kind(), ErrorKind::ReadOnly);
    assert_eq!(transaction.delete_range("a", "z").unwrap_err().kind(), ErrorKind::ReadOnly);
    transaction.commit().unwrap();
    let error = db.transaction(TransactionOptions::default()).prepare("x").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ReadOnly);
}
