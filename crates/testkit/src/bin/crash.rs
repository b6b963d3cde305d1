//! Runs every campaign, prints one table, and exits with 1 if a promise was broken.
//!
//! `crash [--quick | --long] [--seed N] [--document NOTE]`: with a note (date, commit, machine) the
//! output is the document that contains the table. Progress and failures go to standard error.

use std::alloc::System;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use cap::Cap;
use esker::Policy;
use esker_testkit::campaign::corruption::{self, Store};
use esker_testkit::campaign::cuts::{self, Effort};
use esker_testkit::campaign::faults::{self, Cause};
use esker_testkit::campaign::model;
use esker_testkit::campaign::repair_failures;
use esker_testkit::campaign::script::{Script, Step, Theme, script};
use esker_testkit::campaign::script_run::PlantedBug;
use esker_testkit::campaign::tally::{Tally, Verdict, in_parallel};
use esker_testkit::campaign::task_faults::{self, InitialState, Task};
use esker_testkit::crash::Flaws;

/// Memory limit for damaged files, in bytes, including the campaign's own memory.
const DAMAGE_BYTES_MAX: usize = 256 << 20;

#[global_allocator]
static MEMORY: Cap<System> = Cap::new(System, usize::MAX);

/// The extent of a run.
struct Size {
    seeds: u64,
    steps: usize,
    nest_one_in: u64,
    fault_scripts: u64,
    task_states: u64,
    repair_stores: u64,
    bit_stores: u64,
    mutations: u64,
    model_steps: usize,
    /// Steps of a script whose operations fail, of a task's initial state, of a store whose repair
    /// fails, of one whose repair is cut, and of one whose bits flip.
    fault_steps: usize,
    task_steps: usize,
    repair_fault_steps: usize,
    repair_cut_steps: usize,
    bit_steps: usize,
    /// About the number of killed repairs per store whose next repair meets every fault.
    interrupted: usize,
}

/// A part of [`SHORT`], for CI, where the test `campaigns` runs as much again.
const QUICK: Size = Size {
    steps: 16,
    nest_one_in: 400,
    repair_stores: 3,
    fault_scripts: 3,
    task_states: 1,
    bit_stores: 1,
    mutations: 4_000,
    model_steps: 2_000,
    fault_steps: 20,
    task_steps: 18,
    repair_fault_steps: 12,
    repair_cut_steps: 35,
    bit_steps: 10,
    interrupted: 2,
    ..SHORT
};

const SHORT: Size = Size {
    seeds: 1,
    steps: 130,
    nest_one_in: 200,
    fault_scripts: 5,
    task_states: 5,
    repair_stores: 10,
    bit_stores: 2,
    mutations: 24_000,
    model_steps: 13_000,
    fault_steps: 80,
    task_steps: 60,
    repair_fault_steps: 40,
    repair_cut_steps: 60,
    bit_steps: 30,
    interrupted: 6,
};

const LONG: Size = Size {
    seeds: 12,
    steps: 250,
    nest_one_in: 100,
    fault_scripts: 40,
    task_states: 100,
    repair_stores: 100,
    bit_stores: 10,
    mutations: 200_000,
    model_steps: 130_000,
    ..SHORT
};

struct Row {
    name: &'static str,
    cases: String,
    tally: Tally,
}

/// Runs one campaign and records its time.
fn timed(name: &'static str, cases: fn(&Tally) -> String, run: impl FnOnce() -> Tally) -> Row {
    let began = Instant::now();
    let mut tally = run();
    tally.elapsed = began.elapsed();
    eprintln!("{name}: {:.1} s, {} broken promises", seconds(tally.elapsed), tally.failures.len());
    eprint!("{}", tally.report());
    Row { name, cases: cases(&tally), tally }
}

fn seconds(time: Duration) -> f64 {
    time.as_secs_f64()
}

fn nth_script(seed: u64, steps: usize) -> Script {
    let themes = Theme::ALL.len() as u64;
    let policy = Policy::ALL[(seed % Policy::ALL.len() as u64) as usize];
    let script = script(policy, Theme::ALL[(seed % themes) as usize], seed, steps);
    // An encrypted store has several times as many file operations as another one.
    if seed % 23 == 4 { script.into_encrypted() } else { script }
}

fn cut(size: &Size, seed: u64) -> Tally {
    let per_seed = (Policy::ALL.len() * Theme::ALL.len()) as u64;
    let seeds = seed..seed + size.seeds * per_seed;
    let scripts: Vec<Script> = seeds.map(|seed| nth_script(seed, size.steps)).collect();
    let (nest_one_in, flaws) = (size.nest_one_in, Flaws::default());
    let effort = Effort { seeds: 1, nest_one_in, depth: 3, flaws, bug: PlantedBug::None };
    in_parallel(&scripts, |script| cuts::run(script, &effort))
}

fn fault(size: &Size, seed: u64, causes: &[Cause]) -> Tally {
    let mut all = Tally::default();
    for seed in seed..seed + size.fault_scripts {
        let mut script = nth_script(seed, size.fault_steps);
        script.steps.retain(|step| !matches!(step, Step::Kill));
        all.merge(faults::run(&script, causes, |fs| fs));
    }
    all
}

/// Runs maintenance tasks on stores of every policy and theme and on their states after cuts, and
/// repairs of damaged stores and after killed repairs.
fn fault_tasks(size: &Size, seed: u64) -> Tally {
    let script_seeds = seed..seed + size.task_states;
    let run = |seed| {
        let script = nth_script(seed, size.task_steps);
        let mut all = task_faults::run(&InitialState::make(&script), &Task::ALL, |fs| fs);
        let cut = InitialState::after_cuts(&script, 12);
        all.merge(in_parallel(&cut, |state| task_faults::run(state, &[Task::Open], |fs| fs)));
        all
    };
    let damaged = stores(size.task_states, seed, size.repair_fault_steps);
    let all = script_seeds.map(run).fold(Tally::default(), merged);
    let repair = |store: &Store| repair_failures::faults(store, size.interrupted);
    damaged.iter().map(repair).fold(all, merged)
}

/// Makes stores of every policy and theme.
fn stores(count: u64, seed: u64, steps: usize) -> Vec<Store> {
    let make = |n: u64| {
        let policy = Policy::ALL[((n / 2) % Policy::ALL.len() as u64) as usize];
        let theme = Theme::ALL[((n / 2) % Theme::ALL.len() as u64) as usize];
        Store::make(policy, theme, seed + n / 2, steps, n.is_multiple_of(2))
    };
    (0..count).map(make).collect()
}

/// Makes stores of every policy and theme, and an encrypted one that was closed.
fn stores_and_encrypted(count: u64, seed: u64, steps: usize) -> Vec<Store> {
    let mut stores = stores(count, seed, steps);
    // It has several times as many file operations as another store, and longer files.
    let script = nth_script(seed, steps / 4);
    let script = if script.encrypted { script } else { script.into_encrypted() };
    stores.push(Store::of(script, true));
    stores
}

/// Runs cuts during the repair of stores of every policy and theme.
fn repair_cuts(size: &Size, seed: u64) -> Tally {
    let (nest_one_in, flaws) = (size.nest_one_in, Flaws::default());
    let (seeds, bug) = (size.seeds.min(3), PlantedBug::None);
    let effort = Effort { seeds, nest_one_in, depth: 3, flaws, bug };
    let run = |store: &Store| repair_failures::cuts(store, &effort);
    stores(size.repair_stores, seed, size.repair_cut_steps)
        .iter()
        .map(run)
        .fold(Tally::default(), merged)
}

/// Runs a damage campaign with bounded memory. Beyond the bound the program dies.
fn bounded(run: impl FnOnce() -> Tally) -> Tally {
    let limited = MEMORY.set_limit(MEMORY.allocated() + DAMAGE_BYTES_MAX);
    let mut tally = run();
    let freed = MEMORY.set_limit(usize::MAX);
    if limited.is_err() || freed.is_err() {
        tally.fail(Verdict::Panic, "memory limit", "cannot set the memory limit of the campaign");
    }
    tally
}

fn rows(size: &Size, seed: u64) -> Vec<Row> {
    let sets = model::option_sets(16);
    let mut rows = cut_rows(size, seed);
    rows.extend(fault_rows(size, seed));
    rows.extend(damage_rows(size, seed));
    rows.push(timed(
        "T6, T7: the same operations under many option sets",
        |t| {
            format!(
                "{} operations under {} sets, {} merges of operands, {} expired and {} filtered pairs",
                t.of("operations"),
                t.of("option sets") / 2,
                t.of("merged operands"),
                t.of("expired pairs"),
                t.of("filtered pairs")
            )
        },
        || {
            let mut tally = model::run(&sets, Theme::Mixed, seed, size.model_steps, 1_500);
            tally.merge(model::run(&sets, Theme::Rules, seed, size.model_steps / 2, 1_500));
            tally
        },
    ));
    rows
}

fn cut_rows(size: &Size, seed: u64) -> Vec<Row> {
    vec![
        timed(
            "T1, T2: power cut after every operation, and during recovery",
            |t| {
                format!(
                    "{} images of {} cuts, {} of cuts during the recovery, {} of cuts during the \
                     second recovery; {} batches and {} transactions over several keyspaces, {} \
                     changes of keyspaces, {} value files, {} forks",
                    t.of("images"),
                    t.of("cuts"),
                    t.of("nested images"),
                    t.of("images of depth 3"),
                    t.of("batches over several keyspaces"),
                    t.of("transactions over several keyspaces"),
                    t.of("changes of keyspaces"),
                    t.of("value files"),
                    t.of("forks"),
                )
            },
            || cut(size, seed),
        ),
        timed(
            "T1: power cut after every operation of a repair, and of the next repair",
            |t| {
                format!(
                    "{} images of {} operations, {} of cuts during the next repair, {} of cuts \
                     during the repair after that",
                    t.of("images"),
                    t.of("operations cut"),
                    t.of("nested images"),
                    t.of("images of depth 3"),
                )
            },
            || repair_cuts(size, seed),
        ),
    ]
}

fn fault_rows(size: &Size, seed: u64) -> Vec<Row> {
    let [fault_causes @ .., sync_drops] = Cause::ALL;
    let positions: fn(&Tally) -> String = |t| {
        format!("{} positions, {} failed operations", t.of("positions"), t.of("failed operations"))
    };
    vec![
        timed("T3: every operation fails, once and permanently", positions, || {
            fault(size, seed, &fault_causes)
        }),
        timed("T3: every operation of an open, read, copy or repair fails", positions, || {
            fault_tasks(size, seed)
        }),
        timed("T4: every sync fails and drops its pages", positions, || {
            fault(size, seed, &[sync_drops])
        }),
    ]
}

fn damage_rows(size: &Size, seed: u64) -> Vec<Row> {
    let damage: fn(&Tally) -> String = |t| {
        format!(
            "{} mutations and {} with forged checksums: {} detected, {} harmless, {} unproven \
             tails",
            t.of("mutations"),
            t.of("forged"),
            t.of("detected"),
            t.of("harmless"),
            t.of("unproven tail"),
        )
    };
    let repairs: fn(&Tally) -> String = |t| {
        format!(
            "{} repairs: {} restored all data, {} restored part of the data, {} returned an error",
            t.of("repaired completely") + t.of("repaired partly") + t.of("refused"),
            t.of("repaired completely"),
            t.of("repaired partly"),
            t.of("refused"),
        )
    };
    let all = |stores: Vec<Store>, run: &dyn Fn(&Store) -> Tally| {
        bounded(|| stores.iter().map(run).fold(Tally::default(), merged))
    };
    vec![
        timed("T5: every bit flip in small stores", damage, || {
            all(stores(size.bit_stores, seed, size.bit_steps), &corruption::every_bit)
        }),
        timed("T5: random damage to larger stores", damage, || {
            let times = size.mutations * 3 / 20;
            all(stores_and_encrypted(10, seed, 150), &|store| {
                corruption::random(store, seed, times)
            })
        }),
        timed("T5: a repair after random damage", repairs, || {
            let times = size.mutations / 20;
            all(stores_and_encrypted(10, seed, 80), &|store| {
                corruption::repaired(store, seed, times)
            })
        }),
    ]
}

fn merged(mut all: Tally, one: Tally) -> Tally {
    all.merge(one);
    all
}

fn print(rows: &[Row], note: Option<&str>) {
    if let Some(note) = note {
        println!("# Results of the campaigns\n");
        println!("Made by `make crash RECORD=docs/reliability.md`: {note}.");
        println!("The promises and the test behind each: [durability](durability.md).\n");
    }
    println!("| test | cases | lost | wrong | panics | seconds |");
    println!("|---|---|---:|---:|---:|---:|");
    for row in rows {
        let failed = |verdict| row.tally.failed(verdict);
        println!(
            "| {} | {} | {} | {} | {} | {:.1} |",
            row.name,
            row.cases,
            failed(Verdict::Lost),
            failed(Verdict::Wrong),
            failed(Verdict::Panic),
            seconds(row.tally.elapsed),
        );
    }
}

fn main() -> ExitCode {
    let (mut size, mut seed, mut note) = (&SHORT, 1, None);
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        match word.as_str() {
            "--quick" => size = &QUICK,
            "--long" => size = &LONG,
            "--seed" => match words.next().and_then(|n| n.parse().ok()) {
                Some(number) => seed = number,
                None => return usage("--seed needs a number"),
            },
            "--document" => note = words.next(),
            other => return usage(&format!("unknown argument {other}")),
        }
    }
    // A panic in a store is caught and counted. Its message is in the report.
    std::panic::set_hook(Box::new(|_| {}));
    let rows = rows(size, seed);
    print(&rows, note.as_deref());
    let broken: usize = rows.iter().map(|row| row.tally.failures.len()).sum();
    ExitCode::from(u8::from(broken > 0))
}

fn usage(message: &str) -> ExitCode {
    eprintln!("{message}; usage: crash [--quick | --long] [--seed N] [--document NOTE]");
    ExitCode::from(2)
}
