//! Values of a transaction's own writes: of a put at once, of merge operands with the value that
//! they are merged into, which may be the snapshot's.

use crate::base::expiry::Moment;
use crate::base::keyspace_rules::KeyspaceRules;
use crate::db::state::DbInner;
use crate::db::tree::InKeyspace;
use crate::error::Result;
use crate::iter::operands::{self, Operands};
use crate::txn::writes::{Base, OwnValue};

/// The value of a key that the transaction has written, as far as its own writes show it.
pub(super) enum Pending {
    /// The value, or `None` for a deleted key.
    Known(Option<Vec<u8>>),
    /// Operands over a value of the transaction, if there is one.
    Own(Operands, Option<Vec<u8>>),
    /// Operands over the snapshot's value.
    Snapshot(Operands),
}

impl Pending {
    /// Copies what the transaction has written.
    pub fn new(own: &OwnValue<'_>) -> Pending {
        let existing = match own.base {
            Base::Value(value) => Some(value.to_vec()),
            Base::Deleted | Base::Snapshot => None,
        };
        if own.operands.is_empty() {
            return Pending::Known(existing);
        }
        let mut operands = Operands::default();
        own.operands.iter().for_each(|operand| operands.push(operand));
        match own.base {
            Base::Snapshot => Pending::Snapshot(operands),
            _ => Pending::Own(operands, existing),
        }
    }

    /// Returns the value of the stored key `key`, or `None` for a deleted key. May read files.
    ///
    /// # Errors
    /// As [`Db::get`](crate::Db::get).
    pub fn value(
        self,
        inner: &DbInner,
        of: Option<InKeyspace<'_>>,
        key: &[u8],
        at: Moment,
    ) -> Result<Option<Vec<u8>>> {
        let rules: &KeyspaceRules = of.map_or(&inner.rules, |of| of.rules);
        let (operands, existing) = match self {
            Pending::Known(value) => return Ok(value),
            Pending::Own(operands, existing) => (operands, existing),
            Pending::Snapshot(operands) => {
                let existing = inner.get_at(of, key, Some(at), true)?;
                (operands, existing.map(|value| value.to_vec()))
            }
        };
        let mut merged = Vec::new();
        operands::merge(rules, key, existing.as_deref(), &operands, &mut merged)?;
        Ok(Some(merged))
    }
}
