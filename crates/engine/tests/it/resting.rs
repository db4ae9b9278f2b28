//! Cleaning comes to rest, also where values are so short that keys and places beside them take as much as they do.
//!
//! Once, cleaning took what it had just written again and again: half of such a file is not values, and a table that
//! takes a whole zone leaves the rest of it unused. So a store was never idle, and a put on a full drive never returned.

use crate::stage::{Stage, key, small, with_zones};
use imbrex_clockwork::{Order, Prng, Runtime, share_of};
use imbrex_disk::{Blocks, NeighbourSpec};
use imbrex_disk_sim::SimDisk;
use imbrex_engine::{Db, EngineError, KeyspaceOptions, Options, Progress};
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;

type Map = BTreeMap<Vec<u8>, Vec<u8>>;

fn tiny_values() -> Options {
    let keyspace = KeyspaceOptions { values_apart_from_bytes: 64, ..small().keyspace };
    Options { keyspace, ..small() }
}

fn staged(disk: SimDisk) -> Stage {
    let (runtime, world) = Runtime::virtual_time(Order::SmallestTime);
    Stage { disk: Arc::new(disk), world, runtime }
}

/// Every rule, each with a placement that is made for it, and the length of the drive: some have guards, or a backup
/// region.
fn drives() -> [(&'static str, Stage, u64); 5] {
    let staged_with = |len_mib: u64, disk: fn(Blocks) -> SimDisk| {
        (staged(disk(Blocks::holding(len_mib << 20))), len_mib << 20)
    };
    let (anywhere, anywhere_len) = staged_with(16, SimDisk::tiny_conventional);
    let (shingled, shingled_len) =
        staged_with(32, |len| SimDisk::tiny_shingled(len, Blocks::new(8), 1));
    let (interlaced, interlaced_len) = staged_with(64, |len| {
        let tracks =
            NeighbourSpec { bottom_track_len: Blocks::new(20), top_track_len: Blocks::new(16) };
        SimDisk::tiny_interlaced(len, tracks)
    });
    [
        ("first-fit", anywhere, anywhere_len),
        ("log-structured", with_zones(16, 256, Order::SmallestTime), 16 << 20),
        ("band-per-table", with_zones(128, 32, Order::SmallestTime), 16 << 20),
        ("dynamic-bands", shingled, shingled_len),
        ("track-positions", interlaced, interlaced_len),
    ]
}

/// Waits until nothing is due, while background work processes less than the drive's length a few times.
fn rest(db: &Db, drive_len_bytes: u64, what: &str) {
    let mut bounded = |progress: Progress| match progress.done_bytes {
        done_bytes if done_bytes < 8 * drive_len_bytes => ControlFlow::Continue(()),
        _ => ControlFlow::Break(()),
    };
    db.wait_idle_with(&mut bounded).unwrap_or_else(|error| panic!("{what}: {error}"));
}

/// Overwrites random keys; returns how many puts were taken before one was refused.
fn overwrite(db: &Db, map: &mut Map, prng: &mut Prng, key_count: u64, count: u64) -> u64 {
    for done in 0..count {
        let mut value = vec![0; 40 + prng.below(200) as usize];
        prng.fill(&mut value);
        let key = key(prng.below(key_count));
        match db.default_keyspace().put(&key, &value) {
            Ok(()) => _ = map.insert(key, value),
            Err(EngineError::NoSpace { .. }) => return done,
            Err(error) => panic!("{error}"),
        }
    }
    count
}

fn check(db: &Db, map: &Map, what: &str) {
    let got = db.default_keyspace().range::<&[u8]>(..).unwrap().map(Result::unwrap);
    let got: Map = got.map(|(key, value)| (key.to_vec(), value.to_vec())).collect();
    assert!(got == *map, "{what}: {} of {} keys", got.len(), map.len());
    let report = db.check().unwrap();
    assert!(report.is_sound(), "{what}: {report}");
}

#[test]
fn with_tiny_values_cleaning_comes_to_rest_however_full_the_drive_is() {
    let (mut moved_bytes, mut case_count) = (0, 0);
    let cases = [20, 60, 120].into_iter().flat_map(|share| (0..5).map(move |drive| (share, drive)));
    for (share, drive) in share_of(cases) {
        for (placement, stage, len_bytes) in drives().into_iter().skip(drive).take(1) {
            let what = format!("{placement}, {share} % full");
            let files = stage.format_with(placement);
            let db = Db::open(files, stage.runtime.clone(), tiny_values()).unwrap();
            // A key and its value have about 150 bytes, and as many with what is beside them.
            let key_count = len_bytes / 100 * share / 200;
            let (mut map, mut prng) = (Map::new(), Prng::new(share));
            for part in [1, 2, 4] {
                overwrite(&db, &mut map, &mut prng, key_count, key_count / part);
                rest(&db, len_bytes, &what);
            }
            // Short files with a guard behind each may leave no room even for deletes.
            for number in 0..key_count / 4 {
                match db.default_keyspace().delete(key(number)) {
                    Ok(()) => _ = map.remove(&key(number)),
                    Err(EngineError::NoSpace { .. }) => break,
                    Err(error) => panic!("{what}: {error}"),
                }
            }
            rest(&db, len_bytes, &what);
            // A drive that is full takes puts after deletes, or refuses them; none waits for ever.
            overwrite(&db, &mut map, &mut prng, key_count, 2000);
            rest(&db, len_bytes, &what);
            check(&db, &map, &what);
            moved_bytes += db.metrics().values_moved_bytes;
            case_count += 1;
        }
    }
    // A share of the cases may have none with much to clean.
    assert!(moved_bytes > 0 || case_count < 15, "nothing was cleaned");
}
