//! Write batches: operations that take effect together, encoded once, in the bytes that go to the
//! log.
//!
//! ```text
//!   put, delete, delete_range ...          the log, the memtables
//!   | first_seq | op_count | op | op | ...    <- the same bytes; first_seq is filled in at the write
//! ```
//!
//! Invariants
//!   B1  A batch in memory is always a valid encoding: lengths are checked when an operation is added.
//!   B2  Decoding never panics and never reads outside the batch, whatever the bytes.
#![doc = include_str!("../docs/formats/wal_batch.md")]

use crate::EngineError;
use crate::key::{Kind, Seq};

/// The longest key.
pub const KEY_LEN_BYTES_MAX: usize = 65_536;

/// The longest value: 1 GiB.
pub const VALUE_LEN_BYTES_MAX: usize = 1 << 30;

/// The longest batch, encoded; one record of the log has room to spare for it.
pub(crate) const BATCH_LEN_BYTES_MAX: usize = VALUE_LEN_BYTES_MAX + (VALUE_LEN_BYTES_MAX >> 1);

const FORMAT_VERSION: u8 = 1;
const OP_COUNT: usize = 8;
const OPS: usize = OP_COUNT + 4;
const VARINT_LEN_MAX: usize = 5;
const OP_HEAD_LEN_MAX: usize = 1 + 2 * VARINT_LEN_MAX;

/// The number of a keyspace in its store; never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyspaceId(pub u32);

impl AsRef<KeyspaceId> for KeyspaceId {
    fn as_ref(&self) -> &KeyspaceId {
        self
    }
}

/// Operations on keyspaces of one store. They take effect together, in the order in which they were
/// added, or not at all.
#[derive(Clone, PartialEq, Eq)]
pub struct WriteBatch {
    /// Always starts with a header.
    bytes: Vec<u8>,
    op_count: u32,
}

impl Default for WriteBatch {
    fn default() -> WriteBatch {
        WriteBatch::new()
    }
}

impl std::fmt::Debug for WriteBatch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.view().ops().map(|(_, op)| op)).finish()
    }
}

impl WriteBatch {
    /// An empty batch.
    pub fn new() -> WriteBatch {
        WriteBatch { bytes: header(Seq(0), 0).to_vec(), op_count: 0 }
    }

    /// Adds a put: `key` has `value` from now on.
    ///
    /// # Errors
    /// [`EngineError::KeyLen`], [`EngineError::ValueLen`], [`EngineError::BatchLen`]; nothing was
    /// added then.
    pub fn put(
        &mut self,
        keyspace: impl AsRef<KeyspaceId>,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
    ) -> Result<(), EngineError> {
        let (key, value) = (key.as_ref(), value.as_ref());
        check_key(key)?;
        check_value(value)?;
        self.add(*keyspace.as_ref(), Kind::Put, key, Some(value))
    }

    /// Adds a delete: `key` has no value from now on.
    ///
    /// # Errors
    /// [`EngineError::KeyLen`], [`EngineError::BatchLen`]; nothing was added then.
    pub fn delete(
        &mut self,
        keyspace: impl AsRef<KeyspaceId>,
        key: impl AsRef<[u8]>,
    ) -> Result<(), EngineError> {
        check_key(key.as_ref())?;
        self.add(*keyspace.as_ref(), Kind::Delete, key.as_ref(), None)
    }

    /// Adds a range delete: no key in `start..end` has a value from now on. Costs as much as one
    /// delete.
    ///
    /// An empty range (`start == end`) adds nothing.
    ///
    /// # Errors
    /// [`EngineError::KeyLen`], [`EngineError::RangeOrder`], [`EngineError::BatchLen`]; nothing was
    /// added then.
    pub fn delete_range(
        &mut self,
        keyspace: impl AsRef<KeyspaceId>,
        start: impl AsRef<[u8]>,
        end: impl AsRef<[u8]>,
    ) -> Result<(), EngineError> {
        let (start, end) = (start.as_ref(), end.as_ref());
        if !check_range(start, end)? {
            return Ok(());
        }
        self.add(*keyspace.as_ref(), Kind::RangeDelete, start, Some(end))
    }

    /// The number of operations.
    pub fn len(&self) -> usize {
        self.op_count as usize
    }

    /// Whether the batch has no operations.
    pub fn is_empty(&self) -> bool {
        self.op_count == 0
    }

    /// The length of the batch in the log.
    pub fn len_bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Removes all operations and keeps the memory for new ones.
    pub fn clear(&mut self) {
        self.bytes.truncate(OPS);
        self.bytes.copy_from_slice(&header(Seq(0), 0));
        self.op_count = 0;
    }

    /// The bytes for the log, with `first_seq` as the number of the first operation; the others
    /// follow it.
    pub(crate) fn encode(&mut self, first_seq: Seq) -> &[u8] {
        let header = header(first_seq, self.op_count);
        self.bytes[..OPS].copy_from_slice(&header);
        &self.bytes
    }

    /// The batch as a reader sees it.
    pub(crate) fn view(&self) -> BatchView<'_> {
        let first = self.bytes.first_chunk().expect("B1: a batch starts with its header");
        let first_seq = Seq(u64::from_le_bytes(*first) >> 8);
        BatchView { first_seq, op_count: self.op_count, bytes: &self.bytes }
    }

    fn add(
        &mut self,
        keyspace: KeyspaceId,
        kind: Kind,
        key: &[u8],
        value: Option<&[u8]>,
    ) -> Result<(), EngineError> {
        let len_bytes = self.bytes.len() + key.len() + value.map_or(0, <[u8]>::len) + 32;
        if len_bytes > BATCH_LEN_BYTES_MAX || self.op_count == u32::MAX {
            return Err(EngineError::BatchLen { max_bytes: BATCH_LEN_BYTES_MAX });
        }
        let mut head = [0; OP_HEAD_LEN_MAX];
        let head_len = put_op_head(&mut head, 0, keyspace, kind, key);
        self.bytes.extend_from_slice(&head[..head_len]);
        self.bytes.extend_from_slice(key);
        if let Some(value) = value {
            let mut value_len = [0; VARINT_LEN_MAX];
            let value_len_len = put_varint(&mut value_len, 0, len_of(value));
            self.bytes.extend_from_slice(&value_len[..value_len_len]);
            self.bytes.extend_from_slice(value);
        }
        self.op_count += 1;
        Ok(())
    }
}

/// One operation as a log record in pieces: what a single put or delete writes, without a batch and
/// without an allocation. The caller has checked the lengths.
#[derive(Debug)]
pub(crate) struct SingleOp<'a> {
    head: [u8; OPS + OP_HEAD_LEN_MAX],
    head_len: usize,
    key: &'a [u8],
    value_len: [u8; VARINT_LEN_MAX],
    value_len_len: usize,
    value: &'a [u8],
}

impl<'a> SingleOp<'a> {
    /// An operation of `kind` with its key, and its value if the kind has one.
    pub(crate) fn new(
        seq: Seq,
        keyspace: KeyspaceId,
        kind: Kind,
        key: &'a [u8],
        value: &'a [u8],
    ) -> SingleOp<'a> {
        let mut head = [0; OPS + OP_HEAD_LEN_MAX];
        head[..OPS].copy_from_slice(&header(seq, 1));
        let head_len = put_op_head(&mut head, OPS, keyspace, kind, key);
        let mut value_len = [0; VARINT_LEN_MAX];
        let value_len_len = match kind {
            Kind::Delete => 0,
            Kind::Put | Kind::PutAt | Kind::PutApart | Kind::RangeDelete => {
                put_varint(&mut value_len, 0, len_of(value))
            }
        };
        SingleOp { head, head_len, key, value_len, value_len_len, value }
    }

    /// Where in the record the value begins.
    pub(crate) fn value_offset(&self) -> u64 {
        (self.head_len + self.key.len() + self.value_len_len) as u64
    }

    /// The record's pieces, in order.
    pub(crate) fn parts(&self) -> [&[u8]; 4] {
        let value_len = &self.value_len[..self.value_len_len];
        [&self.head[..self.head_len], self.key, value_len, self.value]
    }
}

/// Checks that `key` is a valid key.
pub(crate) fn check_key(key: &[u8]) -> Result<(), EngineError> {
    if key.is_empty() || key.len() > KEY_LEN_BYTES_MAX {
        return Err(EngineError::KeyLen { got_bytes: key.len(), max_bytes: KEY_LEN_BYTES_MAX });
    }
    Ok(())
}

/// Checks that `value` is a valid value.
pub(crate) fn check_value(value: &[u8]) -> Result<(), EngineError> {
    if value.len() > VALUE_LEN_BYTES_MAX {
        let got_bytes = value.len();
        return Err(EngineError::ValueLen { got_bytes, max_bytes: VALUE_LEN_BYTES_MAX });
    }
    Ok(())
}

/// Checks that `start..end` is a valid range of keys; returns whether any key can be in it.
pub(crate) fn check_range(start: &[u8], end: &[u8]) -> Result<bool, EngineError> {
    check_key(start)?;
    check_key(end)?;
    if start > end {
        return Err(EngineError::RangeOrder { start: start.to_vec(), end: end.to_vec() });
    }
    Ok(start < end)
}

/// An operation of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Op<'a> {
    pub(crate) keyspace: KeyspaceId,
    pub(crate) kind: Kind,
    /// The key; the first key of a range delete.
    pub(crate) key: &'a [u8],
    /// The value; the end of a range delete; empty for a delete.
    pub(crate) value: &'a [u8],
    /// Where in the batch's bytes the value begins.
    pub(crate) value_offset: u64,
}

/// Why some bytes are not a batch: the position, and what is wrong there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BatchDamage {
    pub(crate) offset: usize,
    pub(crate) reason: &'static str,
}

/// A batch by reference, with its header decoded and every operation checked.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BatchView<'a> {
    first_seq: Seq,
    op_count: u32,
    bytes: &'a [u8],
}

impl<'a> BatchView<'a> {
    /// Reads a record of the log (B2). Cost: one pass over the operations' heads.
    pub(crate) fn decode(bytes: &'a [u8]) -> Result<BatchView<'a>, BatchDamage> {
        let damage = |offset, reason| Err(BatchDamage { offset, reason });
        let (Some(word), Some(count)) =
            (bytes.first_chunk(), bytes.get(OP_COUNT..).and_then(<[u8]>::first_chunk))
        else {
            return damage(0, "shorter than a batch's header");
        };
        let (word, op_count) = (u64::from_le_bytes(*word), u32::from_le_bytes(*count));
        if word as u8 != FORMAT_VERSION {
            return damage(0, "not a batch of format version 1");
        }
        if op_count == 0 {
            return damage(OP_COUNT, "no operations");
        }
        let first_seq = Seq(word >> 8);
        if first_seq.0 + u64::from(op_count) - 1 > Seq::MAX.0 {
            return damage(0, "sequence numbers beyond 2^56");
        }
        let mut reader = Reader { bytes, at: OPS };
        for _ in 0..op_count {
            reader.op()?;
        }
        if reader.at != bytes.len() {
            return damage(reader.at, "bytes after the last operation");
        }
        Ok(BatchView { first_seq, op_count, bytes })
    }

    pub(crate) fn first_seq(&self) -> Seq {
        self.first_seq
    }

    pub(crate) fn op_count(&self) -> u32 {
        self.op_count
    }

    /// The operations with their sequence numbers, in order.
    pub(crate) fn ops(&self) -> impl Iterator<Item = (Seq, Op<'a>)> + use<'a> {
        let mut reader = Reader { bytes: self.bytes, at: OPS };
        let first = self.first_seq.0;
        (0..u64::from(self.op_count))
            .map_while(move |index| reader.op().ok().map(|op| (Seq(first + index), op)))
    }
}

fn header(first_seq: Seq, op_count: u32) -> [u8; OPS] {
    let mut header = [0; OPS];
    let word = first_seq.0 << 8 | u64::from(FORMAT_VERSION);
    header[..OP_COUNT].copy_from_slice(&word.to_le_bytes());
    header[OP_COUNT..].copy_from_slice(&op_count.to_le_bytes());
    header
}

/// Writes the bytes before an operation's key; returns where they end in `out`.
#[inline]
fn put_op_head(
    out: &mut [u8],
    mut at: usize,
    keyspace: KeyspaceId,
    kind: Kind,
    key: &[u8],
) -> usize {
    out[at] = kind as u8;
    at = put_varint(out, at + 1, keyspace.0);
    put_varint(out, at, len_of(key))
}

/// Writes LEB128; returns where it ends in `out`.
#[inline]
fn put_varint(out: &mut [u8], mut at: usize, mut value: u32) -> usize {
    while value >= 0x80 {
        out[at] = value as u8 | 0x80;
        value >>= 7;
        at += 1;
    }
    out[at] = value as u8;
    at + 1
}

fn len_of(bytes: &[u8]) -> u32 {
    u32::try_from(bytes.len()).expect("B1: lengths are checked before they are encoded")
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    fn op(&mut self) -> Result<Op<'a>, BatchDamage> {
        let offset = self.at;
        let damage = |reason| BatchDamage { offset, reason };
        let kind = self.take(1)?[0];
        let kind = Kind::from_u8(kind).ok_or(damage("unknown kind of operation"))?;
        let keyspace = KeyspaceId(self.varint()?);
        let key = self.key()?;
        let value = match kind {
            Kind::Put => {
                let len = self.varint()? as usize;
                if len > VALUE_LEN_BYTES_MAX {
                    return Err(damage("value longer than 1 GiB"));
                }
                self.take(len)?
            }
            Kind::Delete => &[],
            Kind::RangeDelete => self.key()?,
            Kind::PutAt | Kind::PutApart => return Err(damage("unknown kind of operation")),
        };
        if kind == Kind::RangeDelete && key >= value {
            return Err(damage("range that does not end after its start"));
        }
        let value_offset = (self.at - value.len()) as u64;
        Ok(Op { keyspace, kind, key, value, value_offset })
    }

    fn key(&mut self) -> Result<&'a [u8], BatchDamage> {
        let offset = self.at;
        let len = self.varint()? as usize;
        if len == 0 || len > KEY_LEN_BYTES_MAX {
            return Err(BatchDamage { offset, reason: "key of 0 or more than 65536 bytes" });
        }
        self.take(len)
    }

    fn varint(&mut self) -> Result<u32, BatchDamage> {
        let offset = self.at;
        let mut value = 0_u64;
        for shift in [0, 7, 14, 21, 28] {
            let byte = self.take(1)?[0];
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                let reason = "integer beyond 2^32";
                return u32::try_from(value).map_err(|_| BatchDamage { offset, reason });
            }
        }
        Err(BatchDamage { offset, reason: "integer of more than 5 bytes" })
    }

    fn take(&mut self, len: usize) -> Result<&'a [u8], BatchDamage> {
        let rest = &self.bytes[self.at..];
        let (taken, _) = rest
            .split_at_checked(len)
            .ok_or(BatchDamage { offset: self.at, reason: "operation cut short" })?;
        self.at += len;
        Ok(taken)
    }
}

#[cfg(test)]
mod tests;
