//! The keyspaces of the campaigns' stores.
//!
//! Invariants: a script names keyspaces by slots. Slot 0 is the default keyspace. Every other slot
//! has options of its own and two names: a keyspace is created under the first one, and a rename
//! gives it the other one. So a keyspace's name tells its options.

use std::borrow::Cow;

use esker::{CompactionFilter, Db, ErrorKind, FilterDecision, KeyOrder, Keyspace, KeyspaceOptions};

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

/// The merge operator of the keyspaces that have one.
pub const MERGE_OPERATOR: &str = "append(,)";

/// The slots whose keyspaces have the merge operator. The default keyspace has it in the scripts
/// that merge.
pub const MERGED_SLOTS: [u8; 3] = [0, 1, 4];

/// Prefix of the keys that the compaction filter looks at. They are never merged into.
pub const FILTERED_PREFIX: &[u8] = b"filtered/";

/// Beginning of the values that the compaction filter removes.
pub const REMOVED_VALUE: &[u8] = b"remove ";

/// Beginning of the values that the compaction filter replaces.
pub const REPLACED_VALUE: &[u8] = b"replace ";

/// The compaction filter of the keyspaces that have one.
#[derive(Debug)]
pub struct ValueFilter;

impl ValueFilter {
    /// The permanent name.
    pub const NAME: &str = "campaign.ValueFilter";
}

impl CompactionFilter for ValueFilter {
    fn name(&self) -> &str {
        ValueFilter::NAME
    }

    fn filter(&self, _level: usize, key: &[u8], value: &[u8]) -> FilterDecision {
        match seen(key, value) {
            None => FilterDecision::Remove,
            Some(Cow::Borrowed(_)) => FilterDecision::Keep,
            Some(Cow::Owned(value)) => FilterDecision::Replace(value),
        }
    }
}

/// Returns the value that a pair has once the compaction filter has seen it, or `None` if the filter
/// removes it. A store may show either that or the pair as it was written.
pub fn seen<'v>(key: &[u8], value: &'v [u8]) -> Option<Cow<'v, [u8]>> {
    if !key.starts_with(FILTERED_PREFIX) {
        return Some(Cow::Borrowed(value));
    }
    if value.starts_with(REMOVED_VALUE) {
        return None;
    }
    Some(match value.strip_prefix(REPLACED_VALUE) {
        Some(rest) => Cow::Owned([b"replaced ", rest].concat()),
        None => Cow::Borrowed(value),
    })
}

/// Returns whether two values of a key are the same once the compaction filter has seen them.
pub fn are_same(key: &[u8], one: Option<&[u8]>, other: Option<&[u8]>) -> bool {
    let [one, other] = [one, other].map(|value| value.and_then(|value| seen(key, value)));
    one == other
}

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
    let filtered = KeyspaceOptions::default().compaction_filter(ValueFilter::NAME);
    match slot {
        1 => filtered.merge_operator(MERGE_OPERATOR),
        REVERSED => KeyspaceOptions::default().key_order(KeyOrder::Reverse),
        4 => set(&[("compression", "none"), ("policy", "leveled"), ("filter_bits", "0")])
            .merge_operator(MERGE_OPERATOR)
            .compaction_filter(ValueFilter::NAME),
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
