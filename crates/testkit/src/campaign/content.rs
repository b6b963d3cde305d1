//! Reads of all keyspaces of a store, and their digests.

use std::ops::Bound;

use esker::{Db, DbIterator, KeyOrder, ReadOptions, Snapshot};

use super::keyspaces::{DEFAULT, PREPARED, Pair, UNLOGGED_PREFIX, find};
use super::ledger::{Digest, Digests};

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
        let keyspace = find(db, &name).map_err(ReadError::Store)?;
        found.digests.add_keyspace(&name);
        let options = ReadOptions::default().snapshot(snapshot);
        let all = (Bound::Unbounded, Bound::Unbounded);
        let iter = keyspace.iter_with(&options, all).map_err(ReadError::Store)?;
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
    let mut last: Option<Vec<u8>> = None;
    let (mut digest, is_default) = (Digest::default(), name == DEFAULT);
    for pair in iter {
        let (key, value) = pair.map_err(ReadError::Store)?;
        if last.is_some_and(|last| order.compare(&last, &key).is_ge()) {
            let message = format!("keys of {name} out of order at {}", key.escape_ascii());
            return Err(ReadError::Violation(Violation(message)));
        }
        if !(is_default && key.starts_with(UNLOGGED_PREFIX)) {
            digest.add(&key, &value);
        }
        last = Some(key.clone());
        found.pairs.push((name.to_string(), key, value));
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
