//! The entries of a range, as a Rust iterator.

use crate::Error;
use bytes::Bytes;

/// The entries of a range in order of key, from both ends. Ends after the first error.
///
/// It reads as of the moment it was made: later writes do not show. Cost: alternating between the ends costs a seek each
/// time.
#[derive(Debug)]
pub struct Entries(pub(crate) imbrex_engine::Entries);

impl Iterator for Entries {
    type Item = Result<(Bytes, Bytes), Error>;

    fn next(&mut self) -> Option<Self::Item> {
        Some(self.0.next()?.map_err(Error::from))
    }
}

impl DoubleEndedIterator for Entries {
    fn next_back(&mut self) -> Option<Self::Item> {
        Some(self.0.next_back()?.map_err(Error::from))
    }
}

impl std::iter::FusedIterator for Entries {}
