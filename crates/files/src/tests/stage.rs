//! A drive with a file layer on it, and files whose content is derived from their names.

use crate::{
    Commit, CommitKind, FileBuffer, FileKind, FileLayer, Files, FilesError, FormatOptions, GroupId,
    Hints, PlacementKind, PlacementOptions,
};
use imbrex_clockwork::{Order, Prng, Runtime, VirtualWorld};
use imbrex_disk::{
    BLOCK_LEN_BYTES, Blocks, Disk, Geometry, GeometrySpec, NeighbourSpec, Rule, ShingleSpec,
    ZoneSpec,
};
use imbrex_disk_sim::SimDisk;
use std::sync::Arc;

/// A drive and its world.
pub(crate) struct Stage {
    pub(crate) disk: Arc<SimDisk>,
    pub(crate) world: Arc<VirtualWorld>,
    pub(crate) runtime: Runtime,
}

/// The zones of a drive for tests.
#[derive(Clone, Copy)]
pub(crate) struct Zones {
    pub(crate) count: u64,
    pub(crate) len: u64,
    pub(crate) conventional: u32,
    pub(crate) active_limit: Option<u32>,
}

pub(crate) fn zoned(zones: Zones, cache: u64) -> Stage {
    let spec = ZoneSpec {
        zone_len: Blocks::new(zones.len),
        zone_capacity: Blocks::new(zones.len),
        conventional_zone_count: zones.conventional,
        open_zone_limit: zones.active_limit,
        active_zone_limit: zones.active_limit,
        strict_reads: true,
    };
    stage(zones.count * zones.len, Rule::AtPointer(spec), cache)
}

/// A drive with one zone worth cleaning, in which file "a" lives; "c" fills whole zones.
pub(crate) fn one_zone_to_clean() -> (Stage, FileLayer) {
    let zones = Zones { count: 8, len: 1024, conventional: 1, active_limit: None };
    let stage = zoned(zones, 0);
    let options = PlacementOptions { free_percent_least: 100, ..PlacementOptions::default() };
    let files = stage.format_with("log-structured", options).unwrap();
    for (name, blocks) in [("a", 600), ("b", 424), ("c", 4096)] {
        put(&files, name, blocks, 1).unwrap();
    }
    remove(&files, &["b"]).unwrap();
    (stage, files)
}

pub(crate) fn conventional(blocks: u64, cache: u64) -> Stage {
    stage(blocks, Rule::Anywhere, cache)
}

/// A drive whose tracks overlap, and that refuses to destroy valid data.
pub(crate) fn shingled(blocks: u64, track_len: u64, overlap_tracks: u32, cache: u64) -> Stage {
    let spec = ShingleSpec { track_len: Blocks::new(track_len), overlap_tracks };
    stage(blocks, Rule::IsolationDistance(spec), cache)
}

/// A drive of bottom and top tracks that refuses to destroy valid data.
pub(crate) fn interlaced(blocks: u64, bottom: u64, top: u64, cache: u64) -> Stage {
    let spec =
        NeighbourSpec { bottom_track_len: Blocks::new(bottom), top_track_len: Blocks::new(top) };
    stage(blocks, Rule::Neighbours(spec), cache)
}

pub(crate) fn stage(blocks: u64, rule: Rule, cache: u64) -> Stage {
    stage_of_sectors(BLOCK_LEN_BYTES, blocks, rule, cache)
}

/// A drive on which a power cut tears blocks into sectors.
pub(crate) fn stage_of_sectors(len_bytes: usize, blocks: u64, rule: Rule, cache: u64) -> Stage {
    let geometry = Geometry::new(GeometrySpec { len: Blocks::new(blocks), rule }).unwrap();
    let builder = SimDisk::builder(geometry).write_cache(Blocks::new(cache)).sectors(len_bytes);
    let disk = builder.refuse_destroying().memory().unwrap();
    let (runtime, world) = Runtime::virtual_time(Order::SmallestTime);
    Stage { disk: Arc::new(disk), world, runtime }
}

impl Stage {
    /// Another blank drive of this kind, on which a power cut makes the sector being written
    /// unreadable.
    pub(crate) fn breaking(self, sector_len_bytes: usize) -> Stage {
        let builder = SimDisk::builder(*self.disk.geometry()).write_cache(Blocks::new(512));
        let builder = builder.sectors(sector_len_bytes).breaking_sectors();
        let disk = builder.refuse_destroying().memory().unwrap();
        Stage { disk: Arc::new(disk), ..self }
    }

    pub(crate) fn disk(&self) -> Arc<dyn Disk> {
        Arc::clone(&self.disk) as Arc<dyn Disk>
    }

    pub(crate) fn format(&self, placement: &str) -> Result<FileLayer, FilesError> {
        self.format_with(placement, PlacementOptions::default())
    }

    /// Formats for tables of a few blocks instead of 4 MiB.
    pub(crate) fn format_small(&self, placement: &str) -> Result<FileLayer, FilesError> {
        let unit_len = Blocks::new(16);
        self.format_with(placement, PlacementOptions { unit_len, ..PlacementOptions::default() })
    }

    pub(crate) fn format_with(
        &self,
        placement: &str,
        placement_options: PlacementOptions,
    ) -> Result<FileLayer, FilesError> {
        let placement = PlacementKind::by_name(placement).expect("a known placement");
        let options = FormatOptions {
            layout_name: "test".into(),
            placement_options,
            ..FormatOptions::new(placement)
        };
        FileLayer::format(self.disk(), &options, &self.runtime)
    }

    pub(crate) fn open(&self) -> Result<FileLayer, FilesError> {
        FileLayer::open(self.disk(), &self.runtime)
    }

    pub(crate) fn power_cycle(&self, seed: u64) {
        self.disk.power_cycle(&mut Prng::new(seed)).unwrap();
    }
}

/// `len_bytes` bytes that only a file with this tag has at these offsets.
pub(crate) fn content(tag: &str, len_bytes: usize) -> Vec<u8> {
    let mut bytes = vec![0; len_bytes];
    let base = Prng::new(7).derive(tag);
    for (index, block) in bytes.chunks_mut(BLOCK_LEN_BYTES).enumerate() {
        base.derive(&index.to_string()).fill(block);
    }
    bytes
}

pub(crate) fn table(name: &str, blocks: u64, level: u8) -> FileBuffer {
    let hints = Hints { level, ..Hints::new(FileKind::Table) };
    let mut buffer = FileBuffer::new(name, hints);
    buffer.append(&content(name, Blocks::new(blocks).bytes() as usize));
    buffer
}

/// A table of a group.
pub(crate) fn member(name: &str, blocks: u64, level: u8, group: u64) -> FileBuffer {
    let group = Some(GroupId(group));
    let hints = Hints { level, group, ..Hints::new(FileKind::Table) };
    let mut buffer = FileBuffer::new(name, hints);
    buffer.append(&content(name, Blocks::new(blocks).bytes() as usize));
    buffer
}

/// Reads a whole file and compares it with the content of its tag.
pub(crate) fn verify(files: &FileLayer, name: &str, tag: &str) -> Result<(), String> {
    let reader = files.open(name).map_err(|e| e.to_string())?;
    let len_bytes = reader.len_bytes() as usize;
    let mut scratch = Vec::new();
    let got = reader.read_at(0, len_bytes, &mut scratch).map_err(|e| e.to_string())?;
    if got == content(tag, len_bytes) { Ok(()) } else { Err(format!("{name}: content differs")) }
}
/// Persists and commits one table.
pub(crate) fn put(files: &FileLayer, name: &str, blocks: u64, level: u8) -> Result<(), FilesError> {
    let add = files.persist(vec![table(name, blocks, level)])?;
    files.commit(Commit { add, ..Commit::default() })
}

/// Like `put`, for a table that may use the reserve.
pub(crate) fn put_upkeep(
    files: &FileLayer,
    name: &str,
    blocks: u64,
    level: u8,
) -> Result<(), FilesError> {
    let hints = Hints { level, purpose: CommitKind::Upkeep, ..Hints::new(FileKind::Table) };
    let mut buffer = FileBuffer::new(name, hints);
    buffer.append(&content(name, Blocks::new(blocks).bytes() as usize));
    let add = files.persist(vec![buffer])?;
    files.commit(Commit { add, ..Commit::default() })
}

pub(crate) fn remove(files: &FileLayer, names: &[&str]) -> Result<(), FilesError> {
    let remove = names.iter().map(|&name| name.to_owned()).collect();
    files.commit(Commit { remove, ..Commit::default() })
}

/// Asserts that a refused write needed more than there was.
pub(crate) fn assert_honest(refused: &FilesError) {
    if let FilesError::NoSpace { needed_bytes, free_bytes } = refused {
        assert!(needed_bytes > free_bytes, "{refused}");
    }
}

pub(crate) fn assert_sound(files: &FileLayer) {
    let report = files.check().unwrap();
    assert!(report.findings.is_empty(), "{:#?}", report.findings);
}
