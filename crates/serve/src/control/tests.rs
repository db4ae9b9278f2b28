use super::*;
use crate::transport::Listener;
use imbrex_clockwork::{Crew, WallClock};
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::{Arc, mpsc};
use std::time::Duration;

/// Repeats the request; `long` gets a long reply, and `wait` tells that it came and waits for the
/// end of the server.
#[derive(Debug)]
struct Echo(mpsc::Sender<()>);

impl Control for Echo {
    fn answer(&self, request: &str, is_stopping: &dyn Fn() -> bool) -> String {
        match request {
            "long" => "x".repeat(1 << 20),
            "wait" => {
                self.0.send(()).unwrap();
                while !is_stopping() {}
                "stopped".to_owned()
            }
            _ => format!("{request:?}"),
        }
    }
}

struct Stand {
    server: Arc<ControlServer>,
    path: PathBuf,
    waits: mpsc::Receiver<()>,
    crew: Crew,
    _dir: tempfile::TempDir,
}

impl Stand {
    fn new(adjust: impl FnOnce(&mut ControlOptions)) -> Stand {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s");
        let mut options = ControlOptions::new(Arc::new(WallClock::new()));
        adjust(&mut options);
        let (sender, waits) = mpsc::channel();
        let server = Arc::new(ControlServer::new(Arc::new(Echo(sender)), options).unwrap());
        let (listener, serving) = (Listener::unix(&path).unwrap(), Arc::clone(&server));
        let crew = Crew::new();
        crew.start("serving", move || serving.serve(&listener).unwrap()).unwrap();
        Stand { server, path, waits, crew, _dir: dir }
    }

    fn client(&self) -> BufReader<UnixStream> {
        let socket = UnixStream::connect(&self.path).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        BufReader::new(socket)
    }
}

impl Drop for Stand {
    fn drop(&mut self) {
        self.server.stopper().stop();
        self.crew.wait_idle(Duration::from_secs(60));
        assert!(self.server.panics().is_empty());
    }
}

fn ask(client: &mut BufReader<UnixStream>, request: &str) -> String {
    client.get_mut().write_all(request.as_bytes()).unwrap();
    next(client)
}

fn next(client: &mut BufReader<UnixStream>) -> String {
    let mut line = String::new();
    client.read_line(&mut line).unwrap();
    line.trim_end().to_owned()
}

#[test]
fn lines_are_answered_in_order_however_they_come() {
    let stand = Stand::new(|_| ());
    let mut client = stand.client();
    assert_eq!(ask(&mut client, "status\n"), "\"status\"");
    client.get_mut().write_all(b"one\n\n  two \r\nthr").unwrap();
    assert_eq!((next(&mut client), next(&mut client)), ("\"one\"".into(), "\"two\"".into()));
    assert_eq!(ask(&mut client, "ee\n"), "\"three\"");
    assert_eq!(ask(&mut client, &format!("{}\n", "y".repeat(1024))).len(), 1026);
}

#[test]
fn a_request_that_is_too_long_ends_its_connection() {
    let stand = Stand::new(|_| ());
    for text in ["y".repeat(1025) + "\n", "y".repeat(5000)] {
        let mut client = stand.client();
        assert_eq!(ask(&mut client, &text), "{\"error\":\"a request has at most 1024 bytes\"}");
        let mut rest = Vec::new();
        match client.read_to_end(&mut rest) {
            Ok(0) => {}
            Err(error) if error.kind() == ErrorKind::ConnectionReset => {}
            other => panic!("{other:?} {rest:?}"),
        }
    }
}

/// Clients that never read fill all places; each newcomer is answered all the same (CT3, CT4).
#[test]
fn clients_that_never_read_do_not_keep_another_waiting() {
    let stand = Stand::new(|options| options.connection_count_max = 4);
    let mut deaf: Vec<_> = (0..4).map(|_| stand.client()).collect();
    for client in &mut deaf {
        // More replies than any socket buffers.
        client.get_mut().write_all(&b"long\n".repeat(8)).unwrap();
    }
    for _ in 0..6 {
        let mut client = stand.client();
        assert_eq!(ask(&mut client, "status\n"), "\"status\"");
    }
}

#[test]
fn a_silent_client_loses_its_connection() {
    let stand = Stand::new(|options| options.silence_ns_max = 50_000_000);
    let mut client = stand.client();
    assert_eq!(ask(&mut client, "status\n"), "\"status\"");
    assert_eq!(next(&mut client), "", "hung up");
}

#[test]
fn a_long_request_ends_with_the_server() {
    let stand = Stand::new(|_| ());
    let mut client = stand.client();
    client.get_mut().write_all(b"wait\n").unwrap();
    // The server stops while it answers: threads take the lines of two clients in any order, so
    // an answer to another client would not tell.
    stand.waits.recv_timeout(Duration::from_secs(60)).unwrap();
    stand.server.stopper().stop();
    assert_eq!(next(&mut client), "stopped");
}
