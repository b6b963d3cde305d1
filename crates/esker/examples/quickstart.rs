//! Opens a store, writes, reads, deletes and scans.

use esker::{Db, Options, Result};

/// Runs the example.
pub fn main() -> Result<()> {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let db = Db::open(dir.path().join("fruit"), Options::default())?;

    db.put("apple", "red")?;
    db.put("banana", "yellow")?;
    db.put("cherry", "dark red")?;

    assert_eq!(&*db.get("apple")?.expect("just written"), b"red");
    assert!(db.remove("banana")?);
    assert!(!db.contains_key("banana")?);

    for pair in db.iter()? {
        let (key, value) = pair?;
        println!("{} is {}", key.escape_ascii(), value.escape_ascii());
    }
    db.close()
}
