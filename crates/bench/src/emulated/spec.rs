//! Which drive: whose mechanics, under which rule, how long; plain data that can be compared.

use serde::Serialize;

/// The drive of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct DriveSpec {
    /// Whose mechanics.
    pub profile: &'static str,
    /// Under which rule.
    pub rule: DriveRule,
    /// How long it is: with less on it than the real drive the arm still sweeps all of it.
    pub len_bytes: u64,
    /// How much of it, from its start, may be used; all of it where this is no less.
    pub part_bytes: u64,
    /// Whether logs and the catalog lie on a flash device beside it, which takes no time.
    pub logs_on_flash: bool,
    /// The drive beside it, for a layout that has one.
    pub beside: Option<BesideSpec>,
}

/// A drive beside another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct BesideSpec {
    /// Whose mechanics.
    pub profile: &'static str,
    /// How long it is.
    pub len_bytes: u64,
}

impl DriveSpec {
    /// A drive that is used from end to end.
    pub fn whole(profile: &'static str, rule: DriveRule, len_bytes: u64) -> DriveSpec {
        DriveSpec {
            profile,
            rule,
            len_bytes,
            part_bytes: len_bytes,
            logs_on_flash: false,
            beside: None,
        }
    }

    /// The same drive with another one beside it.
    pub fn beside(self, profile: &'static str, len_bytes: u64) -> DriveSpec {
        DriveSpec { beside: Some(BesideSpec { profile, len_bytes }), ..self }
    }

    /// The same drive, restricted to its first `part_bytes`.
    pub fn part(self, part_bytes: u64) -> DriveSpec {
        DriveSpec { part_bytes, ..self }
    }

    /// The same drive, with a flash device for logs and the catalog.
    pub fn with_logs_on_flash(self) -> DriveSpec {
        DriveSpec { logs_on_flash: true, ..self }
    }

    /// What tells it from another drive for the same layout, in words; none for none.
    pub fn words(&self) -> Vec<String> {
        let rule = match self.rule {
            DriveRule::Phased { .. } => Some("in three phases".to_owned()),
            DriveRule::Interlaced { track_len_bytes } => {
                Some(format!("tracks of {} KB", track_len_bytes >> 10))
            }
            _ => None,
        };
        let flash = self.logs_on_flash.then(|| "logs on flash".to_owned());
        let beside = self.beside.map(|beside| format!("beside {}", beside.profile));
        rule.into_iter().chain(flash).chain(beside).collect()
    }
}

/// The rule of a drive, whatever the real drive's is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DriveRule {
    /// Written anywhere.
    Conventional,
    /// Written anywhere, and its addresses run over tracks of this length in three phases: every
    /// other track, every other of the rest, the rest.
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
        /// How far a write destroys what follows it.
        isolation_len_bytes: u64,
    },
    /// Raw interlaced tracks, bottom and top ones of this length.
    Interlaced {
        /// The length of a track.
        track_len_bytes: u64,
    },
}
