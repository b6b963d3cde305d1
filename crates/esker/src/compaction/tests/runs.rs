//! Tiered and fragmented policies: runs are appended, and no level is permanently the last.

use super::*;

#[test]
fn tiered_merges_fan_out_runs_into_one_of_next_level() {
    check(
        Policy::Tiered,
        &[
            case(
                "level 0 one run below its limit",
                "0@1 #1 a..z 1000; 0@2 #2 a..z 1000; 0@3 #3 a..z 1000",
                "nothing",
                0,
            ),
            case(
                "level 0 at its limit",
                "0@1 #1 a..z 1000; 0@2 #2 a..z 1000; 0@3 #3 a..z 1000; 0@4 #4 a..z 1000
                 1@1 #5 a..z 4000",
                "Push 0>1 0@4#4 0@3#3 0@2#2 0@1#1 new",
                4000,
            ),
            case(
                "nothing overlaps: a move that opens no guards",
                "0@1 #1 a..c 1000; 0@2 #2 d..f 1000; 0@3 #3 g..i 1000; 0@4 #4 j..l 1000
                 1@1 #5 m..z 4000",
                "Move 0>1 0@4#4 0@3#3 0@2#2 0@1#1 new",
                4000,
            ),
            case(
                "level 1 one run below the fan-out, whatever its bytes",
                "1@1 #1 a..z 99000; 1@2 #2 a..z 99000; 1@3 #3 a..z 99000",
                "nothing",
                0,
            ),
            case(
                "level 1 at the fan-out, with no level below",
                "1@1 #1 a..z 4000; 1@2 #2 a..z 4000; 1@3 #3 a..z 4000; 1@4 #4 a..z 4000",
                "Push 1>2 1@4#4 1@3#3 1@2#2 1@1#1 new",
                0,
            ),
            case(
                "disjoint runs of the deepest level move to the next level unchanged",
                "1@1 #1 a..c 4000; 1@2 #2 d..f 4000; 1@3 #3 g..i 4000; 1@4 #4 j..l 4000",
                "Move 1>2 1@4#4 1@3#3 1@2#2 1@1#1 new",
                0,
            ),
            case(
                "level 1 beyond the fan-out",
                "1@1 #1 a..z 4000; 1@2 #2 a..z 4000; 1@3 #3 a..z 4000; 1@4 #4 a..z 4000
                 1@5 #5 a..z 4000",
                "Push 1>2 1@5#5 1@4#4 1@3#3 1@2#2 1@1#1 new",
                20_000,
            ),
            busy_case(
                "level 1 is busy, level 2 needs a compaction",
                "1@1 #1 a..z 4000; 1@2 #2 a..z 4000; 1@3 #3 a..z 4000; 1@4 #4 a..z 4000
                 2@1 #5 a..z 9000; 2@2 #6 a..z 9000; 2@3 #7 a..z 9000; 2@4 #8 a..z 9000",
                &[(1, 4)],
                "Push 2>3 2@4#8 2@3#7 2@2#6 2@1#5 new",
                0,
            ),
            case(
                "the deepest possible level",
                "7@1 #1 a..z 4000; 7@2 #2 a..z 4000; 7@3 #3 a..z 4000; 7@4 #4 a..z 4000",
                "MergeWithin 7>7 7@4#4 7@3#3 7@2#2 7@1#1 as 4",
                0,
            ),
        ],
    );
}

#[test]
fn fragmented_push_splits_at_guards_below() {
    check(
        Policy::Fragmented,
        &[
            case(
                "level 0 into guards",
                "0@1 #1 a..z 1000; 0@2 #2 a..z 1000; 0@3 #3 a..z 1000; 0@4 #4 a..z 1000
                 1|g; 1|p; 1@1 #5 a..z 3000",
                "Push 0>1 0@4#4 0@3#3 0@2#2 0@1#1 new cut g,p split 1000",
                4000,
            ),
            case(
                "level 0 within one guard",
                "0@1 #1 h..k 1000; 0@2 #2 h..k 1000; 0@3 #3 h..k 1000; 0@4 #4 h..k 1000
                 1|g; 1|p; 1@1 #5 a..z 3000",
                "Push 0>1 0@4#4 0@3#3 0@2#2 0@1#1 new split 1000",
                4000,
            ),
            case(
                "small runs that move open no guards",
                "0@1 #1 a..c 499; 0@2 #2 d..f 500; 0@3 #3 g..i 100; 0@4 #4 j..l 1000",
                "Move 0>1 0@4#4 0@3#3 0@2#2 0@1#1 new +d,j",
                2099,
            ),
            case(
                "guards one run below the limit, whatever their bytes",
                "1|m; 1@1 #1 a..l 90000; 1@2 #2 a..l 90000; 1@1 #3 m..z 90000",
                "nothing",
                0,
            ),
            case(
                "the guard with the most runs is pushed whole",
                "1|m; 1@1 #1 a..z 1000; 1@2 #2 a..z 1000; 1@3 #3 a..z 1000; 1@4 #4 n..p 1000
                 2|p; 2@1 #5 a..z 1000",
                "Push 1>2 1@4#4[m,..) 1@3#3[m,..) 1@2#2[m,..) 1@1#1[m,..) new cut p split 1000 \
                 in [m,..)",
                2500,
            ),
            busy_case(
                "one slice of that guard is busy, which makes the file busy in the other",
                "1|m; 1@1 #1 a..z 1000; 1@2 #2 a..l 1000; 1@3 #3 a..l 1000; 1@4 #4 a..l 1000
                 1@2 #5 m..z 1000; 1@3 #6 m..z 1000",
                &[(1, 1)],
                "nothing",
                3500,
            ),
            busy_case(
                "only the other guard is busy",
                "1|m; 1@1 #1 a..l 1000; 1@2 #2 a..l 1000; 1@3 #3 a..l 1000; 1@4 #4 a..l 1000
                 1@1 #7 m..z 1000; 1@2 #5 m..z 1000; 1@3 #6 m..z 1000",
                &[(1, 1)],
                "Push 1>2 1@3#6[m,..) 1@2#5[m,..) 1@1#7[m,..) new split 1000 in [m,..)",
                4000,
            ),
            case(
                "the deepest possible level splits its guards in place",
                "7|m; 7@1 #1 m..z 4000; 7@2 #2 m..z 4000; 7@3 #3 m..z 4000",
                "MergeWithin 7>7 7@3#3[m,..) 7@2#2[m,..) 7@1#1[m,..) as 3 split 1000 in [m,..)",
                0,
            ),
        ],
    );
}
