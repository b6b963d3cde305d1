//! The calls of a program written for LevelDB are recorded by `ESKER_TRACE_DIR`, and the trace is
//! shown and replayed by the command.
//!
//! The program is this test's own, in a process of its own: it calls LevelDB's C functions, which
//! `target/shim/libleveldb.so.1d` has for any program.

mod common;

use std::ffi::{CStr, CString, c_char};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::ptr::null_mut;

use common::TestDir;
use esker_leveldb::batch::{leveldb_writebatch_create, leveldb_writebatch_delete};
use esker_leveldb::batch::{leveldb_writebatch_destroy, leveldb_writebatch_put};
use esker_leveldb::iter::{leveldb_iter_destroy, leveldb_iter_next, leveldb_iter_prev};
use esker_leveldb::iter::{leveldb_iter_seek, leveldb_iter_seek_to_last, leveldb_iter_valid};
use esker_leveldb::objects::leveldb_free;
use esker_leveldb::options::{leveldb_options_create, leveldb_options_set_create_if_missing};
use esker_leveldb::options::{leveldb_readoptions_create, leveldb_readoptions_set_snapshot};
use esker_leveldb::options::{leveldb_readoptions_destroy, leveldb_readoptions_t};
use esker_leveldb::store::{leveldb_close, leveldb_create_iterator, leveldb_delete, leveldb_get};
use esker_leveldb::store::{leveldb_create_snapshot, leveldb_release_snapshot};
use esker_leveldb::store::{leveldb_open, leveldb_put, leveldb_t, leveldb_write};

/// Variable that makes this test program the program for LevelDB: the store's path.
const STORE: &str = "ESKER_TEST_STORE_OF_PROGRAM";

struct Program {
    db: Option<Box<leveldb_t>>,
    error: *mut c_char,
}

impl Program {
    fn open(path: &str) -> Program {
        let mut options = leveldb_options_create();
        leveldb_options_set_create_if_missing(Some(&mut options), 1);
        let path = CString::new(path).unwrap();
        let mut error = null_mut();
        // SAFETY: the path is a C string, and the error text is checked below.
        let db = unsafe { leveldb_open(Some(&options), path.as_ptr(), Some(&mut error)) };
        let program = Program { db, error };
        program.check();
        program
    }

    /// Ends the process with the error text, if there is one.
    fn check(&self) {
        if !self.error.is_null() {
            // SAFETY: an error text of the library is a C string.
            eprintln!("{}", unsafe { CStr::from_ptr(self.error) }.to_string_lossy());
            std::process::exit(9);
        }
    }

    fn put(&mut self, key: &str, value: &str) {
        let (k, v) = (key.as_ptr().cast(), value.as_ptr().cast());
        let db = self.db.as_deref();
        // SAFETY: key and value are valid for their lengths.
        unsafe { leveldb_put(db, None, k, key.len(), v, value.len(), Some(&mut self.error)) };
        self.check();
    }

    fn delete(&mut self, key: &str) {
        let (db, k) = (self.db.as_deref(), key.as_ptr().cast());
        // SAFETY: the key is valid for its length.
        unsafe { leveldb_delete(db, None, k, key.len(), Some(&mut self.error)) };
        self.check();
    }

    fn get(&mut self, key: &str) -> bool {
        self.get_with(None, key)
    }

    fn get_with(&mut self, options: Option<&leveldb_readoptions_t>, key: &str) -> bool {
        let (db, k) = (self.db.as_deref(), key.as_ptr().cast());
        let mut length = 0;
        // SAFETY: the key is valid for its length; the value is freed once.
        unsafe {
            let error = Some(&mut self.error);
            let value = leveldb_get(db, options, k, key.len(), Some(&mut length), error);
            leveldb_free(value.cast());
            self.check();
            !value.is_null()
        }
    }

    /// Puts one key and deletes another in a batch.
    fn write(&mut self, put: &str, delete: &str) {
        let mut batch = leveldb_writebatch_create();
        let (p, d) = (put.as_ptr().cast(), delete.as_ptr().cast());
        // SAFETY: the keys are valid for their lengths.
        unsafe {
            leveldb_writebatch_put(Some(&mut batch), p, put.len(), p, put.len());
            leveldb_writebatch_delete(Some(&mut batch), d, delete.len());
            leveldb_write(self.db.as_deref(), None, Some(&batch), Some(&mut self.error));
        }
        leveldb_writebatch_destroy(Some(batch));
        self.check();
    }

    /// Deletes a key after a snapshot, in which it gets the key and scans.
    fn delete_after_snapshot(&mut self, key: &str) {
        let snapshot = leveldb_create_snapshot(self.db.as_deref()).unwrap();
        let mut options = leveldb_readoptions_create();
        // SAFETY: the snapshot lives until the options were destroyed.
        unsafe { leveldb_readoptions_set_snapshot(Some(&mut options), &*snapshot) };
        self.delete(key);
        assert!(self.get_with(Some(&options), key));
        self.scan(Some(&options), key);
        leveldb_readoptions_destroy(Some(options));
        leveldb_release_snapshot(self.db.as_deref(), Some(snapshot));
    }

    /// Reads 5 pairs forwards from `start` and 2 backwards from the end.
    fn scan(&self, options: Option<&leveldb_readoptions_t>, start: &str) {
        // SAFETY: the key is valid for its length, and the snapshot of the options is alive.
        unsafe {
            let mut iter = leveldb_create_iterator(self.db.as_deref(), options).unwrap();
            leveldb_iter_seek(Some(&mut iter), start.as_ptr().cast(), start.len());
            for _ in 1..5 {
                leveldb_iter_next(Some(&mut iter));
            }
            leveldb_iter_seek_to_last(Some(&mut iter));
            leveldb_iter_prev(Some(&mut iter));
            assert_eq!(leveldb_iter_valid(Some(&iter)), 1);
            leveldb_iter_destroy(Some(iter));
        }
    }
}

/// The program: 100 puts, 20 gets, 1 miss, 2 scans, 1 delete, and a batch of a put and a delete.
/// The get and the 2 scans of a snapshot are not recorded.
#[test]
fn program_for_leveldb() {
    let Ok(store) = std::env::var(STORE) else { return };
    let mut program = Program::open(&store);
    for number in 0..100 {
        program.put(&format!("key{number:05}"), "a value of 20 bytes.");
    }
    for number in 0..20 {
        assert!(program.get(&format!("key{number:05}")));
    }
    assert!(!program.get("nothing here"));
    program.scan(None, "key00050");
    program.delete_after_snapshot("key00007");
    program.write("key in a batch", "key00008");
    leveldb_close(program.db.take());
    // A second store of the process has a trace of its own. It ends without a close.
    let mut killed = Program::open(&format!("{store}-killed"));
    for _ in 0..2000 {
        killed.put("key", "value");
    }
    std::process::abort();
}

/// Runs the program with `variables`, and returns whether it came to its end, and its messages.
fn run_program(dir: &TestDir, variables: &[(&str, &Path)]) -> (bool, String) {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["program_for_leveldb", "--exact", "--nocapture"]);
    command.env(STORE, dir.path("store")).envs(variables.iter().copied());
    let ended = command.output().unwrap();
    (ended.status.code().is_none(), String::from_utf8_lossy(&ended.stderr).into_owned())
}

/// Returns the paths of the traces: of the closed store, and of the other.
fn traces(dir: &Path) -> (PathBuf, PathBuf) {
    let files = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<PathBuf> = files.collect();
    files.sort_by_key(|path| path.display().to_string().contains("killed"));
    let [closed, killed] = &files[..] else { panic!("{files:?}") };
    (closed.clone(), killed.clone())
}

#[test]
fn calls_of_a_program_are_recorded_shown_and_replayed() {
    let dir = TestDir::new();
    let out = dir.path("traces");
    std::fs::create_dir(&out).unwrap();
    let (ended, told) = run_program(&dir, &[("ESKER_TRACE_DIR", &out)]);
    assert!(ended, "{told}");
    let (closed, killed) = traces(&out);
    let shown = dir.ok(&["trace", "show", closed.to_str().unwrap(), "--json"]);
    let shown: serde_json::Value = serde_json::from_str(&shown).unwrap();
    for (name, count) in [
        ("operations", 126),
        ("puts", 101),
        ("gets", 20),
        ("misses", 1),
        ("deletes", 2),
        ("scans", 2),
        ("scanned_pairs", 7),
        ("loaded_keys", 0),
        ("written_bytes", 2014),
    ] {
        assert_eq!(shown[name], count, "{name}: {shown}");
    }
    assert_eq!(shown["complete"], true);
    let text = std::fs::read_to_string(&closed).unwrap();
    assert!(!text.contains("6b6579"), "keys are hashed: {text}");
    for engine in ["esker", "reference"] {
        let replayed = dir.ok(&["trace", "replay", closed.to_str().unwrap(), "--engine", engine]);
        assert!(replayed.contains("126 operations, "), "{replayed}");
    }
    let cut = dir.ok(&["trace", "show", killed.to_str().unwrap()]);
    assert!(cut.contains("cut off"), "{cut}");
}

#[test]
fn keys_are_recorded_plain_or_in_a_sample_and_wrong_variables_refuse_the_store() {
    let dir = TestDir::new();
    let out = dir.path("traces");
    std::fs::create_dir(&out).unwrap();
    let place = ("ESKER_TRACE_DIR", out.as_path());
    let plain = ("ESKER_TRACE_PLAIN_KEYS", Path::new("1"));
    let (ended, told) = run_program(&dir, &[place, plain, ("ESKER_TRACE_ONE_IN", "4".as_ref())]);
    assert!(ended, "{told}");
    let text = std::fs::read_to_string(traces(&out).0).unwrap();
    assert!(text.contains(" put 6b6579") && text.lines().count() < 80, "{text}");
    for (variables, words) in [
        ([place, ("ESKER_TRACE_ONE_IN", Path::new("none"))], "ESKER_TRACE_ONE_IN must be"),
        ([("ESKER_TRACE_DIR", Path::new("/dev/null")), plain], "cannot create the trace"),
    ] {
        let (ended, told) = run_program(&dir, &variables);
        assert!(!ended && told.contains(words), "{told}");
    }
    // A wrong variable leaves no store, and a store that does not open leaves no trace.
    let other = TestDir::new();
    run_program(&other, &[("ESKER_TRACE_DIR", Path::new("/dev/null"))]);
    assert!(!other.path("store").exists());
    other.file("store", "no store");
    let out = other.path("traces");
    std::fs::create_dir(&out).unwrap();
    let (ended, told) = run_program(&other, &[("ESKER_TRACE_DIR", &out)]);
    assert!(!ended && !told.contains("panicked"), "{told}");
    assert_eq!(std::fs::read_dir(&out).unwrap().count(), 0, "{told}");
}
