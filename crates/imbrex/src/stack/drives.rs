//! The drives that a stack stands on: one, or a main drive and a flash drive beside it.

use imbrex_disk::Disk;
use std::sync::Arc;

/// A main drive and what lies beside it; a drive alone is one.
#[derive(Clone, Debug)]
pub struct Drives {
    /// The drive whose catalog decides.
    pub main: Arc<dyn Disk>,
    /// What lies beside it.
    pub beside: Beside,
}

/// What lies beside a main drive.
#[derive(Clone, Debug)]
pub enum Beside {
    /// Nothing.
    Nothing,
    /// A flash drive.
    Flash(Arc<dyn Disk>),
    /// A flash drive that is not there: the main drive is to be read without it.
    Missing,
}

impl Drives {
    /// The main drive with `flash` beside it.
    #[must_use]
    pub fn with_flash(self, flash: Arc<dyn Disk>) -> Drives {
        Drives { beside: Beside::Flash(flash), ..self }
    }

    /// The main drive of a pair, to be read without its flash drive.
    #[must_use]
    pub fn without_flash(self) -> Drives {
        Drives { beside: Beside::Missing, ..self }
    }
}

impl From<Arc<dyn Disk>> for Drives {
    fn from(main: Arc<dyn Disk>) -> Drives {
        Drives { main, beside: Beside::Nothing }
    }
}

impl<D: Disk + 'static> From<Arc<D>> for Drives {
    fn from(main: Arc<D>) -> Drives {
        Drives::from(main as Arc<dyn Disk>)
    }
}
