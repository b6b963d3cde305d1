//! `esker lab engines`: lists the engines available here, and how to get the others.

use std::io::Write;

use clap::{Args, Subcommand};
use comfy_table::{Table, presets};
use esker_peers::install;
use serde_json::json;

use super::stdout;
use crate::args::JsonFlag;
use crate::failure::{Outcome, print_note};

/// Arguments of `lab engines`.
#[derive(Args)]
pub struct EnginesArgs {
    #[command(subcommand)]
    what: Option<What>,
    #[command(flatten)]
    json: JsonFlag,
}

impl EnginesArgs {
    /// Returns whether `--json` was given.
    pub fn json(&self) -> bool {
        self.json.json
    }
}

#[derive(Subcommand)]
enum What {
    /// Install the pinned release of RocksDB; the highest installed version is used
    ///
    /// Maven checks the download. The SHA-256 is compared too, if it is known for the release.
    Install {
        /// Engine name; only `rocksdb` can be downloaded
        name: String,
        /// Release to install instead of the pinned one
        #[arg(long)]
        version: Option<String>,
    },
}

/// Lists or installs engines. The list and the library's path go to stdout, messages to stderr.
pub fn run(args: &EnginesArgs) -> Outcome {
    let mut out = stdout();
    match &args.what {
        None if args.json() => {
            for engine in install::list() {
                let line = json!({
                    "engine": engine.name,
                    "ready": engine.missing.is_none(),
                    "description": engine.description,
                    "missing": engine.missing,
                    "licence": engine.licence,
                    "own_process": engine.own_process,
                    "how": engine.how,
                });
                writeln!(out, "{line}")?;
            }
        }
        None => {
            let mut table = Table::new();
            table.load_style(presets::NOTHING);
            table.set_header([
                "engine",
                "state",
                "description or missing part",
                "licence",
                "installation",
            ]);
            for engine in install::list() {
                let state = match (&engine.missing, engine.own_process) {
                    (Some(_), _) => "missing",
                    (None, true) => "ready, in a separate process",
                    (None, false) => "ready",
                };
                let what = engine.description.or(engine.missing).unwrap_or_default();
                table.add_row([engine.name, state, &what, engine.licence, engine.how]);
            }
            writeln!(out, "{table}")?;
        }
        Some(What::Install { name, version }) => {
            let mut messages = std::io::stderr();
            let path = install::install(name, version.as_deref(), &mut messages)?;
            print_note(args.json(), "installed; `rocksdb` uses the highest installed version");
            let path = path.display().to_string();
            let line = if args.json() { json!({ "path": path }).to_string() } else { path };
            writeln!(out, "{line}")?;
        }
    }
    out.flush()?;
    Ok(0)
}
