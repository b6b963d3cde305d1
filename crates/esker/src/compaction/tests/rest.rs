//! Rest compactions: the key ranges that a store at rest merges, in hand-written and in random trees.

use super::super::rest::{pick_rest, unmerged_bytes};
use super::*;
use crate::tree::edit::RemovedSlice;

/// Returns the plan of a store at rest, as text.
fn rest_with(policy: Policy, tree: &str, busy: &[(usize, u64)], allowance_bytes: u64) -> String {
    let version = version(tree);
    let mut set = BusySet::default();
    set.insert(&reading(&version, busy));
    let plan = pick_rest(&version, &limits(policy), &set, allowance_bytes);
    if let Some(plan) = &plan {
        let sum: u64 = plan.inputs.iter().map(|i| i.fragment.est_bytes()).sum();
        assert_eq!((plan.est_bytes, plan.urgency), (sum, Urgency::Rest), "{}", picture(plan));
    }
    plan.as_ref().map_or("nothing".to_string(), picture)
}

fn rest(policy: Policy, tree: &str) -> String {
    rest_with(policy, tree, &[], u64::MAX)
}

#[test]
fn tree_without_overlaps_is_left_alone() {
    for policy in POLICIES {
        for tree in [
            "",
            "0@1 #1 a..m 900",
            "0@1 #1 a..f 900; 0@2 #2 g..m 900; 1@3 #3 n..z 900",
            "1|m; 1@1 #1 a..l 900; 1@1 #2 m..z 900; 2@1 #3 zz..zzz 900",
            // A range tombstone that ends where the next slice begins.
            "0@1 #1 a..m. 900 [..,m); 1@3 #3 m..z 900",
        ] {
            assert_eq!(rest(policy, tree), "nothing", "{policy:?}: {tree}");
            assert_eq!(unmerged_bytes(&version(tree), &limits(policy)), 0);
        }
    }
}

#[test]
fn overlapping_runs_are_merged_into_deepest_level() {
    // The keys of one slice alone, before the overlap, stay where they are.
    let tree = "0@5 #1 c..k 100; 1@2 #2 a..z 900";
    let plan = "MergeWithin 0>1 1@2#2[c,..) 0@5#1[c,..) as 2 split 3000 in [c,..)";
    assert_eq!(rest(Policy::Fluid, tree), plan);
    let plan = "MergeWithin 0>1 1@2#2[c,..) 0@5#1[c,..) as 2 +c split 1000 in [c,..)";
    assert_eq!(rest(Policy::Leveled, tree), plan);
    let plan = "MergeWithin 0>1 1@2#2[c,..) 0@5#1[c,..) as 2 in [c,..)";
    assert_eq!(rest(Policy::Tiered, tree), plan);
    assert_eq!(unmerged_bytes(&version(tree), &limits(Policy::Fluid)), 100);
    // Level 0 alone moves to level 1.
    let plan = "MergeWithin 0>1 0@1#1[b,..) 0@2#2[b,..) new split 3000 in [b,..)";
    assert_eq!(rest(Policy::Lazy, "0@1 #1 a..z 1000; 0@2 #2 b..z 1000"), plan);
}

#[test]
fn range_ends_behind_overlap_where_next_slice_begins() {
    let tree = "0@5 #1 c..k 100; 1@2 #2 a..n 300; 1@2 #3 p..z 300";
    let plan = "MergeWithin 0>1 1@2#2[c,p) 0@5#1[c,p) as 2 split 3000 in [c,p)";
    assert_eq!(rest(Policy::Fluid, tree), plan);
}

#[test]
fn range_with_most_gain_for_written_bytes_comes_first() {
    let tree = "0@5 #1 a..b 100; 0@5 #5 n..o 700; 1|m; 1@1 #2 a..l 900; 1@1 #3 m..z 900";
    let first = "MergeWithin 0>1 1@1#3[n,..) 0@5#5[n,..) as 1 split 3000 in [n,..)";
    let second = "MergeWithin 0>1 0@5#1[a,m) 1@1#2[a,m) as 1 split 3000 in [a,m)";
    assert_eq!(rest(Policy::Fluid, tree), first);
    // A job reads the first range, or the allowance is too small for it.
    assert_eq!(rest_with(Policy::Fluid, tree, &[(0, 5)], u64::MAX), second);
    assert_eq!(rest_with(Policy::Fluid, tree, &[], 1_599), second);
    assert_eq!(rest_with(Policy::Fluid, tree, &[], 1_600), first);
    assert_eq!(rest_with(Policy::Fluid, tree, &[], 999), "nothing");
    assert_eq!(rest_with(Policy::Fluid, tree, &[(0, 5), (1, 2)], u64::MAX), "nothing");
}

#[test]
fn large_range_is_divided_at_slices() {
    let tree = "0@5 #1 a..z 900; 1@1 #2 a..d 900; 1@1 #3 e..h 900; 1@1 #4 i..z 900";
    let plan = rest(Policy::Tiered, tree);
    assert_eq!(plan, "MergeWithin 0>1 0@5#1[a,e) 1@1#2[a,e) as 1 in [a,e)");
}

/// Returns the version after `plan`, whose output is one file, with a number of its own.
fn executed(version: &Version, plan: &Plan, number: u64) -> Version {
    let order = &KeyOrder::Bytewise;
    let mut edit = VersionEdit::default();
    for input in &plan.inputs {
        let (lo, hi) = (input.fragment.lo.clone(), input.fragment.hi.clone());
        let (level, file) = (input.level, input.fragment.file.number);
        edit.removed.push(RemovedSlice { level, file, lo: lo.clone(), hi: hi.clone() });
        if plan.kind == PlanKind::Move {
            let (level, file) = (plan.output_level, AddedFile::Existing(file));
            edit.added.push(AddedSlice { level, order: number, file, lo, hi });
        }
    }
    edit.bounds_removed.extend(plan.bounds_removed.iter().cloned());
    edit.bounds_added.extend(plan.bounds_added.iter().map(|b| (plan.output_level, b.clone())));
    if plan.kind != PlanKind::Move {
        let firsts = plan.inputs.iter().map(|i| i.fragment.first(order));
        let lasts = plan.inputs.iter().map(|i| i.fragment.last(order).0);
        let (first, last) = (firsts.min().unwrap(), lasts.max().unwrap());
        let age = match plan.output_order {
            OutputOrder::New => number,
            OutputOrder::Same(age) => age,
        };
        let mut slice = added(plan.output_level, age, number, first, last);
        slice.hi = plan.guard_hi.clone();
        if let AddedFile::New { info, .. } = &mut slice.file {
            info.size_bytes = plan.est_bytes;
        }
        edit.added.push(slice);
    }
    after(version, &edit).unwrap_or_else(|e| panic!("{}: {e}", picture(plan)))
}

/// Returns a random tree of flushes and of the compactions that the policy demands.
fn grown(policy: Policy, seed: u64, number: &mut u64) -> Version {
    let (limits, mut version, mut state) = (limits(policy), empty(), seed);
    let mut random = |most: u64| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % most
    };
    for _ in 0..6 + random(20) {
        *number += 1;
        let (a, b) = (random(1000), random(1000));
        let key = |n: u64| format!("{n:04}").into_bytes();
        let slice = added(0, *number, *number, &key(a.min(b)), &key(a.max(b)));
        version =
            after(&version, &VersionEdit { added: vec![slice], ..Default::default() }).unwrap();
        for _ in 0..100 {
            let Some(plan) = picker::pick(&version, &limits, &BusySet::default()) else { break };
            *number += 1;
            version = executed(&version, &plan, *number);
        }
    }
    version
}

/// Returns whether two slices of the version may share a key.
fn overlaps(version: &Version) -> bool {
    let guards = version.levels.iter().flat_map(|level| &level.guards);
    let slices: Vec<_> =
        guards.flat_map(|guard| guard.fragments()).map(|(_, f)| f.clone()).collect();
    let pairs =
        slices.iter().enumerate().flat_map(|(at, a)| slices[..at].iter().map(move |b| (a, b)));
    pairs.into_iter().any(|(a, b)| a.overlaps(&KeyOrder::Bytewise, b))
}

#[test]
fn rest_of_every_policy_ends_without_overlaps_and_writes_no_key_twice() {
    let mut rests = 0;
    for policy in POLICIES {
        let limits = limits(policy);
        for seed in 0..60 {
            let mut number = 0;
            let mut version = grown(policy, seed, &mut number);
            let mut merged: Vec<(Vec<u8>, Option<Vec<u8>>)> = Vec::new();
            for step in 0.. {
                assert!(step < 2_000, "{policy:?}, seed {seed}: the rest does not end");
                number += 1;
                if let Some(plan) = picker::pick(&version, &limits, &BusySet::default()) {
                    version = executed(&version, &plan, number);
                    continue;
                }
                let Some(plan) = pick_rest(&version, &limits, &BusySet::default(), u64::MAX) else {
                    break;
                };
                rests += 1;
                let (lo, hi) = (plan.guard_lo.clone().unwrap(), plan.guard_hi.clone());
                for (from, to) in &merged {
                    let before = hi.as_ref().is_some_and(|hi| hi <= from);
                    let behind = to.as_ref().is_some_and(|to| *to <= lo);
                    assert!(before || behind, "{policy:?}, seed {seed}: {}", picture(&plan));
                }
                merged.push((lo, hi));
                version = executed(&version, &plan, number);
            }
            assert!(!overlaps(&version), "{policy:?}, seed {seed}");
            assert_eq!(unmerged_bytes(&version, &limits), 0);
        }
    }
    assert!(rests > 500, "only {rests} compactions");
}
