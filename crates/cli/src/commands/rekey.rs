//! `esker rekey`: another master key for an encrypted store.

use std::path::PathBuf;

use clap::Args;
use esker::Db;
use esker::encryption::KeyFile;
use serde_json::json;

use super::{counted, print};
use crate::args::Global;
use crate::failure::{Failure, Outcome};
use crate::store::{in_use, key};

/// Arguments of `rekey`.
#[derive(Args)]
pub struct RekeyArgs {
    /// Store directory. The store must not be open
    db: PathBuf,
    /// File with the new key: 64 hexadecimal digits, or 32 bytes
    #[arg(long, value_name = "FILE")]
    new_key_file: PathBuf,
}

/// Wraps the data keys of the store under the new key. `--key-file` has the present one.
pub fn run(args: &RekeyArgs, global: &Global) -> Outcome {
    let Some(present) = key() else {
        let message = "the present key is needed: --key-file FILE, ESKER_KEY_FILE or ESKER_KEY";
        return Err(Failure::usage(message));
    };
    let new = KeyFile::new(&args.new_key_file);
    let made = Db::rekey(&args.db, &*present, &new).map_err(in_use)?;
    print(
        global.form(),
        || {
            json!({
                "ok": true, "from": made.from, "to": made.to, "data_keys": made.data_keys,
                "removed_data_keys": made.removed_data_keys,
            })
        },
        || {
            format!(
                "rekey: {} replaces {}; {} in use by existing files, {} removed; `esker compact` \
                 rewrites the tables under the new data key",
                made.to,
                made.from,
                counted(made.data_keys, "data key"),
                made.removed_data_keys,
            )
        },
    )?;
    Ok(0)
}
