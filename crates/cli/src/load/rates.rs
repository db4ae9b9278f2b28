//! How fast a load was, and how much the drive wrote for each byte of it.

use super::Tally;
use crate::amplification::{Amplification, ratio_text};
use crate::count::grouped;
use crate::output::Report;
use imbrex_engine::{Total, Totals};
use serde_json::json;

/// What a load took, up to the flush at its end.
#[derive(Debug)]
pub(super) struct Rates {
    /// By the clock of this machine.
    pub(super) took_ns: u64,
    pub(super) totals: Totals,
}

impl Rates {
    /// Adds the rates of a load of at least one record.
    pub(super) fn add_to(&self, report: &mut Report, tally: &Tally) {
        let took_s = self.took_ns.max(1) as f64 / 1e9;
        let user_bytes = tally.key_bytes + tally.value_bytes;
        let per_s = tally.record_count as f64 / took_s;
        let mb_per_s = user_bytes as f64 / 1e6 / took_s;
        report.section("rates");
        report.row("time", format!("{took_s:.2} s"), json!({ "total_ns": self.took_ns }));
        report.row("records per second", grouped(per_s as u64), per_s);
        report.row("user MB per second", format!("{mb_per_s:.1}"), mb_per_s);
        let busy_ns = self.totals.get(Total::BusyNs);
        if busy_ns > 0 {
            let busy_s = busy_ns as f64 / 1e9;
            let per_s = tally.record_count as f64 / busy_s;
            report.row("drive busy", format!("{busy_s:.2} s"), json!({ "total_ns": busy_ns }));
            report.row("records per disk-second", grouped(per_s as u64), per_s);
        }
        let [all, without_log] = Amplification::of_drive(&self.totals).ratios();
        for (name, ratio) in [
            ("drive bytes per user byte, with log", all),
            ("drive bytes per user byte, without log", without_log),
        ] {
            report.row(name, ratio_text(ratio), ratio);
        }
    }
}
