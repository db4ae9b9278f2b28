//! Logs on the flash drive, within the room that they were promised (T6).

use super::flash::Flash;
use crate::api::LogWriter;
use crate::catalog::FileId;
use crate::error::FilesError;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A log that outgrows its promise asks for this fraction of its length at a time, or for what it
/// needs if there is not that much.
const RAISES_PER_LEN: u64 = 8;

/// A log on the flash drive that is being written.
#[derive(Debug)]
pub(super) struct FlashLog {
    flash: Arc<Flash>,
    id: FileId,
    log: Arc<dyn LogWriter>,
    /// The length that it was promised.
    promised_bytes: AtomicU64,
}

impl FlashLog {
    /// The log `id`, which has a promise.
    pub(super) fn new(flash: &Arc<Flash>, id: FileId, log: Arc<dyn LogWriter>) -> FlashLog {
        let mut promised_bytes = 0;
        if let Some(promise) = flash.promises.lock().get_mut(&id) {
            promise.is_created = true;
            promised_bytes = promise.expected_len_bytes;
        }
        let promised_bytes = AtomicU64::new(promised_bytes);
        FlashLog { flash: Arc::clone(flash), id, log, promised_bytes }
    }
}

impl LogWriter for FlashLog {
    fn append(&self, data: &[u8]) -> Result<u64, FilesError> {
        let offset = self.log.append(data).map_err(Flash::failed)?;
        self.flash.counts.written_bytes.fetch_add(data.len() as u64, Ordering::Relaxed);
        Ok(offset)
    }

    fn reserve(&self, len_bytes: u64) -> bool {
        let promised_bytes = self.promised_bytes.load(Ordering::Relaxed);
        if len_bytes <= promised_bytes {
            return true;
        }
        let ample_bytes = len_bytes.max(promised_bytes + promised_bytes / RAISES_PER_LEN);
        let raised_bytes = [ample_bytes, len_bytes]
            .into_iter()
            .find(|&bytes| self.flash.raise_promise(self.id, bytes));
        if let Some(bytes) = raised_bytes {
            self.promised_bytes.fetch_max(bytes, Ordering::Relaxed);
        }
        raised_bytes.is_some()
    }

    fn is_on_flash(&self) -> bool {
        true
    }

    fn sync(&self) -> Result<(), FilesError> {
        self.log.sync().map_err(Flash::failed)
    }

    fn len_bytes(&self) -> u64 {
        self.log.len_bytes()
    }

    fn finish(&self) -> Result<(), FilesError> {
        self.log.finish()?;
        self.flash.keep_promise(self.id);
        Ok(())
    }
}

impl Drop for FlashLog {
    fn drop(&mut self) {
        self.flash.keep_promise(self.id);
    }
}
