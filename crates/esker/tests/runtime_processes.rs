//! Many stores with one runtime: the threads of the process, its memory, and forks.
//!
//! Each test runs in a process of its own: this program with the name of the test in
//! `ESKER_RUNTIME`.
#![allow(unsafe_code)]

mod common;

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::{Duration, Instant};

use common::processes::{self, LONG, status_bytes, thread_names, wait_until};
use common::tiny_options;
use esker::fs::MemFs;
use esker::{Db, ErrorKind, Options, Runtime, RuntimeOptions};

fn runtime_of(budget_bytes: u64) -> Runtime {
    let memory_budget_bytes = Some(budget_bytes);
    Runtime::new(RuntimeOptions { memory_budget_bytes, ..RuntimeOptions::default() }).unwrap()
}

/// Returns options of a tiny store that uses `runtime`.
fn tiny(runtime: &Runtime) -> Options {
    Options { runtime: Some(runtime.clone()), ..tiny_options() }
}

fn key(n: u64) -> [u8; 8] {
    n.wrapping_mul(0x9E37_79B9_7F4A_7C15).to_be_bytes()
}

fn run_alone(what: &str) {
    processes::run_alone("ESKER_RUNTIME", what, tempfile::tempdir().unwrap().path());
}

#[test]
fn inside() {
    let Ok(what) = std::env::var("ESKER_RUNTIME") else { return };
    let dir = std::env::var("ESKER_RUNTIME_DIR").unwrap();
    let dir = Path::new(&dir);
    match what.as_str() {
        "thousand" => thousand_stores(dir),
        "budget" => two_hundred_stores_in_one_budget(dir),
        "ends" => workers_end_with_last_store(dir),
        #[cfg(all(target_os = "linux", not(esker_portable)))]
        "fork" => forked(dir),
        #[cfg(all(target_os = "linux", not(esker_portable)))]
        "forks" => forked_at_any_moment(dir),
        other => panic!("no test has the name {other}"),
    }
}

/// A thousand open stores: few threads, little memory for each that is idle, and all data right.
fn thousand_stores(dir: &Path) {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    const STORES: u64 = 1000;
    let hard = getrlimit(Resource::Nofile).maximum;
    setrlimit(Resource::Nofile, Rlimit { current: hard, maximum: hard }).unwrap();
    let each = 8;
    // A machine with a low limit on open files has fewer stores.
    let stores = hard.map_or(STORES, |hard| STORES.min(hard.saturating_sub(100) / each));
    let cores = std::thread::available_parallelism().unwrap().get();
    let runtime = runtime_of(256 << 20);
    let options = || Options { runtime: Some(runtime.clone()), ..Options::default() };
    // What the first store of a process allocates once does not count.
    let first = Db::open(dir.join("first"), options()).unwrap();
    first.put("first", "1").unwrap();
    let before = status_bytes("VmRSS");
    let began = Instant::now();
    let open = |n: u64| Db::open(dir.join(n.to_string()), options()).unwrap();
    let all: Vec<Db> = (0..stores).map(open).collect();
    let opened = began.elapsed();
    assert!(thread_names().len() <= cores + 4, "{:?}", thread_names());
    let idle = status_bytes("VmRSS").saturating_sub(before) / stores;
    for (n, db) in (0..).zip(&all) {
        db.put(key(n), n.to_be_bytes()).unwrap();
    }
    for (n, db) in (0..).zip(&all).step_by(9) {
        db.flush().unwrap();
        db.put(key(n + 1), "after the flush").unwrap();
    }
    for (n, db) in (0..).zip(&all) {
        assert_eq!(db.get(key(n)).unwrap().as_deref(), Some(&n.to_be_bytes()[..]));
        assert!(db.get(key(n + 2)).unwrap().is_none());
        assert_eq!(db.iter().unwrap().count(), if n.is_multiple_of(9) { 2 } else { 1 });
    }
    assert_eq!(runtime.metrics().stores, stores + 1);
    assert!(thread_names().len() <= cores + 4, "{:?}", thread_names());
    let written = status_bytes("VmRSS").saturating_sub(before) / stores;
    let began = Instant::now();
    all.into_iter().for_each(|db| db.close().unwrap());
    let closed = began.elapsed();
    println!(
        "{stores} stores: {idle} B each idle, {written} B written, open {:?}, close {:?}",
        opened / stores as u32,
        closed / stores as u32
    );
    assert!(idle <= 64 << 10, "{idle} bytes for each idle store");
    for n in (0..stores).step_by(50) {
        assert_eq!(open(n).get(key(n)).unwrap().as_deref(), Some(&n.to_be_bytes()[..]));
    }
    drop(first);
}

#[test]
fn thousand_open_stores_need_few_threads_and_little_memory() {
    run_alone("thousand");
}

/// Two hundred stores that are written at once: all memory of the process together stays within
/// the budget and a fifth of it. The excess is what the allocator keeps for its threads.
/// `scripts/limits.sh` runs it in a control group with that limit.
fn two_hundred_stores_in_one_budget(dir: &Path) {
    const BUDGET: u64 = 128 << 20;
    const STORES: u64 = 200;
    const PUTS: u64 = 1000;
    let hard = rustix::process::getrlimit(rustix::process::Resource::Nofile).maximum;
    let limit = rustix::process::Rlimit { current: hard, maximum: hard };
    rustix::process::setrlimit(rustix::process::Resource::Nofile, limit).unwrap();
    let runtime = runtime_of(BUDGET);
    let options = || Options { runtime: Some(runtime.clone()), ..Options::default() };
    let before = status_bytes("VmRSS");
    let open = |n: u64| Db::open(dir.join(n.to_string()), options()).unwrap();
    let all: Vec<Db> = (0..STORES).map(open).collect();
    std::thread::scope(|scope| {
        for (store, db) in (0..).zip(&all) {
            scope.spawn(move || {
                let mut value = [0; 1000];
                for n in 0..PUTS {
                    // Bytes that no compression makes shorter.
                    for (at, word) in (0..).zip(value.chunks_exact_mut(8)) {
                        word.copy_from_slice(&key(n ^ at << 20 ^ store << 40));
                    }
                    db.put(key(n), value).unwrap();
                }
            });
        }
    });
    let written = status_bytes("VmHWM").saturating_sub(before);
    for db in &all {
        assert_eq!(db.iter().unwrap().count() as u64, PUTS);
    }
    let most = status_bytes("VmHWM").saturating_sub(before);
    println!(
        "{} MiB at most, {} MiB while written, {:?}",
        most >> 20,
        written >> 20,
        runtime.metrics()
    );
    assert!(most <= BUDGET + BUDGET / 5, "{} MiB", most >> 20);
    all.into_iter().for_each(|db| db.close().unwrap());
}

#[test]
fn two_hundred_stores_stay_within_one_budget() {
    run_alone("budget");
}

fn workers_end_with_last_store(dir: &Path) {
    let workers = || thread_names().iter().filter(|name| name.starts_with("esker-worker")).count();
    let runtime = runtime_of(64 << 20);
    assert_eq!(workers(), 0, "a runtime without stores has threads");
    let options = Options { runtime: Some(runtime.clone()), ..Options::default() };
    let a = Db::open(dir.join("a"), options.clone()).unwrap();
    let b = Db::open(dir.join("b"), options).unwrap();
    // The stores keep their runtime.
    drop(runtime);
    a.put("a", "1").unwrap();
    a.flush().unwrap();
    drop(a);
    b.put("b", "1").unwrap();
    let mut iter = b.iter().unwrap();
    b.flush().unwrap();
    assert!(workers() >= 1);
    b.close().unwrap();
    assert_eq!(&*iter.next().unwrap().unwrap().0, b"b");
    drop(iter);
    wait_until("the end of the workers", || workers() == 0);
    assert!(!thread_names().iter().any(|name| name.starts_with("esker-")), "{:?}", thread_names());
}

#[test]
fn workers_end_with_the_last_store() {
    run_alone("ends");
}

/// A child of the owner of a runtime: it cannot use the runtime, and may create its own.
#[cfg(all(target_os = "linux", not(esker_portable)))]
fn forked(dir: &Path) {
    let runtime = runtime_of(64 << 20);
    let options = Options { runtime: Some(runtime.clone()), ..Options::default() };
    let db = Db::open(dir.join("db"), options.clone()).unwrap();
    db.put("before", "fork").unwrap();
    // SAFETY: the child takes no lock of the parent's threads, and ends with `_exit`.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let refused = Db::open(dir.join("other"), options.clone())
            .is_err_and(|error| error.kind() == ErrorKind::InvalidArgument);
        let wrote = db.put("child", "no").is_err_and(|error| error.kind() == ErrorKind::Closed);
        drop((db, runtime, options));
        let own = Options { runtime: Some(runtime_of(64 << 20)), ..Options::default() };
        let own = Db::open(dir.join("own"), own).and_then(|own| {
            own.put("own", "yes")?;
            own.flush()?;
            own.close()
        });
        // SAFETY: ends the process at once.
        unsafe { libc::_exit(i32::from(!(refused && wrote && own.is_ok()))) };
    }
    assert_eq!(ended(child), Some(0));
    db.put("after", "fork").unwrap();
    db.flush().unwrap();
    assert_eq!(db.iter().unwrap().count(), 2);
    db.close().unwrap();
}

/// Forks children while the workers start, work and end. Each child opens a store with a runtime of
/// its own.
#[cfg(all(target_os = "linux", not(esker_portable)))]
fn forked_at_any_moment(dir: &Path) {
    let shared = runtime_of(64 << 20);
    let steady = Db::open_on(MemFs::new(), "/db", tiny(&shared)).unwrap();
    let is_done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for n in (0..).take_while(|_| !is_done.load(SeqCst)) {
                steady.put(key(n % 10_000), [7; 100]).unwrap();
            }
        });
        for round in 0..60 {
            let path = dir.join(round.to_string());
            let runtime = runtime_of(64 << 20);
            let options = Options { runtime: Some(runtime), ..Options::default() };
            let db = Db::open(&path, options).unwrap();
            // SAFETY: as in `forked`.
            let child = unsafe { libc::fork() };
            if child == 0 {
                let own = Options { runtime: Some(runtime_of(64 << 20)), ..Options::default() };
                let read = Db::open(path.with_extension("own"), own).and_then(|own| {
                    own.put("own", "yes")?;
                    own.flush()?;
                    let read = own.get("own")?;
                    own.close().map(|()| read)
                });
                let is_right = read.is_ok_and(|read| read.as_deref() == Some(&b"yes"[..]));
                // SAFETY: ends the process at once.
                unsafe { libc::_exit(i32::from(!is_right)) };
            }
            let status = ended(child);
            is_done.store(status != Some(0), SeqCst);
            assert_eq!(status, Some(0), "child {round}, which is none where it hung");
            db.close().unwrap();
        }
        is_done.store(true, SeqCst);
    });
    steady.close().unwrap();
}

/// Returns the exit status of `child`. Kills a child that hangs, and returns `None`.
#[cfg(all(target_os = "linux", not(esker_portable)))]
fn ended(child: libc::pid_t) -> Option<i32> {
    let mut status = -1;
    for _ in 0..LONG.as_millis() {
        // SAFETY: the pointer is to an integer that outlives the call.
        if unsafe { libc::waitpid(child, &mut status, libc::WNOHANG) } == child {
            return Some(status);
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    // SAFETY: a child of this process that has not been waited for yet.
    unsafe { libc::kill(child, libc::SIGKILL) };
    None
}

#[cfg(all(target_os = "linux", not(esker_portable)))]
#[test]
fn forked_child_uses_a_runtime_of_its_own() {
    run_alone("fork");
}

#[cfg(all(target_os = "linux", not(esker_portable)))]
#[test]
fn forked_children_can_open_stores_with_their_own_runtimes() {
    run_alone("forks");
}
