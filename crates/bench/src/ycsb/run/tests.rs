//! Runs against stores of known timing, so that every latency is known.

use super::*;
use imbrex_clockwork::{Order, WallClock};
use imbrex_workload::ycsb::record::{Record, Wanted};
use std::ops::ControlFlow;

/// A store with a fixed time per operation, which stalls during one interval.
struct Steady {
    clock: Arc<dyn Clock>,
    takes_ns: u64,
    stall_ns: std::ops::Range<u64>,
    /// From this operation on, every operation fails.
    fails_from: u64,
    how: Failure,
    ops: Arc<AtomicU64>,
    /// When it can take the next operation, if all clients share one store that does one at a time.
    free_ns: Option<Arc<AtomicU64>>,
}

/// The kind of failure.
#[derive(Clone, Copy)]
enum Failure {
    Refused,
    Lost,
    Panics,
}

impl Steady {
    fn work(&self, key: &str) -> Result<(), StoreError> {
        let now_ns = self.clock.now_ns();
        let start_ns = if self.stall_ns.contains(&now_ns) { self.stall_ns.end } else { now_ns };
        let free_ns = self.free_ns.as_ref().map_or(0, |free_ns| free_ns.load(Ordering::Relaxed));
        self.clock.advance_to_ns(start_ns.max(free_ns) + self.takes_ns);
        if let Some(free_ns) = &self.free_ns {
            free_ns.store(self.clock.now_ns(), Ordering::Relaxed);
        }
        let op = self.ops.fetch_add(1, Ordering::Relaxed);
        if op < self.fails_from {
            return Ok(());
        }
        match self.how {
            Failure::Refused => Err(StoreError::refused("touch", key, "not today")),
            Failure::Lost => Err(StoreError::lost("touch", key, "it is gone")),
            Failure::Panics => panic!("a bug in the store"),
        }
    }
}

impl RecordStore for Steady {
    fn read(&mut self, key: &str, _: Wanted<'_>) -> Result<Option<Record>, StoreError> {
        self.work(key).map(|()| Some(Record::default()))
    }
    fn scan(&mut self, key: &str, _: u64, _: Wanted<'_>) -> Result<Vec<Record>, StoreError> {
        self.work(key).map(|()| Vec::new())
    }
    fn insert(&mut self, key: &str, _: &Record) -> Result<(), StoreError> {
        self.work(key)
    }
    fn update(&mut self, key: &str, _: &Record) -> Result<bool, StoreError> {
        self.work(key).map(|()| true)
    }
    fn delete(&mut self, key: &str) -> Result<bool, StoreError> {
        self.work(key).map(|()| true)
    }
}

/// The outcome of a run, and its warnings.
struct Outcome {
    worked: PhaseOutcome,
    report: YcsbReport,
    warnings: Vec<String>,
}

impl Outcome {
    fn of(&self, name: &str) -> &OperationFigures {
        self.report.operations.iter().find(|operation| operation.name == name).unwrap()
    }
}

const MS: u64 = 1_000_000;

/// A limit on observer calls; on threads it would take ten seconds to reach.
const LOOKS_MAX: u64 = 200;

struct Story<'a> {
    phase: YcsbPhase,
    properties: &'a str,
    arrivals: Option<Vec<u64>>,
    /// The time to open the store for a client.
    connect_ns: u64,
    takes_ns: u64,
    stall_ns: std::ops::Range<u64>,
    fails_from: u64,
    how: Failure,
    /// Whether clients share a store that does one operation at a time, like a drive.
    one_at_a_time: bool,
    /// The number of observer calls.
    looks: Arc<AtomicU64>,
}

impl Default for Story<'_> {
    fn default() -> Self {
        Story {
            phase: YcsbPhase::Run,
            properties: "",
            arrivals: None,
            connect_ns: 0,
            takes_ns: MS,
            stall_ns: 0..0,
            fails_from: u64::MAX,
            how: Failure::Refused,
            one_at_a_time: false,
            looks: Arc::default(),
        }
    }
}

impl Story<'_> {
    fn told(self) -> Outcome {
        let world = Arc::new(VirtualWorld::new(Order::SmallestTime));
        let clock = Arc::clone(&world) as Arc<dyn Clock>;
        self.on(clock, Some(&world))
    }

    fn on(self, clock: Arc<dyn Clock>, world: Option<&VirtualWorld>) -> Outcome {
        let mut properties = Properties::new();
        let text = format!("recordcount=100\n{}", self.properties);
        properties.read(std::path::Path::new("story"), text.as_bytes()).unwrap();
        let workload = CoreWorkload::new(&properties).unwrap();
        let settings = Settings::new(&properties, self.arrivals.is_some()).unwrap();
        let options = YcsbOptions::new();
        let warnings = Mutex::new(Vec::new());
        let warn = |text: &str| warnings.lock().unwrap().push(text.to_owned());
        let progress = |_: &YcsbProgress| {
            let looks = self.looks.fetch_add(1, Ordering::Relaxed);
            assert!(looks < LOOKS_MAX, "the run does not end");
            ControlFlow::Continue(())
        };
        let watch = YcsbWatch { warn: &warn, status: &|_| (), progress: &progress };
        let run = Run { options: &options, workload: &workload, settings: &settings, watch };
        let ops = Arc::new(AtomicU64::new(0));
        let free_ns = self.one_at_a_time.then(Arc::default);
        let connect = || {
            clock.advance_to_ns(clock.now_ns() + self.connect_ns);
            Ok(Box::new(Steady {
                clock: Arc::clone(&clock),
                takes_ns: self.takes_ns,
                stall_ns: self.stall_ns.clone(),
                fails_from: self.fails_from,
                how: self.how,
                ops: Arc::clone(&ops),
                free_ns: free_ns.clone(),
            }) as Box<dyn RecordStore>)
        };
        let context = RunContext { clock: &*clock, world, connect: &connect };
        let arrivals = self.arrivals.map(|series| {
            (Box::new(series.into_iter()) as Arrivals, "as the story has it".to_owned())
        });
        let worked = run.work(self.phase, arrivals, false, &context).unwrap();
        let setup = YcsbSetup {
            phase: self.phase.name(),
            db: "steady".to_owned(),
            drive: None,
            capacity_bytes: None,
            layout: None,
            mode: if world.is_some() { Mode::Virtual } else { Mode::Threads },
            seed: 1,
            threads: worked.threads,
            record_count: 100,
            loaded_first: false,
            pace: worked.pace.clone(),
        };
        let again = PhaseOutcome {
            measured: worked.measured.clone(),
            pace: String::new(),
            failure: worked.failure.clone(),
            ..worked
        };
        let report = run.report(setup, worked, 0);
        let warnings = warnings.into_inner().unwrap();
        Outcome { worked: again, report, warnings }
    }
}

fn every(gap_ns: u64, count: u64) -> Option<Vec<u64>> {
    Some((0..count).map(|at| at * gap_ns).collect())
}

/// Whether a latency has the expected value, to the histogram's three digits.
fn near(got_ns: u64, want_ns: u64) -> bool {
    got_ns.abs_diff(want_ns) * 500 <= want_ns
}

#[test]
fn back_to_back_the_next_operation_waits_for_the_last_one() {
    let stall_ns = 100 * MS..600 * MS;
    let told = Story { properties: "operationcount=1000", stall_ns, ..Story::default() }.told();
    assert_eq!(told.report.ops, 1000);
    assert_eq!(told.report.elapsed_ns, 1500 * MS);
    // One operation in a thousand saw the stall of half a second.
    assert_eq!(
        (told.report.service.p99_ns, told.report.response),
        (told.report.service.p50_ns, told.report.service)
    );
    assert!(near(told.report.service.max_ns, 501 * MS));
    assert_eq!(told.report.schedule, None);
}

#[test]
fn a_schedule_shows_the_cost_of_a_stall() {
    // An operation every 10 ms; the store stalls from 100 ms to 600 ms.
    let stall_ns = 100 * MS..600 * MS;
    let told = Story { arrivals: every(10 * MS, 1000), stall_ns, ..Story::default() }.told();
    let report = &told.report;
    assert_eq!(report.ops, 1000);
    assert!(near(report.service.p99_ns, MS), "S2: {:?}", report.service);
    assert!(near(report.service.max_ns, 501 * MS));
    // About fifty operations arrived meanwhile: 5 % of all.
    assert!(near(report.response.p90_ns, MS), "{:?}", report.response);
    assert!(report.response.p99_ns > 400 * MS, "{:?}", report.response);
    let schedule = report.schedule.unwrap();
    assert!((50..62).contains(&schedule.queued_count), "{schedule:?}");
    assert!(near(schedule.queued_ns_max, 491 * MS), "{schedule:?}");
    assert_eq!((schedule.lateness.max_ns, schedule.is_kept), (0, true));
    assert_eq!(schedule.unstarted_count, 0);
    assert_eq!(report.elapsed_ns, 9_991 * MS, "S1: the schedule does not move");
    let text = report.output.text();
    assert!(text.contains("[READ], ") && text.contains("[Intended-READ], "), "{text}");
}

#[test]
fn a_saturated_store_has_a_queue_that_grows() {
    // Twice as many operations as two clients can do.
    let properties = "threadcount=2";
    let gap_ns = MS / 4;
    let told = Story { arrivals: every(gap_ns, 4000), properties, ..Story::default() }.told();
    let report = &told.report;
    assert!(near(report.service.max_ns, MS), "{:?}", report.service);
    // Operation k starts at k / 2 ms although it was due at k / 4 ms.
    assert!(near(report.response.p50_ns, 501 * MS), "{:?}", report.response);
    assert!(near(report.response.max_ns, 1000 * MS), "{:?}", report.response);
    assert_eq!(
        report.elapsed_ns,
        2000 * MS + gap_ns,
        "the second client has to wait for its first"
    );
    assert!((report.ops_per_second - 2000.0).abs() < 1.0);
    assert!((report.schedule.unwrap().offered_per_second - 4000.0).abs() < 2.0);
}

#[test]
fn a_deadline_counts_operations_that_never_started() {
    let properties = "maxexecutiontime=1";
    let told = Story { arrivals: every(MS / 2, 1 << 20), properties, ..Story::default() }.told();
    assert_eq!(told.report.ops, 1000);
    let schedule = told.report.schedule.unwrap();
    // 2000 were due.
    assert_eq!(schedule.unstarted_count, 1000, "{schedule:?}");
    assert!(!told.report.interrupted);
}

#[test]
fn several_clients_take_arrivals_in_order_and_at_once() {
    let burst = Some(vec![5 * MS; 8]);
    let told = Story { arrivals: burst, properties: "threadcount=8", ..Story::default() }.told();
    assert_eq!(told.report.elapsed_ns, 6 * MS, "all eight at the same time");
    assert!(near(told.report.response.max_ns, MS));
    let burst = Some(vec![5 * MS; 8]);
    let told = Story { arrivals: burst, properties: "threadcount=2", ..Story::default() }.told();
    assert_eq!(told.report.elapsed_ns, 9 * MS, "two at a time");
    assert!(near(told.report.response.max_ns, 4 * MS));
}

#[test]
fn a_run_begins_when_its_last_client_is_there() {
    let connect_ns = 200 * MS;
    let properties = "threadcount=3\nmaxexecutiontime=1";
    let arrivals = every(10 * MS, 1 << 20);
    let told = Story { arrivals, properties, connect_ns, ..Story::default() }.told();
    assert!(near(told.report.response.max_ns, MS), "{:?}", told.report.response);
    assert_eq!((told.report.ops, told.report.schedule.unwrap().queued_count), (100, 0));
    let properties = "operationcount=300\nthreadcount=3\ntarget=300";
    let told = Story { properties, connect_ns, ..Story::default() }.told();
    assert!(near(told.report.response.max_ns, MS), "{:?}", told.report.response);
    assert!((990 * MS..1010 * MS).contains(&told.report.elapsed_ns), "{}", told.report.elapsed_ns);
}

#[test]
fn a_target_throttles_each_client() {
    let properties = "operationcount=1000\nthreadcount=4\ntarget=2000";
    let told = Story { properties, takes_ns: MS / 10, ..Story::default() }.told();
    assert!((1980.0..2020.0).contains(&told.report.ops_per_second), "{}", told.report);
    assert!(told.report.output.text().contains("[READ], "));
    // Clients catch up after a stall: each has its ticks, whatever happened to earlier ones.
    let stall_ns = 100 * MS..200 * MS;
    let told = Story { properties, takes_ns: MS / 10, stall_ns, ..Story::default() }.told();
    assert!((1980.0..2020.0).contains(&told.report.ops_per_second), "{}", told.report);
    assert!(told.report.response.p99_ns > 50 * MS && told.report.service.p99_ns < MS);
}

/// Clients used to take turns by the time at which they were free. The client that was free first
/// waited for its tick and did its operation, and the drive was then busy for clients with earlier
/// ticks: four clients with ticks of 40 ms, starting somewhere within the first one, waited for
/// each other by up to 40 ms in a store that takes 0.1 ms (S3).
#[test]
fn the_client_whose_tick_comes_first_goes_first() {
    let properties = "operationcount=400\nthreadcount=4\ntarget=100";
    let story = Story { properties, takes_ns: MS / 10, one_at_a_time: true, ..Story::default() };
    let report = story.told().report;
    assert_eq!(report.ops, 400);
    assert!(near(report.service.max_ns, MS / 10), "{:?}", report.service);
    assert!(near(report.response.max_ns, MS / 10), "{:?}", report.response);
    assert!((98.0..104.0).contains(&report.ops_per_second), "{report}");
    // A client that arrives during another's operation waits for it: all at once every 0.4 ms, at
    // nine tenths of the capacity.
    let properties = "operationcount=400\nthreadcount=4\ntarget=9000";
    let story = Story { properties, takes_ns: MS / 10, one_at_a_time: true, ..Story::default() };
    let report = story.told().report;
    assert!(near(report.service.max_ns, 4 * MS / 10), "{:?}", report.service);
    assert!(near(report.service.p50_ns, 2 * MS / 10), "{:?}", report.service);
}

#[test]
fn refused_operations_are_counted_and_the_run_goes_on() {
    let properties = "operationcount=100\nreadproportion=1\nupdateproportion=0";
    let told = Story { properties, fails_from: 60, ..Story::default() }.told();
    assert_eq!(told.report.ops, 100);
    assert_eq!(told.of("READ").returns["OK"], 60);
    assert_eq!(told.of("READ").returns["ERROR"], 40);
    assert_eq!((told.of("READ").count, told.of("READ-FAILED").count), (60, 40));
    let error = told.report.first_error.unwrap();
    assert!(error.starts_with("touch user") && error.ends_with("not today"), "{error}");
    assert_eq!(told.report.failure, None);
}

/// The store returns records without fields.
#[test]
fn nothing_to_verify_is_an_error_as_in_ycsb() {
    let properties = "operationcount=20\nreadproportion=1\nupdateproportion=0\ndataintegrity=true";
    let told = Story { properties, ..Story::default() }.told();
    assert_eq!((told.of("READ").returns["OK"], told.of("VERIFY").returns["ERROR"]), (20, 20));
    assert_eq!(told.of("VERIFY").count, 20);
    assert!(!told.report.output.text().contains("FAILED"), "{}", told.report.output.text());
}

#[test]
fn a_lost_store_ends_the_run_and_keeps_the_measurements() {
    let properties = "operationcount=100000\nthreadcount=3";
    let told = Story { properties, fails_from: 60, how: Failure::Lost, ..Story::default() }.told();
    assert_eq!(told.report.ops, 60);
    assert!(told.report.failure.unwrap().contains("it is gone"));
    assert!(!told.worked.is_stopped, "nobody asked for it");
}

#[test]
fn a_load_inserts_every_record_or_reports_the_gap() {
    let story = |properties| Story { phase: YcsbPhase::Load, properties, ..Story::default() };
    let told = story("threadcount=7").told();
    assert_eq!((told.report.ops, told.of("INSERT").returns["OK"]), (100, 100));
    let told = story("insertstart=30\ninsertcount=50\nthreadcount=60").told();
    assert_eq!((told.report.ops, told.worked.threads), (50, 50));
    assert!(told.warnings[0].contains("threadcount is 60"), "{:?}", told.warnings);
    let told = story("insertstart=30").told();
    assert_eq!(told.report.ops, 100, "as many as YCSB's client asks for");

    let told = Story { fails_from: 10, ..story("") }.told();
    assert_eq!(told.of("INSERT").returns["OK"], 10);
    assert_eq!(told.report.ops, 10, "what was given up was not done");
    assert!(told.warnings[0].contains("client 0 ends"), "{:?}", told.warnings);
    let failure = told.report.failure.unwrap();
    assert!(failure.contains("of 100 records") && failure.contains("not today"), "{failure}");
}

#[test]
fn a_load_tries_again_as_long_as_it_should() {
    let properties = "core_workload_insertion_retry_limit=2\n\
                      core_workload_insertion_keep_going_on_error=true\nrecordcount=3";
    let load = Story { phase: YcsbPhase::Load, properties, fails_from: 1, ..Story::default() };
    let told = load.told();
    assert_eq!(told.of("INSERT").returns["ERROR"], 6, "three attempts for each of two records");
    assert_eq!((told.report.ops, told.report.failure), (3, None));
    // Four pauses of three seconds, each varied by a fifth.
    let elapsed_s = told.report.elapsed_ns / 1_000_000_000;
    assert!((9..=15).contains(&elapsed_s), "{elapsed_s}");
}

#[test]
fn threads_keep_to_the_schedule_and_say_how_well() {
    let clock = Arc::new(WallClock::new());
    let properties = "threadcount=3";
    let story = Story { arrivals: every(MS / 2, 100), properties, ..Story::default() };
    let told = story.on(clock, None);
    let schedule = told.report.schedule.unwrap();
    assert_eq!(told.report.ops, 100);
    assert!(told.report.elapsed_ns >= 99 * MS / 2, "nothing starts early");
    // The histogram reports the end of a bin, and 50,000 ns may be in its middle.
    let p99_ns = schedule.lateness.p99_ns;
    assert!(if schedule.is_kept { p99_ns < 50_050 } else { 50_000 < p99_ns }, "{schedule:?}");
    assert!(schedule.waited_count > 0);
    let line = told.report.schedule_line().unwrap();
    let verdict = if schedule.is_kept { "schedule kept: " } else { "schedule NOT kept (" };
    assert!(line.starts_with(verdict), "{line}");
    let text = told.report.to_string();
    assert!(text.contains(&line.replacen("schedule ", "  schedule  ", 1)), "{text}");
}

/// The observer used to wait for ever for a client that had ended by a panic, and so did the
/// program. The others stop, whether or not their work has an end.
#[test]
fn a_client_that_panics_ends_the_run() {
    let looks = Arc::new(AtomicU64::new(0));
    let story = Story {
        properties: "threadcount=3\noperationcount=0",
        fails_from: 20,
        how: Failure::Panics,
        looks: Arc::clone(&looks),
        ..Story::default()
    };
    let run = || drop(story.on(Arc::new(WallClock::new()), None));
    let payload = std::panic::catch_unwind(std::panic::AssertUnwindSafe(run)).unwrap_err();
    assert_eq!(payload.downcast_ref(), Some(&"a bug in the store"));
    assert!(looks.load(Ordering::Relaxed) < LOOKS_MAX, "it ended because nobody waited any longer");
}

#[test]
fn the_same_seed_is_the_same_run() {
    let told = || {
        let properties = "threadcount=5\nscanproportion=0.1\ninsertproportion=0.1\n\
                          readmodifywriteproportion=0.2\nrequestdistribution=latest";
        Story { arrivals: every(MS / 7, 2000), properties, ..Story::default() }.told()
    };
    let (one, two) = (told(), told());
    assert_eq!(one.report.to_json(), two.report.to_json());
    assert_eq!(one.report.output.text(), two.report.output.text());
    let both = one.of("READ-MODIFY-WRITE").count;
    let updates: u64 = one.of("UPDATE").count;
    assert!(updates > both, "the update of a read-modify-write counts as one too");
    assert_eq!(one.worked.measured.first_error, None);
}

/// A writer that waits for a flush holds up all writers: eight clients have the tail of one.
#[test]
fn in_virtual_time_a_write_waits_for_the_one_before_it() {
    let waits = |threads: u32| {
        let mut options = YcsbOptions { settle: false, ..YcsbOptions::new() };
        options.threads = Some(threads);
        options.testbed.write_buffer_size = Some(imbrex_disk::ByteSize(128 << 10));
        options.testbed.target_file_size_base = Some(imbrex_disk::ByteSize(64 << 10));
        let assignments = ["recordcount=6000", "fieldcount=1", "fieldlength=1000", "target=3000"];
        options.assignments = assignments.map(str::to_owned).into();
        options.assignments.push("arrivalgenerator=poisson".to_owned());
        let properties = options.read_properties().unwrap();
        let progress = |_: &YcsbProgress| ControlFlow::Continue(());
        let watch = YcsbWatch { warn: &|_| (), status: &|_| (), progress: &progress };
        let report = ycsb(&options, YcsbPhase::Load, &properties, watch).unwrap();
        report.response
    };
    let [alone, eight] = [1, 8].map(waits);
    assert!(alone.p99_ns > 1_000_000, "some wait: {alone:?}");
    let near = |a: u64, b: u64| a.abs_diff(b) * 4 <= a.max(b);
    assert!(near(alone.p99_ns, eight.p99_ns), "{alone:?} {eight:?}");
    assert!(near(alone.p999_ns, eight.p999_ns), "{alone:?} {eight:?}");
}

#[test]
fn a_load_counts_inserted_records_and_not_attempts() {
    let failure = |fails_from| {
        let story = Story { phase: YcsbPhase::Load, fails_from, ..Story::default() };
        story.told().report.failure
    };
    for fails_from in [10, 99] {
        let said = failure(fails_from).expect("a record was refused");
        assert!(said.starts_with(&format!("{fails_from} of 100 records: ")), "{said}");
    }
    assert_eq!(failure(100), None);
}

/// Each client used to have its own histograms of 2.8 MB: the ten thousand clients that are allowed
/// took 28 GB.
#[test]
fn many_clients_measure_in_few_places() {
    let properties = "operationcount=1000\nthreadcount=500";
    let told = Story { properties, ..Story::default() }.told();
    assert_eq!((told.report.ops, told.worked.threads), (1000, 500));
    assert_eq!(told.of("CLEANUP").count, 500, "each of them has ended");
    assert_eq!(told.report.elapsed_ns, 2 * MS, "all at once, two each");
    assert_eq!([1, 64, 10_000].map(place_count), [1, 64, 64]);
}

#[test]
fn due_operations_are_done_or_counted_as_unstarted_for_any_number_of_clients() {
    let properties = "maxexecutiontime=1\nthreadcount=16";
    let arrivals = every(MS / 2, 1 << 20);
    let told = Story { arrivals, properties, takes_ns: 32 * MS, ..Story::default() }.told();
    let unstarted_count = told.report.schedule.unwrap().unstarted_count;
    assert!(told.report.ops < 600, "{}", told.report.ops);
    let due_count = told.report.elapsed_ns.div_ceil(MS / 2);
    assert_eq!(told.report.ops + unstarted_count, due_count);
}
