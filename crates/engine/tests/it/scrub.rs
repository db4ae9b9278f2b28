//! Damaged tables that are replaced, while the power fails.

use crate::stage::{Stage, key, seeded, small};
use imbrex_clockwork::Prng;
use imbrex_disk_sim::FaultPlan;
use imbrex_engine::{MendedFrom, mend_table};
use imbrex_files::{FileInfo, Files};

fn tables(files: &dyn Files) -> Vec<FileInfo> {
    files.list("").into_iter().filter(|file| file.name.ends_with(".tbl")).collect()
}

/// The bytes of a file, if all of it can be read.
fn content(files: &dyn Files, table: &FileInfo) -> Option<Vec<u8>> {
    let file = files.open(&table.name).unwrap();
    let mut scratch = Vec::new();
    file.read_at(0, table.len_bytes as usize, &mut scratch).ok().map(<[u8]>::to_vec)
}

/// The number of tables that a scrub finds damaged.
fn damaged_count(stage: &Stage) -> usize {
    let db = stage.reopen(small()).unwrap();
    let mut count = 0;
    let mut scrubbed = |table: imbrex_engine::ScrubbedTable| {
        count += usize::from(!table.findings.is_empty());
    };
    let mut watch = |_| std::ops::ControlFlow::Continue(());
    db.scrub_with(0, &mut watch, &mut scrubbed).unwrap();
    db.close().unwrap();
    count
}

/// R2: whichever name the power cut came before, the next scrub finds what is still damaged.
#[test]
fn a_table_with_several_names_is_mended_whenever_the_power_fails() {
    let mut half_count = 0;
    for power_cut_after in (0..).map(Some) {
        let stage = seeded(96, 5);
        let db = stage.create(small());
        (0..20).for_each(|n| db.default_keyspace().put(key(n), [7; 100]).unwrap());
        db.checkpoint("one").unwrap();
        db.checkpoint("two").unwrap();
        db.close().unwrap();
        let files = stage.mount();
        let named = tables(&*files);
        assert_eq!(named.len(), 3, "{named:?}");
        let whole = content(&*files, &named[0]).unwrap();
        named[0].extents.iter().for_each(|&extent| stage.disk.damage(extent));
        let own = named.iter().find(|table| !table.name.contains('/')).unwrap();
        let id = own.name.trim_end_matches(".tbl").parse().unwrap();

        stage.disk.set_faults(FaultPlan { power_cut_after, ..FaultPlan::default() });
        let is_done = mend_table(&*files, id, &mut |_| vec![whole.clone()]).is_ok();
        stage.disk.set_faults(FaultPlan::default());
        stage.disk.cut_power();
        stage.world.drop_jobs();
        drop(files);
        stage.disk.power_cycle(&mut Prng::new(power_cut_after.unwrap())).unwrap();

        let sound_count = || {
            let files = stage.mount();
            tables(&*files)
                .iter()
                .filter(|t| content(&*files, t).is_some_and(|c| c == whole))
                .count()
        };
        let before = sound_count();
        half_count += usize::from(0 < before && before < 3);
        assert_eq!(damaged_count(&stage), usize::from(before < 3), "{power_cut_after:?}");
        let mended = mend_table(&*stage.mount(), id, &mut |_| vec![whole.clone()]).unwrap();
        let expected = if before < 3 { MendedFrom::Elsewhere } else { MendedFrom::Nothing };
        assert_eq!((mended, sound_count()), (Some(expected), 3), "{power_cut_after:?}");
        if is_done {
            break;
        }
    }
    assert!(half_count > 0, "no cut came between two names");
}
