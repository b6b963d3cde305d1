//! The commands of the scripts about transactions; `tests/isolation_scripts.rs` documents them.
//!
//! Invariants: a script runs on four stores at once, one for each mode. No call waits: a
//! transaction that meets a lock keeps the command, and runs it again after each end of another
//! transaction of its store. So the outputs depend on the order of the commands alone.

mod world;

use esker::{Concurrency, Isolation};

use world::World;

/// Output lines of a command, or a mistake in the script.
pub type Output = Result<Vec<String>, String>;

/// An isolation and a concurrency.
pub type Mode = (Isolation, Concurrency);

/// The modes, in the order in which their outputs are printed.
const MODES: [Mode; 4] = [
    (Isolation::Snapshot, Concurrency::Optimistic),
    (Isolation::Snapshot, Concurrency::Pessimistic),
    (Isolation::Serializable, Concurrency::Optimistic),
    (Isolation::Serializable, Concurrency::Pessimistic),
];

/// Names of sets of modes, by the positions of their members.
const LABELS: [(&[usize], &str); 12] = [
    (&[0], "snapshot optimistic"),
    (&[1], "snapshot pessimistic"),
    (&[2], "serializable optimistic"),
    (&[3], "serializable pessimistic"),
    (&[0, 1], "snapshot"),
    (&[2, 3], "serializable"),
    (&[0, 2], "optimistic"),
    (&[1, 3], "pessimistic"),
    (&[0, 1, 2], "all but serializable pessimistic"),
    (&[0, 1, 3], "all but serializable optimistic"),
    (&[0, 2, 3], "all but snapshot pessimistic"),
    (&[1, 2, 3], "all but snapshot optimistic"),
];

/// The stores of a script.
pub struct Session {
    worlds: Vec<World>,
}

impl Session {
    pub fn new() -> Session {
        Session { worlds: MODES.into_iter().map(World::new).collect() }
    }

    /// Runs a command in every mode. Lines without a label are of all modes.
    pub fn run(&mut self, command: &str) -> Output {
        let words: Vec<&str> = command.split_whitespace().collect();
        let mut outputs = Vec::new();
        for world in &mut self.worlds {
            outputs.push(world.run(&words)?);
        }
        Ok(merged(&outputs))
    }
}

/// Merges the outputs of the modes: modes of equal outputs have one label.
fn merged(outputs: &[Vec<String>]) -> Vec<String> {
    if outputs.iter().all(|output| *output == outputs[0]) {
        return outputs[0].clone();
    }
    let mut lines = Vec::new();
    for (at, output) in outputs.iter().enumerate() {
        if outputs[..at].contains(output) {
            continue;
        }
        let same: Vec<usize> = (0..outputs.len()).filter(|n| outputs[*n] == *output).collect();
        let label = label(&same);
        match output.as_slice() {
            [] => lines.push(format!("[{label}] ok")),
            output => lines.extend(output.iter().map(|line| format!("[{label}] {line}"))),
        }
    }
    lines
}

fn label(modes: &[usize]) -> String {
    if let Some((_, name)) = LABELS.iter().find(|(members, _)| *members == modes) {
        return (*name).to_string();
    }
    let names: Vec<&str> = modes.iter().map(|mode| LABELS[*mode].1).collect();
    names.join(", ")
}
