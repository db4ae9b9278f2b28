//! Layouts: a rule of the drive, a placement and a compaction policy, chosen together by one name.
//!
//! ```text
//!   "sealdb" --> Layout --suits--> drive of this geometry?
//!                  |
//!                recipe: translation, placement, engine options        data, may be adjusted
//!                  |
//!   Stack:  Db -> FileLayer (placement) -> [translation] -> the drive
//!           Db -> TieredFiles -> FileLayer (placement) -> the drive      beside flash
//!                            \-> FileLayer (first fit) -> the flash drive
//! ```
//!
//! A paper's store is a line of [`table`](Layout::all): nothing else in the tree knows which parts
//! make it. The layout's name is recorded in the drive when it is formatted, so that a drive opens
//! as what it is ([`mount`]) and refuses to be opened as anything else ([`Layout::open`]).
//!
//! # Example
//! ```
//! use imbrex_clockwork::Runtime;
//! use imbrex_disk::Blocks;
//! use imbrex_disk_sim::SimDisk;
//! use imbrex::{Layout, mount};
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
//!   L1  A drive that is formatted as a layout records its name; no other layout opens it.
//!   L2  What a layout's drive must be is checked before the first byte is written.
//!
//! Not here: the policies themselves (`files::placement`, `engine::compaction`), the drives.
//!
//! # Adding a layout
#![doc = include_str!("../../../docs/layouts.md")]

mod drives;
mod error;
mod found_drive;
mod recipe;
mod stack;
mod table;

pub use drives::{Beside, Drives};
pub use error::LayoutError;
pub use found_drive::{FindError, FoundDrive, looked_at};
pub use recipe::{Recipe, Recording, table_len_bytes_in, unit_len};
pub use stack::{Mounted, Stack, mount};
pub use table::Layout;

#[cfg(test)]
mod tests;
