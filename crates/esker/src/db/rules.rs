//! The rules of keyspaces: merge operator, time to live and compaction filter. The settings of a
//! keyspace have their names. This file finds them among the built-in ones and those of the options.
//!
//! Invariants: the settings of a keyspace are stored with it when it is created. Those of the
//! default keyspace are stored when the store is first opened with its operator.

use std::collections::HashMap;
use std::sync::Arc;

use crate::base::expiry::StoreClock;
use crate::base::key::Kind;
use crate::base::keyspace::{KeyspaceId, LiveKeys, PREFIX_BYTES, TreeId};
use crate::base::keyspace_rules::KeyspaceRules;
use crate::base::merge_built_in::built_in_merge_operator;
use crate::base::merge_operator::{MergeOperator, NamedOperator};
use crate::error::{Error, ErrorKind, Result};
use crate::options::Options;
use crate::tree::catalog::{Catalog, CatalogChange, Pairs};

/// Setting: the name of the merge operator.
pub(super) const MERGE_OPERATOR: &str = "merge_operator";
/// Setting: the time to live of a put that states none, in milliseconds.
pub(super) const TTL_MS: &str = "ttl_ms";
/// Setting: the name of the compaction filter.
pub(super) const COMPACTION_FILTER: &str = "compaction_filter";

/// Sets a setting.
pub(super) fn set(settings: &mut Pairs, name: &str, value: String) {
    settings.retain(|(known, _)| known != name);
    let at = settings.partition_point(|(known, _)| known.as_str() < name);
    settings.insert(at, (name.to_string(), value));
}

/// Returns the value of a setting.
pub(super) fn get<'s>(settings: &'s Pairs, name: &str) -> Option<&'s str> {
    settings.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
}

/// Returns the merge operator with this name: a built-in one or one of those in `options`.
fn find_operator(name: &str, options: &Options) -> Option<Arc<dyn MergeOperator>> {
    let given = || {
        let mut given = options.merge_operators.iter().chain(&options.merge_operator);
        given.find(|operator| operator.name() == name).cloned()
    };
    built_in_merge_operator(name).or_else(given)
}

/// Returns the merge operator that the settings name.
fn operator_of(settings: &Pairs, options: &Options) -> Option<NamedOperator> {
    let name = get(settings, MERGE_OPERATOR)?;
    let found = find_operator(name, options);
    Some(found.map_or_else(|| NamedOperator::missing(name), NamedOperator::new))
}

/// Returns the rules of a keyspace with these settings, other than the default one.
pub(super) fn rules_of(
    settings: &Pairs,
    options: &Options,
    clock: &Arc<StoreClock>,
) -> Arc<KeyspaceRules> {
    let filter = get(settings, COMPACTION_FILTER).and_then(|name| {
        options.compaction_filters.iter().find(|filter| filter.name() == name).cloned()
    });
    Arc::new(KeyspaceRules {
        settings: settings.clone(),
        prefix_bytes: PREFIX_BYTES,
        operator: operator_of(settings, options),
        ttl_ms: get(settings, TTL_MS).and_then(|ms| ms.parse().ok()),
        filter,
        clock: clock.clone(),
    })
}

/// Returns the rules of the default keyspace.
///
/// # Errors
/// `Incompatible` when the store has another merge operator than `options`.
pub(super) fn default_rules(
    catalog: &Catalog,
    options: &Options,
    clock: &Arc<StoreClock>,
) -> Result<Arc<KeyspaceRules>> {
    let settings = catalog.default_settings();
    let stored = get(settings, MERGE_OPERATOR);
    let operator = match (&options.merge_operator, stored) {
        (Some(given), Some(stored)) if given.name() != stored => {
            let message = format!(
                "expected the merge operator {stored:?}, opened with {:?}; the operands in the store \
                 are those of {stored:?}",
                given.name()
            );
            return Err(Error::new(ErrorKind::Incompatible, message));
        }
        (Some(given), _) => Some(NamedOperator::new(given.clone())),
        (None, _) => operator_of(settings, options),
    };
    Ok(Arc::new(KeyspaceRules {
        settings: settings.clone(),
        prefix_bytes: 0,
        operator,
        ttl_ms: None,
        filter: options.compaction_filter.clone(),
        clock: clock.clone(),
    }))
}

/// Returns the change that stores the name of the merge operator of the default keyspace, unless
/// `catalog` has it.
pub(super) fn default_settings_change(
    catalog: &Catalog,
    operator: Option<&str>,
) -> Option<CatalogChange> {
    let name = operator?;
    let mut settings = catalog.default_settings().clone();
    if get(&settings, MERGE_OPERATOR).is_some() {
        return None;
    }
    set(&mut settings, MERGE_OPERATOR, name.to_string());
    Some(CatalogChange::DefaultSettings(settings))
}

/// Returns an error if the settings of a new keyspace name an operator or a filter that the store
/// could not find when it is opened again with the same options.
pub(super) fn check_settings(settings: &Pairs, options: &Options) -> Result<()> {
    if let Some(name) = get(settings, MERGE_OPERATOR)
        && find_operator(name, options).is_none()
    {
        return Err(Error::invalid(format!(
            "the merge operator {name:?} is neither built in nor in `Options::merge_operators`"
        )));
    }
    if let Some(name) = get(settings, COMPACTION_FILTER)
        && !options.compaction_filters.iter().any(|filter| filter.name() == name)
    {
        return Err(Error::invalid(format!(
            "the compaction filter {name:?} is not in `Options::compaction_filters`"
        )));
    }
    Ok(())
}

/// Returns the rules of the keyspaces of a catalog, except the default one, by number.
pub(super) fn rules_by_id(
    catalog: &Catalog,
    options: &Options,
    clock: &Arc<StoreClock>,
) -> HashMap<KeyspaceId, Arc<KeyspaceRules>> {
    let rules = |spec: &crate::tree::catalog::KeyspaceSpec| {
        (spec.id, rules_of(&spec.settings, options, clock))
    };
    catalog.keyspaces().map(|spec| rules(spec)).collect()
}

/// Returns the keys of a tree whose keyspaces exist in the catalog. `main` has the rules of the
/// default keyspace.
pub(super) fn catalog_keys(
    catalog: &Catalog,
    tree: TreeId,
    options: &Options,
    main: &Arc<KeyspaceRules>,
) -> LiveKeys {
    if tree == 0 {
        return LiveKeys::all(main.clone());
    }
    let live = rules_by_id(catalog, options, &main.clock);
    LiveKeys::of(Box::new(move |id| live.get(&id).cloned()))
}

/// Starts the clock if a recovered operation of this kind makes a pair that expires.
#[inline]
pub(super) fn note_kind(rules: &KeyspaceRules, kind: Kind) {
    if kind == Kind::PutExpiring {
        rules.clock.mark_used();
    }
}
