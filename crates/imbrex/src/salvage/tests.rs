//! Stores of every layout whose catalog is gone in both copies.

use super::*;
use crate::stack::opening::open_at;
use crate::stack::{Layout, Recording, Stack};
use imbrex_clockwork::{Order, Prng};
use imbrex_disk::{
    BLOCK_LEN_BYTES, BlockRange, Blocks, Geometry, GeometrySpec, Lba, NeighbourSpec, Rule,
    ShingleSpec,
};
use imbrex_disk_sim::SimDisk;
use imbrex_engine::{KeyspaceOptions, ReadOptions};
use std::collections::BTreeMap;

type Map = BTreeMap<Vec<u8>, Vec<u8>>;

const OTHER: &str = "other";

const VALUE_LEN_BYTES: usize = 400;

/// How a header is damaged.
#[derive(Clone, Copy)]
enum Damage {
    Unreadable,
    TwoBits,
}

fn drive(recording: Recording) -> Arc<SimDisk> {
    match recording {
        Recording::Conventional => Arc::new(SimDisk::tiny_conventional(Blocks::new(16 << 10))),
        Recording::Zoned => Arc::new(SimDisk::tiny_zoned(64, Blocks::new(256))),
        Recording::Interlaced => Arc::new(SimDisk::tiny_interlaced(
            Blocks::new(16 << 10),
            NeighbourSpec { bottom_track_len: Blocks::new(20), top_track_len: Blocks::new(16) },
        )),
        Recording::Shingled => {
            let shingle = ShingleSpec { track_len: Blocks::new(16), overlap_tracks: 4 };
            let rule = Rule::IsolationDistance(shingle);
            let spec = GeometrySpec { len: Blocks::new(16 << 10), rule };
            Arc::new(SimDisk::builder(Geometry::new(spec).unwrap()).memory().unwrap())
        }
    }
}

fn runtime() -> Runtime {
    Runtime::virtual_time(Order::SmallestTime).0
}

/// A drive of a layout, perhaps with a flash drive, and what its store holds.
struct Subject {
    layout: Layout,
    main: Arc<SimDisk>,
    flash: Option<Arc<SimDisk>>,
    maps: BTreeMap<String, Map>,
}

impl Subject {
    /// Values of `value_len_bytes` that do not compress.
    fn build(layout: Layout, value_len_bytes: usize) -> Subject {
        let main = drive(layout.recording());
        let flash = layout.takes_flash().then(|| drive(Recording::Conventional));
        let mut subject = Subject { layout, main, flash, maps: BTreeMap::new() };
        let recipe = layout.recipe(subject.main.geometry()).shrunk(64);
        let stack = layout.format_with(subject.drives(), &runtime(), &recipe, 7).unwrap();
        subject.fill(&stack, value_len_bytes);
        stack.close().unwrap();
        subject
    }

    fn drives(&self) -> Drives {
        let drives = Drives::from(Arc::clone(&self.main));
        match &self.flash {
            Some(flash) => drives.with_flash(Arc::clone(flash) as Arc<dyn Disk>),
            None => drives,
        }
    }

    fn fill(&mut self, stack: &Stack, value_len_bytes: usize) {
        let mut prng = Prng::new(7);
        stack.db.create_keyspace(OTHER, KeyspaceOptions::default()).unwrap();
        for (name, count) in [("default", 900_u32), (OTHER, 300)] {
            let keyspace = stack.db.keyspace(name).unwrap();
            let map = self.maps.entry(name.to_owned()).or_default();
            for round in 0..4_u32 {
                for n in 0..count {
                    let key = (n * 7 % count).to_be_bytes().to_vec();
                    if n % 5 == round {
                        keyspace.delete(&key).unwrap();
                        map.remove(&key);
                        continue;
                    }
                    let mut value = vec![0; value_len_bytes];
                    prng.fill(&mut value);
                    keyspace.put(&key, &value).unwrap();
                    map.insert(key, value);
                }
                let (from, upto) = ((round * 50).to_be_bytes(), (round * 50 + 20).to_be_bytes());
                keyspace.delete_range(&from[..]..&upto[..]).unwrap();
                map.retain(|key, _| key[..] < from[..] || upto[..] <= key[..]);
                match round {
                    1 => keyspace.compact_range(None, None).unwrap(),
                    2 => stack.db.wait_idle().unwrap(),
                    _ => {}
                }
            }
        }
        stack.db.sync().unwrap();
    }

    /// Damages the headers of all catalogs, in both copies.
    fn lose_catalog(&self, damage: Damage) {
        for disk in std::iter::once(&self.main).chain(&self.flash) {
            let mut count = 0;
            for at in (0..disk.geometry().len().get()).map(Lba::new) {
                let mut block = vec![0; BLOCK_LEN_BYTES];
                if disk.read(at, &mut block).is_err() || !block.starts_with(b"IMBXCAT\n") {
                    continue;
                }
                count += 1;
                match damage {
                    Damage::Unreadable => disk.damage(BlockRange::new(at, Blocks::new(1))),
                    // One bit would be corrected.
                    Damage::TwoBits => {
                        for bit in [8 * 12, 8 * 17 + 3] {
                            disk.flip_bit(at, bit).unwrap();
                        }
                    }
                }
            }
            assert!(count >= 2, "{}: {count} headers", self.layout);
        }
        let (runtime, _world) = Runtime::virtual_time(Order::SmallestTime);
        let mounted = mount_at(Path::new("disk"), self.drives(), None, &runtime);
        let refused = Error::from(mounted.unwrap_err());
        assert_eq!(refused.kind(), ErrorKind::Damaged, "{}: {refused}", self.layout);
    }

    fn salvage(&self, target: &Db, options: &SalvageOptions) -> Result<SalvageReport, Error> {
        let mut watch = |_| ControlFlow::Continue(());
        salvage_drives(Path::new("disk"), &|| self.drives(), target, options, &mut watch)
    }

    fn check(&self, target: &Db) {
        for (name, map) in &self.maps {
            let found = all(target, name);
            assert_eq!(found.len(), map.len(), "{}: {name}", self.layout);
            assert!(found == *map, "{}: {name}", self.layout);
        }
    }
}

fn all(db: &Db, keyspace: &str) -> Map {
    let mut iter = db.keyspace(keyspace).unwrap().iter(ReadOptions::default()).unwrap();
    let mut found = Map::new();
    iter.seek_to_first().unwrap();
    while iter.valid() {
        found.insert(iter.key().to_vec(), iter.value().to_vec());
        iter.next().unwrap();
    }
    found
}

fn target() -> Stack {
    let layout = Layout::by_name("leveled-zones").unwrap();
    layout.format(drive(Recording::Zoned), &runtime()).unwrap()
}

#[test]
fn every_layout_is_salvaged_without_its_catalog() {
    let mut superseded_count = 0;
    for (number, layout) in Layout::all().enumerate() {
        let subject = Subject::build(layout, VALUE_LEN_BYTES);
        subject.lose_catalog(if number % 2 == 0 { Damage::Unreadable } else { Damage::TwoBits });
        let to = target();
        let report = subject.salvage(&to.db, &SalvageOptions::default()).unwrap();
        assert!(report.no_catalog.is_some(), "{layout}");
        assert!(report.is_whole(), "{layout}: {report:?}");
        subject.check(&to.db);
        superseded_count += report.found.unwrap().superseded_table_count;
        to.close().unwrap();
    }
    // Some layouts have overwritten all of theirs.
    assert!(superseded_count > 100, "{superseded_count} dead tables");
}

#[test]
fn a_catalog_that_can_be_read_is_used() {
    let subject = Subject::build(Layout::by_name("leveled-first-fit").unwrap(), VALUE_LEN_BYTES);
    let to = target();
    let report = subject.salvage(&to.db, &SalvageOptions::default()).unwrap();
    assert_eq!((report.no_catalog.as_deref(), report.found.as_ref()), (None, None));
    assert!(report.is_whole());
    subject.check(&to.db);
    // The target holds entries now.
    let refused = subject.salvage(&to.db, &SalvageOptions::default()).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::AlreadyExists, "{refused}");
    let options = SalvageOptions { add: true, ignore_catalog: true, ..SalvageOptions::default() };
    let report = subject.salvage(&to.db, &options).unwrap();
    assert!(report.found.is_some());
    subject.check(&to.db);
    to.close().unwrap();
}

#[test]
fn a_target_that_is_too_small_says_how_much_is_needed() {
    let layout = Layout::by_name("leveled-first-fit").unwrap();
    let subject = Subject::build(layout, 5000);
    let live_bytes: u64 = subject.maps.values().flatten().map(|(_, v)| v.len() as u64).sum();
    let small = Arc::new(SimDisk::tiny_conventional(Blocks::new(800)));
    assert!(small.geometry().len().bytes() < live_bytes);
    for has_catalog in [true, false] {
        if !has_catalog {
            subject.lose_catalog(Damage::Unreadable);
        }
        let recipe = layout.recipe(small.geometry()).shrunk(64);
        let to = layout.format_with(Arc::clone(&small), &runtime(), &recipe, 9).unwrap();
        let full = subject.salvage(&to.db, &SalvageOptions::default()).unwrap_err();
        assert_eq!(full.kind(), ErrorKind::NoSpace, "{full}");
        let text = full.to_string();
        let needed = text.split("may take ").nth(1).and_then(|rest| rest.split(' ').next());
        let needed_bytes: u64 = needed.unwrap().parse().unwrap();
        assert!((live_bytes..2 * live_bytes).contains(&needed_bytes), "{live_bytes}: {text}");
        to.close().unwrap();

        // What was written is a store, and the report counts it.
        let mounted = mount_at(Path::new("target"), Arc::clone(&small).into(), None, &runtime());
        let to = open_at(Path::new("target"), mounted.unwrap(), &runtime(), |_| ()).unwrap();
        let found = all(&to.db, "default");
        assert!(!found.is_empty());
        let map = &subject.maps["default"];
        assert!(found.iter().all(|(key, value)| map.get(key) == Some(value)));
        assert!(text.contains(&format!("full after {} entries", found.len())), "{text}");
        to.close().unwrap();
    }
}

#[test]
fn a_drive_without_a_store_is_refused() {
    let blank = Arc::new(SimDisk::tiny_conventional(Blocks::new(1024)));
    let to = target();
    let mut watch = |_| ControlFlow::Continue(());
    let options = SalvageOptions { ignore_catalog: true, ..SalvageOptions::default() };
    for options in [SalvageOptions::default(), options] {
        let drives = || Drives::from(Arc::clone(&blank));
        let refused = salvage_drives(Path::new("disk"), &drives, &to.db, &options, &mut watch);
        assert_eq!(refused.unwrap_err().kind(), ErrorKind::NotAStore);
    }
    to.close().unwrap();
}
