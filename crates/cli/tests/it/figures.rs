//! repro and bench arrivals: runs, impossible runs, and interruptions.

use crate::{Ran, imbrex};
use std::process::Stdio;

#[test]
fn figures_are_listed() {
    let listed = imbrex(&["repro", "list", "--format", "json"]).json();
    let text = imbrex(&["repro", "list"]).ok();
    let figures = listed.as_array().unwrap();
    assert_eq!(text.lines().count(), figures.len() + 1);
    for figure in figures {
        assert!(text.contains(figure["name"].as_str().unwrap()), "{figure}");
    }
}

#[test]
fn impossible_requests_fail_before_anything_runs() {
    imbrex(&["repro", "sealdb-88"]).fails(2, &["no figure \"sealdb-88\"", "sealdb-8", "all"]);
    for scale in ["0", "1.5", "NaN"] {
        imbrex(&["repro", "sealdb-8", "--scale", scale]).fails(2, &["--scale is", "at most 1"]);
    }
    imbrex(&["repro", "all", "--format", "hex"]).fails(2, &["table or json"]);
    for command in [
        &["stats", "nowhere"][..],
        &["put", "nowhere", "key", "value"],
        &["completions", "bash"],
        &["man"],
        &["run", "--drive", "nowhere", "--", "true"],
    ] {
        let args = [&["--format", "html"], command].concat();
        imbrex(&args).fails(2, &["html belongs to repro"]);
    }
    imbrex(&["repro", "sealdb", "--out", "/proc/nothing"]).fails(4, &["cannot make /proc/nothing"]);
}

#[test]
fn a_figure_is_shown_in_every_form() {
    let dir = tempfile::tempdir().unwrap();
    let run = |format: &str| {
        let out = dir.path().to_str().unwrap();
        imbrex(&["repro", "sealdb-table-2", "--scale=0.001", "--format", format, "--out", out])
    };
    let [first, second] = [0, 1].map(|_| run("json").json());
    assert_eq!(first, second, "the same seed, the same numbers");
    assert!(run("table").ok().contains("sealdb-table-2"));
    let page = run("html").ok();
    assert!(page.starts_with("<!DOCTYPE html>") && !page.contains("<script"), "{page}");
    let written = std::fs::read_to_string(dir.path().join("sealdb-table-2.html")).unwrap();
    assert!(written == page);
}

#[test]
fn layouts_are_compared_under_arrivals() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("new").join("arrivals");
    let shown = out.to_str().unwrap();
    let run = |more: &[&str]| {
        let small = ["--loads", "500,1000", "--operations", "300", "--capacity", "4G"];
        let models = ["--models", "poisson,selfsimilar", "--layouts", "smrdb,smrdb-offload"];
        imbrex(&[&["bench", "arrivals", "--out", shown], &small[..], &models, more].concat())
    };
    let table = run(&[]).ok();
    assert_eq!(table.lines().filter(|line| line.starts_with("smrdb")).count(), 8, "{table}");
    let written = |name: &str| std::fs::read_to_string(out.join(name)).unwrap();
    assert_eq!(written("arrivals.txt"), table);
    assert!(written("arrivals.svg").contains("smrdb-offload"));
    let report = run(&["--format", "json"]).json();
    assert_eq!(report["runs"].as_array().unwrap().len(), 8);
    run(&["-p", "ss.bias=0.5"]).fails(2, &["bias"]);
    run(&["-p", "target=5"]).fails(2, &["command line: target=5: set it by --loads here"]);
    let warned = run(&["-p", "fieldlenght=100"]);
    let told = "imbrex: warning: property fieldlenght (command line) is unknown";
    assert_eq!(warned.stderr.matches(told).count(), 1, "{}", warned.stderr);
    warned.ok();
    run(&["-P", "nowhere"]).fails(3, &["nowhere"]);
    imbrex(&["bench", "arrivals", "--out", "/proc/no"]).fails(4, &["cannot make /proc/no"]);
    imbrex(&["bench", "arrivals", "--out", shown, "--models", "tidal"]).fails(2, &["tidal"]);
}

/// The drive was full and the store lost, but the run looked like a good one, and the command succeeded.
#[test]
fn a_run_that_lost_its_store_is_reported_at_the_end() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().to_str().unwrap();
    let large = ["--capacity", "512M", "--operations", "300", "--value_size", "1000000"];
    let one = ["--models", "constant", "--layouts", "smrdb", "--loads", "100"];
    let ran = imbrex(&[&["bench", "arrivals", "--out", out], &large[..], &one].concat());
    let table = String::from_utf8(ran.stdout.clone()).unwrap();
    assert!(table.contains("remark") && table.contains("ended early: insert user"), "{table}");
    ran.fails(4, &["1 of 1 runs ended early", "smrdb, constant, 100/s: insert user"]);
    let svg = std::fs::read_to_string(dir.path().join("arrivals.svg")).unwrap();
    assert!(svg.contains("x ended early"), "{svg}");
}

#[test]
fn ctrl_c_ends_it() {
    let mut child = crate::command()
        .args(["repro", "sealdb-8", "--scale", "1"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // A process with more threads has started its runs, and listens for signals already.
    let tasks = format!("/proc/{}/task", child.id());
    let thread_count = || std::fs::read_dir(&tasks).into_iter().flatten().count();
    while thread_count() < 3 && child.try_wait().unwrap().is_none() {
        std::thread::yield_now();
    }
    let pid = child.id().to_string();
    assert!(std::process::Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
    let ran = crate::ran(child.wait_with_output().unwrap());
    assert!(ran.stdout.is_empty());
    Ran { ..ran }.fails(130, &["interrupted"]);
}
