//! Small tables and their corner cases.

use super::*;

fn entries(list: &[(&str, u64, Option<&str>)]) -> Entries {
    list.iter()
        .map(|&(key, seq, value)| {
            let kind = if value.is_some() { Kind::Put } else { Kind::Delete };
            let value = value.unwrap_or_default().as_bytes().to_vec();
            ((key.as_bytes().to_vec(), std::cmp::Reverse(seq)), (kind, value))
        })
        .collect()
}

#[test]
fn an_empty_table_holds_nothing() {
    let (bytes, properties) = build(&Entries::new(), &TableOptions::default());
    assert_eq!(properties.entry_count, 0);
    let table = open(bytes).unwrap();
    let mut iter = table.iter(TableReadOptions::default());
    iter.seek_to_first().unwrap();
    assert!(!iter.valid());
    iter.seek_to_last().unwrap();
    assert!(!iter.valid());
    iter.seek_before(InternalKey::new(b"z", Trailer::seek(Seq::MAX))).unwrap();
    assert!(!iter.valid());
    assert_eq!(table.get(b"a", key_hash(b"a"), Seq::MAX).unwrap(), TableLookup::Missing);
    assert_eq!(table.approximate_offset(b"a").unwrap(), 0);
}

#[test]
fn a_reader_sees_the_newest_version_at_its_snapshot() {
    let list = entries(&[("a", 9, Some("new")), ("a", 4, Some("old")), ("b", 7, None)]);
    let (bytes, properties) = build(&list, &TableOptions::default());
    assert_eq!((properties.entry_count, properties.delete_count), (3, 1));
    assert_eq!((properties.smallest_seq, properties.largest_seq), (Seq(4), Seq(9)));
    let table = open(bytes).unwrap();
    let get =
        |key: &str, seq| table.get(key.as_bytes(), key_hash(key.as_bytes()), Seq(seq)).unwrap();
    let value = |value: &'static str, seq| TableLookup::Value {
        value: bytes::Bytes::from_static(value.as_bytes()),
        seq: Seq(seq),
    };
    assert_eq!(get("a", 100), value("new", 9));
    assert_eq!(get("a", 9), value("new", 9));
    assert_eq!(get("a", 8), value("old", 4));
    assert_eq!(get("a", 3), TableLookup::Missing);
    assert_eq!(get("b", 8), TableLookup::Deleted { seq: Seq(7) });
    assert_eq!(get("b", 6), TableLookup::Missing);
}

#[test]
fn range_tombstones_widen_the_key_range() {
    let mut builder = new_builder(&TableOptions::default());
    builder.add(b"m", trailer(5, Kind::Put), b"1");
    builder.add_range_tombstone(b"c", b"x", Seq(8));
    builder.add_range_tombstone(b"q", b"q", Seq(9));
    let (file, properties) = builder.finish();
    assert_eq!(properties.smallest_user_key, b"c");
    assert_eq!(properties.largest_user_key, b"x");
    assert_eq!((properties.smallest_seq, properties.largest_seq), (Seq(5), Seq(8)));
    assert_eq!(properties.range_tombstone_count, 1);
    let table = open(file_bytes(&file)).unwrap();
    assert_eq!(table.properties(), &properties);
    let covering = |key| table.range_tombstones().max_seq_covering(key, Seq::MAX);
    assert_eq!([covering(b"b"), covering(b"c"), covering(b"x")], [None, Some(Seq(8)), None]);
}

#[test]
fn a_table_of_tombstones_alone_has_a_key_range() {
    let mut builder = new_builder(&TableOptions::default());
    assert!(builder.is_empty());
    builder.add_range_tombstone(b"c", b"x", Seq(8));
    assert!(!builder.is_empty());
    let (file, properties) = builder.finish();
    assert_eq!((properties.smallest_seq, properties.largest_seq), (Seq(8), Seq(8)));
    assert_eq!(properties.smallest_user_key, b"c");
    assert!(open(file_bytes(&file)).is_ok());
}

#[test]
#[should_panic(expected = "T1")]
fn entries_out_of_order_are_our_own_error() {
    let mut builder = new_builder(&TableOptions::default());
    builder.add(b"b", trailer(1, Kind::Put), b"");
    builder.add(b"a", trailer(2, Kind::Put), b"");
}

#[test]
#[should_panic(expected = "T1")]
fn versions_out_of_order_are_our_own_error() {
    let mut builder = new_builder(&TableOptions::default());
    builder.add(b"b", trailer(1, Kind::Put), b"");
    builder.add(b"b", trailer(1, Kind::Put), b"");
}

#[test]
fn a_long_value_gets_a_block_of_its_own() {
    let long = "x".repeat(300_000);
    let list = entries(&[("a", 1, Some("1")), ("b", 2, Some(&long)), ("c", 3, Some("3"))]);
    for compression in [Compression::None, Compression::Lz4, Compression::Zstd] {
        let options = TableOptions { compression, ..TableOptions::default() };
        let table = open(build(&list, &options).0).unwrap();
        let found = table.get(b"b", key_hash(b"b"), Seq::MAX).unwrap();
        let TableLookup::Value { value, seq: Seq(2) } = found else { panic!("{found:?}") };
        assert_eq!(value, long.as_bytes());
    }
}

#[test]
fn a_table_in_words() {
    let list = entries(&[("apple", 9, Some("red")), ("apple", 4, None), ("fig", 0, Some(""))]);
    let mut builder = new_builder(&TableOptions { table_id: 7, ..TableOptions::default() });
    for ((key, seq), (kind, value)) in &list {
        builder.add(key, trailer(seq.0, *kind), value);
    }
    builder.add_range_tombstone(b"b", b"c", Seq(300));
    let table = open(file_bytes(&builder.finish().0)).unwrap();
    let mut lines = String::new();
    table
        .describe(true, &mut |line| {
            lines += line;
            lines.push('\n');
        })
        .unwrap();
    assert_eq!(lines, include_str!("../../../testdata/table/in_words.txt"));
}

/// The bytes of a small table, so that no change of the format goes unnoticed.
#[test]
fn golden_bytes() {
    let list = entries(&[("apple", 9, Some("red")), ("apple", 4, None), ("fig", 0, Some(""))]);
    let options = TableOptions { table_id: 7, ..TableOptions::default() };
    let mut builder = new_builder(&options);
    for ((key, seq), (kind, value)) in &list {
        builder.add(key, trailer(seq.0, *kind), value);
    }
    builder.add_range_tombstone(b"b", b"c", Seq(300));
    let bytes = file_bytes(&builder.finish().0);
    let mut hex: Vec<String> = bytes
        .chunks(32)
        .map(|line| line.iter().map(|byte| format!("{byte:02x}")).collect())
        .collect();
    // The zeros between the copies and the parts themselves are one line.
    hex.dedup_by(|line, before| line == before && line.bytes().all(|digit| digit == b'0'));
    assert_eq!(bytes.len(), 4236);
    assert_eq!(hex.join("\n"), include_str!("../../../testdata/table/golden.hex").trim_end());
}

/// The bytes that version 1 had for the same table.
#[test]
fn the_golden_bytes_of_version_1_are_read() {
    let hex = include_str!("../../../testdata/table/golden_version_1.hex");
    let digits: Vec<u8> = hex.bytes().filter(u8::is_ascii_hexdigit).collect();
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
    let table = open(digits.chunks(2).map(byte).collect()).unwrap();
    assert_eq!(table.verify(&mut |_| Ok(())).unwrap().findings, Vec::<String>::new());
    let apple = table.get(b"apple", key_hash(b"apple"), Seq::MAX).unwrap();
    assert!(matches!(apple, TableLookup::Value { seq: Seq(9), .. }), "{apple:?}");
    assert_eq!(table.range_tombstones().fragments().count(), 1);
}
