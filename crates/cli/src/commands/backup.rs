//! `esker backup`: adds a backup to a backup directory, lists its backups, or prunes them.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use clap::{Args, Subcommand};
use esker::Db;
use esker::backup::{BackupInfo, BackupOptions};
use esker::internals::human_bytes;
use esker_lab::record::env::utc_text;
use serde_json::{Value, json};

use super::{counted, print, stdout};
use crate::args::{Global, JsonFlag};
use crate::failure::{Failure, Outcome, print_line};
use crate::store::{file_system, open_writer};

/// Arguments of `backup`.
#[derive(Args)]
#[command(subcommand_negates_reqs = true)]
pub struct BackupArgs {
    #[command(subcommand)]
    what: Option<What>,
    /// Store directory (write ./list or ./prune for a store of that name)
    #[arg(required = true)]
    db: Option<PathBuf>,
    /// Backup directory; created if missing
    #[arg(required = true)]
    dir: Option<PathBuf>,
    /// Take over the directory from the store it belongs to; existing backups remain
    #[arg(long)]
    take_over: bool,
}

#[derive(Subcommand)]
enum What {
    /// List the backups in a directory, oldest first: number, time, tables and bytes, store
    List {
        /// Backup directory
        dir: PathBuf,
        #[command(flatten)]
        json: JsonFlag,
    },
    /// Remove the oldest backups; the remaining ones stay complete
    Prune {
        /// Backup directory
        dir: PathBuf,
        /// Number of backups to keep, at least 1
        #[arg(long, value_name = "N")]
        keep: usize,
        #[command(flatten)]
        json: JsonFlag,
    },
}

/// Creates a backup, lists the backups, or prunes them.
pub fn run(args: &BackupArgs, global: &Global) -> Outcome {
    if args.what.is_some() && (args.take_over || args.db.is_some() || !global.set.is_empty()) {
        return Err(Failure::usage(
            "list and prune take only a backup directory, without a store, --take-over or --set; \
             for a store named list or prune, write ./list or ./prune",
        ));
    }
    match (&args.what, &args.db, &args.dir) {
        (Some(What::List { dir, json }), ..) => list(dir, &global.with(json)),
        (Some(What::Prune { dir, keep, json }), ..) => prune(dir, *keep, &global.with(json)),
        (None, Some(db), Some(dir)) => back_up(db, dir, args.take_over, global),
        _ => {
            Err(Failure::usage("backup needs a store and a backup directory, or `list` or `prune`"))
        }
    }
}

/// Copies the tables that the previous backup does not have, and reads the new backup back in full.
fn back_up(store: &Path, dir: &Path, take_over: bool, global: &Global) -> Outcome {
    let db = open_writer(store, global, false)?;
    let made = db.backup_with(dir, &BackupOptions::default().take_over(take_over))?;
    db.close()?;
    let path = made.path.display().to_string();
    print(
        global.form(),
        || {
            json!({
                "ok": true, "backup": made.number, "path": path,
                "copied_files": made.copied_files, "copied_bytes": made.copied_bytes,
                "linked_files": made.linked_files, "linked_bytes": made.linked_bytes,
            })
        },
        || {
            format!(
                "backup {}: {} copied ({}), {} shared with the previous backup ({}): {path}",
                made.number,
                counted(made.copied_files, "table"),
                human_bytes(made.copied_bytes),
                made.linked_files,
                human_bytes(made.linked_bytes),
            )
        },
    )?;
    Ok(0)
}

fn list(dir: &Path, global: &Global) -> Outcome {
    let backups = Db::backups_on(file_system(), dir)?;
    let mut out = stdout();
    for info in &backups {
        let line = if global.json { to_json(info).to_string() } else { to_text(info) };
        writeln!(out, "{line}")?;
    }
    out.flush()?;
    if backups.is_empty() && !global.json {
        print_line(&format!("esker: {}: the directory holds no backup", dir.display()));
    }
    Ok(0)
}

fn created_unix_ms(info: &BackupInfo) -> Option<u64> {
    let since = info.created?.duration_since(UNIX_EPOCH).ok()?;
    u64::try_from(since.as_millis()).ok()
}

fn to_json(info: &BackupInfo) -> Value {
    json!({
        "backup": info.number,
        "path": info.path.display().to_string(),
        "created_unix_ms": created_unix_ms(info),
        "store_id": info.store_id.map(|id| format!("{id:016x}")),
        "store_path": info.store_path.as_ref().map(|path| path.display().to_string()),
        "tables": info.tables,
        "table_bytes": info.table_bytes,
        "problem": info.problem.as_ref().map(ToString::to_string),
    })
}

fn to_text(info: &BackupInfo) -> String {
    let created = created_unix_ms(info)
        .map_or("at an unknown time".into(), |ms| format!("{} UTC", utc_text(ms / 1000)));
    let of = match (&info.problem, &info.store_path, info.store_id) {
        (Some(problem), ..) => problem.to_string(),
        (_, Some(path), Some(id)) => format!("of {} ({id:016x})", path.display()),
        _ => "of an unknown store".into(),
    };
    let (tables, bytes) = (counted(info.tables, "table"), human_bytes(info.table_bytes));
    format!("{}\t{created}\t{tables}, {bytes}\t{of}", info.number)
}

fn prune(dir: &Path, keep: usize, global: &Global) -> Outcome {
    let pruned = Db::prune_backups_on(file_system(), dir, keep)?;
    print(
        global.form(),
        || json!({ "ok": true, "removed": pruned.removed, "kept": pruned.kept }),
        || {
            let removed = counted(pruned.removed.len() as u64, "backup");
            format!("{removed} removed, {} kept", pruned.kept.len())
        },
    )?;
    Ok(0)
}
