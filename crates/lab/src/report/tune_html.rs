//! A tuning's page: what bought what, the trials over time, each knob's values, and all sets.

use std::fmt::Write;

use super::axes::Span;
use super::dots::{Dot, Row, dots};
use super::html::{begin, escape};
use super::lines::{Axes, Line, lines};
use super::table::system_line_of;
use super::tune_curves;
use super::tune_text::{change, circumstances, interaction, of, toml_text};
use crate::tune::outcome::{Outcome, WorkloadGain};
use crate::tune::paired::Gain;

/// How the figures of the page are made.
const METHOD: &str = "\
<p>All figures are ratios of sets that ran in the same round, one after another with a rotating first set, each from an \
empty directory. Operations are the same for all sets of a round, and every read is checked. A gain is the geometric \
mean of the rounds' ratios; its interval is Student's at 95 % (for the choice among finalists at a higher confidence, \
by the number of finalists). The search uses short runs, and only orders the sets; no figure of the result comes from \
it. A set is recommended only if its whole interval is above 1, its gain is at least 2 %, and no workload is below 0.97 \
of the default set.</p>\
<p>A knob's gain is that of the best set over the same set with this knob at its default. Knobs whose gain is not \
shown leave the set if the smaller set is measured to be as good. Gains of single knobs need not multiply to the gain \
of all.</p>\
<p>These measurements hold for this machine, these workloads at these sizes, and this version of the engine.</p>";

/// Renders the whole page.
pub fn page(outcome: &Outcome) -> String {
    let mut page = String::new();
    let title = escape(&format!("{}, tuned", outcome.engine));
    begin(&mut page, &title);
    let _ = write!(page, "<h1>{title}</h1><p><b>{}</b></p>", escape(&outcome.verdict));
    for line in circumstances(outcome) {
        let _ = write!(page, "<p class=\"soft\">{}</p>", escape(&line));
    }
    for warning in &outcome.warnings {
        let _ = write!(page, "<p class=\"warn\">{}</p>", escape(warning));
    }
    bought(&mut page, outcome);
    finalists(&mut page, outcome);
    beside(&mut page, outcome);
    over_time(&mut page, outcome);
    tune_curves::write(&mut page, &outcome.curves);
    trials(&mut page, outcome);
    let _ = write!(
        page,
        "<h2>The set as a file</h2><div class=\"scroll\"><pre>{}</pre></div><h2>Where</h2><dl>\
         <dt>engine</dt><dd>{}</dd><dt>processor</dt><dd>{} × {}</dd><dt>system</dt><dd>{}</dd>\
         <dt>seed</dt><dd>{}</dd></dl>",
        escape(&toml_text(outcome)),
        escape(&outcome.description),
        outcome.machine.cpu_count,
        escape(outcome.machine.cpu_model.as_deref().unwrap_or("unknown")),
        escape(&system_line_of(&outcome.machine)),
        outcome.seed
    );
    let _ = writeln!(page, "<h2>How it was measured</h2>{METHOD}</main></body></html>");
    page
}

/// Writes the table and the picture of the knobs' gains.
fn bought(page: &mut String, outcome: &Outcome) {
    if outcome.effects.is_empty() {
        return;
    }
    page.push_str("<h2>What bought what</h2>");
    let rows: Vec<Row> = outcome
        .effects
        .iter()
        .map(|effect| Row { label: change(effect), dots: vec![dot(effect.gain.as_ref())] })
        .collect();
    picture(page, &rows, "gain of each knob alone");
    head(page, &["knob", "kept", "gain"], &outcome.workloads);
    for effect in &outcome.effects {
        let kept = if effect.kept { "yes" } else { "no" };
        let _ = write!(page, "<tr><td>{}</td><td>{kept}</td>", escape(&change(effect)));
        cells(page, outcome, effect.gain.as_ref(), &effect.workloads);
    }
    page.push_str("</table></div>");
    if let Some(line) = interaction(outcome) {
        let _ = write!(page, "<p>{}</p>", escape(&line));
    }
}

fn dot(gain: Option<&Gain>) -> Dot {
    Dot {
        style: 0,
        value: gain.map(|gain| gain.ratio),
        spread: gain.and_then(|gain| gain.interval),
        text: gain.map_or(String::new(), |gain| format!("{:.2}", gain.ratio)),
        reported: false,
    }
}

fn picture(page: &mut String, rows: &[Row], label: &str) {
    let values = super::dots::values(rows).chain([1.0]);
    let span = Span::of(values, f64::INFINITY, true);
    let svg = dots(rows, span, "times the same set without it", label);
    let _ = write!(page, "<div class=\"chart\">{svg}</div>");
}

/// Writes the finalists, and the recommended set if it is none of them.
fn finalists(page: &mut String, outcome: &Outcome) {
    if outcome.finalists.is_empty() {
        return;
    }
    page.push_str("<h2>Finalists against the default set</h2>");
    head(page, &["set", "against it", "gain"], &outcome.workloads);
    let other = outcome.recommended.iter().filter(|own| !outcome.finalists.contains(own));
    for judged in outcome.finalists.iter().chain(other) {
        let _ = write!(
            page,
            "<tr><td class=\"wrap\">{}</td><td class=\"wrap\">{}</td>",
            escape(&judged.setting.to_string()),
            escape(judged.rejected.as_deref().unwrap_or("–"))
        );
        cells(page, outcome, judged.gain.as_ref(), &judged.workloads);
    }
    page.push_str("</table></div>");
}

/// Writes the named sets.
fn beside(page: &mut String, outcome: &Outcome) {
    if outcome.beside.is_empty() {
        return;
    }
    page.push_str("<h2>Named sets, in the same rounds</h2>");
    head(page, &["compared", "set", "gain"], &outcome.workloads);
    for own in &outcome.beside {
        let (name, set) = (escape(&own.name), escape(&own.judged.setting.to_string()));
        let _ = write!(page, "<tr><td>{name} over the default set</td><td>{set}</td>");
        cells(page, outcome, own.judged.gain.as_ref(), &own.judged.workloads);
        if own.best_over_it.is_some() {
            let _ = write!(page, "<tr><td>best finalist over {name}</td><td></td>");
            cells(page, outcome, own.best_over_it.as_ref(), &own.best_workloads);
        }
    }
    page.push_str("</table></div>");
}

fn head(page: &mut String, first: &[&str], workloads: &[String]) {
    page.push_str("<div class=\"scroll\"><table><tr>");
    for name in first.iter().copied().chain(workloads.iter().map(String::as_str)) {
        let _ = write!(page, "<th>{}</th>", escape(name));
    }
    page.push_str("</tr>\n");
}

/// Writes the cells of the gain and of the workloads' gains, and ends the row.
fn cells(page: &mut String, outcome: &Outcome, gain: Option<&Gain>, workloads: &[WorkloadGain]) {
    let own = outcome.workloads.iter().map(|name| of(workloads, name));
    for gain in std::iter::once(gain).chain(own) {
        let class = match gain {
            Some(gain) if gain.is_shown() => "n good",
            Some(gain) if gain.is_loss() => "n bad",
            _ => "n",
        };
        let text = gain.map_or("n/a".into(), Gain::to_string);
        let _ = write!(page, "<td class=\"{class}\">{}</td>", escape(&text));
    }
    page.push_str("</tr>\n");
}

fn line(name: &str, style: usize, points: Vec<(f64, f64)>) -> Line {
    Line { name: name.into(), style, reported: false, points, spreads: Vec::new() }
}

/// Draws the trials and the best set so far.
fn over_time(page: &mut String, outcome: &Outcome) {
    if outcome.trials.is_empty() {
        return;
    }
    let numbered = || outcome.trials.iter().enumerate();
    let best = numbered().map(|(index, trial)| (index as f64 + 1.0, trial.best_ratio)).collect();
    let each: Vec<Line> = numbered()
        .filter_map(|(index, trial)| Some(line("", 1, vec![(index as f64 + 1.0, trial.ratio?)])))
        .collect();
    let mut all = vec![line("best so far", 0, best)];
    all.extend(each);
    let axes = Axes { x: "trial", y: "times the default", ..Axes::default() };
    let _ = write!(
        page,
        "<h2>The search</h2><p class=\"soft\">Ratio of each tried set to the default set, from \
         short runs, and the best so far. Short runs only order the sets.</p>\
         <div class=\"chart\">{}</div>",
        lines(&all, &axes, "ratio of each trial")
    );
}

/// Writes all trials.
fn trials(page: &mut String, outcome: &Outcome) {
    if outcome.trials.is_empty() {
        return;
    }
    let _ = write!(page, "<details><summary>All {} trials</summary>", outcome.trials.len());
    head(page, &["trial", "ratio", "set", "problem"], &[]);
    for (index, trial) in outcome.trials.iter().enumerate() {
        let ratio = trial.ratio.map_or("n/a".into(), |ratio| format!("{ratio:.3}"));
        let _ = writeln!(
            page,
            "<tr><td class=\"n\">{}</td><td class=\"n\">{ratio}</td><td class=\"wrap\">{}</td>\
             <td class=\"wrap\">{}</td></tr>",
            index + 1,
            escape(&trial.setting.to_string()),
            escape(trial.error.as_deref().unwrap_or(""))
        );
    }
    page.push_str("</table></div></details>");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tune_text::tests::outcome;

    #[test]
    fn page_has_pictures_and_tables_and_escapes_text() {
        let page = page(&outcome());
        assert!(page.matches("<svg").count() >= 2, "{page}");
        for part in
            ["What bought what", "block 4096 → 8192", "Finalists", "Values tried", "All 3 trials"]
        {
            assert!(page.contains(part), "{part}");
        }
        assert!(page.contains("no space &lt;left&gt;") && !page.contains("<left>"));
        assert_eq!(page.matches("<table").count(), page.matches("</table>").count());
    }

    #[test]
    fn page_of_a_standing_default_has_no_empty_sections() {
        let mut none = outcome();
        none.effects.clear();
        none.finalists.clear();
        none.trials.clear();
        none.curves.clear();
        none.interaction = None;
        none.recommended = None;
        let page = page(&none);
        assert!(!page.contains("What bought what") && !page.contains("<h2>The search"), "{page}");
        assert!(!page.contains("Values tried"), "{page}");
    }
}
