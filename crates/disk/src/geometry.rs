//! Geometry: the length of a disk and the rule under which it writes. Checked once, at the door.

use crate::{BLOCK_LEN_BYTES, BlockRange, Blocks, DiskError, GeometryError, Lba, ZoneId};
use std::fmt;

/// Host-managed zones: conventional zones first, then sequential-write-required zones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ZoneSpec {
    /// Length of every zone. The last one may be shorter.
    pub zone_len: Blocks,
    /// How much of a sequential zone can be written; `zone_len` unless the drive says less.
    pub zone_capacity: Blocks,
    /// How many zones at the start are conventional.
    pub conventional_zone_count: u32,
    /// Most zones open at a time; `None` for no limit.
    pub open_zone_limit: Option<u32>,
    /// Most zones open or closed at a time; `None` for no limit.
    pub active_zone_limit: Option<u32>,
    /// Whether a read at or above a write pointer is an error, and one that leaves or enters a
    /// sequential zone. If not, blocks above a pointer read as zeros.
    pub strict_reads: bool,
}

/// Raw shingled tracks, written anywhere at the host's own risk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShingleSpec {
    /// Length of a track.
    pub track_len: Blocks,
    /// How many of the following tracks a write destroys.
    pub overlap_tracks: u32,
}

impl ShingleSpec {
    /// The overlap in blocks. Valid data at least this far behind the *track* of a write's last
    /// block is safe from that write.
    pub fn isolation_len(&self) -> Blocks {
        Blocks::new(self.track_len.get().saturating_mul(u64::from(self.overlap_tracks)))
    }
}

/// Raw interlaced tracks: even tracks are bottom, odd tracks are top.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NeighbourSpec {
    /// Length of a bottom (even, wide) track.
    pub bottom_track_len: Blocks,
    /// Length of a top (odd, narrow) track: about 0.8 of a bottom one, or the same.
    pub top_track_len: Blocks,
}

impl NeighbourSpec {
    /// The track that holds block `block`.
    fn track_of(&self, block: u64) -> TrackId {
        let (bottom, pair) = (self.bottom_track_len.get(), self.pair_len());
        TrackId(2 * (block / pair) + u64::from(bottom <= block % pair))
    }

    /// The first block of `track`, or `u64::MAX` if its number is too large.
    fn track_start(&self, track: u64) -> u64 {
        let start = (track / 2).saturating_mul(self.pair_len());
        start.saturating_add(if track.is_multiple_of(2) { 0 } else { self.bottom_track_len.get() })
    }

    /// The length of a bottom track and the top track that follows it.
    fn pair_len(&self) -> u64 {
        self.bottom_track_len.get().saturating_add(self.top_track_len.get())
    }
}

/// The number of a track of an interlaced disk, counted from the start. Even tracks lie at the
/// bottom, odd tracks on top of their two neighbours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TrackId(pub u64);

impl TrackId {
    /// Whether this track overlaps its neighbours. If not, they overlap it.
    pub const fn is_top(self) -> bool {
        !self.0.is_multiple_of(2)
    }
}

impl fmt::Display for TrackId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} track {}", if self.is_top() { "top" } else { "bottom" }, self.0)
    }
}

/// What a write may do and what it destroys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// Conventional: a write may go anywhere and destroys nothing else.
    Anywhere,
    /// Host-managed: a write goes to the write pointer of its zone.
    AtPointer(ZoneSpec),
    /// Raw shingled: a write destroys the tracks that follow.
    IsolationDistance(ShingleSpec),
    /// Raw interlaced: a write to a bottom track destroys its top neighbours.
    Neighbours(NeighbourSpec),
}

impl Rule {
    /// The rule's name, as messages and files use it.
    pub fn name(&self) -> &'static str {
        match self {
            Rule::Anywhere => "conventional",
            Rule::AtPointer(_) => "zoned",
            Rule::IsolationDistance(_) => "shingled",
            Rule::Neighbours(_) => "interlaced",
        }
    }
}

/// What [`Geometry::new`] checks: plain fields, any values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GeometrySpec {
    /// Length of the whole disk.
    pub len: Blocks,
    /// The rule it writes under.
    pub rule: Rule,
}

/// A checked geometry: code that holds one may rely on every rule that [`Geometry::new`] names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    spec: GeometrySpec,
}

impl Geometry {
    /// Checks `spec`.
    ///
    /// # Errors
    /// [`GeometryError`] names the field and its bound: the disk and every zone and track have at
    /// least one block, `zone_capacity <= zone_len`, conventional zones fit the disk, limits are at
    /// least one and `open_zone_limit <= active_zone_limit`, `overlap_tracks < track count`.
    pub fn new(spec: GeometrySpec) -> Result<Geometry, GeometryError> {
        at_least_one("len", spec.len.get())?;
        match spec.rule {
            Rule::Anywhere => {}
            Rule::AtPointer(zones) => {
                at_least_one("zone_len", zones.zone_len.get())?;
                at_least_one("zone_capacity", zones.zone_capacity.get())?;
                at_most("zone_capacity", zones.zone_capacity.get(), zones.zone_len.get())?;
                let zone_count = spec.len.get().div_ceil(zones.zone_len.get());
                at_most("zone count", zone_count, u64::from(u32::MAX))?;
                let conventional = u64::from(zones.conventional_zone_count);
                at_most("conventional_zone_count", conventional, zone_count)?;
                for (what, limit) in [
                    ("open_zone_limit", zones.open_zone_limit),
                    ("active_zone_limit", zones.active_zone_limit),
                ] {
                    if let Some(limit) = limit {
                        at_least_one(what, u64::from(limit))?;
                    }
                }
                if let (Some(open), Some(active)) = (zones.open_zone_limit, zones.active_zone_limit)
                {
                    at_most("open_zone_limit", u64::from(open), u64::from(active))?;
                }
            }
            Rule::IsolationDistance(shingle) => {
                at_least_one("track_len", shingle.track_len.get())?;
                let track_count = spec.len.get().div_ceil(shingle.track_len.get());
                at_most("overlap_tracks", u64::from(shingle.overlap_tracks), track_count - 1)?;
            }
            Rule::Neighbours(tracks) => {
                at_least_one("bottom_track_len", tracks.bottom_track_len.get())?;
                at_least_one("top_track_len", tracks.top_track_len.get())?;
            }
        }
        Ok(Geometry { spec })
    }

    /// Length of the whole disk.
    pub fn len(&self) -> Blocks {
        self.spec.len
    }

    /// Always false: a geometry has at least one block.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// The rule the disk writes under.
    pub fn rule(&self) -> &Rule {
        &self.spec.rule
    }

    /// The zones, where the rule has them.
    pub fn zones(&self) -> Option<&ZoneSpec> {
        match &self.spec.rule {
            Rule::AtPointer(zones) => Some(zones),
            _ => None,
        }
    }

    /// How many zones; 0 where the rule has none.
    pub fn zone_count(&self) -> u32 {
        self.zones().map_or(0, |z| self.len().get().div_ceil(z.zone_len.get()) as u32)
    }

    /// The zone that holds `at`, if the rule has zones and the disk holds `at`.
    pub fn zone_of(&self, at: Lba) -> Option<ZoneId> {
        let zones = self.zones()?;
        (at.get() < self.len().get()).then(|| ZoneId((at.get() / zones.zone_len.get()) as u32))
    }

    /// The address space of `zone`, including its unwritable tail. `None` past the last zone.
    pub fn zone_range(&self, zone: ZoneId) -> Option<BlockRange> {
        let zones = self.zones()?;
        let start = u64::from(zone.0) * zones.zone_len.get();
        (start < self.len().get()).then(|| {
            let len = zones.zone_len.get().min(self.len().get() - start);
            BlockRange::new(Lba::new(start), Blocks::new(len))
        })
    }

    /// How much of `zone` can be written; `None` past the last zone.
    pub fn zone_capacity(&self, zone: ZoneId) -> Option<Blocks> {
        let zones = self.zones()?;
        let range = self.zone_range(zone)?;
        if zone.0 < zones.conventional_zone_count {
            Some(range.len)
        } else {
            Some(range.len.min(zones.zone_capacity))
        }
    }

    /// The tracks, if the rule is [`Rule::Neighbours`].
    pub fn interlaced(&self) -> Option<&NeighbourSpec> {
        match &self.spec.rule {
            Rule::Neighbours(tracks) => Some(tracks),
            _ => None,
        }
    }

    /// The number of interlaced tracks, of which the last may be shorter. 0 under the other rules.
    pub fn track_count(&self) -> u64 {
        let last = Lba::new(self.len().get() - 1);
        self.track_of(last).map_or(0, |track| track.0 + 1)
    }

    /// The interlaced track that holds `at`, if the rule has tracks and the disk holds `at`.
    pub fn track_of(&self, at: Lba) -> Option<TrackId> {
        let tracks = self.interlaced()?;
        (at.get() < self.len().get()).then(|| tracks.track_of(at.get()))
    }

    /// The blocks of an interlaced track; `None` past the last one.
    pub fn track_range(&self, track: TrackId) -> Option<BlockRange> {
        let tracks = self.interlaced()?;
        let (start, end) =
            (tracks.track_start(track.0), tracks.track_start(track.0.saturating_add(1)));
        let len = self.len().get();
        (start < len).then(|| BlockRange::new(Lba::new(start), Blocks::new(end.min(len) - start)))
    }

    /// What a write to `track` destroys: the top tracks before and after a bottom track. A range is
    /// empty if there is no such track, and both are for a top track.
    pub fn tracks_above(&self, track: TrackId) -> [BlockRange; 2] {
        let nothing = BlockRange::default();
        if track.is_top() {
            return [nothing; 2];
        }
        let before = track.0.checked_sub(1).and_then(|top| self.track_range(TrackId(top)));
        let behind = self.track_range(TrackId(track.0.saturating_add(1)));
        [before.unwrap_or(nothing), behind.unwrap_or(nothing)]
    }

    /// The reads that together read `range`: one for each zone on a strict drive, which reads no
    /// sequential zone together with another one; the whole range on every other disk.
    pub fn read_parts(&self, range: BlockRange) -> impl Iterator<Item = BlockRange> + '_ {
        let is_strict = self.zones().is_some_and(|zones| zones.strict_reads);
        let mut at = range.start;
        std::iter::from_fn(move || {
            if at >= range.end() {
                return None;
            }
            let zone =
                self.zone_of(at).filter(|_| is_strict).and_then(|zone| self.zone_range(zone));
            let end = zone.map_or(range.end(), |zone| zone.end().min(range.end()));
            let part = BlockRange::new(at, end - at);
            at = end;
            Some(part)
        })
    }

    /// The parts into which a write is cut by what they destroy: one part for each interlaced
    /// track, in ascending order, or the whole write under the other rules. A part may destroy what
    /// an earlier one wrote.
    pub fn write_parts(&self, write: BlockRange) -> impl Iterator<Item = BlockRange> + '_ {
        let mut at = write.start;
        std::iter::from_fn(move || {
            if at >= write.end() {
                return None;
            }
            let track = self.track_of(at).and_then(|track| self.track_range(track));
            let end = track.map_or(write.end(), |track| track.end().min(write.end()));
            let part = BlockRange::new(at, end - at);
            at = end;
            Some(part)
        })
    }

    /// What a write of `write` destroys besides its own blocks: a range before it and a range
    /// behind it. Either may be empty.
    ///
    /// ```text
    ///     top t - 1       bottom t        top t + 1
    ///     xxxxxxxxxxxx    ....[written]   xxxxxxxxxxxx     the rest of its own track is spared
    /// ```
    ///
    /// A write to a bottom track, however short, destroys the whole of both tracks that overlap it.
    /// The host must assume this, because it does not know where on the circle a block lies. On
    /// shingled tracks the range before is empty, and the range behind is [`Geometry::reach`].
    pub fn reach_around(&self, write: BlockRange) -> [BlockRange; 2] {
        let mut before = BlockRange::new(write.start, Blocks::ZERO);
        if self.interlaced().is_none() {
            return [before, self.reach(write)];
        }
        let mut behind = BlockRange::new(write.end(), Blocks::ZERO);
        let bottoms = self.write_parts(write).filter_map(|part| self.track_of(part.start));
        for above in bottoms.flat_map(|track| self.tracks_above(track)) {
            if above.len.is_zero() {
                continue;
            }
            if above.start < before.start {
                let end = above.end().min(write.start);
                before = BlockRange::new(above.start, end - above.start);
            }
            if behind.end() < above.end() {
                let start = above.start.max(write.end());
                behind = BlockRange::new(start, above.end() - start);
            }
        }
        [before, behind]
    }

    /// What a write of `write` destroys behind it on shingled tracks. Empty, at the write's end,
    /// under the other rules.
    ///
    /// ```text
    ///     track t0        track t0 + 1 = t1    t1 + 1 ... t1 + overlap_tracks
    ///     ....[written    written]xxxxxxxxx    xxxxxxxxxxxxxxxxxxxxxxxxxxxxxx
    ///     ....[wr]........xxxxxxxxxxxxxxxxx    a write within one track spares the rest of it
    /// ```
    ///
    /// Tracks are written in ascending order, and each destroys the `overlap_tracks` after it. The
    /// rest of the last track is lost too, unless the write touches no other track. Splitting a run
    /// into several requests makes no difference.
    pub fn reach(&self, write: BlockRange) -> BlockRange {
        let Rule::IsolationDistance(shingle) = self.rule() else {
            return BlockRange::new(write.end(), Blocks::ZERO);
        };
        if write.len.is_zero() {
            return BlockRange::new(write.end(), Blocks::ZERO);
        }
        let track_len = shingle.track_len.get();
        let track = |block: u64| block / track_len;
        let (first, last) = (track(write.start.get()), track(write.end().get() - 1));
        let overlap = u64::from(shingle.overlap_tracks);
        let last_end = (last + 1).saturating_mul(track_len);
        let start = if first == last || overlap == 0 { last_end } else { write.end().get() };
        let end = last_end.saturating_add(overlap.saturating_mul(track_len)).min(self.len().get());
        let start = start.min(end);
        BlockRange::new(Lba::new(start), Blocks::new(end - start))
    }

    /// The blocks of a request for `len_bytes` bytes from `at`, after the checks that every disk
    /// makes of every read and write.
    ///
    /// # Errors
    /// [`DiskError::NotBlocks`], [`DiskError::OutOfRange`].
    pub fn request(&self, at: Lba, len_bytes: usize) -> Result<BlockRange, DiskError> {
        if len_bytes == 0 || !len_bytes.is_multiple_of(BLOCK_LEN_BYTES) {
            return Err(DiskError::NotBlocks { at, len_bytes });
        }
        let range = BlockRange::new(at, Blocks::holding(len_bytes as u64));
        self.check(range).map(|()| range)
    }

    /// Checks that the disk holds every block of `range`.
    ///
    /// # Errors
    /// [`DiskError::OutOfRange`].
    pub fn check(&self, range: BlockRange) -> Result<(), DiskError> {
        if self.holds(range) {
            Ok(())
        } else {
            Err(DiskError::OutOfRange { range, len: self.len() })
        }
    }

    /// Whether the disk holds every block of `range`.
    pub fn holds(&self, range: BlockRange) -> bool {
        range.start.get().checked_add(range.len.get()).is_some_and(|end| end <= self.len().get())
    }
}

fn at_least_one(what: &'static str, got: u64) -> Result<(), GeometryError> {
    if got == 0 { Err(GeometryError::Zero { what }) } else { Ok(()) }
}

fn at_most(what: &'static str, got: u64, bound: u64) -> Result<(), GeometryError> {
    if got > bound { Err(GeometryError::TooLarge { what, got, bound }) } else { Ok(()) }
}

#[cfg(test)]
mod tests;
