//! The server from outside: a client that sends exactly the bytes that a test wants.

mod broken;
mod durable;
mod handshake;
mod listening;
mod requests;
#[cfg(feature = "tls")]
mod sealed;
#[cfg(not(feature = "tls"))]
mod unsealed;
mod waiting;

use super::handshake::OPTION_LEN_BYTES_MAX;
use super::lanes::LANE_COUNT_MAX;
use super::protocol::{
    Fields, MAGIC_OPTION, MAGIC_OPTION_REPLY, MAGIC_SIMPLE_REPLY, MAGIC_STRUCTURED_REPLY, Put,
    Request, chunk, command, greeting, option, option_reply,
};
use super::{Export, REQUEST_LEN_BYTES_MAX, Server, ServerOptions};
use crate::{BlockDevice, ByteRange, Content, Counts, DeviceError, Extent, Waits};
use imbrex_clockwork::{Crew, StillClock};
use imbrex_disk::{DiskError, Lba, Persist};
use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};

/// A device of 512-byte sectors in memory. It knows unwritten sectors, and fails or waits on demand.
#[derive(Debug, Default)]
struct MemoryDevice {
    sectors: Mutex<Vec<Option<[u8; 512]>>>,
    /// Reads of this sector fail.
    bad_sector: Option<u64>,
    /// Writes of this sector panic, as a bug of a device might.
    fatal_sector: Option<u64>,
    waits: Waits,
    zeroes_are_cheap: bool,
    through_count: AtomicUsize,
    flush_count: AtomicUsize,
    /// The due steps of background work, and a signal for their end.
    work_count: AtomicUsize,
    worked: Mutex<Option<std::sync::mpsc::Sender<()>>>,
    /// Flushes wait while it is closed.
    gate_closed: Mutex<bool>,
    gate: Condvar,
    at_gate_count: AtomicUsize,
    /// Every request fails.
    is_dead: AtomicBool,
}

impl MemoryDevice {
    fn of_sectors(count: usize) -> MemoryDevice {
        MemoryDevice { sectors: Mutex::new(vec![None; count]), ..MemoryDevice::default() }
    }

    fn set_gate(&self, closed: bool) {
        *self.gate_closed.lock().unwrap() = closed;
        self.gate.notify_all();
    }

    /// Waits until `count` flushes wait.
    fn wait_for_gate(&self, count: usize) {
        while self.at_gate_count.load(Ordering::SeqCst) < count {
            std::thread::yield_now();
        }
    }

    fn alive(&self) -> Result<(), DeviceError> {
        match self.is_dead.load(Ordering::SeqCst) {
            true => Err(DeviceError::Disk { what: "any".to_owned(), source: DiskError::Poisoned }),
            false => Ok(()),
        }
    }

    fn change(&self, range: ByteRange, to: impl Fn(usize) -> Option<[u8; 512]>) {
        let mut sectors = self.sectors.lock().unwrap();
        let first = (range.start_bytes / 512) as usize;
        for index in 0..(range.len_bytes / 512) as usize {
            sectors[first + index] = to(index);
        }
    }

    fn persist(&self, persist: Persist) {
        if persist == Persist::Through {
            self.through_count.fetch_add(1, Ordering::SeqCst);
        }
    }
}

impl BlockDevice for MemoryDevice {
    fn len_bytes(&self) -> u64 {
        self.sectors.lock().unwrap().len() as u64 * 512
    }
    fn sector_len_bytes(&self) -> u32 {
        512
    }
    fn waits(&self) -> Waits {
        self.waits
    }
    fn work(&self) -> bool {
        let less = |count: usize| count.checked_sub(1);
        let is_due = self.work_count.fetch_update(Ordering::SeqCst, Ordering::SeqCst, less).is_ok();
        if let Some(worked) = self.worked.lock().unwrap().take_if(|_| !is_due) {
            worked.send(()).unwrap();
        }
        is_due
    }
    fn read(&self, at_bytes: u64, buf: &mut [u8]) -> Result<(), DeviceError> {
        let range = ByteRange::new(at_bytes, buf.len() as u64);
        self.check(range)?;
        self.alive()?;
        let bad = self
            .bad_sector
            .filter(|bad| range.start_bytes <= bad * 512 && bad * 512 < range.end_bytes());
        if let Some(bad) = bad {
            let source = DiskError::Medium { at: Lba::new(bad / 8) };
            return Err(DeviceError::Disk { what: format!("reading {range}"), source });
        }
        let sectors = self.sectors.lock().unwrap();
        for (index, out) in buf.chunks_exact_mut(512).enumerate() {
            let sector = sectors[(at_bytes / 512) as usize + index];
            out.copy_from_slice(&sector.unwrap_or([0; 512]));
        }
        Ok(())
    }
    fn write(&self, at_bytes: u64, data: &[u8], persist: Persist) -> Result<(), DeviceError> {
        let range = ByteRange::new(at_bytes, data.len() as u64);
        self.check(range)?;
        self.alive()?;
        assert!(self.fatal_sector.is_none_or(|fatal| fatal * 512 != at_bytes), "by design");
        self.change(range, |index| data[index * 512..][..512].try_into().ok());
        self.persist(persist);
        Ok(())
    }
    fn flush(&self) -> Result<(), DeviceError> {
        self.alive()?;
        let mut closed = self.gate_closed.lock().unwrap();
        self.at_gate_count.fetch_add(1, Ordering::SeqCst);
        while *closed {
            closed = self.gate.wait(closed).unwrap();
        }
        self.at_gate_count.fetch_sub(1, Ordering::SeqCst);
        self.flush_count.fetch_add(1, Ordering::SeqCst);
        Ok(())
    }
    fn trim(&self, range: ByteRange, persist: Persist) -> Result<(), DeviceError> {
        self.check(range)?;
        self.alive()?;
        self.change(range, |_| None);
        self.persist(persist);
        Ok(())
    }
    fn write_zeroes(
        &self,
        range: ByteRange,
        may_trim: bool,
        persist: Persist,
    ) -> Result<(), DeviceError> {
        self.check(range)?;
        self.alive()?;
        self.change(range, |_| (!may_trim).then_some([0; 512]));
        self.persist(persist);
        Ok(())
    }
    fn zeroes_are_cheap(&self, _: ByteRange, may_trim: bool) -> bool {
        self.zeroes_are_cheap && may_trim
    }
    fn status(&self, range: ByteRange) -> Result<Extent, DeviceError> {
        self.check(range)?;
        self.alive()?;
        let sectors = self.sectors.lock().unwrap();
        let start = (range.start_bytes / 512) as usize;
        let run = &sectors[start..start + (range.len_bytes / 512) as usize];
        let kind = |sector: &Option<[u8; 512]>| match sector {
            None => Content::Hole,
            Some(bytes) if bytes == &[0; 512] => Content::Zero,
            Some(_) => Content::Data,
        };
        let content = kind(&run[0]);
        let alike = run.iter().take_while(|sector| kind(sector) == content).count();
        Ok(Extent { len_bytes: alike as u64 * 512, content })
    }
}

/// A server and the threads of its clients. Dropping it waits for them.
struct Stand<D = MemoryDevice> {
    server: Arc<Server>,
    device: Arc<D>,
    crew: Crew,
}

impl Stand {
    /// A device of 1 MiB, called `disk`.
    fn new() -> Stand {
        Stand::of(MemoryDevice::of_sectors(2048), |_, _| {})
    }
}

impl<D: BlockDevice + 'static> Stand<D> {
    fn of(device: D, change: impl FnOnce(&mut Export, &mut ServerOptions)) -> Stand<D> {
        let device = Arc::new(device);
        let mut export = Export {
            name: "disk".to_owned(),
            description: "a test's".to_owned(),
            device: Arc::clone(&device) as Arc<dyn BlockDevice>,
            is_read_only: false,
        };
        let mut options = ServerOptions::new(Arc::new(StillClock));
        change(&mut export, &mut options);
        let server = Arc::new(Server::new(export, options).unwrap());
        Stand { server, device, crew: Crew::new() }
    }

    /// A socket whose other end the server serves.
    fn socket(&self) -> UnixStream {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let server = Arc::clone(&self.server);
        self.crew.start("server", move || server.serve_one(theirs)).unwrap();
        ours
    }

    /// A client after the greeting and the client flags.
    fn greeted(&self) -> Client<UnixStream> {
        let mut client = Client::on(self.socket());
        client.greet(3);
        client
    }

    /// A client in the transmission, with all options or with none.
    fn client(&self, structured: bool) -> Client<UnixStream> {
        let mut client = self.greeted();
        client.go(structured);
        client
    }

    fn counts(&self) -> Counts {
        self.server.counts()
    }

    /// Checks that a correct client is still served.
    fn check_alive(&self) {
        let mut client = self.client(true);
        let data = [7; 512];
        client.write(1024, &data).unwrap();
        assert_eq!(client.read(1024, 512).unwrap(), data);
        assert_eq!(self.server.panics(), [""; 0]);
        assert_eq!(self.crew.panics(), [""; 0]);
    }
}

/// A reply to an option: its type and data.
type OptionReply = (u32, Vec<u8>);

/// One end of a connection.
struct Client<S: Read + Write> {
    stream: S,
    structured: bool,
    next_cookie: u64,
}

impl<S: Read + Write> Client<S> {
    fn on(stream: S) -> Client<S> {
        Client { stream, structured: false, next_cookie: 1 }
    }

    fn bytes(&mut self, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        self.stream.read_exact(&mut bytes).unwrap();
        bytes
    }

    fn greet(&mut self, flags: u32) {
        assert_eq!(self.bytes(18), greeting());
        self.send(&flags.to_be_bytes());
    }

    fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).unwrap();
        self.stream.flush().unwrap();
    }

    /// Checks that the server has closed the connection without another byte.
    fn is_closed(&mut self) -> bool {
        let mut byte = [0];
        matches!(self.stream.read(&mut byte), Ok(0) | Err(_))
    }

    fn send_option(&mut self, option: u32, data: &[u8]) {
        self.send(&option_bytes(option, data));
    }

    fn option_reply(&mut self, option: u32) -> OptionReply {
        let head = self.bytes(20);
        let mut fields = Fields(&head);
        assert_eq!(fields.u64(), Some(MAGIC_OPTION_REPLY));
        assert_eq!(fields.u32(), Some(option));
        let (reply, len) = (fields.u32().unwrap(), fields.u32().unwrap());
        (reply, self.bytes(len as usize))
    }

    /// All replies to an option, up to the one that ends it.
    fn option(&mut self, option: u32, data: &[u8]) -> Vec<OptionReply> {
        self.send_option(option, data);
        let mut replies = Vec::new();
        loop {
            let reply = self.option_reply(option);
            let is_last = reply.0 == option_reply::ACK || reply.0 >> 31 == 1;
            replies.push(reply);
            if is_last {
                return replies;
            }
        }
    }

    /// The type of the only reply to an option.
    fn refused(&mut self, option: u32, data: &[u8]) -> u32 {
        let replies = self.option(option, data);
        assert_eq!(replies.len(), 1, "{replies:?}");
        replies[0].0
    }

    fn go(&mut self, structured: bool) {
        if structured {
            assert_eq!(self.refused(option::STRUCTURED_REPLY, &[]), option_reply::ACK);
            let replies =
                self.option(option::SET_META_CONTEXT, &queries("disk", &["base:allocation"]));
            assert_eq!(
                replies[0],
                (option_reply::META_CONTEXT, b"\0\0\0\x01base:allocation".to_vec())
            );
        }
        let replies = self.option(option::GO, &go("disk", &[]));
        assert_eq!(replies.last().unwrap().0, option_reply::ACK);
        self.structured = structured;
    }

    fn request(&mut self, flags: u16, kind: u16, offset_bytes: u64, len_bytes: u32) -> Request {
        let cookie = self.next_cookie;
        self.next_cookie += 1;
        Request { flags, command: kind, cookie, offset_bytes, len_bytes }
    }

    /// Sends a request and waits for its reply.
    fn call(
        &mut self,
        (kind, flags): (u16, u16),
        offset_bytes: u64,
        len_bytes: u32,
        payload: &[u8],
    ) -> Result<Reply, u32> {
        let request = self.request(flags, kind, offset_bytes, len_bytes);
        self.send(&[&request.encode(), payload].concat());
        let (cookie, reply) = self.reply(if kind == command::READ { len_bytes } else { 0 });
        assert_eq!(cookie, request.cookie);
        reply
    }

    /// Reads the next reply and its cookie; a simple reply carries `len_bytes` bytes.
    fn reply(&mut self, len_bytes: u32) -> (u64, Result<Reply, u32>) {
        let magic = Fields(&self.bytes(4)).u32().unwrap();
        if magic == MAGIC_SIMPLE_REPLY {
            let head = self.bytes(12);
            let mut fields = Fields(&head);
            let (error, cookie) = (fields.u32().unwrap(), fields.u64().unwrap());
            assert!(!self.structured, "a simple reply is allowed, but not ours");
            if error != 0 {
                return (cookie, Err(error));
            }
            let data = self.bytes(len_bytes as usize);
            return (cookie, Ok(Reply { data, ..Reply::default() }));
        }
        assert_eq!(magic, MAGIC_STRUCTURED_REPLY);
        self.structured_reply()
    }

    fn structured_reply(&mut self) -> (u64, Result<Reply, u32>) {
        let mut reply = Reply::default();
        loop {
            let head = self.bytes(16);
            let mut fields = Fields(&head);
            let (flags, kind) = (fields.u16().unwrap(), fields.u16().unwrap());
            let (cookie, len) = (fields.u64().unwrap(), fields.u32().unwrap());
            let data = self.bytes(len as usize);
            let mut fields = Fields(&data);
            match kind {
                chunk::NONE => assert_eq!(len, 0),
                chunk::OFFSET_DATA => {
                    reply.chunks.push((fields.u64().unwrap(), true));
                    reply.data.extend_from_slice(fields.0);
                }
                chunk::OFFSET_HOLE => {
                    reply.chunks.push((fields.u64().unwrap(), false));
                    let len = reply.data.len() + fields.u32().unwrap() as usize;
                    reply.data.resize(len, 0);
                }
                chunk::BLOCK_STATUS => {
                    assert_eq!(fields.u32(), Some(1));
                    while let Some(len) = fields.u32() {
                        reply.extents.push((len, fields.u32().unwrap()));
                    }
                }
                chunk::ERROR => {
                    let error = fields.u32().unwrap();
                    let message_len = fields.u16().unwrap();
                    assert_eq!(fields.0.len(), usize::from(message_len));
                    assert!(std::str::from_utf8(fields.0).is_ok_and(|text| !text.is_empty()));
                    assert_eq!(flags, chunk::DONE);
                    return (cookie, Err(error));
                }
                other => panic!("chunk of type {other}"),
            }
            if flags & chunk::DONE != 0 {
                return (cookie, Ok(reply));
            }
            assert_eq!(Fields(&self.bytes(4)).u32(), Some(MAGIC_STRUCTURED_REPLY));
        }
    }

    fn read(&mut self, at_bytes: u64, len_bytes: u32) -> Result<Vec<u8>, u32> {
        self.call((command::READ, 0), at_bytes, len_bytes, &[]).map(|reply| reply.data)
    }

    fn write(&mut self, at_bytes: u64, data: &[u8]) -> Result<Reply, u32> {
        self.call((command::WRITE, 0), at_bytes, data.len() as u32, data)
    }

    /// Sends a request without waiting for its reply; returns its cookie.
    fn begin(&mut self, (kind, flags): (u16, u16), offset_bytes: u64, payload: &[u8]) -> u64 {
        let request = self.request(flags, kind, offset_bytes, payload.len() as u32);
        self.send(&[&request.encode()[..], payload].concat());
        request.cookie
    }

    fn flush(&mut self) -> Result<Reply, u32> {
        self.call((command::FLUSH, 0), 0, 0, &[])
    }
}

/// The content of a reply.
#[derive(Debug, Default, PartialEq, Eq)]
struct Reply {
    data: Vec<u8>,
    /// The offset of each chunk of a read, and whether it had data.
    chunks: Vec<(u64, bool)>,
    extents: Vec<(u32, u32)>,
}

fn option_bytes(option: u32, data: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    bytes.put_u64(MAGIC_OPTION);
    bytes.put_u32(option);
    bytes.put_u32(data.len() as u32);
    bytes.extend_from_slice(data);
    bytes
}

fn put_string(to: &mut Vec<u8>, text: &str) {
    to.put_u32(text.len() as u32);
    to.extend_from_slice(text.as_bytes());
}

/// The data of `GO` and `INFO`.
fn go(name: &str, infos: &[u16]) -> Vec<u8> {
    let mut data = Vec::new();
    put_string(&mut data, name);
    data.put_u16(infos.len() as u16);
    for &info in infos {
        data.put_u16(info);
    }
    data
}

/// The data of the options about contexts.
fn queries(name: &str, queries: &[&str]) -> Vec<u8> {
    let mut data = Vec::new();
    put_string(&mut data, name);
    data.put_u32(queries.len() as u32);
    for query in queries {
        put_string(&mut data, query);
    }
    data
}
