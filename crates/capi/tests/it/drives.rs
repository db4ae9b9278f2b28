//! Drives: created, opened, refused.

use imbrex::stack::{Drives, Layout};
use imbrex_capi::{
    Drive, Hints, KIND_LOG, PowerCut, Status, imbrex_drive_close, imbrex_drive_open,
    imbrex_drive_open_for_power_cut, imbrex_last_error, imbrex_make_dir, imbrex_sync_names,
    imbrex_writer_append, imbrex_writer_close, imbrex_writer_create, imbrex_writer_sync,
};
use imbrex_clockwork::Runtime;
use imbrex_disk::{Blocks, Disk, Geometry, GeometrySpec, Lba, Rule, ZoneSpec};
use imbrex_disk_sim::{OpenOptions, SimDisk};
use imbrex_translate::{BlockDriver, DriverOptions};
use std::ffi::{CStr, CString};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

/// An image of an emulated zoned drive of 512 MiB, formatted for files.
pub(crate) fn make(path: &Path, layout: &str) {
    make_with(path, layout, false);
}

/// A drive and its flash drive, with an empty store on both.
pub(crate) fn make_pair(path: &Path, flash_path: &Path, seed: u64) {
    let layout = Layout::by_name("smrdb-offload").unwrap();
    let geometry = small_geometry(layout);
    let make = |path: &Path, geometry: Geometry, seed| {
        Arc::new(SimDisk::builder(geometry).create_image(path, "", seed).unwrap())
    };
    let flash = GeometrySpec { len: Blocks::new(2048 * 32), rule: Rule::Anywhere };
    let flash = make(flash_path, Geometry::new(flash).unwrap(), !seed);
    let drives = Drives::from(make(path, geometry, seed)).with_flash(flash);
    let runtime = Runtime::threads(1);
    let recipe = layout.recipe(&geometry);
    layout.format_with(drives, &runtime, &recipe, seed).unwrap().close().unwrap();
}

pub(crate) fn make_with(path: &Path, layout: &str, store: bool) {
    let layout = Layout::by_name(layout).unwrap();
    let geometry = small_geometry(layout);
    let disk = Arc::new(SimDisk::builder(geometry).create_image(path, "", 1).unwrap());
    let runtime = Runtime::threads(1);
    let recipe = layout.recipe(&geometry);
    if store {
        layout.format_with(disk, &runtime, &recipe, 7).unwrap().close().unwrap();
    } else {
        layout.format_files(disk, &runtime, &recipe, 7).unwrap();
    }
}

/// A zoned drive with a block device on it.
pub(crate) fn make_device(path: &Path) {
    let geometry = small_geometry(Layout::by_name("leveled-zones").unwrap());
    let disk = Arc::new(SimDisk::builder(geometry).create_image(path, "", 1).unwrap());
    let options = DriverOptions { buffer_len: Blocks::new(2048), ..DriverOptions::default() };
    drop(BlockDriver::format(disk, &options).unwrap());
}

fn small_geometry(layout: Layout) -> Geometry {
    let zone_len = Blocks::new(2048);
    let zones = ZoneSpec {
        zone_len,
        zone_capacity: zone_len,
        conventional_zone_count: 1,
        open_zone_limit: Some(32),
        active_zone_limit: Some(32),
        strict_reads: true,
    };
    let rule = match layout.recording() {
        imbrex::stack::Recording::Zoned => Rule::AtPointer(zones),
        _ => Rule::Anywhere,
    };
    Geometry::new(GeometrySpec { len: Blocks::new(2048 * 64), rule }).unwrap()
}

pub(crate) fn open(path: &Path, layout: Option<&str>) -> (Status, *mut Drive) {
    let path = CString::new(path.to_str().unwrap()).unwrap();
    let layout = layout.map(|name| CString::new(name).unwrap());
    let layout = layout.as_ref().map_or(std::ptr::null(), |name| name.as_ptr());
    let mut drive = std::ptr::null_mut();
    // SAFETY: strings and an out parameter that live as long as the call.
    let status = unsafe { imbrex_drive_open(path.as_ptr(), layout, &raw mut drive) };
    (status, drive)
}

pub(crate) fn last_error() -> String {
    // SAFETY: the text is this thread's, and copied before its next call.
    unsafe { CStr::from_ptr(imbrex_last_error()) }.to_string_lossy().into_owned()
}

/// Makes a directory in the file system on a drive.
pub(crate) fn fill(path: &Path) -> Status {
    let (status, drive) = open(path, None);
    assert_eq!(status, Status::Ok, "{}", last_error());
    // SAFETY: a handle that is open, and given back once.
    unsafe {
        assert_eq!(imbrex_make_dir(drive, c"/db".as_ptr(), false), Status::Ok);
        imbrex_drive_close(drive)
    }
}

fn check(path: &Path, layout: Option<&str>, expected: Status, says: &str) {
    let (status, _) = open(path, layout);
    assert_eq!(status, expected, "{}", last_error());
    assert!(last_error().contains(says), "{:?} does not say {says:?}", last_error());
}

#[test]
fn a_drive_that_cannot_be_opened_says_why() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    check(&at("none"), None, Status::NotFound, "create a drive there first");
    std::fs::write(at("text"), "no drive at all").unwrap();
    check(&at("text"), None, Status::Unsupported, "not an Imbrex drive image");
    make(&at("drive"), "leveled-zones");
    check(&at("drive"), Some("leveled-log"), Status::Unsupported, "leveled-zones");
    check(&at("drive"), Some("leveled-zone"), Status::Invalid, "leveled-zones");
    make_with(&at("store"), "leveled-zones", true);
    check(&at("store"), None, Status::Unsupported, "another store");
    let blank = SimDisk::builder(
        Geometry::new(GeometrySpec { len: Blocks::new(4096), rule: Rule::Anywhere }).unwrap(),
    );
    blank.create_image(&at("blank"), "", 1).unwrap();
    check(&at("blank"), None, Status::Unsupported, "it holds no data");
}

/// A damaged drive was reported to hold other content, and formatting it on that advice would have destroyed it.
#[test]
fn damage_is_distinguished_from_other_content() {
    let dir = tempfile::tempdir().unwrap();
    for is_store in [false, true] {
        let make = |name: &str| {
            let path = dir.path().join(format!("{name}, {is_store}"));
            make_with(&path, "leveled-first-fit", is_store);
            path
        };
        let check = |path: &Path, says: &str| {
            let status = match is_store {
                true => super::stores::open_store(path).0,
                false => open(path, None).0,
            };
            assert_eq!(status, Status::Corrupt, "{}: {}", path.display(), last_error());
            assert!(last_error().contains(says), "{:?} does not say {says:?}", last_error());
        };
        let path = make("catalog");
        let disk = SimDisk::open_image(&path, OpenOptions::default()).unwrap();
        // After the headers of both regions.
        [1, 257].into_iter().for_each(|block| disk.flip_bit(Lba::new(block), 9).unwrap());
        disk.flush().unwrap();
        drop(disk);
        check(&path, "catalog");

        let path = make("header");
        let image = File::options().read(true).write(true).open(&path).unwrap();
        let mut byte = [0];
        image.read_exact_at(&mut byte, 40).unwrap();
        // A single bit would be corrected.
        image.write_all_at(&[byte[0] ^ 3], 40).unwrap();
        drop(image);
        check(&path, "header is damaged");

        let path = make("cut");
        let image = File::options().write(true).open(&path).unwrap();
        image.set_len(image.metadata().unwrap().len() - 4096).unwrap();
        check(&path, "restore it from a copy");
    }
}

/// After a failed sync every later one reported a failed drive, instead of a poisoned one that must be opened again.
/// The first sync may report that too, if the failure happened earlier in the background.
#[test]
fn a_log_after_a_failed_sync_is_poisoned() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("drive");
    make(&path, "leveled-first-fit");
    for after_event_count in 0..20 {
        let failed = failed_syncs(&path, after_event_count);
        let ((first, _), (last, _)) = (&failed[0], &failed[2]);
        assert!(matches!(first, Status::Io | Status::Poisoned), "{after_event_count}: {first:?}");
        assert_eq!(*last, Status::Poisoned, "{after_event_count}");
        for (_, reason) in failed {
            assert!(reason.contains("no power"), "{after_event_count}: {reason:?}");
        }
    }
}

/// The statuses and messages of the first three failed syncs of a growing log, with a power cut after this many
/// events.
fn failed_syncs(path: &Path, after_event_count: u64) -> Vec<(Status, String)> {
    let path = CString::new(path.to_str().unwrap()).unwrap();
    let cut = PowerCut { after_event_count, seed: 1, cache_bytes: 1 << 20 };
    let (mut drive, mut writer) = (std::ptr::null_mut(), std::ptr::null_mut());
    let hints = Hints {
        kind: KIND_LOG,
        level: 0,
        may_use_reserve: 0,
        reserved: 0,
        stream: 0,
        group: 0,
        expected_len_bytes: 0,
    };
    let bytes = [7; 9_000];
    let mut failed = Vec::new();
    // SAFETY: strings, buffers and out parameters that live as long as the calls; handles that are open, and given
    // back once.
    unsafe {
        let layout = std::ptr::null();
        let status =
            imbrex_drive_open_for_power_cut(path.as_ptr(), layout, &raw const cut, &raw mut drive);
        assert_eq!(status, Status::Ok, "{}", last_error());
        let status =
            imbrex_writer_create(drive, c"/log".as_ptr(), &raw const hints, &raw mut writer);
        assert_eq!(status, Status::Ok, "{}", last_error());
        while failed.len() < 3 {
            imbrex_writer_append(writer, bytes.as_ptr(), bytes.len());
            let status = imbrex_writer_sync(writer);
            failed.extend((status != Status::Ok).then(|| (status, last_error())));
        }
        imbrex_writer_close(writer);
        imbrex_drive_close(drive);
    }
    failed
}

#[test]
fn a_process_shares_a_drive_and_keeps_others_away() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("drive");
    make(&path, "leveled-first-fit");
    let (status, one) = open(&path, None);
    assert_eq!(status, Status::Ok, "{}", last_error());
    let (status, two) = open(&path, Some("leveled-first-fit"));
    assert_eq!(status, Status::Ok, "{}", last_error());
    // Another process would meet the same error.
    let error = SimDisk::open_image(&path, Default::default()).unwrap_err();
    assert!(matches!(error, imbrex_disk_sim::ImageError::InUse { .. }), "{error}");
    // SAFETY: handles that are open, and given back once.
    unsafe {
        assert_eq!(imbrex_make_dir(one, c"/db".as_ptr(), false), Status::Ok);
        assert_eq!(imbrex_make_dir(two, c"db".as_ptr(), false), Status::Exists);
        assert_eq!(imbrex_make_dir(two, c"db".as_ptr(), true), Status::Ok);
        assert_eq!(imbrex_make_dir(two, std::ptr::null(), true), Status::Invalid);
        assert_eq!(imbrex_make_dir(std::ptr::null(), c"db".as_ptr(), true), Status::Invalid);
        assert_eq!(imbrex_drive_close(one), Status::Ok);
        assert_eq!(imbrex_drive_close(two), Status::Ok);
        assert_eq!(imbrex_drive_close(std::ptr::null_mut()), Status::Ok);
    }
    SimDisk::open_image(&path, Default::default()).unwrap();
}

/// A file synced before the power cut survives, and one that was not may survive. Until the image is opened again
/// every call fails.
#[test]
fn a_drive_that_loses_its_power() {
    let dir = tempfile::tempdir().unwrap();
    for after_event_count in 0..40 {
        let path = dir.path().join(format!("drive{after_event_count}"));
        make(&path, "leveled-zones");
        let cut = PowerCut { after_event_count, seed: after_event_count, cache_bytes: 1 << 20 };
        let c_path = CString::new(path.to_str().unwrap()).unwrap();
        let mut drive = std::ptr::null_mut();
        let mut synced = Vec::new();
        // SAFETY: strings, handles that are open, and out parameters that live as long as the call.
        unsafe {
            let (path, out) = (c_path.as_ptr(), &raw mut drive);
            let status =
                imbrex_drive_open_for_power_cut(path, std::ptr::null(), &raw const cut, out);
            assert_eq!(status, Status::Ok, "{}", last_error());
            let again =
                imbrex_drive_open_for_power_cut(path, std::ptr::null(), &raw const cut, out);
            assert_eq!(again, Status::Busy);
            for name in 0..50 {
                let name = CString::new(format!("{name}")).unwrap();
                if imbrex_make_dir(drive, name.as_ptr(), false) != Status::Ok
                    || imbrex_sync_names(drive) != Status::Ok
                {
                    break;
                }
                synced.push(name);
            }
            assert!(synced.len() < 50, "the power went long ago");
            assert_ne!(imbrex_sync_names(drive), Status::Ok);
            assert_ne!(imbrex_drive_close(drive), Status::Ok);
            let (status, drive) = open(&path_of(&c_path), None);
            assert_eq!(status, Status::Ok, "{}", last_error());
            for name in synced {
                assert_eq!(imbrex_make_dir(drive, name.as_ptr(), false), Status::Exists);
            }
            assert_eq!(imbrex_drive_close(drive), Status::Ok);
        }
    }
}

fn path_of(path: &CStr) -> std::path::PathBuf {
    path.to_str().unwrap().into()
}
