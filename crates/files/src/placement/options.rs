//! Numbers that a drive is formatted with and that its policy goes by.

use crate::space::CLASS_LEN;
use imbrex_disk::Blocks;

/// Numbers for a policy, recorded in the catalog with its name; a zero stands for the policy's own
/// number, and what a policy has no use for it does not look at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PlacementOptions {
    /// Cleaning in the background starts when less than this share of the space is free, in percent.
    pub free_percent_least: u8,
    /// The length of the unit that the policy thinks in: a table where free space is kept in lists
    /// by that length.
    pub unit_len: Blocks,
}

impl PlacementOptions {
    /// # Errors
    /// What is wrong, in words.
    pub(crate) fn check(&self) -> Result<(), String> {
        let Self { free_percent_least, unit_len } = *self;
        if free_percent_least > 100 {
            return Err(format!(
                "cleaning below {free_percent_least} % free; at most 100 % can be"
            ));
        }
        if unit_len > UNIT_LEN_MAX {
            return Err(format!("a unit of {unit_len}; at most {UNIT_LEN_MAX} can be"));
        }
        Ok(())
    }

    pub(super) fn unit_len(&self) -> Blocks {
        if self.unit_len.is_zero() { CLASS_LEN } else { self.unit_len }
    }

    pub(crate) fn free_percent_or(&self, own: u8) -> u8 {
        if self.free_percent_least == 0 { own } else { self.free_percent_least }
    }
}

/// 4 GiB: longer than any table.
const UNIT_LEN_MAX: Blocks = Blocks::new(1 << 20);
