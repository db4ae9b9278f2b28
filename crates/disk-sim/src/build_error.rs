//! Why no disk can be made of a geometry or an image.

use crate::profile::ProfileError;

/// Why a simulated disk cannot be built.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// The geometry has more zones than the simulator supports.
    #[error("the drive has {got} zones; at most {bound} are simulated, so make them longer")]
    TooManyZones {
        /// The number of zones.
        got: u32,
        /// The largest supported number.
        bound: u32,
    },
    /// The zones could not be read back from the backing.
    #[error("reading the zone states")]
    Zones(#[source] imbrex_disk::DiskError),
    /// The marks of the blocks of overlapping tracks could not be read back from the backing.
    #[error("reading which blocks are destroyed")]
    Tracks(#[source] imbrex_disk::DiskError),
    /// The image's drive profile is invalid.
    #[error(transparent)]
    Profile(#[from] ProfileError),
}
