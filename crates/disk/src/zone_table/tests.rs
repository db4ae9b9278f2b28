//! How writers of different zones affect each other between the two halves of a write.

use super::*;
use crate::{GeometrySpec, Rule};

fn table(open_zone_limit: u32, active_zone_limit: u32) -> ZoneTable {
    let spec = ZoneSpec {
        zone_len: Blocks::new(8),
        zone_capacity: Blocks::new(8),
        conventional_zone_count: 0,
        open_zone_limit: Some(open_zone_limit),
        active_zone_limit: Some(active_zone_limit),
        strict_reads: false,
    };
    let rule = Rule::AtPointer(spec);
    ZoneTable::new(Geometry::new(GeometrySpec { len: Blocks::new(32), rule }).unwrap(), spec)
}

fn range(start: u64, len: u64) -> BlockRange {
    BlockRange::new(Lba::new(start), Blocks::new(len))
}

fn states(table: &ZoneTable) -> Vec<String> {
    (0..4).map(|zone| table.info(ZoneId(zone)).unwrap().state.to_string()).collect()
}

#[test]
fn a_zone_closed_during_its_first_write_is_not_empty() {
    let table = table(1, 2);
    table.begin_write(range(0, 3)).unwrap();
    table.begin_write(range(8, 8)).unwrap();
    table.commit_write(ZoneId(0), Lba::new(3));
    assert_eq!(states(&table), ["closed", "open", "empty", "empty"]);
    let error = table.begin_write(range(16, 1)).unwrap_err().to_string();
    assert!(error.contains("2 zones are active already"), "{error}");
    table.commit_write(ZoneId(1), Lba::new(16));
    assert_eq!(states(&table), ["closed", "full", "empty", "empty"]);
    table.begin_write(range(16, 1)).unwrap();
    table.begin_write(range(3, 5)).unwrap();
    table.commit_write(ZoneId(2), Lba::new(17));
    table.commit_write(ZoneId(0), Lba::new(8));
    assert_eq!(states(&table), ["full", "full", "closed", "empty"]);
    assert_eq!(table.lock().active_count, 1);
}

#[test]
fn a_failed_first_write_leaves_the_zone_empty_even_if_another_writer_closed_it() {
    let table = table(1, 2);
    let first = table.begin_write(range(0, 3)).unwrap();
    let second = table.begin_write(range(8, 3)).unwrap();
    table.abandon_write(first);
    table.abandon_write(second);
    assert_eq!(states(&table), ["empty", "open", "empty", "empty"]);
    table.begin_write(range(16, 1)).unwrap();
    assert_eq!(states(&table), ["empty", "empty", "open", "empty"]);
    assert_eq!(table.lock().active_count, 1);
}
