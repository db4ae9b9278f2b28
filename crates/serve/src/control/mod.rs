//! A control socket: an operator asks a running server in lines, and gets lines of JSON.
//!
//! ```text
//!   $ echo status | socat - UNIX-CONNECT:/run/imbrex/control
//!   {"ok":{"len_bytes":1073741824,"buffer":{...}}}
//!
//!   transport --> server --> connection, one thread each
//!                              line of at most 1 KiB --> Control::answer --> one line
//! ```
//!
//! Requests are plain words, because a person types them. Replies are JSON, because programs read them. One line answers
//! one line, in order; an empty line gets no answer.
//!
//! Invariants
//!   CT1  Only the server's user and root get an answer, whatever the permissions of the socket became.
//!   CT2  The memory of a connection is bounded: a line, and a reply. A longer line ends the connection with an error.
//!   CT3  A client that sends nothing, or never reads, occupies its own thread, and after the time limit not even that.
//!   CT4  When all places are taken, the client that has been silent the longest loses its place to the next one. A
//!        client that does not read its reply counts as silent.
//!
//! Not here: the requests (`cli`), who may write where the socket lies (`transport::private`).

mod server;

pub use server::{ControlOptions, ControlServer};

/// The longest line of a request, without its end.
pub const REQUEST_LEN_BYTES_MAX: usize = 1 << 10;

/// What a control socket controls.
pub trait Control: Send + Sync + std::fmt::Debug {
    /// The line that answers `request`, a line with something in it; without its end.
    ///
    /// Called on the thread of the connection, so it may take long. Then it asks `is_stopping` now and then, and ends
    /// early if the server has to stop.
    fn answer(&self, request: &str, is_stopping: &dyn Fn() -> bool) -> String;
}

#[cfg(test)]
mod tests;
