//! Reads the checkpoint and the log of one region, with the help of the other region's copy.
//!
//! Invariants
//!   B1  Only damage is taken for a part that is not there. After any other error of a read, of either
//!       copy, the catalog does not open: what could not be read may be the newest of it.

use super::format::{Header, decode_edits};
use super::state::Edit;
use crate::error::FilesError;
use crate::region::Region;
use imbrex_disk::{BLOCK_LEN_BYTES, Blocks, Disk, DiskError};
use imbrex_record_log::{Decoder, End, LogBounds};
use std::cell::Cell;

/// The block of a region where its checkpoint's body begins.
const BODY_AT: Blocks = Blocks::new(1);

/// The content of a region.
#[derive(Debug)]
pub(super) struct Content {
    /// The edits of the checkpoint.
    pub(super) body: Vec<Edit>,
    /// The records of the log, each with its block in the region.
    pub(super) records: Vec<(Blocks, Vec<Edit>)>,
    /// How the log ended, in words.
    pub(super) end: String,
    /// How many parts came from the copy: the body, and each frame.
    pub(super) copied_count: u64,
    /// How many of them are damaged here. A power cut may also have kept the last frames out.
    pub(super) damaged_count: u64,
    /// The block where the log ended, or where its first frame from the copy begins.
    pub(super) own_end: Blocks,
}

/// Reads what follows `header` in `region`. If `copy` holds the same, damaged parts are taken from
/// there. The log must reach at least to block `least_end`; it may be zero.
///
/// # Errors
/// [`FilesError::Corrupt`], [`FilesError::Version`], [`FilesError::Disk`].
pub(super) fn read_content(
    disk: &dyn Disk,
    region: &Region,
    copy: Option<&Region>,
    header: &Header,
    least_end: Blocks,
) -> Result<Content, FilesError> {
    let (body, is_copied) = match (read_body(disk, region, header), copy) {
        (Err(error), Some(copy)) if error.is_damage() => {
            let copied = copied_body(disk, region, copy, header);
            (copied.map_err(|other| if other.is_damage() { error } else { other })?, true)
        }
        (body, _) => (body?, false),
    };
    let mut content = read_log(disk, region, copy, header, least_end)?;
    content.body = body;
    content.copied_count += u64::from(is_copied);
    content.damaged_count += u64::from(is_copied);
    Ok(content)
}

/// Reads the body of a checkpoint in one region.
///
/// # Errors
/// [`FilesError::Corrupt`], [`FilesError::Disk`].
pub(super) fn read_body(
    disk: &dyn Disk,
    region: &Region,
    header: &Header,
) -> Result<Vec<Edit>, FilesError> {
    let (len, room) = (header.body_len(), region.len() - BODY_AT);
    if room < len {
        let (got, room) = (header.body_len_bytes, room.bytes());
        let reason = format!("{got} bytes, but {room} fit");
        return Err(corrupt("catalog checkpoint", place(region, BODY_AT), reason));
    }
    let mut body = vec![0; len.bytes() as usize];
    if !body.is_empty() {
        region.read(disk, BODY_AT, &mut body).map_err(reading("the catalog's checkpoint"))?;
    }
    decode_body(region, header, body)
}

fn decode_body(
    region: &Region,
    header: &Header,
    mut body: Vec<u8>,
) -> Result<Vec<Edit>, FilesError> {
    let damaged = |reason: String| corrupt("catalog checkpoint", place(region, BODY_AT), reason);
    body.truncate(header.body_len_bytes as usize);
    let got = crc32c::crc32c(&body);
    if got != header.body_crc32c {
        return Err(damaged(format!(
            "its checksum is {got:#010x}, but the header has {:#010x}",
            header.body_crc32c
        )));
    }
    decode_edits(&body).map_err(damaged)
}

/// The body from the copy, or put together from the blocks that can be read in either region.
fn copied_body(
    disk: &dyn Disk,
    region: &Region,
    copy: &Region,
    header: &Header,
) -> Result<Vec<Edit>, FilesError> {
    let len = header.body_len();
    if len + BODY_AT <= copy.written(disk) {
        match read_body(disk, copy, header) {
            Err(error) if error.is_damage() => {}
            read => return read,
        }
    }
    let mut merged = Err(corrupt("catalog checkpoint", place(copy, BODY_AT), String::new()));
    for (first, second) in [(region, copy), (copy, region)] {
        let body = read_blocks(disk, first, second, len);
        merged = body.and_then(|body| decode_body(region, header, body));
        if !merged.as_ref().is_err_and(FilesError::is_damage) {
            break;
        }
    }
    merged
}

/// `len` blocks of a body, each from `first`, or from `second` if it cannot be read there.
fn read_blocks(
    disk: &dyn Disk,
    first: &Region,
    second: &Region,
    len: Blocks,
) -> Result<Vec<u8>, FilesError> {
    let mut body = vec![0; len.bytes() as usize];
    for (index, block) in (0..).zip(body.chunks_mut(BLOCK_LEN_BYTES)) {
        let at = BODY_AT + Blocks::new(index);
        let from = |region: &Region, block: &mut [u8]| match at < region.written(disk) {
            true => region.read(disk, at, block).map_err(reading("the catalog's checkpoint")),
            false => Err(corrupt("catalog checkpoint", place(region, at), "not written".into())),
        };
        match from(first, block) {
            Err(error) if error.is_damage() => from(second, block)?,
            read => read?,
        }
    }
    Ok(body)
}

/// Reads the log after a checkpoint, without the checkpoint's body.
fn read_log(
    disk: &dyn Disk,
    region: &Region,
    copy: Option<&Region>,
    header: &Header,
    least_end: Blocks,
) -> Result<Content, FilesError> {
    let start = BODY_AT + header.body_len();
    let written = region.written(disk);
    let copy_written = copy.map_or(Blocks::ZERO, |copy| copy.written(disk).min(region.len()));
    let len_blocks = written.max(copy_written).saturating_sub(start).get();
    let durable_blocks = least_end.saturating_sub(start).get();
    let bounds = LogBounds { log_id: header.log_id, len_blocks, durable_blocks };
    let read = |offset: u64, buf: &mut [u8]| -> Result<(), DiskError> {
        let at = start + Blocks::holding(offset);
        let here = written.saturating_sub(at).bytes().min(buf.len() as u64) as usize;
        let (here, beyond) = buf.split_at_mut(here);
        beyond.fill(0);
        if here.is_empty() { Ok(()) } else { region.read(disk, at, here) }
    };
    // A copy that could not be read may hold the frame, unless its blocks are bad.
    let unread = Cell::new(None);
    let read_copy = |offset: u64, buf: &mut [u8]| -> bool {
        let at = start + Blocks::holding(offset);
        let is_there = at + Blocks::holding(buf.len() as u64) <= copy_written;
        let Some(copy) = copy.filter(|_| is_there) else { return false };
        let read = copy.read(disk, at, buf);
        let is_read = read.is_ok();
        unread.set(read.err().filter(|error| !error.is_damage()).or(unread.take()));
        is_read
    };
    // A record that was being written when the power failed was not acknowledged, so nothing after
    // the end was lost.
    let mut decoder = Decoder::of_copies(bounds, read, read_copy, DiskError::is_unreadable);
    let mut records = Vec::new();
    let failed = reading("the catalog's log");
    while let Some(record) = decoder.next_record().map_err(&failed)? {
        let at = start + Blocks::new(record.position.frame_blocks);
        let edits = decode_edits(record.bytes)
            .map_err(|reason| corrupt("catalog record", place(region, at), reason))?;
        records.push((at, edits));
    }
    if let Some(error) = unread.take() {
        return Err(failed(error));
    }
    let ended = decoder.end().copied();
    let end = ended.map(|end| end.to_string()).unwrap_or_default();
    match ended {
        Some(End::Corrupt { at_blocks, .. }) => {
            let at = start + Blocks::new(at_blocks);
            Err(corrupt("catalog log", place(region, at), end))
        }
        Some(End::Version { got, .. }) => {
            Err(FilesError::Version { what: "catalog log", got: u32::from(got), known: 1 })
        }
        _ => {
            let (copied_count, damaged_count) = (decoder.copied_count(), decoder.damaged_count());
            let own_end = match (decoder.first_copied_blocks(), ended) {
                (Some(at_blocks), _) => at_blocks,
                (None, Some(End::Clean { at_blocks } | End::Torn { at_blocks, .. })) => at_blocks,
                (None, _) => 0,
            };
            let own_end = start + Blocks::new(own_end);
            Ok(Content { body: Vec::new(), records, end, copied_count, damaged_count, own_end })
        }
    }
}

pub(super) fn place(region: &Region, at: Blocks) -> String {
    let start = region.pieces()[0].start;
    format!("block {} of the region at {start}", at.get())
}

pub(super) fn corrupt(structure: &'static str, place: String, reason: String) -> FilesError {
    FilesError::Corrupt { structure, place, reason }
}

pub(super) fn reading(what: &'static str) -> impl Fn(DiskError) -> FilesError {
    move |source| FilesError::Disk { what: format!("reading {what}"), source }
}
