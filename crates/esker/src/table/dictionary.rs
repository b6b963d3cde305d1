//! The compression dictionary of a table: bytes that its blocks have in common.
//!
//! A block of some kilobytes is compressed alone, so that it can be read alone. Small values, such as
//! lines of JSON, repeat each other less within a block than within the table. A dictionary made of
//! samples holds what they repeat. It is for tables of many small similar values; elsewhere it costs
//! the time of its training and nothing else.
//!
//! The writer keeps the first blocks of a table in memory, as samples. It then trains a dictionary,
//! and compresses samples with it and without it. The dictionary is used if it saves enough.
//!
//! Invariants:
//! 1. In a table with a dictionary every block that is compressed is compressed with it.
//! 2. The samples are the first blocks of the table, at most [`samples_bytes_max`] bytes and one
//!    block. No block behind them is written before them.

#[cfg(feature = "zstd")]
pub(super) use with_zstd::{Dictionary, train};
#[cfg(not(feature = "zstd"))]
pub(super) use without_zstd::{Dictionary, train};

/// Minimum number of blocks from which a dictionary is trained.
const SAMPLES_MIN: usize = 8;

/// Part of the samples, after compression, that a dictionary must save: one of this number.
const SAVED_MIN: usize = 16;

/// Returns the bytes of blocks that are kept as samples for a dictionary of `dictionary_bytes`.
/// Fewer make a worse dictionary; more take more memory and time.
pub(super) fn samples_bytes_max(dictionary_bytes: usize) -> usize {
    dictionary_bytes.saturating_mul(64).clamp(256 << 10, 4 << 20)
}

/// The first blocks of a table, before they are compressed.
#[derive(Default)]
pub(super) struct Samples {
    /// The blocks in a row.
    pub raw: Vec<u8>,
    pub blocks: Vec<Sample>,
}

/// A block among the samples.
pub(super) struct Sample {
    pub raw_bytes: usize,
    /// The last key of the block.
    pub last_key: Vec<u8>,
    /// The first key of the next block.
    pub next: Option<Vec<u8>>,
}

impl Samples {
    /// Adds the block that was appended to `raw`.
    pub fn push(&mut self, raw_bytes: usize, last_key: &[u8], next: Option<&[u8]>) {
        let (last_key, next) = (last_key.to_vec(), next.map(<[u8]>::to_vec));
        self.blocks.push(Sample { raw_bytes, last_key, next });
    }

    /// Returns the blocks with their bytes.
    pub fn iter(&self) -> impl Iterator<Item = (&Sample, &[u8])> {
        let mut rest = &self.raw[..];
        self.blocks.iter().map(move |sample| {
            let (raw, behind) = rest.split_at(sample.raw_bytes);
            rest = behind;
            (sample, raw)
        })
    }

    /// Returns whether there are enough blocks for a dictionary.
    pub fn are_enough(&self) -> bool {
        self.blocks.len() >= SAMPLES_MIN
    }
}

/// Returns whether a dictionary is worth its bytes: blocks took `plain` bytes without it, and take
/// `packed` bytes with it. They are the whole table, or, if the table goes on behind the samples,
/// blocks that the dictionary was not made of.
pub(super) fn is_worth_it(
    dictionary_bytes: usize,
    (plain, packed): (usize, usize),
    goes_on: bool,
) -> bool {
    let saved = plain.saturating_sub(packed);
    if goes_on { saved > plain / SAVED_MIN } else { saved > dictionary_bytes }
}

#[cfg(feature = "zstd")]
mod with_zstd {
    use zstd::dict::DecoderDictionary;

    /// The dictionary of an open table, prepared for decompression.
    pub struct Dictionary(DecoderDictionary<'static>);

    impl Dictionary {
        /// Prepares a dictionary. Returns `None` if the bytes are not one.
        pub fn new(bytes: &[u8]) -> Option<Dictionary> {
            DecoderDictionary::try_copy(bytes).ok().map(Dictionary)
        }

        /// Returns the memory of the dictionary, in bytes.
        pub fn memory_bytes(&self) -> usize {
            self.0.as_ddict().sizeof()
        }

        /// Decompresses `packed` into `raw`. Returns the length.
        pub(in crate::table) fn unpack(
            &self,
            context: &mut zstd::zstd_safe::DCtx<'static>,
            packed: &[u8],
            raw: &mut [u8],
        ) -> Option<usize> {
            context.decompress_using_ddict(raw, packed, self.0.as_ddict()).ok()
        }
    }

    /// Trains a dictionary of at most `bytes_max` bytes from the first `count` blocks. Returns
    /// `None` if they are too few or have nothing in common.
    pub fn train(samples: &super::Samples, count: usize, bytes_max: usize) -> Option<Vec<u8>> {
        let blocks = samples.blocks.iter().take(count);
        let lengths: Vec<usize> = blocks.map(|block| block.raw_bytes).collect();
        let raw = samples.raw.get(..lengths.iter().sum())?;
        let trained = zstd::dict::from_continuous(raw, &lengths, bytes_max);
        trained.ok().filter(|trained| !trained.is_empty())
    }
}

#[cfg(not(feature = "zstd"))]
mod without_zstd {
    /// A dictionary, which this build cannot use.
    pub struct Dictionary(());

    impl Dictionary {
        /// Accepts any bytes. Each block of the table then says that its compression is missing.
        pub fn new(_bytes: &[u8]) -> Option<Dictionary> {
            Some(Dictionary(()))
        }

        /// Returns the memory of the dictionary, in bytes.
        pub fn memory_bytes(&self) -> usize {
            0
        }
    }

    /// Trains nothing.
    pub fn train(_samples: &super::Samples, _count: usize, _bytes_max: usize) -> Option<Vec<u8>> {
        None
    }
}
