//! Tables against a plain sorted list, and against damage.

use super::properties::TableProperties;
use super::*;
use crate::EngineError;
use crate::iter::InternalIter;
use crate::key::{InternalKey, Kind, Seq, Trailer};
use crate::options::Compression;
use crate::table::cache::BlockCache;
use imbrex_clockwork::Prng;
use imbrex_disk::BlockRange;
use imbrex_files::{FileBuffer, FileKind, FileReader, FilesError, Hints};
use std::collections::BTreeMap;
use std::sync::Arc;

mod damage;
mod first_reads;
mod model;
mod reads;
mod small;

/// A file in memory. Reads return data 17 bytes into the scratch buffer, as reads of whole blocks
/// may.
#[derive(Debug)]
struct MemoryFile(Vec<u8>);

const LEAD_LEN_BYTES: usize = 17;

impl FileReader for MemoryFile {
    fn len_bytes(&self) -> u64 {
        self.0.len() as u64
    }

    fn name(&self) -> &str {
        "t/000001"
    }

    fn read_at<'a>(
        &self,
        offset: u64,
        len_bytes: usize,
        scratch: &'a mut Vec<u8>,
    ) -> Result<&'a [u8], FilesError> {
        let start = offset as usize;
        let bytes =
            self.0.get(start..).and_then(|rest| rest.get(..len_bytes)).ok_or_else(|| {
                FilesError::PastEnd {
                    name: self.name().into(),
                    offset,
                    len_bytes,
                    file_len_bytes: self.len_bytes(),
                }
            })?;
        scratch.clear();
        scratch.resize(LEAD_LEN_BYTES, 0xee);
        scratch.extend_from_slice(bytes);
        scratch.extend_from_slice(&[0xee; 5]);
        Ok(&scratch[LEAD_LEN_BYTES..LEAD_LEN_BYTES + len_bytes])
    }

    fn extents(&self) -> Vec<BlockRange> {
        Vec::new()
    }
}

/// The entries of the model in internal-key order: by user key, then newest first.
type Entries = BTreeMap<(Vec<u8>, std::cmp::Reverse<u64>), (Kind, Vec<u8>)>;

fn trailer(seq: u64, kind: Kind) -> Trailer {
    Trailer::new(Seq(seq), kind)
}

fn file_bytes(file: &FileBuffer) -> Vec<u8> {
    file.chunks().concat()
}

fn new_builder(options: &TableOptions) -> TableBuilder {
    TableBuilder::new(FileBuffer::new("t/000001", Hints::new(FileKind::Table)), options.clone())
}

fn build(entries: &Entries, options: &TableOptions) -> (Vec<u8>, TableProperties) {
    let mut builder = new_builder(options);
    for ((key, seq), (kind, value)) in entries {
        builder.add(key, trailer(seq.0, *kind), value);
    }
    let (file, properties) = builder.finish();
    (file_bytes(&file), properties)
}

fn open(bytes: Vec<u8>) -> Result<Arc<Table>, EngineError> {
    Table::open(Arc::new(MemoryFile(bytes)), Arc::new(BlockCache::new(32 << 10)))
}
