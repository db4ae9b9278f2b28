//! Assembles a [`SimDisk`] from its parts.

use crate::backing::{Access, Backing, ImageBacking, MemoryBacking, NewImage, SyncedBacking};
use crate::build_error::BuildError;
use crate::cache::Sectors;
use crate::disk::Parts;
use crate::rule::RuleState;
use crate::{ImageError, Profile, SimDisk};
use imbrex_clockwork::{Clock, Prng, StillClock};
use imbrex_disk::{
    BLOCK_LEN_BYTES, Blocks, Geometry, GeometrySpec, NeighbourSpec, Rule, ShingleSpec, ZoneSpec,
};
use std::path::Path;
use std::sync::Arc;

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
    pub(crate) is_read_only: bool,
    /// How much of a disk in memory stays uncompressed; `None`: all.
    pub(crate) unpacked_len_bytes: Option<u64>,
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
            is_read_only: false,
            unpacked_len_bytes: Some(0),
        }
    }

    /// Stores blocks of a disk in memory uncompressed. The disk then takes as much memory as was
    /// written, and no request waits while another request's blocks are compressed.
    pub fn unpacked(mut self) -> SimDiskBuilder {
        self.unpacked_len_bytes = None;
        self
    }

    /// Stores up to `len_bytes` of a disk in memory uncompressed, and at least 32 MiB: what was used last.
    /// The rest is compressed, which takes most of the time of a long run.
    pub fn unpacked_up_to(mut self, len_bytes: u64) -> SimDiskBuilder {
        self.unpacked_len_bytes = Some(len_bytes);
        self
    }

    /// The drive's mechanics: requests take time. An image remembers them. The disk's geometry
    /// remains the builder's; [`Profile::geometry`] returns the one that belongs to the profile.
    pub fn profile(mut self, profile: Profile) -> SimDiskBuilder {
        self.profile = Some(profile);
        self
    }

    /// Whether the profile's mechanics run; true by default. Without them an image still remembers
    /// its profile, but requests take no modelled time.
    pub fn mechanics(mut self, at_work: bool) -> SimDiskBuilder {
        self.moves = at_work;
        self
    }

    /// The clock that requests advance. Without it their duration is not observable.
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> SimDiskBuilder {
        self.clock = clock;
        self
    }

    /// A volatile write cache of `capacity`: a power cut may lose its content. None by default:
    /// then only the request that is under way at a power cut is in doubt.
    pub fn write_cache(mut self, capacity: Blocks) -> SimDiskBuilder {
        self.write_cache = capacity;
        self
    }

    /// Sectors shorter than a block, so that a power cut tears blocks. By default a sector is as
    /// long as a block.
    ///
    /// In a sequential zone the rest of a torn last block is filled with zeros. Elsewhere a torn
    /// block is a mixture of new and old sectors. An image does not remember this setting.
    ///
    /// # Panics
    /// If `sector_len_bytes` does not divide the length of a block.
    pub fn sectors(mut self, sector_len_bytes: usize) -> SimDiskBuilder {
        assert!(BLOCK_LEN_BYTES.is_multiple_of(sector_len_bytes), "sectors fill blocks");
        self.sectors.len_bytes = sector_len_bytes;
        self
    }

    /// Sectors that break: two power cuts in three leave one block of an unfinished write
    /// unreadable, until it is written again or its zone is reset
    /// ([`PowerCycle::broken`](crate::PowerCycle::broken)).
    ///
    /// Without this setting, every block of an unfinished write is either stored or not. An image
    /// does not remember this setting.
    pub fn breaking_sectors(mut self) -> SimDiskBuilder {
        self.sectors.break_at_cuts = true;
        self
    }

    /// Keeps the event log hash. Every request then takes the disk's single lock.
    pub fn event_log(mut self) -> SimDiskBuilder {
        self.event_log = true;
        self
    }

    /// Refuses every write that would destroy valid data on an overlapping track, with
    /// [`DiskError::WouldDestroy`](imbrex_disk::DiskError::WouldDestroy), instead of destroying the
    /// data. For tests of a host that must never destroy any. Data is valid if it was written and
    /// not discarded. Every request then takes the disk's single lock.
    pub fn refuse_destroying(mut self) -> SimDiskBuilder {
        self.refuse_destroying = true;
        self
    }

    /// A disk in memory, all zeros.
    ///
    /// # Errors
    /// [`BuildError::TooManyZones`].
    pub fn memory(self) -> Result<SimDisk, BuildError> {
        let backing = match self.unpacked_len_bytes {
            Some(len_bytes) => MemoryBacking::unpacked_up_to(len_bytes),
            None => MemoryBacking::unpacked(),
        };
        self.build(Box::new(backing))
    }

    /// A disk in a new image file at `path`, all zeros. `label` is at most 64 bytes. `seed` decides
    /// only the image's id.
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

    /// How durable the host makes the image.
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
            is_read_only: self.is_read_only,
            backing,
        })
    }
}

/// How to open an existing image. Settings that are not given come from the image.
#[derive(Clone, Debug)]
pub struct OpenOptions {
    clock: Arc<dyn Clock>,
    write_cache: Option<Blocks>,
    event_log: bool,
    geometry: Option<Geometry>,
    moves: bool,
    refuse_destroying: bool,
    is_read_only: bool,
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
            is_read_only: false,
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

    /// A volatile write cache of another capacity than the image states.
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

    /// Opens the image for reading only: the disk refuses writes with
    /// [`DiskError::ReadOnly`](imbrex_disk::DiskError::ReadOnly), and the file stays as it is.
    /// Several disks can have an image open for reading; none has it open for writing meanwhile.
    pub fn read_only(mut self) -> OpenOptions {
        self.is_read_only = true;
        self
    }

    /// Refuses the image unless its drive has this geometry.
    pub fn expect_geometry(mut self, geometry: Geometry) -> OpenOptions {
        self.geometry = Some(geometry);
        self
    }
}

impl SimDisk {
    /// Opens the drive image at `path` in the state in which it was left, even by a process that
    /// died.
    ///
    /// # Errors
    /// [`ImageError`] states what is wrong, where, and what to do.
    pub fn open_image(path: &Path, options: OpenOptions) -> Result<SimDisk, ImageError> {
        let access = if options.is_read_only { Access::Read } else { Access::Write };
        let (image, write_cache) = ImageBacking::open(path, access)?;
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
            is_read_only: options.is_read_only,
            unpacked_len_bytes: Some(0),
        };
        builder.build_on_host(image).map_err(build)
    }

    /// Starts building a disk of `geometry`.
    pub fn builder(geometry: Geometry) -> SimDiskBuilder {
        SimDiskBuilder::new(geometry)
    }

    /// A small zoned disk in memory for tests: zone 0 is conventional, the others sequential; no
    /// limits on open zones, strict reads, no write cache, no mechanics.
    ///
    /// # Panics
    /// If `zone_count` or `zone_len` is zero, or the disk has more than 2^32 zones.
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

/// The geometry in words, for an error message: every property in which two geometries may differ.
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
