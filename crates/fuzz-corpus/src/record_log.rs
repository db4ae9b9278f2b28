//! The record log: from any bytes on the disk, the decoder returns a prefix of records and an end.

use crate::target::Target;
use imbrex_record_log::{BLOCK_LEN_BYTES, Decoder, Encoder, LogBounds};
use std::convert::Infallible;

pub(crate) const TARGET: Target = Target { name: "record_log", feed, seeds };

const LOG_ID: u64 = 7;

/// Asserts that the records end, and that the decoder then reports how.
fn feed(bytes: &[u8]) {
    let len_blocks = bytes.len().div_ceil(BLOCK_LEN_BYTES) as u64;
    let read = |offset: u64, buf: &mut [u8]| -> Result<(), Infallible> {
        buf.fill(0);
        let rest = bytes.get(offset as usize..).unwrap_or_default();
        let len = rest.len().min(buf.len());
        buf[..len].copy_from_slice(&rest[..len]);
        Ok(())
    };
    let extent = LogBounds { log_id: LOG_ID, len_blocks, durable_blocks: 0 };
    let mut decoder = Decoder::new(extent, read);
    let mut record_count: u64 = 0;
    while let Ok(Some(_)) = decoder.next_record() {
        record_count += 1;
        assert!(record_count <= bytes.len() as u64, "more records than bytes");
    }
    assert!(decoder.end().is_some(), "no more records and no end");
}

fn seeds() -> Vec<(&'static str, Vec<u8>)> {
    let log = |records: &[&[u8]], frame_len_bytes| {
        let mut encoder = Encoder::with_frame_len(LOG_ID, frame_len_bytes);
        let mut bytes = Vec::new();
        for record in records {
            encoder.push(&[record]).expect("seed records are short");
            encoder.seal();
        }
        encoder.take_ready(&mut bytes);
        bytes
    };
    let long = vec![0xab; 3 * BLOCK_LEN_BYTES];
    vec![
        ("empty", Vec::new()),
        ("one", log(&[b"hello"], BLOCK_LEN_BYTES)),
        ("several", log(&[b"a", b"", b"ccc"], BLOCK_LEN_BYTES)),
        ("across_frames", log(&[b"a", &long, b"z"], BLOCK_LEN_BYTES)),
    ]
}
