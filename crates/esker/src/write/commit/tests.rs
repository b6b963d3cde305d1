//! Tests of the group commit.

use super::*;
use crate::base::order::KeyOrder;
use crate::base::thresholds::Thresholds;
use crate::iter::hints::Hints;
use crate::memtable::{Memtable, Memtables};
use crate::metrics::Counters;
use crate::options::kinds::MemtableKind;
use crate::txn::oracle::CommitOracle;
use crate::wal::LogWriter;
use crate::write::hints::HintKeeper;

/// A store that panics or returns an error when it should make room.
struct Broken {
    panics: bool,
    counters: Counters,
}

impl CommitHooks for Broken {
    fn make_room(&self, _: &mut WriterState, _: Option<Instant>) -> Result<()> {
        assert!(!self.panics, "the store is broken");
        Err(Error::new(ErrorKind::NoSpace, "no room"))
    }
    fn missed_deadline(&self) -> Error {
        Error::new(ErrorKind::Busy, "the deadline has passed")
    }
    fn publish_hints(&self, _: u32, _: Arc<Hints>) {}
    fn request_hint_search(&self, _: Vec<u8>) {}
    fn close_log(&self, _: LogWriter) {}
    fn wait_recovered(&self, _: Option<Instant>) -> Result<()> {
        Ok(())
    }
    fn counters(&self) -> &Counters {
        &self.counters
    }
}

fn committer() -> Committer {
    Committer::new(WriterState {
        log: None,
        unsynced_logs: Vec::new(),
        memtables: Memtables::new(
            Arc::new(Memtable::new(MemtableKind::Btree, KeyOrder::Bytewise)),
            Vec::new(),
        ),
        others_bytes: 0,
        next_seqno: 1,
        recovered: false,
        logs_all: false,
        unlogged: false,
        next_log_requested: false,
        hints: HintKeeper::new(KeyOrder::Bytewise, &Thresholds::default()),
        tree_hints: Default::default(),
        oracle: CommitOracle::new(Arc::default(), 0),
        poisoned: None,
        visible: Arc::new(Visible::new(0)),
    })
}

#[test]
fn lock_precedes_writers_that_arrive_later() {
    /// A store in which a commit sets a mark.
    struct Marked(Counters);
    impl CommitHooks for Marked {
        fn make_room(&self, writer: &mut WriterState, _: Option<Instant>) -> Result<()> {
            writer.unlogged = true;
            Err(Error::new(ErrorKind::NoSpace, "no room"))
        }
        fn missed_deadline(&self) -> Error {
            Error::new(ErrorKind::Busy, "the deadline has passed")
        }
        fn publish_hints(&self, _: u32, _: Arc<Hints>) {}
        fn request_hint_search(&self, _: Vec<u8>) {}
        fn close_log(&self, _: LogWriter) {}
        fn wait_recovered(&self, _: Option<Instant>) -> Result<()> {
            Ok(())
        }
        fn counters(&self) -> &Counters {
            &self.0
        }
    }
    for round in 0..100 {
        let (committer, hooks) = (committer(), Marked(Counters::default()));
        std::thread::scope(|scope| {
            let held = committer.state.lock();
            let caller = scope.spawn(|| committer.lock().unlogged);
            while committer.next.try_lock().is_some() {
                std::thread::yield_now();
            }
            let write = || committer.commit(b"", 1, 0, Durability::Buffered, None, &hooks);
            let writers: Vec<_> = (0..2).map(|_| scope.spawn(write)).collect();
            while committer.queue.lock().requests.len() < writers.len() {
                std::thread::yield_now();
            }
            drop(held);
            assert!(!caller.join().unwrap(), "a writer got the lock first in round {round}");
            for writer in writers {
                assert_eq!(writer.join().unwrap().unwrap_err().kind(), ErrorKind::NoSpace);
            }
            assert!(committer.lock().unlogged);
        });
    }
}

#[test]
fn leader_panic_wakes_waiters_and_refuses_writes() {
    let committer = committer();
    let commit = |panics| {
        let (durability, check, deadline) = (Durability::Sync, None, None);
        let member = Member { payload: b"", count: 0, user_bytes: 0, durability, check, deadline };
        committer.commit_in_group(member, &Broken { panics, counters: Counters::default() })
    };
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| commit(true))).unwrap_err();
    let refused = commit(false).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::ReadOnly, "{refused}");
    assert!(refused.to_string().contains("panicked"), "{refused}");
}
