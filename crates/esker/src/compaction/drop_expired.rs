//! Removal of slices whose pairs have all expired, by an edit, without reading or writing a table.
//!
//! An expired pair acts as a tombstone: it hides older versions of its key. A slice is therefore
//! removed only if every older slice that may share a key with it is removed as well, by the same
//! edit or before. Then no older version is left that could come back. A file with merge operands
//! or range tombstones is never removed here: their effect does not expire. Point tombstones may
//! go, because nothing is left below them either.
//!
//! Invariants: the plan takes no busy slice. A job that reads an older slice keeps that slice in
//! the version until its output is there, so a slice above it stays as well.

use std::sync::Arc;

use super::{BusySet, Plan, PlanInput, PlanKind, Urgency};
use crate::tree::fragment::Fragment;
use crate::tree::version::Version;

/// Plans the removal of all slices whose pairs have expired at `at_ms`, the time of the oldest
/// reader. Returns `None` if there is none that can be removed.
pub fn plan(version: &Version, at_ms: u64, busy: &BusySet) -> Option<Plan> {
    let mut inputs: Vec<PlanInput> = Vec::new();
    // From the oldest slice to the newest.
    for level in (0..version.levels.len()).rev() {
        for guard in &version.levels[level].guards {
            for run in guard.runs.iter().rev() {
                let older_runs = guard.runs.iter().filter(|older| older.order < run.order);
                let older_here: Vec<&Arc<Fragment>> =
                    older_runs.flat_map(|older| &older.fragments).collect();
                for fragment in &run.fragments {
                    let is_free = !busy.holds(level, fragment.file.number);
                    if is_free
                        && is_expired(fragment, at_ms)
                        && !hides(version, level, &older_here, fragment, &inputs)
                    {
                        let (order, fragment) = (run.order, fragment.clone());
                        inputs.push(PlanInput { level, order, fragment });
                    }
                }
            }
        }
    }
    let level = inputs.iter().map(|input| input.level).min()?;
    Some(Plan {
        reason: "all pairs have expired",
        urgency: Urgency::Urgent,
        ..Plan::of_files(PlanKind::Expire, inputs, (level, level))
    })
}

/// Returns the earliest time after `now_ms` at which all pairs of a file will have expired.
pub fn next_time_ms(version: &Version, now_ms: u64) -> Option<u64> {
    let files = version.files();
    files.iter().filter_map(|file| file.info.expires_ms).filter(|time_ms| *time_ms > now_ms).min()
}

fn is_expired(fragment: &Fragment, at_ms: u64) -> bool {
    fragment.file.info.expires_ms.is_some_and(|time_ms| time_ms <= at_ms)
}

/// Returns whether `fragment` of `level` may hide versions in an older slice that is not in `gone`.
/// `older_here` has the older slices of its guard.
fn hides(
    version: &Version,
    level: usize,
    older_here: &[&Arc<Fragment>],
    fragment: &Fragment,
    gone: &[PlanInput],
) -> bool {
    let order = version.order();
    let (first, (last, _)) = (fragment.first(order), fragment.last(order));
    let stays = |older: &Arc<Fragment>| {
        older.overlaps(order, fragment)
            && !gone.iter().any(|input| Arc::ptr_eq(&input.fragment, older))
    };
    let is_hidden_below = |below: usize| {
        let guards = version.guards_overlapping(below, Some(first), Some(last));
        guards.iter().flat_map(|guard| guard.fragments()).any(|(_, older)| stays(older))
    };
    older_here.iter().any(|older| stays(older))
        || (level + 1..version.levels.len()).any(is_hidden_below)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::order::KeyOrder;
    use crate::tree::edit::{AddedFile, AddedSlice, VersionEdit};
    use crate::tree::fragment::FileMeta;
    use crate::tree::tests::info;

    /// Adds a file that has expired at this time, or never.
    fn added(
        level: usize,
        order: u64,
        number: u64,
        keys: [u8; 2],
        time: Option<u64>,
    ) -> AddedSlice {
        let info = info(number, &keys[..1], &keys[1..]);
        let expiring = u64::from(time.is_some());
        let info = crate::table::TableInfo { expiring, expires_ms: time, ..info };
        let file = AddedFile::New { number, info };
        AddedSlice { level, order, file, lo: None, hi: None }
    }

    fn version(added: Vec<AddedSlice>) -> Version {
        let edit = VersionEdit { added, ..VersionEdit::default() };
        let make =
            |number, info: &crate::table::TableInfo| FileMeta::new(number, info.clone(), None);
        Version::empty(KeyOrder::Bytewise).after(&edit, make).unwrap()
    }

    fn removed(version: &Version, at_ms: u64, busy: &BusySet) -> Vec<u64> {
        let plan = plan(version, at_ms, busy);
        let inputs = plan.map(|plan| plan.inputs).unwrap_or_default();
        let mut numbers: Vec<u64> = inputs.iter().map(|i| i.fragment.file.number).collect();
        numbers.sort_unstable();
        numbers
    }

    #[test]
    fn only_expired_slices_above_nothing_that_stays_are_removed() {
        let version = version(vec![
            added(0, 9, 1, *b"ad", Some(10)),
            added(0, 8, 2, *b"ef", Some(10)),
            added(0, 7, 3, *b"cc", Some(20)),
            added(1, 5, 4, *b"fg", None),
            added(2, 3, 5, *b"ab", Some(10)),
            added(2, 3, 6, *b"xz", Some(30)),
        ]);
        let free = BusySet::default();
        assert!(removed(&version, 9, &free).is_empty());
        // File 1 hides file 3, and file 2 hides file 4.
        assert_eq!(removed(&version, 10, &free), [5]);
        assert_eq!(removed(&version, 20, &free), [1, 3, 5]);
        assert_eq!(removed(&version, 30, &free), [1, 3, 5, 6]);
        assert_eq!(next_time_ms(&version, 0), Some(10));
        assert_eq!(next_time_ms(&version, 20), Some(30));
        assert_eq!(next_time_ms(&version, 30), None);
    }

    #[test]
    fn a_busy_slice_keeps_the_slices_above_it() {
        let version = version(vec![
            added(0, 9, 1, *b"ad", Some(10)),
            added(0, 8, 2, *b"ee", Some(10)),
            added(1, 5, 3, *b"bc", Some(10)),
        ]);
        let all = plan(&version, 10, &BusySet::default()).unwrap();
        assert_eq!(all.inputs.len(), 3);
        let mut busy = BusySet::default();
        let reading = |input: &&PlanInput| input.fragment.file.number == 3;
        let inputs = all.inputs.iter().filter(reading).cloned().collect();
        busy.insert(&Plan { inputs, ..all.clone() });
        assert_eq!(removed(&version, 10, &busy), [2]);
    }
}
