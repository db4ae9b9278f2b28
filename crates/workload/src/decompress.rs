//! Files that may be packed with zstd or gzip.

use std::io::{self, BufRead, BufReader, Read};

/// The decompressed bytes; zstd and gzip are recognised by their first bytes, everything else
/// passes through unchanged.
pub(crate) fn decompressed(bytes: Box<dyn Read + Send>) -> io::Result<Box<dyn Read + Send>> {
    const ZSTD: &[u8] = &[0x28, 0xB5, 0x2F, 0xFD];
    const GZIP: &[u8] = &[0x1F, 0x8B];
    let mut bytes = BufReader::new(bytes);
    let head = bytes.fill_buf()?;
    if head.starts_with(ZSTD) {
        return Ok(Box::new(zstd::Decoder::with_buffer(bytes)?));
    }
    if head.starts_with(GZIP) {
        return Ok(Box::new(flate2::bufread::MultiGzDecoder::new(bytes)));
    }
    Ok(Box::new(bytes))
}
