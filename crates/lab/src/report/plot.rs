//! Charts as inline SVG: horizontal bars, one per engine, with the spread of the samples.
//!
//! Colours are placeholders in the drawing and become CSS variables in the SVG text, so that one
//! chart works on light and dark pages.

use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, VPos};

/// One bar.
#[derive(Clone, Debug)]
pub struct Bar {
    /// Name of the engine.
    pub name: String,
    /// Index of the colour: the engine's index in the benchmark.
    pub colour: usize,
    /// Length of the bar; `None` draws "n/a".
    pub value: Option<f64>,
    /// Smallest and largest sample.
    pub spread: Option<(f64, f64)>,
    /// Text beside the bar.
    pub text: String,
}

/// Number of colours; further engines reuse them in turn.
pub const COLOURS: usize = 8;

const WIDTH: u32 = 360;
const NAME_WIDTH: i32 = 92;
const TEXT_WIDTH: i32 = 92;
const ROW_HEIGHT: i32 = 30;
const BAR_HEIGHT: i32 = 16;
pub(super) const INK: RGBColor = RGBColor(1, 1, 1);
pub(super) const SOFT: RGBColor = RGBColor(2, 2, 2);
pub(super) const GRID: RGBColor = RGBColor(3, 3, 3);

/// Returns the placeholder of an engine's colour.
pub(super) fn engine_colour(index: usize) -> RGBColor {
    RGBColor(4, 4, (index % COLOURS) as u8)
}

/// Draws the bars from 0 to the largest value; `label` describes the chart for screen readers.
pub fn bars(bars: &[Bar], label: &str) -> String {
    let height = (bars.len().max(1) as i32 * ROW_HEIGHT + 6) as u32;
    let mut text = String::new();
    {
        let root = SVGBackend::with_string(&mut text, (WIDTH, height)).into_drawing_area();
        // Drawing into a string cannot fail for lack of space. An error leaves the picture empty.
        let _ = draw(&root, bars, height as i32);
        let _ = root.present();
    }
    recolour(&text, label, WIDTH)
}

type Area<'a> = DrawingArea<SVGBackend<'a>, plotters::coord::Shift>;

fn draw(root: &Area<'_>, bars: &[Bar], height: i32) -> Result<(), Box<dyn std::error::Error>> {
    let ends =
        bars.iter().filter_map(|bar| Some(bar.value?.max(bar.spread.map_or(0.0, |ends| ends.1))));
    let most = ends.fold(0.0, f64::max);
    let room = f64::from(WIDTH as i32 - NAME_WIDTH - TEXT_WIDTH);
    let x = |value: f64| {
        let share = if most > 0.0 { (value / most).clamp(0.0, 1.0) } else { 0.0 };
        NAME_WIDTH + (share * room).round() as i32
    };
    root.draw(&PathElement::new(vec![(NAME_WIDTH, 0), (NAME_WIDTH, height)], GRID.filled()))?;
    for (row, bar) in bars.iter().enumerate() {
        let middle = 3 + row as i32 * ROW_HEIGHT + ROW_HEIGHT / 2;
        let (top, bottom) = (middle - BAR_HEIGHT / 2, middle + BAR_HEIGHT / 2);
        let name: String = bar.name.chars().take(12).collect();
        root.draw(&Text::new(name, (NAME_WIDTH - 8, middle), font(&INK, HPos::Right)))?;
        let Some(value) = bar.value else {
            root.draw(&Text::new("n/a", (NAME_WIDTH + 8, middle), font(&SOFT, HPos::Left)))?;
            continue;
        };
        let end = x(value).max(NAME_WIDTH + 2);
        let colour = engine_colour(bar.colour);
        root.draw(&Rectangle::new([(NAME_WIDTH, top), (end, bottom)], colour.filled()))?;
        let mut beside = end;
        if let Some((low, high)) = bar.spread.filter(|(low, high)| high > low) {
            let (low, high) = (x(low), x(high));
            beside = beside.max(high);
            root.draw(&PathElement::new(vec![(low, middle), (high, middle)], INK.filled()))?;
            for end in [low, high] {
                let tick = vec![(end, middle - 4), (end, middle + 4)];
                root.draw(&PathElement::new(tick, INK.filled()))?;
            }
        }
        root.draw(&Text::new(bar.text.clone(), (beside + 6, middle), font(&INK, HPos::Left)))?;
    }
    Ok(())
}

fn font(colour: &'static RGBColor, side: HPos) -> TextStyle<'static> {
    super::axes::font(colour, 12, side, VPos::Center)
}

/// Replaces placeholder colours by CSS variables, and removes the fixed size, so that the page
/// determines it.
pub(super) fn recolour(svg: &str, label: &str, width: u32) -> String {
    let mut text = svg.to_string();
    for (colour, variable) in [(INK, "ink"), (SOFT, "soft"), (GRID, "grid")] {
        let RGBColor(red, green, blue) = colour;
        let hex = format!("\"#{red:02X}{green:02X}{blue:02X}\"");
        text = text.replace(&hex, &format!("\"var(--{variable})\""));
    }
    for index in 0..COLOURS {
        text = text.replace(&format!("\"#0404{index:02X}\""), &format!("\"var(--e{index})\""));
    }
    let start = text.find("<svg").unwrap_or(0);
    let head = format!("<svg role=\"img\" aria-label=\"{}\" ", super::html::escape(label));
    text[start..].replacen("<svg ", &head, 1).replacen(
        &format!("width=\"{width}\" height=\""),
        "data-height=\"",
        1,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bar_chart_has_names_labels_and_no_fixed_colour() {
        let bar = |name: &str, value| Bar {
            name: name.into(),
            colour: 1,
            value,
            spread: Some((1.0, 3.0)),
            text: "2.0 µs".into(),
        };
        let svg = bars(&[bar("esker", Some(2.0)), bar("a<b", None)], "a \"label\"");
        assert!(svg.starts_with("<svg role=\"img\""), "{svg}");
        for part in ["esker", "a&lt;b", "2.0 µs", "n/a", "var(--e1)", "viewBox", "&quot;label"] {
            assert!(svg.contains(part), "{part} is missing: {svg}");
        }
        assert!(!svg.contains("\"#"), "{svg}");
    }
}
