use super::*;
use crate::ycsb::measure::{Done, Measured, Status};
use crate::ycsb::settings::Settings;
use imbrex_workload::ycsb::properties::Properties;
use std::sync::Arc;

/// Four reads, one of which found nothing, and an update that waited a millisecond for its turn.
fn output(assignments: &[&str]) -> YcsbOutput {
    let mut properties = Properties::new();
    assignments.iter().for_each(|text| properties.assign(text).unwrap());
    let plan = Arc::new(Settings::new(&properties, false).unwrap().measure);
    let mut one = Measurements::new(&plan, 1_000_000);
    let mut other = one.clone();
    let done = |start_ns: u64, took_ns: u64, waited_ns: u64| Done {
        intended_ns: start_ns - waited_ns,
        start_ns,
        end_ns: start_ns + took_ns,
    };
    for (at, took_us) in [(0, 100), (1, 200), (2, 300)] {
        let read = done(2_000_000 + at * 1_000_000, took_us * 1000, 0);
        one.record(Measured::Read, Status::Ok, read);
        one.record_whole(read);
    }
    let missing = done(5_000_000, 50_000, 0);
    other.record(Measured::Read, Status::NotFound, missing);
    other.record_whole(missing);
    let update = done(6_000_000, 2_500_000, 1_000_000);
    other.record(Measured::Update, Status::Ok, update);
    other.record_whole(update);
    one.add(&other);
    YcsbOutput::new(&plan, &one, 8_000_000)
}

#[test]
fn the_usual_output() {
    let want = "\
[OVERALL], RunTime(ms), 8
[OVERALL], Throughput(ops/sec), 625.0
[READ], Operations, 3
[READ], AverageLatency(us), 200.0
[READ], MinLatency(us), 100
[READ], MaxLatency(us), 300
[READ], 50thPercentileLatency(us), 200
[READ], 95thPercentileLatency(us), 300
[READ], 99.9PercentileLatency(us), 300
[READ], Return=OK, 3
[READ], Return=NOT_FOUND, 1
[READ-FAILED], Operations, 1
[READ-FAILED], AverageLatency(us), 50.0
[READ-FAILED], MinLatency(us), 50
[READ-FAILED], MaxLatency(us), 50
[READ-FAILED], 50thPercentileLatency(us), 50
[READ-FAILED], 95thPercentileLatency(us), 50
[READ-FAILED], 99.9PercentileLatency(us), 50
[UPDATE], Operations, 1
[UPDATE], AverageLatency(us), 2500.0
[UPDATE], MinLatency(us), 2500
[UPDATE], MaxLatency(us), 2500
[UPDATE], 50thPercentileLatency(us), 2500
[UPDATE], 95thPercentileLatency(us), 2500
[UPDATE], 99.9PercentileLatency(us), 2500
[UPDATE], Return=OK, 1
";
    // Latencies keep three digits.
    let got = output(&["hdrhistogram.percentiles=50,95,99.9"]).text();
    for (got, want) in got.lines().zip(want.lines()) {
        let (got_head, got_value) = got.rsplit_once(", ").unwrap();
        let (want_head, want_value) = want.rsplit_once(", ").unwrap();
        assert_eq!(got_head, want_head);
        let (got_value, want_value): (f64, f64) =
            (got_value.parse().unwrap(), want_value.parse().unwrap());
        assert!((got_value - want_value).abs() <= want_value / 500.0 + 1.0, "{got}");
    }
    assert_eq!(got.lines().count(), want.lines().count());
}

#[test]
fn intended_latencies_under_their_own_name_or_alone() {
    let both = output(&["measurement.interval=both"]).text();
    assert!(both.contains("[UPDATE], Operations, 1\n"), "{both}");
    assert!(both.contains("[Intended-UPDATE], Operations, 1\n"), "{both}");
    assert_eq!(both.matches("Return=OK").count(), 2, "told once: {both}");
    let max = |text: &str, name: &str| -> u64 {
        let start = format!("[{name}], MaxLatency(us), ");
        let line = text.lines().find_map(|line| line.strip_prefix(&start));
        line.unwrap().parse().unwrap()
    };
    assert!(max(&both, "UPDATE").abs_diff(2500) < 10);
    assert!(max(&both, "Intended-UPDATE").abs_diff(3500) < 10);
    let intended = output(&["measurement.interval=intended"]).text();
    assert!(!intended.contains("Intended-"), "{intended}");
    assert!(max(&intended, "UPDATE").abs_diff(3500) < 10);
    assert!(intended.contains("[UPDATE], Return=OK, 1\n"), "{intended}");
}

#[test]
fn verifications_are_printed_with_any_interval() {
    let told = |interval: &str| {
        let mut properties = Properties::new();
        properties.set("measurement.interval", interval);
        let plan = Arc::new(Settings::new(&properties, false).unwrap().measure);
        let mut measured = Measurements::new(&plan, 0);
        let done = Done { intended_ns: 0, start_ns: 0, end_ns: 1000 };
        for status in [Status::Ok, Status::UnexpectedState, Status::UnexpectedState] {
            measured.record(Measured::Verify, status, done);
        }
        YcsbOutput::new(&plan, &measured, 1_000_000).text()
    };
    for (interval, count) in [("op", 3), ("both", 3), ("intended", 0)] {
        let text = told(interval);
        assert!(text.contains(&format!("[VERIFY], Operations, {count}\n")), "{text}");
        assert!(text.contains("[VERIFY], Return=OK, 1\n"), "{text}");
        assert!(text.contains("[VERIFY], Return=UNEXPECTED_STATE, 2\n"), "{text}");
        assert!(!text.contains("Intended-VERIFY") && !text.contains("FAILED"), "{text}");
    }
}

#[test]
fn older_kinds_of_measurement() {
    let buckets = output(&["measurementtype=histogram"]).text();
    assert!(buckets.contains("[UPDATE], LatencyVariance(us), "), "{buckets}");
    assert!(buckets.contains("[UPDATE], 99thPercentileLatency(us), 2000\n"), "{buckets}");
    assert!(buckets.contains("[READ], 95thPercentileLatency(us), 0\n"), "{buckets}");
    let few = output(&["measurementtype=histogram", "histogram.buckets=1"]).text();
    assert!(!few.contains("[UPDATE], 95th"), "past the last bucket: {few}");
    let series = output(&["measurementtype=timeseries", "timeseries.granularity=2"]).text();
    assert!(series.contains("[READ], 0, 100.0\n[READ], 2, 250.0\n"), "{series}");
    let raw = output(&["measurementtype=raw"]);
    assert!(
        raw.raw().contains("READ latency raw data: op, timestamp(ms), latency(us)\nREAD,1,100\n")
    );
    assert!(raw.text().contains("[READ], p50, 200\n"), "{}", raw.text());
    let two = output(&["measurementtype=hdrhistogram+histogram"]).text();
    assert!(two.contains("[HdrREAD], Operations, 3\n"), "{two}");
    assert!(two.contains("[BucketREAD], Operations, 3\n"), "{two}");
    assert_eq!(two.matches("[HdrREAD], Return=").count(), 2, "{two}");
    assert_eq!(two.matches("[BucketREAD], Return=").count(), 0, "{two}");
    let two = output(&["measurementtype=hdrhistogram+raw"]);
    assert!(two.raw().contains("RawREAD,1,100\n"));
}

#[test]
fn json_in_both_forms() {
    let package = "site.ycsb.measurements.exporter";
    let array = output(&[&format!("exporter={package}.JSONArrayMeasurementsExporter")]).text();
    let array: Vec<serde_json::Value> = serde_json::from_str(&array).unwrap();
    assert_eq!(array[0]["metric"], "OVERALL");
    assert_eq!(array[0]["value"], 8);
    let objects = output(&[&format!("exporter={package}.JSONMeasurementsExporter")]).text();
    let objects = serde_json::Deserializer::from_str(&objects).into_iter::<serde_json::Value>();
    assert_eq!(objects.map(Result::unwrap).collect::<Vec<_>>(), array);
}

#[test]
fn numbers_are_written_as_java_does() {
    for (value, want) in [
        (0.0, "0.0"),
        (500.0, "500.0"),
        (810.372_771_474_878_4, "810.3727714748784"),
        (12_345_678.9, "1.23456789E7"),
        (1e7, "1.0E7"),
        (0.000_25, "2.5E-4"),
        (-3.5, "-3.5"),
        (f64::NAN, "NaN"),
        (f64::INFINITY, "Infinity"),
    ] {
        assert_eq!(java_double(value), want);
    }
    for (written, want) in
        [("95", "95th"), ("1", "1st"), ("2", "2nd"), ("3", "3rd"), ("11", "11th"), ("99.9", "99.9")]
    {
        assert_eq!(ordinal(written, written.parse().unwrap()), want);
    }
}

#[test]
fn equal_latencies_have_no_variance() {
    let mut properties = Properties::new();
    properties.assign("measurementtype=histogram").unwrap();
    let plan = Arc::new(Settings::new(&properties, false).unwrap().measure);
    let variance = |latencies_us: &[u64]| -> f64 {
        let [mut one, mut other] = [(); 2].map(|()| Measurements::new(&plan, 0));
        for (at, us) in latencies_us.iter().enumerate() {
            let done = Done { intended_ns: 0, start_ns: 0, end_ns: us * 1000 };
            let client = if at % 2 == 0 { &mut one } else { &mut other };
            client.record(Measured::Read, Status::Ok, done);
        }
        one.add(&other);
        let text = YcsbOutput::new(&plan, &one, 1_000_000).text();
        let line = text.lines().find_map(|l| l.strip_prefix("[READ], LatencyVariance(us), "));
        line.unwrap().parse().unwrap()
    };
    for us in [0, 1, 1_234_567, 86_399_999_999] {
        assert_eq!(variance(&[us; 7]), 0.0, "{us}");
    }
    assert_eq!(variance(&[1_000_001, 1_000_003]), 1.0);
    assert!((variance(&[100, 100, 101]) - 2.0 / 9.0).abs() < 1e-12);
}
