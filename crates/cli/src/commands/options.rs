//! `esker options`: every knob with its default, range and other names.

use std::io::Write;

use clap::Args;
use comfy_table::{ContentArrangement, Table, presets};
use esker::{KNOBS, Knob, Options};
use serde_json::json;

use super::stdout;
use crate::args::Global;
use crate::failure::{Failure, Outcome};
use crate::store;

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
        writeln!(out, "{}", to_table(&knobs, &options))?;
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

fn to_table(knobs: &[&Knob], options: &Options) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Dynamic);
    table.set_header(["name", "value", "range", "changeable", "what it does", "also called"]);
    for knob in knobs {
        table.add_row([
            knob.name,
            &options.get(knob.name).unwrap_or_default(),
            &format!("{} {}", knob.range, knob.unit),
            knob.when.name(),
            knob.doc,
            &knob.aliases.join(", "),
        ]);
    }
    table
}
