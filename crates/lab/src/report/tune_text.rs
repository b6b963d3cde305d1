//! A tuning as text: the result, the finalists, what each knob brings; and the recommended set as
//! options and properties.

use std::io::{self, Write};

use super::table::plain_table;
use crate::tune::knob::Setting;
use crate::tune::measures::Combine;
use crate::tune::outcome::{Beside, Judged, KnobEffect, Outcome, WorkloadGain};
use crate::tune::paired::Gain;

/// Writes the result and its tables.
pub fn write(outcome: &Outcome, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "{}", outcome.verdict)?;
    for line in circumstances(outcome) {
        writeln!(out, "{line}")?;
    }
    for warning in &outcome.warnings {
        writeln!(out, "warning: {warning}")?;
    }
    if !outcome.finalists.is_empty() {
        writeln!(out, "\nFinalists against the default set, in the same rounds:")?;
        sets(outcome, out)?;
    }
    if !outcome.beside.is_empty() {
        writeln!(out, "\nNamed sets against the default set, in the same rounds:")?;
        beside(outcome, out)?;
    }
    if !outcome.effects.is_empty() {
        writeln!(out, "\nWhat each knob brings (the best set against the set without it):")?;
        effects(outcome, out)?;
    }
    if let Some(line) = interaction(outcome) {
        writeln!(out, "{line}")?;
    }
    Ok(())
}

/// Returns the circumstances as sentences.
pub fn circumstances(outcome: &Outcome) -> Vec<String> {
    let percent = |share: f64| format!("{:.0} %", share * 100.0);
    let combine = match outcome.combine {
        Combine::Mean => "the geometric mean over",
        Combine::Worst => "the worst of",
    };
    let mut lines = vec![format!(
        "{}: {} as {combine} {}. Sets tried: {} in {:.0} s; runs: {}; time: {:.0} s. Short runs have \
         {} of the workloads' size, final ones {}.",
        outcome.engine,
        outcome.objective.name(),
        outcome.workloads.join(", "),
        outcome.trials.len(),
        outcome.search_seconds,
        outcome.runs,
        outcome.seconds,
        percent(outcome.shares.0),
        percent(outcome.shares.1)
    )];
    if let Some(bytes) = outcome.memory_budget_bytes {
        lines.push(format!(
            "No set may give memtables and cache together more than {} MiB.",
            bytes >> 20
        ));
    }
    if !outcome.constraints.is_empty() {
        lines.push(format!("Constraints: {}.", outcome.constraints.join(", ")));
    }
    lines
}

fn sets(outcome: &Outcome, out: &mut dyn Write) -> io::Result<()> {
    let mut head = vec!["gain"];
    head.extend(outcome.workloads.iter().map(String::as_str));
    head.extend(["set", "against it"]);
    let mut table = plain_table(&head);
    let all = outcome.recommended.iter().filter(|own| !outcome.finalists.contains(own));
    for judged in outcome.finalists.iter().chain(all) {
        table.add_row(row(
            outcome,
            judged.gain.as_ref(),
            &judged.workloads,
            [judged.setting.to_string(), judged.rejected.clone().unwrap_or_default()],
        ));
    }
    writeln!(out, "{}", table.trim_fmt())
}

fn beside(outcome: &Outcome, out: &mut dyn Write) -> io::Result<()> {
    let mut head = vec!["gain"];
    head.extend(outcome.workloads.iter().map(String::as_str));
    head.extend(["name", "set"]);
    let mut table = plain_table(&head);
    for Beside { name, judged, best_over_it, best_workloads } in &outcome.beside {
        let set = judged.setting.to_string();
        let gain = judged.gain.as_ref();
        table.add_row(row(outcome, gain, &judged.workloads, [name.clone(), set]));
        if let Some(gain) = best_over_it {
            let rest = [format!("best finalist over {name}"), String::new()];
            table.add_row(row(outcome, Some(gain), best_workloads, rest));
        }
    }
    writeln!(out, "{}", table.trim_fmt())
}

fn effects(outcome: &Outcome, out: &mut dyn Write) -> io::Result<()> {
    let mut head = vec!["gain"];
    head.extend(outcome.workloads.iter().map(String::as_str));
    head.extend(["knob", "kept"]);
    let mut table = plain_table(&head);
    for effect in &outcome.effects {
        let kept = if effect.kept { "yes" } else { "no" };
        table.add_row(row(
            outcome,
            effect.gain.as_ref(),
            &effect.workloads,
            [change(effect), kept.into()],
        ));
    }
    writeln!(out, "{}", table.trim_fmt())
}

fn row(
    outcome: &Outcome,
    gain: Option<&Gain>,
    workloads: &[WorkloadGain],
    rest: [String; 2],
) -> Vec<String> {
    let text = |gain: Option<&Gain>| gain.map_or("n/a".into(), Gain::to_string);
    let mut cells = vec![text(gain)];
    cells.extend(outcome.workloads.iter().map(|name| text(of(workloads, name))));
    cells.extend(rest);
    cells
}

/// Returns the gain on the workload of that name.
pub fn of<'a>(workloads: &'a [WorkloadGain], name: &str) -> Option<&'a Gain> {
    workloads.iter().find(|own| own.workload == name).map(|own| &own.gain)
}

/// Returns the change that a knob makes, as text.
pub fn change(effect: &KnobEffect) -> String {
    format!("{} {} → {}", effect.knob, effect.from, effect.to)
}

/// Returns a sentence about the joint effect of the two strongest knobs.
pub fn interaction(outcome: &Outcome) -> Option<String> {
    let own = outcome.interaction.as_ref()?;
    let [first, second] = &own.knobs;
    Some(format!(
        "{first} and {second} together bring {}; the product of their gains alone is {:+.1} %.",
        own.together,
        (own.product - 1.0) * 100.0
    ))
}

/// Returns the recommended set, or the default set if none is recommended.
pub fn recommended(outcome: &Outcome) -> Setting {
    outcome.recommended.as_ref().map(|own| own.setting.clone()).unwrap_or_default()
}

/// Returns the recommended set as a TOML file: the engine's own names, with the measured gains and
/// all knobs as YCSB properties in comments.
pub fn toml_text(outcome: &Outcome) -> String {
    let setting = recommended(outcome);
    let mut text = format!("# {}\n", outcome.verdict);
    let gains = outcome.recommended.as_ref().map(|own: &Judged| own.workloads.as_slice());
    for own in gains.unwrap_or_default() {
        text.push_str(&format!("# {}: {}\n", own.workload, own.gain));
    }
    text.push_str(&format!("\n[{}]\n", outcome.engine));
    for (name, value) in &setting.0 {
        let effect = outcome.effects.iter().find(|effect| effect.knob == *name);
        let gain = effect.and_then(|effect| effect.gain.as_ref());
        let comment = gain.map_or(String::new(), |gain| format!(" # alone {gain}"));
        let is_number = value.parse::<f64>().is_ok() || matches!(value.as_str(), "true" | "false");
        let value = if is_number { value.clone() } else { format!("\"{value}\"") };
        text.push_str(&format!("{name} = {value}{comment}\n"));
    }
    text.push_str("\n# All knobs as YCSB properties:\n");
    for (name, value) in &outcome.properties {
        text.push_str(&format!("# {name}={value}\n"));
    }
    text
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::tune::measures::Objective;
    use crate::tune::outcome::{Interaction, Trial};

    pub(crate) fn outcome() -> Outcome {
        let gain = Gain::of(&[0.2, 0.21, 0.19, 0.2], 0.95);
        let workloads = vec![WorkloadGain { workload: "a".into(), gain: gain.expect("rounds") }];
        let pairs = [("block", "8192"), ("compression", "none")];
        let setting = Setting(pairs.map(|(n, v)| (n.to_string(), v.to_string())).into());
        let judged =
            Judged { setting: setting.clone(), gain, workloads: workloads.clone(), rejected: None };
        let effect = |knob: &str, from: &str, to: &str, kept| KnobEffect {
            knob: knob.into(),
            from: from.into(),
            to: to.into(),
            gain,
            workloads: workloads.clone(),
            kept,
        };
        let trial = |ratio: Option<f64>, best_ratio| Trial {
            setting: setting.clone(),
            ratio,
            workloads: ratio.into_iter().collect(),
            best_ratio,
            error: ratio.is_none().then(|| "no space <left>".into()),
        };
        Outcome {
            engine: "leveldb".into(),
            description: "made up".into(),
            machine: Default::default(),
            objective: Objective::Throughput,
            combine: Combine::Mean,
            constraints: vec!["p99<1ms".into()],
            workloads: vec!["a".into()],
            defaults: vec![("block".into(), "4096".into())],
            levels: vec![("block".into(), vec!["4096".into(), "8192".into()])],
            memory_budget_bytes: Some(64 << 20),
            seed: 1,
            shares: (0.25, 1.0),
            trials: vec![trial(Some(1.1), 1.1), trial(None, 1.1), trial(Some(1.2), 1.2)],
            finalists: vec![judged.clone()],
            beside: vec![Beside {
                name: "by <hand>".into(),
                judged: judged.clone(),
                best_over_it: gain,
                best_workloads: workloads.clone(),
            }],
            recommended: Some(judged),
            properties: vec![("leveldb.block".into(), "8192".into())],
            fixed: Vec::new(),
            verdict: "block=8192 compression=none changes throughput.".into(),
            effects: vec![
                effect("compression", "snappy", "none", true),
                effect("block", "4096", "8192", true),
            ],
            curves: vec![crate::report::tune_curves::tests::curve()],
            interaction: Some(Interaction {
                knobs: ["compression".into(), "block".into()],
                together: gain.expect("rounds"),
                product: 1.3,
            }),
            search_seconds: 4.0,
            runs: 20,
            seconds: 12.0,
            interrupted: false,
            warnings: Vec::new(),
        }
    }

    #[test]
    fn text_names_gain_and_interval_of_every_kept_knob() {
        let mut text = Vec::new();
        write(&outcome(), &mut text).expect("written");
        let text = String::from_utf8(text).expect("text");
        for part in [
            "changes throughput",
            "block 4096 → 8192",
            "compression snappy → none",
            "+22.1 % (",
            "64 MiB",
            "p99<1ms",
            "together bring",
            "best finalist over by <hand>",
        ] {
            assert!(text.contains(part), "{part} is missing:\n{text}");
        }
    }

    #[test]
    fn toml_file_parses_and_has_the_properties() {
        let text = toml_text(&outcome());
        let parsed: toml::Table = toml::from_str(&text).expect(&text);
        assert_eq!(parsed["leveldb"]["block"].as_integer(), Some(8192));
        assert_eq!(parsed["leveldb"]["compression"].as_str(), Some("none"));
        assert!(text.contains("# leveldb.block=8192"), "{text}");
    }
}
