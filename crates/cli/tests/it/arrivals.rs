//! arrivals: a generated series, its analysis, and impossible models, rates and files.

use crate::{imbrex, imbrex_with};
use std::io::{BufRead, BufReader, Read};
use std::process::Stdio;

const SIMILAR: [&str; 9] =
    ["arrivals", "--model", "selfsimilar", "--bias", "0.75", "--rate", "1000", "--seconds", "60"];

#[test]
fn a_series_prints_one_time_per_line_and_is_repeatable() {
    let text = imbrex(&SIMILAR).ok();
    assert_eq!(text, imbrex(&SIMILAR).ok());
    assert_ne!(text, imbrex(&[&SIMILAR[..], &["--seed", "2"]].concat()).ok());
    let mut lines = text.lines();
    assert_eq!(lines.next(), Some("time_ns"));
    let times: Vec<u64> = lines.map(|line| line.parse().unwrap()).collect();
    assert!(times.len() == 60_000 && times.is_sorted() && times[59_999] < 60_000_000_000);
    let json = imbrex(&[&SIMILAR[..], &["--format", "json"]].concat()).json();
    assert_eq!(json["model"], "self-similar, bias 0.75");
    let of_json = json["times_ns"].as_array().unwrap();
    assert!(of_json.iter().map(|at| at.as_u64().unwrap()).eq(times));
}

#[test]
fn a_closed_output_is_not_an_error() {
    let mut child = crate::command()
        .args(["arrivals", "--model", "poisson", "--rate", "1e6", "--seconds", "1e6"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    out.read_line(&mut line).unwrap();
    drop(out);
    let mut errors = String::new();
    child.stderr.take().unwrap().read_to_string(&mut errors).unwrap();
    assert_eq!(
        (child.wait().unwrap().code(), line.as_str(), errors.as_str()),
        (Some(0), "time_ns\n", "")
    );
}

#[test]
fn a_series_is_analysed_from_a_file_and_from_a_pipe() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("series.txt");
    let text = imbrex(&SIMILAR).ok();
    std::fs::write(&path, &text).unwrap();
    let analyse = |file: &'static str, more: &[&'static str]| {
        [&["arrivals", "analyse", file, "--bin", "0.1"], more].concat()
    };
    let file = Box::leak(path.to_str().unwrap().to_owned().into_boxed_str());
    let from_file = imbrex(&analyse(file, &["--format", "json"])).json();
    let from_pipe = imbrex_with(text.as_bytes(), &analyse("-", &["--format", "json"])).json();
    assert_eq!(from_file, from_pipe);
    assert_eq!(from_file["operations"], 60_000);
    assert!((from_file["rate_per_s"].as_f64().unwrap() / 1000.0 - 1.0).abs() < 0.05);
    let hurst = from_file["counts"]["hurst"].as_array().unwrap();
    assert_eq!(hurst.len(), 5);
    assert!(hurst.iter().all(|one| one["exponent"].as_f64().unwrap() > 0.6), "{hurst:?}");
    let table = imbrex(&analyse(file, &["--lags", "1,7"])).ok();
    for part in ["counts in 0.1 s", "autocorrelation at 7", "Hurst exponent, Abry-Veitch"] {
        assert!(table.contains(part), "{part}: {table}");
    }
    let short = imbrex_with(b"1\n2\n", &["arrivals", "analyse", "-"]).ok();
    assert!(short.contains("a dash means"), "{short}");
    let again = ["arrivals", "--model", "recorded", "--file", file];
    assert_eq!(imbrex(&again).ok().lines().count(), 60_001);
}

#[test]
fn impossible_requests_are_explained() {
    let with = |more: &[&'static str]| {
        let model = if more.contains(&"--model") { &[][..] } else { &["--model", "poisson"][..] };
        let rate = if more.contains(&"--rate") { &[][..] } else { &["--rate", "100"][..] };
        imbrex(&[&["arrivals", "--seconds", "1"][..], model, rate, more].concat())
    };
    with(&["--model", "fractal"]).fails(2, &["fractal", "selfsimilar"]);
    for rate in ["0", "nan", "2e9", "inf"] {
        with(&["--rate", rate]).fails(2, &["a rate of", "at most 1000000000"]);
    }
    with(&["--rate", "-1"]).fails(2, &["a rate of -1"]);
    with(&["--model", "selfsimilar", "--bias", "0.5"]).fails(2, &["bias of 0.5"]);
    with(&["--model", "selfsimilar", "--bias", "much"]).fails(2, &["expected a number"]);
    with(&["--model", "diurnal"]).fails(2, &["diurnal.modulation"]);
    with(&["--model", "diurnal", "--modulation", "100"]).fails(2, &["less than the mean"]);
    with(&["--model", "diurnal", "--modulation", "50", "--shape", "1"])
        .fails(2, &["mean gap is infinite"]);
    let negative = ["arrivals", "--model", "poisson", "--rate", "1", "--seconds", "-1"];
    imbrex(&negative).fails(2, &["--seconds is -1"]);
    imbrex(&["arrivals", "--model", "poisson", "--rate", "1"]).fails(2, &["--seconds or"]);
    imbrex(&["arrivals", "--model", "poisson", "--seconds", "1"]).fails(2, &["need --rate"]);
    with(&["--bias", "0.7"]).fails(2, &["--bias is for selfsimilar", "poisson"]);
    with(&["--file", "x"]).fails(2, &["--file is for recorded"]);
    imbrex(&["arrivals", "--rate", "1", "--seconds", "1"]).fails_usage();
    with(&["--format", "raw"]).fails(2, &["use table or json"]);
    let analyse = |text: &str, more: &[&str]| {
        imbrex_with(text.as_bytes(), &[&["arrivals", "analyse", "-"], more].concat())
    };
    analyse("1\n\n2\n", &[]).fails(3, &["standard input, line 2", "gap"]);
    analyse("2\n1\n", &[]).fails(3, &["line 2", "goes back", "sort"]);
    analyse("one\n", &[]).fails(3, &["line 1", "one"]);
    analyse("", &[]).fails(3, &["no time in it"]);
    analyse("1\n", &["--bin", "0"]).fails(2, &["bins of 0 s"]);
    analyse("1\n100000000000000000\n", &[]).fails(2, &["bins of 1 s", "longer"]);
    imbrex(&["arrivals", "analyse", "/nonexistent"]).fails(4, &["/nonexistent", "No such file"]);
}
