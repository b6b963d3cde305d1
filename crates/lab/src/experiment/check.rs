//! Reads an experiment and reports every mistake with its line.
//!
//! A text without mistakes becomes an [`Experiment`], so the runner need not check its names again.

use std::ops::Range;

use toml::{Spanned, Value};

use super::expect::Amount;
use super::file::{Expect, ExperimentFile, Options, ReportedFile, SeriesFile};
use super::mixed;
use super::plan::{is_count, set_for, text_of};
use super::program;
use super::reported::number;
use crate::run::config::{BenchConfig, bytes_of};
use crate::stats::unit::{UNITS, Unit};
use crate::workload::tasks::{labels, parse_tasks};

/// A checked experiment.
#[derive(Clone, Debug)]
pub struct Experiment {
    /// Its name: the file name without the extension.
    pub name: String,
    /// Its parsed content.
    pub file: ExperimentFile,
    /// The source text, kept in records.
    pub text: String,
}

/// A mistake in an experiment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistake {
    /// Line of the file, from 1; 0 for the whole file.
    pub line: usize,
    /// The mistake and its correction.
    pub message: String,
}

/// Names valid in experiments.
pub struct Known<'a> {
    /// Available engines.
    pub engines: &'a [&'a str],
    /// Settings that know the engines' own options.
    pub config: BenchConfig,
}

impl Experiment {
    /// Reads and checks `text`. Mistakes are sorted by line.
    pub fn parse(name: &str, text: &str, known: &Known<'_>) -> Result<Experiment, Vec<Mistake>> {
        let Experiment { file, .. } =
            Experiment::of_record(name, text).map_err(|mistake| vec![mistake])?;
        let programs = file.programs.keys().map(|name| name.get_ref().as_str());
        let engines = known.engines.iter().copied().chain(programs).collect();
        let mut check = Check { text, known, engines, mistakes: Vec::new() };
        check.file(&file);
        let mut mistakes = check.mistakes;
        if mistakes.is_empty() {
            return Ok(Experiment { name: name.into(), file, text: text.into() });
        }
        mistakes.sort_by_key(|mistake| mistake.line);
        Err(mistakes)
    }

    /// Reads the text of a record, whose names were checked before it ran.
    ///
    /// # Errors
    /// A text that is not an experiment's, with the line.
    pub fn of_record(name: &str, text: &str) -> Result<Experiment, Mistake> {
        let file: ExperimentFile = toml::from_str(text).map_err(|e| {
            let line = e.span().map_or(0, |span| line_of(text, &span));
            Mistake { line, message: e.message().trim().to_string() }
        })?;
        Ok(Experiment { name: name.into(), file, text: text.into() })
    }

    /// Returns every engine named in the file.
    pub fn engine_names(&self) -> Vec<&str> {
        let own = self.file.series.iter().filter_map(|series| series.get_ref().engines.as_ref());
        let lists = std::iter::once(&self.file.engines).chain(own);
        lists.flat_map(|list| list.get_ref()).map(|name| name.get_ref().as_str()).collect()
    }

    /// Returns a series by its index.
    pub fn series(&self, index: usize) -> &SeriesFile {
        self.file.series[index].get_ref()
    }
}

/// Returns the labels of the phases of a series, or of one of its steps. A repeated name is
/// numbered.
pub fn phase_labels(series: &SeriesFile) -> Vec<String> {
    if let Some(phases) = &series.phases {
        return labels(phases.get_ref().iter().map(|name| name.get_ref().as_str()));
    }
    let tasks = series.tasks.as_ref().and_then(|tasks| parse_tasks(tasks.get_ref()).ok());
    labels(tasks.unwrap_or_default().iter().map(|task| task.name))
}

/// Returns the possible rows or columns of a table.
pub fn axes(series: &SeriesFile) -> Vec<String> {
    let fixed = ["phase", "engine", "entries", "threads"].map(String::from);
    let step = series.steps.is_some().then(|| "step".to_string());
    fixed
        .into_iter()
        .chain(step)
        .chain(series.vary.keys().map(|name| name.get_ref().clone()))
        .collect()
}

/// Returns a sentence about a phase that a series does not have.
pub fn known_phase(name: &str, labels: &[String]) -> Result<(), String> {
    if labels.iter().any(|label| label == name) {
        return Ok(());
    }
    Err(format!("the series has no phase {name:?}; it has {}", labels.join(", ")))
}

fn line_of(text: &str, span: &Range<usize>) -> usize {
    text.as_bytes().iter().take(span.start).filter(|&&byte| byte == b'\n').count() + 1
}

struct Check<'a> {
    text: &'a str,
    known: &'a Known<'a>,
    /// Engines of the lab, and those whose rounds a program runs.
    engines: Vec<&'a str>,
    mistakes: Vec<Mistake>,
}

impl Check<'_> {
    fn wrong(&mut self, span: Range<usize>, message: impl Into<String>) {
        let line = if span.is_empty() { 0 } else { line_of(self.text, &span) };
        self.mistakes.push(Mistake { line, message: message.into() });
    }

    fn file(&mut self, file: &ExperimentFile) {
        for (span, message) in program::mistakes(file, self.known.engines) {
            self.wrong(span, message);
        }
        self.engines(&file.engines);
        self.repetitions(&file.repetitions);
        self.scale(&file.scale);
        self.options(&file.options);
        if file.series.is_empty() {
            self.wrong(0..0, "expected at least one [[series]], found none");
        }
        for (index, series) in file.series.iter().enumerate() {
            let name = &series.get_ref().name;
            if file.series[..index].iter().any(|other| other.get_ref().name == *name) {
                self.wrong(series.span(), format!("two series have the name {name:?}"));
            }
            self.series(file, series);
        }
        self.bytes(file.scaled_min.as_ref(), "scaled_min");
        self.scaled_options(&file.scaled_options);
        for claim in &file.claims {
            for (span, message) in super::claim::mistakes(file, claim) {
                self.wrong(span, message);
            }
            if let Some(engines) = &claim.get_ref().engines {
                self.engines(engines);
            }
            for place in [&claim.get_ref().of, &claim.get_ref().to] {
                if let Some(name) = place.get_ref().get("engine").map(text_of) {
                    self.engine(&name, place.span());
                }
            }
        }
    }

    fn scaled_options(&mut self, options: &[Spanned<String>]) {
        for option in options {
            let name = option.get_ref();
            if !BenchConfig::is_store_flag(name) && !is_count(name) {
                self.wrong(option.span(), format!("{name:?} is not an option of all engines"));
            }
        }
    }

    fn engines(&mut self, engines: &Spanned<Vec<Spanned<String>>>) {
        if engines.get_ref().is_empty() {
            self.wrong(engines.span(), "no engine is named");
        }
        for (index, engine) in engines.get_ref().iter().enumerate() {
            let name = engine.get_ref();
            self.engine(name, engine.span());
            if engines.get_ref()[..index].iter().any(|other| other.get_ref() == name) {
                self.wrong(engine.span(), format!("engine {name:?} is named twice"));
            }
        }
    }

    fn engine(&mut self, name: &str, span: Range<usize>) {
        if !self.engines.contains(&name) {
            let known = self.engines.join(", ");
            self.wrong(span, format!("unknown engine {name:?}; the engines are {known}"));
        }
    }

    fn repetitions(&mut self, repetitions: &Spanned<u64>) {
        if !(1..=1000).contains(repetitions.get_ref()) {
            self.wrong(repetitions.span(), "repetitions must be 1 to 1000");
        }
    }

    fn scale(&mut self, scale: &Spanned<f64>) {
        if !(*scale.get_ref() > 0.0 && *scale.get_ref() <= 1.0) {
            self.wrong(
                scale.span(),
                "scale is a share of the full size and must be above 0 and at most 1",
            );
        }
    }

    fn options(&mut self, options: &Options) {
        for (name, value) in options {
            self.option(name, &text_of(value.get_ref()), value.span());
        }
    }

    fn option(&mut self, name: &Spanned<String>, value: &str, span: Range<usize>) {
        let (engine, _) = name.get_ref().split_once('.').unwrap_or(("", ""));
        if !engine.is_empty() && !self.engines.contains(&engine) {
            self.wrong(name.span(), format!("{}: unknown engine {engine:?}", name.get_ref()));
            return;
        }
        let mut config = self.known.config.clone();
        if let Err(why) = set_for(&mut config, engine, name.get_ref(), value) {
            self.wrong(span, why);
        }
    }

    /// Checks the work of a series: tasks or phases.
    fn work(&mut self, file: &ExperimentFile, series: &SeriesFile, span: Range<usize>) {
        match (&series.tasks, &series.phases) {
            (Some(tasks), None) => {
                if let Err(error) = parse_tasks(tasks.get_ref()) {
                    self.wrong(tasks.span(), error.to_string());
                }
                let not_for_tasks = [
                    ("steps", series.steps.is_some()),
                    ("operations", series.operations.is_some()),
                    ("keys", series.keys.is_some()),
                    ("csv", series.csv.is_some()),
                    ("ycsb", !series.ycsb.is_empty()),
                ];
                for (name, _) in not_for_tasks.iter().filter(|(_, given)| *given) {
                    self.wrong(span.clone(), format!("{name} is for phases, not for tasks"));
                }
            }
            (None, Some(names)) => {
                if names.get_ref().is_empty() {
                    self.wrong(names.span(), "no phase is named");
                }
                // Programs know their own phases.
                let named = if program::run_all(file, series) {
                    Ok(Vec::new())
                } else {
                    mixed::phases(file, series, &self.engines)
                };
                if let Err((place, why)) = named {
                    self.wrong(names.get_ref()[place].span(), why);
                }
            }
            _ => self.wrong(span, format!("series {:?}: give tasks or phases", series.name)),
        }
        if let Some(steps) = series.steps.as_ref().filter(|s| !(1..=1000).contains(s.get_ref())) {
            self.wrong(steps.span(), "steps must be 1 to 1000");
        }
        if let Some(keys) = &series.keys
            && !mixed::KEY_FORMS.contains(&keys.get_ref().as_str())
        {
            let known = mixed::KEY_FORMS.join(", ");
            self.wrong(keys.span(), format!("keys {:?} is not one of {known}", keys.get_ref()));
        }
        if let Some(operations) = &series.operations
            && let Err(why) = Amount::parse(operations.get_ref())
        {
            self.wrong(operations.span(), why);
        }
    }

    fn series(&mut self, file: &ExperimentFile, series: &Spanned<SeriesFile>) {
        let span = series.span();
        let series = series.get_ref();
        self.work(file, series, span);
        self.numbers(&series.entries.get_ref().all(), series.entries.span(), "entries", 1 << 32);
        self.numbers(&series.threads.get_ref().all(), series.threads.span(), "threads", 1024);
        for (name, values) in &series.vary {
            if values.get_ref().is_empty() {
                self.wrong(values.span(), format!("{} has no values", name.get_ref()));
            }
            for value in values.get_ref() {
                self.option(name, &text_of(value), values.span());
            }
        }
        self.options(&series.options);
        if let Some(engines) = &series.engines {
            self.engines(engines);
        }
        if let Some(repetitions) = &series.repetitions {
            self.repetitions(repetitions);
        }
        if let Some(scale) = &series.scale {
            self.scale(scale);
        }
        let axes = axes(series);
        for axis in [&series.rows, &series.columns].into_iter().flatten() {
            if !axes.contains(axis.get_ref()) {
                let known = axes.join(", ");
                self.wrong(axis.span(), format!("{:?} is not one of {known}", axis.get_ref()));
            }
        }
        for unit in series.unit.iter().chain(&series.also) {
            self.unit(Some(unit));
        }
        self.scaled_options(&series.scaled_options);
        self.bytes(series.memory_limit.as_ref(), "memory_limit");
        for reported in &series.reported {
            self.reported(series, reported);
        }
        let labels = phase_labels(series);
        for (name, expect) in &series.expect {
            self.expect(name, expect, &labels);
        }
    }

    fn bytes(&mut self, value: Option<&Spanned<Value>>, what: &str) {
        let Some(value) = value else { return };
        if bytes_of(&text_of(value.get_ref())).is_none_or(|bytes| bytes == 0) {
            self.wrong(value.span(), format!("{what} must be a size in bytes, such as \"64M\""));
        }
    }

    fn numbers(&mut self, numbers: &[u64], span: Range<usize>, what: &str, most: u64) {
        if numbers.is_empty() || numbers.iter().any(|&number| number == 0 || number > most) {
            self.wrong(
                span,
                format!("{what} must be a number or a list of numbers, each 1 to {most}"),
            );
        }
    }

    fn unit(&mut self, unit: Option<&Spanned<String>>) {
        let Some(unit) = unit.filter(|unit| Unit::parse(unit.get_ref()).is_none()) else { return };
        let known: Vec<&str> = UNITS.iter().map(|(name, _)| *name).collect();
        let name = unit.get_ref();
        self.wrong(
            unit.span(),
            format!("unknown unit {name:?}; the units are {}", known.join(", ")),
        );
    }

    fn reported(&mut self, series: &SeriesFile, reported: &Spanned<ReportedFile>) {
        let span = reported.span();
        let reported = reported.get_ref();
        self.unit(reported.unit.as_ref());
        let mut axes = axes(series);
        axes.push("by".into());
        let rows = reported.rows.get_ref();
        if !axes.contains(rows) || rows == "engine" {
            self.wrong(
                reported.rows.span(),
                format!("rows: {rows:?} is not an axis of the series"),
            );
        }
        if (rows == "by") == reported.by.is_some() {
            self.wrong(
                span.clone(),
                "the source of the figures is missing; give by = … or rows = \"by\"",
            );
        }
        if !axes.contains(&reported.across) {
            self.wrong(span.clone(), format!("across: {:?} is not an axis", reported.across));
        }
        let labels = phase_labels(series);
        if reported.across == "phase" {
            for column in &reported.columns {
                self.phase(&text_of(column), &labels, span.clone());
            }
        }
        for name in reported.at.keys().filter(|name| !axes.contains(name)) {
            self.wrong(span.clone(), format!("at: the series does not vary {name:?}"));
        }
        for row in &reported.data {
            let cells = row.get_ref();
            if cells.len() != reported.columns.len() + 1 {
                let (found, wanted) = (cells.len(), reported.columns.len() + 1);
                self.wrong(row.span(), format!("found {found} items, expected {wanted}"));
            }
            if rows == "phase" {
                self.phase(&cells.first().map(text_of).unwrap_or_default(), &labels, row.span());
            }
            for cell in cells.iter().skip(1) {
                if let Err(why) = number(cell, Some(1.0)) {
                    self.wrong(row.span(), why);
                }
            }
        }
    }

    fn phase(&mut self, name: &str, labels: &[String], span: Range<usize>) {
        if let Err(why) = known_phase(name, labels) {
            self.wrong(span, why);
        }
    }

    fn expect(&mut self, name: &Spanned<String>, expect: &Expect, labels: &[String]) {
        if name.get_ref() != "end" {
            self.phase(name.get_ref(), labels, name.span());
        }
        for amount in [&expect.operations, &expect.found, &expect.pairs].into_iter().flatten() {
            if let Err(why) = Amount::parse(amount.get_ref()) {
                self.wrong(amount.span(), why);
            }
        }
        if let Some(sum) = &expect.checksum
            && u64::from_str_radix(sum.get_ref(), 16).is_err()
        {
            self.wrong(sum.span(), "a checksum must have at most 16 hexadecimal digits");
        }
    }
}

/// Formats a value as a number or text, for messages.
pub fn shown(value: &Value) -> String {
    format!("{:?}", text_of(value))
}

/// Tests, and a sample for tests of other modules.
#[cfg(test)]
pub mod tests {
    use super::*;

    /// Returns the names known to the tests of this module.
    pub fn known() -> Known<'static> {
        let mut config = BenchConfig::default();
        config.accept_engine_options("esker", ["policy"]);
        Known { engines: &["esker", "leveldb", "rocksdb"], config }
    }

    /// Returns an experiment without a mistake.
    pub fn sample() -> String {
        r#"title = "A sample"
engines = ["esker", "leveldb"]
scale = 0.5

[options]
cache_size = "8M"
"esker.policy" = "leveled"

[[series]]
name = "blocks"
tasks = "fillseq,readrandom,readrandom"
entries = 1000
vary = { block_size = [1024, 4096] }
rows = "phase"
columns = "block_size"

[[series.reported]]
by = "LevelDB"
rows = "phase"
across = "block_size"
columns = [1024, 4096]
data = [["fillseq", 1.5, 2], ["readrandom#2", "0.5x", ""]]

[series.expect]
fillseq.operations = "entries"
readrandom = { operations = "entries", found = "operations" }

[[claim]]
text = "Larger blocks are written faster."
series = "blocks"
of = { phase = "fillseq", block_size = 4096 }
to = { phase = "fillseq", block_size = 1024 }
by = "LevelDB"
expect = "below 1"
"#
        .into()
    }

    fn mistakes(text: &str) -> Vec<Mistake> {
        Experiment::parse("sample", text, &known()).err().unwrap_or_default()
    }

    #[test]
    fn sample_experiment_is_valid() {
        assert_eq!(mistakes(&sample()), []);
    }

    #[test]
    fn each_error_names_its_line() {
        for (right, wrong, line, words) in [
            ("\"leveldb\"]", "\"leveldbb\"]", 2, "unknown engine"),
            ("scale = 0.5", "scale = 2.5", 3, "share"),
            ("cache_size = \"8M\"", "cash_size = \"8M\"", 6, "cash_size"),
            ("cache_size = \"8M\"", "cache_size = \"lots\"", 6, "whole number"),
            ("\"leveled\"", "\"leveled\"\n\"nobody.block_size\" = 1", 8, "unknown engine"),
            ("fillseq,readrandom,readrandom", "fillsideways", 11, "fillsideways"),
            ("entries = 1000", "entries = 0", 12, "entries"),
            ("entries = 1000", "entries = [1000, -5]", 12, "a whole number, 0 or more, or a list"),
            ("entries = 1000", "entries = 1e3", 12, "a whole number, 0 or more, or a list"),
            ("rows = \"phase\"\ncol", "rows = \"colour\"\ncol", 14, "colour"),
            ("\"fillseq\", 1.5, 2]", "\"fillseq\", 1.5]", 22, "2 items"),
            ("\"fillseq\", 1.5, 2]", "\"fillup\", 1.5, 2]", 22, "fillup"),
            ("\"0.5x\"", "\"half\"", 22, "half"),
            ("fillseq.operations", "filseq.operations", 25, "filseq"),
            ("found = \"operations\"", "found = \"most\"", 26, "most"),
            ("series = \"blocks\"", "series = \"block\"", 30, "\"block\""),
            ("of = { phase = \"fillseq\", ", "of = { ", 31, "of: phase is missing"),
            ("to = { phase = \"fillseq\", block_size = 1024 }", "to = {}", 32, "phase"),
            ("block_size = 1024 }", "block_size = 512 }", 32, "512"),
            ("by = \"LevelDB\"\nexpect", "by = \"Nobody\"\nexpect", 28, "Nobody"),
            ("\"below 1\"", "\"faster\"", 34, "above"),
            ("of = { phase", "of = { engine = \"nobody\", phase", 31, "nobody"),
            ("[options]", "[programs.esker]\ncommand = [\"x\"]\n[options]", 5, "engine of the lab"),
            ("[options]", "[programs.other]\ncommand = []\n[options]", 6, "empty"),
            ("[options]", "[programs.\"a b\"]\ncommand = [\"x\"]\n[options]", 5, "character"),
            (
                "[options]",
                "[programs.other]\ncommand = [\"x\"]\ntimeout_s = 0\n[options]",
                7,
                "timeout_s",
            ),
            ("title = ", "titel = ", 1, "titel"),
            ("name = \"blocks\"", "name = \"blocks", 10, ""),
        ] {
            let text = sample().replacen(right, wrong, 1);
            assert_ne!(text, sample(), "{right} is not in the sample");
            let found = mistakes(&text);
            let hit = found.iter().find(|m| m.line == line && m.message.contains(words));
            assert!(hit.is_some(), "{wrong}: {found:?}");
        }
    }

    #[test]
    fn fuzz_experiments() {
        let run = |bytes: &[u8]| {
            let Ok(text) = std::str::from_utf8(bytes) else { return };
            if let Err(mistakes) = Experiment::parse("fuzz", text, &known()) {
                assert!(mistakes.iter().all(|m| !m.message.is_empty()) && !mistakes.is_empty());
            }
        };
        let seeds = || vec![sample().into_bytes()];
        let target = esker_testkit::fuzz::Target { name: "experiment", run, seeds };
        let effort = esker_testkit::fuzz::drive::Effort::Cases(5_000);
        let outcome = esker_testkit::fuzz::drive::drive(&target, Vec::new(), 1, effort);
        outcome.unwrap_or_else(|failed| panic!("{failed}"));
    }
}
