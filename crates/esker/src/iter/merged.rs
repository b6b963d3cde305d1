//! The pairs of a visible cursor that are neither plain puts nor tombstones: puts that expire, puts
//! whose value is in a value file, and keys with merge operands.
//!
//! Invariants: after a merge of operands, the pair is saved. Going forward, the source is then on
//! an older version of the same key or on the next key. Going backward, it is on the last version
//! of the previous key, as for other pairs. After an error the cursor is not valid.

use super::operands::{Operands, Resolver};
use super::visible::{Place, VisibleCursor};
use super::{copy_into, same_key};
use crate::base::cursor::Cursor;
use crate::base::expiry::{self, TIME_BYTES};
use crate::base::key::{Kind, SEQNO_MAX, SeqNo};
use crate::base::keyspace::PREFIX_BYTES;
use crate::error::Result;

impl<C: Cursor> VisibleCursor<C> {
    /// Sets how merge operands and puts that expire are read. Without it no put expires, and an
    /// operand is an error.
    pub fn set_resolver(&mut self, resolver: Resolver) {
        self.resolver = resolver;
    }

    /// Limits the keys whose values are made to those that begin with `prefix`.
    pub fn limit_to(&mut self, prefix: [u8; PREFIX_BYTES]) {
        self.resolver.limit_to(prefix);
    }

    /// Returns whether the last move returned an error of the merge operator, and the cursor stands
    /// on its key.
    pub fn is_on_failure(&self) -> bool {
        self.valid && self.has_failed && self.place == Place::Saved && !self.is_in_batch()
    }

    /// Returns how merge operands and puts that expire are read.
    pub fn resolver(&self) -> &Resolver {
        &self.resolver
    }

    /// Returns the time at which the current pair expires, in milliseconds since 1970, if there is
    /// one. The cursor must be valid.
    pub fn time_ms(&self) -> Option<u64> {
        let time_ms = match self.place {
            Place::Separated => return None,
            // The rows of a batch do not expire.
            _ if self.is_in_batch() => return None,
            Place::Source => return None,
            Place::Expiring => expiry::split(self.source.value()).0,
            Place::Saved => self.saved_time_ms,
        };
        Some(time_ms).filter(|time_ms| *time_ms != expiry::NEVER_MS)
    }

    /// Returns the key of a pair that is not simply the source's.
    #[cold]
    pub(super) fn special_key(&self) -> &[u8] {
        if self.place == Place::Saved { &self.saved_key } else { self.source.key() }
    }

    /// Returns the value of a pair that is not simply the source's.
    #[cold]
    pub(super) fn special_value(&self) -> &[u8] {
        match self.place {
            Place::Expiring => expiry::split(self.source.value()).1,
            _ => &self.saved_value,
        }
    }

    /// Makes the source's version `seqno`, neither a plain put nor a tombstone, the current pair.
    /// Returns `false` if the pair is invisible; the source has not moved then.
    #[cold]
    pub(super) fn settle_special(&mut self, seqno: SeqNo, kind: Kind) -> Result<bool> {
        if self.covered(seqno) {
            return Ok(false);
        }
        self.seqno = seqno;
        if self.resolver.is_keys_only(self.source.key()) {
            self.place = Place::Source;
        } else if kind == Kind::PutExpiring {
            if self.resolver.is_expired(expiry::split(self.source.value()).0) {
                return Ok(false);
            }
            self.place = Place::Expiring;
        } else if kind == Kind::PutSeparated {
            let value = self.resolver.read_value(self.source.key(), self.source.value())?;
            copy_into(&mut self.saved_value, &value);
            self.place = Place::Separated;
        } else {
            let merged = self.merge_versions();
            self.valid = self.has_failed;
            self.saved_time_ms = expiry::NEVER_MS;
            self.place = Place::Saved;
            merged?;
        }
        self.valid = true;
        Ok(true)
    }

    /// Makes the saved version, neither a plain put nor a tombstone, the current pair. Returns
    /// `false` if the pair is invisible.
    #[cold]
    pub(super) fn settle_special_backward(&mut self, kind: Kind) -> Result<bool> {
        if self.resolver.is_keys_only(&self.saved_key) {
            return Ok(true);
        }
        if kind == Kind::PutExpiring {
            self.saved_time_ms = expiry::split(&self.saved_value).0;
            if self.resolver.is_expired(self.saved_time_ms) {
                return Ok(false);
            }
            self.saved_value.drain(..TIME_BYTES.min(self.saved_value.len()));
            return Ok(true);
        }
        if kind == Kind::PutSeparated {
            let value = self.resolver.read_value(&self.saved_key, &self.saved_value)?;
            copy_into(&mut self.saved_value, &value);
            return Ok(true);
        }
        // The operands are merged from the newest version on.
        self.source.seek(&self.saved_key, self.snapshot)?;
        let merged = self.merge_versions();
        if merged.is_ok() || self.has_failed {
            let moved = self.source.seek_before(&self.saved_key, SEQNO_MAX);
            self.has_failed &= moved.is_ok();
            moved?;
        }
        (self.valid, self.place) = (self.has_failed, Place::Saved);
        merged.map(|()| true)
    }

    /// Moves to the next key after a pair that was merged.
    pub(super) fn next_after_merged(&mut self) -> Result<()> {
        self.valid = false;
        // The saved key is the skipped one.
        self.skipped_key = None;
        self.settle_forward(true)
    }

    /// Moves the source from the newest visible version of a key over the versions that its value
    /// depends on, and saves the key and the value.
    fn merge_versions(&mut self) -> Result<()> {
        self.has_failed = false;
        copy_into(&mut self.saved_key, self.source.key());
        let mut operands = std::mem::take(&mut self.operands);
        let merged = self.merge_into_saved(&mut operands);
        self.stepped_over += operands.len() as u64;
        operands.clear();
        self.operands = operands;
        merged
    }

    fn merge_into_saved(&mut self, operands: &mut Operands) -> Result<()> {
        let has_value = self.collect(operands)?;
        let mut merged = Vec::new();
        let existing = has_value.then_some(&self.saved_value[..]);
        let outcome = self.resolver.merge(&self.saved_key, existing, operands, &mut merged);
        self.has_failed = outcome.is_err();
        self.saved_value = if self.has_failed { Vec::new() } else { merged };
        outcome
    }

    /// Collects the operands of the saved key, from the source's position on. Returns whether there
    /// is a value below them, which is then `saved_value`.
    fn collect(&mut self, operands: &mut Operands) -> Result<bool> {
        loop {
            operands.push(self.source.value());
            self.source.next()?;
            if !self.source.valid() || !same_key(&self.order, self.source.key(), &self.saved_key) {
                return Ok(false);
            }
            let (seqno, kind) = self.source.version();
            if kind == Kind::Delete || self.covered(seqno) {
                return Ok(false);
            }
            if kind == Kind::Merge {
                continue;
            }
            let stored = self.source.value();
            if kind == Kind::PutSeparated {
                let value = self.resolver.read_value(self.source.key(), stored)?;
                copy_into(&mut self.saved_value, &value);
                return Ok(true);
            }
            let (time_ms, value) =
                if kind == Kind::Put { (expiry::NEVER_MS, stored) } else { expiry::split(stored) };
            if self.resolver.is_expired(time_ms) {
                return Ok(false);
            }
            copy_into(&mut self.saved_value, value);
            return Ok(true);
        }
    }
}
