//! Random writes on a store and its forks, under every policy: a comparison of any two of them finds
//! what the maps of a model differ in.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use crate::common::{Turning, tiny_options};
use esker::diff::{DiffSource, diff};
use esker::fs::{Fs, MemFs};
use esker::{
    Clock, Db, KeyOrder, Keyspace, KeyspaceOptions, MemtableKind, Options, Policy, Snapshot,
    built_in_merge_operator,
};
use esker_testkit::rng::SplitMix64;

/// A value, and when it expires.
type Value = (Vec<u8>, Option<u64>);
/// The pairs of a store, by keyspace and key: what was put, and the operands merged into it.
type Map = BTreeMap<(String, Vec<u8>), (Option<Value>, Vec<Vec<u8>>)>;

/// Returns the pair at a time. Operands stay when the pair below them expires.
fn value_at(of: Option<&(Option<Value>, Vec<Vec<u8>>)>, now_ms: u64) -> Option<Value> {
    let (put, operands) = of?;
    let put = put.as_ref().filter(|put| put.1.is_none_or(|time| time > now_ms));
    if operands.is_empty() {
        return put.cloned();
    }
    let values = put.iter().map(|put| &put.0).chain(operands);
    Some((values.cloned().collect::<Vec<_>>().join(&b','), None))
}

/// The keyspaces: `default`, one more of the same order, one with the reverse order.
const KEYSPACES: [&str; 3] = ["default", "second", "turned"];

struct Branch {
    dir: String,
    db: Option<Db>,
    map: Map,
    snapshots: Vec<(Snapshot, Map)>,
}

struct Model {
    fs: Arc<MemFs>,
    clock: Arc<Turning>,
    rng: SplitMix64,
    branches: Vec<Branch>,
    keys: u64,
}

fn key_order(name: &str) -> KeyOrder {
    if name == "turned" { KeyOrder::Reverse } else { KeyOrder::Bytewise }
}

fn keyspace(db: &Db, name: &str) -> Keyspace {
    let options = KeyspaceOptions::default().key_order(key_order(name)).merge_operator("append(,)");
    match name {
        "default" => db.existing_keyspace(name).unwrap().unwrap(),
        name => db.keyspace(name, &options).unwrap(),
    }
}

impl Model {
    fn options(&mut self) -> Options {
        Options {
            policy: Policy::ALL[self.rng.below(Policy::ALL.len() as u64) as usize],
            memtable_kind: MemtableKind::ALL[self.rng.below(3) as usize % MemtableKind::ALL.len()],
            background_threads: Some(self.rng.below(2)),
            merge_operator: built_in_merge_operator("append(,)"),
            key_orders: vec![KeyOrder::Reverse],
            clock: Some(self.clock.clone()),
            ..tiny_options()
        }
    }

    fn open(&mut self, at: usize) {
        let options = self.options();
        let branch = &mut self.branches[at];
        branch.db = Some(Db::open_on(self.fs.clone(), &branch.dir, options).unwrap());
    }

    fn key(&mut self) -> Vec<u8> {
        match self.rng.below(self.keys) {
            0 => Vec::new(),
            n if n % 5 == 0 => vec![0xff; n as usize % 4 + 1],
            n => format!("{n:04}").into_bytes(),
        }
    }

    /// Writes to the branch and its map.
    fn write(&mut self, at: usize) {
        let name = KEYSPACES[self.rng.below(3) as usize];
        let (key, other, number) = (self.key(), self.key(), self.rng.next_u64() % 50);
        let value = format!("{number}").repeat(self.rng.below(9) as usize).into_bytes();
        let (op, now_ms) = (self.rng.below(40), self.clock.now_ms());
        let branch = &mut self.branches[at];
        let space = keyspace(branch.db.as_ref().unwrap(), name);
        let place = (name.to_string(), key.clone());
        match op {
            0..=19 => {
                space.put(&key, &value).unwrap();
                branch.map.insert(place, (Some((value, None)), vec![]));
            }
            20..=27 => {
                space.delete(&key).unwrap();
                branch.map.remove(&place);
            }
            28..=31 => {
                space.merge(&key, &value).unwrap();
                branch.map.entry(place).or_default().1.push(value);
            }
            32..=36 => {
                space.put_with_ttl(&key, &value, Duration::from_millis(number * 10)).unwrap();
                branch.map.insert(place, (Some((value, Some(now_ms + number * 10))), vec![]));
            }
            _ => {
                space.delete_range(&key, &other).unwrap();
                let order = key_order(name);
                let is_in =
                    |k: &[u8]| order.compare(k, &key).is_ge() && order.compare(k, &other).is_lt();
                branch.map.retain(|(of, k), _| of != name || !is_in(k));
            }
        }
    }

    /// Does one step of the life of a branch.
    fn step(&mut self, at: usize) {
        match self.rng.below(60) {
            0 => self.branches[at].db.as_ref().unwrap().flush().unwrap(),
            1 => self.branches[at].db.as_ref().unwrap().compact_all().unwrap(),
            2 => {
                let (a, b) = (self.key(), self.key());
                let space = KEYSPACES[self.rng.below(3) as usize];
                let space = keyspace(self.branches[at].db.as_ref().unwrap(), space);
                let _ = space.compact_range(Some(&a), Some(&b));
            }
            3 => {
                self.branches[at].snapshots.clear();
                self.branches[at].db = None;
                self.open(at);
            }
            4 => {
                let branch = &mut self.branches[at];
                let snapshot = branch.db.as_ref().unwrap().snapshot();
                branch.snapshots.push((snapshot, branch.map.clone()));
            }
            5 => {
                let passed = self.rng.below(100);
                self.clock.0.fetch_add(passed, Relaxed);
            }
            _ => self.write(at),
        }
    }

    fn fork(&mut self, at: usize) {
        let dir = format!("/fork{}", self.branches.len());
        let parent = &self.branches[at];
        let map = parent.map.clone();
        let live = parent.db.as_ref().unwrap();
        if self.rng.chance(2) {
            live.fork(&dir).unwrap();
        } else {
            let dir_of_parent = parent.dir.clone();
            let options = self.options();
            let reader = Db::open_read_only_on(self.fs.clone(), dir_of_parent, options).unwrap();
            reader.fork(&dir).unwrap();
        }
        self.branches.push(Branch { dir, db: None, map, snapshots: Vec::new() });
        self.open(self.branches.len() - 1);
    }
}

/// A difference: keyspace, key, old and new value.
type Found = (String, Vec<u8>, Option<Value>, Option<Value>);

/// Compares two lists and shows the first place at which they differ.
fn assert_same(found: &[Found], expected: &[Found], what: &str) {
    let at = (0..found.len().max(expected.len())).find(|at| found.get(*at) != expected.get(*at));
    if let Some(at) = at {
        panic!("{what}, at {at}: found {:?}, expected {:?}", found.get(at), expected.get(at));
    }
}

/// Returns what the maps differ in at a time, in the order of a comparison.
fn expected(a: &Map, b: &Map, now_ms: u64) -> Vec<Found> {
    let mut keys: Vec<&(String, Vec<u8>)> = a.keys().chain(b.keys()).collect();
    keys.sort_by(|a, b| a.0.cmp(&b.0).then_with(|| key_order(&a.0).compare(&a.1, &b.1)));
    keys.dedup();
    let pair = |key| (key, value_at(a.get(key), now_ms), value_at(b.get(key), now_ms));
    let pairs = keys.into_iter().map(pair);
    let found = pairs.filter(|(_, a, b)| a != b);
    found.map(|((name, key), a, b)| (name.clone(), key.clone(), a, b)).collect()
}

fn compare<'a>(
    (a, map_a): (impl Into<DiffSource<'a>>, &Map),
    (b, map_b): (impl Into<DiffSource<'a>>, &Map),
    now_ms: u64,
    what: &str,
) -> u64 {
    let found = diff(a, b).unwrap();
    let shared = found.shared_files;
    let found: Vec<_> = found
        .map(|found| {
            let found = found.unwrap();
            (found.keyspace.to_string(), found.key, found.old.map(own), found.new.map(own))
        })
        .collect();
    assert_same(&found, &expected(map_a, map_b, now_ms), what);
    shared
}

/// Compares a snapshot with the store of now. A snapshot shows what had not expired when it was
/// taken, so keys that ever expire are left out.
fn compare_snapshot((snapshot, old): (&Snapshot, &Map), (db, new): (&Db, &Map), what: &str) {
    let expires = |place: &(String, Vec<u8>)| {
        let put_of = |map: &Map| map.get(place).and_then(|(put, _)| put.clone());
        [old, new].iter().any(|map| put_of(map).is_some_and(|put| put.1.is_some()))
    };
    let found: Vec<_> = diff(snapshot, db)
        .unwrap()
        .map(|found| {
            let found = found.unwrap();
            (found.keyspace.to_string(), found.key, found.old.map(own), found.new.map(own))
        })
        .filter(|found| !expires(&(found.0.clone(), found.1.clone())))
        .collect();
    let mut expected = expected(old, new, 0);
    expected.retain(|found| !expires(&(found.0.clone(), found.1.clone())));
    assert_same(&found, &expected, what);
}

fn own(value: esker::diff::DiffValue) -> Value {
    (value.value, value.expires_ms)
}

fn run(seed: u64) -> u64 {
    let mut model = Model {
        fs: MemFs::new(),
        clock: Arc::new(Turning(AtomicU64::new(1000))),
        rng: SplitMix64::new(seed),
        branches: vec![],
        keys: 0,
    };
    model.keys = [30, 200, 1500][model.rng.below(3) as usize];
    let map = Map::new();
    model.branches.push(Branch { dir: "/db".into(), db: None, map, snapshots: Vec::new() });
    model.open(0);
    KEYSPACES.iter().for_each(|name| drop(keyspace(model.branches[0].db.as_ref().unwrap(), name)));
    for _ in 0..model.rng.below(2500) {
        model.write(0);
    }
    let mut shared = 0;
    for round in 0..6 {
        if model.branches.len() < 4 {
            let at = model.rng.below(model.branches.len() as u64) as usize;
            model.fork(at);
        }
        for at in 0..model.branches.len() {
            for _ in 0..model.rng.below(60) {
                model.step(at);
            }
        }
        let now_ms = model.clock.now_ms();
        for (i, a) in model.branches.iter().enumerate() {
            let db_a = a.db.as_ref().unwrap();
            for (j, b) in model.branches.iter().enumerate() {
                let what = format!("seed {seed}, round {round}, branches {i} and {j}");
                let db_b = b.db.as_ref().unwrap();
                shared += compare((db_a, &a.map), (db_b, &b.map), now_ms, &what);
            }
            if let Some((snapshot, map)) = a.snapshots.last() {
                let what = format!("seed {seed}, round {round}, snapshot of branch {i}");
                compare_snapshot((snapshot, map), (db_a, &a.map), &what);
            }
        }
        // A branch that is only read.
        let at = model.rng.below(model.branches.len() as u64) as usize;
        let options = model.options();
        let branch = &model.branches[at];
        let reader = Db::open_read_only_on(model.fs.clone(), &branch.dir, options).unwrap();
        let first = &model.branches[0];
        let what = format!("seed {seed}, round {round}, reader of branch {at}");
        let live = (first.db.as_ref().unwrap(), &first.map);
        shared += compare((&reader, &branch.map), live, now_ms, &what);
    }
    for branch in &model.branches {
        assert!(branch.db.as_ref().unwrap().verify(&mut |_, _| {}).unwrap().is_whole());
        assert!(model.fs.exists(Path::new(&branch.dir)).unwrap());
    }
    shared
}

#[test]
fn comparisons_find_what_maps_differ_in() {
    let seeds = std::env::var("ESKER_DIFF_SEEDS").ok().and_then(|n| n.parse().ok()).unwrap_or(24);
    let shared: u64 = (0..seeds).map(run).sum();
    assert!(shared > 1000, "only {shared} shared tables: the comparisons prove little");
}
