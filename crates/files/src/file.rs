//! A file in memory, and the reader of a file.
//!
//! ```text
//!   name -> FileBody -> Placed { extents, holds }        swapped whole when cleaning moves the file
//!              ^            ^
//!           readers      a read in flight: its blocks are not reset under it (F3)
//! ```
//!
//! A read takes no lock that a writer holds during I/O: it loads the current `Placed` and reads.

use crate::api::{FileReader, check_range};
use crate::catalog::FileId;
use crate::error::FilesError;
use crate::extent::Extent;
use crate::planned_read::{BlockRead, PlannedRead, read_planned};
use crate::rewrite::Source;
use crate::space::Hold;
use arc_swap::ArcSwap;
use imbrex_disk::{Activity, BLOCK_LEN_BYTES, BlockRange, Blocks, DiskError, ReadRequest};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The extents of a file, with its holds on their blocks.
#[derive(Clone, Debug)]
pub(crate) struct Placed {
    pub(crate) extents: Box<[Extent]>,
    /// The span that it shares with other files, if it does.
    pub(crate) span: Option<BlockRange>,
    pub(crate) holds: Vec<Arc<Hold>>,
}

/// A file in use: named, open for reading, or persisted.
#[derive(Debug)]
pub(crate) struct FileBody {
    pub(crate) id: FileId,
    pub(crate) placed: ArcSwap<Placed>,
    /// How many bytes can be read; fewer than the extents hold while a log is written.
    pub(crate) len_bytes: AtomicU64,
}

impl FileBody {
    pub(crate) fn new(id: FileId, placed: Placed, len_bytes: u64) -> Arc<FileBody> {
        let placed = ArcSwap::from_pointee(placed);
        Arc::new(FileBody { id, placed, len_bytes: AtomicU64::new(len_bytes) })
    }

    pub(crate) fn len_bytes(&self) -> u64 {
        self.len_bytes.load(Ordering::Acquire)
    }

    /// Records for all its blocks whether a file of the catalog owns them.
    pub(crate) fn set_named(&self, named: bool) {
        self.placed.load().holds.iter().for_each(|hold| hold.set_named(named));
    }

    pub(crate) fn ranges(&self) -> Vec<BlockRange> {
        self.placed.load().extents.iter().map(Extent::range).collect()
    }
}

/// A file open for reading.
#[derive(Debug)]
pub(crate) struct Reader {
    source: Source,
    body: Arc<FileBody>,
    name: String,
    /// Whether destroyed blocks read as zeros.
    reads_remains: bool,
}

impl Reader {
    pub(crate) fn new(source: Source, body: Arc<FileBody>, name: String) -> Arc<Reader> {
        Arc::new(Reader { source, body, name, reads_remains: false })
    }

    /// Reads a log. Where tracks overlap, the last write destroyed what follows the log's end; those
    /// blocks read as zeros, from which no record decodes.
    pub(crate) fn of_log(source: Source, body: Arc<FileBody>, name: String) -> Arc<Reader> {
        Arc::new(Reader { source, body, name, reads_remains: true })
    }

    fn read_blocks(&self, requests: &mut [ReadRequest<'_>]) -> Result<(), DiskError> {
        let read = match requests {
            [request] => self.source.read(request.at, request.buf),
            _ => self.source.read_batch(requests),
        };
        if !self.reads_remains || !matches!(read, Err(DiskError::Destroyed { .. })) {
            return read;
        }
        for request in requests {
            for (at, block) in (0..).zip(request.buf.chunks_mut(BLOCK_LEN_BYTES)) {
                match self.source.read(request.at + Blocks::new(at), block) {
                    Err(DiskError::Destroyed { .. }) => block.fill(0),
                    read => read?,
                }
            }
        }
        Ok(())
    }

    fn failed(&self, offset: u64, source: DiskError) -> FilesError {
        FilesError::Disk { what: format!("reading {} at {offset}", self.name), source }
    }

    fn planned(&self, placed: &Arc<Placed>, offset: u64, len_bytes: usize) -> PlannedRead {
        let pieces = pieces(&placed.extents, offset, len_bytes);
        PlannedRead::new(self.source.clone(), pieces, Arc::clone(placed) as Arc<_>)
    }

    /// The general case: the range spans several extents.
    fn read_pieces(
        &self,
        extents: &[Extent],
        offset: u64,
        len_bytes: usize,
        scratch: &mut Vec<u8>,
    ) -> Result<(), FilesError> {
        let pieces = pieces(extents, offset, len_bytes);
        let blocks_len: usize = pieces.iter().map(BlockRead::blocks_len_bytes).sum();
        scratch.resize(blocks_len.max(scratch.len()), 0);
        let mut rest = &mut scratch[..blocks_len];
        let mut requests = Vec::with_capacity(pieces.len());
        for piece in &pieces {
            let (buf, later) = rest.split_at_mut(piece.blocks_len_bytes());
            requests.push(ReadRequest { at: piece.at, buf });
            rest = later;
        }
        self.read_blocks(&mut requests).map_err(|e| self.failed(offset, e))?;
        let (mut from, mut to) = (0, 0);
        for piece in &pieces {
            let start = from + piece.skip;
            scratch.copy_within(start..start + piece.len_bytes, to);
            from += piece.blocks_len_bytes();
            to += piece.len_bytes;
        }
        Ok(())
    }
}

impl FileReader for Reader {
    fn len_bytes(&self) -> u64 {
        self.body.len_bytes()
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn read_at<'a>(
        &self,
        offset: u64,
        len_bytes: usize,
        scratch: &'a mut Vec<u8>,
    ) -> Result<&'a [u8], FilesError> {
        check_range(self, offset, len_bytes)?;
        if len_bytes == 0 {
            return Ok(&[]);
        }
        // Held until the read is done: a file that is moved meanwhile keeps its old blocks (F3).
        let placed = self.body.placed.load();
        if let Some(piece) = in_one(&placed.extents, offset, len_bytes) {
            let blocks_len = piece.blocks_len_bytes();
            if scratch.len() < blocks_len {
                scratch.resize(blocks_len, 0);
            }
            let mut request = [ReadRequest { at: piece.at, buf: &mut scratch[..blocks_len] }];
            self.read_blocks(&mut request).map_err(|e| self.failed(offset, e))?;
            return Ok(&scratch[piece.skip..piece.skip + len_bytes]);
        }
        self.read_pieces(&placed.extents, offset, len_bytes, scratch)?;
        Ok(&scratch[..len_bytes])
    }

    fn read_batch(&self, ranges: &[(u64, usize)]) -> Result<Vec<Vec<u8>>, FilesError> {
        let placed = self.body.placed.load_full();
        let planned = |&(offset, len_bytes): &(u64, usize)| {
            check_range(self, offset, len_bytes)?;
            Ok(self.planned(&placed, offset, len_bytes))
        };
        let reads = ranges.iter().map(planned).collect::<Result<Vec<_>, FilesError>>()?;
        let first = ranges.first().map_or(0, |range| range.0);
        let read = |requests: &mut [ReadRequest<'_>]| self.read_blocks(requests);
        read_planned(&reads, &read).map_err(|error| self.failed(first, error))
    }

    fn plan_read(&self, offset: u64, len_bytes: usize) -> Result<Option<PlannedRead>, FilesError> {
        check_range(self, offset, len_bytes)?;
        if self.reads_remains {
            return Ok(None);
        }
        Ok(Some(self.planned(&self.body.placed.load_full(), offset, len_bytes)))
    }

    fn for_activity(&self, activity: Activity) -> Option<Arc<dyn FileReader>> {
        Some(Arc::new(Reader {
            source: self.source.for_activity(activity),
            body: Arc::clone(&self.body),
            name: self.name.clone(),
            reads_remains: self.reads_remains,
        }))
    }

    fn extents(&self) -> Vec<BlockRange> {
        self.body.ranges()
    }

    fn is_in_set(&self) -> bool {
        self.body.placed.load().span.is_some()
    }
}

/// The read within a single extent, if one holds all of it: the common case, without allocation.
fn in_one(extents: &[Extent], offset: u64, len_bytes: usize) -> Option<BlockRead> {
    let mut start = 0;
    for extent in extents {
        let end = start + extent.len_bytes;
        if offset < end {
            let inside = offset - start;
            return (offset + len_bytes as u64 <= end).then(|| piece(extent, inside, len_bytes));
        }
        start = end;
    }
    None
}

fn piece(extent: &Extent, inside: u64, len_bytes: usize) -> BlockRead {
    let block = inside / BLOCK_LEN_BYTES as u64;
    let skip = (inside % BLOCK_LEN_BYTES as u64) as usize;
    BlockRead { at: extent.start + Blocks::new(block), skip, len_bytes }
}

fn pieces(extents: &[Extent], offset: u64, len_bytes: usize) -> Vec<BlockRead> {
    let (mut start, mut offset, mut left) = (0, offset, len_bytes as u64);
    let mut pieces = Vec::new();
    for extent in extents {
        let end = start + extent.len_bytes;
        if left > 0 && offset < end {
            let now = left.min(end - offset);
            pieces.push(piece(extent, offset - start, now as usize));
            offset += now;
            left -= now;
        }
        start = end;
    }
    pieces
}
