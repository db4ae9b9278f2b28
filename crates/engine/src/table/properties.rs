//! The properties of a table: counts, key range, sequence range, sizes.
//!
//! They are stored as a list of tagged fields, so that a later version can add fields that this one
//! skips.

use super::format::{read_u32, read_u64};
use super::histogram::Histogram;
use super::origin::{Origin, Roster, mark_of};
use crate::key::Seq;
use std::sync::Arc;

/// The version of the list's form, independent of the fields in it.
const PROPERTIES_VERSION: u32 = 1;

/// The properties of a table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct TableProperties {
    /// The id that the writer gave the table.
    pub(crate) table_id: u64,
    /// The number of entries, with deletes but without range tombstones.
    pub(crate) entry_count: u64,
    /// The number of entries that are deletes.
    pub(crate) delete_count: u64,
    /// The number of range tombstones.
    pub(crate) range_tombstone_count: u64,
    /// The smallest user key, or an earlier start of a range tombstone.
    pub(crate) smallest_user_key: Vec<u8>,
    /// The largest user key, or a later end of a range tombstone. That end is not deleted itself;
    /// counting it as a key of the table errs on the safe side.
    pub(crate) largest_user_key: Vec<u8>,
    /// The smallest sequence number.
    pub(crate) smallest_seq: Seq,
    /// The largest sequence number.
    pub(crate) largest_seq: Seq,
    /// The uncompressed length of all user keys.
    pub(crate) raw_key_len_bytes: u64,
    /// The uncompressed length of all values.
    pub(crate) raw_value_len_bytes: u64,
    /// The stored length of all data blocks.
    pub(crate) data_len_bytes: u64,
    /// The number of data blocks.
    pub(crate) data_block_count: u64,
    /// The number of index partitions.
    pub(crate) index_partition_count: u64,
    /// The bits per key that the filter was built with; 0 without a filter.
    pub(crate) filter_bits_per_key: u64,
    /// Where in the key space the table's bytes are, if the writer recorded it.
    pub(crate) histogram: Option<Arc<Histogram>>,
    /// The frame length of the log at the beginning of the file; 0 if there is no log.
    pub(crate) log_frame_len_bytes: u64,
}

/// Tags are on the disk: never renumbered, never reused, never zero.
const ENTRY_COUNT: u16 = 1;
const DELETE_COUNT: u16 = 2;
const RANGE_TOMBSTONE_COUNT: u16 = 3;
const SMALLEST_USER_KEY: u16 = 4;
const LARGEST_USER_KEY: u16 = 5;
const SMALLEST_SEQ: u16 = 6;
const LARGEST_SEQ: u16 = 7;
const RAW_KEY_LEN_BYTES: u16 = 8;
const RAW_VALUE_LEN_BYTES: u16 = 9;
const DATA_LEN_BYTES: u16 = 10;
const DATA_BLOCK_COUNT: u16 = 11;
const INDEX_PARTITION_COUNT: u16 = 12;
const FILTER_BITS_PER_KEY: u16 = 13;
const TABLE_ID: u16 = 14;
const HISTOGRAM: u16 = 15;
const LOG_FRAME_LEN_BYTES: u16 = 16;
/// An open table does without these two; see `origin`.
const ORIGIN: u16 = 17;
const ROSTER: u16 = 18;

const FIELD_HEADER_LEN_BYTES: usize = 2 + 4;

impl TableProperties {
    /// The stored form, with the encoded origin and roster of the table, where there are any.
    pub(crate) fn encode(&self, origin: Option<&[u8]>, roster: Option<&[u8]>) -> Vec<u8> {
        let mut out = PROPERTIES_VERSION.to_le_bytes().to_vec();
        let mut put = |tag: u16, value: &[u8]| {
            out.extend_from_slice(&tag.to_le_bytes());
            out.extend_from_slice(&(value.len() as u32).to_le_bytes());
            out.extend_from_slice(value);
        };
        put(ENTRY_COUNT, &self.entry_count.to_le_bytes());
        put(DELETE_COUNT, &self.delete_count.to_le_bytes());
        put(RANGE_TOMBSTONE_COUNT, &self.range_tombstone_count.to_le_bytes());
        put(SMALLEST_USER_KEY, &self.smallest_user_key);
        put(LARGEST_USER_KEY, &self.largest_user_key);
        put(SMALLEST_SEQ, &self.smallest_seq.0.to_le_bytes());
        put(LARGEST_SEQ, &self.largest_seq.0.to_le_bytes());
        put(RAW_KEY_LEN_BYTES, &self.raw_key_len_bytes.to_le_bytes());
        put(RAW_VALUE_LEN_BYTES, &self.raw_value_len_bytes.to_le_bytes());
        put(DATA_LEN_BYTES, &self.data_len_bytes.to_le_bytes());
        put(DATA_BLOCK_COUNT, &self.data_block_count.to_le_bytes());
        put(INDEX_PARTITION_COUNT, &self.index_partition_count.to_le_bytes());
        put(FILTER_BITS_PER_KEY, &self.filter_bits_per_key.to_le_bytes());
        put(TABLE_ID, &self.table_id.to_le_bytes());
        if let Some(histogram) = &self.histogram {
            put(HISTOGRAM, &histogram.encode());
        }
        if self.log_frame_len_bytes > 0 {
            put(LOG_FRAME_LEN_BYTES, &self.log_frame_len_bytes.to_le_bytes());
        }
        if let Some(origin) = origin {
            put(ORIGIN, origin);
        }
        if let Some(roster) = roster {
            put(ROSTER, roster);
        }
        out
    }

    /// Decodes the bytes that [`TableProperties::encode`] returned. Unknown fields are skipped.
    ///
    /// # Errors
    /// A description of the defect.
    pub(crate) fn decode(bytes: &[u8]) -> Result<TableProperties, String> {
        let mut properties = TableProperties::default();
        for_each_field(bytes, |tag, value| properties.set(tag, value))?;
        Ok(properties)
    }

    /// The mark of the table in a roster.
    pub(crate) fn mark(&self) -> u16 {
        let raw_len_bytes = self.raw_key_len_bytes + self.raw_value_len_bytes;
        let (seq_min, seq_max) = (self.smallest_seq.0, self.largest_seq.0);
        let counts = [self.entry_count, self.delete_count, raw_len_bytes, seq_min, seq_max];
        mark_of(counts, &self.smallest_user_key, &self.largest_user_key)
    }

    /// Decodes the properties together with the origin and the roster.
    ///
    /// # Errors
    /// A description of the defect.
    pub(crate) fn decode_with_origin(
        bytes: &[u8],
    ) -> Result<(TableProperties, Option<Origin>, Option<Roster>), String> {
        let mut properties = TableProperties::default();
        let (mut origin, mut roster) = (None, None);
        for_each_field(bytes, |tag, value| {
            match tag {
                ORIGIN => origin = Origin::decode(value),
                ROSTER => roster = Roster::decode(value),
                _ => properties.set(tag, value)?,
            }
            Ok(())
        })?;
        Ok((properties, origin, roster))
    }

    fn set(&mut self, tag: u16, value: &[u8]) -> Result<(), String> {
        let number = || match value.len() {
            8 => read_u64(value, 0).ok_or_else(String::new),
            len => Err(format!("field {tag} has {len} bytes, 8 expected")),
        };
        match tag {
            ENTRY_COUNT => self.entry_count = number()?,
            DELETE_COUNT => self.delete_count = number()?,
            RANGE_TOMBSTONE_COUNT => self.range_tombstone_count = number()?,
            SMALLEST_USER_KEY => self.smallest_user_key = value.to_vec(),
            LARGEST_USER_KEY => self.largest_user_key = value.to_vec(),
            SMALLEST_SEQ => self.smallest_seq = Seq(number()?),
            LARGEST_SEQ => self.largest_seq = Seq(number()?),
            RAW_KEY_LEN_BYTES => self.raw_key_len_bytes = number()?,
            RAW_VALUE_LEN_BYTES => self.raw_value_len_bytes = number()?,
            DATA_LEN_BYTES => self.data_len_bytes = number()?,
            DATA_BLOCK_COUNT => self.data_block_count = number()?,
            INDEX_PARTITION_COUNT => self.index_partition_count = number()?,
            FILTER_BITS_PER_KEY => self.filter_bits_per_key = number()?,
            TABLE_ID => self.table_id = number()?,
            LOG_FRAME_LEN_BYTES => self.log_frame_len_bytes = number()?,
            HISTOGRAM => self.histogram = Some(Arc::new(Histogram::decode(value)?)),
            _ => {}
        }
        Ok(())
    }
}

/// Passes each field of encoded properties to `take`, in order.
fn for_each_field(
    bytes: &[u8],
    mut take: impl FnMut(u16, &[u8]) -> Result<(), String>,
) -> Result<(), String> {
    let version = read_u32(bytes, 0).ok_or("too short for properties")?;
    if version != PROPERTIES_VERSION {
        return Err(format!("version {version}, this program knows {PROPERTIES_VERSION}"));
    }
    let mut rest = &bytes[4..];
    let mut tag_before = 0;
    while !rest.is_empty() {
        let Some((head, body)) = rest.split_first_chunk::<FIELD_HEADER_LEN_BYTES>() else {
            return Err("a field is cut off".into());
        };
        let tag = u16::from_le_bytes([head[0], head[1]]);
        let len_bytes = u32::from_le_bytes([head[2], head[3], head[4], head[5]]) as usize;
        let value = body.get(..len_bytes).ok_or("a field is cut off")?;
        rest = &body[len_bytes..];
        if tag <= tag_before {
            return Err(format!("field {tag} after field {tag_before}"));
        }
        tag_before = tag;
        take(tag, value)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trips_and_skips_unknown_fields() {
        let properties = TableProperties {
            table_id: 7,
            entry_count: 3,
            smallest_user_key: b"a".to_vec(),
            largest_user_key: b"zz".to_vec(),
            largest_seq: Seq(99),
            ..TableProperties::default()
        };
        let mut bytes = properties.encode(None, None);
        assert_eq!(TableProperties::decode(&bytes), Ok(properties.clone()));
        bytes.extend_from_slice(&[0xff, 0xff, 2, 0, 0, 0, 1, 2]);
        assert_eq!(TableProperties::decode(&bytes), Ok(properties));
        bytes.pop();
        assert!(TableProperties::decode(&bytes).is_err());
    }
}
