//! What the fuzzers call: one function per decoder, which takes any bytes and must not panic.
//!
//! ```text
//!   fuzz/fuzz_targets/NAME.rs  --+
//!                                +--> TARGETS: feed(bytes)  -->  a decoder, by its public door
//!   tests (in plain CI)        --+
//!        the saved inputs of fuzz/seeds/NAME, and seeded mutations of them
//! ```
//!
//! Beyond not panicking, a decoder that accepts what it is given must not contradict itself; each
//! function says what it asserts.

mod block_driver;
mod catalog;
mod fixed_bands;
mod image;
mod record_log;
mod store;
#[cfg(test)]
mod tests;
mod ycsb_record;

/// One decoder.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// The name of the fuzz target and of its folder under `fuzz/seeds`.
    pub name: &'static str,
    /// Feeds bytes to the decoder.
    pub feed: fn(&[u8]),
    /// Valid inputs, by name, out of the encoder that belongs to the decoder.
    pub seeds: fn() -> Vec<(&'static str, Vec<u8>)>,
}

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
];

/// The decoder called `name`.
///
/// # Panics
/// If there is none: a fuzz target's name is a constant.
pub fn feed(name: &str, bytes: &[u8]) {
    let target = TARGETS.iter().find(|target| target.name == name);
    (target.expect("every fuzz target has its entry in TARGETS").feed)(bytes);
}
