//! The shape of an emulated drive: a real drive's profile, with another capacity or recording on request.
//!
//! ```text
//!   --layout sealdb                          the drive that the layout suits: raw shingled tracks
//!   --profile hc620 --capacity 8GiB          the recording of the real drive, smaller
//!   --rule shingled --overlap-tracks 4       this recording, with the mechanics of the profile
//! ```
//!
//! Explicit flags decide first, then a named profile, then the drive that the layout suits, then `hc620`.
//! A flag that has no meaning for the drive is refused, not ignored.

use crate::error::BenchError;
use imbrex::Layout;
use imbrex::emulated::{Profile, Shape, ShapeError};
use imbrex::stack::{LayoutError, Recording};
use imbrex_disk::ByteSize;
use imbrex_disk::Geometry;

/// The differences of a drive from the real one of its profile.
#[derive(Clone, Debug, Default, PartialEq, Eq, clap::Args)]
pub struct DriveShape {
    /// Recording: conventional, zoned, shingled or interlaced [default: that of the real drive, or the
    /// one that the layout needs]
    #[arg(long, value_name = "RULE", value_parser = recording)]
    pub rule: Option<Recording>,

    /// Capacity, such as 8GiB or 2TB [default: that of the real drive]
    #[arg(long, value_name = "SIZE")]
    pub capacity: Option<ByteSize>,

    /// Zoned drives: length of a zone, such as 256MiB [default: that of the real drive, or the one that
    /// suits the layout]
    #[arg(long = "zone-len", alias = "zone_len", value_name = "SIZE")]
    pub zone_len: Option<ByteSize>,

    /// Shingled drives: length of a track; interlaced drives: length of a bottom track
    #[arg(long = "track-len", alias = "track_len", value_name = "SIZE")]
    pub track_len: Option<ByteSize>,

    /// Shingled drives: number of following tracks that a write destroys
    #[arg(long = "overlap-tracks", alias = "overlap_tracks", value_name = "COUNT")]
    pub overlap_tracks: Option<u32>,

    /// Interlaced drives: length of a top track [default: that of a bottom track]
    #[arg(long = "top-track-len", alias = "top_track_len", value_name = "SIZE")]
    pub top_track_len: Option<ByteSize>,
}

/// The recording called `name`.
fn recording(name: &str) -> Result<Recording, String> {
    let known = Recording::all();
    known.into_iter().find(|recording| recording.name() == name).ok_or_else(|| {
        let names: Vec<_> = known.iter().map(|recording| recording.name()).collect();
        format!("{name:?} is not a recording; the recordings are {}", names.join(", "))
    })
}

impl DriveShape {
    /// The profile called `name`, or a fitting one, in this shape; `layout` is what the drive will be formatted as, where
    /// that is known.
    ///
    /// # Errors
    /// [`BenchError::Drive`]: no such profile, or not such a drive of it; [`BenchError::Options`]: flags that contradict
    /// each other.
    pub fn profile(
        &self,
        name: Option<&str>,
        layout: Option<Layout>,
    ) -> Result<Profile, BenchError> {
        self.shape().profile(name, layout).map_err(failed)
    }

    /// The same for the front door, which names its fields otherwise in errors.
    pub fn shape(&self) -> Shape {
        let bytes = |len: &Option<ByteSize>| len.as_ref().map(|len| len.0);
        Shape {
            recording: self.rule,
            capacity_bytes: bytes(&self.capacity),
            zone_len_bytes: bytes(&self.zone_len),
            track_len_bytes: bytes(&self.track_len),
            overlap_tracks: self.overlap_tracks,
            top_track_len_bytes: bytes(&self.top_track_len),
        }
    }
}

/// The layout for a drive of `geometry`: `layout` if given, otherwise the usual one.
///
/// # Errors
/// [`BenchError::Layout`]: the layout cannot use the drive; [`BenchError::Options`]: no layout can.
pub fn layout_for(geometry: &Geometry, layout: Option<Layout>) -> Result<Layout, BenchError> {
    let Some(layout) = layout.or_else(|| Layout::default_for(geometry.rule())) else {
        let name = geometry.rule().name();
        return Err(BenchError::Options(format!("no layout suits {name} drives")));
    };
    match layout.suits(geometry) {
        Ok(()) => Ok(layout),
        Err(reason) => {
            Err(BenchError::layout(LayoutError::Unsuitable { layout: layout.name(), reason }))
        }
    }
}

/// The flash drive to make with a drive of `geometry` that is formatted as `layout`: `asked` long, or the usual share;
/// `None` where the layout takes no flash drive.
///
/// # Errors
/// [`BenchError::Drive`]: flash cannot have that length.
pub fn flash_profile(
    layout: Layout,
    geometry: &Geometry,
    asked: Option<ByteSize>,
) -> Result<Option<Profile>, BenchError> {
    let asked_bytes = asked.map(|asked| asked.0);
    imbrex::emulated::flash_profile(layout, geometry, asked_bytes).map_err(failed)
}

/// A profile by its name, or from a TOML file.
///
/// # Errors
/// [`BenchError::Drive`].
pub fn read_profile(name: &str) -> Result<Profile, BenchError> {
    imbrex::emulated::read_profile(name).map_err(failed)
}

/// The same error in the words of the command line.
fn failed(error: ShapeError) -> BenchError {
    match error {
        ShapeError::Profile { profile, source } => {
            BenchError::Drive { drive: profile, source: Box::new(source) }
        }
        ShapeError::Unreadable { profile, source } => {
            BenchError::Drive { drive: profile, source: Box::new(source) }
        }
        ShapeError::Meaningless { setting, needs, recording } => {
            let names: Vec<&str> = needs.iter().map(|needed| needed.name()).collect();
            BenchError::Options(format!(
                "--{} is for {} drives and this one is {recording}; leave it out, or pass --rule {}",
                setting.replace('_', "-"),
                names.join(" and "),
                names[0],
            ))
        }
        error => BenchError::Options(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flag_that_means_nothing_is_refused_by_its_name() {
        let refused = |shape: DriveShape, want: &str| {
            let error = shape.profile(None, None).unwrap_err().to_string();
            assert!(error.contains(want), "{error}");
        };
        let track_len = Some(ByteSize(4096));
        refused(DriveShape { track_len, ..DriveShape::default() }, "--rule shingled");
        refused(
            DriveShape { top_track_len: track_len, ..DriveShape::default() },
            "--top-track-len is for interlaced drives",
        );
        assert!(recording("shingeled").unwrap_err().contains("shingled"));
    }
}
