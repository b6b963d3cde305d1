//! Event listeners: what begins ends, nothing is delivered under a lock of the store, and neither a
//! panic nor an error of a listener reaches the store.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::common::gate::{Gate, GatePolicy, OpenAtEnd};
use crate::common::{files, image, tiny_options};
use esker::fs::{Fs, MemFs};
use esker::{Db, ErrorKind, Event, EventListener, KeyspaceOptions, Options, WriteOptions};
use esker_testkit::fault::{Fault, FaultFs, FaultKind, Op, OpMask};

const DIR: &str = "/db";

/// Keeps every event.
#[derive(Default)]
struct Recorder(Mutex<Vec<Event>>);

impl EventListener for Recorder {
    fn on_event(&self, event: &Event) {
        self.0.lock().unwrap().push(event.clone());
    }
}

impl Recorder {
    fn new() -> Arc<Recorder> {
        Arc::default()
    }

    fn events(&self) -> Vec<Event> {
        self.0.lock().unwrap().clone()
    }

    fn count(&self, is_it: impl Fn(&Event) -> bool) -> usize {
        self.events().iter().filter(|event| is_it(event)).count()
    }

    /// Waits until an event satisfies the condition.
    fn wait_for(&self, is_it: impl Fn(&Event) -> bool) {
        let began = std::time::Instant::now();
        while self.count(&is_it) == 0 {
            assert!(began.elapsed() < Duration::from_secs(120), "the event did not come");
            std::thread::yield_now();
        }
    }
}

fn with(listener: &Arc<impl EventListener + 'static>, options: Options) -> Options {
    let listener: Arc<dyn EventListener> = listener.clone();
    Options { listeners: vec![listener], ..options }
}

fn fill(db: &Db, count: u32, value: u8) {
    (0..count).for_each(|i| db.put((i * 7919 % 4096).to_be_bytes(), [value; 60]).unwrap());
}

/// Writes until flushes and compactions have happened, and checks the events against the metrics.
fn events_match_metrics(background_threads: u64) {
    let recorder = Recorder::new();
    let options = Options { background_threads: Some(background_threads), ..tiny_options() };
    let db = Db::open_on(MemFs::new(), DIR, with(&recorder, options)).unwrap();
    for round in 0..4 {
        fill(&db, 2_000, round);
        db.wait_idle().unwrap();
    }
    db.compact_range(None, None).unwrap();
    db.wait_idle().unwrap();
    let (metrics, tables) = (db.metrics(), db.tables());
    db.close().unwrap();
    let events = recorder.events();
    assert!(matches!(events.first(), Some(Event::Opened { read_only: false, .. })));
    assert!(matches!(events.last(), Some(Event::Closed { error: None, .. })), "{events:?}");
    assert_eq!((metrics.listener_panics, metrics.events_lost), (0, 0));

    let (mut running, mut flushes, mut flush_bytes) = (BTreeSet::new(), 0, 0);
    let (mut compactions, mut read_bytes, mut compaction_bytes) = (0, 0, 0);
    let (mut live, mut removed) = (BTreeMap::new(), 0);
    for event in &events {
        match event {
            Event::FlushBegan { job, .. } | Event::CompactionBegan { job, .. } => {
                assert!(running.insert(*job), "job {job} began twice");
            }
            Event::FlushEnded { job, written_bytes, memory_bytes, error, .. } => {
                assert!(running.remove(job) && error.is_none() && *memory_bytes > 0);
                (flushes, flush_bytes) = (flushes + 1, flush_bytes + written_bytes);
            }
            Event::CompactionEnded { job, read_bytes: read, written_bytes, error, .. } => {
                assert!(running.remove(job) && error.is_none(), "{event:?}");
                compactions += u64::from(*read > 0);
                (read_bytes, compaction_bytes) =
                    (read_bytes + read, compaction_bytes + written_bytes);
            }
            Event::TableCreated { number, size_bytes, .. } => {
                assert_eq!(live.insert(*number, *size_bytes), None, "{number}");
            }
            Event::TableRemoved { number, .. } => {
                assert!(live.remove(number).is_some(), "{number}");
                removed += 1;
            }
            _ => {}
        }
    }
    assert_eq!(running, BTreeSet::new());
    assert_eq!((flushes, flush_bytes), (metrics.flushes, metrics.flush_bytes));
    assert_eq!(compactions, metrics.compactions);
    assert_eq!(read_bytes, metrics.compaction_read_bytes);
    assert_eq!(compaction_bytes, metrics.compaction_bytes);
    assert!(flushes > 3 && compactions > 3, "{flushes} flushes, {compactions} compactions");
    // The last obsolete tables may be removed after the last event.
    assert!(removed > 3);
    for table in tables {
        assert_eq!(live.get(&table.number), Some(&table.size_bytes), "{table:?}");
    }
}

#[test]
fn events_of_jobs_are_paired_and_match_metrics() {
    events_match_metrics(1);
}

#[test]
fn events_of_jobs_match_metrics_without_threads() {
    events_match_metrics(0);
}

/// Calls the store from within a listener.
#[derive(Default)]
struct Caller {
    db: Mutex<Option<Db>>,
    /// Whether the calls include one that takes the lock of the writers.
    syncs: bool,
    calls: AtomicU64,
}

impl EventListener for Caller {
    fn on_event(&self, _: &Event) {
        let Some(db) = self.db.lock().unwrap().clone() else { return };
        let get = db.get("key").is_ok_and(|found| found.is_some());
        let _ = (db.metrics(), db.tables(), db.snapshot(), db.keyspaces());
        if self.syncs && get {
            db.sync().unwrap();
        }
        self.calls.fetch_add(1, SeqCst);
    }
}

#[test]
fn listener_is_called_without_lock() {
    for background_threads in [0, 1] {
        let syncs = background_threads == 0;
        let caller = Arc::new(Caller { syncs, ..Caller::default() });
        let options = Options { background_threads: Some(background_threads), ..tiny_options() };
        let db = Db::open_on(MemFs::new(), DIR, with(&caller, options)).unwrap();
        db.put("key", "value").unwrap();
        *caller.db.lock().unwrap() = Some(db.clone());
        fill(&db, 3_000, 1);
        assert!(db.remove("key").unwrap());
        db.put("key", "value").unwrap();
        db.flush().unwrap();
        db.keyspace("other", &KeyspaceOptions::default()).unwrap();
        db.drop_keyspace("other").unwrap();
        db.compact_range(None, None).unwrap();
        db.wait_idle().unwrap();
        assert!(caller.calls.load(SeqCst) > 10, "{background_threads} threads");
        assert_eq!(db.metrics().listener_panics, 0);
        caller.db.lock().unwrap().take();
        db.close().unwrap();
    }
}

struct Panics;

impl EventListener for Panics {
    fn on_event(&self, event: &Event) {
        if matches!(event, Event::FlushBegan { .. }) {
            panic!("deliberate panic of a listener");
        }
    }
}

#[test]
fn panic_of_listener_is_counted_and_store_continues() {
    let recorder = Recorder::new();
    let listeners: Vec<Arc<dyn EventListener>> = vec![Arc::new(Panics), recorder.clone()];
    let options = Options { listeners, ..tiny_options() };
    let fs = MemFs::new();
    let db = Db::open_on(fs.clone(), DIR, options.clone()).unwrap();
    for round in 0..3 {
        fill(&db, 500, round);
        db.flush().unwrap();
    }
    db.wait_idle().unwrap();
    assert_eq!(db.metrics().listener_panics, 1);
    db.put("after", "the panic").unwrap();
    db.close().unwrap();
    assert!(recorder.count(|event| matches!(event, Event::FlushEnded { .. })) >= 3);
    let is_report = |event: &Event| match event {
        Event::BackgroundError { error, .. } => error.to_string().contains("deliberate panic"),
        _ => false,
    };
    assert_eq!(recorder.count(is_report), 1);
    // Another opening calls the listener again.
    let db = Db::open_on(fs, DIR, options).unwrap();
    assert_eq!(db.get("after").unwrap().as_deref(), Some(&b"the panic"[..]));
    db.close().unwrap();
}

#[test]
fn stall_is_announced_while_it_lasts() {
    let (recorder, gate) = (Recorder::new(), Arc::new(Gate::default()));
    let options = Options {
        frozen_memtables_max: 1,
        filter_policy: Some(Arc::new(GatePolicy(gate.clone()))),
        ..tiny_options()
    };
    let db = Db::open_on(MemFs::new(), DIR, with(&recorder, options)).unwrap();
    gate.set(true);
    std::thread::scope(|scope| {
        // The scope waits for its threads, also when an assertion fails.
        let _open = OpenAtEnd(gate.clone());
        let writer = scope.spawn(|| fill(&db, 2_000, 1));
        // The flush thread is held, so another thread announces the stall.
        recorder.wait_for(|event| matches!(event, Event::StallBegan { is_stopped: true, .. }));
        assert!(!writer.is_finished());
        let has_ended = |event: &Event| matches!(event, Event::StallEnded { is_stopped: true, .. });
        assert_eq!(recorder.count(has_ended), 0);
        gate.open();
        writer.join().unwrap();
    });
    assert!(db.metrics().stalled_us > 0);
    db.close().unwrap();
    let (mut began, mut ended) = (0, 0);
    for event in recorder.events() {
        match event {
            Event::StallBegan { cause, bytes, .. } => {
                assert!(cause.contains("frozen_memtables_max") && bytes > 0, "{cause} {bytes}");
                began += 1;
            }
            Event::StallEnded { cause, duration, .. } => {
                assert!(cause.contains("frozen_memtables_max") && duration > Duration::ZERO);
                ended += 1;
            }
            _ => {}
        }
    }
    assert!(began > 0 && began == ended, "{began} began, {ended} ended");
}

#[test]
fn slowdown_is_announced_once_and_its_end_too() {
    let recorder = Recorder::new();
    let options = Options { debt_limit_bytes: Some(64 << 10), ..tiny_options() };
    let db = Db::open_on(MemFs::new(), DIR, with(&recorder, options)).unwrap();
    let is_slow = |event: &Event| matches!(event, Event::StallBegan { is_stopped: false, .. });
    for round in 0..=u8::MAX {
        if recorder.count(is_slow) > 0 {
            break;
        }
        fill(&db, 2_000, round);
    }
    assert!(recorder.count(is_slow) > 0, "no writer was slowed");
    db.compact_all().unwrap();
    db.wait_idle().unwrap();
    assert!(db.stall().is_none());
    recorder.wait_for(|event| matches!(event, Event::StallEnded { is_stopped: false, .. }));
    assert!(db.metrics().slowed_us > 0);
    db.close().unwrap();
    let mut open = false;
    for event in recorder.events() {
        match event {
            Event::StallBegan { is_stopped: false, cause, bytes, clears, .. } => {
                assert!(!open && cause.contains("slowed") && bytes > 0, "{cause} {bytes}");
                assert!(!clears.is_empty());
                open = true;
            }
            Event::StallEnded { is_stopped: false, duration, .. } => {
                assert!(open && duration > Duration::ZERO);
                open = false;
            }
            _ => {}
        }
    }
}

#[test]
fn repeated_error_of_flush_is_reported_once() {
    let (recorder, fs) = (Recorder::new(), FaultFs::new(MemFs::new()));
    let db = Db::open_on(fs.clone(), DIR, with(&recorder, tiny_options())).unwrap();
    fs.arm(Fault::for_ever(OpMask::of(&[Op::Create]), 1, FaultKind::NoSpace).on(".sst"));
    db.put("key", "value").unwrap();
    let refused = db.flush().unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::NoSpace, "{refused}");
    let failed = |event: &Event| matches!(event, Event::FlushEnded { error: Some(_), .. });
    while recorder.count(failed) < 4 {
        let _ = db.flush();
    }
    fs.disarm();
    db.flush().unwrap();
    db.close().unwrap();
    let mut reports = Vec::new();
    for event in recorder.events() {
        if let Event::BackgroundError { job, error, .. } = event {
            reports.push((job, error.kind()));
        }
    }
    assert_eq!(reports, [("flush".to_string(), ErrorKind::NoSpace)]);
    let flushed = |event: &Event| matches!(event, Event::FlushEnded { error: None, .. });
    assert_eq!(recorder.count(flushed), 1);
}

#[test]
fn failed_write_and_failed_close_are_reported() {
    let (recorder, fs) = (Recorder::new(), FaultFs::new(MemFs::new()));
    let db = Db::open_on(fs.clone(), DIR, with(&recorder, tiny_options())).unwrap();
    fs.arm(Fault::for_ever(OpMask::of(&[Op::Sync]), 1, FaultKind::Io).on(".wal"));
    for _ in 0..3 {
        assert!(db.put_with("key", "value", &WriteOptions::SYNC).is_err());
    }
    assert!(db.close().is_err());
    let of_write = |event: &Event| match event {
        Event::BackgroundError { job, .. } => job == "write",
        _ => false,
    };
    // The failed sync, and the refusal that follows from it.
    assert_eq!(recorder.count(of_write), 2, "{:?}", recorder.events());
    assert!(matches!(recorder.events().last(), Some(Event::Closed { error: Some(_), .. })));
}

#[test]
fn keyspaces_are_announced() {
    let recorder = Recorder::new();
    let db = Db::open_on(MemFs::new(), DIR, with(&recorder, tiny_options())).unwrap();
    let id = db.keyspace("users", &KeyspaceOptions::default()).unwrap().id();
    db.keyspace("users", &KeyspaceOptions::default()).unwrap();
    let delta = KeyspaceOptions::default().set("block_layout", "delta").unwrap();
    let other = db.keyspace("other", &delta).unwrap().id();
    db.rename_keyspace("users", "people").unwrap();
    db.drop_keyspace("people").unwrap();
    assert!(db.drop_keyspace("people").is_err());
    db.close().unwrap();
    let texts: Vec<String> = recorder
        .events()
        .iter()
        .map(ToString::to_string)
        .filter(|text| text.starts_with("keyspace"))
        .collect();
    let expected = [
        format!("keyspace {id} \"users\" created"),
        format!("keyspace {other} \"other\" created"),
        format!("keyspace {id} \"users\" renamed to \"people\""),
        format!("keyspace {id} \"people\" dropped"),
    ];
    assert_eq!(texts, expected);
}

#[test]
fn openings_report_options_and_recovery() {
    let (fs, dir) = (MemFs::new(), Path::new(DIR));
    let memtable_size_bytes = Some(1 << 20);
    let writing = Options { background_threads: Some(0), memtable_size_bytes, ..tiny_options() };
    let db = Db::open_on(fs.clone(), DIR, writing).unwrap();
    (0..20u32).for_each(|i| db.put(i.to_be_bytes(), [1; 20]).unwrap());
    // The files of a killed process, whose last record is incomplete.
    let mut left = files(&*fs, dir);
    db.close().unwrap();
    for (name, bytes) in &mut left {
        if name.ends_with(".wal") {
            let end = bytes.iter().rposition(|byte| *byte != 0).unwrap();
            bytes.truncate(end - 3);
        }
    }
    let killed = image(dir, &left);
    let recorder = Recorder::new();
    let db = Db::open_on(killed.clone(), DIR, with(&recorder, tiny_options())).unwrap();
    let opened = recorder.events().into_iter().find_map(|event| match event {
        Event::Opened { options, logs, is_closed_cleanly, .. } => {
            Some((options, logs, is_closed_cleanly))
        }
        _ => None,
    });
    let (options, logs, is_closed_cleanly) = opened.unwrap();
    assert_eq!((logs, is_closed_cleanly), (1, false));
    assert!(options.contains(&("memtable_size_bytes".to_string(), "4096".to_string())));
    assert!(options.iter().all(|(name, _)| name != "durability"), "{options:?}");
    let notes: Vec<String> = recorder
        .events()
        .into_iter()
        .filter_map(|event| match event {
            Event::RecoveryNote { note, .. } => Some(note),
            _ => None,
        })
        .collect();
    assert_eq!(notes, db.recovery_notes());
    assert!(!notes.is_empty());
    db.close().unwrap();

    // A reader has the events of its opening, and changes nothing.
    let (recorder, before) = (Recorder::new(), files(&*killed, dir));
    let options = with(&recorder, Options::default());
    let reader = Db::open_read_only_on(killed.clone(), DIR, options).unwrap();
    assert_eq!(reader.get(7u32.to_be_bytes()).unwrap().as_deref(), Some(&[1; 20][..]));
    reader.close().unwrap();
    let events = recorder.events();
    assert!(matches!(events[..], [Event::Opened { read_only: true, .. }]), "{events:?}");
    assert_eq!(files(&*killed, dir), before);
}

#[test]
fn failed_opening_is_reported() {
    let (fs, recorder) = (FaultFs::new(MemFs::new()), Recorder::new());
    Db::open_on(fs.clone(), DIR, tiny_options()).unwrap().close().unwrap();
    fs.arm(Fault::for_ever(OpMask::of(&[Op::Create]), 1, FaultKind::NoSpace).on(".wal"));
    let refused = Db::open_on(fs.clone(), DIR, with(&recorder, tiny_options())).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::NoSpace, "{refused}");
    let is_report = |event: &Event| match event {
        Event::BackgroundError { job, .. } => job == "opening",
        _ => false,
    };
    assert_eq!(recorder.count(is_report), 1);
    fs.disarm();
    Db::open_on(fs, DIR, tiny_options()).unwrap().close().unwrap();
}

#[test]
fn scrub_findings_are_reported() {
    let (fs, dir) = (MemFs::new(), Path::new(DIR));
    let db = Db::open_on(fs.clone(), DIR, tiny_options()).unwrap();
    fill(&db, 1_000, 1);
    db.flush().unwrap();
    db.close().unwrap();
    let mut damaged = files(&*fs, dir);
    for (name, bytes) in &mut damaged {
        if name.ends_with(".sst") {
            bytes[10] ^= 1;
        }
    }
    let recorder = Recorder::new();
    let options = Options {
        auto_compaction: false,
        scrub_bytes_per_second: 1 << 30,
        ..with(&recorder, tiny_options())
    };
    let fs: Arc<dyn Fs> = image(dir, &damaged);
    let db = Db::open_on(fs, DIR, options).unwrap();
    recorder.wait_for(|event| match event {
        Event::ScrubProblem { error, .. } => error.to_string().contains(".sst"),
        _ => false,
    });
    db.close().unwrap();
}

/// Makes no event, and records whether it was called.
#[derive(Default)]
struct Called(AtomicBool);

impl EventListener for Called {
    fn on_event(&self, _: &Event) {
        self.0.store(true, SeqCst);
    }
}

#[test]
fn default_listener_does_nothing_and_listeners_survive_changed_options() {
    struct Silent;
    impl EventListener for Silent {}
    let called = Arc::new(Called::default());
    let listeners: Vec<Arc<dyn EventListener>> = vec![Arc::new(Silent), called.clone()];
    let db = Db::open_on(MemFs::new(), DIR, Options { listeners, ..tiny_options() }).unwrap();
    db.set_options(&[("policy", "leveled")]).unwrap();
    called.0.store(false, SeqCst);
    db.put("key", "value").unwrap();
    db.flush().unwrap();
    db.close().unwrap();
    assert!(called.0.load(SeqCst));
}
