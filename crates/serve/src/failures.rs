//! What failed first below a device: told when it happens, and what changes are lost kept for whoever ends the server.
//!
//! A client learns that its request failed, and most tell nobody why. After one change that failed a disk may refuse all
//! others for good: those behind it say no more than that there was one.

use crate::DeviceError;
use imbrex_disk::DiskError;
use std::fmt;
use std::sync::OnceLock;

/// What is called with the story of a failure.
type Tell = Box<dyn Fn(&str) + Send + Sync>;

/// What a disk failed at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A write, a flush, work of its own accord.
    Change,
    /// It may be of one block, so it must not hide the change that fails later.
    Read,
}

/// The first failure of each kind.
#[derive(Default)]
pub(crate) struct Failures {
    tell: Option<Tell>,
    change: OnceLock<String>,
    read: OnceLock<String>,
    /// Changes are refused. Of two threads the one that was refused may come here before the one that failed.
    refusal: OnceLock<String>,
}

impl Failures {
    /// Calls `tell` with each story from now on.
    pub(crate) fn set_tell(&mut self, tell: impl Fn(&str) + Send + Sync + 'static) {
        self.tell = Some(Box::new(tell));
    }

    /// The error of a disk that failed at `what`.
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

    /// What was told of changes.
    pub(crate) fn of_changes(&self) -> Vec<String> {
        [&self.change, &self.refusal].into_iter().filter_map(OnceLock::get).cloned().collect()
    }
}

impl fmt::Debug for Failures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Failures").field(&self.of_changes()).finish()
    }
}
