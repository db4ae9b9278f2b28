//! The file layer over simulated drives: scripts, power cuts, damage, threads.

mod copies;
mod crowded;
mod cuts;
mod damage;
mod kept;
mod killed;
pub(crate) mod meanwhile;
mod read_only;
mod scripts;
mod seeds;
pub(crate) mod stage;
mod threads;
mod unsuitable;
