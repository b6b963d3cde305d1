//! Merges, puts that expire and a turning clock against a model, in three keyspaces: with flushes,
//! compactions, snapshots, transactions, reopening and power cuts.
//!
//! The model keeps for each key its last put, with its time, and the operands since. It makes the
//! value at a time by calling the operator once, on all operands. So any other grouping that the
//! store chooses must have the same result.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use crate::common::{Turning, pairs, tiny_options};
use esker::{
    Batch, Concurrency, Db, Durability, Keyspace, KeyspaceOptions, Options, Policy, ReadOptions,
    Snapshot, Transaction, TransactionOptions, built_in_merge_operator,
};
use esker_testkit::crash::{CrashFs, CrashModel};
use esker_testkit::rng::SplitMix64;

/// What was written of a key since its last delete.
#[derive(Clone, Default, Debug)]
struct Cell {
    /// The last put, and the time at which it expires.
    put: Option<(Vec<u8>, u64)>,
    /// The operands since, oldest first.
    operands: Vec<Vec<u8>>,
}

type Cells = BTreeMap<Vec<u8>, Cell>;

/// Names of the keyspaces, their operators, and the time to live of their puts in ms.
const SPACES: [(&str, &str, Option<u64>); 3] =
    [("default", "append(,)", None), ("lists", "append(;)", Some(60)), ("counts", "add_i64", None)];

/// Returns the value of a key at a time, with the time at which it expires.
fn shown(space: usize, cell: &Cell, now_ms: u64) -> Option<(Vec<u8>, Option<u64>)> {
    let put = cell.put.as_ref().filter(|(_, time_ms)| *time_ms > now_ms);
    if cell.operands.is_empty() {
        let (value, time_ms) = put?;
        return Some((value.clone(), Some(*time_ms).filter(|time_ms| *time_ms != u64::MAX)));
    }
    let operator = built_in_merge_operator(SPACES[space].1).unwrap();
    let operands: Vec<&[u8]> = cell.operands.iter().map(Vec::as_slice).collect();
    let (existing, mut value) = (put.map(|(value, _)| value.as_slice()), Vec::new());
    operator.full_merge(b"", existing, &operands, &mut value).unwrap();
    Some((value, None))
}

fn all_shown(space: usize, cells: &Cells, now_ms: u64) -> Vec<(Vec<u8>, Vec<u8>)> {
    let shown = |(key, cell): (&Vec<u8>, &Cell)| {
        shown(space, cell, now_ms).map(|(value, _)| (key.clone(), value))
    };
    cells.iter().filter_map(shown).collect()
}

/// A write of one key.
#[derive(Clone, Debug)]
enum Write {
    Put(Vec<u8>),
    PutWithTtl(Vec<u8>, u64),
    Merge(Vec<u8>),
    Delete,
}

/// Applies a write at a time to the model.
fn apply(space: usize, cells: &mut Cells, key: &[u8], write: &Write, now_ms: u64) {
    let cell = cells.entry(key.to_vec()).or_default();
    let default_ms = SPACES[space].2.map_or(u64::MAX, |ttl_ms| now_ms + ttl_ms);
    match write {
        Write::Put(value) => {
            *cell = Cell { put: Some((value.clone(), default_ms)), operands: Vec::new() };
        }
        Write::PutWithTtl(value, ttl_ms) => {
            let put = Some((value.clone(), now_ms + ttl_ms));
            *cell = Cell { put, operands: Vec::new() };
        }
        Write::Merge(operand) => cell.operands.push(operand.clone()),
        Write::Delete => *cell = Cell::default(),
    }
}

struct Run {
    fs: Arc<CrashFs>,
    options: Options,
    clock: Arc<Turning>,
    /// The latest time that the store has seen.
    now_ms: u64,
    db: Option<Db>,
    spaces: Vec<Keyspace>,
    cells: [Cells; 3],
    snapshots: Vec<(Snapshot, [Cells; 3], u64)>,
    rng: SplitMix64,
    /// Whether many writes are of one key, and few flushes come between, so that its chain of
    /// operands in memory is long.
    is_hot: bool,
}

fn spaces_of(db: &Db) -> Vec<Keyspace> {
    let open = |(name, operator, ttl_ms): &(&str, &str, Option<u64>)| {
        let mut options = KeyspaceOptions::default();
        if *name != "default" {
            options = options.merge_operator(operator);
            if let Some(ttl_ms) = ttl_ms {
                options = options.ttl(Duration::from_millis(*ttl_ms));
            }
        }
        db.keyspace(name, &options).unwrap()
    };
    SPACES.iter().map(open).collect()
}

/// Makes the store see the time. A store in which no pair expires does not ask its clock.
fn show_time(db: &Db) {
    db.put_with_ttl("first", "", Duration::ZERO).unwrap();
}

impl Run {
    fn new(seed: u64, policy: Policy) -> Run {
        let is_hot = seed.is_multiple_of(3);
        let clock = Arc::new(Turning(AtomicU64::new(1_000)));
        let options = Options {
            policy,
            merge_operator: built_in_merge_operator(SPACES[0].1),
            clock: Some(clock.clone()),
            durability: Durability::Sync,
            memtable_size_bytes: Some(if is_hot { 256 << 10 } else { 4 << 10 }),
            ..tiny_options()
        };
        let fs = CrashFs::seeded(seed);
        let db = Db::open_on(fs.clone(), Path::new("/db"), options.clone()).unwrap();
        let spaces = spaces_of(&db);
        show_time(&db);
        let (cells, rng) = (Default::default(), SplitMix64::new(seed));
        let (db, snapshots) = (Some(db), Vec::new());
        Run { fs, options, clock, now_ms: 1_000, db, spaces, cells, snapshots, rng, is_hot }
    }

    fn db(&self) -> &Db {
        self.db.as_ref().unwrap()
    }

    fn key(&mut self) -> Vec<u8> {
        let is_hot = self.is_hot && !self.rng.chance(3);
        format!("k{:02}", if is_hot { 0 } else { self.rng.below(40) }).into_bytes()
    }

    fn write_for(&mut self, space: usize) -> Write {
        let text = self.rng.below(200).to_string().into_bytes();
        // A hot key is seldom put, so that its operands gather.
        let kind = if self.is_hot && !self.rng.chance(8) { 11 } else { self.rng.below(12) };
        match kind {
            0..=2 => Write::Put(text),
            3..=4 => Write::PutWithTtl(text, self.rng.below(60)),
            5 => Write::Delete,
            6 if space < 2 => Write::Merge(vec![b'x'; 300]),
            _ => Write::Merge(text),
        }
    }

    fn write_one(&mut self) {
        let space = self.rng.below(3) as usize;
        let (key, write) = (self.key(), self.write_for(space));
        let keyspace = &self.spaces[space];
        match &write {
            Write::Put(value) => keyspace.put(&key, value).unwrap(),
            Write::PutWithTtl(value, ttl_ms) => {
                keyspace.put_with_ttl(&key, value, Duration::from_millis(*ttl_ms)).unwrap();
            }
            Write::Merge(operand) => keyspace.merge(&key, operand).unwrap(),
            Write::Delete => keyspace.delete(&key).unwrap(),
        }
        apply(space, &mut self.cells[space], &key, &write, self.now_ms);
    }

    fn write_batch(&mut self) {
        let mut batch = Batch::new();
        for _ in 0..self.rng.below(8) {
            let space = self.rng.below(3) as usize;
            let (key, write) = (self.key(), self.write_for(space));
            let keyspace = &self.spaces[space];
            match &write {
                Write::Put(value) => batch.put_in(keyspace, &key, value),
                Write::PutWithTtl(value, ttl_ms) => {
                    batch.put_with_ttl_in(keyspace, &key, value, Duration::from_millis(*ttl_ms))
                }
                Write::Merge(operand) => batch.merge_in(keyspace, &key, operand),
                Write::Delete => batch.delete_in(keyspace, &key),
            };
            apply(space, &mut self.cells[space], &key, &write, self.now_ms);
        }
        self.db().write(&batch).unwrap();
    }

    fn delete_range(&mut self) {
        if self.is_hot && !self.rng.chance(8) {
            return;
        }
        let (space, a, b) = (self.rng.below(3) as usize, self.key(), self.key());
        self.spaces[space].delete_range(&a, &b).unwrap();
        self.cells[space].retain(|key, _| *key < a || *key >= b);
    }

    fn touch(&mut self) {
        if self.is_hot && !self.rng.chance(8) {
            return;
        }
        let (space, key, ttl_ms) = (self.rng.below(3) as usize, self.key(), self.rng.below(50));
        let now_ms = self.now_ms;
        let was = self.cells[space].get(&key).and_then(|cell| shown(space, cell, now_ms));
        let touched = self.spaces[space].touch(&key, Duration::from_millis(ttl_ms)).unwrap();
        assert_eq!(touched, was.is_some(), "touch {}", key.escape_ascii());
        if let Some((value, _)) = was {
            apply(space, &mut self.cells[space], &key, &Write::PutWithTtl(value, ttl_ms), now_ms);
        }
    }

    /// Runs a transaction with a savepoint. Its own reads see its writes and merges.
    fn transact(&mut self) {
        let mut options = TransactionOptions::default();
        if self.rng.chance(2) {
            options = options.concurrency(Concurrency::Pessimistic);
        }
        let transaction = self.db().transaction(options);
        let (mut cells, mut saved) = (self.cells.clone(), None);
        for step in 0..self.rng.below(12) {
            let space = self.rng.below(3) as usize;
            let (key, write) = (self.key(), self.write_for(space));
            let keyspace = self.spaces[space].clone();
            match (self.rng.below(8), &write) {
                (0, _) => {
                    let end = self.key();
                    transaction.delete_range_in(&keyspace, &key, &end).unwrap();
                    cells[space].retain(|own, _| *own < key || *own >= end);
                }
                (1, _) if saved.is_none() => {
                    transaction.savepoint().unwrap();
                    saved = Some(cells.clone());
                }
                (2, _) if saved.is_some() => {
                    transaction.rollback_to_savepoint().unwrap();
                    cells = saved.take().unwrap();
                }
                (_, Write::Put(value)) => {
                    transaction.put_in(&keyspace, &key, value).unwrap();
                    apply(space, &mut cells[space], &key, &write, self.now_ms);
                }
                (_, Write::PutWithTtl(value, ttl_ms)) => {
                    // A transaction sees its own put whatever the time to live.
                    let ttl_ms = ttl_ms + 1;
                    let ttl = Duration::from_millis(ttl_ms);
                    transaction.put_with_ttl_in(&keyspace, &key, value, ttl).unwrap();
                    let write = Write::PutWithTtl(value.clone(), ttl_ms);
                    apply(space, &mut cells[space], &key, &write, self.now_ms);
                }
                (_, Write::Merge(operand)) => {
                    transaction.merge_in(&keyspace, &key, operand).unwrap();
                    apply(space, &mut cells[space], &key, &write, self.now_ms);
                }
                (_, Write::Delete) => {
                    transaction.delete_in(&keyspace, &key).unwrap();
                    apply(space, &mut cells[space], &key, &write, self.now_ms);
                }
            }
            if step % 3 == 0 {
                self.check_transaction(&transaction, &cells);
            }
        }
        self.check_transaction(&transaction, &cells);
        if self.rng.chance(3) {
            transaction.rollback();
        } else {
            transaction.commit().unwrap();
            self.cells = cells;
        }
    }

    fn check_transaction(&mut self, transaction: &Transaction, cells: &[Cells; 3]) {
        for (space, cells) in cells.iter().enumerate() {
            let (key, keyspace) = (self.key(), self.spaces[space].clone());
            let want = cells.get(&key).and_then(|cell| shown(space, cell, self.now_ms));
            let found = transaction.get_in(&keyspace, &key).unwrap();
            assert_eq!(found.as_deref(), want.as_ref().map(|(value, _)| value.as_slice()));
            let want = all_shown(space, cells, self.now_ms);
            let seen: Vec<_> =
                transaction.iter_in(&keyspace).unwrap().map(|p| p.unwrap()).collect();
            assert_eq!(seen, want);
            let back = transaction.iter_in(&keyspace).unwrap().rev();
            let mut back: Vec<_> = back.map(|pair| pair.unwrap()).collect();
            back.reverse();
            assert_eq!(back, want);
        }
    }

    /// Turns the clock forward, or back. The store does not go back.
    fn turn(&mut self) {
        if self.rng.chance(4) {
            self.clock.0.store(self.now_ms.saturating_sub(self.rng.below(500)), Relaxed);
        } else {
            self.now_ms += self.rng.below(25);
            self.clock.0.store(self.now_ms, Relaxed);
        }
        show_time(self.db());
    }

    fn check_key(&mut self) {
        let (space, key) = (self.rng.below(3) as usize, self.key());
        let keyspace = &self.spaces[space];
        let want = self.cells[space].get(&key).and_then(|cell| shown(space, cell, self.now_ms));
        let value = want.as_ref().map(|(value, _)| value.as_slice());
        assert_eq!(keyspace.get(&key).unwrap().as_deref(), value, "{}", key.escape_ascii());
        assert_eq!(keyspace.read(&key, <[u8]>::to_vec).unwrap().as_deref(), value);
        assert_eq!(keyspace.contains_key(&key).unwrap(), value.is_some());
        let found = keyspace.get_with_expiry(&key).unwrap();
        let found = found.map(|(value, time_ms)| (value.to_vec(), time_ms));
        assert_eq!(found, want);
        let keys: Vec<Vec<u8>> = (0..6).map(|_| self.key()).collect();
        let found = self.spaces[space].multi_get(&keys).unwrap();
        for (key, found) in keys.iter().zip(found) {
            let want = self.cells[space].get(key).and_then(|cell| shown(space, cell, self.now_ms));
            assert_eq!(found.as_deref(), want.as_ref().map(|(value, _)| value.as_slice()));
        }
    }

    /// Compares steps of an iterator in changing directions.
    fn check_steps(&mut self) {
        let (space, key) = (self.rng.below(3) as usize, self.key());
        let want = all_shown(space, &self.cells[space], self.now_ms);
        let mut iter = self.spaces[space].iter().unwrap();
        iter.seek(&key).unwrap();
        let mut at = want.partition_point(|(found, _)| *found < key) as isize;
        for _ in 0..12 {
            let pair = usize::try_from(at).ok().and_then(|at| want.get(at));
            assert_eq!(iter.valid(), pair.is_some());
            let Some((key, value)) = pair else { return };
            assert_eq!((iter.key(), iter.value()), (key.as_slice(), value.as_slice()));
            let time_ms = shown(space, &self.cells[space][key], self.now_ms).unwrap().1;
            assert_eq!(iter.expires_ms(), time_ms);
            if self.rng.chance(3) {
                iter.move_prev().unwrap();
                at -= 1;
            } else {
                iter.move_next().unwrap();
                at += 1;
            }
        }
    }

    fn check_all(&self) {
        check_content(&self.spaces, &self.cells, self.now_ms);
        for (snapshot, cells, at_ms) in &self.snapshots {
            for (space, keyspace) in self.spaces.iter().enumerate() {
                let options = ReadOptions::default().snapshot(snapshot);
                let everything = (Bound::Unbounded, Bound::Unbounded);
                let seen = pairs(keyspace.iter_with(&options, everything).unwrap());
                let want = all_shown(space, &cells[space], *at_ms);
                assert_eq!(seen, want, "snapshot of {}", SPACES[space].0);
                for (key, cell) in cells[space].iter().step_by(7) {
                    let found = keyspace.get_with(key, &options).unwrap();
                    let want = shown(space, cell, *at_ms).map(|(value, _)| value);
                    assert_eq!(found.as_deref(), want.as_deref());
                }
            }
        }
    }

    fn reopen(&mut self) {
        self.snapshots.clear();
        self.spaces.clear();
        // Another opening knows only the present.
        self.clock.0.store(self.now_ms, Relaxed);
        let db = self.db.take().unwrap();
        if self.rng.chance(2) {
            db.close().unwrap()
        } else {
            drop(db)
        }
        let db = Db::open_on(self.fs.clone(), Path::new("/db"), self.options.clone()).unwrap();
        show_time(&db);
        self.spaces = spaces_of(&db);
        self.db = Some(db);
        self.check_all();
    }

    /// Opens what a power cut would leave now, as long as every write was synced.
    fn cut(&mut self) {
        self.clock.0.store(self.now_ms, Relaxed);
        let seed = self.rng.next_u64();
        for model in
            [CrashModel::SyncedOnly, CrashModel::Everything, CrashModel::Scattered { seed }]
        {
            let image = self.fs.crash_image(model);
            let db = Db::open_on(image, Path::new("/db"), self.options.clone()).unwrap();
            check_content(&spaces_of(&db), &self.cells, self.now_ms);
        }
    }

    fn step(&mut self) {
        match self.rng.below(100) {
            0..=49 => self.write_one(),
            50..=57 => self.write_batch(),
            58..=60 => self.delete_range(),
            61..=66 => self.touch(),
            67..=70 => self.transact(),
            71..=76 => self.turn(),
            77..=86 => self.check_key(),
            87..=90 => self.check_steps(),
            91 if self.snapshots.len() < 4 => {
                let snapshot = self.db().snapshot();
                self.snapshots.push((snapshot, self.cells.clone(), self.now_ms));
            }
            92 => drop(self.snapshots.pop()),
            93 => self.db().flush().unwrap(),
            94 if self.rng.chance(3) => self.db().compact_all().unwrap(),
            95 if self.rng.chance(8) => self.reopen(),
            96 if self.rng.chance(8) => self.cut(),
            97 => self.check_all(),
            _ => {}
        }
    }
}

fn check_content(spaces: &[Keyspace], cells: &[Cells; 3], now_ms: u64) {
    for (space, keyspace) in spaces.iter().enumerate() {
        let want = all_shown(space, &cells[space], now_ms);
        assert_eq!(pairs(keyspace.iter().unwrap()), want, "{}", SPACES[space].0);
        let mut back: Vec<_> = keyspace.iter().unwrap().rev().map(|pair| pair.unwrap()).collect();
        back.reverse();
        assert_eq!(back, want, "{} backward", SPACES[space].0);
    }
}

#[test]
fn merges_and_expiring_pairs_match_the_model() {
    let (mut operands_merged, mut expired) = (0, 0);
    for (policy, seed) in Policy::ALL.iter().cycle().zip(400..410) {
        eprintln!("policy {policy:?}, seed {seed}");
        let mut run = Run::new(seed, *policy);
        for _ in 0..2_000 {
            run.step();
        }
        run.check_all();
        run.snapshots.clear();
        run.db().wait_idle().unwrap();
        run.check_all();
        run.db().compact_all().unwrap();
        run.check_all();
        let metrics = run.db().metrics();
        operands_merged += metrics.operands_merged;
        expired += metrics.expired;
        assert_eq!(metrics.callback_problems, 0, "{:?}", metrics.callback_problem);
        let report = run.db().verify(&mut |_, _| {}).unwrap();
        assert!(report.is_whole(), "{:?}", report.problems);
        run.cut();
    }
    assert!(operands_merged > 0 && expired > 0, "{operands_merged} {expired}");
}
