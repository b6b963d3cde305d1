//! The curves of a tuning's knobs: a picture each, and a table of all their points.

use std::fmt::Write;

use super::axes::Span;
use super::html::escape;
use super::lines::{Axes, Line, Tick, lines, values};
use crate::run::config::bytes_of;
use crate::tune::curve::{CurvePoint, KnobCurve};

/// What the pictures show and do not show.
const NOTE: &str = "\
Each mark is the median ratio to the default set of the trials with this value, and its line the \
bootstrap interval at 95 %; a value with fewer than six trials has no interval. A trial is \
measured beside the best set so far, and its ratio to the default set is the product along this \
chain, so trials of one value are not independent and the intervals are too narrow; nor are they \
widened for the number of values compared. The trials are short runs, and the other knobs differ \
from trial to trial, so a curve shows where to look, and the rounds above show what a knob \
brings. All pictures have one scale.";

/// Writes the curves; nothing without one.
pub fn write(page: &mut String, curves: &[KnobCurve]) {
    if curves.is_empty() {
        return;
    }
    let _ = write!(page, "<h2>Values tried</h2><p class=\"soft\">{NOTE}</p><div class=\"panels\">");
    let drawn: Vec<Vec<Line>> = curves.iter().map(lines_of).collect();
    let ratios = drawn.iter().flat_map(|own| values(own)).chain([1.0]);
    let span = Span::of(ratios, f64::INFINITY, false);
    for (curve, own) in curves.iter().zip(&drawn) {
        let _ = write!(
            page,
            "<div class=\"panel\"><b>{}</b>{}</div>",
            escape(&curve.finding),
            picture(curve, own, span)
        );
    }
    page.push_str("</div>");
    table(page, curves);
}

/// Returns the lines of a curve: numbers of an ordered knob are joined, other values are not.
fn lines_of(curve: &KnobCurve) -> Vec<Line> {
    let (mut joined, mut all) = (line(), Vec::new());
    for (index, point) in curve.points.iter().enumerate() {
        let mut alone = line();
        let is_joined = curve.ordered && bytes_of(&point.value).is_some();
        let own = if is_joined { &mut joined } else { &mut alone };
        let at = index as f64;
        own.points.push((at, point.score));
        own.spreads.extend(point.interval.map(|(low, high)| (at, low, high)));
        all.extend((!is_joined).then_some(alone));
    }
    all.push(joined);
    all
}

fn line() -> Line {
    let (points, spreads) = (Vec::new(), Vec::new());
    Line { name: String::new(), style: 0, reported: false, points, spreads }
}

fn picture(curve: &KnobCurve, own: &[Line], y_span: Span) -> String {
    let ticks = curve.points.iter().enumerate().map(|(index, point)| Tick {
        at: index as f64,
        text: size_text(&point.value, curve.unit.as_deref()),
        below: point.is_default.then(|| "default".to_string()),
    });
    let unit = curve.unit.as_ref().map_or(String::new(), |unit| format!(", {unit}"));
    let ends = [0.0, curve.points.len() as f64 - 1.0];
    let axes = Axes {
        x: &format!("{}{unit}", curve.knob),
        y: "times the default set",
        ticks: ticks.collect(),
        x_span: Some(Span::of(ends.into_iter(), f64::INFINITY, false)),
        y_span: Some(y_span),
        ..Axes::default()
    };
    let points: Vec<String> = curve.points.iter().map(point_text).collect();
    lines(own, &axes, &format!("{}. {}", curve.finding, points.join("; ")))
}

fn point_text(point: &CurvePoint) -> String {
    format!("{}: {:.2}{}", point.value, point.score, interval_text(point))
}

fn interval_text(point: &CurvePoint) -> String {
    point.interval.map_or(String::new(), |(low, high)| format!(" ({low:.2} to {high:.2})"))
}

/// Writes the points of all curves.
fn table(page: &mut String, curves: &[KnobCurve]) {
    page.push_str(
        "<details><summary>The points of the curves</summary><div class=\"scroll\"><table><tr>",
    );
    for name in ["knob", "value", "times the default set", "interval", "trials"] {
        let _ = write!(page, "<th>{name}</th>");
    }
    page.push_str("</tr>\n");
    for curve in curves {
        for point in &curve.points {
            let _ = writeln!(
                page,
                "<tr><td>{}</td><td>{}</td><td class=\"n\">{:.3}</td><td class=\"n\">{}</td>\
                 <td class=\"n\">{}</td></tr>",
                escape(&curve.knob),
                escape(&point.value),
                point.score,
                point.interval.map_or("–".into(), |(low, high)| format!("{low:.3} to {high:.3}")),
                point.trials
            );
        }
    }
    page.push_str("</table></div></details>");
}

/// Shortens a size in bytes: `4096` becomes `4K`.
fn size_text(text: &str, unit: Option<&str>) -> String {
    let bytes = text.parse::<u64>().ok().filter(|_| unit == Some("bytes"));
    let Some(bytes) = bytes else { return text.into() };
    let units = [(30, "G"), (20, "M"), (10, "K")];
    let unit = units.iter().find(|(shift, _)| bytes >= 1 << shift && bytes % (1 << shift) == 0);
    unit.map_or(text.into(), |(shift, name)| format!("{}{name}", bytes >> shift))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn curve() -> KnobCurve {
        let point = |value: &str, score: f64, interval| CurvePoint {
            value: value.into(),
            is_default: value == "4096",
            score,
            interval,
            trials: 6,
        };
        KnobCurve {
            knob: "block".into(),
            unit: Some("bytes".into()),
            ordered: true,
            points: vec![
                point("4096", 1.0, None),
                point("8192", 1.15, Some((1.1, 1.2))),
                point("<auto>", 1.05, None),
            ],
            finding: "block: 8192 is <better>".into(),
        }
    }

    #[test]
    fn picture_has_finding_units_intervals_and_a_table() {
        let mut page = String::new();
        write(&mut page, &[curve()]);
        for part in [
            "<b>block: 8192 is &lt;better&gt;</b>",
            "role=\"img\"",
            "aria-label=\"block: 8192 is &lt;better&gt;. 4096: 1.00; 8192: 1.15 (1.10 to 1.20)",
            "block, bytes",
            "times the default set",
            ">\n8K\n<",
            "1.100 to 1.200",
        ] {
            assert!(page.contains(part), "{part} is missing: {page}");
        }
        assert!(!page.contains("<auto>") && !page.contains("\"#"), "{page}");
        let mut none = String::new();
        write(&mut none, &[]);
        assert!(none.is_empty());
    }

    #[test]
    fn numbers_of_an_ordered_knob_are_joined_and_names_are_not() {
        let counts = |curve: &KnobCurve| {
            lines_of(curve).iter().map(|own| own.points.len()).collect::<Vec<_>>()
        };
        let mut own = curve();
        assert_eq!(counts(&own), [1, 2]);
        own.ordered = false;
        assert_eq!(counts(&own), [1, 1, 1, 0]);
    }

    #[test]
    fn sizes_in_bytes_are_shortened() {
        assert_eq!(size_text("4096", Some("bytes")), "4K");
        assert_eq!(size_text("3145728", Some("bytes")), "3M");
        assert_eq!(size_text("1024", None), "1024");
        assert_eq!(size_text("auto", Some("bytes")), "auto");
    }
}
