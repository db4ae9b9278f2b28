//! The write-ahead log: batches, in order, in one log file a memtable generation.
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
//!   W1  Batches of a log, and of one log after another, have contiguous sequence numbers: a write
//!       that failed gives its numbers back.
//!   W2  A log is synced before its successor is created ([`Wal::finish`]). So a log that has a
//!       successor is whole: a torn tail, an end before that of its file or a gap in numbers there is
//!       damage, not a crash's suffix, and replay stops with an error instead of bringing later writes
//!       back without earlier ones.
//!   W3  What `sync_to` acknowledged survives: frames written later say so, and a reader that finds
//!       less reports damage.
//!   W4  A log that was found torn is not continued: what it held is flushed, and the commit that
//!       adds the tables removes it before the next log is created, which would else break W2.
//!
//! The record format is `record-log`'s, a record's content `docs/formats/wal_batch.md`.
//! Not here: which logs are still needed (`recover`), what a batch does (`db`).

mod replay;

pub(crate) use replay::{Before, LogSource, Replayed, Tear, replay, salvage};

use crate::EngineError;
use crate::error::REOPEN_ADVICE;
use imbrex_files::{FilesError, LogWriter};
use imbrex_record_log::{BLOCK_LEN_BYTES, Encoder, Position, RecordTooLong, Resume};
use parking_lot::{Mutex, MutexGuard};
use std::sync::Arc;

/// Records longer than this go to the file in pieces, so that a log needs little memory whatever
/// the values.
const PIECEWISE_LEN_BYTES: usize = 1 << 20;

/// The name of log `number`.
pub(crate) fn log_name(number: u64) -> String {
    format!("{number:06}.log")
}

/// The number of the log called `name`; `None` if it names something else.
pub(crate) fn log_number(name: &str) -> Option<u64> {
    name.strip_suffix(".log")?.parse().ok().filter(|&number| log_name(number) == name)
}

/// How far a log reaches: the count of its records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct WalPosition(pub(crate) u64);

/// A log being written. Any number of threads may append and sync; records lie in the order of the
/// appends.
#[derive(Debug)]
pub(crate) struct Wal {
    name: String,
    log_id: u64,
    log: Arc<dyn LogWriter>,
    frame_len_bytes: usize,
    tail: Mutex<Tail>,
    /// Held while somebody syncs: those who wait for it find their records synced as well.
    durable: Mutex<WalPosition>,
}

/// The end of the log, as far as it is in memory.
#[derive(Debug)]
struct Tail {
    encoder: Encoder,
    position: WalPosition,
    /// How often the log was restarted behind half a record.
    incarnation: u32,
    /// Half a record lies at the end of the file, and nothing yet behind it says so.
    is_restart_due: bool,
    /// Ended, or what is in the file is unknown: nothing may follow.
    is_closed: bool,
}

impl Wal {
    /// Starts the log `name` in its empty file. `log_id` never named another log of the drive;
    /// a frame, up to which appended records are kept in memory, has `frame_len_bytes`.
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
            incarnation: 0,
            is_restart_due: false,
            is_closed: false,
        };
        let durable = Mutex::new(WalPosition::default());
        Wal { name, log_id, log, frame_len_bytes, tail: Mutex::new(tail), durable }
    }

    /// Appends one record made of `parts` and returns how far the log reaches with it, and where its
    /// content begins.
    ///
    /// It is in memory on return; durable after [`Wal::sync_to`]. Cost: one copy, and one write for
    /// every full frame.
    ///
    /// # Errors
    /// [`EngineError::Files`]: the record is not in the log; after a lack of space the log can go on,
    /// after anything else it takes no more writes and the store must be opened again.
    pub(crate) fn append(&self, parts: &[&[u8]]) -> Result<(WalPosition, Position), EngineError> {
        let mut tail = self.open_tail()?;
        // Before the record is pushed: once it is, it can no longer be refused.
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
            // What is in memory goes first, so that failing halfway costs this record alone.
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

    /// Whether it lies on a flash drive beside the drive.
    pub(crate) fn is_on_flash(&self) -> bool {
        self.log.is_on_flash()
    }

    /// Whether a record of `len_bytes` fits with all that is in memory, as far as the file layer promises room.
    pub(crate) fn reserve(&self, len_bytes: usize) -> bool {
        let len_bytes = self.tail.lock().encoder.len_bytes_with(len_bytes as u64);
        self.log.reserve(len_bytes)
    }

    /// Makes all records up to `position` durable; those that were appended meanwhile as well.
    ///
    /// Cost: one sync for all who ask at the same time.
    ///
    /// # Errors
    /// [`EngineError::Files`]: what is durable is unknown, except after a lack of space.
    pub(crate) fn sync_to(&self, position: WalPosition) -> Result<(), EngineError> {
        let mut durable = self.durable.lock();
        if *durable >= position {
            return Ok(());
        }
        let mut tail = self.open_tail()?;
        tail.encoder.seal();
        self.hand_on(&mut tail)?;
        let (reached, end_blocks) = (tail.position, tail.encoder.end_blocks());
        // Appending goes on beside the sync.
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
    /// As [`Wal::sync_to`].
    pub(crate) fn sync(&self) -> Result<(), EngineError> {
        self.sync_to(self.position())
    }

    /// Ends the log, durably, so that its successor may be created (W2). Nothing is appended after.
    ///
    /// # Errors
    /// As [`Wal::sync_to`]: the successor must not be created.
    pub(crate) fn finish(&self) -> Result<(), EngineError> {
        self.close()?;
        self.log.finish().map_err(|source| self.failed(source))
    }

    /// As [`Wal::finish`], but something else may be appended to the file.
    ///
    /// # Errors
    /// As [`Wal::finish`].
    pub(crate) fn close(&self) -> Result<(), EngineError> {
        let mut tail = self.open_tail()?;
        if tail.is_restart_due {
            // An empty record, which replay skips: its frame says that the half record is none.
            tail.encoder.push(&[]).expect("an empty record is not too long");
            tail.position.0 += 1;
            // Said once, however often the log finds no room to end.
            tail.is_restart_due = false;
        }
        drop(tail);
        self.sync()?;
        self.tail.lock().is_closed = true;
        Ok(())
    }

    /// Its file.
    pub(crate) fn file(&self) -> &dyn LogWriter {
        &*self.log
    }

    /// How long its frames are, but for the last one before a sync.
    pub(crate) fn frame_len_bytes(&self) -> usize {
        self.frame_len_bytes
    }

    /// Whether it went on behind half a record: then frames have other lengths from there on.
    pub(crate) fn was_restarted(&self) -> bool {
        self.tail.lock().incarnation > 0
    }

    /// How far the log reaches.
    pub(crate) fn position(&self) -> WalPosition {
        self.tail.lock().position
    }

    /// Whether nothing can be appended any more.
    #[cfg(test)]
    pub(crate) fn is_closed(&self) -> bool {
        self.tail.lock().is_closed
    }

    /// How long the log is, the part in memory not counted.
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

    /// Goes on behind half a record, whose rest found no space: the next frame disowns it.
    #[cold]
    fn restart(&self, tail: &mut Tail, cause: &FilesError) -> Result<(), EngineError> {
        // A restarting frame says that all before it is durable.
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
                // Without space nothing was written and the frames stay for the next try.
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
