//! The units tables and figures are in, and how a sample is read in each.

use crate::record::schema::TaskSample;

/// A unit of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Microseconds of an operation.
    MicrosPerOp,
    /// Operations a second.
    OpsPerSec,
    /// Thousands of operations a second.
    KopsPerSec,
    /// Operations a millisecond.
    OpsPerMs,
    /// Seconds of the whole phase.
    Seconds,
    /// Bytes written for each byte the user wrote.
    WriteAmplification,
    /// The same when the store is quiet, after the last phase of a turn.
    QuietWriteAmplification,
    /// Bytes on disk for each byte of the pairs, when the store is quiet.
    SpaceAmplification,
    /// Gigabytes (10^9) written.
    WrittenGb,
}

/// All units, by the names files use.
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
];

impl Unit {
    /// The unit called `name`.
    pub fn parse(name: &str) -> Option<Unit> {
        UNITS.iter().find(|(known, _)| *known == name).map(|&(_, unit)| unit)
    }

    /// The name files use.
    pub fn name(self) -> &'static str {
        UNITS.iter().find(|(_, unit)| *unit == self).map_or("", |(name, _)| name)
    }

    /// Whether more is better.
    pub fn more_is_better(self) -> bool {
        matches!(self, Unit::OpsPerSec | Unit::KopsPerSec | Unit::OpsPerMs)
    }

    /// What the sample says in this unit; none where it was not measured.
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
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_sample_in_every_unit() {
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
        let values: Vec<Option<f64>> = UNITS.iter().map(|(_, unit)| unit.of(&sample)).collect();
        let expected = [2.0, 500_000.0, 500.0, 500.0, 3.0, 4.0, 5.0, 1.5, 4.0].map(Some);
        assert_eq!(values, expected);
        sample.error = Some("broken".into());
        assert!(UNITS.iter().all(|(_, unit)| unit.of(&sample).is_none()));
        assert!(UNITS.iter().all(|(name, unit)| Unit::parse(name) == Some(*unit)));
    }
}
