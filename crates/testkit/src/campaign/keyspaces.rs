//! The keyspaces of the campaigns' stores, and reads of all of them.
//!
//! Invariants: a script names keyspaces by slots. Slot 0 is the default keyspace. Every other slot
//! has options of its own and two names: a keyspace is created under the first one, and a rename
//! gives it the other one. So a keyspace's name tells its options.

use esker::{
    Db, DbIterator, ErrorKind, KeyOrder, Keyspace, KeyspaceOptions, ReadOptions, Snapshot,
};

use super::ledger::{Digest, Digests, PREPARED, UNLOGGED_PREFIX};

/// A pair of a store: the name of its keyspace, the key and the value.
pub type Pair = (String, Vec<u8>, Vec<u8>);

/// Number of slots, with that of the default keyspace.
pub const SLOTS: u8 = 5;

/// Name of the default keyspace.
pub const DEFAULT: &str = "default";

const NAMES: [[&str; 2]; SLOTS as usize] = [
    [DEFAULT, DEFAULT],
    ["orders", "orders, renamed"],
    ["users", "users, renamed"],
    ["index", "index, renamed"],
    ["values", "values, renamed"],
];

/// The slot whose keyspaces have the reverse key order.
const REVERSED: u8 = 3;

/// Returns the names of a slot's keyspaces.
pub fn names(slot: u8) -> [&'static str; 2] {
    NAMES[usize::from(slot % SLOTS)]
}

/// Returns whether the keyspaces of a slot have the reverse key order.
pub fn is_reversed(slot: u8) -> bool {
    slot == REVERSED
}

/// Returns the options of a slot's keyspaces. Slots 1 and 2 share a tree.
///
/// # Panics
/// If the engine no longer has one of the options.
pub fn options(slot: u8) -> KeyspaceOptions {
    let set = |pairs: &[(&str, &str)]| {
        pairs.iter().fold(KeyspaceOptions::default(), |options, (name, value)| {
            let set = options.set(name, value);
            set.unwrap_or_else(|error| panic!("option {name} of a keyspace: {error}"))
        })
    };
    match slot {
        REVERSED => KeyspaceOptions::default().key_order(KeyOrder::Reverse),
        4 => set(&[("compression", "none"), ("policy", "leveled"), ("filter_bits", "0")]),
        _ => KeyspaceOptions::default(),
    }
}

/// Returns the keyspace with this name.
///
/// # Errors
/// The store's error; `NotFound` if there is none.
pub fn find(db: &Db, name: &str) -> esker::Result<Keyspace> {
    let missing = || {
        let message = format!("the store has no keyspace \"{name}\"");
        esker::internals::error(ErrorKind::NotFound, message, None)
    };
    db.existing_keyspace(name)?.ok_or_else(missing)
}

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
        let all = (std::ops::Bound::Unbounded, std::ops::Bound::Unbounded);
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

/// Returns the pairs of keyspaces, without prepared transactions.
pub fn stored(pairs: &[Pair]) -> impl Iterator<Item = &Pair> {
    pairs.iter().filter(|(name, ..)| name != PREPARED)
}

/// Returns whether a pair is of an unlogged write.
pub fn is_unlogged((name, key, _): &Pair) -> bool {
    name == DEFAULT && key.starts_with(UNLOGGED_PREFIX)
}
