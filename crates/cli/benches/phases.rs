//! How much could a store gain by adapting itself to phases? YCSB's Load, C, A, E and Load again, in one
//! store: with fixed settings of the split between memtable and cache and of the policy, and with an
//! oracle that changes both at each phase to what was the fastest for it. An adaptive store cannot know
//! as much, so the oracle's gain is more than it could have. `make phases` runs it.
//!
//! The first round measures the fixed settings and chooses the oracle's; ROUNDS (3) further rounds measure
//! all in turn, each in a new store. SIZE (400000) is the number of records of 1,000 bytes.
//!
//! Invariant: every read finds its record, and every scan a record.

use std::ops::ControlFlow;
use std::time::Instant;

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

/// Runs all phases, each with its setting. Returns the seconds of each.
fn run(settings: [Setting; 5], records: u64) -> [f64; 5] {
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
        began.elapsed().as_secs_f64()
    })
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn main() {
    let number = |name: &str, default: u64| {
        std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
    };
    let (rounds, records) = (number("ROUNDS", 3), number("SIZE", 400_000));
    let fixed = Setting::all();
    eprintln!("phases: first round of {} fixed settings", fixed.len());
    let first: Vec<[f64; 5]> = fixed.iter().map(|setting| run([*setting; 5], records)).collect();
    let oracle: [Setting; 5] = std::array::from_fn(|phase| {
        let time = |at: &usize| first[*at][phase];
        let best = (0..fixed.len()).min_by(|a, b| time(a).total_cmp(&time(b)));
        fixed[best.expect("a setting")]
    });
    let mut sets: Vec<(String, [Setting; 5])> =
        fixed.iter().map(|setting| (setting.name(), [*setting; 5])).collect();
    sets.push(("oracle".into(), oracle));
    let mut times: Vec<Vec<[f64; 5]>> = vec![Vec::new(); sets.len()];
    for round in 1..=rounds {
        eprintln!("phases: round {round} of {rounds}");
        for (set, times) in sets.iter().zip(&mut times) {
            times.push(run(set.1, records));
        }
    }
    println!("The oracle: {}", oracle.map(Setting::name).join("; "));
    println!("| memtable, policy | {} | total, s |", PHASES.join(" | "));
    println!("|---|---:|---:|---:|---:|---:|---:|");
    let total = |times: &[f64; 5]| times.iter().sum::<f64>();
    for (set, times) in sets.iter().zip(&times) {
        let phases: [f64; 5] =
            std::array::from_fn(|phase| median(times.iter().map(|round| round[phase]).collect()));
        let all = median(times.iter().map(total).collect());
        let cells = phases.map(|seconds| format!("{seconds:.2}"));
        println!("| {} | {} | {all:.2} |", set.0, cells.join(" | "));
    }
    let (last, others) = times.split_last().expect("the oracle");
    let best =
        |round: usize| others.iter().map(|of| total(&of[round])).fold(f64::INFINITY, f64::min);
    let gains: Vec<f64> = (0..last.len()).map(|round| best(round) / total(&last[round])).collect();
    let least = gains.iter().copied().fold(f64::INFINITY, f64::min);
    let most = gains.iter().copied().fold(0.0, f64::max);
    println!(
        "Speed of the oracle against the round's best fixed setting: {:.3} ({least:.3}..{most:.3})",
        median(gains)
    );
}
