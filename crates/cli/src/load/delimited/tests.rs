//! Rows and their lines: quotes, line ends, byte order marks, malformed rows.

use super::*;

type Found = Vec<Result<(u64, String, String), String>>;

fn open(text: &str, separator: u8, (key, value): (&str, &str)) -> Result<Delimited, CliError> {
    let fields = Fields { key: key.to_owned(), value: value.to_owned() };
    let reader = Box::new(std::io::Cursor::new(text.as_bytes().to_vec()));
    Delimited::new(reader, "x", &fields, separator, key.parse::<u8>().is_err())
}

/// The records of `text`, malformed lines, and the error that ends the reading, if any.
fn read(text: &str, separator: u8, fields: (&str, &str)) -> Found {
    let mut records = open(text, separator, fields).unwrap();
    let mut found = Vec::new();
    loop {
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        match records.next() {
            Ok(None) => return found,
            Ok(Some(Ok(record))) => {
                found.push(Ok((record.line, text(record.key), text(record.value))));
            }
            Ok(Some(Err(bad))) => found.push(Err(format!("line {}: {}", bad.line, bad.reason))),
            Err(error) => {
                found.push(Err(error.to_string()));
                return found;
            }
        }
    }
}

fn csv(text: &str) -> Found {
    read(text, b',', ("key", "value"))
}

fn tsv(text: &str) -> Found {
    read(text, b'\t', ("key", "value"))
}

fn ok(line: u64, key: &str, value: &str) -> Result<(u64, String, String), String> {
    Ok((line, key.to_owned(), value.to_owned()))
}

fn fails(found: &Found, parts: &[&str]) {
    let told = found.last().unwrap().as_ref().unwrap_err();
    for part in parts {
        assert!(told.contains(part), "{part}: {told}");
    }
}

#[test]
fn line_numbers_count_line_breaks_in_quotes_and_empty_lines() {
    let text = "id,body\n1,\"two\nlines\"\n2\n\r\n\n3,\"say \"\"x\"\"\"\n";
    assert_eq!(
        read(text, b',', ("id", "body")),
        [
            ok(2, "1", "two\nlines"),
            Err("line 4: it has 1 fields, but field 2 is needed".to_owned()),
            ok(7, "3", "say \"x\""),
        ]
    );
}

#[test]
fn fields_are_empty_quoted_and_at_the_end_of_a_source_without_a_line_end() {
    assert_eq!(
        csv("key,value\na,\n\"\",\"\"\r\n,b"),
        [ok(2, "a", ""), ok(3, "", ""), ok(4, "", "b")]
    );
    assert_eq!(csv("key,value\n\"a,b\",\"\"\"\"\"c\"\n").len(), 1);
    assert_eq!(csv("\"key\",\"value\"\na,x\"y\"\n"), [ok(2, "a", "x\"y\"")]);
}

#[test]
fn tsv_without_a_header_numbers_columns_and_keeps_quotes() {
    assert_eq!(read("b\t\"x\ta\n", b'\t', ("3", "2")), [ok(1, "a", "\"x")]);
}

/// The reader took the rest of the source for the text of the field, and the load succeeded.
#[test]
fn an_open_quote_is_an_error_with_its_line() {
    let found = csv("key,value\na,1\nb,\"two\nc,3\nd,4\n");
    assert_eq!(found[0], ok(2, "a", "1"));
    assert_eq!(found.len(), 2);
    fails(&found, &["x: line 3: a quote opens and never closes"]);
    // The row begins on line 2, the open quote on line 3.
    fails(&csv("key,value\n\"a\nb\",\"two\nc,3\n"), &["x: line 3: a quote opens"]);
    fails(&csv("key,value\na,\""), &["x: line 2: a quote opens"]);
    let header = open("\"key,value\na,1\n", b',', ("key", "value")).err().unwrap();
    assert!(header.to_string().contains("x: line 1: a quote opens"), "{header}");
    assert_eq!(tsv("key\tvalue\nb\t\"two\nc\t3\n"), [ok(2, "b", "\"two"), ok(3, "c", "3")]);
}

/// The next quote closed an open one, and the lines between were stored as one value.
#[test]
fn text_after_a_closing_quote_is_a_malformed_line() {
    let found = csv("key,value\nb,\"two\nc,\"3\"\nd,4\n");
    let wanted = "line 2: text follows the closing quote of field 2 on line 3; a quote inside a quoted \
                  field is written twice";
    assert_eq!(found, [Err(wanted.to_owned()), ok(4, "d", "4")]);
    fails(&csv("key,value\n\"a\"b,1\n"), &["line 2: text follows the closing quote of field 1;"]);
    let header = open("\"key\"s,value\n", b',', ("key", "value")).err().unwrap();
    assert!(header.to_string().contains("x: line 1: text follows"), "{header}");
}

#[test]
fn a_byte_order_mark_is_skipped() {
    assert_eq!(csv("\u{feff}key,value\na,1\n"), [ok(2, "a", "1")]);
    assert_eq!(csv("\u{feff}\"key\",value\na,\u{feff}1\n"), [ok(2, "a", "\u{feff}1")]);
    assert_eq!(tsv("\u{feff}key\tvalue\na\t1\n"), [ok(2, "a", "1")]);
    assert_eq!(read("\u{feff}a,1\n", b',', ("1", "2")), [ok(1, "a", "1")]);
}

/// A CR ended a row, so that one line became two records.
#[test]
fn a_lone_cr_splits_nothing() {
    assert_eq!(tsv("key\tvalue\na\tone\rb\ttwo\n"), [ok(2, "a", "one\rb")]);
    assert_eq!(tsv("key\tvalue\r\na\tone\r\r\n"), [ok(2, "a", "one\r")]);
    assert_eq!(csv("key,value\na,one\rb,two\n"), [ok(2, "a", "one\rb")]);
    let quoted = csv("key,value\r\na,\"x\r\ny\r\"\r\nb,2\r");
    assert_eq!(quoted, [ok(2, "a", "x\r\ny\r"), ok(4, "b", "2\r")]);
    let error = open("key,value\ra,1\r", b',', ("key", "value")).err().unwrap();
    assert!(error.to_string().contains("it names key, value\\ra, 1\\r;"), "{error}");
}

#[test]
fn the_error_for_a_missing_column_lists_the_columns() {
    for (text, line) in [("id,body\n", 1), ("\n\nid,body\n", 3)] {
        let error = open(text, b',', ("key", "body")).err().unwrap().to_string();
        assert!(
            error.contains(&format!("x: line {line} names no column \"key\"; it names id, body;")),
            "{error}"
        );
    }
    // The first row of a file without a header.
    let long = format!("{}\n", vec!["v".repeat(4000); 20].join(","));
    let error = open(&long, b',', ("key", "value")).err().unwrap().to_string();
    assert!(error.contains(&format!("{}..., and 8 more;", "v".repeat(40))), "{error}");
    assert!(error.len() < 1000, "{error}");
    let empty = open("", b',', ("key", "value")).err().unwrap();
    assert!(empty.to_string().contains("x: line 1 names no column"), "{empty}");
}
