//! How full a drive of each layout may be: the largest share of live data at which uniform overwrites
//! were never refused, of those measured.
//!
//! Source: docs/results/full_drives.md (`imbrex bench shares`), where 70 % was the largest; for shares
//! above that, docs/results/steady.md (`imbrex bench steady`), which measured six layouts.

use super::layout::Layout;

const SUSTAINED_PERCENT: &[(&str, u64)] = &[
    ("leveled-zones", 90),
    ("leveled-log", 70),
    ("leveled-first-fit", 80),
    ("imbrex-zones", 90),
    ("imbrex-flash", 90),
    ("imbrex", 90),
    ("leveldb-cmr", 70),
    ("smrdb-paper", 80),
    ("smrdb-leveled", 70),
    ("sealdb-paper", 70),
    ("sets-banded", 55),
    ("leveldb-greedy", 70),
    ("leveldb-cb", 70),
    ("gear-paper", 90),
    ("leveldb-zones", 70),
    ("kvimr-cmr", 70),
    ("imr-m", 70),
];

impl Layout {
    /// The share of a drive, in percent, that live data may take while all keys are overwritten again
    /// and again; `None` if it was not measured.
    pub fn sustained_percent(self) -> Option<u64> {
        let found = SUSTAINED_PERCENT.iter().find(|(name, _)| *name == self.name());
        found.map(|(_, percent)| *percent)
    }
}

#[cfg(test)]
mod tests {
    use super::{Layout, SUSTAINED_PERCENT};

    #[test]
    fn each_name_is_a_layout() {
        for (name, percent) in SUSTAINED_PERCENT {
            assert_eq!(Layout::by_name(name).unwrap().sustained_percent(), Some(*percent));
        }
    }
}
