//! What each knob of the best set brings: the knob is put back alone, in the same rounds as the
//! best set.
//!
//! A knob whose gain is not shown leaves the set, if the set without all such knobs is still
//! accepted and not slower than the best set.

use super::decide::{CONFIDENCE, GAIN_MIN, Rounds, judge};
use super::driver::Tuner;
use super::knob::Setting;
use super::outcome::{Interaction, Judged, KnobEffect};
use super::schedule::Schedule;
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

/// Measures the set without the knobs whose gain is not shown against the default set and the best
/// set, and the joint effect of the two strongest knobs.
fn confirm(
    tuner: &mut Tuner<'_>,
    schedule: &Schedule,
    best: &Judged,
    effects: &[KnobEffect],
) -> Result<(Option<Judged>, Option<Interaction>)> {
    let weak = |effect: &&KnobEffect| effect.gain.is_none_or(|gain| !gain.is_shown());
    let mut setting = best.setting.clone();
    for effect in effects.iter().filter(weak) {
        setting = setting.without(&effect.knob);
    }
    let is_smaller = setting != best.setting && !setting.is_default();
    let pair = match effects {
        [first, second, ..] if effects.len() > 2 => Some([first, second]),
        _ => None,
    };
    let mut sets = vec![Setting::default(), best.setting.clone()];
    if is_smaller {
        sets.push(setting);
    }
    if let Some([first, second]) = pair {
        sets.push(best.setting.without(&first.knob).without(&second.knob));
    }
    if sets.len() < 3 {
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
    let reduced = is_smaller.then(|| judge(&rounds, 2, terms, 1));
    let reduced = reduced.filter(|reduced| {
        let to_best = rounds.gain(terms, 2, 1, CONFIDENCE);
        reduced.rejected.is_none() && to_best.is_some_and(|gain| gain.ratio * GAIN_MIN > 1.0)
    });
    Ok((reduced, interaction))
}
