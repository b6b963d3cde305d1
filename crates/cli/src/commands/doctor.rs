//! `esker doctor`: names what is wrong with a store, by numbers, and the change to make.

use std::fmt::Write as _;
use std::path::PathBuf;

use clap::Args;
use serde_json::{Value, json};

use super::{counted, print};
use crate::args::Global;
use crate::doctor::evidence::collect;
use crate::doctor::rules::{Finding, findings};
use crate::failure::{CORRUPTION, Failure, NOT_FOUND, Outcome};
use crate::progress::{Count, Progress};
use crate::store::open_reader;

const AFTER_HELP: &str = "\
Without --live the doctor judges what is on disk: damage, tombstones, space, runs, and the write \
stalls in LOG. With --live it also judges the counters of the process that has the store open for \
writing: stalls, filters, the cache, the memtables, snapshots and the policy. It changes nothing.

Exit codes: 0 no advice, 1 advice, 3 damage.";

/// Arguments of `doctor`.
#[derive(Args)]
#[command(after_help = AFTER_HELP)]
pub struct DoctorArgs {
    /// Store directory
    db: PathBuf,
    /// Judge also the counters of the process that has the store open for writing
    #[arg(long)]
    live: bool,
    /// Do not read every byte of the store to look for damage
    #[arg(long)]
    quick: bool,
}

/// Prints the findings; exit code 0 without one, 1 with advice, 3 with damage.
pub fn run(args: &DoctorArgs, global: &Global) -> Outcome {
    let db = match open_reader(&args.db, global) {
        Err(failure) if failure.code() == CORRUPTION => return damaged(args, global, &failure),
        opened => opened?,
    };
    let mut progress = Progress::new("doctor", Some(0), Count::Bytes);
    let mut step = |done, total| progress.set_of(done, total);
    let verify: Option<&mut dyn FnMut(u64, u64)> = if args.quick { None } else { Some(&mut step) };
    let evidence = collect(&db, args.live, verify)?;
    drop(progress);
    report(&findings(&evidence), args, global)
}

/// Reports a store that cannot be opened because of damage.
fn damaged(args: &DoctorArgs, global: &Global, failure: &Failure) -> Outcome {
    let evidence = crate::doctor::evidence::Evidence {
        path: args.db.display().to_string(),
        problems: vec![failure.message()],
        ..Default::default()
    };
    report(&findings(&evidence), args, global)
}

fn report(findings: &[Finding], args: &DoctorArgs, global: &Global) -> Outcome {
    print(
        global.form(),
        || json!({ "findings": findings.iter().map(to_json).collect::<Vec<Value>>() }),
        || match findings {
            [] => format!("{}: no advice", args.db.display()),
            findings => {
                let texts: Vec<String> = findings.iter().map(to_text).collect();
                format!("{}\n{}", texts.join("\n"), counted(findings.len() as u64, "finding"))
            }
        },
    )?;
    Ok(match findings {
        [] => 0,
        findings if findings.iter().any(|finding| finding.is_damage) => CORRUPTION,
        _ => NOT_FOUND,
    })
}

fn to_text(finding: &Finding) -> String {
    let mut text = format!("{}: {}\n", finding.name, finding.text);
    for line in &finding.evidence {
        let _ = writeln!(text, "  {line}");
    }
    let _ = writeln!(text, "  advice: {}", finding.advice);
    let _ = writeln!(text, "  brings: {}; {}", finding.expected, finding.undo);
    text
}

fn to_json(finding: &Finding) -> Value {
    json!({
        "name": finding.name, "damage": finding.is_damage, "text": finding.text,
        "evidence": finding.evidence, "advice": finding.advice, "expected": finding.expected,
        "undo": finding.undo,
    })
}
