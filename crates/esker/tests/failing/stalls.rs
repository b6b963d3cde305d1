//! Writes that have to wait: what they are told, and that every wait ends.
//!
//! A wait ends by a flush, by the error of a flush, or by the deadline of the write. A write that
//! returns `Busy` has written nothing. The tests shut a gate in the filter policy, which holds
//! every flush, or let the device fail.

use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::common::gate::{Gate, GatePolicy, OpenAtEnd};
use crate::common::processes::wait_until;
use crate::common::tiny_options;
use esker::fs::MemFs;
use esker::{
    Batch, Db, ErrorKind, Event, EventListener, KeyspaceOptions, Options, ReadOptions, Stall,
    WriteOptions,
};
use esker_testkit::fault::{Fault, FaultFs, FaultKind, Op, OpMask};

const DIR: &str = "/db";

/// Returns options of a store whose flushes wait at `gate`.
fn gated(gate: &Arc<Gate>) -> Options {
    Options {
        frozen_memtables_max: 1,
        filter_policy: Some(Arc::new(GatePolicy(gate.clone()))),
        ..tiny_options()
    }
}

/// Returns options of a write that waits for 20 ms at most.
fn briefly() -> WriteOptions {
    WriteOptions::default().deadline(Instant::now() + Duration::from_millis(20))
}

fn key(n: u64) -> [u8; 8] {
    n.wrapping_mul(0x9E37_79B9_7F4A_7C15).to_be_bytes()
}

/// Puts keys with deadlines until a put is refused. Returns the number of keys, and the error.
fn put_until_busy(db: &Db) -> (u64, esker::Error) {
    for n in 0..100_000 {
        if let Err(error) = db.put_with(key(n), [7; 100], &briefly()) {
            return (n, error);
        }
    }
    panic!("no put had to wait");
}

#[test]
fn write_without_wait_ignores_its_deadline() {
    let db = Db::open_on(MemFs::new(), DIR, tiny_options()).unwrap();
    let past = WriteOptions::SYNC.deadline(Instant::now());
    db.put_with("a", "1", &past).unwrap();
    db.delete_with("a", &past).unwrap();
    db.put_with("b", "2", &past.deadline(None)).unwrap();
    assert_eq!(db.iter().unwrap().count(), 1);
    assert!(db.stall().is_none());
    db.close().unwrap();
}

#[test]
fn write_returns_busy_at_its_deadline_and_writes_nothing() {
    let gate = Gate::shut();
    let db = Db::open_on(MemFs::new(), DIR, gated(&gate)).unwrap();
    let _open = OpenAtEnd(gate.clone());
    let (count, busy) = put_until_busy(&db);
    assert_eq!(busy.kind(), ErrorKind::Busy, "{busy}");
    let message = busy.to_string();
    assert!(message.contains("memtable") && message.contains("written to tables"), "{message}");
    assert!(message.contains("nothing was written"), "{message}");
    // Each kind of write.
    let keyspace = db.keyspace("other", &KeyspaceOptions::default()).unwrap();
    let mut batch = Batch::new();
    batch.put("batch", "1").put_in(&keyspace, "batch", "1");
    let large = vec![1; 2 << 20];
    let refusals = [
        db.put_with("put", "1", &briefly()),
        db.delete_with(key(0), &briefly()),
        db.write_with(&batch, &briefly()),
        keyspace.put_with("put", "1", &briefly()),
        db.put_with("sync", "1", &WriteOptions::SYNC.deadline(Instant::now())),
        db.put_with("large", &large, &briefly()),
    ];
    for refused in refusals {
        assert_eq!(refused.unwrap_err().kind(), ErrorKind::Busy);
    }
    let seqno = db.metrics().last_seqno;
    gate.open();
    db.wait_idle().unwrap();
    assert_eq!(db.metrics().last_seqno, seqno);
    assert_eq!(db.iter().unwrap().count() as u64, count);
    assert_eq!(keyspace.iter().unwrap().count(), 0);
    wait_until("the end of the stall", || db.stall().is_none());
    db.put_with("after", "1", &briefly()).unwrap();
    db.close().unwrap();
}

#[test]
fn stall_names_cause_bytes_and_end_while_it_lasts() {
    #[derive(Default)]
    struct Recorder(Mutex<Vec<Event>>);
    impl EventListener for Recorder {
        fn on_event(&self, event: &Event) {
            self.0.lock().unwrap().push(event.clone());
        }
    }
    let (gate, recorder) = (Gate::shut(), Arc::new(Recorder::default()));
    let options = Options { listeners: vec![recorder.clone()], ..gated(&gate) };
    let db = Db::open_on(MemFs::new(), DIR, options).unwrap();
    let _open = OpenAtEnd(gate.clone());
    std::thread::scope(|scope| {
        // The scope waits for its threads, also when an assertion fails.
        let _open = OpenAtEnd(gate.clone());
        let patient = scope.spawn(|| (0..400).try_for_each(|n| db.put(key(n), [7; 100])));
        let is_seen = |stall: Stall| stall.is_stopped && stall.clears.contains("running flush");
        wait_until("a stall behind a running flush", || db.stall().is_some_and(is_seen));
        let stall = db.stall().unwrap();
        assert!(stall.cause.contains("frozen_memtables_max"), "{stall}");
        assert!(stall.bytes > 0 && stall.clears.contains("flush"), "{stall}");
        // A write behind the waiting one gets the same sentence.
        let busy = db.put_with("late", "1", &briefly()).unwrap_err();
        assert_eq!(busy.kind(), ErrorKind::Busy);
        assert!(busy.to_string().contains(&stall.to_string()), "{busy} and {stall}");
        assert!(!patient.is_finished());
        assert!(db.stall().unwrap().duration >= stall.duration);
        gate.open();
        patient.join().unwrap().unwrap();
    });
    assert_eq!(db.iter().unwrap().count(), 400);
    db.close().unwrap();
    let events = recorder.0.lock().unwrap();
    let began = events.iter().find_map(|event| match event {
        Event::StallBegan { clears, .. } => Some(clears.clone()),
        _ => None,
    });
    assert!(began.unwrap().contains("flush"));
    assert!(events.iter().any(|event| match event {
        Event::StallEnded { clears, duration, .. } =>
            clears.contains("flush") && *duration > Duration::ZERO,
        _ => false,
    }));
}

#[test]
fn writers_of_one_group_keep_their_own_deadlines() {
    for durability in [WriteOptions::BUFFERED, WriteOptions::SYNC] {
        let gate = Gate::shut();
        let db = Db::open_on(MemFs::new(), DIR, gated(&gate)).unwrap();
        let _open = OpenAtEnd(gate.clone());
        let is_open = AtomicBool::new(false);
        let written: Mutex<Vec<u64>> = Mutex::default();
        let refused: Mutex<Vec<u64>> = Mutex::default();
        std::thread::scope(|scope| {
            let _open = OpenAtEnd(gate.clone());
            let writer = |thread: u64| {
                let (db, written, refused, is_open) = (&db, &written, &refused, &is_open);
                move || {
                    let mut late = 0;
                    for n in 0.. {
                        let number = thread << 32 | n;
                        // The threads 0 and 1 wait as long as is needed.
                        let patience = Duration::from_millis(thread);
                        let deadline = (thread > 1).then(|| Instant::now() + patience);
                        let options = durability.deadline(deadline);
                        match db.put_with(number.to_be_bytes(), [7; 100], &options) {
                            Ok(()) => written.lock().unwrap().push(number),
                            Err(error) => {
                                assert_eq!(error.kind(), ErrorKind::Busy, "{error}");
                                assert!(thread > 1);
                                refused.lock().unwrap().push(number);
                                late += 1;
                            }
                        }
                        if is_open.load(SeqCst) && (n > 60 || late > 0) {
                            break;
                        }
                    }
                }
            };
            let writers: Vec<_> = (0..6).map(|thread| scope.spawn(writer(thread))).collect();
            wait_until("a refusal", || refused.lock().unwrap().len() > 20);
            is_open.store(true, SeqCst);
            gate.open();
            writers.into_iter().for_each(|writer| writer.join().unwrap());
        });
        db.flush().unwrap();
        let (written, refused) = (written.into_inner().unwrap(), refused.into_inner().unwrap());
        for number in &written {
            assert!(db.contains_key(number.to_be_bytes()).unwrap(), "{number:x} is lost");
        }
        for number in &refused {
            assert!(!db.contains_key(number.to_be_bytes()).unwrap(), "{number:x} was written");
        }
        assert_eq!(db.iter().unwrap().count(), written.len());
        db.close().unwrap();
    }
}

#[test]
fn debt_slows_a_write_and_its_deadline_ends_the_delay() {
    let gate = Gate::shut();
    let options = Options {
        frozen_memtables_max: 16,
        memtable_size_bytes: Some(32 << 10),
        debt_limit_bytes: Some(64 << 10),
        ..gated(&gate)
    };
    let db = Db::open_on(MemFs::new(), DIR, options).unwrap();
    let _open = OpenAtEnd(gate.clone());
    let mut kept = 0;
    let busy = loop {
        assert!(kept < 4_000, "no write was slowed");
        match db.put_with(key(kept), [7; 1000], &WriteOptions::default().deadline(Instant::now())) {
            Ok(()) => kept += 1,
            Err(error) => break error,
        }
    };
    assert_eq!(busy.kind(), ErrorKind::Busy, "{busy}");
    assert!(busy.to_string().contains("debt_limit_bytes"), "{busy}");
    let slowdown = db.stall().unwrap();
    assert!(!slowdown.is_stopped && slowdown.bytes > 32 << 10, "{slowdown}");
    assert_eq!(db.iter().unwrap().count() as u64, kept);
    gate.open();
    db.flush().unwrap();
    db.close().unwrap();
}

/// Writes values of `value_bytes` on two threads, one of them with deadlines, until both get the
/// error of a device whose tables cannot be created. Then the device works again.
fn waits_end_on_failing_device(value_bytes: usize, kind: FaultKind, expected: ErrorKind) {
    let fs = FaultFs::new(MemFs::new());
    let (value, is_large) = (vec![7; value_bytes], value_bytes > 1 << 20);
    let options = Options { frozen_memtables_max: 1, ..tiny_options() };
    let db = Db::open_on(fs.clone(), DIR, options).unwrap();
    fs.arm(Fault::for_ever(OpMask::of(&[Op::Create]), 1, kind).on(".sst"));
    let until_failed = |first: u64, patience: Option<Duration>| {
        let mut waits = 0;
        for n in first..first + 100_000 {
            let deadline = patience.map(|patience| Instant::now() + patience);
            let options = WriteOptions::default().deadline(deadline);
            match db.put_with(n.to_be_bytes(), &value, &options) {
                Err(error) if error.kind() == ErrorKind::Busy => {
                    assert!(patience.is_some());
                    waits += 1;
                    // The deadline of a large write may always pass before its turn comes.
                    if is_large && waits == 100 {
                        return error.kind();
                    }
                }
                Err(error) => return error.kind(),
                Ok(()) => {}
            }
        }
        panic!("no write failed");
    };
    std::thread::scope(|scope| {
        let patient = scope.spawn(|| until_failed(0, None));
        let busy = scope.spawn(|| until_failed(1 << 32, Some(Duration::from_millis(1))));
        assert_eq!(patient.join().unwrap(), expected);
        let busy = busy.join().unwrap();
        assert!(busy == expected || is_large && busy == ErrorKind::Busy, "{busy:?}");
    });
    assert_eq!(db.flush().unwrap_err().kind(), expected);
    fs.disarm();
    db.flush().unwrap();
    wait_until("the end of the stall", || db.stall().is_none());
    db.put("after", "1").unwrap();
    db.close().unwrap();
}

#[test]
fn waits_end_on_full_device() {
    waits_end_on_failing_device(100, FaultKind::NoSpace, ErrorKind::NoSpace);
}

#[test]
fn waits_end_on_failing_device_with_its_error() {
    waits_end_on_failing_device(100, FaultKind::Io, ErrorKind::Io);
}

#[test]
fn waits_of_large_values_end_on_full_or_failing_device() {
    waits_end_on_failing_device(2 << 20, FaultKind::NoSpace, ErrorKind::NoSpace);
    waits_end_on_failing_device(2 << 20, FaultKind::Io, ErrorKind::Io);
}

#[test]
fn waits_end_while_a_snapshot_is_held_for_ever() {
    let options = Options { frozen_memtables_max: 1, ..tiny_options() };
    let db = Db::open_on(MemFs::new(), DIR, options).unwrap();
    (0..50).for_each(|n| db.put(key(n), [0; 100]).unwrap());
    let snapshot = db.snapshot();
    let iter = snapshot.iter().unwrap();
    for round in 1..20u8 {
        (0..200).for_each(|n| db.put(key(n), [round; 100]).unwrap());
        (0..20).for_each(|n| db.delete(key(n)).unwrap());
    }
    db.flush().unwrap();
    db.wait_idle().unwrap();
    db.compact_range(None, None).unwrap();
    let large = vec![1; 2 << 20];
    (0..20).for_each(|n| db.put(key(1_000 + n), &large).unwrap());
    db.wait_idle().unwrap();
    assert!(db.stall().is_none());
    assert_eq!(iter.count(), 50);
    let at = ReadOptions::default().snapshot(&snapshot);
    assert_eq!(db.get_with(key(3), &at).unwrap().as_deref(), Some(&[0; 100][..]));
    drop(snapshot);
    db.close().unwrap();
}
