//! Why the engine refused a request, or failed to carry it out.

use crate::pins::Pins;
use imbrex_files::{ByteSize, FilesError, SpaceUse};

/// The place in [`EngineError::NoSpace`] for a store whose logs had to stay when it was opened.
pub(crate) const FOR_THE_LOGS: &str = "for what the logs hold";

/// The place in [`EngineError::NoSpace`] where too many or too long names are the cause.
pub(crate) const IN_THE_CATALOG: &str = "in the catalog";

/// What the operator should do when there is no space at `place`.
fn advice(place: &str, pins: &Pins) -> String {
    let advice = match place {
        FOR_THE_LOGS => "delete a checkpoint or a keyspace",
        _ => "delete data and compact",
    };
    match pins.clause() {
        Some(clause) => format!("{clause}; {advice}"),
        None => advice.to_owned(),
    }
}

/// How the drive or its catalog is used, where `free_bytes` are free for a request.
fn usage(place: &str, space: &SpaceUse, free_bytes: u64) -> String {
    let SpaceUse { capacity_bytes, live_bytes, dead_bytes, catalog, .. } = *space;
    if place == IN_THE_CATALOG {
        let [used, capacity] = ByteSize(catalog.used_bytes).apart(ByteSize(catalog.capacity_bytes));
        return format!("{used} of {capacity} are in use");
    }
    let blank_bytes = capacity_bytes.saturating_sub(live_bytes + dead_bytes);
    let reserved_bytes = (blank_bytes + dead_bytes).saturating_sub(free_bytes);
    let [capacity, live, dead, blank, reserved] =
        [capacity_bytes, live_bytes, dead_bytes, blank_bytes, reserved_bytes].map(ByteSize);
    format!(
        "of {capacity}, {live} are live, {dead} dead, {blank} blank, and {reserved} of the dead and the \
         blank space is reserved"
    )
}

/// What the operator should do about damage that a compaction met: reopening the store does not
/// repair it.
pub(crate) const DAMAGE_ADVICE: &str = "compactions will meet this damage again: save what can still be read \
     (OpenMode::Salvage), or restore a backup";
/// What the operator should do after a write that may have been carried out in part.
pub(crate) const REOPEN_ADVICE: &str = "close the store and open it again to recover";

/// An error of the engine. If the file layer caused it, the file layer's error is its source.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EngineError {
    /// A key is empty or too long.
    #[error("key of {got_bytes} bytes: keys have 1 to {max_bytes} bytes")]
    KeyLen {
        /// The key's length.
        got_bytes: usize,
        /// The longest key allowed.
        max_bytes: usize,
    },
    /// A value is too long.
    #[error("value of {got_bytes} bytes: values have at most {max_bytes}")]
    ValueLen {
        /// The value's length.
        got_bytes: usize,
        /// The longest value allowed.
        max_bytes: usize,
    },
    /// A batch is too long for one record of the log.
    #[error("batch of more than {max_bytes} bytes: write it in parts")]
    BatchLen {
        /// The longest batch allowed.
        max_bytes: usize,
    },
    /// A range ends before it starts.
    #[error("range from {} to {}: the end is before the start", start.escape_ascii(), end.escape_ascii())]
    RangeOrder {
        /// Where the range starts.
        start: Vec<u8>,
        /// Where it ends.
        end: Vec<u8>,
    },
    /// An option has a value that cannot work.
    #[error("option {option}: must be {rule}")]
    BadOption {
        /// The option.
        option: &'static str,
        /// What it must be.
        rule: &'static str,
    },
    /// The file layer holds no store, and the caller did not ask to create one.
    #[error("the drive holds no store")]
    NoStore,
    /// There is no keyspace of that name, or it was dropped.
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
    /// There is no checkpoint of that name.
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
    /// The name is not valid for a keyspace or a checkpoint.
    #[error("{name:?} is no name for a {what}: {rule}")]
    BadName {
        /// What the caller wanted to name.
        what: &'static str,
        /// The name, cut to 64 characters.
        name: String,
        /// The rule that names follow.
        rule: &'static str,
    },
    /// The target of a backup is not empty.
    #[error("the target of the backup holds {file_count} files; format it first")]
    BackupTarget {
        /// How many files the target holds.
        file_count: usize,
    },
    /// The drive or its catalog is nearly full. Reads still work, and so do deletes while a
    /// recovery has room for them. Puts work again once there is room.
    #[error(
        "no space {place}: {} must be free for this and {} are; {}; {}, or use a larger drive",
        ByteSize(*.needed_bytes).apart(ByteSize(*.free_bytes))[0],
        ByteSize(*.needed_bytes).apart(ByteSize(*.free_bytes))[1],
        usage(place, .space, *.free_bytes),
        advice(place, .pins)
    )]
    NoSpace {
        /// What is nearly full: "on the drive" or "in the catalog". Or what needs the room: "for a
        /// compaction" that all writes wait for, or "for what the logs hold" after a crash.
        place: &'static str,
        /// How much must be free: for the content of memory, for deletes, and for a compaction.
        needed_bytes: u64,
        /// How much of that is free, or can be made free by cleaning.
        free_bytes: u64,
        /// How the space is used.
        space: Box<SpaceUse>,
        /// What is kept for checkpoints and snapshots.
        pins: Box<Pins>,
    },
    /// An earlier write failed, so it is unknown which writes are durable. Reads still work.
    ///
    /// Also returned for puts and deletes that would wait for a compaction of unreadable data. In
    /// that case everything else still works, and acknowledged writes become durable.
    #[error("refused: {reason}")]
    Poisoned {
        /// What failed, and what to do.
        reason: String,
    },
    /// The requested compaction needs a table that compactions repeatedly failed to read and set
    /// aside. Other reads and writes still work.
    #[error("refused: {reason}")]
    SetAside {
        /// What could not be read, and what to do.
        reason: String,
    },
    /// A snapshot can be used only with the store it was taken from.
    #[error("the snapshot was taken from another store")]
    ForeignSnapshot,
    /// The store is closed.
    #[error("refused: the store is closed")]
    Closed,
    /// This handle is open for reading only.
    #[error("refused: the store is open for reading only")]
    ReadOnly,
    /// The caller waits for background work that cannot continue.
    #[error("stalled while waiting for {what}: no background job can run")]
    Stalled {
        /// What the caller waited for.
        what: &'static str,
    },
    /// The caller's watch stopped a long call. What the call had committed stays; the rest is
    /// undone.
    #[error("{what}: stopped as requested; completed work is kept")]
    Stopped {
        /// What was stopped: "compaction", "check", "waiting for background work".
        what: &'static str,
    },
    /// A structure was written by a version of Imbrex that this program does not know.
    #[error("{what} has format version {got}; this program knows up to {known}; use a newer one")]
    Version {
        /// Which structure.
        what: &'static str,
        /// Its version.
        got: u32,
        /// The newest known.
        known: u32,
    },
    /// A file of the store is damaged, so part of its content cannot be read.
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
        /// What the engine was doing.
        what: String,
        /// The file layer's error.
        #[source]
        source: FilesError,
    },
}

impl EngineError {
    /// Wraps a failure of the file layer with what the engine was doing.
    pub(crate) fn files(what: impl Into<String>) -> impl FnOnce(FilesError) -> EngineError {
        let what = what.into();
        move |source| EngineError::Files { what, source }
    }

    /// Whether the error means damaged or missing data, so that reads of other data may succeed.
    pub fn is_damage(&self) -> bool {
        let EngineError::Files { source, .. } = self else {
            return matches!(self, EngineError::Corrupt { .. });
        };
        source.is_damage()
    }

    /// Whether the drive was full, as seen by the engine or by the file layer.
    pub fn is_no_space(&self) -> bool {
        matches!(
            self,
            EngineError::NoSpace { .. }
                | EngineError::Files { source: FilesError::NoSpace { .. }, .. }
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use imbrex_files::CatalogUse;

    fn refusal(place: &'static str, needed_bytes: u64, free_bytes: u64) -> String {
        let catalog = CatalogUse { capacity_bytes: 4 << 20, used_bytes: 3 << 20 };
        let space = SpaceUse {
            capacity_bytes: 58_490_880,
            live_bytes: 53_899_264,
            dead_bytes: 1_728_512,
            catalog,
            ..SpaceUse::default()
        };
        let (space, pins) = (Box::new(space), Box::default());
        EngineError::NoSpace { place, needed_bytes, free_bytes, space, pins }.to_string()
    }

    /// The sizes were numbers of eight digits.
    #[test]
    fn a_refusal_has_sizes_as_people_read_them() {
        assert_eq!(
            refusal("on the drive", 3_427_200, 1_424_256),
            "no space on the drive: 3.27 MiB must be free for this and 1.36 MiB are; of 55.8 MiB, 51.4 MiB are \
             live, 1.65 MiB dead, 2.73 MiB blank, and 3.02 MiB of the dead and the blank space is reserved; delete \
             data and compact, or use a larger drive"
        );
        let close = refusal("on the drive", 3_427_200, 3_424_256);
        assert!(
            close.contains("3427200 bytes must be free for this and 3424256 bytes are"),
            "{close}"
        );
        let catalog = refusal(IN_THE_CATALOG, 8192, 4096);
        assert!(catalog.contains("; 3.00 MiB of 4.00 MiB are in use; "), "{catalog}");
    }
}
