//! Layouts: each makes a working store on a drive that suits it, and every misuse is reported.

use crate::{Ran, copy_sparse, imbrex, imbrex_with, json_lines, value};
use imbrex_clockwork::share_of;
use std::path::{Path, PathBuf};

/// The list of `imbrex layouts`: names, the recordings that they suit, and whether they take flash.
fn layouts() -> Vec<(String, String, bool)> {
    let listed = imbrex(&["layouts", "--format", "json"]).json();
    let text = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
    listed
        .as_array()
        .unwrap()
        .iter()
        .map(|layout| {
            let takes_flash = layout["flash"].as_bool().unwrap();
            (text(&layout["name"]), text(&layout["recording"]), takes_flash)
        })
        .collect()
}

/// A directory of drives.
struct Shelf {
    dir: tempfile::TempDir,
}

impl Shelf {
    fn new() -> Shelf {
        Shelf { dir: tempfile::tempdir().unwrap() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn create(&self, name: &str, args: &[&str]) -> Ran {
        let path = self.path(name);
        imbrex(&[&["drive", "create", path.to_str().unwrap(), "--no-timing"], args].concat())
    }
}

fn on(command: &[&str], path: &Path, args: &[&str]) -> Ran {
    imbrex(&[command, &[path.to_str().unwrap()], args].concat())
}

fn load(path: &Path, count: usize, round: usize, args: &[&str]) -> Ran {
    let text = json_lines(count, round);
    imbrex_with(text.as_bytes(), &[&["load", path.to_str().unwrap(), "-"], args].concat())
}

#[test]
fn layouts_are_listed_one_per_line() {
    let text = imbrex(&["layouts"]).ok();
    let (text, note) = text.split_once("\n\n").unwrap();
    assert!(note.contains("at 64 MiB, 80 % instead of 90 %"), "{note}");
    let layouts = layouts();
    assert_eq!(text.lines().count(), layouts.len() + 1, "{text}");
    for ((name, recording, _), line) in layouts.iter().zip(text.lines().skip(1)) {
        assert!(line.starts_with(name.as_str()) && line.contains(recording.as_str()), "{line}");
        let has_share = line.contains(" % ") || line.contains(" ? ");
        assert!(has_share, "how full the drive may be: {line}");
    }
}

#[test]
fn each_makes_a_store_that_reopens_checks_and_draws() {
    const COUNT: usize = 2_000;
    let shelf = Shelf::new();
    let flash = shelf.path("flash");
    for (layout, recording, takes_flash) in share_of(layouts()) {
        let layout = layout.as_str();
        let path = shelf.path(layout);
        let with: &[&str] = if takes_flash { &["--flash", flash.to_str().unwrap()] } else { &[] };
        let as_layout = [with, &["--layout", layout]].concat();
        let on = |command: &[&str], path: &Path, args: &[&str]| {
            on(command, path, &[with, args].concat())
        };
        shelf.create(layout, &[&as_layout[..], &["--capacity", "8GiB"]].concat()).ok();
        for round in 0..2 {
            load(&path, COUNT, round, &as_layout).ok();
        }
        on(&["delete"], &path, &["key000000"]).ok();
        on(&["compact"], &path, &["--layout", layout]).ok();
        let scanned = on(&["scan"], &path, &[]).ok();
        let expected: String =
            (1..COUNT).map(|n| format!("key{n:06}\t{}\n", value(n, 1))).collect();
        assert!(scanned == expected, "{layout}");
        on(&["check"], &path, &["--layout", layout]).ok();
        let info = on(&["drive", "info"], &path, &["--format", "json"]).json();
        assert_eq!((&info["layout"], &info["recording"]), (&layout.into(), &recording.into()));
        assert_eq!(on(&["stats"], &path, &["--format", "json"]).json()["layout"], layout);
        assert!(on(&["dump"], &path, &["catalog"]).ok().contains(layout));
        on(&["drive", "zones"], &path, &["--layout", layout]).ok();
        let svg = shelf.path("picture.svg");
        on(&["drive", "zones"], &path, &["--svg", svg.to_str().unwrap()]).ok();
        assert!(std::fs::read_to_string(svg).unwrap().contains(layout));
        std::fs::remove_file(path).unwrap();
        if takes_flash {
            std::fs::remove_file(&flash).unwrap();
        }
    }
}

#[test]
fn stats_show_what_flash_holds_and_its_wear() {
    let shelf = Shelf::new();
    let (path, flash) = (shelf.path("d"), shelf.path("flash"));
    let with = ["--flash", flash.to_str().unwrap()];
    let layout = ["--layout", "imbrex-flash", "--capacity", "512MiB", "--zone-len", "4MiB"];
    shelf.create("d", &[&with[..], &layout[..]].concat()).ok();
    let written = |period: &str| {
        let stats = on(&["stats"], &path, &[&with[..], &["--format", "json"]].concat()).json();
        stats[period]["flash_written_bytes"].as_u64().unwrap_or(0)
    };
    // Shorter than a memtable: the compaction flushes it, the second time over keys that are there.
    for round in 0..2 {
        load(&path, 2_000, round, &with).ok();
        on(&["compact"], &path, &with).ok();
    }
    let stats = on(&["stats"], &path, &with).ok();
    for line in ["flash drive ", "the flash drive did", "  wear, of its writes "] {
        assert!(stats.contains(line), "{line}: {stats}");
    }
    assert!(written("lifetime") > 0);
}

#[test]
fn a_drive_opens_only_with_its_own_flash_drive() {
    let shelf = Shelf::new();
    let (path, flash, other) = (shelf.path("d"), shelf.path("flash"), shelf.path("other"));
    let with = |flash: &Path| ["--flash".to_owned(), flash.to_str().unwrap().to_owned()];
    let create = |name: &str, args: &[&str]| {
        let small = ["--layout", "smrdb-offload", "--capacity", "512MiB", "--zone-len", "4MiB"];
        shelf.create(name, &[&small[..], args].concat())
    };
    let flash_arg = with(&flash);
    let flash_arg: Vec<&str> = flash_arg.iter().map(String::as_str).collect();
    create("d", &[]).fails(2, &["smrdb-offload takes a flash drive", "--flash FILE"]);
    create("d", &[&flash_arg[..], &["--flash-size", "2MiB"]].concat())
        .fails(2, &["the flash drive is too small", "a log gets as long as 4.00 MiB"]);
    assert!(!path.exists() && !flash.exists(), "nothing is left of a drive that was not made");
    shelf
        .create("d", &[&flash_arg[..], &["--layout", "smrdb", "--capacity", "512MiB"]].concat())
        .fails(2, &["smrdb has no use for a flash drive", "choose smrdb-offload"]);
    create("d", &flash_arg).ok();
    let other_arg = with(&other);
    let other_arg: Vec<&str> = other_arg.iter().map(String::as_str).collect();
    create("d2", &other_arg).ok();

    on(&["put"], &path, &[&flash_arg[..], &["k", "v"]].concat()).ok();
    let line =
        on(&["get"], &path, &["k"]).fails(4, &["was not given", "name it with --flash FILE"]);
    assert!(line.contains("--without-flash"), "{line}");
    let drive = path.to_str().unwrap();
    imbrex(&["bench", "--benchmarks", "fillrandom", "--num", "9", "--drive", drive])
        .fails(4, &["was not given", "name it with --flash FILE"]);
    let properties = ["recordcount=50".to_owned(), format!("imbrex.drive={drive}")];
    let flash_property = format!("imbrex.flash={}", flash.display());
    let load = ["ycsb", "load", "-p", &properties[0], "-p", &properties[1]];
    imbrex(&load).fails(4, &["was not given", "name it with --flash FILE"]);
    let told = imbrex(&[&load[..], &["-p", &flash_property]].concat()).ok();
    assert!(told.contains("[INSERT], Return=OK, 50\n"), "{told}");
    on(&["get"], &path, &[&other_arg[..], &["k"]].concat()).fails(4, &["the wrong flash drive"]);
    on(&["get"], &path, &["--flash", path.to_str().unwrap(), "k"]).fails(4, &["open"]);
    on(&["get"], &flash, &["k"]).fails(4, &["it is the flash drive of a pair"]);
    assert_eq!(on(&["get"], &path, &[&flash_arg[..], &["k"]].concat()).ok(), "v");
    let both = [&flash_arg[..], &["--without-flash", "k"]].concat();
    on(&["get"], &path, &both).fails_clap_with("cannot be used with");

    let stats = on(&["stats"], &path, &[&flash_arg[..], &["--format", "json"]].concat()).json();
    assert_eq!(stats["flash"]["files"], 0, "{stats}");
    let zones = on(&["drive", "zones"], &path, &flash_arg).ok();
    assert!(zones.contains("\nflash\n"), "{zones}");
    on(&["check"], &path, &flash_arg).ok();
    let info = on(&["drive", "info"], &path, &flash_arg).ok();
    assert!(info.contains("flash"), "{info}");

    // Without flash the drive can be read, and is not written.
    let before = shelf.path("before");
    copy_sparse(&path, &before);
    for command in [&["check"][..], &["dump"], &["drive", "info"], &["drive", "zones"]] {
        on(command, &path, &["--without-flash"]).ok();
    }
    on(&["put"], &path, &["--without-flash", "k", "w"]).fails(4, &["for reading only"]);
    let ran = on(&["get"], &path, &["--without-flash", "k"]);
    let warning = ran.stderr.clone();
    assert!(warning.contains("0 of its tables and logs are left out"), "{warning}");
    assert_eq!(ran.ok(), "v");
    assert!(std::fs::read(&path).unwrap() == std::fs::read(&before).unwrap());
    assert_eq!(on(&["get"], &path, &[&flash_arg[..], &["k"]].concat()).ok(), "v");
}

#[test]
fn a_drive_opens_only_as_its_recorded_layout() {
    let shelf = Shelf::new();
    let path = shelf.path("d");
    let small = ["--capacity", "64MiB", "--zone-len", "1MiB"];
    shelf.create("d", &[&small[..], &["--layout", "leveldb-greedy"]].concat()).ok();
    on(&["put"], &path, &["k", "v"]).ok();
    let before = shelf.path("before");
    copy_sparse(&path, &before);
    for (command, args) in [
        (&["get"][..], &["k"][..]),
        (&["put"], &["k", "w"]),
        (&["delete"], &["k"]),
        (&["scan"], &[]),
        (&["stats"], &[]),
        (&["compact"], &[]),
        (&["check"], &[]),
        (&["dump"], &[]),
        (&["drive", "info"], &[]),
        (&["drive", "zones"], &[]),
    ] {
        let args = [args, &["--layout", "leveled-zones"]].concat();
        let line = on(command, &path, &args).fails(
            4,
            &["holds layout leveldb-greedy, not leveled-zones", "open it as leveldb-greedy"],
        );
        assert!(line.contains(path.to_str().unwrap()), "{line}");
    }
    load(&path, 10, 0, &["--layout", "leveled-zones"]).fails(4, &["holds layout leveldb-greedy"]);
    let same = std::fs::read(&path).unwrap() == std::fs::read(&before).unwrap();
    assert!(same, "a refused drive is not touched");
    assert_eq!(on(&["get"], &path, &["k", "--layout", "leveldb-greedy"]).ok(), "v");
}

#[test]
fn an_unknown_layout_is_answered_with_the_nearest_and_all() {
    let shelf = Shelf::new();
    let nearest = ["no layout \"leveldb-gredy\"", "did you mean leveldb-greedy?", "leveled-zones"];
    shelf.create("d", &["--layout", "leveldb-gredy"]).fails(2, &nearest);
    assert!(!shelf.path("d").exists());
    // The error comes before any drive is opened: there is none.
    on(&["get"], &shelf.path("d"), &["k", "--layout", "leveldb-gredy"]).fails(2, &nearest);
    imbrex(&["bench", "--layout", "leveldb-gredy"]).fails(2, &nearest);
    imbrex(&["demo", "--layout", "leveldb-gredy"]).fails(2, &nearest);
    shelf.create("d", &["--layout", "a house of cards"]).fails(2, &["there are imbrex-zones"]);
}

#[test]
fn an_unsuitable_drive_is_refused_with_advice() {
    let shelf = Shelf::new();
    for (profile, layout, parts) in [
        (
            "st1000dm003",
            "leveldb-greedy",
            ["for zoned drives and this one is conventional", "leveldb-cmr"],
        ),
        (
            "hc620",
            "leveldb-cmr",
            ["for conventional drives and this one is zoned", "leveldb-greedy"],
        ),
    ] {
        let args = ["--profile", profile, "--layout", layout, "--capacity", "4GiB"];
        shelf.create("d", &args).fails(2, &parts);
        assert!(!shelf.path("d").exists());
    }
    // Drives of the same size with another recording are accepted.
    let args = ["--profile", "hc620", "--rule", "conventional", "--layout", "leveldb-cmr"];
    shelf.create("cmr", &[&args[..], &["--capacity", "1GiB"]].concat()).ok();
    shelf
        .create("d", &["--rule", "shingeled"])
        .fails_clap_with("the recordings are conventional, zoned");
    shelf
        .create("d", &["--track-len", "1MiB"])
        .fails(2, &["--track-len is for shingled and interlaced drives"]);
    shelf
        .create("d", &["--layout", "leveldb-cmr", "--zone-len", "1MiB"])
        .fails(2, &["--zone-len is for zoned drives"]);
}

#[test]
fn a_drive_that_is_too_small_is_refused_at_its_creation() {
    let shelf = Shelf::new();
    let (mut refused_count, mut made_count) = (0, 0);
    let flash = shelf.path("flash");
    for (layout, recording, takes_flash) in share_of(layouts()) {
        let with: &[&str] = if takes_flash { &["--flash", flash.to_str().unwrap()] } else { &[] };
        let on = |command: &[&str], path: &Path, args: &[&str]| {
            on(command, path, &[with, args].concat())
        };
        let sizes = [("1MiB", "1MiB"), ("16MiB", "1MiB"), ("1GiB", "256MiB"), ("1GiB", "64MiB")];
        for (capacity, zone_len) in sizes {
            let what = format!("{layout}, {capacity}, zones of {zone_len}");
            let mut args = vec!["--layout", layout.as_str(), "--capacity", capacity];
            if recording == "zoned" {
                args.extend(["--zone-len", zone_len]);
            }
            args.extend(with);
            let path = shelf.path("small");
            let made = shelf.create("small", &args);
            assert!(matches!(made.code, Some(0 | 2)), "{what}: {}", made.stderr);
            if made.code == Some(2) {
                made.fails(2, &["cannot"]);
                assert!(!path.exists(), "{what}");
                refused_count += 1;
                continue;
            }
            made_count += 1;
            on(&["put"], &path, &["first", "1"]).ok();
            let loaded = load(&path, 5_000, 0, with);
            match loaded.code {
                Some(0) => _ = loaded.ok(),
                _ => _ = loaded.fails(4, &["no space", "larger drive"]),
            }
            assert_eq!(on(&["get"], &path, &["first"]).ok(), "1", "{what}");
            on(&["check"], &path, &[]).ok();
            on(&["delete"], &path, &["--prefix", "key"]).ok();
            on(&["compact"], &path, &[]).ok();
            on(&["put"], &path, &["last", "1"]).ok();
            std::fs::remove_file(path).unwrap();
            if takes_flash {
                std::fs::remove_file(&flash).unwrap();
            }
        }
    }
    assert!(refused_count > 0 && made_count > 0, "{refused_count} refused, {made_count} made");
}

#[test]
fn zones_are_shortened_for_a_small_drive_and_the_least_length_is_named() {
    let shelf = Shelf::new();
    for content in [&[][..], &["--no-store"]] {
        let made = shelf.create("d", &[&["--capacity", "1GiB"], content].concat());
        let note = "note: zones of 16.0 MiB instead of 256 MiB";
        assert!(made.stderr.contains(note), "{}", made.stderr);
        assert!(made.ok().contains("64 of 16.0 MiB, "));
        std::fs::remove_file(shelf.path("d")).unwrap();
    }
    let named = ["--capacity", "1GiB", "--zone-len", "256MiB"];
    shelf.create("d", &named).fails(2, &["1 GiB with zones of 256 MiB", "or zones of 16 MiB"]);
    let refused = shelf.create("d", &["--capacity", "1MiB"]);
    let least = refused.stderr.split("; use ").nth(1).unwrap().split(" or more").next().unwrap();
    let least = least.replace(' ', "");
    refused.fails(2, &["too small for layout imbrex-zones"]);
    shelf.create("d", &["--capacity", &least]).ok();
}

#[test]
fn benchmarks_run_on_each() {
    for (layout, ..) in layouts() {
        let args = ["--benchmarks=fillrandom,readrandom", "--num=2000", "--capacity=8GiB"];
        let layout_arg = format!("--layout={layout}");
        let report =
            imbrex(&[&["bench", "--format=json", layout_arg.as_str()], &args[..]].concat()).json();
        assert_eq!(report["setup"]["layout"], layout.as_str());
        assert_eq!(report["runs"][1]["ops"], 2000);
    }
    let shelf = Shelf::new();
    shelf.create("d", &["--layout", "leveldb-greedy", "--capacity", "4GiB"]).ok();
    let drive = format!("--drive={}", shelf.path("d").display());
    let report = imbrex(&["bench", "--num=1000", "--format=json", &drive]).json();
    assert_eq!(report["setup"]["layout"], "leveldb-greedy");
    imbrex(&["bench", "--num=1000", &drive, "--layout=leveled-zones"])
        .fails(4, &["holds layout leveldb-greedy"]);
}

impl Ran {
    #[track_caller]
    fn fails_clap_with(self, part: &str) {
        assert_eq!(self.code, Some(2), "{}", self.stderr);
        assert!(
            self.stderr.starts_with("error: ") && self.stderr.contains(part),
            "{}",
            self.stderr
        );
    }
}
