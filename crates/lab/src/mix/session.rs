//! One round: one engine runs through the phases of a mixed workload, measured and checked.

use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use super::draw::{Drawn, apply, draw};
use super::phase::{OpKind, Phase, PhaseFile, Start};
use super::space::{KeyText, Space};
use super::state::State;
use super::work::{self, Done, Shared};
use crate::error::{LabError, Result};
use crate::measure::clock::Clock;
use crate::measure::counters::Moment;
use crate::measure::histogram::Latencies;
use crate::measure::host;
use crate::measure::idle::IdleWatch;
use crate::measure::limit::MemoryLimit;
use crate::measure::quiet::{self, Quiet};
use crate::measure::space::SpaceWatch;
use crate::record::schema::{KindSample, SessionRecord, TaskSample};
use crate::run::engine_dir::EngineDir;
use crate::run::progress::Progress;
use crate::run::reads::{read_amplification, watch_cpu_seconds};
use crate::run::session::{Listener, keep, note_close};
use crate::target::{Engine, StoreOptions, Target};
use crate::workload::rng::{mix, mix_bytes};

/// Input of a round: one engine runs all phases once.
pub struct MixRound<'a> {
    /// Engine to run.
    pub engine: &'a dyn Engine,
    /// Options for opening the store.
    pub store: &'a StoreOptions,
    /// Form of the records.
    pub space: &'a Space,
    /// Phases in order.
    pub phases: &'a [Phase],
    /// Number of records of a filled store.
    pub entries: u64,
    /// Default number of threads of a phase.
    pub threads: usize,
    /// Seed of the benchmark.
    pub seed: u64,
    /// Directory of the store.
    pub engine_dir: &'a EngineDir,
    /// Repetition, from 0.
    pub repetition: usize,
    /// Number of the round in the benchmark, from 0.
    pub number: usize,
    /// Whether live progress lines are shown.
    pub progress: bool,
    /// Interval in which a phase's bytes on disk are sampled, in milliseconds; 0: never.
    pub space_every_ms: u64,
    /// Returns freed memory to the operating system.
    pub settle_memory: &'a dyn Fn(),
    /// Active memory limit; the lab's own lists are added to it.
    pub limit: Option<&'a MemoryLimit>,
}

struct Session<'a> {
    round: &'a MixRound<'a>,
    target: Option<Box<dyn Target>>,
    state: State,
    baseline_bytes: u64,
    mapped_bytes: u64,
    /// Bytes written by the user before the clock starts, to fill a store.
    filled_bytes: u64,
    clock: Clock,
}

/// Runs all phases. An engine's error ends the round; the samples measured before it are returned.
pub fn run(round: &MixRound<'_>, listener: &mut dyn Listener) -> (Vec<TaskSample>, SessionRecord) {
    let start = Instant::now();
    let state = State::empty(round.space.fields());
    let baseline_bytes = host::memory().resident_bytes.unwrap_or(0);
    let (mapped_bytes, filled_bytes) = (0, 0);
    let clock = Clock::new();
    let mut session =
        Session { round, target: None, state, baseline_bytes, mapped_bytes, filled_bytes, clock };
    let moment = Moment::now();
    let mut samples: Vec<TaskSample> = Vec::new();
    for (position, phase) in round.phases.iter().enumerate() {
        let mut sample =
            TaskSample::new(round.engine.name(), &phase.name, position, round.repetition);
        sample.hidden = phase.hidden;
        let result = session.phase(phase, &mut sample);
        if !keep(sample, result, listener, &mut samples) {
            break;
        }
    }
    session.quiet(&moment, &mut samples);
    let phases_used = moment.used();
    let checked = Moment::now();
    if let Some(last) = samples.last_mut().filter(|sample| sample.error.is_none()) {
        last.error = session.content().unwrap_or_else(|error| Some(error.to_string()));
    }
    let check_cpu_seconds = checked.used().cpu_seconds;
    note_close(session.close(), &mut samples);
    let mut used = moment.used().with_mapped(session.mapped_bytes);
    used.cpu_seconds -= check_cpu_seconds + samples.iter().map(watch_cpu_seconds).sum::<f64>();
    let written: u64 = samples.iter().map(|sample| sample.user_written_bytes).sum();
    let user_written_bytes = written + session.filled_bytes;
    let amplified = used.write_amplification(user_written_bytes);
    let persistent = round.engine.capabilities().persistent;
    let record = SessionRecord {
        engine: round.engine.name().into(),
        repetition: round.repetition,
        round: round.number,
        elapsed_seconds: start.elapsed().as_secs_f64(),
        used: Some(used),
        user_written_bytes,
        write_amplification: amplified.filter(|_| persistent).map(|(ratio, _)| ratio),
        read_amplification: read_amplification(&phases_used, &samples),
        data_bytes: Some(round.space.data_bytes(round.entries)),
        memory_limit: None,
    };
    (samples, record)
}

impl Session<'_> {
    fn close(&mut self) -> Result<()> {
        self.mapped_bytes = self.mapped_so_far();
        self.target.take().map_or(Ok(()), |target| target.close())
    }

    /// Waits until the store is quiet and records the cost in the last sample.
    fn quiet(&self, since: &Moment, samples: &mut [TaskSample]) {
        let written: u64 = samples.iter().map(|sample| sample.user_written_bytes).sum();
        let (Some(target), Some(last)) = (&self.target, samples.last_mut()) else { return };
        if last.error.is_some() || !self.round.engine.capabilities().persistent {
            return;
        }
        let waited = quiet::wait(target.as_ref());
        let used = since.used().with_mapped(self.mapped_so_far());
        let amplified = used.write_amplification(written + self.filled_bytes);
        let amplified = amplified.map(|(ratio, _)| ratio);
        let store_dir = self.round.engine_dir.store();
        last.quiet = Some(Quiet::found(waited, amplified, self.live_bytes(), &store_dir));
    }

    /// Returns the bytes of the live pairs, estimated from their mean.
    fn live_bytes(&self) -> f64 {
        self.state.live().1 as f64 * self.round.space.pair_bytes_mean()
    }

    /// Checks the store's content at the end; returns a sentence about the mistake, if any.
    fn content(&self) -> Result<Option<String>> {
        let Some(target) = &self.target else { return Ok(None) };
        content(target.as_ref(), self.round.space, &self.state)
    }

    fn mapped_so_far(&self) -> u64 {
        self.mapped_bytes + self.target.as_ref().map_or(0, |target| target.mapped_write_bytes())
    }

    fn open(&mut self) -> Result<()> {
        if self.target.is_none() {
            let store_dir = self.round.engine_dir.store();
            self.target = Some(self.round.engine.open(&store_dir, self.round.store)?);
        }
        Ok(())
    }

    /// Prepares the store for the phase's start.
    fn begin(&mut self, start: Start, position: usize) -> Result<()> {
        if start != Start::Kept {
            self.close()?;
            self.round.engine_dir.empty()?;
            self.state.clear();
        }
        self.open()?;
        if start == Start::Filled {
            let file =
                PhaseFile { update: 1.0, keys: Some("sequential".into()), ..Default::default() };
            let fill = file.phase("fill").map_err(LabError::engine)?;
            let drawn = self.draw(&fill, position, 1);
            let done = self.timed(&fill, &drawn, &Progress::new(false, "", 1))?.0;
            self.filled_bytes += done.written_bytes;
            self.finish(&fill, &drawn);
        }
        Ok(())
    }

    fn draw(&self, phase: &Phase, position: usize, threads: usize) -> Drawn {
        let part = ((self.round.repetition as u64) << 32) | position as u64;
        let seed = mix(self.round.seed ^ mix(part));
        draw(phase, self.round.space, &self.state, self.round.entries, threads, seed)
    }

    fn finish(&mut self, phase: &Phase, drawn: &Drawn) {
        self.state.grow(drawn.records);
        apply(phase, drawn, &mut self.state);
        if phase.writes() {
            self.state.advance();
        }
    }

    /// Adds the lab's memory to the memory limit: `own_bytes` and the expected state of the store.
    /// Returns the bytes left for engine and page cache, if the limit is in effect.
    fn spare(&self, own_bytes: u64) -> Option<u64> {
        let limit = self.round.limit?;
        limit.spare(own_bytes + self.state.memory_bytes()).then(|| limit.bytes())
    }

    fn phase(&mut self, phase: &Phase, sample: &mut TaskSample) -> Result<()> {
        self.begin(phase.start, sample.position)?;
        // Rough estimate: a drawn operation takes about eight bytes.
        self.spare(self.round.entries * 32);
        let drawn = self.draw(phase, sample.position, self.round.threads);
        let title = format!("[{}] {:10} {}", sample.repetition + 1, sample.engine, phase.name);
        let progress = Progress::new(self.round.progress, &title, drawn.operations().max(1));
        (self.round.settle_memory)();
        sample.memory_limit_bytes = self.spare(drawn.memory_bytes());
        host::reset_peak();
        let mapped = self.mapped_so_far();
        let moment = Moment::now();
        let idle = IdleWatch::start();
        let every_ms = self.round.space_every_ms;
        let space = SpaceWatch::start(self.round.engine_dir.store(), every_ms);
        let (done, wall) = self.timed(phase, &drawn, &progress)?;
        progress.finish();
        sample.space = space.and_then(SpaceWatch::finish);
        sample.idle = idle.finish();
        let used = moment.used().with_mapped(self.mapped_so_far() - mapped);
        sample.used = Some(used.without_cpu(watch_cpu_seconds(sample)));
        let peak = host::memory().peak_bytes;
        let own = self.baseline_bytes + drawn.memory_bytes() + self.state.memory_bytes();
        sample.peak_memory_bytes = peak.map(|peak| peak.saturating_sub(own));
        self.note(phase, done, wall, sample);
        self.finish(phase, &drawn);
        sample.live_bytes = Some(self.live_bytes() as u64);
        Ok(())
    }

    /// Runs all threads from a common start. The wall time is that of the slowest thread.
    fn timed(&self, phase: &Phase, drawn: &Drawn, progress: &Progress) -> Result<(Done, f64)> {
        let target = self.target.as_deref().ok_or_else(|| LabError::engine("no store is open"))?;
        let threads = drawn.threads.len();
        let shared = Shared {
            target,
            space: self.round.space,
            state: &self.state,
            phase,
            threads,
            progress,
            clock: &self.clock,
        };
        let paced = phase.writes_per_second.is_some();
        let writers = phase.writers.unwrap_or(0).min(threads);
        let running = AtomicUsize::new(writers);
        let pace = |thread: usize| match phase.writes_per_second {
            Some(rate) if thread < writers => {
                work::Pace { rate: Some(rate / writers as f64), until_zero: None }
            }
            Some(_) => work::Pace { rate: None, until_zero: Some(&running) },
            None => {
                let rate = phase.rate.map(|rate| rate / threads as f64);
                work::Pace { rate, until_zero: None }
            }
        };
        let barrier = Barrier::new(threads + 1);
        std::thread::scope(|scope| {
            let spawned: Vec<_> = drawn
                .threads
                .iter()
                .enumerate()
                .map(|(thread, list)| {
                    let (shared, barrier, running) = (&shared, &barrier, &running);
                    let pace = pace(thread);
                    scope.spawn(move || {
                        // Also after an error or a panic, so that the readers end.
                        let _ends = (paced && thread < writers).then(|| Ends(running));
                        barrier.wait();
                        work::run(shared, list, pace)
                    })
                })
                .collect();
            barrier.wait();
            let results: Vec<_> = spawned.into_iter().map(|thread| thread.join()).collect();
            let mut done = Done::default();
            for result in results {
                let crashed = |_| LabError::engine("a thread of the phase panicked");
                done.merge(result.map_err(crashed)??);
            }
            let wall = done.longest.as_secs_f64();
            Ok((done, wall))
        })
    }

    fn note(&self, phase: &Phase, done: Done, wall: f64, sample: &mut TaskSample) {
        sample.operations = done.operations;
        sample.elapsed_seconds = wall;
        if done.operations > 0 && wall > 0.0 {
            let operations = done.operations as f64;
            sample.micros_per_op = Some(done.elapsed.as_secs_f64() * 1e6 / operations);
            sample.ops_per_sec = Some(operations / wall);
        }
        sample.rate_per_second = phase.rate.or(phase.writes_per_second);
        sample.user_written_bytes = done.written_bytes;
        sample.user_read_bytes = done.read_bytes;
        let bytes = done.written_bytes + done.read_bytes;
        sample.user_bytes = Some(bytes).filter(|&bytes| bytes > 0);
        let reads = phase
            .shares
            .iter()
            .any(|(kind, _)| !matches!(kind, OpKind::Update | OpKind::Insert | OpKind::Delete));
        sample.found = reads.then_some(done.found);
        sample.wrong = done.wrong;
        if done.wrong > 0 {
            let first = done.first_wrong.unwrap_or_default();
            sample.error = Some(format!(
                "{} of {} operations were wrong: {first}",
                done.wrong, done.operations
            ));
        }
        let mut all = Latencies::new();
        for (kind, _) in &phase.shares {
            let latencies = &done.kinds[*kind as usize];
            all.merge(latencies);
            if let Some(latency) = latencies.summary() {
                let ok = done.ok[*kind as usize];
                sample.kinds.push(KindSample { kind: kind.name().into(), ok, latency });
            }
        }
        sample.latency = all.summary();
        sample.timeline = Some(done.timeline);
        if self.round.engine.capabilities().persistent {
            let used = sample.used;
            let amplified = used.and_then(|u| u.write_amplification(sample.user_written_bytes));
            sample.write_amplification = amplified.map(|(ratio, _)| ratio);
            sample.write_source = amplified.map(|(_, source)| source);
            let disk = host::disk_use(&self.round.engine_dir.store());
            sample.disk_bytes = Some(disk.allocated_bytes);
            sample.disk_files = Some(disk.files);
        }
    }
}

/// A running writer; its end counts down.
struct Ends<'a>(&'a AtomicUsize);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Returns the cost per operation in nanoseconds without an engine: first in the measured time
/// (reading the clock, passing the prepared key and value, counting), then for preparation while
/// the clock is stopped.
pub fn harness_nanos(space: &Space, phase: &Phase) -> (f64, f64) {
    const OPERATIONS: u64 = 300_000;
    let mut state = State::empty(space.fields());
    let drawn = draw(phase, space, &state, OPERATIONS, 1, 1);
    state.grow(drawn.records);
    let progress = Progress::new(false, "", 1);
    let target = &Nothing;
    let clock = &Clock::new();
    let progress = &progress;
    let shared = Shared { target, space, state: &state, phase, threads: 1, progress, clock };
    let Some(list) = drawn.threads.first() else { return (0.0, 0.0) };
    let each = |time: std::time::Duration| time.as_nanos() as f64 / list.len().max(1) as f64;
    let runs = (0..5).filter_map(|_| work::run(&shared, list, work::Pace::default()).ok());
    let costs = runs.map(|done| (each(done.elapsed), each(done.prepared)));
    costs
        .fold((f64::INFINITY, f64::INFINITY), |best, cost| (best.0.min(cost.0), best.1.min(cost.1)))
}

/// A store that does nothing.
struct Nothing;

impl Target for Nothing {
    fn put(&self, key: &[u8], value: &[u8], _: bool) -> Result<()> {
        std::hint::black_box((key.first(), value.first()));
        Ok(())
    }
    fn delete(&self, _: &[u8]) -> Result<()> {
        Ok(())
    }
    fn get(&self, key: &[u8], _: &mut dyn FnMut(&[u8])) -> Result<bool> {
        std::hint::black_box(key.first());
        Ok(false)
    }
    fn seek(&self, _: &[u8], _: &mut dyn FnMut(&[u8], &[u8])) -> Result<bool> {
        Ok(false)
    }
    fn scan(&self, _: crate::target::Direction, _: crate::target::VisitPair<'_>) -> Result<()> {
        Ok(())
    }
    fn scan_from(&self, _: &[u8], _: crate::target::VisitPair<'_>) -> Result<()> {
        Ok(())
    }
    fn compact(&self) -> Result<()> {
        Ok(())
    }
    fn stats(&self) -> Option<String> {
        None
    }
    fn close(self: Box<Self>) -> Result<()> {
        Ok(())
    }
}

/// Compares the store's content with the expected content: order of the keys, number of pairs, and
/// an order-independent sum over them. Not part of any measured time.
pub fn content(target: &dyn Target, space: &Space, state: &State) -> Result<Option<String>> {
    let (sure, expected) = state.live();
    let (mut found, mut sum, mut ordered) = (0u64, 0u64, true);
    let mut last: Vec<u8> = Vec::new();
    target.scan_from(b"", &mut |key, value| {
        ordered &= found == 0 || key > &last[..];
        last.clear();
        last.extend_from_slice(key);
        found += 1;
        sum = sum.wrapping_add(pair_sum(key, value));
        true
    })?;
    if !ordered {
        return Ok(Some("the store's keys are not in order".into()));
    }
    if !sure {
        return Ok(None);
    }
    if found != expected {
        return Ok(Some(format!("found {found} pairs in the store, expected {expected}")));
    }
    let (mut text, mut buffer, mut wanted) = (KeyText::default(), Vec::new(), 0u64);
    for record in 0..state.records as u32 {
        if state.version(record, 0) == super::state::ABSENT {
            continue;
        }
        let key = space.key(record, &mut text);
        let value = space.value(record, &mut |field| state.version(record, field), &mut buffer);
        wanted = wanted.wrapping_add(pair_sum(key, value));
    }
    let differs = sum != wanted;
    Ok(differs.then(|| format!("expected the content checksum {wanted:016x}, found {sum:016x}")))
}

fn pair_sum(key: &[u8], value: &[u8]) -> u64 {
    let of = |bytes: &[u8]| mix_bytes(bytes.len() as u64, bytes);
    mix(of(key) ^ of(value).rotate_left(17))
}
