//! A store in a temporary directory, and the command run on it.
#![allow(dead_code)]

use std::path::PathBuf;
use std::process::Output;

use assert_cmd::Command;

/// A temporary directory with a store and other files.
pub struct TestDir {
    dir: tempfile::TempDir,
}

/// Result of a run of the command.
pub struct Ran {
    pub code: i32,
    pub out: String,
    pub err: String,
}

impl TestDir {
    /// Creates an empty directory.
    pub fn new() -> TestDir {
        TestDir { dir: tempfile::tempdir().unwrap() }
    }

    /// Returns a path in the directory.
    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Returns that path in canonical form, as messages about a store show it.
    pub fn full_path(&self, name: &str) -> PathBuf {
        self.dir.path().canonicalize().unwrap().join(name)
    }

    /// Writes a file.
    pub fn file(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        std::fs::write(&path, content).unwrap();
        path
    }

    /// Runs `esker ARGS` in this directory.
    pub fn run(&self, args: &[&str]) -> Ran {
        self.run_with_input(args, b"")
    }

    /// Runs `esker ARGS` with `input` on standard input.
    pub fn run_with_input(&self, args: &[&str], input: &[u8]) -> Ran {
        let mut command: Command = assert_cmd::cargo::cargo_bin_cmd!("esker");
        command.current_dir(self.dir.path()).args(args).write_stdin(input);
        let Output { status, stdout, stderr } = command.output().unwrap();
        let ran = Ran {
            code: status.code().expect("ended by a signal"),
            out: String::from_utf8(stdout).expect("stdout is not UTF-8"),
            err: String::from_utf8(stderr).expect("stderr is not UTF-8"),
        };
        assert!(!ran.err.contains("panicked"), "{args:?}: {}", ran.err);
        ran
    }

    /// Runs `esker ARGS`, which must succeed, and returns its output.
    pub fn ok(&self, args: &[&str]) -> String {
        let ran = self.run(args);
        assert_eq!(ran.code, 0, "{args:?}: {}{}", ran.out, ran.err);
        ran.out
    }

    /// Runs `esker ARGS`, which must exit with `code` and one sentence on stderr that contains
    /// `part`.
    pub fn fails(&self, args: &[&str], code: i32, part: &str) {
        let ran = self.run(args);
        assert_eq!(ran.code, code, "{args:?}: {}{}", ran.out, ran.err);
        assert!(ran.err.contains(part), "{args:?}: {:?} lacks {part:?}", ran.err);
    }
}
