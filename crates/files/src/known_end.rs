//! A file whose end is also in memory, for readers that open what they have just written.

use crate::api::{FileReader, check_range};
use crate::error::FilesError;
use imbrex_disk::{Activity, BlockRange};
use std::sync::Arc;

#[derive(Debug)]
struct KnownEnd {
    file: Arc<dyn FileReader>,
    at: u64,
    bytes: Arc<[u8]>,
}

/// `file` with its bytes from offset `at` on in memory. Only other reads go to the drive.
pub fn with_known_end(file: Arc<dyn FileReader>, at: u64, bytes: Arc<[u8]>) -> Arc<dyn FileReader> {
    Arc::new(KnownEnd { file, at, bytes })
}

impl KnownEnd {
    fn known(&self, offset: u64, len_bytes: usize) -> Option<&[u8]> {
        let from = usize::try_from(offset.checked_sub(self.at)?).ok()?;
        self.bytes.get(from..from.checked_add(len_bytes)?)
    }
}

impl FileReader for KnownEnd {
    fn len_bytes(&self) -> u64 {
        self.file.len_bytes()
    }

    fn name(&self) -> &str {
        self.file.name()
    }

    fn read_at<'a>(
        &self,
        offset: u64,
        len_bytes: usize,
        scratch: &'a mut Vec<u8>,
    ) -> Result<&'a [u8], FilesError> {
        check_range(self, offset, len_bytes)?;
        let Some(bytes) = self.known(offset, len_bytes) else {
            return self.file.read_at(offset, len_bytes, scratch);
        };
        scratch.clear();
        scratch.extend_from_slice(bytes);
        Ok(scratch)
    }

    fn for_activity(&self, activity: Activity) -> Option<Arc<dyn FileReader>> {
        let file = self.file.for_activity(activity)?;
        Some(Arc::new(KnownEnd { file, at: self.at, bytes: Arc::clone(&self.bytes) }))
    }

    fn extents(&self) -> Vec<BlockRange> {
        self.file.extents()
    }

    fn is_in_set(&self) -> bool {
        self.file.is_in_set()
    }
}
