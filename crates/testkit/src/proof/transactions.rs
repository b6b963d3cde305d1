//! The workload of transactions: each appends unique elements to some lists and reads others. It
//! is the workload `list-append` of Elle (Kingsbury and Alvaro, VLDB 2020), which `adya` judges.
//!
//! A transaction draws its concurrency, its durability, whether it rolls back, whether it is
//! prepared before its commit, and whether it writes something that it takes back at a savepoint.
//! One that only reads may read a snapshot of the store instead.
//!
//! Invariants: an element is appended to a list at most once in a history. For a
//! transaction without an answer, the history has its operations without results.

use std::fmt::Write as _;
use std::ops::Bound;

use esker::{
    Concurrency, Durability, Error, ErrorKind, Isolation, ReadOptions, Result, TransactionOptions,
};

use super::plan::{Plant, Subject};
use super::plants::Access;
use super::record::{Outcome, Recorder};
use super::store::{Place, Store, decode, encode, row_bounds, row_key, row_prefix, value_key};
use crate::rng::SplitMix64;

/// Maximum number of steps of a transaction.
const STEPS_MAX: u64 = 5;

/// A step of a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    Append { list: u64, element: u64 },
    Read { list: u64 },
}

/// The transactions of one thread in one session.
pub struct Worker<'a> {
    /// The store.
    pub store: &'a Store,
    /// The isolation level.
    pub subject: Subject,
    /// The planted bug.
    pub plant: Plant,
    /// The source of the thread's choices.
    pub rng: SplitMix64,
    /// The thread's events.
    pub recorder: Recorder<'a>,
    /// One commit in this many is synced.
    pub sync_one_in: u64,
}

/// How a transaction ended, and the error that ended it.
type Ending = (Outcome, Option<Error>);

/// Returns whether the error says that the transaction should run again.
fn is_refusal(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Conflict | ErrorKind::Busy | ErrorKind::Deadlock)
}

/// Returns how a commit ended.
fn ending_of(committed: Result<()>) -> Ending {
    match committed {
        Ok(()) => (Outcome::Done, None),
        Err(error) if is_refusal(&error) => (Outcome::Failed, Some(error)),
        Err(error) => (Outcome::Unknown, Some(error)),
    }
}

/// Returns the steps as JSON. `reads` has the lists that were read, in the order of the steps.
fn json(steps: &[Step], reads: Option<&[Vec<u64>]>) -> String {
    let mut text = String::from("[");
    let mut reads = reads.map(|reads| reads.iter());
    for (at, step) in steps.iter().enumerate() {
        let comma = if at == 0 { "" } else { "," };
        // Writing to a string cannot fail.
        let _ = match step {
            Step::Append { list, element } => {
                write!(text, "{comma}[\"append\",{list},{element}]")
            }
            Step::Read { list } => match reads.as_mut().and_then(Iterator::next) {
                Some(elements) => write!(text, "{comma}[\"r\",{list},{elements:?}]"),
                None => write!(text, "{comma}[\"r\",{list},null]"),
            },
        };
    }
    text.push(']');
    text
}

impl Worker<'_> {
    /// Runs one transaction, when `started` were started before.
    ///
    /// # Errors
    /// The store's error, if it is not a conflict.
    pub fn one(&mut self, started: u64) -> Result<()> {
        let number = self.recorder.number();
        let steps: Vec<Step> = (0..1 + self.rng.below(STEPS_MAX))
            .map(|at| {
                let list = self.subject.key(&mut self.rng, started);
                match self.rng.chance(2) {
                    true => Step::Append { list, element: number * 8 + at },
                    false => Step::Read { list },
                }
            })
            .collect();
        self.run(number, &steps)
    }

    /// Reads lists in one transaction.
    ///
    /// # Errors
    /// As [`Worker::one`].
    pub fn read(&mut self, lists: &[u64]) -> Result<()> {
        let steps: Vec<Step> = lists.iter().map(|list| Step::Read { list: *list }).collect();
        let number = self.recorder.number();
        self.run(number, &steps)
    }

    fn run(&mut self, number: u64, steps: &[Step]) -> Result<()> {
        self.recorder.call(number, &json(steps, None)).expect("record a call");
        let only_reads = steps.iter().all(|step| matches!(step, Step::Read { .. }));
        let (ending, reads) = if only_reads && self.plant == Plant::None && self.rng.chance(3) {
            match self.read_snapshot(steps) {
                Ok(reads) => ((Outcome::Done, None), reads),
                Err(error) => ((Outcome::Failed, Some(error)), Vec::new()),
            }
        } else {
            let mut access = Access::begin(self.store, self.options(), self.bug());
            match self.work(&mut access, steps) {
                Err(error) => ((Outcome::Failed, Some(error)), Vec::new()),
                Ok(_) if self.rng.chance(40) => ((Outcome::Failed, None), Vec::new()),
                Ok(reads) if only_reads || access.has_bug() || !self.rng.chance(80) => {
                    (ending_of(access.commit()), reads)
                }
                Ok(reads) => (self.commit_prepared(access, number), reads),
            }
        };
        let answer = match ending.0 {
            Outcome::Done => json(steps, Some(&reads)),
            Outcome::Failed | Outcome::Unknown => String::new(),
        };
        self.recorder.done(ending.0, &answer);
        ending.1.filter(|error| !is_refusal(error)).map_or(Ok(()), Err)
    }

    /// Prepares a transaction, and then commits it or rolls it back.
    fn commit_prepared(&mut self, access: Access<'_>, number: u64) -> Ending {
        let (db, name) = (&self.store.db, format!("transaction {number}"));
        let ending = ending_of(access.prepare(&name));
        if ending.0 != Outcome::Done {
            return ending;
        }
        std::thread::yield_now();
        let (outcome, resolved) = match self.rng.chance(4) {
            true => (Outcome::Failed, db.rollback_prepared(&name)),
            false => (Outcome::Done, db.commit_prepared(&name)),
        };
        match resolved {
            Ok(()) => (outcome, None),
            // It is still prepared. The next session ends it.
            Err(error) => (Outcome::Unknown, Some(error)),
        }
    }

    /// Reads the lists of the steps at one moment, without a transaction.
    fn read_snapshot(&self, steps: &[Step]) -> Result<Vec<Vec<u64>>> {
        let snapshot = self.store.db.snapshot();
        let options = ReadOptions::default().snapshot(&snapshot);
        let read = |step: &Step| {
            let (Step::Append { list, .. } | Step::Read { list }) = *step;
            let keyspace = self.store.keyspace(Place::of(list));
            std::thread::yield_now();
            if Place::of(list) != Place::Rows {
                let value = keyspace.get_with(value_key(list), &options)?;
                return Ok(value.map_or_else(Vec::new, |value| elements_of(list, &value)));
            }
            let (first, end) = row_bounds(list);
            let bounds = (Bound::Included(first.into()), Bound::Excluded(end.into()));
            let rows = keyspace.iter_with(&options, bounds)?.collect::<Result<Vec<_>>>()?;
            Ok(rows.iter().flat_map(|(_, value)| elements_of(list, value)).collect())
        };
        steps.iter().map(read).collect()
    }

    fn bug(&mut self) -> Plant {
        match self.plant {
            Plant::LostUpdate | Plant::ReadSkew | Plant::TornBatch if !self.rng.chance(10) => {
                Plant::None
            }
            plant => plant,
        }
    }

    fn options(&mut self) -> TransactionOptions {
        let isolation = match self.subject {
            Subject::Serializable => Isolation::Serializable,
            Subject::Snapshot | Subject::Plain => Isolation::Snapshot,
        };
        let concurrency =
            if self.rng.chance(3) { Concurrency::Pessimistic } else { Concurrency::Optimistic };
        let durability =
            if self.rng.chance(self.sync_one_in) { Durability::Sync } else { Durability::Buffered };
        TransactionOptions::default()
            .isolation(isolation)
            .concurrency(concurrency)
            .durability(durability)
            .lock_timeout_ms(5)
    }

    /// Runs the steps. Returns the lists that were read.
    fn work(&mut self, access: &mut Access<'_>, steps: &[Step]) -> Result<Vec<Vec<u64>>> {
        let mut reads = Vec::new();
        let undone = (!access.has_bug() && self.rng.chance(8)).then(|| self.rng.below(STEPS_MAX));
        for (at, step) in steps.iter().enumerate() {
            if undone == Some(at as u64) {
                self.undo_one(access, *step)?;
            }
            match *step {
                Step::Append { list, element } => self.append(access, list, element)?,
                Step::Read { list } => reads.push(read_list(access, list)?),
            }
            if self.rng.chance(2) {
                std::thread::yield_now();
            }
        }
        Ok(reads)
    }

    /// Appends an element that no transaction appends, and takes it back.
    fn undo_one(&mut self, access: &mut Access<'_>, step: Step) -> Result<()> {
        let (Step::Append { list, .. } | Step::Read { list }) = step;
        access.transaction().savepoint()?;
        let element = self.recorder.number() * 8 + 7;
        self.append(access, list, element)?;
        access.transaction().rollback_to_savepoint()
    }

    fn append(&mut self, access: &mut Access<'_>, list: u64, element: u64) -> Result<()> {
        let place = Place::of(list);
        let transaction = access.transaction();
        if place == Place::Rows {
            let keyspace = self.store.keyspace(place);
            let prefix = row_prefix(list);
            let rows = transaction.prefix_in(keyspace, prefix)?.collect::<Result<Vec<_>>>()?.len();
            return access.put(place, row_key(list, rows), encode(&[element], &mut self.rng));
        }
        let (key, keyspace) = (value_key(list), self.store.keyspace(place));
        let before = match self.rng.chance(2) {
            true => transaction.get_for_update_in(keyspace, &key)?,
            false => transaction.get_in(keyspace, &key)?,
        };
        let mut elements = before.map_or_else(Vec::new, |value| elements_of(list, &value));
        elements.push(element);
        access.put(place, key, encode(&elements, &mut self.rng))
    }
}

fn elements_of(list: u64, value: &[u8]) -> Vec<u64> {
    decode(value).unwrap_or_else(|| {
        panic!("list {list} has a value that was never written: {}", value.escape_ascii())
    })
}

fn read_list(access: &Access<'_>, list: u64) -> Result<Vec<u64>> {
    if Place::of(list) == Place::Rows {
        let rows = access.scan(list)?;
        return Ok(rows.iter().flat_map(|(_, value)| elements_of(list, value)).collect());
    }
    let value = access.get(Place::of(list), &value_key(list))?;
    Ok(value.map_or_else(Vec::new, |value| elements_of(list, &value)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_become_the_json_of_the_judge() {
        let steps = [Step::Append { list: 3, element: 17 }, Step::Read { list: 4 }];
        assert_eq!(json(&steps, None), r#"[["append",3,17],["r",4,null]]"#);
        let reads = [vec![5, 6]];
        assert_eq!(json(&steps, Some(&reads)), r#"[["append",3,17],["r",4,[5, 6]]]"#);
        assert_eq!(json(&steps[1..], Some(&[vec![]])), r#"[["r",4,[]]]"#);
    }
}
