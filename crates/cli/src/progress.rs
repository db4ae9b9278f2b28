//! Progress: a bar with rate and remaining time, on a terminal only, after two seconds only.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::IsTerminal;
use std::time::Duration;

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    Bytes,
    Items,
}

/// A bar that stays out of the way of short work and of pipes.
#[derive(Debug)]
pub(crate) struct Progress {
    bar: ProgressBar,
    is_shown: bool,
    may_show: bool,
}

/// Work shorter than this shows no bar.
const SHOWN_AFTER: Duration = Duration::from_secs(2);

impl Progress {
    /// `total` is the end, where it is known.
    pub(crate) fn new(what: &'static str, unit: Unit, total: Option<u64>) -> Progress {
        let bar = match total {
            Some(total) => ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::hidden()),
            None => ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden()),
        };
        let template = match (unit, total) {
            (Unit::Bytes, Some(_)) => {
                "{msg} [{bar:32}] {bytes}/{total_bytes}  {bytes_per_sec}  {eta} left"
            }
            (Unit::Bytes, None) => "{msg} {spinner} {bytes}  {bytes_per_sec}",
            (Unit::Items, Some(_)) => {
                "{msg} [{bar:32}] {human_pos}/{human_len}  {per_sec}  {eta} left"
            }
            (Unit::Items, None) => "{msg} {spinner} {human_pos}  {per_sec}",
        };
        let style = ProgressStyle::with_template(template).expect("the templates are constants");
        bar.set_style(style.progress_chars("=> "));
        bar.set_message(what);
        Progress { bar, is_shown: false, may_show: std::io::stderr().is_terminal() }
    }

    /// Where the work is now; cheap.
    pub(crate) fn set(&mut self, position: u64) {
        self.bar.set_position(position);
        if self.may_show && !self.is_shown && self.bar.elapsed() >= SHOWN_AFTER {
            self.bar.set_draw_target(ProgressDrawTarget::stderr());
            self.is_shown = true;
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
