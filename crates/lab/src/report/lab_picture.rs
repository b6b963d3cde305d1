//! A series' chart as one SVG file of its own, for a Markdown page: title, legend and all panels.
//!
//! On a page, panels inherit colours and sizes. A file has no page, so it contains both, and
//! a light background that is readable also where the reader's page is dark.

use std::fmt::Write;

use super::axes::swatch;
use super::grid::SeriesView;
use super::html::escape;
use super::lab_charts::drawn;
use super::lab_html::Whos;

/// Width of a panel with its margin, in px.
const COLUMN: usize = 412;
/// Width of the panel alone.
const PANEL: usize = 400;
/// Heights of the title, of one line of the legend, and of a panel's title.
const TITLE: usize = 52;
const LEGEND: usize = 24;
const NAME: usize = 22;
/// Width of one character in the legend, estimated.
const CHARACTER: usize = 8;
/// Colours and font that a page would give.
const STYLE: &str = "svg{--ink:#1d2126;--soft:#59636d;--grid:#c9cdd2;--e0:#d55e00;--e1:#0072b2;\
                     --e2:#009e73;--e3:#b5568f;--e4:#1d2126;--e5:#b87f00;--e6:#2f8fc4;--e7:#8c8300}\
                     text{font-family:system-ui,sans-serif}";

/// Draws the measured figures of a view.
pub fn picture(view: &SeriesView<'_>, whos: &Whos) -> String {
    let chart = drawn(view, whos);
    let panels: usize = chart.groups.iter().map(Vec::len).sum();
    let columns = if panels == 1 { 1 } else { 2 };
    let width = columns * COLUMN + 12;
    let mut body = String::new();
    let mut y = TITLE;
    text(&mut body, (12, 21), (15, 600), &chart.title, width - 24);
    text(&mut body, (12, 40), (13, 400), &chart.about, width - 24);
    let mut x = 12;
    for (style, name) in chart.names.iter().filter(|(_, name)| !name.is_empty()) {
        let own = 44 + 6 + name.chars().count() * CHARACTER + 16;
        if x + own > width && x > 12 {
            (x, y) = (12, y + LEGEND);
        }
        let place = format!("<svg x=\"{x}\" y=\"{}\" width=\"44\" height=\"14\" ", y + 3);
        body += &placed(&swatch(*style, false), &place);
        let _ = write!(
            body,
            "<text x=\"{}\" y=\"{}\" font-size=\"13\" fill=\"#1d2126\">{}</text>",
            x + 50,
            y + 14,
            escape(name)
        );
        x += own;
    }
    y += LEGEND;
    for group in &chart.groups {
        for row in group.chunks(columns) {
            let mut below = 0;
            for (place, (name, svg)) in row.iter().enumerate() {
                let x = 12 + place * COLUMN;
                let (own, across) = (height(svg), width_of(svg));
                let tall = own * PANEL / across.max(1);
                text(&mut body, (x, y + NAME - 6), (14, 600), name, PANEL);
                let place = format!(
                    "<svg x=\"{x}\" y=\"{}\" width=\"{PANEL}\" height=\"{tall}\" ",
                    y + NAME
                );
                body += &placed(svg, &place);
                below = below.max(NAME + tall + 10);
            }
            y += below;
        }
    }
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {y}\" width=\"{width}\" \
         height=\"{y}\" role=\"img\" aria-label=\"{}\"><style>{STYLE}</style>\
         <rect width=\"{width}\" height=\"{y}\" fill=\"#fff\"/>\n{body}</svg>\n",
        escape(&chart.title)
    )
}

/// Writes a text of a size and a weight, and shrinks it to `width`.
fn text(
    body: &mut String,
    (x, y): (usize, usize),
    (size, weight): (usize, usize),
    words: &str,
    width: usize,
) {
    let long = words.chars().count() * size * 6 / 10;
    let fit = match long > width {
        true => format!(" textLength=\"{width}\" lengthAdjust=\"spacingAndGlyphs\""),
        false => String::new(),
    };
    let _ = write!(
        body,
        "<text x=\"{x}\" y=\"{y}\" font-size=\"{size}\" font-weight=\"{weight}\" \
         fill=\"var(--ink)\"{fit}>{}</text>",
        escape(words)
    );
}

/// Replaces the start of an inline picture by a place and a size within another picture.
fn placed(svg: &str, place: &str) -> String {
    let start = svg.find('>').map_or(svg, |end| &svg[end + 1..]);
    let size = format!("viewBox=\"0 0 {} {}\">", width_of(svg), height(svg));
    format!("{place}{size}{}\n", compact(start))
}

/// Removes what a reader of the file does not need: attributes that repeat a default, and the
/// elements of a dashed line, of which there is one for each dash, in favour of one path.
fn compact(svg: &str) -> String {
    let mut text = String::new();
    let mut open: Option<String> = None;
    for line in svg.lines().filter(|line| !line.trim().is_empty()) {
        let mut line =
            line.replace(" opacity=\"1\"", "").replace(" font-family=\"sans-serif\"", "");
        line = line.replace("font-size=\"13.000000000000002\"", "font-size=\"13\"");
        let parts = line.strip_prefix("<polyline ").and_then(|rest| rest.split_once(" points=\""));
        let Some((style, points)) = parts.and_then(|(s, p)| Some((s, p.strip_suffix("\"/>")?)))
        else {
            text.push_str(if open.take().is_some() { "\"/>" } else { "" });
            text.push_str(&line);
            continue;
        };
        if open.as_deref() != Some(style) {
            text.push_str(if open.is_some() { "\"/>" } else { "" });
            let _ = write!(text, "<path {style} d=\"");
            open = Some(style.to_string());
        }
        let _ = write!(text, "M{}", points.trim().replace(' ', "L"));
    }
    text.push_str(if open.is_some() { "\"/>" } else { "" });
    text
}

/// Returns the number after `mark` in a picture; 1 if there is none.
fn number_after(svg: &str, mark: &str, place: usize) -> usize {
    let view = svg.split(mark).nth(1).and_then(|rest| rest.split('"').next());
    let number = view.and_then(|view| view.split(' ').nth(place));
    number.and_then(|number| number.parse().ok()).unwrap_or(1)
}

fn height(svg: &str) -> usize {
    number_after(svg, "viewBox=\"", 3)
}

fn width_of(svg: &str) -> usize {
    number_after(svg, "viewBox=\"", 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn size_of_a_panel_is_read_from_its_view_box() {
        let svg = swatch(0, false);
        assert_eq!((width_of(&svg), height(&svg)), (44, 14));
        let placed = placed(&svg, "<svg x=\"1\" y=\"2\" width=\"44\" height=\"14\" ");
        assert_eq!(placed.matches("height=\"").count(), 1, "{placed}");
        assert_eq!((width_of(&placed), height(&placed)), (44, 14));
    }

    #[test]
    fn dashes_of_one_line_become_one_path() {
        let dash = |colour: &str, points: &str| {
            format!(
                "<polyline fill=\"none\" opacity=\"1\" stroke=\"{colour}\" points=\"{points} \"/>\n"
            )
        };
        let svg = dash("a", "1,2 3,4")
            + &dash("a", "5,6 7,8")
            + &dash("b", "1,1 2,2")
            + "<text>\nx\n</text>\n";
        assert_eq!(
            compact(&svg),
            "<path fill=\"none\" stroke=\"a\" d=\"M1,2L3,4M5,6L7,8\"/>\
             <path fill=\"none\" stroke=\"b\" d=\"M1,1L2,2\"/><text>x</text>"
        );
    }
}
