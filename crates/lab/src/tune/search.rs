//! Sets to try: first start sets from rules about memory, filters and blocks, then single steps from
//! the best set, then the proposals of a tree-structured Parzen estimator (Bergstra et al., NeurIPS
//! 2011; the crate `tpe`).
//!
//! The rules divide the memory by a model, and the best division may be beyond theirs. So the search
//! does not end before the best set's neighbours in memtable, block and filter size were tried.
//!
//! The start sets follow the cost models of Monkey (Dayan et al., SIGMOD 2017) and Endure (Huynh et
//! al., VLDB 2022): the memory budget is divided between memtables and cache by the share of
//! writes, and the filters get about ten bits a key.

use std::collections::BTreeSet;

use rand::SeedableRng;
use rand::rngs::StdRng;
use tpe::density_estimation::DefaultEstimatorBuilder;
use tpe::{TpeOptimizer, TpeOptimizerBuilder};

use super::knob::{Knob, KnobTable, Role, Setting};
use crate::run::config::bytes_of;
use crate::workload::rng::Rng;

/// Share of the trials that the estimator counts as good.
const GOOD_SHARE: f64 = 0.25;
/// Number of proposals that may repeat a tried set before a knob is changed at random.
const REPEATS_MAX: usize = 8;
/// Largest number of knobs that a proposal changes from the best set.
const CHANGES_MAX: usize = 3;

/// The source of sets to try.
pub struct Search<'a> {
    table: &'a KnobTable,
    starts: Vec<Setting>,
    optimizers: Vec<Option<TpeOptimizer<DefaultEstimatorBuilder>>>,
    rng: StdRng,
    own: Rng,
    tried: BTreeSet<Setting>,
    is_sweep: bool,
}

impl<'a> Search<'a> {
    /// Creates a search; `write_share` is the share of writes in the workloads.
    pub fn new(table: &'a KnobTable, write_share: f64, seed: u64) -> Search<'a> {
        let optimizer = |knob: &Knob| {
            let estimator = match knob.ordered {
                true => tpe::parzen_estimator(),
                false => tpe::histogram_estimator(),
            };
            // A range of one level is empty, and such a knob is never changed.
            let range = tpe::range(0.0, knob.levels.len() as f64).ok()?;
            TpeOptimizerBuilder::new().gamma(GOOD_SHARE).build(estimator, range).ok()
        };
        let mut starts = starts(table, write_share);
        starts.reverse();
        Search {
            table,
            starts,
            optimizers: table.knobs.iter().map(optimizer).collect(),
            rng: StdRng::seed_from_u64(seed),
            own: Rng::for_part(seed, 36),
            tried: BTreeSet::from([Setting::default()]),
            is_sweep: false,
        }
    }

    /// Creates a search that returns `count` sets of a Latin hypercube (McKay et al., Technometrics
    /// 1979) and no others: for each knob, its values are spread evenly over the sets, and then
    /// shuffled. Equal sets and the default set are left out.
    pub fn sweep(table: &'a KnobTable, count: usize, seed: u64) -> Search<'a> {
        let mut own = Rng::for_part(seed, 37);
        let mut sets = vec![Setting::default(); count];
        for knob in table.knobs.iter().filter(|knob| !knob.levels.is_empty()) {
            let mut places: Vec<usize> = (0..count).collect();
            for last in (1..count).rev() {
                places.swap(last, own.below(last as u64 + 1) as usize);
            }
            for (setting, place) in sets.iter_mut().zip(places) {
                let level = &knob.levels[place * knob.levels.len() / count];
                *setting = table.with(setting, knob, level);
            }
        }
        let starts = sets.iter().map(|setting| table.fitted(setting)).collect();
        let tried = BTreeSet::from([Setting::default()]);
        let rng = StdRng::seed_from_u64(seed);
        Search { table, starts, optimizers: Vec::new(), rng, own, tried, is_sweep: true }
    }

    /// Returns whether start sets, or steps from the best set, are left.
    pub fn has_planned(&self, best: &Setting) -> bool {
        let is_new = |setting: &Setting| !self.tried.contains(setting);
        self.starts.iter().any(is_new) || self.steps(best).iter().any(is_new)
    }

    /// Returns the sets one step from `best`: a larger and a smaller memtable, then block, then
    /// filter. Each is within the memory budget, which may leave less for the cache.
    fn steps(&self, best: &Setting) -> Vec<Setting> {
        if self.is_sweep {
            return Vec::new();
        }
        let roles: [fn(Role) -> bool; 3] = [
            |role| matches!(role, Role::Memtable(_)),
            |role| role == Role::Block,
            |role| role == Role::Filter,
        ];
        let mut steps = Vec::new();
        for is_wanted in roles {
            for knob in self.table.knobs.iter().filter(|knob| knob.ordered && is_wanted(knob.role))
            {
                let (smaller, larger) = self.table.neighbours(knob, best);
                for level in [larger, smaller].into_iter().flatten() {
                    steps.push(self.table.fitted(&self.table.with(best, knob, level)));
                }
            }
        }
        steps
    }

    /// Returns the next set to try. It is near `best` and differs from all earlier sets. Returns
    /// `None` if no such set is found.
    pub fn next(&mut self, best: &Setting) -> Option<Setting> {
        while let Some(start) = self.starts.pop() {
            if self.tried.insert(start.clone()) {
                return Some(start);
            }
        }
        if self.is_sweep {
            return None;
        }
        for step in self.steps(best) {
            if self.tried.insert(step.clone()) {
                return Some(step);
            }
        }
        for attempt in 0..REPEATS_MAX * 2 {
            let proposed = match attempt < REPEATS_MAX {
                true => self.proposed(best),
                false => self.random(best),
            };
            let fitted = self.table.fitted(&proposed);
            if self.tried.insert(fitted.clone()) {
                return Some(fitted);
            }
        }
        None
    }

    /// Reports the score of a set; more is better.
    pub fn tell(&mut self, setting: &Setting, score: f64) {
        for (knob, optimizer) in self.table.knobs.iter().zip(&mut self.optimizers) {
            let level = self.table.value(knob, setting);
            let place = knob.levels.iter().position(|own| own == level);
            if let (Some(place), Some(optimizer)) = (place, optimizer) {
                // The optimiser minimises. A place is inside the range, and the score is finite.
                let _ = optimizer.tell(place as f64 + 0.5, -score);
            }
        }
    }

    /// Returns the best set with a few knobs at the values that the estimators propose.
    fn proposed(&mut self, best: &Setting) -> Setting {
        let mut setting = best.clone();
        for index in self.some_knobs() {
            let knob = &self.table.knobs[index];
            let Some(optimizer) = &mut self.optimizers[index] else { continue };
            let Ok(place) = optimizer.ask(&mut self.rng);
            let last = knob.levels.len() - 1;
            let level = &knob.levels[(place.max(0.0) as usize).min(last)];
            setting = self.table.with(&setting, knob, level);
        }
        setting
    }

    /// Returns the best set with a few knobs at random values.
    fn random(&mut self, best: &Setting) -> Setting {
        let mut setting = best.clone();
        for index in self.some_knobs() {
            let knob = &self.table.knobs[index];
            if let Some(level) = knob.levels.get(self.own.below(knob.levels.len() as u64) as usize)
            {
                setting = self.table.with(&setting, knob, level);
            }
        }
        setting
    }

    /// Returns the indexes of one to [`CHANGES_MAX`] knobs.
    fn some_knobs(&mut self) -> BTreeSet<usize> {
        let count = self.table.knobs.len() as u64;
        let wanted = 1 + self.own.below(CHANGES_MAX as u64) as usize;
        (0..wanted.min(count as usize)).map(|_| self.own.below(count) as usize).collect()
    }
}

/// Returns the start sets, the most promising first, each within the memory budget.
fn starts(table: &KnobTable, write_share: f64) -> Vec<Setting> {
    let budget = table.memory_budget_bytes.unwrap_or(0);
    // Between a quarter and three quarters of the budget, by the share of writes.
    let memtable_part = 0.25 + 0.5 * write_share.clamp(0.0, 1.0);
    let memtable = (budget as f64 * memtable_part) as u64;
    let memory = |setting: &Setting| {
        let setting = set(table, setting, |role| match role {
            Role::Memtable(count) => Some(memtable / count.max(1)),
            _ => None,
        });
        set(table, &setting, |role| match role {
            Role::Cache => Some(budget - memtable),
            Role::File => Some((memtable / 4).max(2 << 20)),
            _ => None,
        })
    };
    let filters =
        |setting: &Setting| set(table, setting, |role| (role == Role::Filter).then_some(10));
    let blocks = |setting: &Setting, bytes: u64| {
        set(table, setting, |role| (role == Role::Block).then_some(bytes))
    };
    let plain = |setting: &Setting| {
        let knob = table.knobs.iter().find(|knob| knob.role == Role::Compression);
        let none = knob.filter(|knob| knob.levels.iter().any(|level| level == "none"));
        none.map_or(setting.clone(), |knob| table.with(setting, knob, "none"))
    };
    let default = Setting::default();
    let base = filters(&memory(&default));
    let all = [
        base.clone(),
        plain(&base),
        blocks(&base, 16 << 10),
        blocks(&plain(&base), 2 << 10),
        memory(&default),
        filters(&default),
        plain(&default),
    ];
    let mut starts: Vec<Setting> = Vec::new();
    for start in all {
        let start = table.fitted(&start);
        if !start.is_default() && !starts.contains(&start) {
            starts.push(start);
        }
    }
    starts
}

/// Sets each knob with a wanted number to its largest level that is not above the number.
fn set(table: &KnobTable, setting: &Setting, wanted: impl Fn(Role) -> Option<u64>) -> Setting {
    let mut setting = setting.clone();
    for knob in &table.knobs {
        let Some(wanted) = wanted(knob.role) else { continue };
        let fits = |level: &&String| bytes_of(level).is_some_and(|bytes| bytes <= wanted);
        if let Some(level) = knob.levels.iter().rev().find(fits) {
            setting = table.with(&setting, knob, level);
        }
    }
    setting
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tune::knob::tests::table;

    #[test]
    fn start_sets_fit_the_budget_and_follow_the_share_of_writes() {
        let table = table();
        let memory = |share: f64, name: &str| -> u64 {
            let first = starts(&table, share).swap_remove(0);
            first.0[name].parse().expect("a size")
        };
        assert!(memory(1.0, "buffer") > memory(0.0, "buffer"));
        assert!(memory(0.0, "cache") > memory(1.0, "cache"));
        for start in starts(&table, 0.5) {
            assert!(table.memory_bytes(&start) <= 64 << 20, "{start}");
        }
    }

    #[test]
    fn search_repeats_no_set_and_is_the_same_for_one_seed() {
        let table = table();
        let sets = |seed: u64| {
            let mut search = Search::new(&table, 0.5, seed);
            let mut sets = Vec::new();
            while sets.len() < 40 {
                let Some(set) = search.next(&Setting::default()) else { break };
                search.tell(&set, sets.len() as f64);
                sets.push(set);
            }
            sets
        };
        let first = sets(1);
        assert_eq!(first.len(), 40);
        assert_eq!(first.iter().collect::<BTreeSet<_>>().len(), 40);
        assert_eq!(first, sets(1));
        assert_ne!(first, sets(2));
    }

    #[test]
    fn sweep_spreads_each_knob_evenly_and_stays_in_the_budget() {
        let table = table();
        let mut search = Search::sweep(&table, 40, 7);
        let mut sets = Vec::new();
        while let Some(set) = search.next(&Setting::default()) {
            assert!(table.memory_bytes(&set) <= 64 << 20, "{set}");
            sets.push(set);
        }
        assert!((30..=40).contains(&sets.len()), "{}", sets.len());
        let block = &table.knobs[2];
        for level in &block.levels {
            let count = sets.iter().filter(|set| table.value(block, set) == level).count();
            assert!((3..=7).contains(&count), "{level}: {count} of {}", sets.len());
        }
        let default = Setting::default();
        assert!(!search.has_planned(&default) && search.next(&default).is_none());
    }

    /// An engine whose speed grows with the memtable, whatever else is set, measured with noise. The
    /// start sets do not have the largest memtable.
    #[test]
    fn search_finds_the_best_memtable_beyond_the_start_sets() {
        let table = table();
        let buffer = &table.knobs[0];
        assert!(matches!(buffer.role, Role::Memtable(_)));
        let bytes =
            |setting: &Setting| -> f64 { table.value(buffer, setting).parse().expect("a size") };
        let largest = |sets: &[Setting]| sets.iter().map(bytes).fold(0.0, f64::max);
        // The largest memtable that fits the budget at all.
        let last = buffer.levels.last().expect("a level");
        let most = bytes(&table.fitted(&table.with(&Setting::default(), buffer, last)));
        assert!(largest(&starts(&table, 0.0)) < most);
        for seed in 0..50 {
            let mut noise = Rng::for_part(seed, 1);
            let mut search = Search::new(&table, 0.0, seed);
            let (mut best, mut best_score) = (Setting::default(), 0.0);
            for _ in 0..15 {
                let Some(setting) = search.next(&best) else { break };
                // A step is 20 %, the noise at most 6 %.
                let noise = noise.below(120) as f64 / 1000.0 - 0.06;
                let score = 0.2 * (bytes(&setting) / bytes(&Setting::default())).log2() + noise;
                search.tell(&setting, score);
                if score > best_score + 0.02 {
                    (best, best_score) = (setting, score);
                }
            }
            assert!(bytes(&best) >= most, "seed {seed}: {best}");
            assert!(!search.steps(&best).is_empty());
        }
    }

    #[test]
    fn small_space_is_exhausted_without_an_endless_search() {
        let mut table = table();
        table.only(&["compression".into()]).expect("known");
        let mut search = Search::new(&table, 0.5, 1);
        assert_eq!(search.next(&Setting::default()).expect("one").to_string(), "compression=none");
        assert_eq!(search.next(&Setting::default()), None);
    }
}
