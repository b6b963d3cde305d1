//! Picker tests: small hand-written versions, and the plan that each policy makes for them.
//!
//! A version is text with one slice or bound per entry. `0@4 #7 a..f 900` is file 7 in run 4 of
//! level 0, of 900 bytes, from key `a` to key `f`. `a..f.` has a range tombstone that ends at `f`.
//! A trailing `[c,e)` limits the file to that slice. `1|m` is a guard bound of level 1. A plan is
//! also text, see [`picture`].
//!
//! The tests cover these past failures: a push one run too early or too late, a move past an
//! overlapping level, a slice given to two jobs, a guard that is never split, and writers throttled
//! for a debt that no plan reduces.

mod fluid;
mod hot;
mod levels;
mod manual;
mod model;
mod older_data;
mod rest;
mod runs;

use super::*;
use crate::options::kinds::Policy;
use crate::tree::edit::{AddedFile, AddedSlice, VersionEdit};
use crate::tree::tests::{added, after, empty};

const POLICIES: [Policy; 5] =
    [Policy::Fluid, Policy::Leveled, Policy::Tiered, Policy::Fragmented, Policy::Lazy];

/// Returns small round limits: flushes of 1000 bytes, 4 of them in level 0, and levels that grow by
/// 4.
fn limits(policy: Policy) -> TreeLimits {
    let options = Options {
        policy,
        l0_runs_max: 4,
        runs_max: 3,
        last_runs_max: 3,
        fan_out: 4,
        base_rewrite_ratio: 1.0,
        file_size_max_bytes: 1000,
        guard_size_max_bytes: 3000,
        guard_piece_min_bytes: 500,
        ..Options::default()
    };
    TreeLimits::new(&options, 1000, KeyOrder::Bytewise)
}

/// Parses a key bound of the notation. `..` stands for no bound.
fn bound(text: &str) -> Option<Vec<u8>> {
    (text != "..").then(|| text.as_bytes().to_vec())
}

fn slice(words: &[&str]) -> AddedSlice {
    let (level, order) = words[0].split_once('@').unwrap();
    let number = words[1].strip_prefix('#').unwrap().parse().unwrap();
    let (first, last) = words[2].split_once("..").unwrap();
    let (last, tombstones) = last.strip_suffix('.').map_or((last, 0), |last| (last, 1));
    let (level, order) = (level.parse().unwrap(), order.parse().unwrap());
    let mut slice = added(level, order, number, first.as_bytes(), last.as_bytes());
    if let AddedFile::New { info, .. } = &mut slice.file {
        info.size_bytes = words[3].parse().unwrap();
        info.range_deletes = tombstones;
    }
    if let Some(cut) = words.get(4) {
        let cut = cut.strip_prefix('[').and_then(|c| c.strip_suffix(')')).unwrap();
        let (lo, hi) = cut.split_once(',').unwrap();
        (slice.lo, slice.hi) = (bound(lo), bound(hi));
    }
    slice
}

/// Returns the version that `text` describes.
fn version(text: &str) -> Version {
    let mut version = empty();
    let entries = text.split(['\n', ';']).map(str::trim).filter(|entry| !entry.is_empty());
    for entry in entries {
        let mut edit = VersionEdit::default();
        if let Some((level, key)) = entry.split_once('|') {
            edit.bounds_added.push((level.parse().unwrap(), key.as_bytes().to_vec()));
        } else {
            let mut slice = slice(&entry.split_whitespace().collect::<Vec<_>>());
            // Another slice of an existing file.
            if let AddedFile::New { number, .. } = slice.file
                && version.files().iter().any(|f| f.number == number)
            {
                slice.file = AddedFile::Existing(number);
            }
            edit.added.push(slice);
        }
        version = after(&version, &edit).unwrap_or_else(|e| panic!("{entry}: {e}"));
    }
    version
}

fn word(key: &[u8]) -> &str {
    std::str::from_utf8(key).unwrap()
}

fn range(lo: &Option<Vec<u8>>, hi: &Option<Vec<u8>>) -> String {
    let side = |key: &Option<Vec<u8>>| key.as_deref().map_or("..", word).to_string();
    format!("[{},{})", side(lo), side(hi))
}

/// Returns a plan as text: kind, levels, inputs and the output's age, followed by the cut bounds,
/// the added and removed bounds, the split size and the key range, as far as they are set.
fn picture(plan: &Plan) -> String {
    let inputs: Vec<String> = plan
        .inputs
        .iter()
        .map(|input| {
            let fragment = &input.fragment;
            let cut = match (&fragment.lo, &fragment.hi) {
                (None, None) => String::new(),
                (lo, hi) => range(lo, hi),
            };
            format!("{}@{}#{}{cut}", input.level, input.order, fragment.file.number)
        })
        .collect();
    let age = match plan.output_order {
        OutputOrder::New => "new".to_string(),
        OutputOrder::Same(order) => format!("as {order}"),
    };
    let (kind, from, to) = (plan.kind, plan.level, plan.output_level);
    let mut out = format!("{kind:?} {from}>{to} {} {age}", inputs.join(" "));
    let words = |keys: &[Vec<u8>]| keys.iter().map(|k| word(k)).collect::<Vec<_>>().join(",");
    if !plan.cut_bounds.is_empty() {
        out += &format!(" cut {}", words(&plan.cut_bounds));
    }
    if !plan.bounds_added.is_empty() {
        out += &format!(" +{}", words(&plan.bounds_added));
    }
    for (level, key) in &plan.bounds_removed {
        out += &format!(" -{level}|{}", word(key));
    }
    if let Some(bytes) = plan.split_guard_bytes {
        out += &format!(" split {bytes}");
    }
    if plan.guard_lo.is_some() || plan.guard_hi.is_some() {
        out += &format!(" in {}", range(&plan.guard_lo, &plan.guard_hi));
    }
    out
}

/// Returns a plan that reads these files at these levels, for a [`BusySet`].
fn reading(version: &Version, files: &[(usize, u64)]) -> Plan {
    let mut inputs = Vec::new();
    for (level, content) in version.levels.iter().enumerate() {
        for (order, fragment) in content.guards.iter().flat_map(|g| g.fragments()) {
            if files.contains(&(level, fragment.file.number)) {
                inputs.push(PlanInput { level, order, fragment: fragment.clone() });
            }
        }
    }
    assert!(inputs.len() >= files.len(), "the version has no such files");
    let level = inputs.iter().map(|i| i.level).min().unwrap_or(0);
    Plan { reason: "a test", ..Plan::of_files(PlanKind::Push, inputs, (level, 1)) }
}

/// A test case: a version, its busy files, the expected plan and the expected debt.
struct Case {
    what: &'static str,
    tree: &'static str,
    busy: &'static [(usize, u64)],
    plan: &'static str,
    debt_bytes: u64,
}

/// Returns a case without busy files.
const fn case(what: &'static str, tree: &'static str, plan: &'static str, debt_bytes: u64) -> Case {
    Case { what, tree, busy: &[], plan, debt_bytes }
}

/// Returns a case with busy files, given as level and file number.
const fn busy_case(
    what: &'static str,
    tree: &'static str,
    busy: &'static [(usize, u64)],
    plan: &'static str,
    debt_bytes: u64,
) -> Case {
    Case { what, tree, busy, plan, debt_bytes }
}

/// Returns the plan that the policy picks, as text.
fn picked(limits: &TreeLimits, version: &Version, busy: &[(usize, u64)]) -> String {
    let mut set = BusySet::default();
    set.insert(&reading(version, busy));
    let plan = picker::pick(version, limits, &set);
    if let Some(plan) = &plan {
        let sum: u64 = plan.inputs.iter().map(|i| i.fragment.est_bytes()).sum();
        let read = if plan.kind == PlanKind::Move { 0 } else { sum };
        assert_eq!(plan.est_bytes, read, "{}", picture(plan));
        assert_eq!(plan.level, plan.inputs.iter().map(|i| i.level).min().unwrap());
        assert!(plan.inputs.iter().all(|i| !set.holds(i.level, i.fragment.file.number)));
    }
    plan.as_ref().map_or("nothing".to_string(), picture)
}

/// Checks the cases of one policy.
fn check(policy: Policy, cases: &[Case]) {
    let limits = limits(policy);
    for Case { what, tree, busy, plan, debt_bytes } in cases {
        let version = version(tree);
        assert_eq!(picked(&limits, &version, busy), *plan, "{policy:?}: {what}");
        let debt = picker::debt_bytes(&version, &limits);
        assert_eq!(debt, *debt_bytes, "{policy:?}, debt: {what}");
    }
}

#[test]
fn fragment_is_busy_until_all_plans_that_read_it_end() {
    let version = version("0@1 #1 a..m 100; 0@2 #2 a..m 100; 1@1 #3 a..m 100");
    let mut busy = BusySet::default();
    let (one, both) = (reading(&version, &[(0, 1)]), reading(&version, &[(0, 1), (1, 3)]));
    busy.insert(&one);
    busy.insert(&both);
    assert!(busy.holds(0, 1) && busy.holds(1, 3));
    // Neither another file of the level nor the same number at another level.
    assert!(!busy.holds(0, 2) && !busy.holds(1, 1) && !busy.holds(0, 3));
    busy.remove(&both);
    assert!(busy.holds(0, 1) && !busy.holds(1, 3));
    busy.remove(&one);
    busy.remove(&one);
    assert!(!busy.holds(0, 1));
}

#[test]
fn level_capacities_follow_fan_out_and_saturate() {
    for (policy, one, two, split) in [
        (Policy::Leveled, 4_000, 16_000, Some(1000)),
        (Policy::Fluid, 16_000, 64_000, Some(3000)),
        (Policy::Lazy, 16_000, 64_000, Some(3000)),
        (Policy::Tiered, 16_000, 64_000, None),
        (Policy::Fragmented, 16_000, 64_000, Some(1000)),
    ] {
        let limits = limits(policy);
        assert_eq!(limits.push_bytes(), 4000);
        assert_eq!((limits.capacity_bytes(1), limits.capacity_bytes(2)), (one, two), "{policy:?}");
        assert_eq!(limits.split_guard_bytes(), split, "{policy:?}");
        // The limits convert between any two policies, and a capacity beyond `u64` saturates.
        for other in POLICIES {
            let converted = limits.with_policy(other);
            assert_eq!(converted.shape(), self::limits(other).shape());
        }
        let huge = TreeLimits { fan_out: 1 << 40, ..limits };
        assert_eq!(huge.capacity_bytes(7), u64::MAX);
    }
}

#[test]
fn new_guard_size_is_guard_size_divided_by_runs_with_minimum() {
    let pieces = |piece_min: u64, runs_max: u64| {
        let options = Options {
            guard_size_max_bytes: 3000,
            guard_piece_min_bytes: piece_min,
            runs_max,
            ..Options::default()
        };
        let limits = TreeLimits::new(&options, 1000, KeyOrder::Bytewise);
        let split = |policy| limits.with_policy(policy).shape().split_inner_bytes.unwrap();
        assert_eq!(split(Policy::Fluid), split(Policy::Fragmented));
        split(Policy::Fluid)
    };
    assert_eq!(pieces(500, 3), 1000);
    assert_eq!(pieces(500, 0), 3000);
    assert_eq!(pieces(2000, 3), 2000);
    // The minimum size of a new guard never exceeds the maximum guard size.
    assert_eq!(pieces(9000, 3), 3000);
}

#[test]
fn empty_version_needs_no_compaction() {
    for policy in POLICIES {
        check(policy, &[case("empty", "", "nothing", 0)]);
        assert_eq!(super::manual::plans(&empty(), &limits(policy), None, None).len(), 0);
    }
}

#[test]
fn a_dropped_keyspace_without_slices_is_removed_by_one_job() {
    let (version, mut busy) = (empty(), BusySet::default());
    let drop = |id, busy: &BusySet| {
        drop_range::plan(&version, id, drop_range::Gap { after: id - 1, last: id }, busy)
    };
    let plan = drop(3, &busy).unwrap();
    assert!(plan.inputs.is_empty());
    busy.insert(&plan);
    assert!(!busy.is_empty() && drop(3, &busy).is_none());
    assert!(drop(4, &busy).is_some());
    busy.remove(&plan);
    assert!(busy.is_empty() && drop(3, &busy).is_some());
}
