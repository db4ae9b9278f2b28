//! The counters of a server: every connection and queue adds to them, any thread may read them.

use std::sync::atomic::{AtomicU64, Ordering};

/// The counters of a server since its start. The ublk server has no connections and no status queries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Clients that connected.
    pub connections: u64,
    /// Connections rejected because the maximum number was reached.
    pub turned_away: u64,
    /// Connections closed because the client broke the protocol or was too slow in the handshake, or because
    /// the connection failed.
    pub broken_off: u64,
    /// Reads.
    pub reads: u64,
    /// Bytes of all reads.
    pub read_bytes: u64,
    /// Writes.
    pub writes: u64,
    /// Bytes of all writes.
    pub written_bytes: u64,
    /// Flushes.
    pub flushes: u64,
    /// Trims.
    pub trims: u64,
    /// Requests to write zeros, which carry no data.
    pub zeroes: u64,
    /// Block status queries.
    pub statuses: u64,
    /// Requests answered with an error.
    pub errors: u64,
}

macro_rules! tally {
    ($($name:ident),*) => {
        /// [`Counts`] while they change.
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

/// Adds one.
pub(crate) fn count(counter: &AtomicU64) {
    add(counter, 1);
}

pub(crate) fn add(counter: &AtomicU64, more: u64) {
    counter.fetch_add(more, Ordering::Relaxed);
}
