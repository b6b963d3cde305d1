//! A trend as text: the records, and a table for each place with a column per record.
//!
//! Invariant: a figure without a test behind it carries a mark, or the reason is its verdict.

use std::io::{self, Write};

use super::judge::{Cell, Change, Column, Row, Table, Trend, Verdict};
use crate::report::lab_text::number;
use crate::report::table::{align_right, commit_text, plain_table};

/// Number of characters of a commit that a column shows.
const COMMIT_CHARS: usize = 8;

/// Writes the whole trend.
pub fn write(trend: &Trend, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "{}", title(trend))?;
    for (index, column) in trend.records.iter().enumerate() {
        let machine = &column.machine;
        writeln!(
            out,
            "{}: {} UTC, {}, {} x {}, {}: {}",
            index + 1,
            column.started,
            commit_text(column.commit.as_deref(), column.commit_dirty),
            machine.cpu_count,
            machine.cpu_model.as_deref().unwrap_or("unknown processor"),
            machine.file_system.as_deref().unwrap_or("unknown file system"),
            column.path
        )?;
    }
    if let Some(line) = machines_line(trend) {
        writeln!(out, "{line}")?;
    }
    for table in &trend.tables {
        writeln!(out, "\n{}", table.place)?;
        write_table(trend, table, out)?;
    }
    writeln!(out)?;
    for line in explanations(trend) {
        writeln!(out, "{line}")?;
    }
    writeln!(out, "{}", summary(trend))
}

/// Returns the heading of a trend.
pub fn title(trend: &Trend) -> String {
    let Trend { experiment, series, engine, records, .. } = trend;
    format!("{engine}, {experiment}, {series}: {} records", records.len())
}

/// Returns a sentence about several machines; `None` for one machine.
pub fn machines_line(trend: &Trend) -> Option<String> {
    (!trend.same_machine).then(|| {
        format!(
            "The records are from different machines, so only the ratios of {} to other engines of \
             the same record are judged.",
            trend.engine
        )
    })
}

/// Returns the lines of a column's head: number, date, commit.
pub fn head(number: usize, column: &Column) -> Vec<String> {
    let date = column.started.get(..16).unwrap_or(&column.started).to_string();
    let short = |commit: &String| commit.chars().take(COMMIT_CHARS).collect::<String>();
    let commit = column.commit.as_ref().map_or("unknown".into(), short);
    let changes = if column.commit_dirty == Some(true) { "+" } else { "" };
    vec![number.to_string(), date, format!("{commit}{changes}")]
}

/// Returns the heads of the columns of changes. With two records both changes are the same.
pub fn change_heads(trend: &Trend) -> Vec<&'static str> {
    if trend.records.len() > 2 {
        vec!["since previous", "since first", "verdict"]
    } else {
        vec!["since first", "verdict"]
    }
}

/// Returns a row's name and its cells of changes.
pub fn row_texts(trend: &Trend, table: &Table, row: &Row) -> (String, Vec<String>) {
    let name = match &row.peer {
        Some(peer) => format!("{} : {peer}", trend.engine),
        None => format!("{}, {}", trend.engine, table.unit),
    };
    let mut changes = vec![change_text(row.since_previous), change_text(row.since_first)];
    if trend.records.len() <= 2 {
        changes.remove(0);
    }
    changes.push(verdict_text(table, row));
    (name, changes)
}

fn write_table(trend: &Trend, table: &Table, out: &mut dyn Write) -> io::Result<()> {
    let mut heads = vec![String::new()];
    let columns = trend.records.iter().enumerate();
    heads.extend(columns.map(|(index, column)| head(index + 1, column).join("\n")));
    heads.extend(change_heads(trend).into_iter().map(String::from));
    let heads: Vec<&str> = heads.iter().map(String::as_str).collect();
    let mut text = plain_table(&heads);
    for row in &table.rows {
        let (name, changes) = row_texts(trend, table, row);
        let cells = row.cells.iter().map(cell_text);
        text.add_row(std::iter::once(name).chain(cells).chain(changes).collect::<Vec<_>>());
    }
    align_right(&mut text, 1);
    writeln!(out, "{text}")
}

/// Formats a figure with its interval.
pub fn cell_text(cell: &Option<Cell>) -> String {
    match cell {
        None => "n/a".into(),
        Some(Cell { value, interval: Some((low, high)), .. }) => {
            format!("{} ({}..{})", number(*value), number(*low), number(*high))
        }
        Some(Cell { value, interval: None, .. }) => format!("{} ?", number(*value)),
    }
}

fn change_text(change: Option<Change>) -> String {
    let Some(change) = change else { return "n/a".into() };
    let mark = match change.p {
        None => " ?",
        Some(_) if change.is_shown_alone() => "",
        Some(_) => " ~",
    };
    format!("{}{mark}", number(change.factor))
}

/// Returns the verdict on a row, in the words of its unit.
pub fn verdict_text(table: &Table, row: &Row) -> String {
    match (row.verdict, table.is_speed) {
        (Verdict::Better, true) => "faster".into(),
        (Verdict::Worse, true) => "slower".into(),
        (Verdict::Better, false) => "better".into(),
        (Verdict::Worse, false) => "worse".into(),
        (Verdict::NoChangeShown, _) => "no change shown".into(),
        (Verdict::NotJudged, _) => match row.not_judged_because {
            Some(why) => format!("not judged: {why}"),
            None => "not judged".into(),
        },
    }
}

/// Returns the sentences that explain the figures.
pub fn explanations(trend: &Trend) -> Vec<String> {
    let engine = &trend.engine;
    let error = trend.family_wise_error * 100.0;
    vec![
        format!(
            "Figures are medians with their 95 % intervals; ? means a single run. {engine} : OTHER is \
             the advantage of {engine} in the same record: above 1, {engine} is better."
        ),
        "Changes: above 1 is better than before; ~ means that the change alone is not shown at \
         95 %, and ? that there was a single run."
            .into(),
        format!(
            "Verdicts compare the first and the last figure of a row. If nothing changed, the \
             probability of any wrong one among {} rows is at most {error:.0} % (Welch's test on \
             logarithms, Holm's method).",
            trend.judged_rows
        ),
        "The test knows the scatter of the runs in a record. It does not know what differs from \
         one day to the next on a machine; a ratio has less of that than a time."
            .into(),
    ]
}

/// Returns the numbers of the verdicts.
pub fn summary(trend: &Trend) -> String {
    format!(
        "{} better, {} worse, {} without a change that is shown, {} not judged",
        trend.count(Verdict::Better),
        trend.count(Verdict::Worse),
        trend.count(Verdict::NoChangeShown),
        trend.count(Verdict::NotJudged)
    )
}
