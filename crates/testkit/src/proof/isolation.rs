//! The judge of transactions: the crate `adya`, an implementation of the checks of Elle.
//!
//! The history is written in the format of Jepsen, one JSON object per line, which the command
//! `adya check` reads too. It is judged under the strong form of its level, in which transactions
//! also see everything that was committed before they began: strong snapshot isolation, and strict
//! serializability.
//!
//! `adya` does not report an element that nobody has appended. This file does, as
//! `element-of-nobody`.
//!
//! Invariants: only the verdict "valid" passes. A history without any dependency between
//! transactions is not valid.

use std::collections::HashSet;
use std::fmt::Write as _;
use std::io::{Error, Result};
use std::path::Path;
use std::time::Duration;

use adya::history::{Mop, OpType, ReadValue};
use adya::{Opts, Valid, Workload, check};

use super::history::{Event, History};
use super::plan::Subject;
use super::record::Outcome;

/// What `adya` calls a history that it cannot analyse. Unless asked for, they are no findings to it.
const NOT_ANALYSED: [&str; 2] = ["duplicate-appends", "unexpected-txn-micro-op-types"];

/// Maximum time for the search for cycles in one component of the dependency graph.
const SEARCH_TIME: Duration = Duration::from_secs(10);

/// What a judge says.
#[derive(Debug, Clone, Default)]
pub struct Verdict {
    /// The names of what was found; empty for a valid history.
    pub findings: Vec<String>,
    /// An explanation of the first finding.
    pub explanation: String,
}

/// Returns the model that a level is judged by, in the judge's words.
fn model(subject: Subject) -> &'static str {
    match subject {
        Subject::Serializable => "strict-serializable",
        Subject::Snapshot | Subject::Plain => "strong-snapshot-isolation",
    }
}

/// Returns the history in the format of the judge: each transaction twice, at its call and at its
/// end.
fn jepsen(history: &History) -> String {
    let mut lines: Vec<(u64, bool, &Event)> = Vec::new();
    for event in &history.events {
        lines.push((event.call, true, event));
        lines.push((event.end, false, event));
    }
    // Calls come before ends of the same number.
    lines.sort_by_key(|(at, is_call, _)| (*at, !*is_call));
    let mut text = String::new();
    for (index, (_, is_call, event)) in lines.iter().enumerate() {
        let (kind, value) = match event.outcome {
            _ if *is_call => ("invoke", &event.asked),
            Outcome::Done => ("ok", &event.answer),
            Outcome::Failed => ("fail", &event.asked),
            Outcome::Unknown => ("info", &event.asked),
        };
        let process = event.process;
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            r#"{{"index":{index},"type":"{kind}","process":{process},"value":{value}}}"#
        );
    }
    text
}

/// Writes the history to `path` and judges it.
///
/// # Errors
/// The file system's error; a history that the judge cannot read.
pub fn judge(history: &History, subject: Subject, path: &Path) -> Result<Verdict> {
    std::fs::write(path, jepsen(history))?;
    let parsed = adya::History::from_json(&std::fs::read_to_string(path)?)
        .map_err(|error| Error::other(format!("{}: {error}", path.display())))?;
    let opts = Opts {
        models: vec![model(subject).to_string()],
        anomalies: NOT_ANALYSED.map(str::to_string).to_vec(),
        timeout: SEARCH_TIME,
        ..Opts::default()
    };
    let report = check(&parsed, Workload::ListAppend, &opts);
    let mut verdict = Verdict { findings: report.anomaly_types, ..Verdict::default() };
    if report.valid != Valid::True && verdict.findings.is_empty() {
        verdict.findings.push("unknown".to_string());
    }
    let first = report.anomalies.values().flatten().next();
    verdict.explanation = first.map_or_else(String::new, |anomaly| anomaly.explanation.clone());
    if let Some(stranger) = element_of_nobody(&parsed) {
        verdict.findings.push("element-of-nobody".to_string());
        verdict.explanation = stranger;
    }
    Ok(verdict)
}

/// Returns a description of an element that was read but never appended.
fn element_of_nobody(history: &adya::History) -> Option<String> {
    let mut appended = HashSet::new();
    for op in history.ops.iter().filter(|op| op.kind == OpType::Invoke) {
        for step in &op.value {
            if let Mop::Append { key, value } = step {
                appended.insert((*key, *value));
            }
        }
    }
    for op in history.ops.iter().filter(|op| op.kind == OpType::Ok) {
        for step in &op.value {
            let Mop::Read { key, value: ReadValue::List(elements) } = step else { continue };
            if let Some(stranger) = elements.iter().find(|e| !appended.contains(&(*key, **e))) {
                let (key, element) = (history.show(*key), history.show(*stranger));
                return Some(format!(
                    "transaction {} read {element} in list {key}, which no transaction has \
                     appended",
                    op.index
                ));
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    fn event(process: u64, call: u64, end: u64, asked: &str, answer: &str) -> Event {
        let outcome = if answer.is_empty() { Outcome::Unknown } else { Outcome::Done };
        let (asked, answer) = (asked.to_string(), answer.to_string());
        Event { process, call, end, outcome, asked, answer }
    }

    fn findings(events: Vec<Event>, subject: Subject) -> Vec<String> {
        // Tests of this process judge at the same time.
        static FILES: AtomicU64 = AtomicU64::new(0);
        let number = FILES.fetch_add(1, Ordering::Relaxed);
        let name = format!("esker-isolation-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name).with_extension(subject.name());
        let history = History { events, clock: 100, sessions: 1 };
        let verdict = judge(&history, subject, &path).unwrap();
        std::fs::remove_file(&path).unwrap();
        verdict.findings
    }

    const APPEND: &str = r#"[["append",1,10]]"#;
    const READ: &str = r#"[["r",1,null]]"#;
    const FOUND: &str = r#"[["r",1,[10]]]"#;
    const EMPTY: &str = r#"[["r",1,[]]]"#;

    #[test]
    fn acknowledged_transaction_is_seen_by_later_ones() {
        let seen = [event(0, 1, 2, APPEND, APPEND), event(1, 3, 4, READ, FOUND)];
        let missed = [
            event(0, 1, 2, APPEND, APPEND),
            event(1, 3, 4, READ, EMPTY),
            event(2, 5, 6, READ, FOUND),
        ];
        for subject in [Subject::Snapshot, Subject::Serializable] {
            assert_eq!(findings(seen.to_vec(), subject), Vec::<String>::new());
            let found = findings(missed.to_vec(), subject);
            assert!(found.iter().any(|name| name.ends_with("-realtime")), "{found:?}");
        }
    }

    #[test]
    fn unknown_transaction_may_be_seen_or_missing() {
        let unknown = event(0, 1, 9, APPEND, "");
        for answer in [FOUND, EMPTY] {
            let events = vec![unknown.clone(), event(1, 3, 4, READ, answer)];
            assert_eq!(findings(events, Subject::Snapshot), Vec::<String>::new(), "{answer}");
        }
    }

    #[test]
    fn history_that_cannot_be_analysed_is_not_valid() {
        let twice = vec![event(0, 1, 2, APPEND, APPEND), event(1, 3, 4, APPEND, APPEND)];
        assert_eq!(findings(twice, Subject::Snapshot), ["duplicate-appends"]);
        let written = r#"[["w",1,10]]"#;
        let found = findings(vec![event(0, 1, 2, written, written)], Subject::Serializable);
        assert_eq!(found, ["unexpected-txn-micro-op-types"]);
        let alone = vec![event(0, 1, 2, READ, EMPTY)];
        assert_eq!(findings(alone, Subject::Snapshot), ["empty-transaction-graph"]);
    }

    #[test]
    fn element_without_a_transaction_is_found() {
        let events =
            vec![event(0, 1, 2, APPEND, APPEND), event(1, 3, 4, READ, r#"[["r",1,[10,11]]]"#)];
        let found = findings(events, Subject::Snapshot);
        assert!(found.contains(&"element-of-nobody".to_string()), "{found:?}");
    }
}
