//! Checksums: XXH3-64, seeded with the file number and offset of the checked bytes. A block read
//! from the wrong file or offset therefore fails its checksum.

use xxhash_rust::xxh3::{Xxh3, xxh3_64_with_seed};

/// Returns the checksum of `bytes` under `seed`.
#[inline]
pub fn checksum(bytes: &[u8], seed: u64) -> u64 {
    xxh3_64_with_seed(bytes, seed)
}

/// Returns the checksum of the concatenation of `parts` under `seed`.
pub fn checksum_parts(parts: &[&[u8]], seed: u64) -> u64 {
    let mut state = Xxh3::with_seed(seed);
    for part in parts {
        state.update(part);
    }
    state.digest()
}

/// Returns the seed for bytes at `offset_bytes` of the file `file_id`.
#[inline]
pub fn location_seed(file_id: u64, offset_bytes: u64) -> u64 {
    file_id.wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(29) ^ offset_bytes
}
