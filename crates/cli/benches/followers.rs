//! What does a reader of a store cost its writer, and how far is it behind? One thread puts pairs of 16
//! and 100 bytes at random at full speed, and a pair with the time of the clock every millisecond:
//! alone; with a slot of the change feed that nobody reads; with a slot whose reader is another
//! process, reads all and confirms once a second; and with a follower in another process.
//! `make followers` runs it.
//!
//! ROUNDS (5) rounds measure all four, each in a new store, and rotate their order. SIZE (4000000) is
//! the number of puts. The other process is this program, with FOLLOWED set. It ends when the pair with
//! the time says so, and prints its lags.
//!
//! Invariants: a reader sees the times in order, and the reader of the feed sees every put.

mod common;

use std::io::Write;
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use common::{ended, middle, number};
use esker::feed::{Change, SlotOptions};
use esker::{Db, Options};
use esker_lab::workload::rng::Rng;

const KINDS: [&str; 4] =
    ["alone", "a slot without a reader", "a slot and its reader", "a follower"];
const CLOCK: &str = "the time";
const SLOT: &str = "reader";
/// Time of the last pair with the time.
const END: u64 = u64::MAX;
/// Time between two pairs with the time, and between two looks of a follower.
const BEAT: Duration = Duration::from_millis(1);
const LOOK: Duration = Duration::from_millis(20);

fn now_micros() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("a time after 1970").as_micros() as u64
}

fn time_of(value: &[u8]) -> u64 {
    u64::from_le_bytes(value.try_into().expect("eight bytes"))
}

/// The lags that a reader has seen, in microseconds.
#[derive(Default)]
struct Lags {
    micros: Vec<f64>,
    newest: u64,
}

impl Lags {
    fn add(&mut self, time: u64) {
        assert!(time >= self.newest, "the times are not in order");
        self.newest = time;
        if time != END {
            self.micros.push(now_micros().saturating_sub(time) as f64);
        }
    }

    /// Prints the median, the 99th percentile and the greatest, in milliseconds.
    fn print(mut self, seen: u64) {
        assert!(!self.micros.is_empty(), "the reader has seen no time");
        self.micros.sort_by(f64::total_cmp);
        let at = |share: f64| self.micros[((self.micros.len() - 1) as f64 * share) as usize] / 1e3;
        println!("{} {} {} {seen}", at(0.5), at(0.99), at(1.0));
    }
}

/// Looks at the store of another process until its writer has ended.
fn follow(dir: &str) {
    let follower = Db::follow(dir, Options::default()).expect("follows");
    let mut lags = Lags::default();
    while lags.newest != END {
        std::thread::sleep(LOOK);
        follower.catch_up().expect("catches up");
        // A view is as old as the time in it, also if no later one was seen.
        if let Some(value) = follower.db().get(CLOCK).expect("gets") {
            lags.add(time_of(&value));
        }
    }
    lags.print(0);
}

/// Reads the change feed of the store of another process until its writer has ended.
fn read_feed(dir: &str) {
    let db = Db::open_read_only(dir, Options::default()).expect("opens");
    let slot = db.slot(SLOT).expect("a slot");
    let mut changes = slot.changes().expect("changes");
    let (mut lags, mut puts, mut confirmed) = (Lags::default(), 0, Instant::now());
    while lags.newest != END {
        let Some(batch) = changes.wait(Duration::from_secs(10)).expect("a batch") else { continue };
        for change in &batch.changes {
            match change {
                Change::Put { key, value, .. } if key == CLOCK.as_bytes() => {
                    lags.add(time_of(value));
                }
                Change::Put { .. } => puts += 1,
                _ => {}
            }
        }
        if confirmed.elapsed() >= Duration::from_secs(1) {
            slot.confirm(batch.sequence).expect("confirms");
            confirmed = Instant::now();
        }
    }
    lags.print(puts);
}

/// What one run has measured.
struct Measured {
    puts_per_second: f64,
    /// The median, the 99th percentile and the greatest lag, in milliseconds.
    lags: Option<[f64; 3]>,
}

fn start_reader(kind: &str, dir: &std::path::Path) -> Option<Child> {
    let role = match kind {
        "a follower" => "follow",
        "a slot and its reader" => "feed",
        _ => return None,
    };
    let own = std::env::current_exe().expect("this program");
    let mut command = Command::new(own);
    command.env("FOLLOWED", dir).env("FOLLOWED_AS", role).stdout(Stdio::piped());
    Some(command.spawn().expect("starts"))
}

fn run(kind: &str, puts: u64) -> Measured {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let path = dir.path().join("db");
    let db = Db::open(&path, Options::default()).expect("opens");
    if kind.starts_with("a slot") {
        db.subscribe(SLOT, &SlotOptions::default()).expect("subscribes");
    }
    db.put(CLOCK, now_micros().to_le_bytes()).expect("puts");
    let reader = start_reader(kind, &path);
    // The reader opens the store.
    std::thread::sleep(Duration::from_millis(300));
    let mut rng = Rng::new(7);
    let mut value = [0u8; 100];
    let (began, mut beat) = (Instant::now(), Instant::now());
    for at in 0..puts {
        let key = format!("{:016x}", rng.next_u64() % puts);
        value[..8].copy_from_slice(&at.to_le_bytes());
        db.put(key, value).expect("puts");
        if at % 64 == 0 && beat.elapsed() >= BEAT {
            beat = Instant::now();
            db.put(CLOCK, now_micros().to_le_bytes()).expect("puts");
        }
    }
    let seconds = began.elapsed().as_secs_f64();
    db.put(CLOCK, END.to_le_bytes()).expect("puts");
    let lags = reader.map(|child| {
        let output = child.wait_with_output().expect("the reader ends");
        assert!(output.status.success(), "the reader failed: {}", output.status);
        let text = String::from_utf8(output.stdout).expect("text");
        let numbers: Vec<f64> =
            text.split_whitespace().map(|number| number.parse().expect("a number")).collect();
        let [median, p99, greatest, seen] = numbers[..] else { panic!("the reader says {text:?}") };
        assert!(kind == "a follower" || seen == puts as f64, "{seen} of {puts} puts were read");
        [median, p99, greatest]
    });
    Measured { puts_per_second: puts as f64 / seconds, lags }
}

fn print(all: &[Vec<Measured>]) {
    println!(
        "| the writer is | puts a second | of those alone | lag, ms: median | p99 | greatest |"
    );
    println!("|---|---:|---:|---:|---:|---:|");
    for (kind, runs) in KINDS.iter().zip(all) {
        let speed = middle(runs.iter().map(|run| run.puts_per_second).collect()).0;
        let ratios = runs.iter().zip(&all[0]);
        let ratios = ratios.map(|(own, alone)| own.puts_per_second / alone.puts_per_second);
        let (ratio, least, most) = middle(ratios.collect());
        let lag = |at: usize| {
            let found: Vec<f64> = runs.iter().filter_map(|run| Some(run.lags?[at])).collect();
            if found.is_empty() { "-".into() } else { format!("{:.1}", middle(found).0) }
        };
        let greatest = runs.iter().filter_map(|run| Some(run.lags?[2])).reduce(f64::max);
        let greatest = greatest.map_or("-".into(), |greatest| format!("{greatest:.1}"));
        println!(
            "| {kind} | {speed:.0} | {ratio:.3} ({least:.3} to {most:.3}) | {} | {} | {greatest} |",
            lag(0),
            lag(1)
        );
    }
}

fn run_all() -> Result<(), String> {
    let (rounds, puts) = (number("ROUNDS", 5, 1)?, number("SIZE", 4_000_000, 1_000)?);
    let mut all: Vec<Vec<Measured>> = KINDS.iter().map(|_| Vec::new()).collect();
    for round in 0..rounds as usize {
        for at in 0..KINDS.len() {
            let kind = (round + at) % KINDS.len();
            eprintln!("followers: round {} of {rounds}: {}", round + 1, KINDS[kind]);
            all[kind].push(run(KINDS[kind], puts));
        }
    }
    print(&all);
    std::io::stdout().flush().map_err(|error| format!("cannot print: {error}"))
}

fn main() -> ExitCode {
    if let Ok(dir) = std::env::var("FOLLOWED") {
        match std::env::var("FOLLOWED_AS").as_deref() {
            Ok("feed") => read_feed(&dir),
            _ => follow(&dir),
        }
        return ExitCode::SUCCESS;
    }
    ended("followers", run_all())
}
