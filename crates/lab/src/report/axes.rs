//! Common parts of charts with axes: spans, ticks, and styles that distinguish lines without colour
//! (a shape and a dash each).

use plotters::element::DashedPathElement;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::lab_text::number;
use super::plot::{COLOURS, GRID, INK, SOFT, engine_colour, recolour};

/// A drawing into a string.
pub type Area<'a> = DrawingArea<SVGBackend<'a>, plotters::coord::Shift>;
/// Result of a drawing. Drawing into a string cannot fail for lack of space.
pub type Drawn = Result<(), Box<dyn std::error::Error>>;

/// The ends of one axis, and whether it is logarithmic.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Span {
    low: f64,
    high: f64,
    /// Whether equal lengths are equal factors.
    pub log: bool,
}

/// Ratio of largest to smallest value from which an axis is logarithmic.
pub const LOG_FROM: f64 = 40.0;

impl Span {
    /// Returns an axis for all `values`: from zero, or logarithmic if their ratio is at least
    /// `log_from`.
    pub fn of(values: impl Iterator<Item = f64> + Clone, log_from: f64, from_zero: bool) -> Span {
        let low = values.clone().fold(f64::INFINITY, f64::min);
        let high = values.fold(f64::NEG_INFINITY, f64::max);
        if !low.is_finite() || !high.is_finite() {
            return Span { low: 0.0, high: 1.0, log: false };
        }
        if low > 0.0 && high / low >= log_from {
            let room = (high / low).powf(0.04);
            return Span { low: low / room, high: high * room, log: true };
        }
        let low = if from_zero { low.min(0.0) } else { low };
        let room = if high > low { (high - low) * 0.06 } else { high.abs().max(1.0) * 0.1 };
        Span { low: if from_zero { low } else { low - room / 2.0 }, high: high + room, log: false }
    }

    /// Returns the position of a value, from 0 to 1.
    pub fn share(&self, value: f64) -> f64 {
        if self.log {
            let value = value.max(f64::MIN_POSITIVE);
            return (value / self.low).ln() / (self.high / self.low).ln();
        }
        (value - self.low) / (self.high - self.low)
    }

    /// Returns about `most` round values for ticks.
    pub fn ticks(&self, most: usize) -> Vec<f64> {
        if self.log {
            let decades = (self.high / self.low).log10();
            let steps: &[f64] = if decades < most as f64 * 0.6 { &[1.0, 2.0, 5.0] } else { &[1.0] };
            let thin = (decades / most as f64).ceil().max(1.0) as i32;
            let exponents = self.low.log10().floor() as i32..=self.high.log10().ceil() as i32;
            let wanted = exponents.filter(|exponent| exponent.rem_euclid(thin) == 0);
            let all =
                wanted.flat_map(|exponent| steps.iter().map(move |s| s * 10f64.powi(exponent)));
            return all.filter(|at| (self.low..=self.high).contains(at)).collect();
        }
        let raw = (self.high - self.low) / most.max(1) as f64;
        let unit = 10f64.powf(raw.log10().floor());
        let step =
            [1.0, 2.0, 5.0, 10.0].into_iter().find(|s| s * unit >= raw).unwrap_or(10.0) * unit;
        let first = (self.low / step).ceil() as i64;
        let count = ((self.high - self.low) / step) as i64 + 1;
        let all = (first..=first + count).map(|place| place as f64 * step);
        all.filter(|at| *at <= self.high).collect()
    }
}

/// Formats a number with few characters: `1.2M`, `300k`, `0.05`.
pub fn short(value: f64) -> String {
    let size = value.abs();
    let text = match size {
        _ if size >= 9.95e8 => format!("{:.1}G", value / 1e9),
        _ if size >= 9.95e5 => format!("{:.1}M", value / 1e6),
        _ if size >= 9.95e3 => format!("{:.0}k", value / 1e3),
        _ if size == 0.0 => "0".into(),
        _ if size < 0.01 => format!("{value:.0e}"),
        _ => number(value),
    };
    text.replace(".0M", "M").replace(".0G", "G").replace(".00", "")
}

/// Formats a tick like [`short`], without trailing zeros after the decimal point.
pub fn tick_text(value: f64) -> String {
    let text = short(value);
    match text.contains('.') && text.ends_with('0') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_string(),
        false => text,
    }
}

/// Estimates the width of a text in a picture.
pub fn width_of(text: &str, size: i32) -> i32 {
    (text.chars().count() as f64 * f64::from(size) * 0.56).ceil() as i32
}

/// Returns a text style.
pub fn font(colour: &'static RGBColor, size: i32, across: HPos, up: VPos) -> TextStyle<'static> {
    // The backend divides the size by this factor before it writes pixels.
    let size = f64::from(size) * 1.24;
    let style = TextStyle::from(("sans-serif", size).into_font()).color(colour);
    style.pos(Pos::new(across, up))
}

/// Draws a text.
pub fn text(area: &Area<'_>, text: &str, at: (i32, i32), style: TextStyle<'static>) -> Drawn {
    Ok(area.draw(&Text::new(text.to_string(), at, style))?)
}

/// Returns the style of a text beside a value.
pub fn ink(size: i32, across: HPos) -> TextStyle<'static> {
    font(&INK, size, across, VPos::Center)
}

/// Returns the style of a text at an axis.
pub fn soft(size: i32, across: HPos) -> TextStyle<'static> {
    font(&SOFT, size, across, VPos::Center)
}

/// Draws a thin grid line.
pub fn rule(area: &Area<'_>, from: (i32, i32), to: (i32, i32)) -> Drawn {
    Ok(area.draw(&PathElement::new(vec![from, to], GRID.stroke_width(1)))?)
}

/// Dashes of each style: dash length and gap; 0 is a solid line.
const DASHES: [(i32, i32); COLOURS] =
    [(0, 0), (10, 4), (3, 3), (16, 4), (6, 6), (2, 5), (10, 10), (5, 2)];

/// Draws a line in the style with this number; a reported line is dotted and thin.
pub fn stroke(area: &Area<'_>, style: usize, points: &[(i32, i32)], reported: bool) -> Drawn {
    let colour = engine_colour(style);
    let (dash, gap) = if reported { (1, 4) } else { DASHES[style % COLOURS] };
    let width = if reported { 1 } else { 2 };
    if dash == 0 {
        return Ok(area.draw(&PathElement::new(points.to_vec(), colour.stroke_width(width)))?);
    }
    let points = points.to_vec();
    Ok(area.draw(&DashedPathElement::new(points, dash, gap, colour.stroke_width(width)))?)
}

/// Returns the corners of a style's shape around (0, 0); `None` is a circle.
fn shape(style: usize) -> Option<&'static [(i32, i32)]> {
    const SHAPES: [&[(i32, i32)]; COLOURS - 1] = [
        &[(-4, -4), (4, -4), (4, 4), (-4, 4)],
        &[(0, -5), (5, 4), (-5, 4)],
        &[(0, -6), (6, 0), (0, 6), (-6, 0)],
        &[(0, 5), (5, -4), (-5, -4)],
        &[
            (-2, -5),
            (2, -5),
            (2, -2),
            (5, -2),
            (5, 2),
            (2, 2),
            (2, 5),
            (-2, 5),
            (-2, 2),
            (-5, 2),
            (-5, -2),
            (-2, -2),
        ],
        &[(-5, 0), (5, -5), (5, 5)],
        &[(5, 0), (-5, -5), (-5, 5)],
    ];
    (style % COLOURS).checked_sub(1).map(|place| SHAPES[place])
}

/// Draws a point in the shape with this number; a reported point is hollow.
pub fn marker(area: &Area<'_>, style: usize, at: (i32, i32), reported: bool) -> Drawn {
    let colour = engine_colour(style);
    let Some(shape) = shape(style) else {
        let look = if reported { colour.stroke_width(1) } else { colour.filled() };
        return Ok(area.draw(&Circle::new(at, 4, look))?);
    };
    let mut corners: Vec<(i32, i32)> = shape.iter().map(|(x, y)| (at.0 + x, at.1 + y)).collect();
    if reported {
        corners.push(corners[0]);
        return Ok(area.draw(&PathElement::new(corners, colour.stroke_width(1)))?);
    }
    Ok(area.draw(&Polygon::new(corners, colour.filled()))?)
}

/// Draws a short line with its mark, for a legend.
pub fn swatch(style: usize, reported: bool) -> String {
    picture((44, 14), "", |area| {
        stroke(area, style, &[(2, 7), (42, 7)], reported)?;
        marker(area, style, (22, 7), reported)
    })
}

/// Creates a picture of this size; `label` describes it for screen readers.
pub fn picture(
    (width, height): (u32, u32),
    label: &str,
    draw: impl FnOnce(&Area<'_>) -> Drawn,
) -> String {
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, (width, height)).into_drawing_area();
        // Drawing into a string cannot fail for lack of space. An error leaves the picture empty.
        let _ = draw(&area);
        let _ = area.present();
    }
    recolour(&svg, label, width)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_start_at_zero_or_are_logarithmic() {
        let near = Span::of([10.0, 40.0].into_iter(), LOG_FROM, true);
        assert!(!near.log && near.share(0.0) == 0.0 && near.share(40.0) < 1.0);
        let wide = Span::of([1.0, 1000.0].into_iter(), LOG_FROM, true);
        assert!(wide.log);
        let steps = [1.0, 10.0, 100.0].map(|value| wide.share(value * 10.0) - wide.share(value));
        assert!(steps.iter().all(|step| (step - steps[0]).abs() < 1e-9), "{steps:?}");
        let none = Span::of(std::iter::empty(), LOG_FROM, true);
        assert!(none.share(0.5) == 0.5);
    }

    #[test]
    fn ticks_are_round_and_on_axis() {
        let near = Span::of([0.0, 900.0].into_iter(), LOG_FROM, true);
        assert_eq!(near.ticks(5), [0.0, 200.0, 400.0, 600.0, 800.0]);
        let wide = Span::of([1.0, 1e6].into_iter(), LOG_FROM, true);
        assert_eq!(wide.ticks(4), [1.0, 100.0, 1e4, 1e6]);
        let decade = Span::of([3.0, 150.0].into_iter(), LOG_FROM, true);
        assert_eq!(decade.ticks(6), [5.0, 10.0, 20.0, 50.0, 100.0]);
    }

    #[test]
    fn short_numbers() {
        let texts = [0.0, 0.05, 3.0, 999.0, 12_000.0, 1.2e6, 2e9].map(short);
        assert_eq!(texts, ["0", "0.050", "3", "999", "12k", "1.2M", "2G"]);
        assert_eq!(
            [0.5, 0.05, 20.0, 1.5, 0.0002].map(tick_text),
            ["0.5", "0.05", "20", "1.5", "2e-4"]
        );
    }

    #[test]
    fn every_style_has_its_own_shape_and_dash() {
        let swatches: Vec<String> = (0..COLOURS).map(|style| swatch(style, false)).collect();
        let plain = |svg: &String| {
            (0..COLOURS).fold(svg.clone(), |svg, colour| svg.replace(&format!("--e{colour}"), ""))
        };
        let plain: Vec<String> = swatches.iter().map(plain).collect();
        for (index, one) in plain.iter().enumerate() {
            assert!(plain[index + 1..].iter().all(|other| other != one), "{one}");
            assert!(!swatches[index].contains("\"#"), "a fixed colour: {one}");
        }
    }
}
