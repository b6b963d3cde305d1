//! The timed loop of a phase: calls the engine and checks its results.
//!
//! Keys and values of the next batch of operations are generated while the clock is stopped. With
//! an arrival rate the clock cannot be stopped, so each operation is prepared before its arrival.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use super::draw::Op;
use super::phase::{OpKind, Phase};
use super::prepared::{CHUNK_OPERATIONS, Prepared};
use super::space::Space;
use super::state::{ABSENT, State, UNSURE};
use crate::error::Result;
use crate::measure::clock::{Clock, Reading};
use crate::measure::histogram::Latencies;
use crate::measure::timeline::Timeline;
use crate::run::progress::{Progress, TICK_OPERATIONS};
use crate::target::Target;

/// Data shared by all threads of a phase.
pub struct Shared<'a> {
    /// The open store.
    pub target: &'a dyn Target,
    /// Form of the records.
    pub space: &'a Space,
    /// Expected content of the store before the phase.
    pub state: &'a State,
    /// Phase to run.
    pub phase: &'a Phase,
    /// Number of threads of the phase.
    pub threads: usize,
    /// Progress line.
    pub progress: &'a Progress,
    /// Clock for single operations.
    pub clock: &'a Clock,
}

/// Number of operation kinds.
pub const KINDS: usize = 7;

/// Result of one thread.
#[derive(Debug)]
pub struct Done {
    /// Latencies of the operations, by kind.
    pub kinds: [Latencies; KINDS],
    /// Operations that found their record or needed none, by kind.
    pub ok: [u64; KINDS],
    /// Completed operations over time.
    pub timeline: Timeline,
    /// Number of completed operations.
    pub operations: u64,
    /// Time of the thread; after a merge, the sum over all threads.
    pub elapsed: Duration,
    /// Time of the slowest thread.
    pub longest: Duration,
    /// Time for preparing keys and values, not part of the other times.
    pub prepared: Duration,
    /// Number of keys found by reads, and of pairs seen by scans.
    pub found: u64,
    /// Bytes of keys and values read.
    pub read_bytes: u64,
    /// Bytes of keys and values written.
    pub written_bytes: u64,
    /// Number of reads with a result different from the written data.
    pub wrong: u64,
    /// Description of the first wrong read.
    pub first_wrong: Option<String>,
}

impl Default for Done {
    fn default() -> Done {
        Done {
            kinds: std::array::from_fn(|_| Latencies::new()),
            ok: [0; KINDS],
            timeline: Timeline::default(),
            operations: 0,
            elapsed: Duration::ZERO,
            longest: Duration::ZERO,
            prepared: Duration::ZERO,
            found: 0,
            read_bytes: 0,
            written_bytes: 0,
            wrong: 0,
            first_wrong: None,
        }
    }
}

impl Done {
    /// Adds the result of another thread.
    pub fn merge(&mut self, other: Done) {
        for (mine, theirs) in self.kinds.iter_mut().zip(&other.kinds) {
            mine.merge(theirs);
        }
        for (mine, theirs) in self.ok.iter_mut().zip(other.ok) {
            *mine += theirs;
        }
        self.timeline.merge(&other.timeline);
        self.operations += other.operations;
        self.elapsed += other.elapsed;
        self.longest = self.longest.max(other.longest);
        self.prepared += other.prepared;
        self.found += other.found;
        self.read_bytes += other.read_bytes;
        self.written_bytes += other.written_bytes;
        self.wrong += other.wrong;
        self.first_wrong = self.first_wrong.take().or(other.first_wrong);
    }

    fn mistake(&mut self, describe: impl FnOnce() -> String) {
        self.wrong += 1;
        if self.first_wrong.is_none() {
            self.first_wrong = Some(describe());
        }
    }
}

/// Buffers reused by a thread.
#[derive(Default)]
struct Buffers {
    value: Vec<u8>,
    old: Vec<u8>,
    last_key: Vec<u8>,
}

/// When the operations of a list begin and end.
#[derive(Clone, Copy, Default)]
pub struct Pace<'a> {
    /// Operation `i` arrives at `i / rate` seconds, and its latency counts from its arrival, even if
    /// the previous operation is late. Default: each operation begins when the previous one ended.
    pub rate: Option<f64>,
    /// The list is repeated until this number of running writers is 0. Default: once.
    pub until_zero: Option<&'a AtomicUsize>,
}

/// Executes the operations of one list.
pub fn run(shared: &Shared<'_>, list: &[Op], pace: Pace<'_>) -> Result<Done> {
    let rate = pace.rate;
    let mut done = Done::default();
    let (mut buffers, mut prepared) = (Buffers::default(), Prepared::default());
    let interval = rate.map(|rate| 1e9 / rate);
    let (clock, version) = (shared.clock, shared.state.next_version);
    let start = clock.now();
    // Nanoseconds since the start with the clock running, and with the clock stopped.
    let (mut last, mut stood) = (0, 0);
    let chunk_len = if interval.is_some() { 1 } else { CHUNK_OPERATIONS };
    let goes_on = || pace.until_zero.is_some_and(|running| running.load(Ordering::Relaxed) > 0);
    let rounds = std::iter::once(()).chain(std::iter::from_fn(|| goes_on().then_some(())));
    let parts = rounds.flat_map(|()| list.chunks(chunk_len));
    for (place, part) in parts.enumerate() {
        if pace.until_zero.is_some() && !goes_on() {
            break;
        }
        prepared.fill(part, shared.space, shared.phase, version);
        if let Some(interval) = interval {
            last = (place as f64 * interval) as u64;
            wait_until(clock, start, last);
        } else {
            stood = clock.nanos(start, clock.now()).saturating_sub(last);
        }
        for (index, op) in part.iter().enumerate() {
            let ok = one(shared, op, prepared.pair(index), &mut buffers, &mut done)?;
            let now = clock.nanos(start, clock.now()).saturating_sub(stood);
            let kind = op.kind as usize;
            done.kinds[kind].record(now.saturating_sub(last));
            done.ok[kind] += u64::from(ok);
            done.timeline.record(now);
            last = now;
        }
        if (place + 1) * chunk_len % TICK_OPERATIONS == 0 {
            shared.progress.add(TICK_OPERATIONS as u64);
        }
        done.operations += part.len() as u64;
    }
    done.elapsed = Duration::from_nanos(last);
    done.longest = done.elapsed;
    done.prepared = Duration::from_nanos(stood);
    Ok(done)
}

/// Sleeps until shortly before the due time, then spins.
fn wait_until(clock: &Clock, start: Reading, due_nanos: u64) {
    const SPIN_NANOS: u64 = 200_000;
    loop {
        let now = clock.nanos(start, clock.now());
        if now >= due_nanos {
            return;
        }
        if due_nanos - now > SPIN_NANOS {
            std::thread::sleep(Duration::from_nanos(due_nanos - now - SPIN_NANOS));
        } else {
            std::hint::spin_loop();
        }
    }
}

/// A key and the whole value to write.
type Pair<'a> = (&'a [u8], &'a [u8]);

#[inline]
fn one(
    shared: &Shared<'_>,
    op: &Op,
    (key, value): Pair<'_>,
    buffers: &mut Buffers,
    done: &mut Done,
) -> Result<bool> {
    match op.kind {
        OpKind::Read => read(shared, op, key, buffers, done, false),
        OpKind::Insert => write(shared, (key, value), done),
        OpKind::Update if shared.phase.write_all_fields => write(shared, (key, value), done),
        OpKind::Update => change(shared, op, key, buffers, done),
        OpKind::ReadModifyWrite => {
            let found = read(shared, op, key, buffers, done, !shared.phase.write_all_fields)?;
            if shared.phase.write_all_fields {
                write(shared, (key, value), done)?;
            } else if found {
                put_changed(shared, op, key, buffers, done)?;
            }
            Ok(found)
        }
        OpKind::Scan => scan(shared, op, key, buffers, done),
        OpKind::Seek => {
            let mut fits = true;
            let found = shared.target.seek(key, &mut |at, _| fits = at >= key)?;
            done.found += u64::from(found);
            if !fits {
                done.mistake(|| {
                    format!("a seek to {} returned an earlier key", key.escape_ascii())
                });
            }
            Ok(true)
        }
        OpKind::Delete => {
            done.written_bytes += key.len() as u64;
            shared.target.delete(key)?;
            Ok(true)
        }
    }
}

#[inline]
fn write(shared: &Shared<'_>, (key, value): Pair<'_>, done: &mut Done) -> Result<bool> {
    done.written_bytes += (key.len() + value.len()) as u64;
    shared.target.put(key, value, false)?;
    Ok(true)
}

/// Gets a record and checks it; with `keep`, its value stays in `buffers.old`.
fn read(
    shared: &Shared<'_>,
    op: &Op,
    key: &[u8],
    buffers: &mut Buffers,
    done: &mut Done,
    keep: bool,
) -> Result<bool> {
    let old = &mut buffers.old;
    let (mut right, mut bytes) = (false, 0);
    let only = (!shared.phase.read_all_fields).then_some(usize::from(op.field));
    let found = shared.target.get(key, &mut |value| {
        right = fits(shared, op, value, only);
        bytes = value.len();
        if keep {
            old.clear();
            old.extend_from_slice(value);
        }
    })?;
    done.found += u64::from(found);
    done.read_bytes += (key.len() + bytes) as u64;
    if found && !right {
        done.mistake(|| format!("key {} has a value that was not written", key.escape_ascii()));
    } else if !found && !may_be_absent(shared, op) {
        done.mistake(|| format!("key {} was not found", key.escape_ascii()));
    }
    Ok(found)
}

fn fits(shared: &Shared<'_>, op: &Op, value: &[u8], only: Option<usize>) -> bool {
    let written = shared.state.next_version;
    let writes = shared.phase.writes();
    shared.space.check(op.record, value, only, &|field, fits| match shared
        .state
        .version(op.record, field)
    {
        ABSENT => writes && fits(written),
        UNSURE => (1..=written).any(fits),
        version => fits(version) || (writes && fits(written)),
    })
}

fn may_be_absent(shared: &Shared<'_>, op: &Op) -> bool {
    let before = shared.state.version(op.record, 0);
    before == ABSENT || before == UNSURE || shared.phase.share(OpKind::Delete) > 0.0
}

/// Replaces one field with a read and a write, as YCSB-cpp does if a record is one value.
fn change(
    shared: &Shared<'_>,
    op: &Op,
    key: &[u8],
    buffers: &mut Buffers,
    done: &mut Done,
) -> Result<bool> {
    let found = read(shared, op, key, buffers, done, true)?;
    if found {
        put_changed(shared, op, key, buffers, done)?;
    }
    Ok(found)
}

fn put_changed(
    shared: &Shared<'_>,
    op: &Op,
    key: &[u8],
    buffers: &mut Buffers,
    done: &mut Done,
) -> Result<()> {
    let Buffers { value, old, .. } = buffers;
    let version = shared.state.next_version;
    shared.space.replace(op.record, old, usize::from(op.field), version, value);
    done.written_bytes += (key.len() + value.len()) as u64;
    shared.target.put(key, value, false)
}

fn scan(
    shared: &Shared<'_>,
    op: &Op,
    key: &[u8],
    buffers: &mut Buffers,
    done: &mut Done,
) -> Result<bool> {
    let last_key = &mut buffers.last_key;
    last_key.clear();
    last_key.extend_from_slice(key);
    let (mut seen, mut bytes, mut ordered) = (0u16, 0u64, true);
    shared.target.scan_from(key, &mut |at, value| {
        ordered &= if seen == 0 { at >= key } else { at > &last_key[..] };
        last_key.clear();
        last_key.extend_from_slice(at);
        bytes += (at.len() + value.len()) as u64;
        seen += 1;
        seen < op.length
    })?;
    done.found += u64::from(seen);
    done.read_bytes += bytes;
    if !ordered {
        done.mistake(|| format!("a scan from {} returned keys out of order", key.escape_ascii()));
    }
    Ok(seen > 0)
}
