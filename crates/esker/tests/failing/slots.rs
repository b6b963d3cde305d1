//! Slots of the change feed on a failing device: no change that their readers need is lost, and no
//! sync that failed is taken for one that succeeded.

use crate::common::tiny_options;
use esker::feed::SlotOptions;
use esker::fs::MemFs;
use esker::{Db, ErrorKind};
use esker_testkit::fault::{Fault, FaultFs, FaultKind, Op, OpMask};

const DIR: &str = "/db";

/// Returns the number of batches that the slot has not confirmed.
fn unread(db: &Db) -> usize {
    let slot = db.slot("reader").unwrap();
    let batches: esker::Result<Vec<_>> = slot.changes().unwrap().collect();
    batches.unwrap().len()
}

#[test]
fn unreadable_slot_keeps_its_logs() {
    let fs = FaultFs::new(MemFs::new());
    let db = Db::open_on(fs.clone(), DIR, tiny_options()).unwrap();
    db.subscribe("reader", &SlotOptions::default()).unwrap();
    (0..50_u8).for_each(|n| db.put([n], [n; 100]).unwrap());
    for kind in [FaultKind::Io, FaultKind::UnexpectedEof] {
        fs.arm(Fault::for_ever(OpMask::of(&[Op::Open, Op::Read]), 1, kind).on("slot-"));
        db.put("more", "1").unwrap();
        // Some of these fail, because the logs cannot be looked at.
        let _ = db.flush();
        fs.disarm();
        db.flush().unwrap();
    }
    assert_eq!(unread(&db), 52);
    db.close().unwrap();
    // An opening must know the slots before it removes logs.
    fs.arm(Fault::once(OpMask::of(&[Op::Open, Op::Read]), 1, FaultKind::Io).on("slot-"));
    let error = Db::open_on(fs.clone(), DIR, tiny_options()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Io, "{error}");
    assert!(error.to_string().contains("slot-reader"), "{error}");
    fs.disarm();
    let db = Db::open_on(fs, DIR, tiny_options()).unwrap();
    assert_eq!(unread(&db), 52);
    db.close().unwrap();
}

#[test]
fn failed_sync_for_a_slot_ends_writes_and_syncs_until_the_next_opening() {
    let fs = FaultFs::new(MemFs::new());
    let db = Db::open_on(fs.clone(), DIR, tiny_options()).unwrap();
    let slot = db.subscribe("reader", &SlotOptions::default()).unwrap();
    db.put("a", "1").unwrap();
    let position = slot.changes().unwrap().last().unwrap().unwrap().sequence;
    fs.arm(Fault::once(OpMask::of(&[Op::Sync]), 1, FaultKind::Io).on(".wal"));
    assert_eq!(slot.confirm(position).unwrap_err().kind(), ErrorKind::Io);
    assert_eq!(fs.hits(), 1);
    fs.disarm();
    let syncs = fs.counts().of(Op::Sync);
    for error in [
        slot.confirm(position).unwrap_err(),
        db.put("b", "2").unwrap_err(),
        db.sync().unwrap_err(),
        db.flush().unwrap_err(),
    ] {
        assert_eq!(error.kind(), ErrorKind::ReadOnly, "{error}");
        assert!(error.to_string().contains("a sync of a log failed"), "{error}");
    }
    assert_eq!(db.get("a").unwrap().as_deref(), Some(&b"1"[..]));
    assert_eq!(slot.position().unwrap(), 0);
    // The close does not say that everything was synced.
    assert!(db.close().unwrap_err().to_string().contains("a sync of a log failed"));
    assert_eq!(fs.counts().of(Op::Sync), syncs, "a log was synced again");
    let db = Db::open_on(fs, DIR, tiny_options()).unwrap();
    assert_eq!(unread(&db), 1);
    db.put("b", "2").unwrap();
    db.slot("reader").unwrap().confirm(position).unwrap();
    assert_eq!(unread(&db), 1);
    db.close().unwrap();
}
