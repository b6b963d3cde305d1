//! Generates `docs/metrics.md`, with a row per metric, from the engine's own metrics table.

use std::fmt::Write;
use std::path::Path;

use esker::schema::{METRICS, MetricSpec};

use crate::document;

const FILE: &str = "docs/metrics.md";

const INTRODUCTION: &str = "\
# Metrics

Made by `cargo xtask metrics` from `crates/esker/src/metrics/table.rs`; not to be edited by hand.

`Db::metrics` returns these numbers, and `Metrics::to_openmetrics` formats them as OpenMetrics text,
as `esker stats DB --openmetrics` does. A sample of a counter has the suffix `_total` too. Counters
start when the store is opened. The numbers of levels have the label `level`. Fields with the suffix
`_us` are microseconds, and seconds in OpenMetrics. `esker stats --json` has the names of the fields.

`Metrics::scrub_problem` is a text: the family `esker_scrub_problem` of the type `info`, with the
label `problem`, while there is one.

";

/// Renders the document.
pub fn render() -> String {
    let mut text = String::from(INTRODUCTION);
    text += "| OpenMetrics | type | unit | field of `Metrics` | meaning |\n|---|---|---|---|---|\n";
    for spec in METRICS {
        let _ = writeln!(text, "{}", row(spec));
    }
    text
}

fn row(spec: &MetricSpec) -> String {
    let field = match spec.part {
        "" => spec.field.to_string(),
        "levels" => format!("levels[].{}", spec.field),
        part => format!("{part}.{}", spec.field),
    };
    let kind = if spec.is_counter { "counter" } else { "gauge" };
    format!("| `{}` | {kind} | {} | `{field}` | {} |", spec.name, spec.unit, spec.doc)
}

/// Writes the document.
pub fn write(root: &Path) -> Result<(), String> {
    document::write(root, FILE, &render())
}

/// Checks that the document equals the output of [`write()`].
pub fn check(root: &Path) -> Result<(), String> {
    document::check(root, FILE, &render(), "the table of metrics: run `cargo xtask metrics`")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_metric_has_a_row() {
        let text = render();
        for spec in METRICS {
            assert!(text.contains(&format!("| `{}` |", spec.name)), "{}", spec.name);
        }
    }
}
