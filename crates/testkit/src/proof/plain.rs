//! The workload of plain operations on single keys: put, get, delete and remove.
//!
//! An operation is recorded as `put KEY NUMBER`, `expiring KEY NUMBER SESSION`, `get KEY`, `delete
//! KEY` or `remove KEY`. A pair that expires does not exist from that session on. The answer is recorded as the number found, 0 for a key that does not exist; for `remove` as 1 or 0.
//!
//! Invariants: a number is put at most once in a history, and is not 0.

use std::time::Duration;

use esker::{Batch, Durability, ReadOptions, Result, Snapshot, WriteOptions};

use super::plan::{Plant, Subject, session_ms};
use super::record::{Outcome, Recorder};
use super::store::{Place, Store, decode, encode, value_key};
use crate::rng::SplitMix64;

/// The operations of one thread in one session.
pub struct Worker<'a> {
    /// The store.
    pub store: &'a Store,
    /// The planted bug.
    pub plant: Plant,
    /// The number of the session in the history.
    pub session: u64,
    /// The source of the thread's choices.
    pub rng: SplitMix64,
    /// The thread's events.
    pub recorder: Recorder<'a>,
    /// What a stale read returns.
    pub old: Option<Snapshot>,
    /// One change in this many is synced.
    pub sync_one_in: u64,
}

impl Worker<'_> {
    /// Runs one operation, when `started` were started before.
    ///
    /// # Errors
    /// The store's error.
    pub fn one(&mut self, started: u64) -> Result<()> {
        let key = Subject::Plain.key(&mut self.rng, started);
        match self.rng.below(100) {
            0..45 => self.read(key),
            45..85 => self.put(key),
            85..93 => self.change(key, "delete", |keyspace, name, options| {
                keyspace.delete_with(name, options).map(|()| String::new())
            }),
            _ => self.change(key, "remove", |keyspace, name, _| {
                keyspace.remove(name).map(|existed| u64::from(existed).to_string())
            }),
        }
    }

    /// Gets a key.
    ///
    /// # Errors
    /// The store's error.
    pub fn read(&mut self, key: u64) -> Result<()> {
        let number = self.recorder.number();
        let stale = self.plant == Plant::StaleRead && self.rng.chance(500);
        if self.plant == Plant::StaleRead && (self.old.is_none() || self.rng.chance(500)) {
            self.old = Some(self.store.db.snapshot());
        }
        let keyspace = self.store.keyspace(Place::of(key));
        let options = ReadOptions::default().snapshot(self.old.as_ref().filter(|_| stale));
        self.recorder.call(number, &format!("get {key}")).expect("record a call");
        let found = keyspace.get_with(value_key(key), &options);
        let (outcome, answer, error) = match found {
            Ok(value) => (Outcome::Done, number_of(key, value.as_deref()).to_string(), Ok(())),
            Err(error) => (Outcome::Failed, String::new(), Err(error)),
        };
        self.recorder.done(outcome, &answer);
        error
    }

    fn put(&mut self, key: u64) -> Result<()> {
        let number = self.recorder.number();
        let value = encode(&[number], &mut self.rng);
        let unlogged = self.plant == Plant::LostWrite && self.rng.chance(10);
        let expires = self.rng.chance(4).then(|| self.session + 1 + self.rng.below(3));
        let asked = match expires {
            Some(session) => format!("expiring {key} {number} {session}"),
            None => format!("put {key} {number}"),
        };
        let loses_expiry = self.plant == Plant::ResurrectedExpiry && self.rng.chance(10);
        let stored = expires.filter(|_| !loses_expiry);
        let ttl =
            stored.map(|end| Duration::from_millis(session_ms(end) - session_ms(self.session)));
        let db = self.store.db.clone();
        self.change(key, &asked, |keyspace, name, options| {
            let options = if unlogged { &WriteOptions::NONE } else { options };
            let mut batch = Batch::new();
            match ttl {
                Some(ttl) => batch.put_with_ttl_in(keyspace, name, &value, ttl),
                None => batch.put_in(keyspace, name, &value),
            };
            db.write_with(&batch, options).map(|()| String::new())
        })
    }

    /// Makes a change. `asked` is what the history says, or the word before the key.
    fn change(
        &mut self,
        key: u64,
        asked: &str,
        make: impl FnOnce(&esker::Keyspace, &str, &WriteOptions) -> Result<String>,
    ) -> Result<()> {
        let number = self.recorder.number();
        let asked = match asked.contains(' ') {
            true => asked.to_string(),
            false => format!("{asked} {key}"),
        };
        let durability =
            if self.rng.chance(self.sync_one_in) { Durability::Sync } else { Durability::Buffered };
        let options = WriteOptions::default().durability(durability);
        self.recorder.call(number, &asked).expect("record a call");
        let made = make(self.store.keyspace(Place::of(key)), &value_key(key), &options);
        let (outcome, answer, error) = match made {
            Ok(answer) => (Outcome::Done, answer, Ok(())),
            Err(error) => (Outcome::Unknown, String::new(), Err(error)),
        };
        self.recorder.done(outcome, &answer);
        error
    }
}

fn number_of(key: u64, value: Option<&[u8]>) -> u64 {
    let Some(value) = value else { return 0 };
    match decode(value).as_deref() {
        Some([number]) => *number,
        _ => panic!("key {key} has a value that was never written: {}", value.escape_ascii()),
    }
}
