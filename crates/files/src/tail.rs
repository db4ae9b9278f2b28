//! The end of a file as a file of its own: for what was appended to something else.

use crate::api::{FileReader, FilesError};
use imbrex_disk::BlockRange;
use std::sync::Arc;

#[derive(Debug)]
struct Tail {
    file: Arc<dyn FileReader>,
    start: u64,
}

/// What of `file` lies from byte `start` on. It has the file's name, and keeps all of it allocated.
pub fn tail_of(file: Arc<dyn FileReader>, start: u64) -> Arc<dyn FileReader> {
    Arc::new(Tail { file, start })
}

impl FileReader for Tail {
    fn len_bytes(&self) -> u64 {
        self.file.len_bytes().saturating_sub(self.start)
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
        self.file.read_at(self.start.saturating_add(offset), len_bytes, scratch)
    }

    fn read_batch(&self, ranges: &[(u64, usize)]) -> Result<Vec<Vec<u8>>, FilesError> {
        let moved: Vec<(u64, usize)> =
            ranges.iter().map(|&(at, len)| (self.start.saturating_add(at), len)).collect();
        self.file.read_batch(&moved)
    }

    /// Of the whole file.
    fn extents(&self) -> Vec<BlockRange> {
        self.file.extents()
    }
}
