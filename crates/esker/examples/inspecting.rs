//! Reading a store's metrics: levels, amplification, memory.

use esker::{Db, Options, Result};

/// Runs the example.
pub fn main() -> Result<()> {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let mut options = Options::default();
    options.set("memtable_size_bytes", "64KiB")?;
    options.set("file_size_max_bytes", "64KiB")?;
    let db = Db::open(dir.path().join("db"), options)?;
    for i in 0..20_000u32 {
        db.put(i.wrapping_mul(2_654_435_761).to_be_bytes(), [7; 50])?;
    }
    db.flush()?;
    db.wait_idle()?;

    let metrics = db.metrics();
    println!("level guards runs files bytes");
    for l in &metrics.levels {
        println!("{:5} {:6} {:4} {:5} {:5}", l.level, l.guards, l.runs_max, l.files, l.bytes);
    }
    let amplification = metrics.write_amplification().expect("something was written");
    println!("write amplification {amplification:.2}");
    println!("memtables {} bytes", metrics.memory.active_memtable_bytes);
    println!("between 0x40… and 0x80…: {} bytes", db.approximate_size([0x40], [0x80])?);
    assert!(amplification > 1.0);
    assert_eq!(db.iter()?.count(), 20_000);
    Ok(())
}
