//! Units of tables and figures, and the conversion of samples to them.

use super::compare::{Ratio, median, ratio};
use crate::measure::histogram::LatencySummary;
use crate::mix::phase::OpKind;
use crate::record::schema::{KindSample, TaskSample};

/// A unit of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Microseconds per operation.
    MicrosPerOp,
    /// Operations per second.
    OpsPerSec,
    /// Thousands of operations per second.
    KopsPerSec,
    /// Operations per millisecond.
    OpsPerMs,
    /// Duration of the whole phase in seconds.
    Seconds,
    /// Bytes written per byte written by the user.
    WriteAmplification,
    /// The same once the store is quiet, after the last phase of a run.
    QuietWriteAmplification,
    /// Bytes on disk per byte of the pairs, once the store is quiet.
    SpaceAmplification,
    /// Gigabytes (10^9) written.
    WrittenGb,
    /// Milliseconds per operation.
    MillisPerOp,
    /// Bytes on disk right after the phase per byte of the live pairs.
    DiskOverLive,
    /// Reads of 4 KiB from the device per operation, by any part of the engine, including
    /// read-ahead by the operating system.
    DeviceReads,
    /// Bytes returned by read calls per byte read by the user, including reads served from the page
    /// cache. `None` for an engine that reads through a map.
    ReadAmplification,
    /// Peak memory during the phase, in MiB.
    PeakMib,
    /// 99.9th percentile of the latency, in milliseconds.
    P999Ms,
    /// Maximum latency, in milliseconds.
    SlowestMs,
    /// Number of 100 ms windows without a completed operation.
    EmptyWindows,
    /// 99.9th percentile of an idle thread's wake-up delay, in milliseconds.
    IdleP999Ms,
    /// Maximum wake-up delay of an idle thread, in milliseconds.
    IdleMaxMs,
    /// The five previous units side by side.
    Stalls,
    /// Runs of transactions that ended with a conflict, per committed transaction.
    ConflictsPerOp,
    /// Nanoseconds of a commit of a transaction that only read.
    NanosPerCommit,
    /// Median latency, in microseconds.
    P50Micros,
    /// 99th percentile of the latency, in microseconds.
    P99Micros,
    /// 99.9th percentile of the latency, in microseconds.
    P999Micros,
    /// Maximum latency, in microseconds.
    MaxMicros,
    /// Operations per second of a queue's first tenth.
    FirstTenth,
    /// Operations per second of a queue's last tenth.
    LastTenth,
    /// Throughput of a queue's last tenth, divided by that of its first.
    LastOverFirst,
    /// The seven previous units side by side.
    Queue,
    /// Median latency of the reads of a phase that also writes, in microseconds.
    ReadsP50Micros,
    /// 99th percentile of the same.
    ReadsP99Micros,
    /// 99.9th percentile of the same.
    ReadsP999Micros,
    /// 99.9th percentile of the latency of the phase's writes, in microseconds.
    WritesP999Micros,
    /// Maximum latency of the phase's writes, in milliseconds.
    WritesMaxMs,
    /// The five previous units side by side.
    ReadsAndWrites,
    /// Most bytes on disk in any sample during the phase, per byte of the live pairs.
    MostDiskOverLive,
}

/// Units shown for [`Unit::Stalls`].
const STALLS: &[Unit] =
    &[Unit::P999Ms, Unit::SlowestMs, Unit::EmptyWindows, Unit::IdleP999Ms, Unit::IdleMaxMs];
/// Units shown for [`Unit::Queue`].
const QUEUE: &[Unit] = &[
    Unit::P50Micros,
    Unit::P99Micros,
    Unit::P999Micros,
    Unit::MaxMicros,
    Unit::FirstTenth,
    Unit::LastTenth,
    Unit::LastOverFirst,
];
/// Units shown for [`Unit::ReadsAndWrites`].
const READS_AND_WRITES: &[Unit] = &[
    Unit::ReadsP50Micros,
    Unit::ReadsP99Micros,
    Unit::ReadsP999Micros,
    Unit::WritesP999Micros,
    Unit::WritesMaxMs,
];
/// Size of a device read, in bytes.
const DEVICE_READ_BYTES: f64 = 4096.0;

/// All units with their names in files.
pub const UNITS: &[(&str, Unit)] = &[
    ("us/op", Unit::MicrosPerOp),
    ("ops/s", Unit::OpsPerSec),
    ("kops/s", Unit::KopsPerSec),
    ("ops/ms", Unit::OpsPerMs),
    ("s", Unit::Seconds),
    ("write amplification", Unit::WriteAmplification),
    ("write amplification, quiet", Unit::QuietWriteAmplification),
    ("space amplification", Unit::SpaceAmplification),
    ("GB written", Unit::WrittenGb),
    ("ms/op", Unit::MillisPerOp),
    ("disk / live data", Unit::DiskOverLive),
    ("device reads per op", Unit::DeviceReads),
    ("read amplification", Unit::ReadAmplification),
    ("peak MiB", Unit::PeakMib),
    ("p99.9, ms", Unit::P999Ms),
    ("slowest operation, ms", Unit::SlowestMs),
    ("windows of 100 ms without an operation", Unit::EmptyWindows),
    ("an idle thread's p99.9, ms", Unit::IdleP999Ms),
    ("an idle thread's longest pause, ms", Unit::IdleMaxMs),
    ("stalls", Unit::Stalls),
    ("conflicts per op", Unit::ConflictsPerOp),
    ("ns/commit", Unit::NanosPerCommit),
    ("p50, us", Unit::P50Micros),
    ("p99, us", Unit::P99Micros),
    ("p99.9, us", Unit::P999Micros),
    ("slowest operation, us", Unit::MaxMicros),
    ("first tenth, ops/s", Unit::FirstTenth),
    ("last tenth, ops/s", Unit::LastTenth),
    ("last tenth / first tenth", Unit::LastOverFirst),
    ("queue", Unit::Queue),
    ("most disk / live data", Unit::MostDiskOverLive),
    ("reads p50, us", Unit::ReadsP50Micros),
    ("reads p99, us", Unit::ReadsP99Micros),
    ("reads p99.9, us", Unit::ReadsP999Micros),
    ("writes p99.9, us", Unit::WritesP999Micros),
    ("slowest write, ms", Unit::WritesMaxMs),
    ("reads and writes", Unit::ReadsAndWrites),
];

impl Unit {
    /// Returns the unit named `name`.
    pub fn parse(name: &str) -> Option<Unit> {
        UNITS.iter().find(|(known, _)| *known == name).map(|&(_, unit)| unit)
    }

    /// Returns the name used in files.
    pub fn name(self) -> &'static str {
        UNITS.iter().find(|(_, unit)| *unit == self).map_or("", |(name, _)| name)
    }

    /// Returns a description of the unit for titles.
    pub fn title(self) -> &'static str {
        match self {
            Unit::MicrosPerOp => "microseconds per operation",
            Unit::MillisPerOp => "milliseconds per operation",
            Unit::OpsPerSec => "operations per second",
            Unit::KopsPerSec => "thousand operations per second",
            Unit::OpsPerMs => "operations per millisecond",
            Unit::Seconds => "seconds of the phase",
            Unit::WrittenGb => "gigabytes written",
            Unit::PeakMib => "peak memory, MiB",
            _ => self.name(),
        }
    }

    /// Returns the units shown in a table of this unit: itself, or several side by side.
    pub fn parts(self) -> Vec<Unit> {
        match self {
            Unit::Stalls => STALLS.to_vec(),
            Unit::Queue => QUEUE.to_vec(),
            Unit::ReadsAndWrites => READS_AND_WRITES.to_vec(),
            _ => vec![self],
        }
    }

    /// Returns whether the unit needs the latencies of single operations.
    pub fn needs_latencies(self) -> bool {
        use Unit::{
            EmptyWindows, MaxMicros, P50Micros, P99Micros, P999Micros, P999Ms, SlowestMs, Stalls,
        };
        matches!(self, P999Ms | SlowestMs | EmptyWindows | Stalls)
            || matches!(self, P50Micros | P99Micros | P999Micros | MaxMicros)
    }

    /// Returns whether the unit needs samples of the bytes on disk.
    pub fn needs_space(self) -> bool {
        self == Unit::MostDiskOverLive
    }

    /// Returns an explanation beyond the name.
    pub fn about(self) -> Option<&'static str> {
        Some(match self {
            Unit::DeviceReads => {
                "A device read is 4 KiB fetched from storage (read_bytes of /proc/self/io), \
                 including read-ahead and the engine's background work."
            }
            Unit::ReadAmplification => {
                "Bytes returned by read calls, including cached file pages, per byte the user \
                 read; n/a if files are read through a memory map."
            }
            Unit::Stalls | Unit::IdleMaxMs | Unit::IdleP999Ms => {
                "The idle thread only slept, for a millisecond at a time, so the machine caused \
                 its pauses."
            }
            Unit::ConflictsPerOp => {
                "A transaction that conflicts runs again, until it commits. An operation is one \
                 committed transaction."
            }
            Unit::NanosPerCommit => {
                "From the last read of a transaction that only reads to the end of its commit, \
                 without the cost of the clock."
            }
            Unit::DiskOverLive => {
                "Blocks on disk directly after the phase, divided by the bytes of the live pairs."
            }
            Unit::Queue => {
                "An operation pops the first pair and pushes one behind the last. Latencies are \
                 those of the pops."
            }
            Unit::ReadsAndWrites => {
                "Reads follow each other without a pause. A write arrives at its time, and its \
                 latency counts from there, whether or not the write before it is done."
            }
            Unit::MostDiskOverLive => {
                "The largest of the samples of the blocks on disk, one each second, divided by the \
                 bytes of the live pairs at the end of the phase."
            }
            _ => return None,
        })
    }

    /// Returns whether more is better.
    pub fn more_is_better(self) -> bool {
        use Unit::{FirstTenth, KopsPerSec, LastOverFirst, LastTenth, OpsPerMs, OpsPerSec};
        matches!(self, OpsPerSec | KopsPerSec | OpsPerMs | FirstTenth | LastTenth | LastOverFirst)
    }

    /// Returns whether the unit measures speed, which is meaningless for operations with an arrival
    /// rate.
    pub fn is_speed(self) -> bool {
        use Unit::{KopsPerSec, MicrosPerOp, MillisPerOp, OpsPerMs, OpsPerSec, Seconds};
        matches!(self, MicrosPerOp | OpsPerSec | KopsPerSec | OpsPerMs | Seconds | MillisPerOp)
    }

    /// Returns whether the unit describes only the machine, so that engines are not compared in it.
    pub fn is_of_machine(self) -> bool {
        matches!(self, Unit::IdleP999Ms | Unit::IdleMaxMs)
    }

    /// Returns the advantage of `own` over `base`, both in this unit: above 1 is better, for units
    /// where more is better and for units where less is better. `None` if undefined, as for a
    /// median of 0.
    pub fn advantage(self, own: &[f64], base: &[f64]) -> Option<Ratio> {
        let above_zero = |samples: &[f64]| median(samples).is_some_and(|middle| middle > 0.0);
        if self.is_of_machine() || !above_zero(own) || !above_zero(base) {
            return None;
        }
        if self.more_is_better() { ratio(own, base) } else { ratio(base, own) }
    }

    /// Returns the sample's value in this unit; `None` if it was not measured.
    pub fn of(self, sample: &TaskSample) -> Option<f64> {
        if sample.error.is_some() {
            return None;
        }
        match self {
            Unit::MicrosPerOp => sample.micros_per_op,
            Unit::OpsPerSec => sample.ops_per_sec,
            Unit::KopsPerSec => sample.ops_per_sec.map(|speed| speed / 1e3),
            Unit::OpsPerMs => sample.ops_per_sec.map(|speed| speed / 1e3),
            Unit::Seconds => sample.micros_per_op.map(|_| sample.elapsed_seconds),
            Unit::WriteAmplification => sample.write_amplification,
            Unit::QuietWriteAmplification => sample.quiet?.write_amplification,
            Unit::SpaceAmplification => sample.quiet?.space_amplification,
            Unit::WrittenGb => {
                Some(sample.write_amplification? * sample.user_written_bytes as f64 / 1e9)
            }
            Unit::MillisPerOp => sample.micros_per_op.map(|micros| micros / 1e3),
            Unit::PeakMib => Some(sample.peak_memory_bytes? as f64 / f64::from(1 << 20)),
            Unit::DiskOverLive => {
                let live = sample.live_bytes.filter(|&live| live > 0)?;
                Some(sample.disk_bytes? as f64 / live as f64)
            }
            Unit::DeviceReads => {
                let operations = Some(sample.operations).filter(|&operations| operations > 0)?;
                let bytes = sample.used?.read_disk_bytes?;
                Some(bytes as f64 / DEVICE_READ_BYTES / operations as f64)
            }
            Unit::ReadAmplification => {
                let user = Some(sample.user_read_bytes).filter(|&bytes| bytes > 0)?;
                // An engine that reads through a map has fewer read-call bytes than the user reads.
                let calls = sample.used?.read_call_bytes.filter(|&calls| calls > user / 10)?;
                Some(calls as f64 / user as f64)
            }
            Unit::P999Ms => Some(sample.latency.as_ref()?.p999_micros / 1e3),
            Unit::SlowestMs => Some(sample.latency.as_ref()?.max_micros / 1e3),
            Unit::EmptyWindows => Some(sample.timeline.as_ref()?.empty_windows()? as f64),
            Unit::IdleP999Ms => Some(sample.idle?.p999_micros / 1e3),
            Unit::IdleMaxMs => Some(sample.idle?.max_micros / 1e3),
            Unit::Stalls | Unit::Queue | Unit::ReadsAndWrites => None,
            Unit::ReadsP50Micros => Some(latency_of(sample, false)?.p50_micros),
            Unit::ReadsP99Micros => Some(latency_of(sample, false)?.p99_micros),
            Unit::ReadsP999Micros => Some(latency_of(sample, false)?.p999_micros),
            Unit::WritesP999Micros => Some(latency_of(sample, true)?.p999_micros),
            Unit::WritesMaxMs => Some(latency_of(sample, true)?.max_micros / 1e3),
            Unit::ConflictsPerOp => {
                let operations = Some(sample.operations).filter(|&operations| operations > 0)?;
                Some(sample.transactions?.conflicts as f64 / operations as f64)
            }
            Unit::NanosPerCommit => sample.transactions?.commit_nanos,
            Unit::P50Micros => Some(sample.latency.as_ref()?.p50_micros),
            Unit::P99Micros => Some(sample.latency.as_ref()?.p99_micros),
            Unit::P999Micros => Some(sample.latency.as_ref()?.p999_micros),
            Unit::MaxMicros => Some(sample.latency.as_ref()?.max_micros),
            Unit::FirstTenth => Some(sample.queue.as_ref()?.first_tenth_ops_per_sec),
            Unit::LastTenth => Some(sample.queue.as_ref()?.last_tenth_ops_per_sec),
            Unit::LastOverFirst => {
                let queue = sample.queue.as_ref()?;
                let ratio = queue.last_tenth_ops_per_sec / queue.first_tenth_ops_per_sec;
                Some(ratio).filter(|ratio| ratio.is_finite())
            }
            Unit::MostDiskOverLive => {
                let live = sample.live_bytes.filter(|&live| live > 0)?;
                Some(sample.space.as_ref()?.most_bytes()? as f64 / live as f64)
            }
        }
    }
}

/// Returns the latencies of the first kind of operations that writes, or that does not.
fn latency_of(sample: &TaskSample, writes: bool) -> Option<&LatencySummary> {
    let of = |kind: &&KindSample| OpKind::parse(&kind.kind).is_some_and(|k| k.writes() == writes);
    sample.kinds.iter().find(of).map(|kind| &kind.latency)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::counters::Used;
    use crate::measure::idle::IdlePauses;
    use crate::measure::space::SpaceTimeline;
    use crate::measure::timeline::Timeline;
    use crate::record::schema::{QueueSample, TransactionSample};

    fn used(read_disk_bytes: u64, read_call_bytes: u64) -> Used {
        Used {
            cpu_seconds: 0.0,
            write_call_bytes: None,
            read_call_bytes: Some(read_call_bytes),
            write_disk_bytes: None,
            read_disk_bytes: Some(read_disk_bytes),
        }
    }

    #[test]
    fn above_one_is_better_in_every_unit() {
        let (few, many) = ([1.19, 1.2, 1.18], [9.18, 9.2, 9.1]);
        for (name, unit) in UNITS.iter().filter(|(_, unit)| !unit.is_of_machine()) {
            let better = if unit.more_is_better() { (&many, &few) } else { (&few, &many) };
            let advantage = unit.advantage(better.0, better.1).expect("both measured");
            assert!(advantage.ratio > 7.0 && advantage.shows_difference(), "{name}: {advantage:?}");
            let worse = unit.advantage(better.1, better.0).expect("both measured");
            assert!(worse.ratio < 0.2 && worse.shows_difference(), "{name}: {worse:?}");
        }
        assert_eq!(Unit::WriteAmplification.advantage(&few, &[0.0]), None, "of nothing");
        assert_eq!(Unit::EmptyWindows.advantage(&[0.0], &many), None, "by nothing");
        assert_eq!(Unit::IdleMaxMs.advantage(&few, &many), None, "no engine's doing");
    }

    #[test]
    fn sample_converts_to_every_unit() {
        let mut sample = TaskSample::new("e", "t", 0, 0);
        sample.micros_per_op = Some(2.0);
        sample.ops_per_sec = Some(500_000.0);
        sample.elapsed_seconds = 3.0;
        sample.write_amplification = Some(4.0);
        sample.user_written_bytes = 1_000_000_000;
        sample.quiet = Some(crate::measure::quiet::Quiet {
            waited_seconds: 1.0,
            reached: true,
            write_amplification: Some(5.0),
            space_amplification: Some(1.5),
            disk_bytes: 0,
            disk_files: 0,
        });
        sample.operations = 10;
        sample.peak_memory_bytes = Some(3 << 20);
        (sample.disk_bytes, sample.live_bytes) = (Some(300), Some(200));
        (sample.user_read_bytes, sample.used) = (100, Some(used(81_920, 700)));
        let mut latencies = crate::measure::histogram::Latencies::new();
        (0..10).for_each(|_| latencies.record(4_000_000));
        sample.latency = latencies.summary();
        sample.timeline = Some(Timeline { operations: vec![5, 0, 0, 5] });
        let (wakes, cpu_seconds) = (9, 0.0);
        sample.idle =
            Some(IdlePauses { wakes, p999_micros: 250.0, max_micros: 500.0, cpu_seconds });
        sample.transactions =
            Some(TransactionSample { conflicts: 5, attempts_max: 2, commit_nanos: Some(70.0) });
        let push = sample.latency.clone().expect("summarised");
        sample.queue = Some(QueueSample {
            depth: 10,
            first_tenth_ops_per_sec: 200.0,
            last_tenth_ops_per_sec: 150.0,
            push,
        });
        sample.space = Some(SpaceTimeline { samples: vec![(0, 240), (7, 400)], cpu_seconds: 0.0 });
        let values: Vec<Option<f64>> = UNITS.iter().map(|(_, unit)| unit.of(&sample)).collect();
        let expected =
            [2.0, 500_000.0, 500.0, 500.0, 3.0, 4.0, 5.0, 1.5, 4.0, 0.002, 1.5, 2.0, 7.0];
        let (first, stalls) = values.split_at(expected.len());
        assert_eq!(first, expected.map(Some));
        let rounded: Vec<f64> =
            stalls.iter().flatten().map(|value| (value * 100.0).round() / 100.0).collect();
        let (stalls, queue) = rounded.split_at(8);
        assert_eq!(stalls, [3.0, 4.0, 4.0, 2.0, 0.25, 0.5, 0.5, 70.0]);
        let (micros, queue) = queue.split_at(4);
        assert!(micros.iter().all(|micros| (micros / 4000.0 - 1.0).abs() < 0.001), "{micros:?}");
        assert_eq!(queue, [200.0, 150.0, 0.75, 2.0]);
        sample.used = Some(used(0, 5));
        assert_eq!(Unit::ReadAmplification.of(&sample), None, "read through a map");
        assert_eq!(Unit::DeviceReads.of(&sample), Some(0.0));
        sample.error = Some("broken".into());
        assert!(UNITS.iter().all(|(_, unit)| unit.of(&sample).is_none()));
        assert!(UNITS.iter().all(|(name, unit)| Unit::parse(name) == Some(*unit)));
    }
}
