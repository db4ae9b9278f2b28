//! Replay: the batches of the logs that a store left behind, oldest first.
//!
//! ```text
//!   000007.log   #10 #11 #14 |             whole: it has a successor, and ends where its file does
//!   000008.log   #15 #16 ??                torn: the newest, so #16 is where the store ends
//! ```
//!
//! [`salvage`] reads as much as possible of damaged logs. It knows each refusal of a replay as a loss:
//! a store that does not open for damage to its logs never looks whole in a salvage.

use crate::EngineError;
use crate::batch::BatchView;
use crate::key::Seq;
use crate::losses::{Losses, LostKeys};
use imbrex_files::{FileReader, FilesError};
use imbrex_record_log::{BLOCK_LEN_BYTES, Decoder, End, Flaw, LogBounds, Position};
use std::cell::Cell;
use std::sync::Arc;

/// A log to replay.
#[derive(Clone, Debug)]
pub(crate) struct LogSource {
    pub(crate) file: Arc<dyn FileReader>,
    pub(crate) log_id: u64,
    /// The file is as long as the log, and all of it was durable before its successor was created.
    pub(crate) is_finished: bool,
}

impl LogSource {
    fn extent(&self) -> LogBounds {
        let len_blocks = self.file.len_bytes() / BLOCK_LEN_BYTES as u64;
        let durable_blocks = if self.is_finished { len_blocks } else { 0 };
        LogBounds { log_id: self.log_id, len_blocks, durable_blocks }
    }
}

/// The state of the writes before the first log.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Before {
    /// Writes up to this one are in tables. The logs may begin before it, but must not leave a gap
    /// after it.
    Flushed(Seq),
    /// Writes may be missing. The logs begin after this one.
    After(Seq),
}

/// The result of a replay.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Replayed {
    /// The newest write found; `None` if the logs are empty.
    pub(crate) last_seq: Option<Seq>,
    pub(crate) batch_count: u64,
    /// Where the newest log was torn, if it was.
    pub(crate) cut: Option<Tear>,
}

/// A torn tail: never durable, never acknowledged with `sync`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Tear {
    pub(crate) file: String,
    pub(crate) offset: u64,
    pub(crate) reason: String,
}

/// Passes every batch of `logs` to `apply`, together with the index of its log. `logs` must be all
/// logs that are needed, oldest first.
///
/// # Errors
/// - [`EngineError::Corrupt`]: a log is damaged in a part that was durable, a log before the last
///   is not whole (W2), or numbers are not contiguous (W1). The batches before the damage have been
///   applied, and the caller must discard them.
/// - [`EngineError::Version`], [`EngineError::Files`].
pub(crate) fn replay(
    logs: &[LogSource],
    before: Before,
    apply: &mut dyn FnMut(usize, BatchView<'_>) -> Result<(), EngineError>,
) -> Result<Replayed, EngineError> {
    let mut replayed = Replayed::default();
    for (index, log) in logs.iter().enumerate() {
        let name = log.file.name();
        let mut scratch = Vec::new();
        let read = |offset: u64, buf: &mut [u8]| -> Result<(), FilesError> {
            buf.copy_from_slice(log.file.read_at(offset, buf.len(), &mut scratch)?);
            Ok(())
        };
        let failed =
            |source| EngineError::Files { what: format!("reading the log {name}"), source };
        let mut decoder =
            Decoder::passing(log.extent(), read, FilesError::is_unreadable).looking_far();
        while let Some(record) = decoder.next_record().map_err(failed)? {
            if record.bytes.is_empty() {
                continue;
            }
            let offset = offset_of(record.position);
            let batch = BatchView::decode(record.bytes).map_err(|damage| {
                damaged(name, offset, format!("{} at byte {}", damage.reason, damage.offset))
            })?;
            check_order(&replayed, before, &batch)
                .map_err(|reason| damaged(name, offset, reason))?;
            apply(index, batch)?;
            let last = batch.first_seq().0 + u64::from(batch.op_count()) - 1;
            replayed.last_seq = Some(Seq(last));
            replayed.batch_count += 1;
        }
        let end = decoder.end().expect("a decoder that has no more records knows its end");
        let is_newest = index + 1 == logs.len();
        // Data appended to the file of a closed log, such as a table, cannot break off a write of
        // this log: the next log continues with the number after the last one here (W1).
        let is_behind = !log.is_finished && !decoder.ended_in_record() && is_unreadable(end);
        replayed.cut = classify(name, end, is_newest || is_behind)?;
    }
    Ok(replayed)
}

/// Passes the readable batches of possibly damaged `logs`, oldest first, to `apply`, together with
/// the index of their log. Records the rest in `losses`: whatever [`replay`] refuses is a loss.
/// Returns the result of each log.
///
/// # Errors
/// [`EngineError::Version`], and any [`EngineError::Files`] that is not damage.
pub(crate) fn salvage(
    logs: &[LogSource],
    before: Before,
    losses: &Losses,
    apply: &mut dyn FnMut(usize, BatchView<'_>) -> Result<(), EngineError>,
) -> Result<Vec<Replayed>, EngineError> {
    let mut salvaged = Vec::new();
    let mut last_seq = None;
    for (index, log) in logs.iter().enumerate() {
        let is_newest = index + 1 == logs.len();
        let salvage = Salvage { log, is_newest, before, last_seq, losses };
        let one = salvage.run(&mut |batch| apply(index, batch))?;
        last_seq = one.last_seq.or(last_seq);
        salvaged.push(one);
    }
    Ok(salvaged)
}

/// The salvage of one log.
struct Salvage<'a> {
    log: &'a LogSource,
    is_newest: bool,
    /// The writes before the first log.
    before: Before,
    /// The newest write of the logs before this one.
    last_seq: Option<Seq>,
    losses: &'a Losses,
}

impl Salvage<'_> {
    fn run(
        &self,
        apply: &mut dyn FnMut(BatchView<'_>) -> Result<(), EngineError>,
    ) -> Result<Replayed, EngineError> {
        let file = &self.log.file;
        let name = file.name();
        let failed =
            |source| EngineError::Files { what: format!("reading the log {name}"), source };
        // A replay takes a block that cannot be read for a torn write, but no other failed read.
        let is_refused = Cell::new(false);
        let mut scratch = Vec::new();
        let read = |offset: u64, buf: &mut [u8]| -> Result<(), FilesError> {
            let bytes = file.read_at(offset, buf.len(), &mut scratch).inspect_err(|error| {
                is_refused.set(is_refused.get() || !error.is_unreadable());
            })?;
            buf.copy_from_slice(bytes);
            Ok(())
        };
        let mut replayed = Replayed { last_seq: self.last_seq, ..Replayed::default() };
        let mut decoder =
            Decoder::passing(self.log.extent(), read, FilesError::is_damage).looking_far();
        loop {
            while let Some(record) = decoder.next_record().map_err(failed)? {
                if record.bytes.is_empty() {
                    continue;
                }
                let offset = offset_of(record.position);
                let batch = match BatchView::decode(record.bytes) {
                    Ok(batch) => batch,
                    Err(damage) => {
                        let reason = format!("{} at byte {}", damage.reason, damage.offset);
                        self.pass(damaged(name, offset, reason), "one batch")?;
                        continue;
                    }
                };
                let last_seq = replayed.last_seq.unwrap_or(Seq(0));
                let got = batch.first_seq();
                if got <= last_seq {
                    let reason = format!("batch begins with write {}, after {}", got.0, last_seq.0);
                    self.pass(damaged(name, offset, reason), "one batch")?;
                    continue;
                }
                self.note_gap(replayed.last_seq, got, offset);
                let last_seq = Seq(got.0 + u64::from(batch.op_count()) - 1);
                apply(batch)?;
                replayed.last_seq = Some(last_seq);
                replayed.batch_count += 1;
            }
            let end = decoder.end().expect("a decoder that has no more records knows its end");
            let ended = match *end {
                End::Torn { at_blocks, flaw } if is_refused.take() => {
                    Err(damaged(name, at_blocks * BLOCK_LEN_BYTES as u64, flaw.to_string()))
                }
                _ => classify(name, end, self.is_newest),
            };
            match ended {
                Ok(cut) => {
                    replayed.cut = cut;
                    break;
                }
                Err(error) => self.pass(error, "writes, up to the next frame that is whole")?,
            }
            if !decoder.pass_damage().map_err(failed)? {
                break;
            }
        }
        if replayed.batch_count == 0 {
            replayed.last_seq = None;
        }
        Ok(replayed)
    }

    /// Records the writes between `last_seq` and `got`, which are in no log. A log that lost its
    /// last frames may look whole, so the gap may be all that shows the damage.
    fn note_gap(&self, last_seq: Option<Seq>, got: Seq, offset: u64) {
        let next = match (last_seq, self.before) {
            (Some(last), Before::Flushed(_)) | (None, Before::Flushed(last)) => last.0 + 1,
            (_, Before::After(_)) => return,
        };
        if next < got.0 {
            let name = self.log.file.name();
            let what = format!("writes {next} to {}, before {name} at offset {offset}", got.0 - 1);
            self.losses.note(format!("a gap in the logs; lost: {what}"));
            self.note_keys();
        }
    }

    fn pass(&self, error: EngineError, what: &str) -> Result<(), EngineError> {
        self.losses.pass(error, what)?;
        self.note_keys();
        Ok(())
    }

    /// Lost writes may be of any key.
    fn note_keys(&self) {
        let file = Some(self.log.file.name().to_owned());
        self.losses.note_keys(LostKeys { file, ..LostKeys::default() });
    }
}

/// Checks that `batch` continues the replay without a gap (W1).
fn check_order(replayed: &Replayed, before: Before, batch: &BatchView<'_>) -> Result<(), String> {
    let got = batch.first_seq().0;
    match (replayed.last_seq, before) {
        (Some(last), _) if got != last.0 + 1 => {
            Err(format!("batch begins with write {got}, expected {}", last.0 + 1))
        }
        (None, Before::Flushed(flushed)) if got > flushed.0 + 1 => {
            Err(format!("the logs begin with write {got}, but tables end with {}", flushed.0))
        }
        (None, Before::After(last)) if got <= last.0 => {
            Err(format!("batch begins with write {got}, but an older log ends with {}", last.0))
        }
        _ => Ok(()),
    }
}

/// Whether a log ended at a block that cannot be read.
fn is_unreadable(end: &End) -> bool {
    matches!(end, End::Torn { flaw: Flaw::Unreadable, .. })
}

fn classify(name: &str, end: &End, is_newest: bool) -> Result<Option<Tear>, EngineError> {
    let offset = |at_blocks: u64| at_blocks * BLOCK_LEN_BYTES as u64;
    match *end {
        End::Clean { .. } => Ok(None),
        End::Torn { at_blocks, flaw } if is_newest => Ok(Some(Tear {
            file: name.to_string(),
            offset: offset(at_blocks),
            reason: flaw.to_string(),
        })),
        End::Torn { at_blocks, flaw } => {
            let reason = format!("torn, {flaw}, although a later log was begun after its sync");
            Err(damaged(name, offset(at_blocks), reason))
        }
        End::Corrupt { at_blocks, .. } => Err(damaged(name, offset(at_blocks), end.to_string())),
        End::Version { got, .. } => {
            Err(EngineError::Version { what: "a log", got: u32::from(got), known: 1 })
        }
    }
}

fn damaged(name: &str, offset: u64, reason: String) -> EngineError {
    EngineError::Corrupt { structure: "log", file: name.to_string(), offset, reason }
}

fn offset_of(position: Position) -> u64 {
    position.frame_blocks * BLOCK_LEN_BYTES as u64 + u64::from(position.offset_bytes)
}
