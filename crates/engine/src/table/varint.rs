//! Integers of variable length: seven bits per byte, the least significant first, with the top bit
//! set in all bytes but the last. Small numbers are the most frequent; they take one byte and one
//! branch.

/// Appends `value`.
#[inline]
pub(crate) fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Reads the integer at `*at` and moves `*at` behind it. Returns `None` if the integer is cut off
/// or too long.
#[inline]
pub(crate) fn read_varint(bytes: &[u8], at: &mut usize) -> Option<u64> {
    let byte = *bytes.get(*at)?;
    *at += 1;
    if byte < 0x80 {
        return Some(u64::from(byte));
    }
    let next = *bytes.get(*at)?;
    if next < 0x80 {
        *at += 1;
        return Some(u64::from(byte & 0x7f) | u64::from(next) << 7);
    }
    read_long_varint(bytes, at, u64::from(byte & 0x7f))
}

/// Reads the rest of an integer of three bytes or more.
fn read_long_varint(bytes: &[u8], at: &mut usize, low: u64) -> Option<u64> {
    let mut value = low;
    let mut shift = 7;
    loop {
        let byte = *bytes.get(*at)?;
        *at += 1;
        if shift == 63 && byte > 1 {
            return None;
        }
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(value);
        }
        shift += 7;
        if shift > 63 {
            return None;
        }
    }
}

/// Reads a length, like [`read_varint`].
#[inline]
pub(crate) fn read_len(bytes: &[u8], at: &mut usize) -> Option<usize> {
    read_varint(bytes, at).and_then(|value| usize::try_from(value).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trips_and_refuses_what_is_cut_or_too_long() {
        for bits in 0..64 {
            for value in [(1u64 << bits) - 1, 1 << bits, u64::MAX >> bits] {
                let mut out = Vec::new();
                put_varint(&mut out, value);
                let mut at = 0;
                assert_eq!(read_varint(&out, &mut at), Some(value));
                assert_eq!(at, out.len());
                assert_eq!(read_varint(&out[..out.len() - 1], &mut 0), None);
            }
        }
        assert_eq!(read_varint(&[0xff; 11], &mut 0), None);
        let mut over = [0xff; 10];
        over[9] = 2;
        assert_eq!(read_varint(&over, &mut 0), None);
    }
}
