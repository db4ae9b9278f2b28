//! The state of the one writer at a time: the current log and the next sequence number.

use crate::batch::KeyspaceId;
use crate::key::Seq;
use crate::version::edit::LogId;
use crate::wal::Wal;
use imbrex_files::Tier;
use std::sync::Arc;

/// The state of the one writer at a time.
#[derive(Debug)]
pub(crate) struct Writer {
    /// The current log; `None` between two logs.
    pub(crate) wal: Option<Arc<Wal>>,
    pub(crate) log: LogId,
    /// Whether `log` is the number of the next log, which does not exist yet.
    is_log_next: bool,
    pub(crate) next_seq: Seq,
    /// The length of all logs before this one.
    pub(crate) finished_log_bytes: u64,
    /// The length of the log at which space is assessed again, if keyspaces share it.
    pub(crate) look_at_bytes: u64,
    /// The keyspace whose writes the log has. `is_log_shared` if it has writes of others too.
    pub(crate) log_owner: Option<KeyspaceId>,
    pub(crate) is_log_shared: bool,
    /// The drive that was requested for the log.
    pub(crate) tier: Tier,
}

impl Writer {
    pub(crate) fn new(next_seq: Seq) -> Writer {
        Writer {
            wal: None,
            log: LogId(0),
            is_log_next: false,
            next_seq,
            finished_log_bytes: 0,
            look_at_bytes: 0,
            log_owner: None,
            is_log_shared: false,
            tier: Tier::Main,
        }
    }

    /// Records that the log has writes of `keyspace`.
    pub(crate) fn note_owner(&mut self, keyspace: KeyspaceId) {
        self.is_log_shared |= *self.log_owner.get_or_insert(keyspace) != keyspace;
    }

    /// The current log; between two logs the next one, or the last one if no memtable has ended
    /// since. No memtable refers to a newer log.
    pub(crate) fn log(&self) -> LogId {
        self.log
    }

    /// The number of the next log, which `new_id` gives if it has none yet. No log is open.
    pub(crate) fn next_log(&mut self, new_id: impl FnOnce() -> LogId) -> LogId {
        if !self.is_log_next {
            (self.log, self.is_log_next) = (new_id(), true);
        }
        self.log
    }

    /// Records that the log `id`, the next one, has begun.
    pub(crate) fn begin_log(&mut self, id: LogId, wal: Arc<Wal>) {
        (self.log, self.is_log_next, self.wal) = (id, false, Some(wal));
        (self.log_owner, self.is_log_shared, self.look_at_bytes) = (None, false, 0);
    }

    /// Continues the numbers after `last`, the last log from before the opening.
    pub(crate) fn begin_behind(&mut self, last: LogId) {
        (self.log, self.is_log_next) = (LogId(last.0 + 1), false);
    }

    /// The length of everything that was written to logs.
    pub(crate) fn log_bytes(&self) -> u64 {
        self.finished_log_bytes + self.wal.as_ref().map_or(0, |wal| wal.len_bytes())
    }
}
