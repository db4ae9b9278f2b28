use super::*;
use std::sync::atomic::AtomicUsize;

fn small() -> ArrivalBenchOptions {
    ArrivalBenchOptions {
        layouts: vec!["smrdb".into(), "smrdb-offload".into()],
        models: vec!["poisson".into(), "diurnal".into()],
        loads: vec![2000],
        operations: 500,
        capacity: ByteSize(4 << 30),
        ..ArrivalBenchOptions::new()
    }
}

fn told(options: &ArrivalBenchOptions) -> (ArrivalBenchReport, Vec<String>) {
    let warnings = std::sync::Mutex::new(Vec::new());
    let warn = |text: &str| warnings.lock().unwrap().push(text.to_owned());
    let watch = ArrivalBenchWatch { warn: &warn, progress: &|_| ControlFlow::Continue(()) };
    let report = arrival_bench(options, watch).unwrap();
    (report, warnings.into_inner().unwrap())
}

/// A run without a warning.
fn run(options: &ArrivalBenchOptions) -> ArrivalBenchReport {
    let (report, warnings) = told(options);
    assert!(warnings.is_empty(), "{warnings:?}");
    report
}

fn refusal(change: impl FnOnce(&mut ArrivalBenchOptions)) -> String {
    let mut options = small();
    change(&mut options);
    let warn = |text: &str| panic!("{text}");
    let watch = ArrivalBenchWatch { warn: &warn, progress: &|_| panic!("nothing is run") };
    arrival_bench(&options, watch).unwrap_err().to_string()
}

#[test]
fn every_layout_meets_every_model_and_a_seed_decides_all() {
    let report = run(&small());
    let rows: Vec<_> = report.runs.iter().map(|run| (run.layout, run.model, run.ops)).collect();
    let want = [
        ("smrdb", "poisson", 500),
        ("smrdb", "diurnal", 500),
        ("smrdb-offload", "poisson", 500),
        ("smrdb-offload", "diurnal", 500),
    ];
    assert_eq!(rows, want);
    for run in &report.runs {
        assert!(run.failure.is_none() && run.ops_per_second > 1000.0, "{run:?}");
        assert!(0 < run.longest_stall_ns && run.longest_stall_ns <= run.response.max_ns);
    }
    let alone = ArrivalBenchOptions { jobs: 1, ..small() };
    let again = run(&alone);
    assert_eq!(again.to_json(), report.to_json());
    let svg = report.to_svg();
    let marks = ["poisson", "diurnal", "smrdb-offload", "2000 ops/s"];
    assert!(marks.iter().all(|mark| svg.contains(mark)));
    assert_eq!(svg.matches("<circle").count(), 2 * report.runs.len());
}

#[test]
fn a_property_file_brings_its_own_operations() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("reads");
    std::fs::write(&file, "readproportion=1\nupdateproportion=0\nrecordcount=300\n").unwrap();
    let options = ArrivalBenchOptions {
        files: vec![file],
        models: vec!["constant".into()],
        loads: vec![50, 100],
        ..small()
    };
    let report = run(&options);
    assert_eq!(report.runs.len(), 4);
    assert!(report.runs.iter().all(|run| run.ops == 500));
    assert!(report.workload.ends_with("reads"), "{}", report.workload);
}

#[test]
fn a_stopped_bench_reports_the_completed_runs() {
    let looks = AtomicUsize::new(0);
    let look = |at: &ArrivalBenchProgress| {
        assert!(at.done <= at.total && at.total == 2000);
        looks.fetch_add(1, Ordering::Relaxed);
        // In the second run.
        if at.done > 600 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    let watch = ArrivalBenchWatch { warn: &|_| (), progress: &look };
    let report = arrival_bench(&ArrivalBenchOptions { jobs: 1, ..small() }, watch).unwrap();
    assert!(report.interrupted);
    assert_eq!(report.runs.len(), 1);
    assert!(looks.load(Ordering::Relaxed) > 1);
}

#[test]
fn nonsense_is_refused_before_anything_is_run() {
    assert!(refusal(|o| o.models = vec!["tidal".into()]).contains(
        "\"tidal\" is not an arrival \
         model"
    ));
    assert!(refusal(|o| o.layouts = vec!["smrdv".into()]).contains("smrdv"));
    assert!(refusal(|o| o.loads = vec![0]).contains("--loads"));
    let even = |o: &mut ArrivalBenchOptions| {
        o.models = vec!["constant".into(), "selfsimilar".into()];
        o.assignments = vec!["ss.bias=0.5".into()];
    };
    assert!(refusal(even).contains("bias"));
    assert!(refusal(|o| o.operations = 0).contains("--operations"));
    assert!(refusal(|o| o.assignments = vec!["fieldlength".into()]).contains("fieldlength"));
}

/// Properties used to be ignored without a warning, so a bench of half an hour measured something
/// else than requested. And `recordcount` set the number of operations of a run of inserts, while
/// the title, the cycle length and the JSON used `--operations`.
#[test]
fn arguments_that_would_change_nothing_are_refused() {
    let argument = |text: &str| refusal(|o| o.assignments = vec![text.to_owned()]);
    for (text, flag) in [
        ("arrivalgenerator=recorded", "--models"),
        ("arrivals.rate=5", "--loads"),
        ("target=500", "--loads"),
        ("threadcount=4", "--threads"),
        ("operationcount=7", "--operations"),
        ("recordcount=100", "--operations"),
        ("insertcount=100", "--operations"),
        ("insertstart=100", "--operations"),
    ] {
        let error = argument(text);
        let want = format!("command line: {text}: set it by {flag} here");
        assert_eq!(error, want);
    }
}

#[test]
fn each_warning_is_given_once() {
    let options = ArrivalBenchOptions {
        operations: 5,
        assignments: vec!["ss.bais=0.75".into(), "fieldlength=100".into()],
        ..small()
    };
    let (report, warnings) = told(&options);
    assert_eq!(warnings.len(), 2, "{warnings:?}");
    assert!(warnings[0].contains("ss.bais (command line)"), "{warnings:?}");
    assert!(warnings[1].contains("--threads is 16, but a run has only 5 op"), "{warnings:?}");
    assert_eq!(report.threads, 5);
    let title = report.title();
    assert!(title.contains("4 runs of 5 inserts of 100 bytes, 5 clients, "), "{title}");
    assert!(report.runs.iter().all(|run| run.ops == 5));
}

/// A file for the original YCSB sets the arrivals; here the loads do.
#[test]
fn a_files_own_arrivals_give_way() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("both");
    let of_a_run = "arrivalgenerator=recorded\narrivals.rate=3\ntarget=9\nthreadcount=70\n\
                    operationcount=9\n";
    let run_of = |text: &str| {
        std::fs::write(&file, format!("readproportion=1\nrecordcount=300\n{text}")).unwrap();
        let models = vec!["poisson".into()];
        run(&ArrivalBenchOptions { files: vec![file.clone()], models, ..small() })
    };
    assert_eq!(run_of(of_a_run).to_json(), run_of("").to_json());
}

/// The modulation used to be truncated to a whole number, so a load of 1 had no cycle at all.
#[test]
fn a_day_leaves_its_mean_by_nine_tenths_at_any_load() {
    let options = small();
    let watch = ArrivalBenchWatch { warn: &|_| (), progress: &|_| ControlFlow::Continue(()) };
    let bench = Bench { options: &options, watch, done: Vec::new(), is_stopped: false.into() };
    let cell = cells(&options).unwrap().remove(0);
    for (load_per_s, want) in [(1, "0.9"), (7, "6.3"), (1000, "900"), (4000, "3600")] {
        let properties = bench.properties(&Cell { load_per_s, ..cell.clone() }).unwrap();
        assert_eq!(properties.get("diurnal.modulation"), Some(want));
    }
    bench.properties(&Cell { load_per_s: u64::MAX, ..cell }).unwrap();
}

#[test]
fn the_title_says_how_long_a_drive_is() {
    let whole = run(&ArrivalBenchOptions { models: vec!["constant".into()], ..small() });
    let title = |capacity_bytes| ArrivalBenchReport { capacity_bytes, ..whole.clone() }.title();
    assert!(title(512 << 20).contains("drives of 512 MiB, "), "{}", title(512 << 20));
    assert!(title(32 << 30).contains("drives of 32.0 GiB, "), "{}", title(32 << 30));
}

#[test]
fn the_length_of_a_value_is_that_of_its_properties() {
    let workload = |assignments: &[&str]| {
        let options = ArrivalBenchOptions {
            layouts: vec!["smrdb".into()],
            models: vec!["constant".into()],
            operations: 20,
            value_size: 700,
            assignments: assignments.iter().map(|text| text.to_string()).collect(),
            ..small()
        };
        run(&options).workload
    };
    assert_eq!(workload(&[]), "inserts of 700 bytes");
    assert_eq!(workload(&["fieldlength=100"]), "inserts of 100 bytes");
    assert_eq!(workload(&["fieldlength=100", "fieldcount=10"]), "inserts of 1000 bytes");
    let uniform = ["fieldlength=100", "fieldlengthdistribution=uniform"];
    assert_eq!(workload(&uniform), "inserts of up to 100 bytes");
}

fn made_up(layout: &'static str, ops: u64) -> ArrivalRun {
    let response = LatencySummary {
        mean_ns: 1_000_000,
        p50_ns: 1_000_000,
        p90_ns: 2_000_000,
        p99_ns: 2_000_000,
        p999_ns: 3_000_000,
        p9999_ns: 3_000_000,
        max_ns: 9_000_000,
    };
    ArrivalRun {
        layout,
        model: "constant",
        load_per_s: 1000,
        ops,
        unstarted_count: 0,
        has_more_unstarted: false,
        ops_per_second: 1000.0,
        response,
        longest_stall_ns: 8_000_000,
        failure: None,
        first_error: None,
    }
}

fn made_up_report(runs: Vec<ArrivalRun>) -> ArrivalBenchReport {
    ArrivalBenchReport {
        workload: "inserts of 4096 bytes".to_owned(),
        operations: 250_000,
        threads: 16,
        capacity_bytes: 1 << 30,
        seed: 1,
        interrupted: false,
        runs,
    }
}

/// A drive that filled up used to be drawn like any other, as fast as while it was empty. One that
/// did nothing was the fastest of all.
#[test]
fn runs_that_ended_early_are_marked_in_the_picture() {
    let whole = made_up("smrdb", 250_000);
    let failure = Some("put user1: no space".to_owned());
    let filled = ArrivalRun { failure: failure.clone(), ..made_up("gear", 1234) };
    let undone = ArrivalRun { failure, response: Default::default(), ..made_up("imr-m", 0) };
    let svg = made_up_report(vec![whole.clone(), filled, undone]).to_svg();
    assert!(svg.contains(">x 1234<") && svg.contains(">x 0<"), "{svg}");
    assert!(svg.contains("x ended early (operations done)"), "{svg}");
    assert_eq!(svg.matches("<circle").count(), 2 * 2, "no bar for what did nothing");
    assert!(!svg.contains(">0.01<"), "nor a place on the axis: {svg}");
    let refused = ArrivalRun { first_error: Some("not today".to_owned()), ..whole };
    let svg = made_up_report(vec![refused]).to_svg();
    assert!(!svg.contains("ended early"), "one refusal is no end: {svg}");
}

#[test]
fn an_open_count_of_arrivals_says_or_more() {
    let run = ArrivalRun { unstarted_count: 10, ..made_up("smrdb", 5) };
    assert_eq!(run.unstarted(), "10");
    let run = ArrivalRun { has_more_unstarted: true, ..run };
    assert_eq!(run.unstarted(), "10 or more");
    assert!(made_up_report(vec![run]).to_svg().contains(">+10 or more<"));
}

/// With one model, the picture used to be narrower than its title and its key.
#[test]
fn the_words_lie_within_the_picture() {
    let filled = ArrivalRun { failure: Some("no space".into()), ..made_up("gear", 1234) };
    let late = ArrivalRun { unstarted_count: 7, load_per_s: 2000, ..made_up("gear", 99) };
    let svg = made_up_report(vec![filled, late]).to_svg();
    let width = svg.split("viewBox=\"0 0 ").nth(1).and_then(|rest| rest.split(' ').next());
    let width: f64 = width.unwrap().parse().unwrap();
    for line in svg.lines().filter(|line| line.contains("text-anchor=\"start\"")) {
        let x: f64 = line.split('"').nth(1).unwrap().parse().unwrap();
        let what = line.split(['<', '>']).nth(2).unwrap();
        assert!(x + what.chars().count() as f64 * 5.5 < width, "{width}: {line}");
    }
}

/// A layout that could not hold the records of a `-P` file used to discard the results of all
/// others.
#[test]
fn a_layout_without_room_is_one_row() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("reads");
    let text = "readproportion=1\nupdateproportion=0\nrecordcount=300\nfieldlength=1000000\n";
    std::fs::write(&file, text).unwrap();
    let options = ArrivalBenchOptions {
        layouts: vec!["smrdb".into(), "leveldb-cmr".into()],
        files: vec![file],
        models: vec!["constant".into()],
        loads: vec![50],
        operations: 50,
        capacity: ByteSize(512 << 20),
        ..small()
    };
    let report = run(&options);
    let [lost, whole] = &report.runs[..] else { panic!("{report:?}") };
    assert_eq!((lost.ops, whole.ops, &whole.failure), (0, 50, &None));
    let failure = lost.failure.as_ref().unwrap();
    assert!(failure.starts_with("loading the records first: "), "{failure}");
    let alone = ArrivalBenchOptions { layouts: vec![lost.layout.into()], ..options };
    let watch = ArrivalBenchWatch { warn: &|_| (), progress: &|_| ControlFlow::Continue(()) };
    let error = arrival_bench(&alone, watch).unwrap_err();
    assert!(matches!(error, BenchError::Loading(_)), "{error}");
}

#[test]
fn operations_that_never_started_are_reported() {
    // A gigabyte per second, more than the disk takes.
    let options = ArrivalBenchOptions {
        layouts: vec!["smrdb".into()],
        models: vec!["constant".into()],
        loads: vec![5000],
        operations: 5000,
        value_size: 200_000,
        assignments: vec!["maxexecutiontime=1".into()],
        ..small()
    };
    let report = run(&options);
    let late = &report.runs[0];
    assert!(late.unstarted_count > 1000, "{late:?}");
    assert_eq!(late.ops + late.unstarted_count, 5000);
    let svg = report.to_svg();
    let mark = format!(">+{}<", late.unstarted_count);
    assert!(svg.contains("never started") && svg.contains(&mark), "{mark}");
    let whole = run(&small());
    assert!(whole.runs.iter().all(|run| run.unstarted_count == 0));
    assert!(!whole.to_svg().contains("never started"));
}
