//! The command line: the commands, and the flags that every command takes.

use clap::{ArgAction, Args, Parser, Subcommand};

use crate::bytes::{Encoding, Form};
use crate::commands::{
    backup, bench, checkpoint, compact, completions, delete, destroy, dump, get, import, lab, load,
    options, put, repair, restore, scan, shell, stats, verify,
};

const AFTER_HELP: &str = "\
Keys and values are bytes. On the command line and in what is printed, \\xNN stands for the byte \
with that hexadecimal number and \\\\ for a backslash; --hex and --base64 change both.

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
    /// Flags of every command.
    #[command(flatten)]
    pub global: Global,
}

/// Flags of every command.
#[derive(Args)]
pub struct Global {
    /// Print JSON, one object a line; errors too, on stderr
    #[arg(long, global = true, action = ArgAction::SetTrue)]
    pub json: bool,
    /// Keys and values are hexadecimal, on the command line and in the output
    #[arg(long, global = true, conflicts_with = "base64")]
    hex: bool,
    /// Keys and values are base64, on the command line and in the output
    #[arg(long, global = true)]
    base64: bool,
    /// Set an option of the store by its name or an alias (see `esker options`); repeatable
    #[arg(long = "set", global = true, value_name = "NAME=VALUE")]
    pub set: Vec<String>,
}

impl Global {
    /// How keys and values are written and read.
    pub fn form(&self) -> Form {
        let encoding = match (self.hex, self.base64) {
            (true, _) => Encoding::Hex,
            (_, true) => Encoding::Base64,
            _ => Encoding::Text,
        };
        Form { encoding, json: self.json }
    }
}

/// What to do.
#[derive(Subcommand)]
pub enum Command {
    /// Print the value of a key
    Get(get::GetArgs),
    /// Set a key to a value; makes the store if there is none
    Put(put::PutArgs),
    /// Delete a key, or a range of keys
    Delete(delete::DeleteArgs),
    /// Print keys and values in order, separated by a tab
    Scan(scan::ScanArgs),
    /// Read pairs from CSV, TSV, JSON lines or a dump into the store
    Load(load::LoadArgs),
    /// Copy another engine's store into a new one and compare the two
    Import(import::ImportArgs),
    /// Write every pair as text that `load` reads, ending with a mark that says it is whole
    Dump(dump::DumpArgs),
    /// Give commands one after another, by hand or through a pipe
    Shell(shell::ShellArgs),
    /// Print what the store consists of and has done since it was opened
    Stats(stats::StatsArgs),
    /// Read every byte of the store and check it
    Verify(verify::VerifyArgs),
    /// Rebuild a damaged store from what its files still prove
    Repair(repair::RepairArgs),
    /// Merge the store's files, dropping what is deleted or overwritten
    Compact(compact::CompactArgs),
    /// Add a backup to a directory of them, list them, or remove the oldest
    Backup(backup::BackupArgs),
    /// Make a store of a backup
    Restore(restore::RestoreArgs),
    /// Make a second store of the same content by hard links
    Checkpoint(checkpoint::CheckpointArgs),
    /// Remove a store; asks first
    Destroy(destroy::DestroyArgs),
    /// Measure Esker beside other stores, with db_bench's flags
    Bench(bench::BenchArgs),
    /// Repeat whole experiments over several stores, with records, tables and pages
    Lab(lab::LabArgs),
    /// List the options of a store
    Options(options::OptionsArgs),
    /// Print completions for a shell
    Completions(completions::CompletionsArgs),
}
