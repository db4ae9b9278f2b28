//! The store from outside, over the file layer and a simulated drive.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod activities;
mod apart;
mod as_leveldb;
mod bands;
mod basic;
mod crowded;
mod first_reads;
mod found;
mod full_drive;
mod gear;
mod hardship;
mod kept_logs;
mod killed;
mod lazy;
mod lost_catalog;
mod model;
mod offload;
mod policies;
mod power_cut;
mod resting;
mod salvage;
mod scrub;
mod set_aside;
mod slices;
mod smrdb;
mod stage;
mod threads;
mod totals;
mod watched;
