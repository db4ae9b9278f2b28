#![doc = include_str!("../../docs/formats/backup_directory.md")]

use std::fmt;

const MAGIC_BYTES: [u8; 8] = *b"IMBXCOPY";
const FORMAT_VERSION: u32 = 1;

const MAGIC: usize = 0;
const VERSION: usize = MAGIC + 8;
const LAYOUT_LEN: usize = VERSION + 4;
const NUMBER: usize = LAYOUT_LEN + 4;
const UNIX_TIME_S: usize = NUMBER + 8;
const STORE_ID: usize = UNIX_TIME_S + 8;
const TABLE_COUNT: usize = STORE_ID + 8;
const RECORD_LEN: usize = TABLE_COUNT + 8;
const LAYOUT: usize = RECORD_LEN + 8;
const _: () = assert!(LAYOUT == 56);
const LAYOUT_LEN_MAX: usize = 64;
const TABLE_LEN: usize = 24;
const CRC_LEN: usize = 4;

const MARK_HEAD: &str = "imbrex backup, format ";
const MARK_STORE: &str = "store ";
const MARK_VERSION: u32 = 1;

/// The length of each end of a table that goes into its [`TableEntry::ends_crc`].
pub(super) const END_LEN_BYTES: u64 = 64 << 10;

/// A table in a backup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TableEntry {
    pub(super) id: u64,
    pub(super) len_bytes: u64,
    /// The checksum of the whole file.
    pub(super) crc: u32,
    /// The checksum of its length and its ends, which is read in place of all of a long table.
    pub(super) ends_crc: u32,
}

impl TableEntry {
    pub(super) fn file_name(&self) -> String {
        table_file_name(self.id, self.ends_crc)
    }
}

/// The name of a table's file.
pub(super) fn table_file_name(id: u64, ends_crc: u32) -> String {
    format!("{id:06}-{ends_crc:08x}.tbl")
}

/// [`TableEntry::ends_crc`] of a file with these ends.
pub(super) fn ends_crc(len_bytes: u64, head: &[u8], tail: &[u8]) -> u32 {
    let crc = crc32c::crc32c(&len_bytes.to_le_bytes());
    crc32c::crc32c_append(crc32c::crc32c_append(crc, head), tail)
}

/// The name of a copy's file.
pub(super) fn copy_file_name(number: u64) -> String {
    format!("copy-{number:06}")
}

/// The number in the name of a copy's file.
pub(super) fn copy_number(file_name: &str) -> Option<u64> {
    let number = file_name.strip_prefix("copy-")?.parse().ok()?;
    (copy_file_name(number) == file_name).then_some(number)
}

/// Why a file of a backup is not what its name says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Malformed {
    /// A newer program wrote it.
    Version(u32),
    /// It is cut off, changed or foreign.
    Damaged(&'static str),
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Malformed::Version(got) => write!(
                f,
                "it has format version {got}; this program knows up to {FORMAT_VERSION}; use a newer one"
            ),
            Malformed::Damaged(what) => f.write_str(what),
        }
    }
}

/// The text of the mark of a backup of `store_id`.
pub(super) fn encode_mark(store_id: u64) -> String {
    format!("{MARK_HEAD}{MARK_VERSION}\n{MARK_STORE}{store_id:016x}\n")
}

/// The store of the backup with this mark.
pub(super) fn decode_mark(text: &str) -> Result<u64, Malformed> {
    let damaged = Malformed::Damaged("its mark is not that of a backup");
    let rest = text.strip_prefix(MARK_HEAD).ok_or(damaged.clone())?;
    let (version, rest) = rest.split_once('\n').ok_or(damaged.clone())?;
    match version.parse() {
        Ok(MARK_VERSION) => {}
        Ok(version) => return Err(Malformed::Version(version)),
        Err(_) => return Err(damaged),
    }
    let digits = rest.strip_prefix(MARK_STORE).and_then(|rest| rest.strip_suffix('\n'));
    let digits = digits.filter(|digits| digits.len() == 16).ok_or(damaged.clone())?;
    u64::from_str_radix(digits, 16).map_err(|_| damaged)
}

/// A copy: which tables are the store at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CopyRecord {
    pub(super) number: u64,
    pub(super) unix_time_s: u64,
    pub(super) store_id: u64,
    pub(super) layout: String,
    /// In order of their ids.
    pub(super) tables: Vec<TableEntry>,
    /// The engine's snapshot record.
    pub(super) record: Vec<u8>,
}

impl CopyRecord {
    pub(super) fn encode(&self) -> Vec<u8> {
        assert!(self.layout.len() <= LAYOUT_LEN_MAX, "layouts have short names");
        let mut out = vec![0; LAYOUT];
        let mut put = |at: usize, bytes: &[u8]| out[at..at + bytes.len()].copy_from_slice(bytes);
        put(MAGIC, &MAGIC_BYTES);
        put(VERSION, &FORMAT_VERSION.to_le_bytes());
        put(LAYOUT_LEN, &(self.layout.len() as u32).to_le_bytes());
        put(NUMBER, &self.number.to_le_bytes());
        put(UNIX_TIME_S, &self.unix_time_s.to_le_bytes());
        put(STORE_ID, &self.store_id.to_le_bytes());
        put(TABLE_COUNT, &(self.tables.len() as u64).to_le_bytes());
        put(RECORD_LEN, &(self.record.len() as u64).to_le_bytes());
        out.extend_from_slice(self.layout.as_bytes());
        for table in &self.tables {
            out.extend_from_slice(&table.id.to_le_bytes());
            out.extend_from_slice(&table.len_bytes.to_le_bytes());
            out.extend_from_slice(&table.crc.to_le_bytes());
            out.extend_from_slice(&table.ends_crc.to_le_bytes());
        }
        out.extend_from_slice(&self.record);
        let crc = crc32c::crc32c(&out);
        out.extend_from_slice(&crc.to_le_bytes());
        out
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<CopyRecord, Malformed> {
        let damaged = |what| Err(Malformed::Damaged(what));
        if bytes.get(MAGIC..VERSION) != Some(&MAGIC_BYTES) {
            return damaged("it does not begin as a copy does");
        }
        if bytes.len() < LAYOUT + CRC_LEN {
            return damaged("it is cut off");
        }
        match u32_at(bytes, VERSION) {
            FORMAT_VERSION => {}
            version => return Err(Malformed::Version(version)),
        }
        let (body, crc) = bytes.split_at(bytes.len() - CRC_LEN);
        if crc32c::crc32c(body).to_le_bytes() != crc {
            return damaged("its checksum does not match: it is cut off or damaged");
        }
        let layout_len = u32_at(body, LAYOUT_LEN) as usize;
        let table_count = usize::try_from(u64_at(body, TABLE_COUNT)).ok();
        let tables_len = table_count.and_then(|count| count.checked_mul(TABLE_LEN));
        let record_len = usize::try_from(u64_at(body, RECORD_LEN)).ok();
        let rest = &body[LAYOUT..];
        let wanted = || layout_len.checked_add(tables_len?)?.checked_add(record_len?);
        if layout_len > LAYOUT_LEN_MAX || wanted() != Some(rest.len()) {
            return damaged("its lengths do not add up");
        }
        let (layout, rest) = rest.split_at(layout_len);
        let (tables, record) = rest.split_at(tables_len.unwrap_or(0));
        let Ok(layout) = std::str::from_utf8(layout) else {
            return damaged("the name of its layout is no text");
        };
        let table = |entry: &[u8]| TableEntry {
            id: u64_at(entry, 0),
            len_bytes: u64_at(entry, 8),
            crc: u32_at(entry, 16),
            ends_crc: u32_at(entry, 20),
        };
        let tables: Vec<_> = tables.chunks_exact(TABLE_LEN).map(table).collect();
        if !tables.is_sorted_by(|a, b| a.id < b.id) {
            return damaged("its tables are not in order");
        }
        let number = u64_at(body, NUMBER);
        if number == 0 {
            return damaged("it has no number");
        }
        Ok(CopyRecord {
            number,
            unix_time_s: u64_at(body, UNIX_TIME_S),
            store_id: u64_at(body, STORE_ID),
            layout: layout.to_owned(),
            tables,
            record: record.to_vec(),
        })
    }

    /// The length of all tables.
    pub(super) fn len_bytes(&self) -> u64 {
        self.tables.iter().map(|table| table.len_bytes).fold(0, u64::saturating_add)
    }
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    let field = bytes[at..at + 4].try_into();
    u32::from_le_bytes(field.expect("four bytes"))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    let field = bytes[at..at + 8].try_into();
    u64::from_le_bytes(field.expect("eight bytes"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn copy() -> CopyRecord {
        let table = |id| TableEntry { id, len_bytes: 4096, crc: 0x11223344, ends_crc: 0xa1b2c3d4 };
        CopyRecord {
            number: 3,
            unix_time_s: 1_700_000_000,
            store_id: 0x0102_0304_0506_0708,
            layout: "imbrex".to_owned(),
            tables: vec![table(7), table(12)],
            record: b"snapshot".to_vec(),
        }
    }

    #[test]
    fn the_bytes_of_a_copy_do_not_change() {
        let bytes = copy().encode();
        let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(
            hex,
            "494d4258434f5059010000000600000003000000000000000\
             0f15365000000000807060504030201020000000000000008000000000000\
             00696d62726578070000000000000000100000000000004433\
             2211d4c3b2a10c0000000000000000100000000000004433\
             2211d4c3b2a1736e617073686f74"
                .to_owned()
                + &format!("{:08x}", crc32c::crc32c(&bytes[..bytes.len() - 4]).swap_bytes())
        );
        assert_eq!(CopyRecord::decode(&bytes), Ok(copy()));
    }

    #[test]
    fn a_copy_that_was_changed_or_cut_off_is_refused() {
        let bytes = copy().encode();
        for at in 0..bytes.len() {
            assert!(CopyRecord::decode(&bytes[..at]).is_err(), "cut off at {at}");
            for bit in 0..8 {
                let mut changed = bytes.clone();
                changed[at] ^= 1 << bit;
                assert!(CopyRecord::decode(&changed).is_err(), "bit {bit} of byte {at}");
            }
        }
    }

    /// The checksum is right, so a damaged disk is not the cause: a decoder must not trust lengths.
    #[test]
    fn lengths_that_cannot_be_are_refused() {
        for (at, value) in
            [(TABLE_COUNT, u64::MAX), (RECORD_LEN, u64::MAX), (RECORD_LEN, 9), (NUMBER, 0)]
        {
            let mut bytes = copy().encode();
            bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
            let end = bytes.len() - CRC_LEN;
            let crc = crc32c::crc32c(&bytes[..end]);
            bytes[end..].copy_from_slice(&crc.to_le_bytes());
            assert!(CopyRecord::decode(&bytes).is_err(), "{value} at {at}");
        }
    }

    #[test]
    fn a_mark_names_its_store() {
        assert_eq!(encode_mark(0xab), "imbrex backup, format 1\nstore 00000000000000ab\n");
        assert_eq!(decode_mark(&encode_mark(0xab)), Ok(0xab));
        let newer = encode_mark(1).replace("format 1", "format 2");
        assert_eq!(decode_mark(&newer), Err(Malformed::Version(2)));
        for text in ["", "imbrex backup, format 1\n", "imbrex backup, format 1\nstore 12\n", "x"] {
            assert!(decode_mark(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn names_of_files_carry_numbers() {
        assert_eq!(copy_number("copy-000012"), Some(12));
        assert_eq!(copy_number(&copy_file_name(12_345_678)), Some(12_345_678));
        for name in ["copy-12", "copy-000001.part", "copy-", "copy-+00001", "tables"] {
            assert_eq!(copy_number(name), None, "{name}");
        }
        assert_eq!(table_file_name(12, 0x9f3c01ab), "000012-9f3c01ab.tbl");
    }
}
