//! Golden series, means and counts, ends, and invalid input.

use super::*;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::PathBuf;

const SECOND_NS: u64 = 1_000_000_000;
const HOUR: ArrivalEnd = ArrivalEnd::Duration { ns: 3600 * SECOND_NS };
/// The cycle of [`diurnal`].
const MINUTES_15: ArrivalEnd = ArrivalEnd::Duration { ns: 900 * SECOND_NS };

fn pareto(shape: f64) -> Interarrival {
    Interarrival::Pareto { shape }
}

fn diurnal(modulation_per_s: f64, gaps: Interarrival) -> ArrivalModel {
    ArrivalModel::Diurnal { modulation_per_s, cycle_len_s: 900.0, gaps }
}

fn of(properties: &[(&str, &str)]) -> Result<ArrivalModel, ArrivalError> {
    let all: BTreeMap<&str, &str> = properties.iter().copied().collect();
    ArrivalModel::from_properties(&|key| all.get(key).map(|&value| value.to_owned()))
}

/// The series that the head of a golden file requests, and its lines.
fn golden_lines(head: &str) -> String {
    let all: BTreeMap<&str, &str> = head.lines().filter_map(|line| line.split_once('=')).collect();
    let get = |key: &str| all.get(key).map(|&value| value.to_owned());
    let end = match all.get("operations") {
        Some(count) => ArrivalEnd::Operations(count.parse().unwrap()),
        None => ArrivalEnd::Duration { ns: all["duration_ns"].parse().unwrap() },
    };
    let model = ArrivalModel::from_properties(&get).unwrap();
    let series = model.series(all["rate"].parse().unwrap(), end, all["seed"].parse().unwrap());
    let mut text = String::new();
    let mut count = 0;
    for (at, ns) in series.unwrap().enumerate() {
        if at < 40 || at % 9973 == 0 {
            writeln!(text, "{at} {ns}").unwrap();
        }
        count += 1;
    }
    writeln!(text, "{count} operations").unwrap();
    text
}

#[test]
fn series_are_the_golden_ones() {
    let dir = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("testdata/arrivals");
    let mut names: Vec<_> =
        std::fs::read_dir(&dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    names.sort();
    assert!(names.len() >= 12, "{names:?}");
    for path in names {
        let text = std::fs::read_to_string(&path).unwrap();
        let (head, lines) = text.split_once("----\n").unwrap();
        let got = golden_lines(head);
        if std::env::var_os("REWRITE").is_some() {
            std::fs::write(&path, format!("{head}----\n{got}")).unwrap();
        } else {
            assert!(lines == got, "{} is another series now", path.display());
        }
    }
}

fn every_model() -> Vec<ArrivalModel> {
    vec![
        ArrivalModel::Constant,
        ArrivalModel::Poisson,
        ArrivalModel::SelfSimilar { bias: 0.65 },
        ArrivalModel::SelfSimilar { bias: 0.99 },
        diurnal(90.0, Interarrival::Exponential),
        diurnal(50.0, Interarrival::Uniform),
        diurnal(50.0, Interarrival::Constant),
        diurnal(99.9, pareto(1.5)),
        ArrivalModel::Recorded(vec![0, 5, 5, 3000, 3601 * SECOND_NS].into()),
    ]
}

#[test]
fn times_never_decrease_and_ends_are_kept() {
    for model in every_model() {
        let all: Vec<u64> = model.series(100.0, HOUR, 7).unwrap().collect();
        assert!(all.is_sorted(), "{model}");
        assert!(*all.last().unwrap() < 3600 * SECOND_NS, "{model}");
        let first_50 = model.series(100.0, ArrivalEnd::Operations(50), 7).unwrap();
        let is_short = matches!(model, ArrivalModel::Recorded(_));
        assert_eq!(first_50.count(), if is_short { 5 } else { 50 }, "{model}");
        let none = ArrivalEnd::Duration { ns: 0 };
        assert_eq!(model.series(100.0, none, 7).unwrap().next(), None, "{model}");
        assert_eq!(model.series(100.0, ArrivalEnd::Operations(0), 7).unwrap().next(), None);
    }
}

#[test]
fn the_mean_rate_is_kept() {
    // For n independent gaps whose deviation equals their mean, the mean varies by 1 in the root of
    // n.
    let check = |model: ArrivalModel, tolerance: f64| {
        let count = model.series(1000.0, MINUTES_15, 3).unwrap().count() as f64;
        assert!((count / 9e5 - 1.0).abs() <= tolerance, "{model}: {count}");
    };
    check(ArrivalModel::Constant, 0.0);
    check(ArrivalModel::SelfSimilar { bias: 0.75 }, 0.0);
    check(ArrivalModel::Poisson, 0.004);
    check(diurnal(900.0, Interarrival::Constant), 2e-6);
    check(diurnal(900.0, Interarrival::Uniform), 0.004);
    check(diurnal(900.0, Interarrival::Exponential), 0.004);
    check(diurnal(900.0, pareto(3.0)), 0.005);
    check(diurnal(900.0, pareto(1.9)), 0.02);
}

#[test]
fn a_diurnal_rate_is_the_sine_that_was_asked_for() {
    let model = diurnal(900.0, Interarrival::Exponential);
    let mut counts = [0.0_f64; 15];
    for at_ns in model.series(1000.0, HOUR, 3).unwrap() {
        counts[(at_ns / SECOND_NS % 900 / 60) as usize] += 1.0;
    }
    for (minute, count) in counts.iter().enumerate() {
        let phase = |minute: usize| libm::cos(minute as f64 / 15.0 * 2.0 * std::f64::consts::PI);
        let sine = (phase(minute) - phase(minute + 1)) * 15.0 / 2.0 / std::f64::consts::PI;
        // Four cycles of one minute each.
        let want = 4.0 * 60.0 * (1000.0 + 900.0 * sine);
        assert!((count - want).abs() < 5.0 * want.sqrt(), "minute {minute}: {count}, not {want}");
    }
}

#[test]
fn a_cascade_gives_each_half_its_share_at_every_depth() {
    let model = ArrivalModel::SelfSimilar { bias: 0.7 };
    let end = ArrivalEnd::Duration { ns: 1 << 30 };
    let all: Vec<u64> = model.series(1e6, end, 5).unwrap().collect();
    for depth in 0..8 {
        let mut counts = vec![0_u64; 2 << depth];
        all.iter().for_each(|at_ns| counts[(at_ns >> (29 - depth)) as usize] += 1);
        for halves in counts.chunks(2) {
            let whole = halves[0] + halves[1];
            let more = halves[0].max(halves[1]) as f64;
            assert!((more - 0.7 * whole as f64).abs() <= 1.0, "{halves:?} at depth {depth}");
        }
    }
}

#[test]
fn ten_to_the_ninth_take_no_memory_to_begin_with() {
    for model in every_model() {
        if matches!(model, ArrivalModel::Recorded(_)) {
            continue;
        }
        let end = ArrivalEnd::Operations(1_000_000_000);
        let mut series = model.series(1e6, end, 1).unwrap();
        assert_eq!(series.by_ref().take(1000).count(), 1000);
        assert!(format!("{series:?}").len() < 60_000, "{model}");
    }
}

#[test]
fn a_gap_may_span_many_cycles() {
    let model = ArrivalModel::Diurnal {
        modulation_per_s: 0.000_9,
        cycle_len_s: 1.0,
        gaps: Interarrival::Constant,
    };
    let all: Vec<u64> = model.series(0.001, ArrivalEnd::Operations(3), 1).unwrap().collect();
    for (at_ns, want_s) in all.iter().zip([1000, 2000, 3000]) {
        assert!(at_ns.abs_diff(want_s * SECOND_NS) < 1000, "{all:?}");
    }
}

#[test]
fn properties_have_the_thesis_meanings() {
    assert_eq!(of(&[]).unwrap(), ArrivalModel::Constant);
    assert_eq!(of(&[("arrivalgenerator", "poisson")]).unwrap(), ArrivalModel::Poisson);
    let similar = |name| of(&[("arrivalgenerator", name), ("ss.bias", "0.75")]).unwrap();
    assert_eq!(similar("selfsimilar"), ArrivalModel::SelfSimilar { bias: 0.75 });
    assert_eq!(similar("self similar"), similar("selfsimilar"));
    let day = [("arrivalgenerator", "diurnal"), ("diurnal.modulation", "4900")];
    assert_eq!(of(&day).unwrap(), diurnal(4900.0, pareto(1.5)));
    let more = [
        ("diurnal.cyclelength", "1.5"),
        ("diurnal.distribution", "exponential"),
        ("diurnal.distribution.shape", "not looked at"),
    ];
    let want = ArrivalModel::Diurnal {
        modulation_per_s: 4900.0,
        cycle_len_s: 90.0,
        gaps: Interarrival::Exponential,
    };
    assert_eq!(of(&[&day[..], &more].concat()).unwrap(), want);
}

#[track_caller]
fn fails(result: Result<impl std::fmt::Debug, ArrivalError>, parts: &[&str]) {
    let error = result.unwrap_err().to_string();
    for part in parts {
        assert!(error.contains(part), "{part:?} is missing in: {error}");
    }
}

#[test]
fn invalid_input_gives_an_error_with_its_reason() {
    let generator = |name| ("arrivalgenerator", name);
    fails(of(&[generator("pareto")]), &["\"pareto\"", "selfsimilar", "recorded"]);
    fails(of(&[generator("diurnal")]), &["diurnal.modulation", "above and below"]);
    fails(of(&[generator("recorded")]), &["recorded.file"]);
    for bias in ["0.5", "1", "0.2", "-3"] {
        fails(of(&[generator("selfsimilar"), ("ss.bias", bias)]), &["bias of", "0.5", "and 1"]);
    }
    for bias in ["", "NaN", "inf", "much"] {
        let wrong = of(&[generator("selfsimilar"), ("ss.bias", bias)]);
        fails(wrong, &["ss.bias", "expected a number"]);
    }
    let day = [generator("diurnal"), ("diurnal.modulation", "50")];
    let with = |key, value| of(&[&day[..], &[(key, value)]].concat());
    for shape in ["1", "0.9", "0", "-1"] {
        fails(with("diurnal.distribution.shape", shape), &["shape of", "mean gap is infinite"]);
    }
    fails(with("diurnal.distribution", "zipfian"), &["zipfian", "exponential and pareto"]);
    fails(with("diurnal.cyclelength", "0"), &["cycle of 0 seconds"]);
    fails(with("diurnal.modulation", "-1"), &["modulation of -1"]);
    let hundred = ArrivalEnd::Operations(100);
    let model = of(&day).unwrap();
    fails(model.series(50.0, hundred, 1), &["modulation of 50", "mean of 50"]);
    let nan = ArrivalModel::SelfSimilar { bias: f64::NAN };
    fails(nan.series(1.0, hundred, 1), &["bias of NaN"]);
    for rate in [0.0, -1.0, f64::NAN, f64::INFINITY, 1.1e9] {
        fails(ArrivalModel::Poisson.series(rate, hundred, 1), &["a rate of", "at most 1000000000"]);
    }
    fails(ArrivalModel::Constant.series(1e-9, hundred, 1), &["1e2 operations in 1e11 seconds"]);
    let forever = ArrivalEnd::Operations(u64::MAX);
    fails(
        ArrivalModel::Constant.series(1e9, forever, 1),
        &["1.8446744073709552e19 operations", "can be counted"],
    );
}

fn read(text: &str) -> Result<Vec<u64>, ArrivalError> {
    let bytes = Box::new(std::io::Cursor::new(text.as_bytes().to_vec()));
    ArrivalReader::new("s.txt".as_ref(), bytes).unwrap().collect()
}

#[test]
fn files_of_times_are_read_in_their_unit() {
    assert_eq!(read("0\n5\n5\n").unwrap(), [0, 5, 5]);
    assert_eq!(read("time_ns\r\n1.9\r\n7").unwrap(), [1, 7]);
    assert_eq!(read("time_us\n1\n2.5\n").unwrap(), [1000, 2500]);
    assert_eq!(read("time_ms\n1\n").unwrap(), [1_000_000]);
    let epoch = "time_s\n1456135200.0131180001\n1456135201\n";
    assert_eq!(read(epoch).unwrap(), [1_456_135_200_013_118_000, 1_456_135_201_000_000_000]);
    assert!(read("").unwrap().is_empty());
}

#[test]
fn a_byte_order_mark_is_skipped_and_a_lone_cr_splits_nothing() {
    assert_eq!(read("\u{feff}time_us\n1\n").unwrap(), [1000]);
    assert_eq!(read("\u{feff}7\r\n8").unwrap(), [7, 8]);
    let longest = format!("1.{}", "0".repeat(254));
    assert_eq!(read(&format!("\u{feff}{longest}\r\n2\n")).unwrap(), [1, 2]);
    fails(read(&format!("\u{feff}{longest}0\r\n2\n")), &["line 1", "at most 256 bytes"]);
    fails(read("1\n\u{feff}2\n"), &["line 2"]);
    fails(read("1\n2\r3\n4\n"), &["line 2", "\"2\\r3\""]);
    fails(read("\u{feff}1\n\n"), &["line 2", "gap"]);
}

#[test]
fn gaps_disorder_and_noise_are_named_by_their_line() {
    fails(read("1\n2\n\n4\n"), &["s.txt, line 3", "gap"]);
    fails(read("time_us\n1\n3\n2.5\n"), &["line 4", "goes back from 3000 ns to 2500 ns"]);
    fails(read("1\n-2\n"), &["line 2", "\"-2\""]);
    fails(read("1\ntime_ns\n"), &["line 2", "time_ns"]);
    fails(read("time\n"), &["line 1"]);
    fails(read("4611686018427387904\n"), &["below 2^62"]);
    fails(read("time_s\n99999999999999999999\n"), &["line 2"]);
    fails(read(&"1".repeat(300)), &["line 1"]);
    fails(read("1.5.2\n"), &["line 1"]);
    fails(read("\u{0}\u{1}"), &["line 1"]);
}

#[test]
fn a_line_that_is_too_long_is_not_two() {
    let longest = format!("1.{}", "0".repeat(254));
    assert_eq!(read(&format!("{longest}\r\n2\n")).unwrap(), [1, 2]);
    fails(read(&format!("{longest}0\n2\n")), &["line 1", "at most 256 bytes"]);
    fails(read(&format!("{longest}{longest}")), &["line 1", "at most 256 bytes"]);
}

#[test]
fn noise_is_never_more_than_an_error() {
    const LETTERS: &[u8] = b"0123456789999..\n\n\r -e_times\xff\0";
    let mut prng = imbrex_clockwork::Prng::new(1);
    for _ in 0..2000 {
        let len = prng.below(60) as usize;
        let mut letter = || LETTERS[prng.below(LETTERS.len() as u64) as usize];
        let mut bytes: Vec<u8> = (0..len).map(|_| letter()).collect();
        if len.is_multiple_of(2) {
            bytes.splice(0..0, *b"time_s\n");
        }
        let Ok(all) = ArrivalReader::new("s".as_ref(), Box::new(std::io::Cursor::new(bytes)))
        else {
            continue;
        };
        let times: Vec<u64> = all.filter_map(Result::ok).collect();
        assert!(times.is_sorted() && times.iter().all(|&at_ns| at_ns < LEN_NS_MAX));
    }
}

#[test]
fn a_recorded_file_counts_from_its_first_operation() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("series.txt");
    std::fs::write(&path, "time_us\n100\n101\n150\n").unwrap();
    let file = path.to_str().unwrap();
    let model = of(&[("arrivalgenerator", "recorded"), ("recorded.file", file)]).unwrap();
    let all: Vec<u64> = model.series(1.0, HOUR, 1).unwrap().collect();
    assert_eq!(all, [0, 1000, 50_000]);
    std::fs::write(&path, "time_us\n").unwrap();
    fails(read_recorded(&path), &["no time in it"]);
    fails(read_recorded(&dir.path().join("nothing")), &["nothing", "No such file"]);
}
