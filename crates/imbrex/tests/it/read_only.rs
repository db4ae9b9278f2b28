//! Stores that are only read: from files that may not be written, by several readers, after a writer that was cut off, and
//! without a trace on the drives.

use imbrex::emulated::Shape;
use imbrex::stack::{DrivePaths, FlashPath, PowerCut, Recording};
use imbrex::{ErrorKind, Layout, Options, Store};
use imbrex_clockwork::Runtime;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// One of each rule, with fixed bands and with a flash drive; `imbrex::stack` has the same for all layouts in memory.
const LAYOUTS: [&str; 7] = [
    "leveled-zones",
    "leveled-first-fit",
    "sealdb",
    "sets-banded",
    "imr-seq",
    "smrdb-offload",
    "imbrex-flash",
];

/// A store whose writer was cut off: the drives of one layout, and what they hold.
struct Left {
    _dir: tempfile::TempDir,
    main: PathBuf,
    flash: Option<PathBuf>,
}

fn shape(layout: Layout) -> Shape {
    let is_zoned = layout.recording() == Recording::Zoned;
    Shape {
        capacity_bytes: Some(512 << 20),
        zone_len_bytes: is_zoned.then_some(1 << 20),
        ..Shape::default()
    }
}

impl Left {
    fn by(layout: Layout) -> Left {
        let dir = tempfile::tempdir().unwrap();
        let flash = layout.takes_flash().then(|| dir.path().join("flash"));
        let left = Left { main: dir.path().join("main"), flash, _dir: dir };
        let store = left.options().layout(layout.name()).shape(shape(layout)).create(&left.main);
        store.unwrap().close().unwrap();

        let (runtime, flash) = (Runtime::threads(1), left.flash.clone());
        let cut = PowerCut { after_event_count: 150, seed: 3, cache_bytes: 1 << 20 };
        let paths = DrivePaths {
            flash: flash.map_or(FlashPath::NotNamed, FlashPath::At),
            power_cut: Some(cut),
            ..DrivePaths::of(&left.main)
        };
        let stack = paths.find().unwrap().open(&runtime, |_| ()).unwrap();
        let keys = stack.db.default_keyspace();
        let write = |key: u32| {
            keys.put(key.to_be_bytes(), key.to_le_bytes().repeat(100))?;
            if key.is_multiple_of(10) { stack.db.sync() } else { Ok(()) }
        };
        assert!((0..100_000).any(|key| write(key).is_err()), "{layout}: the power did not fail");
        left
    }

    fn options(&self) -> Options {
        match &self.flash {
            Some(flash) => Options::new().flash(flash),
            None => Options::new(),
        }
    }

    fn files(&self) -> impl Iterator<Item = &Path> {
        std::iter::once(self.main.as_path()).chain(self.flash.as_deref())
    }

    fn set_mode(&self, mode: u32) {
        self.files()
            .for_each(|file| fs::set_permissions(file, Permissions::from_mode(mode)).unwrap());
    }

    /// The bytes of all files, as a checksum, and the times of their last change.
    fn state(&self) -> Vec<(u32, SystemTime)> {
        let state = |file: &Path| {
            let sum = crc32c::crc32c(&fs::read(file).unwrap());
            (sum, fs::metadata(file).unwrap().modified().unwrap())
        };
        self.files().map(state).collect()
    }
}

fn entries(store: &Store) -> Vec<(Vec<u8>, Vec<u8>)> {
    let entries = store.range::<&str>(..).unwrap().map(Result::unwrap);
    entries.map(|(key, value)| (key.to_vec(), value.to_vec())).collect()
}

#[test]
fn a_store_that_was_cut_off_is_read_by_many_and_backed_up_without_a_trace() {
    for layout in LAYOUTS.map(|name| Layout::by_name(name).unwrap()) {
        let left = Left::by(layout);
        left.set_mode(0o444);
        let before = left.state();
        let refused = left.options().open(&left.main).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::NotPermitted, "{layout}: {refused}");

        let first = left.options().open_read_only(&left.main).unwrap();
        let second = left.options().open_read_only(&left.main).unwrap();
        let seen = entries(&first);
        assert!(seen.len() >= 10, "{layout}: {}", seen.len());
        assert!(seen == entries(&second), "{layout}: two readers see the same");
        for error in [
            first.put("a", "b").unwrap_err(),
            first.flush().unwrap_err(),
            first.checkpoint("now").unwrap_err(),
            first.compact().unwrap_err(),
        ] {
            assert_eq!(error.kind(), ErrorKind::ReadOnly, "{layout}: {error}");
            assert!(error.to_string().contains("open for reading only"), "{error}");
        }
        let copy = left.main.with_extension("copy");
        let zones = Layout::by_name("leveled-zones").unwrap();
        let target = Options::new().layout(zones.name()).shape(shape(zones));
        first.backup_to(&copy, &target).unwrap();
        assert!(entries(&imbrex::open(&copy).unwrap()) == seen, "{layout}: the backup is another");

        // Readers keep a writer out.
        left.set_mode(0o644);
        let refused = left.options().open(&left.main).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::InUse, "{layout}: {refused}");
        first.close().unwrap();
        drop(second);
        assert_eq!(left.state(), before, "{layout}");

        // A real recovery finds the same, and keeps readers out.
        let store = left.options().open(&left.main).unwrap();
        assert!(entries(&store) == seen, "{layout}: a writer sees other entries");
        let refused = left.options().open_read_only(&left.main).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::InUse, "{layout}: {refused}");
    }
}
