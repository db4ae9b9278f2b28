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
use super::format::Record;
use super::pool::Use;
use super::state::{STEP_LEN, State, Stream};
use imbrex_disk::{BlockRange, Blocks, DiskError, Lba, Pba, Persist, ReadRequest, ZoneId};

/// A cleaning under way.
#[derive(Debug)]
pub(super) struct Cleaning {
    zones: Vec<ZoneId>,
    /// What was valid in them, by LBA, and how far it is moved.
    runs: Vec<BlockRange>,
    next: usize,
}

impl State {
    /// Moves a piece of what is valid in the zones being cleaned; says how many blocks it read.
    pub(super) fn clean_step(&mut self, is_urgent: bool) -> Result<u64, DiskError> {
        if self.cleaning.is_none() && !self.begin_cleaning(is_urgent) {
            return Ok(0);
        }
        let Some(cleaning) = &mut self.cleaning else { return Ok(0) };
        let mut runs: Vec<(BlockRange, Pba)> = Vec::new();
        let mut total = 0;
        while total < STEP_LEN && cleaning.next < cleaning.runs.len() {
            let run = cleaning.runs[cleaning.next];
            cleaning.next += 1;
            for piece in self.map.lookup(run) {
                // What was written again meanwhile lies elsewhere.
                let Some(at) = piece.at else { continue };
                let zone = self.pool.zone_of(at).map(|slot| slot.zone);
                if zone.is_some_and(|zone| cleaning.zones.contains(&zone)) {
                    runs.push((piece.range, at));
                    total += piece.range.len.get();
                }
            }
        }
        self.move_runs(&runs)?;
        let cleaning = self.cleaning.as_ref().expect("it was there");
        if cleaning.next == cleaning.runs.len() {
            let zones = cleaning.zones.clone();
            self.cleaning = None;
            self.counters.cleanings += 1;
            self.counters.cleaned_zones += zones.len() as u64;
            self.commit()?;
        }
        Ok(total.max(1))
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
            written: slot.written,
            valid: self.map.valid(slot.zone),
        });
        let is_worth_it = |fill: &ZoneFill| fill.valid < fill.written;
        let found = candidates(order, fills.filter(is_worth_it));
        let content = |&zone: &ZoneId| ZoneContent {
            zone,
            written: self.pool.get(zone).map_or(Blocks::ZERO, |slot| slot.written),
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
        self.counters.merged_nodes += chosen.merged_nodes;
        self.counters.cleaned_written_blocks += chosen.written.get();
        self.counters.cleaned_garbage_blocks += chosen.garbage().get();
        self.cleaning = Some(Cleaning { zones: chosen.zones, runs, next: 0 });
        true
    }

    fn move_runs(&mut self, runs: &[(BlockRange, Pba)]) -> Result<(), DiskError> {
        let len: u64 = runs.iter().map(|(range, _)| range.len.bytes()).sum();
        let mut data = vec![0; len as usize];
        let mut rest = &mut data[..];
        let mut requests = Vec::with_capacity(runs.len());
        for &(range, at) in runs {
            let (buf, behind) = rest.split_at_mut(range.len.bytes() as usize);
            requests.push(ReadRequest { at: Lba::new(at.get()), buf });
            rest = behind;
        }
        if !requests.is_empty() {
            self.disk.read_batch(&mut requests).map_err(|error| self.told_to_host(error))?;
        }
        drop(requests);
        let mut rest = &data[..];
        for &(range, _) in runs {
            let mut range = range;
            while !range.len.is_zero() {
                let (zone, at, room) = self.place(Stream::Cleaning)?;
                let part = BlockRange::new(range.start, range.len.min(room));
                let (now, behind) = rest.split_at(part.len.bytes() as usize);
                self.disk.write(Lba::new(at.get()), now, Persist::Cached)?;
                self.pool.advance(zone, part.len);
                self.counters.moved_blocks += part.len.get();
                self.map_to(part, at)?;
                self.records.push(Record::Moved { range: part, at });
                self.seal_if_full(zone)?;
                rest = behind;
                range = BlockRange::new(part.end(), range.len - part.len);
            }
        }
        Ok(())
    }
}
