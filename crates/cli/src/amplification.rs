//! Write amplification in the two forms that people compare: with the store's log, and without it.

use imbrex_engine::{Total, Totals};

/// Bytes written for the bytes of the user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Amplification {
    user_bytes: u64,
    written_bytes: u64,
    log_bytes: u64,
}

impl Amplification {
    /// What the store wrote: its log, flushes and compactions.
    pub(crate) fn of_store(totals: &Totals) -> Amplification {
        let log_bytes = totals.get(Total::LogBytes);
        let tables = totals.get(Total::FlushedBytes) + totals.get(Total::CompactionWritten);
        let user_bytes = totals.get(Total::UserBytes);
        Amplification { user_bytes, written_bytes: log_bytes + tables, log_bytes }
    }

    /// What the main drive wrote: the store's files, the catalog, and what cleaning, tracks and translation
    /// moved. A log on a flash drive is no part of it.
    pub(crate) fn of_drive(totals: &Totals) -> Amplification {
        let on_flash = totals.get(Total::OffloadedBytes);
        Amplification {
            user_bytes: totals.get(Total::UserBytes),
            written_bytes: totals.get(Total::DriveWrittenBytes),
            log_bytes: totals.get(Total::LogBytes).saturating_sub(on_flash),
        }
    }

    /// Bytes for each byte of the user: all, and all but the log. `None` without bytes of the user.
    pub(crate) fn ratios(self) -> [Option<f64>; 2] {
        let without_log = self.written_bytes.saturating_sub(self.log_bytes);
        [self.written_bytes, without_log]
            .map(|bytes| (self.user_bytes > 0).then(|| bytes as f64 / self.user_bytes as f64))
    }
}

/// A ratio with two digits; a dash for none.
pub(crate) fn ratio_text(ratio: Option<f64>) -> String {
    ratio.map_or_else(|| "-".to_owned(), |ratio| format!("{ratio:.2}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_counts_in_one_of_two_ratios() {
        let both = |user_bytes| Amplification { user_bytes, written_bytes: 30, log_bytes: 10 };
        assert_eq!(both(10).ratios(), [Some(3.0), Some(2.0)]);
        assert_eq!(both(0).ratios().map(ratio_text), ["-", "-"]);
    }
}
