//! A part of a file as a file of its own, for data that were appended to something else.

use crate::api::{FileReader, check_range};
use crate::error::FilesError;
use crate::planned_read::PlannedRead;
use imbrex_disk::{Activity, BlockRange};
use std::ops::Range;
use std::sync::Arc;

#[derive(Debug)]
struct Part {
    file: Arc<dyn FileReader>,
    start: u64,
    len_bytes: u64,
}

/// The bytes `range` of `file`, cut to its length, under its name. The whole file stays allocated.
pub fn part_of(file: Arc<dyn FileReader>, range: Range<u64>) -> Arc<dyn FileReader> {
    let end = range.end.min(file.len_bytes());
    let start = range.start.min(end);
    Arc::new(Part { file, start, len_bytes: end - start })
}

impl FileReader for Part {
    fn len_bytes(&self) -> u64 {
        self.len_bytes
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
        self.file.read_at(self.start + offset, len_bytes, scratch)
    }

    fn read_batch(&self, ranges: &[(u64, usize)]) -> Result<Vec<Vec<u8>>, FilesError> {
        ranges.iter().try_for_each(|&(offset, len_bytes)| check_range(self, offset, len_bytes))?;
        let moved: Vec<(u64, usize)> =
            ranges.iter().map(|&(offset, len_bytes)| (self.start + offset, len_bytes)).collect();
        self.file.read_batch(&moved)
    }

    fn plan_read(&self, offset: u64, len_bytes: usize) -> Result<Option<PlannedRead>, FilesError> {
        check_range(self, offset, len_bytes)?;
        self.file.plan_read(self.start + offset, len_bytes)
    }

    fn for_activity(&self, activity: Activity) -> Option<Arc<dyn FileReader>> {
        let file = self.file.for_activity(activity)?;
        Some(Arc::new(Part { file, start: self.start, len_bytes: self.len_bytes }))
    }

    /// The extents of the whole file.
    fn extents(&self) -> Vec<BlockRange> {
        self.file.extents()
    }

    fn is_in_set(&self) -> bool {
        self.file.is_in_set()
    }
}
