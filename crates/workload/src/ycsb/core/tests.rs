use super::*;

fn properties(text: &str) -> Properties {
    let mut properties = Properties::new();
    properties.read(Path::new("w"), text.as_bytes()).unwrap();
    properties
}

fn workload(text: &str) -> CoreWorkload {
    CoreWorkload::new(&properties(text)).unwrap()
}

#[test]
fn defaults_are_those_of_ycsb() {
    let w = workload("recordcount=1000");
    assert_eq!((w.table.as_str(), w.insert_start, w.load_count), ("usertable", 0, 1000));
    assert_eq!(w.operation_count, 0);
    assert_eq!(w.field_names.len(), 10);
    assert!(matches!(w.field_lengths, Lengths::Constant(100)));
    assert!(matches!(w.keys, KeyChooser::Uniform { first: 0, count: 1000 }));
    assert!(matches!(w.scan_lengths, Lengths::Uniform { min: 1, max: 1000 }));
    assert!(w.reads_all_fields && !w.reads_by_name && !w.writes_all_fields && !w.verifies);
    assert_eq!(w.retry, InsertRetry { limit: 0, interval_s: 3, keeps_going: false });
    assert_eq!(w.key_names, KeyNames { is_ordered: false, digit_count_min: 1 });
    let shares = Mix::new(&[
        (OpKind::Read, 950_000_000),
        (OpKind::Update, 50_000_000),
        (OpKind::Insert, 0),
        (OpKind::Scan, 0),
        (OpKind::ReadModifyWrite, 0),
    ]);
    assert_eq!(w.mix, shares);
}

#[test]
fn every_distribution_is_made_as_asked() {
    let keys = |text: &str| workload(&format!("recordcount=1000\n{text}")).keys;
    let KeyChooser::Scrambled { first, count, .. } =
        keys("requestdistribution=zipfian\noperationcount=1000\ninsertproportion=0.05")
    else {
        panic!("zipfian is scrambled")
    };
    assert_eq!((first, count), (0, 1101));
    let KeyChooser::Hotspot { hot_count, cold_count, hot_per_million, .. } =
        keys("requestdistribution=hotspot\nhotspotdatafraction=0.1\nhotspotopnfraction=0.75")
    else {
        panic!("asked for a hotspot")
    };
    assert_eq!((hot_count, cold_count, hot_per_million), (100, 900, 750_000));
    let KeyChooser::Exponential { gamma } = keys("requestdistribution=exponential") else {
        panic!("asked for exponential")
    };
    assert!((gamma * 857.142_857 - 2.995_732).abs() < 1e-6, "{gamma}");
    assert!(matches!(keys("requestdistribution=latest"), KeyChooser::Latest(_)));
    assert!(matches!(
        keys("requestdistribution=sequential\ninsertstart=10\ninsertcount=50"),
        KeyChooser::Sequential { first: 10, count: 50, .. }
    ));
}

#[test]
fn fields_are_named_in_order_and_as_long_as_asked() {
    let text = "recordcount=1\nfieldcount=12\nfieldnameprefix=f\nfieldlengthdistribution=zipfian\n\
                minfieldlength=5\nfieldlength=9";
    let w = workload(text);
    assert!(w.field_names.is_sorted());
    let mut fields = w.fields(Prng::new(1));
    let record = fields.all("user1");
    assert_eq!(record.fields().len(), 12);
    assert!(record.fields().all(|(_, value)| (5..=9).contains(&value.len())));
}

#[test]
fn a_histogram_comes_from_its_file() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("lengths");
    let text = |path: &Path| {
        format!(
            "recordcount=1\nfieldlengthdistribution=histogram\nfieldlengthhistogram={}",
            path.display()
        )
    };
    for mark in ["", "\u{feff}"] {
        std::fs::write(&path, format!("{mark}BlockSize\t7\n0\t5\n1\t0\n")).unwrap();
        let w = workload(&text(&path));
        assert_eq!(w.field_lengths.next(&mut Prng::new(1)), 7);
    }
    std::fs::write(&path, "BlockSize\t7\n0\tx\n").unwrap();
    let error = CoreWorkload::new(&properties(&text(&path))).unwrap_err().to_string();
    assert!(error.contains("lengths:2: the weight"), "{error}");
    let error = CoreWorkload::new(&properties(&text(&dir.path().join("none")))).unwrap_err();
    assert!(error.to_string().contains("none"), "{error}");
}

#[test]
fn invalid_properties_are_reported() {
    let check = |text: &str, parts: &[&str]| {
        let error = CoreWorkload::new(&properties(text)).unwrap_err().to_string();
        assert!(parts.iter().all(|part| error.contains(part)), "{text:?}: {error}");
    };
    check("", &["recordcount", "missing"]);
    check("recordcount=0", &["recordcount is 0"]);
    check("recordcount=-1", &["w:1: recordcount=-1"]);
    check("recordcount=1000x", &["w:1: recordcount=1000x", "whole number"]);
    check("recordcount=10\ninsertstart=10", &["insertstart=10"]);
    check("recordcount=10\ninsertstart=5\ninsertcount=6", &["insertcount=6", "recordcount"]);
    check("recordcount=10\ninsertcount=9223372036854775807\ninsertstart=1", &["insertcount"]);
    let with = |text: &str, parts: &[&str]| check(&format!("recordcount=9\n{text}"), parts);
    with("workload=site.ycsb.workloads.TimeSeriesWorkload", &["w:2", "CoreWorkload"]);
    with("requestdistribution=normal", &["requestdistribution=normal", "zipfian"]);
    with("scanlengthdistribution=latest", &["w:2", "uniform or zipfian"]);
    with("fieldlengthdistribution=normal", &["w:2", "histogram"]);
    with("insertorder=random", &["hashed or ordered"]);
    with("minscanlength=5\nmaxscanlength=4", &["minscanlength=5"]);
    with("maxscanlength=0", &["maxscanlength=0"]);
    with("fieldlengthdistribution=uniform\nminfieldlength=101", &["minfieldlength=101"]);
    with("fieldcount=0", &["fieldcount=0"]);
    with("readproportion=0\nupdateproportion=0", &["nothing to do"]);
    with("scanproportion=-0.1", &["w:2: scanproportion=-0.1"]);
    with("scanproportion=inf", &["w:2: scanproportion=inf"]);
    with("dataintegrity=true\nfieldlengthdistribution=uniform", &["dataintegrity", "constant"]);
    with("requestdistribution=exponential\nexponential.percentile=100", &["percentile=100"]);
    with("requestdistribution=exponential\nexponential.frac=0", &["frac=0"]);
    with("hotspotopnfraction=1.5", &["hotspotopnfraction=1.5"]);
    with("readallfields=yes", &["readallfields=yes", "true or false"]);
    with("fieldlength=2147483647", &["fieldcount=10", "fieldlength=2147483647", "1 GiB"]);
}
