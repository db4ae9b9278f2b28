//! Every command, right and wrong, with simple and structured replies.

use super::super::protocol::command_flag;
use super::*;
use imbrex_clockwork::Prng;

const EPERM: u32 = 1;
const EIO: u32 = 5;
const EINVAL: u32 = 22;
const ENOSPC: u32 = 28;
const ENOTSUP: u32 = 95;
const MIB: u64 = 1 << 20;

#[test]
fn written_data_reads_back_in_both_kinds_of_reply() {
    let stand = Stand::new();
    for structured in [false, true] {
        let mut client = stand.client(structured);
        let data: Vec<u8> = (0..300_000).map(|n| (n % 251) as u8 + u8::from(structured)).collect();
        let data = &data[..585 * 512];
        client.write(512 * 3, data).unwrap();
        assert_eq!(client.read(512 * 3, data.len() as u32).unwrap(), data);
        assert_eq!(client.read(MIB - 512, 512).unwrap(), [0; 512]);
        client.flush().unwrap();
    }
    assert_eq!(stand.device.flush_count.load(Ordering::SeqCst), 2);
    let counts = stand.counts();
    assert_eq!((counts.reads, counts.writes, counts.flushes, counts.errors), (4, 2, 2, 0));
}

#[test]
fn an_invalid_request_gets_an_error_and_the_connection_lives_on() {
    let (read, write, flush) = (command::READ, command::WRITE, command::FLUSH);
    let (trim, cache) = (command::TRIM, command::CACHE);
    let (zeroes, status) = (command::WRITE_ZEROES, command::BLOCK_STATUS);
    let data = vec![1; 4096];
    let cases: &[(u16, u16, u64, u32, u32)] = &[
        (read, 0, MIB, 512, EINVAL),
        (read, 0, MIB - 512, 1024, EINVAL),
        (read, 0, u64::MAX - 511, 512, EINVAL),
        (read, 0, !511, 4096, EINVAL),
        (read, 0, 1, 512, EINVAL),
        (read, 0, 0, 511, EINVAL),
        (read, 0, 0, 0, EINVAL),
        (read, 0, 0, REQUEST_LEN_BYTES_MAX + 512, EINVAL),
        (read, 0, 0, u32::MAX, EINVAL),
        (read, command_flag::NO_HOLE, 0, 512, EINVAL),
        (write, 0, MIB, 512, ENOSPC),
        (write, 0, MIB - 512, 1024, ENOSPC),
        (write, 0, 100, 512, EINVAL),
        (write, 0, 0, 100, EINVAL),
        (write, 0, 0, 0, EINVAL),
        (write, command_flag::DF, 0, 512, EINVAL),
        (write, 1 << 5, 0, 512, EINVAL),
        (flush, 0, 512, 0, EINVAL),
        (flush, 0, 0, 512, EINVAL),
        (flush, command_flag::DF, 0, 0, EINVAL),
        (trim, 0, MIB, 512, EINVAL),
        (trim, 0, 0, 0, EINVAL),
        (trim, 0, 3, 512, EINVAL),
        (trim, 0, 0, !511, EINVAL),
        (zeroes, 0, MIB, 512, ENOSPC),
        (zeroes, 0, 0, !511, ENOSPC),
        (zeroes, 0, 0, 1, EINVAL),
        (zeroes, command_flag::REQ_ONE, 0, 512, EINVAL),
        (zeroes, command_flag::FAST_ZERO, 0, 512, ENOTSUP),
        (status, 0, MIB, 512, EINVAL),
        (status, 0, 0, 0, EINVAL),
        (cache, command_flag::DF, 0, 512, EINVAL),
        (8, 0, 0, 512, EINVAL),
        (9, 0, 0, 0, EINVAL),
        (u16::MAX, u16::MAX, u64::MAX, u32::MAX, EINVAL),
    ];
    let stand = Stand::new();
    for structured in [false, true] {
        let mut client = stand.client(structured);
        for &(kind, flags, offset_bytes, len_bytes, expected) in cases {
            let payload = if kind == write { &data[..len_bytes as usize] } else { &[] };
            let got = client.call((kind, flags), offset_bytes, len_bytes, payload);
            assert_eq!(got, Err(expected), "{kind} {flags:#x} {offset_bytes} {len_bytes}");
        }
        assert_eq!(client.read(0, 512).unwrap(), [0; 512], "A2");
        assert_eq!(client.call((command::CACHE, 0), 0, 512, &[]), Ok(Reply::default()));
    }
    let errors = stand.counts().errors;
    assert_eq!(errors, 2 * cases.len() as u64);
    let mut client = stand.client(false);
    assert_eq!(client.call((read, command_flag::DF), 0, 512, &[]), Err(EINVAL));
    assert_eq!(client.call((status, 0), 0, 512, &[]), Err(EINVAL), "no context");
}

#[test]
fn a_write_that_is_too_long_is_skipped_and_refused() {
    let stand = Stand::new();
    let mut client = stand.client(true);
    let len_bytes = REQUEST_LEN_BYTES_MAX + 512;
    let payload = vec![1; len_bytes as usize];
    assert_eq!(client.call((command::WRITE, 0), 0, len_bytes, &payload), Err(EINVAL));
    assert_eq!(client.read(0, 512).unwrap(), [0; 512]);
}

#[test]
fn the_longest_requests_are_served() {
    let stand = Stand::of(MemoryDevice::of_sectors(70_000), |_, _| {});
    for structured in [false, true] {
        let mut client = stand.client(structured);
        let data = vec![9 + u8::from(structured); REQUEST_LEN_BYTES_MAX as usize];
        client.write(512, &data).unwrap();
        assert!(client.read(512, REQUEST_LEN_BYTES_MAX).unwrap() == data);
    }
}

#[test]
fn a_read_only_export_refuses_every_change() {
    let stand = Stand::of(MemoryDevice::of_sectors(8), |export, _| export.is_read_only = true);
    let mut client = stand.greeted();
    let told = client.option(option::INFO, &go("disk", &[]));
    assert_eq!(told[0].1[10..], [0x01, 0x07], "multi-conn; has flags, read-only, flush");
    client.go(true);
    assert_eq!(client.write(0, &[1; 512]), Err(EPERM));
    assert_eq!(client.call((command::TRIM, 0), 0, 512, &[]), Err(EPERM));
    assert_eq!(client.call((command::WRITE_ZEROES, 0), 0, 512, &[]), Err(EPERM));
    client.flush().unwrap();
    assert_eq!(client.read(0, 512).unwrap(), [0; 512]);
}

#[test]
fn trims_and_zeroes_reach_the_device() {
    let stand = Stand::of(
        MemoryDevice { zeroes_are_cheap: true, ..MemoryDevice::of_sectors(64) },
        |_, _| {},
    );
    let mut client = stand.client(true);
    client.write(0, &[5; 64 * 512]).unwrap();
    client.call((command::TRIM, 0), 512, 1024, &[]).unwrap();
    let fast = command_flag::FAST_ZERO;
    client.call((command::WRITE_ZEROES, fast), 4096, 512, &[]).unwrap();
    let kept = command_flag::NO_HOLE;
    client.call((command::WRITE_ZEROES, kept), 8192, 512, &[]).unwrap();
    let both = client.call((command::WRITE_ZEROES, fast | kept), 0, 512, &[]);
    assert_eq!(both, Err(ENOTSUP), "only holes are cheap");
    let told = client.call((command::BLOCK_STATUS, 0), 0, 64 * 512, &[]).unwrap();
    let expected = [(512, 0), (1024, 3), (2560, 0), (512, 3), (3584, 0), (512, 2), (24064, 0)];
    assert_eq!(told.extents, expected);
    let one = client.call((command::BLOCK_STATUS, command_flag::REQ_ONE), 512, 8192, &[]).unwrap();
    assert_eq!(one.extents, [(1024, 3)]);
    for kind in [command::TRIM, command::WRITE_ZEROES] {
        client.call((kind, command_flag::FUA), 0, 512, &[]).unwrap();
    }
    client.call((command::WRITE, command_flag::FUA), 0, 512, &[1; 512]).unwrap();
    assert_eq!(stand.device.through_count.load(Ordering::SeqCst), 3, "FUA");
    for kind in [command::READ, command::CACHE, command::BLOCK_STATUS] {
        client.call((kind, command_flag::FUA), 0, 512, &[]).unwrap();
    }
    client.call((command::FLUSH, command_flag::FUA), 0, 0, &[]).unwrap();
    assert_eq!(stand.device.through_count.load(Ordering::SeqCst), 3, "it says nothing there");
}

#[test]
fn long_reads_omit_holes_unless_df_is_set() {
    let stand = Stand::new();
    let mut client = stand.client(true);
    client.write(65536, &[3; 8192]).unwrap();
    client.write(65536 + 10 * 512, &[0; 512]).unwrap();
    let read = (command::READ, 0);
    let reply = client.call(read, 0, 256 << 10, &[]).unwrap();
    assert_eq!(reply.chunks, [(0, false), (65536, true), (65536 + 8192, false)]);
    let whole = client.call((command::READ, command_flag::DF), 0, 256 << 10, &[]).unwrap();
    assert_eq!(whole.chunks, [(0, true)]);
    assert!(whole.data == reply.data);
    let short = client.call(read, 0, 4096, &[]).unwrap();
    assert_eq!(short.chunks, [(0, true)], "not worth looking");
}

#[test]
fn a_medium_error_fails_only_its_request() {
    let device = MemoryDevice { bad_sector: Some(100), ..MemoryDevice::of_sectors(2048) };
    let stand = Stand::of(device, |_, _| {});
    for structured in [false, true] {
        let mut client = stand.client(structured);
        client.write(0, &[1; 200 * 512]).unwrap();
        assert_eq!(client.read(0, 200 * 512), Err(EIO));
        assert_eq!(client.read(0, 512).unwrap(), [1; 512]);
    }
}

/// Refused requests were counted as reads, writes and flushes.
#[test]
fn a_refused_request_counts_only_as_an_error() {
    let stand = Stand::new();
    let mut client = stand.client(true);
    let fast = command_flag::FAST_ZERO;
    assert_eq!(client.call((command::WRITE_ZEROES, fast), 0, 512, &[]), Err(ENOTSUP));
    stand.device.is_dead.store(true, Ordering::SeqCst);
    assert_eq!(client.read(0, 512), Err(EIO));
    assert_eq!(client.read(0, 64 << 10), Err(EIO));
    assert_eq!(client.write(0, &[1; 512]), Err(EIO));
    assert_eq!(client.flush(), Err(EIO));
    for kind in [command::TRIM, command::WRITE_ZEROES, command::BLOCK_STATUS] {
        assert_eq!(client.call((kind, 0), 0, 512, &[]), Err(EIO));
    }
    let expected = Counts { connections: 1, errors: 8, ..Counts::default() };
    assert_eq!(stand.counts(), expected);
}

#[test]
fn pipelined_requests_are_all_answered_before_a_disconnect() {
    for waits in [Waits::Nothing, Waits::All] {
        let device = MemoryDevice { waits, ..MemoryDevice::of_sectors(2048) };
        let stand = Stand::of(device, |_, _| {});
        let mut client = stand.client(true);
        let mut bytes = Vec::new();
        for n in 0..500_u64 {
            let request = client.request(0, command::WRITE, n * 512, 512);
            bytes.extend(request.encode());
            bytes.extend([n as u8; 512]);
            if n % 50 == 0 {
                bytes.extend(client.request(0, command::FLUSH, 0, 0).encode());
            }
        }
        bytes.extend(client.request(0, command::DISC, 0, 0).encode());
        client.send(&bytes);
        let mut cookies: Vec<_> = (0..510).map(|_| client.reply(0).0).collect();
        cookies.sort_unstable();
        assert_eq!(cookies, (1..=510).collect::<Vec<_>>(), "A1");
        assert!(client.is_closed());
        let sectors = stand.device.sectors.lock().unwrap();
        assert!((0..500).all(|n| sectors[n] == Some([n as u8; 512])));
    }
}

#[test]
fn a_waiting_flush_delays_no_other_request() {
    let stand = Stand::new();
    let (mut client, mut other) = (stand.client(true), stand.client(false));
    stand.device.set_gate(true);
    let request = client.request(0, command::FLUSH, 0, 0);
    client.send(&request.encode());
    for n in 0..20 {
        client.write(n * 512, &[n as u8; 512]).unwrap();
        assert_eq!(other.read(n * 512, 512).unwrap(), [n as u8; 512]);
    }
    stand.device.set_gate(false);
    assert_eq!(client.reply(0), (request.cookie, Ok(Reply::default())));
}

#[test]
fn many_clients_write_and_read_what_they_wrote() {
    let stand = Stand::new();
    let workers: Vec<u64> = (0..4).collect();
    imbrex_clockwork::fan_out(4, &workers, |&worker| {
        let mut prng = Prng::new(worker);
        let mut client = stand.client(worker % 2 == 0);
        let mut model = vec![0_u8; 512];
        for _ in 0..200 {
            // Sector n is that of client n % 4.
            let sector = prng.below(512);
            let at_bytes = (sector * 4 + worker) * 512;
            if prng.below(2) == 0 {
                let fill = 1 + prng.below(255) as u8;
                client.write(at_bytes, &[fill; 512]).unwrap();
                model[sector as usize] = fill;
            } else {
                assert_eq!(client.read(at_bytes, 512).unwrap(), [model[sector as usize]; 512]);
            }
        }
        client.flush().unwrap();
    });
    stand.check_alive();
}
