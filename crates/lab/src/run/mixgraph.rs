//! The loop of the task `mixgraph`: gets, puts and scans by turns, each checked.
//!
//! Invariants: a get finds the value from before the task or the one that the task writes. A scan
//! returns every key that was there before the task, in order, each with one of its two values. The
//! keys that the task adds may be between them.

use std::time::Instant;

use super::progress::TICK_OPERATIONS;
use super::work::{Context, Done, describe, is_value};
use crate::error::Result;
use crate::measure::histogram::Latencies;
use crate::measure::timeline::Timeline;
use crate::mix::phase::OpKind;
use crate::record::schema::KindSample;
use crate::workload::prepare::OpList;
use crate::workload::values::ValueRef;

/// Kinds of operations of the task.
const KINDS: [OpKind; 3] = [OpKind::Read, OpKind::Update, OpKind::Scan];

/// Latencies of the operations of a kind, and the number of those that found their key or needed
/// none.
#[derive(Debug, Default)]
struct KindCounts {
    ok: u64,
    latencies: Latencies,
}

/// What is counted of a mix, by kind.
#[derive(Debug, Default)]
pub struct MixCounts([KindCounts; KINDS.len()]);

impl MixCounts {
    /// Adds the counts of another thread.
    pub fn merge(mut self, other: &MixCounts) -> MixCounts {
        for (mine, theirs) in self.0.iter_mut().zip(&other.0) {
            mine.ok += theirs.ok;
            mine.latencies.merge(&theirs.latencies);
        }
        self
    }

    /// Returns the kinds for the record.
    pub fn samples(&self) -> Vec<KindSample> {
        let kinds = KINDS.iter().zip(&self.0);
        kinds
            .filter_map(|(kind, KindCounts { ok, latencies })| {
                let latency = latencies.summary()?;
                Some(KindSample { kind: kind.name().into(), ok: *ok, latency })
            })
            .collect()
    }
}

/// Executes the operations of the list. `walk` are the pairs from before the task, in order; without
/// them only the order of a scan is checked.
pub fn mixed(context: &Context<'_>, list: &OpList, walk: Option<&OpList>) -> Result<Done> {
    let (mut done, mut counts) = (Done::default(), MixCounts::default());
    let (mut latencies, mut timeline) = (Latencies::new(), Timeline::default());
    let mut before = Vec::new();
    let start = Instant::now();
    let mut last = start;
    for (index, &(kind, length)) in list.mix.iter().enumerate() {
        let ok = match kind {
            OpKind::Update => put(context, list, index)?,
            OpKind::Scan => scan(context, (list, index), (walk, length), (&mut before, &mut done))?,
            _ => get(context, list, index, &mut done)?,
        };
        if context.histogram {
            let now = Instant::now();
            let nanos = (now - last).as_nanos() as u64;
            latencies.record(nanos);
            timeline.record((now - start).as_nanos() as u64);
            let place = KINDS.iter().position(|known| *known == kind).unwrap_or(0);
            counts.0[place].ok += u64::from(ok);
            counts.0[place].latencies.record(nanos);
            last = now;
        }
        if (index + 1).is_multiple_of(TICK_OPERATIONS) {
            context.progress.add(TICK_OPERATIONS as u64);
        }
    }
    done.elapsed = start.elapsed();
    done.operations = list.mix.len() as u64;
    done.bytes += list.user_bytes();
    if context.histogram {
        (done.latencies, done.timeline, done.mix) = (Some(latencies), Some(timeline), Some(counts));
    }
    Ok(done)
}

fn put(context: &Context<'_>, list: &OpList, index: usize) -> Result<bool> {
    let value = context.data.value(list.values[index]);
    context.target.put(list.keys.get(index), value, false)?;
    Ok(true)
}

fn get(context: &Context<'_>, list: &OpList, index: usize, done: &mut Done) -> Result<bool> {
    let (key, expected) = (list.keys.get(index), list.values[index]);
    let other = list.alternatives.get(index).copied().unwrap_or(ValueRef::ABSENT);
    let (mut right, mut bytes) = (false, 0);
    let found = context.target.get(key, &mut |value| {
        right = is_value(context.data, value, expected) || is_value(context.data, value, other);
        bytes = value.len();
    })?;
    done.found += u64::from(found);
    done.bytes += if found { (key.len() + bytes) as u64 } else { 0 };
    let fits = if found { right } else { expected.is_absent() };
    if context.checked && !fits {
        done.mistake(|| describe(key, found, expected));
    }
    Ok(found)
}

fn scan(
    context: &Context<'_>,
    (list, index): (&OpList, usize),
    (walk, length): (Option<&OpList>, u16),
    (before, done): (&mut Vec<u8>, &mut Done),
) -> Result<bool> {
    let sought = list.keys.get(index);
    let (mut seen, mut bytes, mut wrong) = (0u16, 0u64, false);
    // Place of the next key from before the task.
    let mut place = list.starts.get(index).map_or(0, |&start| start as usize);
    context.target.scan_from(sought, &mut |key, value| {
        wrong |= if seen == 0 { key < sought } else { key <= before.as_slice() };
        before.clear();
        before.extend_from_slice(key);
        if let Some(walk) = walk.filter(|walk| place < walk.len()) {
            let known = walk.keys.get(place);
            if key == known {
                let is = |values: &[ValueRef]| is_value(context.data, value, values[place]);
                wrong |= !is(&walk.values) && !is(&walk.alternatives);
                place += 1;
            } else {
                wrong |= key > known;
            }
        }
        bytes += (key.len() + value.len()) as u64;
        seen += 1;
        seen < length
    })?;
    let ended_early = seen < length && walk.is_some_and(|walk| place < walk.len());
    done.bytes += bytes;
    if wrong || ended_early {
        let sought = sought.escape_ascii();
        done.mistake(|| format!("a scan from {sought} and its {seen} pairs had wrong content"));
    }
    Ok(seen > 0)
}
