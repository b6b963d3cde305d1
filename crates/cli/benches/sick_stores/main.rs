//! Stores made sick on purpose: the doctor must name each, its advice is applied, and one figure is
//! measured before and after. `make sick` runs it and prints a table. Arguments: parts of findings'
//! names (default: all; one in no name is an error); ROUNDS (5) is the number of new stores of each kind.
//!
//! Invariants:
//! 1. The advice is applied as the doctor prints it: an option, or a command of `esker`.
//! 2. A state that the doctor does not name, advice that differs between rounds, and advice for a healthy
//!    store end the program with an error. A figure does not: the table shows it.

mod cases;
#[path = "../common/mod.rs"]
mod common;
mod patient;
mod slow;

use std::process::ExitCode;

use cases::{CASES, Case, healthy};
use common::{ended, middle, number};
use patient::Patient;

/// Figures of one round: with the sick store, and after the advice was applied.
struct Round {
    sick: f64,
    cured: f64,
    advice: String,
}

fn round(case: &Case) -> Round {
    let mut patient = Patient::new(case.options, case.slow_device);
    (case.fill)(&mut patient);
    let sick = (case.work)(&mut patient);
    let advice = patient.advice(case.finding, case.live);
    patient.apply(&advice);
    let cured = (case.work)(&mut patient);
    let advice = advice.replace(&patient.path().display().to_string(), "DB");
    Round { sick, cured, advice }
}

/// A number with two decimals, from 10 on with one, from 100 on with none.
fn short(value: f64) -> String {
    match value {
        value if value >= 100.0 => format!("{value:.0}"),
        value if value >= 10.0 => format!("{value:.1}"),
        value => format!("{value:.2}"),
    }
}

fn row(case: &Case, rounds: &[Round]) {
    for round in rounds {
        assert_eq!(round.advice, rounds[0].advice, "{}: the advice differs", case.finding);
    }
    let better = |round: &Round| match case.more_is_better {
        true => round.cured / round.sick,
        false => round.sick / round.cured,
    };
    let of = |figure: fn(&Round) -> f64| middle(rounds.iter().map(figure).collect());
    let (sick, ..) = of(|round| round.sick);
    let (cured, ..) = of(|round| round.cured);
    let (ratio, least, most) = middle(rounds.iter().map(better).collect());
    println!(
        "| {} | {} | {} | `{}` | {} | {} | {} ({}..{}) |",
        case.finding,
        case.made_by,
        case.figure,
        rounds[0].advice,
        short(sick),
        short(cured),
        short(ratio),
        short(least),
        short(most)
    );
}

/// Runs the cases whose names have a part that is `wanted`, or all.
fn run(wanted: &[String]) -> Result<(), String> {
    let rounds = number("ROUNDS", 5, 1)?;
    if let Some(part) = wanted.iter().find(|part| !CASES.iter().any(|case| case.is_named(part))) {
        let mut names: Vec<&str> = CASES.iter().map(|case| case.finding).collect();
        names.dedup();
        return Err(format!("No finding has `{part}` in its name: {}.", names.join(", ")));
    }
    healthy();
    eprintln!("sick stores: a healthy store gets no advice");
    println!("| finding | made by | figure | advice | sick | cured | times better (least..most) |");
    println!("|---|---|---|---|---:|---:|---:|");
    let is_wanted =
        |case: &&Case| wanted.is_empty() || wanted.iter().any(|part| case.is_named(part));
    for case in CASES.iter().filter(is_wanted) {
        let rounds: Vec<Round> = (0..rounds).map(|_| round(case)).collect();
        row(case, &rounds);
    }
    Ok(())
}

fn main() -> ExitCode {
    // `cargo bench` adds `--bench`.
    let wanted: Vec<String> = std::env::args().skip(1).filter(|arg| arg != "--bench").collect();
    ended("sick stores", run(&wanted))
}
