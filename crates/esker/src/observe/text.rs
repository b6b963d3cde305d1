//! The text of events: one sentence each, without its end. And the text of a time.

use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::event::Event;
use crate::base::units::human_bytes;
use crate::error::Error;

/// Seconds of a day.
const DAY_S: u64 = 86_400;

/// Formats a time in UTC, such as `2026-11-25T04:02:11.123Z`. A time before 1970 counts as 1970.
pub fn utc(at: SystemTime) -> String {
    let since = at.duration_since(UNIX_EPOCH).unwrap_or_default();
    let (days, seconds) = (since.as_secs() / DAY_S, since.as_secs() % DAY_S);
    let (year, month, day) = civil(days);
    let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    let millis = since.subsec_millis();
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{millis:03}Z")
}

/// Returns year, month and day of the day with this number after 1970-01-01. (Hinnant,
/// "chrono-Compatible Low-Level Date Algorithms", with years that begin in March.)
fn civil(days: u64) -> (u64, u64, u64) {
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    (year, month, day)
}

/// A duration in a fitting unit.
struct Took(Duration);

impl fmt::Display for Took {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let micros = self.0.as_micros();
        match micros {
            0..10_000 => write!(f, "{micros} µs"),
            10_000..10_000_000 => write!(f, "{} ms", micros / 1000),
            _ => write!(f, "{:.1} s", self.0.as_secs_f64()),
        }
    }
}

/// A number of things, with the plural where it is needed.
struct Counted(u64, &'static str);

impl fmt::Display for Counted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}{}", self.0, self.1, if self.0 == 1 { "" } else { "s" })
    }
}

/// The tree of a job, except for tree 0, which most stores have alone.
struct InTree(u32);

impl fmt::Display for InTree {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 == 0 { Ok(()) } else { write!(f, " of tree {}", self.0) }
    }
}

/// Returns the name of a stall in which writes stop, or are only slowed.
fn stall_name(is_stopped: bool) -> &'static str {
    if is_stopped { "write stall" } else { "write slowdown" }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Event::Opened { .. } => opened(f, self),
            Event::RecoveryNote { note } => write!(f, "recovery: {note}"),
            Event::FlushBegan { .. } | Event::FlushEnded { .. } => flush(f, self),
            Event::CompactionBegan { .. } | Event::CompactionEnded { .. } => compaction(f, self),
            Event::RestEnded { compactions, written_bytes, duration, cause } => {
                let (took, bytes) = (Took(*duration), human_bytes(*written_bytes));
                let compactions = Counted(*compactions, "compaction");
                write!(f, "{compactions} at rest wrote {bytes} in {took}; {cause}")
            }
            Event::StallBegan { cause, bytes, clears, is_stopped } => {
                let (what, bytes) = (stall_name(*is_stopped), human_bytes(*bytes));
                write!(f, "{what} began: {cause}; {bytes} have to be written to tables; {clears}")
            }
            Event::StallEnded { cause, bytes, duration, is_stopped, .. } => {
                let (took, bytes) = (Took(*duration), human_bytes(*bytes));
                let what = stall_name(*is_stopped);
                write!(f, "{what} of {took}: {cause}; {bytes} had to be written to tables")
            }
            Event::TableCreated { tree, level, number, size_bytes } => {
                let (tree, bytes) = (InTree(*tree), human_bytes(*size_bytes));
                write!(f, "table {number:06} ({bytes}) created in level {level}{tree}")
            }
            Event::TableRemoved { number } => write!(f, "table {number:06} removed"),
            Event::BackgroundError { job, error } => write!(f, "error in {job}: {error}"),
            Event::ScrubProblem { error } => write!(f, "the scrub found damage: {error}"),
            Event::KeyspaceCreated { id, name } => {
                write!(f, "keyspace {id} \"{name}\" created")
            }
            Event::KeyspaceRenamed { id, name, new_name } => {
                write!(f, "keyspace {id} \"{name}\" renamed to \"{new_name}\"")
            }
            Event::KeyspaceDropped { id, name } => {
                write!(f, "keyspace {id} \"{name}\" dropped")
            }
            Event::SlotDropped { name, cause } => {
                write!(f, "slot \"{name}\" dropped: {cause}; bootstrap its reader again")
            }
            Event::Closed { error: None } => write!(f, "closed"),
            Event::Closed { error: Some(error) } => write!(f, "closed with an error: {error}"),
        }
    }
}

fn opened(f: &mut fmt::Formatter<'_>, event: &Event) -> fmt::Result {
    let Event::Opened {
        read_only,
        options,
        tables,
        table_bytes,
        logs,
        is_closed_cleanly,
        duration,
    } = event
    else {
        return Ok(());
    };
    let purpose = if *read_only { "reading" } else { "writing" };
    let (took, bytes) = (Took(*duration), human_bytes(*table_bytes));
    write!(f, "opened for {purpose} in {took}: {} ({bytes}), ", Counted(*tables, "table"))?;
    match (*logs, *is_closed_cleanly) {
        (0, _) => write!(f, "no log read")?,
        (logs, true) => write!(f, "{} read, closed cleanly before", Counted(logs, "log"))?,
        (logs, false) => write!(f, "{} read, not closed before", Counted(logs, "log"))?,
    }
    if options.is_empty() {
        return write!(f, "; all options are the defaults");
    }
    let options: Vec<String> =
        options.iter().map(|(name, value)| format!("{name}={value}")).collect();
    write!(f, "; options: {}", options.join(", "))
}

fn flush(f: &mut fmt::Formatter<'_>, event: &Event) -> fmt::Result {
    match event {
        Event::FlushBegan { job, memory_bytes } => {
            write!(f, "flush {job} of {} of memtables began", human_bytes(*memory_bytes))
        }
        Event::FlushEnded { job, memory_bytes, tables, written_bytes, duration, error } => {
            let (memory, written) = (human_bytes(*memory_bytes), human_bytes(*written_bytes));
            write!(f, "flush {job} of {memory} of memtables ")?;
            let wrote = Wrote { tables: *tables, bytes: written, duration: *duration };
            wrote.or_failed(f, error.as_ref())
        }
        _ => Ok(()),
    }
}

fn compaction(f: &mut fmt::Formatter<'_>, event: &Event) -> fmt::Result {
    match event {
        Event::CompactionBegan { job, tree, level, output_level, reason, inputs, input_bytes } => {
            let (tree, bytes) = (InTree(*tree), human_bytes(*input_bytes));
            let inputs = Counted(*inputs, "input");
            write!(f, "compaction {job} from level {level} to level {output_level}{tree} began ")?;
            write!(f, "with {inputs} ({bytes}), because {reason}")
        }
        Event::CompactionEnded {
            job,
            tree,
            level,
            output_level,
            reason,
            read_bytes,
            written_bytes,
            tables,
            duration,
            error,
        } => {
            let (tree, read) = (InTree(*tree), human_bytes(*read_bytes));
            write!(f, "compaction {job} from level {level} to level {output_level}{tree}, ")?;
            write!(f, "because {reason}, read {read} and ")?;
            let written = human_bytes(*written_bytes);
            let wrote = Wrote { tables: *tables, bytes: written, duration: *duration };
            wrote.or_failed(f, error.as_ref())
        }
        _ => Ok(()),
    }
}

/// The result of a job that writes tables.
struct Wrote {
    tables: u64,
    bytes: String,
    duration: Duration,
}

impl Wrote {
    fn or_failed(&self, f: &mut fmt::Formatter<'_>, error: Option<&Error>) -> fmt::Result {
        let took = Took(self.duration);
        match error {
            Some(error) => write!(f, "failed after {took}: {error}"),
            None => {
                let tables = Counted(self.tables, "table");
                write!(f, "wrote {tables} ({}) in {took}", self.bytes)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;

    #[test]
    fn times_are_formatted_in_utc() {
        let at = |seconds: u64, millis: u64| {
            utc(UNIX_EPOCH + Duration::from_secs(seconds) + Duration::from_millis(millis))
        };
        assert_eq!(at(0, 0), "1970-01-01T00:00:00.000Z");
        assert_eq!(at(951_782_399, 7), "2000-02-28T23:59:59.007Z");
        assert_eq!(at(951_782_400, 0), "2000-02-29T00:00:00.000Z");
        assert_eq!(at(951_868_800, 0), "2000-03-01T00:00:00.000Z");
        assert_eq!(at(1_709_164_800, 0), "2024-02-29T00:00:00.000Z");
        assert_eq!(at(1_735_689_599, 999), "2024-12-31T23:59:59.999Z");
        assert_eq!(at(4_102_444_800, 0), "2100-01-01T00:00:00.000Z");
        assert_eq!(utc(UNIX_EPOCH - Duration::from_secs(9)), "1970-01-01T00:00:00.000Z");
    }

    #[test]
    fn end_of_rest_is_sentence() {
        let event = Event::RestEnded {
            compactions: 1,
            written_bytes: 1024,
            duration: Duration::from_millis(20_500),
            cause: "nothing is left to merge",
        };
        let text = "1 compaction at rest wrote 1.0 KiB in 20.5 s; nothing is left to merge";
        assert_eq!(event.to_string(), text);
    }

    #[test]
    fn events_are_sentences() {
        let options = vec![("policy".to_string(), "leveled".to_string())];
        let opened = |options: &[(String, String)], logs, is_closed_cleanly| Event::Opened {
            read_only: false,
            options: options.to_vec(),
            tables: 1,
            table_bytes: 2048,
            logs,
            is_closed_cleanly,
            duration: Duration::from_micros(12_345),
        };
        let error = Error::new(ErrorKind::NoSpace, "the device is full");
        let duration = Duration::from_millis(20_500);
        let ended = |error| Event::FlushEnded {
            job: 3,
            memory_bytes: 4096,
            tables: 2,
            written_bytes: 1024,
            duration: Duration::from_micros(900),
            error,
        };
        let cases = [
            (
                opened(&options, 2, true),
                "opened for writing in 12 ms: 1 table (2.0 KiB), 2 logs read, closed cleanly \
                 before; options: policy=leveled",
            ),
            (
                opened(&[], 0, false),
                "opened for writing in 12 ms: 1 table (2.0 KiB), no log read; all options are the \
                 defaults",
            ),
            (ended(None), "flush 3 of 4.0 KiB of memtables wrote 2 tables (1.0 KiB) in 900 µs"),
            (ended(Some(error.clone())), "flush 3 of 4.0 KiB of memtables failed after 900 µs: "),
            (
                Event::CompactionEnded {
                    job: 4,
                    tree: 2,
                    level: 0,
                    output_level: 1,
                    reason: "level 0 has reached its run limit",
                    read_bytes: 10,
                    written_bytes: 9,
                    tables: 1,
                    duration,
                    error: None,
                },
                "compaction 4 from level 0 to level 1 of tree 2, because level 0 has reached its \
                 run limit, read 10 B and wrote 1 table (9 B) in 20.5 s",
            ),
            (
                Event::TableCreated { tree: 0, level: 3, number: 12, size_bytes: 1 },
                "table 000012 (1 B) created in level 3",
            ),
            (Event::BackgroundError { job: "flush".to_string(), error }, "error in flush: "),
            (Event::Closed { error: None }, "closed"),
        ];
        for (event, text) in cases {
            let shown = event.to_string();
            assert!(shown.starts_with(text) && !shown.contains('\n'), "{shown}");
        }
    }
    #[test]
    fn stalls_are_sentences() {
        let (cause, clears) = ("no room".to_string(), "a flush ends the wait".to_string());
        for (is_stopped, what) in [(true, "write stall"), (false, "write slowdown")] {
            let (cause, clears) = (cause.clone(), clears.clone());
            let began = Event::StallBegan { cause, bytes: 7, clears, is_stopped };
            let rest = "no room; 7 B have to be written to tables; a flush ends the wait";
            assert_eq!(began.to_string(), format!("{what} began: {rest}"));
        }
        let duration = Duration::from_millis(20_500);
        let ended = Event::StallEnded { cause, bytes: 7, clears, duration, is_stopped: true };
        let text = "write stall of 20.5 s: no room; 7 B had to be written to tables";
        assert_eq!(ended.to_string(), text);
    }
}
