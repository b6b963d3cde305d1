//! The timed loops. Each executes the operations of one list and checks the results.
//!
//! The measured time contains only the engine's call, a comparison with the expected bytes and a
//! counter; with a histogram, also one clock reading per operation.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::mixgraph::MixCounts;
use super::progress::{Progress, TICK_OPERATIONS};
use super::queue::QueueCounts;
use super::transactions::TransactionCounts;
use crate::error::Result;
use crate::measure::histogram::Latencies;
use crate::measure::timeline::Timeline;
use crate::target::{Direction, Target};
use crate::workload::dataset::Dataset;
use crate::workload::prepare::OpList;
use crate::workload::values::ValueRef;

/// Data shared by the loops.
#[derive(Clone, Copy)]
pub struct Context<'a> {
    /// The open store.
    pub target: &'a dyn Target,
    /// Pairs to write and read.
    pub data: &'a Dataset,
    /// Whether reads are checked.
    pub checked: bool,
    /// Whether single operations are timed.
    pub histogram: bool,
    /// Progress line.
    pub progress: &'a Progress,
}

/// Result of one thread.
#[derive(Debug, Default)]
pub struct Done {
    /// Number of completed operations.
    pub operations: u64,
    /// Time of the thread.
    pub elapsed: Duration,
    /// Number of keys found by reads.
    pub found: u64,
    /// Bytes of keys and values transferred.
    pub bytes: u64,
    /// Number of reads with a result different from the written data.
    pub wrong: u64,
    /// Description of the first wrong read.
    pub first_wrong: Option<String>,
    /// Latencies of single operations.
    pub latencies: Option<Latencies>,
    /// Completed operations over time, if single operations are timed.
    pub timeline: Option<Timeline>,
    /// Counts of the transactions, if the operations are transactions.
    pub transactions: Option<TransactionCounts>,
    /// Counts of the queue, if the operations are pops.
    pub queue: Option<QueueCounts>,
    /// Counts by kind, if the operations are a mix and single operations are timed.
    pub mix: Option<MixCounts>,
}

/// Returns the counts of two threads together, where each may have none.
fn both<T>(mine: Option<T>, theirs: Option<T>, merge: impl FnOnce(T, T) -> T) -> Option<T> {
    match (mine, theirs) {
        (Some(mine), Some(theirs)) => Some(merge(mine, theirs)),
        (mine, theirs) => mine.or(theirs),
    }
}

impl Done {
    /// Counts a wrong read, and keeps the description of the first one.
    pub fn mistake(&mut self, describe: impl FnOnce() -> String) {
        self.wrong += 1;
        if self.first_wrong.is_none() {
            self.first_wrong = Some(describe());
        }
    }

    /// Adds the result of another thread.
    pub fn merge(&mut self, other: Done) {
        self.operations += other.operations;
        self.elapsed += other.elapsed;
        self.found += other.found;
        self.bytes += other.bytes;
        self.wrong += other.wrong;
        self.first_wrong = self.first_wrong.take().or(other.first_wrong);
        self.transactions =
            both(self.transactions, other.transactions, |mine, theirs| mine.merge(theirs));
        self.queue = both(self.queue.take(), other.queue, |mine, theirs| mine.merge(&theirs));
        self.mix = both(self.mix.take(), other.mix, |mine, theirs| mine.merge(&theirs));
        match (&mut self.timeline, other.timeline) {
            (Some(mine), Some(theirs)) => mine.merge(&theirs),
            (mine @ None, theirs) => *mine = theirs,
            (Some(_), None) => {}
        }
        match (&mut self.latencies, other.latencies) {
            (Some(mine), Some(theirs)) => mine.merge(&theirs),
            (mine @ None, theirs) => *mine = theirs,
            (Some(_), None) => {}
        }
    }
}

/// Calls `op` for each index, and times the whole and, if requested, each call.
#[inline]
pub fn each(
    context: &Context<'_>,
    count: usize,
    mut op: impl FnMut(usize, &mut Done) -> Result<()>,
) -> Result<Done> {
    calls(context, count, |index, done| op(index, done).map(|()| 1))
}

/// Like [`each`], for calls that complete as many operations as `op` returns.
#[inline]
fn calls(
    context: &Context<'_>,
    count: usize,
    mut op: impl FnMut(usize, &mut Done) -> Result<u32>,
) -> Result<Done> {
    let mut done = Done::default();
    let mut latencies = context.histogram.then(Latencies::new);
    let mut timeline = Timeline::default();
    // Operations not yet added to the progress line.
    let mut unreported = 0;
    let start = Instant::now();
    let mut last = start;
    for index in 0..count {
        let operations = op(index, &mut done)?;
        done.operations += u64::from(operations);
        if let Some(latencies) = &mut latencies {
            let now = Instant::now();
            latencies.record((now - last).as_nanos() as u64);
            timeline.record_many((now - start).as_nanos() as u64, operations);
            last = now;
        }
        unreported += u64::from(operations);
        if unreported >= TICK_OPERATIONS as u64 {
            context.progress.add(std::mem::take(&mut unreported));
        }
    }
    done.elapsed = start.elapsed();
    done.timeline = latencies.is_some().then_some(timeline);
    done.latencies = latencies;
    Ok(done)
}

/// Puts the pairs of the list.
pub fn puts(context: &Context<'_>, list: &OpList, sync: bool) -> Result<Done> {
    let mut done = each(context, list.len(), |index, _| {
        let value = context.data.value(list.values[index]);
        context.target.put(list.keys.get(index), value, sync)
    })?;
    done.bytes = list.user_bytes();
    Ok(done)
}

/// Loads the pairs of the list in bulk, in one call.
pub fn bulk_load(context: &Context<'_>, list: &OpList) -> Result<Done> {
    let pair = |index: usize| (list.keys.get(index), context.data.value(list.values[index]));
    let start = Instant::now();
    context.target.bulk_load(&mut (0..list.len()).map(pair))?;
    let (elapsed, operations) = (start.elapsed(), list.len() as u64);
    Ok(Done { operations, elapsed, bytes: list.user_bytes(), ..Done::default() })
}

/// Deletes the list's keys.
pub fn deletes(context: &Context<'_>, list: &OpList) -> Result<Done> {
    each(context, list.len(), |index, _| context.target.delete(list.keys.get(index)))
}

/// Gets the list's keys and compares the values.
pub fn gets(context: &Context<'_>, list: &OpList) -> Result<Done> {
    let alternatives = !list.alternatives.is_empty();
    each(context, list.len(), |index, done| {
        let key = list.keys.get(index);
        let expected = list.values[index];
        let other = if alternatives { list.alternatives[index] } else { ValueRef::ABSENT };
        let data = context.data;
        let mut right = false;
        let found = context.target.get(key, &mut |value| {
            right =
                is_value(data, value, expected) || (alternatives && is_value(data, value, other));
        })?;
        done.found += u64::from(found);
        let fits = if found { right } else { expected.is_absent() };
        if context.checked && !fits {
            done.mistake(|| describe(key, found, expected));
        }
        Ok(())
    })
}

/// Gets the list's keys with multi-gets of `together` keys, and compares the values. A latency is
/// that of one call.
pub fn gets_together(context: &Context<'_>, list: &OpList, together: usize) -> Result<Done> {
    let mut keys: Vec<&[u8]> = Vec::with_capacity(together.min(list.len()));
    calls(context, list.len().div_ceil(together), |call, done| {
        let first = call * together;
        let places = first..list.len().min(first + together);
        keys.clear();
        keys.extend(places.clone().map(|index| list.keys.get(index)));
        let mut next = first;
        context.target.get_many(&keys, &mut |value| {
            let (key, expected) = (list.keys.get(next), list.values.get(next).copied());
            next += 1;
            done.found += u64::from(value.is_some());
            let expected = expected.unwrap_or(ValueRef::ABSENT);
            let fits = match value {
                Some(value) => is_value(context.data, value, expected),
                None => expected.is_absent(),
            };
            if context.checked && !fits {
                done.mistake(|| describe(key, value.is_some(), expected));
            }
        })?;
        if next != places.end {
            done.mistake(|| {
                format!("a call with {} keys returned {} answers", keys.len(), next - first)
            });
        }
        Ok(keys.len() as u32)
    })
}

/// Returns whether `value` is the expected one; false if no value is expected.
#[inline]
pub fn is_value(data: &Dataset, value: &[u8], expected: ValueRef) -> bool {
    !expected.is_absent() && value == data.value(expected)
}

/// Returns a sentence about a wrong get.
pub(super) fn describe(key: &[u8], found: bool, expected: ValueRef) -> String {
    let key = key.escape_ascii();
    match (found, expected.is_absent()) {
        (false, _) => format!("key {key} was not found"),
        (true, true) => format!("key {key} was found, but must not exist"),
        (true, false) => format!("key {key} has another value than the one written"),
    }
}

/// Seeks the list's keys and compares the pair at each position.
pub fn seeks(context: &Context<'_>, list: &OpList) -> Result<Done> {
    each(context, list.len(), |index, done| {
        let key = list.keys.get(index);
        let expected = list.values[index];
        let seek_result = list.seek_results.get(index);
        let (mut right, mut exact) = (false, false);
        let found = context.target.seek(key, &mut |at, value| {
            exact = at == key;
            right = at == seek_result && value == context.data.value(expected);
        })?;
        done.found += u64::from(found && exact);
        let fits = if found { right && !expected.is_absent() } else { expected.is_absent() };
        if context.checked && !fits {
            done.mistake(|| format!("a seek to {} returned a wrong pair", key.escape_ascii()));
        }
        Ok(())
    })
}

/// Seeks the list's keys, reads `nexts` entries from each position on, and compares every pair with
/// the pairs of `walk`. If the content is unknown, only the order is checked.
pub fn seeks_on(context: &Context<'_>, list: &OpList, walk: &OpList, nexts: usize) -> Result<Done> {
    let mut before: Vec<u8> = Vec::new();
    each(context, list.len(), |index, done| {
        let sought = list.keys.get(index);
        let start = list.starts[index] as usize;
        let (mut seen, mut wrong, mut exact) = (0usize, false, false);
        context.target.scan_from(sought, &mut |key, value| {
            let place = start + seen;
            if seen == 0 {
                exact = key == sought;
            }
            if context.checked {
                wrong |= key != walk.keys.get(place)
                    || walk.values.get(place).is_none_or(|&v| value != context.data.value(v));
            } else {
                wrong |= if seen == 0 { key < sought } else { key <= before.as_slice() };
                before.clear();
                before.extend_from_slice(key);
            }
            seen += 1;
            seen <= nexts
        })?;
        done.found += u64::from(exact);
        let short = context.checked && seen != walk.len().saturating_sub(start).min(nexts + 1);
        if wrong || short {
            let sought = sought.escape_ascii();
            done.mistake(|| {
                format!("a seek to {sought} and its {seen} pairs returned wrong content")
            });
        }
        Ok(())
    })
}

/// Opens an iterator at the first key, repeatedly, and compares the pair there.
pub fn read_first(context: &Context<'_>, list: &OpList) -> Result<Done> {
    each(context, list.len(), |index, done| {
        let (expected, first) = (list.values[index], list.keys.get(index));
        let (mut found, mut right) = (false, false);
        context.target.scan(Direction::Forward, &mut |key, value| {
            found = true;
            right = key == first && value == context.data.value(expected);
            false
        })?;
        done.found += u64::from(found);
        let fits = if found { right && !expected.is_absent() } else { expected.is_absent() };
        if context.checked && !fits {
            done.mistake(|| match found {
                true => "the store returned a wrong first pair".into(),
                false => {
                    format!("the store is empty, expected the first key {}", first.escape_ascii())
                }
            });
        }
        Ok(())
    })
}

/// Scans at most `limit` pairs from one end and compares each.
pub fn scan(
    context: &Context<'_>,
    list: &OpList,
    direction: Direction,
    limit: u64,
) -> Result<Done> {
    let mut done = Done::default();
    let mut latencies = context.histogram.then(Latencies::new);
    let mut index = 0usize;
    let start = Instant::now();
    let mut last = start;
    if limit > 0 {
        context.target.scan(direction, &mut |key, value| {
            if context.checked
                && (key != list.keys.get(index)
                    || list.values.get(index).is_none_or(|&v| value != context.data.value(v)))
            {
                done.mistake(|| {
                    format!("pair {index} of the scan is wrong: {}", key.escape_ascii())
                });
            }
            done.bytes += (key.len() + value.len()) as u64;
            index += 1;
            if let Some(latencies) = &mut latencies {
                let now = Instant::now();
                latencies.record((now - last).as_nanos() as u64);
                last = now;
            }
            if index.is_multiple_of(TICK_OPERATIONS) {
                context.progress.add(TICK_OPERATIONS as u64);
            }
            (index as u64) < limit
        })?;
    }
    done.elapsed = start.elapsed();
    done.operations = index as u64;
    done.found = index as u64;
    done.latencies = latencies;
    if context.checked && index != list.len() {
        done.mistake(|| format!("the scan returned {index} pairs, expected {}", list.len()));
    }
    Ok(done)
}

/// Puts the pairs of the list repeatedly until `stop`; returns the number of puts.
pub fn puts_until(context: &Context<'_>, list: &OpList, stop: &AtomicBool) -> Result<Done> {
    let mut done = Done::default();
    let start = Instant::now();
    while !stop.load(Ordering::Relaxed) && !list.is_empty() {
        let index = done.operations as usize % list.len();
        let (key, value) = (list.keys.get(index), context.data.value(list.values[index]));
        context.target.put(key, value, false)?;
        done.operations += 1;
        done.bytes += (key.len() + value.len()) as u64;
    }
    done.elapsed = start.elapsed();
    Ok(done)
}

/// Computes checksums of blocks of 4 KiB.
pub fn checksums(context: &Context<'_>, count: usize) -> Result<Done> {
    let block = vec![b'x'; 4096];
    let mut sum = 0u32;
    let mut done = each(context, count, |_, _| {
        sum ^= super::crc::crc32c(std::hint::black_box(&block));
        Ok(())
    })?;
    std::hint::black_box(sum);
    done.bytes = count as u64 * block.len() as u64;
    Ok(done)
}

/// Executes one operation that is a single call.
pub fn once(context: &Context<'_>, call: impl FnOnce() -> Result<()>) -> Result<Done> {
    let mut call = Some(call);
    each(context, 1, |_, _| call.take().map_or(Ok(()), |call| call()))
}
