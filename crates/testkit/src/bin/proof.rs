//! Histories of concurrent operations that outside judges check.
//!
//! `proof transactions` judges transactions under snapshot isolation and under serializability with
//! the crate `adya`. `proof plain` judges plain puts, gets, deletes and removals with the Go module
//! `porcupine`. `proof plants` plants bugs, which the judges must find. `proof all` does everything
//! and needs Go. Each prints rows of a table on standard output, and findings on standard error.
//! The exit code is 1 for a finding without a planted bug, or a planted bug that was not found.
//!
//! Options: `--operations N` of each level, `--plain-operations N`, `--size N` and `--plain-size N`
//! operations of one history, `--children N` of one history, `--seed N`, `--dir DIR`, `--only BUG`.
//! All start `proof child`.

use std::path::PathBuf;
use std::process::ExitCode;

use esker_testkit::campaign::tally::Tally;
use esker_testkit::proof::child;
use esker_testkit::proof::linear::{Judge, Missing};
use esker_testkit::proof::plan::{ChildParams, Plant, Subject};
use esker_testkit::proof::table::{self, Proof};

/// Maximum number of histories in which a planted bug is searched.
const TRIES: u64 = 6;

/// The command line's options.
struct Words {
    operations: u64,
    plain_operations: u64,
    size: u64,
    plain_size: u64,
    children: u64,
    seed: u64,
    /// The one planted bug to run, instead of all.
    only: Option<Plant>,
    dir: PathBuf,
}

fn words(mut rest: impl Iterator<Item = String>) -> Result<Words, String> {
    let mut words = Words {
        operations: 8_000,
        plain_operations: 60_000,
        size: 4_000,
        plain_size: 30_000,
        children: 5,
        seed: 1,
        only: None,
        dir: std::env::temp_dir(),
    };
    while let Some(word) = rest.next() {
        let value = rest.next().ok_or_else(|| format!("{word} needs a value"))?;
        let number = || match value.parse::<u64>() {
            Ok(number) if number > 0 => Ok(number),
            _ => Err(format!("{word} needs a number above 0")),
        };
        match word.as_str() {
            "--operations" => words.operations = number()?,
            "--plain-operations" => words.plain_operations = number()?,
            "--size" => words.size = number()?,
            "--plain-size" => words.plain_size = number()?,
            "--children" => words.children = number()?,
            "--seed" => words.seed = number()?,
            "--only" => {
                let plant = Plant::BUGS.into_iter().find(|plant| plant.name() == value);
                words.only = Some(plant.ok_or_else(|| format!("there is no bug {value:?}"))?);
            }
            "--dir" => words.dir = PathBuf::from(value),
            other => return Err(format!("unknown argument {other}")),
        }
    }
    Ok(words)
}

/// The histories to run, and whether all is as it should be so far.
struct Runner {
    words: Words,
    dir: PathBuf,
    porcupine: Result<Judge, String>,
    fine: bool,
}

impl Runner {
    fn proof(&self, subject: Subject) -> Result<Proof, String> {
        let words = &self.words;
        let (operations, size) = match subject {
            Subject::Plain => (words.plain_operations, words.plain_size),
            Subject::Snapshot | Subject::Serializable => (words.operations, words.size),
        };
        Ok(Proof {
            dir: self.dir.clone(),
            program: std::env::current_exe().map_err(|error| error.to_string())?,
            seed: words.seed,
            operations,
            size,
            children: words.children,
            porcupine: self.porcupine.clone().ok(),
        })
    }

    /// Returns the name of the judge, or `None` after saying that it is skipped.
    fn judge(&self, subject: Subject, what: &str) -> Option<&'static str> {
        if subject != Subject::Plain {
            return Some("adya");
        }
        match &self.porcupine {
            Ok(_) => Some("porcupine"),
            Err(why) => {
                println!("porcupine: skipped, {why} ({what})");
                None
            }
        }
    }

    fn subject(&mut self, subject: Subject) -> Result<(), String> {
        let (name, unit) = match subject {
            Subject::Snapshot => ("snapshot isolation", "transactions"),
            Subject::Serializable => ("serializability", "transactions"),
            Subject::Plain => ("linearizability of single keys", "operations"),
        };
        let Some(judge) = self.judge(subject, name) else { return Ok(()) };
        let tally = self.proof(subject)?.histories(subject);
        self.show(&tally, 1);
        self.fine &= tally.failures.is_empty();
        let found = table::findings(&tally);
        println!("{}", table::row(&format!("{judge}: {name}"), unit, &tally, &found));
        Ok(())
    }

    fn plant(&mut self, plant: Plant) -> Result<(), String> {
        let subject = plant.subject();
        let name = format!("planted: {}", plant.name());
        let Some(judge) = self.judge(subject, &name) else { return Ok(()) };
        let tally = self.proof(subject)?.plant(plant, TRIES);
        let is_found = table::is_found(plant, &tally);
        // The last history has the bug, or none has.
        self.show(&tally, if is_found { tally.failures.len() - 1 } else { 1 });
        self.fine &= is_found;
        let unit = if subject == Subject::Plain { "operations" } else { "transactions" };
        let found = table::findings_of(plant, &tally);
        println!("{}", table::row(&format!("{judge}: {name}"), unit, &tally, &found));
        Ok(())
    }

    /// Prints the first findings.
    fn show(&self, tally: &Tally, most: usize) {
        for failure in tally.failures.iter().take(most) {
            eprintln!("{}: {}", failure.context, failure.message);
        }
    }

    fn run(&mut self, command: &str) -> Result<(), String> {
        let all = command == "all";
        if all {
            println!("{}", table::HEADING);
        }
        if all || command == "transactions" {
            self.subject(Subject::Snapshot)?;
            self.subject(Subject::Serializable)?;
        }
        if all || command == "plain" {
            self.subject(Subject::Plain)?;
        }
        if all || command == "plants" {
            let only = self.words.only;
            let mut plants =
                Plant::BUGS.into_iter().filter(|plant| only.is_none_or(|o| o == *plant));
            plants.try_for_each(|plant| self.plant(plant))?;
        }
        Ok(())
    }
}

fn run(command: &str, words: Words) -> Result<ExitCode, String> {
    if !["all", "transactions", "plain", "plants"].contains(&command) {
        return Err(format!("unknown command {command:?}"));
    }
    let porcupine = match command {
        "transactions" => Err("no plain operation is judged".to_string()),
        _ => match Judge::build() {
            Ok(judge) => Ok(judge),
            Err(Missing::Unavailable(why)) => Err(why),
            Err(Missing::Broken(error)) => return Err(error.to_string()),
        },
    };
    if let (Err(why), "all") = (&porcupine, command) {
        return Err(format!("porcupine: {why}; the whole proof needs it"));
    }
    let dir = words.dir.join(format!("esker-proof-{}", std::process::id()));
    std::fs::create_dir_all(&dir).map_err(|error| format!("{}: {error}", dir.display()))?;
    let mut runner = Runner { words, dir: dir.clone(), porcupine, fine: true };
    runner.run(command)?;
    // Only an empty directory is removed. A history with a finding is kept.
    let _ = std::fs::remove_dir(&dir);
    Ok(ExitCode::from(u8::from(!runner.fine)))
}

fn main() -> ExitCode {
    let mut rest = std::env::args().skip(1);
    let command = rest.next().unwrap_or_default();
    if command == "child" {
        let dir = rest.next().map(PathBuf::from);
        let words: Vec<String> = rest.collect();
        match dir.and_then(|dir| ChildParams::from_words(dir, &words)) {
            Some(params) => child::run(params),
            None => eprintln!("usage: proof child DIR SUBJECT PLANT END and six numbers"),
        }
        return ExitCode::from(2);
    }
    let done = words(rest).and_then(|words| run(&command, words));
    done.unwrap_or_else(|message| {
        eprintln!(
            "{message}\nusage: proof all|transactions|plain|plants [--operations N] \
             [--plain-operations N] [--size N] [--plain-size N] [--children N] [--seed N] [--dir DIR] \
             [--only BUG]"
        );
        ExitCode::from(2)
    })
}
