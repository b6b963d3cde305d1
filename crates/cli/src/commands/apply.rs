//! `esker apply`: applies a stream of changes from standard input to a store.
//!
//! Invariant: a batch is written together with its position, so the command can be killed at any
//! moment and started again.

use std::io::{BufReader, Write};
use std::path::PathBuf;

use clap::Args;
use esker::Db;
use esker::feed::{Applier, ChangeReader, StreamItem};
use serde_json::json;

use super::{print, stdout};
use crate::args::Global;
use crate::failure::{Failure, Outcome};
use crate::store::{open_reader, open_writer};

/// Arguments of `apply`.
#[derive(Args)]
pub struct ApplyArgs {
    /// Store directory; created if missing
    db: PathBuf,
    /// Print the position up to which the changes are applied, and apply nothing; exit code 1 if
    /// there is none
    #[arg(long, conflicts_with_all = ["start_at", "confirm"])]
    position: bool,
    /// State that the store is a copy of the source at this position; only before the first change
    #[arg(long, value_name = "SEQUENCE")]
    start_at: Option<u64>,
    /// Print each position once it is durable here, for `esker changes --confirm`
    #[arg(long)]
    confirm: bool,
}

/// Applies the stream, or prints the position.
pub fn run(args: &ApplyArgs, global: &Global) -> Outcome {
    if args.position {
        return print_position(args, global);
    }
    let input = BufReader::with_capacity(256 << 10, std::io::stdin().lock());
    let mut reader = ChangeReader::new(input)?;
    let db = open_writer(&args.db, global, true)?;
    let mut applier = Applier::new(&db, reader.source())?;
    if let Some(position) = args.start_at {
        applier.start_at(position)?;
    }
    let applied = apply_all(args, &db, &mut reader, &mut applier);
    let position = applier.position();
    // Before the failure is reported: what was applied is kept.
    db.close()?;
    let batches = applied?;
    if !args.confirm {
        let place = position.map_or("no position".to_string(), |at| format!("position {at}"));
        print(
            global.form(),
            || json!({ "ok": true, "batches": batches, "position": position }),
            || format!("{batches} new batches applied, up to {place}"),
        )?;
    }
    Ok(0)
}

fn print_position(args: &ApplyArgs, global: &Global) -> Outcome {
    let db = open_reader(&args.db, global)?;
    let position = db.applied_position()?.map(|(_, position)| position);
    print(
        global.form(),
        || json!({ "position": position }),
        || position.map(|position| position.to_string()).unwrap_or_default(),
    )?;
    Ok(u8::from(position.is_none()))
}

/// Applies every item. Returns the number of batches that were new.
fn apply_all(
    args: &ApplyArgs,
    db: &Db,
    reader: &mut ChangeReader<BufReader<std::io::StdinLock<'static>>>,
    applier: &mut Applier,
) -> Result<u64, Failure> {
    let (mut batches, mut confirmed) = (0, None);
    while let Some(item) = reader.next()? {
        let is_new = applier.apply(&item)?;
        batches += u64::from(is_new && matches!(&item, StreamItem::Batch(of) if !of.continues));
        let position = applier.position();
        // Once for all that has arrived: a sync takes longer than a batch.
        if args.confirm && position != confirmed && reader.input().buffer().is_empty() {
            db.sync()?;
            confirmed = position;
            if let Some(position) = position {
                let mut out = stdout();
                writeln!(out, "{position}")?;
                out.flush()?;
            }
        }
    }
    Ok(batches)
}
