//! A report from a snapshot while the store changes.

use esker::{Db, Options, Result};

/// Runs the example.
pub fn main() -> Result<()> {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let db = Db::open(dir.path().join("stock"), Options::default())?;
    for item in 0..1000 {
        db.put(format!("item/{item:04}"), "10")?;
    }

    let then = db.snapshot();
    db.delete_range("item/0000", "item/0500")?;
    db.put("item/0900", "0")?;

    let count = |iter: esker::DbIterator| iter.map(|p| p.map(|_| 1)).sum::<Result<u32>>();
    println!("then {} items, now {}", count(then.prefix("item/")?)?, count(db.prefix("item/")?)?);
    assert_eq!(count(then.prefix("item/")?)?, 1000);
    assert_eq!(count(db.prefix("item/")?)?, 500);
    assert_eq!(&*then.get("item/0900")?.expect("there then"), b"10");

    // Backwards, from a key, without copying.
    let mut iter = db.iter()?;
    iter.seek_for_prev("item/0750")?;
    iter.move_prev()?;
    assert_eq!(iter.key(), b"item/0749");
    Ok(())
}
