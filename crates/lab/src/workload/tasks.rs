//! The tasks, by the names db_bench gave them: one row each.

use crate::error::{LabError, Result};

/// What a task does with the store.
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
    /// Gets keys that are not there.
    ReadMissing,
    /// Gets random keys among the first hundredth.
    ReadHot,
    /// Gets random keys, many in one call.
    MultiRead,
    /// Opens an iterator and seeks, at random.
    SeekRandom,
    /// Opens an iterator at the first key.
    ReadFirst,
    /// Scans forward from the first key.
    ReadForward,
    /// Scans backward from the last key.
    ReadReverse,
    /// Compacts everything.
    Compact,
    /// Gets random keys while one more thread overwrites.
    ReadWhileWriting,
    /// Checksums 4 KiB blocks in the lab's own code: the same for every engine.
    Checksum,
    /// Closes and opens the store.
    Open,
    /// Prints the engine's own statistics.
    Stats,
}

/// One task of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TaskSpec {
    /// Its name on the command line and in records.
    pub name: &'static str,
    /// What it does.
    pub kind: TaskKind,
    /// Starts from an empty store.
    pub fresh: bool,
    /// Each write must survive power loss.
    pub sync: bool,
    /// It does one operation for this many of the run's.
    pub divisor: u64,
    /// Bytes of its values, where it does not use the run's.
    pub value_bytes: Option<usize>,
    /// One line for people.
    pub about: &'static str,
}

const fn row(name: &'static str, kind: TaskKind, fresh: bool, about: &'static str) -> TaskSpec {
    TaskSpec { name, kind, fresh, sync: false, divisor: 1, value_bytes: None, about }
}

/// Every task there is.
pub const TASKS: &[TaskSpec] = &[
    row("fillseq", TaskKind::Fill { random: false }, true, "write keys in order, empty store"),
    TaskSpec {
        sync: true,
        divisor: 1000,
        ..row("fillsync", TaskKind::Fill { random: true }, true, "write and sync, num/1000 times")
    },
    row("fillrandom", TaskKind::Fill { random: true }, true, "write at random, empty store"),
    row("overwrite", TaskKind::Fill { random: true }, false, "write at random over what is there"),
    row("deleteseq", TaskKind::Delete { random: false }, false, "delete keys in order"),
    row("deleterandom", TaskKind::Delete { random: true }, false, "delete keys at random"),
    row("readrandom", TaskKind::ReadRandom, false, "get keys at random"),
    row("readmissing", TaskKind::ReadMissing, false, "get keys that are not there"),
    row("readhot", TaskKind::ReadHot, false, "get keys at random in the first hundredth"),
    row("multireadrandom", TaskKind::MultiRead, false, "get keys at random, batch_size in a call"),
    row(
        "seekrandom",
        TaskKind::SeekRandom,
        false,
        "open an iterator, seek at random, walk on seek_nexts entries",
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
    row("crc32c", TaskKind::Checksum, false, "checksum 4 KiB blocks, no engine involved"),
    row("open", TaskKind::Open, false, "open the store that is there"),
    row("stats", TaskKind::Stats, false, "print the engine's statistics"),
];

/// The tasks run when none are named.
pub const TASKS_DEFAULT: &str = "fillseq,fillsync,fillrandom,overwrite,readrandom,readmissing,\
readhot,seekrandom,readseq,readreverse,compact,readrandom,readseq,readreverse,deleterandom,fill100K";

/// Reads a comma-separated list. Fails on an unknown name, saying which there are.
pub fn parse_tasks(list: &str) -> Result<Vec<TaskSpec>> {
    let mut tasks = Vec::new();
    for name in list.split(',').map(str::trim).filter(|name| !name.is_empty()) {
        match TASKS.iter().find(|task| task.name == name) {
            Some(task) => tasks.push(*task),
            None => {
                let known: Vec<&str> = TASKS.iter().map(|task| task.name).collect();
                return Err(LabError::usage(format!(
                    "unknown benchmark {name:?}; there are {}",
                    known.join(", ")
                )));
            }
        }
    }
    if tasks.is_empty() {
        return Err(LabError::usage("no benchmark is named"));
    }
    Ok(tasks)
}

/// The names, those that come again numbered: `readrandom`, `readrandom#2`.
pub fn labels<'a>(names: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    let mut seen: Vec<&str> = Vec::new();
    let label = |name: &'a str| {
        let before = seen.iter().filter(|&&other| other == name).count();
        seen.push(name);
        if before == 0 { name.to_string() } else { format!("{name}#{}", before + 1) }
    };
    names.into_iter().map(label).collect()
}

/// Whether the task of this name (numbered or not) runs no engine's code, so that nothing of it
/// says anything of an engine.
pub fn is_without_engine(name: &str) -> bool {
    let name = name.split('#').next().unwrap_or(name);
    TASKS.iter().any(|task| task.name == name && task.is_without_engine())
}

impl TaskSpec {
    /// Whether it runs no engine's code.
    pub fn is_without_engine(&self) -> bool {
        matches!(self.kind, TaskKind::Checksum | TaskKind::Stats)
    }

    /// Whether it writes to the store.
    pub fn writes(&self) -> bool {
        matches!(self.kind, TaskKind::Fill { .. } | TaskKind::Delete { .. })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_list_parses_and_names_are_unique() {
        assert!(parse_tasks(TASKS_DEFAULT).expect("known").len() > 10);
        for (index, task) in TASKS.iter().enumerate() {
            assert!(TASKS[index + 1..].iter().all(|other| other.name != task.name));
        }
    }

    #[test]
    fn an_unknown_task_is_named() {
        let error = parse_tasks("fillseq,fillsideways").expect_err("unknown").to_string();
        assert!(error.contains("fillsideways") && error.contains("fillrandom"), "{error}");
        assert!(parse_tasks(" , ").is_err());
        assert!(["crc32c", "crc32c#2", "stats"].into_iter().all(is_without_engine));
        assert!(!["readrandom", "open", "compact", "serve"].into_iter().any(is_without_engine));
    }
}
