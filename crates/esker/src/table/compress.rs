//! Block compression. A compressed block is the uncompressed length (u32) and the compressed bytes.
//!
//! Invariant: decompression never writes or allocates more than the length that the caller expects.
//! That length comes from the checksummed index.

#[cfg(feature = "zstd")]
use std::cell::RefCell;

use super::dictionary::Dictionary;
use crate::options::kinds::Compression;

/// Returns the on-disk code of a compression.
pub(super) fn code(compression: Compression) -> u8 {
    match compression {
        Compression::None => 0,
        Compression::Lz4 => 1,
        Compression::Zstd => 2,
        Compression::Snappy => 3,
    }
}

/// Returns the compression of an on-disk code; the inverse of [`code`].
pub(super) fn from_code(code: u8) -> Option<Compression> {
    Compression::ALL.iter().copied().find(|&c| self::code(c) == code)
}

/// Compressor that reuses its working memory from block to block.
pub(super) struct Packer {
    kind: Compression,
    #[cfg(feature = "zstd")]
    zstd: Option<zstd::bulk::Compressor<'static>>,
    #[cfg(feature = "snappy")]
    snappy: snap::raw::Encoder,
}

impl Packer {
    /// Creates a compressor. `level` applies to Zstandard only and is clamped to its range.
    pub(super) fn new(kind: Compression, level: i32) -> std::io::Result<Packer> {
        Packer::with_dictionary(kind, level, &[])
    }

    /// Creates a compressor with a dictionary, which Zstandard alone can use; empty for none.
    pub(super) fn with_dictionary(
        kind: Compression,
        level: i32,
        dictionary: &[u8],
    ) -> std::io::Result<Packer> {
        if !kind.is_built_in() {
            return Err(std::io::Error::new(
                std::io::ErrorKind::Unsupported,
                kind.missing_feature(),
            ));
        }
        #[cfg(feature = "zstd")]
        let zstd = match kind {
            Compression::Zstd => {
                Some(zstd::bulk::Compressor::with_dictionary(level.clamp(-7, 22), dictionary)?)
            }
            _ => None,
        };
        let _ = (level, dictionary);
        Ok(Packer {
            kind,
            #[cfg(feature = "zstd")]
            zstd,
            #[cfg(feature = "snappy")]
            snappy: snap::raw::Encoder::new(),
        })
    }

    /// Appends `raw` to `out` and returns the compression used. The bytes stay uncompressed if
    /// compression saves less than an eighth.
    pub(super) fn pack(&mut self, raw: &[u8], out: &mut Vec<u8>) -> Compression {
        let start = out.len();
        if self.try_pack(raw, out).is_some() && out.len() - start <= raw.len() - raw.len() / 8 {
            return self.kind;
        }
        out.truncate(start);
        out.extend_from_slice(raw);
        Compression::None
    }

    /// Compresses a large block, given in parts, without a needless copy. Returns `None` if
    /// compression saves too little, or appears to from a sample.
    pub(super) fn pack_large(&mut self, parts: [&[u8]; 3]) -> Option<Vec<u8>> {
        if !self.seems_worthwhile(parts[1]) {
            return None;
        }
        let raw = parts.concat();
        let most = raw.len() - raw.len() / 8;
        let bytes_max = match self.kind {
            // The Snappy encoder requires a buffer of the worst-case size.
            Compression::Snappy => self.compressed_bytes_max(raw.len())?,
            _ => most,
        };
        // Zeroed memory from the kernel: only written pages take physical memory.
        let mut packed = vec![0; 4 + bytes_max];
        let (len, target) = packed.split_at_mut(4);
        len.copy_from_slice(&u32::try_from(raw.len()).ok()?.to_le_bytes());
        let len = 4 + self.compress(&raw, target)?;
        packed.truncate(len);
        (len <= most).then_some(packed)
    }

    /// Reports whether samples of `value` compress well enough.
    fn seems_worthwhile(&mut self, value: &[u8]) -> bool {
        const PIECE_BYTES: usize = 16 << 10;
        const PIECE_COUNT: usize = 8;
        let Some(bytes_max) = self.compressed_bytes_max(PIECE_BYTES) else { return false };
        let mut target = vec![0; bytes_max];
        let step = (value.len() / PIECE_COUNT).max(PIECE_BYTES);
        let (mut raw_bytes, mut packed_bytes) = (0, 0);
        for piece in value.chunks(step) {
            let piece = &piece[..piece.len().min(PIECE_BYTES)];
            raw_bytes += piece.len();
            packed_bytes += self.compress(piece, &mut target).unwrap_or(piece.len());
        }
        packed_bytes <= raw_bytes - raw_bytes / 8
    }

    /// Returns the maximum compressed size of `raw_bytes` bytes.
    fn compressed_bytes_max(&self, raw_bytes: usize) -> Option<usize> {
        let _ = raw_bytes;
        match self.kind {
            Compression::None => None,
            #[cfg(feature = "lz4")]
            Compression::Lz4 => lz4::block::compress_bound(raw_bytes).ok(),
            #[cfg(feature = "zstd")]
            Compression::Zstd => Some(zstd::zstd_safe::compress_bound(raw_bytes)),
            #[cfg(feature = "snappy")]
            Compression::Snappy => Some(snap::raw::max_compress_len(raw_bytes)),
            #[allow(unreachable_patterns)]
            _ => None,
        }
    }

    /// Compresses `raw` into `target` and returns the compressed length; `None` if `target` is too
    /// small.
    fn compress(&mut self, raw: &[u8], target: &mut [u8]) -> Option<usize> {
        let _ = (raw, &target);
        match self.kind {
            Compression::None => None,
            #[cfg(feature = "lz4")]
            Compression::Lz4 => lz4::block::compress_to_buffer(raw, None, false, target).ok(),
            #[cfg(feature = "zstd")]
            Compression::Zstd => self.zstd.as_mut()?.compress_to_buffer(raw, target).ok(),
            #[cfg(feature = "snappy")]
            Compression::Snappy => self.snappy.compress(raw, target).ok(),
            #[allow(unreachable_patterns)]
            _ => None,
        }
    }

    fn try_pack(&mut self, raw: &[u8], out: &mut Vec<u8>) -> Option<()> {
        let bytes_max = self.compressed_bytes_max(raw.len())?;
        out.extend_from_slice(&u32::try_from(raw.len()).ok()?.to_le_bytes());
        let start = out.len();
        out.resize(start + bytes_max, 0);
        let len = self.compress(raw, &mut out[start..])?;
        out.truncate(start + len);
        Some(())
    }
}

#[cfg(feature = "zstd")]
thread_local! {
    /// Per-thread Zstandard context, because its creation takes longer than the decompression of a
    /// block.
    static ZSTD: RefCell<Option<zstd::zstd_safe::DCtx<'static>>> = const { RefCell::new(None) };
}

/// Decompresses the output of [`Packer::pack`] into `raw`, which it must fill exactly. `dictionary`
/// is that of the table.
pub(super) fn unpack(
    kind: Compression,
    packed: &[u8],
    raw: &mut [u8],
    dictionary: Option<&Dictionary>,
) -> Result<(), &'static str> {
    let (len, packed) =
        packed.split_first_chunk::<4>().ok_or("the compressed block has no length field")?;
    if u32::from_le_bytes(*len) as usize != raw.len() {
        return Err("the block's uncompressed length differs from the length in the index");
    }
    let _ = (packed, dictionary);
    let got: Option<usize> = match kind {
        Compression::None => None,
        #[cfg(feature = "lz4")]
        Compression::Lz4 => unpack_lz4(packed, raw),
        #[cfg(feature = "zstd")]
        Compression::Zstd => unpack_zstd(packed, raw, dictionary),
        #[cfg(feature = "snappy")]
        Compression::Snappy => snap::raw::Decoder::new().decompress(packed, raw).ok(),
        #[allow(unreachable_patterns)]
        kind => return Err(kind.missing_feature()),
    };
    match got {
        Some(len) if len == raw.len() => Ok(()),
        _ => Err("the block cannot be decompressed"),
    }
}

#[cfg(feature = "lz4")]
fn unpack_lz4(packed: &[u8], raw: &mut [u8]) -> Option<usize> {
    // The library takes both lengths as `i32`.
    let (raw_bytes, _) = (i32::try_from(raw.len()).ok()?, i32::try_from(packed.len()).ok()?);
    lz4::block::decompress_to_buffer(packed, Some(raw_bytes), raw).ok()
}

#[cfg(feature = "zstd")]
fn unpack_zstd(packed: &[u8], raw: &mut [u8], dictionary: Option<&Dictionary>) -> Option<usize> {
    ZSTD.with(|cell| {
        let mut context = cell.borrow_mut();
        if context.is_none() {
            *context = Some(zstd::zstd_safe::DCtx::try_create()?);
        }
        let context = context.as_mut()?;
        match dictionary {
            Some(dictionary) => dictionary.unpack(context, packed, raw),
            None => context.decompress(raw, packed).ok(),
        }
    })
}

#[cfg(all(test, feature = "lz4"))]
mod tests {
    use super::*;

    #[test]
    fn compression_round_trips_and_corruption_is_refused() {
        let raw: Vec<u8> = (0..5000u32).flat_map(|i| (i / 7).to_le_bytes()).collect();
        for &kind in Compression::ALL.iter().filter(|kind| kind.is_built_in()) {
            let mut packer = Packer::new(kind, 0).unwrap();
            let mut out = b"before".to_vec();
            assert_eq!(packer.pack(&raw, &mut out), kind);
            if kind == Compression::None {
                assert_eq!(&out[6..], raw);
                continue;
            }
            assert!(out.len() < raw.len() / 2);
            let mut read = vec![0; raw.len() + 1];
            assert!(unpack(kind, &out[6..], &mut read, None).is_err());
            read.pop();
            unpack(kind, &out[6..], &mut read, None).unwrap();
            assert_eq!(read, raw);
            for cut in 0..out.len() - 6 {
                assert!(unpack(kind, &out[6..6 + cut], &mut read, None).is_err());
            }
        }
    }

    /// Damaged input that the checksum should have caught writes nothing beyond the buffer.
    #[test]
    fn corrupt_input_is_refused_or_stays_within_output_buffer() {
        const GUARD: usize = 64;
        let raw: Vec<u8> = (0..700u32).flat_map(|i| (i / 5).to_le_bytes()).collect();
        let rounds = if cfg!(miri) { 60 } else { 30_000 };
        let mut seed = 3u64;
        let mut random = move |below: usize| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (seed >> 33) as usize % below
        };
        for &kind in Compression::ALL.iter().filter(|kind| kind.is_built_in()) {
            // Miri cannot run C code, and every compression but Snappy is a C library.
            if kind == Compression::None || (cfg!(miri) && kind != Compression::Snappy) {
                continue;
            }
            let mut packed = Vec::new();
            Packer::new(kind, 0).unwrap().pack(&raw, &mut packed);
            let mut refused = 0;
            for _ in 0..rounds {
                let mut bytes = packed.clone();
                bytes.truncate(4 + random(bytes.len() - 3));
                for _ in 0..1 + random(4) {
                    let at = 4 + random(bytes.len().max(5) - 4);
                    if let Some(byte) = bytes.get_mut(at) {
                        *byte = [0, 0xff, random(256) as u8][random(3)];
                    }
                }
                let mut buffer = vec![0xa5; GUARD + raw.len() + GUARD];
                let middle = &mut buffer[GUARD..GUARD + raw.len()];
                refused += usize::from(unpack(kind, &bytes, middle, None).is_err());
                let (before, after) = (&buffer[..GUARD], &buffer[GUARD + raw.len()..]);
                assert!(before.iter().chain(after).all(|&byte| byte == 0xa5), "{kind:?}");
            }
            assert!(refused > rounds / 2, "{kind:?}: {refused} of {rounds} refused");
        }
    }

    #[test]
    fn incompressible_data_is_stored_uncompressed() {
        let mut x = 1u64;
        let noise: Vec<u8> = (0..4096)
            .map(|_| {
                x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                (x >> 56) as u8
            })
            .collect();
        let mut out = Vec::new();
        let mut packer = Packer::new(Compression::Lz4, 0).unwrap();
        assert_eq!(packer.pack(&noise, &mut out), Compression::None);
        assert_eq!(out, noise);
        assert!((0..=255).filter(|&c| from_code(c).is_some()).count() == 4);
    }
}
