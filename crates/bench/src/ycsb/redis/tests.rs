//! Tests against a peer that expects exactly these commands; `cargo xtask ycsb` uses a real server.

use super::*;
use imbrex_clockwork::Crew;
use std::io::{Read, Write};
use std::os::unix::net::UnixListener;

/// A command in the wire format.
fn command(words: &str) -> Vec<u8> {
    let words: Vec<&str> = words.split(' ').collect();
    let parts = words.iter().map(|word| format!("${}\r\n{word}\r\n", word.len()));
    let parts: String = parts.collect();
    format!("*{}\r\n{parts}", words.len()).into_bytes()
}

/// A connection to a peer that expects these commands, sends these replies, and hangs up.
fn talk<T>(script: &[(&str, &str)], story: impl FnOnce(&mut RedisStore) -> T) -> T {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("redis.sock");
    let listener = UnixListener::bind(&path).unwrap();
    let script: Vec<(Vec<u8>, Vec<u8>)> =
        script.iter().map(|(words, reply)| (command(words), reply.as_bytes().to_vec())).collect();
    let crew = Crew::new();
    crew.start("redis", move || {
        let (mut peer, _) = listener.accept().unwrap();
        for (expected, reply) in script {
            let mut got = vec![0; expected.len()];
            peer.read_exact(&mut got).unwrap();
            assert_eq!(String::from_utf8_lossy(&got), String::from_utf8_lossy(&expected));
            peer.write_all(&reply).unwrap();
        }
    })
    .unwrap();
    let server = RedisServer::new(&format!("unix://{}", path.display())).unwrap();
    let mut store = server.connect().unwrap();
    let result = story(&mut store);
    drop(store);
    assert!(crew.wait_idle(std::time::Duration::from_secs(60)), "the peer waits for more");
    assert_eq!(crew.panics(), [""; 0]);
    result
}

fn record(fields: &[(&str, &str)]) -> Record {
    Record::new(fields.to_vec())
}

#[test]
fn commands_are_those_of_ycsbs_binding() {
    // Java's hash of "user1" is 111578566.
    let script = [
        ("HMSET user1 field0 a field1 b", "+OK\r\n"),
        ("ZADD _indices 111578566 user1", ":1\r\n"),
        ("HMSET user1 field1 c", "+OK\r\n"),
        ("HGETALL user1", "*4\r\n$6\r\nfield1\r\n$1\r\nc\r\n$6\r\nfield0\r\n$1\r\na\r\n"),
        ("HMGET user1 field0 field9", "*2\r\n$1\r\na\r\n$-1\r\n"),
        ("HGETALL user2", "*0\r\n"),
        ("ZRANGEBYSCORE _indices 111578566 +inf LIMIT 0 2", "*2\r\n$1\r\nx\r\n$1\r\ny\r\n"),
        ("HGETALL x", "*2\r\n$6\r\nfield0\r\n$1\r\n1\r\n"),
        ("HGETALL y", "*0\r\n"),
        ("DEL user1", ":1\r\n"),
        ("ZREM _indices user1", ":1\r\n"),
        ("DEL user1", ":0\r\n"),
        ("ZREM _indices user1", ":0\r\n"),
    ];
    talk(&script, |store| {
        store.insert("user1", &record(&[("field0", "a"), ("field1", "b")])).unwrap();
        assert!(store.update("user1", &record(&[("field1", "c")])).unwrap());
        let whole = record(&[("field0", "a"), ("field1", "c")]);
        assert_eq!(store.read("user1", Wanted::All).unwrap(), Some(whole));
        let named = ["field0".into(), "field9".into()];
        let one = store.read("user1", Wanted::Named(&named)).unwrap();
        assert_eq!(one, Some(record(&[("field0", "a")])));
        assert_eq!(store.read("user2", Wanted::All).unwrap(), None);
        let scanned = store.scan("user1", 2, Wanted::All).unwrap();
        assert_eq!(scanned, [record(&[("field0", "1")])], "one was deleted meanwhile");
        assert!(store.delete("user1").unwrap());
        assert!(!store.delete("user1").unwrap());
    });
}

#[test]
fn a_refusal_is_reported_and_a_closed_connection_is_lost() {
    let refusal = [("HGETALL user1", "-WRONGTYPE not a hash\r\n"), ("HGETALL user1", "*0\r\n")];
    talk(&refusal, |store| {
        let error = store.read("user1", Wanted::All).unwrap_err();
        assert!(matches!(error, StoreError::Refused { .. }), "{error}");
        assert!(error.to_string().contains("WRONGTYPE"), "{error}");
        assert_eq!(store.read("user1", Wanted::All).unwrap(), None, "it goes on");
        let error = store.read("user1", Wanted::All).unwrap_err();
        assert!(matches!(error, StoreError::Lost { .. }), "{error}");
    });
}

#[test]
fn an_unreachable_server_is_named_without_its_password() {
    let error = |url: &str| RedisServer::new(url).map(|_| ()).unwrap_err().to_string();
    assert!(error("http://localhost").contains("URL"), "{}", error("http://localhost"));
    let server = RedisServer::new("redis://:secret@127.0.0.1:6379").unwrap();
    assert_eq!(server.address(), "redis://127.0.0.1:6379");
    let nowhere = RedisServer::new("unix:///nonexistent/redis.sock").unwrap();
    assert_eq!(nowhere.address(), "unix:///nonexistent/redis.sock");
    let error = nowhere.connect().map(|_| ()).unwrap_err().to_string();
    assert!(error.contains("/nonexistent/redis.sock"), "{error}");
}
