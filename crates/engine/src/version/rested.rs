//! Which files with values cleaning has written while the store is open: it comes to rest on them.
//!
//! ```text
//!   12, 31 (neither written by cleaning) -> 77: moved      77, 78, beside a file that died -> 90: settled
//!   a value in 77 dies                   -> 77 is like 12
//! ```
//!
//! What cleaning gains is estimated, and what it writes may take more: short values have keys and places beside them, a
//! file takes whole zones, a zone loses its end. If the estimate alone decided, cleaning could take its own output again
//! for ever.
//!
//! Invariants
//!   E1  A cleaning takes a file that cleaning did not write, or one of which values have died since, or it turns moved
//!       files to settled ones. So while nothing else changes, the number of files of the first two kinds shrinks with
//!       each cleaning; or it stays, and the number of moved files shrinks.
//!
//! Not here: what is chosen (`store::cleaning`).

use super::names::TableId;
use std::collections::BTreeMap;

/// How settled a file with values is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rest {
    /// Cleaning has not written it while the store is open, or values of it have died since.
    No,
    /// Cleaning wrote it, also from files with [`Rest::No`].
    Moved,
    /// Cleaning wrote it from files that it had written.
    Settled,
}

/// The files that cleaning wrote.
#[derive(Debug, Default)]
pub(crate) struct Rested {
    /// For each the length of its live values when it was written, and how settled it was then.
    files: BTreeMap<TableId, (u64, Rest)>,
}

impl Rested {
    /// How settled a file is that has live values of `live_bytes`.
    pub(crate) fn of(&self, file: TableId, live_bytes: u64) -> Rest {
        match self.files.get(&file) {
            Some((before_bytes, rest)) if *before_bytes <= live_bytes => *rest,
            _ => Rest::No,
        }
    }

    /// Records that cleaning wrote `output` from `files`. `live` has the length of the live values in each file before.
    pub(crate) fn note(
        &mut self,
        output: TableId,
        files: &[TableId],
        live: &BTreeMap<TableId, u64>,
    ) {
        let live_in = |file: &TableId| live.get(file).copied().unwrap_or(0);
        let is_new = files.iter().any(|file| self.of(*file, live_in(file)) == Rest::No);
        let rest = if is_new { Rest::Moved } else { Rest::Settled };
        self.files.retain(|file, _| !files.contains(file));
        self.files.insert(output, (files.iter().map(live_in).sum(), rest));
    }

    /// Records that cleaning found nothing to move in `files`.
    pub(crate) fn note_nothing(&mut self, files: &[TableId], live: &BTreeMap<TableId, u64>) {
        for file in files {
            let live_bytes = live.get(file).copied().unwrap_or(0);
            self.files.insert(*file, (live_bytes, Rest::Settled));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_settles_until_values_of_it_die() {
        let mut rested = Rested::default();
        let live = [(12, 50), (31, 20), (77, 70), (90, 70)];
        let live = live.map(|(file, len_bytes)| (TableId(file), len_bytes)).into();
        rested.note(TableId(77), &[TableId(12), TableId(31)], &live);
        assert_eq!(rested.of(TableId(12), 50), Rest::No);
        assert_eq!(rested.of(TableId(77), 70), Rest::Moved);
        assert_eq!(rested.of(TableId(77), 69), Rest::No, "a value has died");
        rested.note(TableId(90), &[TableId(77)], &live);
        assert_eq!(rested.of(TableId(90), 70), Rest::Settled);
        assert_eq!(rested.of(TableId(77), 70), Rest::No, "it is forgotten");
        rested.note(TableId(91), &[TableId(90), TableId(12)], &live);
        assert_eq!(rested.of(TableId(91), 120), Rest::Moved, "one of its files was new");
        rested.note_nothing(&[TableId(31)], &live);
        assert_eq!(rested.of(TableId(31), 20), Rest::Settled);
    }
}
