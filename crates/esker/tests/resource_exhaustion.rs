//! Exhausted process resources: threads, memory mappings, file descriptors.
//!
//! Each test needs its own process and runs this program again with the resource in
//! `ESKER_EXHAUSTED`. Required behaviour: opening a store fails with an error that names the
//! exhausted resource and a remedy, and leaves nothing behind. Stores that are already open
//! continue.
//!
//! These tests guard against past failures: programs with two thousand stores that abort; seven
//! threads for each store, and 69 on a machine of 64 processors.
#![allow(unsafe_code)]

mod common;

use std::path::Path;

use common::processes::{self, thread_names};
use esker::{Db, ErrorKind, Options, WriteOptions};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

fn run_alone(what: &str) {
    processes::run_alone("ESKER_EXHAUSTED", what, tempfile::tempdir().unwrap().path());
}

#[test]
fn inside() {
    let Ok(what) = std::env::var("ESKER_EXHAUSTED") else { return };
    let dir = std::env::var("ESKER_EXHAUSTED_DIR").unwrap();
    let dir = Path::new(&dir);
    match what.as_str() {
        "threads" => few_threads(dir),
        "no threads" => no_threads(dir),
        #[cfg(all(target_os = "linux", not(esker_portable)))]
        "mappings" => few_mappings(dir),
        "no descriptors" => no_descriptors(dir),
        other => panic!("no test has the name {other}"),
    }
}

fn key(i: u64) -> [u8; 8] {
    (i.wrapping_mul(0x9E37_79B9_7F4A_7C15)).to_be_bytes()
}

/// Returns the sorted names of the stores' threads in this process.
fn store_threads() -> Vec<String> {
    let mut names = thread_names();
    names.retain(|name| name.starts_with("esker-") && name != "esker-log-pages");
    names
}

/// Checks that a thread without work does not exist, however many threads may compact. A thread
/// starts when it has work, and all threads are gone after a close.
fn few_threads(dir: &Path) {
    let options = || Options {
        background_threads: Some(63),
        memtable_size_bytes: Some(8 << 20),
        ..Options::default()
    };
    let db = Db::open(dir.join("db"), options()).unwrap();
    assert_eq!(store_threads(), ["esker-compact-1", "esker-flush"]);
    for i in 0..1_000 {
        db.put(key(i), [7; 100]).unwrap();
        assert!(db.get(key(i)).unwrap().is_some());
    }
    db.put_with("b", "c", &WriteOptions::SYNC).unwrap();
    db.flush().unwrap();
    db.compact_range(None, None).unwrap();
    assert_eq!(db.iter().unwrap().count(), 1_001);
    assert!(store_threads().len() <= 4, "{:?}", store_threads());
    // Each thread exists when the call that needs it returns.
    db.set_options(&[("sync_every_ms", "1000")]).unwrap();
    assert!(store_threads().contains(&"esker-sync".to_string()), "{:?}", store_threads());
    db.set_options(&[("scrub_bytes_per_second", "1000")]).unwrap();
    assert!(store_threads().contains(&"esker-scrub".to_string()), "{:?}", store_threads());
    (0..40_000).for_each(|i| db.put(key(i), [7; 100]).unwrap());
    assert!(store_threads().contains(&"esker-memory".to_string()), "{:?}", store_threads());
    for i in 0..10_000 {
        db.delete(key(i)).unwrap();
    }
    assert!(store_threads().contains(&"esker-hints".to_string()), "{:?}", store_threads());
    db.close().unwrap();
    assert_eq!(store_threads(), [""; 0]);
    let db =
        Db::open(dir.join("db"), Options { background_threads: Some(0), ..options() }).unwrap();
    assert_eq!(store_threads(), [""; 0]);
    db.close().unwrap();
}

#[test]
fn threads_start_only_when_needed() {
    run_alone("threads");
}

/// A user at the thread limit: opening a store fails with an error, and an open store continues
/// with its existing threads.
fn no_threads(dir: &Path) {
    let maximum = getrlimit(Resource::Nproc).maximum;
    let may_have = |threads: Option<u64>| {
        setrlimit(Resource::Nproc, Rlimit { current: threads.or(maximum), maximum }).unwrap();
    };
    if rustix::process::geteuid().is_root() {
        // Root has no thread limit.
        std::os::unix::fs::chown(dir, Some(4242), Some(4242)).unwrap();
        // SAFETY: the call reads and writes no memory of this program.
        assert_eq!(unsafe { libc::setresuid(4242, 4242, 4242) }, 0);
    }
    let options = || Options {
        background_threads: Some(8),
        memtable_size_bytes: Some(4 << 20),
        wal_io: esker::WalIo::Write,
        ..Options::default()
    };
    may_have(Some(1));
    let refused = Db::open(dir.join("db"), options()).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Io, "{refused}");
    let message = refused.to_string();
    let parts = ["esker-flush", "limit of threads", "ulimit -u", "fewer stores"];
    assert!(parts.iter().all(|part| message.contains(part)), "{message}");
    may_have(None);
    let db = Db::open(dir.join("db"), options()).unwrap();
    may_have(Some(1));
    let refused = db.set_options(&[("sync_every_ms", "10")]).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Io, "{refused}");
    assert_eq!(db.option("sync_every_ms").as_deref(), Some("0"));
    for i in 0..100_000 {
        db.put(key(i), [7; 100]).unwrap();
        if i % 2 == 0 {
            db.delete(key(i)).unwrap();
        }
    }
    db.flush().unwrap();
    db.wait_idle().unwrap();
    assert_eq!(db.iter().unwrap().count(), 50_000);
    assert_eq!(store_threads(), ["esker-compact-1", "esker-flush"]);
    may_have(None);
    db.set_options(&[("sync_every_ms", "10")]).unwrap();
    db.close().unwrap();
}

#[test]
fn open_fails_with_message_if_no_thread_starts() {
    run_alone("no threads");
}

// The portable half cannot check the limit of mappings: beyond it, the standard library aborts the
// process.
/// Makes single pages of an inaccessible range readable until the process reaches its mapping
/// limit. Then releases about `count` mappings.
#[cfg(all(target_os = "linux", not(esker_portable)))]
fn leave_mappings(count: usize) {
    let (page, pages) = (64 << 10, 1 << 20);
    // SAFETY: a new mapping touches no memory in use.
    let start = unsafe {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        libc::mmap(std::ptr::null_mut(), 2 * page * pages, libc::PROT_NONE, flags, -1, 0)
    };
    assert_ne!(start, libc::MAP_FAILED);
    let set = |at: usize, access| {
        // SAFETY: the page is inside the mapping, which nothing else uses.
        unsafe { libc::mprotect(start.wrapping_byte_add((2 * at + 1) * page), page, access) == 0 }
    };
    let made = (0..pages).take_while(|at| set(*at, libc::PROT_READ)).count();
    assert!(made < pages, "more mappings exist than this test creates");
    // Each page used two mappings.
    assert!((made - count / 2..made).all(|at| set(at, libc::PROT_NONE)));
}

/// Opens stores until the process reaches its mapping limit. The last opening fails with an error.
/// The other stores write, read and close.
#[cfg(all(target_os = "linux", not(esker_portable)))]
fn few_mappings(dir: &Path) {
    let options = || Options {
        memory_budget_bytes: Some(64 << 20),
        memtable_size_bytes: Some(4 << 20),
        ..Options::default()
    };
    let open = |n: usize| Db::open(dir.join(n.to_string()), options());
    // Creates the mappings that a process creates once.
    open(0).unwrap().close().unwrap();
    leave_mappings(2_000);
    let mut stores = Vec::new();
    let refused = loop {
        match open(stores.len()) {
            Ok(store) => stores.push(store),
            Err(refused) => break refused,
        }
        assert!(stores.len() < 1_000, "a store uses no mappings");
    };
    assert!(stores.len() >= 20, "{} stores: {refused}", stores.len());
    assert_eq!(refused.kind(), ErrorKind::Io, "{refused}");
    let message = refused.to_string();
    let parts = ["open one more store", "mappings", "vm.max_map_count", "fewer stores"];
    assert!(parts.iter().all(|part| message.contains(part)), "{message}");
    for store in &stores {
        store.put("a", "b").unwrap();
        assert_eq!(store.get("a").unwrap().as_deref(), Some(&b"b"[..]));
    }
    let last = stores.last().unwrap();
    (0..20_000).for_each(|i| last.put(key(i), [7; 300]).unwrap());
    last.flush().unwrap();
    assert_eq!(last.iter().unwrap().count(), 20_001);
    // Almost no mapping is left: operations that need more memory fail, and the others continue.
    leave_mappings(40);
    let refused = last.flush().and_then(|()| last.put("b", "c")).and_then(|()| last.flush());
    let refused = refused.unwrap_err();
    assert!(refused.to_string().contains("allocate another memtable"), "{refused}");
    assert_eq!(last.get(key(7)).unwrap().as_deref(), Some(&[7; 300][..]));
    last.put("b", "d").unwrap();
    let count = stores.len();
    stores.into_iter().for_each(|store| store.close().unwrap());
    assert_eq!(open(count - 1).unwrap().iter().unwrap().count(), 20_002);
    open(count).unwrap().close().unwrap();
}

#[cfg(all(target_os = "linux", not(esker_portable)))]
#[test]
fn open_fails_with_message_if_mmap_fails() {
    run_alone("mappings");
}

/// Opens stores until the process reaches its file descriptor limit.
fn no_descriptors(dir: &Path) {
    setrlimit(Resource::Nofile, Rlimit { current: Some(64), maximum: Some(64) }).unwrap();
    let open = |n: usize| Db::open(dir.join(n.to_string()), Options::default());
    let mut stores = Vec::new();
    let refused = loop {
        match open(stores.len()) {
            Ok(store) => stores.push(store),
            Err(refused) => break refused,
        }
        assert!(stores.len() < 64, "a store uses no descriptors");
    };
    assert_eq!(refused.kind(), ErrorKind::Io, "{refused}");
    let message = refused.to_string();
    let parts = ["limit of open files", "ulimit -n", "fewer stores"];
    assert!(parts.iter().all(|part| message.contains(part)), "{message}");
    let refused = stores.len();
    stores.pop().unwrap().close().unwrap();
    stores.pop().unwrap().close().unwrap();
    for store in &stores {
        store.put("a", "b").unwrap();
        assert_eq!(store.get("a").unwrap().as_deref(), Some(&b"b"[..]));
    }
    stores.into_iter().for_each(|store| store.close().unwrap());
    open(refused).unwrap().close().unwrap();
}

#[test]
fn open_fails_with_message_without_file_descriptors() {
    run_alone("no descriptors");
}
