//! A phase as an experiment writes it: shares of operations, which records, how many, how fast.

use serde::Deserialize;
use toml::Value;

use super::generators::{DISTRIBUTIONS, Distribution};
use crate::experiment::expect::Amount;

/// What the store holds when a phase begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Start {
    /// What the phase before left.
    #[default]
    Kept,
    /// Nothing: a new store.
    Empty,
    /// Every record, written in order to a new store, which is not measured.
    Filled,
}

/// The kinds of operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpKind {
    /// Gets a record.
    Read,
    /// Writes a record that may be there; with several fields, one of them.
    Update,
    /// Writes a record that was not there, the next one.
    Insert,
    /// Reads records in order from one on.
    Scan,
    /// Reads a record, then updates it.
    ReadModifyWrite,
    /// Deletes a record.
    Delete,
    /// Moves an iterator to a record.
    Seek,
}

impl OpKind {
    /// YCSB's name.
    pub fn name(self) -> &'static str {
        match self {
            OpKind::Read => "READ",
            OpKind::Update => "UPDATE",
            OpKind::Insert => "INSERT",
            OpKind::Scan => "SCAN",
            OpKind::ReadModifyWrite => "READ-MODIFY-WRITE",
            OpKind::Delete => "DELETE",
            OpKind::Seek => "SEEK",
        }
    }

    /// Whether it changes the store.
    pub fn writes(self) -> bool {
        use OpKind::{Delete, Insert, ReadModifyWrite, Update};
        matches!(self, Update | Insert | ReadModifyWrite | Delete)
    }
}

/// A phase in a file.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PhaseFile {
    /// What the store holds at the start.
    pub start: Start,
    /// Shares of the operations; they need not sum to 1.
    pub read: f64,
    /// See [`OpKind::Update`].
    pub update: f64,
    /// See [`OpKind::Insert`].
    pub insert: f64,
    /// See [`OpKind::Scan`].
    pub scan: f64,
    /// See [`OpKind::ReadModifyWrite`].
    pub rmw: f64,
    /// See [`OpKind::Delete`].
    pub delete: f64,
    /// See [`OpKind::Seek`].
    pub seek: f64,
    /// Which records. Default uniform.
    pub keys: Option<String>,
    /// How many operations, all threads together: an amount. Default `entries`.
    pub operations: Option<Value>,
    /// The phase ends when the store holds so many records: an amount. It ages a store.
    pub until: Option<Value>,
    /// Fewest and most records of a scan. Default 1 and 100.
    pub scan_records: Option<[u64; 2]>,
    /// The first so many threads write only and the others read only.
    pub writers: Option<u64>,
    /// Threads, where they differ from the point's.
    pub threads: Option<u64>,
    /// Operations a second that arrive, done in time or not (open loop). Default: as fast as can be.
    pub rate: Option<f64>,
    /// The records grow by the number of operations before they are chosen.
    pub grow: bool,
    /// Not in tables and figures: it only prepares.
    pub hidden: bool,
}

/// A phase ready to be drawn.
#[derive(Clone, Debug)]
pub struct Phase {
    /// Its name.
    pub name: String,
    /// What the store holds at the start.
    pub start: Start,
    /// The kinds with a share, and each one's.
    pub shares: Vec<(OpKind, f64)>,
    /// Which records.
    pub keys: Distribution,
    /// How many operations.
    pub operations: Amount,
    /// How many records the store holds when the phase ends.
    pub until: Option<Amount>,
    /// Records of a scan.
    pub scan: ScanLength,
    /// Threads that only write.
    pub writers: Option<usize>,
    /// Threads, where they differ from the point's.
    pub threads: Option<usize>,
    /// Operations a second that arrive.
    pub rate: Option<f64>,
    /// The records grow before they are chosen.
    pub grow: bool,
    /// It only prepares.
    pub hidden: bool,
    /// An update writes every field.
    pub write_all_fields: bool,
    /// A read looks at every field, or at one.
    pub read_all_fields: bool,
}

/// How many records a scan reads.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ScanLength {
    /// Fewest.
    pub least: u64,
    /// Most.
    pub most: u64,
    /// By a power law, short ones most often, instead of evenly.
    pub zipfian: bool,
}

impl PhaseFile {
    /// The phase called `name`, or why it is none.
    pub fn phase(&self, name: &str) -> Result<Phase, String> {
        let shares = [
            (OpKind::Read, self.read),
            (OpKind::Update, self.update),
            (OpKind::Insert, self.insert),
            (OpKind::Scan, self.scan),
            (OpKind::ReadModifyWrite, self.rmw),
            (OpKind::Delete, self.delete),
            (OpKind::Seek, self.seek),
        ];
        if shares.iter().any(|(_, share)| !(0.0..=1e9).contains(share)) {
            return Err(format!("phase {name:?}: shares are 0 or more"));
        }
        let shares: Vec<(OpKind, f64)> = shares.into_iter().filter(|(_, s)| *s > 0.0).collect();
        if shares.is_empty() {
            let known = "read, update, insert, scan, rmw, delete, seek";
            return Err(format!("phase {name:?} does nothing: give a share to one of {known}"));
        }
        let keys = self.keys.as_deref().unwrap_or("uniform");
        let keys = Distribution::parse(keys).ok_or_else(|| {
            format!("phase {name:?}: keys {keys:?} is none of {}", DISTRIBUTIONS.join(", "))
        })?;
        let operations = self.operations.clone().unwrap_or_else(|| Value::from("entries"));
        let [least, most] = self.scan_records.unwrap_or([1, 100]);
        if least == 0 || least > most || most > u64::from(u16::MAX) {
            return Err(format!("phase {name:?}: scan_records are 1 to {}, in order", u16::MAX));
        }
        if self.rate.is_some_and(|rate| !(rate > 0.0 && rate <= 1e9)) {
            return Err(format!("phase {name:?}: rate is operations a second, above 0"));
        }
        if self.threads.is_some_and(|threads| !(1..=1024).contains(&threads)) {
            return Err(format!("phase {name:?}: threads are 1 to 1024"));
        }
        if self.until.is_some() && (self.operations.is_some() || self.insert <= self.delete) {
            return Err(format!(
                "phase {name:?}: until goes without operations and with more insert than delete"
            ));
        }
        Ok(Phase {
            name: name.into(),
            start: self.start,
            shares,
            keys,
            operations: Amount::parse(&operations)?,
            until: self.until.as_ref().map(Amount::parse).transpose()?,
            scan: ScanLength { least, most, zipfian: false },
            writers: self.writers.map(|writers| writers as usize),
            threads: self.threads.map(|threads| threads as usize),
            rate: self.rate,
            grow: self.grow,
            hidden: self.hidden,
            write_all_fields: true,
            read_all_fields: true,
        })
    }
}

impl Phase {
    /// Whether any operation changes the store.
    pub fn writes(&self) -> bool {
        self.shares.iter().any(|(kind, _)| kind.writes())
    }

    /// The share of a kind among the others, 0 to 1.
    pub fn share(&self, kind: OpKind) -> f64 {
        let total: f64 = self.shares.iter().map(|(_, share)| share).sum();
        let own: f64 = self.shares.iter().filter(|(k, _)| *k == kind).map(|(_, s)| s).sum();
        own / total
    }

    /// What thread `thread` does: all, or only its role's part.
    pub fn shares_of(&self, thread: usize) -> Vec<(OpKind, f64)> {
        let Some(writers) = self.writers else { return self.shares.clone() };
        let role = |kind: OpKind| kind.writes() == (thread < writers);
        let own: Vec<(OpKind, f64)> =
            self.shares.iter().copied().filter(|(kind, _)| role(*kind)).collect();
        if own.is_empty() { self.shares.clone() } else { own }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn phase(text: &str) -> Result<Phase, String> {
        toml::from_str::<PhaseFile>(text).map_err(|e| e.to_string())?.phase("p")
    }

    #[test]
    fn shares_are_relative_and_roles_split_them() {
        let mixed = phase("read = 3\nupdate = 1\nwriters = 2").expect("right");
        assert_eq!(mixed.share(OpKind::Read), 0.75);
        assert_eq!(mixed.shares_of(1), [(OpKind::Update, 1.0)]);
        assert_eq!(mixed.shares_of(2), [(OpKind::Read, 3.0)]);
        assert!(mixed.writes() && !phase("scan = 1").expect("right").writes());
    }

    #[test]
    fn mistakes_are_sentences() {
        for (text, words) in [
            ("", "does nothing"),
            ("read = -1", "shares"),
            ("read = 1\nkeys = \"normal\"", "zipfian"),
            ("read = 1\noperations = \"lots\"", "amount"),
            ("scan = 1\nscan_records = [9, 3]", "scan_records"),
            ("read = 1\nrate = 0", "rate"),
            ("insert = 1\ndelete = 1\nuntil = \"entries\"", "more insert than delete"),
            ("reed = 1", "reed"),
        ] {
            let error = phase(text).expect_err(text);
            assert!(error.contains(words), "{text}: {error}");
        }
    }
}
