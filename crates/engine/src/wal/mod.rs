//! The write-ahead log: batches in order, in one log file per memtable generation.
//!
//! ```text
//!   append      encoder's open frame   ->  log file   ->  platter
//!               up to 64 KiB in memory     appended       sync_to
//!               |<- what a crash may take, from the end ->|
//!
//!   000007.log | 000008.log | 000009.log        only the last one may be torn (W2)
//! ```
//!
//! Invariants
//!   W1  The batches of a log, and those of consecutive logs, have contiguous sequence numbers: a
//!       failed write gives its numbers back.
//!   W2  A log is synced before its successor is created ([`Wal::finish`]), so a log with a
//!       successor is whole. A torn tail there, an end before the end of its file or a gap in
//!       numbers is damage rather than a crash's suffix. Replay then stops with an error, because
//!       continuing would restore later writes without earlier ones.
//!   W3  A record acknowledged by `sync_to` survives. Later frames record how much is durable, and
//!       a reader that finds less reports damage. A closed store ends with such a frame.
//!   W4  A log that was found torn is not continued. Its content is flushed, and the commit that
//!       adds the tables removes it before the next log is created. Otherwise a torn log would have
//!       a successor (W2).
//!
//!   W5  A record is appended only after [`Wal::reserve`] has found room for it and for everything in
//!       memory. A sync or the end of a log never finds the drive full.
//!
//! The record format is `record-log`'s; the content of a record is in `docs/formats/wal_batch.md`.
//! Not here: which logs are still needed (`recover`), what a batch does (`db`).

mod replay;

pub(crate) use replay::{Before, LogSource, Replayed, Tear, replay, salvage};

use crate::EngineError;
use crate::error::REOPEN_ADVICE;
use imbrex_files::{FilesError, LogWriter};
use imbrex_record_log::{BLOCK_LEN_BYTES, Encoder, Position, RecordTooLong, Resume};
use parking_lot::{Mutex, MutexGuard};
use std::sync::Arc;

/// Longer records go to the file in pieces, so that a log needs little memory however long the
/// values are.
const PIECEWISE_LEN_BYTES: usize = 1 << 20;

/// The file name of log `number`.
pub(crate) fn log_name(number: u64) -> String {
    format!("{number:06}.log")
}

/// The number of the log called `name`; `None` if `name` is not a log's.
pub(crate) fn log_number(name: &str) -> Option<u64> {
    name.strip_suffix(".log")?.parse().ok().filter(|&number| log_name(number) == name)
}

/// A position in a log: the number of records before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct WalPosition(pub(crate) u64);

/// A log being written. Any number of threads may append and sync. Records are in the order of the
/// appends.
#[derive(Debug)]
pub(crate) struct Wal {
    name: String,
    log_id: u64,
    log: Arc<dyn LogWriter>,
    frame_len_bytes: usize,
    tail: Mutex<Tail>,
    /// The synced position. The lock is held during a sync: a caller that waits for it usually
    /// finds its records already synced.
    durable: Mutex<WalPosition>,
}

/// The end of the log that is still in memory.
#[derive(Debug)]
struct Tail {
    encoder: Encoder,
    position: WalPosition,
    /// The position of the last frame that records only what is durable; the start without one.
    marked: WalPosition,
    /// How often the log was restarted after an incomplete record.
    incarnation: u32,
    /// The file ends in an incomplete record, and no later frame marks it as such yet.
    is_restart_due: bool,
    /// The log takes no more records: it has ended, or the content of its file is unknown.
    is_closed: bool,
}

impl Wal {
    /// Starts the log `name` in an empty file. `log_id` must never have been used for another log
    /// of the drive. Appended records are buffered in a frame of `frame_len_bytes`.
    pub(crate) fn new(
        name: String,
        log: Arc<dyn LogWriter>,
        log_id: u64,
        frame_len_bytes: usize,
    ) -> Wal {
        let encoder = Encoder::with_frame_len(log_id, frame_len_bytes);
        let tail = Tail {
            encoder,
            position: WalPosition::default(),
            marked: WalPosition::default(),
            incarnation: 0,
            is_restart_due: false,
            is_closed: false,
        };
        let durable = Mutex::new(WalPosition::default());
        Wal { name, log_id, log, frame_len_bytes, tail: Mutex::new(tail), durable }
    }

    /// Appends one record made of `parts`. Returns the log's position after it, and the place where
    /// its content begins.
    ///
    /// On return the record is in memory; it is durable after [`Wal::sync_to`].
    ///
    /// Cost: one copy, and one write for every full frame.
    ///
    /// # Errors
    /// [`EngineError::Files`]: the record is not in the log. After a lack of space the log can
    /// continue. After any other error it takes no more writes, and the store must be reopened.
    pub(crate) fn append(&self, parts: &[&[u8]]) -> Result<(WalPosition, Position), EngineError> {
        let mut tail = self.open_tail()?;
        // Written before the record is pushed, because a pushed record can no longer be refused.
        self.hand_on(&mut tail)?;
        let len_bytes: usize = parts.iter().map(|part| part.len()).sum();
        let too_long = |RecordTooLong { .. }| EngineError::BatchLen {
            max_bytes: crate::batch::BATCH_LEN_BYTES_MAX,
        };
        let place;
        if len_bytes <= PIECEWISE_LEN_BYTES {
            place = tail.encoder.place_of_next(len_bytes as u64);
            tail.encoder.push(parts).map_err(too_long)?;
        } else {
            // Earlier records are written first, so that a failure half-way loses only this one.
            tail.encoder.seal();
            self.hand_on(&mut tail)?;
            place = tail.encoder.place_of_next(len_bytes as u64);
            let mut append = |bytes: &[u8]| self.log.append(bytes).map(|_| ());
            let pushed = tail.encoder.push_to(parts, &mut append).map_err(too_long)?;
            if let Err(source) = pushed {
                self.restart(&mut tail, &source)?;
                return Err(self.failed(source));
            }
        }
        tail.position.0 += 1;
        tail.is_restart_due = false;
        Ok((tail.position, place))
    }

    /// Whether the log is on the flash drive of a pair.
    pub(crate) fn is_on_flash(&self) -> bool {
        self.log.is_on_flash()
    }

    /// The length of the log's file after a record of `len_bytes`, at most; `None` for the first
    /// record.
    pub(crate) fn len_bytes_with(&self, len_bytes: usize) -> Option<u64> {
        let tail = self.tail.lock();
        let is_first = tail.position == WalPosition::default();
        (!is_first).then(|| tail.encoder.len_bytes_with(len_bytes as u64))
    }

    /// Whether the file layer promises room for a record of `len_bytes` together with everything
    /// still in memory.
    pub(crate) fn reserve(&self, len_bytes: usize) -> bool {
        let len_bytes = self.tail.lock().encoder.len_bytes_with(len_bytes as u64);
        self.log.reserve(len_bytes)
    }

    /// Makes all records up to `position` durable, together with any that were appended meanwhile.
    ///
    /// Cost: one sync for all concurrent callers.
    ///
    /// # Errors
    /// [`EngineError::Files`]: it is unknown which records are durable, except after a lack of
    /// space.
    pub(crate) fn sync_to(&self, position: WalPosition) -> Result<(), EngineError> {
        let mut durable = self.durable.lock();
        if *durable >= position {
            return Ok(());
        }
        let mut tail = self.open_tail()?;
        tail.encoder.seal();
        self.hand_on(&mut tail)?;
        let (reached, end_blocks) = (tail.position, tail.encoder.end_blocks());
        // Appends continue during the sync.
        drop(tail);
        let synced = self.log.sync();
        let mut tail = self.tail.lock();
        if let Err(source) = synced {
            tail.is_closed = true;
            return Err(self.failed(source));
        }
        tail.encoder.mark_durable(end_blocks);
        *durable = reached;
        Ok(())
    }

    /// Makes all records durable.
    ///
    /// # Errors
    /// Like [`Wal::sync_to`].
    pub(crate) fn sync(&self) -> Result<(), EngineError> {
        self.sync_to(self.position())
    }

    /// Ends the log durably, so that its successor may be created (W2). No appends may follow.
    ///
    /// # Errors
    /// Like [`Wal::sync_to`]. After an error, the successor must not be created.
    pub(crate) fn finish(&self) -> Result<(), EngineError> {
        self.close()?;
        self.log.finish().map_err(|source| self.failed(source))
    }

    /// Like [`Wal::finish`], but the caller may append other data to the file.
    ///
    /// # Errors
    /// Like [`Wal::finish`].
    pub(crate) fn close(&self) -> Result<(), EngineError> {
        let mut tail = self.open_tail()?;
        if tail.is_restart_due {
            // The frame of this empty record, which replay skips, marks the incomplete record.
            tail.encoder.push(&[]).expect("an empty record is not too long");
            tail.position.0 += 1;
            // One such record is enough, however often the log then fails to end for lack of space.
            tail.is_restart_due = false;
        }
        drop(tail);
        self.sync()?;
        self.tail.lock().is_closed = true;
        Ok(())
    }

    /// The log's file.
    pub(crate) fn file(&self) -> &dyn LogWriter {
        &*self.log
    }

    /// The length of the log's frames. The last one before a sync may be shorter.
    pub(crate) fn frame_len_bytes(&self) -> usize {
        self.frame_len_bytes
    }

    /// Whether the log continued after an incomplete record. Frames have other lengths from there
    /// on.
    pub(crate) fn was_restarted(&self) -> bool {
        self.tail.lock().incarnation > 0
    }

    /// The position after the last record.
    pub(crate) fn position(&self) -> WalPosition {
        self.tail.lock().position
    }

    /// Records, in a frame of its own, that all records are durable. After that, damage to the last
    /// of them is no torn write (W3).
    ///
    /// Cost: one write and one sync, besides those of [`Wal::sync`].
    ///
    /// # Errors
    /// Like [`Wal::sync_to`]. The records themselves are durable, if they were synced before.
    pub(crate) fn mark_end(&self) -> Result<(), EngineError> {
        self.sync()?;
        let mut tail = self.open_tail()?;
        if tail.position == tail.marked {
            return Ok(());
        }
        // Replay skips this empty record.
        tail.encoder.push(&[]).expect("an empty record is not too long");
        tail.position.0 += 1;
        tail.marked = tail.position;
        drop(tail);
        self.sync()
    }

    /// Whether the log takes no more records.
    #[cfg(test)]
    pub(crate) fn is_closed(&self) -> bool {
        self.tail.lock().is_closed
    }

    /// The length of the log's file. Records in memory do not count.
    pub(crate) fn len_bytes(&self) -> u64 {
        self.log.len_bytes()
    }

    fn open_tail(&self) -> Result<MutexGuard<'_, Tail>, EngineError> {
        let tail = self.tail.lock();
        if tail.is_closed {
            let reason = format!("the log {} takes no more writes; {REOPEN_ADVICE}", self.name);
            return Err(EngineError::Poisoned { reason });
        }
        Ok(tail)
    }

    /// Continues after a record whose rest found no space. The next frame marks that record as
    /// incomplete.
    #[cold]
    fn restart(&self, tail: &mut Tail, cause: &FilesError) -> Result<(), EngineError> {
        // The restarting frame claims that everything before it is durable, hence the sync below.
        tail.is_closed = !matches!(cause, FilesError::NoSpace { .. });
        if tail.is_closed {
            return Ok(());
        }
        if let Err(source) = self.log.sync() {
            tail.is_closed = true;
            return Err(self.failed(source));
        }
        let at_blocks = self.log.len_bytes() / BLOCK_LEN_BYTES as u64;
        tail.incarnation += 1;
        let resume = Resume { cut_blocks: at_blocks, incarnation: tail.incarnation };
        tail.encoder = Encoder::resume(self.log_id, resume, at_blocks);
        tail.is_restart_due = true;
        Ok(())
    }

    /// Appends the full frames to the file.
    #[inline]
    fn hand_on(&self, tail: &mut Tail) -> Result<(), EngineError> {
        if tail.encoder.ready_len_bytes() == 0 {
            return Ok(());
        }
        match self.log.append(tail.encoder.ready()) {
            Ok(_) => tail.encoder.clear_ready(),
            Err(source) => {
                // A lack of space means that nothing was written. The frames stay for the next
                // attempt.
                tail.is_closed = !matches!(source, FilesError::NoSpace { .. });
                return Err(self.failed(source));
            }
        }
        Ok(())
    }

    fn failed(&self, source: FilesError) -> EngineError {
        EngineError::Files { what: format!("writing the log {}", self.name), source }
    }
}

#[cfg(test)]
mod tests;
