//! Real sockets: paths, ports, too many clients, the stop.

use super::super::protocol::command_flag;
use super::*;
use crate::transport::{ListenError, Listener, Reach};
use std::net::TcpStream;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::sync::atomic::AtomicUsize;

impl Stand {
    /// Serves `listener` on a thread; the stopper ends it.
    fn listen(&self, listener: Listener) {
        let server = Arc::clone(&self.server);
        self.crew.start("listening", move || server.serve(&listener).unwrap()).unwrap();
    }
}

#[test]
fn a_socket_is_its_owners_and_is_removed_at_the_end() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s");
    let stand = Stand::new();
    let listener = Listener::unix(&path).unwrap();
    assert!(!listener.has_replaced());
    let mode = std::fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600, "E2");
    stand.listen(listener);
    let mut client = Client::on(UnixStream::connect(&path).unwrap());
    client.greet(3);
    client.go(true);
    client.write(0, &[1; 512]).unwrap();
    let in_use = Listener::unix(&path).unwrap_err();
    assert!(matches!(in_use, ListenError::InUse { .. }), "{in_use}");
    let mut idle = Client::on(UnixStream::connect(&path).unwrap());
    idle.greet(3);
    stand.server.stopper().stop();
    stand.server.stopper().stop();
    assert!(stand.crew.wait_idle(std::time::Duration::from_secs(60)), "P2");
    assert!(client.is_closed() && idle.is_closed());
    assert_eq!(stand.device.flush_count.load(Ordering::SeqCst), 1, "P2");
    assert!(!path.exists());
    assert_eq!(stand.counts().broken_off, 0);
}

#[test]
fn a_dead_servers_socket_is_replaced_and_anything_else_is_not() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s");
    drop(UnixListener::bind(&path).unwrap());
    assert!(std::fs::metadata(&path).unwrap().file_type().is_socket());
    let listener = Listener::unix(&path).unwrap();
    assert!(listener.has_replaced(), "E3");
    drop(listener);
    std::fs::write(&path, "precious").unwrap();
    let error = Listener::unix(&path).unwrap_err();
    assert!(matches!(error, ListenError::NoSocket { .. }), "{error}");
    assert_eq!(std::fs::read(&path).unwrap(), b"precious", "E3");
    let path = dir.path().join("taken");
    let old = Listener::unix(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    let new = Listener::unix(&path).unwrap();
    drop(old);
    assert!(path.exists(), "E3: it is the other one's now");
    drop(new);
    assert!(!path.exists());
    let nowhere = Listener::unix(&dir.path().join("no/s")).unwrap_err();
    assert!(nowhere.to_string().contains("No such file"), "{nowhere}");
    let long = Listener::unix(&dir.path().join("x".repeat(200))).unwrap_err();
    assert!(matches!(long, ListenError::Refused { .. }), "{long}");
}

#[test]
fn one_of_two_servers_gets_a_dead_socket() {
    let dir = tempfile::tempdir().unwrap();
    for round in 0..300 {
        let path = dir.path().join(format!("{round}"));
        drop(UnixListener::bind(&path).unwrap());
        let here_count = AtomicUsize::new(0);
        let begin = || {
            // All start in the same moment; a thread that slept would wake up too late.
            here_count.fetch_add(1, Ordering::SeqCst);
            while here_count.load(Ordering::SeqCst) < 2 {
                std::thread::yield_now();
            }
            Listener::unix(&path)
        };
        let (one, other) = std::thread::scope(|scope| {
            let one = scope.spawn(begin);
            (begin(), one.join().unwrap())
        });
        assert!(one.is_ok() != other.is_ok(), "round {round}: {one:?}, {other:?}");
        UnixStream::connect(&path).unwrap();
    }
}

/// A server waited silently and for ever for a program that locked the directory of its socket.
#[test]
fn a_locked_directory_can_be_listened_in() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s");
    let keeper = std::fs::File::open(dir.path()).unwrap();
    rustix::fs::flock(&keeper, rustix::fs::FlockOperation::LockExclusive).unwrap();
    drop(UnixListener::bind(&path).unwrap());
    let listener = Listener::unix_after(&path, 1).unwrap();
    assert!(listener.has_replaced());
    let in_use = Listener::unix_after(&path, 1).unwrap_err();
    assert!(matches!(in_use, ListenError::InUse { .. }), "{in_use}");
}

#[test]
fn ports_are_local_unless_asked_for() {
    let remote = Listener::tcp("0.0.0.0:0".parse().unwrap(), Reach::Loopback).unwrap_err();
    assert!(matches!(remote, ListenError::Remote { .. }), "E5: {remote}");
    for mapped in ["[::]:0", "[::ffff:0.0.0.0]:0", "192.0.2.1:0"] {
        Listener::tcp(mapped.parse().unwrap(), Reach::Loopback).unwrap_err();
    }
    let listener = Listener::tcp("127.0.0.1:0".parse().unwrap(), Reach::Loopback).unwrap();
    let address = listener.address().unwrap();
    let in_use = Listener::tcp(address, Reach::Loopback).unwrap_err();
    assert!(matches!(in_use, ListenError::InUse { .. }), "{in_use}");
    let stand = Stand::new();
    stand.listen(listener);
    let mut client = Client::on(TcpStream::connect(address).unwrap());
    client.greet(3);
    client.go(false);
    client.write(512, &[4; 4096]).unwrap();
    assert_eq!(client.read(512, 4096).unwrap(), [4; 4096]);
    stand.server.stopper().stop();
    assert!(stand.crew.wait_idle(std::time::Duration::from_secs(60)));
}

#[test]
fn a_client_above_the_maximum_is_rejected() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s");
    let stand = Stand::of(MemoryDevice::of_sectors(8), |_, options| {
        options.connection_count_max = 2;
    });
    stand.listen(Listener::unix(&path).unwrap());
    let connect = || Client::on(UnixStream::connect(&path).unwrap());
    let (mut first, mut second) = (connect(), connect());
    first.greet(3);
    second.greet(3);
    assert!(connect().is_closed());
    assert_eq!(stand.counts().turned_away, 1);
    first.refused(option::ABORT, &[]);
    assert!(first.is_closed());
    // The connection is closed, and removed a moment later.
    let mut third = loop {
        let mut client = connect();
        let mut greeted = [0; 18];
        if client.stream.read_exact(&mut greeted).is_ok() {
            break client;
        }
    };
    third.send(&3_u32.to_be_bytes());
    third.go(true);
    stand.server.stopper().stop();
}

#[test]
fn the_stop_waits_for_requests_but_not_for_clients_that_never_read() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s");
    let stand = Stand::new();
    stand.listen(Listener::unix(&path).unwrap());
    let connect = || {
        let mut client = Client::on(UnixStream::connect(&path).unwrap());
        client.greet(3);
        client.go(false);
        client
    };
    let (mut client, mut deaf) = (connect(), connect());
    stand.device.set_gate(true);
    let flush = client.request(0, command::FLUSH, 0, 0);
    client.send(&flush.encode());
    stand.device.wait_for_gate(1);
    let long = deaf.request(0, command::READ, 0, 1 << 20).encode();
    for _ in 0..40 {
        deaf.send(&long);
    }
    stand.server.stopper().stop();
    stand.device.set_gate(false);
    assert_eq!(client.reply(0), (flush.cookie, Ok(Reply::default())));
    assert!(client.is_closed());
    assert!(stand.crew.wait_idle(std::time::Duration::from_secs(60)), "P2");
    assert_eq!(stand.server.panics(), [""; 0]);
}

/// The stop waited for the whole queue of one client, for hours.
#[test]
fn waiting_requests_are_refused_at_the_stop() {
    const ESHUTDOWN: u32 = 108;
    let stand = Stand::new();
    let mut client = stand.client(true);
    stand.device.set_gate(true);
    let flush = |_| client.begin((command::FLUSH, 0), 0, &[]);
    let begun: Vec<u64> = (0..LANE_COUNT_MAX).map(flush).collect();
    stand.device.wait_for_gate(LANE_COUNT_MAX);
    let through = (command::WRITE, command_flag::FUA);
    let mut waiting: Vec<u64> = (0..9).map(|n| client.begin(through, n * 512, &[1; 512])).collect();
    // This reply comes after those requests were received.
    client.read(0, 512).unwrap();
    stand.server.stopper().stop();
    stand.device.set_gate(false);
    for _ in 0..LANE_COUNT_MAX + waiting.len() {
        match client.reply(0) {
            (cookie, Ok(_)) => assert!(begun.contains(&cookie), "L4: {cookie}"),
            (cookie, Err(ESHUTDOWN)) => waiting.retain(|waits| *waits != cookie),
            (cookie, Err(errno)) => panic!("{cookie}: {errno}"),
        }
    }
    assert_eq!(waiting, [0; 0], "A1");
    assert_eq!(stand.device.through_count.load(Ordering::SeqCst), 0, "L4");
}

#[test]
fn a_stop_during_a_write_does_not_count_as_broken_off() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s");
    let stand = Stand::new();
    stand.listen(Listener::unix(&path).unwrap());
    let mut client = Client::on(UnixStream::connect(&path).unwrap());
    client.greet(3);
    client.go(false);
    let read = client.request(0, command::READ, 0, 512);
    let write = client.request(0, command::WRITE, 0, 1 << 20);
    client.send(&[&read.encode()[..], &write.encode(), &[1; 100]].concat());
    // The server sends its replies before it waits for a long payload.
    assert_eq!(client.reply(512).0, read.cookie);
    stand.server.stopper().stop();
    assert!(stand.crew.wait_idle(std::time::Duration::from_secs(60)), "P2");
    assert_eq!(stand.counts().broken_off, 0);
}

/// While a reply is in flight TCP sends no keepalive probes: giving up took a quarter of an hour.
#[test]
fn a_silent_peer_is_given_up_after_two_minutes() {
    use rustix::net::sockopt::{tcp_keepcnt, tcp_keepidle, tcp_keepintvl, tcp_user_timeout};
    let listener = Listener::tcp("127.0.0.1:0".parse().unwrap(), Reach::Loopback).unwrap();
    let _client = TcpStream::connect(listener.address().unwrap()).unwrap();
    let socket = listener.accept().unwrap();
    assert_eq!(tcp_user_timeout(&socket).unwrap(), 120_000);
    let asked = tcp_keepintvl(&socket).unwrap() * tcp_keepcnt(&socket).unwrap();
    let idle = tcp_keepidle(&socket).unwrap();
    assert_eq!((idle + asked).as_millis(), 120_000, "as long as for one with nothing on its way");
}

#[test]
fn background_work_runs_while_clients_are_quiet() {
    let device = MemoryDevice::of_sectors(2048);
    let (worked, all_worked) = std::sync::mpsc::channel();
    *device.worked.lock().unwrap() = Some(worked);
    device.work_count.store(5, Ordering::SeqCst);
    let stand = Stand::of(device, |_, _| {});
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s");
    stand.listen(Listener::unix(&path).unwrap());
    let mut client = Client::on(UnixStream::connect(&path).unwrap());
    client.greet(3);
    client.go(true);
    all_worked.recv().unwrap();
    assert_eq!(stand.device.work_count.load(Ordering::SeqCst), 0);
    client.write(0, &[1; 512]).unwrap();
    assert_eq!(client.read(0, 512).unwrap(), [1; 512]);
    stand.server.stopper().stop();
    assert!(stand.crew.wait_idle(std::time::Duration::from_secs(60)), "P2");
}
