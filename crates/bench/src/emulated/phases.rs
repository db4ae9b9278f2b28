//! A conventional drive whose addresses cover its tracks in three phases.
//!
//! ```text
//!   addresses   0  1  2  3 | 4  5 | 6  7      tracks of a length that the drive knows nothing of
//!   tracks      0  2  4  6 | 1  5 | 3  7      every other one, every other of the rest, the rest
//! ```
//!
//! A writer that fills it from its first address does what a three-phase scheme does on interlaced
//! tracks, but without overlap: it pays for skipped tracks and for no rewrites.
//!
//! Source: the drive *CMR* of KVIMR, section 2.3.

use imbrex_disk::{
    BlockRange, Blocks, Disk, DiskError, DiskLayer, Lba, Persist, ReadRequest, ZoneId, ZoneInfo,
};
use std::sync::Arc;

/// See the module.
#[derive(Debug)]
pub(super) struct PhasedTracks {
    disk: Arc<dyn Disk>,
    track_len: Blocks,
    track_count: u64,
}

/// The part of a request within one track: its position and length.
type Piece = (Lba, Blocks);

impl PhasedTracks {
    /// A view of `disk` in tracks of `track_len`. Blocks after the last whole track stay in place.
    pub(super) fn new(disk: Arc<dyn Disk>, track_len: Blocks) -> PhasedTracks {
        let track_count = disk.geometry().len().get() / track_len.get().max(1);
        PhasedTracks { disk, track_len, track_count }
    }

    /// The track of the address range number `index`.
    fn track(&self, index: u64) -> u64 {
        let bottom_count = self.track_count.div_ceil(2);
        let first_top_count = (self.track_count - bottom_count).div_ceil(2);
        match index {
            _ if self.track_count <= index => index,
            _ if index < bottom_count => 2 * index,
            _ if index - bottom_count < first_top_count => 4 * (index - bottom_count) + 1,
            _ => 4 * (index - bottom_count - first_top_count) + 3,
        }
    }

    /// The parts of a request, in order.
    fn pieces(&self, range: BlockRange) -> Vec<Piece> {
        let track_len = self.track_len.get();
        let mut pieces = Vec::new();
        let mut at = range.start.get();
        let end = range.end().get();
        while at < end {
            let (index, offset) = (at / track_len, at % track_len);
            let len = (track_len - offset).min(end - at);
            pieces.push((Lba::new(self.track(index) * track_len + offset), Blocks::new(len)));
            at += len;
        }
        pieces
    }

    fn range(at: Lba, len_bytes: usize) -> BlockRange {
        BlockRange::new(at, Blocks::holding(len_bytes as u64))
    }
}

impl DiskLayer for PhasedTracks {
    fn below(&self) -> &dyn Disk {
        &*self.disk
    }

    fn pass_read(&self, at: Lba, buf: &mut [u8]) -> Result<(), DiskError> {
        self.read_batch(&mut [ReadRequest { at, buf }])
    }

    fn pass_read_batch(&self, requests: &mut [ReadRequest<'_>]) -> Result<(), DiskError> {
        let mut parts = Vec::new();
        for request in requests {
            let mut rest = &mut *request.buf;
            for (at, len) in self.pieces(Self::range(request.at, rest.len())) {
                let (buf, after) = rest.split_at_mut((len.bytes() as usize).min(rest.len()));
                parts.push(ReadRequest { at, buf });
                rest = after;
            }
        }
        match &mut parts[..] {
            [only] => self.disk.read(only.at, only.buf),
            parts => self.disk.read_batch(parts),
        }
    }

    fn pass_write(&self, at: Lba, data: &[u8], persist: Persist) -> Result<(), DiskError> {
        let mut rest = data;
        for (at, len) in self.pieces(Self::range(at, data.len())) {
            let (now, after) = rest.split_at((len.bytes() as usize).min(rest.len()));
            self.disk.write(at, now, persist)?;
            rest = after;
        }
        Ok(())
    }

    fn pass_discard(&self, range: BlockRange) -> Result<(), DiskError> {
        let mut pieces = self.pieces(range).into_iter();
        pieces.try_for_each(|(at, len)| self.disk.discard(BlockRange::new(at, len)))
    }

    fn pass_zone(&self, _zone: ZoneId) -> Option<ZoneInfo> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use imbrex_disk::{BLOCK_LEN_BYTES, Geometry, GeometrySpec, Rule};
    use imbrex_disk_sim::SimDisk;

    fn phases(track_count: u64, track_len: u64) -> PhasedTracks {
        // One block remains after the last track.
        let len = Blocks::new(track_count * track_len + 1);
        let geometry = Geometry::new(GeometrySpec { len, rule: Rule::Anywhere }).unwrap();
        PhasedTracks::new(
            Arc::new(SimDisk::builder(geometry).memory().unwrap()),
            Blocks::new(track_len),
        )
    }

    #[test]
    fn every_track_is_somebodys_and_the_first_phase_is_every_other_one() {
        for track_count in 1..20 {
            let disk = phases(track_count, 2);
            let mut tracks: Vec<u64> = (0..track_count).map(|index| disk.track(index)).collect();
            let bottoms = tracks[..tracks.len().div_ceil(2)].iter();
            assert!(bottoms.enumerate().all(|(at, &track)| track == 2 * at as u64), "{tracks:?}");
            tracks.sort_unstable();
            assert_eq!(tracks, (0..track_count).collect::<Vec<u64>>());
            assert_eq!(disk.track(track_count), track_count, "what is left over stays");
        }
        let disk = phases(8, 2);
        let order: Vec<u64> = (0..8).map(|index| disk.track(index)).collect();
        assert_eq!(order, [0, 2, 4, 6, 1, 5, 3, 7]);
    }

    #[test]
    fn writes_across_tracks_are_read_back() {
        let disk = phases(8, 2);
        let data: Vec<u8> = (0..17 * BLOCK_LEN_BYTES).map(|i| (i / 100 % 251) as u8).collect();
        disk.write(Lba::new(0), &data, Persist::Cached).unwrap();
        for (at, count) in [(0, 17), (1, 3), (5, 8), (16, 1)] {
            let mut found = vec![0; count * BLOCK_LEN_BYTES];
            disk.read(Lba::new(at), &mut found).unwrap();
            let from = at as usize * BLOCK_LEN_BYTES;
            assert_eq!(found, data[from..from + found.len()], "{count} blocks at {at}");
        }
        let mut second = vec![0; BLOCK_LEN_BYTES];
        disk.disk.read(Lba::new(4), &mut second).unwrap();
        assert_eq!(second, data[2 * BLOCK_LEN_BYTES..][..BLOCK_LEN_BYTES], "track 2");
        disk.discard(BlockRange::new(Lba::new(3), Blocks::new(5))).unwrap();
    }
}
