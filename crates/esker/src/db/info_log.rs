//! The info log: the file `LOG`, which says in sentences what a store did.
//!
//! Invariants:
//! 1. No failure reaches a caller. A line that cannot be written is lost and counted.
//! 2. `LOG` and `LOG.old` have at most [`LOG_BYTES_MAX`] each. Nothing is synced, and no descriptor
//!    is held between two writes.
//! 3. One thread at a time writes ([`crate::observe::Listeners`] sees to that). Nothing is written
//!    after [`InfoLog::end`].

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use crate::base::sync::Mutex;
use crate::fs::Fs;
use crate::metrics::Counter;
use crate::observe::{Event, utc};
use crate::tree::names;

/// Length, in bytes, that the file does not exceed.
pub const LOG_BYTES_MAX: u64 = 1 << 20;
/// Maximum length of a line, in bytes.
const LINE_BYTES_MAX: usize = 4 << 10;
/// Number of bytes after which collected lines are written.
const WRITE_BYTES: usize = 64 << 10;
/// Duration from which a write stall has a line.
const STALL_MIN: Duration = Duration::from_millis(1);

/// The info log of a store.
pub(crate) struct InfoLog {
    fs: Arc<dyn Fs>,
    dir: PathBuf,
    state: Mutex<State>,
    lost_lines: Counter,
}

#[derive(Default)]
struct State {
    /// Length of the file in bytes, if known.
    len_bytes: Option<u64>,
    /// Whether the last write failed, so that the file may end within a line.
    is_torn: bool,
    ended: bool,
}

impl InfoLog {
    /// Creates the log of the store in `dir`. The file is created with the first line.
    pub fn new(fs: Arc<dyn Fs>, dir: &Path) -> InfoLog {
        let (dir, state) = (dir.to_path_buf(), Mutex::default());
        InfoLog { fs, dir, state, lost_lines: Counter::default() }
    }

    /// Adds a line for each event that has one.
    pub fn write(&self, events: &[(SystemTime, Event)]) {
        let (mut text, mut lines) = (String::new(), 0);
        for (at, event) in events.iter().filter(|(_, event)| has_line(event)) {
            push_line(&mut text, *at, &event.to_string());
            lines += 1;
            if text.len() >= WRITE_BYTES {
                self.append(&text, lines);
                (text, lines) = (String::new(), 0);
            }
        }
        if lines > 0 {
            self.append(&text, lines);
        }
    }

    /// Adds a line: the time and `sentence`.
    pub fn note(&self, sentence: &str) {
        let mut text = String::new();
        push_line(&mut text, SystemTime::now(), sentence);
        self.append(&text, 1);
    }

    /// Ends the log. Later lines are lost.
    pub fn end(&self) {
        self.state.lock().ended = true;
    }

    /// Returns the number of lines that could not be written.
    pub fn lost_lines(&self) -> u64 {
        self.lost_lines.get()
    }

    fn append(&self, text: &str, lines: u64) {
        let mut state = self.state.lock();
        if state.ended {
            return self.lost_lines.add(lines);
        }
        if self.try_append(&mut state, text).is_err() {
            (state.len_bytes, state.is_torn) = (None, true);
            self.lost_lines.add(lines);
        }
    }

    fn try_append(&self, state: &mut State, text: &str) -> io::Result<()> {
        let path = self.dir.join(names::LOG);
        let mut len_bytes = match state.len_bytes {
            Some(len_bytes) => len_bytes,
            None => self.found_bytes(&path)?,
        };
        let text = if state.is_torn { format!("\n{text}") } else { text.to_string() };
        let added_bytes = text.len() as u64;
        if len_bytes > 0 && len_bytes + added_bytes > LOG_BYTES_MAX {
            self.fs.rename(&path, &self.dir.join(names::LOG_OLD))?;
            len_bytes = 0;
        }
        let mut file = match self.fs.open_write(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => self.fs.create_new(&path)?,
            opened => opened?,
        };
        file.append(text.as_bytes())?;
        (state.len_bytes, state.is_torn) = (Some(len_bytes + added_bytes), false);
        Ok(())
    }

    /// Returns the length of an existing file in bytes, or 0.
    fn found_bytes(&self, path: &Path) -> io::Result<u64> {
        match self.fs.open_read(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(0),
            opened => opened?.len_bytes(),
        }
    }
}

/// Returns whether the log has a line for `event`. A failed job has the line of its error.
fn has_line(event: &Event) -> bool {
    match event {
        Event::FlushEnded { error, .. } | Event::CompactionEnded { error, .. } => error.is_none(),
        Event::StallEnded { duration, .. } => *duration >= STALL_MIN,
        Event::FlushBegan { .. }
        | Event::CompactionBegan { .. }
        | Event::StallBegan { .. }
        | Event::TableCreated { .. }
        | Event::TableRemoved { .. } => false,
        _ => true,
    }
}

/// Adds a line: the time and the sentence, on one line of limited length.
fn push_line(text: &mut String, at: SystemTime, sentence: &str) {
    let begin = text.len();
    text.push_str(&utc(at));
    text.push(' ');
    for character in sentence.chars() {
        if text.len() - begin + character.len_utf8() >= LINE_BYTES_MAX {
            break;
        }
        text.push(if character.is_control() { ' ' } else { character });
    }
    text.push('\n');
}

#[cfg(all(test, not(esker_shuttle)))]
mod tests {
    use super::*;
    use crate::fs::MemFs;

    fn dir() -> &'static Path {
        Path::new("/db")
    }

    fn new_log() -> (Arc<MemFs>, InfoLog) {
        let fs = MemFs::new();
        fs.create_dir(dir()).unwrap();
        (fs.clone(), InfoLog::new(fs, dir()))
    }

    fn note(text: &str) -> (SystemTime, Event) {
        (SystemTime::UNIX_EPOCH, Event::RecoveryNote { note: text.to_string() })
    }

    fn read(fs: &MemFs, name: &str) -> String {
        String::from_utf8(fs.read(&dir().join(name), 2 * LOG_BYTES_MAX).unwrap()).unwrap()
    }

    #[test]
    fn lines_are_appended_and_events_without_line_are_left_out() {
        let (fs, log) = new_log();
        let duration = Duration::from_micros(999);
        log.write(&[(SystemTime::UNIX_EPOCH, Event::TableRemoved { number: 1 })]);
        assert!(!fs.exists(&dir().join("LOG")).unwrap());
        log.write(&[
            note("one\ntwo"),
            (
                SystemTime::UNIX_EPOCH,
                Event::StallEnded {
                    cause: String::new(),
                    bytes: 0,
                    clears: String::new(),
                    duration,
                    is_stopped: true,
                },
            ),
        ]);
        InfoLog::new(fs.clone(), dir()).write(&[note("three")]);
        let text = read(&fs, "LOG");
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            lines,
            [
                "1970-01-01T00:00:00.000Z recovery: one two",
                "1970-01-01T00:00:00.000Z recovery: three"
            ]
        );
        log.end();
        log.write(&[note("late")]);
        assert_eq!((read(&fs, "LOG"), log.lost_lines()), (text, 1));
    }

    #[test]
    fn full_file_is_renamed_and_long_lines_are_cut() {
        let (fs, log) = new_log();
        let long = "é".repeat(3_000);
        let line_bytes = LINE_BYTES_MAX as u64;
        for round in 0..3 * LOG_BYTES_MAX / line_bytes {
            log.write(&[note(&format!("{round} {long}"))]);
            for name in ["LOG", "LOG.old"] {
                let len =
                    fs.open_read(&dir().join(name)).map_or(0, |file| file.len_bytes().unwrap());
                assert!(len <= LOG_BYTES_MAX, "{name}: {len}");
            }
        }
        let (new, old) = (read(&fs, "LOG"), read(&fs, "LOG.old"));
        assert_eq!(fs.list(dir()).unwrap().len(), 2);
        assert!(old.len() as u64 > LOG_BYTES_MAX - 2 * line_bytes, "{}", old.len());
        assert!(new.lines().chain(old.lines()).all(|line| line.len() < LINE_BYTES_MAX));
        assert!(
            new.lines()
                .last()
                .unwrap()
                .contains(&format!("recovery: {} é", 3 * LOG_BYTES_MAX / line_bytes - 1))
        );
        assert_eq!(log.lost_lines(), 0);
    }

    #[test]
    fn failed_lines_are_counted_and_the_next_line_is_whole() {
        let (fs, log) = new_log();
        // A directory takes the place of the file.
        fs.create_dir(&dir().join("LOG")).unwrap();
        log.write(&[note("one"), note("two")]);
        assert_eq!(log.lost_lines(), 2);
        fs.remove_dir(&dir().join("LOG")).unwrap();
        log.write(&[note("three")]);
        assert_eq!(read(&fs, "LOG"), "\n1970-01-01T00:00:00.000Z recovery: three\n");
        assert_eq!(log.lost_lines(), 2);
    }
}
