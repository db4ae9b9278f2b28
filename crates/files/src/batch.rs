//! Reads of several ranges of several files at once, so that the disk can order them.
//!
//! ```text
//!   a.table  [8192, 12288)  --+
//!   b.table  [0, 4096)      --+--> plans: blocks, held (R1) --> one batch for each disk
//!   c.table  [20000, 24100) --+
//! ```
//!
//! Not here: the blocks of a range and the hold on them (`planned_read`).

use crate::api::FileReader;
use crate::error::FilesError;
use crate::planned_read::read_planned;
use imbrex_disk::ReadRequest;

/// A range of a file, for [`read_together`].
#[derive(Clone, Copy, Debug)]
pub struct FileRange<'a> {
    /// The file.
    pub file: &'a dyn FileReader,
    /// The offset of the first byte.
    pub offset: u64,
    /// How many bytes to read.
    pub len_bytes: usize,
}

/// Reads `ranges`, and returns their bytes in the same order.
///
/// All ranges on one disk are queued together, so that the disk can order them. A file of another
/// kind, such as one found by a salvage, is read by itself.
///
/// # Errors
/// As for [`FileReader::read_at`], for one of the faulty ranges. The error does not show which range
/// is faulty if several are on one disk: to find out, read them one by one.
pub fn read_together(ranges: &[FileRange<'_>]) -> Result<Vec<Vec<u8>>, FilesError> {
    let mut bytes = vec![Vec::new(); ranges.len()];
    let mut planned = Vec::new();
    for (index, range) in ranges.iter().enumerate() {
        match range.file.plan_read(range.offset, range.len_bytes)? {
            Some(plan) => planned.push((index, plan)),
            None => {
                let mut scratch = Vec::new();
                let read = range.file.read_at(range.offset, range.len_bytes, &mut scratch)?;
                bytes[index] = read.to_vec();
            }
        }
    }
    while let Some((index, first)) = planned.pop() {
        let (mut indexes, mut plans) = (vec![index], vec![first]);
        for (index, plan) in std::mem::take(&mut planned) {
            if plan.is_on_disk_of(&plans[0]) {
                indexes.push(index);
                plans.push(plan);
            } else {
                planned.push((index, plan));
            }
        }
        let failed = |source| {
            let (name, others) = (ranges[index].file.name(), indexes.len() - 1);
            FilesError::Disk { what: format!("reading {name} and {others} more at once"), source }
        };
        let read = |requests: &mut [ReadRequest<'_>]| plans[0].source().read_batch(requests);
        for (&index, read) in indexes.iter().zip(read_planned(&plans, &read).map_err(failed)?) {
            bytes[index] = read;
        }
    }
    Ok(bytes)
}
