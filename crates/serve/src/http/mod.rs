//! Pages over HTTP/1.1: what a browser and a metrics collector ask for, and events that go on.
//!
//! ```text
//!   transport --> server --> connection, one thread each
//!                              | head (httparse), short body --> Site::answer --> a page, or events
//!                              +-- events: what is new every tenth of a second, until the reader leaves
//! ```
//!
//! A server of a few short pages for a few readers, not a web server: no files, no compression, no uploads. Events are
//! server-sent events, so a reader that lost its connection names the last one that it has seen.
//!
//! Invariants
//!   H1  The server answers only readers that are allowed: with a token set, each request names it. Without one, the request's
//!       host is an address or `localhost`, so no page of another site reaches the server by a name of its own.
//!   H2  A request that changes something has the header `X-Imbrex`, which no form of another site can send.
//!   H3  The memory of a connection is bounded: the head, a short body, and one piece of events at a time.
//!   H4  A reader that sends nothing, or never reads, occupies its own thread and nothing else. When all places are
//!       taken, the reader that has been silent the longest loses its place to the next one.
//!
//! Sources: RFC 9110, RFC 9112; server-sent events of the HTML standard. Not here: what the pages say (`watch`, `cli`).

mod connection;
mod server;

pub use server::{Access, Server, ServerOptions};

use std::borrow::Cow;
use std::fmt;

/// The longest body of a request.
pub const BODY_LEN_BYTES_MAX: usize = 64 << 10;

/// A request that is allowed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// Whether it asks to change something (POST); otherwise it only reads (GET, HEAD).
    pub is_change: bool,
    /// The path, such as `/metrics`.
    pub path: String,
    /// The pairs of the query, decoded; without the token.
    pub query: Vec<(String, String)>,
    /// The pairs of a form in the body, decoded.
    pub form: Vec<(String, String)>,
    /// The media types that the reader takes, as it wrote them.
    pub accept: Option<String>,
    /// For events: the last one that the reader has seen.
    pub last_event: Option<String>,
}

/// What a request gets.
pub enum Reply {
    /// A page.
    Page {
        /// The status, such as 200.
        status: u16,
        /// The media type.
        media_type: &'static str,
        /// The content.
        body: Cow<'static, [u8]>,
    },
    /// Events, until the reader leaves or the server stops.
    Events(Box<dyn EventSource>),
}

impl Reply {
    /// A page with status 200.
    pub fn page(media_type: &'static str, body: impl Into<Cow<'static, [u8]>>) -> Reply {
        Reply::Page { status: 200, media_type, body: body.into() }
    }

    /// A line of text with `status`, for errors.
    pub fn text(status: u16, text: impl fmt::Display) -> Reply {
        let body = format!("{text}\n").into_bytes().into();
        Reply::Page { status, media_type: "text/plain; charset=utf-8", body }
    }
}

impl fmt::Debug for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reply::Page { status, media_type, body } => {
                write!(f, "{status} {media_type}, {} bytes", body.len())
            }
            Reply::Events(_) => f.write_str("events"),
        }
    }
}

/// The pages of a server.
pub trait Site: Send + Sync + fmt::Debug {
    /// Answers `request`. Called on a thread of the request's connection.
    fn answer(&self, request: &Request) -> Reply;
}

/// One event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// What a reader names when it comes back.
    pub id: String,
    /// The kind; empty for the usual one.
    pub kind: &'static str,
    /// The content, one line.
    pub data: Cow<'static, str>,
}

/// Events for one reader.
pub trait EventSource: Send {
    /// The next event, if there is one yet.
    fn next_event(&mut self) -> Option<Event>;
}

#[cfg(test)]
mod tests;
