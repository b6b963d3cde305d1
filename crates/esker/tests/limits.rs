//! Limits: memory, file descriptors, openers, file modes, and full devices.
//!
//! A test that needs its own process runs this program again with its name in `ESKER_LIMITS`. The
//! tests of file systems do nothing without their variables. `scripts/limits.sh` creates the file
//! systems: `ESKER_SMALL_DISK`, an empty one of a few MiB; `ESKER_FEW_INODES`, one for few files;
//! `ESKER_QUOTA`, one with quotas, on the device `ESKER_QUOTA_DEVICE`, for root.
//! `ESKER_LIMITS_KEYS` makes the memory test longer. `ESKER_GROUP_BYTES` is the size in bytes of
//! the process's control group, and `ESKER_GROUP_PUTS` the number of puts there.
//!
//! These tests guard against past failures: two openers after the removal of the lock file; a
//! forked child that writes to its parent's store; a store that stays read-only after a full
//! device; files readable by others.
#![allow(unsafe_code)]

mod common;
mod streamed_memory;

use std::alloc::System;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use cap::Cap;
use common::processes::{self, status_bytes};
use esker::{Db, ErrorKind, Options, WriteOptions};
use rustix::process::{Resource, Rlimit, setrlimit};

#[global_allocator]
static MEMORY: Cap<System> = Cap::new(System, usize::MAX);

fn run_alone(what: &str, dir: &Path) {
    processes::run_alone("ESKER_LIMITS", what, dir);
}

#[test]
fn inside() {
    let Ok(what) = std::env::var("ESKER_LIMITS") else { return };
    let dir = std::env::var("ESKER_LIMITS_DIR").unwrap();
    let dir = Path::new(&dir);
    match what.as_str() {
        "descriptors" => few_descriptors(dir),
        "memory" => little_memory(dir),
        "large values" => large_values(dir),
        "large values again" => large_values_replayed(dir),
        "streamed value" => streamed_memory::streamed_value(dir),
        "long log" => long_log(dir),
        "replay" => replayed_in_little_memory(dir),
        "fork" => forked(dir),
        #[cfg(all(target_os = "linux", not(esker_portable)))]
        "forks" => forked_at_any_moment(dir),
        "file size" => short_files(dir),
        other => panic!("no test has the name {other}"),
    }
}

fn key(i: u64) -> [u8; 8] {
    (i.wrapping_mul(0x9E37_79B9_7F4A_7C15)).to_be_bytes()
}

/// Many tables, few file descriptors: each read opens a file beyond the limit anew.
fn few_descriptors(dir: &Path) {
    let open_now = || std::fs::read_dir("/proc/self/fd").unwrap().count();
    setrlimit(Resource::Nofile, Rlimit { current: Some(64), maximum: Some(64) }).unwrap();
    let options = Options {
        open_files_max: 10,
        memtable_size_bytes: Some(64 << 10),
        file_size_max_bytes: 16 << 10,
        guard_piece_min_bytes: 8 << 10,
        guard_size_max_bytes: 64 << 10,
        compression: esker::Compression::None,
        ..Options::default()
    };
    let before = open_now();
    let db = Db::open(dir.join("db"), options).unwrap();
    for i in 0..20_000 {
        db.put(key(i), [i as u8; 100]).unwrap();
    }
    db.flush().unwrap();
    db.wait_idle().unwrap();
    assert!(db.metrics().table_files > 100, "{} files", db.metrics().table_files);
    for i in 0..20_000 {
        assert_eq!(db.get(key(i)).unwrap().as_deref(), Some(&[i as u8; 100][..]));
    }
    assert_eq!(db.iter().unwrap().count(), 20_000);
    let held = open_now() - before;
    // Tables, logs, manifest, CURRENT, the lock file and its directory.
    assert!(held <= 10 + 10, "{held} descriptors");
    db.close().unwrap();
    assert!(open_now() <= before + 1, "unused descriptors remain");
}

#[test]
fn open_files_are_bounded() {
    let dir = tempfile::tempdir().unwrap();
    run_alone("descriptors", dir.path());
}

/// Limits the process to `more_bytes` of additional private mappings: the store's mappings outside
/// the allocator, and the stacks of its threads.
fn bound_mappings(more_bytes: u64) {
    let most = Some(status_bytes("VmData") + more_bytes);
    setrlimit(Resource::Data, Rlimit { current: most, maximum: most }).unwrap();
}

/// Writes and reads five times the budget while allocator and kernel enforce the limit.
fn little_memory(dir: &Path) {
    let budget: u64 = 16 << 20;
    // The store's threads have stacks of 2 MiB.
    bound_mappings(2 * budget + (8 << 21));
    let options = Options {
        memory_budget_bytes: Some(budget),
        background_threads: Some(1),
        file_size_max_bytes: 4 << 20,
        ..Options::default()
    };
    MEMORY.set_limit(MEMORY.allocated() + 2 * budget as usize).unwrap();
    let db = Db::open(dir.join("db"), options).unwrap();
    let keys = std::env::var("ESKER_LIMITS_KEYS").map_or(80_000, |keys| keys.parse().unwrap());
    for i in 0..keys {
        db.put(key(i), [i as u8; 1000]).unwrap();
    }
    db.flush().unwrap();
    db.wait_idle().unwrap();
    for i in (0..keys).step_by(3) {
        assert_eq!(db.get(key(i)).unwrap().map(|v| v.len()), Some(1000));
    }
    assert_eq!(db.iter().unwrap().count() as u64, keys);
    db.compact_range(None, None).unwrap();
    assert!(db.verify(&mut |_, _| {}).unwrap().is_whole());
    db.close().unwrap();
}

#[test]
fn memory_is_bounded_by_twice_the_budget() {
    let dir = tempfile::tempdir().unwrap();
    run_alone("memory", dir.path());
}

/// Leaves a log of ten budgets, as a killed process does.
fn long_log(dir: &Path) {
    let options = Options {
        memory_budget_bytes: Some(1 << 30),
        memtable_size_bytes: Some(400 << 20),
        frozen_memtables_max: 1,
        ..Options::default()
    };
    let db = Db::open(dir.join("db"), options).unwrap();
    for i in 0..160_000 {
        db.put(key(i), [i as u8; 1000]).unwrap();
    }
    println!("1 passed");
    // SAFETY: ends the process at once.
    unsafe { libc::_exit(0) };
}

/// Opens the store of [`long_log`] while allocator and kernel enforce the limit.
fn replayed_in_little_memory(dir: &Path) {
    let budget: u64 = 16 << 20;
    bound_mappings(2 * budget + (8 << 21));
    let options = Options {
        memory_budget_bytes: Some(budget),
        background_threads: Some(1),
        ..Options::default()
    };
    MEMORY.set_limit(MEMORY.allocated() + 2 * budget as usize).unwrap();
    let db = Db::open(dir.join("db"), options).unwrap();
    assert_eq!(db.metrics().last_seqno, 160_000);
    for i in (0..160_000).step_by(7) {
        assert_eq!(db.get(key(i)).unwrap().as_deref(), Some(&[i as u8; 1000][..]), "{i}");
    }
    db.close().unwrap();
}

#[test]
fn long_log_is_replayed_within_budget() {
    let dir = tempfile::tempdir().unwrap();
    run_alone("long log", dir.path());
    run_alone("replay", dir.path());
}

#[test]
fn default_store_stays_within_control_group_limit() {
    let number = |name| std::env::var(name).ok().map(|text| text.parse::<u64>().unwrap());
    let Some(limit) = number("ESKER_GROUP_BYTES") else {
        eprintln!("no ESKER_GROUP_BYTES: see scripts/limits.sh");
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path().join("db"), Options::default()).unwrap();
    assert_eq!(db.metrics().memory.budget_bytes, limit / 4);
    let puts = number("ESKER_GROUP_PUTS").unwrap_or(300_000);
    let key = |i: u64| [key(i), i.to_be_bytes()].concat();
    for i in 0..puts {
        db.put(key(i), [i as u8; 100]).unwrap();
    }
    for i in (0..puts).step_by(101) {
        assert_eq!(db.get(key(i)).unwrap().as_deref(), Some(&[i as u8; 100][..]), "{i}");
    }
    db.close().unwrap();
    let db = Db::open(dir.path().join("db"), Options::default()).unwrap();
    assert_eq!(db.iter().unwrap().count() as u64, puts);
    db.close().unwrap();
}

const LARGE_BYTES: u64 = 96 << 20;
const LARGE_BUDGET_BYTES: u64 = 16 << 20;

fn large_options() -> Options {
    Options {
        memory_budget_bytes: Some(LARGE_BUDGET_BYTES),
        background_threads: Some(1),
        ..Options::default()
    }
}

/// Fails if the peak exceeds `before` by more than two large values and one and a half budgets.
fn check_most(before: u64, what: &str) {
    let most = status_bytes("VmHWM").saturating_sub(before);
    let bound = 2 * LARGE_BYTES + LARGE_BUDGET_BYTES + LARGE_BUDGET_BYTES / 2;
    assert!(most <= bound, "{what}: {} MiB", most >> 20);
}

fn large_value() -> Vec<u8> {
    let mut state = 1_u64;
    let next = |_| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 56) as u8
    };
    (0..LARGE_BYTES).map(next).collect()
}

/// Values many times the budget: memory holds at most two copies of one beside the writer's own.
fn large_values(dir: &Path) {
    let value = large_value();
    let before = status_bytes("VmHWM");
    let db = Db::open(dir.join("db"), large_options()).unwrap();
    for i in 0..3 {
        db.put(key(i), &value).unwrap();
        check_most(before, "a put");
    }
    db.flush().unwrap();
    check_most(before, "a flush");
    for i in 0..3 {
        assert!(*db.get(key(i)).unwrap().unwrap() == *value);
    }
    check_most(before, "a get");
    for i in 3..5 {
        db.put(key(i), &value).unwrap();
    }
    check_most(before, "a put again");
    println!("1 passed");
    // SAFETY: ends the process at once.
    unsafe { libc::_exit(0) };
}

/// Opens the store that [`large_values`] left in its log.
fn large_values_replayed(dir: &Path) {
    let before = status_bytes("VmHWM");
    let db = Db::open(dir.join("db"), large_options()).unwrap();
    check_most(before, "an opening");
    for i in 0..5 {
        assert_eq!(db.get(key(i)).unwrap().map(|value| value.len() as u64), Some(LARGE_BYTES));
    }
    check_most(before, "a get");
    db.close().unwrap();
}

#[test]
fn large_value_takes_at_most_twice_its_size() {
    let dir = tempfile::tempdir().unwrap();
    run_alone("large values", dir.path());
    run_alone("large values again", dir.path());
}

#[test]
fn streamed_value_takes_two_mib() {
    let dir = tempfile::tempdir().unwrap();
    run_alone("streamed value", dir.path());
}

/// A child of the opener: the store refuses it, nothing hangs, and nothing changes.
fn forked(dir: &Path) {
    let db = Db::open(dir.join("db"), Options::default()).unwrap();
    db.put("before", "fork").unwrap();
    // SAFETY: the child calls the store, which takes no lock in a child, and ends with `_exit`.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let refused = |error: esker::Error| error.kind() == ErrorKind::Closed;
        let wrote = db.put("child", "no").is_err_and(refused);
        let read = db.get("before").is_err_and(refused);
        let flushed = db.flush().is_err_and(refused);
        let opened = Db::open(dir.join("db"), Options::default())
            .is_err_and(|error| error.kind() == ErrorKind::Locked);
        drop(db);
        // The child may open its own store.
        let own = Db::open(dir.join("own"), Options::default()).and_then(|own| {
            own.put("own", "yes")?;
            own.close()
        });
        let all = [wrote, read, flushed, opened, own.is_ok()];
        // SAFETY: ends the process at once.
        unsafe { libc::_exit(i32::from(all != [true; 5])) };
    }
    let mut status = -1;
    // SAFETY: the pointer is to an integer that outlives the call.
    assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
    assert_eq!(status, 0, "the child process was not refused");
    db.put_with("after", "fork", &WriteOptions::SYNC).unwrap();
    db.flush().unwrap();
    assert_eq!(db.iter().unwrap().count(), 2);
    db.close().unwrap();
    let db = Db::open(dir.join("db"), Options::default()).unwrap();
    assert_eq!(db.iter().unwrap().count(), 2);
}

#[test]
fn forked_child_is_refused_and_parent_continues() {
    let dir = tempfile::tempdir().unwrap();
    run_alone("fork", dir.path());
}

// The portable half has no `pthread_atfork`: a child that is forked while a thread of a store
// starts or ends may hang.
/// Forks children while the threads of their parent's store start, begin to wait or work. Each
/// child opens its own store, whatever locks these threads held.
#[cfg(all(target_os = "linux", not(esker_portable)))]
fn forked_at_any_moment(dir: &Path) {
    use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
    let shared = Db::open(dir.join("shared"), Options::default()).unwrap();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for thread in 0..2_u64 {
            let (shared, done) = (&shared, &done);
            scope.spawn(move || {
                for i in (thread..).step_by(2).take_while(|_| !done.load(Relaxed)) {
                    shared.put(key(i % 10_000), [7; 100]).unwrap();
                    shared.get(key(i % 5_000)).unwrap();
                }
            });
        }
        for round in 0..100 {
            let path = dir.join(round.to_string());
            let db = Db::open(&path, Options::default()).unwrap();
            // SAFETY: the child takes no lock of another thread, which is the subject of the test,
            // and ends with `_exit`.
            let child = unsafe { libc::fork() };
            if child == 0 {
                let own = Db::open(path.with_extension("own"), Options::default());
                let read = own.and_then(|own| {
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
            done.store(status != Some(0), Relaxed);
            assert_eq!(status, Some(0), "child {round}, which is none where it hung");
            db.close().unwrap();
        }
        done.store(true, Relaxed);
    });
    shared.close().unwrap();
}

/// Returns the exit status of `child`. Kills a child that hangs, and returns `None`.
#[cfg(all(target_os = "linux", not(esker_portable)))]
fn ended(child: libc::pid_t) -> Option<i32> {
    let mut status = -1;
    for _ in 0..600_000 {
        // SAFETY: the pointer is to an integer that outlives the call.
        if unsafe { libc::waitpid(child, &mut status, libc::WNOHANG) } == child {
            return Some(status);
        }
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    // SAFETY: a child of this process that has not been waited for yet.
    unsafe { libc::kill(child, libc::SIGKILL) };
    // SAFETY: as above.
    unsafe { libc::waitpid(child, &mut status, 0) };
    None
}

#[cfg(all(target_os = "linux", not(esker_portable)))]
#[test]
fn forked_children_can_open_their_own_stores() {
    let dir = tempfile::tempdir().unwrap();
    run_alone("forks", dir.path());
}

#[test]
fn second_open_is_refused_after_lock_file_removal() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("db");
    let db = Db::open(&path, Options::default()).unwrap();
    std::fs::remove_file(path.join("LOCK")).unwrap();
    let error = Db::open(&path, Options::default()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Locked);
    db.close().unwrap();
    Db::open(&path, Options::default()).unwrap().close().unwrap();
}

#[test]
fn store_files_are_private() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("db");
    let db = Db::open(&path, Options::default()).unwrap();
    db.put("a", "secret").unwrap();
    db.checkpoint(dir.path().join("checkpoint")).unwrap();
    let made = db.backup(dir.path().join("backups")).unwrap();
    Db::restore(dir.path().join("backups"), None, dir.path().join("new"), Options::default())
        .unwrap();
    db.close().unwrap();
    Db::repair(&path, Options::default()).unwrap();
    let mut seen = 0;
    let mut waiting = vec![path, made.path];
    waiting.extend(["checkpoint", "backups", "new"].map(|name| dir.path().join(name)));
    while let Some(next) = waiting.pop() {
        let metadata = std::fs::symlink_metadata(&next).unwrap();
        let mode = metadata.permissions().mode() & 0o777;
        assert_eq!(mode, if metadata.is_dir() { 0o700 } else { 0o600 }, "{}", next.display());
        seen += 1;
        if metadata.is_dir() {
            waiting.extend(std::fs::read_dir(next).unwrap().map(|e| e.unwrap().path()));
        }
    }
    assert!(seen > 15, "{seen} files");
}

/// A file size limit of the process, which acts like a full device.
fn short_files(dir: &Path) {
    let set = |current: Option<u64>| {
        setrlimit(Resource::Fsize, Rlimit { current, maximum: None }).unwrap();
    };
    // SAFETY: ignoring a signal runs no code of this program. A write beyond the limit then fails.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
    for wal_io in esker::WalIo::ALL {
        let options = || Options {
            wal_io: *wal_io,
            memtable_size_bytes: Some(1 << 20),
            compression: esker::Compression::None,
            ..Options::default()
        };
        let path = dir.join(wal_io.name());
        let db = Db::open(&path, options()).unwrap();
        set(Some(300 << 10));
        let mut kept = 0;
        let full = loop {
            match db.put(key(kept), [kept as u8; 1000]) {
                Ok(()) => kept += 1,
                Err(error) => break error,
            }
            assert!(kept < 10_000, "files have no limit");
        };
        assert!([ErrorKind::NoSpace, ErrorKind::Io].contains(&full.kind()), "{full}");
        let check = |db: &Db| {
            for i in 0..kept {
                assert_eq!(db.get(key(i)).unwrap().as_deref(), Some(&[i as u8; 1000][..]), "{i}");
            }
        };
        check(&db);
        set(None);
        drop(db);
        let db = Db::open(&path, options()).unwrap();
        check(&db);
        db.put_with("after", "all", &WriteOptions::SYNC).unwrap();
        db.close().unwrap();
    }
}

#[test]
fn file_size_limit_loses_nothing() {
    let dir = tempfile::tempdir().unwrap();
    run_alone("file size", dir.path());
}

#[test]
fn store_on_full_device_keeps_reading_and_resumes() {
    let Ok(disk) = std::env::var("ESKER_SMALL_DISK") else {
        eprintln!("no ESKER_SMALL_DISK: see scripts/limits.sh");
        return;
    };
    let ballast = Path::new(&disk).join("ballast");
    std::fs::write(&ballast, vec![1; 3 << 20]).unwrap();
    let wal_io = Options::default().wal_io;
    fills_up_and_resumes(Path::new(&disk), wal_io, &|| std::fs::remove_file(&ballast).unwrap());
}

#[test]
fn store_on_device_without_inodes_keeps_reading_and_resumes() {
    let Ok(disk) = std::env::var("ESKER_FEW_INODES") else {
        eprintln!("no ESKER_FEW_INODES: see scripts/limits.sh");
        return;
    };
    let ballast = Path::new(&disk).join("ballast");
    std::fs::create_dir(&ballast).unwrap();
    for i in 0..20 {
        std::fs::write(ballast.join(i.to_string()), "").unwrap();
    }
    let wal_io = Options::default().wal_io;
    fills_up_and_resumes(Path::new(&disk), wal_io, &|| std::fs::remove_dir_all(&ballast).unwrap());
}

/// Sets a user's quota on a file system, as root.
fn set_quota(device: &str, user: u32, bytes: u64) {
    let (set_user_quota, hard_limit) = ((0x0080_0008 << 8) as libc::c_int, 1);
    let device = std::ffi::CString::new(device).unwrap();
    // SAFETY: all-zero bytes are a valid `dqblk`, which has only integers.
    let mut limits: libc::dqblk = unsafe { std::mem::zeroed() };
    (limits.dqb_bhardlimit, limits.dqb_valid) = (bytes / 1024, hard_limit);
    let address = (&raw mut limits).cast();
    // SAFETY: the name ends with a zero, the limits are initialized, and both outlive the call.
    let set = unsafe { libc::quotactl(set_user_quota, device.as_ptr(), user as i32, address) };
    assert_eq!(set, 0, "{}", std::io::Error::last_os_error());
}

/// Gives the whole process the rights of `user`.
fn become_user(user: u32) {
    // SAFETY: the call reads and writes no memory of this program.
    assert_eq!(unsafe { libc::seteuid(user) }, 0, "{}", std::io::Error::last_os_error());
}

#[test]
fn store_over_quota_keeps_reading_and_resumes() {
    let (Ok(disk), Ok(device)) =
        (std::env::var("ESKER_QUOTA"), std::env::var("ESKER_QUOTA_DEVICE"))
    else {
        eprintln!("no ESKER_QUOTA: see scripts/limits.sh");
        return;
    };
    for (user, wal_io) in (4242..).zip(esker::WalIo::ALL) {
        let own = Path::new(&disk).join(wal_io.name());
        std::fs::create_dir(&own).unwrap();
        std::os::unix::fs::chown(&own, Some(user), None).unwrap();
        set_quota(&device, user, 8 << 20);
        become_user(user);
        let exceeded = std::fs::write(own.join("too much"), vec![1; 9 << 20]).unwrap_err();
        assert_eq!(exceeded.kind(), std::io::ErrorKind::QuotaExceeded, "{exceeded}");
        std::fs::remove_file(own.join("too much")).unwrap();
        let more = || {
            become_user(0);
            set_quota(&device, user, 24 << 20);
            become_user(user);
        };
        fills_up_and_resumes(&own, *wal_io, &more);
        become_user(0);
    }
}

/// Writes to a store on `disk` until a write fails for lack of space. `free` makes space.
fn fills_up_and_resumes(disk: &Path, wal_io: esker::WalIo, free: &dyn Fn()) {
    let options = || Options {
        wal_io,
        memtable_size_bytes: Some(256 << 10),
        file_size_max_bytes: 256 << 10,
        compression: esker::Compression::None,
        ..Options::default()
    };
    let db = Db::open(disk.join("db"), options()).unwrap();
    let value = |i: u64| vec![i as u8; 1000];
    let mut kept = 0;
    let full = loop {
        match db.put_with(key(kept), value(kept), &WriteOptions::SYNC) {
            Ok(()) => kept += 1,
            Err(error) => break error,
        }
        assert!(kept < 100_000, "the device is not small");
    };
    assert_eq!(full.kind(), ErrorKind::NoSpace, "{full}");
    let check = |db: &Db, kept: u64| {
        for i in 0..kept {
            assert_eq!(db.get(key(i)).unwrap().as_deref(), Some(&value(i)[..]), "{i} of {kept}");
        }
    };
    check(&db, kept);
    free();
    let goes_on = |db: &Db| db.put_with(key(kept), value(kept), &WriteOptions::SYNC);
    let db = if goes_on(&db).is_ok() {
        db
    } else {
        drop(db);
        let db = Db::open(disk.join("db"), options()).unwrap();
        goes_on(&db).unwrap();
        db
    };
    check(&db, kept + 1);
    db.flush().unwrap();
    assert!(db.verify(&mut |_, _| {}).unwrap().is_whole());
    db.close().unwrap();
    check(&Db::open(disk.join("db"), options()).unwrap(), kept + 1);
}
