//! The file `STATUS`: the metrics of an open store, for other processes. `docs/format.md` describes
//! its bytes.
//!
//! Invariants:
//! 1. The file has [`STATUS_BYTES`] bytes. A reader accepts it only with one number of publication at
//!    its begin and its end, and with its checksum. So it never takes a mixture of two publications.
//! 2. No failure reaches a caller: it is counted. Nothing is synced, and no descriptor is held.
//! 3. The longer a publication takes, the later is the next one, within bounds. Nothing is written
//!    after [`StatusFile::end`].

use std::fmt::Write;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::base::checksum::checksum;
use crate::base::sync::Mutex;
use crate::base::sync::atomic::{AtomicU64, Ordering};
use crate::fs::Fs;
use crate::metrics::{Counter, LEVELS, LevelMetrics, METRICS, Metrics};
use crate::tree::names;

/// Length of the file, in bytes.
pub const STATUS_BYTES: usize = 8 << 10;
/// Length of its last line with the line break before it, in bytes.
const TAIL_BYTES: usize = 43;
/// Length of the checksum and the line break after it, in bytes.
const CHECKSUM_BYTES: usize = 17;
/// First line.
const TITLE: &str = "esker status 1";
/// Maximum length of the text of a problem, in bytes.
const PROBLEM_BYTES_MAX: usize = 512;

/// Time between two publications.
const INTERVAL: Duration = Duration::from_secs(1);
/// Time between two publications while nothing changes.
const IDLE_INTERVAL: Duration = Duration::from_secs(10);
/// Number of equal publications from which nothing counts as changing.
const UNCHANGED_MIN: u32 = 10;
/// Minimum ratio of the time between two publications and the time that one takes, unless it takes
/// longer than a hundredth of [`IDLE_INTERVAL`].
const COST_RATIO: u32 = 100;
/// Value of `due_ms` when nothing is to be published.
const NEVER: u64 = u64::MAX;

/// The published state of a store that another process, or this one, has open for writing.
///
/// [`Db::live_status`](crate::Db::live_status) reads it.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct LiveStatus {
    /// The process that has the store open. In another container it may have another number.
    pub process: u32,
    /// Number of the publication, from 1 at each opening.
    pub version: u64,
    /// Time at which the store was opened.
    pub opened: SystemTime,
    /// Time at which the metrics were published: about a second ago, or ten seconds while nothing
    /// changes. A longer time ago means that the process was killed or cannot write the file.
    pub updated: SystemTime,
    /// The metrics.
    pub metrics: Metrics,
}

fn unix_ms(at: SystemTime) -> u64 {
    at.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}

/// The lines of a publication. A line that does not fit is left out.
struct Lines(String);

impl Lines {
    fn add(&mut self, name: impl std::fmt::Display, value: impl std::fmt::Display) {
        let len = self.0.len();
        let _ = writeln!(self.0, "{name} {value}");
        if self.0.len() > STATUS_BYTES - TAIL_BYTES {
            self.0.truncate(len);
        }
    }
}

impl LiveStatus {
    /// Returns the content of the file. Numbers that are 0 have no line.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut lines = Lines(format!("{TITLE}\n"));
        lines.add("version", self.version);
        lines.add("process", self.process);
        lines.add("opened_unix_ms", unix_ms(self.opened));
        lines.add("updated_unix_ms", unix_ms(self.updated));
        lines.add("levels", self.metrics.levels.len());
        for spec in METRICS {
            let dot = if spec.part.is_empty() { "" } else { "." };
            if let Some(value) = spec.value(&self.metrics).filter(|value| *value > 0) {
                lines.add(format_args!("{}{dot}{}", spec.part, spec.field), value);
            }
        }
        for (at, level) in self.metrics.levels.iter().enumerate() {
            for spec in METRICS {
                if let Some(value) = spec.level_value(level).filter(|value| *value > 0) {
                    lines.add(format_args!("levels.{at}.{}", spec.field), value);
                }
            }
        }
        if let Some(problem) = &self.metrics.scrub_problem {
            lines.add("scrub_problem", one_line(problem));
        }
        let mut text = lines.0;
        text.extend(std::iter::repeat_n(' ', STATUS_BYTES - TAIL_BYTES - text.len()));
        let _ = write!(text, "\nend {:020} ", self.version);
        let sum = checksum(text.as_bytes(), 0);
        let _ = writeln!(text, "{sum:016x}");
        text.into_bytes()
    }

    /// Reads the content of the file. Returns `None` if it is not a whole publication.
    pub(crate) fn decode(bytes: &[u8]) -> Option<LiveStatus> {
        if bytes.len() != STATUS_BYTES {
            return None;
        }
        let (summed, sum) = bytes.split_at(STATUS_BYTES - CHECKSUM_BYTES);
        let sum = std::str::from_utf8(sum).ok()?.strip_suffix('\n')?;
        if u64::from_str_radix(sum, 16).ok()? != checksum(summed, 0) {
            return None;
        }
        let mut lines = std::str::from_utf8(summed).ok()?.lines();
        if lines.next()? != TITLE {
            return None;
        }
        let mut status = LiveStatus {
            process: 0,
            version: 0,
            opened: UNIX_EPOCH,
            updated: UNIX_EPOCH,
            metrics: Metrics::default(),
        };
        let mut end = 0;
        for line in lines {
            // The line of spaces before the last one has no value.
            let Some((name, value)) = line.trim_end().split_once(' ') else { continue };
            if name == "scrub_problem" {
                status.metrics.scrub_problem = Some(value.to_string());
                continue;
            }
            let value = value.trim_end().parse::<u64>().ok()?;
            match name {
                "end" => end = value,
                _ => status.take(name, value)?,
            }
        }
        (end == status.version && end > 0).then_some(status)
    }

    /// Takes the number of one line. A name of a later version is ignored.
    fn take(&mut self, name: &str, value: u64) -> Option<()> {
        let time = || UNIX_EPOCH.checked_add(Duration::from_millis(value));
        match name {
            "version" => self.version = value,
            "process" => self.process = u32::try_from(value).ok()?,
            "opened_unix_ms" => self.opened = time()?,
            "updated_unix_ms" => self.updated = time()?,
            "levels" => {
                let levels = 0..usize::try_from(value).ok().filter(|count| *count <= LEVELS)?;
                let level = |level| LevelMetrics { level, ..LevelMetrics::default() };
                self.metrics.levels = levels.map(level).collect();
            }
            _ => self.take_metric(name, value),
        }
        Some(())
    }

    fn take_metric(&mut self, name: &str, value: u64) {
        let (part, field) = name.rsplit_once('.').unwrap_or(("", name));
        let level = part.strip_prefix("levels.").and_then(|level| level.parse::<usize>().ok());
        let part = if level.is_some() { "levels" } else { part };
        let of_field = METRICS.iter().find(|spec| spec.part == part && spec.field == field);
        let Some(spec) = of_field else { return };
        match level {
            None => spec.set(&mut self.metrics, value),
            Some(level) => {
                if let Some(level) = self.metrics.levels.get_mut(level) {
                    spec.set_level(level, value);
                }
            }
        }
    }
}

/// Returns a text of limited length on one line.
fn one_line(text: &str) -> String {
    let mut line = String::new();
    for character in text.chars() {
        if line.len() + character.len_utf8() > PROBLEM_BYTES_MAX {
            break;
        }
        line.push(if character.is_control() { ' ' } else { character });
    }
    line
}

/// Publishes the metrics of a store.
pub(crate) struct StatusFile {
    fs: Arc<dyn Fs>,
    dir: PathBuf,
    started: Instant,
    opened: SystemTime,
    /// Milliseconds from `started` to the next publication.
    due_ms: AtomicU64,
    state: Mutex<State>,
    failures: Counter,
}

#[derive(Default)]
struct State {
    version: u64,
    /// The metrics that were published last.
    last: Option<Metrics>,
    /// Number of publications without a change.
    unchanged: u32,
    /// Whether this opening made the file.
    is_made: bool,
    ended: bool,
}

impl StatusFile {
    /// Creates the publisher of the store in `dir`, whose first publication is due at once. With
    /// `on` false it publishes nothing.
    pub fn new(fs: Arc<dyn Fs>, dir: &Path, on: bool) -> StatusFile {
        StatusFile {
            fs,
            dir: dir.to_path_buf(),
            started: Instant::now(),
            opened: SystemTime::now(),
            due_ms: AtomicU64::new(if on { 0 } else { NEVER }),
            state: Mutex::new(State { ended: !on, ..State::default() }),
            failures: Counter::default(),
        }
    }

    /// Returns the time of the next publication; `None` if there is none.
    pub fn due(&self) -> Option<Instant> {
        match self.due_ms.load(Ordering::Relaxed) {
            NEVER => None,
            due_ms => self.started.checked_add(Duration::from_millis(due_ms)),
        }
    }

    /// Returns whether the caller is the one that publishes now, because it is time.
    pub fn take_turn(&self) -> bool {
        let due_ms = self.due_ms.load(Ordering::Relaxed);
        if due_ms == NEVER {
            return false;
        }
        let now_ms = self.now_ms();
        if now_ms < due_ms {
            return false;
        }
        // The others see a later time from here on.
        let next_ms = now_ms + INTERVAL.as_millis() as u64;
        let (success, failure) = (Ordering::Relaxed, Ordering::Relaxed);
        self.due_ms.compare_exchange(due_ms, next_ms, success, failure).is_ok()
    }

    /// Returns whether nothing was published yet, also when another thread has taken the turn.
    pub fn awaits_first(&self) -> bool {
        let state = self.state.lock();
        !state.ended && state.version == 0
    }

    fn now_ms(&self) -> u64 {
        self.started.elapsed().as_millis() as u64
    }

    /// Publishes `metrics`. It took `took` to collect them.
    pub fn publish(&self, metrics: Metrics, took: Duration) {
        let began = Instant::now();
        let mut state = self.state.lock();
        if state.ended {
            return;
        }
        state.version += 1;
        let status = LiveStatus {
            process: std::process::id(),
            version: state.version,
            opened: self.opened,
            updated: SystemTime::now(),
            metrics,
        };
        match self.write(&status.encode(), state.is_made) {
            Ok(()) => state.is_made = true,
            Err(_) => self.failures.add(1),
        }
        let is_same = state.last.as_ref() == Some(&status.metrics);
        state.unchanged = if is_same { state.unchanged.saturating_add(1) } else { 0 };
        state.last = Some(status.metrics);
        let interval = if state.unchanged >= UNCHANGED_MIN { IDLE_INTERVAL } else { INTERVAL };
        let cost = (took + began.elapsed()).saturating_mul(COST_RATIO).min(IDLE_INTERVAL);
        let due_ms = self.now_ms() + interval.max(cost).as_millis() as u64;
        self.due_ms.store(due_ms, Ordering::Relaxed);
    }

    /// Writes the file. The first time, it replaces a file that a killed process left. Later, a file
    /// that somebody removed is not made again: he may be removing the whole directory.
    fn write(&self, bytes: &[u8], is_made: bool) -> io::Result<()> {
        let path = self.dir.join(names::STATUS);
        if is_made {
            return self.fs.open_write(&path)?.write_at(bytes, 0);
        }
        match self.fs.remove(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        self.fs.create_new(&path)?.write_at(bytes, 0)
    }

    /// Removes the file, because the store is no longer open.
    pub fn end(&self) {
        let mut state = self.state.lock();
        if !state.ended {
            state.ended = true;
            self.due_ms.store(NEVER, Ordering::Relaxed);
            if state.version > 0 {
                let _ = self.fs.remove(&self.dir.join(names::STATUS));
            }
        }
    }

    /// Returns the number of failed publications.
    pub fn failures(&self) -> u64 {
        self.failures.get()
    }
}

#[cfg(all(test, not(esker_shuttle)))]
mod tests {
    use super::*;
    use crate::fs::MemFs;

    fn full() -> LiveStatus {
        let mut metrics = Metrics::default();
        for _ in 0..LEVELS {
            let level = metrics.levels.len();
            metrics.levels.push(LevelMetrics { level, ..LevelMetrics::default() });
        }
        // Numbers as long as any number that a store can have.
        for (at, spec) in (0..).zip(METRICS) {
            spec.set(&mut metrics, (1 << 62) + at);
            for level in &mut metrics.levels {
                let value = (1 << 62) + 100 * level.level as u64 + at;
                spec.set_level(level, value);
            }
        }
        LiveStatus {
            process: u32::MAX,
            version: 1 << 40,
            opened: UNIX_EPOCH + Duration::from_millis(1_700_000_000_123),
            updated: UNIX_EPOCH + Duration::from_millis(1_700_000_009_456),
            metrics,
        }
    }

    #[test]
    fn publication_is_read_back_and_any_change_is_refused() {
        let small = LiveStatus { metrics: Metrics::default(), ..full() };
        for mut status in [full(), small] {
            status.metrics.scrub_problem = Some("table 000001.sst is damaged".to_string());
            let bytes = status.encode();
            assert_eq!(bytes.len(), STATUS_BYTES);
            assert_eq!(LiveStatus::decode(&bytes), Some(status));
            for at in (0..STATUS_BYTES).step_by(7) {
                let mut changed = bytes.clone();
                changed[at] ^= 1;
                assert_eq!(LiveStatus::decode(&changed), None, "byte {at}");
            }
            assert_eq!(LiveStatus::decode(&bytes[1..]), None);
            assert_eq!(LiveStatus::decode(b""), None);
        }
    }

    #[test]
    fn halves_of_two_publications_are_refused() {
        let (one, two) = (full(), LiveStatus { version: 7, ..full() });
        let (one, two) = (one.encode(), two.encode());
        for at in [1, 20, 60, 4096, STATUS_BYTES - 30] {
            let mixed = [&two[..at], &one[at..]].concat();
            let is_mixed = mixed != one && mixed != two;
            assert_eq!(LiveStatus::decode(&mixed).is_none(), is_mixed, "{at}");
        }
    }

    #[test]
    fn long_problem_is_cut_and_what_does_not_fit_is_left_out() {
        let mut status = full();
        status.metrics.scrub_problem = Some("line\n".repeat(1000));
        let decoded = LiveStatus::decode(&status.encode()).unwrap();
        let problem = decoded.metrics.scrub_problem.clone().unwrap();
        assert!(problem.starts_with("line line ") && problem.len() <= PROBLEM_BYTES_MAX);
        assert_eq!(decoded.metrics.levels, status.metrics.levels);
        let mut lines = Lines(String::new());
        lines.add("long", "x".repeat(STATUS_BYTES));
        lines.add("short", 1);
        assert_eq!(lines.0, "short 1\n");
    }

    #[test]
    fn names_of_later_versions_are_ignored() {
        let mut status = LiveStatus { metrics: Metrics::default(), ..full() };
        for name in ["new", "memory.new", "levels.3.files", "levels.x.files", "other.files", "."] {
            assert!(status.take(name, 5).is_some(), "{name}");
        }
        assert_eq!(status, LiveStatus { metrics: Metrics::default(), ..full() });
        assert!(status.take("levels", 9).is_none() && status.take("process", 1 << 32).is_none());
    }

    #[test]
    fn turns_come_once_an_interval_and_end_with_the_file() {
        let (fs, dir) = (MemFs::new(), Path::new("/db"));
        fs.create_dir(dir).unwrap();
        fs.create_new(&dir.join("STATUS")).unwrap().append(&[7; 3 * STATUS_BYTES]).unwrap();
        let file = StatusFile::new(fs.clone(), dir, true);
        assert!(file.due().is_some_and(|due| due <= Instant::now()));
        assert!(file.awaits_first() && file.take_turn() && !file.take_turn());
        // The turn is taken, and nothing is published yet.
        assert!(file.awaits_first());
        file.publish(Metrics::default(), Duration::ZERO);
        assert!(!file.awaits_first());
        let read = || fs.read(&dir.join("STATUS"), u64::MAX).ok();
        assert_eq!(LiveStatus::decode(&read().unwrap()).unwrap().version, 1);
        file.publish(Metrics { flushes: 3, ..Metrics::default() }, Duration::ZERO);
        let found = LiveStatus::decode(&read().unwrap()).unwrap();
        assert_eq!((found.version, found.metrics.flushes), (2, 3));
        // A slow publication delays the next one.
        let before = Instant::now();
        file.publish(Metrics::default(), Duration::from_secs(3));
        assert!(file.due().unwrap() >= before + Duration::from_secs(9));
        file.end();
        assert_eq!((read(), file.due(), file.take_turn()), (None, None, false));
        file.publish(Metrics::default(), Duration::ZERO);
        assert_eq!((read(), file.failures()), (None, 0));
    }

    #[test]
    fn unchanged_metrics_are_published_less_often() {
        let (fs, dir) = (MemFs::new(), Path::new("/db"));
        fs.create_dir(dir).unwrap();
        let file = StatusFile::new(fs, dir, true);
        for count in 0..=UNCHANGED_MIN {
            file.publish(Metrics::default(), Duration::ZERO);
            assert_eq!(file.state.lock().unchanged, count);
        }
        let before = Instant::now();
        file.publish(Metrics::default(), Duration::ZERO);
        assert!(file.due().unwrap() >= before + Duration::from_secs(9));
        file.publish(Metrics { flushes: 1, ..Metrics::default() }, Duration::ZERO);
        assert_eq!(file.state.lock().unchanged, 0);
    }

    #[test]
    fn removed_file_is_not_made_again() {
        let (fs, dir) = (MemFs::new(), Path::new("/db"));
        fs.create_dir(dir).unwrap();
        let file = StatusFile::new(fs.clone(), dir, true);
        file.publish(Metrics::default(), Duration::ZERO);
        fs.remove(&dir.join("STATUS")).unwrap();
        file.publish(Metrics::default(), Duration::ZERO);
        assert!(fs.list(dir).unwrap().is_empty() && file.failures() == 1);
        file.end();
    }

    #[test]
    fn switched_off_publisher_writes_nothing_and_failures_are_counted() {
        let (fs, dir) = (MemFs::new(), Path::new("/db"));
        fs.create_dir(dir).unwrap();
        let off = StatusFile::new(fs.clone(), dir, false);
        assert!(off.due().is_none() && !off.take_turn());
        off.publish(Metrics::default(), Duration::ZERO);
        off.end();
        assert!(fs.list(dir).unwrap().is_empty());
        let missing = StatusFile::new(fs, Path::new("/missing"), true);
        missing.publish(Metrics::default(), Duration::ZERO);
        missing.publish(Metrics::default(), Duration::ZERO);
        assert_eq!(missing.failures(), 2);
    }
}
