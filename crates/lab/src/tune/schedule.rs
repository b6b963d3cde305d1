//! Division of the time budget among the stages, and the size of each stage's runs.
//!
//! The stages are those of successive halving (Jamieson and Talwalkar, AISTATS 2016): many sets in
//! short runs, fewer in longer runs, and the best in the longest runs that the budget permits.

use super::decide::ROUNDS_MIN;

/// Number of sets that the final rounds compare with the default set.
pub const FINALISTS: usize = 3;
/// Smallest share of a workload's size.
const SHARE_MIN: f64 = 0.01;
/// Number of sets, as a typical number, that a round of the explanation and a round of the
/// confirmation measure together.
const EXPLAINED: f64 = 12.0;

/// Share of the workloads' size in each stage, and the end of each stage in seconds of runs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Schedule {
    /// Share in the search.
    pub search_share: f64,
    /// Share in the halving round.
    pub halving_share: f64,
    /// Share in the final rounds and in the explanation.
    pub final_share: f64,
    /// End of the search.
    pub search_end: f64,
    /// End of the halving round.
    pub halving_end: f64,
    /// End of the final rounds.
    pub final_end: f64,
    /// End of the explanation.
    pub end: f64,
}

/// Time of a run: a fixed part, and the part that grows with the size.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Cost {
    /// Seconds of any run: opening, closing, waiting until the store is quiet.
    pub fixed_seconds: f64,
    /// Further seconds of a run of full size.
    pub full_seconds: f64,
}

impl Cost {
    /// Returns the cost that fits two runs: the share of the size and the seconds of each.
    pub fn of(short: (f64, f64), long: (f64, f64)) -> Cost {
        let full_seconds = ((long.1 - short.1) / (long.0 - short.0)).max(0.0);
        Cost { fixed_seconds: (short.1 - short.0 * full_seconds).max(0.0), full_seconds }
    }

    /// Returns the share of the size at which `runs` runs take `seconds`, but at least the share at
    /// which half of a run's time depends on the size. A shorter run saves little time.
    fn share(&self, seconds: f64, runs: f64) -> f64 {
        let full_seconds = self.full_seconds.max(1e-9);
        let share = (seconds / runs - self.fixed_seconds) / full_seconds;
        let share = share.max(self.fixed_seconds / full_seconds);
        if share.is_finite() { share.clamp(SHARE_MIN, 1.0) } else { SHARE_MIN }
    }
}

impl Schedule {
    /// Plans a budget of `budget_seconds` for `trials` trials of this cost, and `beside` sets in the
    /// final rounds. Without trials these rounds get the whole budget.
    pub fn plan(cost: Cost, budget_seconds: f64, trials: usize, beside: usize) -> Schedule {
        if trials == 0 {
            let runs = ((beside + 1) * ROUNDS_MIN) as f64;
            let final_share = cost.share(0.8 * budget_seconds, runs);
            let all = (final_share, budget_seconds);
            return Schedule {
                search_share: all.0,
                halving_share: all.0,
                final_share,
                search_end: all.1,
                halving_end: all.1,
                final_end: all.1,
                end: all.1,
            };
        }
        // The default set, and the best finalist with a larger memtable.
        let finalists = FINALISTS + 2 + beside;
        let final_runs = (finalists * ROUNDS_MIN) as f64 + EXPLAINED * ROUNDS_MIN as f64;
        let final_share = cost.share(0.5 * budget_seconds, final_runs);
        let search_runs = 2.5 * trials.max(1) as f64;
        let search_share = cost.share(0.25 * budget_seconds, search_runs);
        let search_share = search_share.min(final_share / 2.0).max(SHARE_MIN);
        Schedule {
            search_share,
            halving_share: (search_share * final_share).sqrt(),
            final_share,
            search_end: 0.33 * budget_seconds,
            halving_end: 0.42 * budget_seconds,
            final_end: 0.62 * budget_seconds,
            end: budget_seconds,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cost(full_seconds: f64) -> Cost {
        Cost { fixed_seconds: 0.5, full_seconds }
    }

    #[test]
    fn fixed_part_of_a_run_is_not_scaled() {
        let found = Cost::of((0.05, 0.6), (0.25, 1.0));
        assert!((found.full_seconds - 2.0).abs() < 1e-9, "{found:?}");
        assert!((found.fixed_seconds - 0.5).abs() < 1e-9, "{found:?}");
        let faster = Cost::of((0.05, 0.6), (0.25, 0.5));
        assert_eq!(faster, Cost { fixed_seconds: 0.6, full_seconds: 0.0 });
    }

    #[test]
    fn short_workloads_run_whole_and_long_ones_in_part() {
        let short = Schedule::plan(cost(1.0), 600.0, 15, 0);
        assert_eq!((short.search_share, short.final_share), (0.5, 1.0));
        let long = Schedule::plan(cost(100.0), 600.0, 15, 0);
        assert!(long.final_share < 0.2 && long.search_share <= long.final_share / 2.0, "{long:?}");
        assert!(long.search_share < long.halving_share && long.halving_share < long.final_share);
        let endless = Schedule::plan(cost(f64::INFINITY), 1.0, 1, 0);
        assert_eq!(endless.final_share, SHARE_MIN);
        assert_eq!(Schedule::plan(Cost::default(), 600.0, 15, 0).final_share, 1.0);
        assert_eq!(Schedule::plan(cost(0.5), 1.0, 15, 0).final_share, 1.0);
        assert_eq!(Schedule::plan(cost(5.0), 1.0, 15, 0).final_share, 0.1);
    }

    #[test]
    fn named_sets_alone_get_the_whole_budget() {
        let plan = Schedule::plan(cost(20.0), 600.0, 0, 2);
        assert_eq!((plan.final_share, plan.final_end), (1.0, 600.0));
        let with_search = Schedule::plan(cost(20.0), 600.0, 15, 2);
        assert!(with_search.final_share < Schedule::plan(cost(20.0), 600.0, 15, 0).final_share);
    }

    #[test]
    fn stages_end_in_order_within_the_budget() {
        let plan = Schedule::plan(cost(2.0), 100.0, 15, 0);
        let ends = [plan.search_end, plan.halving_end, plan.final_end, plan.end];
        assert!(ends.windows(2).all(|pair| pair[0] < pair[1]) && plan.end == 100.0);
    }
}
