//! The table of layouts, and [`Layout`]: one line of it.
//!
//! To add a layout, write its policies (one file each in `files::placement` or
//! `engine::compaction`) and one entry here; `docs/layouts.md` walks through it.

use super::error::{LayoutError, nearest};
use super::recipe::{
    EngineOptions, OFFLOAD_BAND_LEN_BYTES, Recipe, Recording, default_engine, gear, gear_paper,
    kvimr, lazy, lazy_flash, lazy_tracks, leveldb, offload, set_unit_len, sets, sets_paper, smrdb,
    smrdb_leveled, smrdb_paper, unit_len,
};
use imbrex_disk::{Geometry, GeometrySpec, Rule};
use imbrex_engine::CompactionKind;
use imbrex_files::tiers::FlashOptions;
use imbrex_files::{PlacementKind, PlacementOptions};
use imbrex_translate::BandOptions;
use std::fmt;

/// One layout.
struct Entry {
    name: &'static str,
    recording: Recording,
    over: Over,
    /// A policy of `files`.
    placement: &'static str,
    engine: EngineOptions,
    /// Where it was published.
    source: &'static str,
    /// What it is, in one line.
    summary: &'static str,
}

/// What lies between the drive and the files.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Over {
    Drive,
    /// Fixed bands with read-modify-write: the drive then takes writes anywhere.
    FixedBands,
    /// Nothing, but a flash drive lies beside the drive.
    BesideFlash,
}

use Over::{BesideFlash, Drive, FixedBands};
use Recording::{Conventional, Interlaced, Shingled, Zoned};

/// Layouts whose zones are cleaned as early as those of a log, with which they are compared.
const CLEANED_LIKE_LOGS: [&str; 1] = ["leveldb-zones"];

/// A log of zones is cleaned below this share of free space, in percent.
const LOG_FREE_PERCENT_LEAST: u8 = 20;

const TABLE: &[Entry] = &[
    Entry {
        name: "imbrex-zones",
        recording: Zoned,
        over: Drive,
        placement: STREAMS,
        engine: lazy,
        source: "Imbrex",
        summary: "one sorted run and lazy levels above it, merged a partition at a time when space is needed",
    },
    Entry {
        name: "leveled-zones",
        recording: Zoned,
        over: Drive,
        placement: "zone-per-level",
        engine: default_engine,
        source: "Imbrex",
        summary: "each level in zones of its own, leveled compaction with large tables",
    },
    Entry {
        name: "leveled-log",
        recording: Zoned,
        over: Drive,
        placement: "log-structured",
        engine: default_engine,
        source: "Imbrex",
        summary: "one log of zones with greedy cleaning, leveled compaction with large tables",
    },
    Entry {
        name: "leveled-first-fit",
        recording: Conventional,
        over: Drive,
        placement: "first-fit",
        engine: default_engine,
        source: "Imbrex",
        summary: "first fit by address, leveled compaction with large tables",
    },
    Entry {
        name: "imbrex",
        recording: Conventional,
        over: Drive,
        placement: "first-fit",
        engine: lazy,
        source: "Imbrex",
        summary: "as imbrex-zones, first fit by address",
    },
    Entry {
        name: "leveldb-cmr",
        recording: Conventional,
        over: Drive,
        placement: "first-fit",
        engine: leveldb,
        source: "LevelDB 1.19; the baseline of SEALDB fig. 2",
        summary: "LevelDB on a conventional disk: tables scattered first fit, as by a file system",
    },
    Entry {
        name: "leveldb-banded",
        recording: Shingled,
        over: FixedBands,
        placement: "first-fit",
        engine: leveldb,
        source: "SEALDB, LevelDB of fig. 3, 8 and 12",
        summary: "LevelDB on fixed bands that are read, modified and rewritten, as in a drive-managed disk",
    },
    Entry {
        name: "smrdb",
        recording: Zoned,
        over: Drive,
        placement: "band-per-table",
        engine: smrdb,
        source: "Pitchumani's thesis, chapter 3: SMRDB-SOC",
        summary: "a table a band; two levels of overlapping runs, merged where they are least sequential",
    },
    Entry {
        name: "smrdb-paper",
        recording: Zoned,
        over: Drive,
        placement: "band-per-table",
        engine: smrdb_paper,
        source: "Pitchumani's thesis, chapter 3: SMRDB-SOC",
        summary: "as smrdb, with what was published: no compression, overlaps up to 16 deep",
    },
    Entry {
        name: "smrdb-leveled",
        recording: Zoned,
        over: Drive,
        placement: "band-per-table",
        engine: smrdb_leveled,
        source: "Pitchumani's thesis, chapter 3: SMRDB-LOC",
        summary: "a table a band; LevelDB's levels",
    },
    Entry {
        name: "smrdb-offload",
        recording: Zoned,
        over: BesideFlash,
        placement: "band-per-table",
        engine: offload,
        source: "Pitchumani's thesis, chapter 5",
        summary: "a table a band, three levels; writes go to a flash drive while compaction runs",
    },
    Entry {
        name: "sealdb",
        recording: Shingled,
        over: Drive,
        placement: "dynamic-bands",
        engine: sets,
        source: "SEALDB",
        summary: "a compaction's tables as one set, in bands of chosen length between guards",
    },
    Entry {
        name: "sealdb-paper",
        recording: Shingled,
        over: Drive,
        placement: "dynamic-bands",
        engine: sets_paper,
        source: "SEALDB",
        summary: "as sealdb, with the published sizes: LevelDB's tables of 4 MiB, no filters",
    },
    Entry {
        name: "sets-banded",
        recording: Shingled,
        over: FixedBands,
        placement: "sets",
        engine: sets_paper,
        source: "SEALDB, fig. 14",
        summary: "a compaction's tables as one set, on fixed bands",
    },
    Entry {
        name: "leveldb-greedy",
        recording: Zoned,
        over: Drive,
        placement: "log-structured",
        engine: leveldb,
        source: "GearDB, Ldb-Greedy",
        summary: "LevelDB over one log of zones; the zone with most dead data is cleaned first",
    },
    Entry {
        name: "leveldb-cb",
        recording: Zoned,
        over: Drive,
        placement: "log-cost-benefit",
        engine: leveldb,
        source: "GearDB, Ldb-CB",
        summary: "LevelDB over one log of zones; the oldest and emptiest zone is cleaned first",
    },
    Entry {
        name: "gear",
        recording: Zoned,
        over: Drive,
        placement: "zone-per-level",
        engine: gear,
        source: "GearDB",
        summary: "each level in zones of its own; compaction in windows that empty whole zones",
    },
    Entry {
        name: "gear-paper",
        recording: Zoned,
        over: Drive,
        placement: "zone-per-level",
        engine: gear_paper,
        source: "GearDB",
        summary: "as gear, with the published sizes: LevelDB's tables of 4 MiB, no filters",
    },
    Entry {
        name: "leveldb-zones",
        recording: Zoned,
        over: Drive,
        placement: "zone-per-level",
        engine: leveldb,
        source: "the baseline that GearDB leaves out",
        summary: "LevelDB with zones of each level apart, cleaned like one log",
    },
    Entry {
        name: "kvimr-cmr",
        recording: Conventional,
        over: Drive,
        placement: "first-fit",
        engine: kvimr,
        source: "KVIMR, CMR",
        summary: "the store of the layouts of tracks on a conventional drive, where nothing overlaps",
    },
    Entry {
        name: "imr-m",
        recording: Interlaced,
        over: Drive,
        placement: "track-tiers",
        engine: kvimr,
        source: "KVIMR, KVIMR-M",
        summary: "the largest level in bottom tracks, all others on top",
    },
    Entry {
        name: "imr-n",
        recording: Interlaced,
        over: Drive,
        placement: "track-tiers-naive",
        engine: kvimr,
        source: "KVIMR, KVIMR-N",
        summary: "the largest level in bottom tracks, all others on top; rewrites track by track",
    },
    Entry {
        name: "imr-3phase",
        recording: Interlaced,
        over: Drive,
        placement: "track-three-phase",
        engine: kvimr,
        source: "KVIMR, 3Phase",
        summary: "bottom tracks first, then every other top track, then the rest",
    },
    Entry {
        name: "imr-seq",
        recording: Interlaced,
        over: Drive,
        placement: "track-sequential",
        engine: kvimr,
        source: "KVIMR, Seq",
        summary: "one track after the other, bottom and top in turn",
    },
    Entry {
        name: "imr-fullest",
        recording: Interlaced,
        over: Drive,
        placement: "track-tiers-fullest",
        engine: kvimr,
        source: "Imbrex, after KVIMR-M",
        summary: "as imr-m, but the level with most tables in bottom tracks",
    },
    Entry {
        name: "imbrex-tracks",
        recording: Interlaced,
        over: Drive,
        placement: "track-positions",
        engine: lazy_tracks,
        source: "Imbrex",
        summary: "as imbrex-zones: the base in bottom tracks, and above it the levels that merge into it",
    },
    Entry {
        name: "imbrex-flash",
        recording: Zoned,
        over: BesideFlash,
        placement: STREAMS,
        engine: lazy_flash,
        source: "Imbrex",
        summary: "as imbrex-zones; what is flushed waits on a flash drive until that is full",
    },
];

/// The placement for a writer with streams.
const STREAMS: &str = "zone-per-stream";

/// Names under which drives were formatted before there were layouts.
const FORMER_NAMES: [(&str, &str); 3] = [
    ("zone-per-level", "leveled-zones"),
    ("log-structured", "leveled-log"),
    ("first-fit", "leveled-first-fit"),
];

/// A layout, by name.
#[derive(Clone, Copy)]
pub struct Layout(&'static Entry);

impl Layout {
    /// The layout called `name`.
    ///
    /// # Errors
    /// [`LayoutError::Unknown`], with the name that was probably meant.
    pub fn by_name(name: &str) -> Result<Layout, LayoutError> {
        Layout::find(name).ok_or_else(|| LayoutError::Unknown {
            name: name.to_owned(),
            nearest: nearest(name, Layout::names()),
            known: Layout::names().collect::<Vec<_>>().join(", "),
        })
    }

    fn find(name: &str) -> Option<Layout> {
        let former = FORMER_NAMES.iter().find(|(old, _)| *old == name);
        let name = former.map_or(name, |(_, now)| now);
        Layout::all().find(|layout| layout.name() == name)
    }

    /// The layout that a drive records: by name, and before drives recorded one by its placement.
    pub(crate) fn recorded(name: &str, placement: &str) -> Result<Layout, LayoutError> {
        let recorded = if name.is_empty() { placement } else { name };
        let foreign = || LayoutError::Foreign { recorded: recorded.to_owned() };
        Layout::find(recorded).ok_or_else(foreign)
    }

    /// What the store does best on a drive under `rule`; `None` where no layout fits.
    pub fn default_for(rule: &Rule) -> Option<Layout> {
        Layout::all().find(|layout| layout.recording().matches(rule))
    }

    /// What suits the files of another database on a drive under `rule`; `None` where no layout fits.
    /// Another database has no streams, by which `zone-per-stream` places.
    pub fn default_for_database(rule: &Rule) -> Option<Layout> {
        let mut suitable = Layout::all().filter(|layout| layout.recording().matches(rule));
        suitable.find(|layout| layout.0.placement != STREAMS)
    }

    /// All layouts, the usual one of each kind of drive first.
    pub fn all() -> impl Iterator<Item = Layout> {
        TABLE.iter().map(Layout)
    }

    /// All names, in the order of [`Layout::all`].
    pub fn names() -> impl Iterator<Item = &'static str> {
        TABLE.iter().map(|entry| entry.name)
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        self.0.name
    }

    /// What it is, in one line.
    pub fn summary(self) -> &'static str {
        self.0.summary
    }

    /// The layout with the sizes of the publication that this one follows; itself, if they are its own.
    pub fn as_published(self) -> Layout {
        let name = format!("{}-paper", self.name());
        Layout::all().find(|layout| layout.name() == name).unwrap_or(self)
    }

    /// Where it was published.
    pub fn source(self) -> &'static str {
        self.0.source
    }

    /// The kind of drive it is for.
    pub fn recording(self) -> Recording {
        self.0.recording
    }

    /// The name of its placement policy.
    pub fn placement(self) -> &'static str {
        self.0.placement
    }

    /// How long zones should be on a drive made for it; `None`: as long as the real drive's.
    ///
    /// Where a table has a band of its own, the band is as long as the tables of the paper.
    ///
    /// Source: SMRDB, thesis chapter 3: bands of 40 MB (or 80); chapter 5: of 64 MB.
    pub fn usual_zone_len_bytes(self) -> Option<u64> {
        match (self.0.placement, self.0.over) {
            ("band-per-table", BesideFlash) => Some(OFFLOAD_BAND_LEN_BYTES),
            ("band-per-table", _) => Some(40 << 20),
            _ => None,
        }
    }

    /// Whether it stands on two drives: one of its kind and a flash drive beside it.
    pub fn takes_flash(self) -> bool {
        self.0.over == BesideFlash
    }

    /// Whether it can live on a drive of `geometry`.
    ///
    /// # Errors
    /// Why not, and what would do.
    pub fn suits(self, geometry: &Geometry) -> Result<(), String> {
        let rule = geometry.rule();
        if !self.recording().matches(rule) {
            let fitting: Vec<&str> = Layout::all()
                .filter(|layout| layout.recording().matches(rule))
                .map(Layout::name)
                .collect();
            let instead = match fitting.as_slice() {
                [] => "no layout is".to_owned(),
                names => format!("there are {}", names.join(", ")),
            };
            return Err(format!(
                "it is for {} drives and this one is {}; for these {instead}",
                self.recording().name(),
                rule.name(),
            ));
        }
        self.policy().build().suits(&self.above(geometry))
    }

    /// What the files see of a drive of `geometry`: it, or bands that take writes anywhere. How many
    /// bands there is room for is theirs to say.
    fn above(self, geometry: &Geometry) -> Geometry {
        match self.0.over {
            Drive | BesideFlash => *geometry,
            FixedBands => Geometry::new(GeometrySpec { len: geometry.len(), rule: Rule::Anywhere })
                .expect("as long as a geometry that was checked"),
        }
    }

    /// Its parts, fitted to a drive of `geometry`; they may be adjusted before
    /// [`Layout::format_with`].
    pub fn recipe(self, geometry: &Geometry) -> Recipe {
        let options = (self.0.engine)(geometry);
        let bands = (self.0.over == FixedBands).then(BandOptions::default);
        let placement = self.0.placement;
        let mut placement_options = PlacementOptions::default();
        if CLEANED_LIKE_LOGS.contains(&self.name()) {
            placement_options.free_percent_least = LOG_FREE_PERCENT_LEAST;
        }
        if self.recording() == Interlaced {
            placement_options.unit_len = unit_len(geometry, options.keyspace.table_len_bytes);
        }
        if options.keyspace.compaction == CompactionKind::SetAware {
            // A hole that takes a table is one that is used.
            placement_options.unit_len = set_unit_len(options.keyspace.table_len_bytes);
        }
        let flash = self.takes_flash().then(FlashOptions::default);
        Recipe { bands, flash, placement, placement_options, options }.fitted(geometry)
    }

    pub(crate) fn policy(self) -> PlacementKind {
        PlacementKind::by_name(self.0.placement).expect("a test looks up every entry's placement")
    }
}

impl PartialEq for Layout {
    fn eq(&self, other: &Layout) -> bool {
        self.name() == other.name()
    }
}

impl Eq for Layout {}

impl fmt::Debug for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Layout({})", self.name())
    }
}

impl fmt::Display for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
