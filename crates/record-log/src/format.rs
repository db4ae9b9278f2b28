#![doc = include_str!("../docs/formats/record_log.md")]

/// The unit of the log: frames begin and end at multiples of it.
pub const BLOCK_LEN_BYTES: usize = 4096;

/// The length of a full frame: long enough that header and checksum cost nothing, short enough that
/// a torn one loses little.
pub const FRAME_LEN_BYTES_DEFAULT: usize = 64 * 1024;

/// The longest frame, which a reader must be able to hold.
pub const FRAME_LEN_BYTES_MAX: usize = 1 << 20;

/// The longest record, in bytes.
pub const RECORD_LEN_BYTES_MAX: u64 = u32::MAX as u64;

/// The greatest length of a record's length field.
pub(crate) const VARINT_LEN_BYTES_MAX: usize = 5;

pub(crate) const FORMAT_VERSION: u16 = 1;
pub(crate) const FLAG_RESTART: u16 = 1;

pub(crate) const MAGIC_BYTES: [u8; 4] = *b"RLOG";
const MAGIC: usize = 0;
const CRC: usize = MAGIC + 4;
const LOG_ID: usize = CRC + 4;
const POSITION: usize = LOG_ID + 8;
const DURABLE_UPTO: usize = POSITION + 8;
const CUT: usize = DURABLE_UPTO + 8;
const PAYLOAD_LEN: usize = CUT + 8;
const FIRST_RECORD: usize = PAYLOAD_LEN + 4;
const INCARNATION: usize = FIRST_RECORD + 4;
const VERSION: usize = INCARNATION + 4;
const FLAGS: usize = VERSION + 2;

/// The start of the payload.
pub(crate) const HEADER_LEN_BYTES: usize = FLAGS + 2;

const _: () = assert!(HEADER_LEN_BYTES == 56);
const _: () = assert!(HEADER_LEN_BYTES < BLOCK_LEN_BYTES);
const _: () = assert!(FRAME_LEN_BYTES_DEFAULT <= FRAME_LEN_BYTES_MAX);
const _: () = assert!(FRAME_LEN_BYTES_MAX.is_multiple_of(BLOCK_LEN_BYTES));

/// The decoded header of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) log_id: u64,
    pub(crate) position_blocks: u64,
    pub(crate) durable_upto_blocks: u64,
    pub(crate) cut_blocks: u64,
    pub(crate) payload_len_bytes: u32,
    pub(crate) first_record: u32,
    pub(crate) incarnation: u32,
    pub(crate) restart: bool,
}

/// The state of a block in which a frame should begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Peek {
    /// Nothing of this log: zeros, another log's bytes, or a frame of another position.
    Foreign,
    /// The header names this log and position, and the length of the frame. Not verified yet.
    Candidate { frame_len_bytes: usize },
    /// The header names this log and position, but an impossible length.
    BadLength { payload_len_bytes: u32 },
}

impl Header {
    /// Writes the header to the start of `frame`, with the checksum of the whole frame.
    pub(crate) fn encode_into(&self, frame: &mut [u8]) {
        assert!(frame.len().is_multiple_of(BLOCK_LEN_BYTES), "a frame is whole blocks");
        assert!(frame.len() <= FRAME_LEN_BYTES_MAX, "a reader holds any frame");
        frame[MAGIC..CRC].copy_from_slice(&MAGIC_BYTES);
        frame[LOG_ID..POSITION].copy_from_slice(&self.log_id.to_le_bytes());
        frame[POSITION..DURABLE_UPTO].copy_from_slice(&self.position_blocks.to_le_bytes());
        frame[DURABLE_UPTO..CUT].copy_from_slice(&self.durable_upto_blocks.to_le_bytes());
        frame[CUT..PAYLOAD_LEN].copy_from_slice(&self.cut_blocks.to_le_bytes());
        frame[PAYLOAD_LEN..FIRST_RECORD].copy_from_slice(&self.payload_len_bytes.to_le_bytes());
        frame[FIRST_RECORD..INCARNATION].copy_from_slice(&self.first_record.to_le_bytes());
        frame[INCARNATION..VERSION].copy_from_slice(&self.incarnation.to_le_bytes());
        frame[VERSION..FLAGS].copy_from_slice(&FORMAT_VERSION.to_le_bytes());
        let flags = if self.restart { FLAG_RESTART } else { 0 };
        frame[FLAGS..HEADER_LEN_BYTES].copy_from_slice(&flags.to_le_bytes());
        let crc = crc32c::crc32c(&frame[LOG_ID..]);
        frame[CRC..LOG_ID].copy_from_slice(&crc.to_le_bytes());
    }

    /// Whether `block` may begin a frame of `log_id` at `position_blocks`. Reads only the header.
    pub(crate) fn peek(block: &[u8], log_id: u64, position_blocks: u64) -> Peek {
        let ours = block.len() >= HEADER_LEN_BYTES
            && block[MAGIC..CRC] == MAGIC_BYTES
            && u64_at(block, LOG_ID) == log_id
            && u64_at(block, POSITION) == position_blocks;
        if !ours {
            return Peek::Foreign;
        }
        let payload_len_bytes = u32_at(block, PAYLOAD_LEN);
        let frame_len_bytes = frame_len_bytes(payload_len_bytes as usize);
        if payload_len_bytes == 0 || frame_len_bytes > FRAME_LEN_BYTES_MAX {
            return Peek::BadLength { payload_len_bytes };
        }
        Peek::Candidate { frame_len_bytes }
    }

    /// Decodes a complete frame that [`Header::peek`] called a candidate. Returns `Ok(None)` if the
    /// checksum does not match, and `Err` with the version if it matches but the version is
    /// unknown.
    pub(crate) fn decode(frame: &[u8]) -> Result<Option<Header>, u16> {
        let stored = u32_at(frame, CRC);
        if crc32c::crc32c(&frame[LOG_ID..]) != stored {
            return Ok(None);
        }
        let version = u16_at(frame, VERSION);
        let flags = u16_at(frame, FLAGS);
        if version != FORMAT_VERSION || flags & !FLAG_RESTART != 0 {
            return Err(version);
        }
        Ok(Some(Header {
            log_id: u64_at(frame, LOG_ID),
            position_blocks: u64_at(frame, POSITION),
            durable_upto_blocks: u64_at(frame, DURABLE_UPTO),
            cut_blocks: u64_at(frame, CUT),
            payload_len_bytes: u32_at(frame, PAYLOAD_LEN),
            first_record: u32_at(frame, FIRST_RECORD),
            incarnation: u32_at(frame, INCARNATION),
            restart: flags & FLAG_RESTART != 0,
        }))
    }
}

/// The id of the log to which `block` belongs, if it begins a frame. Nothing is verified.
pub fn log_id_of(block: &[u8]) -> Option<u64> {
    let is_frame = block.len() >= HEADER_LEN_BYTES && block[MAGIC..CRC] == MAGIC_BYTES;
    is_frame.then(|| u64_at(block, LOG_ID))
}

/// The head of a frame that was found outside of any log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameHead {
    /// The log that the frame belongs to.
    pub log_id: u64,
    /// Its position in that log.
    pub position_blocks: u64,
    /// Its length.
    pub len_blocks: u64,
    /// How often the log had been restarted.
    pub incarnation: u32,
}

impl FrameHead {
    /// The head of the frame that begins with `block`, if one does. Only the head is examined:
    /// [`is_whole_frame`] verifies the frame.
    pub fn of(block: &[u8]) -> Option<FrameHead> {
        let log_id = log_id_of(block)?;
        let position_blocks = u64_at(block, POSITION);
        let Peek::Candidate { frame_len_bytes } = Header::peek(block, log_id, position_blocks)
        else {
            return None;
        };
        let len_blocks = (frame_len_bytes / BLOCK_LEN_BYTES) as u64;
        let incarnation = u32_at(block, INCARNATION);
        Some(FrameHead { log_id, position_blocks, len_blocks, incarnation })
    }
}

/// Whether `frame`, which is as long as its head says, is a frame with a valid checksum.
pub fn is_whole_frame(frame: &[u8]) -> bool {
    FrameHead::of(frame)
        .is_some_and(|head| head.len_blocks as usize * BLOCK_LEN_BYTES == frame.len())
        && matches!(Header::decode(frame), Ok(Some(_)))
}

/// The length of a frame with a payload of `payload_len_bytes`.
pub(crate) fn frame_len_bytes(payload_len_bytes: usize) -> usize {
    (HEADER_LEN_BYTES + payload_len_bytes).next_multiple_of(BLOCK_LEN_BYTES)
}

/// Writes `len` as a varint to `out`, and returns the number of bytes.
pub(crate) fn put_varint(mut len: u64, out: &mut [u8; VARINT_LEN_BYTES_MAX]) -> usize {
    let mut at = 0;
    while len >= 0x80 {
        out[at] = len as u8 | 0x80;
        len >>= 7;
        at += 1;
    }
    out[at] = len as u8;
    at + 1
}

/// The varint at the start of `bytes`, and its length. `Ok(None)` if `bytes` ends inside it; `Err`
/// if it is invalid.
pub(crate) fn take_varint(bytes: &[u8]) -> Result<Option<(u64, usize)>, ()> {
    let mut value = 0u64;
    for (index, &byte) in bytes.iter().take(VARINT_LEN_BYTES_MAX).enumerate() {
        value |= u64::from(byte & 0x7f) << (7 * index);
        if byte & 0x80 == 0 {
            return if value <= RECORD_LEN_BYTES_MAX {
                Ok(Some((value, index + 1)))
            } else {
                Err(())
            };
        }
    }
    if bytes.len() >= VARINT_LEN_BYTES_MAX { Err(()) } else { Ok(None) }
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(std::array::from_fn(|i| bytes[at + i]))
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(std::array::from_fn(|i| bytes[at + i]))
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes(std::array::from_fn(|i| bytes[at + i]))
}
