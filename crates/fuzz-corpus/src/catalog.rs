//! The catalog: the two regions at the start of a drive.

use crate::target::Target;
use imbrex_clockwork::{Order, Runtime};
use imbrex_disk::{BLOCK_LEN_BYTES, Blocks, Disk, Lba, Persist};
use imbrex_disk_sim::SimDisk;
use imbrex_files::inspect::describe_catalog;
use imbrex_files::tiers::{FlashOptions, TieredFiles};
use imbrex_files::{
    AppRecord, Commit, FileBuffer, FileKind, FileLayer, Files, FormatOptions, GroupId, Hints,
    PlacementKind, PlacementOptions, Tier,
};
use std::sync::Arc;

pub(crate) const TARGET: Target = Target { name: "catalog", feed, seeds };

/// A drive of this length has two regions of 32 blocks.
const DISK_LEN: Blocks = Blocks::new(512);
const REGIONS_LEN_BYTES: usize = 64 * BLOCK_LEN_BYTES;

/// Asserts that a catalog that opens can be listed, read and checked.
fn feed(bytes: &[u8]) {
    let disk = SimDisk::tiny_conventional(DISK_LEN);
    let mut regions = bytes[..bytes.len().min(REGIONS_LEN_BYTES)].to_vec();
    regions.resize(regions.len().next_multiple_of(BLOCK_LEN_BYTES), 0);
    if !regions.is_empty() {
        disk.write(Lba::new(0), &regions, Persist::Through).expect("the disk has no faults");
    }
    let _ = describe_catalog(&disk);
    let (runtime, _world) = Runtime::virtual_time(Order::SmallestTime);
    let disk: Arc<dyn Disk> = Arc::new(disk);
    if let Ok(files) = TieredFiles::open_without_flash(Arc::clone(&disk), &runtime) {
        let _ = (files.check(), files.list(""));
    }
    let Ok(files) = FileLayer::open(disk, &runtime) else { return };
    let _ = files.check();
    for file in files.list("") {
        let reader = files.open(&file.name).expect("a listed file opens");
        let _ = reader.read_at(0, file.len_bytes.min(1 << 20) as usize, &mut Vec::new());
    }
}

fn seeds() -> Vec<(&'static str, Vec<u8>)> {
    vec![
        ("empty", regions("first-fit", |_| ())),
        ("files", regions("first-fit", write_files)),
        ("sets", regions("sets", write_sets)),
        ("pair", pair_regions()),
    ]
}

/// The main drive of a pair, with one log on flash, one that is gone, and one that is swept.
fn pair_regions() -> Vec<u8> {
    let main = Arc::new(SimDisk::tiny_conventional(DISK_LEN));
    let flash = Arc::new(SimDisk::tiny_conventional(DISK_LEN));
    let (runtime, _world) = Runtime::virtual_time(Order::SmallestTime);
    let placement = PlacementKind::by_name("first-fit").expect("it comes with the crate");
    let files = TieredFiles::format(
        Arc::clone(&main) as Arc<dyn Disk>,
        flash,
        &FormatOptions::new(placement),
        &FlashOptions::default(),
        &runtime,
    )
    .expect("the drives suit the placement");
    let hints = Hints { tier: Tier::Fast, ..Hints::new(FileKind::Log) };
    for name in ["000001.log", "000002.log", "000003.log"] {
        files.create_log(name, hints).expect("there is room and the name is free");
    }
    for name in ["000001.log", "000002.log"] {
        let remove = vec![name.to_owned()];
        files.commit(Commit { remove, ..Commit::default() }).expect("the file is there");
    }
    drop(files);
    regions_of(&main)
}

fn regions(placement: &str, write: impl FnOnce(&FileLayer)) -> Vec<u8> {
    let disk = Arc::new(SimDisk::tiny_conventional(DISK_LEN));
    let (runtime, _world) = Runtime::virtual_time(Order::SmallestTime);
    let placement = PlacementKind::by_name(placement).expect("it comes with the crate");
    let drive = Arc::clone(&disk) as Arc<dyn Disk>;
    let placement_options =
        PlacementOptions { unit_len: Blocks::new(16), ..PlacementOptions::default() };
    let options = match placement.name() {
        "sets" => FormatOptions { placement_options, ..FormatOptions::new(placement) },
        _ => FormatOptions::new(placement),
    };
    let files =
        FileLayer::format(drive, &options, &runtime).expect("the drive suits the placement");
    write(&files);
    drop(files);
    regions_of(&disk)
}

fn regions_of(disk: &SimDisk) -> Vec<u8> {
    let mut bytes = vec![0; REGIONS_LEN_BYTES];
    disk.read(Lba::new(0), &mut bytes).expect("the disk has no faults");
    let len = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    bytes.truncate(len);
    bytes
}

/// A set of three tables, one of them dead, and a table without a set.
fn write_sets(files: &FileLayer) {
    let group = Some(GroupId(7));
    let hints = Hints { level: 2, group, ..Hints::new(FileKind::Table) };
    let table = |name: &str, hints| {
        let mut buffer = FileBuffer::new(name, hints);
        buffer.append(&[3; 9000]);
        buffer
    };
    let mut tables: Vec<FileBuffer> = ["a", "b", "c"].map(|name| table(name, hints)).into();
    tables.push(table("d", Hints::new(FileKind::Table)));
    let add = files.persist(tables).expect("there is room");
    files.commit(Commit { add, ..Commit::default() }).expect("the names are free");
    let remove = vec!["b".to_owned()];
    files.commit(Commit { remove, ..Commit::default() }).expect("the file is there");
}

fn write_files(files: &FileLayer) {
    let mut buffer = FileBuffer::new("000001.table", Hints::new(FileKind::Table));
    buffer.append(&[1; 5000]);
    let add = files.persist(vec![buffer]).expect("there is room");
    let app = Some(AppRecord::Append(b"a record".to_vec()));
    files.commit(Commit { add, app, ..Commit::default() }).expect("the names are free");
    let log = files
        .create_log("000002.log", Hints::new(FileKind::Log))
        .expect("there is room and the name is free");
    log.append(&[2; BLOCK_LEN_BYTES]).expect("there is room");
    log.sync().expect("the disk has no faults");
    let rename = vec![("000001.table".to_owned(), "renamed".to_owned())];
    files.commit(Commit { rename, ..Commit::default() }).expect("the name is free");
}
