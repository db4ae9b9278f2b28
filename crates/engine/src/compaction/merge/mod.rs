//! Merges: sorted entries from several inputs become new tables.

pub(crate) mod output;
pub(crate) mod sinks;
pub(crate) mod streams;
pub(crate) mod task;
mod value_moves;
