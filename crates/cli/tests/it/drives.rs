//! drive create, info, bench, zones; stats, check, compact, dump.

use crate::{Drive, imbrex, json_lines};
use imbrex_clockwork::Prng;

#[test]
fn a_new_drive_is_described_and_takes_little_space() {
    let drive = Drive::new();
    let info = imbrex(&["drive", "info", drive.path_str(), "--format", "json"]).json();
    assert_eq!(info["capacity"], 4_u64 << 30);
    assert_eq!(info["recording"], "zoned");
    assert_eq!(info["zones"]["count"], 64);
    assert!(info["on_the_host"].as_u64().unwrap() < 4 << 20, "{info}");
    let text = imbrex(&["drive", "info", drive.path_str()]).ok();
    assert!(text.contains("64 of 64.0 MiB, 2 of them conventional"), "{text}");
}

#[test]
fn the_same_seed_makes_the_same_image() {
    let dir = tempfile::tempdir().unwrap();
    let images = ["a", "b"].map(|name| {
        let path = dir.path().join(name);
        let path = path.to_str().unwrap();
        imbrex(&[
            "drive",
            "create",
            path,
            "--capacity",
            "2GiB",
            "--zone-len",
            "1MiB",
            "--seed",
            "7",
        ])
        .ok();
        imbrex(&["drive", "info", path, "--format", "json"]).json()["image_id"].clone()
    });
    assert_eq!(images[0], images[1]);
}

#[test]
fn a_profile_is_compared_with_its_published_figures() {
    let measured = imbrex(&["drive", "bench", "hc620", "--format", "json"]).json();
    let figures = measured["figures"].as_array().unwrap();
    let published: Vec<_> = figures.iter().filter(|f| !f["published"].is_null()).collect();
    assert!(published.len() >= 3, "{measured}");
    for figure in published {
        let ratio = figure["ratio"].as_f64().unwrap();
        assert!((0.9..=1.1).contains(&ratio), "{figure}");
    }
    let text = imbrex(&["drive", "bench", "st1000dm003"]).ok();
    assert!(text.contains("measured") && text.contains("published"), "{text}");
    imbrex(&["drive", "bench", "nosuch"]).fails(2, &["nosuch", "st1000dm003"]);
}

#[test]
fn the_drive_is_drawn_as_text_svg_and_json() {
    let drive = Drive::new();
    drive.run_with(json_lines(1000, 0).as_bytes(), "load", &["-"]).ok();
    drive.run("compact", &[]).ok();
    let text = imbrex(&["drive", "zones", drive.path_str()]).ok();
    assert!(text.starts_with("64 zones of 64.0 MiB: 2 conventional"), "{text}");
    assert!(text.contains("level "), "{text}");
    let svg = drive.beside("map.svg");
    let svg = svg.to_str().unwrap();
    let to_svg = ["drive", "zones", drive.path_str(), "--svg", svg];
    assert_eq!(imbrex(&to_svg).ok(), format!("{svg}: written\n"));
    let told = imbrex(&[&to_svg[..], &["--format", "json"]].concat()).json();
    assert_eq!(told, serde_json::json!({ "svg": svg }));
    let svg = std::fs::read_to_string(svg).unwrap();
    assert!(svg.matches("<title>").count() > 4, "empty zones are one strip");
    let json = imbrex(&["drive", "zones", drive.path_str(), "--format", "json"]).json();
    assert_eq!(json["zones"].as_array().unwrap().len(), 64);
}

#[test]
fn stats_check_and_compact_print_reports() {
    let drive = Drive::new();
    drive.run_with(json_lines(1000, 0).as_bytes(), "load", &["-"]).ok();
    drive.run_with(json_lines(1000, 1).as_bytes(), "load", &["-"]).ok();
    drive.run("compact", &[]).ok();
    let stats = drive.run("stats", &["--format", "json"]).json();
    let levels = stats["keyspace_default"].as_object().unwrap();
    let entries: u64 = levels.values().filter_map(|level| level["entry_count"].as_u64()).sum();
    assert_eq!(entries, 1000, "one version of each key is left: {stats}");
    let check = drive.run("check", &["--format", "json"]).json();
    assert_eq!(check["checked"]["entries"], 1000);
    assert_eq!(check["result"]["findings"], serde_json::json!([]));
    drive.run("compact", &["--keyspace", "nosuch"]).fails(4, &["nosuch"]);
}

#[test]
fn stats_fit_a_screen_and_remember_earlier_commands() {
    let drive = Drive::new();
    let lifetime = |name: &str| {
        let stats = drive.run("stats", &["--format", "json"]).json();
        stats["lifetime"][name].as_u64().unwrap()
    };
    assert_eq!(lifetime("user_writes"), 0);
    drive.run_with(json_lines(1000, 0).as_bytes(), "load", &["-"]).ok();
    assert_eq!(lifetime("user_writes"), 1000);
    drive.run("put", &["k", "v"]).ok();
    assert_eq!(lifetime("user_writes"), 1001);
    let written = lifetime("drive_written_bytes");
    drive.run("scan", &[]).ok();
    drive.run("stats", &[]).ok();
    assert!(lifetime("drive_written_bytes") >= written && lifetime("user_writes") == 1001);

    let text = drive.run("stats", &[]).ok();
    let titles: Vec<_> =
        text.lines().filter(|line| line.starts_with("the ")).map(|line| &line[..9]).collect();
    assert_eq!(titles, ["the store", "the store", "the drive"], "{text}");
    assert!(text.lines().count() <= 40 && text.lines().all(|line| line.len() <= 80), "{text}");
    assert!(text.contains("1 sorted run\n") && text.contains("1 001, "), "{text}");
    assert!(!text.contains("cleaned"), "zeros are left out: {text}");
    let all = drive.run("stats", &["--all"]).ok();
    assert!(all.contains("cleaned zones") && all.contains("\nlifetime\n"), "{all}");
}

/// Only the last of such names was reported.
#[test]
fn keyspaces_with_similar_names_are_all_reported() {
    const NAMES: [&str; 4] = ["Users", "users", "a-b", "a_b"];
    let drive = Drive::new();
    for (name, count) in NAMES.into_iter().zip(1..) {
        let args = ["-", "--keyspace", name];
        drive.run_with(json_lines(count, 0).as_bytes(), "load", &args).ok();
    }
    let stats = drive.run("stats", &["--format", "json"]).json();
    for (name, count) in NAMES.into_iter().zip(1..) {
        let levels = stats[format!("keyspace_{name}")].as_object().unwrap();
        let entries: u64 = levels.values().filter_map(|level| level["entry_count"].as_u64()).sum();
        assert_eq!(entries, count, "{name}: {stats}");
    }
}

#[test]
fn everything_on_the_drive_can_be_dumped() {
    let drive = Drive::new();
    drive.run_with(json_lines(100, 0).as_bytes(), "load", &["-"]).ok();
    drive.run("compact", &[]).ok();
    drive.run("put", &["last", "in the log"]).ok();
    let files = drive.run("dump", &["--format", "json"]).json();
    let mut kinds = Vec::new();
    for file in files.as_array().unwrap() {
        let name = file["name"].as_str().unwrap();
        let words = drive.run("dump", &[name]).ok();
        match file["kind"].as_str().unwrap() {
            "table" => assert!(words.contains("key000042"), "{words}"),
            "log" => assert!(words.contains("log"), "{words}"),
            other => panic!("{name} is of kind {other}"),
        }
        kinds.push(file["kind"].as_str().unwrap().to_owned());
    }
    assert!(kinds.contains(&"table".to_owned()) && kinds.contains(&"log".to_owned()), "{kinds:?}");
    assert!(drive.run("dump", &["image"]).ok().contains("zone 1"));
    assert!(drive.run("dump", &["catalog"]).ok().contains("checkpoint"));
    assert!(drive.run("dump", &["versions"]).ok().contains("level"));
    drive.run("dump", &["nosuch"]).fails(1, &["no file named \"nosuch\""]);
}

#[test]
fn a_benchmark_is_repeatable() {
    let args = ["bench", "--benchmarks=fillrandom,readrandom", "--num=2000", "--format=json"];
    let [first, second] = [0, 1].map(|_| imbrex(&args).json());
    let runs = first["runs"].as_array().unwrap();
    assert_eq!(runs.len(), 2, "{first}");
    for run in 0..2 {
        for figure in ["drive", "latency"] {
            assert_eq!(first["runs"][run][figure], second["runs"][run][figure], "{figure}");
        }
    }
    let text = imbrex(&["bench", "--benchmarks=fillseq", "--num=1000"]).ok();
    assert!(text.contains("fillseq"), "{text}");
    imbrex(&["bench", "--num=0"]).fails(2, &["--num is 0"]);
}

/// Benchmarks wrote into the user's keyspace `bench`, and dropped it for the second fill. The first fill of the next
/// run was written over the data of the run before.
#[test]
fn benchmarks_use_their_own_keyspace() {
    let drive = Drive::new();
    drive.run_with(json_lines(10, 0).as_bytes(), "load", &["-", "--keyspace", "bench"]).ok();
    let count = |keyspace: &str| {
        drive.run("scan", &["--keyspace", keyspace, "--format", "json"]).ok().lines().count()
    };
    let bench = |args: &[&str]| {
        imbrex(&[&["bench", "--drive", drive.path_str()], args].concat()).ok();
        assert_eq!(count("bench"), 10, "{args:?}");
        count("imbrex-bench")
    };
    assert_eq!(bench(&["--benchmarks", "fillrandom,fillseq", "--num", "1000"]), 1000);
    assert_eq!(bench(&["--benchmarks", "readseq", "--num", "1000"]), 1000);
    let keeps = ["--benchmarks", "fillseq", "--num", "500", "--use_existing_db"];
    assert_eq!(bench(&keeps), 1000);
    assert_eq!(bench(&["--benchmarks", "fillseq", "--num", "500"]), 500);
}

/// `bench` refused `1.5G`, and `drive create` refused `64gb`.
#[test]
fn every_command_reads_sizes_as_people_write_them() {
    let dir = tempfile::tempdir().unwrap();
    for (n, size, len_bytes) in [
        (0, "0.5gb", 1 << 28),
        (1, "256MiB", 1 << 28),
        (2, "256 mib", 1 << 28),
        (3, "0.25G", 1 << 28),
    ] {
        let path = dir.path().join(n.to_string());
        let args =
            ["drive", "create", path.to_str().unwrap(), "--zone-len", "4m", "--capacity", size];
        let told = imbrex(&[&args[..], &["--no-timing", "--format", "json"]].concat()).json();
        let capacity = told["capacity"].as_u64().unwrap();
        assert!((len_bytes..=500_000_000).contains(&capacity), "{size}: {capacity}");
    }
    for args in [
        &["drive", "create", "never", "--capacity", "8XB"][..],
        &["drive", "create", "never", "--zone-len", "8XB"],
        &["bench", "--capacity", "8XB"],
        &["bench", "--value_size", "8XB"],
        &["bench", "--write_buffer_size", "8XB"],
        &["bench", "shares", "--value_size", "8XB"],
        &["bench", "arrivals", "--capacity", "8XB"],
        &["replay", "bundled:vm", "--buffer", "8XB"],
        &["serve", "--memory", "8XB"],
    ] {
        let refused = imbrex(args);
        assert_eq!(refused.code, Some(2), "{args:?}: {}", refused.stderr);
        let want = "\"8XB\" is not a size; write a number and a unit, such as 64MiB, 1.5GB or 30TB";
        assert!(refused.stderr.contains(want), "{args:?}: {}", refused.stderr);
    }
}

/// Which devices there are depends on the machine; that the list works does not.
#[test]
fn the_devices_of_this_machine_are_listed() {
    let devices = imbrex(&["drive", "list", "--format", "json"]).json();
    let devices = devices.as_array().unwrap();
    let text = imbrex(&["drive", "list"]).ok();
    for device in devices {
        let path = device["device"].as_str().unwrap();
        assert!(device["len_bytes"].as_u64().unwrap() > 0, "{device}");
        let is_usable = device["usable"].as_bool().unwrap();
        assert_eq!(is_usable, device["obstacles"].as_array().unwrap().is_empty(), "{device}");
        let line = text.lines().find(|line| line.split_whitespace().next() == Some(path)).unwrap();
        assert_eq!(line.trim_end().ends_with("yes"), is_usable, "{line}");
    }
    assert_eq!(text.lines().count(), devices.len() + 1, "{text}");
}

/// A drive of 128 MiB with a store of several partitions, each with runs above its base.
fn partitioned() -> Drive {
    let drive = Drive { dir: tempfile::tempdir().unwrap() };
    let shape = ["--capacity", "128MiB", "--zone-len", "512KiB", "--no-timing"];
    imbrex(&[&["drive", "create", drive.path_str()][..], &shape].concat()).ok();
    let mut prng = Prng::new(3);
    let mut lines = String::new();
    for _ in 0..60_000 {
        let (key, mut value) = (prng.below(45_000), [0; 500]);
        prng.fill(&mut value);
        let value: String = value.iter().map(|byte| format!("{byte:02x}")).collect();
        lines += &format!("{{\"key\": \"key{key:05}\", \"value\": \"{value}\"}}\n");
    }
    drive.run_with(lines.as_bytes(), "load", &["-"]).ok();
    drive
}

#[test]
fn partitions_are_dumped_summed_up_and_found_in_zones() {
    let drive = partitioned();
    let dumped = drive.run("dump", &["partitions", "--format", "json"]).json();
    let keyspace = &dumped[0];
    let partitions = keyspace["partitions"].as_array().unwrap();
    assert!(partitions.len() > 1, "{dumped}");
    assert!(partitions[0]["start"] == "" && partitions[0]["end"] == partitions[1]["start"]);
    let sum = |name: &str| -> u64 {
        partitions.iter().map(|partition| partition[name].as_u64().unwrap()).sum()
    };
    let base_bytes: u64 =
        partitions.iter().map(|partition| partition["base"]["len_bytes"].as_u64().unwrap()).sum();
    let (len_bytes, dead_bytes) = (sum("len_bytes"), sum("dead_len_bytes_max"));
    assert!(0 < dead_bytes && dead_bytes < len_bytes, "{dumped}");
    let text = drive.run("dump", &["partitions"]).ok();
    let count = partitions.len();
    assert!(text.starts_with(&format!("keyspace default: {count} partitions, ")), "{text}");
    assert!(text.contains("dead, at most") && text.contains("L0: "), "{text}");

    let stats = drive.run("stats", &["--format", "json"]).json();
    let own = &stats["keyspace_default"];
    assert_eq!(own["partitions"], count);
    assert_eq!(own["base"], base_bytes);
    assert_eq!(own["above_the_base"], sum("upper_len_bytes"));
    assert_eq!(own["dead_in_tables_at_most"], dead_bytes);

    let files = drive.run("dump", &["--format", "json"]).json();
    let tables: Vec<_> =
        files.as_array().unwrap().iter().filter(|file| file["kind"] == "table").collect();
    let of_base = tables.iter().filter(|file| file["part"] == "base");
    assert_eq!(of_base.map(|file| file["len_bytes"].as_u64().unwrap()).sum::<u64>(), base_bytes);
    assert!(tables.iter().all(|file| file["partition"].as_u64().unwrap() < count as u64));
    assert!(drive.run("dump", &[]).ok().contains("base of default/1"));
}

#[test]
fn zones_show_the_parts_of_the_store_in_them() {
    let drive = partitioned();
    let json = imbrex(&["drive", "zones", drive.path_str(), "--format", "json"]).json();
    let mut base_zone_count = 0;
    for zone in json["zones"].as_array().unwrap() {
        let parts = zone["parts"].as_array().unwrap();
        let bytes: u64 = parts.iter().map(|part| part["live_bytes"].as_u64().unwrap()).sum();
        let live = zone["live_bytes"].as_object().unwrap();
        let live: u64 = live.values().map(|bytes| bytes.as_u64().unwrap()).sum();
        assert_eq!(bytes, live, "{zone}");
        base_zone_count += usize::from(parts.iter().any(|part| part["part"] == "base"));
    }
    assert!(base_zone_count > 50, "{base_zone_count}");
    let map = imbrex(&["drive", "zones", drive.path_str()]).ok();
    let row = map.lines().find(|line| line.starts_with("base ")).unwrap();
    let zone_count = row.split_whitespace().nth(1).unwrap();
    assert_eq!(zone_count, base_zone_count.to_string(), "{map}");
    assert!(!map.contains("of default/"), "zones are listed only on request: {map}");
    let each = imbrex(&["drive", "zones", drive.path_str(), "--each"]).ok();
    let base_lines = each.lines().filter(|line| line.contains("base of default/"));
    assert_eq!(base_lines.count(), base_zone_count, "{each}");
}

/// Nobody had asked for the layout that it was too small for.
#[test]
fn a_blank_drive_that_is_too_small_is_too_small_for_no_layout() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("d");
    let create = ["drive", "create", path.to_str().unwrap(), "--capacity", "1MiB"];
    let blank = imbrex(&[&create[..], &["--blank"]].concat());
    let told = blank.fails(2, &["1 MiB with zones of 256 MiB is too small", "use 4 MiB or more"]);
    assert!(!told.contains("layout"), "{told}");
    imbrex(&create).fails(2, &["is too small for layout imbrex-zones"]);
}
