//! Why the engine refused a request or failed at it.

use imbrex_files::FilesError;

/// What has no place where a store was opened whose logs had to stay.
pub(crate) const FOR_THE_LOGS: &str = "for what the logs hold";

/// What to do where there is no space at `place`.
fn advice(place: &str) -> &'static str {
    match place {
        FOR_THE_LOGS => "delete a checkpoint or a keyspace",
        _ => "delete data and compact",
    }
}

/// What to do about damage that a compaction met: to open the store again does not mend it.
pub(crate) const DAMAGE_ADVICE: &str = "compactions will meet that again until what still reads was saved \
     (OpenMode::Salvage) or a backup restored";
/// What to do after a write of which nobody knows how far it got.
pub(crate) const REOPEN_ADVICE: &str = "close the store and open it again to recover";

/// An error of the engine; the file layer's own error, where there is one, is its source.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EngineError {
    /// A key is empty or too long.
    #[error("key of {got_bytes} bytes: keys have 1 to {max_bytes} bytes")]
    KeyLen {
        /// The key's length.
        got_bytes: usize,
        /// The longest key there may be.
        max_bytes: usize,
    },
    /// A value is too long.
    #[error("value of {got_bytes} bytes: values have at most {max_bytes}")]
    ValueLen {
        /// The value's length.
        got_bytes: usize,
        /// The longest value there may be.
        max_bytes: usize,
    },
    /// A batch is too long for one record of the log.
    #[error("batch of more than {max_bytes} bytes: write it in parts")]
    BatchLen {
        /// The longest batch there may be.
        max_bytes: usize,
    },
    /// A range ends before it starts.
    #[error("range from {} to {}: the end lies before the start", start.escape_ascii(), end.escape_ascii())]
    RangeOrder {
        /// Where the range starts.
        start: Vec<u8>,
        /// Where it ends.
        end: Vec<u8>,
    },
    /// An option cannot work.
    #[error("option {option}: must be {rule}")]
    BadOption {
        /// The option.
        option: &'static str,
        /// What it must be.
        rule: &'static str,
    },
    /// The file layer holds no store, and none was to be created.
    #[error("the drive holds no store; open it with create_if_missing to make one")]
    NoStore,
    /// No keyspace of that name, or it was dropped.
    #[error("no keyspace named {name:?}")]
    NoKeyspace {
        /// The name.
        name: String,
    },
    /// The name of a keyspace is taken.
    #[error("a keyspace named {name:?} exists already")]
    KeyspaceExists {
        /// The name.
        name: String,
    },
    /// No checkpoint of that name.
    #[error("no checkpoint named {name:?}")]
    NoCheckpoint {
        /// The name.
        name: String,
    },
    /// The name of a checkpoint is taken.
    #[error("a checkpoint named {name:?} exists already; delete it first")]
    CheckpointExists {
        /// The name.
        name: String,
    },
    /// Not a name for a keyspace or a checkpoint.
    #[error("{name:?} is no name for a {what}: {rule}")]
    BadName {
        /// What was to be named.
        what: &'static str,
        /// The name, cut to 64 characters.
        name: String,
        /// What names look like.
        rule: &'static str,
    },
    /// A backup goes to an empty file layer only.
    #[error("the target of the backup holds {file_count} files; format it first")]
    BackupTarget {
        /// How many files it holds.
        file_count: usize,
    },
    /// The drive or its catalog is nearly full. Reads and deletes go on; writes do too once there is
    /// room.
    #[error(
        "no space {place}: {free_bytes} bytes are free and {needed_bytes} must stay so; \
         {}, or use a larger drive",
        advice(place)
    )]
    NoSpace {
        /// What is nearly full, "on the drive" or "in the catalog"; or "for a compaction" that all
        /// writes wait for; or "for what the logs hold" that a crash left.
        place: &'static str,
        /// What must stay free for what is in memory already, or for that compaction.
        needed_bytes: u64,
        /// What is free.
        free_bytes: u64,
    },
    /// An earlier write failed, so what is durable is unknown. Reads go on. Or puts and deletes would wait for a
    /// compaction of what cannot be read: then all but those goes on, and what was acknowledged becomes durable.
    #[error("refused: {reason}")]
    Poisoned {
        /// What failed, and what to do.
        reason: String,
    },
    /// A compaction that was asked for needs a table that could not be read, again and again, and was set aside. Other
    /// reads and writes go on.
    #[error("refused: {reason}")]
    SetAside {
        /// What could not be read, and what to do.
        reason: String,
    },
    /// A snapshot is of use only to the store it was taken from.
    #[error("the snapshot was taken from another store")]
    ForeignSnapshot,
    /// The store is closed.
    #[error("refused: the store is closed")]
    Closed,
    /// This view of the store does not write.
    #[error("refused: the store is open for reading only")]
    ReadOnly,
    /// Background work cannot go on, and the caller waits for it.
    #[error("stalled while waiting for {what}: no background job can run")]
    Stalled {
        /// What was waited for.
        what: &'static str,
    },
    /// A long call was stopped by who watched it; what it had committed stays, the rest is undone.
    #[error("{what}: stopped as asked; what was done until then stays")]
    Stopped {
        /// What was stopped: "compaction", "check", "waiting for background work".
        what: &'static str,
    },
    /// Written by a version of Imbrex that this one does not know.
    #[error("{what} has format version {got}; this program knows up to {known}; use a newer one")]
    Version {
        /// Which structure.
        what: &'static str,
        /// Its version.
        got: u32,
        /// The newest known.
        known: u32,
    },
    /// A file of the store is damaged: what it held cannot be told.
    #[error("damaged {structure} in {file} at offset {offset}: {reason}")]
    Corrupt {
        /// Which structure: "data block", "index block", "log record", ...
        structure: &'static str,
        /// The file.
        file: String,
        /// Where in the file, in bytes.
        offset: u64,
        /// What was expected and found.
        reason: String,
    },
    /// The file layer failed.
    #[error("{what}: {source}")]
    Files {
        /// What was being done.
        what: String,
        /// The file layer's error.
        #[source]
        source: FilesError,
    },
}

impl EngineError {
    /// Wraps a failure of the file layer, saying what was being done.
    pub(crate) fn files(what: impl Into<String>) -> impl FnOnce(FilesError) -> EngineError {
        let what = what.into();
        move |source| EngineError::Files { what, source }
    }

    /// Whether what was to be read is damaged or gone, so that other reads may do better.
    pub(crate) fn is_damage(&self) -> bool {
        let EngineError::Files { source, .. } = self else {
            return matches!(self, EngineError::Corrupt { .. });
        };
        source.is_damage()
    }

    /// Whether the drive was full, here or below.
    pub fn is_no_space(&self) -> bool {
        matches!(
            self,
            EngineError::NoSpace { .. }
                | EngineError::Files { source: FilesError::NoSpace { .. }, .. }
        )
    }
}
