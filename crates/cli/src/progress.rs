//! Progress: a bar with rate and remaining time, shown on a terminal only, after two seconds.

use crate::interrupt::Interrupt;
use crate::output::note;
use indicatif::{BinaryBytes, HumanCount, HumanDuration, ProgressBar, ProgressDrawTarget};
use indicatif::{ProgressState, ProgressStyle};
use std::fmt::{self, Write};
use std::io::IsTerminal;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// The unit of a position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    Bytes,
    Items,
}

/// A progress bar, hidden for short work and for pipes; dropping it removes it.
#[derive(Debug)]
pub(crate) struct Progress {
    bar: ProgressBar,
    way: Arc<Way>,
}

/// The progress of the work, shared with the thread that draws.
#[derive(Debug)]
struct Way {
    position: AtomicU64,
    /// The end of the work, or [`UNKNOWN`].
    total: AtomicU64,
    /// More text for the end of the line.
    also: Mutex<Option<String>>,
}

/// A line that is written anew while work goes on, on a terminal only, until it is ended.
#[derive(Debug)]
pub(crate) struct LiveLine {
    bar: ProgressBar,
}

impl LiveLine {
    /// A line with what `text` returns every half second, given the time since the start.
    pub(crate) fn new(
        text: impl Fn(Duration) -> String + Send + Sync + Clone + 'static,
    ) -> LiveLine {
        let line = move |state: &ProgressState, out: &mut dyn Write| {
            let _ = out.write_str(&text(state.elapsed()));
        };
        LiveLine { bar: bar_with(line, LIVE_LINE_EVERY) }
    }

    /// Prints a separate line to standard error, above the live one.
    pub(crate) fn line(&self, text: &str) {
        self.bar.suspend(|| note(text));
    }

    /// Removes the line for good.
    pub(crate) fn end(&self) {
        self.bar.finish_and_clear();
    }
}

/// A bar on a terminal, hidden elsewhere, that consists of what `line` writes.
fn bar_with(
    line: impl Fn(&ProgressState, &mut dyn Write) + Send + Sync + Clone + 'static,
    every: Duration,
) -> ProgressBar {
    let style = ProgressStyle::with_template("{line}")
        .expect("the template is a constant")
        .with_key("line", line);
    let is_terminal = std::io::stderr().is_terminal();
    let target =
        if is_terminal { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
    let bar = ProgressBar::with_draw_target(None, target).with_style(style);
    if is_terminal {
        bar.enable_steady_tick(every);
    }
    bar
}

/// No total.
const UNKNOWN: u64 = u64::MAX;

/// Work shorter than this shows no bar.
const SHOWN_AFTER: Duration = Duration::from_secs(2);
const REDRAWN_EVERY: Duration = Duration::from_millis(200);
const LIVE_LINE_EVERY: Duration = Duration::from_millis(500);
const BAR_LEN_CHARS: u64 = 30;

impl Progress {
    /// A bar for work that reports its position with [`Progress::set`]; `total` is the end, if it is known.
    pub(crate) fn new(what: impl Into<String>, unit: Unit, total: Option<u64>) -> Progress {
        let total = AtomicU64::new(total.unwrap_or(UNKNOWN));
        let way = Arc::new(Way { position: AtomicU64::new(0), total, also: Mutex::new(None) });
        let (seen, what) = (Arc::clone(&way), what.into());
        let line = move |state: &ProgressState, out: &mut dyn Write| {
            if state.elapsed() >= SHOWN_AFTER {
                let position = seen.position.load(Ordering::Relaxed);
                let total = seen.total.load(Ordering::Relaxed);
                let total = (total != UNKNOWN).then_some(total);
                // A terminal that cannot be written does not stop the work.
                let _ = write_line(out, &what, unit, total, position, state.elapsed());
                if let Some(also) = &*seen.also.lock().unwrap_or_else(PoisonError::into_inner) {
                    let _ = write!(out, ", {also}");
                }
            }
        };
        Progress { bar: bar_with(line, REDRAWN_EVERY), way }
    }

    /// Sets the current position; cheap.
    pub(crate) fn set(&self, position: u64) {
        self.way.position.store(position, Ordering::Relaxed);
    }

    /// Sets the current position and the currently known end.
    pub(crate) fn set_of(&self, position: u64, total: Option<u64>) {
        self.way.total.store(total.unwrap_or(UNKNOWN), Ordering::Relaxed);
        self.set(position);
    }

    /// Sets the text at the end of the line.
    pub(crate) fn tell(&self, also: Option<String>) {
        *self.way.also.lock().unwrap_or_else(PoisonError::into_inner) = also;
    }

    /// Prints a separate line to standard error, above the bar if there is one.
    pub(crate) fn line(&self, text: &str) {
        self.bar.suspend(|| note(text));
    }

    /// A callback for a long call of the store: shows its progress, and stops it at an interruption.
    pub(crate) fn watch(
        &self,
        interrupt: &Interrupt,
    ) -> impl FnMut(imbrex_engine::Progress) -> ControlFlow<()> {
        move |progress| {
            let total = (progress.total_bytes > 0).then_some(progress.total_bytes);
            self.set_of(progress.done_bytes, total);
            interrupt.flow()
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// `loading [======>    ] 120.5 MiB of 300.1 MiB, 40.2 MiB/s, 4 seconds left`
fn write_line(
    out: &mut dyn Write,
    what: &str,
    unit: Unit,
    total: Option<u64>,
    position: u64,
    elapsed: Duration,
) -> fmt::Result {
    let shown = |count: u64| match unit {
        Unit::Bytes => BinaryBytes(count).to_string(),
        Unit::Items => HumanCount(count).to_string(),
    };
    let rate = position as f64 / elapsed.as_secs_f64().max(0.001);
    write!(out, "{what} ")?;
    if let Some(total) = total {
        // The total may be an estimate: a bar never runs past its end.
        let filled = BAR_LEN_CHARS * position.min(total) / total.max(1);
        for at in 0..BAR_LEN_CHARS {
            out.write_char(match at {
                0 => '[',
                _ if at < filled => '=',
                _ if at == filled => '>',
                _ => ' ',
            })?;
        }
        write!(out, "] {} of {}", shown(position), shown(total))?;
    } else {
        write!(out, "{}", shown(position))?;
    }
    write!(out, ", {}/s", shown(rate as u64))?;
    match total {
        Some(total) if rate > 0.0 => {
            let left_s = total.saturating_sub(position) as f64 / rate;
            write!(out, ", {} left", HumanDuration(Duration::from_secs_f64(left_s.min(1e9))))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(total: Option<u64>, position: u64) -> String {
        let mut out = String::new();
        let elapsed = Duration::from_secs(10);
        write_line(&mut out, "loading", Unit::Bytes, total, position, elapsed).unwrap();
        out
    }

    #[test]
    fn a_line_shows_position_rate_and_remaining_time() {
        let mib = 1 << 20;
        let half = line(Some(100 * mib), 50 * mib);
        assert!(half.contains("50.00 MiB of 100.00 MiB, 5.00 MiB/s, 10 seconds left"), "{half}");
        assert_eq!(half.matches('=').count(), 14, "{half}");
        assert_eq!(line(None, 50 * mib), "loading 50.00 MiB, 5.00 MiB/s");
        assert!(line(Some(0), 0).contains("0 B of 0 B"));
        assert!(line(Some(10), 20).contains("0 seconds left"), "past its end");
    }
}
