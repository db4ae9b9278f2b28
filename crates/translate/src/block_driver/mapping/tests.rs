use super::*;
use imbrex_clockwork::Prng;

fn range(start: u64, len: u64) -> BlockRange {
    BlockRange::new(Lba::new(start), Blocks::new(len))
}

fn place(start: u64, len: u64) -> PbaRange {
    PbaRange { start: Pba::new(start), len: Blocks::new(len) }
}

fn spec(len: u64, zone_len: u64, zone_count: u32) -> MapSpec {
    MapSpec { len: Blocks::new(len), zone_len: Blocks::new(zone_len), zone_count }
}

fn run(start: u64, at: u64, len: u64) -> MapRun {
    MapRun { start: Lba::new(start), at: Pba::new(at), len: Blocks::new(len) }
}

fn nodes(mapping: &Mapping) -> Vec<(u64, u64, u64)> {
    mapping.check().expect("a sound mapping");
    mapping.iter().map(|run| (run.start.get(), run.len.get(), run.at.get())).collect()
}

/// The tree of figure 4 (a), as far as its examples show it: nodes 100, 320 and 430.
fn figure_4() -> Mapping {
    let mut mapping = Mapping::new(spec(1000, 10_000, 2)).expect("a mapping");
    for (start, at, len) in [(100, 5000, 100), (320, 900, 100), (430, 7000, 100)] {
        assert_eq!(mapping.set(range(start, len), Pba::new(at)).expect("room"), []);
    }
    mapping
}

#[test]
fn figure_4b_a_shorter_write_at_a_key_cuts_the_node_in_two() {
    let mut mapping = figure_4();
    let displaced = mapping.set(range(100, 50), Pba::new(8100)).expect("room");
    assert_eq!(displaced, [place(5000, 50)]);
    let expected = [(100, 50, 8100), (150, 50, 5050), (320, 100, 900), (430, 100, 7000)];
    assert_eq!(nodes(&mapping), expected);
}

#[test]
fn figure_4c_a_longer_write_deletes_one_successor_and_shortens_the_next() {
    let mut mapping = figure_4();
    let displaced = mapping.set(range(100, 400), Pba::new(8100)).expect("room");
    assert_eq!(displaced, [place(5000, 100), place(900, 100), place(7000, 70)]);
    assert_eq!(nodes(&mapping), [(100, 400, 8100), (500, 30, 7070)]);
}

#[test]
fn figure_4d_a_write_within_a_node_cuts_it_in_three() {
    let mut mapping = figure_4();
    let displaced = mapping.set(range(120, 50), Pba::new(8100)).expect("room");
    assert_eq!(displaced, [place(5020, 50)]);
    let expected =
        [(100, 20, 5000), (120, 50, 8100), (170, 30, 5070), (320, 100, 900), (430, 100, 7000)];
    assert_eq!(nodes(&mapping), expected);
}

#[test]
fn a_write_of_a_node_again_only_moves_it() {
    let mut mapping = figure_4();
    assert_eq!(mapping.set(range(320, 100), Pba::new(8100)).expect("room"), [place(900, 100)]);
    assert_eq!(nodes(&mapping), [(100, 100, 5000), (320, 100, 8100), (430, 100, 7000)]);
}

/// One block after another, with its place.
struct Model {
    places: Vec<Option<u64>>,
    zone_len: u64,
}

impl Model {
    fn nodes(&self) -> Vec<MapRun> {
        let mut nodes: Vec<MapRun> = Vec::new();
        for (lba, place) in (0..).zip(&self.places) {
            let Some(pba) = *place else { continue };
            match nodes.last_mut() {
                Some(last)
                    if last.range().end().get() == lba
                        && last.place().end().get() == pba
                        && !pba.is_multiple_of(self.zone_len) =>
                {
                    last.len += Blocks::new(1);
                }
                _ => nodes.push(run(lba, pba, 1)),
            }
        }
        nodes
    }

    /// The first stretch of up to `len` free PBAs from `from`.
    fn free(&self, from: u64, len: u64, end: u64) -> Option<PbaRange> {
        let is_free = |pba: &u64| !self.places.contains(&Some(*pba));
        let start = (from..end).find(is_free)?;
        let count = (start..end).take(len as usize).take_while(is_free).count();
        Some(place(start, count as u64))
    }
}

fn blocks_of(ranges: &[PbaRange]) -> Vec<u64> {
    ranges.iter().flat_map(|range| range.start.get()..range.end().get()).collect()
}

#[test]
fn the_mapping_agrees_with_an_array() {
    for seed in 0..30 {
        let mut prng = Prng::new(seed);
        let (len, zone_len, zone_count) = (150, 20 + prng.below(30), 12);
        let spec = spec(len, zone_len, zone_count);
        let drive_len = zone_len * u64::from(zone_count);
        let mut mapping = Mapping::new(spec).expect("a mapping");
        let mut model = Model { places: vec![None; len as usize], zone_len };
        for step in 0..300 {
            let start = prng.below(len);
            let at = range(start, (1 + prng.below(30)).min(len - start));
            let told = format!("seed {seed}, step {step}, {at}");
            let free = model.free(prng.below(drive_len), at.len.get(), drive_len);
            let (at, to) = match free.filter(|_| prng.chance(3, 4)) {
                Some(to) => (range(start, to.len.get()), Some(to.start)),
                None => (at, None),
            };
            let displaced = match to {
                Some(to) => mapping.set(at, to).expect("the place is free"),
                None => mapping.unset(at),
            };
            let slots = start as usize..at.end().get() as usize;
            let before: Vec<u64> = model.places[slots.clone()].iter().flatten().copied().collect();
            assert_eq!(blocks_of(&displaced), before, "{told}");
            for (slot, i) in slots.zip(0..) {
                model.places[slot] = to.map(|to| to.get() + i);
            }
            compare(&mapping, &model, &told);
            let rebuilt = Mapping::from_sorted(spec, mapping.iter()).expect("a sound checkpoint");
            compare(&rebuilt, &model, &told);
            let at = prng.below(len);
            let pieces = mapping.lookup(range(at, prng.below(len - at)));
            for piece in pieces {
                let slots = piece.range.start.get() as usize..piece.range.end().get() as usize;
                let places = (0..).zip(&model.places[slots]);
                let expected = |i| piece.at.map(|at| at.get() + i);
                assert!(places.into_iter().all(|(i, &p)| p == expected(i)), "{told}: {piece:?}");
            }
        }
    }
}

fn compare(mapping: &Mapping, model: &Model, told: &str) {
    if let Err(violation) = mapping.check() {
        panic!("{told}: {violation}");
    }
    let nodes = model.nodes();
    assert!(mapping.iter().eq(nodes.iter().copied()), "{told}");
    assert_eq!(mapping.node_count(), nodes.len());
    for zone in 0..mapping.spec().zone_count {
        let zone_of = |run: &&MapRun| run.at.get() / model.zone_len == u64::from(zone);
        let mut expected: Vec<MapRun> = nodes.iter().filter(zone_of).copied().collect();
        expected.sort_by_key(|run| run.at);
        assert!(mapping.runs_in(ZoneId(zone)).eq(expected.iter().copied()), "{told}");
        assert_eq!(mapping.nodes_in(ZoneId(zone)), expected.len());
        assert_eq!(mapping.valid(ZoneId(zone)), expected.iter().map(|run| run.len).sum());
    }
}

#[test]
fn a_lookup_covers_its_range_mapped_or_not() {
    let mapping = figure_4();
    let pieces = |at: BlockRange| -> Vec<(u64, u64, Option<u64>)> {
        let pieces = mapping.lookup(at);
        pieces.map(|p| (p.range.start.get(), p.range.len.get(), p.at.map(Pba::get))).collect()
    };
    assert_eq!(
        pieces(range(90, 350)),
        [
            (90, 10, None),
            (100, 100, Some(5000)),
            (200, 120, None),
            (320, 100, Some(900)),
            (420, 10, None),
            (430, 10, Some(7000)),
        ]
    );
    assert_eq!(pieces(range(130, 20)), [(130, 20, Some(5030))]);
    assert_eq!(pieces(range(600, 20)), [(600, 20, None)]);
    assert_eq!(pieces(range(100, 0)), []);
}

#[test]
fn a_run_across_the_end_of_a_zone_is_a_node_in_each() {
    let mut mapping = Mapping::new(spec(1000, 100, 10)).expect("a mapping");
    mapping.set(range(10, 250), Pba::new(50)).expect("room");
    assert_eq!(nodes(&mapping), [(10, 50, 50), (60, 100, 100), (160, 100, 200)]);
    let valid: Vec<u64> = (0..4).map(|zone| mapping.valid(ZoneId(zone)).get()).collect();
    assert_eq!(valid, [50, 100, 100, 0]);
    assert_eq!(mapping.valid(ZoneId(10)).get(), 0, "no such zone");
    assert_eq!(mapping.runs_in(ZoneId(u32::MAX)).count(), 0);
}

#[test]
fn writes_in_sequence_are_one_node() {
    let mut mapping = Mapping::new(spec(1000, 100, 10)).expect("a mapping");
    for i in [0, 1, 2, 4, 3] {
        mapping.set(range(10 + i, 1), Pba::new(500 + i)).expect("room");
    }
    assert_eq!(nodes(&mapping), [(10, 5, 500)]);
    assert_eq!(mapping.unset(range(12, 1)), [place(502, 1)]);
    assert_eq!(nodes(&mapping), [(10, 2, 500), (13, 2, 503)]);
    assert_eq!(mapping.unset(range(0, 1000)), [place(500, 2), place(503, 2)]);
    assert_eq!((mapping.node_count(), mapping.mapped().get()), (0, 0));
    assert_eq!(mapping.unset(range(0, 0)), []);
}

#[test]
fn two_lbas_never_have_one_pba() {
    let mut mapping = figure_4();
    let before = nodes(&mapping);
    for (at, pba) in [(range(0, 1), 5000), (range(0, 30), 880), (range(100, 50), 5010)] {
        let refused = mapping.set(at, Pba::new(pba));
        assert!(matches!(refused, Err(MappingError::PbaTaken { .. })), "{at}: {refused:?}");
    }
    assert_eq!(nodes(&mapping), before, "nothing has changed");
    mapping.set(range(100, 100), Pba::new(5000)).expect("a replay of what is so already");
    assert_eq!(nodes(&mapping), before);
    let owner = |start, len| mapping.owner(place(start, len)).map(|run| run.start.get());
    assert_eq!(owner(990, 100), Some(320));
    assert_eq!(owner(1000, 100), None);
    assert_eq!(owner(4000, 3500), Some(100));
    assert_eq!(owner(5000, 0), None);
}

#[test]
fn runs_of_a_damaged_checkpoint_are_refused() {
    let spec = spec(1000, 100, 10);
    let build = |runs: &[MapRun]| Mapping::from_sorted(spec, runs.iter().copied());
    let sound = run(10, 50, 10);
    for (runs, what) in [
        (vec![run(10, 50, 0)], "OutOfRange"),
        (vec![run(990, 0, 11)], "OutOfRange"),
        (vec![run(0, 990, 11)], "OutOfRange"),
        (vec![run(u64::MAX, 0, 1)], "OutOfRange"),
        (vec![run(0, u64::MAX, u64::MAX)], "OutOfRange"),
        (vec![run(0, 95, 6)], "ZoneBoundary"),
        (vec![sound, run(19, 70, 1)], "OutOfOrder"),
        (vec![sound, run(5, 70, 1)], "OutOfOrder"),
        (vec![sound, run(30, 59, 1)], "PbaTaken"),
        (vec![sound, run(30, 45, 20)], "PbaTaken"),
    ] {
        let error = build(&runs).map(|mapping| nodes(&mapping)).expect_err(what);
        assert!(format!("{error:?}").starts_with(what), "{runs:?}: {error:?}");
    }
    let cut = build(&[sound, run(20, 60, 10), run(30, 70, 30), run(60, 100, 5)]).expect("sound");
    assert_eq!(nodes(&cut), [(10, 50, 50), (60, 5, 100)], "pieces of a run become one");
    let taken = build(&[sound, run(30, 45, 20)]).map(drop).expect_err("taken").to_string();
    let told = "node of 10 blocks from lba 10 at pba 50 overlaps the place of 20 blocks from lba 30 at pba 45";
    assert_eq!(taken, told);
}

#[test]
fn drives_without_zones_or_too_large_are_refused() {
    for (len, zone_len, zone_count) in
        [(0, 1, 1), (1, 0, 1), (1, 1, 0), (1 << 48, 1, 1), (1, 1 << 32, 1), (1, 1 << 31, 1 << 18)]
    {
        let refused = Mapping::new(spec(len, zone_len, zone_count)).map(drop);
        assert!(matches!(refused, Err(MappingError::Spec { .. })), "{refused:?}");
    }
}

#[test]
fn frozen_nodes_stay_as_they_were() {
    let mut mapping = figure_4();
    let before: Vec<MapRun> = mapping.iter().collect();
    let frozen = mapping.frozen();
    mapping.set(range(120, 300), Pba::new(8100)).expect("room");
    assert_ne!(mapping.iter().collect::<Vec<_>>(), before);
    assert!(frozen.eq(before));
}

#[test]
fn a_node_takes_about_the_memory_of_the_papers() {
    let spec = spec(1 << 32, 65_536, 4000);
    let mut mapping = Mapping::new(spec).expect("a mapping");
    let empty = mapping.memory_bytes();
    let mut prng = Prng::new(3);
    for pba in 0..200_000 {
        mapping.set(range(prng.below(1 << 32), 1), Pba::new(pba)).expect("room");
    }
    let per_node = (mapping.memory_bytes() - empty) / mapping.node_count() as u64;
    assert!((32..40).contains(&per_node), "{per_node} bytes");
}
