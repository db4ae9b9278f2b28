//! The track map of an image with overlapping tracks: one byte per block, with holes where no block
//! is marked.

use super::{ImageBacking, LockedFile, format, host};
use crate::ImageError;
use crate::backing::Durable;
use crate::rule::Mark;
use imbrex_disk::{BlockRange, Blocks, DiskError, Geometry, Lba, Rule};
use rustix::fs::SeekFrom;
use rustix::io::Errno;
use std::os::unix::fs::FileExt;

/// How much of the map is read or written at a time.
const PIECE_LEN_BYTES: usize = 64 << 10;

/// Why the map cannot be read.
enum Fault {
    /// A byte that is no valid mark.
    Byte { offset: u64, got: u8 },
    /// The host failed.
    Host(std::io::Error),
}

impl ImageBacking {
    /// Checks every byte of the map and of the padding behind it. Returns how many bits it
    /// corrected.
    pub(super) fn check_track_map(&self) -> Result<u64, ImageError> {
        let path = &self.info.path;
        let blocks_end = format::TRACK_MAP_OFFSET + self.geometry.len().get();
        let mut corrected_count = 0;
        for_each_byte_run(&self.file, self.data_offset, &mut |offset, run| {
            for (offset, &got) in (offset..).zip(run) {
                let is_mark = offset < blocks_end;
                let is_sound = if is_mark { format::decode_mark(got).is_ok() } else { got == 0 };
                if is_sound {
                    continue;
                }
                // Any two marks differ in four bits, so at most one differs from this byte in one.
                let corrected = match is_mark {
                    true => format::correct_mark(got),
                    false => got.is_power_of_two().then_some(0),
                };
                let corrected = corrected.ok_or(Fault::Byte { offset, got })?;
                self.file.correct(&[corrected], offset).map_err(Fault::Host)?;
                corrected_count += 1;
            }
            Ok(())
        })
        .map_err(|fault| match fault {
            Fault::Byte { offset, got } => {
                let at = Lba::new(offset - format::TRACK_MAP_OFFSET);
                let detail =
                    format!("byte {offset} is {got:#04x}, so the state of {at} is unknown");
                ImageError::Damaged { path: path.clone(), structure: "track map", detail }
            }
            Fault::Host(source) => host(path, "reading the track map")(source),
        })?;
        Ok(corrected_count)
    }

    pub(super) fn put_marks(
        &self,
        range: BlockRange,
        mark: Option<Mark>,
        durable: Durable,
    ) -> Result<(), DiskError> {
        let len = range.len.get() as usize;
        let bytes = vec![format::encode_mark(mark); len.min(PIECE_LEN_BYTES)];
        let mut done = 0;
        while done < len {
            let piece = &bytes[..bytes.len().min(len - done)];
            let offset = format::TRACK_MAP_OFFSET + range.start.get() + done as u64;
            self.put(piece, offset, durable)
                .map_err(|source| self.failed("marking", range, source))?;
            done += piece.len();
        }
        Ok(())
    }

    pub(super) fn see_marks(&self, see: &mut dyn FnMut(BlockRange, Mark)) -> Result<(), DiskError> {
        if !has_tracks(&self.geometry) {
            return Ok(());
        }
        let end = format::TRACK_MAP_OFFSET + self.geometry.len().get();
        for_each_byte_run(&self.file, end, &mut |offset, run| {
            let mut at = Lba::new(offset - format::TRACK_MAP_OFFSET);
            for same in run.chunk_by(|left, right| left == right) {
                let len = Blocks::new(same.len() as u64);
                let got = same[0];
                // A file that is only read keeps its flipped bits (I4).
                let sound =
                    format::decode_mark(got).map_or(format::correct_mark(got), |_| Some(got));
                let got = sound.unwrap_or(got);
                match format::decode_mark(got) {
                    Ok(Some(mark)) => see(BlockRange::new(at, len), mark),
                    Ok(None) => {}
                    Err(()) => return Err(Fault::Byte { offset, got }),
                }
                at += len;
            }
            Ok(())
        })
        .map_err(|fault| {
            let whole = BlockRange::new(Lba::new(0), self.geometry.len());
            let source = match fault {
                Fault::Byte { .. } => std::io::ErrorKind::InvalidData.into(),
                Fault::Host(source) => source,
            };
            self.failed("reading the marks of", whole, source)
        })
    }
}

/// Whether an image of `geometry` has a track map.
pub(super) fn has_tracks(geometry: &Geometry) -> bool {
    matches!(geometry.rule(), Rule::IsolationDistance(_) | Rule::Neighbours(_))
}

/// Visits the bytes of the map up to `end`, skipping holes.
fn for_each_byte_run(
    file: &LockedFile,
    end: u64,
    see: &mut impl FnMut(u64, &[u8]) -> Result<(), Fault>,
) -> Result<(), Fault> {
    let mut buf = vec![0; PIECE_LEN_BYTES];
    let mut offset = format::TRACK_MAP_OFFSET;
    while offset < end {
        let start = match rustix::fs::seek(&**file, SeekFrom::Data(offset)) {
            Ok(start) => start.max(offset),
            Err(Errno::NXIO) => return Ok(()),
            Err(Errno::INVAL | Errno::OPNOTSUPP) => offset,
            Err(error) => return Err(Fault::Host(error.into())),
        };
        if start >= end {
            return Ok(());
        }
        let len = (end - start).min(PIECE_LEN_BYTES as u64);
        let piece = &mut buf[..len as usize];
        file.read_exact_at(piece, start).map_err(Fault::Host)?;
        see(start, piece)?;
        offset = start + len;
    }
    Ok(())
}
