//! Unavailable pages of the memory-mapped log, and the signal (SIGBUS) that the kernel raises for
//! them.
//!
//! Tests that need their own process run this program again with the test's name in `ESKER_MAPPED`.
//! `scripts/mapped.sh` mounts file systems and runs `file_system_attack` and
//! `durable_writes_after_remount` on them. Without these variables, those two tests do nothing:
//! * `ESKER_MAPPED_DIR`: a directory on the mounted file system
//! * `ESKER_MAPPED_ATTACK`: a shell command that attacks the file system
//! * `ESKER_MAPPED_FREE`: a shell command that undoes the attack where possible
//! * `ESKER_MAPPED_WANT`: the store's expected answer
//! * `ESKER_MAPPED_ONLY`: the only `wal_io` to test
//! * `ESKER_MAPPED_NOTES`: a file outside the file system for the acknowledged writes
//!
//! These tests guard against past failures: SIGBUS ended a process where `write` would have failed
//! (full btrfs; full xfs after `cp --reflink` of the open store; a file system that was shut down).
// The portable half maps no file.
#![cfg(all(target_os = "linux", not(esker_portable)))]
#![allow(unsafe_code)]

use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use esker::{Db, ErrorKind, Options, WalIo, WriteOptions};

/// Runs one case of `inside` in its own process.
fn run(what: &str, dir: &Path) -> Output {
    let program = std::env::current_exe().unwrap();
    let mut child = Command::new(program);
    child.args(["--exact", "inside", "--nocapture"]);
    child.env("ESKER_MAPPED", what).env("ESKER_MAPPED_DIR", dir).output().unwrap()
}

fn describe(ran: &Output) -> String {
    format!("{ran:?}")
}

#[test]
fn inside() {
    let Ok(what) = std::env::var("ESKER_MAPPED") else { return };
    let dir = PathBuf::from(std::env::var("ESKER_MAPPED_DIR").unwrap());
    match what.as_str() {
        "handled before" => handled_before(&dir),
        "plainly handled before" => plainly_handled_before(&dir),
        "ignored before" => ignored_before(&dir),
        "own fault" => own_fault(&dir),
        "sent" => sent(&dir),
        "handled later" => handled_later(&dir),
        "cut" => cut(&dir),
        other => panic!("no test has the name {other}"),
    }
}

fn options(wal_io: WalIo) -> Options {
    Options { wal_io, memtable_size_bytes: Some(64 << 20), ..Options::default() }
}

/// Opens a store whose log is memory-mapped, if the file system supports it.
fn store(dir: &Path) -> Db {
    let db = Db::open(dir.join("db"), options(WalIo::Mmap)).unwrap();
    (0..10).for_each(|i| db.put(key(i), value(i)).unwrap());
    db
}

fn key(i: u64) -> [u8; 8] {
    i.to_be_bytes()
}

fn value(i: u64) -> Vec<u8> {
    vec![i as u8 | 1; 1000]
}

/// Returns the address of a mapped page whose file was truncated after the mapping.
fn gone(dir: &Path) -> *mut u8 {
    let path = dir.join("own");
    std::fs::write(&path, vec![1; 4096]).unwrap();
    let file = std::fs::File::options().read(true).write(true).open(&path).unwrap();
    use std::os::fd::AsRawFd;
    let (access, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED);
    // SAFETY: a new mapping at an address chosen by the kernel, where this process has no data.
    let page = unsafe { libc::mmap(ptr::null_mut(), 4096, access, flags, file.as_raw_fd(), 0) };
    assert_ne!(page, libc::MAP_FAILED);
    file.set_len(0).unwrap();
    page.cast()
}

fn touch(page: *mut u8) {
    // SAFETY: the page is mapped. The kernel is expected to signal that its file content is gone.
    unsafe { page.write_volatile(1) };
}

fn handle(handler: usize, flags: i32) {
    // SAFETY: all-zero bytes are a valid `sigaction`.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    (action.sa_sigaction, action.sa_flags) = (handler, flags);
    // SAFETY: the handler has the type that its flags declare, and lives as long as the program.
    assert_eq!(unsafe { libc::sigaction(libc::SIGBUS, &action, ptr::null_mut()) }, 0);
}

static HANDLED: AtomicUsize = AtomicUsize::new(0);

/// Replaces the missing page by an anonymous one.
extern "C" fn replace_page(_: libc::c_int, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    HANDLED.fetch_add(1, SeqCst);
    // SAFETY: `info` comes from the kernel, and its address is that of the missing page.
    let page = unsafe { (*info).si_addr() } as usize & !4095;
    let (access, flags) = (
        libc::PROT_READ | libc::PROT_WRITE,
        libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED,
    );
    // SAFETY: replaces a mapping that belongs to this test.
    unsafe { libc::mmap(page as *mut libc::c_void, 4096, access, flags, -1, 0) };
}

extern "C" fn count(_: libc::c_int) {
    HANDLED.fetch_add(1, SeqCst);
}

/// Checks that the program's own handler receives the program's own faults and none of the store's.
fn handled_before(dir: &Path) {
    handle(replace_page as *const () as usize, libc::SA_SIGINFO);
    let db = store(dir);
    let page = gone(dir);
    touch(page);
    assert_eq!(HANDLED.load(SeqCst), 1);
    cut_under(&db, dir);
    assert_eq!(HANDLED.load(SeqCst), 1);
}

fn plainly_handled_before(dir: &Path) {
    handle(count as *const () as usize, libc::SA_RESETHAND);
    let db = store(dir);
    // SAFETY: the handler only counts.
    unsafe { libc::raise(libc::SIGBUS) };
    assert_eq!(HANDLED.load(SeqCst), 1);
    // The handler was for one signal. Afterwards the default action applies, as without the store.
    db.put("still", "there").unwrap();
    let mut now = std::mem::MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: only reads the action; all-zero bytes are a valid `sigaction`.
    let now = unsafe {
        libc::sigaction(libc::SIGBUS, ptr::null(), now.as_mut_ptr());
        now.assume_init()
    };
    assert_eq!(now.sa_sigaction, libc::SIG_DFL);
}

fn ignored_before(dir: &Path) {
    handle(libc::SIG_IGN, 0);
    let db = store(dir);
    // SAFETY: the signal is ignored.
    unsafe { libc::raise(libc::SIGBUS) };
    cut_under(&db, dir);
}

/// Checks that a fault of the program ends it as usual if the program has no handler.
fn own_fault(dir: &Path) {
    // Removes the handler of Rust's runtime.
    handle(libc::SIG_DFL, 0);
    let _db = store(dir);
    println!("until here");
    touch(gone(dir));
    println!("and further");
}

fn sent(dir: &Path) {
    handle(libc::SIG_DFL, 0);
    let _db = store(dir);
    println!("until here");
    // SAFETY: ends the process, which is the subject of the test.
    unsafe { libc::raise(libc::SIGBUS) };
    println!("and further");
}

/// Checks a handler installed over the store's: from the next window on the log uses `write`.
fn handled_later(dir: &Path) {
    let db = store(dir);
    let is_mapped = || std::fs::read_to_string("/proc/self/maps").unwrap().contains(".wal");
    if !is_mapped() {
        eprintln!("no log is memory-mapped here");
        return;
    }
    handle(count as *const () as usize, 0);
    (10..2010).for_each(|i| db.put(key(i), value(i)).unwrap());
    assert!(!is_mapped());
    (0..2010).for_each(|i| assert_eq!(db.get(key(i)).unwrap().unwrap(), value(i)));
    assert_eq!(HANDLED.load(SeqCst), 0);
}

/// Truncates the store's log from outside while it is memory-mapped. The store reports it or keeps
/// writing.
fn cut_under(db: &Db, dir: &Path) {
    let logs = std::fs::read_dir(dir.join("db")).unwrap().map(|entry| entry.unwrap().path());
    for log in logs.filter(|path| path.extension() == Some("wal".as_ref())) {
        std::fs::File::options().write(true).open(log).unwrap().set_len(100).unwrap();
    }
    for i in 10..2000 {
        if let Err(error) = db.put(key(i), value(i)) {
            let sentence = error.to_string();
            assert!(
                sentence.contains("was truncated") || sentence.contains("refuses writes"),
                "{sentence}"
            );
        }
    }
    (0..10).for_each(|i| assert_eq!(db.get(key(i)).unwrap().unwrap(), value(i)));
}

fn cut(dir: &Path) {
    let db = store(dir);
    cut_under(&db, dir);
}

#[test]
fn truncated_mapped_log_does_not_kill_process() {
    let dir = tempfile::tempdir().unwrap();
    let ran = run("cut", dir.path());
    assert!(ran.status.success(), "{}", describe(&ran));
}

#[test]
fn earlier_sigbus_handler_still_receives_other_faults() {
    for what in ["handled before", "plainly handled before", "ignored before"] {
        let dir = tempfile::tempdir().unwrap();
        let ran = run(what, dir.path());
        assert!(ran.status.success(), "{what}: {}", describe(&ran));
    }
}

#[test]
fn foreign_sigbus_has_default_action() {
    for what in ["own fault", "sent"] {
        let dir = tempfile::tempdir().unwrap();
        let ran = run(what, dir.path());
        assert_eq!(ran.status.signal(), Some(libc::SIGBUS), "{what}: {}", describe(&ran));
        let out = String::from_utf8_lossy(&ran.stdout);
        assert!(out.contains("until here") && !out.contains("and further"), "{what}: {out}");
    }
}

#[test]
fn later_sigbus_handler_makes_log_use_write() {
    let dir = tempfile::tempdir().unwrap();
    let ran = run("handled later", dir.path());
    assert!(ran.status.success(), "{}", describe(&ran));
}

/// Returns a variable of the script; `None` without the script.
fn word(name: &str) -> Option<String> {
    std::env::var(format!("ESKER_MAPPED_{name}")).ok()
}

fn shell(command: &str) {
    let status = Command::new("sh").args(["-c", command]).status().unwrap();
    assert!(status.success(), "{command}: {status}");
}

const SYNCED: u64 = 200;

#[test]
fn file_system_attack() {
    let (Some(dir), Some(attack), Some(notes)) = (word("DIR"), word("ATTACK"), word("NOTES"))
    else {
        return;
    };
    let want = word("WANT").unwrap();
    let only = word("ONLY").filter(|only| !only.is_empty());
    for wal_io in WalIo::ALL {
        if only.as_ref().is_some_and(|only| only != wal_io.name()) {
            continue;
        }
        let path = Path::new(&dir).join(wal_io.name());
        let db = Db::open(&path, options(*wal_io)).unwrap();
        for i in 0..SYNCED {
            db.put_with(key(i), value(i), &WriteOptions::SYNC).unwrap();
        }
        shell(&attack);
        let (mut there, mut failures) = (SYNCED, Vec::new());
        // Writes through many windows, and syncs the last of them.
        for i in SYNCED..6000 {
            let how = if i % 1000 == 999 { WriteOptions::SYNC } else { WriteOptions::default() };
            match db.put_with(key(there), value(there), &how) {
                Ok(()) => there += 1,
                Err(error) => failures.push(error),
            }
        }
        let first = failures.first().map(|error| (error.kind(), error.to_string()));
        let copied = db.metrics().log_mapped_bytes;
        eprintln!(
            "{wal_io:?}: {copied} bytes copied into pages not written before, {there} puts acknowledged; {first:?}"
        );
        match (want.as_str(), &first) {
            ("no space", Some((kind, _))) => assert_eq!(*kind, ErrorKind::NoSpace, "{first:?}"),
            ("an error", Some((_, sentence))) => assert!(sentence.len() > 20, "{sentence}"),
            ("nothing", None) => {}
            other => panic!("{wal_io:?}: {other:?}"),
        }
        for i in 0..there {
            assert_eq!(db.get(key(i)).unwrap().as_deref(), Some(&value(i)[..]), "{i} of {there}");
        }
        let freeing = word("FREE").filter(|free| !free.is_empty());
        let mut kept = SYNCED;
        if let Some(free) = freeing {
            shell(&free);
            drop(db);
            let db = Db::open(&path, options(*wal_io)).unwrap();
            for i in 0..there {
                assert_eq!(db.get(key(i)).unwrap().as_deref(), Some(&value(i)[..]), "{i}");
            }
            assert_eq!(db.iter().unwrap().count() as u64, there);
            db.put_with(key(there), value(there), &WriteOptions::SYNC).unwrap();
            kept = there + 1;
        }
        std::fs::write(format!("{notes}.{}", wal_io.name()), kept.to_string()).unwrap();
    }
}

/// Checks that durable writes are present after the file system is mounted again.
#[test]
fn durable_writes_after_remount() {
    let (Some(dir), Some(notes), None) = (word("DIR"), word("NOTES"), word("ATTACK")) else {
        return;
    };
    for wal_io in WalIo::ALL {
        let Ok(kept) = std::fs::read_to_string(format!("{notes}.{}", wal_io.name())) else {
            continue;
        };
        let db = Db::open(Path::new(&dir).join(wal_io.name()), options(*wal_io)).unwrap();
        for i in 0..kept.parse().unwrap() {
            assert_eq!(db.get(key(i)).unwrap().as_deref(), Some(&value(i)[..]), "{i} of {kept}");
        }
        assert!(db.verify(&mut |_, _| {}).unwrap().is_whole());
        db.close().unwrap();
    }
}
