//! Pairs of drives: stories that are cut at every write of either drive, and refused pairs.

mod cuts;
mod killed;
mod refused;
mod room;
mod scripts;
mod stage;

use super::format::{PairRecord, log_name, number, parse_name};
use crate::catalog::FileId;
use imbrex_clockwork::Prng;

#[test]
fn the_record_of_a_pair_is_these_bytes() {
    let pair = PairRecord { main_id: 0x0102_0304, flash_id: 0x0506, age: 9, main_age: 7 };
    let mut golden = b"IMBXPAIR".to_vec();
    golden.extend([1, 0, 0, 0, 0, 0, 0, 0, 4, 3, 2, 1, 0, 0, 0, 0, 6, 5, 0, 0, 0, 0, 0, 0]);
    golden.extend([9, 0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(pair.encode(), golden);
    assert_eq!(PairRecord::decode(&golden), Ok(pair));
}

#[test]
fn garbage_is_no_record_of_a_pair() {
    let pair = PairRecord { main_id: 1, flash_id: 2, age: 9, main_age: 7 };
    let bytes = pair.encode();
    for len in 0..bytes.len() {
        assert!(PairRecord::decode(&bytes[..len]).is_err());
    }
    for bit in 0..bytes.len() * 8 {
        let mut flipped = bytes.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        // The catalog's checksum covers the ids and ages; any other flip is detected here.
        assert!(bit >= 16 * 8 || PairRecord::decode(&flipped).is_err(), "bit {bit}");
    }
    let mut prng = Prng::new(3);
    for _ in 0..1000 {
        let mut noise = vec![0; prng.below(64) as usize];
        prng.fill(&mut noise);
        assert!(PairRecord::decode(&noise).is_err());
    }
    let never = PairRecord { age: 0, main_age: 0, ..pair };
    assert!(PairRecord::decode(&never.encode()).unwrap_err().contains("0 commits"));
    let ahead = PairRecord { age: 3, main_age: 4, ..pair };
    assert!(PairRecord::decode(&ahead.encode()).unwrap_err().contains("knows 4"));
    let far = PairRecord { age: u64::MAX, ..pair };
    assert!(PairRecord::decode(&far.encode()).is_err());
}

#[test]
fn names_on_flash_lead_back_to_their_files() {
    let id = FileId(0x1f);
    assert_eq!(number(id), "000000000000001f");
    assert_eq!(parse_name(&number(id)), Some((id, None)));
    assert_eq!(parse_name(&log_name(id, "a b")), Some((id, Some("a b"))));
    for foreign in [
        "",
        "000042.log",
        "000000000000001F",
        "+00000000000001f",
        "000000000000001fx",
        "ffffffffffffffff",
    ] {
        assert_eq!(parse_name(foreign), None, "{foreign}");
    }
}
