//! The events of all processes of a history, in one order.
//!
//! Invariants: an operation without a recorded end was running when its process died. Its effect
//! came before the next session, or never.

use std::collections::HashMap;
use std::io;
use std::path::Path;

use super::plan::THREADS_MAX;
use super::record::Outcome;

/// One operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// The thread of a session of a child.
    pub process: u64,
    /// The clock before it.
    pub call: u64,
    /// The clock after it; for an unknown outcome, after the last event of its session.
    pub end: u64,
    /// How it ended.
    pub outcome: Outcome,
    /// What was asked.
    pub asked: String,
    /// What was answered; empty unless it was done.
    pub answer: String,
}

/// The operations of a history.
#[derive(Debug, Clone, Default)]
pub struct History {
    /// The operations, in the order of their calls.
    pub events: Vec<Event>,
    /// A number above every number of the clock.
    pub clock: u64,
    /// Number of sessions that have recorded something.
    pub sessions: u64,
}

impl History {
    /// Reads the events of all processes in `dir`.
    ///
    /// # Errors
    /// The file system's error; `InvalidData` for a whole line that [`super::record`] does not
    /// write.
    pub fn read(dir: &Path) -> io::Result<History> {
        let mut history = History { clock: 1, ..History::default() };
        let mut ends: HashMap<u64, u64> = HashMap::new();
        for entry in std::fs::read_dir(dir)? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let Some(process) = name.strip_prefix("events-").and_then(|n| n.parse().ok()) else {
                continue;
            };
            let text = String::from_utf8_lossy(&std::fs::read(entry.path())?).into_owned();
            let from = history.events.len();
            let end = read_lines(&text, process, &mut history.events).ok_or_else(|| {
                io::Error::new(io::ErrorKind::InvalidData, format!("{name}: a line is malformed"))
            })?;
            let last = ends.entry(process / THREADS_MAX).or_insert(0);
            *last = end.max(*last);
            history.sessions = ends.len() as u64;
            history.clock = history.clock.max(end + 1);
            debug_assert!(history.events[from..].iter().all(|event| event.process == process));
        }
        for event in &mut history.events {
            if event.outcome == Outcome::Unknown {
                event.end = ends[&(event.process / THREADS_MAX)];
            }
        }
        history.events.sort_by_key(|event| event.call);
        Ok(history)
    }

    /// Returns the number of operations with this outcome.
    pub fn count(&self, outcome: Outcome) -> u64 {
        self.events.iter().filter(|event| event.outcome == outcome).count() as u64
    }
}

/// Appends the operations in `text`. Returns the highest number of the clock, or `None` for a
/// malformed line.
fn read_lines(text: &str, process: u64, events: &mut Vec<Event>) -> Option<u64> {
    let mut last = 0;
    let mut open: Option<Event> = None;
    for line in text.split_inclusive('\n') {
        // A death has cut the line.
        let Some(line) = line.strip_suffix('\n') else { break };
        let (letter, rest) = line.split_once(' ')?;
        if letter == "c" {
            let (number, asked) = rest.split_once(' ')?;
            let call = number.parse().ok()?;
            last = call;
            events.extend(open.take());
            let (asked, answer) = (asked.to_string(), String::new());
            let outcome = Outcome::Unknown;
            open = Some(Event { process, call, end: call, outcome, asked, answer });
            continue;
        }
        let mut words = rest.splitn(3, ' ');
        let mut event = open.take()?;
        event.call = words.next()?.parse().ok()?;
        event.end = words.next()?.parse().ok()?;
        event.answer = words.next()?.to_string();
        let all = [Outcome::Done, Outcome::Failed, Outcome::Unknown];
        event.outcome = all.into_iter().find(|known| letter.starts_with(known.letter()))?;
        last = event.end;
        events.push(event);
    }
    events.extend(open);
    Some(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cut_line_leaves_an_unknown_outcome() {
        let mut events = Vec::new();
        let text = "c 5 get 1\no 6 7 9\nc 8 put 1 8\nu 9 10 \nc 11 get 2\nf 12 13 \nc 14 put 1";
        assert_eq!(read_lines(text, 3, &mut events), Some(13));
        let outcomes: Vec<Outcome> = events.iter().map(|event| event.outcome).collect();
        assert_eq!(outcomes, [Outcome::Done, Outcome::Unknown, Outcome::Failed]);
        assert_eq!((events[0].call, events[0].end, events[0].answer.as_str()), (6, 7, "9"));
        events.clear();
        assert_eq!(read_lines("c 5 get 1\nc 6 get 2\no 7", 3, &mut events), Some(6));
        assert_eq!(events.len(), 2);
        assert_eq!(read_lines("x 5\n", 3, &mut Vec::new()), None);
        assert_eq!(read_lines("o 5 6 7\n", 3, &mut Vec::new()), None);
    }

    #[test]
    fn unknown_operation_ends_with_its_session() {
        let dir = std::env::temp_dir().join(format!("esker-history-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        std::fs::write(dir.join("events-0"), "c 1 put 1 1\n").unwrap();
        std::fs::write(dir.join("events-1"), "c 2 get 1\no 3 8 0\n").unwrap();
        std::fs::write(dir.join("events-16"), "c 9 get 1\no 10 12 0\n").unwrap();
        let history = History::read(&dir).unwrap();
        assert_eq!((history.clock, history.sessions, history.events.len()), (13, 2, 3));
        assert_eq!((history.events[0].outcome, history.events[0].end), (Outcome::Unknown, 8));
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
