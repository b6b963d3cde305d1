//! Which value files have too much garbage, and which slice is rewritten next for their sake.
//!
//! A value in a value file is garbage once no table points to it. A merge that drops or moves a
//! pointer makes garbage, and no merge can remove a part of a file. Therefore a slice that points to
//! a file with much garbage is rewritten, and its values move from there to a new file. The worst
//! file comes first, because it gives back the most bytes for each byte that is written (the greedy
//! policy of log-structured file systems: Rosenblum and Ousterhout, SOSP 1991).
//!
//! Invariants: a plan takes one slice and keeps its place, so nothing moves above or below other
//! data. A new value file has no garbage, so without writes the plans end.

use super::{BusySet, OutputOrder, Plan, PlanInput, PlanKind};
use crate::tree::version::Version;

/// Bytes of the records in value files over the bytes that tables point to, above which values are
/// moved.
pub const AMPLIFICATION_MAX: f64 = 1.4;

/// A value file and its use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ValueFileUse {
    /// Number of the file.
    pub number: u64,
    /// Bytes of its records.
    pub record_bytes: u64,
    /// Bytes of the records that tables point to.
    pub live_bytes: u64,
}

impl ValueFileUse {
    fn garbage_bytes(&self) -> u64 {
        self.record_bytes.saturating_sub(self.live_bytes)
    }

    fn live_share(&self) -> f64 {
        self.live_bytes as f64 / self.record_bytes.max(1) as f64
    }
}

/// Returns the numbers of the files whose values must move so that the rest is within `most`, the one
/// with the greatest share of garbage first.
pub fn wasteful(mut uses: Vec<ValueFileUse>, most: f64) -> Vec<u64> {
    let live: u64 = uses.iter().map(|file| file.live_bytes).sum();
    let mut garbage: u64 = uses.iter().map(ValueFileUse::garbage_bytes).sum();
    uses.sort_by(|a, b| a.live_share().total_cmp(&b.live_share()).then(a.number.cmp(&b.number)));
    let mut chosen = Vec::new();
    for file in uses {
        if garbage as f64 <= live as f64 * (most - 1.0) || file.garbage_bytes() == 0 {
            break;
        }
        garbage -= file.garbage_bytes();
        chosen.push(file.number);
    }
    chosen
}

/// Returns the plan that rewrites a slice with values in the first file of `worst_first` that has a
/// free one.
pub fn pick(version: &Version, busy: &BusySet, worst_first: &[u64]) -> Option<Plan> {
    worst_first.iter().find_map(|number| pick_of(version, busy, *number))
}

fn pick_of(version: &Version, busy: &BusySet, number: u64) -> Option<Plan> {
    for (level, content) in version.levels.iter().enumerate() {
        for guard in &content.guards {
            for (order, fragment) in guard.fragments() {
                let file = &fragment.file;
                let points = file.info.values.binary_search_by_key(&number, |refs| refs.file);
                if points.is_err() || busy.holds(level, file.number) {
                    continue;
                }
                let fragment = fragment.clone();
                return Some(Plan {
                    output_order: OutputOrder::Same(order),
                    guard_lo: fragment.lo.clone().or_else(|| guard.lo.clone()),
                    guard_hi: fragment.hi.clone().or_else(|| guard.hi.clone()),
                    reason: "a value file has too much garbage",
                    est_bytes: fragment.est_bytes(),
                    ..Plan::of_files(
                        PlanKind::MergeWithin,
                        vec![PlanInput { level, order, fragment }],
                        (level, level),
                    )
                });
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::order::KeyOrder;
    use crate::base::separated::ValueRefs;
    use crate::tree::edit::{AddedFile, AddedSlice, VersionEdit};
    use crate::tree::fragment::FileMeta;
    use crate::tree::tests::info;

    fn use_of(number: u64, record_bytes: u64, live_bytes: u64) -> ValueFileUse {
        ValueFileUse { number, record_bytes, live_bytes }
    }

    #[test]
    fn worst_files_are_chosen_until_the_rest_is_within_the_bound() {
        let uses = vec![use_of(1, 100, 100), use_of(2, 100, 50), use_of(3, 100, 10)];
        // 300 bytes for 160 live ones; without the garbage of file 3 there are 210.
        assert_eq!(wasteful(uses.clone(), 1.4), [3]);
        assert_eq!(wasteful(uses.clone(), 1.2), [3, 2]);
        assert!(wasteful(uses.clone(), 2.0).is_empty());
        assert_eq!(wasteful(uses, 1.0), [3, 2], "a file without garbage is never chosen");
        assert!(wasteful(vec![use_of(1, 30, 30), use_of(2, 5, 5)], 1.0).is_empty());
    }

    #[test]
    fn a_plan_keeps_the_place_of_its_slice_and_takes_no_busy_one() {
        let added = |level, order, number, keys: &[u8; 2], files: &[u64]| {
            let values = files.iter().map(|&file| ValueRefs { file, records: 1, bytes: 9 });
            let values = values.collect();
            let info = crate::table::TableInfo { values, ..info(number, &keys[..1], &keys[1..]) };
            AddedSlice { level, order, file: AddedFile::New { number, info }, lo: None, hi: None }
        };
        let edit = VersionEdit {
            added: vec![
                added(0, 9, 1, b"ad", &[50]),
                added(1, 5, 2, b"bc", &[50, 51]),
                added(1, 5, 3, b"df", &[]),
            ],
            ..VersionEdit::default()
        };
        let make =
            |number, info: &crate::table::TableInfo| FileMeta::new(number, info.clone(), None);
        let version = Version::empty(KeyOrder::Bytewise).after(&edit, make).unwrap();
        let mut busy = BusySet::default();
        assert!(pick(&version, &busy, &[]).is_none() && pick(&version, &busy, &[52]).is_none());
        let plan = pick(&version, &busy, &[52, 51, 50]).unwrap();
        assert_eq!((plan.level, plan.output_level), (1, 1));
        assert_eq!((plan.inputs[0].fragment.file.number, plan.inputs.len()), (2, 1));
        assert_eq!(plan.output_order, OutputOrder::Same(5));
        busy.insert(&plan);
        assert!(pick(&version, &busy, &[51]).is_none());
        let next = pick(&version, &busy, &[51, 50]).unwrap();
        assert_eq!(next.inputs[0].fragment.file.number, 1);
    }
}
