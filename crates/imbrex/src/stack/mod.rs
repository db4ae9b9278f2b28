//! Whole stacks, for tools that look below the store: what a layout is made of, and how its parts are put together.
//!
//! ```text
//!   "sealdb" --> Layout --suits--> drive of this geometry?
//!                  |
//!                recipe: translation, placement, engine options        data, may be adjusted
//!                  |
//!   Stack:  Db -> FileLayer (placement) -> [translation] -> the drive
//!           Db -> TieredFiles -> FileLayer (placement) -> the drive      with a flash drive
//!                            \-> FileLayer (first fit) -> the flash drive
//! ```
//!
//! ```text
//!   path --> DrivePaths --find--> FoundDrives --open--> Stack                     a store that exists
//!                                     \--blank--> Drives --> Formatting --> Stack    a new one on a drive that exists
//!   path --> NewImage --create_images--> Drives --> Formatting --> Stack             a new one in a new image
//! ```
//!
//! A published store is one line of the table ([`Layout::all`]); no other code knows which parts make it. Formatting
//! records the layout's name on the drive, so a drive opens as what it is ([`mount`]) and refuses to be opened as
//! anything else ([`Layout::open`]).
//!
//! This module is not stable: a program that only reads and writes keys needs [`Store`](crate::Store) alone.
//!
//! # Example
//! ```
//! use imbrex::Layout;
//! use imbrex::stack::mount;
//! use imbrex_clockwork::Runtime;
//! use imbrex_disk::Blocks;
//! use imbrex_disk_sim::SimDisk;
//! use std::sync::Arc;
//!
//! let disk = Arc::new(SimDisk::tiny_zoned(64, Blocks::new(256)));
//! let runtime = Runtime::threads(2);
//! let layout = Layout::by_name("leveled-zones")?;
//! let stack = layout.format(disk.clone(), &runtime)?;
//! stack.db.default_keyspace().put("apple", "red")?;
//! stack.close()?;
//!
//! let again = mount(disk, &Runtime::threads(1))?;
//! assert_eq!(again.layout.name(), "leveled-zones");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Invariants
//!   L1  A drive formatted as a layout records the layout's name; no other layout opens the drive.
//!   L2  Formatting checks that the drive suits the layout before it writes the first byte.
//!
//! Not here: the policies themselves (`files::placement`, `engine::compaction`), the drives.
//!
//! # Adding a layout
#![doc = include_str!("../../docs/layouts.md")]

mod compose;
mod content;
mod drives;
mod error;
mod foreign;
mod found_drive;
mod layout;
mod making;
pub(crate) mod opening;
mod recipe;
mod sustained;

pub use crate::error::{causes, error_text};
pub use compose::{Mounted, Stack, mount};
pub use content::{Content, first_data, own_content};
pub use drives::{Beside, Drives};
pub use error::{LayoutError, Occupied};
pub use foreign::{Foreign, foreign_content};
pub use found_drive::{FoundDrive, looked_at};
pub use imbrex_translate::BandShape;
pub use layout::Layout;
pub use making::{Erase, Formatting, NewImage, create_images};
pub use opening::{DrivePaths, FlashPath, FoundDrives, PowerCut, Unmounted, require_layout};
pub use recipe::{Recipe, Recording, table_len_bytes_in, unit_len};

#[cfg(test)]
mod tests;
