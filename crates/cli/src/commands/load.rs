//! `esker load`: loads pairs from a file or standard input, in batches.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use clap::{Args, ValueEnum};
use esker::internals::DEFAULT_KEYSPACE;
use esker::{Batch, Db, ErrorKind, Keyspace};
use serde_json::json;

use super::load_sorted::{Place, load_sorted};
use super::{counted, print};
use crate::args::{Global, KeyspaceFlag};
use crate::bytes::Encoding;
use crate::failure::{Failure, Outcome, print_line, print_note};
use crate::interrupt;
use crate::keyspaces::{KeyspaceSpec, create, shown};
use crate::progress::{Count, Progress};
use crate::rows::csv::{CsvRows, Layout};
use crate::rows::dump::{DumpRows, is_dump};
use crate::rows::input::Input;
use crate::rows::jsonl::JsonRows;
use crate::rows::{Content, Rows};
use crate::store::{key, open_writer};

/// Limits of a batch, in pairs and in bytes.
const BATCH_PAIRS: usize = 1000;
const BATCH_BYTES: usize = 1 << 20;
/// Maximum number of bad rows reported one by one; further bad rows are only counted.
const BAD_ROWS_PRINTED: u64 = 100;

/// Format of the input file.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// Comma-separated; the first row names the columns
    Csv,
    /// Tab-separated; no header unless a column is given by name
    Tsv,
    /// One JSON object per line
    Jsonl,
    /// Output of `esker dump`; the keyspaces that it describes are created unless they exist
    Dump,
}

/// Arguments of `load`.
#[derive(Args)]
pub struct LoadArgs {
    /// Store directory; created if missing, unless --keyspace names a keyspace
    db: PathBuf,
    /// Input file; standard input if omitted or -
    file: Option<PathBuf>,
    /// Input format [default: detected from the file's name and beginning]
    #[arg(long, value_enum)]
    format: Option<Format>,
    /// Key column by name or number from 1, or JSON field of the key [default: 1, or key]
    #[arg(long, value_name = "COLUMN")]
    key_column: Option<String>,
    /// Value column by name or number from 1, or JSON field of the value [default: 2, or value]
    #[arg(long, value_name = "COLUMN")]
    value_column: Option<String>,
    /// The first row names the columns
    #[arg(long, conflicts_with = "no_header")]
    header: bool,
    /// The first row is data; columns are numbers
    #[arg(long)]
    no_header: bool,
    /// Decode \xNN and \\ in CSV and TSV fields, as printed by `scan`; quotes in TSV are literal
    #[arg(long)]
    escaped: bool,
    /// Exit with code 0 despite bad rows
    #[arg(long)]
    allow_bad_rows: bool,
    /// Return only once all pairs survive a power loss
    #[arg(long)]
    sync: bool,
    /// Load all pairs of a keyspace at once, as tables, without the log; sorts them outside of memory
    /// where they are not sorted, and of equal keys the last one counts
    #[arg(long)]
    sorted: bool,
    /// Directory for the files of the sort [default: the directory that holds the store]
    #[arg(long, value_name = "DIR", requires = "sorted")]
    sort_dir: Option<PathBuf>,
    #[command(flatten)]
    keyspace: KeyspaceFlag,
}

/// What a load did.
#[derive(Default)]
pub(super) struct Sums {
    pub loaded: u64,
    pub bad: u64,
    /// Pairs of a dump whose time had come.
    pub expired: u64,
    pub keyspaces_created: u64,
}

/// The store and the keyspace that is being loaded.
pub(super) struct Target {
    db: Db,
    pub keyspace: Keyspace,
    /// Whether `--keyspace` names the keyspace, whatever a dump says.
    is_fixed: bool,
    /// Number of keyspaces that the dump has described so far.
    described: u64,
}

impl Target {
    /// Opens the store and the keyspace that the arguments name.
    fn open(args: &LoadArgs, global: &Global) -> Result<Target, Failure> {
        refuse_plain_runs(args)?;
        let db = open_writer(&args.db, global, !args.keyspace.is_other())?;
        let keyspace = args.keyspace.open(&db)?;
        Ok(Target { db, keyspace, is_fixed: args.keyspace.is_given(), described: 0 })
    }

    /// Writes a batch and clears it.
    fn write(&self, batch: &mut Batch, sums: &mut Sums) -> Result<(), Failure> {
        if !batch.is_empty() {
            self.db.write(batch)?;
            sums.loaded += batch.len() as u64;
            batch.clear();
        }
        Ok(())
    }

    /// Continues with a keyspace that the dump describes. Creates it unless it exists; returns
    /// whether it was created. A keyspace that exists keeps its options.
    pub fn enter(&mut self, spec: &KeyspaceSpec, json: bool) -> Result<bool, Failure> {
        self.described += 1;
        if self.is_fixed {
            // Only a dump of all keyspaces describes the default one.
            if self.described == 1 && spec.name != DEFAULT_KEYSPACE {
                return Ok(false);
            }
            return Err(Failure::usage(
                "the dump has several keyspaces, which keep their names; load it without \
                 --keyspace",
            ));
        }
        let Some(keyspace) = self.db.existing_keyspace(&spec.name)? else {
            self.keyspace = create(&self.db, spec)?;
            return Ok(true);
        };
        if KeyspaceSpec::of(&keyspace) != *spec {
            let name = shown(&spec.name);
            let note = format!(
                "esker: the keyspace \"{name}\" exists with another order or other options than \
                 in the dump, and keeps them"
            );
            print_note(json, &note);
        }
        self.keyspace = keyspace;
        Ok(false)
    }
}

/// Refuses a sort of pairs that are to be encrypted.
fn refuse_plain_runs(args: &LoadArgs) -> Result<(), Failure> {
    if args.sorted && key().is_some() {
        let message = "--sorted sorts in files that are not encrypted; load into an encrypted store \
                       without it";
        return Err(Failure::usage(message));
    }
    Ok(())
}

/// Loads the pairs. Bad rows are reported on stderr with their line, and counted.
pub fn run(args: &LoadArgs, global: &Global) -> Outcome {
    let (mut rows, total) = open_rows(args, global)?;
    let mut target = Target::open(args, global)?;
    interrupt::watch();
    let started = Instant::now();
    let mut progress = Progress::new("load", total, Count::Bytes);
    let mut sums = Sums::default();
    let json = global.json;
    let loaded = if args.sorted {
        let place = Place { source: source(args), sort_dir: sort_dir(args) };
        load_sorted(&mut target, &mut *rows, &place, &mut sums, &mut progress, json)
    } else {
        load(&mut target, &mut *rows, source(args), &mut sums, &mut progress, json)
    };
    drop(progress);
    let finished = loaded.and_then(|()| {
        if args.sync {
            target.db.sync()?;
        }
        Ok(target.db.close()?)
    });
    if let Err(failure) = finished {
        let loaded = counted(sums.loaded, "pair");
        print_note(global.json, &format!("esker: {loaded} loaded before this error:"));
        return Err(failure);
    }
    let seconds = started.elapsed().as_secs_f64();
    let end = if interrupt::asked() { Ok(()) } else { rows.check_end() };
    let whole = end.is_ok() && !interrupt::asked();
    print(
        global.form(),
        || {
            json!({
                "loaded": sums.loaded, "bad_rows": sums.bad, "expired": sums.expired,
                "keyspaces_created": sums.keyspaces_created, "whole": whole, "seconds": seconds,
            })
        },
        || summary(&sums, seconds),
    )?;
    if interrupt::asked() {
        let message = "interrupted; the store holds the pairs loaded so far";
        return Err(Failure::interrupted(message));
    }
    if let Err(why) = end {
        let rest = if args.sorted {
            "no pair of the last keyspace was loaded"
        } else {
            "the readable pairs were loaded"
        };
        let message = format!("{}: {why}; {rest}", source(args).display());
        return Err(Failure::of(ErrorKind::Corruption, message));
    }
    if sums.bad == 0 {
        return Ok(0);
    }
    let message = format!("{} not loaded", counted(sums.bad, "bad row"));
    if args.allow_bad_rows {
        print_note(global.json, &format!("esker: {message}"));
        return Ok(0);
    }
    Err(Failure::usage(message))
}

/// Returns what was loaded, as a sentence.
fn summary(sums: &Sums, seconds: f64) -> String {
    let bad = match sums.bad {
        0 => "no bad row".into(),
        count => counted(count, "bad row"),
    };
    let created = match sums.keyspaces_created {
        0 => String::new(),
        count => format!(", {} created", counted(count, "keyspace")),
    };
    let expired = match sums.expired {
        0 => String::new(),
        count => format!(", {} left out", counted(count, "expired pair")),
    };
    let loaded = counted(sums.loaded, "pair");
    format!("loaded {loaded}, {bad}{created}{expired}, in {seconds:.2} s")
}

fn load(
    target: &mut Target,
    rows: &mut dyn Rows,
    source: &Path,
    sums: &mut Sums,
    progress: &mut Progress,
    json: bool,
) -> Result<(), Failure> {
    let mut batch = Batch::new();
    while !interrupt::asked() {
        let row = rows.next().map_err(|error| Failure::file("read", source, &error))?;
        let Some(row) = row else { break };
        let content = row.content.and_then(|content| fits(&content).map(|()| content));
        match content {
            Ok(Content::Pair(key, value)) => {
                batch.put_in(&target.keyspace, &key, &value);
            }
            Ok(Content::Timed(key, value, expires_ms)) => match time_to_live(expires_ms) {
                Some(ttl) => {
                    batch.put_with_ttl_in(&target.keyspace, &key, &value, ttl);
                }
                None => sums.expired += 1,
            },
            Ok(Content::Keyspace(spec)) => {
                target.write(&mut batch, sums)?;
                let created = target
                    .enter(&spec, json)
                    .map_err(|failure| at_line(failure, source, row.line, &shown(&spec.name)))?;
                sums.keyspaces_created += u64::from(created);
            }
            Err(why) => {
                sums.bad += 1;
                progress.suspended(|| report_bad_row(json, sums.bad, row.line, &why));
            }
        }
        if batch.len() >= BATCH_PAIRS || batch.size_bytes() >= BATCH_BYTES {
            target.write(&mut batch, sums)?;
        }
        progress.set(rows.read_bytes());
    }
    target.write(&mut batch, sums)
}

/// Returns how long a pair lives from now on: for ever without a time, and `None` if its time has
/// come.
fn time_to_live(expires_ms: Option<u64>) -> Option<Duration> {
    let Some(expires_ms) = expires_ms else { return Some(Duration::MAX) };
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Duration::from_millis(expires_ms).checked_sub(now).filter(|left| !left.is_zero())
}

/// Returns the failure to begin a keyspace, with its place in the input.
pub(super) fn at_line(failure: Failure, source: &Path, line: u64, name: &str) -> Failure {
    let place = format!("{}: line {line}: keyspace \"{name}\"", source.display());
    failure.with_place(&place)
}

/// Checks a pair against the store's limits. A refused pair is a bad row and does not end the load.
pub(super) fn fits(content: &Content) -> Result<(), String> {
    let (Content::Pair(key, value) | Content::Timed(key, value, _)) = content else {
        return Ok(());
    };
    let message = |error: esker::Error| error.message().to_string();
    esker::internals::check_key(key).map_err(message)?;
    esker::internals::check_value(value).map_err(message)
}

pub(super) fn report_bad_row(json: bool, count: u64, line: u64, why: &str) {
    match count {
        ..=BAD_ROWS_PRINTED if json => {
            print_line(&json!({ "bad_row": { "line": line, "message": why } }).to_string());
        }
        ..=BAD_ROWS_PRINTED => print_line(&format!("esker: line {line}: {why}")),
        _ if count == BAD_ROWS_PRINTED + 1 => {
            print_note(json, "esker: further bad rows are only counted")
        }
        _ => {}
    }
}

fn source(args: &LoadArgs) -> &Path {
    args.file.as_deref().filter(|file| file.as_os_str() != "-").unwrap_or("standard input".as_ref())
}

/// Returns the directory in which the sort makes its own.
fn sort_dir(args: &LoadArgs) -> PathBuf {
    let beside = || match args.db.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_path_buf(),
        _ => PathBuf::from("."),
    };
    args.sort_dir.clone().unwrap_or_else(beside)
}

/// Opens the rows of the file; the second value is the file's length, if known.
fn open_rows(args: &LoadArgs, global: &Global) -> Result<(Box<dyn Rows>, Option<u64>), Failure> {
    let path = source(args);
    let fail = |error: std::io::Error| Failure::file("read", path, &error);
    let named = args.file.as_ref().filter(|file| file.as_os_str() != "-");
    let (reader, total): (Box<dyn Read>, Option<u64>) = match named {
        None => (Box::new(std::io::stdin().lock()), None),
        Some(path) => {
            let file = File::open(path).map_err(|e| Failure::file("open", path, &e))?;
            let meta = file.metadata().map_err(fail)?;
            (Box::new(file), meta.is_file().then_some(meta.len()))
        }
    };
    let mut input = Input::new(reader);
    let format = match args.format {
        Some(format) => format,
        None => guess(path, input.peek().map_err(fail)?),
    };
    let wrong = |why: String| Failure::usage(format!("{}: {why}", path.display()));
    let rows: Box<dyn Rows> = match format {
        Format::Csv | Format::Tsv => {
            let layout = layout(args, global, format);
            Box::new(CsvRows::open(input, layout).map_err(fail)?.map_err(wrong)?)
        }
        Format::Jsonl => {
            let key = args.key_column.clone().unwrap_or_else(|| "key".into());
            let value = args.value_column.clone().unwrap_or_else(|| "value".into());
            Box::new(JsonRows::new(input, global.form(), key, value))
        }
        Format::Dump => Box::new(DumpRows::open(input).map_err(fail)?.map_err(wrong)?),
    };
    Ok((rows, total))
}

fn guess(path: &Path, beginning: &[u8]) -> Format {
    let extension = path.extension().and_then(|e| e.to_str()).unwrap_or_default();
    match extension.to_ascii_lowercase().as_str() {
        _ if is_dump(beginning) => Format::Dump,
        "csv" => Format::Csv,
        "tsv" | "tab" => Format::Tsv,
        "jsonl" | "ndjson" | "json" => Format::Jsonl,
        "dump" => Format::Dump,
        _ if beginning.trim_ascii_start().starts_with(b"{") => Format::Jsonl,
        _ => Format::Csv,
    }
}

fn layout(args: &LoadArgs, global: &Global, format: Format) -> Layout {
    let column = |given: &Option<String>, default: &str| given.clone().unwrap_or(default.into());
    let (key_column, value_column) =
        (column(&args.key_column, "1"), column(&args.value_column, "2"));
    let named = [&key_column, &value_column].iter().any(|c| c.parse::<usize>().is_err());
    let encoding = match global.form().encoding {
        Encoding::Text => args.escaped.then_some(Encoding::Text),
        other => Some(other),
    };
    Layout {
        delimiter: if format == Format::Csv { b',' } else { b'\t' },
        quotes: format == Format::Csv || !args.escaped,
        header: args.header || (!args.no_header && (format == Format::Csv || named)),
        key_column,
        value_column,
        encoding,
    }
}
