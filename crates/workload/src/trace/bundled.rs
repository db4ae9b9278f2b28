//! Traces that come with the program: an hour of a virtual machine, and file systems on our block
//! device.
//!
//! They were recorded on real systems; `crates/workload/traces/README.md` describes how.

use super::error::TraceError;
use super::reader::TraceReader;
use serde::{Serialize, Serializer};
use std::path::Path;

/// A trace that comes with the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct BundledTrace {
    /// Its name.
    pub name: &'static str,
    /// Its content in words.
    pub title: &'static str,
    /// The number of requests.
    pub request_count: u64,
    /// The bytes they touch, in whole blocks.
    pub footprint_bytes: u64,
    /// CSV, compressed with zstd.
    bytes: &'static [u8],
}

/// All bundled traces.
pub const BUNDLED: [BundledTrace; 4] = [
    BundledTrace {
        name: "vm",
        title: "an hour of a virtual machine",
        request_count: 55_918,
        footprint_bytes: 1_010_032_640,
        bytes: include_bytes!("../../traces/vm.csv.zst"),
    },
    BundledTrace {
        name: "ext4",
        title: "two minutes of ext4 on a block device of ours",
        request_count: 11_387,
        footprint_bytes: 297_533_440,
        bytes: include_bytes!("../../traces/ext4.csv.zst"),
    },
    BundledTrace {
        name: "xfs",
        title: "two minutes of xfs on a block device of ours",
        request_count: 11_820,
        footprint_bytes: 263_897_088,
        bytes: include_bytes!("../../traces/xfs.csv.zst"),
    },
    BundledTrace {
        name: "btrfs",
        title: "two minutes of btrfs on a block device of ours",
        request_count: 12_911,
        footprint_bytes: 294_285_312,
        bytes: include_bytes!("../../traces/btrfs.csv.zst"),
    },
];

impl BundledTrace {
    /// The trace with this name, ignoring case.
    pub fn named(name: &str) -> Option<BundledTrace> {
        BUNDLED.into_iter().find(|trace| trace.name.eq_ignore_ascii_case(name))
    }

    /// Its requests, from the first one.
    ///
    /// # Errors
    /// As [`TraceReader::of`].
    pub(super) fn open(&self) -> Result<TraceReader, TraceError> {
        TraceReader::of(Path::new(self.name), Box::new(self.bytes), None)
    }
}

/// Its name.
impl Serialize for BundledTrace {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name)
    }
}
