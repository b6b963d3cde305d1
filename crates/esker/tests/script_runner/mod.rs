//! The commands of the golden scripts; `tests/scripts.rs` documents them.

mod damage;
mod dump;
mod plans;

use std::collections::BTreeMap;
use std::ops::Bound;
use std::path::Path;
use std::sync::Arc;

use esker::fs::Fs;
use esker::{Batch, Compression, Db, Options, ReadOptions, Snapshot, WalIo};
use esker_testkit::crash::{CrashFs, CrashModel};

/// Directory of the store.
const DIR: &str = "/db";

/// Output lines of a command, or a mistake in the script.
pub type Output = Result<Vec<String>, String>;

/// A store on a simulated disk, and the state of a script.
pub struct Session {
    disk: Arc<CrashFs>,
    /// Number of disks so far. It seeds the disk's unique numbers.
    disks: u64,
    db: Option<Db>,
    options: Options,
    snapshots: BTreeMap<String, Snapshot>,
}

/// Returns the options at the start of a script: nothing is flushed or delayed without a request.
fn first_options() -> Options {
    Options {
        memory_budget_bytes: Some(64 << 20),
        memtable_size_bytes: Some(1 << 20),
        cache_size_bytes: Some(64 << 10),
        debt_limit_bytes: Some(1 << 40),
        compression: Compression::None,
        wal_io: WalIo::Write,
        background_threads: Some(0),
        log_file: false,
        status_file: false,
        ..Options::default()
    }
}

/// Formats an error, with paths relative to the store.
fn error_line(error: &esker::Error) -> String {
    format!("error {}: {}", error.kind().name(), relative(&error.to_string()))
}

/// Removes the store's directory from the paths in a message.
fn relative(message: &str) -> String {
    message.replace("/db/", "").replace("/db", "the directory")
}

/// Formats a key or a value.
fn word(bytes: &[u8]) -> String {
    match bytes {
        [] => "''".to_string(),
        [first, .., _] if bytes.len() > 9 && bytes.iter().all(|byte| byte == first) => {
            format!("{}*{}", [*first].escape_ascii(), bytes.len())
        }
        _ => bytes.escape_ascii().to_string(),
    }
}

/// Parses a key or a value.
fn bytes_of(text: &str) -> Vec<u8> {
    match text.split_once('*') {
        Some((byte, count)) if byte.len() == 1 && count.parse::<usize>().is_ok() => {
            byte.repeat(count.parse().unwrap_or_default()).into_bytes()
        }
        _ if text == "''" => Vec::new(),
        _ => text.as_bytes().to_vec(),
    }
}

fn number(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("expected a number, found {text}"))
}

/// Makes a result of the engine a command's output.
fn output_of<T>(result: esker::Result<T>, lines: impl FnOnce(T) -> Vec<String>) -> Output {
    Ok(result.map_or_else(|error| vec![error_line(&error)], lines))
}

fn done(result: esker::Result<()>) -> Output {
    output_of(result, |()| Vec::new())
}

/// Adds the operation of these words to a batch.
fn add_operation(batch: &mut Batch, words: &[&str]) -> Result<(), String> {
    match words {
        ["put", key, value] => batch.put(bytes_of(key), bytes_of(value)),
        ["delete", key] => batch.delete(bytes_of(key)),
        ["delete-range", start, end] => batch.delete_range(bytes_of(start), bytes_of(end)),
        _ => return Err("unknown operation".to_string()),
    };
    Ok(())
}

impl Session {
    pub fn new() -> Session {
        let (options, snapshots) = (first_options(), BTreeMap::new());
        Session { disk: CrashFs::seeded(0), disks: 0, db: None, options, snapshots }
    }

    /// Runs one command.
    pub fn run(&mut self, command: &str) -> Output {
        let words: Vec<&str> = command.split_whitespace().collect();
        let (name, rest) = words.split_first().ok_or("expected a command")?;
        match *name {
            "open" => self.open(rest),
            "close" => self.close(),
            "reopen" => {
                let closed = self.close()?;
                Ok([closed, self.open(rest)?].concat())
            }
            "kill" => self.crash(CrashModel::Everything),
            "power-cut" => self.crash(match rest {
                [] => CrashModel::SyncedOnly,
                ["names-ahead"] => CrashModel::NamesAhead,
                ["zeros"] => CrashModel::SizesAhead { garbage: false, seed: 0 },
                _ => return Err("unknown kind of power cut".to_string()),
            }),
            "put" | "delete" | "delete-range" | "batch" | "fill" | "sync" | "flush" | "set"
            | "compact" => self.write(name, rest, command),
            "get" | "scan" | "count" | "snapshot" | "release" => self.read(name, rest),
            "job" | "jobs" => self.jobs(*name == "jobs"),
            "levels" | "work" | "notes" | "verify" => self.report(name),
            "plan" | "plan-compact" | "plan-seeks" => self.plan(name, rest),
            "tree" | "table" | "log" | "manifest" | "current" | "files" => self.dump(name, rest),
            "cut" | "zero" | "flip" | "grow" | "remove" | "copy" | "create" | "repair" => {
                if self.db.is_some() {
                    return Err("the store must be closed".to_string());
                }
                self.damage(name, rest)
            }
            _ => Err("unknown command".to_string()),
        }
    }

    fn db(&self) -> Result<&Db, String> {
        self.db.as_ref().ok_or_else(|| "the store is not open".to_string())
    }

    fn open(&mut self, words: &[&str]) -> Output {
        if self.db.is_some() {
            return Err("the store is open".to_string());
        }
        let read_only = words.first() == Some(&"read-only");
        for word in &words[usize::from(read_only)..] {
            let (name, value) = word.split_once('=').ok_or("expected NAME=VALUE")?;
            self.options.set(name, value).map_err(|error| error.to_string())?;
        }
        let (fs, options) = (self.disk.clone(), self.options.clone());
        let opened = if read_only {
            Db::open_read_only_on(fs, DIR, options)
        } else {
            Db::open_on(fs, DIR, options)
        };
        output_of(opened, |db| {
            self.db = Some(db);
            Vec::new()
        })
    }

    fn close(&mut self) -> Output {
        self.snapshots.clear();
        done(self.db.take().ok_or("the store is not open")?.close())
    }

    /// Replaces the disk by its state after a crash. The old store keeps the old disk.
    fn crash(&mut self, model: CrashModel) -> Output {
        self.disks += 1;
        let after = self.disk.image(model).to_disk(self.disks);
        self.snapshots.clear();
        self.db = None;
        self.disk = after;
        Ok(Vec::new())
    }

    fn write(&mut self, name: &str, rest: &[&str], command: &str) -> Output {
        let db = self.db.as_ref().ok_or("the store is not open")?;
        match (name, rest) {
            ("sync", []) => done(db.sync()),
            ("flush", []) => done(db.flush()),
            ("compact", []) => done(db.compact_range(None, None)),
            ("compact", [start, end]) => {
                done(db.compact_range(Some(&bytes_of(start)), Some(&bytes_of(end))))
            }
            ("set", [name, value]) => output_of(db.set_options(&[(*name, *value)]), |()| {
                // Also for the next opening, and for plans.
                let _ = self.options.set(name, value);
                Vec::new()
            }),
            ("fill", [prefix, range, value]) => {
                let (from, to) = range.split_once("..").ok_or("expected A..B")?;
                for at in number(from)?..number(to)? {
                    if let Err(error) = db.put(format!("{prefix}{at:03}"), bytes_of(value)) {
                        return Ok(vec![error_line(&error)]);
                    }
                }
                Ok(Vec::new())
            }
            ("batch", _) => {
                let mut batch = Batch::new();
                for operation in command.trim_start_matches("batch").split(';') {
                    let words: Vec<&str> = operation.split_whitespace().collect();
                    if !words.is_empty() {
                        add_operation(&mut batch, &words)?;
                    }
                }
                done(db.write(&batch))
            }
            _ => {
                let mut batch = Batch::new();
                add_operation(&mut batch, &[&[name], rest].concat())?;
                done(db.write(&batch))
            }
        }
    }

    /// Returns the snapshot that the last word names, and the other words.
    fn at_snapshot<'a, 'w>(
        &'a self,
        words: &'w [&'w str],
    ) -> Result<(ReadOptions<'a>, &'w [&'w str]), String> {
        let Some((last, before)) = words.split_last() else {
            return Ok((ReadOptions::default(), words));
        };
        let Some(name) = last.strip_prefix('@') else { return Ok((ReadOptions::default(), words)) };
        let snapshot = self.snapshots.get(name).ok_or("no such snapshot")?;
        Ok((ReadOptions::default().snapshot(Some(snapshot)), before))
    }

    fn read(&mut self, name: &str, words: &[&str]) -> Output {
        let db = self.db()?;
        match (name, words) {
            ("snapshot", [name]) => {
                let snapshot = db.snapshot();
                self.snapshots.insert((*name).to_string(), snapshot);
                return Ok(Vec::new());
            }
            ("release", [name]) => {
                self.snapshots.remove(*name).ok_or("no such snapshot")?;
                return Ok(Vec::new());
            }
            _ => {}
        }
        let (options, words) = self.at_snapshot(words)?;
        let bounds = match words {
            ["''", end] => (Bound::Unbounded, Bound::Excluded(bytes_of(end))),
            [start, end] => (Bound::Included(bytes_of(start)), Bound::Excluded(bytes_of(end))),
            _ => (Bound::Unbounded, Bound::Unbounded),
        };
        match (name, words) {
            ("get", [key]) => output_of(db.get_with(bytes_of(key), &options), |value| {
                vec![value.map_or("none".to_string(), |value| word(&value))]
            }),
            ("scan" | "count", [] | [_, _]) => {
                let pairs = db.iter_with(&options, bounds).and_then(Iterator::collect);
                output_of(pairs, |pairs: Vec<(Vec<u8>, Vec<u8>)>| {
                    match (pairs.first(), pairs.last()) {
                        (Some((first, _)), Some((last, _))) if name == "count" => {
                            vec![format!(
                                "{} pairs, {} to {}",
                                pairs.len(),
                                word(first),
                                word(last)
                            )]
                        }
                        (Some(_), _) => pairs
                            .iter()
                            .map(|(k, v)| format!("{} = {}", word(k), word(v)))
                            .collect(),
                        _ => vec!["no pairs".to_string()],
                    }
                })
            }
            _ => Err("unknown form of the command".to_string()),
        }
    }

    fn report(&self, name: &str) -> Output {
        let db = self.db()?;
        let metrics = db.metrics();
        Ok(match name {
            "levels" => {
                self.check_levels(&metrics)?;
                let used = metrics.levels.iter().filter(|level| level.files > 0);
                let line = |l: &esker::report::LevelMetrics| {
                    let (guards, runs, files) = (l.guards, l.runs_max, l.files);
                    format!("level {}: guards {guards}, runs {runs}, files {files}", l.level)
                };
                dump::or_none(used.map(line).collect(), "no tables")
            }
            "work" => {
                let mut lines = vec![format!(
                    "flushes {}, compactions {}, log syncs {}",
                    metrics.flushes, metrics.compactions, metrics.log_syncs
                )];
                let used = metrics.levels.iter().filter(|l| l.compactions + l.moves > 0);
                lines.extend(used.map(|l| {
                    let (level, into) = (l.level, l.compactions);
                    format!("level {level}: compactions into it {into}, moves {}", l.moves)
                }));
                lines
            }
            "notes" => {
                let notes = db.recovery_notes().iter().map(|note| relative(note)).collect();
                dump::or_none(notes, "no notes")
            }
            _ => {
                return output_of(db.verify(&mut |_, _| {}), |report| {
                    let (tables, logs) = (report.files, report.logs);
                    let (entries, ranges) = (report.entries, report.range_deletes);
                    let mut lines = vec![format!(
                        "tables {tables}, logs {logs}, entries {entries}, range tombstones {ranges}"
                    )];
                    lines.extend(report.problems.iter().map(error_line));
                    lines
                });
            }
        })
    }

    /// Returns the names of the store's files, ordered.
    fn file_names(&self) -> Vec<(String, u64)> {
        let entries = self.disk.list(Path::new(DIR)).unwrap_or_default();
        let files = entries.into_iter().filter(|entry| entry.is_file);
        files.map(|entry| (entry.name, entry.len_bytes)).collect()
    }

    /// Returns the name of a file: `log`, `manifest` and `table` name the newest of their kind.
    fn file_name(&self, text: &str) -> Result<String, String> {
        let is_it = |name: &str| match text {
            "log" => name.ends_with(".wal"),
            "table" => name.ends_with(".sst"),
            "manifest" => name.starts_with("manifest-"),
            _ => name == text,
        };
        let found = self.file_names().into_iter().rfind(|(name, _)| is_it(name));
        found.map(|(name, _)| name).ok_or_else(|| format!("there is no file {text}"))
    }
}
