//! `check` on a drive with the files of another database.

use crate::{Drive, imbrex};
use imbrex_clockwork::Runtime;
use imbrex_disk::{Blocks, Persist};
use imbrex_disk_sim::SimDisk;
use imbrex_files::{FileKind, Files, Hints};
use imbrex_filesystem::{FileSystem, FsOptions};
use std::sync::Arc;

#[test]
fn a_log_that_cannot_be_read_to_its_end_is_found() {
    let drive = Drive::new();
    let bare = drive.beside("bare");
    let path = bare.to_str().unwrap();
    let create = ["drive", "create", "--no-store", "--rule", "conventional", "--capacity", "1GiB"];
    imbrex(&[&create[..], &["--no-timing", path]].concat()).ok();
    let disk = SimDisk::open_image(&bare, Default::default()).unwrap();
    let runtime = Runtime::threads(1);
    let mounted = imbrex::stack::mount(Arc::new(disk), &runtime).unwrap();
    let files = Arc::new(mounted.files);
    let options = FsOptions { unix_time_s: || 0 };
    let fs = FileSystem::open(Arc::clone(&files) as Arc<dyn Files>, options).unwrap();
    let log = fs.create("/wal", Hints::new(FileKind::Log)).unwrap();
    for _ in 0..3 {
        log.append(&[7; 10_000]).unwrap();
        log.sync().unwrap();
    }
    let store = fs.open_read("/wal").unwrap().stores().remove(0);
    let start = files.list(&store).remove(0).extents[0].start;
    // The writing process died, so the log has no regular end.
    drop((log, fs, files));
    let mut block = vec![0; 4096];
    let at = start + Blocks::new(4);
    mounted.drive.read(at, &mut block).unwrap();
    block[999] ^= 1;
    mounted.drive.write(at, &block, Persist::Through).unwrap();
    drop((mounted.disk, mounted.drive, runtime));
    let found = imbrex(&["check", path, "--format", "json"]);
    let report: serde_json::Value = serde_json::from_slice(&found.stdout).unwrap();
    assert_eq!(report["result"]["findings"].as_array().unwrap().len(), 1, "{report}");
    found.fails(5, &[path, "/wal: damaged at byte 10000"]);
}
