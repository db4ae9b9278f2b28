use super::*;
use imbrex::Layout;
use imbrex_watch::{Activities, Scene};
use std::collections::BTreeMap;

fn spec(layouts: &[&str]) -> LabSpec {
    LabSpec {
        layouts: layouts.iter().map(|name| Layout::by_name(name).unwrap()).collect(),
        capacity_bytes: 256 << 20,
        live_percent: 30,
        value_len_bytes: 4000,
        work: LabWork::Overwrite,
        arrivals: LabArrivals::Closed,
        sync_every: 50,
        seed: 1,
    }
}

/// A laboratory, and the scenes of its stores after the time `until_ns`.
fn run(spec: &LabSpec, until_ns: u64) -> (Lab, BTreeMap<u32, Scene>) {
    let mut scenes = BTreeMap::new();
    let mut sink = |line: &Line| Scene::apply_to(&mut scenes, line);
    let mut lab = Lab::new(spec, &mut sink).unwrap();
    lab.run_until(until_ns, &mut sink);
    (lab, scenes)
}

#[test]
fn stores_work_side_by_side_and_the_same_specification_gives_the_same_frames() {
    let spec = spec(&["imbrex-zones", "sealdb", "imr-m"]);
    let (lab, scenes) = run(&spec, 5_000_000_000);
    assert!(!lab.is_at_rest() && lab.now_ns() >= 5_000_000_000);
    assert_eq!(scenes.len(), 3);
    for scene in scenes.values() {
        assert!(scene.frame_count > 10, "{} frames", scene.frame_count);
        assert!(scene.last.store.user_ops > 1_000, "{:?}", scene.last.store);
        let drive = scene.last.drive;
        assert!(drive.busy_ns > 0 && drive.transfer_ns > 0 && drive.head_block.is_some());
        let served = drive.activities.each().map(|(_, own)| own);
        assert_eq!(served.iter().map(|own| own.busy_ns).sum::<u64>(), drive.busy_ns);
        assert_eq!(served.iter().map(|own| own.written_bytes).sum::<u64>(), drive.written_bytes);
        let Activities { log, flush, compaction, catalog, .. } = drive.activities;
        for own in [log, flush, compaction, catalog] {
            assert!(own.busy_ns > 0 && own.written_bytes > 0, "{:?}", drive.activities);
        }
        let live: u64 = scene.cells(64).iter().map(|cell| cell.all_live_blocks()).sum();
        assert!(live * 4096 >= scene.last.now.live_bytes / 2, "the map shows the live files");
    }
    let (_, again) = run(&spec, 5_000_000_000);
    for (id, scene) in &scenes {
        assert_eq!(scene.last, again[id].last, "B1");
    }
}

/// B3: what the laboratory says of a power cut, it has read back.
#[test]
fn after_a_power_cut_nothing_synced_is_lost_and_the_work_goes_on() {
    let (mut lab, mut scenes) =
        run(&spec(&["imbrex-zones", "leveled-zones", "imr-fullest"]), 2_000_000_000);
    let mut sink = |line: &Line| Scene::apply_to(&mut scenes, line);
    for _ in 0..3 {
        let told = lab.cut_power(&mut sink).unwrap();
        assert_eq!(told.len(), 3);
        for line in &told {
            assert!(line.contains("without a gap") && !line.contains("DATA LOST"), "{line}");
        }
        let until_ns = lab.now_ns() + 500_000_000;
        lab.run_until(until_ns, &mut sink);
    }
    assert!(!lab.is_at_rest());
    // Totals go on over an opening, as the drive's do.
    let loaded = |scene: &Scene| scene.last.store.user_bytes <= scene.last.drive.written_bytes;
    assert!(scenes.values().all(|scene| scene.last.store.user_ops > 1_000 && loaded(scene)));
}

/// B3 can fail: a book that claims more than was written finds the difference.
#[test]
fn a_store_that_loses_a_synced_write_is_found_out() {
    let (mut lab, _) = run(&spec(&["imbrex-zones"]), 1_000_000_000);
    lab.stands[0].claim_another_write_of_each_synced_key();
    let told = lab.cut_power(&mut |_| ()).unwrap();
    assert!(told[0].contains("DATA LOST"), "{told:?}");
}

/// B2: a drive that is too full refuses and says so.
#[test]
fn a_store_that_refuses_tells_why_and_rests() {
    let spec = LabSpec { live_percent: 95, ..spec(&["gear"]) };
    let mut scenes = BTreeMap::new();
    let mut sink = |line: &Line| Scene::apply_to(&mut scenes, line);
    let mut lab = Lab::new(&spec, &mut sink).unwrap();
    for step in 1..=60 {
        lab.run_until(step * 10_000_000_000, &mut sink);
        if lab.stands[0].is_at_rest() {
            break;
        }
    }
    let note = scenes[&0].last.note.clone().unwrap_or_default();
    assert!(note.contains("the store refuses") && note.contains("space"), "{note}");
    assert!(lab.is_at_rest());
}

#[test]
fn operations_that_come_slowly_leave_the_drive_idle() {
    let arrivals = LabArrivals::Constant(100);
    let spec = LabSpec { live_percent: 2, arrivals, ..spec(&["imbrex-zones"]) };
    let (_, scenes) = run(&spec, 30_000_000_000);
    let scene = &scenes[&0];
    let ops = scene.last.store.user_ops - scene.before.store.user_ops;
    let s = (scene.last.at_ns - scene.before.at_ns) as f64 / 1e9;
    assert!((80.0..120.0).contains(&(ops as f64 / s)), "{ops} operations in {s} s");
    assert!(scene.last.drive.busy_ns * 2 < scene.last.at_ns, "{:?}", scene.last.drive);
}

#[test]
fn what_cannot_be_is_refused_with_what_can() {
    let cases = [
        (LabSpec { layouts: Vec::new(), ..spec(&[]) }, "one to four"),
        (spec(&["smrdb-offload"]), "flash"),
        (LabSpec { capacity_bytes: 1, ..spec(&["gear"]) }, "256 MiB"),
        (LabSpec { live_percent: 100, ..spec(&["gear"]) }, "percent"),
        (LabSpec { value_len_bytes: 1, ..spec(&["gear"]) }, "a value"),
    ];
    for (spec, words) in cases {
        let error = Lab::new(&spec, &mut |_| ()).unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
    }
    assert!("bursts:0".parse::<LabArrivals>().unwrap_err().contains("rate"));
    assert!("often".parse::<LabArrivals>().unwrap_err().contains("closed"));
    assert_eq!("hot-range".parse(), Ok(LabWork::HotRange));
}
