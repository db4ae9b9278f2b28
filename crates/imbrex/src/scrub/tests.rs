//! Rot in a table of every kind of drive.

use super::*;
use crate::Layout;
use crate::backup::BackupOptions;
use crate::backup::tests::{LAYOUTS, Place, prefix_len, value};
use rustix::fs::{SeekFrom, seek};
use std::fs::File;
use std::ops::ControlFlow;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Flips a bit of the block that begins with `head`, wherever the image at `path` has it. How many blocks do.
fn rot(path: &Path, head: &[u8]) -> usize {
    let file = File::options().read(true).write(true).open(path).unwrap();
    let (mut count, mut at, mut block) = (0, 0, [0; 4096]);
    while let Ok(data) = seek(&file, SeekFrom::Data(at)) {
        let hole = seek(&file, SeekFrom::Hole(data)).unwrap();
        for offset in (data..hole).step_by(4096) {
            if file.read_exact_at(&mut block, offset).is_ok() && block[..] == *head {
                file.write_all_at(&[block[1000] ^ 1], offset + 1000).unwrap();
                count += 1;
            }
        }
        at = hole;
    }
    count
}

fn scrubbed(place: &Place, backup: Option<&Path>) -> ScrubReport {
    let options = ScrubOptions { after: 0, backup: backup.map(Into::into) };
    let drives = place.paths().find().unwrap();
    scrub(&drives, &options, &mut |_| ControlFlow::Continue(()), &mut |_| ()).unwrap()
}

/// M1, on each layout: a damaged table is lost without a second copy, and is what it was with one.
#[test]
fn a_damaged_table_of_any_drive_is_replaced_from_a_backup() {
    for layout in LAYOUTS {
        let layout = Layout::by_name(layout).unwrap();
        let dir = tempfile::tempdir().unwrap();
        let place = Place::new(dir.path(), "drive", layout);
        let store = place.create();
        for key in 0..3000_u64 {
            store.put(key.to_be_bytes(), value(key)).unwrap();
        }
        store.flush().unwrap();
        let target = dir.path().join("copies");
        store.backup(&target, &BackupOptions::default()).unwrap();
        store.close().unwrap();
        let table = std::fs::read_dir(target.join("tables")).unwrap().next().unwrap().unwrap();
        let head = std::fs::read(table.path()).unwrap()[..4096].to_vec();
        let images = std::iter::once(&place.main).chain(&place.flash);
        assert!(images.map(|path| rot(path, &head)).sum::<usize>() > 0, "{layout}: no such block");
        let report = scrubbed(&place, None);
        assert!(report.is_complete && report.lost.len() == 1, "{layout}: {report:?}");
        let report = scrubbed(&place, Some(&target));
        let from: Vec<_> = report.mended.iter().map(|(_, from)| *from).collect();
        assert_eq!(from, [MendedFrom::Elsewhere], "{layout}: {report:?}");
        assert!(report.is_sound(), "{layout}: {report:?}");
        let report = scrubbed(&place, None);
        assert!(report.is_sound() && report.mended.is_empty(), "{layout}: {report:?}");
        let store = place.open();
        assert_eq!(prefix_len(&store), 3000, "{layout}");
        assert!(store.stack().db.check().unwrap().is_sound(), "{layout}");
        store.compact().unwrap();
        assert_eq!(prefix_len(&store), 3000, "{layout}");
        store.close().unwrap();
    }
}
