//! Compression of a block's bytes: the length before compression (u32), then the packed bytes.
//!
//! What stays true: unpacking never writes or allocates more than the length its caller expects,
//! which comes from the checksummed index.

use std::cell::RefCell;

use crate::options::kinds::Compression;

/// The number of a compression on disk.
pub(super) fn code(compression: Compression) -> u8 {
    match compression {
        Compression::None => 0,
        Compression::Lz4 => 1,
        Compression::Zstd => 2,
        Compression::Snappy => 3,
    }
}

/// The inverse of [`code`].
pub(super) fn from_code(code: u8) -> Option<Compression> {
    Compression::ALL.iter().copied().find(|&c| self::code(c) == code)
}

/// Packs blocks, one after the other, with one set of working memory.
pub(super) struct Packer {
    kind: Compression,
    zstd: Option<zstd::bulk::Compressor<'static>>,
    snappy: snap::raw::Encoder,
}

impl Packer {
    /// A packer of `kind`; `level` concerns Zstandard only and is cut to its range.
    pub(super) fn new(kind: Compression, level: i32) -> std::io::Result<Packer> {
        let zstd = match kind {
            Compression::Zstd => Some(zstd::bulk::Compressor::new(level.clamp(-7, 22))?),
            _ => None,
        };
        Ok(Packer { kind, zstd, snappy: snap::raw::Encoder::new() })
    }

    /// Appends `raw` to `out`, packed if that saves at least an eighth, and says how it lies there.
    pub(super) fn pack(&mut self, raw: &[u8], out: &mut Vec<u8>) -> Compression {
        let start = out.len();
        if self.try_pack(raw, out).is_some() && out.len() - start <= raw.len() - raw.len() / 8 {
            return self.kind;
        }
        out.truncate(start);
        out.extend_from_slice(raw);
        Compression::None
    }

    /// As [`Packer::pack`], of a block in parts that is too large to be copied in vain: what it is
    /// packed to, or `None` where that saves too little, or seems to by a sample.
    pub(super) fn pack_large(&mut self, parts: [&[u8]; 3]) -> Option<Vec<u8>> {
        if !self.seems_worthwhile(parts[1]) {
            return None;
        }
        let raw = parts.concat();
        let most = raw.len() - raw.len() / 8;
        let room = match self.kind {
            // It asks for room for all that could be.
            Compression::Snappy => self.room(raw.len())?,
            _ => most,
        };
        // Zeros of the kernel's: only what is written takes memory.
        let mut packed = vec![0; 4 + room];
        let (len, target) = packed.split_at_mut(4);
        len.copy_from_slice(&u32::try_from(raw.len()).ok()?.to_le_bytes());
        let len = 4 + self.compress(&raw, target)?;
        packed.truncate(len);
        (len <= most).then_some(packed)
    }

    /// Whether pieces of `value` can be packed well enough.
    fn seems_worthwhile(&mut self, value: &[u8]) -> bool {
        const PIECE_BYTES: usize = 16 << 10;
        const PIECES: usize = 8;
        let Some(room) = self.room(PIECE_BYTES) else { return false };
        let mut target = vec![0; room];
        let step = (value.len() / PIECES).max(PIECE_BYTES);
        let (mut raw_bytes, mut packed_bytes) = (0, 0);
        for piece in value.chunks(step) {
            let piece = &piece[..piece.len().min(PIECE_BYTES)];
            raw_bytes += piece.len();
            packed_bytes += self.compress(piece, &mut target).unwrap_or(piece.len());
        }
        packed_bytes <= raw_bytes - raw_bytes / 8
    }

    /// The most bytes that so many may be packed to.
    fn room(&self, raw_bytes: usize) -> Option<usize> {
        match self.kind {
            Compression::None => None,
            Compression::Lz4 => lz4::block::compress_bound(raw_bytes).ok(),
            Compression::Zstd => Some(zstd::zstd_safe::compress_bound(raw_bytes)),
            Compression::Snappy => Some(snap::raw::max_compress_len(raw_bytes)),
        }
    }

    /// Packs `raw` into `target` and says to how many bytes; `None` where there is too little room.
    fn compress(&mut self, raw: &[u8], target: &mut [u8]) -> Option<usize> {
        match self.kind {
            Compression::None => None,
            Compression::Lz4 => lz4::block::compress_to_buffer(raw, None, false, target).ok(),
            Compression::Zstd => self.zstd.as_mut()?.compress_to_buffer(raw, target).ok(),
            Compression::Snappy => self.snappy.compress(raw, target).ok(),
        }
    }

    fn try_pack(&mut self, raw: &[u8], out: &mut Vec<u8>) -> Option<()> {
        let room = self.room(raw.len())?;
        out.extend_from_slice(&u32::try_from(raw.len()).ok()?.to_le_bytes());
        let start = out.len();
        out.resize(start + room, 0);
        let len = self.compress(raw, &mut out[start..])?;
        out.truncate(start + len);
        Some(())
    }
}

thread_local! {
    /// A Zstandard context takes longer to make than a block takes to unpack.
    static ZSTD: RefCell<Option<zstd::bulk::Decompressor<'static>>> = const { RefCell::new(None) };
}

/// Unpacks what [`Packer::pack`] wrote as `kind` into `raw`, which it must fill exactly.
pub(super) fn unpack(kind: Compression, packed: &[u8], raw: &mut [u8]) -> Result<(), &'static str> {
    let (len, packed) = packed.split_first_chunk::<4>().ok_or("a packed block without length")?;
    if u32::from_le_bytes(*len) as usize != raw.len() {
        return Err("the block's length before compression is not what the index says");
    }
    let got = match kind {
        Compression::None => None,
        Compression::Lz4 => unpack_lz4(packed, raw),
        Compression::Zstd => unpack_zstd(packed, raw),
        Compression::Snappy => snap::raw::Decoder::new().decompress(packed, raw).ok(),
    };
    match got {
        Some(len) if len == raw.len() => Ok(()),
        _ => Err("the block cannot be decompressed"),
    }
}

fn unpack_lz4(packed: &[u8], raw: &mut [u8]) -> Option<usize> {
    // The library counts both in its own lengths.
    let (raw_bytes, _) = (i32::try_from(raw.len()).ok()?, i32::try_from(packed.len()).ok()?);
    lz4::block::decompress_to_buffer(packed, Some(raw_bytes), raw).ok()
}

fn unpack_zstd(packed: &[u8], raw: &mut [u8]) -> Option<usize> {
    ZSTD.with(|cell| {
        let mut context = cell.borrow_mut();
        if context.is_none() {
            *context = Some(zstd::bulk::Decompressor::new().ok()?);
        }
        context.as_mut()?.decompress_to_buffer(packed, raw).ok()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_packed_unpacks_and_damage_is_refused() {
        let raw: Vec<u8> = (0..5000u32).flat_map(|i| (i / 7).to_le_bytes()).collect();
        for &kind in Compression::ALL {
            let mut packer = Packer::new(kind, 0).unwrap();
            let mut out = b"before".to_vec();
            assert_eq!(packer.pack(&raw, &mut out), kind);
            if kind == Compression::None {
                assert_eq!(&out[6..], raw);
                continue;
            }
            assert!(out.len() < raw.len() / 2);
            let mut read = vec![0; raw.len() + 1];
            assert!(unpack(kind, &out[6..], &mut read).is_err());
            read.pop();
            unpack(kind, &out[6..], &mut read).unwrap();
            assert_eq!(read, raw);
            for cut in 0..out.len() - 6 {
                assert!(unpack(kind, &out[6..6 + cut], &mut read).is_err());
            }
        }
    }

    /// Of what the checksum should have caught, nothing is written beyond the buffer.
    #[test]
    fn damaged_bytes_are_refused_or_fill_the_buffer_and_touch_nothing_else() {
        const GUARD: usize = 64;
        let raw: Vec<u8> = (0..700u32).flat_map(|i| (i / 5).to_le_bytes()).collect();
        let rounds = if cfg!(miri) { 60 } else { 30_000 };
        let mut seed = 3u64;
        let mut random = move |below: usize| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (seed >> 33) as usize % below
        };
        for &kind in Compression::ALL {
            // Miri runs no C, of which all are but Snappy.
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
                let mut room = vec![0xa5; GUARD + raw.len() + GUARD];
                let middle = &mut room[GUARD..GUARD + raw.len()];
                refused += usize::from(unpack(kind, &bytes, middle).is_err());
                let (before, after) = (&room[..GUARD], &room[GUARD + raw.len()..]);
                assert!(before.iter().chain(after).all(|&byte| byte == 0xa5), "{kind:?}");
            }
            assert!(refused > rounds / 2, "{kind:?}: {refused} of {rounds} refused");
        }
    }

    #[test]
    fn noise_is_kept_as_it_is() {
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
