//! The totals of a store: since it was opened, and over its lifetime.

use super::Store;
use super::commit::Change;
use crate::EngineError;
use crate::totals::Totals;
use std::sync::atomic::Ordering;

impl Store {
    /// What was done since the store was opened.
    pub(crate) fn totals_since_opening(&self) -> Totals {
        let of_files = Totals::of_files(&self.files.work()).since(&self.totals.of_files);
        self.tally.totals().plus(&of_files)
    }

    /// What was done since the store was created, as far as commits recorded it, and since the opening.
    pub(crate) fn totals_of_lifetime(&self) -> Totals {
        self.totals.recorded.clone().plus(&self.totals_since_opening())
    }

    /// Records the totals in a commit of their own, if there was any other commit since the opening, or if
    /// the store itself has counted anything since. Without room in the catalog nothing happens.
    ///
    /// If the last record of a catalog rots in both copies, it looks like a torn write. After
    /// this commit that record holds counts and nothing else, and it proves that all earlier ones were
    /// durable.
    ///
    /// # Errors
    /// [`EngineError::Files`], and then the store is poisoned; [`EngineError::Closed`],
    /// [`EngineError::Poisoned`].
    pub(crate) fn record_totals(&self) -> Result<(), EngineError> {
        let own = self.totals.recorded.clone().plus(&self.tally.totals());
        let recorded = self.state().totals;
        let has_own = own.iter().any(|(number, value)| value > recorded.at(number));
        if !has_own && !self.has_committed.load(Ordering::Acquire) {
            return Ok(());
        }
        match self.commit(Change { is_close: true, ..Change::default() }) {
            Err(error) if error.is_no_space() => Ok(()),
            committed => committed,
        }
    }
}
