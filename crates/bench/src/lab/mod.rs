//! The laboratory: the same work for several layouts at once, in virtual time, step by step.
//!
//! ```text
//!   LabSpec --> Lab --run_until(1 s)--> frames of every store --run_until(2 s)--> ...
//!                |                                                                 somebody watches
//!                +-- cut_power() --> every drive loses what was not flushed, every store recovers
//!                                      --> what each has lost, checked against what was written
//! ```
//!
//! Each store has an emulated drive of the recording that its layout needs, all of one capacity, and a virtual world of
//! its own. All get the same keys in the same order, so at one moment they differ by what they cost.
//!
//! Invariants
//!   B1  Everything follows from the specification and from the moments of the power cuts. No wall clock is read.
//!   B2  A store that refuses a write tells why and rests; the others go on.
//!   B3  After a power cut each synced write must be there, and of the later ones a prefix. Anything else is
//!       reported as loss.
//!
//! Not here: the pace at which virtual time passes for a viewer, and the viewer (`cli`, `watch`).

mod spec;
mod stand;

pub use spec::{LabArrivals, LabSpec, LabWork};

use crate::error::BenchError;
use imbrex_watch::Line;
use stand::Stand;

/// The time between two frames of a store, in virtual time.
pub const FRAME_EVERY_NS: u64 = 200_000_000;

/// Several stores at the same work.
#[derive(Debug)]
pub struct Lab {
    stands: Vec<Stand>,
    cut_count: u64,
}

impl Lab {
    /// Makes the drives in memory and formats them; `sink` takes the heads and the first frames.
    ///
    /// # Errors
    /// [`BenchError`]: the specification does not suit a layout.
    pub fn new(spec: &LabSpec, sink: &mut dyn FnMut(&Line)) -> Result<Lab, BenchError> {
        spec.check()?;
        let layouts = spec.layouts.iter().enumerate();
        let stands: Result<Vec<Stand>, BenchError> =
            layouts.map(|(id, layout)| Stand::new(id as u32, *layout, spec, sink)).collect();
        Ok(Lab { stands: stands?, cut_count: 0 })
    }

    /// Lets every store work until `until_ns` of its virtual time. Cost: that of the work, on this thread.
    pub fn run_until(&mut self, until_ns: u64, sink: &mut dyn FnMut(&Line)) {
        self.stands.iter_mut().for_each(|stand| stand.run_until(until_ns, sink));
    }

    /// The latest time of any store that still works: recovery takes time too.
    pub fn now_ns(&self) -> u64 {
        self.stands.iter().map(Stand::now_ns).max().unwrap_or(0)
    }

    /// Whether no store works any more, because each has refused a write.
    pub fn is_at_rest(&self) -> bool {
        self.stands.iter().all(Stand::is_at_rest)
    }

    /// Cuts the power of all drives, turns it on again and opens the stores. Returns for each what it has lost, in
    /// words; a frame of each says it too.
    ///
    /// # Errors
    /// [`BenchError`]: a drive or a store does not come back.
    pub fn cut_power(&mut self, sink: &mut dyn FnMut(&Line)) -> Result<Vec<String>, BenchError> {
        self.cut_count += 1;
        let seed = self.cut_count;
        self.stands.iter_mut().map(|stand| stand.cut_power(seed, sink)).collect()
    }
}

#[cfg(test)]
mod tests;
