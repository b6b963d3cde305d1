//! Compaction filters: callbacks that remove or replace pairs while compactions rewrite them.
//!
//! Invariants: a filter is asked only about pairs that no snapshot sees. Its panic does not leave
//! the call.

use std::sync::Arc;

use super::panics::catch_panic;

/// What a compaction filter decides about a pair.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FilterDecision {
    /// The pair stays as it is.
    Keep,
    /// The pair is deleted.
    Remove,
    /// The pair gets this value, of at most 1 GiB. A time at which it expires stays the same.
    Replace(Vec<u8>),
}

/// A compaction filter: decides for each pair that a compaction rewrites whether the pair stays.
///
/// A filter is asked about a pair only if no snapshot sees the pair: if the pair was written after
/// the newest snapshot was taken. It is asked about the newest version among those that the
/// compaction reads. Newer versions may be in memory or in upper levels. Flushes do not ask, and
/// neither do compactions that move files without a rewrite. So a pair may be shown to readers long
/// after the filter would have removed it, and the filter may be asked about it several times, or
/// never. It is not asked about merge operands.
///
/// A filter that panics is not asked again by the same compaction, which keeps the remaining pairs.
/// [`Metrics::callback_problem`](crate::Metrics::callback_problem) has the message.
///
/// The filter runs on threads of the store, must not use the store, and must end: while it runs, its
/// compaction does not end, and neither does a close of the store. A filter that answers differently
/// each time removes a pair once it has said so, and damages nothing.
///
/// ```
/// use esker::{CompactionFilter, FilterDecision};
///
/// /// Removes the pairs of tenant 7.
/// struct WithoutTenant7;
///
/// impl CompactionFilter for WithoutTenant7 {
///     fn name(&self) -> &str {
///         "example.WithoutTenant7"
///     }
///     fn filter(&self, _level: usize, key: &[u8], _value: &[u8]) -> FilterDecision {
///         if key.starts_with(b"tenant7/") { FilterDecision::Remove } else { FilterDecision::Keep }
///     }
/// }
/// ```
pub trait CompactionFilter: Send + Sync + 'static {
    /// Returns the name by which a keyspace finds the filter when the store is opened.
    fn name(&self) -> &str;
    /// Decides about a pair that a compaction writes to `level`.
    fn filter(&self, level: usize, key: &[u8], value: &[u8]) -> FilterDecision;
    /// Returns a filter of one compaction, or of one of the parts that a compaction is split into.
    /// The compaction asks it in place of `self`, from one thread at a time and in the order of the
    /// keys, and drops it at the end. Default: `None`, so the compaction asks `self`.
    fn for_compaction(&self) -> Option<Arc<dyn CompactionFilter>> {
        None
    }
}

/// The filter of one compaction, and the one that made it.
pub struct StartedFilter {
    origin: Arc<dyn CompactionFilter>,
    own: Option<Arc<dyn CompactionFilter>>,
}

impl StartedFilter {
    /// Starts a filter for a compaction. A panic becomes a message.
    pub fn start(origin: &Arc<dyn CompactionFilter>) -> Result<StartedFilter, String> {
        let own = catch_panic(|| origin.for_compaction()).map_err(|cause| {
            let name = filter_name(&**origin);
            format!("the compaction filter {name:?} panicked at its start ({cause})")
        })?;
        Ok(StartedFilter { origin: origin.clone(), own })
    }

    /// Returns whether `origin` made this filter.
    pub fn is_of(&self, origin: &Arc<dyn CompactionFilter>) -> bool {
        Arc::ptr_eq(&self.origin, origin)
    }

    /// Returns the filter that is asked.
    pub fn asked(&self) -> &dyn CompactionFilter {
        self.own.as_deref().unwrap_or(&*self.origin)
    }
}

/// Asks `filter` about a pair. A panic becomes a message.
pub fn ask(
    filter: &dyn CompactionFilter,
    level: usize,
    key: &[u8],
    value: &[u8],
) -> Result<FilterDecision, String> {
    catch_panic(|| filter.filter(level, key, value)).map_err(|cause| {
        let name = filter_name(filter);
        format!("the compaction filter {name:?} panicked ({cause}); it keeps the remaining pairs")
    })
}

/// Returns the name of a filter, which is empty if the filter does not say it.
fn filter_name(filter: &dyn CompactionFilter) -> String {
    catch_panic(|| filter.name().to_string()).unwrap_or_default()
}
