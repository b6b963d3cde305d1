//! What an open table tells of its keys without a read of its blocks: their sample, and where a key
//! lies among them.

use super::reader::Table;
use super::sample::{self, SampledKey};

impl Table {
    /// Returns the number of bits of the hash that are zero in each key of the sample; 0 without one.
    pub fn sample_bits(&self) -> u32 {
        self.meta.properties.sample.first().map_or(0, |bits| u32::from(*bits))
    }

    /// Returns the sample of the table's keys: the number of bits of the hash that are zero in each,
    /// and the keys.
    pub fn sample(&self) -> (u32, Vec<SampledKey>) {
        // The opening has validated it.
        sample::decode(&self.meta.properties.sample).unwrap_or_default()
    }

    /// Returns the approximate bytes of keys and values in the table before `key`.
    pub fn approximate_place(&self, key: &[u8]) -> u64 {
        let (data, raw) = (self.meta.index.data_bytes(), self.info().raw_bytes);
        let place = u128::from(self.approximate_offset(key)) * u128::from(raw);
        (place / u128::from(data.max(1))) as u64
    }
}
