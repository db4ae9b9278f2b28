//! `--record`: what a command does to its stores, as a recording that `imbrex watch` and `imbrex serve http` show.

use crate::error::{CliError, Context};
use crate::output::note;
use imbrex_clockwork::{Clock, WallClock};
use imbrex_watch::{RecordingWriter, Tap, Title};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

/// The time between two frames. In real time a frame costs what the load would need as well: at 10,000 records a second,
/// four frames a second took 2.4 % of its processor time.
const FRAME_EVERY_NS: u64 = 500_000_000;
const VIRTUAL_FRAME_EVERY_NS: u64 = 250_000_000;

/// The flag of commands that record.
#[derive(clap::Args, Clone, Debug, Default)]
pub(crate) struct RecordArgs {
    /// Record what the store and the drive do, in a new file, for `imbrex watch` and `imbrex serve http`;
    /// both also follow it while it grows
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
}

/// A recording that several stores may write to.
#[derive(Clone, Debug)]
pub(crate) struct Recorder {
    /// `None` after a failure, which a note reported.
    writer: Arc<Mutex<Option<RecordingWriter>>>,
}

impl RecordArgs {
    /// Creates the recording, if one is asked for.
    pub(crate) fn begin(&self) -> Result<Option<Recorder>, CliError> {
        let Some(path) = &self.record else { return Ok(None) };
        let writer = RecordingWriter::create(path)
            .context(|| "cannot record; name a file that does not exist yet")?;
        Ok(Some(Recorder { writer: Arc::new(Mutex::new(Some(writer))) }))
    }
}

impl Recorder {
    /// A tap whose frames go to the recording as store `id`. A failure to write ends the recording, not the work.
    pub(crate) fn tap(&self, id: u32, title: Title) -> Tap {
        let writer = Arc::clone(&self.writer);
        let sink = move |line: &imbrex_watch::Line| {
            let mut writer = writer.lock().unwrap_or_else(PoisonError::into_inner);
            let Some(file) = &mut *writer else { return };
            if let Err(error) = file.write(line) {
                note(format!(
                    "imbrex: warning: {error}; the recording ends here, the work goes on"
                ));
                *writer = None;
            }
        };
        let (every_ns, clock): (u64, Option<Arc<dyn Clock>>) = match title.is_virtual {
            true => (VIRTUAL_FRAME_EVERY_NS, None),
            false => (FRAME_EVERY_NS, Some(Arc::new(WallClock::new()))),
        };
        Tap::new(id, title, every_ns, clock, Box::new(sink))
    }
}
