//! What do many stores, or many keyspaces, cost in one process? `make stores` prints four tables.
//!
//! * STORES (1000) open stores with one runtime: what an opening and a close take, threads,
//!   descriptors, and the resident memory of each store: never written, and at rest after ten puts;
//!   then what openings and closes take in memory, where a sync costs nothing.
//! * 200 stores under one budget of 128 MiB, each written by a thread of its own for SECONDS (10)
//!   with values of 1000 bytes that do not compress: resident memory, and the throughput of the
//!   slowest store beside the median. Where the process may make a control group, the part runs in
//!   one whose limit is the budget and a fifth more, without what the process had before; a process
//!   over the limit is killed, and the table says so.
//! * KEYSPACES (10000) keyspaces of one store: what it takes to create, open and drop one, the
//!   resident memory of each, and puts spread over all of them beside puts into one.
//! * One batch of OPERATIONS (10000000) operations over a thousand keyspaces: time and memory.
//!
//! Invariants: each part runs in a process of its own, so it measures its own memory. The pairs of
//! every store and keyspace are counted afterwards.

mod common;

use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::Barrier;
use std::time::{Duration, Instant};

use common::{ended, middle, number};
use esker::{Batch, Db, DbIterator, KeyspaceOptions, Options, Runtime, RuntimeOptions};
use esker_lab::measure::host::memory;
use esker_lab::workload::rng::Rng;

/// The environment variable with the part that a process runs.
const PART: &str = "ESKER_STORES_PART";
const WRITTEN_STORES: u64 = 200;
const BUDGET_BYTES: u64 = 128 << 20;
/// Time for stores to come to rest.
const REST: Duration = Duration::from_secs(15);

type Ended<T> = Result<T, String>;

/// Adds what was being done to an error.
fn while_doing<E: std::fmt::Display>(doing: &str) -> impl Fn(E) -> String {
    move |error| format!("{doing}: {error}")
}

/// Returns the resident memory of this process in bytes.
fn resident_bytes() -> Ended<u64> {
    memory().resident_bytes.ok_or_else(|| "the system does not tell resident memory".into())
}

/// Returns the greatest resident memory of this process so far, in bytes.
fn peak_bytes() -> Ended<u64> {
    memory().peak_bytes.ok_or_else(|| "the system does not tell the peak of memory".into())
}

fn count_in(dir: &str) -> Ended<usize> {
    Ok(std::fs::read_dir(dir).map_err(while_doing(dir))?.count())
}

fn runtime(budget_bytes: u64) -> Ended<Runtime> {
    let options =
        RuntimeOptions { memory_budget_bytes: Some(budget_bytes), ..RuntimeOptions::default() };
    Runtime::new(options).map_err(while_doing("create a runtime"))
}

fn open(dir: &Path, runtime: &Runtime) -> Ended<Db> {
    let options = Options { runtime: Some(runtime.clone()), ..Options::default() };
    Db::open(dir, options).map_err(while_doing("open"))
}

/// Returns the microseconds of each call.
fn timed<T>(all: impl Iterator<Item = T>, mut call: impl FnMut(T) -> Ended<()>) -> Ended<Vec<f64>> {
    let mut micros = Vec::new();
    for one in all {
        let began = Instant::now();
        call(one)?;
        micros.push(began.elapsed().as_secs_f64() * 1e6);
    }
    Ok(micros)
}

/// Returns the number of pairs, if all of them can be read.
fn count_pairs(iter: esker::Result<DbIterator>) -> Ended<u64> {
    let mut found = 0;
    for pair in iter.map_err(while_doing("read"))? {
        pair.map_err(while_doing("read"))?;
        found += 1;
    }
    Ok(found)
}

/// Lets the process open as many files as the system permits.
fn raise_file_limit() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let hard = getrlimit(Resource::Nofile).maximum;
    let _ = setrlimit(Resource::Nofile, Rlimit { current: hard, maximum: hard });
}

/// Opens stores and returns them with the time of each opening.
fn open_all(dir: &Path, stores: u64, runtime: &Runtime) -> Ended<(Vec<Db>, Vec<f64>)> {
    let mut all = Vec::new();
    let opened = timed(0..stores, |at| {
        all.push(open(&dir.join(at.to_string()), runtime)?);
        Ok(())
    })?;
    Ok((all, opened))
}

/// Closes each store, which has ten pairs, then opens each again and closes it. Returns the times,
/// after those of the first openings.
fn closed_and_opened_again(
    (all, first): (Vec<Db>, Vec<f64>),
    dir: &Path,
    runtime: &Runtime,
) -> Ended<[(&'static str, Vec<f64>); 4]> {
    let stores = all.len() as u64;
    let closed = timed(all.into_iter(), |db| db.close().map_err(while_doing("close")))?;
    let (again, opened) = open_all(dir, stores, runtime)?;
    for db in &again {
        let found = count_pairs(db.iter())?;
        assert_eq!(found, 10, "a store has other pairs than those that were put");
    }
    let unchanged = timed(again.into_iter(), |db| db.close().map_err(while_doing("close")))?;
    Ok([
        ("open a new store", first),
        ("close it after ten puts", closed),
        ("open it again", opened),
        ("close it unchanged", unchanged),
    ])
}

/// Opens and closes stores in memory, where a sync costs nothing. Returns the times.
fn without_syncs(stores: u64, runtime: &Runtime) -> Ended<[(&'static str, Vec<f64>); 4]> {
    let dir = tempfile::tempdir_in("/dev/shm").map_err(while_doing("create a directory"))?;
    let (all, opened) = open_all(dir.path(), stores, runtime)?;
    all.iter().try_for_each(ten_puts)?;
    closed_and_opened_again((all, opened), dir.path(), runtime)
}

fn print_times(times: [(&str, Vec<f64>); 4], unit: &str) {
    for (what, micros) in times {
        let (median, _, most) = middle(micros);
        println!("| {what}{unit} | {median:.0} | {most:.0} |");
    }
}

fn ten_puts(db: &Db) -> Ended<()> {
    (0..10_u64).try_for_each(|at| db.put(at.to_be_bytes(), [7; 100]).map_err(while_doing("put")))
}

fn idle_stores(dir: &Path) -> Ended<()> {
    let stores = number("STORES", 1_000, 10)?;
    let runtime = runtime(256 << 20)?;
    // What the first store of a process allocates once does not count.
    let first = open(&dir.join("first"), &runtime)?;
    first.put("first", "1").map_err(while_doing("put"))?;
    let descriptors = count_in("/proc/self/fd")?;
    let before = resident_bytes()?;
    let (all, opened) = open_all(dir, stores, &runtime)?;
    let each = |now: u64| now.saturating_sub(before) as f64 / stores as f64 / 1024.0;
    let (unwritten, threads) = (each(resident_bytes()?), count_in("/proc/self/task")?);
    let descriptors = (count_in("/proc/self/fd")? - descriptors) as f64 / stores as f64;
    all.iter().try_for_each(ten_puts)?;
    let written = each(resident_bytes()?);
    std::thread::sleep(REST);
    let rested = each(resident_bytes()?);
    let times = closed_and_opened_again((all, opened), dir, &runtime)?;
    println!("| {stores} stores | median | greatest |\n|---|---:|---:|");
    print_times(times, ", µs");
    println!("| resident KiB of a store: never written | {unwritten:.1} | |");
    println!("| after ten puts | {written:.1} | |");
    println!("| {} s later | {rested:.1} | |", REST.as_secs());
    println!("| descriptors of a store | {descriptors:.1} | |");
    println!("| threads of the process | {threads} | |");
    match without_syncs(stores, &runtime) {
        Ok(times) => print_times(times, ", without syncs, µs"),
        Err(why) => println!("| without syncs | not measured: {why} | |"),
    }
    println!();
    Ok(())
}

/// The places of control groups, with the names of the limit in each: of version 2, and of version 1.
const GROUPS: [(&str, &str); 2] =
    [("/sys/fs/cgroup", "memory.max"), ("/sys/fs/cgroup/memory", "memory.limit_in_bytes")];

/// A control group with a limit on memory, which is removed at the end.
struct Group(PathBuf);

impl Group {
    /// Moves this process into a new group.
    ///
    /// # Errors
    /// Why it cannot.
    fn enter(limit_bytes: u64) -> Ended<Group> {
        let mut why = String::new();
        for (place, limit) in GROUPS {
            let group =
                Group(Path::new(place).join(format!("esker-stores-{}", std::process::id())));
            // The files of a group exist; in another directory nothing is created.
            let write = |name: &str, text: String| {
                let opened = std::fs::File::options().write(true).open(group.0.join(name));
                opened?.write_all(text.as_bytes())
            };
            let made = std::fs::create_dir(&group.0)
                .and_then(|()| write(limit, limit_bytes.to_string()))
                .and_then(|()| write("cgroup.procs", std::process::id().to_string()));
            match made {
                Ok(()) => return Ok(group),
                Err(error) => why = format!("not measured: {}: {error}", group.0.display()),
            }
        }
        Err(why)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(parent) = self.0.parent() {
            let _ = std::fs::write(parent.join("cgroup.procs"), std::process::id().to_string());
        }
        let _ = std::fs::remove_dir(&self.0);
    }
}

/// Writes to a store until `end`. Returns the number of puts.
fn write_until(db: &Db, seed: u64, end: Instant) -> Ended<u64> {
    let (mut rng, mut value, mut puts) = (Rng::new(seed), [0; 1000], 0);
    while Instant::now() < end {
        for word in value.chunks_exact_mut(8) {
            word.copy_from_slice(&rng.next_u64().to_le_bytes());
        }
        db.put(rng.next_u64().to_be_bytes(), value).map_err(while_doing("put"))?;
        puts += 1;
    }
    Ok(puts)
}

fn written_stores(dir: &Path) -> Ended<()> {
    let seconds = number("SECONDS", 10, 1)?;
    let runtime = runtime(BUDGET_BYTES)?;
    let before = resident_bytes()?;
    let group = Group::enter(BUDGET_BYTES + BUDGET_BYTES / 5);
    let opened = (0..WRITTEN_STORES).map(|at| open(&dir.join(at.to_string()), &runtime));
    let all: Vec<Db> = opened.collect::<Ended<_>>()?;
    let barrier = Barrier::new(all.len());
    let puts: Vec<u64> = std::thread::scope(|scope| {
        let (all, barrier) = (&all, &barrier);
        let writers: Vec<_> = (0..)
            .zip(all)
            .map(|(seed, db)| {
                scope.spawn(move || {
                    barrier.wait();
                    write_until(db, seed, Instant::now() + Duration::from_secs(seconds))
                })
            })
            .collect();
        let joined = writers.into_iter().map(|writer| writer.join().expect("a writer ends"));
        joined.collect::<Ended<_>>()
    })?;
    let most = peak_bytes()?.saturating_sub(before);
    for (db, puts) in all.iter().zip(&puts) {
        let found = count_pairs(db.iter())?;
        assert_eq!(found, *puts, "a store has other pairs than those that were put");
    }
    let read = peak_bytes()?.saturating_sub(before);
    let stalled: u64 = all.iter().map(|db| db.metrics().stalled_us).sum();
    let (median, least, greatest) = middle(puts.iter().map(|puts| *puts as f64).collect());
    let budget = BUDGET_BYTES as f64;
    println!("| {WRITTEN_STORES} stores, {} MiB, {seconds} s | |\n|---|---:|", BUDGET_BYTES >> 20);
    println!("| resident over the budget, while written | {:.2} |", most as f64 / budget);
    println!("| the same, after all were read | {:.2} |", read as f64 / budget);
    println!("| puts of a store: median | {median:.0} |");
    println!(
        "| slowest and fastest over the median | {:.2}, {:.2} |",
        least / median,
        greatest / median
    );
    println!("| stalls of a store, ms | {:.0} |", stalled as f64 / 1e3 / all.len() as f64);
    match &group {
        Ok(_) => println!("| control group of the budget and a fifth | survived |\n"),
        Err(why) => println!("| control group of the budget and a fifth | {why} |\n"),
    }
    all.into_iter().try_for_each(|db| db.close().map_err(while_doing("close")))
}

fn keyspaces(dir: &Path) -> Ended<()> {
    let count = number("KEYSPACES", 10_000, 10)?;
    let db = Db::open(dir.join("db"), Options::default()).map_err(while_doing("open"))?;
    let one = db.keyspace("one", &KeyspaceOptions::default()).map_err(while_doing("create"))?;
    let name = |at: u64| format!("tenant{at:06}");
    let put = |keyspace: &esker::Keyspace, at: u64| {
        keyspace.put(at.to_be_bytes(), [7; 100]).map_err(while_doing("put"))
    };
    (0..count).try_for_each(|at| put(&one, at))?;
    let before = resident_bytes()?;
    let mut all = Vec::new();
    let created = timed(0..count, |at| {
        let keyspace = db.keyspace(&name(at), &KeyspaceOptions::default());
        all.push(keyspace.map_err(while_doing("create"))?);
        Ok(())
    })?;
    let bytes = resident_bytes()?.saturating_sub(before) as f64 / count as f64;
    let opened = timed(0..count, |at| {
        let found = db.existing_keyspace(&name(at)).map_err(while_doing("find"))?;
        found.map(drop).ok_or_else(|| format!("{} is missing", name(at)))
    })?;
    // In turn, so that what happens meanwhile happens to both.
    let (mut alone, mut spread) = (Vec::new(), Vec::new());
    for round in 1..=5 {
        let at = |n: u64| round * count + n;
        alone.extend(timed(0..count, |n| put(&one, at(n)))?);
        spread.extend(timed(0..count, |n| put(&all[(n * 7919 % count) as usize], at(n)))?);
    }
    let mean = |micros: &[f64]| micros.iter().sum::<f64>() / micros.len() as f64;
    db.flush().map_err(while_doing("flush"))?;
    let pairs = all.iter().map(|keyspace| count_pairs(keyspace.iter())).sum::<Ended<u64>>()?;
    assert_eq!(pairs, 5 * count, "the keyspaces have other pairs than those that were put");
    db.close().map_err(while_doing("close"))?;
    let began = Instant::now();
    let db = Db::open(dir.join("db"), Options::default()).map_err(while_doing("open"))?;
    let reopened = began.elapsed().as_secs_f64() * 1e3;
    let dropped = timed(0..count, |at| db.drop_keyspace(&name(at)).map_err(while_doing("drop")))?;
    println!("| {count} keyspaces | median | greatest |\n|---|---:|---:|");
    for (what, micros) in [
        ("create one, µs", created),
        ("find one, µs", opened),
        ("drop one with its pairs, µs", dropped),
    ] {
        let (median, _, most) = middle(micros);
        println!("| {what} | {median:.1} | {most:.0} |");
    }
    println!("| resident bytes of one without pairs | {bytes:.0} | |");
    println!("| open the store with all of them, ms | {reopened:.0} | |");
    println!("| put, µs on average: into one keyspace | {:.2} | |", mean(&alone));
    println!("| spread over all | {:.2} | |\n", mean(&spread));
    Ok(())
}

/// Writes one batch of OPERATIONS operations, spread over a thousand keyspaces.
fn long_batch(dir: &Path) -> Ended<()> {
    let operations = number("OPERATIONS", 10_000_000, 1_000)?;
    let db = Db::open(dir.join("db"), Options::default()).map_err(while_doing("open"))?;
    let make = |at: u64| db.keyspace(&format!("part{at}"), &KeyspaceOptions::default());
    let all: Vec<_> =
        (0..1_000).map(make).collect::<esker::Result<_>>().map_err(while_doing("create"))?;
    let began = Instant::now();
    let mut batch = Batch::new();
    for at in 0..operations {
        let keyspace = &all[(at.wrapping_mul(7919) % 1_000) as usize];
        batch.put_in(keyspace, at.to_be_bytes(), at.to_le_bytes());
    }
    let built = began.elapsed().as_secs_f64();
    let began = Instant::now();
    db.write(&batch).map_err(while_doing("write"))?;
    let written = began.elapsed().as_secs_f64();
    let pairs = all.iter().map(|keyspace| count_pairs(keyspace.iter())).sum::<Ended<u64>>()?;
    assert_eq!(pairs, operations, "the batch is not whole");
    println!("| a batch of {operations} operations over 1000 keyspaces | |\n|---|---:|");
    println!("| built, s | {built:.2} |\n| written, s | {written:.2} |");
    let most = peak_bytes()? >> 20;
    println!("| bytes of the batch, MiB | {} |", batch.size_bytes() >> 20);
    println!("| resident at most, MiB | {most} |\n");
    Ok(())
}

fn run_all() -> Ended<()> {
    let Ok(part) = std::env::var(PART) else {
        for part in ["idle", "written", "keyspaces", "batch"] {
            let this = std::env::current_exe().map_err(while_doing("find this program"))?;
            let started = Command::new(this).env(PART, part).spawn();
            let mut child = started.map_err(while_doing("start this program"))?;
            let status = child.wait().map_err(while_doing("wait for a part"))?;
            for (place, _) in GROUPS {
                let _ = std::fs::remove_dir(format!("{place}/esker-stores-{}", child.id()));
            }
            match (status.success(), status.signal()) {
                (true, _) => {}
                // The control group has ended it: the other parts can still be measured.
                (false, Some(9)) if part == "written" => {
                    println!("| {part} | over the limit of its control group |\n");
                }
                _ => return Err(format!("the part {part} ended with {status}")),
            }
        }
        return Ok(());
    };
    raise_file_limit();
    let dir = tempfile::tempdir().map_err(while_doing("create a directory"))?;
    match part.as_str() {
        "idle" => idle_stores(dir.path()),
        "written" => written_stores(dir.path()),
        "keyspaces" => keyspaces(dir.path()),
        "batch" => long_batch(dir.path()),
        other => Err(format!("{PART} has no part {other}")),
    }
}

fn main() -> ExitCode {
    ended("stores", run_all())
}
