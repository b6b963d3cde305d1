//! `esker merge`: merges one operand into the value of a key.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;
use esker::{Batch, Durability, ErrorKind, WriteOptions, built_in_merge_operator};
use serde_json::json;

use super::{bytes_of, print};
use crate::args::{Global, KeyspaceFlag};
use crate::failure::{Failure, Outcome};
use crate::store::{open, options};

const AFTER_HELP: &str = "\
Operators: add_i64, add_u64 (sums of decimal numbers), max, min (bytewise), append, `append(,)` \
(with a separator), set_union, `set_union(,)`, json_patch (RFC 7396). A store and each of its \
keyspaces keep one operator for ever: `default` that of its first merge, another keyspace the one \
that it was created with (`esker keyspace create --set merge_operator=NAME`).";

/// Arguments of `merge`.
#[derive(Args)]
#[command(after_help = AFTER_HELP)]
pub struct MergeArgs {
    /// Store directory; created if missing, unless --keyspace names a keyspace
    db: PathBuf,
    /// Key
    key: OsString,
    /// Merge operator, by its name
    operator: String,
    /// Operand
    #[arg(allow_hyphen_values = true)]
    operand: OsString,
    /// Sync the write before the close; the operand is durable in any case, because the command
    /// closes the store
    #[arg(long)]
    sync: bool,
    #[command(flatten)]
    keyspace: KeyspaceFlag,
}

/// Merges the operand.
pub fn run(args: &MergeArgs, global: &Global) -> Outcome {
    let form = global.form();
    let key = bytes_of(form, "key", &args.key)?;
    let operand = bytes_of(form, "operand", &args.operand)?;
    let name = args.operator.as_str();
    let operator = built_in_merge_operator(name).ok_or_else(|| {
        Failure::usage(format!("there is no built-in merge operator {name:?}; see `--help`"))
    })?;
    // Refuses the operand before a store is created for it.
    operator
        .check_operand(&operand)
        .map_err(|why| Failure::usage(format!("the operand: {why}")))?;
    let mut options = options(global)?;
    let is_default = !args.keyspace.is_other();
    if is_default {
        options.merge_operator = Some(operator);
    }
    let db = open(&args.db, options, global, is_default)?;
    let keyspace = args.keyspace.open(&db)?;
    let stored = keyspace.options().into_iter().find(|(option, _)| option == "merge_operator");
    let stored = stored.map(|(_, stored)| stored);
    if !is_default && stored.as_deref() != Some(name) {
        let found = stored.map_or("none".to_string(), |stored| format!("{stored:?}"));
        let message =
            format!("expected a keyspace with the merge operator {name:?}, found {found}");
        return Err(Failure::of(ErrorKind::Incompatible, message));
    }
    let mut batch = Batch::new();
    batch.merge_in(&keyspace, &key, &operand);
    let durability = args.sync.then_some(Durability::Sync);
    db.write_with(&batch, &WriteOptions::default().durability(durability))?;
    db.close()?;
    print(form, || json!({ "ok": true }), String::new)?;
    Ok(0)
}
