use super::*;
use imbrex_disk::{GeometrySpec, Rule, ZoneId, ZoneSpec};

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

fn zones(states: &[ZoneState]) -> Vec<ZoneInfo> {
    (0..)
        .zip(states)
        .map(|(at, state)| ZoneInfo {
            zone: ZoneId(at),
            kind: match state {
                ZoneState::NoPointer => ZoneKind::Conventional,
                _ => ZoneKind::SequentialRequired,
            },
            start: Lba::new(u64::from(at) * ZONE_LEN),
            len: Blocks::new(ZONE_LEN),
            capacity: Blocks::new(ZONE_LEN),
            state: *state,
        })
        .collect()
}

fn file(kind: FileKind, level: u8, start: u64, len: u64) -> FileInfo {
    FileInfo {
        name: "f".to_owned(),
        len_bytes: len * 4096,
        kind,
        level,
        group: None,
        extents: vec![BlockRange::new(Lba::new(start), Blocks::new(len))],
    }
}

fn example() -> ZoneMap {
    let pointer = |at| Lba::new(at);
    let states = [
        ZoneState::NoPointer,
        ZoneState::Full,
        ZoneState::Open { write_pointer: pointer(2250), explicit: false },
        ZoneState::Closed { write_pointer: pointer(3600) },
        ZoneState::Empty,
        ZoneState::Empty,
    ];
    let files = [
        file(FileKind::Table, 1, 1000, 900),
        // Crosses into zone 2.
        file(FileKind::Table, 2, 1950, 100),
        file(FileKind::Log, 0, 2050, 150),
    ];
    ZoneMap::new(&geometry(6), &zones(&states), &files, 100)
}

#[test]
fn files_are_cut_at_zone_ends() {
    let map = example();
    let live = |zone: usize| -> Vec<_> {
        map.cells[zone].live.iter().map(|(c, l)| (c.name(), l.get())).collect()
    };
    assert_eq!(live(1), [("level 1".to_owned(), 900), ("level 2".to_owned(), 50)]);
    assert_eq!(live(2), [("level 2".to_owned(), 50), ("log".to_owned(), 150)]);
    assert_eq!(map.dead().get(), 50 + 50 + 600);
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
            "        holds   1Lx",
            "",
        ]
    );
}

#[test]
fn many_zones_share_a_cell_that_shows_the_busiest_state() {
    let states: Vec<_> =
        (0..10).map(|at| if at == 7 { ZoneState::Full } else { ZoneState::Empty }).collect();
    let map = ZoneMap::new(&geometry(10), &zones(&states), &[], 4);
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
    assert_eq!(map.capacity().get(), 10 * ZONE_LEN);
}

#[test]
fn a_drive_without_zones_is_cut_into_stripes() {
    let spec = GeometrySpec { len: Blocks::new(6400), rule: Rule::Anywhere };
    let files = [file(FileKind::Table, 3, 150, 100)];
    let map = ZoneMap::new(&Geometry::new(spec).unwrap(), &[], &files, 100);
    assert_eq!(map.cells.len(), 64);
    assert_eq!(map.cells[1].written.get(), 50);
    assert_eq!(map.cells[2].written.get(), 50);
    assert_eq!(map.dead(), Blocks::ZERO);
}

#[test]
fn the_svg_is_well_formed_and_names_are_escaped() {
    for count in [6, 200, 3000] {
        let states = vec![ZoneState::Full; count];
        let map = ZoneMap::new(&geometry(count as u64), &zones(&states), &[], svg::CELL_COUNT_MAX);
        let drawn = svg::draw(&map, "a<b>&\"c\"", "8 GiB");
        assert_eq!(drawn.matches("<title>").count(), count);
        assert_eq!(drawn.matches("<g").count(), drawn.matches("</g>").count());
        assert!(drawn.contains("a&lt;b&gt;&amp;&quot;c&quot;"));
        assert!(!drawn.contains("NaN") && !drawn.contains("inf"));
    }
}
