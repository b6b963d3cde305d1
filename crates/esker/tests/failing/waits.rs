//! Calls that wait for the store's threads while writers never pause.
//!
//! These tests guard against a past failure: `flush` waited until nothing was left to flush. This
//! took minutes while two threads wrote, and it affected `checkpoint`, `backup` and
//! `compact_range`.
//!
//! Each flush and each compaction calls the filter policy, so a policy that blocks controls when
//! they end.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use esker::fs::MemFs;
use esker::{Db, FilterPolicy, Options};

/// Timeout that turns a hang into a failure.
const LONG: Duration = Duration::from_secs(120);

/// The events so far.
#[derive(Default)]
struct Events {
    /// Number of started flushes.
    flushes: u32,
    /// Whether writers have filled more memtables since the first flush began.
    filled: bool,
    /// Whether the call has returned.
    returned: bool,
    /// Whether a wait timed out.
    timed_out: bool,
}

/// Ends the first flush after writers have filled more memtables, and the second after the waiting
/// call has returned.
#[derive(Default)]
struct FlushController {
    events: Mutex<Events>,
    changed: Condvar,
}

impl FlushController {
    fn update(&self, what: impl FnOnce(&mut Events)) {
        what(&mut self.events.lock().unwrap());
        self.changed.notify_all();
    }

    fn wait_until(&self, seen: impl Fn(&Events) -> bool) {
        let events = self.events.lock().unwrap();
        let goes_on = |events: &mut Events| !seen(events) && !events.timed_out;
        let (mut events, waited) = self.changed.wait_timeout_while(events, LONG, goes_on).unwrap();
        events.timed_out |= waited.timed_out();
        self.changed.notify_all();
    }
}

struct Policy(Arc<FlushController>);

impl FilterPolicy for Policy {
    fn name(&self) -> &str {
        "test.Director"
    }

    fn create(&self, _: &[&[u8]]) -> Vec<u8> {
        if std::thread::current().name() == Some("esker-flush") {
            self.0.update(|events| events.flushes += 1);
            let flush = self.0.events.lock().unwrap().flushes;
            self.0.wait_until(|events| if flush == 1 { events.filled } else { events.returned });
        }
        Vec::new()
    }

    fn may_contain(&self, _: &[u8], _: &[u8]) -> bool {
        true
    }
}

/// Checks that `call` returns once the data present at its start is flushed, although memtables are
/// frozen all the time.
fn returns_under_writers(what: &str, call: impl FnOnce(&Db)) {
    let controller = Arc::new(FlushController::default());
    let options = Options {
        memtable_size_bytes: Some(64 << 10),
        filter_policy: Some(Arc::new(Policy(controller.clone()))),
        ..Options::default()
    };
    let db = Db::open_on(MemFs::new(), "/db", options).unwrap();
    db.put("before", "the call").unwrap();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            controller.wait_until(|events| events.flushes > 0);
            for i in 0u64.. {
                if stop.load(Relaxed) {
                    return;
                }
                db.put(i.to_be_bytes(), [0; 1000]).unwrap();
                if i % 16 == 0 && db.metrics().frozen_memtables > 2 {
                    controller.update(|events| events.filled = true);
                }
                if i % 16 == 0 && controller.events.lock().unwrap().timed_out {
                    return;
                }
            }
        });
        call(&db);
        controller.update(|events| events.returned = true);
        stop.store(true, Relaxed);
    });
    let events = controller.events.lock().unwrap();
    assert!(!events.timed_out, "{what} waited for writes that came after its call");
    assert!(events.filled && events.flushes >= 1, "{what} flushed nothing");
    drop(events);
    assert_eq!(db.get("before").unwrap().as_deref(), Some(&b"the call"[..]));
    db.close().unwrap();
}

#[test]
fn flush_waits_only_for_earlier_writes() {
    returns_under_writers("flush", |db| db.flush().unwrap());
}

#[test]
fn checkpoint_waits_only_for_earlier_writes() {
    returns_under_writers("checkpoint", |db| db.checkpoint("/checkpoint").unwrap());
}

#[test]
fn backup_waits_only_for_earlier_writes() {
    returns_under_writers("backup", |db| {
        assert_eq!(db.backup(Path::new("/backups")).unwrap().number, 1);
    });
}

#[test]
fn compact_range_waits_only_for_earlier_work() {
    returns_under_writers("compact_range", |db| db.compact_range(None, None).unwrap());
}
