use super::*;
use imbrex_disk::{GeometrySpec, NeighbourSpec, ZoneId, ZoneKind, ZoneSpec};
use imbrex_files::inspect::ZoneUseKind;

const ZONE_LEN: u64 = 1000;

fn geometry(zone_count: u64) -> Geometry {
    Geometry::new(GeometrySpec {
        len: Blocks::new(zone_count * ZONE_LEN),
        rule: Rule::AtPointer(ZoneSpec {
            zone_len: Blocks::new(ZONE_LEN),
            zone_capacity: Blocks::new(ZONE_LEN),
            conventional_zone_count: 1,
            open_zone_limit: None,
            active_zone_limit: None,
            strict_reads: true,
        }),
    })
    .unwrap()
}

fn blocks(count: u64) -> u64 {
    Blocks::new(count).bytes()
}

fn zone_use(zone: u32, state: ZoneState, levels: &[(u8, u64)], log: u64) -> ZoneUse {
    let levels: Vec<_> = levels.iter().map(|(level, count)| (*level, blocks(*count))).collect();
    ZoneUse {
        zone,
        range: BlockRange::new(Lba::new(u64::from(zone) * ZONE_LEN), Blocks::new(ZONE_LEN)),
        kind: if zone == 0 { ZoneUseKind::Catalog } else { ZoneUseKind::Files },
        catalog_bytes: if zone == 0 { blocks(ZONE_LEN) } else { 0 },
        state,
        live_bytes: levels.iter().map(|(_, bytes)| bytes).sum::<u64>() + blocks(log),
        dead_bytes: 0,
        log_bytes: blocks(log),
        levels,
    }
}

fn open_at(write_pointer: u64) -> ZoneState {
    ZoneState::Open { write_pointer: Lba::new(write_pointer), explicit: false }
}

fn example() -> ZoneMap {
    let uses = [
        zone_use(0, ZoneState::NoPointer, &[], 0),
        zone_use(1, ZoneState::Full, &[(1, 900), (2, 50)], 0),
        zone_use(2, open_at(2250), &[(2, 50)], 150),
        zone_use(3, ZoneState::Closed { write_pointer: Lba::new(3600) }, &[], 0),
        zone_use(4, ZoneState::Empty, &[], 0),
        zone_use(5, ZoneState::Empty, &[], 0),
    ];
    ZoneMap::of_files(&geometry(6), &uses, 100)
}

fn uniform(count: u32, state: impl Fn(u32) -> ZoneState, cell_count_max: usize) -> ZoneMap {
    let uses: Vec<_> = (0..count).map(|zone| zone_use(zone, state(zone), &[], 0)).collect();
    ZoneMap::of_files(&geometry(u64::from(count)), &uses, cell_count_max)
}

#[test]
fn written_bytes_that_are_not_live_are_dead() {
    assert_eq!(example().dead_bytes(), blocks(50 + 50 + 600));
}

#[test]
fn the_text_shows_state_fill_and_content() {
    assert_eq!(
        text::draw(&example()).lines().take(6).collect::<Vec<_>>(),
        [
            "6 zones of 3.91 MiB: 1 conventional, 2 empty, 1 open, 1 closed, 1 full",
            "",
            "     0  state  CFoc..",
            "        fill    █▂▅",
            "        holds  k1Lx",
            "",
        ]
    );
}

#[test]
fn rows_of_empty_zones_are_one_line() {
    let state = |zone| if zone == 1 { ZoneState::Full } else { ZoneState::Empty };
    let drawn = text::draw(&uniform(300, state, 1000));
    assert!(drawn.contains("\n    64  to 299: empty\n\nstate"), "{drawn}");
    assert_eq!(drawn.matches("fill").count(), 1, "{drawn}");
}

#[test]
fn many_zones_share_a_cell_that_shows_the_busiest_state() {
    let state = |zone| if zone == 7 { ZoneState::Full } else { ZoneState::Empty };
    let map = uniform(10, state, 4);
    let cells: Vec<_> = map.cells.iter().map(|c| (c.zone, c.zone_count, c.state)).collect();
    assert_eq!(
        cells,
        [
            (0, 3, CellState::Empty),
            (3, 3, CellState::Empty),
            (6, 3, CellState::Full),
            (9, 1, CellState::Empty)
        ]
    );
    assert_eq!(map.capacity_bytes(), blocks(10 * ZONE_LEN));
}

#[test]
fn without_files_the_map_shows_write_pointers() {
    let zone = ZoneInfo {
        zone: ZoneId(1),
        kind: ZoneKind::SequentialRequired,
        start: Lba::new(ZONE_LEN),
        len: Blocks::new(ZONE_LEN),
        capacity: Blocks::new(ZONE_LEN),
        state: open_at(ZONE_LEN + 10),
    };
    let map = ZoneMap::of_report(&geometry(2), &[zone], 100);
    assert_eq!(map.cells[0].written_bytes, blocks(10));
    assert_eq!(map.dead_bytes(), blocks(10));
}

#[test]
fn the_svg_is_well_formed_and_names_are_escaped() {
    for count in [6, 200, 3000] {
        let map = uniform(count, |_| ZoneState::Full, svg::CELL_COUNT_MAX);
        let drawn = svg::draw(&map, "a<b>&\"c\"", "8 GiB");
        assert_eq!(drawn.matches("<title>").count(), count as usize);
        assert_eq!(drawn.matches("<g").count(), drawn.matches("</g>").count());
        assert!(drawn.contains("a&lt;b&gt;&amp;&quot;c&quot;"));
        assert!(!drawn.contains("NaN") && !drawn.contains("inf"));
    }
}

#[test]
fn the_svg_draws_rows_without_data_as_one_strip() {
    let state = |zone| if zone == 1 { ZoneState::Full } else { ZoneState::Empty };
    let drawn = svg::draw(&uniform(50_000, state, svg::CELL_COUNT_MAX), "t", "s");
    assert!(drawn.contains("zones 832 to 49 999: empty, 188 GiB"), "{drawn}");
    assert!(drawn.contains("a tile is 13 zones"), "{drawn}");
    assert_eq!(drawn.matches("<title>").count(), 64, "the row with data");
    assert!(drawn.len() < 30_000, "{} bytes", drawn.len());
}

/// Eight pairs of a bottom track of 80 blocks and a top track of 20, in four slices.
#[test]
fn interlaced_tracks_have_a_lane_of_each_kind() {
    let spec = NeighbourSpec { bottom_track_len: Blocks::new(80), top_track_len: Blocks::new(20) };
    let rule = Rule::Neighbours(spec);
    let geometry = Geometry::new(GeometrySpec { len: Blocks::new(800), rule }).unwrap();
    let uses: Vec<_> = (0..4_u64)
        .map(|slice| ZoneUse {
            range: BlockRange::new(Lba::new(slice * 200), Blocks::new(200)),
            ..zone_use(slice as u32, ZoneState::NoPointer, &[], 0)
        })
        .collect();
    let file = |name: &str, level, start, len| FileInfo {
        name: name.to_owned(),
        len_bytes: blocks(len),
        kind: FileKind::Table,
        level,
        group: None,
        tier: Tier::Main,
        extents: vec![BlockRange::new(Lba::new(start), Blocks::new(len))],
    };
    // From a bottom track over a top track into the next slice's bottom track; and one top track.
    let files = [file("a", 1, 150, 100), file("b", 2, 380, 20)];
    let map = ZoneMap::of_files(&geometry, &uses, 64).with_lanes(&geometry, &files);
    let lanes: Vec<Lanes> = map.cells.iter().map(|cell| cell.lanes.clone().unwrap()).collect();
    let live = |lane: &Lane, level| lane.live_bytes.get(&Content::Level(level)).copied();
    assert!(lanes.iter().all(|lanes| lanes.top.capacity_bytes == blocks(40)));
    assert!(lanes.iter().all(|lanes| lanes.bottom.capacity_bytes == blocks(160)));
    assert_eq!(live(&lanes[0].bottom, 1), Some(blocks(30)));
    assert_eq!(live(&lanes[0].top, 1), Some(blocks(20)));
    assert_eq!(live(&lanes[1].bottom, 1), Some(blocks(50)));
    assert_eq!(live(&lanes[1].top, 2), Some(blocks(20)));
    assert_eq!((live(&lanes[1].bottom, 2), live(&lanes[2].top, 2)), (None, None));
    let drawn = svg::draw(&map, "t", "s");
    assert!(drawn.contains("on top tracks") && drawn.contains("on bottom tracks"), "{drawn}");
    assert_eq!(ZoneMap::of_files(&geometry, &uses, 64).cells[0].lanes, None);
}
