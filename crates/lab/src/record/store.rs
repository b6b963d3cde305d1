//! One JSON file a run, replaced as the run goes on, so that an interrupted run keeps what it has.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::env::utc_text;
use super::lab::{LAB_SCHEMA_VERSION, LabRecord};
use super::schema::{RunRecord, SCHEMA_VERSION};
use crate::error::{LabError, LabErrorKind, Result};

/// Held while a record is written.
static WRITING: Mutex<()> = Mutex::new(());

/// Waits until no record is half written; none is begun while what this returns is held. For who is
/// about to end the process.
pub fn pause_writing() -> MutexGuard<'static, ()> {
    WRITING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Where a run's record is kept.
#[derive(Clone, Debug)]
pub struct RecordFile {
    path: PathBuf,
}

impl RecordFile {
    /// A new file in `dir` (made if absent), named by the time the run began; a number is added
    /// where two runs begin within a second.
    pub fn create(dir: &Path, record: &RunRecord) -> Result<RecordFile> {
        RecordFile::create_named(dir, "", record.started_unix_seconds, record)
    }

    /// A new file whose name begins with the experiment's.
    pub fn create_lab(dir: &Path, record: &LabRecord) -> Result<RecordFile> {
        let head = format!("{}-", record.experiment);
        RecordFile::create_named(dir, &head, record.started_unix_seconds, record)
    }

    /// The file at `path`, to be replaced by `save`.
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
        std::fs::create_dir_all(dir).map_err(|e| LabError::io("make the folder", dir, &e))?;
        let date = utc_text(started_unix_seconds).replace(['-', ':'], "").replace(' ', "-");
        let date = format!("{head}{date}");
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

    /// Replaces the file's content, at once or not at all: one line of JSON.
    pub fn save(&self, record: &impl Serialize) -> Result<()> {
        self.replace(record, &pause_writing())
    }

    /// [`RecordFile::save`] by who alone is writing.
    fn replace(&self, record: &impl Serialize, _alone: &MutexGuard<'_, ()>) -> Result<()> {
        let fail = |e: std::io::Error| LabError::io("write the record", &self.path, &e);
        let mut text = serde_json::to_vec(record).map_err(|e| fail(e.into()))?;
        text.push(b'\n');
        let next = self.path.with_extension("json.new");
        std::fs::write(&next, text).map_err(fail)?;
        std::fs::rename(&next, &self.path).map_err(fail)
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// Reads a record. Fails on a newer schema, saying which.
pub fn load(path: &Path) -> Result<RunRecord> {
    read(path, "schema_version", SCHEMA_VERSION)
}

/// Reads the record of an experiment. Fails on a newer schema, saying which.
pub fn load_lab(path: &Path) -> Result<LabRecord> {
    let mut record: LabRecord = read(path, "lab_schema_version", LAB_SCHEMA_VERSION)?;
    record.note_sizes();
    Ok(record)
}

/// The record that `name` means: a file whose name ends in `.json`, or the newest record in `dir` of
/// the experiment of that name (of any, where it is empty). `NAME~1` is the one before the newest,
/// and so on.
pub fn named_lab(dir: &Path, name: &str) -> Result<PathBuf> {
    if name.ends_with(".json") {
        return Ok(PathBuf::from(name));
    }
    match name.rsplit_once('~').and_then(|(name, back)| Some((name, back.parse().ok()?))) {
        Some((name, back)) => nth_newest_lab(dir, name, back),
        None => nth_newest_lab(dir, name, 0),
    }
}

/// The record before which `back` newer ones of the experiment `name` lie in `dir`.
fn nth_newest_lab(dir: &Path, name: &str, back: usize) -> Result<PathBuf> {
    let entries = std::fs::read_dir(dir).map_err(|e| LabError::io("read the folder", dir, &e))?;
    let started = |path: PathBuf| {
        let record = load_lab(&path).ok()?;
        let is_own = name.is_empty() || record.experiment == name;
        is_own.then_some((record.started_unix_seconds, path))
    };
    let files = entries.flatten().map(|entry| entry.path());
    let files = files.filter(|path| path.extension().is_some_and(|ending| ending == "json"));
    let mut records: Vec<(u64, PathBuf)> = files.filter_map(started).collect();
    records.sort();
    let count = records.len();
    let found = count.checked_sub(back + 1).map(|place| records.swap_remove(place).1);
    found.ok_or_else(|| {
        let of = if name.is_empty() { String::new() } else { format!(" of {name}") };
        let dir = dir.display();
        let message = match count {
            0 => format!("{dir} holds no record{of} yet: esker lab run"),
            _ => format!(
                "{dir} holds {count} record(s){of}, so that {back} before the newest is none"
            ),
        };
        LabError::new(LabErrorKind::Data, message)
    })
}

fn read<T: DeserializeOwned>(path: &Path, field: &str, wanted: u32) -> Result<T> {
    let text = std::fs::read(path).map_err(|e| LabError::io("read the record", path, &e))?;
    let bad = |why: String| {
        LabError::new(LabErrorKind::Data, format!("{} is no record: {why}", path.display()))
    };
    let value: serde_json::Value = serde_json::from_slice(&text).map_err(|e| bad(e.to_string()))?;
    let version = value.get(field).and_then(serde_json::Value::as_u64);
    if version != Some(u64::from(wanted)) {
        let found = version.map_or("none".to_string(), |version| version.to_string());
        return Err(bad(format!("expected {} {wanted}, found {found}", field.replace('_', " "))));
    }
    serde_json::from_value(value).map_err(|e| bad(e.to_string()))
}
