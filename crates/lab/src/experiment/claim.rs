//! Claims of a document: which two figures a claim divides, and which quotients make it true.
//!
//! Claims and titles do not influence a measurement. A report therefore shows those of the experiment
//! as it is now, not those of the record's text, if the series of the record have their places.

use std::ops::Range;

use toml::{Spanned, Value};

use super::check::{Experiment, axes, known_phase, phase_labels};
use super::file::{ClaimFile, ExperimentFile, PlaceFile, SeriesFile};
use super::find;
use super::plan::text_of;
use super::reported::{Reported, figures};
use crate::stats::unit::Unit;

/// The quotients for which a claim is true: from the first to the second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Expected(pub f64, pub f64);

impl Expected {
    /// Parses `above 1.2`, `below 0.8` or `0.95 to 1.05`.
    ///
    /// # Errors
    /// A sentence about any other text.
    pub fn parse(text: &str) -> Result<Expected, String> {
        let number = |text: &str| text.trim().parse::<f64>().ok().filter(|n| *n > 0.0);
        let found = if let Some(low) = text.strip_prefix("above ") {
            number(low).map(|low| Expected(low, f64::INFINITY))
        } else if let Some(high) = text.strip_prefix("below ") {
            number(high).map(|high| Expected(0.0, high))
        } else {
            let ends = text.split_once(" to ");
            let ends = ends.and_then(|(low, high)| number(low).zip(number(high)));
            ends.filter(|(low, high)| low < high).map(|(low, high)| Expected(low, high))
        };
        found.ok_or_else(|| {
            format!("{text:?} is not an expectation; write \"above 1.2\", \"below 0.8\" or \"0.95 to 1.05\"")
        })
    }
}

/// Returns the series of a place: its own, or the claim's.
pub fn series_of<'a>(
    file: &'a ExperimentFile,
    claim: &'a ClaimFile,
    place: &PlaceFile,
) -> Result<&'a SeriesFile, String> {
    let name = place.get("series").map_or_else(|| claim.series.get_ref().clone(), text_of);
    let mut all = file.series.iter().map(|series| series.get_ref());
    all.find(|series| series.name == name).ok_or_else(|| format!("there is no series {name:?}"))
}

/// Returns the quotient of the document's two figures; `None` if it has none of them.
pub fn reported(file: &ExperimentFile, claim: &ClaimFile, unit: Unit) -> Option<f64> {
    let value = |place: &PlaceFile| {
        let by = place.get("by").map(text_of).or_else(|| claim.by.clone())?;
        let series = series_of(file, claim, place).ok()?;
        let here = |figure: &Reported| {
            figure.by == by && figure.unit == unit && {
                let phase = place.get("phase").map(text_of);
                let phase_is = figure.phase.is_none() || phase.is_none() || figure.phase == phase;
                phase_is
                    && params(place).all(|(name, at)| {
                        figure.params.get(name).is_none_or(|own| *own == text_of(at))
                    })
            }
        };
        figures(series).into_iter().find(here).map(|figure| figure.value)
    };
    let to = value(claim.to.get_ref()).filter(|to| *to > 0.0)?;
    Some(value(claim.of.get_ref())? / to)
}

/// Returns the names and values of a place that are parameters of a series.
pub fn params(place: &PlaceFile) -> impl Iterator<Item = (&str, &Value)> {
    let fixed = ["series", "by", "phase", "engine"];
    let own = place.iter().filter(move |(name, _)| !fixed.contains(&name.as_str()));
    own.map(|(name, value)| (name.as_str(), value))
}

/// Returns the mistakes of a claim with their places in the text.
pub fn mistakes(file: &ExperimentFile, claim: &Spanned<ClaimFile>) -> Vec<(Range<usize>, String)> {
    let (span, claim) = (claim.span(), claim.get_ref());
    let mut found = Vec::new();
    let names = || file.series.iter().map(|series| series.get_ref().name.as_str());
    if !names().any(|name| name == claim.series.get_ref()) {
        let known = names().collect::<Vec<_>>().join(", ");
        let name = claim.series.get_ref();
        let message = format!("series: there is no {name:?}; the series are {known}");
        return vec![(claim.series.span(), message)];
    }
    for (side, place) in [("of", &claim.of), ("to", &claim.to)] {
        if let Err(why) = check_place(file, claim, place.get_ref()) {
            found.push((place.span(), format!("{side}: {why}")));
        }
    }
    if let Err(why) = Expected::parse(claim.expect.get_ref()) {
        found.push((claim.expect.span(), why));
    }
    if let Some(unit) = &claim.unit
        && Unit::parse(unit.get_ref()).is_none()
    {
        found.push((unit.span(), format!("unknown unit {:?}", unit.get_ref())));
    } else if unit_of(file, claim).parts().len() > 1 {
        let name = unit_of(file, claim).name();
        let message = format!("{name:?} is several units side by side; name one of them as unit");
        found.push((span.clone(), message));
    }
    let by = |place: &Spanned<PlaceFile>| place.get_ref().contains_key("by");
    let asks = claim.by.is_some() || (by(&claim.of) && by(&claim.to));
    if found.is_empty() && asks && reported(file, claim, unit_of(file, claim)).is_none() {
        let by = claim.by.as_deref().unwrap_or("the stores named");
        found.push((span, format!("by: the series report no figure of {by} for these places")));
    }
    found
}

/// Returns the unit of a claim's figures.
pub fn unit_of(file: &ExperimentFile, claim: &ClaimFile) -> Unit {
    let own = claim.unit.as_ref().and_then(|unit| Unit::parse(unit.get_ref()));
    let series = || series_of(file, claim, claim.of.get_ref()).ok();
    own.or_else(|| series().map(super::reported::unit_of)).unwrap_or(Unit::MicrosPerOp)
}

/// Checks that a place names one figure of an engine.
fn check_place(file: &ExperimentFile, claim: &ClaimFile, place: &PlaceFile) -> Result<(), String> {
    let series = series_of(file, claim, place)?;
    let labels = phase_labels(series);
    match place.get("phase").map(text_of) {
        Some(phase) => known_phase(&phase, &labels)?,
        None if labels.len() > 1 => return Err("phase is missing".into()),
        _ => {}
    }
    let known = axes(series);
    if let Some((name, _)) = params(place).find(|(name, _)| !known.iter().any(|own| own == name)) {
        return Err(format!("{name:?} is not one of {}", known.join(", ")));
    }
    for (axis, values) in values_of(series) {
        match place.get(&axis).map(text_of) {
            None if values.len() > 1 => return Err(format!("{axis} is missing")),
            Some(value) if !values.contains(&value) => {
                return Err(format!("{axis} is never {value}; it is {}", values.join(", ")));
            }
            _ => {}
        }
    }
    let Some(steps) = &series.steps else { return Ok(()) };
    let size = series.step_size.unwrap_or(1.0);
    let named = |step: u64| (step as f64 * size).to_string();
    match place.get("step").map(text_of) {
        None => Err("step is missing".into()),
        Some(step) if (1..=*steps.get_ref()).any(|own| named(own) == step) => Ok(()),
        Some(step) => {
            let last = named(*steps.get_ref());
            Err(format!("there is no step {step}; the steps are {size}, {} to {last}", 2.0 * size))
        }
    }
}

/// Returns the values of the axes whose values the file lists.
fn values_of(series: &SeriesFile) -> Vec<(String, Vec<String>)> {
    let texts = |numbers: &[u64]| numbers.iter().map(u64::to_string).collect::<Vec<_>>();
    let mut all = vec![
        ("entries".to_string(), texts(&series.entries.get_ref().all())),
        ("threads".to_string(), texts(&series.threads.get_ref().all())),
    ];
    for (name, values) in &series.vary {
        all.push((name.get_ref().clone(), values.get_ref().iter().map(text_of).collect()));
    }
    all
}

/// Replaces title, description and claims of a record's experiment by those of the experiment that
/// has its name now. Claims about series or places that the record's text does not have are left
/// out. Without such an experiment, or if it has no claims, nothing changes.
pub fn adopt(experiment: &mut Experiment) {
    let Ok(now) = find::find(&experiment.name) else { return };
    let Ok(now) = Experiment::of_record(&now.name, &now.text) else { return };
    if now.file.claims.is_empty() {
        return;
    }
    let fits = |claim: &Spanned<ClaimFile>| mistakes(&experiment.file, claim).is_empty();
    let claims = now.file.claims.into_iter().filter(fits).collect();
    experiment.file.title = now.file.title;
    experiment.file.about = now.file.about;
    experiment.file.document = now.file.document;
    experiment.file.claims = claims;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expectations_are_parsed() {
        assert_eq!(Expected::parse("above 1.2"), Ok(Expected(1.2, f64::INFINITY)));
        assert_eq!(Expected::parse("below 0.8"), Ok(Expected(0.0, 0.8)));
        assert_eq!(Expected::parse("0.95 to 1.05"), Ok(Expected(0.95, 1.05)));
        for bad in ["", "above", "above -1", "below zero", "2 to 1", "1.5"] {
            assert!(Expected::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn claims_of_built_in_experiments_have_places() {
        for (name, text) in find::BUILT_IN {
            let experiment = Experiment::of_record(name, text).expect("an experiment");
            for claim in &experiment.file.claims {
                let mistakes = mistakes(&experiment.file, claim);
                assert!(mistakes.is_empty(), "{name}, {}: {mistakes:?}", claim.get_ref().text);
            }
        }
    }
}
