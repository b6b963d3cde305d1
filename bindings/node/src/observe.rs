//! What stores tell and share: listeners, and runtimes.
//!
//! Invariants:
//! 1. A listener never waits for the thread of JavaScript. Events that its loop does not take in time
//!    are dropped, beyond [`WAITING_EVENTS_MAX`].
//! 2. A listener keeps no loop alive.

use std::sync::Arc;

use esker::{Event, EventListener, Runtime, RuntimeOptions};
use esker_bindings::events::{self, Value};
use esker_bindings::runtime;
use napi::Status;
use napi::threadsafe_function::{ThreadsafeFunction, ThreadsafeFunctionCallMode};
use napi_derive::napi;

use crate::errors::invalid;
use crate::objects::{Object, with};

/// Events that may wait for the thread of JavaScript.
const WAITING_EVENTS_MAX: usize = 10_000;

/// A function of JavaScript that gets events as texts: the kind, the sentence, and for each field its
/// type, its name and its value. The value of options is their number, and names and values follow.
pub type Listen =
    ThreadsafeFunction<Vec<String>, (), Vec<String>, Status, false, true, WAITING_EVENTS_MAX>;

/// A listener implemented in JavaScript.
pub struct Listener(Listen);

impl Listener {
    /// Returns a listener for the options of a store.
    pub fn shared(listen: Listen) -> Arc<dyn EventListener> {
        Arc::new(Listener(listen))
    }
}

impl EventListener for Listener {
    fn on_event(&self, event: &Event) {
        // A full queue drops the event, and an ended environment has nobody that listens.
        self.0.call(texts_of(event), ThreadsafeFunctionCallMode::NonBlocking);
    }
}

/// Returns an event as texts.
fn texts_of(event: &Event) -> Vec<String> {
    let mut texts = vec![events::kind(event).1.to_string(), event.to_string()];
    for (name, value) in events::fields(event) {
        let (kind, text) = match value {
            Value::Number(number) => ("number", number.to_string()),
            Value::Text(text) => ("text", text.to_string()),
            Value::Flag(flag) => ("flag", flag.to_string()),
            Value::Time(time) => ("time", (time.as_secs_f64() * 1000.0).to_string()),
            Value::Failure(failure) => ("failure", format!("{}\n{failure}", failure.kind().name())),
            Value::Pairs(pairs) => ("options", pairs.len().to_string()),
        };
        texts.extend([kind.to_string(), name.to_string(), text]);
        if let Value::Pairs(pairs) = value {
            texts.extend(pairs.iter().flat_map(|(name, value)| [name.clone(), value.clone()]));
        }
    }
    texts
}

/// Makes a runtime with options: names and values in turn. Returns its number.
#[napi]
pub fn make_runtime(options: Vec<String>) -> napi::Result<u32> {
    with(|shared| {
        let mut chosen = RuntimeOptions::default();
        for pair in options.chunks(2) {
            let [name, value] = pair else { return Err(invalid("an option has no value")) };
            runtime::set(&mut chosen, name, value)?;
        }
        Ok(shared.add(Object::Runtime(Runtime::new(chosen)?)))
    })
}

/// Returns what the stores of a runtime use: names and numbers in turn.
#[napi]
pub fn runtime_metrics(number: u32) -> napi::Result<Vec<String>> {
    with(|shared| {
        let metrics = runtime::metrics(&shared.runtime(number)?.metrics());
        Ok(metrics.iter().flat_map(|(name, value)| [name.to_string(), value.to_string()]).collect())
    })
}
