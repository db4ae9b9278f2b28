//! Routes: which output takes an entry of a merge over several levels.
//!
//! ```text
//!              a      f      k      p      t      z
//!   from L1    | L2   | L1   | L3 short: L2 | L2  |      a segment ends where the next begins;
//!   from L2    | L2          | L3           | L2  |      the last one has no end
//! ```
//!
//! Invariants
//!   O1  At one key, an entry from a deeper level goes at least as deep as one from a higher level:
//!       newer data stays above (V2).
//!   O2  A short run stays in the output before its own. No staying table of that output has keys
//!       of the run.
//!
//! Not here: how segments are chosen (`gear`).

use crate::version::LEVEL_COUNT;
use bytes::Bytes;

/// The destination of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Route {
    /// The index of the output that takes it.
    pub(crate) output: usize,
    /// No staying table below that output has the key, so a delete has nothing left to hide.
    pub(crate) is_bottom: bool,
    /// The output, one level up, that takes a run much shorter than a table. Such runs arise
    /// between staying tables.
    pub(crate) short_to: Option<usize>,
}

/// A stretch of keys with one route, up to the start of the next segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Segment {
    pub(crate) start: Bytes,
    pub(crate) route: Route,
}

/// The routes of a plan. Each input level has segments in key order, beginning with the empty key.
#[derive(Clone, Debug, Default)]
pub(crate) struct Routes {
    by_level: [Vec<Segment>; LEVEL_COUNT],
}

impl Routes {
    /// Sets the segments of `level`. Adjacent segments with equal routes become one.
    pub(crate) fn set(&mut self, level: u8, mut segments: Vec<Segment>) {
        segments.dedup_by(|next, kept| next.route == kept.route);
        assert!(segments.first().is_some_and(|s| s.start.is_empty()), "every key has a route");
        assert!(segments.is_sorted_by(|a, b| a.start < b.start), "segments are in key order");
        self.by_level[usize::from(level)] = segments;
    }

    /// The segments of `level`.
    pub(crate) fn of_level(&self, level: u8) -> &[Segment] {
        &self.by_level[usize::from(level)]
    }

    /// The route of an entry of `level` at `user_key`.
    ///
    /// Cost: one binary search.
    #[cfg(test)]
    pub(crate) fn at(&self, level: u8, user_key: &[u8]) -> Route {
        let segments = self.of_level(level);
        segments[segments.partition_point(|s| s.start <= *user_key) - 1].route
    }
}

/// Routes entries that arrive in key order, without a binary search for each.
#[derive(Debug)]
pub(crate) struct Router {
    routes: Routes,
    /// The level of each source of the merge.
    source_levels: Vec<u8>,
    at: [usize; LEVEL_COUNT],
}

impl Router {
    pub(crate) fn new(routes: Routes, source_levels: Vec<u8>) -> Router {
        Router { routes, source_levels, at: [0; LEVEL_COUNT] }
    }

    pub(crate) fn routes(&self) -> &Routes {
        &self.routes
    }

    /// The route of the entry at `user_key` from `source`. Keys must not decrease.
    #[inline]
    pub(crate) fn route(&mut self, source: usize, user_key: &[u8]) -> Route {
        let level = usize::from(self.source_levels[source]);
        let segments = &self.routes.by_level[level];
        let at = &mut self.at[level];
        while segments.get(*at + 1).is_some_and(|next| next.start <= *user_key) {
            *at += 1;
        }
        segments[*at].route
    }
}
