//! What a power cut leaves of the pending operations.
//!
//! ```text
//!   each alone      | w1 whole | w2 gone  | w3 torn | w4 whole | w5 gone |     a drive that reorders freely
//!   oldest first    | w1 whole | w2 whole | w3 torn | w4 gone  | w5 gone |     a drive that keeps the order
//!   lowest first    the same in the order of their addresses                   one sweep of the arm
//! ```
//!
//! Each cut draws one of the three. Within a sequential zone the survivors form a prefix in every
//! case.
//!
//! On a disk that breaks sectors, the head may have been in the middle of one: in a block of one of
//! these operations or, in a zone, in the block after the prefix. That block counts as written and
//! cannot be read.

use super::{Pending, PowerCycle, Sectors, range_at};
use crate::backing::{Backing, Durable};
use imbrex_clockwork::Prng;
use imbrex_disk::{
    BLOCK_LEN_BYTES, BlockRange, Blocks, DiskError, Lba, ZoneId, ZoneMark, ZoneRecord,
};
use std::collections::BTreeSet;

/// The order in which the drive was writing when the power failed.
#[derive(Clone, Copy, Debug)]
enum Order {
    /// No particular order.
    EachAlone,
    /// By age, up to the operation with this index.
    OldestFirst { until: usize },
    /// By address, up to the operation that begins here.
    LowestFirst { until: Lba },
}

/// How much of an operation is on the platter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Share {
    Nothing,
    All,
    /// Each sector or not; in a zone, a number of sectors from the start.
    Part,
}

/// A power cut in progress.
struct Cut<'a> {
    backing: &'a dyn Backing,
    prng: &'a mut Prng,
    sector_len_bytes: usize,
    order: Order,
    /// The operation in which the head breaks a sector.
    head: Option<usize>,
    outcome: PowerCycle,
    stored: Vec<BlockRange>,
}

/// Stores the surviving part of `pending`, oldest first. Returns the outcome, and `stored` with the
/// ranges of the survivors added.
pub(super) fn cut(
    pending: &[Pending],
    backing: &dyn Backing,
    prng: &mut Prng,
    sectors: Sectors,
    stored: Vec<BlockRange>,
) -> Result<(PowerCycle, Vec<BlockRange>), DiskError> {
    let order = Order::draw(pending, prng);
    let head = if sectors.break_at_cuts { order.draw_head(pending, prng) } else { None };
    let outcome = PowerCycle::default();
    let sector_len_bytes = sectors.len_bytes;
    let mut cut = Cut { backing, prng, sector_len_bytes, order, head, outcome, stored };
    let zones: BTreeSet<ZoneId> = pending.iter().filter_map(Pending::zone).collect();
    for zone in zones {
        let is_of_zone = |(_, operation): &(usize, &Pending)| operation.zone() == Some(zone);
        let of_zone: Vec<_> = pending.iter().enumerate().filter(is_of_zone).collect();
        cut.cut_zone(zone, &of_zone)?;
    }
    for (index, operation) in pending.iter().enumerate() {
        if let Pending::Anywhere { at, data } = operation {
            cut.cut_anywhere(index, *at, data)?;
        }
    }
    Ok((cut.outcome, cut.stored))
}

impl Order {
    fn draw(pending: &[Pending], prng: &mut Prng) -> Order {
        let kind = prng.below(4);
        let drawn = prng.below(pending.len().max(1) as u64) as usize;
        let start = pending.get(drawn).and_then(Pending::blocks).map(|(at, _)| at);
        match (kind, start) {
            (2, _) => Order::OldestFirst { until: drawn },
            (3, Some(until)) => Order::LowestFirst { until },
            _ => Order::EachAlone,
        }
    }

    /// The operation in which a sector breaks. None in a third of the cuts, in which the head is
    /// between two sectors.
    fn draw_head(self, pending: &[Pending], prng: &mut Prng) -> Option<usize> {
        let is_between = prng.chance(1, 3);
        let drawn = prng.below(pending.len().max(1) as u64) as usize;
        let begins_at = |until: Lba| {
            let begins_there = |p: &Pending| p.blocks().is_some_and(|(at, _)| at == until);
            pending.iter().rposition(begins_there)
        };
        let head = match self {
            Order::EachAlone => Some(drawn),
            Order::OldestFirst { until } => Some(until),
            Order::LowestFirst { until } => begins_at(until),
        };
        head.filter(|_| !is_between)
    }
}

impl Cut<'_> {
    /// How much survives of the operation with this index, which begins at `at`.
    fn share(&mut self, index: usize, at: Lba) -> Share {
        let reached = match self.order {
            Order::EachAlone => {
                let shares = [Share::Nothing, Share::All, Share::Part];
                return shares[self.prng.below(3) as usize];
            }
            Order::OldestFirst { until } => index.cmp(&until),
            Order::LowestFirst { until } => at.cmp(&until),
        };
        match reached {
            std::cmp::Ordering::Less => Share::All,
            std::cmp::Ordering::Equal => Share::Part,
            std::cmp::Ordering::Greater => Share::Nothing,
        }
    }

    fn cut_zone(&mut self, zone: ZoneId, pending: &[(usize, &Pending)]) -> Result<(), DiskError> {
        let blocks = pending.iter().filter_map(|(index, p)| Some((*index, p.blocks()?)));
        let lens: Vec<_> =
            blocks.map(|(index, (at, data))| (index, at, data.len() as u64)).collect();
        let total_bytes: u64 = lens.iter().map(|(_, _, len)| len).sum();
        let total = Blocks::holding(total_bytes);
        if let Some((_, Pending::Reset { range, .. })) = pending.last()
            && self.prng.chance(1, 2)
        {
            self.outcome.lost += total;
            self.backing.set_zone(zone, ZoneRecord::EMPTY, Durable::Now)?;
            self.stored.push(*range);
            return self.backing.zero(*range);
        }
        let kept_bytes = self.draw_prefix(&lens, total_bytes);
        let kept_whole = Blocks::new(kept_bytes / BLOCK_LEN_BYTES as u64);
        self.outcome.survived += kept_whole;
        self.outcome.lost += total - kept_whole;
        let mut left = kept_bytes as usize;
        if let Some(&(_, first, _)) = lens.first()
            && pending.iter().any(|(index, _)| self.head == Some(*index))
            && kept_bytes < total_bytes
        {
            self.outcome.broken = Some(first + kept_whole);
            left = kept_whole.bytes() as usize + BLOCK_LEN_BYTES;
        }
        for (_, operation) in pending {
            match operation {
                Pending::AtPointer { start, capacity, at, data, .. } if left > 0 => {
                    let len = left.min(data.len());
                    left -= len;
                    // The drive fills up the block of a torn sector when it powers up.
                    let mut kept = data[..len].to_vec();
                    kept.resize(len.next_multiple_of(BLOCK_LEN_BYTES), 0);
                    self.backing.write(*at, &kept, Durable::Later)?;
                    let range = range_at(*at, &kept);
                    self.stored.push(range);
                    let record = ZoneRecord::at_pointer(range.end() - *start, *capacity);
                    self.backing.set_zone(zone, record, Durable::Later)?;
                }
                Pending::Finish { .. } if kept_bytes == total_bytes && self.prng.chance(1, 2) => {
                    let written = self.backing.zone(zone)?.written;
                    let record = ZoneRecord { mark: ZoneMark::Full, written };
                    self.backing.set_zone(zone, record, Durable::Later)?;
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// How many bytes of a zone's writes survive: whole sectors.
    fn draw_prefix(&mut self, lens: &[(usize, Lba, u64)], total_bytes: u64) -> u64 {
        let sector_len = self.sector_len_bytes as u64;
        if matches!(self.order, Order::EachAlone) {
            return self.prng.below(total_bytes / sector_len + 1) * sector_len;
        }
        let mut kept = 0;
        for &(index, at, len) in lens {
            match self.share(index, at) {
                Share::All => kept += len,
                Share::Part => return kept + self.prng.below(len / sector_len + 1) * sector_len,
                Share::Nothing => break,
            }
        }
        kept
    }

    fn cut_anywhere(&mut self, index: usize, at: Lba, data: &[u8]) -> Result<(), DiskError> {
        let share = self.share(index, at);
        let broken = self.draw_broken(index, range_at(at, data));
        for (index, block) in data.chunks_exact(BLOCK_LEN_BYTES).enumerate() {
            let at = at + Blocks::new(index as u64);
            let sectors = self.survivors(share);
            if broken == Some(at) {
                // Where tracks overlap it destroys what it reaches.
                self.backing.write(at, block, Durable::Later)?;
                self.outcome.lost += Blocks::new(1);
                self.stored.push(BlockRange::new(at, Blocks::new(1)));
                continue;
            }
            let is_whole = sectors.iter().all(|&survives| survives);
            if is_whole {
                self.backing.write(at, block, Durable::Later)?;
                self.outcome.survived += Blocks::new(1);
                // A younger write healed it.
                self.outcome.broken = self.outcome.broken.filter(|&broken| broken != at);
            } else {
                self.outcome.lost += Blocks::new(1);
                if !sectors.contains(&true) {
                    continue;
                }
                self.tear(at, block, &sectors)?;
            }
            self.stored.push(BlockRange::new(at, Blocks::new(1)));
        }
        Ok(())
    }

    /// The block of the operation with this index that the head was writing, if it was in that
    /// operation.
    fn draw_broken(&mut self, index: usize, range: BlockRange) -> Option<Lba> {
        if self.head != Some(index) {
            return None;
        }
        let broken = range.start + Blocks::new(self.prng.below(range.len.get()));
        self.outcome.broken = Some(broken);
        Some(broken)
    }

    /// Which sectors of a block are on the platter.
    fn survivors(&mut self, share: Share) -> Vec<bool> {
        let survives = |_| match share {
            Share::Nothing => false,
            Share::All => true,
            Share::Part => self.prng.chance(1, 2),
        };
        (0..BLOCK_LEN_BYTES / self.sector_len_bytes).map(survives).collect()
    }

    /// Stores the surviving sectors of `block`; the others keep their old content.
    fn tear(&mut self, at: Lba, block: &[u8], sectors: &[bool]) -> Result<(), DiskError> {
        let mut torn = vec![0; BLOCK_LEN_BYTES];
        self.backing.read(at, &mut torn)?;
        let len = self.sector_len_bytes;
        let parts = torn.chunks_exact_mut(len).zip(block.chunks_exact(len)).zip(sectors);
        for ((old, new), _) in parts.filter(|(_, survives)| **survives) {
            old.copy_from_slice(new);
        }
        self.backing.write(at, &torn, Durable::Later)
    }
}
