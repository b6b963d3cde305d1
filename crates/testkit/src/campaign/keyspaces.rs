//! The keyspaces of the campaigns' stores.
//!
//! Invariants: a script names keyspaces by slots. Slot 0 is the default keyspace. Every other slot
//! has options of its own and two names: a keyspace is created under the first one, and a rename
//! gives it the other one. So a keyspace's name tells its options.

use esker::{Db, ErrorKind, KeyOrder, Keyspace, KeyspaceOptions};

/// A pair of a store: the name of its keyspace, the key and the value.
pub type Pair = (String, Vec<u8>, Vec<u8>);

/// Number of slots, with that of the default keyspace.
pub const SLOTS: u8 = 5;

/// Name of the default keyspace.
pub const DEFAULT: &str = "default";

/// Prefix of the keys of unlogged writes, which are in the default keyspace. The prefix guarantee
/// does not apply to these writes.
pub const UNLOGGED_PREFIX: &[u8] = b"weak/";

/// Name under which pairs and digests have the names of prepared transactions. No keyspace has it.
pub const PREPARED: &str = "\u{1}prepared";

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

/// Returns the pairs of keyspaces, without prepared transactions.
pub fn stored(pairs: &[Pair]) -> impl Iterator<Item = &Pair> {
    pairs.iter().filter(|(name, ..)| name != PREPARED)
}

/// Returns whether a pair is of an unlogged write.
pub fn is_unlogged((name, key, _): &Pair) -> bool {
    name == DEFAULT && key.starts_with(UNLOGGED_PREFIX)
}
