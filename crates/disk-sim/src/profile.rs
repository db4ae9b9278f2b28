//! Drive profiles: the geometry, the mechanics and the published figures of real drives.
//!
//! A profile is a TOML text in which a comment names the source of each number. Seven come with the
//! crate; [`Profile::from_toml`] reads others. `docs/guide/drive_profiles.md` has every field.
//!
//! | name | drive |
//! |---|---|
//! | `st1000dm003` | Seagate Desktop HDD, 1 TB, conventional: the drive under SEALDB's figures |
//! | `st13125nm007` | Seagate, 13 TB, host-managed: the drive under GearDB's figures |
//! | `hc620` | Western Digital Ultrastar DC HC620, 15 TB, host-managed |
//! | `st500dm002` | Seagate Desktop HDD, its first 100 GB as interlaced tracks: the drive of KVIMR |
//! | `st20000nm007d` | Seagate Exos X20, 20 TB, conventional |
//! | `hc690` | Western Digital Ultrastar DC HC690, 32 TB, host-managed |
//! | `ssd120` | a SATA solid-state drive, 120 GB: the target of write offloading in Pitchumani's thesis |
//!
//! Scaling ([`Profile::scaled`]) gives the same drive with fewer tracks. Rotation, track lengths
//! and seek curve stay, and the arm's whole stroke covers the remaining tracks. The first block
//! still lies on an outermost track and the last on an innermost. A seek over half of the drive
//! takes as long as on the full drive. A workload that fills some share of the small drive
//! therefore sees the times of one that fills the same share of the full drive.

mod fields;

use self::fields::Fields;
use crate::mechanics::{ElectronicsSpec, Mechanics, PlatterSpec, SeekSpec};
use imbrex_disk::{
    Blocks, ByteSize, Geometry, GeometryError, GeometrySpec, NeighbourSpec, Rule, ShingleSpec,
    ZoneSpec,
};
use serde::Deserialize;

const BUILT_IN: [(&str, &str); 7] = [
    ("st1000dm003", include_str!("../profiles/st1000dm003.toml")),
    ("st13125nm007", include_str!("../profiles/st13125nm007.toml")),
    ("hc620", include_str!("../profiles/hc620.toml")),
    ("st20000nm007d", include_str!("../profiles/st20000nm007d.toml")),
    ("hc690", include_str!("../profiles/hc690.toml")),
    ("st500dm002", include_str!("../profiles/st500dm002.toml")),
    ("ssd120", include_str!("../profiles/ssd120.toml")),
];

/// The tracks of SEALDB's emulated drive. A write destroys the 4 MB that follow it, so a guard is
/// as long as a table. The tracks are finer than real ones (381 blocks at the outer radius of
/// `st1000dm003`), because the paper counts guards in bytes, not in tracks: wherever a write ends,
/// at most one such track, 256 KiB, is added to its 4 MB.
///
/// Source: SEALDB, sections III-B and IV (guard region 4 MB, equation 1).
pub const SEALDB_SHINGLE: ShingleSpec =
    ShingleSpec { track_len: Blocks::new(64), overlap_tracks: 16 };

/// The tracks of KVIMR's emulated drive: 2 MB each, alternating bottom and top.
///
/// Source: KVIMR, section 4.1.
pub const KVIMR_TRACKS: NeighbourSpec =
    NeighbourSpec { bottom_track_len: Blocks::new(512), top_track_len: Blocks::new(512) };

/// A profile that cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProfileError {
    /// The program has no profile of that name.
    #[error("no drive profile named {name:?}; there are {}, or give a TOML file", known())]
    Unknown {
        /// The name.
        name: String,
    },
    /// The text has faults.
    #[error("drive profile: {}", listed(.faults))]
    Faulty {
        /// All of them, by their lines.
        faults: Vec<ProfileFault>,
    },
    /// A number is outside the range that a drive can have.
    #[error("drive profile: {field} is {got}; it must be {expected}")]
    Field {
        /// The field.
        field: &'static str,
        /// Its value.
        got: u64,
        /// The allowed values.
        expected: String,
    },
    /// No drive of this make can be scaled to that length.
    #[error(
        "the drive's length is {}; it must be between {} and {}",
        ByteSize(*.got_bytes), ByteSize(*.min_bytes), ByteSize(*.max_bytes)
    )]
    Length {
        /// The length.
        got_bytes: u64,
        /// The least that the profile can be scaled to.
        min_bytes: u64,
        /// The full drive.
        max_bytes: u64,
    },
    /// A text is not one of the allowed values.
    #[error("drive profile: {field} is {got:?}; it must be one of {expected}")]
    Word {
        /// The field.
        field: &'static str,
        /// Its value.
        got: String,
        /// The allowed values.
        expected: &'static str,
    },
    /// The geometry is impossible.
    #[error("drive profile: geometry: {0}")]
    Geometry(#[from] GeometryError),
}

/// One thing that is wrong with the text of a profile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProfileFault {
    /// The line, counted from 1; `None` if the fault has none, such as a table that is missing.
    pub line: Option<usize>,
    /// What is wrong.
    pub message: String,
}

impl std::fmt::Display for ProfileFault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.line {
            Some(line) => write!(f, "line {line}: {}", self.message),
            None => f.write_str(&self.message),
        }
    }
}

fn known() -> String {
    Profile::names().collect::<Vec<_>>().join(", ")
}

fn listed(faults: &[ProfileFault]) -> String {
    let count = match faults.len() {
        0 | 1 => String::new(),
        count => format!("{count} errors: "),
    };
    let faults: Vec<String> = faults.iter().map(ToString::to_string).collect();
    format!("{count}{}", faults.join("; "))
}

/// The quantity that a published figure measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Workload {
    /// 1 MiB requests, starting at the first block.
    SequentialReadOuter,
    /// The same near the last block.
    SequentialReadInner,
    /// 1 MiB requests, starting at the first block that is written sequentially.
    SequentialWriteOuter,
    /// The same near the last block.
    SequentialWriteInner,
    /// Reads of one length at random addresses, with a constant number queued.
    RandomRead {
        /// The length of a request.
        len_bytes: u64,
        /// The number of reads in the queue.
        queue_depth: u64,
    },
    /// Writes of one length at random addresses in conventional space, through the drive's write
    /// cache.
    RandomWrite {
        /// The length of a request.
        len_bytes: u64,
    },
}

/// A figure measured on the real drive.
#[derive(Clone, Debug, PartialEq)]
pub struct PublishedFigure {
    /// The measured quantity.
    pub workload: Workload,
    /// The figure, in the workload's unit ([`Workload::unit`]).
    pub value: f64,
    /// The publisher.
    pub source: String,
}

/// One drive: geometry, mechanics, published figures.
#[derive(Clone, Debug, PartialEq)]
pub struct Profile {
    name: String,
    title: String,
    text: String,
    geometry: Geometry,
    platter: PlatterSpec,
    seek: SeekSpec,
    electronics: ElectronicsSpec,
    published: Vec<PublishedFigure>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ProfileText {
    name: String,
    title: String,
    geometry: GeometryText,
    platter: PlatterSpec,
    seek: SeekSpec,
    electronics: ElectronicsSpec,
    #[serde(default)]
    published: Vec<PublishedText>,
}

/// The geometry, whatever else is in the text.
#[derive(Deserialize)]
struct GeometryPart {
    geometry: GeometryText,
}

/// The published figures, whatever else is in the text.
#[derive(Deserialize)]
struct PublishedPart {
    #[serde(default)]
    published: Vec<PublishedText>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct GeometryText {
    rule: String,
    len_blocks: u64,
    zones: Option<ZonesText>,
    tracks: Option<TracksText>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TracksText {
    track_len_blocks: Option<u64>,
    overlap_tracks: Option<u32>,
    bottom_track_len_blocks: Option<u64>,
    top_track_len_blocks: Option<u64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ZonesText {
    zone_len_blocks: u64,
    zone_capacity_blocks: u64,
    conventional_zone_count: u32,
    open_zone_limit: Option<u32>,
    active_zone_limit: Option<u32>,
    strict_reads: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PublishedText {
    workload: String,
    request_len_bytes: Option<u64>,
    queue_depth: Option<u64>,
    value: f64,
    source: String,
}

impl Profile {
    /// The names of the profiles that come with the crate.
    pub fn names() -> impl Iterator<Item = &'static str> {
        BUILT_IN.iter().map(|(name, _)| *name)
    }

    /// The profile with that name.
    ///
    /// # Errors
    /// [`ProfileError::Unknown`] lists the existing names.
    pub fn by_name(name: &str) -> Result<Profile, ProfileError> {
        let known = BUILT_IN.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
        let (_, text) = known.ok_or_else(|| ProfileError::Unknown { name: name.to_owned() })?;
        Profile::from_toml(text)
    }

    /// The same mechanics for blocks that stand for less: `count` of them have the length on the platter,
    /// and take the time, of one block before. So 8 make a model of a drive with sectors of 512 bytes.
    /// Lengths in blocks that the caller gives, such as the drive's, are of the new blocks.
    #[must_use]
    pub fn with_blocks_in_parts(mut self, count: u64) -> Profile {
        self.platter.outer_track_blocks *= count;
        self.platter.inner_track_blocks *= count;
        self.electronics.interface_bytes_per_s *= count;
        self.electronics.look_ahead_blocks *= count;
        self.electronics.write_cache_blocks *= count;
        self.electronics.kept_write_blocks *= count;
        self
    }

    /// The same drive with a buffer that keeps what was written last, after it went to the platter: as much as
    /// the write cache holds. A read of it takes no time at the platter.
    #[must_use]
    pub fn keeping_what_it_writes(mut self) -> Profile {
        self.electronics.kept_write_blocks = self.electronics.write_cache_blocks;
        self
    }

    /// Reads a profile from TOML text. The files in `profiles/` show every field.
    ///
    /// # Errors
    /// [`ProfileError::Faulty`] with every fault of the text, each with its line.
    pub fn from_toml(text: &str) -> Result<Profile, ProfileError> {
        let mut fields = Fields::read(text)?;
        // A part whose fields have faults does not parse, and has been reported.
        if let Ok(GeometryPart { geometry }) = toml::from_str(text)
            && let Err(error) = geometry_of(&geometry)
        {
            fields.fault(error.field().unwrap_or("geometry"), error.bare());
        }
        if let Ok(PublishedPart { published }) = toml::from_str(text) {
            for (n, text) in published.into_iter().enumerate() {
                if let Err(error) = figure(text) {
                    let field = error.field().and_then(|field| field.strip_prefix("published."));
                    let field = field.unwrap_or_default();
                    fields.fault(&format!("published.{n}.{field}"), error.bare());
                }
            }
        }
        fields.finish()?;
        let parsed: ProfileText = toml::from_str(text).map_err(|error| {
            let message = error.message().to_owned();
            ProfileError::Faulty { faults: vec![ProfileFault { line: None, message }] }
        })?;
        Ok(Profile {
            geometry: geometry_of(&parsed.geometry)?,
            published: parsed.published.into_iter().map(figure).collect::<Result<_, _>>()?,
            name: parsed.name,
            title: parsed.title,
            text: text.to_owned(),
            platter: parsed.platter,
            seek: parsed.seek,
            electronics: parsed.electronics,
        })
    }

    /// The profile's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The drive's name in words.
    pub fn title(&self) -> &str {
        &self.title
    }

    /// The TOML text that the profile was read from.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The drive's geometry, scaled if the profile is.
    pub fn geometry(&self) -> Geometry {
        self.geometry
    }

    /// The published figures of the drive.
    pub fn published(&self) -> &[PublishedFigure] {
        &self.published
    }

    /// The same drive with a length of about `len_bytes`: whole zones, at least four. The share of
    /// conventional zones stays, but at least two remain if the drive has two. Limits on open zones
    /// stay. The top of this module explains what scaling means for time.
    ///
    /// # Errors
    /// [`ProfileError::Length`] if `len_bytes` is less than four zones or than 1 MiB, or more than
    /// the full drive.
    pub fn scaled(&self, len_bytes: u64) -> Result<Profile, ProfileError> {
        let full = self.geometry.len();
        let unit = self.geometry.zones().map_or(Blocks::new(64), |zones| zones.zone_len);
        let (min, max) = (4 * unit.bytes(), full.bytes());
        if !(min..=max).contains(&len_bytes) {
            return Err(ProfileError::Length {
                got_bytes: len_bytes,
                min_bytes: min,
                max_bytes: max,
            });
        }
        let unit_count = len_bytes / unit.bytes();
        let len = Blocks::new(unit_count * unit.get());
        let mut rule = *self.geometry.rule();
        if let Rule::AtPointer(zones) = &mut rule {
            zones.conventional_zone_count = scaled_conventional(
                zones.conventional_zone_count,
                unit_count,
                u64::from(self.geometry.zone_count()),
            );
        }
        Ok(Profile { geometry: Geometry::new(GeometrySpec { len, rule })?, ..self.clone() })
    }

    /// The same drive cut into zones of `zone_len`, all of it writable. The conventional space
    /// keeps its length, rounded up to whole zones. For small drives: call before
    /// [`Profile::scaled`]. Does not change a conventional drive.
    ///
    /// # Errors
    /// As [`Profile::check_zone_len`]. [`ProfileError::Geometry`] if such zones are impossible.
    pub fn with_zone_len(&self, zone_len: Blocks) -> Result<Profile, ProfileError> {
        let Rule::AtPointer(mut zones) = *self.geometry.rule() else { return Ok(self.clone()) };
        self.check_zone_len(zone_len)?;
        let conventional = u64::from(zones.conventional_zone_count) * zones.zone_len.get();
        let count = conventional.div_ceil(zone_len.get().max(1));
        zones.conventional_zone_count = u32::try_from(count).unwrap_or(u32::MAX);
        zones.zone_len = zone_len;
        zones.zone_capacity = zone_len;
        let spec = GeometrySpec { len: self.geometry.len(), rule: Rule::AtPointer(zones) };
        Ok(Profile { geometry: Geometry::new(spec)?, ..self.clone() })
    }

    /// Checks that zones of `zone_len` are no longer than the drive.
    ///
    /// # Errors
    /// [`ProfileError::Field`].
    pub fn check_zone_len(&self, zone_len: Blocks) -> Result<(), ProfileError> {
        within_drive("the length of a zone in blocks", zone_len, self.geometry.len())
    }

    /// The same drive under another recording rule, with the same mechanics. `geometry` then
    /// follows from the rule. The published figures still describe the original drive.
    ///
    /// # Errors
    /// [`ProfileError::Geometry`] if the rule does not fit the drive's length. Call after
    /// [`Profile::scaled`].
    pub fn with_rule(&self, rule: Rule) -> Result<Profile, ProfileError> {
        let geometry = Geometry::new(GeometrySpec { len: self.geometry.len(), rule })?;
        Ok(Profile { geometry, ..self.clone() })
    }

    /// The moving parts, on a disk of `len`.
    pub(crate) fn mechanics(&self, len: Blocks) -> Mechanics {
        Mechanics::new(self.platter, self.seek, self.electronics, len.get())
    }

    pub(crate) fn write_cache_blocks(&self) -> u64 {
        self.electronics.write_cache_blocks
    }
}

impl Workload {
    /// The unit of its figures: "MB/s" (10^6 bytes) or "IOPS".
    pub fn unit(self) -> &'static str {
        match self {
            Workload::RandomRead { .. } | Workload::RandomWrite { .. } => "IOPS",
            _ => "MB/s",
        }
    }
}

impl std::fmt::Display for Workload {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Workload::SequentialReadOuter => write!(f, "sequential read, outer"),
            Workload::SequentialReadInner => write!(f, "sequential read, inner"),
            Workload::SequentialWriteOuter => write!(f, "sequential write, outer"),
            Workload::SequentialWriteInner => write!(f, "sequential write, inner"),
            Workload::RandomRead { len_bytes, queue_depth } => {
                let kib = len_bytes / 1024;
                write!(f, "random read, {kib} KiB, queue depth {queue_depth}")
            }
            Workload::RandomWrite { len_bytes } => {
                write!(f, "random write, {} KiB, cached", len_bytes / 1024)
            }
        }
    }
}

fn scaled_conventional(count: u32, unit_count: u64, full_count: u64) -> u32 {
    let share = (u64::from(count) * unit_count).div_ceil(full_count) as u32;
    share.max(count.min(2))
}

impl ProfileError {
    /// The field that it is about, if it is about one.
    fn field(&self) -> Option<&'static str> {
        match self {
            ProfileError::Field { field, .. } | ProfileError::Word { field, .. } => Some(field),
            _ => None,
        }
    }

    /// Its text without the subject.
    fn bare(&self) -> String {
        let text = self.to_string();
        text.strip_prefix("drive profile: ").map(str::to_owned).unwrap_or(text)
    }
}

fn geometry_of(text: &GeometryText) -> Result<Geometry, ProfileError> {
    let rule = rule_of(text)?;
    let len = Blocks::new(text.len_blocks);
    if let Rule::AtPointer(zones) = rule {
        within_drive("geometry.zones.zone_len_blocks", zones.zone_len, len)?;
    }
    Ok(Geometry::new(GeometrySpec { len, rule })?)
}

fn rule_of(geometry: &GeometryText) -> Result<Rule, ProfileError> {
    match (geometry.rule.as_str(), &geometry.zones, geometry.tracks.as_ref()) {
        ("conventional", None, None) => Ok(Rule::Anywhere),
        (
            "shingled",
            None,
            Some(&TracksText {
                track_len_blocks: Some(track_len),
                overlap_tracks: Some(overlap_tracks),
                bottom_track_len_blocks: None,
                top_track_len_blocks: None,
            }),
        ) => Ok(Rule::IsolationDistance(ShingleSpec {
            track_len: Blocks::new(track_len),
            overlap_tracks,
        })),
        (
            "interlaced",
            None,
            Some(&TracksText {
                track_len_blocks: None,
                overlap_tracks: None,
                bottom_track_len_blocks: Some(bottom_track_len),
                top_track_len_blocks: Some(top_track_len),
            }),
        ) => Ok(Rule::Neighbours(NeighbourSpec {
            bottom_track_len: Blocks::new(bottom_track_len),
            top_track_len: Blocks::new(top_track_len),
        })),
        ("zoned", Some(zones), None) => Ok(Rule::AtPointer(ZoneSpec {
            zone_len: Blocks::new(zones.zone_len_blocks),
            zone_capacity: Blocks::new(zones.zone_capacity_blocks),
            conventional_zone_count: zones.conventional_zone_count,
            open_zone_limit: zones.open_zone_limit,
            active_zone_limit: zones.active_zone_limit,
            strict_reads: zones.strict_reads,
        })),
        (rule, ..) => Err(ProfileError::Word {
            field: "geometry.rule",
            got: rule.to_owned(),
            expected: "\"conventional\", \"zoned\" with a table geometry.zones, \"shingled\" with a \
                       table geometry.tracks of track_len_blocks and overlap_tracks, \
                       \"interlaced\" with one of bottom_track_len_blocks and top_track_len_blocks",
        }),
    }
}

fn figure(text: PublishedText) -> Result<PublishedFigure, ProfileError> {
    let len_bytes = text.request_len_bytes.unwrap_or(4_096);
    let queue_depth = text.queue_depth.unwrap_or(1);
    if !len_bytes.is_multiple_of(4_096) {
        let expected = "a multiple of 4096".to_owned();
        let field = "published.request_len_bytes";
        return Err(ProfileError::Field { field, got: len_bytes, expected });
    }
    let workload = match text.workload.as_str() {
        "sequential-read-outer" => Workload::SequentialReadOuter,
        "sequential-read-inner" => Workload::SequentialReadInner,
        "sequential-write-outer" => Workload::SequentialWriteOuter,
        "sequential-write-inner" => Workload::SequentialWriteInner,
        "random-read" => Workload::RandomRead { len_bytes, queue_depth },
        "random-write" => Workload::RandomWrite { len_bytes },
        _ => {
            return Err(ProfileError::Word {
                field: "published.workload",
                got: text.workload,
                expected: "sequential-{read,write}-{outer,inner}, random-read, random-write",
            });
        }
    };
    Ok(PublishedFigure { workload, value: text.value, source: text.source })
}

/// A longer zone is useless, and its length in bytes might not fit 64 bits.
fn within_drive(field: &'static str, zone_len: Blocks, len: Blocks) -> Result<(), ProfileError> {
    if zone_len <= len {
        return Ok(());
    }
    let expected = format!("at most {}, the drive's length in blocks", len.get());
    Err(ProfileError::Field { field, got: zone_len.get(), expected })
}

#[cfg(test)]
mod tests;
