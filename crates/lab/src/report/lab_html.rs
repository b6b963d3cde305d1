//! An experiment's page: one HTML file with its pictures inside, readable without a network.

use std::fmt::Write;

use super::grid::{Figure, Grid, MEASURE, SeriesView, views};
use super::html::escape;
use super::lab_text::{cell_text, circumstances, left_out, limits, number};
use super::lines::{Axes, Line, lines, short};
use super::page_text::{LAB_METHOD, METHOD, STYLE};
use super::plot::{Bar, COLOURS, bars};
use super::table::system_line_of;
use crate::experiment::check::Experiment;
use crate::record::lab::LabRecord;

/// The whole page.
pub fn page(experiment: &Experiment, record: &LabRecord) -> String {
    let mut page = String::new();
    let title = escape(&experiment.file.title);
    let _ = write!(
        page,
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
         <title>{title}</title><style>{STYLE}</style></head><body><main>\n<h1>{title}</h1>\
         <p class=\"soft\">{}</p><p>{}</p>",
        escape(&circumstances(record)),
        escape(&experiment.file.about)
    );
    if let Some(document) = &experiment.file.document {
        let _ = write!(page, "<p class=\"soft\">Repeats: {}</p>", escape(document));
    }
    warnings(&mut page, record);
    let views = views(experiment, record);
    let whos = whos(&views);
    contents(&mut page, experiment, record, &views);
    legend(&mut page, &whos);
    super::lab_glance::glance(&mut page, record, &views, &whos);
    for (index, view) in views.iter().enumerate() {
        let limits = limits(record, &view.series.name);
        series(&mut page, view, (index, &heading(&views, view)), &whos, &limits);
    }
    super::lab_time::pictures(&mut page, experiment, record, &whos);
    super::lab_measures::measures(&mut page, experiment, record, &whos);
    given(&mut page, experiment, record);
    let _ = writeln!(page, "<h2>How it was measured</h2>{LAB_METHOD}{METHOD}");
    page.push_str("</main></body></html>\n");
    page
}

/// What may have spoiled the run, and what could not be measured.
fn warnings(page: &mut String, record: &LabRecord) {
    for warning in &record.warnings {
        let _ = write!(page, "<p class=\"warn\">{}</p>", escape(warning));
    }
    let mut missing: Vec<String> = Vec::new();
    for engine in &record.engines {
        let error = engine.error.as_ref();
        missing.extend(error.map(|error| format!("{}: n/a ({error})", engine.name)));
    }
    missing
        .extend(record.points.iter().filter(|point| point.not_available.is_some()).map(left_out));
    if missing.is_empty() {
        return;
    }
    let _ = write!(
        page,
        "<details class=\"warn\"><summary>{} not measured</summary>",
        if missing.len() == 1 {
            "One thing was".into()
        } else {
            format!("{} things were", missing.len())
        }
    );
    for line in missing {
        let _ = write!(page, "<p>{}</p>", escape(&line));
    }
    page.push_str("</details>");
}

/// Where to find what on the page.
fn contents(
    page: &mut String,
    experiment: &Experiment,
    record: &LabRecord,
    views: &[SeriesView<'_>],
) {
    page.push_str("<nav><a href=\"#glance\">At a glance</a>");
    for (index, view) in views.iter().enumerate() {
        let _ = write!(page, " <a href=\"#s{index}\">{}</a>", escape(&heading(views, view)));
    }
    let (time, latency) = super::lab_time::sections(experiment, record);
    for (there, link) in
        [(time, " <a href=\"#time\">Over time</a>"), (latency, " <a href=\"#latency\">Latency</a>")]
    {
        page.push_str(if there { link } else { "" });
    }
    page.push_str(" <a href=\"#turns\">Whole turns</a> <a href=\"#given\">Terms</a></nav>\n");
}

/// A series' name; with its unit where it was shown in another before.
fn heading(views: &[SeriesView<'_>], view: &SeriesView<'_>) -> String {
    let name = &view.series.name;
    let first = views.iter().find(|other| other.series.name == *name);
    if first.is_some_and(|first| first.unit != view.unit) {
        format!("{name}, in {}", view.unit.name())
    } else {
        name.clone()
    }
}

/// Everyone with figures: name, and whether they are reported.
pub type Whos = Vec<(String, bool)>;

fn whos(views: &[SeriesView<'_>]) -> Whos {
    let mut whos: Whos = Vec::new();
    for reported in [false, true] {
        for figure in views.iter().flat_map(|view| &view.figures) {
            let who = (figure.who_text(), figure.reported);
            if figure.reported == reported && !whos.contains(&who) {
                whos.push(who);
            }
        }
    }
    whos
}

/// The colour of a store: its place among all.
pub fn colour(whos: &Whos, name: &str) -> usize {
    whos.iter().position(|(who, _)| who == name).unwrap_or(0)
}

fn legend(page: &mut String, whos: &Whos) {
    page.push_str("<p class=\"legend\">");
    for (index, (name, reported)) in whos.iter().enumerate() {
        let class = if *reported { "chip dashed" } else { "chip" };
        let colour = index % COLOURS;
        let _ = write!(
            page,
            "<span><i class=\"{class}\" style=\"--c:var(--e{colour})\"></i>{}</span> ",
            escape(name)
        );
    }
    page.push_str("</p>\n");
}

fn series(
    page: &mut String,
    view: &SeriesView<'_>,
    (index, head): (usize, &str),
    whos: &Whos,
    limits: &[String],
) {
    let better = if view.unit.more_is_better() { "higher" } else { "lower" };
    let _ = write!(
        page,
        "<h2 id=\"s{index}\">{}</h2><p>{}</p><p class=\"soft\">In {}; {better} is better.</p>",
        escape(head),
        escape(&view.series.about),
        escape(view.unit.name())
    );
    if let Some(about) = view.unit.about() {
        let _ = write!(page, "<p class=\"soft\">{}</p>", escape(about));
    }
    for limit in limits {
        let _ = write!(page, "<p class=\"soft\">{}</p>", escape(limit));
    }
    page.push_str("<div class=\"grid\">\n");
    for slice in view.slices() {
        let figures: Vec<&Figure> = view.in_slice(&slice).collect();
        let head: Vec<String> = slice.iter().map(|(name, key)| format!("{name} {key}")).collect();
        pictures(page, view, &figures, &head.join(", "), whos);
    }
    page.push_str("</div>\n");
    tables(page, view);
    let notes: Vec<String> = view
        .figures
        .iter()
        .filter_map(|f| Some(format!("{}, {}: {}", f.who, f.phase, f.note.as_ref()?)))
        .collect();
    let mut told = notes.clone();
    told.sort();
    told.dedup();
    for note in told {
        let _ = write!(page, "<p class=\"soft\">{}</p>", escape(&note));
    }
}

/// Most rows of a series' tables that are shown at once.
const OPEN_ROWS_MAX: usize = 16;

/// The tables in the document's shape, folded away where they are long.
fn tables(page: &mut String, view: &SeriesView<'_>) {
    let grids = view.grids();
    let rows: usize = grids.iter().map(|grid| grid.rows.len()).sum();
    let open = if rows <= OPEN_ROWS_MAX || heats(view) { " open" } else { "" };
    let many =
        if grids.len() == 1 { "table".to_string() } else { format!("{} tables", grids.len()) };
    let _ = write!(
        page,
        "<details{open}><summary>The {many} in figures</summary><div class=\"tables\">"
    );
    for grid in &grids {
        table(page, view, grid);
    }
    page.push_str("</div></details>\n");
}

/// Lines over the axis that counts something, or else bars.
fn pictures(
    page: &mut String,
    view: &SeriesView<'_>,
    figures: &[&Figure],
    head: &str,
    whos: &Whos,
) {
    let counted = |axis: &str| {
        let keys = view.keys(axis);
        keys.len() >= 2 && keys.iter().all(|key| count(key).is_some())
    };
    let (across, apart) = if counted(&view.rows) {
        (Some(view.rows.as_str()), view.columns.as_str())
    } else if counted(&view.columns) {
        (Some(view.columns.as_str()), view.rows.as_str())
    } else {
        (None, if view.rows == "engine" { &*view.columns } else { &*view.rows })
    };
    for key in view.keys(apart) {
        let here: Vec<&Figure> = figures
            .iter()
            .filter(|figure| figure.on(apart).is_none_or(|own| own == key))
            .copied()
            .collect();
        if here.iter().all(|figure| figure.reported) {
            continue;
        }
        let name = if ["phase", MEASURE].contains(&apart) {
            key.clone()
        } else {
            format!("{apart} {key}")
        };
        let name = if head.is_empty() { name } else { format!("{name}, {head}") };
        let picture = match across {
            Some(axis) => line_picture(view, &here, axis, &name, whos),
            None => bar_picture(view, &here, &name, whos),
        };
        let about = about(&key);
        let _ = writeln!(
            page,
            "<figure><figcaption>{}<small>{about}</small></figcaption>{picture}</figure>",
            escape(&name)
        );
    }
}

fn about(phase: &str) -> &'static str {
    let name = phase.split('#').next().unwrap_or(phase);
    let row = crate::workload::tasks::TASKS.iter().find(|row| row.name == name);
    row.map_or("", |row| row.about)
}

/// A key as a number: `4096`, `4M`.
fn count(key: &str) -> Option<f64> {
    let plain = key.parse::<f64>().ok();
    plain.or_else(|| crate::run::config::bytes_of(key).map(|bytes| bytes as f64))
}

/// Most values of an axis that are set side by side instead of by their size.
const MARKS_MAX: usize = 8;

fn line_picture(
    view: &SeriesView<'_>,
    figures: &[&Figure],
    axis: &str,
    name: &str,
    whos: &Whos,
) -> String {
    let keys = view.keys(axis);
    let mut marks = Vec::new();
    if keys.len() <= MARKS_MAX {
        // Large counts are shortened: their zeros would run into each other.
        let text = |key: &String| match count(key) {
            Some(number) if number >= 1e6 && key.parse::<f64>().is_ok() => short(number),
            _ => key.clone(),
        };
        let mark = |(place, key): (usize, &String)| (place as f64, text(key));
        marks = keys.iter().enumerate().map(mark).collect();
    }
    let mut all = Vec::new();
    for (index, (who, reported)) in whos.iter().enumerate() {
        let own = figures.iter().filter(|figure| figure.who_text() == *who);
        let mut line = Line {
            name: who.clone(),
            colour: index,
            dashed: *reported,
            points: Vec::new(),
            spreads: Vec::new(),
        };
        for figure in own {
            let x = figure.on(axis).and_then(|key| match marks.is_empty() {
                true => count(key),
                false => keys.iter().position(|own| own == key).map(|place| place as f64),
            });
            let (Some(x), Some(y)) = (x, figure.value) else { continue };
            line.points.push((x, y));
            let (low, high) = figure
                .samples
                .iter()
                .fold((y, y), |(low, high), &value| (low.min(value), high.max(value)));
            if high > low {
                line.spreads.push((x, low, high));
            }
        }
        line.points.sort_by(|left, right| left.0.total_cmp(&right.0));
        if !line.points.is_empty() {
            all.push(line);
        }
    }
    let axes = Axes { x: axis, y: view.unit.name(), x_marks: marks, ..Axes::default() };
    let text: Vec<String> = all
        .iter()
        .map(|line| {
            let last = line.points.last().map_or(0.0, |point| point.1);
            format!("{} ends at {}", line.name, number(last))
        })
        .collect();
    lines(&all, &axes, &format!("{name}: {}", text.join("; ")))
}

fn bar_picture(view: &SeriesView<'_>, figures: &[&Figure], name: &str, whos: &Whos) -> String {
    let bar = |figure: &&Figure| {
        let low = figure.samples.iter().copied().fold(f64::INFINITY, f64::min);
        let high = figure.samples.iter().copied().fold(0.0, f64::max);
        Bar {
            name: figure.who.clone(),
            colour: colour(whos, &figure.who_text()),
            value: figure.value,
            spread: (figure.samples.len() > 1).then_some((low, high)),
            text: figure.value.map_or("n/a".into(), number),
        }
    };
    // Another machine's figures have a scale of their own, below.
    let mut drawn = String::new();
    for reported in [false, true] {
        let own = figures.iter().filter(|figure| figure.reported == reported);
        let picture: Vec<Bar> = own.map(bar).collect();
        if picture.is_empty() {
            continue;
        }
        if reported {
            drawn.push_str(
                "<small class=\"soft\">the document's, on its own machine and scale</small>",
            );
        }
        let values: Vec<String> =
            picture.iter().map(|bar| format!("{} {}", bar.name, bar.text)).collect();
        let label = format!("{name}, {}: {}", view.unit.name(), values.join("; "));
        drawn.push_str(&bars(&picture, &label));
    }
    drawn
}

fn table(page: &mut String, view: &SeriesView<'_>, grid: &Grid) {
    let class = match (grid.reported, heats(view)) {
        (true, _) => " class=\"reported\"",
        (false, true) => " class=\"heat\"",
        (false, false) => "",
    };
    let title = escape(&grid.title);
    let _ = write!(page, "<div class=\"scroll\"><table{class}>");
    if !title.is_empty() {
        let _ = write!(page, "<caption>{title}</caption>");
    }
    let _ = write!(page, "<tr><th>{}</th>", escape(&view.rows));
    for column in &grid.columns {
        let _ = write!(page, "<th class=\"n\">{}</th>", escape(column));
    }
    page.push_str("</tr>\n");
    let heat = heat(view, grid);
    for (name, cells) in &grid.rows {
        let _ = write!(page, "<tr><td>{}</td>", escape(name));
        for cell in cells {
            let mark = match cell.as_ref().and_then(|figure| figure.ratio) {
                Some(ratio) if ratio.shows_difference() && ratio.ratio > 1.0 => " good",
                Some(ratio) if ratio.shows_difference() => " bad",
                _ => "",
            };
            let style = match (cell.as_ref().and_then(|figure| figure.value), heat) {
                (Some(value), Some((low, high))) if high > low => {
                    // By its logarithm, and the better the stronger.
                    let part = ((value.max(1e-9) / low.max(1e-9)).ln()
                        / (high.max(1e-9) / low.max(1e-9)).ln())
                    .clamp(0.0, 1.0);
                    let good = if view.unit.more_is_better() { part } else { 1.0 - part };
                    let share = (6.0 + good * 64.0).round();
                    format!(
                        " style=\"background:color-mix(in srgb,var(--e2) {share}%,transparent)\""
                    )
                }
                _ => String::new(),
            };
            let text = cell.as_ref().map_or(String::new(), cell_text);
            let _ = write!(page, "<td class=\"n{mark}\"{style}>{}</td>", escape(&text));
        }
        page.push_str("</tr>\n");
    }
    page.push_str("</table></div>\n");
}

/// Whether the series' tables cross two options, and are drawn as heat maps.
fn heats(view: &SeriesView<'_>) -> bool {
    let varied = |axis: &str| view.series.vary.keys().any(|name| name.get_ref() == axis);
    varied(&view.rows) && varied(&view.columns)
}

/// The range of a heat map.
fn heat(view: &SeriesView<'_>, grid: &Grid) -> Option<(f64, f64)> {
    if !heats(view) {
        return None;
    }
    let values = grid.rows.iter().flat_map(|(_, cells)| cells.iter().flatten());
    let values: Vec<f64> = values.filter_map(|figure| figure.value).collect();
    let low = values.iter().copied().reduce(f64::min)?;
    Some((low, values.iter().copied().reduce(f64::max)?))
}

fn given(page: &mut String, experiment: &Experiment, record: &LabRecord) {
    page.push_str(
        "<h2 id=\"given\">What each was given</h2><p class=\"soft\">At the first point; varied options differ \
         at the others.</p><div class=\"scroll\"><table><tr><th>engine</th><th>version</th>\
         <th>not on equal terms</th><th>settings</th></tr>\n",
    );
    for engine in &record.engines {
        let first = record.points.iter().find_map(|point| point.given.get(&engine.name));
        let settings: Vec<String> = first
            .map(|given| given.iter().map(|(name, value)| format!("{name}={value}")).collect())
            .unwrap_or_default();
        let mut terms = super::lab_glance::unequal(engine, first.map_or(&[], |given| given));
        terms.extend(super::lab_glance::own_options(experiment, &engine.name));
        let terms = match (engine.capabilities, terms.is_empty()) {
            (None, _) => "n/a".to_string(),
            (Some(_), true) => "–".to_string(),
            (Some(_), false) => terms.join("; "),
        };
        let _ = writeln!(
            page,
            "<tr><td>{}</td><td class=\"wrap\">{}</td><td class=\"wrap\">{}</td>\
             <td class=\"wrap\">{}</td></tr>",
            escape(&engine.name),
            escape(engine.description.as_deref().unwrap_or("did not run")),
            escape(&terms),
            escape(&settings.join(" · "))
        );
    }
    let dirty = if record.commit_dirty == Some(true) { " with changes" } else { "" };
    let commit = record.commit.as_ref().map_or("unknown".into(), |id| format!("{id}{dirty}"));
    let harness = record.harness_nanos_per_op;
    let _ = writeln!(
        page,
        "</table></div><h2>Where</h2><dl><dt>processor</dt><dd>{} × {}</dd><dt>system</dt>\
         <dd>{}</dd><dt>commit</dt><dd>{}</dd><dt>seed</dt><dd>{}</dd><dt>cost of the lab</dt>\
         <dd>{}</dd></dl>",
        record.machine.cpu_count,
        escape(record.machine.cpu_model.as_deref().unwrap_or("unknown")),
        escape(&system_line_of(&record.machine)),
        escape(&commit),
        record.seed,
        harness.map_or("n/a".into(), |nanos| format!(
            "{nanos:.1} ns an operation: the clock and the counting"
        )),
    );
}
