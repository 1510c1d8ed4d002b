//! The codecs of record batches. Unpacking is bounded: a few bytes that claim gigabytes are an
//! error.

use super::BatchError;
use std::io::{Read, Write};

/// Bytes that one batch may unpack to (256 MiB).
pub const DECOMPRESSED_MAX: usize = 256 << 20;

/// How the records of a batch are compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Compression {
    /// Not at all.
    #[default]
    None,
    /// RFC 1952.
    Gzip,
    /// Snappy, in the framing of Java's snappy library.
    Snappy,
    /// The LZ4 frame format.
    Lz4,
    /// Zstandard.
    Zstd,
}

/// Start of the framing that Java's snappy library writes: magic, version 1, compatible from 1.
const XERIAL: [u8; 16] = [0x82, b'S', b'N', b'A', b'P', b'P', b'Y', 0, 0, 0, 0, 1, 0, 0, 0, 1];
/// Bytes in one block of that framing.
const XERIAL_BLOCK: usize = 32 << 10;

impl Compression {
    /// The codec with this name in Kafka's configuration (`none`, `gzip`, `snappy`, `lz4`, `zstd`).
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Some(match name {
            "none" => Self::None,
            "gzip" => Self::Gzip,
            "snappy" => Self::Snappy,
            "lz4" => Self::Lz4,
            "zstd" => Self::Zstd,
            _ => return None,
        })
    }

    /// The codec's name in Kafka's configuration.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Gzip => "gzip",
            Self::Snappy => "snappy",
            Self::Lz4 => "lz4",
            Self::Zstd => "zstd",
        }
    }

    pub(super) fn from_attributes(attributes: i16) -> Result<Self, BatchError> {
        Ok(match attributes & 7 {
            0 => Self::None,
            1 => Self::Gzip,
            2 => Self::Snappy,
            3 => Self::Lz4,
            4 => Self::Zstd,
            other => return Err(BatchError::UnknownCompression(other as i8)),
        })
    }

    pub(super) fn attribute(self) -> i16 {
        self as i16
    }

    /// Appends the packed `records` to `out`.
    pub(super) fn compress(
        self,
        records: &[u8],
        level: Option<i32>,
        out: &mut Vec<u8>,
    ) -> Result<(), BatchError> {
        match self {
            Self::None => out.extend_from_slice(records),
            Self::Gzip => {
                let level = level.map_or(flate2::Compression::default(), |level| {
                    flate2::Compression::new(level.clamp(0, 9) as u32)
                });
                let mut packer = flate2::write::GzEncoder::new(out, level);
                packer
                    .write_all(records)
                    .and_then(|()| packer.finish().map(drop))
                    .map_err(failed)?;
            }
            Self::Snappy => compress_snappy(records, out)?,
            Self::Lz4 => {
                let info = lz4_flex::frame::FrameInfo::new()
                    .block_size(lz4_flex::frame::BlockSize::Max64KB)
                    .block_mode(lz4_flex::frame::BlockMode::Independent);
                let mut packer = lz4_flex::frame::FrameEncoder::with_frame_info(info, out);
                packer.write_all(records).map_err(failed)?;
                packer.finish().map_err(failed)?;
            }
            Self::Zstd => {
                let mut packer =
                    zstd::stream::write::Encoder::new(out, level.unwrap_or(3)).map_err(failed)?;
                packer
                    .write_all(records)
                    .and_then(|()| packer.finish().map(drop))
                    .map_err(failed)?;
            }
        }
        Ok(())
    }

    /// Unpacks `packed` to at most `limit` bytes.
    pub(super) fn decompress(self, packed: &[u8], limit: usize) -> Result<Vec<u8>, BatchError> {
        match self {
            Self::None => Ok(packed.to_vec()),
            Self::Gzip => read_bounded(flate2::read::MultiGzDecoder::new(packed), packed, limit),
            Self::Snappy => decompress_snappy(packed, limit),
            Self::Lz4 => read_bounded(lz4_flex::frame::FrameDecoder::new(packed), packed, limit),
            Self::Zstd => {
                let unpacker = zstd::stream::read::Decoder::with_buffer(packed).map_err(failed)?;
                read_bounded(unpacker, packed, limit)
            }
        }
    }
}

/// Reads all that `from` gives, growing with what really comes.
fn read_bounded(from: impl Read, packed: &[u8], limit: usize) -> Result<Vec<u8>, BatchError> {
    let mut out = Vec::with_capacity(packed.len().saturating_mul(4).min(limit).min(1 << 20));
    let read = from.take(limit as u64 + 1).read_to_end(&mut out).map_err(failed)?;
    if read > limit { Err(BatchError::TooLarge { limit }) } else { Ok(out) }
}

fn compress_snappy(records: &[u8], out: &mut Vec<u8>) -> Result<(), BatchError> {
    let mut packer = snap::raw::Encoder::new();
    let mut block = vec![0; snap::raw::max_compress_len(XERIAL_BLOCK)];
    out.extend_from_slice(&XERIAL);
    for part in records.chunks(XERIAL_BLOCK) {
        let length = packer.compress(part, &mut block).map_err(failed)?;
        out.extend_from_slice(&(length as u32).to_be_bytes());
        out.extend_from_slice(&block[..length]);
    }
    Ok(())
}

fn decompress_snappy(packed: &[u8], limit: usize) -> Result<Vec<u8>, BatchError> {
    let mut out = Vec::new();
    if !packed.starts_with(&XERIAL[..8]) {
        unpack_snappy_block(packed, limit, &mut out)?;
        return Ok(out);
    }
    let mut rest = packed.get(XERIAL.len()..).ok_or_else(|| failed("the framing is cut off"))?;
    while !rest.is_empty() {
        let (length, after) =
            rest.split_first_chunk::<4>().ok_or_else(|| failed("a block's length is cut off"))?;
        let length = u32::from_be_bytes(*length) as usize;
        if length > after.len() {
            return Err(failed("a block is cut off"));
        }
        let (block, next) = after.split_at(length);
        unpack_snappy_block(block, limit, &mut out)?;
        rest = next;
    }
    Ok(out)
}

fn unpack_snappy_block(block: &[u8], limit: usize, out: &mut Vec<u8>) -> Result<(), BatchError> {
    let length = snap::raw::decompress_len(block).map_err(failed)?;
    // No element of snappy gives more than 64 bytes for each of its own.
    if length > block.len().saturating_mul(64) {
        return Err(failed("a block claims more than it can hold"));
    }
    let start = out.len();
    if start + length > limit {
        return Err(BatchError::TooLarge { limit });
    }
    out.resize(start + length, 0);
    snap::raw::Decoder::new().decompress(block, &mut out[start..]).map_err(failed)?;
    Ok(())
}

fn failed(why: impl std::fmt::Display) -> BatchError {
    BatchError::Decompression(why.to_string())
}
