//! The data to write: batch n of a writer is a function of the seed, the writer and n. The content
//! of a store after n of a writer's batches is therefore known.
//!
//! Invariants: a writer's keys belong to it alone, in every keyspace. Every batch sets the writer's
//! counter to its number. Every value names its batch. A batch that is a transaction also adds one
//! to the total, a key of all writers, so a lost update makes the total too small. A batch that is an
//! ingest has its counter in one of its files. The clock stands still in a round and turns between
//! rounds, so a pair that expires does so in a known round.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use esker::fs::Fs;
use esker::{
    Batch, Concurrency, Db, Durability, Isolation, Keyspace, Options, Policy, Transaction,
    TransactionOptions,
};

use super::slots::{ROUNDS_MAX, Slot, Slots};
use crate::campaign::cell::Cell;
use crate::campaign::clock::{START_MS, ScriptClock};
use crate::campaign::encrypted;
use crate::campaign::keyspaces::{
    FILTERED_PREFIX, MERGED_SLOTS, REMOVED_VALUE, REPLACED_VALUE, SLOTS, is_reversed, names,
    options as keyspace_options,
};
use crate::campaign::ops::{Op, deletes};
use crate::campaign::script::{Theme, options, with_rules};
use crate::rng::SplitMix64;

/// Maximum number of writers of a store.
pub const WRITERS_MAX: usize = 4;
/// Number of keys of a writer in each keyspace.
pub const KEYS: u64 = 120;
/// The slot of the keyspace that has the total.
pub const TOTAL_SLOT: u8 = 2;
/// The key of the total: the number of transactions of all writers.
pub const TOTAL: &[u8] = b"total";

/// Beginning of the keys whose pairs expire.
pub const EXPIRING: &[u8] = b"expiring/";

/// Returns the generator for a position in a plan.
pub fn rng_at(seed: u64, what: u64, n: u64) -> SplitMix64 {
    let mut mix = SplitMix64::new(seed ^ what.rotate_left(48) ^ n.rotate_left(20));
    SplitMix64::new(mix.next_u64() ^ n)
}

/// Returns the number of writers of this seed's store.
pub fn writers(seed: u64) -> usize {
    1 + rng_at(seed, 90, 0).below(3) as usize
}

/// Returns the time of a round, in milliseconds since 1970.
pub fn time_ms(round: u64) -> u64 {
    START_MS + round * 1000
}

/// The number of a writer's batches when each round began.
#[derive(Debug, Clone)]
pub struct Rounds(Vec<Option<u64>>);

impl Rounds {
    /// Reads the numbers of a writer.
    pub fn of(slots: &Slots, writer: usize) -> Rounds {
        // The slots have one more, because zero is for a round that did not begin.
        let from = |round| slots.get(Slot::RoundFrom(writer, round)).checked_sub(1);
        Rounds((0..ROUNDS_MAX).map(from).collect())
    }

    /// Returns the time at which batch `n` was written: that of the last round that began with
    /// fewer batches.
    pub fn time_of(&self, n: u64) -> u64 {
        let last = self.0.iter().rposition(|from| from.is_some_and(|from| from < n));
        time_ms(last.unwrap_or(0) as u64)
    }
}

/// Returns the options of this seed's store in a session of a round. Every session differs.
pub fn options_of(seed: u64, round: u64, session: u64) -> Options {
    let mut rng = rng_at(seed, 91, round * 1000 + session);
    let policy = Policy::ALL[rng.below(Policy::ALL.len() as u64) as usize];
    let theme = Theme::ALL[rng.below(Theme::ALL.len() as u64) as usize];
    let mut options = options(policy, theme, rng.below(1 << 20));
    options = with_rules(options);
    options.clock = Some(ScriptClock::new(time_ms(round)));
    options.background_threads = Some([1, 2, 1, 0][rng.below(4) as usize]);
    options.sync_every_ms = [0, 0, 3][rng.below(3) as usize];
    options.scrub_bytes_per_second = [0, 0, 8 << 20][rng.below(3) as usize];
    options.verify_tables = !rng.chance(4);
    let sizes = [4 << 10, 8 << 10, 8 << 10, 64 << 10, 1 << 20];
    options.memtable_size_bytes = Some(sizes[rng.below(5) as usize]);
    options
}

/// Returns the key of a writer's counter.
pub fn counter_key(writer: usize) -> Vec<u8> {
    format!("w{writer}.last").into_bytes()
}

/// Returns the number in a counter or at the start of a value.
pub fn number_in(value: &[u8]) -> Option<u64> {
    value.first_chunk::<8>().map(|bytes| u64::from_be_bytes(*bytes))
}

/// Opens the keyspaces of all slots, in their order, and creates the missing ones.
///
/// # Errors
/// The store's error.
pub fn open_keyspaces(db: &Db) -> esker::Result<Vec<Keyspace>> {
    (0..SLOTS).map(|slot| db.keyspace(names(slot)[0], &keyspace_options(slot))).collect()
}

fn key(rng: &mut SplitMix64, writer: usize) -> Vec<u8> {
    let n = rng.below(KEYS);
    let mut key = format!("w{writer}/{n:04}").into_bytes();
    if n.is_multiple_of(17) {
        key.resize(key.len() + 200, b'x');
    }
    key
}

fn value(rng: &mut SplitMix64, n: u64) -> Vec<u8> {
    let len = match rng.below(60) {
        0 => 0,
        1 => 3_000 + rng.below(6_000),
        _ => rng.below(150),
    };
    let mut value = vec![b'a' + rng.below(26) as u8; len as usize];
    if rng.chance(2) {
        rng.fill(&mut value);
    }
    value.splice(0..0, n.to_be_bytes());
    value
}

/// Returns whether this seed's store is encrypted.
pub fn is_encrypted(seed: u64) -> bool {
    rng_at(seed, 60, 0).chance(3)
}

/// Returns the file system of this seed's store, its checkpoints and its backups, over `fs`.
pub fn store_fs(seed: u64, fs: Arc<dyn Fs>) -> Arc<dyn Fs> {
    encrypted::view(is_encrypted(seed), fs)
}

/// Returns whether batch `n` is an ingest of two files into the default keyspace.
pub fn is_ingest(seed: u64, writer: usize, n: u64) -> bool {
    rng_at(seed, 70 + writer as u64, n).chance(40)
}

/// Returns the operations of an ingest: puts and deletes of distinct keys.
fn ingested(rng: &mut SplitMix64, writer: usize, n: u64) -> Vec<Op> {
    let keys: BTreeSet<Vec<u8>> = (0..1 + rng.below(30)).map(|_| key(rng, writer)).collect();
    let one = |name: Vec<u8>| match rng.below(8) {
        0 => Op::Delete(0, name),
        _ => Op::Put(0, name, value(rng, n)),
    };
    keys.into_iter().map(one).collect()
}

/// Returns the operations of batch `n` and its durability.
pub fn batch(seed: u64, writer: usize, n: u64) -> (Vec<Op>, Durability) {
    let mut rng = rng_at(seed, writer as u64, n);
    if is_ingest(seed, writer, n) {
        let mut ops = ingested(&mut rng, writer, n);
        ops.push(Op::Put(0, counter_key(writer), n.to_be_bytes().to_vec()));
        return (ops, Durability::Sync);
    }
    let count = if rng.chance(3) { 1 + rng.below(8) } else { 1 };
    let mut ops: Vec<Op> = (0..count).map(|_| one(&mut rng, writer, n)).collect();
    ops.push(Op::Put(0, counter_key(writer), n.to_be_bytes().to_vec()));
    let durability = if rng.chance(24) { Durability::Sync } else { Durability::Buffered };
    (ops, durability)
}

/// Returns how batch `n` is committed as a transaction, or `None` for a plain batch or an ingest.
pub fn transaction(seed: u64, writer: usize, n: u64) -> Option<TransactionOptions> {
    let mut rng = rng_at(seed, 80 + writer as u64, n);
    if rng.chance(2) || is_ingest(seed, writer, n) {
        return None;
    }
    let isolation = [Isolation::Snapshot, Isolation::Serializable][rng.below(2) as usize];
    let all = [Concurrency::Optimistic, Concurrency::Pessimistic];
    let concurrency = all[rng.below(2) as usize];
    Some(TransactionOptions::default().isolation(isolation).concurrency(concurrency))
}

fn one(rng: &mut SplitMix64, writer: usize, n: u64) -> Op {
    if rng.chance(6) {
        return ruled(rng, writer, n);
    }
    let slot = rng.below(u64::from(SLOTS)) as u8;
    let name = key(rng, writer);
    match rng.below(40) {
        0 => {
            let other = key(rng, writer);
            Op::DeleteRange(slot, name.clone().min(other.clone()), name.max(other))
        }
        1..8 => Op::Delete(slot, name),
        _ => Op::Put(slot, name, value(rng, n)),
    }
}

/// Returns an operation on a key of its kind: a merge, a put that expires, or a put that the
/// compaction filter looks at.
fn ruled(rng: &mut SplitMix64, writer: usize, n: u64) -> Op {
    let slot = rng.below(u64::from(SLOTS)) as u8;
    let name = key(rng, writer);
    let named = |kind: &[u8]| [kind, &name].concat();
    match rng.below(12) {
        0..4 => {
            let slot = MERGED_SLOTS[rng.below(MERGED_SLOTS.len() as u64) as usize];
            Op::Merge(slot, named(b"merged/"), n.to_string().into_bytes())
        }
        4 => Op::Delete(MERGED_SLOTS[rng.below(3) as usize], named(b"merged/")),
        5..8 => {
            let ttl_ms = 1 + rng.below(3_500);
            Op::PutExpiring(slot, named(EXPIRING), value(rng, n), ttl_ms)
        }
        8 => Op::Delete(slot, named(FILTERED_PREFIX)),
        _ => {
            let begin = [REMOVED_VALUE, REPLACED_VALUE, b""][rng.below(3) as usize];
            Op::Put(slot, named(FILTERED_PREFIX), [begin, &value(rng, n)].concat())
        }
    }
}

/// Returns the operations as a batch for the store.
pub fn to_batch(keyspaces: &[Keyspace], ops: &[Op]) -> Batch {
    let mut batch = Batch::new();
    for op in ops {
        op.add_to(&mut batch, &keyspaces[usize::from(op.slot())]);
    }
    batch
}

/// Makes the operations in a transaction, and adds one to the total.
///
/// # Errors
/// The store's error, also for a conflict.
pub fn make_in(transaction: &Transaction, keyspaces: &[Keyspace], ops: &[Op]) -> esker::Result<()> {
    let total_in = &keyspaces[usize::from(TOTAL_SLOT)];
    let total = transaction.get_in(total_in, TOTAL)?;
    let total = total.as_deref().and_then(number_in).unwrap_or(0) + 1;
    transaction.put_in(total_in, TOTAL, total.to_be_bytes())?;
    ops.iter().try_for_each(|op| op.make_in(transaction, &keyspaces[usize::from(op.slot())]))
}

/// Returns whether the batch named by `value` sets `key` of the keyspace of `slot` to `value`.
pub fn wrote(seed: u64, writer: usize, slot: u8, key: &[u8], value: &[u8]) -> bool {
    let Some(n) = number_in(value) else { return false };
    let (ops, _) = batch(seed, writer, n);
    ops.iter().any(|op| matches!(op, Op::Put(s, k, v) if *s == slot && k == key && v == value))
}

/// The content of a writer's keys after a number of its batches.
#[derive(Debug, Clone)]
pub struct Model {
    seed: u64,
    writer: usize,
    /// Number of applied batches. Batches are counted from 1.
    pub at: u64,
    /// Number of applied batches that are transactions.
    pub transactions: u64,
    /// What was written of each key, by slot and key.
    pub pairs: BTreeMap<(u8, Vec<u8>), Cell>,
}

impl Model {
    /// Creates the state before the first batch.
    pub fn new(seed: u64, writer: usize) -> Model {
        Model { seed, writer, at: 0, transactions: 0, pairs: BTreeMap::new() }
    }

    /// Returns the state after `n` batches, also for an earlier state. `time_of` returns the time at
    /// which a batch was written.
    pub fn after(&self, n: u64, time_of: impl Fn(u64) -> u64) -> Model {
        let from_here = n >= self.at;
        let mut model = if from_here { self.clone() } else { Model::new(self.seed, self.writer) };
        model.advance(n, time_of);
        model
    }

    /// Advances the state to `n` batches.
    pub fn advance(&mut self, n: u64, time_of: impl Fn(u64) -> u64) {
        for next in self.at + 1..=n {
            let (ops, _) = batch(self.seed, self.writer, next);
            for op in ops {
                self.apply(op, || time_of(next));
            }
            self.transactions += u64::from(transaction(self.seed, self.writer, next).is_some());
        }
        self.at = self.at.max(n);
    }

    fn apply(&mut self, op: Op, now_ms: impl FnOnce() -> u64) {
        match op {
            Op::DeleteRange(slot, lo, hi) => self.pairs.retain(|(other, key), _| {
                *other != slot || !deletes(is_reversed(slot), &lo, &hi, key)
            }),
            Op::Clear(_) => {}
            op => {
                let Some(key) = op.key() else { return };
                let place = (op.slot(), key.clone());
                let before = self.pairs.remove(&place);
                if let Some(cell) = Cell::after(before, &op, now_ms) {
                    self.pairs.insert(place, cell);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn model_reproduces_earlier_and_later_states() {
        let mut model = Model::new(3, 1);
        let time_of = |n| time_ms(n / 50);
        model.advance(40, time_of);
        let early = model.pairs.clone();
        model.advance(900, time_of);
        assert_ne!(model.pairs, early);
        assert_eq!(model.after(40, time_of).pairs, early);
        assert_eq!(model.after(40, time_of).after(900, time_of).pairs, model.pairs);
        let counter = model.pairs[&(0, counter_key(1))].value_at(time_ms(18));
        assert_eq!(counter.as_deref().and_then(number_in), Some(900));
    }

    #[test]
    fn a_batch_has_the_time_of_the_last_round_that_began_before_it() {
        let path = std::env::temp_dir().join(format!("esker-plan-{}", std::process::id()));
        let slots = Slots::open(&path).unwrap();
        slots.clear();
        for (round, from) in [(0, 0), (1, 10), (3, 7), (4, 30)] {
            slots.set(Slot::RoundFrom(1, round), from + 1);
        }
        let rounds = Rounds::of(&slots, 1);
        let of = [1, 7, 8, 30, 31].map(|n| (rounds.time_of(n) - START_MS) / 1000);
        assert_eq!(of, [0, 0, 3, 3, 4]);
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn value_matches_only_its_batch() {
        let mut model = Model::new(8, 0);
        model.advance(200, |_| START_MS);
        let own = model.pairs.iter().find(|((_, key), _)| key.starts_with(b"w0/"));
        let ((slot, key), cell) = own.unwrap();
        let value = &cell.value_at(START_MS).unwrap();
        assert!(wrote(8, 0, *slot, key, value));
        assert!(!wrote(9, 0, *slot, key, value) && !wrote(8, 1, *slot, key, value));
        assert!(!wrote(8, 0, (*slot + 1) % SLOTS, key, value));
        let mut other = value.clone();
        other.push(0);
        assert!(!wrote(8, 0, *slot, key, &other) && !wrote(8, 0, *slot, b"w0/none", value));
    }
}
