//! Random requests, discards, faults and power cuts on overlapping tracks, checked against a model
//! of what each block may be.

use super::*;
use imbrex_disk::{GeometrySpec, NeighbourSpec, Rule, ShingleSpec};
use std::collections::BTreeSet;

const LEN: u64 = 96;

/// The state of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum State {
    Blank,
    Valid(u64),
    Destroyed,
}

/// For every block, all states that a power cut may leave. The last one holds if there is no cut.
struct Model {
    geometry: Geometry,
    may_be: Vec<Vec<State>>,
}

impl Model {
    fn new(geometry: Geometry) -> Model {
        Model { geometry, may_be: vec![vec![State::Blank]; LEN as usize] }
    }

    fn blocks(&mut self, range: BlockRange) -> &mut [Vec<State>] {
        &mut self.may_be[range.start.get() as usize..range.end().get() as usize]
    }

    fn write(&mut self, write: BlockRange, first_stamp: u64, is_durable: bool) {
        let parts: Vec<BlockRange> = self.geometry.write_parts(write).collect();
        for &part in &parts {
            self.write_part(part, first_stamp + (part.start - write.start).get());
        }
        if is_durable {
            for &part in &parts {
                self.settle(part);
                self.geometry.reach_around(part).iter().for_each(|&reach| self.settle(reach));
            }
        }
    }

    fn write_part(&mut self, write: BlockRange, first_stamp: u64) {
        // A torn write over several tracks may lose, in a later track, the data that it was to
        // replace.
        let head = BlockRange::new(write.start, Blocks::new(1));
        let own_reach = self.geometry.reach(head);
        let first = write.start;
        for (offset, may_be) in (0..).zip(self.blocks(write)) {
            let is_behind =
                !own_reach.len.is_zero() && first + Blocks::new(offset) >= own_reach.start;
            if is_behind && *may_be != [State::Blank] {
                may_be.push(State::Destroyed);
            }
            may_be.push(State::Valid(first_stamp + offset));
        }
        for reach in self.geometry.reach_around(write) {
            for may_be in self.blocks(reach) {
                if may_be.last() != Some(&State::Blank) {
                    may_be.push(State::Destroyed);
                }
            }
        }
    }

    fn settle(&mut self, range: BlockRange) {
        for may_be in self.blocks(range) {
            may_be.drain(..may_be.len() - 1);
        }
    }

    fn discard(&mut self, range: BlockRange) {
        self.blocks(range).fill(vec![State::Blank]);
    }
}

fn everything() -> BlockRange {
    BlockRange::new(Lba::new(0), Blocks::new(LEN))
}

fn rule(prng: &mut Prng) -> Rule {
    let track_len = Blocks::new([1, 4, 6, 8][prng.below(4) as usize]);
    let overlap_tracks = prng.below(4) as u32;
    match prng.chance(1, 2) {
        true => Rule::IsolationDistance(ShingleSpec { track_len, overlap_tracks }),
        false => Rule::Neighbours(NeighbourSpec {
            bottom_track_len: track_len + Blocks::new(prng.below(3)),
            top_track_len: track_len,
        }),
    }
}

fn disk(prng: &mut Prng) -> SimDisk {
    let rule = rule(prng);
    let geometry = Geometry::new(GeometrySpec { len: Blocks::new(LEN), rule }).unwrap();
    let cache = Blocks::new([0, 0, 5, 40, 1_000][prng.below(5) as usize]);
    SimDisk::builder(geometry).write_cache(cache).memory().unwrap()
}

fn found(disk: &SimDisk, block: usize) -> State {
    let mut buf = vec![0; BLOCK_LEN_BYTES];
    match disk.read(Lba::new(block as u64), &mut buf) {
        Err(DiskError::Destroyed { range, .. }) => {
            assert_eq!(range, BlockRange::new(Lba::new(block as u64), Blocks::new(1)));
            State::Destroyed
        }
        Err(error) => panic!("{error}"),
        Ok(()) => {
            assert_eq!(buf[8..], buf[..BLOCK_LEN_BYTES - 8], "a block is never a mixture");
            match u64::from_le_bytes(buf[..8].try_into().unwrap()) {
                0 => State::Blank,
                stamp => State::Valid(stamp),
            }
        }
    }
}

/// Performs one request. Returns false if the power failed.
fn step(disk: &SimDisk, model: &mut Model, prng: &mut Prng, next_stamp: &mut u64) -> bool {
    let has_power = |result: Result<(), DiskError>| match result {
        Ok(()) => true,
        Err(DiskError::PowerLost) => false,
        Err(error) => panic!("{error}"),
    };
    let at = prng.below(LEN);
    let range = BlockRange::new(Lba::new(at), Blocks::new(1 + prng.below((LEN - at).min(12))));
    match prng.below(12) {
        0 => {
            let on = has_power(disk.flush());
            if on {
                model.settle(everything());
            }
            on
        }
        1 => {
            let on = has_power(disk.discard(range));
            if on {
                model.discard(range);
            }
            on
        }
        _ => {
            let first = *next_stamp;
            *next_stamp += range.len.get();
            let block = |stamp: u64| stamp.to_le_bytes().repeat(BLOCK_LEN_BYTES / 8);
            let data: Vec<u8> = (first..*next_stamp).flat_map(block).collect();
            let through = prng.chance(1, 6);
            let persist = if through { Persist::Through } else { Persist::Cached };
            let on = has_power(disk.write(range.start, &data, persist));
            model.write(range, first, on && through);
            on
        }
    }
}

/// While the power is on, a read returns the last state, or data that a write still in the cache
/// has yet to destroy.
fn check_with_power(disk: &SimDisk, model: &Model, first: usize, seed: u64) {
    for (block, may_be) in model.may_be.iter().enumerate().skip(first).take(16) {
        let (found, last) = (found(disk, block), *may_be.last().unwrap());
        let is_right = found == last || (last == State::Destroyed && may_be.contains(&found));
        assert!(is_right, "seed {seed}: block {block} is {found:?} of {may_be:?}");
    }
}

#[test]
fn destroyed_blocks_are_those_that_the_rule_names() {
    let mut kinds = BTreeSet::new();
    for seed in 0..150 {
        let mut prng = Prng::new(seed);
        let disk = disk(&mut prng);
        let (mut model, mut next_stamp) = (Model::new(*disk.geometry()), 1);
        for _ in 0..8 {
            let plan = FaultPlan { power_cut_after: Some(prng.below(30)), ..FaultPlan::default() };
            disk.set_faults(plan);
            while step(&disk, &mut model, &mut prng, &mut next_stamp) {
                check_with_power(&disk, &model, prng.below(LEN) as usize, seed);
            }
            disk.power_cycle(&mut prng).unwrap();
            for (block, may_be) in model.may_be.iter_mut().enumerate() {
                let found = found(&disk, block);
                assert!(may_be.contains(&found), "seed {seed}: {block} {found:?} {may_be:?}");
                kinds.insert((found == State::Destroyed, *may_be.last().unwrap() == found));
                *may_be = vec![found];
            }
        }
    }
    assert_eq!(kinds.len(), 4, "destroyed or not, done or not: {kinds:?}");
}

#[test]
fn a_disk_that_refuses_never_destroys() {
    let mut refused = 0;
    for seed in 0..60 {
        let mut prng = Prng::new(seed);
        let rule = rule(&mut prng);
        let geometry = Geometry::new(GeometrySpec { len: Blocks::new(LEN), rule }).unwrap();
        let cache = Blocks::new([0, 20][prng.below(2) as usize]);
        let builder = SimDisk::builder(geometry).write_cache(cache).refuse_destroying();
        let disk = builder.memory().unwrap();
        let mut valid = [false; LEN as usize];
        for _ in 0..200 {
            let at = prng.below(LEN);
            let len = 1 + prng.below((LEN - at).min(9));
            let range = BlockRange::new(Lba::new(at), Blocks::new(len));
            let blocks = at as usize..(at + len) as usize;
            if prng.chance(1, 3) {
                disk.discard(range).unwrap();
                valid[blocks].fill(false);
                continue;
            }
            let reach: Vec<u64> = geometry
                .write_parts(range)
                .flat_map(|part| geometry.reach_around(part))
                .flat_map(|reach| reach.start.get()..reach.end().get())
                .collect();
            // A part that destroys data that an earlier part is about to write is refused as well.
            let own = |&b: &u64| range.contains(Lba::new(b));
            let destroys_itself = geometry.write_parts(range).any(|part| {
                let mut lost = geometry.reach_around(part).into_iter();
                lost.any(|lost| lost.start < part.start && lost.overlaps(range))
            });
            let first = reach
                .iter()
                .copied()
                .find(|b| valid[*b as usize])
                .or_else(|| reach.iter().copied().find(|b| own(b) && destroys_itself));
            let data = vec![1; range.len.bytes() as usize];
            match (disk.write(range.start, &data, Persist::Cached), first) {
                (Ok(()), None) => valid[blocks].fill(true),
                (Err(DiskError::WouldDestroy { write, valid }), Some(first)) => {
                    assert_eq!(write, range, "{valid} {first}");
                    refused += 1;
                }
                (result, first) => panic!("seed {seed}: {result:?}, valid in reach: {first:?}"),
            }
        }
        for (block, &valid) in valid.iter().enumerate() {
            let expected = if valid { State::Valid(0x0101_0101_0101_0101) } else { State::Blank };
            assert_eq!(found(&disk, block), expected, "seed {seed}: block {block}");
        }
        assert_eq!(disk.counters().destroyed_bytes, 0);
    }
    assert!(refused > 100, "{refused}");
}
