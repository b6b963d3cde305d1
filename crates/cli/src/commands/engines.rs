//! `esker lab engines`: which engines can be measured here, and how to get the others.

use std::io::Write;

use clap::{Args, Subcommand};
use comfy_table::{Table, presets};
use esker_peers::install;
use serde_json::json;

use super::stdout;
use crate::args::JsonFlag;
use crate::failure::{Outcome, tell};

/// Arguments of `lab engines`.
#[derive(Args)]
pub struct EnginesArgs {
    #[command(subcommand)]
    what: Option<What>,
    #[command(flatten)]
    json: JsonFlag,
}

impl EnginesArgs {
    /// Whether JSON was asked for.
    pub fn json(&self) -> bool {
        self.json.json
    }
}

#[derive(Subcommand)]
enum What {
    /// Fetch an engine's newest release, check it, and use it from then on
    Install {
        /// The engine; `rocksdb` is the one that can be fetched
        name: String,
        /// Another release than the one known
        #[arg(long)]
        version: Option<String>,
    },
}

/// Lists or installs: the list and the library's path to stdout, talk to stderr.
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
                    "own_process": engine.apart,
                    "how": engine.how,
                });
                writeln!(out, "{line}")?;
            }
        }
        None => {
            let mut table = Table::new();
            table.load_style(presets::NOTHING);
            table.set_header(["engine", "state", "what, or why not", "licence", "how to get it"]);
            for engine in install::list() {
                let state = match (&engine.missing, engine.apart) {
                    (Some(_), _) => "missing",
                    (None, true) => "ready, in a process of its own",
                    (None, false) => "ready",
                };
                let what = engine.description.or(engine.missing).unwrap_or_default();
                table.add_row([engine.name, state, &what, engine.licence, engine.how]);
            }
            writeln!(out, "{table}")?;
        }
        Some(What::Install { name, version }) => {
            let mut talk = std::io::stderr();
            let path = install::install(name, version.as_deref(), &mut talk)?;
            tell(args.json(), "it is used from now on for the engine `rocksdb`");
            let path = path.display().to_string();
            let line = if args.json() { json!({ "path": path }).to_string() } else { path };
            writeln!(out, "{line}")?;
        }
    }
    out.flush()?;
    Ok(0)
}
