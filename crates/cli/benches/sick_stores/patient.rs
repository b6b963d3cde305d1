//! A store under examination: opened with the options that make it sick, judged by `esker doctor`, and
//! treated as the doctor says.

use std::path::PathBuf;
use std::process::{Command, Output};
use std::sync::Arc;
use std::time::Duration;

use esker::fs::{Fs, OsFs};
use esker::{Db, Options, Snapshot};

use crate::slow::SlowFs;

/// A store in a directory of its own.
pub struct Patient {
    /// Snapshots that the program holds.
    pub snapshots: Vec<Snapshot>,
    db: Option<Db>,
    fs: Arc<dyn Fs>,
    options: Vec<(String, String)>,
    /// Dropped after the store.
    dir: tempfile::TempDir,
    /// Whether advice was applied.
    pub is_cured: bool,
}

impl Patient {
    /// Creates a store with options, on a slow device if asked for.
    pub fn new(options: &[(&str, &str)], slow_device: bool) -> Patient {
        let own = options.iter().map(|(name, value)| (name.to_string(), value.to_string()));
        Patient {
            dir: tempfile::tempdir().expect("a temporary directory"),
            options: own.collect(),
            fs: if slow_device { SlowFs::shared() } else { OsFs::shared() },
            db: None,
            snapshots: Vec::new(),
            is_cured: false,
        }
    }

    /// Returns the directory of the store.
    pub fn path(&self) -> PathBuf {
        self.dir.path().canonicalize().expect("it exists").join("db")
    }

    /// Returns the store, which is opened if it is not open.
    pub fn db(&mut self) -> &Db {
        let (path, fs) = (self.path(), self.fs.clone());
        self.db.get_or_insert_with(|| {
            let mut options = Options::default();
            for (name, value) in &self.options {
                options.set(name, value).expect("a known option");
            }
            Db::open_on(fs, path, options).expect("the store opens")
        })
    }

    /// Opens the store again, so that its counters begin at 0.
    pub fn reopen(&mut self) -> &Db {
        self.close();
        self.db()
    }

    /// Closes the store.
    pub fn close(&mut self) {
        self.snapshots.clear();
        if let Some(db) = self.db.take() {
            db.close().expect("the store closes");
        }
    }

    /// Runs the command.
    fn run(args: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_esker"));
        command.args(args).output().expect("the command runs")
    }

    /// Returns the findings of the doctor: name and advice. With `live`, the store stays open.
    pub fn findings(&mut self, live: bool) -> Vec<(String, String)> {
        let path = self.path().display().to_string();
        let mut args = vec!["doctor", path.as_str(), "--json"];
        if live {
            args.push("--live");
            // The counters are published once a second.
            std::thread::sleep(Duration::from_millis(2500));
        } else {
            self.close();
        }
        let output = Patient::run(&args);
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let found: serde_json::Value = serde_json::from_str(&text)
            .unwrap_or_else(|_| panic!("{text}{}", String::from_utf8_lossy(&output.stderr)));
        let text_of = |finding: &serde_json::Value, name: &str| {
            finding[name].as_str().expect("a text").to_string()
        };
        let findings = found["findings"].as_array().expect("a list");
        findings.iter().map(|one| (text_of(one, "name"), text_of(one, "advice"))).collect()
    }

    /// Returns the advice of the finding `name`, which the doctor must have.
    pub fn advice(&mut self, name: &str, live: bool) -> String {
        let findings = self.findings(live);
        let found = findings.iter().find(|(found, _)| found == name);
        found.unwrap_or_else(|| panic!("{name} is not among {findings:?}")).1.clone()
    }

    /// Does what the advice says.
    pub fn apply(&mut self, advice: &str) {
        self.close();
        for step in advice.split(", then ") {
            if let Some(command) = step.strip_prefix("esker ") {
                let args: Vec<&str> = command.split_whitespace().collect();
                let output = Patient::run(&args);
                let text = String::from_utf8_lossy(&output.stderr);
                // A repair that lost something says so by its exit code.
                let is_done = output.status.success()
                    || (args[0] == "repair" && output.status.code() == Some(3));
                assert!(is_done, "esker {command}: {text}");
            } else if let Some((name, value)) = step.split_once('=') {
                self.options.retain(|(own, _)| own != name);
                self.options.push((name.into(), value.into()));
            } else {
                // Closing has dropped them.
                assert!(step.starts_with("drop the snapshots"), "unknown advice: {step}");
            }
        }
        self.db().wait_idle().expect("idle");
        self.is_cured = true;
    }
}
