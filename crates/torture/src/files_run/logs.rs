//! One log: the records pushed, the records synced, and the records read back.

use super::trouble::Trouble;
use crate::rig::draw_len;
use imbrex_clockwork::Prng;
use imbrex_files::{FileReader, FilesError, LogWriter};
use imbrex_record_log::{BLOCK_LEN_BYTES, Decoder, Encoder, End, LogBounds};
use std::sync::Arc;

/// A log and its records.
#[derive(Debug)]
pub(crate) struct LogModel {
    id: u64,
    records: Vec<Vec<u8>>,
    /// How many of them are in frames that were appended.
    appended: usize,
    /// How many of them are known to be durable.
    synced: usize,
    writer: Option<(Arc<dyn LogWriter>, Encoder)>,
    is_finished: bool,
    was_power_cut: bool,
}

impl LogModel {
    pub(crate) fn new(id: u64, writer: Option<Arc<dyn LogWriter>>) -> LogModel {
        LogModel {
            id,
            records: Vec::new(),
            appended: 0,
            synced: 0,
            writer: writer.map(|writer| (writer, Encoder::new(id))),
            is_finished: false,
            was_power_cut: false,
        }
    }

    /// Whether it can be appended to.
    pub(crate) fn is_open(&self) -> bool {
        self.writer.is_some() && !self.is_finished
    }

    /// Pushes some records and appends what is ready. Also seals and syncs if `sync`.
    pub(crate) fn append(&mut self, prng: &mut Prng, sync: bool) -> Result<(), FilesError> {
        let Some((writer, encoder)) = &mut self.writer else { return Ok(()) };
        for _ in 0..=prng.below(6) {
            let len = draw_len(prng, 0, 16);
            let mut record = vec![0; len as usize];
            prng.fill(&mut record);
            encoder.push(&[&record]).expect("shorter than 4 GiB");
            self.records.push(record);
        }
        if sync || prng.chance(1, 3) {
            encoder.seal();
        }
        if encoder.ready_len_bytes() > 0 {
            match writer.append(encoder.ready()) {
                Ok(_) => encoder.clear_ready(),
                // Nothing was appended. The ready frames stay ready until there is room.
                Err(error) => return Err(error),
            }
        }
        if encoder.is_sealed() {
            self.appended = self.records.len();
        }
        if sync {
            writer.sync()?;
            encoder.mark_durable(encoder.end_blocks());
            self.synced = self.records.len();
        }
        Ok(())
    }

    /// Ends the log.
    pub(crate) fn finish(&mut self) -> Result<(), FilesError> {
        self.is_finished = true;
        self.writer.as_ref().map_or(Ok(()), |(writer, _)| writer.finish())
    }

    pub(crate) fn end_life(&mut self, is_power_cut: bool) {
        self.writer = None;
        self.was_power_cut = is_power_cut;
    }

    /// Compares what `reader` returns with the pushed records: a prefix that includes all synced
    /// ones. Returns how many records are gone.
    pub(crate) fn recover(&mut self, reader: &dyn FileReader) -> Result<usize, Trouble> {
        let got = self.compare(reader)?;
        if got < self.synced {
            let (name, synced) = (reader.name(), self.synced);
            let what = format!("log {name}: {got} records came back, but {synced} were synced");
            return Err(Trouble::Wrong(what));
        }
        let lost = self.records.len() - got;
        self.records.truncate(got);
        self.appended = got;
        if self.was_power_cut {
            // Data that was read after a power cut is on the platter.
            self.synced = got;
        }
        Ok(lost)
    }

    /// Compares a log that is being written: everything appended is readable.
    pub(crate) fn compare_live(&self, reader: &dyn FileReader) -> Result<(), Trouble> {
        let got = self.compare(reader)?;
        if got < self.appended {
            let (name, appended) = (reader.name(), self.appended);
            let what = format!("log {name}: {got} records readable, but {appended} appended");
            return Err(Trouble::Wrong(what));
        }
        Ok(())
    }

    fn compare(&self, reader: &dyn FileReader) -> Result<usize, Trouble> {
        let len_blocks = reader.len_bytes() / BLOCK_LEN_BYTES as u64;
        let extent = LogBounds { log_id: self.id, len_blocks, durable_blocks: 0 };
        let mut scratch = Vec::new();
        let read = |offset, buf: &mut [u8]| {
            reader.read_at(offset, buf.len(), &mut scratch).map(|got| buf.copy_from_slice(got))
        };
        let mut decoder = Decoder::passing(extent, read, FilesError::is_unreadable);
        let mut count = 0;
        loop {
            match decoder.next_record() {
                Err(error) => {
                    return Err(Trouble::failed(&format!("log {}", reader.name()), error));
                }
                Ok(None) => break,
                Ok(Some(record)) => {
                    if self.records.get(count).map(Vec::as_slice) != Some(record.bytes) {
                        let (name, at) = (reader.name(), record.position);
                        let what = format!("log {name}: record {count} at {at} is not ours");
                        return Err(Trouble::Wrong(what));
                    }
                    count += 1;
                }
            }
        }
        match decoder.end() {
            Some(End::Clean { .. } | End::Torn { .. }) => Ok(count),
            other => Err(Trouble::Wrong(format!("log {}: {other:?}", reader.name()))),
        }
    }
}
