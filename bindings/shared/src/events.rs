//! The events of a store as named fields, for languages without Rust's enums.
//!
//! Invariants: every kind of event has a number and a name, which never change; a field has the
//! same name, type and unit in every kind of event that has it.

use std::time::Duration;

use esker::{Error, Event};

/// A value of a field.
#[derive(Debug, Clone, Copy)]
pub enum Value<'a> {
    /// A count, a number or bytes.
    Number(u64),
    /// A text.
    Text(&'a str),
    /// A yes or no.
    Flag(bool),
    /// A time span.
    Time(Duration),
    /// A failure.
    Failure(&'a Error),
    /// Names and values of options.
    Pairs(&'a [(String, String)]),
}

/// Number of an event of a kind that this version of the bindings does not know.
pub const OTHER: i32 = 0;

/// Returns the number and the name of the kind of an event.
pub fn kind(event: &Event) -> (i32, &'static str) {
    match event {
        Event::Opened { .. } => (1, "opened"),
        Event::RecoveryNote { .. } => (2, "recovery_note"),
        Event::FlushBegan { .. } => (3, "flush_began"),
        Event::FlushEnded { .. } => (4, "flush_ended"),
        Event::CompactionBegan { .. } => (5, "compaction_began"),
        Event::CompactionEnded { .. } => (6, "compaction_ended"),
        Event::RestEnded { .. } => (7, "rest_ended"),
        Event::StallBegan { .. } => (8, "stall_began"),
        Event::StallEnded { .. } => (9, "stall_ended"),
        Event::TableCreated { .. } => (10, "table_created"),
        Event::TableRemoved { .. } => (11, "table_removed"),
        Event::BackgroundError { .. } => (12, "background_error"),
        Event::ScrubProblem { .. } => (13, "scrub_problem"),
        Event::KeyspaceCreated { .. } => (14, "keyspace_created"),
        Event::KeyspaceRenamed { .. } => (15, "keyspace_renamed"),
        Event::KeyspaceDropped { .. } => (16, "keyspace_dropped"),
        Event::Closed { .. } => (17, "closed"),
        Event::SlotDropped { .. } => (18, "slot_dropped"),
        _ => (OTHER, "other"),
    }
}

/// Adds the fields that are given by name, each as a value of the kind before the semicolon.
macro_rules! fields {
    ($($kind:ident: $($name:literal = $value:expr),+;)+) => {
        vec![$($(($name, Value::$kind($value))),+),+]
    };
}

/// Returns the fields of an event: their names and values.
pub fn fields(event: &Event) -> Vec<(&'static str, Value<'_>)> {
    let (mut list, failure) = match event {
        Event::FlushEnded { error, .. }
        | Event::CompactionEnded { error, .. }
        | Event::Closed { error, .. } => (fields_of(event), error.as_ref()),
        Event::BackgroundError { error, .. } | Event::ScrubProblem { error, .. } => {
            (fields_of(event), Some(error))
        }
        _ => (fields_of(event), None),
    };
    list.extend(failure.map(|failure| ("error", Value::Failure(failure))));
    list
}

/// Returns the fields of an event except for its error.
fn fields_of(event: &Event) -> Vec<(&'static str, Value<'_>)> {
    match event {
        Event::Opened {
            read_only,
            options,
            tables,
            table_bytes,
            logs,
            is_closed_cleanly,
            duration,
            ..
        } => fields! {
            Flag: "read_only" = *read_only, "is_closed_cleanly" = *is_closed_cleanly;
            Pairs: "options" = options;
            Number: "tables" = *tables, "bytes" = *table_bytes, "logs" = *logs;
            Time: "duration" = *duration;
        },
        Event::RecoveryNote { note, .. } => fields! { Text: "cause" = note; },
        Event::FlushBegan { job, memory_bytes, .. } => fields! {
            Number: "job" = *job, "memory_bytes" = *memory_bytes;
        },
        Event::FlushEnded { job, memory_bytes, tables, written_bytes, duration, .. } => fields! {
            Number: "job" = *job, "memory_bytes" = *memory_bytes, "tables" = *tables,
                "written_bytes" = *written_bytes;
            Time: "duration" = *duration;
        },
        Event::CompactionBegan { .. } | Event::CompactionEnded { .. } => of_compaction(event),
        Event::RestEnded { compactions, written_bytes, duration, cause, .. } => fields! {
            Number: "compactions" = *compactions, "written_bytes" = *written_bytes;
            Time: "duration" = *duration;
            Text: "cause" = cause;
        },
        Event::StallBegan { cause, bytes, clears, is_stopped, .. } => fields! {
            Text: "cause" = cause, "clears" = clears;
            Number: "bytes" = *bytes;
            Flag: "is_stopped" = *is_stopped;
        },
        Event::StallEnded { cause, bytes, clears, duration, is_stopped, .. } => fields! {
            Text: "cause" = cause, "clears" = clears;
            Number: "bytes" = *bytes;
            Flag: "is_stopped" = *is_stopped;
            Time: "duration" = *duration;
        },
        Event::TableCreated { tree, level, number, size_bytes, .. } => fields! {
            Number: "tree" = u64::from(*tree), "level" = *level as u64, "number" = *number,
                "bytes" = *size_bytes;
        },
        Event::TableRemoved { number, .. } => fields! { Number: "number" = *number; },
        Event::BackgroundError { job, .. } => fields! { Text: "name" = job; },
        Event::KeyspaceCreated { id, name, .. } | Event::KeyspaceDropped { id, name, .. } => {
            fields! { Number: "number" = u64::from(*id); Text: "name" = name; }
        }
        Event::SlotDropped { name, cause, .. } => fields! { Text: "name" = name, "cause" = cause; },
        Event::KeyspaceRenamed { id, name, new_name, .. } => fields! {
            Number: "number" = u64::from(*id);
            Text: "name" = name, "new_name" = new_name;
        },
        _ => Vec::new(),
    }
}

/// Returns the fields of the beginning or the end of a compaction.
fn of_compaction(event: &Event) -> Vec<(&'static str, Value<'_>)> {
    match event {
        Event::CompactionBegan {
            job,
            tree,
            level,
            output_level,
            reason,
            inputs,
            input_bytes,
            ..
        } => fields! {
            Number: "job" = *job, "tree" = u64::from(*tree), "level" = *level as u64,
                "output_level" = *output_level as u64, "inputs" = *inputs,
                "read_bytes" = *input_bytes;
            Text: "cause" = reason;
        },
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
            ..
        } => fields! {
            Number: "job" = *job, "tree" = u64::from(*tree), "level" = *level as u64,
                "output_level" = *output_level as u64, "read_bytes" = *read_bytes,
                "written_bytes" = *written_bytes, "tables" = *tables;
            Text: "cause" = reason;
            Time: "duration" = *duration;
        },
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::{Arc, Mutex};

    use esker::{Db, EventListener, KeyspaceOptions, Options};

    use super::*;

    #[derive(Default)]
    struct Seen(Mutex<Vec<Event>>);

    impl EventListener for Seen {
        fn on_event(&self, event: &Event) {
            self.0.lock().unwrap().push(event.clone());
        }
    }

    #[test]
    fn events_of_a_store_have_kinds_and_fields() {
        let dir = tempfile::tempdir().unwrap();
        let seen = Arc::new(Seen::default());
        let options = Options { listeners: vec![seen.clone()], ..Options::default() };
        let db = Db::open(dir.path().join("db"), options).unwrap();
        db.keyspace("users", &KeyspaceOptions::default()).unwrap();
        db.rename_keyspace("users", "people").unwrap();
        db.put("key", "value").unwrap();
        db.flush().unwrap();
        db.compact_all().unwrap();
        db.drop_keyspace("people").unwrap();
        db.close().unwrap();
        let events = seen.0.lock().unwrap();
        let by_name: BTreeMap<&str, &Event> =
            events.iter().map(|event| (kind(event).1, event)).collect();
        assert!(events.iter().all(|event| kind(event).0 != OTHER), "{by_name:?}");
        let shown = |name: &str| {
            let list = fields(by_name[name]).into_iter();
            let texts = list.map(|(name, value)| format!("{name}={value:?}"));
            texts.collect::<Vec<String>>().join(" ")
        };
        assert!(shown("opened").contains("tables=Number(0)"), "{}", shown("opened"));
        assert!(shown("flush_ended").contains("tables=Number(1)"), "{}", shown("flush_ended"));
        let renamed = "number=Number(1) name=Text(\"users\") new_name=Text(\"people\")";
        assert_eq!(shown("keyspace_renamed"), renamed);
        assert_eq!(shown("closed"), "");
    }
}
