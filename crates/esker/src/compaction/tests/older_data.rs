//! The data below a plan's inputs. Tombstones are needed only for keys that such data may hold.

use super::*;

/// Returns the older ranges of a plan that reads `files`, for the key range `[lo, hi)`.
fn older(tree: &str, files: &[(usize, u64)], lo: &str, hi: &str) -> String {
    let version = version(tree);
    let mut plan = reading(&version, files);
    (plan.guard_lo, plan.guard_hi) = (bound(lo), bound(hi));
    let ranges = plan.older_ranges(&version);
    let ranges = ranges.iter().map(|(first, last)| format!("{}..{}", word(first), word(last)));
    ranges.collect::<Vec<_>>().join(" ")
}

const TREE: &str = "0@5 #1 a..c 100; 0@4 #2 b..d 100; 0@3 #3 e..g 100
                    1@9 #4 a..b 100; 1@8 #5 c..k 100; 2@1 #6 h..z 100";

#[test]
fn older_data_excludes_newer_runs_of_top_level() {
    for (files, want) in [
        (&[(0, 1), (0, 2), (0, 3)][..], "a..b c..k h..z"),
        (&[(0, 2), (0, 3)], "a..b c..k h..z"),
        // An older run of level 0 that is not an input counts.
        (&[(0, 1)], "b..d e..g a..b c..k h..z"),
        (&[(0, 2)], "e..g a..b c..k h..z"),
        // Levels above the uppermost input are newer, regardless of their run orders.
        (&[(1, 4)], "c..k h..z"),
        (&[(1, 5)], "h..z"),
        (&[(2, 6)], ""),
        // In a deeper level, a run counts despite a larger order: run 9 is not an input.
        (&[(0, 1), (0, 2), (0, 3), (1, 5)], "a..b h..z"),
    ] {
        assert_eq!(older(TREE, files, "..", ".."), want, "{files:?}");
    }
}

#[test]
fn older_data_excludes_keys_outside_plan() {
    let files = [(0, 1), (0, 2), (0, 3)];
    for (lo, hi, want) in [
        ("..", "h", "a..b c..k"),
        ("..", "i", "a..b c..k h..z"),
        ("..", "c", "a..b"),
        ("b", "..", "a..b c..k h..z"),
        ("l", "..", "h..z"),
        ("d", "e", "c..k"),
    ] {
        assert_eq!(older(TREE, &files, lo, hi), want, "[{lo},{hi})");
    }
}

#[test]
fn older_data_includes_only_visible_part_of_fragments() {
    let tree = "0@2 #1 a..z 100; 1@1 #2 a..z. 100 [c,f); 2|m; 2@1 #3 a..z 100";
    assert_eq!(older(tree, &[(0, 1)], "..", ".."), "c..f a..m m..z");
    assert_eq!(older(tree, &[(0, 1)], "m", ".."), "a..m m..z");
    assert_eq!(older(tree, &[(0, 1)], "n", ".."), "m..z");
    // All slices of an input file at the same level count as inputs.
    assert_eq!(older(tree, &[(2, 3)], "..", ".."), "");
}
