//! The range tombstones of a table in stored form: a list in the order in which they were added.

use super::varint::{put_varint, read_len, read_varint};
use crate::key::Seq;
use crate::range_del::RangeTombstone;

/// Encodes the list.
pub(crate) fn encode(tombstones: &[RangeTombstone]) -> Vec<u8> {
    let mut out = Vec::new();
    put_varint(&mut out, tombstones.len() as u64);
    for tombstone in tombstones {
        put_varint(&mut out, tombstone.seq.0);
        for key in [&tombstone.start, &tombstone.end] {
            put_varint(&mut out, key.len() as u64);
            out.extend_from_slice(key);
        }
    }
    out
}

/// Decodes the bytes that [`encode`] returned.
///
/// # Errors
/// A description of the defect.
pub(crate) fn decode(bytes: &[u8]) -> Result<Vec<RangeTombstone>, String> {
    let cut = || "a range tombstone is cut off".to_string();
    let mut at = 0;
    let count = read_len(bytes, &mut at).ok_or_else(cut)?;
    let mut out = Vec::new();
    for i in 0..count {
        let seq = Seq(read_varint(bytes, &mut at).ok_or_else(cut)?);
        let mut key = || {
            let len_bytes = read_len(bytes, &mut at)?;
            let end = at.checked_add(len_bytes)?;
            let key = bytes.get(at..end)?;
            at = end;
            Some(key)
        };
        let start = key().ok_or_else(cut)?;
        let end = key().ok_or_else(cut)?;
        if start >= end || seq > Seq::MAX {
            return Err(format!("range tombstone {i} is empty or has an impossible number"));
        }
        out.push(RangeTombstone::new(start, end, seq));
    }
    if at != bytes.len() {
        return Err(format!("{} bytes behind the last range tombstone", bytes.len() - at));
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trips_and_refuses_what_is_cut() {
        let tombstone = |start: &str, end: &str, seq| {
            RangeTombstone::new(start.as_bytes(), end.as_bytes(), Seq(seq))
        };
        let list = vec![tombstone("a", "c", 300), tombstone("b", "z", 7)];
        let bytes = encode(&list);
        assert_eq!(decode(&bytes), Ok(list));
        for len in 0..bytes.len() {
            assert!(decode(&bytes[..len]).is_err());
        }
        assert!(decode(&encode(&[tombstone("c", "c", 1)])).is_err());
    }
}
