//! The file layer: append-only files on one disk, placed by a policy, named by a durable catalog.
//!
//! ```text
//!   engine     "these bytes are table 000042, level 3, group 17"
//!   ---------------------------------------------------------------- trait Files
//!   files      name -> extents (catalog), hints -> extents (placement), dead extents -> space
//!   ---------------------------------------------------------------- trait Disk
//!   disk       blocks under one rule
//! ```
//!
//! [`FileLayer`] implements [`Files`] over one disk; [`tiers::TieredFiles`] implements it over a
//! disk and a flash drive. [`api`](Files) is the contract. [`raw`] reads a disk without any of this.
//!
//! Reading order: a writer buffers a file. The layer places it (`placement`, on the map in
//! `space`), writes it (`persist`, `log`) and names it (`edits`, `commit`, `catalog`). It then
//! reads the file (`file`), moves it (`clean`), and finds it again after a power cut
//! (`catalog::recover`, `restore`). `tiers` puts two drives together.

mod api;
mod batch;
mod catalog;
mod check;
mod clean;
mod commit;
mod edits;
mod error;
mod extent;
mod file;
mod file_buffer;
mod formatting;
mod hints;
pub mod invariants;
mod known_end;
mod layer;
mod log;
mod names;
mod part;
mod persist;
mod placement;
mod placer;
mod planned_read;
pub mod raw;
mod reclaim;
mod region;
mod report;
mod restore;
mod rewrite;
mod room;
mod space;
mod space_report;
mod spare_chunks;
mod stats;
pub mod tiers;

pub use api::{
    AppRecord, Commit, FileInfo, FileReader, Files, LogWriter, Persisted, RegionPart, SpaceUse,
    UnitId, Work,
};
pub use batch::{FileRange, read_together};
pub use error::FilesError;
pub use file_buffer::FileBuffer;
pub use formatting::FormatOptions;
pub use hints::{FileKind, GroupId, Hints, Tier};
pub use known_end::with_known_end;
pub use layer::FileLayer;
pub use part::part_of;
pub use placement::{PlacementKind, PlacementOptions};
pub use planned_read::PlannedRead;
pub use room::{CatalogUse, CommitKind};

/// What reads and writes serve, and sizes as people read them: for the layers above, which do not know
/// the disk.
pub use imbrex_disk::{Activity, ByteSize};

/// Reports on a file layer, for tools: what it has done, how it uses the disk, what a check found.
pub mod inspect {
    pub use crate::check::{CheckReport, Finding, describe_catalog};
    pub use crate::report::{FreeRun, ZoneUse, ZoneUseKind};
    pub use crate::space_report::SpaceReport;
    pub use crate::stats::FilesStats;
}

#[cfg(test)]
pub(crate) mod tests;
