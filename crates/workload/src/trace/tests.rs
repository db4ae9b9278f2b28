//! Each format, bad lines and records, truncation, packed files.

use super::*;
use std::io::{self, Write};
use std::path::Path;

fn read_as(bytes: &[u8], format: Option<TraceFormat>) -> Result<Vec<TraceRequest>, TraceError> {
    TraceReader::of(Path::new("t"), Box::new(io::Cursor::new(bytes.to_vec())), format)?.collect()
}

fn read(bytes: &[u8]) -> Vec<TraceRequest> {
    read_as(bytes, None).unwrap()
}

fn fails(bytes: &[u8], wanted: &str) {
    let error = read_as(bytes, None).unwrap_err().to_string();
    assert!(error.contains(wanted), "{error}");
}

fn wanted(at_us: u64, op: TraceOp, offset_bytes: u64, len_bytes: u64) -> TraceRequest {
    TraceRequest { at_ns: at_us * 1000, op, offset_bytes, len_bytes }
}

const CSV: &str = "time_us,op,offset_bytes,size_bytes\n100,W,512,4096\n250,r,0,512\r\n";

fn csv_requests() -> Vec<TraceRequest> {
    vec![wanted(0, TraceOp::Write, 512, 4096), wanted(150, TraceOp::Read, 0, 512)]
}

#[test]
fn our_lines_with_and_without_a_header() {
    assert_eq!(read(CSV.as_bytes()), csv_requests());
    let (_, bare) = CSV.split_once('\n').unwrap();
    assert_eq!(read(bare.as_bytes()), csv_requests());
}

#[test]
fn a_byte_order_mark_is_skipped_and_a_lone_cr_splits_nothing() {
    let marked = format!("\u{feff}{CSV}");
    assert_eq!(read(marked.as_bytes()), csv_requests());
    assert_eq!(read(&zstd::encode_all(marked.as_bytes(), 1).unwrap()), csv_requests());
    assert_eq!(read_as(marked.as_bytes(), Some(TraceFormat::Csv)).unwrap(), csv_requests());
    // The mark made the first request a fault of its time, and the header a request.
    assert_eq!(read("\u{feff}0,W,0,4096\n".as_bytes()).len(), 1);
    let msr = "\u{feff}128166372003061629,hm,1,Read,383496192,32768,413\n";
    assert_eq!(read(msr.as_bytes()).len(), 1);
    fails(b"0,W,0,512\n1,W,0,512\r2,W,0,512\n", "line 2: expected time_us");
    // The bytes of the mark begin a record like any others.
    let mut bytes = record(1, 0x2A, 4096, 8, 1000);
    bytes[..3].copy_from_slice(&[0xEF, 0xBB, 0xBF]);
    let all = [wanted(0, TraceOp::Write, 4096, 4096)];
    assert_eq!(read(&bytes), all);
    assert_eq!(read_as(&bytes, Some(TraceFormat::Vscsi1)).unwrap(), all);
}

/// The rest of the line was read as the next line, with the next number.
#[test]
fn a_line_that_is_too_long_is_not_two() {
    let long = format!("0,W,0,512\n1,W,0,512{}\n", " ".repeat(4087));
    fails(long.as_bytes(), "line 2: expected a line of less than 4096 bytes");
    let longest = format!("0,W,0,512{}\n1,W,0,512\n", " ".repeat(4085));
    assert_eq!(read(longest.as_bytes()).len(), 2);
}

#[test]
fn packed_files_are_unpacked() {
    assert_eq!(read(&zstd::encode_all(CSV.as_bytes(), 1).unwrap()), csv_requests());
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(CSV.as_bytes()).unwrap();
    let packed = gzip.finish().unwrap();
    assert_eq!(read(&packed), csv_requests());
    let cut = read_as(&packed[..packed.len() - 9], None);
    assert!(matches!(cut, Err(TraceError::Io { .. })), "{cut:?}");
}

#[test]
fn msr_cambridge() {
    let text = "128166372003061629,hm,1,Read,383496192,32768,413\n\
                128166372003061729,hm,1,Write,0,4096,1\n";
    let all = [wanted(0, TraceOp::Read, 383_496_192, 32768), wanted(10, TraceOp::Write, 0, 4096)];
    assert_eq!(read(text.as_bytes()), all);
}

#[test]
fn systor_with_blank_types_and_late_requests() {
    let text = "Timestamp,Response,IOType,LUN,Offset,Size\n\
                1456135200.013118000,0.001,W,0,4096,4096\n\
                1456135200.013,0.001,,0,1,1\n\
                Timestamp,Response,IOType,LUN,Offset,Size\n\
                1456135199.5,0.001,R,0,8192,512\n\
                1456135201.013118,0.001,R,0,0,0\n";
    let bytes = Box::new(io::Cursor::new(text.as_bytes().to_vec()));
    let mut reader = TraceReader::of(Path::new("t"), bytes, None).unwrap();
    let all: Vec<TraceRequest> = reader.by_ref().map(Result::unwrap).collect();
    assert_eq!(all, [wanted(0, TraceOp::Write, 4096, 4096), wanted(0, TraceOp::Read, 8192, 512)]);
    assert_eq!((reader.skipped_count(), reader.late_count()), (2, 1));
    assert_eq!(reader.format(), Some(TraceFormat::Systor));
}

fn record(version: u16, command: u16, len: u32, block: u64, at_us: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    let (command, version_field) = (command.to_le_bytes(), (version << 8).to_le_bytes());
    if version == 2 {
        bytes.extend(command);
        bytes.extend(version_field);
    }
    bytes.extend(7_u32.to_le_bytes());
    bytes.extend(len.to_le_bytes());
    bytes.extend(1_u32.to_le_bytes());
    if version == 1 {
        bytes.extend(command);
        bytes.extend(version_field);
    }
    bytes.extend(block.to_le_bytes());
    bytes.extend(at_us.to_le_bytes());
    if version == 2 {
        bytes.extend(9_u64.to_le_bytes());
    }
    bytes
}

#[test]
fn vscsi_of_both_versions() {
    for version in [1, 2] {
        let mut bytes = record(version, 0x2A, 4096, 8, 1000);
        bytes.extend(record(version, 0x00, 0, 0, 1001));
        bytes.extend(record(version, 0x88, 512, 1, 1010));
        let all = [wanted(0, TraceOp::Write, 4096, 4096), wanted(10, TraceOp::Read, 512, 512)];
        assert_eq!(read(&bytes), all, "version {version}");
        let len = bytes.len() / 3;
        fails(&bytes[..2 * len + 5], &format!("byte {}: expected a record of {len}", 2 * len));
        let other = record(3 - version, 0x2A, 4096, 8, 1000);
        let many: Vec<u8> =
            bytes.iter().copied().cycle().take(30 * len).chain(other.repeat(2)).collect();
        fails(&many, &format!("byte {}: expected version {version}", 30 * len));
        let far = record(version, 0x2A, 4096, u64::MAX / 512, 0);
        fails(&far, "below 2^63");
        fails(&record(version, 0x2A, 4096, u64::MAX, 0), "below 2^54");
    }
}

#[test]
fn bad_lines_are_named() {
    fails(
        b"1,W,0,512\n2,W,0\n",
        "line 2: expected time_us,op,offset_bytes,size_bytes, got \"2,W,0\"",
    );
    fails(b"1,W,0,512\n2,x,0,512\n", "line 2: expected the operation r or w, got \"x\"");
    fails(b"1,W,-1,512\n", "line 1: expected an offset in bytes, got \"-1\"");
    fails(b"1,W,0,5.2\n", "expected a size in bytes");
    fails(b"1,W,9223372036854775807,1\n", "below 2^63");
    fails(b"1,W,0,1073741825\n", "at most 2^30 bytes, got \"1073741825 bytes\"");
    fails(b"1.0000000001,0,R,0,0,512\n", "expected a time in seconds");
    fails(b"", "no known format");
    fails(b"hello\n", "begins with \"hello\\n\"");
    fails(&[0xFF; 80], "no known format");
    let error = read_as(CSV.as_bytes(), Some(TraceFormat::Msr)).unwrap_err().to_string();
    assert!(error.contains("Timestamp,Hostname"), "{error}");
    fails(&[b"1,W,0,512\n".as_slice(), &[b'1'; 9000]].concat(), "...\"");
}

#[test]
fn garbage_never_panics() {
    let mut prng = imbrex_clockwork::Prng::new(5);
    let valid = [CSV.as_bytes().to_vec(), record(2, 0x2A, 4096, 8, 1), record(1, 0x2A, 1, 8, 1)];
    for round in 0..3000 {
        let mut bytes = valid[round % 3].clone();
        let at = prng.below(bytes.len() as u64) as usize;
        bytes[at] ^= 1 << prng.below(8);
        let _ = read_as(&bytes, None);
        let _ = read_as(&bytes[..at], Some(TraceFormat::Vscsi1));
    }
}

#[test]
fn times_that_no_run_reaches_are_named() {
    let wanted = "a time below 2^62 ns";
    fails(b"0,W,0,512\n4611686018427388,W,0,512\n", wanted);
    fails(b"0,W,0,512\n18446744073709552,W,0,512\n", wanted);
    fails(b"0,hm,1,Read,0,512,1\n46116860184273880,hm,1,Read,0,512,1\n", wanted);
    fails(b"0,hm,1,Read,0,512,1\n184467440737095517,hm,1,Read,0,512,1\n", wanted);
    for (version, at_us) in [(1, 1 << 53), (2, u64::MAX)] {
        let bytes = [record(version, 0x2A, 512, 8, 0), record(version, 0x2A, 512, 8, at_us)];
        fails(&bytes.concat(), wanted);
    }
    let longest = read(b"0,W,0,512\n4611686018427387,W,0,512\n");
    assert_eq!(longest[1].at_ns, 4_611_686_018_427_387_000);
}
