//! Text reports: db_bench's header and rows, and the comparison of all engines.

use std::io::{self, Write};

use comfy_table::{CellAlignment, Table, presets};

use crate::record::env::utc_text;
use crate::record::schema::{EngineRecord, Machine, RunRecord, TaskSample, TransactionSample};
use crate::stats::compare::Ratio;
use crate::stats::summary::{Cell, cells, totals};

/// Formats a cell as a db_bench row: name, micros/op, MB/s if bytes are counted, found, error.
pub fn row(cell: &Cell) -> String {
    let name = &cell.label;
    let Some(micros) = cell.micros_per_op else {
        let empty = if cell.found == Some(0) { "the store is empty" } else { "not measured" };
        let why = cell.error.as_deref().unwrap_or(empty);
        return format!("{name:<12} : n/a ({why})");
    };
    let mut line = format!("{name:<12} : {micros:11.3} micros/op;");
    if let Some(rate) = cell.mb_per_sec {
        line.push_str(&format!(" {rate:6.1} MB/s"));
    }
    if let Some(found) = cell.found {
        line.push_str(&format!(" ({found} of {} found)", cell.operations));
    }
    if let Some(transactions) = cell.transactions {
        let TransactionSample { conflicts, attempts_max, .. } = transactions;
        line.push_str(&format!(" ({conflicts} conflicts, at most {attempts_max} attempts)"));
    }
    if let Some(nanos) = cell.transactions.and_then(|transactions| transactions.commit_nanos) {
        line.push_str(&format!(" ({nanos:.0} ns per commit)"));
    }
    if let Some(queue) = &cell.queue {
        let (first, last) = (queue.first_tenth_ops_per_sec, queue.last_tenth_ops_per_sec);
        line.push_str(&format!(" (first tenth {first:.0} ops/s, last tenth {last:.0})"));
    }
    if let Some(error) = &cell.error {
        line.push_str(&format!(" ERROR {error}"));
    }
    line
}

/// Formats the row of one sample, for progress messages.
pub fn sample_row(sample: &TaskSample) -> String {
    let rate = sample.user_bytes.filter(|_| sample.elapsed_seconds > 0.0);
    row(&Cell {
        label: sample.task.clone(),
        micros_per_op: sample.micros_per_op,
        mb_per_sec: rate.map(|bytes| bytes as f64 / 1_048_576.0 / sample.elapsed_seconds),
        found: sample.found,
        operations: sample.operations,
        transactions: sample.transactions,
        queue: sample.queue.clone(),
        error: sample.error.clone(),
        ..Cell::default()
    })
}

/// Writes db_bench's header: date, machine and data of the benchmark.
pub fn write_header(record: &RunRecord, out: &mut dyn Write) -> io::Result<()> {
    let machine = &record.machine;
    let work = &record.workload;
    let unknown = || "unknown".to_string();
    writeln!(out, "Date:       {} UTC", utc_text(record.started_unix_seconds))?;
    let cpu = machine.cpu_model.clone().unwrap_or_else(unknown);
    writeln!(out, "CPU:        {} * {cpu}", machine.cpu_count)?;
    writeln!(out, "CPUCache:   {}", machine.cpu_cache.clone().unwrap_or_else(unknown))?;
    writeln!(out, "System:     {}", system_line(record))?;
    writeln!(out, "Commit:     {}", commit_text(record.commit.as_deref(), record.commit_dirty))?;
    writeln!(out, "Data:       {} (fingerprint {})", work.source, work.fingerprint)?;
    writeln!(out, "Keys:       {:.0} bytes each, {} different", work.key_bytes_mean, work.keys)?;
    writeln!(out, "Values:     {:.0} bytes each", work.value_bytes_mean)?;
    writeln!(out, "Entries:    {}", work.rows)?;
    writeln!(out, "RawSize:    {:.1} MB (estimated)", work.raw_bytes as f64 / 1_048_576.0)?;
    for warning in &record.warnings {
        writeln!(out, "WARNING: {warning}")?;
    }
    Ok(())
}

/// Describes the commit of the measuring program, and whether its sources had changes.
pub fn commit_text(commit: Option<&str>, dirty: Option<bool>) -> String {
    let changes = if dirty == Some(true) { " with changes" } else { "" };
    commit.map_or_else(|| "unknown".into(), |commit| format!("{commit}{changes}"))
}

/// Describes distribution, kernel, memory and file system in one line.
pub fn system_line(record: &RunRecord) -> String {
    system_line_of(&record.machine)
}

/// Describes a machine as [`system_line`] does.
pub fn system_line_of(machine: &Machine) -> String {
    let memory = machine.memory_bytes.map(|bytes| format!("{} memory", bytes_text(bytes as f64)));
    let files = machine.file_system.as_ref().map(|name| format!("stores on {name}"));
    let parts = [machine.system.clone(), machine.kernel.clone(), memory, files];
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// Writes each engine's rows, with medians over the repetitions, after its settings.
pub fn write_rows(record: &RunRecord, out: &mut dyn Write) -> io::Result<()> {
    let cells = cells(record);
    for engine in &record.engines {
        let of_engine: Vec<&Cell> = cells.iter().filter(|c| c.engine == engine.name).collect();
        writeln!(out, "------------------------------------------------")?;
        writeln!(out, "{}", engine_line(engine))?;
        for cell in of_engine.iter().filter(|cell| cell.task != "stats") {
            writeln!(out, "{}", row(cell))?;
            if let Some(latency) = &cell.latency {
                let what = if cell.queue.is_some() { "pop" } else { "op" };
                write_latency(what, latency, out)?;
                if let Some(queue) = &cell.queue {
                    write_latency("push", &queue.push, out)?;
                }
                write_stalls(cell, out)?;
            }
        }
    }
    Ok(())
}

/// Describes an engine with name, description and settings, or the reason why it did not run.
pub fn engine_line(engine: &EngineRecord) -> String {
    let mut line = format!("Engine:     {}", engine.name);
    if let Some(description) = &engine.description {
        line.push_str(&format!(" - {description}"));
    }
    if !engine.given.is_empty() {
        let given: Vec<String> =
            engine.given.iter().map(|(name, value)| format!("{name}={value}")).collect();
        line.push_str(&format!("\nGiven:      {}", given.join(" ")));
    }
    if let Some(error) = &engine.error {
        line.push_str(&format!("\nERROR:      {error}"));
    }
    line
}

fn write_latency(
    what: &str,
    latency: &crate::measure::histogram::LatencySummary,
    out: &mut dyn Write,
) -> io::Result<()> {
    writeln!(out, "Microseconds per {what}:")?;
    writeln!(
        out,
        "Count: {}  Average: {:.4}  StdDev: {:.2}",
        latency.count, latency.mean_micros, latency.deviation_micros
    )?;
    writeln!(
        out,
        "Min: {:.4}  Median: {:.4}  Max: {:.4}",
        latency.min_micros, latency.p50_micros, latency.max_micros
    )?;
    writeln!(
        out,
        "P90: {:.3}  P99: {:.3}  P99.9: {:.3}  P99.99: {:.3}",
        latency.p90_micros, latency.p99_micros, latency.p999_micros, latency.p9999_micros
    )
}

/// Writes the number of intervals without a completed operation, and the machine's own pauses.
fn write_stalls(cell: &Cell, out: &mut dyn Write) -> io::Result<()> {
    if let Some(windows) = cell.empty_windows {
        writeln!(out, "Windows of 100 ms without an operation: {windows}")?;
    }
    let Some(idle) = cell.idle else { return Ok(()) };
    writeln!(
        out,
        "An idle thread's longest pause: {:.3}  P99.9: {:.3}",
        idle.max_micros, idle.p999_micros
    )
}

/// Writes the comparison: a line per task and engine, then each engine's totals.
pub fn write_comparison(record: &RunRecord, out: &mut dyn Write) -> io::Result<()> {
    let cells: Vec<Cell> = cells(record).into_iter().filter(|cell| cell.task != "stats").collect();
    let base = record.base_engine.as_deref().unwrap_or("none");
    writeln!(
        out,
        "\nMedians of {} repetition(s); ratio: operations per second divided by those of {base} \
         (above 1 is faster), with its 95 % interval",
        record.workload.repetitions
    )?;
    let ratio_head = format!("ratio to {base}");
    let mut table = plain_table(&[
        "task",
        "engine",
        "micros/op",
        "ops/s",
        &ratio_head,
        "interval",
        "write amp",
        "disk",
        "CPU s",
        "peak mem",
    ]);
    let mut before = String::new();
    for cell in &cells {
        let task = if cell.label == before { String::new() } else { cell.label.clone() };
        before.clone_from(&cell.label);
        table.add_row(vec![
            task,
            cell.engine.clone(),
            cell.micros_per_op.map_or_else(na, micros_text),
            cell.ops_per_sec.map_or_else(na, count_text),
            cell.ratio.map_or_else(na, |ratio| ratio_text(&ratio)),
            cell.ratio.map_or_else(na, |ratio| interval_text(&ratio)),
            cell.write_amplification.map_or_else(na, |ratio| format!("{ratio:.2}")),
            cell.disk_bytes.map_or_else(na, bytes_text),
            cell.cpu_seconds.map_or_else(na, |seconds| format!("{seconds:.2}")),
            cell.peak_memory_bytes.map_or_else(na, bytes_text),
        ]);
    }
    align_right(&mut table, 2);
    writeln!(out, "{table}")?;
    writeln!(out, "\nWhole rounds: all tasks of one engine, including the open and the close")?;
    let mut table = plain_table(&["engine", "write amp", "CPU s", "peak mem", "most disk"]);
    for total in totals(record) {
        table.add_row(vec![
            total.engine.clone(),
            total.write_amplification.map_or_else(na, |ratio| format!("{ratio:.2}")),
            total.cpu_seconds.map_or_else(na, |seconds| format!("{seconds:.2}")),
            total.peak_memory_bytes.map_or_else(na, bytes_text),
            total.disk_bytes_max.map_or_else(na, bytes_text),
        ]);
    }
    align_right(&mut table, 1);
    writeln!(out, "{table}")
}

/// Creates a table without lines.
pub fn plain_table(head: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(head.to_vec());
    table
}

/// Right-aligns the columns from index `from` on.
pub fn align_right(table: &mut Table, from: usize) {
    for column in table.column_iter_mut().skip(from) {
        column.set_cell_alignment(CellAlignment::Right);
    }
}

fn na() -> String {
    "n/a".into()
}

/// Formats microseconds with their significant digits.
pub fn micros_text(micros: f64) -> String {
    match micros {
        _ if micros >= 1000.0 => format!("{micros:.0}"),
        _ if micros >= 10.0 => format!("{micros:.1}"),
        _ => format!("{micros:.3}"),
    }
}

/// Formats a count with thousands separators.
pub fn count_text(count: f64) -> String {
    let digits = format!("{:.0}", count.max(0.0));
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Formats a ratio: `1.00` for the base engine; `1.23`; `1.23 ~` if the interval shows no
/// difference; `1.23 ?` if there is no interval because there is only one run.
pub fn ratio_text(ratio: &Ratio) -> String {
    let mark = match ratio.interval {
        None => " ?",
        Some(_) if !ratio.shows_difference() && ratio.ratio != 1.0 => " ~",
        Some(_) => "",
    };
    match ratio.ratio {
        small if small < 0.095 => format!("{small:.3}{mark}"),
        plain => format!("{plain:.2}{mark}"),
    }
}

/// Formats an interval as `0.98..1.41`; empty without an interval.
pub fn interval_text(ratio: &Ratio) -> String {
    if ratio.is_base() {
        return String::new();
    }
    ratio.interval.map_or(String::new(), |(low, high)| format!("{low:.2}..{high:.2}"))
}

/// Formats bytes in a readable unit.
pub fn bytes_text(bytes: f64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut rest = bytes;
    let mut unit = 0;
    while rest >= 1024.0 && unit + 1 < units.len() {
        rest /= 1024.0;
        unit += 1;
    }
    if unit == 0 { format!("{rest:.0} B") } else { format!("{rest:.1} {}", units[unit]) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_match_db_bench_format() {
        let mut cell = Cell {
            label: "fillrandom".into(),
            micros_per_op: Some(2.345),
            mb_per_sec: Some(47.2),
            ..Cell::default()
        };
        assert_eq!(row(&cell), "fillrandom   :       2.345 micros/op;   47.2 MB/s");
        cell.micros_per_op = None;
        assert_eq!(row(&cell), "fillrandom   : n/a (not measured)");
    }

    #[test]
    fn numbers_are_human_readable() {
        assert_eq!(count_text(1234567.0), "1,234,567");
        assert_eq!(count_text(12.0), "12");
        assert_eq!(bytes_text(1536.0), "1.5 KiB");
        assert_eq!(micros_text(0.12345), "0.123");
        let ratio = Ratio { ratio: 1.1, interval: Some((0.9, 1.3)) };
        assert_eq!(
            (ratio_text(&ratio), interval_text(&ratio)),
            ("1.10 ~".into(), "0.90..1.30".into())
        );
        let base = (ratio_text(&Ratio::BASE), interval_text(&Ratio::BASE));
        assert_eq!(base, ("1.00".into(), String::new()));
        let once = Ratio { ratio: 0.2, interval: None };
        assert_eq!((ratio_text(&once), interval_text(&once)), ("0.20 ?".into(), String::new()));
    }
}
