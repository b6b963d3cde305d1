//! The claims of the document beside the measured figures: confirmed, refuted, or not shown.
//!
//! A claim divides two medians. It is confirmed if the whole 95 % interval of the quotient is where
//! the claim expects it, refuted if no part of the interval is there, and otherwise not shown. Fewer
//! than three rounds of either figure show nothing.
//!
//! Figures of two series are compared only if both ran at the same share of the document's sizes.

use std::fmt::Write as _;
use std::io::{self, Write};

use super::grid::{Figure, view_in};
use super::html::escape;
use super::lab_text::{Form, number};
use super::table::interval_text;
use crate::experiment::check::Experiment;
use crate::experiment::claim::{Expected, params, reported, series_of, unit_of};
use crate::experiment::file::{ClaimFile, PlaceFile};
use crate::experiment::plan::text_of;
use crate::record::lab::LabRecord;
use crate::stats::compare::{Ratio, ratio};

/// Minimum number of rounds of a figure for an interval.
const ROUNDS_MIN: usize = 3;

/// Result of a claim's test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The whole interval is where the claim expects it.
    Confirmed,
    /// No part of the interval is where the claim expects it.
    Refuted,
    /// A part of the interval is there, or there is no interval.
    NotShown,
}

impl Verdict {
    /// Returns the verdict of a quotient.
    pub fn of(ratio: &Ratio, Expected(low, high): Expected) -> Verdict {
        match ratio.interval {
            Some((least, most)) if least > low && most < high => Verdict::Confirmed,
            Some((least, most)) if most <= low || least >= high => Verdict::Refuted,
            _ => Verdict::NotShown,
        }
    }

    /// Returns the verdict in words.
    pub fn text(self) -> &'static str {
        match self {
            Verdict::Confirmed => "confirmed",
            Verdict::Refuted => "refuted",
            Verdict::NotShown => "not shown",
        }
    }
}

/// A claim tested on one engine.
#[derive(Clone, Debug)]
pub struct Test {
    /// Name of the engine, or both names if the claim compares two.
    pub engine: String,
    /// Medians of both figures.
    pub figures: (f64, f64),
    /// Their quotient.
    pub ratio: Ratio,
    /// Result.
    pub verdict: Verdict,
}

/// A claim with its tests.
#[derive(Clone, Debug)]
pub struct Tested<'a> {
    /// The claim.
    pub claim: &'a ClaimFile,
    /// Name of the unit of its figures.
    pub unit: &'static str,
    /// The document's own quotient.
    pub reported: Option<f64>,
    /// One test per engine; empty if the record has none of the figures.
    pub tests: Vec<Test>,
}

/// Tests every claim of the experiment on the record.
pub fn tested<'a>(experiment: &'a Experiment, record: &LabRecord) -> Vec<Tested<'a>> {
    let file = &experiment.file;
    let test = |claim: &'a ClaimFile| {
        let unit = unit_of(file, claim);
        let side = |place: &PlaceFile| -> Vec<Figure> {
            let Ok(series) = series_of(file, claim, place) else { return Vec::new() };
            let figures = view_in(experiment, series, record, unit).figures;
            let here = |figure: &Figure| !figure.reported && is_at(figure, place);
            figures.into_iter().filter(here).collect()
        };
        let (mut of, to) = (side(claim.of.get_ref()), side(claim.to.get_ref()));
        let share = |place: &PlaceFile| share(experiment, record, claim, place);
        if share(claim.of.get_ref()) != share(claim.to.get_ref()) {
            of.clear();
        }
        let expected = Expected::parse(claim.expect.get_ref());
        let mut tests = Vec::new();
        for above in &of {
            let named = |place: &PlaceFile| place.get("engine").map(text_of);
            let other = named(claim.to.get_ref()).unwrap_or_else(|| above.who.clone());
            let below = to.iter().find(|figure| figure.who == other);
            let others: &[f64] = below.map_or(&[], |below| &below.samples);
            let mut own = ratio(&above.samples, others);
            if above.samples.len().min(others.len()) < ROUNDS_MIN {
                own = own.map(|own| Ratio { interval: None, ..own });
            }
            let asked = claim.engines.as_ref().is_none_or(|engines| {
                engines.get_ref().iter().any(|engine| *engine.get_ref() == above.who)
            });
            let (Some(ratio), Ok(expected), true) = (own, &expected, asked) else { continue };
            let engine = match above.who == other {
                true => other,
                false => format!("{} / {other}", above.who),
            };
            let medians = (above.value, below.and_then(|below| below.value));
            let figures = (medians.0.unwrap_or(f64::NAN), medians.1.unwrap_or(f64::NAN));
            tests.push(Test { engine, figures, ratio, verdict: Verdict::of(&ratio, *expected) });
        }
        Tested { claim, unit: unit.name(), reported: reported(file, claim, unit), tests }
    };
    file.claims.iter().map(|claim| test(claim.get_ref())).collect()
}

/// Returns the share of the document's sizes at which the series of a place ran.
fn share(
    experiment: &Experiment,
    record: &LabRecord,
    claim: &ClaimFile,
    place: &PlaceFile,
) -> Option<f64> {
    let series = series_of(&experiment.file, claim, place).ok()?;
    record.points.iter().find(|point| point.series == series.name).map(|point| point.share)
}

fn is_at(figure: &Figure, place: &PlaceFile) -> bool {
    let fixed = ["phase", "engine"].iter().filter_map(|name| Some((*name, place.get(*name)?)));
    fixed.chain(params(place)).all(|(name, at)| figure.on(name) == Some(text_of(at).as_str()))
}

/// Counts the verdicts of an engine, in words; `None` if no claim was tested on it.
fn count(all: &[Tested<'_>], engine: &str) -> Option<String> {
    let own = || all.iter().flat_map(|claim| &claim.tests).filter(|test| test.engine == engine);
    let of = |verdict| own().filter(|test| test.verdict == verdict).count();
    let [yes, no, open] = [Verdict::Confirmed, Verdict::Refuted, Verdict::NotShown].map(of);
    let total = yes + no + open;
    (total > 0)
        .then(|| format!("{engine}: {yes} of {total} confirmed, {no} refuted, {open} not shown"))
}

/// Returns one line of counts per engine, in order of occurrence.
pub fn counts(all: &[Tested<'_>]) -> Vec<String> {
    let mut engines: Vec<&str> = Vec::new();
    for test in all.iter().flat_map(|claim| &claim.tests) {
        if !engines.contains(&test.engine.as_str()) {
            engines.push(&test.engine);
        }
    }
    engines.into_iter().filter_map(|engine| count(all, engine)).collect()
}

/// Describes a test: the two figures, their quotient with its interval, and the verdict.
fn test_text(test: &Test) -> String {
    let (of, to) = test.figures;
    let interval = match test.ratio.interval {
        Some(_) => format!(" [{}]", interval_text(&test.ratio)),
        None => format!(" [fewer than {ROUNDS_MIN} rounds]"),
    };
    let (of, to, ratio) = (number(of), number(to), number(test.ratio.ratio));
    format!("{of} / {to} = {ratio}{interval}")
}

/// Explains the columns of the claims.
const ABOUT: &str = "Each claim divides one figure by another one. The quotient is expected where \
                     the claim says. Confirmed: the whole 95 % interval is there. Refuted: no part \
                     of it is there. With three rounds an interval is little more than the range \
                     of the samples. The document's quotient is from its own machine and store.";

/// Writes the claims with their verdicts; nothing if the experiment has none.
pub fn write_claims(
    experiment: &Experiment,
    record: &LabRecord,
    form: Form,
    out: &mut dyn Write,
) -> io::Result<()> {
    let all = tested(experiment, record);
    if all.is_empty() {
        return Ok(());
    }
    let markdown = form == Form::Markdown;
    writeln!(out, "\n{}Claims of the document", if markdown { "## " } else { "" })?;
    writeln!(out, "{ABOUT}")?;
    for line in counts(&all) {
        writeln!(out, "{}{line}.", if markdown { "- " } else { "  " })?;
    }
    if markdown {
        writeln!(out, "\n| claim | expected | document | engine | measured | verdict |")?;
        writeln!(out, "|---|---|--:|---|---|---|")?;
    }
    for (index, claim) in all.iter().enumerate() {
        let reported = claim.reported.map_or("–".into(), number);
        let expect = claim.claim.expect.get_ref();
        let text = match markdown {
            true => claim.claim.text.replace('|', "\\|"),
            false => claim.claim.text.clone(),
        };
        let lead = format!("{}. {text}", index + 1);
        let head = match markdown {
            true => format!("| {lead} ({}) | {expect} | {reported} |", claim.unit),
            false => format!("\n{lead}\n  {}, expected {expect}, document {reported}", claim.unit),
        };
        if !markdown {
            writeln!(out, "{head}")?;
        }
        if claim.tests.is_empty() {
            let lead = if markdown { &head } else { " " };
            writeln!(out, "{lead} – | not measured | |")?;
        }
        for (place, test) in claim.tests.iter().enumerate() {
            let (engine, measured) = (&test.engine, test_text(test));
            let verdict = test.verdict.text();
            match (markdown, place) {
                (true, 0) => writeln!(out, "{head} {engine} | {measured} | **{verdict}** |")?,
                (true, _) => writeln!(out, "| | | | {engine} | {measured} | **{verdict}** |")?,
                (false, _) => writeln!(out, "  {engine}: {measured}: {verdict}")?,
            }
        }
        if !markdown && !claim.claim.explanation.is_empty() {
            writeln!(out, "  {}", claim.claim.explanation)?;
        }
    }
    explanations(&all, form, out)
}

/// Writes the causes below a Markdown table.
fn explanations(all: &[Tested<'_>], form: Form, out: &mut dyn Write) -> io::Result<()> {
    let explained = all.iter().enumerate().filter(|(_, one)| !one.claim.explanation.is_empty());
    for (index, one) in explained.filter(|_| form == Form::Markdown) {
        writeln!(out, "\n**{}.** {}", index + 1, one.claim.explanation)?;
    }
    Ok(())
}

/// Writes every test of a claim as a row of CSV.
pub fn write_claims_csv(
    experiment: &Experiment,
    record: &LabRecord,
    out: &mut dyn Write,
) -> io::Result<()> {
    let mut csv = csv::Writer::from_writer(out);
    csv.write_record([
        "claim",
        "unit",
        "expected",
        "document",
        "engine",
        "of",
        "to",
        "ratio",
        "ratio_low",
        "ratio_high",
        "verdict",
    ])?;
    let text = |value: Option<f64>| value.map_or(String::new(), |value| value.to_string());
    for one in tested(experiment, record) {
        let (claim, expected) = (&one.claim.text, one.claim.expect.get_ref());
        for test in &one.tests {
            let interval = test.ratio.interval;
            csv.write_record([
                claim.clone(),
                one.unit.to_string(),
                expected.clone(),
                text(one.reported),
                test.engine.clone(),
                test.figures.0.to_string(),
                test.figures.1.to_string(),
                test.ratio.ratio.to_string(),
                text(interval.map(|(low, _)| low)),
                text(interval.map(|(_, high)| high)),
                test.verdict.text().to_string(),
            ])?;
        }
    }
    csv.flush()
}

/// Writes the claims on the experiment's page; nothing if the experiment has none.
pub fn page_claims(page: &mut String, experiment: &Experiment, record: &LabRecord) {
    let all = tested(experiment, record);
    if all.is_empty() {
        return;
    }
    let _ = writeln!(
        page,
        "<h2 id=\"claims\">Claims of the document</h2><p class=\"soft\">{}</p><p>{}.</p>\
         <div class=\"scroll\"><table><tr><th>claim</th><th class=\"n\">expected</th>\
         <th class=\"n\">document</th><th>engine</th><th>measured</th><th>verdict</th></tr>",
        escape(ABOUT),
        escape(&counts(&all).join(". "))
    );
    for claim in &all {
        let rows = claim.tests.len().max(1);
        let why = match claim.claim.explanation.as_str() {
            "" => String::new(),
            why => format!("<br><span class=\"soft\">{}</span>", escape(why)),
        };
        let _ = write!(
            page,
            "<tr class=\"first\"><td class=\"wrap\" rowspan=\"{rows}\">{} <span class=\"soft\">({})\
             </span>{why}</td><td class=\"n\" rowspan=\"{rows}\">{}</td>\
             <td class=\"n\" rowspan=\"{rows}\">{}</td>",
            escape(&claim.claim.text),
            escape(claim.unit),
            escape(claim.claim.expect.get_ref()),
            claim.reported.map_or("–".into(), number)
        );
        if claim.tests.is_empty() {
            page.push_str("<td>–</td><td>not measured</td><td></td></tr>\n");
        }
        for (place, test) in claim.tests.iter().enumerate() {
            let class = match test.verdict {
                Verdict::Confirmed => "good",
                Verdict::Refuted => "bad",
                Verdict::NotShown => "soft",
            };
            let start = if place == 0 { "" } else { "<tr>" };
            let _ = writeln!(
                page,
                "{start}<td>{}</td><td>{}</td><td class=\"{class}\">{}</td></tr>",
                escape(&test.engine),
                escape(&test_text(test)),
                test.verdict.text()
            );
        }
    }
    page.push_str("</table></div>\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verdict_needs_the_whole_interval_on_one_side() {
        let verdict = |low, high, expected| {
            let ratio = Ratio { ratio: (low + high) / 2.0, interval: Some((low, high)) };
            Verdict::of(&ratio, Expected::parse(expected).expect("right"))
        };
        assert_eq!(verdict(1.3, 1.5, "above 1.2"), Verdict::Confirmed);
        assert_eq!(verdict(1.1, 1.5, "above 1.2"), Verdict::NotShown);
        assert_eq!(verdict(1.0, 1.1, "above 1.2"), Verdict::Refuted);
        assert_eq!(verdict(0.5, 0.7, "below 0.8"), Verdict::Confirmed);
        assert_eq!(verdict(0.9, 1.1, "below 0.8"), Verdict::Refuted);
        assert_eq!(verdict(0.98, 1.02, "0.95 to 1.05"), Verdict::Confirmed);
        assert_eq!(verdict(0.8, 0.9, "0.95 to 1.05"), Verdict::Refuted);
        assert_eq!(verdict(0.8, 1.0, "0.95 to 1.05"), Verdict::NotShown);
        let single = Ratio { ratio: 9.0, interval: None };
        let expected = Expected::parse("above 1").expect("right");
        assert_eq!(Verdict::of(&single, expected), Verdict::NotShown);
    }
}
