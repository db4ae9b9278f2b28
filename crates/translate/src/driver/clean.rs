//! Cleaning: what is still valid in chosen zones goes elsewhere, in the order of its LBAs.
//!
//! ```text
//!     zone 3   aaa.....cc......      zone 7   ...bb....          chosen by `choose`
//!     read     aaa bb cc             piece by piece, up to 4 MiB
//!     write    aaabbcc               to a zone of cleaning's own: one node where three were
//! ```
//!
//! What the host wrote again meanwhile stays where it is then. A block that the write buffer has newer is
//! moved all the same: the buffer's copy may not be in the journal yet.

use super::choose::{CleaningOrder, ZoneContent, ZoneFill, candidates, choose};
use super::mapping::Piece;
use super::pool::{PoolZone, Use};
use super::state::{STEP_LEN, State, Stream};
use super::summaries::Part;
use imbrex_disk::{BlockRange, Blocks, DiskError, ZoneId};

/// A cleaning under way.
#[derive(Debug)]
pub(super) struct Cleaning {
    zones: Vec<ZoneId>,
    /// What was valid in them, by LBA, and how far it is moved: of the next one, what is left.
    runs: Vec<BlockRange>,
    next: usize,
}

impl State {
    /// Moves a piece of what is valid in the zones being cleaned; says how many blocks it read.
    pub(super) fn clean_step(&mut self, is_urgent: bool) -> Result<u64, DiskError> {
        if self.cleaning.is_none() && !self.begin_cleaning(is_urgent) {
            return Ok(0);
        }
        let Some(mut cleaning) = self.cleaning.take() else { return Ok(0) };
        let mut pieces = Vec::new();
        let mut left = STEP_LEN;
        while left > 0 && cleaning.next < cleaning.runs.len() {
            let run = &mut cleaning.runs[cleaning.next];
            let now = BlockRange::new(run.start, Blocks::new(run.len.get().min(left)));
            left -= now.len.get();
            *run = BlockRange::new(now.end(), run.len - now.len);
            cleaning.next += usize::from(run.len.is_zero());
            for piece in self.map.lookup(now) {
                // What was written again meanwhile lies elsewhere.
                let zone = piece.at.and_then(|at| self.pool.zone_of(at)).map(|slot| slot.zone);
                if zone.is_some_and(|zone| cleaning.zones.contains(&zone)) {
                    pieces.push(piece);
                }
            }
        }
        let moved = STEP_LEN - left;
        match self.read_pieces(&pieces) {
            Ok(data) => {
                let ranges: Vec<BlockRange> = pieces.iter().map(|piece| piece.range).collect();
                self.append(Stream::Cleaning, &data, &ranges)?;
            }
            // It stays where it is, and the host is told when it asks for it.
            Err(DiskError::Medium { at }) => {
                let piece = self.map.lookup(BlockRange::new(at, Blocks::new(1))).next();
                let place = piece.and_then(|piece| piece.at);
                let zone = place.and_then(|at| self.pool.zone_of(at)).map(|slot| slot.zone);
                zone.into_iter().for_each(|zone| self.pool.set(zone, Use::Unreadable));
                return Ok(moved);
            }
            Err(error) => return Err(error),
        }
        if cleaning.next < cleaning.runs.len() {
            self.cleaning = Some(cleaning);
        } else {
            self.counters.cleanings += 1;
            self.counters.cleaned_zones += cleaning.zones.len() as u64;
            self.commit()?;
        }
        Ok(moved)
    }

    fn begin_cleaning(&mut self, is_urgent: bool) -> bool {
        let order = match self.options.cleaning {
            // Only space counts now.
            CleaningOrder::MostMerged { chosen_count, .. } if is_urgent => {
                CleaningOrder::MostGarbage { chosen_count }
            }
            order => order,
        };
        let sealed = self.pool.iter().filter(|slot| slot.used == Use::Sealed);
        let fills = sealed.map(|slot| ZoneFill {
            zone: slot.zone,
            written: slot.written(),
            valid: self.map.valid(slot.zone),
        });
        let is_worth_it = |fill: &ZoneFill| fill.valid < fill.written;
        let found = candidates(order, fills.filter(is_worth_it));
        let content = |&zone: &ZoneId| ZoneContent {
            zone,
            written: self.pool.get(zone).map_or(Blocks::ZERO, PoolZone::written),
            runs: self.map.runs_in(zone).map(|run| run.range()).collect(),
        };
        let contents: Vec<ZoneContent> = found.iter().map(content).collect();
        let chosen = choose(order, &contents);
        if chosen.zones.is_empty() {
            return false;
        }
        let chosen_contents = contents.into_iter().filter(|c| chosen.zones.contains(&c.zone));
        let mut runs: Vec<BlockRange> = chosen_contents.flat_map(|content| content.runs).collect();
        runs.sort_unstable();
        if is_urgent {
            self.counters.urgent_cleanings += 1;
        } else {
            self.counters.timely_cleanings += 1;
            self.counters.merged_nodes += chosen.merged_nodes;
            self.counters.cleaned_written_blocks += chosen.written.get();
            self.counters.cleaned_garbage_blocks += chosen.garbage().get();
        }
        self.cleaning = Some(Cleaning { zones: chosen.zones, runs, next: 0 });
        true
    }

    fn read_pieces(&mut self, pieces: &[Piece]) -> Result<Vec<u8>, DiskError> {
        let len: Blocks = pieces.iter().map(|piece| piece.range.len).sum();
        let mut data = vec![0; len.bytes() as usize];
        let mut rest = &mut data[..];
        let mut parts = Vec::with_capacity(pieces.len());
        for piece in pieces {
            let (buf, behind) = rest.split_at_mut(piece.range.len.bytes() as usize);
            let at = piece.at.expect("only what is mapped is moved");
            parts.push(Part { at, lba: piece.range.start, buf });
            rest = behind;
        }
        self.read_data(parts)?;
        Ok(data)
    }
}
