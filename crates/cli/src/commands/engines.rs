//! `esker lab engines`: lists the engines available here, how to get the others, and what each
//! promises; and kills them to see what they keep.

use std::io::{IsTerminal, Write};
use std::path::PathBuf;

use clap::{Args, Subcommand};
use comfy_table::{Table, presets};
use esker_lab::error::LabError;
use esker_lab::run::progress::Progress;
use esker_lab::target::Durability;
use esker_peers::install::{self, Listed};
use esker_peers::kill::{self, Kept, Kills};
use serde_json::json;

use super::stdout;
use crate::args::JsonFlag;
use crate::failure::{Failure, Outcome, print_note};
use crate::interrupt;

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
        self.json.json || matches!(&self.what, Some(What::Kill(args)) if args.json.json)
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
    /// Kill processes that write, and count the keys that lost an acknowledged write
    ///
    /// A process writes pairs of 16 and 100 bytes over 20,000 keys, and is killed (SIGKILL) 20 to
    /// 400 ms after its first write. Another process opens the store and reads every key. The next
    /// process continues in the same store. A key has lost a write if its value is older than the last
    /// write to it that returned. The operating system keeps running, so this is no power cut. The
    /// exit code is not 0 if a store had wrong values or did not open.
    Kill(KillArgs),
    /// Write until killed; called only by `kill`
    #[command(hide = true)]
    KillWriter {
        engine: String,
        #[arg(value_parser = durability_named)]
        durability: Durability,
        dir: PathBuf,
        first: u64,
    },
    /// Read what a killed process left; called only by `kill`
    #[command(hide = true)]
    KillReader {
        engine: String,
        #[arg(value_parser = durability_named)]
        durability: Durability,
        dir: PathBuf,
    },
}

#[derive(Args)]
struct KillArgs {
    /// Engines, as NAME or NAME=PATH of a library [default: all installed ones with files]
    engines: Vec<String>,
    /// Number of kills of each engine
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..))]
    kills: u64,
    /// What each write must survive: `none`, `buffered` (a killed process) or `sync` (a power cut)
    #[arg(long, default_value = "buffered", value_name = "LEVEL", value_parser = durability_named)]
    durability: Durability,
    /// Seed of the moments of the kills
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Directory for the stores instead of a temporary one
    #[arg(long, value_name = "DIR")]
    db: Option<PathBuf>,
    #[command(flatten)]
    json: JsonFlag,
}

/// Lists, installs or kills engines. The list, the library's path and the counts go to stdout,
/// messages to stderr.
pub fn run(args: &EnginesArgs) -> Outcome {
    match &args.what {
        None => list(args.json())?,
        Some(What::Install { name, version }) => {
            let mut messages = std::io::stderr();
            let path = install::install(name, version.as_deref(), &mut messages)?;
            print_note(args.json(), "installed; `rocksdb` uses the highest installed version");
            let path = path.display().to_string();
            let line = if args.json() { json!({ "path": path }).to_string() } else { path };
            let mut out = stdout();
            writeln!(out, "{line}")?;
            out.flush()?;
        }
        Some(What::Kill(kill)) => kill_all(kill, args.json())?,
        Some(What::KillWriter { engine, durability, dir, first }) => {
            esker_lab::run::subprocess::end_with_parent();
            let mut out = std::io::stdout().lock();
            kill::write_until_killed(engine, dir, *first, *durability, &mut out)?;
        }
        Some(What::KillReader { engine, durability, dir }) => {
            esker_lab::run::subprocess::end_with_parent();
            kill::read_slots(engine, dir, *durability, &mut std::io::stdout().lock())?;
        }
    }
    Ok(0)
}

fn table(heads: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(heads);
    table
}

fn list(json: bool) -> Result<(), Failure> {
    let mut out = stdout();
    let engines = install::list();
    if json {
        for engine in engines {
            let line = json!({
                "engine": engine.name,
                "ready": engine.missing.is_none(),
                "description": engine.description,
                "missing": engine.missing,
                "licence": engine.licence,
                "own_process": engine.own_process,
                "how": engine.how,
                "lost_by_kill": engine.lost_by_kill,
                "lost_by_power_cut": engine.lost_by_power_cut,
                "checksums": engine.capabilities.map(|can| can.checksums),
                "not_offered": engine.not_offered(),
            });
            writeln!(out, "{line}")?;
        }
        return Ok(out.flush()?);
    }
    let heads = ["engine", "state", "description or missing part", "licence", "installation"];
    let mut state = table(&heads);
    let heads = ["engine", "lost by a kill", "lost by a power cut", "checksums", "not offered"];
    let mut promises = table(&heads);
    for engine in &engines {
        state.add_row(state_row(engine));
        let checksums = match engine.capabilities.map(|can| can.checksums) {
            Some(true) => "yes",
            Some(false) => "no",
            None => "",
        };
        let missing = engine.not_offered().join(", ");
        let lost = (engine.lost_by_kill, engine.lost_by_power_cut);
        promises.add_row([engine.name, lost.0, lost.1, checksums, &missing]);
    }
    writeln!(out, "{state}")?;
    writeln!(
        out,
        "\nWhat writes without a sync lose, as each engine's documentation says. `esker lab engines \
         kill` tests what a kill takes.\n\n{promises}"
    )?;
    Ok(out.flush()?)
}

fn state_row(engine: &Listed) -> [String; 5] {
    let state = match (&engine.missing, engine.own_process) {
        (Some(_), _) => "missing",
        (None, true) => "ready, in a separate process",
        (None, false) => "ready",
    };
    let what = engine.description.clone().or(engine.missing.clone()).unwrap_or_default();
    [engine.name.into(), state.into(), what, engine.licence.into(), engine.how.into()]
}

fn durability_named(name: &str) -> Result<Durability, &'static str> {
    Durability::parse(name).ok_or("a durability is none, buffered or sync")
}

/// Returns the installed engines that keep their data in files and have this durability.
fn able(durability: Durability) -> Vec<String> {
    let is_able = |engine: &Listed| kill::check(engine.name, durability).is_ok();
    let engines = install::list().into_iter().filter(is_able);
    engines.map(|engine| engine.name.to_string()).collect()
}

fn kill_all(args: &KillArgs, json: bool) -> Result<(), Failure> {
    let durability = args.durability;
    interrupt::exit_after(|| super::bench::remove_stores(std::process::id()));
    let temporary = std::env::temp_dir().join(format!("esker-bench-{}-kill", std::process::id()));
    let engines = if args.engines.is_empty() { able(durability) } else { args.engines.clone() };
    // All are known before the first one runs.
    args.engines.iter().try_for_each(|engine| kill::check(engine, durability))?;
    let kills = Kills {
        program: std::env::current_exe()?,
        dir: args.db.clone().unwrap_or_else(|| temporary.clone()),
        kills: args.kills,
        durability,
        seed: args.seed,
    };
    let done = kill_each(&engines, &kills, json);
    // A directory that is left behind holds temporary stores only.
    let _ = std::fs::remove_dir_all(&temporary);
    done
}

fn kill_each(engines: &[String], kills: &Kills, json: bool) -> Result<(), Failure> {
    let heads = [
        "engine",
        "kills",
        "acknowledged writes",
        "keys with a lost write",
        "kills with a loss",
        "keys with a wrong value",
        "failure",
    ];
    let mut rows = table(&heads);
    let mut out = stdout();
    let all = engines.len() as u64 * kills.kills;
    let progress = Progress::new(std::io::stderr().is_terminal() && !json, "kills", all);
    let (mut failure, mut broken) = (None, false);
    for engine in engines {
        let kept = match kill::run(engine, kills, &mut |_| progress.add(1)) {
            Ok(kept) => kept,
            Err(error) => {
                failure = Some(error);
                break;
            }
        };
        broken |= kept.failure.is_some() || kept.wrong_keys > 0;
        if json {
            writeln!(out, "{}", kept_line(engine, kills.durability, &kept))?;
            out.flush()?;
        }
        let (lost, wrong) = (kept.lost_keys, kept.wrong_keys);
        let counts = [kept.kills, kept.acknowledged, lost, kept.kills_with_loss, wrong];
        let mut row = vec![engine.clone()];
        row.extend(counts.map(|count| count.to_string()));
        row.push(kept.failure.unwrap_or_default());
        rows.add_row(row);
    }
    progress.finish();
    if !json {
        writeln!(out, "{rows}")?;
    }
    out.flush()?;
    match failure {
        Some(error) => Err(error.into()),
        None if broken => Err(LabError::engine("some stores broke; the rows say how").into()),
        None => Ok(()),
    }
}

fn kept_line(engine: &str, durability: Durability, kept: &Kept) -> serde_json::Value {
    json!({
        "engine": engine,
        "durability": durability.name(),
        "kills": kept.kills,
        "acknowledged": kept.acknowledged,
        "lost_keys": kept.lost_keys,
        "kills_with_loss": kept.kills_with_loss,
        "wrong_keys": kept.wrong_keys,
        "failure": kept.failure,
    })
}
