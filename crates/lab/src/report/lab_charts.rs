//! The chart of one series in one unit: lines over the varied option or size, or otherwise a row
//! per phase. Each engine or policy has a line or mark. Several panels share one scale.
//!
//! The layout is planned first and drawn afterwards.
//!
//! Invariants:
//! 1. A series has one figure per unit.
//! 2. Panels side by side share both axes.
//! 3. Figures reported by a document are drawn separately, at the document's own sizes.

use std::fmt::Write;

use super::axes::{LOG_FROM, Span, swatch};
use super::dots::{self, Dot, Row, dots};
use super::grid::{Figure, MEASURE, SeriesView};
use super::html::escape;
use super::lab_html::{Whos, colour};
use super::lab_text::number;
use super::lines::{self, Axes, Line, Tick, lines};
use super::sizes::{key_text, number_of};
use crate::stats::unit::Unit;

/// Maximum number of lines of one panel.
const LINES_MAX: usize = 8;
/// Maximum ratio of values for panels with a shared axis, which a larger ratio would flatten.
const SHARED_SPREAD_MAX: f64 = 1000.0;
/// Ratio of values from which the axis of an option or a size is logarithmic.
const LOG_X_FROM: f64 = 10.0;
/// Maximum ratio of gaps between values that count as evenly spaced.
const EVEN_GAPS_MAX: f64 = 4.0;

/// Assignment of axes to the parts of a chart.
#[derive(Clone, Debug, Default, PartialEq)]
struct Plan {
    /// Numeric axis of x; `None` if no numeric axis was varied.
    x: Option<String>,
    /// Axes represented by a line or mark.
    lines: Vec<String>,
    /// Axis of the rows, without x.
    rows: Option<String>,
    /// Axes with separate panels.
    panels: Vec<String>,
}

/// The figures of a view that are drawn together: either the measured or the reported ones.
struct Part<'a> {
    view: &'a SeriesView<'a>,
    figures: Vec<&'a Figure>,
    reported: bool,
}

impl<'a> Part<'a> {
    fn of(view: &'a SeriesView<'a>, reported: bool) -> Part<'a> {
        let own = view.figures.iter().filter(|figure| figure.reported == reported);
        Part { view, figures: own.collect(), reported }
    }

    /// Returns the values of an axis among these figures, in order of occurrence.
    fn keys(&self, axis: &str) -> Vec<String> {
        let mut keys: Vec<String> = Vec::new();
        for key in self.figures.iter().filter_map(|figure| figure.on(axis)) {
            if !keys.iter().any(|own| own == key) {
                keys.push(key.to_string());
            }
        }
        keys
    }

    /// Returns the axes with several values.
    fn varied(&self) -> Vec<String> {
        let params = self.figures.iter().flat_map(|figure| figure.params.keys());
        let mut axes: Vec<String> = vec!["phase".into(), "engine".into()];
        for name in params {
            if !axes.contains(name) {
                axes.push(name.clone());
            }
        }
        axes.retain(|axis| self.keys(axis).len() > 1);
        axes
    }

    /// Returns a value of an axis as a number: the one used in the run, or the document's.
    fn number(&self, axis: &str, key: &str) -> Option<f64> {
        if self.reported { number_of(key) } else { self.view.sizes.number(axis, key) }
    }

    fn counts(&self, axis: &str) -> bool {
        !["phase", "engine", MEASURE].contains(&axis)
            && self.keys(axis).iter().all(|key| self.number(axis, key).is_some())
    }

    fn plan(&self) -> Plan {
        let varied = self.varied();
        let mut counted: Vec<&String> = varied.iter().filter(|axis| self.counts(axis)).collect();
        let named = [self.view.rows.as_str(), self.view.columns.as_str(), "step"];
        let rank = |axis: &&String| {
            let place = named.iter().position(|name| name == axis).unwrap_or(named.len());
            (place, usize::MAX - self.keys(axis).len())
        };
        counted.sort_by_key(rank);
        let x = counted.first().map(|axis| (*axis).clone());
        let mut plan = Plan { x, ..Plan::default() };
        let rest = varied.iter().filter(|axis| Some(*axis) != plan.x.as_ref());
        let mut rest: Vec<String> = rest.cloned().collect();
        // Engines first, then policies, then further numeric axes; phases and measures last.
        rest.sort_by_key(|axis| match axis.as_str() {
            "engine" => 0,
            "phase" => 3,
            MEASURE => 4,
            _ if self.counts(axis) => 2,
            _ => 1,
        });
        let mut combinations = 1;
        for axis in rest {
            let count = self.keys(&axis).len();
            let is_phase = axis == "phase";
            if is_phase && plan.x.is_none() {
                plan.rows = Some(axis);
            } else if axis == MEASURE
                || combinations * count > LINES_MAX
                || (is_phase && (combinations > 1 || !self.near(&axis)))
            {
                plan.panels.push(axis);
            } else {
                combinations *= count;
                plan.lines.push(axis);
            }
        }
        plan
    }

    /// Returns whether all figures fit on one value axis.
    fn near(&self, axis: &str) -> bool {
        let keys = self.keys(axis);
        let ranges = keys.iter().map(|key| {
            let own = self.figures.iter().filter(|figure| figure.on(axis) == Some(key));
            range(own.filter_map(|figure| figure.value))
        });
        grouped(&ranges.collect::<Vec<_>>(), SHARED_SPREAD_MAX).len() < 2
    }

    /// Describes the values of a figure on several axes.
    fn words(&self, figure: &Figure, axes: &[String]) -> String {
        let word = |axis: &String| {
            let key = figure.on(axis)?;
            let plain =
                ["engine", "phase", MEASURE].contains(&axis.as_str()) || number_of(key).is_none();
            let text =
                if self.reported { key.to_string() } else { self.view.sizes.label(axis, key) };
            Some(if plain { text } else { format!("{axis} {text}") })
        };
        axes.iter().filter_map(word).collect::<Vec<_>>().join(", ")
    }

    /// Returns the names of the lines or marks, each once, with their styles. If lines are per
    /// engine, the style is the engine's own.
    fn names(&self, plan: &Plan, whos: &Whos) -> Vec<(usize, String)> {
        let mut names: Vec<(usize, String)> = Vec::new();
        let by_engine = plan.lines.is_empty() || plan.lines == ["engine"];
        for figure in &self.figures {
            let name = self.name(plan, figure);
            if !names.iter().any(|(_, own)| *own == name) {
                let own = colour(whos, &figure.who_text());
                names.push((if by_engine { own } else { names.len() }, name));
            }
        }
        names
    }

    fn name(&self, plan: &Plan, figure: &Figure) -> String {
        if plan.lines.is_empty() { figure.who.clone() } else { self.words(figure, &plan.lines) }
    }
}

/// Smallest and largest of some values; `None` without values.
pub type Range = Option<(f64, f64)>;

/// Returns the smallest and largest value above zero.
fn range(values: impl Iterator<Item = f64>) -> Range {
    let above: Vec<f64> = values.filter(|value| *value > 0.0).collect();
    let low = above.iter().copied().reduce(f64::min)?;
    Some((low, above.iter().copied().reduce(f64::max)?))
}

/// Groups the ranges that share an axis: their combined ratio is at most `most`, or at most the
/// ratio of one of them alone. Groups are in the order of their first ranges.
pub fn grouped(ranges: &[Range], most: f64) -> Vec<Vec<usize>> {
    let mut groups: Vec<(Range, Vec<usize>)> = Vec::new();
    for (place, own) in ranges.iter().enumerate() {
        let joined = |group: &Range| match (*group, *own) {
            (Some(one), Some(other)) => Some((one.0.min(other.0), one.1.max(other.1))),
            (one, other) => one.or(other),
        };
        let fits = |group: &Range| {
            let spread = |range: Range| range.map_or(1.0, |(low, high)| high / low);
            spread(joined(group)) <= most.max(spread(*group)).max(spread(*own))
        };
        match groups.iter_mut().find(|(group, _)| fits(group)) {
            Some((group, members)) => {
                *group = joined(group);
                members.push(place);
            }
            None => groups.push((*own, vec![place])),
        }
    }
    groups.into_iter().map(|(_, members)| members).collect()
}

/// Writes a legend of styles with names, and whether each is reported.
pub fn legend<'a>(page: &mut String, marks: impl Iterator<Item = (usize, &'a str, bool)>) {
    page.push_str("<p class=\"legend\">");
    for (style, name, reported) in marks {
        let _ = write!(page, "<span>{}{}</span> ", swatch(style, reported), escape(name));
    }
    page.push_str("</p>\n");
}

/// Draws the figure of a view.
pub fn charts(page: &mut String, view: &SeriesView<'_>, whos: &Whos) {
    let measured = Part::of(view, false);
    let plan = measured.plan();
    page.push_str("<figure class=\"chart\">");
    part(page, &measured, &plan, whos);
    let reported = Part::of(view, true);
    if !reported.figures.is_empty() {
        page.push_str(
            "<details><summary>Figures of the document, from its own machine, at its own sizes and \
             with a separate scale</summary>",
        );
        part(page, &reported, &reported.plan(), whos);
        page.push_str("</details>");
    }
    page.push_str("</figure>\n");
}

/// One panel: its title and figures.
struct Panel<'a> {
    title: String,
    figures: Vec<&'a Figure>,
}

/// The drawn panels of a part, in groups that share their scales.
struct Drawing {
    /// Styles and names of the lines or marks.
    names: Vec<(usize, String)>,
    /// Title and SVG text of each panel.
    groups: Vec<Vec<(String, String)>>,
    /// Whether each panel has a measure and a scale of its own.
    by_measure: bool,
}

fn draw(part: &Part<'_>, plan: &Plan, whos: &Whos) -> Drawing {
    let names = part.names(plan, whos);
    let mut panels: Vec<Panel<'_>> = Vec::new();
    for figure in &part.figures {
        let title = part.words(figure, &plan.panels);
        match panels.iter_mut().find(|panel| panel.title == title) {
            Some(panel) => panel.figures.push(figure),
            None => panels.push(Panel { title, figures: vec![figure] }),
        }
    }
    let by_measure = plan.panels.iter().any(|axis| axis == MEASURE);
    // Ranges use the medians, so that a single slow run does not separate phases.
    let ranges: Vec<Range> = panels
        .iter()
        .map(|panel| range(panel.figures.iter().filter_map(|figure| figure.value)))
        .collect();
    let groups: Vec<Vec<usize>> = match by_measure {
        true => (0..panels.len()).map(|place| vec![place]).collect(),
        false => grouped(&ranges, SHARED_SPREAD_MAX),
    };
    let group = |members: &Vec<usize>| {
        let own: Vec<&Panel<'_>> = members.iter().map(|&member| &panels[member]).collect();
        let drawn = match &plan.x {
            Some(axis) => over(part, plan, (axis, &names), &own),
            None => by_rows(part, plan, &names, &own),
        };
        own.iter().map(|panel| panel.title.clone()).zip(drawn).collect()
    };
    let groups = groups.iter().map(group).collect();
    Drawing { names, groups, by_measure }
}

/// The measured figures of a view as drawn: for a picture outside a page.
pub struct Drawn {
    /// Title of the picture.
    pub title: String,
    /// Its unit, its horizontal axis, and whether more is better.
    pub about: String,
    /// Styles and names of the lines or marks.
    pub names: Vec<(usize, String)>,
    /// Title and SVG text of each panel, in groups that share their scales.
    pub groups: Vec<Vec<(String, String)>>,
}

/// Draws the measured figures of a view.
pub fn drawn(view: &SeriesView<'_>, whos: &Whos) -> Drawn {
    let measured = Part::of(view, false);
    let plan = measured.plan();
    let Drawing { names, groups, .. } = draw(&measured, &plan, whos);
    let better = if view.unit.more_is_better() { "more is better" } else { "less is better" };
    let about = format!("{}; {better}", unit_over(&measured, &plan));
    Drawn { title: view.series.name.clone(), about, names, groups }
}

/// Describes the unit of a part, and its horizontal axis.
fn unit_over(part: &Part<'_>, plan: &Plan) -> String {
    let over = plan.x.as_ref().map(|axis| format!(" over {}", part.view.sizes.axis(axis)));
    format!("{}{}", part.view.unit.title(), over.unwrap_or_default())
}

fn part(page: &mut String, part: &Part<'_>, plan: &Plan, whos: &Whos) {
    let Drawing { names, groups, by_measure } = draw(part, plan, whos);
    caption(page, part, plan, (&groups, by_measure));
    legend(page, names.iter().map(|(style, name)| (*style, name.as_str(), part.reported)));
    let panels: usize = groups.iter().map(Vec::len).sum();
    for (place, group) in groups.iter().enumerate() {
        if groups.len() > 1 && !by_measure {
            let again = if place == 0 { "On one scale:" } else { "On another scale:" };
            let _ = write!(page, "<p class=\"soft scale\">{again}</p>");
        }
        page.push_str(match panels {
            1 => "<div class=\"panels one\">",
            _ => "<div class=\"panels\">",
        });
        for (title, svg) in group {
            panel_head(page, part, title);
            page.push_str(svg);
            page.push_str("</div>");
        }
        page.push_str("</div>\n");
    }
}

/// Writes the caption of a part.
fn caption(
    page: &mut String,
    part: &Part<'_>,
    plan: &Plan,
    (groups, by_measure): (&[Vec<(String, String)>], bool),
) {
    let view = part.view;
    let title = format!("{}: {}", view.series.name, unit_over(part, plan));
    let better = if view.unit.more_is_better() { "more is better" } else { "less is better" };
    let whos = part.keys("engine");
    let mut captions: Vec<String> =
        whos.first().filter(|_| whos.len() == 1).cloned().into_iter().collect();
    captions.push(better.to_string());
    let each = |axes: &[String]| axes.join(" and ");
    if !plan.lines.is_empty() {
        let kind = if plan.x.is_some() { "line" } else { "mark" };
        captions.push(format!("a {kind} for each {}", each(&plan.lines)));
    }
    if part.figures.iter().any(|figure| figure.samples.len() > 1) {
        captions.push("thin lines from the smallest to the largest round".into());
    }
    let panels: usize = groups.iter().map(Vec::len).sum();
    match (panels > 1, by_measure, groups.len() > 1) {
        (true, true, _) => captions.push("a panel with its own scale for each measure".into()),
        (true, _, false) => {
            captions.push(format!("a panel for each {}, all on one scale", each(&plan.panels)));
        }
        (true, _, true) => captions.push(format!(
            "a panel for each {}; the values differ too much for one scale",
            each(&plan.panels)
        )),
        _ => {}
    }
    let captions = escape(&captions.join("; "));
    // A figure has one caption, that of the measured part.
    let _ = match part.reported {
        false => {
            write!(page, "<figcaption>{}<small>{captions}</small></figcaption>", escape(&title))
        }
        true => write!(page, "<p><b>{}</b><br><small>{captions}</small></p>", escape(&title)),
    };
}

fn panel_head(page: &mut String, part: &Part<'_>, title: &str) {
    page.push_str("<div class=\"panel\">");
    if !title.is_empty() {
        // A phase of the user's own may have the same name as a task.
        let about = if part.view.series.tasks.is_some() { about(title) } else { "" };
        let _ = write!(page, "<b>{}</b> <small class=\"soft\">{about}</small>", escape(title));
    }
}

fn about(phase: &str) -> &'static str {
    let name = phase.split('#').next().unwrap_or(phase);
    let row = crate::workload::tasks::TASKS.iter().find(|row| row.name == name);
    row.map_or("", |row| row.about)
}

/// Returns the smallest and largest sample; `None` if they are equal.
fn spread(figure: &Figure) -> Option<(f64, f64)> {
    let low = figure.samples.iter().copied().reduce(f64::min)?;
    let high = figure.samples.iter().copied().reduce(f64::max)?;
    (high > low).then_some((low, high))
}

/// Draws panels of lines over `axis`.
fn over(
    part: &Part<'_>,
    plan: &Plan,
    (axis, names): (&str, &[(usize, String)]),
    panels: &[&Panel<'_>],
) -> Vec<String> {
    let scale = XScale::of(part, axis);
    let of_panel = |panel: &&Panel<'_>| -> Vec<Line> {
        let line = |(style, name): &(usize, String)| {
            let own = panel.figures.iter().filter(|figure| part.name(plan, figure) == *name);
            let mut line = Line {
                name: name.clone(),
                style: *style,
                reported: part.reported,
                points: Vec::new(),
                spreads: Vec::new(),
            };
            for figure in own {
                let x = figure.on(axis).and_then(|key| scale.at(key));
                let (Some(x), Some(y)) = (x, figure.value) else { continue };
                line.points.push((x, y));
                line.spreads.extend(spread(figure).map(|(low, high)| (x, low, high)));
            }
            line.points.sort_by(|left, right| left.0.total_cmp(&right.0));
            line
        };
        names.iter().map(line).filter(|line| !line.points.is_empty()).collect()
    };
    let drawn: Vec<Vec<Line>> = panels.iter().map(of_panel).collect();
    let all: Vec<f64> = drawn.iter().flat_map(|own| lines::values(own)).collect();
    let y_span = Span::of(all.into_iter(), LOG_FROM, true);
    let differs = !part.reported && part.view.sizes.differ(axis);
    let mut x = if part.reported { axis.to_string() } else { part.view.sizes.axis(axis) };
    if differs {
        x += &match part.view.sizes.whose() {
            "document" => format!("; below, the document's {axis}"),
            whose => format!("; below, {whose}"),
        };
    }
    let picture = |(panel, own): (&&Panel<'_>, &Vec<Line>)| {
        let axes = Axes {
            x: &x,
            y: unit_of(part, panel),
            ticks: scale.ticks.clone(),
            x_span: Some(scale.span),
            y_span: Some(y_span),
            ..Axes::default()
        };
        let ends: Vec<String> = own
            .iter()
            .map(|line| {
                let last = line.points.last().map_or(0.0, |point| point.1);
                format!("{} ends at {}", line.name, number(last))
            })
            .collect();
        let label = format!("{} {}: {}", part.view.series.name, panel.title, ends.join("; "));
        lines(own, &axes, &label)
    };
    panels.iter().zip(&drawn).map(picture).collect()
}

/// Returns the unit of a panel: the view's unit, or that of its measure.
fn unit_of<'a>(part: &'a Part<'_>, panel: &'a Panel<'_>) -> &'a str {
    let measure = panel.figures.first().and_then(|figure| figure.on(MEASURE));
    match part.view.unit {
        Unit::Seconds => "seconds",
        unit => measure.unwrap_or(unit.name()),
    }
}

/// Positions of the values of an option or a size, equal in all panels.
struct XScale {
    places: Vec<(String, f64)>,
    ticks: Vec<Tick>,
    span: Span,
}

impl XScale {
    fn of(part: &Part<'_>, axis: &str) -> XScale {
        let keys = part.keys(axis);
        let value = |key: &String| Some((key.clone(), part.number(axis, key)?));
        let mut places: Vec<(String, f64)> = keys.iter().filter_map(value).collect();
        places.sort_by(|left, right| left.1.total_cmp(&right.1));
        let zero = places.first().is_some_and(|(_, least)| *least <= 0.0);
        let above = range(places.iter().map(|(_, value)| *value));
        let wide = above.is_some_and(|(low, high)| high / low >= LOG_X_FROM) && !even(&places);
        if zero && wide {
            // 0 has no logarithm, so the values are spaced evenly.
            for (place, (_, at)) in places.iter_mut().enumerate() {
                *at = place as f64;
            }
        }
        let tick = |(key, at): &(String, f64)| {
            let (text, below) = match part.reported {
                true => (key_text(key), None),
                false => part.view.sizes.mark(axis, key),
            };
            Tick { at: *at, text, below }
        };
        let ticks = places.iter().map(tick).collect();
        let log_from = if wide && !zero { LOG_X_FROM } else { f64::INFINITY };
        let span = Span::of(places.iter().map(|(_, at)| *at), log_from, false);
        XScale { places, ticks, span }
    }

    fn at(&self, key: &str) -> Option<f64> {
        self.places.iter().find(|(own, _)| own == key).map(|(_, at)| *at)
    }
}

/// Returns whether values are about evenly spaced, as steps are. Such values need no logarithmic
/// axis, whatever their range.
fn even(places: &[(String, f64)]) -> bool {
    let gaps = || places.windows(2).map(|pair| pair[1].1 - pair[0].1);
    let (least, most) = (gaps().fold(f64::INFINITY, f64::min), gaps().fold(0.0, f64::max));
    places.len() > 2 && most < EVEN_GAPS_MAX * least
}

/// Draws panels of rows.
fn by_rows(
    part: &Part<'_>,
    plan: &Plan,
    names: &[(usize, String)],
    panels: &[&Panel<'_>],
) -> Vec<String> {
    let of_panel = |panel: &&Panel<'_>| -> Vec<Row> {
        let keys = plan.rows.as_ref().map_or(vec![String::new()], |axis| part.keys(axis));
        let on_row = |figure: &&&Figure, key: &str| match &plan.rows {
            Some(axis) => figure.on(axis) == Some(key),
            None => true,
        };
        let row = |key: &String| {
            let dot = |(style, name): &(usize, String)| {
                let mut own = panel.figures.iter().filter(|figure| on_row(figure, key));
                let figure = own.find(|figure| part.name(plan, figure) == *name)?;
                Some(Dot {
                    style: *style,
                    value: figure.value,
                    spread: spread(figure),
                    text: figure.value.map_or("n/a".into(), number),
                    reported: part.reported,
                })
            };
            Row { label: key.clone(), dots: names.iter().filter_map(dot).collect() }
        };
        keys.iter().map(row).filter(|row| !row.dots.is_empty()).collect()
    };
    let drawn: Vec<Vec<Row>> = panels.iter().map(of_panel).collect();
    let all: Vec<f64> = drawn.iter().flat_map(|rows| dots::values(rows)).collect();
    let span = Span::of(all.into_iter(), LOG_FROM, true);
    let picture = |(panel, rows): (&&Panel<'_>, &Vec<Row>)| {
        let label = format!("{} {}", part.view.series.name, panel.title);
        dots(rows, span, unit_of(part, panel), &label)
    };
    panels.iter().zip(&drawn).map(picture).collect()
}
