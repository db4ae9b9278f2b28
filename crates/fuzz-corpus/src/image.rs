//! The head of a drive image: header, profile text, zone table or track map.

use crate::target::Target;
use imbrex_clockwork::Prng;
use imbrex_disk::{
    BLOCK_LEN_BYTES, Blocks, Disk, Geometry, GeometrySpec, Lba, NeighbourSpec, Persist, Rule,
    ShingleSpec, ZoneSpec,
};
use imbrex_disk_sim::{OpenOptions, SimDisk};
use std::io::Write;

pub(crate) const TARGET: Target = Target { name: "image", feed, seeds };

/// Blocks of the drive of a seed, and the length of its image: the data start at 1 MiB.
const BLOCK_COUNT: u64 = 64;
const IMAGE_LEN_BYTES: u64 = (1 << 20) + BLOCK_COUNT * BLOCK_LEN_BYTES as u64;

/// Asserts that a disk that opens reports its zones and survives a power cycle.
///
/// The input is the head of an image. Zeros extend it to the length of a seed's image.
fn feed(bytes: &[u8]) {
    let mut file = tempfile::NamedTempFile::new().expect("the host has a temporary directory");
    file.write_all(bytes).expect("the host has room for an image");
    file.as_file().set_len(IMAGE_LEN_BYTES).expect("the host has room for a sparse image");
    if let Ok(disk) = SimDisk::open_image(file.path(), OpenOptions::default()) {
        assert_eq!(disk.report_zones().len() as u32, disk.geometry().zone_count());
        disk.power_cycle(&mut Prng::new(1)).expect("the host keeps a temporary file");
    }
}

fn seeds() -> Vec<(&'static str, Vec<u8>)> {
    let zones = ZoneSpec {
        zone_len: Blocks::new(16),
        zone_capacity: Blocks::new(12),
        conventional_zone_count: 1,
        open_zone_limit: Some(2),
        active_zone_limit: Some(3),
        strict_reads: true,
    };
    let tracks = ShingleSpec { track_len: Blocks::new(8), overlap_tracks: 1 };
    let pairs = NeighbourSpec { bottom_track_len: Blocks::new(10), top_track_len: Blocks::new(8) };
    vec![
        ("zoned", head(Rule::AtPointer(zones))),
        ("conventional", head(Rule::Anywhere)),
        ("shingled", head(Rule::IsolationDistance(tracks))),
        ("interlaced", head(Rule::Neighbours(pairs))),
    ]
}

/// The head of a fresh image with one block written, without the zeros at its end.
fn head(rule: Rule) -> Vec<u8> {
    let dir = tempfile::tempdir().expect("the host has a temporary directory");
    let path = dir.path().join("seed");
    let geometry = Geometry::new(GeometrySpec { len: Blocks::new(BLOCK_COUNT), rule })
        .expect("the seeds' geometries are sound");
    let disk = SimDisk::builder(geometry)
        .create_image(&path, "seed", 1)
        .expect("the host has room for an image");
    disk.write(Lba::new(16), &[1; BLOCK_LEN_BYTES], Persist::Through).expect("a free block");
    drop(disk);
    let mut bytes = std::fs::read(&path).expect("the image was just written");
    bytes.truncate(1 << 20);
    let len = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    bytes.truncate(len);
    bytes
}
