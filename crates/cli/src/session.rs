//! What every command needs of the process: where it prints, and whether it shall stop.

use crate::interrupt::Interrupt;
use crate::output::Output;

/// Output and interruption.
pub(crate) struct Session {
    pub(crate) out: Output,
    pub(crate) interrupt: Interrupt,
}
