//! Random requests, faults and power cuts, checked against a model of what may be on the platter.

use super::*;
use imbrex_disk::{GeometrySpec, Rule, ZoneSpec, ZoneState};
use std::collections::{BTreeMap, BTreeSet};

const ZONE_LEN: u64 = 32;
const ZONE_COUNT: u64 = 6;

/// What the host may find.
#[derive(Debug, Default)]
struct Model {
    /// Conventional blocks: every stamp that may be there after a power cut. The last one is there
    /// now.
    blocks: BTreeMap<u64, Vec<u64>>,
    /// Sequential zones: the stamps written since the reset, and how many of them are durable.
    zones: BTreeMap<u32, (Vec<u64>, usize)>,
}

impl Model {
    fn flushed(&mut self) {
        for stamps in self.blocks.values_mut() {
            stamps.drain(..stamps.len() - 1);
        }
        for (stamps, durable) in self.zones.values_mut() {
            *durable = stamps.len();
        }
    }

    fn now(&self, block: u64) -> u64 {
        self.blocks.get(&block).and_then(|stamps| stamps.last()).copied().unwrap_or(0)
    }
}

fn stamped(stamps: &[u64]) -> Vec<u8> {
    let block = |stamp: &u64| stamp.to_le_bytes().repeat(BLOCK_LEN_BYTES / 8);
    stamps.iter().flat_map(block).collect()
}

/// The stamps of a run. Panics on a block that is a mixture.
fn stamps(disk: &SimDisk, at: u64, len: u64) -> Vec<u64> {
    let mut buf = vec![0; Blocks::new(len).bytes() as usize];
    disk.read(Lba::new(at), &mut buf).unwrap();
    buf.chunks(BLOCK_LEN_BYTES)
        .map(|block| {
            let stamp: [u8; 8] = block[..8].try_into().unwrap();
            assert_eq!(block[8..], block[..BLOCK_LEN_BYTES - 8], "a block is never a mixture");
            u64::from_le_bytes(stamp)
        })
        .collect()
}

fn disk(cache: u64) -> SimDisk {
    let zones = ZoneSpec {
        zone_len: Blocks::new(ZONE_LEN),
        zone_capacity: Blocks::new(ZONE_LEN - 2),
        conventional_zone_count: 1,
        open_zone_limit: Some(2),
        active_zone_limit: None,
        strict_reads: true,
    };
    let len = Blocks::new(ZONE_COUNT * ZONE_LEN);
    let geometry = Geometry::new(GeometrySpec { len, rule: Rule::AtPointer(zones) }).unwrap();
    SimDisk::builder(geometry).write_cache(Blocks::new(cache)).memory().unwrap()
}

/// Performs one request. Returns false if the power failed.
fn step(disk: &SimDisk, model: &mut Model, prng: &mut Prng, next_stamp: &mut u64) -> bool {
    let mut fresh = |len: u64| -> Vec<u64> {
        *next_stamp += len;
        (*next_stamp - len + 1..=*next_stamp).collect()
    };
    let through = prng.chance(1, 8);
    let persist = if through { Persist::Through } else { Persist::Cached };
    let has_power = |result: Result<(), DiskError>| match result {
        Ok(()) => true,
        Err(DiskError::PowerLost) => false,
        Err(error) => panic!("{error}"),
    };
    match prng.below(20) {
        0 => {
            let on = has_power(disk.flush());
            if on {
                model.flushed();
            }
            on
        }
        1..8 => {
            let at = prng.below(ZONE_LEN - 6);
            let new = fresh(1 + prng.below(6));
            let on = has_power(disk.write(Lba::new(at), &stamped(&new), persist));
            for (block, stamp) in (at..).zip(&new) {
                let may_be = model.blocks.entry(block).or_insert_with(|| vec![0]);
                if on && through {
                    may_be.clear();
                }
                may_be.push(*stamp);
            }
            on
        }
        _ => {
            let zone = ZoneId(1 + prng.below(ZONE_COUNT - 1) as u32);
            let info = disk.zone(zone).unwrap();
            let (written, durable) = model.zones.entry(zone.0).or_default();
            let room = ZONE_LEN - 2 - written.len() as u64;
            if room == 0 || prng.chance(1, 30) {
                let on = has_power(disk.manage_zone(zone, ZoneAction::Reset));
                *durable = 0;
                if on {
                    written.clear();
                }
                return on;
            }
            assert_eq!(info.state.write_pointer(info.start).unwrap(), start(zone, written.len()));
            let new = fresh(1 + prng.below(room.min(7)));
            let on = has_power(disk.write(start(zone, written.len()), &stamped(&new), persist));
            written.extend(&new);
            if on && through {
                *durable = written.len();
            }
            on
        }
    }
}

fn start(zone: ZoneId, written: usize) -> Lba {
    Lba::new(u64::from(zone.0) * ZONE_LEN + written as u64)
}

/// Compares, and accepts the state found as the new expectation.
fn check_after_power_cut(disk: &SimDisk, model: &mut Model) {
    for (block, found) in stamps(disk, 0, ZONE_LEN).into_iter().enumerate() {
        let may_be = model.blocks.entry(block as u64).or_insert_with(|| vec![0]);
        assert!(may_be.contains(&found), "block {block}: {found}, may be {may_be:?}");
        *may_be = vec![found];
    }
    for (&zone, (written, durable)) in &mut model.zones {
        let info = disk.zone(ZoneId(zone)).unwrap();
        let len = match info.state {
            ZoneState::Full => info.capacity.get(),
            state => (state.write_pointer(info.start).unwrap() - info.start).get(),
        } as usize;
        assert!(*durable <= len && len <= written.len(), "{durable} {len} {}", written.len());
        written.truncate(len);
        if len > 0 {
            let found = stamps(disk, info.start.get(), len as u64);
            assert_eq!(&found, written, "zone {zone}: a prefix of what was written");
        }
        *durable = len;
    }
}

#[test]
fn a_power_cut_leaves_only_states_that_the_contract_allows() {
    let mut fates = BTreeSet::new();
    for seed in 0..60 {
        let mut prng = Prng::new(seed);
        let disk = disk([0, 0, 5, 40, 1_000][prng.below(5) as usize]);
        let (mut model, mut next_stamp) = (Model::default(), 0);
        for _ in 0..12 {
            let plan = FaultPlan { power_cut_after: Some(prng.below(40)), ..FaultPlan::default() };
            disk.set_faults(plan);
            while step(&disk, &mut model, &mut prng, &mut next_stamp) {
                for (block, found) in stamps(&disk, 0, ZONE_LEN).into_iter().enumerate() {
                    assert_eq!(found, model.now(block as u64), "seed {seed}: block {block}");
                }
            }
            let outcome = disk.power_cycle(&mut prng).unwrap();
            fates.insert((!outcome.survived.is_zero(), !outcome.lost.is_zero()));
            check_after_power_cut(&disk, &mut model);
        }
    }
    assert_eq!(fates.len(), 4, "nothing, all, none and some of it survived: {fates:?}");
}
