//! The table of redb's README: a row per measurement, a column per engine.
//!
//! Invariants:
//! 1. A cell is the median over the repetitions.
//! 2. The best cells of a row are bold, if two engines have one.
//! 3. A row without a number for an engine is `N/A`.

use serde_json::{Value, json};

use super::redb::{ROWS, RowKind};
use crate::record::schema::TaskSample;
use crate::stats::compare::median;
use crate::workload::tasks::labels;

/// Returns the table as Markdown.
pub fn markdown(samples: &[TaskSample], engines: &[String]) -> String {
    let mut lines = vec![std::iter::once(String::new()).chain(engines.iter().cloned()).collect()];
    for (position, (name, kind)) in ROWS.iter().enumerate() {
        let values: Vec<Option<f64>> =
            engines.iter().map(|engine| value(samples, engine, position, *kind)).collect();
        let best = values.iter().flatten().copied().min_by(f64::total_cmp);
        let best = best.filter(|_| values.iter().flatten().count() > 1);
        let best = best.map(|best| text(*kind, best));
        let cell = |value: &Option<f64>| match value.map(|value| text(*kind, value)) {
            Some(text) if Some(&text) == best.as_ref() => format!("**{text}**"),
            Some(text) => text,
            None => "N/A".into(),
        };
        let mut line: Vec<String> = vec![(*name).into()];
        line.extend(values.iter().map(cell));
        lines.push(line);
    }
    let width = |column: usize| lines.iter().map(|line| line[column].len()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..=engines.len()).map(width).collect();
    let mut out = String::new();
    for (index, line) in lines.iter().enumerate() {
        for (cell, width) in line.iter().zip(&widths) {
            out += &format!("| {cell:width$} ");
        }
        out += "|\n";
        if index == 0 {
            widths.iter().for_each(|width| out += &format!("|{}", "-".repeat(width + 2)));
            out += "|\n";
        }
    }
    out
}

/// Returns a JSON object for each row and engine; null for what was not measured. A repeated name
/// is numbered.
pub fn json_lines(samples: &[TaskSample], engines: &[String]) -> Vec<Value> {
    let names = labels(ROWS.iter().map(|(name, _)| *name));
    let mut lines = Vec::new();
    for (position, (name, (_, kind))) in names.iter().zip(ROWS).enumerate() {
        for engine in engines {
            let number = value(samples, engine, position, *kind);
            let mut own = of(samples, engine, position);
            let first = own.clone().next();
            lines.push(json!({
                "preset": "redb",
                "row": name,
                "engine": engine,
                "operations": first.map(|sample| sample.operations),
                "milliseconds": number.filter(|_| !kind.is_size()),
                "bytes": number.filter(|_| kind.is_size()),
                "error": own.find_map(|sample| sample.error.clone()),
            }));
        }
    }
    lines
}

/// Describes one row, for progress messages.
pub fn sample_text(sample: &TaskSample) -> String {
    let kind = ROWS.get(sample.position).map_or(RowKind::Len, |(_, kind)| *kind);
    match (&sample.error, number(sample, kind)) {
        (Some(error), _) if sample.not_available => format!("N/A ({error})"),
        (Some(error), _) => format!("ERROR {error}"),
        (None, Some(number)) => text(kind, number),
        (None, None) => "N/A".into(),
    }
}

fn of<'a>(
    samples: &'a [TaskSample],
    engine: &'a str,
    position: usize,
) -> impl Iterator<Item = &'a TaskSample> + Clone {
    samples.iter().filter(move |s| s.engine == engine && s.position == position)
}

/// Returns the milliseconds or the bytes of a row.
fn number(sample: &TaskSample, kind: RowKind) -> Option<f64> {
    if sample.error.is_some() {
        return None;
    }
    match kind.is_size() {
        true => sample.disk_bytes.map(|bytes| bytes as f64),
        false => sample.micros_per_op.map(|_| sample.elapsed_seconds * 1e3),
    }
}

fn value(samples: &[TaskSample], engine: &str, position: usize, kind: RowKind) -> Option<f64> {
    let numbers = of(samples, engine, position).map(|sample| number(sample, kind));
    median(&numbers.collect::<Option<Vec<f64>>>()?)
}

fn text(kind: RowKind, number: f64) -> String {
    if !kind.is_size() {
        return format!("{number:.0}ms");
    }
    match number / f64::from(1 << 20) {
        mib if mib >= 1024.0 => format!("{:.2} GiB", mib / 1024.0),
        mib if mib >= 1.0 => format!("{mib:.2} MiB"),
        mib => format!("{:.2} KiB", mib * 1024.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn best_cells_are_bold_and_missing_ones_are_named() {
        let sample = |engine: &str, position: usize, seconds: f64| {
            let mut sample = TaskSample::new(engine, ROWS[position].0, position, 0);
            sample.elapsed_seconds = seconds;
            sample.micros_per_op = Some(1.0);
            sample.disk_bytes = Some(3 << 29);
            sample
        };
        let mut samples = vec![sample("a", 0, 1.5), sample("b", 0, 0.25), sample("a", 14, 0.0)];
        samples.push(TaskSample { error: Some("wrong".into()), ..sample("b", 14, 0.0) });
        let table = markdown(&samples, &["a".into(), "b".into()]);
        let lines: Vec<&str> = table.lines().collect();
        assert_eq!(lines.len(), ROWS.len() + 2);
        let cells = |line: &str| -> Vec<String> {
            line.split('|').map(|cell| cell.trim().to_string()).collect()
        };
        assert_eq!(cells(lines[2])[1..4], ["bulk load", "1500ms", "**250ms**"]);
        assert_eq!(cells(lines[16])[1..4], ["uncompacted size", "1.50 GiB", "N/A"]);
        assert!(lines.iter().all(|line| line.len() == lines[0].len()), "{table}");
    }
}
