//! Scripts for a store: options and steps, generated from a seed.
//!
//! Invariants: the same seed makes the same script. The stores have no threads, so a script makes
//! the same file operations each time.

use std::sync::Arc;

use esker::internals::Thresholds;
use esker::{
    BlockLayout, CachePolicy, Compression, Concurrency, IndexSearch, Isolation, MemtableKind,
    Options, Policy, ValueSeparation, WalIo, built_in_merge_operator,
};

use super::clock::{START_MS, ScriptClock};
use super::keyspaces::{
    FILTERED_PREFIX, MERGE_OPERATOR, MERGED_SLOTS, REMOVED_VALUE, REPLACED_VALUE, SLOTS,
    UNLOGGED_PREFIX, ValueFilter,
};
use super::ops::{Change, Op};
use crate::rng::SplitMix64;

/// One step.
#[derive(Debug, Clone)]
pub enum Step {
    /// A batch, synced or buffered.
    Write(Vec<Op>, bool),
    /// A transaction.
    Transact(TransactionScript),
    /// Commit the first prepared transaction, or roll it back.
    Resolve(bool),
    /// Create, rename or drop a keyspace.
    Change(Change),
    /// An ingest of puts and deletes of one keyspace, with distinct keys.
    Ingest(Vec<Op>),
    /// A write that is not logged.
    Unlogged(Vec<u8>, Vec<u8>),
    /// `Db::sync`.
    Sync,
    /// `Db::flush`.
    Flush,
    /// Up to this many background jobs.
    Jobs(u32),
    /// `Db::compact_range`.
    Compact(Option<Vec<u8>>, Option<Vec<u8>>),
    /// `Db::set_option`.
    Set(&'static str, String),
    /// Take a snapshot. The oldest of three is released.
    Snapshot,
    /// Compare every snapshot and the current content with the oracle.
    Read,
    /// Read the change feed to its end, and confirm it.
    Follow,
    /// Turn the clock by some milliseconds.
    Turn(u64),
    /// Take a checkpoint into its own directory.
    Checkpoint,
    /// Close and reopen.
    Reopen,
    /// The process dies, and another one opens the store.
    Kill,
}

/// A transaction: operations, operations that are taken back to a savepoint, and an end.
#[derive(Debug, Clone)]
pub struct TransactionScript {
    /// The isolation.
    pub isolation: Isolation,
    /// The concurrency.
    pub concurrency: Concurrency,
    /// The operations.
    pub ops: Vec<Op>,
    /// Operations after a savepoint, to which the transaction then returns.
    pub undone: Vec<Op>,
    /// The end.
    pub end: TransactionEnd,
}

/// The end of a transaction.
#[derive(Debug, Clone)]
pub enum TransactionEnd {
    /// A commit, synced or buffered.
    Commit(bool),
    /// A commit after another write of its first key, with this value. It must fail.
    Conflict(Vec<u8>),
    /// A rollback.
    Rollback,
    /// A preparation under this name.
    Prepare(String),
}

/// The emphasis of a script: its frequent steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Theme {
    /// All kinds of steps.
    Mixed,
    /// Flushes and compactions.
    Levels,
    /// Range deletes and snapshots.
    Ranges,
    /// Changes of options.
    OptionChanges,
    /// Checkpoints.
    Checkpoints,
    /// A manifest that is rewritten frequently.
    Rollover,
    /// Closes, deaths and openings.
    Restarts,
    /// Many logs at once, few syncs.
    Logs,
    /// Changes of keyspaces, and transactions.
    Keyspaces,
    /// A reader of the change feed.
    Feed,
    /// Merges, pairs that expire while the clock turns, and a compaction filter.
    Rules,
}

impl Theme {
    /// Every theme.
    pub const ALL: [Theme; 11] = [
        Theme::Mixed,
        Theme::Levels,
        Theme::Ranges,
        Theme::OptionChanges,
        Theme::Checkpoints,
        Theme::Rollover,
        Theme::Restarts,
        Theme::Logs,
        Theme::Keyspaces,
        Theme::Feed,
        Theme::Rules,
    ];
}

/// A store's options and steps.
#[derive(Clone)]
pub struct Script {
    /// Policy, theme and seed, for messages.
    pub name: String,
    /// The options for opening the store.
    pub options: Options,
    /// The steps.
    pub steps: Vec<Step>,
    /// The seed that reproduces the script.
    pub seed: u64,
    /// Whether the store is encrypted.
    pub encrypted: bool,
    /// Whether the store has a slot of its change feed from the beginning.
    pub has_reader: bool,
}

impl Script {
    /// Returns the script for an encrypted store.
    pub fn into_encrypted(self) -> Script {
        Script { name: format!("{} encrypted", self.name), encrypted: true, ..self }
    }
}

/// Returns the thresholds of the stores of this seed: the ones that ship, or small ones.
pub fn thresholds(seed: u64) -> Thresholds {
    if SplitMix64::new(seed).chance(2) { Thresholds::small() } else { Thresholds::default() }
}

/// Returns options under which a few dozen writes reach every level and no thread is started.
pub fn tiny_options() -> Options {
    Options {
        memory_budget_bytes: Some(16 << 20),
        memtable_size_bytes: Some(8 << 10),
        block_size_bytes: 256,
        file_size_max_bytes: 4 << 10,
        guard_size_max_bytes: 8 << 10,
        guard_piece_min_bytes: 1 << 10,
        cache_size_bytes: Some(8 << 10),
        manifest_size_min_bytes: 4 << 10,
        fan_out: 3,
        l0_runs_max: 2,
        runs_max: 3,
        last_runs_max: 3,
        background_threads: Some(0),
        // They would multiply the operations at which a campaign cuts or fails.
        log_file: false,
        status_file: false,
        thresholds: Thresholds::small(),
        clock: Some(ScriptClock::new(START_MS)),
        compaction_filters: vec![Arc::new(ValueFilter)],
        ..Options::default()
    }
}

/// Returns whether values are separated: in half of the stores none, else all or the longer ones.
fn value_separation(number: u64) -> ValueSeparation {
    let all = [
        ValueSeparation::Off,
        ValueSeparation::From(0),
        ValueSeparation::Off,
        ValueSeparation::From(100),
    ];
    // Not in step with the other structures, whose numbers of kinds are 2 to 5.
    all[SplitMix64::new(number ^ 0x7661_6c75).below(4) as usize]
}

/// Returns tiny options with every structure chosen by `number`.
pub fn options(policy: Policy, theme: Theme, number: u64) -> Options {
    let at = |all: usize, step: u64| (number / step) as usize % all;
    let mut options = Options {
        policy,
        memtable_kind: MemtableKind::ALL[at(MemtableKind::ALL.len(), 1)],
        wal_io: WalIo::ALL[at(WalIo::ALL.len(), 1)],
        cache_policy: CachePolicy::ALL[at(CachePolicy::ALL.len(), 1)],
        compression: Compression::ALL[at(Compression::ALL.len(), 1)],
        compression_upper: Some(Compression::ALL[at(Compression::ALL.len(), 2)]),
        index_search: IndexSearch::ALL[at(IndexSearch::ALL.len(), 1)],
        block_layout: BlockLayout::ALL[at(BlockLayout::ALL.len(), 2)],
        filter_bits_per_key: [10.0, 0.0, 3.5][at(3, 1)],
        value_separation_min_bytes: value_separation(number),
        keep_files_open: !number.is_multiple_of(4),
        thresholds: thresholds(number),
        ..tiny_options()
    };
    match theme {
        Theme::Rollover => options.manifest_size_min_bytes = 256,
        Theme::Logs => options.frozen_memtables_max = 4,
        Theme::Levels => options.memtable_size_bytes = Some(4 << 10),
        Theme::Rules => return with_rules(options),
        _ => {}
    }
    options
}

/// Returns the options with the merge operator and the compaction filter of the default keyspace.
pub fn with_rules(options: Options) -> Options {
    Options {
        merge_operator: built_in_merge_operator(MERGE_OPERATOR),
        compaction_filter: Some(Arc::new(ValueFilter)),
        ..options
    }
}

/// Returns a script of `steps` steps over a few dozen keys.
pub fn script(policy: Policy, theme: Theme, seed: u64, steps: usize) -> Script {
    script_of(policy, theme, seed, steps, 60)
}

/// Returns a script of `steps` steps over `keys` keys. Before them it creates some keyspaces.
pub fn script_of(policy: Policy, theme: Theme, seed: u64, steps: usize, keys: u64) -> Script {
    let mut maker = Maker { rng: SplitMix64::new(seed), theme, batches: 0, keys };
    let created = (1..SLOTS).filter(|_| !maker.rng.chance(3));
    let created: Vec<Step> = created.map(|slot| Step::Change(Change::Create(slot))).collect();
    let steps = created.into_iter().chain((0..steps).map(|_| maker.step()));
    Script {
        name: format!("{policy} {theme:?} {seed}"),
        options: options(policy, theme, seed),
        steps: steps.collect(),
        seed,
        encrypted: false,
        has_reader: matches!(theme, Theme::Feed | Theme::Rules),
    }
}

/// A function that makes a step of one kind.
type Make = fn(&mut Maker) -> Step;

struct Maker {
    rng: SplitMix64,
    theme: Theme,
    batches: u64,
    keys: u64,
}

impl Maker {
    /// Returns the number of steps of each kind, out of 1000. The rest are writes.
    fn shares(&self) -> [(u64, Make); 17] {
        let (flush, job, compact, set, snapshot, checkpoint, reopen, kill, unlogged, sync) =
            match self.theme {
                Theme::Mixed | Theme::Keyspaces => (60, 80, 15, 20, 20, 10, 15, 15, 15, 15),
                Theme::Levels => (160, 250, 40, 0, 20, 0, 0, 5, 0, 0),
                Theme::Ranges => (90, 130, 30, 0, 90, 5, 5, 5, 0, 10),
                Theme::OptionChanges => (70, 120, 15, 160, 10, 5, 10, 5, 0, 10),
                Theme::Checkpoints => (40, 60, 10, 0, 10, 110, 5, 5, 0, 10),
                Theme::Rollover => (200, 150, 20, 0, 0, 5, 15, 10, 0, 0),
                Theme::Restarts => (30, 50, 5, 0, 0, 5, 100, 130, 10, 15),
                Theme::Logs => (10, 20, 0, 0, 10, 0, 10, 25, 0, 5),
                Theme::Feed => (90, 110, 10, 5, 10, 10, 25, 30, 20, 10),
                Theme::Rules => (130, 170, 30, 5, 40, 10, 15, 15, 5, 10),
            };
        let (change, transact, resolve) = match self.theme {
            Theme::Keyspaces => (120, 250, 30),
            Theme::Feed => (70, 100, 20),
            _ => (15, 80, 10),
        };
        let (ingest, follow) = match self.theme {
            Theme::Logs => (0, 0),
            Theme::Feed => (40, 90),
            Theme::Rules => (30, 30),
            _ => (12, 0),
        };
        [
            (flush, |_| Step::Flush),
            (job, |m| Step::Jobs(1 + m.rng.below(3) as u32)),
            (compact, Maker::compact),
            (set, Maker::set),
            (snapshot, |_| Step::Snapshot),
            (checkpoint, |_| Step::Checkpoint),
            (reopen, |_| Step::Reopen),
            (kill, |_| Step::Kill),
            (unlogged, Maker::unlogged),
            (sync, |_| Step::Sync),
            (change, Maker::change),
            (transact, Maker::transact),
            (resolve, |m| Step::Resolve(!m.rng.chance(3))),
            (ingest, Maker::ingest),
            (follow, |_| Step::Follow),
            (if self.has_rules() { 70 } else { 0 }, |m| Step::Turn(1 + m.rng.below(400))),
            (30, |_| Step::Read),
        ]
    }

    fn has_rules(&self) -> bool {
        self.theme == Theme::Rules
    }

    fn step(&mut self) -> Step {
        let mut left = self.rng.below(1000);
        for (share, make) in self.shares() {
            if left < share {
                return make(self);
            }
            left -= share;
        }
        self.write()
    }

    fn key(&mut self) -> Vec<u8> {
        let n = self.rng.below(self.keys);
        match n % 9 {
            0 => format!("user{n:08}").into_bytes(),
            1 => vec![0xff; 1 + (n % 3) as usize],
            2 => vec![0; (n % 4) as usize],
            _ => format!("k{n:04}").into_bytes(),
        }
    }

    fn value(&mut self) -> Vec<u8> {
        let len = match self.rng.below(24) {
            0 => 0,
            1 => 700 + self.rng.below(900),
            2 if self.theme == Theme::Logs => 5_000,
            _ => self.rng.below(160),
        };
        let letter = self.rng.below(26) as u8;
        let noise = self.rng.chance(2);
        let mut value: Vec<u8> = vec![b'a' + letter; len as usize];
        if noise {
            self.rng.fill(&mut value);
        }
        value
    }

    /// Returns the slot of an operation: as often the default keyspace as all others.
    fn slot(&mut self) -> u8 {
        if self.rng.chance(2) { 0 } else { 1 + self.rng.below(u64::from(SLOTS) - 1) as u8 }
    }

    fn op(&mut self) -> Op {
        if self.has_rules() && self.rng.chance(2) {
            return self.ruled();
        }
        let ranges = if self.theme == Theme::Ranges { 6 } else { 24 };
        let (slot, key) = (self.slot(), self.key());
        if self.rng.chance(ranges) {
            if slot > 0 && self.rng.chance(6) {
                return Op::Clear(slot);
            }
            let other = self.key();
            Op::DeleteRange(slot, key.clone().min(other.clone()), key.max(other))
        } else if self.rng.chance(5) {
            Op::Delete(slot, key)
        } else {
            Op::Put(slot, key, self.value())
        }
    }

    /// Returns a merge, a put that expires, or a put that the compaction filter looks at.
    fn ruled(&mut self) -> Op {
        match self.rng.below(8) {
            0..4 => {
                let slot = MERGED_SLOTS[self.rng.below(MERGED_SLOTS.len() as u64) as usize];
                Op::Merge(slot, self.key(), self.value())
            }
            4 | 5 => {
                let (slot, key, value) = (self.slot(), self.key(), self.value());
                Op::PutExpiring(slot, key, value, 1 + self.rng.below(500))
            }
            _ => {
                let (slot, key) = (self.slot(), [FILTERED_PREFIX, &self.key()].concat());
                let begin = [REMOVED_VALUE, REPLACED_VALUE, b""][self.rng.below(3) as usize];
                Op::Put(slot, key, [begin, &self.value()].concat())
            }
        }
    }

    fn ops(&mut self) -> Vec<Op> {
        self.batches += 1;
        let count = if self.rng.chance(3) { 1 + self.rng.below(6) } else { 1 };
        let mut ops: Vec<Op> = (0..count).map(|_| self.op()).collect();
        // Half of the batches contain their number, so that no two states are alike.
        if self.rng.chance(2) {
            let slot = self.slot();
            ops.push(Op::Put(slot, b"batch".to_vec(), self.batches.to_string().into_bytes()));
        }
        ops
    }

    fn synced(&mut self) -> bool {
        self.rng.chance(if self.theme == Theme::Logs { 20 } else { 4 })
    }

    fn write(&mut self) -> Step {
        let mut ops = self.ops();
        // A batch has no such operation: it is a call of its own.
        if let Some(at) = ops.iter().position(|op| matches!(op, Op::Clear(_))) {
            ops = vec![ops.swap_remove(at)];
        }
        Step::Write(ops, self.synced())
    }

    /// Returns an ingest of some keys of one slot.
    fn ingest(&mut self) -> Step {
        let (slot, mut ops) = (self.slot(), Vec::<Op>::new());
        for _ in 0..1 + self.rng.below(12) {
            let key = self.key();
            if ops.iter().any(|op| op.key() == Some(&key)) {
                continue;
            }
            let merges = self.has_rules() && MERGED_SLOTS.contains(&slot);
            ops.push(match self.rng.below(10) {
                0 | 1 => Op::Delete(slot, key),
                2 | 3 if merges => Op::Merge(slot, key, self.value()),
                4 | 5 if self.has_rules() => {
                    Op::PutExpiring(slot, key, self.value(), 1 + self.rng.below(500))
                }
                _ => Op::Put(slot, key, self.value()),
            });
        }
        Step::Ingest(ops)
    }

    fn transact(&mut self) -> Step {
        let all = [Isolation::Snapshot, Isolation::Serializable];
        let isolation = all[self.rng.below(2) as usize];
        let all = [Concurrency::Optimistic, Concurrency::Pessimistic];
        let concurrency = all[self.rng.below(2) as usize];
        let mut ops = self.ops();
        ops.retain(|op| !matches!(op, Op::Clear(_)));
        let mut undone = if self.rng.chance(3) { self.ops() } else { Vec::new() };
        undone.retain(|op| !matches!(op, Op::Clear(_)));
        let end = match self.rng.below(10) {
            0 => TransactionEnd::Rollback,
            1 => {
                ops = self.own_ops();
                undone.clear();
                TransactionEnd::Prepare(format!("{:016x}", self.rng.next_u64()))
            }
            2 | 3 => TransactionEnd::Conflict(self.value()),
            _ => TransactionEnd::Commit(self.synced()),
        };
        Step::Transact(TransactionScript { isolation, concurrency, ops, undone, end })
    }

    /// Returns operations on keys that only prepared transactions use, apart from range deletes.
    fn own_ops(&mut self) -> Vec<Op> {
        let number = self.rng.next_u64();
        let mut ops = Vec::new();
        for at in 0..1 + self.rng.below(4) {
            let key = format!("prepared {number:x} {at}").into_bytes();
            ops.push(Op::Put(self.slot(), key, self.value()));
        }
        ops
    }

    fn change(&mut self) -> Step {
        let slot = 1 + self.rng.below(u64::from(SLOTS) - 1) as u8;
        Step::Change(match self.rng.below(4) {
            0 | 1 => Change::Create(slot),
            2 => Change::Rename(slot),
            _ => Change::Drop(slot),
        })
    }

    fn unlogged(&mut self) -> Step {
        let key = [UNLOGGED_PREFIX, &self.key()].concat();
        Step::Unlogged(key, self.value())
    }

    fn compact(&mut self) -> Step {
        match self.rng.below(3) {
            0 => Step::Compact(None, None),
            1 => Step::Compact(Some(self.key()), None),
            _ => {
                let (a, b) = (self.key(), self.key());
                Step::Compact(Some(a.clone().min(b.clone())), Some(a.max(b)))
            }
        }
    }

    fn set(&mut self) -> Step {
        let pick = |rng: &mut SplitMix64, names: &[&str]| {
            names[rng.below(names.len() as u64) as usize].to_string()
        };
        let rng = &mut self.rng;
        match rng.below(9) {
            0 => {
                let names: Vec<&str> = Policy::ALL.iter().map(|p| p.name()).collect();
                Step::Set("policy", pick(rng, &names))
            }
            1 => {
                let names: Vec<&str> = Compression::ALL.iter().map(|p| p.name()).collect();
                Step::Set("compression_upper", pick(rng, &names))
            }
            2 => {
                let names: Vec<&str> = MemtableKind::ALL.iter().map(|p| p.name()).collect();
                Step::Set("memtable_kind", pick(rng, &names))
            }
            3 => {
                let names: Vec<&str> = BlockLayout::ALL.iter().map(|p| p.name()).collect();
                Step::Set("block_layout", pick(rng, &names))
            }
            4 => Step::Set("block_size_bytes", pick(rng, &["64", "256", "2048"])),
            5 => {
                let names: Vec<&str> = CachePolicy::ALL.iter().map(|p| p.name()).collect();
                Step::Set("cache_policy", pick(rng, &names))
            }
            6 => Step::Set("file_size_max_bytes", pick(rng, &["4096", "8192", "65536"])),
            7 => Step::Set("value_separation_min_bytes", pick(rng, &["off", "0", "100"])),
            _ => Step::Set("l0_runs_max", pick(rng, &["1", "2", "4"])),
        }
    }
}
