//! A trend's page: for each place the figures and the ratios over the records as lines, and the
//! table.
//!
//! Invariants:
//! 1. A line of figures does not connect different machines. A line of ratios does.
//! 2. Tables and sentences are those of the text.

use std::fmt::Write;

use super::judge::{Row, Table, Trend, Verdict};
use super::text::{
    cell_text, change_heads, explanations, head, machines_line, row_texts, summary, title,
};
use crate::report::html::{begin, end, escape};
use crate::report::lab_charts::legend;
use crate::report::lines::{Axes, Line, Tick, lines};

/// Renders the whole page.
pub fn page(trend: &Trend) -> String {
    let mut page = String::new();
    let heading = escape(&title(trend));
    begin(&mut page, &heading);
    let _ = write!(page, "<h1>{heading}</h1><p><b>{}</b></p>", escape(&summary(trend)));
    if let Some(line) = machines_line(trend) {
        let _ = write!(page, "<p class=\"warn\">{}</p>", escape(&line));
    }
    let peers = peers(trend);
    for table in &trend.tables {
        let _ = writeln!(page, "<h2>{}</h2>", escape(&table.place));
        pictures(&mut page, trend, table, &peers);
        figures(&mut page, trend, table);
    }
    records(&mut page, trend);
    page.push_str("<h2>How it was judged</h2>");
    for line in explanations(trend) {
        let _ = write!(page, "<p>{}</p>", escape(&line));
    }
    end(&mut page);
    page
}

/// Returns the other engines, in order of occurrence.
fn peers(trend: &Trend) -> Vec<&str> {
    let mut peers: Vec<&str> = Vec::new();
    for peer in trend.tables.iter().flat_map(|table| &table.rows).filter_map(|r| r.peer.as_deref())
    {
        if !peers.contains(&peer) {
            peers.push(peer);
        }
    }
    peers
}

/// Returns the lines of a row. `parts` says for each record in which line its figure is.
fn lines_of(name: &str, style: usize, row: &Row, parts: &[usize]) -> Vec<Line> {
    let mut all: Vec<(usize, Line)> = Vec::new();
    for ((index, cell), &part) in row.cells.iter().enumerate().zip(parts) {
        let Some(cell) = cell else { continue };
        if all.last().is_none_or(|(last, _)| *last != part) {
            let (name, points, spreads) = (name.to_string(), Vec::new(), Vec::new());
            all.push((part, Line { name, style, reported: false, points, spreads }));
        }
        let Some((_, line)) = all.last_mut() else { continue };
        let at = index as f64 + 1.0;
        line.points.push((at, cell.value));
        line.spreads.extend(cell.interval.map(|(low, high)| (at, low, high)));
    }
    all.into_iter().map(|(_, line)| line).collect()
}

fn pictures(page: &mut String, trend: &Trend, table: &Table, peers: &[&str]) {
    let ticks = || -> Vec<Tick> {
        let numbered = trend.records.iter().enumerate();
        let tick = |(index, column)| {
            let lines = head(index + 1, column);
            let date = lines[1].get(5..10).unwrap_or(&lines[1]).to_string();
            Tick { at: index as f64 + 1.0, text: date, below: Some(lines[2].clone()) }
        };
        numbered.map(tick).collect()
    };
    let machines: Vec<usize> = trend.records.iter().map(|column| column.machine_number).collect();
    let joined = vec![0; trend.records.len()];
    let (own, ratios): (Vec<&Row>, Vec<&Row>) =
        table.rows.iter().partition(|row| row.peer.is_none());
    let plain: Vec<Line> =
        own.iter().flat_map(|row| lines_of(&trend.engine, 0, row, &machines)).collect();
    let against: Vec<Line> = ratios
        .iter()
        .flat_map(|row| {
            let name = row.peer.as_deref().unwrap_or_default();
            let place = peers.iter().position(|peer| *peer == name).unwrap_or(0);
            lines_of(name, place + 1, row, &joined)
        })
        .collect();
    page.push_str("<div class=\"grid\">\n");
    let better = if table.more_is_better { "more is better" } else { "less is better" };
    let advantage = format!("advantage of {}", trend.engine);
    for (name, about, drawn, y) in [
        (trend.engine.as_str(), better, &plain, table.unit.as_str()),
        ("Beside others", "above 1 is better than the other engine", &against, advantage.as_str()),
    ] {
        if drawn.is_empty() {
            continue;
        }
        let axes = Axes { x: "record", y, ticks: ticks(), ..Axes::default() };
        let label = format!("{}, {name}", table.place);
        let _ = writeln!(
            page,
            "<figure><figcaption>{}<small>{about}</small></figcaption>{}</figure>",
            escape(name),
            lines(drawn, &axes, &label)
        );
    }
    page.push_str("</div>\n");
    if !against.is_empty() {
        let marks = peers.iter().enumerate().map(|(place, peer)| (place + 1, *peer, false));
        legend(page, marks);
    }
}

fn figures(page: &mut String, trend: &Trend, table: &Table) {
    page.push_str("<div class=\"scroll\"><table><tr><th></th>");
    for (index, column) in trend.records.iter().enumerate() {
        let lines: Vec<String> = head(index + 1, column).iter().map(|line| escape(line)).collect();
        let _ = write!(page, "<th class=\"n\">{}</th>", lines.join("<br>"));
    }
    for name in change_heads(trend) {
        let _ = write!(page, "<th class=\"n\">{name}</th>");
    }
    page.push_str("</tr>\n");
    for row in &table.rows {
        let (name, changes) = row_texts(trend, table, row);
        let _ = write!(page, "<tr><td>{}</td>", escape(&name));
        for text in row.cells.iter().map(cell_text) {
            let _ = write!(page, "<td class=\"n\">{}</td>", escape(&text));
        }
        let class = match row.verdict {
            Verdict::Better => "n good",
            Verdict::Worse => "n bad",
            _ => "n",
        };
        let last = changes.len() - 1;
        for (index, text) in changes.iter().enumerate() {
            let class = if index == last { class } else { "n" };
            let _ = write!(page, "<td class=\"{class}\">{}</td>", escape(text));
        }
        page.push_str("</tr>\n");
    }
    page.push_str("</table></div>\n");
}

fn records(page: &mut String, trend: &Trend) {
    page.push_str(
        "<h2>Records</h2><div class=\"scroll\"><table><tr><th class=\"n\"></th><th>start, UTC</th>\
         <th>commit</th><th>processor</th><th>file system</th><th>file</th></tr>\n",
    );
    for (index, column) in trend.records.iter().enumerate() {
        let machine = &column.machine;
        let unknown = "unknown";
        let commit =
            crate::report::table::commit_text(column.commit.as_deref(), column.commit_dirty);
        let _ = writeln!(
            page,
            "<tr><td class=\"n\">{}</td><td>{}</td><td>{}</td><td>{} × {}</td><td>{}</td>\
             <td>{}</td></tr>",
            index + 1,
            escape(&column.started),
            escape(&commit),
            machine.cpu_count,
            escape(machine.cpu_model.as_deref().unwrap_or(unknown)),
            escape(machine.file_system.as_deref().unwrap_or(unknown)),
            escape(&column.path)
        );
    }
    page.push_str("</table></div>\n");
}
