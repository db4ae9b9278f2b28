#![doc = include_str!("../../docs/formats/flash_pair.md")]

use crate::catalog::{COUNT_END, FileId};

const MAGIC_BYTES: [u8; 8] = *b"IMBXPAIR";
const FORMAT_VERSION: u32 = 1;

const MAGIC: usize = 0;
const VERSION: usize = MAGIC + 8;
const RESERVED: usize = VERSION + 4;
const MAIN_ID: usize = RESERVED + 4;
const FLASH_ID: usize = MAIN_ID + 8;
const AGE: usize = FLASH_ID + 8;
const MAIN_AGE: usize = AGE + 8;
const LEN: usize = MAIN_AGE + 8;
const _: () = assert!(LEN == 48);

/// What a flash drive records about its pair, anew with each commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PairRecord {
    pub(super) main_id: u64,
    pub(super) flash_id: u64,
    /// How many commits the flash drive has made, including this one.
    pub(super) age: u64,
    /// How many of them the main drive knows of, durably.
    pub(super) main_age: u64,
}

impl PairRecord {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut record = vec![0; LEN];
        let mut put = |at: usize, bytes: &[u8]| record[at..at + bytes.len()].copy_from_slice(bytes);
        put(MAGIC, &MAGIC_BYTES);
        put(VERSION, &FORMAT_VERSION.to_le_bytes());
        put(MAIN_ID, &self.main_id.to_le_bytes());
        put(FLASH_ID, &self.flash_id.to_le_bytes());
        put(AGE, &self.age.to_le_bytes());
        put(MAIN_AGE, &self.main_age.to_le_bytes());
        record
    }

    /// Never panics, whatever the bytes are.
    pub(super) fn decode(record: &[u8]) -> Result<PairRecord, String> {
        if record.len() != LEN {
            return Err(format!("{} bytes; {LEN} are expected", record.len()));
        }
        if record[MAGIC..VERSION] != MAGIC_BYTES {
            return Err("it is not the record of a pair of drives".to_owned());
        }
        let u32_at =
            |at: usize| record[at..at + 4].iter().rev().fold(0, |n, &b| n << 8 | u32::from(b));
        let u64_at =
            |at: usize| record[at..at + 8].iter().rev().fold(0, |n, &b| n << 8 | u64::from(b));
        let version = u32_at(VERSION);
        if version != FORMAT_VERSION {
            return Err(format!("format version {version}; this program knows {FORMAT_VERSION}"));
        }
        if u32_at(RESERVED) != 0 {
            return Err("reserved bytes are not zero".to_owned());
        }
        let pair = PairRecord {
            main_id: u64_at(MAIN_ID),
            flash_id: u64_at(FLASH_ID),
            age: u64_at(AGE),
            main_age: u64_at(MAIN_AGE),
        };
        if pair.age == 0 || pair.age < pair.main_age || pair.age >= COUNT_END {
            let PairRecord { age, main_age, .. } = pair;
            return Err(format!("{age} commits, of which the main drive knows {main_age}"));
        }
        Ok(pair)
    }
}

/// The beginning of a file's name on the flash drive.
pub(super) fn number(id: FileId) -> String {
    format!("{:016x}", id.0)
}

/// The name on the flash drive of a log that was created as `name`.
pub(super) fn log_name(id: FileId, name: &str) -> String {
    format!("{:016x} {name}", id.0)
}

/// The file called `name` on the flash drive, and the name that it was created with if it is a log.
pub(super) fn parse_name(name: &str) -> Option<(FileId, Option<&str>)> {
    let (number, rest) = name.split_at_checked(16)?;
    let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    if !number.bytes().all(is_digit) {
        return None;
    }
    let id = u64::from_str_radix(number, 16).ok().filter(|&id| id < COUNT_END).map(FileId)?;
    if rest.is_empty() {
        return Some((id, None));
    }
    rest.strip_prefix(' ').map(|name| (id, Some(name)))
}
