//! The loop of a queue: pops the smallest key and pushes behind the largest, at a constant depth.
//!
//! A pop is a seek to the first key that the queue ever had and a delete of the key found there, so
//! an engine meets everything that earlier pops have left behind. Every popped pair is compared with
//! the pair that was pushed.

use std::time::{Duration, Instant};

use super::progress::TICK_OPERATIONS;
use super::work::{Context, Done, is_value};
use crate::error::Result;
use crate::measure::histogram::Latencies;
use crate::measure::timeline::Timeline;
use crate::workload::prepare::OpList;

/// What is counted of a queue besides its pops.
#[derive(Debug, Default)]
pub struct QueueCounts {
    /// Number of keys in the queue.
    pub depth: u64,
    /// Pops per second of the first tenth.
    pub first_tenth: f64,
    /// Pops per second of the last tenth.
    pub last_tenth: f64,
    /// Latencies of the pushes.
    pub pushes: Latencies,
}

impl QueueCounts {
    /// Adds the counts of another thread, which has a queue of its own.
    pub fn merge(mut self, other: &QueueCounts) -> QueueCounts {
        self.depth += other.depth;
        self.first_tenth += other.first_tenth;
        self.last_tenth += other.last_tenth;
        self.pushes.merge(&other.pushes);
        self
    }
}

/// Pushes the first pairs of the list without a clock, then pops and pushes by turns until every
/// pair is pushed. The latencies are those of the pops.
pub fn queue(context: &Context<'_>, list: &OpList) -> Result<Done> {
    let push = |index: usize| {
        context.target.put(list.keys.get(index), context.data.value(list.values[index]), false)
    };
    (0..list.depth).try_for_each(push)?;
    let (mut done, mut pops) = (Done::default(), Latencies::new());
    let mut counts = QueueCounts { depth: list.depth as u64, ..QueueCounts::default() };
    let mut timeline = Timeline::default();
    let pairs = list.len() - list.depth;
    let tenth = (pairs / 10).max(1);
    let mut key = Vec::new();
    let start = Instant::now();
    let (mut last, mut last_tenth) = (start, start);
    for index in 0..pairs {
        if index == pairs - tenth {
            last_tenth = last;
        }
        pop(context, list, index, (&mut key, &mut done))?;
        let popped = Instant::now();
        push(list.depth + index)?;
        let now = Instant::now();
        pops.record((popped - last).as_nanos() as u64);
        counts.pushes.record((now - popped).as_nanos() as u64);
        timeline.record((now - start).as_nanos() as u64);
        last = now;
        if index + 1 == tenth {
            counts.first_tenth = per_second(tenth, now - start);
        }
        if (index + 1).is_multiple_of(TICK_OPERATIONS) {
            context.progress.add(TICK_OPERATIONS as u64);
        }
    }
    done.elapsed = last - start;
    counts.last_tenth = per_second(tenth, last - last_tenth);
    done.operations = pairs as u64;
    done.bytes = list.user_bytes();
    done.timeline = Some(timeline);
    done.latencies = Some(pops);
    done.queue = Some(counts);
    Ok(done)
}

fn per_second(operations: usize, time: Duration) -> f64 {
    operations as f64 / time.as_secs_f64().max(1e-9)
}

/// Removes the first pair of the queue, which must be pair `index` of the list. `key` is reused.
fn pop(
    context: &Context<'_>,
    list: &OpList,
    index: usize,
    (key, done): (&mut Vec<u8>, &mut Done),
) -> Result<()> {
    let expected = list.keys.get(index);
    let mut right = false;
    key.clear();
    let found = context.target.seek(list.keys.get(0), &mut |at, value| {
        key.extend_from_slice(at);
        right = at == expected && is_value(context.data, value, list.values[index]);
    })?;
    done.found += u64::from(found);
    if !right {
        done.mistake(|| {
            let found = if found { key.escape_ascii().to_string() } else { "nothing".into() };
            format!("pop {index} must return {}, found {found}", expected.escape_ascii())
        });
    }
    if found { context.target.delete(key) } else { Ok(()) }
}
