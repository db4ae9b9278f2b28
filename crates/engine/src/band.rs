//! Logged bands: a full log becomes a table of level 0 where it is, without being written again.
//!
//! ```text
//!   000007.log   | batches, in the order of the writes |        the memtable has the same, sorted
//!   flush        | batches ........................... | 0 0 | keys and places, filter, footer |
//!   000012.tbl   the same file by another name               '---------- a table ------------'
//! ```
//!
//! Data goes to the drive once before the first compaction, not twice. Readers pay for it: the
//! values of a band are stored in the order in which they were written (`table::values`).
//!
//! Invariants
//!   B1  A band holds the writes of one memtable and no others. A log that several memtables wrote
//!       to is flushed like any other.
//!   B2  The whole file is durable before the commit that makes it a table.
//!   B3  A log that cannot become a band is flushed from memory, by the same flush. The reason is a
//!       log that was restarted, or missing room after the log or in the catalog. Nothing depends
//!       on a band, and a band that finds no room says nothing about room for other tables.
//!   B4  The table takes no room that was promised to another log
//!       ([`imbrex_files::LogWriter::reserve`]).
//!
//! Source: the first level in chapter 5 of the thesis (figure 5.4). Not here: which writes go to
//! which drive (`write`), reading (`table`).

use crate::EngineError;
use crate::key::Seq;
use crate::version::edit::LogId;
use crate::wal::Wal;
use imbrex_files::{FileBuffer, FilesError};
use imbrex_record_log::{BLOCK_LEN_BYTES, Position};
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// How many bytes one append writes.
const PIECE_LEN_BYTES: usize = 1 << 20;

/// The log of a memtable, and the positions of the values in it.
#[derive(Debug)]
pub(crate) struct Band {
    log: LogId,
    wal: Arc<Wal>,
    /// Position of each value, by sequence number, ascending.
    places: Mutex<Vec<(Seq, Position)>>,
    is_spoiled: AtomicBool,
}

impl Band {
    /// A band over `log`, without any value yet.
    pub(crate) fn new(log: LogId, wal: Arc<Wal>) -> Band {
        Band { log, wal, places: Mutex::default(), is_spoiled: AtomicBool::new(false) }
    }

    /// The log that becomes a table.
    pub(crate) fn log(&self) -> LogId {
        self.log
    }

    /// The length of a frame in its log.
    pub(crate) fn frame_len_bytes(&self) -> usize {
        self.wal.frame_len_bytes()
    }

    /// Records where in `log` the value of a write begins.
    pub(crate) fn note(&self, log: LogId, seq: Seq, place: Position) {
        if log == self.log {
            self.places.lock().push((seq, place));
        } else {
            self.spoil();
        }
    }

    /// Marks the band as unable to become a table (B3).
    pub(crate) fn spoil(&self) {
        self.is_spoiled.store(true, Ordering::Release);
    }

    /// Whether it can become a table, as far as is known yet.
    pub(crate) fn is_sound(&self) -> bool {
        !self.is_spoiled.load(Ordering::Acquire) && !self.wal.was_restarted()
    }

    /// Where the value of a write begins.
    pub(crate) fn place_of(&self, seq: Seq) -> Option<Position> {
        let places = self.places.lock();
        let index = places.binary_search_by_key(&seq, |&(seq, _)| seq).ok()?;
        Some(places[index].1)
    }

    /// Appends `table` to the log and ends the file; returns the file's length. The file is durable
    /// on return. Works only once: if this or the commit after it fails, the memtable is flushed
    /// like any other (B3).
    ///
    /// # Errors
    /// [`EngineError::Files`].
    pub(crate) fn complete(&self, table: &FileBuffer) -> Result<u64, EngineError> {
        self.spoil();
        let what = format!("make the log {} into {}", self.log.file_name(), table.name());
        self.append(table).map_err(EngineError::files(what))
    }

    fn append(&self, table: &FileBuffer) -> Result<u64, FilesError> {
        let log = self.wal.file();
        // Readers find the footer from the end of the file.
        let padded = (table.len_bytes() as usize).next_multiple_of(BLOCK_LEN_BYTES);
        if !log.reserve(log.len_bytes() + padded as u64) {
            return Err(FilesError::NoSpace { needed_bytes: padded as u64, free_bytes: 0 });
        }
        let mut bytes = vec![0; padded - table.len_bytes() as usize];
        for chunk in table.chunks() {
            bytes.extend_from_slice(chunk);
        }
        for piece in bytes.chunks(PIECE_LEN_BYTES) {
            log.append(piece)?;
        }
        log.sync()?;
        log.finish()?;
        Ok(log.len_bytes())
    }
}
