//! `esker dump`: writes the pairs of a store or of a key range as text that `load` reads.

use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::json;

use super::scan::{between, write_pair};
use super::{bytes_of, counted, print, stdout};
use crate::args::Global;
use crate::failure::{Failure, Outcome};
use crate::interrupt;
use crate::progress::{Count, Progress};
use crate::rows::dump::{Tally, first_line};
use crate::store::open_reader;

/// Arguments of `dump`.
#[derive(Args)]
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
}

/// Destination of a dump.
enum Sink {
    Stdout(BufWriter<io::StdoutLock<'static>>),
    File(BufWriter<File>, PathBuf),
}

impl Sink {
    /// Creates the file with access for its owner only. An existing file is not touched.
    fn create(path: &Path) -> Result<Sink, Failure> {
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
        let file = file.map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => Failure::usage(format!(
                "{}: the file exists, and dump does not overwrite it; name a new file",
                path.display()
            )),
            _ => Failure::file("create the dump", path, &error),
        })?;
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

/// Writes a first line, the pairs, and a last line.
pub fn run(args: &DumpArgs, global: &Global) -> Outcome {
    let form = global.form();
    let bound = |arg: &Option<std::ffi::OsString>| {
        arg.as_ref().map(|arg| bytes_of(form, "key", arg)).transpose()
    };
    let (from, to) = (bound(&args.from)?, bound(&args.to)?);
    let db = open_reader(&args.db, global)?;
    let mut iter = between(&db, from, to)?;
    let file = args.file.as_ref().filter(|file| file.as_os_str() != "-");
    let mut sink = match file {
        Some(path) => Sink::create(path)?,
        None => Sink::Stdout(stdout()),
    };
    interrupt::watch();
    let mut progress = Progress::new("dump", None, Count::Pairs);
    let mut tally = Tally::default();
    let mut line = first_line(form).into_bytes();
    line.push(b'\n');
    sink.write(&line)?;
    iter.seek_to_first()?;
    while iter.valid() && !interrupt::asked() {
        line.clear();
        write_pair(form, iter.key(), Some(iter.value()), &mut line);
        sink.write(&line)?;
        tally.add(iter.key(), iter.value());
        progress.set(tally.count);
        iter.move_next()?;
    }
    drop(progress);
    if interrupt::asked() {
        sink.finish()?;
        return Err(Failure::interrupted(format!(
            "interrupted after {}; the dump has no last line, so `load` reports it as incomplete",
            counted(tally.count, "pair")
        )));
    }
    sink.write(format!("{}\n", tally.last_line(form)).as_bytes())?;
    sink.finish()?;
    if let Some(path) = file {
        let sum = format!("{:016x}", tally.checksum);
        let path = path.display().to_string();
        print(
            form,
            || json!({ "ok": true, "file": path, "pairs": tally.count, "checksum": sum }),
            || format!("{path}: {}, checksum {sum}", counted(tally.count, "pair")),
        )?;
    }
    Ok(0)
}
