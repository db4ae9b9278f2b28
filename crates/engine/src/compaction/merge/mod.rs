//! Merges: entries of the inputs in, tables out.

pub(crate) mod output;
pub(crate) mod sinks;
pub(crate) mod task;
