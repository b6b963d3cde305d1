//! A small seeded random generator, so that every engine gets the same operations.
//!
//! SplitMix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number generators", 2014).

/// A stream of 64-bit numbers determined by its seed.
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    /// Creates a stream for `seed`; different seeds give unrelated streams.
    pub fn new(seed: u64) -> Rng {
        Rng(seed)
    }

    /// Creates a stream for one part of a benchmark, unrelated to those of other parts.
    pub fn for_part(seed: u64, part: u64) -> Rng {
        Rng(mix(seed ^ mix(part.wrapping_add(0x51_7C_C1_B7_27_22_0A_95))))
    }

    /// Returns the next number.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        mix(self.0)
    }

    /// Returns a number below `limit` (0 if `limit` is 0), by multiplication, with a negligible
    /// bias.
    pub fn below(&mut self, limit: u64) -> u64 {
        ((u128::from(self.next_u64()) * u128::from(limit)) >> 64) as u64
    }
}

/// Finalizer of SplitMix64: a fixed bijection that spreads every bit.
pub fn mix(value: u64) -> u64 {
    let value = (value ^ (value >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    value ^ (value >> 31)
}

/// Mixes the bytes into `start`, eight at a time. The last may be fewer.
pub fn mix_bytes(start: u64, bytes: &[u8]) -> u64 {
    bytes.chunks(8).fold(start, |sum, chunk| {
        let mut word = [0u8; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        mix(sum ^ u64::from_le_bytes(word))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_first_outputs_of_splitmix64() {
        let mut rng = Rng::new(1234567);
        assert_eq!(rng.next_u64(), 6457827717110365317);
        assert_eq!(rng.next_u64(), 3203168211198807973);
    }

    #[test]
    fn uniform_draws_pass_a_chi_square_test() {
        let mut rng = Rng::new(7);
        let mut counts = [0u64; 100];
        for _ in 0..1_000_000 {
            counts[rng.below(100) as usize] += 1;
        }
        let expected = 10_000.0;
        let chi: f64 = counts.iter().map(|&c| (c as f64 - expected).powi(2) / expected).sum();
        assert!(chi < 148.2, "chi-square {chi} beyond the 99.9 % quantile for 99 degrees");
    }
}
