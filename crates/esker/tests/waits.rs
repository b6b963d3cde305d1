//! Calls that wait for the store's threads, while writers never pause.
//!
//! Failure history these guard against: `flush` that waited until nothing was left to flush, which
//! took minutes while two threads wrote, and with it `checkpoint`, `backup` and `compact_range`.
//!
//! A filter policy is called by each flush and each merge, so one that waits decides when they end.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use esker::fs::mem::MemFs;
use esker::{Db, FilterPolicy, Options};

/// Against a test that hangs where it should fail.
const LONG: Duration = Duration::from_secs(120);

/// What has happened so far.
#[derive(Default)]
struct Story {
    /// Flushes that have begun.
    flushes: u32,
    /// Writers have filled more memtables since the first of them began.
    filled: bool,
    /// The call has returned.
    returned: bool,
    /// Someone waited in vain.
    in_vain: bool,
}

/// Ends the first flush when writers have filled more memtables, the second when the call that waits
/// has returned.
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

/// `call` must return although memtables are frozen all the time, once what was there is flushed.
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
    assert!(!story.in_vain, "{what} waited for what was written after it was called");
    assert!(story.filled && story.flushes >= 1, "{what} flushed nothing");
    drop(story);
    assert_eq!(db.get("before").unwrap().as_deref(), Some(&b"the call"[..]));
    db.close().unwrap();
}

#[test]
fn flush_waits_for_what_was_there_and_no_more() {
    returns_under_writers("flush", |db| db.flush().unwrap());
}

#[test]
fn checkpoint_waits_for_what_was_there_and_no_more() {
    returns_under_writers("checkpoint", |db| db.checkpoint("/checkpoint").unwrap());
}

#[test]
fn backup_waits_for_what_was_there_and_no_more() {
    returns_under_writers("backup", |db| {
        assert_eq!(db.backup(Path::new("/backups")).unwrap().number, 1);
    });
}

#[test]
fn compact_range_waits_for_what_was_there_and_no_more() {
    returns_under_writers("compact_range", |db| db.compact_range(None, None).unwrap());
}
