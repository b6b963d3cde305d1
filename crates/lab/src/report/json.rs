//! One JSON object per line for each engine and task; null for values not measured.

use std::io::{self, Write};

use serde_json::{Value, json};

use crate::record::schema::RunRecord;
use crate::stats::summary::{BASE_ENGINE, Cell, cells};

/// Writes the lines.
pub fn write_lines(record: &RunRecord, out: &mut dyn Write) -> io::Result<()> {
    let to_esker = record.base_engine.as_deref() == Some(BASE_ENGINE);
    for mut cell in cells(record) {
        cell.ratio = cell.ratio.filter(|_| to_esker);
        writeln!(out, "{}", line(&cell))?;
    }
    for engine in &record.engines {
        let measured = record.samples.iter().any(|sample| sample.engine == engine.name);
        if let (Some(error), false) = (&engine.error, measured) {
            let blank = Cell { engine: engine.name.clone(), ..Cell::default() };
            let mut object = line(&blank);
            object["task"] = Value::Null;
            object["operations"] = Value::Null;
            object["error"] = json!(error);
            writeln!(out, "{object}")?;
        }
    }
    Ok(())
}

fn line(cell: &Cell) -> Value {
    json!({
        "engine": cell.engine,
        "task": cell.task,
        "micros_per_op": cell.micros_per_op,
        "ops_per_sec": cell.ops_per_sec,
        "ratio_to_esker": cell.ratio.map(|ratio| ratio.ratio),
        "ratio_interval": cell.ratio.and_then(|ratio| ratio.interval),
        "write_amplification": cell.write_amplification,
        "found": cell.found,
        "samples": cell.samples,
        "conflicts": cell.transactions.map(|transactions| transactions.conflicts),
        "attempts_max": cell.transactions.map(|transactions| transactions.attempts_max),
        "commit_nanos": cell.transactions.and_then(|transactions| transactions.commit_nanos),
        "queue": cell.queue,
        "operations": cell.operations,
        "label": cell.label,
        "mb_per_sec": cell.mb_per_sec,
        "disk_bytes": cell.disk_bytes,
        "cpu_seconds": cell.cpu_seconds,
        "peak_memory_bytes": cell.peak_memory_bytes,
        "latency_micros": cell.latency,
        "windows_of_100_ms_without_an_operation": cell.empty_windows,
        "idle_thread_longest_pause_micros": cell.idle.map(|idle| idle.max_micros),
        "not_available": cell.not_available,
        "error": cell.error,
    })
}
