use crate::{FaultPlan, ImageError, OpenOptions, SimDisk, is_image};
use imbrex_clockwork::Prng;
use imbrex_disk::{
    BLOCK_LEN_BYTES, BlockRange, Blocks, Disk, DiskError, Geometry, GeometrySpec, Lba,
    NeighbourSpec, Persist, Rule, ShingleSpec, ZoneAction, ZoneId, ZoneSpec,
};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

fn geometry(zone_count: u64) -> Geometry {
    let zones = ZoneSpec {
        zone_len: Blocks::new(256),
        zone_capacity: Blocks::new(256),
        conventional_zone_count: 1,
        open_zone_limit: Some(4),
        active_zone_limit: None,
        strict_reads: false,
    };
    let len = Blocks::new(zone_count * 256);
    Geometry::new(GeometrySpec { len, rule: Rule::AtPointer(zones) }).unwrap()
}

fn create(path: &Path) -> SimDisk {
    SimDisk::builder(geometry(6)).create_image(path, "test drive", 1).unwrap()
}

fn open(path: &Path) -> Result<SimDisk, ImageError> {
    SimDisk::open_image(path, OpenOptions::default())
}

fn message(path: &Path) -> String {
    let error = open(path).expect_err("must be refused").to_string();
    error.replace(&path.display().to_string(), "IMAGE")
}

fn scratch() -> (tempfile::TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("drive.img");
    (directory, path)
}

#[test]
fn written_data_survives_reopening() {
    let (_directory, path) = scratch();
    let disk = create(&path);
    disk.write(Lba::new(3), &[3; BLOCK_LEN_BYTES], Persist::Cached).unwrap();
    disk.write(Lba::new(256), &[4; 3 * BLOCK_LEN_BYTES], Persist::Cached).unwrap();
    disk.write(Lba::new(512), &[5; 256 * BLOCK_LEN_BYTES], Persist::Through).unwrap();
    disk.manage_zone(ZoneId(3), ZoneAction::Finish).unwrap();
    disk.flush().unwrap();
    let states: Vec<String> = disk.report_zones().iter().map(|z| z.state.to_string()).collect();
    assert_eq!(states, ["conventional", "open", "full", "full", "empty", "empty"]);
    let (hash, id) = (disk.image_hash().unwrap(), disk.image().unwrap().image_id);
    drop(disk);
    let disk = open(&path).unwrap();
    assert_eq!(disk.image_hash().unwrap(), hash);
    assert_eq!(disk.image().unwrap().image_id, id);
    assert_eq!(disk.image().unwrap().label, "test drive");
    let states: Vec<String> = disk.report_zones().iter().map(|z| z.state.to_string()).collect();
    assert_eq!(states, ["conventional", "closed", "full", "full", "empty", "empty"]);
    let mut buf = vec![0; 4 * BLOCK_LEN_BYTES];
    disk.read(Lba::new(256), &mut buf).unwrap();
    assert!(buf[..3 * BLOCK_LEN_BYTES].iter().all(|&b| b == 4));
    assert!(buf[3 * BLOCK_LEN_BYTES..].iter().all(|&b| b == 0));
    disk.write(Lba::new(259), &[6; BLOCK_LEN_BYTES], Persist::Cached).unwrap();
}

#[test]
fn memory_and_image_agree_block_for_block() {
    let (_directory, path) = scratch();
    let image = create(&path);
    let memory = SimDisk::builder(geometry(6)).memory().unwrap();
    for disk in [&image, &memory] {
        let mut prng = Prng::new(4);
        for _ in 0..400 {
            let zone = ZoneId(prng.below(6) as u32);
            let info = disk.zone(zone).unwrap();
            let len = Blocks::new(1 + prng.below(40));
            let mut data = vec![0; len.bytes() as usize];
            prng.fill(&mut data);
            let pointer = info.state.write_pointer(info.start);
            match pointer {
                None if zone.0 == 0 => {
                    let at = Lba::new(prng.below(200));
                    disk.write(at, &data, Persist::Cached).unwrap();
                    let range = BlockRange::new(Lba::new(prng.below(200)), len);
                    disk.discard(range).unwrap();
                }
                Some(at) if at + len <= info.start + info.capacity => {
                    disk.write(at, &data, Persist::Cached).unwrap();
                }
                _ => disk.manage_zone(zone, ZoneAction::Reset).unwrap(),
            }
        }
    }
    assert_eq!(image.image_hash().unwrap(), memory.image_hash().unwrap());
}

#[test]
fn resets_and_discards_give_space_back() {
    let (_directory, path) = scratch();
    let disk = create(&path);
    let empty = disk.stored_bytes().unwrap();
    disk.write(Lba::new(512), &[5; 256 * BLOCK_LEN_BYTES], Persist::Through).unwrap();
    disk.write(Lba::new(0), &[5; 128 * BLOCK_LEN_BYTES], Persist::Through).unwrap();
    assert!(disk.stored_bytes().unwrap() >= empty + (1 << 20));
    disk.manage_zone(ZoneId(2), ZoneAction::Reset).unwrap();
    disk.discard(BlockRange::new(Lba::new(0), Blocks::new(128))).unwrap();
    assert!(disk.stored_bytes().unwrap() <= empty + (64 << 10));
    let mut buf = vec![1; BLOCK_LEN_BYTES];
    disk.read(Lba::new(5), &mut buf).unwrap();
    assert!(buf.iter().all(|&b| b == 0));
}

#[test]
fn a_cached_image_loses_what_was_not_flushed() {
    let (_directory, path) = scratch();
    let disk = SimDisk::builder(geometry(6))
        .write_cache(Blocks::new(64))
        .create_image(&path, "", 1)
        .unwrap();
    disk.write(Lba::new(256), &[1; 2 * BLOCK_LEN_BYTES], Persist::Cached).unwrap();
    disk.flush().unwrap();
    disk.write(Lba::new(258), &[2; 2 * BLOCK_LEN_BYTES], Persist::Cached).unwrap();
    // The process dies, and the content of the drive's cache with it.
    drop(disk);
    let disk = open(&path).unwrap();
    let info = disk.zone(ZoneId(1)).unwrap();
    assert_eq!(info.state.write_pointer(info.start), Some(Lba::new(258)));
    // The image remembers the cache's size.
    disk.set_faults(FaultPlan::default());
    disk.write(Lba::new(258), &[2; BLOCK_LEN_BYTES], Persist::Cached).unwrap();
    let lost = (0..20).any(|seed| {
        let outcome = disk.power_cycle(&mut Prng::new(seed)).unwrap();
        let info = disk.zone(ZoneId(1)).unwrap();
        let at = info.state.write_pointer(info.start).unwrap();
        disk.write(at, &[2; BLOCK_LEN_BYTES], Persist::Cached).unwrap();
        outcome.lost == Blocks::new(1)
    });
    assert!(lost, "twenty power cuts, and no unflushed write was lost");
}

#[test]
fn each_wrong_path_has_its_own_error() {
    let (directory, path) = scratch();
    assert_eq!(
        message(&path),
        "IMAGE: no such file; check the path, or create a drive there first"
    );
    assert_eq!(
        message(directory.path()),
        "IMAGE: is a directory, not a regular file; give the path of a drive image"
    );
    let device = Path::new("/dev/null");
    assert!(matches!(open(device), Err(ImageError::NotAFile { .. })));
    std::fs::write(&path, "#!/bin/sh\nexit\n").unwrap();
    assert_eq!(
        message(&path),
        "IMAGE: is not an Imbrex drive image: it begins with \"#!/bin/s\", not with \"IMBREXDK\""
    );
    std::fs::write(&path, "").unwrap();
    assert!(matches!(open(&path), Err(ImageError::NotAnImage { .. })));
    let builder = SimDisk::builder(geometry(6));
    let error = builder.clone().create_image(&path, "", 1).expect_err("exists");
    assert!(matches!(error, ImageError::Exists { .. }));
    let nowhere = directory.path().join("no/such/directory");
    let error = builder.clone().create_image(&nowhere, "", 1).expect_err("no directory");
    assert!(matches!(error, ImageError::NotFound { .. }));
    let error = builder.create_image(&directory.path().join("x"), &"x".repeat(65), 1);
    assert_eq!(
        error.expect_err("label").to_string(),
        "label is 65 bytes long; at most 64 fit into a drive image"
    );
    let path = directory.path().join("many.img");
    let many = geometry((1 << 22) + 1);
    let error = SimDisk::builder(many).create_image(&path, "", 1).expect_err("not simulated");
    assert!(matches!(error, ImageError::Build { .. }));
    assert!(!path.exists(), "nothing is left behind");
}

#[test]
fn an_image_in_use_is_refused() {
    let (_directory, path) = scratch();
    let disk = create(&path);
    assert_eq!(message(&path), "IMAGE: is in use by this process; end that use first");
    drop(disk);
    open(&path).unwrap();
}

#[test]
fn a_read_only_image_is_refused() {
    let (_directory, path) = scratch();
    drop(create(&path));
    let mut permissions = std::fs::metadata(&path).unwrap().permissions();
    permissions.set_readonly(true);
    std::fs::set_permissions(&path, permissions).unwrap();
    assert_eq!(
        message(&path),
        "IMAGE: is read-only; open it read-only, or make the file and its file system writable"
    );
}

#[test]
fn another_geometry_and_another_version_are_refused() {
    let (_directory, path) = scratch();
    drop(create(&path));
    let options = OpenOptions::default().expect_geometry(geometry(7));
    let error = SimDisk::open_image(&path, options).expect_err("six zones, not seven").to_string();
    assert!(error.contains("1536 blocks in 6 zones of 256 blocks"), "{error}");
    assert!(error.contains("1792 blocks in 7 zones"), "{error}");
    let options = OpenOptions::default().expect_geometry(geometry(6));
    drop(SimDisk::open_image(&path, options).unwrap());
    patch(&path, 8, &4_u32.to_le_bytes());
    assert_eq!(
        message(&path),
        "IMAGE: drive image of format version 4, but this program reads versions up to 3; \
         use the program that wrote it"
    );
}

fn patch(path: &Path, offset: u64, bytes: &[u8]) {
    let file = File::options().write(true).open(path).unwrap();
    file.write_all_at(bytes, offset).unwrap();
}

#[test]
fn every_truncation_is_refused() {
    let (_directory, path) = scratch();
    let disk = create(&path);
    disk.write(Lba::new(256), &[1; BLOCK_LEN_BYTES], Persist::Through).unwrap();
    drop(disk);
    let file = File::options().write(true).open(&path).unwrap();
    let whole = file.metadata().unwrap().len();
    file.set_len(whole + 1).unwrap();
    assert!(matches!(open(&path), Err(ImageError::WrongLength { .. })));
    let lens = [whole - 1, whole / 2, 1 << 20, 65_537, 65_536, 4_097, 4_096, 4_095, 100, 8];
    for len in lens {
        file.set_len(len).unwrap();
        assert!(matches!(open(&path), Err(ImageError::WrongLength { .. })), "{len}");
    }
    for len in [7, 1, 0] {
        file.set_len(len).unwrap();
        assert!(matches!(open(&path), Err(ImageError::NotAnImage { .. })), "{len}");
    }
}

#[test]
fn every_flipped_byte_before_the_data_is_refused() {
    let (_directory, path) = scratch();
    drop(create(&path));
    let file = File::options().read(true).write(true).open(&path).unwrap();
    let data_offset = 1 << 20;
    // Every byte of the header and the zone table, and a sample of profile text and padding.
    let table_end = 65_536 + 6 * 32;
    let sampled = (4_096..65_536).step_by(509).chain((table_end..data_offset).step_by(9_973));
    for at in (0..4_096).chain(65_536..table_end).chain(sampled) {
        let mut byte = [0];
        file.read_exact_at(&mut byte, at).unwrap();
        file.write_all_at(&[byte[0] ^ 0x41], at).unwrap();
        let error = open(&path).expect_err("a damaged image must be refused");
        let is_fitting = match &error {
            ImageError::NotAnImage { .. } => at < 8,
            ImageError::Version { .. } => (8..12).contains(&at),
            ImageError::Damaged { structure: "header", .. } => (12..4_096).contains(&at),
            ImageError::Damaged { structure: "profile text", .. } => (4_096..65_536).contains(&at),
            ImageError::Damaged { structure: "zone table", .. } => at >= table_end,
            ImageError::ZoneDamaged { zone, offset, .. } => {
                *offset == 65_536 + u64::from(zone.0) * 32 && (*offset..*offset + 32).contains(&at)
            }
            _ => false,
        };
        assert!(is_fitting, "byte {at}: {error}");
        file.write_all_at(&byte, at).unwrap();
    }
    open(&path).unwrap();
}

/// A flipped bit of the header, the profile text, the zone table or the track map ended the image.
#[test]
fn a_flipped_bit_before_the_data_is_corrected() {
    let (_directory, path) = scratch();
    let (_other, shingled_path) = scratch();
    drop(create(&path));
    let disk = SimDisk::builder(shingled()).create_image(&shingled_path, "shingled", 1).unwrap();
    disk.write(Lba::new(0), &vec![1; 200 * BLOCK_LEN_BYTES], Persist::Cached).unwrap();
    disk.write(Lba::new(70), &[2; BLOCK_LEN_BYTES], Persist::Cached).unwrap();
    drop(disk);
    for path in [&path, &shingled_path] {
        let before = std::fs::read(path).unwrap();
        let hash = open(path).unwrap().image_hash().unwrap();
        let file = File::options().read(true).write(true).open(path).unwrap();
        let header = (0..250).chain((250..4096).step_by(67)).chain(4090..4096);
        let rest = (4096..65_536).step_by(7001).chain((65_536..65_800).step_by(3));
        let padding = [(1 << 20) - 1, 99_999];
        for (nth, at) in header.chain(rest).chain(padding).enumerate() {
            let flipped = before[at as usize] ^ 1 << (nth % 8);
            file.write_all_at(&[flipped], at).unwrap();
            assert!(is_image(path).unwrap());
            let reader = SimDisk::open_image(path, OpenOptions::default().read_only()).unwrap();
            assert_eq!(reader.image_hash().unwrap(), hash, "byte {at}");
            assert_eq!(reader.image().unwrap().corrected_bit_count, 1, "byte {at}");
            drop(reader);
            let mut now = [0];
            file.read_exact_at(&mut now, at).unwrap();
            assert_eq!(now, [flipped], "a reader wrote byte {at}");
            let disk = open(path).unwrap_or_else(|error| panic!("byte {at}: {error}"));
            assert_eq!(disk.image().unwrap().corrected_bit_count, 1, "byte {at}");
            drop(disk);
            assert_eq!(open(path).unwrap().image().unwrap().corrected_bit_count, 0, "byte {at}");
        }
        assert!(std::fs::read(path).unwrap() == before, "each bit is as it was");
    }
}

#[test]
fn a_host_error_names_the_image_and_the_blocks() {
    let (_directory, path) = scratch();
    let disk = create(&path);
    File::options().write(true).open(&path).unwrap().set_len(1 << 20).unwrap();
    let error = disk.read(Lba::new(7), &mut [0; BLOCK_LEN_BYTES]).unwrap_err().to_string();
    assert!(error.contains("drive.img: reading blocks 7..8; the image was cut"), "{error}");
}

#[test]
fn readers_and_writers_of_different_zones_work_at_once() {
    let (_directory, path) = scratch();
    let disk = create(&path);
    std::thread::scope(|scope| {
        for zone in 1..5_u64 {
            let disk = &disk;
            scope.spawn(move || {
                let mut buf = vec![0; BLOCK_LEN_BYTES];
                for block in 0..256 {
                    let at = Lba::new(zone * 256 + block);
                    disk.write(at, &[zone as u8; BLOCK_LEN_BYTES], Persist::Cached).unwrap();
                    disk.read(at, &mut buf).unwrap();
                    assert!(buf.iter().all(|&b| b == zone as u8));
                }
            });
        }
    });
    let states: Vec<String> = disk.report_zones().iter().map(|z| z.state.to_string()).collect();
    assert_eq!(states, ["conventional", "full", "full", "full", "full", "empty"]);
    assert_eq!(disk.counters().writes, 1024);
}

const KILLED_IMAGE: &str = "IMBREX_TEST_KILLED_IMAGE";

/// Not a test by itself: the next test starts and kills this process.
#[test]
fn writes_until_killed() {
    let Some(path) = std::env::var_os(KILLED_IMAGE) else { return };
    let disk = open(Path::new(&path)).unwrap();
    for round in 0_u64.. {
        for zone in 1..6 {
            for block in 0..256 {
                let fill = (round + zone + block) as u8 | 1;
                let at = Lba::new(u64::from(zone as u32) * 256 + block);
                disk.write(at, &[fill; BLOCK_LEN_BYTES], Persist::Cached).unwrap();
            }
            println!("full: {zone}");
        }
        for zone in 1..6 {
            disk.manage_zone(ZoneId(zone), ZoneAction::Reset).unwrap();
        }
    }
}

#[test]
fn a_killed_process_leaves_a_drive_that_opens() {
    use std::io::{BufRead, BufReader};
    use std::process::{Command, Stdio};
    let (_directory, path) = scratch();
    drop(create(&path));
    for lines in [1, 3, 9] {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "backing::image::tests::writes_until_killed", "--nocapture"])
            .env(KILLED_IMAGE, &path)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        // The pipe lives as long as the child, because a closed pipe would end it.
        let mut output = BufReader::new(child.stdout.take().unwrap()).lines();
        let is_full = |line: &Result<String, _>| line.as_ref().unwrap().starts_with("full: ");
        assert_eq!(output.by_ref().filter(is_full).take(lines).count(), lines);
        assert!(matches!(open(&path), Err(ImageError::InUse { .. })));
        child.kill().unwrap();
        child.wait().unwrap();
        let disk = open(&path).unwrap();
        let mut buf = vec![0; BLOCK_LEN_BYTES];
        for info in &disk.report_zones()[1..] {
            let end = info.state.write_pointer(info.start).unwrap_or(info.start + info.capacity);
            for block in 0..(end - info.start).get() {
                disk.read(info.start + Blocks::new(block), &mut buf).unwrap();
                let whole = buf[0] != 0 && buf.iter().all(|&b| b == buf[0]);
                assert!(whole, "{} block {block} lies below the pointer", info.zone);
            }
        }
        for zone in 1..6 {
            disk.manage_zone(ZoneId(zone), ZoneAction::Reset).unwrap();
        }
    }
}

#[test]
fn an_image_open_for_reading_stays_as_it_is_and_is_shared() {
    let (_directory, path) = scratch();
    let disk = create(&path);
    disk.write(Lba::new(3), &[3; BLOCK_LEN_BYTES], Persist::Through).unwrap();
    disk.write(Lba::new(256), &[4; BLOCK_LEN_BYTES], Persist::Through).unwrap();
    let read_only = || SimDisk::open_image(&path, OpenOptions::default().read_only());
    assert!(matches!(read_only(), Err(ImageError::InUse { .. })));
    drop(disk);
    let before = std::fs::read(&path).unwrap();
    let changed = || std::fs::metadata(&path).unwrap().modified().unwrap();
    let changed_before = changed();
    let (first, second) = (read_only().unwrap(), read_only().unwrap());
    assert!(matches!(open(&path), Err(ImageError::InUse { .. })));
    let range = BlockRange::new(Lba::new(3), Blocks::new(1));
    for refused in [
        first.write(Lba::new(3), &[5; BLOCK_LEN_BYTES], Persist::Cached),
        first.write(Lba::new(257), &[5; BLOCK_LEN_BYTES], Persist::Through),
        first.flush(),
        first.discard(range),
        first.write_zeroes(range, Persist::Cached),
        first.manage_zone(ZoneId(1), ZoneAction::Reset),
    ] {
        assert!(matches!(refused, Err(DiskError::ReadOnly)), "{refused:?}");
    }
    let mut block = [0; BLOCK_LEN_BYTES];
    second.read(Lba::new(256), &mut block).unwrap();
    assert_eq!(block, [4; BLOCK_LEN_BYTES]);
    drop(first);
    assert!(matches!(open(&path), Err(ImageError::InUse { .. })), "one reader is left");
    drop(second);
    assert_eq!(changed(), changed_before);
    assert!(std::fs::read(&path).unwrap() == before);
    open(&path).unwrap();
}

#[test]
fn a_full_host_has_its_own_error() {
    let (_directory, path) = scratch();
    let full = || std::io::Error::from(std::io::ErrorKind::StorageFull);
    let error = super::host(&path, "writing the header")(full());
    assert!(matches!(error, ImageError::NoSpace { .. }), "{error}");
    let (backing, _) = {
        drop(create(&path));
        super::ImageBacking::open(&path, super::Access::Write).unwrap()
    };
    let range = BlockRange::new(Lba::new(3), Blocks::new(2));
    let error = backing.failed("writing", range, full()).to_string();
    assert!(error.contains("drive.img: writing blocks 3..5; free space on the host: "), "{error}");
}

fn shingled() -> Geometry {
    let rule =
        Rule::IsolationDistance(ShingleSpec { track_len: Blocks::new(64), overlap_tracks: 2 });
    Geometry::new(GeometrySpec { len: Blocks::new(6 * 256), rule }).unwrap()
}

/// Every block of a shingled image that is not blank; `None` for a destroyed one.
fn marked(disk: &SimDisk) -> Vec<(u64, Option<u8>)> {
    let mut buf = vec![0; BLOCK_LEN_BYTES];
    let mut read = |at| match disk.read(Lba::new(at), &mut buf) {
        Ok(()) => Some(buf[0]),
        Err(DiskError::Destroyed { .. }) => None,
        Err(error) => panic!("{error}"),
    };
    (0..disk.geometry().len().get())
        .map(|at| (at, read(at)))
        .filter(|&(_, fill)| fill != Some(0))
        .collect()
}

#[test]
fn destroyed_blocks_stay_destroyed_after_reopening() {
    let (_directory, path) = scratch();
    let disk = SimDisk::builder(shingled()).create_image(&path, "shingled", 1).unwrap();
    disk.write(Lba::new(0), &vec![1; 300 * BLOCK_LEN_BYTES], Persist::Cached).unwrap();
    disk.write(Lba::new(70), &[2; BLOCK_LEN_BYTES], Persist::Cached).unwrap();
    disk.write(Lba::new(130), &[3; BLOCK_LEN_BYTES], Persist::Through).unwrap();
    disk.discard(BlockRange::new(Lba::new(5), Blocks::new(20))).unwrap();
    let (before, hash) = (marked(&disk), disk.image_hash().unwrap());
    assert_eq!(before.iter().filter(|(_, fill)| fill.is_none()).count(), 171);
    drop(disk);
    let disk = open(&path).unwrap();
    assert_eq!((marked(&disk), disk.image_hash().unwrap()), (before, hash));
    drop(disk);
    let expect = OpenOptions::default().expect_geometry(geometry(6));
    let error = SimDisk::open_image(&path, expect).unwrap_err().to_string();
    assert!(error.contains("holds a shingled drive of 1536 blocks in tracks of 64"), "{error}");
}

#[test]
fn an_interlaced_image_keeps_its_tracks_and_what_was_destroyed() {
    let (_directory, path) = scratch();
    let tracks = NeighbourSpec { bottom_track_len: Blocks::new(10), top_track_len: Blocks::new(8) };
    let rule = Rule::Neighbours(tracks);
    let geometry = Geometry::new(GeometrySpec { len: Blocks::new(90), rule }).unwrap();
    let disk = SimDisk::builder(geometry).create_image(&path, "interlaced", 1).unwrap();
    for at in [0, 18, 36, 10, 28] {
        let track = geometry.track_of(Lba::new(at)).unwrap();
        let len = geometry.track_range(track).unwrap().len.bytes() as usize;
        disk.write(Lba::new(at), &vec![1 + at as u8; len], Persist::Cached).unwrap();
    }
    disk.write(Lba::new(20), &[7; BLOCK_LEN_BYTES], Persist::Through).unwrap();
    assert_eq!(disk.counters().destroyed_bytes, 16 * BLOCK_LEN_BYTES as u64);
    let (before, hash) = (marked(&disk), disk.image_hash().unwrap());
    drop(disk);
    let disk = open(&path).unwrap();
    assert_eq!(disk.geometry(), &geometry);
    assert_eq!((marked(&disk), disk.image_hash().unwrap()), (before, hash));
    drop(disk);
    let other = OpenOptions::default().expect_geometry(shingled());
    let error = SimDisk::open_image(&path, other).unwrap_err().to_string();
    let expected =
        "an interlaced drive of 90 blocks in bottom tracks of 10 blocks and top tracks of 8";
    assert!(error.contains(expected), "{error}");
}

#[test]
fn a_damaged_track_map_is_refused() {
    let (_directory, path) = scratch();
    let disk = SimDisk::builder(shingled()).create_image(&path, "shingled", 1).unwrap();
    disk.write(Lba::new(0), &vec![1; 200 * BLOCK_LEN_BYTES], Persist::Cached).unwrap();
    disk.write(Lba::new(70), &[2; BLOCK_LEN_BYTES], Persist::Cached).unwrap();
    drop(disk);
    let file = File::options().read(true).write(true).open(&path).unwrap();
    for at in (65_536..65_536 + 1_536).step_by(7).chain([65_536 + 1_536, 100_000]) {
        for bit in 0..7 {
            let mut byte = [0];
            file.read_exact_at(&mut byte, at).unwrap();
            file.write_all_at(&[byte[0] ^ 3 << bit], at).unwrap();
            let error = open(&path).expect_err("a damaged map must be refused");
            let is_fitting = matches!(error, ImageError::Damaged { structure: "track map", .. });
            assert!(is_fitting, "byte {at}: {error}");
            file.write_all_at(&byte, at).unwrap();
        }
    }
    patch(&path, 65_536 + 64, &[0x7F]);
    let expected = "IMAGE: track map is damaged: byte 65600 is 0x7f, so the state of lba 64 is \
                    unknown; restore the image from a copy";
    assert_eq!(message(&path), expected);
}

/// Not a test by itself: the next test starts and kills this process.
#[test]
fn shingles_until_killed() {
    let Some(path) = std::env::var_os(KILLED_IMAGE) else { return };
    let disk = open(Path::new(&path)).unwrap();
    // Output follows the test's name, if the harness printed that without a line end.
    println!();
    for round in 0_u64.. {
        let fill = round as u8 | 1;
        // A band of five tracks, written in order. The next band begins behind the guard.
        for block in 0..320 {
            let at = Lba::new(round % 3 * 448 + block);
            disk.write(at, &[fill; BLOCK_LEN_BYTES], Persist::Cached).unwrap();
            println!("written: {} {fill}.", at.get());
        }
    }
}

#[test]
fn a_killed_process_leaves_a_shingled_drive_that_keeps_what_was_acknowledged() {
    use std::io::{BufRead, BufReader};
    use std::process::{Command, Stdio};
    let (_directory, path) = scratch();
    drop(SimDisk::builder(shingled()).create_image(&path, "shingled", 1).unwrap());
    let mut model: Vec<Option<u8>> = vec![Some(0); 1_536];
    for lines in [100, 700, 1_500, 3_000] {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "backing::image::tests::shingles_until_killed", "--nocapture"])
            .env(KILLED_IMAGE, &path)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let mut acknowledged = Vec::new();
        for line in output.lines().map(Result::unwrap) {
            // The last line may be incomplete.
            let Some(numbers) = line.strip_prefix("written: ").and_then(|l| l.strip_suffix('.'))
            else {
                continue;
            };
            let (at, fill) = numbers.split_once(' ').unwrap();
            acknowledged.push((at.parse::<u64>().unwrap(), fill.parse::<u8>().unwrap()));
            if acknowledged.len() == lines {
                child.kill().unwrap();
            }
        }
        child.wait().unwrap();
        for &(at, fill) in &acknowledged {
            let write = BlockRange::new(Lba::new(at), Blocks::new(1));
            let reach = shingled().reach(write);
            for block in reach.start.get()..reach.end().get() {
                model[block as usize] = model[block as usize].filter(|&fill| fill == 0);
            }
            model[at as usize] = Some(fill);
        }
        let disk = open(&path).unwrap();
        let mut found: Vec<Option<u8>> = vec![Some(0); 1_536];
        for (at, fill) in marked(&disk) {
            found[at as usize] = fill;
        }
        // One more write may have been under way; it changes its block and the two tracks behind
        // it.
        let last = acknowledged.last().unwrap().0;
        let next = if last % 448 == 319 { (last / 448 + 1) % 3 * 448 } else { last + 1 };
        let next = BlockRange::new(Lba::new(next), Blocks::new(1));
        let may_differ =
            |at: u64| next.contains(Lba::new(at)) || shingled().reach(next).contains(Lba::new(at));
        for at in 0..1_536 {
            let (found, expected) = (found[at as usize], model[at as usize]);
            assert!(found == expected || may_differ(at), "block {at}: {found:?}, {expected:?}");
        }
        model = found;
    }
}

/// The content of a write cache is lost when its process dies.
#[test]
fn unflushed_cached_writes_are_lost_with_the_process() {
    let (_directory, path) = scratch();
    create(&path);
    let cached = || OpenOptions::default().write_cache(Blocks::new(64));
    let disk = SimDisk::open_image(&path, cached()).unwrap();
    disk.write(Lba::new(3), &[1; BLOCK_LEN_BYTES], Persist::Cached).unwrap();
    disk.write(Lba::new(256), &[1; 2 * BLOCK_LEN_BYTES], Persist::Cached).unwrap();
    disk.flush().unwrap();
    disk.write(Lba::new(3), &[2; BLOCK_LEN_BYTES], Persist::Cached).unwrap();
    disk.write(Lba::new(258), &[2; BLOCK_LEN_BYTES], Persist::Cached).unwrap();
    drop(disk);
    let disk = open(&path).unwrap();
    let mut block = [0; BLOCK_LEN_BYTES];
    disk.read(Lba::new(3), &mut block).unwrap();
    assert_eq!(block, [1; BLOCK_LEN_BYTES]);
    let pointer = disk.zone(ZoneId(1)).unwrap().state.write_pointer(Lba::new(256));
    assert_eq!(pointer, Some(Lba::new(258)));
}

/// After the power was lost for good, another process finds everything that was flushed. Of the
/// other writes, including the one under way, it finds any blocks in conventional space and a
/// prefix in a zone.
#[test]
fn an_image_after_the_power_was_lost() {
    let (mut flushed_only, mut torn, mut whole, mut zone_lens) = (0, 0, 0, Vec::new());
    for seed in 0..60 {
        let (_directory, path) = scratch();
        create(&path);
        let cached = OpenOptions::default().write_cache(Blocks::new(64));
        let disk = SimDisk::open_image(&path, cached).unwrap();
        disk.lose_power_after(4, Prng::new(seed));
        disk.write(Lba::new(0), &[1; 4 * BLOCK_LEN_BYTES], Persist::Cached).unwrap();
        disk.write(Lba::new(256), &[1; BLOCK_LEN_BYTES], Persist::Cached).unwrap();
        disk.flush().unwrap();
        disk.write(Lba::new(0), &[2; 4 * BLOCK_LEN_BYTES], Persist::Cached).unwrap();
        let on_its_way = disk.write(Lba::new(257), &[2; 3 * BLOCK_LEN_BYTES], Persist::Cached);
        assert!(matches!(on_its_way, Err(DiskError::PowerLost)));
        let mut blocks = [0; 4 * BLOCK_LEN_BYTES];
        assert!(matches!(disk.read(Lba::new(0), &mut blocks), Err(DiskError::PowerLost)));
        assert!(matches!(disk.flush(), Err(DiskError::PowerLost)));
        drop(disk);
        let disk = open(&path).unwrap();
        disk.read(Lba::new(0), &mut blocks).unwrap();
        assert!(blocks.chunks(BLOCK_LEN_BYTES).all(|b| b.iter().all(|&byte| byte == b[0])));
        let new = blocks.chunks(BLOCK_LEN_BYTES).filter(|block| block[0] == 2).count();
        assert!(blocks.iter().all(|&byte| byte == 1 || byte == 2), "seed {seed}");
        match new {
            0 => flushed_only += 1,
            4 => whole += 1,
            _ => torn += 1,
        }
        let pointer = disk.zone(ZoneId(1)).unwrap().state.write_pointer(Lba::new(256)).unwrap();
        zone_lens.push((pointer - Lba::new(256)).get());
    }
    assert!(flushed_only > 5 && torn > 5 && whole > 5, "{flushed_only} {torn} {whole}");
    zone_lens.sort_unstable();
    zone_lens.dedup();
    assert_eq!(zone_lens, [1, 2, 3, 4]);
}

/// Otherwise the table would be read, and kept, at whatever length the header claims.
#[test]
fn more_zones_than_are_simulated_are_refused_before_their_table_is_read() {
    let (_directory, path) = scratch();
    drop(create(&path));
    let file = File::options().read(true).write(true).open(&path).unwrap();
    let mut bytes = [0; 4_096];
    file.read_exact_at(&mut bytes, 0).unwrap();
    let header = crate::backing::image_format::Header::decode(&bytes).unwrap();
    let zone_len = Blocks::new(1);
    let zones = ZoneSpec { zone_len, zone_capacity: zone_len, ..*geometry(1).zones().unwrap() };
    let (len, rule) = (Blocks::new((1 << 22) + 1), Rule::AtPointer(zones));
    let geometry = Geometry::new(GeometrySpec { len, rule }).unwrap();
    let len_bytes = crate::backing::image_format::image_len_bytes(&geometry).unwrap();
    let header = crate::backing::image_format::Header { geometry, ..header };
    file.write_all_at(&header.encode(), 0).unwrap();
    file.set_len(len_bytes).unwrap();
    drop(file);
    assert_eq!(
        message(&path),
        "IMAGE: the drive has 4194305 zones; at most 4194304 are simulated, so make them longer"
    );
}
