//! The fuzz targets: one function per decoder, which takes any bytes and must not panic.
//!
//! ```text
//!   fuzz/fuzz_targets/NAME.rs  --+
//!                                +--> TARGETS: feed(bytes)  -->  a decoder, through its public API
//!   tests (in plain CI)        --+
//!        the saved inputs of fuzz/seeds/NAME, and seeded mutations of them
//! ```
//!
//! A decoder that accepts its input must also not contradict itself. Each function documents what
//! it asserts.

mod block_driver;
mod catalog;
mod fixed_bands;
mod image;
mod objects;
mod record_log;
mod store;
mod target;
#[cfg(test)]
mod tests;
mod ycsb_record;

pub use target::Target;

/// All decoders.
pub const TARGETS: &[Target] = &[
    record_log::TARGET,
    image::TARGET,
    catalog::TARGET,
    fixed_bands::TARGET,
    block_driver::TARGET,
    store::TABLE,
    store::BATCH,
    store::VERSIONS,
    ycsb_record::TARGET,
    objects::TARGET,
];

/// The decoder with this name.
///
/// # Panics
/// If there is none: a fuzz target's name is a constant.
pub fn feed(name: &str, bytes: &[u8]) {
    let target = TARGETS.iter().find(|target| target.name == name);
    (target.expect("every fuzz target has its entry in TARGETS").feed)(bytes);
}
