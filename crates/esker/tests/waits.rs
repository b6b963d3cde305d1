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
struct Story {
    /// Number of started flushes.
    flushes: u32,
    /// Whether writers have filled more memtables since the first flush began.
    filled: bool,
    /// Whether the call has returned.
    returned: bool,
    /// Whether a wait timed out.
    in_vain: bool,
}

/// Ends the first flush after writers have filled more memtables, and the second after the waiting
/// call has returned.
#[derive(Default)]
struct Director {
    story: Mutex<Story>,
    news: Condvar,
}

impl Director {
    fn tell(&self, what: impl FnOnce(&mut Story)) {
        what(&mut self.story.lock().unwrap());
        self.news.notify_all();
    }

    fn wait_until(&self, seen: impl Fn(&Story) -> bool) {
        let story = self.story.lock().unwrap();
        let goes_on = |story: &mut Story| !seen(story) && !story.in_vain;
        let (mut story, waited) = self.news.wait_timeout_while(story, LONG, goes_on).unwrap();
        story.in_vain |= waited.timed_out();
        self.news.notify_all();
    }
}

struct Policy(Arc<Director>);

impl FilterPolicy for Policy {
    fn name(&self) -> &str {
        "test.Director"
    }

    fn create(&self, _: &[&[u8]]) -> Vec<u8> {
        if std::thread::current().name() == Some("esker-flush") {
            self.0.tell(|story| story.flushes += 1);
            let flush = self.0.story.lock().unwrap().flushes;
            self.0.wait_until(|story| if flush == 1 { story.filled } else { story.returned });
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
    let director = Arc::new(Director::default());
    let options = Options {
        memtable_size_bytes: Some(64 << 10),
        filter_policy: Some(Arc::new(Policy(director.clone()))),
        ..Options::default()
    };
    let db = Db::open_on(MemFs::new(), "/db", options).unwrap();
    db.put("before", "the call").unwrap();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            director.wait_until(|story| story.flushes > 0);
            for i in 0u64.. {
                if stop.load(Relaxed) {
                    return;
                }
                db.put(i.to_be_bytes(), [0; 1000]).unwrap();
                if i % 16 == 0 && db.metrics().frozen_memtables > 2 {
                    director.tell(|story| story.filled = true);
                }
                if i % 16 == 0 && director.story.lock().unwrap().in_vain {
                    return;
                }
            }
        });
        call(&db);
        director.tell(|story| story.returned = true);
        stop.store(true, Relaxed);
    });
    let story = director.story.lock().unwrap();
    assert!(!story.in_vain, "{what} waited for writes that came after its call");
    assert!(story.filled && story.flushes >= 1, "{what} flushed nothing");
    drop(story);
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
