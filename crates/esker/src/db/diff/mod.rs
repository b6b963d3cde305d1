//! The difference of two stores, or of two moments of one store.
//!
//! | module | content |
//! |---|---|
//! | `side` | one of the two: its read state, its moment and its keyspaces |
//! | `keyspace` | the difference of one keyspace, pair by pair |
//! | `places` | where the two can differ: keys and key ranges outside of what they share |
//!
//! A pair can differ only where one side has an entry or a range tombstone that the other lacks: in
//! a memtable, or in a part of a table that the other does not have ([`crate::tree::shared`]). All
//! other entries of a key are the same on both sides, and so is what a reader makes of them. The
//! cost is therefore that of the changes, not that of the stores.
//!
//! Invariants:
//! 1. What is compared is what a read returns, with merge operands applied, at one moment of each
//!    side. Where both sides are of now, pairs expire by the same time.
//! 2. A table counts as shared only if both moments see all of it, and the same of its pairs have
//!    expired for both.

mod keyspace;
mod places;
mod side;

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::Arc;

use super::Db;
use super::snapshot::Snapshot;
use super::state::DbInner;
use crate::base::expiry::Moment;
use crate::error::{Error, ErrorKind, Result};
use crate::tree::catalog::DEFAULT_KEYSPACE;
use crate::tree::lineage::Lineage;
use crate::tree::shared::{Unshared, unshared};
use keyspace::KeyspaceDiff;
use side::{KeyspaceSide, Side};

/// One side of a comparison: a store as of now, or a [`Snapshot`].
#[derive(Clone, Copy)]
pub struct DiffSource<'a> {
    inner: &'a Arc<DbInner>,
    at: Option<Moment>,
}

impl<'a> From<&'a Db> for DiffSource<'a> {
    fn from(db: &'a Db) -> DiffSource<'a> {
        DiffSource { inner: &db.inner, at: None }
    }
}

impl<'a> From<&'a Snapshot> for DiffSource<'a> {
    fn from(snapshot: &'a Snapshot) -> DiffSource<'a> {
        DiffSource { inner: &snapshot.inner, at: Some(snapshot.moment) }
    }
}

/// A value in one of two compared stores.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct DiffValue {
    /// The value.
    pub value: Vec<u8>,
    /// Time at which the pair expires, in milliseconds since 1970. `None` if it does not.
    pub expires_ms: Option<u64>,
}

/// A key whose value, or whose time of expiry, is not the same in two compared stores.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Difference {
    /// Name of the keyspace.
    pub keyspace: Arc<str>,
    /// The key.
    pub key: Vec<u8>,
    /// The pair in the first store. `None` if the first store does not have the key.
    pub old: Option<DiffValue>,
    /// The pair in the second store. `None` if the second store does not have the key.
    pub new: Option<DiffValue>,
}

/// How two compared stores descend from each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Relation {
    /// They are the same store, or copies of its directory.
    SameStore,
    /// The second is a fork of the first, or a fork of a fork.
    Descendant,
    /// The first is a fork of the second, or a fork of a fork.
    Ancestor,
    /// Both are forks that descend from the same store.
    Siblings,
    /// Neither remembers the other, nor a common ancestor.
    Unrelated,
}

impl Relation {
    fn of((a, a_lineage): (u64, &Lineage), (b, b_lineage): (u64, &Lineage)) -> Relation {
        let names = |lineage: &Lineage, id| lineage.ancestors.iter().any(|of| of.store_id == id);
        if a == b {
            Relation::SameStore
        } else if names(b_lineage, a) {
            Relation::Descendant
        } else if names(a_lineage, b) {
            Relation::Ancestor
        } else if a_lineage.ancestors.iter().any(|of| names(b_lineage, of.store_id)) {
            Relation::Siblings
        } else {
            Relation::Unrelated
        }
    }
}

/// Formats the relation as a phrase that fits after "The second store is".
impl std::fmt::Display for Relation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Relation::SameStore => "the same store",
            Relation::Descendant => "a fork of the first",
            Relation::Ancestor => "an ancestor of the first",
            Relation::Siblings => "another fork of a common ancestor",
            Relation::Unrelated => "unrelated to the first",
        })
    }
}

/// Options of [`diff_with`](crate::diff::diff_with).
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct DiffOptions {
    /// Name of the only keyspace to compare. Default: all keyspaces.
    pub keyspace: Option<String>,
}

impl DiffOptions {
    /// Compares only the keyspace of this name.
    pub fn keyspace(mut self, name: impl Into<String>) -> DiffOptions {
        self.keyspace = Some(name.into());
        self
    }
}

/// The differences of two stores, as an iterator: keyspace by keyspace, `default` first and the
/// others by name, and within a keyspace in key order. The iterator ends after an error.
///
/// It holds the files and memtables of both stores as they were at the call, so writes meanwhile
/// change nothing. Drop a long comparison when it is done.
#[non_exhaustive]
pub struct Diff {
    /// How the stores descend from each other.
    pub relation: Relation,
    /// Number of tables that both stores have. If it is 0, every pair is read.
    pub shared_files: u64,
    /// Size of these tables, in bytes.
    pub shared_bytes: u64,
    /// Names of the keyspaces that only the first store has.
    pub keyspaces_only_in_old: Vec<String>,
    /// Names of the keyspaces that only the second store has.
    pub keyspaces_only_in_new: Vec<String>,
    sides: Arc<(Side, Side)>,
    trees: HashMap<(u32, u32), Arc<Unshared>>,
    names: VecDeque<Arc<str>>,
    current: Option<KeyspaceDiff>,
}

/// Compares two stores, or snapshots of stores, and returns the pairs that differ: those of `old`
/// that `new` lacks or has with another value or another time of expiry, and those that only `new`
/// has.
///
/// Tables that both stores share, as a [fork](Db::fork) and its parent do, are read only near
/// changed keys. Two forks with few changes are compared in a time that depends on the changes.
/// Compactions end the sharing of the tables that they rewrite. Stores that share nothing are
/// compared pair by pair.
///
/// Keyspaces are compared by name. A keyspace that one store lacks counts as empty there;
/// [`Diff::keyspaces_only_in_old`] names it also if it has no pairs.
///
/// ```
/// # fn main() -> esker::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// use esker::{Db, Options};
/// let db = Db::open(dir.path().join("db"), Options::default())?;
/// db.put("apple", "red")?;
/// db.put("lime", "green")?;
/// db.fork(dir.path().join("fork"))?;
/// let fork = Db::open(dir.path().join("fork"), Options::default())?;
/// fork.put("apple", "green")?;
/// fork.delete("lime")?;
///
/// for found in esker::diff::diff(&db, &fork)? {
///     let found = found?;
///     println!("{:?}: {:?} -> {:?}", found.key, found.old, found.new);
/// }
/// # assert_eq!(esker::diff::diff(&db, &fork)?.count(), 2);
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// `Incompatible` when a keyspace of the same name has different key orders; `Closed`. The iterator
/// returns the errors of reads: `Corruption` for damage where a table is read, `Io`.
pub fn diff<'a>(old: impl Into<DiffSource<'a>>, new: impl Into<DiffSource<'a>>) -> Result<Diff> {
    diff_with(old, new, &DiffOptions::default())
}

/// Does the same as [`diff`](crate::diff::diff), with options.
///
/// # Errors
/// The same as [`diff`](crate::diff::diff); `NotFound` when neither store has the keyspace.
pub fn diff_with<'a>(
    old: impl Into<DiffSource<'a>>,
    new: impl Into<DiffSource<'a>>,
    options: &DiffOptions,
) -> Result<Diff> {
    let (old, new) = (old.into(), new.into());
    let (mut a, mut b) = (Side::new(old.inner, old.at)?, Side::new(new.inner, new.at)?);
    if old.at.is_none() && new.at.is_none() {
        let at_ms = a.moment.at_ms.max(b.moment.at_ms);
        (a.moment.at_ms, b.moment.at_ms) = (at_ms, at_ms);
    }
    Diff::new(a, b, options)
}

impl Diff {
    fn new(a: Side, b: Side, options: &DiffOptions) -> Result<Diff> {
        let asked = |name: &&String| options.keyspace.as_ref().is_none_or(|only| only == *name);
        let names: BTreeSet<&String> = a.names().chain(b.names()).filter(asked).collect();
        if let (true, Some(name)) = (names.is_empty(), &options.keyspace) {
            let message = format!("neither store has a keyspace \"{name}\"");
            return Err(Error::not_found(message));
        }
        let lacks = |side: &Side| {
            let names = names.iter().filter(|name| side.keyspace(name).is_none());
            names.map(|name| String::clone(name)).collect::<Vec<_>>()
        };
        let (keyspaces_only_in_old, keyspaces_only_in_new) = (lacks(&b), lacks(&a));
        let mut trees = HashMap::new();
        for name in &names {
            let (Some(in_a), Some(in_b)) = (a.keyspace(name), b.keyspace(name)) else { continue };
            let orders = (in_a.user_order().name(), in_b.user_order().name());
            if orders.0 != orders.1 {
                let message = format!(
                    "the keys of the keyspace \"{name}\" are ordered by {} in the first store and \
                     by {} in the second, so the two cannot be compared",
                    orders.0, orders.1
                );
                return Err(Error::new(ErrorKind::Incompatible, message));
            }
            if in_a.id() == in_b.id() {
                let found = trees.entry((in_a.tree_id(), in_b.tree_id()));
                found.or_insert_with(|| Arc::new(unshared_of((&a, in_a), (&b, in_b))));
            }
        }
        let lineages = (a.lineage(), b.lineage());
        let relation = Relation::of((a.store_id(), &lineages.0), (b.store_id(), &lineages.1));
        // In the order of names, with `default` first.
        let mut ordered: VecDeque<Arc<str>> =
            names.iter().map(|name| Arc::from(&***name)).collect();
        if let Some(at) = ordered.iter().position(|name| &**name == DEFAULT_KEYSPACE) {
            let first = ordered.remove(at);
            first.into_iter().for_each(|name| ordered.push_front(name));
        }
        Ok(Diff {
            relation,
            shared_files: trees.values().map(|found| found.shared_files).sum(),
            shared_bytes: trees.values().map(|found| found.shared_bytes).sum(),
            keyspaces_only_in_old,
            keyspaces_only_in_new,
            names: ordered,
            sides: Arc::new((a, b)),
            trees,
            current: None,
        })
    }

    /// Returns whether the stores have the same keyspaces and no pair differs. Reads up to the first
    /// difference.
    ///
    /// # Errors
    /// The errors of reads.
    pub fn is_empty(mut self) -> Result<bool> {
        if !(self.keyspaces_only_in_old.is_empty() && self.keyspaces_only_in_new.is_empty()) {
            return Ok(false);
        }
        self.next().transpose().map(|found| found.is_none())
    }

    fn step(&mut self) -> Result<Option<Difference>> {
        loop {
            if let Some(current) = &mut self.current {
                if let Some(found) = current.step()? {
                    return Ok(Some(found));
                }
                self.current = None;
            }
            let Some(name) = self.names.pop_front() else { return Ok(None) };
            let (a, b) = &*self.sides;
            let (in_a, in_b) = (a.keyspace(&name), b.keyspace(&name));
            let shared = in_a.zip(in_b).filter(|(in_a, in_b)| in_a.id() == in_b.id());
            let shared = shared.and_then(|(in_a, in_b)| {
                self.trees.get(&(in_a.tree_id(), in_b.tree_id())).filter(|t| t.shared_files > 0)
            });
            self.current = Some(KeyspaceDiff::new(name, (a, in_a), (b, in_b), shared)?);
        }
    }
}

/// Returns what the trees of a keyspace on both sides do not share.
fn unshared_of((a, in_a): (&Side, &KeyspaceSide), (b, in_b): (&Side, &KeyspaceSide)) -> Unshared {
    let seqno = a.moment.seqno.min(b.moment.seqno);
    let same_time = a.moment.at_ms == b.moment.at_ms;
    let (a, b) = (a.version_of(in_a), b.version_of(in_b));
    let (Some(a), Some(b)) = (a, b) else { return Unshared::default() };
    unshared(a, b, |file| file.info.seqno_max <= seqno && (same_time || file.info.expiring == 0))
}

impl Iterator for Diff {
    type Item = Result<Difference>;

    fn next(&mut self) -> Option<Result<Difference>> {
        let found = self.step();
        if found.is_err() {
            self.names.clear();
            self.current = None;
        }
        found.transpose()
    }
}

impl std::iter::FusedIterator for Diff {}

impl std::fmt::Debug for Diff {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Diff({:?}, {} shared tables)", self.relation, self.shared_files)
    }
}
