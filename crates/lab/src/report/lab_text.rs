//! An experiment's report as text: terminal tables, Markdown or CSV.

use std::io::{self, Write};

use comfy_table::{Table, presets};

use super::grid::{Figure, Grid, SeriesView, base_of_series, views};
use super::sizes::{ran_text, share_text};
use super::table::{align_right, bytes_text, count_text, ratio_text};
use crate::experiment::check::Experiment;
use crate::record::env::utc_text;
use crate::record::lab::{LabRecord, PointRecord};

/// Form of the tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Terminal tables.
    Terminal,
    /// Markdown tables.
    Markdown,
}

/// Writes the whole report.
pub fn write(
    experiment: &Experiment,
    record: &LabRecord,
    form: Form,
    out: &mut dyn Write,
) -> io::Result<()> {
    write_with(experiment, record, form, &mut |_| None, out)
}

/// Writes the whole report, and below a view's heading the lines that `below` returns for it.
pub fn write_with(
    experiment: &Experiment,
    record: &LabRecord,
    form: Form,
    below: &mut dyn FnMut(&SeriesView<'_>) -> Option<String>,
    out: &mut dyn Write,
) -> io::Result<()> {
    let mark = |text: &str| if form == Form::Markdown { text.to_string() } else { String::new() };
    writeln!(out, "{}{}", mark("# "), experiment.file.title)?;
    writeln!(out, "{}\n", circumstances(experiment, record))?;
    for warning in &record.warnings {
        writeln!(out, "warning: {warning}")?;
    }
    for engine in &record.engines {
        if let Some(error) = &engine.error {
            writeln!(out, "{}: n/a ({error})", engine.name)?;
        }
    }
    for point in record.points.iter().filter(|point| point.not_available.is_some()) {
        writeln!(out, "{}", left_out(point))?;
    }
    super::lab_claims::write_claims(experiment, record, form, out)?;
    let mut bases: Vec<&str> = Vec::new();
    for view in views(experiment, record) {
        let base = base_of_series(record, &view.series.name).unwrap_or("none");
        if !bases.contains(&base) {
            bases.push(base);
        }
        writeln!(out, "\n{}{}, {}", mark("## "), view.series.name, view.unit.name())?;
        if !view.series.about.is_empty() {
            writeln!(out, "{}", view.series.about)?;
        }
        if let Some(about) = view.unit.about() {
            writeln!(out, "{about}")?;
        }
        if let Some(brackets) = brackets(&view, base) {
            writeln!(out, "{brackets}")?;
        }
        let ran = ran_text(experiment, record, &view.series.name);
        for line in ran.into_iter().chain(limits(record, &view.series.name)) {
            writeln!(out, "{line}")?;
        }
        if let Some(lines) = below(&view) {
            writeln!(out, "\n{lines}")?;
        }
        for grid in view.grids() {
            if !grid.title.is_empty() {
                writeln!(out, "\n{}{}", mark("**"), grid.title.clone() + &mark("**"))?;
            }
            writeln!(out, "{}", table(&view, &grid, form))?;
        }
        notes(&view, out)?;
    }
    super::lab_time::write_percentiles(experiment, record, out)?;
    super::lab_time::write_stalls(experiment, record, out)?;
    super::lab_space::write_space(experiment, record, out)?;
    terms(experiment, record, out)?;
    let base = match bases.as_slice() {
        [one] => one,
        _ => "the base engine of the table",
    };
    writeln!(
        out,
        "\nIn brackets: above 1 is better than {base} at the same point, in the unit of the table; \
         ~ means no significant difference at 95 %, ? means no interval, because there was one \
         round. Reported figures are from other machines."
    )
}

/// Describes the values in brackets after a view's figures; `None` if there are none.
pub fn brackets(view: &SeriesView<'_>, base: &str) -> Option<String> {
    let any = view.figures.iter().any(|figure| figure.ratio.is_some());
    let (better, over) = match view.unit.more_is_better() {
        true => ("More", format!("this figure over {base}'s")),
        false => ("Less", format!("{base}'s figure over this one")),
    };
    any.then(|| format!("{better} is better. In brackets: {over}; above 1 is better than {base}."))
}

/// Writes the settings given to each engine, and its unequal conditions.
fn terms(experiment: &Experiment, record: &LabRecord, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "\nSettings at the first point; varied options differ at the other points:")?;
    for engine in &record.engines {
        let first = record.points.iter().find_map(|point| point.given.get(&engine.name));
        let Some(given) = first else { continue };
        let settings: Vec<String> =
            given.iter().map(|(name, value)| format!("{name}={value}")).collect();
        writeln!(out, "  {}: {}", engine.name, settings.join(" "))?;
        let own = super::lab_summary::own_options(experiment, &engine.name);
        for term in super::lab_summary::unequal(engine, given).into_iter().chain(own) {
            writeln!(out, "    not on equal terms: {term}")?;
        }
    }
    Ok(())
}

/// Describes the memory limits of the engines of a series.
pub fn limits(record: &LabRecord, series: &str) -> Vec<String> {
    let mut limits_found: Vec<(String, Vec<&str>)> = Vec::new();
    let own = record.sessions.iter().filter(|round| record.points[round.point].series == series);
    for session in own.map(|round| &round.session) {
        let Some(limit) = &session.memory_limit else { continue };
        let place =
            limits_found.iter().position(|(text, _)| text == limit).unwrap_or(limits_found.len());
        if place == limits_found.len() {
            limits_found.push((limit.clone(), Vec::new()));
        }
        if !limits_found[place].1.contains(&session.engine.as_str()) {
            limits_found[place].1.push(&session.engine);
        }
    }
    let line = |(text, engines): &(String, Vec<&str>)| {
        format!("Memory was limited for {}: {text}.", engines.join(", "))
    };
    limits_found.iter().map(line).collect()
}

/// Describes a point that was not measured, with the reason.
pub fn left_out(point: &PointRecord) -> String {
    let why = point.not_available.as_deref().unwrap_or_default();
    format!("{}, {} entries: n/a ({why})", point.series, count_text(point.entries as f64))
}

/// Returns a line with time, place and size of the measurements.
pub fn circumstances(experiment: &Experiment, record: &LabRecord) -> String {
    let machine = &record.machine;
    format!(
        "{} UTC, {:.0} s, {}, {} × {}, {}{}",
        utc_text(record.started_unix_seconds),
        record.elapsed_seconds,
        share_text(experiment, record),
        machine.cpu_count,
        machine.cpu_model.as_deref().unwrap_or("unknown processor"),
        machine.memory_bytes.map_or(String::new(), |bytes| bytes_text(bytes as f64) + ", "),
        machine.file_system.as_deref().unwrap_or("unknown file system"),
    )
}

fn table(view: &SeriesView<'_>, grid: &Grid, form: Form) -> Table {
    let mut table = Table::new();
    let markdown = form == Form::Markdown;
    table.load_style(if markdown { presets::ASCII_MARKDOWN } else { presets::NOTHING });
    let mut head = vec![view.sizes.axis(&view.rows)];
    head.extend(grid.columns.iter().cloned());
    table.set_header(head);
    for (name, cells) in &grid.rows {
        let mut row = vec![name.clone()];
        row.extend(cells.iter().map(|cell| cell.as_ref().map_or(String::new(), cell_text)));
        table.add_row(row);
    }
    align_right(&mut table, 1);
    table
}

/// Formats a figure with its ratio to the base engine.
pub fn cell_text(figure: &Figure) -> String {
    let Some(value) = figure.value else { return "n/a".into() };
    match figure.ratio {
        Some(ratio) => format!("{} ({})", number(value), ratio_text(&ratio)),
        None => number(value),
    }
}

/// Formats a number with its significant digits.
pub fn number(value: f64) -> String {
    match value.abs() {
        size if size >= 10_000.0 => count_text(value),
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        size if size >= 1.0 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

fn notes(view: &SeriesView<'_>, out: &mut dyn Write) -> io::Result<()> {
    let mut lines: Vec<String> = Vec::new();
    for figure in &view.figures {
        let Some(note) = &figure.note else { continue };
        let line = format!("{}, {}: {note}", figure.who, figure.phase);
        if !lines.contains(&line) {
            writeln!(out, "  {line}")?;
            lines.push(line);
        }
    }
    Ok(())
}

/// Writes every figure as a row of CSV.
pub fn write_csv(
    experiment: &Experiment,
    record: &LabRecord,
    out: &mut dyn Write,
) -> io::Result<()> {
    let mut csv = csv::Writer::from_writer(out);
    csv.write_record([
        "series",
        "params",
        "entries",
        "bytes",
        "document_entries",
        "phase",
        "who",
        "source",
        "unit",
        "median",
        "low",
        "high",
        "samples",
        "ratio_to_base",
        "ratio_low",
        "ratio_high",
        "note",
    ])?;
    for view in views(experiment, record) {
        for figure in &view.figures {
            csv.write_record(csv_row(&view, figure))?;
        }
    }
    csv.flush()
}

fn csv_row(view: &SeriesView<'_>, figure: &Figure) -> Vec<String> {
    let params: Vec<String> =
        figure.params.iter().map(|(name, value)| format!("{name}={value}")).collect();
    let count = |value: Option<u64>| value.map_or(String::new(), |value| value.to_string());
    let text = |value: Option<f64>| value.map_or(String::new(), |value| value.to_string());
    let low = figure.samples.iter().copied().reduce(f64::min);
    let high = figure.samples.iter().copied().reduce(f64::max);
    let interval = figure.ratio.and_then(|ratio| ratio.interval);
    vec![
        view.series.name.clone(),
        params.join(" "),
        count(figure.entries),
        count(figure.bytes),
        count(figure.document_entries),
        figure.phase.clone(),
        figure.who.clone(),
        if figure.reported { "reported" } else { "measured" }.into(),
        view.unit.name().into(),
        text(figure.value),
        text(low),
        text(high),
        figure.samples.len().to_string(),
        text(figure.ratio.map(|ratio| ratio.ratio)),
        text(interval.map(|(low, _)| low)),
        text(interval.map(|(_, high)| high)),
        figure.note.clone().unwrap_or_default(),
    ]
}
