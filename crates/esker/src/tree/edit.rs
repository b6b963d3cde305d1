//! The change from one version to the next, and its encoding in the manifest.
//!
//! A field is a `u8` tag followed by its content. An unknown tag is an error, because skipping it
//! would lose data. The exception are tags with [`IGNORABLE`], which later releases may add.

use super::catalog::CatalogChange;
use super::lineage::Lineage;
use crate::base::coding::{Reader, put_bytes, put_varint};
use crate::base::expiry::NEVER_MS;
use crate::base::key::{SEQNO_MAX, STORED_KEY_BYTES_MAX, SeqNo};
use crate::base::keyspace::TreeId;
use crate::base::separated::{get_references, put_references};
use crate::table::TableInfo;

/// The file of an added slice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AddedFile {
    /// A file that the store does not have yet.
    New {
        /// File number.
        number: u64,
        /// Description of the table's contents.
        info: TableInfo,
    },
    /// The number of a file that the store already has.
    Existing(u64),
}

/// A slice added to a level.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AddedSlice {
    /// Level of the slice.
    pub level: usize,
    /// Age of the slice's run.
    pub order: u64,
    /// The file.
    pub file: AddedFile,
    /// First key of the slice.
    pub lo: Option<Vec<u8>>,
    /// First key after the slice.
    pub hi: Option<Vec<u8>>,
}

/// A key range of a file that is removed from a level.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemovedSlice {
    /// Level of the file.
    pub level: usize,
    /// File number.
    pub file: u64,
    /// First key removed.
    pub lo: Option<Vec<u8>>,
    /// First key after the removed range.
    pub hi: Option<Vec<u8>>,
}

/// The change from one version to the next.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct VersionEdit {
    /// Name of the key order. Present in the first record.
    pub comparator: Option<String>,
    /// Next file number to assign.
    pub next_file: Option<u64>,
    /// Every operation of a log up to this sequence number is in tables.
    pub last_seqno: Option<SeqNo>,
    /// Smallest WAL number that is still needed.
    pub min_wal: Option<u64>,
    /// Ordinal of the first record of the WAL `min_wal`. Absent from an edit without `min_wal`.
    pub min_wal_ordinal: Option<u64>,
    /// Number of a WAL that must exist when the store is opened.
    pub newest_wal: Option<u64>,
    /// A sequence number at least as large as that of any ingest. A table does not keep it: a
    /// compaction writes settled pairs without their numbers.
    pub ingested_seqno: Option<SeqNo>,
    /// Number of a closed WAL, and the bytes of records that it must hold.
    pub closed_wal: Option<(u64, u64)>,
    /// Next run age to assign.
    pub next_order: Option<u64>,
    /// Slices removed. Removals are applied before additions.
    pub removed: Vec<RemovedSlice>,
    /// Slices added.
    pub added: Vec<AddedSlice>,
    /// Guard bounds added, with their level.
    pub bounds_added: Vec<(usize, Vec<u8>)>,
    /// Guard bounds removed, with their level.
    pub bounds_removed: Vec<(usize, Vec<u8>)>,
    /// Slices and bounds of trees other than tree 0, with the number of the tree. Such an edit
    /// has slices and bounds only.
    pub others: Vec<(TreeId, VersionEdit)>,
    /// Changes of the catalog. They are applied before the slices and bounds.
    pub catalog: Vec<CatalogChange>,
    /// Lineage of a fork. Present in the first record of each of its manifests.
    pub lineage: Option<Lineage>,
}

const COMPARATOR: u8 = 1;
const NEXT_FILE: u8 = 2;
const LAST_SEQNO: u8 = 3;
const MIN_WAL: u8 = 4;
const NEXT_ORDER: u8 = 5;
const NEWEST_WAL: u8 = 6;
const REMOVED: u8 = 7;
const ADDED_NEW: u8 = 8;
const ADDED_EXISTING: u8 = 9;
const BOUND_ADDED: u8 = 10;
const BOUND_REMOVED: u8 = 11;
const CLOSED_WAL: u8 = 12;
const MIN_WAL_ORDINAL: u8 = 13;
const OTHER_TREE: u8 = 14;
const CATALOG: u8 = 15;
const ADDED_EXPIRING: u8 = 16;
const ADDED_INGESTED: u8 = 17;
const INGESTED_SEQNO: u8 = 18;
const LINEAGE: u8 = 23;
const ADDED_SEPARATED: u8 = 24;
const ADDED_STREAMED: u8 = 25;
/// Bit of a tag that a reader may ignore. The content is a varint length and bytes, so that a reader
/// that does not know the tag finds the next one.
const IGNORABLE: u8 = 0x80;

fn put_bound(out: &mut Vec<u8>, bound: &Option<Vec<u8>>) {
    match bound {
        None => out.push(0),
        Some(key) => {
            out.push(1);
            put_bytes(out, key);
        }
    }
}

fn get_bound(reader: &mut Reader<'_>) -> Option<Option<Vec<u8>>> {
    match reader.u8()? {
        0 => Some(None),
        1 => Some(Some(get_key(reader)?)),
        _ => None,
    }
}

fn get_key(reader: &mut Reader<'_>) -> Option<Vec<u8>> {
    reader.bytes().filter(|k| k.len() <= STORED_KEY_BYTES_MAX).map(<[u8]>::to_vec)
}

fn put_info(out: &mut Vec<u8>, info: &TableInfo) {
    for number in numbers(info) {
        put_varint(out, number);
    }
    put_bytes(out, &info.smallest);
    put_bytes(out, &info.largest);
    if info.expiring > 0 || info.ingested.is_some() || !info.values.is_empty() {
        put_varint(out, info.expiring);
        put_varint(out, info.expires_ms.unwrap_or(NEVER_MS));
    }
    if !info.values.is_empty() {
        put_references(out, &info.values);
    }
    if let Some(seqno) = info.ingested {
        put_varint(out, seqno);
    }
}

fn numbers(info: &TableInfo) -> [u64; 9] {
    [
        info.table_id,
        info.size_bytes,
        info.entries,
        info.deletes,
        info.range_deletes,
        info.seqno_min,
        info.seqno_max,
        info.raw_bytes,
        info.content_hash,
    ]
}

fn get_info(reader: &mut Reader<'_>, tag: u8) -> Option<TableInfo> {
    let mut info = TableInfo {
        table_id: reader.varint()?,
        size_bytes: reader.varint()?,
        entries: reader.varint()?,
        deletes: reader.varint()?,
        range_deletes: reader.varint()?,
        seqno_min: reader.varint()?,
        seqno_max: reader.varint()?,
        raw_bytes: reader.varint()?,
        content_hash: reader.varint()?,
        smallest: get_key(reader)?,
        largest: get_key(reader)?,
        ..TableInfo::default()
    };
    if tag != ADDED_NEW {
        info.expiring = reader.varint().filter(|count| *count > 0 || tag != ADDED_EXPIRING)?;
        info.expires_ms = Some(reader.varint()?).filter(|time| *time != NEVER_MS);
    }
    if tag == ADDED_SEPARATED || tag == ADDED_STREAMED {
        info.values = get_references(reader).filter(|refs| !refs.is_empty())?;
    }
    if tag == ADDED_INGESTED || tag == ADDED_STREAMED {
        info.ingested = Some(reader.varint().filter(|seqno| *seqno <= SEQNO_MAX)?);
    }
    Some(info)
}

impl VersionEdit {
    /// Returns whether the edit changes slices or bounds of its tree.
    pub fn changes_tree(&self) -> bool {
        !(self.removed.is_empty()
            && self.added.is_empty()
            && self.bounds_added.is_empty()
            && self.bounds_removed.is_empty())
    }

    /// Returns the edit that makes the slices and bounds of `edit` those of `tree`.
    pub fn of_tree(tree: TreeId, edit: VersionEdit) -> VersionEdit {
        if tree == 0 {
            return edit;
        }
        VersionEdit { others: vec![(tree, edit)], ..VersionEdit::default() }
    }

    /// Returns the slices and bounds of `tree`.
    pub fn tree_mut(&mut self, tree: TreeId) -> &mut VersionEdit {
        if tree == 0 {
            return self;
        }
        let at = self.others.iter().position(|(other, _)| *other == tree).unwrap_or_else(|| {
            self.others.push((tree, VersionEdit::default()));
            self.others.len() - 1
        });
        &mut self.others[at].1
    }

    /// Encodes the edit.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.encode_to(&mut out);
        out
    }

    /// Appends the encoded edit to `out`.
    pub fn encode_to(&self, out: &mut Vec<u8>) {
        if let Some(name) = &self.comparator {
            out.push(COMPARATOR);
            put_bytes(out, name.as_bytes());
        }
        let numbers = [
            (NEXT_FILE, self.next_file),
            (LAST_SEQNO, self.last_seqno),
            (MIN_WAL, self.min_wal),
            (NEXT_ORDER, self.next_order),
            (NEWEST_WAL, self.newest_wal),
            (INGESTED_SEQNO, self.ingested_seqno),
            (MIN_WAL_ORDINAL, self.min_wal_ordinal),
        ];
        for (tag, number) in numbers {
            if let Some(number) = number {
                out.push(tag);
                put_varint(out, number);
            }
        }
        if let Some((number, bytes)) = self.closed_wal {
            out.push(CLOSED_WAL);
            put_varint(out, number);
            put_varint(out, bytes);
        }
        for change in &self.catalog {
            out.push(CATALOG);
            change.encode(out);
        }
        if let Some(lineage) = &self.lineage {
            out.push(LINEAGE);
            lineage.encode(out);
        }
        self.encode_tree(out);
        for (tree, edit) in &self.others {
            let mut content = Vec::new();
            edit.encode_tree(&mut content);
            out.push(OTHER_TREE);
            put_varint(out, u64::from(*tree));
            put_bytes(out, &content);
        }
    }

    /// Appends the slices and bounds of one tree.
    fn encode_tree(&self, out: &mut Vec<u8>) {
        for slice in &self.removed {
            out.push(REMOVED);
            put_varint(out, slice.level as u64);
            put_varint(out, slice.file);
            put_bound(out, &slice.lo);
            put_bound(out, &slice.hi);
        }
        for slice in &self.added {
            let (tag, number) = match &slice.file {
                AddedFile::New { number, info } if !info.values.is_empty() => {
                    let is_ingested = info.ingested.is_some();
                    (if is_ingested { ADDED_STREAMED } else { ADDED_SEPARATED }, *number)
                }
                AddedFile::New { number, info } if info.ingested.is_some() => {
                    (ADDED_INGESTED, *number)
                }
                AddedFile::New { number, info } if info.expiring > 0 => (ADDED_EXPIRING, *number),
                AddedFile::New { number, .. } => (ADDED_NEW, *number),
                AddedFile::Existing(number) => (ADDED_EXISTING, *number),
            };
            out.push(tag);
            put_varint(out, slice.level as u64);
            put_varint(out, slice.order);
            put_varint(out, number);
            put_bound(out, &slice.lo);
            put_bound(out, &slice.hi);
            if let AddedFile::New { info, .. } = &slice.file {
                put_info(out, info);
            }
        }
        for (tag, bounds) in
            [(BOUND_ADDED, &self.bounds_added), (BOUND_REMOVED, &self.bounds_removed)]
        {
            for (level, key) in bounds {
                out.push(tag);
                put_varint(out, *level as u64);
                put_bytes(out, key);
            }
        }
    }

    /// Decodes an edit. Returns `None` when the bytes are not a valid edit.
    pub fn decode(bytes: &[u8]) -> Option<VersionEdit> {
        let mut reader = Reader::new(bytes);
        let mut edit = VersionEdit::default();
        while !reader.is_empty() {
            match reader.u8()? {
                COMPARATOR => {
                    edit.comparator = Some(String::from_utf8(reader.bytes()?.to_vec()).ok()?);
                }
                NEXT_FILE => edit.next_file = Some(reader.varint()?),
                LAST_SEQNO => edit.last_seqno = Some(reader.varint()?),
                MIN_WAL => edit.min_wal = Some(reader.varint()?),
                NEXT_ORDER => edit.next_order = Some(reader.varint()?),
                NEWEST_WAL => edit.newest_wal = Some(reader.varint()?),
                INGESTED_SEQNO => edit.ingested_seqno = Some(reader.varint()?),
                MIN_WAL_ORDINAL => edit.min_wal_ordinal = Some(reader.varint()?),
                CLOSED_WAL => edit.closed_wal = Some((reader.varint()?, reader.varint()?)),
                CATALOG => edit.catalog.push(CatalogChange::decode(&mut reader)?),
                LINEAGE => edit.lineage = Some(Lineage::decode(&mut reader)?),
                OTHER_TREE => {
                    let tree = TreeId::try_from(reader.varint()?).ok()?;
                    let mut content = Reader::new(reader.bytes()?);
                    let mut other = VersionEdit::default();
                    while !content.is_empty() {
                        let tag = content.u8()?;
                        other.decode_tree(tag, &mut content)?;
                    }
                    edit.others.push((tree, other));
                }
                tag => edit.decode_tree(tag, &mut reader)?,
            }
        }
        Some(edit)
    }

    /// Decodes a slice or a bound of one tree.
    fn decode_tree(&mut self, tag: u8, reader: &mut Reader<'_>) -> Option<()> {
        match tag {
            REMOVED => self.removed.push(RemovedSlice {
                level: usize::try_from(reader.varint()?).ok()?,
                file: reader.varint()?,
                lo: get_bound(reader)?,
                hi: get_bound(reader)?,
            }),
            ADDED_NEW | ADDED_EXISTING | ADDED_EXPIRING | ADDED_INGESTED | ADDED_SEPARATED
            | ADDED_STREAMED => {
                self.added.push(get_added(reader, tag)?);
            }
            BOUND_ADDED | BOUND_REMOVED => {
                let level = usize::try_from(reader.varint()?).ok()?;
                let bounds = match tag {
                    BOUND_ADDED => &mut self.bounds_added,
                    _ => &mut self.bounds_removed,
                };
                bounds.push((level, get_key(reader)?));
            }
            tag if tag & IGNORABLE != 0 => drop(reader.bytes()?),
            _ => return None,
        }
        Some(())
    }
}

fn get_added(reader: &mut Reader<'_>, tag: u8) -> Option<AddedSlice> {
    let level = usize::try_from(reader.varint()?).ok()?;
    let (order, number) = (reader.varint()?, reader.varint()?);
    let (lo, hi) = (get_bound(reader)?, get_bound(reader)?);
    let file = if tag == ADDED_EXISTING {
        AddedFile::Existing(number)
    } else {
        AddedFile::New { number, info: get_info(reader, tag)? }
    };
    Some(AddedSlice { level, order, file, lo, hi })
}
