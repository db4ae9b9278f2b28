//! Every layout after a power cut, opened over overlays: the drives keep every bit, and reads return what a real recovery
//! would leave.

use super::*;
use imbrex_disk::Overlay;

type Entries = Vec<(Vec<u8>, Vec<u8>)>;

/// Drives in memory that lose their unflushed writes.
struct Stage {
    main: Arc<SimDisk>,
    flash: Option<Arc<SimDisk>>,
}

impl Stage {
    fn new(layout: Layout) -> Stage {
        let disk = |geometry| {
            let builder = SimDisk::builder(geometry).write_cache(Blocks::new(48));
            Arc::new(builder.memory().unwrap())
        };
        let flash = layout.takes_flash().then(|| disk(*small_flash().geometry()));
        Stage { main: disk(small_geometry(layout.recording())), flash }
    }

    fn drives(&self) -> Drives {
        let drives = Drives::from(Arc::clone(&self.main));
        match &self.flash {
            Some(flash) => drives.with_flash(Arc::clone(flash) as Arc<dyn Disk>),
            None => drives,
        }
    }

    fn hashes(&self) -> Vec<u64> {
        let disks = std::iter::once(&self.main).chain(&self.flash);
        disks.map(|disk| disk.image_hash().unwrap()).collect()
    }

    /// Writes until the power of the main drive fails after `event_count` events, and turns it on again.
    fn write_until_cut(&self, stack: Stack, event_count: u64) {
        let cut = FaultPlan { power_cut_after: Some(event_count), ..FaultPlan::default() };
        self.main.set_faults(cut);
        let keys = stack.db.default_keyspace();
        let mut round = 0_u32;
        'writing: loop {
            for key in 0..400_u32 {
                let value = [round.to_le_bytes(), key.to_le_bytes()].concat().repeat(60);
                let key = key.wrapping_mul(2_654_435_761).to_be_bytes();
                let put = keys.put(key, value).and_then(|()| match round % 3 {
                    0 => stack.db.sync(),
                    _ => Ok(()),
                });
                if put.is_err() {
                    break 'writing;
                }
            }
            round += 1;
            assert!(round < 1000, "the power never failed");
        }
        drop(keys);
        drop(stack);
        for disk in std::iter::once(&self.main).chain(&self.flash) {
            disk.power_cycle(&mut Prng::new(event_count)).unwrap();
        }
    }
}

fn entries(stack: Stack) -> Entries {
    let keys = stack.db.default_keyspace();
    let mut iter = keys.iter(Default::default()).unwrap();
    iter.seek_to_first().unwrap();
    let mut entries = Entries::new();
    while iter.valid() {
        entries.push((iter.key().to_vec(), iter.value().to_vec()));
        iter.next().unwrap();
    }
    drop((iter, keys));
    stack.close().unwrap();
    entries
}

#[test]
fn a_drive_that_is_only_read_keeps_every_bit_whatever_recovery_has_to_mend() {
    let mut mended = std::collections::BTreeSet::new();
    for layout in Layout::all() {
        // Chosen so that fixed bands and interlaced tracks are cut in the middle of a rewrite.
        for event_count in [428, 1188, 1965] {
            let stage = Stage::new(layout);
            let recipe = layout.recipe(stage.main.geometry()).shrunk(64);
            let stack = layout.format_with(stage.drives(), &runtime(), &recipe, 7).unwrap();
            stage.write_until_cut(stack, event_count);

            let before = stage.hashes();
            let main = Arc::new(Overlay::new(Arc::clone(&stage.main) as Arc<dyn Disk>));
            let mut drives = Drives::from(Arc::clone(&main));
            if let Some(flash) = &stage.flash {
                drives = drives.with_flash(Arc::new(Overlay::new(Arc::clone(flash) as _)));
            }
            let options = Options { open_mode: OpenMode::ReadOnly, ..recipe.options.clone() };
            let stack = mount(drives, &runtime()).unwrap().open_db(&runtime(), options).unwrap();
            stack.db.check().unwrap();
            let seen = entries(stack);
            assert_eq!(stage.hashes(), before, "{layout}, cut at {event_count}");
            if main.written_bytes() > 0 {
                mended.insert(layout.recording());
            }

            let stack = mount(stage.drives(), &runtime()).unwrap();
            let stack = stack.open_db(&runtime(), recipe.options).unwrap();
            let recovered = entries(stack);
            assert!(seen == recovered, "{layout}, cut at {event_count}: other entries");
            assert!(!seen.is_empty(), "{layout}, cut at {event_count}");
        }
    }
    // Recovery below the files writes on these, so the overlay was needed.
    assert!(mended.contains(&Recording::Shingled) && mended.contains(&Recording::Interlaced));
}
