//! The listener for the crate `tracing`. Only with the feature `tracing`.
#![cfg(feature = "tracing")]

use std::fmt::{Debug, Write};
use std::sync::{Arc, Mutex};

use esker::fs::MemFs;
use esker::{Db, EventListener, Options, TracingListener};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Metadata, Subscriber};

/// What a subscriber got.
#[derive(Debug, Default)]
struct Seen {
    /// Name and fields of each span.
    spans: Vec<String>,
    closed: usize,
    /// Level and fields of each event.
    events: Vec<String>,
}

#[derive(Clone, Default)]
struct Collector(Arc<Mutex<Seen>>);

struct Fields<'a>(&'a mut String);

impl Visit for Fields<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        write!(self.0, " {}={value:?}", field.name()).unwrap();
    }
}

impl Subscriber for Collector {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == "esker"
    }

    fn new_span(&self, attributes: &Attributes<'_>) -> Id {
        let mut text = attributes.metadata().name().to_string();
        attributes.record(&mut Fields(&mut text));
        let mut seen = self.0.lock().unwrap();
        seen.spans.push(text);
        Id::from_u64(seen.spans.len() as u64)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &tracing::Event<'_>) {
        let mut text = event.metadata().level().to_string();
        event.record(&mut Fields(&mut text));
        self.0.lock().unwrap().events.push(text);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}

    fn try_close(&self, _: Id) -> bool {
        self.0.lock().unwrap().closed += 1;
        true
    }
}

#[test]
fn jobs_are_spans_and_events_have_levels() {
    let collector = Collector::default();
    tracing::subscriber::set_global_default(collector.clone()).unwrap();
    let listener: Arc<dyn EventListener> = Arc::new(TracingListener::default());
    let options = Options {
        memtable_size_bytes: Some(64 << 10),
        listeners: vec![listener],
        ..Options::default()
    };
    let db = Db::open_on(MemFs::new(), "/db", options).unwrap();
    for i in 0..5_000u32 {
        db.put(i.to_be_bytes(), [i as u8; 100]).unwrap();
    }
    db.flush().unwrap();
    db.compact_range(None, None).unwrap();
    db.wait_idle().unwrap();
    db.close().unwrap();
    let seen = collector.0.lock().unwrap();
    let count = |all: &[String], parts: &[&str]| {
        all.iter().filter(|text| parts.iter().all(|part| text.contains(part))).count()
    };
    assert!(count(&seen.spans, &["flush", " job=", " memory_bytes="]) > 0, "{seen:?}");
    let fields = ["compaction", " level=0", " output_level=", " reason=", " input_bytes="];
    assert!(count(&seen.spans, &fields) > 0, "{seen:?}");
    assert_eq!(seen.closed, seen.spans.len());
    for parts in [
        &["INFO", "message=opened for writing"][..],
        &["INFO", "message=flush", " wrote ", " written_bytes=", " duration_us="],
        &["INFO", "message=compaction", " read_bytes="],
        &["DEBUG", "message=table", " created"],
        &["DEBUG", "message=table", " removed"],
        &["INFO", "message=closed"],
    ] {
        assert!(count(&seen.events, parts) > 0, "{parts:?} {seen:?}");
    }
    assert_eq!(count(&seen.events, &["ERROR"]), 0);
}
