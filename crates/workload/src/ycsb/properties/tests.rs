use super::*;

/// The properties that a file with `text` sets, as `key=value` each.
fn read(text: &str) -> Vec<String> {
    let mut properties = Properties::new();
    properties.read(Path::new("p"), text.as_bytes()).unwrap();
    let all = properties.from_files.iter();
    all.map(|(key, property)| format!("{key}={}", property.value)).collect()
}

#[test]
fn lines_are_read_as_java_reads_them() {
    let check = |text: &str, want: &[&str]| assert_eq!(read(text), want, "{text:?}");
    check("", &[]);
    check("\n  \n# a=1\n! b=2\n   # c=3\n", &[]);
    check("a=1", &["a=1"]);
    check("a = 1\r\nb:2\rc 3\nd\t=\t4", &["a=1", "b=2", "c=3", "d=4"]);
    check("  a   1 2 3\n", &["a=1 2 3"]);
    check("a", &["a="]);
    check("a=", &["a="]);
    check("a==b", &["a==b"]);
    check("a:=b", &["a==b"]);
    check("a=1\na=2\n", &["a=2"]);
    check("a=1 # no comment", &["a=1 # no comment"]);
    check("a=1, \\\n   2, \\\n   3\nb=4", &["a=1, 2, 3", "b=4"]);
    check("a=1\\\\\nb=2", &["a=1\\", "b=2"]);
    check("a\\ b=c\nd\\=e=f\ng\\:h:i", &["a b=c", "d=e=f", "g:h=i"]);
    check("a=\\t\\n\\u0041\\u00e4\\q", &["a=\t\nA\u{e4}q"]);
    check("a=1 ", &["a=1 "]);
    check("# see C:\\users\\me\na=1", &["a=1"]);
    check("  ! \\u\r\na=1 \\\r\n  # 2\r\nb=3", &["a=1 # 2", "b=3"]);
    check("# a comment ends with its line \\\na=1", &["a=1"]);
    check("a=1\\", &["a=1"]);
    check("a=1\\\n", &["a=1"]);
}

/// Java makes the mark a part of the first key, which then has no effect.
#[test]
fn a_byte_order_mark_is_skipped() {
    assert_eq!(read("\u{feff}recordcount=5\na=1\n"), ["a=1", "recordcount=5"]);
    assert_eq!(read("\u{feff}# a comment\na=1\n"), ["a=1"]);
}

#[test]
fn a_directory_is_no_property_file() {
    let dir = tempfile::tempdir().unwrap();
    let error = Properties::new().read_file(dir.path()).unwrap_err().to_string();
    assert!(error.contains("directory") && !error.contains("line"), "{error}");
}

#[test]
fn bytes_are_latin_1_as_in_java() {
    let mut properties = Properties::new();
    properties.read(Path::new("p"), &b"table=caf\xe9"[..]).unwrap();
    assert_eq!(properties.get("table"), Some("caf\u{e9}"));
}

#[test]
fn later_files_and_then_the_command_line_override() {
    let mut properties = Properties::new();
    properties.set("target", "9");
    properties.read(Path::new("one"), &b"table=a\nrecordcount=1\ntarget=1\n"[..]).unwrap();
    properties.read(Path::new("two"), &b"\nrecordcount=2\n"[..]).unwrap();
    properties.assign("table=b=c").unwrap();
    assert_eq!(properties.get("recordcount"), Some("2"));
    assert_eq!(properties.get("table"), Some("b=c"));
    assert_eq!(properties.get("target"), Some("9"));
    assert_eq!(properties.keys().collect::<Vec<_>>(), ["recordcount", "table", "target"]);
    for got in ["", "=", " =1", "recordcount"] {
        let error = properties.assign(got).unwrap_err().to_string();
        assert!(error.contains("write key=value") && error.contains(got), "{error}");
    }
}

#[test]
fn an_invalid_value_is_reported_with_its_origin() {
    let mut properties = Properties::new();
    let text = b"# one\nrecordcount=many\n\nfieldcount=0\nreadallfields=ja\nreadproportion=-0.5\n";
    properties.read(Path::new("w/a"), &text[..]).unwrap();
    properties.set("target", "1e3");
    let check = |error: PropertyError, want: &str| assert_eq!(error.to_string(), want);
    check(
        properties.number("recordcount", 0, (0, 100)).unwrap_err(),
        "w/a:2: recordcount=many: expected a whole number from 0 to 100",
    );
    check(
        properties.number("fieldcount", 10, (1, 9)).unwrap_err(),
        "w/a:4: fieldcount=0: expected a whole number from 1 to 9",
    );
    check(
        properties.flag("readallfields", true).unwrap_err(),
        "w/a:5: readallfields=ja: expected true or false",
    );
    check(
        properties.decimal("readproportion", 0.95, (0.0, 1.0)).unwrap_err(),
        "w/a:6: readproportion=-0.5: expected a number from 0 to 1",
    );
    check(
        properties.number("target", 0, (0, 9)).unwrap_err(),
        "command line: target=1e3: expected a whole number from 0 to 9",
    );
    let nan = Properties::new();
    assert_eq!(nan.decimal("readproportion", 0.95, (0.0, 1.0)).unwrap(), 0.95);
    properties.set("readproportion", "NaN");
    properties.decimal("readproportion", 0.95, (0.0, 1.0)).unwrap_err();
}

#[test]
fn unknown_properties_are_named_with_their_place() {
    assert!(KNOWN.is_sorted(), "looked up by halves");
    let mut properties = Properties::new();
    properties.read(Path::new("w"), &b"recordcount=1\n\nopreationcount=5\n"[..]).unwrap();
    properties.set("jdbc.url", "x");
    properties.set("table", "t");
    let unknown: Vec<String> = properties.unknown().collect();
    assert_eq!(unknown, ["jdbc.url (command line)", "opreationcount (w:3)"]);
}

#[test]
fn invalid_property_files_are_reported() {
    let mut properties = Properties::new();
    let missing = properties.read_file(Path::new("/nosuch/workload")).unwrap_err().to_string();
    assert!(missing.contains("/nosuch/workload"), "{missing}");
    let text = b"a=1\nb=\\u12\n";
    let error = properties.read(Path::new("w"), &text[..]).unwrap_err().to_string();
    assert!(error.starts_with("property file w, line 2: "), "{error}");
    // For any bytes, parsing ends without a panic.
    let mut prng = imbrex_clockwork::Prng::new(1);
    for _ in 0..500 {
        let mut bytes = [0; 40];
        prng.fill(&mut bytes);
        let _ = Properties::new().read(Path::new("w"), &bytes[..]);
    }
}
