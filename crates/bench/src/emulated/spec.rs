//! The specification of an emulated drive: mechanics, rule and length. Plain data that can be
//! compared.

use serde::Serialize;

/// The drive of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct DriveSpec {
    /// The profile that provides the mechanics.
    pub profile: &'static str,
    /// The rule.
    pub rule: DriveRule,
    /// The length. With less data than on the real drive, the arm still sweeps all of it.
    pub len_bytes: u64,
    /// How much of it may be used, from its start; all of it if this is no less than `len_bytes`.
    pub part_bytes: u64,
    /// Whether writes of the catalog go to a flash device, which takes no time. Their space on the drive
    /// stays reserved.
    pub catalog_on_flash: bool,
    /// Whether its buffer keeps what was written last for reads.
    pub keeps_writes: bool,
    /// The second drive: of a layout that has one, or for the logs of another.
    pub beside: Option<BesideSpec>,
}

/// A second drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct BesideSpec {
    /// The profile that provides the mechanics; `None` for a drive that takes no time.
    pub profile: Option<&'static str>,
    /// The length.
    pub len_bytes: u64,
}

impl DriveSpec {
    /// A drive that is used completely.
    pub fn whole(profile: &'static str, rule: DriveRule, len_bytes: u64) -> DriveSpec {
        DriveSpec {
            profile,
            rule,
            len_bytes,
            part_bytes: len_bytes,
            catalog_on_flash: false,
            keeps_writes: false,
            beside: None,
        }
    }

    /// The same drive with a second one.
    pub fn beside(self, profile: &'static str, len_bytes: u64) -> DriveSpec {
        DriveSpec { beside: Some(BesideSpec { profile: Some(profile), len_bytes }), ..self }
    }

    /// The same drive, restricted to its first `part_bytes`.
    pub fn part(self, part_bytes: u64) -> DriveSpec {
        DriveSpec { part_bytes, ..self }
    }

    /// The same drive with the catalog's writes on flash, and a second drive of `len_bytes` for logs. Neither
    /// takes time.
    pub fn with_logs_on_flash(self, len_bytes: u64) -> DriveSpec {
        let beside = Some(BesideSpec { profile: None, len_bytes });
        DriveSpec { catalog_on_flash: true, beside, ..self }
    }

    /// The same drive, with a buffer that keeps what was written last.
    pub fn keeping_what_it_writes(self) -> DriveSpec {
        DriveSpec { keeps_writes: true, ..self }
    }

    /// How it differs from another drive for the same layout, in words; empty if it does not.
    pub fn words(&self) -> Vec<String> {
        let rule = match self.rule {
            DriveRule::Phased { .. } => Some("in three phases".to_owned()),
            DriveRule::Interlaced { track_len_bytes } => {
                Some(format!("tracks of {} KB", track_len_bytes >> 10))
            }
            _ => None,
        };
        let flash = self.catalog_on_flash.then(|| "catalog on flash".to_owned());
        let keeps = self.keeps_writes.then(|| "buffer keeps what it wrote".to_owned());
        let beside = self.beside.map(|beside| match beside.profile {
            Some(profile) => format!("beside {profile}"),
            None => "beside flash without time".to_owned(),
        });
        rule.into_iter().chain(flash).chain(keeps).chain(beside).collect()
    }
}

/// The rule of a drive, independent of the real drive's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DriveRule {
    /// Written anywhere.
    Conventional,
    /// Written anywhere. Its addresses cover tracks of this length in three phases: every other
    /// track, every other of the rest, the rest.
    Phased {
        /// The length of a track.
        track_len_bytes: u64,
    },
    /// Host-managed zones of this length.
    Zoned {
        /// The length of a zone.
        zone_len_bytes: u64,
    },
    /// Raw shingled tracks.
    Shingled {
        /// The length that a write destroys after itself.
        isolation_len_bytes: u64,
    },
    /// Raw interlaced tracks; bottom and top tracks have this length.
    Interlaced {
        /// The length of a track.
        track_len_bytes: u64,
    },
}
