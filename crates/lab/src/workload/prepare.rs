//! Converts a task into lists of operations with their expected results, before the clock starts.
//!
//! The lists depend only on the seed, the repetition and the task's position, so every engine
//! executes exactly the same operations.

use super::accounts::Accounts;
use super::dataset::{Dataset, Write};
use super::keys::KeyBuffer;
use super::mixed::{mixed, with_new_values};
use super::oracle::Oracle;
use super::rng::Rng;
use super::tasks::{TaskKind, TaskSpec};
use super::values::ValueRef;
use crate::mix::generators::{Chooser, Distribution};
use crate::mix::mixgraph::Mixgraph;
use crate::mix::phase::OpKind;

/// Operations of one thread, in order.
#[derive(Clone, Debug, Default)]
pub struct OpList {
    /// Key of each operation.
    pub keys: KeyBuffer,
    /// Id of each key; empty for keys outside the data.
    pub ids: Vec<u32>,
    /// Value to write, or value a read must find.
    pub values: Vec<ValueRef>,
    /// Alternative value that a read may find while a writer runs concurrently; empty otherwise.
    pub alternatives: Vec<ValueRef>,
    /// For seeks: expected key at the position after the seek; empty otherwise.
    pub seek_results: KeyBuffer,
    /// For seeks followed by reads, and for a mix: index of each position in [`Prepared::walk`]; empty otherwise.
    pub starts: Vec<u32>,
    /// For a queue: number of keys that are pushed before the clock starts, and never more than
    /// that are in the queue; 0 otherwise.
    pub depth: usize,
    /// For a mix: kind of each operation, and number of pairs of a scan; empty otherwise.
    pub mix: Vec<(OpKind, u16)>,
}

impl OpList {
    /// Returns the number of operations in the list.
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// Returns whether the list is empty.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// Returns the writes of the first `count` operations, for the oracle.
    pub fn writes(&self, count: usize) -> impl Iterator<Item = Write> + '_ {
        let pairs = self.ids.iter().copied().zip(self.values.iter().copied()).enumerate();
        pairs.take(count).filter(|&(index, _)| self.is_write(index)).map(|(_, pair)| pair)
    }

    /// Returns whether an operation writes. Only a mix has others.
    fn is_write(&self, index: usize) -> bool {
        self.mix.get(index).is_none_or(|(kind, _)| kind.writes())
    }

    /// Returns the bytes of keys and values of the whole list; of a mix, of its writes.
    pub fn user_bytes(&self) -> u64 {
        if !self.mix.is_empty() {
            let written = (0..self.len()).filter(|&index| self.is_write(index));
            let bytes =
                |index: usize| self.keys.get(index).len() as u64 + self.values[index].len_bytes();
            return written.map(bytes).sum();
        }
        self.keys.key_bytes() + self.values.iter().map(|value| value.len_bytes()).sum::<u64>()
    }

    /// Returns the memory used, in bytes.
    pub fn memory_bytes(&self) -> u64 {
        let refs = (self.values.capacity() + self.alternatives.capacity()) * size_of::<ValueRef>();
        self.keys.memory_bytes()
            + self.seek_results.memory_bytes()
            + (refs + (self.ids.capacity() + self.starts.capacity() + self.mix.capacity()) * 4)
                as u64
    }
}

/// Operations of a task: one list per thread, and the list of a concurrent writer, if any.
#[derive(Clone, Debug, Default)]
pub struct Prepared {
    /// One list per thread.
    pub lists: Vec<OpList>,
    /// List of the additional writer, which repeats it.
    pub writer: Option<OpList>,
    /// For seeks followed by reads, and for a mix: every pair of the store in order.
    pub walk: Option<OpList>,
    /// Whether reads are checked against the lists.
    pub checked: bool,
}

impl Prepared {
    /// Returns the memory used by all lists, in bytes.
    pub fn memory_bytes(&self) -> u64 {
        self.lists.iter().chain(&self.writer).chain(&self.walk).map(OpList::memory_bytes).sum()
    }
}

/// Input of the preparation.
pub struct Plan<'a> {
    /// Source of the keys and values.
    pub data: &'a Dataset,
    /// Expected content of the store.
    pub oracle: &'a Oracle,
    /// Expected accounts of the store, if it has accounts instead.
    pub accounts: Option<&'a Accounts>,
    /// Number of threads; each gets its own list.
    pub threads: usize,
    /// Whether the threads share the operations below, or each executes all of them.
    pub shared: bool,
    /// Index of the thread of a list.
    pub thread: usize,
    /// Number of writes or deletes in a full task.
    pub writes: u64,
    /// Number of reads.
    pub reads: u64,
    /// Number of entries that each seek reads after its position.
    pub seek_nexts: u64,
    /// Model of the task `mixgraph`.
    pub mixgraph: &'a Mixgraph,
    /// Number of keys in a queue, of all threads together. `None` is a tenth of the keys.
    pub queue_depth: Option<u64>,
    /// Distinguishes this task's writes from earlier ones.
    pub generation: u32,
    /// Seed of this task in this repetition.
    pub seed: u64,
}

impl Plan<'_> {
    /// Returns the thread's part of `all` operations of a task.
    fn share(&self, all: u64) -> std::ops::Range<u64> {
        let (part, parts) = if self.shared { (self.thread, self.threads) } else { (0, 1) };
        let begin = |part: usize| (u128::from(all) * part as u128 / parts as u128) as u64;
        begin(part)..begin(part + 1)
    }

    /// Returns the number of gets or seeks of the thread.
    pub(super) fn own_reads(&self) -> u64 {
        let share = self.share(self.reads);
        share.end - share.start
    }
}

/// Creates the lists. `None` if the data is too small for the task.
pub fn prepare(task: &TaskSpec, plan: &Plan<'_>) -> Option<Prepared> {
    let checked = plan.oracle.is_known() || task.uses_accounts();
    let mut prepared = Prepared { checked, ..Prepared::default() };
    let is_seek = task.kind == TaskKind::SeekRandom;
    let successors = if is_seek { plan.oracle.successors() } else { Vec::new() };
    prepared.walk = (is_seek && plan.seek_nexts > 0).then(|| scan(plan, plan.oracle.live()));
    if task.kind == TaskKind::Mixgraph && checked {
        prepared.walk = Some(with_new_values(scan(plan, plan.oracle.live()), plan)?);
    }
    for thread in 0..plan.threads {
        let mut rng = Rng::for_part(plan.seed, thread as u64);
        let own = Plan { thread, ..*plan };
        let list = match task.kind {
            TaskKind::Fill { random } => fill(task, &own, random, &mut rng)?,
            TaskKind::Recover => fill(task, &own, true, &mut rng)?,
            TaskKind::Delete { random } => delete(task, &own, random, &mut rng),
            TaskKind::ReadRandom
            | TaskKind::ReadHot
            | TaskKind::ReadMissing
            | TaskKind::MultiRead => gets(task, &own, &mut rng),
            TaskKind::ReadWhileWriting => {
                let mut list = gets(task, &own, &mut rng);
                list.alternatives = alternatives(plan, &list)?;
                list
            }
            TaskKind::SeekRandom => seeks(&own, &successors, prepared.walk.as_ref(), &mut rng),
            TaskKind::ReadFirst => read_first(task, &own),
            TaskKind::ReadForward => scan(plan, plan.oracle.live().take(plan.reads as usize)),
            TaskKind::ReadReverse => scan(plan, plan.oracle.live().rev().take(plan.reads as usize)),
            TaskKind::Mixgraph => mixed(&own, prepared.walk.as_ref(), &mut rng)?,
            TaskKind::BulkLoad => in_key_order(&own)?,
            TaskKind::Queue => queue(&own)?,
            TaskKind::FillAccounts => accounts(&own)?,
            TaskKind::Transact { zipfian, .. } => pairs(task, &own, zipfian, &mut rng)?,
            TaskKind::Update => updates(task, &own, &mut rng)?,
            TaskKind::Merge => merges(task, &own, &mut rng)?,
            TaskKind::ReadAccounts => account_gets(&own, &mut rng)?,
            TaskKind::Compact
            | TaskKind::Rest
            | TaskKind::Checksum
            | TaskKind::Open
            | TaskKind::Stats => OpList::default(),
        };
        prepared.lists.push(list);
    }
    if task.kind == TaskKind::ReadWhileWriting {
        let mut rng = Rng::for_part(plan.seed, 0x3717E);
        let one_value = Plan { threads: 2, shared: false, ..*plan };
        prepared.writer = Some(fill(task, &one_value, true, &mut rng)?);
    }
    Some(prepared)
}

/// Returns the rows that the thread writes or deletes. Threads that share a task use the rows that
/// a single thread would draw, one part each.
fn rows(task: &TaskSpec, plan: &Plan<'_>, random: bool, rng: &mut Rng) -> Vec<u64> {
    let share = plan.share((plan.writes / task.divisor).max(1));
    if !random {
        return share.collect();
    }
    if !plan.shared {
        return plan.data.random_rows(share.end, rng);
    }
    let mut drawn = plan.data.random_rows(share.end, &mut Rng::for_part(plan.seed, 0));
    drawn.split_off(share.start as usize)
}

fn fill(task: &TaskSpec, plan: &Plan<'_>, random: bool, rng: &mut Rng) -> Option<OpList> {
    let rows = rows(task, plan, random, rng);
    let mut list = sized(rows.len(), plan);
    for row in rows {
        let one_value = plan.threads > 1;
        let (id, value) =
            plan.data.write_of_row(row, plan.generation, task.value_bytes, one_value)?;
        plan.data.push_key(id, b"", &mut list.keys);
        list.ids.push(id);
        list.values.push(value);
    }
    Some(list)
}

fn delete(task: &TaskSpec, plan: &Plan<'_>, random: bool, rng: &mut Rng) -> OpList {
    let rows = rows(task, plan, random, rng);
    let mut list = sized(rows.len(), plan);
    for row in rows {
        let id = plan.data.key_of_row(row);
        plan.data.push_key(id, b"", &mut list.keys);
        list.ids.push(id);
        list.values.push(ValueRef::ABSENT);
    }
    list
}

fn gets(task: &TaskSpec, plan: &Plan<'_>, rng: &mut Rng) -> OpList {
    let missing = task.kind == TaskKind::ReadMissing;
    let suffix: &[u8] = if missing { plan.data.missing_suffix() } else { b"" };
    let range = match task.kind {
        TaskKind::ReadHot => plan.data.rows().div_ceil(100),
        _ => plan.data.rows(),
    };
    let reads = plan.own_reads();
    let mut list = sized(reads as usize, plan);
    for _ in 0..reads {
        let id = plan.data.key_of_row(rng.below(range));
        plan.data.push_key(id, suffix, &mut list.keys);
        list.ids.push(id);
        list.values.push(if missing { ValueRef::ABSENT } else { plan.oracle.value(id) });
    }
    list
}

fn alternatives(plan: &Plan<'_>, list: &OpList) -> Option<Vec<ValueRef>> {
    let new_values = plan.data.values_of(plan.generation)?;
    Some(list.ids.iter().map(|&id| new_values[id as usize]).collect())
}

fn seeks(plan: &Plan<'_>, successors: &[u32], walk: Option<&OpList>, rng: &mut Rng) -> OpList {
    let reads = plan.own_reads();
    let mut list = sized(reads as usize, plan);
    list.seek_results = KeyBuffer::with_capacity(reads as usize, 16);
    for _ in 0..reads {
        let id = plan.data.key_of_row(rng.below(plan.data.rows()));
        plan.data.push_key(id, b"", &mut list.keys);
        let seek_result = successors.get(id as usize).copied().unwrap_or(u32::MAX);
        list.ids.push(id);
        list.values.push(plan.oracle.value(seek_result));
        if let Some(walk) = walk {
            // Without a next live key, the index is past the end.
            list.starts.push(walk.ids.binary_search(&seek_result).unwrap_or(walk.len()) as u32);
        }
        if seek_result == u32::MAX {
            list.seek_results.push(&[]);
        } else {
            plan.data.push_key(seek_result, b"", &mut list.seek_results);
        }
    }
    list
}

/// Returns the first pair for every read; an absent value if the store is empty.
fn read_first(task: &TaskSpec, plan: &Plan<'_>) -> OpList {
    let mut list = OpList::default();
    let first = plan.oracle.live().next();
    for _ in plan.share((plan.reads / task.divisor).max(1)) {
        match first {
            Some(id) => plan.data.push_key(id, b"", &mut list.keys),
            None => list.keys.push(&[]),
        }
        list.values.push(first.map_or(ValueRef::ABSENT, |id| plan.oracle.value(id)));
    }
    list
}

/// Returns the pairs of the thread in key order. Threads always share the keys.
fn in_key_order(plan: &Plan<'_>) -> Option<OpList> {
    let values = plan.data.values_of(plan.generation)?;
    let share = (Plan { shared: true, ..*plan }).share(plan.data.key_count() as u64);
    let mut list = sized((share.end - share.start) as usize, plan);
    for id in share {
        plan.data.push_key(id as u32, b"", &mut list.keys);
        list.ids.push(id as u32);
        list.values.push(values[id as usize]);
    }
    Some(list)
}

/// Returns the pairs that the thread pushes. Each thread has a queue of its own. `None` if the depth
/// leaves nothing to pop.
fn queue(plan: &Plan<'_>) -> Option<OpList> {
    let mut list = in_key_order(plan)?;
    let depth = plan.queue_depth.unwrap_or(plan.data.key_count() as u64 / 10);
    list.depth = (depth / plan.threads as u64).max(1) as usize;
    (list.len() > list.depth).then_some(list)
}

/// Returns the accounts that the thread writes, in order. Threads always share them.
fn accounts(plan: &Plan<'_>) -> Option<OpList> {
    let mut list = OpList::default();
    let count = plan.accounts?.count() as u64;
    for id in (Plan { shared: true, ..*plan }).share(count) {
        push_account(plan, id, &mut list);
    }
    Some(list)
}

/// Returns two different accounts for each transaction, the first key first, so that transactions
/// which lock their keys do not wait for each other in a circle. `None` with fewer than two
/// accounts.
fn pairs(task: &TaskSpec, plan: &Plan<'_>, zipfian: bool, rng: &mut Rng) -> Option<OpList> {
    let count = plan.accounts.map(Accounts::count).filter(|&count| count > 1)? as u64;
    let distribution = if zipfian { Distribution::Zipfian } else { Distribution::Uniform };
    let mut chooser = Chooser::new(distribution, count, 0, rng);
    let share = plan.share((plan.writes / task.divisor).max(1));
    let mut list = sized(2 * (share.end - share.start) as usize, plan);
    for _ in share {
        let one = chooser.next(rng);
        let other = Some(chooser.next(rng)).filter(|&other| other != one);
        let other = other.unwrap_or((one + 1) % count);
        push_account(plan, one.min(other), &mut list);
        push_account(plan, one.max(other), &mut list);
    }
    Some(list)
}

/// Returns random accounts that no other thread updates. `None` with fewer accounts than
/// threads.
fn updates(task: &TaskSpec, plan: &Plan<'_>, rng: &mut Rng) -> Option<OpList> {
    let threads = plan.threads as u64;
    let count = plan.accounts.map_or(0, Accounts::count) as u64;
    let each = Some(count / threads).filter(|&each| each > 0)?;
    let share = plan.share((plan.writes / task.divisor).max(1));
    let mut list = sized((share.end - share.start) as usize, plan);
    for _ in share {
        push_account(plan, rng.below(each) * threads + plan.thread as u64, &mut list);
    }
    Some(list)
}

/// Returns random counters. `None` if an account has other bytes than its balance, or without
/// accounts.
fn merges(task: &TaskSpec, plan: &Plan<'_>, rng: &mut Rng) -> Option<OpList> {
    let accounts = plan.accounts.filter(|accounts| accounts.are_counters())?;
    let share = plan.share((plan.writes / task.divisor).max(1));
    let mut list = sized((share.end - share.start) as usize, plan);
    for _ in share {
        push_account(plan, rng.below(accounts.count() as u64), &mut list);
    }
    Some(list)
}

/// Returns random accounts to read.
fn account_gets(plan: &Plan<'_>, rng: &mut Rng) -> Option<OpList> {
    let count = plan.accounts.map(Accounts::count).filter(|&count| count > 0)? as u64;
    let reads = plan.own_reads();
    let mut list = sized(reads as usize, plan);
    for _ in 0..reads {
        push_account(plan, rng.below(count), &mut list);
    }
    Some(list)
}

fn push_account(plan: &Plan<'_>, id: u64, list: &mut OpList) {
    let id = id as u32;
    plan.data.push_key(id, b"", &mut list.keys);
    list.ids.push(id);
    list.values.push(plan.accounts.map_or(ValueRef::ABSENT, |accounts| accounts.value(id)));
}

/// Returns the pairs of these keys, as expected from a scan over them.
fn scan(plan: &Plan<'_>, ids: impl Iterator<Item = u32>) -> OpList {
    let mut list = OpList::default();
    for id in ids {
        plan.data.push_key(id, b"", &mut list.keys);
        list.ids.push(id);
        list.values.push(plan.oracle.value(id));
    }
    list
}

/// Returns an empty list with capacity for `count` operations.
pub(super) fn sized(count: usize, plan: &Plan<'_>) -> OpList {
    let key_bytes = plan.data.key_bytes_mean().ceil() as usize;
    OpList {
        keys: KeyBuffer::with_capacity(count, key_bytes),
        ids: Vec::with_capacity(count),
        values: Vec::with_capacity(count),
        ..OpList::default()
    }
}
