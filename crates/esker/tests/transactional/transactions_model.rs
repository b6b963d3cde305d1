//! Transactions against models: random interleavings whose conflicts are known, own writes in gets
//! and iterators, and the order of transactions of many threads.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::{Arc, Mutex};

use crate::common::{NoCase, tiny_options};
use esker::fs::MemFs;
use esker::{
    Comparator, Concurrency, Db, Durability, ErrorKind, Isolation, KeyOrder, Keyspace,
    KeyspaceOptions, Options, Transaction, TransactionOptions,
};
use esker_testkit::rng::SplitMix64;

/// By length, then bytewise.
struct ByLength;

impl Comparator for ByLength {
    fn name(&self) -> &str {
        "test.ByLength"
    }
    fn compare(&self, a: &[u8], b: &[u8]) -> std::cmp::Ordering {
        a.len().cmp(&b.len()).then_with(|| a.cmp(b))
    }
    fn equal_keys_are_identical(&self) -> bool {
        true
    }
}

fn orders() -> Vec<KeyOrder> {
    let (by_length, no_case) = (Arc::new(ByLength), Arc::new(NoCase));
    let custom = [KeyOrder::Custom(by_length), KeyOrder::Custom(no_case)];
    [KeyOrder::Bytewise, KeyOrder::Bytewise, KeyOrder::Reverse].into_iter().chain(custom).collect()
}

/// A store with a keyspace in each order. The first one is the default keyspace.
fn store() -> (Db, Vec<Keyspace>) {
    let options = Options { key_orders: orders()[3..].to_vec(), ..tiny_options() };
    let db = Db::open_on(MemFs::new(), "/db", options).unwrap();
    let keyspaces = orders().into_iter().enumerate().map(|(at, order)| match at {
        0 => db.existing_keyspace("default").unwrap().unwrap(),
        _ => {
            let options = KeyspaceOptions::default().key_order(order);
            db.keyspace(&format!("keyspace {at}"), &options).unwrap()
        }
    });
    let keyspaces = keyspaces.collect();
    (db, keyspaces)
}

/// The form of a key in the models: keys that are equal in the order have one form.
fn form(at: usize, key: &[u8]) -> Vec<u8> {
    if at == 4 { key.to_ascii_lowercase() } else { key.to_vec() }
}

/// Pairs by keyspace and form of the key.
type World = BTreeMap<(usize, Vec<u8>), Vec<u8>>;

/// Returns the pairs of a keyspace within `[lo, hi)` in its order.
fn in_order(world: &World, at: usize, bounds: Option<(&[u8], &[u8])>) -> Vec<(Vec<u8>, Vec<u8>)> {
    let order = &orders()[at];
    let pairs = world.iter().filter(|((keyspace, _), _)| *keyspace == at);
    let mut pairs: Vec<_> = pairs.map(|((_, key), value)| (key.clone(), value.clone())).collect();
    pairs.retain(|(key, _)| is_inside(order, key, bounds));
    pairs.sort_by(|a, b| order.compare(&a.0, &b.0));
    pairs
}

fn is_inside(order: &KeyOrder, key: &[u8], bounds: Option<(&[u8], &[u8])>) -> bool {
    let inside =
        |(lo, hi): (&[u8], &[u8])| order.compare(lo, key).is_le() && order.compare(key, hi).is_lt();
    bounds.is_none_or(inside)
}

fn formed(at: usize, pairs: Vec<(Vec<u8>, Vec<u8>)>) -> Vec<(Vec<u8>, Vec<u8>)> {
    pairs.into_iter().map(|(key, value)| (form(at, &key), value)).collect()
}

fn random_key(rng: &mut SplitMix64) -> Vec<u8> {
    let n = rng.below(60);
    match n % 4 {
        0 => vec![b'a'; (n % 7) as usize],
        1 => format!("Key{n}").into_bytes(),
        2 => format!("kEY{}", n - 1).into_bytes(),
        _ => (n as u16).to_be_bytes().to_vec(),
    }
}

/// One transaction and the world that it must show.
struct Own {
    transaction: Transaction,
    keyspaces: Vec<Keyspace>,
    world: World,
    savepoints: Vec<World>,
    rng: SplitMix64,
}

impl Own {
    fn write(&mut self) {
        let at = self.rng.below(self.keyspaces.len() as u64) as usize;
        let (key, keyspace) = (random_key(&mut self.rng), &self.keyspaces[at]);
        match self.rng.below(10) {
            0..6 => {
                let value = self.rng.next_u64().to_be_bytes();
                self.transaction.put_in(keyspace, &key, value).unwrap();
                self.world.insert((at, form(at, &key)), value.to_vec());
            }
            6..9 => {
                self.transaction.delete_in(keyspace, &key).unwrap();
                self.world.remove(&(at, form(at, &key)));
            }
            _ => {
                let end = random_key(&mut self.rng);
                self.transaction.delete_range_in(keyspace, &key, &end).unwrap();
                let order = &orders()[at];
                let gone = |other: &[u8]| is_inside(order, other, Some((&key[..], &end[..])));
                self.world.retain(|(keyspace, other), _| *keyspace != at || !gone(other));
            }
        }
    }

    fn check_get(&mut self) {
        let at = self.rng.below(self.keyspaces.len() as u64) as usize;
        let key = random_key(&mut self.rng);
        let found = self.transaction.get_in(&self.keyspaces[at], &key).unwrap();
        assert_eq!(found.as_deref(), self.world.get(&(at, form(at, &key))).map(Vec::as_slice));
    }

    /// Compares both directions, and both ends at once.
    fn check_scans(&mut self) {
        for at in 0..self.keyspaces.len() {
            let (a, b) = (random_key(&mut self.rng), random_key(&mut self.rng));
            let range = || {
                let bounds = (Bound::Included(a.clone()), Bound::Excluded(b.clone()));
                self.transaction.range_in(&self.keyspaces[at], bounds).unwrap()
            };
            let all = || self.transaction.iter_in(&self.keyspaces[at]).unwrap();
            for (iter, back, mixed, want) in [
                (range(), range(), range(), in_order(&self.world, at, Some((&a[..], &b[..])))),
                (all(), all(), all(), in_order(&self.world, at, None)),
            ] {
                let pairs: Vec<_> = iter.map(|pair| pair.unwrap()).collect();
                assert_eq!(formed(at, pairs), want, "keyspace {at}");
                let mut pairs: Vec<_> = back.rev().map(|pair| pair.unwrap()).collect();
                pairs.reverse();
                assert_eq!(formed(at, pairs), want, "keyspace {at}");
                let (mut mixed, mut front, mut end) = (mixed, Vec::new(), Vec::new());
                loop {
                    let forward = self.rng.chance(2);
                    let pair = if forward { mixed.next() } else { mixed.next_back() };
                    let Some(pair) = pair else { break };
                    if forward { front.push(pair.unwrap()) } else { end.push(pair.unwrap()) }
                }
                front.extend(end.into_iter().rev());
                assert_eq!(formed(at, front), want, "keyspace {at}");
            }
        }
    }

    /// Seeks and steps in random directions. Writes between the steps.
    fn check_cursor(&mut self) {
        let at = self.rng.below(self.keyspaces.len() as u64) as usize;
        let order = orders()[at].clone();
        let mut iter = self.transaction.iter_in(&self.keyspaces[at]).unwrap();
        for _ in 0..6 {
            let target = random_key(&mut self.rng);
            let (forward, below) = (self.rng.chance(2), form(at, &target));
            let pairs = in_order(&self.world, at, None);
            let mut want = if forward {
                iter.seek(&target).unwrap();
                pairs.iter().find(|(key, _)| order.compare(key, &below).is_ge()).cloned()
            } else {
                iter.seek_for_prev(&target).unwrap();
                pairs.iter().rfind(|(key, _)| order.compare(key, &below).is_le()).cloned()
            };
            for _ in 0..8 {
                assert_eq!(iter.valid(), want.is_some(), "keyspace {at}");
                let Some((key, value)) = want else { break };
                assert_eq!(form(at, iter.key()), key, "keyspace {at}");
                // The value of the current pair is that of the move, even if it was written since.
                if self.rng.chance(3) {
                    self.write();
                } else {
                    assert_eq!(iter.value(), value, "keyspace {at}");
                }
                let pairs = in_order(&self.world, at, None);
                want = if self.rng.chance(2) {
                    iter.move_next().unwrap();
                    pairs.iter().find(|(other, _)| order.compare(other, &key).is_gt()).cloned()
                } else {
                    iter.move_prev().unwrap();
                    pairs.iter().rfind(|(other, _)| order.compare(other, &key).is_lt()).cloned()
                };
            }
        }
    }

    fn savepoint(&mut self) {
        match self.rng.below(4) {
            0 | 1 => {
                self.transaction.savepoint().unwrap();
                self.savepoints.push(self.world.clone());
            }
            2 => match self.savepoints.pop() {
                Some(world) => {
                    self.transaction.rollback_to_savepoint().unwrap();
                    self.world = world;
                }
                None => {
                    let error = self.transaction.rollback_to_savepoint().unwrap_err();
                    assert_eq!(error.kind(), ErrorKind::NotFound);
                }
            },
            _ => {
                let popped = self.savepoints.pop().is_some();
                assert_eq!(self.transaction.pop_savepoint().is_ok(), popped);
            }
        }
    }
}

#[test]
fn own_writes_show_in_gets_and_iterators_of_every_keyspace() {
    for seed in 0..12 {
        let isolation = [Isolation::Snapshot, Isolation::Serializable][(seed % 2) as usize];
        let concurrency = [Concurrency::Optimistic, Concurrency::Pessimistic];
        let concurrency = concurrency[(seed / 2 % 2) as usize];
        let options = TransactionOptions::default().isolation(isolation).concurrency(concurrency);
        let (db, keyspaces) = store();
        let mut rng = SplitMix64::new(seed);
        let mut world = World::new();
        for n in 0..300 {
            let at = rng.below(keyspaces.len() as u64) as usize;
            let (key, value) = (random_key(&mut rng), rng.next_u64().to_be_bytes());
            keyspaces[at].put(&key, value).unwrap();
            world.insert((at, form(at, &key)), value.to_vec());
            if n == 200 {
                db.flush().unwrap();
            }
        }
        let transaction = db.transaction(options);
        let (handles, savepoints) = (keyspaces.clone(), Vec::new());
        let mut own = Own { transaction, keyspaces: handles, world, savepoints, rng };
        for step in 0..300 {
            match own.rng.below(20) {
                0..10 => own.write(),
                10..15 => own.check_get(),
                15..17 => own.check_cursor(),
                17..19 => own.savepoint(),
                _ => own.check_scans(),
            }
            if step == 150 {
                // Nobody else sees the writes, and they survive a flush of the rest.
                db.flush().unwrap();
            }
        }
        own.check_scans();
        let Own { transaction, world, .. } = own;
        transaction.commit().unwrap();
        for (at, keyspace) in keyspaces.iter().enumerate() {
            let pairs: Vec<_> = keyspace.iter().unwrap().map(|pair| pair.unwrap()).collect();
            assert_eq!(formed(at, pairs), in_order(&world, at, None), "seed {seed}");
        }
    }
}

/// What the model of the conflicts knows of an open transaction.
struct Open {
    transaction: Transaction,
    serializable: bool,
    /// The keys and ranges that must be unchanged, and what was written since the snapshot.
    keys: BTreeSet<(usize, Vec<u8>)>,
    ranges: Vec<(usize, Vec<u8>, Vec<u8>)>,
    written_since: BTreeSet<(usize, Vec<u8>)>,
    ranges_since: Vec<(usize, Vec<u8>, Vec<u8>)>,
    writes: Vec<Write>,
    /// Whether a key that it has not written was read for an update.
    reads_for_update: bool,
}

#[derive(Clone)]
enum Write {
    Put(usize, Vec<u8>),
    DeleteRange(usize, Vec<u8>, Vec<u8>),
}

fn meet(a: &(usize, Vec<u8>, Vec<u8>), b: &(usize, Vec<u8>, Vec<u8>)) -> bool {
    let order = &orders()[a.0];
    let less = |x: &[u8], y: &[u8]| order.compare(x, y).is_lt();
    a.0 == b.0 && less(&a.1, &a.2) && less(&b.1, &b.2) && less(&a.1, &b.2) && less(&b.1, &a.2)
}

fn holds(range: &(usize, Vec<u8>, Vec<u8>), key: &(usize, Vec<u8>)) -> bool {
    range.0 == key.0 && is_inside(&orders()[key.0], &key.1, Some((&range.1[..], &range.2[..])))
}

impl Open {
    /// Returns whether the commit must fail.
    fn conflicts(&self) -> bool {
        let keys = self.keys.iter().any(|key| {
            self.written_since.contains(key) || self.ranges_since.iter().any(|r| holds(r, key))
        });
        keys || self.ranges.iter().any(|range| {
            self.written_since.iter().any(|key| holds(range, key))
                || self.ranges_since.iter().any(|other| meet(range, other))
        })
    }

    fn note(&mut self, write: &Write) {
        match write {
            Write::Put(at, key) => {
                self.written_since.insert((*at, form(*at, key)));
            }
            Write::DeleteRange(at, start, end) => {
                self.ranges_since.push((*at, start.clone(), end.clone()));
            }
        }
    }

    fn step(&mut self, keyspaces: &[Keyspace], rng: &mut SplitMix64) {
        let at = rng.below(keyspaces.len() as u64) as usize;
        let (key, keyspace) = (random_key(rng), &keyspaces[at]);
        match rng.below(8) {
            0..3 => {
                self.transaction.put_in(keyspace, &key, [1]).unwrap();
                self.keys.insert((at, form(at, &key)));
                self.writes.push(Write::Put(at, key));
            }
            3 => {
                let end = random_key(rng);
                self.transaction.delete_range_in(keyspace, &key, &end).unwrap();
                if orders()[at].compare(&key, &end).is_lt() {
                    self.ranges.push((at, key.clone(), end.clone()));
                    self.writes.push(Write::DeleteRange(at, key, end));
                }
            }
            4..6 => {
                // A read of an own write reads nothing of the store.
                let own = self.writes.iter().any(|write| match write {
                    Write::Put(on, own) => (*on, form(*on, own)) == (at, form(at, &key)),
                    Write::DeleteRange(on, a, b) => {
                        holds(&(*on, a.clone(), b.clone()), &(at, form(at, &key)))
                    }
                });
                let update = rng.chance(3);
                let read = match update {
                    true => self.transaction.get_for_update_in(keyspace, &key),
                    false => self.transaction.get_in(keyspace, &key),
                };
                read.unwrap();
                if (self.serializable || update) && !own {
                    self.keys.insert((at, form(at, &key)));
                    self.reads_for_update |= update;
                }
            }
            _ => {
                let end = random_key(rng);
                let bounds = (Bound::Included(key.clone()), Bound::Excluded(end.clone()));
                let iter = self.transaction.range_in(keyspace, bounds).unwrap();
                iter.for_each(|pair| drop(pair.unwrap()));
                if self.serializable {
                    self.ranges.push((at, key, end));
                }
            }
        }
    }
}

/// Interleaves optimistic transactions and plain writes. Each commit must succeed or fail exactly
/// as the model says.
fn interleave(seed: u64) -> (u32, u32) {
    let (db, keyspaces) = store();
    let mut rng = SplitMix64::new(seed);
    let mut open: Vec<Open> = Vec::new();
    let (mut committed, mut conflicts) = (0, 0);
    for _ in 0..600 {
        match rng.below(40) {
            0..4 if open.len() < 5 => {
                let serializable = rng.chance(2);
                let isolation =
                    if serializable { Isolation::Serializable } else { Isolation::Snapshot };
                let transaction =
                    db.transaction(TransactionOptions::default().isolation(isolation));
                open.push(Open {
                    transaction,
                    serializable,
                    keys: BTreeSet::new(),
                    ranges: Vec::new(),
                    written_since: BTreeSet::new(),
                    ranges_since: Vec::new(),
                    writes: Vec::new(),
                    reads_for_update: false,
                });
            }
            4..8 if !open.is_empty() => {
                let ended = open.swap_remove(rng.below(open.len() as u64) as usize);
                let fails =
                    ended.conflicts() && (!ended.writes.is_empty() || ended.reads_for_update);
                match ended.transaction.commit() {
                    Ok(()) => {
                        assert!(!fails, "seed {seed}: a commit that conflicts");
                        committed += 1;
                        for write in &ended.writes {
                            open.iter_mut().for_each(|other| other.note(write));
                        }
                    }
                    Err(error) => {
                        assert!(fails, "seed {seed}: {error}");
                        assert_eq!(error.kind(), ErrorKind::Conflict);
                        conflicts += 1;
                    }
                }
            }
            8..10 => {
                let at = rng.below(keyspaces.len() as u64) as usize;
                let key = random_key(&mut rng);
                keyspaces[at].put(&key, [2; 100]).unwrap();
                open.iter_mut().for_each(|other| other.note(&Write::Put(at, key.clone())));
            }
            10 => db.flush().unwrap(),
            11 if rng.chance(3) => {
                keyspaces[rng.below(5) as usize].compact_range(None, None).unwrap();
            }
            _ if open.is_empty() => {}
            _ => {
                let at = rng.below(open.len() as u64) as usize;
                open[at].step(&keyspaces, &mut rng);
            }
        }
    }
    (committed, conflicts)
}

#[test]
fn a_commit_fails_exactly_when_something_that_it_depends_on_was_written() {
    let outcomes: Vec<_> = (0..20).map(interleave).collect();
    let (committed, conflicts) =
        outcomes.iter().fold((0, 0), |sum, next| (sum.0 + next.0, sum.1 + next.1));
    assert!(committed > 100 && conflicts > 100, "{committed} {conflicts}");
}

/// A committed transaction: by key, the transaction whose value it read, and what it wrote.
struct Committed {
    id: u64,
    reads: BTreeMap<u8, u64>,
    writes: Vec<u8>,
}

/// Runs transactions of several threads on few keys. Each value is the id of its writer.
fn history(options: TransactionOptions) -> Vec<Committed> {
    const KEYS: u64 = 6;
    let db = Db::open_on(MemFs::new(), "/db", tiny_options()).unwrap();
    let all = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for thread in 0..4u64 {
            let (db, all) = (&db, &all);
            scope.spawn(move || {
                let mut rng = SplitMix64::new(thread);
                for round in 1..=150u64 {
                    let id = thread << 32 | round;
                    let (first, count) = (rng.below(KEYS), 1 + rng.below(2));
                    let keys: Vec<u8> =
                        (0..3).map(|n| ((first + n * (1 + round % 2)) % KEYS) as u8).collect();
                    let done = db.transact(options, |t| {
                        let mut reads = BTreeMap::new();
                        for key in &keys {
                            let found = t.get([*key])?;
                            let found =
                                found.map_or(0, |v| u64::from_be_bytes(v[..8].try_into().unwrap()));
                            reads.insert(*key, found);
                        }
                        let writes: Vec<u8> = keys.iter().copied().take(count as usize).collect();
                        for key in &writes {
                            t.put([*key], id.to_be_bytes())?;
                        }
                        Ok(Committed { id, reads, writes })
                    });
                    all.lock().unwrap().push(done.unwrap());
                    if round == 75 && thread == 0 {
                        db.flush().unwrap();
                    }
                }
            });
        }
    });
    all.into_inner().unwrap()
}

/// Checks that each version of a key has one successor, and returns the next writer by key and
/// version. Fails if an update was lost.
fn successors(history: &[Committed]) -> BTreeMap<(u8, u64), u64> {
    let mut next = BTreeMap::new();
    for transaction in history {
        for key in &transaction.writes {
            let before = transaction.reads[key];
            let other = next.insert((*key, before), transaction.id);
            assert!(other.is_none(), "two transactions have replaced version {before} of {key}");
        }
    }
    next
}

/// Returns whether the transactions have an order: a writer before its readers and before the next
/// writer, a reader before the next writer.
fn has_an_order(history: &[Committed], next: &BTreeMap<(u8, u64), u64>) -> bool {
    let mut edges: BTreeMap<u64, BTreeSet<u64>> = BTreeMap::new();
    let mut incoming: BTreeMap<u64, usize> = history.iter().map(|t| (t.id, 0)).collect();
    for transaction in history {
        for (key, seen) in &transaction.reads {
            let after = next.get(&(*key, *seen)).copied().filter(|id| *id != transaction.id);
            let before = (*seen != 0).then_some((*seen, transaction.id));
            for (from, to) in before.into_iter().chain(after.map(|id| (transaction.id, id))) {
                if edges.entry(from).or_default().insert(to) {
                    *incoming.get_mut(&to).expect("only committed values are read") += 1;
                }
            }
        }
    }
    let mut free: Vec<u64> =
        incoming.iter().filter(|(_, count)| **count == 0).map(|(id, _)| *id).collect();
    let mut ordered = 0;
    while let Some(id) = free.pop() {
        ordered += 1;
        for to in edges.remove(&id).unwrap_or_default() {
            let count = incoming.get_mut(&to).expect("an edge leads to a transaction");
            *count -= 1;
            if *count == 0 {
                free.push(to);
            }
        }
    }
    ordered == history.len()
}

#[test]
fn transactions_of_many_threads_lose_no_update_and_have_an_order() {
    for isolation in [Isolation::Snapshot, Isolation::Serializable] {
        for concurrency in [Concurrency::Optimistic, Concurrency::Pessimistic] {
            for durability in [Durability::Buffered, Durability::Sync] {
                let options = TransactionOptions::default()
                    .isolation(isolation)
                    .concurrency(concurrency)
                    .durability(durability)
                    .lock_timeout_ms(60_000)
                    .attempts_max(u32::MAX);
                let history = history(options);
                assert_eq!(history.len(), 600);
                let next = successors(&history);
                let ordered = has_an_order(&history, &next);
                assert!(ordered || isolation == Isolation::Snapshot, "{options:?}");
            }
        }
    }
}

#[test]
fn a_cycle_of_reads_is_seen_by_the_check() {
    let skew = |id, other: u8, own: u8| {
        let reads = BTreeMap::from([(own, 0), (other, 0)]);
        Committed { id, reads, writes: vec![own] }
    };
    let history = [skew(1, 2, 1), skew(2, 1, 2)];
    assert!(!has_an_order(&history, &successors(&history)));
}
