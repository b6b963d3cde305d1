//! The OpenMetrics text of a report, as a monitoring system scrapes it.

use std::fmt::Write;

use super::table::{METRICS, MetricSpec};
use super::{LevelMetrics, Metrics};

/// Family of the last problem that the scrub found.
const PROBLEM: &str = "esker_scrub_problem";

impl Metrics {
    /// Returns the report in the OpenMetrics text format 1.0, which Prometheus and others scrape.
    ///
    /// The content type is `application/openmetrics-text; version=1.0.0; charset=utf-8`.
    /// `docs/metrics.md` lists the families. A number of a level has the label `level`. A counter
    /// starts again when the store is opened. The text ends with `# EOF`, so the texts of two stores
    /// cannot be concatenated.
    ///
    /// ```
    /// # fn main() -> esker::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// let db = esker::Db::open(dir.path().join("db"), esker::Options::default())?;
    /// db.put("key", "value")?;
    /// let text = db.metrics().to_openmetrics();
    /// assert!(text.contains("\nesker_user_ops_total 1\n"));
    /// assert!(text.ends_with("# EOF\n"));
    /// # Ok(())
    /// # }
    /// ```
    pub fn to_openmetrics(&self) -> String {
        let mut text = String::with_capacity(16 << 10);
        for spec in METRICS {
            head(&mut text, spec);
            match spec.value(self) {
                Some(value) => sample(&mut text, spec, None, value),
                None => {
                    for level in &self.levels {
                        let value = spec.level_value(level).unwrap_or_default();
                        sample(&mut text, spec, Some(level), value);
                    }
                }
            }
        }
        if let Some(problem) = &self.scrub_problem {
            let _ = writeln!(text, "# TYPE {PROBLEM} info");
            let _ = writeln!(text, "# HELP {PROBLEM} Last problem that the scrub found.");
            let _ = writeln!(text, "{PROBLEM}_info{{problem=\"{}\"}} 1", escaped(problem));
        }
        text + "# EOF\n"
    }
}

/// Adds the lines that describe a family.
fn head(text: &mut String, spec: &MetricSpec) {
    let kind = if spec.is_counter { "counter" } else { "gauge" };
    let _ = writeln!(text, "# TYPE {} {kind}", spec.name);
    if !spec.unit.is_empty() {
        let _ = writeln!(text, "# UNIT {} {}", spec.name, spec.unit);
    }
    let _ = writeln!(text, "# HELP {} {}", spec.name, escaped(spec.doc));
}

/// Adds the line of a number.
fn sample(text: &mut String, spec: &MetricSpec, level: Option<&LevelMetrics>, value: u64) {
    text.push_str(spec.name);
    if spec.is_counter {
        text.push_str("_total");
    }
    if let Some(level) = level {
        let _ = write!(text, "{{level=\"{}\"}}", level.level);
    }
    let _ = if spec.is_micros() {
        writeln!(text, " {}.{:06}", value / 1_000_000, value % 1_000_000)
    } else {
        writeln!(text, " {value}")
    };
}

/// Escapes a text for a description or for the value of a label.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_their_unit_and_labels_are_escaped() {
        let mut metrics = Metrics { stalled_us: 1_250_000, user_bytes: 7, ..Metrics::default() };
        metrics.levels = vec![
            LevelMetrics { level: 0, files: 3, ..LevelMetrics::default() },
            LevelMetrics { level: 1, files: 4, written_bytes: 5, ..LevelMetrics::default() },
        ];
        metrics.scrub_problem = Some("a \"bad\\block\"\nin a table".to_string());
        let text = metrics.to_openmetrics();
        for line in [
            "# TYPE esker_stalled_seconds counter",
            "# UNIT esker_stalled_seconds seconds",
            "esker_stalled_seconds_total 1.250000",
            "esker_user_bytes_total 7",
            "# TYPE esker_level_files gauge",
            "esker_level_files{level=\"0\"} 3",
            "esker_level_files{level=\"1\"} 4",
            "esker_level_written_bytes_total{level=\"1\"} 5",
            "esker_scrub_problem_info{problem=\"a \\\"bad\\\\block\\\"\\nin a table\"} 1",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}\n{text}");
        }
        assert!(text.ends_with("\n# EOF\n"));
    }
}
