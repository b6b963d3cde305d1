//! The catalog: the keyspaces of a store and the trees that hold their keys.
//!
//! Keyspaces of the same key order and the same storage options share a tree. The default keyspace
//! is not in the catalog: it has number 0, the name `default`, and tree 0.
//!
//! Invariants:
//! 1. Names and numbers are unique. A number is never used again.
//! 2. Each keyspace names a tree of the catalog.
//! 3. A change is checked against the catalog before it is written to the manifest.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use crate::base::coding::{Reader, put_bytes, put_varint};
use crate::base::keyspace::{KEYSPACE_ID_MAX, KeyspaceId, TreeId};
use crate::error::{Error, ErrorKind, Result};

/// Name of the default keyspace.
pub const DEFAULT_KEYSPACE: &str = "default";

/// Name of the internal keyspace that holds the prepared transactions. Users' names have no control
/// characters.
pub const PREPARED_KEYSPACE: &str = "\u{1}prepared";

/// Name of the internal keyspace that the change feed uses: the keyspaces as slots know them, and the
/// position of a store that applies the feed of another.
pub const FEED_KEYSPACE: &str = "\u{1}feed";

/// Maximum length of the name of a keyspace, in bytes.
pub const NAME_BYTES_MAX: usize = 255;

/// Maximum number of trees: of different combinations of key order and storage options.
pub const TREES_MAX: usize = 64;

/// Option names with their values as text, ordered by name.
pub type Pairs = Vec<(String, String)>;

/// A tree: a key order and storage options.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TreeSpec {
    /// Number of the tree, at least 1.
    pub id: TreeId,
    /// Name of the key order.
    pub order: String,
    /// Options that differ from the store's.
    pub options: Pairs,
}

/// A keyspace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyspaceSpec {
    /// Number of the keyspace, at least 1.
    pub id: KeyspaceId,
    /// Number of its tree.
    pub tree: TreeId,
    /// Its name.
    pub name: String,
    /// Its settings that are no storage options, such as the merge operator.
    pub settings: Pairs,
}

/// A change of the catalog.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CatalogChange {
    /// Adds a tree.
    AddTree(TreeSpec),
    /// Adds a keyspace.
    Create(KeyspaceSpec),
    /// Gives a keyspace another name.
    Rename(KeyspaceId, String),
    /// Removes a keyspace. Its entries stay in the tables of its tree until a purge.
    Drop(KeyspaceId),
    /// States that a keyspace of a tree was dropped, in place of its creation and its drop.
    Dropped(KeyspaceId, TreeId),
    /// States that the tables hold nothing of a dropped keyspace any more.
    Purge(KeyspaceId),
    /// Raises the number of the next keyspace.
    NextId(KeyspaceId),
    /// Replaces the settings of the default keyspace.
    DefaultSettings(Pairs),
}

/// How to take a change back.
#[derive(Debug)]
pub enum Undo {
    /// Removes the last tree.
    AddTree,
    /// Removes a keyspace.
    Create(KeyspaceId),
    /// Restores a keyspace under its former name.
    Rename(Arc<KeyspaceSpec>),
    /// Restores a keyspace.
    Drop(Arc<KeyspaceSpec>),
    /// Restores a dropped keyspace that waits for its purge.
    Purge(KeyspaceId, TreeId),
    /// Restores the settings of the default keyspace.
    DefaultSettings(Pairs),
    /// The change stays.
    Nothing,
}

/// The keyspaces of a store and their trees.
#[derive(Debug, Clone)]
pub struct Catalog {
    trees: Vec<Arc<TreeSpec>>,
    keyspaces: BTreeMap<KeyspaceId, Arc<KeyspaceSpec>>,
    by_name: HashMap<String, KeyspaceId>,
    /// Dropped keyspaces with entries in tables, with their trees.
    dropped: BTreeMap<KeyspaceId, TreeId>,
    next_id: KeyspaceId,
    default_settings: Pairs,
}

impl Default for Catalog {
    fn default() -> Catalog {
        Catalog {
            trees: Vec::new(),
            keyspaces: BTreeMap::new(),
            by_name: HashMap::new(),
            dropped: BTreeMap::new(),
            next_id: 1,
            default_settings: Pairs::new(),
        }
    }
}

impl Catalog {
    /// Returns the trees except tree 0, by number.
    pub fn trees(&self) -> &[Arc<TreeSpec>] {
        &self.trees
    }

    /// Returns the tree of this key order with these options.
    pub fn tree_of(&self, order: &str, options: &Pairs) -> Option<&Arc<TreeSpec>> {
        self.trees.iter().find(|tree| tree.order == order && tree.options == *options)
    }

    /// Returns the keyspaces except the default one, by number.
    pub fn keyspaces(&self) -> impl Iterator<Item = &Arc<KeyspaceSpec>> {
        self.keyspaces.values()
    }

    /// Returns the keyspace with this name.
    #[cfg(test)]
    fn find(&self, name: &str) -> Option<&Arc<KeyspaceSpec>> {
        self.keyspaces.get(self.by_name.get(name)?)
    }

    /// Returns the dropped keyspaces that wait for their purge, with their trees.
    pub fn dropped(&self) -> impl Iterator<Item = (KeyspaceId, TreeId)> {
        self.dropped.iter().map(|(id, tree)| (*id, *tree))
    }

    /// Returns the number of the next keyspace.
    pub fn next_id(&self) -> KeyspaceId {
        self.next_id
    }

    /// Returns the settings of the default keyspace.
    pub fn default_settings(&self) -> &Pairs {
        &self.default_settings
    }

    /// Applies `changes`, all or none of them. Returns what [`Catalog::undo`] needs.
    ///
    /// # Errors
    /// `Corruption` when a change does not fit the catalog.
    pub fn apply(&mut self, changes: &[CatalogChange]) -> Result<Vec<Undo>> {
        let mut done = Vec::with_capacity(changes.len());
        for change in changes {
            match self.apply_one(change) {
                Ok(undo) => done.push(undo),
                Err(error) => {
                    self.undo(done);
                    return Err(error);
                }
            }
        }
        Ok(done)
    }

    /// Takes changes back. The numbers of keyspaces stay used.
    pub fn undo(&mut self, done: Vec<Undo>) {
        for undo in done.into_iter().rev() {
            match undo {
                Undo::AddTree => drop(self.trees.pop()),
                Undo::Create(id) => drop(self.remove(id)),
                Undo::Rename(known) => {
                    self.remove(known.id);
                    self.insert(known);
                }
                Undo::Drop(known) => {
                    self.dropped.remove(&known.id);
                    self.insert(known);
                }
                Undo::Purge(id, tree) => drop(self.dropped.insert(id, tree)),
                Undo::DefaultSettings(settings) => self.default_settings = settings,
                Undo::Nothing => {}
            }
        }
    }

    fn remove(&mut self, id: KeyspaceId) -> Option<Arc<KeyspaceSpec>> {
        let removed = self.keyspaces.remove(&id)?;
        self.by_name.remove(&removed.name);
        Some(removed)
    }

    fn insert(&mut self, keyspace: Arc<KeyspaceSpec>) {
        self.by_name.insert(keyspace.name.clone(), keyspace.id);
        self.keyspaces.insert(keyspace.id, keyspace);
    }

    fn apply_one(&mut self, change: &CatalogChange) -> Result<Undo> {
        match change {
            CatalogChange::AddTree(tree) => {
                if tree.id as usize != self.trees.len() + 1 || self.trees.len() + 1 >= TREES_MAX {
                    return Err(bad("a tree has an unexpected number"));
                }
                self.trees.push(Arc::new(tree.clone()));
                Ok(Undo::AddTree)
            }
            CatalogChange::Create(keyspace) => self.create(keyspace),
            CatalogChange::Rename(id, name) => {
                if self.by_name.contains_key(name) {
                    return Err(bad("two keyspaces have the same name"));
                }
                let Some(known) = self.remove(*id) else {
                    return Err(bad("a renamed keyspace does not exist"));
                };
                self.insert(Arc::new(KeyspaceSpec { name: name.clone(), ..(*known).clone() }));
                Ok(Undo::Rename(known))
            }
            CatalogChange::Drop(id) => match self.remove(*id) {
                Some(dropped) => {
                    self.dropped.insert(*id, dropped.tree);
                    Ok(Undo::Drop(dropped))
                }
                None => Err(bad("a dropped keyspace does not exist")),
            },
            CatalogChange::Dropped(id, tree) => {
                if self.keyspaces.contains_key(id)
                    || *tree == 0
                    || *tree as usize > self.trees.len()
                {
                    return Err(bad("a dropped keyspace is in no tree, or exists"));
                }
                self.dropped.insert(*id, *tree);
                Ok(Undo::Nothing)
            }
            CatalogChange::Purge(id) => match self.dropped.remove(id) {
                Some(tree) => Ok(Undo::Purge(*id, tree)),
                None => Err(bad("a purged keyspace was not dropped")),
            },
            CatalogChange::NextId(id) => {
                self.next_id = self.next_id.max(*id);
                Ok(Undo::Nothing)
            }
            CatalogChange::DefaultSettings(settings) => {
                let known = std::mem::replace(&mut self.default_settings, settings.clone());
                Ok(Undo::DefaultSettings(known))
            }
        }
    }

    fn create(&mut self, keyspace: &KeyspaceSpec) -> Result<Undo> {
        let id = keyspace.id;
        if id == 0 || id > KEYSPACE_ID_MAX || self.keyspaces.contains_key(&id) {
            return Err(bad("a keyspace has an unexpected number"));
        }
        if keyspace.tree == 0 || keyspace.tree as usize > self.trees.len() {
            return Err(bad("a keyspace is in a tree that does not exist"));
        }
        if self.by_name.contains_key(&keyspace.name) || keyspace.name == DEFAULT_KEYSPACE {
            return Err(bad("two keyspaces have the same name"));
        }
        self.next_id = self.next_id.max(id + 1);
        self.insert(Arc::new(keyspace.clone()));
        Ok(Undo::Create(id))
    }

    /// Returns the changes that turn an empty catalog into this one.
    pub fn to_changes(&self) -> Vec<CatalogChange> {
        let trees = self.trees.iter().map(|tree| CatalogChange::AddTree((**tree).clone()));
        let keyspaces = self.keyspaces.values().map(|k| CatalogChange::Create((**k).clone()));
        let dropped = self.dropped.iter().map(|(id, tree)| CatalogChange::Dropped(*id, *tree));
        let mut changes: Vec<CatalogChange> = trees.chain(keyspaces).chain(dropped).collect();
        if !self.default_settings.is_empty() {
            changes.push(CatalogChange::DefaultSettings(self.default_settings.clone()));
        }
        if self.next_id > 1 {
            changes.push(CatalogChange::NextId(self.next_id));
        }
        changes
    }
}

fn bad(what: &str) -> Error {
    Error::new(ErrorKind::Corruption, format!("a manifest edit is invalid: {what}"))
}

/// Returns whether `name` is that of an internal keyspace, which users do not see.
pub fn is_internal(name: &str) -> bool {
    name == PREPARED_KEYSPACE || name == FEED_KEYSPACE
}

/// Checks the name of a new keyspace.
///
/// # Errors
/// `InvalidArgument` for an empty name, a name over [`NAME_BYTES_MAX`] bytes or one with control
/// characters.
pub fn check_name(name: &str) -> Result<()> {
    if name.is_empty() {
        return Err(Error::invalid("the name of a keyspace is empty"));
    }
    if name.len() > NAME_BYTES_MAX {
        return Err(Error::invalid(format!(
            "the name of a keyspace has {} bytes; the maximum is {NAME_BYTES_MAX}",
            name.len()
        )));
    }
    if name.chars().any(char::is_control) {
        let shown = name.escape_debug();
        return Err(Error::invalid(format!(
            "the name of a keyspace must not contain control characters, found \"{shown}\""
        )));
    }
    Ok(())
}

const ADD_TREE: u8 = 0;
const CREATE: u8 = 1;
const RENAME: u8 = 2;
const DROP: u8 = 3;
const NEXT_ID: u8 = 4;
const DROPPED: u8 = 5;
const PURGE: u8 = 6;
const DEFAULT_SETTINGS: u8 = 7;

fn put_pairs(out: &mut Vec<u8>, pairs: &Pairs) {
    put_varint(out, pairs.len() as u64);
    for (name, value) in pairs {
        put_bytes(out, name.as_bytes());
        put_bytes(out, value.as_bytes());
    }
}

fn get_text(reader: &mut Reader<'_>) -> Option<String> {
    String::from_utf8(reader.bytes()?.to_vec()).ok()
}

fn get_pairs(reader: &mut Reader<'_>) -> Option<Pairs> {
    let count = reader.varint()?;
    let mut pairs = Vec::new();
    for _ in 0..count {
        pairs.push((get_text(reader)?, get_text(reader)?));
    }
    Some(pairs)
}

fn get_id(reader: &mut Reader<'_>) -> Option<u32> {
    u32::try_from(reader.varint()?).ok()
}

impl CatalogChange {
    /// Appends the encoding of the change: a `u8` for its kind, then its fields.
    pub fn encode(&self, out: &mut Vec<u8>) {
        match self {
            CatalogChange::AddTree(tree) => {
                out.push(ADD_TREE);
                put_varint(out, u64::from(tree.id));
                put_bytes(out, tree.order.as_bytes());
                put_pairs(out, &tree.options);
            }
            CatalogChange::Create(keyspace) => {
                out.push(CREATE);
                put_varint(out, u64::from(keyspace.id));
                put_varint(out, u64::from(keyspace.tree));
                put_bytes(out, keyspace.name.as_bytes());
                put_pairs(out, &keyspace.settings);
            }
            CatalogChange::Rename(id, name) => {
                out.push(RENAME);
                put_varint(out, u64::from(*id));
                put_bytes(out, name.as_bytes());
            }
            CatalogChange::Drop(id) => {
                out.push(DROP);
                put_varint(out, u64::from(*id));
            }
            CatalogChange::Dropped(id, tree) => {
                out.push(DROPPED);
                put_varint(out, u64::from(*id));
                put_varint(out, u64::from(*tree));
            }
            CatalogChange::Purge(id) => {
                out.push(PURGE);
                put_varint(out, u64::from(*id));
            }
            CatalogChange::NextId(id) => {
                out.push(NEXT_ID);
                put_varint(out, u64::from(*id));
            }
            CatalogChange::DefaultSettings(settings) => {
                out.push(DEFAULT_SETTINGS);
                put_pairs(out, settings);
            }
        }
    }

    /// Decodes a change. Returns `None` when the bytes are not a valid change.
    pub fn decode(reader: &mut Reader<'_>) -> Option<CatalogChange> {
        Some(match reader.u8()? {
            ADD_TREE => CatalogChange::AddTree(TreeSpec {
                id: get_id(reader)?,
                order: get_text(reader)?,
                options: get_pairs(reader)?,
            }),
            CREATE => CatalogChange::Create(KeyspaceSpec {
                id: get_id(reader)?,
                tree: get_id(reader)?,
                name: get_text(reader)?,
                settings: get_pairs(reader)?,
            }),
            RENAME => CatalogChange::Rename(get_id(reader)?, get_text(reader)?),
            DROP => CatalogChange::Drop(get_id(reader)?),
            NEXT_ID => CatalogChange::NextId(get_id(reader)?),
            DROPPED => CatalogChange::Dropped(get_id(reader)?, get_id(reader)?),
            PURGE => CatalogChange::Purge(get_id(reader)?),
            DEFAULT_SETTINGS => CatalogChange::DefaultSettings(get_pairs(reader)?),
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(id: TreeId, order: &str) -> CatalogChange {
        let options = vec![("compression".to_string(), "zstd".to_string())];
        CatalogChange::AddTree(TreeSpec { id, order: order.into(), options })
    }

    fn keyspace(id: KeyspaceId, tree: TreeId, name: &str) -> CatalogChange {
        let settings = vec![("ttl_ms".to_string(), "5".to_string())];
        CatalogChange::Create(KeyspaceSpec { id, tree, name: name.into(), settings })
    }

    #[test]
    fn changes_round_trip_and_damaged_ones_are_no_changes() {
        let changes = [
            tree(1, "esker.bytewise"),
            keyspace(7, 1, "users"),
            CatalogChange::Rename(7, "people".into()),
            CatalogChange::Drop(7),
            CatalogChange::Dropped(9, 1),
            CatalogChange::Purge(9),
            CatalogChange::NextId(u32::MAX),
            CatalogChange::DefaultSettings(vec![("merge_operator".into(), "max".into())]),
        ];
        for change in changes {
            let mut bytes = Vec::new();
            change.encode(&mut bytes);
            assert_eq!(CatalogChange::decode(&mut Reader::new(&bytes)), Some(change));
            for len in 0..bytes.len() {
                assert_eq!(CatalogChange::decode(&mut Reader::new(&bytes[..len])), None);
            }
        }
    }

    #[test]
    fn a_catalog_comes_back_from_its_changes_and_numbers_are_not_used_again() {
        let mut catalog = Catalog::default();
        catalog.apply(&[tree(1, "a"), tree(2, "b")]).unwrap();
        catalog.apply(&[keyspace(1, 1, "x"), keyspace(2, 2, "y"), keyspace(3, 1, "z")]).unwrap();
        catalog.apply(&[CatalogChange::Rename(1, "w".into()), CatalogChange::Drop(3)]).unwrap();
        let settings = vec![("merge_operator".to_string(), "max".to_string())];
        catalog.apply(&[CatalogChange::DefaultSettings(settings.clone())]).unwrap();
        assert!(catalog.find("x").is_none() && catalog.find("z").is_none());
        assert_eq!(catalog.dropped().collect::<Vec<_>>(), [(3, 1)]);
        assert_eq!(catalog.find("w").unwrap().id, 1);
        assert_eq!(catalog.next_id(), 4);
        let mut again = Catalog::default();
        again.apply(&catalog.to_changes()).unwrap();
        assert_eq!(again.to_changes(), catalog.to_changes());
        assert_eq!(*again.default_settings(), settings);
        assert_eq!((again.next_id(), again.keyspaces().count()), (4, 2));
        again.apply(&[CatalogChange::Purge(3)]).unwrap();
        assert_eq!(again.dropped().count(), 0);
    }

    #[test]
    fn a_change_that_does_not_fit_is_refused() {
        let catalog = || {
            let mut catalog = Catalog::default();
            catalog.apply(&[tree(1, "a"), keyspace(1, 1, "x"), keyspace(2, 1, "y")]).unwrap();
            catalog
        };
        for change in [
            tree(1, "b"),
            tree(3, "b"),
            keyspace(1, 1, "z"),
            keyspace(0, 1, "z"),
            keyspace(3, 0, "z"),
            keyspace(3, 2, "z"),
            keyspace(3, 1, "x"),
            CatalogChange::Rename(1, "y".into()),
            CatalogChange::Rename(3, "z".into()),
            CatalogChange::Drop(3),
            CatalogChange::Dropped(1, 1),
            CatalogChange::Dropped(3, 2),
            CatalogChange::Purge(1),
        ] {
            // The first change is taken back.
            let mut refusing = catalog();
            let error = refusing.apply(&[keyspace(9, 1, "first"), change.clone()]).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Corruption, "{change:?}");
            assert!(
                refusing.find("first").is_none() && refusing.keyspaces().count() == 2,
                "{change:?}"
            );
        }
    }

    #[test]
    fn changes_are_taken_back() {
        let mut catalog = Catalog::default();
        catalog.apply(&[tree(1, "a"), keyspace(1, 1, "x"), keyspace(2, 1, "y")]).unwrap();
        let before = catalog.to_changes();
        let changes = [
            tree(2, "b"),
            keyspace(3, 2, "z"),
            CatalogChange::Rename(1, "w".into()),
            CatalogChange::Drop(2),
            CatalogChange::DefaultSettings(vec![("merge_operator".into(), "max".into())]),
            CatalogChange::Rename(1, "v".into()),
        ];
        let undo = catalog.apply(&changes).unwrap();
        catalog.undo(undo);
        // The number 3 stays used.
        let mut after = catalog.to_changes();
        assert_eq!(after.pop(), Some(CatalogChange::NextId(4)));
        assert_eq!(after, before[..before.len() - 1]);
        assert_eq!((catalog.find("x").unwrap().id, catalog.find("y").unwrap().id), (1, 2));
    }

    #[test]
    fn names_are_text_of_a_bounded_length() {
        for good in ["a", "default2", "Kunden/Österreich", &"n".repeat(NAME_BYTES_MAX)] {
            check_name(good).unwrap();
        }
        for bad in ["", "a\nb", "\0", &"n".repeat(NAME_BYTES_MAX + 1)] {
            assert_eq!(check_name(bad).unwrap_err().kind(), ErrorKind::InvalidArgument, "{bad:?}");
        }
    }
}
