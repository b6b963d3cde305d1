//! Setting options by field, by the names other stores use, and while the store is open.

use esker::{Db, Durability, Options, Policy, Result};

/// Runs the example.
pub fn main() -> Result<()> {
    let dir = tempfile::tempdir().expect("a temporary directory");

    // The five most important options: memory, durability, policy, compression, filter.
    let mut options = Options {
        memory_budget_bytes: Some(128 << 20),
        durability: Durability::Buffered,
        policy: Policy::Fluid,
        ..Options::default()
    };
    options.set("compression", "zstd")?;
    options.set("bloom_bits", "12")?;
    options.set("write_buffer_size", "4MiB")?;

    let db = Db::open(dir.path().join("db"), options)?;
    db.put("k", "v")?;

    // Some options can change while the store is open. A call changes all of them or none.
    db.set_options(&[("cache_size_bytes", "32MiB"), ("policy", "leveled")])?;
    assert_eq!(db.option("policy").as_deref(), Some("leveled"));

    // The error message names the valid option.
    let error = db.set_options(&[("block_sise", "8k")]).expect_err("misspelt");
    println!("{error}");

    for spec in esker::schema::OPTIONS.iter().take(3) {
        println!("{} ({}): {}", spec.name, spec.range, spec.doc);
    }
    db.close()
}
