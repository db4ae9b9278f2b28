//! The totals of a store: since it was opened, and over its lifetime.

use super::Store;
use super::commit::Change;
use crate::EngineError;
use crate::totals::Totals;

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

    /// Records the totals in a commit of their own, if the store itself has counted anything since the
    /// last commit. Without room in the catalog nothing happens.
    ///
    /// # Errors
    /// [`EngineError::Files`], and then the store is poisoned; [`EngineError::Closed`],
    /// [`EngineError::Poisoned`].
    pub(crate) fn record_totals(&self) -> Result<(), EngineError> {
        let own = self.totals.recorded.clone().plus(&self.tally.totals());
        let recorded = self.state().totals;
        let has_own =
            self.tally.totals().iter().any(|(number, _)| own.at(number) > recorded.at(number));
        if !has_own {
            return Ok(());
        }
        match self.commit(Change::default()) {
            Err(error) if error.is_no_space() => Ok(()),
            committed => committed,
        }
    }
}
