//! Diagnoses of conditions that may have distorted a benchmark, as advice for the next one. They
//! depend only on a record and the processor time of the whole machine.

use crate::measure::host;
use crate::record::lab::LabRecord;
use crate::record::schema::TaskSample;
use crate::stats::compare::median;

/// Maximum fraction of the machine's processor time used by other processes without a warning.
const OTHERS_SHARE_MAX: f64 = 0.08;
/// Minimum ratio of the first repetition's time to the later ones' that causes a warning.
const FIRST_SLOWER: f64 = 1.25;
/// Maximum fraction of the runs' time spent in background work after them without a warning.
const DEBT_SHARE_MAX: f64 = 0.15;

/// Processor time at the start of an experiment.
#[derive(Clone, Copy, Debug)]
pub struct Before {
    machine_seconds: Option<f64>,
    own_seconds: f64,
}

impl Before {
    /// Takes the current values.
    pub fn now() -> Before {
        Before {
            machine_seconds: host::machine_cpu_seconds(),
            own_seconds: host::cpu_seconds_with_children(),
        }
    }

    /// Returns a warning if other processes used much processor time since then.
    pub fn others(&self, elapsed_seconds: f64, processors: usize) -> Option<String> {
        let machine = host::machine_cpu_seconds()? - self.machine_seconds?;
        let own = host::cpu_seconds_with_children() - self.own_seconds;
        others(machine, own, elapsed_seconds * processors as f64)
    }
}

fn others(machine: f64, own: f64, there: f64) -> Option<String> {
    let share = (machine - own) / there;
    (there > 1.0 && share > OTHERS_SHARE_MAX).then(|| {
        format!(
            "other processes used {:.0} % of this machine's processor time during the run: ratios \
             are more reliable than absolute figures; repeat the run on an idle machine",
            share * 100.0
        )
    })
}

/// Returns the warnings derived from the samples.
pub fn warnings(record: &LabRecord) -> Vec<String> {
    let mut warning_texts = Vec::new();
    warning_texts.extend(first_slow(record));
    warning_texts.extend(debts(record));
    warning_texts.extend(cached(record));
    warning_texts
}

/// Warns if the first repetition was slower in most places.
fn first_slow(record: &LabRecord) -> Option<String> {
    let (mut slow, mut all) = (0, 0);
    for first in record.samples.iter().filter(|s| s.sample.repetition == 0) {
        let place = (first.phase.as_str(), first.step.as_deref());
        let of = |s: &&TaskSample| s.repetition > 0 && !s.failed();
        let later: Vec<f64> = record
            .of(first.point, place, &first.sample.engine)
            .filter(of)
            .filter_map(|s| s.micros_per_op)
            .collect();
        if let (Some(micros), Some(later)) = (first.sample.micros_per_op, median(&later)) {
            all += 1;
            slow += usize::from(micros > later * FIRST_SLOWER);
        }
    }
    (all >= 4 && slow * 2 > all).then(|| {
        format!(
            "the first repetition was slower than the later ones in {slow} of {all} places: the \
             machine was cold; raise --repetitions, so that the median excludes the first \
             repetition"
        )
    })
}

/// Warns of engines with much background work after their runs.
fn debts(record: &LabRecord) -> Vec<String> {
    let mut warning_texts = Vec::new();
    for engine in record.measured_engines() {
        let (mut waited, mut worked) = (0.0, 0.0);
        for sample in record.samples.iter().map(|s| &s.sample).filter(|s| s.engine == engine) {
            waited += sample.quiet.map_or(0.0, |quiet| quiet.waited_seconds);
            worked += sample.elapsed_seconds;
        }
        if waited > 1.0 && waited > worked * DEBT_SHARE_MAX {
            warning_texts.push(format!(
                "{engine} worked in the background for {waited:.1} s after rounds of {worked:.1} s: \
                 its throughput excludes that work, and the \"quiet\" figures include it"
            ));
        }
    }
    warning_texts
}

/// Warns of reads from data that fits in memory.
fn cached(record: &LabRecord) -> Option<String> {
    let memory = record.machine.memory_bytes? as f64;
    let of = |s: &&TaskSample| s.user_read_bytes > 0 || s.found.is_some();
    let reads = || record.samples.iter().map(|s| &s.sample).filter(of);
    let disk = reads().filter_map(|sample| sample.disk_bytes).max()? as f64;
    (disk * 2.0 < memory).then(|| {
        let limited = if record.text.contains("memory_limit") {
            "; only the series with a memory limit can measure the disk"
        } else {
            "; use a larger --scale or a memory_limit to measure the disk"
        };
        format!(
            "the largest store took {}, which fits in this machine's memory: reads measure the \
             processor, not the disk{limited}",
            crate::report::table::bytes_text(disk)
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::quiet::Quiet;
    use crate::record::lab::LabSample;

    fn record() -> LabRecord {
        let text = r#"{"lab_schema_version":1,"experiment":"e","text":"","scale":"1",
            "started_unix_seconds":0,"elapsed_seconds":0,"machine":{"cpu_count":2,
            "memory_bytes":1000000,"optimised_build":true,"cpu_model":null,"cpu_cache":null,
            "kernel":null,"system":null,"file_system":null},"commit":null,"commit_dirty":null,
            "seed":1,"harness_nanos_per_op":null,"engines":[{"name":"esker","description":null,
            "capabilities":null,"given":[],"error":null}],"points":[],"samples":[],"sessions":[],
            "warnings":[]}"#;
        serde_json::from_str(text).expect("a record")
    }

    fn sample(phase: &str, repetition: usize, micros: f64) -> LabSample {
        let mut sample = TaskSample::new("esker", phase, 0, repetition);
        sample.micros_per_op = Some(micros);
        sample.elapsed_seconds = 2.0;
        LabSample { point: 0, phase: phase.into(), step: None, sample }
    }

    #[test]
    fn warns_of_cold_start_debt_and_cached_store() {
        let mut record = record();
        for phase in ["a", "b", "c", "d"] {
            for (repetition, micros) in [(0, 3.0), (1, 1.0), (2, 1.1)] {
                record.samples.push(sample(phase, repetition, micros));
            }
        }
        assert!(first_slow(&record).is_some_and(|text| text.contains("4 of 4 places")));
        assert!(debts(&record).is_empty() && cached(&record).is_none());
        let last = &mut record.samples[11].sample;
        last.quiet = Some(Quiet {
            waited_seconds: 5.0,
            reached: true,
            write_amplification: None,
            space_amplification: None,
            disk_bytes: 0,
            disk_files: 0,
        });
        (last.found, last.disk_bytes) = (Some(1), Some(100_000));
        let warning_texts = warnings(&record);
        assert_eq!(warning_texts.len(), 3, "{warning_texts:?}");
        assert!(
            warning_texts[1].contains("5.0 s") && warning_texts[2].contains("97.7 KiB"),
            "{warning_texts:?}"
        );
        for own in &mut record.samples {
            own.sample.micros_per_op = Some(1.0);
        }
        assert!(first_slow(&record).is_none());
    }

    #[test]
    fn warns_of_other_processes_by_share() {
        assert!(others(150.0, 100.0, 200.0).is_some_and(|text| text.contains("25 %")));
        assert_eq!(others(101.0, 100.0, 200.0), None);
        let before = Before::now();
        assert!(before.machine_seconds.is_some_and(|seconds| seconds > 0.0));
        assert_eq!(before.others(0.0, 2), None);
    }
}
