//! `esker options`: every knob with its default, range and other names.
//!
//! What stays true: a line is no wider than the terminal, and no wider than 80 columns in a pipe;
//! the first line of an option holds its name and value, so that `grep` finds them.

use std::io::Write;

use clap::Args;
use comfy_table::Table;
use esker::base::units::{GIB, KIB, MIB};
use esker::options::value::Range;
use esker::{KNOBS, Knob, Options, When};
use serde_json::json;

use super::stdout;
use crate::args::Global;
use crate::failure::{Failure, Outcome};
use crate::store;

/// Columns where there is no terminal to ask.
const PIPE_COLUMNS: usize = 80;
/// Longer lines are hard to read.
const COLUMNS_MAX: usize = 100;
/// Columns before what is said of an option.
const INDENT: usize = 4;

/// Arguments of `options`.
#[derive(Args)]
pub struct OptionsArgs {
    /// Only options whose name or alias holds this
    name: Option<String>,
}

/// Prints the knobs with the values `--set` leaves them at.
pub fn run(args: &OptionsArgs, global: &Global) -> Outcome {
    let options = store::options(global)?;
    let wanted = |knob: &&Knob| match &args.name {
        None => true,
        Some(part) => {
            let part = part.to_ascii_lowercase().replace('-', "_");
            let holds = |name: &str| name.to_ascii_lowercase().contains(&part);
            holds(knob.name) || knob.aliases.iter().any(|alias| holds(alias))
        }
    };
    let knobs: Vec<&Knob> = KNOBS.iter().filter(wanted).collect();
    if let (true, Some(part)) = (knobs.is_empty(), &args.name) {
        return Err(Failure::usage(format!("no option's name holds {part:?}")));
    }
    let mut out = stdout();
    if global.json {
        for knob in knobs {
            writeln!(out, "{}", to_json(knob, &options))?;
        }
    } else {
        let columns = columns();
        let texts: Vec<String> = knobs.iter().map(|k| to_text(k, &options, columns)).collect();
        write!(out, "{}", texts.join("\n"))?;
    }
    out.flush()?;
    Ok(0)
}

fn to_json(knob: &Knob, options: &Options) -> serde_json::Value {
    json!({
        "name": knob.name, "value": options.get(knob.name), "default": knob.default,
        "unit": knob.unit, "range": knob.range.to_string(), "changeable": knob.when.name(),
        "aliases": knob.aliases, "doc": knob.doc,
    })
}

/// The terminal's columns within reason; those of a pipe where there is none.
fn columns() -> usize {
    let columns = Table::new().width().map_or(PIPE_COLUMNS, usize::from);
    columns.clamp(40, COLUMNS_MAX)
}

/// `name = value`, and below it, indented, what it does and takes.
fn to_text(knob: &Knob, options: &Options, columns: usize) -> String {
    let value = options.get(knob.name).unwrap_or_default();
    let mut text = format!("{} = {value}", knob.name);
    if value != knob.default {
        text += &format!(" (default {})", knob.default);
    }
    text.push('\n');
    let when = match knob.when {
        When::Open => "set when the store is opened",
        When::Live => "can change while the store is open",
    };
    let mut say = |words: &str| wrap(words, columns, &mut text);
    say(knob.doc);
    say(&format!("{}; {when}", takes(knob)));
    if !knob.aliases.is_empty() {
        say(&format!("also called {}", knob.aliases.join(", ")));
    }
    text
}

/// What the option takes, sizes in units that are read at a glance.
fn takes(knob: &Knob) -> String {
    match (&knob.range, knob.unit) {
        (Range::Whole(low, high), "bytes") => format!("{} to {}", size(*low), size(*high)),
        (Range::WholeOrAuto(low, high), "bytes") => {
            format!("{} to {}, or auto", size(*low), size(*high))
        }
        (Range::WholeOrAuto(low, high), unit) => {
            format!("{} or auto", format!("{low} to {high} {unit}").trim_end())
        }
        (Range::Words(words), _) => words.join(", "),
        (range, unit) => format!("{range} {unit}").trim_end().to_string(),
    }
}

/// Whole KiB, MiB or GiB where the number is that; else bytes.
fn size(bytes: u64) -> String {
    for (unit, name) in [(GIB, "GiB"), (MIB, "MiB"), (KIB, "KiB")] {
        if bytes >= unit && bytes.is_multiple_of(unit) {
            return format!("{} {name}", bytes / unit);
        }
    }
    format!("{bytes} bytes")
}

/// Appends lines of `words`, indented and no wider than `columns` where the words allow it.
fn wrap(words: &str, columns: usize, text: &mut String) {
    let mut used = 0;
    for word in words.split_whitespace() {
        let width = word.chars().count();
        if used > 0 && used + 1 + width > columns {
            text.push('\n');
            used = 0;
        }
        if used == 0 {
            text.push_str(&" ".repeat(INDENT));
            used = INDENT;
        } else {
            text.push(' ');
            used += 1;
        }
        text.push_str(word);
        used += width;
    }
    text.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_line_is_wider_than_the_terminal_and_no_word_is_lost() {
        let options = Options::default();
        for columns in [40, 80, 100] {
            for knob in KNOBS.iter() {
                let text = to_text(knob, &options, columns);
                for line in text.lines().filter(|line| line.trim().contains(' ')) {
                    assert!(line.chars().count() <= columns, "{columns}: {line:?}");
                }
                let words: Vec<&str> = text.split_whitespace().collect();
                let doc: Vec<&str> = knob.doc.split_whitespace().collect();
                assert!(words.windows(doc.len()).any(|part| part == doc), "{text}");
            }
        }
    }

    #[test]
    fn sizes_are_short_where_they_can_be() {
        assert_eq!(size(4096), "4 KiB");
        assert_eq!(size(1 << 40), "1024 GiB");
        assert_eq!(size(1000), "1000 bytes");
        assert_eq!(size(0), "0 bytes");
    }
}
