//! Random sequences of calls on Esker's library and on RocksDB's, in lock step: every answer must be
//! the same. Without a RocksDB the test says so and passes.
//!
//! `SEQUENCES` (400) is the number of sequences; `SEED` begins with another one. A store serves
//! several sequences. A failure prints the first sequence of the store, with which `SEED` repeats it,
//! and the calls. `ROCKSDB_LIBRARY` names a library; otherwise it is the newest that
//! `esker lab engines install rocksdb` installed, or the system's.

mod calls;
#[path = "../../../crates/peers/src/installed.rs"]
mod installed;

use std::fmt::Write as _;
use std::path::Path;
use std::ptr::null_mut;

use calls::{Api, Handle, Iter, Scan, Store, kind, start};
use esker_rocksdb as _;

const NAMES: &[&str] = &["default", "one", "two"];
const CALLS_PER_SEQUENCE: usize = 40;
/// Sequences in one store; each begins with a deletion of all its keys.
const SEQUENCES_PER_STORE: u64 = 16;
/// One of so many stores has transactions: RocksDB takes a million locks for each of them.
const STORES_PER_TRANSACTIONS: u64 = 8;
/// One of so many `Reopen` draws opens the store again. The others flush it.
const REOPENS: usize = 3;

/// A generator of random numbers (xorshift).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit as u64) as usize
    }

    /// A short key, so that keys meet.
    fn key(&mut self) -> Vec<u8> {
        let len = 1 + self.below(3);
        (0..len).map(|_| b"ab\0\xff"[self.below(4)]).collect()
    }

    /// An operand of an addition, of the right length most of the time.
    fn operand(&mut self) -> Vec<u8> {
        let number = self.next().to_le_bytes();
        number[..if self.below(8) == 0 { 3 } else { 8 }].to_vec()
    }

    fn value(&mut self) -> Vec<u8> {
        let len = [0, 1, 8, 300][self.below(4)];
        vec![self.next() as u8; len]
    }
}

/// A put of a value, or a delete: column family, key, value.
type Write = (usize, Vec<u8>, Option<Vec<u8>>);

/// A call with its arguments, which both libraries get.
#[derive(Debug, Clone)]
enum Call {
    Set(usize, Vec<u8>, Option<Vec<u8>>),
    Merge(usize, Vec<u8>, Vec<u8>),
    MergeBatch(Vec<(usize, Vec<u8>, Vec<u8>)>),
    DeleteRange(usize, Vec<u8>, Vec<u8>),
    Batch(Vec<Write>, usize),
    Get(usize, Vec<u8>),
    MultiGet(Vec<(usize, Vec<u8>)>),
    Walk(usize, Option<Vec<u8>>, Option<Vec<u8>>, Vec<Step>),
    Snapshot,
    GetAtSnapshot(usize, Vec<u8>),
    Transaction(Vec<InTransaction>, bool),
    Flush,
    Compact(usize),
    Reopen,
}

#[derive(Debug, Clone)]
enum Step {
    First,
    Last,
    Seek(Vec<u8>),
    SeekForPrev(Vec<u8>),
    Next,
    Prev,
}

#[derive(Debug, Clone)]
enum InTransaction {
    Set(usize, Vec<u8>, Option<Vec<u8>>),
    /// A merge in the default column family.
    Merge(Vec<u8>, Vec<u8>),
    Get(usize, Vec<u8>, bool),
    Walk(usize, Vec<Step>),
    Savepoint,
    RollBackToSavepoint,
}

fn steps(random: &mut Random) -> Vec<Step> {
    (0..1 + random.below(8))
        .map(|at| match random.below(if at == 0 { 4 } else { 8 }) {
            0 => Step::First,
            1 => Step::Last,
            2 => Step::Seek(random.key()),
            3 => Step::SeekForPrev(random.key()),
            4 | 5 => Step::Next,
            _ => Step::Prev,
        })
        .collect()
}

fn write(random: &mut Random) -> Write {
    let value = (random.below(3) > 0).then(|| random.value());
    (random.below(NAMES.len()), random.key(), value)
}

fn transaction(random: &mut Random) -> Vec<InTransaction> {
    (0..1 + random.below(8))
        .map(|_| match random.below(9) {
            8 => InTransaction::Merge(random.key(), random.operand()),
            0..=2 => {
                let (family, key, value) = write(random);
                InTransaction::Set(family, key, value)
            }
            3 | 4 => {
                let for_update = random.below(2) == 0;
                InTransaction::Get(random.below(NAMES.len()), random.key(), for_update)
            }
            5 => InTransaction::Walk(random.below(NAMES.len()), steps(random)),
            6 => InTransaction::Savepoint,
            _ => InTransaction::RollBackToSavepoint,
        })
        .collect()
}

fn call(random: &mut Random) -> Call {
    let family = random.below(NAMES.len());
    match random.below(38) {
        32..=36 => Call::Merge(family, random.key(), random.operand()),
        37 => {
            let merges = (0..1 + random.below(6))
                .map(|_| (random.below(NAMES.len()), random.key(), random.operand()));
            Call::MergeBatch(merges.collect())
        }
        0..=7 => {
            let (family, key, value) = write(random);
            Call::Set(family, key, value)
        }
        8 => {
            // RocksDB takes no write any more after a range whose end comes before its start.
            let (one, two) = (random.key(), random.key());
            Call::DeleteRange(family, one.clone().min(two.clone()), one.max(two))
        }
        9..=11 => {
            let writes: Vec<_> = (0..1 + random.below(6)).map(|_| write(random)).collect();
            let savepoint = random.below(writes.len() + 1);
            Call::Batch(writes, savepoint)
        }
        12..=15 => Call::Get(family, random.key()),
        16 => {
            let keys = (0..random.below(5)).map(|_| (random.below(NAMES.len()), random.key()));
            Call::MultiGet(keys.collect())
        }
        17..=22 => {
            let lower = (random.below(3) == 0).then(|| random.key());
            let upper = (random.below(3) == 0).then(|| random.key());
            Call::Walk(family, lower, upper, steps(random))
        }
        23 => Call::Snapshot,
        24 => Call::GetAtSnapshot(family, random.key()),
        25..=28 => Call::Transaction(transaction(random), random.below(3) > 0),
        29 => Call::Flush,
        30 => Call::Compact(family),
        _ if random.below(REOPENS) == 0 => Call::Reopen,
        _ => Call::Flush,
    }
}

/// A library's store and its snapshot.
struct Side {
    store: Option<Store>,
    snapshot: Option<Handle>,
    transactions: bool,
}

/// Returns an answer as text: the value, or the kind of the error.
fn told<T: std::fmt::Debug>(answer: Result<T, String>) -> String {
    match answer {
        Ok(value) => format!("{value:?}"),
        Err(text) => format!("error: {}", kind(&text)),
    }
}

/// Walks an iterator and returns each position.
fn walk(iter: &Iter, steps: &[Step]) -> String {
    let mut text = String::new();
    for step in steps {
        match step {
            Step::First => iter.first(),
            Step::Last => iter.last(),
            Step::Seek(key) => iter.seek(key),
            Step::SeekForPrev(key) => iter.seek_for_prev(key),
            // RocksDB's iterators may only move from a key.
            Step::Next if iter.pair().is_some() => iter.next(),
            Step::Prev if iter.pair().is_some() => iter.prev(),
            Step::Next | Step::Prev => {}
        }
        let _ = write!(text, "{:?} ", iter.pair());
    }
    let _ = write!(text, "{}", told(iter.error()));
    text
}

impl Side {
    fn open(api: Api, dir: &Path, transactions: bool) -> Side {
        let store = Store::open_as(api, dir, NAMES, transactions).unwrap();
        Side { store: Some(store), snapshot: None, transactions }
    }

    /// Deletes every key.
    fn clear(&self) {
        let store = self.store.as_ref().unwrap();
        for family in 0..NAMES.len() {
            delete_range(store, family, b"", &[0xff; 8]).unwrap();
        }
    }

    fn release(&mut self) {
        if let (Some(store), Some(snapshot)) = (&self.store, self.snapshot.take()) {
            // SAFETY: a snapshot of this store, released once.
            unsafe { (store.api.rocksdb_release_snapshot)(store.db, snapshot) }
        }
    }

    fn run(&mut self, call: &Call, dir: &Path) -> String {
        if let Call::Reopen = call {
            self.release();
            let api = self.store.take().unwrap().api;
            *self = Side::open(api, dir, self.transactions);
            let store = self.store.as_ref().unwrap();
            return format!("{:?}", (0..NAMES.len()).map(|at| store.all(at)).collect::<Vec<_>>());
        }
        if let Call::Snapshot = call {
            self.release();
            let store = self.store.as_ref().unwrap();
            // SAFETY: an open store.
            self.snapshot = Some(unsafe { (store.api.rocksdb_create_snapshot)(store.db) });
            return String::new();
        }
        let store = self.store.as_ref().unwrap();
        match call {
            Call::Set(family, key, value) => told(store.set(*family, key, value.as_deref())),
            Call::Merge(family, key, operand) => told(store.merge(*family, key, operand)),
            Call::MergeBatch(merges) => told(merge_batch(store, merges)),
            Call::Get(family, key) => told(store.get(*family, key)),
            Call::GetAtSnapshot(family, key) => at_snapshot(store, self.snapshot, *family, key),
            Call::DeleteRange(family, from, to) => told(delete_range(store, *family, from, to)),
            Call::Batch(writes, savepoint) => told(batch(store, writes, *savepoint)),
            Call::MultiGet(keys) => multi_get(store, keys),
            Call::Walk(family, lower, upper, steps) => {
                // RocksDB does not define bounds that are in the wrong order.
                if matches!((lower, upper), (Some(lower), Some(upper)) if lower > upper) {
                    return String::new();
                }
                let (lower, upper) = (lower.clone(), upper.clone());
                let scan = Scan { lower, upper, same_prefix: false };
                store.scan(*family, &scan, |iter| walk(iter, steps))
            }
            // Without transactions.
            Call::Transaction(..) if store.owner.is_null() => String::new(),
            Call::Transaction(calls, commits) => in_transaction(store, calls, *commits),
            Call::Flush => told(store.flush()),
            Call::Compact(family) => {
                let (api, family) = (store.api, store.families[*family]);
                // SAFETY: objects of an open store; null means no bound.
                unsafe {
                    (api.rocksdb_compact_range_cf)(store.db, family, null_mut(), 0, null_mut(), 0);
                }
                String::new()
            }
            Call::Snapshot | Call::Reopen => String::new(),
        }
    }
}

fn at_snapshot(store: &Store, snapshot: Option<Handle>, family: usize, key: &[u8]) -> String {
    let Some(snapshot) = snapshot else { return String::new() };
    let set = store.api.rocksdb_readoptions_set_snapshot;
    // SAFETY: objects of an open store; the snapshot is removed from the options again.
    unsafe {
        set(store.read, snapshot);
        let found = store.get(family, key);
        set(store.read, null_mut());
        told(found)
    }
}

fn delete_range(store: &Store, family: usize, from: &[u8], to: &[u8]) -> Result<(), String> {
    let (api, family) = (store.api, store.families[family]);
    let (from, from_len, to, to_len) = (start(from), from.len(), start(to), to.len());
    // SAFETY: objects of an open store; buffers live through the call.
    api.checked(|error| unsafe {
        let delete = api.rocksdb_delete_range_cf;
        delete(store.db, store.write, family, from, from_len, to, to_len, error);
    })
}

/// Writes a batch, of which only the first `kept` operations are kept.
fn batch(store: &Store, writes: &[Write], kept: usize) -> Result<i32, String> {
    let api = store.api;
    // SAFETY: objects of an open store; buffers live through the calls.
    unsafe {
        let batch = (api.rocksdb_writebatch_create)();
        for (at, (family, key, value)) in writes.iter().enumerate() {
            if at == kept {
                (api.rocksdb_writebatch_set_save_point)(batch);
            }
            let (family, len) = (store.families[*family], key.len());
            match value {
                Some(value) => {
                    let put = api.rocksdb_writebatch_put_cf;
                    put(batch, family, start(key), len, start(value), value.len());
                }
                None => (api.rocksdb_writebatch_delete_cf)(batch, family, start(key), len),
            }
        }
        if kept < writes.len() {
            let back = api.rocksdb_writebatch_rollback_to_save_point;
            api.checked(|error| back(batch, error))?;
        }
        let count = (api.rocksdb_writebatch_count)(batch);
        let mut len = 0usize;
        let bytes = (api.rocksdb_writebatch_data)(batch, &raw mut len);
        let copy = (api.rocksdb_writebatch_create_from)(bytes, len);
        let done = api.checked(|error| (api.rocksdb_write)(store.db, store.write, copy, error));
        (api.rocksdb_writebatch_destroy)(copy);
        (api.rocksdb_writebatch_destroy)(batch);
        done.map(|()| count)
    }
}

/// Writes a batch of merges.
fn merge_batch(store: &Store, merges: &[(usize, Vec<u8>, Vec<u8>)]) -> Result<(), String> {
    let api = store.api;
    // SAFETY: objects of an open store; buffers live through the calls.
    unsafe {
        let batch = (api.rocksdb_writebatch_create)();
        for (family, key, operand) in merges {
            let (family, merge) = (store.families[*family], api.rocksdb_writebatch_merge_cf);
            merge(batch, family, start(key), key.len(), start(operand), operand.len());
        }
        let done = api.checked(|error| (api.rocksdb_write)(store.db, store.write, batch, error));
        (api.rocksdb_writebatch_destroy)(batch);
        done
    }
}

fn multi_get(store: &Store, keys: &[(usize, Vec<u8>)]) -> String {
    let api = store.api;
    let families: Vec<Handle> = keys.iter().map(|(family, _)| store.families[*family]).collect();
    let starts: Vec<_> = keys.iter().map(|(_, key)| start(key)).collect();
    let lens: Vec<usize> = keys.iter().map(|(_, key)| key.len()).collect();
    let mut values = vec![null_mut(); keys.len()];
    let mut value_lens = vec![0usize; keys.len()];
    let mut errors = vec![null_mut(); keys.len()];
    // SAFETY: each array has an item for each key.
    unsafe {
        (api.rocksdb_multi_get_cf)(
            store.db,
            store.read,
            families.as_ptr(),
            keys.len(),
            starts.as_ptr(),
            lens.as_ptr(),
            values.as_mut_ptr(),
            value_lens.as_mut_ptr(),
            errors.as_mut_ptr(),
        );
    }
    assert!(errors.iter().all(|error| error.is_null()));
    let found = values.iter().zip(&value_lens).map(|(value, len)| api.take(*value, *len));
    format!("{:?}", found.collect::<Vec<_>>())
}

/// Puts a value in a transaction, or deletes the key.
fn set_in_transaction(
    store: &Store,
    txn: Handle,
    family: usize,
    key: &[u8],
    value: Option<&[u8]>,
) -> Result<(), String> {
    let (api, family) = (store.api, store.families[family]);
    // SAFETY: objects of an open store; buffers live through the calls.
    api.checked(|error| unsafe {
        match value {
            Some(value) => {
                let (value, value_len) = (start(value), value.len());
                let put = api.rocksdb_transaction_put_cf;
                put(txn, family, start(key), key.len(), value, value_len, error);
            }
            None => {
                let delete = api.rocksdb_transaction_delete_cf;
                delete(txn, family, start(key), key.len(), error);
            }
        }
    })
}

/// Runs a transaction that no other write meets.
fn in_transaction(store: &Store, calls: &[InTransaction], commits: bool) -> String {
    let api = store.api;
    let mut text = String::new();
    // SAFETY: objects of an open store; buffers live through the calls.
    unsafe {
        let options = (api.rocksdb_optimistictransaction_options_create)();
        let begin = api.rocksdb_optimistictransaction_begin;
        let txn = begin(store.owner, store.write, options, null_mut());
        (api.rocksdb_optimistictransaction_options_destroy)(options);
        for call in calls {
            let answer = match call {
                InTransaction::Set(family, key, value) => {
                    told(set_in_transaction(store, txn, *family, key, value.as_deref()))
                }
                InTransaction::Merge(key, operand) => told(api.checked(|error| {
                    let (merge, len) = (api.rocksdb_transaction_merge, operand.len());
                    merge(txn, start(key), key.len(), start(operand), len, error);
                })),
                InTransaction::Get(family, key, for_update) => {
                    let (family, read, mut len) = (store.families[*family], store.read, 0usize);
                    let found = api.checked(|error| {
                        let (key, key_len, place) = (start(key), key.len(), &raw mut len);
                        if *for_update {
                            let get = api.rocksdb_transaction_get_for_update_cf;
                            get(txn, read, family, key, key_len, place, 1, error)
                        } else {
                            let get = api.rocksdb_transaction_get_cf;
                            get(txn, read, family, key, key_len, place, error)
                        }
                    });
                    told(found.map(|value| api.take(value, len)))
                }
                InTransaction::Walk(family, steps) => {
                    let options = store.options_of(&Scan::default());
                    let create = api.rocksdb_transaction_create_iterator_cf;
                    let iter = create(txn, options, store.families[*family]);
                    let walked = walk(&Iter { api, iter }, steps);
                    (api.rocksdb_iter_destroy)(iter);
                    (api.rocksdb_readoptions_destroy)(options);
                    walked
                }
                InTransaction::Savepoint => {
                    (api.rocksdb_transaction_set_savepoint)(txn);
                    String::new()
                }
                InTransaction::RollBackToSavepoint => {
                    let back = api.rocksdb_transaction_rollback_to_savepoint;
                    told(api.checked(|error| back(txn, error)))
                }
            };
            let _ = write!(text, "{answer}; ");
        }
        let ended = match commits {
            true => api.checked(|error| (api.rocksdb_transaction_commit)(txn, error)),
            false => api.checked(|error| (api.rocksdb_transaction_rollback)(txn, error)),
        };
        let _ = write!(text, "{}", told(ended));
        (api.rocksdb_transaction_destroy)(txn);
    }
    text
}

/// Returns RocksDB's library, or why there is none.
fn rocksdb() -> Result<(Api, String), String> {
    let named = std::env::var("ROCKSDB_LIBRARY").ok().filter(|path| !path.is_empty());
    if let Some(path) = named {
        return Api::load(&path).map(|api| (api, path));
    }
    let installed = installed::rocksdb_installed();
    let installed = installed.map(|path| path.display().to_string());
    let names = ["librocksdb.so.11", "librocksdb.so.10", "librocksdb.so.9", "librocksdb.so.7.8"];
    let found = installed.into_iter().chain(names.map(str::to_string)).find_map(|path| {
        let api = Api::load(&path).ok()?;
        Some((api, path))
    });
    found.ok_or_else(|| "no RocksDB is installed (esker lab engines install rocksdb)".to_string())
}

#[test]
fn answers_are_those_of_rocksdb() {
    let (theirs, path) = match rocksdb() {
        Ok(found) => found,
        Err(why) => {
            eprintln!("skipped: {why}");
            return;
        }
    };
    let number = |name: &str, default: u64| {
        std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
    };
    let (sequences, first) = (number("SEQUENCES", 400), number("SEED", 1));
    let end = first + sequences;
    for begin in (first..end).step_by(SEQUENCES_PER_STORE as usize) {
        let dir = tempfile::tempdir().unwrap();
        let dirs = [dir.path().join("esker"), dir.path().join("rocksdb")];
        let transactions = (begin / SEQUENCES_PER_STORE).is_multiple_of(STORES_PER_TRANSACTIONS);
        let open = |api: Api, dir| Side::open(api, dir, transactions);
        let mut sides = [open(Api::esker(), &dirs[0]), open(theirs, &dirs[1])];
        let mut calls = Vec::new();
        for seed in begin..end.min(begin + SEQUENCES_PER_STORE) {
            let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
            sides.iter().for_each(Side::clear);
            for _ in 0..CALLS_PER_SEQUENCE {
                let next = call(&mut random);
                calls.push(next.clone());
                let [ours, of_rocksdb] = &mut sides;
                let answers = (ours.run(&next, &dirs[0]), of_rocksdb.run(&next, &dirs[1]));
                assert_eq!(
                    answers.0, answers.1,
                    "Esker (left) and {path}, sequence {seed}, SEED={begin}: {calls:#?}"
                );
            }
        }
        for side in &mut sides {
            side.release();
        }
    }
    eprintln!("{sequences} sequences of {CALLS_PER_SEQUENCE} calls, as in {path}");
}
