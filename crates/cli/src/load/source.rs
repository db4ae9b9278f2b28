//! The source of records: a file or standard input, compressed or not.
//!
//! Compression is detected by the first bytes, not by the name, so that a pipe works like a file.

use crate::error::{CliError, Context, Exit};
use crate::interrupt::{Interrupt, Stdin};
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Counts the bytes read, for the progress bar.
#[derive(Debug)]
struct Counting<R> {
    inner: R,
    count: Arc<AtomicU64>,
}

impl<R: Read> Read for Counting<R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let len = self.inner.read(buf)?;
        self.count.fetch_add(len as u64, Ordering::Relaxed);
        Ok(len)
    }
}

/// An open source.
pub(super) struct Source {
    /// The decompressed bytes.
    pub(super) reader: Box<dyn BufRead>,
    /// For messages: the path, or "standard input".
    pub(super) name: String,
    /// The compressed length, if the source is a file.
    pub(super) len_bytes: Option<u64>,
    /// How many compressed bytes were read.
    pub(super) read_bytes: Arc<AtomicU64>,
}

const ZSTD_MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];
const BUFFER_LEN_BYTES: usize = 1 << 18;

/// Opens `path`, or standard input for `-`.
pub(super) fn open(path: &Path, interrupt: &Interrupt) -> Result<Source, CliError> {
    let (raw, name, len_bytes): (Box<dyn Read>, _, _) = if path == Path::new("-") {
        (Box::new(Stdin::new(interrupt.clone())), "standard input".to_owned(), None)
    } else {
        let name = path.display().to_string();
        let file = File::open(path).context(|| format!("cannot open {name}"))?;
        let metadata = file.metadata().context(|| format!("cannot open {name}"))?;
        if metadata.is_dir() {
            let message = format!("cannot load {name}: it is a directory; name a file of records");
            return Err(CliError::new(Exit::BadData, message));
        }
        (Box::new(file), name, metadata.is_file().then_some(metadata.len()))
    };
    let read_bytes = Arc::new(AtomicU64::new(0));
    let counting = Counting { inner: raw, count: Arc::clone(&read_bytes) };
    let mut plain = BufReader::with_capacity(BUFFER_LEN_BYTES, counting);
    let head = plain.fill_buf().context(|| format!("cannot read {name}"))?;
    let reader: Box<dyn BufRead> = if head.starts_with(&ZSTD_MAGIC) {
        let decoder =
            zstd::Decoder::with_buffer(plain).context(|| format!("cannot read {name}"))?;
        Box::new(BufReader::with_capacity(BUFFER_LEN_BYTES, decoder))
    } else if head.starts_with(&GZIP_MAGIC) {
        let decoder = flate2::bufread::MultiGzDecoder::new(plain);
        Box::new(BufReader::with_capacity(BUFFER_LEN_BYTES, decoder))
    } else {
        Box::new(plain)
    };
    Ok(Source { reader, name, len_bytes, read_bytes })
}
