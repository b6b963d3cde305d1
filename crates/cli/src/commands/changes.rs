//! `esker changes`: writes the change feed of a store, as a stream for `esker apply` or as JSON.
//!
//! Invariants:
//! 1. The store is opened read-only, so a process that has it open for writing is not disturbed.
//! 2. Without a slot or `--from`, the feed begins with the oldest log.

use std::ffi::OsString;
use std::io::{BufRead, IsTerminal, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use clap::Args;
use esker::Db;
use esker::feed::{Change, ChangeBatch, ChangeWriter, Changes, Slot, StreamItem};
use serde_json::{Map, Value, json};

use super::{stdout, write_json};
use crate::args::Global;
use crate::bytes::Form;
use crate::failure::{Failure, Outcome, print_note};
use crate::interrupt;
use crate::keyspaces::name_of;
use crate::store::open_reader;

/// Time without changes after which the stream says that its sender is alive. A closed pipe is noticed
/// then.
const ALIVE_AFTER: Duration = Duration::from_secs(1);
/// Time between two looks at Ctrl-C.
const LOOK: Duration = Duration::from_millis(100);

const AFTER_HELP: &str = "\
The store may be open in another process, which is not disturbed; make a slot first, so that the \
logs with the changes are kept. A replica on another machine, from nothing and without a gap:

  esker slot create DB replica
  esker changes DB --slot replica --bootstrap --follow | ssh HOST esker apply COPY

After an interruption of either end, confirm what the copy has, and start both again:

  esker slot confirm DB replica $(ssh HOST esker apply COPY --position)
  esker changes DB --slot replica --follow | ssh HOST esker apply COPY

With --confirm at both ends and a pipe in both directions, the copy confirms by itself:

  socat EXEC:'esker changes DB --slot replica --follow --confirm' EXEC:'esker apply COPY --confirm'";

/// Arguments of `changes`.
#[derive(Args)]
#[command(after_help = AFTER_HELP)]
pub struct ChangesArgs {
    /// Store directory
    db: PathBuf,
    /// Begin after the confirmed position of this slot (see `esker slot`)
    #[arg(long, value_name = "NAME")]
    slot: Option<String>,
    /// Begin after this sequence number, 0 for all changes that the logs have
    #[arg(long, value_name = "SEQUENCE", conflicts_with = "bootstrap")]
    from: Option<u64>,
    /// Begin with the whole content of the store, for an empty store at the other end
    #[arg(long, requires = "slot")]
    bootstrap: bool,
    /// With --json, only the changes of the keyspace that has this name, from where it has it on, also
    /// after it was renamed
    #[arg(long, value_name = "NAME", conflicts_with = "confirm")]
    keyspace: Option<OsString>,
    /// Wait for further changes until Ctrl-C
    #[arg(long)]
    follow: bool,
    /// Read the positions that `esker apply --confirm` prints from standard input, and confirm them
    #[arg(long, requires = "slot")]
    confirm: bool,
}

/// Destination of the feed.
enum Sink<W: Write> {
    /// Lines of JSON, of one keyspace or of all.
    Json(Form, W, Option<String>),
    Stream(ChangeWriter<W>),
}

impl<W: Write> Sink<W> {
    fn write(&mut self, item: &StreamItem) -> Result<(), Failure> {
        match self {
            Sink::Stream(out) => out.write(item).map_err(pipe),
            Sink::Json(form, out, only) => match item {
                StreamItem::Batch(batch) => match changes_to_json(*form, &batch.changes, only) {
                    Some(changes) => write_json(&batch_to_json(batch, changes), out),
                    // A reader must see the last part of a batch.
                    None if batch.continues || batch.part > 0 => {
                        write_json(&batch_to_json(batch, Vec::new()), out)
                    }
                    None => Ok(()),
                },
                StreamItem::Content(changes) => match changes_to_json(*form, changes, only) {
                    Some(changes) => write_json(&json!({ "content": changes }), out),
                    None => Ok(()),
                },
                StreamItem::BootstrapEnds { position } => {
                    write_json(&json!({ "content_at": position }), out)
                }
                _ => Ok(()),
            },
        }
    }

    fn flush(&mut self) -> Result<(), Failure> {
        match self {
            Sink::Stream(out) => out.flush().map_err(pipe),
            Sink::Json(_, out, _) => Ok(out.flush()?),
        }
    }
}

/// Returns the failure of a write to the pipe. A closed pipe is not an error.
fn pipe(error: esker::Error) -> Failure {
    match error.raw_os_error() {
        Some(32) => Failure::PipeClosed,
        _ => error.into(),
    }
}

/// Writes the feed to standard output.
pub fn run(args: &ChangesArgs, global: &Global) -> Outcome {
    if !global.json && std::io::stdout().is_terminal() {
        return Err(Failure::usage(
            "the stream of changes is binary, and standard output is a terminal; pass --json, or \
             pipe the stream to `esker apply`",
        ));
    }
    if args.keyspace.is_some() && !global.json {
        return Err(Failure::usage(
            "--keyspace: the stream for `esker apply` has the changes of all keyspaces; pass --json \
             to read those of one",
        ));
    }
    let only = args.keyspace.as_deref().map(name_of).transpose()?;
    let db = open_reader(&args.db, global)?;
    interrupt::watch();
    let out = stdout();
    let mut sink = match global.json {
        true => Sink::Json(global.form(), out, only),
        false => Sink::Stream(ChangeWriter::new(out, db.store_id()).map_err(pipe)?),
    };
    let slot = args.slot.as_deref().map(|name| db.slot(name)).transpose()?;
    let changes = begin(args, &db, slot.as_ref(), &mut sink)?;
    sink.flush()?;
    let is_over = Arc::new(AtomicBool::new(false));
    if let Some(slot) = slot.filter(|_| args.confirm) {
        confirm_from_input(slot, global.json, is_over.clone())?;
    }
    write_changes(args, changes, &mut sink, &is_over)?;
    Ok(0)
}

/// Returns the feed from its begin on, after the content was written if it is wanted.
fn begin<W: Write>(
    args: &ChangesArgs,
    db: &Db,
    slot: Option<&Slot>,
    sink: &mut Sink<W>,
) -> Result<Changes, Failure> {
    if args.bootstrap {
        // The slot must keep what follows the content.
        slot.map(Slot::position).transpose()?;
        let mut failure = None;
        let position = db.content(|item| {
            let written = sink.write(&item).and_then(|()| interrupt::check());
            written.map_err(|failed| {
                let message = failed.message();
                failure = Some(failed);
                esker::internals::error(esker::ErrorKind::Io, message, None)
            })
        });
        return match (position, failure) {
            (_, Some(failure)) => Err(failure),
            (position, None) => Ok(db.changes(position?)?),
        };
    }
    match (slot, args.from) {
        (Some(slot), Some(from)) => {
            slot.position()?;
            Ok(db.changes(from)?)
        }
        (Some(slot), None) => Ok(slot.changes()?),
        (None, from) => Ok(db.changes(from.unwrap_or(0))?),
    }
}

fn write_changes<W: Write>(
    args: &ChangesArgs,
    mut changes: Changes,
    sink: &mut Sink<W>,
    is_over: &AtomicBool,
) -> Result<(), Failure> {
    let mut said = Instant::now();
    let mut is_flushed = true;
    while !interrupt::asked() && !is_over.load(Ordering::Relaxed) {
        // What was written must not wait in the buffer for what comes.
        let patience = if is_flushed && args.follow { LOOK } else { Duration::ZERO };
        match changes.wait(patience)? {
            Some(batch) => {
                sink.write(&StreamItem::Batch(batch))?;
                is_flushed = false;
            }
            None if !args.follow => break,
            None if !is_flushed || said.elapsed() >= ALIVE_AFTER => {
                sink.write(&StreamItem::Alive { position: changes.position() })?;
                sink.flush()?;
                (said, is_flushed) = (Instant::now(), true);
            }
            None => {}
        }
    }
    sink.write(&StreamItem::End { position: changes.position() })?;
    sink.flush()
}

/// Starts a thread that confirms the positions in standard input. The end of the input ends the
/// command.
fn confirm_from_input(slot: Slot, json: bool, is_over: Arc<AtomicBool>) -> Result<(), Failure> {
    let confirm = move || {
        for line in std::io::stdin().lock().lines() {
            let Ok(line) = line else { break };
            let confirmed = match line.trim().parse() {
                Ok(position) => slot.confirm(position).map_err(|error| error.to_string()),
                Err(_) => Err(format!("expected a position in the input, found {line:?}")),
            };
            if let Err(message) = confirmed {
                print_note(json, &format!("esker: the position was not confirmed: {message}"));
            }
        }
        is_over.store(true, Ordering::Relaxed);
    };
    std::thread::Builder::new().name("esker-confirm".into()).spawn(confirm)?;
    Ok(())
}

/// Returns the changes of one keyspace or of all, or `None` if there are none of that keyspace. A
/// rename changes the name of the wanted one.
fn changes_to_json(
    form: Form,
    changes: &[Change],
    only: &mut Option<String>,
) -> Option<Vec<Value>> {
    let mut found = Vec::new();
    for change in changes {
        let gets_the_name = matches!(change, Change::KeyspaceRenamed { new_name, .. }
            if only.as_deref() == Some(&**new_name));
        if !gets_the_name && only.as_ref().is_some_and(|wanted| wanted != change.keyspace()) {
            continue;
        }
        if let (Some(wanted), Change::KeyspaceRenamed { new_name, .. }) = (&mut *only, change) {
            *wanted = new_name.to_string();
        }
        found.push(change_to_json(form, change));
    }
    (only.is_none() || !found.is_empty()).then_some(found)
}

fn batch_to_json(batch: &ChangeBatch, changes: Vec<Value>) -> Value {
    let mut line = json!({
        "sequence": batch.sequence,
        "previous": batch.previous,
        "changes": changes,
    });
    if batch.continues || batch.part > 0 {
        line["part"] = json!(batch.part);
        line["continues"] = json!(batch.continues);
    }
    line
}

fn change_to_json(form: Form, change: &Change) -> Value {
    let mut fields = Map::new();
    let mut add = |name: &str, value: Value| drop(fields.insert(name.into(), value));
    match change {
        Change::Put { keyspace, key, value, expires_ms } => {
            add("op", json!("put"));
            add("keyspace", json!(**keyspace));
            add("key", form.to_json(key));
            add("value", form.to_json(value));
            if let Some(time_ms) = expires_ms {
                add("expires_ms", json!(time_ms));
            }
        }
        Change::Merge { keyspace, key, operand } => {
            add("op", json!("merge"));
            add("keyspace", json!(**keyspace));
            add("key", form.to_json(key));
            add("operand", form.to_json(operand));
        }
        Change::Delete { keyspace, key } => {
            add("op", json!("delete"));
            add("keyspace", json!(**keyspace));
            add("key", form.to_json(key));
        }
        Change::DeleteRange { keyspace, start, end } => {
            add("op", json!("delete_range"));
            add("keyspace", json!(**keyspace));
            add("start", form.to_json(start));
            add("end", form.to_json(end));
        }
        Change::Clear { keyspace } => {
            add("op", json!("clear"));
            add("keyspace", json!(**keyspace));
        }
        Change::KeyspaceCreated { keyspace, key_order, options } => {
            add("op", json!("create_keyspace"));
            add("keyspace", json!(**keyspace));
            add("key_order", json!(key_order));
            let pairs = options.iter().map(|(name, value)| (name.clone(), json!(value)));
            add("options", Value::Object(pairs.collect()));
        }
        Change::KeyspaceRenamed { keyspace, new_name } => {
            add("op", json!("rename_keyspace"));
            add("keyspace", json!(**keyspace));
            add("new_name", json!(**new_name));
        }
        Change::KeyspaceDropped { keyspace } => {
            add("op", json!("drop_keyspace"));
            add("keyspace", json!(**keyspace));
        }
        // A change of a later version of the engine.
        other => add("op", json!(format!("{other:?}"))),
    }
    Value::Object(fields)
}
