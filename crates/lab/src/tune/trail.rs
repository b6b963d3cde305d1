//! The trail: every run of a tuning, one JSON object per line, written when the run ends.
//!
//! Invariants:
//! 1. The first line describes the tuning. A trail is resumed only by a tuning with the same
//!    description.
//! 2. A line that was cut off by a crash ends the trail; the run it described is repeated.
//! 3. If the file cannot be written, the tuning goes on, and a message says what is lost.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::knob::Setting;
use super::measures::RunMeasures;
use crate::error::{LabError, LabErrorKind, Result};

/// Version of the lines.
pub const TRAIL_VERSION: u32 = 1;

/// Place of a run in a tuning.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Place {
    /// Stage of the tuning.
    pub stage: String,
    /// Round of the stage, from 0.
    pub round: usize,
    /// Index of the set in the round.
    pub set: usize,
}

#[derive(Serialize, Deserialize)]
struct Head {
    trail_version: u32,
    /// Description of the tuning, by name.
    tuning: BTreeMap<String, String>,
}

#[derive(Serialize, Deserialize)]
struct Line {
    place: Place,
    setting: Setting,
    share: f64,
    run: RunMeasures,
}

/// The runs of a tuning so far, and the file that keeps them.
#[derive(Debug, Default)]
pub struct Trail {
    known: BTreeMap<Place, (Setting, f64, RunMeasures)>,
    file: Option<(PathBuf, std::fs::File)>,
    failure: Option<String>,
}

impl Trail {
    /// Creates a trail that is not kept.
    pub fn unkept() -> Trail {
        Trail::default()
    }

    /// Creates the file of a new trail, which replaces nothing.
    ///
    /// # Errors
    /// The file exists or cannot be written.
    pub fn create(path: &Path, tuning: &BTreeMap<String, String>) -> Result<Trail> {
        let fail = |e: &std::io::Error| match e.kind() {
            std::io::ErrorKind::AlreadyExists => LabError::usage(format!(
                "{} exists; continue it with --resume, or name another file with --trail",
                path.display()
            )),
            _ => LabError::io("create the trail", path, e),
        };
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent).map_err(|e| fail(&e))?;
        }
        let mut file = std::fs::OpenOptions::new()
            .append(true)
            .create_new(true)
            .open(path)
            .map_err(|e| fail(&e))?;
        let head = Head { trail_version: TRAIL_VERSION, tuning: tuning.clone() };
        let mut line = serde_json::to_vec(&head).map_err(|e| fail(&e.into()))?;
        line.push(b'\n');
        file.write_all(&line).map_err(|e| fail(&e))?;
        Ok(Trail { file: Some((path.to_path_buf(), file)), ..Trail::default() })
    }

    /// Opens an existing trail to continue it.
    ///
    /// # Errors
    /// The file cannot be read, is no trail, or belongs to a tuning with another description; the
    /// error names the first difference.
    pub fn resume(path: &Path, tuning: &BTreeMap<String, String>) -> Result<Trail> {
        let text =
            std::fs::read_to_string(path).map_err(|e| LabError::io("read the trail", path, &e))?;
        let bad = |why: String| {
            LabError::new(
                LabErrorKind::Data,
                format!("{} cannot be resumed: {why}", path.display()),
            )
        };
        let mut lines = text.split_inclusive('\n').filter(|line| line.ends_with('\n'));
        let head = lines.next().ok_or_else(|| bad("it has no complete line".into()))?;
        let head: Head =
            serde_json::from_str(head).map_err(|e| bad(format!("it is no trail: {e}")))?;
        if head.trail_version != TRAIL_VERSION {
            let found = head.trail_version;
            return Err(bad(format!("expected trail version {TRAIL_VERSION}, found {found}")));
        }
        if let Some(difference) = difference(&head.tuning, tuning) {
            return Err(bad(difference));
        }
        let mut kept = text.find('\n').map_or(0, |end| end + 1);
        let mut trail = Trail::default();
        for text in lines {
            let Ok(line) = serde_json::from_str::<Line>(text) else { break };
            kept += text.len();
            trail.known.insert(line.place, (line.setting, line.share, line.run));
        }
        let fail = |e: std::io::Error| LabError::io("continue the trail", path, &e);
        let file = std::fs::OpenOptions::new().append(true).open(path).map_err(fail)?;
        file.set_len(kept as u64).map_err(fail)?;
        trail.file = Some((path.to_path_buf(), file));
        Ok(trail)
    }

    /// Returns the number of runs.
    pub fn len(&self) -> usize {
        self.known.len()
    }

    /// Returns whether there is no run.
    pub fn is_empty(&self) -> bool {
        self.known.is_empty()
    }

    /// Returns the path of the file; `None` if the trail is not kept.
    pub fn path(&self) -> Option<&Path> {
        self.file.as_ref().map(|(path, _)| path.as_path())
    }

    /// Returns the run at a place, if it was of the same set and size.
    pub fn known(&self, place: &Place, setting: &Setting, share: f64) -> Option<&RunMeasures> {
        let (own, own_share, run) = self.known.get(place)?;
        (own == setting && *own_share == share).then_some(run)
    }

    /// Adds a run and writes its line. Returns a message if the line could not be written, once.
    pub fn add(
        &mut self,
        place: Place,
        setting: &Setting,
        share: f64,
        run: &RunMeasures,
    ) -> Option<String> {
        let line = Line { place, setting: setting.clone(), share, run: run.clone() };
        let message = self.write(&line).err();
        self.known.insert(line.place, (line.setting, share, line.run));
        if message.is_some() && self.failure.is_none() {
            self.failure.clone_from(&message);
            return message;
        }
        None
    }

    fn write(&mut self, line: &Line) -> std::result::Result<(), String> {
        let Some((path, file)) = &mut self.file else { return Ok(()) };
        let fail = |e: std::io::Error| {
            format!(
                "cannot write the trail {}: {e}; the tuning goes on, and --resume will repeat the \
                 runs that are not in it",
                path.display()
            )
        };
        let mut text = serde_json::to_vec(line).map_err(|e| fail(e.into()))?;
        text.push(b'\n');
        let _whole = crate::record::store::pause_writing();
        file.write_all(&text).map_err(fail)
    }
}

/// Returns the first difference between two descriptions as a sentence.
fn difference(before: &BTreeMap<String, String>, now: &BTreeMap<String, String>) -> Option<String> {
    let names = before.keys().chain(now.keys());
    let name = names.into_iter().find(|name| before.get(*name) != now.get(*name))?;
    let of = |map: &BTreeMap<String, String>| map.get(name).map_or("none".into(), Clone::clone);
    Some(format!("its {name} is {}, and this tuning's is {}", of(before), of(now)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tuning(engine: &str) -> BTreeMap<String, String> {
        [("engine".to_string(), engine.to_string())].into()
    }

    fn place(round: usize) -> Place {
        Place { stage: "search".into(), round, set: 0 }
    }

    #[test]
    fn trail_keeps_complete_runs_and_drops_a_torn_line() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("new/trail.jsonl");
        let mut trail = Trail::create(&path, &tuning("x")).expect("created");
        let run = RunMeasures { seconds: 1.5, ..RunMeasures::default() };
        for round in 0..3 {
            assert_eq!(trail.add(place(round), &Setting::default(), 0.5, &run), None);
        }
        assert!(
            Trail::create(&path, &tuning("x"))
                .expect_err("exists")
                .to_string()
                .contains("--resume")
        );
        let bytes = std::fs::read(&path).expect("read");
        std::fs::write(&path, &bytes[..bytes.len() - 5]).expect("cut");
        let mut trail = Trail::resume(&path, &tuning("x")).expect("resumed");
        assert_eq!(trail.len(), 2);
        assert_eq!(trail.known(&place(1), &Setting::default(), 0.5), Some(&run));
        assert_eq!(trail.known(&place(1), &Setting::default(), 0.25), None);
        assert_eq!(trail.known(&place(2), &Setting::default(), 0.5), None);
        trail.add(place(2), &Setting::default(), 0.5, &run);
        assert_eq!(Trail::resume(&path, &tuning("x")).expect("again").len(), 3);
    }

    #[test]
    fn other_tunings_and_other_files_are_refused() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("trail.jsonl");
        Trail::create(&path, &tuning("x")).expect("created");
        let error = Trail::resume(&path, &tuning("y")).expect_err("other").to_string();
        assert!(error.contains("its engine is x, and this tuning's is y"), "{error}");
        std::fs::write(&path, "hello\n").expect("written");
        assert!(Trail::resume(&path, &tuning("x")).is_err());
        std::fs::write(&path, "").expect("written");
        assert!(Trail::resume(&path, &tuning("x")).is_err());
        assert!(Trail::resume(&dir.path().join("none"), &tuning("x")).is_err());
    }
}
