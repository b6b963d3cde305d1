//! What a task read: keys that were found and had to be found, and bytes.

use crate::measure::counters::Used;
use crate::mix::phase::OpKind;
use crate::record::schema::TaskSample;
use crate::workload::prepare::{OpList, Prepared};
use crate::workload::tasks::{TaskKind, TaskSpec};

/// Returns the bytes read by calls per byte read or written by the user. `None` for an engine that
/// reads through a map, which shows as fewer read-call bytes than a tenth of the bytes read by the
/// user.
pub(crate) fn read_amplification(used: &Used, samples: &[TaskSample]) -> Option<f64> {
    let read: u64 = samples.iter().map(|sample| sample.user_read_bytes).sum();
    let written: u64 = samples.iter().map(|sample| sample.user_written_bytes).sum();
    let calls = used.read_call_bytes.filter(|&calls| calls > read / 10 && read > 0)?;
    Some(calls as f64 / (read + written) as f64)
}

/// Returns the processor time of the lab's own threads during a phase, which only watch.
pub(crate) fn watch_cpu_seconds(sample: &TaskSample) -> f64 {
    let idle = sample.idle.map_or(0.0, |idle| idle.cpu_seconds);
    idle + sample.space.as_ref().map_or(0.0, |space| space.cpu_seconds)
}

/// Notes the keys and bytes of the reads of a task in its sample.
pub(crate) fn note_reads(
    task: &TaskSpec,
    prepared: &Prepared,
    (found, bytes): (u64, u64),
    sample: &mut TaskSample,
) {
    // A found key's pair is as long as the written pair; the sum is computed outside the measured
    // time.
    let pair = |list: &OpList, index: usize| match list.values[index] {
        value if value.is_absent() => 0,
        value => list.keys.get(index).len() as u64 + value.len_bytes(),
    };
    let pairs = |list: &OpList| (0..list.len()).map(|index| pair(list, index)).sum::<u64>();
    sample.user_read_bytes = match task.kind {
        TaskKind::ReadForward | TaskKind::ReadReverse => bytes,
        TaskKind::Mixgraph => bytes.saturating_sub(sample.user_written_bytes),
        TaskKind::ReadRandom
        | TaskKind::ReadHot
        | TaskKind::MultiRead
        | TaskKind::Transact { .. }
        | TaskKind::ReadAccounts
        | TaskKind::Update => prepared.lists.iter().map(pairs).sum(),
        _ => 0,
    };
    let expected = |list: &OpList| -> u64 {
        let there = list.values.iter().filter(|value| !value.is_absent()).count() as u64;
        let exact = |&index: &usize| list.seek_results.get(index) == list.keys.get(index);
        match task.kind {
            TaskKind::SeekRandom => (0..list.len()).filter(exact).count() as u64,
            _ => there,
        }
    };
    match task.kind {
        TaskKind::ReadWhileWriting => sample.found = Some(found),
        TaskKind::Mixgraph => {
            // With several threads a key may or may not have been added before its get.
            let known = |list: &OpList| list.alternatives.is_empty();
            let gets = |list: &OpList| {
                let kinds = list.mix.iter().zip(&list.values);
                kinds.filter(|((kind, _), v)| *kind == OpKind::Read && !v.is_absent()).count()
                    as u64
            };
            let all_known = prepared.checked && prepared.lists.iter().all(known);
            sample.found = Some(found);
            sample.found_expected = all_known.then(|| prepared.lists.iter().map(gets).sum());
        }
        TaskKind::Queue => {
            let pops = |list: &OpList| (list.len() - list.depth) as u64;
            sample.found = Some(found);
            sample.found_expected = Some(prepared.lists.iter().map(pops).sum());
        }
        TaskKind::ReadRandom
        | TaskKind::ReadMissing
        | TaskKind::ReadHot
        | TaskKind::MultiRead
        | TaskKind::SeekRandom
        | TaskKind::ReadFirst
        | TaskKind::ReadForward
        | TaskKind::ReadReverse
        | TaskKind::Transact { .. }
        | TaskKind::ReadAccounts
        | TaskKind::Update => {
            sample.found = Some(found);
            sample.found_expected =
                prepared.checked.then(|| prepared.lists.iter().map(expected).sum());
        }
        _ => {}
    }
}
