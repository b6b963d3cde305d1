//! An experiment's page: one HTML file with embedded pictures, readable without a network.

use std::fmt::Write;

use super::grid::{SeriesView, base_of_series, views};
use super::html::escape;
use super::lab_text::{brackets, circumstances, left_out, limits};
use super::page_text::{
    LAB_METHOD, METHOD_AUTHORS, METHOD_BYTES, METHOD_PROGRAMS, METHOD_RATIOS, METHOD_ROUNDS,
    SCRIPT, STYLE,
};
use super::sizes::ran_text;
use super::table::system_line_of;
use crate::experiment::check::Experiment;
use crate::experiment::program::run_all;
use crate::record::lab::LabRecord;

/// Renders the whole page.
pub fn page(experiment: &Experiment, record: &LabRecord) -> String {
    let mut page = String::new();
    let title = escape(&experiment.file.title);
    let _ = write!(
        page,
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
         <title>{title}</title><style>{STYLE}</style></head><body><main>\n<h1>{title}</h1>\
         <p class=\"soft\">{}</p><p>{}</p>",
        escape(&circumstances(experiment, record)),
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
    super::lab_summary::glance(&mut page, record, &views, &whos);
    super::lab_claims::page_claims(&mut page, experiment, record);
    for (index, view) in views.iter().enumerate() {
        let mut limits = limits(record, &view.series.name);
        limits.splice(0..0, ran_text(experiment, record, &view.series.name));
        let base = base_of_series(record, &view.series.name).unwrap_or("none");
        series(&mut page, view, (index, &heading(&views, view)), &whos, (&limits, base));
    }
    super::lab_time::pictures(&mut page, experiment, record, &whos);
    super::lab_space::pictures(&mut page, experiment, record);
    super::lab_measures::measures(&mut page, experiment, record, &whos);
    given(&mut page, experiment, record);
    let by_programs = views.iter().all(|view| run_all(&experiment.file, view.series));
    let (rounds, bytes) =
        if by_programs { (METHOD_PROGRAMS, "") } else { (METHOD_ROUNDS, METHOD_BYTES) };
    let _ = writeln!(
        page,
        "<h2>How it was measured</h2>{LAB_METHOD}{rounds}{METHOD_RATIOS}{bytes}{METHOD_AUTHORS}"
    );
    let _ = writeln!(page, "<script>{SCRIPT}</script></main></body></html>");
    page
}

/// Writes the conditions that may have distorted the experiment, and the missing measurements.
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
        "<details class=\"warn\"><summary>{} missing</summary>",
        if missing.len() == 1 {
            "One measurement is".into()
        } else {
            format!("{} measurements are", missing.len())
        }
    );
    for line in missing {
        let _ = write!(page, "<p>{}</p>", escape(&line));
    }
    page.push_str("</details>");
}

/// Writes the table of contents.
fn contents(
    page: &mut String,
    experiment: &Experiment,
    record: &LabRecord,
    views: &[SeriesView<'_>],
) {
    page.push_str("<nav><a href=\"#glance\">At a glance</a>");
    if !experiment.file.claims.is_empty() {
        page.push_str(" <a href=\"#claims\">Claims</a>");
    }
    for (index, view) in views.iter().enumerate() {
        let _ = write!(page, " <a href=\"#s{index}\">{}</a>", escape(&heading(views, view)));
    }
    let (time, latency) = super::lab_time::sections(experiment, record);
    let space = super::lab_space::is_drawn(experiment, record);
    for (there, link) in [
        (time, " <a href=\"#time\">Over time</a>"),
        (latency, " <a href=\"#latency\">Latency</a>"),
        (space, " <a href=\"#space\">Space over time</a>"),
    ] {
        page.push_str(if there { link } else { "" });
    }
    page.push_str(" <a href=\"#rounds\">Whole rounds</a> <a href=\"#given\">Terms</a></nav>\n");
}

/// Returns a series' name, with its unit if an earlier view shows it in another unit.
pub fn heading(views: &[SeriesView<'_>], view: &SeriesView<'_>) -> String {
    let name = &view.series.name;
    let first = views.iter().find(|other| other.series.name == *name);
    if first.is_some_and(|first| first.unit != view.unit) {
        format!("{name}, in {}", view.unit.name())
    } else {
        name.clone()
    }
}

/// All stores with figures: name, and whether they are reported.
pub type Whos = Vec<(String, bool)>;

/// Returns all stores with figures in `views`, measured ones first.
pub fn whos(views: &[SeriesView<'_>]) -> Whos {
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

/// Returns the colour of a store: its index among all stores.
pub fn colour(whos: &Whos, name: &str) -> usize {
    whos.iter().position(|(who, _)| who == name).unwrap_or(0)
}

fn legend(page: &mut String, whos: &Whos) {
    let marks = whos.iter().enumerate().map(|(index, who)| (index, who.0.as_str(), who.1));
    super::lab_charts::legend(page, marks);
}

fn series(
    page: &mut String,
    view: &SeriesView<'_>,
    (index, head): (usize, &str),
    whos: &Whos,
    (limits, base): (&[String], &str),
) {
    let better = if view.unit.more_is_better() { "More is better." } else { "Less is better." };
    let explanation = brackets(view, base).unwrap_or_else(|| better.into());
    let _ = write!(
        page,
        "<h2 id=\"s{index}\">{}</h2><p>{}</p><p class=\"soft\">In {}. {}</p>",
        escape(head),
        escape(&view.series.about),
        escape(view.unit.title()),
        escape(&explanation)
    );
    if let Some(about) = view.unit.about() {
        let _ = write!(page, "<p class=\"soft\">{}</p>", escape(about));
    }
    for limit in limits {
        let _ = write!(page, "<p class=\"soft\">{}</p>", escape(limit));
    }
    super::lab_charts::charts(page, view, whos);
    super::lab_tables::tables(page, view);
    let notes: Vec<String> = view
        .figures
        .iter()
        .filter_map(|f| Some(format!("{}, {}: {}", f.who, f.phase, f.note.as_ref()?)))
        .collect();
    let mut distinct = notes.clone();
    distinct.sort();
    distinct.dedup();
    for note in distinct {
        let _ = write!(page, "<p class=\"soft\">{}</p>", escape(&note));
    }
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
        let mut terms = super::lab_summary::unequal(engine, first.map_or(&[], |given| given));
        terms.extend(super::lab_summary::own_options(experiment, &engine.name));
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
    let commit = super::table::commit_text(record.commit.as_deref(), record.commit_dirty);
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
            "{nanos:.1} ns per operation: the clock and the counting"
        )),
    );
}
