//! The leading tables of a benchmark with several terms: one table per record, tasks by engines.
//!
//! Invariants:
//! 1. A table states its terms and the settings given to the engines.
//! 2. The fastest engine of a row is marked only among engines with correct results.

use std::fmt::Write as _;
use std::io::{self, Write};

use super::html::{begin, end, escape, head, sections, title};
use super::table::{
    align_right, bytes_text, commit_text, micros_text, plain_table, ratio_text, system_line,
};
use crate::record::schema::RunRecord;
use crate::run::config::{Terms, bytes_of};
use crate::stats::summary::{Cell, EngineTotal, cells, totals};

/// A record's leading table.
struct Sheet<'a> {
    record: &'a RunRecord,
    title: &'static str,
    about: String,
    engines: Vec<&'a str>,
    rows: Vec<Row>,
}

/// A line of a table: its name, and a figure per engine.
struct Row {
    name: String,
    figures: Vec<Figure>,
}

#[derive(Default)]
struct Figure {
    text: String,
    /// Whether it is the best of its row.
    best: bool,
}

impl Sheet<'_> {
    fn of(record: &RunRecord) -> Sheet<'_> {
        let ran = |name: &str| record.samples.iter().any(|sample| sample.engine == name);
        let engines: Vec<&str> = record
            .engines
            .iter()
            .map(|engine| engine.name.as_str())
            .filter(|name| ran(name))
            .collect();
        let cells: Vec<Cell> =
            cells(record).into_iter().filter(|cell| cell.task != "stats").collect();
        let of_task = |task: &[Cell]| time_row(task, &engines);
        let mut rows: Vec<Row> =
            cells.chunk_by(|left, right| left.label == right.label).map(of_task).collect();
        let totals = totals(record);
        for (name, of, text) in MEASURES {
            rows.push(total_row(name, &totals, &engines, *of, *text));
        }
        let (title, about) = terms(record);
        Sheet { record, title, about, engines, rows }
    }
}

/// An engine's description of its durability contains these words if a killed process
/// loses writes.
const LOSES_WITH_PROCESS: &str = "a killed process loses";

type Measure = (&'static str, fn(&EngineTotal) -> Option<f64>, fn(f64) -> String);

const MEASURES: &[Measure] = &[
    ("write amplification", |total| total.write_amplification, |ratio| format!("{ratio:.2}")),
    ("peak resident memory", |total| total.peak_memory_bytes, bytes_text),
    ("most on disk", |total| total.disk_bytes_max, bytes_text),
];

/// Returns a table's title, and a description of its terms.
fn terms(record: &RunRecord) -> (&'static str, String) {
    let (title, mut about) = own_terms(record);
    let weaker: Vec<&str> = record
        .engines
        .iter()
        .filter(|engine| {
            let durability = engine.given.iter().find(|(name, _)| name == "durability");
            durability.is_some_and(|(_, value)| value.contains(LOSES_WITH_PROCESS))
        })
        .map(|engine| engine.name.as_str())
        .collect();
    if !weaker.is_empty() {
        about += &format!(
            " The durability of {} is weaker: a killed process loses recent writes, which need not \
             have reached a file when a task ends.",
            weaker.join(" and ")
        );
    }
    (title, about)
}

fn own_terms(record: &RunRecord) -> (&'static str, String) {
    let option = |name: &str| record.options.get(name).map_or("its own", String::as_str);
    let durability = option("durability");
    if option("terms") == Terms::Shipped.name() {
        let about = format!(
            "Every engine keeps its own defaults; only durability ({durability}) is the same for all."
        );
        return ("As shipped", about);
    }
    let size = |name: &str| {
        let bytes = bytes_of(option(name)).filter(|_| option(name) != "-1");
        bytes.map_or_else(|| "its default".into(), |bytes| bytes_text(bytes as f64))
    };
    let bits = match option("bloom_bits") {
        "0" | "-1" => "no filter".to_string(),
        bits => format!("{bits} filter bits per key if the engine has a filter"),
    };
    let about = format!(
        "Each engine gets {} of memtable and {} of cache (without a memtable: one cache of both \
         sizes), {bits}, {} compression if available, and durability {durability}. LMDB maps its \
         file and takes no limit; compare its resident memory with that of the others.",
        size("write_buffer_size"),
        size("cache_size"),
        option("compression"),
    );
    ("Equal memory", about)
}

fn time_row(task: &[Cell], engines: &[&str]) -> Row {
    let right = |cell: &&Cell| cell.error.is_none() && cell.micros_per_op.is_some();
    let fastest =
        task.iter().filter(right).filter_map(|cell| cell.micros_per_op).min_by(f64::total_cmp);
    let figure = |engine: &&str| {
        let Some(cell) = task.iter().find(|cell| cell.engine == *engine) else {
            return Figure::default();
        };
        let Some(micros) = cell.micros_per_op else {
            return Figure { text: "n/a".into(), best: false };
        };
        let beside = cell.ratio.filter(|ratio| !ratio.is_base());
        let beside = beside.map_or(String::new(), |ratio| format!(" ({})", ratio_text(&ratio)));
        let text = match &cell.error {
            None => format!("{}{beside}", micros_text(micros)),
            Some(_) => format!("{} WRONG", micros_text(micros)),
        };
        Figure { text, best: cell.error.is_none() && Some(micros) == fastest }
    };
    Row { name: task[0].label.clone(), figures: engines.iter().map(figure).collect() }
}

fn total_row(
    name: &str,
    totals: &[EngineTotal],
    engines: &[&str],
    of: fn(&EngineTotal) -> Option<f64>,
    text: fn(f64) -> String,
) -> Row {
    let least = totals.iter().filter_map(of).min_by(f64::total_cmp);
    let figure = |engine: &&str| {
        let value = totals.iter().find(|total| total.engine == *engine).and_then(of);
        Figure { text: value.map_or("n/a".into(), text), best: value.is_some() && value == least }
    };
    Row { name: name.into(), figures: engines.iter().map(figure).collect() }
}

/// Describes the conditions common to all tables.
fn common(record: &RunRecord) -> String {
    let work = &record.workload;
    let base = record.base_engine.as_deref().unwrap_or("none");
    format!(
        "Microseconds per operation, {} pairs of {:.0} + {:.0} bytes, {} thread(s), medians of {} \
         interleaved round(s) of each engine. In brackets: speed as a multiple of {base}'s; ~ means \
         no significant difference at 95 %, ? means no interval, because there was one round.",
        work.rows, work.key_bytes_mean, work.value_bytes_mean, work.threads, work.repetitions
    )
}

/// Writes the tables as text; the best figure of each row has a `*`.
pub fn write(records: &[&RunRecord], out: &mut dyn Write) -> io::Result<()> {
    let Some(first) = records.first() else { return Ok(()) };
    writeln!(out, "{}\nThe best of each row has a *.", common(first))?;
    writeln!(out, "{}", system_line(first))?;
    writeln!(out, "commit {}", commit_text(first.commit.as_deref(), first.commit_dirty))?;
    for record in records {
        let sheet = Sheet::of(record);
        writeln!(out, "\n{}\n{}", sheet.title, sheet.about)?;
        for warning in &record.warnings {
            writeln!(out, "WARNING: {warning}")?;
        }
        for engine in &record.engines {
            if let Some(error) = &engine.error {
                writeln!(out, "{}: {error}", engine.name)?;
            }
        }
        let mut heads = vec!["µs/op"];
        heads.extend(&sheet.engines);
        let mut table = plain_table(&heads);
        for row in &sheet.rows {
            let mut line = vec![row.name.clone()];
            let mark =
                |figure: &Figure| format!("{}{}", figure.text, if figure.best { "*" } else { "" });
            line.extend(row.figures.iter().map(mark));
            table.add_row(line);
        }
        align_right(&mut table, 1);
        writeln!(out, "{table}")?;
    }
    Ok(())
}

/// Renders the page: every record's table, then all details of each record.
pub fn page(records: &[&RunRecord]) -> String {
    let mut page = String::new();
    let Some(first) = records.first() else { return page };
    let title = title(first);
    begin(&mut page, &title);
    head(&mut page, first, &title);
    let _ = writeln!(page, "<p>{} The best of each row is bold.</p>", escape(&common(first)));
    for record in records {
        let sheet = Sheet::of(record);
        html_table(&mut page, &sheet);
    }
    for record in records {
        let (title, about) = terms(record);
        let open = format!("<details><summary>{title}: every figure and picture</summary>");
        let _ = writeln!(page, "{open}<p class=\"soft\">{}</p>", escape(&about));
        sections(&mut page, record);
        page.push_str("</details>\n");
    }
    end(&mut page);
    page
}

fn html_table(page: &mut String, sheet: &Sheet<'_>) {
    let _ =
        writeln!(page, "<h2>{}</h2><p class=\"soft\">{}</p>", sheet.title, escape(&sheet.about));
    page.push_str("<div class=\"scroll\"><table><tr><th>µs/op</th>");
    for engine in &sheet.engines {
        let _ = write!(page, "<th class=\"n\">{}</th>", escape(engine));
    }
    page.push_str("</tr>\n");
    for row in &sheet.rows {
        let _ = write!(page, "<tr><td>{}</td>", escape(&row.name));
        for figure in &row.figures {
            let (open, close) = if figure.best { ("<b>", "</b>") } else { ("", "") };
            let _ = write!(page, "<td class=\"n\">{open}{}{close}</td>", escape(&figure.text));
        }
        page.push_str("</tr>\n");
    }
    page.push_str("</table></div>\n");
    for engine in &sheet.record.engines {
        if let Some(error) = &engine.error {
            let name = escape(&engine.name);
            let _ = writeln!(page, "<p class=\"soft\">{name}: {}</p>", escape(error));
        }
    }
}
