//! Which structure each byte of a drive with a store belongs to, found from the outside: by magics,
//! by the extents of files, and by the lengths in the footers of tables.

use imbrex::stack::Mounted;
use imbrex_disk::{BLOCK_LEN_BYTES, Blocks, Disk, Lba};
use imbrex_files::{FileInfo, Files};
use std::collections::BTreeSet;
use std::ops::Range;

/// A kind of bytes on a drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Structure {
    BandSuperblock,
    BandLogHeader,
    BandLog,
    CatalogHeader,
    CatalogBody,
    CatalogRecord,
    CatalogLastRecord,
    OlderCatalog,
    LogFrame,
    LogLastFrame,
    TableData,
    TableIndex,
    TableFilter,
    TableTombstones,
    TableProperties,
    TableTopIndex,
    TableFooter,
}

/// At most so long is the content of a frame that only records what is durable.
const MARK_LEN_BYTES_MAX: usize = 24;

/// A run of bytes of one structure, in one block.
#[derive(Clone, Debug)]
pub(super) struct Place {
    pub(super) structure: Structure,
    pub(super) block: Lba,
    pub(super) bytes: Range<usize>,
}

const CATALOG_MAGIC: &[u8] = b"IMBXCAT\n";
const FRAME_MAGIC: &[u8] = b"RLOG";

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(std::array::from_fn(|i| bytes[at + i]))
}

/// The block, unless it cannot be read or is blank.
fn content(disk: &dyn Disk, at: Lba) -> Option<Vec<u8>> {
    let mut block = vec![0; BLOCK_LEN_BYTES];
    let is_read = disk.read(at, &mut block).is_ok();
    (is_read && block.iter().any(|&byte| byte != 0)).then_some(block)
}

/// The places of all structures on `disk`, the drive below `mounted` or an equal one.
pub(super) fn places(disk: &dyn Disk, mounted: &Mounted) -> Vec<Place> {
    let on_drive = |at: Lba| match &mounted.bands {
        Some(bands) => Lba::new(bands.locate(at).get()),
        None => at,
    };
    let mut places = Vec::new();
    let mut of_files = BTreeSet::new();
    for file in mounted.files.list("") {
        let blocks: Vec<Lba> = file
            .extents
            .iter()
            .flat_map(|extent| (0..extent.len.get()).map(|n| extent.start + Blocks::new(n)))
            .map(on_drive)
            .collect();
        of_files.extend(blocks.iter().copied());
        of_file(disk, &file, &blocks, &mut places);
    }
    let bands_end = mounted.bands.as_ref().map_or(Lba::new(0), |_| on_drive(Lba::new(0)));
    let rest = (0..disk.geometry().len().get()).map(Lba::new).filter(|at| !of_files.contains(at));
    let (of_bands, of_catalog): (Vec<Lba>, Vec<Lba>) = rest.partition(|&at| at < bands_end);
    for at in of_bands {
        let Some(block) = content(disk, at) else { continue };
        let structure = match &block[..8] {
            b"IMBANDS\n" => Structure::BandSuperblock,
            b"IMBLOG1\n" => Structure::BandLogHeader,
            _ => Structure::BandLog,
        };
        places.push(Place { structure, block: at, bytes: 0..BLOCK_LEN_BYTES });
    }
    of_regions(disk, &of_catalog, &mut places);
    places
}

/// The regions of the catalog: `blocks` are all those that belong to no file.
fn of_regions(disk: &dyn Disk, blocks: &[Lba], places: &mut Vec<Place>) {
    let sequences: Vec<u64> = blocks
        .iter()
        .filter_map(|&at| content(disk, at))
        .filter(|block| block.starts_with(CATALOG_MAGIC))
        .map(|block| u64_at(&block, 16))
        .collect();
    let newest = sequences.iter().copied().max().unwrap_or(0);
    let (mut sequence, mut log_id, mut is_body) = (0, 0, false);
    let mut frames: Vec<usize> = Vec::new();
    for &at in blocks {
        let Some(block) = content(disk, at) else { continue };
        let mut structure = Structure::CatalogBody;
        let mut bytes = 0..BLOCK_LEN_BYTES;
        if block.starts_with(CATALOG_MAGIC) {
            (sequence, log_id, is_body) = (u64_at(&block, 16), u64_at(&block, 24), true);
            mark_last(places, &mut frames);
            structure = Structure::CatalogHeader;
            bytes = 0..512;
        } else if block.starts_with(FRAME_MAGIC) && u64_at(&block, 8) == log_id {
            is_body = false;
            structure = Structure::CatalogRecord;
            frames.push(places.len());
        } else if !is_body {
            // A frame that goes on, or one of an earlier log: the latter means nothing.
            let goes_on =
                frames.last().is_some_and(|&last| places[last].block + Blocks::new(1) == at);
            if block.starts_with(FRAME_MAGIC) || !goes_on {
                continue;
            }
            structure = Structure::CatalogRecord;
        }
        if sequence < newest {
            structure = Structure::OlderCatalog;
        }
        places.push(Place { structure, block: at, bytes });
    }
    mark_last(places, &mut frames);
}

/// The last frame of a region's log.
fn mark_last(places: &mut [Place], frames: &mut Vec<usize>) {
    if let Some(&last) = frames.last() {
        let places = places[last..].iter_mut();
        places
            .filter(|place| place.structure == Structure::CatalogRecord)
            .for_each(|place| place.structure = Structure::CatalogLastRecord);
    }
    frames.clear();
}

fn of_file(disk: &dyn Disk, file: &FileInfo, blocks: &[Lba], places: &mut Vec<Place>) {
    let contents: Vec<Option<Vec<u8>>> = blocks.iter().map(|&at| content(disk, at)).collect();
    let is_table = file.name.ends_with(".tbl");
    if is_table && file.len_bytes == 0 {
        // A table that was begun and not written.
        return;
    }
    let mut log_end = blocks.len() * BLOCK_LEN_BYTES;
    if is_table {
        let bytes: Vec<u8> = contents
            .iter()
            .flat_map(|block| block.clone().unwrap_or_else(|| vec![0; BLOCK_LEN_BYTES]))
            .take(file.len_bytes as usize)
            .collect();
        log_end = of_table(&bytes, blocks, places);
    }
    let mut last = None;
    let mut at = 0;
    while at < log_end {
        let Some(block) = &contents[at / BLOCK_LEN_BYTES] else { break };
        if !block.starts_with(FRAME_MAGIC) {
            break;
        }
        let payload = u32::from_le_bytes(std::array::from_fn(|i| block[40 + i])) as usize;
        let len = (56 + payload).next_multiple_of(BLOCK_LEN_BYTES);
        // The frame that a close adds has an empty record. A log that ended before the close has none,
        // and its length is durable.
        last = (payload <= MARK_LEN_BYTES_MAX).then_some(places.len());
        add(places, Structure::LogFrame, blocks, at..(at + len).min(log_end));
        at += len;
    }
    if let Some(last) = last.filter(|_| !is_table) {
        places[last..].iter_mut().for_each(|place| place.structure = Structure::LogLastFrame);
    }
}

/// The parts of the table that ends `file`. Returns where it begins.
fn of_table(file: &[u8], blocks: &[Lba], places: &mut Vec<Place>) -> usize {
    let footer = file.len() - 96;
    let len = |n: usize| u64_at(file, footer + 24 + 8 * n) as usize;
    let gap = u32::from_le_bytes(std::array::from_fn(|i| file[footer + 72 + i])) as usize;
    let copied = [
        (Some(Structure::TableTombstones), len(3)),
        (Some(Structure::TableTopIndex), len(5)),
        (Some(Structure::TableFooter), 96),
    ];
    let rest = [
        (Some(Structure::TableFilter), len(2)),
        (Some(Structure::TableProperties), len(4)),
        (None, gap),
    ];
    let parts = [(Some(Structure::TableData), len(0)), (Some(Structure::TableIndex), len(1))];
    let parts: Vec<_> = parts.into_iter().chain(copied).chain(rest).chain(copied).collect();
    let start = file.len() - parts.iter().map(|(_, len)| len).sum::<usize>();
    let mut at = start;
    for (structure, len) in parts {
        if let Some(structure) = structure {
            add(places, structure, blocks, at..at + len);
        }
        at += len;
    }
    start
}

/// Adds the bytes `range` of a file, block by block.
fn add(places: &mut Vec<Place>, structure: Structure, blocks: &[Lba], range: Range<usize>) {
    let mut at = range.start;
    while at < range.end {
        let index = at / BLOCK_LEN_BYTES;
        let end = range.end.min((index + 1) * BLOCK_LEN_BYTES);
        let start = index * BLOCK_LEN_BYTES;
        places.push(Place { structure, block: blocks[index], bytes: at - start..end - start });
        at = end;
    }
}
