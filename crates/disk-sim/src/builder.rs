//! How a [`SimDisk`] is put together.

use crate::SimDisk;
use crate::backing::{Backing, MemoryBacking};
use crate::disk::Parts;
use imbrex_clockwork::{Clock, StillClock};
use imbrex_disk::{Blocks, Geometry, GeometrySpec, Rule, ZoneSpec};
use std::sync::Arc;

/// A simulated disk that cannot be put together.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// The geometry asks for a rule that this simulator does not have yet.
    #[error("the {rule} rule is not simulated yet; use a conventional or a zoned geometry")]
    RuleNotSimulated {
        /// The rule's name.
        rule: &'static str,
    },
    /// The zones could not be read back from the backing.
    #[error("reading the zone states")]
    Zones(#[source] imbrex_disk::DiskError),
}

/// Collects the parts of a [`SimDisk`]; see [`SimDisk::builder`].
#[derive(Clone, Debug)]
pub struct SimDiskBuilder {
    pub(crate) geometry: Geometry,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) write_cache: Blocks,
    pub(crate) event_log: bool,
}

impl SimDiskBuilder {
    pub(crate) fn new(geometry: Geometry) -> SimDiskBuilder {
        SimDiskBuilder {
            geometry,
            clock: Arc::new(StillClock),
            write_cache: Blocks::ZERO,
            event_log: false,
        }
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

    /// Keeps the event log hash; every request then takes the disk's one lock.
    pub fn event_log(mut self) -> SimDiskBuilder {
        self.event_log = true;
        self
    }

    /// A disk in memory, all zeros.
    ///
    /// # Errors
    /// [`BuildError::RuleNotSimulated`].
    pub fn memory(self) -> Result<SimDisk, BuildError> {
        self.build(Box::new(MemoryBacking::new()))
    }

    pub(crate) fn build(self, backing: Box<dyn Backing>) -> Result<SimDisk, BuildError> {
        SimDisk::from_parts(Parts {
            geometry: self.geometry,
            clock: self.clock,
            write_cache: self.write_cache,
            event_log: self.event_log,
            backing,
        })
    }
}

impl SimDisk {
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
}
