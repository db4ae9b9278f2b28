//! Block compression: none, LZ4 or zstd.
//!
//! LZ4 is the C library. On 4 KiB blocks of the peer harness it decompresses at 10 GB/s, while the
//!     pure Rust `lz4_flex` reaches 4 to 7 GB/s. Both compress at 1.4 GB/s.
//!
//! A block that would shrink by less than an eighth is stored uncompressed: decompressing it would
//! cost more than the smaller read saves.
//!
//! Not here: the choice of compression (`options.rs`), the checksum (`table/format.rs`).

use crate::options::Compression;
use std::cell::RefCell;
use std::fmt;

impl Compression {
    /// The compression with this discriminant, as read from a disk.
    pub(crate) fn from_u8(byte: u8) -> Option<Compression> {
        match byte {
            1 => Some(Compression::None),
            2 => Some(Compression::Lz4),
            3 => Some(Compression::Zstd),
            _ => None,
        }
    }
}

impl fmt::Display for Compression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Compression::None => "none",
            Compression::Lz4 => "lz4",
            Compression::Zstd => "zstd",
        })
    }
}

/// The default of zstd's authors. Beyond it, time grows faster than space shrinks.
const ZSTD_LEVEL: i32 = 3;

/// Compresses one block after another, reusing its tables and its output buffer.
pub(crate) struct Compressor {
    compression: Compression,
    lz4_acceleration: i32,
    zstd: Option<zstd::bulk::Compressor<'static>>,
    out: Vec<u8>,
}

impl fmt::Debug for Compressor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Compressor").field("compression", &self.compression).finish_non_exhaustive()
    }
}

impl Compressor {
    /// Creates a compressor. `lz4_acceleration` is LZ4's trade of size for speed; 1 is the densest.
    pub(crate) fn new(compression: Compression, lz4_acceleration: u32) -> Compressor {
        Compressor {
            compression,
            lz4_acceleration: lz4_acceleration.clamp(1, 64) as i32,
            zstd: None,
            out: Vec::new(),
        }
    }

    /// Returns the bytes to store for `raw`, and how they are compressed.
    pub(crate) fn compress<'a>(&'a mut self, raw: &'a [u8]) -> (Compression, &'a [u8]) {
        let worth_it_len_bytes = raw.len() - raw.len() / 8;
        match self.try_compress(raw) {
            Some(len_bytes) if len_bytes < worth_it_len_bytes => {
                (self.compression, &self.out[..len_bytes])
            }
            _ => (Compression::None, raw),
        }
    }

    /// Compresses into `self.out`. Returns `None` if the library refuses, which it may; the caller
    /// can always store the block uncompressed.
    fn try_compress(&mut self, raw: &[u8]) -> Option<usize> {
        match self.compression {
            Compression::None => None,
            Compression::Lz4 => {
                let bound = lz4::block::compress_bound(raw.len()).ok()?;
                if self.out.len() < bound {
                    self.out.resize(bound, 0);
                }
                let mode = lz4::block::CompressionMode::FAST(self.lz4_acceleration);
                lz4::block::compress_to_buffer(raw, Some(mode), false, &mut self.out).ok()
            }
            Compression::Zstd => {
                let bound = zstd::zstd_safe::compress_bound(raw.len());
                if self.out.len() < bound {
                    self.out.resize(bound, 0);
                }
                if self.zstd.is_none() {
                    self.zstd = zstd::bulk::Compressor::new(ZSTD_LEVEL).ok();
                }
                self.zstd.as_mut()?.compress_to_buffer(raw, &mut self.out[..]).ok()
            }
        }
    }
}

thread_local! {
    /// A zstd context takes 150 KiB, and creating one takes longer than decompressing a block.
    static ZSTD: RefCell<Option<zstd::bulk::Decompressor<'static>>> = const { RefCell::new(None) };
}

/// Decompresses `stored` into `out`, which then has exactly `raw_len_bytes` bytes. Its previous
/// content is overwritten, so that a buffer can be reused for many blocks.
///
/// # Errors
/// A description of the defect in `stored`.
pub(crate) fn decompress(
    compression: Compression,
    stored: &[u8],
    raw_len_bytes: usize,
    out: &mut Vec<u8>,
) -> Result<(), String> {
    let got_len_bytes = match compression {
        Compression::None => {
            out.clear();
            out.extend_from_slice(stored);
            stored.len()
        }
        Compression::Lz4 => {
            // LZ4 expands a byte to at most 255. A larger claimed length is false and must not
            //     cause an allocation.
            if raw_len_bytes > stored.len().saturating_mul(255) {
                return Err(too_long(raw_len_bytes, stored.len()));
            }
            let size = i32::try_from(raw_len_bytes).map_err(|e| e.to_string())?;
            out.resize(raw_len_bytes, 0);
            lz4::block::decompress_to_buffer(stored, Some(size), out).map_err(|e| e.to_string())?
        }
        Compression::Zstd => {
            let said = zstd::zstd_safe::get_frame_content_size(stored).ok().flatten();
            if said != Some(raw_len_bytes as u64) {
                return Err(format!("zstd frame of {said:?} bytes, {raw_len_bytes} expected"));
            }
            out.resize(raw_len_bytes, 0);
            ZSTD.with_borrow_mut(|context| {
                let context = match context {
                    Some(context) => context,
                    None => context.insert(zstd::bulk::Decompressor::new()?),
                };
                context.decompress_to_buffer(stored, &mut out[..])
            })
            .map_err(|e: std::io::Error| e.to_string())?
        }
    };
    if got_len_bytes == raw_len_bytes {
        Ok(())
    } else {
        Err(format!("{got_len_bytes} bytes after decompression, {raw_len_bytes} expected"))
    }
}

#[cold]
fn too_long(raw_len_bytes: usize, stored_len_bytes: usize) -> String {
    format!("{stored_len_bytes} stored bytes cannot hold {raw_len_bytes}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(compression: Compression, raw: &[u8], expected: Compression) {
        let mut compressor = Compressor::new(compression, 1);
        let (got, stored) = compressor.compress(raw);
        assert_eq!(got, expected);
        let mut out = vec![7; 3];
        decompress(got, stored, raw.len(), &mut out).unwrap();
        assert_eq!(out, raw);
    }

    #[test]
    fn round_trips_and_stores_what_does_not_shrink() {
        let text = b"the quick brown fox jumps over the quick brown dog ".repeat(40);
        let mut word = 1u64;
        let noise: Vec<u8> = (0..4096)
            .map(|_| {
                word = word.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                (word >> 56) as u8
            })
            .collect();
        for compression in [Compression::None, Compression::Lz4, Compression::Zstd] {
            check(compression, &text, compression);
            check(compression, &noise, Compression::None);
            check(compression, b"", Compression::None);
        }
    }

    #[test]
    fn garbage_and_wrong_lengths_are_refused() {
        let text = b"abcabcabc".repeat(100);
        for compression in [Compression::Lz4, Compression::Zstd] {
            let mut compressor = Compressor::new(compression, 1);
            let stored = compressor.compress(&text).1.to_vec();
            let mut out = Vec::new();
            for wrong in [0, text.len() - 1, text.len() + 1, usize::MAX] {
                assert!(decompress(compression, &stored, wrong, &mut out).is_err(), "{wrong}");
            }
            for cut in 0..stored.len() {
                assert!(decompress(compression, &stored[..cut], text.len(), &mut out).is_err());
            }
        }
    }
}
