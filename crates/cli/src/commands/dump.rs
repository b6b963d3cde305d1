//! `esker dump`: writes the pairs of a keyspace, of a key range or of all keyspaces as text that
//! `load` reads.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use clap::Args;
use esker::internals::may_expire;
use esker::{DbIterator, Keyspace};
use serde_json::json;

use super::scan::{between, write_pair};
use super::{bytes_of, counted, create_new, print, stdout};
use crate::args::{Global, KeyspaceFlag};
use crate::bytes::Form;
use crate::failure::{Failure, Outcome, print_note};
use crate::interrupt;
use crate::keyspaces::KeyspaceSpec;
use crate::progress::{Count, Progress};
use crate::rows::dump::{Tally, first_line, keyspace_line};
use crate::store::open_reader;

const AFTER_HELP: &str = "\
With --keyspace or --all-keyspaces the dump describes its keyspaces: the line `keyspace {...}` \
before the pairs of each, or with --json an object `create_keyspace`, and the field `keyspace` in \
each pair. `load` creates these keyspaces unless they exist.

A pair that expires has its time in milliseconds since 1970 as a third column, or the field \
`expires_ms`. `load` leaves out those whose time has come.";

/// Arguments of `dump`.
#[derive(Args)]
#[command(after_help = AFTER_HELP)]
pub struct DumpArgs {
    /// Store directory
    db: PathBuf,
    /// Output file, which must not exist; standard output if omitted or -
    file: Option<PathBuf>,
    /// Start key, inclusive
    #[arg(long, value_name = "KEY")]
    from: Option<std::ffi::OsString>,
    /// End key, exclusive
    #[arg(long, value_name = "KEY")]
    to: Option<std::ffi::OsString>,
    #[command(flatten)]
    keyspace: KeyspaceFlag,
    /// Dump every keyspace with its key order and own options; `load` creates them
    #[arg(long, conflicts_with_all = ["keyspace", "from", "to"])]
    all_keyspaces: bool,
}

/// Destination of a dump.
enum Sink {
    Stdout(BufWriter<io::StdoutLock<'static>>),
    File(BufWriter<File>, PathBuf),
}

impl Sink {
    /// Creates the file with access for its owner only. An existing file is not touched.
    fn create(path: &Path) -> Result<Sink, Failure> {
        let file = create_new(path, "dump", "create the dump")?;
        Ok(Sink::File(BufWriter::with_capacity(256 << 10, file), path.to_path_buf()))
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        match self {
            Sink::Stdout(out) => Ok(out.write_all(bytes)?),
            Sink::File(out, path) => {
                out.write_all(bytes).map_err(|e| Failure::file("write the dump", path, &e))
            }
        }
    }

    fn finish(&mut self) -> Result<(), Failure> {
        match self {
            Sink::Stdout(out) => Ok(out.flush()?),
            Sink::File(out, path) => out
                .flush()
                .and_then(|()| out.get_ref().sync_all())
                .map_err(|e| Failure::file("write the dump", path, &e)),
        }
    }
}

/// A dump that is being written.
struct Dump {
    form: Form,
    sink: Sink,
    tally: Tally,
    progress: Progress,
    line: Vec<u8>,
}

impl Dump {
    /// Begins a dump with its first line. `names` says that it describes keyspaces, `expire` that its
    /// pairs may expire.
    fn begin(form: Form, mut sink: Sink, names: bool, expire: bool) -> Result<Dump, Failure> {
        interrupt::watch();
        sink.write(format!("{}\n", first_line(form, names, expire)).as_bytes())?;
        let progress = Progress::new("dump", None, Count::Pairs);
        Ok(Dump { form, sink, tally: Tally::default(), progress, line: Vec::new() })
    }

    /// Writes the line of a keyspace.
    fn name(&mut self, keyspace: &Keyspace) -> Result<(), Failure> {
        let spec = KeyspaceSpec::of(keyspace);
        self.tally.add_keyspace(&spec);
        self.sink.write(format!("{}\n", keyspace_line(self.form, &spec)).as_bytes())
    }

    /// Writes the pairs of an iterator, until Ctrl-C. `name` is the keyspace that the pairs repeat.
    fn pairs(&mut self, mut iter: DbIterator, name: Option<&str>) -> Result<(), Failure> {
        iter.seek_to_first()?;
        while iter.valid() && !interrupt::asked() {
            self.line.clear();
            let (key, value, expires_ms) = (iter.key(), iter.value(), iter.expires_ms());
            write_pair(self.form, name, key, Some(value), expires_ms, &mut self.line);
            self.sink.write(&self.line)?;
            self.tally.add(key, value, expires_ms);
            self.progress.set(self.tally.count);
            iter.move_next()?;
        }
        Ok(())
    }

    /// Writes the last line, unless the command was interrupted.
    fn finish(mut self) -> Result<Tally, Failure> {
        drop(self.progress);
        if interrupt::asked() {
            self.sink.finish()?;
            return Err(Failure::interrupted(format!(
                "interrupted after {}; the dump has no last line, so `load` reports it as \
                 incomplete",
                counted(self.tally.count, "pair")
            )));
        }
        self.sink.write(format!("{}\n", self.tally.last_line(self.form)).as_bytes())?;
        self.sink.finish()?;
        Ok(self.tally)
    }
}

/// Writes a first line, the pairs, and a last line. Names the keyspaces, unless the dump has only
/// the default one.
pub fn run(args: &DumpArgs, global: &Global) -> Outcome {
    let form = global.form();
    let bound = |arg: &Option<std::ffi::OsString>| {
        arg.as_ref().map(|arg| bytes_of(form, "key", arg)).transpose()
    };
    let (from, to) = (bound(&args.from)?, bound(&args.to)?);
    let db = open_reader(&args.db, global)?;
    let mut keyspaces = vec![args.keyspace.open(&db)?];
    if args.all_keyspaces {
        keyspaces.clear();
        for name in db.keyspaces() {
            keyspaces.extend(db.existing_keyspace(&name)?);
        }
    }
    let names = args.all_keyspaces || args.keyspace.is_other();
    let file = args.file.as_ref().filter(|file| file.as_os_str() != "-");
    let sink = match file {
        Some(path) => Sink::create(path)?,
        None => Sink::Stdout(stdout()),
    };
    let others = db.keyspaces().len() - keyspaces.len();
    if others > 0 && !args.keyspace.is_given() && !args.all_keyspaces {
        let note = format!(
            "esker: {} not in the dump: --all-keyspaces dumps all",
            match others {
                1 => "another keyspace is".into(),
                count => format!("{count} other keyspaces are"),
            }
        );
        print_note(form.json, &note);
    }
    let mut dump = Dump::begin(form, sink, names, may_expire(&db))?;
    for keyspace in &keyspaces {
        if names {
            dump.name(keyspace)?;
        }
        let name = names.then(|| keyspace.name());
        dump.pairs(between(keyspace, from.clone(), to.clone())?, name.as_deref())?;
    }
    let tally = dump.finish()?;
    if let Some(path) = file {
        print_totals(form, path, &tally)?;
    }
    Ok(0)
}

fn print_totals(form: Form, file: &Path, tally: &Tally) -> Result<(), Failure> {
    let sum = format!("{:016x}", tally.checksum);
    let path = file.display().to_string();
    let (pairs, keyspaces) = (tally.count, tally.keyspaces);
    print(
        form,
        || {
            let mut totals = json!({ "ok": true, "file": path, "pairs": pairs, "checksum": sum });
            if keyspaces > 0 {
                totals["keyspaces"] = json!(keyspaces);
            }
            totals
        },
        || {
            let place = match keyspaces {
                0 => String::new(),
                count => format!(" in {}", counted(count, "keyspace")),
            };
            format!("{path}: {}{place}, checksum {sum}", counted(pairs, "pair"))
        },
    )
}
