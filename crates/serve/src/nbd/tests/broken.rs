//! Clients that break off, send wrong lengths, or send arbitrary bytes.

use super::super::protocol::command_flag;
use super::*;
use imbrex_clockwork::Prng;

/// A whole conversation: the bytes of a client that uses every feature once.
fn conversation() -> Vec<u8> {
    let mut bytes = 3_u32.to_be_bytes().to_vec();
    bytes.extend(option_bytes(option::STRUCTURED_REPLY, &[]));
    bytes.extend(option_bytes(option::LIST, &[]));
    bytes.extend(option_bytes(option::LIST_META_CONTEXT, &queries("", &["base:"])));
    bytes.extend(option_bytes(option::SET_META_CONTEXT, &queries("disk", &["base:allocation"])));
    bytes.extend(option_bytes(option::INFO, &go("disk", &[1, 2, 3])));
    bytes.extend(option_bytes(option::GO, &go("disk", &[3])));
    let request = |command, offset_bytes, len_bytes| {
        Request { flags: 0, command, cookie: 5, offset_bytes, len_bytes }.encode()
    };
    bytes.extend(request(command::WRITE, 512, 1024));
    bytes.extend([8; 1024]);
    bytes.extend(request(command::READ, 0, 4096));
    bytes.extend(request(command::FLUSH, 0, 0));
    bytes.extend(request(command::BLOCK_STATUS, 0, 1 << 20));
    bytes.extend(request(command::TRIM, 0, 4096));
    bytes.extend(request(command::WRITE_ZEROES, 0, 4096));
    bytes.extend(request(command::DISC, 0, 0));
    bytes
}

/// Sends `bytes`, closes the sending end and reads to the end: the server must close the connection in any case.
fn say(stand: &Stand, bytes: &[u8]) -> Vec<u8> {
    let mut socket = stand.socket();
    // The server may close the connection before the end.
    let _ = socket.write_all(bytes);
    let _ = socket.shutdown(Shutdown::Write);
    let mut said = Vec::new();
    let _ = socket.read_to_end(&mut said);
    said
}

#[test]
fn a_conversation_may_break_off_anywhere() {
    let stand = Stand::new();
    let whole = conversation();
    let all = say(&stand, &whole);
    for len in 0..whole.len() {
        let said = say(&stand, &whole[..len]);
        assert!(said.len() <= all.len() && said[..18] == all[..18], "after {len} bytes");
    }
    stand.check_alive();
}

#[test]
fn any_bytes_end_a_connection_and_nothing_else() {
    let stand = Stand::new();
    let whole = conversation();
    for seed in 0..600 {
        let mut prng = Prng::new(seed);
        let mut bytes = whole.clone();
        match seed % 4 {
            // A few bits flipped.
            0 | 1 => {
                for _ in 0..=prng.below(4) {
                    let at = prng.below(bytes.len() as u64) as usize;
                    bytes[at] ^= 1 << prng.below(8);
                }
            }
            // A wrong length or another wrong word.
            2 => {
                let at = prng.below(bytes.len() as u64 - 4) as usize;
                let lies = [0, 1, 0x7fff_ffff, u32::MAX, prng.next_u64() as u32];
                let lie = lies[prng.below(5) as usize];
                bytes[at..at + 4].copy_from_slice(&lie.to_be_bytes());
            }
            // Garbage after a valid beginning.
            _ => {
                bytes.truncate(prng.below(whole.len() as u64) as usize);
                bytes.extend((0..prng.below(3000)).map(|_| prng.next_u64() as u8));
            }
        }
        assert!(say(&stand, &bytes).len() >= 18, "seed {seed}");
    }
    stand.check_alive();
}

#[test]
fn a_malformed_request_ends_only_its_own_connection() {
    let stand = Stand::new();
    let mut other = stand.client(false);
    let mut client = stand.client(false);
    client.send(&[0xee; 28]);
    assert!(client.is_closed());
    assert_eq!(other.read(0, 512).unwrap(), [0; 512]);
    assert_eq!(stand.counts().broken_off, 1);
}

#[test]
fn an_announced_length_costs_no_memory() {
    let stand = Stand::new();
    let clients: Vec<_> = (0..30)
        .map(|_| {
            let mut client = stand.client(false);
            let request = client.request(0, command::WRITE, 0, REQUEST_LEN_BYTES_MAX);
            client.send(&request.encode());
            client.send(&[1; 100]);
            client
        })
        .collect();
    stand.check_alive();
    drop(clients);
}

#[test]
fn a_client_that_never_reads_delays_neither_others_nor_the_stop() {
    let stand = Stand::new();
    let mut deaf = stand.client(false);
    let request = deaf.request(0, command::READ, 0, 1 << 20).encode();
    // Replies of 40 MiB: more than any socket buffers.
    for _ in 0..40 {
        deaf.send(&request);
    }
    stand.check_alive();
    drop(deaf);
    assert!(stand.crew.wait_idle(std::time::Duration::from_secs(60)), "P1");
    assert_eq!(stand.counts().broken_off, 1);
}

#[test]
fn clients_that_use_lanes_break_off_too() {
    let device = MemoryDevice { waits: Waits::All, ..MemoryDevice::of_sectors(2048) };
    let stand = Stand::of(device, |_, _| {});
    let whole = conversation();
    for len in (0..whole.len()).rev().step_by(7) {
        say(&stand, &whole[..len]);
    }
    let mut deaf = stand.client(false);
    for _ in 0..40 {
        let request = deaf.request(0, command::READ, 0, 1 << 20);
        deaf.send(&request.encode());
    }
    drop(deaf);
    stand.check_alive();
    assert!(stand.crew.wait_idle(std::time::Duration::from_secs(60)), "L2");
}

impl Stand {
    /// A client whose lanes are all in waiting flushes, followed by `count` forced writes of ones to the sectors
    /// `0..count`.
    fn client_that_waits(&self, count: u64) -> Client<UnixStream> {
        let mut client = self.client(false);
        self.device.set_gate(true);
        for _ in 0..LANE_COUNT_MAX {
            client.begin((command::FLUSH, 0), 0, &[]);
        }
        self.device.wait_for_gate(LANE_COUNT_MAX);
        for n in 0..count {
            client.begin((command::WRITE, command_flag::FUA), n * 512, &[1; 512]);
        }
        client
    }
}

/// A client lost its connection, sent its writes again on another one, and continued. Then its old waiting writes
/// were executed over the new ones.
#[test]
fn waiting_requests_are_dropped_with_a_lost_connection() {
    // Some wait in the queue, and so many that the connection waits for room and does not notice its end.
    for (count, is_half) in [(9, false), (9, true), (100, false)] {
        let stand = Stand::new();
        let mut lost = stand.client_that_waits(count);
        if count == 9 {
            // This reply comes after those requests were received.
            lost.read(1 << 19, 512).unwrap();
        }
        let kept = is_half.then_some(lost);
        if let Some(lost) = &kept {
            lost.stream.shutdown(Shutdown::Write).unwrap();
            for _ in 0..1_000_000 {
                if stand.counts().broken_off > 0 {
                    break;
                }
                std::thread::yield_now();
            }
        }
        let mut other = stand.client(false);
        for n in 0..count {
            other.write(n * 512, &[2; 512]).unwrap();
        }
        stand.device.set_gate(false);
        drop(other);
        assert!(stand.crew.wait_idle(std::time::Duration::from_secs(60)), "L2");
        assert_eq!(stand.device.through_count.load(Ordering::SeqCst), 0, "L3");
        let sectors = stand.device.sectors.lock().unwrap();
        assert!((0..count as usize).all(|n| sectors[n] == Some([2; 512])), "L3");
        assert_eq!(stand.counts().broken_off, 1);
    }
}

/// The protocol requires it: a disconnect request asks for all earlier requests.
#[test]
fn waiting_requests_are_served_after_a_disconnect_request() {
    let stand = Stand::new();
    let mut client = stand.client_that_waits(9);
    let read = client.request(0, command::READ, 0, 512);
    let farewell = client.request(0, command::DISC, 0, 0);
    client.send(&[read.encode(), farewell.encode()].concat());
    // Requests received together are answered together, so the disconnect request is known by then.
    assert_eq!(client.reply(512).0, read.cookie);
    drop(client);
    stand.device.set_gate(false);
    assert!(stand.crew.wait_idle(std::time::Duration::from_secs(60)), "L2");
    assert_eq!(stand.device.through_count.load(Ordering::SeqCst), 9);
}

#[test]
fn a_panic_below_ends_its_connection_and_is_reported() {
    for flags in [0, command_flag::FUA] {
        let device = MemoryDevice { fatal_sector: Some(9), ..MemoryDevice::of_sectors(2048) };
        let stand = Stand::of(device, |_, _| {});
        let mut other = stand.client(true);
        let mut client = stand.client(true);
        assert!(client.call((command::WRITE, flags), 0, 512, &[1; 512]).is_ok());
        let fatal = client.request(flags, command::WRITE, 9 * 512, 512);
        client.send(&[&fatal.encode()[..], &[1; 512]].concat());
        assert!(client.is_closed());
        assert_eq!(other.read(0, 512).unwrap(), [1; 512], "K3");
        drop((client, other));
        while !stand.crew.wait_idle(std::time::Duration::from_secs(1)) {}
        // The panic of a lane is reported when its thread has ended, a moment after its connection.
        let stories = || [stand.server.panics(), stand.crew.panics()].concat();
        while stories().is_empty() {
            std::thread::yield_now();
        }
        let stories = stories();
        assert!(stories.iter().any(|story| story.contains("by design")), "{stories:?}");
    }
}

#[test]
fn a_client_with_many_requests_waits_and_gets_all_replies() {
    let device = MemoryDevice { waits: Waits::All, ..MemoryDevice::of_sectors(70_000) };
    let stand = Stand::of(device, |_, _| {});
    let mut client = stand.client(false);
    // 40 reads of 8 MiB are 320 MiB; 64 MiB may be in the lanes (L1).
    for _ in 0..40 {
        let request = client.request(0, command::READ, 0, 8 << 20);
        client.send(&request.encode());
    }
    for _ in 0..40 {
        assert_eq!(client.reply(8 << 20).1.unwrap().data.len(), 8 << 20);
    }
    stand.check_alive();
}
