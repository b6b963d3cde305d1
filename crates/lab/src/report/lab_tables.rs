//! An experiment's tables on its page: in the document's layout, coloured by advantage in the
//! displayed unit, or as heat maps for two crossed options.

use std::fmt::Write;

use super::grid::{Grid, SeriesView};
use super::html::escape;
use super::lab_text::cell_text;

/// Maximum number of table rows of a series that are shown unfolded.
const OPEN_ROWS_MAX: usize = 16;

/// Writes the tables in the document's layout, folded if they are long.
pub fn tables(page: &mut String, view: &SeriesView<'_>) {
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
    let _ = write!(page, "<tr><th>{}</th>", escape(&view.sizes.axis(&view.rows)));
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
                    // By logarithm; a better value is more intense.
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

/// Returns whether the series' tables cross two options and are drawn as heat maps.
fn heats(view: &SeriesView<'_>) -> bool {
    let varied = |axis: &str| view.series.vary.keys().any(|name| name.get_ref() == axis);
    varied(&view.rows) && varied(&view.columns)
}

/// Returns the value range of a heat map.
fn heat(view: &SeriesView<'_>, grid: &Grid) -> Option<(f64, f64)> {
    if !heats(view) {
        return None;
    }
    let values = grid.rows.iter().flat_map(|(_, cells)| cells.iter().flatten());
    let values: Vec<f64> = values.filter_map(|figure| figure.value).collect();
    let low = values.iter().copied().reduce(f64::min)?;
    Some((low, values.iter().copied().reduce(f64::max)?))
}
