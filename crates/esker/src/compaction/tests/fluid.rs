//! Fluid policy: guards of appended runs in inner levels, a base and small runs in the last level.

use super::*;

#[test]
fn level_zero_is_appended_to_guards_below() {
    check(
        Policy::Fluid,
        &[
            case(
                "one run below the limit",
                "0@1 #1 a..z 1000; 0@2 #2 a..z 1000; 0@3 #3 a..z 1000",
                "nothing",
                0,
            ),
            case(
                "at the limit, nothing below",
                "0@1 #1 a..z 1000; 0@2 #2 a..z 1000; 0@3 #3 a..z 1000; 0@4 #4 a..z 1000",
                "Push 0>1 0@4#4 0@3#3 0@2#2 0@1#1 new split 1000",
                4000,
            ),
            case(
                "files of one run count once",
                "0@1 #1 a..z 1000; 0@2 #2 a..z 1000; 0@3 #3 a..k 1000; 0@3 #4 l..z 1000",
                "nothing",
                0,
            ),
            case(
                "cut at the guards it reaches",
                "0@1 #1 b..h 1000; 0@2 #2 b..h 1000; 0@3 #3 b..h 1000; 0@4 #4 b..h 1000
                 1|g; 1|p; 1@1 #5 a..z 3000",
                "Push 0>1 0@4#4 0@3#3 0@2#2 0@1#1 new cut g split 1000",
                4000,
            ),
            busy_case(
                "children may be busy: they are not read",
                "0@1 #1 b..h 1000; 0@2 #2 b..h 1000; 0@3 #3 b..h 1000; 0@4 #4 b..h 1000
                 1@1 #5 a..z 3000",
                &[(1, 5)],
                "Push 0>1 0@4#4 0@3#3 0@2#2 0@1#1 new split 1000",
                4000,
            ),
            busy_case(
                "the level is busy: the level below still gets its compaction",
                "0@1 #1 b..h 1000; 0@2 #2 b..h 1000; 0@3 #3 b..h 1000; 0@4 #4 b..h 1000
                 1@1 #5 a..z 900; 1@2 #6 a..z 900",
                &[(0, 1)],
                "MergeWithin 1>1 1@2#6 1@1#5 as 2 split 3000",
                4000,
            ),
        ],
    );
}

#[test]
fn runs_move_to_deepest_level_without_overlap() {
    check(
        Policy::Fluid,
        &[
            case(
                "into the last level, each a guard of its own",
                "0@1 #1 a..c 1000; 0@2 #2 d..f 1000; 0@3 #3 g..i 1000; 0@4 #4 j..l 499",
                "Move 0>1 0@4#4 0@3#3 0@2#2 0@1#1 new +a,d,g",
                3499,
            ),
            case(
                "past a level that overlaps nothing",
                "0@1 #1 a..c 1000; 0@2 #2 d..f 1000; 0@3 #3 g..i 1000; 0@4 #4 j..l 1000
                 1@1 #5 m..z 900; 2@1 #6 n..z 900",
                "Move 0>2 0@4#4 0@3#3 0@2#2 0@1#1 new +a,d,g,j",
                4000,
            ),
            case(
                "no further than the level above an overlap",
                "0@1 #1 a..c 1000; 0@2 #2 d..f 1000; 0@3 #3 g..i 1000; 0@4 #4 j..l 1000
                 1@1 #5 m..z 900; 2@1 #6 c..z 900; 3@1 #7 m..z 900",
                "Move 0>1 0@4#4 0@3#3 0@2#2 0@1#1 new +a,d,g,j",
                4000,
            ),
            case(
                "two runs share their border key",
                "0@1 #1 a..d 1000; 0@2 #2 d..f 1000; 0@3 #3 g..i 1000; 0@4 #4 j..l 1000",
                "Push 0>1 0@4#4 0@3#3 0@2#2 0@1#1 new split 1000",
                4000,
            ),
            case(
                "the border is the end of a tombstone and of the slice that shows it",
                "0@1 #1 a..d. 1000 [..,d); 0@2 #2 d..f 1000; 0@3 #3 g..i 1000; 0@4 #4 j..l 1000",
                "Move 0>1 0@4#4 0@3#3 0@2#2 0@1#1[..,d) new +a,d,g,j",
                4000,
            ),
            case(
                "a tombstone overlaps the level below",
                "0@1 #1 a..n. 1000; 0@2 #2 o..p 1000; 0@3 #3 q..r 1000; 0@4 #4 s..t 1000
                 1@1 #5 m..m 900",
                "Push 0>1 0@4#4 0@3#3 0@2#2 0@1#1 new split 1000",
                4000,
            ),
        ],
    );
}

#[test]
fn inner_guards_are_pushed_at_run_or_byte_limit() {
    check(
        Policy::Fluid,
        &[
            case(
                "one run below the limit",
                "1@1 #1 a..z 900; 1@2 #2 a..z 900; 2@1 #3 a..z 900",
                "nothing",
                0,
            ),
            case(
                "at the limit, into the last level",
                "1@1 #1 a..z 900; 1@2 #2 a..z 900; 1@3 #3 a..z 900
                 2|m; 2@1 #4 a..l 900; 2@1 #5 m..z 900",
                "Push 1>2 1@3#3 1@2#2 1@1#1 new cut m split 1000",
                0,
            ),
            case(
                "beyond the limit, which is debt",
                "1@1 #1 a..z 900; 1@2 #2 a..z 900; 1@3 #3 a..z 900; 1@4 #5 a..z 900
                 2@1 #4 a..z 900",
                "Push 1>2 1@4#5 1@3#3 1@2#2 1@1#1 new split 1000",
                3600,
            ),
            case(
                "over the capacity: the guard with the fewest bytes below it",
                "1|m; 1@1 #1 a..l 8000; 1@1 #2 m..z 8001
                 2|m; 2@1 #3 a..z 900; 2@2 #4 n..z 900",
                "Push 1>2 1@1#1[..,m) new split 1000 in [..,m)",
                1,
            ),
            case(
                "the last level is full: it becomes an inner one, guard by guard",
                "1|m; 1@1 #1 a..l 8000; 1@1 #2 m..z 8001",
                "Move 1>2 1@1#1[..,m) new +a in [..,m)",
                1,
            ),
            case(
                "the last level just full",
                "1|m; 1@1 #1 a..l 8000; 1@1 #2 m..z 8000",
                "nothing",
                0,
            ),
        ],
    );
}

#[test]
fn last_level_guards_are_merged_at_base_rewrite_ratio_or_run_limit() {
    check(
        Policy::Fluid,
        &[
            case(
                "the small runs are smaller than the base",
                "1@1 #1 a..z 2000; 1@2 #2 a..z 1000; 1@3 #3 a..z 999",
                "nothing",
                0,
            ),
            case(
                "the small runs are as large as the base: a merge of all runs, and the guard may \
                 split",
                "1|m; 1@1 #1 m..z 2000; 1@2 #2 m..z 1000; 1@3 #3 m..z 1000",
                "MergeWithin 1>1 1@3#3[m,..) 1@2#2[m,..) 1@1#1[m,..) as 3 split 3000 in [m,..)",
                0,
            ),
            case(
                "small runs beyond the limit: all but the base",
                "1@1 #1 a..z 9000; 1@2 #2 a..z 100; 1@3 #3 a..z 100; 1@4 #4 a..z 100",
                "MergeWithin 1>1 1@4#4 1@3#3 1@2#2 as 4",
                9300,
            ),
            case(
                "a guard of one run is not merged, whatever its size",
                "1|m; 1@1 #1 a..l 900; 1@1 #2 m..z 9000",
                "nothing",
                0,
            ),
            busy_case(
                "the first guard that needs a merge is busy",
                "1|m; 1@1 #1 a..l 900; 1@2 #2 a..l 900; 1@1 #3 m..z 900; 1@2 #4 m..z 900",
                &[(1, 2)],
                "MergeWithin 1>1 1@2#4[m,..) 1@1#3[m,..) as 2 split 3000 in [m,..)",
                0,
            ),
        ],
    );
}
