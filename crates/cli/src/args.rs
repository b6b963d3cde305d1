//! The command line: the commands, and the flags that many of them share.
//!
//! What stays true: a command offers a shared flag only if it heeds it.

use std::ffi::OsString;

use clap::{Args, Parser, Subcommand};

use crate::bytes::{Encoding, Form};
use crate::commands::{
    backup, bench, checkpoint, compact, completions, delete, destroy, dump, get, import, lab, load,
    man, options, put, repair, restore, scan, shell, stats, verify,
};

const AFTER_HELP: &str = "\
Keys and values are bytes. On the command line and in what is printed, \\xNN stands for the byte \
with that hexadecimal number and \\\\ for a backslash; --hex and --base64 change both. A command's \
help lists which of --json, --hex, --base64 and --set it takes; they may also stand before it.

Exit codes: 0 done, 1 key not found, 2 wrong usage or input, 3 corrupt data, 4 input and output \
(also: no store there, store locked, of another format, read-only), 130 interrupted. Under --json \
an error is an object on stderr, whose kind says which of them it is.";

/// An embedded, durable, ordered key-value store.
#[derive(Parser)]
#[command(name = "esker", version = env!("ESKER_VERSION"), about, after_help = AFTER_HELP, max_term_width = 100)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What the flags that many commands share say; one that a command does not offer is off.
#[derive(Debug, Clone, Default)]
pub struct Global {
    /// Print JSON, one object a line; errors too, on stderr.
    pub json: bool,
    encoding: Option<Encoding>,
    /// Options of the store, as `NAME=VALUE`.
    pub set: Vec<String>,
}

impl Global {
    /// How keys and values are written and read.
    pub fn form(&self) -> Form {
        Form { encoding: self.encoding.unwrap_or(Encoding::Text), json: self.json }
    }

    /// With JSON also where a command within this one asks for it.
    pub fn with(&self, json: &JsonFlag) -> Global {
        Global { json: self.json || json.json, ..self.clone() }
    }
}

#[derive(Args)]
pub struct JsonFlag {
    /// Print JSON, one object a line; errors too, on stderr
    #[arg(long)]
    pub json: bool,
}

#[derive(Args)]
pub struct SetFlag {
    /// Set an option of the store by its name or an alias (see `esker options`); repeatable
    #[arg(long = "set", value_name = "NAME=VALUE")]
    pub set: Vec<String>,
}

#[derive(Args)]
struct Spelling {
    /// Keys and values are hexadecimal, on the command line and in the output
    #[arg(long, conflicts_with = "base64")]
    hex: bool,
    /// Keys and values are base64, on the command line and in the output
    #[arg(long)]
    base64: bool,
}

impl Spelling {
    fn encoding(&self) -> Option<Encoding> {
        match (self.hex, self.base64) {
            (true, _) => Some(Encoding::Hex),
            (_, true) => Some(Encoding::Base64),
            _ => None,
        }
    }
}

/// A command that opens a store and takes or shows keys.
#[derive(Args)]
pub struct Keyed<A: Args> {
    #[command(flatten)]
    pub args: A,
    #[command(flatten)]
    json: JsonFlag,
    #[command(flatten)]
    spelling: Spelling,
    #[command(flatten)]
    set: SetFlag,
}

impl<A: Args> Keyed<A> {
    pub fn global(&self) -> Global {
        let encoding = self.spelling.encoding();
        Global { json: self.json.json, encoding, set: self.set.set.clone() }
    }
}

/// A command that opens a store, or looks at its options, and shows no keys.
#[derive(Args)]
pub struct Opening<A: Args> {
    #[command(flatten)]
    pub args: A,
    #[command(flatten)]
    json: JsonFlag,
    #[command(flatten)]
    set: SetFlag,
}

impl<A: Args> Opening<A> {
    pub fn global(&self) -> Global {
        Global { json: self.json.json, encoding: None, set: self.set.set.clone() }
    }
}

/// A command that opens no store.
#[derive(Args)]
pub struct Telling<A: Args> {
    #[command(flatten)]
    pub args: A,
    #[command(flatten)]
    json: JsonFlag,
}

impl<A: Args> Telling<A> {
    pub fn global(&self) -> Global {
        Global { json: self.json.json, ..Global::default() }
    }
}

/// The arguments with flags that stand before the command moved behind it, where they belong:
/// `esker --json get DB KEY` is `esker get --json DB KEY`.
pub fn in_order(args: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let mut args = args.into_iter();
    let mut out: Vec<OsString> = args.next().into_iter().collect();
    let mut moved = Vec::new();
    let mut rest = Vec::new();
    while let Some(arg) = args.next() {
        match arg.to_str() {
            Some("--json" | "--hex" | "--base64") => moved.push(arg),
            Some("--set") => {
                moved.push(arg);
                moved.extend(args.next());
            }
            Some(text) if text.starts_with("--set=") => moved.push(arg),
            _ => {
                rest.push(arg);
                break;
            }
        }
    }
    rest.extend(args);
    // A command of the lab's has its name in two words.
    let words = if rest.first().is_some_and(|word| word == "lab") { 2 } else { 1 };
    let behind = rest.split_off(words.min(rest.len()));
    out.extend(rest);
    out.extend(moved);
    out.extend(behind);
    out
}

/// What to do.
#[derive(Subcommand)]
pub enum Command {
    /// Print the value of a key
    Get(Keyed<get::GetArgs>),
    /// Set a key to a value; makes the store if there is none
    Put(Keyed<put::PutArgs>),
    /// Delete a key, or a range of keys
    Delete(Keyed<delete::DeleteArgs>),
    /// Print keys and values in order, separated by a tab
    Scan(Keyed<scan::ScanArgs>),
    /// Read pairs from CSV, TSV, JSON lines or a dump into the store
    Load(Keyed<load::LoadArgs>),
    /// Copy another engine's store into a new one and compare the two
    Import(Opening<import::ImportArgs>),
    /// Write every pair as text that `load` reads, ending with a mark that says it is whole
    Dump(Keyed<dump::DumpArgs>),
    /// Give commands one after another, by hand or through a pipe
    Shell(Keyed<shell::ShellArgs>),
    /// Print what the store consists of and has done since it was opened
    Stats(Opening<stats::StatsArgs>),
    /// Read every byte of the store and check it
    Verify(Opening<verify::VerifyArgs>),
    /// Rebuild a damaged store from what its files still prove
    Repair(Opening<repair::RepairArgs>),
    /// Merge the store's files, dropping what is deleted or overwritten
    Compact(Keyed<compact::CompactArgs>),
    /// Add a backup to a directory of them, list them, or remove the oldest
    Backup(Opening<backup::BackupArgs>),
    /// Make a store of a backup
    Restore(Opening<restore::RestoreArgs>),
    /// Make a second store of the same content by hard links
    Checkpoint(Opening<checkpoint::CheckpointArgs>),
    /// Remove a store; asks first
    Destroy(Telling<destroy::DestroyArgs>),
    /// Measure Esker beside other stores, with db_bench's flags
    Bench(Opening<bench::BenchArgs>),
    /// Repeat whole experiments over several stores, with records, tables and pages
    Lab(lab::LabArgs),
    /// List the options of a store
    Options(Opening<options::OptionsArgs>),
    /// Print completions for a shell
    Completions(completions::CompletionsArgs),
    /// Print the manual page of a command
    Man(man::ManArgs),
}
