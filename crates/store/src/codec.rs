//! The codecs of spilled bytes, each behind the same two calls.

use std::io;

use lz4_flex::block::{self, CompressTable};
use zstd::bulk::{Compressor, Decompressor};

/// The fastest of the usual levels: a disk waits for it.
const ZSTD_LEVEL: i32 = 1;
/// Bounds of the memory of the compressor and of a decompressor at that level, for frames of 256 KiB.
const ZSTD_ENCODER_BYTES: u64 = 2 << 20;
const ZSTD_DECODER_BYTES: u64 = 256 << 10;

/// How spilled bytes are compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Codec {
    /// Fast: for disks that write less than about 500 MB a second.
    Lz4,
    /// Smaller files at half of the speed: for disks that write less than about 100 MB a second, or are nearly full.
    Zstd,
}

impl Codec {
    /// Returns the memory that an encoder takes beside its buffers.
    pub(crate) fn encoder_bytes(self) -> u64 {
        match self {
            Codec::Lz4 => 64 << 10,
            Codec::Zstd => ZSTD_ENCODER_BYTES,
        }
    }

    /// Returns the memory that a decoder takes beside its buffers.
    pub(crate) fn decoder_bytes(self) -> u64 {
        match self {
            Codec::Lz4 => 0,
            Codec::Zstd => ZSTD_DECODER_BYTES,
        }
    }
}

/// Compresses one piece after another.
pub(crate) enum Encoder {
    Lz4(Box<CompressTable>),
    Zstd(Compressor<'static>),
}

impl Encoder {
    pub(crate) fn new(codec: Codec) -> io::Result<Self> {
        Ok(match codec {
            Codec::Lz4 => Encoder::Lz4(Box::new(CompressTable::large())),
            Codec::Zstd => Encoder::Zstd(Compressor::new(ZSTD_LEVEL)?),
        })
    }

    /// Compresses `bytes` to the start of `out`, which has room for `most_bytes`. Returns how many bytes that took;
    /// `None` if not even a sixteenth is saved.
    pub(crate) fn encode(&mut self, bytes: &[u8], out: &mut [u8]) -> Option<usize> {
        let packed = match self {
            Encoder::Lz4(table) => block::compress_into_with_table(bytes, out, table).ok()?,
            Encoder::Zstd(compressor) => compressor.compress_to_buffer(bytes, out).ok()?,
        };
        (packed < bytes.len() - bytes.len() / 16).then_some(packed)
    }
}

/// Returns the room that an encoder needs for so many bytes.
pub(crate) fn most_bytes(len: usize) -> usize {
    block::get_maximum_output_size(len).max(zstd::zstd_safe::compress_bound(len))
}

/// Decompresses one piece after another.
pub(crate) enum Decoder {
    Lz4,
    Zstd(Decompressor<'static>),
}

impl Decoder {
    pub(crate) fn new(codec: Codec) -> io::Result<Self> {
        Ok(match codec {
            Codec::Lz4 => Decoder::Lz4,
            Codec::Zstd => Decoder::Zstd(Decompressor::new()?),
        })
    }

    /// Fills all of `out`; returns whether `packed` had as many bytes, and was sound.
    pub(crate) fn decode(&mut self, packed: &[u8], out: &mut [u8]) -> bool {
        let found = match self {
            Decoder::Lz4 => block::decompress_into(packed, out).ok(),
            Decoder::Zstd(decompressor) => decompressor.decompress_to_buffer(packed, out).ok(),
        };
        found == Some(out.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_packed_comes_back_and_what_is_cut_does_not() {
        let text = b"slices of blocks, slices of blocks, ".repeat(1000);
        let noise: Vec<u8> = (0u32..5000)
            .flat_map(|i| {
                i.wrapping_mul(2_654_435_761)
                    .rotate_left(i % 31)
                    .to_ne_bytes()
            })
            .collect();
        for codec in [Codec::Lz4, Codec::Zstd] {
            let mut encoder = Encoder::new(codec).unwrap();
            let mut decoder = Decoder::new(codec).unwrap();
            let mut packed = vec![0; most_bytes(text.len())];
            let len = encoder.encode(&text, &mut packed).unwrap();
            assert!(len < text.len() / 10);
            let mut back = vec![0; text.len()];
            assert!(decoder.decode(&packed[..len], &mut back) && back == text);
            assert!(!decoder.decode(&packed[..len - 1], &mut back));
            assert!(!decoder.decode(&packed[..len], &mut vec![0; text.len() + 1]));
            assert_eq!(encoder.encode(&noise[..16_000], &mut packed), None);
        }
    }
}
