//! A data block: entries in internal-key order, with restart points for searches.
//!
//! ```text
//!   entry | entry | ... | restart offsets | tail
//!   entry   = shared | unshared | value length | packed trailer | key suffix | value
//!             (the first four are varints; the key is `shared` bytes of the key before, then the suffix)
//!   restart = offset of an entry with shared = 0; u16, or u32 in a wide block
//!   tail    = u32: number of restarts; top bit set in a wide block
//! ```
//!
//! A *dense* block has a restart at every entry: keys are used in place, nothing is copied, and a
//! search never scans. A block is dense unless sharing prefixes would save an eighth of its bytes.
//!
//! Invariants
//!   T1  Entries ascend strictly in internal-key order.
//!   T2  The first entry is a restart; restart offsets ascend strictly.

use super::varint::{put_varint, read_len, read_varint};
use crate::key::{InternalKey, Kind, Seq, Trailer};
use std::cmp::Ordering;

/// The number of entries between two restarts in a block that shares prefixes. The value is
/// LevelDB's; a search then scans 8 entries on average.
const RESTART_INTERVAL_ENTRIES: usize = 16;
const WIDE: u32 = 1 << 31;
const TAIL_LEN_BYTES: usize = 4;

/// The number of leading bytes that two keys share.
#[inline]
pub(crate) fn shared_len(a: &[u8], b: &[u8]) -> usize {
    let mut at = 0;
    while let (Some(x), Some(y)) = (a[at..].first_chunk(), b[at..].first_chunk()) {
        let differing = u64::from_le_bytes(*x) ^ u64::from_le_bytes(*y);
        if differing != 0 {
            return at + differing.trailing_zeros() as usize / 8;
        }
        at += 8;
    }
    at + a[at..].iter().zip(&b[at..]).take_while(|(x, y)| x == y).count()
}

/// Compares user keys like slices, but decides most cases by eight bytes, without a call.
#[inline]
pub(crate) fn compare_user_keys(a: &[u8], b: &[u8]) -> Ordering {
    if let (Some(x), Some(y)) = (a.first_chunk(), b.first_chunk()) {
        let (x, y) = (u64::from_be_bytes(*x), u64::from_be_bytes(*y));
        if x != y {
            return x.cmp(&y);
        }
    }
    a.cmp(b)
}

/// Compares internal keys.
#[inline]
pub(crate) fn compare_keys(a: InternalKey<'_>, b: InternalKey<'_>) -> Ordering {
    compare_user_keys(a.user_key, b.user_key).then_with(|| b.trailer.cmp(&a.trailer))
}

/// The trailer in its stored form. The kind takes only three bits, so that sequence numbers make
/// shorter varints.
#[inline]
pub(crate) fn pack_trailer(trailer: Trailer) -> u64 {
    (trailer.0 >> 8) << 3 | trailer.0 & 7
}

#[inline]
fn unpack_trailer(packed: u64) -> Option<Trailer> {
    let kind = Kind::from_u8((packed & 7) as u8)?;
    let seq = Seq(packed >> 3);
    if seq > Seq::MAX || kind == Kind::RangeDelete {
        return None;
    }
    Some(Trailer::new(seq, kind))
}

/// Collects the entries of one block after another.
#[derive(Debug, Default)]
pub(crate) struct BlockBuilder {
    buf: Vec<u8>,
    restarts: Vec<u32>,
    entries_since_restart: usize,
    shares_prefixes: bool,
    /// The bytes that sharing prefixes saves, or would save.
    shared_len_bytes: usize,
}

impl BlockBuilder {
    /// Adds an entry whose key has its first `shared` bytes in common with the previous key.
    #[inline]
    pub(crate) fn add(&mut self, user_key: &[u8], shared: usize, trailer: Trailer, value: &[u8]) {
        let mut stored_shared = 0;
        let first = self.restarts.is_empty();
        if !first {
            self.shared_len_bytes += shared;
        }
        let restart_due = self.entries_since_restart == RESTART_INTERVAL_ENTRIES;
        if !self.shares_prefixes || first || restart_due {
            self.restarts.push(self.buf.len() as u32);
            self.entries_since_restart = 0;
        } else {
            stored_shared = shared;
        }
        self.entries_since_restart += 1;
        let suffix = &user_key[stored_shared..];
        put_varint(&mut self.buf, stored_shared as u64);
        put_varint(&mut self.buf, suffix.len() as u64);
        put_varint(&mut self.buf, value.len() as u64);
        put_varint(&mut self.buf, pack_trailer(trailer));
        self.buf.extend_from_slice(suffix);
        self.buf.extend_from_slice(value);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.buf.is_empty()
    }

    /// The length that the block would have if it were finished now.
    #[inline]
    pub(crate) fn len_bytes(&self) -> usize {
        self.buf.len() + 2 * self.restarts.len() + TAIL_LEN_BYTES
    }

    /// Completes the block and returns its bytes. [`BlockBuilder::clear`] starts the next block.
    pub(crate) fn finish(&mut self) -> &[u8] {
        let entries_len_bytes = self.buf.len();
        let wide = self.restarts.last().is_some_and(|&last| last > u32::from(u16::MAX));
        for &restart in &self.restarts {
            if wide {
                self.buf.extend_from_slice(&restart.to_le_bytes());
            } else {
                self.buf.extend_from_slice(&(restart as u16).to_le_bytes());
            }
        }
        let tail = self.restarts.len() as u32 | if wide { WIDE } else { 0 };
        self.buf.extend_from_slice(&tail.to_le_bytes());
        // Adjacent blocks are alike, so the keys of this block decide the form of the next one.
        let raw_len_bytes = match self.shares_prefixes {
            true => entries_len_bytes + self.shared_len_bytes,
            false => entries_len_bytes,
        };
        self.shares_prefixes = self.shared_len_bytes * 8 >= raw_len_bytes;
        &self.buf
    }

    pub(crate) fn clear(&mut self) {
        self.buf.clear();
        self.restarts.clear();
        self.entries_since_restart = 0;
        self.shared_len_bytes = 0;
    }
}

/// A defect found while reading a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Damage(pub(crate) &'static str);

const CUT_ENTRY: Damage = Damage("an entry is cut off");
const BAD_TRAILER: Damage = Damage("an entry has an impossible sequence number or kind");
const BAD_SHARED: Damage = Damage("an entry shares more of its key than there is");
const BAD_RESTART: Damage = Damage("a restart point is not at an entry");
const BAD_TAIL: Damage = Damage("the restart points do not fit into the block");

/// The positions of the parts of a block.
#[derive(Clone, Copy, Debug, Default)]
struct Layout {
    entries_end: usize,
    restart_count: usize,
    wide: bool,
}

impl Layout {
    #[inline]
    fn parse(block: &[u8]) -> Result<Layout, Damage> {
        let (rest, tail) = block.split_last_chunk::<TAIL_LEN_BYTES>().ok_or(BAD_TAIL)?;
        let tail = u32::from_le_bytes(*tail);
        let wide = tail & WIDE != 0;
        let restart_count = (tail & !WIDE) as usize;
        let restarts_len_bytes = restart_count * if wide { 4 } else { 2 };
        let entries_end = rest.len().checked_sub(restarts_len_bytes).ok_or(BAD_TAIL)?;
        if restart_count == 0 || entries_end == 0 {
            return Err(BAD_TAIL);
        }
        Ok(Layout { entries_end, restart_count, wide })
    }

    #[inline]
    fn restart(&self, block: &[u8], index: usize) -> usize {
        if self.wide {
            let at = self.entries_end + 4 * index;
            block[at..].first_chunk().map_or(usize::MAX, |c| u32::from_le_bytes(*c) as usize)
        } else {
            let at = self.entries_end + 2 * index;
            block[at..].first_chunk().map_or(usize::MAX, |c| u16::from_le_bytes(*c).into())
        }
    }
}

/// The decoded head of an entry.
#[derive(Clone, Copy, Debug)]
struct EntryHead {
    shared: usize,
    trailer: Trailer,
    suffix_at: usize,
    value_at: usize,
    end: usize,
}

#[inline]
fn read_entry(entries: &[u8], offset: usize) -> Result<EntryHead, Damage> {
    let mut at = offset;
    let shared = read_len(entries, &mut at).ok_or(CUT_ENTRY)?;
    let unshared = read_len(entries, &mut at).ok_or(CUT_ENTRY)?;
    let value_len_bytes = read_len(entries, &mut at).ok_or(CUT_ENTRY)?;
    let packed = read_varint(entries, &mut at).ok_or(CUT_ENTRY)?;
    let trailer = unpack_trailer(packed).ok_or(BAD_TRAILER)?;
    let value_at = at.checked_add(unshared).ok_or(CUT_ENTRY)?;
    let end = value_at.checked_add(value_len_bytes).ok_or(CUT_ENTRY)?;
    if end > entries.len() {
        return Err(CUT_ENTRY);
    }
    Ok(EntryHead { shared, trailer, suffix_at: at, value_at, end })
}

/// A cursor within a block. The caller passes the block's bytes to each call, which leaves the
/// caller free in how it holds both. All calls after `open` must receive the same bytes.
#[derive(Debug)]
pub(crate) struct BlockCursor {
    layout: Layout,
    valid: bool,
    entry_at: usize,
    entry_end: usize,
    value_at: usize,
    trailer: Trailer,
    /// Where the entry's key suffix starts. If the entry shares no bytes, this is its whole key.
    key_at: usize,
    key_is_built: bool,
    /// The key assembled from its parts, if `key_is_built`.
    built_key: Vec<u8>,
    /// A restart at or before the entry. A move backward starts its search here.
    restart_hint: usize,
}

impl Default for BlockCursor {
    fn default() -> BlockCursor {
        BlockCursor {
            layout: Layout::default(),
            valid: false,
            entry_at: 0,
            entry_end: 0,
            value_at: 0,
            trailer: Trailer(0),
            key_at: 0,
            key_is_built: false,
            built_key: Vec::new(),
            restart_hint: 0,
        }
    }
}

impl BlockCursor {
    /// Switches to another block, without a position in it.
    pub(crate) fn open(&mut self, block: &[u8]) -> Result<(), Damage> {
        self.valid = false;
        self.layout = Layout::parse(block)?;
        Ok(())
    }

    #[inline]
    pub(crate) fn valid(&self) -> bool {
        self.valid
    }

    pub(crate) fn invalidate(&mut self) {
        self.valid = false;
    }

    #[inline]
    pub(crate) fn user_key<'a>(&'a self, block: &'a [u8]) -> &'a [u8] {
        if self.key_is_built { &self.built_key } else { &block[self.key_at..self.value_at] }
    }

    #[inline]
    pub(crate) fn key<'a>(&'a self, block: &'a [u8]) -> InternalKey<'a> {
        InternalKey::new(self.user_key(block), self.trailer)
    }

    #[inline]
    pub(crate) fn trailer(&self) -> Trailer {
        self.trailer
    }

    /// The range of the value within the block.
    #[inline]
    pub(crate) fn value_range(&self) -> std::ops::Range<usize> {
        self.value_at..self.entry_end
    }

    /// Moves to the entry at `offset`. If it shares part of its key, the cursor must be on the
    /// entry before it.
    #[inline]
    fn stand_on(&mut self, block: &[u8], offset: usize) -> Result<(), Damage> {
        self.valid = false;
        let entries = &block[..self.layout.entries_end];
        let head = read_entry(entries, offset)?;
        if head.shared == 0 {
            self.key_is_built = false;
        } else {
            self.build_key(entries, &head)?;
        }
        self.key_at = head.suffix_at;
        self.entry_at = offset;
        self.entry_end = head.end;
        self.value_at = head.value_at;
        self.trailer = head.trailer;
        self.valid = true;
        Ok(())
    }

    fn build_key(&mut self, entries: &[u8], head: &EntryHead) -> Result<(), Damage> {
        if self.key_is_built {
            if head.shared > self.built_key.len() {
                return Err(BAD_SHARED);
            }
            self.built_key.truncate(head.shared);
        } else {
            let before = entries.get(self.key_at..self.value_at).ok_or(BAD_SHARED)?;
            let shared = before.get(..head.shared).ok_or(BAD_SHARED)?;
            self.built_key.clear();
            self.built_key.extend_from_slice(shared);
            self.key_is_built = true;
        }
        self.built_key.extend_from_slice(&entries[head.suffix_at..head.value_at]);
        Ok(())
    }

    /// Checks T2: restarts ascend, and each is the offset of an entry that shares no bytes.
    pub(crate) fn check_restarts(&mut self, block: &[u8]) -> Result<(), Damage> {
        self.seek_to_first(block)?;
        for index in 1..self.layout.restart_count {
            let restart = self.layout.restart(block, index);
            while self.valid && self.entry_at < restart {
                self.next(block)?;
            }
            if !self.valid || self.entry_at != restart {
                return Err(BAD_RESTART);
            }
            self.stand_on_restart(block, index)?;
        }
        self.valid = false;
        Ok(())
    }

    /// Moves to restart `index`.
    fn stand_on_restart(&mut self, block: &[u8], index: usize) -> Result<(), Damage> {
        self.restart_hint = index;
        // A restart has no previous key to share with, so sharing here is damage.
        self.key_is_built = true;
        self.built_key.clear();
        self.stand_on(block, self.layout.restart(block, index))
    }

    pub(crate) fn seek_to_first(&mut self, block: &[u8]) -> Result<(), Damage> {
        if self.layout.restart(block, 0) != 0 {
            return Err(BAD_RESTART);
        }
        self.stand_on_restart(block, 0)
    }

    pub(crate) fn seek_to_last(&mut self, block: &[u8]) -> Result<(), Damage> {
        self.stand_on_restart(block, self.layout.restart_count - 1)?;
        while self.entry_end < self.layout.entries_end {
            self.stand_on(block, self.entry_end)?;
        }
        Ok(())
    }

    /// Moves to the next entry. At the end of the block, the cursor loses its position.
    #[inline]
    pub(crate) fn next(&mut self, block: &[u8]) -> Result<(), Damage> {
        if self.entry_end >= self.layout.entries_end {
            self.valid = false;
            return Ok(());
        }
        self.stand_on(block, self.entry_end)
    }

    /// Moves to the previous entry. Before the first entry, the cursor loses its position.
    pub(crate) fn prev(&mut self, block: &[u8]) -> Result<(), Damage> {
        let before = self.entry_at;
        if before == 0 {
            self.valid = false;
            return Ok(());
        }
        let index = self.last_restart_before(block, before).ok_or(BAD_RESTART)?;
        self.stand_on_restart(block, index)?;
        while self.entry_end < before {
            self.stand_on(block, self.entry_end)?;
        }
        if self.entry_end != before {
            self.valid = false;
            return Err(BAD_RESTART);
        }
        Ok(())
    }

    /// The last restart before `offset`.
    fn last_restart_before(&self, block: &[u8], offset: usize) -> Option<usize> {
        let layout = &self.layout;
        let hint = self.restart_hint;
        let is_before = |index| layout.restart(block, index) < offset;
        if hint < layout.restart_count && (hint + 1 == layout.restart_count || !is_before(hint + 1))
        {
            if is_before(hint) {
                return Some(hint);
            }
            if hint > 0 && is_before(hint - 1) {
                return Some(hint - 1);
            }
        }
        let (mut low, mut high) = (0, layout.restart_count);
        while low < high {
            let middle = (low + high) / 2;
            if is_before(middle) { low = middle + 1 } else { high = middle }
        }
        low.checked_sub(1)
    }

    /// Moves to the first entry at or after `target`. Without such an entry, the cursor has no
    /// position.
    pub(crate) fn seek(&mut self, block: &[u8], target: InternalKey<'_>) -> Result<(), Damage> {
        self.valid = false;
        let entries = &block[..self.layout.entries_end];
        // All restarts below `low` are before the target; none from `high` on is.
        let (mut low, mut high) = (0, self.layout.restart_count);
        while low < high {
            let middle = (low + high) / 2;
            let head = read_entry(entries, self.layout.restart(block, middle))?;
            if head.shared != 0 {
                return Err(BAD_RESTART);
            }
            let key = InternalKey::new(&entries[head.suffix_at..head.value_at], head.trailer);
            if compare_keys(key, target).is_lt() { low = middle + 1 } else { high = middle }
        }
        if low == 0 {
            return self.seek_to_first(block);
        }
        self.stand_on_restart(block, low - 1)?;
        loop {
            self.next(block)?;
            if !self.valid || compare_keys(self.key(block), target).is_ge() {
                return Ok(());
            }
        }
    }

    /// Moves to the last entry before `target`. Without such an entry, the cursor has no position.
    pub(crate) fn seek_before(
        &mut self,
        block: &[u8],
        target: InternalKey<'_>,
    ) -> Result<(), Damage> {
        self.seek(block, target)?;
        if self.valid { self.prev(block) } else { self.seek_to_last(block) }
    }
}
