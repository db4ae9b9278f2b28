//! The block device on a zoned drive, for commands that look at it without serving it.

use crate::error::{CliError, Context};
use crate::output::note;
use imbrex_disk::Disk;
use imbrex_translate::{Driver, DriverOptions};
use std::sync::Arc;

/// Opens it, as `serve` does: what a power cut left is put in order.
pub(crate) fn open(drive: Arc<dyn Disk>, shown: &str) -> Result<Driver, CliError> {
    let driver = Driver::open(drive, &DriverOptions::default());
    let driver = driver.context(|| format!("cannot open the block device on {shown}"))?;
    note_second_copies(&driver, shown);
    Ok(driver)
}

/// Tells of what opening found damaged and could mend.
pub(crate) fn note_second_copies(driver: &Driver, shown: &str) {
    let damaged = driver.driver_counters().second_copies;
    if damaged > 0 {
        note(format!(
            "imbrex: warning: {shown}: {damaged} blocks were damaged, and read from their second copies"
        ));
    }
}
