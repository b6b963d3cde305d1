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

impl Schedule {
    /// Plans a budget of `budget_seconds` for `trials` trials, if a run of full size takes about
    /// `full_seconds`.
    pub fn plan(full_seconds: f64, budget_seconds: f64, trials: usize) -> Schedule {
        let full = full_seconds.max(1e-6);
        let final_runs = ((FINALISTS + 1) * ROUNDS_MIN) as f64 + EXPLAINED * ROUNDS_MIN as f64;
        let final_share = (0.5 * budget_seconds / (final_runs * full)).clamp(SHARE_MIN, 1.0);
        let search_runs = 2.5 * trials.max(1) as f64;
        let search_share = (0.25 * budget_seconds / (search_runs * full))
            .min(final_share / 2.0)
            .clamp(SHARE_MIN, 1.0);
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

    #[test]
    fn short_workloads_run_whole_and_long_ones_in_part() {
        let short = Schedule::plan(1.0, 600.0, 15);
        assert_eq!((short.search_share, short.final_share), (0.5, 1.0));
        let long = Schedule::plan(100.0, 600.0, 15);
        assert!(long.final_share < 0.2 && long.search_share <= long.final_share / 2.0, "{long:?}");
        assert!(long.search_share < long.halving_share && long.halving_share < long.final_share);
        let endless = Schedule::plan(f64::INFINITY, 1.0, 0);
        assert_eq!(endless.final_share, SHARE_MIN);
    }

    #[test]
    fn stages_end_in_order_within_the_budget() {
        let plan = Schedule::plan(2.0, 100.0, 15);
        let ends = [plan.search_end, plan.halving_end, plan.final_end, plan.end];
        assert!(ends.windows(2).all(|pair| pair[0] < pair[1]) && plan.end == 100.0);
    }
}
