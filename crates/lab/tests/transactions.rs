//! Tests of the tasks over accounts: transactions and updates, over the in-memory engine and over
//! engines whose transactions have deliberate faults.

mod common;

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use common::run;
use esker_lab::error::Result;
use esker_lab::reference::Reference;
use esker_lab::target::{
    Capabilities, Direction, Engine, StoreOptions, Target, Transaction, TransactionError,
    TransactionKind, TransactionResult, TransactionWork, VisitPair,
};

/// An in-memory engine whose transactions have one fault.
struct Faulty(Fault);

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

impl Engine for Faulty {
    fn name(&self) -> &str {
        "faulty"
    }
    fn description(&self) -> String {
        "misbehaves".into()
    }
    fn capabilities(&self) -> Capabilities {
        Reference.capabilities()
    }
    fn given(&self, _: &StoreOptions) -> Vec<(String, String)> {
        Vec::new()
    }
    fn open(&self, dir: &Path, options: &StoreOptions) -> Result<Box<dyn Target>> {
        let store = Reference.open(dir, options)?;
        Ok(Box::new(FaultyStore { fault: self.0, store, calls: AtomicU64::new(0) }))
    }
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
        let engines: Vec<Box<dyn Engine>> =
            vec![Box::new(Reference), Box::new(Faulty(Fault::Conflicts))];
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
        let ran = run(dir.path(), &flags, vec![Box::new(Faulty(fault))]);
        let message = message.replace("200 accounts", &format!("{num} accounts"));
        assert_eq!(ran.outcome.exit_code, 1, "{message}");
        assert!(ran.messages.contains(&message), "{message}: {}", ran.messages);
    }
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
