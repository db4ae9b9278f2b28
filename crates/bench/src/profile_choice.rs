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

use crate::byte_count::ByteCount;
use crate::error::BenchError;
use imbrex::{Layout, Recording};
use imbrex_disk::{BLOCK_LEN_BYTES, Blocks, Geometry, NeighbourSpec, Rule, ShingleSpec, ZoneSpec};
use imbrex_disk_sim::{KVIMR_TRACKS, Profile, ProfileError, SEALDB_SHINGLE};

/// The usual profile of each kind of drive.
const ZONED_PROFILE: &str = "hc620";
const CONVENTIONAL_PROFILE: &str = "st1000dm003";
const INTERLACED_PROFILE: &str = "st500dm002";
/// The usual profile of a flash drive.
const FLASH_PROFILE: &str = "ssd120";

/// Flash has 1/200 of the drive's capacity (40 GB for 8 TB), and room for some logs. Source: Pitchumani's
/// thesis, figure 5.3.
const FLASH_SHARE: u64 = 200;
const FLASH_LOG_COUNT_MIN: u64 = 16;

/// Zones on a drive whose real model has none: like those of the `hc620`, with one conventional zone in a
/// hundred.
const ZONE_LEN_BYTES: u64 = 256 << 20;
const ZONES_PER_CONVENTIONAL: u64 = 100;
const CONVENTIONAL_ZONE_COUNT_MIN: u64 = 2;
const OPEN_ZONE_LIMIT: u32 = 128;

/// The differences of a drive from the real one of its profile.
#[derive(Clone, Debug, Default, PartialEq, Eq, clap::Args)]
pub struct DriveShape {
    /// Recording: conventional, zoned, shingled or interlaced [default: that of the real drive, or the
    /// one that the layout needs]
    #[arg(long, value_name = "RULE", value_parser = recording)]
    pub rule: Option<Recording>,

    /// Capacity, such as 8GiB or 2TB [default: that of the real drive]
    #[arg(long, value_name = "SIZE")]
    pub capacity: Option<ByteCount>,

    /// Zoned drives: length of a zone, such as 256MiB [default: that of the real drive, or the one that
    /// suits the layout]
    #[arg(long = "zone-len", alias = "zone_len", value_name = "SIZE")]
    pub zone_len: Option<ByteCount>,

    /// Shingled drives: length of a track; interlaced drives: length of a bottom track
    #[arg(long = "track-len", alias = "track_len", value_name = "SIZE")]
    pub track_len: Option<ByteCount>,

    /// Shingled drives: number of following tracks that a write destroys
    #[arg(long = "overlap-tracks", alias = "overlap_tracks", value_name = "COUNT")]
    pub overlap_tracks: Option<u32>,

    /// Interlaced drives: length of a top track [default: that of a bottom track]
    #[arg(long = "top-track-len", alias = "top_track_len", value_name = "SIZE")]
    pub top_track_len: Option<ByteCount>,
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
    /// The profile called `name`, or the one that suits, in this shape. The drive will be formatted as
    /// `layout`, if that is known already.
    ///
    /// # Errors
    /// [`BenchError::Drive`]: the profile does not exist, or cannot have this shape. [`BenchError::Options`]:
    /// flags contradict each other.
    pub fn profile(
        &self,
        name: Option<&str>,
        layout: Option<Layout>,
    ) -> Result<Profile, BenchError> {
        let by_layout = layout.filter(|_| name.is_none()).map(Layout::recording);
        let wanted = self.rule.or(by_layout);
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
            let usual = layout.and_then(Layout::usual_zone_len_bytes).map(ByteCount);
            shape.zone_len = shape.zone_len.or(usual);
        }
        let shaped = match recording {
            Some(recording) if Some(recording) != own => shape.recorded(&profile, recording),
            _ => shape.cut(&profile),
        };
        shaped.map_err(|source| failed(name, source))
    }

    /// The profile with the real drive's recording.
    fn cut(&self, profile: &Profile) -> Result<Profile, ProfileError> {
        let profile = match self.zone_len {
            Some(len) => profile.with_zone_len(Blocks::holding(len.0))?,
            None => profile.clone(),
        };
        let profile = match self.capacity {
            Some(capacity) => profile.scaled(capacity.0)?,
            None => profile,
        };
        match *profile.geometry().rule() {
            Rule::IsolationDistance(own) if self.has_tracks() => {
                profile.with_rule(Rule::IsolationDistance(self.tracks(own)))
            }
            Rule::Neighbours(own) if self.has_tracks() => {
                profile.with_rule(Rule::Neighbours(self.interlaced(own)))
            }
            _ => Ok(profile),
        }
    }

    /// The profile with another recording.
    fn recorded(&self, profile: &Profile, recording: Recording) -> Result<Profile, ProfileError> {
        // The profile's own rule goes first, because its zones say nothing about the new recording.
        let bare = profile.with_rule(Rule::Anywhere)?;
        let len_bytes = self.capacity.map_or(bare.geometry().len().bytes(), |capacity| capacity.0);
        match recording {
            Recording::Conventional => bare.scaled(len_bytes),
            Recording::Shingled => {
                let tracks = self.tracks(SEALDB_SHINGLE);
                bare.scaled(len_bytes)?.with_rule(Rule::IsolationDistance(tracks))
            }
            Recording::Interlaced => {
                let tracks = self.interlaced(KVIMR_TRACKS);
                bare.scaled(len_bytes)?.with_rule(Rule::Neighbours(tracks))
            }
            Recording::Zoned => {
                let zone_len_bytes = self.zone_len.map_or(ZONE_LEN_BYTES, |len| len.0);
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
        self.track_len.is_some() || self.overlap_tracks.is_some() || self.top_track_len.is_some()
    }

    fn interlaced(&self, usual: NeighbourSpec) -> NeighbourSpec {
        let bottom = self.track_len.map(|len| Blocks::holding(len.0));
        let top = self.top_track_len.map(|len| Blocks::holding(len.0)).or(bottom);
        NeighbourSpec {
            bottom_track_len: bottom.unwrap_or(usual.bottom_track_len),
            top_track_len: top.unwrap_or(usual.top_track_len),
        }
    }

    fn tracks(&self, usual: ShingleSpec) -> ShingleSpec {
        ShingleSpec {
            track_len: self.track_len.map_or(usual.track_len, |len| Blocks::holding(len.0)),
            overlap_tracks: self.overlap_tracks.unwrap_or(usual.overlap_tracks),
        }
    }

    /// Refuses flags that have no meaning for such a drive.
    fn check(&self, recording: Option<Recording>) -> Result<(), BenchError> {
        let name = recording.map_or("another kind of", Recording::name);
        let flags = [
            ("--zone-len", self.zone_len.is_some(), &[Recording::Zoned][..]),
            (
                "--track-len",
                self.track_len.is_some(),
                &[Recording::Shingled, Recording::Interlaced],
            ),
            ("--overlap-tracks", self.overlap_tracks.is_some(), &[Recording::Shingled]),
            ("--top-track-len", self.top_track_len.is_some(), &[Recording::Interlaced]),
        ];
        for (flag, is_there, needed) in flags {
            if is_there && recording.is_none_or(|recording| !needed.contains(&recording)) {
                let names: Vec<&str> = needed.iter().map(|needed| needed.name()).collect();
                return Err(BenchError::Options(format!(
                    "{flag} is for {} drives and this one is {name}; omit it, or pass --rule {}",
                    names.join(" and "),
                    names[0],
                )));
            }
        }
        Ok(())
    }
}

/// The layout for a drive of `geometry`: `layout` if given, otherwise the usual one.
///
/// # Errors
/// [`BenchError::Layout`]: the layout cannot use the drive, or none can.
pub fn layout_for(geometry: &Geometry, layout: Option<Layout>) -> Result<Layout, BenchError> {
    let Some(layout) = layout.or_else(|| Layout::default_for(geometry.rule())) else {
        let name = geometry.rule().name();
        return Err(BenchError::Options(format!("no layout suits {name} drives")));
    };
    match layout.suits(geometry) {
        Ok(()) => Ok(layout),
        Err(reason) => Err(BenchError::layout(imbrex::LayoutError::Unsuitable {
            layout: layout.name(),
            reason,
        })),
    }
}

/// The profile of the flash drive for a drive of `geometry` with `layout`, of length `asked` or of the usual
/// share; `None` if the layout has no flash drive.
///
/// # Errors
/// [`BenchError::Drive`]: flash cannot be as long as asked.
pub fn flash_profile(
    layout: Layout,
    geometry: &Geometry,
    asked: Option<ByteCount>,
) -> Result<Option<Profile>, BenchError> {
    let Some(flash) = layout.recipe(geometry).flash else {
        return Ok(None);
    };
    let profile = read_profile(FLASH_PROFILE)?;
    let full_bytes = profile.geometry().len().bytes();
    let share_bytes = geometry.len().bytes() / FLASH_SHARE;
    let usual_bytes = share_bytes.max(FLASH_LOG_COUNT_MIN * flash.log_len_bytes_max);
    let len_bytes = asked.map_or(usual_bytes.min(full_bytes), |asked| asked.0);
    profile.scaled(len_bytes).map(Some).map_err(|source| failed(FLASH_PROFILE, source))
}

/// A profile by name, or from a TOML file.
///
/// # Errors
/// [`BenchError::Drive`].
pub fn read_profile(name: &str) -> Result<Profile, BenchError> {
    if !name.ends_with(".toml") {
        return Profile::by_name(name).map_err(|source| failed(name, source));
    }
    let text = std::fs::read_to_string(name).map_err(|source| failed(name, source))?;
    Profile::from_toml(&text).map_err(|source| failed(name, source))
}

fn failed(drive: &str, source: impl std::error::Error + Send + Sync + 'static) -> BenchError {
    BenchError::Drive { drive: drive.to_owned(), source: Box::new(source) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(change: impl FnOnce(&mut DriveShape)) -> DriveShape {
        let mut shape = DriveShape { capacity: Some(ByteCount(8 << 30)), ..DriveShape::default() };
        change(&mut shape);
        shape
    }

    fn rule(shape: &DriveShape, name: Option<&str>, layout: Option<&str>) -> Rule {
        let layout = layout.map(|name| Layout::by_name(name).unwrap());
        *shape.profile(name, layout).unwrap().geometry().rule()
    }

    #[test]
    fn what_is_said_counts_then_the_profile_then_the_layout() {
        let plain = shape(|_| ());
        let shingled = shape(|s| s.rule = Some(Recording::Shingled));
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
                for capacity in [Some(ByteCount(4 << 30)), None] {
                    let shape = DriveShape { rule: Some(recording), capacity, ..shape(|_| ()) };
                    let profile = shape.profile(Some(name), None).unwrap();
                    assert_eq!(profile.geometry().rule().name(), recording.name(), "{name}");
                    let full = read_profile(name).unwrap().geometry().len().bytes();
                    let asked = capacity.map_or(full, |capacity| capacity.0);
                    let got = profile.geometry().len().bytes();
                    assert!(got <= asked && got > asked - ZONE_LEN_BYTES, "{name}: {got} {asked}");
                }
            }
        }
    }

    #[test]
    fn lengths_of_zones_and_tracks_are_as_said() {
        let zones = shape(|s| {
            s.rule = Some(Recording::Zoned);
            s.zone_len = Some(ByteCount(40 << 20));
        });
        let profile = zones.profile(Some("st1000dm003"), None).unwrap();
        assert_eq!(profile.geometry().zones().unwrap().zone_len.bytes(), 40 << 20);
        assert_eq!(profile.geometry().zone_count(), 204);
        let tracks = shape(|s| {
            s.rule = Some(Recording::Shingled);
            (s.track_len, s.overlap_tracks) = (Some(ByteCount(1 << 20)), Some(4));
        });
        let want = ShingleSpec { track_len: Blocks::new(256), overlap_tracks: 4 };
        assert_eq!(rule(&tracks, None, None), Rule::IsolationDistance(want));
        let pairs = shape(|s| {
            s.rule = Some(Recording::Interlaced);
            s.track_len = Some(ByteCount(1 << 20));
            s.top_track_len = Some(ByteCount(800 << 10));
        });
        let want =
            NeighbourSpec { bottom_track_len: Blocks::new(256), top_track_len: Blocks::new(200) };
        assert_eq!(rule(&pairs, None, None), Rule::Neighbours(want));
        let usual = shape(|s| s.rule = Some(Recording::Interlaced));
        for name in [None, Some("st1000dm003"), Some("st500dm002")] {
            assert_eq!(rule(&usual, name, None), Rule::Neighbours(KVIMR_TRACKS));
        }
    }

    #[test]
    fn what_means_nothing_is_refused() {
        let refused = |shape: DriveShape, want: &str| {
            let error = shape.profile(None, None).unwrap_err().to_string();
            assert!(error.contains(want), "{error}");
        };
        refused(shape(|s| s.track_len = Some(ByteCount(4096))), "--rule shingled");
        refused(shape(|s| s.top_track_len = Some(ByteCount(4096))), "--rule interlaced");
        refused(
            shape(|s| {
                s.rule = Some(Recording::Conventional);
                s.zone_len = Some(ByteCount(1 << 20));
            }),
            "--zone-len is for zoned drives and this one is conventional",
        );
        refused(shape(|s| s.capacity = Some(ByteCount(1 << 10))), "1024");
        assert!(recording("shingeled").unwrap_err().contains("shingled"));
    }
}
