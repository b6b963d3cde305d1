//! `esker upgrade`: a newer format version for a store.

use std::path::PathBuf;

use clap::Args;
use esker::Options;
use serde_json::json;

use super::print;
use crate::args::Global;
use crate::failure::Outcome;
use crate::store::open_writer;

/// Arguments of `upgrade`.
#[derive(Args)]
pub struct UpgradeArgs {
    /// Store directory
    db: PathBuf,
    /// Format version [default: the newest]
    #[arg(long, value_name = "VERSION")]
    to: Option<u32>,
}

/// Raises the format version, unless the store has it already.
pub fn run(args: &UpgradeArgs, global: &Global) -> Outcome {
    let newest = u32::try_from(Options::default().format_version).unwrap_or(u32::MAX);
    let to = args.to.unwrap_or(newest);
    let db = open_writer(&args.db, global, false)?;
    let from = db.metrics().format_version;
    db.upgrade_format(to)?;
    db.close()?;
    print(
        global.form(),
        || json!({ "ok": true, "from": from, "to": to }),
        || match from == u64::from(to) {
            true => format!("upgrade: the store has format version {to} already"),
            false => format!(
                "upgrade: format version {from} became {to}; releases that do not know version {to} \
                 refuse the store from now on"
            ),
        },
    )?;
    Ok(0)
}
