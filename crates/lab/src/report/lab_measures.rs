//! Second part of the page: the costs of the phases other than time.

use std::fmt::Write;

use super::axes::{LOG_FROM, Span};
use super::dots::{Dot, Row, dots, values};
use super::html::escape;
use super::lab_html::{Whos, colour};
use super::sizes::Sizes;
use super::table::bytes_text;
use crate::experiment::check::Experiment;
use crate::measure::quiet::Quiet;
use crate::record::lab::LabRecord;
use crate::record::schema::SessionRecord;
use crate::stats::compare::median;

type Measure = (&'static str, &'static str, fn(&Round<'_>) -> Option<f64>, fn(f64) -> String);

const MEASURES: &[Measure] = &[
    (
        "Write amplification",
        "bytes written per byte the user wrote, including the close",
        |round| round.session.write_amplification,
        |ratio| format!("{ratio:.2}"),
    ),
    (
        "Write amplification, quiet",
        "the same after the background work has ended, before the close",
        |round| round.quiet.and_then(|quiet| quiet.write_amplification),
        |ratio| format!("{ratio:.2}"),
    ),
    (
        "Space amplification",
        "bytes on disk per byte of live pairs, after the background work has ended",
        |round| round.quiet.and_then(|quiet| quiet.space_amplification),
        |ratio| format!("{ratio:.2}"),
    ),
    (
        "Read amplification",
        "bytes read by system calls per byte the user read or wrote; memory-mapped reads are not \
         counted",
        |round| round.session.read_amplification,
        |ratio| format!("{ratio:.2}"),
    ),
    (
        "CPU seconds",
        "of all threads",
        |round| round.session.used.map(|used| used.cpu_seconds),
        |seconds| format!("{seconds:.2}"),
    ),
];

/// A round, and the engine's state when quiet.
struct Round<'a> {
    session: &'a SessionRecord,
    quiet: Option<Quiet>,
}

/// Returns the rounds of an engine at a point.
fn rounds<'a>(record: &'a LabRecord, point: usize, engine: &'a str) -> Vec<Round<'a>> {
    let own = record.sessions.iter().filter(|t| t.point == point && t.session.engine == engine);
    let round = |session: &'a SessionRecord| {
        let mut samples = record.samples.iter().filter(|sample| {
            let own = &sample.sample;
            sample.point == point
                && own.engine == engine
                && own.repetition == session.repetition
                && own.quiet.is_some()
        });
        Round { session, quiet: samples.next().and_then(|sample| sample.sample.quiet) }
    };
    own.map(|t| round(&t.session)).collect()
}

/// Draws whole rounds: one picture per measure, with a row per series.
pub fn measures(page: &mut String, experiment: &Experiment, record: &LabRecord, whos: &Whos) {
    if record.sessions.is_empty() {
        return;
    }
    page.push_str(
        "<h2 id=\"rounds\">Whole rounds</h2><p class=\"soft\">All phases of an engine together, medians \
         of the rounds, at the last point of each series; less is better.</p>\n",
    );
    let names = record.measured_engines();
    let marks = names.iter().map(|name| (colour(whos, name), *name, false));
    super::lab_charts::legend(page, marks);
    page.push_str("<div class=\"grid\">\n");
    for (name, about, of, text) in MEASURES {
        let mut rows = Vec::new();
        for series in experiment.file.series.iter().map(|series| series.get_ref()) {
            let last = record.points.iter().rposition(|point| point.series == series.name);
            let Some(last) = last else { continue };
            let dot = |engine: &&str| {
                let own = rounds(record, last, engine);
                let value = median(&own.iter().filter_map(of).collect::<Vec<f64>>());
                Dot {
                    style: colour(whos, engine),
                    value,
                    spread: None,
                    text: value.map_or("n/a".into(), text),
                    reported: false,
                }
            };
            let ran = |engine: &&&str| !rounds(record, last, engine).is_empty();
            let dots: Vec<Dot> = names.iter().filter(ran).map(dot).collect();
            if dots.iter().any(|dot| dot.value.is_some()) {
                let place =
                    Sizes::of(experiment, series, record).place(series, record, (last, None));
                rows.push(Row { label: format!("{}{place}", series.name), dots });
            }
        }
        if rows.is_empty() {
            continue;
        }
        let span = Span::of(values(&rows), LOG_FROM, true);
        let _ = writeln!(
            page,
            "<figure><figcaption>{name}<small>{about}</small></figcaption>{}</figure>",
            dots(&rows, span, &name.to_lowercase(), name)
        );
    }
    page.push_str("</div>\n");
    memory_and_disk(page, record);
}

fn memory_and_disk(page: &mut String, record: &LabRecord) {
    page.push_str(
        "<div class=\"scroll\"><table><tr><th>engine</th><th class=\"n\">most memory of any phase\
         </th><th class=\"n\">most disk after any phase</th><th class=\"n\">most files</th></tr>\n",
    );
    for engine in record.measured_engines() {
        let most = |of: fn(&crate::record::schema::TaskSample) -> Option<u64>| {
            let own = record.samples.iter().filter(|s| s.sample.engine == engine);
            own.filter_map(|s| of(&s.sample)).max()
        };
        let bytes = |value: Option<u64>| value.map_or("n/a".into(), |v| bytes_text(v as f64));
        let files = most(|sample| sample.disk_files).map_or("n/a".into(), |n| n.to_string());
        let _ = writeln!(
            page,
            "<tr><td>{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"n\">{files}</td></tr>",
            escape(engine),
            bytes(most(|sample| sample.peak_memory_bytes)),
            bytes(most(|sample| sample.disk_bytes)),
        );
    }
    page.push_str("</table></div>\n");
}
