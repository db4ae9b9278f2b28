//! Work on a store: writes, flushes and compactions.

pub(crate) mod compact;
pub(crate) mod flush;
pub(crate) mod idle;
mod logs;
mod stall;
mod way;
pub(crate) mod write;
