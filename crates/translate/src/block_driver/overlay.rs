//! A checkpoint and its deltas as one: of each block, the newest run counts.
//!
//! ```text
//!     older    |--- 500 ---------------|      |- 90 -|
//!     newer          |- 7 -|  |  none  |             |- 8 -|
//!     both     | 500 |- 7 -|50|               |- 90 -|- 8 -|      what is no longer mapped covers too
//! ```
//!
//! Deltas are merged in pairs of about the same age, so that each run is handled O(log n) times.
//!
//! Not here: the bytes (`format`), reading them (`read_checkpoint`).

use super::checkpoint_format::Run;
use imbrex_disk::{BlockRange, Lba};
use std::iter::Peekable;

/// Runs by LBA; see [`overlay`].
#[derive(Debug)]
pub(super) struct Overlay<N: Iterator<Item = Run>, O: Iterator<Item = Run>> {
    newer: Peekable<N>,
    older: O,
    /// What is left of a run of `older` that was cut.
    rest: Option<Run>,
}

/// The runs of both, ascending by LBA; where they overlap, those of `newer`.
pub(super) fn overlay<N: Iterator<Item = Run>, O: Iterator<Item = Run>>(
    newer: N,
    older: O,
) -> Overlay<N, O> {
    Overlay { newer: newer.peekable(), older, rest: None }
}

impl<N: Iterator<Item = Run>, O: Iterator<Item = Run>> Overlay<N, O> {
    /// Where the older runs come from.
    pub(super) fn older(&self) -> &O {
        &self.older
    }

    pub(super) fn older_mut(&mut self) -> &mut O {
        &mut self.older
    }
}

/// The part of a run from `start` to `end`, both within it.
fn cut(run: Run, start: Lba, end: Lba) -> Run {
    let range = BlockRange::new(start, end - start);
    match run.is_mapped() {
        true => Run { range, at: run.at + (start - run.range.start) },
        false => Run::unmapped(range),
    }
}

impl<N: Iterator<Item = Run>, O: Iterator<Item = Run>> Iterator for Overlay<N, O> {
    type Item = Run;

    fn next(&mut self) -> Option<Run> {
        loop {
            let Some(older) = self.rest.take().or_else(|| self.older.next()) else {
                return self.newer.next();
            };
            let Some(newer) =
                self.newer.peek().filter(|newer| newer.range.start < older.range.end())
            else {
                return Some(older);
            };
            let (newer, older_end) = (newer.range, older.range.end());
            if older.range.start < newer.start {
                self.rest = Some(cut(older, newer.start, older_end));
                return Some(cut(older, older.range.start, newer.start));
            }
            if older.range.start < newer.end() {
                // What the newer run covers of it is dropped.
                let rest_start = newer.end().min(older_end);
                self.rest = (rest_start < older_end).then(|| cut(older, rest_start, older_end));
                continue;
            }
            self.rest = Some(older);
            return self.newer.next();
        }
    }
}

/// Deltas, the oldest first, merged as they come.
#[derive(Default)]
pub(super) struct DeltaRuns {
    /// Merged deltas with how many each of them is made of; the counts fall.
    merged: Vec<(usize, Vec<Run>)>,
}

impl DeltaRuns {
    /// Adds the runs of the next newer delta.
    pub(super) fn push(&mut self, runs: Vec<Run>) {
        self.merged.push((1, runs));
        while let [.., (older_count, _), (newer_count, _)] = self.merged[..]
            && older_count <= newer_count
        {
            self.merge_last();
        }
    }

    fn merge_last(&mut self) {
        if let (Some((newer_count, newer)), Some((older_count, older))) =
            (self.merged.pop(), self.merged.pop())
        {
            let both = overlay(newer.into_iter(), older.into_iter()).collect();
            self.merged.push((newer_count + older_count, both));
        }
    }

    /// The runs of all deltas, the newest where they overlap.
    pub(super) fn into_runs(mut self) -> Vec<Run> {
        while self.merged.len() > 1 {
            self.merge_last();
        }
        self.merged.pop().map_or(Vec::new(), |(_, runs)| runs)
    }
}

#[cfg(test)]
mod tests;
