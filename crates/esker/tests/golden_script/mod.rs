//! Golden scripts: files of commands with their outputs, which a test compares or rewrites.
//!
//! A line `> COMMAND` runs a command; the lines below it are the command's output. A script begins
//! with two comment lines (`# …`).

use std::fmt::Write;
use std::path::{Path, PathBuf};

/// Runs one command: returns its output lines, or a mistake in the script.
pub type Interpreter = Box<dyn FnMut(&str) -> Result<Vec<String>, String>>;

/// A script: its lines in order.
pub struct Script {
    pub path: PathBuf,
    pub text: String,
}

impl Script {
    fn read(path: PathBuf) -> Script {
        let text = std::fs::read_to_string(&path).unwrap();
        Script { path, text }
    }

    /// Runs the commands and returns the script with their actual outputs.
    pub fn run(&self, mut interpreter: Interpreter) -> String {
        let mut actual = String::new();
        for (at, line) in self.text.lines().enumerate() {
            if let Some(command) = line.strip_prefix("> ") {
                actual += &format!("{line}\n");
                let output = interpreter(command).unwrap_or_else(|problem| {
                    panic!("{}:{}: {line}: {problem}", self.path.display(), at + 1)
                });
                for line in output {
                    let plain = !line.is_empty() && !line.starts_with(['>', '#']);
                    assert!(plain, "{}: the output {line:?} is ambiguous", self.path.display());
                    actual += &format!("{line}\n");
                }
            } else if line.is_empty() || line.starts_with('#') {
                actual += &format!("{line}\n");
            }
        }
        actual
    }

    /// Returns what is wrong with the script's form, if anything.
    pub fn problem(&self) -> Option<&'static str> {
        let lines: Vec<&str> = self.text.lines().collect();
        let comment = |at: usize| lines.get(at).is_some_and(|line| line.starts_with("# "));
        if !(comment(0) && comment(1)) || comment(2) {
            return Some("a script begins with two comment lines");
        }
        let output = |line: &&str| !line.is_empty() && !line.starts_with(['>', '#']);
        if !lines.iter().any(output) {
            return Some("no command has an output, so the script cannot fail");
        }
        let mut comments = lines.iter().filter(|line| line.starts_with('#'));
        comments.any(|line| line.len() > 100).then_some("a comment is longer than 100 bytes")
    }
}

/// Divides a script at its commands: the line number of each command, and its lines.
fn steps(text: &str) -> Vec<(usize, Vec<&str>)> {
    let mut steps = vec![(0, Vec::new())];
    for (at, line) in text.lines().enumerate() {
        if line.starts_with("> ") {
            steps.push((at + 1, Vec::new()));
        }
        steps.last_mut().unwrap().1.push(line);
    }
    steps
}

/// Returns a description of the first command whose output differs; `None` for equal scripts.
pub fn difference(path: &Path, expected: &str, actual: &str) -> Option<String> {
    let (expected, actual) = (steps(expected), steps(actual));
    let pairs = expected.iter().zip(&actual);
    let (wanted, found) = pairs.into_iter().find(|(wanted, found)| wanted.1 != found.1)?;
    let mut text = format!("{}:{}: the output differs\n", path.display(), wanted.0);
    for line in &wanted.1 {
        let mark = if found.1.contains(line) { ' ' } else { '-' };
        writeln!(text, "{mark} {line}").unwrap();
    }
    for line in found.1.iter().filter(|line| !wanted.1.contains(line)) {
        writeln!(text, "+ {line}").unwrap();
    }
    Some(text + "run with ESKER_REWRITE=yes to accept the new outputs")
}

/// Runs every script of a folder, each in a thread of its own with an interpreter of its own, and
/// compares or rewrites it. There are at least `least` scripts.
pub fn run_folder(name: &str, least: usize, interpreter: fn() -> Interpreter) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scripts").join(name);
    let entries = std::fs::read_dir(folder).unwrap();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    assert!(paths.len() >= least, "{name}: {} scripts, expected {least}", paths.len());
    let rewrite = std::env::var("ESKER_REWRITE").is_ok_and(|value| value == "yes");
    let mut problems = Vec::new();
    for path in paths {
        let shown = path.display().to_string();
        // Seeks are sampled per thread, so scripts must not share one.
        let run = std::thread::spawn(move || {
            let script = Script::read(path);
            let actual = script.run(interpreter());
            (script, actual)
        });
        let Ok((script, actual)) = run.join() else {
            problems.push(format!("{shown}: stopped; the cause is above"));
            continue;
        };
        if rewrite && actual != script.text {
            std::fs::write(&script.path, &actual).unwrap();
        }
        let script = if rewrite { Script { text: actual.clone(), ..script } } else { script };
        let problem = script.problem().map(|what| format!("{}: {what}", script.path.display()));
        problems.extend(problem.or_else(|| difference(&script.path, &script.text, &actual)));
    }
    assert!(problems.is_empty(), "{} problems\n{}", problems.len(), problems.join("\n\n"));
}
