//! `esker slot`: lists, creates, confirms and drops the slots of a store's change feed.

use std::io::Write;
use std::path::PathBuf;

use clap::{Args, Subcommand};
use comfy_table::{CellAlignment, Table, presets};
use esker::feed::{SlotInfo, SlotOptions};
use esker::internals::{human_bytes, parse_bytes};
use serde_json::{Value, json};

use super::{print, stdout};
use crate::args::{Global, Opening};
use crate::failure::{Failure, Outcome};
use crate::store::{open_reader, open_writer};

/// Arguments of `slot`.
#[derive(Args)]
pub struct SlotArgs {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// List the slots: name, confirmed position, bytes of logs kept for it, limit, problem
    List(Opening<ListArgs>),
    /// Create a slot at the present position; the store must not be open elsewhere
    ///
    /// A program that has the store open makes slots with `Db::subscribe`.
    Create(Opening<CreateArgs>),
    /// Confirm the changes up to a position: their logs may be removed
    ///
    /// The store may be open elsewhere. It removes the logs with its next flush.
    Confirm(Opening<ConfirmArgs>),
    /// Drop a slot; the store may be open elsewhere
    Drop(Opening<DropArgs>),
}

#[derive(Args)]
struct ListArgs {
    /// Store directory
    db: PathBuf,
}

#[derive(Args)]
struct CreateArgs {
    /// Store directory
    db: PathBuf,
    /// Name: 1 to 64 letters, digits, "-" and "_"
    name: String,
    /// Bytes of logs after which the slot is dropped, such as 10GiB, or none for no limit
    #[arg(long, value_name = "BYTES", default_value = "16GiB")]
    lag_limit: String,
}

#[derive(Args)]
struct ConfirmArgs {
    /// Store directory
    db: PathBuf,
    /// Name
    name: String,
    /// Sequence number of the last batch that was processed
    position: u64,
}

#[derive(Args)]
struct DropArgs {
    /// Store directory
    db: PathBuf,
    /// Name
    name: String,
}

impl SlotArgs {
    /// Returns whether `--json` was given.
    pub fn json(&self) -> bool {
        match &self.what {
            What::List(of) => of.global().json,
            What::Create(of) => of.global().json,
            What::Confirm(of) => of.global().json,
            What::Drop(of) => of.global().json,
        }
    }
}

/// Lists, creates, confirms or drops.
pub fn run(args: &SlotArgs) -> Outcome {
    match &args.what {
        What::List(of) => list(&of.args, &of.global()),
        What::Create(of) => create(&of.args, &of.global()),
        What::Confirm(of) => {
            let db = open_reader(&of.args.db, &of.global())?;
            db.slot(&of.args.name)?.confirm(of.args.position)?;
            done(&of.global())
        }
        What::Drop(of) => {
            let db = open_reader(&of.args.db, &of.global())?;
            db.drop_slot(&of.args.name)?;
            done(&of.global())
        }
    }
}

fn done(global: &Global) -> Outcome {
    print(global.form(), || json!({ "ok": true }), String::new)?;
    Ok(0)
}

fn create(args: &CreateArgs, global: &Global) -> Outcome {
    let limit = match args.lag_limit.as_str() {
        "none" => None,
        text => Some(parse_bytes(text).ok_or_else(|| {
            Failure::usage(format!(
                "--lag-limit expects bytes, such as 10GiB, or none, found {text:?}"
            ))
        })?),
    };
    let db = open_writer(&args.db, global, false)?;
    let options = SlotOptions::default().lag_limit_bytes(limit);
    let position = db.subscribe(&args.name, &options)?.position()?;
    db.close()?;
    print(
        global.form(),
        || json!({ "ok": true, "name": args.name, "position": position }),
        || format!("slot {} at position {position}", args.name),
    )?;
    Ok(0)
}

fn list(args: &ListArgs, global: &Global) -> Outcome {
    let db = open_reader(&args.db, global)?;
    let slots = db.slots()?;
    let mut out = stdout();
    if global.json {
        for slot in &slots {
            writeln!(out, "{}", to_json(slot))?;
        }
    } else {
        writeln!(out, "{}", to_text(&slots))?;
    }
    out.flush()?;
    Ok(0)
}

fn to_json(slot: &SlotInfo) -> Value {
    json!({
        "name": slot.name,
        "position": slot.position,
        "lag_bytes": slot.lag_bytes,
        "lag_limit_bytes": slot.lag_limit_bytes,
        "problem": slot.problem,
    })
}

fn to_text(slots: &[SlotInfo]) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(["name", "position", "lag", "limit", "problem"]);
    for slot in slots {
        table.add_row([
            slot.name.clone(),
            slot.position.to_string(),
            human_bytes(slot.lag_bytes),
            slot.lag_limit_bytes.map_or("none".to_string(), human_bytes),
            slot.problem.clone().unwrap_or_default(),
        ]);
    }
    for column in 1..4 {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table.trim_fmt()
}
