//! Runs and judges many histories, and prints the results as rows of a table.
//!
//! Invariants: a history with a finding, without a planted bug, is kept for inspection. A history
//! that cannot be judged is a finding.

use std::path::{Path, PathBuf};
use std::time::Instant;

use super::isolation::{self, Verdict};
use super::linear::Judge;
use super::plan::{Plant, Subject};
use super::record::Outcome;
use super::runs::{Ran, Run};
use crate::campaign::tally::{self, Tally};

/// The heading of the table.
pub const HEADING: &str = "\
| judged | operations | faults | found | seconds |
|---|---|---|---|---:|";

/// Many histories of one subject.
#[derive(Debug, Clone)]
pub struct Proof {
    /// The directory for stores and histories.
    pub dir: PathBuf,
    /// The program that is started as children.
    pub program: PathBuf,
    /// The seed of the first history. Each later one has the next seed.
    pub seed: u64,
    /// Number of operations of all histories.
    pub operations: u64,
    /// Number of operations of one history.
    pub size: u64,
    /// Number of children of a history before its last one.
    pub children: u64,
    /// The judge of plain operations, if there is one.
    pub porcupine: Option<Judge>,
}

impl Proof {
    /// Runs and judges all histories of a subject.
    pub fn histories(&self, subject: Subject) -> Tally {
        let began = Instant::now();
        let seeds: Vec<u64> =
            (self.seed..self.seed + self.operations.div_ceil(self.size)).collect();
        let mut tally =
            tally::in_parallel(&seeds, |seed| self.history(subject, Plant::None, *seed));
        tally.elapsed = began.elapsed();
        tally
    }

    /// Runs histories with a planted bug until the judge finds it, at most `tries`. The bug was
    /// found if the tally has a failure that begins with [`Plant::findings`].
    pub fn plant(&self, plant: Plant, tries: u64) -> Tally {
        let began = Instant::now();
        let mut tally = Tally::default();
        for seed in self.seed..self.seed + tries {
            tally.merge(self.history(plant.subject(), plant, seed));
            if is_found(plant, &tally) {
                break;
            }
        }
        tally.elapsed = began.elapsed();
        tally
    }

    fn history(&self, subject: Subject, plant: Plant, seed: u64) -> Tally {
        let mut tally = Tally::default();
        let name = format!("proof-{}-{}-{seed}", subject.name(), plant.name());
        let dir = self.dir.join(name);
        let run = Run {
            dir: dir.clone(),
            program: self.program.clone(),
            subject,
            plant,
            seed,
            operations: self.size,
            children: self.children,
        };
        let judged = run.run().and_then(|ran| Ok((self.judge(subject, &ran, &dir)?, ran)));
        match judged {
            Ok((verdict, ran)) => {
                count(&mut tally, &ran);
                if !verdict.findings.is_empty() {
                    let found = verdict.findings.join(", ");
                    tally.fail(tally::Verdict::Wrong, found, verdict.explanation);
                }
            }
            Err(error) => {
                tally.fail(tally::Verdict::Lost, "the history was not judged", error.to_string());
            }
        }
        if tally.failures.is_empty() || plant != Plant::None {
            let _ = std::fs::remove_dir_all(&dir);
        } else {
            eprintln!("kept for inspection: {}", dir.display());
        }
        tally
    }

    fn judge(&self, subject: Subject, ran: &Ran, dir: &Path) -> std::io::Result<Verdict> {
        if subject != Subject::Plain {
            return isolation::judge(&ran.history, subject, &dir.join("history.jsonl"));
        }
        let missing = || std::io::Error::other("there is no judge of plain operations");
        let porcupine = self.porcupine.as_ref().ok_or_else(missing)?;
        porcupine.judge(&ran.history, &dir.join("history.txt"))
    }
}

fn count(tally: &mut Tally, ran: &Ran) {
    tally.count("histories", 1);
    tally.count("operations", ran.history.events.len() as u64);
    tally.count("done", ran.history.count(Outcome::Done));
    tally.count("refused", ran.history.count(Outcome::Failed));
    tally.count("unknown", ran.history.count(Outcome::Unknown));
    tally.count("kills", ran.kills);
    tally.count("failed syncs", ran.failed_syncs);
    tally.count("openings", ran.openings);
}

/// Returns whether the judge has found the planted bug.
pub fn is_found(plant: Plant, tally: &Tally) -> bool {
    let names = tally.failures.iter().flat_map(|failure| failure.context.split(", "));
    names.into_iter().any(|name| plant.findings().iter().any(|finding| name.starts_with(finding)))
}

/// Returns a row of the table. `found` is the cell of the findings.
pub fn row(name: &str, unit: &str, tally: &Tally, found: &str) -> String {
    let of = |what| tally.of(what);
    format!(
        "| {name} | {} {unit} in {} histories: {} done, {} refused, {} unknown | {} kills, {} \
         failed syncs, {} openings | {found} | {:.1} |",
        of("operations"),
        of("histories"),
        of("done"),
        of("refused"),
        of("unknown"),
        of("kills"),
        of("failed syncs"),
        of("openings"),
        tally.elapsed.as_secs_f64(),
    )
}

/// Returns the cell of the findings without a planted bug: the number of histories with one.
pub fn findings(tally: &Tally) -> String {
    match tally.failures.len() {
        0 => "nothing".to_string(),
        number => format!("{number}: {}", tally.failures[0].context),
    }
}

/// Returns the cell of a planted bug.
pub fn findings_of(plant: Plant, tally: &Tally) -> String {
    let names: Vec<&str> = tally.failures.iter().map(|failure| failure.context.as_str()).collect();
    let names = names.join("; ");
    match is_found(plant, tally) {
        true => format!("{names}, in history {}", tally.of("histories")),
        false if names.is_empty() => "NOT FOUND".to_string(),
        false => format!("NOT FOUND, but {names}"),
    }
}
