//! The tasks under db_bench's names, one row each.

use crate::error::{LabError, Result};
use crate::mix::mixgraph::Mixgraph;

/// Operation of a task on the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskKind {
    /// Writes rows, in order or at random.
    Fill {
        /// Random rows instead of rows in order.
        random: bool,
    },
    /// Deletes the keys of rows, in order or at random.
    Delete {
        /// Random rows instead of rows in order.
        random: bool,
    },
    /// Gets random keys.
    ReadRandom,
    /// Gets missing keys.
    ReadMissing,
    /// Gets random keys among the first hundredth.
    ReadHot,
    /// Gets random keys with multi-gets.
    MultiRead,
    /// Opens an iterator and seeks to a random key.
    SeekRandom,
    /// Opens an iterator at the first key.
    ReadFirst,
    /// Scans forward from the first key.
    ReadForward,
    /// Scans backward from the last key.
    ReadReverse,
    /// Compacts the whole store.
    Compact,
    /// Gets random keys while an additional thread overwrites.
    ReadWhileWriting,
    /// Gets, puts and scans in the shares and over the keys of RocksDB's mixgraph.
    Mixgraph,
    /// Loads the pairs in order as whole tables.
    BulkLoad,
    /// Pops the first key and pushes one behind the last, at a constant depth.
    Queue,
    /// Writes an account for each key, in order.
    FillAccounts,
    /// Transactions over two accounts each.
    Transact {
        /// Keys of a zipfian distribution instead of a uniform one.
        zipfian: bool,
        /// Moves an amount from one account to the other instead of only reading both.
        writes: bool,
    },
    /// Adds 1 to random accounts with a get and a put. Each thread has accounts of its own.
    Update,
    /// Adds 1 to random counters with a merge. A counter is an account without other bytes.
    Merge,
    /// Gets random accounts and compares their balances.
    ReadAccounts,
    /// Waits for the rest period, in which the store is not used.
    Rest,
    /// Computes checksums of 4 KiB blocks in the lab's own code, identical for every engine.
    Checksum,
    /// Closes and reopens the store.
    Open,
    /// Opens the store after a process that wrote random rows was killed.
    Recover,
    /// Prints the engine's own statistics.
    Stats,
}

/// One task of a benchmark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TaskSpec {
    /// Name on the command line and in records.
    pub name: &'static str,
    /// Kind of the task.
    pub kind: TaskKind,
    /// Whether it starts from an empty store.
    pub fresh: bool,
    /// Whether each write must survive power loss.
    pub sync: bool,
    /// Divisor of the benchmark's number of operations.
    pub divisor: u64,
    /// Value size in bytes, if different from the benchmark's.
    pub value_bytes: Option<usize>,
    /// One-line description.
    pub about: &'static str,
}

const fn row(name: &'static str, kind: TaskKind, fresh: bool, about: &'static str) -> TaskSpec {
    TaskSpec { name, kind, fresh, sync: false, divisor: 1, value_bytes: None, about }
}

const fn transact(zipfian: bool, writes: bool) -> TaskKind {
    TaskKind::Transact { zipfian, writes }
}

/// All tasks.
pub const TASKS: &[TaskSpec] = &[
    row("fillseq", TaskKind::Fill { random: false }, true, "write keys in order, empty store"),
    TaskSpec {
        sync: true,
        divisor: 1000,
        ..row("fillsync", TaskKind::Fill { random: true }, true, "write and sync, num/1000 times")
    },
    row("fillrandom", TaskKind::Fill { random: true }, true, "write at random, empty store"),
    row("overwrite", TaskKind::Fill { random: true }, false, "overwrite existing keys at random"),
    row("deleteseq", TaskKind::Delete { random: false }, false, "delete keys in order"),
    row("deleterandom", TaskKind::Delete { random: true }, false, "delete keys at random"),
    row("readrandom", TaskKind::ReadRandom, false, "get keys at random"),
    row("readmissing", TaskKind::ReadMissing, false, "get missing keys"),
    row("readhot", TaskKind::ReadHot, false, "get keys at random in the first hundredth"),
    row("multireadrandom", TaskKind::MultiRead, false, "get keys at random, batch_size per call"),
    row(
        "seekrandom",
        TaskKind::SeekRandom,
        false,
        "open an iterator, seek at random, read seek_nexts entries",
    ),
    TaskSpec {
        divisor: 10_000,
        ..row(
            "readfirst",
            TaskKind::ReadFirst,
            false,
            "open an iterator at the first key, num/10000",
        )
    },
    row("readseq", TaskKind::ReadForward, false, "scan forward"),
    row("readreverse", TaskKind::ReadReverse, false, "scan backward"),
    row("compact", TaskKind::Compact, false, "compact everything"),
    TaskSpec {
        divisor: 1000,
        value_bytes: Some(super::dataset::BIG_VALUE_BYTES),
        ..row("fill100K", TaskKind::Fill { random: true }, true, "write 100 kB values, num/1000")
    },
    row("readwhilewriting", TaskKind::ReadWhileWriting, false, "get while one thread overwrites"),
    row(
        "mixgraph",
        TaskKind::Mixgraph,
        false,
        "get, put and scan as Facebook's ZippyDB: hot key ranges, values and scans of all lengths",
    ),
    row("bulkload", TaskKind::BulkLoad, true, "load sorted pairs in bulk, empty store"),
    row(
        "queue",
        TaskKind::Queue,
        true,
        "pop the first key, push behind the last, queue_depth deep",
    ),
    row("fillaccounts", TaskKind::FillAccounts, true, "write an account per key, empty store"),
    row("randomtransaction", transact(false, true), false, "transfer between accounts at random"),
    row("zipfiantransaction", transact(true, true), false, "transfer between zipfian accounts"),
    TaskSpec {
        sync: true,
        divisor: 1000,
        ..row(
            "randomtransactionsync",
            transact(false, true),
            false,
            "transfer at random and sync, num/1000",
        )
    },
    TaskSpec {
        sync: true,
        divisor: 1000,
        ..row(
            "zipfiantransactionsync",
            transact(true, true),
            false,
            "transfer, zipfian, and sync, num/1000",
        )
    },
    row("readtransaction", transact(false, false), false, "read two accounts at random, commit"),
    row("updaterandom", TaskKind::Update, false, "add 1 to accounts at random: get and put"),
    row(
        "mergerandom",
        TaskKind::Merge,
        false,
        "add 1 to accounts at random by a merge, value_size 8",
    ),
    row("readaccounts", TaskKind::ReadAccounts, false, "get accounts at random"),
    row("rest", TaskKind::Rest, false, "do nothing for rest_ms"),
    row("crc32c", TaskKind::Checksum, false, "checksum 4 KiB blocks without an engine"),
    row("open", TaskKind::Open, false, "open the existing store"),
    row(
        "recover",
        TaskKind::Recover,
        false,
        "open a store whose process was killed after num writes",
    ),
    row("stats", TaskKind::Stats, false, "print the engine's statistics"),
];

/// Tasks run by default.
pub const TASKS_DEFAULT: &str = "fillseq,fillsync,fillrandom,overwrite,readrandom,readmissing,\
readhot,seekrandom,readseq,readreverse,compact,readrandom,readseq,readreverse,deleterandom,fill100K";

/// Parses a comma-separated list. Fails on an unknown name; the error lists the known names.
pub fn parse_tasks(list: &str) -> Result<Vec<TaskSpec>> {
    let mut tasks = Vec::new();
    for name in list.split(',').map(str::trim).filter(|name| !name.is_empty()) {
        match TASKS.iter().find(|task| task.name == name) {
            Some(task) => tasks.push(*task),
            None => {
                let known: Vec<&str> = TASKS.iter().map(|task| task.name).collect();
                return Err(LabError::usage(format!(
                    "unknown benchmark {name:?}; the benchmarks are {}",
                    known.join(", ")
                )));
            }
        }
    }
    if tasks.is_empty() {
        return Err(LabError::usage("no benchmark is given"));
    }
    Ok(tasks)
}

/// Returns the names, with repeated names numbered: `readrandom`, `readrandom#2`.
pub fn labels<'a>(names: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    let mut seen: Vec<&str> = Vec::new();
    let label = |name: &'a str| {
        let before = seen.iter().filter(|&&other| other == name).count();
        seen.push(name);
        if before == 0 { name.to_string() } else { format!("{name}#{}", before + 1) }
    };
    names.into_iter().map(label).collect()
}

/// Returns whether the task with this name (numbered or not) runs no engine code, so that its
/// figures do not describe an engine.
pub fn is_without_engine(name: &str) -> bool {
    let name = name.split('#').next().unwrap_or(name);
    TASKS.iter().any(|task| task.name == name && task.is_without_engine())
}

impl TaskSpec {
    /// Returns whether the task runs no engine code.
    pub fn is_without_engine(&self) -> bool {
        matches!(self.kind, TaskKind::Checksum | TaskKind::Stats | TaskKind::Rest)
    }

    /// Returns whether the task writes to the store.
    pub fn writes(&self) -> bool {
        match self.kind {
            TaskKind::Fill { .. } | TaskKind::Delete { .. } => true,
            TaskKind::BulkLoad | TaskKind::Queue | TaskKind::Mixgraph => true,
            TaskKind::FillAccounts | TaskKind::Update | TaskKind::Merge => true,
            TaskKind::Transact { writes, .. } => writes,
            _ => false,
        }
    }

    /// Returns the share of its operations that write, from 0 to 1. That of a mix is the default.
    pub fn write_share(&self) -> f64 {
        match self.kind {
            TaskKind::Mixgraph => Mixgraph::default().write_share(),
            _ => f64::from(u8::from(self.writes())),
        }
    }

    /// Returns whether the task works on accounts, which [`TaskKind::FillAccounts`] has written.
    pub fn uses_accounts(&self) -> bool {
        use TaskKind::{FillAccounts, Merge, ReadAccounts, Transact, Update};
        matches!(self.kind, FillAccounts | Transact { .. } | Update | Merge | ReadAccounts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn default_tasks_parse_and_names_are_unique() {
        assert!(parse_tasks(TASKS_DEFAULT).expect("known").len() > 10);
        for (index, task) in TASKS.iter().enumerate() {
            assert!(TASKS[index + 1..].iter().all(|other| other.name != task.name));
        }
    }

    #[test]
    fn unknown_task_is_named_in_error() {
        let error = parse_tasks("fillseq,fillsideways").expect_err("unknown").to_string();
        assert!(error.contains("fillsideways") && error.contains("fillrandom"), "{error}");
        assert!(parse_tasks(" , ").is_err());
        assert!(["crc32c", "crc32c#2", "stats"].into_iter().all(is_without_engine));
        assert!(!["readrandom", "open", "compact", "serve"].into_iter().any(is_without_engine));
    }
}
