//! A phase as written in an experiment: shares of operations, distribution, number and rate.

use serde::Deserialize;
use toml::Value;

use super::generators::{DISTRIBUTIONS, Distribution};
use super::space::Space;
use crate::experiment::expect::Amount;

/// Content of the store at the start of a phase.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Start {
    /// Content left by the previous phase.
    #[default]
    Kept,
    /// Empty: a new store.
    Empty,
    /// All records, written in order to a new store; the writes are not measured.
    Filled,
}

/// Kinds of operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpKind {
    /// Gets a record.
    Read,
    /// Writes an existing or missing record; with several fields, one field.
    Update,
    /// Writes the next new record.
    Insert,
    /// Reads consecutive records from a start record.
    Scan,
    /// Reads a record, then updates it.
    ReadModifyWrite,
    /// Deletes a record.
    Delete,
    /// Seeks an iterator to a record.
    Seek,
}

impl OpKind {
    /// Returns YCSB's name of the kind.
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

    /// Returns the kind of this name.
    pub fn parse(name: &str) -> Option<OpKind> {
        use OpKind::{Delete, Insert, Read, ReadModifyWrite, Scan, Seek, Update};
        let all = [Read, Update, Insert, Scan, ReadModifyWrite, Delete, Seek];
        all.into_iter().find(|kind| kind.name() == name)
    }

    /// Returns whether the kind changes the store.
    pub fn writes(self) -> bool {
        use OpKind::{Delete, Insert, ReadModifyWrite, Update};
        matches!(self, Update | Insert | ReadModifyWrite | Delete)
    }
}

/// A phase in an experiment file.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PhaseFile {
    /// Content of the store at the start.
    pub start: Start,
    /// Share of reads. The shares need not sum to 1.
    pub read: f64,
    /// Share of [`OpKind::Update`].
    pub update: f64,
    /// Share of [`OpKind::Insert`].
    pub insert: f64,
    /// Share of [`OpKind::Scan`].
    pub scan: f64,
    /// Share of [`OpKind::ReadModifyWrite`].
    pub rmw: f64,
    /// Share of [`OpKind::Delete`].
    pub delete: f64,
    /// Share of [`OpKind::Seek`].
    pub seek: f64,
    /// Distribution over the records. Default uniform.
    pub keys: Option<String>,
    /// Number of operations of all threads together, as an amount. Default `entries`.
    pub operations: Option<Value>,
    /// Number of records in the store that ends the phase, as an amount. Used to age a store.
    pub until: Option<Value>,
    /// Minimum and maximum number of records of a scan. Default 1 and 100.
    pub scan_records: Option<[u64; 2]>,
    /// Number of threads, counted from the first, that only write; the others only read.
    pub writers: Option<u64>,
    /// Number of threads, if different from the point's.
    pub threads: Option<u64>,
    /// Arrival rate in operations per second, independent of completions (open loop). Default: no
    /// limit.
    pub rate: Option<f64>,
    /// Arrival rate of the `writers` threads in operations per second, of all of them together. The
    /// other threads read without a rate, over and over, until the writers are done.
    pub writes_per_second: Option<f64>,
    /// Grows the record range by the number of operations before the records are chosen.
    pub grow: bool,
    /// Excludes the phase from tables and figures, for preparation phases.
    pub hidden: bool,
}

/// A phase ready to be drawn.
#[derive(Clone, Debug)]
pub struct Phase {
    /// Name of the phase.
    pub name: String,
    /// Content of the store at the start.
    pub start: Start,
    /// Kinds with a share above 0, and the shares.
    pub shares: Vec<(OpKind, f64)>,
    /// Distribution over the records.
    pub keys: Distribution,
    /// Number of operations.
    pub operations: Amount,
    /// Number of records in the store that ends the phase.
    pub until: Option<Amount>,
    /// Number of records of a scan.
    pub scan: ScanLength,
    /// Number of threads that only write.
    pub writers: Option<usize>,
    /// Number of threads, if different from the point's.
    pub threads: Option<usize>,
    /// Arrival rate in operations per second.
    pub rate: Option<f64>,
    /// Arrival rate of the writing threads in operations per second; the others read until they are
    /// done.
    pub writes_per_second: Option<f64>,
    /// Whether the record range grows before the records are chosen.
    pub grow: bool,
    /// Whether the phase only prepares the store.
    pub hidden: bool,
    /// Whether an update writes all fields or one.
    pub write_all_fields: bool,
    /// Whether a read checks all fields or one.
    pub read_all_fields: bool,
}

/// Number of records read by a scan.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ScanLength {
    /// Minimum.
    pub least: u64,
    /// Maximum.
    pub most: u64,
    /// Power law with short scans most often, instead of uniform.
    pub zipfian: bool,
}

impl PhaseFile {
    /// Converts to the phase named `name`. The error states the mistake.
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
            return Err(format!("phase {name:?}: shares must be 0 or more"));
        }
        let shares: Vec<(OpKind, f64)> = shares.into_iter().filter(|(_, s)| *s > 0.0).collect();
        if shares.is_empty() {
            let known = "read, update, insert, scan, rmw, delete, seek";
            return Err(format!("phase {name:?} does nothing; give a share to one of {known}"));
        }
        let keys = self.keys.as_deref().unwrap_or("uniform");
        let keys = Distribution::parse(keys).ok_or_else(|| {
            format!("phase {name:?}: keys {keys:?} is not one of {}", DISTRIBUTIONS.join(", "))
        })?;
        let operations = self.operations.clone().unwrap_or_else(|| Value::from("entries"));
        let [least, most] = self.scan_records.unwrap_or([1, 100]);
        if least == 0 || least > most || most > u64::from(u16::MAX) {
            return Err(format!(
                "phase {name:?}: scan_records must be 1 to {}, in order",
                u16::MAX
            ));
        }
        self.check_rates(name)?;
        if self.threads.is_some_and(|threads| !(1..=1024).contains(&threads)) {
            return Err(format!("phase {name:?}: threads must be 1 to 1024"));
        }
        if self.until.is_some() && (self.operations.is_some() || self.insert <= self.delete) {
            return Err(format!(
                "phase {name:?}: until needs a phase without operations and with more insert than \
                 delete"
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
            writes_per_second: self.writes_per_second,
            grow: self.grow,
            hidden: self.hidden,
            write_all_fields: true,
            read_all_fields: true,
        })
    }

    fn check_rates(&self, name: &str) -> Result<(), String> {
        for (field, rate) in [("rate", self.rate), ("writes_per_second", self.writes_per_second)] {
            if rate.is_some_and(|rate| !(rate > 0.0 && rate <= 1e9)) {
                return Err(format!(
                    "phase {name:?}: {field} is in operations per second and must be above 0"
                ));
            }
        }
        if self.writes_per_second.is_none() {
            return Ok(());
        }
        if self.rate.is_some() || self.writers.unwrap_or(0) == 0 {
            return Err(format!(
                "phase {name:?}: writes_per_second needs writers of at least 1 and no rate"
            ));
        }
        Ok(())
    }
}

impl Phase {
    /// Returns the phase with other numbers in place of those that depend on nothing. Amounts in
    /// entries or operations stay.
    pub fn with_counts(self, count: impl Fn(u64) -> u64) -> Phase {
        let with =
            |amount: Amount| amount.fixed().map_or(amount, |number| Amount::number(count(number)));
        Phase { operations: with(self.operations), until: self.until.map(with), ..self }
    }

    /// Returns whether any operation changes the store.
    pub fn writes(&self) -> bool {
        self.shares.iter().any(|(kind, _)| kind.writes())
    }

    /// Returns the share of a kind among all kinds, from 0 to 1.
    pub fn share(&self, kind: OpKind) -> f64 {
        let total: f64 = self.shares.iter().map(|(_, share)| share).sum();
        let own: f64 = self.shares.iter().filter(|(k, _)| *k == kind).map(|(_, s)| s).sum();
        own / total
    }

    /// Returns the shares of thread `thread`: all, or only those of its role.
    pub fn shares_of(&self, thread: usize) -> Vec<(OpKind, f64)> {
        let Some(writers) = self.writers else { return self.shares.clone() };
        let role = |kind: OpKind| kind.writes() == (thread < writers);
        let own: Vec<(OpKind, f64)> =
            self.shares.iter().copied().filter(|(kind, _)| role(*kind)).collect();
        if own.is_empty() { self.shares.clone() } else { own }
    }
}

/// Returns the bytes of `extra` records and of those that phases over `entries` records write.
pub fn written_bytes<'a>(
    phases: impl IntoIterator<Item = &'a Phase>,
    entries: u64,
    extra: u64,
    space: &Space,
) -> u64 {
    let writes = phases.into_iter().filter(|phase| phase.writes());
    let written: u64 = writes.map(|phase| phase.operations.value(entries, entries)).sum();
    ((written + extra) as f64 * space.pair_bytes_mean()) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn phase(text: &str) -> Result<Phase, String> {
        toml::from_str::<PhaseFile>(text).map_err(|e| e.to_string())?.phase("p")
    }

    #[test]
    fn shares_are_relative_and_split_by_role() {
        let mixed = phase("read = 3\nupdate = 1\nwriters = 2").expect("right");
        assert_eq!(mixed.share(OpKind::Read), 0.75);
        assert_eq!(mixed.shares_of(1), [(OpKind::Update, 1.0)]);
        assert_eq!(mixed.shares_of(2), [(OpKind::Read, 3.0)]);
        assert!(mixed.writes() && !phase("scan = 1").expect("right").writes());
    }

    #[test]
    fn invalid_phases_return_error_message() {
        for (text, words) in [
            ("", "does nothing"),
            ("read = -1", "shares"),
            ("read = 1\nkeys = \"normal\"", "zipfian"),
            ("read = 1\noperations = \"lots\"", "amount"),
            ("scan = 1\nscan_records = [9, 3]", "scan_records"),
            ("read = 1\nrate = 0", "rate"),
            ("update = 1\nwriters = 1\nwrites_per_second = 0", "writes_per_second"),
            ("update = 1\nwrites_per_second = 9", "writers of at least 1"),
            ("update = 1\nwriters = 1\nrate = 1\nwrites_per_second = 9", "no rate"),
            ("insert = 1\ndelete = 1\nuntil = \"entries\"", "more insert than delete"),
            ("reed = 1", "reed"),
        ] {
            let error = phase(text).expect_err(text);
            assert!(error.contains(words), "{text}: {error}");
        }
    }
}
