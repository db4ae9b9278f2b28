//! The file layer over simulated drives: scripts, power cuts and damage.

mod scripts;
mod stage;
