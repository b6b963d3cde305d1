//! The summary at the top of the page: the whole experiment in one table, the triangle of reading,
//! writing and space, and unequal conditions of engines.

use std::fmt::Write;

use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, VPos};

use super::grid::{SeriesView, base_engine, speeds};
use super::html::escape;
use super::lab_html::{Whos, colour};
use super::lab_text::number;
use super::plot::{Bar, GRID, INK, SOFT, bars, engine_colour, recolour};
use crate::experiment::check::Experiment;
use crate::experiment::plan::applies;
use crate::record::lab::LabRecord;
use crate::record::schema::EngineRecord;
use crate::stats::compare::median;

/// One engine, summarized over all its measurements.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EngineSummary {
    /// Name of the engine.
    pub engine: String,
    /// Geometric mean of the speed ratio to the base engine; `None` for the base, or without a
    /// ratio.
    pub speed: Option<f64>,
    /// Number of places where it is faster, slower, and without a significant difference.
    pub places: [usize; 3],
    /// Geometric mean of the ratio of its read times to the fastest engine's.
    pub read: Option<f64>,
    /// Median write amplification when quiet.
    pub write: Option<f64>,
    /// Median space amplification when quiet.
    pub space: Option<f64>,
}

fn geometric(values: &[f64]) -> Option<f64> {
    let sum: f64 = values.iter().map(|value| value.ln()).sum();
    (!values.is_empty()).then(|| (sum / values.len() as f64).exp())
}

/// Returns the summary of every measured engine, in order.
pub fn summaries(record: &LabRecord, views: &[SeriesView<'_>]) -> Vec<EngineSummary> {
    let engines = record.measured_engines();
    let reads = reads(record, &engines);
    let summary = |(index, engine): (usize, &&str)| {
        let mut summary =
            EngineSummary { engine: (*engine).to_string(), ..EngineSummary::default() };
        let mut seen: Vec<&str> = Vec::new();
        let mut ratios = Vec::new();
        for view in views {
            // A series shown in several units is counted once, by its speed.
            if seen.contains(&view.series.name.as_str()) {
                continue;
            }
            seen.push(&view.series.name);
            for ratio in speeds(view.series, record, engine) {
                ratios.push(ratio.ratio);
                let place = match ratio.shows_difference() {
                    true if ratio.ratio > 1.0 => 0,
                    true => 1,
                    false => 2,
                };
                summary.places[place] += 1;
            }
        }
        summary.speed = geometric(&ratios);
        summary.read = geometric(&reads[index]);
        let quiet: Vec<_> = record
            .samples
            .iter()
            .filter(|s| s.sample.engine == *engine)
            .filter_map(|s| s.sample.quiet)
            .collect();
        let middle = |values: Vec<f64>| median(&values);
        summary.write =
            middle(quiet.iter().filter_map(|quiet| quiet.write_amplification).collect());
        summary.space =
            middle(quiet.iter().filter_map(|quiet| quiet.space_amplification).collect());
        summary
    };
    engines.iter().enumerate().map(summary).collect()
}

/// Returns, per engine, the ratios of its times in reading phases to the fastest times there.
fn reads(record: &LabRecord, engines: &[&str]) -> Vec<Vec<f64>> {
    let mut all = vec![Vec::new(); engines.len()];
    let mut seen: Vec<(usize, &str, Option<&str>)> = Vec::new();
    let only_reads = |s: &&crate::record::lab::LabSample| {
        let sample = &s.sample;
        sample.found.is_some() && sample.user_written_bytes == 0 && !sample.hidden
    };
    for first in record.samples.iter().filter(only_reads) {
        let place = (first.point, first.phase.as_str(), first.step.as_deref());
        if seen.contains(&place) {
            continue;
        }
        seen.push(place);
        let time = |engine: &&str| {
            let own = record.of(place.0, (place.1, place.2), engine).filter(|s| !s.failed());
            median(&own.filter_map(|s| s.micros_per_op).collect::<Vec<f64>>())
        };
        let times: Vec<Option<f64>> = engines.iter().map(time).collect();
        let best = times.iter().flatten().copied().fold(f64::INFINITY, f64::min);
        if times.iter().flatten().count() < 2 {
            continue;
        }
        for (own, time) in all.iter_mut().zip(times) {
            own.extend(time.filter(|_| best > 0.0).map(|time| time / best));
        }
    }
    all
}

/// Returns the unequal conditions of an engine, as sentences without a full stop.
pub fn unequal(engine: &EngineRecord, given: &[(String, String)]) -> Vec<String> {
    let mut terms = Vec::new();
    let Some(can) = engine.capabilities else { return terms };
    let own =
        |name: &str| given.iter().find(|(own, _)| own == name).map(|(_, value)| value.as_str());
    if !can.persistent {
        terms.push("stores nothing on a disk".to_string());
    } else {
        match own("durability") {
            Some(text) if text.contains("loses") || text.starts_with("none") => {
                terms.push(format!("not crash-safe with these settings ({text})"));
            }
            _ if !can.sync => terms.push("cannot sync a write".into()),
            _ => {}
        }
        if !can.checksums {
            terms.push("no checksums: less work on each read and write".into());
        }
    }
    if own("compression")
        .is_some_and(|text| text.contains("not offered") || text.contains("not built"))
    {
        terms.push("stores values uncompressed, while others may compress".into());
    }
    if !can.concurrent_writers {
        terms.push("one writer at a time".into());
    }
    terms
}

/// Returns the options that the experiment gives only to `engine`; `None` if there are none.
pub fn own_options(experiment: &Experiment, engine: &str) -> Option<String> {
    let file = &experiment.file;
    let series = file.series.iter().map(|series| &series.get_ref().options);
    let all = std::iter::once(&file.options).chain(series).flatten();
    let mut own: Vec<String> = Vec::new();
    for (name, value) in all {
        let Some((whose, name)) = name.get_ref().split_once('.') else { continue };
        let value = value.get_ref();
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_string);
        let text = format!("{name}={text}");
        if applies(whose, engine) && !own.contains(&text) {
            own.push(text);
        }
    }
    (!own.is_empty()).then(|| format!("own options: {}", own.join(" ")))
}

/// Writes the table, the bars and the triangle.
pub fn glance(page: &mut String, record: &LabRecord, views: &[SeriesView<'_>], whos: &Whos) {
    let all = summaries(record, views);
    let base = base_engine(record).unwrap_or("none");
    if all.len() < 2 {
        return;
    }
    page.push_str("<h2 id=\"glance\">At a glance</h2><div class=\"grid\">\n");
    let bar = |summary: &EngineSummary| Bar {
        name: summary.engine.clone(),
        colour: colour(whos, &summary.engine),
        value: if summary.engine == base { Some(1.0) } else { summary.speed },
        spread: None,
        text: match summary.speed {
            _ if summary.engine == base => "1".into(),
            Some(speed) => number(speed),
            None => "n/a".into(),
        },
    };
    let picture: Vec<Bar> = all.iter().map(bar).collect();
    let _ = writeln!(
        page,
        "<figure><figcaption>Speed relative to {base}<small>geometric mean over all places \
         measured for both; longer is faster</small></figcaption>{}</figure>",
        bars(&picture, &format!("speed relative to {base}"))
    );
    if let Some(picture) = triangle(&all, whos) {
        let _ = writeln!(
            page,
            "<figure><figcaption>Reading, writing, space<small>each on its own logarithmic axis, \
             the best in the middle: a smaller triangle costs less</small></figcaption>{picture}</figure>"
        );
    }
    page.push_str("</div>\n<div class=\"scroll\"><table><tr><th>engine</th>");
    for head in [
        "speed",
        "faster",
        "slower",
        "no significant difference",
        "reads, × the fastest",
        "write amplification",
        "space amplification",
    ] {
        let _ = write!(page, "<th class=\"n\">{head}</th>");
    }
    page.push_str("</tr>\n");
    for summary in &all {
        let text = |value: Option<f64>| value.map_or("n/a".into(), number);
        let own = summary.engine == base;
        let places = summary.places.map(|n| if own { "–".to_string() } else { n.to_string() });
        let speed = if own { "1".into() } else { text(summary.speed) };
        let _ =
            write!(page, "<tr><td>{}</td><td class=\"n\">{speed}</td>", escape(&summary.engine));
        let rest = [text(summary.read), text(summary.write), text(summary.space)];
        for cell in places.iter().chain(&rest) {
            let _ = write!(page, "<td class=\"n\">{cell}</td>");
        }
        page.push_str("</tr>\n");
    }
    page.push_str("</table></div>\n");
}

const WIDTH: u32 = 360;
const HEIGHT: u32 = 300;
const RADIUS: f64 = 104.0;
const CENTRE: (f64, f64) = (180.0, 172.0);

/// Directions and names of the three axes.
const CORNERS: [(f64, f64, &str); 3] =
    [(0.0, -1.0, "reading"), (0.866, 0.5, "writing"), (-0.866, 0.5, "space")];

/// Draws the triangle of the engines with all three values; `None` for fewer than two engines.
fn triangle(all: &[EngineSummary], whos: &Whos) -> Option<String> {
    let values = |summary: &EngineSummary| Some([summary.read?, summary.write?, summary.space?]);
    let whole: Vec<(&EngineSummary, [f64; 3])> =
        all.iter().filter_map(|summary| Some((summary, values(summary)?))).collect();
    if whole.len() < 2 {
        return None;
    }
    let end = |corner: usize, pick: fn(f64, f64) -> f64, from: f64| {
        whole.iter().map(|(_, values)| values[corner].max(1e-3)).fold(from, pick)
    };
    let spans: Vec<(f64, f64)> =
        (0..3).map(|c| (end(c, f64::min, f64::INFINITY), end(c, f64::max, 0.0))).collect();
    let place = |corner: usize, value: f64| {
        let (low, high) = spans[corner];
        let share = if high > low { (value.max(1e-3) / low).ln() / (high / low).ln() } else { 0.0 };
        let far = RADIUS * (0.22 + 0.78 * share);
        let (x, y, _) = CORNERS[corner];
        ((CENTRE.0 + x * far).round() as i32, (CENTRE.1 + y * far).round() as i32)
    };
    let mut text = String::new();
    {
        let root = SVGBackend::with_string(&mut text, (WIDTH, HEIGHT)).into_drawing_area();
        // Drawing into a string cannot fail for lack of space. An error leaves the picture empty.
        let _ = draw_triangle(&root, &whole, &spans, &place, whos);
        let _ = root.present();
    }
    let labels: Vec<String> = whole
        .iter()
        .map(|(summary, v)| {
            format!("{} {} {} {}", summary.engine, number(v[0]), number(v[1]), number(v[2]))
        })
        .collect();
    Some(recolour(&text, &format!("reading, writing, space: {}", labels.join("; ")), WIDTH))
}

type Area<'a> = DrawingArea<SVGBackend<'a>, plotters::coord::Shift>;

fn draw_triangle(
    root: &Area<'_>,
    whole: &[(&EngineSummary, [f64; 3])],
    spans: &[(f64, f64)],
    place: &dyn Fn(usize, f64) -> (i32, i32),
    whos: &Whos,
) -> Result<(), Box<dyn std::error::Error>> {
    let style = |colour: &'static RGBColor, size: i32| {
        super::axes::font(colour, size, HPos::Center, VPos::Center)
    };
    let centre = (CENTRE.0 as i32, CENTRE.1 as i32);
    for pick in [|span: &(f64, f64)| span.0, |span: &(f64, f64)| span.1] {
        let mut ring: Vec<(i32, i32)> =
            spans.iter().enumerate().map(|(corner, span)| place(corner, pick(span))).collect();
        ring.push(ring[0]);
        root.draw(&PathElement::new(ring, GRID.stroke_width(1)))?;
    }
    for (corner, (x, y, name)) in CORNERS.iter().enumerate() {
        let (low, high) = spans[corner];
        root.draw(&PathElement::new(vec![centre, place(corner, high)], GRID.stroke_width(1)))?;
        let far = RADIUS + if *y < 0.0 { 30.0 } else { 34.0 };
        let at = ((CENTRE.0 + x * far) as i32, (CENTRE.1 + y * far) as i32);
        root.draw(&Text::new((*name).to_string(), at, style(&INK, 14)))?;
        let range = format!("{} … {}", number(low), number(high));
        root.draw(&Text::new(range, (at.0, at.1 + 16), style(&SOFT, 12)))?;
    }
    for (summary, values) in whole {
        let style = colour(whos, &summary.engine);
        let colour = engine_colour(style);
        let corners: Vec<(i32, i32)> = (0..3).map(|corner| place(corner, values[corner])).collect();
        root.draw(&Polygon::new(corners.clone(), colour.mix(0.12).filled()))?;
        let mut ring = corners.clone();
        ring.push(corners[0]);
        super::axes::stroke(root, style, &ring, false)?;
        for corner in corners {
            super::axes::marker(root, style, corner, false)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::target::Capabilities;

    #[test]
    fn rum_triangle_needs_two_engines_with_all_three_costs() {
        let whos: Whos = vec![("esker".into(), false), ("lmdb".into(), false)];
        let summary = |engine: &str, read, write, space| EngineSummary {
            engine: engine.into(),
            read,
            write,
            space,
            ..EngineSummary::default()
        };
        let one = summary("esker", Some(2.0), Some(1.5), Some(1.1));
        let without = summary("lmdb", Some(1.0), None, Some(2.0));
        assert_eq!(triangle(&[one.clone(), without], &whos), None);
        let two = summary("lmdb", Some(1.0), Some(15.0), Some(2.0));
        let picture = triangle(&[one, two], &whos).expect("drawn");
        for part in ["reading", "writing", "space", "var(--e0)", "var(--e1)", "1.50 … 15.0"] {
            assert!(picture.contains(part), "{part} is missing: {picture}");
        }
        assert!(!picture.contains("\"#"), "{picture}");
        assert!(geometric(&[4.0, 1.0]).is_some_and(|mean| (mean - 2.0).abs() < 1e-9));
        assert_eq!(geometric(&[]), None);
    }

    #[test]
    fn options_of_one_engine_are_listed() {
        let text = "title = \"x\"\nengines = [\"reference\"]\n[options]\ncompression = \"none\"\n\
                    \"reference.depth\" = 7\n[[series]]\nname = \"a\"\ntasks = \"fillseq\"\n\
                    entries = 10\noptions = { \"reference.way\" = \"up\" }\n";
        let mut config = crate::BenchConfig::default();
        config.accept_engine_options("reference", ["depth", "way"]);
        let known = crate::experiment::check::Known { engines: &["reference", "other"], config };
        let experiment = Experiment::parse("x", text, &known).expect("right");
        let terms = own_options(&experiment, "reference").expect("some");
        assert_eq!(terms, "own options: depth=7 way=up");
        assert_eq!(own_options(&experiment, "other"), None);
    }

    #[test]
    fn unequal_settings_are_listed() {
        let engine = |sync, checksums| EngineRecord {
            name: "x".into(),
            description: None,
            capabilities: Some(Capabilities {
                sync,
                compact: true,
                checksums,
                concurrent_writers: true,
                persistent: true,
                transactions: true,
                merge: false,
                bulk_load: false,
            }),
            given: Vec::new(),
            error: None,
        };
        let given = |text: &str| vec![("durability".to_string(), text.to_string())];
        assert!(unequal(&engine(true, true), &given("sync=false")).is_empty());
        let terms = unequal(&engine(false, false), &given("none: no log"));
        assert!(
            terms[0].contains("not crash-safe") && terms[1].contains("no checksums"),
            "{terms:?}"
        );
    }
}
