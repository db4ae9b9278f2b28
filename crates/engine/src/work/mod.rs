//! Work on a store: writes, flushes and compactions.

pub(crate) mod clean;
pub(crate) mod compact;
pub(crate) mod flush;
pub(crate) mod idle;
mod logs;
mod manual_progress;
mod stall;
pub(crate) mod write;
