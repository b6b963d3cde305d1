//! A transfer between two accounts: both balances change or neither does, even after a crash.

use esker::codec::{Desc, Key};
use esker::{Batch, Db, Options, Result, WriteOptions};

/// Returns an account's balance; 0 for an unknown account.
fn balance(db: &Db, account: &str) -> Result<u64> {
    let stored = db.get(account)?;
    Ok(stored.and_then(|v| v.first_chunk::<8>().map(|b| u64::from_be_bytes(*b))).unwrap_or(0))
}

/// Runs the example.
pub fn main() -> Result<()> {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let db = Db::open(dir.path().join("bank"), Options::default())?;
    db.put("ada", 100u64.to_be_bytes())?;

    let amount = 30;
    let mut batch = Batch::new();
    batch.put("ada", (balance(&db, "ada")? - amount).to_be_bytes());
    batch.put("ben", (balance(&db, "ben")? + amount).to_be_bytes());
    // Typed keys: newest transfers first.
    batch.put(("log".to_string(), Desc(1u64)).encode(), "ada to ben: 30");
    // The write survives a power failure once this call returns.
    db.write_with(&batch, &WriteOptions::SYNC)?;

    assert_eq!((balance(&db, "ada")?, balance(&db, "ben")?), (70, 30));
    println!("ada has {}, ben has {}", balance(&db, "ada")?, balance(&db, "ben")?);
    db.close()
}
