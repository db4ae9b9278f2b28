//! Copies during a load, of every kind of drive.

use super::*;
use crate::emulated::Shape;
use crate::stack::{DrivePaths, FlashPath, Recording};
use crate::{Layout, Options, Store};
use imbrex_clockwork::Crew;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// One of each rule, with fixed bands, and with a flash drive.
pub(crate) const LAYOUTS: [&str; 7] = [
    "leveled-zones",
    "leveled-first-fit",
    "sealdb",
    "sets-banded",
    "imr-seq",
    "smrdb-offload",
    "imbrex-flash",
];

/// The drives of one layout in a directory.
pub(crate) struct Place {
    pub(crate) main: PathBuf,
    pub(crate) flash: Option<PathBuf>,
    layout: Layout,
}

impl Place {
    pub(crate) fn new(dir: &Path, name: &str, layout: Layout) -> Place {
        let flash = layout.takes_flash().then(|| dir.join(format!("{name}.flash")));
        Place { main: dir.join(name), flash, layout }
    }

    pub(crate) fn create(&self) -> Store {
        let is_zoned = self.layout.recording() == Recording::Zoned;
        let shape = Shape {
            capacity_bytes: Some(512 << 20),
            zone_len_bytes: is_zoned.then_some(1 << 20),
            ..Shape::default()
        };
        self.options().layout(self.layout.name()).shape(shape).create(&self.main).unwrap()
    }

    fn options(&self) -> Options {
        match &self.flash {
            Some(flash) => Options::new().flash(flash),
            None => Options::new(),
        }
    }

    pub(crate) fn paths(&self) -> DrivePaths {
        let flash = self.flash.clone().map_or(FlashPath::NotNamed, FlashPath::At);
        DrivePaths { flash, ..DrivePaths::of(&self.main) }
    }

    fn restore(&self, source: &Path) -> Result<RestoreReport, Error> {
        restore_to(source, None, &self.paths().find()?, false, &mut |_| ControlFlow::Continue(()))
    }

    pub(crate) fn open(&self) -> Store {
        self.options().open(&self.main).unwrap()
    }
}

pub(crate) fn value(key: u64) -> Vec<u8> {
    key.to_le_bytes().repeat(40)
}

/// Checks that `store` has the keys from 0 up to some key, and returns how many.
#[track_caller]
pub(crate) fn prefix_len(store: &Store) -> u64 {
    let mut count = 0_u64;
    for entry in store.range::<&[u8]>(..).unwrap() {
        let (key, got) = entry.unwrap();
        assert_eq!(key[..], count.to_be_bytes(), "a gap");
        assert_eq!(got[..], value(count));
        count += 1;
    }
    count
}

/// A copy has the files that only hold values, and a second copy those that are new.
#[test]
fn values_that_are_apart_are_copied_and_restored() {
    let dir = tempfile::tempdir().unwrap();
    let layout = Layout::by_name("imbrex-zones").unwrap();
    let [source, restored] =
        ["source", "restored"].map(|name| Place::new(dir.path(), name, layout));
    let tune = |options: &mut imbrex_engine::Options| {
        options.memtable_len_bytes = 1 << 20;
        options.keyspace.values_apart_from_bytes = 10_000;
    };
    let shape = Shape { capacity_bytes: Some(512 << 20), ..Shape::default() };
    let store = source.options().engine(tune).shape(shape).create(&source.main).unwrap();
    let long = |key: u32, round: u32| (key ^ (round << 16)).to_le_bytes().repeat(8000);
    let target = dir.path().join("copies");
    for round in 0..2 {
        for key in (0..200_u32).filter(|key| round == 0 || key % 3 == 0) {
            store.put(key.to_be_bytes(), long(key, round)).unwrap();
        }
        store.compact().unwrap();
        store.backup(&target, &BackupOptions::default()).unwrap();
    }
    let apart = store.metrics().keyspaces[0].values_apart;
    assert!(apart.file_count > 0, "{apart:?}");
    store.close().unwrap();
    let found = copies(&target, true, &mut |_| ControlFlow::Continue(())).unwrap();
    assert!(found.iter().all(|copy| copy.findings.is_empty()), "{found:?}");
    restored.create().close().unwrap();
    let report = restored.restore(&target).unwrap();
    assert!(!report.by_entries, "{report:?}");
    let store = restored.open();
    for key in 0..200_u32 {
        let expected = long(key, u32::from(key % 3 == 0));
        assert_eq!(store.get(key.to_be_bytes()).unwrap().as_deref(), Some(&expected[..]), "{key}");
    }
    assert!(store.stack().db.check().unwrap().is_sound());
    store.close().unwrap();
}

/// B1: a copy made while another thread writes has all that was acknowledged before, and no gap.
#[test]
fn a_copy_during_a_load_is_of_one_moment() {
    for layout in LAYOUTS {
        let layout = Layout::by_name(layout).unwrap();
        let dir = tempfile::tempdir().unwrap();
        let source = Place::new(dir.path(), "source", layout);
        let target = dir.path().join("copies");
        let store = source.create();
        let (written, is_over) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        let crew = Crew::new();
        let (writer, count, over) = (store.clone(), Arc::clone(&written), Arc::clone(&is_over));
        let load = move || {
            for key in 0..200_000_u64 {
                if over.load(Ordering::Acquire) {
                    break;
                }
                writer.put(key.to_be_bytes(), value(key)).unwrap();
                count.store(key + 1, Ordering::Release);
            }
        };
        crew.start("load", load).unwrap();
        let mut before = Vec::new();
        for round in 1..=3 {
            while written.load(Ordering::Acquire) < 2000 * round {
                std::thread::yield_now();
            }
            before.push(written.load(Ordering::Acquire));
            let report = store.backup(&target, &BackupOptions::default()).unwrap();
            assert_eq!(report.number, round, "{layout}");
        }
        is_over.store(true, Ordering::Release);
        assert!(crew.wait_idle(Duration::from_secs(60)) && crew.panics().is_empty());
        let after = written.load(Ordering::Acquire);
        store.close().unwrap();
        let found = copies(&target, true, &mut |_| ControlFlow::Continue(())).unwrap();
        assert!(found.iter().all(|copy| copy.findings.is_empty()), "{layout}: {found:?}");

        let restored = Place::new(dir.path(), "restored", layout);
        restored.create().close().unwrap();
        let report = restored.restore(&target).unwrap();
        assert!(!report.by_entries && report.table_count > 0, "{layout}: {report:?}");
        let store = restored.open();
        let len = prefix_len(&store);
        assert!((before[2]..=after).contains(&len), "{layout}: {len} of {before:?} to {after}");
        store.put("more", "1").unwrap();
        store.compact().unwrap();
        assert_eq!(store.get("more").unwrap().as_deref(), Some(&b"1"[..]));
        store.close().unwrap();
    }
}

/// B3, B5: stopped after any piece, both sides are whole, and the next run continues.
#[test]
fn a_run_that_is_stopped_anywhere_leaves_both_sides_whole() {
    let layout = Layout::by_name("leveled-zones").unwrap();
    let dir = tempfile::tempdir().unwrap();
    let source = Place::new(dir.path(), "source", layout);
    let target = dir.path().join("copies");
    let store = source.create();
    let store_id = imbrex_files::Files::format_id(&store.stack().files);
    for key in 0..3000_u64 {
        store.put(key.to_be_bytes(), value(key)).unwrap();
        if key % 1000 == 999 {
            store.flush().unwrap();
        }
    }
    let backup = |ask_count: u64| {
        let mut count = 0;
        let mut watch = |_| {
            count += 1;
            if count > ask_count { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        let db = &store.stack().db;
        backup_db(db, store_id, layout, &target, &BackupOptions::default(), &mut watch)
    };
    let mut ask_count = 0;
    let report = loop {
        match backup(ask_count) {
            Ok(report) => break report,
            Err(error) => assert_eq!(error.kind(), ErrorKind::Stopped, "{error}"),
        }
        let found = copies(&target, true, &mut |_| ControlFlow::Continue(())).unwrap();
        assert!(found.is_empty(), "a copy exists only if it is whole");
        ask_count += 1;
        assert!(ask_count < 1000);
    };
    assert!(ask_count > 3, "it was stopped in the middle");
    assert_eq!(report.number, 1);
    assert!(report.written_table_count < report.table_count, "it continued: {report:?}");
    store.close().unwrap();

    let restored = Place::new(dir.path(), "restored", layout);
    restored.create().close().unwrap();
    let mut ask_count = 0;
    loop {
        let mut count = 0;
        let mut watch = |_| {
            count += 1;
            if count > ask_count { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        let drives = DrivePaths::of(&restored.main).find().unwrap();
        let result = restore_to(&target, None, &drives, false, &mut watch);
        drop(drives);
        let store = restored.open();
        let len = prefix_len(&store);
        store.close().unwrap();
        match result {
            Ok(report) => {
                assert_eq!(report.entry_count, 3000);
                assert_eq!(len, 3000);
                break;
            }
            // It was stopped during the check of what was restored.
            Err(_) if len == 3000 => {
                restored.create_again();
            }
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Stopped, "{error}");
                assert_eq!(len, 0);
            }
        }
        ask_count += 1;
        assert!(ask_count < 1000);
    }
    assert!(ask_count > 3, "it was stopped in the middle");
}

impl Place {
    /// An empty store in its place.
    fn create_again(&self) {
        std::fs::remove_file(&self.main).unwrap();
        self.create().close().unwrap();
    }
}
