//! Reads of all keyspaces of a store, and their digests.

use std::ops::Bound;

use esker::{Db, DbIterator, KeyOrder, ReadOptions, Snapshot};

use super::digests::{Digest, Digests};
use super::keyspaces::{PREPARED, Pair, find, is_unlogged};
use super::tally::{Finding, Verdict, lost};

/// Behaviour forbidden to a store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation(pub String);

/// The reason why a complete read ended early.
#[derive(Debug)]
pub enum ReadError {
    /// The store returned an error.
    Store(esker::Error),
    /// The store's answer was wrong.
    Violation(Violation),
}

impl From<esker::Error> for ReadError {
    fn from(error: esker::Error) -> ReadError {
        ReadError::Store(error)
    }
}

impl From<Violation> for ReadError {
    fn from(violation: Violation) -> ReadError {
        ReadError::Violation(violation)
    }
}

impl ReadError {
    /// Returns the error as the finding of a campaign that was `doing` something.
    pub fn finding(self, doing: &str) -> Finding {
        match self {
            ReadError::Store(error) => lost(doing)(error),
            ReadError::Violation(violation) => (Verdict::Wrong, violation.0),
        }
    }
}

/// The content of all keyspaces.
#[derive(Debug, Clone, Default)]
pub struct Content {
    /// The digests of the logged pairs of each keyspace, and of the names of the prepared
    /// transactions.
    pub digests: Digests,
    /// All pairs, ordered by keyspace and bytewise by key. The names of prepared transactions are
    /// keys under the name [`PREPARED`].
    pub pairs: Vec<Pair>,
}

/// Reads all pairs of all keyspaces, each in its key order, now or at a snapshot.
///
/// # Errors
/// The store's error, or a violation of the order.
pub fn content(db: &Db, snapshot: Option<&Snapshot>) -> Result<Content, ReadError> {
    let mut found = Content::default();
    for name in db.keyspaces() {
        let keyspace = find(db, &name)?;
        let options = ReadOptions::default().snapshot(snapshot);
        let all = (Bound::Unbounded, Bound::Unbounded);
        let iter = keyspace.iter_with(&options, all)?;
        add(&mut found, &name, keyspace.key_order(), iter)?;
    }
    if snapshot.is_none() {
        for name in db.prepared_transactions() {
            found.digests.add(PREPARED, name.as_bytes(), b"");
            found.pairs.push((PREPARED.to_string(), name.into_bytes(), Vec::new()));
        }
    }
    found.pairs.sort();
    Ok(found)
}

fn add(
    found: &mut Content,
    name: &str,
    order: &KeyOrder,
    iter: DbIterator,
) -> Result<(), ReadError> {
    let (mut digest, first) = (Digest::default(), found.pairs.len());
    for pair in iter {
        let (key, value) = pair?;
        let last = found.pairs[first..].last();
        if last.is_some_and(|(_, last, _)| order.compare(last, &key).is_ge()) {
            let message = format!("keys of {name} out of order at {}", key.escape_ascii());
            return Err(Violation(message).into());
        }
        let pair = (name.to_string(), key, value);
        if !is_unlogged(&pair) {
            digest.add(&pair.1, &pair.2);
        }
        found.pairs.push(pair);
    }
    found.digests.set(name, digest);
    Ok(())
}

/// Reads all pairs of all keyspaces backwards. The result is ordered as [`Content::pairs`].
///
/// # Errors
/// The store's error.
pub fn backwards(db: &Db) -> esker::Result<Vec<Pair>> {
    let mut pairs = Vec::new();
    for name in db.keyspaces() {
        let keyspace = find(db, &name)?;
        let own: Vec<(Vec<u8>, Vec<u8>)> = keyspace.iter()?.rev().collect::<esker::Result<_>>()?;
        let reversed = matches!(keyspace.key_order(), KeyOrder::Reverse);
        let of_keyspace = |(key, value)| (name.clone(), key, value);
        if reversed {
            pairs.extend(own.into_iter().map(of_keyspace));
        } else {
            pairs.extend(own.into_iter().rev().map(of_keyspace));
        }
    }
    pairs.sort_by(|a, b| a.0.cmp(&b.0));
    Ok(pairs)
}
