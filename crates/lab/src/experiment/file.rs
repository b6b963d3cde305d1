//! Structure of an experiment's TOML file. `check` validates its meaning.
//!
//! Sizes are those of the document that the experiment repeats. `scale` is the default fraction of
//! these sizes.

use std::collections::BTreeMap;

use serde::Deserialize;
use toml::{Spanned, Value};

use super::program::ProgramFile;
use crate::mix::phase::PhaseFile;

/// A whole experiment file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExperimentFile {
    /// One-line title.
    pub title: String,
    /// Measured quantities and purpose, in prose without Markdown.
    #[serde(default)]
    pub about: String,
    /// The document repeated by the experiment.
    pub document: Option<String>,
    /// Names of the engines.
    pub engines: Spanned<Vec<Spanned<String>>>,
    /// Runs of each engine at each point. Default 3.
    #[serde(default = "repetitions_default")]
    pub repetitions: Spanned<u64>,
    /// Default fraction of the document's sizes. Default 1.
    #[serde(default = "scale_default")]
    pub scale: Spanned<f64>,
    /// Seed of data and operations. Default 301.
    pub seed: Option<u64>,
    /// Options for every engine, under the flag names of `esker bench`, or `ENGINE.name` for one
    /// engine, which takes precedence there.
    #[serde(default)]
    pub options: Options,
    /// Options that shrink with the sizes, so that data and memory keep their proportion.
    #[serde(default)]
    pub scaled_options: Vec<Spanned<String>>,
    /// Minimum of a scaled option, in bytes. Default 64 KiB.
    pub scaled_min: Option<Spanned<Value>>,
    /// Phases of mixed workloads, by name.
    #[serde(default)]
    pub phases: BTreeMap<Spanned<String>, Spanned<PhaseFile>>,
    /// Programs that run the rounds of engines, by the engines' names.
    #[serde(default)]
    pub programs: BTreeMap<Spanned<String>, ProgramFile>,
    /// Tables and figures.
    pub series: Vec<Spanned<SeriesFile>>,
    /// Claims of the document, each tested on the measured figures.
    #[serde(default, rename = "claim")]
    pub claims: Vec<Spanned<ClaimFile>>,
}

/// Options by name.
pub type Options = BTreeMap<Spanned<String>, Spanned<Value>>;

/// One table or figure of the document.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SeriesFile {
    /// Name, unique in the file.
    pub name: String,
    /// One-line description.
    #[serde(default)]
    pub about: String,
    /// db_bench's tasks, comma-separated, run in order on one store.
    pub tasks: Option<Spanned<String>>,
    /// Phases of a mixed workload, run in order on one store: the file's own, or `ycsb load a`,
    /// `ycsb a` to `ycsb f`.
    pub phases: Option<Spanned<Vec<Spanned<String>>>>,
    /// Number of times the phases are repeated on one store.
    pub steps: Option<Spanned<u64>>,
    /// Size added per step, in the document's unit (for example megabytes). Default 1.
    pub step_size: Option<f64>,
    /// Operations of a YCSB run phase, as an amount. Default `entries`.
    pub operations: Option<Spanned<Value>>,
    /// Form of the keys of phases: `decimal` (of `key_size`), `plain`, `binary` or `hashed`.
    pub keys: Option<Spanned<String>>,
    /// YCSB's properties.
    #[serde(default)]
    pub ycsb: BTreeMap<Spanned<String>, Value>,
    /// Memory limit for engine and page cache together, scaled with the sizes. The report states if
    /// the operating system does not allow a limit.
    pub memory_limit: Option<Spanned<Value>>,
    /// Takes records from the columns of a CSV file, which is named when the experiment is run.
    pub csv: Option<Columns>,
    /// Number of pairs at full scale: one size or several.
    pub entries: Spanned<OneOrMany>,
    /// Number of threads: one or several. Default 1.
    #[serde(default = "one")]
    pub threads: Spanned<OneOrMany>,
    /// Options with several values, one point per value; several options are crossed.
    #[serde(default)]
    pub vary: BTreeMap<Spanned<String>, Spanned<Vec<Value>>>,
    /// Options that override those of the file.
    #[serde(default)]
    pub options: Options,
    /// Engines, if different from the file's.
    pub engines: Option<Spanned<Vec<Spanned<String>>>>,
    /// Repetitions, if different from the file's.
    pub repetitions: Option<Spanned<u64>>,
    /// Scale, if different from the file's.
    pub scale: Option<Spanned<f64>>,
    /// Row axis of the table: `phase`, `entries`, `threads`, `engine` or a varied option.
    pub rows: Option<Spanned<String>>,
    /// Column axis of the table.
    pub columns: Option<Spanned<String>>,
    /// Displayed unit. Default `us/op`.
    pub unit: Option<Spanned<String>>,
    /// Additional display units.
    #[serde(default)]
    pub also: Vec<Spanned<String>>,
    /// Options that shrink with the sizes, in addition to the file's.
    #[serde(default)]
    pub scaled_options: Vec<Spanned<String>>,
    /// Figures reported by the document.
    #[serde(default)]
    pub reported: Vec<Spanned<ReportedFile>>,
    /// Expected results of each phase, by the phase's name.
    #[serde(default)]
    pub expect: BTreeMap<Spanned<String>, Expect>,
}

/// Columns of a CSV file, by name or number.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Columns {
    /// Column of the keys.
    pub key: String,
    /// Column of the values.
    pub value: String,
}

/// A number or a list of numbers.
#[derive(Clone, Debug, Deserialize)]
#[serde(
    untagged,
    expecting = "expected a whole number, 0 or more, or a list of them: 1_000 or [1_000, 4_000]"
)]
pub enum OneOrMany {
    /// One number.
    One(u64),
    /// Several numbers.
    Many(Vec<u64>),
}

impl OneOrMany {
    /// Returns all numbers.
    pub fn all(&self) -> Vec<u64> {
        match self {
            OneOrMany::One(one) => vec![*one],
            OneOrMany::Many(many) => many.clone(),
        }
    }
}

/// Figures as printed in a document.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReportedFile {
    /// Store the figures are for. Omitted if the rows name it.
    pub by: Option<String>,
    /// Unit, if different from the series'.
    pub unit: Option<Spanned<String>>,
    /// Parameters common to all figures.
    #[serde(default)]
    pub at: BTreeMap<String, Value>,
    /// Meaning of each row's first item: `by`, `phase`, or a parameter's name.
    pub rows: Spanned<String>,
    /// Column axis. Default `phase`.
    #[serde(default = "phase")]
    pub across: String,
    /// Names or values of the columns.
    pub columns: Vec<Value>,
    /// Rows: a name or value, then one figure per column. A text such as `"0.31x"` is a multiple of
    /// the first row's figure; `""` means no figure.
    pub data: Vec<Spanned<Vec<Value>>>,
}

/// Expected results of a phase.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Expect {
    /// Number of operations: a number, or `entries`, optionally divided or multiplied
    /// (`entries/1000`).
    pub operations: Option<Spanned<Value>>,
    /// Number of keys found by reads: the same forms, or `operations` for all.
    pub found: Option<Spanned<Value>>,
    /// Number of pairs in the store at the end of the run, for the phase `end`.
    pub pairs: Option<Spanned<Value>>,
    /// Checksum of those pairs at the default scale, in hexadecimal, for the phase `end`.
    pub checksum: Option<Spanned<String>>,
}

/// A claim of the document: one figure divided by another one.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClaimFile {
    /// The claim, in one sentence.
    pub text: String,
    /// Series of both figures. A place may name another one.
    pub series: Spanned<String>,
    /// Place of the figure above the line.
    pub of: Spanned<PlaceFile>,
    /// Place of the figure below the line.
    pub to: Spanned<PlaceFile>,
    /// Unit of both figures. Default: the unit of the series.
    pub unit: Option<Spanned<String>>,
    /// Store in the document whose figures are the claim's. A place may name another one.
    pub by: Option<String>,
    /// Quotients for which the claim is true: `above 1.2`, `below 0.8` or `0.95 to 1.05`.
    pub expect: Spanned<String>,
    /// Engines that the claim is tested on. Default: all that were measured.
    pub engines: Option<Spanned<Vec<Spanned<String>>>>,
    /// Cause of what was measured, in prose without Markdown.
    #[serde(default)]
    pub explanation: String,
}

/// Place of a figure: `phase`, `entries`, `threads`, `step`, `engine`, a varied option, and
/// `series` or `by` if they differ from the claim's.
pub type PlaceFile = BTreeMap<String, Value>;

fn repetitions_default() -> Spanned<u64> {
    Spanned::new(0..0, 3)
}

fn scale_default() -> Spanned<f64> {
    Spanned::new(0..0, 1.0)
}

fn one() -> Spanned<OneOrMany> {
    Spanned::new(0..0, OneOrMany::One(1))
}

fn phase() -> String {
    "phase".into()
}
