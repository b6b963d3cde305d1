//! Tests that need a process of their own, and what a process knows about itself.
//!
//! Such a test runs its program again with the name of a case in an environment variable. There
//! the test `inside` reads the variable and runs the case.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

/// Time after which a wait that does not end is a failure.
pub const LONG: Duration = Duration::from_secs(120);

/// Runs the case `what` of the test `inside` in its own process. The child finds the case in the
/// environment variable `variable`, and `dir` in the variable whose name ends in `_DIR`.
pub fn run_alone(variable: &str, what: &str, dir: &Path) {
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args(["--exact", "inside", "--nocapture"]);
    let ran = child.env(variable, what).env(format!("{variable}_DIR"), dir).output().unwrap();
    let output =
        String::from_utf8_lossy(&ran.stdout).into_owned() + &String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success() && output.contains("1 passed"), "{what}: {output}");
    println!("{output}");
}

/// Returns the names of the threads of this process, sorted.
pub fn thread_names() -> Vec<String> {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    // A thread that ends meanwhile has no name.
    let name = |task: std::io::Result<std::fs::DirEntry>| {
        std::fs::read_to_string(task.unwrap().path().join("comm")).ok()
    };
    let mut names: Vec<String> =
        tasks.filter_map(name).map(|name| name.trim().to_string()).collect();
    names.sort();
    names
}

/// Returns a size of this process by its name in `/proc/self/status`, in bytes: `VmRSS` is the
/// resident memory, `VmHWM` its peak, `VmData` the private mappings.
pub fn status_bytes(name: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let mut lines = status.lines().filter_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    let size = lines.next().unwrap().trim().trim_end_matches(" kB");
    size.parse::<u64>().unwrap() << 10
}

/// Waits until the condition holds.
pub fn wait_until(what: &str, holds: impl Fn() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < LONG, "{what} did not happen");
        std::thread::yield_now();
    }
}
