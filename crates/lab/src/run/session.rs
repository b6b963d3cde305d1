//! One round: one engine runs every task in order in its own directory, measured and checked.

use std::time::{Duration, Instant};

use super::config::BenchConfig;
use super::engine_dir::EngineDir;
use super::progress::Progress;
use super::reads::{note_reads, read_amplification, watch_cpu_seconds};
use super::threads::{Amounts, Outcome, run_threads};
use super::work::Context;
use crate::error::{LabError, Result};
use crate::measure::counters::Moment;
use crate::measure::host;
use crate::measure::idle::IdleWatch;
use crate::measure::limit::MemoryLimit;
use crate::measure::quiet::{self, Quiet};
use crate::measure::space::SpaceWatch;
use crate::record::schema::{QueueSample, SessionRecord, TaskSample, TransactionSample};
use crate::target::{Engine, LsmCounts, Target};
use crate::workload::accounts::{Accounts, set_balance};
use crate::workload::dataset::Dataset;
use crate::workload::keys::KeyBuffer;
use crate::workload::oracle::Oracle;
use crate::workload::prepare::{OpList, Plan, Prepared, prepare};
use crate::workload::rng::mix;
use crate::workload::tasks::{TaskKind, TaskSpec};
use crate::workload::values::ValueRef;

mod recover;

/// Input of a round: one engine runs all tasks once.
pub struct Round<'a> {
    /// Engine to run.
    pub engine: &'a dyn Engine,
    /// Settings of the benchmark, with `data_bytes_expected` filled in.
    pub config: &'a BenchConfig,
    /// Pairs to write and read.
    pub data: &'a Dataset,
    /// Directory of the store.
    pub engine_dir: &'a EngineDir,
    /// Repetition, from 0.
    pub repetition: usize,
    /// Number of the round in the benchmark, from 0.
    pub number: usize,
    /// Returns freed memory to the operating system, so that the lab's memory for the previous task
    /// is not attributed to the engine.
    pub settle_memory: &'a dyn Fn(),
    /// Active memory limit; the lab's own lists are added to it.
    pub limit: Option<&'a MemoryLimit>,
}

/// Receiver of a round's progress.
pub trait Listener {
    /// A task is complete.
    fn sample(&mut self, sample: &TaskSample);
    /// The task `stats` returned this text.
    fn stats(&mut self, engine: &str, text: &str);
}

/// A listener that does nothing.
pub(crate) struct Silent;

impl Listener for Silent {
    fn sample(&mut self, _: &TaskSample) {}
    fn stats(&mut self, _: &str, _: &str) {}
}

struct Session<'a> {
    round: &'a Round<'a>,
    target: Option<Box<dyn Target>>,
    oracle: Oracle,
    /// Expected accounts, if the store has accounts. The oracle is then unknown.
    accounts: Option<Accounts>,
    generation: u32,
    baseline_bytes: u64,
    /// Bytes written through maps by the stores closed so far.
    mapped_bytes: u64,
    /// Processor time and bytes of read calls of the checks of the whole content, which are not the
    /// engine's work for the tasks.
    checks: Checks,
}

/// What checks of the content took.
#[derive(Clone, Copy, Default)]
struct Checks {
    cpu_seconds: f64,
    read_call_bytes: u64,
}

impl Checks {
    /// Adds what was used since `moment`.
    fn add(&mut self, moment: &Moment) {
        let used = moment.used();
        self.cpu_seconds += used.cpu_seconds;
        self.read_call_bytes += used.read_call_bytes.unwrap_or(0);
    }
}

/// Keeps the sample of a part of a round that ended with `result`. Returns false if the round ends
/// there.
pub(crate) fn keep(
    mut sample: TaskSample,
    result: Result<()>,
    listener: &mut dyn Listener,
    samples: &mut Vec<TaskSample>,
) -> bool {
    super::engine_dir::wait_when_ending();
    let goes_on = result.is_ok();
    if let Err(error) = result {
        sample.error = Some(error.to_string());
    }
    listener.sample(&sample);
    samples.push(sample);
    goes_on
}

/// Records a failed close in the last sample, unless that sample failed itself.
pub(crate) fn note_close(closed: Result<()>, samples: &mut [TaskSample]) {
    if let (Err(error), Some(last)) = (closed, samples.last_mut())
        && last.error.is_none()
    {
        last.error = Some(format!("closing failed: {error}"));
    }
}

/// Returns the plan of the task at `position` of the round with number `repetition`, for a store
/// without accounts. Equal arguments give equal operations, also in another process.
pub(super) fn plan_of<'a>(
    config: &'a BenchConfig,
    data: &'a Dataset,
    oracle: &'a Oracle,
    (repetition, position): (usize, usize),
    generation: u32,
) -> Plan<'a> {
    Plan {
        data,
        oracle,
        accounts: None,
        threads: config.threads,
        shared: config.share_operations,
        thread: 0,
        writes: data.rows(),
        reads: config.reads.unwrap_or(data.rows()),
        seek_nexts: config.seek_nexts,
        mixgraph: &config.mixgraph,
        queue_depth: config.queue_depth,
        generation,
        seed: mix(config.seed ^ mix(((repetition as u64) << 32) | position as u64)),
    }
}

/// Runs all tasks. An engine's error ends the round; the samples measured before it are returned.
pub fn run(
    round: &Round<'_>,
    tasks: &[TaskSpec],
    listener: &mut dyn Listener,
) -> (Vec<TaskSample>, SessionRecord) {
    let start = Instant::now();
    let existing = round.config.use_existing_db;
    let oracle = if existing { Oracle::unknown(round.data) } else { Oracle::empty(round.data) };
    let baseline_bytes = host::memory().resident_bytes.unwrap_or(0);
    let mut session = Session::new(round, oracle, baseline_bytes);
    let moment = Moment::now();
    let mut samples: Vec<TaskSample> = Vec::new();
    for (position, task) in tasks.iter().enumerate() {
        let mut sample =
            TaskSample::new(round.engine.name(), task.name, position, round.repetition);
        let result = session.task(task, &mut sample, listener);
        if !keep(sample, result, listener, &mut samples) {
            break;
        }
    }
    // What another process wrote is not counted, but its compactions are.
    let is_counted = tasks.iter().all(|task| task.kind != TaskKind::Recover);
    session.quiet(&moment, is_counted, &mut samples);
    note_close(session.close(), &mut samples);
    let mut used = moment.used().with_mapped(session.mapped_bytes);
    used.cpu_seconds -=
        session.checks.cpu_seconds + samples.iter().map(watch_cpu_seconds).sum::<f64>();
    let checked_bytes = session.checks.read_call_bytes;
    used.read_call_bytes = used.read_call_bytes.map(|bytes| bytes.saturating_sub(checked_bytes));
    let user_written_bytes = samples.iter().map(|sample| sample.user_written_bytes).sum();
    let amplified = used.write_amplification(user_written_bytes);
    let is_counted = is_counted && round.engine.capabilities().persistent;
    let record = SessionRecord {
        engine: round.engine.name().into(),
        repetition: round.repetition,
        round: round.number,
        elapsed_seconds: start.elapsed().as_secs_f64(),
        used: Some(used),
        user_written_bytes,
        write_amplification: amplified.filter(|_| is_counted).map(|(ratio, _)| ratio),
        read_amplification: read_amplification(&used, &samples),
        data_bytes: Some(round.data.raw_bytes()),
        memory_limit: None,
    };
    (samples, record)
}

impl<'a> Session<'a> {
    fn new(round: &'a Round<'a>, oracle: Oracle, baseline_bytes: u64) -> Session<'a> {
        let (target, accounts) = (None, None);
        Session {
            round,
            target,
            oracle,
            accounts,
            generation: 0,
            baseline_bytes,
            mapped_bytes: 0,
            checks: Checks::default(),
        }
    }

    /// Waits until the store is quiet and records the cost in the last sample. `is_counted` says whether
    /// all bytes that were written are counted.
    fn quiet(&self, since: &Moment, is_counted: bool, samples: &mut [TaskSample]) {
        let written: u64 = samples.iter().map(|sample| sample.user_written_bytes).sum();
        let (Some(target), Some(last)) = (&self.target, samples.last_mut()) else { return };
        if last.failed() || !self.round.engine.capabilities().persistent {
            return;
        }
        let waited = quiet::wait(target.as_ref());
        let used = since.used().with_mapped(self.mapped_so_far());
        let amplified = used.write_amplification(written).filter(|_| is_counted);
        let amplified = amplified.map(|(ratio, _)| ratio);
        let live = self.live_bytes().unwrap_or(0) as f64;
        last.quiet = Some(Quiet::found(waited, amplified, live, &self.round.engine_dir.store()));
    }

    /// Returns the bytes of the live pairs; `None` for an existing store, whose content is unknown.
    fn live_bytes(&self) -> Option<u64> {
        if let Some(accounts) = &self.accounts {
            return Some(accounts.live_bytes(self.round.data));
        }
        self.oracle.is_known().then(|| self.oracle.live_bytes(self.round.data))
    }

    /// Raises the memory limit for the lists that the lab is about to create.
    fn make_room(&self) {
        let Some(limit) = self.round.limit else { return };
        let config = self.round.config;
        let operations = self.round.data.rows().max(config.reads.unwrap_or(0));
        let each = 4 * self.round.data.key_bytes_mean() as u64 + 128;
        limit.spare(self.own_bytes() + operations * config.threads as u64 * each);
    }

    /// Returns the memory for the expected content, in bytes.
    fn own_bytes(&self) -> u64 {
        self.oracle.memory_bytes() + self.accounts.as_ref().map_or(0, Accounts::memory_bytes)
    }

    /// Sets the limit for the task itself; returns the bytes left for engine and page cache, if the
    /// limit is in effect.
    fn tighten(&self, prepared: &Prepared) -> Option<u64> {
        let limit = self.round.limit?;
        let own = self.own_bytes() + prepared.memory_bytes();
        limit.spare(own).then(|| limit.bytes())
    }

    /// After a deletion of all keys, writes one key behind the tombstones for
    /// [`TaskKind::ReadFirst`] to find.
    fn put_last(&mut self) -> Result<()> {
        if !self.oracle.is_known() || self.oracle.live().next().is_some() {
            return Ok(());
        }
        self.open()?;
        let data = self.round.data;
        let last = (0..data.rows()).max_by_key(|&row| data.key_of_row(row)).unwrap_or(0);
        let write = data.write_of_row(last, self.generation, None, true);
        if let (Some((id, value)), Some(target)) = (write, &self.target) {
            let mut keys = KeyBuffer::default();
            data.push_key(id, b"", &mut keys);
            target.put(keys.get(0), data.value(value), false)?;
            self.oracle.apply([(id, value)]);
        }
        Ok(())
    }

    /// Syncs what earlier tasks wrote, by writing one account again, so that the first synced write
    /// of a task does not pay for them.
    fn sync_earlier_writes(&self) -> Result<()> {
        let (Some(accounts), Some(target)) = (&self.accounts, &self.target) else { return Ok(()) };
        let mut keys = KeyBuffer::default();
        self.round.data.push_key(0, b"", &mut keys);
        let mut value = self.round.data.value(accounts.value(0)).to_vec();
        set_balance(&mut value, accounts.balance(0));
        target.put(keys.get(0), &value, true)
    }

    fn close(&mut self) -> Result<()> {
        self.mapped_bytes = self.mapped_so_far();
        self.target.take().map_or(Ok(()), |target| target.close())
    }

    /// Returns the bytes written through maps during this round, by the engine's count.
    fn mapped_so_far(&self) -> u64 {
        self.mapped_bytes + self.target.as_ref().map_or(0, |target| target.mapped_write_bytes())
    }

    fn lsm(&self) -> Option<LsmCounts> {
        self.target.as_ref()?.lsm()
    }

    fn open(&mut self) -> Result<()> {
        if self.target.is_none() {
            let store = &self.round.config.store;
            self.target = Some(self.round.engine.open(&self.round.engine_dir.store(), store)?);
        }
        Ok(())
    }

    fn reason_against(&self, task: &TaskSpec) -> Option<&'static str> {
        let can = self.round.engine.capabilities();
        match task.kind {
            _ if task.fresh && self.round.config.use_existing_db => {
                Some("needs an empty store; skipped with --use_existing_db")
            }
            _ if task.sync && !can.sync => Some("the engine offers no sync"),
            TaskKind::Transact { .. } if !can.transactions => {
                Some("the engine offers no transactions")
            }
            TaskKind::BulkLoad if !can.bulk_load => Some("the engine offers no bulk load"),
            TaskKind::Merge if !can.merge => Some("the engine offers no merge"),
            TaskKind::Transact { .. }
            | TaskKind::Update
            | TaskKind::Merge
            | TaskKind::ReadAccounts
                if self.accounts.is_none() =>
            {
                Some("needs accounts: run fillaccounts before, and no other writing task between")
            }
            TaskKind::Merge if !self.accounts.as_ref().is_some_and(Accounts::are_counters) => {
                Some("needs counters: run it and fillaccounts with --value_size=8")
            }
            TaskKind::Compact if !can.compact => Some("the engine offers no compaction"),
            TaskKind::Recover if !self.oracle.is_known() => {
                Some("needs a store whose content is known: no accounts, no --use_existing_db")
            }
            TaskKind::Recover if self.round.config.child.is_none() => {
                Some("needs a process of its own, and no program for it is known")
            }
            TaskKind::Open | TaskKind::Recover if !can.persistent => {
                Some("the engine stores nothing on disk")
            }
            _ => None,
        }
    }

    fn task(
        &mut self,
        task: &TaskSpec,
        sample: &mut TaskSample,
        listener: &mut dyn Listener,
    ) -> Result<()> {
        let reason = self.reason_against(task);
        if let Some(reason) = reason {
            return self.not_available(sample, reason);
        }
        if task.fresh {
            self.close()?;
            self.round.engine_dir.empty()?;
            self.oracle = Oracle::empty(self.round.data);
        }
        self.generation += 1;
        self.begin_accounts(task);
        self.make_room();
        if task.kind == TaskKind::ReadFirst {
            self.put_last()?;
        }
        let Some(prepared) = prepare(task, &self.plan(sample.position)) else {
            return self.not_available(sample, "the data is too small for the task");
        };
        self.open()?;
        if task.kind == TaskKind::Stats {
            let text = self.target.as_ref().and_then(|target| target.stats());
            if self.round.repetition == 0 {
                let text = text.as_deref().unwrap_or("the engine has no statistics\n");
                listener.stats(self.round.engine.name(), text);
            }
            return Ok(());
        }
        if let TaskKind::Open | TaskKind::Recover = task.kind {
            self.close()?;
        }
        if task.kind == TaskKind::Recover {
            self.leave_unclosed(sample.position)?;
        }
        if task.sync && !task.fresh {
            self.sync_earlier_writes()?;
        }
        (self.round.settle_memory)();
        sample.memory_limit_bytes = self.tighten(&prepared);
        let (lsm, cpu) = (self.lsm(), host::cpu_seconds_split());
        host::reset_peak();
        let mapped = self.mapped_so_far();
        let moment = Moment::now();
        let idle = IdleWatch::start();
        let every_ms = self.round.config.space_every_ms;
        let space = SpaceWatch::start(self.round.engine_dir.store(), every_ms);
        let start = Instant::now();
        let outcome = self.measured(task, &prepared, sample)?;
        let elapsed = outcome.wall.unwrap_or_else(|| start.elapsed());
        sample.space = space.and_then(SpaceWatch::finish);
        sample.idle = idle.finish();
        let used = moment.used().with_mapped(self.mapped_so_far() - mapped);
        sample.used = Some(used.without_cpu(watch_cpu_seconds(sample)));
        sample.lsm = self.lsm().zip(lsm).map(|(now, before)| now.since(&before));
        if let (Some(before), Some(now)) = (cpu, host::cpu_seconds_split()) {
            sample.user_cpu_seconds = Some(now.0 - before.0);
            sample.system_cpu_seconds = Some(now.1 - before.1);
        }
        let peak = host::memory().peak_bytes;
        let own = self.baseline_bytes + prepared.memory_bytes();
        sample.peak_memory_bytes = peak.map(|peak| peak.saturating_sub(own));
        self.note(task, &prepared, outcome, elapsed, sample);
        self.check_recovered(task, sample)?;
        self.check_accounts(task, sample)
    }

    /// Expects new accounts after a task that writes them, and none after another writing task.
    fn begin_accounts(&mut self, task: &TaskSpec) {
        if task.kind == TaskKind::FillAccounts {
            self.accounts = Accounts::new(self.round.data, self.generation);
            self.oracle = Oracle::unknown(self.round.data);
        } else if !task.uses_accounts()
            && (task.fresh || task.writes() || task.kind == TaskKind::ReadWhileWriting)
        {
            self.accounts = None;
        }
    }

    /// Compares every account of the store after a task that wrote accounts.
    fn check_accounts(&mut self, task: &TaskSpec, sample: &mut TaskSample) -> Result<()> {
        let (Some(accounts), Some(target)) = (&self.accounts, &self.target) else { return Ok(()) };
        if !task.uses_accounts() || !task.writes() || sample.error.is_some() {
            return Ok(());
        }
        let moment = Moment::now();
        let wrong = accounts.wrong_in(target.as_ref(), self.round.data)?;
        self.checks.add(&moment);
        if let Some(wrong) = wrong {
            sample.wrong += wrong.count;
            sample.error = Some(format!(
                "{} of {} accounts are wrong: {}",
                wrong.count,
                accounts.count(),
                wrong.description
            ));
        }
        Ok(())
    }

    fn not_available(&self, sample: &mut TaskSample, reason: &str) -> Result<()> {
        sample.not_available = true;
        sample.error = Some(reason.into());
        Ok(())
    }

    fn plan(&self, position: usize) -> Plan<'_> {
        let Round { config, data, repetition, .. } = *self.round;
        let at = (repetition, position);
        let plan = plan_of(config, data, &self.oracle, at, self.generation);
        Plan { accounts: self.accounts.as_ref(), ..plan }
    }

    fn measured(
        &mut self,
        task: &TaskSpec,
        prepared: &Prepared,
        sample: &TaskSample,
    ) -> Result<Outcome> {
        let config = self.round.config;
        let total: usize = prepared.lists.iter().map(OpList::len).sum();
        let title = format!("[{}] {:10} {}", sample.repetition + 1, sample.engine, task.name);
        let progress = Progress::new(config.progress, &title, total.max(1) as u64);
        if let TaskKind::Open | TaskKind::Recover = task.kind {
            return self.opened(prepared.lists.last());
        }
        let reads = config.reads.unwrap_or(self.round.data.rows());
        let outcome = self.run_lists(task, prepared, reads, &progress);
        progress.finish();
        outcome
    }

    /// Runs the lists of a task on the open store.
    fn run_lists(
        &self,
        task: &TaskSpec,
        prepared: &Prepared,
        reads: u64,
        progress: &Progress,
    ) -> Result<Outcome> {
        let config = self.round.config;
        let target = self.target.as_deref().ok_or_else(|| LabError::engine("no store is open"))?;
        let context = Context {
            target,
            data: self.round.data,
            checked: prepared.checked,
            histogram: config.histogram,
            progress,
        };
        let amounts = Amounts {
            reads,
            seek_nexts: config.seek_nexts as usize,
            batch_keys: config.batch_size,
            rest: Duration::from_millis(config.rest_ms),
        };
        run_threads(task, &context, prepared, (amounts, self.accounts.as_ref()))
    }

    fn note(
        &mut self,
        task: &TaskSpec,
        prepared: &Prepared,
        outcome: Outcome,
        elapsed: Duration,
        sample: &mut TaskSample,
    ) {
        let done = outcome.done;
        sample.operations = done.operations;
        sample.elapsed_seconds = elapsed.as_secs_f64();
        if done.operations > 0 {
            let operations = done.operations as f64;
            sample.micros_per_op = Some(done.elapsed.as_secs_f64() * 1e6 / operations);
            sample.ops_per_sec =
                Some(operations / elapsed.as_secs_f64()).filter(|speed| speed.is_finite());
        }
        sample.user_bytes = Some(done.bytes).filter(|&bytes| bytes > 0);
        sample.timeline = done.timeline;
        sample.latency = done.latencies.and_then(|latencies| latencies.summary());
        sample.kinds = done.mix.map_or_else(Vec::new, |mix| mix.samples());
        sample.transactions = done.transactions.map(|counts| TransactionSample {
            conflicts: counts.conflicts,
            attempts_max: counts.attempts_max,
            commit_nanos: counts.commit_nanos.map(|sum| sum as f64 / done.operations.max(1) as f64),
        });
        sample.queue = done.queue.and_then(|queue| {
            Some(QueueSample {
                depth: queue.depth,
                first_tenth_ops_per_sec: queue.first_tenth,
                last_tenth_ops_per_sec: queue.last_tenth,
                push: queue.pushes.summary()?,
            })
        });
        if task.writes() || task.kind == TaskKind::Recover {
            for list in &prepared.lists {
                self.apply(task, list);
            }
        }
        // What another process wrote is not among the bytes of this one.
        if task.writes() {
            sample.user_written_bytes = prepared.lists.iter().map(OpList::user_bytes).sum();
        }
        if let (Some(list), Some(written)) = (&prepared.writer, &outcome.writer) {
            self.oracle.apply(list.writes(written.operations.min(list.len() as u64) as usize));
            sample.user_written_bytes = written.bytes;
        }
        note_reads(task, prepared, (done.found, done.bytes), sample);
        sample.live_bytes = self.live_bytes();
        sample.wrong = done.wrong;
        if done.wrong > 0 {
            let first = done.first_wrong.unwrap_or_default();
            sample.error = Some(format!(
                "{} of {} operations were wrong: {first}",
                done.wrong, done.operations
            ));
        }
        if self.round.engine.capabilities().persistent {
            let amplified =
                sample.used.and_then(|used| used.write_amplification(sample.user_written_bytes));
            sample.write_amplification = amplified.map(|(ratio, _)| ratio);
            sample.write_source = amplified.map(|(_, source)| source);
            let disk = host::disk_use(&self.round.engine_dir.store());
            sample.disk_bytes = Some(disk.allocated_bytes);
            sample.disk_files = Some(disk.files);
        }
    }
}

impl Session<'_> {
    /// Expects what the operations of a list wrote.
    fn apply(&mut self, task: &TaskSpec, list: &OpList) {
        match (&mut self.accounts, task.kind) {
            (_, TaskKind::FillAccounts) => {}
            (Some(accounts), TaskKind::Transact { .. }) => accounts.transfer(&list.ids),
            (Some(accounts), TaskKind::Update | TaskKind::Merge) => accounts.increment(&list.ids),
            (_, TaskKind::Queue) => {
                self.oracle.apply(list.writes(list.len()));
                let popped = &list.ids[..list.len() - list.depth];
                self.oracle.apply(popped.iter().map(|&id| (id, ValueRef::ABSENT)));
            }
            _ => self.oracle.apply(list.writes(list.len())),
        }
    }
}
