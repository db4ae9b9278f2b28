//! The seeds of a test that loops over seeds: all of them, or the share of this run of the tests.
//!
//! ```text
//!   IMBREX_SEEDS unset    0 1 2 3 4 5 6 7 8 9       a developer, `cargo xtask soak`
//!   IMBREX_SEEDS=1/4        1       5       9       a share, as in the gate, where the part moves on with each commit
//! ```
//!
//! A test that must see an event in the sum over its seeds needs all of them, and does not call
//! this.

use std::ops::Range;

/// The environment variable for the share of the seeds: `PART/PARTS`.
const VARIABLE: &str = "IMBREX_SEEDS";

/// The seeds from `0..count` in the share of this run of the tests; at least one unless `count` is
/// 0.
///
/// For tests only.
///
/// # Panics
/// The environment variable `IMBREX_SEEDS` is set and is not `PART/PARTS`.
pub fn seeds(count: u64) -> impl Iterator<Item = u64> {
    part_of(0..count, std::env::var(VARIABLE).ok().as_deref())
}

/// Those of `all` in the share of this run of the tests; at least one unless there are none. For tests
/// of cases that each take long.
///
/// # Panics
/// As [`seeds`].
pub fn share_of<T>(all: impl IntoIterator<Item = T>) -> impl Iterator<Item = T> {
    let mut all: Vec<_> = all.into_iter().map(Some).collect();
    seeds(all.len() as u64).filter_map(move |nth| all[nth as usize].take())
}

fn part_of(all: Range<u64>, part: Option<&str>) -> impl Iterator<Item = u64> + use<> {
    let (part, parts) = part.map_or((0, 1), |text| {
        let parse = |text: &str| text.parse::<u64>().ok();
        let parsed = text.split_once('/').map(|(part, parts)| (parse(part), parse(parts)));
        match parsed {
            Some((Some(part), Some(parts))) if part < parts => (part, parts),
            _ => panic!("{VARIABLE}={text}: expected PART/PARTS, such as 1/4"),
        }
    });
    // If there are fewer seeds than parts, several parts take the same one.
    let parts = parts.min(all.end.max(1));
    all.filter(move |seed| seed % parts == part % parts)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn part(count: u64, text: &str) -> Vec<u64> {
        part_of(0..count, Some(text)).collect()
    }

    #[test]
    fn without_a_part_all_are_taken() {
        assert!(part_of(0..10, None).eq(0..10));
    }

    #[test]
    fn the_parts_are_all_seeds_once() {
        assert_eq!(part(10, "1/4"), [1, 5, 9]);
        let all: Vec<u64> = (0..4).flat_map(|at| part(10, &format!("{at}/4"))).collect();
        assert_eq!(all.len(), 10);
        assert_eq!(all.into_iter().collect::<BTreeSet<_>>(), (0..10).collect());
    }

    #[test]
    fn no_part_is_empty() {
        for count in 1..9 {
            assert!((0..4).all(|at| !part(count, &format!("{at}/4")).is_empty()), "{count}");
        }
        assert!(part(0, "0/4").is_empty());
    }

    #[test]
    fn bad_parts_are_refused() {
        for text in ["", "4", "4/4", "1/0", "a/b", "-1/4"] {
            assert!(std::panic::catch_unwind(|| part(10, text)).is_err(), "{text:?}");
        }
    }
}
