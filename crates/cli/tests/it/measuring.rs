//! `imbrex bench`: what it prints of runs that fail, and of several layouts.

use crate::imbrex;

/// 6,000 values of 4 KiB do not fit.
const TOO_MANY: [&str; 14] = [
    "bench",
    "--capacity",
    "16MiB",
    "--zone-len",
    "1MiB",
    "--num",
    "6000",
    "--value_size",
    "4080",
    "--compression_type",
    "none",
    "--use_existing_db",
    "--benchmarks",
    "fillseq:100,filluniquerandom",
];

/// In JSON, nothing of it was printed.
#[test]
fn finished_benchmarks_are_printed_when_a_later_one_fails() {
    let text = imbrex(&TOO_MANY);
    let printed = String::from_utf8_lossy(&text.stdout).into_owned();
    assert!(printed.starts_with("fillseq") && printed.contains("100 ops"), "{printed}");
    text.fails(4, &["cannot measure: filluniquerandom: no space on the drive"]);
    let json = imbrex(&[&TOO_MANY[..], &["--format", "json"]].concat());
    let report: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(report["runs"][0]["ops"], 100, "{report}");
    assert_eq!(report["runs"].as_array().unwrap().len(), 1, "{report}");
    let failure = report["failure"].as_str().unwrap();
    assert!(failure.starts_with("filluniquerandom: no space"), "{report}");
    json.fails(4, &["no space on the drive"]);
}

#[test]
fn several_layouts_are_measured_one_after_the_other() {
    let args = ["bench", "--layout", "leveled-zones,gear", "--capacity", "64MiB", "--num", "500"];
    let args = [&args[..], &["--zone-len", "4MiB", "--benchmarks", "fillseq,readseq"]].concat();
    let text = imbrex(&args).ok();
    let rows: Vec<&str> = text.lines().filter(|line| line.contains("fillseq")).collect();
    assert_eq!(rows.len(), 4, "each as it ended, and in the table: {text}");
    assert!(rows[2].starts_with("leveled-zones ") && rows[3].starts_with("gear "), "{text}");
    let reports = imbrex(&[&args[..], &["--format", "json"]].concat()).json();
    let reports = reports.as_array().unwrap();
    let layouts: Vec<_> = reports.iter().map(|report| &report["setup"]["layout"]).collect();
    assert_eq!(layouts, ["leveled-zones", "gear"]);
    assert!(reports.iter().all(|report| report["runs"][1]["ops"] == 500), "{reports:?}");
    let refused = |layouts: &str, more: &[&str], want: &str| {
        imbrex(&[&["bench", "--layout", layouts][..], more].concat()).fails(2, &[want]);
    };
    refused("gear,geer", &[], "geer");
    refused("gear,smrdb", &["--image", "never"], "--image names a file for one store");
    // Neither has room: both are measured until then, and the error is the first one.
    let full = [&TOO_MANY[..], &["--layout", "leveldb-zones,gear", "--format", "json"]].concat();
    let full = imbrex(&full);
    let reports: serde_json::Value = serde_json::from_slice(&full.stdout).unwrap();
    assert_eq!(reports[1]["runs"][0]["ops"], 100, "{reports}");
    full.fails(4, &["leveldb-zones: cannot measure: filluniquerandom"]);
}
