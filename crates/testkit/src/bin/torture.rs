//! Processes that are killed, with an oracle outside.
//!
//! `torture kills [--count N] [--seed N] [--dir DIR]` ends N victims with SIGKILL (T10). `torture
//! power [--count N] …` cuts N file systems in files off from power (T11; for root). `torture soak
//! [--minutes N] …` lets victims live longer and adds faults (T17). Each campaign prints one row on
//! standard output and failures on standard error. The exit code is 1 if a promise was broken. All
//! campaigns start `torture victim`.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use esker_testkit::campaign::tally::{Tally, Verdict};
use esker_testkit::torture::kills::Kills;
use esker_testkit::torture::power;
use esker_testkit::torture::victim::{self, EndMode, VictimParams};

/// The command line's options.
struct Words {
    count: u64,
    seed: u64,
    minutes: f64,
    dir: PathBuf,
}

fn words(mut rest: impl Iterator<Item = String>) -> Result<Words, String> {
    let mut words = Words { count: 300, seed: 1, minutes: 1.0, dir: std::env::temp_dir() };
    while let Some(word) = rest.next() {
        let value = rest.next().ok_or_else(|| format!("{word} needs a value"))?;
        let number = || value.parse::<u64>().map_err(|_| format!("{word} needs a number"));
        match word.as_str() {
            "--count" => words.count = number()?,
            "--seed" => words.seed = number()?,
            "--minutes" => words.minutes = value.parse().map_err(|_| "--minutes needs a number")?,
            "--dir" => words.dir = PathBuf::from(value),
            other => return Err(format!("unknown argument {other}")),
        }
    }
    Ok(words)
}

fn params(mut rest: impl Iterator<Item = String>) -> Option<VictimParams> {
    let (base, slots) = (PathBuf::from(rest.next()?), PathBuf::from(rest.next()?));
    let (seed, round) = (rest.next()?.parse().ok()?, rest.next()?.parse().ok()?);
    let end_mode = rest.next()?;
    let end_mode = EndMode::ALL.into_iter().find(|w| w.name() == end_mode)?;
    Some(VictimParams { base, slots, seed, round, end_mode })
}

/// Prints a row of the table and the victims' places of death.
fn print(name: &str, tally: &Tally) -> ExitCode {
    eprint!("{}", tally.report());
    for (what, count) in &tally.counts {
        eprintln!("{count:>12} {what}");
    }
    let of = |what| tally.of(what);
    let failed = |verdict| tally.failed(verdict);
    let ends = match of("cuts") {
        0 => format!("{} kills", of("kills")),
        cuts => format!("{cuts} cuts, which lost {} unsynced writes,", of("gone")),
    };
    let faults = match of("faults") {
        0 => String::new(),
        faults => format!(", {faults} failed file operations"),
    };
    println!(
        "| {name} | {ends} of {} stores; {} opens with a comparison; {} checkpoints and backups; \
         {} operations{faults} | {} | {} | {} | {:.1} |",
        of("stores"),
        of("judged"),
        of("copies"),
        of("operations"),
        failed(Verdict::Lost),
        failed(Verdict::Wrong),
        failed(Verdict::Panic),
        tally.elapsed.as_secs_f64(),
    );
    ExitCode::from(u8::from(!tally.failures.is_empty()))
}

fn run(command: &str, words: Words) -> Result<ExitCode, String> {
    let dir = words.dir.join(format!("esker-torture-{}", std::process::id()));
    std::fs::create_dir_all(&dir).map_err(|e| format!("{}: {e}", dir.display()))?;
    let seed = words.seed;
    let code = match command {
        "kills" => {
            let kills = Kills {
                dir: dir.clone(),
                seed,
                rounds: 100,
                end_modes: [6, 5, 1],
                lifetime_ms_max: 40,
            };
            print("T10: SIGKILL, with the oracle in another process", &kills.run(words.count, None))
        }
        "soak" => {
            let kills = Kills {
                dir: dir.clone(),
                seed,
                rounds: 40,
                end_modes: [3, 2, 7],
                lifetime_ms_max: 3_000,
            };
            let until = Instant::now() + Duration::from_secs_f64(words.minutes * 60.0);
            print("T17: everything at once", &kills.run(u64::MAX, Some(until)))
        }
        "power" => power::KINDS.iter().fold(ExitCode::SUCCESS, |before, kind| {
            let name = format!("T11: power cuts of {}", kind.name);
            let code = print(&name, &power::cuts(&dir, *kind, seed, words.count));
            if code == ExitCode::SUCCESS { before } else { code }
        }),
        other => return Err(format!("unknown command {other}")),
    };
    // Only an empty directory is removed. A store with a broken promise is kept.
    let _ = std::fs::remove_dir(&dir);
    Ok(code)
}

fn main() -> ExitCode {
    let mut rest = std::env::args().skip(1);
    let command = rest.next().unwrap_or_default();
    if command == "victim" {
        match params(rest) {
            Some(params) => victim::run(params),
            None => eprintln!("usage: torture victim BASE SLOTS SEED ROUND outside|inside|faults"),
        }
        return ExitCode::from(2);
    }
    let done = words(rest).and_then(|words| run(&command, words));
    done.unwrap_or_else(|message| {
        eprintln!("{message}; usage: torture kills|power|soak [--count N] [--minutes N] [--seed N] [--dir DIR]");
        ExitCode::from(2)
    })
}
