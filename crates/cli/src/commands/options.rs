//! `esker options`: lists every option with its default, range and aliases.
//!
//! Invariants:
//! 1. A line is no wider than the terminal, and no wider than 80 columns in a pipe.
//! 2. The first line of an option contains its name and value, so that `grep` finds both.

use std::io::Write;

use clap::Args;
use comfy_table::Table;
use esker::Options;
use esker::internals::{GIB, KIB, MIB};
use esker::schema::OptionRange as Range;
use esker::schema::{Mutability, OPTIONS, OptionSpec};
use serde_json::json;

use super::stdout;
use crate::args::Global;
use crate::failure::{Failure, Outcome};
use crate::store;

/// Width in columns without a terminal.
const PIPE_COLUMNS: usize = 80;
/// Maximum width in columns, since longer lines are hard to read.
const COLUMNS_MAX: usize = 100;
/// Indentation of an option's description, in columns.
const INDENT: usize = 4;

/// Arguments of `options`.
#[derive(Args)]
pub struct OptionsArgs {
    /// Only options whose name or alias contains this text
    name: Option<String>,
}

/// Prints the options, with their values after `--set`.
pub fn run(args: &OptionsArgs, global: &Global) -> Outcome {
    let options = store::options(global)?;
    let wanted = |spec: &&OptionSpec| match &args.name {
        None => true,
        Some(part) => {
            let part = part.to_ascii_lowercase().replace('-', "_");
            let holds = |name: &str| name.to_ascii_lowercase().contains(&part);
            holds(spec.name) || spec.aliases.iter().any(|alias| holds(alias))
        }
    };
    let specs: Vec<&OptionSpec> = OPTIONS.iter().filter(wanted).collect();
    if let (true, Some(part)) = (specs.is_empty(), &args.name) {
        return Err(Failure::usage(format!("no option name contains {part:?}")));
    }
    let mut out = stdout();
    if global.json {
        for spec in specs {
            writeln!(out, "{}", to_json(spec, &options))?;
        }
    } else {
        let columns = columns();
        let texts: Vec<String> = specs.iter().map(|k| to_text(k, &options, columns)).collect();
        write!(out, "{}", texts.join("\n"))?;
    }
    out.flush()?;
    Ok(0)
}

fn to_json(spec: &OptionSpec, options: &Options) -> serde_json::Value {
    json!({
        "name": spec.name, "value": options.get(spec.name), "default": spec.default,
        "unit": spec.unit, "range": spec.range.to_string(), "changeable": spec.mutability.to_string(),
        "aliases": spec.aliases, "doc": spec.doc,
    })
}

/// Returns the terminal's width within limits; without a terminal, the width for a pipe.
fn columns() -> usize {
    let columns = Table::new().width().map_or(PIPE_COLUMNS, usize::from);
    columns.clamp(40, COLUMNS_MAX)
}

/// Formats an option: `name = value`, then its description and range, indented.
fn to_text(spec: &OptionSpec, options: &Options, columns: usize) -> String {
    let value = options.get(spec.name).unwrap_or_default();
    let mut text = format!("{} = {value}", spec.name);
    if value != spec.default {
        text += &format!(" (default {})", spec.default);
    }
    text.push('\n');
    let when = match spec.mutability {
        Mutability::Open => "set when the store is opened",
        Mutability::Live => "can change while the store is open",
    };
    let mut add_line = |words: &str| wrap(words, columns, &mut text);
    add_line(spec.doc);
    add_line(&format!("{}; {when}", takes(spec)));
    if !spec.aliases.is_empty() {
        add_line(&format!("also called {}", spec.aliases.join(", ")));
    }
    text
}

/// Returns the accepted values of the option, with sizes in readable units.
fn takes(spec: &OptionSpec) -> String {
    match (&spec.range, spec.unit) {
        (Range::Whole(low, high), "bytes") => format!("{} to {}", size(*low), size(*high)),
        (Range::WholeOrAuto(low, high), "bytes") => {
            format!("{} to {}, or auto", size(*low), size(*high))
        }
        (Range::WholeOrOff(low, high), "bytes") => {
            format!("{} to {}, or off", size(*low), size(*high))
        }
        (Range::WholeOrAuto(low, high), unit) => {
            format!("{} or auto", format!("{low} to {high} {unit}").trim_end())
        }
        (Range::Words(words), _) => words.join(", "),
        (range, unit) => format!("{range} {unit}").trim_end().to_string(),
    }
}

/// Formats a size in KiB, MiB or GiB if it is a whole number of them, otherwise in bytes.
fn size(bytes: u64) -> String {
    for (unit, name) in [(GIB, "GiB"), (MIB, "MiB"), (KIB, "KiB")] {
        if bytes >= unit && bytes.is_multiple_of(unit) {
            return format!("{} {name}", bytes / unit);
        }
    }
    format!("{bytes} bytes")
}

/// Appends `words` as indented lines, no wider than `columns` unless a single word is wider.
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
    fn lines_fit_terminal_and_keep_all_words() {
        let options = Options::default();
        for columns in [40, 80, 100] {
            for spec in OPTIONS.iter() {
                let text = to_text(spec, &options, columns);
                for line in text.lines().filter(|line| line.trim().contains(' ')) {
                    assert!(line.chars().count() <= columns, "{columns}: {line:?}");
                }
                let words: Vec<&str> = text.split_whitespace().collect();
                let doc: Vec<&str> = spec.doc.split_whitespace().collect();
                assert!(words.windows(doc.len()).any(|part| part == doc), "{text}");
            }
        }
    }

    #[test]
    fn sizes_are_abbreviated_if_exact() {
        assert_eq!(size(4096), "4 KiB");
        assert_eq!(size(1 << 40), "1024 GiB");
        assert_eq!(size(1000), "1000 bytes");
        assert_eq!(size(0), "0 bytes");
    }
}
