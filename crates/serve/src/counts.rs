//! What a server has done: counted by every connection and queue, read by whoever asks.

use std::sync::atomic::{AtomicU64, Ordering};

/// What a server has done since it began. The kernel's door has no connections and no status queries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Clients that came.
    pub connections: u64,
    /// Of those, turned away because too many were there already.
    pub turned_away: u64,
    /// Of those, closed for breaking the protocol, for taking too long over the handshake, or by a
    /// failure of the connection.
    pub broken_off: u64,
    /// Reads, and what they read.
    pub reads: u64,
    /// Bytes of all reads.
    pub read_bytes: u64,
    /// Writes, and what they wrote.
    pub writes: u64,
    /// Bytes of all writes.
    pub written_bytes: u64,
    /// Flushes.
    pub flushes: u64,
    /// Trims.
    pub trims: u64,
    /// Writes of zeros without the zeros.
    pub zeroes: u64,
    /// Block status queries.
    pub statuses: u64,
    /// Requests answered with an error.
    pub errors: u64,
}

macro_rules! tally {
    ($($name:ident),*) => {
        /// [`Counts`] under way.
        #[derive(Debug, Default)]
        pub(crate) struct Tally { $(pub(crate) $name: AtomicU64,)* }

        impl Tally {
            pub(crate) fn counts(&self) -> Counts {
                Counts { $($name: self.$name.load(Ordering::Relaxed),)* }
            }
        }
    };
}

tally!(
    connections,
    turned_away,
    broken_off,
    reads,
    read_bytes,
    writes,
    written_bytes,
    flushes,
    trims,
    zeroes,
    statuses,
    errors
);

/// One more.
pub(crate) fn count(counter: &AtomicU64) {
    add(counter, 1);
}

pub(crate) fn add(counter: &AtomicU64, more: u64) {
    counter.fetch_add(more, Ordering::Relaxed);
}
