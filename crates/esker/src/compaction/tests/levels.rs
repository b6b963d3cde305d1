//! Leveled and lazy policies: one run per guard in the last level, maintained by merging pushes.

use super::*;

#[test]
fn leveled_push_merges_into_child() {
    check(
        Policy::Leveled,
        &[
            case(
                "level 0 one run below its limit",
                "0@1 #1 a..z 1000; 0@2 #2 a..z 1000; 0@3 #3 a..z 1000",
                "nothing",
                0,
            ),
            case(
                "level 0 at its limit, nothing below",
                "0@1 #1 a..z 1000; 0@2 #2 a..z 1000; 0@3 #3 a..z 1000; 0@4 #4 a..z 1000",
                "Push 0>1 0@4#4 0@3#3 0@2#2 0@1#1 new split 1000",
                4000,
            ),
            case(
                "level 0 over two of three guards",
                "0@1 #1 b..f 1000; 0@2 #2 c..m 1000; 0@3 #3 b..f 1000; 0@4 #4 b..f 1000
                 1|g; 1|p
                 1@1 #5 a..f 900; 1@1 #6 g..o 900; 1@1 #7 p..z 900",
                "Push 0>1 0@4#4 0@3#3 0@2#2 0@1#1 1@1#5[..,g) 1@1#6[g,p) new -1|g split 1000",
                4000,
            ),
            busy_case(
                "a child is busy",
                "0@1 #1 b..f 1000; 0@2 #2 c..m 1000; 0@3 #3 b..f 1000; 0@4 #4 b..f 1000
                 1@1 #5 a..f 900",
                &[(1, 5)],
                "nothing",
                4000,
            ),
            busy_case(
                "a run of level 0 is busy",
                "0@1 #1 b..f 1000; 0@2 #2 c..m 1000; 0@3 #3 b..f 1000; 0@4 #4 b..f 1000",
                &[(0, 2)],
                "nothing",
                4000,
            ),
            case(
                "nothing overlaps: the runs move, each opens a guard",
                "0@1 #1 a..c 1000; 0@2 #2 j..l 100; 0@3 #3 g..i 1000; 0@4 #4 d..f 1000",
                "Move 0>1 0@4#4 0@3#3 0@2#2 0@1#1 new +a,d,g,j",
                3100,
            ),
        ],
    );
}

#[test]
fn leveled_over_capacity_pushes_least_overlap() {
    check(
        Policy::Leveled,
        &[
            case(
                "level 1 exactly at its capacity",
                "1|m; 1@1 #1 a..l 2000; 1@1 #2 m..z 2000; 2@1 #3 a..z 9000",
                "nothing",
                0,
            ),
            case(
                "one byte over: the guard with fewer bytes below it, relative to its size",
                "1|m; 1@2 #1 a..l 2000; 1@2 #2 m..z 2001
                 2|m; 2@1 #3 a..l 4000; 2@1 #4 m..z 2000",
                "Push 1>2 1@2#2[m,..) 2@1#4[m,..) new split 1000 in [m,..)",
                1,
            ),
            busy_case(
                "that guard is busy",
                "1|m; 1@2 #1 a..l 2000; 1@2 #2 m..z 2001
                 2|m; 2@1 #3 a..l 4000; 2@1 #4 m..z 2000",
                &[(1, 2)],
                "Push 1>2 1@2#1[..,m) 2@1#3[..,m) new split 1000 in [..,m)",
                1,
            ),
            case(
                "the child's guards are wider than the guard pushed",
                "1|h; 1|k; 1@2 #1 a..g 2000; 1@2 #2 h..j 2000; 1@2 #5 k..z 2000
                 2|m; 2@1 #3 a..l 100; 2@1 #4 m..z 9000",
                "Push 1>2 1@2#1[..,h) 2@1#3[..,m) new split 1000 in [..,m)",
                2000,
            ),
            case("no level exists below the deepest level", "7@1 #1 a..z 999999999", "nothing", 0),
            case(
                "no part of the child overlaps",
                "1|m; 1@2 #1 a..l 2000; 1@2 #2 m..z 2001; 2@1 #3 a..l 4000",
                "Move 1>2 1@2#2[m,..) new +m in [m,..)",
                1,
            ),
            case(
                "a range tombstone ends on the first key of the child",
                "1@2 #1 a..m. 4001; 2@1 #2 m..z 4000",
                "Push 1>2 1@2#1 2@1#2 new split 1000",
                1,
            ),
            case(
                "the slice ends before that key",
                "1@2 #1 a..m. 4001 [..,m); 2@1 #2 m..z 4000",
                "Move 1>2 1@2#1[..,m) new +a",
                1,
            ),
        ],
    );
}

#[test]
fn leveled_guard_of_several_runs_becomes_one_run_in_place() {
    check(
        Policy::Leveled,
        &[
            case(
                "in the last level",
                "1|m; 1@1 #1 a..l 900; 1@3 #3 n..p 200; 1@2 #2 m..z 900",
                "MergeWithin 1>1 1@3#3[m,..) 1@2#2[m,..) as 3 split 1000 in [m,..)",
                1100,
            ),
            case(
                "in an inner level, as another policy left it",
                "1@1 #1 a..l 900; 1@2 #2 b..c 900; 2@1 #3 a..z 900",
                "MergeWithin 1>1 1@2#2 1@1#1 as 2 split 1000",
                1800,
            ),
            busy_case(
                "one of the runs is busy, another guard is not",
                "1|m; 1@1 #1 a..l 900; 1@2 #2 b..c 900; 1@1 #3 m..z 900; 1@2 #4 m..z 900",
                &[(1, 1)],
                "MergeWithin 1>1 1@2#4[m,..) 1@1#3[m,..) as 2 split 1000 in [m,..)",
                3600,
            ),
        ],
    );
}

#[test]
fn lazy_allows_fan_out_runs_above_and_one_run_in_last_level() {
    check(
        Policy::Lazy,
        &[
            case(
                "level 0 into the last level",
                "0@1 #1 a..z 1000; 0@2 #2 a..z 1000; 0@3 #3 a..z 1000; 0@4 #4 a..z 1000
                 1|m; 1@1 #5 a..l 900; 1@1 #6 m..z 900",
                "Push 0>1 0@4#4 0@3#3 0@2#2 0@1#1 1@1#5[..,m) 1@1#6[m,..) new -1|m split 3000",
                4000,
            ),
            case(
                "level 0 into an inner level",
                "0@1 #1 a..z 1000; 0@2 #2 a..z 1000; 0@3 #3 a..z 1000; 0@4 #4 a..z 1000
                 1@1 #5 a..l 900; 2@1 #6 m..z 900",
                "Push 0>1 0@4#4 0@3#3 0@2#2 0@1#1 new",
                4000,
            ),
            case(
                "an inner level one run below the fan-out",
                "1@1 #1 a..z 900; 1@2 #2 a..z 900; 1@3 #3 a..z 900; 2@1 #9 a..z 900",
                "nothing",
                0,
            ),
            case(
                "an inner level at the fan-out",
                "1@1 #1 a..z 900; 1@2 #2 a..z 900; 1@3 #3 a..z 900; 1@4 #4 a..z 900
                 2@1 #9 a..z 900",
                "Push 1>2 1@4#4 1@3#3 1@2#2 1@1#1 2@1#9 new split 3000",
                0,
            ),
            case(
                "the last level in two runs",
                "1@1 #1 a..z 900; 1@2 #2 a..z 900",
                "MergeWithin 1>1 1@2#2 1@1#1 as 2 split 3000",
                1800,
            ),
            case(
                "the last level outgrows its place and moves with its guards",
                "1|m; 1@1 #1 a..l 8000; 1@1 #2 m..z 8001",
                "Move 1>2 1@1#1[..,m) 1@1#2[m,..) new +m -1|m",
                1,
            ),
            busy_case(
                "a part of the level is busy: only the free guard moves",
                "1|m; 1@1 #1 a..l 8000; 1@1 #2 m..z 8001",
                &[(1, 1)],
                "Move 1>2 1@1#2[m,..) new +m in [m,..)",
                1,
            ),
        ],
    );
}
