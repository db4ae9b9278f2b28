use super::*;
use crate::key::Seq;
use crate::version::{Level, RunId, TableId};
use imbrex_clockwork::Prng;
use imbrex_files::GroupId;

fn table(id: u64, from: u64, to: u64, largest_excluded: bool) -> Arc<TableSlot> {
    TableSlot::new(TableMeta {
        id: TableId(id),
        len_bytes: 1,
        smallest: key(from),
        largest: key(to),
        largest_excluded,
        seq_min: Seq(1),
        seq_max: Seq(1),
        entry_count: 1,
        delete_count: 0,
        range_tombstone_count: 0,
        raw_len_bytes: 1,
        group: GroupId(1),
        group_table_count: 1,
        is_logged: false,
        has_front: false,
    })
}

fn key(number: u64) -> Bytes {
    Bytes::from(format!("{number:03}"))
}

/// A level of random runs.
fn level(prng: &mut Prng) -> Level {
    let mut level = Level::default();
    let mut id = 0;
    for run in 0..prng.below(20) {
        let mut at = prng.below(60);
        while at < 100 {
            let to = at + prng.below(30);
            let excluded = to > at && prng.chance(1, 4);
            id += 1;
            level.insert(RunId(run), table(id, at, to, excluded));
            at = to + u64::from(!excluded) + prng.below(3) * prng.below(40);
        }
    }
    level
}

#[test]
fn a_piece_has_what_the_runs_have_at_its_keys() {
    for seed in 0..200 {
        let level = level(&mut Prng::new(seed));
        let cover = Cover::new(&level.runs);
        for number in 0..140 {
            for key in [key(number), [&key(number), &b"x"[..]].concat().into()] {
                let expected: Vec<_> =
                    level.runs.iter().filter_map(|run| run.find(&key)).map(|t| t.meta.id).collect();
                let got: Vec<_> = cover.at(&key).map(|t| t.meta.id).collect();
                assert_eq!(got, expected, "seed {seed}, {key:?}");
            }
        }
    }
}

#[test]
fn lanes_are_disjoint_complete_and_as_few_as_can_be() {
    for seed in 0..200 {
        let level = level(&mut Prng::new(seed));
        let cover = Cover::new(&level.runs);
        let mut count = 0;
        for lane in cover.lanes() {
            assert!(!lane.is_empty());
            assert!(lane.windows(2).all(|p| p[0].meta.ends_before(&p[1].meta.smallest)), "C2");
            count += lane.len();
        }
        assert_eq!(count, level.table_count());
        let depth =
            cover.pieces.iter().map(|(start, _)| cover.at(start).count()).max().unwrap_or(0);
        assert_eq!(cover.lanes().len(), depth, "seed {seed}");
    }
}

#[test]
fn nothing_is_found_in_nothing() {
    assert_eq!(Cover::new(&[]).at(b"a").count(), 0);
    assert!(Cover::new(&[]).lanes().is_empty());
}
