//! Several threads at once: group commit, zones written side by side, reads under cleaning.

use super::stage::{Zones, assert_sound, put, remove, verify, zoned};
use crate::{FileKind, Files, FilesError, Hints};
use imbrex_clockwork::{Runtime, fan_out};
use imbrex_disk::Blocks;

#[test]
fn writers_and_removers_leave_a_sound_drive() {
    let zones = Zones { count: 40, len: 64, conventional: 1, active_limit: Some(8) };
    let stage = zoned(zones, 0);
    let files = stage.format("zone-per-level").unwrap();
    let workers: Vec<u8> = (0..4).collect();
    fan_out(4, &workers, |&worker| {
        for round in 0..20 {
            let name = format!("{worker}-{round}");
            put(&files, &name, 5 + u64::from(worker) * 7, worker).unwrap();
            verify(&files, &name, &name).unwrap();
            if round >= 3 {
                remove(&files, &[&format!("{worker}-{}", round - 3)]).unwrap();
            }
        }
    });
    assert_eq!(files.list("").len(), 12);
    assert_sound(&files);
    drop(files);
    let files = stage.open().unwrap();
    for file in files.list("") {
        verify(&files, &file.name, &file.name).unwrap();
    }
}

#[test]
fn reads_go_on_while_the_drive_is_cleaned() {
    let zones = Zones { count: 16, len: 64, conventional: 1, active_limit: None };
    let stage = zoned(zones, 0);
    let runtime = Runtime::threads(1);
    let files = stage.format("log-structured").unwrap();
    runtime.scheduler.spawn(files.clean_job());
    for index in 0..8 {
        put(&files, &format!("keep-{index}"), 40, 1).unwrap();
    }
    fan_out(3, &[0, 1, 2], |&worker| {
        for round in 0..30 {
            if worker == 0 {
                let name = format!("churn-{round}");
                put(&files, &name, 24, 1).unwrap();
                remove(&files, &[&name]).unwrap();
            } else {
                let name = format!("keep-{}", (round + worker) % 8);
                verify(&files, &name, &name).unwrap();
            }
        }
    });
    assert_sound(&files);
}

#[test]
fn a_log_is_appended_while_tables_are_written() {
    let zones = Zones { count: 40, len: 64, conventional: 1, active_limit: None };
    let stage = zoned(zones, 0);
    let files = stage.format("zone-per-level").unwrap();
    let log = files.create_log("w", Hints::new(FileKind::Log)).unwrap();
    fan_out(2, &[0, 1], |&worker| {
        for round in 0..40 {
            if worker == 0 {
                log.append(&vec![round; 3 * 4096]).unwrap();
                log.sync().unwrap();
            } else {
                put(&files, &format!("t{round}"), 9, 1).unwrap();
            }
        }
    });
    log.finish().unwrap();
    assert!(matches!(log.append(&[0; 4096]), Err(FilesError::Finished { .. })));
    assert_eq!(files.open("w").unwrap().len_bytes(), Blocks::new(120).bytes());
    assert_sound(&files);
}
