//! The named combinations of drive, placement and target on which a seed can run: those written
//! here, and one for every layout.

use imbrex::stack::{Layout, Recipe, Recording};
use imbrex_clockwork::Prng;
use imbrex_disk::{
    BLOCK_LEN_BYTES, Blocks, Geometry, GeometrySpec, NeighbourSpec, Rule, ShingleSpec, ZoneSpec,
};
use imbrex_engine::tuning::{GearDepth, VictimOrder};
use imbrex_engine::{CompactionKind, KeyspaceOptions, Options};
use std::sync::LazyLock;

/// The target of the torture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// The file layer alone.
    Files,
    /// The key-value store on the file layer.
    Store,
    /// The store with its layout's own options, on a drive that it fills.
    FullDrive,
    /// The block driver.
    Blocks,
    /// The file system for foreign databases.
    FileSystem,
}

/// The kind of drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Drive {
    /// Zones, the first few conventional.
    Zoned { conventional_zone_count: u32 },
    /// No zones.
    Conventional,
    /// Raw tracks; a write to one destroys those after it.
    Shingled { track_len: Blocks, overlap_tracks: u32 },
    /// Raw tracks, alternating bottom and top.
    Interlaced { bottom_track_len: Blocks, top_track_len: Blocks },
}

/// A named combination.
#[derive(Clone, Copy, Debug)]
pub struct Scenario {
    /// Its name on the command line.
    pub name: &'static str,
    /// Its purpose, in one line.
    pub about: &'static str,
    /// The target.
    pub target: Target,
    pub(crate) drive: Drive,
    pub(crate) placement: &'static str,
    /// The layout of the store. Without one, the options of a run are drawn freely.
    pub(crate) layout: Option<Layout>,
    pub(crate) zone_len: Blocks,
    pub(crate) zone_count: u64,
}

/// How many zones a drive lets be open, and how many active. The drive silently closes one open
/// zone too many, so only too many active zones are an error. Equal limits reveal a host that
/// exceeds them.
const ZONE_LIMITS: [(Option<u32>, Option<u32>); 3] =
    [(Some(12), Some(14)), (Some(12), Some(12)), (None, Some(12))];

/// As on a real drive, for the store's own options.
const FULL_DRIVE_LIMITS: (Option<u32>, Option<u32>) = (Some(128), None);

const ZONE_LEN: Blocks = Blocks::new(64);
/// For placements with one zone per table.
const SHORT_ZONE_LEN: Blocks = Blocks::new(32);
const SHORT_SECTOR_LEN_BYTES: usize = 512;
/// Fixed bands, and placements that count in them.
const BAND_LEN: Blocks = Blocks::new(64);
pub(crate) const UNIT_LEN: Blocks = Blocks::new(16);

/// Real drives overlap 16 tracks or more. Two make guards that a small drive can afford.
const SHINGLES: Drive = Drive::Shingled { track_len: Blocks::new(8), overlap_tracks: 2 };

/// Top tracks are shorter, and neither length divides the drive.
const PAIRS: Drive =
    Drive::Interlaced { bottom_track_len: Blocks::new(10), top_track_len: Blocks::new(8) };

/// Defaults of most scenarios.
const DEFAULTS: Scenario = Scenario {
    name: "",
    about: "",
    target: Target::Store,
    drive: Drive::Conventional,
    placement: "first-fit",
    layout: None,
    zone_len: ZONE_LEN,
    zone_count: 48,
};

static ALL: LazyLock<Vec<Scenario>> = LazyLock::new(|| {
    let of_layouts = Layout::all().map(of_layout);
    let hand = BY_HAND.iter().copied();
    hand.chain(of_layouts).chain(of_file_systems()).chain(of_full_drives()).collect()
});

const BY_HAND: &[Scenario] = &[
    Scenario {
        name: "zoned-small",
        about: "the store on host-managed zones, some conventional, greedy cleaning",
        drive: Drive::Zoned { conventional_zone_count: 3 },
        placement: "log-structured",
        ..DEFAULTS
    },
    Scenario {
        name: "zoned-levels",
        about: "the store on host-managed zones, a zone holds tables of one level",
        drive: Drive::Zoned { conventional_zone_count: 3 },
        placement: "zone-per-level",
        ..DEFAULTS
    },
    Scenario {
        name: "all-sequential",
        about: "the store on a drive without a conventional zone",
        drive: Drive::Zoned { conventional_zone_count: 0 },
        placement: "log-structured",
        ..DEFAULTS
    },
    Scenario { name: "conventional", about: "the store on a conventional drive", ..DEFAULTS },
    Scenario {
        name: "full-drive",
        about: "the store on too few zones, so that writes are refused",
        drive: Drive::Zoned { conventional_zone_count: 3 },
        placement: "log-structured",
        zone_count: 20,
        ..DEFAULTS
    },
    Scenario {
        name: "files-zoned",
        about: "the file layer on host-managed zones, some conventional",
        target: Target::Files,
        drive: Drive::Zoned { conventional_zone_count: 3 },
        placement: "log-structured",
        ..DEFAULTS
    },
    Scenario {
        name: "files-all-sequential",
        about: "the file layer on a drive without a conventional zone",
        target: Target::Files,
        drive: Drive::Zoned { conventional_zone_count: 0 },
        placement: "zone-per-level",
        ..DEFAULTS
    },
    Scenario {
        name: "files-cost-benefit",
        about: "the file layer on one log of zones, cleaned where it pays most",
        target: Target::Files,
        drive: Drive::Zoned { conventional_zone_count: 1 },
        placement: "log-cost-benefit",
        zone_count: 40,
        ..DEFAULTS
    },
    Scenario {
        name: "files-band-per-table",
        about: "the file layer with a zone for each table",
        target: Target::Files,
        drive: Drive::Zoned { conventional_zone_count: 2 },
        placement: "band-per-table",
        ..DEFAULTS
    },
    Scenario {
        name: "files-sets",
        about: "the file layer on a conventional drive, tables of a group side by side",
        target: Target::Files,
        placement: "sets",
        zone_count: 32,
        ..DEFAULTS
    },
    Scenario {
        name: "files-dynamic-bands",
        about: "the file layer on raw shingled tracks, where a write that would destroy data is refused",
        target: Target::Files,
        drive: SHINGLES,
        placement: "dynamic-bands",
        zone_count: 30,
        ..DEFAULTS
    },
    Scenario {
        name: "files-tracks",
        about: "the file layer on raw interlaced tracks, where a write that would destroy data is refused",
        target: Target::Files,
        drive: PAIRS,
        placement: "track-tiers",
        zone_count: 24,
        ..DEFAULTS
    },
    Scenario {
        name: "files-tracks-in-order",
        about: "the same, one track after the other, each rewritten by itself",
        target: Target::Files,
        drive: PAIRS,
        placement: "track-sequential",
        zone_count: 24,
        ..DEFAULTS
    },
    Scenario {
        name: "blocks",
        about: "the block driver on host-managed zones, some conventional",
        target: Target::Blocks,
        drive: Drive::Zoned { conventional_zone_count: 3 },
        ..DEFAULTS
    },
    Scenario {
        name: "blocks-all-sequential",
        about: "the block driver on short zones, all sequential",
        target: Target::Blocks,
        drive: Drive::Zoned { conventional_zone_count: 0 },
        zone_len: SHORT_ZONE_LEN,
        zone_count: 60,
        ..DEFAULTS
    },
    Scenario {
        name: "filesystem-all-sequential",
        about: "the file system for databases on a drive without a conventional zone",
        target: Target::FileSystem,
        drive: Drive::Zoned { conventional_zone_count: 0 },
        placement: "log-structured",
        ..DEFAULTS
    },
    Scenario {
        name: "filesystem-full",
        about: "the file system for databases on too few zones, so that writes are refused",
        target: Target::FileSystem,
        drive: Drive::Zoned { conventional_zone_count: 3 },
        placement: "log-structured",
        zone_count: 20,
        ..DEFAULTS
    },
    Scenario {
        name: "files-conventional",
        about: "the file layer on a conventional drive",
        target: Target::Files,
        ..DEFAULTS
    },
];

/// The scenario of one layout of the table, on a small drive of its kind.
fn of_layout(layout: Layout) -> Scenario {
    let has_short_zones = layout.usual_zone_len_bytes().is_some();
    Scenario {
        // Leaked once per layout, for the life of the program.
        name: format!("layout-{layout}").leak(),
        about: layout.summary(),
        drive: match layout.recording() {
            Recording::Conventional => Drive::Conventional,
            Recording::Zoned => Drive::Zoned { conventional_zone_count: 3 },
            Recording::Shingled => SHINGLES,
            Recording::Interlaced => PAIRS,
        },
        placement: layout.placement(),
        layout: Some(layout),
        zone_len: if has_short_zones { SHORT_ZONE_LEN } else { ZONE_LEN },
        zone_count: if has_short_zones { 120 } else { 52 },
        ..DEFAULTS
    }
}

/// The scenario of the file system for databases on one layout. Only layouts that differ below the
/// file layer have one, because the engine's compaction is irrelevant to it. It has one drive.
fn of_file_systems() -> impl Iterator<Item = Scenario> {
    let below = |layout: Layout| {
        let scenario = of_layout(layout);
        let has_bands = scenario.recipe().is_some_and(|recipe| recipe.bands.is_some());
        (layout.recording(), has_bands, layout.placement())
    };
    let mut seen = Vec::new();
    let is_new = move |layout: &Layout| {
        let is_new = !layout.takes_flash() && !seen.contains(&below(*layout));
        seen.push(below(*layout));
        is_new
    };
    let of_file_system = |layout: Layout| Scenario {
        // Leaked once per layout, for the life of the program.
        name: format!("filesystem-{layout}").leak(),
        target: Target::FileSystem,
        ..of_layout(layout)
    };
    Layout::all().filter(is_new).map(of_file_system)
}

/// The scenario that fills a drive of each layout.
fn of_full_drives() -> impl Iterator<Item = Scenario> {
    Layout::all().filter(|layout| !layout.takes_flash()).map(|layout| Scenario {
        // Leaked once per layout, for the life of the program.
        name: format!("full-{layout}").leak(),
        target: Target::FullDrive,
        ..of_layout(layout)
    })
}

impl Scenario {
    /// All scenarios: those written by hand, then the layouts in the order of their table, first
    /// for the store, then for the file system.
    pub fn all() -> &'static [Scenario] {
        &ALL
    }

    /// The scenario with this name.
    pub fn by_name(name: &str) -> Option<&'static Scenario> {
        ALL.iter().find(|scenario| scenario.name == name)
    }

    /// Its layout.
    pub fn layout(&self) -> Option<Layout> {
        self.layout
    }

    /// The drive. It is small, so that every seed fills, cleans and resets it many times.
    pub(crate) fn geometry(&self) -> Geometry {
        self.geometry_with(ZONE_LIMITS[0])
    }

    /// The length of a sector in bytes. It is shorter than a block in half of the runs, if the
    /// stack supports that. Real drives with short sectors are conventional or zoned.
    pub(crate) fn draw_sector_len(&self, prng: &mut Prng) -> usize {
        let has_bands = self.recipe().is_some_and(|recipe| recipe.bands.is_some());
        let is_known = matches!(self.drive, Drive::Conventional | Drive::Zoned { .. });
        let may_tear = is_known && !has_bands && self.target != Target::Blocks;
        if may_tear && prng.chance(1, 2) { SHORT_SECTOR_LEN_BYTES } else { BLOCK_LEN_BYTES }
    }

    /// The same, with limits on zones drawn for the run.
    pub(crate) fn draw_geometry(&self, prng: &mut Prng) -> Geometry {
        if self.target == Target::FullDrive {
            return self.draw_length(prng).geometry_with(FULL_DRIVE_LIMITS);
        }
        self.geometry_with(ZONE_LIMITS[prng.below(ZONE_LIMITS.len() as u64) as usize])
    }

    /// The same drive with another length, 16 MiB to 4 GiB, and zones and tracks that fit it.
    fn draw_length(&self, prng: &mut Prng) -> Scenario {
        // Short drives more often, because they fill.
        let bits = prng.below(9).min(prng.below(9));
        let len_bytes = (16 << 20) << bits;
        let zone_count = 8 << prng.below(5);
        let zone_len = Blocks::holding(len_bytes / zone_count);
        let track = |len: Blocks| Blocks::new(len.get() << (bits / 2));
        let drive = match self.drive {
            Drive::Shingled { track_len, overlap_tracks } => {
                Drive::Shingled { track_len: track(track_len), overlap_tracks }
            }
            Drive::Interlaced { bottom_track_len, top_track_len } => Drive::Interlaced {
                bottom_track_len: track(bottom_track_len),
                top_track_len: track(top_track_len),
            },
            other => other,
        };
        Scenario { zone_len, zone_count, drive, ..*self }
    }

    fn geometry_with(&self, zone_limits: (Option<u32>, Option<u32>)) -> Geometry {
        let len = Blocks::new(self.zone_count * self.zone_len.get());
        let rule = match self.drive {
            Drive::Conventional => Rule::Anywhere,
            Drive::Shingled { track_len, overlap_tracks } => {
                Rule::IsolationDistance(ShingleSpec { track_len, overlap_tracks })
            }
            Drive::Interlaced { bottom_track_len, top_track_len } => {
                Rule::Neighbours(NeighbourSpec { bottom_track_len, top_track_len })
            }
            Drive::Zoned { conventional_zone_count } => Rule::AtPointer(ZoneSpec {
                zone_len: self.zone_len,
                // A few blocks short, as real drives may be: addresses jump at zone ends.
                zone_capacity: self.zone_len - Blocks::new(3),
                conventional_zone_count,
                open_zone_limit: zone_limits.0,
                active_zone_limit: zone_limits.1,
                strict_reads: true,
            }),
        };
        Geometry::new(GeometrySpec { len, rule }).expect("a geometry written by hand")
    }

    /// The flash drive, if the layout has one. Some logs fit, but not all. Not every batch fits
    /// either, because one may be many times as long as a memtable.
    pub(crate) fn flash_geometry(&self) -> Option<Geometry> {
        let spec = GeometrySpec { len: Blocks::new(400), rule: Rule::Anywhere };
        let takes_flash = self.layout.is_some_and(Layout::takes_flash);
        takes_flash.then(|| Geometry::new(spec).expect("a geometry written by hand"))
    }

    /// The parts of its layout, scaled down to its drive.
    pub(crate) fn recipe(&self) -> Option<Recipe> {
        let geometry = self.geometry();
        let mut recipe = self.layout?.recipe(&geometry);
        // Tables of a few blocks, not of 4 MiB.
        recipe.placement_options.unit_len = UNIT_LEN;
        if let Some(bands) = &mut recipe.bands {
            (bands.band_len, bands.gather_len) = (BAND_LEN, BAND_LEN);
        }
        Some(recipe)
    }

    /// Turns freely drawn options into those of the layout. Lengths stay as drawn; the kinds of
    /// work are the layout's.
    pub(crate) fn fit(&self, drawn: Options, prng: &mut Prng) -> Options {
        let Some(recipe) = self.recipe() else { return drawn };
        let theirs = recipe.options.keyspace;
        let mut options = drawn;
        options.offloads = recipe.options.offloads;
        options.flushes_to_flash = recipe.options.flushes_to_flash;
        options.logs_are_tables |= recipe.options.logs_are_tables;
        if recipe.options.eager_after_ns > 0 {
            options.eager_after_ns = 1 << prng.below(30);
        }
        // A stream of its own, so that a seed means what it meant before.
        let mut habits = prng.derive("habits of compaction");
        options.keyspace = KeyspaceOptions {
            compaction: theirs.compaction,
            compression: theirs.compression,
            filter_bits_per_key: theirs.filter_bits_per_key,
            victim_order: match theirs.compaction {
                CompactionKind::SetAware if habits.below(2) == 0 => VictimOrder::DeadFirst,
                _ => theirs.victim_order,
            },
            victim_growth: theirs.victim_growth,
            flushes_pass_levels: theirs.flushes_pass_levels,
            missed_tables_go_down: theirs.missed_tables_go_down,
            cuts_at_sets: habits.below(4) > 0,
            gear_depth: match habits.below(2) {
                0 => theirs.gear_depth,
                _ => GearDepth::FullLevels,
            },
            histogram_len_bytes: theirs.histogram_len_bytes,
            overlap_count_max: 1 + prng.below(4) as u32,
            ..options.keyspace
        };
        if self.zone_len == SHORT_ZONE_LEN {
            // One table per zone, or two in one and a half zones: a table longer than a zone takes
            // several.
            options.keyspace.table_len_bytes = theirs.table_len_bytes >> prng.below(3);
        }
        options
    }
}
