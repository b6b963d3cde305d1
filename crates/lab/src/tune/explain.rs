//! What each knob of the best set brings: the knob is put back alone, in the same rounds as the
//! best set.
//!
//! A knob whose gain is not shown leaves the set, if the set without all such knobs is still
//! accepted and not slower than the best set.

use super::decide::{CONFIDENCE, GAIN_MIN, Rounds, judge};
use super::knob::Setting;
use super::outcome::{Interaction, Judged, KnobEffect};
use super::schedule::Schedule;
use super::tuner::Tuner;
use crate::error::Result;

/// Result of the explanation.
#[derive(Debug, Default)]
pub(super) struct Explained {
    /// Effects of the knobs, strongest first.
    pub effects: Vec<KnobEffect>,
    /// Joint effect of the two strongest knobs.
    pub interaction: Option<Interaction>,
    /// The set without the knobs whose gain is not shown, if it is accepted.
    pub reduced: Option<Judged>,
}

/// Explains an accepted set.
pub(super) fn explain(
    tuner: &mut Tuner<'_>,
    schedule: &Schedule,
    best: &Judged,
) -> Result<Explained> {
    let names: Vec<String> = best.setting.0.keys().cloned().collect();
    let mut sets = vec![best.setting.clone()];
    sets.extend(names.iter().map(|name| best.setting.without(name)));
    let mut rounds = Rounds::new(sets);
    let middle = (schedule.final_end + 2.0 * schedule.end) / 3.0;
    tuner.rounds("explanation", &mut rounds, schedule.final_share, middle)?;
    let mut effects: Vec<KnobEffect> = names
        .iter()
        .enumerate()
        .map(|(index, name)| effect(tuner, &rounds, index + 1, name))
        .collect();
    let strength = |effect: &KnobEffect| effect.gain.map_or(0.0, |gain| gain.ratio.ln());
    effects.sort_by(|a, b| strength(b).total_cmp(&strength(a)));
    let (reduced, interaction) = confirm(tuner, schedule, best, &effects)?;
    if let Some(reduced) = &reduced {
        for effect in &mut effects {
            effect.kept = reduced.setting.0.contains_key(&effect.knob);
        }
    }
    Ok(Explained { effects, interaction, reduced })
}

/// Returns the effect of the knob that set `set` of the rounds has at its default.
fn effect(tuner: &Tuner<'_>, rounds: &Rounds, set: usize, name: &str) -> KnobEffect {
    let terms = &tuner.plan.terms;
    let default = tuner.table.find(name).map(|knob| knob.default.clone());
    KnobEffect {
        knob: name.into(),
        from: default.unwrap_or_default(),
        to: rounds.sets[0].0.get(name).cloned().unwrap_or_default(),
        gain: rounds.gain(terms, 0, set, CONFIDENCE),
        workloads: rounds.workload_gains(terms, 0, set),
        kept: true,
    }
}

/// Returns the sets to confirm in place of `best`, the smallest first: without all knobs whose gain
/// is not shown, and without those of them that change less than half of a worthwhile gain.
fn smaller_sets(best: &Setting, effects: &[KnobEffect]) -> Vec<Setting> {
    let is_weak = |effect: &KnobEffect| effect.gain.is_none_or(|gain| !gain.is_shown());
    let half = (1.0 + GAIN_MIN) / 2.0;
    let is_nothing =
        |effect: &KnobEffect| is_weak(effect) && effect.gain.is_none_or(|g| g.ratio < half);
    let without = |leaves: &dyn Fn(&KnobEffect) -> bool| {
        let left = effects.iter().filter(|effect| leaves(effect));
        left.fold(best.clone(), |set, effect| set.without(&effect.knob))
    };
    let mut sets = vec![without(&is_weak), without(&is_nothing)];
    sets.dedup();
    sets.retain(|set| set != best && !set.is_default());
    sets
}

/// Measures the smaller sets against the default set and the best set, and the joint effect of the
/// two strongest knobs.
fn confirm(
    tuner: &mut Tuner<'_>,
    schedule: &Schedule,
    best: &Judged,
    effects: &[KnobEffect],
) -> Result<(Option<Judged>, Option<Interaction>)> {
    let smaller = smaller_sets(&best.setting, effects);
    let pair = match effects {
        [first, second, ..] if effects.len() > 2 => Some([first, second]),
        _ => None,
    };
    let mut sets = vec![Setting::default(), best.setting.clone()];
    sets.extend(smaller.iter().cloned());
    if let Some([first, second]) = pair {
        sets.push(best.setting.without(&first.knob).without(&second.knob));
    }
    if sets.len() < 3 || tuner.seconds >= schedule.end {
        return Ok((None, None));
    }
    let mut rounds = Rounds::new(sets);
    tuner.rounds("confirmation", &mut rounds, schedule.final_share, schedule.end)?;
    let terms = &tuner.plan.terms;
    let together = rounds.gain(terms, 1, rounds.sets.len() - 1, CONFIDENCE);
    let interaction = pair.zip(together).and_then(|([first, second], together)| {
        Some(Interaction {
            knobs: [first.knob.clone(), second.knob.clone()],
            together,
            product: first.gain?.ratio * second.gain?.ratio,
        })
    });
    let reduced = (2..2 + smaller.len()).find_map(|set| {
        let judged = judge(&rounds, set, terms, smaller.len());
        let to_best = rounds.gain(terms, set, 1, CONFIDENCE)?;
        let is_as_good = to_best.ratio * GAIN_MIN > 1.0;
        (judged.rejected.is_none() && is_as_good).then_some(judged)
    });
    Ok((reduced, interaction))
}
