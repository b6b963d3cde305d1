//! The keyspace that a victim creates, fills, renames and drops, again and again.
//!
//! Invariants: its pairs are written by one batch, so it has all of them or none. It is renamed
//! only after that batch was acknowledged.

use esker::{Batch, Db, KeyspaceOptions};

use crate::campaign::keyspaces::Pair;
use crate::campaign::tally::Verdict;
use crate::rng::SplitMix64;

/// Its names: when it is created, and when it is filled.
const NAMES: [&str; 2] = ["temporary", "temporary, filled"];

/// Number of its pairs.
const PAIRS: u64 = 20;

fn pair(n: u64) -> (Vec<u8>, Vec<u8>) {
    (format!("{n:04}").into_bytes(), [n as u8; 60].to_vec())
}

/// Drops what an earlier victim left, or creates, fills and renames the keyspace and drops it.
///
/// # Errors
/// The store's error.
pub fn change(db: &Db, rng: &mut SplitMix64) -> esker::Result<()> {
    let names = db.keyspaces();
    if let Some(left) = NAMES.iter().find(|name| names.iter().any(|other| other == *name)) {
        return db.drop_keyspace(left);
    }
    let mut options = KeyspaceOptions::default();
    if rng.chance(2) {
        options = options.set("compression", "none")?;
    }
    let keyspace = db.keyspace(NAMES[0], &options)?;
    let mut batch = Batch::new();
    for n in 0..PAIRS {
        let (key, value) = pair(n);
        batch.put_in(&keyspace, key, value);
    }
    db.write(&batch)?;
    db.rename_keyspace(NAMES[0], NAMES[1])?;
    if rng.chance(3) {
        db.flush()?;
    }
    if rng.chance(2) { db.drop_keyspace(NAMES[1]) } else { Ok(()) }
}

/// Takes the pairs of the keyspace from those of a store, and returns whether they are as they must
/// be: all or none, and all of them in a renamed keyspace if no acknowledged write may be missing.
///
/// # Errors
/// The broken promise.
pub fn take(
    pairs: &mut Vec<Pair>,
    names: &[String],
    keeps_acknowledged: bool,
) -> Result<(), (Verdict, String)> {
    for (at, name) in NAMES.into_iter().enumerate() {
        let own: Vec<Pair> = pairs.extract_if(.., |(other, ..)| other == name).collect();
        let all = (0..PAIRS).map(pair).map(|(key, value)| (name.to_string(), key, value));
        let is_filled = at == 1 && names.iter().any(|other| other == name);
        if own.is_empty() && is_filled && keeps_acknowledged {
            return Err((Verdict::Lost, format!("the keyspace {name} has no pair")));
        }
        if !own.is_empty() && !all.eq(own.iter().cloned()) {
            let message = format!("the keyspace {name} has a part of its batch: {}", own.len());
            return Err((Verdict::Wrong, message));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_of_the_batch_and_a_lost_batch_are_detected() {
        let of = |name: &str, range: std::ops::Range<u64>| -> Vec<Pair> {
            range.map(pair).map(|(key, value)| (name.to_string(), key, value)).collect()
        };
        let names = |name: &str| vec!["default".to_string(), name.to_string()];
        let other = ("default".to_string(), Vec::new(), Vec::new());
        for name in NAMES {
            let mut whole = [vec![other.clone()], of(name, 0..PAIRS)].concat();
            assert!(take(&mut whole, &names(name), true).is_ok());
            assert_eq!(whole, std::slice::from_ref(&other));
            assert!(take(&mut of(name, 0..PAIRS - 1), &names(name), false).is_err());
            let mut empty = Vec::new();
            assert!(take(&mut empty, &names(name), false).is_ok());
            assert_eq!(take(&mut empty, &names(name), true).is_err(), name == NAMES[1]);
        }
    }
}
