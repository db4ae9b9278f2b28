//! Which drive an image emulates: a real model's profile, cut to size and recorded as the layout needs.
//!
//! ```text
//!   Shape::default(), layout sealdb                what the layout is for: raw shingled tracks
//!   profile "hc620", capacity 8 GiB                as the real model records, smaller
//!   recording Shingled, overlap_tracks 4           as asked, with the mechanics of the profile
//! ```
//!
//! The caller's choice counts first, then the named profile, then what the layout is for, then `hc620`. A setting that
//! means nothing to the drive is refused, not ignored.

use crate::stack::{Layout, Recording};
use imbrex_disk::{BLOCK_LEN_BYTES, Blocks, Geometry, NeighbourSpec, Rule, ShingleSpec, ZoneSpec};
use imbrex_disk_sim::{KVIMR_TRACKS, SEALDB_SHINGLE};
pub use imbrex_disk_sim::{PowerCycle, Profile, ProfileError, SimDisk};

/// The usual profile of each kind of drive.
const ZONED_PROFILE: &str = "hc620";
const CONVENTIONAL_PROFILE: &str = "st1000dm003";
const INTERLACED_PROFILE: &str = "st500dm002";
/// The profile of a flash drive.
const FLASH_PROFILE: &str = "ssd120";

/// A flash drive is this share of its main drive (40 GB of 8 TB), but has room for some logs. Source: Pitchumani's
/// thesis, figure 5.3.
const FLASH_SHARE: u64 = 200;
const FLASH_LOG_COUNT_MIN: u64 = 16;
/// For flushes that wait on it, it is this share. Source: ours, the memory that decides how often data are written.
const SLICES_SHARE: u64 = 20;
const SLICE_COUNT_MIN: u64 = 3;

/// Zones on a drive whose real model has none: those of the `hc620`, where one zone in a hundred is conventional.
const ZONE_LEN_BYTES: u64 = 256 << 20;
const ZONES_PER_CONVENTIONAL: u64 = 100;
const CONVENTIONAL_ZONE_COUNT_MIN: u64 = 2;
const OPEN_ZONE_LIMIT: u32 = 128;

/// How an emulated drive differs from the real model of its profile. `None` everywhere: as the real model, or as the
/// layout needs it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Shape {
    /// How the drive records.
    pub recording: Option<Recording>,
    /// A smaller drive of the same make, in bytes.
    pub capacity_bytes: Option<u64>,
    /// The length of a zone in bytes, for zoned drives.
    pub zone_len_bytes: Option<u64>,
    /// The length of a track in bytes for shingled drives, of a bottom track for interlaced ones.
    pub track_len_bytes: Option<u64>,
    /// How many of the following tracks a write destroys, for shingled drives.
    pub overlap_tracks: Option<u32>,
    /// The length of a top track in bytes, for interlaced drives; as long as a bottom track without it.
    pub top_track_len_bytes: Option<u64>,
}

/// Why there is no drive of a shape.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ShapeError {
    /// No such profile, or the profile cannot be cut so.
    #[error("drive {profile}: {source}")]
    Profile {
        /// Which profile.
        profile: String,
        /// Why not.
        #[source]
        source: ProfileError,
    },
    /// The profile's file cannot be read.
    #[error("drive {profile}: {source}")]
    Unreadable {
        /// Which file.
        profile: String,
        /// The operating system's error.
        #[source]
        source: std::io::Error,
    },
    /// A setting means nothing to the drive.
    #[error(
        "{setting} is for {} drives and this one is {recording}; leave it out, or choose {}",
        names(.needs, " and "), names(.needs, " or ")
    )]
    Meaningless {
        /// The field of [`Shape`].
        setting: &'static str,
        /// The kinds of drive that have it.
        needs: &'static [Recording],
        /// The kind of drive that was asked for.
        recording: &'static str,
    },
}

fn names(recordings: &[Recording], joint: &str) -> String {
    recordings.iter().map(|recording| recording.name()).collect::<Vec<_>>().join(joint)
}

impl Shape {
    /// The profile called `name`, or a fitting one, in this shape; `layout` is what the drive will be formatted as, where
    /// that is known.
    ///
    /// # Errors
    /// [`ShapeError`].
    pub fn profile(
        &self,
        name: Option<&str>,
        layout: Option<Layout>,
    ) -> Result<Profile, ShapeError> {
        let by_layout = layout.filter(|_| name.is_none()).map(Layout::recording);
        let wanted = self.recording.or(by_layout);
        let name = name.unwrap_or(match wanted {
            None | Some(Recording::Zoned) => ZONED_PROFILE,
            Some(Recording::Conventional | Recording::Shingled) => CONVENTIONAL_PROFILE,
            Some(Recording::Interlaced) => INTERLACED_PROFILE,
        });
        let profile = read_profile(name)?;
        let own = Recording::of(profile.geometry().rule());
        let recording = wanted.or(own);
        self.check(recording)?;
        let mut shape = self.clone();
        if recording == Some(Recording::Zoned) {
            let usual = layout.and_then(Layout::usual_zone_len_bytes);
            shape.zone_len_bytes = shape.zone_len_bytes.or(usual);
        }
        let shaped = match recording {
            Some(recording) if Some(recording) != own => shape.recorded(&profile, recording),
            _ => shape.cut(&profile),
        };
        shaped.map_err(|source| ShapeError::Profile { profile: name.to_owned(), source })
    }

    /// The drive records as the real model does.
    fn cut(&self, profile: &Profile) -> Result<Profile, ProfileError> {
        let profile = match self.zone_len_bytes {
            Some(len_bytes) => profile.with_zone_len(Blocks::holding(len_bytes))?,
            None => profile.clone(),
        };
        let profile = match self.capacity_bytes {
            Some(capacity_bytes) => profile.scaled(capacity_bytes)?,
            None => profile,
        };
        match *profile.geometry().rule() {
            Rule::IsolationDistance(own) if self.has_tracks() => {
                profile.with_rule(Rule::IsolationDistance(self.shingled(own)))
            }
            Rule::Neighbours(own) if self.has_tracks() => {
                profile.with_rule(Rule::Neighbours(self.interlaced(own)))
            }
            _ => Ok(profile),
        }
    }

    /// The drive records in another way than the real model.
    fn recorded(&self, profile: &Profile, recording: Recording) -> Result<Profile, ProfileError> {
        // The real model's zones are no measure of the new rule.
        let bare = profile.with_rule(Rule::Anywhere)?;
        let len_bytes = self.capacity_bytes.unwrap_or(bare.geometry().len().bytes());
        match recording {
            Recording::Conventional => bare.scaled(len_bytes),
            Recording::Shingled => {
                let tracks = self.shingled(SEALDB_SHINGLE);
                bare.scaled(len_bytes)?.with_rule(Rule::IsolationDistance(tracks))
            }
            Recording::Interlaced => {
                let tracks = self.interlaced(KVIMR_TRACKS);
                bare.scaled(len_bytes)?.with_rule(Rule::Neighbours(tracks))
            }
            Recording::Zoned => {
                let zone_len_bytes = self.zone_len_bytes.unwrap_or(ZONE_LEN_BYTES);
                let zone_len = Blocks::holding(zone_len_bytes.max(BLOCK_LEN_BYTES as u64));
                bare.check_zone_len(zone_len)?;
                let zone_count = len_bytes / zone_len.bytes();
                let conventional = (zone_count / ZONES_PER_CONVENTIONAL)
                    .max(CONVENTIONAL_ZONE_COUNT_MIN.min(zone_count));
                let rule = Rule::AtPointer(ZoneSpec {
                    zone_len,
                    zone_capacity: zone_len,
                    conventional_zone_count: u32::try_from(conventional).unwrap_or(u32::MAX),
                    open_zone_limit: Some(OPEN_ZONE_LIMIT),
                    active_zone_limit: None,
                    strict_reads: true,
                });
                bare.scaled(zone_count * zone_len.bytes())?.with_rule(rule)
            }
        }
    }

    fn has_tracks(&self) -> bool {
        self.track_len_bytes.is_some()
            || self.overlap_tracks.is_some()
            || self.top_track_len_bytes.is_some()
    }

    fn interlaced(&self, usual: NeighbourSpec) -> NeighbourSpec {
        let bottom = self.track_len_bytes.map(Blocks::holding);
        let top = self.top_track_len_bytes.map(Blocks::holding).or(bottom);
        NeighbourSpec {
            bottom_track_len: bottom.unwrap_or(usual.bottom_track_len),
            top_track_len: top.unwrap_or(usual.top_track_len),
        }
    }

    fn shingled(&self, usual: ShingleSpec) -> ShingleSpec {
        ShingleSpec {
            track_len: self.track_len_bytes.map_or(usual.track_len, Blocks::holding),
            overlap_tracks: self.overlap_tracks.unwrap_or(usual.overlap_tracks),
        }
    }

    /// Refuses a setting that means nothing to such a drive.
    fn check(&self, recording: Option<Recording>) -> Result<(), ShapeError> {
        const TRACKS: &[Recording] = &[Recording::Shingled, Recording::Interlaced];
        let settings = [
            ("zone_len", self.zone_len_bytes.is_some(), &[Recording::Zoned][..]),
            ("track_len", self.track_len_bytes.is_some(), TRACKS),
            ("overlap_tracks", self.overlap_tracks.is_some(), &[Recording::Shingled]),
            ("top_track_len", self.top_track_len_bytes.is_some(), &[Recording::Interlaced]),
        ];
        for (setting, is_set, needs) in settings {
            if is_set && recording.is_none_or(|recording| !needs.contains(&recording)) {
                let recording = recording.map_or("of another kind", Recording::name);
                return Err(ShapeError::Meaningless { setting, needs, recording });
            }
        }
        Ok(())
    }
}

/// The flash drive to make with a drive of `geometry` that is formatted as `layout`: `asked_bytes` long, or the usual
/// share; `None` where the layout takes no flash drive.
///
/// # Errors
/// [`ShapeError::Profile`]: flash cannot be as long as asked.
pub fn flash_profile(
    layout: Layout,
    geometry: &Geometry,
    asked_bytes: Option<u64>,
) -> Result<Option<Profile>, ShapeError> {
    let recipe = layout.recipe(geometry);
    let Some(flash) = recipe.flash else { return Ok(None) };
    let profile = read_profile(FLASH_PROFILE)?;
    let full_bytes = profile.geometry().len().bytes();
    let (share, log_count) = match recipe.options.flushes_to_flash {
        true => (SLICES_SHARE, SLICE_COUNT_MIN),
        false => (FLASH_SHARE, FLASH_LOG_COUNT_MIN),
    };
    let share_bytes = geometry.len().bytes() / share;
    let usual_bytes = share_bytes.max(log_count * flash.log_len_bytes_max);
    let len_bytes = asked_bytes.unwrap_or(usual_bytes.min(full_bytes));
    let failed = |source| ShapeError::Profile { profile: FLASH_PROFILE.to_owned(), source };
    profile.scaled(len_bytes).map(Some).map_err(failed)
}

/// A profile by its name, or from a TOML file.
///
/// # Errors
/// [`ShapeError::Profile`], [`ShapeError::Unreadable`].
pub fn read_profile(name: &str) -> Result<Profile, ShapeError> {
    let failed = |source| ShapeError::Profile { profile: name.to_owned(), source };
    if !name.ends_with(".toml") {
        return Profile::by_name(name).map_err(failed);
    }
    let unreadable = |source| ShapeError::Unreadable { profile: name.to_owned(), source };
    let text = std::fs::read_to_string(name).map_err(unreadable)?;
    Profile::from_toml(&text).map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(change: impl FnOnce(&mut Shape)) -> Shape {
        let mut shape = Shape { capacity_bytes: Some(8 << 30), ..Shape::default() };
        change(&mut shape);
        shape
    }

    fn rule(shape: &Shape, name: Option<&str>, layout: Option<&str>) -> Rule {
        let layout = layout.map(|name| Layout::by_name(name).unwrap());
        *shape.profile(name, layout).unwrap().geometry().rule()
    }

    #[test]
    fn the_callers_choice_counts_then_the_profile_then_the_layout() {
        let plain = shape(|_| ());
        let shingled = shape(|s| s.recording = Some(Recording::Shingled));
        assert_eq!(rule(&plain, None, None).name(), "zoned");
        assert_eq!(rule(&plain, None, Some("leveldb-cmr")).name(), "conventional");
        assert_eq!(rule(&plain, Some("hc620"), Some("leveldb-cmr")).name(), "zoned");
        assert_eq!(rule(&shingled, Some("hc620"), Some("leveldb-cmr")).name(), "shingled");
        assert_eq!(rule(&shingled, None, None), Rule::IsolationDistance(SEALDB_SHINGLE));
    }

    #[test]
    fn every_profile_takes_every_rule_in_every_size() {
        for name in Profile::names() {
            for recording in Recording::all() {
                for capacity_bytes in [Some(4 << 30), None] {
                    let shape =
                        Shape { recording: Some(recording), capacity_bytes, ..shape(|_| ()) };
                    let profile = shape.profile(Some(name), None).unwrap();
                    assert_eq!(profile.geometry().rule().name(), recording.name(), "{name}");
                    let full = read_profile(name).unwrap().geometry().len().bytes();
                    let asked = capacity_bytes.unwrap_or(full);
                    let got = profile.geometry().len().bytes();
                    assert!(got <= asked && got > asked - ZONE_LEN_BYTES, "{name}: {got} {asked}");
                }
            }
        }
    }

    #[test]
    fn zones_and_tracks_have_the_lengths_that_were_asked_for() {
        let zones = shape(|s| {
            s.recording = Some(Recording::Zoned);
            s.zone_len_bytes = Some(40 << 20);
        });
        let profile = zones.profile(Some("st1000dm003"), None).unwrap();
        assert_eq!(profile.geometry().zones().unwrap().zone_len.bytes(), 40 << 20);
        assert_eq!(profile.geometry().zone_count(), 204);
        let tracks = shape(|s| {
            s.recording = Some(Recording::Shingled);
            (s.track_len_bytes, s.overlap_tracks) = (Some(1 << 20), Some(4));
        });
        let want = ShingleSpec { track_len: Blocks::new(256), overlap_tracks: 4 };
        assert_eq!(rule(&tracks, None, None), Rule::IsolationDistance(want));
        let pairs = shape(|s| {
            s.recording = Some(Recording::Interlaced);
            s.track_len_bytes = Some(1 << 20);
            s.top_track_len_bytes = Some(800 << 10);
        });
        let want =
            NeighbourSpec { bottom_track_len: Blocks::new(256), top_track_len: Blocks::new(200) };
        assert_eq!(rule(&pairs, None, None), Rule::Neighbours(want));
        let usual = shape(|s| s.recording = Some(Recording::Interlaced));
        for name in [None, Some("st1000dm003"), Some("st500dm002")] {
            assert_eq!(rule(&usual, name, None), Rule::Neighbours(KVIMR_TRACKS));
        }
    }

    #[test]
    fn a_setting_that_means_nothing_is_refused() {
        let refused = |shape: Shape, want: &str| {
            let error = shape.profile(None, None).unwrap_err().to_string();
            assert!(error.contains(want), "{error}");
        };
        refused(shape(|s| s.track_len_bytes = Some(4096)), "choose shingled or interlaced");
        refused(shape(|s| s.top_track_len_bytes = Some(4096)), "choose interlaced");
        refused(
            shape(|s| {
                s.recording = Some(Recording::Conventional);
                s.zone_len_bytes = Some(1 << 20);
            }),
            "zone_len is for zoned drives and this one is conventional",
        );
        refused(shape(|s| s.capacity_bytes = Some(1 << 10)), "is 1.00 KiB");
    }
}
