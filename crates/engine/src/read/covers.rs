//! The range tombstones over the keys of a cursor: one stretch of keys at a time.
//!
//! ```text
//!   view 1    ...--#9--|------------------|--#7--...      each view's stretch around the key
//!   view 2    ...|------------#4----------------|--...
//!   together            |-------#4---------|              until the cursor leaves it: no search
//! ```
//!
//! Invariants
//!   K1  `around` is inside the stretch of every view, and has the newest of their tombstones.
//!
//! A cursor that leaves `around` searches only the views whose own stretch it leaves too. Their
//! stretches are short where tombstones are dense; the other views need two comparisons.

use crate::key::Seq;
use crate::range_del::{Cover, TombstoneHistory, TombstoneLane};
use bytes::Bytes;
use std::sync::Arc;

/// Range tombstones that a cursor shares with their owner.
#[derive(Clone, Debug)]
pub(crate) enum TombstoneView {
    /// A piece of a memtable.
    Memtable(Arc<TombstoneHistory>),
    /// Those of disjoint tables.
    Tables(Arc<TombstoneLane>),
}

impl TombstoneView {
    fn cover_around(&self, user_key: &[u8], snapshot: Seq) -> Cover {
        match self {
            TombstoneView::Memtable(history) => history.cover_around(user_key, snapshot),
            TombstoneView::Tables(lane) => lane.cover_around(user_key, snapshot),
        }
    }
}

/// The range tombstones of all sources of a cursor.
pub(crate) struct Covers {
    /// Each with its answer for the last key that was searched in it.
    views: Vec<(TombstoneView, Cover)>,
    snapshot: Seq,
    around: Cover,
}

impl Covers {
    /// Those of a cursor at `snapshot`.
    pub(crate) fn new(views: Vec<TombstoneView>, snapshot: Seq) -> Covers {
        // No key is in this stretch, so the first look-up searches every view.
        let nowhere = || Cover { start: None, end: Some(Bytes::new()), seq: None };
        let views = views.into_iter().map(|view| (view, nowhere())).collect();
        Covers { views, snapshot, around: nowhere() }
    }

    /// Whether a range tombstone visible at the snapshot deletes an entry (R3).
    #[inline]
    pub(crate) fn covers(&mut self, user_key: &[u8], seq: Seq) -> bool {
        !self.views.is_empty() && self.covers_among(user_key, seq)
    }

    fn covers_among(&mut self, user_key: &[u8], seq: Seq) -> bool {
        if !self.around.contains(user_key) {
            let mut around = Cover { start: None, end: None, seq: None };
            for (view, stretch) in &mut self.views {
                if !stretch.contains(user_key) {
                    *stretch = view.cover_around(user_key, self.snapshot);
                }
                around = around.intersect(stretch.clone());
            }
            self.around = around;
        }
        self.around.seq.is_some_and(|deleted| seq < deleted)
    }
}
