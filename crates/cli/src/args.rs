//! The command line: the commands, and the flags shared by many commands.
//!
//! Invariant: a command rejects a shared flag that has no effect on it. `backup list` and
//! `backup prune` show `--set`, because `backup` takes it, and reject it with a message.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use esker::internals::DEFAULT_KEYSPACE;
use esker::{Db, Keyspace};
use esker_lab::tune::workload::Sizes;

use crate::bytes::{Encoding, Form};
use crate::commands::{
    apply, backup, bench, changes, checkpoint, compact, completions, delete, destroy, diff, doctor,
    dump, follow, fork, get, import, ingest, keyspace, lab, load, man, merge, options, put, rekey,
    repair, restore, rocksdb_report, scan, shell, slot, stats, top, trace, tune, upgrade, verify,
};
use crate::failure::Failure;
use crate::keyspaces::{find, name_of};
use crate::store::split_all;

const AFTER_HELP: &str = "\
Keys and values are bytes. In arguments and output, \\xNN is the byte with the hexadecimal number \
NN, and \\\\ is a backslash; --hex and --base64 select another encoding. The help of each command \
lists which of --json, --hex, --base64 and --set it accepts; these flags may also precede \
the command.

A store has the keyspace `default` and those made by `esker keyspace create`. Commands that read \
or write keys use `default`, or the keyspace that --keyspace names. Names are text with the same \
escapes as keys.

An encrypted store opens with --key-file FILE, or with the environment variable ESKER_KEY_FILE or \
ESKER_KEY. With a key, new stores are encrypted. `openssl rand -hex 32 > FILE` makes a key.

Exit codes: 0 success, 1 key not found, or stores differ (`diff`), 2 wrong usage or input, 3 corrupt data, 4 input or output \
error (also: missing store, locked store, other format, read-only store), 130 interrupted. With \
--json, an error is an object on stderr, and its kind names the error.";

/// An embedded, durable, ordered key-value store.
#[derive(Parser)]
#[command(name = "esker", version = env!("ESKER_VERSION"), about, after_help = AFTER_HELP, max_term_width = 100)]
pub struct Cli {
    /// File with the key of an encrypted store: 64 hexadecimal digits, or 32 bytes [default: the
    /// file that ESKER_KEY_FILE names, or the key in ESKER_KEY]
    #[arg(long, value_name = "FILE", global = true)]
    pub key_file: Option<PathBuf>,
    /// Command to run.
    #[command(subcommand)]
    pub command: Command,
}

/// Values of the shared flags. A flag that a command does not offer is off.
#[derive(Debug, Clone, Default)]
pub struct Global {
    /// Print JSON, one object per line; also for errors, on stderr.
    pub json: bool,
    encoding: Option<Encoding>,
    /// Store options, as `NAME=VALUE`.
    pub set: Vec<String>,
}

impl Global {
    /// Returns the format of keys and values in input and output.
    pub fn form(&self) -> Form {
        Form { encoding: self.encoding.unwrap_or(Encoding::Text), json: self.json }
    }

    /// Returns these flags, with JSON also enabled if a subcommand's `--json` asks for it.
    pub fn with(&self, json: &JsonFlag) -> Global {
        Global { json: self.json || json.json, ..self.clone() }
    }
}

#[derive(Args)]
pub struct JsonFlag {
    /// Print JSON, one object per line; also for errors, on stderr
    #[arg(long)]
    pub json: bool,
}

#[derive(Args)]
pub struct SetFlag {
    /// Set a store option by its name or an alias (see `esker options`); repeatable
    #[arg(long = "set", value_name = "NAME=VALUE")]
    pub set: Vec<String>,
}

/// Sizes of the workloads that `tune` and `trace record` run.
#[derive(Args)]
pub struct SizeFlags {
    /// Records of core workloads and entries of db_bench's tasks
    #[arg(long, default_value = "100000", value_parser = clap::value_parser!(u32).range(1..))]
    pub records: u32,
    /// Operations of each run phase [default: as many as records]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    operations: Option<u32>,
    /// YCSB property for all workloads; repeatable
    #[arg(short = 'p', value_name = "NAME=VALUE")]
    properties: Vec<String>,
}

impl SizeFlags {
    /// Returns the operations of each run phase.
    pub fn operations(&self) -> u32 {
        self.operations.unwrap_or(self.records)
    }

    /// Returns the sizes of workloads whose share of reads moves by `robust_points`.
    pub fn sizes(&self, robust_points: Option<f64>) -> Result<Sizes, Failure> {
        Ok(Sizes {
            records: u64::from(self.records),
            operations: self.operations.map(u64::from),
            properties: split_all("-p", &self.properties)?,
            robust_points,
        })
    }
}

#[derive(Args)]
pub struct KeyspaceFlag {
    /// Keyspace to use instead of `default`; it must exist (see `esker keyspace list`)
    #[arg(long, value_name = "NAME")]
    keyspace: Option<OsString>,
}

impl KeyspaceFlag {
    /// Returns whether the flag names a keyspace other than the default one.
    pub fn is_other(&self) -> bool {
        self.keyspace.as_ref().is_some_and(|name| name != DEFAULT_KEYSPACE)
    }

    /// Returns whether the flag was given.
    pub fn is_given(&self) -> bool {
        self.keyspace.is_some()
    }

    /// Returns the keyspace of the store.
    ///
    /// # Errors
    /// There is no such keyspace.
    pub fn open(&self, db: &Db) -> Result<Keyspace, Failure> {
        let name = self.keyspace.as_deref().map(name_of).transpose()?;
        find(db, name.as_deref().unwrap_or(DEFAULT_KEYSPACE))
    }
}

#[derive(Args)]
struct Spelling {
    /// Read and print keys and values in hexadecimal
    #[arg(long, conflicts_with = "base64")]
    hex: bool,
    /// Read and print keys and values in base64
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

/// Arguments of a command that opens a store and reads or prints keys.
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

/// Arguments of a command that opens a store, or reads its options, and prints no keys.
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

/// Arguments of a command that opens no store.
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

/// Moves shared flags that precede the command to after it:
/// `esker --json get DB KEY` becomes `esker get --json DB KEY`.
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
            // This one is every command's.
            Some("--key-file") => {
                out.push(arg);
                out.extend(args.next());
            }
            Some(text) if text.starts_with("--key-file=") => out.push(arg),
            _ => {
                rest.push(arg);
                break;
            }
        }
    }
    rest.extend(args);
    // The name of such a command is two words.
    let pairs = ["lab", "trace", "keyspace", "slot"];
    let is_pair = rest.first().is_some_and(|word| pairs.iter().any(|pair| word == pair));
    let words = if is_pair { 2 } else { 1 };
    let behind = rest.split_off(words.min(rest.len()));
    out.extend(rest);
    out.extend(moved);
    out.extend(behind);
    out
}

/// Command to run.
#[derive(Subcommand)]
pub enum Command {
    /// Print the value of a key
    Get(Keyed<get::GetArgs>),
    /// Set a key to a value, creating the store if needed
    Put(Keyed<put::PutArgs>),
    /// Merge an operand into the value of a key, such as `esker merge DB visits add_i64 1`
    Merge(Keyed<merge::MergeArgs>),
    /// Delete a key or a range of keys
    Delete(Keyed<delete::DeleteArgs>),
    /// Print keys and values in key order, separated by a tab
    Scan(Keyed<scan::ScanArgs>),
    /// Load pairs from CSV, TSV, JSON lines or a dump
    Load(Keyed<load::LoadArgs>),
    /// Make table files that a SortedWriter wrote part of a store, all at once
    Ingest(Opening<ingest::IngestArgs>),
    /// Copy another engine's store into a new store and compare the two
    Import(Opening<import::ImportArgs>),
    /// Write the pairs of a store or of a key range as text that `load` reads; a final line proves
    /// completeness
    Dump(Keyed<dump::DumpArgs>),
    /// Run commands interactively or from a script
    Shell(Keyed<shell::ShellArgs>),
    /// List, create, drop or rename the keyspaces of a store
    Keyspace(keyspace::KeyspaceArgs),
    /// Write the committed batches of a store in order, as a stream for `apply` or as JSON
    Changes(Keyed<changes::ChangesArgs>),
    /// List, create, confirm or drop the slots of a store's change feed
    Slot(slot::SlotArgs),
    /// Apply a stream of changes from standard input to a store
    Apply(Opening<apply::ApplyArgs>),
    /// Show a store that another process writes, as it changes
    Follow(Keyed<follow::FollowArgs>),
    /// Print the store's layout and statistics
    Stats(Opening<stats::StatsArgs>),
    /// Show what running stores publish about their work, again and again
    Top(Telling<top::TopArgs>),
    /// Name what is wrong with a store, by numbers, and the change to make
    Doctor(Opening<doctor::DoctorArgs>),
    /// Read and verify every byte of the store
    Verify(Opening<verify::VerifyArgs>),
    /// Rebuild a damaged store from its intact data
    Repair(Opening<repair::RepairArgs>),
    /// Raise the format version of a store. It cannot be lowered, and releases that do not know the
    /// new version refuse the store
    Upgrade(Opening<upgrade::UpgradeArgs>),
    /// Change the master key of an encrypted store
    Rekey(Telling<rekey::RekeyArgs>),
    /// Compact the store, dropping deleted and overwritten data
    Compact(Keyed<compact::CompactArgs>),
    /// Add a backup to a backup directory, list its backups, or remove the oldest
    Backup(Opening<backup::BackupArgs>),
    /// Create a store from a backup
    Restore(Opening<restore::RestoreArgs>),
    /// Create a copy of the store with hard links
    Checkpoint(Opening<checkpoint::CheckpointArgs>),
    /// Create a writable branch of the store, with hard links
    Fork(Opening<fork::ForkArgs>),
    /// Print the pairs in which two stores differ; exit code 1 if they do
    Diff(Keyed<diff::DiffArgs>),
    /// Remove a store, after confirmation
    Destroy(Telling<destroy::DestroyArgs>),
    /// Benchmark Esker against other stores, with db_bench's flags
    Bench(Opening<bench::BenchArgs>),
    /// Run experiments over several stores, with records, tables and pages
    Lab(lab::LabArgs),
    /// Find the options of an engine that are fastest for workloads, and explain them
    Tune(Opening<tune::TuneArgs>),
    /// Record the operations of a workload, show a trace, or replay one
    Trace(trace::TraceArgs),
    /// List the store's options
    Options(Opening<options::OptionsArgs>),
    /// Show which of RocksDB's functions a program or a store uses, and which have no effect or fail
    /// on Esker
    RocksdbReport(Telling<rocksdb_report::RocksdbReportArgs>),
    /// Print shell completions
    Completions(completions::CompletionsArgs),
    /// Print a command's manual page
    Man(man::ManArgs),
}
