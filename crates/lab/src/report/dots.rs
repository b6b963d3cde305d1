//! Figures of several places on one scale as inline SVG: a row per place, with a lane per store
//! that shows its mark, the spread of its samples and its value.

use plotters::prelude::*;
use plotters::style::text_anchor::HPos;

use super::axes::{Area, Drawn, Span, ink, marker, picture, rule, soft, text, tick_text, width_of};
use super::plot::{INK, engine_colour};

/// One store's figure.
#[derive(Clone, Debug)]
pub struct Dot {
    /// Index of colour and mark.
    pub style: usize,
    /// Value; `None` draws "n/a".
    pub value: Option<f64>,
    /// Smallest and largest sample.
    pub spread: Option<(f64, f64)>,
    /// Text beside the mark.
    pub text: String,
    /// Whether the figure is reported, not measured.
    pub reported: bool,
}

/// One place.
#[derive(Clone, Debug)]
pub struct Row {
    /// Name of the place; empty if there is only one.
    pub label: String,
    /// Figures of the stores.
    pub dots: Vec<Dot>,
}

const WIDTH: i32 = 400;
const LEFT: i32 = 10;
const RIGHT: i32 = WIDTH - 76;
const LANE: i32 = 15;
const LABEL: i32 = 19;
const GAP: i32 = 5;
const FOOT: i32 = 38;
const TEXT: i32 = 13;

/// Returns all values of the rows, including the ends of their spreads.
pub fn values(rows: &[Row]) -> impl Iterator<Item = f64> + Clone {
    rows.iter().flat_map(|row| &row.dots).flat_map(|dot| {
        let ends = dot.spread.into_iter().flat_map(|(low, high)| [low, high]);
        dot.value.into_iter().chain(ends)
    })
}

/// Draws the rows over one axis in `unit`.
pub fn dots(rows: &[Row], span: Span, unit: &str, label: &str) -> String {
    let height = rows.iter().map(height_of).sum::<i32>() + FOOT;
    picture((WIDTH as u32, height as u32), label, |area| draw(area, rows, span, (unit, height)))
}

fn height_of(row: &Row) -> i32 {
    let label = if row.label.is_empty() { 0 } else { LABEL };
    label + row.dots.len() as i32 * LANE + GAP
}

fn draw(area: &Area<'_>, rows: &[Row], span: Span, (unit, height): (&str, i32)) -> Drawn {
    let bottom = height - FOOT;
    let place = |value: f64| LEFT + (span.share(value) * f64::from(RIGHT - LEFT)).round() as i32;
    let mut free_from = 0;
    for at in span.ticks(5) {
        let x = place(at);
        rule(area, (x, 0), (x, bottom + 3))?;
        let (mark, half) = (tick_text(at), width_of(&tick_text(at), TEXT) / 2);
        if x - half >= free_from {
            text(area, &mark, (x.max(half), bottom + 12), soft(TEXT, HPos::Center))?;
            free_from = x + half + 8;
        }
    }
    let scale = if span.log { format!("{unit} (log)") } else { unit.to_string() };
    text(area, &scale, ((LEFT + RIGHT) / 2, height - 9), soft(TEXT, HPos::Center))?;
    let mut top = 0;
    for row in rows {
        if !row.label.is_empty() {
            text(area, &row.label, (0, top + LABEL / 2 + 2), ink(TEXT, HPos::Left))?;
        }
        let first = top + height_of(row) - GAP - row.dots.len() as i32 * LANE;
        for (lane, dot) in row.dots.iter().enumerate() {
            draw_dot(area, dot, &place, span.log, first + lane as i32 * LANE + LANE / 2)?;
        }
        top += height_of(row);
    }
    Ok(())
}

fn draw_dot(area: &Area<'_>, dot: &Dot, place: &dyn Fn(f64) -> i32, log: bool, y: i32) -> Drawn {
    let Some(value) = dot.value else {
        marker(area, dot.style, (LEFT, y), true)?;
        return text(area, "n/a", (LEFT + 10, y), soft(TEXT, HPos::Left));
    };
    let colour = engine_colour(dot.style);
    let x = place(value);
    if !log {
        // On an axis from zero, the length of a bar shows the value.
        area.draw(&PathElement::new(vec![(LEFT, y), (x, y)], colour.stroke_width(3)))?;
    }
    let mut end = x;
    if let Some((low, high)) = dot.spread.filter(|(low, high)| high > low) {
        let (low, high) = (place(low), place(high));
        end = end.max(high);
        area.draw(&PathElement::new(vec![(low, y), (high, y)], INK.stroke_width(1)))?;
        for end in [low, high] {
            area.draw(&PathElement::new(vec![(end, y - 4), (end, y + 4)], INK.stroke_width(1)))?;
        }
    }
    marker(area, dot.style, (x, y), dot.reported)?;
    text(area, &dot.text, (end + 9, y), ink(TEXT - 1, HPos::Left))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::axes::LOG_FROM;

    #[test]
    fn dots_show_names_and_values_on_one_scale() {
        let dot = |style, value, text: &str| Dot {
            style,
            value,
            spread: value.map(|value| (value * 0.9, value * 1.1)),
            text: text.into(),
            reported: false,
        };
        let row = |label: &str, values: [Option<f64>; 2]| Row {
            label: label.into(),
            dots: vec![dot(0, values[0], "first"), dot(1, values[1], "second")],
        };
        let rows = [row("fill<seq", [Some(1.0), Some(2000.0)]), row("read", [Some(3.0), None])];
        let span = Span::of(values(&rows), LOG_FROM, true);
        let svg = dots(&rows, span, "us/op", "a picture");
        for part in ["fill&lt;seq", "read", "first", "second", "n/a", "us/op (log)", "var(--e1)"] {
            assert!(svg.contains(part), "{part} is missing: {svg}");
        }
        assert_eq!(svg.matches("us/op").count(), 1);
        assert!(!svg.contains("\"#"), "{svg}");
    }
}
