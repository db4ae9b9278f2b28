//! A decoder and its valid inputs.

/// One decoder.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// The name of the fuzz target and of its folder under `fuzz/seeds`.
    pub name: &'static str,
    /// Feeds bytes to the decoder.
    pub feed: fn(&[u8]),
    /// Valid inputs, by name, made by the encoder that matches the decoder.
    pub seeds: fn() -> Vec<(&'static str, Vec<u8>)>,
}
