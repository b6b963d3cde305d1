//! Lists of the task `mixgraph`: gets, puts and scans, drawn by the model of
//! [`crate::mix::mixgraph`].
//!
//! Invariants: the task deletes nothing. All puts of a key write the same value, so that threads
//! may write in any order.

use super::prepare::{OpList, Plan, sized};
use super::rng::Rng;
use super::values::ValueRef;
use crate::mix::generators::unit;
use crate::mix::mixgraph::KeyRanges;
use crate::mix::phase::OpKind;

/// Returns the operations of a thread. `walk` are the pairs from before the task. `None` if the data
/// is too small for a value.
pub(super) fn mixed(plan: &Plan<'_>, walk: Option<&OpList>, rng: &mut Rng) -> Option<OpList> {
    let model = plan.mixgraph;
    let ranges = KeyRanges::new(model, plan.data.key_count() as u64);
    // A single thread knows which value a key has. With others, it may have either value.
    let alone = plan.threads == 1;
    let mut written = vec![false; if alone { plan.data.key_count() } else { 0 }];
    let count = plan.own_reads();
    let mut list = sized(count as usize, plan);
    for _ in 0..count {
        let kind = model.kind(unit(rng));
        let id = ranges.next(rng) as u32;
        let length = if kind == OpKind::Scan { model.scan_length(unit(rng)) } else { 0 };
        let new = new_value(plan, id)?;
        plan.data.push_key(id, b"", &mut list.keys);
        list.ids.push(id);
        list.mix.push((kind, length));
        list.values.push(match kind {
            OpKind::Update => new,
            OpKind::Read if alone && written[id as usize] => new,
            OpKind::Read => plan.oracle.value(id),
            _ => ValueRef::ABSENT,
        });
        if !alone {
            list.alternatives.push(new);
        } else if kind == OpKind::Update {
            written[id as usize] = true;
        }
        let start = walk.map(|walk| walk.ids.binary_search(&id).unwrap_or_else(|next| next));
        list.starts.extend(start.map(|start| start as u32));
    }
    Some(list)
}

/// Gives the pairs from before the task their alternatives: the values that the task writes.
pub(super) fn with_new_values(mut walk: OpList, plan: &Plan<'_>) -> Option<OpList> {
    walk.alternatives = walk.ids.iter().map(|&id| new_value(plan, id)).collect::<Option<_>>()?;
    Some(walk)
}

fn new_value(plan: &Plan<'_>, id: u32) -> Option<ValueRef> {
    let bytes = plan.mixgraph.value_bytes(u64::from(id), plan.generation);
    plan.data.value_of_key(id, plan.generation, bytes)
}
