//! `--data`: small runs write data files from which `cargo xtask results` makes pages and charts.

use crate::imbrex;
use imbrex_results::{RESULTS_DIR, Site, site};
use std::path::Path;

const PAGE: &str = "# Speed\n\nHow fast?\n\n<!-- results: written by `cargo xtask results` -->\n\
                    <!-- end of results -->\n";

/// A tree with one data file and its page, as `cargo xtask results` sees it.
fn rendered(data: &str) -> Site {
    let files = [
        (format!("{RESULTS_DIR}README.md"), PAGE),
        (format!("{RESULTS_DIR}data/speed.json"), data),
        (format!("{RESULTS_DIR}speed.md"), PAGE),
    ];
    let paths: Vec<&str> = files.iter().map(|(path, _)| path.as_str()).collect();
    let text = |path: &str| files.iter().find(|(name, _)| name == path).map(|(_, text)| *text);
    site(&paths, text)
}

fn written(args: &[&str], path: &Path) -> String {
    imbrex(&[args, &["--data", path.to_str().unwrap()]].concat()).ok();
    std::fs::read_to_string(path).unwrap()
}

#[test]
fn a_small_run_becomes_a_page_and_a_chart() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("speed.json");
    let bench = ["bench", "--benchmarks=fillseq,readrandom", "--num", "500"];
    let first = written(&bench, &path);
    let Site { files, faults } = rendered(&first);
    let faults: Vec<&str> = faults.iter().map(|fault| fault.what.as_str()).collect();
    let of_a_person = ["0 limits; a page has three (P3)", "an empty field (P3)"];
    assert_eq!(faults[..2], of_a_person);
    let page = &files["docs/results/speed.md"];
    assert!(
        page.contains("\n```sh\nimbrex bench --benchmarks=fillseq,readrandom --num 500\n```\n"),
        "{page}"
    );
    assert!(page.contains("| fillseq | 500 |") && page.contains("| readrandom | 500 |"), "{page}");
    assert!(files["docs/results/charts/speed.svg"].contains("readrandom"));
    assert_eq!(files["docs/results/data/speed.json"], first, "the writer's form is the file's");

    // A person completes it; the next run keeps that, except what belongs to the measurement.
    let mut whole = first;
    for (field, text) in [
        ("question", "How fast?"),
        ("smallest", "imbrex bench --num 1"),
        ("machine", "Two cores."),
        ("commit", "abc1234"),
        ("date", "2026-11-26"),
    ] {
        whole = whole.replace(&format!("\"{field}\": \"\""), &format!("\"{field}\": \"{text}\""));
    }
    whole =
        whole.replace("\"limits\": []", "\"limits\": [\n    \"a\",\n    \"b\",\n    \"c\"\n  ]");
    assert!(rendered(&whole).faults.is_empty());
    std::fs::write(&path, &whole).unwrap();
    let again = written(&bench, &path);
    assert_eq!(again, whole.replace("abc1234", "").replace("2026-11-26", ""));

    let two = written(&["repro", "sealdb-table-2", "--scale", "0.001"], &path);
    let page = &rendered(&two).files["docs/results/speed.md"];
    assert!(page.contains("| fillseq | 500 |") && page.contains("more tables"), "{page}");
}

#[test]
fn figures_and_arrivals_have_tables_of_all_runs() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("figure.json");
    let figure = written(&["repro", "sealdb-table-2", "--scale", "0.001"], &path);
    assert!(
        figure.contains("\"title\": \"Every claim\"") && figure.contains("[\"sealdb-table-2\", "),
        "{figure}"
    );
    assert!(
        rendered(&figure).files["docs/results/speed.md"]
            .contains("| figure | claim | paper | ours |")
    );
    let path = dir.path().join("arrivals.json");
    let out = dir.path().join("out");
    let small = ["bench", "arrivals", "--loads", "500", "--operations", "100", "--capacity", "4G"];
    let few = ["--models", "poisson", "--layouts", "smrdb", "--out", out.to_str().unwrap()];
    let arrivals = written(&[&small[..], &few].concat(), &path);
    assert!(arrivals.contains("        [\"smrdb\", \"poisson\", 500, "), "{arrivals}");
}

#[test]
fn a_file_that_is_no_data_file_is_refused_before_anything_runs() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("notes.json");
    std::fs::write(&path, "{\"mine\": 1}\n").unwrap();
    let shown = path.to_str().unwrap();
    for args in [&["bench", "--num", "1000000000"][..], &["repro", "all", "--scale", "1"]] {
        let args = [args, &["--data", shown]].concat();
        imbrex(&args).fails(2, &[shown, "no data file of a results page", "mine", "another file"]);
    }
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "{\"mine\": 1}\n");
    imbrex(&["bench", "--data", "/nowhere/a.json"]).fails(4, &["cannot write /nowhere/a.json"]);
}
