//! Every layout on the shortest drive that it accepts, and the error for a shorter one.

use super::*;
use crate::stack::Recording;
use imbrex_clockwork::{Order, Prng, Runtime};
use imbrex_engine::Db;
use imbrex_files::{FileKind, Hints};
use imbrex_filesystem::{FileSystem, FsOptions, Writer};

const PATH: &str = "disk.imbrex";
const MIB: u64 = 1 << 20;

fn shape(capacity_bytes: u64) -> Shape {
    Shape { capacity_bytes: Some(capacity_bytes), ..Shape::default() }
}

/// Bands are much shorter than usual, and so are the tracks below them: a test has no time to write 40 MiB anew for each table.
fn formatting(layout: Layout, geometry: &Geometry) -> Result<Formatting, Error> {
    let mut formatting = Formatting::new(Path::new(PATH), geometry, Some(layout), 7)?;
    if let Some(bands) = &mut formatting.recipe.bands {
        bands.band_len = Blocks::holding(2 * MIB);
    }
    Ok(formatting)
}

type Rehearse = fn(&Formatting, Drives) -> Result<(), Error>;

fn fitted(layout: Layout, shape: &Shape, rehearse: Rehearse) -> Result<Fitted, Error> {
    let trial = |geometry: &Geometry| {
        let formatting = formatting(layout, geometry)?;
        rehearse(&formatting, blank_drives(&formatting, geometry, None)?)
    };
    let track_len_bytes = layout.name().ends_with("-banded").then_some(16 << 10);
    let shape = Shape { track_len_bytes, ..shape.clone() };
    shape.fitted(None, Some(layout), Path::new(PATH), Some(&trial))
}

/// The length in "use 53.75 MiB or more".
fn least_in(error: &Error) -> u64 {
    let text = error.to_string();
    let (_, rest) = text.rsplit_once("; use ").unwrap_or_else(|| panic!("{text}"));
    let (number, rest) = rest.split_once(' ').unwrap();
    let unit = if rest.starts_with("GiB") { 1 << 30 } else { MIB };
    assert!(rest.starts_with("GiB or more") || rest.starts_with("MiB or more"), "{text}");
    (number.parse::<f64>().unwrap() * unit as f64) as u64
}

/// The least drive for `layout`: the error of one of 1 MiB names it, and the error of one that is a step shorter agrees.
fn least(layout: Layout, rehearse: Rehearse) -> (Formatting, Geometry) {
    let refused = |len_bytes| fitted(layout, &shape(len_bytes), rehearse).unwrap_err();
    let error = refused(MIB);
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    let least = least_in(&error);
    let geometry = fitted(layout, &shape(least), rehearse).unwrap().profile.geometry();
    assert_eq!(geometry.len().bytes(), least, "{error}");
    let step = geometry.zones().map_or(MIB, |zones| zones.zone_len.bytes());
    let shorter = refused((least - step).max(MIB));
    assert_eq!(least_in(&shorter), least, "{shorter}");
    (formatting(layout, &geometry).unwrap(), geometry)
}

fn runtime() -> Runtime {
    Runtime::virtual_time(Order::SmallestTime).0
}

fn value(key: u64) -> [u8; 1000] {
    let mut value = [0; 1000];
    Prng::new(key).fill(&mut value);
    value
}

fn check_ends(db: &Db, count: u64) {
    for key in [0, count / 2, count - 1] {
        let found = db.default_keyspace().get(format!("{key:016}")).unwrap();
        assert!(found.as_deref() == Some(&value(key)[..]), "{key} of {count}");
    }
}

#[test]
fn half_of_the_least_drive_can_be_filled_or_a_third_of_a_coarse_one() {
    for layout in Layout::all() {
        let (formatting, geometry) = least(layout, Formatting::rehearse_store);
        let drives = blank_drives(&formatting, &geometry, None).unwrap();
        let stack = formatting.store(drives.clone(), &runtime()).unwrap();
        // Tables that take whole zones leave parts of them, and sets have guards.
        let is_coarse = ["band-per-table", "dynamic-bands"].contains(&layout.placement());
        let share = if is_coarse { 3 } else { 2 };
        let count = geometry.len().bytes() / share / 1016;
        for key in 0..count {
            let put = stack.db.default_keyspace().put(format!("{key:016}"), value(key));
            put.unwrap_or_else(|error| panic!("{layout}, {geometry:?}, {key} of {count}: {error}"));
        }
        stack.db.flush().unwrap();
        stack.db.default_keyspace().compact_range(None, None).unwrap();
        check_ends(&stack.db, count);
        stack.close().unwrap();
        let stack = layout.open_with(drives, &runtime(), &formatting.recipe).unwrap();
        check_ends(&stack.db, count);
        stack.db.default_keyspace().put("last", "1").unwrap();
        stack.close().unwrap();
    }
}

/// Two write-ahead logs, two manifests and an info log stay open; tables of all levels take turns.
#[test]
fn a_third_of_the_least_drive_for_another_database_can_be_filled() {
    for layout in Layout::all().filter(|layout| !layout.takes_flash()) {
        let (formatting, geometry) = least(layout, Formatting::rehearse_foreign_files);
        let drives = blank_drives(&formatting, &geometry, None).unwrap();
        let mounted = formatting.foreign_files(drives, &runtime()).unwrap();
        let options = FsOptions { unix_time_s: || 0 };
        let fs = FileSystem::open(mounted.all_files(), options).unwrap();
        let write = |path: &str, hints: Hints, len: usize| -> Writer {
            let writer = fs.create(path, hints).unwrap();
            let written = writer.append(&vec![7; len]).and_then(|()| writer.sync());
            written.unwrap_or_else(|error| panic!("{layout}, {geometry:?}, {path}: {error}"));
            writer
        };
        let _logs: Vec<_> =
            (0..5).map(|n| write(&format!("/log{n}"), Hints::new(FileKind::Log), 4096)).collect();
        let len_bytes = geometry.zones().map_or(MIB, |zones| zones.zone_len.bytes() / 2);
        let is_alone = layout.placement() == "band-per-table";
        let len_bytes = if is_alone { 2 * len_bytes } else { len_bytes };
        for n in 0..geometry.len().bytes() / 3 / len_bytes {
            let hints = Hints { level: (n % 7) as u8, ..Hints::new(FileKind::Table) };
            write(&format!("/table{n}"), hints, len_bytes as usize).close().unwrap();
        }
    }
}

#[test]
fn zones_are_shortened_only_where_no_length_is_asked_for() {
    let zones = Layout::by_name("leveled-zones").unwrap();
    let fit = |shape: &Shape| fitted(zones, shape, Formatting::rehearse_store);
    let kept = fit(&shape(16 << 30)).unwrap();
    assert_eq!(kept.shortened_from, None);
    assert_eq!(kept.profile.geometry().zones().unwrap().zone_len.bytes(), 256 * MIB);
    let shorter = fit(&shape(1 << 30)).unwrap();
    assert_eq!(shorter.shortened_from.map(Blocks::bytes), Some(256 * MIB));
    let zone_len = shorter.profile.geometry().zones().unwrap().zone_len.bytes();
    assert_eq!(zone_len, 16 * MIB, "64 zones");
    let named = |zone_len| Shape { zone_len_bytes: Some(zone_len), ..shape(1 << 30) };
    let error = fit(&named(256 * MIB)).unwrap_err().to_string();
    let advice = format!("or zones of {}", Exact(zone_len));
    assert!(error.contains("1 GiB with zones of 256 MiB is too small"), "{error}");
    assert!(error.ends_with(&advice), "{error}: no {advice:?}");
    let fitting = fit(&named(zone_len)).unwrap();
    assert_eq!(
        (fitting.shortened_from, fitting.profile.geometry()),
        (None, shorter.profile.geometry())
    );
}

/// A refusal with another cause is passed on: no length mends it.
#[test]
fn other_refusals_stay_as_they_are() {
    let gear = Layout::by_name("gear").unwrap();
    let conventional = Shape { recording: Some(Recording::Conventional), ..shape(8 << 30) };
    let error = fitted(gear, &conventional, Formatting::rehearse_store).unwrap_err().to_string();
    assert!(error.contains("gear cannot use this drive"), "{error}");
    let trial = |_: &Geometry| Err(Error::new(ErrorKind::Io, "the drive is gone"));
    let error = shape(8 << 30).fitted(None, None, Path::new(PATH), Some(&trial)).unwrap_err();
    assert_eq!(error.to_string(), "the drive is gone");
    let error =
        shape(1 << 60).fitted(None, None, Path::new(PATH), Some(&trial)).unwrap_err().to_string();
    assert!(error.contains("it must be between"), "{error}");
}

#[test]
fn lengths_are_exact() {
    let shown = |len_bytes| Exact(len_bytes).to_string();
    assert_eq!(shown(24 * MIB), "24 MiB");
    assert_eq!(shown(1536 * MIB), "1.5 GiB");
    assert_eq!(shown(55040 << 10), "53.75 MiB");
    assert_eq!(shown(15_000_173_281_280), "13970 GiB");
    assert_eq!(shown(1001), "1001 bytes");
}
