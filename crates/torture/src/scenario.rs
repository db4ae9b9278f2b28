//! The named combinations of drive, placement and target that a seed can be run on.

use imbrex_disk::{Blocks, Geometry, GeometrySpec, Rule, ShingleSpec, ZoneSpec};

/// What is tortured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// The file layer alone.
    Files,
    /// The key-value store on the file layer.
    Store,
}

/// Which drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Drive {
    /// Zones, the first few conventional.
    Zoned { conventional_zone_count: u32 },
    /// No zones.
    Conventional,
    /// Raw tracks, which a write to the ones before destroys.
    Shingled { track_len: Blocks, overlap_tracks: u32 },
}

/// A named combination.
#[derive(Clone, Copy, Debug)]
pub struct Scenario {
    /// Its name on the command line.
    pub name: &'static str,
    /// What it is about, in a line.
    pub about: &'static str,
    /// What is tortured.
    pub target: Target,
    pub(crate) drive: Drive,
    pub(crate) placement: &'static str,
    pub(crate) zone_count: u64,
}

const ZONE_LEN: Blocks = Blocks::new(64);

impl Scenario {
    /// All scenarios.
    pub const ALL: &'static [Scenario] = &[
        Scenario {
            name: "zoned-small",
            about: "the store on host-managed zones, some conventional, greedy cleaning",
            target: Target::Store,
            drive: Drive::Zoned { conventional_zone_count: 3 },
            placement: "log-structured",
            zone_count: 48,
        },
        Scenario {
            name: "zoned-levels",
            about: "the store on host-managed zones, a zone holds tables of one level",
            target: Target::Store,
            drive: Drive::Zoned { conventional_zone_count: 3 },
            placement: "zone-per-level",
            zone_count: 48,
        },
        Scenario {
            name: "all-sequential",
            about: "the store on a drive without a conventional zone",
            target: Target::Store,
            drive: Drive::Zoned { conventional_zone_count: 0 },
            placement: "log-structured",
            zone_count: 48,
        },
        Scenario {
            name: "conventional",
            about: "the store on a conventional drive",
            target: Target::Store,
            drive: Drive::Conventional,
            placement: "first-fit",
            zone_count: 48,
        },
        Scenario {
            name: "full-drive",
            about: "the store on zones that are too few for it, so that writes are refused",
            target: Target::Store,
            drive: Drive::Zoned { conventional_zone_count: 3 },
            placement: "log-structured",
            zone_count: 20,
        },
        Scenario {
            name: "files-zoned",
            about: "the file layer on host-managed zones, some conventional",
            target: Target::Files,
            drive: Drive::Zoned { conventional_zone_count: 3 },
            placement: "log-structured",
            zone_count: 48,
        },
        Scenario {
            name: "files-all-sequential",
            about: "the file layer on a drive without a conventional zone",
            target: Target::Files,
            drive: Drive::Zoned { conventional_zone_count: 0 },
            placement: "zone-per-level",
            zone_count: 48,
        },
        Scenario {
            name: "files-cost-benefit",
            about: "the file layer on one log of zones, cleaned where it pays most",
            target: Target::Files,
            drive: Drive::Zoned { conventional_zone_count: 1 },
            placement: "log-cost-benefit",
            zone_count: 40,
        },
        Scenario {
            name: "files-band-per-table",
            about: "the file layer with a zone for each table",
            target: Target::Files,
            drive: Drive::Zoned { conventional_zone_count: 2 },
            placement: "band-per-table",
            zone_count: 48,
        },
        Scenario {
            name: "files-sets",
            about: "the file layer on a conventional drive, tables of a group side by side",
            target: Target::Files,
            drive: Drive::Conventional,
            placement: "sets",
            zone_count: 32,
        },
        Scenario {
            name: "files-dynamic-bands",
            about: "the file layer on raw shingled tracks that refuse to be destroyed",
            target: Target::Files,
            drive: Drive::Shingled { track_len: Blocks::new(8), overlap_tracks: 2 },
            placement: "dynamic-bands",
            zone_count: 30,
        },
        Scenario {
            name: "files-conventional",
            about: "the file layer on a conventional drive",
            target: Target::Files,
            drive: Drive::Conventional,
            placement: "first-fit",
            zone_count: 48,
        },
    ];

    /// The scenario called `name`.
    pub fn by_name(name: &str) -> Option<&'static Scenario> {
        Scenario::ALL.iter().find(|scenario| scenario.name == name)
    }

    /// The drive: small, so that every seed fills, cleans and resets it many times.
    pub(crate) fn geometry(&self) -> Geometry {
        let len = Blocks::new(self.zone_count * ZONE_LEN.get());
        let rule = match self.drive {
            Drive::Conventional => Rule::Anywhere,
            Drive::Shingled { track_len, overlap_tracks } => {
                Rule::IsolationDistance(ShingleSpec { track_len, overlap_tracks })
            }
            Drive::Zoned { conventional_zone_count } => Rule::AtPointer(ZoneSpec {
                zone_len: ZONE_LEN,
                // A few blocks short, as real drives may be: addresses jump at zone ends.
                zone_capacity: ZONE_LEN - Blocks::new(3),
                conventional_zone_count,
                open_zone_limit: Some(12),
                active_zone_limit: Some(14),
                strict_reads: true,
            }),
        };
        Geometry::new(GeometrySpec { len, rule }).expect("a geometry written by hand")
    }
}
