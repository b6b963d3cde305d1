//! The page: one HTML file with embedded style and pictures, readable without a network.

use std::fmt::Write;

use super::lab_charts::legend;
use super::lab_time::{Curve, nines};
use super::page_text::{METHOD_AUTHORS, METHOD_BYTES, METHOD_RATIOS, METHOD_ROUNDS, STYLE};
use super::plot::{Bar, bars};
use super::table::{
    bytes_text, commit_text, count_text, interval_text, micros_text, ratio_text, system_line,
};
use crate::record::env::utc_text;
use crate::record::schema::RunRecord;
use crate::stats::summary::{Cell, EngineTotal, cells, totals};

/// Renders the whole page.
pub fn page(record: &RunRecord) -> String {
    let mut page = String::new();
    let title = title(record);
    begin(&mut page, &title);
    head(&mut page, record, &title);
    sections(&mut page, record);
    end(&mut page);
    page
}

/// Writes the beginning of a page, up to its first heading.
pub(super) fn begin(page: &mut String, title: &str) {
    let _ = write!(
        page,
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
         <title>{title}</title><style>{STYLE}</style></head><body><main>\n"
    );
}

/// Writes the end of a page, with the description of the method.
pub(super) fn end(page: &mut String) {
    let _ = writeln!(
        page,
        "<h2>How it was measured</h2>{METHOD_ROUNDS}{METHOD_RATIOS}{METHOD_BYTES}{METHOD_AUTHORS}\
         </main></body></html>"
    );
}

/// Writes all sections of a record except the heading.
pub(super) fn sections(page: &mut String, record: &RunRecord) {
    let cells: Vec<Cell> = cells(record).into_iter().filter(|cell| cell.task != "stats").collect();
    speed(page, record, &cells);
    latencies(page, record, &cells);
    amplification(page, record, &cells);
    whole_rounds(page, record, &totals(record));
    comparison(page, record, &cells);
    engines(page, record);
    samples(page, &cells);
}

/// Escapes text for HTML and its attributes.
pub fn escape(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            _ => safe.push(c),
        }
    }
    safe
}

pub(super) fn title(record: &RunRecord) -> String {
    let ran = |name: &str| record.samples.iter().any(|sample| sample.engine == name);
    let names: Vec<String> =
        record.engines.iter().filter(|e| ran(&e.name)).map(|e| escape(&e.name)).collect();
    match names.split_first() {
        None => "No engine ran".into(),
        Some((one, [])) => format!("{one}, measured"),
        Some((first, rest)) => format!("{first} beside {}", rest.join(", ")),
    }
}

pub(super) fn head(page: &mut String, record: &RunRecord, title: &str) {
    let work = &record.workload;
    let _ = write!(
        page,
        "<h1>{title}</h1><p class=\"soft\">{} UTC · {:.0} s · {} repetition(s) · {} thread(s)</p>",
        utc_text(record.started_unix_seconds),
        record.elapsed_seconds,
        work.repetitions,
        work.threads
    );
    let _ = write!(
        page,
        "<p>{} pairs ({}), keys of {:.0} bytes, values of {:.0} bytes, {} in all.</p>",
        count_text(work.rows as f64),
        escape(&work.source),
        work.key_bytes_mean,
        work.value_bytes_mean,
        bytes_text(work.raw_bytes as f64)
    );
    if work.bad_rows > 0 {
        let _ = write!(page, "<p>{} bad rows of the file were skipped.</p>", work.bad_rows);
    }
    for warning in &record.warnings {
        let _ = write!(page, "<p class=\"warn\">{}</p>", escape(warning));
    }
    for engine in &record.engines {
        if let Some(error) = &engine.error {
            let name = escape(&engine.name);
            let _ = write!(page, "<p class=\"warn\">{name}: {}</p>", escape(error));
        }
    }
}

fn colour(record: &RunRecord, engine: &str) -> usize {
    record.engines.iter().position(|e| e.name == engine).unwrap_or(0)
}

fn spread(samples: &[f64]) -> Option<(f64, f64)> {
    let low = samples.iter().copied().fold(f64::INFINITY, f64::min);
    let high = samples.iter().copied().fold(0.0, f64::max);
    (samples.len() > 1).then_some((low, high))
}

fn by_task(cells: &[Cell]) -> Vec<&[Cell]> {
    cells.chunk_by(|left, right| left.label == right.label).collect()
}

fn figure(page: &mut String, name: &str, about: &str, picture: &[Bar], unit: &str) {
    let values: Vec<String> =
        picture.iter().map(|bar| format!("{} {}", bar.name, bar.text)).collect();
    let label = format!("{name}, {unit}: {}", values.join("; "));
    let _ = writeln!(
        page,
        "<figure><figcaption>{}<small>{}</small></figcaption>{}</figure>",
        escape(name),
        escape(about),
        bars(picture, &label)
    );
}

fn about(task: &str) -> &'static str {
    let row = crate::workload::tasks::TASKS.iter().find(|row| row.name == task);
    row.map_or("", |row| row.about)
}

fn speed(page: &mut String, record: &RunRecord, cells: &[Cell]) {
    page.push_str(
        "<h2>Time of one operation</h2><p class=\"soft\">Microseconds, shorter is better; each \
         picture has its own scale.</p><div class=\"grid\">\n",
    );
    for task in by_task(cells) {
        let bar = |cell: &Cell| Bar {
            name: cell.engine.clone(),
            colour: colour(record, &cell.engine),
            value: cell.micros_per_op,
            spread: spread(&cell.samples),
            text: cell.micros_per_op.map_or("n/a".into(), |m| format!("{} µs", micros_text(m))),
        };
        let picture: Vec<Bar> = task.iter().map(bar).collect();
        figure(page, &task[0].label, about(&task[0].task), &picture, "microseconds per operation");
    }
    page.push_str("</div>\n");
}

/// Writes the latencies of single operations, if histograms were requested.
fn latencies(page: &mut String, record: &RunRecord, cells: &[Cell]) {
    let timed = |task: &&[Cell]| task.iter().any(|cell| cell.latency.is_some());
    let tasks: Vec<&[Cell]> = by_task(cells).into_iter().filter(timed).collect();
    if tasks.is_empty() {
        return;
    }
    page.push_str(
        "<h2>Latency</h2><p class=\"soft\">Microseconds of single operations by percentile, first \
         repetition; lower is better.</p>",
    );
    let names = record.engines.iter().map(|engine| engine.name.as_str());
    legend(page, names.map(|name| (colour(record, name), name, false)));
    page.push_str("<div class=\"grid\">\n");
    for task in tasks {
        let curve = |cell: &Cell| {
            let latency = cell.latency.as_ref()?;
            Some((cell.engine.clone(), colour(record, &cell.engine), latency.curve.clone()))
        };
        let curves: Vec<Curve> = task.iter().filter_map(curve).collect();
        let most = |cell: &Cell| {
            let latency = cell.latency.as_ref()?;
            Some(format!("{} {} µs", cell.engine, micros_text(latency.max_micros)))
        };
        let slowest: Vec<String> = task.iter().filter_map(most).collect();
        let _ = writeln!(
            page,
            "<figure><figcaption>{}<small>slowest: {}</small></figcaption>{}</figure>",
            escape(&task[0].label),
            escape(&slowest.join(", ")),
            nines(&task[0].label, curves, None)
        );
    }
    page.push_str("</div>\n");
}

fn amplification(page: &mut String, record: &RunRecord, cells: &[Cell]) {
    let written = |task: &&[Cell]| task.iter().any(|cell| cell.write_amplification.is_some());
    let tasks: Vec<&[Cell]> = by_task(cells).into_iter().filter(written).collect();
    if tasks.is_empty() {
        return;
    }
    page.push_str(
        "<h2>Write amplification</h2><p class=\"soft\">Bytes written per byte the user wrote, up \
         to the end of the task; shorter is better.</p><div class=\"grid\">\n",
    );
    for task in tasks {
        let bar = |cell: &Cell| Bar {
            name: cell.engine.clone(),
            colour: colour(record, &cell.engine),
            value: cell.write_amplification,
            spread: None,
            text: cell.write_amplification.map_or("n/a".into(), |ratio| format!("{ratio:.2}")),
        };
        let picture: Vec<Bar> = task.iter().map(bar).collect();
        figure(page, &task[0].label, about(&task[0].task), &picture, "write amplification");
    }
    page.push_str("</div>\n");
}

type Measure = (&'static str, &'static str, fn(&EngineTotal) -> Option<f64>, fn(f64) -> String);

fn whole_rounds(page: &mut String, record: &RunRecord, totals: &[EngineTotal]) {
    let measures: [Measure; 4] = [
        (
            "Write amplification",
            "all tasks and the close",
            |total| total.write_amplification,
            |ratio| format!("{ratio:.2}"),
        ),
        ("CPU", "seconds of all threads", |total| total.cpu_seconds, |s| format!("{s:.1} s")),
        ("Peak memory", "maximum during a task", |total| total.peak_memory_bytes, bytes_text),
        ("Disk", "maximum after a task", |total| total.disk_bytes_max, bytes_text),
    ];
    page.push_str(
        "<h2>Whole rounds</h2><p class=\"soft\">All tasks of an engine together; shorter is \
         better.</p><div class=\"grid\">\n",
    );
    for (name, about, of, text) in measures {
        let bar = |total: &EngineTotal| Bar {
            name: total.engine.clone(),
            colour: colour(record, &total.engine),
            value: of(total),
            spread: None,
            text: of(total).map_or("n/a".into(), text),
        };
        let picture: Vec<Bar> = totals.iter().map(bar).collect();
        figure(page, name, about, &picture, about);
    }
    page.push_str("</div>\n");
}

fn comparison(page: &mut String, record: &RunRecord, cells: &[Cell]) {
    let base = escape(record.base_engine.as_deref().unwrap_or("none"));
    let _ = writeln!(
        page,
        "<h2>All figures</h2><p class=\"soft\">Ratio: operations per second divided by those of \
         {base}; above 1 is faster than {base}.</p><div \
         class=\"scroll\"><table><tr><th>task</th><th>engine</th><th class=\"n\">µs/op</th><th \
         class=\"n\">ops/s</th><th class=\"n\">ratio</th><th class=\"n\">95 % interval</th><th \
         class=\"n\">write amp</th><th class=\"n\">disk</th><th class=\"n\">CPU s</th><th \
         class=\"n\">peak memory</th><th class=\"n\">found</th><th>note</th></tr>"
    );
    for task in by_task(cells) {
        for (index, cell) in task.iter().enumerate() {
            let (first, name) =
                if index == 0 { (" class=\"first\"", cell.label.as_str()) } else { ("", "") };
            let _ = writeln!(page, "<tr{first}><td>{}</td>{}</tr>", escape(name), figures(cell));
        }
    }
    page.push_str("</table></div>\n");
}

fn figures(cell: &Cell) -> String {
    let na = || "n/a".to_string();
    let mut row = format!("<td>{}</td>", escape(&cell.engine));
    let mark = match cell.ratio {
        Some(ratio) if ratio.shows_difference() && ratio.ratio > 1.0 => " good",
        Some(ratio) if ratio.shows_difference() => " bad",
        _ => "",
    };
    let numbers = [
        (cell.micros_per_op.map_or_else(na, micros_text), ""),
        (cell.ops_per_sec.map_or_else(na, count_text), ""),
        (cell.ratio.map_or_else(na, |ratio| ratio_text(&ratio)), mark),
        (cell.ratio.map_or_else(na, |ratio| interval_text(&ratio)), ""),
        (cell.write_amplification.map_or_else(na, |ratio| format!("{ratio:.2}")), ""),
        (cell.disk_bytes.map_or_else(na, bytes_text), ""),
        (cell.cpu_seconds.map_or_else(na, |seconds| format!("{seconds:.2}")), ""),
        (cell.peak_memory_bytes.map_or_else(na, bytes_text), ""),
        (cell.found.map_or_else(String::new, |found| count_text(found as f64)), ""),
    ];
    for (number, mark) in numbers {
        let _ = write!(row, "<td class=\"n{mark}\">{number}</td>");
    }
    let _ = write!(row, "<td>{}</td>", escape(cell.error.as_deref().unwrap_or("")));
    row
}

fn engines(page: &mut String, record: &RunRecord) {
    page.push_str(
        "<h2>What each was given</h2><div class=\"scroll\"><table><tr><th>engine</th>\
         <th>version</th><th>checksums</th><th>settings</th></tr>\n",
    );
    for engine in &record.engines {
        let given: Vec<String> =
            engine.given.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let checksums = match engine.capabilities {
            Some(can) if can.checksums => "yes",
            Some(_) => "no",
            None => "n/a",
        };
        let _ = writeln!(
            page,
            "<tr><td>{}</td><td class=\"wrap\">{}</td><td>{checksums}</td>\
             <td class=\"wrap\">{}</td></tr>",
            escape(&engine.name),
            escape(engine.description.as_deref().unwrap_or("did not run")),
            escape(&given.join(" · "))
        );
    }
    let machine = &record.machine;
    let commit = commit_text(record.commit.as_deref(), record.commit_dirty);
    let flags: Vec<String> =
        record.options.iter().map(|(name, value)| format!("--{name}={value}")).collect();
    let _ = writeln!(
        page,
        "</table></div><h2>Where</h2><dl><dt>processor</dt><dd>{} × {}</dd><dt>system</dt>\
         <dd>{}</dd><dt>commit</dt><dd>{}</dd><dt>seed</dt><dd>{}</dd><dt>data</dt>\
         <dd>fingerprint {}</dd><dt>flags</dt><dd>{}</dd></dl>",
        machine.cpu_count,
        escape(machine.cpu_model.as_deref().unwrap_or("unknown")),
        escape(&system_line(record)),
        escape(&commit),
        record.seed,
        escape(&record.workload.fingerprint),
        escape(&flags.join(" "))
    );
}

fn samples(page: &mut String, cells: &[Cell]) {
    page.push_str(
        "<details><summary>Raw samples, microseconds per operation</summary><div \
         class=\"scroll\"><table><tr><th>task</th><th>engine</th><th>samples</th></tr>\n",
    );
    for cell in cells {
        let samples: Vec<String> =
            cell.samples.iter().map(|micros| format!("{micros:.3}")).collect();
        let _ = writeln!(
            page,
            "<tr><td>{}</td><td>{}</td><td>{}</td></tr>",
            escape(&cell.label),
            escape(&cell.engine),
            samples.join("  ")
        );
    }
    page.push_str("</table></div></details>\n");
}
