//! The record of a store's writes, as an oracle: the digests of the content after every batch, the
//! keyspaces after every change of them, and the numbers of acknowledged and durable ones.
//!
//! Batches and changes of keyspaces survive a crash independently: a batch is a record of the log,
//! and a change is durable when its call returns. So a crash may leave any allowed number of first
//! batches, with any allowed list of keyspaces.
//!
//! Invariants: `durable <= acknowledged <= attempted`. A keyspace has a serial number in the ledger
//! that no other keyspace has. A pair that expires is in its state until the end, and every
//! comparison is of the present time.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use super::cell::Cell;
use super::clock::START_MS;
use super::digests::{Digest, Digests, Serial, State};
use super::keyspaces::{DEFAULT, PREPARED, Pair, is_reversed, is_unlogged, names, seen};
use super::ops::{Change, NamedChange, Op, deletes};

/// The serial number of the names of prepared transactions.
const PREPARED_SERIAL: Serial = u32::MAX;

/// The keyspaces by name, without the default one.
type Catalog = BTreeMap<String, Serial>;

/// An operation whose keyspace is known.
#[derive(Debug, Clone)]
struct Resolved {
    serial: Serial,
    op: Op,
}

/// A requested checkpoint.
#[derive(Debug, Clone)]
pub struct CheckpointNote {
    /// Its directory.
    pub dir: PathBuf,
    /// Number of batches that it must hold.
    pub index: usize,
    /// Number of changes of keyspaces that it must hold.
    pub changes: usize,
    /// Whether the call returned `Ok`.
    pub done: bool,
}

/// The progress of a store at some moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Bounds {
    /// Number of batches that survive a power failure.
    pub durable: usize,
    /// Number of batches that survive the death of the process.
    pub acknowledged: usize,
    /// Number of batches that may be present.
    pub attempted: usize,
    /// Number of changes of keyspaces that survive any crash, and number of those that may be
    /// present.
    pub changes: (usize, usize),
    /// Numbers of requested checkpoints and of completed ones.
    pub checkpoints: (usize, usize),
    /// The time, in milliseconds since 1970.
    pub now_ms: u64,
}

/// A key of a keyspace.
type Place = (Serial, Vec<u8>);

/// The keys of all keyspaces, with what was written of each.
type Cells = BTreeMap<Place, Cell>;

/// A failed batch, which a crash may restore.
#[derive(Clone)]
struct FailedBatch {
    /// Number of batches before it.
    index: usize,
    /// The state that it would have made.
    state: State,
    /// The keys that it would have made.
    cells: Cells,
}

/// The record of a store's writes; see the module.
#[derive(Clone)]
pub struct Ledger {
    cells: Cells,
    state: State,
    /// The state after each number of batches.
    states: Vec<State>,
    /// What the last attempted batch replaced.
    undo: Vec<(Place, Option<Cell>)>,
    /// The keyspaces after each number of changes.
    catalogs: Vec<Catalog>,
    next_serial: Serial,
    /// The operations of each transaction that was ever prepared, by name.
    prepared: BTreeMap<String, Vec<Resolved>>,
    /// Every pair of an unlogged write so far.
    unlogged: BTreeSet<(Vec<u8>, Vec<u8>)>,
    /// The failed batches.
    failed: Vec<FailedBatch>,
    /// Number of changes before each failed change, and the keyspaces after it.
    failed_changes: Vec<(usize, Catalog)>,
    /// The requested checkpoints.
    pub checkpoints: Vec<CheckpointNote>,
    /// The store's progress.
    pub bounds: Bounds,
}

impl Default for Ledger {
    /// Creates the ledger of an empty store.
    fn default() -> Ledger {
        Ledger {
            cells: Cells::new(),
            state: State::default(),
            states: vec![State::default()],
            undo: Vec::new(),
            catalogs: vec![Catalog::new()],
            next_serial: 1,
            prepared: BTreeMap::new(),
            unlogged: BTreeSet::new(),
            failed: Vec::new(),
            failed_changes: Vec::new(),
            checkpoints: Vec::new(),
            bounds: Bounds { now_ms: START_MS, ..Bounds::default() },
        }
    }
}

impl Ledger {
    /// Returns the ledger of a store recovered with these pairs, all durable. It keeps the unlogged
    /// pairs and the prepared transactions of this ledger. It knows when pairs expire only if they
    /// are those of the present or of a failed batch.
    pub fn recovered(&self, digests: &Digests, pairs: &[Pair]) -> Ledger {
        let (unlogged, prepared) = (self.unlogged.clone(), self.prepared.clone());
        let mut ledger =
            Ledger { unlogged, prepared, next_serial: self.next_serial, ..Ledger::default() };
        let known = self.allowed_catalogs(&self.bounds);
        let mut catalog = Catalog::new();
        for name in digests.names() {
            let serial = known.iter().find_map(|catalog| catalog.get(name).copied());
            let serial = serial.unwrap_or_else(|| ledger.new_serial());
            catalog.insert(name.clone(), serial);
        }
        ledger.bounds.now_ms = self.bounds.now_ms;
        let failed = self.failed.iter().map(|failed| (&failed.state, &failed.cells));
        let mut known = failed.chain([(&self.state, &self.cells)]);
        if let Some((_, cells)) = known.find(|(state, _)| self.is_state(state, &catalog, digests)) {
            let live: BTreeSet<Serial> =
                catalog.values().copied().chain([0, PREPARED_SERIAL]).collect();
            for ((serial, key), cell) in cells.iter().filter(|(place, _)| live.contains(&place.0)) {
                ledger.set(*serial, key, Some(cell.clone()));
            }
        } else {
            for (name, key, value) in pairs.iter().filter(|pair| !is_unlogged(pair)) {
                let serial = match name.as_str() {
                    PREPARED => PREPARED_SERIAL,
                    name => catalog.get(name).copied().unwrap_or_default(),
                };
                ledger.set(serial, key, Some(Cell::put(value, None)));
            }
        }
        ledger.undo.clear();
        ledger.catalogs = vec![catalog];
        ledger.states = vec![ledger.state.clone()];
        ledger
    }

    fn new_serial(&mut self) -> Serial {
        self.next_serial += 1;
        self.next_serial - 1
    }

    fn catalog(&self) -> &Catalog {
        &self.catalogs[self.bounds.changes.0]
    }

    /// Returns the name of the keyspace that operations on a slot reach.
    pub fn keyspace_of(&self, slot: u8) -> &'static str {
        names(slot).into_iter().find(|name| self.catalog().contains_key(*name)).unwrap_or(DEFAULT)
    }

    fn serial_of(&self, slot: u8) -> Serial {
        self.catalog().get(self.keyspace_of(slot)).copied().unwrap_or_default()
    }

    /// Returns the digests of the current content.
    pub fn digests(&self) -> Digests {
        self.digests_at(&self.state, self.bounds.now_ms)
    }

    /// Returns the state that a snapshot of the current content has, for [`Ledger::digests_at`]. A
    /// snapshot has no prepared transactions.
    pub fn snapshot(&self) -> State {
        let mut state = self.state.clone();
        state.retain(|serial| serial != PREPARED_SERIAL);
        state
    }

    /// Returns the digests of a state at a time, in the keyspaces that exist now.
    pub fn digests_at(&self, state: &State, now_ms: u64) -> Digests {
        let of = |serial: Serial| state.of(serial, now_ms);
        let mut digests = Digests::default();
        digests.set(DEFAULT, of(0));
        for (name, serial) in self.catalog() {
            digests.set(name, of(*serial));
        }
        if of(PREPARED_SERIAL) != Digest::default() {
            digests.set(PREPARED, of(PREPARED_SERIAL));
        }
        digests
    }

    /// Returns the current content as readers may see it after a compaction, without unlogged pairs
    /// and prepared transactions.
    pub fn pairs(&self) -> Vec<Pair> {
        let mut names = BTreeMap::from([(0, DEFAULT)]);
        names.extend(self.catalog().iter().map(|(name, serial)| (*serial, name.as_str())));
        let pairs = self.cells.iter().filter_map(|((serial, key), cell)| {
            let value = cell.value_at(self.bounds.now_ms)?;
            Some((names.get(serial)?.to_string(), key.clone(), seen(key, &value)?.into_owned()))
        });
        pairs.collect()
    }

    /// Turns the time by some milliseconds. Returns it.
    pub fn turn(&mut self, by_ms: u64) -> u64 {
        self.bounds.now_ms += by_ms;
        self.bounds.now_ms
    }

    /// Returns the value that a key of a slot has after more operations.
    pub fn value_after(&self, ops: &[Op], slot: u8, key: &[u8]) -> Option<Vec<u8>> {
        let serial = self.serial_of(slot);
        let is_same = |op: &&Op| self.serial_of(op.slot()) == serial;
        let mut cell = self.cells.get(&(serial, key.to_vec())).cloned();
        for op in ops.iter().filter(is_same) {
            match op {
                Op::DeleteRange(slot, lo, hi) if deletes(self.reversed(*slot), lo, hi, key) => {
                    cell = None;
                }
                Op::Clear(_) if serial != 0 => cell = None,
                op if op.key().is_some_and(|other| other == key) => {
                    cell = Cell::after(cell, op, || self.bounds.now_ms)
                }
                _ => {}
            }
        }
        cell.and_then(|cell| cell.value_at(self.bounds.now_ms))
    }

    /// Returns whether the keyspace that operations on a slot reach has the reverse key order.
    fn reversed(&self, slot: u8) -> bool {
        is_reversed(slot) && self.keyspace_of(slot) != DEFAULT
    }

    /// Sets what is written of a key, or deletes it.
    fn set(&mut self, serial: Serial, key: &[u8], cell: Option<Cell>) {
        let place = (serial, key.to_vec());
        if let Some(cell) = &cell {
            self.state.add(serial, key, cell);
        }
        let old = match cell {
            Some(cell) => self.cells.insert(place.clone(), cell),
            None => self.cells.remove(&place),
        };
        if let Some(old) = &old {
            self.state.remove(serial, key, old);
        }
        self.undo.push((place, old));
    }

    fn delete_all(&mut self, serial: Serial, is_deleted: impl Fn(&[u8]) -> bool) {
        let all = self.cells.range((serial, Vec::new())..).take_while(|((s, _), _)| *s == serial);
        let gone: Vec<Vec<u8>> =
            all.filter(|((_, key), _)| is_deleted(key)).map(|((_, key), _)| key.clone()).collect();
        gone.iter().for_each(|key| self.set(serial, key, None));
    }

    fn apply(&mut self, ops: &[Resolved]) {
        for Resolved { serial, op } in ops {
            let serial = *serial;
            // A prepared transaction may have operations in a keyspace that was dropped since.
            if serial != 0 && serial != PREPARED_SERIAL && !self.is_live(serial) {
                continue;
            }
            match op {
                Op::DeleteRange(slot, lo, hi) => {
                    let reversed = serial != 0 && is_reversed(*slot);
                    self.delete_all(serial, |key| deletes(reversed, lo, hi, key));
                }
                Op::Clear(_) if serial != 0 => self.delete_all(serial, |_| true),
                Op::Clear(_) => {}
                op => {
                    let Some(key) = op.key() else { continue };
                    let cell = self.cells.get(&(serial, key.clone())).cloned();
                    self.set(serial, key, Cell::after(cell, op, || self.bounds.now_ms));
                }
            }
        }
    }

    fn is_live(&self, serial: Serial) -> bool {
        self.catalog().values().any(|live| *live == serial)
    }

    fn resolved(&self, ops: &[Op]) -> Vec<Resolved> {
        ops.iter()
            .map(|op| Resolved { serial: self.serial_of(op.slot()), op: op.clone() })
            .collect()
    }

    /// Records the start of a batch.
    pub fn attempt(&mut self, ops: &[Op]) {
        let ops = self.resolved(ops);
        self.attempt_resolved(&ops);
    }

    fn attempt_resolved(&mut self, ops: &[Resolved]) {
        self.undo.clear();
        self.apply(ops);
        self.states.truncate(self.bounds.acknowledged + 1);
        self.states.push(self.state.clone());
        self.bounds.attempted = self.bounds.acknowledged + 1;
    }

    /// Records the start of the preparation of a transaction with these operations.
    pub fn attempt_prepare(&mut self, name: &str, ops: &[Op]) {
        self.prepared.insert(name.to_string(), self.resolved(ops));
        let op = Op::Put(0, name.as_bytes().to_vec(), Vec::new());
        self.attempt_resolved(&[Resolved { serial: PREPARED_SERIAL, op }]);
    }

    /// Returns the name of the first prepared transaction.
    pub fn prepared(&self) -> Option<String> {
        let (place, _) = self.cells.range((PREPARED_SERIAL, Vec::new())..).next()?;
        Some(String::from_utf8_lossy(&place.1).into_owned())
    }

    /// Records the start of the commit or the rollback of a prepared transaction.
    pub fn attempt_resolution(&mut self, name: &str, commits: bool) {
        let mut ops = Vec::new();
        if commits {
            ops = self.prepared.get(name).cloned().unwrap_or_default();
        }
        let op = Op::Delete(0, name.as_bytes().to_vec());
        ops.push(Resolved { serial: PREPARED_SERIAL, op });
        self.attempt_resolved(&ops);
    }

    /// Records that the last attempted batch was acknowledged.
    pub fn acknowledge(&mut self, synced: bool) {
        self.bounds.acknowledged = self.bounds.attempted;
        if synced {
            self.bounds.durable = self.bounds.acknowledged;
        }
    }

    /// Records that the last attempted batch failed. It is not in the store, but a crash may
    /// restore it.
    pub fn fail(&mut self) {
        let (state, cells) = (self.state.clone(), self.cells.clone());
        self.failed.push(FailedBatch { index: self.bounds.acknowledged, state, cells });
        self.take_back();
    }

    /// Records that the last attempted batch was refused: no crash may restore it.
    pub fn refuse(&mut self) {
        self.take_back();
        self.bounds.attempted = self.bounds.acknowledged;
    }

    fn take_back(&mut self) {
        for ((serial, key), old) in std::mem::take(&mut self.undo).into_iter().rev() {
            self.set(serial, &key, old);
        }
        self.undo.clear();
    }

    /// Records the start of a change of keyspaces. Returns `None` for a change that changes
    /// nothing.
    pub fn attempt_change(&mut self, change: Change) -> Option<NamedChange> {
        let mut catalog = self.catalog().clone();
        let named = match change {
            Change::Create(slot) => {
                let [name, _] = names(slot);
                if slot == 0 || catalog.contains_key(name) {
                    return None;
                }
                catalog.insert(name.to_string(), self.new_serial());
                NamedChange::Create(slot, name.to_string())
            }
            Change::Rename(slot) => {
                let [first, second] = names(slot);
                let (from, to) =
                    if catalog.contains_key(first) { (first, second) } else { (second, first) };
                if catalog.contains_key(to) {
                    return None;
                }
                let serial = catalog.remove(from)?;
                catalog.insert(to.to_string(), serial);
                NamedChange::Rename(from.to_string(), to.to_string())
            }
            Change::Drop(slot) => {
                let [first, second] = names(slot);
                let name = if catalog.contains_key(second) { second } else { first };
                catalog.remove(name)?;
                NamedChange::Drop(name.to_string())
            }
        };
        self.catalogs.truncate(self.bounds.changes.0 + 1);
        self.catalogs.push(catalog);
        self.bounds.changes.1 = self.bounds.changes.0 + 1;
        Some(named)
    }

    /// Records that the last attempted change was acknowledged.
    pub fn acknowledge_change(&mut self) {
        self.bounds.changes.0 = self.bounds.changes.1;
        let mut live: BTreeSet<Serial> = self.catalog().values().copied().collect();
        live.extend([0, PREPARED_SERIAL]);
        self.cells.retain(|(serial, _), _| live.contains(serial));
        self.state.retain(|serial| live.contains(&serial));
    }

    /// Records that the last attempted change failed. A crash may restore it.
    pub fn fail_change(&mut self) {
        let (before, _) = self.bounds.changes;
        self.failed_changes.push((before, self.catalogs[before + 1].clone()));
        self.bounds.changes.1 = before;
    }

    /// Records that everything acknowledged so far survives a power failure.
    pub fn all_durable(&mut self) {
        self.bounds.durable = self.bounds.acknowledged;
    }

    /// Records an unlogged pair.
    pub fn unlogged(&mut self, key: &[u8], value: &[u8]) {
        self.unlogged.insert((key.to_vec(), value.to_vec()));
    }

    /// Returns whether this pair of an unlogged write was ever written.
    pub fn knows_unlogged(&self, key: &[u8], value: &[u8]) -> bool {
        self.unlogged.contains(&(key.to_vec(), value.to_vec()))
    }

    /// Returns the lists of keyspaces that a crash may leave.
    fn allowed_catalogs(&self, bounds: &Bounds) -> Vec<&Catalog> {
        let (least, most) = bounds.changes;
        let most = most.min(self.catalogs.len() - 1);
        let failed = self.failed_changes.iter().filter(|(index, _)| (least..=most).contains(index));
        self.catalogs[least..=most].iter().rev().chain(failed.map(|(_, catalog)| catalog)).collect()
    }

    /// Returns a number of batches after which the store held the content of `digests`, with
    /// keyspaces that `bounds` allow: the largest from `least` to the attempted ones, or else the
    /// largest overall.
    pub fn index_of(&self, digests: &Digests, least: usize, bounds: &Bounds) -> Option<usize> {
        let catalogs = self.allowed_catalogs(bounds);
        let is_it = |index: &usize| {
            catalogs.iter().any(|catalog| self.is_state(&self.states[*index], catalog, digests))
        };
        let most = bounds.attempted.min(self.states.len() - 1);
        let inside = (least..=most).rev().find(is_it);
        inside.or_else(|| (0..self.states.len()).rev().find(is_it))
    }

    /// Returns whether a checkpoint has the content that it must have.
    pub fn is_checkpoint(&self, digests: &Digests, note: &CheckpointNote) -> bool {
        self.is_state(&self.states[note.index], &self.catalogs[note.changes], digests)
    }

    /// Returns whether this content is that of a failed batch after at least `least` others, or of
    /// a failed change of keyspaces.
    pub fn is_failed(&self, digests: &Digests, least: usize, bounds: &Bounds) -> bool {
        let failed = self.failed.iter().filter(|failed| failed.index >= least);
        let states = failed.map(|failed| &failed.state).chain([&self.state]);
        let catalogs = self.allowed_catalogs(bounds);
        states.into_iter().any(|state| catalogs.iter().any(|c| self.is_state(state, c, digests)))
    }

    /// Returns whether a store with this state and these keyspaces has these digests now.
    fn is_state(&self, state: &State, catalog: &Catalog, digests: &Digests) -> bool {
        let is_same =
            |name: &str, serial: Serial| digests.of(name) == state.of(serial, self.bounds.now_ms);
        digests.names().eq(catalog.keys())
            && is_same(DEFAULT, 0)
            && is_same(PREPARED, PREPARED_SERIAL)
            && catalog.iter().all(|(name, serial)| is_same(name, *serial))
    }
}
