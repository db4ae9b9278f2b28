//! A durable, ordered key-value store for hard disks whose tracks overlap.
//!
//! ```
//! # let dir = tempfile::tempdir()?;
//! # std::env::set_current_dir(&dir)?;
//! let store = imbrex::create("disk.imbrex", imbrex::Options::new())?; // an image, or /dev/sdX
//! store.put("apple", "red")?;
//! store.put("banana", "yellow")?;
//! for entry in store.range("b"..)? {
//!     let (key, value) = entry?;
//!     println!("{key:?} is {value:?}");
//! }
//! store.close()?; // all of it is durable
//! let store = imbrex::open("disk.imbrex")?;
//! assert_eq!(store.get("apple")?.as_deref(), Some(&b"red"[..]));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # What it is
//!
//! A log-structured merge-tree that places its files on the raw drive, without a file system, under the rule of the
//! drive's recording: at the write pointer of a zone, away from live shingled tracks, or above live interlaced ones. The
//! drive therefore never has to clean up after the store.
//!
//! ```text
//!   create, open     a path -> an image or a device -> its layout        this crate
//!   Store            keys and values of the default keyspace             this crate
//!   imbrex-engine    log, memtables, tables, compaction
//!   imbrex-files     files, placement, cleaning, one catalog
//!   imbrex-disk      the drive: emulated (`emulated`) or of this machine
//! ```
//!
//! No such drive is needed: the default is an emulated one in a sparse file, which obeys the same rules and adds up the
//! time that the real drive would take.
//!
//! # Durability
//!
//! A put is visible to every reader when the call returns. It is durable after [`Store::sync`], [`Store::flush`] or
//! [`Store::close`], or at once when it is written with [`WriteOptions::SYNC`]. A power cut takes the newest unsynced
//! writes only, never one in the middle, and a batch as a whole or not at all.
//!
//! # When not to use it
//!
//! - One process at a time writes a drive. Several may read it ([`open_read_only`]), while none writes.
//! - A batch is atomic, but there are no transactions over reads and writes.
//! - On a flash drive alone, other stores are faster.
//!
//! # More
//!
//! [`Options`] chooses layout, drive and runtime; [`emulated`] shapes emulated drives; [`stack`] composes stores from their
//! parts, for tools. Ten small programs lie in `examples/`.

pub mod backup;
pub mod emulated;
mod entries;
mod error;
pub mod fitting;
mod options;
pub mod salvage;
pub mod scrub;
pub mod stack;
mod store;

pub use bytes::Bytes;
pub use entries::Entries;
pub use error::{Error, ErrorKind};
pub use imbrex_clockwork::Runtime;
pub use imbrex_engine::{KeyspaceOptions, Metrics, WriteOptions};
pub use imbrex_objects::{
    Listing, ObjectBatch, ObjectReader, ObjectStat, Objects, ObjectsError, ObjectsReport, Upload,
};
pub use options::Options;
pub use salvage::salvage;
pub use stack::Layout;
pub use store::{Batch, Checkpoint, Keyspace, Snapshot, Store};

use std::path::Path;

/// Creates an empty store at `path`: in a new image file, or on a block device such as `/dev/sdb`.
///
/// # Errors
/// As [`Options::create`].
pub fn create(path: impl AsRef<Path>, options: Options) -> Result<Store, Error> {
    options.create(path)
}

/// Opens the store at `path`, an image file or a block device, as what it was created.
///
/// # Errors
/// As [`Options::open`].
pub fn open(path: impl AsRef<Path>) -> Result<Store, Error> {
    Options::new().open(path)
}

/// Opens the store at `path` for reading. Nothing is written to the drive.
///
/// # Errors
/// As [`Options::open_read_only`].
pub fn open_read_only(path: impl AsRef<Path>) -> Result<Store, Error> {
    Options::new().open_read_only(path)
}

#[cfg(test)]
mod tests;
