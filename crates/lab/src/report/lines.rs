//! Line plots as inline SVG: one line for each store, dashed where a document reported it.
//!
//! Values that spread over decades are drawn on a logarithmic scale, and the axis says so.

use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::lab_text::number;
use super::plot::{GRID, INK, SOFT, engine_colour, recolour};

/// One line.
#[derive(Clone, Debug)]
pub struct Line {
    /// Whose.
    pub name: String,
    /// Which colour.
    pub colour: usize,
    /// Reported, not measured.
    pub dashed: bool,
    /// Its points, by x.
    pub points: Vec<(f64, f64)>,
    /// Smallest and largest sample at some x.
    pub spreads: Vec<(f64, f64, f64)>,
}

/// A plot's fixed parts.
#[derive(Clone, Debug, Default)]
pub struct Axes<'a> {
    /// What x is.
    pub x: &'a str,
    /// What y is.
    pub y: &'a str,
    /// Stretches of x to shade: from, to, and whose colour.
    pub shaded: Vec<(f64, f64, usize)>,
    /// Marks of the x axis instead of plain numbers: the value and its text.
    pub x_marks: Vec<(f64, String)>,
}

const WIDTH: u32 = 400;
const HEIGHT: u32 = 260;
/// A spread from which an axis is logarithmic.
const LOG_Y_FROM: f64 = 40.0;
const LOG_X_FROM: f64 = 20.0;

type Area<'a> = DrawingArea<SVGBackend<'a>, plotters::coord::Shift>;

/// Draws the lines.
pub fn lines(lines: &[Line], axes: &Axes<'_>, label: &str) -> String {
    let mut text = String::new();
    {
        let root = SVGBackend::with_string(&mut text, (WIDTH, HEIGHT)).into_drawing_area();
        // Drawing into a string cannot fail for want of space; an error leaves the picture empty.
        let _ = draw(&root, lines, axes);
        let _ = root.present();
    }
    recolour(&text, label, WIDTH)
}

/// One axis: its ends, and whether it is logarithmic.
#[derive(Clone, Copy)]
struct Span {
    low: f64,
    high: f64,
    log: bool,
}

impl Span {
    fn of(values: impl Iterator<Item = f64> + Clone, log_from: f64, from_zero: bool) -> Span {
        let low = values.clone().fold(f64::INFINITY, f64::min);
        let high = values.fold(f64::NEG_INFINITY, f64::max);
        if !low.is_finite() || !high.is_finite() {
            return Span { low: 0.0, high: 1.0, log: false };
        }
        let log = low > 0.0 && high / low >= log_from;
        if log {
            let (low, high) = (low.log10(), high.log10());
            let room = (high - low) * 0.04;
            return Span { low: low - room, high: high + room, log };
        }
        let low = if from_zero { low.min(0.0) } else { low };
        let room = if high > low { (high - low) * 0.06 } else { high.abs().max(1.0) * 0.1 };
        Span { low: if from_zero { low } else { low - room / 2.0 }, high: high + room, log }
    }

    fn place(&self, value: f64) -> f64 {
        if self.log { value.max(f64::MIN_POSITIVE).log10() } else { value }
    }

    fn text(&self, place: f64) -> String {
        if !self.log {
            return short(place);
        }
        // Two digits are enough between decades.
        let value = 10f64.powf(place);
        let unit = 10f64.powf(place.floor() - 1.0);
        let rounded = (value / unit).round() * unit;
        let text = short(rounded);
        if text.contains('.') {
            text.trim_end_matches('0').trim_end_matches('.').into()
        } else {
            text
        }
    }
}

/// A number of few characters: `1.2M`, `300k`, `0.05`.
pub fn short(value: f64) -> String {
    let size = value.abs();
    let text = match size {
        _ if size >= 9.95e8 => format!("{:.1}G", value / 1e9),
        _ if size >= 9.95e5 => format!("{:.1}M", value / 1e6),
        _ if size >= 9.95e3 => format!("{:.0}k", value / 1e3),
        _ if size == 0.0 => "0".into(),
        _ => number(value),
    };
    text.replace(".0M", "M").replace(".0G", "G").replace(".00", "")
}

fn draw(
    root: &Area<'_>,
    lines: &[Line],
    axes: &Axes<'_>,
) -> Result<(), Box<dyn std::error::Error>> {
    let xs = lines.iter().flat_map(|line| line.points.iter().map(|point| point.0));
    let ys = lines.iter().flat_map(|line| {
        let ends = line.spreads.iter().flat_map(|spread| [spread.1, spread.2]);
        line.points.iter().map(|point| point.1).chain(ends)
    });
    let log_x = if axes.x_marks.is_empty() { LOG_X_FROM } else { f64::INFINITY };
    let (x, y) = (Span::of(xs, log_x, false), Span::of(ys, LOG_Y_FROM, true));
    let mut chart = ChartBuilder::on(root)
        .margin(4)
        .margin_right(10)
        .x_label_area_size(42)
        .y_label_area_size(62)
        .build_cartesian_2d(x.low..x.high, y.low..y.high)?;
    let small = TextStyle::from(("sans-serif", 14).into_font()).color(&SOFT);
    let log_text = |name: &str, log: bool| format!("{name}{}", if log { " (log)" } else { "" });
    let mark = |place: &f64| {
        let mark = axes.x_marks.iter().find(|mark| (mark.0 - place).abs() < 0.01);
        match mark {
            Some((_, text)) => text.clone(),
            None if axes.x_marks.is_empty() => x.text(*place),
            None => String::new(),
        }
    };
    chart
        .configure_mesh()
        .x_labels(if axes.x_marks.is_empty() { 6 } else { axes.x_marks.len() + 1 })
        .y_labels(5)
        .light_line_style(TRANSPARENT)
        .bold_line_style(GRID.stroke_width(1))
        .axis_style(GRID.stroke_width(1))
        .x_label_style(small.clone())
        .y_label_style(small.clone())
        .axis_desc_style(small)
        .x_desc(log_text(axes.x, x.log))
        .y_desc(log_text(axes.y, y.log))
        .x_label_formatter(&mark)
        .y_label_formatter(&|place| y.text(*place))
        .draw()?;
    for &(from, to, colour) in &axes.shaded {
        let corners = [(x.place(from), y.low), (x.place(to), y.high)];
        chart.draw_series([Rectangle::new(corners, engine_colour(colour).mix(0.3).filled())])?;
    }
    for line in lines {
        draw_line(&mut chart, line, x, y)?;
    }
    if lines.iter().all(|line| line.points.is_empty()) {
        let style = TextStyle::from(("sans-serif", 13).into_font()).color(&INK);
        let middle = (WIDTH as i32 / 2, HEIGHT as i32 / 2);
        root.draw(&Text::new("n/a", middle, style.pos(Pos::new(HPos::Center, VPos::Center))))?;
    }
    Ok(())
}

type Chart<'a, 'b> = ChartContext<
    'a,
    SVGBackend<'b>,
    Cartesian2d<plotters::coord::types::RangedCoordf64, plotters::coord::types::RangedCoordf64>,
>;

fn draw_line(
    chart: &mut Chart<'_, '_>,
    line: &Line,
    x: Span,
    y: Span,
) -> Result<(), Box<dyn std::error::Error>> {
    let colour = engine_colour(line.colour);
    let points: Vec<(f64, f64)> =
        line.points.iter().map(|point| (x.place(point.0), y.place(point.1))).collect();
    if line.dashed {
        let style = colour.stroke_width(2);
        chart.draw_series(DashedLineSeries::new(points.clone(), 5, 4, style))?;
    } else {
        chart.draw_series(LineSeries::new(points.clone(), colour.stroke_width(2)))?;
    }
    if points.len() <= 24 {
        let dots = points.iter().map(|&point| Circle::new(point, 3, colour.filled()));
        chart.draw_series(dots)?;
    }
    for &(at, low, high) in &line.spreads {
        let ends = vec![(x.place(at), y.place(low)), (x.place(at), y.place(high))];
        chart.draw_series([PathElement::new(ends, colour.stroke_width(1))])?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(points: &[(f64, f64)]) -> Line {
        let (name, points, spreads) = ("esker".into(), points.to_vec(), Vec::new());
        Line { name, colour: 0, dashed: false, points, spreads }
    }

    #[test]
    fn decades_make_an_axis_logarithmic_and_colours_are_variables() {
        let axes = Axes { x: "entries", y: "us/op", ..Axes::default() };
        let wide = lines(&[line(&[(1.0, 1.0), (2.0, 1000.0)])], &axes, "wide");
        assert!(wide.contains("us/op (log)") && !wide.contains("entries (log)"), "{wide}");
        assert!(wide.contains("var(--e0)") && !wide.contains("\"#0"), "{wide}");
        let narrow = lines(&[line(&[(1.0, 1.0), (200.0, 2.0)])], &axes, "narrow");
        assert!(narrow.contains("entries (log)") && !narrow.contains("us/op (log)"), "{narrow}");
        assert!(lines(&[line(&[])], &axes, "none").contains("n/a"));
    }

    #[test]
    fn short_numbers() {
        let texts = [0.0, 0.05, 3.0, 999.0, 12_000.0, 1.2e6, 2e9].map(short);
        assert_eq!(texts, ["0", "0.050", "3", "999", "12k", "1.2M", "2G"]);
    }
}
