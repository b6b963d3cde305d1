//! The places of merge operators and compaction filters in a store.
//!
//! Esker keeps the names of a keyspace's operator and filter from its creation on, and finds them by
//! name when the store is opened. RocksDB takes those of the options of each opening, whatever their
//! names. So each column family has a slot, whose name is that of the column family, and the slot
//! has the operator and the filter of the present opening.
//!
//! Invariants:
//! 1. At most one slot of an open store has a given name of a column family.
//! 2. What a slot holds does not change once the slot has a name.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use esker::{CompactionFilter, FilterDecision, KeyspaceOptions, MergeOperator, Options};
use esker_c::failure::{Failure, Outcome};

use crate::options::rocksdb_options_t;
use crate::store::DEFAULT;

/// Number of column families with operators and filters that an opening can create.
const SPARE_SLOTS: usize = 1000;
/// Maximum length of the name of an operator in Esker, in bytes.
const NAME_BYTES_MAX: usize = 255;

/// A place of an operator and a filter.
#[derive(Default)]
pub struct Slot {
    taken: OnceLock<Taken>,
    is_released: AtomicBool,
}

struct Taken {
    name: String,
    operator: Option<Arc<dyn MergeOperator>>,
    filter: Option<Arc<dyn CompactionFilter>>,
}

/// Returns the name of the slot of a column family; `None` if that would be too long.
fn name_of(family: &str) -> Option<String> {
    Some(format!("rocksdb:{family}")).filter(|name| name.len() <= NAME_BYTES_MAX)
}

impl Slot {
    /// Makes this the slot of a column family with these options.
    fn take(&self, name: String, options: &rocksdb_options_t) {
        let (operator, filter) = (options.merge_operator(), options.filter());
        let _ = self.taken.set(Taken { name, operator, filter });
    }

    fn shown_name(&self) -> &str {
        match self.taken.get() {
            Some(taken) if !self.is_released.load(Ordering::Acquire) => &taken.name,
            _ => "rocksdb-unused",
        }
    }

    fn operator(&self) -> Option<&Arc<dyn MergeOperator>> {
        self.taken.get()?.operator.as_ref()
    }

    fn held_filter(&self) -> Option<&Arc<dyn CompactionFilter>> {
        self.taken.get()?.filter.as_ref()
    }
}

impl MergeOperator for Slot {
    fn name(&self) -> &str {
        self.shown_name()
    }

    fn full_merge(
        &self,
        key: &[u8],
        existing: Option<&[u8]>,
        operands: &[&[u8]],
        out: &mut Vec<u8>,
    ) -> Result<(), String> {
        match self.operator() {
            Some(operator) => operator.full_merge(key, existing, operands, out),
            None => Err("the column family was opened without a merge operator".to_string()),
        }
    }

    fn partial_merge(&self, key: &[u8], operands: &[&[u8]], out: &mut Vec<u8>) -> bool {
        self.operator().is_some_and(|operator| operator.partial_merge(key, operands, out))
    }
}

impl CompactionFilter for Slot {
    fn name(&self) -> &str {
        self.shown_name()
    }

    fn filter(&self, level: usize, key: &[u8], value: &[u8]) -> FilterDecision {
        match self.held_filter() {
            Some(filter) => filter.filter(level, key, value),
            None => FilterDecision::Keep,
        }
    }

    fn for_compaction(&self) -> Option<Arc<dyn CompactionFilter>> {
        self.held_filter()?.for_compaction()
    }
}

/// Returns the merge operator of files that are made outside of a store: that of the options, under
/// the name that it has in the default column family.
pub fn operator_of_files(options: &rocksdb_options_t) -> Option<Arc<dyn MergeOperator>> {
    options.merge_operator()?;
    let slot = Slot::default();
    slot.take(name_of(DEFAULT)?, options);
    Some(Arc::new(slot))
}

/// The slots of an open store.
#[derive(Default)]
pub struct Slots {
    spare: Mutex<Vec<Arc<Slot>>>,
    /// Slots of column families.
    taken: Mutex<Vec<Arc<Slot>>>,
}

impl Slots {
    /// Adds the slots of the column families `families` to the options of a store, and spare ones
    /// if column families can be created.
    pub fn open(
        families: &[(String, &rocksdb_options_t)],
        is_read_only: bool,
        made: &mut Options,
    ) -> Slots {
        let mut taken = Vec::new();
        for (name, options) in families {
            let (operator, filter) = (options.merge_operator(), options.filter());
            let Some(slot_name) = name_of(name) else { continue };
            let slot = Arc::new(Slot::default());
            slot.take(slot_name, options);
            if operator.is_some() {
                match name == DEFAULT {
                    true => made.merge_operator = Some(slot.clone()),
                    false => made.merge_operators.push(slot.clone()),
                }
            }
            if filter.is_some() {
                match name == DEFAULT {
                    true => made.compaction_filter = Some(slot.clone()),
                    false => made.compaction_filters.push(slot.clone()),
                }
            }
            taken.push(slot);
        }
        let count = if is_read_only { 0 } else { SPARE_SLOTS };
        let spare: Vec<Arc<Slot>> = (0..count).map(|_| Arc::default()).collect();
        for slot in &spare {
            made.merge_operators.push(slot.clone());
            made.compaction_filters.push(slot.clone());
        }
        Slots { spare: Mutex::new(spare), taken: Mutex::new(taken) }
    }

    /// Takes a slot for a new column family, and names it in the keyspace's options.
    ///
    /// # Errors
    /// If there is no slot, and the options have an operator or a filter.
    pub fn create(
        &self,
        family: &str,
        options: &rocksdb_options_t,
        made: KeyspaceOptions,
    ) -> Outcome<KeyspaceOptions> {
        // A column family that is created at its opening has a slot for its absent keyspace.
        self.release(family);
        let mut spare = self.spare.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(name) = name_of(family)
            && let Some(slot) = spare.pop()
        {
            slot.take(name.clone(), options);
            self.taken.lock().unwrap_or_else(PoisonError::into_inner).push(slot);
            return Ok(made.merge_operator(&name).compaction_filter(&name));
        }
        if options.merge_operator().is_none() && options.filter().is_none() {
            return Ok(made);
        }
        let max = NAME_BYTES_MAX - "rocksdb:".len();
        Err(Failure::invalid(format!(
            "{family}: a column family with a merge operator or a compaction filter has a name of \
             at most {max} bytes, and an opening creates at most {SPARE_SLOTS} of them; open the \
             store again"
        )))
    }

    /// Takes the names from the slots of a column family that was dropped.
    pub fn release(&self, family: &str) {
        let Some(name) = name_of(family) else { return };
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        taken.retain(|slot| {
            let is_other = slot.shown_name() != name;
            if !is_other {
                slot.is_released.store(true, Ordering::Release);
            }
            is_other
        });
    }
}

/// Fails if a column family that exists cannot have the operator or the filter of its options.
///
/// # Errors
/// If the keyspace was not created through this interface.
pub fn check(family: &str, keyspace: &esker::Keyspace, options: &rocksdb_options_t) -> Outcome<()> {
    let asked = [
        ("merge_operator", options.merge_operator().is_some()),
        ("compaction_filter", options.filter().is_some()),
    ];
    let settings = keyspace.options();
    let expected = name_of(family);
    for (name, _) in asked.iter().filter(|(_, is_set)| *is_set && family != DEFAULT) {
        let found = settings.iter().find(|(known, _)| known == name).map(|(_, value)| value);
        if found.is_none() || found != expected.as_ref() {
            let found = found.map_or("none", String::as_str);
            return Err(Failure::invalid(format!(
                "{family}: the options have a {name}, and the keyspace, which was created or \
                 renamed by another interface, has {found:?}; copy it to a new column family"
            )));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operators::Uint64Add;

    #[test]
    fn a_slot_has_a_name_from_its_taking_to_its_release() {
        let slot = Slot::default();
        assert_eq!(MergeOperator::name(&slot), "rocksdb-unused");
        let mut options = rocksdb_options_t::default();
        options.objects.merge = Some(Arc::new(Uint64Add));
        slot.take("rocksdb:a".to_string(), &options);
        assert_eq!(MergeOperator::name(&slot), "rocksdb:a");
        let mut out = Vec::new();
        slot.full_merge(b"k", None, &[&1u64.to_le_bytes()], &mut out).unwrap();
        assert_eq!(out, 1u64.to_le_bytes());
        slot.is_released.store(true, Ordering::Release);
        assert_eq!(CompactionFilter::name(&slot), "rocksdb-unused");
        assert!(name_of(&"f".repeat(248)).is_none());
    }
}
