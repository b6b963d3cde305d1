//! Replays a trace on an engine: the pairs that the trace expects are loaded, and the operations
//! run one after another, as fast as the engine answers.
//!
//! Every get is checked: a key must be found with a value of its expected length, or be missing. In
//! a sampled trace and in one of several threads, the operations of one key keep their order.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use super::format::{Trace, TraceKey, TraceLine, TraceOp};
use crate::error::Result;
use crate::measure::clock::Clock;
use crate::measure::counters::Moment;
use crate::measure::histogram::Latencies;
use crate::measure::host;
use crate::record::schema::TaskSample;
use crate::target::{Engine, StoreOptions, Target};
use crate::workload::values::ValuePool;

/// Name of the workload in records.
pub const TASK: &str = "trace";

/// Counts over a trace.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TraceSummary {
    /// Gets that found their key.
    pub gets: u64,
    /// Gets of missing keys.
    pub misses: u64,
    /// Puts.
    pub puts: u64,
    /// Deletes.
    pub deletes: u64,
    /// Scans.
    pub scans: u64,
    /// Pairs that the scans read.
    pub scanned_pairs: u64,
    /// Distinct keys.
    pub keys: u64,
    /// Keys that a replay loads before its operations.
    pub loaded_keys: u64,
    /// Operations on the hundredth of the keys with the most operations.
    pub hot_operations: u64,
    /// Bytes of the values of all puts.
    pub written_bytes: u64,
    /// Time from the first to the last operation, in microseconds.
    pub micros: u64,
}

impl TraceSummary {
    /// Counts the operations of a trace.
    pub fn of(trace: &Trace) -> TraceSummary {
        let mut own = TraceSummary::default();
        let mut keys: BTreeMap<&TraceKey, u64> = BTreeMap::new();
        for line in &trace.lines {
            *keys.entry(&line.key).or_default() += 1;
            match line.op {
                TraceOp::Get(Some(_)) => own.gets += 1,
                TraceOp::Get(None) => own.misses += 1,
                TraceOp::Put(bytes) => {
                    own.puts += 1;
                    own.written_bytes += u64::from(bytes);
                }
                TraceOp::Delete => own.deletes += 1,
                TraceOp::Scan(pairs) => {
                    own.scans += 1;
                    own.scanned_pairs += u64::from(pairs);
                }
            }
        }
        own.keys = keys.len() as u64;
        own.loaded_keys = loaded(&trace.lines).len() as u64;
        let mut counts: Vec<u64> = keys.into_values().collect();
        counts.sort_unstable_by(|a, b| b.cmp(a));
        own.hot_operations = counts.iter().take(counts.len().div_ceil(100)).sum();
        let ends = trace.lines.first().zip(trace.lines.last());
        own.micros = ends.map_or(0, |(first, last)| last.at_micros.saturating_sub(first.at_micros));
        own
    }

    /// Returns the share of writes among all operations.
    pub fn write_share(&self) -> f64 {
        let writes = self.puts + self.deletes;
        let all = writes + self.gets + self.misses + self.scans;
        writes as f64 / all.max(1) as f64
    }
}

/// Returns the keys that must be in the store before the first operation, with the lengths of their
/// values: those whose first get or put is a get that found them.
fn loaded(lines: &[TraceLine]) -> BTreeMap<&TraceKey, u32> {
    let mut first: BTreeMap<&TraceKey, Option<u32>> = BTreeMap::new();
    for line in lines {
        let found = match line.op {
            TraceOp::Get(found) => found,
            TraceOp::Put(_) | TraceOp::Delete => None,
            TraceOp::Scan(_) => continue,
        };
        first.entry(&line.key).or_insert(found);
    }
    first.into_iter().filter_map(|(key, found)| Some((key, found?))).collect()
}

/// Data of the replay that is made before the clock starts.
struct Values {
    pool: ValuePool,
}

impl Values {
    fn of(lines: &[TraceLine], seed: u64, ratio: f64) -> Values {
        let length = |line: &TraceLine| match line.op {
            TraceOp::Get(Some(bytes)) | TraceOp::Put(bytes) => bytes,
            _ => 0,
        };
        let most = lines.iter().map(length).max().unwrap_or(0) as usize;
        Values { pool: ValuePool::generate(seed, ratio, most.max(1)) }
    }

    fn get(&self, name: u64, length: u32) -> &[u8] {
        let value = self.pool.cut(name, 0, length as usize);
        value.map_or(&[], |value| self.pool.get(value))
    }
}

/// Replays the first `share` of a trace in the store at `dir`. `seed` and `ratio` make the values.
/// An engine's error and a wrong result are in the sample.
pub fn run(
    engine: &dyn Engine,
    dir: &Path,
    store: &StoreOptions,
    trace: &Trace,
    (share, seed, ratio): (f64, u64, f64),
) -> TaskSample {
    let count = ((trace.lines.len() as f64 * share) as usize).clamp(1, trace.lines.len().max(1));
    let lines = &trace.lines[..count.min(trace.lines.len())];
    let mut sample = TaskSample::new(engine.name(), TASK, 0, 0);
    let values = Values::of(lines, seed, ratio);
    let before = host::memory().resident_bytes.unwrap_or(0);
    let replayed = engine.open(dir, store).and_then(|target| {
        load(target.as_ref(), lines, &values)?;
        let mapped = target.mapped_write_bytes();
        timed(target.as_ref(), lines, &values, &mut sample)?;
        let peak = host::memory().peak_bytes;
        sample.peak_memory_bytes = peak.map(|peak| peak.saturating_sub(before));
        if engine.capabilities().persistent {
            let mapped = target.mapped_write_bytes().saturating_sub(mapped);
            let used = sample.used.map(|used| used.with_mapped(mapped));
            let amplified = used.and_then(|u| u.write_amplification(sample.user_written_bytes));
            sample.write_amplification = amplified.map(|(ratio, _)| ratio);
            sample.disk_bytes = Some(host::disk_use(dir).allocated_bytes);
        }
        target.close()
    });
    if let Err(error) = replayed {
        sample.error = Some(error.to_string());
    }
    sample
}

fn load(target: &dyn Target, lines: &[TraceLine], values: &Values) -> Result<()> {
    let mut key = Vec::new();
    for (number, (own, length)) in loaded(lines).into_iter().enumerate() {
        own.write_to(&mut key);
        target.put(&key, values.get(number as u64, length), false)?;
    }
    Ok(())
}

fn timed(
    target: &dyn Target,
    lines: &[TraceLine],
    values: &Values,
    sample: &mut TaskSample,
) -> Result<()> {
    let (clock, mut latencies, mut key) = (Clock::new(), Latencies::new(), Vec::new());
    host::reset_peak();
    let (moment, start) = (Moment::now(), Instant::now());
    let mut spent_nanos = 0;
    for (number, line) in lines.iter().enumerate() {
        line.key.write_to(&mut key);
        let begin = clock.now();
        let is_right = one(target, line, &key, values.get(number as u64, length_of(line.op)))?;
        let nanos = clock.nanos(begin, clock.now());
        latencies.record(nanos);
        spent_nanos += nanos;
        if let TraceOp::Put(bytes) = line.op {
            sample.user_written_bytes += (key.len() + bytes as usize) as u64;
        }
        if !is_right {
            sample.wrong += 1;
            let message = || format!("operation {} ({line}) had another result", number + 1);
            sample.error.get_or_insert_with(message);
        }
    }
    let wall = start.elapsed();
    sample.used = Some(moment.used());
    sample.operations = lines.len() as u64;
    sample.elapsed_seconds = wall.as_secs_f64();
    let seconds = Duration::from_nanos(spent_nanos).as_secs_f64();
    if seconds > 0.0 && !lines.is_empty() {
        sample.ops_per_sec = Some(lines.len() as f64 / seconds);
        sample.micros_per_op = Some(seconds * 1e6 / lines.len() as f64);
    }
    sample.latency = latencies.summary();
    Ok(())
}

fn length_of(op: TraceOp) -> u32 {
    if let TraceOp::Put(bytes) = op { bytes } else { 0 }
}

/// Executes one operation and returns whether its result is that of the trace.
fn one(target: &dyn Target, line: &TraceLine, key: &[u8], value: &[u8]) -> Result<bool> {
    match line.op {
        TraceOp::Put(_) => target.put(key, value, false).map(|()| true),
        TraceOp::Delete => target.delete(key).map(|()| true),
        TraceOp::Get(expected) => {
            let mut found = None;
            target.get(key, &mut |value| found = Some(value.len()))?;
            Ok(found == expected.map(|bytes| bytes as usize))
        }
        TraceOp::Scan(pairs) => {
            let mut left = pairs;
            target.scan_from(key, &mut |_, _| {
                left = left.saturating_sub(1);
                left > 0
            })?;
            Ok(true)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::record::{RecordedEngine, Recorder};
    use super::*;
    use crate::reference::Reference;
    use crate::trace::format::read;

    /// Records some calls on the reference engine.
    fn recorded(dir: &Path, one_in: u64, is_plain: bool) -> Trace {
        let path = dir.join(format!("{one_in}-{is_plain}.trace"));
        let recorder = Recorder::create(&path, one_in, is_plain).expect("created");
        let engine = RecordedEngine { inner: &Reference, recorder: recorder.clone() };
        let store = engine.open(dir, &StoreOptions::default()).expect("opens");
        for number in 0..100u32 {
            store.put(format!("key{number:08}").as_bytes(), &[7; 50], false).expect("put");
        }
        let get = |key: &[u8]| store.get(key, &mut |_| {}).expect("get");
        for _ in 0..9 {
            assert!(get(b"key00000005"));
        }
        assert!(!get(b"nothing here"));
        store.delete(b"key00000005").expect("deleted");
        let mut seen = 0;
        let visit = &mut |_: &[u8], _: &[u8]| {
            seen += 1;
            seen < 10
        };
        store.scan_from(b"key00000001", visit).expect("scanned");
        let lines = recorder.finish().expect("written");
        let trace = read(&path).expect("a trace");
        assert!(trace.is_complete && trace.lines.len() as u64 == lines);
        assert!(Recorder::create(&path, 1, true).is_err(), "nothing is replaced");
        trace
    }

    #[test]
    fn recorded_calls_are_counted_and_replayed_with_equal_results() {
        let dir = tempfile::tempdir().expect("a folder");
        for is_plain in [true, false] {
            let trace = recorded(dir.path(), 1, is_plain);
            let own = TraceSummary::of(&trace);
            assert_eq!((own.puts, own.gets, own.misses, own.deletes), (100, 9, 1, 1));
            assert_eq!((own.scans, own.scanned_pairs, own.loaded_keys), (1, 10, 0));
            assert_eq!((own.keys, own.written_bytes), (101, 5000));
            let store = StoreOptions::default();
            let sample = run(&Reference, dir.path(), &store, &trace, (1.0, 1, 0.5));
            assert_eq!((sample.operations, sample.wrong, &sample.error), (112, 0, &None));
            assert!(sample.ops_per_sec.is_some() && sample.latency.is_some());
        }
    }

    #[test]
    fn keys_found_before_a_put_are_loaded_and_wrong_results_are_told() {
        let dir = tempfile::tempdir().expect("a folder");
        let line = |op, key: &[u8]| TraceLine { at_micros: 0, op, key: TraceKey::hashed(key) };
        let (one, two) = (b"first key of all".as_slice(), b"second key".as_slice());
        let mut trace = Trace {
            lines: vec![
                line(TraceOp::Get(Some(20)), one),
                line(TraceOp::Get(None), two),
                line(TraceOp::Put(30), two),
                line(TraceOp::Get(Some(30)), two),
            ],
            is_complete: true,
        };
        let store = StoreOptions::default();
        let sample = run(&Reference, dir.path(), &store, &trace, (1.0, 1, 0.5));
        assert_eq!(sample.error, None);
        assert_eq!(TraceSummary::of(&trace).loaded_keys, 1);
        trace.lines.push(line(TraceOp::Get(Some(31)), two));
        let sample = run(&Reference, dir.path(), &store, &trace, (1.0, 1, 0.5));
        assert!(sample.failed() && sample.wrong == 1, "{:?}", sample.error);
    }

    #[test]
    fn sample_keeps_all_operations_of_its_keys() {
        let dir = tempfile::tempdir().expect("a folder");
        let (all, some) = (recorded(dir.path(), 1, true), recorded(dir.path(), 4, true));
        assert!(some.lines.len() < all.lines.len() / 2);
        let of = |trace: &Trace, key: &TraceKey| {
            trace
                .lines
                .iter()
                .filter(|line| line.key == *key)
                .map(|line| line.op)
                .collect::<Vec<_>>()
        };
        for line in &some.lines {
            assert_eq!(of(&some, &line.key), of(&all, &line.key));
        }
    }
}
