//! How a [`SimDisk`] is put together.

use crate::backing::{Backing, ImageBacking, MemoryBacking, NewImage, SyncedBacking};
use crate::cache::Sectors;
use crate::disk::Parts;
use crate::rule::RuleState;
use crate::{ImageError, Profile, ProfileError, SimDisk};
use imbrex_clockwork::{Clock, Prng, StillClock};
use imbrex_disk::{
    BLOCK_LEN_BYTES, Blocks, Geometry, GeometrySpec, NeighbourSpec, Rule, ShingleSpec, ZoneSpec,
};
use std::path::Path;
use std::sync::Arc;

/// A simulated disk that cannot be put together.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// The geometry has more zones than the simulator keeps.
    #[error("the drive has {got} zones; at most {bound} are simulated, so make them longer")]
    TooManyZones {
        /// How many it has.
        got: u32,
        /// How many it may have.
        bound: u32,
    },
    /// The zones could not be read back from the backing.
    #[error("reading the zone states")]
    Zones(#[source] imbrex_disk::DiskError),
    /// The marks of the blocks of overlapping tracks could not be read back from the backing.
    #[error("reading which blocks are destroyed")]
    Tracks(#[source] imbrex_disk::DiskError),
    /// The image's drive profile is not one.
    #[error(transparent)]
    Profile(#[from] ProfileError),
}

/// Collects the parts of a [`SimDisk`]; see [`SimDisk::builder`].
#[derive(Clone, Debug)]
pub struct SimDiskBuilder {
    pub(crate) geometry: Geometry,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) write_cache: Blocks,
    pub(crate) sectors: Sectors,
    pub(crate) event_log: bool,
    pub(crate) profile: Option<Profile>,
    pub(crate) moves: bool,
    pub(crate) refuse_destroying: bool,
    pub(crate) packs_memory: bool,
}

impl SimDiskBuilder {
    pub(crate) fn new(geometry: Geometry) -> SimDiskBuilder {
        SimDiskBuilder {
            geometry,
            clock: Arc::new(StillClock),
            write_cache: Blocks::ZERO,
            sectors: Sectors::default(),
            event_log: false,
            profile: None,
            moves: true,
            refuse_destroying: false,
            packs_memory: true,
        }
    }

    /// Keeps what a disk in memory holds as it is: it takes as much room as was written, and no request
    /// waits for the packing of another's blocks.
    pub fn unpacked(mut self) -> SimDiskBuilder {
        self.packs_memory = false;
        self
    }

    /// The drive's mechanics: requests take time. An image remembers them. The disk's geometry stays
    /// the builder's; [`Profile::geometry`] is the one that belongs to the profile.
    pub fn profile(mut self, profile: Profile) -> SimDiskBuilder {
        self.profile = Some(profile);
        self
    }

    /// Whether the profile's mechanics are at work (they are unless told otherwise): without them
    /// an image remembers its profile and yet takes no modelled time.
    pub fn mechanics(mut self, at_work: bool) -> SimDiskBuilder {
        self.moves = at_work;
        self
    }

    /// The clock that requests move on; without it nobody learns how long they took.
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> SimDiskBuilder {
        self.clock = clock;
        self
    }

    /// A volatile write cache of `capacity`: a power cut may lose what is in it. None by default:
    /// then only the request that the power cut catches on its way is in doubt.
    pub fn write_cache(mut self, capacity: Blocks) -> SimDiskBuilder {
        self.write_cache = capacity;
        self
    }

    /// Sectors shorter than a block, so that a power cut tears blocks: in a sequential zone what is left of the
    /// last one is filled up with zeros, elsewhere it is a mixture of what was written and what was there.
    /// A sector is as long as a block by default. No image remembers it.
    ///
    /// # Panics
    /// If `sector_len_bytes` does not divide the length of a block.
    pub fn sectors(mut self, sector_len_bytes: usize) -> SimDiskBuilder {
        assert!(BLOCK_LEN_BYTES.is_multiple_of(sector_len_bytes), "sectors fill blocks");
        self.sectors.len_bytes = sector_len_bytes;
        self
    }

    /// Sectors that break: two of three power cuts leave one block of what was on its way unreadable until it is written
    /// again, or its zone is reset ([`PowerCycle::broken`](crate::PowerCycle::broken)). Without it whatever was being
    /// written is there or not. No image remembers either.
    pub fn breaking_sectors(mut self) -> SimDiskBuilder {
        self.sectors.break_at_cuts = true;
        self
    }

    /// Keeps the event log hash; every request then takes the disk's one lock.
    pub fn event_log(mut self) -> SimDiskBuilder {
        self.event_log = true;
        self
    }

    /// Refuses every write that would destroy valid data on an overlapping track, with
    /// [`DiskError::WouldDestroy`](imbrex_disk::DiskError::WouldDestroy), instead of destroying it:
    /// for tests of a host that must never do so. Valid is what was written and not discarded. Every
    /// request then takes the disk's one lock.
    pub fn refuse_destroying(mut self) -> SimDiskBuilder {
        self.refuse_destroying = true;
        self
    }

    /// A disk in memory, all zeros.
    ///
    /// # Errors
    /// [`BuildError::TooManyZones`].
    pub fn memory(self) -> Result<SimDisk, BuildError> {
        let backing =
            if self.packs_memory { MemoryBacking::new() } else { MemoryBacking::unpacked() };
        self.build(Box::new(backing))
    }

    /// A disk in a new image file at `path`, all zeros. `label` is at most 64 bytes; `seed` decides
    /// the image's id and nothing else.
    ///
    /// # Errors
    /// [`ImageError`]: above all `Exists`, `NoSpace`, `TooLong`.
    pub fn create_image(self, path: &Path, label: &str, seed: u64) -> Result<SimDisk, ImageError> {
        let build = |source| ImageError::Build { path: path.to_owned(), source };
        // A rule that cannot be simulated must not leave a file behind.
        RuleState::new(&self.geometry).map_err(build)?;
        let image = ImageBacking::create(&NewImage {
            path,
            geometry: self.geometry,
            write_cache: self.write_cache,
            image_id: Prng::new(seed).derive("image id").next_u64(),
            label,
            profile_name: self.profile.as_ref().map_or("", Profile::name),
            profile_text: self.profile.as_ref().map_or("", Profile::text),
        })?;
        self.build_on_host(image).map_err(build)
    }

    /// On what the host may lose.
    pub(crate) fn build_on_host(
        self,
        backing: impl Backing + 'static,
    ) -> Result<SimDisk, BuildError> {
        self.build(Box::new(SyncedBacking::new(backing)))
    }

    fn build(self, backing: Box<dyn Backing>) -> Result<SimDisk, BuildError> {
        let profile = self.profile.filter(|_| self.moves);
        SimDisk::from_parts(Parts {
            mechanics: profile.map(|profile| profile.mechanics(self.geometry.len())),
            geometry: self.geometry,
            clock: self.clock,
            write_cache: self.write_cache,
            sectors: self.sectors,
            event_log: self.event_log,
            refuse_destroying: self.refuse_destroying,
            backing,
        })
    }
}

/// How to open an existing image; what is not said is taken from the image.
#[derive(Clone, Debug)]
pub struct OpenOptions {
    clock: Arc<dyn Clock>,
    write_cache: Option<Blocks>,
    event_log: bool,
    geometry: Option<Geometry>,
    moves: bool,
    refuse_destroying: bool,
}

impl Default for OpenOptions {
    fn default() -> OpenOptions {
        OpenOptions {
            clock: Arc::new(StillClock),
            write_cache: None,
            event_log: false,
            geometry: None,
            moves: true,
            refuse_destroying: false,
        }
    }
}

impl OpenOptions {
    /// See [`SimDiskBuilder::clock`].
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> OpenOptions {
        self.clock = clock;
        self
    }

    /// See [`SimDiskBuilder::mechanics`].
    pub fn mechanics(mut self, at_work: bool) -> OpenOptions {
        self.moves = at_work;
        self
    }

    /// Another volatile write cache than the image says.
    pub fn write_cache(mut self, capacity: Blocks) -> OpenOptions {
        self.write_cache = Some(capacity);
        self
    }

    /// See [`SimDiskBuilder::event_log`].
    pub fn event_log(mut self) -> OpenOptions {
        self.event_log = true;
        self
    }

    /// See [`SimDiskBuilder::refuse_destroying`].
    pub fn refuse_destroying(mut self) -> OpenOptions {
        self.refuse_destroying = true;
        self
    }

    /// Refuse the image unless it holds a drive of this geometry.
    pub fn expect_geometry(mut self, geometry: Geometry) -> OpenOptions {
        self.geometry = Some(geometry);
        self
    }
}

impl SimDisk {
    /// Opens the drive image at `path`, as it was left: also by a process that died.
    ///
    /// # Errors
    /// [`ImageError`] says what is wrong, where, and what to do.
    pub fn open_image(path: &Path, options: OpenOptions) -> Result<SimDisk, ImageError> {
        let (image, write_cache) = ImageBacking::open(path)?;
        let geometry = *image.geometry();
        if let Some(expected) = options.geometry
            && expected != geometry
        {
            return Err(ImageError::GeometryMismatch {
                path: path.to_owned(),
                expected: describe(&expected),
                got: describe(&geometry),
            });
        }
        let build = |source| ImageError::Build { path: path.to_owned(), source };
        let info = image.image().expect("an image has its info");
        let profile = match info.profile_text.as_str() {
            "" => None,
            text => Some(Profile::from_toml(text).map_err(|e| build(BuildError::Profile(e)))?),
        };
        let builder = SimDiskBuilder {
            geometry,
            profile,
            moves: options.moves,
            clock: options.clock,
            write_cache: options.write_cache.unwrap_or(write_cache),
            sectors: Sectors::default(),
            event_log: options.event_log,
            refuse_destroying: options.refuse_destroying,
            packs_memory: true,
        };
        builder.build_on_host(image).map_err(build)
    }

    /// Starts to put a disk of `geometry` together.
    pub fn builder(geometry: Geometry) -> SimDiskBuilder {
        SimDiskBuilder::new(geometry)
    }

    /// A small zoned disk in memory for tests: zone 0 is conventional, the others sequential; no
    /// limits on open zones, strict reads, no write cache, no mechanics.
    ///
    /// # Panics
    /// If `zone_count` is 0 or `zone_len` is zero or the disk is longer than 2^32 zones.
    pub fn tiny_zoned(zone_count: u32, zone_len: Blocks) -> SimDisk {
        let zones = ZoneSpec {
            zone_len,
            zone_capacity: zone_len,
            conventional_zone_count: 1,
            open_zone_limit: None,
            active_zone_limit: None,
            strict_reads: true,
        };
        let len = Blocks::new(u64::from(zone_count) * zone_len.get());
        let geometry = Geometry::new(GeometrySpec { len, rule: Rule::AtPointer(zones) })
            .expect("at least one zone of at least one block");
        SimDisk::builder(geometry).memory().expect("the zoned rule is simulated")
    }

    /// A small conventional disk in memory for tests: no write cache, no mechanics.
    ///
    /// # Panics
    /// If `len` is zero.
    pub fn tiny_conventional(len: Blocks) -> SimDisk {
        let geometry =
            Geometry::new(GeometrySpec { len, rule: Rule::Anywhere }).expect("at least one block");
        SimDisk::builder(geometry).memory().expect("the conventional rule is simulated")
    }

    /// A small shingled disk in memory for tests: no write cache, no mechanics.
    ///
    /// # Panics
    /// If `len` or `track_len` is zero, or `overlap_tracks` is not less than the number of tracks.
    pub fn tiny_shingled(len: Blocks, track_len: Blocks, overlap_tracks: u32) -> SimDisk {
        let rule = Rule::IsolationDistance(ShingleSpec { track_len, overlap_tracks });
        let geometry = Geometry::new(GeometrySpec { len, rule }).expect("tracks fit the disk");
        SimDisk::builder(geometry).memory().expect("the shingled rule is simulated")
    }

    /// A small interlaced disk in memory for tests: no write cache, no mechanics.
    ///
    /// # Panics
    /// If a length is zero.
    pub fn tiny_interlaced(len: Blocks, tracks: NeighbourSpec) -> SimDisk {
        let rule = Rule::Neighbours(tracks);
        let geometry = Geometry::new(GeometrySpec { len, rule }).expect("no track is empty");
        SimDisk::builder(geometry).memory().expect("the interlaced rule is simulated")
    }
}

/// A geometry in words, as an error message needs it: everything that may differ.
fn describe(geometry: &Geometry) -> String {
    let len = geometry.len();
    if let Some(NeighbourSpec { bottom_track_len, top_track_len }) = geometry.interlaced() {
        return format!(
            "an interlaced drive of {len} in bottom tracks of {bottom_track_len} and top tracks of \
             {top_track_len}"
        );
    }
    if let Rule::IsolationDistance(shingle) = geometry.rule() {
        let ShingleSpec { track_len, overlap_tracks } = shingle;
        return format!(
            "a shingled drive of {len} in tracks of {track_len}, a write destroys {overlap_tracks}"
        );
    }
    let Some(zones) = geometry.zones() else {
        return format!("a {} drive of {len}", geometry.rule().name());
    };
    let limit = |limit: Option<u32>| limit.map_or("any".to_owned(), |limit| limit.to_string());
    format!(
        "a zoned drive of {len} in {} zones of {} ({} writable; {} zones conventional, {} open, \
         {} active, {} reads)",
        geometry.zone_count(),
        zones.zone_len,
        zones.zone_capacity.get(),
        zones.conventional_zone_count,
        limit(zones.open_zone_limit),
        limit(zones.active_zone_limit),
        if zones.strict_reads { "strict" } else { "lenient" },
    )
}
