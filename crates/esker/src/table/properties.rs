//! The properties of a table: its summary, the names of its order, layout and compression, and
//! fields with tags for everything that only some tables have.
//!
//! ```text
//! table id u64 | content hash u64 | eight varints | smallest | largest | order | layout
//! | compression | [tree varint | [expiring varint | expires varint | [tag | length | content]...]]
//! ```
//! Trailing fields that have their default are omitted. Tags ascend. A tag that this build does not
//! know is refused, because its content may say how the blocks are to be read.

use crate::base::coding::{Reader, put_bytes, put_u64, put_varint};
use crate::base::expiry::NEVER_MS;
use crate::base::keyspace::TreeId;
use crate::base::separated::{get_references, put_references};

use super::TableInfo;
use super::format::Handle;
use super::sample;

/// Tag: the table was made for an ingest ([`External`]).
const EXTERNAL: u64 = 1;

/// Tag: the sample of the keys (`table/sample.rs`).
const SAMPLE: u64 = 3;

/// What a table that was made for an ingest says of itself. All its entries have the sequence
/// number 0 in the file.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct External {
    /// Name of the merge operator of its operands; empty if it has none.
    pub merge_operator: String,
}

/// Tag: the place of the compression dictionary.
const DICTIONARY: u64 = 2;

/// Tag: the value files with values of the table. Only with separated values.
const VALUES: u64 = 4;

/// Content of the properties block.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Properties {
    pub(super) info: TableInfo,
    pub(super) order_name: String,
    pub(super) layout_name: String,
    pub(super) compression_name: String,
    pub(super) block_size_bytes: u64,
    /// The tree of the table. Tree 0 is not written, unless fields follow.
    pub(super) tree: TreeId,
    /// Present in a table that was made for an ingest.
    pub(super) external: Option<External>,
    /// Place of the dictionary with which the blocks are compressed.
    pub(super) dictionary: Option<Handle>,
    /// The encoded sample of the keys; empty if no key is sampled.
    pub(super) sample: Vec<u8>,
}

/// Appends one field with a tag.
fn put_tagged(out: &mut Vec<u8>, tag: u64, content: &[u8]) {
    put_varint(out, tag);
    put_bytes(out, content);
}

impl Handle {
    fn to_content(self) -> Vec<u8> {
        let mut content = Vec::new();
        put_varint(&mut content, self.offset_bytes);
        put_varint(&mut content, self.payload_bytes);
        content
    }

    fn of_content(content: &[u8]) -> Option<Handle> {
        let mut reader = Reader::new(content);
        let handle = Handle { offset_bytes: reader.varint()?, payload_bytes: reader.varint()? };
        reader.is_empty().then_some(handle)
    }
}

impl Properties {
    /// Appends the properties.
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        let info = &self.info;
        put_u64(out, info.table_id);
        put_u64(out, info.content_hash);
        for number in [
            info.size_bytes,
            info.entries,
            info.deletes,
            info.range_deletes,
            info.seqno_min,
            info.seqno_max,
            info.raw_bytes,
            self.block_size_bytes,
        ] {
            put_varint(out, number);
        }
        put_bytes(out, &info.smallest);
        put_bytes(out, &info.largest);
        for name in [&self.order_name, &self.layout_name, &self.compression_name] {
            put_bytes(out, name.as_bytes());
        }
        let mut tagged = Vec::new();
        if let Some(external) = &self.external {
            put_tagged(&mut tagged, EXTERNAL, external.merge_operator.as_bytes());
        }
        if let Some(dictionary) = self.dictionary {
            put_tagged(&mut tagged, DICTIONARY, &dictionary.to_content());
        }
        if !self.sample.is_empty() {
            put_tagged(&mut tagged, SAMPLE, &self.sample);
        }
        if !info.values.is_empty() {
            let mut content = Vec::new();
            put_references(&mut content, &info.values);
            put_tagged(&mut tagged, VALUES, &content);
        }
        if self.tree != 0 || info.expiring > 0 || !tagged.is_empty() {
            put_varint(out, u64::from(self.tree));
        }
        if info.expiring > 0 || !tagged.is_empty() {
            put_varint(out, info.expiring);
            put_varint(out, info.expires_ms.unwrap_or(NEVER_MS));
        }
        out.extend_from_slice(&tagged);
    }

    /// Decodes the output of [`Properties::encode`]. All bytes must be consumed. Returns a sentence
    /// for an unknown tag and for malformed bytes.
    pub(super) fn decode(bytes: &[u8]) -> Result<Properties, String> {
        let mut reader = Reader::new(bytes);
        let malformed = || "the properties are malformed".to_string();
        let mut properties = Properties::decode_fixed(&mut reader).ok_or_else(malformed)?;
        properties.decode_tagged(&mut reader)?;
        Ok(properties)
    }

    /// Decodes the fields with tags, to the end of the bytes.
    fn decode_tagged(&mut self, reader: &mut Reader<'_>) -> Result<(), String> {
        let malformed = || "a field of the properties is malformed".to_string();
        let mut last = 0;
        while !reader.is_empty() {
            let (Some(tag), Some(content)) = (reader.varint(), reader.bytes()) else {
                return Err(malformed());
            };
            if tag <= last {
                return Err("the fields of the properties are not in ascending order".to_string());
            }
            last = tag;
            match tag {
                EXTERNAL => {
                    let merge_operator =
                        String::from_utf8(content.to_vec()).map_err(|_| malformed())?;
                    self.external = Some(External { merge_operator });
                }
                DICTIONARY => {
                    self.dictionary = Some(Handle::of_content(content).ok_or_else(malformed)?);
                }
                SAMPLE => {
                    let is_valid = !content.is_empty() && sample::decode(content).is_some();
                    self.sample = content.to_vec();
                    is_valid.then_some(()).ok_or_else(malformed)?;
                }
                VALUES => {
                    let mut content = Reader::new(content);
                    let values = get_references(&mut content).filter(|refs| !refs.is_empty());
                    self.info.values = values.ok_or_else(malformed)?;
                    content.is_empty().then_some(()).ok_or_else(malformed)?;
                }
                _ => {
                    return Err(format!(
                        "the properties have a field with the tag {tag}, which this version does \
                         not know; read the table with the version that wrote it, or a later one"
                    ));
                }
            }
        }
        Ok(())
    }

    /// Decodes the fields without tags.
    fn decode_fixed(reader: &mut Reader<'_>) -> Option<Properties> {
        let table_id = reader.u64()?;
        let content_hash = reader.u64()?;
        let mut numbers = [0; 8];
        for number in &mut numbers {
            *number = reader.varint()?;
        }
        let [size_bytes, entries, deletes, range_deletes, seqno_min, seqno_max, raw_bytes, block] =
            numbers;
        let smallest = reader.bytes()?.to_vec();
        let largest = reader.bytes()?.to_vec();
        let mut name = || String::from_utf8(reader.bytes()?.to_vec()).ok();
        let (order_name, layout_name, compression_name) = (name()?, name()?, name()?);
        let tree = if reader.is_empty() { 0 } else { TreeId::try_from(reader.varint()?).ok()? };
        let (mut expiring, mut expires_ms) = (0, None);
        if !reader.is_empty() {
            expiring = reader.varint()?;
            expires_ms = Some(reader.varint()?).filter(|time| *time != NEVER_MS);
            // Without such puts, only fields with tags justify these two.
            if expiring == 0 && (expires_ms.is_some() || reader.is_empty()) {
                return None;
            }
        }
        Some(Properties {
            info: TableInfo {
                table_id,
                size_bytes,
                entries,
                deletes,
                range_deletes,
                smallest,
                largest,
                seqno_min,
                seqno_max,
                raw_bytes,
                expiring,
                expires_ms,
                ingested: None,
                content_hash,
                values: Vec::new(),
            },
            order_name,
            layout_name,
            compression_name,
            block_size_bytes: block,
            tree,
            external: None,
            dictionary: None,
            sample: Vec::new(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(tree: TreeId, expiring: u64, external: Option<&str>) -> Properties {
        let info = TableInfo {
            table_id: 7,
            size_bytes: 4096,
            entries: 3,
            smallest: b"a".to_vec(),
            largest: b"c".to_vec(),
            expiring,
            expires_ms: (expiring > 0).then_some(99),
            ..TableInfo::default()
        };
        Properties {
            info,
            order_name: "bytewise".into(),
            layout_name: "columnar".into(),
            compression_name: "none".into(),
            block_size_bytes: 4096,
            tree,
            external: external.map(|name| External { merge_operator: name.into() }),
            dictionary: None,
            sample: Vec::new(),
        }
    }

    fn encoded(properties: &Properties) -> Vec<u8> {
        let mut bytes = Vec::new();
        properties.encode(&mut bytes);
        bytes
    }

    #[test]
    fn properties_decode_to_what_was_encoded_and_no_prefix_is_accepted_as_another_table() {
        for tree in [0, 3] {
            for expiring in [0, 2] {
                for external in [None, Some(""), Some("counter")] {
                    let properties = sample(tree, expiring, external);
                    let bytes = encoded(&properties);
                    assert_eq!(Properties::decode(&bytes).unwrap(), properties);
                    for len in 0..bytes.len() {
                        // The optional fields can be cut off; nothing else can.
                        let found = Properties::decode(&bytes[..len]);
                        assert_ne!(found.as_ref(), Ok(&properties));
                        assert!(found.is_err() || tree != 0 || expiring > 0 || external.is_some());
                    }
                }
            }
        }
    }

    #[test]
    fn unknown_tags_and_tags_out_of_order_are_refused_with_a_sentence() {
        let mut bytes = encoded(&sample(0, 0, Some("")));
        put_tagged(&mut bytes, 99, b"x");
        let sentence = Properties::decode(&bytes).unwrap_err();
        assert!(sentence.contains("the tag 99, which this version does not know"), "{sentence}");
        let mut bytes = encoded(&sample(0, 0, Some("")));
        put_tagged(&mut bytes, EXTERNAL, b"");
        let sentence = Properties::decode(&bytes).unwrap_err();
        assert!(sentence.contains("ascending"), "{sentence}");
        bytes.truncate(bytes.len() - 1);
        assert!(Properties::decode(&bytes).unwrap_err().contains("malformed"));
    }

    #[test]
    fn place_of_a_dictionary_round_trips_and_unknown_tags_are_refused() {
        let dictionary = Some(Handle { offset_bytes: 1 << 40, payload_bytes: 300 });
        for (tree, expiring) in [(0, 0), (3, 0), (0, 2)] {
            let info = TableInfo {
                expiring,
                expires_ms: (expiring > 0).then_some(9),
                ..TableInfo::default()
            };
            let properties = Properties { info, tree, dictionary, ..Properties::default() };
            let mut bytes = Vec::new();
            properties.encode(&mut bytes);
            assert_eq!(Properties::decode(&bytes), Ok(properties.clone()));
            for len in 0..bytes.len() {
                assert_ne!(Properties::decode(&bytes[..len]).as_ref(), Ok(&properties));
            }
            let mut more = bytes.clone();
            put_tagged(&mut more, 99, b"x");
            let sentence = Properties::decode(&more).unwrap_err();
            assert!(sentence.contains("the tag 99, which this version does not know"));
            put_tagged(&mut bytes, DICTIONARY, b"");
            assert!(Properties::decode(&bytes).unwrap_err().contains("ascending"));
        }
    }
}
