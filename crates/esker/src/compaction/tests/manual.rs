//! Manual compactions: one plan for each guard of the deepest level.

use super::super::manual::plans;
use super::*;

/// Returns the plans for `lo..=hi`, as text.
fn asked(policy: Policy, tree: &str, lo: &str, hi: &str) -> Vec<String> {
    let (version, limits) = (version(tree), limits(policy));
    let (lo, hi) = (bound(lo), bound(hi));
    let all = plans(&version, &limits, lo.as_deref(), hi.as_deref());
    for plan in &all {
        let sum: u64 = plan.inputs.iter().map(|i| i.fragment.est_bytes()).sum();
        assert_eq!(plan.est_bytes, sum);
    }
    all.iter().map(picture).collect()
}

const TREE: &str = "0@3 #1 a..z 1000; 1@2 #2 c..p 900; 2|m; 2@1 #3 a..l 900; 2@1 #4 m..z 900";

#[test]
fn fragments_across_guards_are_split_at_bounds() {
    assert_eq!(
        asked(Policy::Fluid, TREE, "..", ".."),
        [
            "MergeWithin 0>2 0@3#1[..,m) 1@2#2[..,m) 2@1#3[..,m) new split 3000 in [..,m)",
            "MergeWithin 0>2 0@3#1[m,..) 1@2#2[m,..) 2@1#4[m,..) new split 3000 in [m,..)",
        ]
    );
    let cut = "1@2 #2 c..p 900 [e,n); 2|m; 2@1 #3 a..l 900";
    assert_eq!(
        asked(Policy::Tiered, cut, "..", ".."),
        [
            "MergeWithin 0>2 1@2#2[e,m) 2@1#3[..,m) new in [..,m)",
            "MergeWithin 0>2 1@2#2[m,n) new in [m,..)",
        ]
    );
}

#[test]
fn only_guards_that_overlap_range_are_merged() {
    let first = "MergeWithin 0>2 0@3#1[..,m) 1@2#2[..,m) 2@1#3[..,m) new split 1000 in [..,m)";
    let second = "MergeWithin 0>2 0@3#1[m,..) 1@2#2[m,..) 2@1#4[m,..) new split 1000 in [m,..)";
    for (lo, hi, want) in [
        ("..", "l", &[first][..]),
        ("..", "m", &[first, second]),
        ("l", "l", &[first]),
        ("m", "..", &[second]),
        ("lzz", "m", &[first, second]),
        ("x", "y", &[second]),
    ] {
        assert_eq!(asked(Policy::Leveled, TREE, lo, hi), want, "{lo}..={hi}");
    }
}

#[test]
fn guards_with_only_current_values_are_skipped() {
    // A rewrite at the bottom level sets sequence numbers to 0. The helper's files have nonzero
    // ones.
    let settled = |text: &str, files: &[u64]| {
        let mut edit = version(text).to_edit();
        for slice in &mut edit.added {
            if let AddedFile::New { number, info } = &mut slice.file
                && files.contains(number)
            {
                info.seqno_max = 0;
            }
        }
        after(&empty(), &edit).unwrap()
    };
    let limits = limits(Policy::Lazy);
    let count = |version: &Version| plans(version, &limits, None, None).len();
    let two = "1|m; 1@1 #1 a..l 900; 1@1 #2 m..z 900";
    assert_eq!(count(&settled(two, &[1, 2])), 0);
    assert_eq!(count(&settled(two, &[1])), 1);
    // Two runs are merged nevertheless, and any data in a level above requires a merge.
    assert_eq!(count(&settled("1@1 #1 a..l 900; 1@2 #2 a..l 900", &[1, 2])), 1);
    assert_eq!(count(&settled("0@2 #2 c..d 900; 1@1 #1 a..l 900", &[1, 2])), 1);
    // If only level 0 has data, the data moves to level 1.
    let flushed = plans(&version("0@1 #1 a..c 900"), &limits, None, None);
    assert_eq!(
        flushed.iter().map(picture).collect::<Vec<_>>(),
        ["MergeWithin 0>1 0@1#1 new split 3000"]
    );
}

#[test]
fn tombstone_that_ends_at_guard_bound_belongs_to_previous_guard() {
    assert_eq!(
        asked(Policy::Fluid, "0@2 #1 a..m. 100 [..,m); 1|m; 1@1 #2 m..z 900", "..", ".."),
        [
            "MergeWithin 0>1 0@2#1[..,m) new split 3000 in [..,m)",
            "MergeWithin 0>1 1@1#2[m,..) new split 3000 in [m,..)",
        ]
    );
}
