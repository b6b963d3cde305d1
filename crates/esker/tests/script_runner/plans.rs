//! Compaction plans as text, and the execution of background jobs.

use std::collections::BTreeSet;

use esker::KeyOrder;
use esker::internals::{
    BusySet, OutputOrder, Plan, PlanKind, TreeLimits, Version, manual, picker, seek_stats,
};

use super::dump::{bounds, or_none};
use super::{Output, Session, bytes_of, error_line, number, output_of, word};

/// Formats a plan.
fn plan_lines(plan: &Plan) -> Vec<String> {
    let what = match plan.kind {
        PlanKind::Drop(id) => format!("drop keyspace {id}"),
        PlanKind::Expire => "remove expired files".to_string(),
        PlanKind::Move => format!("move from level {} to level {}", plan.level, plan.output_level),
        PlanKind::Push => format!("push level {} into level {}", plan.level, plan.output_level),
        PlanKind::MergeWithin => format!("merge within level {}", plan.output_level),
    };
    let mut lines = vec![format!("{what}: {}", plan.reason)];
    for input in &plan.inputs {
        let slice = &input.fragment;
        let only = bounds(slice.lo.as_deref(), slice.hi.as_deref());
        let (level, age, table) = (input.level, input.order, slice.file.number);
        lines.push(format!("  reads table {table} of level {level}, age {age}{only}"));
    }
    for key in &plan.cut_bounds {
        lines.push(format!("  cuts the output at {}", word(key)));
    }
    for key in &plan.bounds_added {
        lines.push(format!("  adds guard {} to level {}", word(key), plan.output_level));
    }
    for (level, key) in &plan.bounds_removed {
        lines.push(format!("  removes guard {} of level {level}", word(key)));
    }
    lines.push(match plan.output_order {
        OutputOrder::New => "  output: a new run".to_string(),
        OutputOrder::Same(order) => format!("  output: the run of age {order}"),
    });
    lines
}

/// Returns the level and number of each table.
fn tables_of(version: &Version) -> BTreeSet<(usize, u64)> {
    let mut tables = BTreeSet::new();
    for (level, content) in version.levels.iter().enumerate() {
        for guard in &content.guards {
            tables.extend(guard.fragments().map(|(_, slice)| (level, slice.file.number)));
        }
    }
    tables
}

/// Formats the difference between two versions.
fn changes(before: &Version, after: &Version) -> String {
    let (before, after) = (tables_of(before), tables_of(after));
    let list = |tables: Vec<&(usize, u64)>| {
        let names = tables.into_iter().map(|(level, table)| format!(" {level}:{table}"));
        names.collect::<String>()
    };
    let removed = list(before.difference(&after).collect());
    let added = list(after.difference(&before).collect());
    match (removed.is_empty(), added.is_empty()) {
        (true, true) => "no table changed".to_string(),
        (true, false) => format!("added{added}"),
        (false, true) => format!("removed{removed}"),
        (false, false) => format!("removed{removed}, added{added}"),
    }
}

impl Session {
    fn limits(&self) -> TreeLimits {
        let memtable_bytes = self.options.memtable_size_bytes.unwrap_or_default();
        TreeLimits::new(&self.options, memtable_bytes, KeyOrder::Bytewise)
    }

    pub(super) fn plan(&self, name: &str, words: &[&str]) -> Output {
        let version = match self.version() {
            Ok(version) => version,
            Err(error) => return Ok(vec![error_line(&error)]),
        };
        let (limits, busy) = (self.limits(), BusySet::default());
        let plans: Vec<Plan> = match (name, words) {
            ("plan", []) => picker::pick(&version, &limits, &busy).into_iter().collect(),
            ("plan-compact", []) => manual::plans(&version, &limits, None, None),
            ("plan-compact", [start, end]) => {
                let (start, end) = (bytes_of(start), bytes_of(end));
                manual::plans(&version, &limits, Some(&start), Some(&end))
            }
            ("plan-seeks", [key, seeks]) => {
                seek_stats::note(&version, &bytes_of(key), number(seeks)?);
                picker::pick_seek_candidate(&version, &limits, &busy).into_iter().collect()
            }
            _ => return Err("unknown form of the command".to_string()),
        };
        Ok(or_none(plans.iter().flat_map(plan_lines).collect(), "nothing is due"))
    }

    /// Runs one background job, or all that are due.
    pub(super) fn jobs(&self, all: bool) -> Output {
        let db = self.db()?;
        let mut lines = Vec::new();
        loop {
            let before = self.version().map_err(|error| error.to_string())?;
            match db.run_one_job() {
                Ok(true) => {}
                Ok(false) => return Ok(or_none(lines, "nothing is due")),
                Err(error) => return output_of(Err::<(), _>(error), |()| Vec::new()),
            }
            let after = self.version().map_err(|error| error.to_string())?;
            lines.push(changes(&before, &after));
            if !all {
                return Ok(lines);
            }
        }
    }
}
