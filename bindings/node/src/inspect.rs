//! What a store tells about itself: metrics, tables, stalls, options; and the counts of a thread's calls.
//!
//! Invariant: metrics and options have the names and units of `docs/metrics.md` and `docs/options.md`.

use esker::perf::{self, PerfContext};
use esker::report::{LevelMetrics, TableEntry};
use esker::schema::{METRICS, OPTIONS};
use esker::{Db, Metrics};
use esker_bindings::runtime;
use napi::bindgen_prelude::AsyncTask;
use napi_derive::napi;

use crate::errors::invalid;
use crate::maintenance::{part_of, unix_ms};
use crate::objects::with;
use crate::open::chosen_of;
use crate::work::{Answer, Work, later};

/// Returns what writes wait for: the cause, what ends the wait, the bytes to be written, the time since
/// it began in milliseconds, and whether writes wait until the cause is gone. Nothing without a stall.
#[napi]
pub fn stall(part: u32) -> napi::Result<Option<Vec<String>>> {
    with(|shared| {
        let found = shared.part(part)?.open()?.stall();
        Ok(found.map(|stall| {
            let duration_ms = stall.duration.as_secs_f64() * 1000.0;
            let numbers = [stall.bytes.to_string(), duration_ms.to_string()];
            let mut texts = vec![stall.cause, stall.clears];
            texts.extend(numbers);
            texts.push(stall.is_stopped.to_string());
            texts
        }))
    })
}

/// Returns what the opening found that a crash had lost, one sentence each.
#[napi]
pub fn recovery_notes(part: u32) -> napi::Result<Vec<String>> {
    with(|shared| Ok(shared.part(part)?.open()?.recovery_notes().to_vec()))
}

/// Returns the metric with this name: of a level if there is one, otherwise of the whole store.
#[napi]
pub fn metric(part: u32, name: String, level: Option<u32>) -> napi::Result<f64> {
    with(|shared| {
        let metrics = shared.part(part)?.open()?.metrics();
        let (own, field) = name.split_once('.').unwrap_or(("", &name));
        let spec = METRICS.iter().find(|spec| (spec.part, spec.field) == (own, field));
        let (found, of) = match level {
            None => (spec.and_then(|spec| spec.value(&metrics)), "of the whole store"),
            Some(level) => {
                let of = level_of(&metrics, level)?;
                (spec.and_then(|spec| spec.level_value(of)), "of levels")
            }
        };
        let text = || format!("there is no metric {name:?} {of}; docs/metrics.md lists them");
        found.map(|number| number as f64).ok_or_else(|| invalid(text()))
    })
}

fn level_of(metrics: &Metrics, level: u32) -> esker::Result<&LevelMetrics> {
    metrics.levels.get(level as usize).ok_or_else(|| {
        let last = metrics.levels.len().saturating_sub(1);
        invalid(format!("there is no level {level}; it is 0 to {last}"))
    })
}

/// Returns the problem that the scrub found or nothing, and then names and numbers in turn. Those of
/// levels have the number of the level in the name.
fn metric_texts(metrics: &Metrics) -> Vec<String> {
    let mut texts = vec![metrics.scrub_problem.clone().unwrap_or_default()];
    for spec in METRICS {
        let dot = if spec.part.is_empty() { "" } else { "." };
        if let Some(number) = spec.value(metrics) {
            texts.extend([format!("{}{dot}{}", spec.part, spec.field), number.to_string()]);
        }
    }
    for (at, level) in metrics.levels.iter().enumerate() {
        for spec in METRICS {
            if let Some(number) = spec.level_value(level) {
                texts.extend([format!("levels.{at}.{}", spec.field), number.to_string()]);
            }
        }
    }
    texts
}

/// Returns all metrics.
#[napi]
pub fn metrics(part: u32) -> napi::Result<Vec<String>> {
    with(|shared| Ok(metric_texts(&shared.part(part)?.open()?.metrics())))
}

/// Returns what the process publishes that has a store open for writing: its number, the number of the
/// publication, the times of the opening and of the publication in milliseconds since 1970, the metrics
/// in OpenMetrics' text format, and all metrics. Of the options only the key counts.
#[napi]
pub fn live_status_later(path: String, options: Vec<String>) -> AsyncTask<Work> {
    later(move || {
        let status = Db::live_status_on(chosen_of(options)?.fs(), &path)?;
        let numbers = [
            u64::from(status.process),
            status.version,
            unix_ms(status.opened),
            unix_ms(status.updated),
        ];
        let mut texts: Vec<String> = numbers.iter().map(u64::to_string).collect();
        texts.push(status.metrics.to_openmetrics());
        texts.extend(metric_texts(&status.metrics));
        Ok(Answer::Texts(texts))
    })
}

/// Adds a table: eight numbers, each an f64, and its first and last key, each after its length.
fn add_table(reply: &mut Vec<u8>, table: &TableEntry) {
    let numbers = [
        table.tree.into(),
        table.level as u64,
        table.number,
        table.size_bytes,
        table.entries,
        table.deletes,
        table.range_deletes,
        table.raw_bytes,
    ];
    numbers.iter().for_each(|number| reply.extend_from_slice(&(*number as f64).to_le_bytes()));
    for key in [&table.smallest, &table.largest] {
        reply.extend_from_slice(&(key.len() as u32).to_le_bytes());
        reply.extend_from_slice(key);
    }
}

/// Returns the tables of all keyspaces.
#[napi]
pub fn tables_later(part: u32) -> napi::Result<AsyncTask<Work>> {
    let part = part_of(part)?;
    Ok(later(move || {
        let mut reply = Vec::new();
        part.open()?.tables().iter().for_each(|table| add_table(&mut reply, table));
        Ok(Answer::Bytes(reply))
    }))
}

/// Switches the counting of the calls in this thread of JavaScript on or off.
#[napi]
pub fn enable_perf(on: bool) {
    perf::enable(on);
}

/// Returns the counts of the calls in this thread, and sets them to 0: names and numbers in turn.
#[napi]
pub fn take_perf() -> Vec<String> {
    let counts = runtime::perf(&PerfContext::take());
    counts.iter().flat_map(|(name, count)| [name.to_string(), count.to_string()]).collect()
}

/// Returns the metrics in OpenMetrics' text format.
#[napi]
pub fn openmetrics(part: u32) -> napi::Result<String> {
    with(|shared| Ok(shared.part(part)?.open()?.metrics().to_openmetrics()))
}

/// Returns one of the properties that LevelDB has, or nothing.
#[napi]
pub fn property(part: u32, name: String) -> napi::Result<Option<String>> {
    with(|shared| {
        let db = shared.part(part)?.open()?;
        Ok(esker_bindings::properties::property(&db, &name))
    })
}

/// Returns the value of an option, or nothing.
#[napi]
pub fn option(part: u32, name: String) -> napi::Result<Option<String>> {
    with(|shared| Ok(shared.part(part)?.open()?.option(&name)))
}

/// Changes options of the open store, all or none of them: names and values in turn.
#[napi]
pub fn set_options(part: u32, options: Vec<String>) -> napi::Result<()> {
    with(|shared| {
        let (pairs, rest) = options.as_chunks::<2>();
        if !rest.is_empty() {
            return Err(invalid("an option has no value"));
        }
        let pairs: Vec<_> = pairs.iter().map(|[name, value]| (&**name, &**value)).collect();
        shared.part(part)?.open()?.set_options(&pairs)
    })
}

/// Returns the names of all options.
#[napi]
pub fn option_names() -> Vec<String> {
    OPTIONS.iter().map(|option| option.name.to_string()).collect()
}

/// Returns the other names of the options.
#[napi]
pub fn option_aliases() -> Vec<String> {
    OPTIONS.iter().flat_map(|option| option.aliases).map(ToString::to_string).collect()
}
