//! The page's charts of time: throughput per tenth of a second with stalls shaded, and latencies on
//! an axis of nines.

use std::fmt::Write;

use super::axes::{LOG_FROM, Span};
use super::html::escape;
use super::lab_charts::{Range, grouped, legend};
use super::lab_html::{Whos, colour};
use super::lab_text::number;
use super::lines::{Axes, Line, Tick, lines};
use super::sizes::Sizes;
use super::table::{align_right, micros_text};
use crate::experiment::check::{Experiment, phase_labels};
use crate::measure::histogram::LatencySummary;
use crate::measure::timeline::{BUCKET_MS, Timeline};
use crate::record::lab::LabRecord;
use crate::record::schema::TaskSample;
use crate::stats::unit::Unit;

/// Minimum number of tenths of a second that are drawn.
const BUCKETS_MIN: usize = 8;

/// One phase at the last point of its series: each engine's first sample.
struct PhaseSamples<'a> {
    title: String,
    samples: Vec<&'a TaskSample>,
}

/// Draws both kinds of charts, and the table of percentiles.
pub fn pictures(page: &mut String, experiment: &Experiment, record: &LabRecord, whos: &Whos) {
    let phases = phases(experiment, record);
    let timed = |phase: &&PhaseSamples<'_>| phase.samples.iter().any(|s| long(s));
    if phases.iter().any(|phase| timed(&phase)) {
        page.push_str(
            "<h2 id=\"time\">Throughput over time</h2><p class=\"soft\">Operations in each tenth \
             of a second, first repetition, last point of each series; shaded in an engine's \
             colour where its throughput is below a tenth of its median. Pictures in one block \
             share the scale of throughput.</p>\n",
        );
        marks(page, &phases, whos);
        let timed: Vec<&PhaseSamples<'_>> = phases.iter().filter(timed).collect();
        let most: Vec<Range> =
            timed.iter().map(|phase| Some((rate_most(phase), rate_most(phase)))).collect();
        for group in grouped(&most, SHARED_RATES_MAX) {
            let most = group.iter().map(|&place| rate_most(timed[place])).fold(0.0, f64::max);
            let span = Span::of([0.0, most].into_iter(), f64::INFINITY, true);
            page.push_str("<div class=\"grid\">\n");
            for phase in group.iter().map(|&place| timed[place]) {
                figure(page, &phase.title, &over_time(phase, whos, span));
            }
            page.push_str("</div>\n");
        }
    }
    let with_latency: Vec<&PhaseSamples<'_>> =
        phases.iter().filter(|phase| phase.samples.iter().any(|s| s.latency.is_some())).collect();
    if with_latency.is_empty() {
        return;
    }
    page.push_str(
        "<h2 id=\"latency\">Latency</h2><p class=\"soft\">Microseconds of single operations by \
         percentile, on an axis of nines. All pictures share one time scale.</p>\n",
    );
    marks(page, &phases, whos);
    page.push_str("<div class=\"grid\">\n");
    let curves = with_latency.iter().flat_map(|phase| &phase.samples);
    let micros: Vec<f64> = curves
        .filter_map(|sample| sample.latency.as_ref())
        .flat_map(|latency| latency.curve.iter().map(|&(_, micros)| micros))
        .collect();
    let span = Span::of(micros.into_iter(), LOG_FROM, true);
    for phase in &with_latency {
        figure(page, &phase.title, &phase_nines(phase, whos, span));
    }
    page.push_str("</div>\n");
    percentiles(page, &with_latency);
}

/// Returns whether [`pictures`] draws throughput over time, and whether it draws latency.
pub fn sections(experiment: &Experiment, record: &LabRecord) -> (bool, bool) {
    let phases = phases(experiment, record);
    let any = |is: fn(&TaskSample) -> bool| {
        phases.iter().any(|phase| phase.samples.iter().any(|sample| is(sample)))
    };
    (any(long), any(|sample| sample.latency.is_some()))
}

fn phases<'a>(experiment: &Experiment, record: &'a LabRecord) -> Vec<PhaseSamples<'a>> {
    let mut found = Vec::new();
    for series in experiment.file.series.iter().map(|series| series.get_ref()) {
        let last = record.points.iter().rposition(|point| point.series == series.name);
        let Some(last) = last else { continue };
        let own = record.samples.iter().filter(|s| s.point == last && s.sample.repetition == 0);
        let step = own.clone().filter_map(|s| s.step.as_deref()).next_back();
        let place = Sizes::of(experiment, series, record).place(series, record, (last, step));
        for phase in phase_labels(series) {
            let of_phase = own.clone().filter(|s| s.phase == phase && s.step.as_deref() == step);
            let samples: Vec<&TaskSample> =
                of_phase.map(|s| &s.sample).filter(|s| !s.hidden && s.error.is_none()).collect();
            if !samples.is_empty() {
                let title = format!("{phase}: {}{place}", series.name);
                found.push(PhaseSamples { title, samples });
            }
        }
    }
    found
}

fn long(sample: &TaskSample) -> bool {
    sample.timeline.as_ref().is_some_and(|timeline| timeline.operations.len() >= BUCKETS_MIN)
}

fn figure(page: &mut String, title: &str, picture: &str) {
    let _ = writeln!(page, "<figure><figcaption>{}</figcaption>{picture}</figure>", escape(title));
}

/// Writes the legend of the engines in the phases.
fn marks(page: &mut String, phases: &[PhaseSamples<'_>], whos: &Whos) {
    let engines = phases.iter().flat_map(|phase| &phase.samples).map(|s| s.engine.as_str());
    let mut names: Vec<&str> = Vec::new();
    for engine in engines {
        if !names.contains(&engine) {
            names.push(engine);
        }
    }
    legend(page, names.iter().map(|name| (colour(whos, name), *name, false)));
}

/// Maximum ratio of peak throughputs for phases with a shared scale.
const SHARED_RATES_MAX: f64 = 6.0;

/// Returns the complete tenths of a second, without the incomplete last one.
fn whole(timeline: &Timeline) -> &[u32] {
    &timeline.operations[..timeline.operations.len().saturating_sub(1)]
}

/// Returns the peak of any engine, in thousands of operations per second over a tenth of a second.
fn rate_most(phase: &PhaseSamples<'_>) -> f64 {
    let timelines = phase.samples.iter().filter_map(|sample| sample.timeline.as_ref());
    let drawn = timelines.flat_map(whole);
    let most = drawn.copied().max();
    f64::from(most.unwrap_or(0).max(1)) / BUCKET_MS as f64
}

fn over_time(phase: &PhaseSamples<'_>, whos: &Whos, span: Span) -> String {
    let second = |bucket: usize| bucket as f64 * BUCKET_MS as f64 / 1000.0;
    let mut all = Vec::new();
    let mut axes = Axes { x: "seconds", y: "kops/s", y_span: Some(span), ..Axes::default() };
    let mut descriptions = Vec::new();
    for sample in &phase.samples {
        let Some(timeline) = &sample.timeline else { continue };
        let own = colour(whos, &sample.engine);
        let rate = |count: u32| f64::from(count) / BUCKET_MS as f64;
        let counts = whole(timeline).iter().enumerate();
        let points = counts.map(|(bucket, &count)| (second(bucket), rate(count))).collect();
        let name = sample.engine.clone();
        all.push(Line { name, style: own, reported: false, points, spreads: Vec::new() });
        let stalls = timeline.stalls();
        descriptions.push(stall_text(sample));
        axes.shaded.extend(stalls.iter().map(|&(from, to)| (second(from), second(to), own)));
    }
    let mut picture = lines(&all, &axes, &format!("{}: {}", phase.title, descriptions.join("; ")));
    for line in descriptions {
        let _ = write!(picture, "<small>{}</small><br>", escape(&line));
    }
    picture
}

/// Describes an engine's stalls, and the machine's own pauses at the same time, in one sentence.
fn stall_text(sample: &TaskSample) -> String {
    let parts = STALLS.iter().filter_map(|(name, of)| Some(format!("{name} {}", of(sample)?)));
    format!("{}: {}", sample.engine, parts.collect::<Vec<_>>().join(", "))
}

type StallPart = (&'static str, fn(&TaskSample) -> Option<String>);

/// Stall figures of a sample, with the pauses of a sleeping thread for comparison.
const STALLS: &[StallPart] = &[
    ("longest operation, ms", |sample| Unit::SlowestMs.of(sample).map(number)),
    ("windows of 100 ms without an operation", |sample| {
        Unit::EmptyWindows.of(sample).map(|windows| format!("{windows:.0}"))
    }),
    ("stalled s", |sample| Some(format!("{:.1}", sample.timeline.as_ref()?.stalled_seconds()))),
    ("an idle thread's p99.9, ms", |sample| Unit::IdleP999Ms.of(sample).map(number)),
    ("its longest pause, ms", |sample| Unit::IdleMaxMs.of(sample).map(number)),
];

/// Writes stalls as text for a terminal: the engine's beside the machine's own.
pub fn write_stalls(
    experiment: &Experiment,
    record: &LabRecord,
    out: &mut dyn std::io::Write,
) -> std::io::Result<()> {
    let mut head = vec!["stalls", "engine"];
    head.extend(STALLS.iter().map(|(name, _)| *name));
    let mut table = super::table::plain_table(&head);
    let mut any = false;
    for phase in phases(experiment, record) {
        for sample in phase.samples.iter().filter(|sample| sample.timeline.is_some()) {
            any = true;
            let mut row = vec![phase.title.clone(), sample.engine.clone()];
            row.extend(STALLS.iter().map(|(_, of)| of(sample).unwrap_or_else(|| "n/a".into())));
            table.add_row(row);
        }
    }
    align_right(&mut table, 2);
    if any { writeln!(out, "\n{table}") } else { Ok(()) }
}

fn phase_nines(phase: &PhaseSamples<'_>, whos: &Whos, span: Span) -> String {
    let curve = |sample: &&TaskSample| {
        let latency = sample.latency.as_ref()?;
        Some((sample.engine.clone(), colour(whos, &sample.engine), latency.curve.clone()))
    };
    nines(&phase.title, phase.samples.iter().filter_map(curve).collect(), Some(span))
}

/// An engine's latencies: name, colour, and curve of operation shares with their latencies.
pub(super) type Curve = (String, usize, Vec<(f64, f64)>);

/// Draws latencies over the share of operations that is no slower, on an axis of nines.
pub(super) fn nines(title: &str, curves: Vec<Curve>, y_span: Option<Span>) -> String {
    let place = |share: f64| -(1.0 - share).log10();
    let marks = ["0", "p90", "p99", "p99.9", "p99.99", "p99.999", "p99.9999"];
    let line = |(name, style, curve): Curve| {
        let points = curve.iter().map(|&(share, micros)| (place(share), micros)).collect();
        Line { name, style, reported: false, points, spreads: Vec::new() }
    };
    let all: Vec<Line> = curves.into_iter().map(line).collect();
    let most = all.iter().flat_map(|line| &line.points).map(|point| point.0).fold(0.0, f64::max);
    let tick = |(nine, text): (usize, &&str)| Tick {
        at: nine as f64,
        text: (*text).to_string(),
        below: None,
    };
    let ticks: Vec<Tick> = marks.iter().enumerate().map(tick).filter(|t| t.at <= most).collect();
    let axes = Axes { x: "percentile", y: "µs", ticks, y_span, ..Axes::default() };
    lines(&all, &axes, &format!("latency of {title}"))
}

type Percentile = (&'static str, fn(&LatencySummary) -> f64);

const PERCENTILES: &[Percentile] = &[
    ("p50", |latency| latency.p50_micros),
    ("p90", |latency| latency.p90_micros),
    ("p99", |latency| latency.p99_micros),
    ("p99.9", |latency| latency.p999_micros),
    ("p99.99", |latency| latency.p9999_micros),
    ("max", |latency| latency.max_micros),
];

fn percentiles(page: &mut String, phases: &[&PhaseSamples<'_>]) {
    page.push_str(
        "<details><summary>Percentiles, in microseconds</summary><div class=\"scroll\"><table>\
         <tr><th>phase</th><th>engine</th>",
    );
    for (name, _) in PERCENTILES {
        let _ = write!(page, "<th class=\"n\">{name}</th>");
    }
    page.push_str("<th class=\"n\">arriving/s</th>");
    for (name, _) in STALLS {
        let _ = write!(page, "<th class=\"n\">{}</th>", escape(name));
    }
    page.push_str("</tr>\n");
    for phase in phases {
        for sample in &phase.samples {
            let Some(latency) = &sample.latency else { continue };
            let _ = write!(
                page,
                "<tr><td>{}</td><td>{}</td>",
                escape(&phase.title),
                escape(&sample.engine)
            );
            for (_, of) in PERCENTILES {
                let _ = write!(page, "<td class=\"n\">{}</td>", micros_text(of(latency)));
            }
            let rate = sample.rate_per_second.map_or(String::new(), |rate| format!("{rate:.0}"));
            let _ = write!(page, "<td class=\"n\">{rate}</td>");
            for (_, of) in STALLS {
                let text = of(sample).unwrap_or_default();
                let _ = write!(page, "<td class=\"n\">{text}</td>");
            }
            page.push_str("</tr>\n");
        }
    }
    page.push_str("</table></div></details>\n");
}

/// Writes the percentiles as text for a terminal.
pub fn write_percentiles(
    experiment: &Experiment,
    record: &LabRecord,
    out: &mut dyn std::io::Write,
) -> std::io::Result<()> {
    let mut table = super::table::plain_table(&["latency, µs", "engine"]);
    let mut head = vec!["latency, µs".to_string(), "engine".to_string()];
    head.extend(PERCENTILES.iter().map(|(name, _)| (*name).to_string()));
    table.set_header(head);
    let mut any = false;
    for phase in phases(experiment, record) {
        for sample in &phase.samples {
            let Some(latency) = &sample.latency else { continue };
            any = true;
            let mut row = vec![phase.title.clone(), sample.engine.clone()];
            row.extend(PERCENTILES.iter().map(|(_, of)| micros_text(of(latency))));
            table.add_row(row);
        }
    }
    align_right(&mut table, 2);
    if any { writeln!(out, "\n{table}") } else { Ok(()) }
}
