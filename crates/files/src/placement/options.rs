//! The parameters of a policy, set when a drive is formatted.

use crate::space::CLASS_LEN;
use imbrex_disk::Blocks;

/// Parameters of a policy, recorded in the catalog with its name. A zero stands for the policy's
/// default. A policy ignores those that it does not use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PlacementOptions {
    /// Background cleaning starts when less than this share of the space is free, in percent.
    pub free_percent_least: u8,
    /// The length of the policy's unit: a table. Lists of free space are kept in classes of this
    /// length.
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
