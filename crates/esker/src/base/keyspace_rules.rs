//! The rules of a keyspace: its merge operator, its time to live and its compaction filter.
//!
//! Invariants: the settings of a keyspace never change. What they name may be missing: a missing
//! operator is known by its name, and a missing filter keeps every pair.

use std::fmt;
use std::sync::Arc;

use super::compaction_filter::CompactionFilter;
use super::expiry::StoreClock;
use super::merge_operator::NamedOperator;
use crate::error::{Error, Result};

/// The rules of a keyspace.
#[derive(Clone, Default)]
pub struct KeyspaceRules {
    /// Names and values of the settings, as they are stored, ordered by name.
    pub settings: Vec<(String, String)>,
    /// Length of the prefix of the stored keys, in bytes.
    pub prefix_bytes: usize,
    /// The merge operator.
    pub operator: Option<NamedOperator>,
    /// The time to live of a put that states none, in milliseconds. `None`: it does not expire.
    pub ttl_ms: Option<u64>,
    /// The compaction filter.
    pub filter: Option<Arc<dyn CompactionFilter>>,
    /// The clock of the store.
    pub clock: Arc<StoreClock>,
}

impl KeyspaceRules {
    /// Checks a merge operand before it is written to the keyspace with this name.
    ///
    /// # Errors
    /// `InvalidArgument` when the keyspace has no merge operator or the operator refuses the
    /// operand, `Incompatible` when the operator is missing.
    pub fn check_merge(&self, keyspace: &str, operand: &[u8]) -> Result<()> {
        match &self.operator {
            Some(operator) => operator.check_operand(operand),
            None => Err(Error::invalid(format!(
                "the keyspace \"{keyspace}\" has no merge operator; set `Options::merge_operator` \
                 for the default keyspace, or `KeyspaceOptions::merge_operator` when another \
                 keyspace is created"
            ))),
        }
    }

    /// Returns the user's key of a stored key.
    #[inline]
    pub fn user_key<'k>(&self, stored: &'k [u8]) -> &'k [u8] {
        stored.get(self.prefix_bytes..).unwrap_or(stored)
    }
}

impl fmt::Debug for KeyspaceRules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KeyspaceRules({:?})", self.settings)
    }
}
