//! One connection: requests and their replies, until the reader leaves.

use super::server::{Access, Shared};
use super::{BODY_LEN_BYTES_MAX, Event, EventSource, Reply, Request};
use crate::transport::{Deadline, Receiver, Sender, Socket, halves};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::fmt::Write;
use std::io::{self, ErrorKind};
use std::net::IpAddr;
use std::sync::Arc;

/// The longest head of a request.
const HEAD_LEN_BYTES_MAX: usize = 16 << 10;
const HEADER_COUNT_MAX: usize = 64;

/// Events are collected up to this length before they are sent (H3).
const PIECE_LEN_BYTES: usize = 256 << 10;

/// The pause before the next look for events.
const EVENT_PAUSE: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

/// After so many pauses without an event a comment is sent, which finds out whether the reader is still there.
const PAUSES_PER_COMMENT: u32 = 100;

/// A page may run its own script and style and talk to its own server, and nothing else.
const CONTENT_POLICY: &str = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; \
                              connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; \
                              frame-ancestors 'none'";

/// Serves one reader until its connection ends.
pub(super) fn serve(server: &Arc<Shared>, socket: Arc<Socket>) {
    let watched = Arc::clone(&socket);
    let (mut receiver, mut sender) = halves(socket, Some(server.deadline()));
    if let Some(tls) = &server.options.tls {
        let started = tls.session().and_then(|tls| receiver.start_tls(&mut sender, tls));
        if started.is_err() {
            sender.close();
            return;
        }
    }
    let mut connection = Connection { server, socket: watched, receiver, sender };
    // What a reader does to its own connection is no error of the server.
    let _ = connection.requests();
    connection.sender.close();
}

impl Shared {
    fn deadline(&self) -> Deadline {
        let clock = Arc::clone(&self.options.clock);
        let at_ns = clock.now_ns().saturating_add(self.options.silence_ns_max);
        Deadline { clock, at_ns }
    }
}

/// A parsed head.
#[derive(Debug, Default)]
struct Head {
    method: String,
    target: String,
    is_last: bool,
    body_len_bytes: usize,
    host: String,
    bearer: Option<String>,
    accept: Option<String>,
    last_event: Option<String>,
    /// Whether the header of our own page is there (H2).
    is_own: bool,
}

struct Connection<'a> {
    server: &'a Arc<Shared>,
    socket: Arc<Socket>,
    receiver: Receiver,
    sender: Sender,
}

impl Connection<'_> {
    fn requests(&mut self) -> io::Result<()> {
        while !self.server.acceptor.is_stopping() {
            self.receiver.set_deadline(self.server.deadline());
            self.server.silent.enter(&self.socket);
            let head = match self.head()? {
                Some(Ok(head)) => head,
                Some(Err((status, why))) => {
                    return self.send_page(&Reply::text(status, why), true, false);
                }
                None => return Ok(()),
            };
            let is_last = head.is_last;
            let only_head = head.method == "HEAD";
            let reply = match self.allowed(&head) {
                Ok(()) => {
                    let body = self.receiver.read_vec(head.body_len_bytes)?;
                    self.server.silent.leave(&self.socket);
                    match request(&head, &body) {
                        Ok(request) => self.server.site.answer(&request),
                        Err(reply) => reply,
                    }
                }
                Err(reply) => {
                    self.receiver.skip(head.body_len_bytes as u64)?;
                    self.server.silent.leave(&self.socket);
                    reply
                }
            };
            match reply {
                Reply::Events(source) if !only_head => return self.send_events(source),
                reply => self.send_page(&reply, is_last, only_head)?,
            }
            if is_last {
                return Ok(());
            }
        }
        Ok(())
    }

    /// The next head; `None` if the reader has left, an error with its status if it is none.
    fn head(&mut self) -> io::Result<Option<Result<Head, (u16, &'static str)>>> {
        let mut len = 1;
        loop {
            if !self.receiver.fill(len)? {
                return Ok(None);
            }
            let received = self.receiver.received();
            let mut headers = [httparse::EMPTY_HEADER; HEADER_COUNT_MAX];
            let mut parsed = httparse::Request::new(&mut headers);
            match parsed.parse(received) {
                Ok(httparse::Status::Complete(head_len)) if head_len <= HEAD_LEN_BYTES_MAX => {
                    let head = head_of(&parsed);
                    self.receiver.take(head_len);
                    return Ok(Some(head));
                }
                Ok(httparse::Status::Partial) if received.len() < HEAD_LEN_BYTES_MAX => {
                    len = received.len() + 1;
                }
                Ok(_) => {
                    return Ok(Some(Err((431, "the head of the request is too long"))));
                }
                Err(_) => return Ok(Some(Err((400, "this is no request of HTTP/1.1")))),
            }
        }
    }

    /// Whether the request is answered (H1, H2).
    fn allowed(&self, head: &Head) -> Result<(), Reply> {
        if !matches!(&head.method[..], "GET" | "HEAD" | "POST") {
            return Err(Reply::text(405, "only GET, HEAD and POST are answered"));
        }
        match &self.server.options.access {
            Access::Local if !is_local_name(&head.host) => {
                return Err(Reply::text(
                    421,
                    "this server answers to its address and to localhost, not to other names",
                ));
            }
            Access::Token(token) => {
                let named = query_pairs(&head.target).find(|(key, _)| key == "token");
                let named = head.bearer.clone().or(named.map(|(_, value)| value));
                if !named.is_some_and(|named| is_same(&named, token)) {
                    return Err(Reply::text(
                        401,
                        "a token is needed: open the address that `imbrex serve http` printed",
                    ));
                }
            }
            Access::Local => {}
        }
        if head.method == "POST" && !head.is_own {
            return Err(Reply::text(403, "a change needs the header X-Imbrex"));
        }
        Ok(())
    }

    fn send_page(&self, reply: &Reply, is_last: bool, only_head: bool) -> io::Result<()> {
        let (status, media_type, body) = match reply {
            Reply::Page { status, media_type, body } => (*status, *media_type, &body[..]),
            Reply::Events(_) => (200, "text/event-stream", &[][..]),
        };
        let mut head = start_of_head(status, media_type);
        let _ = write!(head, "Content-Length: {}\r\n", body.len());
        let _ =
            write!(head, "Connection: {}\r\n\r\n", if is_last { "close" } else { "keep-alive" });
        let mut bytes = head.into_bytes();
        if !only_head {
            bytes.extend_from_slice(body);
        }
        self.sender.send(&bytes)
    }

    fn send_events(&mut self, mut source: Box<dyn EventSource>) -> io::Result<()> {
        let head = start_of_head(200, "text/event-stream") + "Connection: close\r\n\r\n";
        self.sender.send(head.as_bytes())?;
        // From here on the reader says nothing more.
        self.receiver.begin_transmission()?;
        let mut silent_count = 0;
        while !self.server.acceptor.is_stopping() {
            let mut piece = String::new();
            while piece.len() < PIECE_LEN_BYTES
                && let Some(event) = source.next_event()
            {
                put_event(&mut piece, &event);
            }
            if piece.is_empty() && PAUSES_PER_COMMENT <= silent_count {
                piece.push_str(": still here\n\n");
            }
            if !piece.is_empty() {
                silent_count = 0;
                self.sender.send(piece.as_bytes())?;
                continue;
            }
            silent_count += 1;
            let mut waited = [PollFd::new(&*self.socket, PollFlags::IN)];
            if poll(&mut waited, Some(&EVENT_PAUSE)) != Ok(0) && self.has_left()? {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Takes what the reader sent, which has no meaning here; whether it closed its end.
    fn has_left(&mut self) -> io::Result<bool> {
        loop {
            match self.receiver.fill_now(1) {
                None => return Ok(false),
                Some(Ok(false)) => return Ok(true),
                Some(Ok(true)) => self.receiver.take(self.receiver.received().len()),
                Some(Err(error)) if error.kind() == ErrorKind::Interrupted => {}
                Some(Err(error)) => return Err(error),
            }
        }
    }
}

fn start_of_head(status: u16, media_type: &str) -> String {
    let reason = match status {
        200 => "OK",
        202 => "Accepted",
        400 => "Bad Request",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        413 => "Content Too Large",
        421 => "Misdirected Request",
        431 => "Request Header Fields Too Large",
        _ => "Error",
    };
    format!(
        "HTTP/1.1 {status} {reason}\r\nContent-Type: {media_type}\r\nCache-Control: no-store\r\n\
         Content-Security-Policy: {CONTENT_POLICY}\r\nX-Content-Type-Options: nosniff\r\n\
         Referrer-Policy: no-referrer\r\n"
    )
}

fn put_event(text: &mut String, event: &Event) {
    if !event.kind.is_empty() {
        let _ = writeln!(text, "event: {}", event.kind);
    }
    let _ = write!(text, "id: {}\ndata: {}\n\n", event.id, event.data);
}

fn head_of(parsed: &httparse::Request<'_, '_>) -> Result<Head, (u16, &'static str)> {
    let mut head = Head {
        method: parsed.method.unwrap_or_default().to_owned(),
        target: parsed.path.unwrap_or_default().to_owned(),
        is_last: parsed.version == Some(0),
        ..Head::default()
    };
    for header in parsed.headers.iter() {
        let value = String::from_utf8_lossy(header.value);
        let value = value.trim();
        match header.name.to_ascii_lowercase().as_str() {
            "connection" if value.eq_ignore_ascii_case("close") => head.is_last = true,
            "content-length" => {
                let len =
                    value.parse().map_err(|_| (400, "the length of the body is no number"))?;
                if len > BODY_LEN_BYTES_MAX {
                    return Err((413, "the body is too long"));
                }
                head.body_len_bytes = len;
            }
            "transfer-encoding" => return Err((400, "a body needs the header Content-Length")),
            "host" => head.host = value.to_owned(),
            "authorization" => head.bearer = value.strip_prefix("Bearer ").map(str::to_owned),
            "accept" => head.accept = Some(value.to_owned()),
            "last-event-id" => head.last_event = Some(value.to_owned()),
            "x-imbrex" => head.is_own = true,
            _ => {}
        }
    }
    Ok(head)
}

fn request(head: &Head, body: &[u8]) -> Result<Request, Reply> {
    let path = head.target.split('?').next().unwrap_or_default();
    if !path.starts_with('/') {
        return Err(Reply::text(400, "the target of the request is no path"));
    }
    let form = form_urlencoded::parse(body).into_owned().collect();
    Ok(Request {
        is_change: head.method == "POST",
        path: path.to_owned(),
        query: query_pairs(&head.target).filter(|(key, _)| key != "token").collect(),
        form,
        accept: head.accept.clone(),
        last_event: head.last_event.clone(),
    })
}

fn query_pairs(target: &str) -> impl Iterator<Item = (String, String)> + '_ {
    let query = target.split_once('?').map_or("", |(_, query)| query);
    form_urlencoded::parse(query.as_bytes()).into_owned()
}

/// Whether a host names this machine by an address, or as `localhost`; its port does not matter.
fn is_local_name(host: &str) -> bool {
    let name = match host.strip_prefix('[') {
        Some(v6) => v6.split(']').next().unwrap_or_default(),
        None => host.rsplit_once(':').map_or(host, |(name, _)| name),
    };
    name.eq_ignore_ascii_case("localhost") || name.parse::<IpAddr>().is_ok() || host.is_empty()
}

/// Compares in a time that does not depend on where they differ.
fn is_same(a: &str, b: &str) -> bool {
    let differences = a.bytes().zip(b.bytes()).fold(0, |all, (a, b)| all | (a ^ b));
    a.len() == b.len() && differences == 0
}
