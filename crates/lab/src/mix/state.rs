//! Expected version of each field in the store.

/// The record does not exist.
pub const ABSENT: u16 = u16::MAX;
/// One of several versions, or absent, because threads raced.
pub const UNSURE: u16 = u16::MAX - 1;
/// Highest version.
const VERSION_MAX: u16 = u16::MAX - 2;

/// Expected content of the store, as versions.
#[derive(Clone, Debug)]
pub struct State {
    versions: Vec<u16>,
    fields: usize,
    /// Upper bound (exclusive) of record numbers.
    pub records: u64,
    /// Version written by the next phase.
    pub next_version: u16,
}

impl State {
    /// Creates the state of an empty store whose records have `fields` fields.
    pub fn empty(fields: usize) -> State {
        State { versions: Vec::new(), fields, records: 0, next_version: 1 }
    }

    /// Empties the state. Versions continue, so that bytes of an earlier store are detected.
    pub fn clear(&mut self) {
        self.versions.clear();
        self.records = 0;
    }

    /// Raises the upper bound of record numbers to `records`.
    pub fn grow(&mut self, records: u64) {
        self.records = self.records.max(records);
        let length = self.records as usize * self.fields;
        if self.versions.len() < length {
            self.versions.resize(length, ABSENT);
        }
    }

    /// Returns the version of a field.
    #[inline]
    pub fn version(&self, record: u32, field: usize) -> u16 {
        self.versions.get(record as usize * self.fields + field).copied().unwrap_or(ABSENT)
    }

    /// Sets the version of one field, or of all fields.
    pub fn set(&mut self, record: u32, field: Option<usize>, version: u16) {
        let start = record as usize * self.fields;
        let fields = match field {
            Some(field) => start + field..start + field + 1,
            None => start..start + self.fields,
        };
        if let Some(versions) = self.versions.get_mut(fields) {
            versions.fill(version);
        }
    }

    /// Ends a phase: the next phase writes another version.
    pub fn advance(&mut self) {
        self.next_version =
            if self.next_version >= VERSION_MAX { 1 } else { self.next_version + 1 };
    }

    /// Returns whether the content of every record is known, and the number of existing records.
    pub fn live(&self) -> (bool, u64) {
        let sure = !self.versions.contains(&UNSURE);
        let read_first = self.versions.iter().step_by(self.fields);
        (sure, read_first.filter(|&&version| version != ABSENT).count() as u64)
    }

    /// Returns the memory used, in bytes.
    pub fn memory_bytes(&self) -> u64 {
        (self.versions.capacity() * size_of::<u16>()) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_absent_until_set() {
        let mut state = State::empty(2);
        state.grow(3);
        state.set(1, None, 5);
        state.set(2, Some(1), 6);
        assert_eq!([0, 1].map(|field| state.version(1, field)), [5, 5]);
        assert_eq!([0, 1].map(|field| state.version(2, field)), [ABSENT, 6]);
        assert_eq!(state.version(99, 0), ABSENT);
        assert_eq!(state.live(), (true, 1));
        state.set(1, Some(0), UNSURE);
        assert!(!state.live().0);
        state.clear();
        assert_eq!(state.live(), (true, 0));
    }
}
