//! Ordered reads: what a reader at a snapshot sees of memtables and tables merged together.
//!
//! ```text
//!   merged      a#9 Put  a#4 Put  b#8 Delete  b#2 Put  c#3 Put        tombstone [c, d)#5
//!   at #9       a                                                     b and c are deleted
//!   at #4                a                    b        c
//! ```

mod covers;
mod entries;
pub(crate) mod get;
mod iter;
pub(crate) mod range;
pub(crate) mod run;
pub(crate) mod together;

pub use entries::{Entries, prefix_end};

pub use iter::Iter;
pub(crate) use iter::{IterSources, ReadApart};
