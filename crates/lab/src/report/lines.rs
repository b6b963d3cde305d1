//! Line plots as inline SVG: a line, a dash and a mark per store, dotted and hollow for reported
//! figures.
//!
//! Values that span decades are drawn on a logarithmic scale, which the axis states.

use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, VPos};

use super::axes::{
    Area, Drawn, LOG_FROM, Span, font, marker, picture, rule, soft, stroke, text, tick_text,
    width_of,
};
use super::plot::{SOFT, engine_colour};

/// One line.
#[derive(Clone, Debug)]
pub struct Line {
    /// Name of the store.
    pub name: String,
    /// Index of colour, dash and mark.
    pub style: usize,
    /// Whether the line is reported, not measured.
    pub reported: bool,
    /// Points, ordered by x.
    pub points: Vec<(f64, f64)>,
    /// Spreads: x, smallest and largest sample.
    pub spreads: Vec<(f64, f64, f64)>,
}

/// One tick of the x axis.
#[derive(Clone, Debug, PartialEq)]
pub struct Tick {
    /// Position.
    pub at: f64,
    /// Text at the tick.
    pub text: String,
    /// Text below the first text.
    pub below: Option<String>,
}

/// Fixed parts of a plot.
#[derive(Clone, Debug, Default)]
pub struct Axes<'a> {
    /// Label of the x axis.
    pub x: &'a str,
    /// Label of the y axis.
    pub y: &'a str,
    /// Shaded intervals of x: start, end, and index of the colour.
    pub shaded: Vec<(f64, f64, usize)>,
    /// Ticks of the x axis, replacing round numbers.
    pub ticks: Vec<Tick>,
    /// Ends of the x axis, if shared with other plots.
    pub x_span: Option<Span>,
    /// Ends of the y axis, if shared with other plots.
    pub y_span: Option<Span>,
}

const WIDTH: i32 = 400;
const HEIGHT: i32 = 280;
const LEFT: i32 = 62;
const RIGHT: i32 = WIDTH - 14;
const TOP: i32 = 10;
const TEXT: i32 = 13;
const LOG_X_FROM: f64 = 20.0;
/// Maximum number of points with a mark each.
const MARKED_MAX: usize = 17;
/// Number of marks of a line with more points.
const MARKS: usize = 6;
/// Maximum number of points of a dashed line; with more points, dashes become invisible.
const DASHED_MAX: usize = 40;

/// Returns all values of the lines, including the ends of their spreads.
pub fn values(lines: &[Line]) -> impl Iterator<Item = f64> + Clone {
    lines.iter().flat_map(|line| {
        let ends = line.spreads.iter().flat_map(|spread| [spread.1, spread.2]);
        line.points.iter().map(|point| point.1).chain(ends)
    })
}

struct PlotArea {
    x: Span,
    y: Span,
    bottom: i32,
}

impl PlotArea {
    fn x(&self, value: f64) -> i32 {
        LEFT + (self.x.share(value) * f64::from(RIGHT - LEFT)).round() as i32
    }

    fn y(&self, value: f64) -> i32 {
        self.bottom - (self.y.share(value) * f64::from(self.bottom - TOP)).round() as i32
    }
}

/// Draws the lines.
pub fn lines(lines: &[Line], axes: &Axes<'_>, label: &str) -> String {
    picture((WIDTH as u32, HEIGHT as u32), label, |area| draw(area, lines, axes))
}

fn draw(area: &Area<'_>, lines: &[Line], axes: &Axes<'_>) -> Drawn {
    let xs = lines.iter().flat_map(|line| line.points.iter().map(|point| point.0));
    let log_x = if axes.ticks.is_empty() { LOG_X_FROM } else { f64::INFINITY };
    let x = axes.x_span.unwrap_or_else(|| Span::of(xs, log_x, false));
    let y = axes.y_span.unwrap_or_else(|| Span::of(values(lines), LOG_FROM, true));
    let below = axes.ticks.iter().any(|tick| tick.below.is_some());
    let plot_area = PlotArea { x, y, bottom: HEIGHT - if below { 54 } else { 40 } };
    for &(from, to, colour) in &axes.shaded {
        let corners = [(plot_area.x(from), TOP), (plot_area.x(to), plot_area.bottom)];
        area.draw(&Rectangle::new(corners, engine_colour(colour).mix(0.3).filled()))?;
    }
    draw_axes(area, &plot_area, axes)?;
    for (index, line) in lines.iter().enumerate() {
        draw_line(area, &plot_area, line, index)?;
    }
    if lines.iter().all(|line| line.points.is_empty()) {
        text(area, "n/a", (WIDTH / 2, HEIGHT / 2), soft(TEXT, HPos::Center))?;
    }
    Ok(())
}

fn draw_axes(area: &Area<'_>, plot_area: &PlotArea, axes: &Axes<'_>) -> Drawn {
    for at in plot_area.y.ticks(5) {
        let y = plot_area.y(at);
        rule(area, (LEFT, y), (RIGHT, y))?;
        text(area, &tick_text(at), (LEFT - 6, y), soft(TEXT, HPos::Right))?;
    }
    rule(area, (LEFT, plot_area.bottom), (RIGHT, plot_area.bottom))?;
    rule(area, (LEFT, TOP), (LEFT, plot_area.bottom))?;
    let plain = |at: f64| Tick { at, text: tick_text(at), below: None };
    let round: Vec<Tick> = plot_area.x.ticks(6).into_iter().map(plain).collect();
    let ticks = if axes.ticks.is_empty() { &round } else { &axes.ticks };
    let mut free_from = 0;
    for tick in ticks {
        let below = tick.below.as_deref().unwrap_or("");
        let half = width_of(&tick.text, TEXT).max(width_of(below, TEXT)) / 2;
        let at = plot_area.x(tick.at);
        rule(area, (at, plot_area.bottom), (at, plot_area.bottom + 4))?;
        let middle = at.clamp(half, WIDTH - half);
        // A text that would overlap the previous text is omitted.
        if middle - half < free_from {
            continue;
        }
        free_from = middle + half + 8;
        text(area, &tick.text, (middle, plot_area.bottom + 12), soft(TEXT, HPos::Center))?;
        text(area, below, (middle, plot_area.bottom + 26), soft(TEXT, HPos::Center))?;
    }
    let scale = |name: &str, log: bool| format!("{name}{}", if log { " (log)" } else { "" });
    let middle = (LEFT + RIGHT) / 2;
    text(area, &scale(axes.x, plot_area.x.log), (middle, HEIGHT - 9), soft(TEXT, HPos::Center))?;
    let rotated = font(&SOFT, TEXT, HPos::Center, VPos::Center).transform(FontTransform::Rotate270);
    text(area, &scale(axes.y, plot_area.y.log), (9, (TOP + plot_area.bottom) / 2), rotated)
}

fn draw_line(area: &Area<'_>, plot_area: &PlotArea, line: &Line, index: usize) -> Drawn {
    let places: Vec<(i32, i32)> =
        line.points.iter().map(|&(x, y)| (plot_area.x(x), plot_area.y(y))).collect();
    let many = places.len() > MARKED_MAX;
    if places.len() > DASHED_MAX && !line.reported {
        let colour = engine_colour(line.style).stroke_width(1);
        area.draw(&PathElement::new(places.clone(), colour))?;
    } else if places.len() > 1 {
        stroke(area, line.style, &places, line.reported)?;
    }
    for &(at, low, high) in &line.spreads {
        let (at, low, high) = (plot_area.x(at), plot_area.y(low), plot_area.y(high));
        let colour = engine_colour(line.style).stroke_width(1);
        area.draw(&PathElement::new(vec![(at, low), (at, high)], colour))?;
        for end in [low, high] {
            area.draw(&PathElement::new(vec![(at - 3, end), (at + 3, end)], colour))?;
        }
    }
    let every = if many { (places.len() / MARKS).max(1) } else { 1 };
    let first = if many { (index + 1) * every / (COLOURS_SHARED + 1) } else { 0 };
    for place in places.iter().skip(first).step_by(every) {
        marker(area, line.style, *place, line.reported)?;
    }
    Ok(())
}

/// Number of lines whose marks are offset from each other along x.
const COLOURS_SHARED: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    fn line(points: &[(f64, f64)]) -> Line {
        let (name, points, spreads) = ("esker".into(), points.to_vec(), Vec::new());
        Line { name, style: 0, reported: false, points, spreads }
    }

    #[test]
    fn wide_ranges_use_logarithmic_axis_and_colours_are_variables() {
        let axes = Axes { x: "entries", y: "us/op", ..Axes::default() };
        let wide = lines(&[line(&[(1.0, 1.0), (2.0, 1000.0)])], &axes, "wide");
        assert!(wide.contains("us/op (log)") && !wide.contains("entries (log)"), "{wide}");
        assert!(wide.contains("var(--e0)") && !wide.contains("\"#0"), "{wide}");
        let narrow = lines(&[line(&[(1.0, 1.0), (200.0, 2.0)])], &axes, "narrow");
        assert!(narrow.contains("entries (log)") && !narrow.contains("us/op (log)"), "{narrow}");
        assert!(lines(&[line(&[])], &axes, "none").contains("n/a"));
    }

    #[test]
    fn axis_labels_do_not_overlap() {
        let tick = |at: f64| Tick { at, text: format!("{at} KiB"), below: Some("x9".into()) };
        let ticks: Vec<Tick> = (0..40).map(f64::from).map(tick).collect();
        let axes = Axes { x: "data", y: "ops/ms", ticks, ..Axes::default() };
        let svg = lines(&[line(&[(0.0, 1.0), (39.0, 2.0)])], &axes, "many");
        let texts = svg.matches(" KiB").count();
        assert!((3..12).contains(&texts), "{texts}: {svg}");
        assert_eq!(svg.matches("x9").count(), texts);
    }
}
