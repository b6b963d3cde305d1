//! Takes a checkpoint while the store is written, then opens, verifies and reads it.

use esker::{Db, Options, Result};

/// Runs the example.
pub fn main() -> Result<()> {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let db = Db::open(dir.path().join("db"), Options::default())?;
    for day in 1..=28 {
        db.put(format!("2026-02-{day:02}"), format!("{} visits", day * 7))?;
    }

    let saved = dir.path().join("saved");
    db.checkpoint(&saved)?;
    db.put("2026-03-01", "after the checkpoint")?;

    let copy = Db::open_read_only(&saved, Options::default())?;
    let report = copy.verify(&mut |done, all| println!("verified {done} of {all} bytes"))?;
    assert!(report.is_whole());
    assert_eq!(report.entries, 28);
    assert!(copy.get("2026-03-01")?.is_none());
    assert!(db.get("2026-03-01")?.is_some());
    Ok(())
}
