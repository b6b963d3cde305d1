//! The catalog of an open store: finds, creates, renames and drops keyspaces.
//!
//! Invariants:
//! 1. The manifest, the trees and the list of keyspaces change under the lock of the versions, in
//!    this order. A handle exists only for a keyspace of the list.
//! 2. A new tree also needs the writer state, because the writer gets one more memtable.

use std::sync::Arc;

use super::Db;
use super::keyspace::{Keyspace, KeyspaceOptions, Own, dropped};
use super::rules::{check_settings, rules_of};
use super::state::DbInner;
use super::tree::{Tree, known_orders};
use crate::base::keyspace::{KEYSPACE_ID_MAX, KeyspaceState};
use crate::base::order::KeyOrder;
use crate::base::sync::MutexGuard;
use crate::base::workers::JobClass;
use crate::error::{Error, ErrorKind, Result};
use crate::memtable::Memtable;
use crate::observe::Event;
use crate::tree::catalog::{
    CatalogChange, DEFAULT_KEYSPACE, KeyspaceSpec, Pairs, TREES_MAX, TreeSpec, check_name,
    is_internal,
};
use crate::tree::edit::VersionEdit;
use crate::tree::set::VersionSet;
use crate::write::writer_state::WriterState;

/// The name and the settings of a new keyspace.
type NewKeyspace<'a> = (&'a str, &'a Pairs);

impl Db {
    /// Returns the keyspace with this name, which is created with `options` if it does not exist.
    /// The keyspace `default` always exists.
    ///
    /// # Errors
    /// * `InvalidArgument` when the keyspace exists with another key order or other options, when
    ///   the name is empty, longer than 255 bytes or has control characters, when the merge
    ///   operator or the compaction filter is unknown, or when the store already has 63
    ///   combinations of key order and storage options.
    /// * `ReadOnly`, `NoSpace`, `Io` when it must be created.
    pub fn keyspace(&self, name: &str, options: &KeyspaceOptions) -> Result<Keyspace> {
        if let Some(keyspace) = self.existing_keyspace(name)? {
            keyspace.check_options(options)?;
            return Ok(keyspace);
        }
        self.inner.create_keyspace(name, options)?;
        self.inner.deliver_events();
        match self.existing_keyspace(name)? {
            Some(keyspace) => keyspace.check_options(options).map(|()| keyspace),
            None => Err(Error::not_found(format!("the keyspace \"{name}\" was dropped meanwhile"))),
        }
    }

    /// Returns the keyspace with this name, or `None` if it does not exist.
    ///
    /// # Errors
    /// `Closed`.
    pub fn existing_keyspace(&self, name: &str) -> Result<Option<Keyspace>> {
        self.inner.check_open()?;
        if name == DEFAULT_KEYSPACE {
            return Ok(Some(Keyspace::new(self, None)));
        }
        let state = self.inner.keyspaces.lock().find(name).cloned();
        let state = state.filter(|_| !is_internal(name));
        let own = state.and_then(|state| {
            let tree = self.inner.trees.load().get(state.tree as usize)?.clone();
            Some(Own { state, tree })
        });
        Ok(own.map(|own| Keyspace::new(self, Some(own))))
    }

    /// Does the same as [`Db::existing_keyspace`], and fails as [`Db::keyspace`] does if the keyspace has
    /// other options.
    pub(crate) fn existing_keyspace_with(
        &self,
        name: &str,
        options: &KeyspaceOptions,
    ) -> Result<Option<Keyspace>> {
        let found = self.existing_keyspace(name)?;
        found.map(|keyspace| keyspace.check_options(options).map(|()| keyspace)).transpose()
    }

    /// Creates a keyspace. Fails with `InvalidArgument` if it exists: of callers at the same time, one
    /// creates it.
    pub(crate) fn new_keyspace(&self, name: &str, options: &KeyspaceOptions) -> Result<Keyspace> {
        check_name(name)?;
        {
            let _changing = self.inner.feed.catalog_change.lock();
            if self.existing_keyspace(name)?.is_some() {
                return Err(Error::invalid(format!("the keyspace {name} already exists")));
            }
            self.inner.create_and_log(name, options)?;
        }
        self.inner.deliver_events();
        self.existing_keyspace(name)?.ok_or_else(|| {
            Error::not_found(format!("the keyspace \"{name}\" was dropped meanwhile"))
        })
    }

    /// Returns the names of all keyspaces: `default`, then the others in alphabetical order.
    pub fn keyspaces(&self) -> Vec<String> {
        let names = self.inner.keyspaces.lock().names();
        let names = names.iter().map(|name| name.to_string());
        std::iter::once(DEFAULT_KEYSPACE.to_string()).chain(names).collect()
    }

    /// Gives a keyspace another name. Handles of the keyspace stay valid.
    ///
    /// # Errors
    /// `NotFound` when there is no keyspace `name`; `InvalidArgument` when `new_name` is in use or
    /// not allowed, or for the default keyspace; `ReadOnly`, `NoSpace`, `Io`.
    pub fn rename_keyspace(&self, name: &str, new_name: &str) -> Result<()> {
        check_name(new_name)?;
        self.inner.check_writable()?;
        let changing = self.inner.feed.catalog_change.lock();
        let mut versions = self.inner.versions.lock();
        let keyspace = self.inner.find_keyspace(name)?;
        if self.inner.is_taken(new_name) {
            return Err(Error::invalid(format!("the keyspace \"{new_name}\" exists already")));
        }
        let change = CatalogChange::Rename(keyspace.id, new_name.to_string());
        versions.apply(VersionEdit { catalog: vec![change], ..VersionEdit::default() })?;
        self.inner.keyspaces.lock().rename(&keyspace, new_name);
        drop(versions);
        let logged = self.inner.log_keyspace_change();
        drop(changing);
        let (id, name, new_name) = (keyspace.id, name.to_string(), new_name.to_string());
        self.inner.emit(|| Event::KeyspaceRenamed { id, name, new_name });
        self.inner.deliver_events();
        logged
    }

    /// Drops a keyspace with all its keys. The call takes the time of two syncs, whatever the size
    /// of the keyspace. Its space is freed in the background. Iterators that exist go on; every
    /// other use of a handle of the keyspace returns `NotFound`.
    ///
    /// # Errors
    /// `NotFound` when there is no keyspace `name`; `InvalidArgument` for the default keyspace;
    /// `ReadOnly`, `NoSpace`, `Io`.
    pub fn drop_keyspace(&self, name: &str) -> Result<()> {
        let inner = &self.inner;
        inner.check_writable()?;
        let changing = inner.feed.catalog_change.lock();
        let mut versions = inner.versions.lock();
        let keyspace = inner.find_keyspace(name)?;
        let change = CatalogChange::Drop(keyspace.id);
        versions.apply(VersionEdit { catalog: vec![change], ..VersionEdit::default() })?;
        inner.keyspaces.lock().remove(&keyspace);
        inner.dropped.lock().push_back((keyspace.id, keyspace.tree));
        drop(versions);
        let logged = inner.log_keyspace_change();
        drop(changing);
        inner.emit(|| Event::KeyspaceDropped { id: keyspace.id, name: name.to_string() });
        inner.deliver_events();
        // Under the lock, so that no thread is between its last check and its wait.
        let _queue = inner.queue.lock();
        inner.wake(JobClass::Compact);
        logged
    }
}

impl DbInner {
    /// Returns an error if a keyspace of a batch is of another store or was dropped.
    pub(super) fn check_keyspace(&self, keyspace: &KeyspaceState) -> Result<()> {
        if keyspace.opening != self.opening {
            return Err(Error::invalid(format!(
                "the batch names the keyspace \"{}\" of another store or of another opening",
                keyspace.name()
            )));
        }
        if keyspace.is_dropped() { Err(dropped(keyspace)) } else { Ok(()) }
    }

    fn is_taken(&self, name: &str) -> bool {
        name == DEFAULT_KEYSPACE || self.keyspaces.lock().find(name).is_some()
    }

    fn find_keyspace(&self, name: &str) -> Result<Arc<KeyspaceState>> {
        if name == DEFAULT_KEYSPACE {
            let message = "the keyspace \"default\" can be neither dropped nor renamed";
            return Err(Error::invalid(message));
        }
        let found = self.keyspaces.lock().find(name).cloned().filter(|_| !is_internal(name));
        found.ok_or_else(|| Error::not_found(format!("there is no keyspace \"{name}\"")))
    }

    fn create_keyspace(&self, name: &str, options: &KeyspaceOptions) -> Result<()> {
        check_name(name)?;
        let _changing = self.feed.catalog_change.lock();
        self.create_and_log(name, options)
    }

    /// Creates a keyspace, which may be an internal one, unless it exists.
    pub(super) fn create_any_keyspace(&self, name: &str, options: &KeyspaceOptions) -> Result<()> {
        let _changing = self.feed.catalog_change.lock();
        self.create_in_order(name, options)
    }

    /// Returns an error for a keyspace that cannot be created with `options`.
    pub(super) fn check_new_keyspace(&self, options: &KeyspaceOptions) -> Result<()> {
        self.check_writable()?;
        check_settings(&options.settings, &self.options.load())?;
        let order = options.key_order.name();
        let known = known_orders(&self.options.load());
        if KeyOrder::by_name(order, &known).is_none() {
            return Err(Error::invalid(format!(
                "the key order {order} is not in `Options::key_orders`, and without it the store \
                 could not be opened again"
            )));
        }
        Ok(())
    }

    /// Does the same as [`DbInner::create_any_keyspace`], with `catalog_change` locked.
    pub(super) fn create_in_order(&self, name: &str, options: &KeyspaceOptions) -> Result<()> {
        self.check_new_keyspace(options)?;
        let order = options.key_order.name();
        let new = (name, &options.settings);
        {
            let versions = self.versions.lock();
            if let Some(tree) = versions.catalog().tree_of(order, &options.pairs) {
                let tree = tree.id;
                return self.create_in_tree(versions, new, tree).map(drop);
            }
        }
        // The writer state comes before the versions.
        let mut writer = self.committer.lock();
        let versions = self.versions.lock();
        let existing = versions.catalog().tree_of(order, &options.pairs).map(|tree| tree.id);
        if let Some(tree) = existing {
            return self.create_in_tree(versions, new, tree).map(drop);
        }
        let id = versions.catalog().trees().len() + 1;
        if id >= TREES_MAX {
            return Err(Error::invalid(format!(
                "the keyspaces of the store have {} combinations of key order and storage \
                 options, which is the maximum; use one of them",
                TREES_MAX - 1
            )));
        }
        let id = id as u32;
        let spec = TreeSpec { id, order: order.to_string(), options: options.pairs.clone() };
        let order = options.key_order.clone();
        let tree = Tree::other(id, order, &spec.options, &self.options.load(), &self.tables);
        self.watch_empty_ranges(&tree);
        let add = vec![CatalogChange::AddTree(spec)];
        let versions = self.create_in_tree_of(versions, new, id, add, |versions| {
            self.install_tree(&mut writer, tree, versions);
        })?;
        drop(versions);
        Ok(())
    }

    fn create_in_tree<'a>(
        &self,
        versions: MutexGuard<'a, VersionSet>,
        new: NewKeyspace<'_>,
        tree: u32,
    ) -> Result<MutexGuard<'a, VersionSet>> {
        self.create_in_tree_of(versions, new, tree, Vec::new(), |_| {})
    }

    /// Records a keyspace in `tree`, after `changes`. Calls `then` before the keyspace is listed.
    fn create_in_tree_of<'a>(
        &self,
        mut versions: MutexGuard<'a, VersionSet>,
        (name, settings): NewKeyspace<'_>,
        tree: u32,
        mut changes: Vec<CatalogChange>,
        then: impl FnOnce(&VersionSet),
    ) -> Result<MutexGuard<'a, VersionSet>> {
        if self.is_taken(name) {
            return Ok(versions);
        }
        let id = versions.catalog().next_id();
        if id > KEYSPACE_ID_MAX {
            return Err(Error::new(ErrorKind::NoSpace, "the numbers of keyspaces are used up"));
        }
        let (name, settings) = (name.to_string(), settings.clone());
        let rules = rules_of(&settings, &self.options.load(), &self.rules.clock);
        changes.push(CatalogChange::Create(KeyspaceSpec {
            id,
            tree,
            name: name.clone(),
            settings,
        }));
        versions.apply(VersionEdit { catalog: changes, ..VersionEdit::default() })?;
        then(&versions);
        let opening = self.opening;
        let state = Arc::new(KeyspaceState::new(id, tree, opening, &name, rules));
        self.keyspaces.lock().insert(state);
        self.emit(|| Event::KeyspaceCreated { id, name });
        Ok(versions)
    }

    /// Makes a new tree, which the manifest has, usable for writers and readers.
    fn install_tree(&self, writer: &mut WriterState, tree: Tree, versions: &VersionSet) {
        let options = self.options.load();
        let memtable = Memtable::with_pool(
            options.memtable_kind,
            tree.order.clone(),
            self.pool.clone(),
            self.next_memtable_bytes(writer.memtables.memory_bytes() as u64),
        );
        let memtable = Arc::new(memtable.with_thresholds(&options.thresholds));
        let version = versions.current().trees()[tree.id as usize].clone();
        let mut trees = (*self.trees()).clone();
        trees.push(Arc::new(tree));
        self.trees.store(Arc::new(trees));
        writer.memtables = writer.memtables.with_another(memtable.clone());
        self.replace_read_state(|view| view.with_another(memtable, version));
    }
}
