//! What one writer at a time holds: the log that is written, and the next sequence number.

use crate::batch::KeyspaceId;
use crate::key::Seq;
use crate::version::edit::LogId;
use crate::wal::Wal;
use imbrex_files::Tier;
use std::sync::Arc;

/// What one writer at a time holds.
#[derive(Debug)]
pub(crate) struct Writer {
    /// The log that is written; `None` before the first and while a new one cannot be created.
    pub(crate) wal: Option<Arc<Wal>>,
    pub(crate) log: LogId,
    pub(crate) next_seq: Seq,
    pub(crate) user_bytes: u64,
    pub(crate) op_count: u64,
    /// What the logs before this one wrote.
    pub(crate) finished_log_bytes: u64,
    /// How long the log is when space is looked at again, if keyspaces share it.
    pub(crate) look_at_bytes: u64,
    /// Whose writes the log has, and whether it has those of others too.
    pub(crate) log_owner: Option<KeyspaceId>,
    pub(crate) is_log_shared: bool,
    /// Where the log was asked to be.
    pub(crate) tier: Tier,
    /// Of the user's bytes, those whose log lies on flash.
    pub(crate) offloaded_bytes: u64,
}

impl Writer {
    pub(crate) fn new(next_seq: Seq) -> Writer {
        Writer {
            wal: None,
            log: LogId(0),
            next_seq,
            user_bytes: 0,
            op_count: 0,
            finished_log_bytes: 0,
            look_at_bytes: 0,
            log_owner: None,
            is_log_shared: false,
            tier: Tier::Main,
            offloaded_bytes: 0,
        }
    }

    /// Notes that the log has writes of `keyspace`.
    pub(crate) fn note_owner(&mut self, keyspace: KeyspaceId) {
        self.is_log_shared |= *self.log_owner.get_or_insert(keyspace) != keyspace;
    }

    /// The log that is written, or the last one; of all that memtables are of it is the newest, or newer.
    pub(crate) fn log(&self) -> LogId {
        self.log
    }

    /// Says that the logs of before end with `last`.
    pub(crate) fn begin_behind(&mut self, last: LogId) {
        self.log = LogId(last.0 + 1);
    }

    /// All that was written to logs.
    pub(crate) fn log_bytes(&self) -> u64 {
        self.finished_log_bytes + self.wal.as_ref().map_or(0, |wal| wal.len_bytes())
    }
}
