//! One JSON file per benchmark, replaced during the benchmark, so that an interrupted benchmark
//! keeps its measurements.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::env::file_time;
use super::lab::{LAB_SCHEMA_VERSION, LabRecord};
use super::schema::{RunRecord, SCHEMA_VERSION};
use crate::error::{LabError, LabErrorKind, Result};

/// Held while a record is written.
static WRITING: Mutex<()> = Mutex::new(());

/// Waits until no record is partly written, and blocks new writes while the guard is held. For
/// callers that are about to end the process.
pub fn pause_writing() -> MutexGuard<'static, ()> {
    WRITING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The file of a benchmark's record.
#[derive(Clone, Debug)]
pub struct RecordFile {
    path: PathBuf,
}

impl RecordFile {
    /// Creates a new file in `dir` (created if missing), named by the start time. A number is
    /// appended if two benchmarks start within the same second.
    pub fn create(dir: &Path, record: &RunRecord) -> Result<RecordFile> {
        RecordFile::create_named(dir, "", record.started_unix_seconds, record)
    }

    /// Creates a new file whose name begins with the experiment's name.
    pub fn create_lab(dir: &Path, record: &LabRecord) -> Result<RecordFile> {
        let head = format!("{}-", record.experiment);
        RecordFile::create_named(dir, &head, record.started_unix_seconds, record)
    }

    /// Refers to the existing file at `path`, which `save` replaces.
    pub fn existing(path: &Path) -> RecordFile {
        RecordFile { path: path.to_path_buf() }
    }

    fn create_named(
        dir: &Path,
        head: &str,
        started_unix_seconds: u64,
        record: &impl Serialize,
    ) -> Result<RecordFile> {
        let whole = pause_writing();
        std::fs::create_dir_all(dir).map_err(|e| LabError::io("create the folder", dir, &e))?;
        let date = format!("{head}{}", file_time(started_unix_seconds));
        for number in 0..1000u32 {
            let tail = if number == 0 { String::new() } else { format!("-{number}") };
            let path = dir.join(format!("{date}{tail}.json"));
            match std::fs::OpenOptions::new().write(true).create_new(true).open(&path) {
                Ok(_) => {
                    let file = RecordFile { path };
                    file.replace(record, &whole)?;
                    return Ok(file);
                }
                Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => {}
                Err(e) => return Err(LabError::io("write the record", &path, &e)),
            }
        }
        Err(LabError::new(
            LabErrorKind::Io,
            format!("{} is full of records named {date}", dir.display()),
        ))
    }

    /// Replaces the file's content atomically with one line of JSON.
    pub fn save(&self, record: &impl Serialize) -> Result<()> {
        self.replace(record, &pause_writing())
    }

    /// Implements [`RecordFile::save`] for a caller that holds the write lock.
    fn replace(&self, record: &impl Serialize, _alone: &MutexGuard<'_, ()>) -> Result<()> {
        let fail = |e: std::io::Error| LabError::io("write the record", &self.path, &e);
        let mut text = serde_json::to_vec(record).map_err(|e| fail(e.into()))?;
        text.push(b'\n');
        let next = self.path.with_extension("json.new");
        std::fs::write(&next, text).map_err(fail)?;
        std::fs::rename(&next, &self.path).map_err(fail)
    }

    /// Returns the path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// Magic number at the beginning of a file that zstd compressed.
const ZSTD_MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// Reads a record, plain or compressed with zstd. Fails on another schema version; the error names
/// the version.
pub fn load(path: &Path) -> Result<RunRecord> {
    read(path, "schema_version", SCHEMA_VERSION)
}

/// Reads the record of an experiment, plain or compressed with zstd. Fails on another schema
/// version; the error names the version.
pub fn load_lab(path: &Path) -> Result<LabRecord> {
    let mut record: LabRecord = read(path, "lab_schema_version", LAB_SCHEMA_VERSION)?;
    record.note_sizes();
    Ok(record)
}

/// Resolves `name` to a record: a file whose name ends in `.json` or `.json.zst`, or the newest
/// record in `dir` of the experiment with that name (of any experiment for an empty name). `NAME~1`
/// is the record before the newest, and so on.
pub fn named_lab(dir: &Path, name: &str) -> Result<PathBuf> {
    if name.ends_with(".json") || name.ends_with(".json.zst") {
        return Ok(PathBuf::from(name));
    }
    match name.rsplit_once('~').and_then(|(name, back)| Some((name, back.parse().ok()?))) {
        Some((name, back)) => nth_newest_lab(dir, name, back),
        None => nth_newest_lab(dir, name, 0),
    }
}

/// Returns the record of experiment `name` in `dir` that is older than exactly `back` others.
fn nth_newest_lab(dir: &Path, name: &str, back: usize) -> Result<PathBuf> {
    let entries = std::fs::read_dir(dir).map_err(|e| LabError::io("read the folder", dir, &e))?;
    let started = |path: PathBuf| {
        let record = load_lab(&path).ok()?;
        let is_own = name.is_empty() || record.experiment == name;
        // Records started in the same second are numbered; path length sorts `-2` before `-10`.
        let name_bytes = path.as_os_str().len();
        is_own.then_some((record.started_unix_seconds, name_bytes, path))
    };
    let files = entries.flatten().map(|entry| entry.path());
    let files = files.filter(|path| path.extension().is_some_and(|ending| ending == "json"));
    let mut records: Vec<(u64, usize, PathBuf)> = files.filter_map(started).collect();
    records.sort();
    let count = records.len();
    let found = count.checked_sub(back + 1).map(|place| records.swap_remove(place).2);
    found.ok_or_else(|| {
        let of = if name.is_empty() { String::new() } else { format!(" of {name}") };
        let dir = dir.display();
        let message = match count {
            0 => format!("{dir} holds no record{of} yet; run `esker lab run`"),
            _ => format!(
                "{dir} holds {count} record(s){of}, so no record is {back} before the newest"
            ),
        };
        LabError::new(LabErrorKind::Data, message)
    })
}

fn read<T: DeserializeOwned>(path: &Path, field: &str, wanted: u32) -> Result<T> {
    let text = std::fs::read(path).map_err(|e| LabError::io("read the record", path, &e))?;
    let bad = |why: String| {
        LabError::new(LabErrorKind::Data, format!("{} is not a record: {why}", path.display()))
    };
    let text = match text.starts_with(&ZSTD_MAGIC) {
        true => zstd::decode_all(&text[..]).map_err(|e| bad(e.to_string()))?,
        false => text,
    };
    let value: serde_json::Value = serde_json::from_slice(&text).map_err(|e| bad(e.to_string()))?;
    let version = value.get(field).and_then(serde_json::Value::as_u64);
    if version != Some(u64::from(wanted)) {
        let found = version.map_or("none".to_string(), |version| version.to_string());
        return Err(bad(format!("expected {} {wanted}, found {found}", field.replace('_', " "))));
    }
    serde_json::from_value(value).map_err(|e| bad(e.to_string()))
}
