//! The state that all handles of one store share.

use crate::EngineError;
use crate::open::recover::Recovery;
use crate::store::keyspace::KeyspaceState;
use crate::store::{Store, gate};
use crate::work::write;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The state that all handles of one store share. Dropping it closes the store.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) store: Arc<Store>,
    pub(crate) recovery: Recovery,
    pub(crate) default: Arc<KeyspaceState>,
}

impl Shared {
    pub(crate) fn close(&self) -> Result<(), EngineError> {
        let store = &self.store;
        store.is_closing.store(true, Ordering::Release);
        if store.gate() & gate::READ_ONLY == 0 {
            // A failure poisons the store, and the sync below reports it.
            let _ = store.record_totals();
        }
        store.shut();
        // Sync even if another handle was closed before: its sync may still run, or may have
        // failed.
        let synced = match store.gate() & gate::READ_ONLY {
            0 => write::sync(store),
            _ => Ok(()),
        };
        match &synced {
            Ok(()) => write::mark_end(store),
            // The next close reports it as well, and does not try again (S5).
            Err(error) => drop(store.poison(&error.to_string())),
        }
        store.runtime.scheduler.notify();
        let mut ready = || store.jobs.is_zero();
        // A scheduler that was stopped has dropped its jobs, so there is nothing to wait for.
        let _ = store.runtime.scheduler.wait_until(&mut ready);
        synced
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        if !self.store.is_closing.load(Ordering::Acquire) {
            // The failure is lost here, as documented; only `close` reports it.
            let _ = self.close();
        }
    }
}
