//! What is watched: a recording, finished or growing, or a store that this command opens to look at it.
//!
//! ```text
//!   path --> a recording --> its lines, then what is new        \
//!        --> a drive     --> a frame of its store each second    --> Feed --> screen, page, metrics
//! ```

use crate::error::{CliError, Context};
use crate::store::{DriveArgs, Store};
use imbrex_clockwork::{Clock, WallClock};
use imbrex_watch::{Feed, Line, Recording, Subject, Tap, Title};
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::sync::Arc;

/// Memory for the lines of a feed.
const FEED_LEN_BYTES: usize = 256 << 20;

/// The time between two frames of a drive that only this command has open.
const FRAME_EVERY_NS: u64 = 1_000_000_000;

/// A recording or a store, and the feed of its lines.
pub(crate) struct Watched {
    pub(crate) feed: Feed,
    pub(crate) title: String,
    source: Source,
}

enum Source {
    Recording(Recording),
    Store(Box<Opened>),
}

/// A store that this command has open, and the tap on it.
struct Opened {
    store: Store,
    tap: Tap,
    clock: WallClock,
}

impl Watched {
    /// Opens `path`; its first lines are in the feed. A drive is only read; with `read_only` not even repaired.
    pub(crate) fn open(path: &Path, read_only: bool) -> Result<Watched, CliError> {
        let feed = Feed::new(FEED_LEN_BYTES);
        let title = path.display().to_string();
        let source = if is_recording(path)? {
            let recording = Recording::open(path).context(|| "cannot watch")?;
            Source::Recording(recording)
        } else {
            let store =
                DriveArgs::new(path.to_owned(), None).for_reading(read_only).open_quiet()?;
            let pushed = feed.clone();
            let sink = move |line: &Line| pushed.push(line);
            let layout = store.layout.name().to_owned();
            let shown = Title { name: title.clone(), layout, is_virtual: false };
            let clock = WallClock::new();
            let cost: Option<Arc<dyn Clock>> = Some(Arc::new(clock));
            let tap = Tap::new(0, shown, FRAME_EVERY_NS, cost, Box::new(sink));
            Source::Store(Box::new(Opened { store, tap, clock }))
        };
        let mut watched = Watched { feed, title, source };
        watched.look()?;
        Ok(watched)
    }

    /// Brings what is new into the feed.
    pub(crate) fn look(&mut self) -> Result<(), CliError> {
        match &mut self.source {
            Source::Recording(recording) => {
                let feed = &self.feed;
                recording.read_new(&mut |line, _| feed.push(&line)).context(|| "cannot watch")
            }
            Source::Store(opened) => {
                opened.tap.tick(opened.clock.now_ns(), subject(&opened.store));
                Ok(())
            }
        }
    }

    /// Closes the store, if there is one.
    pub(crate) fn close(self) -> Result<(), CliError> {
        match self.source {
            Source::Recording(_) => Ok(()),
            Source::Store(opened) => opened.store.with(|_| Ok(())),
        }
    }
}

/// The store, for a sampler.
pub(crate) fn subject(store: &Store) -> Subject<'_> {
    let disks = (&*store.disk, &*store.disk);
    let subject = Subject::new(&store.db, &store.files, store.tiers.as_ref(), disks);
    Subject { bands: store.bands, ..subject }
}

/// Whether the file begins as a recording does. An empty file counts: its first line may be on its way.
fn is_recording(path: &Path) -> Result<bool, CliError> {
    let begin = b"{\"head\":";
    let mut found = Vec::new();
    let failed = || format!("cannot open {}", path.display());
    // To open a pipe would wait for its other end.
    let kind = std::fs::metadata(path).context(failed)?.file_type();
    if kind.is_fifo() || kind.is_socket() || kind.is_char_device() {
        return Err(CliError::usage(format!(
            "cannot watch {}: it is neither a file nor a block device; name a recording or a drive",
            path.display()
        )));
    }
    let file = File::open(path).context(failed)?;
    let is_file = kind.is_file();
    let read = file.take(begin.len() as u64).read_to_end(&mut found);
    // A drive that cannot be read gets the drive's own error.
    Ok(read.is_ok() && is_file && begin.starts_with(&found))
}
