//! The tree's records, byte by byte: see `docs/formats/filesystem.md`, which opens this crate.

use crate::tree::{Change, NodeId, SegmentRecord, StoreId};
use imbrex_files::FileKind;

const MAGIC: [u8; 4] = *b"IXFS";
/// The format version that this program writes, and the highest it knows.
pub(crate) const FORMAT_VERSION: u16 = 1;
const KIND: usize = 6;
const NEXT_ID: usize = 8;
const BODY_LEN: usize = 16;
const CRC: usize = 20;
/// The offset of the changes.
pub(crate) const HEADER_LEN_BYTES: usize = 24;

const MAKE_DIR: u8 = 1;
const REMOVE_DIR: u8 = 2;
const CREATE: u8 = 3;
const LINK: u8 = 4;
const UNLINK: u8 = 5;
const RENAME: u8 = 6;
const SET_BODY: u8 = 7;

const INLINE: u8 = 1;
const TABLE: u8 = 2;
const LOG: u8 = 3;
const OPEN_LOG: u8 = 4;

/// How a record relates to those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum RecordKind {
    /// More changes.
    Edit = 1,
    /// The whole tree.
    Snapshot = 2,
}

/// A decoded record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TreeRecord {
    pub(crate) kind: RecordKind,
    pub(crate) next_id: u64,
    pub(crate) changes: Vec<Change>,
}

/// Why bytes are not a valid record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Malformed {
    /// Not a record of the tree.
    Foreign,
    /// Written by a newer program.
    Version { got: u16 },
    /// Damaged, at an offset.
    At { offset: usize, reason: &'static str },
}

/// Encodes a record of `changes`.
pub(crate) fn encode(kind: RecordKind, next_id: u64, changes: &[Change]) -> Vec<u8> {
    let mut body = Vec::with_capacity(changes.len() * 64);
    changes.iter().for_each(|change| put_change(&mut body, change));
    encode_body(kind, next_id, &body)
}

/// Encodes a record of the changes in `body`, which [`put_change`] encoded.
pub(crate) fn encode_body(kind: RecordKind, next_id: u64, body: &[u8]) -> Vec<u8> {
    let body_len = u32::try_from(body.len());
    let body_len = body_len.expect("a tree, and what is pending, is shorter than a catalog");
    let mut out = Vec::with_capacity(HEADER_LEN_BYTES + body.len());
    out.extend_from_slice(&MAGIC);
    out.extend_from_slice(&FORMAT_VERSION.to_le_bytes());
    out.extend_from_slice(&[kind as u8, 0]);
    out.extend_from_slice(&next_id.to_le_bytes());
    out.extend_from_slice(&body_len.to_le_bytes());
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(body);
    let crc = checksum(&out);
    out[CRC..HEADER_LEN_BYTES].copy_from_slice(&crc.to_le_bytes());
    out
}

fn checksum(record: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&record[..CRC]), &record[HEADER_LEN_BYTES..])
}

fn put_path(out: &mut Vec<u8>, path: &str) {
    let len = u16::try_from(path.len()).expect("`path::check_len` keeps every key at 4096 bytes");
    out.extend_from_slice(&len.to_le_bytes());
    out.extend_from_slice(path.as_bytes());
}

/// Appends the encoded `change` to `out`.
pub(crate) fn put_change(out: &mut Vec<u8>, change: &Change) {
    match change {
        Change::MakeDir { path } => {
            out.push(MAKE_DIR);
            put_path(out, path);
        }
        Change::RemoveDir { path } => {
            out.push(REMOVE_DIR);
            put_path(out, path);
        }
        Change::Create { path, node, kind, mtime_s } => {
            out.push(CREATE);
            out.extend_from_slice(&node.0.to_le_bytes());
            out.extend_from_slice(&mtime_s.to_le_bytes());
            out.push(kind_number(*kind));
            put_path(out, path);
        }
        Change::Link { path, node } => {
            out.push(LINK);
            out.extend_from_slice(&node.0.to_le_bytes());
            put_path(out, path);
        }
        Change::Unlink { path } => {
            out.push(UNLINK);
            put_path(out, path);
        }
        Change::Rename { from, to } => {
            out.push(RENAME);
            put_path(out, from);
            put_path(out, to);
        }
        Change::SetBody { node, mtime_s, segments } => {
            out.push(SET_BODY);
            out.extend_from_slice(&node.0.to_le_bytes());
            out.extend_from_slice(&mtime_s.to_le_bytes());
            let count = u16::try_from(segments.len());
            let count = count.expect("`NodeState::check_pieces` keeps them below 65,536");
            out.extend_from_slice(&count.to_le_bytes());
            segments.iter().for_each(|segment| put_segment(out, segment));
        }
    }
}

fn put_segment(out: &mut Vec<u8>, segment: &SegmentRecord) {
    let mut stored = |kind: u8, store: StoreId, len_bytes: Option<u64>| {
        out.push(kind);
        out.extend_from_slice(&store.0.to_le_bytes());
        if let Some(len_bytes) = len_bytes {
            out.extend_from_slice(&len_bytes.to_le_bytes());
        }
    };
    match segment {
        SegmentRecord::Inline(bytes) => {
            out.push(INLINE);
            out.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
            out.extend_from_slice(bytes);
        }
        SegmentRecord::Table { store, len_bytes } => stored(TABLE, *store, Some(*len_bytes)),
        SegmentRecord::Log { store, len_bytes: None } => stored(OPEN_LOG, *store, None),
        SegmentRecord::Log { store, len_bytes } => stored(LOG, *store, *len_bytes),
    }
}

fn kind_number(kind: FileKind) -> u8 {
    match kind {
        FileKind::Log => 1,
        FileKind::Table => 2,
        FileKind::Metadata => 3,
        FileKind::Other => 4,
    }
}

/// Decodes a record. Never panics.
pub(crate) fn decode(bytes: &[u8]) -> Result<TreeRecord, Malformed> {
    if bytes.get(..4) != Some(&MAGIC) {
        return Err(Malformed::Foreign);
    }
    let at = |offset, reason| Malformed::At { offset, reason };
    if bytes.len() < HEADER_LEN_BYTES {
        return Err(at(bytes.len(), "shorter than its header"));
    }
    let mut header = Cursor { bytes, at: 4 };
    let got = header.u16()?;
    if got != FORMAT_VERSION {
        return Err(Malformed::Version { got });
    }
    let kind = match (bytes[KIND], bytes[KIND + 1]) {
        (1, 0) => RecordKind::Edit,
        (2, 0) => RecordKind::Snapshot,
        _ => return Err(at(KIND, "no kind of record")),
    };
    header.at = NEXT_ID;
    let next_id = header.u64()?;
    if header.u32()? as usize != bytes.len() - HEADER_LEN_BYTES {
        return Err(at(BODY_LEN, "not as long as it says"));
    }
    if header.u32()? != checksum(bytes) {
        return Err(at(CRC, "its checksum does not match"));
    }
    let mut body = Cursor { bytes, at: HEADER_LEN_BYTES };
    let mut changes = Vec::new();
    while body.at < bytes.len() {
        changes.push(body.change()?);
    }
    Ok(TreeRecord { kind, next_id, changes })
}

struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    fn bad(&self, reason: &'static str) -> Malformed {
        Malformed::At { offset: self.at, reason }
    }

    fn take(&mut self, len: usize) -> Result<&'a [u8], Malformed> {
        let end = self.at.checked_add(len).filter(|&end| end <= self.bytes.len());
        let end = end.ok_or_else(|| self.bad("it ends in the middle of a change"))?;
        let taken = &self.bytes[self.at..end];
        self.at = end;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        Ok(self.take(N)?.try_into().expect("as many bytes as were asked for"))
    }

    fn u8(&mut self) -> Result<u8, Malformed> {
        Ok(self.array::<1>()?[0])
    }

    fn u16(&mut self) -> Result<u16, Malformed> {
        Ok(u16::from_le_bytes(self.array()?))
    }

    fn u32(&mut self) -> Result<u32, Malformed> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    fn u64(&mut self) -> Result<u64, Malformed> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    fn path(&mut self) -> Result<String, Malformed> {
        let len = usize::from(self.u16()?);
        let bytes = self.take(len)?;
        let text = std::str::from_utf8(bytes).map_err(|_| self.bad("a path that is no UTF-8"))?;
        if text.split('/').any(|part| part.is_empty() || part == "." || part == "..") {
            return Err(self.bad("a path with an empty or dotted component"));
        }
        Ok(text.to_owned())
    }

    fn change(&mut self) -> Result<Change, Malformed> {
        Ok(match self.u8()? {
            MAKE_DIR => Change::MakeDir { path: self.path()? },
            REMOVE_DIR => Change::RemoveDir { path: self.path()? },
            CREATE => {
                let (node, mtime_s) = (NodeId(self.u64()?), self.u64()?);
                let kind = match self.u8()? {
                    1 => FileKind::Log,
                    2 => FileKind::Table,
                    3 => FileKind::Metadata,
                    4 => FileKind::Other,
                    _ => return Err(self.bad("no kind of file")),
                };
                Change::Create { path: self.path()?, node, kind, mtime_s }
            }
            LINK => {
                let node = NodeId(self.u64()?);
                Change::Link { path: self.path()?, node }
            }
            UNLINK => Change::Unlink { path: self.path()? },
            RENAME => Change::Rename { from: self.path()?, to: self.path()? },
            SET_BODY => {
                let (node, mtime_s) = (NodeId(self.u64()?), self.u64()?);
                let count = self.u16()?;
                let segments = (0..count).map(|_| self.segment()).collect::<Result<_, _>>()?;
                Change::SetBody { node, mtime_s, segments }
            }
            _ => return Err(self.bad("no kind of change")),
        })
    }

    fn segment(&mut self) -> Result<SegmentRecord, Malformed> {
        let kind = self.u8()?;
        if kind == INLINE {
            let len = self.u32()? as usize;
            return Ok(SegmentRecord::Inline(self.take(len)?.to_vec()));
        }
        let store = StoreId(self.u64()?);
        match kind {
            TABLE => Ok(SegmentRecord::Table { store, len_bytes: self.u64()? }),
            LOG => Ok(SegmentRecord::Log { store, len_bytes: Some(self.u64()?) }),
            OPEN_LOG => Ok(SegmentRecord::Log { store, len_bytes: None }),
            _ => Err(self.bad("no kind of segment")),
        }
    }
}
