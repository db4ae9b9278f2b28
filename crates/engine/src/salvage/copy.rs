//! The copy: every entry of a store, as it is read, into another store.

use crate::EngineError;
use crate::batch::WriteBatch;
use crate::db::Db;
use crate::options::{ReadOptions, WriteOptions};
use crate::watch::{Progress, Watch, ask};

/// The length at which a batch is written: short, so that a target takes entries until it is full.
const BATCH_LEN_BYTES: usize = 64 << 10;

/// How much of a keyspace was copied.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct KeyspaceCopy {
    /// The name of the keyspace.
    pub name: String,
    /// The number of entries.
    pub entry_count: u64,
    /// The length of their keys and values.
    pub len_bytes: u64,
}

/// Whether any keyspace of `db` has an entry.
///
/// # Errors
/// [`EngineError::Corrupt`], [`EngineError::Files`].
pub fn has_entries(db: &Db) -> Result<bool, EngineError> {
    for name in db.keyspace_names() {
        let mut iter = db.keyspace(&name)?.iter(ReadOptions::default())?;
        iter.seek_to_first()?;
        if iter.valid() {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Copies all entries of `from` to `to`, keyspace by keyspace, and makes them durable. Keyspaces
/// that `to` does not have are created like its default one. `copied` counts what was written, also
/// if the copy fails.
///
/// # Errors
/// [`EngineError::NoSpace`] and others of [`Db::write`]; [`EngineError::Stopped`]; those of reading
/// `from`. What was written before stays.
pub fn copy_store(
    from: &Db,
    to: &Db,
    copied: &mut Vec<KeyspaceCopy>,
    watch: &mut Watch<'_>,
) -> Result<(), EngineError> {
    for name in from.keyspace_names() {
        copied.push(KeyspaceCopy { name: name.clone(), ..KeyspaceCopy::default() });
        let done_bytes: u64 = copied.iter().map(|copy| copy.len_bytes).sum();
        let count = copied.last_mut().expect("it was pushed above");
        copy_keyspace(from, to, count, done_bytes, watch)?;
    }
    to.flush()
}

fn copy_keyspace(
    from: &Db,
    to: &Db,
    count: &mut KeyspaceCopy,
    done_bytes: u64,
    watch: &mut Watch<'_>,
) -> Result<(), EngineError> {
    let options =
        ReadOptions { fill_cache: false, read_ahead_bytes: 1 << 20, ..ReadOptions::default() };
    let mut iter = from.keyspace(&count.name)?.iter(options)?;
    iter.seek_to_first()?;
    let target = match to.keyspace(&count.name) {
        Err(EngineError::NoKeyspace { .. }) => {
            to.create_keyspace(&count.name, to.shared.default.options.clone())?
        }
        found => found?,
    };
    let mut batch = WriteBatch::new();
    let mut waiting = KeyspaceCopy::default();
    loop {
        if !iter.valid() || waiting.len_bytes as usize >= BATCH_LEN_BYTES {
            if !batch.is_empty() {
                to.write_and_clear(&mut batch, WriteOptions::default())?;
            }
            count.entry_count += waiting.entry_count;
            count.len_bytes += waiting.len_bytes;
            waiting = KeyspaceCopy::default();
            let progress =
                Progress { done_bytes: done_bytes + count.len_bytes, ..Progress::default() };
            ask(watch, "a copy of a store", progress)?;
            if !iter.valid() {
                return Ok(());
            }
        }
        batch.put(&target, iter.key(), iter.value())?;
        waiting.entry_count += 1;
        waiting.len_bytes += (iter.key().len() + iter.value().len()) as u64;
        iter.next()?;
    }
}
