//! The tuning from its first run to its outcome: search, halving, final rounds, explanation.
//!
//! The order of runs and all decisions follow from the seed and the measured values. A resumed
//! tuning therefore repeats the same steps, and continues where the trail ends.

use super::constraint::Constraint;
use super::curve::curves;
use super::decide::{CONFIDENCE, GAIN_MIN, Rounds, best, judge, score, survivors};
use super::explain::explain;
use super::knob::Setting;
use super::measures::RunMeasures;
use super::outcome::{Beside, Judged, Outcome, Trial};
use super::schedule::{Cost, FINALISTS, Schedule};
use super::search::Search;
use super::tuner::Tuner;
use crate::error::{LabError, Result};

/// Shares of the workloads' size in the first runs, which estimate the time of a run.
const PROBE_SHARES: [f64; 2] = [0.05, 0.25];
/// Number of trials without a better set after which the search ends.
const PATIENCE: usize = 8;
/// Score of a set whose run failed, as the logarithm of a ratio.
const FAILED: f64 = -1.0;

/// What the search knows about a set: logarithms of ratios to the default set.
#[derive(Clone, Debug, Default)]
struct Known {
    setting: Setting,
    combined: f64,
    workloads: Vec<f64>,
    error: Option<String>,
}

impl Known {
    fn score(&self) -> f64 {
        if self.error.is_some() { FAILED } else { score(self.combined, &self.workloads) }
    }
}

impl Tuner<'_> {
    /// Runs the whole tuning. The circumstances (description, machine, names) of the outcome are
    /// empty; the caller fills them in.
    ///
    /// # Errors
    /// There is no knob, or the default set fails. The runs so far are in the trail.
    pub fn run(&mut self) -> Result<Outcome> {
        if self.table.knobs.is_empty() {
            return Err(LabError::usage(format!("{} has no knobs to tune", self.table.engine)));
        }
        let schedule = self.probe()?;
        let (trials, mut known) = self.search(&schedule)?;
        let search_seconds = self.seconds;
        let cut = self.cut_search(&schedule, trials.len());
        let finalists = self.halve(&schedule, &mut known)?;
        let finalists = self.with_larger_memtable(finalists);
        let compared = finalists.len();
        let rounds = self.finals(&schedule, finalists)?;
        let judged: Vec<Judged> =
            (1..=compared).map(|set| judge(&rounds, set, &self.plan.terms, compared)).collect();
        let chosen = best(&judged);
        let beside = self.beside(&rounds, compared, chosen);
        let explained = match chosen {
            Some(index) => explain(self, &schedule, &judged[index])?,
            None => Default::default(),
        };
        let recommended =
            chosen.map(|index| explained.reduced.clone().unwrap_or(judged[index].clone()));
        let verdict = self.verdict(recommended.as_ref(), &judged, &trials);
        let knobs = self.table.knobs.iter();
        let setting = recommended.as_ref().map(|own| own.setting.clone()).unwrap_or_default();
        Ok(Outcome {
            engine: self.table.engine.clone(),
            description: String::new(),
            machine: Default::default(),
            objective: self.plan.terms.objective,
            combine: self.plan.terms.combine,
            constraints: self.plan.terms.constraints.iter().map(ToString::to_string).collect(),
            workloads: Vec::new(),
            defaults: knobs.clone().map(|k| (k.name.clone(), k.default.clone())).collect(),
            levels: knobs.map(|k| (k.name.clone(), k.levels.clone())).collect(),
            memory_budget_bytes: self.table.memory_budget_bytes,
            seed: self.plan.seed,
            shares: (schedule.search_share, schedule.final_share),
            curves: curves(self.table, &trials),
            trials,
            finalists: judged,
            beside,
            recommended,
            properties: self.table.properties(&setting),
            fixed: self.table.fixed.clone(),
            verdict,
            effects: explained.effects,
            interaction: explained.interaction,
            search_seconds,
            runs: self.runs,
            seconds: self.seconds,
            interrupted: self.interrupted,
            warnings: cut.into_iter().chain(self.constraint_warnings(&rounds)).collect(),
        })
    }

    /// Runs the default set at two small sizes to plan the budget.
    fn probe(&mut self) -> Result<Schedule> {
        let default = [Setting::default()];
        let mut points = Vec::new();
        for (round, share) in PROBE_SHARES.into_iter().enumerate() {
            let Some(runs) = self.round(("probe", round), &default, share) else { break };
            self.default_ran(&runs[0])?;
            points.push((share, runs[0].seconds));
        }
        let cost = match points[..] {
            [short, long] => Cost::of(short, long),
            _ => Cost::default(),
        };
        let (trials, beside) = (self.plan.trials, self.plan.beside.len());
        Ok(Schedule::plan(cost, self.plan.budget_seconds, trials, beside))
    }

    /// Tries sets in pairs with the best set so far. Returns the trials, and what is known of each
    /// set, the default set first.
    fn search(&mut self, schedule: &Schedule) -> Result<(Vec<Trial>, Vec<Known>)> {
        let mut search = match self.plan.sweep {
            true => Search::sweep(self.table, self.plan.trials, self.plan.seed),
            false => Search::new(self.table, self.plan.write_share, self.plan.seed),
        };
        let mut incumbent = Known::default();
        let (mut all, mut trials) = (vec![Known::default()], Vec::new());
        let mut since_better = 0;
        while trials.len() < self.plan.trials && self.seconds < schedule.search_end {
            if since_better >= PATIENCE && !search.has_planned(&incumbent.setting) {
                break;
            }
            let Some(setting) = search.next(&incumbent.setting) else { break };
            let Some(known) = self.trial(trials.len(), &incumbent, setting, schedule)? else {
                break;
            };
            search.tell(&known.setting, known.score());
            since_better += 1;
            if known.score() > incumbent.score() + GAIN_MIN.ln() {
                incumbent = known.clone();
                since_better = 0;
            }
            trials.push(Trial {
                setting: known.setting.clone(),
                ratio: known.error.is_none().then(|| known.combined.exp()),
                workloads: known.workloads.iter().map(|log| log.exp()).collect(),
                best_ratio: incumbent.combined.exp(),
                error: known.error.clone(),
            });
            all.push(known);
        }
        Ok((trials, all))
    }

    /// Measures one set against the best so far: one pair of runs, and a second pair if the first
    /// shows a gain. Returns `None` if the tuning shall end.
    fn trial(
        &mut self,
        number: usize,
        incumbent: &Known,
        setting: Setting,
        schedule: &Schedule,
    ) -> Result<Option<Known>> {
        let mut rounds = Rounds::new(vec![incumbent.setting.clone(), setting.clone()]);
        let stage = format!("trial {}", number + 1);
        let terms = &self.plan.terms;
        for round in 0..2 {
            // The number of the trial makes the first set of a pair alternate between trials too.
            let place = (stage.as_str(), round + number % 2);
            let Some(runs) = self.round(place, &rounds.sets, schedule.search_share) else {
                return Ok(None);
            };
            if incumbent.setting.is_default() {
                self.default_ran(&runs[0])?;
            }
            rounds.push(runs);
            let gain = rounds.gain(terms, 1, 0, CONFIDENCE);
            if gain.is_none_or(|gain| gain.ratio < GAIN_MIN) {
                break;
            }
        }
        let runs: Vec<&RunMeasures> = rounds.runs[1].iter().collect();
        let broken = terms.constraints.iter().find_map(|own| own.broken_by(&runs));
        let error = rounds.failure(1).map(String::from).or(broken);
        let Some(gain) = rounds.gain(terms, 1, 0, CONFIDENCE) else {
            let error = error.or_else(|| Some("the objective was not measured".into()));
            return Ok(Some(Known { setting, combined: FAILED, workloads: Vec::new(), error }));
        };
        let gains = rounds.workload_gains(terms, 1, 0);
        let before = incumbent.workloads.iter().copied().chain(std::iter::repeat(0.0));
        let workloads: Vec<f64> =
            gains.iter().zip(before).map(|(own, before)| own.gain.ratio.ln() + before).collect();
        let combined = incumbent.combined + gain.ratio.ln();
        Ok(Some(Known { setting, combined, workloads, error }))
    }

    /// Measures the best third of the sets in longer runs, and returns the finalists.
    fn halve(&mut self, schedule: &Schedule, known: &mut [Known]) -> Result<Vec<Setting>> {
        let scores: Vec<f64> = known.iter().map(Known::score).collect();
        let better = |index: &usize| *index > 0 && known[*index].error.is_none();
        let keep = (known.len() / 3).max(FINALISTS);
        let chosen: Vec<usize> =
            survivors(&scores, known.len()).into_iter().filter(better).take(keep).collect();
        if chosen.len() <= FINALISTS {
            return Ok(chosen.into_iter().map(|index| known[index].setting.clone()).collect());
        }
        let mut sets = vec![Setting::default()];
        sets.extend(chosen.iter().map(|&index| known[index].setting.clone()));
        let mut rounds = Rounds::new(sets);
        for round in 0..2 {
            if round > 0 && self.seconds >= schedule.halving_end {
                break;
            }
            let sets = rounds.sets.clone();
            let Some(runs) = self.round(("halving", round), &sets, schedule.halving_share) else {
                break;
            };
            self.default_ran(&runs[0])?;
            rounds.push(runs);
        }
        let terms = &self.plan.terms;
        let scores: Vec<f64> = (1..rounds.sets.len())
            .map(|set| {
                let logs: Vec<f64> = rounds
                    .workload_gains(terms, set, 0)
                    .iter()
                    .map(|own| own.gain.ratio.ln())
                    .collect();
                let gain = rounds.gain(terms, set, 0, CONFIDENCE);
                gain.map_or(scores[chosen[set - 1]], |gain| score(gain.ratio.ln(), &logs))
            })
            .collect();
        let kept = survivors(&scores, FINALISTS).into_iter();
        Ok(kept.map(|index| rounds.sets[index + 1].clone()).collect())
    }

    /// Adds the next larger memtable of the best finalist. The runs of search and halving are short,
    /// and may end before a larger memtable is full.
    fn with_larger_memtable(&self, mut finalists: Vec<Setting>) -> Vec<Setting> {
        let larger = finalists.first().and_then(|best| self.table.with_larger_memtable(best));
        if let Some(larger) = larger.filter(|set| !self.plan.sweep && !finalists.contains(set)) {
            finalists.push(larger);
        }
        finalists
    }

    /// Returns a warning if the time for the search ended before its trials.
    fn cut_search(&self, schedule: &Schedule, tried: usize) -> Option<String> {
        let is_cut = self.plan.trials > tried && self.seconds >= schedule.search_end;
        is_cut.then(|| {
            format!(
                "{tried} of {} sets were tried: a third of the budget is for the search, and it was \
                 used up. A larger budget tries more sets",
                self.plan.trials
            )
        })
    }

    /// Returns warnings about constraints that the default set breaks, or that were not measured.
    fn constraint_warnings(&self, rounds: &Rounds) -> Vec<String> {
        let runs: Vec<&RunMeasures> = rounds.runs[0].iter().collect();
        let of = |constraint: &Constraint| {
            let broken = constraint.broken_by(&runs);
            let broken =
                broken.map(|why| format!("the default set does not keep a constraint: {why}"));
            broken.into_iter().chain(constraint.unmeasured_in(&runs))
        };
        self.plan.terms.constraints.iter().flat_map(of).collect()
    }

    /// Judges the named sets, which follow the `finalists` in the rounds.
    fn beside(&self, rounds: &Rounds, finalists: usize, chosen: Option<usize>) -> Vec<Beside> {
        let terms = &self.plan.terms;
        let of = |(index, (name, _)): (usize, &(String, Setting))| {
            let set = finalists + 1 + index;
            let best = chosen.map(|chosen| chosen + 1);
            Some(Beside {
                name: name.clone(),
                judged: (set < rounds.sets.len()).then(|| judge(rounds, set, terms, 1))?,
                best_over_it: best.and_then(|best| rounds.gain(terms, best, set, CONFIDENCE)),
                best_workloads: best
                    .map_or(Vec::new(), |best| rounds.workload_gains(terms, best, set)),
            })
        };
        self.plan.beside.iter().enumerate().filter_map(of).collect()
    }

    /// Measures the finalists, the named sets and the default set in the same rounds, until the
    /// intervals are narrow.
    fn finals(&mut self, schedule: &Schedule, finalists: Vec<Setting>) -> Result<Rounds> {
        let mut sets = vec![Setting::default()];
        sets.extend(finalists);
        sets.extend(self.plan.beside.iter().map(|(_, setting)| setting.clone()));
        let mut rounds = Rounds::new(sets);
        if rounds.sets.len() < 2 {
            return Ok(rounds);
        }
        self.rounds("final", &mut rounds, schedule.final_share, schedule.final_end)?;
        Ok(rounds)
    }

    /// Returns the result as a sentence.
    fn verdict(&self, recommended: Option<&Judged>, judged: &[Judged], trials: &[Trial]) -> String {
        let cut = if self.interrupted { "The tuning was interrupted. " } else { "" };
        let objective = self.plan.terms.objective.name();
        if let Some((judged, gain)) = recommended.and_then(|own| Some((own, own.gain?))) {
            return format!(
                "{cut}{} changes {objective} by {gain} against the default set.",
                judged.setting
            );
        }
        if self.plan.trials == 0 {
            return format!("{cut}The named sets were measured against the default set.");
        }
        let all_broken = !trials.is_empty() && trials.iter().all(|trial| trial.error.is_some());
        if all_broken && let Some(why) = trials.iter().find_map(|trial| trial.error.as_ref()) {
            return format!("{cut}The default set stands: no set could be used ({why}).");
        }
        let close = judged.iter().max_by(|a, b| {
            let ratio = |own: &Judged| own.gain.map_or(0.0, |gain| gain.ratio);
            ratio(a).total_cmp(&ratio(b))
        });
        match close.and_then(|own| Some((own, own.rejected.as_ref()?))) {
            Some((own, why)) => format!(
                "{cut}The default set stands. The best other set (of {}) was {}, and {why}.",
                trials.len(),
                own.setting
            ),
            None => format!(
                "{cut}The default set stands: none of the other sets ({}) was measured to its end.",
                trials.len()
            ),
        }
    }
}
