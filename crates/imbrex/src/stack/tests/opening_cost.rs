//! Opening costs by what is there, not by the drive's length.

use super::*;
use crate::stack::Content;
use imbrex_disk::{BLOCK_LEN_BYTES, Lba, Persist};
use imbrex_disk_sim::{KVIMR_TRACKS, Profile, SEALDB_SHINGLE};

const READ_BYTES_MAX: u64 = 16 << 20;

/// As long as an hc620, 15 TB.
fn long_geometry(recording: Recording) -> Geometry {
    let zoned = Profile::by_name("hc620").unwrap().geometry();
    let rule = match recording {
        Recording::Zoned => return zoned,
        Recording::Conventional => Rule::Anywhere,
        Recording::Interlaced => Rule::Neighbours(KVIMR_TRACKS),
        Recording::Shingled => Rule::IsolationDistance(SEALDB_SHINGLE),
    };
    Geometry::new(GeometrySpec { len: zoned.len(), rule }).unwrap()
}

/// The content of `disk`, which cannot be mounted, and how many bytes were read to see it.
fn content(disk: &Arc<SimDisk>) -> (Option<Content>, u64) {
    let before = disk.counters();
    let error = mount(Arc::clone(disk), &runtime()).unwrap_err();
    let content = Content::of_unmounted(&**disk, &error);
    (content, (disk.counters() - before).read_bytes)
}

#[test]
fn a_blank_or_foreign_drive_of_15_tb_is_recognized_with_few_reads() {
    for recording in Recording::all() {
        let disk = SimDisk::builder(long_geometry(recording)).memory().map(Arc::new).unwrap();
        let (blank, read_bytes) = content(&disk);
        assert_eq!(blank, Some(Content::Blank), "{recording:?}");
        assert!(read_bytes < READ_BYTES_MAX, "{recording:?}: {read_bytes}");
        disk.write(Lba::new(0), &[1; BLOCK_LEN_BYTES], Persist::Cached).unwrap();
        let (foreign, read_bytes) = content(&disk);
        assert_eq!(foreign, None, "{recording:?}");
        assert!(read_bytes < READ_BYTES_MAX, "{recording:?}: {read_bytes}");
    }
}

/// The reader of a log looks only a little behind its end (`record-log`, `docs/guide/drives.md`).
#[test]
fn a_small_store_on_15_tb_is_opened_with_the_reads_of_the_guide() {
    let layouts = [
        ("imbrex-zones", 14),
        ("leveled-zones", 14),
        ("imr-m", 13),
        ("leveled-first-fit", 13),
        ("leveldb-cmr", 9),
        ("sealdb", 13),
        ("sealdb-paper", 9),
        ("sets-banded", 4),
    ];
    for (name, expected_mib) in imbrex_clockwork::share_of(layouts) {
        let geometry = long_geometry(Layout::by_name(name).unwrap().recording());
        let disk = SimDisk::builder(geometry).memory().map(Arc::new).unwrap();
        let options = crate::Options::new().layout(name);
        let store = options.clone().create_on(Arc::clone(&disk) as Arc<dyn Disk>).unwrap();
        for n in 0..1000 {
            store.put(format!("key{n:06}"), "value").unwrap();
        }
        store.close().unwrap();
        let before = disk.counters();
        let store = options.open_on(Arc::clone(&disk) as Arc<dyn Disk>).unwrap();
        let read_bytes = (disk.counters() - before).read_bytes;
        assert_eq!(store.get("key000999").unwrap().as_deref(), Some(&b"value"[..]));
        let read_mib = read_bytes.div_ceil(1 << 20);
        assert!((expected_mib / 2..=expected_mib).contains(&read_mib), "{name}: {read_mib} MiB");
        assert!(read_bytes < READ_BYTES_MAX, "{name}: {read_bytes}");
    }
}
