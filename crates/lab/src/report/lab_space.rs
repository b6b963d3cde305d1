//! The page's charts of space: bytes on disk per byte of live pairs over the seconds of a phase, a
//! figure for each series and phase, and a line for each engine and varied option.

use std::fmt::Write;

use super::axes::Span;
use super::html::escape;
use super::lab_charts::legend;
use super::lines::{Axes, Line, lines, values};
use super::sizes::Sizes;
use super::table::{align_right, plain_table};
use crate::experiment::check::{Experiment, phase_labels};
use crate::record::lab::LabRecord;
use crate::record::schema::TaskSample;

/// One phase of a series: its title and lines.
struct Figure {
    title: String,
    lines: Vec<Line>,
}

/// Returns the ratio over time, in seconds; empty without samples or live pairs.
fn ratios(sample: &TaskSample) -> Vec<(f64, f64)> {
    let live = sample.live_bytes.filter(|&live| live > 0 && sample.error.is_none());
    let (Some(space), Some(live)) = (&sample.space, live) else { return Vec::new() };
    let ratio = |&(ms, bytes): &(u64, u64)| (ms as f64 / 1000.0, bytes as f64 / live as f64);
    space.samples.iter().map(ratio).collect()
}

/// Returns the figures of the first repetition, in the experiment's order.
fn figures(experiment: &Experiment, record: &LabRecord) -> Vec<Figure> {
    let mut figures = Vec::new();
    for series in experiment.file.series.iter().map(|series| series.get_ref()) {
        let sizes = Sizes::of(experiment, series, record);
        for phase in phase_labels(series) {
            let mut drawn = Vec::new();
            for own in record.samples.iter().filter(|own| {
                let is_first = own.sample.repetition == 0 && !own.sample.hidden;
                is_first && own.phase == phase && record.points[own.point].series == series.name
            }) {
                let points = ratios(&own.sample);
                if points.is_empty() {
                    continue;
                }
                let place = sizes.place(series, record, (own.point, own.step.as_deref()));
                let name = format!("{}{place}", own.sample.engine);
                let style = drawn.len();
                drawn.push(Line { name, style, reported: false, points, spreads: Vec::new() });
            }
            if !drawn.is_empty() {
                let title = format!("{phase}: {}", series.name);
                figures.push(Figure { title, lines: drawn });
            }
        }
    }
    figures
}

/// Returns whether [`pictures`] draws anything.
pub fn is_drawn(experiment: &Experiment, record: &LabRecord) -> bool {
    !figures(experiment, record).is_empty()
}

/// Draws the figures, all on one scale.
pub fn pictures(page: &mut String, experiment: &Experiment, record: &LabRecord) {
    let figures = figures(experiment, record);
    if figures.is_empty() {
        return;
    }
    page.push_str(
        "<h2 id=\"space\">Space over time</h2><p class=\"soft\">Blocks on disk divided by the bytes \
         of the live pairs at the end of the phase, first repetition. All pictures share one \
         scale.</p>\n<div class=\"grid\">\n",
    );
    let all: Vec<f64> = figures.iter().flat_map(|figure| values(&figure.lines)).collect();
    let span = Span::of(all.into_iter(), f64::INFINITY, true);
    for figure in &figures {
        let title = escape(&figure.title);
        let _ = write!(page, "<figure><figcaption>{title}</figcaption>");
        legend(page, figure.lines.iter().map(|line| (line.style, line.name.as_str(), false)));
        let y = "disk / live data";
        let axes = Axes { x: "seconds", y, y_span: Some(span), ..Axes::default() };
        let most: Vec<String> = figure.lines.iter().map(most_text).collect();
        let label = format!("{}: {}", figure.title, most.join("; "));
        let _ = writeln!(page, "{}</figure>", lines(&figure.lines, &axes, &label));
    }
    page.push_str("</div>\n");
}

fn most_text(line: &Line) -> String {
    format!("{} at most {:.2}", line.name, most(line))
}

fn most(line: &Line) -> f64 {
    line.points.iter().map(|point| point.1).fold(0.0, f64::max)
}

/// Writes the lines as text for a terminal: the largest and the last ratio of each.
pub fn write_space(
    experiment: &Experiment,
    record: &LabRecord,
    out: &mut dyn std::io::Write,
) -> std::io::Result<()> {
    let figures = figures(experiment, record);
    if figures.is_empty() {
        return Ok(());
    }
    let mut table =
        plain_table(&["space over time", "engine", "samples", "seconds", "most", "at the end"]);
    for figure in &figures {
        for line in &figure.lines {
            let last = line.points.last().copied().unwrap_or_default();
            table.add_row(vec![
                figure.title.clone(),
                line.name.clone(),
                line.points.len().to_string(),
                format!("{:.1}", last.0),
                format!("{:.2}", most(line)),
                format!("{:.2}", last.1),
            ]);
        }
    }
    align_right(&mut table, 2);
    writeln!(out, "\n{table}")
}
