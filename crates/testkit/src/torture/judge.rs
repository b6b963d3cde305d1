//! Opens the store of a dead victim and compares it with the record.
//!
//! Invariants: a store judged correct is closed again, and its slots are set to its content.

use std::path::Path;
use std::sync::Arc;

use esker::fs::{Fs, OsFs};
use esker::{Db, Options};

use super::plan::{self, Model, Rounds};
use super::slots::{Slot, Slots};
use super::temporary;
use super::victim::copy_path;
use crate::campaign::cell::Cell;
use crate::campaign::clock::START_MS;
use crate::campaign::content::{ReadError, backwards, content};
use crate::campaign::keyspaces::{Pair, is_unlogged, names, seen};
use crate::campaign::tally::{Finding, Verdict, lost};

/// The cause of the victim's end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// The process died. All acknowledged data survives.
    Killed,
    /// The power failed. All durable data survives.
    Cut,
}

/// Judges a store by its record.
pub struct Judge<'a> {
    /// The directory of the store, its checkpoint and its backups.
    pub base: &'a Path,
    /// The victim's record.
    pub slots: &'a Slots,
    /// The seed of the written data.
    pub seed: u64,
    /// The content of each writer's keys at the last judgement.
    pub models: Vec<Model>,
}

/// The pairs of a store, without unlogged ones.
type Pairs = Vec<Pair>;

/// Takes the total from the pairs of a store, and compares it with the number of transactions that
/// the store has.
fn check_total(pairs: &mut Pairs, want: u64) -> Result<(), Finding> {
    let home = names(plan::TOTAL_SLOT)[0];
    let at = pairs.iter().position(|(name, key, _)| name == home && key == plan::TOTAL);
    let found = at.map(|at| pairs.remove(at)).and_then(|pair| plan::number_in(&pair.2));
    if found.unwrap_or(0) == want {
        return Ok(());
    }
    let message = format!(
        "the total is {}, but the store has {want} transactions: a lost update, or a part of one",
        found.unwrap_or(0)
    );
    Err((Verdict::Wrong, message))
}

/// Returns the pairs as they are once the compaction filter has seen all of them.
fn after_filter(pairs: Pairs) -> Pairs {
    let after = |(name, key, value): Pair| {
        let value = seen(&key, &value)?.into_owned();
        Some((name, key, value))
    };
    pairs.into_iter().filter_map(after).collect()
}

/// Returns the time of a store with these options, in milliseconds since 1970.
fn now_ms(options: &Options) -> u64 {
    options.clock.as_ref().map_or(START_MS, |clock| clock.now_ms())
}

impl<'a> Judge<'a> {
    /// Creates the judge of a store that does not exist yet.
    pub fn new(base: &'a Path, slots: &'a Slots, seed: u64) -> Judge<'a> {
        let models = (0..plan::writers(seed)).map(|writer| Model::new(seed, writer)).collect();
        Judge { base, slots, seed, models }
    }

    fn store_fs(&self) -> Arc<dyn Fs> {
        plan::store_fs(self.seed, OsFs::shared())
    }

    /// Judges the store, its checkpoint and its backups. Returns the number of checked copies.
    ///
    /// # Errors
    /// The first broken promise.
    pub fn judge(&mut self, end: End, options: &Options) -> Result<u64, Finding> {
        let copies = self.judge_checkpoint(options)? + self.judge_backup(options)?;
        let db = Db::open_on(self.store_fs(), self.base.join("db"), options.clone());
        let db = db.map_err(lost("open"))?;
        let least = match end {
            End::Killed => Slot::Acknowledged,
            End::Cut => Slot::Durable,
        };
        let least = |writer| self.slots.get(least(writer));
        let now_ms = now_ms(options);
        let reached = self.judge_content((&db, now_ms), "the store", least, end == End::Killed)?;
        for (writer, (model, n)) in self.models.iter_mut().zip(&reached).enumerate() {
            let rounds = Rounds::of(self.slots, writer);
            model.advance(*n, |n| rounds.time_of(n));
        }
        db.close().map_err(lost("close"))?;
        for (writer, n) in reached.into_iter().enumerate() {
            self.slots.set(Slot::Tried(writer), n);
            self.slots.set(Slot::Acknowledged(writer), n);
            self.slots.set(Slot::Durable(writer), n);
        }
        Ok(copies)
    }

    /// Compares the content of a store at a time. Returns the number of batches of each writer.
    fn judge_content(
        &self,
        (db, now_ms): (&Db, u64),
        what: &str,
        least: impl Fn(usize) -> u64,
        keeps_acknowledged: bool,
    ) -> Result<Vec<u64>, Finding> {
        let mut pairs = self.read(db, what)?;
        temporary::take(&mut pairs, &db.keyspaces(), keeps_acknowledged)?;
        let mut reached = Vec::new();
        let mut expected: Pairs = Vec::new();
        let mut total = 0;
        for (writer, model) in self.models.iter().enumerate() {
            let counter = db.get(plan::counter_key(writer)).map_err(lost("read a counter"))?;
            let n = counter.as_deref().and_then(plan::number_in).unwrap_or(0);
            let (least, tried) = (least(writer), self.slots.get(Slot::Tried(writer)));
            if n < least {
                let message = format!(
                    "{what}, writer {writer}: found {n} batches, expected at least {least}"
                );
                return Err((Verdict::Lost, message));
            }
            if n > tried {
                return Err((
                    Verdict::Wrong,
                    format!("{what}: found batch {n}, but only {tried} batches were tried"),
                ));
            }
            let rounds = Rounds::of(self.slots, writer);
            let model = model.after(n, |n| rounds.time_of(n));
            total += model.transactions;
            let named = |((slot, key), cell): ((u8, Vec<u8>), Cell)| {
                Some((names(slot)[0].to_string(), key, cell.value_at(now_ms)?))
            };
            expected.extend(model.pairs.into_iter().filter_map(named));
            reached.push(n);
        }
        let mut expected = after_filter(expected);
        check_total(&mut pairs, total).map_err(|bad| (bad.0, format!("{what}: {}", bad.1)))?;
        expected.sort();
        if pairs != expected {
            let differs = pairs.iter().zip(&expected).find(|(a, b)| a != b);
            let at = differs.map_or_else(String::new, |(a, b)| {
                format!(
                    "; the first difference: found {} of {}, expected {} of {}",
                    a.1.escape_ascii(),
                    a.0,
                    b.1.escape_ascii(),
                    b.0
                )
            });
            let (got, wanted) = (pairs.len(), expected.len());
            let message = format!(
                "{what} after batches {reached:?}: found {got} pairs, expected {wanted}{at}"
            );
            return Err((Verdict::Wrong, message));
        }
        Ok(reached)
    }

    /// Reads all pairs forwards and backwards, and runs `verify`. Returns the pairs as they are after
    /// the compaction filter: the compactions of the open store may ask it at any moment.
    fn read(&self, db: &Db, what: &str) -> Result<Pairs, Finding> {
        let mut pairs = match content(db, None) {
            Ok(found) => after_filter(found.pairs),
            Err(ReadError::Store(error)) => return Err(lost(what)(error)),
            Err(ReadError::Violation(violation)) => {
                return Err((Verdict::Wrong, format!("{what}: {}", violation.0)));
            }
        };
        if after_filter(backwards(db).map_err(lost(what))?) != pairs {
            return Err((
                Verdict::Wrong,
                format!("{what}: the backward scan differs from the forward scan"),
            ));
        }
        let report = db.verify(&mut |_, _| {}).map_err(lost("verify"))?;
        if let Some(problem) = report.problems.first() {
            return Err((Verdict::Wrong, format!("{what}: verify: {problem}")));
        }
        for (_, key, value) in pairs.extract_if(.., |pair| is_unlogged(pair)) {
            let writer = key.get(5).map_or(0, |digit| usize::from(digit - b'0'));
            let n = plan::number_in(&value).unwrap_or(u64::MAX);
            if n > self.slots.get(Slot::Tried(writer)) || !value.ends_with(b"weak") {
                let message = format!("{what}: {} was never written", key.escape_ascii());
                return Err((Verdict::Wrong, message));
            }
        }
        Ok(pairs)
    }

    /// Judges the newest checkpoint. A completed one opens and holds the batches acknowledged
    /// before its start. An incomplete one does not open.
    fn judge_checkpoint(&self, options: &Options) -> Result<u64, Finding> {
        let number = self.slots.get(Slot::CopyBegun);
        let path = copy_path(self.base, number);
        let done = number > 0 && self.slots.get(Slot::CopyDone) == number;
        if !path.exists() {
            return match done {
                true => Err((Verdict::Lost, "a finished checkpoint is missing".into())),
                false => Ok(0),
            };
        }
        let now_ms = now_ms(options);
        let options = Options { create_if_missing: false, ..options.clone() };
        match Db::open_on(self.store_fs(), &path, options) {
            Ok(db) => {
                let least = |writer| self.slots.get(Slot::CopyFrom(writer));
                self.judge_content((&db, now_ms), "the checkpoint", least, false)?;
                db.close().map_err(lost("close the checkpoint"))?;
            }
            Err(error) if done => return Err(lost("open a finished checkpoint")(error)),
            Err(_) => {}
        }
        self.remove(&path)?;
        // The number is never reused: a power cut may restore a copy whose removal was not synced.
        self.slots.set(Slot::CopyBegun, number + 1);
        Ok(1)
    }

    /// Judges the backups: the newest complete one is at least as new as the last one reported
    /// done.
    fn judge_backup(&self, options: &Options) -> Result<u64, Finding> {
        let (backups, into) = (self.base.join("backups"), self.base.join("restored"));
        let (begun, done) = (self.slots.get(Slot::BackupBegun), self.slots.get(Slot::BackupDone));
        if begun == 0 || !backups.exists() {
            return match done {
                0 => Ok(0),
                _ => Err((Verdict::Lost, "finished backups are missing".into())),
            };
        }
        let (mut checked, now_ms) = (0, now_ms(options));
        match Db::restore_on(self.store_fs(), &backups, None, &into, options.clone()) {
            Ok(_) => {
                let db = Db::open_on(self.store_fs(), &into, options.clone())
                    .map_err(lost("open the restored store"))?;
                let newest = done == begun;
                let least = |w| if newest { self.slots.get(Slot::BackupFrom(w)) } else { 0 };
                self.judge_content((&db, now_ms), "the backup", least, false)?;
                db.close().map_err(lost("close the restored store"))?;
                self.remove(&into)?;
                checked = 1;
            }
            Err(error) if done > 0 => return Err(lost("restore a finished backup")(error)),
            Err(_) => {}
        }
        self.remove(&backups)?;
        self.slots.set(Slot::BackupBegun, 0);
        self.slots.set(Slot::BackupDone, 0);
        Ok(checked)
    }

    /// Removes a copy durably, so that a power cut does not restore part of it.
    fn remove(&self, path: &Path) -> Result<(), Finding> {
        std::fs::remove_dir_all(path)
            .and_then(|()| std::fs::File::open(self.base)?.sync_all())
            .map_err(|e| (Verdict::Lost, format!("remove {}: {e}", path.display())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::campaign::ops::Op;

    /// A deliberate error of the last batch.
    #[derive(Debug, Clone, Copy, PartialEq)]
    enum Planted {
        None,
        /// An operation in a keyspace other than the default one is missing.
        Torn,
        /// The total lacks the last transaction.
        LostUpdate,
    }

    fn in_other_keyspace(op: &Op) -> bool {
        matches!(op, Op::Put(slot, ..) if *slot > 0)
    }

    /// Writes some batches of one writer and judges the store.
    fn judged(planted: Planted) -> Result<u64, Finding> {
        let name = format!("esker-judge-{planted:?}-{}", std::process::id());
        let base = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&base).unwrap();
        let slots = Slots::open(&base.join("slots")).unwrap();
        slots.clear();
        let (seed, options) = (5, plan::options_of(5, 0, 1));
        let is_last = |n: &u64| {
            plan::transaction(seed, 0, *n).is_some()
                && plan::batch(seed, 0, *n).0.iter().any(in_other_keyspace)
        };
        let last = (40..).find(is_last).unwrap();
        let fs = plan::store_fs(seed, OsFs::shared());
        let db = Db::open_on(fs, base.join("db"), options.clone()).unwrap();
        let keyspaces = plan::open_keyspaces(&db).unwrap();
        for n in 1..=last {
            let (mut ops, _) = plan::batch(seed, 0, n);
            let planted = if n == last { planted } else { Planted::None };
            if planted == Planted::Torn {
                let at = ops.iter().rposition(in_other_keyspace).unwrap();
                ops.remove(at);
            }
            match plan::transaction(seed, 0, n) {
                Some(options) if planted != Planted::LostUpdate => {
                    db.transact(options, |t| plan::make_in(t, &keyspaces, &ops)).unwrap();
                }
                _ => db.write(&plan::to_batch(&keyspaces, &ops)).unwrap(),
            }
        }
        drop(keyspaces);
        db.close().unwrap();
        slots.set(Slot::Tried(0), last);
        slots.set(Slot::Acknowledged(0), last);
        let found = Judge::new(&base, &slots, seed).judge(End::Killed, &options);
        std::fs::remove_dir_all(&base).unwrap();
        found
    }

    #[test]
    fn torn_batches_and_lost_updates_are_detected() {
        assert_eq!(judged(Planted::None), Ok(0));
        let (verdict, message) = judged(Planted::Torn).unwrap_err();
        assert!(verdict == Verdict::Wrong && message.contains("expected"), "{message}");
        let (verdict, message) = judged(Planted::LostUpdate).unwrap_err();
        assert!(verdict == Verdict::Wrong && message.contains("lost update"), "{message}");
    }
}
