//! A store at rest, with its threads: it merges its runs, stops for writes, and nobody waits for it.

use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use crate::common::tiny_options;
use esker::fs::MemFs;
use esker::internals::Thresholds;
use esker::{Compression, Db, Event, EventListener, Options, Policy};

/// Limit for an awaited event, long enough for a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);
const NOTHING_LEFT: &str = "nothing is left to merge";
const INTERRUPTED: &str = "a write or other work came";
const BUSY: &str = "other programs need the processors";

/// Records events, and holds rest compactions at their begin while its gate is closed.
#[derive(Default)]
struct Recorder {
    events: Mutex<Vec<Event>>,
    is_gate_closed: Mutex<bool>,
    changed: Condvar,
}

impl EventListener for Recorder {
    fn on_event(&self, event: &Event) {
        self.events.lock().unwrap().push(event.clone());
        self.changed.notify_all();
        // A caller delivers events too, and must not wait for itself.
        let of_store = std::thread::current().name().is_some_and(|name| name.starts_with("esker-"));
        if of_store && is_rest_began(event) {
            let mut closed = self.is_gate_closed.lock().unwrap();
            while *closed {
                closed = self.changed.wait(closed).unwrap();
            }
        }
    }
}

impl Recorder {
    fn count(&self, wanted: impl Fn(&Event) -> bool) -> usize {
        self.events.lock().unwrap().iter().filter(|event| wanted(event)).count()
    }

    fn wait_for(&self, wanted: impl Fn(&Event) -> bool) {
        let began = Instant::now();
        while self.count(&wanted) == 0 {
            if began.elapsed() > PATIENCE {
                let events = self.events.lock().unwrap().clone();
                panic!("the event did not come: {events:?}");
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn set_gate(&self, closed: bool) {
        *self.is_gate_closed.lock().unwrap() = closed;
        self.changed.notify_all();
    }
}

fn is_rest_began(event: &Event) -> bool {
    matches!(event, Event::CompactionBegan { reason: "the store rests", .. })
}

fn is_rest_ended(event: &Event, wanted: &str) -> bool {
    matches!(event, Event::RestEnded { cause, .. } if *cause == wanted)
}

fn key(n: u32) -> [u8; 4] {
    (n * 7919 % 5_000).to_be_bytes()
}

fn open(policy: Policy, recorder: &Arc<Recorder>, options: Options) -> Db {
    let listeners: Vec<Arc<dyn EventListener>> = vec![recorder.clone()];
    let options = Options { policy, listeners, rest_compaction: true, ..options };
    Db::open_on(MemFs::new(), "/db", options).unwrap()
}

/// Returns options for runs of a few hundred KiB, which no compaction of the policy merges.
fn large_runs() -> Options {
    Options {
        memtable_size_bytes: Some(1 << 20),
        file_size_max_bytes: 1 << 20,
        compression: Compression::None,
        l0_runs_max: 100,
        merge_on_seeks: false,
        ..tiny_options()
    }
}

/// Does what `write` does without a rest in between, which would use a part of the allowance. On a
/// slow machine a writer may pause for longer than the wait before a rest.
fn without_rest(db: &Db, write: impl FnOnce()) {
    let before = db.option("rest_compaction").unwrap();
    db.set_options(&[("rest_compaction", "false")]).unwrap();
    write();
    db.set_options(&[("rest_compaction", &before)]).unwrap();
}

/// Writes runs, between which the store does not rest, on a machine of any speed.
fn write_runs(db: &Db, rounds: u8) {
    without_rest(db, || {
        for round in 0..rounds {
            (0..5_000).for_each(|n| db.put(key(n), [round; 60]).unwrap());
            db.flush().unwrap();
        }
    });
}

#[test]
fn store_at_rest_merges_until_nothing_is_left() {
    for policy in Policy::ALL {
        let recorder = Arc::new(Recorder::default());
        let db = open(*policy, &recorder, tiny_options());
        without_rest(&db, || {
            for round in 0..4 {
                (0..5_000).for_each(|n| db.put(key(n), [round; 20]).unwrap());
            }
            // Two runs for the rest, which no compaction of the policy merges. It may have merged all
            // that was written before.
            db.wait_idle().unwrap();
            db.set_options(&[("l0_runs_max", "100")]).unwrap();
            for _ in 0..2 {
                (0..100).for_each(|n| db.put(key(n), [3; 20]).unwrap());
                db.flush().unwrap();
            }
        });
        recorder.wait_for(|event| is_rest_ended(event, NOTHING_LEFT));
        let metrics = db.metrics();
        assert!(metrics.rest_compactions > 0, "{policy:?}");
        assert!(metrics.rest_compactions <= metrics.compactions, "{policy:?}");
        assert!(metrics.rest_bytes <= metrics.compaction_bytes, "{policy:?}");
        // The memtable keeps less than what is worth a table, but that is all.
        for n in 0..5_000 {
            assert_eq!(db.get(key(n)).unwrap().as_deref(), Some(&[3; 20][..]), "{policy:?}");
        }
        assert!(db.verify(&mut |_, _| {}).unwrap().is_whole());
        db.close().unwrap();
    }
}

#[test]
fn store_at_rest_flushes_large_memtable() {
    let recorder = Arc::new(Recorder::default());
    let db = open(Policy::Fluid, &recorder, large_runs());
    // A quarter of a memtable: as much as wakes a thread.
    (0..4_000).for_each(|n| db.put(key(n), [1; 60]).unwrap());
    recorder.wait_for(|event| matches!(event, Event::FlushEnded { error: None, .. }));
    assert_eq!(db.iter().unwrap().count(), 4_000);
}

#[test]
fn write_interrupts_rest_and_next_rest_completes_it() {
    let recorder = Arc::new(Recorder::default());
    let db = open(Policy::Fluid, &recorder, large_runs());
    recorder.set_gate(true);
    write_runs(&db, 6);
    recorder.wait_for(is_rest_began);
    // Nobody waits for the compaction, which is held at its begin.
    db.wait_idle().unwrap();
    db.put("new", "value").unwrap();
    recorder.set_gate(false);
    recorder.wait_for(|event| is_rest_ended(event, INTERRUPTED));
    // The interrupted compaction has used a part of the allowance, which may end the second rest.
    recorder.wait_for(|event| {
        matches!(event, Event::RestEnded { cause, compactions: 1.., .. } if *cause != INTERRUPTED)
    });
    let stopped = |event: &Event| {
        matches!(event, Event::CompactionEnded { error: Some(error), .. }
            if error.kind() == esker::ErrorKind::Closed)
    };
    assert!(recorder.count(stopped) > 0);
    assert_eq!(recorder.count(|event| matches!(event, Event::BackgroundError { .. })), 0);
    assert_eq!(db.get("new").unwrap().as_deref(), Some(&b"value"[..]));
    assert_eq!(db.iter().unwrap().count(), 5_001);
    db.close().unwrap();
}

/// The rest reads the pressure here as of the system.
#[test]
#[cfg(all(target_os = "linux", not(esker_portable)))]
fn rest_pauses_while_other_programs_need_the_processors() {
    let pressure = tempfile::tempdir().unwrap();
    let set = |resource: &str, percent: u32| {
        let text = format!("some avg10={percent}.00 avg60=0.00 avg300=0.00 total=0\n");
        let new = pressure.path().join("new");
        std::fs::write(&new, text).unwrap();
        std::fs::rename(new, pressure.path().join(resource)).unwrap();
    };
    set("cpu", 50);
    // That of devices may come from the rest itself, once it has begun.
    set("io", 0);
    let recorder = Arc::new(Recorder::default());
    let thresholds = Thresholds {
        rest_pressure_max_percent: 50,
        pressure_dir: pressure.path().to_str().unwrap().to_string().leak(),
        ..Thresholds::small()
    };
    let options = Options { thresholds, file_size_max_bytes: 128 << 10, ..large_runs() };
    let db = open(Policy::Fluid, &recorder, options);
    recorder.set_gate(true);
    write_runs(&db, 6);
    recorder.wait_for(is_rest_began);
    set("io", 99);
    set("cpu", 51);
    recorder.set_gate(false);
    recorder.wait_for(|event| is_rest_ended(event, BUSY));
    let merged = db.metrics().rest_compactions;
    assert!(merged > 0, "what had begun is completed");
    let runs = |db: &Db| db.metrics().levels.iter().map(|level| level.runs_max).max();
    assert!(runs(&db) > Some(1));
    set("io", 0);
    set("cpu", 3);
    recorder.wait_for(|event| {
        matches!(event, Event::RestEnded { cause, .. } if *cause != BUSY && *cause != INTERRUPTED)
    });
    assert!(db.metrics().rest_compactions > merged);
    db.close().unwrap();
}

#[test]
fn manual_compaction_and_close_do_not_wait_for_rest() {
    let recorder = Arc::new(Recorder::default());
    let db = open(Policy::Fluid, &recorder, large_runs());
    recorder.set_gate(true);
    write_runs(&db, 4);
    recorder.wait_for(is_rest_began);
    std::thread::scope(|scope| {
        let compacting = scope.spawn(|| db.compact_range(None, None));
        recorder.set_gate(false);
        compacting.join().unwrap().unwrap();
    });
    let runs: u64 = db.metrics().levels.iter().map(|level| level.runs_max).sum();
    assert_eq!(runs, 1);
    db.close().unwrap();
}

#[test]
fn rest_compaction_can_be_switched_on_and_off() {
    let recorder = Arc::new(Recorder::default());
    let options = Options { rest_compaction: false, ..large_runs() };
    let listeners: Vec<Arc<dyn EventListener>> = vec![recorder.clone()];
    let db = Db::open_on(MemFs::new(), "/db", Options { listeners, ..options }).unwrap();
    write_runs(&db, 4);
    db.wait_idle().unwrap();
    assert_eq!((recorder.count(is_rest_began), db.metrics().rest_compactions), (0, 0));
    db.set_options(&[("rest_compaction", "true")]).unwrap();
    recorder.wait_for(|event| is_rest_ended(event, NOTHING_LEFT));
    assert!(db.metrics().rest_compactions > 0);
    db.set_options(&[("rest_compaction", "false")]).unwrap();
    let before = db.metrics().rest_compactions;
    write_runs(&db, 2);
    db.wait_idle().unwrap();
    assert_eq!(db.metrics().rest_compactions, before);
}
