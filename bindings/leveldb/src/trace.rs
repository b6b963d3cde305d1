//! Records the calls of a program's stores as traces, which `esker trace` shows and replays.
//!
//! `ESKER_TRACE_DIR` in the environment of the program names a directory. Each opened store gets a
//! file of its own in it, because two stores may have equal keys. The form of a trace is in
//! `docs/tuning.md`.
//!
//! Invariants:
//! 1. Without the variable there is no recorder, and a call tests one pointer.
//! 2. A call is recorded after it succeeded, and recording it cannot make it fail. Reads of a
//!    snapshot are not recorded, because a replay reads the present.
//! 3. The last line is written after the store and its iterators are freed. If a line cannot be
//!    written, the recording ends without it, which `esker trace show` tells.
//! 4. Keys are hashed with a key of this process, unless the user asks for the keys themselves.

use std::collections::hash_map::RandomState;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::fs::File;
use std::hash::BuildHasher;
use std::io::{BufWriter, ErrorKind, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use esker::{Batch, BatchOp};
use esker_c::failure::{ESKER_IO, Failure, Outcome};

/// Directory of the traces.
const DIR: &str = "ESKER_TRACE_DIR";
/// All operations of one in this many keys are recorded.
const ONE_IN: &str = "ESKER_TRACE_ONE_IN";
/// With `1`, keys are recorded themselves instead of their hashes.
const PLAIN_KEYS: &str = "ESKER_TRACE_PLAIN_KEYS";

/// First line of a trace.
const TITLE: &str = "esker trace 1";
/// Maximum length of a value in a trace, in bytes. Longer values are recorded with this length.
const VALUE_BYTES_MAX: usize = 64 << 20;
/// Maximum length of a key in a trace, in bytes. Operations of longer keys are not recorded.
const KEY_BYTES_MAX: usize = 1 << 20;

/// Number of traces of this process, for their names.
static TRACES: AtomicU64 = AtomicU64::new(0);

/// What a call did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Op {
    /// A get, and the length of the value; `None` if the key was missing.
    Get(Option<usize>),
    /// A put of a value of this length.
    Put(usize),
    /// A delete.
    Delete,
    /// A scan from the key on, and the number of pairs that it read.
    Scan(u32),
}

/// Writes the trace of one store.
#[derive(Debug)]
pub(crate) struct Recorder {
    path: PathBuf,
    start: Instant,
    hash: RandomState,
    one_in: u64,
    is_plain: bool,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// The file; `None` after a line could not be written.
    out: Option<BufWriter<File>>,
    lines: u64,
    line: String,
}

impl Recorder {
    /// Returns the recorder of the store at `path`, if the environment asks for one.
    ///
    /// # Errors
    /// A variable has a wrong value, or the file cannot be created.
    pub(crate) fn of_environment(path: &Path) -> Outcome<Option<Arc<Recorder>>> {
        let Some(dir) = std::env::var_os(DIR).filter(|dir| !dir.is_empty()) else {
            return Ok(None);
        };
        let one_in = one_in(std::env::var_os(ONE_IN))?;
        let is_plain = std::env::var_os(PLAIN_KEYS).is_some_and(|given| given == "1");
        let store = path.file_name().unwrap_or("store".as_ref()).to_string_lossy();
        let (path, file) = create(Path::new(&dir), &store)?;
        Ok(Some(Arc::new(Recorder::new(path, file, one_in, is_plain)?)))
    }

    /// Returns a recorder that writes to `file`, which is new and at `path`.
    fn new(path: PathBuf, file: File, one_in: u64, is_plain: bool) -> Outcome<Recorder> {
        let mut out = BufWriter::new(file);
        writeln!(out, "{TITLE}").map_err(|e| not_created(&path, &e))?;
        let state = State { out: Some(out), lines: 0, line: String::new() };
        let (start, hash) = (Instant::now(), RandomState::new());
        Ok(Recorder { path, start, hash, one_in, is_plain, state: Mutex::new(state) })
    }

    /// Ends the recording and removes its file, because its store was not opened.
    pub(crate) fn discard(&self) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        drop(state.out.take());
        // The failed open is reported, so a file that cannot be removed is left.
        let _ = std::fs::remove_file(&self.path);
    }

    /// Records a call.
    pub(crate) fn add(&self, key: &[u8], op: Op) {
        // The reader of traces refuses such a key, and with it the whole trace.
        if key.len() > KEY_BYTES_MAX {
            return;
        }
        let hash = self.hash.hash_one(key);
        // The high bits choose the sample. A replayed key begins with them.
        if !(hash >> 32).is_multiple_of(self.one_in) {
            return;
        }
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let State { out, lines, line } = &mut *state;
        let Some(file) = out else { return };
        line.clear();
        self.write_line(line, key, hash, op);
        match file.write_all(line.as_bytes()) {
            Ok(()) => *lines += 1,
            Err(_) => *out = None,
        }
    }

    /// Records the operations of a batch.
    pub(crate) fn add_batch(&self, batch: &Batch) {
        for op in batch.operations() {
            match op {
                BatchOp::Put { key, value, .. } => self.add(key, Op::Put(value.len())),
                BatchOp::Delete { key, .. } => self.add(key, Op::Delete),
                // LevelDB has no range deletes.
                _ => {}
            }
        }
    }

    fn write_line(&self, line: &mut String, key: &[u8], hash: u64, op: Op) {
        let (name, number) = match op {
            Op::Get(found) => ("get", found),
            Op::Put(bytes) => ("put", Some(bytes)),
            Op::Delete => ("delete", None),
            Op::Scan(pairs) => ("scan", Some(pairs as usize)),
        };
        // Writing into a string cannot fail.
        let _ = write!(line, "{} {name} ", self.start.elapsed().as_micros());
        let _ = match self.is_plain {
            true if key.is_empty() => line.write_char('-'),
            true => key.iter().try_for_each(|byte| write!(line, "{byte:02x}")),
            false => write!(line, "#{hash:016x}/{}", key.len()),
        };
        let _ = match (number, op) {
            (Some(pairs), Op::Scan(_)) => write!(line, " {pairs}"),
            (Some(bytes), _) => write!(line, " {}", bytes.min(VALUE_BYTES_MAX)),
            (None, Op::Get(_)) => line.write_str(" -"),
            (None, _) => Ok(()),
        };
        line.push('\n');
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        if let Some(mut out) = state.out.take() {
            // A trace without its last line is told to be cut off.
            let _ = writeln!(out, "end {}", state.lines).and_then(|()| out.flush());
        }
    }
}

/// Creates the next file of this process in `dir`. Files of an earlier process with the same number
/// are left.
fn create(dir: &Path, store: &str) -> Outcome<(PathBuf, File)> {
    let process = std::process::id();
    loop {
        let number = TRACES.fetch_add(1, Ordering::Relaxed) + 1;
        let path = dir.join(format!("{store}-{process}-{number}.trace"));
        match File::create_new(&path) {
            Ok(file) => return Ok((path, file)),
            Err(e) if e.kind() == ErrorKind::AlreadyExists => {}
            Err(e) => return Err(not_created(&path, &e)),
        }
    }
}

fn not_created(path: &Path, e: &std::io::Error) -> Failure {
    let message = format!("{DIR}: cannot create the trace {}: {e}", path.display());
    Failure { code: ESKER_IO, message }
}

fn one_in(given: Option<OsString>) -> Outcome<u64> {
    let Some(given) = given else { return Ok(1) };
    let number = given.to_str().and_then(|text| text.parse().ok()).filter(|number| *number > 0);
    number.ok_or_else(|| {
        Failure::invalid(format!("{ONE_IN} must be a whole number above 0, found {given:?}"))
    })
}

/// The scan of an iterator since its last seek.
#[derive(Debug)]
pub(crate) struct Scan {
    recorder: Arc<Recorder>,
    start: Option<Vec<u8>>,
    pairs: u32,
}

impl Scan {
    /// Returns the scan of a new iterator.
    pub(crate) fn new(recorder: Arc<Recorder>) -> Scan {
        Scan { recorder, start: None, pairs: 0 }
    }

    /// Begins a scan at `key`, which ends and records the one before.
    pub(crate) fn begin(&mut self, key: &[u8]) {
        self.record();
        (self.start, self.pairs) = (Some(key.to_vec()), 0);
    }

    /// Counts the pair that a seek or a step in either direction has found.
    pub(crate) fn step(&mut self, is_valid: bool) {
        self.pairs = self.pairs.saturating_add(u32::from(is_valid));
    }

    fn record(&mut self) {
        if let Some(start) = self.start.take() {
            self.recorder.add(&start, Op::Scan(self.pairs));
        }
    }
}

impl Drop for Scan {
    fn drop(&mut self) {
        self.record();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Records with `act`, and returns the lines without their times.
    fn recorded(one_in: u64, is_plain: bool, act: impl FnOnce(&Arc<Recorder>)) -> Vec<String> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("t.trace");
        let file = File::create_new(&path).unwrap();
        let recorder = Arc::new(Recorder::new(path.clone(), file, one_in, is_plain).unwrap());
        act(&recorder);
        drop(recorder);
        let text = std::fs::read_to_string(&path).unwrap();
        let without_time = |line: &str| match line.split_once(' ') {
            Some((time, rest)) if time.parse::<u64>().is_ok() => rest.to_string(),
            _ => line.to_string(),
        };
        text.lines().map(without_time).collect()
    }

    #[test]
    fn calls_are_lines_in_the_form_of_a_trace() {
        let lines = recorded(1, true, |recorder| {
            let mut batch = Batch::new();
            batch.put(b"a\xff", b"12345");
            batch.delete(b"");
            recorder.add_batch(&batch);
            recorder.add(b"a", Op::Get(Some(VALUE_BYTES_MAX + 1)));
            recorder.add(b"b", Op::Get(None));
            let mut scan = Scan::new(recorder.clone());
            scan.step(true);
            scan.begin(b"a");
            scan.step(true);
            scan.step(true);
            scan.step(false);
            scan.begin(b"");
            scan.step(false);
        });
        let wanted = [
            TITLE,
            "put 61ff 5",
            "delete -",
            "get 61 67108864",
            "get 62 -",
            "scan 61 2",
            "scan - 0",
            "end 6",
        ];
        assert_eq!(lines, wanted);
    }

    #[test]
    fn hashed_keys_keep_length_and_repetition_and_a_sample_keeps_all_of_a_key() {
        let put_twice = |recorder: &Arc<Recorder>| {
            for _ in 0..2 {
                (0..100u32).for_each(|n| recorder.add(format!("key{n:05}").as_bytes(), Op::Put(1)));
            }
        };
        let counts = |lines: &[String]| {
            let mut puts: Vec<&String> = lines.iter().filter(|l| l.starts_with("put #")).collect();
            puts.sort();
            assert!(puts.iter().all(|line| line.ends_with("/8 1")), "{puts:?}");
            assert!(puts.chunks(2).all(|pair| pair.len() == 2 && pair[0] == pair[1]), "{puts:?}");
            puts.len()
        };
        assert_eq!(counts(&recorded(1, false, put_twice)), 200);
        assert!((2..120).contains(&counts(&recorded(4, false, put_twice))));
    }

    #[test]
    fn too_long_keys_are_not_recorded() {
        let lines = recorded(1, false, |recorder| {
            recorder.add(&vec![0; KEY_BYTES_MAX + 1], Op::Put(1));
            recorder.add(&vec![0; KEY_BYTES_MAX], Op::Put(1));
        });
        assert_eq!(lines.len(), 3, "{lines:?}");
        assert!(lines[1].ends_with("/1048576 1") && lines[2] == "end 1", "{lines:?}");
    }

    #[test]
    fn files_of_an_earlier_process_are_left_and_a_discarded_file_is_removed() {
        let dir = tempfile::tempdir().unwrap();
        let (process, next) = (std::process::id(), TRACES.load(Ordering::Relaxed) + 1);
        let taken = dir.path().join(format!("store-{process}-{next}.trace"));
        std::fs::write(&taken, "earlier").unwrap();
        let (path, file) = create(dir.path(), "store").unwrap();
        assert_ne!(path, taken);
        let recorder = Recorder::new(path.clone(), file, 1, true).unwrap();
        recorder.add(b"a", Op::Get(None));
        recorder.discard();
        recorder.add(b"b", Op::Get(None));
        drop(recorder);
        assert!(!path.exists());
        assert_eq!(std::fs::read_to_string(&taken).unwrap(), "earlier");
        let missing = create(&dir.path().join("missing"), "store").unwrap_err();
        assert!(missing.message.contains("cannot create the trace"), "{}", missing.message);
    }

    #[test]
    fn wrong_shares_are_refused() {
        assert_eq!(one_in(None).unwrap(), 1);
        assert_eq!(one_in(Some("8".into())).unwrap(), 8);
        for bad in ["0", "-1", "half", ""] {
            assert!(one_in(Some(bad.into())).unwrap_err().message.contains(ONE_IN), "{bad}");
        }
    }
}
