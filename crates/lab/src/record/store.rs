//! One JSON file a run, replaced as the run goes on, so that an interrupted run keeps what it has.

use std::path::{Path, PathBuf};

use super::env::utc_text;
use super::schema::{RunRecord, SCHEMA_VERSION};
use crate::error::{LabError, LabErrorKind, Result};

/// Where a run's record is kept.
#[derive(Clone, Debug)]
pub struct RecordFile {
    path: PathBuf,
}

impl RecordFile {
    /// A new file in `dir` (made if absent), named by the time the run began; a number is added
    /// where two runs begin within a second.
    pub fn create(dir: &Path, record: &RunRecord) -> Result<RecordFile> {
        std::fs::create_dir_all(dir).map_err(|e| LabError::io("make the folder", dir, &e))?;
        let date = utc_text(record.started_unix_seconds).replace(['-', ':'], "").replace(' ', "-");
        for number in 0..1000u32 {
            let tail = if number == 0 { String::new() } else { format!("-{number}") };
            let path = dir.join(format!("{date}{tail}.json"));
            match std::fs::OpenOptions::new().write(true).create_new(true).open(&path) {
                Ok(_) => {
                    let file = RecordFile { path };
                    file.save(record)?;
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

    /// Replaces the file's content, at once or not at all.
    pub fn save(&self, record: &RunRecord) -> Result<()> {
        let fail = |e: std::io::Error| LabError::io("write the record", &self.path, &e);
        let mut text = serde_json::to_vec_pretty(record).map_err(|e| fail(e.into()))?;
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
    let text = std::fs::read(path).map_err(|e| LabError::io("read the record", path, &e))?;
    let bad = |why: String| {
        LabError::new(LabErrorKind::Data, format!("{} is no record: {why}", path.display()))
    };
    let value: serde_json::Value = serde_json::from_slice(&text).map_err(|e| bad(e.to_string()))?;
    let version = value.get("schema_version").and_then(serde_json::Value::as_u64);
    if version != Some(u64::from(SCHEMA_VERSION)) {
        let found = version.map_or("none".to_string(), |version| version.to_string());
        return Err(bad(format!("expected schema version {SCHEMA_VERSION}, found {found}")));
    }
    serde_json::from_value(value).map_err(|e| bad(e.to_string()))
}
