//! Runs the transactions of a script and keeps the ledger.
//!
//! Invariants: a transaction is in the ledger before its commit, as a batch of the same operations
//! would be. Only one transaction is open at a time, so a commit fails only over the write that the
//! script puts before it, or over the locks of prepared transactions, which only range deletes
//! meet.

use std::collections::BTreeSet;

use esker::{Db, Durability, Error, ErrorKind, Transaction, TransactionOptions};

use super::content::{ReadError, Violation};
use super::keyspaces::are_same;
use super::ops::Op;
use super::script::{TransactionEnd, TransactionScript};
use super::script_run::{Outcome, PlantedBug, ScriptRun, outcome};

impl ScriptRun {
    pub(super) fn transact(&mut self, script: &TransactionScript) -> Result<Outcome, Violation> {
        let Some(db) = self.db().cloned() else { return Ok(Outcome::Done) };
        self.count("transactions");
        let synced = matches!(script.end, TransactionEnd::Commit(true));
        let durability = if synced { Durability::Sync } else { Durability::Buffered };
        let options = TransactionOptions::default()
            .isolation(script.isolation)
            .concurrency(script.concurrency)
            .lock_timeout_ms(0)
            .durability(durability);
        let transaction = db.transaction(options);
        match self.fill(&db, &transaction, script) {
            Ok(()) => {}
            // The transaction is rolled back when it goes.
            Err(ReadError::Store(error)) if self.may_meet_lock(script, &error) => {
                return Ok(Outcome::Done);
            }
            Err(ReadError::Store(error)) => return Ok(Outcome::Failed(error)),
            Err(ReadError::Violation(violation)) => return Err(violation),
        }
        match &script.end {
            TransactionEnd::Rollback => {
                transaction.rollback();
                Ok(Outcome::Done)
            }
            TransactionEnd::Prepare(name) => {
                self.ledger.lock().attempt_prepare(name, &script.ops);
                self.count("prepared transactions");
                Ok(self.end_batch(transaction.prepare(name), true))
            }
            TransactionEnd::Commit(_) => self.commit(transaction, script, synced),
            TransactionEnd::Conflict(value) => match first_key(&script.ops) {
                Some((slot, key)) => {
                    let other = Op::Put(slot, key.to_vec(), value.clone());
                    match self.write(&[other], false)? {
                        Outcome::Done => self.commit_late(&db, transaction, script),
                        failed => Ok(failed),
                    }
                }
                None => self.commit(transaction, script, false),
            },
        }
    }

    /// Makes the operations, those that are taken back, and reads of the transaction's own writes.
    fn fill(
        &self,
        db: &Db,
        transaction: &Transaction,
        script: &TransactionScript,
    ) -> Result<(), ReadError> {
        for op in &script.ops {
            self.make(db, transaction, op)?;
        }
        if !script.undone.is_empty() {
            transaction.savepoint()?;
            for op in &script.undone {
                self.make(db, transaction, op)?;
            }
            let all = [&script.ops[..], &script.undone].concat();
            self.check_own(db, transaction, &all, &script.undone)?;
            transaction.rollback_to_savepoint()?;
        }
        self.check_own(db, transaction, &script.ops, &script.ops)?;
        self.check_own(db, transaction, &script.ops, &script.undone)
    }

    fn make(&self, db: &Db, transaction: &Transaction, op: &Op) -> Result<(), ReadError> {
        Ok(op.make_in(transaction, &self.keyspace(db, op.slot())?)?)
    }

    /// Reads the keys of `touched` in the transaction after `ops`, and for others, who must not see
    /// the operations.
    fn check_own(
        &self,
        db: &Db,
        transaction: &Transaction,
        ops: &[Op],
        touched: &[Op],
    ) -> Result<(), ReadError> {
        for op in touched {
            let (slot, Some(key)) = (op.slot(), op.key()) else { continue };
            let keyspace = self.keyspace(db, slot)?;
            let want = self.ledger.lock().value_after(ops, slot, key);
            let found = transaction.get_in(&keyspace, key)?;
            if !are_same(key, found.as_deref(), want.as_deref()) {
                let message = format!("a transaction does not show its own {op:?}");
                return Err(Violation(message).into());
            }
            let want = self.ledger.lock().value_after(&[], slot, key);
            if !are_same(key, keyspace.get(key)?.as_deref(), want.as_deref()) {
                let message = format!("others see {op:?} of an open transaction");
                return Err(Violation(message).into());
            }
        }
        Ok(())
    }

    /// Returns whether an error may come from the locks of a prepared transaction.
    fn may_meet_lock(&self, script: &TransactionScript, error: &Error) -> bool {
        let mut ops = script.ops.iter().chain(&script.undone);
        matches!(error.kind(), ErrorKind::Busy | ErrorKind::Conflict)
            && self.ledger.lock().prepared().is_some()
            && ops.any(|op| matches!(op, Op::DeleteRange(..)))
    }

    fn commit(
        &mut self,
        transaction: Transaction,
        script: &TransactionScript,
        synced: bool,
    ) -> Result<Outcome, Violation> {
        let touched = script.ops.iter().map(|op| self.ledger.lock().keyspace_of(op.slot()));
        if touched.collect::<BTreeSet<_>>().len() > 1 {
            self.count("transactions over several keyspaces");
        }
        self.count_rules(&script.ops);
        self.ledger.lock().attempt(&script.ops);
        let committed = transaction.commit();
        match &committed {
            Err(error) if self.may_meet_lock(script, error) => {
                self.ledger.lock().refuse();
                return Ok(Outcome::Done);
            }
            Err(error) if error.kind() == ErrorKind::Conflict => {
                let message = format!("a transaction alone conflicts: {error}");
                return Err(Violation(message));
            }
            _ => {}
        }
        Ok(self.end_batch(committed, synced))
    }

    /// Commits a transaction after another write of one of its keys. The commit must fail.
    fn commit_late(
        &mut self,
        db: &Db,
        transaction: Transaction,
        script: &TransactionScript,
    ) -> Result<Outcome, Violation> {
        self.count("conflicts");
        let mut committed = transaction.commit();
        if self.bug == PlantedBug::LostUpdate {
            committed = self.write_over(db, script)?;
        }
        match committed {
            Err(error) if error.kind() == ErrorKind::Conflict => Ok(Outcome::Done),
            Ok(()) => Err(Violation("a commit over a newer write succeeded: a lost update".into())),
            failed => Ok(outcome(failed)),
        }
    }

    /// Writes the operations of a refused transaction, as the planted bug does.
    fn write_over(
        &self,
        db: &Db,
        script: &TransactionScript,
    ) -> Result<esker::Result<()>, Violation> {
        let again = db.transaction(TransactionOptions::default());
        match script.ops.iter().try_for_each(|op| self.make(db, &again, op)) {
            Ok(()) => Ok(again.commit()),
            Err(ReadError::Store(error)) => Ok(Err(error)),
            Err(ReadError::Violation(violation)) => Err(violation),
        }
    }

    /// Commits the first prepared transaction, or rolls it back.
    pub(super) fn resolve(&mut self, commits: bool) -> esker::Result<()> {
        let Some(db) = self.db().cloned() else { return Ok(()) };
        let Some(name) = self.ledger.lock().prepared() else { return Ok(()) };
        self.ledger.lock().attempt_resolution(&name, commits);
        let resolved =
            if commits { db.commit_prepared(&name) } else { db.rollback_prepared(&name) };
        self.count("resolved transactions");
        match self.end_batch(resolved, true) {
            Outcome::Done => Ok(()),
            Outcome::Failed(error) => Err(error),
        }
    }
}

/// Returns the first key that the operations write alone.
fn first_key(ops: &[Op]) -> Option<(u8, &[u8])> {
    ops.iter().find_map(|op| op.key().map(|key| (op.slot(), &key[..])))
}
