//! Reads a log segment: its bytes are the payloads of consecutive `record-log` records.
//!
//! A cursor only moves forward, like most readers of a log; going back starts again at the
//! beginning. Therefore no index from offsets to records has to be kept in memory.

use crate::error::FsError;
use crate::tree::StoreId;
use imbrex_files::{FileReader, FilesError};
use imbrex_record_log::{BLOCK_LEN_BYTES, Decoder, End, Flaw, LogBounds};
use std::fmt;
use std::sync::{Arc, OnceLock};

type Fetch = Box<dyn FnMut(u64, &mut [u8]) -> Result<(), FilesError> + Send>;

/// A position in a log.
pub(crate) struct LogCursor {
    store: StoreId,
    log_id: u64,
    reader: Arc<dyn FileReader>,
    decoder: Decoder<Fetch, FilesError>,
    unreadable: Unreadable,
    /// The current record, and the offset in the log's bytes at which it begins.
    record: Vec<u8>,
    record_start: u64,
}

impl fmt::Debug for LogCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LogCursor({}, record at {})", self.store.name(), self.record_start)
    }
}

/// Why a block of a log could not be read. That its zone or file is gone takes precedence.
#[derive(Debug, Default)]
struct Lost {
    gone: OnceLock<String>,
    unreadable: OnceLock<String>,
}

type Unreadable = Arc<Lost>;

impl Lost {
    fn note(&self, error: &FilesError) {
        let reason = if error.is_unreadable() { &self.unreadable } else { &self.gone };
        reason.get_or_init(|| error.to_string());
    }

    fn reason(&self) -> Option<&String> {
        self.gone.get().or(self.unreadable.get())
    }
}

/// Skips blocks that are lost, alone or with their zone, and records why. The data before them can
/// still be read.
fn decoder(log_id: u64, reader: &Arc<dyn FileReader>) -> (Decoder<Fetch, FilesError>, Unreadable) {
    let len_blocks = reader.len_bytes() / BLOCK_LEN_BYTES as u64;
    let extent = LogBounds { log_id, len_blocks, durable_blocks: 0 };
    let reader = Arc::clone(reader);
    let unreadable = Unreadable::default();
    let noted = Arc::clone(&unreadable);
    let mut scratch = Vec::new();
    let fetch = move |offset, buf: &mut [u8]| {
        let read = reader.read_at(offset, buf.len(), &mut scratch);
        let bytes = read.inspect_err(|error| noted.note(error))?;
        buf.copy_from_slice(bytes);
        Ok::<(), FilesError>(())
    };
    let decoder: Decoder<Fetch, FilesError> =
        Decoder::passing(extent, Box::new(fetch), FilesError::is_damage);
    (decoder.looking_far(), unreadable)
}

impl LogCursor {
    pub(crate) fn new(store: StoreId, log_id: u64, reader: &Arc<dyn FileReader>) -> LogCursor {
        let (decoder, unreadable) = decoder(log_id, reader);
        LogCursor {
            store,
            log_id,
            reader: Arc::clone(reader),
            decoder,
            unreadable,
            record: Vec::new(),
            record_start: 0,
        }
    }

    /// Whether this is a cursor of that log, positioned at or before `offset`.
    pub(crate) fn can_read(&self, store: StoreId, offset: u64) -> bool {
        self.store == store && self.record_start <= offset
    }

    /// Fills `out` from `offset`, which lies in or after the current record. `base` is the offset
    /// in the file at which the log begins, for messages.
    pub(crate) fn read(
        &mut self,
        path: &str,
        base: u64,
        mut offset: u64,
        mut out: &mut [u8],
    ) -> Result<(), FsError> {
        let mut is_fresh = false;
        while !out.is_empty() {
            let inside = (offset - self.record_start) as usize;
            if let Some(rest) = self.record.get(inside..).filter(|rest| !rest.is_empty()) {
                let now = rest.len().min(out.len());
                out[..now].copy_from_slice(&rest[..now]);
                out = &mut out[now..];
                offset += now as u64;
                continue;
            }
            let failed = |source| FsError::Files { what: format!("reading {path}"), source };
            let end = self.record_start + self.record.len() as u64;
            if let Some(record) = self.decoder.next_record().map_err(failed)? {
                self.record.clear();
                self.record.extend_from_slice(record.bytes);
                self.record_start = end;
            } else if self.decoder.grow(self.reader.len_bytes() / BLOCK_LEN_BYTES as u64) {
                // The log has grown since it was last read.
            } else if is_fresh {
                let reason = match self.unreadable.reason() {
                    Some(reason) => reason.clone(),
                    None => self.decoder.end().map_or_else(String::new, End::to_string),
                };
                return Err(FsError::Damaged { path: path.into(), offset: base + end, reason });
            } else {
                // The log may have ended in a record that was being written then.
                is_fresh = true;
                *self = LogCursor::new(self.store, self.log_id, &self.reader);
            }
        }
        Ok(())
    }
}

/// Measures how many bytes a log holds. Also returns what is wrong with it if it holds, or may
/// hold, less than it should.
pub(crate) fn measure(
    log_id: u64,
    reader: &Arc<dyn FileReader>,
) -> Result<(u64, Option<String>), FilesError> {
    let (mut decoder, unreadable) = decoder(log_id, reader);
    let mut len_bytes = 0;
    while let Some(record) = decoder.next_record()? {
        len_bytes += record.bytes.len() as u64;
    }
    let end = decoder.end().expect("a decoder that has no more records knows its end");
    // A log owns blocks that it has not written yet, and the power may have failed during such a
    // write.
    let is_unreadable = |flaw| matches!(flaw, Flaw::Unreadable | Flaw::UnreadableFrame);
    let damage = match *end {
        End::Torn { flaw, .. } if is_unreadable(flaw) => unreadable.gone.get().cloned(),
        End::Clean { .. } | End::Torn { .. } => None,
        End::Corrupt { .. } | End::Version { .. } => {
            Some(unreadable.reason().cloned().unwrap_or_else(|| end.to_string()))
        }
    };
    Ok((len_bytes, damage))
}
