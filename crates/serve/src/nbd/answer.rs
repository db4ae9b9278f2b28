//! The answer to one request: from the bytes of the request to the bytes of the reply.
//!
//! Invariants
//!   A1  Every request except `DISC` gets exactly one complete reply.
//!   A2  A refused request has changed nothing.

use super::Export;
use super::REQUEST_LEN_BYTES_MAX;
use super::handshake::Agreed;
use super::protocol::{
    CONTEXT_ALLOCATION_ID, Errno, Put, Request, STATE_HOLE, STATE_ZERO, chunk, command,
    command_flag, put_chunk, put_error_chunk, put_simple_reply,
};
use crate::counts::{Tally, add, count};
use crate::{ByteRange, Content, DeviceError, Extent};
use imbrex_disk::{DiskError, Persist};
use std::io::ErrorKind;

/// Reads of at least this length omit known zeros. On shorter reads the lookup costs more than it saves.
const HOLES_FROM_LEN_BYTES: u32 = 64 << 10;

/// The most extents in the reply to one query.
const EXTENT_COUNT_MAX: usize = 4096;
/// The most device lookups for one query. Many runs of the device may be one extent for the client, and other
/// requests wait meanwhile.
const RUN_COUNT_MAX: usize = 65_536;

/// The state needed to answer requests.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Answerer<'a> {
    pub(crate) export: &'a Export,
    pub(crate) agreed: Agreed,
    pub(crate) tally: &'a Tally,
}

/// A refused request: the error number and the message.
struct Refusal {
    errno: Errno,
    message: String,
}

impl Refusal {
    fn new(errno: Errno, message: impl Into<String>) -> Refusal {
        Refusal { errno, message: message.into() }
    }
}

/// The flags that a command may have. FUA is allowed for all, because clients set it where it has no effect.
fn allowed_flags(kind: u16) -> u16 {
    let own = match kind {
        command::READ => command_flag::DF,
        command::WRITE_ZEROES => command_flag::NO_HOLE | command_flag::FAST_ZERO,
        command::BLOCK_STATUS => command_flag::REQ_ONE,
        _ => 0,
    };
    command_flag::FUA | own
}

impl Answerer<'_> {
    /// Executes `request` and appends the reply to `to` (A1). `payload` is the data after the request; empty if
    /// it was too long to be kept.
    pub(crate) fn answer(&self, request: &Request, payload: &[u8], to: &mut Vec<u8>) {
        let start = to.len();
        if let Err(refusal) = self.try_answer(request, payload, to) {
            to.truncate(start);
            self.refuse(request, &refusal, to);
        }
    }

    /// Refuses the request, because the server is stopping.
    pub(crate) fn refuse_at_end(&self, request: &Request, to: &mut Vec<u8>) {
        self.refuse(request, &Refusal::new(Errno::Shutdown, "the server is being stopped"), to);
    }

    fn refuse(&self, request: &Request, refusal: &Refusal, to: &mut Vec<u8>) {
        count(&self.tally.errors);
        if self.agreed.structured_replies {
            put_error_chunk(to, request.cookie, refusal.errno, &refusal.message);
        } else {
            put_simple_reply(to, request.cookie, Some(refusal.errno));
        }
    }

    fn try_answer(
        &self,
        request: &Request,
        payload: &[u8],
        to: &mut Vec<u8>,
    ) -> Result<(), Refusal> {
        self.check(request)?;
        let device = &self.export.device;
        let range = ByteRange::new(request.offset_bytes, u64::from(request.len_bytes));
        let persist =
            if request.has(command_flag::FUA) { Persist::Through } else { Persist::Cached };
        let refused = |error: DeviceError| refusal(&error, request.command);
        match request.command {
            command::READ => {
                self.read(request, to).map_err(refused)?;
                count(&self.tally.reads);
                add(&self.tally.read_bytes, range.len_bytes);
                return Ok(());
            }
            command::BLOCK_STATUS => {
                self.status(request, to).map_err(refused)?;
                count(&self.tally.statuses);
                return Ok(());
            }
            command::WRITE => {
                device.write(range.start_bytes, payload, persist).map_err(refused)?;
                count(&self.tally.writes);
                add(&self.tally.written_bytes, range.len_bytes);
            }
            command::FLUSH => {
                device.flush().map_err(refused)?;
                count(&self.tally.flushes);
            }
            command::TRIM => {
                device.trim(range, persist).map_err(refused)?;
                count(&self.tally.trims);
            }
            command::WRITE_ZEROES => {
                let may_trim = !request.has(command_flag::NO_HOLE);
                if request.has(command_flag::FAST_ZERO) && !device.zeroes_are_cheap(range, may_trim)
                {
                    let message = "zeros cost as much as any other data here";
                    return Err(Refusal::new(Errno::NotSup, message));
                }
                device.write_zeroes(range, may_trim, persist).map_err(refused)?;
                count(&self.tally.zeroes);
            }
            // Not offered, but some clients send it; it needs no work.
            command::CACHE => {}
            other => unreachable!("checked: command {other}"),
        }
        self.done(request, to);
        Ok(())
    }

    /// A reply of success without data.
    fn done(&self, request: &Request, to: &mut Vec<u8>) {
        if self.agreed.structured_replies {
            put_chunk(to, request.cookie, chunk::DONE, chunk::NONE, 0);
        } else {
            put_simple_reply(to, request.cookie, None);
        }
    }

    /// Checks that the request is valid; the device checks its range again.
    fn check(&self, request: &Request) -> Result<(), Refusal> {
        let Request { command: kind, len_bytes, .. } = *request;
        let invalid = |message: String| Err(Refusal::new(Errno::Inval, message));
        if !matches!(kind, command::READ..=command::BLOCK_STATUS) || kind == command::DISC {
            return invalid(format!("there is no command {kind}"));
        }
        let unknown = request.flags & !allowed_flags(kind);
        if unknown != 0 {
            return invalid(format!("command {kind} has no flags {unknown:#x}"));
        }
        let changes = matches!(kind, command::WRITE | command::TRIM | command::WRITE_ZEROES);
        if changes && self.export.is_read_only {
            return Err(Refusal::new(Errno::Perm, "the export is read-only"));
        }
        if kind == command::FLUSH {
            return match (request.offset_bytes, len_bytes) {
                (0, 0) => Ok(()),
                _ => invalid("a flush has no offset and no length".to_owned()),
            };
        }
        let is_carried = matches!(kind, command::READ | command::WRITE);
        if is_carried && len_bytes > REQUEST_LEN_BYTES_MAX {
            return invalid(format!("at most {REQUEST_LEN_BYTES_MAX} bytes go at a time"));
        }
        if kind == command::BLOCK_STATUS && !self.agreed.allocation {
            return invalid("no context was selected for this export".to_owned());
        }
        let is_df = request.has(command_flag::DF) && !self.agreed.structured_replies;
        if is_df {
            return invalid("only a structured reply can be fragmented".to_owned());
        }
        let range = ByteRange::new(request.offset_bytes, u64::from(len_bytes));
        self.export.device.check(range).map_err(|error| refusal(&error, kind))
    }

    fn read(&self, request: &Request, to: &mut Vec<u8>) -> Result<(), DeviceError> {
        let (cookie, len_bytes) = (request.cookie, request.len_bytes as usize);
        if !self.agreed.structured_replies {
            put_simple_reply(to, cookie, None);
            return self.read_data(request.offset_bytes, len_bytes, to);
        }
        let is_whole = request.has(command_flag::DF) || request.len_bytes < HOLES_FROM_LEN_BYTES;
        let mut at_bytes = request.offset_bytes;
        let end_bytes = at_bytes + u64::from(request.len_bytes);
        while at_bytes < end_bytes {
            let left = ByteRange::new(at_bytes, end_bytes - at_bytes);
            let extent = if is_whole {
                Extent { len_bytes: left.len_bytes, content: Content::Data }
            } else {
                self.readable_run(left)?
            };
            let is_last = extent.len_bytes == left.len_bytes;
            let flags = if is_last { chunk::DONE } else { 0 };
            let run_len_bytes = extent.len_bytes as usize;
            if extent.content == Content::Data {
                put_chunk(to, cookie, flags, chunk::OFFSET_DATA, 8 + run_len_bytes);
                to.put_u64(at_bytes);
                self.read_data(at_bytes, run_len_bytes, to)?;
            } else {
                put_chunk(to, cookie, flags, chunk::OFFSET_HOLE, 12);
                to.put_u64(at_bytes);
                to.put_u32(u32::try_from(run_len_bytes).expect("no longer than the request"));
            }
            at_bytes += extent.len_bytes;
        }
        Ok(())
    }

    fn read_data(
        &self,
        at_bytes: u64,
        len_bytes: usize,
        to: &mut Vec<u8>,
    ) -> Result<(), DeviceError> {
        let start = to.len();
        to.resize(start + len_bytes, 0);
        self.export.device.read(at_bytes, &mut to[start..])
    }

    /// The first part of `left` that is all data or all zeros; zeros shorter than a block count as data.
    fn readable_run(&self, left: ByteRange) -> Result<Extent, DeviceError> {
        let mut run: Option<Extent> = None;
        let mut at_bytes = left.start_bytes;
        while at_bytes < left.end_bytes() {
            let rest = ByteRange::new(at_bytes, left.end_bytes() - at_bytes);
            let next = self.export.device.status(rest)?;
            let content = match next.content {
                Content::Data => Content::Data,
                Content::Zero | Content::Hole if next.len_bytes < 4096 => Content::Data,
                Content::Zero | Content::Hole => Content::Zero,
            };
            match &mut run {
                Some(run) if run.content != content => return Ok(*run),
                Some(run) => run.len_bytes += next.len_bytes,
                None => run = Some(Extent { len_bytes: next.len_bytes, content }),
            }
            at_bytes += next.len_bytes;
        }
        Ok(run.expect("a checked request is not empty"))
    }

    fn status(&self, request: &Request, to: &mut Vec<u8>) -> Result<(), DeviceError> {
        let range = ByteRange::new(request.offset_bytes, u64::from(request.len_bytes));
        let count_max = if request.has(command_flag::REQ_ONE) { 1 } else { EXTENT_COUNT_MAX };
        let mut extents: Vec<(u32, u32)> = Vec::new();
        let mut at_bytes = range.start_bytes;
        for _ in 0..RUN_COUNT_MAX {
            if at_bytes == range.end_bytes() {
                break;
            }
            let rest = ByteRange::new(at_bytes, range.end_bytes() - at_bytes);
            let extent = self.export.device.status(rest)?;
            let len_bytes = u32::try_from(extent.len_bytes).expect("no longer than the request");
            let state = match extent.content {
                Content::Data => 0,
                Content::Zero => STATE_ZERO,
                Content::Hole => STATE_HOLE | STATE_ZERO,
            };
            let is_full = extents.len() == count_max;
            match extents.last_mut() {
                Some((last_len, last)) if *last == state => *last_len += len_bytes,
                _ if is_full => break,
                _ => extents.push((len_bytes, state)),
            }
            at_bytes += extent.len_bytes;
        }
        let kind = chunk::BLOCK_STATUS;
        put_chunk(to, request.cookie, chunk::DONE, kind, 4 + 8 * extents.len());
        to.put_u32(CONTEXT_ALLOCATION_ID);
        for (len_bytes, state) in extents {
            to.put_u32(len_bytes);
            to.put_u32(state);
        }
        Ok(())
    }
}

/// The refusal for a device's error, with the protocol's error number.
fn refusal(error: &DeviceError, kind: u16) -> Refusal {
    let grows = matches!(kind, command::WRITE | command::WRITE_ZEROES);
    let errno = match error {
        DeviceError::OutOfRange { .. } if grows => Errno::NoSpc,
        DeviceError::OutOfRange { .. } | DeviceError::Unaligned { .. } => Errno::Inval,
        DeviceError::Disk { source: DiskError::Host { source, .. }, .. }
            if matches!(source.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded) =>
        {
            Errno::NoSpc
        }
        DeviceError::Rule { .. } | DeviceError::Disk { .. } => Errno::Io,
    };
    Refusal::new(errno, error.story())
}
