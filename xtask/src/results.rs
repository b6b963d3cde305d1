//! Generates the README's result tables and their chart from the committed record of a benchmark.
//!
//! Invariant: every figure in them is computed from `docs/results/first-benchmark.json.zst`, which
//! `make results` measures. A check fails if the README or the chart differs from it.

use std::fmt::Write;
use std::path::Path;

use esker_lab::record::schema::RunRecord;
use esker_lab::record::store;
use esker_lab::report::html::escape;
use esker_lab::report::plot::{Bar, bars};
use esker_lab::report::table::{bytes_text, micros_text};
use esker_lab::stats::compare::Ratio;
use esker_lab::stats::summary::{Cell, cells, totals};

const RECORD: &str = "docs/results/first-benchmark.json.zst";
/// The same settings with each operation timed, which slows the fast ones down. May be absent.
const LATENCY: &str = "docs/results/first-latency.json.zst";
const PICTURE: &str = "docs/results/first-benchmark.svg";
const README: &str = "README.md";
const BEGIN: &str = "<!-- results: cargo xtask results -->\n";
const END: &str = "<!-- /results -->\n";

/// Width of one task's column, and height of its name above the bars, in px.
const COLUMN: usize = 372;
const NAME: usize = 22;
/// Colours referenced as variables in the charts: ink, soft, grid, then the engines'.
const STYLE: &str = "svg{--ink:#1d2330;--soft:#6b7280;--grid:#d4d4d8;--e0:#d9622b;--e1:#3b6fb6;\
                     --e2:#3f9d63;--e3:#8a5bb5;--e4:#a67c00;\
                     --e5:#2a8c8c}text{font-family:sans-serif}";

/// Writes the table and the chart.
///
/// # Errors
/// A sentence, if a file cannot be read or written.
pub fn write(root: &Path) -> Result<(), String> {
    for (name, text) in make(root)? {
        std::fs::write(root.join(name), text).map_err(|e| format!("{name}: {e}"))?;
    }
    crate::experiments::write(root)
}

/// Compares the table and the chart with the record.
///
/// # Errors
/// A sentence with the name of the file that differs.
pub fn check(root: &Path) -> Result<(), String> {
    for (name, text) in make(root)? {
        let found = std::fs::read_to_string(root.join(name)).map_err(|e| format!("{name}: {e}"))?;
        if found != text {
            return Err(format!("{name} differs from {RECORD}; run `cargo xtask results`"));
        }
    }
    crate::experiments::check(root)
}

fn make(root: &Path) -> Result<[(&'static str, String); 2], String> {
    let record = store::load(&root.join(RECORD)).map_err(|e| e.to_string())?;
    let readme =
        std::fs::read_to_string(root.join(README)).map_err(|e| format!("{README}: {e}"))?;
    let parts = readme.split_once(BEGIN).and_then(|(before, rest)| {
        rest.split_once(END).map(|(_, after)| (before.to_string(), after.to_string()))
    });
    let (before, after) = parts
        .ok_or_else(|| format!("{README}: expected {BEGIN:?} and {END:?} around the table"))?;
    let latency = root.join(LATENCY);
    let latency = match latency.exists() {
        true => Some(store::load(&latency).map_err(|e| e.to_string())?),
        false => None,
    };
    let table = table(&record, latency.as_ref());
    let readme = format!("{before}{BEGIN}{table}{END}{after}");
    Ok([(README, readme), (PICTURE, picture(&record))])
}

fn engines(record: &RunRecord) -> Vec<String> {
    record.engines.iter().map(|engine| engine.name.clone()).collect()
}

/// Returns the cells by task, in the order of execution.
fn by_task(record: &RunRecord) -> Vec<(String, Vec<Cell>)> {
    let mut tasks: Vec<(String, Vec<Cell>)> = Vec::new();
    for cell in cells(record) {
        match tasks.last_mut() {
            Some((label, group)) if *label == cell.label => group.push(cell),
            _ => tasks.push((cell.label.clone(), vec![cell])),
        }
    }
    tasks
}

fn table(record: &RunRecord, latency: Option<&RunRecord>) -> String {
    let engines = engines(record);
    let base = record.base_engine.as_deref().unwrap_or_default();
    let mut text = String::new();
    let _ = writeln!(text, "\n| µs per operation | {} |", engines.join(" | "));
    let _ = writeln!(text, "|---|{}", "---|".repeat(engines.len()));
    for (label, group) in by_task(record) {
        let mut row = format!("| {label} |");
        for engine in &engines {
            let cell = group.iter().find(|cell| cell.engine == *engine);
            row += &format!(" {} |", cell.map_or("n/a".into(), |cell| cell_text(cell, base)));
        }
        text += &row;
        text.push('\n');
    }
    for (label, group) in latency.map(by_task).into_iter().flatten() {
        let slowest = |engine: &String| {
            let cell = group.iter().find(|cell| cell.engine == *engine);
            let summary = cell.and_then(|cell| cell.latency.as_ref());
            summary.map_or("n/a".into(), |summary| micros_text(summary.p999_micros))
        };
        let values: Vec<String> = engines.iter().map(slowest).collect();
        let _ = writeln!(text, "| {label}, 99.9 % within | {} |", values.join(" | "));
    }
    text + &resource_table(record) + &conditions(record)
}

/// Returns the table of the resources used.
fn resource_table(record: &RunRecord) -> String {
    let engines = engines(record);
    let mut text = String::new();
    let _ = writeln!(text, "\n| resources | {} |", engines.join(" | "));
    let _ = writeln!(text, "|---|{}", "---|".repeat(engines.len()));
    for (name, value) in [
        ("write amplification", write_amplification as fn(&RunRecord, &str) -> String),
        ("peak memory", peak_memory),
        ("most disk space", most_disk),
    ] {
        let values: Vec<String> = engines.iter().map(|engine| value(record, engine)).collect();
        let _ = writeln!(text, "| {name} | {} |", values.join(" | "));
    }
    text
}

/// Describes the conditions of the benchmark, and names the record and the chart.
fn conditions(record: &RunRecord) -> String {
    let commit = record.commit.as_deref().map_or("unknown", |c| c.get(..7).unwrap_or(c));
    let work = &record.workload;
    let processor = record.machine.cpu_model.as_deref().unwrap_or("an unknown processor");
    let cpus = record.machine.cpu_count;
    let processors = if cpus == 1 { "processor" } else { "processors" };
    let warnings = match record.warnings.is_empty() {
        true => String::new(),
        false => format!("Warning of the record: {}. ", record.warnings.join("; ")),
    };
    format!(
        "\n{} pairs of {:.0} + {:.0} bytes, one thread, medians of {} interleaved repetitions. In \
         brackets: speed relative to Esker; `~` marks a difference that the 95 % interval does not \
         show. Every engine got {}. Measured at commit {commit} on {cpus} {processors}, \
         {processor}. {warnings}[The record]({RECORD}) was made by `make results`.\n\n\
         ![The same figures as bars]({PICTURE})\n",
        work.rows,
        work.key_bytes_mean,
        work.value_bytes_mean,
        work.repetitions,
        given(record),
    )
}

/// Describes the settings given to every engine, from the flags of the benchmark.
fn given(record: &RunRecord) -> String {
    let size = |name: &str| {
        let bytes = record.options.get(name).and_then(|value| value.parse::<f64>().ok());
        bytes.map_or("its default".into(), bytes_text)
    };
    let text = |name: &str| record.options.get(name).cloned().unwrap_or_else(|| "default".into());
    let exceptions: Vec<&str> = [
        ("lmdb", "LMDB maps its file and has none of the first four"),
        ("redb", "redb has one cache and neither filter nor compression"),
    ]
    .into_iter()
    .filter(|(name, _)| record.engines.iter().any(|engine| engine.name == *name))
    .map(|(_, exception)| exception)
    .collect();
    let exceptions = match exceptions.is_empty() {
        true => String::new(),
        false => format!(" ({})", exceptions.join("; ")),
    };
    format!(
        "a memtable of {}, a cache of {}, {} filter bits a key, {} compression and durability \
         {}{exceptions}",
        size("write_buffer_size"),
        size("cache_size"),
        text("bloom_bits"),
        text("compression"),
        text("durability"),
    )
}

fn cell_text(cell: &Cell, base: &str) -> String {
    let Some(micros) = cell.micros_per_op else { return "n/a".into() };
    let micros = micros_text(micros);
    match &cell.ratio {
        Some(Ratio { ratio, interval: Some((low, high)) }) if cell.engine != base => {
            let unclear = if *low <= 1.0 && *high >= 1.0 { " ~" } else { "" };
            format!("{micros} ({ratio:.2}×{unclear})")
        }
        Some(Ratio { ratio, interval: None }) if cell.engine != base => {
            format!("{micros} ({ratio:.2}×)")
        }
        _ => format!("**{micros}**"),
    }
}

fn write_amplification(record: &RunRecord, engine: &str) -> String {
    let total = totals(record).into_iter().find(|total| total.engine == engine);
    total
        .and_then(|total| total.write_amplification)
        .map_or("n/a".into(), |ratio| format!("{ratio:.2}"))
}

fn peak_memory(record: &RunRecord, engine: &str) -> String {
    let total = totals(record).into_iter().find(|total| total.engine == engine);
    total.and_then(|total| total.peak_memory_bytes).map_or("n/a".into(), bytes_text)
}

fn most_disk(record: &RunRecord, engine: &str) -> String {
    let total = totals(record).into_iter().find(|total| total.engine == engine);
    total.and_then(|total| total.disk_bytes_max).map_or("n/a".into(), bytes_text)
}

/// Draws all tasks' bars in one chart, in two columns.
fn picture(record: &RunRecord) -> String {
    let engines = engines(record);
    let height = engines.len() * 30 + 6 + NAME + 10;
    let tasks = by_task(record);
    let rows = tasks.len().div_ceil(2);
    let (width, whole) = (COLUMN * 2, rows * height);
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {whole}\" width=\"{width}\" \
         height=\"{whole}\"><style>{STYLE}</style><rect width=\"{width}\" height=\"{whole}\" \
         fill=\"#fbfaf7\"/>\n"
    );
    for (index, (label, group)) in tasks.iter().enumerate() {
        let (x, y) = (index % 2 * COLUMN, index / 2 * height);
        let _ = writeln!(
            text,
            "<text x=\"{}\" y=\"{}\" font-size=\"14\" font-weight=\"600\" fill=\"#1d2330\">{}, µs</text>",
            x + 12,
            y + NAME - 4,
            escape(label)
        );
        let drawn = bars(&group_bars(&engines, group), label);
        let place = format!("<svg x=\"{x}\" y=\"{}\" width=\"360\" ", y + NAME);
        text += &drawn.replacen("<svg ", &place, 1).replacen("data-height=\"", "height=\"", 1);
        text.push('\n');
    }
    text + "</svg>\n"
}

fn group_bars(engines: &[String], group: &[Cell]) -> Vec<Bar> {
    let bar = |(colour, name): (usize, &String)| {
        let cell = group.iter().find(|cell| cell.engine == *name)?;
        let low = cell.samples.iter().copied().fold(f64::INFINITY, f64::min);
        let high = cell.samples.iter().copied().fold(0.0, f64::max);
        Some(Bar {
            name: name.clone(),
            colour,
            value: cell.micros_per_op,
            spread: (high > 0.0).then_some((low, high)),
            text: cell.micros_per_op.map_or("n/a".into(), micros_text),
        })
    };
    engines.iter().enumerate().filter_map(bar).collect()
}
