//! What an image's header says of it.

use std::path::PathBuf;

/// The description of a drive image from its header.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ImageInfo {
    /// The path of the file.
    pub path: PathBuf,
    /// Chosen at creation, never changes.
    pub image_id: u64,
    /// The label its owner gave it.
    pub label: String,
    /// The name of its mechanics' profile. Empty if it has none.
    pub profile_name: String,
    /// The profile as TOML. Empty if it has none.
    pub profile_text: String,
    /// How many flipped bits were corrected when the image was opened.
    pub corrected_bit_count: u64,
}
