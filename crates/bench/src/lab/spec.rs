//! What a laboratory shall do.

use crate::error::BenchError;
use imbrex::Layout;
use std::fmt;
use std::str::FromStr;

/// What the clients write, after a load in random order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LabWork {
    /// Overwrites of any key.
    Overwrite,
    /// Overwrites, most of them of a tenth of the keys.
    HotRange,
    /// Nine overwrites of any key, then a read of one.
    Mixed,
}

/// When the operations come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LabArrivals {
    /// Each as soon as the one before it has ended.
    Closed,
    /// So many a second, at equal distances.
    Constant(u32),
    /// So many a second on average, in bursts over bursts (the self-similar model of `imbrex arrivals`).
    Bursts(u32),
}

/// The specification of a laboratory.
#[derive(Clone, Debug)]
pub struct LabSpec {
    /// One to four layouts.
    pub layouts: Vec<Layout>,
    /// The capacity of each drive.
    pub capacity_bytes: u64,
    /// How much of the drive the keys and values fill, in percent.
    pub live_percent: u32,
    /// The length of a value.
    pub value_len_bytes: u32,
    /// What is done after the load.
    pub work: LabWork,
    /// When.
    pub arrivals: LabArrivals,
    /// A sync after so many writes.
    pub sync_every: u64,
    /// The seed of keys and values.
    pub seed: u64,
}

impl LabWork {
    /// All of them.
    pub const ALL: [LabWork; 3] = [LabWork::Overwrite, LabWork::HotRange, LabWork::Mixed];

    fn name(self) -> &'static str {
        match self {
            LabWork::Overwrite => "overwrite",
            LabWork::HotRange => "hot-range",
            LabWork::Mixed => "mixed",
        }
    }
}

impl fmt::Display for LabWork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for LabWork {
    type Err = String;

    fn from_str(text: &str) -> Result<LabWork, String> {
        let found = LabWork::ALL.into_iter().find(|work| work.name() == text);
        found.ok_or_else(|| {
            format!("{text:?} is none of {}", LabWork::ALL.map(LabWork::name).join(", "))
        })
    }
}

impl fmt::Display for LabArrivals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LabArrivals::Closed => f.pad("closed"),
            LabArrivals::Constant(rate) => write!(f, "constant:{rate}"),
            LabArrivals::Bursts(rate) => write!(f, "bursts:{rate}"),
        }
    }
}

impl FromStr for LabArrivals {
    type Err = String;

    fn from_str(text: &str) -> Result<LabArrivals, String> {
        let rate = |rate: &str| match rate.parse() {
            Ok(rate @ 1..=1_000_000) => Ok(rate),
            _ => Err(format!("{rate:?} is no rate; a rate is 1 to 1000000 operations a second")),
        };
        match text.split_once(':') {
            None if text == "closed" => Ok(LabArrivals::Closed),
            Some(("constant", number)) => rate(number).map(LabArrivals::Constant),
            Some(("bursts", number)) => rate(number).map(LabArrivals::Bursts),
            _ => Err(format!("{text:?} is none of closed, constant:RATE, bursts:RATE")),
        }
    }
}

/// The largest drive: its content is in memory.
const CAPACITY_BYTES_MAX: u64 = 64 << 30;
const CAPACITY_BYTES_MIN: u64 = 256 << 20;

impl LabSpec {
    /// Checks that a laboratory can do this.
    ///
    /// # Errors
    /// [`BenchError::Options`]: what cannot be, and what can.
    pub fn check(&self) -> Result<(), BenchError> {
        let refused = |text: String| Err(BenchError::Options(text));
        if !(1..=4).contains(&self.layouts.len()) {
            return refused(format!(
                "a laboratory compares one to four layouts, not {}",
                self.layouts.len()
            ));
        }
        if let Some(layout) = self.layouts.iter().find(|layout| layout.takes_flash()) {
            return refused(format!(
                "{layout} takes a flash drive beside the disk, which the laboratory does not have; choose another layout"
            ));
        }
        if !(CAPACITY_BYTES_MIN..=CAPACITY_BYTES_MAX).contains(&self.capacity_bytes) {
            return refused("a drive of the laboratory has 256 MiB to 64 GiB".to_owned());
        }
        if !(1..=95).contains(&self.live_percent) {
            return refused("the keys fill 1 to 95 percent of the drive".to_owned());
        }
        if !(8..=1 << 20).contains(&self.value_len_bytes) {
            return refused("a value has 8 bytes to 1 MiB".to_owned());
        }
        if self.sync_every == 0 {
            return refused("a sync comes after 1 write or more".to_owned());
        }
        Ok(())
    }

    /// How many keys there are.
    pub(super) fn key_count(&self) -> u64 {
        let entry = u64::from(self.value_len_bytes) + super::stand::KEY_LEN_BYTES as u64;
        (self.capacity_bytes / 100 * u64::from(self.live_percent) / entry).max(1)
    }
}
