//! Property strings: LevelDB's, from Esker's metrics in LevelDB's format, and Esker's own.

use std::fmt::Write;

use esker::{Db, Metrics};

/// LevelDB's number of levels, and RocksDB's default. They have no properties of deeper levels.
pub const LEVELS: usize = 7;
const MIB: f64 = (1 << 20) as f64;

/// Returns the property `name`, or `None` for an unknown name.
pub fn property(db: &Db, name: &str) -> Option<String> {
    if let Some(option) = name.strip_prefix("esker.option.") {
        return db.option(option);
    }
    if let Some(level) = name.strip_prefix("leveldb.num-files-at-level") {
        return files_at_level(&db.metrics(), level);
    }
    match name {
        "esker.stats" => Some(format!("{:#?}\n", db.metrics())),
        "leveldb.stats" => Some(stats(&db.metrics())),
        "leveldb.sstables" => Some(sstables(db)),
        "leveldb.approximate-memory-usage" => Some(memory_bytes(&db.metrics()).to_string()),
        _ => None,
    }
}

/// Returns the number of files at a level. LevelDB's last level includes all deeper ones, so that
/// the sum over LevelDB's levels is correct.
pub fn files_at_level(metrics: &Metrics, level: &str) -> Option<String> {
    let digits = !level.is_empty() && level.bytes().all(|byte| byte.is_ascii_digit());
    let level = level.parse::<usize>().ok().filter(|level| digits && *level < LEVELS)?;
    let counted = metrics.levels.iter().filter(|l| l.level.min(LEVELS - 1) == level);
    Some(counted.map(|l| l.files).sum::<u64>().to_string())
}

/// Returns the statistics in LevelDB's table format. The time column holds a dash, because Esker
/// records no time per level.
fn stats(metrics: &Metrics) -> String {
    let mut text = String::from(
        "                               Compactions\n\
         Level  Files Size(MB) Time(sec) Read(MB) Write(MB)\n\
         --------------------------------------------------\n",
    );
    for level in &metrics.levels {
        if level.files > 0 || level.written_bytes > 0 {
            let _ = writeln!(
                text,
                "{:3} {:8} {:8.0} {:>9} {:8.0} {:9.0}",
                level.level,
                level.files,
                level.bytes as f64 / MIB,
                "-",
                level.read_bytes as f64 / MIB,
                level.written_bytes as f64 / MIB,
            );
        }
    }
    text
}

/// Lists the tables of each level, with size in bytes, first key and last key.
fn sstables(db: &Db) -> String {
    let tables = db.tables();
    let mut text = String::new();
    let deepest = tables.iter().map(|table| table.level).max().unwrap_or(0);
    for level in 0..=deepest.max(LEVELS - 1) {
        let _ = writeln!(text, "--- level {level} ---");
        for table in tables.iter().filter(|table| table.level == level) {
            let _ = writeln!(
                text,
                " {}:{}['{}' .. '{}']",
                table.number,
                table.size_bytes,
                table.smallest.escape_ascii(),
                table.largest.escape_ascii(),
            );
        }
    }
    text
}

fn memory_bytes(metrics: &Metrics) -> u64 {
    let memory = &metrics.memory;
    memory.active_memtable_bytes
        + memory.frozen_memtables_bytes
        + memory.cache_bytes
        + memory.cache_reserved_bytes
        + memory.cache_spare_bytes
        + memory.tables_bytes
}
