//! The same random operations under many option sets. Each set is compared with the oracle, and
//! therefore with the other sets.
//!
//! Invariants: all sets get the same steps from the same seed. Only the store's internal
//! organization of the data differs.

use std::sync::Arc;

use esker::fs::MemFs;
use esker::{Options, Policy};
use parking_lot::Mutex;

use super::ledger::Ledger;
use super::script::{Step, Theme, options, script_of, with_rules};
use super::script_run::{Outcome, ScriptRun};
use super::tally::{Tally, Verdict, guarded, in_parallel};
use esker::fs::Fs;

/// Returns option sets: every policy with `each` choices of all other structures.
pub fn option_sets(each: u64) -> Vec<(String, Options)> {
    let mut sets = Vec::new();
    for policy in Policy::ALL {
        for number in 0..each {
            let theme = Theme::ALL[number as usize % Theme::ALL.len()];
            let name = format!("{policy}, option set {number}");
            sets.push((name, options(*policy, theme, number)));
        }
    }
    sets
}

/// Runs `steps` steps of a theme and a seed under every set.
pub fn run(sets: &[(String, Options)], theme: Theme, seed: u64, steps: usize, keys: u64) -> Tally {
    in_parallel(sets, |(name, options)| {
        let mut tally = Tally::default();
        let context = format!("{name}, seed {seed}");
        let fs = MemFs::new();
        let made = fs.create_dir(std::path::Path::new("/data"));
        if let Err(error) = made {
            tally.fail(Verdict::Lost, context, error.to_string());
            return tally;
        }
        let ledger = Arc::new(Mutex::new(Ledger::default()));
        let mut script_run = ScriptRun::new(fs.clone(), with_rules(options.clone()), ledger);
        let script = script_of(Policy::Fluid, theme, seed, steps, keys);
        for step in std::iter::once(&Step::Read).chain(&script.steps).chain([&Step::Read]) {
            // A file system in memory has no second process, and needs no second store.
            if matches!(step, Step::Kill | Step::Checkpoint) {
                continue;
            }
            tally.count("operations", 1);
            match guarded(|| script_run.step(step)) {
                Ok(Ok(Outcome::Done)) => continue,
                Ok(Ok(Outcome::Failed(error))) => {
                    tally.fail(Verdict::Lost, context.clone(), format!("{step:?}: {error}"));
                }
                Ok(Err(violation)) => {
                    tally.fail(
                        Verdict::Wrong,
                        context.clone(),
                        format!("{step:?}: {}", violation.0),
                    );
                }
                Err(panic) => tally.fail(Verdict::Panic, context.clone(), panic),
            }
            break;
        }
        let verified = script_run.db().and_then(|db| db.verify(&mut |_, _| {}).ok());
        if verified.is_some_and(|report| !report.is_whole()) {
            tally.fail(Verdict::Wrong, context.clone(), "verify reports damage");
        }
        if let Err(error) = script_run.close() {
            tally.fail(Verdict::Lost, context, format!("close: {error}"));
        }
        script_run.work.iter().for_each(|(what, n)| tally.count(what, *n));
        tally.count("option sets", 1);
        tally
    })
}
