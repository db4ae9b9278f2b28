//! Wrong answers are distinguished from failed reads.

use super::logs::LogModel;
use super::trouble::Trouble;
use super::{compare_all, compare_batch};
use crate::Scenario;
use crate::rig::{Forecast, Rig, Weather};
use imbrex_disk::{BLOCK_LEN_BYTES, BlockRange, Disk, DiskError, Lba};
use imbrex_files::{FileKind, FileReader, Files, FilesError, Hints};

/// A file that answers with these bytes, or not at all.
#[derive(Debug)]
struct Fake {
    bytes: Vec<u8>,
    fails: bool,
}

impl Fake {
    fn holding(bytes: &[u8]) -> Fake {
        Fake { bytes: bytes.to_vec(), fails: false }
    }

    fn failing(bytes: &[u8]) -> Fake {
        Fake { fails: true, ..Fake::holding(bytes) }
    }
}

impl FileReader for Fake {
    fn len_bytes(&self) -> u64 {
        self.bytes.len() as u64
    }

    fn name(&self) -> &'static str {
        "fake"
    }

    fn read_at<'a>(
        &self,
        offset: u64,
        len_bytes: usize,
        scratch: &'a mut Vec<u8>,
    ) -> Result<&'a [u8], FilesError> {
        if self.fails {
            return Err(FilesError::Disk {
                what: "a read".to_string(),
                source: DiskError::PowerLost,
            });
        }
        let at = offset as usize;
        *scratch = self.bytes[at..at + len_bytes].to_vec();
        Ok(scratch)
    }

    fn extents(&self) -> Vec<BlockRange> {
        Vec::new()
    }
}

fn rig() -> Rig {
    Rig::new(Scenario::by_name("files-conventional").unwrap(), 7, Forecast::Drawn)
}

/// Foul weather excuses a failed read, and nothing else.
fn check(what: &str, outcome: Result<(), Trouble>, is_excused: bool) {
    let mut rig = rig();
    rig.set_weather(Weather::ReadError { after: 0, sticky: false });
    rig.disk.read(Lba::new(0), &mut [0; BLOCK_LEN_BYTES]).expect_err("the fault hits");
    let trouble = outcome.expect_err(what);
    assert_eq!(trouble.settle(&mut rig).is_ok(), is_excused, "{what}");
}

#[test]
fn no_weather_excuses_wrong_bytes() {
    check("a file too short", compare_all(&Fake::holding(b"ab"), b"abc"), false);
    check("a file too long", compare_all(&Fake::holding(b"abcd"), b"abc"), false);
    check("another byte", compare_all(&Fake::holding(b"abd"), b"abc"), false);
    check("another in a batch", compare_batch(&Fake::holding(b"abd"), b"abc", 1, 2), false);
    check("a failed read", compare_all(&Fake::failing(b"abc"), b"abc"), true);
    check("a failed batch", compare_batch(&Fake::failing(b"abc"), b"abc", 1, 2), true);
    let name = "fake".to_string();
    let past_end = FilesError::PastEnd { name, offset: 0, len_bytes: 3, file_len_bytes: 2 };
    check("an end that moved", Err(Trouble::failed("read", past_end)), false);
}

#[test]
fn no_weather_excuses_a_log_without_its_records() {
    let mut rig = rig();
    rig.format().unwrap();
    let files = rig.open_files().unwrap();
    let writer = files.create_log("log", Hints::new(FileKind::Log)).unwrap();
    let mut log = LogModel::new(7, Some(writer));
    log.append(&mut rig.prng, true).unwrap();
    log.compare_live(&*files.open("log").unwrap()).unwrap();
    check("no records", log.compare_live(&Fake::holding(&[])), false);
    check("a failed read", log.compare_live(&Fake::failing(&[0; 4096])), true);

    let reader = files.open("log").unwrap();
    let mut bytes =
        reader.read_at(0, reader.len_bytes() as usize, &mut Vec::new()).unwrap().to_vec();
    bytes[100] ^= 1;
    check("a damaged record", log.compare_live(&Fake::holding(&bytes)), false);
}
