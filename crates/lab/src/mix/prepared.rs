//! Keys and values of the next operations, generated while the clock is stopped.
//!
//! A batch is small enough for a processor's nearest caches. Values that depend on the result of a
//! read (one field of several) cannot be generated in advance and are not included.

use super::draw::Op;
use super::phase::{OpKind, Phase};
use super::space::{KeyText, Space};

/// Number of operations per batch.
pub const CHUNK_OPERATIONS: usize = 256;

/// Generated data of a batch. Its memory is reused for the next batch.
#[derive(Debug, Default)]
pub struct Prepared {
    bytes: Vec<u8>,
    /// Start and end of each operation's key, and end of its value, as offsets.
    places: Vec<[u32; 3]>,
    text: KeyText,
    value: Vec<u8>,
}

/// Returns whether `kind` writes a whole record regardless of the stored value.
pub fn writes_whole(kind: OpKind, phase: &Phase) -> bool {
    match kind {
        OpKind::Insert => true,
        OpKind::Update | OpKind::ReadModifyWrite => phase.write_all_fields,
        _ => false,
    }
}

impl Prepared {
    /// Generates the data of `list`, whose writes have version `version`.
    pub fn fill(&mut self, list: &[Op], space: &Space, phase: &Phase, version: u16) {
        self.bytes.clear();
        self.places.clear();
        for op in list {
            let start = self.bytes.len() as u32;
            self.bytes.extend_from_slice(space.key(op.record, &mut self.text));
            let middle = self.bytes.len() as u32;
            if writes_whole(op.kind, phase) {
                let value = space.value(op.record, &mut |_| version, &mut self.value);
                self.bytes.extend_from_slice(value);
            }
            self.places.push([start, middle, self.bytes.len() as u32]);
        }
    }

    /// Returns the key of the batch's operation `index`, and the value it writes, empty if none.
    #[inline]
    pub fn pair(&self, index: usize) -> (&[u8], &[u8]) {
        let [start, middle, end] = self.places[index].map(|place| place as usize);
        (&self.bytes[start..middle], &self.bytes[middle..end])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mix::phase::PhaseFile;
    use crate::mix::space::{FieldLength, KeyForm};

    #[test]
    fn prepared_batch_holds_keys_and_whole_values() {
        let form = KeyForm::Decimal { width: 6 };
        let space = Space::new(form, 2, FieldLength::Constant(10), 1.0, 1);
        let file = PhaseFile { update: 1.0, ..PhaseFile::default() };
        let mut phase = file.phase("p").expect("right");
        let op = |record, kind| Op { record, kind, field: 0, length: 0 };
        let list = [op(3, OpKind::Read), op(4, OpKind::Update), op(5, OpKind::Insert)];
        let mut prepared = Prepared::default();
        prepared.fill(&list, &space, &phase, 7);
        assert_eq!(prepared.pair(0), (&b"000003"[..], &b""[..]));
        let mut buffer = Vec::new();
        let value = space.value(4, &mut |_| 7, &mut buffer);
        assert_eq!(prepared.pair(1), (&b"000004"[..], value));
        phase.write_all_fields = false;
        prepared.fill(&list[1..], &space, &phase, 7);
        assert_eq!(prepared.pair(0), (&b"000004"[..], &b""[..]));
        assert!(!prepared.pair(1).1.is_empty(), "an insert writes every field");
    }
}
