//! ycsb: YCSB's property files, a load and a run on one drive, and impossible runs.

use crate::{Drive, Ran, imbrex};
use std::path::Path;

/// Properties equal to those of YCSB's six workloads.
const WORKLOADS: [(&str, &str); 6] = [
    ("a", "readproportion=0.5\nupdateproportion=0.5\nrequestdistribution=zipfian\n"),
    ("b", "readproportion=0.95\nupdateproportion=0.05\nrequestdistribution=zipfian\n"),
    ("c", "readproportion=1.0\nupdateproportion=0\nrequestdistribution=zipfian\n"),
    (
        "d",
        "readproportion = 0.95\nupdateproportion: 0\ninsertproportion 0.05\n\
         requestdistribution=latest\n",
    ),
    (
        "e",
        "readproportion=0\nupdateproportion=0\nscanproportion=0.95\ninsertproportion=0.05\n\
         requestdistribution=zipfian\nmaxscanlength=100\nscanlengthdistribution=uniform\n",
    ),
    (
        "f",
        "readproportion=0.5\nupdateproportion=0\nreadmodifywriteproportion=0.5\n\
         requestdistribution=zipfian\n",
    ),
];

fn write(dir: &Path, name: &str, text: &str) -> String {
    let path = dir.join(name);
    let all = format!(
        "# {name}\nrecordcount=300\noperationcount=600\n\
                       workload=site.ycsb.workloads.CoreWorkload\n{text}"
    );
    std::fs::write(&path, all).unwrap();
    path.to_str().unwrap().to_owned()
}

/// The number that follows `[metric], measurement, `.
#[track_caller]
fn number(output: &str, metric: &str, measurement: &str) -> f64 {
    let start = format!("[{metric}], {measurement}, ");
    let line = output.lines().find_map(|line| line.strip_prefix(&start));
    line.unwrap_or_else(|| panic!("no {start:?} in: {output}")).parse().unwrap()
}

#[test]
fn each_core_workload_has_a_name() {
    for (letter, kind) in [
        ("a", "UPDATE"),
        ("b", "READ"),
        ("c", "READ"),
        ("d", "INSERT"),
        ("e", "SCAN"),
        ("F", "READ-MODIFY-WRITE"),
    ] {
        let output = imbrex(&["ycsb", "run", "--workload", letter]).ok();
        assert!(number(&output, kind, "Operations") > 0.0, "{letter}: {output}");
    }
    let output = imbrex(&["ycsb", "run", "--workload", "c", "-p", "operationcount=7"]).ok();
    assert_eq!(number(&output, "READ", "Operations"), 7.0, "{output}");
    assert_eq!(imbrex(&["ycsb", "run", "--workload", "g"]).code, Some(2));
}

#[test]
fn each_workload_runs_in_both_kinds_of_time() {
    let dir = tempfile::tempdir().unwrap();
    for (name, text) in WORKLOADS {
        let file = write(dir.path(), name, text);
        for mode in ["virtual", "threads"] {
            let args = ["ycsb", "run", "-P", &file, "--threads", "3", "--mode", mode];
            let output = imbrex(&args).ok();
            assert!(output.starts_with("[OVERALL], RunTime(ms), "), "{output}");
            assert!(!output.contains("NOT_FOUND") && !output.contains("ERROR"), "{name}: {output}");
            let returned: f64 = output
                .lines()
                .filter_map(|line| line.split_once("], Return=OK, "))
                .map(|(_, count)| count.parse::<f64>().unwrap())
                .sum();
            let twice =
                if name == "f" { number(&output, "READ-MODIFY-WRITE", "Operations") } else { 0.0 };
            assert_eq!(returned, 600.0 + twice, "{name}: {output}");
            assert_eq!(number(&output, "CLEANUP", "Operations"), 3.0);
            assert!(number(&output, "OVERALL", "Throughput(ops/sec)") > 0.0);
        }
    }
}

#[test]
fn in_virtual_time_a_seed_decides_the_run() {
    let dir = tempfile::tempdir().unwrap();
    let file = write(dir.path(), "d", WORKLOADS[3].1);
    let run = |more: &[&str]| -> Vec<u8> {
        let args = ["ycsb", "run", "-P", &file, "--threads", "4", "--format", "json"];
        let ran = imbrex(&[&args[..], more].concat());
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
        ran.stdout
    };
    let open = ["-p", "arrivalgenerator=selfsimilar", "--target", "200"];
    for more in [&[][..], &open[..]] {
        assert!(run(more) == run(more), "{more:?}");
        assert!(run(more) != run(&[more, &["--seed", "2"]].concat()), "{more:?}");
    }
}

#[test]
fn records_in_an_image_serve_later_runs() {
    let drive = Drive::new();
    let file = write(drive.dir.path(), "a", WORKLOADS[0].1);
    let on = |phase: &str, more: &[&str]| -> Ran {
        imbrex(&[&["ycsb", phase, "-P", &file, "--drive", drive.path_str()], more].concat())
    };
    on("run", &[]).fails(2, &["no table \"usertable\"", "load it first"]);
    let whole = ["-p", "dataintegrity=true"];
    let loaded = on("load", &whole).ok();
    assert_eq!(number(&loaded, "INSERT", "Return=OK"), 300.0);
    let ran = on("run", &[&whole[..], &["--mode=threads", "--threads=2"]].concat()).ok();
    let reads = number(&ran, "READ", "Return=OK");
    assert_eq!(number(&ran, "VERIFY", "Return=OK"), reads);
    // Updates keep the form of values, so a run that expects longer ones finds wrong values.
    let ran = on("run", &[&whole[..], &["-p", "fieldlength=101"]].concat()).ok();
    assert!(number(&ran, "VERIFY", "Return=UNEXPECTED_STATE") > 0.0, "{ran}");
    let more = on("run", &["-p", "recordcount=600", "-p", "requestdistribution=uniform"]).ok();
    let missing = number(&more, "READ", "Return=NOT_FOUND");
    assert!((100.0..200.0).contains(&missing), "half of them are not there: {missing}");
    on("run", &["-p", "table=other"]).fails(2, &["no table \"other\""]);
    let listed =
        imbrex(&["scan", drive.path_str(), "--keyspace", "usertable", "--limit", "1"]).ok();
    assert!(listed.contains("user"), "{listed}");
}

#[test]
fn measurements_survive_a_failed_output_file() {
    let drive = Drive::new();
    let load = |file: &str| {
        imbrex(&["ycsb", "load", "-p", "recordcount=9", "-p", &format!("exportfile={file}")])
    };
    let dir = drive.dir.path().to_str().unwrap();
    // The error comes before any operation.
    let refused = load(dir);
    assert!(refused.stdout.is_empty());
    refused.fails(4, &["cannot write", dir, "directory"]);
    let full = load("/dev/full");
    let told = String::from_utf8_lossy(&full.stdout).into_owned();
    assert_eq!(number(&told, "INSERT", "Return=OK"), 9.0);
    full.fails(4, &["/dev/full", "they were printed instead", "No space"]);
}

#[test]
fn the_first_refusal_is_reported_in_every_format() {
    let drive = Drive::new();
    let file = write(drive.dir.path(), "c", WORKLOADS[2].1);
    imbrex(&["ycsb", "load", "-P", &file, "--drive", drive.path_str()]).ok();
    // YCSB's own first record.
    let key = "user6284781860667377211";
    drive.run("put", &["--keyspace", "usertable", key, "no record"]).ok();
    for format in [&[][..], &["--format", "table"], &["--format", "json"]] {
        let args = ["ycsb", "run", "-P", &file, "-p", "requestdistribution=sequential"];
        let ran = imbrex(&[&args[..], &["--drive", drive.path_str()], format].concat());
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
        let told = format!("imbrex: warning: an operation was refused: read {key}: ");
        assert_eq!(ran.stderr.matches(&told).count(), 1, "{}", ran.stderr);
    }
}

#[test]
fn a_property_file_for_the_original_ycsb_works_here() {
    let drive = Drive::new();
    let whole = format!(
        "{}workload=imbrex.ycsb.ArrivalWorkload\ndb=imbrex.ycsb.ImbrexDb\nimbrex.drive={}\n\
         imbrex.library=/nowhere/lib.so\nimbrex.sync=true\narrivalgenerator=poisson\n\
         arrivals.rate=100.5\narrivals.seed=7\n",
        WORKLOADS[1].1,
        drive.path_str()
    );
    let file = write(drive.dir.path(), "both", &whole);
    imbrex(&["ycsb", "load", "-P", &file]).ok();
    let run = |more: &[&str]| {
        let ran = imbrex(&[&["ycsb", "run", "-P", &file, "--format", "json"], more].concat());
        assert!(!ran.stderr.contains("warning"), "{}", ran.stderr);
        ran.json()["schedule"]["offered_per_second"].as_f64().unwrap()
    };
    let offered = run(&[]);
    assert!((80.0..125.0).contains(&offered), "{offered}");
    assert_eq!(run(&["--seed", "2"]), offered, "the series has its own seed");
    assert_ne!(run(&["-p", "arrivals.seed=8"]), offered);
    let bad = |args: &[&str]| imbrex(&[&["ycsb", "run", "-P", &file], args].concat());
    bad(&["--target", "5"]).fails(2, &["arrivals.rate=100.5", "target=5", "one of them"]);
    bad(&["-p", "arrivals.rate=many"]).fails(2, &["arrivals.rate=many", "operations a second"]);
    bad(&["-p", "arrivals.rate=0"]).fails(2, &["rate"]);
    bad(&["-p", "arrivals.seed=-1"]).fails(2, &["arrivals.seed=-1", "2^64"]);
    bad(&["-p", "imbrex.drive=/nowhere/d"]).fails(2, &["imbrex.drive=/nowhere/d", "create"]);
}

#[test]
fn a_schedule_is_reported_in_every_format() {
    let dir = tempfile::tempdir().unwrap();
    let file = write(dir.path(), "b", WORKLOADS[1].1);
    let args = ["ycsb", "run", "-P", &file, "-p", "arrivalgenerator=poisson", "--target", "100"];
    let ran = imbrex(&args);
    assert!(ran.stderr.lines().any(|line| line.starts_with("schedule: ")), "{}", ran.stderr);
    let output = ran.ok();
    let (service, response) = (
        number(&output, "READ", "AverageLatency(us)"),
        number(&output, "Intended-READ", "AverageLatency(us)"),
    );
    assert!(response > service, "{output}");
    let report = imbrex(&[&args[..], &["--format", "json"]].concat()).json();
    let schedule = &report["schedule"];
    assert_eq!(report["ops"], 600);
    assert!((80.0..120.0).contains(&schedule["offered_per_second"].as_f64().unwrap()));
    assert_eq!(schedule["is_kept"], true);
    assert!(report["response"]["mean_ns"].as_u64() > report["service"]["mean_ns"].as_u64());
    let text = imbrex(&[&args[..], &["--format", "table"]].concat()).ok();
    assert!(text.contains("arrivals: poisson, 100 ops/s"), "{text}");
    assert!(text.contains("  schedule  ") && text.contains("    response  "), "{text}");
    // In this machine's time it reports whether the schedule was kept, like the original.
    let verdict =
        |line: &str| line.starts_with("schedule kept: ") || line.starts_with("schedule NOT kept (");
    let more = ["-p", "operationcount=20", "--mode", "threads"];
    let ran = imbrex(&[&args[..], &more[..]].concat());
    assert_eq!(ran.stderr.lines().filter(|line| verdict(line)).count(), 1, "{}", ran.stderr);
    assert!(!ran.ok().contains("schedule"), "YCSB's lines are YCSB's");
}

#[test]
fn status_lines_and_files_match_ycsb() {
    let dir = tempfile::tempdir().unwrap();
    let file = write(dir.path(), "a", WORKLOADS[0].1);
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let (export, raw) = (path("out.json"), path("raw.csv"));
    let ran = imbrex(&[
        "ycsb",
        "run",
        "-P",
        &file,
        "-s",
        "-l",
        "mine ",
        "-p",
        "status.interval=1",
        "-p",
        &format!("exportfile={export}"),
        "-p",
        "exporter=site.ycsb.measurements.exporter.JSONArrayMeasurementsExporter",
        "-p",
        "measurementtype=hdrhistogram+raw",
        "-p",
        &format!("measurement.raw.output_file={raw}"),
    ]);
    let status: Vec<&str> = ran.stderr.lines().filter(|line| line.starts_with("mine 2")).collect();
    assert!(status[0].contains(" 0 sec: 0 operations; "), "{status:?}");
    let last = status.last().unwrap();
    assert!(last.contains(" sec: 600 operations; ") && last.contains("[READ: Count="), "{last}");
    assert_eq!(ran.ok(), "", "all of it went to files");
    let exported: Vec<serde_json::Value> =
        serde_json::from_str(&std::fs::read_to_string(export).unwrap()).unwrap();
    assert!(exported.iter().any(|line| line["metric"] == "HdrREAD"));
    let raw = std::fs::read_to_string(raw).unwrap();
    assert_eq!(raw.lines().filter(|line| !line.contains("latency raw data")).count(), 601);
}

#[test]
fn the_basic_store_answers_everything() {
    let dir = tempfile::tempdir().unwrap();
    let file = write(dir.path(), "a", WORKLOADS[0].1);
    for name in ["basic", "site.ycsb.BasicDB"] {
        let told =
            imbrex(&["ycsb", "run", "-P", &file, "--db", name, "-p", "operationcount=500"]).ok();
        let count = |kind: &str| -> u64 {
            let line =
                told.lines().find_map(|line| line.strip_prefix(&format!("[{kind}], Return=OK, ")));
            line.unwrap_or_else(|| panic!("no {kind} in {told}")).parse().unwrap()
        };
        assert_eq!(count("READ") + count("UPDATE"), 500, "{told}");
    }
}

/// The failure of the load before a run was reported as a wrong command line.
#[test]
fn a_drive_without_room_for_the_records_is_the_stores_failure() {
    let dir = tempfile::tempdir().unwrap();
    let file = write(dir.path(), "c", WORKLOADS[2].1);
    let large = ["-p", "fieldcount=1", "-p", "fieldlength=400000"];
    let drive = ["--capacity", "64M", "--layout", "leveled-first-fit"];
    let run = |phase| imbrex(&[&["ycsb", phase, "-P", &file], &large[..], &drive].concat());
    run("load").fails(4, &["ended early", "insert user"]);
    run("run").fails(4, &["loading the records first: insert user"]);
}

#[test]
fn impossible_runs_are_explained() {
    let dir = tempfile::tempdir().unwrap();
    let file = write(dir.path(), "a", WORKLOADS[0].1);
    let bad = |args: &[&str]| imbrex(&[&["ycsb", "run", "-P", &file], args].concat());
    imbrex(&["ycsb", "run"]).fails(2, &["recordcount"]);
    imbrex(&["ycsb", "run", "-P", "/nonexistent"]).fails(3, &["/nonexistent", "No such file"]);
    let damaged = write(dir.path(), "damaged", "table=\\u12\n");
    imbrex(&["ycsb", "run", "-P", &damaged]).fails(3, &["damaged", "line 5"]);
    let many = write(dir.path(), "many", "fieldcount=many\n");
    imbrex(&["ycsb", "run", "-P", &many]).fails(2, &["many:5: fieldcount=many", "whole number"]);
    bad(&["-p", "recordcount"]).fails(2, &["\"recordcount\"", "key=value"]);
    bad(&["-p", "workload=site.ycsb.workloads.RestWorkload"]).fails(2, &["CoreWorkload"]);
    bad(&["-p", "requestdistribution=gauss"]).fails(2, &["requestdistribution=gauss", "zipfian"]);
    bad(&["--threads", "0"]).fails(2, &["threadcount=0"]);
    bad(&["-p", "arrivalgenerator=poisson"]).fails(2, &["poisson", "arrivals.rate", "target"]);
    bad(&["-p", "arrivalgenerator=bursty", "--target", "5"]).fails(2, &["bursty", "selfsimilar"]);
    bad(&["-p", "arrivalgenerator=selfsimilar", "-p", "ss.bias=0.5", "--target", "5"])
        .fails(2, &["bias of 0.5"]);
    bad(&["-p", "arrivalgenerator=poisson", "-p", "operationcount=0", "--target", "5"])
        .fails(2, &["maxexecutiontime"]);
    bad(&["-p", "exportfile=/nonexistent/out"]).fails(4, &["/nonexistent/out"]);
    bad(&["--db", "site.ycsb.db.MongoDbClient"]).fails(2, &["MongoDbClient", "imbrex"]);
    bad(&["--db", "basic", "--mode", "virtual"]).fails(2, &["--mode virtual"]);
    bad(&["--db", "basic", "--layout", "sealdb"]).fails(2, &["--layout is for our own store"]);
    bad(&["--db", "basic", "--sync"]).fails(2, &["--sync is for our own store"]);
    bad(&["--drive", "nosuch"]).fails(2, &["nosuch"]);
    let warned = bad(&["-p", "opreationcount=5"]);
    assert!(warned.stderr.contains("opreationcount (command line)"), "{}", warned.stderr);
    warned.ok();
    let warned = bad(&["-p", "ss.bias=0.7", "-p", "arrivals.rate=100"]);
    let told = "without arrivalgenerator these properties change nothing: arrivals.rate, ss.bias\n";
    assert!(warned.stderr.contains(told), "{}", warned.stderr);
    warned.ok();
}

/// A store that this build cannot reach is refused with the feature that brings it.
#[test]
fn other_stores_need_their_features() {
    let of =
        |db: &[&str]| imbrex(&[&["ycsb", "load", "-p", "recordcount=10", "--db"], db].concat());
    let unix = of(&["unix:///nonexistent/s"]);
    let tcp = of(&["redis", "-p", "redis.port=0"]);
    match cfg!(feature = "redis") {
        true => {
            unix.fails(4, &["unix:///nonexistent/s", "No such file"]);
            tcp.fails(2, &["redis.port=0"]);
        }
        false => {
            unix.fails(2, &["db=unix:///nonexistent/s", "build with `--features redis`"]);
            tcp.fails(2, &["db=redis", "build with `--features redis`"]);
        }
    }
    let unnamed = of(&["rocksdb"]);
    let missing = of(&["leveldb:///nonexistent/db"]);
    match cfg!(feature = "foreign") {
        true => {
            unnamed.fails(2, &["rocksdb.dir"]);
            missing.fails(4, &["leveldb:///nonexistent/db"]);
        }
        false => {
            unnamed.fails(2, &["db=rocksdb", "build with `--features foreign`"]);
            missing.fails(2, &["build with `--features foreign`"]);
        }
    }
}

/// The property files had to come from a clone of YCSB.
#[test]
fn the_workload_files_are_written_and_do_what_the_names_do() {
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path().join("workloads");
    let dir_arg = at.to_str().unwrap();
    let write = || imbrex(&["ycsb", "workloads", dir_arg]);
    assert_eq!(write().ok().lines().count(), 6);
    for letter in ["a", "b", "c", "d", "e", "f"] {
        let file = at.join(format!("workload{letter}"));
        let by_file = imbrex(&["ycsb", "run", "-P", file.to_str().unwrap()]);
        assert!(!by_file.stderr.contains("unknown"), "{}", by_file.stderr);
        let by_name = imbrex(&["ycsb", "run", "--workload", letter]).ok();
        assert_eq!(by_file.ok(), by_name, "{letter}");
    }
    // The same again is no harm; a file that the user has changed stays.
    write().ok();
    let mine = "recordcount=7\n";
    std::fs::write(at.join("workloadc"), mine).unwrap();
    write().fails(2, &["workloadc", "it exists with other content"]);
    assert_eq!(std::fs::read_to_string(at.join("workloadc")).unwrap(), mine);
}
