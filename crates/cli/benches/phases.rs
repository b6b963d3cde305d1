//! What does a store gain if each phase gets the setting that was the fastest in it? YCSB's Load, C, A, E
//! and Load again, in one store: with fixed settings of the split between memtable and cache and of the
//! policy, and with greedy ones: for each phase the setting that was the fastest in it. That is no upper
//! bound: what a phase leaves to the next is not considered. `make phases` runs it.
//!
//! Two first rounds measure the fixed settings, and their medians choose the greedy ones. ROUNDS (3)
//! further rounds measure all, each in a new store, and rotate their order. SIZE (400000) is the number of
//! records of 1,000 bytes. The last phase ends when the store is idle.
//!
//! Invariant: every read finds its record, and every scan a record.

mod common;

use std::ops::ControlFlow;
use std::process::ExitCode;
use std::time::Instant;

use common::{ended, middle, number};
use esker::{Db, Options};
use esker_lab::mix::generators::{ZIPFIAN_CONSTANT, Zipfian};
use esker_lab::mix::hash::fnv64;
use esker_lab::workload::rng::Rng;

const PHASES: [&str; 5] = ["load", "c", "a", "e", "load again"];
/// Memory of all memtables and the cache together, in MiB. A store has up to four memtables.
const MEMORY_MIB: u64 = 96;
const MEMTABLES_MIB: [u64; 3] = [2, 8, 20];
const POLICIES: [&str; 3] = ["fluid", "leveled", "lazy"];

/// A setting of the split and the policy.
#[derive(Clone, Copy, PartialEq)]
struct Setting {
    memtable_mib: u64,
    policy: &'static str,
}

impl Setting {
    fn all() -> Vec<Setting> {
        let with = |memtable_mib| POLICIES.map(|policy| Setting { memtable_mib, policy });
        MEMTABLES_MIB.into_iter().flat_map(with).collect()
    }

    fn values(self) -> [(&'static str, String); 3] {
        let cache = MEMORY_MIB - 4 * self.memtable_mib;
        [
            ("memtable_size_bytes", (self.memtable_mib << 20).to_string()),
            ("cache_size_bytes", (cache << 20).to_string()),
            ("policy", self.policy.to_string()),
        ]
    }

    fn name(self) -> String {
        format!("{} MiB, {}", self.memtable_mib, self.policy)
    }
}

/// A store, and the numbers that its operations come from.
struct Run {
    db: Db,
    rng: Rng,
    zipfian: Zipfian,
    records: u64,
    loaded: u64,
}

fn key(number: u64) -> String {
    format!("user{:020}", fnv64(number))
}

impl Run {
    fn load(&mut self) {
        for number in self.loaded..self.loaded + self.records {
            self.update(number);
        }
        self.loaded += self.records;
    }

    fn update(&mut self, number: u64) {
        // Half of the value compresses.
        let mut value = vec![b'x'; 1000];
        for chunk in value[..500].chunks_mut(8) {
            chunk.copy_from_slice(&self.rng.next_u64().to_le_bytes()[..chunk.len()]);
        }
        self.db.put(key(number), value).expect("puts");
    }

    /// A record of YCSB's scrambled zipfian, roughly: a rank's place is its hash.
    fn draw(&mut self) -> u64 {
        fnv64(self.zipfian.next(&mut self.rng)) % self.records
    }

    fn phase(&mut self, phase: usize) {
        match PHASES[phase] {
            "c" => (0..self.records).for_each(|_| {
                let number = self.draw();
                assert!(self.db.get(key(number)).expect("gets").is_some(), "a missing record");
            }),
            "a" => (0..self.records).for_each(|at| {
                let number = self.draw();
                if at % 2 == 0 {
                    self.update(number);
                } else {
                    assert!(self.db.get(key(number)).expect("gets").is_some(), "a missing record");
                }
            }),
            "e" => (0..self.records / 10).for_each(|_| {
                let (number, count) = (self.draw(), 1 + self.rng.next_u64() % 100);
                let (mut iter, mut seen) = (self.db.iter().expect("an iterator"), 0);
                iter.seek(key(number)).expect("seeks");
                iter.for_each_forward(|_, value| {
                    seen += 1;
                    assert_eq!(value.len(), 1000);
                    if seen < count { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
                })
                .expect("scans");
                assert!(seen > 0);
            }),
            _ => self.load(),
        }
    }
}

/// The setting of each phase.
type Settings = [Setting; 5];
/// Seconds of each phase.
type Times = [f64; 5];

/// Runs all phases, each with its setting. Returns the seconds of each.
fn run(settings: Settings, records: u64) -> Times {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let mut options = Options::default();
    options.set("memory_budget_bytes", "536870912").expect("an option");
    for (name, value) in settings[0].values() {
        options.set(name, &value).expect("an option");
    }
    let db = Db::open(dir.path().join("db"), options).expect("opens");
    let zipfian = Zipfian::new(records, ZIPFIAN_CONSTANT);
    let mut run = Run { db, rng: Rng::new(301), zipfian, records, loaded: 0 };
    let mut now = settings[0];
    std::array::from_fn(|phase| {
        let began = Instant::now();
        if settings[phase] != now {
            now = settings[phase];
            let values = now.values();
            let pairs = values.each_ref().map(|(name, value)| (*name, value.as_str()));
            run.db.set_options(&pairs).expect("options while open");
        }
        run.phase(phase);
        if phase == PHASES.len() - 1 {
            // What the loads leave undone is a part of their cost.
            run.db.flush().expect("flushes");
            run.db.wait_idle().expect("idle");
        }
        began.elapsed().as_secs_f64()
    })
}

/// A row of the table: the settings, and the times of each round.
struct Row {
    name: String,
    settings: Settings,
    rounds: Vec<Times>,
}

impl Row {
    fn new(name: String, settings: Settings) -> Row {
        Row { name, settings, rounds: Vec::new() }
    }

    /// The median seconds of a phase.
    fn phase(&self, phase: usize) -> f64 {
        middle(self.rounds.iter().map(|times| times[phase]).collect()).0
    }

    /// The seconds of all phases in each round.
    fn totals(&self) -> Vec<f64> {
        self.rounds.iter().map(|times| times.iter().sum()).collect()
    }

    fn total(&self) -> f64 {
        middle(self.totals()).0
    }
}

/// Measures the rows in `rounds` rounds, whose first rows are spread evenly over all.
fn measure(rows: &mut [Row], rounds: u64, records: u64) {
    for round in 0..rounds {
        eprintln!("phases: round {} of {rounds}, {} settings", round + 1, rows.len());
        let count = rows.len();
        let first = count * round as usize / rounds as usize;
        for at in 0..count {
            let row = &mut rows[(first + at) % count];
            row.rounds.push(run(row.settings, records));
        }
    }
}

/// Returns the row for which `seconds` is the least.
fn fastest(rows: &[Row], seconds: impl Fn(&Row) -> f64) -> &Row {
    rows.iter().min_by(|a, b| seconds(a).total_cmp(&seconds(b))).expect("a row")
}

fn print(fixed: &[Row], greedy: &Row) {
    println!("Greedy, for each phase the setting that was the fastest in it:");
    println!("{}", greedy.settings.map(Setting::name).join("; "));
    println!("| memtable, policy | {} | total, s |", PHASES.join(" | "));
    println!("|---|---:|---:|---:|---:|---:|---:|");
    for row in fixed.iter().chain([greedy]) {
        let cells: Vec<String> =
            (0..PHASES.len()).map(|phase| format!("{:.2}", row.phase(phase))).collect();
        println!("| {} | {} | {:.2} |", row.name, cells.join(" | "), row.total());
    }
    let best = fastest(fixed, Row::total);
    let ratios = best.totals().into_iter().zip(greedy.totals()).map(|(best, own)| best / own);
    let (gain, least, most) = middle(ratios.collect());
    println!(
        "Speed of greedy against {}, the fixed setting with the best median: {gain:.3} \
         ({least:.3}..{most:.3})",
        best.name
    );
}

/// Measures and prints all.
fn run_all() -> Result<(), String> {
    let (rounds, records) = (number("ROUNDS", 3, 1)?, number("SIZE", 400_000, 10)?);
    let rows = || Setting::all().into_iter().map(|own| Row::new(own.name(), [own; 5]));
    let mut first: Vec<Row> = rows().collect();
    measure(&mut first, 2, records);
    let greedy =
        std::array::from_fn(|phase| fastest(&first, |row| row.phase(phase)).settings[phase]);
    let mut all: Vec<Row> = rows().chain([Row::new("greedy".into(), greedy)]).collect();
    measure(&mut all, rounds, records);
    let (greedy, fixed) = all.split_last().expect("rows");
    print(fixed, greedy);
    Ok(())
}

fn main() -> ExitCode {
    ended("phases", run_all())
}
