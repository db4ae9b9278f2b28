use super::*;
use std::sync::atomic::AtomicUsize;

fn small() -> ArrivalBenchOptions {
    ArrivalBenchOptions {
        layouts: vec!["smrdb".into(), "smrdb-offload".into()],
        models: vec!["poisson".into(), "diurnal".into()],
        loads: vec![2000],
        operations: 500,
        capacity: ByteCount(4 << 30),
        ..ArrivalBenchOptions::new()
    }
}

fn refusal(change: impl FnOnce(&mut ArrivalBenchOptions)) -> String {
    let mut options = small();
    change(&mut options);
    let error = arrival_bench(&options, &|_| panic!("nothing is run")).unwrap_err();
    error.to_string()
}

#[test]
fn every_layout_meets_every_model_and_a_seed_decides_all() {
    let report = arrival_bench(&small(), &|_| ControlFlow::Continue(())).unwrap();
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
    let again = arrival_bench(&alone, &|_| ControlFlow::Continue(())).unwrap();
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
    let report = arrival_bench(&options, &|_| ControlFlow::Continue(())).unwrap();
    assert_eq!(report.runs.len(), 4);
    assert!(report.runs.iter().all(|run| run.ops == 500));
    assert!(report.workload.ends_with("reads"), "{}", report.workload);
}

#[test]
fn who_stops_it_gets_what_was_done() {
    let looks = AtomicUsize::new(0);
    let watch = |at: &ArrivalBenchProgress| {
        assert!(at.done <= at.total && at.total == 2000);
        looks.fetch_add(1, Ordering::Relaxed);
        // In the second run.
        if at.done > 600 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    let report = arrival_bench(&ArrivalBenchOptions { jobs: 1, ..small() }, &watch).unwrap();
    assert!(report.interrupted);
    assert_eq!(report.runs.len(), 1);
    assert!(looks.load(Ordering::Relaxed) > 1);
}

#[test]
fn nonsense_is_refused_before_anything_is_run() {
    assert!(refusal(|o| o.models = vec!["tidal".into()]).contains("\"tidal\" is no arrival model"));
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
        arrival_bench(&options, &|_| ControlFlow::Continue(())).unwrap().workload
    };
    assert_eq!(workload(&[]), "inserts of 700 bytes");
    assert_eq!(workload(&["fieldlength=100"]), "inserts of 100 bytes");
    assert_eq!(workload(&["fieldlength=100", "fieldcount=10"]), "inserts of 1000 bytes");
    let uniform = ["fieldlength=100", "fieldlengthdistribution=uniform"];
    assert_eq!(workload(&uniform), "inserts of up to 100 bytes");
}

#[test]
fn what_never_started_is_told() {
    // A gigabyte a second, of which the disk takes a part.
    let options = ArrivalBenchOptions {
        layouts: vec!["smrdb".into()],
        models: vec!["constant".into()],
        loads: vec![5000],
        operations: 5000,
        value_size: 200_000,
        assignments: vec!["maxexecutiontime=1".into()],
        ..small()
    };
    let report = arrival_bench(&options, &|_| ControlFlow::Continue(())).unwrap();
    let run = &report.runs[0];
    assert!(run.unstarted_count > 1000, "{run:?}");
    assert_eq!(run.ops + run.unstarted_count, 5000);
    let svg = report.to_svg();
    let mark = format!(">+{}<", run.unstarted_count);
    assert!(svg.contains("never started") && svg.contains(&mark), "{mark}");
    let whole = arrival_bench(&small(), &|_| ControlFlow::Continue(())).unwrap();
    assert!(whole.runs.iter().all(|run| run.unstarted_count == 0));
    assert!(!whole.to_svg().contains("never started"));
}
