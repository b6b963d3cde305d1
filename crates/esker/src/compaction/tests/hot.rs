//! Seek compactions: merges that are due only because of seek statistics.

use super::*;
use crate::tree::seek_stats;

/// Returns the picked plan after many seeks to the keys of `seek_keys`.
fn picked_hot(policy: Policy, tree: &str, seek_keys: &[&str], busy: &[(usize, u64)]) -> String {
    let version = version(tree);
    for key in seek_keys {
        seek_stats::note(&version, key.as_bytes(), 1 << 20);
    }
    let mut set = BusySet::default();
    set.insert(&reading(&version, busy));
    let plan = picker::pick_seek_candidate(&version, &limits(policy), &set);
    plan.as_ref().map_or("nothing".to_string(), picture)
}

#[test]
fn hot_level_zero_is_pushed_before_it_is_full() {
    for policy in POLICIES {
        let push = picked_hot(policy, "0@1 #1 a..z 1000; 0@2 #2 a..z 1000", &["k"], &[]);
        assert!(push.starts_with("Push 0>1 0@2#2 0@1#1 new"), "{policy:?}: {push}");
        for (tree, seek_keys, busy) in [
            ("0@1 #1 a..z 1000; 0@2 #2 a..z 1000", &[][..], &[][..]),
            ("0@1 #1 a..z 1000; 0@2 #2 a..z 1000", &["k"], &[(0, 1)]),
            ("0@1 #1 a..z 1000", &["k"], &[]),
        ] {
            assert_eq!(picked_hot(policy, tree, seek_keys, busy), "nothing", "{policy:?}: {tree}");
        }
    }
}

#[test]
fn hot_guard_is_merged_in_place_unless_busy() {
    let tree = "0@5 #1 a..c 100; 1|m; 1@1 #2 a..l 900; 1@2 #3 b..k 100; 1@1 #4 m..z 900
                1@2 #5 n..o 100";
    let first = "MergeWithin 0>1 0@5#1[..,m) 1@2#3[..,m) 1@1#2[..,m) as 2 split 3000 in [..,m)";
    let second = "MergeWithin 0>1 1@2#5[m,..) 1@1#4[m,..) as 2 split 3000 in [m,..)";
    for (seek_keys, busy, plan) in [
        (&["b"][..], &[][..], first),
        (&["n"], &[], second),
        (&["n", "b"], &[], first),
        // A job reads a part of the first guard, so the second guard is picked.
        (&["n", "b"], &[(0, 1)], second),
        (&["n", "b"], &[(1, 2)], second),
        (&["b"], &[(1, 3)], "nothing"),
        (&["n"], &[(1, 4)], "nothing"),
        (&[], &[], "nothing"),
    ] {
        let found = picked_hot(Policy::Fluid, tree, seek_keys, busy);
        assert_eq!(found, plan, "{seek_keys:?}, {busy:?}");
    }
}
