//! The shape of an experiment's TOML file, as it is written. Meaning is checked in `check`.
//!
//! Sizes are those of the document the experiment repeats; `scale` is the share of them that is
//! run when nothing else is asked for.

use std::collections::BTreeMap;

use serde::Deserialize;
use toml::{Spanned, Value};

use crate::mix::phase::PhaseFile;

/// A whole file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExperimentFile {
    /// One line for people.
    pub title: String,
    /// What it measures and why, in Markdown-free prose.
    #[serde(default)]
    pub about: String,
    /// The document it repeats.
    pub document: Option<String>,
    /// Engines by name.
    pub engines: Spanned<Vec<Spanned<String>>>,
    /// Turns of each engine at each point. Default 3.
    #[serde(default = "repetitions_default")]
    pub repetitions: Spanned<u64>,
    /// Share of the document's sizes that is run by default. Default 1.
    #[serde(default = "scale_default")]
    pub scale: Spanned<f64>,
    /// Seed of data and operations. Default 301.
    pub seed: Option<u64>,
    /// Options for every engine, by `esker bench`'s flag names, or `ENGINE.name` for one, which
    /// prevails there.
    #[serde(default)]
    pub options: Options,
    /// Options that shrink with the sizes, so that data and memory keep their proportion.
    #[serde(default)]
    pub scaled_options: Vec<Spanned<String>>,
    /// Fewest bytes a scaled option shrinks to. Default 64 KiB.
    pub scaled_min: Option<Spanned<Value>>,
    /// Phases of mixed workloads, by name.
    #[serde(default)]
    pub phases: BTreeMap<Spanned<String>, Spanned<PhaseFile>>,
    /// Tables and figures.
    pub series: Vec<Spanned<SeriesFile>>,
}

/// Options by name.
pub type Options = BTreeMap<Spanned<String>, Spanned<Value>>;

/// One table or figure of the document.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SeriesFile {
    /// Its name, unique in the file.
    pub name: String,
    /// One line for people.
    #[serde(default)]
    pub about: String,
    /// db_bench's tasks, comma-separated, run in order on one store.
    pub tasks: Option<Spanned<String>>,
    /// Phases of a mixed workload, run in order on one store: the file's own, or `ycsb load a`,
    /// `ycsb a` to `ycsb f`.
    pub phases: Option<Spanned<Vec<Spanned<String>>>>,
    /// The phases are gone through so many times on one store.
    pub steps: Option<Spanned<u64>>,
    /// What a step adds, as the document counts it (megabytes, say). Default 1.
    pub step_size: Option<f64>,
    /// Operations of a YCSB run: an amount. Default `entries`.
    pub operations: Option<Spanned<Value>>,
    /// How keys of phases look: `decimal` (of `key_size`), `plain`, `binary` or `hashed`.
    pub keys: Option<Spanned<String>>,
    /// YCSB's properties.
    #[serde(default)]
    pub ycsb: BTreeMap<Spanned<String>, Value>,
    /// Memory of engine and page cache together, scaled with the sizes; where the system does not
    /// allow a limit, the report says so.
    pub memory_limit: Option<Spanned<Value>>,
    /// Records come from the columns of a CSV file, named when the experiment is run.
    pub csv: Option<Columns>,
    /// Pairs, at full scale: one size or several.
    pub entries: Spanned<OneOrMany>,
    /// Threads: one count or several. Default 1.
    #[serde(default = "one")]
    pub threads: Spanned<OneOrMany>,
    /// Options that take several values, one point each; several options are crossed.
    #[serde(default)]
    pub vary: BTreeMap<Spanned<String>, Spanned<Vec<Value>>>,
    /// Options over those of the file.
    #[serde(default)]
    pub options: Options,
    /// Engines, where they differ from the file's.
    pub engines: Option<Spanned<Vec<Spanned<String>>>>,
    /// Repetitions, where they differ from the file's.
    pub repetitions: Option<Spanned<u64>>,
    /// Scale, where it differs from the file's.
    pub scale: Option<Spanned<f64>>,
    /// What the rows of the table are: `phase`, `entries`, `threads`, `engine` or a varied option.
    pub rows: Option<Spanned<String>>,
    /// What its columns are.
    pub columns: Option<Spanned<String>>,
    /// The unit shown. Default `us/op`.
    pub unit: Option<Spanned<String>>,
    /// More units that its figures are shown in.
    #[serde(default)]
    pub also: Vec<Spanned<String>>,
    /// Options that shrink with the sizes, besides the file's.
    #[serde(default)]
    pub scaled_options: Vec<Spanned<String>>,
    /// Figures the document reported.
    #[serde(default)]
    pub reported: Vec<Spanned<ReportedFile>>,
    /// What each phase must produce, by the phase's name.
    #[serde(default)]
    pub expect: BTreeMap<Spanned<String>, Expect>,
}

/// Columns of a CSV file, by name or number.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Columns {
    /// The keys'.
    pub key: String,
    /// The values'.
    pub value: String,
}

/// A number or a list of numbers.
#[derive(Clone, Debug, Deserialize)]
#[serde(
    untagged,
    expecting = "expected a whole number, 0 or more, or a list of them: 1_000 or [1_000, 4_000]"
)]
pub enum OneOrMany {
    /// One.
    One(u64),
    /// Several.
    Many(Vec<u64>),
}

impl OneOrMany {
    /// All of them.
    pub fn all(&self) -> Vec<u64> {
        match self {
            OneOrMany::One(one) => vec![*one],
            OneOrMany::Many(many) => many.clone(),
        }
    }
}

/// Figures as a document printed them.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReportedFile {
    /// Whose figures: the store's name. Left out where the rows name it.
    pub by: Option<String>,
    /// Their unit, where it differs from the series'.
    pub unit: Option<Spanned<String>>,
    /// Parameters that hold for all of them.
    #[serde(default)]
    pub at: BTreeMap<String, Value>,
    /// What the first item of each row is: `by`, `phase`, or a parameter's name.
    pub rows: Spanned<String>,
    /// What the columns are. Default `phase`.
    #[serde(default = "phase")]
    pub across: String,
    /// The columns' names or values.
    pub columns: Vec<Value>,
    /// The rows: a name or value, then one figure for each column. A text such as `"0.31x"` is a
    /// multiple of the first row's figure; `""` is no figure.
    pub data: Vec<Spanned<Vec<Value>>>,
}

/// What a phase must produce.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Expect {
    /// Operations: a number, or `entries`, optionally divided or multiplied (`entries/1000`).
    pub operations: Option<Spanned<Value>>,
    /// Keys found by reads: the same, or `operations` for all.
    pub found: Option<Spanned<Value>>,
    /// Pairs the store holds when the turn ends, for the phase `end`.
    pub pairs: Option<Spanned<Value>>,
    /// Checksum of those pairs at the default scale, in hexadecimal, for the phase `end`.
    pub checksum: Option<Spanned<String>>,
}

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
