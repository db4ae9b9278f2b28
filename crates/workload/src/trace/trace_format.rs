//! The formats of trace files.

use std::fmt;

/// The format of a trace file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum TraceFormat {
    /// CSV of this program: `time_us,op,offset_bytes,size_bytes`
    Csv,
    /// MSR Cambridge
    Msr,
    /// SYSTOR '17
    Systor,
    /// CloudPhysics vscsi, version 1
    Vscsi1,
    /// CloudPhysics vscsi, version 2
    Vscsi2,
}

impl fmt::Display for TraceFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            TraceFormat::Csv => "time_us,op,offset_bytes,size_bytes",
            TraceFormat::Msr => "MSR Cambridge",
            TraceFormat::Systor => "SYSTOR '17",
            TraceFormat::Vscsi1 => "vscsi, version 1",
            TraceFormat::Vscsi2 => "vscsi, version 2",
        })
    }
}
