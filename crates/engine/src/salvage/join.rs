//! The blocks of a table: its extents, from its end to its start.
//!
//! ```text
//!   file     | block 0 ............ x | x ............. footer |
//!   drive                               e' [ extent ]              known: it ends with the footer
//!                 [ extent ] e                                     searched: does a block at the
//!                                                                  assumed place have its checksum?
//! ```
//!
//! Most tables have one extent, and one read of their first block shows it. For the others the
//! lowest block that is where one extent would have it is found by bisection. Before it another
//! extent must end, at a place where extents end: at a border of a zone or a track, or where
//! another table or log begins.
//!
//! Invariants
//!   J1  A wrong place costs nothing but the blocks: every block is checked again when it is read.
//!
//! Not supported: an extent that begins and ends next to data that nobody owns any more. Its blocks
//! count as missing.

use super::scan::FooterAt;
use crate::table::{BlockHandle, FoundFooter};
use imbrex_files::raw::{RawDrive, RawFile, RawPiece};
use imbrex_record_log::BLOCK_LEN_BYTES;

const BLOCK: u64 = BLOCK_LEN_BYTES as u64;

/// The number of assumed extent ends that are tried for one extent.
const END_COUNT_MAX: usize = 4096;

/// The number of assumed first blocks of an extent, when a block of the table is long.
const START_COUNT_MAX: usize = 16;

/// The number of data blocks that are checked in a table that seems to have one extent.
const SAMPLE_COUNT: usize = 16;

/// Returns the blocks near one where an extent may end, the nearest first.
pub(super) type Ends<'a> = dyn Fn(u64) -> Vec<u64> + 'a;

/// The extents of a table, as far as they were found.
#[derive(Debug)]
pub(super) struct Joined {
    pub(super) pieces: Vec<RawPiece>,
    /// The bytes before the table in its first block.
    pub(super) shift_bytes: u64,
    /// How much of the table is at a known place.
    pub(super) known_blocks: u64,
    /// All checked blocks were right.
    pub(super) is_sound: bool,
    /// The data blocks, in order.
    pub(super) data: Vec<BlockHandle>,
}

/// Finds the extents of the table that ends at `at`.
pub(super) fn join(drive: &RawDrive, at: &FooterAt, ends: &Ends<'_>) -> Joined {
    let len_bytes = at.footer.len_bytes();
    let shift_bytes = match at.footer.is_logged() {
        true => len_bytes.next_multiple_of(BLOCK) - len_bytes,
        false => 0,
    };
    let len_blocks = (shift_bytes + len_bytes).div_ceil(BLOCK);
    let anchors = vec![Anchor { upto: len_blocks, end: at.end.div_ceil(BLOCK) }];
    let footer = &at.footer;
    let mut joiner = Joiner { drive, footer, ends, shift_bytes, anchors, unknown_below: 0 };
    joiner.resolve(&footer.metadata());
    let data = joiner.resolve_data();
    let mut checked = data.iter().step_by((data.len() / SAMPLE_COUNT).max(1));
    let is_sound = joiner.unknown_below == 0
        && footer.top_indexes().any(|handle| joiner.has(handle))
        && checked.all(|handle| joiner.has(*handle));
    Joined {
        pieces: joiner.pieces(len_blocks),
        shift_bytes,
        known_blocks: len_blocks - joiner.unknown_below,
        is_sound,
        data,
    }
}

/// The block `upto - 1` of the file is the block `end - 1` of the drive, and so on downwards, until
/// the next anchor.
#[derive(Clone, Copy, Debug)]
struct Anchor {
    upto: u64,
    end: u64,
}

struct Joiner<'a> {
    drive: &'a RawDrive,
    footer: &'a FoundFooter,
    ends: &'a Ends<'a>,
    shift_bytes: u64,
    /// From the end of the file to its start.
    anchors: Vec<Anchor>,
    /// The place of the blocks before this one is unknown.
    unknown_below: u64,
}

impl Joiner<'_> {
    /// The place of block `index` of the file.
    fn place(&self, index: u64) -> Option<u64> {
        let anchor = self.anchors.iter().rev().find(|anchor| index < anchor.upto)?;
        (self.unknown_below <= index).then(|| anchor.end.checked_sub(anchor.upto - index))?
    }

    fn read(&self, handle: BlockHandle) -> Option<Vec<u8>> {
        let start = handle.offset + self.shift_bytes;
        let end = start + handle.len_bytes;
        let (first, upto) = (start / BLOCK, end.div_ceil(BLOCK));
        let mut bytes = vec![0; ((upto - first) * BLOCK) as usize];
        let mut at = first;
        while at < upto {
            let place = self.place(at)?;
            let mut len = 1;
            while at + len < upto && self.place(at + len) == Some(place + len) {
                len += 1;
            }
            let from = ((at - first) * BLOCK) as usize;
            self.drive.read(place, &mut bytes[from..from + (len * BLOCK) as usize]).ok()?;
            at += len;
        }
        let skip = (start - first * BLOCK) as usize;
        Some(bytes[skip..skip + handle.len_bytes as usize].to_vec())
    }

    fn has(&self, handle: BlockHandle) -> bool {
        self.read(handle).is_some_and(|stored| self.footer.is_block(handle, &stored))
    }

    fn first_block(&self, handle: BlockHandle) -> u64 {
        (handle.offset + self.shift_bytes) / BLOCK
    }

    /// Finds the places of the data blocks, and returns their handles.
    fn resolve_data(&mut self) -> Vec<BlockHandle> {
        let list = |joiner: &Joiner<'_>, handle| {
            joiner.read(handle).and_then(|stored| joiner.footer.listed(handle, &stored))
        };
        let Some(partitions) = self.footer.top_indexes().find_map(|top| list(self, top)) else {
            return Vec::new();
        };
        self.resolve(&partitions);
        let data: Vec<BlockHandle> =
            partitions.iter().filter_map(|partition| list(self, *partition)).flatten().collect();
        self.resolve(&data);
        data
    }

    /// Finds the places of `handles`, which ascend.
    fn resolve(&mut self, mut handles: &[BlockHandle]) {
        while let Some(first) = handles.first() {
            if self.first_block(*first) < self.unknown_below || self.has(*first) {
                return;
            }
            // The blocks from `found` on are where the lowest known extent would have them. A
            // damaged block must not mislead, so its successors count as well.
            let settled =
                |index: usize| handles[index..].iter().take(3).any(|handle| self.has(*handle));
            let (mut low, mut found) = (0, handles.len());
            while low < found {
                let middle = (low + found) / 2;
                if settled(middle) { found = middle } else { low = middle + 1 }
            }
            let is_damage_likely = found == 0;
            let is_right = |handle: &&BlockHandle| self.has(**handle);
            found += handles[found..].iter().take_while(|handle| !is_right(handle)).count();
            let lowest = self.anchors.last().map_or(0, |anchor| anchor.upto);
            let upto = handles.get(found).map_or(lowest, |handle| self.first_block(*handle));
            if !self.find_extent(&handles[..found], upto.min(lowest)) {
                if !is_damage_likely {
                    self.unknown_below = upto.min(lowest);
                }
                return;
            }
            handles = &handles[..found];
        }
    }

    /// Finds the extent with the last of `handles`, which ends at or before block `upto` of the
    /// file.
    fn find_extent(&mut self, handles: &[BlockHandle], upto: u64) -> bool {
        let [before @ .., last] = handles else { return false };
        let from = self.first_block(*last) + 1;
        let Some(near) = self.place(upto.saturating_sub(1)) else { return false };
        let ends = (self.ends)(near);
        // An extent begins at a border as well.
        let mut starts: Vec<u64> = (from..=upto).rev().collect();
        let at_border = |start: &u64| self.place(*start).is_some_and(|place| ends.contains(&place));
        if starts.iter().any(at_border) {
            starts.retain(at_border);
        }
        starts.truncate(START_COUNT_MAX);
        let probe = before
            .last()
            .copied()
            .filter(|probe| (probe.end() + self.shift_bytes).div_ceil(BLOCK) <= from);
        for &end in ends.iter().take(END_COUNT_MAX) {
            for &upto in &starts {
                self.anchors.push(Anchor { upto, end });
                // The extent must hold the block before the border, and the one that lies across it
                // decides where the border is.
                if probe.is_none_or(|probe| self.has(probe)) && self.has(*last) {
                    return true;
                }
                self.anchors.pop();
            }
        }
        false
    }

    fn pieces(&self, len_blocks: u64) -> Vec<RawPiece> {
        let mut pieces = Vec::new();
        if self.unknown_below > 0 {
            pieces.push(RawPiece { place: None, len_blocks: self.unknown_below });
        }
        let mut at = self.unknown_below;
        for anchor in self.anchors.iter().rev() {
            let upto = anchor.upto.min(len_blocks);
            if upto <= at {
                continue;
            }
            let place = self.place(at).map(|place| (self.drive.clone(), place));
            pieces.push(RawPiece { place, len_blocks: upto - at });
            at = upto;
        }
        pieces
    }
}

/// Whether every data block of the table can be read.
pub(super) fn is_whole(at: &FooterAt, joined: &Joined) -> bool {
    let len_bytes = joined.shift_bytes + at.footer.len_bytes();
    let file = RawFile::open(String::new(), joined.pieces.clone(), len_bytes);
    let mut scratch = Vec::new();
    let mut has = |handle: &BlockHandle| {
        let offset = handle.offset + joined.shift_bytes;
        let stored = file.read_at(offset, handle.len_bytes as usize, &mut scratch);
        stored.is_ok_and(|stored| at.footer.is_block(*handle, stored))
    };
    joined.is_sound && joined.data.iter().all(&mut has)
}
