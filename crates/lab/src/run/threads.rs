//! The threads of a task: they begin together, and each runs the loop of the task over its list.

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::work::{self, Context, Done};
use super::{mixgraph, queue, transactions};
use crate::error::{LabError, Result};
use crate::target::Direction;
use crate::workload::accounts::Accounts;
use crate::workload::prepare::{OpList, Prepared};
use crate::workload::tasks::{TaskKind, TaskSpec};

/// Maximum number of operations of a checksum task.
const CHECKSUM_BLOCKS: u64 = 125_000;

/// Result of all threads of a task.
pub struct Outcome {
    /// Sum of the threads.
    pub done: Done,
    /// The additional writer.
    pub writer: Option<Done>,
    /// Time from the common start to the end of the last thread.
    pub wall: Option<Duration>,
}

/// Amounts of the reading tasks.
#[derive(Clone, Copy)]
pub struct Amounts {
    /// Number of reads.
    pub reads: u64,
    /// Number of entries that each seek reads after its position.
    pub seek_nexts: usize,
    /// Number of keys per multi-get.
    pub batch_keys: usize,
    /// Time of the task `rest`.
    pub rest: Duration,
}

/// Operations of one thread, and what they are compared with.
#[derive(Clone, Copy)]
struct Input<'a> {
    list: &'a OpList,
    walk: Option<&'a OpList>,
    accounts: Option<&'a Accounts>,
}

/// Runs a task with a thread for each list. `accounts` are those before the task.
pub fn run_threads(
    task: &TaskSpec,
    context: &Context<'_>,
    prepared: &Prepared,
    (amounts, accounts): (Amounts, Option<&Accounts>),
) -> Result<Outcome> {
    let stop = AtomicBool::new(false);
    let extra = usize::from(prepared.writer.is_some());
    let barrier = Barrier::new(prepared.lists.len() + extra + 1);
    std::thread::scope(|scope| {
        let writer = prepared.writer.as_ref().map(|list| {
            let (barrier, stop) = (&barrier, &stop);
            scope.spawn(move || {
                barrier.wait();
                work::puts_until(context, list, stop)
            })
        });
        let threads: Vec<_> = prepared
            .lists
            .iter()
            .map(|list| {
                let barrier = &barrier;
                scope.spawn(move || {
                    barrier.wait();
                    let input = Input { list, walk: prepared.walk.as_ref(), accounts };
                    one_thread(task, context, input, amounts)
                })
            })
            .collect();
        barrier.wait();
        let start = Instant::now();
        let results: Vec<_> = threads.into_iter().map(|thread| thread.join()).collect();
        let wall = start.elapsed();
        stop.store(true, Ordering::Relaxed);
        let crashed = |_| LabError::engine("a thread of the task panicked");
        let writer =
            writer.map(|thread| thread.join().map_err(crashed)).transpose()?.transpose()?;
        let mut done = Done::default();
        for result in results {
            done.merge(result.map_err(crashed)??);
        }
        let threads = prepared.lists.len() as u32;
        // A queue is filled before its clock starts.
        let wall = if threads == 1 || done.queue.is_some() { done.elapsed / threads } else { wall };
        Ok(Outcome { done, writer, wall: Some(wall) })
    })
}

fn one_thread(
    task: &TaskSpec,
    context: &Context<'_>,
    input: Input<'_>,
    Amounts { reads, seek_nexts, batch_keys, rest }: Amounts,
) -> Result<Done> {
    let Input { list, walk, accounts } = input;
    match task.kind {
        TaskKind::Fill { .. } => work::puts(context, list, task.sync),
        TaskKind::Delete { .. } => work::deletes(context, list),
        TaskKind::ReadRandom
        | TaskKind::ReadMissing
        | TaskKind::ReadHot
        | TaskKind::ReadWhileWriting => work::gets(context, list),
        TaskKind::MultiRead => work::gets_together(context, list, batch_keys),
        TaskKind::SeekRandom => match walk {
            Some(walk) => work::seeks_on(context, list, walk, seek_nexts),
            None => work::seeks(context, list),
        },
        TaskKind::ReadFirst => work::read_first(context, list),
        TaskKind::ReadForward => work::scan(context, list, Direction::Forward, reads),
        TaskKind::ReadReverse => work::scan(context, list, Direction::Reverse, reads),
        TaskKind::Mixgraph => mixgraph::mixed(context, list, walk),
        TaskKind::BulkLoad => work::bulk_load(context, list),
        TaskKind::Queue => queue::queue(context, list),
        TaskKind::Compact => work::once(context, || context.target.compact()),
        TaskKind::Rest => work::once(context, || {
            std::thread::sleep(rest);
            Ok(())
        }),
        TaskKind::Checksum => {
            let count = context.data.rows().clamp(1000, CHECKSUM_BLOCKS);
            work::checksums(context, count as usize)
        }
        TaskKind::Open | TaskKind::Recover | TaskKind::Stats => Ok(Done::default()),
        TaskKind::FillAccounts
        | TaskKind::Transact { .. }
        | TaskKind::Update
        | TaskKind::Merge
        | TaskKind::ReadAccounts => one_thread_of_accounts(task, context, list, accounts),
    }
}

fn one_thread_of_accounts(
    task: &TaskSpec,
    context: &Context<'_>,
    list: &OpList,
    accounts: Option<&Accounts>,
) -> Result<Done> {
    let accounts = accounts.ok_or_else(|| LabError::engine("the store has no accounts"))?;
    match task.kind {
        TaskKind::FillAccounts => transactions::fill(context, list, accounts),
        TaskKind::Transact { writes: true, .. } => {
            transactions::transfers(context, list, task.sync)
        }
        TaskKind::Transact { writes: false, .. } => transactions::reads(context, list, accounts),
        TaskKind::Merge => transactions::merges(context, list),
        TaskKind::ReadAccounts => transactions::account_gets(context, list, accounts),
        _ => transactions::updates(context, list),
    }
}
