//! Every number and every layout of the NBD protocol; nothing else here knows one.
//!
//! All integers are big-endian. Source: the NBD protocol, `doc/proto.md` of the reference
//! implementation, version of 2024, without its experimental extensions.
//!
//! ```text
//!   server greets    | NBDMAGIC 8 | IHAVEOPT 8 | handshake flags 2 |
//!   client           | client flags 4 |
//!   option           | IHAVEOPT 8 | option 4 | length 4 | data |
//!   its reply        | magic 8 | option 4 | reply type 4 | length 4 | data |
//!   request          | magic 4 | flags 2 | command 2 | cookie 8 | offset 8 | length 4 | data, of a write |
//!   simple reply     | magic 4 | error 4 | cookie 8 | data, of a read |
//!   structured reply | magic 4 | flags 2 | type 2 | cookie 8 | length 4 | data |   one or more chunks
//! ```

/// The first half of the greeting of every newstyle server.
pub(crate) const MAGIC_SERVER: u64 = u64::from_be_bytes(*b"NBDMAGIC");
/// The second half of the greeting, and the start of every option.
pub(crate) const MAGIC_OPTION: u64 = u64::from_be_bytes(*b"IHAVEOPT");
pub(crate) const MAGIC_OPTION_REPLY: u64 = 0x0003_e889_0455_65a9;
pub(crate) const MAGIC_REQUEST: u32 = 0x2560_9513;
pub(crate) const MAGIC_SIMPLE_REPLY: u32 = 0x6744_6698;
pub(crate) const MAGIC_STRUCTURED_REPLY: u32 = 0x668e_33ef;

pub(crate) const GREETING_LEN_BYTES: usize = 18;
pub(crate) const OPTION_HEADER_LEN_BYTES: usize = 16;
pub(crate) const REQUEST_LEN_BYTES: usize = 28;

/// Handshake flags; both sides use the same values.
pub(crate) const FLAG_FIXED_NEWSTYLE: u16 = 1 << 0;
/// Omit the 124 zeros after the reply to the option `EXPORT_NAME`.
pub(crate) const FLAG_NO_ZEROES: u16 = 1 << 1;
/// The length of the zeros without that flag.
pub(crate) const EXPORT_NAME_ZEROES_LEN_BYTES: usize = 124;

/// Options: requests of a client before the transmission.
pub(crate) mod option {
    pub(crate) const EXPORT_NAME: u32 = 1;
    pub(crate) const ABORT: u32 = 2;
    pub(crate) const LIST: u32 = 3;
    pub(crate) const STARTTLS: u32 = 5;
    pub(crate) const INFO: u32 = 6;
    pub(crate) const GO: u32 = 7;
    pub(crate) const STRUCTURED_REPLY: u32 = 8;
    pub(crate) const LIST_META_CONTEXT: u32 = 9;
    pub(crate) const SET_META_CONTEXT: u32 = 10;
}

/// Replies to options.
pub(crate) mod option_reply {
    pub(crate) const ACK: u32 = 1;
    pub(crate) const SERVER: u32 = 2;
    pub(crate) const INFO: u32 = 3;
    pub(crate) const META_CONTEXT: u32 = 4;
    pub(crate) const ERR_UNSUP: u32 = (1 << 31) + 1;
    pub(crate) const ERR_INVALID: u32 = (1 << 31) + 3;
    pub(crate) const ERR_TLS_REQD: u32 = (1 << 31) + 5;
    pub(crate) const ERR_UNKNOWN: u32 = (1 << 31) + 6;
    pub(crate) const ERR_TOO_BIG: u32 = (1 << 31) + 9;
}

/// Kinds of information about an export in replies to `INFO` and `GO`.
pub(crate) mod info {
    pub(crate) const EXPORT: u16 = 0;
    pub(crate) const NAME: u16 = 1;
    pub(crate) const DESCRIPTION: u16 = 2;
    pub(crate) const BLOCK_SIZE: u16 = 3;
}

/// Transmission flags: the features of an export.
pub(crate) mod transmission {
    pub(crate) const HAS_FLAGS: u16 = 1 << 0;
    pub(crate) const READ_ONLY: u16 = 1 << 1;
    pub(crate) const SEND_FLUSH: u16 = 1 << 2;
    pub(crate) const SEND_FUA: u16 = 1 << 3;
    pub(crate) const ROTATIONAL: u16 = 1 << 4;
    pub(crate) const SEND_TRIM: u16 = 1 << 5;
    pub(crate) const SEND_WRITE_ZEROES: u16 = 1 << 6;
    pub(crate) const SEND_DF: u16 = 1 << 7;
    pub(crate) const CAN_MULTI_CONN: u16 = 1 << 8;
    pub(crate) const SEND_FAST_ZERO: u16 = 1 << 11;
}

/// Commands of the transmission.
pub(crate) mod command {
    pub(crate) const READ: u16 = 0;
    pub(crate) const WRITE: u16 = 1;
    pub(crate) const DISC: u16 = 2;
    pub(crate) const FLUSH: u16 = 3;
    pub(crate) const TRIM: u16 = 4;
    pub(crate) const CACHE: u16 = 5;
    pub(crate) const WRITE_ZEROES: u16 = 6;
    pub(crate) const BLOCK_STATUS: u16 = 7;
}

/// Flags of a command.
pub(crate) mod command_flag {
    /// The data must be durable before the reply.
    pub(crate) const FUA: u16 = 1 << 0;
    /// Zeros must keep their space.
    pub(crate) const NO_HOLE: u16 = 1 << 1;
    /// The reply to a read must be one chunk.
    pub(crate) const DF: u16 = 1 << 2;
    /// The reply has one extent, which does not reach past the request.
    pub(crate) const REQ_ONE: u16 = 1 << 3;
    /// Write zeros only if that is faster than writing data.
    pub(crate) const FAST_ZERO: u16 = 1 << 4;
}

/// Chunks of a structured reply.
pub(crate) mod chunk {
    /// The flag of the last chunk.
    pub(crate) const DONE: u16 = 1 << 0;
    pub(crate) const NONE: u16 = 0;
    pub(crate) const OFFSET_DATA: u16 = 1;
    pub(crate) const OFFSET_HOLE: u16 = 2;
    pub(crate) const BLOCK_STATUS: u16 = 5;
    pub(crate) const ERROR: u16 = (1 << 15) + 1;
}

/// The only supported metadata context.
pub(crate) const CONTEXT_ALLOCATION: &str = "base:allocation";
/// Its namespace; a query of the namespace alone lists all its contexts.
pub(crate) const CONTEXT_NAMESPACE: &str = "base:";
pub(crate) const CONTEXT_ALLOCATION_ID: u32 = 1;
/// Flags of an extent in this context.
pub(crate) const STATE_HOLE: u32 = 1 << 0;
pub(crate) const STATE_ZERO: u32 = 1 << 1;

/// Errors of a command, with the protocol's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum Errno {
    Perm = 1,
    Io = 5,
    Inval = 22,
    NoSpc = 28,
    NotSup = 95,
    Shutdown = 108,
}

/// A request as received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Request {
    pub(crate) flags: u16,
    pub(crate) command: u16,
    /// The client's identifier of the request.
    pub(crate) cookie: u64,
    pub(crate) offset_bytes: u64,
    pub(crate) len_bytes: u32,
}

impl Request {
    /// Decodes the request at the start of `bytes`; `None` if its magic is wrong.
    pub(crate) fn decode(bytes: &[u8; REQUEST_LEN_BYTES]) -> Option<Request> {
        let mut fields = Fields(bytes);
        let magic = fields.u32()?;
        let request = Request {
            flags: fields.u16()?,
            command: fields.u16()?,
            cookie: fields.u64()?,
            offset_bytes: fields.u64()?,
            len_bytes: fields.u32()?,
        };
        (magic == MAGIC_REQUEST).then_some(request)
    }

    #[cfg(test)]
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut to = Vec::new();
        to.put_u32(MAGIC_REQUEST);
        to.put_u16(self.flags);
        to.put_u16(self.command);
        to.put_u64(self.cookie);
        to.put_u64(self.offset_bytes);
        to.put_u32(self.len_bytes);
        to
    }

    /// The number of bytes after the header.
    pub(crate) fn payload_len_bytes(&self) -> u32 {
        if self.command == command::WRITE { self.len_bytes } else { 0 }
    }

    pub(crate) fn has(&self, flag: u16) -> bool {
        self.flags & flag != 0
    }
}

/// The greeting of a server.
pub(crate) fn greeting() -> [u8; GREETING_LEN_BYTES] {
    let mut to = Vec::with_capacity(GREETING_LEN_BYTES);
    to.put_u64(MAGIC_SERVER);
    to.put_u64(MAGIC_OPTION);
    to.put_u16(FLAG_FIXED_NEWSTYLE | FLAG_NO_ZEROES);
    to.try_into().expect("8 + 8 + 2 bytes")
}

/// Appends the reply of type `reply` to option `option`, with its data.
pub(crate) fn put_option_reply(to: &mut Vec<u8>, option: u32, reply: u32, data: &[u8]) {
    to.put_u64(MAGIC_OPTION_REPLY);
    to.put_u32(option);
    to.put_u32(reply);
    to.put_u32(u32::try_from(data.len()).expect("replies are short"));
    to.extend_from_slice(data);
}

/// Appends the head of a simple reply.
pub(crate) fn put_simple_reply(to: &mut Vec<u8>, cookie: u64, error: Option<Errno>) {
    to.put_u32(MAGIC_SIMPLE_REPLY);
    to.put_u32(error.map_or(0, |error| error as u32));
    to.put_u64(cookie);
}

/// Appends the head of a chunk of a structured reply; `len_bytes` bytes follow it.
pub(crate) fn put_chunk(to: &mut Vec<u8>, cookie: u64, flags: u16, kind: u16, len_bytes: usize) {
    to.put_u32(MAGIC_STRUCTURED_REPLY);
    to.put_u16(flags);
    to.put_u16(kind);
    to.put_u64(cookie);
    to.put_u32(u32::try_from(len_bytes).expect("a chunk is no longer than a request"));
}

/// Appends a complete structured reply with an error and its message.
pub(crate) fn put_error_chunk(to: &mut Vec<u8>, cookie: u64, error: Errno, message: &str) {
    // The protocol allows strings of at most 4096 bytes.
    let mut len = message.len().min(4096);
    while !message.is_char_boundary(len) {
        len -= 1;
    }
    let message = &message.as_bytes()[..len];
    put_chunk(to, cookie, chunk::DONE, chunk::ERROR, 6 + message.len());
    to.put_u32(error as u32);
    to.put_u16(u16::try_from(message.len()).expect("cut above"));
    to.extend_from_slice(message);
}

/// Appends integers in the protocol's byte order.
pub(crate) trait Put {
    fn put_u16(&mut self, value: u16);
    fn put_u32(&mut self, value: u32);
    fn put_u64(&mut self, value: u64);
}

impl Put for Vec<u8> {
    fn put_u16(&mut self, value: u16) {
        self.extend_from_slice(&value.to_be_bytes());
    }
    fn put_u32(&mut self, value: u32) {
        self.extend_from_slice(&value.to_be_bytes());
    }
    fn put_u64(&mut self, value: u64) {
        self.extend_from_slice(&value.to_be_bytes());
    }
}

/// Takes integers and strings from unchecked bytes; `None` if the bytes end too early.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fields<'a>(pub(crate) &'a [u8]);

impl<'a> Fields<'a> {
    pub(crate) fn bytes(&mut self, len: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(taken)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.bytes(N)?.try_into().ok()
    }

    pub(crate) fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_be_bytes)
    }

    pub(crate) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_be_bytes)
    }

    pub(crate) fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_be_bytes)
    }

    /// A length of 32 bits, followed by that many bytes of UTF-8.
    pub(crate) fn string(&mut self) -> Option<&'a str> {
        let len = self.u32()?;
        std::str::from_utf8(self.bytes(len as usize)?).ok()
    }

    /// Whether all bytes are taken.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encodings_match_the_protocol() {
        assert_eq!(&greeting(), b"NBDMAGICIHAVEOPT\x00\x03");
        let request = Request {
            flags: command_flag::FUA,
            command: command::WRITE,
            cookie: 0x0102_0304_0506_0708,
            offset_bytes: 512,
            len_bytes: 0x1000,
        };
        let bytes = b"\x25\x60\x95\x13\0\x01\0\x01\x01\x02\x03\x04\x05\x06\x07\x08\
                      \0\0\0\0\0\0\x02\0\0\0\x10\0";
        assert_eq!(request.encode(), bytes);
        assert_eq!(Request::decode(bytes), Some(request));
        let mut other = *bytes;
        other[0] ^= 1;
        assert_eq!(Request::decode(&other), None);

        let mut to = Vec::new();
        put_simple_reply(&mut to, 7, Some(Errno::NoSpc));
        assert_eq!(to, b"\x67\x44\x66\x98\0\0\0\x1c\0\0\0\0\0\0\0\x07");
        to.clear();
        put_option_reply(&mut to, option::GO, option_reply::ERR_UNKNOWN, b"no");
        assert_eq!(to, b"\0\x03\xe8\x89\x04\x55\x65\xa9\0\0\0\x07\x80\0\0\x06\0\0\0\x02no");
        to.clear();
        put_error_chunk(&mut to, 7, Errno::Io, "bad");
        let expected = b"\x66\x8e\x33\xef\0\x01\x80\x01\0\0\0\0\0\0\0\x07\0\0\0\x09\
                         \0\0\0\x05\0\x03bad";
        assert_eq!(to, expected);
    }

    #[test]
    fn fields_never_reach_past_the_bytes() {
        let mut fields = Fields(b"\0\0\0\x02ab\0\0\0\xff");
        assert_eq!(fields.string(), Some("ab"));
        assert_eq!(fields.string(), None, "255 bytes were promised");
        assert_eq!(Fields(b"\0\0\0\x01\xff").string(), None, "no UTF-8");
        assert_eq!(Fields(b"\0").u16(), None);
    }
}
