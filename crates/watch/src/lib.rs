//! What a drive and its store do, moment by moment, for people who look.
//!
//! ```text
//!   a store that works                             people
//!     Sampler -- Frame, Frame, ... --+--> Recording (a file) --> ... again frames
//!                                    +--> Scene: everything up to one moment
//!                                            +--> screen: lines of a terminal
//!                                            +--> metrics: text for a collector
//!     the page keeps a scene of its own, from the same lines
//! ```
//!
//! A [`Head`] says what is watched. Each [`Frame`] says what changed since the frame before: totals, files that came
//! and went, zones whose state changed, compactions that ended. So a frame of a drive of 100,000 zones is short, and a
//! recording holds everything that any view needs: which file lies where, its keys, what the planner would do next
//! and why.
//!
//! Architecture invariants
//!   W1  Watching changes nothing: a sampler only reads metrics, and it writes to no drive.
//!   W2  A sampler takes at most one hundredth of the time: it waits a hundred times as long as its last frame took.
//!   W3  A recording is readable up to its last whole line, whenever its writer was killed.
//!   W4  Times are the store's own: virtual time where the store runs in virtual time.
//!
//! Not here: the server of the page (`serve::http`), keys and the choice of what is watched (`cli`), the picture of the
//! zones of a closed drive (`cli::zones`).

mod feed;
mod frame;
mod metrics;
pub mod page;
mod recording;
mod sampler;
mod scene;
pub mod screen;
mod tap;

pub use feed::{Feed, FeedItem, FeedPlace, FeedReader};
pub use frame::{
    Activities, ActivityTotals, DriveTotals, EndedCompaction, FRAME_VERSION, FileChange, Frame,
    GapChange, Head, LevelNow, Line, Now, OpTimes, RunningNow, Stalls, StoreTotals, ZoneChange,
    ZoneNow,
};
pub use metrics::{MetricKind, MetricsFormat, MetricsText, metrics_text};
pub use recording::{Recording, RecordingError, RecordingWriter};
pub use sampler::{Pace, Sampler, Subject};
pub use scene::{Cell, FileNow, Scene};
pub use tap::{Sink, Tap, Title};

#[cfg(test)]
mod tests;
