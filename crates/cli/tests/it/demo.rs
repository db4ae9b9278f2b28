//! demo: the table of three stores, the drive that fits its records, the power cut.

use crate::imbrex;

#[test]
fn the_demo_compares_three_stores_survives_a_power_cut_and_fits_its_terminal() {
    let dir = tempfile::tempdir().unwrap();
    let text = imbrex(&["demo", "--dir", dir.path().to_str().unwrap()]).ok();
    // The path of the drive may be of any length.
    let lines = || text.lines().filter(|line| !line.contains("demo.imbrex"));
    assert!(lines().all(|line| line.chars().count() <= 80), "{text}");
    let figures = |layout: &str| -> Vec<f64> {
        let row = lines().find(|line| line.trim_start().starts_with(layout)).unwrap();
        let cells = row.trim().split("  ").filter(|cell| !cell.is_empty()).skip(1);
        cells.map(|cell| cell.trim().replace(' ', "").parse().unwrap()).collect()
    };
    let (banded, zones) = (figures("leveldb-banded "), figures("imbrex-zones "));
    assert!(banded.len() == 6 && banded[0] > 5.0 * zones[0], "{text}");
    for [_, _, with_log, without_log, space, _] in
        [banded, figures("leveled-zones "), zones].map(|row| <[f64; 6]>::try_from(row).unwrap())
    {
        assert!(without_log > 1.0 && (0.9..1.2).contains(&(with_log - without_log)), "{text}");
        assert!((1.0..2.5).contains(&space), "{text}");
    }
    assert!(text.contains("recovered: all 500 synced writes"), "{text}");
    // `55 zones of 256 KiB: 23 empty, 3 open`
    let map = lines().find(|line| line.contains(" zones of ") && line.contains(" empty")).unwrap();
    let numbers = |word: &str| {
        let before = map.split(word).next().unwrap();
        before.split_whitespace().last().unwrap().parse::<u64>().unwrap()
    };
    assert!(numbers(" empty") * 3 < numbers(" zones of") * 2, "{map}");
    let drive = dir.path().join("demo.imbrex");
    imbrex(&["check", drive.to_str().unwrap()]).ok();
}
