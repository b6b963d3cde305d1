//! A rewrite: what a flush or a compaction writes of the entries that it reads.
//!
//! [`Retain`] says which entries some reader needs. On top of that, a rewrite
//! * turns a pair into a tombstone once it has expired for every reader that can see it;
//! * combines the merge operands of a key, without a snapshot between them, to one operand, or to a
//!   put where the value below them is known;
//! * asks the compaction filter about the puts that no snapshot sees.
//!
//! Invariants:
//! 1. Entries of kinds other than put and tombstone, and filters, are the only cause of extra work.
//! 2. Operands are combined only with operands and values of their own stripe, so a snapshot finds
//!    what it saw. A value below a range tombstone, and no value at the bottom, count as such.
//! 3. An unexpired put that expires is never combined with operands, because they stay when it
//!    goes.
//! 4. A failure of an operator leaves the operands as they are. A panic of a filter ends its use.

use std::sync::Arc;

use super::operands::{LONG_CHAIN, Operands};
use super::retain::{Decision, Retain};
use super::{copy_into, same_key};
use crate::base::compaction_filter::{self, FilterDecision, StartedFilter};
use crate::base::expiry::{self, Moment, TIME_BYTES};
use crate::base::key::{Kind, SeqNo, VALUE_BYTES_MAX};
use crate::base::keyspace::LiveKeys;
use crate::base::keyspace_rules::KeyspaceRules;
use crate::base::order::KeyOrder;
use crate::base::range_delete::RangeDeletes;
use crate::base::separated::{ReadValues, ValueBytes};
use crate::error::Result;
use crate::metrics::RewriteCounters;

/// Maximum bytes of operands of one key that a rewrite holds in memory. Beyond it, operands that
/// cannot be combined are written as they are.
const HELD_BYTES_MAX: usize = 32 << 20;

/// What a rewrite applies to the entries.
pub struct RewriteRules<'a> {
    /// The live snapshots, ascending, each number once with its earliest time.
    pub snapshots: Vec<Moment>,
    /// The time of the rewrite, taken before the list of snapshots.
    pub now_ms: u64,
    /// The keys to keep, and the rules of their keyspaces.
    pub live: LiveKeys,
    /// The level that compaction filters are told. `None`: they are not asked.
    pub filter_level: Option<usize>,
    /// Reads separated values, for operators and filters. `None`: the inputs have none.
    pub values: Option<Arc<dyn ReadValues>>,
    /// Counters of what the rewrite does.
    pub counters: &'a RewriteCounters,
}

impl RewriteRules<'_> {
    /// Returns the numbers of the snapshots, ascending.
    pub fn seqnos(&self) -> Vec<SeqNo> {
        self.snapshots.iter().map(|snapshot| snapshot.seqno).collect()
    }
}

/// Destination of a rewrite.
pub trait EntrySink {
    /// Adds the next entry in internal order.
    fn add(&mut self, key: &[u8], seqno: SeqNo, kind: Kind, value: &[u8]) -> Result<()>;
}

/// An entry of the inputs.
#[derive(Clone, Copy)]
pub struct InputEntry<'a> {
    /// The stored key.
    pub key: &'a [u8],
    /// The sequence number.
    pub seqno: SeqNo,
    /// The kind.
    pub kind: Kind,
    /// The stored value.
    pub value: &'a [u8],
    /// Whether no entry and no range tombstone below the inputs concerns this key.
    pub bottom: bool,
}

/// A running rewrite. The caller passes every entry of the inputs, in internal order.
pub struct Rewrite<'a> {
    order: KeyOrder,
    retain: Retain,
    /// The times of the snapshots.
    times_ms: Vec<u64>,
    now_ms: u64,
    live: LiveKeys,
    filter_level: Option<usize>,
    /// The filter that was asked last.
    filter: Option<StartedFilter>,
    counters: &'a RewriteCounters,
    values: Option<Arc<dyn ReadValues>>,
    chain: Chain,
    /// Buffer for merged values.
    merged: Vec<u8>,
}

/// The merge operands of the current key that are not written yet, all of one stripe.
#[derive(Default)]
struct Chain {
    is_active: bool,
    /// Whether operands are written as they come, because they could not be combined.
    passes: bool,
    key: Vec<u8>,
    stripe: usize,
    bottom: bool,
    /// The operands, and the sequence number of each.
    operands: Operands,
    seqnos: Vec<SeqNo>,
    /// Sequence number of the oldest operand so far.
    oldest: SeqNo,
}

impl Chain {
    fn begin(&mut self, entry: &InputEntry<'_>, stripe: usize) {
        (self.is_active, self.passes) = (true, false);
        copy_into(&mut self.key, entry.key);
        (self.stripe, self.bottom) = (stripe, entry.bottom);
    }

    fn push(&mut self, seqno: SeqNo, operand: &[u8]) {
        self.operands.push(operand);
        self.seqnos.push(seqno);
        self.oldest = seqno;
    }

    fn clear(&mut self) {
        self.is_active = false;
        self.operands.clear();
        self.seqnos.clear();
    }
}

/// What lies below the operands of a chain.
#[derive(Clone, Copy)]
enum Base<'b> {
    /// Older versions that may be outside of the inputs, or of another stripe.
    Unknown,
    /// No value.
    None,
    /// A value.
    Value(&'b [u8]),
}

/// A put that a rewrite is about to write.
#[derive(Clone, Copy)]
struct NewPut<'b> {
    key: &'b [u8],
    seqno: SeqNo,
    /// Put, or put that expires.
    kind: Kind,
    /// The stored value.
    value: &'b [u8],
    stripe: usize,
    bottom: bool,
    is_zero: bool,
}

impl<'a> Rewrite<'a> {
    /// Creates a rewrite of inputs that hold `range_deletes`.
    pub fn new(
        order: KeyOrder,
        rules: RewriteRules<'a>,
        range_deletes: Arc<RangeDeletes>,
    ) -> Rewrite<'a> {
        let retain = Retain::new(order.clone(), rules.seqnos(), range_deletes);
        let RewriteRules { snapshots, now_ms, live, filter_level, counters, values } = rules;
        let times_ms = snapshots.iter().map(|snapshot| snapshot.at_ms).collect();
        let (filter, chain, merged) = (None, Chain::default(), Vec::new());
        Rewrite {
            order,
            retain,
            times_ms,
            now_ms,
            live,
            filter_level,
            filter,
            counters,
            values,
            chain,
            merged,
        }
    }

    /// Returns whether compaction filters are asked, so that [`InputEntry::bottom`] must be exact
    /// for every entry.
    #[inline]
    pub fn has_filter(&self) -> bool {
        self.filter_level.is_some()
    }

    /// Returns whether a range tombstone must be written again; see [`Retain::keep_range_delete`].
    pub fn keep_range_delete(&self, seqno: SeqNo, bottom: bool) -> bool {
        self.retain.keep_range_delete(seqno, bottom)
    }

    /// Takes the next entry, and writes the entries that are kept to `out`. An entry may be written
    /// by a later call.
    #[inline]
    pub fn add(&mut self, entry: InputEntry<'_>, out: &mut impl EntrySink) -> Result<()> {
        let is_plain = matches!(entry.kind, Kind::Put | Kind::Delete);
        if !is_plain || self.chain.is_active || self.filter_level.is_some() {
            return self.add_special(entry, out);
        }
        let InputEntry { key, seqno, kind, value, bottom } = entry;
        match self.retain.decide(key, seqno, kind, bottom) {
            Decision::Drop => Ok(()),
            _ if !self.live.contains(key) => Ok(()),
            Decision::Keep => out.add(key, seqno, kind, value),
            Decision::KeepWithSeqnoZero => out.add(key, 0, kind, value),
        }
    }

    /// Writes what was held back. Called after the last entry.
    pub fn finish(&mut self, out: &mut impl EntrySink) -> Result<()> {
        if self.chain.is_active { self.close_chain(None, out) } else { Ok(()) }
    }

    fn add_special(&mut self, entry: InputEntry<'_>, out: &mut impl EntrySink) -> Result<()> {
        let stripe = self.retain.stripe_of(entry.seqno);
        if self.chain.is_active {
            let same = same_key(&self.order, entry.key, &self.chain.key);
            if !same || stripe != self.chain.stripe {
                self.close_chain(same.then_some(entry.seqno), out)?;
            }
        }
        if !self.live.contains(entry.key) {
            return Ok(());
        }
        let kind = self.kind_now(&entry, stripe);
        if self.chain.is_active && entry.seqno == self.chain.oldest {
            // Two sources of a repair may hold one operation: as an operand, or merged.
            if kind == Kind::Merge || self.chain.passes {
                return Ok(());
            }
            self.chain.operands.pop_oldest();
            self.chain.seqnos.pop();
        }
        let decision = self.retain.decide(entry.key, entry.seqno, kind, entry.bottom);
        if kind == Kind::Merge {
            return match decision {
                Decision::Drop => Ok(()),
                _ => self.add_operand(&entry, stripe, out),
            };
        }
        if self.chain.is_active && self.fold(&entry, kind, decision, out)? {
            return Ok(());
        }
        let InputEntry { key, seqno, value, bottom, .. } = entry;
        match (decision, kind) {
            (Decision::Drop, _) => Ok(()),
            (_, Kind::Delete) => out.add(key, seqno, Kind::Delete, &[]),
            (kept, kind) => {
                let is_zero = kept == Decision::KeepWithSeqnoZero;
                self.put(NewPut { key, seqno, kind, value, stripe, bottom, is_zero }, out)
            }
        }
    }

    /// Returns the kind of an entry for the readers that can see it. Of these, the snapshot at the
    /// top of the entry's stripe has the earliest time.
    fn kind_now(&self, entry: &InputEntry<'_>, stripe: usize) -> Kind {
        if entry.kind != Kind::PutExpiring {
            return entry.kind;
        }
        let at_ms = self.times_ms.get(stripe).copied().unwrap_or(self.now_ms);
        if expiry::split(entry.value).0 > at_ms {
            return Kind::PutExpiring;
        }
        self.counters.expired.add(1);
        Kind::Delete
    }

    /// Adds an operand to the chain.
    fn add_operand(
        &mut self,
        entry: &InputEntry<'_>,
        stripe: usize,
        out: &mut impl EntrySink,
    ) -> Result<()> {
        if !self.chain.is_active {
            self.chain.begin(entry, stripe);
        }
        if self.chain.passes {
            self.chain.oldest = entry.seqno;
            return out.add(entry.key, entry.seqno, Kind::Merge, entry.value);
        }
        self.chain.push(entry.seqno, entry.value);
        if self.chain.operands.bytes() > HELD_BYTES_MAX {
            self.shrink_chain(out)?;
        }
        Ok(())
    }

    /// Combines the operands held so far to one, or writes them.
    fn shrink_chain(&mut self, out: &mut impl EntrySink) -> Result<()> {
        let mut chain = std::mem::take(&mut self.chain);
        let newest = chain.seqnos.first().copied().unwrap_or(0);
        let combined = self.combine(&chain);
        let small = combined && self.merged.len() <= HELD_BYTES_MAX / 2;
        let mut written = Ok(());
        if !small {
            written = self.write_as_they_are(&chain, out);
            chain.passes = true;
        }
        let oldest = chain.oldest;
        chain.operands.clear();
        chain.seqnos.clear();
        if small {
            chain.push(newest, &self.merged);
        }
        chain.oldest = oldest;
        self.chain = chain;
        written
    }

    /// Writes the chain where its next older entry is known: a value, a tombstone or an entry that
    /// a range tombstone hides. Returns `true` if the entry was merged with it, and `false` if the
    /// entry is still to be written by `decision`.
    fn fold(
        &mut self,
        entry: &InputEntry<'_>,
        kind: Kind,
        decision: Decision,
        out: &mut impl EntrySink,
    ) -> Result<bool> {
        let separated;
        let base = match (kind, decision) {
            // Hidden by a range tombstone, or a tombstone.
            (_, Decision::Drop) | (Kind::Delete, _) => Base::None,
            (Kind::Put, _) => Base::Value(entry.value),
            (Kind::PutSeparated, _) => {
                separated = self.read_value(entry.key, entry.value)?;
                Base::Value(&separated)
            }
            _ => Base::Unknown,
        };
        self.write_chain(base, entry.bottom, out)
    }

    /// Writes the chain where no older entry of its stripe follows. `next` is the number of the
    /// next older entry of the key, if one follows.
    fn close_chain(&mut self, next: Option<SeqNo>, out: &mut impl EntrySink) -> Result<()> {
        let bottom = next.is_none() && self.chain.bottom;
        let cut = self.retain.is_cut_below(self.chain.stripe, next);
        let base = if bottom || cut { Base::None } else { Base::Unknown };
        self.write_chain(base, bottom, out).map(drop)
    }

    /// Writes the chain: as one put if the value below it is known, otherwise as one operand if the
    /// operands can be combined. Returns whether it became a put.
    fn write_chain(
        &mut self,
        base: Base<'_>,
        bottom: bool,
        out: &mut impl EntrySink,
    ) -> Result<bool> {
        let mut chain = std::mem::take(&mut self.chain);
        let written = self.write_operands(&chain, base, bottom, out);
        chain.clear();
        self.chain = chain;
        written
    }

    fn write_operands(
        &mut self,
        chain: &Chain,
        base: Base<'_>,
        bottom: bool,
        out: &mut impl EntrySink,
    ) -> Result<bool> {
        let Some(&seqno) = chain.seqnos.first() else { return Ok(false) };
        let is_long = chain.operands.len() > LONG_CHAIN;
        let existing = if let Base::Value(value) = base { Some(value) } else { None };
        let is_known = !matches!(base, Base::Unknown);
        if is_known && self.merge(chain, existing) {
            self.counters.long_chains.add(u64::from(is_long));
            let is_zero = self.retain.may_be_zero(chain.stripe, bottom);
            let merged = std::mem::take(&mut self.merged);
            let (key, value, stripe) = (&chain.key[..], &merged[..], chain.stripe);
            let put = NewPut { key, seqno, kind: Kind::Put, value, stripe, bottom, is_zero };
            let written = self.put(put, out);
            self.merged = merged;
            return written.map(|()| true);
        }
        if self.combine(chain) {
            self.counters.long_chains.add(u64::from(is_long));
            out.add(&chain.key, seqno, Kind::Merge, &self.merged)?;
        } else {
            self.write_as_they_are(chain, out)?;
        }
        super::empty(&mut self.merged);
        Ok(false)
    }

    /// Writes the operands of a chain as they are.
    fn write_as_they_are(&self, chain: &Chain, out: &mut impl EntrySink) -> Result<()> {
        for (seqno, operand) in chain.seqnos.iter().zip(chain.operands.newest_first()) {
            out.add(&chain.key, *seqno, Kind::Merge, operand)?;
        }
        Ok(())
    }

    /// Makes in `merged` the value of a chain above `existing`. Returns `false` if it cannot be
    /// made.
    fn merge(&mut self, chain: &Chain, existing: Option<&[u8]>) -> bool {
        let Some(rules) = known_rules(&mut self.live, &chain.key) else { return false };
        let merged = &mut self.merged;
        match super::operands::merge(rules, &chain.key, existing, &chain.operands, merged) {
            Ok(()) => {
                self.counters.operands_merged.add(chain.operands.len() as u64);
                true
            }
            Err(error) => {
                self.counters.note_problem(error.message().to_string());
                false
            }
        }
    }

    /// Makes in `merged` one operand of those of a chain. Returns `false` if it cannot be made.
    fn combine(&mut self, chain: &Chain) -> bool {
        let count = chain.operands.len();
        if count < 2 {
            return false;
        }
        let Some(rules) = known_rules(&mut self.live, &chain.key) else { return false };
        let Some(operator) = &rules.operator else { return false };
        let (key, operands) = (rules.user_key(&chain.key), chain.operands.oldest_first());
        match operator.partial_merge(key, &operands, &mut self.merged) {
            Ok(combined) => {
                self.counters.operands_merged.add(if combined { count as u64 } else { 0 });
                combined
            }
            Err(error) => {
                self.counters.note_problem(error.message().to_string());
                false
            }
        }
    }

    /// Returns a separated value.
    fn read_value(&self, key: &[u8], pointer: &[u8]) -> Result<ValueBytes> {
        super::operands::read_value(self.values.as_deref(), key, pointer)
    }

    /// Writes a put, as far as the compaction filter agrees.
    fn put(&mut self, put: NewPut<'_>, out: &mut impl EntrySink) -> Result<()> {
        let seqno = if put.is_zero { 0 } else { put.seqno };
        match self.ask_filter(&put)? {
            FilterDecision::Keep => out.add(put.key, seqno, put.kind, put.value),
            FilterDecision::Remove if put.bottom && put.stripe == 0 => Ok(()),
            FilterDecision::Remove => out.add(put.key, put.seqno, Kind::Delete, &[]),
            FilterDecision::Replace(value) if put.kind == Kind::PutExpiring => {
                let time = put.value.get(..TIME_BYTES).unwrap_or_default();
                out.add(put.key, seqno, put.kind, &[time, &value[..]].concat())
            }
            FilterDecision::Replace(value) => out.add(put.key, seqno, Kind::Put, &value),
        }
    }

    /// Asks the compaction filter about a put that no snapshot sees.
    fn ask_filter(&mut self, put: &NewPut<'_>) -> Result<FilterDecision> {
        let Some(level) = self.filter_level.filter(|_| put.stripe == self.times_ms.len()) else {
            return Ok(FilterDecision::Keep);
        };
        let Some(rules) = self.live.rules(put.key) else { return Ok(FilterDecision::Keep) };
        let Some(filter) = &rules.filter else { return Ok(FilterDecision::Keep) };
        let separated;
        let value = match put.kind {
            Kind::PutExpiring => expiry::split(put.value).1,
            Kind::PutSeparated => {
                let values = self.values.as_deref();
                separated = super::operands::read_value(values, put.key, put.value)?;
                &separated
            }
            _ => put.value,
        };
        let started = match self.filter.take().filter(|started| started.is_of(filter)) {
            Some(started) => Ok(started),
            None => StartedFilter::start(filter),
        };
        let answer = started.and_then(|started| {
            let key = rules.user_key(put.key);
            let asked = self.filter.insert(started).asked();
            compaction_filter::ask(asked, level, key, value)
        });
        let problem = match answer {
            Ok(FilterDecision::Replace(value)) if value.len() > VALUE_BYTES_MAX => {
                "a compaction filter replaced a value by one over 1 GiB; the value stays"
                    .to_string()
            }
            Ok(FilterDecision::Keep) => return Ok(FilterDecision::Keep),
            Ok(changed) => {
                self.counters.filtered.add(1);
                return Ok(changed);
            }
            Err(problem) => {
                self.filter_level = None;
                problem
            }
        };
        self.counters.note_problem(problem);
        Ok(FilterDecision::Keep)
    }
}

/// Returns the rules of the keyspace of `key` if it exists and has a merge operator that is
/// present.
fn known_rules<'l>(live: &'l mut LiveKeys, key: &[u8]) -> Option<&'l Arc<KeyspaceRules>> {
    live.rules(key).filter(|rules| rules.operator.as_ref().is_some_and(|known| known.is_known()))
}
