//! `esker rocksdb-report`: which of RocksDB's functions that a program or a store uses are done,
//! accepted or refused by Esker's `librocksdb.so`.
//!
//! Invariants:
//! 1. What is said of a function is its row of the table that also makes the library.
//! 2. A program is read, never loaded or run. A store is read without its lock.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};

use clap::Args;
use object::read::archive::ArchiveFile;
use object::{Object as _, ObjectSymbol as _};
use serde_json::{Value, json};

use super::{print, stdout};
use crate::args::Global;
use crate::failure::{Failure, Outcome};

/// The table of RocksDB's functions: name, signature, status, how it is made, note.
const FUNCTIONS: &str = include_str!("../../rocksdb-functions.tsv");
/// Beginning of the names of RocksDB's functions.
const PREFIX: &str = "rocksdb_";
/// The part of a line of a store's `LOG` before the names of accepted functions.
const LOG_MARK: &str = " rocksdb: accepted without effect: ";
/// The files in a store with such lines.
const LOGS: [&str; 2] = ["LOG.old", "LOG"];

/// Arguments of `rocksdb-report`.
#[derive(Args)]
#[group(required = true, multiple = false)]
pub struct RocksdbReportArgs {
    /// Directory of a store: the accepted functions that programs have called with it, by its LOG
    db: Option<PathBuf>,
    /// Program, shared library, object file or archive that calls RocksDB's functions (ELF)
    #[arg(long, value_name = "FILE")]
    program: Option<PathBuf>,
    /// Names of functions
    #[arg(long, value_name = "NAME", num_args = 1..)]
    functions: Vec<String>,
}

/// What Esker's library does for a function.
struct Function {
    name: &'static str,
    status: &'static str,
    note: &'static str,
}

/// The functions in use, by what the library does. A name that the table lacks is unknown.
#[derive(Default)]
struct Report {
    done: Vec<Function>,
    accepted: Vec<Function>,
    refused: Vec<Function>,
    unknown: Vec<String>,
}

impl Report {
    fn of(names: &BTreeSet<String>) -> Report {
        let mut table: BTreeMap<&str, Function> = functions().map(|f| (f.name, f)).collect();
        let mut report = Report::default();
        for name in names {
            match table.remove(name.as_str()) {
                Some(function) if function.status == "done" => report.done.push(function),
                Some(function) if function.status == "accepted" => report.accepted.push(function),
                Some(function) => report.refused.push(function),
                None => report.unknown.push(name.clone()),
            }
        }
        report
    }

    fn to_json(&self) -> Value {
        let of = |functions: &[Function]| -> Vec<Value> {
            functions.iter().map(|f| json!({ "name": f.name, "note": f.note })).collect()
        };
        json!({
            "done": self.done.iter().map(|f| f.name).collect::<Vec<_>>(),
            "accepted": of(&self.accepted), "refused": of(&self.refused), "unknown": self.unknown,
        })
    }

    fn to_text(&self) -> String {
        let mut text = format!(
            "{} done, {} accepted without effect, {} refused\n",
            self.done.len(),
            self.accepted.len(),
            self.refused.len()
        );
        let width = |functions: &[Function]| functions.iter().map(|f| f.name.len()).max();
        let parts = [
            ("refused: the call, or the next one that reports errors, fails", &self.refused),
            ("accepted: without effect", &self.accepted),
        ];
        for (title, functions) in parts {
            let Some(width) = width(functions) else { continue };
            text += &format!("\n{title}\n");
            for function in functions {
                let line = format!("  {:width$}  {}", function.name, function.note);
                text += line.trim_end();
                text.push('\n');
            }
        }
        if !self.unknown.is_empty() {
            text += &format!("\nnot a function of RocksDB 11.8: {}\n", self.unknown.join(", "));
        }
        text
    }
}

/// Returns the rows of the table.
fn functions() -> impl Iterator<Item = Function> {
    FUNCTIONS.lines().filter(|line| !line.starts_with('#')).filter_map(|line| {
        let columns: Vec<&'static str> = line.split('\t').collect();
        match columns[..] {
            [name, _, status, _, note] => Some(Function { name, status, note }),
            _ => None,
        }
    })
}

/// Prints the report. The exit code is 1 if a function is refused or unknown.
pub fn run(args: &RocksdbReportArgs, global: &Global) -> Outcome {
    let names = match (&args.db, &args.program) {
        (Some(db), _) => of_store(db)?,
        (None, Some(program)) => of_program(program)?,
        (None, None) => args.functions.iter().map(|name| whole(name)).collect(),
    };
    let report = Report::of(&names);
    if global.json {
        print(global.form(), || report.to_json(), String::new)?;
    } else {
        let mut out = stdout();
        out.write_all(report.to_text().as_bytes())?;
        out.flush()?;
    }
    Ok(u8::from(!(report.refused.is_empty() && report.unknown.is_empty())))
}

/// Returns a function's name with its prefix.
fn whole(name: &str) -> String {
    if name.starts_with(PREFIX) { name.to_string() } else { format!("{PREFIX}{name}") }
}

/// Returns the functions that the `LOG` of a store names.
fn of_store(db: &Path) -> Result<BTreeSet<String>, Failure> {
    if !db.join("CURRENT").exists() {
        let hint = "no store is here; name a store's directory, or --program FILE";
        return Err(Failure::usage(format!("{}: {hint}", db.display())));
    }
    let mut names = BTreeSet::new();
    for log in LOGS {
        let path = db.join(log);
        let bytes = match fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == ErrorKind::NotFound => continue,
            Err(error) => return Err(Failure::file("read", &path, &error)),
        };
        for line in String::from_utf8_lossy(&bytes).lines() {
            let Some((_, list)) = line.split_once(LOG_MARK) else { continue };
            names.extend(list.split(", ").map(str::to_string));
        }
    }
    Ok(names)
}

/// Returns RocksDB's functions that a program calls: its undefined symbols.
fn of_program(path: &Path) -> Result<BTreeSet<String>, Failure> {
    let data = fs::read(path).map_err(|error| Failure::file("read", path, &error))?;
    let unreadable = |why: String| {
        Failure::usage(format!(
            "{}: {why}; expected an ELF program, shared library, object file or archive",
            path.display()
        ))
    };
    let mut names = BTreeSet::new();
    match ArchiveFile::parse(&*data) {
        Ok(archive) => {
            for member in archive.members() {
                let member = member.and_then(|member| member.data(&*data));
                let member = member.map_err(|error| unreadable(error.to_string()))?;
                // An archive also has members that are no object files.
                if let Ok(file) = object::File::parse(member) {
                    names.extend(undefined(&file));
                }
            }
        }
        Err(_) => {
            let file = object::File::parse(&*data).map_err(|why| unreadable(why.to_string()))?;
            names.extend(undefined(&file));
        }
    }
    if names.is_empty() {
        return Err(Failure::usage(format!(
            "{}: it calls no function of RocksDB in a shared library; a program with RocksDB linked \
             into it has to be built with ROCKSDB_LIB_DIR, or give its object files",
            path.display()
        )));
    }
    Ok(names)
}

/// Returns the undefined symbols with RocksDB's prefix.
fn undefined(file: &object::File<'_>) -> Vec<String> {
    let symbols = file.symbols().chain(file.dynamic_symbols());
    let names = symbols.filter(|symbol| symbol.is_undefined()).filter_map(|symbol| {
        // The version of a symbol follows an @.
        symbol.name().ok().and_then(|name| name.split('@').next()).map(str::to_string)
    });
    names.filter(|name| name.starts_with(PREFIX)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_of_the_table_has_a_status() {
        assert!(functions().count() > 1700);
        assert!(functions().all(|f| ["done", "accepted", "refused"].contains(&f.status)));
        let lines = FUNCTIONS.lines().filter(|line| !line.starts_with('#')).count();
        assert_eq!(functions().count(), lines);
    }

    #[test]
    fn functions_are_sorted_by_what_the_library_does() {
        let names = ["rocksdb_open", "rocksdb_options_set_use_fsync", "rocksdb_x"];
        let names: BTreeSet<String> = names.into_iter().map(str::to_string).collect();
        let report = Report::of(&names);
        assert_eq!(report.done[0].name, "rocksdb_open");
        assert_eq!(report.accepted[0].name, "rocksdb_options_set_use_fsync");
        assert_eq!(report.unknown, ["rocksdb_x"]);
        let text = report.to_text();
        assert!(text.starts_with("1 done, 1 accepted without effect, 0 refused\n"), "{text}");
        assert!(text.ends_with("not a function of RocksDB 11.8: rocksdb_x\n"), "{text}");
    }
}
