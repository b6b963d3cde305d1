//! Constraints: limits that every workload of a recommended set keeps, such as `p99<1ms`.

use std::fmt;

use super::measures::{Objective, RunMeasures, WorkloadMeasures};
use crate::error::{LabError, Result};
use crate::run::config::bytes_of;

/// A limit of one measure.
#[derive(Clone, Debug, PartialEq)]
pub struct Constraint {
    /// The limited measure.
    pub measure: Objective,
    /// Whether the value must be above the limit, instead of below.
    pub above: bool,
    /// Limit in the measure's unit.
    pub limit: f64,
    text: String,
}

impl Constraint {
    /// Parses a measure, `<` or `>`, and a limit: `p99<1ms`, `write-amp<10`, `space<2GiB`,
    /// `throughput>50000`.
    ///
    /// # Errors
    /// The text has another form; the error shows the form.
    pub fn parse(text: &str) -> Result<Constraint> {
        let fail = || {
            LabError::usage(format!(
                "expected a constraint such as p99<1ms, write-amp<10, space<2GiB, memory<512MiB or \
                 throughput>50000, found {text:?}"
            ))
        };
        let place = text.find(['<', '>']).ok_or_else(fail)?;
        let measure = Objective::parse(&text[..place]).map_err(|_| fail())?;
        let above = text[place..].starts_with('>');
        let limit = text[place + 1..].trim_start_matches('=').trim();
        let limit = match measure {
            Objective::P99 => micros_of(limit),
            Objective::Space | Objective::Memory => bytes_of(limit).map(|bytes| bytes as f64),
            Objective::Throughput | Objective::WriteAmp => limit.parse().ok(),
        };
        let limit = limit.filter(|limit| limit.is_finite() && *limit > 0.0).ok_or_else(fail)?;
        Ok(Constraint { measure, above, limit, text: text.trim().into() })
    }

    /// Returns whether the measured value keeps the limit. A value that was not measured keeps it.
    pub fn is_kept(&self, measures: &WorkloadMeasures) -> bool {
        self.measure.value(measures).is_none_or(|value| self.allows(value))
    }

    fn allows(&self, value: f64) -> bool {
        if self.above { value > self.limit } else { value < self.limit }
    }

    /// Returns a sentence about the first workload of which the runs have no value to compare.
    pub fn unmeasured_in(&self, runs: &[&RunMeasures]) -> Option<String> {
        let workloads = runs.iter().map(|run| run.workloads.len()).min()?;
        let has_none = |index: &usize| {
            runs.iter().all(|run| self.measure.value(&run.workloads[*index]).is_none())
        };
        let name = &runs[0].workloads[(0..workloads).find(has_none)?].workload;
        Some(format!("{} was not checked for {name}, which does not measure it", self.text))
    }

    /// Returns a sentence about the first workload whose median over the runs breaks the limit.
    pub fn broken_by(&self, runs: &[&RunMeasures]) -> Option<String> {
        let workloads = runs.iter().map(|run| run.workloads.len()).min()?;
        (0..workloads).find_map(|index| {
            let of = |run: &&RunMeasures| self.measure.value(&run.workloads[index]);
            let values: Vec<f64> = runs.iter().filter_map(of).collect();
            let median = crate::stats::compare::median(&values)?;
            let name = &runs[0].workloads[index].workload;
            (!self.allows(median)).then(|| {
                format!("{name} breaks {}: it has {median:.1} {}", self.text, self.measure.unit())
            })
        })
    }
}

impl fmt::Display for Constraint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Returns a time in microseconds: `500us`, `1ms`, `0.5 s`.
fn micros_of(text: &str) -> Option<f64> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let number: f64 = text[..end].parse().ok()?;
    let times = match text[end..].trim() {
        "us" | "µs" => 1.0,
        "ms" => 1e3,
        "s" => 1e6,
        _ => return None,
    };
    Some(number * times)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constraints_are_parsed_with_their_units() {
        let limit = |text: &str| Constraint::parse(text).map(|c| (c.measure, c.above, c.limit));
        assert_eq!(limit("p99<1ms").expect("right"), (Objective::P99, false, 1000.0));
        assert_eq!(limit("space <= 2 GiB").expect("right").2, f64::from(1u32 << 31));
        assert_eq!(limit("throughput>50000").expect("right"), (Objective::Throughput, true, 5e4));
        for bad in ["p99<1", "p99", "speed>1", "space<much", "write-amp<0", "<", "p99<1 year"] {
            assert!(limit(bad).expect_err(bad).to_string().contains("p99<1ms"), "{bad}");
        }
    }

    #[test]
    fn median_of_the_runs_decides() {
        let run = |p99| RunMeasures {
            workloads: vec![WorkloadMeasures {
                workload: "a".into(),
                p99_micros: Some(p99),
                ..WorkloadMeasures::default()
            }],
            ..RunMeasures::default()
        };
        let constraint = Constraint::parse("p99<1ms").expect("right");
        let (good, bad) = (run(10.0), run(5000.0));
        assert_eq!(constraint.broken_by(&[&good, &bad, &good]), None);
        let broken = constraint.broken_by(&[&bad, &bad, &good]).expect("broken");
        assert!(broken.contains("a breaks p99<1ms"), "{broken}");
        assert!(constraint.is_kept(&good.workloads[0]) && !constraint.is_kept(&bad.workloads[0]));
        assert!(constraint.is_kept(&WorkloadMeasures::default()));
        assert_eq!(constraint.broken_by(&[]), None);
        assert_eq!(constraint.unmeasured_in(&[&good, &bad]), None);
        let none = RunMeasures { workloads: vec![WorkloadMeasures::default()], ..good.clone() };
        assert!(
            constraint.unmeasured_in(&[&none]).expect("a sentence").contains("was not checked")
        );
        assert_eq!(constraint.unmeasured_in(&[&none, &good]), None);
    }
}
