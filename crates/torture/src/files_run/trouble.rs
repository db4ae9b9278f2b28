//! Why an operation on files went wrong.

use crate::rig::{Rig, chain};
use imbrex_files::FilesError;

/// Why a comparison ended early.
#[derive(Debug)]
pub(super) enum Trouble {
    /// A read failed.
    Store { doing: String, error: FilesError },
    /// The file layer answered wrongly, which no weather excuses.
    Wrong(String),
}

impl Trouble {
    /// For a read within an open file: no weather moves its end.
    pub(super) fn failed(doing: &str, error: FilesError) -> Trouble {
        match error {
            FilesError::PastEnd { .. } => Trouble::Wrong(format!("{doing}: {error}")),
            _ => Trouble::Store { doing: doing.to_string(), error },
        }
    }

    /// For places where every failure counts.
    pub(super) fn in_words(self) -> String {
        match self {
            Trouble::Store { doing, error } => format!("{doing}: {}", chain(&error)),
            Trouble::Wrong(what) => what,
        }
    }

    /// The part of it that the weather does not excuse.
    pub(super) fn settle(self, rig: &mut Rig) -> Result<(), String> {
        match self {
            Trouble::Store { doing, error } => rig.excuse(&doing, &error),
            Trouble::Wrong(what) => Err(what),
        }
    }
}
