//! Every option, right and wrong.

use super::*;
use imbrex_clockwork::WallClock;

const ACK: u32 = option_reply::ACK;
const INVALID: u32 = option_reply::ERR_INVALID;
const UNKNOWN: u32 = option_reply::ERR_UNKNOWN;

#[test]
fn go_reports_length_flags_and_block_sizes() {
    let stand = Stand::new();
    let mut client = stand.greeted();
    for option in [option::INFO, option::GO] {
        let replies = client.option(option, &go("disk", &[3, 1, 2, 99]));
        let datas: Vec<&[u8]> = replies.iter().map(|(_, data)| &data[..]).collect();
        // Has flags, flush, FUA, trim, zeroes, multi-conn, fast zero: 0b1001_0110_1101.
        assert_eq!(datas[0], b"\0\0\0\0\0\0\0\x10\0\0\x09\x6d");
        assert_eq!(datas[1], b"\0\x03\0\0\x02\0\0\0\x10\0\x02\0\0\0");
        assert_eq!(datas[2..], [&b"\0\x01disk"[..], b"\0\x02a test's", b""]);
        let kinds: Vec<_> = replies.iter().map(|reply| reply.0).collect();
        assert_eq!(kinds, [3, 3, 3, 3, ACK]);
    }
    assert_eq!(client.read(0, 512).unwrap(), [0; 512]);
}

#[test]
fn the_empty_name_is_the_default_export_and_others_are_unknown() {
    let stand = Stand::new();
    let mut client = stand.greeted();
    assert_eq!(client.refused(option::GO, &go("other", &[])), UNKNOWN);
    assert_eq!(client.refused(option::INFO, &go("disk2", &[3])), UNKNOWN);
    assert_eq!(client.option(option::GO, &go("", &[])).last().unwrap().0, ACK);
    assert_eq!(client.read(0, 512).unwrap(), [0; 512]);
}

#[test]
fn the_list_contains_the_export() {
    let stand = Stand::new();
    let mut client = stand.greeted();
    let replies = client.option(option::LIST, &[]);
    assert_eq!(replies, [(2, b"\0\0\0\x04diska test's".to_vec()), (ACK, Vec::new())]);
    assert_eq!(client.refused(option::LIST, b"x"), INVALID);
}

#[test]
fn export_name_with_and_without_zeroes() {
    let stand = Stand::new();
    for (flags, zeroes_len) in [(0, 124), (1, 124), (3, 0), (2, 0)] {
        let mut client = Client::on(stand.socket());
        client.greet(flags);
        client.send_option(option::EXPORT_NAME, b"disk");
        let told = client.bytes(10 + zeroes_len);
        assert_eq!(told[..10], *b"\0\0\0\0\0\x10\0\0\x09\x6d");
        assert!(told[10..].iter().all(|&byte| byte == 0));
        assert_eq!(client.read(512, 512).unwrap(), [0; 512]);
    }
    let mut client = stand.greeted();
    client.send_option(option::EXPORT_NAME, b"other");
    assert!(client.is_closed(), "there is no other way to refuse");
}

#[test]
fn contexts_are_listed_and_selected() {
    let stand = Stand::new();
    let mut client = stand.greeted();
    let (list, set) = (option::LIST_META_CONTEXT, option::SET_META_CONTEXT);
    assert_eq!(client.refused(set, &queries("disk", &["base:allocation"])), INVALID, "too early");
    assert_eq!(client.refused(option::STRUCTURED_REPLY, b"x"), INVALID);
    assert_eq!(client.refused(option::STRUCTURED_REPLY, b""), ACK);
    assert_eq!(client.refused(option::STRUCTURED_REPLY, b""), INVALID, "twice");
    let listed = [(4, b"\0\0\0\0base:allocation".to_vec()), (ACK, Vec::new())];
    for wanted in [&[][..], &["base:"], &["base:allocation"], &["x:y", "base:", "base:"]] {
        assert_eq!(client.option(list, &queries("", wanted)), listed, "{wanted:?}");
    }
    for (option, wanted) in
        [(list, &["x:"][..]), (list, &["base"]), (set, &[]), (set, &["base:"]), (set, &["qemu:x"])]
    {
        assert_eq!(client.refused(option, &queries("disk", wanted)), ACK, "{wanted:?}");
    }
    assert_eq!(client.refused(list, &queries("other", &[])), UNKNOWN);
    let mut cut = queries("disk", &["base:allocation"]);
    cut.pop();
    assert_eq!(client.refused(set, &cut), INVALID);
    cut.extend_from_slice(b"n and more");
    assert_eq!(client.refused(set, &cut), INVALID, "bytes behind the end");
}

#[test]
fn a_context_holds_for_its_export_until_another_selection() {
    let stand = Stand::new();
    let status = (command::BLOCK_STATUS, 0);
    for (selected, then, is_there) in [
        ("disk", None, true),
        ("", None, false),
        ("disk", Some(queries("other", &["base:allocation"])), false),
        ("disk", Some(queries("disk", &[])), false),
        ("disk", Some(vec![9]), false),
        ("disk", Some(vec![9; OPTION_LEN_BYTES_MAX as usize + 1]), false),
    ] {
        let mut client = stand.greeted();
        assert_eq!(client.refused(option::STRUCTURED_REPLY, b""), ACK);
        client.option(option::SET_META_CONTEXT, &queries(selected, &["base:allocation"]));
        if let Some(then) = &then {
            client.option(option::SET_META_CONTEXT, then);
        }
        client.option(option::GO, &go("disk", &[]));
        client.structured = true;
        let told = client.call(status, 0, 4096, &[]);
        assert_eq!(told.is_ok(), is_there, "{selected:?} {:?}", then.map(|data| data.len()));
        assert_eq!(client.read(0, 512).unwrap(), [0; 512], "the connection lives on");
    }
}

#[test]
fn abort_and_a_closed_end_are_not_failures() {
    let stand = Stand::new();
    let mut client = stand.greeted();
    assert_eq!(client.refused(option::ABORT, &[]), ACK);
    assert!(client.is_closed());
    let mut client = stand.greeted();
    assert_eq!(client.refused(option::ABORT, &vec![7; 1 << 20]), ACK);
    assert!(client.is_closed());
    drop(stand.greeted());
    drop(stand.socket());
    while stand.crew.running_count() > 0 {
        stand.crew.wait_idle(std::time::Duration::from_secs(1));
    }
    assert_eq!(stand.counts().broken_off, 0);
}

#[test]
fn an_option_that_does_not_exist_is_refused() {
    let stand = Stand::new();
    let mut client = stand.greeted();
    for option in [0, 4, 11, 12, u32::MAX] {
        assert_eq!(client.refused(option, b"whatever"), option_reply::ERR_UNSUP);
    }
    assert_eq!(client.refused(option::STARTTLS, &[]), option_reply::ERR_UNSUP, "no certificate");
    client.go(true);
    assert_eq!(client.read(0, 512).unwrap(), [0; 512]);
}

#[test]
fn malformed_data_are_refused_and_the_next_option_is_parsed() {
    let stand = Stand::new();
    let mut client = stand.greeted();
    let whole = go("disk", &[3, 0]);
    for len in 0..whole.len() {
        assert_eq!(client.refused(option::GO, &whole[..len]), INVALID, "{len} bytes");
    }
    for lie in [&b"\xff\xff\xff\xffdisk"[..], b"\0\0\0\x04disk\xff\xff", b"\0\0\0\x02\xff\xfe\0\0"]
    {
        assert_eq!(client.refused(option::INFO, lie), INVALID, "{lie:?}");
    }
    assert_eq!(client.refused(option::GO, &[&whole[..], b"x"].concat()), INVALID);
    client.go(true);
    assert_eq!(client.read(0, 512).unwrap(), [0; 512]);
}

#[test]
fn a_long_option_is_skipped_and_a_huge_one_ends_the_connection() {
    let stand = Stand::new();
    let mut client = stand.greeted();
    for len in [OPTION_LEN_BYTES_MAX + 1, 1 << 20] {
        let too_big = client.refused(option::LIST, &vec![7; len as usize]);
        assert_eq!(too_big, option_reply::ERR_TOO_BIG);
    }
    let longest = client.refused(option::LIST, &vec![7; OPTION_LEN_BYTES_MAX as usize]);
    assert_eq!(longest, INVALID);
    let mut head = option_bytes(option::GO, &[]);
    head[12..].copy_from_slice(&u32::MAX.to_be_bytes());
    client.send(&head);
    assert!(client.is_closed());
    stand.check_alive();
}

#[test]
fn a_client_that_knows_no_options_may_only_name_its_export() {
    let stand = Stand::new();
    let mut client = Client::on(stand.socket());
    client.greet(2);
    client.send_option(option::LIST, &[]);
    assert!(client.is_closed());
}

#[test]
fn foreign_flags_and_foreign_bytes_end_the_connection() {
    let stand = Stand::new();
    for flags in [4, 1 << 31, u32::from_be_bytes(*b"GET ")] {
        let mut client = Client::on(stand.socket());
        client.greet(flags);
        assert!(client.is_closed(), "{flags:#x}");
    }
    let mut client = stand.greeted();
    client.send(b"GET / HTTP/1.1\r\n");
    assert!(client.is_closed());
    let mut client = stand.greeted();
    for _ in 0..256 {
        client.refused(option::LIST, b"?");
    }
    assert!(client.is_closed(), "H3: enough is enough");
    stand.check_alive();
    assert_eq!(stand.counts().broken_off, 5);
}

#[test]
fn a_half_open_connection_ends_after_its_time() {
    // A limit of a second of a clock that advances by itself: a handshake may take a while on a busy machine.
    let hurry = |_: &mut Export, options: &mut ServerOptions| {
        options.clock = Arc::new(WallClock::new());
        options.handshake_ns_max = 1_000_000_000;
    };
    let stand = Stand::of(MemoryDevice::of_sectors(8), hurry);
    let mut silent = Client::on(stand.socket());
    assert_eq!(silent.bytes(18), greeting());
    let mut stopped = stand.greeted();
    stopped.send(&option_bytes(option::LIST, &[])[..9]);
    assert!(silent.is_closed(), "H3");
    assert!(stopped.is_closed(), "H3");
    let mut patient = stand.client(false);
    drop(stand.socket());
    // After the handshake a client may be idle for longer than the limit.
    let mut late = Client::on(stand.socket());
    assert_eq!(late.bytes(18), greeting());
    assert!(late.is_closed());
    assert_eq!(patient.read(0, 512).unwrap(), [0; 512]);
}
