//! `esker follow`: shows a store that another process writes, again and again.
//!
//! Invariants: nothing in the store is changed and no lock is taken, so the writer is not disturbed.
//! The lines of one look are of one view.

use std::ffi::OsString;
use std::io::Write;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::Args;
use esker::Db;
use esker::follow::FollowerLag;
use serde_json::{Map, Value, json};

use super::scan::write_pair;
use super::{bytes_of, counted, stdout};
use crate::args::{Global, KeyspaceFlag};
use crate::bytes::Form;
use crate::failure::{Failure, Outcome};
use crate::interrupt;
use crate::store::{file_system, options};

/// Time between two looks at Ctrl-C.
const LOOK: Duration = Duration::from_millis(50);

const AFTER_HELP: &str = "\
The store may be open for writing in another process, which is not disturbed. A line is printed for \
the first view, and then whenever there is something new: the sequence number of the last operation \
that is shown, and the number of operations since the line before.

  esker follow DB                      the position of the store, as it grows
  esker follow DB --get visits         the value of a key, as it changes
  esker follow DB --scan user/ --once  the pairs of now, as `esker scan --prefix` prints them
  esker --json follow DB --every 100   an object for each line, ten looks a second

A program follows with Db::follow, and takes over from a dead writer with Follower::promote. For a \
copy on another machine, see `esker changes --help`.";

/// Arguments of `follow`.
#[derive(Args)]
#[command(after_help = AFTER_HELP)]
pub struct FollowArgs {
    /// Store directory
    db: PathBuf,
    /// Print the value of this key whenever it changes, instead of the position
    #[arg(long, value_name = "KEY", conflicts_with = "scan")]
    get: Option<OsString>,
    /// Print the pairs with this prefix whenever the store changes, instead of the position
    #[arg(long, value_name = "PREFIX")]
    scan: Option<OsString>,
    /// Milliseconds between two looks at the store
    #[arg(long, value_name = "MS", default_value_t = 1000, value_parser = clap::value_parser!(u64).range(1..=86_400_000))]
    every: u64,
    /// Look once and end
    #[arg(long)]
    once: bool,
    #[command(flatten)]
    keyspace: KeyspaceFlag,
}

/// What is printed of each view.
enum Shown {
    Position,
    Value { key: Vec<u8>, last: Option<Option<Vec<u8>>> },
    Pairs { prefix: Vec<u8> },
}

/// Prints views until Ctrl-C.
pub fn run(args: &FollowArgs, global: &Global) -> Outcome {
    let form = global.form();
    let mut shown = match (&args.get, &args.scan) {
        (Some(key), _) => Shown::Value { key: bytes_of(form, "key", key)?, last: None },
        (_, Some(prefix)) => Shown::Pairs { prefix: bytes_of(form, "prefix", prefix)? },
        _ => Shown::Position,
    };
    let follower = Db::follow_on(file_system(), &args.db, options(global)?)?;
    interrupt::watch();
    let mut last = None;
    while !interrupt::asked() {
        let began = Instant::now();
        let lag = follower.lag()?;
        let position = follower.catch_up()?;
        if last != Some(position) {
            let view = View { db: follower.db(), lag: &lag, before: last };
            view.print(&mut shown, form, &args.keyspace)?;
        }
        last = Some(position);
        if args.once {
            break;
        }
        while began.elapsed() < Duration::from_millis(args.every) && !interrupt::asked() {
            std::thread::sleep(LOOK.min(Duration::from_millis(args.every)));
        }
    }
    Ok(0)
}

/// A view and what is known of it.
struct View<'a> {
    db: Db,
    /// The lag before the catch-up that made the view.
    lag: &'a FollowerLag,
    /// The position of the view before.
    before: Option<u64>,
}

impl View<'_> {
    fn print(&self, shown: &mut Shown, form: Form, keyspace: &KeyspaceFlag) -> Result<(), Failure> {
        let mut out = stdout();
        match shown {
            Shown::Position => self.print_position(form, &mut out)?,
            Shown::Value { key, last } => {
                let value = keyspace.open(&self.db)?.get(&*key)?.map(|value| value.to_vec());
                if last.as_ref() != Some(&value) {
                    self.print_value(form, key, value.as_deref(), &mut out)?;
                    *last = Some(value);
                }
            }
            Shown::Pairs { prefix } => {
                let mut iter = keyspace.open(&self.db)?.prefix(&*prefix)?;
                iter.seek_to_first()?;
                let mut line = Vec::new();
                while iter.valid() {
                    line.clear();
                    write_pair(form, None, iter.key(), Some(iter.value()), None, &mut line);
                    out.write_all(&line)?;
                    interrupt::check()?;
                    iter.move_next()?;
                }
            }
        }
        Ok(out.flush()?)
    }

    fn position(&self) -> u64 {
        self.db.snapshot_with_position().1
    }

    fn print_position(&self, form: Form, out: &mut dyn Write) -> Result<(), Failure> {
        let (position, behind) = (self.position(), self.lag.operations);
        let added = self.before.map(|before| position.saturating_sub(before));
        if form.json {
            let mut fields = Map::new();
            fields.insert("position".into(), json!(position));
            fields.insert("added".into(), json!(added));
            fields.insert("operations_behind_before".into(), json!(behind));
            fields.insert("age_ms_before".into(), json!(self.lag.age.as_millis() as u64));
            return Ok(writeln!(out, "{}", Value::Object(fields))?);
        }
        match added {
            None => writeln!(out, "position {position}")?,
            Some(added) => {
                writeln!(out, "position {position}, {} more", counted(added, "operation"))?
            }
        }
        Ok(())
    }

    fn print_value(
        &self,
        form: Form,
        key: &[u8],
        value: Option<&[u8]>,
        out: &mut dyn Write,
    ) -> Result<(), Failure> {
        if form.json {
            let value = value.map_or(Value::Null, |value| form.to_json(value));
            let line =
                json!({ "position": self.position(), "key": form.to_json(key), "value": value });
            return Ok(writeln!(out, "{line}")?);
        }
        let mut line = Vec::new();
        match value {
            Some(value) => form.encoding.write(value, &mut line),
            None => line.extend_from_slice(b"(the key does not exist)"),
        }
        line.push(b'\n');
        Ok(out.write_all(&line)?)
    }
}
