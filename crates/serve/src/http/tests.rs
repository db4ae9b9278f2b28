use super::*;
use crate::transport::{Listener, Reach};
use imbrex_clockwork::{Crew, WallClock};
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// A site that tells what it was asked, and counts events up to a bound.
#[derive(Debug, Default)]
struct Echo {
    last_event: Arc<AtomicU64>,
}

impl Site for Echo {
    fn answer(&self, request: &Request) -> Reply {
        match &request.path[..] {
            "/events" => {
                let seen = request.last_event.as_deref().and_then(|id| id.parse().ok());
                let last = Arc::clone(&self.last_event);
                Reply::Events(Box::new(Numbers {
                    next: seen.map_or(0, |seen: u64| seen + 1),
                    last,
                }))
            }
            "/long" => Reply::page("text/plain", vec![b'x'; 3 << 20]),
            "/none" => Reply::text(404, "nothing is here"),
            _ => Reply::text(200, format!("{request:?}")),
        }
    }
}

struct Numbers {
    next: u64,
    last: Arc<AtomicU64>,
}

impl EventSource for Numbers {
    fn next_event(&mut self) -> Option<Event> {
        let number = self.next;
        (number < self.last.load(Ordering::SeqCst)).then(|| {
            self.next += 1;
            Event { id: number.to_string(), kind: "", data: format!("event {number}").into() }
        })
    }
}

/// A server on a port of its own.
struct Stand {
    server: Arc<Server>,
    address: SocketAddr,
    last_event: Arc<AtomicU64>,
    crew: Crew,
}

impl Stand {
    fn new(adjust: impl FnOnce(&mut ServerOptions)) -> Stand {
        let echo = Echo::default();
        let last_event = Arc::clone(&echo.last_event);
        let mut options = ServerOptions::new(Arc::new(WallClock::new()));
        adjust(&mut options);
        let server = Arc::new(Server::new(Arc::new(echo), options).unwrap());
        let listener = Listener::tcp("127.0.0.1:0".parse().unwrap(), Reach::Loopback).unwrap();
        let (address, serving, crew) =
            (listener.address().unwrap(), Arc::clone(&server), Crew::new());
        crew.start("server", move || serving.serve(&listener).unwrap()).unwrap();
        Stand { server, address, last_event, crew }
    }

    fn connect(&self) -> TcpStream {
        let socket = TcpStream::connect(self.address).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        socket
    }

    /// Sends `text` with nothing after it; the whole reply.
    fn ask(&self, text: &str) -> String {
        let mut socket = self.connect();
        socket.write_all(text.as_bytes()).unwrap();
        socket.shutdown(Shutdown::Write).unwrap();
        let mut reply = Vec::new();
        socket.read_to_end(&mut reply).unwrap();
        String::from_utf8_lossy(&reply).into_owned()
    }

    fn get(&self, path: &str) -> String {
        self.ask(&format!("GET {path} HTTP/1.1\r\nHost: localhost:1\r\n\r\n"))
    }
}

impl Drop for Stand {
    fn drop(&mut self) {
        self.server.stopper().stop();
        assert!(self.crew.wait_idle(Duration::from_secs(60)), "it ends all connections");
        if !std::thread::panicking() {
            assert_eq!([self.server.panics(), self.crew.panics()].concat(), [""; 0]);
        }
    }
}

fn status(reply: &str) -> u16 {
    reply.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0)
}

#[test]
fn pages_are_answered_and_connections_stay() {
    let stand = Stand::new(|_| ());
    let reply = stand.get("/a/b?x=1%202&y=%26");
    assert_eq!(status(&reply), 200);
    assert!(reply.contains("(\"x\", \"1 2\"), (\"y\", \"&\")"), "{reply}");
    assert!(reply.contains("Content-Security-Policy: default-src 'none'"), "{reply}");
    let two = "GET /first HTTP/1.1\r\nHost: [::1]\r\n\r\nGET /second HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n";
    let both = stand.ask(two);
    assert!(both.contains("/first") && both.contains("/second"), "{both}");
    let long = stand.get("/long");
    assert!(long.len() > 3 << 20 && long.contains("Content-Length: 3145728"));
    let head = stand.ask("HEAD /long HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert!(head.contains("Content-Length: 3145728") && head.len() < 1000);
    assert_eq!(status(&stand.get("/none")), 404);
}

/// H1: a page of another site may send a browser here by a name of its own, and gets nothing.
#[test]
fn a_foreign_name_is_refused_and_so_is_a_wrong_token() {
    let stand = Stand::new(|_| ());
    for host in ["evil.example", "localhost.evil.example:80", "127.0.0.1.evil.example"] {
        let reply = stand.ask(&format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n"));
        assert_eq!(status(&reply), 421, "{host}");
    }
    let token = Stand::new(|options| options.access = Access::Token("secret".to_owned()));
    let with = |line: &str, path: &str| {
        token.ask(&format!("GET {path} HTTP/1.1\r\nHost: drive.example\r\n{line}\r\n"))
    };
    assert_eq!(status(&with("", "/")), 401);
    assert_eq!(status(&with("", "/?token=secre")), 401);
    assert_eq!(status(&with("Authorization: Bearer wrong\r\n", "/?token=secret")), 401);
    let reply = with("", "/?token=secret&x=1");
    assert!(status(&reply) == 200 && !reply.contains("secret"), "the site never sees it: {reply}");
    assert_eq!(status(&with("Authorization: Bearer secret\r\n", "/")), 200);
}

/// H2.
#[test]
fn a_change_needs_the_header_that_forms_cannot_send() {
    let stand = Stand::new(|_| ());
    let post = |header: &str| {
        stand.ask(&format!(
            "POST /lab/start HTTP/1.1\r\nHost: localhost\r\n{header}Content-Length: 9\r\n\r\na=1&a=b+c"
        ))
    };
    assert_eq!(status(&post("")), 403);
    let reply = post("X-Imbrex: 1\r\n");
    assert!(reply.contains("is_change: true") && reply.contains("(\"a\", \"b c\")"), "{reply}");
    assert_eq!(status(&stand.ask("PUT / HTTP/1.1\r\nHost: localhost\r\n\r\n")), 405);
}

/// H3, H4: whatever a reader sends, the server answers or hangs up, and answers the next one.
#[test]
fn bad_requests_end_their_own_connection() {
    let stand = Stand::new(|options| options.silence_ns_max = 300_000_000);
    let long = format!("GET / HTTP/1.1\r\nX: {}\r\n\r\n", "y".repeat(20 << 10));
    let cases = [
        ("nonsense\r\n\r\n", 400),
        ("GET / HTTP/9.9\r\n\r\n", 400),
        (long.as_str(), 431),
        ("GET x HTTP/1.1\r\nHost: localhost\r\n\r\n", 400),
        (
            "POST / HTTP/1.1\r\nHost: localhost\r\nX-Imbrex: 1\r\nContent-Length: 99999999999\r\n\r\n",
            413,
        ),
        ("POST / HTTP/1.1\r\nHost: localhost\r\nX-Imbrex: 1\r\nContent-Length: x\r\n\r\n", 400),
        ("POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
        ("", 0),
    ];
    for (request, expected) in cases {
        assert_eq!(status(&stand.ask(request)), expected, "{}", &request[..request.len().min(60)]);
    }
    // A reader that sends half a head, and then nothing.
    let mut silent = stand.connect();
    silent.write_all(b"GET / HT").unwrap();
    let mut rest = Vec::new();
    let _ = silent.read_to_end(&mut rest);
    assert_eq!(rest, b"", "it is hung up on");
    assert_eq!(status(&stand.get("/")), 200);
}

#[test]
fn more_connections_than_allowed_are_hung_up_on() {
    let stand = Stand::new(|options| options.connection_count_max = 2);
    let held: Vec<TcpStream> = (0..2).map(|_| stand.connect()).collect();
    // Both keep their places while they are answered.
    for mut socket in &held {
        socket.write_all(b"GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
        assert!(socket.read(&mut [0; 16]).unwrap() > 0);
    }
    let mut third = stand.connect();
    let mut reply = Vec::new();
    let _ = third.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let _ = third.read_to_end(&mut reply);
    assert_eq!(reply, b"");
    drop(held);
}

/// H4: readers that ask nothing keep nobody out, and one that is being answered keeps its place.
#[test]
fn the_reader_that_was_silent_the_longest_makes_room() {
    let stand = Stand::new(|options| options.connection_count_max = 3);
    let mut events = stand.connect();
    events.write_all(b"GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    assert!(events.read(&mut [0; 4096]).unwrap() > 0, "it is being answered");
    let mut silent: Vec<TcpStream> = (0..2).map(|_| stand.connect()).collect();
    silent[1].write_all(b"GET / HT").unwrap();
    for _ in 0..2 {
        assert_eq!(status(&stand.get("/")), 200);
    }
    let mut first = silent.remove(0);
    assert!(!matches!(first.read(&mut [0; 16]), Ok(1..)), "it is hung up on");
    stand.last_event.store(3, Ordering::SeqCst);
    events_until(&mut events, 2);
}

/// Reads events until one has the number `last`.
fn events_until(socket: &mut TcpStream, last: u64) -> String {
    let mut text = String::new();
    let mut piece = [0; 4096];
    while !text.contains(&format!("data: event {last}\n")) {
        let len = socket.read(&mut piece).unwrap();
        assert!(len > 0, "{text}");
        text.push_str(&String::from_utf8_lossy(&piece[..len]));
    }
    text
}

#[test]
fn events_go_on_and_a_reader_comes_back_where_it_was() {
    let stand = Stand::new(|_| ());
    stand.last_event.store(3, Ordering::SeqCst);
    let mut socket = stand.connect();
    socket.write_all(b"GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    let text = events_until(&mut socket, 2);
    assert!(text.contains("Content-Type: text/event-stream"), "{text}");
    assert!(text.contains("id: 0\ndata: event 0\n\nid: 1\ndata: event 1\n\n"), "{text}");
    stand.last_event.store(10_000, Ordering::SeqCst);
    events_until(&mut socket, 9_999);
    drop(socket);
    let mut back = stand.connect();
    let again = b"GET /events HTTP/1.1\r\nHost: localhost\r\nLast-Event-ID: 9997\r\n\r\n";
    back.write_all(again).unwrap();
    let text = events_until(&mut back, 9_999);
    assert!(!text.contains("event 9997\n") && text.contains("event 9998\n"), "{text}");
    // The drop of the stand ends the server while this reader still listens.
}
