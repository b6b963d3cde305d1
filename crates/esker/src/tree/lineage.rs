//! The lineage of a store: the name of a fork and the stores that it descends from.
//!
//! Invariants: a lineage never changes after the store was created. The nearest ancestor is first.
//! A lineage of more than [`ANCESTORS_MAX`] stores loses the farthest ones.

use crate::base::coding::{Reader, put_bytes, put_varint};
use crate::base::key::SeqNo;
use crate::error::{Error, Result};

/// Maximum number of ancestors that a store remembers.
pub const ANCESTORS_MAX: usize = 64;

/// Maximum length of the name of a fork, in bytes.
pub const FORK_NAME_BYTES_MAX: usize = 255;

/// The name of a fork and the stores that it descends from ([`Db::lineage`](crate::Db::lineage)).
/// Empty for a store that is no fork.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Lineage {
    /// The name that the fork got. `None` for a fork without a name, and for a store that is no
    /// fork.
    pub name: Option<String>,
    /// The stores that this store descends from, the parent first. At most 64.
    pub ancestors: Vec<Ancestor>,
}

/// A store of which another store is a fork, or a fork of a fork.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Ancestor {
    /// Its [identity](crate::Db::store_id).
    pub store_id: u64,
    /// Its name, if it is a fork with a name.
    pub name: Option<String>,
    /// Its sequence number at the fork: the fork has every write up to it, and no later one.
    pub seqno: u64,
    /// Time of the fork, in milliseconds since 1970.
    pub forked_unix_ms: u64,
}

impl Lineage {
    /// Returns whether the store is no fork.
    pub(crate) fn is_empty(&self) -> bool {
        *self == Lineage::default()
    }

    /// Returns the parent: the store from which this one was forked.
    pub fn parent(&self) -> Option<&Ancestor> {
        self.ancestors.first()
    }

    /// Returns the lineage of a fork of the store `store_id`, whose own lineage is this one.
    pub(crate) fn of_fork(
        &self,
        name: Option<String>,
        store_id: u64,
        seqno: SeqNo,
        forked_unix_ms: u64,
    ) -> Lineage {
        let parent = Ancestor { store_id, name: self.name.clone(), seqno, forked_unix_ms };
        let older = self.ancestors.iter().take(ANCESTORS_MAX - 1).cloned();
        Lineage { name, ancestors: std::iter::once(parent).chain(older).collect() }
    }

    /// Appends the encoding.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        put_name(out, self.name.as_deref());
        put_varint(out, self.ancestors.len() as u64);
        for ancestor in &self.ancestors {
            put_varint(out, ancestor.store_id);
            put_name(out, ancestor.name.as_deref());
            put_varint(out, ancestor.seqno);
            put_varint(out, ancestor.forked_unix_ms);
        }
    }

    /// Decodes a lineage. Returns `None` when the bytes are not valid.
    pub(crate) fn decode(reader: &mut Reader<'_>) -> Option<Lineage> {
        let name = get_name(reader)?;
        let count = reader.varint().filter(|count| *count <= ANCESTORS_MAX as u64)?;
        let mut ancestors = Vec::new();
        for _ in 0..count {
            ancestors.push(Ancestor {
                store_id: reader.varint()?,
                name: get_name(reader)?,
                seqno: reader.varint()?,
                forked_unix_ms: reader.varint()?,
            });
        }
        Some(Lineage { name, ancestors })
    }
}

/// Appends a name; an absent one is an empty one.
fn put_name(out: &mut Vec<u8>, name: Option<&str>) {
    put_bytes(out, name.unwrap_or_default().as_bytes());
}

fn get_name(reader: &mut Reader<'_>) -> Option<Option<String>> {
    let bytes = reader.bytes().filter(|bytes| bytes.len() <= FORK_NAME_BYTES_MAX)?;
    let name = String::from_utf8(bytes.to_vec()).ok()?;
    Some(Some(name).filter(|name| !name.is_empty()))
}

/// Checks the name of a fork.
///
/// # Errors
/// `InvalidArgument` for an empty name, a name over [`FORK_NAME_BYTES_MAX`] bytes or one with
/// control characters.
pub fn check_fork_name(name: &str) -> Result<()> {
    if name.is_empty() {
        return Err(Error::invalid("the name of a fork is empty; leave it out instead"));
    }
    if name.len() > FORK_NAME_BYTES_MAX {
        return Err(Error::invalid(format!(
            "the name of a fork has {} bytes; the maximum is {FORK_NAME_BYTES_MAX}",
            name.len()
        )));
    }
    if name.chars().any(char::is_control) {
        let shown = name.escape_debug();
        return Err(Error::invalid(format!(
            "the name of a fork must not contain control characters, found \"{shown}\""
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lineages_round_trip_and_keep_the_nearest_ancestors() {
        let mut lineage = Lineage::default();
        assert!(lineage.is_empty() && lineage.parent().is_none());
        for id in 1..=2 * ANCESTORS_MAX as u64 {
            let mut bytes = Vec::new();
            lineage.encode(&mut bytes);
            assert_eq!(Lineage::decode(&mut Reader::new(&bytes)), Some(lineage.clone()));
            for len in 0..bytes.len() {
                let cut = Lineage::decode(&mut Reader::new(&bytes[..len]));
                assert_ne!(cut, Some(lineage.clone()), "{len} bytes");
            }
            let name = (id % 3 > 0).then(|| format!("fork {id}"));
            lineage = lineage.of_fork(name.clone(), id, id * 10, id * 100);
            assert_eq!(lineage.parent().unwrap().store_id, id);
            assert_eq!(lineage.name, name);
        }
        assert_eq!(lineage.ancestors.len(), ANCESTORS_MAX);
        let last = 2 * ANCESTORS_MAX as u64;
        let ids: Vec<u64> = lineage.ancestors.iter().map(|of| of.store_id).collect();
        assert_eq!(ids, (last / 2 + 1..=last).rev().collect::<Vec<_>>());
        assert!(Lineage::decode(&mut Reader::new(&[0, 65])).is_none());
    }

    #[test]
    fn bad_names_are_refused_with_a_sentence() {
        for (name, says) in
            [("", "is empty"), ("a\tb", "control characters"), (&"x".repeat(256), "256 bytes")]
        {
            let error = check_fork_name(name).unwrap_err();
            assert!(error.to_string().contains(says), "{error}");
        }
        check_fork_name("before the migration, Größe 3").unwrap();
    }
}
