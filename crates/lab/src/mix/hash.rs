//! YCSB's hash: FNV-1a over the eight bytes of a number, low byte first, made non-negative.

const OFFSET_BASIS: u64 = 0xCBF2_9CE4_8422_2325;
const PRIME: u64 = 1_099_511_628_211;

/// The hash of `number`, as YCSB's core workload uses it for keys and for scrambling.
pub fn fnv64(number: u64) -> u64 {
    let hash = number
        .to_le_bytes()
        .iter()
        .fold(OFFSET_BASIS, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(PRIME));
    // YCSB hashes into a signed number and takes its absolute value.
    (hash as i64).unsigned_abs()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_keys_are_those_every_ycsb_log_begins_with() {
        let keys = [0, 1, 2].map(fnv64);
        let published = [6284781860667377211, 8517097267634966620, 1820151046732198393];
        assert_eq!(keys, published);
    }
}
