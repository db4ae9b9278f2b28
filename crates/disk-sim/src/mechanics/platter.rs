//! The platter: which track holds a block, and when the block passes under the head.
//!
//! ```text
//!     block 0 is on track 0, outermost; bit zones with fewer and fewer blocks a track inwards:
//!
//!       bit zone 0     tracks 0 .. n        outer_track_blocks a track
//!       bit zone 1     tracks n .. 2n       a little fewer
//!       ...
//!       last           innermost            inner_track_blocks
//!
//!     track t starts at the angle t * skew: while the last block of a track passes, the drive
//!     switches to the next one, and finds its first block just arriving.
//! ```
//!
//! An angle is measured as the time, in nanoseconds, that the platter takes to turn by it. The
//! angle under the head at time `t` is therefore exactly `t` modulo one revolution.
//!
//! Consecutive tracks alternate between the heads. A *cylinder* is one track of each head.

use serde::Deserialize;

/// The shape of the platters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PlatterSpec {
    /// Revolutions per minute.
    pub(crate) revolutions_per_minute: u64,
    /// Recording surfaces.
    pub(crate) head_count: u64,
    /// Bit zones, from the outermost to the innermost.
    pub(crate) bit_zone_count: u64,
    /// Blocks on an outermost track.
    pub(crate) outer_track_blocks: u64,
    /// Blocks on an innermost track.
    pub(crate) inner_track_blocks: u64,
    /// From the end of a track to the start of the next: head or track switch, including the skew.
    pub(crate) track_switch_ns: u64,
    /// A streaming write loses one revolution every this many tracks, because the drive waits until
    /// it is back on track. 0 for never.
    pub(crate) write_retry_every_tracks: u64,
}

/// Where a block lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Spot {
    /// The track, counted in the order of blocks.
    pub(crate) track: u64,
    /// The block's place on the track.
    pub(crate) index: u64,
    /// How many blocks the track holds.
    pub(crate) track_blocks: u64,
}

#[derive(Clone, Debug)]
struct BitZone {
    first_block: u64,
    first_track: u64,
    track_blocks: u64,
}

/// The layout of one drive.
#[derive(Clone, Debug)]
pub(crate) struct Platter {
    spec: PlatterSpec,
    revolution_ns: u64,
    zones: Vec<BitZone>,
    track_count: u64,
}

impl Platter {
    /// Lays out `len_blocks` blocks: each bit zone gets as many tracks as it needs.
    pub(crate) fn new(spec: PlatterSpec, len_blocks: u64) -> Platter {
        let steps = (spec.bit_zone_count - 1).max(1);
        let narrowing = spec.outer_track_blocks - spec.inner_track_blocks;
        let track_blocks = |zone: u64| spec.outer_track_blocks - narrowing * zone / steps;
        let blocks_per_step: u64 = (0..spec.bit_zone_count).map(track_blocks).sum();
        let zone_tracks = len_blocks.div_ceil(blocks_per_step);
        let mut first_block = 0;
        let zones = (0..spec.bit_zone_count)
            .map(|zone| {
                let bit_zone = BitZone {
                    first_block,
                    first_track: zone * zone_tracks,
                    track_blocks: track_blocks(zone),
                };
                first_block += zone_tracks * bit_zone.track_blocks;
                bit_zone
            })
            .collect();
        assert!(first_block >= len_blocks, "the tracks hold every block");
        Platter {
            spec,
            // 7200 rpm: one revolution is 8 333 333 ns.
            revolution_ns: 60_000_000_000 / spec.revolutions_per_minute,
            zones,
            track_count: zone_tracks * spec.bit_zone_count,
        }
    }

    pub(crate) fn track_switch_ns(&self) -> u64 {
        self.spec.track_switch_ns
    }

    pub(crate) fn cylinder_count(&self) -> u64 {
        self.track_count.div_ceil(self.spec.head_count)
    }

    pub(crate) fn cylinder(&self, track: u64) -> u64 {
        track / self.spec.head_count
    }

    /// The spot of `block`.
    pub(crate) fn spot(&self, block: u64) -> Spot {
        let zone = self.zones.partition_point(|zone| zone.first_block <= block) - 1;
        let BitZone { first_block, first_track, track_blocks } = self.zones[zone];
        let into = block - first_block;
        let (track, index) = (first_track + into / track_blocks, into % track_blocks);
        Spot { track, index, track_blocks }
    }

    /// The first block of `track`; on a drive's last tracks it may lie past the drive's end.
    pub(crate) fn first_block(&self, track: u64) -> u64 {
        let zone = self.zones.partition_point(|zone| zone.first_track <= track) - 1;
        let BitZone { first_block, first_track, track_blocks } = self.zones[zone];
        first_block + (track - first_track) * track_blocks
    }

    /// The angle at which the block at `spot` begins.
    fn angle_ns(&self, spot: Spot) -> u64 {
        let skew = u128::from(spot.track) * u128::from(self.spec.track_switch_ns);
        let on_track = u128::from(spot.index * self.revolution_ns / spot.track_blocks);
        ((skew + on_track) % u128::from(self.revolution_ns)) as u64
    }

    /// The first moment, not before `from_ns`, at which the block at `spot` begins to pass the
    /// head.
    pub(crate) fn next_pass_ns(&self, spot: Spot, from_ns: u64) -> u64 {
        let now = from_ns % self.revolution_ns;
        let angle = self.angle_ns(spot);
        let wait = if angle >= now { angle - now } else { angle + self.revolution_ns - now };
        from_ns + wait
    }

    /// When the head has passed `len` blocks, if the first begins to pass at `from_ns`. Also the
    /// track it is on then.
    pub(crate) fn transfer(&self, block: u64, len: u64, from_ns: u64, write: bool) -> (u64, u64) {
        let mut spot = self.spot(block);
        let (mut block, mut left, mut at_ns) = (block, len, from_ns);
        loop {
            let part = left.min(spot.track_blocks - spot.index);
            let turn = |index: u64| index * self.revolution_ns / spot.track_blocks;
            at_ns += turn(spot.index + part) - turn(spot.index);
            block += part;
            left -= part;
            if left == 0 {
                return (at_ns, spot.track);
            }
            at_ns += self.spec.track_switch_ns;
            spot = self.spot(block);
            let every = self.spec.write_retry_every_tracks;
            if write && every != 0 && spot.track.is_multiple_of(every) {
                at_ns += self.revolution_ns;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn platter(len: u64) -> Platter {
        let spec = PlatterSpec {
            revolutions_per_minute: 7_200,
            head_count: 2,
            bit_zone_count: 3,
            outer_track_blocks: 100,
            inner_track_blocks: 50,
            track_switch_ns: 1_000_000,
            write_retry_every_tracks: 0,
        };
        Platter::new(spec, len)
    }

    #[test]
    fn every_block_has_its_own_spot() {
        let platter = platter(1_000);
        let spots: std::collections::BTreeSet<(u64, u64)> = (0..1_000)
            .map(|block| platter.spot(block))
            .inspect(|spot| assert!(spot.index < spot.track_blocks))
            .map(|spot| (spot.track, spot.index))
            .collect();
        assert_eq!(spots.len(), 1_000);
        assert_eq!(platter.spot(0).track_blocks, 100);
        assert_eq!(platter.spot(500), Spot { track: 5, index: 0, track_blocks: 75 });
        assert_eq!(platter.spot(999).track_blocks, 50);
    }

    #[test]
    fn a_stream_arrives_at_each_track_just_in_time() {
        let platter = platter(1_000_000);
        let start = platter.next_pass_ns(platter.spot(0), 5);
        for len in [1, 99, 100, 101, 1_000, 123_456] {
            let (end_ns, _) = platter.transfer(0, len, start, false);
            let next = platter.spot(len);
            let ready = if next.index == 0 { end_ns + 1_000_000 } else { end_ns };
            assert_eq!(platter.next_pass_ns(next, ready), ready, "after {len} blocks");
        }
    }

    #[test]
    fn a_transfer_in_pieces_takes_as_long_as_in_one() {
        let platter = platter(100_000);
        let whole = platter.transfer(7, 5_000, 0, false).0;
        let (middle, _) = platter.transfer(7, 2_345, 0, false);
        assert_eq!(platter.transfer(7 + 2_345, 5_000 - 2_345, middle, false).0, whole);
    }
}
