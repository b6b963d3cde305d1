//! Tests of the tasks over accounts: transactions and updates, over the in-memory engine and over
//! engines whose transactions have deliberate faults.

mod common;

use std::sync::atomic::{AtomicU64, Ordering};

use common::run;
use esker_lab::error::Result;
use esker_lab::reference::Reference;
use esker_lab::target::{
    Direction, Engine, Target, Transaction, TransactionError, TransactionKind, TransactionResult,
    TransactionWork, VisitPair,
};

#[derive(Clone, Copy, PartialEq)]
enum Fault {
    /// Every third transaction ends with a conflict at its commit.
    Conflicts,
    /// Every transaction ends with a conflict in its second write.
    OnlyConflicts,
    /// Commits the transactions after the first five without their first write.
    TornTransactions,
    /// Commits each write of a transaction by itself, without a look at other transactions.
    LostUpdates,
    /// Ends the transactions after the first five without their writes, as if they had committed.
    LostTransactions,
    /// Every third merge is not done.
    LostMerges,
}

struct FaultyStore {
    fault: Fault,
    store: Box<dyn Target>,
    calls: AtomicU64,
}

/// A transaction with a fault in its writes.
struct FaultyTransaction<'a> {
    fault: Fault,
    inner: &'a mut dyn Transaction,
    writes: u32,
}

impl Transaction for FaultyTransaction<'_> {
    fn get(&mut self, key: &[u8], visit: &mut dyn FnMut(&[u8])) -> TransactionResult<bool> {
        self.inner.get(key, visit)
    }
    fn put(&mut self, key: &[u8], value: &[u8]) -> TransactionResult<()> {
        self.writes += 1;
        match self.fault {
            Fault::OnlyConflicts if self.writes == 2 => Err(TransactionError::Conflict),
            Fault::TornTransactions if self.writes == 1 => Ok(()),
            _ => self.inner.put(key, value),
        }
    }
}

/// Reads and writes at once, without isolation.
struct Bare<'a>(&'a FaultyStore);

impl Transaction for Bare<'_> {
    fn get(&mut self, key: &[u8], visit: &mut dyn FnMut(&[u8])) -> TransactionResult<bool> {
        Ok(self.0.store.get(key, visit)?)
    }
    fn put(&mut self, key: &[u8], value: &[u8]) -> TransactionResult<()> {
        // Another thread changes the account between the read and the write.
        std::thread::yield_now();
        Ok(self.0.store.put(key, value, false)?)
    }
}

/// Returns an in-memory engine with one fault.
fn faulty(fault: Fault) -> Box<dyn Engine> {
    common::faulty(move |store| Box::new(FaultyStore { fault, store, calls: AtomicU64::new(0) }))
}

impl Target for FaultyStore {
    fn put(&self, key: &[u8], value: &[u8], sync: bool) -> Result<()> {
        self.store.put(key, value, sync)
    }
    fn delete(&self, key: &[u8]) -> Result<()> {
        self.store.delete(key)
    }
    fn get(&self, key: &[u8], visit: &mut dyn FnMut(&[u8])) -> Result<bool> {
        self.store.get(key, visit)
    }
    fn scan(&self, direction: Direction, visit: VisitPair<'_>) -> Result<()> {
        self.store.scan(direction, visit)
    }
    fn scan_from(&self, start: &[u8], visit: VisitPair<'_>) -> Result<()> {
        self.store.scan_from(start, visit)
    }
    fn transact(&self, kind: TransactionKind, work: TransactionWork<'_>) -> TransactionResult<()> {
        let call = self.calls.fetch_add(1, Ordering::Relaxed);
        let fault = if call < 5 { Fault::Conflicts } else { self.fault };
        if fault == Fault::LostUpdates {
            return work(&mut Bare(self));
        }
        let mut ended_early = false;
        let outcome = self.store.transact(kind, &mut |inner| {
            let mut transaction = FaultyTransaction { fault, inner, writes: 0 };
            work(&mut transaction)?;
            ended_early = fault == Fault::LostTransactions;
            match ended_early || (self.fault == Fault::Conflicts && call.is_multiple_of(3)) {
                true => Err(TransactionError::Conflict),
                false => Ok(()),
            }
        });
        if ended_early { Ok(()) } else { outcome }
    }
    fn merge_add(&self, key: &[u8], change: u64) -> Result<()> {
        let call = self.calls.fetch_add(1, Ordering::Relaxed);
        if self.fault == Fault::LostMerges && call.is_multiple_of(3) {
            return Ok(());
        }
        self.store.merge_add(key, change)
    }
    fn compact(&self) -> Result<()> {
        self.store.compact()
    }
    fn stats(&self) -> Option<String> {
        None
    }
    fn close(self: Box<Self>) -> Result<()> {
        Ok(())
    }
}

#[test]
fn conflicting_transactions_run_again_and_are_counted() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let tasks = "fillaccounts,randomtransaction,zipfiantransaction,readtransaction,updaterandom";
    for (threads, share, histogram) in [("1", "0", "0"), ("3", "1", "1"), ("3", "0", "0")] {
        let flags = [
            ("threads", threads),
            ("share_operations", share),
            ("histogram", histogram),
            ("benchmarks", tasks),
            ("repetitions", "1"),
        ];
        let engines: Vec<Box<dyn Engine>> = vec![Box::new(Reference), faulty(Fault::Conflicts)];
        let ran = run(dir.path(), &flags, engines);
        assert_eq!(ran.outcome.exit_code, 0, "{}", ran.messages);
        let each = if share == "1" { 200 } else { 200 * threads.parse::<u64>().expect("a number") };
        for sample in &ran.outcome.record.samples {
            let operations = if sample.task == "fillaccounts" { 200 } else { each };
            assert_eq!(sample.operations, operations, "{sample:?}");
            assert_eq!(sample.found, sample.found_expected, "{sample:?}");
            assert_eq!(sample.live_bytes, Some(200 * 116), "{sample:?}");
            let Some(counts) = sample.transactions else {
                assert!(!sample.task.ends_with("transaction"), "{sample:?}");
                continue;
            };
            assert_eq!(counts.commit_nanos.is_some(), sample.task == "readtransaction");
            // With one thread a conflict comes with each third call, so never twice in a row.
            let half = operations / 2;
            let is_third = (half - 1..=half + 1).contains(&counts.conflicts);
            match (sample.engine.as_str(), threads) {
                ("reference", _) => assert_eq!((counts.conflicts, counts.attempts_max), (0, 1)),
                (_, "1") => assert!(is_third && counts.attempts_max == 2, "{sample:?}"),
                _ => assert!(is_third, "{sample:?}"),
            }
        }
        let faulty = ran.out.split("Engine:     faulty").nth(1).expect("its rows");
        assert!(faulty.contains(" conflicts, at most ") && faulty.contains(" ns per commit)"));
    }
}

#[test]
fn transactions_that_lose_or_tear_writes_are_errors() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    for (fault, threads, message) in [
        (Fault::TornTransactions, "1", "the sum of all balances is"),
        (Fault::LostTransactions, "1", "of 200 accounts are wrong: account "),
        (Fault::LostUpdates, "4", "of 200 accounts are wrong: account "),
        (Fault::OnlyConflicts, "1", "one transaction conflicted 100000 times"),
    ] {
        let num = if fault == Fault::LostUpdates { "20000" } else { "200" };
        let flags = [
            ("threads", threads),
            ("num", num),
            ("benchmarks", "fillaccounts,zipfiantransaction"),
            ("repetitions", "1"),
        ];
        let ran = run(dir.path(), &flags, vec![faulty(fault)]);
        let message = message.replace("200 accounts", &format!("{num} accounts"));
        assert_eq!(ran.outcome.exit_code, 1, "{message}");
        assert!(ran.messages.contains(&message), "{message}: {}", ran.messages);
    }
}

#[test]
fn merges_add_to_counters_and_a_lost_one_is_an_error() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let tasks = "fillaccounts,mergerandom,updaterandom,mergerandom,readaccounts,rest,readaccounts";
    let flags = [
        ("threads", "3"),
        ("value_size", "8"),
        ("rest_ms", "1"),
        ("benchmarks", tasks),
        ("repetitions", "1"),
    ];
    let ran = run(dir.path(), &flags, vec![Box::new(Reference), faulty(Fault::LostMerges)]);
    assert_eq!(ran.outcome.exit_code, 1, "{}", ran.messages);
    let of = |engine: &str, task: &str| {
        let samples = ran.outcome.record.samples.iter();
        let own = samples.filter(|sample| sample.engine == engine && sample.task == task);
        own.cloned().collect::<Vec<_>>()
    };
    for sample in of("reference", "mergerandom") {
        assert_eq!((sample.operations, sample.error.as_deref()), (600, None));
    }
    for sample in of("reference", "readaccounts") {
        assert_eq!((sample.found, sample.found_expected), (Some(600), Some(600)));
        assert_eq!((sample.wrong, sample.error), (0, None));
    }
    let lost = of("faulty", "mergerandom");
    let error = lost[0].error.as_deref().unwrap_or_default();
    assert!(error.contains("of 200 accounts are wrong: account "), "{error}");
    assert!(of("faulty", "readaccounts")[0].wrong > 0, "a read compares the balance");
}

#[test]
fn merges_need_counters() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let reason = |flags: &[(&str, &str)]| {
        let tasks = ("benchmarks", "fillaccounts,mergerandom");
        let flags = [flags, &[tasks, ("repetitions", "1")]].concat();
        let ran = run(dir.path(), &flags, vec![Box::new(Reference)]);
        assert_eq!(ran.outcome.exit_code, 0, "{}", ran.messages);
        ran.outcome.record.samples[1].error.clone()
    };
    let needs = Some("needs counters: run it and fillaccounts with --value_size=8".to_string());
    assert_eq!(reason(&[]), needs);
    assert_eq!(reason(&[("value_size", "8")]), None);
}

#[test]
fn transactions_without_accounts_are_not_available() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let reasons = |flags: &[(&str, &str)]| -> Vec<Option<String>> {
        let flags = [flags, &[("repetitions", "1")]].concat();
        let ran = run(dir.path(), &flags, vec![Box::new(Reference)]);
        assert_eq!(ran.outcome.exit_code, 0, "{}", ran.messages);
        let samples = ran.outcome.record.samples.into_iter();
        samples.filter(|s| s.engine == "reference").map(|s| s.error).collect()
    };
    let needs = Some("needs accounts: run fillaccounts before, and no other writing task between");
    let tasks = "randomtransaction,fillseq,updaterandom,fillaccounts,readrandom,randomtransaction,\
                 overwrite,readtransaction";
    let found = reasons(&[("benchmarks", tasks)]);
    let found: Vec<Option<&str>> = found.iter().map(Option::as_deref).collect();
    assert_eq!(found, [needs, None, needs, None, None, None, None, needs]);
    let small = Some("the data is too small for the task".to_string());
    let tasks = ("benchmarks", "fillaccounts,randomtransaction");
    assert_eq!(reasons(&[("value_size", "7"), tasks])[0], small);
    assert_eq!(reasons(&[("num", "1"), tasks]), [None, small]);
}
