//! Stores made sick on purpose: the doctor must name each, its advice is applied, and one figure is
//! measured before and after. `make sick` runs it and prints a table. Arguments: parts of findings'
//! names (default: all); ROUNDS (5) is the number of new stores of each kind.
//!
//! Invariants:
//! 1. The advice is applied as the doctor prints it: an option, or a command of `esker`.
//! 2. A state that the doctor does not name, and advice for a healthy store, end the program with an
//!    error. A figure does not: the table shows it.

mod cases;
mod patient;
mod slow;

use cases::{CASES, Case, healthy};
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

fn middle(mut values: Vec<f64>) -> (f64, f64, f64) {
    values.sort_by(f64::total_cmp);
    (values[values.len() / 2], values[0], values[values.len() - 1])
}

/// A number with three significant digits.
fn short(value: f64) -> String {
    match value {
        value if value >= 1000.0 => format!("{value:.0}"),
        value if value >= 100.0 => format!("{value:.0}"),
        value if value >= 10.0 => format!("{value:.1}"),
        value => format!("{value:.2}"),
    }
}

fn row(case: &Case, rounds: &[Round]) {
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

fn main() {
    // `cargo bench` adds `--bench`.
    let wanted: Vec<String> = std::env::args().skip(1).filter(|arg| arg != "--bench").collect();
    let rounds = std::env::var("ROUNDS").ok().and_then(|text| text.parse().ok()).unwrap_or(5);
    healthy();
    eprintln!("sick stores: a healthy store gets no advice");
    println!("| finding | made by | figure | advice | sick | cured | times better (least..most) |");
    println!("|---|---|---|---|---:|---:|---:|");
    let is_wanted =
        |case: &&Case| wanted.is_empty() || wanted.iter().any(|part| case.finding.contains(part));
    for case in CASES.iter().filter(is_wanted) {
        let rounds: Vec<Round> = (0..rounds).map(|_| round(case)).collect();
        row(case, &rounds);
    }
}
