//! A keyspace at a moment: now, or when a snapshot was made.

use crate::failure::Failure;
use bytes::Bytes;
use imbrex::Keyspace;
use imbrex_engine::{Iter, ReadOptions, Snapshot};
use std::sync::Arc;

/// Where a reader reads.
#[derive(Debug)]
pub(crate) struct Place {
    pub(crate) keyspace: Keyspace,
    snapshot: Option<Arc<Snapshot>>,
}

impl Place {
    /// The newest state.
    pub(crate) fn now(keyspace: Keyspace) -> Place {
        Place { keyspace, snapshot: None }
    }

    /// The state at `snapshot`.
    pub(crate) fn at(keyspace: Keyspace, snapshot: Arc<Snapshot>) -> Place {
        Place { keyspace, snapshot: Some(snapshot) }
    }

    /// The value of `key`.
    pub(crate) fn get(&self, key: &[u8]) -> Result<Option<Bytes>, Failure> {
        let engine = self.keyspace.engine();
        Ok(match &self.snapshot {
            Some(snapshot) => engine.get_at(snapshot, key)?,
            None => engine.get(key)?,
        })
    }

    /// The values of `keys`, in the same order.
    pub(crate) fn get_many(&self, keys: &[&[u8]]) -> Result<Vec<Option<Bytes>>, Failure> {
        match &self.snapshot {
            Some(_) => keys.iter().map(|key| self.get(key)).collect(),
            None => Ok(self.keyspace.engine().multi_get(keys)?),
        }
    }

    /// A cursor over the keys from `lower` to `upper`.
    pub(crate) fn iter(&self, lower: Option<Bytes>, upper: Option<Bytes>) -> Result<Iter, Failure> {
        let snapshot = self.snapshot.as_deref();
        let options = ReadOptions { snapshot, lower, upper, ..ReadOptions::default() };
        Ok(self.keyspace.engine().iter(options)?)
    }
}
