//! The judge of plain operations: the Go module `porcupine`, in a small program of this crate that
//! reads a history and judges each key (`crates/testkit/porcupine`).
//!
//! Invariants: a missing Go is told from a program that cannot be built. Only the verdict
//! "linearizable" passes.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::io::{Error, Result};
use std::path::{Path, PathBuf};
use std::process::Command;

use super::history::History;
use super::isolation::Verdict;
use super::plan::THREADS_MAX;
use super::record::Outcome;

/// The program that judges.
#[derive(Debug, Clone)]
pub struct Judge {
    program: PathBuf,
}

/// Why there is no judge.
#[derive(Debug)]
pub enum Missing {
    /// Go or the module is not available. The text says which.
    Unavailable(String),
    /// The program could not be built.
    Broken(Error),
}

/// Returns the directory of the program's source.
fn source() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("porcupine")
}

fn go(arguments: &[&str]) -> Result<()> {
    let ran = Command::new("go").args(arguments).current_dir(source()).output()?;
    if ran.status.success() {
        return Ok(());
    }
    let text = String::from_utf8_lossy(&ran.stderr).into_owned();
    Err(Error::other(format!("go {}: {}: {text}", arguments.join(" "), ran.status)))
}

impl Judge {
    /// Builds the program beside this one.
    ///
    /// # Errors
    /// As [`Missing`] says.
    pub fn build() -> std::result::Result<Judge, Missing> {
        if let Err(error) = go(&["version"]) {
            let why = match error.kind() {
                std::io::ErrorKind::NotFound => "no Go".to_string(),
                _ => format!("Go does not run: {error}"),
            };
            return Err(Missing::Unavailable(why));
        }
        go(&["mod", "download"]).map_err(|error| {
            Missing::Unavailable(format!("its module is not here and not downloaded: {error}"))
        })?;
        let built = || {
            let own = std::env::current_exe()?;
            let program = own.with_file_name("porcupine");
            let fresh = program.with_extension(std::process::id().to_string());
            go(&["build", "-o", &fresh.to_string_lossy(), "."])?;
            // Another process may run the program now.
            std::fs::rename(&fresh, &program)?;
            Ok(Judge { program })
        };
        built().map_err(Missing::Broken)
    }

    /// Writes the history to `path` and judges it.
    ///
    /// # Errors
    /// The system's errors; a history that the judge cannot read.
    pub fn judge(&self, history: &History, path: &Path) -> Result<Verdict> {
        std::fs::write(path, lines(history)?)?;
        let ran = Command::new(&self.program).arg(path).output()?;
        let text = String::from_utf8_lossy(&ran.stdout).trim_end().to_string();
        let error_text = String::from_utf8_lossy(&ran.stderr);
        match ran.status.code() {
            Some(0) => Ok(Verdict::default()),
            Some(1) => {
                let finding = text.split(':').next().unwrap_or_default().to_string();
                Ok(Verdict { findings: vec![finding], explanation: text })
            }
            _ => Err(Error::other(format!("porcupine: {}: {error_text}", ran.status))),
        }
    }
}

/// Clock numbers of the judge's format for each of the history's, so that an expiry has room before
/// the first operation of its session.
const TICKS: u64 = 4;

/// Returns the history in the judge's format: `KEY PROCESS CALL END OUTCOME KIND NUMBER EXPIRES`,
/// one operation per line. NUMBER is what was put or found, EXPIRES the session of an expiry, or 0.
/// Operations that failed are left out, and so are unknown reads.
fn lines(history: &History) -> Result<String> {
    let mut text = expiries(history)?;
    for event in &history.events {
        let mut words = event.asked.split(' ');
        let (kind, key) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        let is_unknown_read = kind == "get" && event.outcome == Outcome::Unknown;
        if event.outcome == Outcome::Failed || is_unknown_read {
            continue;
        }
        let number = words.next().unwrap_or(&event.answer);
        let number = if number.is_empty() { "0" } else { number };
        let expires = words.next().unwrap_or("0");
        let kind = if kind == "expiring" { "put" } else { kind };
        let (process, call, end) = (event.process, TICKS * event.call, TICKS * event.end);
        let letter = event.outcome.letter();
        writeln!(text, "{key} {process} {call} {end} {letter} {kind} {number} {expires}")
            .map_err(Error::other)?;
    }
    Ok(text)
}

/// Returns the lines of the kind `expire`. One is at the first session at or after the end of a pair
/// of its key, before each operation of that session, and NUMBER is the session.
fn expiries(history: &History) -> Result<String> {
    let mut begins: BTreeMap<u64, u64> = BTreeMap::new();
    for event in &history.events {
        let begin = begins.entry(event.process / THREADS_MAX).or_insert(event.call);
        *begin = event.call.min(*begin);
    }
    let mut ends: BTreeSet<(&str, u64)> = BTreeSet::new();
    for event in &history.events {
        let words: Vec<&str> = event.asked.split(' ').collect();
        let ["expiring", key, _, session] = words[..] else { continue };
        let session: u64 = session.parse().map_err(Error::other)?;
        ends.extend(begins.range(session..).next().map(|(session, _)| (key, *session)));
    }
    let mut text = String::new();
    for (key, session) in ends {
        let (process, before) = (session * THREADS_MAX, TICKS * begins[&session]);
        let (call, end) = (before - TICKS + 1, before - TICKS + 2);
        writeln!(text, "{key} {process} {call} {end} o expire {session} 0")
            .map_err(Error::other)?;
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proof::history::Event;

    #[test]
    fn operations_become_lines() {
        let event = |outcome, asked: &str, answer: &str| {
            let (asked, answer) = (asked.to_string(), answer.to_string());
            Event { process: 2, call: 5, end: 9, outcome, asked, answer }
        };
        let events = vec![
            event(Outcome::Done, "put 7 31", ""),
            event(Outcome::Unknown, "put 7 32", ""),
            event(Outcome::Done, "get 7", "31"),
            event(Outcome::Unknown, "get 7", ""),
            event(Outcome::Failed, "get 7", ""),
            event(Outcome::Done, "delete 7", ""),
            event(Outcome::Done, "remove 7", "1"),
            event(Outcome::Unknown, "remove 7", ""),
        ];
        let text = lines(&History { events, ..History::default() }).unwrap();
        let want = "7 2 20 36 o put 31 0\n7 2 20 36 u put 32 0\n7 2 20 36 o get 31 0\n\
                    7 2 20 36 o delete 0 0\n7 2 20 36 o remove 1 0\n7 2 20 36 u remove 0 0\n";
        assert_eq!(text, want);
    }

    #[test]
    fn a_pair_expires_before_the_next_session_with_an_operation() {
        let event = |process, call, asked: &str| {
            let (outcome, answer, asked) = (Outcome::Done, String::new(), asked.to_string());
            Event { process, call, end: call + 1, outcome, asked, answer }
        };
        let events = vec![
            event(3, 5, "expiring 7 31 1"),
            event(2 * THREADS_MAX + 1, 9, "put 8 1"),
            event(2 * THREADS_MAX, 8, "put 8 2"),
            event(2 * THREADS_MAX, 12, "expiring 7 32 3"),
        ];
        let text = lines(&History { events, ..History::default() }).unwrap();
        let want = "7 32 29 30 o expire 2 0\n7 3 20 24 o put 31 1\n8 33 36 40 o put 1 0\n\
                    8 32 32 36 o put 2 0\n7 32 48 52 o put 32 3\n";
        assert_eq!(text, want);
    }

    /// An operation, from the words `[PROCESS] OUTCOME CALL END ASKED ANSWER`; `-` is an empty
    /// answer.
    fn event(process: u64, text: &str) -> Event {
        let mut words: Vec<&str> = text.split(' ').collect();
        let given = words[0].parse().ok();
        words.drain(..usize::from(given.is_some()));
        let process = given.unwrap_or(process);
        let [outcome, call, end, asked @ .., answer] = &words[..] else { panic!("{text}") };
        let outcome = if *outcome == "o" { Outcome::Done } else { Outcome::Unknown };
        let (call, end) = (call.parse().unwrap(), end.parse().unwrap());
        let answer = answer.trim_matches('-').to_string();
        Event { process, call, end, outcome, asked: asked.join(" "), answer }
    }

    #[test]
    fn judge_tells_histories_apart() {
        let judge = match Judge::build() {
            Ok(judge) => judge,
            Err(Missing::Unavailable(why)) => return eprintln!("porcupine: skipped, {why}"),
            Err(Missing::Broken(error)) => panic!("{error}"),
        };
        let cases: [(&[&str], bool); 12] = [
            (&["o 1 2 put 7 5 -", "o 3 4 get 7 5", "o 5 6 remove 7 1", "o 7 8 get 7 0"], true),
            // A read misses an acknowledged write.
            (&["o 1 2 put 7 5 -", "o 3 4 get 7 0"], false),
            // Two reads disagree about the order of two writes.
            (&["o 1 9 put 7 5 -", "o 1 9 put 7 6 -", "o 2 3 get 7 5", "o 4 5 get 7 6"], true),
            (&["o 1 5 put 7 5 -", "o 1 5 put 7 6 -", "o 6 7 get 7 5", "o 8 9 get 7 6"], false),
            // A write of unknown outcome may be missing, or come late, but not after its session.
            (&["u 1 9 put 7 5 -", "o 10 11 get 7 0", "o 12 13 get 7 0"], true),
            (&["u 1 9 put 7 5 -", "o 2 3 get 7 0", "o 10 11 get 7 5"], true),
            (&["u 1 9 put 7 5 -", "o 10 11 get 7 0", "o 12 13 get 7 5"], false),
            // Process 32 is the first one of the third session.
            (&["o 1 2 expiring 7 5 2 -", "32 o 3 4 get 7 0", "32 o 5 6 put 7 8 -"], true),
            (&["o 1 2 expiring 7 5 2 -", "16 o 3 4 get 7 5", "32 o 5 6 get 7 0"], true),
            // A pair exists after its end, and one does not before.
            (&["o 1 2 expiring 7 5 2 -", "32 o 3 4 get 7 5"], false),
            (&["o 1 2 expiring 7 5 2 -", "16 o 3 4 get 7 0"], false),
            // A removal says that a missing key existed.
            (&["o 1 2 put 7 5 -", "o 3 4 delete 7 -", "o 5 6 remove 7 1"], false),
        ];
        let name = format!("esker-linear-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        for (texts, is_linearizable) in cases {
            let events = (0..).zip(texts).map(|(process, text)| event(process, text)).collect();
            let history = History { events, ..History::default() };
            let verdict = judge.judge(&history, &path).unwrap();
            let want: &[&str] = if is_linearizable { &[] } else { &["not linearizable"] };
            assert_eq!(verdict.findings, want, "{texts:?}: {}", verdict.explanation);
        }
        std::fs::remove_file(&path).unwrap();
    }
}
