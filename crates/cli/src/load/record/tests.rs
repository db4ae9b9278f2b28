//! JSON lines: values, malformed lines, columns in messages.

use super::*;

fn all(mut records: impl Records) -> Vec<Result<(u64, String, String), String>> {
    let mut found = Vec::new();
    while let Some(next) = records.next().unwrap() {
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        found.push(match next {
            Ok(record) => Ok((record.line, text(record.key), text(record.value))),
            Err(bad) => Err(format!("line {}: {}", bad.line, bad.reason)),
        });
    }
    found
}

fn fields(key: &str, value: &str) -> Fields {
    Fields { key: key.to_owned(), value: value.to_owned() }
}

fn json(text: &'static str) -> Vec<Result<(u64, String, String), String>> {
    all(JsonLines::new(Box::new(text.as_bytes()), "x", fields("key", "value")))
}

fn ok(line: u64, key: &str, value: &str) -> Result<(u64, String, String), String> {
    Ok((line, key.to_owned(), value.to_owned()))
}

#[test]
fn json_values_are_strings_or_their_own_text() {
    let text = concat!(
        "{\"key\": \"a\", \"value\": \"b\\n\\u00e4\"}\n",
        "\n",
        "{\"value\": {\"z\": 1, \"a\": [2]}, \"key\": 17}\n",
        "{\"key_hex\": \"6b\", \"value\": \"\"}",
    );
    assert_eq!(
        json(text),
        [ok(1, "a", "b\nä"), ok(3, "17", "{\"z\": 1, \"a\": [2]}"), ok(4, "k", "")]
    );
}

#[test]
fn a_malformed_line_is_reported_and_the_rest_is_read() {
    let text = "{\"key\": \"a\"\n[1]\n{\"key\": 1}\n{\"key\": null, \"value\": 1}\n\
                {\"key\": \"k\", \"value\": \"v\"}\n";
    let found = json(text);
    assert_eq!(found.len(), 5);
    let errors: Vec<_> = found.iter().filter_map(|r| r.as_ref().err()).collect();
    assert_eq!(errors.len(), 4);
    assert!(errors[0].starts_with("line 1: not a JSON object: EOF"), "{}", errors[0]);
    assert!(errors[1].starts_with("line 2: not a JSON object"), "{}", errors[1]);
    assert_eq!(errors[2], "line 3: the object has no field \"value\"");
    assert_eq!(errors[3], "line 4: field \"key\" is null");
    assert_eq!(found[4], ok(5, "k", "v"));
}

#[test]
fn an_error_inside_a_field_has_its_column_on_the_line() {
    let text = concat!(
        "{\"key\":\"a\",\"value\":\"1\"}\n",
        "{\"key\":\"b\",\"value\":\"2\"}\n",
        "{\"key\":\"\\ud800\",\"value\":\"3\"}\n",
    );
    let found = json(text);
    assert_eq!(found[..2], [ok(1, "a", "1"), ok(2, "b", "2")]);
    let told = found[2].clone().unwrap_err();
    assert_eq!(told, "line 3: field \"key\": unexpected end of hex escape at column 15");
}

#[test]
fn a_byte_order_mark_is_skipped_and_a_lone_cr_is_white_space() {
    assert_eq!(json("\u{feff}{\"key\": \"a\",\r\"value\": 1}\r\n"), [ok(1, "a", "1")]);
    let again = json("\u{feff}\n\u{feff}{\"key\": \"a\", \"value\": 1}\n");
    assert!(again[0].clone().unwrap_err().starts_with("line 2: not a JSON object"), "{again:?}");
}
