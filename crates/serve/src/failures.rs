//! The first failures of the disk below a device: reported when they happen, and kept for the server's end.
//!
//! A client learns that its request failed, and few clients show why. After one failed write a disk may refuse
//! all later ones, and their errors only refer to the first. So the first failure is the one to report.

use crate::DeviceError;
use imbrex_disk::DiskError;
use std::fmt;
use std::sync::OnceLock;

/// A callback with the description of a failure.
type Tell = Box<dyn Fn(&str) + Send + Sync>;

/// The kind of request that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A write, a flush, or background work of the device.
    Change,
    /// A read. It may concern one block only, so it must not hide a later failed change.
    Read,
}

/// The first failure of each kind.
#[derive(Default)]
pub(crate) struct Failures {
    tell: Option<Tell>,
    change: OnceLock<String>,
    read: OnceLock<String>,
    /// The refusal of changes. Kept separately, because a refused thread may arrive here before the thread whose
    /// change failed.
    refusal: OnceLock<String>,
}

impl Failures {
    /// Calls `tell` with the description of each further failure.
    pub(crate) fn set_tell(&mut self, tell: impl Fn(&str) + Send + Sync + 'static) {
        self.tell = Some(Box::new(tell));
    }

    /// Records that the disk failed at `what`, and returns the error for it.
    pub(crate) fn of(&self, kind: Kind, what: String, source: DiskError) -> DeviceError {
        let first = match (&source, kind) {
            (DiskError::Poisoned, _) => &self.refusal,
            (_, Kind::Change) => &self.change,
            (_, Kind::Read) => &self.read,
        };
        let error = DeviceError::Disk { what, source };
        let is_first = first.get().is_none() && first.set(error.story()).is_ok();
        if is_first && let (Some(tell), Some(story)) = (&self.tell, first.get()) {
            tell(story.as_str());
        }
        error
    }

    /// The descriptions of failed and refused changes.
    pub(crate) fn of_changes(&self) -> Vec<String> {
        [&self.change, &self.refusal].into_iter().filter_map(OnceLock::get).cloned().collect()
    }
}

impl fmt::Debug for Failures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Failures").field(&self.of_changes()).finish()
    }
}
