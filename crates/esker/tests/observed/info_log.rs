//! The files `LOG` and `STATUS` of a store: what they say, that no failure of theirs reaches a
//! caller, and that they belong to the store without being a part of its content.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use crate::common::{files, image, tiny_options};
use esker::fs::{Fs, MemFs, OsFs};
use esker::{Db, ErrorKind, Event, EventListener, KeyspaceOptions, Options};
use esker_testkit::fault::{Fault, FaultFs, FaultKind, Op, OpMask};

fn dir() -> &'static Path {
    Path::new("/db")
}

fn with_files() -> Options {
    Options { log_file: true, status_file: true, ..tiny_options() }
}

fn fill(db: &Db, count: u32) {
    (0..count).for_each(|i| db.put((i * 7919 % 4096).to_be_bytes(), [7; 60]).unwrap());
}

fn text(fs: &dyn Fs, name: &str) -> String {
    String::from_utf8(fs.read(&dir().join(name), 2 << 20).unwrap()).unwrap()
}

fn names(fs: &dyn Fs, path: &Path) -> Vec<String> {
    fs.list(path).unwrap().into_iter().map(|entry| entry.name).collect()
}

/// Returns the sentences of a log, and checks the time before each.
fn sentences(log: &str) -> Vec<String> {
    let sentence = |line: &str| {
        let (time, sentence) = line.split_once(' ').unwrap();
        let digits = |c: char| if c.is_ascii_digit() { '0' } else { c };
        let shape: String = time.chars().map(digits).collect();
        assert_eq!(shape, "0000-00-00T00:00:00.000Z", "{line}");
        sentence.to_string()
    };
    log.lines().map(sentence).collect()
}

#[test]
fn log_says_what_happened() {
    let fs = MemFs::new();
    let db = Db::open_on(fs.clone(), dir(), with_files()).unwrap();
    fill(&db, 3_000);
    db.keyspace("users", &KeyspaceOptions::default()).unwrap();
    db.flush().unwrap();
    db.compact_range(None, None).unwrap();
    db.wait_idle().unwrap();
    let compactions = db.metrics().compactions;
    db.close().unwrap();
    let first = sentences(&text(&*fs, "LOG"));
    let has =
        |parts: &[&str]| first.iter().any(|line| parts.iter().all(|part| line.contains(part)));
    assert!(first[0].starts_with("opened for writing in "), "{}", first[0]);
    assert!(first[0].contains("memtable_size_bytes=4096"), "{}", first[0]);
    assert!(has(&["flush 1 of ", " of memtables wrote ", " table", " in "]), "{first:#?}");
    assert!(has(&["compaction ", "from level 0 to level 1", ", because ", " read ", " wrote "]));
    assert!(has(&["keyspace ", "\"users\" created"]), "{first:#?}");
    assert_eq!(first.last().unwrap(), "closed");
    let merges = first.iter().filter(|line| line.starts_with("compaction ")).count() as u64;
    assert!(merges >= compactions, "{merges} of {compactions}");

    Db::open_on(fs.clone(), dir(), with_files()).unwrap().close().unwrap();
    let both = sentences(&text(&*fs, "LOG"));
    assert_eq!(both[..first.len()], first[..]);
    assert!(both[first.len()].contains("closed cleanly before"), "{}", both[first.len()]);
}

#[test]
fn errors_and_recovery_are_in_the_log() {
    let disk = MemFs::new();
    let fs = FaultFs::new(disk.clone());
    let db = Db::open_on(fs.clone(), dir(), with_files()).unwrap();
    fs.arm(Fault::for_ever(OpMask::of(&[Op::Create]), 1, FaultKind::NoSpace).on(".sst"));
    db.put("key", "value").unwrap();
    for _ in 0..3 {
        assert_eq!(db.flush().unwrap_err().kind(), ErrorKind::NoSpace);
    }
    fs.disarm();
    db.flush().unwrap();
    db.wait_idle().unwrap();
    (0..5u32).for_each(|i| db.put(i.to_be_bytes(), "logged").unwrap());
    let mut left = files(&*disk, dir());
    db.close().unwrap();
    let log = sentences(&text(&*disk, "LOG"));
    let errors = log.iter().filter(|line| line.starts_with("error in flush: "));
    assert_eq!(errors.count(), 1, "{log:#?}");

    // The process was killed, and the end of its log is lost.
    for (name, bytes) in &mut left {
        if name.ends_with(".wal") {
            let end = bytes.iter().rposition(|byte| *byte != 0).unwrap();
            bytes.truncate(end - 3);
        }
    }
    let killed = image(dir(), &left);
    let db = Db::open_on(killed.clone(), dir(), with_files()).unwrap();
    let notes: Vec<String> =
        db.recovery_notes().iter().map(|note| format!("recovery: {note}")).collect();
    db.close().unwrap();
    let log = sentences(&text(&*killed, "LOG"));
    assert!(!notes.is_empty() && notes.iter().all(|note| log.contains(note)), "{log:#?}");
    assert!(log.iter().any(|line| line.contains("not closed before")), "{log:#?}");
}

/// The store works whatever happens to its two files.
fn store_ignores_fault(ops: OpMask, kind: FaultKind, name: &str) -> u64 {
    let fs = FaultFs::new(MemFs::new());
    fs.arm(Fault::for_ever(ops, 1, kind).on(name));
    let db = Db::open_on(fs.clone(), dir(), with_files()).unwrap();
    fill(&db, 1_500);
    db.flush().unwrap();
    db.compact_range(None, None).unwrap();
    db.wait_idle().unwrap();
    assert!(db.verify(&mut |_, _| {}).unwrap().is_whole());
    let metrics = db.metrics();
    db.close().unwrap();
    let hits = fs.hits();
    fs.disarm();
    let db = Db::open_on(fs, dir(), with_files()).unwrap();
    assert_eq!(db.iter().unwrap().count(), 1_500);
    db.close().unwrap();
    assert!(hits > 0, "{name} {kind:?}");
    metrics.log_file_lines_lost + metrics.status_file_failures
}

#[test]
fn failures_of_both_files_are_counted_and_reach_nobody() {
    let kinds = [FaultKind::NoSpace, FaultKind::Quota, FaultKind::Io, FaultKind::ShortWrite];
    for kind in kinds {
        for name in ["LOG", "STATUS"] {
            assert!(store_ignores_fault(OpMask::ALL, kind, name) > 0, "{name} {kind:?}");
        }
    }
    for op in [Op::Create, Op::Write] {
        for name in ["LOG", "STATUS"] {
            let lost = store_ignores_fault(OpMask::of(&[op]), FaultKind::NoSpace, name);
            assert!(lost > 0, "{name} {op:?}");
        }
    }
    // The removal of the file at the close may fail too.
    store_ignores_fault(OpMask::of(&[Op::Remove]), FaultKind::Io, "STATUS");
}

#[test]
fn log_resumes_after_full_device() {
    let fs = FaultFs::new(MemFs::new());
    let options = Options { background_threads: Some(0), ..with_files() };
    let db = Db::open_on(fs.clone(), dir(), options).unwrap();
    fs.arm(Fault::for_ever(OpMask::of(&[Op::Write]), 1, FaultKind::NoSpace).on("LOG"));
    db.keyspace("lost", &KeyspaceOptions::default()).unwrap();
    fs.disarm();
    db.keyspace("kept", &KeyspaceOptions::default()).unwrap();
    assert!(db.metrics().log_file_lines_lost >= 1);
    db.close().unwrap();
    let log = text(&*fs, "LOG");
    // Half of the lost line may be there, but the next line is whole.
    assert!(log.lines().any(|line| line.ends_with("\"kept\" created")), "{log}");
    assert!(!log.contains("\"lost\" created"), "{log}");
    assert!(log.ends_with(" closed\n"), "{log}");
}

#[test]
fn full_log_is_renamed_once_and_both_are_bounded() {
    let fs = MemFs::new();
    fs.create_dir(dir()).unwrap();
    let old = vec![b'x'; (1 << 20) - 10];
    fs.create_new(&dir().join("LOG")).unwrap().append(&old).unwrap();
    fs.create_new(&dir().join("LOG.old")).unwrap().append(b"older").unwrap();
    let db = Db::open_on(fs.clone(), dir(), with_files()).unwrap();
    db.close().unwrap();
    assert_eq!(fs.read(&dir().join("LOG.old"), 2 << 20).unwrap(), old);
    assert!(sentences(&text(&*fs, "LOG"))[0].starts_with("opened for writing"));
}

#[test]
fn files_are_written_only_if_asked_for_and_never_by_readers() {
    let fs = MemFs::new();
    let side = ["LOG", "LOG.old", "STATUS"].map(String::from);
    let has_side = |fs: &dyn Fs| names(fs, dir()).iter().any(|name| side.contains(name));
    let db = Db::open_on(fs.clone(), dir(), tiny_options()).unwrap();
    fill(&db, 500);
    assert!(!has_side(&*fs));
    db.close().unwrap();
    assert!(!has_side(&*fs));
    let before = files(&*fs, dir());
    let reader = Db::open_read_only_on(fs.clone(), dir(), with_files()).unwrap();
    assert_eq!(reader.iter().unwrap().count(), 500);
    reader.close().unwrap();
    assert_eq!(files(&*fs, dir()), before);
    // The default of both options is on.
    let db = Db::open_on(fs.clone(), dir(), Options::default()).unwrap();
    assert!(names(&*fs, dir()).contains(&side[0]) && names(&*fs, dir()).contains(&side[2]));
    db.close().unwrap();
    assert!(names(&*fs, dir()).contains(&side[0]) && !names(&*fs, dir()).contains(&side[2]));
}

#[test]
fn copies_repairs_and_removals_know_both_files() {
    let fs: Arc<dyn Fs> = MemFs::new();
    let db = Db::open_on(fs.clone(), dir(), with_files()).unwrap();
    fill(&db, 500);
    db.checkpoint("/checkpoint").unwrap();
    let backup = db.backup("/backups").unwrap().path;
    let left = files(&*fs, dir());
    db.close().unwrap();
    for copy in [Path::new("/checkpoint"), backup.as_path()] {
        let names = names(&*fs, copy);
        assert!(!names.iter().any(|name| name.starts_with("LOG") || name == "STATUS"), "{names:?}");
    }
    // A backup that was opened has a log of its own, and can be removed all the same.
    Db::open_on(fs.clone(), &backup, with_files()).unwrap().close().unwrap();
    assert!(names(&*fs, &backup).contains(&"LOG".to_string()));
    let fs: Arc<dyn Fs> = image(dir(), &left);
    // A repair of what a killed process left keeps the log in its place.
    let log = text(&*fs, "LOG");
    let report = Db::repair_on(fs.clone(), dir(), with_files()).unwrap();
    assert_eq!(text(&*fs, "LOG"), log);
    assert!(!names(&*fs, &report.originals).contains(&"LOG".to_string()));
    let db = Db::open_on(fs.clone(), dir(), with_files()).unwrap();
    assert_eq!(db.iter().unwrap().count(), 500);
    db.close().unwrap();
    assert!(text(&*fs, "LOG").starts_with(&log));
    for name in names(&*fs, &report.originals) {
        fs.remove(&report.originals.join(name)).unwrap();
    }
    fs.remove_dir(&report.originals).unwrap();
    fs.create_new(&dir().join("STATUS")).unwrap();
    Db::destroy_on(fs.clone(), dir()).unwrap();
    assert!(!fs.exists(dir()).unwrap());
}

#[test]
fn logs_of_other_programs_are_neither_stores_nor_obstacles() {
    let fs: Arc<dyn Fs> = MemFs::new();
    fs.create_dir(dir()).unwrap();
    for name in ["LOG", "LOG.old", "STATUS"] {
        fs.create_new(&dir().join(name)).unwrap().append(b"another program's\n").unwrap();
    }
    for refused in [
        Db::destroy_on(fs.clone(), dir()).unwrap_err(),
        Db::repair_on(fs.clone(), dir(), with_files()).unwrap_err(),
        Db::open_read_only_on(fs.clone(), dir(), with_files()).unwrap_err(),
        Db::live_status_on(fs.clone(), dir()).unwrap_err(),
    ] {
        let kinds = [ErrorKind::NotFound, ErrorKind::Corruption];
        assert!(kinds.contains(&refused.kind()), "{refused}");
    }
    assert_eq!(fs.list(dir()).unwrap().len(), 3);
    let db = Db::open_on(fs.clone(), dir(), with_files()).unwrap();
    db.put("key", "value").unwrap();
    db.close().unwrap();
    let log = text(&*fs, "LOG");
    assert!(log.starts_with("another program's\n") && log.contains("opened for writing"), "{log}");
    assert_eq!(text(&*fs, "LOG.old"), "another program's\n");
    // Next to files of other programs no store is made.
    let fs: Arc<dyn Fs> = MemFs::new();
    fs.create_dir(dir()).unwrap();
    for name in ["LOG", "notes.txt"] {
        fs.create_new(&dir().join(name)).unwrap();
    }
    let refused = Db::open_on(fs, dir(), with_files()).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Incompatible, "{refused}");
}

#[test]
fn published_metrics_are_those_of_the_store() {
    let fs: Arc<dyn Fs> = MemFs::new();
    let before = SystemTime::now() - Duration::from_secs(1);
    let options = Options { background_threads: Some(0), ..with_files() };
    let db = Db::open_on(fs.clone(), dir(), options.clone()).unwrap();
    let live = Db::live_status_on(fs.clone(), dir()).unwrap();
    assert_eq!((live.process, live.version), (std::process::id(), 1));
    assert!(live.opened >= before && live.updated >= live.opened - Duration::from_secs(1));
    assert_eq!(live.metrics, db.metrics());
    assert_eq!(fs.read(&dir().join("STATUS"), 1 << 20).unwrap().len(), 8 << 10);
    let killed = files(&*fs, dir());
    db.close().unwrap();
    let refused = Db::live_status_on(fs.clone(), dir()).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::NotFound);
    assert!(refused.to_string().contains("not open for writing"), "{refused}");
    let refused = Db::live_status_on(fs, "/nowhere").unwrap_err();
    assert!(refused.to_string().contains("there is no store here"), "{refused}");

    // A killed process leaves its last publication, which the next one replaces.
    let fs: Arc<dyn Fs> = image(dir(), &killed);
    assert_eq!(Db::live_status_on(fs.clone(), dir()).unwrap(), live);
    let db = Db::open_on(fs.clone(), dir(), options).unwrap();
    assert!(Db::live_status_on(fs.clone(), dir()).unwrap().opened >= live.opened);
    // What is not a publication is refused, whatever its length.
    for content in [&b""[..], &[b' '; 8 << 10][..], &[b' '; 9 << 10][..]] {
        fs.remove(&dir().join("STATUS")).unwrap();
        fs.create_new(&dir().join("STATUS")).unwrap().append(content).unwrap();
        let refused = Db::live_status_on(fs.clone(), dir()).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Corruption, "{refused}");
    }
    db.close().unwrap();
}

#[test]
fn open_store_publishes_again_and_again() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("db");
    let db = Db::open(&path, Options::default()).unwrap();
    (0..100u32).for_each(|i| db.put(i.to_be_bytes(), "value").unwrap());
    let began = Instant::now();
    // The flush thread has no other work.
    loop {
        let live = Db::live_status(&path).unwrap();
        if live.version > 1 && live.metrics.user_ops == 100 {
            break;
        }
        assert!(began.elapsed() < Duration::from_secs(120), "{live:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(db.metrics().status_file_failures, 0);
    db.close().unwrap();
    let left = names(&*OsFs::shared(), &path);
    assert!(left.contains(&"LOG".to_string()) && !left.contains(&"STATUS".to_string()), "{left:?}");
}

/// Many readers see whole publications while the store writes them.
#[test]
fn readers_never_see_half_a_publication() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("db");
    let options = Options {
        memtable_size_bytes: Some(64 << 10),
        file_size_max_bytes: 64 << 10,
        rest_compaction: false,
        ..Options::default()
    };
    let db = Db::open(&path, options).unwrap();
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let mut version = 0;
                for _ in 0..2_000 {
                    let live = Db::live_status(&path).unwrap();
                    assert!(live.version >= version && live.metrics.user_ops <= 20_000);
                    version = live.version;
                }
            });
        }
        fill(&db, 20_000);
    });
    db.close().unwrap();
}

/// Counts the lines of the log at each event.
struct Order {
    fs: Arc<MemFs>,
}

impl EventListener for Order {
    fn on_event(&self, event: &Event) {
        // The log is written after the listeners were called.
        let log = self.fs.read(&dir().join("LOG"), 1 << 20).unwrap_or_default();
        let log = String::from_utf8(log).unwrap();
        assert!(!log.contains(&event.to_string()) || matches!(event, Event::Closed { .. }));
    }
}

#[test]
fn log_and_listeners_work_side_by_side() {
    let fs = MemFs::new();
    let listener: Arc<dyn EventListener> = Arc::new(Order { fs: fs.clone() });
    let options = Options { listeners: vec![listener], ..with_files() };
    let db = Db::open_on(fs.clone(), dir(), options).unwrap();
    fill(&db, 1_000);
    db.flush().unwrap();
    db.wait_idle().unwrap();
    assert_eq!(db.metrics().listener_panics, 0);
    db.close().unwrap();
    assert!(text(&*fs, "LOG").lines().count() > 3);
}
